#include <dirent.h>
#include <errno.h>
#include <pthread.h>

#include "fs/fs.h"
#include "testing/fault_fs.h"
#include "ol_test.h"
#include "ol_test_directory.h"

enum { PAGE = OL_FAULT_PAGE_SIZE };

static char root[256];
static char target[256];
static ol_error error;
static ol_fs *fs;

static void begin(void) {
    ol_test_directory_make(root);
    OL_CHECK_OK(ol_fault_fs_create(root, &fs, &error), &error);
}

static void end(void) {
    ol_fault_fs_free(fs);
    ol_test_directory_remove(root);
}

static ol_file *open_file(const char *name, ol_open_mode mode) {
    ol_file *file;
    OL_CHECK_OK(fs->open(fs, ol_test_path(root, name), mode, &file, &error), &error);
    return file;
}

static void write_byte(ol_file *file, size_t page, char byte) {
    char bytes[PAGE];
    memset(bytes, byte, sizeof bytes);
    OL_CHECK_OK(fs->write(file, (int64_t)(page * PAGE), bytes, sizeof bytes, &error), &error);
}

/* One state after a power loss, to be looked at with file_in and dropped. */
static void crash(uint64_t seed) {
    ol_test_directory_make(target);
    OL_CHECK_OK(ol_fault_fs_materialize(fs, target, seed, &error), &error);
}

static void crash_keeping_all(void) {
    ol_test_directory_make(target);
    OL_CHECK_OK(ol_fault_fs_materialize_all(fs, target, &error), &error);
}

static void drop(void) { ol_test_directory_remove(target); }

/* malloc'ed content of a file of the state, NULL when it is not there. */
static uint8_t *file_in_state(const char *name, size_t *size) {
    uint8_t *bytes = NULL;
    int status = ol_fs_read_file(ol_fs_posix(), ol_test_path(target, name), 1 << 24, &bytes, size, &error);
    OL_CHECK(status == OL_OK || status == OL_NO_SUCH_FILE);
    return bytes;
}

/* The contents of a file's pages, a letter each, '0' for zeros; "-" when it is missing. */
static const char *pages_in_state(const char *name) {
    static char text[64];
    size_t size;
    uint8_t *bytes = file_in_state(name, &size);
    if (bytes == NULL) return "-";
    size_t pages = (size + PAGE - 1) / PAGE;
    OL_CHECK(pages < sizeof text);
    for (size_t page = 0; page < pages; page++) text[page] = bytes[page * PAGE] == 0 ? '0' : (char)bytes[page * PAGE];
    text[pages] = '\0';
    free(bytes);
    return text;
}

/* All states of 300 seeds, each once, joined by commas in the order of the alphabet. */
static const char *all_states(const char *name) {
    static char states[64][64];
    static char joined[4096];
    size_t count = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        crash(seed);
        const char *state = pages_in_state(name);
        size_t at = 0;
        while (at < count && strcmp(states[at], state) != 0) at++;
        OL_CHECK(at < 63);
        if (at == count) strcpy(states[count++], state);
        drop();
    }
    qsort(states, count, sizeof states[0], (int (*)(const void *, const void *))strcmp);
    joined[0] = '\0';
    for (size_t i = 0; i < count; i++) sprintf(joined + strlen(joined), "%s%s", i == 0 ? "" : ",", states[i]);
    return joined;
}

static void check_states(const char *name, const char *expected) {
    const char *found = all_states(name);
    if (strcmp(found, expected) != 0) fprintf(stderr, "%s: found %s, expected %s\n", name, found, expected);
    OL_CHECK(strcmp(found, expected) == 0);
}

