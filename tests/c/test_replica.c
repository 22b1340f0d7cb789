/* The seams of replication: W moved from outside, follower append, raw read, truncate, epochs (design §3, §7). */
#include "partition_fixture.h"

static ol_partition *open_replica(const char *directory) {
    ol_partition_options options = fixture_options(directory);
    options.replicated = true;
    return open_partition(&options, true);
}

static ol_partition *open_leader(const char *directory, int32_t epoch) {
    ol_partition *partition = open_replica(directory);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(partition, epoch, &error), &error);
    return partition;
}

static void advance(ol_partition *partition, int64_t offset) {
    ol_error error;
    OL_CHECK_OK(ol_partition_advance(partition, offset, &error), &error);
}

/* What a follower fetches: everything from `offset` on, by the raw read. */
static void replicate(ol_partition *leader, ol_partition *follower) {
    ol_log_reader *reader;
    ol_log_piece piece;
    ol_error error;
    int status;
    OL_CHECK_OK(ol_log_reader_open(ol_partition_log(leader), ol_log_end(ol_partition_log(follower)), &reader, &error), &error);
    while ((status = ol_log_reader_next(reader, 4096, &piece, &error)) == OL_OK) {
        OL_CHECK_OK(ol_partition_append(follower, piece.data, piece.size, &error), &error);
    }
    OL_CHECK_INT(status, OL_END);
    ol_log_reader_close(reader);
}

OL_TEST(what_is_in_flight_is_seen_by_conditions_and_not_by_reads) {
    ol_partition *leader = open_leader(fresh_directory(), 3);
    commit_one(leader, "g", "t", 0, 1);
    OL_CHECK_INT(fetch_one(leader, "g", "t", 0), -1);
    ol_item item = position_item("g", "t", 0, 2);
    item.condition = OL_CONDITION_ABSENT;
    ol_commit_result result;
    ol_error error;
    OL_CHECK_INT(try_one(leader, item, -1, &result, &error), OL_CONDITION);
    OL_CHECK_INT(result.rests_on, 1);       /* W must pass the record at 0 before this may be told */
    item.condition = OL_CONDITION_EQUALS;
    item.expected = 1;
    OL_CHECK_OK(try_one(leader, item, -1, &result, &error), &error);
    advance(leader, 1);
    OL_CHECK_INT(fetch_one(leader, "g", "t", 0), 1);
    OL_CHECK_INT(ol_partition_wait(leader, result.end_offset, OL_WAIT_WATERMARK, 1, &error), OL_TIMED_OUT);
    advance(leader, 2);
    OL_CHECK_OK(ol_partition_wait(leader, result.end_offset, OL_WAIT_WATERMARK, 1000, &error), &error);
    OL_CHECK_INT(fetch_one(leader, "g", "t", 0), 2);
    close_partition(leader);
    remove_fixture();
}

OL_TEST(a_tombstone_in_flight_counts_as_absent) {
    ol_partition *leader = open_leader(fresh_directory(), 0);
    commit_one(leader, "g", "t", 0, 1);
    advance(leader, 1);
    OL_CHECK_INT(delete_one(leader, "g", "t", 0).written, 1);
    OL_CHECK_INT(fetch_one(leader, "g", "t", 0), 1);
    OL_CHECK_INT(delete_one(leader, "g", "t", 0).written, 0);
    ol_item item = position_item("g", "t", 0, 9);
    item.condition = OL_CONDITION_ABSENT;
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(try_one(leader, item, -1, &result, &error), &error);
    advance(leader, 2);
    OL_CHECK_INT(fetch_one(leader, "g", "t", 0), -1);
    advance(leader, 3);
    OL_CHECK_INT(fetch_one(leader, "g", "t", 0), 9);
    close_partition(leader);
    remove_fixture();
}

OL_TEST(a_commit_marker_in_flight_makes_pending_values_the_latest_written) {
    ol_partition *leader = open_leader(fresh_directory(), 0);
    commit_pending(leader, 7, "g", "t", 0, 10);
    advance(leader, 1);
    commit_pending(leader, 7, "g", "t", 1, 11);
    commit_pending(leader, 7, "g", "t", 2, 12);
    commit_one(leader, "g", "t", 2, 99);
    end_transaction(leader, 7, OL_CONTROL_COMMIT);
    ol_item items[3];
    for (int i = 0; i < 3; i++) {
        items[i] = position_item("g", "t", i, 100);
        items[i].condition = OL_CONDITION_EQUALS;
        items[i].expected = 10 + i;
    }
    items[2].expected = 99;
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(leader, items, 3, -1, -1, &result, &error), &error);
    advance(leader, 5);
    OL_CHECK_INT(fetch_one(leader, "g", "t", 0), 10);
    OL_CHECK_INT(fetch_one(leader, "g", "t", 2), 99);
    advance(leader, 100);
    OL_CHECK_INT(fetch_one(leader, "g", "t", 2), 100);
    close_partition(leader);
    remove_fixture();
}

