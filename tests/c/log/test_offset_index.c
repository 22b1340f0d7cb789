#include <errno.h>

#include "base/bytes.h"
#include "testing/fault_fs.h"
#include "log/files/offset_index.h"
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

static ol_index open_index(const char *name, ol_index_kind kind, int64_t base, size_t size_max, ol_index_mode mode) {
    ol_index index;
    OL_CHECK_OK(ol_index_open(&index, fs, ol_test_path(directory, name), kind, base, size_max, mode, &error), &error);
    return index;
}

static void check_lookup(const ol_index *index, int64_t target, int64_t offset, int64_t position) {
    int64_t found_offset, found_position;
    OL_CHECK_OK(ol_offset_index_lookup(index, target, &found_offset, &found_position, &error), &error);
    OL_CHECK_INT(found_offset, offset);
    OL_CHECK_INT(found_position, position);
}

static void check_time(const ol_index *index, int64_t target, int64_t timestamp, int64_t offset) {
    int64_t found_timestamp, found_offset;
    OL_CHECK_OK(ol_time_index_lookup(index, target, &found_timestamp, &found_offset, &error), &error);
    OL_CHECK_INT(found_timestamp, timestamp);
    OL_CHECK_INT(found_offset, offset);
}

static void check_file(const char *name, const char *hex) {
    uint8_t *bytes;
    size_t size, expected_size;
    uint8_t *expected = ol_test_unhex(hex, &expected_size);
    OL_CHECK_OK(ol_fs_read_file(fs, ol_test_path(directory, name), 1 << 20, &bytes, &size, &error), &error);
    OL_CHECK_INT(size, expected_size);
    OL_CHECK(memcmp(bytes, expected, size) == 0);
    free(bytes);
    free(expected);
}

OL_TEST(trap_30_entry_names_the_last_offset_and_the_start) {
    begin();
    ol_index index = open_index("a.index", OL_INDEX_OFFSET, 100, 10485760, OL_INDEX_APPEND);
    check_lookup(&index, 151, 100, 0);
    OL_CHECK_OK(ol_offset_index_append(&index, 152, 5000, &error), &error);
    check_lookup(&index, 151, 100, 0);      /* no entry: scan from the start */
    check_lookup(&index, 152, 152, 5000);
    check_lookup(&index, 99, 100, 0);
    check_lookup(&index, INT64_MAX, 152, 5000);
    OL_CHECK_OK(ol_index_trim(&index, &error), &error);
    check_file("a.index", "0000003400001388");
    ol_index_close(&index);
    index = open_index("a.index", OL_INDEX_OFFSET, 100, 0, OL_INDEX_READ);
    OL_CHECK_INT(index.count, 1);
    OL_CHECK_INT(index.last_offset, 152);
    check_lookup(&index, 152, 152, 5000);
    OL_CHECK_INT(ol_offset_index_append(&index, 160, 6000, &error), OL_READ_ONLY);
    ol_index_close(&index);
    end();
}

OL_TEST(time_index_golden) {
    begin();
    ol_index index = open_index("a.timeindex", OL_INDEX_TIME, 100, 10485760, OL_INDEX_APPEND);
    check_time(&index, INT64_MAX, -1, 100);
    OL_CHECK_OK(ol_time_index_append(&index, 1700000000000, 149, false, &error), &error);
    OL_CHECK_OK(ol_time_index_append(&index, 1700000000000, 152, false, &error), &error);   /* not above: skipped */
    OL_CHECK_OK(ol_time_index_append(&index, 1699999999999, 152, false, &error), &error);
    OL_CHECK_OK(ol_time_index_append(&index, 1700000000001, 149, false, &error), &error);   /* the same batch may repeat */
    OL_CHECK_INT(ol_time_index_append(&index, 1700000000002, 148, false, &error), OL_INVALID);
    OL_CHECK_INT(index.count, 2);
    check_time(&index, 1699999999999, -1, 100);
    check_time(&index, 1700000000000, 1700000000000, 149);
    OL_CHECK_OK(ol_index_trim(&index, &error), &error);
    check_file("a.timeindex", "0000018bcfe56800000000310000018bcfe5680100000031");
    OL_CHECK_INT(index.last_timestamp, 1700000000001);
    ol_index_close(&index);
    end();
}

