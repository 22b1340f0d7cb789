/* A lone partition: commits (ol_commit, ol_commit_plan, partition/commit/write, partition/commit/oversize), conditions, deletes, transactions, reopening. */
#include <pthread.h>

#include "partition_fixture.h"

OL_TEST(a_commit_reads_its_own_write_and_survives_a_reopen) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK_INT(commit_one(partition, "g", "t", 0, 42).base_offset, 0);
    OL_CHECK_INT(commit_one(partition, "g", "t", 0, 43).base_offset, 1);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 43);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 1), -1);
    ol_digest live = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&options, true);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 43);
    check_same_digest(live, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_kill_without_close_loses_nothing_that_was_written) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    for (int i = 0; i < 1000; i++) commit_one(partition, "g", "t", i % 10, i);
    ol_digest live = digest_of(partition);
    ol_partition_abandon(partition);
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

OL_TEST(positions_keep_their_order) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    ol_positions positions;
    ol_error error;
    ol_commit_result result = commit_one(partition, "g", "t", 0, 1);
    ol_partition_positions(partition, &positions);
    OL_CHECK_INT(positions.written, 1);
    OL_CHECK_INT(positions.watermark, 1);
    OL_CHECK_INT(positions.applied, 1);
    OL_CHECK_OK(ol_partition_wait(partition, result.end_offset, result.term, OL_WAIT_FLUSHED, -1, &error), &error);
    ol_partition_positions(partition, &positions);
    OL_CHECK_INT(positions.flushed, 1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_condition_that_does_not_hold_changes_nothing) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_one(partition, "g", "t", 0, 5);
    ol_digest before = digest_of(partition);
    ol_item items[2] = {position_item("g", "t", 1, 7), position_item("g", "t", 0, 6)};
    items[0].condition = OL_CONDITION_ABSENT;
    items[1].condition = OL_CONDITION_EQUALS;
    items[1].expected = 4;
    ol_commit_result result;
    ol_error error;
    OL_CHECK_INT(ol_partition_commit(partition, items, 2, -1, -1, &result, &error), OL_CONDITION);
    OL_CHECK_INT(error.item, 1);
    OL_CHECK(result.found);
    OL_CHECK_INT(result.found_offset, 5);
    check_same_digest(before, digest_of(partition));
    items[1].expected = 5;
    OL_CHECK_OK(ol_partition_commit(partition, items, 2, -1, -1, &result, &error), &error);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 6);
    OL_CHECK_INT(ol_partition_commit(partition, items, 1, -1, -1, &result, &error), OL_CONDITION);
    OL_CHECK_INT(error.item, 0);
    items[1].condition = OL_CONDITION_MONOTONIC;
    items[1].offset = 3;
    OL_CHECK_INT(ol_partition_commit(partition, &items[1], 1, -1, -1, &result, &error), OL_REWIND);
    OL_CHECK_INT(result.found_offset, 6);
    items[1].offset = 6;
    OL_CHECK_OK(ol_partition_commit(partition, &items[1], 1, -1, -1, &result, &error), &error);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_conditional_delete_of_what_is_not_there_is_refused) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    ol_item item = position_item("g", "t", 0, 0);
    item.kind = OL_ITEM_POSITION_TOMBSTONE;
    item.condition = OL_CONDITION_EQUALS;
    item.expected = 7;
    ol_commit_result result;
    ol_error error;
    OL_CHECK_INT(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), OL_CONDITION);
    OL_CHECK(!result.found);
    commit_one(partition, "g", "t", 0, 7);
    OL_CHECK_OK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), &error);
    OL_CHECK_INT(result.written, 1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_group_record_with_the_key_of_another_kind_is_refused) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    const uint8_t keys[][5] = {{0, 1, 0, 1, 'g'}, {0, 99, 0, 1, 'g'}, {0, 2, 0, 1, 'h'}, {0, 2, 0, 9, 'g'}};
    for (size_t i = 0; i < 4; i++) {
        ol_item record = {.kind = OL_ITEM_GROUP_RECORD, .group = text("g"), .key = ol_slice_of(keys[i], 5), .value = text("v")};
        ol_commit_result result;
        ol_error error;
        int status = ol_partition_commit(partition, &record, 1, -1, -1, &result, &error);
        OL_CHECK(status == OL_INVALID || status == OL_CORRUPT);
        OL_CHECK_INT(error.item, 0);
    }
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 0);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_delete_writes_only_where_something_is) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_one(partition, "g", "t", 0, 5);
    OL_CHECK_INT(delete_one(partition, "g", "t", 1).written, 0);
    OL_CHECK_INT(delete_one(partition, "g", "t", 0).written, 1);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), -1);
    OL_CHECK_INT(delete_one(partition, "g", "t", 0).written, 0);
    commit_pending(partition, 9, "g", "t", 3, 1);
    OL_CHECK_INT(delete_one(partition, "g", "t", 3).written, 1);
    end_transaction(partition, 9, OL_CONTROL_COMMIT);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 3), -1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(deleting_a_group_takes_its_positions_pending_values_and_records) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    for (int i = 0; i < 50; i++) commit_one(partition, "g", "t", i, i);
    commit_one(partition, "other", "t", 0, 1);
    commit_pending(partition, 9, "g", "u", 3, 1);
    const uint8_t key[] = {0, 2, 0, 1, 'g'}, value[] = {0, 3, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    ol_item record = {.kind = OL_ITEM_GROUP_RECORD, .group = text("g"), .key = ol_slice_of(key, sizeof key),
                      .value = ol_slice_of(value, sizeof value)};
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(partition, &record, 1, -1, -1, &result, &error), &error);
    OL_CHECK_OK(ol_partition_delete_group(partition, text("g"), false, &result, &error), &error);
    OL_CHECK_INT(result.written, 52);
    end_transaction(partition, 9, OL_CONTROL_COMMIT);
    for (int i = 0; i < 50; i++) OL_CHECK_INT(fetch_one(partition, "g", "t", i), -1);
    OL_CHECK_INT(fetch_one(partition, "g", "u", 3), -1);
    OL_CHECK_INT(fetch_one(partition, "other", "t", 0), 1);
    OL_CHECK_OK(ol_partition_delete_group(partition, text("g"), false, &result, &error), &error);
    OL_CHECK_INT(result.written, 0);
    ol_digest live = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

