/* fs/posix.c: the real file system.
 *
 * Most functions make one system call.  It is retried after EINTR and continued after a short
 * transfer.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/pages.h"
#include "fs/fs.h"

/* On file systems with large folios, the page cache keeps the zeros of one write in a folio of the
 * size of that write.  A store through the mapping dirties a whole folio, and flushing it
 * write-protects all of it.  With folios of 1 MiB a fault takes 4.3 us and the flush of 130 KB 320
 * us; with 16 KiB they take 1.4 us and 155 us.  Folios of 16 KiB also need no fresh memory of the
 * host. */
enum { ZERO_CHUNK_SIZE = 1 << 14, TRANSFER_SIZE_MAX = 1 << 30 };

struct ol_file {
    char *path;
    int descriptor;             /* -1 in a child that lost the lock by fork */
    bool locked;
    struct ol_file *next_locked;
};

/* A lock belongs to the open file description, which a forked child shares: it would outlive the
 * parent while the child keeps its descriptor.  So the child closes the descriptors of all locks at
 * once. */
static pthread_mutex_t locked_mutex = PTHREAD_MUTEX_INITIALIZER;
static ol_file *locked_first;
static pthread_once_t locked_once = PTHREAD_ONCE_INIT;

static void fork_prepare(void) { pthread_mutex_lock(&locked_mutex); }
static void fork_parent(void) { pthread_mutex_unlock(&locked_mutex); }

static void fork_child(void) {
    for (ol_file *file = locked_first; file != NULL; file = file->next_locked) {
        close(file->descriptor);
        file->descriptor = -1;
        file->locked = false;
    }
    locked_first = NULL;
    pthread_mutex_unlock(&locked_mutex);
}

