/* fs/fs: an interface for every file operation of the engine, so that tests can simulate a faulty
 * disk.
 *
 * There are two implementations.  ol_fs_posix is the real one, a shared immutable object.
 * testing/fault_fs is for tests: it counts operations and stops the machine at a chosen one.  Then
 * it writes out a state that the disk could hold, in which a seeded draw decides whether each
 * unflushed 4 KiB page is kept or lost.
 *
 * Many threads can use an ol_fs.  Many threads may read, write and flush an ol_file at once; one
 * thread closes it after all these calls.
 *
 * Paths are absolute or relative to the working directory, terminated, and bounded by OL_PATH_MAX.
 * A call returns OL_OK, or a failure with the error filled, error->path included.
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
    OL_OPEN_CREATE_NEW = 3,     /* read and write, must not exist (OL_INVALID) */
} ol_open_mode;

typedef enum ol_growth {
    /* blocks without content; zeros are written if the file system has no such blocks */
    OL_GROW_ALLOCATED = 0,
    OL_GROW_WRITTEN = 1,        /* written zeros */
    OL_GROW_IF_CHEAP = 2,       /* blocks without content, or nothing */
} ol_growth;

/* The calls that an implementation provides.  `file` comes from its open. */
struct ol_fs {
    int (*open)(ol_fs *fs, const char *path, ol_open_mode mode, ol_file **file, ol_error *error);
    void (*close)(ol_file *file);
    int (*size)(ol_file *file, int64_t *size, ol_error *error);
    /* Reads up to `size` bytes; *got is less only at the end of the file, or before a byte that the
     * disk cannot read.  In the second case the call fails with OL_IO, the error names that byte,
     * and the *got bytes before it were read. */
    int (*read)(ol_file *file, int64_t position, void *data, size_t size, size_t *got,
                ol_error *error);
    /* Writes all bytes.  After a failure the file is not longer than before, and the error names
     * the first byte that was not written; if the error has no position, no byte was written. */
    int (*write)(ol_file *file, int64_t position, const void *data, size_t size, ol_error *error);
    int (*truncate)(ol_file *file, int64_t size, ol_error *error);
    /* Makes [from, to) exist as zeros in allocated blocks, so that later stores through a mapping
     * cannot meet a full disk, and the file at least `to` bytes long.  If the zeros are written, a
     * flush of later stores changes no metadata.  Blocks without content cost half as much, but
     * their first flush changes metadata.  With OL_GROW_IF_CHEAP the call does nothing on a file
     * system without such blocks. */
    int (*extend)(ol_file *file, int64_t from, int64_t to, ol_growth growth, ol_error *error);
    /* Allocates the blocks of [0, to) without changing the file's size, so that writes below `to`
     * cannot meet a full disk.  If the file system cannot do that, nothing is allocated.
     * Truncating the file frees the blocks after its end. */
    int (*keep_space)(ol_file *file, int64_t to, ol_error *error);
    /* Makes the data durable, and the metadata needed to read it (fdatasync). */
    int (*flush)(ol_file *file, ol_error *error);
    /* Like flush, for the stores in [from, to) through `data`, a writable mapping from the file's
     * start (msync).  Dirty pages elsewhere stay dirty and writable: a store to a flushed page has
     * to fault first, which is expensive while flushes run. */
    int (*flush_range)(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error);
    /* Begins to write the stores in [from, to) to the disk and returns.  A later flush_range has
     * less to wait for, and reports what fails from now on.  This call makes nothing durable.
     * After it fails, as after a failed flush_range, the pages may be lost and count as clean.  The
     * pointer is NULL if an implementation gains nothing by the call. */
    int (*begin_flush_range)(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error);
    /* Maps [0, size) of the file for writing, shared, but not inherited by a forked child.  *data
     * stays valid until unmap, even after the file is closed.  A page that the disk cannot read
     * ends the process, so the engine reads nothing through a mapping. */
    int (*map)(ol_file *file, size_t size, void **data, ol_error *error);
    void (*unmap)(ol_fs *fs, void *data, size_t size);
    /* Sets *keeps to whether a faulted-in page of a mapping can be stored to until it is unmapped.
     * That holds if the blocks of the file stay in place and are not shared with another file.
     * False on copy-on-write and network file systems, and if the kind of file system is
     * unknown. */
    int (*keeps_pages)(ol_file *file, bool *keeps, ol_error *error);
    /* Faults in [from, to) of a mapping for writing, without changing a byte, so that the next
     * store there neither waits nor fails.  Fails with OL_DISK_FULL or OL_IO if a store would end
     * the process.  Kernels before 5.14 cannot report that, so each page is read first there: this
     * finds a page that the disk cannot read, but not a full disk. */
    int (*populate)(ol_file *file, void *data, size_t from, size_t to, ol_error *error);
    /* Reports stores to a writable mapping.  In testing/fault_fs this is a crash point, which may
     * return OL_CRASHED; in ol_fs_posix the pointer is NULL, so a commit pays only for one test of
     * the pointer. */
    int (*stored)(ol_file *file, int64_t position, size_t size, ol_error *error);

    int (*rename)(ol_fs *fs, const char *source, const char *target, ol_error *error);
    /* Removes a file.  Fails with OL_NO_SUCH_FILE if it is missing. */
    int (*remove)(ol_fs *fs, const char *path, ol_error *error);
    /* Makes a directory.  Returns OL_OK also if the directory exists already. */
    int (*make_directory)(ol_fs *fs, const char *path, ol_error *error);
    int (*remove_directory)(ol_fs *fs, const char *path, ol_error *error);
    int (*flush_directory)(ol_fs *fs, const char *path, ol_error *error);
    /* Calls `visit` with each name except "." and ".." in the file system's order; stops with the
     * visitor's status if it is not OL_OK. */
    int (*list)(ol_fs *fs, const char *path, int (*visit)(void *context, const char *name),
                void *context, ol_error *error);
    int (*exists)(ol_fs *fs, const char *path, bool *exists, ol_error *error);
    /* The first call returns the time of the last change of a file's content, in ms since 1970; the
     * second one sets it, but not durably. */
    int (*modified)(ol_fs *fs, const char *path, int64_t *modified_ms, ol_error *error);
    int (*set_modified)(ol_fs *fs, const char *path, int64_t modified_ms, ol_error *error);
    /* Takes the exclusive lock of a file, which is created if it is missing (F_OFD_SETLK, which
     * conflicts with Java's locks).  Fails with OL_LOCKED if the lock is held elsewhere.  Closing
     * the file releases it. */
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

/* Publishes a file: writes `path`.tmp, flushes it, renames it over `path`, flushes the directory
 * (docs/format/directory.md §1.5).  A crash leaves the old content, the new one, or an ignorable
 * .tmp. */
int ol_fs_replace_file(ol_fs *fs, const char *path, const void *data, size_t size, ol_error *error)
    OL_NODISCARD;

#endif
