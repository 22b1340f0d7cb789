/* fs/fs: an interface for every file operation of the engine, so that tests can simulate a faulty
 * disk.
 *
 * There are two implementations.  ol_fs_posix is the real file system, a shared immutable object.
 * testing/fault_fs is for tests: it counts the operations and simulates that the machine stops at a
 * chosen one.  It then writes out a state that the disk could hold after such a stop.  For each
 * unflushed page of 4 KiB, a draw from a seed decides whether the page is kept or lost.
 *
 * Any number of threads may use an ol_fs, and may read, write and flush one ol_file, at the same
 * time.  One thread closes the ol_file after all other calls have returned.
 *
 * A path is absolute or relative to the working directory, ends with a null byte, and has at most
 * OL_PATH_MAX bytes.  A call returns OL_OK, or it fails and fills the error, including error->path.
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
    /* allocated blocks whose content is not written; on a file system without such blocks, written
     * zeros */
    OL_GROW_ALLOCATED = 0,
    OL_GROW_WRITTEN = 1,        /* written zeros */
    OL_GROW_IF_CHEAP = 2,       /* allocated blocks; nothing if there are none */
} ol_growth;

/* The functions that an implementation provides.  `file` is a file that its `open` returned. */
struct ol_fs {
    int (*open)(ol_fs *fs, const char *path, ol_open_mode mode, ol_file **file, ol_error *error);
    void (*close)(ol_file *file);
    int (*size)(ol_file *file, int64_t *size, ol_error *error);
    /* Reads up to `size` bytes and sets *got to the number of bytes read.  *got is less than `size`
     * only if the file ends there, or if the disk cannot read the next byte.  In the second case
     * the call fails with OL_IO, and error->position is the position of that byte. */
    int (*read)(ol_file *file, int64_t position, void *data, size_t size, size_t *got,
                ol_error *error);
    /* Writes all bytes.  After a failure the file is not longer than before, and error->position is
     * the position of the first byte that was not written; if it is -1, no byte was written. */
    int (*write)(ol_file *file, int64_t position, const void *data, size_t size, ol_error *error);
    int (*truncate)(ol_file *file, int64_t size, ol_error *error);
    /* Allocates blocks for [from, to), which then reads as zeros, and makes the file at least `to`
     * bytes long.  Later stores through a mapping of this range cannot fail because the disk is
     * full.  If zeros are written, a flush of later stores changes no metadata.  Blocks whose
     * content is not written cost half as much, but their first flush changes metadata.  With
     * OL_GROW_IF_CHEAP the call does nothing on a file system without such blocks. */
    int (*extend)(ol_file *file, int64_t from, int64_t to, ol_growth growth, ol_error *error);
    /* Allocates the blocks of [0, to) without changing the file's size, so that a write below `to`
     * cannot fail because the disk is full.  If the file system cannot do that, nothing is
     * allocated.  Truncating the file frees the blocks after its end. */
    int (*keep_space)(ol_file *file, int64_t to, ol_error *error);
    /* Makes the data of the file durable, and the metadata that is needed to read it
     * (fdatasync). */
    int (*flush)(ol_file *file, ol_error *error);
    /* Makes the stores in [from, to) of `data` durable (msync).  `data` is a writable mapping that
     * begins at the start of the file.  Pages outside the range are not flushed and stay writable.
     * The first store to a page after its flush causes a page fault, which is expensive while other
     * flushes run. */
    int (*flush_range)(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error);
    /* Begins to write the stores in [from, to) to the disk, and returns without waiting.  A later
     * flush_range then has less to wait for; it also reports writes that fail after this call has
     * returned.  This call makes nothing durable.  If it or flush_range fails, the stores may be
     * lost, and the kernel treats their pages as clean.  The pointer is NULL in an implementation
     * that gains nothing by the call. */
    int (*begin_flush_range)(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error);
    /* Maps [0, size) of the file for writing, as a shared mapping that a forked child process does
     * not inherit.  *data stays valid until unmap, even after the file is closed.  If the engine
     * read a page that the disk cannot read through the mapping, the process would end; the engine
     * therefore never reads through a mapping. */
    int (*map)(ol_file *file, size_t size, void **data, ol_error *error);
    void (*unmap)(ol_fs *fs, void *data, size_t size);
    /* Sets *keeps to whether stores to a page of a mapping cannot fail once the page has been
     * faulted in, until it is unmapped.  That holds if the blocks of the file stay in place and are
     * not shared with another file.  *keeps is false on copy-on-write file systems, on network file
     * systems, and if the kind of file system is unknown. */
    int (*keeps_pages)(ol_file *file, bool *keeps, ol_error *error);
    /* Faults in [from, to) of a mapping for writing, without changing a byte, so that the next
     * store there neither waits nor fails.  Fails with OL_DISK_FULL or OL_IO where a store would
     * end the process.  Kernels before 5.14 cannot report this.  On these kernels the call reads
     * each page first, which finds a page that the disk cannot read, but not a full disk. */
    int (*populate)(ol_file *file, void *data, size_t from, size_t to, ol_error *error);
    /* The engine calls this function after it has stored bytes through a writable mapping.  In
     * testing/fault_fs each such call is an operation at which the machine can stop; it then
     * returns OL_CRASHED.  In ol_fs_posix the pointer is NULL, so a commit pays only for one test
     * of the pointer. */
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
    /* Takes the exclusive lock of a file.  If the file is missing, it is created.  The lock is one
     * of F_OFD_SETLK, which conflicts with the locks of Java.  The call fails with OL_LOCKED if the
     * lock is already held.  Closing the file releases the lock. */
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
 * crash, `path` has its old content or its new content; a file `path`.tmp that the crash left can
 * be ignored. */
int ol_fs_replace_file(ol_fs *fs, const char *path, const void *data, size_t size, ol_error *error)
    OL_NODISCARD;

#endif