OL_TEST(unflushed_pages_are_kept_or_lost_each) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    for (size_t page = 0; page < 3; page++) write_byte(file, page, 'a');
    OL_CHECK_OK(fs->flush(file, &error), &error);
    check_states("a", "-,aaa");
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    check_states("a", "aaa");
    write_byte(file, 0, 'b');
    write_byte(file, 2, 'b');
    check_states("a", "aaa,aab,baa,bab");
    OL_CHECK_OK(fs->flush(file, &error), &error);
    check_states("a", "bab");
    crash_keeping_all();
    OL_CHECK(strcmp(pages_in_state("a"), "bab") == 0);
    drop();
    fs->close(file);
    end();
}

OL_TEST(growth_is_kept_or_lost) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    write_byte(file, 0, 'a');
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    write_byte(file, 1, 'b');
    check_states("a", "a,a0,ab");
    OL_CHECK_OK(fs->extend(file, 2 * PAGE, 3 * PAGE, OL_GROW_WRITTEN, &error), &error);
    check_states("a", "a,a00,ab0");
    fs->close(file);
    end();
}

OL_TEST(a_flush_of_a_range_leaves_the_other_pages_to_luck) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    OL_CHECK_OK(fs->extend(file, 0, 3 * PAGE, OL_GROW_WRITTEN, &error), &error);
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    void *data;
    OL_CHECK_OK(fs->map(file, 5 * PAGE, &data, &error), &error);
    memset(data, 'm', 3 * PAGE);
    OL_CHECK_OK(fs->stored(file, 0, 3 * PAGE, &error), &error);
    OL_CHECK_OK(fs->flush_range(file, data, PAGE + 7, PAGE + 9, &error), &error);
    check_states("a", "0m0,0mm,mm0,mmm");
    /* Only a growth that reaches the range is sure. */
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->extend(file, 3 * PAGE, 5 * PAGE, OL_GROW_WRITTEN, &error), &error);
    check_states("a", "mmm,mmm00");
    memset((uint8_t *)data + 3 * PAGE, 'n', PAGE);
    OL_CHECK_OK(fs->stored(file, 3 * PAGE, PAGE, &error), &error);
    OL_CHECK_OK(fs->flush_range(file, data, 3 * PAGE, 4 * PAGE, &error), &error);
    check_states("a", "mmmn,mmmn0");
    /* A cut that is pending comes with it. */
    OL_CHECK_OK(fs->truncate(file, 2 * PAGE, &error), &error);
    OL_CHECK_OK(fs->flush_range(file, data, 0, PAGE, &error), &error);
    check_states("a", "mm");
    /* It counts as a flush, and fails as one. */
    memset(data, 'x', PAGE);
    OL_CHECK_OK(fs->stored(file, 0, PAGE, &error), &error);
    ol_fault_fs_fail_flush(fs, ol_fault_fs_flushes(fs) + 1, EIO);
    OL_CHECK_INT(fs->flush_range(file, data, 0, PAGE, &error), OL_IO);
    OL_CHECK_OK(fs->flush_range(file, data, 0, PAGE, &error), &error);
    check_states("a", "mm,xm");
    fs->unmap(fs, data, 5 * PAGE);
    fs->close(file);
    end();
}

OL_TEST(cut_bytes_do_not_mix_with_later_ones) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    for (size_t page = 0; page < 3; page++) write_byte(file, page, 'a');
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    OL_CHECK_OK(fs->truncate(file, PAGE, &error), &error);
    check_states("a", "a,aaa");
    write_byte(file, 1, 'b');
    OL_CHECK_OK(fs->extend(file, 2 * PAGE, 3 * PAGE, OL_GROW_WRITTEN, &error), &error);
    /* Never "aba", nor "a0a": the old third page and what was written after the cut are of different times. */
    check_states("a", "a,a00,aaa,ab0");
    OL_CHECK_OK(fs->flush(file, &error), &error);
    check_states("a", "ab0");
    fs->close(file);
    end();
}

