/* The seams of replication: W moved from outside, follower append, raw read, truncate, epochs (docs/architecture.md §7, docs/architecture.md §7). */
#include <fcntl.h>
#include <pthread.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "partition/partition_impl.h"
#include "replica_fixture.h"
#include "stored_codec.h"

static ol_partition *open_leader(const char *directory, int32_t epoch) {
    ol_partition *partition = open_replica(directory, true);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(partition, epoch, false, &error), &error);
    return partition;
}

/* The digest of a replica, whatever its role: no other thread runs. */
static ol_digest state_digest(const ol_state *state) {
    ol_digest digest;
    ol_state_digest(state, true, &digest);
    return digest;
}

/* The fetch of a follower: everything from `offset` on, by the raw read. */
static void replicate(ol_partition *leader, ol_partition *follower) {
    ol_log_reader *reader;
    ol_log_piece piece;
    ol_error error;
    int status;
    OL_CHECK_OK(ol_partition_become_follower(follower, epoch_of(leader), &error), &error);
    OL_CHECK_OK(ol_log_reader_open(ol_partition_log(leader), ol_log_end(ol_partition_log(follower)), &reader, &error), &error);
    while ((status = ol_log_reader_next(reader, 4096, &piece, &error)) == OL_OK) {
        OL_CHECK_OK(ol_partition_append(follower, epoch_of(leader), piece.data, piece.size, &error), &error);
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
    OL_CHECK_INT(result.rests_on, 1);       /* W must pass the record at 0 before this may be reported */
    item.condition = OL_CONDITION_EQUALS;
    item.expected = 1;
    OL_CHECK_OK(try_one(leader, item, -1, &result, &error), &error);
    advance(leader, 1);
    OL_CHECK_INT(fetch_one(leader, "g", "t", 0), 1);
    OL_CHECK_INT(ol_partition_wait(leader, result.end_offset, result.term, OL_WAIT_WATERMARK, 1, &error), OL_TIMED_OUT);
    advance(leader, 2);
    OL_CHECK_OK(ol_partition_wait(leader, result.end_offset, result.term, OL_WAIT_WATERMARK, 1000, &error), &error);
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
    ol_partition *leader = open_leader(directory, 1), *follower = open_replica(second, true);
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
    OL_CHECK_INT(ol_partition_append(leader, epoch_of(leader), NULL, 0, &error), OL_FENCED_LEADER_EPOCH);
    const ol_state *state;
    OL_CHECK_INT(ol_partition_lock_state(follower, &state, &error), OL_NOT_COORDINATOR);
    OL_CHECK_OK(ol_partition_become_follower(leader, 2, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(follower, 2, false, &error), &error);
    OL_CHECK_INT(ol_partition_become_leader(leader, 2, false, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_OK(ol_partition_become_leader(leader, 3, false, &error), &error);
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
    OL_CHECK_OK(ol_partition_become_leader(partition, 2, false, &error), &error);
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

OL_TEST(what_is_written_where_a_batch_around_w_was_cut_is_applied) {
    ol_partition *partition = open_leader(fresh_directory(), 5);
    for (int i = 0; i < 10; i++) commit_one(partition, "g", "t", 0, i);
    ol_item items[] = {position_item("g", "t", 1, 1), position_item("g", "t", 2, 2), position_item("g", "t", 3, 3)};
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(partition, items, 3, -1, -1, &result, &error), &error);
    advance(partition, 11);
    OL_CHECK_OK(ol_partition_become_follower(partition, 6, &error), &error);
    OL_CHECK_OK(ol_partition_truncate(partition, epoch_of(partition), 11, &error), &error);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 10);
    OL_CHECK_OK(ol_partition_become_leader(partition, 7, false, &error), &error);
    commit_one(partition, "g", "t", 0, 77);
    advance(partition, 11);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 77);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 1), -1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(truncation_below_the_state_drops_it_and_the_epochs_tell_where) {
    ol_partition *partition = open_leader(fresh_directory(), 5);
    for (int i = 0; i < 10; i++) commit_one(partition, "g", "t", 0, i);
    advance(partition, 10);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_follower(partition, 6, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(partition, 8, false, &error), &error);
    for (int i = 10; i < 15; i++) commit_one(partition, "g", "t", 0, i);
    int32_t epoch;
    int64_t end;
    ol_log_end_for_epoch(ol_partition_log(partition), 7, &epoch, &end);
    OL_CHECK_INT(epoch, 5);
    OL_CHECK_INT(end, 10);
    OL_CHECK_INT(ol_partition_truncate(partition, epoch_of(partition), 12, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_OK(ol_partition_become_follower(partition, 9, &error), &error);
    OL_CHECK_OK(ol_partition_truncate(partition, epoch_of(partition), 12, &error), &error);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 12);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_FOLLOWER);       /* the state held only what is below W */
    OL_CHECK_OK(ol_partition_truncate(partition, epoch_of(partition), 4, &error), &error);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_UNLOADED);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(partition, 10, false, &error), &error);
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
    OL_CHECK_OK(ol_partition_delete_group(leader, text("g"), false, &result, &error), &error);
    OL_CHECK_INT(result.written, 1);
    advance(leader, INT64_MAX);
    const ol_state *state;
    OL_CHECK_OK(ol_partition_lock_state(leader, &state, &error), &error);
    OL_CHECK_INT(ol_group_records_count(state->group_records), 0);
    ol_partition_unlock_state(leader);
    close_partition(leader);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ what leaders come and go over */

static ol_partition *second_replica(const char *directory) {
    char second[300];
    snprintf(second, sizeof second, "%.*s-1", (int)strlen(directory) - 2, directory);
    return open_replica(second, true);
}

/* A batch of `count` positions (g, t, 0...) with offsets from 5 on, as another leader wrote it; the value of record `refused` is of a version that no
 * broker knows. */
static size_t foreign_batch(uint8_t *start, int64_t base_offset, int32_t epoch, int32_t count, int32_t refused) {
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, fixture_now);
    fields.leader_epoch = epoch;
    fields.record_count = count;
    fields.last_offset_delta = count - 1;
    uint8_t *p = start + OL_BATCH_OVERHEAD;
    for (int32_t i = 0; i < count; i++) {
        uint8_t key[64], value[64];
        uint8_t *key_end = ol_offset_key_put(key, OL_KEY_OFFSET_COMMIT, text("g"), text("t"), i);
        ol_offset_value committed = {.offset = 5 + i, .commit_timestamp = 1, .expire_timestamp = -1, .leader_epoch = -1, .metadata = text("")};
        uint8_t *value_end = ol_offset_value_put(value, &committed, 3);
        if (i == refused) value[1] = 9;
        p = ol_record_put(p, 0, i, ol_slice_of(key, (size_t)(key_end - key)), ol_slice_of(value, (size_t)(value_end - value)), 0, ol_slice_null());
    }
    ol_batch_seal(start, p, &fields);
    return (size_t)(p - start);
}