OL_TEST(trap_14_plain_against_transactional_order) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_pending(partition, 4000, "g", "t", 3, 50);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 3), -1);
    commit_one(partition, "g", "t", 3, 60);
    end_transaction(partition, 4000, OL_CONTROL_COMMIT);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 3), 60);
    ol_digest live = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

OL_TEST(trap_15_tombstone_with_an_open_transaction) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_pending(partition, 4000, "g", "t", 3, 50);
    delete_one(partition, "g", "t", 3);
    end_transaction(partition, 4000, OL_CONTROL_COMMIT);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 3), -1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_pending_value_does_not_count_for_conditions) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_pending(partition, 4000, "g", "t", 3, 50);
    ol_item item = position_item("g", "t", 3, 60);
    item.condition = OL_CONDITION_ABSENT;
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(try_one(partition, item, -1, &result, &error), &error);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(transactions_end_once_and_by_their_epoch) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    ol_commit_result result;
    ol_error error;
    OL_CHECK_INT(ol_partition_end_transaction(partition, 5, 0, OL_CONTROL_COMMIT, 0, &result, &error), OL_TRANSACTION);
    ol_item item = position_item("g", "t", 0, 1);
    OL_CHECK_OK(ol_partition_commit(partition, &item, 1, 5, 3, &result, &error), &error);
    OL_CHECK_INT(ol_partition_check_producer(partition, 5, 3, &error), OL_TRANSACTION);
    OL_CHECK_INT(ol_partition_end_transaction(partition, 5, 2, OL_CONTROL_COMMIT, 0, &result, &error), OL_FENCED);
    OL_CHECK_OK(ol_partition_end_transaction(partition, 5, 3, OL_CONTROL_ABORT, 0, &result, &error), &error);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), -1);
    OL_CHECK_INT(ol_partition_end_transaction(partition, 5, 3, OL_CONTROL_ABORT, 0, &result, &error), OL_TRANSACTION);
    OL_CHECK_OK(ol_partition_check_producer(partition, 5, 3, &error), &error);
    OL_CHECK_INT(ol_partition_check_producer(partition, 5, 2, &error), OL_FENCED);
    OL_CHECK_INT(ol_partition_commit(partition, &item, 1, 5, 2, &result, &error), OL_FENCED);
    OL_CHECK_INT(ol_partition_check_producer(partition, OL_OWN_PRODUCER_ID_MIN, 0, &error), OL_TRANSACTION);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(an_open_transaction_stays_open_over_a_reopen) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_pending(partition, 7, "g", "t", 0, 10);
    close_partition(partition);
    partition = open_partition(&options, true);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), -1);
    end_transaction(partition, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 10);
    close_partition(partition);
    remove_fixture();
}

