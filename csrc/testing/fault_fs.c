/* testing/fault_fs.c: the file port over a real directory and the modelled disk. */
#include "testing/fault_fs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "testing/fault_disk.h"

_Static_assert(OL_FAULT_PAGE == OL_FAULT_PAGE_SIZE, "one page size");

typedef struct fault_fs {
    ol_fs port;                 /* first, so that the port's address is this object's */
    ol_fs *real;
    pthread_mutex_t mutex;
    ol_fault_disk disk;
    char *root;
    int64_t operations;
    int64_t flushes;
    int64_t stop_at;
    int64_t fail_at;
    int64_t fail_flush_at;
    int64_t full_from;
    int64_t reads;
    int64_t fail_read_at;
    int64_t populates;
    int64_t fail_populate_at;
    int fail_errno;
    int fail_flush_errno;
    int fail_read_errno;
    int fail_populate_errno;
    bool stopped;
    ol_error capture_error;     /* the status of a failed read of the state at the stop; otherwise
                                   OL_OK */
} fault_fs;

struct ol_file {
    fault_fs *fs;
    ol_file *real;
    ol_fault_node *node;
    char *path;                 /* at its open, for errors */
};

static fault_fs *lock_fs(ol_fs *fs) {
    fault_fs *fault = (fault_fs *)fs;
    pthread_mutex_lock(&fault->mutex);
    return fault;
}

static int unlock_fs(fault_fs *fs, int status) {
    pthread_mutex_unlock(&fs->mutex);
    return status;
}

static int crashed(ol_error *error) {
    return ol_fail(error, OL_CRASHED, "the simulated machine has stopped");
}

static void stop(fault_fs *fs) {
    fs->stopped = true;
    if (ol_fault_disk_capture(&fs->disk, &fs->capture_error) == OL_OK) {
        fs->capture_error.status = OL_OK;
    }
}

/* Called at the beginning of every operation that changes something. */
static int begin_operation(fault_fs *fs, const char *name, const char *path, ol_error *error) {
    if (fs->stopped) return crashed(error);
    fs->operations++;
    if (fs->operations == fs->stop_at) {
        stop(fs);
        return crashed(error);
    }
    if (fs->fail_at != 0 && fs->operations == fs->fail_at) {
        fs->fail_at = 0;
        return ol_fail_errno(error, fs->fail_errno, name, path);
    }
    return OL_OK;
}

/* Begins an operation that needs space: a new name, or blocks of [0, to) of a file. */
static int begin_growth(fault_fs *fs, const ol_fault_node *node, size_t to, const char *name,
                        const char *path, ol_error *error) {
    int status = begin_operation(fs, name, path, error);
    if (status != OL_OK || fs->full_from == 0 || fs->operations < fs->full_from) return status;
    if (node != NULL && ol_fault_node_is_allocated(node, to)) return OL_OK;
    return ol_fail_errno(error, ENOSPC, name, path);
}

/* Called at the beginning of every call that only reads. */
static int begin_read(fault_fs *fs, const char *name, const char *path, ol_error *error) {
    if (fs->stopped) return crashed(error);
    if (++fs->reads != fs->fail_read_at) return OL_OK;
    fs->fail_read_at = 0;
    return ol_fail_errno(error, fs->fail_read_errno, name, path);
}

/* A path, divided into its directory and its last name; node is NULL when nothing has that name. */
typedef struct location {
    ol_fault_node *parent;
    ol_fault_node *node;
    char name[256];
} location;

