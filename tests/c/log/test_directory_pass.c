/* The names in a partition directory, as they will be once its swaps are finished or undone.  The rules themselves are
 * tested through opens (test_recover_files.c). */
#include <fcntl.h>
#include <unistd.h>

#include "format/batch_write.h"
#include "log/directory_pass.h"
#include "ol_test.h"
#include "ol_test_directory.h"

static char directory[256];
static ol_error error;

static void begin(void) { ol_test_directory_make(directory); }

static void end(void) { ol_test_directory_remove(directory); }

/* Names begin with the last two digits of a base offset. */
static const char *at(const char *name) {
    char whole[64];
    snprintf(whole, sizeof whole, "000000000000000000%s", name);
    return ol_test_path(directory, whole);
}

/* A file with one batch of the offsets [base, last]. */
static void put_batch(const char *name, int64_t base, int32_t last_delta) {
    uint8_t bytes[256];
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base, 5);
    fields.record_count = 1;
    fields.last_offset_delta = last_delta;
    uint8_t *batch_end = ol_record_put(bytes + OL_BATCH_AT_RECORDS, 0, 0, ol_slice_of("k", 1), ol_slice_of("v", 1), 0,
                                       ol_slice_null());
    ol_batch_seal(bytes, batch_end, &fields);
    ol_test_write_file(at(name), (const char *)bytes, (size_t)(batch_end - bytes));
}

static void put_empty(const char *name) { ol_test_write_file(at(name), "", 0); }

/* "name=real" of every planned segment, with spaces between. */
static const char *planned(void) {
    static char text[1000];
    ol_swap_plan plan;
    OL_CHECK_OK(ol_directory_plan(ol_fs_posix(), directory, &plan, &error), &error);
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < plan.name_count; i++) {
        if (strstr(plan.names[i].name, ".log") == NULL) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.2s=%s", used > 0 ? " " : "",
                                 plan.names[i].name + 18, plan.names[i].real + 18);
    }
    ol_swap_plan_free(&plan);
    return text;
}

static void check_planned(const char *expected) {
    const char *found = planned();
    if (strcmp(found, expected) != 0) fprintf(stderr, "planned: %s\n", found);
    OL_CHECK(strcmp(found, expected) == 0);
}

/* ----------------------------------------------------------------------------------------- names */

static bool is_listed(char **names, size_t count, const char *name) {
    bool found = false;
    for (size_t i = 0; i < count; i++) found |= strcmp(names[i], name) == 0;
    return found;
}

OL_TEST(names_are_listed_and_a_missing_directory_is_reported) {
    enum { MANY = 100 };
    char **names;
    char name[64];
    size_t count;
    begin();
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%02d.log", i);
        put_empty(name);
    }
    OL_CHECK_OK(ol_directory_list(ol_fs_posix(), directory, &names, &count, &error), &error);
    OL_CHECK_INT(count, MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%020d.log", i);
        OL_CHECK(is_listed(names, count, name));
    }
    ol_directory_free_names(names, count);
    ol_swap_plan plan;
    const char *missing = ol_test_path(directory, "missing");
    OL_CHECK_INT(ol_directory_list(ol_fs_posix(), missing, &names, &count, &error), OL_NO_SUCH_FILE);
    OL_CHECK_INT(ol_directory_plan(ol_fs_posix(), missing, &plan, &error), OL_NO_SUCH_FILE);
    end();
}

/* ----------------------------------------------------------------------------------------- plans */

OL_TEST(a_directory_without_a_swap_is_planned_as_it_is) {
    begin();
    put_batch("00.log", 0, 9);
    put_batch("10.log", 10, 9);
    put_empty("20.log.deleted");
    check_planned("00=00.log 10=10.log");
    end();
}

OL_TEST(a_swap_takes_the_place_of_all_segments_below_its_end) {
    begin();
    put_batch("00.log.swap", 0, 19);
    put_batch("00.log", 0, 9);
    put_batch("10.log", 10, 9);
    put_batch("20.log", 20, 9);
    check_planned("00=00.log.swap 20=20.log");
    /* The old ones go first. */
    OL_CHECK_INT(unlink(at("10.log")), 0);
    check_planned("00=00.log.swap 20=20.log");
    OL_CHECK_INT(unlink(at("00.log")), 0);
    check_planned("00=00.log.swap 20=20.log");
    /* Nothing was changed. */
    OL_CHECK_INT(access(at("00.log.swap"), F_OK), 0);
    end();
}

