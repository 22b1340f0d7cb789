/* The cleaner on small logs made by hand: each rule of docs/format/cleaner.md §8 and docs/maintenance.md by itself.
 *
 * They show each part: source and build_key_map read, transactions learns fates, retain decides what stays, copy makes groups,
 * write writes batches and markers. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "cleaner_findings.h"
#include "golden_batches.h"

/* ------------------------------------------------------------------------------------------------ golden bytes */

OL_TEST(golden_batch_a) {
    world w;
    open_world(&w, 1 << 20);
    uint8_t key[64], value[64];
    append_hex(&w, GOLDEN_A);
    append_one(&w, -1, position_key(key, 1, "my-group", "orders", 4), position_value(value, 44, 3));
    roll_world(&w);
    ol_clean_report report = clean_at(&w, GOLDEN_TIME + 1000, 86400000);
    OL_CHECK_INT(report.records.superseded, 1);
    OL_CHECK_INT(report.batches_rebuilt, 1);
    check_bytes(&w, 100, GOLDEN_A_CLEANED);
    /* Before the horizon nothing happens, and nothing is written. */
    report = clean_at(&w, GOLDEN_HORIZON - 1, 86400000);
    OL_CHECK_INT(report.bytes_written, 0);
    check_bytes(&w, 100, GOLDEN_A_CLEANED);
    report = clean_at(&w, GOLDEN_HORIZON, 86400000);
    OL_CHECK_INT(report.records.tombstones_dropped, 1);
    check_bytes(&w, 100, GOLDEN_A_CLEANED_TWICE);
    close_world(&w);
}

OL_TEST(golden_batches_b_and_c) {
    world w;
    open_world(&w, 1 << 20);
    uint8_t key[64], value[64];
    append_hex(&w, GOLDEN_A);
    append_hex(&w, GOLDEN_B);
    append_hex(&w, GOLDEN_C);
    append_one(&w, -1, position_key(key, 1, "my-group", "orders", 3), position_value(value, 60, 3));
    roll_world(&w);
    /* The newest batch of its producer stays, empty, and with it the marker. */
    clean_at(&w, GOLDEN_TIME + 1000, 86400000);
    check_bytes(&w, 103, GOLDEN_B_EMPTIED);
    check_bytes(&w, 104, GOLDEN_C);
    ol_clean_report report = clean_at(&w, GOLDEN_TIME + 1000, 86400000);
    OL_CHECK_INT(report.bytes_written, 0);
    /* The producer goes on: its old batch goes, the marker one run later gets its time, and goes when that has come. */
    append_one(&w, 4000, position_key(key, 1, "my-group", "orders", 9), position_value(value, 1, 3));
    append_marker(&w, 4000, OL_CONTROL_COMMIT);
    roll_world(&w);
    clean_at(&w, GOLDEN_TIME + 1000, 86400000);
    OL_CHECK(!has_batch(&w, 103, NULL));
    check_bytes(&w, 104, GOLDEN_C);
    clean_at(&w, GOLDEN_TIME + 1000, 86400000);
    check_bytes(&w, 104, GOLDEN_C_WITH_HORIZON);
    clean_at(&w, GOLDEN_HORIZON - 1, 86400000);
    check_bytes(&w, 104, GOLDEN_C_WITH_HORIZON);
    report = clean_at(&w, GOLDEN_HORIZON, 86400000);
    OL_CHECK_INT(report.markers_dropped, 1);
    OL_CHECK(!has_batch(&w, 104, NULL));
    close_world(&w);
}

/* ------------------------------------------------------------------------------------------------ values and tombstones */

OL_TEST(the_last_record_of_a_slot_stays) {
    world w;
    uint8_t key[64], value[64];
    open_world(&w, 1 << 20);
    for (int i = 0; i < 30; i++) append_position(&w, -1, "g", i % 3, i);
    int64_t legacy = append_one(&w, -1, position_key(key, 0, "g", "t", 7), position_value(value, 70, 0));
    append_position(&w, -1, "g", 7, 71);
    ol_slice longer = position_key(key, 1, "g", "t", 7);
    key[longer.size++] = 0xee;
    int64_t last = append_one(&w, -1, longer, position_value(value, 72, 1));
    roll_world(&w);
    ol_clean_report report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.records.kept, 4);
    OL_CHECK_INT(report.records.superseded, 29);
    OL_CHECK_INT(report.end, world_end(&w));
    OL_CHECK_INT(report.floor, world_end(&w));
    OL_CHECK(!has_batch(&w, legacy, NULL) && has_batch(&w, last, NULL));
    OL_CHECK_INT(offset_of(&w, "g", 2), 29);
    OL_CHECK_INT(offset_of(&w, "g", 7), 72);
    close_world(&w);
}

