/* The log of a topic that is cleaned: the last record of each key stays at its offset, tombstones go after their time, and a stop or a
 * failure at any file operation of cleans, deletions, rolls and reopenings leaves a log that opens and holds what a model holds.
 *
 * OFFSETLOG_DEPTH=long runs more workloads and draws more disk states at each point. */
#include <errno.h>

#include "cleaner/cleaner.h"
#include "topic_scene.h"

enum { KEYS = 24, OFFSETS_MAX = 1 << 14, RECORDS_MAX = 40 };

/* The records that were produced, by offset. */
typedef struct model {
    uint8_t key[OFFSETS_MAX];
    bool is_tombstone[OFFSETS_MAX];
} model;

typedef struct scene {
    topic_scene of;
    model *model;
    int64_t stored_clean;       /* in the checkpoint of the cleaner, -1 none */
    int64_t now_ms;
} scene;

static scene *new_scene(void) {
    scene *s = malloc(sizeof *s);
    s->model = calloc(1, sizeof *s->model);
    s->stored_clean = -1;
    s->now_ms = NOW;
    return s;
}

static void free_scene(scene *s) {
    free(s->model);
    free(s);
}

/* ------------------------------------------------------------------------------------------------ steps */

typedef struct drawn {
    uint8_t key;
    bool is_tombstone;
} drawn;

static int produce(scene *s, const drawn *records, int count, ol_error *error) {
    uint8_t bytes[OL_BATCH_OVERHEAD + 64 * RECORDS_MAX], *end = bytes + OL_BATCH_OVERHEAD;
    static const uint8_t value[32] = {7};
    for (int i = 0; i < count; i++) {
        end = ol_record_put(end, 0, i, ol_slice_of(&records[i].key, 1),
                            records[i].is_tombstone ? ol_slice_null() : ol_slice_of(value, sizeof value), 0, ol_slice_null());
    }
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, 0, NOW);
    fields.max_timestamp = NOW;
    fields.last_offset_delta = count - 1;
    fields.record_count = count;
    ol_batch_seal(bytes, end, &fields);
    ol_appended appended;
    ol_produce_rules rules = sent_rules();
    rules.needs_keys = true;
    /* A batch whose append is stopped may be on the disk. */
    int64_t base = ol_log_end(log_of(&s->of));
    OL_CHECK(base + count <= OFFSETS_MAX);
    for (int i = 0; i < count; i++) {
        s->model->key[base + i] = records[i].key;
        s->model->is_tombstone[base + i] = records[i].is_tombstone;
    }
    return ol_topic_log_produce(s->of.topic, ol_slice_of(bytes, (size_t)(end - bytes)), &rules, &appended, error);
}

static int append_some(scene *s, ol_error *error) {
    int status = OL_OK;
    for (uint64_t left = 10 + ol_test_below(20); left > 0 && status == OL_OK; left--) {
        drawn records[RECORDS_MAX];
        int count = ol_test_below(3) ? 1 : 1 + (int)ol_test_below(RECORDS_MAX);
        for (int i = 0; i < count; i++) records[i] = (drawn){(uint8_t)ol_test_below(KEYS), ol_test_below(5) == 0};
        status = produce(s, records, count, error);
    }
    return status;
}

static int clean(scene *s, size_t map_bytes, ol_clean_report *report, ol_error *error) {
    ol_clean_options options;
    ol_clean_options_init(&options);
    options.first_dirty = s->stored_clean;
    options.now_ms = s->now_ms;
    options.delete_retention_ms = 1000;
    options.map_bytes = map_bytes;
    s->now_ms += 700;
    int status = ol_cleaner_run_topic(s->of.topic, &options, report, error);
    if (status == OL_OK && report->end >= 0) s->stored_clean = report->end;
    return status;
}

static int step_clean(scene *s, ol_error *error) {
    ol_clean_report report;
    return clean(s, ol_test_below(2) ? OL_CLEAN_MAP_BYTES_MIN : OL_CLEAN_MAP_BYTES_DEFAULT, &report, error);
}

static int sweep(scene *s, ol_error *error) {
    ol_retention_rules rules = {.now_ms = NOW, .retention_ms = -1, .retention_bytes = 6 * SEGMENT_BYTES, .below = INT64_MAX};
    int64_t start = 0;
    int status = ol_topic_log_retained_from(s->of.topic, &rules, &start, error);
    if (status != OL_OK) return status;
    /* The owner's checkpoint, which has reached the disk. */
    if (start > s->of.stored_start) s->of.stored_start = start;
    return ol_log_delete_below(log_of(&s->of), start, error);
}

/* ------------------------------------------------------------------------------------------------ checks */

