#include <errno.h>

#include "log/files/checkpoint.h"
#include "testing/fault_fs.h"
#include "ol_test.h"
#include "ol_test_directory.h"

static ol_error error;

static int parse(ol_offset_checkpoint *checkpoint, const char *text, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    int status = ol_offset_checkpoint_parse(checkpoint, ol_slice_of(copy, size), &error);
    free(copy);
    return status;
}

static const char golden[] = "0\n2\n__consumer_offsets 0 1042\n__consumer_offsets 12 7\n";

OL_TEST(golden_checkpoint_both_directions) {
    ol_offset_checkpoint checkpoint = {0};
    OL_CHECK_OK(parse(&checkpoint, golden, strlen(golden)), &error);
    OL_CHECK_INT(checkpoint.count, 2);
    OL_CHECK_INT(ol_offset_checkpoint_find(&checkpoint, "__consumer_offsets", 12)->offset, 7);
    OL_CHECK(ol_offset_checkpoint_find(&checkpoint, "__consumer_offsets", 1) == NULL);
    OL_CHECK(ol_offset_checkpoint_find(&checkpoint, "__consumer_offset", 0) == NULL);
    ol_offset_checkpoint_free(&checkpoint);
    OL_CHECK_OK(ol_offset_checkpoint_set(&checkpoint, "__consumer_offsets", 0, 3, &error), &error);
    OL_CHECK_OK(ol_offset_checkpoint_set(&checkpoint, "other", 5, 3, &error), &error);
    OL_CHECK_OK(ol_offset_checkpoint_set(&checkpoint, "__consumer_offsets", 12, 7, &error), &error);
    OL_CHECK_OK(ol_offset_checkpoint_set(&checkpoint, "__consumer_offsets", 0, 1042, &error), &error);
    ol_offset_checkpoint_remove(&checkpoint, "other", 5);
    ol_offset_checkpoint_remove(&checkpoint, "other", 5);
    char *text;
    size_t size;
    OL_CHECK_OK(ol_offset_checkpoint_format(&checkpoint, &text, &size, &error), &error);
    OL_CHECK(size == strlen(golden) && memcmp(text, golden, size) == 0);
    free(text);
    ol_offset_checkpoint_free(&checkpoint);
}