OL_TEST(a_follower_of_the_same_bytes_has_the_same_state) {
    const char *directory = fresh_directory();
    char second[300];
    snprintf(second, sizeof second, "%.*s-1", (int)strlen(directory) - 2, directory);
    ol_partition *leader = open_leader(directory, 1), *follower = open_replica(second);
    ol_error error;
    for (int i = 0; i < 2000; i++) {
        commit_one(leader, "g", "t", (int32_t)ol_test_below(40), i);
        if (ol_test_below(5) == 0) delete_one(leader, "g", "t", (int32_t)ol_test_below(40));
        if (ol_test_below(50) == 0) {
            replicate(leader, follower);
            int64_t high = ol_log_end(ol_partition_log(follower));
            advance(leader, high);
            advance(follower, high);
        }
    }
    replicate(leader, follower);
    advance(leader, INT64_MAX);
    advance(follower, INT64_MAX);
    OL_CHECK_INT(ol_partition_append(leader, NULL, 0, &error), OL_FENCED);
    const ol_state *state;
    OL_CHECK_INT(ol_partition_lock_state(follower, &state, &error), OL_NOT_COORDINATOR);
    OL_CHECK_OK(ol_partition_become_follower(leader, 2, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(follower, 2, &error), &error);
    OL_CHECK_INT(ol_partition_become_leader(leader, 2, &error), OL_FENCED);
    OL_CHECK_OK(ol_partition_become_leader(leader, 3, &error), &error);
    check_same_digest(digest_of(leader), digest_of(follower));
    close_partition(leader);
    close_partition(follower);
    remove_fixture();
}

OL_TEST(a_new_leader_is_active_only_when_its_log_end_at_election_is_below_w) {
    ol_partition *partition = open_leader(fresh_directory(), 0);
    commit_one(partition, "g", "t", 0, 1);
    commit_one(partition, "g", "t", 0, 2);
    advance(partition, 1);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_follower(partition, 1, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(partition, 2, &error), &error);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_LOADING);
    commit_one(partition, "g", "t", 0, 3);
    ol_item item = position_item("g", "t", 0, 9);
    item.condition = OL_CONDITION_EQUALS;
    ol_commit_result result;
    OL_CHECK_INT(try_one(partition, item, -1, &result, &error), OL_LOADING);
    advance(partition, 2);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_ACTIVE);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 2);
    item.expected = 3;      /* in flight */
    OL_CHECK_OK(try_one(partition, item, -1, &result, &error), &error);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(truncation_below_the_state_drops_it_and_the_epochs_tell_where) {
    ol_partition *partition = open_leader(fresh_directory(), 5);
    for (int i = 0; i < 10; i++) commit_one(partition, "g", "t", 0, i);
    advance(partition, 10);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_follower(partition, 6, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(partition, 8, &error), &error);
    for (int i = 10; i < 15; i++) commit_one(partition, "g", "t", 0, i);
    int32_t epoch;
    int64_t end;
    ol_log_end_for_epoch(ol_partition_log(partition), 7, &epoch, &end);
    OL_CHECK_INT(epoch, 5);
    OL_CHECK_INT(end, 10);
    OL_CHECK_INT(ol_partition_truncate(partition, 12, &error), OL_FENCED);
    OL_CHECK_OK(ol_partition_become_follower(partition, 9, &error), &error);
    OL_CHECK_OK(ol_partition_truncate(partition, 12, &error), &error);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 12);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_FOLLOWER);       /* the state held only what is below W */
    OL_CHECK_OK(ol_partition_truncate(partition, 4, &error), &error);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_UNLOADED);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(partition, 10, &error), &error);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 3);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_transaction_all_of_which_is_in_flight_is_the_latest_written_whole) {
    ol_partition *leader = open_leader(fresh_directory(), 0);
    for (int i = 0; i < 5; i++) commit_pending(leader, 7, "g", "t", i, 10 + i);
    end_transaction(leader, 7, OL_CONTROL_COMMIT);
    for (int i = 0; i < 5; i++) OL_CHECK_INT(delete_one(leader, "g", "t", i).written, 1);
    advance(leader, INT64_MAX);
    for (int i = 0; i < 5; i++) OL_CHECK_INT(fetch_one(leader, "g", "t", i), -1);
    close_partition(leader);
    remove_fixture();
}

OL_TEST(deleting_a_group_takes_its_records_that_are_in_flight) {
    ol_partition *leader = open_leader(fresh_directory(), 0);
    const uint8_t key[] = {0, 2, 0, 1, 'g'}, value[24] = {0, 3, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    ol_item record = {.kind = OL_ITEM_GROUP_RECORD, .group = text("g"), .key = ol_slice_of(key, sizeof key),
                      .value = ol_slice_of(value, sizeof value)};
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(leader, &record, 1, -1, -1, &result, &error), &error);
    OL_CHECK_OK(ol_partition_delete_group(leader, text("g"), &result, &error), &error);
    OL_CHECK_INT(result.written, 1);
    advance(leader, INT64_MAX);
    const ol_state *state;
    OL_CHECK_OK(ol_partition_lock_state(leader, &state, &error), &error);
    OL_CHECK_INT(ol_group_records_count(state->group_records), 0);
    ol_partition_unlock_state(leader);
    close_partition(leader);
    remove_fixture();
}

OL_TEST_MAIN()
