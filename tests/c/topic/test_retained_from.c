/* The records that a topic keeps: the rules, the view of readers, and stops and failures at every file operation of a
 * sweep.
 *
 * OFFSETLOG_DEPTH=long runs more workloads and draws more disk states at each point. */
#include <errno.h>

#include "topic_scene.h"

static topic_scene *opened(void) {
    ol_error error;
    topic_scene *s = malloc(sizeof *s);
    scene_begin(s);
    OL_CHECK_OK(scene_open(s, &error), &error);
    return s;
}

static void finish(topic_scene *s) {
    scene_end(s);
    free(s);
}

static int produce(topic_scene *s, int count, int64_t timestamp, ol_error *error) {
    uint8_t bytes[SENT_BYTES_MAX];
    ol_appended appended;
    ol_produce_rules rules = sent_rules();
    sent_batch sent = sent_plain(count);
    sent.first_timestamp = timestamp;
    return ol_topic_log_produce(s->topic, sent_encode(&sent, bytes), &rules, &appended, error);
}

/* Segments whose records are of `timestamp`; the last one is active. */
static void fill(topic_scene *s, int segments, int64_t timestamp) {
    ol_error error;
    for (int i = 0; i < segments; i++) {
        if (i > 0) OL_CHECK_OK(ol_log_roll_active(log_of(s), &error), &error);
        for (int k = 0; k < 10; k++) OL_CHECK_OK(produce(s, 10, timestamp, &error), &error);
    }
}

static size_t count_segments(const topic_scene *s) {
    ol_log_segment_info info;
    size_t count = 0;
    while (ol_log_segment_at(log_of(s), count, &info)) count++;
    return count;
}

static int64_t segment_size(const topic_scene *s, size_t index) {
    ol_log_segment_info info;
    OL_CHECK(ol_log_segment_at(log_of(s), index, &info));
    return info.size;
}

static ol_retention_rules rules_of(int64_t retention_ms, int64_t retention_bytes) {
    return (ol_retention_rules){.now_ms = NOW, .retention_ms = retention_ms, .retention_bytes = retention_bytes, .below = INT64_MAX};
}

static int64_t retained_from(topic_scene *s, ol_retention_rules rules) {
    ol_error error;
    int64_t start = -1;
    OL_CHECK_OK(ol_topic_log_retained_from(s->topic, &rules, &start, &error), &error);
    return start;
}

static size_t count_files(const char *directory, const char *ending) {
    size_t count = 0;
    DIR *opened_directory = opendir(directory);
    for (struct dirent *entry = readdir(opened_directory); entry != NULL; entry = readdir(opened_directory)) {
        size_t length = strlen(entry->d_name), size = strlen(ending);
        count += length >= size && strcmp(entry->d_name + length - size, ending) == 0;
    }
    closedir(opened_directory);
    return count;
}

/* All records from the log start to the end are there, and none below. */
static void check_content(const topic_scene *s) {
    static uint8_t buffer[64 << 10];
    ol_error error;
    size_t size = 0;
    ol_log *log = log_of(s);
    int64_t offset = ol_log_start(log), end = ol_log_end(log);
    if (offset > 0) OL_CHECK_INT(ol_log_read(log, offset - 1, end, buffer, sizeof buffer, &size, &error), OL_OUT_OF_RANGE);
    while (offset < end) {
        OL_CHECK_OK(ol_log_read(log, offset, end, buffer, sizeof buffer, &size, &error), &error);
        OL_CHECK(size > 0);
        for (size_t at = 0; at < size;) {
            ol_batch batch;
            OL_CHECK_OK(ol_batch_parse(buffer + at, size - at, &batch, &error), &error);
            OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
            OL_CHECK(batch.base_offset <= offset);
            offset = ol_batch_next_offset(&batch);
            at += batch.size;
        }
    }
    OL_CHECK_INT(offset, end);
}

/* ------------------------------------------------------------------------------------------------ the rules */

