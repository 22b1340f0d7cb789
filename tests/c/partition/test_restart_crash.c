/* A crash at every file operation of a follower that begins again at a later offset: nothing is reported, and it can begin again. */
#include <inttypes.h>

#include "accusation.h"
#include "epoch_of.h"
#include "partition/partition_impl.h"
#include "partition_fixture.h"
#include "testing/fault_fs.h"

enum { RESTART = 700, STATES = 6 };

static char root[300], target[300];

static void make_roots(void) {
    ol_error error;
    fresh_directory();
    char *parts[] = {root, target};
    const char *names[] = {"root", "target"};
    for (int i = 0; i < 2; i++) {
        snprintf(parts[i], 300, "/tmp/offsetlog-test-%d/%s", (int)getpid(), names[i]);
        remove_tree(parts[i]);
        OL_CHECK_OK(ol_fs_posix()->make_directory(ol_fs_posix(), parts[i], &error), &error);
    }
}

static ol_partition_options options_in(ol_fs *fs, const char *parent, char path[400]) {
    snprintf(path, 400, "%s/__consumer_offsets-0", parent);
    ol_partition_options options = fixture_options(path);
    options.log.fs = fs;
    options.log.config.segment_bytes = 4096;
    options.batch_bytes_max = 2048;
    options.replicated = true;
    return options;
}

/* Several segments of a leader, which follows another then; a part of them was never flushed. */
static ol_partition *open_follower(ol_fs *fs, char path[400], bool was_led) {
    ol_partition_options options = options_in(fs, root, path);
    ol_partition *partition = open_partition(&options, true);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(partition, 1, true, &error), &error);
    ol_commit_result result = {0};
    for (int i = 0; i < 80; i++) result = commit_one(partition, "g", "a topic with a long name", i, i);
    OL_CHECK_OK(ol_partition_wait(partition, result.end_offset, result.term, OL_WAIT_FLUSHED, -1, &error), &error);
    for (int i = 0; i < 20; i++) commit_one(partition, "g", "t", i, i);
    OL_CHECK_OK(ol_partition_become_follower(partition, was_led ? 1 : 2, &error), &error);
    return partition;
}

static void check_state(int64_t operation, uint64_t seed) {
    char path[400];
    ol_partition_options options = options_in(ol_fs_posix(), target, path);
    options.log.witnessed = true;
    ol_partition *partition;
    ol_log_recovery recovery;
    ol_error error;
    OL_CHECK_OK(ol_partition_open(&options, &partition, &recovery, &error), &error);
    if (accusation(&recovery) != NULL) {
        fprintf(stderr, "operation %" PRId64 ", seed %" PRIu64 ": reported: %s\n", operation, seed, accusation(&recovery));
        exit(1);
    }
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    ol_problem problem;
    OL_CHECK(!ol_partition_problem_at(partition, 0, &problem));
    OL_CHECK_OK(ol_partition_become_follower(partition, 3, &error), &error);
    OL_CHECK_OK(ol_partition_restart_at(partition, 3, RESTART, &error), &error);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(partition, 4, true, &error), &error);
    OL_CHECK_INT(commit_one(partition, "g", "t", 0, 5).base_offset, RESTART);
    close_partition(partition);
    partition = open_partition(&options, false);
    OL_CHECK_OK(ol_partition_advance(partition, 4, INT64_MAX, &error), &error);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_INT(ol_table_count(partition->state.table), 1);
    close_partition(partition);
}

/* Returns whether the restart came to its end. */
static bool crash_at(int64_t operation, bool was_led) {
    ol_fs *fs;
    ol_error error;
    char path[400];
    make_roots();
    OL_CHECK_OK(ol_fault_fs_create(root, &fs, &error), &error);
    ol_partition *partition = open_follower(fs, path, was_led);
    ol_fault_fs_stop_at(fs, ol_fault_fs_operations(fs) + operation);
    int status = ol_partition_restart_at(partition, was_led ? 1 : 2, RESTART, &error);
    if (!ol_fault_fs_stopped(fs)) OL_CHECK_OK(ol_fault_fs_stop(fs, &error), &error);
    ol_partition_abandon(partition);
    for (uint64_t seed = 0; seed < STATES; seed++) {
        remove_tree(target);
        OL_CHECK_OK(ol_fs_posix()->make_directory(ol_fs_posix(), target, &error), &error);
        OL_CHECK_OK(ol_fault_fs_materialize(fs, target, seed, &error), &error);
        check_state(operation, seed);
    }
    remove_tree(target);
    OL_CHECK_OK(ol_fs_posix()->make_directory(ol_fs_posix(), target, &error), &error);
    OL_CHECK_OK(ol_fault_fs_materialize_all(fs, target, &error), &error);
    check_state(operation, UINT64_MAX);
    ol_fault_fs_free(fs);
    return status == OL_OK;
}

OL_TEST(a_crash_while_a_follower_begins_again_loses_and_reports_nothing) {
    for (int was_led = 0; was_led < 2; was_led++) {
        int64_t operation = 1;
        while (!crash_at(operation, was_led == 1)) operation++;
        printf("%" PRId64 " operations, %d states of each\n", operation, STATES + 1);
        OL_CHECK(operation > 20);
    }
    remove_fixture();
}

OL_TEST_MAIN()