static int locate(fault_fs *fs, const char *path, location *found, ol_error *error) {
    size_t root_size = strlen(fs->root);
    if (strncmp(path, fs->root, root_size) != 0 ||
        (path[root_size] != '/' && path[root_size] != '\0')) {
        ol_fail(error, OL_INVALID, "the path is outside the simulated disk");
        return ol_error_at(error, path, -1);
    }
    memset(found, 0, sizeof *found);
    found->node = fs->disk.root;
    for (const char *at = path + root_size; *at != '\0';) {
        while (*at == '/') at++;
        size_t size = strcspn(at, "/");
        if (size == 0) break;
        if ((size == 1 && at[0] == '.') || (size == 2 && at[0] == '.' && at[1] == '.')) {
            return ol_fail(error, OL_INVALID, "the simulated disk refuses relative names");
        }
        if (size >= sizeof found->name) return ol_fail_errno(error, ENAMETOOLONG, "open", path);
        if (found->node == NULL || !found->node->is_directory) {
            return ol_fail_errno(error, ENOENT, "open", path);
        }
        found->parent = found->node;
        memcpy(found->name, at, size);
        found->name[size] = '\0';
        found->node = ol_fault_disk_find(&fs->disk, found->parent, at, size);
        at += size;
    }
    return OL_OK;
}

/* ---------------------------------------------------------------------------------------- files */

static int wrap_file(fault_fs *fs, ol_file *real, const char *path, location *at, ol_file **file,
                     ol_error *error) {
    if (at->node == NULL) {
        ol_file *reader;
        int status = fs->real->open(fs->real, path, OL_OPEN_READ, &reader, error);
        if (status != OL_OK) {
            /* The file was created just now and must not stay. */
            ol_error ignored;
            fs->real->close(real);
            OL_ASSERT(fs->real->remove(fs->real, path, &ignored) == OL_OK);
            return status;
        }
        at->node = ol_fault_disk_add_node(&fs->disk, false, reader);
        ol_fault_disk_link(&fs->disk, at->parent, at->name, at->node);
    }
    *file = malloc(sizeof **file);
    OL_ASSERT(*file != NULL);
    char *copy = strdup(path);
    OL_ASSERT(copy != NULL);
    **file = (ol_file){fs, real, at->node, copy};
    return OL_OK;
}

static int open_locked(fault_fs *fs, const char *path, ol_open_mode mode, bool lock, ol_file **file,
                       ol_error *error) {
    location at;
    ol_file *real;
    if (fs->stopped) return crashed(error);
    int status = locate(fs, path, &at, error);
    if (status != OL_OK) return status;
    if (at.node == NULL && (mode == OL_OPEN_CREATE || mode == OL_OPEN_CREATE_NEW)) {
        status = begin_growth(fs, NULL, 0, "open", path, error);
    } else {
        status = begin_read(fs, "open", path, error);
    }
    if (status != OL_OK) return status;
    status = lock ? fs->real->lock(fs->real, path, &real, error)
                  : fs->real->open(fs->real, path, mode, &real, error);
    return status == OL_OK ? wrap_file(fs, real, path, &at, file, error) : status;
}

static int fault_open(ol_fs *port, const char *path, ol_open_mode mode, ol_file **file,
                      ol_error *error) {
    fault_fs *fs = lock_fs(port);
    return unlock_fs(fs, open_locked(fs, path, mode, false, file, error));
}

static int fault_lock(ol_fs *port, const char *path, ol_file **file, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    return unlock_fs(fs, open_locked(fs, path, OL_OPEN_CREATE, true, file, error));
}

static void fault_close(ol_file *file) {
    if (file == NULL) return;
    file->fs->real->close(file->real);
    free(file->path);
    free(file);
}

static int fault_size(ol_file *file, int64_t *size, ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    int status = begin_read(fs, "fstat", file->path, error);
    return unlock_fs(fs, status == OL_OK ? fs->real->size(file->real, size, error) : status);
}

/* Reads up to the first byte that the disk cannot read. */
static int read_sound(const ol_file *file, int64_t position, void *data, size_t size, size_t *got,
                      ol_error *error) {
    const ol_fault_node *node = file->node;
    int64_t bad = node->unreadable_from > position ? node->unreadable_from : position;
    bool is_met = bad < node->unreadable_to && bad < position + (int64_t)size;
    if (is_met) size = (size_t)(bad - position);
    int status = file->fs->real->read(file->real, position, data, size, got, error);
    if (status != OL_OK || !is_met || *got < size) return status;
    (void)ol_fail_errno(error, EIO, "pread", file->path);
    return ol_error_at(error, NULL, bad);
}