OL_TEST(old_segments_go_and_younger_ones_stay) {
    topic_scene *s = opened();
    fill(s, 3, NOW - 5000);
    ol_error error;
    OL_CHECK_OK(ol_log_roll_active(log_of(s), &error), &error);
    fill(s, 2, NOW - 1000);
    OL_CHECK_INT(retained_from(s, rules_of(5000, -1)), 0);
    OL_CHECK_INT(retained_from(s, rules_of(-1, -1)), 0);
    int64_t start = retained_from(s, rules_of(4000, -1));
    OL_CHECK_INT(start, 300);
    OL_CHECK_OK(ol_log_delete_below(log_of(s), start, &error), &error);
    OL_CHECK_INT(ol_log_start(log_of(s)), 300);
    OL_CHECK_INT(count_segments(s), 2);
    OL_CHECK_INT(count_files(s->partition, ".log.deleted"), 3);
    OL_CHECK_INT(count_files(s->partition, ".timeindex.deleted"), 3);
    OL_CHECK_INT(count_files(s->partition, ".log"), 2);
    check_content(s);
    OL_CHECK_INT(retained_from(s, rules_of(4000, -1)), 300);
    /* Kafka leaves such a start out of the checkpoint: the log says by itself what is gone. */
    OL_CHECK_OK(reopen(s, false, &error), &error);
    OL_CHECK_INT(ol_log_start(log_of(s)), 300);
    OL_CHECK_INT(count_files(s->partition, ".deleted"), 0);
    check_content(s);
    finish(s);
}

OL_TEST(the_active_segment_is_rolled_when_all_of_it_is_old) {
    topic_scene *s = opened();
    fill(s, 2, NOW - 5000);
    OL_CHECK_INT(retained_from(s, rules_of(5000, -1)), 0);
    OL_CHECK_INT(count_segments(s), 2);
    OL_CHECK_INT(retained_from(s, rules_of(4000, -1)), 200);
    OL_CHECK_INT(count_segments(s), 3);
    OL_CHECK_INT(ol_log_flushed(log_of(s)), 200);
    ol_error error;
    OL_CHECK_OK(ol_log_delete_below(log_of(s), 200, &error), &error);
    OL_CHECK_INT(count_segments(s), 1);
    OL_CHECK_INT(ol_log_start(log_of(s)), 200);
    OL_CHECK_INT(retained_from(s, rules_of(4000, -1)), 200);
    OL_CHECK_INT(count_segments(s), 1);
    OL_CHECK_OK(produce(s, 5, NOW, &error), &error);
    check_content(s);
    finish(s);
}

/* The time index does not have the newest record of the active segment. */
OL_TEST(one_young_record_keeps_the_active_segment) {
    topic_scene *s = opened();
    ol_error error;
    fill(s, 1, NOW - 5000);
    OL_CHECK_OK(produce(s, 1, NOW, &error), &error);
    OL_CHECK_INT(retained_from(s, rules_of(1000, -1)), 0);
    finish(s);
}

OL_TEST(a_time_to_come_keeps_a_segment) {
    topic_scene *s = opened();
    fill(s, 2, NOW + 5000);
    OL_CHECK_INT(retained_from(s, rules_of(0, -1)), 0);
    finish(s);
}

OL_TEST(the_oldest_go_while_the_others_are_large_enough) {
    topic_scene *s = opened();
    fill(s, 4, NOW);
    int64_t each = segment_size(s, 0), all = ol_log_size_bytes(log_of(s));
    OL_CHECK_INT(retained_from(s, rules_of(-1, all + 1)), 0);
    OL_CHECK_INT(retained_from(s, rules_of(-1, all)), 0);
    OL_CHECK_INT(retained_from(s, rules_of(-1, all - each + 1)), 0);
    OL_CHECK_INT(retained_from(s, rules_of(-1, all - each)), 100);
    OL_CHECK_INT(retained_from(s, rules_of(-1, all - 2 * each - 1)), 200);
    OL_CHECK_INT(retained_from(s, rules_of(-1, 1)), 300);
    OL_CHECK_INT(retained_from(s, rules_of(-1, 0)), 400);
    finish(s);
}

OL_TEST(nothing_goes_that_readers_may_not_see_yet) {
    topic_scene *s = opened();
    fill(s, 3, NOW - 5000);
    ol_retention_rules rules = rules_of(1000, -1);
    rules.below = 199;
    OL_CHECK_INT(retained_from(s, rules), 100);
    rules.below = 200;
    OL_CHECK_INT(retained_from(s, rules), 200);
    rules.below = 299;
    OL_CHECK_INT(retained_from(s, rules), 200);
    OL_CHECK_INT(count_segments(s), 3);
    finish(s);
}

OL_TEST(segments_below_the_start_go_by_no_other_rule) {
    topic_scene *s = opened();
    ol_error error;
    fill(s, 3, NOW);
    OL_CHECK_OK(flush(s, &error), &error);
    ol_topic_log_abandon(s->topic);
    s->stored_start = 250;
    OL_CHECK_OK(scene_open(s, &error), &error);
    OL_CHECK_INT(ol_log_start(log_of(s)), 250);
    OL_CHECK_INT(count_segments(s), 3);
    OL_CHECK_INT(retained_from(s, rules_of(-1, -1)), 250);
    OL_CHECK_OK(ol_log_delete_below(log_of(s), 250, &error), &error);
    OL_CHECK_INT(count_segments(s), 1);
    check_content(s);
    finish(s);
}

