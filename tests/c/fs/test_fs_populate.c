/* Which file systems keep the pages of a file, and what faulting them in says: what the disk does not give is an error then, and not
 * the end of the process.
 *
 * The functions below take the place of those of libc. */
#include <errno.h>
#include <linux/ioctl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/fs.h"
#include "ol_test.h"
#include "ol_test_directory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static int failures[4];         /* errno of the next calls; 0 ends the list */
static int failed;
static int64_t unreadable = -1; /* position of a byte that pread cannot give */
static bool is_full;

int madvise(void *data, size_t size, int advice) {
    if (advice != MADV_POPULATE_WRITE || failures[failed] == 0) return (int)syscall(SYS_madvise, data, size, advice);
    errno = failures[failed++];
    return -1;
}

ssize_t pread(int descriptor, void *data, size_t size, off_t position) {
    if (unreadable < position || unreadable >= position + (off_t)size) {
        return syscall(SYS_pread64, descriptor, data, size, position);
    }
    errno = EIO;
    return -1;
}

int fstatvfs(int descriptor OL_UNUSED, struct statvfs *found) {
    *found = (struct statvfs){.f_bavail = is_full ? 0 : 1 << 20, .f_frsize = 4096};
    return 0;
}

static uint32_t system_type;    /* of every file */
static int64_t xfs_flags = -1;  /* -1: the file system knows no such call */

int fstatfs(int descriptor OL_UNUSED, struct statfs *found) {
    *found = (struct statfs){.f_type = system_type};
    return 0;
}

/* musl's declaration differs from that of glibc. */
#ifdef __GLIBC__
typedef unsigned long request_code;
#else
typedef int request_code;
#endif

int ioctl(int descriptor OL_UNUSED, request_code request, ...) {
    va_list arguments;
    va_start(arguments, request);
    uint32_t *geometry = va_arg(arguments, uint32_t *);
    va_end(arguments);
    OL_CHECK_INT(_IOC_SIZE(request), 112);
    if (xfs_flags < 0) {
        errno = ENOTTY;
        return -1;
    }
    geometry[23] = (uint32_t)xfs_flags;
    return 0;
}

static char directory[256];
static ol_error error;
static ol_fs *fs;
static ol_file *file;
static void *data;
enum { PAGE = 4096, PAGES = 8, SIZE = PAGE * PAGES };

static void begin(int first, int second) {
    fs = ol_fs_posix();
    ol_test_directory_make(directory);
    OL_CHECK_OK(fs->open(fs, ol_test_path(directory, "a"), OL_OPEN_CREATE_NEW, &file, &error), &error);
    OL_CHECK_OK(fs->extend(file, 0, SIZE, OL_GROW_WRITTEN, &error), &error);
    OL_CHECK_OK(fs->map(file, SIZE, &data, &error), &error);
    failed = 0;
    failures[0] = first;
    failures[1] = second;
    unreadable = -1;
    is_full = false;
}

static void end(void) {
    fs->unmap(fs, data, SIZE);
    fs->close(file);
    ol_test_directory_remove(directory);
}

static void check_failure(int status, int sys_errno, int64_t position) {
    OL_CHECK_INT(fs->populate(file, data, PAGE + 5, SIZE, &error), status);
    OL_CHECK_INT(error.status, status);
    OL_CHECK_INT(error.sys_errno, sys_errno);
    OL_CHECK_INT(error.position, position);
    OL_CHECK(strcmp(error.path, ol_test_path(directory, "a")) == 0);
}

OL_TEST(an_interrupted_call_is_made_again) {
    begin(EINTR, EAGAIN);
    OL_CHECK_OK(fs->populate(file, data, PAGE + 5, SIZE, &error), &error);
    OL_CHECK_INT(failed, 2);
    end();
}

OL_TEST(a_page_that_cannot_be_stored_to_is_a_full_disk_or_a_bad_one) {
    begin(EFAULT, EFAULT);
    is_full = true;
    check_failure(OL_DISK_FULL, ENOSPC, PAGE);
    is_full = false;
    check_failure(OL_IO, EIO, PAGE);
    end();
    begin(ENOMEM, EIO);
    OL_CHECK_INT(fs->populate(file, data, 0, SIZE, &error), OL_NO_MEMORY);
    OL_CHECK_INT(fs->populate(file, data, 0, SIZE, &error), OL_IO);
    end();
}

/* The kernel itself refuses here. */
OL_TEST(a_file_that_was_cut_short_is_an_error_with_its_size) {
    begin(0, 0);
    OL_CHECK_OK(fs->truncate(file, 2 * PAGE, &error), &error);
    check_failure(OL_IO, 0, 2 * PAGE);
    OL_CHECK_OK(fs->populate(file, data, 0, 2 * PAGE, &error), &error);
    end();
}

OL_TEST(a_page_that_cannot_be_read_is_one_that_cannot_be_stored_to) {
    begin(EFAULT, 0);
    unreadable = PAGE;
    check_failure(OL_IO, EIO, PAGE);
    end();
}

/* Before Linux 5.14 each page is touched, and asked for before. */
OL_TEST(an_old_kernel_touches_no_page_that_is_not_there) {
    begin(EINVAL, 0);
    memset(data, 'x', SIZE);
    OL_CHECK_OK(fs->populate(file, data, PAGE + 5, SIZE, &error), &error);
    OL_CHECK_INT(failed, 1);
    for (int i = 0; i < SIZE; i++) OL_CHECK(((uint8_t *)data)[i] == 'x');
    end();
    begin(EINVAL, EINVAL);
    OL_CHECK_OK(fs->truncate(file, 2 * PAGE, &error), &error);
    check_failure(OL_IO, 0, 2 * PAGE);
    unreadable = PAGE + 100;
    OL_CHECK_OK(fs->populate(file, data, PAGE, 2 * PAGE, &error), &error);
    end();
    begin(EINVAL, 0);
    unreadable = 3 * PAGE;
    check_failure(OL_IO, EIO, 3 * PAGE);
    end();
}

static bool keeps(uint32_t type) {
    bool found = false;
    system_type = type;
    OL_CHECK_OK(fs->keeps_pages(file, &found, &error), &error);
    return found;
}

OL_TEST(only_file_systems_that_are_known_to_keep_pages_do) {
    static const uint32_t others[] = {
        0x9123683e /* btrfs */, 0x2fc12fc1 /* zfs */, 0xca451a4e /* bcachefs */, 0xf2f52010 /* f2fs */, 0x794c7630 /* overlay */,
        0x6969 /* nfs */, 0xff534d42 /* cifs */, 0xfe534d42 /* smb2 */, 0x65735546 /* fuse */, 0x01021997 /* 9p */,
        0x00c36400 /* ceph */, 0x958458f6 /* hugetlbfs */, 0, 1,
    };
    begin(0, 0);
    OL_CHECK(keeps(0xef53));            /* ext2, ext3, ext4 */
    OL_CHECK(keeps(0x01021994));        /* tmpfs */
    OL_CHECK(keeps(0x858458f6));        /* ramfs */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) OL_CHECK(!keeps(others[i]));
    /* XFS does if its files cannot share blocks. */
    OL_CHECK(!keeps(0x58465342));
    xfs_flags = 1 << 19;
    OL_CHECK(keeps(0x58465342));
    xfs_flags = 1 << 20;
    OL_CHECK(!keeps(0x58465342));
    xfs_flags = -1;
    end();
}

OL_TEST_MAIN()