static ol_fs moving_fs;
static ol_partition *moving_partition;      /* its W moves to 200 when the load first opens a segment; NULL: it moved */

static int open_and_advance(ol_fs *fs OL_UNUSED, const char *path, ol_open_mode mode, ol_file **file, ol_error *error) {
    if (moving_partition != NULL && strstr(path, ".log") != NULL) {
        ol_partition *partition = moving_partition;
        moving_partition = NULL;
        advance(partition, 200);
    }
    return ol_fs_posix()->open(ol_fs_posix(), path, mode, file, error);
}

OL_TEST(w_that_moves_during_a_load_is_loaded_up_to) {
    ol_partition_options options = fixture_options(fresh_directory());
    moving_fs = *ol_fs_posix();
    moving_fs.open = open_and_advance;
    options.log.fs = &moving_fs;
    options.log.config.segment_bytes = 8192;
    options.batch_bytes_max = 4096;
    options.replicated = true;
    ol_partition *partition = open_partition(&options, true);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(partition, 0, false, &error), &error);
    for (int i = 0; i < 300; i++) commit_one(partition, "g", "t", i, 1000 + i);
    close_partition(partition);
    options.log.clean = true;
    partition = open_partition(&options, false);
    advance(partition, 100);
    moving_partition = partition;
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK(moving_partition == NULL);
    advance(partition, 300);
    OL_CHECK_OK(ol_partition_become_leader(partition, 1, false, &error), &error);
    for (int i = 0; i < 300; i++) OL_CHECK_INT(fetch_one(partition, "g", "t", i), 1000 + i);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_partition_is_loaded_once) {
    ol_partition *partition = open_replica(fresh_directory(), true);
    ol_error error;
    OL_CHECK_INT(ol_partition_load(partition, &error), OL_INVALID);
    OL_CHECK_OK(ol_partition_become_leader(partition, 1, false, &error), &error);
    commit_pending(partition, 7, "g", "t", 0, 1);
    OL_CHECK_OK(ol_partition_become_follower(partition, 2, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(partition, 3, false, &error), &error);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_LOADING);
    OL_CHECK_INT(ol_partition_load(partition, &error), OL_INVALID);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_LOADING);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_commit_that_was_cut_off_is_never_reported_as_durable) {
    ol_partition *partition = open_leader(fresh_directory(), 1);
    ol_commit_result lost = commit_one(partition, "g", "t", 0, 42);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_follower(partition, 2, &error), &error);
    OL_CHECK_OK(ol_partition_truncate(partition, epoch_of(partition), 0, &error), &error);
    uint8_t batch[300];
    OL_CHECK_OK(ol_partition_append(partition, epoch_of(partition), batch, foreign_batch(batch, 0, 2, 1, -1), &error), &error);
    advance(partition, 1);
    OL_CHECK_OK(ol_partition_wait(partition, 1, OL_TERM_NOW, OL_WAIT_FLUSHED, 1000, &error), &error);
    OL_CHECK_INT(ol_partition_wait(partition, lost.end_offset, lost.term, OL_WAIT_WATERMARK, 100, &error), OL_NOT_COORDINATOR);
    OL_CHECK_INT(ol_partition_wait(partition, lost.end_offset, lost.term, OL_WAIT_FLUSHED, 100, &error), OL_NOT_COORDINATOR);
    OL_CHECK_OK(ol_partition_become_leader(partition, 3, false, &error), &error);
    ol_commit_result kept = commit_one(partition, "g", "t", 0, 43);
    advance(partition, 2);
    OL_CHECK_OK(ol_partition_wait(partition, kept.end_offset, kept.term, OL_WAIT_WATERMARK, 100, &error), &error);
    close_partition(partition);
    remove_fixture();
}

