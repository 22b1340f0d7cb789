/* Conditions on the generation of a group, and the record that ends one. */
#include "epoch_of.h"
#include "partition/partition_impl.h"
#include "partition_fixture.h"
#include "base/bytes.h"
#include "format/offset_record.h"

static ol_partition *open_lone(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    return open_partition(&options, true);
}

static ol_partition *open_leader(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.replicated = true;
    ol_partition *partition = open_partition(&options, true);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(partition, 1, false, &error), &error);
    return partition;
}

static ol_item generation_item(int64_t expected) {
    return (ol_item){.kind = OL_ITEM_GENERATION, .group = text("g"), .expected = expected};
}

/* GroupMetadata v3 of the group "g" (docs/format/records.md §3.4), with a member or none. */
static void write_group(ol_partition *partition, int32_t generation, bool has_member) {
    static uint8_t key[] = {0, 2, 0, 1, 'g'};
    uint8_t value[200] = {0, 3, 0, 8, 'c', 'o', 'n', 's', 'u', 'm', 'e', 'r'};
    uint8_t *p = value + 12;
    ol_store_i32(p, generation);
    memset(p + 4, 0xff, 4);         /* protocol and leader: null */
    ol_store_i64(p + 8, 1);
    ol_store_i32(p + 16, has_member);
    p += 20;
    if (has_member) {
        static const uint8_t member[] = {0, 1, 'm', 0xff, 0xff, 0, 1, 'c', 0, 1, 'h', 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0};
        memcpy(p, member, sizeof member);
        p += sizeof member;
    }
    ol_item item = {.kind = OL_ITEM_GROUP_RECORD, .group = text("g"), .key = ol_slice_of(key, sizeof key),
                    .value = ol_slice_of(value, (size_t)(p - value))};
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), &error);
}

static int commit_in(ol_partition *partition, int64_t generation, int64_t offset, ol_commit_result *result) {
    ol_item items[] = {generation_item(generation), position_item("g", "t", 0, offset)};
    ol_error error;
    int status = ol_partition_commit(partition, items, 2, -1, -1, result, &error);
    if (status != OL_OK) OL_CHECK_INT(error.item, 0);
    return status;
}

OL_TEST(a_commit_of_another_generation_writes_nothing) {
    ol_partition *partition = open_lone();
    ol_commit_result result;
    OL_CHECK_INT(commit_in(partition, 0, 1, &result), OL_GENERATION);
    OL_CHECK(!result.found);
    OL_CHECK_OK(commit_in(partition, -1, 1, &result), &(ol_error){0});
    write_group(partition, 5, true);
    OL_CHECK_INT(commit_in(partition, 4, 2, &result), OL_GENERATION);
    OL_CHECK(result.found && result.found_offset == 5);
    OL_CHECK_INT(commit_in(partition, 6, 2, &result), OL_GENERATION);
    OL_CHECK_INT(commit_in(partition, -1, 2, &result), OL_GENERATION);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 1);
    OL_CHECK_OK(commit_in(partition, 5, 3, &result), &(ol_error){0});
    OL_CHECK_INT(result.written, 1);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 3);
    write_group(partition, 6, false);
    OL_CHECK_OK(commit_in(partition, -1, 4, &result), &(ol_error){0});
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_fence_ends_the_generation_and_sets_offsets_in_one_batch) {
    ol_partition *partition = open_lone();
    write_group(partition, 5, true);
    commit_one(partition, "g", "t", 0, 100);
    ol_item reset[] = {position_item("g", "t", 0, 7), position_item("g", "t", 1, 8)};
    ol_commit_result result;
    ol_error error;
    int32_t generation;
    OL_CHECK_OK(ol_partition_fence(partition, text("g"), reset, 2, &generation, &result, &error), &error);
    OL_CHECK_INT(generation, 6);
    OL_CHECK_INT(result.written, 3);
    OL_CHECK_INT(commit_in(partition, 5, 101, &result), OL_GENERATION);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 7);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 1), 8);
    OL_CHECK_OK(commit_in(partition, 6, 9, &result), &error);
    OL_CHECK_OK(commit_in(partition, -1, 10, &result), &error);        /* nobody has joined again */
    write_group(partition, 7, true);
    OL_CHECK_OK(ol_partition_fence(partition, text("g"), NULL, 0, &generation, &result, &error), &error);
    OL_CHECK_INT(generation, 8);
    OL_CHECK_INT(result.written, 1);
    /* A group without a record begins to have generations. */
    OL_CHECK_OK(ol_partition_fence(partition, text("new"), NULL, 0, &generation, &result, &error), &error);
    OL_CHECK_INT(generation, 1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(records_in_flight_are_those_that_count) {
    ol_partition *leader = open_leader();
    ol_commit_result result;
    ol_error error;
    write_group(leader, 5, true);
    OL_CHECK_OK(commit_in(leader, 5, 1, &result), &error);
    OL_CHECK_OK(ol_partition_advance(leader, 1, INT64_MAX, &error), &error);
    write_group(leader, 6, true);
    OL_CHECK_INT(commit_in(leader, 5, 2, &result), OL_GENERATION);
    OL_CHECK_INT(result.rests_on, ol_log_end(leader->log));     /* W must pass the record first */
    OL_CHECK_OK(commit_in(leader, 6, 2, &result), &error);
    OL_CHECK_INT(ol_partition_delete_group(leader, text("g"), true, &result, &error), OL_GENERATION);
    OL_CHECK_OK(ol_partition_delete_group(leader, text("g"), false, &result, &error), &error);
    OL_CHECK_INT(commit_in(leader, 6, 3, &result), OL_GENERATION);
    OL_CHECK(!result.found);
    OL_CHECK_OK(commit_in(leader, -1, 3, &result), &error);
    OL_CHECK_OK(ol_partition_advance(leader, 1, INT64_MAX, &error), &error);
    OL_CHECK(!leader->inflight.active || ol_group_records_count(leader->inflight.gone) == 0);
    OL_CHECK_INT(commit_in(leader, 6, 3, &result), OL_GENERATION);
    OL_CHECK_INT(result.rests_on, -1);
    OL_CHECK_OK(ol_partition_delete_group(leader, text("g"), true, &result, &error), &error);
    close_partition(leader);
    remove_fixture();
}

OL_TEST_MAIN()
