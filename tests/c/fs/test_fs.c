#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "fs/fs.h"
#include "ol_test.h"
#include "ol_test_directory.h"

static char directory[256];
static ol_error error;
static ol_fs *fs;

static void begin(void) {
    fs = ol_fs_posix();
    ol_test_directory_make(directory);
}

static void end(void) { ol_test_directory_remove(directory); }

static ol_file *open_file(const char *name, ol_open_mode mode) {
    ol_file *file;
    OL_CHECK_OK(fs->open(fs, ol_test_path(directory, name), mode, &file, &error), &error);
    return file;
}

static int64_t size_of(ol_file *file) {
    int64_t size;
    OL_CHECK_OK(fs->size(file, &size, &error), &error);
    return size;
}

OL_TEST(open_modes_say_what_must_be_there) {
    begin();
    ol_file *file;
    const char *path = ol_test_path(directory, "a");
    OL_CHECK_INT(fs->open(fs, path, OL_OPEN_READ, &file, &error), OL_NO_SUCH_FILE);
    OL_CHECK_INT(fs->open(fs, path, OL_OPEN_WRITE, &file, &error), OL_NO_SUCH_FILE);
    OL_CHECK(strcmp(error.path, path) == 0);
    OL_CHECK_INT(error.sys_errno, ENOENT);
    fs->close(open_file("a", OL_OPEN_CREATE_NEW));
    OL_CHECK_INT(fs->open(fs, path, OL_OPEN_CREATE_NEW, &file, &error), OL_INVALID);
    file = open_file("a", OL_OPEN_CREATE);
    OL_CHECK_OK(fs->write(file, 0, "kept", 4, &error), &error);
    fs->close(file);
    file = open_file("a", OL_OPEN_CREATE);
    OL_CHECK_INT(size_of(file), 4);
    fs->close(file);
    file = open_file("a", OL_OPEN_READ);
    OL_CHECK_INT(fs->write(file, 0, "x", 1, &error), OL_IO);
    OL_CHECK_INT(error.sys_errno, EBADF);
    fs->close(file);
    bool exists;
    OL_CHECK_OK(fs->exists(fs, path, &exists, &error), &error);
    OL_CHECK(exists);
    OL_CHECK_OK(fs->exists(fs, ol_test_path(directory, "a/b"), &exists, &error), &error);
    OL_CHECK(!exists);
    end();
}

OL_TEST(descriptors_do_not_survive_exec) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    int open_descriptors = 0;
    for (int descriptor = 3; descriptor < 64; descriptor++) {
        int flags = fcntl(descriptor, F_GETFD);
        char link[64], target[OL_PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t size = readlink(link, target, sizeof target - 1);
        if (flags < 0 || size < 0) continue;
        target[size] = '\0';
        if (strncmp(target, directory, strlen(directory)) != 0) continue;
        open_descriptors++;
        OL_CHECK(flags & FD_CLOEXEC);
    }
    OL_CHECK_INT(open_descriptors, 1);
    fs->close(file);
    end();
}

OL_TEST(read_stops_at_the_end) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    OL_CHECK_OK(fs->write(file, 10, "0123456789", 10, &error), &error);
    char data[64];
    size_t got;
    OL_CHECK_OK(fs->read(file, 0, data, sizeof data, &got, &error), &error);
    OL_CHECK_INT(got, 20);
    OL_CHECK(memcmp(data, "\0\0\0\0\0\0\0\0\0\0" "0123456789", 20) == 0);
    OL_CHECK_OK(fs->read(file, 15, data, 3, &got, &error), &error);
    OL_CHECK_INT(got, 3);
    OL_CHECK_OK(fs->read(file, 20, data, 3, &got, &error), &error);
    OL_CHECK_INT(got, 0);
    OL_CHECK_OK(fs->read(file, 2000, data, 3, &got, &error), &error);
    OL_CHECK_INT(got, 0);
    fs->close(file);
    end();
}

