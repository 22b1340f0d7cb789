/* testing/fault_fs: a file system for tests that stops the machine and loses unflushed bytes.
 *
 * The file system works on a real directory (the root).  In addition it keeps the durable state:
 * the bytes and the size of every file at its last successful flush, and the names at the last
 * flush of their directory.  Flushes are modelled, not made, so a run is fast; mapped stores are
 * found by reading the file.
 *
 * Operations are numbered from 1: creating opens (and locks that create their file), write,
 * truncate, extend, keep_space, flush, rename, remove, make_directory and remove_directory that
 * change something, flush_directory, set_modified, and each report of a mapped store.  Reads are
 * counted apart: opens of what exists, size, read, list, exists, modified and keeps_pages.  When
 * the machine stops at operation N, N is not performed; only a reported store is already in memory,
 * and stays.  The state is captured at that moment.  N and every later call return OL_CRASHED until
 * ol_fault_fs_restart, except close and unmap, so that the engine can unwind.
 *
 * The model of the disk, from which materialize draws:
 * - A page of 4 KiB that was written since the last flush holds its new or its old content, or a
 *   content in between that ol_fault_fs_write_back made durable, independently of other pages.
 * - An unflushed change of size is kept or lost.  If it is lost, so are the pages after the old
 *   size; if a file was truncated and has grown again, the removed bytes come back only if the
 *   truncation itself is lost.
 * - Names are kept in a journal of the creates, renames and removes that no flush of their
 *   directory covers; a prefix of it (in the order of the calls) survives.  A file whose name is
 *   lost is lost with all its bytes, flushed or not.
 * - A flush of a range makes its pages durable, and a pending growth no further than the range.
 * - Times of files are those of the real ones, and are not materialized.
 * - After a failed flush the dirty pages count as clean, as in Linux: a later successful flush
 *   stores them only if they were written again.
 *
 * Opening or changing a path outside the root is OL_INVALID.  Every call takes one mutex; any
 * number of threads may use the file system.
 */
#ifndef OL_TESTING_FAULT_FS_H
#define OL_TESTING_FAULT_FS_H

#include "base/base.h"
#include "fs/fs.h"
#include "base/status.h"

#define OL_FAULT_PAGE_SIZE 4096

/* Creates a file system on the existing directory `root`; everything in it counts as durable.  The
 * name is used unchanged: paths passed to the file system start with it. */
int ol_fault_fs_create(const char *root, ol_fs **fs, ol_error *error) OL_NODISCARD;

/* Frees the file system.  Every file must have been closed. */
void ol_fault_fs_free(ol_fs *fs);

/* Returns the number of operations begun so far, including the one that stopped the machine. */
int64_t ol_fault_fs_operations(ol_fs *fs);
int64_t ol_fault_fs_flushes(ol_fs *fs);

/* Stops the machine at operation `operation` (0: never), or now with ol_fault_fs_stop. */
void ol_fault_fs_stop_at(ol_fs *fs, int64_t operation);
int ol_fault_fs_stop(ol_fs *fs, ol_error *error) OL_NODISCARD;
bool ol_fault_fs_stopped(ol_fs *fs);

/* Continues after a stop, as after a kill of the process: the next process finds the page cache as
 * it was left, and nothing more of it is durable.  A stop, a failure or a full disk that was
 * ordered is cancelled.  Every file must have been closed. */
void ol_fault_fs_restart(ol_fs *fs);

/* Makes operation `operation`, or the flush (of a file) with that number among flushes, fail once
 * with `sys_errno`; 0 cancels the order.  The failed operation changes nothing. */
void ol_fault_fs_fail_at(ol_fs *fs, int64_t operation, int sys_errno);
void ol_fault_fs_fail_flush(ol_fs *fs, int64_t flush, int sys_errno);

/* Makes the disk full from operation `operation` on (0: gives it space again): a new name, and an
 * operation that needs a block that its file does not have, fail with ENOSPC.  Blocks that are
 * freed are not available either, as if other programs took them at once. */
void ol_fault_fs_fill(ol_fs *fs, int64_t operation);
/* Returns whether the next operation meets a full disk. */
bool ol_fault_fs_is_full(ol_fs *fs);

/* ol_fault_fs_reads returns the number of reads so far.  ol_fault_fs_fail_read makes the read with
 * a given number fail once with `sys_errno` and read nothing; the number 0 cancels the order. */
int64_t ol_fault_fs_reads(ol_fs *fs);
void ol_fault_fs_fail_read(ol_fs *fs, int64_t read, int sys_errno);

/* Count the calls of `populate`, which faults in pages before a store, and make one of them
 * fail. */
int64_t ol_fault_fs_populates(ol_fs *fs);
void ol_fault_fs_fail_populate(ol_fs *fs, int64_t populate, int sys_errno);

/* Makes [from, to) of the file that has this name now unreadable, until it is called with an empty
 * range: a read returns the bytes before the range and fails with EIO.  Writes and flushes work. */
int ol_fault_fs_spoil(ol_fs *fs, const char *path, int64_t from, int64_t to, ol_error *error)
    OL_NODISCARD;

/* Truncates the file that has this name, as another program would, even while it is open. */
int ol_fault_fs_shrink(ol_fs *fs, const char *path, int64_t size, ol_error *error) OL_NODISCARD;

/* Lets the kernel write back by itself: each dirty page becomes durable as it is now, or not, by a
 * draw from `seed`; sizes and names stay pending.  This gives crash states in which a page is older
 * than its newest content and newer than its last flush. */
int ol_fault_fs_write_back(ol_fs *fs, uint64_t seed, ol_error *error) OL_NODISCARD;

/* Writes into `target` (an existing, empty directory outside the root) one state that the disk
 * could hold if power failed at the stop, or now if the machine was not stopped.  Equal seeds give
 * equal states. */
int ol_fault_fs_materialize(ol_fs *fs, const char *target, uint64_t seed, ol_error *error)
    OL_NODISCARD;

/* Writes the state after a kill of the process: it has everything that reached the page cache. */
int ol_fault_fs_materialize_all(ol_fs *fs, const char *target, ol_error *error) OL_NODISCARD;

#endif