OL_TEST(trap_13_a_tombstone_needs_two_passes) {
    world w;
    open_world(&w, 1 << 20);
    append_position(&w, -1, "g", 0, 5);
    int64_t tombstone = append_position(&w, -1, "g", 0, -1);
    append_position(&w, -1, "g", 1, 5);
    roll_world(&w);
    ol_clean_report report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.records.superseded, 1);
    ol_batch batch;
    OL_CHECK(has_batch(&w, tombstone, &batch));
    OL_CHECK(ol_batch_has_horizon(&batch));
    OL_CHECK_INT(batch.base_timestamp, w.now);
    report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.records.tombstones_dropped, 1);
    OL_CHECK(!has_batch(&w, tombstone, NULL));
    close_world(&w);
}

OL_TEST(trap_40_what_an_old_key_wrote_goes_before_the_tombstone_of_the_new_one) {
    world w;
    uint8_t key[64], value[64];
    open_world(&w, 1 << 20);
    append_one(&w, -1, position_key(key, 0, "g", "t", 0), position_value(value, 5, 0));
    append_position(&w, -1, "g", 0, -1);
    append_position(&w, -1, "g", 1, 1);
    roll_world(&w);
    for (int i = 0; i < 3; i++) clean_at(&w, w.now, 0);
    counting count = count_log(&w);
    OL_CHECK_INT(count.records, 1);
    OL_CHECK_INT(offset_of(&w, "g", 0), -1);
    close_world(&w);
}

/* A checkpoint that is too high hides the value from pass A; the tombstone must not go before it. */
OL_TEST(a_tombstone_does_not_go_before_what_it_deletes) {
    world w;
    open_world(&w, 1 << 20);
    int64_t old = append_position(&w, -1, "g", 0, 5);
    append_position(&w, -1, "g", 1, 5);
    roll_world(&w);
    int64_t tombstone = append_position(&w, -1, "g", 0, -1);
    append_position(&w, -1, "g", 1, 6);
    roll_world(&w);
    /* Only the last record of all is dirty: the tombstone gets its time while the value is still there. */
    ol_clean_options options = clean_options(&w);
    options.first_dirty = tombstone + 1;
    options.delete_retention_ms = 0;
    clean_with(&w, &options);
    OL_CHECK(has_batch(&w, old, NULL) && has_batch(&w, tombstone, NULL));
    check_log(&w, INT64_MAX);
    options.first_dirty = world_end(&w);
    ol_clean_report report = clean_with(&w, &options);
    check_log(&w, INT64_MAX);
    OL_CHECK_INT(report.records.superseded, 1);
    OL_CHECK_INT(report.records.tombstones_dropped, 1);
    OL_CHECK_INT(offset_of(&w, "g", 0), -1);
    close_world(&w);
}

OL_TEST(records_without_a_key_and_those_that_nobody_reads) {
    world w;
    uint8_t key[64], value[64];
    open_world(&w, 1 << 20);
    append_position(&w, -1, "g", 0, 5);
    ol_slice bad = position_value(value, 6, 3);
    ol_store_i16(value, 9);
    int64_t refused = append_one(&w, -1, position_key(key, 1, "g", "t", 0), bad);
    int64_t keyless = append_one(&w, -1, ol_slice_null(), text("x"));
    int64_t cut = append_one(&w, -1, ol_slice_of("\0\1\0\5g", 5), text("x"));
    append_one(&w, -1, group_key(key, 99, "g", NULL), text("old"));
    int64_t unknown = append_one(&w, -1, group_key(key, 99, "g", NULL), text("new"));
    append_position(&w, -1, "g", 1, 5);
    ol_error error;
    pthread_mutex_lock(&w.partition->writer);
    OL_CHECK_OK(ol_log_roll_active(w.partition->log, &error), &error);
    pthread_mutex_unlock(&w.partition->writer);
    advance_world(&w, world_end(&w));
    OL_CHECK(ol_partition_is_read_only(w.partition));
    ol_clean_report report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.quarantined, 0);
    OL_CHECK_INT(report.records.keyless_dropped, 1);
    OL_CHECK_INT(report.records.superseded, 1);
    OL_CHECK(!has_batch(&w, keyless, NULL) && has_batch(&w, cut, NULL) && has_batch(&w, unknown, NULL) && has_batch(&w, refused, NULL));
    OL_CHECK_INT(offset_of(&w, "g", 0), 5);
    close_world(&w);
}