/* The last record that the log has of each key, -1 none; every record is the one that was produced. */
static void read_last(const scene *s, int64_t last[KEYS]) {
    static uint8_t buffer[256 << 10];
    ol_error error;
    ol_log *log = log_of(&s->of);
    int64_t offset = ol_log_start(log), end = ol_log_end(log);
    for (int key = 0; key < KEYS; key++) last[key] = -1;
    while (offset < end) {
        size_t size = 0;
        OL_CHECK_OK(ol_log_read(log, offset, end, buffer, sizeof buffer, &size, &error), &error);
        if (size == 0) break;
        for (size_t at = 0; at < size;) {
            ol_batch batch;
            ol_records records;
            ol_record record;
            OL_CHECK_OK(ol_batch_parse(buffer + at, size - at, &batch, &error), &error);
            OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
            OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &error), &error);
            while (ol_records_next(&records, &record, &error) == OL_OK) {
                OL_CHECK_INT(record.key.size, 1);
                OL_CHECK_INT(record.key.data[0], s->model->key[record.offset]);
                OL_CHECK_INT(record.value.data == NULL, s->model->is_tombstone[record.offset]);
                last[record.key.data[0]] = record.offset;
            }
            offset = ol_batch_next_offset(&batch);
            at += batch.size;
        }
    }
    OL_CHECK_INT(offset, end);
}

static void check_content(const scene *s) {
    int64_t found[KEYS], start = ol_log_start(log_of(&s->of)), end = ol_log_end(log_of(&s->of));
    read_last(s, found);
    for (int key = 0; key < KEYS; key++) {
        int64_t last = end - 1;
        while (last >= start && s->model->key[last] != key) last--;
        bool may_be_gone = last < start || s->model->is_tombstone[last];
        if (may_be_gone && found[key] == -1) continue;
        OL_CHECK_INT(found[key], last);
    }
}

static size_t count_records(const scene *s, int64_t below) {
    ol_error error;
    uint8_t buffer[64 << 10];
    size_t size = 0, count = 0;
    int64_t offset = 0;
    while (offset < below) {
        OL_CHECK_OK(ol_log_read(log_of(&s->of), offset, below, buffer, sizeof buffer, &size, &error), &error);
        for (size_t at = 0; at < size;) {
            ol_batch batch;
            OL_CHECK_OK(ol_batch_parse(buffer + at, size - at, &batch, &error), &error);
            count += (size_t)batch.record_count;
            offset = ol_batch_next_offset(&batch);
            at += batch.size;
        }
    }
    return count;
}

/* ------------------------------------------------------------------------------------------------ tests */

static scene *opened(void) {
    ol_error error;
    scene *s = new_scene();
    scene_begin(&s->of);
    OL_CHECK_OK(scene_open(&s->of, &error), &error);
    return s;
}

static void finish(scene *s) {
    scene_end(&s->of);
    free_scene(s);
}

static void send(scene *s, uint8_t key, bool is_tombstone) {
    ol_error error;
    OL_CHECK_OK(produce(s, &(drawn){key, is_tombstone}, 1, &error), &error);
}

OL_TEST(a_tombstone_goes_after_its_time_with_nothing_left_to_delete) {
    scene *s = opened();
    ol_error error;
    ol_clean_report report;
    for (uint8_t key = 0; key < 4; key++) send(s, key, false);
    send(s, 2, true);
    OL_CHECK_OK(ol_log_roll_active(log_of(&s->of), &error), &error);
    OL_CHECK_OK(clean(s, OL_CLEAN_MAP_BYTES_DEFAULT, &report, &error), &error);
    OL_CHECK_INT(report.records.superseded, 1);
    OL_CHECK_INT(count_records(s, 5), 4);
    OL_CHECK_OK(clean(s, OL_CLEAN_MAP_BYTES_DEFAULT, &report, &error), &error);
    OL_CHECK_INT(report.records.tombstones_dropped, 0);
    OL_CHECK_OK(clean(s, OL_CLEAN_MAP_BYTES_DEFAULT, &report, &error), &error);
    OL_CHECK_INT(report.records.tombstones_dropped, 1);
    OL_CHECK_INT(count_records(s, 5), 3);
    check_content(s);
    finish(s);
}

OL_TEST(keys_that_look_like_those_of_offsets_are_bytes) {
    scene *s = opened();
    ol_error error;
    ol_clean_report report;
    /* (group g, topic t, partition 0) with types 0 and 1, which are one slot in the offsets topic. */
    static const uint8_t keys[2][12] = {{0, 0, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 0}, {0, 1, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 0}};
    for (int i = 0; i < 4; i++) {
        uint8_t bytes[256];
        uint8_t *end = ol_record_put(bytes + OL_BATCH_OVERHEAD, 0, 0, ol_slice_of(keys[i % 2], 12), ol_slice_of("v", 1), 0,
                                     ol_slice_null());
        ol_batch_fields fields;
        ol_batch_fields_init(&fields, 0, NOW);
        fields.max_timestamp = NOW;
        fields.record_count = 1;
        ol_batch_seal(bytes, end, &fields);
        ol_produce_rules rules = sent_rules();
        ol_appended appended;
        OL_CHECK_OK(ol_topic_log_produce(s->of.topic, ol_slice_of(bytes, (size_t)(end - bytes)), &rules, &appended, &error), &error);
    }
    OL_CHECK_OK(ol_log_roll_active(log_of(&s->of), &error), &error);
    OL_CHECK_OK(clean(s, OL_CLEAN_MAP_BYTES_DEFAULT, &report, &error), &error);
    OL_CHECK_INT(report.records.kept, 2);
    OL_CHECK_INT(report.end, 4);
    finish(s);
}