static int fault_read(ol_file *file, int64_t position, void *data, size_t size, size_t *got,
                      ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    *got = 0;
    int status = begin_read(fs, "pread", file->path, error);
    if (status == OL_OK) status = read_sound(file, position, data, size, got, error);
    else if (status != OL_CRASHED) (void)ol_error_at(error, NULL, position);
    return unlock_fs(fs, status);
}

static int fault_write(ol_file *file, int64_t position, const void *data, size_t size,
                       ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    size_t end = (size_t)position + size;
    int status = begin_growth(fs, file->node, end, "pwrite", file->path, error);
    if (status == OL_OK) status = fs->real->write(file->real, position, data, size, error);
    if (status == OL_OK) {
        ol_fault_node_allocate(file->node, end);
        ol_fault_node_touch(file->node, (size_t)position, end);
    }
    return unlock_fs(fs, status);
}

static int fault_truncate(ol_file *file, int64_t size, ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    int status = begin_operation(fs, "ftruncate", file->path, error);
    if (status == OL_OK) status = fs->real->truncate(file->real, size, error);
    if (status == OL_OK) ol_fault_node_cut(file->node, (size_t)size);
    return unlock_fs(fs, status);
}

static int fault_extend(ol_file *file, int64_t from, int64_t to, ol_growth growth,
                        ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    int status = begin_growth(fs, file->node, (size_t)to, "pwrite", file->path, error);
    if (status == OL_OK) status = fs->real->extend(file->real, from, to, growth, error);
    if (status == OL_OK) {
        ol_fault_node_allocate(file->node, (size_t)to);
        ol_fault_node_touch(file->node, (size_t)from, (size_t)to);
    }
    return unlock_fs(fs, status);
}

/* Keeps the space in the model only; the real file need not keep it. */
static int fault_keep_space(ol_file *file, int64_t to, ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    int status = begin_growth(fs, file->node, (size_t)to, "fallocate", file->path, error);
    if (status == OL_OK) ol_fault_node_allocate(file->node, (size_t)to);
    return unlock_fs(fs, status);
}

/* Begins a flush: counts it, and stops or fails it if ordered; OL_OK when it is to be made. */
static int begin_flush(fault_fs *fs, ol_file *file, const char *name, ol_error *error) {
    ol_error ignored;
    fs->flushes += fs->stopped ? 0 : 1;
    int status = begin_operation(fs, name, file->path, error);
    if (status == OL_OK && fs->fail_flush_at != 0 && fs->flushes == fs->fail_flush_at) {
        fs->fail_flush_at = 0;
        status = ol_fail_errno(error, fs->fail_flush_errno, name, file->path);
    }
    if (status != OL_OK && status != OL_CRASHED) {
        (void)!ol_fault_node_fail_flush(&fs->disk, file->node, &ignored);
    }
    return status;
}

static int fault_flush(ol_file *file, ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    int status = begin_flush(fs, file, "fdatasync", error);
    if (status == OL_OK) status = ol_fault_node_flush(&fs->disk, file->node, error);
    return unlock_fs(fs, status);
}

static int fault_flush_range(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error) {
    (void)data;
    fault_fs *fs = lock_fs(&file->fs->port);
    int status = begin_flush(fs, file, "msync", error);
    if (status == OL_OK) {
        status = ol_fault_node_flush_range(&fs->disk, file->node, (size_t)from, (size_t)to, error);
    }
    return unlock_fs(fs, status);
}

static int fault_map(ol_file *file, size_t size, void **data, ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    return unlock_fs(fs, fs->stopped ? crashed(error)
                                     : fs->real->map(file->real, size, data, error));
}