/* The batches of `from` that end at or below `end`. */
static void replicate_until(ol_partition *from, ol_partition *to, int64_t end) {
    ol_log_reader *reader;
    ol_log_piece piece;
    ol_error error;
    OL_CHECK_OK(ol_log_reader_open(ol_partition_log(from), ol_log_end(ol_partition_log(to)), &reader, &error), &error);
    while (ol_log_reader_next(reader, 1, &piece, &error) == OL_OK && piece.base_offset < end) {
        OL_CHECK_OK(ol_partition_append(to, epoch_of(to), piece.data, piece.size, &error), &error);
    }
    ol_log_reader_close(reader);
}

/* A leader that dies inside a commit larger than a batch; the follower applied what it had of it when `applied`. */
static void check_new_leader_aborts(bool applied) {
    const char *directory = fresh_directory();
    ol_partition_options options = fixture_options(directory);
    options.replicated = true;
    options.batch_bytes_max = 600;
    ol_partition *old = open_partition(&options, true), *new = second_replica(directory);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(old, 1, false, &error), &error);
    OL_CHECK_OK(ol_partition_become_follower(new, 1, &error), &error);
    commit_pending(old, 9, "g", "t", 77, 1);        /* foreign: stays open */
    ol_item items[50];
    for (int i = 0; i < 50; i++) items[i] = position_item("g", "t", i, i);
    ol_commit_result result;
    OL_CHECK_OK(ol_partition_commit(old, items, 50, -1, -1, &result, &error), &error);
    replicate_until(old, new, 20);
    ol_log *log = ol_partition_log(new);
    int64_t end = ol_log_end(log);
    OL_CHECK(end > 1 && end < 51);
    if (applied) advance(new, end);
    OL_CHECK_OK(ol_partition_become_leader(new, 2, false, &error), &error);
    if (!applied) {
        OL_CHECK_INT(ol_log_end(log), end);         /* it leads only in name yet */
        advance(new, INT64_MAX);
    }
    OL_CHECK_INT(ol_partition_role(new), OL_ROLE_ACTIVE);
    OL_CHECK_INT(ol_log_end(log), end + 1);
    ol_log_transaction transaction;
    OL_CHECK(ol_log_open_transaction_at(log, 0, &transaction) && transaction.producer_id == 9);
    OL_CHECK(!ol_log_open_transaction_at(log, 1, &transaction));
    advance(new, INT64_MAX);
    for (int i = 0; i < 50; i++) OL_CHECK_INT(fetch_one(new, "g", "t", i), -1);
    OL_CHECK_OK(ol_partition_become_leader(new, 3, false, &error), &error);
    OL_CHECK_INT(ol_log_end(log), end + 1);
    close_partition(old);
    close_partition(new);
    remove_fixture();
}

