/* The versions of values in a log that another program wrote in part, while commits wait to be applied. */
#include "format/batch.h"
#include "log/log_impl.h"
#include "partition/partition_impl.h"
#include "replica_fixture.h"

/* Commits one offset, and returns the version of its value in the log. */
static int version_of(ol_partition *partition, int32_t leader_epoch) {
    ol_item item = position_item("g", "t", 0, 1);
    item.leader_epoch = leader_epoch;
    ol_commit_result result;
    uint8_t bytes[4096];
    size_t size;
    ol_batch batch;
    ol_record record;
    ol_error error;
    OL_CHECK_OK(try_one(partition, item, -1, &result, &error), &error);
    int64_t at = ol_log_end(ol_partition_log(partition)) - 1;
    OL_CHECK_OK(ol_partition_read(partition, -1, at, OL_READ_WRITTEN, bytes, sizeof bytes, &size, &error), &error);
    OL_CHECK_OK(ol_batch_parse(bytes, size, &batch, &error), &error);
    OL_CHECK(ol_records_sole(&batch, &record));
    return record.value.data[0] << 8 | record.value.data[1];
}

/* A follower that has applied one value of version 1, of another program. */
static ol_partition *follower_of_an_old_log(void) {
    static char path[300];      /* outlives the call, as the options of the partition may */
    uint8_t bytes[4096];
    size_t size;
    ol_error error;
    ol_commit_result result;
    ol_partition *leader = open_replica(fresh_directory(), true);
    lead(leader, 1, true);
    ol_item item = position_item("old", "t", 0, 5);
    item.expire_timestamp = fixture_now + 1;    /* only version 1 has it */
    OL_CHECK_OK(try_one(leader, item, -1, &result, &error), &error);
    OL_CHECK_OK(ol_partition_read(leader, -1, 0, OL_READ_WRITTEN, bytes, sizeof bytes, &size, &error), &error);
    close_partition(leader);
    ol_partition *follower = open_replica(second_directory(path), true);
    follow(follower, 2);
    OL_CHECK_OK(ol_partition_append(follower, 2, bytes, size, &error), &error);
    advance(follower, 1);
    OL_CHECK_INT(follower->applied, 1);
    OL_CHECK(ol_log_has_other_writers(ol_partition_log(follower)));
    return follower;
}

/* The state is that of the whole log only before the first of them. */
OL_TEST(commits_that_wait_have_the_version_of_the_first_one) {
    ol_partition *partition = open_replica(fresh_directory(), true);
    ol_error error;
    OL_CHECK_OK(ol_log_note_foreign(ol_partition_log(partition), &error), &error);
    lead(partition, 3, false);
    OL_CHECK_INT(version_of(partition, -1), 3);
    OL_CHECK_INT(version_of(partition, -1), 3);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_truncated_value_no_longer_counts) {
    ol_partition *partition = follower_of_an_old_log();
    lead(partition, 3, false);
    OL_CHECK_INT(version_of(partition, -1), 1);
    OL_CHECK_INT(version_of(partition, 7), 3);
    OL_CHECK_INT(version_of(partition, -1), 3);
    follow(partition, 4);
    ol_error error;
    OL_CHECK_OK(ol_partition_truncate(partition, 4, 1, &error), &error);
    lead(partition, 5, false);
    OL_CHECK_INT(version_of(partition, -1), 1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_value_that_was_written_before_the_load_counts) {
    ol_partition *partition = follower_of_an_old_log();
    ol_error error;
    OL_CHECK_OK(ol_partition_unload(partition, 2, &error), &error);
    lead(partition, 3, true);
    OL_CHECK_INT(version_of(partition, -1), 1);
    OL_CHECK_INT(version_of(partition, 7), 3);
    OL_CHECK_INT(version_of(partition, -1), 3);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_INT(version_of(partition, -1), 3);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
