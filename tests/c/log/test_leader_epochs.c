#include "log/files/leader_epochs.h"
#include "ol_test.h"
#include "ol_test_directory.h"

static ol_error error;

/* The list as text: "epoch@start epoch@start". */
static const char *shown(const ol_leader_epochs *epochs) {
    static char text[512];
    text[0] = '\0';
    for (size_t i = 0; i < epochs->count; i++) {
        sprintf(text + strlen(text), "%s%d@%lld", i == 0 ? "" : " ", epochs->entries[i].epoch,
                (long long)epochs->entries[i].start_offset);
    }
    return text;
}

static void check(const ol_leader_epochs *epochs, const char *expected) {
    if (strcmp(shown(epochs), expected) != 0) fprintf(stderr, "found %s, expected %s\n", shown(epochs), expected);
    OL_CHECK(strcmp(shown(epochs), expected) == 0);
}

static bool assign(ol_leader_epochs *epochs, int32_t epoch, int64_t start) {
    bool changed;
    OL_CHECK_OK(ol_leader_epochs_assign(epochs, epoch, start, &changed, &error), &error);
    return changed;
}

static void check_end(const ol_leader_epochs *epochs, int32_t epoch, int32_t found, int64_t end) {
    int32_t found_epoch;
    int64_t end_offset;
    ol_leader_epochs_end_offset(epochs, epoch, 100, &found_epoch, &end_offset);
    OL_CHECK_INT(found_epoch, found);
    OL_CHECK_INT(end_offset, end);
}

OL_TEST(assign_keeps_both_columns_ascending) {
    ol_leader_epochs epochs = {0};
    OL_CHECK(assign(&epochs, 0, 0));
    OL_CHECK(!assign(&epochs, 0, 5));
    OL_CHECK(!assign(&epochs, 0, 0));
    OL_CHECK(assign(&epochs, 2, 10));
    OL_CHECK(assign(&epochs, 5, 20));
    check(&epochs, "0@0 2@10 5@20");
    OL_CHECK(assign(&epochs, 5, 15));       /* the newest, but earlier */
    check(&epochs, "0@0 2@10 5@15");
    OL_CHECK(assign(&epochs, 6, 10));       /* a start that is taken */
    check(&epochs, "0@0 6@10");
    OL_CHECK(assign(&epochs, 3, 30));       /* an older epoch later in the log */
    check(&epochs, "0@0 3@30");
    OL_CHECK(assign(&epochs, 0, 40));
    check(&epochs, "0@40");
    OL_CHECK_INT(ol_leader_epochs_assign(&epochs, -1, 50, NULL, &error), OL_INVALID);
    OL_CHECK_INT(ol_leader_epochs_assign(&epochs, 7, -1, NULL, &error), OL_INVALID);
    check(&epochs, "0@40");
    ol_leader_epochs_free(&epochs);
}

OL_TEST(truncations) {
    ol_leader_epochs epochs = {0};
    assign(&epochs, 0, 0);
    assign(&epochs, 2, 10);
    assign(&epochs, 5, 20);
    OL_CHECK(!ol_leader_epochs_truncate_from_end(&epochs, 21));
    OL_CHECK(ol_leader_epochs_truncate_from_end(&epochs, 20));
    check(&epochs, "0@0 2@10");
    assign(&epochs, 5, 20);
    OL_CHECK(!ol_leader_epochs_truncate_from_start(&epochs, 0));
    OL_CHECK(ol_leader_epochs_truncate_from_start(&epochs, 7));
    check(&epochs, "0@7 2@10 5@20");
    OL_CHECK(ol_leader_epochs_truncate_from_start(&epochs, 10));
    check(&epochs, "2@10 5@20");
    OL_CHECK(ol_leader_epochs_truncate_from_start(&epochs, 15));
    check(&epochs, "2@15 5@20");
    OL_CHECK(ol_leader_epochs_truncate_from_start(&epochs, 99));
    check(&epochs, "5@99");
    OL_CHECK(ol_leader_epochs_truncate_from_end(&epochs, 0));
    check(&epochs, "");
    OL_CHECK(!ol_leader_epochs_truncate_from_start(&epochs, 5));
    ol_leader_epochs_free(&epochs);
}

OL_TEST(end_offsets_by_the_rule) {
    ol_leader_epochs epochs = {0};
    check_end(&epochs, 3, -1, -1);
    assign(&epochs, 2, 10);
    assign(&epochs, 5, 20);
    check_end(&epochs, -1, -1, -1);
    check_end(&epochs, 5, 5, 100);
    check_end(&epochs, 6, -1, -1);
    check_end(&epochs, 1, 1, 10);
    check_end(&epochs, 2, 2, 20);
    check_end(&epochs, 3, 2, 20);
    OL_CHECK_INT(ol_leader_epochs_newest(&epochs), 5);
    OL_CHECK_INT(ol_leader_epochs_at(&epochs, 9), -1);
    OL_CHECK_INT(ol_leader_epochs_at(&epochs, 10), 2);
    OL_CHECK_INT(ol_leader_epochs_at(&epochs, 19), 2);
    OL_CHECK_INT(ol_leader_epochs_at(&epochs, 20), 5);
    ol_leader_epochs_free(&epochs);
    OL_CHECK_INT(ol_leader_epochs_newest(&epochs), -1);
}

OL_TEST(file_both_directions) {
    char directory[256];
    ol_test_directory_make(directory);
    ol_fs *fs = ol_fs_posix();
    const char *path = ol_test_path(directory, "leader-epoch-checkpoint");
    ol_leader_epochs epochs = {0};
    OL_CHECK_INT(ol_leader_epochs_load(&epochs, fs, path, &error), OL_NO_SUCH_FILE);
    assign(&epochs, 0, 0);
    assign(&epochs, 12, 345);
    OL_CHECK_OK(ol_leader_epochs_store(&epochs, fs, path, &error), &error);
    uint8_t *text;
    size_t size;
    OL_CHECK_OK(ol_fs_read_file(fs, path, 100, &text, &size, &error), &error);
    OL_CHECK(strcmp((char *)text, "0\n2\n0 0\n12 345\n") == 0);
    free(text);
    assign(&epochs, 13, 400);
    OL_CHECK_OK(ol_leader_epochs_load(&epochs, fs, path, &error), &error);
    check(&epochs, "0@0 12@345");
    const char *bad[] = {"0\n2\n0 0\n0 5\n", "0\n2\n0 5\n1 5\n", "0\n1\n-1 0\n", "0\n1\n0 -1\n", "0\n1\n0 0 0\n", "0\n1\n0\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ol_test_write_file(path, bad[i], strlen(bad[i]));
        OL_CHECK_INT(ol_leader_epochs_load(&epochs, fs, path, &error), OL_CORRUPT);
        OL_CHECK(strncmp(error.reason, "line ", 5) == 0);
        check(&epochs, "0@0 12@345");
    }
    ol_test_write_file(path, "", 0);        /* after a SIGKILL of a broker */
    OL_CHECK_OK(ol_leader_epochs_load(&epochs, fs, path, &error), &error);
    check(&epochs, "");
    ol_leader_epochs_free(&epochs);
    ol_test_directory_remove(directory);
}

OL_TEST_MAIN()
