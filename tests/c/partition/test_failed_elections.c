/* An election that fails has ended the leadership before it: nothing more is written in the epoch of
 * that, and the call can be repeated. */
#include <errno.h>

#include "epoch_of.h"
#include "flip_bit.h"
#include "partition_fixture.h"
#include "testing/fault_fs.h"

static ol_partition *open_leader(ol_fs *fs) {
    ol_partition_options options = fixture_options(fixture_directory);
    ol_error error;
    options.replicated = true;
    if (fs != NULL) options.log.fs = fs;
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK_OK(ol_partition_become_leader(partition, 1, false, &error), &error);
    return partition;
}

static void advance(ol_partition *partition) {
    ol_error error;
    int32_t epoch = epoch_of(partition);
    OL_CHECK_OK(ol_partition_advance(partition, epoch, INT64_MAX, &error), &error);
}

/* It leads no more, and writes nothing. */
static void check_ended(ol_partition *partition, ol_commit_result waits) {
    ol_error error;
    ol_commit_result result;
    int64_t end = ol_log_end(ol_partition_log(partition));
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_FOLLOWER);
    OL_CHECK_INT(ol_partition_wait(partition, waits.end_offset, waits.term, OL_WAIT_WATERMARK, 0,
                                   &error),
                 OL_NOT_COORDINATOR);
    OL_CHECK_INT(try_one(partition, position_item("g", "t", 5, 1), -1, &result, &error),
                 OL_NOT_COORDINATOR);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), end);
}

/* Each epoch ends where the next one was elected. */
static void check_epochs(ol_partition *partition, int64_t elected_at) {
    int32_t epoch;
    int64_t end;
    ol_log_end_for_epoch(ol_partition_log(partition), 1, &epoch, &end);
    OL_CHECK_INT(epoch, 1);
    OL_CHECK_INT(end, elected_at);
    ol_log_end_for_epoch(ol_partition_log(partition), 2, &epoch, &end);
    OL_CHECK_INT(epoch, 2);
    OL_CHECK_INT(end, ol_log_end(ol_partition_log(partition)));
}

static void lead_again(ol_partition *partition) {
    ol_error error;
    int64_t elected_at = ol_log_end(ol_partition_log(partition));
    OL_CHECK_OK(ol_partition_become_leader(partition, 2, false, &error), &error);
    advance(partition);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_ACTIVE);
    commit_one(partition, "g", "t", 0, 9);
    advance(partition);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 9);
    check_epochs(partition, elected_at);
}

/* A batch above W that rots on the disk. */
OL_TEST(an_election_with_a_record_that_cannot_be_read_ends_leadership) {
    (void)fresh_directory();
    ol_error error;
    ol_partition *leader = open_leader(NULL);
    ol_commit_result first = commit_one(leader, "g", "t", 0, 1);
    OL_CHECK_OK(ol_partition_wait(leader, first.end_offset, first.term, OL_WAIT_FLUSHED, -1,
                                  &error),
                &error);
    char path[300];
    snprintf(path, sizeof path, "%s/00000000000000000000.log", fixture_directory);
    flip_bit(path, 70);
    OL_CHECK_INT(ol_partition_become_leader(leader, 2, false, &error), OL_CORRUPT);
    check_ended(leader, first);
    flip_bit(path, 70);
    lead_again(leader);
    close_partition(leader);
    remove_fixture();
}

/* False when the election has fewer operations than `nth`. */
static bool elect_with_fault(int64_t nth, int *ended) {
    (void)fresh_directory();
    char root[256];
    snprintf(root, sizeof root, "%.*s", (int)(strrchr(fixture_directory, '/') - fixture_directory),
             fixture_directory);
    ol_error error;
    ol_fs *fs;
    OL_CHECK_OK(ol_fault_fs_create(root, &fs, &error), &error);
    ol_partition *leader = open_leader(fs);
    ol_commit_result first = commit_one(leader, "g", "t", 0, 1);
    int64_t before = ol_fault_fs_operations(fs);
    ol_fault_fs_fail_at(fs, before + nth, ENOSPC);
    int status = ol_partition_become_leader(leader, 2, false, &error);
    bool reached = ol_fault_fs_operations(fs) >= before + nth;
    ol_fault_fs_fail_at(fs, 0, 0);
    if (status != OL_OK) {
        OL_CHECK_INT(status, OL_DISK_FULL);
        check_ended(leader, first);
        ++*ended;
        lead_again(leader);
    }
    close_partition(leader);
    ol_fault_fs_free(fs);
    remove_fixture();
    return reached;
}

OL_TEST(an_election_on_a_full_disk_ends_leadership) {
    int ended = 0;
    for (int64_t nth = 1; elect_with_fault(nth, &ended); nth++) {}
    OL_CHECK(ended > 0);
}

OL_TEST_MAIN()