OL_TEST(what_is_not_flushed_is_no_start) {
    topic_scene *s = opened();
    ol_error error;
    fill(s, 1, NOW);
    OL_CHECK_INT(ol_log_delete_below(log_of(s), 100, &error), OL_INVALID);
    OL_CHECK_INT(ol_log_start(log_of(s)), 0);
    finish(s);
}

/* ------------------------------------------------------------------------------------------------ readers, epochs */

OL_TEST(a_reader_in_a_segment_that_goes_keeps_its_bytes_and_goes_on_at_the_start) {
    topic_scene *s = opened();
    ol_error error;
    fill(s, 3, NOW - 5000);
    OL_CHECK_OK(flush(s, &error), &error);
    ol_log_reader *reader;
    ol_log_piece piece;
    OL_CHECK_OK(ol_log_reader_open(log_of(s), 0, &reader, &error), &error);
    OL_CHECK_OK(ol_log_reader_next(reader, 1, &piece, &error), &error);
    OL_CHECK_INT(ol_log_reader_offset(reader), 10);
    OL_CHECK_OK(ol_log_delete_below(log_of(s), 200, &error), &error);
    ol_batch batch;
    OL_CHECK_OK(ol_batch_parse(piece.data, piece.size, &batch, &error), &error);
    OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
    OL_CHECK_OK(ol_log_reader_next(reader, 1, &piece, &error), &error);
    OL_CHECK_INT(piece.base_offset, 200);
    ol_log_reader_close(reader);
    check_content(s);
    finish(s);
}

OL_TEST(epochs_below_the_start_are_forgotten) {
    topic_scene *s = opened();
    ol_error error;
    for (int i = 0; i < 3; i++) {
        fill(s, 1, NOW);
        int64_t end;
        OL_CHECK_OK(ol_topic_log_close(s->topic, &end, &error), &error);
        ol_log_recovery recovery;
        OL_CHECK_OK(ol_topic_log_open(&s->options, i + 1, &s->topic, &recovery, &error), &error);
        OL_CHECK_OK(ol_log_roll_active(log_of(s), &error), &error);
    }
    OL_CHECK_INT(retained_from(s, rules_of(-1, 1)), 200);
    OL_CHECK_OK(ol_log_delete_below(log_of(s), 200, &error), &error);
    ol_leader_epoch epochs[8];
    OL_CHECK_INT(ol_log_epochs(log_of(s), INT64_MAX, epochs, 8), 2);
    OL_CHECK_INT(epochs[0].epoch, 2);
    OL_CHECK_INT(epochs[0].start_offset, 200);
    finish(s);
}

/* ------------------------------------------------------------------------------------------------ settings */

OL_TEST(a_change_of_settings_counts_at_once) {
    topic_scene *s = opened();
    ol_error error;
    ol_log_config config = s->options.config;
    OL_CHECK_OK(produce(s, 50, NOW, &error), &error);
    config.segment_bytes = 5 << 10;
    config.segment_ms = 1000;
    OL_CHECK_OK(ol_topic_log_change_config(s->topic, &config, &error), &error);
    OL_CHECK_OK(produce(s, 10, NOW + 900, &error), &error);
    OL_CHECK_INT(count_segments(s), 1);
    OL_CHECK_OK(produce(s, 10, NOW + 2000, &error), &error);
    OL_CHECK_INT(count_segments(s), 2);
    while (count_segments(s) == 2) OL_CHECK_OK(produce(s, 10, NOW + 2000, &error), &error);
    OL_CHECK(segment_size(s, 1) > SEGMENT_BYTES && segment_size(s, 1) <= 5 << 10);
    int64_t filled = segment_size(s, 1);
    /* Smaller than the active one is by then. */
    while (segment_size(s, 2) + 200 < filled) OL_CHECK_OK(produce(s, 10, NOW + 2000, &error), &error);
    config.segment_bytes = SEGMENT_BYTES;
    OL_CHECK_OK(ol_topic_log_change_config(s->topic, &config, &error), &error);
    OL_CHECK_OK(produce(s, 10, NOW + 2000, &error), &error);
    OL_CHECK_INT(count_segments(s), 4);
    config.segment_bytes = 1;
    OL_CHECK_INT(ol_topic_log_change_config(s->topic, &config, &error), OL_INVALID);
    OL_CHECK_OK(produce(s, 10, NOW + 2000, &error), &error);
    check_content(s);
    finish(s);
}

/* ------------------------------------------------------------------------------------------------ stops and failures */