OL_TEST(what_is_no_checkpoint_is_refused_with_its_line) {
    const struct {
        const char *text;
        int status;
        const char *reason;
    } cases[] = {
        {"", OL_OK, NULL},
        {"0", OL_OK, NULL},
        {"0\n", OL_OK, NULL},
        {"0\n0\n", OL_OK, NULL},
        {"0\n0", OL_OK, NULL},
        {" 0 \r\n 1\r\nt\t1  2 \r\n", OL_OK, NULL},
        {"0\n1\nt +1 -1", OL_OK, NULL},
        {"0\n1\nt 2147483647 9223372036854775807\n", OL_OK, NULL},
        {"0\n1\nt 0 -9223372036854775808\n", OL_OK, NULL},
        {"1\n0\n", OL_UNSUPPORTED, "version 1"},
        {"x\n0\n", OL_CORRUPT, "line 1: the version"},
        {"\n0\n", OL_CORRUPT, "line 1: the version"},
        {"0\n-1\n", OL_CORRUPT, "line 2: the count"},
        {"0\n\n", OL_CORRUPT, "line 2: the count"},
        {"0\n2147483647\n", OL_CORRUPT, "line 2: the file is too short"},
        {"0\n99999999999999999999\n", OL_CORRUPT, "line 2: the count"},
        {"0\n2\nt 0 1\n", OL_CORRUPT, "fewer entries"},
        {"0\n0\nt 0 1\n", OL_CORRUPT, "line 3: there are more"},
        {"0\n1\nt 0 1\n\n", OL_CORRUPT, "line 4: there are more"},
        {"0\n1\nt 0\n", OL_CORRUPT, "line 3: too few or too many"},
        {"0\n1\nt 0 1 2\n", OL_CORRUPT, "line 3: too few or too many"},
        {"0\n1\n t 0 1\n", OL_CORRUPT, "line 3: too few or too many"},
        {"0\n1\nt -1 1\n", OL_CORRUPT, "line 3: the partition"},
        {"0\n1\nt 2147483648 1\n", OL_CORRUPT, "line 3: the partition"},
        {"0\n1\nt 0 9223372036854775808\n", OL_CORRUPT, "line 3: the offset"},
        {"0\n1\nt 0 1x\n", OL_CORRUPT, "line 3: the offset"},
        {"0\n1\nt 0 -\n", OL_CORRUPT, "line 3: the offset"},
        {"0\n1\na/b 0 1\n", OL_CORRUPT, "line 3: the topic"},
        {"0\n3\nt 0 1\nu 0 2\nt 0 1\n", OL_CORRUPT, "line 5: partition t-0 appears more than once"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ol_offset_checkpoint checkpoint = {0};
        int status = parse(&checkpoint, cases[i].text, strlen(cases[i].text));
        if (status != cases[i].status) fprintf(stderr, "'%s'\n", cases[i].text);
        OL_CHECK_INT(status, cases[i].status);
        if (status != OL_OK && strstr(error.reason, cases[i].reason) == NULL) fprintf(stderr, "'%s'\n", error.reason);
        OL_CHECK(status == OL_OK || strstr(error.reason, cases[i].reason) != NULL);
        if (status != OL_OK) OL_CHECK(checkpoint.entries == NULL && checkpoint.count == 0);
        ol_offset_checkpoint_free(&checkpoint);
    }
}

OL_TEST(a_cut_checkpoint_is_empty_or_refused) {
    for (size_t cut = 0; cut < strlen(golden); cut++) {
        ol_offset_checkpoint checkpoint = {0};
        int status = parse(&checkpoint, golden, cut);
        /* Nothing, a version line; and where only the last line end, or digits before it, are missing nobody can tell. */
        if (cut <= 2) OL_CHECK(status == OL_OK && checkpoint.count == 0);
        else if (cut < strlen(golden) - 1) OL_CHECK_INT(status, OL_CORRUPT);
        else OL_CHECK(status == OL_OK && checkpoint.count == 2);
        ol_offset_checkpoint_free(&checkpoint);
    }
}

OL_TEST(topics_are_bounded) {
    ol_offset_checkpoint checkpoint = {0};
    char name[300], text[400];
    memset(name, 'x', sizeof name);
    for (size_t size = 254; size <= 257; size++) {
        name[size] = '\0';
        OL_CHECK_INT(ol_offset_checkpoint_set(&checkpoint, name, 0, 0, &error), size <= 255 ? OL_OK : OL_INVALID);
        ol_offset_checkpoint_free(&checkpoint);
        snprintf(text, sizeof text, "0\n1\n%s 0 0\n", name);
        OL_CHECK_INT(parse(&checkpoint, text, strlen(text)), size <= 255 ? OL_OK : OL_CORRUPT);
        ol_offset_checkpoint_free(&checkpoint);
        name[size] = 'x';
    }
    OL_CHECK_INT(ol_offset_checkpoint_set(&checkpoint, "", 0, 0, &error), OL_INVALID);
    OL_CHECK_INT(ol_offset_checkpoint_set(&checkpoint, "a b", 0, 0, &error), OL_INVALID);
    OL_CHECK_INT(ol_offset_checkpoint_set(&checkpoint, "a\nb", 0, 0, &error), OL_INVALID);
    OL_CHECK_INT(ol_offset_checkpoint_set(&checkpoint, "a", -1, 0, &error), OL_INVALID);
    OL_CHECK_INT(parse(&checkpoint, "0\n1\na\0b 0 0\n", 12), OL_CORRUPT);
    ol_offset_checkpoint_free(&checkpoint);
}

OL_TEST(files_are_replaced_whole) {
    char directory[256];
    ol_test_directory_make(directory);
    ol_fs *fs = ol_fs_posix();
    const char *path = ol_test_path(directory, "recovery-point-offset-checkpoint");
    ol_offset_checkpoint checkpoint = {0}, loaded = {0};
    OL_CHECK_INT(ol_offset_checkpoint_load(&loaded, fs, path, &error), OL_NO_SUCH_FILE);
    for (int partition = 0; partition < 100; partition++) {
        OL_CHECK_OK(ol_offset_checkpoint_set(&checkpoint, "__consumer_offsets", partition, INT64_MAX - partition, &error), &error);
    }
    OL_CHECK_OK(ol_offset_checkpoint_store(&checkpoint, fs, path, &error), &error);
    OL_CHECK_OK(ol_offset_checkpoint_load(&loaded, fs, path, &error), &error);
    OL_CHECK_INT(loaded.count, 100);
    for (int partition = 0; partition < 100; partition++) {
        const ol_checkpoint_entry *entry = ol_offset_checkpoint_find(&loaded, "__consumer_offsets", partition);
        OL_CHECK_INT(entry->offset, INT64_MAX - partition);
    }
    ol_offset_checkpoint_free(&loaded);
    ol_test_write_file(path, "0\n1\nbad\n", 8);
    OL_CHECK_INT(ol_offset_checkpoint_load(&loaded, fs, path, &error), OL_CORRUPT);
    OL_CHECK(strcmp(error.path, path) == 0);
    ol_offset_checkpoint_free(&checkpoint);
    ol_test_directory_remove(directory);
}

OL_TEST_MAIN()