OL_TEST(a_commit_of_before_is_not_durable_by_what_stands_there_after_another_open) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_error error;
    options.replicated = true;
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK_OK(ol_partition_become_leader(partition, 1, true, &error), &error);
    ol_commit_result result = commit_one(partition, "g", "t", 0, 1);
    ol_partition_abandon(partition);
    options.term = result.term + 1;
    partition = open_partition(&options, true);
    OL_CHECK_INT(ol_partition_wait(partition, result.end_offset, result.term, OL_WAIT_FLUSHED, 0, &error), OL_NOT_COORDINATOR);
    OL_CHECK_OK(ol_partition_wait(partition, result.end_offset, OL_TERM_NOW, OL_WAIT_FLUSHED, -1, &error), &error);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_new_leader_aborts_what_an_earlier_one_left_open_of_ours) {
    check_new_leader_aborts(true);
    check_new_leader_aborts(false);
}

OL_TEST(a_record_that_kafka_would_refuse_is_passed_over_live_as_by_a_load) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.replicated = true;
    ol_partition *partition = open_partition(&options, true);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_follower(partition, 1, &error), &error);
    uint8_t batch[500];
    OL_CHECK_OK(ol_partition_append(partition, epoch_of(partition), batch, foreign_batch(batch, 0, 1, 3, 1), &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(partition, 2, false, &error), &error);
    /* It is applied, and answers nobody: what it cannot read would look as if it had never been. */
    OL_CHECK_INT(ol_partition_advance(partition, 2, 3, &error), OL_READ_ONLY);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_LOADING);
    OL_CHECK(ol_partition_is_read_only(partition));
    ol_problem problem;
    OL_CHECK(ol_partition_problem_at(partition, 0, &problem) && !ol_partition_problem_at(partition, 1, &problem));
    OL_CHECK_INT(problem.error.offset, 1);
    OL_CHECK_INT((int64_t)ol_table_count(partition->state.table), 2);
    ol_digest live = state_digest(&partition->state);
    ol_partition_abandon(partition);
    partition = open_partition(&options, false);
    advance(partition, 3);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK(ol_partition_is_read_only(partition));
    ol_digest loaded = state_digest(&partition->state);
    check_same_digest(live, loaded);
    ol_partition_abandon(partition);
    remove_fixture();
}

/* Readers of the state while the overlay comes and goes; the thread sanitizer looks on. */
static _Atomic bool readers_stop;

static void *read_on(void *context) {
    ol_partition *partition = context;
    while (!readers_stop) {
        const ol_state *state;
        ol_error error;
        if (ol_partition_lock_state(partition, &state, &error) != OL_OK) continue;
        ol_pair_name name = ol_table_name(state->table, text("g"), ol_table_group_hash(state->table, text("g")), text("t"));
        ol_position_value value;
        for (int i = 0; i < 50; i++) ol_table_get(state->table, &name, i, &value);
        ol_partition_unlock_state(partition);
        /* A mutex is not fair: without a pause the elections wait for seconds. */
        usleep(10);
    }
    return NULL;
}

