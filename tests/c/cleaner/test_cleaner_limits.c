/* The cleaner where it meets damage, limits and others: quarantine, small maps, stops, and commits that go on. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "cleaner_findings.h"
#include "flip_bit.h"
#include "golden_batches.h"
#include "history/state_at.h"
#include "epoch_of.h"

/* ------------------------------------------------------------------------------------------------ damage */

static char *segment_path(world *w, int64_t base) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%020lld.log", w->directory, (long long)base);
    return path;
}

static uint8_t *read_all(const char *path, size_t *size) {
    uint8_t *data;
    ol_error error;
    OL_CHECK_OK(ol_fs_read_file(ol_fs_posix(), path, 1 << 24, &data, size, &error), &error);
    return data;
}

/* Compares the log before and after one clean, by every way of reading it. */
static ol_clean_report clean_damaged(world *w, ol_clean_options *options) {
    ol_state before, after;
    replay_log(w, INT64_MAX, &before);
    ol_clean_report report = clean_with(w, options);
    replay_log(w, INT64_MAX, &after);
    check_same_state(w, &before, &after);
    ol_state_destroy(&before);
    ol_state_destroy(&after);
    return report;
}

OL_TEST(a_damaged_segment_is_left_alone) {
    for (int position = 0; position < 2; position++) {
        world w;
        open_world(&w, 1 << 20);
        append_position(&w, -1, "g", 0, 1);
        int64_t value = append_position(&w, -1, "g", 1, 1);
        append_position(&w, -1, "g", 0, 2);
        roll_world(&w);
        int64_t damaged = world_end(&w);
        append_position(&w, -1, "g", 5, 1);
        append_position(&w, -1, "g", 5, 2);
        roll_world(&w);
        int64_t above = world_end(&w);
        append_position(&w, 900, "g", 0, 3);
        append_marker(&w, 900, OL_CONTROL_COMMIT);
        append_position(&w, -1, "g", 0, 4);
        int64_t tombstone = append_position(&w, -1, "g", 1, -1);
        append_position(&w, 900, "g", 7, 4);
        append_marker(&w, 900, OL_CONTROL_COMMIT);
        append_position(&w, -1, "g", 8, 4);
        roll_world(&w);
        flip_bit(segment_path(&w, damaged), position == 0 ? 30 : 110);
        size_t size, size_after;
        uint8_t *bytes = read_all(segment_path(&w, damaged), &size);
        ol_clean_options options = clean_options(&w);
        options.delete_retention_ms = 0;
        for (int i = 0; i < 4; i++) {
            ol_clean_report report = clean_damaged(&w, &options);
            OL_CHECK(report.complete);
            OL_CHECK_INT(report.quarantined, 1);
            OL_CHECK_INT(report.quarantine[0].segment_base, damaged);
            OL_CHECK(strstr(report.quarantine[0].error.path, segment_path(&w, damaged)) != NULL);
            OL_CHECK(report.quarantine[0].error.position >= 0 && report.quarantine[0].error.offset >= damaged);
            OL_CHECK(report.quarantine[0].error.reason[0] != 0);
            options.first_dirty = report.end;
        }
        uint8_t *left = read_all(segment_path(&w, damaged), &size_after);
        OL_CHECK(size == size_after && memcmp(bytes, left, size) == 0);
        free(bytes);
        free(left);
        /* Everything else went on, but the tombstone and the marker above it stay. */
        OL_CHECK(!has_batch(&w, 0, NULL) && !has_batch(&w, 2, NULL) && !has_batch(&w, above, NULL) && !has_batch(&w, value, NULL));
        OL_CHECK(has_batch(&w, tombstone, NULL) && has_batch(&w, above + 1, NULL));
        flip_bit(segment_path(&w, damaged), position == 0 ? 30 : 110);
        options.first_dirty = -1;
        for (int i = 0; i < 4; i++) clean_damaged(&w, &options);
        OL_CHECK(!has_batch(&w, tombstone, NULL) && !has_batch(&w, above + 1, NULL) && !has_batch(&w, damaged, NULL));
        check_log(&w, INT64_MAX);
        close_world(&w);
    }
}

