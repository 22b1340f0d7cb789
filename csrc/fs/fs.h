/* fs/fs: an interface for every file operation of the engine, so that tests can simulate a faulty
 * disk.
 *
 * There are two implementations.  ol_fs_posix is the real file system, a shared immutable object.
 * testing/fault_fs is for tests: it counts the operations and simulates that the machine stops at a
 * chosen operation.  It can then write out a state that the disk could hold after such a stop.  For
 * each unflushed page of 4 KiB, a draw from a seed decides whether the page is kept or lost.
 *
 * Any number of threads may use one ol_fs at the same time, and any number may read, write and
 * flush one ol_file at the same time.  A file may be closed only after all other calls with it have
 * returned.
 *
 * A path is absolute or relative to the working directory.  It ends with a null byte, and has at
 * most OL_PATH_MAX bytes including this byte.  A call returns OL_OK, or it fails and fills the
 * error, including error->path.
 */
#ifndef OL_FS_FS_H
#define OL_FS_FS_H

#include "base/base.h"
#include "base/status.h"

#define OL_PATH_MAX 4096

typedef struct ol_fs ol_fs;
typedef struct ol_file ol_file;

typedef enum ol_open_mode {
    OL_OPEN_READ = 0,           /* must exist */
    OL_OPEN_WRITE = 1,          /* read and write, must exist */
    OL_OPEN_CREATE = 2,         /* read and write, created if missing */
    OL_OPEN_CREATE_NEW = 3,     /* read and write; OL_INVALID if the file exists */
} ol_open_mode;

typedef enum ol_growth {
    /* Allocate blocks without writing their content.  If the file system cannot do that, write
     * zeros. */
    OL_GROW_ALLOCATED = 0,
    OL_GROW_WRITTEN = 1,        /* Write zeros. */
    /* Allocate blocks without writing their content.  If the file system cannot do that, do
     * nothing. */
    OL_GROW_IF_CHEAP = 2,
} ol_growth;

/* The functions that an implementation provides.  `file` is a file that its `open` returned. */
struct ol_fs {
    int (*open)(ol_fs *fs, const char *path, ol_open_mode mode, ol_file **file, ol_error *error);
    void (*close)(ol_file *file);
    int (*size)(ol_file *file, int64_t *size, ol_error *error);
    /* Reads up to `size` bytes and sets *got to the number of bytes read.  *got is less than `size`
     * only if the file ends there, or if the disk cannot read the next byte.  If the disk cannot
     * read it, the call fails with OL_IO, and error->position is the position of that byte; the
     * *got bytes before it have been read into `data`. */
    int (*read)(ol_file *file, int64_t position, void *data, size_t size, size_t *got,
                ol_error *error);
    /* Writes all bytes.  If the call fails, the file is not longer than before.  error->position is
     * then the position of the first byte that was not written, or -1 if no byte was written. */
    int (*write)(ol_file *file, int64_t position, const void *data, size_t size, ol_error *error);
    int (*truncate)(ol_file *file, int64_t size, ol_error *error);
    /* Allocates blocks for [from, to), which then reads as zeros, and makes the file at least `to`
     * bytes long.  A full disk can then no longer make a store to a mapping of this range fail.
     * `growth` selects how:
     * - If zeros are written, a flush of later stores changes no metadata.
     * - If blocks are allocated without writing their content, the call costs half as much, but the
     *   first flush of later stores changes metadata. */
    int (*extend)(ol_file *file, int64_t from, int64_t to, ol_growth growth, ol_error *error);
    /* Allocates the blocks of [0, to) without changing the file's size, so that a full disk cannot
     * make a write below `to` fail.  If the file system cannot do that, the call succeeds but
     * allocates nothing.  Truncating the file frees the blocks after its end. */
    int (*keep_space)(ol_file *file, int64_t to, ol_error *error);
    /* Makes the data of the file durable, and the metadata that is needed to read it
     * (fdatasync). */
    int (*flush)(ol_file *file, ol_error *error);
    /* Makes the stores in [from, to) of `data` durable (msync).  `data` is a writable mapping that
     * begins at the start of the file.  Pages outside the range are not flushed and stay writable.
     * This matters because the first store to a page after its flush causes a page fault, which is
     * expensive while a flush runs. */
    int (*flush_range)(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error);
    /* Begins to write the stores in [from, to) to the disk, and returns without waiting.  It makes
     * nothing durable, but a later flush_range then has less to wait for.  If a write fails after
     * this call has returned, that flush_range reports it.  After a failure of either call, the
     * stores may be lost, and the kernel treats their pages as clean.  The pointer is NULL in an
     * implementation that gains nothing by the call. */
    int (*begin_flush_range)(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error);
    /* Maps [0, size) of the file for writing, as a shared mapping that a forked child process does
     * not inherit.  *data stays valid until unmap, even after the file is closed.  An access
     * through the mapping to a page that the disk cannot read kills the process.  Code must
     * therefore not read the content of a file through a mapping. */
    int (*map)(ol_file *file, size_t size, void **data, ol_error *error);
    void (*unmap)(ol_fs *fs, void *data, size_t size);
    /* Sets *keeps to whether a page of a mapping keeps its block on the disk.  If it does, no store
     * to the page can fail after it has been faulted in, until it is unmapped.  This is so if the
     * blocks of the file never move and are not shared with another file.  *keeps is false on
     * copy-on-write file systems, on network file systems, and on unknown file systems. */
    int (*keeps_pages)(ol_file *file, bool *keeps, ol_error *error);
    /* Faults in [from, to) of a mapping for writing, without changing a byte, so that the next
     * store there neither waits nor fails.  Fails with OL_DISK_FULL or OL_IO if a store would kill
     * the process.  Kernels before 5.14 cannot report this.  On these kernels the call first reads
     * each page, and fails with OL_IO if the disk cannot read a page, but it does not notice a full
     * disk. */
    int (*populate)(ol_file *file, void *data, size_t from, size_t to, ol_error *error);
    /* The engine calls this function after it has stored bytes through a writable mapping.  In
     * testing/fault_fs each such call is an operation at which the simulated machine can stop; the
     * call then returns OL_CRASHED.  In ol_fs_posix the pointer is NULL, so a commit pays only for
     * one test of the pointer. */
    int (*stored)(ol_file *file, int64_t position, size_t size, ol_error *error);

