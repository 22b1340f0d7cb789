#include <errno.h>

#include "testing/fault_fs.h"
#include "ol_test.h"
#include "ol_test_directory.h"
#include "log/files/transaction_index.h"

static char directory[256];
static char path[OL_PATH_MAX];
static ol_error error;
static ol_fs *fs;

static void begin(void) {
    fs = ol_fs_posix();
    ol_test_directory_make(directory);
    strcpy(path, ol_test_path(directory, "00000000000000000100.txnindex"));
}

static void end(void) { ol_test_directory_remove(directory); }

static ol_transaction_index open_index(bool writable) {
    ol_transaction_index index;
    OL_CHECK_OK(ol_transaction_index_open(&index, fs, path, 100, writable, &error), &error);
    return index;
}

static int append(ol_transaction_index *index, int64_t first, int64_t last, int64_t stable) {
    ol_aborted_transaction entry = {4000, first, last, stable};
    return ol_transaction_index_append(index, &entry, &error);
}

static const char golden[] =
    "0000" "0000000000000fa0" "0000000000000067" "0000000000000069" "000000000000006a";

OL_TEST(golden_entry_both_directions) {
    begin();
    ol_transaction_index index = open_index(true);
    OL_CHECK(access(path, F_OK) != 0);      /* created on first use */
    OL_CHECK_OK(append(&index, 103, 105, 106), &error);
    OL_CHECK_OK(ol_transaction_index_flush(&index, &error), &error);
    ol_transaction_index_close(&index);
    uint8_t *bytes;
    size_t size, expected_size;
    uint8_t *expected = ol_test_unhex(golden, &expected_size);
    OL_CHECK_OK(ol_fs_read_file(fs, path, 1000, &bytes, &size, &error), &error);
    OL_CHECK(size == 34 && expected_size == 34 && memcmp(bytes, expected, 34) == 0);
    free(bytes);
    free(expected);
    index = open_index(false);
    OL_CHECK_INT(index.count, 1);
    OL_CHECK_INT(index.entries[0].producer_id, 4000);
    OL_CHECK_INT(index.entries[0].first_offset, 103);
    OL_CHECK_INT(index.entries[0].last_offset, 105);
    OL_CHECK_INT(index.entries[0].last_stable_offset, 106);
    OL_CHECK_INT(append(&index, 110, 111, 112), OL_READ_ONLY);
    ol_transaction_index_close(&index);
    end();
}

typedef struct collected {
    int64_t first_offsets[16];
    size_t count;
} collected;

static int collect_one(void *context, const ol_aborted_transaction *entry) {
    collected *all = context;
    all->first_offsets[all->count++] = entry->first_offset;
    return all->count == 16 ? OL_END : OL_OK;
}

OL_TEST(ranges_are_collected_up_to_the_stable_offset) {
    begin();
    ol_transaction_index index = open_index(true);
    OL_CHECK_OK(append(&index, 50, 110, 105), &error);      /* began in the segment before; another was open at 105 */
    OL_CHECK_OK(append(&index, 105, 120, 121), &error);
    OL_CHECK_OK(append(&index, 130, 140, 141), &error);
    collected all = {{0}, 0};
    bool complete;
    OL_CHECK_OK(ol_transaction_index_collect(&index, 0, 104, collect_one, &all, &complete), &error);
    OL_CHECK(all.count == 1 && all.first_offsets[0] == 50 && complete);
    all.count = 0;
    OL_CHECK_OK(ol_transaction_index_collect(&index, 111, 200, collect_one, &all, &complete), &error);
    OL_CHECK(all.count == 2 && all.first_offsets[0] == 105 && all.first_offsets[1] == 130 && !complete);
    all.count = 0;
    OL_CHECK_OK(ol_transaction_index_collect(&index, 121, 130, collect_one, &all, &complete), &error);
    OL_CHECK(all.count == 0 && complete);
    all.count = 15;
    OL_CHECK_INT(ol_transaction_index_collect(&index, 0, 200, collect_one, &all, &complete), OL_END);
    ol_transaction_index_close(&index);
    end();
}

OL_TEST(entries_are_cut_with_the_log) {
    begin();
    ol_transaction_index index = open_index(true);
    OL_CHECK_OK(ol_transaction_index_truncate(&index, 100, &error), &error);
    for (int64_t last = 110; last <= 190; last += 10) OL_CHECK_OK(append(&index, last - 5, last, last + 1), &error);
    OL_CHECK_OK(ol_transaction_index_truncate(&index, 151, &error), &error);
    OL_CHECK_INT(index.count, 5);
    OL_CHECK_OK(ol_transaction_index_truncate(&index, 150, &error), &error);
    OL_CHECK_INT(index.count, 4);
    OL_CHECK_OK(append(&index, 145, 150, 151), &error);
    ol_transaction_index_close(&index);
    index = open_index(true);
    OL_CHECK_INT(index.count, 5);
    OL_CHECK_INT(index.entries[4].last_offset, 150);
    OL_CHECK_INT(append(&index, 145, 150, 151), OL_INVALID);
    OL_CHECK_INT(append(&index, 162, 161, 163), OL_INVALID);
    OL_CHECK_OK(ol_transaction_index_reset(&index, &error), &error);
    OL_CHECK_INT(append(&index, 90, 99, 100), OL_INVALID);
    ol_transaction_index_close(&index);
    index = open_index(false);
    OL_CHECK_INT(index.count, 0);
    ol_transaction_index_close(&index);
    end();
}