/* Transactions that were open where bytes cannot be read are left as they are. */
OL_TEST(a_marker_that_cannot_be_read_decides_nothing) {
    world w;
    open_world(&w, 1 << 20);
    int64_t plain = append_position(&w, -1, "g", 0, 1);
    int64_t value = append_position(&w, 900, "g", 0, 2);
    append_position(&w, 901, "g", 1, 2);
    roll_world(&w);
    int64_t damaged = world_end(&w);
    append_marker(&w, 900, OL_CONTROL_ABORT);
    roll_world(&w);
    int64_t later = append_position(&w, 900, "g", 2, 2);
    append_marker(&w, 900, OL_CONTROL_COMMIT);
    append_marker(&w, 901, OL_CONTROL_COMMIT);
    append_position(&w, -1, "g", 9, 2);
    roll_world(&w);
    flip_bit(segment_path(&w, damaged), 70);
    ol_clean_options options = clean_options(&w);
    ol_clean_report report = clean_damaged(&w, &options);
    OL_CHECK_INT(report.quarantined, 1);
    OL_CHECK(has_batch(&w, plain, NULL) && has_batch(&w, value, NULL) && has_batch(&w, later, NULL));
    flip_bit(segment_path(&w, damaged), 70);
    options.first_dirty = -1;
    report = clean_damaged(&w, &options);
    OL_CHECK(has_batch(&w, plain, NULL) && !has_batch(&w, value, NULL) && has_batch(&w, later, NULL));
    check_log(&w, INT64_MAX);
    close_world(&w);
}

OL_TEST(offsets_that_cannot_be_are_damage) {
    world w;
    open_world(&w, 1 << 20);
    append_position(&w, -1, "g", 0, 1);
    append_position(&w, -1, "g", 0, 2);
    append_position(&w, -1, "g", 1, 3);
    roll_world(&w);
    append_position(&w, -1, "g", 0, 4);
    roll_world(&w);
    /* No checksum covers a base offset. */
    flip_bit(segment_path(&w, 0), 7);
    ol_clean_options options = clean_options(&w);
    ol_clean_report report = clean_with(&w, &options);
    OL_CHECK_INT(report.quarantined, 1);
    OL_CHECK_INT(report.quarantine[0].segment_base, 0);
    OL_CHECK_INT(report.records.superseded, 0);
    flip_bit(segment_path(&w, 0), 7);
    OL_CHECK_INT(clean_with(&w, &options).quarantined, 0);
    close_world(&w);
}

/* Flips a byte as soon as the cleaner writes a segment: after its first pass, which reads the keys. */
static ol_fs rotting_fs;
static char rotting_path[400];
static off_t rotting_position;

static int open_and_rot(ol_fs *fs, const char *path, ol_open_mode mode, ol_file **file, ol_error *error) {
    if (rotting_path[0] != 0 && strstr(path, ".log.cleaned") != NULL) {
        flip_bit(rotting_path, rotting_position);
        rotting_path[0] = 0;
    }
    return ol_fs_posix()->open(fs, path, mode, file, error);
}