OL_TEST(the_end_of_the_log_stays_where_it_is) {
    world w;
    ol_batch batch;
    open_world(&w, 1 << 20);
    append_position(&w, -1, "g", 0, 5);
    append_position(&w, 900, "g", 0, 6);
    append_marker(&w, 900, OL_CONTROL_ABORT);
    append_position(&w, 900, "g", 0, 7);
    append_marker(&w, 900, OL_CONTROL_COMMIT);
    int64_t last = append_one(&w, -1, ol_slice_null(), text("x"));
    ol_error error;
    pthread_mutex_lock(&w.partition->writer);
    OL_CHECK_OK(ol_log_roll_active(w.partition->log, &error), &error);
    pthread_mutex_unlock(&w.partition->writer);
    advance_world(&w, world_end(&w));
    clean_at(&w, w.now, 0);
    /* The batch before E is emptied, not dropped. */
    OL_CHECK(has_batch(&w, last, &batch));
    OL_CHECK_INT(batch.record_count, 0);
    OL_CHECK_INT(batch.size, OL_BATCH_OVERHEAD);
    close_world(&w);
}

/* ------------------------------------------------------------------------------------------------ transactions */

OL_TEST(trap_14_and_15_log_order_decides) {
    world w;
    open_world(&w, 1 << 20);
    append_position(&w, 900, "g", 0, 50);
    append_position(&w, -1, "g", 0, 60);
    append_position(&w, 900, "g", 1, 50);
    append_position(&w, -1, "g", 1, -1);
    append_position(&w, -1, "g", 2, 1);
    append_position(&w, 900, "g", 2, 2);
    append_marker(&w, 900, OL_CONTROL_COMMIT);
    append_position(&w, -1, "g", 3, 1);
    roll_world(&w);
    for (int i = 0; i < 4; i++) clean_at(&w, w.now, 0);
    OL_CHECK_INT(offset_of(&w, "g", 0), 60);
    OL_CHECK_INT(offset_of(&w, "g", 1), -1);
    OL_CHECK_INT(offset_of(&w, "g", 2), 2);
    OL_CHECK_INT(count_log(&w).records, 3);
    close_world(&w);
}

OL_TEST(aborted_values_go_and_their_tombstones_count) {
    world w;
    uint8_t key[64];
    open_world(&w, 1 << 20);
    append_position(&w, -1, "g", 0, 1);
    append_position(&w, -1, "g", 1, 1);
    int64_t record = append_one(&w, -1, group_key(key, 2, "g", NULL), text("first"));
    int64_t aborted = append_position(&w, 900, "g", 0, 2);
    append_position(&w, 900, "g", 1, -1);
    append_one(&w, 900, group_key(key, 2, "g", NULL), text("second"));
    append_marker(&w, 900, OL_CONTROL_ABORT);
    append_position(&w, -1, "g", 3, 1);
    roll_world(&w);
    ol_clean_report report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.records.aborted_dropped, 1);
    OL_CHECK(!has_batch(&w, aborted, NULL) && !has_batch(&w, record, NULL));
    OL_CHECK_INT(offset_of(&w, "g", 0), 1);
    OL_CHECK_INT(offset_of(&w, "g", 1), -1);
    for (int i = 0; i < 4; i++) clean_at(&w, w.now, 0);
    OL_CHECK_INT(count_log(&w).tombstones, 0);
    close_world(&w);
}

