/* A clean that changes nothing tells what one that does would leave, and a replay of that is the state. */
#include "cleaner/cleaner.h"
#include "log/batch_walk.h"
#include "partition_fixture.h"

static const int64_t day_ms = 86400000;

/* ------------------------------------------------------------------------------------------------ the received records
 * */

typedef struct received {
    uint8_t *bytes;
    size_t size;
    int64_t next;
    int64_t batches;
    ol_state state;
    int refuse_with;            /* not OL_OK: of the third batch */
} received;

static int take(void *context, const ol_batch *batch, ol_error *error) {
    received *to = context;
    if (to->refuse_with != OL_OK && to->batches == 2) return ol_fail(error, to->refuse_with, "asked to");
    OL_CHECK_OK(ol_batch_check_crc(batch, error), error);
    OL_CHECK(batch->base_offset >= to->next);
    to->next = batch->last_offset + 1;
    to->batches++;
    to->bytes = realloc(to->bytes, to->size + batch->size);
    memcpy(to->bytes + to->size, batch->data, batch->size);
    to->size += batch->size;
    OL_CHECK_OK(ol_state_apply_batch(&to->state, batch, NULL, NULL, error), error);
    return OL_OK;
}

static received begin_received(void) {
    received to = {0};
    ol_error error;
    OL_CHECK_OK(ol_state_create(&to.state, &error), &error);
    return to;
}

static void free_received(received *to) {
    ol_state_destroy(&to->state);
    free(to->bytes);
}

static ol_clean_report run(ol_partition *partition, received *to, bool takes_active, int64_t end_max,
                           size_t map_bytes) {
    static ol_clean_report report;
    ol_clean_sink sink = {take, to, takes_active};
    ol_clean_options options;
    ol_error error;
    ol_clean_options_init(&options);
    options.now_ms = fixture_now;
    options.end_max = end_max;
    options.map_bytes = map_bytes;
    options.sink = to != NULL ? &sink : NULL;
    OL_CHECK_OK(ol_cleaner_run(partition, &options, &report, &error), &error);
    OL_CHECK_INT(report.quarantined, 0);
    return report;
}

/* Appends the batches at and above `from` that begin below `until` to `to`. */
static void take_log(ol_partition *partition, int64_t from, int64_t until, received *to) {
    ol_batch_walk walk;
    ol_batch batch;
    ol_error error;
    OL_CHECK_OK(ol_batch_walk_open(&walk, ol_partition_log(partition), from, until, true, &error), &error);
    while (ol_batch_walk_next(&walk, &batch, &error) == OL_OK) {
        if (batch.base_offset >= from) OL_CHECK_OK(take(to, &batch, &error), &error);
    }
    ol_batch_walk_close(&walk);
}

/* ------------------------------------------------------------------------------------------------ logs */

static ol_partition *small_partition(bool fresh) {
    ol_partition_options options = fixture_options(fresh ? fresh_directory() : fixture_directory);
    options.log.config.segment_bytes = 16 << 10;
    options.batch_bytes_max = 8 << 10;
    return open_partition(&options, true);
}

static ol_partition *read_only_partition(bool load) {
    ol_partition_options options = fixture_options(fixture_directory);
    options.log.writable = options.log.create = false;
    return open_partition(&options, load);
}