OL_TEST(appends_that_break_a_rule_are_refused) {
    begin();
    ol_index index = open_index("a.index", OL_INDEX_OFFSET, 100, 24, OL_INDEX_APPEND);
    OL_CHECK_INT(ol_offset_index_append(&index, 99, 10, &error), OL_INVALID);
    OL_CHECK_INT(ol_offset_index_append(&index, 100 + (1LL << 31), 10, &error), OL_INVALID);
    OL_CHECK_INT(ol_offset_index_append(&index, 101, 1LL << 31, &error), OL_INVALID);
    OL_CHECK_INT(ol_offset_index_append(&index, 101, -1, &error), OL_INVALID);
    OL_CHECK_INT(ol_offset_index_append(&index, 100, 0, &error), OL_INVALID);
    OL_CHECK_OK(ol_offset_index_append(&index, 101, 10, &error), &error);
    OL_CHECK_INT(ol_offset_index_append(&index, 101, 20, &error), OL_INVALID);
    OL_CHECK_OK(ol_offset_index_append(&index, 102, 20, &error), &error);
    OL_CHECK(!ol_index_is_full(&index));
    OL_CHECK_OK(ol_offset_index_append(&index, 100LL + INT32_MAX, INT32_MAX, &error), &error);
    OL_CHECK(ol_index_is_full(&index));
    OL_CHECK_INT(ol_offset_index_append(&index, 100LL + INT32_MAX, 30, &error), OL_INVALID);
    ol_index_close(&index);
    end();
}

OL_TEST(trap_31_last_time_slot_is_for_the_roll) {
    begin();
    ol_index index = open_index("a.timeindex", OL_INDEX_TIME, 0, 3 * 12 + 11, OL_INDEX_APPEND);
    OL_CHECK_INT(index.capacity, 3);
    OL_CHECK_OK(ol_time_index_append(&index, 10, 1, false, &error), &error);
    OL_CHECK(!ol_index_is_full(&index));
    OL_CHECK_OK(ol_time_index_append(&index, 20, 2, false, &error), &error);
    OL_CHECK(ol_index_is_full(&index));
    OL_CHECK_INT(ol_time_index_append(&index, 30, 3, false, &error), OL_LIMIT);
    OL_CHECK_OK(ol_time_index_append(&index, 30, 3, true, &error), &error);
    OL_CHECK_INT(ol_time_index_append(&index, 40, 4, true, &error), OL_LIMIT);
    ol_index_close(&index);
    end();
}

/* Several blocks, part of them in memory, beside an array; then cut at random places. */
OL_TEST(lookups_agree_with_a_model) {
    enum { COUNT = 2000, BASE = 1000000 };
    static int64_t offsets[COUNT], positions[COUNT];
    begin();
    ol_index index = open_index("a.index", OL_INDEX_OFFSET, BASE, 10485760, OL_INDEX_APPEND);
    int64_t offset = BASE, position = 0, count = COUNT;
    for (int i = 0; i < COUNT; i++) {
        offsets[i] = offset += 1 + (int64_t)ol_test_below(50);
        positions[i] = position += 1 + (int64_t)ol_test_below(9000);
        OL_CHECK_OK(ol_offset_index_append(&index, offset, position, &error), &error);
        if (ol_test_below(400) == 0) OL_CHECK_OK(ol_index_flush(&index, &error), &error);
    }
    for (int round = 0; round < 12; round++) {
        for (int probe = 0; probe < 300; probe++) {
            int64_t wanted = BASE + (int64_t)ol_test_below((uint64_t)(offset - BASE + 10));
            int64_t at = count - 1;
            while (at >= 0 && offsets[at] > wanted) at--;
            check_lookup(&index, wanted, at < 0 ? BASE : offsets[at], at < 0 ? 0 : positions[at]);
        }
        OL_CHECK_OK(ol_index_check(&index, position + 1, offset + 1, &error), &error);
        int64_t kept = count - (int64_t)ol_test_below(300);
        /* Once by offset, once by the size of the log. */
        bool by_offset = round % 2 == 0;
        if (kept < count) {
            OL_CHECK_OK(ol_index_truncate(&index, by_offset ? offsets[kept] : INT64_MAX,
                                          by_offset ? INT64_MAX : positions[kept], &error), &error);
            count = kept;
        }
        OL_CHECK_INT(index.count, count);
        OL_CHECK_INT(index.last_offset, count == 0 ? BASE : offsets[count - 1]);
        if (round % 3 != 2) continue;
        OL_CHECK_OK(ol_index_trim(&index, &error), &error);
        ol_index_close(&index);
        index = open_index("a.index", OL_INDEX_OFFSET, BASE, 10485760, OL_INDEX_APPEND);
    }
    OL_CHECK_OK(ol_index_reset(&index, &error), &error);
    OL_CHECK_INT(index.count, 0);
    check_lookup(&index, INT64_MAX, BASE, 0);
    OL_CHECK_OK(ol_offset_index_append(&index, BASE + 5, 7, &error), &error);
    OL_CHECK_OK(ol_index_trim(&index, &error), &error);
    check_file("a.index", "0000000500000007");
    ol_index_close(&index);
    end();
}