static void fault_unmap(ol_fs *port, void *data, size_t size) {
    ol_fs *real = ((fault_fs *)port)->real;
    real->unmap(real, data, size);
}

static int fault_keeps_pages(ol_file *file, bool *keeps, ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    int status = begin_read(fs, "fstatfs", file->path, error);
    if (status == OL_OK) status = fs->real->keeps_pages(file->real, keeps, error);
    return unlock_fs(fs, status);
}

static int fault_populate(ol_file *file, void *data, size_t from, size_t to, ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    int status = OL_OK;
    if (++fs->populates == fs->fail_populate_at) {
        fs->fail_populate_at = 0;
        status = ol_fail_errno(error, fs->fail_populate_errno, "madvise", file->path);
    }
    if (status == OL_OK) status = fs->real->populate(file->real, data, from, to, error);
    return unlock_fs(fs, status);
}

static int fault_stored(ol_file *file, int64_t position, size_t size, ol_error *error) {
    fault_fs *fs = lock_fs(&file->fs->port);
    int status = begin_operation(fs, "store", file->path, error);
    /* The bytes are in memory even if the operation was ordered to fail. */
    if (status != OL_CRASHED) {
        ol_fault_node_touch(file->node, (size_t)position, (size_t)position + size);
    }
    return unlock_fs(fs, status);
}

/* ---------------------------------------------------------------------------------------- names */

static int rename_locked(fault_fs *fs, const char *source, const char *target, ol_error *error) {
    location from, to;
    int status = locate(fs, source, &from, error);
    if (status == OL_OK) status = locate(fs, target, &to, error);
    if (status != OL_OK) return status;
    if (from.node == NULL) return ol_fail_errno(error, ENOENT, "rename", source);
    status = begin_operation(fs, "rename", source, error);
    /* The real rename comes last: the model has to read a replaced file while it exists, and a
     * rename within a directory that was just looked up does not fail. */
    if (status == OL_OK && to.node != NULL && to.node->is_directory) {
        status = ol_fail_errno(error, EEXIST, "rename", target);
    }
    if (status == OL_OK) {
        status = ol_fault_disk_rename(&fs->disk, from.parent, from.name, to.parent, to.name, error);
    }
    return status == OL_OK ? fs->real->rename(fs->real, source, target, error) : status;
}

static int fault_rename(ol_fs *port, const char *source, const char *target, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    return unlock_fs(fs, fs->stopped ? crashed(error) : rename_locked(fs, source, target, error));
}

static int remove_locked(fault_fs *fs, const char *path, bool directory, ol_error *error) {
    location at;
    int status = locate(fs, path, &at, error);
    if (status != OL_OK) return status;
    const char *name = directory ? "rmdir" : "unlink";
    if (at.node == NULL) return ol_fail_errno(error, ENOENT, name, path);
    if (at.node->is_directory != directory) {
        return ol_fail_errno(error, directory ? ENOTDIR : EISDIR, name, path);
    }
    status = begin_operation(fs, name, path, error);
    if (status == OL_OK && directory) status = fs->real->remove_directory(fs->real, path, error);
    if (status == OL_OK) status = ol_fault_disk_unlink(&fs->disk, at.parent, at.name, error);
    if (status == OL_OK && !directory) status = fs->real->remove(fs->real, path, error);
    return status;
}

static int fault_remove(ol_fs *port, const char *path, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    return unlock_fs(fs, fs->stopped ? crashed(error) : remove_locked(fs, path, false, error));
}

static int fault_remove_directory(ol_fs *port, const char *path, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    return unlock_fs(fs, fs->stopped ? crashed(error) : remove_locked(fs, path, true, error));
}

static int make_directory_locked(fault_fs *fs, const char *path, ol_error *error) {
    location at;
    int status = locate(fs, path, &at, error);
    if (status != OL_OK) return status;
    if (at.node == NULL) status = begin_growth(fs, NULL, 0, "mkdir", path, error);
    if (status == OL_OK) status = fs->real->make_directory(fs->real, path, error);
    if (status != OL_OK || at.node != NULL) return status;
    ol_fault_disk_link(&fs->disk, at.parent, at.name,
                       ol_fault_disk_add_node(&fs->disk, true, NULL));
    return OL_OK;
}

