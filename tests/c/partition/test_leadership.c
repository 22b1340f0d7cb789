/* Leadership and its epochs: calls of an older one change nothing; a leader that is loaded later; one that is alone. */
#include "partition/partition_impl.h"
#include "replica_fixture.h"

static int64_t end_of(ol_partition *partition) { return ol_log_end(ol_partition_log(partition)); }

/* The log of a leader, of one epoch, in one piece. */
static size_t log_of(ol_partition *leader, uint8_t *bytes, size_t capacity) {
    size_t size;
    ol_error error;
    OL_CHECK_OK(ol_partition_read(leader, -1, 0, OL_READ_WRITTEN, bytes, capacity, &size, &error), &error);
    return size;
}

static size_t written_by_a_leader(const char *directory, int32_t epoch, int count, uint8_t *bytes, size_t capacity) {
    ol_partition *leader = open_replica(directory, true);
    lead(leader, epoch, true);
    for (int i = 0; i < count; i++) commit_one(leader, "g", "t", i, 100 + i);
    size_t size = log_of(leader, bytes, capacity);
    close_partition(leader);
    return size;
}

/* A late answer of epoch 1 after the replica follows epoch 2: appended, it would be led with later. */
OL_TEST(what_comes_late_from_an_older_leader_changes_nothing) {
    uint8_t bytes[4096];
    char path[300];
    size_t size = written_by_a_leader(fresh_directory(), 1, 3, bytes, sizeof bytes);
    ol_partition *follower = open_replica(second_directory(path), true);
    ol_error error;
    follow(follower, 1);
    OL_CHECK_INT(ol_partition_append(follower, 2, bytes, size, &error), OL_UNKNOWN_LEADER_EPOCH);
    follow(follower, 2);
    OL_CHECK_INT(ol_partition_append(follower, 1, bytes, size, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_INT(end_of(follower), 0);
    OL_CHECK_OK(ol_partition_append(follower, 2, bytes, size, &error), &error);
    OL_CHECK_INT(ol_partition_advance(follower, 1, 3, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_INT(ol_partition_advance(follower, 3, 3, &error), OL_UNKNOWN_LEADER_EPOCH);
    OL_CHECK_INT(ol_partition_truncate(follower, 1, 0, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_INT(ol_partition_restart_at(follower, 1, 10, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_INT(ol_partition_become_follower(follower, 1, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_INT(ol_partition_become_leader(follower, 2, false, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_INT(ol_partition_read(follower, 1, 0, OL_READ_WRITTEN, bytes, sizeof bytes, &size, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_INT(follower->watermark, 0);
    OL_CHECK_INT(end_of(follower), 3);
    close_partition(follower);
    remove_fixture();
}

OL_TEST(a_leader_takes_nothing_from_another_of_its_epoch) {
    uint8_t bytes[4096];
    char path[300];
    size_t size = written_by_a_leader(fresh_directory(), 1, 3, bytes, sizeof bytes);
    ol_partition *leader = open_replica(second_directory(path), true);
    ol_error error;
    lead(leader, 4, false);
    lead(leader, 4, false);     /* a repeated call is answered as the first one */
    OL_CHECK_INT(ol_partition_append(leader, 4, bytes, size, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_INT(ol_partition_truncate(leader, 4, 0, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_INT(end_of(leader), 0);
    close_partition(leader);
    remove_fixture();
}

OL_TEST(a_follower_refuses_a_batch_that_is_newer_than_its_leader) {
    uint8_t bytes[4096];
    char path[300];
    size_t size = written_by_a_leader(fresh_directory(), 7, 1, bytes, sizeof bytes);
    ol_partition *follower = open_replica(second_directory(path), true);
    ol_error error;
    follow(follower, 6);
    OL_CHECK_INT(ol_partition_append(follower, 6, bytes, size, &error), OL_CORRUPT);
    OL_CHECK_INT(end_of(follower), 0);
    close_partition(follower);
    remove_fixture();
}

OL_TEST(the_newest_epoch_of_the_log_counts_after_a_restart) {
    const char *directory = fresh_directory();
    ol_partition *partition = open_replica(directory, true);
    lead(partition, 5, false);
    commit_one(partition, "g", "t", 0, 1);
    close_partition(partition);
    partition = open_replica(directory, true);
    ol_error error;
    OL_CHECK_INT(epoch_of(partition), 5);
    OL_CHECK_INT(ol_partition_become_leader(partition, 5, false, &error), OL_FENCED_LEADER_EPOCH);
    lead(partition, 6, false);
    close_partition(partition);
    remove_fixture();
}

/* Commits are appended before the load has begun, and the load finds older values. */
OL_TEST(a_commit_before_the_load_is_the_newest_after_it) {
    const char *directory = fresh_directory();
    ol_partition *partition = open_replica(directory, true);
    lead(partition, 1, true);
    for (int i = 0; i < 50; i++) commit_one(partition, "g", "t", i, i);
    close_partition(partition);
    for (int alone = 0; alone < 2; alone++) {
        partition = open_replica(directory, false);
        ol_error error;
        ol_commit_result result;
        OL_CHECK_INT(try_one(partition, position_item("g", "t", 3, 1000), -1, &result, &error), OL_NOT_COORDINATOR);
        lead(partition, 2 + alone, alone == 1);
        commit_one(partition, "g", "t", 3, 1000 + alone);
        ol_item item = position_item("g", "t", 4, 7);
        item.condition = OL_CONDITION_EQUALS;
        item.expected = 4;
        OL_CHECK_INT(try_one(partition, item, -1, &result, &error), OL_LOADING);
        OL_CHECK_OK(ol_partition_load(partition, &error), &error);
        if (alone == 0) {
            OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_LOADING);
            advance(partition, INT64_MAX);
        }
        OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_ACTIVE);
        OL_CHECK_INT(fetch_one(partition, "g", "t", 3), 1000 + alone);
        OL_CHECK_INT(fetch_one(partition, "g", "t", 49), 49);
        ol_digest live = digest_of(partition);
        close_partition(partition);
        partition = open_replica(directory, false);
        advance(partition, INT64_MAX);
        OL_CHECK_OK(ol_partition_load(partition, &error), &error);
        ol_digest loaded;
        ol_state_digest(&partition->state, true, &loaded);
        check_same_digest(live, loaded);
        close_partition(partition);
    }
    remove_fixture();
}

OL_TEST(commits_are_refused_while_it_loads_where_that_is_asked_for) {
    const char *directory = fresh_directory();
    ol_partition_options options = fixture_options(directory);
    options.replicated = options.refuse_while_loading = true;
    ol_partition *partition = open_partition(&options, false);
    ol_commit_result result;
    ol_error error;
    lead(partition, 1, true);
    OL_CHECK_INT(try_one(partition, position_item("g", "t", 0, 1), -1, &result, &error), OL_LOADING);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    commit_one(partition, "g", "t", 0, 1);
    close_partition(partition);
    remove_fixture();
}

/* Leadership that ends while a load runs: the load goes on for the follower. */
OL_TEST(a_leader_that_resigns_before_its_load_follows_after_it) {
    const char *directory = fresh_directory();
    ol_partition *partition = open_replica(directory, false);
    lead(partition, 1, false);
    ol_commit_result result = commit_one(partition, "g", "t", 0, 1);
    follow(partition, 1);
    ol_error error;
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_FOLLOWER);
    OL_CHECK_INT(ol_partition_wait(partition, result.end_offset, result.term, OL_WAIT_WATERMARK, -1, &error), OL_NOT_COORDINATOR);
    OL_CHECK_INT(ol_partition_become_leader(partition, 1, false, &error), OL_FENCED_LEADER_EPOCH);
    close_partition(partition);
    remove_fixture();
}

/* A look at what a wait would say: it neither waits nor flushes. */
OL_TEST(a_look_at_a_wait_answers_as_the_wait_would) {
    const char *directory = fresh_directory();
    ol_partition *partition = open_replica(directory, true);
    ol_error error;
    lead(partition, 1, false);
    ol_commit_result first = commit_one(partition, "g", "t", 0, 1);
    ol_commit_result second = commit_one(partition, "g", "t", 0, 2);
    OL_CHECK_INT(ol_partition_try_wait(partition, first.end_offset, first.term, OL_WAIT_WATERMARK, &error), OL_WOULD_BLOCK);
    OL_CHECK_INT(ol_partition_try_wait(partition, first.end_offset, first.term, OL_WAIT_FLUSHED, &error), OL_WOULD_BLOCK);
    OL_CHECK(!ol_partition_is_flushed(partition, first.end_offset, first.term));
    advance(partition, first.end_offset);
    OL_CHECK_OK(ol_partition_try_wait(partition, first.end_offset, first.term, OL_WAIT_WATERMARK, &error), &error);
    OL_CHECK_INT(ol_partition_try_wait(partition, second.end_offset, second.term, OL_WAIT_WATERMARK, &error), OL_WOULD_BLOCK);
    OL_CHECK_OK(ol_partition_wait(partition, second.end_offset, second.term, OL_WAIT_FLUSHED, -1, &error), &error);
    OL_CHECK_OK(ol_partition_try_wait(partition, second.end_offset, second.term, OL_WAIT_FLUSHED, &error), &error);
    follow(partition, 2);
    OL_CHECK_INT(ol_partition_try_wait(partition, second.end_offset, second.term, OL_WAIT_WATERMARK, &error), OL_NOT_COORDINATOR);
    OL_CHECK_INT(ol_partition_try_wait(partition, second.end_offset, second.term, OL_WAIT_FLUSHED, &error), OL_NOT_COORDINATOR);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_leader_that_is_alone_reads_its_own_writes) {
    const char *directory = fresh_directory();
    ol_partition *partition = open_replica(directory, true);
    lead(partition, 1, true);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_ACTIVE);
    commit_one(partition, "g", "t", 0, 1);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 1);
    commit_pending(partition, 7, "g", "t", 0, 2);
    end_transaction(partition, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 2);
    OL_CHECK_INT(delete_one(partition, "g", "t", 0).written, 1);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), -1);
    /* Others come: what is written from now on is in flight. */
    lead(partition, 2, false);
    commit_one(partition, "g", "t", 0, 3);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), -1);
    advance(partition, INT64_MAX);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 3);
    /* And go: all that it has counts. */
    commit_one(partition, "g", "t", 0, 4);
    lead(partition, 3, true);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 4);
    close_partition(partition);
    remove_fixture();
}

/* A leader that wrote nothing in its epoch, which its successor's log does not have. */
OL_TEST(an_epoch_without_records_goes_with_a_cut_at_the_log_end) {
    ol_partition *partition = open_replica(fresh_directory(), true);
    lead(partition, 1, false);
    commit_one(partition, "g", "t", 0, 1);
    lead(partition, 5, false);
    follow(partition, 6);
    OL_CHECK_INT(ol_log_leader_epoch(ol_partition_log(partition)), 5);
    ol_error error;
    OL_CHECK_OK(ol_partition_truncate(partition, 6, 1, &error), &error);
    OL_CHECK_INT(end_of(partition), 1);
    OL_CHECK_INT(ol_log_leader_epoch(ol_partition_log(partition)), 1);
    lead(partition, 7, true);
    commit_one(partition, "g", "t", 0, 2);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_follower_that_was_unloaded_loads_the_same_again) {
    ol_partition *partition = open_replica(fresh_directory(), true);
    lead(partition, 1, false);
    for (int i = 0; i < 10; i++) commit_one(partition, "g", "t", i, i);
    advance(partition, 6);
    ol_error error;
    OL_CHECK_INT(ol_partition_unload(partition, 1, &error), OL_FENCED_LEADER_EPOCH);
    follow(partition, 2);
    OL_CHECK_OK(ol_partition_unload(partition, 2, &error), &error);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_UNLOADED);
    OL_CHECK_INT(ol_table_count(partition->state.table), 0);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_FOLLOWER);
    OL_CHECK_INT(ol_table_count(partition->state.table), 6);
    lead(partition, 3, true);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 9), 9);
    close_partition(partition);
    remove_fixture();
}

/* W of an earlier life: what the load may apply without a word of the host. */
OL_TEST(a_replica_loads_up_to_the_watermark_that_is_known) {
    const char *directory = fresh_directory();
    ol_partition *partition = open_replica(directory, true);
    lead(partition, 1, false);
    for (int i = 0; i < 10; i++) commit_one(partition, "g", "t", i, i);
    advance(partition, 6);
    close_partition(partition);
    ol_partition_options options = fixture_options(directory);
    options.replicated = true;
    for (int64_t known = -1; known < 15; known += 7) {
        options.watermark = known;
        partition = open_partition(&options, true);
        OL_CHECK_INT(partition->applied, known < 0 ? 0 : known < 10 ? known : 10);
        OL_CHECK_INT(ol_table_count(partition->state.table), partition->applied);
        close_partition(partition);
    }
    remove_fixture();
}

/* More is in flight than is kept in memory; batches lie around every W. */
OL_TEST(w_moves_over_more_than_is_kept_in_memory) {
    ol_partition *partition = open_replica(fresh_directory(), true);
    lead(partition, 1, false);
    enum { GROUPS = 40 };
    int64_t written = 0;
    static char metadata[4000];
    memset(metadata, 'm', sizeof metadata);
    for (int round = 0; round < 300; round++) {
        ol_item items[GROUPS];
        for (int i = 0; i < GROUPS; i++) {
            items[i] = position_item("g", "t", i, written++);
            items[i].metadata = ol_slice_of(metadata, ol_test_below(sizeof metadata));
        }
        ol_commit_result result;
        ol_error error;
        OL_CHECK_OK(ol_partition_commit(partition, items, GROUPS, -1, -1, &result, &error), &error);
        OL_CHECK(partition->unapplied.capacity <= OL_UNAPPLIED_BYTES_MAX);
        if (ol_test_below(20) == 0) advance(partition, written - (int64_t)ol_test_below(3 * GROUPS));
    }
    advance(partition, INT64_MAX);
    for (int i = 0; i < GROUPS; i++) OL_CHECK_INT(fetch_one(partition, "g", "t", i), written - GROUPS + i);
    OL_CHECK(partition->unapplied.capacity <= 256 << 10);
    close_partition(partition);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ beginning again */

OL_TEST(a_follower_begins_again_where_its_leaders_log_begins) {
    const char *directory = fresh_directory();
    uint8_t bytes[4096];
    char path[300];
    ol_partition *partition = open_replica(directory, true);
    lead(partition, 1, true);
    for (int i = 0; i < 10; i++) commit_one(partition, "g", "t", i, i);
    follow(partition, 2);
    ol_error error;
    OL_CHECK_INT(ol_partition_restart_at(partition, 2, 9, &error), OL_INVALID);
    OL_CHECK_OK(ol_partition_restart_at(partition, 2, 500, &error), &error);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_UNLOADED);
    OL_CHECK_INT(ol_log_start(ol_partition_log(partition)), 500);
    OL_CHECK_INT(end_of(partition), 500);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_INT(ol_table_count(partition->state.table), 0);
    OL_CHECK_INT(partition->watermark, 500);
    /* Its log now begins there, also for the next open. */
    ol_partition *leader = open_replica(second_directory(path), true);
    follow(leader, 1);
    OL_CHECK_OK(ol_partition_restart_at(leader, 1, 500, &error), &error);
    OL_CHECK_OK(ol_partition_load(leader, &error), &error);
    lead(leader, 2, true);
    commit_one(leader, "g", "t", 0, 77);
    size_t size;
    OL_CHECK_OK(ol_partition_read(leader, 2, 500, OL_READ_WRITTEN, bytes, sizeof bytes, &size, &error), &error);
    OL_CHECK_INT(ol_partition_read(leader, 2, 499, OL_READ_WRITTEN, bytes, sizeof bytes, &size, &error), OL_OUT_OF_RANGE);
    OL_CHECK_OK(ol_partition_read(leader, 2, 500, OL_READ_WRITTEN, bytes, sizeof bytes, &size, &error), &error);
    close_partition(leader);
    OL_CHECK_OK(ol_partition_append(partition, 2, bytes, size, &error), &error);
    advance(partition, 501);
    close_partition(partition);
    partition = open_replica(directory, false);
    OL_CHECK_INT(ol_log_start(ol_partition_log(partition)), 500);
    advance(partition, INT64_MAX);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_INT(ol_table_count(partition->state.table), 1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