OL_TEST(bytes_that_rot_between_the_passes_are_left_as_they_are) {
    world w;
    open_world(&w, 1 << 20);
    close_partition(w.partition);
    rotting_fs = *ol_fs_posix();
    rotting_fs.open = open_and_rot;
    w.options.log.fs = &rotting_fs;
    open_world_partition(&w);
    append_position(&w, -1, "g", 0, 1);
    off_t size_of_one = (off_t)ol_log_size_bytes(ol_partition_log(w.partition));
    append_position(&w, -1, "g", 1, 1);
    append_position(&w, -1, "g", 2, 1);
    append_position(&w, -1, "g", 0, 2);
    roll_world(&w);
    append_position(&w, -1, "g", 9, 1);
    roll_world(&w);
    size_t size, size_after;
    uint8_t *bytes = read_all(segment_path(&w, 0), &size);
    /* In the value of the first record that stays. */
    rotting_position = 2 * size_of_one - 20;
    bytes[rotting_position] ^= 0x10;
    snprintf(rotting_path, sizeof rotting_path, "%s", segment_path(&w, 0));
    ol_clean_options options = clean_options(&w);
    ol_clean_report report = clean_with(&w, &options);
    OL_CHECK_INT(rotting_path[0], 0);
    OL_CHECK_INT(report.quarantined, 1);
    OL_CHECK_INT(report.quarantine[0].segment_base, 0);
    OL_CHECK_INT(report.quarantine[0].error.offset, 1);
    uint8_t *left = read_all(segment_path(&w, 0), &size_after);
    OL_CHECK(size == size_after && memcmp(bytes, left, size) == 0);
    free(bytes);
    free(left);
    flip_bit(segment_path(&w, 0), rotting_position);
    options.first_dirty = -1;
    OL_CHECK_INT(clean_with(&w, &options).quarantined, 0);
    OL_CHECK(!has_batch(&w, 0, NULL) && has_batch(&w, 1, NULL));
    check_log(&w, INT64_MAX);
    close_world(&w);
}

static void clear(const char *path, off_t position, size_t size) {
    static const uint8_t zeros[8];
    int file = open(path, O_RDWR);
    OL_CHECK(file >= 0 && pwrite(file, zeros, size, position) == (ssize_t)size);
    close(file);
}

/* The base offset of such a batch is no more right than its checksum. */
OL_TEST(a_batch_whose_header_was_cleared_is_reported_where_the_batch_before_it_ended) {
    world w;
    open_world(&w, 1 << 20);
    append_position(&w, -1, "g", 0, 1);
    append_position(&w, -1, "g", 1, 1);
    off_t third = (off_t)ol_log_size_bytes(ol_partition_log(w.partition));
    append_position(&w, -1, "g", 2, 1);
    roll_world(&w);
    append_position(&w, -1, "g", 9, 1);
    roll_world(&w);
    clear(segment_path(&w, 0), third + OL_BATCH_AT_BASE_OFFSET, 8);
    clear(segment_path(&w, 0), third + OL_BATCH_AT_CRC, 4);
    ol_clean_options options = clean_options(&w);
    ol_clean_report report = clean_damaged(&w, &options);
    OL_CHECK_INT(report.quarantined, 1);
    OL_CHECK_INT(report.quarantine[0].segment_base, 0);
    OL_CHECK_INT(report.quarantine[0].error.offset, 2);
    OL_CHECK_INT(report.quarantine[0].error.position, third);
    close_world(&w);
}

OL_TEST(many_damaged_segments_are_reported_and_everything_else_is_cleaned) {
    world w;
    int64_t bases[64];
    open_world(&w, 4096);
    for (int i = 0; i < 1200; i++) append_position(&w, i % 7 == 0 ? 900 : -1, "g", i % 20, i);
    append_marker(&w, 900, OL_CONTROL_COMMIT);
    roll_world(&w);
    size_t count = segments_of(&w, bases);
    OL_CHECK(count > 25);
    for (size_t i = 1; i + 1 < count; i += 2) flip_bit(segment_path(&w, bases[i]), 90);
    ol_clean_options options = clean_options(&w);
    options.map_bytes = OL_CLEAN_MAP_BYTES_MIN;
    ol_clean_report report = clean_damaged(&w, &options);
    OL_CHECK(report.complete);
    OL_CHECK_INT(report.quarantined, (count - 1) / 2);
    OL_CHECK(report.records.superseded > 100);
    close_world(&w);
}