static int fault_make_directory(ol_fs *port, const char *path, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    return unlock_fs(fs, fs->stopped ? crashed(error) : make_directory_locked(fs, path, error));
}

static int flush_directory_locked(fault_fs *fs, const char *path, ol_error *error) {
    location at;
    int status = locate(fs, path, &at, error);
    if (status != OL_OK) return status;
    if (at.node == NULL) return ol_fail_errno(error, ENOENT, "fsync directory", path);
    status = begin_operation(fs, "fsync directory", path, error);
    if (status == OL_OK) ol_fault_disk_flush_directory(&fs->disk, at.node);
    return status;
}

static int fault_flush_directory(ol_fs *port, const char *path, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    return unlock_fs(fs, fs->stopped ? crashed(error) : flush_directory_locked(fs, path, error));
}

/* Runs without the mutex, because the visitor may make other calls; the real list gathers the names
 * before it visits them. */
static int fault_list(ol_fs *port, const char *path, int (*visit)(void *context, const char *name),
                      void *context, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    int status = unlock_fs(fs, begin_read(fs, "opendir", path, error));
    return status == OL_OK ? fs->real->list(fs->real, path, visit, context, error) : status;
}

static int fault_exists(ol_fs *port, const char *path, bool *exists, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    int status = begin_read(fs, "stat", path, error);
    return unlock_fs(fs, status == OL_OK ? fs->real->exists(fs->real, path, exists, error)
                                         : status);
}

static int fault_modified(ol_fs *port, const char *path, int64_t *modified_ms, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    int status = begin_read(fs, "stat", path, error);
    return unlock_fs(fs, status == OL_OK ? fs->real->modified(fs->real, path, modified_ms, error)
                                         : status);
}

static int fault_set_modified(ol_fs *port, const char *path, int64_t modified_ms, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    location at;
    int status = locate(fs, path, &at, error);
    if (status == OL_OK) status = begin_operation(fs, "utimensat", path, error);
    return unlock_fs(
        fs, status == OL_OK ? fs->real->set_modified(fs->real, path, modified_ms, error) : status);
}

/* ------------------------------------------------------------------------ controls of the tests */

typedef struct scan {
    fault_fs *fs;
    ol_fault_node *directory;
    const char *path;
    ol_error *error;
} scan;

static int scan_directory(fault_fs *fs, ol_fault_node *directory, const char *path,
                          ol_error *error);

static int scan_name(void *context, const char *name) {
    scan *state = context;
    char path[OL_PATH_MAX];
    struct stat attributes;
    int status = ol_path_join(path, sizeof path, state->path, name, state->error);
    if (status != OL_OK) return status;
    if (lstat(path, &attributes) != 0) return ol_fail_errno(state->error, errno, "lstat", path);
    ol_fault_disk *disk = &state->fs->disk;
    if (S_ISDIR(attributes.st_mode)) {
        ol_fault_node *directory = ol_fault_disk_add_node(disk, true, NULL);
        ol_fault_disk_link(disk, state->directory, name, directory);
        return scan_directory(state->fs, directory, path, state->error);
    }
    if (!S_ISREG(attributes.st_mode)) return OL_OK;
    ol_file *reader;
    status = state->fs->real->open(state->fs->real, path, OL_OPEN_READ, &reader, state->error);
    if (status != OL_OK) return status;
    ol_fault_node *node = ol_fault_disk_add_node(disk, false, reader);
    ol_fault_disk_link(disk, state->directory, name, node);
    ol_fault_node_allocate(node, (size_t)attributes.st_size);
    return ol_fault_node_flush(disk, node, state->error);
}