OL_TEST(mapped_stores_count_and_are_found) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    OL_CHECK_OK(fs->extend(file, 0, 2 * PAGE, OL_GROW_WRITTEN, &error), &error);
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    void *data;
    OL_CHECK_OK(fs->map(file, 2 * PAGE, &data, &error), &error);
    memset(data, 'm', 2 * PAGE);
    int64_t before = ol_fault_fs_operations(fs);
    OL_CHECK_OK(fs->stored(file, 0, 2 * PAGE, &error), &error);
    OL_CHECK_INT(ol_fault_fs_operations(fs), before + 1);
    check_states("a", "00,0m,m0,mm");
    OL_CHECK_OK(ol_fault_fs_stop(fs, &error), &error);
    /* Stores after the stop are not in the state. */
    memset(data, 'x', 2 * PAGE);
    OL_CHECK_INT(fs->stored(file, 0, 2 * PAGE, &error), OL_CRASHED);
    OL_CHECK_INT(fs->flush(file, &error), OL_CRASHED);
    check_states("a", "00,0m,m0,mm");
    fs->unmap(fs, data, 2 * PAGE);
    fs->close(file);
    end();
}

static int count_name(void *context, const char *name OL_UNUSED) {
    ++*(int *)context;
    return OL_OK;
}

/* Makes read number `kind` of a file "a". */
static int read_once(ol_file *file, int kind) {
    const char *path = ol_test_path(root, "a");
    char byte;
    size_t got;
    int64_t number;
    bool exists;
    int names = 0;
    ol_file *other = NULL;
    switch (kind) {
        case 0: return fs->read(file, 0, &byte, 1, &got, &error);
        case 1: return fs->size(file, &number, &error);
        case 2: return fs->exists(fs, path, &exists, &error);
        case 3: return fs->modified(fs, path, &number, &error);
        case 4: return fs->list(fs, root, count_name, &names, &error);
        default: {
            int status = fs->open(fs, path, OL_OPEN_READ, &other, &error);
            if (status == OL_OK) fs->close(other);
            return status;
        }
    }
}

OL_TEST(each_kind_of_read_counts_and_fails_once) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    write_byte(file, 0, 'a');
    for (int kind = 0; kind < 6; kind++) {
        int64_t reads = ol_fault_fs_reads(fs), operations = ol_fault_fs_operations(fs);
        OL_CHECK_OK(read_once(file, kind), &error);
        OL_CHECK_INT(ol_fault_fs_reads(fs), reads + 1);
        ol_fault_fs_fail_read(fs, reads + 2, EIO);
        OL_CHECK_INT(read_once(file, kind), OL_IO);
        OL_CHECK_INT(error.sys_errno, EIO);
        OL_CHECK(strstr(error.path, root) == error.path);
        OL_CHECK_INT(error.position, kind == 0 ? 0 : -1);
        OL_CHECK_OK(read_once(file, kind), &error);
        OL_CHECK_INT(ol_fault_fs_operations(fs), operations);
    }
    fs->close(file);
    end();
}

OL_TEST(a_spoiled_range_gives_what_comes_before_it) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    uint8_t bytes[3 * PAGE];
    size_t got;
    for (size_t page = 0; page < 3; page++) write_byte(file, page, (char)('a' + page));
    OL_CHECK_OK(ol_fault_fs_spoil(fs, ol_test_path(root, "a"), PAGE + 10, PAGE + 20, &error), &error);
    OL_CHECK_INT(fs->read(file, 5, bytes, sizeof bytes, &got, &error), OL_IO);
    OL_CHECK_INT(got, PAGE + 5);
    OL_CHECK_INT(error.position, PAGE + 10);
    OL_CHECK(bytes[got - 1] == 'b');
    OL_CHECK_INT(fs->read(file, PAGE + 15, bytes, 1, &got, &error), OL_IO);
    OL_CHECK_INT(got, 0);
    OL_CHECK_INT(error.position, PAGE + 15);
    OL_CHECK_OK(fs->read(file, 0, bytes, PAGE + 10, &got, &error), &error);
    OL_CHECK_INT(got, PAGE + 10);
    OL_CHECK_OK(fs->read(file, PAGE + 20, bytes, sizeof bytes, &got, &error), &error);
    OL_CHECK_INT(got, 2 * PAGE - 20);
    OL_CHECK_OK(ol_fault_fs_spoil(fs, ol_test_path(root, "a"), 0, 0, &error), &error);
    OL_CHECK_OK(fs->read(file, PAGE + 15, bytes, 1, &got, &error), &error);
    OL_CHECK_INT(ol_fault_fs_spoil(fs, ol_test_path(root, "b"), 0, 1, &error), OL_NO_SUCH_FILE);
    fs->close(file);
    end();
}