enum { MANY = 2000 };

static void fill_items(ol_item *items, const char *group, int64_t first_offset) {
    for (int i = 0; i < MANY; i++) items[i] = position_item(group, "a-topic-with-a-name", i, first_offset + i);
}

OL_TEST(a_commit_larger_than_one_batch_is_a_transaction_of_ours) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.batch_bytes_max = 10000;
    ol_partition *partition = open_partition(&options, true);
    ol_item *items = malloc(MANY * sizeof *items);
    fill_items(items, "g", 0);
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(partition, items, MANY, -1, -1, &result, &error), &error);
    OL_CHECK_INT(result.written, MANY);
    OL_CHECK_INT(result.end_offset, MANY + 1);      /* and the marker */
    for (int i = 0; i < MANY; i++) OL_CHECK_INT(fetch_one(partition, "g", "a-topic-with-a-name", i), i);
    OL_CHECK(ol_log_highest_producer_id(ol_partition_log(partition)) >= OL_OWN_PRODUCER_ID_MIN);
    for (int i = 0; i < MANY; i++) items[i].kind = OL_ITEM_POSITION_TOMBSTONE;
    OL_CHECK_INT(ol_partition_commit(partition, items, MANY, -1, -1, &result, &error), OL_TOO_LARGE);
    ol_digest live = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    free(items);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(groups_are_kept_whole_when_they_fit_a_batch) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.batch_bytes_max = 10000;
    ol_partition *partition = open_partition(&options, true);
    ol_item *items = malloc(MANY * sizeof *items);
    char names[100][24];
    for (int g = 0; g < 100; g++) snprintf(names[g], sizeof names[g], "group-%d", g);
    for (int i = 0; i < MANY; i++) items[i] = position_item(names[i % 100], "topic", i / 100, i);
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(partition, items, MANY, -1, -1, &result, &error), &error);
    OL_CHECK_INT(result.end_offset, MANY);          /* no marker was needed */
    for (int i = 0; i < MANY; i++) OL_CHECK_INT(fetch_one(partition, names[i % 100], "topic", i / 100), i);
    free(items);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_transaction_of_ours_that_a_crash_left_open_is_aborted_by_the_next_load) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.batch_bytes_max = 10000;
    ol_partition *partition = open_partition(&options, true);
    ol_item *items = malloc(MANY * sizeof *items);
    fill_items(items, "g", 0);
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(partition, items, MANY, -1, -1, &result, &error), &error);
    ol_log_segment_info info;
    OL_CHECK(ol_log_segment_at(ol_partition_log(partition), 0, &info));
    close_partition(partition);
    OL_CHECK_INT(truncate(info.path, info.size - OL_BATCH_MARKER_SIZE), 0);     /* the marker was never written */
    char sidecar[512];
    snprintf(sidecar, sizeof sidecar, "%s/%s", options.log.directory, OL_FLUSH_SIDECAR_FILE);
    OL_CHECK_INT(unlink(sidecar), 0);
    fixture_forget_manifest(options.log.directory);
    partition = open_partition(&options, true);
    ol_load_progress progress;
    ol_partition_progress(partition, &progress);
    OL_CHECK_INT(progress.problems, 0);
    OL_CHECK_INT(progress.aborted_own, 1);
    for (int i = 0; i < MANY; i++) OL_CHECK_INT(fetch_one(partition, "g", "a-topic-with-a-name", i), -1);
    ol_log_transaction transaction;
    OL_CHECK(!ol_log_open_transaction_at(ol_partition_log(partition), 0, &transaction));
    OL_CHECK_OK(ol_partition_commit(partition, items, MANY, -1, -1, &result, &error), &error);
    OL_CHECK_INT(fetch_one(partition, "g", "a-topic-with-a-name", 77), 77);
    free(items);
    close_partition(partition);
    remove_fixture();
}