static int scan_directory(fault_fs *fs, ol_fault_node *directory, const char *path,
                          ol_error *error) {
    scan state = {fs, directory, path, error};
    return fs->real->list(fs->real, path, scan_name, &state, error);
}

static const ol_fs fault_port = {
    .open = fault_open,
    .close = fault_close,
    .size = fault_size,
    .read = fault_read,
    .write = fault_write,
    .truncate = fault_truncate,
    .extend = fault_extend,
    .keep_space = fault_keep_space,
    .flush = fault_flush,
    .flush_range = fault_flush_range,
    .map = fault_map,
    .unmap = fault_unmap,
    .keeps_pages = fault_keeps_pages,
    .populate = fault_populate,
    .stored = fault_stored,
    .rename = fault_rename,
    .remove = fault_remove,
    .make_directory = fault_make_directory,
    .remove_directory = fault_remove_directory,
    .flush_directory = fault_flush_directory,
    .list = fault_list,
    .exists = fault_exists,
    .modified = fault_modified,
    .set_modified = fault_set_modified,
    .lock = fault_lock,
};

int ol_fault_fs_create(const char *root, ol_fs **port, ol_error *error) {
    fault_fs *fs = calloc(1, sizeof *fs);
    char *copy = strdup(root);
    OL_ASSERT(fs != NULL && copy != NULL);
    for (size_t size = strlen(copy); size > 1 && copy[size - 1] == '/'; size--) {
        copy[size - 1] = '\0';
    }
    fs->port = fault_port;
    fs->real = ol_fs_posix();
    fs->root = copy;
    pthread_mutex_init(&fs->mutex, NULL);
    ol_fault_disk_open(&fs->disk, fs->real);
    int status = scan_directory(fs, fs->disk.root, copy, error);
    ol_fault_disk_flush_all_names(&fs->disk);
    if (status != OL_OK) ol_fault_fs_free(&fs->port);
    else *port = &fs->port;
    return status;
}

void ol_fault_fs_free(ol_fs *port) {
    fault_fs *fs = (fault_fs *)port;
    if (fs == NULL) return;
    ol_fault_disk_close(&fs->disk);
    pthread_mutex_destroy(&fs->mutex);
    free(fs->root);
    free(fs);
}

/* Returns a counter of the file system, which other threads may change. */
static int64_t count_of(ol_fs *port, const int64_t *counter) {
    fault_fs *fs = lock_fs(port);
    int64_t count = *counter;
    unlock_fs(fs, OL_OK);
    return count;
}

int64_t ol_fault_fs_operations(ol_fs *fs) { return count_of(fs, &((fault_fs *)fs)->operations); }
int64_t ol_fault_fs_reads(ol_fs *fs) { return count_of(fs, &((fault_fs *)fs)->reads); }
int64_t ol_fault_fs_flushes(ol_fs *fs) { return count_of(fs, &((fault_fs *)fs)->flushes); }
int64_t ol_fault_fs_populates(ol_fs *fs) { return count_of(fs, &((fault_fs *)fs)->populates); }

void ol_fault_fs_stop_at(ol_fs *port, int64_t operation) {
    fault_fs *fs = lock_fs(port);
    fs->stop_at = operation;
    unlock_fs(fs, OL_OK);
}

int ol_fault_fs_stop(ol_fs *port, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    if (!fs->stopped) stop(fs);
    int status = fs->capture_error.status;
    if (status != OL_OK) *error = fs->capture_error;
    return unlock_fs(fs, status);
}

bool ol_fault_fs_stopped(ol_fs *port) {
    fault_fs *fs = lock_fs(port);
    bool stopped = fs->stopped;
    unlock_fs(fs, OL_OK);
    return stopped;
}

void ol_fault_fs_restart(ol_fs *port) {
    fault_fs *fs = lock_fs(port);
    fs->stop_at = fs->fail_at = fs->fail_flush_at = fs->full_from = 0;
    fs->fail_read_at = fs->fail_populate_at = 0;
    fs->stopped = false;
    unlock_fs(fs, OL_OK);
}