/* ------------------------------------------------------------------------------------------------ compression */

OL_TEST(a_batch_that_cannot_be_compressed_keeps_its_tombstones) {
    world w;
    uint8_t key[64], value[64];
    open_world(&w, 1 << 20);
    built *batch = begin_batch(0, OL_CODEC_ZSTD, -1, w.now);
    add_record(batch, 0, w.now, position_key(key, 1, "g", "t", 0), position_value(value, 1, 3));
    add_record(batch, 1, w.now, position_key(key, 1, "g", "t", 1), position_value(value, 1, 3));
    append_bytes(&w, end_batch(batch));
    int64_t tombstone = append_position(&w, -1, "g", 0, -1);
    append_position(&w, -1, "g", 2, 1);
    roll_world(&w);
    ol_clean_options options = clean_options(&w);
    options.delete_retention_ms = 0;
    for (int i = 0; i < 3; i++) {
        ol_clean_report report = clean_with(&w, &options);
        check_log(&w, INT64_MAX);
        OL_CHECK_INT(report.batches_not_compressed, 1);
        OL_CHECK(has_batch(&w, tombstone, NULL));
        options.first_dirty = report.end;
    }
    ol_compressor compressor = {stored_compress_always, world_release, &w.compressing};
    options.compressor = &compressor;
    clean_with(&w, &options);
    check_log(&w, INT64_MAX);
    ol_batch left;
    OL_CHECK(has_batch(&w, 0, &left));
    OL_CHECK_INT(left.record_count, 1);
    OL_CHECK_INT(ol_batch_codec(&left), OL_CODEC_ZSTD);
    OL_CHECK(!has_batch(&w, tombstone, NULL));
    close_world(&w);
}

OL_TEST(old_tombstones_go_by_the_age_of_files) {
    world w;
    uint8_t key[64], value[64], message[256];
    open_world(&w, 1 << 20);
    uint8_t *end = put_message(message, 0, 1, 0, w.now, position_key(key, 1, "g", "t", 0), position_value(value, 1, 1));
    append_bytes(&w, ol_slice_of(message, (size_t)(end - message)));
    end = put_message(message, 1, 0, 0, w.now, position_key(key, 1, "g", "t", 0), ol_slice_null());
    append_bytes(&w, ol_slice_of(message, (size_t)(end - message)));
    roll_world(&w);
    append_position(&w, -1, "g", 1, 1);
    roll_world(&w);
    ol_clean_options options = clean_options(&w);
    options.delete_retention_ms = 60000;
    options.first_dirty = 1;
    ol_clean_report report = clean_with(&w, &options);
    check_log(&w, INT64_MAX);
    OL_CHECK(has_batch(&w, 1, NULL));
    /* A newer file is clean by now, and the tombstone's is older by more than the retention. */
    append_position(&w, -1, "g", 2, 1);
    roll_world(&w);
    options.first_dirty = report.end;
    report = clean_with(&w, &options);
    OL_CHECK(has_batch(&w, 1, NULL));
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    OL_CHECK(utimensat(AT_FDCWD, segment_path(&w, 0), times, 0) == 0);
    append_position(&w, -1, "g", 3, 1);
    roll_world(&w);
    options.first_dirty = world_end(&w);
    report = clean_with(&w, &options);
    check_log(&w, INT64_MAX);
    OL_CHECK_INT(report.records.tombstones_dropped, 1);
    OL_CHECK(!has_batch(&w, 1, NULL));
    close_world(&w);
}

/* ------------------------------------------------------------------------------------------------ runs */