static int sweep(topic_scene *s, int64_t retention_ms, int64_t retention_bytes, ol_error *error) {
    ol_retention_rules rules = rules_of(retention_ms, retention_bytes);
    int64_t start = 0;
    int status = ol_topic_log_retained_from(s->topic, &rules, &start, error);
    if (status != OL_OK) return status;
    /* The owner's checkpoint, which has reached the disk. */
    if (start > s->stored_start) s->stored_start = start;
    return ol_log_delete_below(log_of(s), start, error);
}

static int append_some(topic_scene *s, ol_error *error) {
    int status = OL_OK;
    for (uint64_t left = 6 + ol_test_below(20); left > 0 && status == OL_OK; left--) {
        status = produce(s, 1 + (int)ol_test_below(30), NOW - 10000 + ol_log_end(log_of(s)), error);
    }
    return status;
}

static int step(topic_scene *s, uint64_t what, ol_error *error) {
    switch (what) {
        case 0: return flush(s, error);
        case 1: return sweep(s, -1, 2 * SEGMENT_BYTES, error);
        case 2: return sweep(s, 10000 - ol_log_end(log_of(s)) / 2, -1, error);
        case 3: return ol_test_below(3) ? OL_OK : sweep(s, 0, -1, error);
        case 4: return reopen(s, ol_test_below(2), error);
        default: return append_some(s, error);
    }
}

static int run_steps(topic_scene *s, ol_error *error) {
    static const uint8_t fixed[] = {9, 9, 1, 9, 0, 2, 9, 4, 1, 9, 9, 3, 1};
    int status = scene_open(s, error);
    for (size_t i = 0; i < sizeof fixed + 6 && status == OL_OK; i++) {
        status = step(s, i < sizeof fixed ? fixed[i] : ol_test_below(8), error);
    }
    return status;
}

/* Opens what a disk could hold: nothing is accused, the log begins where it should, and a sweep works. */
static void check_disk(const topic_scene *of, int64_t stop_at, int draw) {
    ol_error error;
    topic_scene *s = malloc(sizeof *s);
    scene_open_disk(s, of, stop_at, draw);
    OL_CHECK_INT(ol_log_start(log_of(s)), of->stored_start);
    OL_CHECK_INT(count_files(s->partition, ".deleted"), 0);
    check_content(s);
    OL_CHECK_OK(append_some(s, &error), &error);
    OL_CHECK_OK(sweep(s, -1, SEGMENT_BYTES, &error), &error);
    check_content(s);
    OL_CHECK_OK(reopen(s, true, &error), &error);
    check_content(s);
    finish(s);
}

OL_TEST(a_stop_at_every_operation_leaves_a_log_that_opens) {
    uint64_t seeds = (uint64_t)ol_test_depth(1, 12), first = ol_test_random() >> 32;
    int draws = (int)ol_test_depth(2, 6);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        for (int64_t stop_at = 1;; stop_at++) {
            ol_error error;
            topic_scene *s = malloc(sizeof *s);
            scene_begin_on_disk(s, seed);
            ol_fault_fs_stop_at(s->disk, stop_at);
            int status = run_steps(s, &error);
            OL_CHECK(status == OL_OK || status == OL_CRASHED);
            bool stopped = ol_fault_fs_stopped(s->disk);
            for (int draw = 0; draw < draws && stopped && s->created; draw++) check_disk(s, stop_at, draw);
            scene_abandon(s);
            free(s);
            if (!stopped) break;
        }
    }
}

/* An operation fails once; the steps go on, and what is on the disk then opens. */
OL_TEST(a_failure_of_every_operation_leaves_a_log_that_opens) {
    uint64_t seeds = (uint64_t)ol_test_depth(1, 12), first = ol_test_random() >> 32;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        for (int64_t fail_at = 1;; fail_at++) {
            ol_error error;
            topic_scene *s = malloc(sizeof *s);
            scene_begin_on_disk(s, seed);
            ol_fault_fs_fail_at(s->disk, fail_at, EIO);
            int status = run_steps(s, &error);
            bool failed = ol_fault_fs_operations(s->disk) >= fail_at;
            OL_CHECK(status == OL_OK || failed);
            /* A failed sweep is repeated by the next one. */
            if (status != OL_OK && s->topic != NULL && !ol_log_has_failed(log_of(s))) {
                OL_CHECK_OK(sweep(s, -1, SEGMENT_BYTES, &error), &error);
                check_content(s);
                OL_CHECK_OK(flush(s, &error), &error);
                OL_CHECK_INT(count_files(s->partition, ".log"), count_segments(s));
            }
            if (s->created) check_disk(s, fail_at, 0);
            scene_abandon(s);
            free(s);
            if (!failed) break;
        }
    }
}

OL_TEST_MAIN()