OL_TEST(space_is_kept_after_the_end_of_a_file) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    struct stat status;
    OL_CHECK_OK(fs->write(file, 0, "abcdefgh", 8, &error), &error);
    OL_CHECK_OK(fs->keep_space(file, 1 << 20, &error), &error);
    OL_CHECK_INT(size_of(file), 8);
    OL_CHECK(stat(ol_test_path(directory, "a"), &status) == 0);
    OL_CHECK(status.st_blocks * 512 >= 1 << 20);
    OL_CHECK_OK(fs->truncate(file, 8, &error), &error);
    OL_CHECK(stat(ol_test_path(directory, "a"), &status) == 0);
    OL_CHECK(status.st_blocks * 512 < 1 << 20);
    char data[9] = "";
    size_t got;
    OL_CHECK_OK(fs->read(file, 0, data, 9, &got, &error), &error);
    OL_CHECK(got == 8 && memcmp(data, "abcdefgh", 8) == 0);
    fs->close(file);
    end();
}

static void check_extend(ol_growth growth) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    OL_CHECK_OK(fs->write(file, 0, "abcdefgh", 8, &error), &error);
    int64_t to = (3 << 20) + 17;
    OL_CHECK_OK(fs->extend(file, 4, to, growth, &error), &error);
    OL_CHECK_INT(size_of(file), to);
    struct stat status;
    OL_CHECK(stat(ol_test_path(directory, "a"), &status) == 0);
    OL_CHECK(status.st_blocks * 512 >= to);
    uint8_t *data = malloc((size_t)to);
    size_t got;
    OL_CHECK_OK(fs->read(file, 0, data, (size_t)to, &got, &error), &error);
    OL_CHECK(memcmp(data, "abcd", 4) == 0);
    for (int64_t i = 4; i < to; i++) OL_CHECK(data[i] == 0);
    free(data);
    /* Within the file: zeros, and the size stays. */
    OL_CHECK_OK(fs->extend(file, 0, 4, growth, &error), &error);
    OL_CHECK_INT(size_of(file), to);
    fs->close(file);
    end();
}

OL_TEST(extend_writes_zeros_with_blocks) { check_extend(OL_GROW_WRITTEN); }
OL_TEST(extend_allocates_zeros_with_blocks) { check_extend(OL_GROW_ALLOCATED); }
OL_TEST(extend_allocates_zeros_that_cost_little) { check_extend(OL_GROW_IF_CHEAP); }

/* A limit on the size of files stands for a full disk: the write fails after a part of it. */
OL_TEST(failed_growth_leaves_the_size) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    OL_CHECK_OK(fs->write(file, 0, "abcd", 4, &error), &error);
    struct rlimit before, limit;
    OL_CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit = before;
    limit.rlim_cur = (2 << 20) + 100;
    signal(SIGXFSZ, SIG_IGN);
    OL_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (ol_growth growth = OL_GROW_ALLOCATED; growth <= OL_GROW_IF_CHEAP; growth++) {
        OL_CHECK_INT(fs->extend(file, 4, 5 << 20, growth, &error), OL_IO);
        OL_CHECK_INT(error.sys_errno, EFBIG);
        OL_CHECK_INT(size_of(file), 4);
    }
    uint8_t *data = calloc(1, 3 << 20);
    OL_CHECK_INT(fs->write(file, 4, data, 3 << 20, &error), OL_IO);
    OL_CHECK_INT(size_of(file), 4);
    free(data);
    OL_CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    signal(SIGXFSZ, SIG_DFL);
    OL_CHECK_OK(fs->extend(file, 4, 5 << 20, OL_GROW_WRITTEN, &error), &error);
    fs->close(file);
    end();
}

OL_TEST(mapping_is_shared_with_reads_and_not_with_children) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    OL_CHECK_OK(fs->extend(file, 0, 1 << 16, OL_GROW_WRITTEN, &error), &error);
    void *data;
    OL_CHECK_INT(fs->map(file, 0, &data, &error), OL_INVALID);
    OL_CHECK_OK(fs->map(file, 1 << 16, &data, &error), &error);
    OL_CHECK_OK(fs->populate(file, data, 5000, 60000, &error), &error);
    uint8_t *bytes = data;
    for (int i = 0; i < 1 << 16; i++) OL_CHECK(bytes[i] == 0);
    memcpy(bytes + 4090, "across a page", 13);
    char text[13];
    size_t got;
    OL_CHECK_OK(fs->read(file, 4090, text, 13, &got, &error), &error);
    OL_CHECK(memcmp(text, "across a page", 13) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        unsigned char resident;
        _exit(mincore(data, 4096, &resident) == -1 && errno == ENOMEM ? 0 : 1);
    }
    int status;
    OL_CHECK(waitpid(child, &status, 0) == child);
    OL_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->flush_range(file, data, 4090, 4103, &error), &error);
    OL_CHECK_OK(fs->flush_range(file, data, 0, 1 << 16, &error), &error);
    fs->unmap(fs, data, 1 << 16);
    fs->close(file);
    end();
}