OL_TEST(elections_do_not_disturb_readers) {
    ol_partition *leader = open_leader(fresh_directory(), 1);
    pthread_t thread;
    OL_CHECK_INT(pthread_create(&thread, NULL, read_on, leader), 0);
    ol_error error;
    for (int32_t epoch = 2; epoch < 100; epoch++) {
        for (int i = 0; i < 10; i++) commit_one(leader, "g", "t", i, i);
        advance(leader, ol_log_end(ol_partition_log(leader)) - 3);
        OL_CHECK_OK(ol_partition_become_leader(leader, epoch, false, &error), &error);
        advance(leader, INT64_MAX);
        OL_CHECK_INT(ol_partition_role(leader), OL_ROLE_ACTIVE);
    }
    readers_stop = true;
    pthread_join(thread, NULL);
    close_partition(leader);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ decompressors */

static bool interrupted;

static int decompress_or_stop(void *context, ol_codec codec, int magic, ol_slice input, size_t limit, ol_slice *output, ol_error *error) {
    if (interrupted) return ol_fail(error, OL_IO, "interrupted");
    return stored_decompress(context, codec, magic, input, limit, output, error);
}

/* The batch of foreign_batch as a compressed one. */
static size_t compressed_batch(uint8_t *start, int64_t base_offset, int32_t epoch, int32_t count) {
    size_t size = foreign_batch(start, base_offset, epoch, count, -1);
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, fixture_now);
    fields.leader_epoch = epoch;
    fields.record_count = count;
    fields.last_offset_delta = count - 1;
    memmove(start + OL_BATCH_OVERHEAD + 1, start + OL_BATCH_OVERHEAD, size - OL_BATCH_OVERHEAD);
    start[OL_BATCH_OVERHEAD] = 'S';
    ol_batch_seal(start, start + size + 1, &fields);
    ol_store_i16(start + OL_BATCH_AT_ATTRIBUTES, OL_CODEC_GZIP);
    ol_store_u32(start + OL_BATCH_AT_CRC, ol_crc32c(start + OL_BATCH_AT_ATTRIBUTES, size + 1 - OL_BATCH_AT_ATTRIBUTES));
    return size + 1;
}

/* That a decompressor was interrupted says nothing about the bytes: the batch is neither damaged nor passed over. */
OL_TEST(a_batch_whose_decompression_is_interrupted_is_not_passed_over) {
    stored_codec stored;
    ol_decompressor port = stored_port(&stored);
    port.decompress = decompress_or_stop;
    ol_partition_options options = fixture_options(fresh_directory());
    options.replicated = true;
    options.log.decompressor = &port;
    ol_partition *partition = open_partition(&options, true);
    uint8_t batch[500];
    ol_error error;
    OL_CHECK_OK(ol_partition_become_follower(partition, 1, &error), &error);
    OL_CHECK_OK(ol_partition_append(partition, epoch_of(partition), batch, compressed_batch(batch, 0, 1, 3), &error), &error);
    interrupted = true;
    OL_CHECK_INT(ol_partition_become_leader(partition, 2, false, &error), OL_IO);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_FOLLOWER);
    OL_CHECK_INT(ol_partition_advance(partition, epoch_of(partition), 3, &error), OL_IO);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_FAILED);
    OL_CHECK(!ol_partition_is_read_only(partition));
    ol_partition_abandon(partition);
    interrupted = false;
    partition = open_partition(&options, true);
    OL_CHECK_OK(ol_partition_become_leader(partition, 3, false, &error), &error);
    advance(partition, 3);
    for (int i = 0; i < 3; i++) OL_CHECK_INT(fetch_one(partition, "g", "t", i), 5 + i);
    close_partition(partition);
    OL_CHECK_INT(stored.held, 0);
    remove_fixture();
}

OL_TEST_MAIN()