OL_TEST(an_open_transaction_ends_the_run_before_it) {
    world w;
    open_world(&w, 1 << 20);
    append_position(&w, -1, "g", 0, 1);
    append_position(&w, -1, "g", 0, 2);
    roll_world(&w);
    int64_t first = append_position(&w, 900, "g", 0, 3);
    roll_world(&w);
    append_position(&w, -1, "g", 0, 4);
    append_position(&w, -1, "g", 0, 5);
    roll_world(&w);
    ol_clean_report report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.target, first);
    OL_CHECK_INT(report.records.superseded, 1);
    append_marker(&w, 900, OL_CONTROL_COMMIT);
    roll_world(&w);
    report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.records.superseded, 3);
    OL_CHECK_INT(offset_of(&w, "g", 0), 5);
    close_world(&w);
}

/* Its marker stands above E, where another state could be asked for: before the marker its value does not count. */
OL_TEST(a_transaction_across_the_end_is_not_decided) {
    world w;
    open_world(&w, 1 << 20);
    int64_t plain = append_position(&w, -1, "g", 0, 1);
    int64_t pending = append_position(&w, 900, "g", 0, 2);
    append_position(&w, 901, "g", 1, 2);
    roll_world(&w);
    int64_t base = world_end(&w);
    append_position(&w, -1, "g", 5, 2);
    append_marker(&w, 900, OL_CONTROL_COMMIT);
    append_marker(&w, 901, OL_CONTROL_ABORT);
    advance_world(&w, world_end(&w));
    ol_clean_report report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.target, base);
    OL_CHECK_INT(report.end, pending);
    OL_CHECK(has_batch(&w, plain, NULL) && has_batch(&w, pending, NULL));
    for (int64_t limit = base; limit <= world_end(&w); limit++) check_log(&w, limit);
    roll_world(&w);
    report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.end, world_end(&w));
    OL_CHECK_INT(report.records.superseded, 1);
    OL_CHECK_INT(report.records.aborted_dropped, 1);
    OL_CHECK_INT(offset_of(&w, "g", 0), 2);
    close_world(&w);
}

static int collect_one(void *context, const ol_aborted_transaction *entry) {
    ol_aborted_transaction *entries = context;
    for (int i = 0; i < 8; i++) {
        if (entries[i].last_offset != 0) continue;
        entries[i] = *entry;
        return OL_OK;
    }
    return OL_OK;
}

static size_t collect(world *w, ol_aborted_transaction entries[8]) {
    ol_error error;
    size_t count = 0;
    memset(entries, 0, 8 * sizeof *entries);
    OL_CHECK_OK(ol_log_collect_aborted(w->partition->log, 0, world_end(w), collect_one, entries, &error), &error);
    while (count < 8 && entries[count].last_offset != 0) count++;
    return count;
}

/* `lost`: the transaction index is not there, and is made again from what the log says. */
static void check_index(bool lost) {
    world w;
    ol_aborted_transaction before[8], after[8];
    open_world(&w, 1 << 20);
    append_position(&w, -1, "g", 0, 1);
    int64_t value = append_position(&w, 900, "g", 0, 2);
    append_position(&w, 901, "g", 1, 2);
    append_position(&w, 900, "g", 1, -1);
    append_marker(&w, 900, OL_CONTROL_ABORT);
    append_marker(&w, 901, OL_CONTROL_ABORT);
    append_position(&w, -1, "g", 0, 7);
    roll_world(&w);
    OL_CHECK_INT(collect(&w, before), 2);
    if (lost) {
        char path[400];
        close_partition(w.partition);
        snprintf(path, sizeof path, "%s/00000000000000000000.txnindex", w.directory);
        OL_CHECK(unlink(path) == 0);
        w.options.log.clean = true;
        w.options.log.recovery_point = 7;
        open_world_partition(&w);
        advance_world(&w, world_end(&w));
        OL_CHECK_INT(collect(&w, after), 0);
    }
    clean_at(&w, w.now, 1000);
    OL_CHECK(!has_batch(&w, value, NULL));
    OL_CHECK_INT(collect(&w, after), 2);
    for (int i = 0; i < 2; i++) {
        OL_CHECK_INT(after[i].producer_id, before[i].producer_id);
        OL_CHECK_INT(after[i].first_offset, before[i].first_offset);
        OL_CHECK_INT(after[i].last_offset, before[i].last_offset);
        OL_CHECK_INT(after[i].last_stable_offset, before[i].last_stable_offset);
    }
    close_world(&w);
}