OL_TEST(a_small_map_takes_several_passes) {
    world w;
    open_world(&w, 16384);
    for (int i = 0; i < 3000; i++) append_position(&w, -1, "g", i % 1000, i);
    roll_world(&w);
    ol_clean_options options = clean_options(&w);
    options.map_bytes = OL_CLEAN_MAP_BYTES_MIN;
    ol_clean_report report = clean_with(&w, &options);
    check_log(&w, INT64_MAX);
    OL_CHECK(report.complete && report.passes > 10);
    OL_CHECK_INT(report.records.superseded, 2000);
    OL_CHECK_INT(count_log(&w).records, 1000);
    close_world(&w);
}

OL_TEST(the_table_answers_for_keys_that_do_not_fit) {
    ol_partition_options settings = fixture_options(fresh_directory());
    settings.log.config.segment_bytes = 65536;
    settings.batch_bytes_max = 32768;
    ol_partition *partition = open_partition(&settings, true);
    ol_error error;
    for (int i = 0; i < 6000; i++) commit_one(partition, "g", i % 2 ? "t" : "u", i % 1000, i);
    for (int i = 0; i < 50; i++) delete_one(partition, "g", "t", 2 * i + 1);
    OL_CHECK_OK(ol_partition_roll(partition, &error), &error);
    ol_digest before = digest_of(partition);
    ol_clean_options options;
    ol_clean_options_init(&options);
    options.now_ms = fixture_now;
    options.map_bytes = OL_CLEAN_MAP_BYTES_MIN;
    options.use_table = true;
    static ol_clean_report report;
    OL_CHECK_OK(ol_cleaner_run(partition, &options, &report, &error), &error);
    OL_CHECK(report.complete);
    OL_CHECK_INT(report.passes, 1);
    OL_CHECK_INT(report.keys, 50);
    OL_CHECK_INT(report.records.kept, 1000);
    check_same_digest(before, digest_of(partition));
    close_partition(partition);
    partition = open_partition(&settings, true);
    check_same_digest(before, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

/* Its cell is that of the present: at the end of the run the transaction was open, and the value before it counted. */
OL_TEST(the_table_does_not_answer_for_what_is_pending_at_the_end_of_the_run) {
    ol_partition_options settings = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&settings, true);
    static ol_clean_report report;
    ol_error error;
    for (int i = 0; i < 1000; i++) commit_one(partition, "g", "t", i % 999, i);
    commit_pending(partition, 7, "g", "t", 5, 5000);
    OL_CHECK_OK(ol_partition_roll(partition, &error), &error);
    end_transaction(partition, 7, OL_CONTROL_COMMIT);
    ol_clean_options options;
    ol_clean_options_init(&options);
    options.map_bytes = OL_CLEAN_MAP_BYTES_MIN;
    options.use_table = true;
    OL_CHECK_OK(ol_cleaner_run(partition, &options, &report, &error), &error);
    OL_CHECK(report.complete);
    OL_CHECK_INT(report.floor, 1001);
    OL_CHECK_INT(report.end, 1000);
    OL_CHECK_INT(report.records.superseded, 1);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 5), 5000);
    ol_state_at past = {.cut = report.floor};
    ol_timeline_filter everything = {0};
    ol_timeline_facts facts;
    ol_position_value value;
    OL_CHECK_OK(ol_state_at_make(partition, &everything, &past, 1, NULL, &facts, &error), &error);
    const ol_table *table = past.state.table;
    ol_pair_name name = ol_table_name(table, text("g"), ol_table_group_hash(table, text("g")), text("t"));
    OL_CHECK(ol_table_get(table, &name, 5, &value));
    OL_CHECK_INT(value.offset, 5);
    ol_state_destroy(&past.state);
    close_partition(partition);
    remove_fixture();
}

typedef struct meanwhile {
    world *w;
    _Atomic bool stop;
    int calls;
    int status;
    bool truncate;
    int64_t floor;
} meanwhile;