OL_TEST(another_program_cuts_a_file) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    int64_t size;
    for (size_t page = 0; page < 3; page++) write_byte(file, page, 'a');
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    int64_t operations = ol_fault_fs_operations(fs);
    OL_CHECK_OK(ol_fault_fs_shrink(fs, ol_test_path(root, "a"), PAGE, &error), &error);
    OL_CHECK_INT(ol_fault_fs_operations(fs), operations);
    OL_CHECK_OK(fs->size(file, &size, &error), &error);
    OL_CHECK_INT(size, PAGE);
    check_states("a", "a,aaa");
    fs->close(file);
    end();
}

OL_TEST(names_survive_in_order) {
    begin();
    fs->close(open_file("a", OL_OPEN_CREATE));
    fs->close(open_file("b", OL_OPEN_CREATE));
    OL_CHECK_OK(fs->rename(fs, ol_test_path(root, "a"), ol_test_path(root, "c"), &error), &error);
    OL_CHECK_OK(fs->remove(fs, ol_test_path(root, "b"), &error), &error);
    unsigned seen = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        crash(seed);
        size_t size;
        unsigned state = 0;
        const char *names[] = {"a", "b", "c"};
        for (unsigned i = 0; i < 3; i++) {
            uint8_t *bytes = file_in_state(names[i], &size);
            if (bytes != NULL) state |= 1u << i;
            free(bytes);
        }
        drop();
        seen |= 1u << state;
    }
    /* nothing; a; a and b; b and c; c */
    OL_CHECK_INT(seen, 1u << 0 | 1u << 1 | 1u << 3 | 1u << 6 | 1u << 4);
    end();
}

OL_TEST(lost_directories_take_their_files_along) {
    begin();
    char inner[OL_PATH_MAX];
    strcpy(inner, ol_test_path(root, "d"));
    OL_CHECK_OK(fs->make_directory(fs, inner, &error), &error);
    ol_file *file = open_file("d/a", OL_OPEN_CREATE_NEW);
    write_byte(file, 0, 'a');
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, inner, &error), &error);
    check_states("d/a", "-,a");
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    check_states("d/a", "a");
    OL_CHECK_OK(fs->rename(fs, inner, ol_test_path(root, "e"), &error), &error);
    check_states("e/a", "-,a");
    check_states("d/a", "-,a");
    fs->close(file);
    OL_CHECK_OK(fs->remove(fs, ol_test_path(root, "e/a"), &error), &error);
    OL_CHECK_OK(fs->remove_directory(fs, ol_test_path(root, "e"), &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    check_states("e/a", "-");
    end();
}

OL_TEST(failed_flush_leaves_pages_clean_and_not_durable) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    for (size_t page = 0; page < 2; page++) write_byte(file, page, 'a');
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    write_byte(file, 0, 'b');
    write_byte(file, 1, 'b');
    ol_fault_fs_fail_flush(fs, ol_fault_fs_flushes(fs) + 1, EIO);
    OL_CHECK_INT(fs->flush(file, &error), OL_IO);
    OL_CHECK_INT(error.sys_errno, EIO);
    check_states("a", "aa,ab,ba,bb");
    /* The second flush says yes and stores nothing. */
    OL_CHECK_OK(fs->flush(file, &error), &error);
    check_states("a", "aa,ab,ba,bb");
    /* Written again, if with the same bytes, a page is dirty and reaches the disk. */
    write_byte(file, 1, 'b');
    OL_CHECK_OK(fs->flush(file, &error), &error);
    check_states("a", "ab,bb");
    fs->close(file);
    end();
}