/* Returns how many of 3,000 commits did not wait. */
static int count_direct(ol_append append) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.log.config.append = append;
    ol_partition *partition = open_partition(&options, true);
    int direct = 0;
    ol_commit_result result;
    ol_error error;
    for (int i = 0; i < 3000; i++) {
        ol_item item = position_item("g", "t", i % 7, i);
        int64_t end = ol_log_end(ol_partition_log(partition));
        int status = ol_partition_try_commit(partition, &item, 1, &result, &error);
        if (status == OL_WOULD_BLOCK) {
            OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), end);
            status = ol_partition_commit(partition, &item, 1, -1, -1, &result, &error);
        } else {
            direct++;
        }
        OL_CHECK_OK(status, &error);
        OL_CHECK_INT(result.base_offset, i);
        OL_CHECK_INT(fetch_one(partition, "g", "t", i % 7), i);
        if (i % 50 == 0) ol_log_prepare(ol_partition_log(partition));
    }
    close_partition(partition);
    remove_fixture();
    return direct;
}

OL_TEST(try_commit_does_what_commit_does_or_nothing) {
    OL_CHECK(count_direct(OL_APPEND_MAPPED) > 2500);
    OL_CHECK_INT(count_direct(OL_APPEND_WRITTEN), 0);
}

OL_TEST(an_idle_segment_is_rolled_where_a_commit_would_be_taken) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, false);
    ol_log *log = ol_partition_log(partition);
    ol_log_segment_info info;
    ol_commit_result result;
    ol_error error;
    int64_t flushed = 0;
    OL_CHECK_INT(ol_partition_roll(partition, &error), OL_LOADING);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_OK(ol_partition_roll(partition, &error), &error);
    OL_CHECK(!ol_log_segment_at(log, 1, &info));
    ol_item item = position_item("g", "t", 0, 1);
    OL_CHECK_OK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), &error);
    OL_CHECK_OK(ol_partition_roll(partition, &error), &error);
    OL_CHECK(ol_log_segment_at(log, 1, &info) && info.active && info.size == 0 && info.base_offset == 1);
    OL_CHECK_OK(ol_log_flush(log, &flushed, &error), &error);
    OL_CHECK_OK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), &error);
    OL_CHECK_INT(result.base_offset, 1);
    close_partition(partition);
    partition = open_partition(&options, true);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 1);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 2);
    close_partition(partition);
    remove_fixture();
}

/* A roll makes and truncates files: whoever tries holds something that others want. */
OL_TEST(try_commit_does_not_roll_by_time) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.log.config.append = OL_APPEND_MAPPED;
    ol_partition *partition = open_partition(&options, true);
    ol_log *log = ol_partition_log(partition);
    ol_item item = position_item("g", "t", 0, 5);
    ol_log_segment_info info;
    ol_commit_result result;
    ol_error error;
    int64_t started = fixture_now;
    commit_one(partition, "g", "t", 0, 1);
    while (ol_log_prepare(log)) continue;
    fixture_now = started + options.log.config.segment_ms;
    OL_CHECK_OK(ol_partition_try_commit(partition, &item, 1, &result, &error), &error);
    fixture_now++;
    OL_CHECK_INT(ol_partition_try_commit(partition, &item, 1, &result, &error), OL_WOULD_BLOCK);
    OL_CHECK(!ol_log_segment_at(log, 1, &info));
    OL_CHECK_OK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), &error);
    OL_CHECK(ol_log_segment_at(log, 1, &info));
    while (ol_log_prepare(log)) continue;
    OL_CHECK_OK(ol_partition_try_commit(partition, &item, 1, &result, &error), &error);
    fixture_now = started;
    close_partition(partition);
    remove_fixture();
}