OL_TEST(damaged_files_are_refused) {
    begin();
    size_t size;
    uint8_t *one = ol_test_unhex(golden, &size);
    uint8_t two[68];
    memcpy(two, one, 34);
    memcpy(two + 34, one, 34);
    for (size_t cut = 0; cut <= 34; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        memcpy(copy, one, cut);
        OL_CHECK_INT(ol_transaction_index_parse(ol_slice_of(copy, cut), 100, NULL, &error),
                     cut % 34 == 0 ? OL_OK : OL_CORRUPT);
        free(copy);
    }
    OL_CHECK_INT(ol_transaction_index_parse(ol_slice_of(two, 68), 100, NULL, &error), OL_CORRUPT);
    OL_CHECK_INT(error.position, 34);
    two[34 + 25] = 0x70;
    OL_CHECK_OK(ol_transaction_index_parse(ol_slice_of(two, 68), 100, NULL, &error), &error);
    OL_CHECK_INT(ol_transaction_index_parse(ol_slice_of(two, 68), 106, NULL, &error), OL_CORRUPT);
    OL_CHECK_INT(error.position, 0);
    two[35] = 1;
    OL_CHECK_INT(ol_transaction_index_parse(ol_slice_of(two, 68), 100, NULL, &error), OL_CORRUPT);
    OL_CHECK(strstr(error.reason, "version") != NULL);
    ol_test_write_file(path, two, 68);
    ol_transaction_index index;
    OL_CHECK_INT(ol_transaction_index_open(&index, fs, path, 100, true, &error), OL_CORRUPT);
    OL_CHECK(strcmp(error.path, path) == 0);
    OL_CHECK_INT(error.position, 34);
    free(one);
    end();
}

OL_TEST(failed_append_changes_nothing) {
    begin();
    OL_CHECK_OK(ol_fault_fs_create(directory, &fs, &error), &error);
    ol_transaction_index index = open_index(true);
    for (int64_t fail_at = 1; fail_at <= 2; fail_at++) {
        ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + fail_at, ENOSPC);
        OL_CHECK_INT(append(&index, 103, 105, 106), OL_DISK_FULL);
        OL_CHECK_INT(index.count, 0);
    }
    OL_CHECK_OK(append(&index, 103, 105, 106), &error);
    ol_transaction_index_close(&index);
    index = open_index(false);
    OL_CHECK_INT(index.count, 1);
    ol_transaction_index_close(&index);
    ol_fault_fs_free(fs);
    end();
}

OL_TEST(space_that_is_kept_is_there_on_a_full_disk_and_given_back) {
    begin();
    OL_CHECK_OK(ol_fault_fs_create(directory, &fs, &error), &error);
    ol_transaction_index index = open_index(true);
    const size_t kept = 200;        /* more than a block */
    for (int64_t fail_at = 1; fail_at <= 2; fail_at++) {
        ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + fail_at, ENOSPC);
        OL_CHECK_INT(ol_transaction_index_keep_space(&index, kept, &error), OL_DISK_FULL);
        OL_CHECK_INT(index.count, 0);
    }
    OL_CHECK_OK(ol_transaction_index_keep_space(&index, kept, &error), &error);
    int64_t operations = ol_fault_fs_operations(fs);
    OL_CHECK_OK(ol_transaction_index_keep_space(&index, kept, &error), &error);
    OL_CHECK_INT(ol_fault_fs_operations(fs), operations);
    ol_fault_fs_fill(fs, 1);
    for (size_t i = 0; i < kept; i++) OL_CHECK_OK(append(&index, 103, 105 + (int64_t)i, 106 + (int64_t)i), &error);
    OL_CHECK_INT(ol_transaction_index_keep_space(&index, kept, &error), OL_DISK_FULL);
    ol_fault_fs_fill(fs, 0);
    OL_CHECK_OK(ol_transaction_index_trim(&index, &error), &error);
    ol_transaction_index_close(&index);
    index = open_index(false);
    OL_CHECK_INT(index.count, kept);
    OL_CHECK_INT(ol_transaction_index_keep_space(&index, 1, &error), OL_READ_ONLY);
    ol_transaction_index_close(&index);
    OL_CHECK_OK(fs->remove(fs, path, &error), &error);
    index = open_index(true);
    OL_CHECK_OK(ol_transaction_index_trim(&index, &error), &error);
    OL_CHECK_OK(ol_transaction_index_keep_space(&index, 1, &error), &error);
    bool exists = false;
    OL_CHECK_OK(fs->exists(fs, path, &exists, &error), &error);
    OL_CHECK(exists);
    OL_CHECK_OK(ol_transaction_index_trim(&index, &error), &error);
    OL_CHECK_OK(fs->exists(fs, path, &exists, &error), &error);
    OL_CHECK(!exists);
    OL_CHECK_OK(append(&index, 103, 105, 106), &error);
    ol_transaction_index_close(&index);
    ol_fault_fs_free(fs);
    end();
}

OL_TEST_MAIN()