/* Plain commits, deletions, and transactions that end either way; `open` stays open. */
static void work(ol_partition *partition, int count, int64_t open) {
    for (int i = 0; i < count; i++) {
        char group[16];
        snprintf(group, sizeof group, "g%d", (int)ol_test_below(12));
        int32_t number = (int32_t)ol_test_below(20);
        fixture_now += (int64_t)ol_test_below(1000);
        switch (ol_test_below(12)) {
            case 0:
                delete_one(partition, group, "t", number);
                break;
            case 1:
                commit_pending(partition, 7, group, "t", number, i);
                end_transaction(partition, 7, ol_test_below(2) ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
                break;
            default:
                commit_one(partition, group, "t", number, i);
        }
        if (open >= 0 && i == count / 2) commit_pending(partition, open, "open", "t", 1, 1);
    }
}

static void check_state(const received *to, ol_partition *partition) {
    ol_digest digest;
    ol_state_digest(&to->state, true, &digest);
    check_same_digest(digest, digest_of(partition));
}

/* ------------------------------------------------------------------------------------------------ tests */

OL_TEST(what_is_reported_is_what_a_clean_leaves) {
    for (int turn = 0; turn < 6; turn++) {
        ol_partition *partition = small_partition(true);
        for (int again = 0; again < 3; again++) {
            work(partition, 1500, again == 1 && turn % 2 ? 30 : -1);
            if (again == 2) fixture_now += 2 * day_ms;
            received before = begin_received(), after = begin_received();
            ol_clean_report dry = run(partition, &before, false, INT64_MAX, OL_CLEAN_MAP_BYTES_DEFAULT);
            ol_clean_report done = run(partition, NULL, false, INT64_MAX, OL_CLEAN_MAP_BYTES_DEFAULT);
            OL_CHECK_INT(dry.target, done.target);
            OL_CHECK_INT(dry.sink_end, dry.target);
            take_log(partition, 0, done.target, &after);
            OL_CHECK_INT(before.size, after.size);
            OL_CHECK(memcmp(before.bytes, after.bytes, after.size) == 0);
            OL_CHECK_INT(dry.records.kept, done.records.kept);
            OL_CHECK_INT(dry.bytes_before, done.bytes_before);
            OL_CHECK_INT(dry.bytes_after, done.bytes_after);
            OL_CHECK_INT(dry.bytes_after, before.size);
            OL_CHECK_INT(dry.bytes_written, 0);
            take_log(partition, dry.sink_end, INT64_MAX, &before);
            check_state(&before, partition);
            free_received(&before);
            free_received(&after);
        }
        close_partition(partition);
    }
    remove_fixture();
}

OL_TEST(nothing_is_changed) {
    ol_partition *partition = small_partition(true);
    work(partition, 3000, -1);
    received before = begin_received(), after = begin_received(), to = begin_received();
    int64_t flushed = ol_log_flushed(ol_partition_log(partition));
    take_log(partition, 0, INT64_MAX, &before);
    run(partition, &to, true, INT64_MAX, OL_CLEAN_MAP_BYTES_DEFAULT);
    OL_CHECK(to.size < before.size / 2);
    take_log(partition, 0, INT64_MAX, &after);
    OL_CHECK(before.size == after.size && memcmp(before.bytes, after.bytes, after.size) == 0);
    OL_CHECK_INT(ol_log_flushed(ol_partition_log(partition)), flushed);
    free_received(&before);
    free_received(&after);
    free_received(&to);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(the_active_segment_is_reported_up_to_an_open_transaction) {
    for (int open = 0; open < 2; open++) {
        ol_partition *partition = small_partition(true);
        work(partition, 60, open ? 30 : -1);
        int64_t limit = ol_log_end(ol_partition_log(partition));
        ol_log_transaction transaction;
        if (ol_partition_transaction_at(partition, 0, &transaction)) limit = transaction.first_offset;
        received to = begin_received();
        ol_clean_report report = run(partition, &to, true, INT64_MAX, OL_CLEAN_MAP_BYTES_DEFAULT);
        OL_CHECK_INT(report.target, limit);
        OL_CHECK_INT(report.sink_end, limit);
        OL_CHECK(report.complete && (open || report.records.superseded > 0));
        take_log(partition, limit, INT64_MAX, &to);
        check_state(&to, partition);
        free_received(&to);
        /* It is closed, but not by that. */
        to = begin_received();
        report = run(partition, &to, false, INT64_MAX, OL_CLEAN_MAP_BYTES_DEFAULT);
        OL_CHECK_INT(to.batches, 0);
        OL_CHECK_INT(report.sink_end, 0);
        free_received(&to);
        close_partition(partition);
    }
    remove_fixture();
}

OL_TEST(a_read_only_log_can_be_reported) {
    ol_partition *partition = small_partition(true);
    work(partition, 2000, 30);
    close_partition(partition);
    ol_partition *reader = read_only_partition(true);
    received to = begin_received();
    ol_clean_report report = run(reader, &to, true, INT64_MAX, OL_CLEAN_MAP_BYTES_DEFAULT);
    OL_CHECK(report.sink_end > 500 && report.records.superseded > 500);
    take_log(reader, report.sink_end, INT64_MAX, &to);
    check_state(&to, reader);
    free_received(&to);
    close_partition(reader);
    remove_fixture();
}

OL_TEST(a_log_that_somebody_else_appends_to_is_reported_as_far_as_it_was_loaded) {
    ol_partition *writer = small_partition(true);
    work(writer, 100, -1);
    ol_partition *reader = read_only_partition(false);
    work(writer, 1000, -1);
    ol_error error;
    OL_CHECK_OK(ol_partition_load(reader, &error), &error);
    ol_positions positions;
    ol_partition_positions(reader, &positions);
    OL_CHECK_INT(positions.applied, ol_log_end(ol_partition_log(writer)));
    work(writer, 1000, -1);
    received to = begin_received();
    ol_clean_report report = run(reader, &to, true, INT64_MAX, OL_CLEAN_MAP_BYTES_DEFAULT);
    OL_CHECK(report.sink_end <= positions.applied);
    take_log(reader, report.sink_end, positions.applied, &to);
    check_state(&to, reader);
    free_received(&to);
    close_partition(reader);
    close_partition(writer);
    remove_fixture();
}

OL_TEST(an_end_and_a_small_map_leave_the_rest_as_it_is) {
    ol_partition *partition = small_partition(true);
    work(partition, 4000, -1);
    int64_t end = ol_log_end(ol_partition_log(partition));
    for (int turn = 0; turn < 2; turn++) {
        received to = begin_received();
        ol_clean_report report = turn == 0 ? run(partition, &to, true, end / 3, OL_CLEAN_MAP_BYTES_DEFAULT)
                                           : run(partition, &to, true, INT64_MAX, OL_CLEAN_MAP_BYTES_MIN);
        OL_CHECK(report.sink_end <= (turn == 0 ? end / 3 : end) && report.sink_end > 0);
        OL_CHECK_INT(report.complete, turn == 0);
        OL_CHECK_INT(report.passes, 1);
        take_log(partition, report.sink_end, INT64_MAX, &to);
        check_state(&to, partition);
        free_received(&to);
    }
    close_partition(partition);
    remove_fixture();
}

OL_TEST(what_a_sink_says_ends_the_run) {
    ol_partition *partition = small_partition(true);
    work(partition, 500, -1);
    received to = begin_received();
    to.refuse_with = OL_CLOSED;
    ol_clean_sink sink = {take, &to, true};
    ol_clean_options options;
    static ol_clean_report report;
    ol_error error;
    ol_clean_options_init(&options);
    options.now_ms = fixture_now;
    options.sink = &sink;
    OL_CHECK_INT(ol_cleaner_run(partition, &options, &report, &error), OL_CLOSED);
    OL_CHECK(strcmp(error.reason, "asked to") == 0);
    free_received(&to);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