OL_TEST(markers_that_stay_keep_their_entry_in_the_index) {
    check_index(false);
    check_index(true);
}

/* ------------------------------------------------------------------------------------------------ segments */

OL_TEST(segments_are_grouped_by_size) {
    world w;
    int64_t bases[64];
    open_world(&w, 4096);
    for (int i = 0; i < 300; i++) append_position(&w, -1, "g", i % 200, i);
    roll_world(&w);
    size_t before = segments_of(&w, bases);
    ol_clean_report report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.segments_before, before - 1);
    OL_CHECK(report.bytes_after < report.bytes_before);
    OL_CHECK_INT(segments_of(&w, bases) - 1, report.segments_after);
    OL_CHECK_INT(bases[0], 0);
    for (int i = 0; i < 5 && report.bytes_written > 0; i++) report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.bytes_written, 0);
    /* The rest fills its segments as far as segment_bytes allows. */
    OL_CHECK(report.segments_after <= report.bytes_after / 2048 + 1);
    close_world(&w);
}

OL_TEST(a_segment_of_which_nothing_stays_is_empty) {
    world w;
    int64_t bases[64];
    open_world(&w, 1 << 20);
    append_position(&w, -1, "g", 0, 1);
    roll_world(&w);
    append_position(&w, -1, "g", 0, 2);
    roll_world(&w);
    /* Too large a step for one segment. */
    uint8_t key[64], value[64];
    built *batch = begin_batch((int64_t)3 << 31, 0, -1, w.now);
    add_record(batch, 0, w.now, position_key(key, 1, "g", "t", 0), position_value(value, 3, 3));
    append_bytes(&w, end_batch(batch));
    roll_world(&w);
    ol_clean_report report = clean_at(&w, w.now, 0);
    OL_CHECK_INT(report.records.kept, 1);
    OL_CHECK_INT(segments_of(&w, bases), 3);
    OL_CHECK_INT(bases[0], 0);
    OL_CHECK_INT(bases[1], (int64_t)3 << 31);
    close_world(&w);
}

OL_TEST(min_history_and_holds) {
    world w;
    open_world(&w, 1 << 20);
    for (int round = 0; round < 6; round++) {
        append_position(&w, -1, "held", 0, round);
        append_position(&w, -1, "other", 0, round);
        roll_world(&w);
    }
    ol_clean_hold hold = {text("hel"), true, 4};
    ol_clean_options options = clean_options(&w);
    options.end_max = 9;
    options.holds = &hold;
    options.hold_count = 1;
    ol_clean_report report = clean_with(&w, &options);
    OL_CHECK_INT(report.target, 8);
    OL_CHECK_INT(report.floor, 8);
    /* held: 0 and 2 are below the hold, of which 2 is the last; 4 and 6 are held; 8 and on not covered.  other: 1, 3, 5 go. */
    OL_CHECK_INT(report.records.superseded, 4);
    OL_CHECK(!has_batch(&w, 0, NULL) && has_batch(&w, 2, NULL) && has_batch(&w, 4, NULL) && has_batch(&w, 6, NULL));
    OL_CHECK(!has_batch(&w, 5, NULL) && has_batch(&w, 7, NULL) && has_batch(&w, 9, NULL));
    check_log(&w, INT64_MAX);
    /* The hold moves on: what it left is found although it lies below the checkpoint. */
    hold.end = 8;
    options.end_max = INT64_MAX;
    options.first_dirty = report.end;
    report = clean_with(&w, &options);
    OL_CHECK(!has_batch(&w, 2, NULL) && !has_batch(&w, 4, NULL) && has_batch(&w, 6, NULL) && has_batch(&w, 8, NULL));
    OL_CHECK(!has_batch(&w, 9, NULL) && has_batch(&w, 11, NULL));
    check_log(&w, INT64_MAX);
    close_world(&w);
}

OL_TEST_MAIN()
