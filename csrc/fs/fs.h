/* fs/fs: the file port.  Every file operation of the engine goes through here, so that tests can lie about the disk.
 *
 * Two implementations: ol_fs_posix (the real one, a shared immutable object) and testing/fault_fs (tests: counts operations, stops
 * the machine at a chosen one, and writes out what a disk could hold after that, unflushed 4 KiB pages kept or lost by a
 * seeded draw).  An ol_fs can be used by many threads; an ol_file may be read, written and flushed by many threads at once,
 * but is closed by one, last.
 *
 * Paths are absolute or relative to the working directory, terminated, and bounded by OL_PATH_MAX.  Functions fill error->path.
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
    OL_OPEN_CREATE = 2,         /* read and write, created when missing, kept when there */
    OL_OPEN_CREATE_NEW = 3,     /* read and write, OL_INVALID when it exists */
} ol_open_mode;

/* The calls that an implementation provides.  `file` is what its open returned. */
struct ol_fs {
    int (*open)(ol_fs *fs, const char *path, ol_open_mode mode, ol_file **file, ol_error *error);
    void (*close)(ol_file *file);
    int (*size)(ol_file *file, int64_t *size, ol_error *error);
    /* Reads up to `size` bytes; *got is less only at the end of the file. */
    int (*read)(ol_file *file, int64_t position, void *data, size_t size, size_t *got, ol_error *error);
    int (*write)(ol_file *file, int64_t position, const void *data, size_t size, ol_error *error);
    int (*truncate)(ol_file *file, int64_t size, ol_error *error);
    /* Makes [from, to) exist as zeros with blocks really allocated, so that later stores through a mapping cannot meet a full disk.  With
     * `written` the zeros are written, so that a flush of what is stored there changes no metadata; without it the first flush has to, but
     * the call costs half as much.  The file grows to at least `to`. */
    int (*extend)(ol_file *file, int64_t from, int64_t to, bool written, ol_error *error);
    int (*flush)(ol_file *file, ol_error *error);       /* fdatasync: data, and what metadata is needed to read it */
    /* The same for what was stored in [from, to) through `data`, a writable mapping from the file's start (msync).  Pages elsewhere that are dirty
     * stay so, and writable: a store to one that was flushed has to fault first, which is expensive while flushes run. */
    int (*flush_range)(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error);
    /* Maps [0, size) of the file, shared.  A writable mapping is MADV_DONTFORK.  *data stays valid until unmap, also
     * once the file is closed. */
    int (*map)(ol_file *file, size_t size, bool writable, void **data, ol_error *error);
    void (*unmap)(ol_fs *fs, void *data, size_t size);
    /* Faults in [from, to) of a writable mapping for writing, without changing a byte (MADV_POPULATE_WRITE); best effort. */
    void (*populate)(ol_file *file, void *data, size_t from, size_t to);
    /* Tells the port that bytes of a writable mapping have just been stored.  A crash point for the faulting port (which may
     * return OL_CRASHED); NULL in the real one, so that the hot path pays one test. */
    int (*stored)(ol_file *file, int64_t position, size_t size, ol_error *error);

    int (*rename)(ol_fs *fs, const char *source, const char *target, ol_error *error);
    int (*remove)(ol_fs *fs, const char *path, ol_error *error);        /* a file; OL_NO_SUCH_FILE when missing */
    int (*make_directory)(ol_fs *fs, const char *path, ol_error *error);/* OL_OK when it is there already */
    int (*remove_directory)(ol_fs *fs, const char *path, ol_error *error);
    int (*flush_directory)(ol_fs *fs, const char *path, ol_error *error);
    /* Calls `visit` with each name but "." and ".."; stops with the visitor's status if it is not OL_OK.  Order is the file system's. */
    int (*list)(ol_fs *fs, const char *path, int (*visit)(void *context, const char *name), void *context, ol_error *error);
    int (*exists)(ol_fs *fs, const char *path, bool *exists, ol_error *error);
    /* When the content of a file was last changed, in ms since 1970, or is to be said to have been; nothing makes the latter durable. */
    int (*modified)(ol_fs *fs, const char *path, int64_t *modified_ms, ol_error *error);
    int (*set_modified)(ol_fs *fs, const char *path, int64_t modified_ms, ol_error *error);
    /* Takes the exclusive lock of a file, created when missing (F_OFD_SETLK, which conflicts with Java's): OL_LOCKED when held
     * elsewhere.  Released by closing the file. */
    int (*lock)(ol_fs *fs, const char *path, ol_file **file, ol_error *error);
};

/* The real file system.  Never freed. */
ol_fs *ol_fs_posix(void);

/* ------------------------------------------------------------------------------ compositions, for any implementation */

/* Writes "directory/name", OL_INVALID when it does not fit OL_PATH_MAX. */
int ol_path_join(char *path, size_t capacity, const char *directory, const char *name, ol_error *error) OL_NODISCARD;

/* Reads a whole file of at most `limit` bytes (OL_LIMIT above) into malloc'ed memory that the caller frees. */
int ol_fs_read_file(ol_fs *fs, const char *path, size_t limit, uint8_t **data, size_t *size, ol_error *error) OL_NODISCARD;

/* Publishes a file: writes `path`.tmp, flushes it, renames it over `path`, flushes the directory (docs/format/directory.md §1.5).  A crash leaves
 * the old content, the new one, or an ignorable .tmp. */
int ol_fs_replace_file(ol_fs *fs, const char *path, const void *data, size_t size, ol_error *error) OL_NODISCARD;

#endif