OL_TEST(lock_excludes_this_process_and_others) {
    begin();
    const char *path = ol_test_path(directory, ".lock");
    ol_file *lock, *second;
    OL_CHECK_OK(fs->lock(fs, path, &lock, &error), &error);
    OL_CHECK_INT(fs->lock(fs, path, &second, &error), OL_LOCKED);
    OL_CHECK(strcmp(error.path, path) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(fs->lock(fs, path, &second, &error) == OL_LOCKED ? 0 : 1);
    int status;
    OL_CHECK(waitpid(child, &status, 0) == child);
    OL_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* Java's lock: a record lock of the process. */
    child = fork();
    if (child == 0) {
        int descriptor = open(path, O_RDWR);
        struct flock record = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = INT64_MAX};
        _exit(fcntl(descriptor, F_SETLK, &record) == -1 && (errno == EAGAIN || errno == EACCES) ? 0 : 1);
    }
    OL_CHECK(waitpid(child, &status, 0) == child);
    OL_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fs->close(lock);
    OL_CHECK_OK(fs->lock(fs, path, &lock, &error), &error);
    fs->close(lock);
    end();
}

OL_TEST(forked_child_holds_no_lock) {
    begin();
    const char *path = ol_test_path(directory, ".lock");
    ol_file *lock;
    OL_CHECK_OK(fs->lock(fs, path, &lock, &error), &error);
    int wait_for[2];
    OL_CHECK(pipe(wait_for) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(wait_for[1]);
        fs->close(lock);
        _exit(read(wait_for[0], &byte, 1) == 0 ? 0 : 1);
    }
    /* The child is alive while the parent gives up its lock and takes it again. */
    ol_file *second;
    OL_CHECK_INT(fs->lock(fs, path, &second, &error), OL_LOCKED);
    fs->close(lock);
    OL_CHECK_OK(fs->lock(fs, path, &lock, &error), &error);
    close(wait_for[1]);
    int status;
    OL_CHECK(waitpid(child, &status, 0) == child);
    OL_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OL_CHECK_INT(fs->lock(fs, path, &second, &error), OL_LOCKED);
    fs->close(lock);
    close(wait_for[0]);
    end();
}

static int remove_and_count(void *context, const char *name) {
    ol_error ignored;
    OL_CHECK_OK(fs->remove(fs, ol_test_path(ol_test_path(directory, "d"), name), &ignored), &ignored);
    return ++*(int *)context == 150 ? OL_END : OL_OK;
}

OL_TEST(directories_are_made_listed_and_removed) {
    begin();
    const char *path = ol_test_path(directory, "d");
    char inner[OL_PATH_MAX];
    strcpy(inner, path);
    OL_CHECK_OK(fs->make_directory(fs, inner, &error), &error);
    OL_CHECK_OK(fs->make_directory(fs, inner, &error), &error);
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%d", i);
        ol_test_write_file(ol_test_path(inner, name), "x", 1);
    }
    OL_CHECK_OK(fs->flush_directory(fs, inner, &error), &error);
    OL_CHECK_INT(fs->remove_directory(fs, inner, &error), OL_IO);
    int count = 0;
    OL_CHECK_INT(fs->list(fs, inner, remove_and_count, &count, &error), OL_END);
    OL_CHECK_INT(count, 150);
    count = 0;
    OL_CHECK_OK(fs->list(fs, inner, remove_and_count, &count, &error), &error);
    OL_CHECK_INT(count, 50);
    OL_CHECK_OK(fs->remove_directory(fs, inner, &error), &error);
    OL_CHECK_INT(fs->remove(fs, inner, &error), OL_NO_SUCH_FILE);
    OL_CHECK_INT(fs->list(fs, inner, remove_and_count, &count, &error), OL_NO_SUCH_FILE);
    OL_CHECK_INT(fs->flush_directory(fs, inner, &error), OL_NO_SUCH_FILE);
    ol_test_write_file(inner, "x", 1);
    OL_CHECK_INT(fs->make_directory(fs, inner, &error), OL_IO);
    end();
}