OL_TEST(a_swap_ends_with_its_last_whole_batch) {
    begin();
    put_batch("00.log.swap", 0, 9);
    put_batch("10.log", 10, 9);
    int file = open(at("00.log.swap"), O_WRONLY | O_APPEND);
    OL_CHECK(file >= 0 && write(file, "torn", 4) == 4);
    close(file);
    check_planned("00=00.log.swap 10=10.log");
    end();
}

OL_TEST(a_swap_beside_what_was_not_complete_is_undone) {
    begin();
    put_batch("00.log.swap", 0, 9);
    put_batch("00.log", 0, 9);
    put_empty("00.index.cleaned");
    check_planned("00=00.log");
    end();
}

/* -------------------------------------------------------------------------------------- failures */

static int failure;             /* of the calls below */

static int list_and_fail(ol_fs *fs, const char *path, int (*visit)(void *context, const char *name), void *context,
                         ol_error *failed) {
    int status = ol_fs_posix()->list(fs, path, visit, context, failed);
    return status == OL_OK ? failure : status;
}

static int list_and_remove(ol_fs *fs, const char *path, int (*visit)(void *context, const char *name), void *context,
                           ol_error *failed) {
    int status = ol_fs_posix()->list(fs, path, visit, context, failed);
    OL_CHECK_INT(unlink(at("00.log.swap")), 0);
    return status;
}

static int fail_to_open(ol_fs *fs OL_UNUSED, const char *path, ol_open_mode mode OL_UNUSED, ol_file **file OL_UNUSED,
                        ol_error *failed) {
    OL_CHECK(strcmp(path, at("00.log.swap")) == 0);
    return ol_fail(failed, failure, "no open");
}

static int fail_to_read(ol_file *file OL_UNUSED, int64_t position OL_UNUSED, void *data OL_UNUSED,
                        size_t size OL_UNUSED, size_t *got OL_UNUSED, ol_error *failed) {
    return ol_fail(failed, failure, "no read");
}

static int plan_with(ol_fs *fs) {
    ol_swap_plan plan;
    return ol_directory_plan(fs, directory, &plan, &error);
}

OL_TEST(names_that_find_no_memory_are_given_back) {
    char **names;
    size_t count;
    ol_fs fs = *ol_fs_posix();
    fs.list = list_and_fail;
    failure = OL_NO_MEMORY;
    begin();
    put_empty("00.log");
    OL_CHECK_INT(ol_directory_list(&fs, directory, &names, &count, &error), OL_NO_MEMORY);
    OL_CHECK(strstr(error.reason, "names in the directory") != NULL);
    OL_CHECK_INT(plan_with(&fs), OL_NO_MEMORY);
    end();
}

OL_TEST(a_swap_that_is_gone_before_it_is_opened_is_reported) {
    ol_fs fs = *ol_fs_posix();
    fs.list = list_and_remove;
    begin();
    put_batch("00.log.swap", 0, 9);
    OL_CHECK_INT(plan_with(&fs), OL_NO_SUCH_FILE);
    check_planned("");
    end();
}

OL_TEST(a_swap_that_cannot_be_opened_or_read_ends_the_pass) {
    static const int failures[] = {OL_IO, OL_NO_MEMORY};
    ol_fs closed = *ol_fs_posix(), unreadable = *ol_fs_posix();
    closed.open = fail_to_open;
    unreadable.read = fail_to_read;
    begin();
    put_batch("00.log.swap", 0, 9);
    for (size_t i = 0; i < 2; i++) {
        failure = failures[i];
        OL_CHECK_INT(plan_with(&closed), failure);
        OL_CHECK_INT(plan_with(&unreadable), failure);
    }
    check_planned("00=00.log.swap");
    end();
}

OL_TEST_MAIN()
