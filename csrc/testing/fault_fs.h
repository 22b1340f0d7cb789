/* testing/fault_fs: a file system for tests that stops the machine and loses unflushed bytes.
 *
 * The file system works on a real directory, its root.  In addition it remembers the durable state:
 * the bytes and the size of every file at its last successful flush, and the names in every
 * directory at its last flush.  It does not really flush, so a test is fast.  It finds stores
 * through a mapping by reading the file.
 *
 * Operations are numbered from 1.  The operations are:
 * - open and lock, if they create a file;
 * - write, truncate, extend, keep_space, flush, flush_range and set_modified;
 * - rename, remove and remove_directory, if the name exists, and make_directory, if it does not;
 * - flush_directory;
 * - each call of `stored`.
 * Reads have numbers of their own: open of an existing file, size, read, list, exists, modified and
 * keeps_pages.
 *
 * A test can choose an operation N at which the simulated machine stops.  Operation N is not
 * performed.  If it is a call of `stored`, however, its bytes are already in memory and stay there.
 * The state of the disk is captured at that moment.  Operation N and every later call return
 * OL_CRASHED until ol_fault_fs_restart is called.  Only close and unmap still work, so that the
 * engine can release its resources.
 *
 * The model of the disk, which determines the states that ol_fault_fs_materialize can write:
 * - A page of 4 KiB that was written since the last flush has its new content, its old content, or
 *   a content in between that ol_fault_fs_write_back made durable.  The draw for one page does not
 *   depend on the other pages.
 * - A change of a file's size since the last flush is kept or lost.  If it is lost, the pages after
 *   the old size are lost, too.  If a file was truncated and has grown again, the removed bytes
 *   come back only if the truncation itself is lost.
 * - A journal lists the changes of names (creates, renames and removes) that no flush of their
 *   directory has made durable, in the order of the calls.  A drawn number of changes from the
 *   start of the journal survive, and the rest are lost.  If the name of a file is lost, all bytes
 *   of the file are lost, even if they were flushed.
 * - A flush of a range makes the pages of the range durable.  If the file has grown, the new size
 *   becomes durable only up to the end of the range.
 * - The modification time of a file is that of the real file.  ol_fault_fs_materialize does not
 *   restore it.
 * - After a failed flush the dirty pages count as clean, as in Linux.  A later successful flush
 *   makes them durable only if they were written again.
 *
 * A call that opens or changes a path outside the root fails with OL_INVALID.  A mutex protects the
 * state of the file system, so any number of threads may use it.
 */
#ifndef OL_TESTING_FAULT_FS_H
#define OL_TESTING_FAULT_FS_H

#include "base/base.h"
#include "fs/fs.h"
#include "base/status.h"

#define OL_FAULT_PAGE_SIZE 4096

/* Creates a file system on the existing directory `root`.  Everything in the directory counts as
 * durable.  Paths that are passed to the file system must start with `root` as it is spelled
 * here. */
int ol_fault_fs_create(const char *root, ol_fs **fs, ol_error *error) OL_NODISCARD;

/* Frees the file system.  Every file must have been closed. */
void ol_fault_fs_free(ol_fs *fs);

/* Returns the number of operations that have begun so far, including the one at which the machine
 * stopped. */
int64_t ol_fault_fs_operations(ol_fs *fs);
int64_t ol_fault_fs_flushes(ol_fs *fs);

/* ol_fault_fs_stop_at makes the machine stop at the operation with this number; 0 means never.
 * ol_fault_fs_stop stops it now. */
void ol_fault_fs_stop_at(ol_fs *fs, int64_t operation);
int ol_fault_fs_stop(ol_fs *fs, ol_error *error) OL_NODISCARD;
bool ol_fault_fs_stopped(ol_fs *fs);

/* Continues after a stop as if only the process had been killed: the next process finds the
 * contents of the page cache, and no more of it is durable than before.  All requested stops and
 * failures are cancelled, and a full disk has space again.  Every file must have been closed. */
void ol_fault_fs_restart(ol_fs *fs);

/* These two calls make one operation fail with `sys_errno`.  For ol_fault_fs_fail_at it is the
 * operation with the number `operation`.  For ol_fault_fs_fail_flush it is the flush of a file with
 * the number `flush`, counted among all flushes of files.  The number 0 cancels the request.  An
 * operation that fails changes nothing on the disk. */
void ol_fault_fs_fail_at(ol_fs *fs, int64_t operation, int sys_errno);
void ol_fault_fs_fail_flush(ol_fs *fs, int64_t flush, int sys_errno);

/* Makes the disk full from the operation with this number on; 0 means that it has space again.  On
 * a full disk an operation fails with ENOSPC if it creates a file or a directory, or if it needs a
 * block that its file does not have.  Blocks that are freed do not become available, as if other
 * programs took them at once. */
void ol_fault_fs_fill(ol_fs *fs, int64_t operation);
/* Returns whether the disk is full for the next operation. */
bool ol_fault_fs_is_full(ol_fs *fs);

/* ol_fault_fs_reads returns the number of reads so far.  ol_fault_fs_fail_read makes the read with
 * a given number fail with `sys_errno` and read nothing.  The number 0 cancels the request. */
int64_t ol_fault_fs_reads(ol_fs *fs);
void ol_fault_fs_fail_read(ol_fs *fs, int64_t read, int sys_errno);

/* ol_fault_fs_populates returns the number of calls of `populate` so far.
 * ol_fault_fs_fail_populate makes the call with a given number fail with `sys_errno`. */
int64_t ol_fault_fs_populates(ol_fs *fs);
void ol_fault_fs_fail_populate(ol_fs *fs, int64_t populate, int sys_errno);

/* Makes the bytes [from, to) of a file unreadable.  `path` is the present name of the file.  A read
 * that reaches these bytes returns the bytes before them and fails with EIO.  Writes and flushes
 * still work.  A call with an empty range makes the file readable again. */
int ol_fault_fs_spoil(ol_fs *fs, const char *path, int64_t from, int64_t to, ol_error *error)
    OL_NODISCARD;

/* Truncates the file that has this name as another program might do it, even while the file is
 * open. */
int ol_fault_fs_shrink(ol_fs *fs, const char *path, int64_t size, ol_error *error) OL_NODISCARD;

/* Simulates that the kernel writes back dirty pages on its own.  For each dirty page, a draw from
 * `seed` decides whether its present content becomes durable.  Changes of sizes and names do not
 * become durable.  If such a page is written again, a crash can leave it with content that is newer
 * than its last flush and older than its last write. */
int ol_fault_fs_write_back(ol_fs *fs, uint64_t seed, ol_error *error) OL_NODISCARD;

/* Writes to the directory `target` a state that the disk could hold after a loss of power.
 * `target` must exist, be empty and be outside the root.  The power is lost at the moment at which
 * the machine stopped, or now if it has not stopped.  Equal seeds give equal states. */
int ol_fault_fs_materialize(ol_fs *fs, const char *target, uint64_t seed, ol_error *error)
    OL_NODISCARD;

/* Writes to the directory `target` the state that the disk has if only the process was killed.
 * This state has everything that has reached the page cache. */
int ol_fault_fs_materialize_all(ol_fs *fs, const char *target, ol_error *error) OL_NODISCARD;

#endif