static void register_fork_handlers(void) {
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static int open_descriptor(const char *path, int flags, ol_error *error, const char *operation,
                           int *descriptor) {
    if (strlen(path) >= OL_PATH_MAX) {
        return ol_fail(error, OL_INVALID, "the path is longer than %d bytes", OL_PATH_MAX - 1);
    }
    do {
        *descriptor = open(path, flags | O_CLOEXEC, 0644);
    } while (*descriptor < 0 && errno == EINTR);
    if (*descriptor >= 0) return OL_OK;
    int sys_errno = errno;
    ol_fail_errno(error, sys_errno, operation, path);
    if (sys_errno == EEXIST) error->status = OL_INVALID;
    return error->status;
}

static ol_file *new_file(const char *path) {
    ol_file *result = calloc(1, sizeof *result);
    if (result != NULL) result->path = strdup(path);
    if (result != NULL && result->path != NULL) return result;
    free(result);
    return NULL;
}

/* Allocates memory first, so that an open that fails has not created the file. */
static int posix_open(ol_fs *fs, const char *path, ol_open_mode mode, ol_file **file,
                      ol_error *error) {
    (void)fs;
    int flags = O_RDWR;
    if (mode == OL_OPEN_READ) flags = O_RDONLY;
    if (mode == OL_OPEN_CREATE) flags |= O_CREAT;
    if (mode == OL_OPEN_CREATE_NEW) flags |= O_CREAT | O_EXCL;
    ol_file *result = new_file(path);
    if (result == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for an open file");
    int status = open_descriptor(path, flags, error, "open", &result->descriptor);
    if (status == OL_OK) {
        *file = result;
        return OL_OK;
    }
    free(result->path);
    free(result);
    return status;
}

static void unlink_lock(ol_file *file) {
    pthread_mutex_lock(&locked_mutex);
    for (ol_file **link = &locked_first; *link != NULL; link = &(*link)->next_locked) {
        if (*link == file) {
            *link = file->next_locked;
            break;
        }
    }
    pthread_mutex_unlock(&locked_mutex);
}

static void close_file(ol_file *file) {
    if (file == NULL) return;
    if (file->locked) {
        unlink_lock(file);
        /* The lock is released explicitly, because a child that was made by vfork, or by another
         * library with clone, may still have the open file description. */
        struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
        (void)fcntl(file->descriptor, F_OFD_SETLK, &lock);
    }
    /* Linux has released the descriptor even when close reports EINTR; flush has reported any
     * errors. */
    if (file->descriptor >= 0) close(file->descriptor);
    free(file->path);
    free(file);
}

static int posix_size(ol_file *file, int64_t *size, ol_error *error) {
    struct stat status;
    if (fstat(file->descriptor, &status) != 0) {
        return ol_fail_errno(error, errno, "fstat", file->path);
    }
    *size = (int64_t)status.st_size;
    return OL_OK;
}

static int posix_read(ol_file *file, int64_t position, void *data, size_t size, size_t *got,
                      ol_error *error) {
    size_t done = 0;
    *got = 0;
    while (done < size) {
        size_t chunk = size - done < TRANSFER_SIZE_MAX ? size - done : TRANSFER_SIZE_MAX;
        ssize_t count = pread(file->descriptor, (uint8_t *)data + done, chunk,
                              position + (int64_t)done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) {
            ol_fail_errno(error, errno, "pread", file->path);
            return ol_error_at(error, NULL, position + (int64_t)done);
        }
        if (count == 0) break;
        done += (size_t)count;
        *got = done;
    }
    return OL_OK;
}

/* Writes all bytes or reports the failure, after which the file may have grown. */
static int write_fully(ol_file *file, int64_t position, const uint8_t *data, size_t size,
                       ol_error *error) {
    size_t done = 0;
    while (done < size) {
        size_t chunk = size - done < TRANSFER_SIZE_MAX ? size - done : TRANSFER_SIZE_MAX;
        ssize_t count = pwrite(file->descriptor, data + done, chunk, position + (int64_t)done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            ol_fail_errno(error, count < 0 ? errno : EIO, "pwrite", file->path);
            return ol_error_at(error, NULL, position + (int64_t)done);
        }
        done += (size_t)count;
    }
    return OL_OK;
}

/* Called after a failed write: truncates the file to its former size.  If even that fails, the
 * first error is still the one to report. */
static void restore_size(ol_file *file, int64_t size) {
    int result;
    do {
        result = ftruncate(file->descriptor, size);
    } while (result != 0 && errno == EINTR);
}

static int posix_write(ol_file *file, int64_t position, const void *data, size_t size,
                       ol_error *error) {
    int64_t size_before;
    int status = posix_size(file, &size_before, error);
    if (status != OL_OK) return status;
    status = write_fully(file, position, data, size, error);
    if (status != OL_OK && position + (int64_t)size > size_before) restore_size(file, size_before);
    return status;
}

static int posix_truncate(ol_file *file, int64_t size, ol_error *error) {
    int result;
    do {
        result = ftruncate(file->descriptor, size);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? OL_OK : ol_fail_errno(error, errno, "ftruncate", file->path);
}

static int write_zeros(ol_file *file, int64_t from, int64_t to, ol_error *error) {
    static const uint8_t zeros[ZERO_CHUNK_SIZE];
    int status = OL_OK;
    for (int64_t position = from; status == OL_OK && position < to;) {
        /* The first chunk ends at a multiple of the chunk size, so that the others are aligned. */
        int64_t end = (position / ZERO_CHUNK_SIZE + 1) * ZERO_CHUNK_SIZE;
        if (end > to) end = to;
        status = write_fully(file, position, zeros, (size_t)(end - position), error);
        position = end;
    }
    return status;
}

/* Allocates blocks without content and sets *end to their end.  If the file system cannot do that,
 * *end is `from`, and zeros are written instead. */
static int allocate(ol_file *file, int64_t from, int64_t to, int64_t *end, ol_error *error) {
    int result;
    do {
        result = fallocate(file->descriptor, 0, from, to - from);
    } while (result != 0 && errno == EINTR);
    *end = result == 0 ? to : from;
    if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return OL_OK;
    return ol_fail_errno(error, errno, "fallocate", file->path);
}

/* Flushes neither written zeros nor allocated blocks.  The caller does that later, usually on a
 * background thread. */
static int posix_extend(ol_file *file, int64_t from, int64_t to, ol_growth growth,
                        ol_error *error) {
    OL_ASSERT(from >= 0 && from <= to);
    int64_t size_before;
    int status = posix_size(file, &size_before, error);
    if (status != OL_OK) return status;
    /* The bytes below the old end need not be zeros. */
    int64_t end_of_old = size_before < from ? from : size_before > to ? to : size_before;
    if (end_of_old > from) status = write_zeros(file, from, end_of_old, error);
    int64_t allocated = end_of_old;
    if (status == OL_OK && growth != OL_GROW_WRITTEN && end_of_old < to) {
        status = allocate(file, end_of_old, to, &allocated, error);
    }
    if (status == OL_OK && growth != OL_GROW_IF_CHEAP) {
        status = write_zeros(file, allocated, to, error);
    }
    if (status != OL_OK && to > size_before) restore_size(file, size_before);
    return status;
}

static int posix_keep_space(ol_file *file, int64_t to, ol_error *error) {
    int result;
    do {
        result = fallocate(file->descriptor, FALLOC_FL_KEEP_SIZE, 0, to);
    } while (result != 0 && errno == EINTR);
    if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return OL_OK;
    return ol_fail_errno(error, errno, "fallocate", file->path);
}

static int posix_flush(ol_file *file, ol_error *error) {
    int result;
    do {
        result = fdatasync(file->descriptor);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? OL_OK : ol_fail_errno(error, errno, "fdatasync", file->path);
}

/* Unmaps the full pages in [from, to) before a flush, and returns the start of the page of `from`.
 * During a flush the kernel write-protects each mapped page separately, and interrupts the other
 * cores for each.  Full pages are never stored to again, and their bytes are in the page cache, so
 * they need not stay mapped. */
static int64_t unmap_full_pages(void *data, int64_t from, int64_t to) {
    int64_t page_size = (int64_t)sysconf(_SC_PAGESIZE);
    OL_ASSERT(from >= 0 && from <= to);
    from -= from % page_size;
    int64_t full = to - to % page_size;
    if (full > from) (void)madvise((uint8_t *)data + from, (size_t)(full - from), MADV_DONTNEED);
    return from;
}

static int posix_flush_range(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error) {
    from = unmap_full_pages(data, from, to);
    int result;
    do {
        result = msync((uint8_t *)data + from, (size_t)(to - from), MS_SYNC);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? OL_OK : ol_fail_errno(error, errno, "msync", file->path);
}

static int posix_begin_flush_range(ol_file *file, void *data, int64_t from, int64_t to,
                                   ol_error *error) {
    from = unmap_full_pages(data, from, to);
    int result;
    do {
        result = sync_file_range(file->descriptor, from, to - from, SYNC_FILE_RANGE_WRITE);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? OL_OK : ol_fail_errno(error, errno, "sync_file_range", file->path);
}

static int posix_map(ol_file *file, size_t size, void **data, ol_error *error) {
    if (size == 0) return ol_fail(error, OL_INVALID, "an empty range cannot be mapped");
    void *result = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor, 0);
    if (result == MAP_FAILED) return ol_fail_errno(error, errno, "mmap", file->path);
    if (madvise(result, size, MADV_DONTFORK) != 0) {
        int sys_errno = errno;
        munmap(result, size);
        return ol_fail_errno(error, sys_errno, "madvise", file->path);
    }
    *data = result;
    return OL_OK;
}

static void posix_unmap(ol_fs *fs, void *data, size_t size) {
    (void)fs;
    if (data != NULL) munmap(data, size);
}

/* The geometry that XFS reports.  It is declared here because not every system has the header. */
typedef struct xfs_geometry {
    uint32_t sizes[8];
    uint64_t blocks[4];
    uint8_t uuid[16];
    uint32_t stripes[2];
    int32_t version;
    uint32_t flags;
    uint32_t more_sizes[3];
} xfs_geometry;
#define XFS_GEOMETRY _IOR('X', 100, xfs_geometry)
#define XFS_GEOMETRY_REFLINK ((uint32_t)1 << 20)

/* Files of XFS can share blocks, and a store to a shared block needs a new one. */
static bool has_shared_blocks(const ol_file *file) {
    xfs_geometry geometry = {0};
    return ioctl(file->descriptor, XFS_GEOMETRY, &geometry) != 0 ||
           (geometry.flags & XFS_GEOMETRY_REFLINK) != 0;
}

static int posix_keeps_pages(ol_file *file, bool *keeps, ol_error *error) {
    struct statfs system;
    int result;
    *keeps = false;
    do {
        result = fstatfs(file->descriptor, &system);
    } while (result != 0 && errno == EINTR);
    if (result != 0) return ol_fail_errno(error, errno, "fstatfs", file->path);
    switch ((uint32_t)system.f_type) {
        case EXT4_SUPER_MAGIC:          /* that of ext2 and ext3, too */
        case TMPFS_MAGIC:
        case RAMFS_MAGIC:
            *keeps = true;
            return OL_OK;
        case XFS_SUPER_MAGIC:
            *keeps = !has_shared_blocks(file);
            return OL_OK;
        default:
            return OL_OK;
    }
}

/* Checks that [from, to) exists: a file that another process truncated has no pages after its end,
 * and the byte at `from` may be on a page that the disk cannot read. */
static int check_pages(ol_file *file, size_t from, size_t to, ol_error *error) {
    int64_t size = 0;
    size_t got = 0;
    uint8_t byte;
    int status = posix_size(file, &size, error);
    if (status == OL_OK) status = posix_read(file, (int64_t)from, &byte, 1, &got, error);
    if (status != OL_OK || size >= (int64_t)to) return status;
    (void)ol_fail(error, OL_IO, "the file is %lld bytes long, but was extended to %zu bytes",
                  (long long)size, to);
    return ol_error_at(error, file->path, size);
}

/* Finds out why a store would fail, because the kernel says only that it would (EFAULT). */
static int blame_pages(ol_file *file, size_t from, size_t to, ol_error *error) {
    struct statvfs system;
    int status = check_pages(file, from, to, error);
    if (status != OL_OK) return status;
    bool full = fstatvfs(file->descriptor, &system) == 0 &&
                (uint64_t)system.f_bavail * system.f_frsize < to - from;
    ol_fail_errno(error, full ? ENOSPC : EIO, "madvise MADV_POPULATE_WRITE", file->path);
    return ol_error_at(error, NULL, (int64_t)from);
}

/* Faults pages in on kernels before 5.14.  An atomic OR with 0 dirties a page and cannot undo
 * another thread's store.  Each page is read with pread before it is touched, because touching a
 * page that the disk cannot read would kill the process. */
static int touch_pages(ol_file *file, uint8_t *data, size_t from, size_t to, size_t page_size,
                       ol_error *error) {
    int status = check_pages(file, from, to, error);
    for (size_t at = from; at < to && status == OL_OK; at += page_size) {
        uint8_t byte;
        size_t got = 0;
        status = posix_read(file, (int64_t)at, &byte, 1, &got, error);
        if (status == OL_OK) __atomic_fetch_or(data + at, 0, __ATOMIC_RELAXED);
    }
    return status;
}

static int posix_populate(ol_file *file, void *data, size_t from, size_t to, ol_error *error) {
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    int result;
    from -= from % page_size;
    if (from >= to) return OL_OK;
    do {
        result = madvise((uint8_t *)data + from, to - from, MADV_POPULATE_WRITE);
    } while (result != 0 && (errno == EINTR || errno == EAGAIN));
    if (result == 0) return OL_OK;
    if (errno == EFAULT) return blame_pages(file, from, to, error);
    if (errno == EINVAL) return touch_pages(file, data, from, to, page_size, error);
    return ol_fail_errno(error, errno, "madvise MADV_POPULATE_WRITE", file->path);
}

static int posix_rename(ol_fs *fs, const char *source, const char *target, ol_error *error) {
    (void)fs;
    return rename(source, target) == 0 ? OL_OK : ol_fail_errno(error, errno, "rename", source);
}

static int posix_remove(ol_fs *fs, const char *path, ol_error *error) {
    (void)fs;
    return unlink(path) == 0 ? OL_OK : ol_fail_errno(error, errno, "unlink", path);
}

static int posix_make_directory(ol_fs *fs, const char *path, ol_error *error) {
    (void)fs;
    if (mkdir(path, 0755) == 0) return OL_OK;
    int sys_errno = errno;
    struct stat status;
    if (sys_errno == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return OL_OK;
    return ol_fail_errno(error, sys_errno, "mkdir", path);
}

static int posix_remove_directory(ol_fs *fs, const char *path, ol_error *error) {
    (void)fs;
    return rmdir(path) == 0 ? OL_OK : ol_fail_errno(error, errno, "rmdir", path);
}

static int posix_flush_directory(ol_fs *fs, const char *path, ol_error *error) {
    (void)fs;
    int descriptor;
    int status = open_descriptor(path, O_RDONLY | O_DIRECTORY, error, "open directory",
                                 &descriptor);
    if (status != OL_OK) return status;
    int result;
    do {
        result = fsync(descriptor);
    } while (result != 0 && errno == EINTR);
    if (result != 0) status = ol_fail_errno(error, errno, "fsync directory", path);
    close(descriptor);
    return status;
}

typedef struct name_list {
    char **names;
    size_t count;
    size_t capacity;
} name_list;

static int name_list_add(name_list *list, const char *name, ol_error *error) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 32 : 2 * list->capacity;
        char **names = realloc(list->names, capacity * sizeof *names);
        if (names == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a directory's names");
        list->names = names;
        list->capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a directory's names");
    list->names[list->count++] = copy;
    return OL_OK;
}

static int read_names(const char *path, name_list *list, ol_error *error) {
    DIR *directory = opendir(path);
    if (directory == NULL) return ol_fail_errno(error, errno, "opendir", path);
    int status = OL_OK;
    while (status == OL_OK) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (entry == NULL) {
            if (errno != 0) status = ol_fail_errno(error, errno, "readdir", path);
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        status = name_list_add(list, entry->d_name, error);
    }
    closedir(directory);
    return status;
}

/* The names are gathered first, so that the visitor may change the directory. */
static int posix_list(ol_fs *fs, const char *path, int (*visit)(void *context, const char *name),
                      void *context, ol_error *error) {
    (void)fs;
    name_list list = {NULL, 0, 0};
    int status = read_names(path, &list, error);
    for (size_t i = 0; i < list.count && status == OL_OK; i++) {
        status = visit(context, list.names[i]);
    }
    for (size_t i = 0; i < list.count; i++) free(list.names[i]);
    free(list.names);
    return status;
}

static int posix_exists(ol_fs *fs, const char *path, bool *exists, ol_error *error) {
    (void)fs;
    struct stat status;
    *exists = stat(path, &status) == 0;
    if (*exists || errno == ENOENT || errno == ENOTDIR) return OL_OK;
    return ol_fail_errno(error, errno, "stat", path);
}

static int posix_modified(ol_fs *fs, const char *path, int64_t *modified_ms, ol_error *error) {
    (void)fs;
    struct stat status;
    if (stat(path, &status) != 0) return ol_fail_errno(error, errno, "stat", path);
    *modified_ms = (int64_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000;
    return OL_OK;
}

static int posix_set_modified(ol_fs *fs, const char *path, int64_t modified_ms, ol_error *error) {
    (void)fs;
    int64_t seconds = modified_ms / 1000 - (modified_ms % 1000 < 0 ? 1 : 0);
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t)seconds, .tv_nsec = (long)(modified_ms - seconds * 1000) * 1000000},
    };
    return utimensat(AT_FDCWD, path, times, 0) == 0
               ? OL_OK
               : ol_fail_errno(error, errno, "utimensat", path);
}

/* Fails with the holder of the lock, if the kernel knows it: it knows the holder of a lock that
 * belongs to a process, such as that of a broker, but not of one that belongs to an open file, such
 * as that of offsetlog. */
static int report_holder(int descriptor, ol_error *error) {
    struct flock held = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    if (fcntl(descriptor, F_OFD_GETLK, &held) == 0 && held.l_type != F_UNLCK && held.l_pid > 0) {
        return ol_fail(error, OL_LOCKED, "the lock is held by process %ld", (long)held.l_pid);
    }
    return ol_fail(error, OL_LOCKED,
                   "the lock is held by another process, or by another store in this process");
}

/* A lock of an open file description conflicts with every other open of the file, also in this
 * process.  Therefore the process needs no list of the paths that it has locked. */
static int posix_lock(ol_fs *fs, const char *path, ol_file **file, ol_error *error) {
    ol_file *result = NULL;
    pthread_once(&locked_once, register_fork_handlers);
    int status = posix_open(fs, path, OL_OPEN_CREATE, &result, error);
    if (status != OL_OK) return status;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    pthread_mutex_lock(&locked_mutex);
    if (fcntl(result->descriptor, F_OFD_SETLK, &lock) == 0) {
        result->locked = true;
        result->next_locked = locked_first;
        locked_first = result;
    } else if (errno == EAGAIN || errno == EACCES) {
        report_holder(result->descriptor, error);
        status = ol_error_at(error, path, -1);
    } else {
        status = ol_fail_errno(error, errno, "fcntl F_OFD_SETLK", path);
    }
    pthread_mutex_unlock(&locked_mutex);
    if (status != OL_OK) close_file(result);
    else *file = result;
    return status;
}

ol_fs *ol_fs_posix(void) {
    static ol_fs fs = {
        .open = posix_open,
        .close = close_file,
        .size = posix_size,
        .read = posix_read,
        .write = posix_write,
        .truncate = posix_truncate,
        .extend = posix_extend,
        .keep_space = posix_keep_space,
        .flush = posix_flush,
        .flush_range = posix_flush_range,
        .begin_flush_range = posix_begin_flush_range,
        .map = posix_map,
        .unmap = posix_unmap,
        .keeps_pages = posix_keeps_pages,
        .populate = posix_populate,
        .stored = NULL,
        .rename = posix_rename,
        .remove = posix_remove,
        .make_directory = posix_make_directory,
        .remove_directory = posix_remove_directory,
        .flush_directory = posix_flush_directory,
        .list = posix_list,
        .exists = posix_exists,
        .modified = posix_modified,
        .set_modified = posix_set_modified,
        .lock = posix_lock,
    };
    return &fs;
}