static int raise_and_meddle(void *context, int64_t floor, ol_error *error) {
    meanwhile *during = context;
    during->calls++;
    during->floor = floor;
    if (during->truncate) {
        OL_CHECK_OK(ol_partition_truncate(during->w->partition, epoch_of(during->w->partition), world_end(during->w) - 1, error), error);
    }
    if (during->status == OL_OK) return OL_OK;
    during->stop = true;
    return during->status < 0 ? OL_OK : ol_fail(error, during->status, "meddled");
}

static world *meddled_world(void) {
    static world w;
    open_world(&w, 4096);
    for (int i = 0; i < 400; i++) append_position(&w, -1, "g", i % 10, i);
    roll_world(&w);
    append_position(&w, -1, "g", 1, 7);
    append_position(&w, -1, "g", 1, 8);
    return &w;
}

static ol_clean_options meddled_options(world *w, meanwhile *during) {
    ol_clean_options options = clean_options(w);
    during->w = w;
    options.stop = &during->stop;
    options.raise_floor = raise_and_meddle;
    options.raise_floor_context = during;
    return options;
}

OL_TEST(a_run_stops_on_request) {
    world *w = meddled_world();
    meanwhile during = {.stop = true};
    ol_clean_options options = meddled_options(w, &during);
    ol_clean_report report = clean_with(w, &options);
    OL_CHECK(report.stopped && !report.complete);
    OL_CHECK_INT(report.end, -1);
    OL_CHECK_INT(report.floor, -1);
    OL_CHECK_INT(report.bytes_written, 0);
    OL_CHECK_INT(during.calls, 0);
    /* Between two groups. */
    during = (meanwhile){.status = -1};
    options = meddled_options(w, &during);
    report = clean_with(w, &options);
    OL_CHECK(report.stopped && !report.complete);
    OL_CHECK_INT(during.calls, 1);
    OL_CHECK_INT(during.floor, report.target);
    OL_CHECK_INT(report.floor, report.target);
    OL_CHECK_INT(report.end, -1);
    check_log(w, INT64_MAX);
    during = (meanwhile){0};
    options = meddled_options(w, &during);
    report = clean_with(w, &options);
    OL_CHECK(report.complete);
    OL_CHECK_INT(during.calls, 1);
    check_log(w, INT64_MAX);
    close_world(w);
}

OL_TEST(a_floor_that_cannot_be_raised_ends_the_run) {
    world *w = meddled_world();
    meanwhile during = {.status = OL_DISK_FULL};
    ol_clean_options options = meddled_options(w, &during);
    static ol_clean_report report;
    ol_error error;
    int64_t bytes = ol_log_size_bytes(w->partition->log);
    OL_CHECK_INT(ol_cleaner_run(w->partition, &options, &report, &error), OL_DISK_FULL);
    OL_CHECK_INT(report.floor, -1);
    OL_CHECK_INT(ol_log_size_bytes(w->partition->log), bytes);
    check_log(w, INT64_MAX);
    close_world(w);
}

OL_TEST(a_truncation_meanwhile_ends_the_run) {
    world *w = meddled_world();
    meanwhile during = {.truncate = true};
    ol_clean_options options = meddled_options(w, &during);
    int64_t bytes = ol_log_size_bytes(w->partition->log);
    ol_clean_report report = clean_with(w, &options);
    OL_CHECK(report.truncated && !report.complete && !report.stopped);
    OL_CHECK_INT(report.end, -1);
    OL_CHECK(ol_log_size_bytes(w->partition->log) < bytes && ol_log_size_bytes(w->partition->log) > bytes - 400);
    free(w->past[--w->past_count].data);
    check_log(w, INT64_MAX);
    close_world(w);
}

OL_TEST(bytes_per_second_is_kept) {
    world *w = meddled_world();
    ol_clean_options options = clean_options(w);
    struct timespec before, after;
    options.bytes_per_second = ol_log_size_bytes(w->partition->log) * 8;
    clock_gettime(CLOCK_MONOTONIC, &before);
    ol_clean_report report = clean_with(w, &options);
    clock_gettime(CLOCK_MONOTONIC, &after);
    double seconds = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
    double wanted = (double)(report.bytes_read + report.bytes_written) / (double)options.bytes_per_second;
    OL_CHECK(wanted > 0.2 && seconds >= wanted * 0.95);
    close_world(w);
}