static int run_steps(scene *s, ol_error *error) {
    /* 0 append, 1 clean, 2 flush, 3 sweep, 4 clean stop, 5 kill */
    static const uint8_t steps[] = {0, 0, 1, 0, 1, 4, 0, 2, 1, 3, 0, 5, 0, 1, 1, 3, 0, 1};
    int status = scene_open(&s->of, error);
    for (size_t i = 0; i < sizeof steps && status == OL_OK; i++) {
        switch (steps[i]) {
            case 0: status = append_some(s, error); break;
            case 1: status = step_clean(s, error); break;
            case 2: status = flush(&s->of, error); break;
            case 3: status = sweep(s, error); break;
            default: status = reopen(&s->of, steps[i] == 4, error); break;
        }
    }
    return status;
}

OL_TEST(random_steps_leave_what_a_model_leaves) {
    for (int64_t run = ol_test_depth(20, 400); run > 0; run--) {
        ol_error error;
        scene *s = opened();
        OL_CHECK_OK(reopen(&s->of, true, &error), &error);
        for (int i = 0; i < 12; i++) {
            OL_CHECK_OK(append_some(s, &error), &error);
            if (ol_test_below(2)) OL_CHECK_OK(step_clean(s, &error), &error);
            if (ol_test_below(6) == 0) OL_CHECK_OK(sweep(s, &error), &error);
            if (ol_test_below(6) == 0) OL_CHECK_OK(reopen(&s->of, ol_test_below(2), &error), &error);
            check_content(s);
        }
        finish(s);
    }
}

/* ------------------------------------------------------------------------------------------------ stops and failures */

/* Opens what a disk could hold, checks it, and goes on. */
static void check_disk(const scene *of, int64_t stop_at, int draw) {
    ol_error error;
    scene *s = new_scene();
    *s->model = *of->model;
    s->stored_clean = of->stored_clean;
    s->now_ms = of->now_ms;
    scene_open_disk(&s->of, &of->of, stop_at, draw);
    check_content(s);
    OL_CHECK_OK(append_some(s, &error), &error);
    OL_CHECK_OK(step_clean(s, &error), &error);
    check_content(s);
    OL_CHECK_OK(reopen(&s->of, true, &error), &error);
    check_content(s);
    finish(s);
}

OL_TEST(a_stop_at_every_operation_leaves_a_log_that_holds_what_it_should) {
    uint64_t seeds = (uint64_t)ol_test_depth(1, 12), first = ol_test_random() >> 32;
    int draws = (int)ol_test_depth(2, 6);
    int64_t stride = ol_test_depth(5, 1);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        for (int64_t stop_at = 1 + (int64_t)(seed % (uint64_t)stride);; stop_at += stride) {
            ol_error error;
            scene *s = new_scene();
            scene_begin_on_disk(&s->of, seed);
            ol_fault_fs_stop_at(s->of.disk, stop_at);
            int status = run_steps(s, &error);
            OL_CHECK(status == OL_OK || status == OL_CRASHED);
            bool stopped = ol_fault_fs_stopped(s->of.disk);
            for (int draw = 0; draw < draws && stopped && s->of.created; draw++) check_disk(s, stop_at, draw);
            scene_abandon(&s->of);
            free_scene(s);
            if (!stopped) break;
        }
    }
}

OL_TEST(a_failure_of_an_operation_leaves_a_log_that_holds_what_it_should) {
    uint64_t seeds = (uint64_t)ol_test_depth(1, 12), first = ol_test_random() >> 32;
    int64_t stride = ol_test_depth(5, 1);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        for (int64_t fail_at = 1 + (int64_t)(seed % (uint64_t)stride);; fail_at += stride) {
            ol_error error;
            scene *s = new_scene();
            scene_begin_on_disk(&s->of, seed);
            ol_fault_fs_fail_at(s->of.disk, fail_at, EIO);
            int status = run_steps(s, &error);
            bool failed = ol_fault_fs_operations(s->of.disk) >= fail_at;
            OL_CHECK(status == OL_OK || failed);
            if (status != OL_OK && s->of.topic != NULL && !ol_log_has_failed(log_of(&s->of))) {
                OL_CHECK_OK(step_clean(s, &error), &error);
                check_content(s);
            }
            if (s->of.created) check_disk(s, fail_at, 0);
            scene_abandon(&s->of);
            free_scene(s);
            if (!failed) break;
        }
    }
}

OL_TEST_MAIN()
