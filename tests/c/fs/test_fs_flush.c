/* Checks which kernel calls a flush makes, on which file, and how a failure is reported.
 *
 * The faulting file system stands above them, so no crash test notices a call that is not made.  The functions
 * below take the place of those of libc. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/fs.h"
#include "ol_test.h"
#include "ol_test_directory.h"

typedef enum call_kind { FDATASYNC, FSYNC, MSYNC } call_kind;

typedef struct kernel_call {
    call_kind kind;
    ino_t inode;                /* of the descriptor */
    ino_t named;                /* of the file that has the name `watched` at that moment */
    uint8_t *data;
    size_t size;
    int flags;
} kernel_call;

static kernel_call calls[16];
static int call_count;
static int failures[4];         /* errno of the next calls; 0 ends the list */
static int failed;

static char watched[400];

static int answer(kernel_call call, long number, long first, long second, long third) {
    OL_CHECK(call_count < 16);
    struct stat found;
    if (stat(watched, &found) == 0) call.named = found.st_ino;
    calls[call_count++] = call;
    if (failures[failed] == 0) return (int)syscall(number, first, second, third);
    errno = failures[failed++];
    return -1;
}

static ino_t inode_of(int descriptor) {
    struct stat found;
    return fstat(descriptor, &found) == 0 ? found.st_ino : 0;
}

int fdatasync(int descriptor) {
    return answer((kernel_call){FDATASYNC, .inode = inode_of(descriptor)}, SYS_fdatasync, descriptor, 0, 0);
}

int fsync(int descriptor) {
    return answer((kernel_call){FSYNC, .inode = inode_of(descriptor)}, SYS_fsync, descriptor, 0, 0);
}

int msync(void *data, size_t size, int flags) {
    return answer((kernel_call){MSYNC, .data = data, .size = size, .flags = flags}, SYS_msync, (long)data, (long)size,
                  flags);
}

static void fail_next(int first, int second) {
    call_count = failed = 0;
    failures[0] = first;
    failures[1] = second;
    failures[2] = 0;
}

static char directory[256];
static ol_error error;
static ol_fs *fs;
static ol_file *file;

static ino_t inode_at(const char *path) {
    struct stat found;
    OL_CHECK_INT(stat(path, &found), 0);
    return found.st_ino;
}

static void begin(void) {
    fs = ol_fs_posix();
    ol_test_directory_make(directory);
    OL_CHECK_OK(fs->open(fs, ol_test_path(directory, "a"), OL_OPEN_CREATE_NEW, &file, &error), &error);
    fail_next(0, 0);
}

static void end(void) {
    fs->close(file);
    ol_test_directory_remove(directory);
}

OL_TEST(a_flush_calls_fdatasync_on_the_file) {
    begin();
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_INT(call_count, 1);
    OL_CHECK_INT(calls[0].kind, FDATASYNC);
    OL_CHECK(calls[0].inode == inode_at(ol_test_path(directory, "a")));
    end();
}

OL_TEST(a_flush_of_a_range_covers_all_pages_that_hold_some_of_it) {
    begin();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *mapped;
    OL_CHECK_OK(fs->extend(file, 0, (int64_t)(4 * page), OL_GROW_WRITTEN, &error), &error);
    OL_CHECK_OK(fs->map(file, 4 * page, &mapped, &error), &error);
    uint8_t *data = mapped;
    const struct { size_t from, to; } ranges[] = {
        {0, 1}, {1, page}, {page - 1, page + 1}, {page, 2 * page}, {page + 7, 4 * page}, {0, 4 * page},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        memset(data + ranges[i].from, 'x', ranges[i].to - ranges[i].from);
        call_count = 0;
        OL_CHECK_OK(fs->flush_range(file, data, (int64_t)ranges[i].from, (int64_t)ranges[i].to, &error), &error);
        OL_CHECK_INT(call_count, 1);
        OL_CHECK_INT(calls[0].kind, MSYNC);
        OL_CHECK_INT(calls[0].flags, MS_SYNC);
        OL_CHECK((size_t)calls[0].data % page == 0);
        OL_CHECK(calls[0].data <= data + ranges[i].from);
        OL_CHECK(calls[0].data + calls[0].size >= data + ranges[i].to);
        for (size_t at = ranges[i].from; at < ranges[i].to; at++) OL_CHECK_INT(data[at], 'x');
        /* Begun only, it makes nothing durable and changes nothing. */
        memset(data + ranges[i].from, 'y', ranges[i].to - ranges[i].from);
        OL_CHECK_OK(fs->begin_flush_range(file, data, (int64_t)ranges[i].from, (int64_t)ranges[i].to, &error), &error);
        OL_CHECK_INT(call_count, 1);
        for (size_t at = ranges[i].from; at < ranges[i].to; at++) OL_CHECK_INT(data[at], 'y');
    }
    fs->unmap(fs, mapped, 4 * page);
    end();
}

