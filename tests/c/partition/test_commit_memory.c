/* Memory that runs out during a commit is met before anything is written: what was appended can be applied. */
#include "base/arena.h"
#include "partition_fixture.h"
#include "epoch_of.h"

enum { GROUPS = 1500 };

/* A batch of group records of two groups, a repeated key and a tombstone among them, and a position. */
static size_t make_batch(int number, uint8_t keys[][16], ol_item *items) {
    static const uint8_t members[] = {0, 1, 1, 2, 3};
    static char names[2][8];
    for (int i = 0; i < 2; i++) snprintf(names[i], sizeof names[i], "g%04d", number + i);
    for (size_t i = 0; i < 5; i++) {
        const char *name = names[i / 4];
        memcpy(keys[i], (uint8_t[]){0, 5, 0, 5, 0, 0, 0, 0, 0, 0, 1, (uint8_t)('a' + members[i])}, 12);
        memcpy(keys[i] + 4, name, 5);
        items[i] = (ol_item){.kind = OL_ITEM_GROUP_RECORD, .group = text(name), .key = ol_slice_of(keys[i], 12),
                             .value = i == 3 ? ol_slice_null() : text("value")};
    }
    items[5] = position_item(names[0], "t", 0, number);
    return 6;
}

static uint64_t record_count(ol_partition *partition) {
    const ol_state *state;
    ol_error error;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    ol_group_records_verify(state->group_records);
    uint64_t count = ol_group_records_count(state->group_records);
    ol_partition_unlock_state(partition);
    return count;
}

/* Each allocation of an arena fails in turn: the commit is refused, and the partition goes on as if it had not been asked. */
static void commit_through_failures(ol_partition *partition, const ol_item *items, size_t count, int64_t *refused) {
    ol_commit_result result;
    ol_error error;
    int64_t end = ol_log_end(ol_partition_log(partition));
    for (int64_t allowed = 0;; allowed++) {
        ol_arena_fail_after(allowed);
        int status = ol_partition_commit(partition, items, count, -1, -1, &result, &error);
        ol_arena_fail_after(-1);
        OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_ACTIVE);
        if (status == OL_OK) return;
        OL_CHECK_INT(status, OL_NO_MEMORY);
        OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), end);
        (*refused)++;
    }
}

OL_TEST(a_commit_that_finds_no_memory_changes_nothing) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    int64_t refused = 0;
    for (int i = 0; i < GROUPS; i++) {
        uint8_t keys[6][16];
        ol_item items[6];
        size_t count = make_batch(2 * i, keys, items);
        commit_through_failures(partition, items, count, &refused);
        OL_CHECK_INT(fetch_one(partition, (char[]){'g', (char)('0' + 2 * i / 1000), (char)('0' + 2 * i / 100 % 10),
                                                   (char)('0' + 2 * i / 10 % 10), (char)('0' + 2 * i % 10), 0}, "t", 0), 2 * i);
        if (i % 100 == 0) OL_CHECK_INT(record_count(partition), 3 * i + 3);
    }
    OL_CHECK(refused > 50);
    OL_CHECK_INT(record_count(partition), 3 * GROUPS);
    ol_digest live = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

static ol_partition *open_leader(const char *directory) {
    ol_partition_options options = fixture_options(directory);
    ol_error error;
    options.replicated = true;
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK_OK(ol_partition_become_leader(partition, 1, false, &error), &error);
    return partition;
}

/* A leader's records are applied when they are replicated, however little memory there is then. */
OL_TEST(what_a_leader_wrote_is_applied_without_memory) {
    ol_partition *leader = open_leader(fresh_directory());
    ol_commit_result result;
    ol_error error;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < GROUPS / 10; i++) {
            uint8_t keys[6][16];
            ol_item items[6];
            size_t count = make_batch(2 * (round * (GROUPS / 10) + i), keys, items);
            OL_CHECK_OK(ol_partition_commit(leader, items, count, -1, -1, &result, &error), &error);
        }
        OL_CHECK_INT(record_count(leader), 3 * round * (GROUPS / 10));
        ol_arena_fail_after(0);
        /* Not all of it, and then the rest. */
        int status = ol_partition_advance(leader, epoch_of(leader), result.end_offset - 6 * 20, &error);
        if (status == OL_OK) status = ol_partition_advance(leader, epoch_of(leader), result.end_offset, &error);
        ol_arena_fail_after(-1);
        OL_CHECK_OK(status, &error);
        OL_CHECK_INT(record_count(leader), 3 * (round + 1) * (GROUPS / 10));
    }
    close_partition(leader);
    remove_fixture();
}

/* A leader that is deposed gives back what it held; what it wrote is applied by whoever finds it committed. */
OL_TEST(what_a_deposed_leader_held_is_given_back) {
    ol_partition *leader = open_leader(fresh_directory());
    uint8_t keys[6][16];
    ol_item items[6];
    ol_commit_result result;
    ol_error error;
    size_t count = make_batch(0, keys, items);
    OL_CHECK_OK(ol_partition_commit(leader, items, count, -1, -1, &result, &error), &error);
    OL_CHECK_OK(ol_partition_become_follower(leader, 2, &error), &error);
    OL_CHECK_OK(ol_partition_advance(leader, epoch_of(leader), result.end_offset, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(leader, 3, false, &error), &error);
    OL_CHECK_INT(record_count(leader), 3);
    OL_CHECK_OK(ol_partition_commit(leader, items, count, -1, -1, &result, &error), &error);
    OL_CHECK_INT(record_count(leader), 3);
    ol_partition_abandon(leader);       /* with reservations in flight */
    remove_fixture();
}

/* The scratch of a large commit is given back however it ends. */
OL_TEST(a_commit_that_writes_nothing_keeps_no_more_scratch_than_another) {
    enum { MANY = 20000, KEPT_BYTES_MAX = 2 << 20 };
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    static ol_item items[MANY];
    ol_commit_result result;
    ol_error error;
    for (int i = 0; i < MANY; i++) items[i] = position_item("a", "t", i, 1);
    items[MANY - 1].condition = OL_CONDITION_EQUALS;
    items[MANY - 1].expected = 7;
    OL_CHECK_INT(ol_partition_commit(partition, items, MANY, -1, -1, &result, &error), OL_CONDITION);
    OL_CHECK(ol_partition_scratch_bytes(partition) <= KEPT_BYTES_MAX);
    /* Nothing is there to be deleted. */
    for (int i = 0; i < MANY; i++) {
        items[i].kind = OL_ITEM_POSITION_TOMBSTONE;
        items[i].condition = OL_CONDITION_NONE;
    }
    OL_CHECK_OK(ol_partition_commit(partition, items, MANY, -1, -1, &result, &error), &error);
    OL_CHECK_INT(result.written, 0);
    OL_CHECK(ol_partition_scratch_bytes(partition) <= KEPT_BYTES_MAX);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
