/* Transactions of ours (a group larger than a batch) on a full disk: what a killed process left open, and what is refused at once. */
#include <errno.h>

#include "crash_workload.h"

enum { LARGE = 60 };            /* positions of one group: several batches */

typedef struct disk {
    char root[256];
    char directory[256];
    ol_fs *fs;
    ol_partition_options options;
    ol_partition *partition;
} disk;

static void open_disk(disk *d) {
    ol_error error;
    scratch_root(d->root, "own");
    scratch_join(d->directory, d->root);
    OL_CHECK_OK(ol_fault_fs_create(d->root, &d->fs, &error), &error);
    d->options = fixture_options(d->directory);
    d->options.log.fs = d->fs;
    d->options.batch_bytes_max = 1024;
    d->options.log.config.segment_bytes = 64 << 10;
    d->options.log.config.extend_bytes_min = d->options.log.config.extend_bytes_max = 4096;
    d->partition = open_partition(&d->options, true);
    commit_one(d->partition, "g", "t", 0, 1);
}

static void remove_disk(disk *d) {
    ol_fault_fs_free(d->fs);
    remove_tree(d->root);
}

static int commit_large(ol_partition *partition, int64_t offset, ol_error *error) {
    ol_item items[LARGE];
    ol_commit_result result;
    for (int i = 0; i < LARGE; i++) items[i] = position_item("g", "t", i, offset);
    return ol_partition_commit(partition, items, LARGE, -1, -1, &result, error);
}

/* A process is killed inside of the transaction, after each of its operations; false: it got to the end. */
static bool kill_in_transaction(disk *d, int64_t nth) {
    ol_error error;
    ol_fault_fs_stop_at(d->fs, ol_fault_fs_operations(d->fs) + nth);
    int status = commit_large(d->partition, 2, &error);
    ol_partition_abandon(d->partition);
    ol_fault_fs_restart(d->fs);
    return status != OL_OK;
}

static size_t open_transactions(ol_partition *partition) {
    ol_log_transaction transaction;
    size_t count = 0;
    while (ol_partition_transaction_at(partition, count, &transaction)) count++;
    return count;
}

/* The open succeeds and serves reads; writes say that the disk is full, until it is not. */
OL_TEST(what_a_killed_process_left_open_is_closed_once_there_is_space) {
    int waited = 0;
    for (int64_t nth = 1;; nth++) {
        disk d;
        ol_error error;
        ol_commit_result result;
        open_disk(&d);
        if (!kill_in_transaction(&d, nth)) {
            remove_disk(&d);
            break;
        }
        ol_log_recovery recovery;
        OL_CHECK_OK(ol_partition_open(&d.options, &d.partition, &recovery, &error), &error);
        ol_fault_fs_fill(d.fs, 1);
        OL_CHECK_OK(ol_partition_load(d.partition, &error), &error);
        OL_CHECK_INT(ol_partition_role(d.partition), OL_ROLE_ACTIVE);
        OL_CHECK(!ol_partition_is_read_only(d.partition));
        /* The marker may have been stored before the process was killed. */
        int64_t first = fetch_one(d.partition, "g", "t", 0);
        OL_CHECK(first == 1 || (first == 2 && open_transactions(d.partition) == 0));
        if (open_transactions(d.partition) > 0) {
            waited++;
            int64_t end = ol_log_end(ol_partition_log(d.partition));
            for (int i = 0; i < 2; i++) {
                OL_CHECK_INT(try_one(d.partition, position_item("g", "t", 0, 5), -1, &result, &error), OL_DISK_FULL);
                OL_CHECK_INT(commit_large(d.partition, 5, &error), OL_DISK_FULL);
                OL_CHECK_INT(ol_log_end(ol_partition_log(d.partition)), end);
                OL_CHECK_INT(fetch_one(d.partition, "g", "t", 0), first);
            }
        }
        ol_fault_fs_fill(d.fs, 0);
        OL_CHECK_OK(try_one(d.partition, position_item("g", "t", 1, 7), -1, &result, &error), &error);
        OL_CHECK_INT(open_transactions(d.partition), 0);
        ol_load_progress progress;
        ol_partition_progress(d.partition, &progress);
        OL_CHECK(progress.problems == 0);
        OL_CHECK_INT(fetch_one(d.partition, "g", "t", 0), first);
        OL_CHECK_INT(fetch_one(d.partition, "g", "t", 1), 7);
        ol_digest digest = digest_of(d.partition);
        close_partition(d.partition);
        d.partition = open_partition(&d.options, true);
        check_same_digest(digest, digest_of(d.partition));
        close_partition(d.partition);
        remove_disk(&d);
    }
    OL_CHECK(waited > 2);
}

/* Full from each operation on: the group is there whole, or nothing of it is, and no transaction stays open.  With `crosses`, the
 * segment ends before the commit does. */
static int refuse_at_each_operation(bool crosses) {
    int refused = 0;
    for (int64_t nth = 1;; nth++) {
        disk d;
        ol_error error;
        open_disk(&d);
        d.fs->stored = NULL;
        ol_log *log = ol_partition_log(d.partition);
        while (crosses && ol_log_size_bytes(log) < d.options.log.config.segment_bytes - 2000) commit_one(d.partition, "h", "t", 0, 1);
        int64_t end = ol_log_end(ol_partition_log(d.partition));
        ol_fault_fs_fill(d.fs, ol_fault_fs_operations(d.fs) + nth);
        int status = commit_large(d.partition, 2, &error);
        bool over = !ol_fault_fs_is_full(d.fs);
        OL_CHECK(status == OL_OK || status == OL_DISK_FULL);
        OL_CHECK_INT(fetch_one(d.partition, "g", "t", LARGE - 1), status == OL_OK ? 2 : -1);
        OL_CHECK_INT(fetch_one(d.partition, "g", "t", 0), status == OL_OK ? 2 : 1);
        OL_CHECK_INT(open_transactions(d.partition), 0);
        if (status != OL_OK) {
            refused++;
            OL_CHECK_INT(ol_log_end(ol_partition_log(d.partition)), end);
        }
        ol_fault_fs_fill(d.fs, 0);
        end = ol_log_end(ol_partition_log(d.partition));
        OL_CHECK_INT(commit_one(d.partition, "g", "t", 0, 3).base_offset, end);
        OL_CHECK_OK(commit_large(d.partition, 4, &error), &error);
        OL_CHECK_INT(fetch_one(d.partition, "g", "t", 0), 4);
        close_partition(d.partition);
        remove_disk(&d);
        if (over) return refused;
    }
}

OL_TEST(a_large_commit_is_there_whole_or_not_begun) {
    OL_CHECK(refuse_at_each_operation(false) > 1);
    OL_CHECK(refuse_at_each_operation(true) > 8);
}

OL_TEST_MAIN()
