/* The cleaner on small logs made by hand: each rule of spec §8 and design §8 by itself. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "cleaner_fixture.h"
#include "golden_batches.h"
#include "ol_past.h"

/* ------------------------------------------------------------------------------------------------ looking */

static void append_hex(world *w, const char *hex) {
    size_t size;
    uint8_t *data = ol_test_unhex(hex, &size);
    append_bytes(w, ol_slice_of(data, size));
    free(data);
}

typedef struct finding {
    int64_t base;
    const uint8_t *wanted;      /* NULL: only whether there is one */
    size_t wanted_size;
    bool found;
    ol_batch batch;
} finding;

static void find_batch(void *context, const ol_batch *batch) {
    finding *find = context;
    if (batch->base_offset != find->base) return;
    find->found = true;
    find->batch = *batch;
    if (find->wanted == NULL) return;
    OL_CHECK_INT(batch->size, find->wanted_size);
    OL_CHECK(memcmp(batch->data, find->wanted, batch->size) == 0);
}

static bool has_batch(world *w, int64_t base, ol_batch *batch) {
    finding find = {.base = base};
    walk_log(w, INT64_MAX, find_batch, &find);
    if (batch != NULL) *batch = find.batch;
    return find.found;
}

/* The log holds exactly these bytes at this offset. */
static void check_bytes(world *w, int64_t base, const char *hex) {
    finding find = {.base = base};
    uint8_t *wanted = ol_test_unhex(hex, &find.wanted_size);
    find.wanted = wanted;
    walk_log(w, INT64_MAX, find_batch, &find);
    OL_CHECK(find.found);
    free(wanted);
}

static int64_t offset_of(world *w, const char *group, int32_t number) {
    ol_state state;
    ol_position_value value;
    replay_log(w, INT64_MAX, &state);
    ol_pair_name name = ol_table_name(state.table, text(group), ol_table_group_hash(state.table, text(group)), text("t"));
    int64_t offset = ol_table_get(state.table, &name, number, &value) ? value.offset : -1;
    ol_state_destroy(&state);
    return offset;
}

static ol_clean_report clean_at(world *w, int64_t now, int64_t retention) {
    ol_clean_options options = clean_options(w);
    options.now_ms = now;
    options.delete_retention_ms = retention;
    ol_clean_report report = clean_with(w, &options);
    OL_CHECK(report.complete);
    check_log(w, INT64_MAX);
    return report;
}

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
        w.options.log.recovery_point = 8;
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

static size_t segments_of(world *w, int64_t bases[64]) {
    ol_log_segment_info info;
    size_t count = 0;
    while (ol_log_segment_at(w->partition->log, count, &info)) bases[count++] = info.base_offset;
    return count;
}

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
    /* What is left fills its segments as far as segment_bytes allows. */
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

/* ------------------------------------------------------------------------------------------------ damage */

static char *segment_path(world *w, int64_t base) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%020lld.log", w->directory, (long long)base);
    return path;
}

static void flip(const char *path, off_t position) {
    uint8_t byte;
    int file = open(path, O_RDWR);
    OL_CHECK(file >= 0 && pread(file, &byte, 1, position) == 1);
    byte ^= 0x10;
    OL_CHECK(pwrite(file, &byte, 1, position) == 1);
    close(file);
}

static uint8_t *read_all(const char *path, size_t *size) {
    uint8_t *data;
    ol_error error;
    OL_CHECK_OK(ol_fs_read_file(ol_fs_posix(), path, 1 << 24, &data, size, &error), &error);
    return data;
}

/* What the log says before and after one clean, however it is read. */
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
        flip(segment_path(&w, damaged), position == 0 ? 30 : 110);
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
        flip(segment_path(&w, damaged), position == 0 ? 30 : 110);
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
    flip(segment_path(&w, damaged), 70);
    ol_clean_options options = clean_options(&w);
    ol_clean_report report = clean_damaged(&w, &options);
    OL_CHECK_INT(report.quarantined, 1);
    OL_CHECK(has_batch(&w, plain, NULL) && has_batch(&w, value, NULL) && has_batch(&w, later, NULL));
    flip(segment_path(&w, damaged), 70);
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
    flip(segment_path(&w, 0), 7);
    ol_clean_options options = clean_options(&w);
    ol_clean_report report = clean_with(&w, &options);
    OL_CHECK_INT(report.quarantined, 1);
    OL_CHECK_INT(report.quarantine[0].segment_base, 0);
    OL_CHECK_INT(report.records.superseded, 0);
    flip(segment_path(&w, 0), 7);
    OL_CHECK_INT(clean_with(&w, &options).quarantined, 0);
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
    for (size_t i = 1; i + 1 < count; i += 2) flip(segment_path(&w, bases[i]), 90);
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
    ol_past past = {.cut = report.floor};
    ol_timeline_filter everything = {0};
    ol_timeline_facts facts;
    ol_position_value value;
    OL_CHECK_OK(ol_past_make(partition, &everything, &past, 1, NULL, &facts, &error), &error);
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
        OL_CHECK_OK(ol_partition_truncate(during->w->partition, world_end(during->w) - 1, error), error);
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

OL_TEST(a_run_stops_when_it_is_told) {
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

OL_TEST(what_cannot_be_cleaned_is_refused) {
    static ol_clean_report report;
    ol_error error;
    ol_clean_options options;
    ol_clean_options_init(&options);
    ol_partition_options settings = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&settings, false);
    OL_CHECK_INT(ol_cleaner_run(partition, &options, &report, &error), OL_LOADING);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_OK(ol_cleaner_run(partition, &options, &report, &error), &error);
    OL_CHECK(report.complete && report.passes == 1);
    options.map_bytes = OL_CLEAN_MAP_BYTES_MIN - 1;
    OL_CHECK_INT(ol_cleaner_run(partition, &options, &report, &error), OL_INVALID);
    close_partition(partition);
    ol_clean_options_init(&options);
    settings.log.writable = settings.log.create = false;
    partition = open_partition(&settings, true);
    OL_CHECK_INT(ol_cleaner_run(partition, &options, &report, &error), OL_READ_ONLY);
    close_partition(partition);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ beside others */

typedef struct committer {
    ol_partition *partition;
    _Atomic bool stop;
    int64_t commits;
} committer;

static void *commit_on_and_on(void *context) {
    committer *others = context;
    uint64_t random = 7;
    while (!others->stop) {
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
    for (int i = 0; i < 60 || superseded < 20000; i++) {
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
