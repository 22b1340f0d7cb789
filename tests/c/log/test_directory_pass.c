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

static const char *at(const char *name) { return ol_test_path(directory, name); }

/* A file with one batch of the offsets [base, last]. */
static void put_batch(const char *name, int64_t base, int32_t last_delta) {
    uint8_t bytes[256];
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base, 5);
    fields.record_count = 1;
    fields.last_offset_delta = last_delta;
    uint8_t *end = ol_record_put(bytes + OL_BATCH_AT_RECORDS, 0, 0, ol_slice_of("k", 1), ol_slice_of("v", 1), 0,
                                 ol_slice_null());
    ol_batch_seal(bytes, end, &fields);
    ol_test_write_file(at(name), (const char *)bytes, (size_t)(end - bytes));
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

OL_TEST(names_are_listed_and_a_missing_directory_is_reported) {
    ol_test_directory_make(directory);
    char **names;
    size_t count;
    put_empty("a");
    put_empty("b");
    OL_CHECK_OK(ol_directory_list(ol_fs_posix(), directory, &names, &count, &error), &error);
    OL_CHECK_INT(count, 2);
    ol_directory_free_names(names, count);
    ol_swap_plan plan;
    OL_CHECK_INT(ol_directory_list(ol_fs_posix(), at("missing"), &names, &count, &error), OL_NO_SUCH_FILE);
    OL_CHECK_INT(ol_directory_plan(ol_fs_posix(), at("missing"), &plan, &error), OL_NO_SUCH_FILE);
    ol_test_directory_remove(directory);
}

OL_TEST(a_directory_without_a_swap_is_planned_as_it_is) {
    ol_test_directory_make(directory);
    put_batch("00000000000000000000.log", 0, 9);
    put_batch("00000000000000000010.log", 10, 9);
    put_empty("00000000000000000020.log.deleted");
    check_planned("00=00.log 10=10.log");
    ol_test_directory_remove(directory);
}

OL_TEST(a_swap_takes_the_place_of_all_segments_below_its_end) {
    ol_test_directory_make(directory);
    put_batch("00000000000000000000.log.swap", 0, 19);
    put_batch("00000000000000000000.log", 0, 9);
    put_batch("00000000000000000010.log", 10, 9);
    put_batch("00000000000000000020.log", 20, 9);
    check_planned("00=00.log.swap 20=20.log");
    /* The old ones go first. */
    OL_CHECK_INT(unlink(at("00000000000000000010.log")), 0);
    check_planned("00=00.log.swap 20=20.log");
    OL_CHECK_INT(unlink(at("00000000000000000000.log")), 0);
    check_planned("00=00.log.swap 20=20.log");
    /* Nothing was changed. */
    OL_CHECK_INT(access(at("00000000000000000000.log.swap"), F_OK), 0);
    ol_test_directory_remove(directory);
}

OL_TEST(a_swap_ends_with_its_last_whole_batch) {
    ol_test_directory_make(directory);
    put_batch("00000000000000000000.log.swap", 0, 9);
    put_batch("00000000000000000010.log", 10, 9);
    int file = open(at("00000000000000000000.log.swap"), O_WRONLY | O_APPEND);
    OL_CHECK(file >= 0 && write(file, "torn", 4) == 4);
    close(file);
    check_planned("00=00.log.swap 10=10.log");
    ol_test_directory_remove(directory);
}

OL_TEST(a_swap_beside_what_was_not_complete_is_undone) {
    ol_test_directory_make(directory);
    put_batch("00000000000000000000.log.swap", 0, 9);
    put_batch("00000000000000000000.log", 0, 9);
    put_empty("00000000000000000000.index.cleaned");
    check_planned("00=00.log");
    ol_test_directory_remove(directory);
}

OL_TEST_MAIN()
