/* A commit of several groups that is larger than a batch, and a disk that is full in between: space for the batches was made sure of, but a
 * roll writes an index and a snapshot beside it.  The groups before that are there, each whole, the others are not; of a replicated
 * partition as well, where nothing of it is applied yet (ol_partition_commit). */
#include <errno.h>

#include "testing/fault_fs.h"
#include "partition_fixture.h"
#include "epoch_of.h"

enum { GROUPS = 5, NUMBERS = 40, OLD = 1, NEW = 2 };

static const char *const group_names[GROUPS] = {"a", "b", "c", "d", "e"};

static int commit_groups(ol_partition *partition, int64_t offset, ol_error *error) {
    static ol_item items[GROUPS * NUMBERS];
    ol_commit_result result;
    for (int i = 0; i < GROUPS * NUMBERS; i++) items[i] = position_item(group_names[i / NUMBERS], "t", i % NUMBERS, offset);
    return ol_partition_commit(partition, items, GROUPS * NUMBERS, -1, -1, &result, error);
}

static void apply_all(ol_partition *partition, bool replicated) {
    ol_error error;
    if (replicated) OL_CHECK_OK(ol_partition_advance(partition, epoch_of(partition), INT64_MAX, &error), &error);
}

static ol_partition *open_on(ol_fs *fs, bool replicated, int32_t epoch) {
    ol_partition_options options = fixture_options(fixture_directory);
    ol_error error;
    options.log.fs = fs;
    options.replicated = replicated;
    options.batch_bytes_max = 1024;
    options.log.config.segment_bytes = 8192;
    options.log.config.index_interval_bytes = 512;
    options.log.config.extend_bytes_min = 4096;
    options.log.config.extend_bytes_max = 8192;
    ol_partition *partition = open_partition(&options, !replicated);
    if (!replicated) return partition;
    apply_all(partition, replicated);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(partition, epoch, false, &error), &error);
    apply_all(partition, replicated);
    return partition;
}

/* How many groups have the new offset: the first so many, and each of them whole. */
static int count_new(ol_partition *partition) {
    int count = 0;
    while (count < GROUPS && fetch_one(partition, group_names[count], "t", 0) == NEW) count++;
    for (int i = 0; i < GROUPS * NUMBERS; i++) {
        OL_CHECK_INT(fetch_one(partition, group_names[i / NUMBERS], "t", i % NUMBERS), i / NUMBERS < count ? NEW : OLD);
    }
    return count;
}

typedef struct counts {
    int refused;
    int partial;
    int failed;
} counts;

/* The disk was full and the partition goes on. */
static void check_refused(ol_partition *partition, bool replicated, counts *seen) {
    ol_error error;
    ol_positions positions;
    ol_partition_positions(partition, &positions);
    /* Before W has passed it nothing of it is seen.  A lone store applies each group at once, and leaves a transaction whose end
     * found no space to its next write. */
    if (replicated && positions.applied < positions.written) OL_CHECK_INT(count_new(partition), 0);
    apply_all(partition, replicated);
    int count = count_new(partition);
    OL_CHECK(count < GROUPS);
    seen->refused++;
    seen->partial += count > 0;
    /* There is space again. */
    OL_CHECK_OK(commit_groups(partition, NEW, &error), &error);
    apply_all(partition, replicated);
    OL_CHECK_INT(count_new(partition), GROUPS);
}

/* False when the commit has fewer operations than `nth`. */
static bool commit_with_fault(bool replicated, int64_t nth, counts *seen) {
    ol_error error;
    ol_fs *fs;
    (void)fresh_directory();
    char root[256];
    snprintf(root, sizeof root, "%.*s", (int)(strrchr(fixture_directory, '/') - fixture_directory), fixture_directory);
    OL_CHECK_OK(ol_fault_fs_create(root, &fs, &error), &error);
    fs->stored = NULL;
    ol_partition *partition = open_on(fs, replicated, 1);
    OL_CHECK_OK(commit_groups(partition, OLD, &error), &error);
    apply_all(partition, replicated);
    int64_t before = ol_fault_fs_operations(fs);
    ol_fault_fs_fail_at(fs, before + nth, ENOSPC);
    int status = commit_groups(partition, NEW, &error);
    bool reached = ol_fault_fs_operations(fs) >= before + nth;
    ol_fault_fs_fail_at(fs, 0, 0);
    if (status != OL_OK) OL_CHECK(status == OL_DISK_FULL || status == OL_FAILED);
    if (status != OL_OK && ol_partition_role(partition) == OL_ROLE_ACTIVE) check_refused(partition, replicated, seen);
    seen->failed += ol_partition_role(partition) == OL_ROLE_FAILED;
    bool same = ol_partition_role(partition) == OL_ROLE_ACTIVE;
    apply_all(partition, replicated && same);
    ol_digest live = {0};
    if (same) live = digest_of(partition);
    ol_partition_abandon(partition);
    partition = open_on(fs, replicated, 2);
    if (same) check_same_digest(live, digest_of(partition));
    else (void)count_new(partition);
    ol_partition_abandon(partition);
    ol_fault_fs_free(fs);
    remove_fixture();
    return reached;
}

static void check_every_operation(bool replicated) {
    counts seen = {0};
    for (int64_t nth = 1; commit_with_fault(replicated, nth, &seen); nth++) {}
    printf("  %d refused, %d of them after some groups; %d failed\n", seen.refused, seen.partial, seen.failed);
    OL_CHECK(seen.partial > 0);
}

OL_TEST(groups_written_before_the_disk_was_full_are_there) { check_every_operation(false); }

OL_TEST(groups_written_before_the_disk_was_full_are_there_once_w_has_passed_them) { check_every_operation(true); }

OL_TEST_MAIN()