OL_TEST(after_a_restart_the_page_cache_is_there_and_not_durable) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    write_byte(file, 0, 'a');
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    write_byte(file, 0, 'b');
    ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + 2, EIO);
    ol_fault_fs_stop_at(fs, ol_fault_fs_operations(fs) + 1);
    OL_CHECK_INT(fs->flush(file, &error), OL_CRASHED);
    fs->close(file);
    ol_fault_fs_restart(fs);
    OL_CHECK(!ol_fault_fs_stopped(fs));
    check_states("a", "a,b");
    file = open_file("a", OL_OPEN_WRITE);
    /* No failure is ordered any more, and what the first process wrote becomes durable. */
    OL_CHECK_OK(fs->flush(file, &error), &error);
    check_states("a", "b");
    fs->close(file);
    end();
}

OL_TEST(chosen_operations_fail_once_and_change_nothing) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + 2, ENOSPC);
    write_byte(file, 0, 'a');
    OL_CHECK_INT(fs->extend(file, PAGE, 2 * PAGE, OL_GROW_WRITTEN, &error), OL_DISK_FULL);
    OL_CHECK(strcmp(error.path, ol_test_path(root, "a")) == 0);
    int64_t size;
    OL_CHECK_OK(fs->size(file, &size, &error), &error);
    OL_CHECK_INT(size, PAGE);
    OL_CHECK_OK(fs->extend(file, PAGE, 2 * PAGE, OL_GROW_WRITTEN, &error), &error);
    ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + 1, EIO);
    OL_CHECK_INT(fs->rename(fs, ol_test_path(root, "a"), ol_test_path(root, "b"), &error), OL_IO);
    OL_CHECK_OK(fs->rename(fs, ol_test_path(root, "a"), ol_test_path(root, "b"), &error), &error);
    fs->close(file);
    end();
}

OL_TEST(a_full_disk_gives_no_block_and_no_name_until_there_is_space) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    write_byte(file, 0, 'a');
    OL_CHECK_OK(fs->keep_space(file, 2 * PAGE + 1, &error), &error);
    OL_CHECK(!ol_fault_fs_is_full(fs));
    ol_fault_fs_fill(fs, ol_fault_fs_operations(fs) + 2);
    OL_CHECK(!ol_fault_fs_is_full(fs));
    OL_CHECK_OK(fs->extend(file, PAGE, 2 * PAGE, true, &error), &error);
    OL_CHECK(ol_fault_fs_is_full(fs));
    for (int i = 0; i < 2; i++) {
        ol_file *none;
        OL_CHECK_INT(fs->write(file, 3 * PAGE, "b", 1, &error), OL_DISK_FULL);
        OL_CHECK_INT(fs->extend(file, PAGE, 3 * PAGE + 1, false, &error), OL_DISK_FULL);
        OL_CHECK_INT(fs->keep_space(file, 3 * PAGE + 1, &error), OL_DISK_FULL);
        OL_CHECK_INT(fs->open(fs, ol_test_path(root, "b"), OL_OPEN_CREATE, &none, &error), OL_DISK_FULL);
        OL_CHECK_INT(fs->make_directory(fs, ol_test_path(root, "b"), &error), OL_DISK_FULL);
    }
    /* The blocks that the file has can be written, and those after its end. */
    OL_CHECK_OK(fs->write(file, PAGE, "b", 1, &error), &error);
    OL_CHECK_OK(fs->write(file, 3 * PAGE - 1, "b", 1, &error), &error);
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->rename(fs, ol_test_path(root, "a"), ol_test_path(root, "c"), &error), &error);
    /* Others no longer see the cut bytes. */
    OL_CHECK_OK(fs->truncate(file, PAGE, &error), &error);
    OL_CHECK_INT(fs->write(file, PAGE, "b", 1, &error), OL_DISK_FULL);
    ol_fault_fs_fill(fs, 0);
    OL_CHECK_OK(fs->write(file, PAGE, "b", 1, &error), &error);
    fs->close(file);
    end();
}