OL_TEST(a_directory_flush_calls_fsync_on_it) {
    begin();
    OL_CHECK_OK(fs->flush_directory(fs, directory, &error), &error);
    OL_CHECK_INT(call_count, 1);
    OL_CHECK_INT(calls[0].kind, FSYNC);
    OL_CHECK(calls[0].inode == inode_at(directory));
    end();
}

OL_TEST(a_file_is_flushed_before_it_takes_the_place_of_another_and_its_name_after) {
    begin();
    snprintf(watched, sizeof watched, "%s/b", directory);
    ol_test_write_file(watched, "old", 3);
    ino_t old = inode_at(watched);
    OL_CHECK_OK(ol_fs_replace_file(fs, watched, "new", 3, &error), &error);
    OL_CHECK_INT(call_count, 2);
    OL_CHECK_INT(calls[0].kind, FDATASYNC);
    OL_CHECK(calls[0].inode == inode_at(watched) && calls[0].named == old);
    OL_CHECK_INT(calls[1].kind, FSYNC);
    OL_CHECK(calls[1].inode == inode_at(directory) && calls[1].named == inode_at(watched));
    end();
}

static int open_descriptors(void) {
    int count = 0;
    for (int descriptor = 0; descriptor < 256; descriptor++) count += fcntl(descriptor, F_GETFD) >= 0;
    return count;
}

typedef int (*flush_function)(void);

static int flush_file(void) { return fs->flush(file, &error); }
static int flush_names(void) { return fs->flush_directory(fs, directory, &error); }

static int flush_page(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *mapped;
    ol_error other;
    OL_CHECK_OK(fs->extend(file, 0, (int64_t)page, OL_GROW_WRITTEN, &other), &other);
    OL_CHECK_OK(fs->map(file, page, &mapped, &other), &other);
    int status = fs->flush_range(file, mapped, 0, (int64_t)page, &error);
    fs->unmap(fs, mapped, page);
    return status;
}

OL_TEST(an_interrupted_call_is_made_again_and_a_failed_one_is_not) {
    begin();
    const flush_function flushes[] = {flush_file, flush_names, flush_page};
    for (size_t i = 0; i < sizeof flushes / sizeof *flushes; i++) {
        fail_next(EINTR, EINTR);
        OL_CHECK_OK(flushes[i](), &error);
        OL_CHECK_INT(call_count, 3);
        fail_next(EINTR, EIO);
        OL_CHECK_INT(flushes[i](), OL_IO);
        OL_CHECK_INT(error.sys_errno, EIO);
        OL_CHECK(error.path[0] != '\0');
        OL_CHECK_INT(call_count, 2);
        const int failures_of_a_disk[] = {EIO, ENOSPC, EDQUOT};
        for (size_t k = 0; k < 3; k++) {
            int before = open_descriptors();
            fail_next(failures_of_a_disk[k], 0);
            OL_CHECK(flushes[i]() != OL_OK);
            OL_CHECK_INT(error.sys_errno, failures_of_a_disk[k]);
            OL_CHECK_INT(call_count, 1);
            OL_CHECK_INT(open_descriptors(), before);
        }
    }
    end();
}

OL_TEST_MAIN()