OL_TEST(progress_and_counts_agree) {
    world *w = meddled_world();
    ol_clean_progress progress = {0};
    ol_clean_options options = clean_options(w);
    options.progress = &progress;
    ol_clean_report report = clean_with(w, &options);
    OL_CHECK_INT(progress.bytes_read, report.bytes_read);
    OL_CHECK_INT(progress.bytes_written, report.bytes_written);
    OL_CHECK_INT(progress.records_read, report.records.read);
    OL_CHECK_INT(progress.passes, report.passes);
    OL_CHECK(progress.bytes_total >= report.bytes_before && progress.bytes_total <= report.bytes_read);
    OL_CHECK_INT(report.records.read, report.records.kept + report.records.superseded);
    int64_t bases[64], bytes = 0;
    ol_log_segment_info info;
    OL_CHECK_INT(segments_of(w, bases), report.segments_after + 1);
    for (size_t i = 0; ol_log_segment_at(w->partition->log, i, &info); i++) bytes += info.active ? 0 : info.size;
    OL_CHECK_INT(report.bytes_after, bytes);
    close_world(w);
}

/* ------------------------------------------------------------------------------------------------ beside others */

typedef struct committer {
    ol_partition *partition;
    _Atomic bool stop;
    _Atomic int64_t allowed;    /* commits; a machine that cleans slowly shall not be buried in segments */
    _Atomic int64_t commits;
} committer;

static void *commit_on_and_on(void *context) {
    committer *others = context;
    uint64_t random = 7;
    while (!others->stop) {
        if (others->commits >= others->allowed) {
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
            continue;
        }
        random = random * 6364136223846793005u + 1442695040888963407u;
        int32_t number = (int32_t)(random >> 33) % 500;
        if (random % 50 == 0) {
            delete_one(others->partition, "g", "t", number);
        } else {
            commit_one(others->partition, "g", "t", number, (int64_t)(random >> 40));
        }
        others->commits++;
    }
    return NULL;
}

/* Where others take the cores, a run could find little that is new: without this, some hundred runs were needed. */
static void wait_for_commits(committer *others, int64_t wanted) {
    while (others->commits < wanted) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

OL_TEST(commits_go_on) {
    ol_partition_options settings = fixture_options(fresh_directory());
    settings.log.config.segment_bytes = 65536;
    settings.batch_bytes_max = 32768;
    ol_partition *partition = open_partition(&settings, true);
    committer others = {.partition = partition};
    pthread_t thread;
    OL_CHECK(pthread_create(&thread, NULL, commit_on_and_on, &others) == 0);
    static ol_clean_report report;
    ol_error error;
    int64_t checkpoint = -1, superseded = 0;
    for (int i = 0; i < 30; i++) {
        others.allowed += 10000;
        wait_for_commits(&others, (i + 1) * 1000);
        ol_clean_options options;
        ol_clean_options_init(&options);
        options.first_dirty = checkpoint;
        options.now_ms = fixture_now + i * 1000;
        options.delete_retention_ms = 3000;
        options.use_table = i % 2;
        if (i % 3 == 0) options.map_bytes = OL_CLEAN_MAP_BYTES_MIN;
        OL_CHECK_OK(ol_cleaner_run(partition, &options, &report, &error), &error);
        OL_CHECK(report.complete);
        OL_CHECK_INT(report.quarantined, 0);
        checkpoint = report.end;
        superseded += report.records.superseded;
    }
    OL_CHECK(superseded > 20000);
    others.stop = true;
    OL_CHECK(pthread_join(thread, NULL) == 0);
    ol_digest before = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&settings, true);
    check_same_digest(before, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