typedef struct worker {
    ol_partition *partition;
    int number;
} worker;

static void *commit_and_wait(void *argument) {
    worker *self = argument;
    char group[16];
    snprintf(group, sizeof group, "g%d", self->number);
    for (int i = 0; i < 100; i++) {
        ol_commit_result result = commit_one(self->partition, group, "t", 0, i);
        ol_error error;
        OL_CHECK_OK(ol_partition_wait(self->partition, result.end_offset, result.term, OL_WAIT_FLUSHED, 60000, &error), &error);
        OL_CHECK(ol_log_flushed(ol_partition_log(self->partition)) >= result.end_offset);
        OL_CHECK_INT(fetch_one(self->partition, group, "t", 0), i);
    }
    return NULL;
}

OL_TEST(many_threads_commit_and_wait_for_the_disk) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    pthread_t threads[8];
    worker workers[8];
    for (int i = 0; i < 8; i++) {
        workers[i] = (worker){partition, i};
        OL_CHECK_INT(pthread_create(&threads[i], NULL, commit_and_wait, &workers[i]), 0);
    }
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 800);
    ol_digest live = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

OL_TEST(trap_08_an_expire_timestamp_makes_a_v1_value_without_an_epoch) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    ol_item item = position_item("g", "t", 0, 5);
    item.leader_epoch = 9;
    item.expire_timestamp = fixture_now + 600000;
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(try_one(partition, item, -1, &result, &error), &error);
    const ol_state *state;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    ol_pair_name name = ol_table_name(state->table, text("g"), ol_table_group_hash(state->table, text("g")), text("t"));
    ol_position_value value;
    OL_CHECK(ol_table_get(state->table, &name, 0, &value));
    OL_CHECK_INT(value.leader_epoch, -1);
    OL_CHECK_INT(value.expire_timestamp, fixture_now + 600000);
    ol_partition_unlock_state(partition);
    ol_digest live = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

OL_TEST(random_operations_replay_to_the_same_state) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.log.config.segment_bytes = 1 << 16;
    options.batch_bytes_max = 1 << 12;
    ol_partition *partition = open_partition(&options, true);
    bool open[4] = {false};
    for (int i = 0; i < 5000; i++) {
        char group[16], topic[16];
        snprintf(group, sizeof group, "g%d", (int)ol_test_below(6));
        snprintf(topic, sizeof topic, "t%d", (int)ol_test_below(3));
        int32_t number = (int32_t)ol_test_below(20);
        int64_t producer = (int64_t)ol_test_below(4);
        ol_error error;
        ol_commit_result result;
        switch (ol_test_below(8)) {
            case 0:
                delete_one(partition, group, topic, number);
                break;
            case 1:
                commit_pending(partition, producer, group, topic, number, i);
                open[producer] = true;
                break;
            case 2:
                if (open[producer]) end_transaction(partition, producer, ol_test_below(2) ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
                open[producer] = false;
                break;
            case 3:
                if (ol_test_below(20) == 0) OL_CHECK_OK(ol_partition_delete_group(partition, text(group), false, &result, &error), &error);
                break;
            default:
                commit_one(partition, group, topic, number, i);
        }
        fixture_now += (int64_t)ol_test_below(3);
        if (ol_test_below(400) != 0) continue;
        ol_digest live = digest_of(partition);
        if (ol_test_below(2)) close_partition(partition); else ol_partition_abandon(partition);
        partition = open_partition(&options, true);
        check_same_digest(live, digest_of(partition));
    }
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