OL_TEST(presized_tail_of_a_crashed_broker_is_not_used) {
    begin();
    static uint8_t bytes[10485760];
    for (uint32_t used = 0; used < 40; used++) {
        memset(bytes, 0, 400);
        for (uint32_t i = 0; i < used; i++) {
            ol_store_u32(bytes + 8 * i, i + 1);
            ol_store_u32(bytes + 8 * i + 4, 100 * (i + 1));
        }
        ol_test_write_file(ol_test_path(directory, "a.index"), bytes, used % 8 == 0 ? sizeof bytes : 400 + used % 9);
        ol_index index = open_index("a.index", OL_INDEX_OFFSET, 0, 10485760, used % 2 ? OL_INDEX_READ : OL_INDEX_APPEND);
        OL_CHECK_INT(index.count, used);
        check_lookup(&index, 1000, used, used * 100);
        int status = ol_index_check(&index, 100 * used + 1, used + 1, &error);
        OL_CHECK_INT(status, used % 8 == 0 || used % 9 % 8 == 0 ? OL_OK : OL_CORRUPT);
        if (index.mode == OL_INDEX_APPEND) {
            OL_CHECK_OK(ol_offset_index_append(&index, used + 1, 100 * used + 100, &error), &error);
            OL_CHECK_OK(ol_index_trim(&index, &error), &error);
            OL_CHECK_OK(ol_index_check(&index, 100 * used + 101, used + 2, &error), &error);
        }
        ol_index_close(&index);
    }
    end();
}

OL_TEST(checks_say_what_is_wrong) {
    const struct {
        ol_index_kind kind;
        const char *hex;
        int64_t position;
        const char *reason;
    } cases[] = {
        {OL_INDEX_OFFSET, "", -1, NULL},
        {OL_INDEX_OFFSET, "00000001000000640000000200000065", -1, NULL},
        {OL_INDEX_OFFSET, "000000010000006400000000000000000000000000000000", -1, NULL},
        {OL_INDEX_OFFSET, "0000000100000064000000", 8, "multiple"},
        {OL_INDEX_OFFSET, "00000001000000640000000100000065", 8, "offset does not grow"},
        {OL_INDEX_OFFSET, "00000001000000640000000200000064", 8, "position does not grow"},
        {OL_INDEX_OFFSET, "0000000100000064000000000000000000000002000000c8", 16, "zeros"},
        {OL_INDEX_OFFSET, "ffffffff00000064", 0, "below"},
        {OL_INDEX_OFFSET, "00000001ffffffff", 0, "negative"},
        {OL_INDEX_OFFSET, "0000000100001000", 0, "end of the log"},
        {OL_INDEX_OFFSET, "0000100000000064", 0, "end of the segment"},
        {OL_INDEX_TIME, "0000018bcfe56800000000310000018bcfe5680100000031", -1, NULL},
        {OL_INDEX_TIME, "0000018bcfe56800000000310000018bcfe5680000000032", 12, "timestamp does not grow"},
        {OL_INDEX_TIME, "0000018bcfe56800000000310000018bcfe5680100000030", 12, "goes back"},
        {OL_INDEX_TIME, "ffffffffffffffff00000031", 0, "timestamp is negative"},
        {OL_INDEX_TIME, "0000018bcfe56800", 0, "multiple"},
    };
    char path[] = "/tmp/ol_test_index_XXXXXX";
    close(mkstemp(path));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(cases[i].hex, &size);
        OL_CHECK_OK(ol_fs_replace_file(ol_fs_posix(), path, bytes, size, &error), &error);
        int64_t most = (int64_t)size;
        if (size > 0) {
            OL_CHECK_INT(ol_index_check_file(cases[i].kind, ol_fs_posix(), path, most - 1, 100, 4096, 100 + 4096, &error),
                         OL_CORRUPT);
        }
        int of_file = ol_index_check_file(cases[i].kind, ol_fs_posix(), path, most, 100, 4096, 100 + 4096, &error);
        int status = ol_index_check_bytes(cases[i].kind, ol_slice_of(bytes, size), 100, 4096, 100 + 4096, &error);
        OL_CHECK_INT(of_file, status);
        free(bytes);
        OL_CHECK_INT(status, cases[i].reason == NULL ? OL_OK : OL_CORRUPT);
        if (cases[i].reason == NULL) continue;
        OL_CHECK_INT(error.position, cases[i].position);
        if (strstr(error.reason, cases[i].reason) == NULL) fprintf(stderr, "%s\n", error.reason);
        OL_CHECK(strstr(error.reason, cases[i].reason) != NULL);
    }
    unlink(path);
    OL_CHECK_INT(ol_index_check_file(OL_INDEX_OFFSET, ol_fs_posix(), path, 100, 0, 1, 1, &error), OL_NO_SUCH_FILE);
}