    int (*rename)(ol_fs *fs, const char *source, const char *target, ol_error *error);
    /* Removes a file.  Fails with OL_NO_SUCH_FILE if it is missing. */
    int (*remove)(ol_fs *fs, const char *path, ol_error *error);
    /* Makes a directory.  Returns OL_OK also if the directory exists already. */
    int (*make_directory)(ol_fs *fs, const char *path, ol_error *error);
    int (*remove_directory)(ol_fs *fs, const char *path, ol_error *error);
    int (*flush_directory)(ol_fs *fs, const char *path, ol_error *error);
    /* Calls `visit` for each name in the directory except "." and "..", in the order of the file
     * system.  If `visit` returns a status other than OL_OK, the call ends and returns that
     * status. */
    int (*list)(ol_fs *fs, const char *path, int (*visit)(void *context, const char *name),
                void *context, ol_error *error);
    int (*exists)(ol_fs *fs, const char *path, bool *exists, ol_error *error);
    /* `modified` returns the time of the last change of a file's content, in ms since 1970.
     * `set_modified` sets that time, but does not make it durable. */
    int (*modified)(ol_fs *fs, const char *path, int64_t *modified_ms, ol_error *error);
    int (*set_modified)(ol_fs *fs, const char *path, int64_t modified_ms, ol_error *error);
    /* Opens a file, creating it if it is missing, and takes its exclusive lock.  The lock is an
     * open file description lock (F_OFD_SETLK), which conflicts with the locks of Java.  Fails with
     * OL_LOCKED if another process, or another open of the file in this process, holds the lock.
     * Closing the file releases the lock. */
    int (*lock)(ol_fs *fs, const char *path, ol_file **file, ol_error *error);
};

/* Returns the real file system, which is never freed. */
ol_fs *ol_fs_posix(void);

/* --------------------------------------------------------- compositions, for any implementation */

/* Writes "directory/name".  Fails with OL_INVALID if a part is empty, or if the path does not fit
 * `capacity` or OL_PATH_MAX. */
int ol_path_join(char *path, size_t capacity, const char *directory, const char *name,
                 ol_error *error) OL_NODISCARD;

/* Reads a whole file into malloc'ed memory that the caller frees.  Fails with OL_LIMIT if the file
 * has more than `limit` bytes. */
int ol_fs_read_file(ol_fs *fs, const char *path, size_t limit, uint8_t **data, size_t *size,
                    ol_error *error) OL_NODISCARD;

/* Replaces the content of a file atomically: writes the new content to `path`.tmp, flushes that
 * file, renames it to `path`, and flushes the directory (docs/format/directory.md §1.5).  After a
 * crash, `path` has either its old content or its new content.  The crash may leave a file
 * `path`.tmp, which can be ignored. */
int ol_fs_replace_file(ol_fs *fs, const char *path, const void *data, size_t size, ol_error *error)
    OL_NODISCARD;

#endif