OL_TEST(write_back_makes_states_in_between) {
    begin();
    ol_file *file = open_file("a", OL_OPEN_CREATE);
    OL_CHECK_OK(fs->extend(file, 0, PAGE, OL_GROW_WRITTEN, &error), &error);
    OL_CHECK_OK(fs->flush(file, &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    write_byte(file, 0, 'a');
    for (uint64_t seed = 0; seed < 8; seed++) OL_CHECK_OK(ol_fault_fs_write_back(fs, seed, &error), &error);
    write_byte(file, 0, 'b');
    check_states("a", "a,b");
    fs->close(file);
    end();
}

OL_TEST(what_was_there_before_is_durable) {
    ol_test_directory_make(root);
    ol_test_write_file(ol_test_path(root, "old"), "old content", 11);
    OL_CHECK_OK(ol_fault_fs_create(root, &fs, &error), &error);
    OL_CHECK_INT(ol_fault_fs_operations(fs), 0);
    check_states("old", "o");
    ol_file *file;
    OL_CHECK_INT(fs->open(fs, "/tmp/elsewhere", OL_OPEN_CREATE, &file, &error), OL_INVALID);
    OL_CHECK_INT(fs->open(fs, ol_test_path(root, "no/where"), OL_OPEN_CREATE, &file, &error), OL_NO_SUCH_FILE);
    OL_CHECK_INT(fs->open(fs, ol_test_path(root, "missing"), OL_OPEN_READ, &file, &error), OL_NO_SUCH_FILE);
    OL_CHECK_INT(fs->remove(fs, ol_test_path(root, "missing"), &error), OL_NO_SUCH_FILE);
    OL_CHECK_INT(ol_fault_fs_operations(fs), 0);
    ol_fault_fs_stop_at(fs, 1);
    OL_CHECK_INT(fs->open(fs, ol_test_path(root, "new"), OL_OPEN_CREATE, &file, &error), OL_CRASHED);
    OL_CHECK(ol_fault_fs_stopped(fs));
    OL_CHECK_INT(fs->open(fs, ol_test_path(root, "old"), OL_OPEN_READ, &file, &error), OL_CRASHED);
    bool exists;
    OL_CHECK_INT(fs->exists(fs, ol_test_path(root, "old"), &exists, &error), OL_CRASHED);
    OL_CHECK_INT(fs->remove(fs, ol_test_path(root, "old"), &error), OL_CRASHED);
    check_states("old", "o");
    end();
}

/* The content after a stop at any operation is the old one or the new one, whole; and the new one once the call has returned. */
static void check_replace(bool existed, int64_t stop_at, uint64_t seeds, bool *finished) {
    static uint8_t old_bytes[3 * PAGE + 7], new_bytes[2 * PAGE + 99];
    memset(old_bytes, 'o', sizeof old_bytes);
    memset(new_bytes, 'n', sizeof new_bytes);
    ol_test_directory_make(root);
    if (existed) ol_test_write_file(ol_test_path(root, "file"), old_bytes, sizeof old_bytes);
    ol_test_write_file(ol_test_path(root, "file.tmp"), old_bytes, sizeof old_bytes);
    OL_CHECK_OK(ol_fault_fs_create(root, &fs, &error), &error);
    ol_fault_fs_stop_at(fs, stop_at);
    int status = ol_fs_replace_file(fs, ol_test_path(root, "file"), new_bytes, sizeof new_bytes, &error);
    OL_CHECK(status == OL_OK || status == OL_CRASHED);
    *finished = status == OL_OK;
    for (uint64_t seed = 0; seed <= seeds; seed++) {
        if (seed == seeds) crash_keeping_all();
        else crash(seed);
        size_t size;
        uint8_t *bytes = file_in_state("file", &size);
        bool is_new = bytes != NULL && size == sizeof new_bytes && memcmp(bytes, new_bytes, size) == 0;
        bool is_old = existed ? bytes != NULL && size == sizeof old_bytes && memcmp(bytes, old_bytes, size) == 0 : bytes == NULL;
        OL_CHECK(*finished ? is_new : is_new || is_old);
        free(bytes);
        drop();
    }
    end();
}

OL_TEST(replace_file_is_atomic_at_every_stop) {
    for (int existed = 0; existed < 2; existed++) {
        bool finished = false;
        int64_t stop_at = 1;
        for (; !finished; stop_at++) check_replace(existed != 0, stop_at, 200, &finished);
        OL_CHECK(stop_at >= 6);
    }
}

OL_TEST(replace_file_fails_without_a_trace) {
    for (int64_t fail_at = 1; fail_at <= 5; fail_at++) {
        ol_test_directory_make(root);
        ol_test_write_file(ol_test_path(root, "file"), "old", 3);
        OL_CHECK_OK(ol_fault_fs_create(root, &fs, &error), &error);
        ol_fault_fs_fail_at(fs, fail_at, ENOSPC);
        int status = ol_fs_replace_file(fs, ol_test_path(root, "file"), "new", 3, &error);
        OL_CHECK_INT(status, OL_DISK_FULL);
        crash_keeping_all();
        /* Operation 6 is the flush of the directory, after the rename. */
        OL_CHECK(strcmp(pages_in_state("file"), "o") == 0);
        OL_CHECK(strcmp(pages_in_state("file.tmp"), "-") == 0);
        drop();
        end();
    }
}

/* The canary: without the flush before the rename, the checks above must find a broken state. */
OL_TEST(canary_a_rename_without_flush_is_caught) {
    ol_test_directory_make(root);
    ol_test_write_file(ol_test_path(root, "file"), "old", 3);
    OL_CHECK_OK(ol_fault_fs_create(root, &fs, &error), &error);
    ol_file *file = open_file("file.tmp", OL_OPEN_CREATE);
    OL_CHECK_OK(fs->write(file, 0, "new", 3, &error), &error);
    fs->close(file);
    OL_CHECK_OK(fs->rename(fs, ol_test_path(root, "file.tmp"), ol_test_path(root, "file"), &error), &error);
    OL_CHECK_OK(fs->flush_directory(fs, root, &error), &error);
    check_states("file", ",0,n");
    end();
}

typedef struct hammer {
    int number;
} hammer;

static void *hammer_run(void *argument) {
    const hammer *self = argument;
    char name[OL_PATH_MAX];
    ol_error own;
    snprintf(name, sizeof name, "%s/file-%d", root, self->number);
    for (int i = 0; i < 300; i++) {
        ol_file *file;
        if (fs->open(fs, name, OL_OPEN_CREATE, &file, &own) != OL_OK) break;
        int status = fs->write(file, i * 100, "0123456789", 10, &own);
        if (status == OL_OK) status = fs->flush(file, &own);
        fs->close(file);
        if (status != OL_OK) break;
    }
    return NULL;
}

OL_TEST(threads_share_it) {
    begin();
    pthread_t threads[4];
    hammer hammers[4];
    ol_fault_fs_stop_at(fs, 1500);
    for (int i = 0; i < 4; i++) {
        hammers[i].number = i;
        OL_CHECK(pthread_create(&threads[i], NULL, hammer_run, &hammers[i]) == 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    OL_CHECK_INT(ol_fault_fs_operations(fs), 1500);
    OL_CHECK(ol_fault_fs_stopped(fs));
    crash(3);
    drop();
    end();
}

OL_TEST_MAIN()