/* Any bytes: no entry that could not be is answered, nothing is read beyond the file. */
OL_TEST(garbage_is_survived) {
    begin();
    uint8_t bytes[300];
    for (int round = 0; round < 400; round++) {
        size_t size = ol_test_below(sizeof bytes);
        for (size_t i = 0; i < size; i++) bytes[i] = ol_test_below(3) == 0 ? 0 : (uint8_t)ol_test_random();
        ol_test_write_file(ol_test_path(directory, "g"), bytes, size);
        ol_index_kind kind = round % 2 ? OL_INDEX_TIME : OL_INDEX_OFFSET;
        int64_t base = round % 3 ? 5000 : INT64_MAX;
        ol_index index = open_index("g", kind, base, 4096, OL_INDEX_APPEND);
        (void)!ol_index_check(&index, 1 << 20, INT64_MAX, &error);
        for (int probe = 0; probe < 20; probe++) {
            int64_t first, second, wanted = (int64_t)ol_test_random();
            if (kind == OL_INDEX_OFFSET) {
                OL_CHECK_OK(ol_offset_index_lookup(&index, wanted, &first, &second, &error), &error);
                OL_CHECK(first >= base && second >= 0);
            } else {
                OL_CHECK_OK(ol_time_index_lookup(&index, wanted, &first, &second, &error), &error);
                OL_CHECK(second >= base);
            }
        }
        OL_CHECK_OK(ol_index_truncate(&index, base + (base < INT64_MAX ? 10 : 0), 1000, &error), &error);
        OL_CHECK_OK(ol_index_reset(&index, &error), &error);
        OL_CHECK_OK(ol_index_trim(&index, &error), &error);
        ol_index_close(&index);
    }
    end();
}

OL_TEST(appends_go_on_when_the_disk_is_full) {
    begin();
    OL_CHECK_OK(ol_fault_fs_create(directory, &fs, &error), &error);
    ol_index index = open_index("a.index", OL_INDEX_OFFSET, 0, 10485760, OL_INDEX_APPEND);
    int64_t next = 1;
    for (; next <= OL_INDEX_BLOCK_ENTRIES; next++) {
        OL_CHECK_OK(ol_offset_index_append(&index, next, next * 10, &error), &error);
    }
    ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + 1, ENOSPC);
    OL_CHECK_OK(ol_offset_index_append(&index, next, next * 10, &error), &error);
    OL_CHECK_INT(index.dropped, 1);
    check_lookup(&index, next, next - 1, (next - 1) * 10);
    ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + 1, ENOSPC);
    OL_CHECK_INT(ol_index_flush(&index, &error), OL_DISK_FULL);
    next++;
    OL_CHECK_OK(ol_offset_index_append(&index, next, next * 10, &error), &error);
    OL_CHECK_INT(index.count, OL_INDEX_BLOCK_ENTRIES + 1);
    check_lookup(&index, next, next, next * 10);
    OL_CHECK_OK(ol_index_trim(&index, &error), &error);
    OL_CHECK_OK(ol_index_check(&index, next * 10 + 1, next + 1, &error), &error);
    ol_index_close(&index);
    ol_fault_fs_free(fs);
    end();
}

OL_TEST(missing_files_are_reported_or_created) {
    begin();
    ol_index index;
    OL_CHECK_INT(ol_index_open(&index, fs, ol_test_path(directory, "a.index"), OL_INDEX_OFFSET, 0, 4096, OL_INDEX_READ, &error),
                 OL_NO_SUCH_FILE);
    index = open_index("a.index", OL_INDEX_OFFSET, 0, 4096, OL_INDEX_APPEND);
    OL_CHECK_INT(index.capacity, 512);
    ol_index_close(&index);
    index = open_index("a.index", OL_INDEX_OFFSET, 0, 4096, OL_INDEX_READ);
    check_lookup(&index, 7, 0, 0);
    ol_index_close(&index);
    end();
}

OL_TEST_MAIN()