void ol_fault_fs_fail_at(ol_fs *port, int64_t operation, int sys_errno) {
    fault_fs *fs = lock_fs(port);
    fs->fail_at = operation;
    fs->fail_errno = sys_errno;
    unlock_fs(fs, OL_OK);
}

void ol_fault_fs_fail_flush(ol_fs *port, int64_t flush, int sys_errno) {
    fault_fs *fs = lock_fs(port);
    fs->fail_flush_at = flush;
    fs->fail_flush_errno = sys_errno;
    unlock_fs(fs, OL_OK);
}

void ol_fault_fs_fill(ol_fs *port, int64_t operation) {
    fault_fs *fs = lock_fs(port);
    fs->full_from = operation;
    unlock_fs(fs, OL_OK);
}

bool ol_fault_fs_is_full(ol_fs *port) {
    fault_fs *fs = lock_fs(port);
    bool is_full = fs->full_from != 0 && fs->operations + 1 >= fs->full_from;
    unlock_fs(fs, OL_OK);
    return is_full;
}

void ol_fault_fs_fail_read(ol_fs *port, int64_t read, int sys_errno) {
    fault_fs *fs = lock_fs(port);
    fs->fail_read_at = read;
    fs->fail_read_errno = sys_errno;
    unlock_fs(fs, OL_OK);
}

void ol_fault_fs_fail_populate(ol_fs *port, int64_t populate, int sys_errno) {
    fault_fs *fs = lock_fs(port);
    fs->fail_populate_at = populate;
    fs->fail_populate_errno = sys_errno;
    unlock_fs(fs, OL_OK);
}

static int locate_file(fault_fs *fs, const char *path, location *at, ol_error *error) {
    int status = locate(fs, path, at, error);
    if (status == OL_OK && (at->node == NULL || at->node->is_directory)) {
        status = ol_fail_errno(error, ENOENT, "open", path);
    }
    return status;
}

int ol_fault_fs_spoil(ol_fs *port, const char *path, int64_t from, int64_t to, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    location at;
    int status = locate_file(fs, path, &at, error);
    if (status == OL_OK) {
        at.node->unreadable_from = from;
        at.node->unreadable_to = to;
    }
    return unlock_fs(fs, status);
}

int ol_fault_fs_shrink(ol_fs *port, const char *path, int64_t size, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    location at;
    int status = locate_file(fs, path, &at, error);
    if (status == OL_OK && truncate(path, size) != 0) {
        status = ol_fail_errno(error, errno, "truncate", path);
    }
    if (status == OL_OK) ol_fault_node_cut(at.node, (size_t)size);
    return unlock_fs(fs, status);
}

int ol_fault_fs_write_back(ol_fs *port, uint64_t seed, ol_error *error) {
    fault_fs *fs = lock_fs(port);
    int status = fs->stopped ? crashed(error) : OL_OK;
    for (ol_fault_node *node = fs->disk.nodes; node != NULL && status == OL_OK; node = node->next) {
        status = ol_fault_node_write_back(&fs->disk, node, &seed, error);
    }
    return unlock_fs(fs, status);
}

static int materialize(ol_fs *port, const char *target, uint64_t seed, bool everything,
                       ol_error *error) {
    fault_fs *fs = lock_fs(port);
    int status = fs->capture_error.status;
    if (status != OL_OK) *error = fs->capture_error;
    else if (!fs->stopped) status = ol_fault_disk_capture(&fs->disk, error);
    if (status == OL_OK) {
        status = ol_fault_disk_materialize(&fs->disk, target, seed, everything, error);
    }
    return unlock_fs(fs, status);
}

int ol_fault_fs_materialize(ol_fs *port, const char *target, uint64_t seed, ol_error *error) {
    return materialize(port, target, seed, false, error);
}

int ol_fault_fs_materialize_all(ol_fs *port, const char *target, ol_error *error) {
    return materialize(port, target, 0, true, error);
}