OL_TEST(paths_join_within_bounds) {
    char path[16];
    OL_CHECK_OK(ol_path_join(path, sizeof path, "/a/b//", "c", &error), &error);
    OL_CHECK(strcmp(path, "/a/b/c") == 0);
    OL_CHECK_OK(ol_path_join(path, sizeof path, "/", "c", &error), &error);
    OL_CHECK(strcmp(path, "/c") == 0);
    OL_CHECK_OK(ol_path_join(path, sizeof path, "1234567", "1234567", &error), &error);
    OL_CHECK_INT(ol_path_join(path, sizeof path, "12345678", "1234567", &error), OL_INVALID);
    OL_CHECK_INT(ol_path_join(path, sizeof path, "", "c", &error), OL_INVALID);
    OL_CHECK_INT(ol_path_join(path, sizeof path, "a", "", &error), OL_INVALID);
}

OL_TEST(the_time_of_a_file_is_what_it_was_said_to_be) {
    begin();
    int64_t modified_ms = 0;
    const char *path = ol_test_path(directory, "a");
    OL_CHECK_INT(fs->modified(fs, path, &modified_ms, &error), OL_NO_SUCH_FILE);
    OL_CHECK_INT(fs->set_modified(fs, path, 5, &error), OL_NO_SUCH_FILE);
    ol_test_write_file(path, "0123456789", 10);
    static const int64_t times[] = {0, 1, 999, 1000, 1700000000123, -1, -1000, -1001};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        OL_CHECK_OK(fs->set_modified(fs, path, times[i], &error), &error);
        OL_CHECK_OK(fs->modified(fs, path, &modified_ms, &error), &error);
        OL_CHECK_INT(modified_ms, times[i]);
    }
    end();
}

OL_TEST(read_file_is_bounded) {
    begin();
    uint8_t *data;
    size_t size;
    const char *path = ol_test_path(directory, "a");
    OL_CHECK_INT(ol_fs_read_file(fs, path, 10, &data, &size, &error), OL_NO_SUCH_FILE);
    ol_test_write_file(path, "0123456789", 10);
    OL_CHECK_OK(ol_fs_read_file(fs, path, 10, &data, &size, &error), &error);
    OL_CHECK_INT(size, 10);
    OL_CHECK(memcmp(data, "0123456789", 10) == 0);
    free(data);
    OL_CHECK_INT(ol_fs_read_file(fs, path, 9, &data, &size, &error), OL_LIMIT);
    ol_test_write_file(path, "", 0);
    OL_CHECK_OK(ol_fs_read_file(fs, path, 0, &data, &size, &error), &error);
    OL_CHECK_INT(size, 0);
    free(data);
    OL_CHECK_INT(ol_fs_read_file(fs, directory, 1 << 20, &data, &size, &error), OL_IO);
    end();
}

OL_TEST(replace_file_leaves_no_temporary) {
    begin();
    uint8_t *data;
    size_t size;
    const char *path = ol_test_path(directory, "a");
    ol_test_write_file(ol_test_path(directory, "a.tmp"), "a long leftover of an earlier crash", 35);
    OL_CHECK_OK(ol_fs_replace_file(fs, path, "one", 3, &error), &error);
    OL_CHECK_OK(ol_fs_replace_file(fs, path, "", 0, &error), &error);
    OL_CHECK_OK(ol_fs_replace_file(fs, path, "two", 3, &error), &error);
    OL_CHECK_OK(ol_fs_read_file(fs, path, 10, &data, &size, &error), &error);
    OL_CHECK(size == 3 && memcmp(data, "two", 3) == 0);
    free(data);
    OL_CHECK(access(ol_test_path(directory, "a.tmp"), F_OK) != 0);
    OL_CHECK_INT(ol_fs_replace_file(fs, ol_test_path(directory, "missing/a"), "two", 3, &error), OL_NO_SUCH_FILE);
    end();
}

OL_TEST_MAIN()
