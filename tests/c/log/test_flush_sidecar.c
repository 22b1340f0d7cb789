/* The sidecar `offsetlog.flushed`: golden bytes, half slots, stores that were torn, hostile bytes. */
#include "log/files/flush_sidecar.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "ol_test.h"
#include "ol_test_directory.h"
#include "testing/fault_fs.h"

enum { SLOT = OL_FLUSH_SIDECAR_SLOT_SIZE, FILE_SIZE = OL_FLUSH_SIDECAR_FILE_SIZE };

typedef struct place {
    char root[256];
    const char *path;
    ol_fs *fs;
    ol_flush_sidecar sidecar;
} place;

static void place_make(place *p, ol_fs *fs) {
    ol_test_directory_make(p->root);
    p->path = strdup(ol_test_path(p->root, "offsetlog.flushed"));
    p->fs = fs;
    p->sidecar = (ol_flush_sidecar){0};
}

static void place_remove(place *p) {
    ol_flush_sidecar_close(&p->sidecar);
    ol_test_directory_remove(p->root);
    free((char *)p->path);
}

static ol_flush_sidecar_bound bound_at(int64_t offset) {
    return (ol_flush_sidecar_bound){
        .offset = offset, .segment_base = offset / 2, .position = offset * 10, .leader_epoch = 3};
}

static void check_bound(const ol_flush_sidecar_bound *bound, int64_t offset) {
    OL_CHECK_INT(bound->offset, offset);
    OL_CHECK_INT(bound->segment_base, offset / 2);
    OL_CHECK_INT(bound->position, offset * 10);
    OL_CHECK_INT(bound->leader_epoch, 3);
}

static void open_it(place *p) {
    ol_error error;
    OL_CHECK_OK(ol_flush_sidecar_open(&p->sidecar, p->fs, p->path, &error), &error);
}

static void store(place *p, int64_t offset) {
    ol_error error;
    ol_flush_sidecar_bound bound = bound_at(offset);
    OL_CHECK_OK(ol_flush_sidecar_store(&p->sidecar, &bound, &error), &error);
}

static void lower(place *p, int64_t offset) {
    ol_error error;
    ol_flush_sidecar_bound bound = bound_at(offset);
    OL_CHECK_OK(ol_flush_sidecar_lower(&p->sidecar, &bound, &error), &error);
}

static int load(const place *p, ol_flush_sidecar_found *found) {
    ol_error error;
    int status = ol_flush_sidecar_load(ol_fs_posix(), p->path, found, &error);
    OL_CHECK(status == OL_OK || strcmp(error.path, p->path) == 0);
    return status;
}

static void check_found(const place *p, int64_t offset, bool is_half) {
    ol_flush_sidecar_found found;
    OL_CHECK_INT(load(p, &found), OL_OK);
    check_bound(&found.bound, offset);
    OL_CHECK_INT(found.is_half, is_half);
}

static void read_bytes(const place *p, uint8_t bytes[FILE_SIZE]) {
    FILE *file = fopen(p->path, "rb");
    OL_CHECK(file != NULL && fread(bytes, 1, FILE_SIZE, file) == FILE_SIZE);
    fclose(file);
}

/* -------------------------------------------------------------------------------- golden */

/* Sequences 2 and 1: the second store went to the first slot. */
static const char golden[] =
    "4f4c4642000100000000000000000002" "00000000000000c80000000000000064" "00000000000007d00000000300000000"
    "000000000000000000000000b079a9f8"
    "4f4c4642000100000000000000000001" "00000000000000640000000000000032" "00000000000003e80000000300000000"
    "000000000000000000000000be9ce390";

OL_TEST(the_golden_bytes_are_written_and_read) {
    place p;
    uint8_t bytes[FILE_SIZE];
    place_make(&p, ol_fs_posix());
    open_it(&p);
    store(&p, 100);
    store(&p, 200);
    read_bytes(&p, bytes);
    size_t size;
    uint8_t *expected = ol_test_unhex(golden, &size);
    OL_CHECK_INT(size, FILE_SIZE);
    if (memcmp(bytes, expected, size) != 0) {
        for (size_t i = 0; i < size; i++) fprintf(stderr, "%02x", bytes[i]);
        fprintf(stderr, "\n");
    }
    OL_CHECK(memcmp(bytes, expected, size) == 0);
    free(expected);
    check_found(&p, 200, false);
    place_remove(&p);
}

OL_TEST(the_newer_slot_counts_and_the_sequence_goes_on_after_an_open) {
    place p;
    place_make(&p, ol_fs_posix());
    open_it(&p);
    lower(&p, 1000);
    for (int64_t i = 1; i < 20; i++) {
        /* Lower or higher: the last one counts. */
        int64_t offset = i % 3 == 0 ? 1000 - i : 1000 + i;
        store(&p, offset);
        check_found(&p, offset, false);
        if (i % 4 != 0) continue;
        ol_flush_sidecar_close(&p.sidecar);
        open_it(&p);
    }
    lower(&p, 3);
    check_found(&p, 3, false);
    place_remove(&p);
}

/* -------------------------------------------------------------------------------- half, torn */

OL_TEST(a_slot_that_is_not_whole_leaves_the_other) {
    for (int damaged = 0; damaged < 2; damaged++) {
        for (size_t bit = 0; bit < 8 * SLOT; bit++) {
            place p;
            uint8_t bytes[FILE_SIZE];
            place_make(&p, ol_fs_posix());
            open_it(&p);
            store(&p, 100);     /* in slot 1 */
            store(&p, 200);
            read_bytes(&p, bytes);
            bytes[damaged * SLOT + bit / 8] ^= (uint8_t)(1u << bit % 8);
            ol_test_write_file(p.path, bytes, sizeof bytes);
            check_found(&p, damaged == 0 ? 100 : 200, true);
            place_remove(&p);
        }
    }
}

/* A process is killed within a store, the bytes in any order: what is read is the bound before or the one after. */
OL_TEST(a_torn_store_leaves_the_bound_before_it) {
    place p;
    uint8_t before[FILE_SIZE], after[FILE_SIZE], torn[FILE_SIZE];
    ol_flush_sidecar_found found;
    place_make(&p, ol_fs_posix());
    open_it(&p);
    lower(&p, 100);
    store(&p, 200);
    read_bytes(&p, before);
    store(&p, 300);
    read_bytes(&p, after);
    int64_t halves = 0;
    for (int64_t i = 0; i < ol_test_depth(2000, 50000); i++) {
        memcpy(torn, before, sizeof torn);
        if (i <= FILE_SIZE) {
            memcpy(torn, after, (size_t)i);
        } else {
            for (size_t at = 0; at < sizeof torn; at += 8) {
                if (ol_test_below(2)) memcpy(torn + at, after + at, 8);
            }
        }
        ol_test_write_file(p.path, torn, sizeof torn);
        OL_CHECK_INT(load(&p, &found), OL_OK);
        check_bound(&found.bound, found.bound.offset == 300 ? 300 : 200);
        OL_CHECK(!found.is_half || found.bound.offset == 200);
        halves += found.is_half;
    }
    printf("  %" PRId64 " halves (seed %" PRIu64 ")\n", halves, ol_test_seed);
    OL_CHECK(halves > 100);
    place_remove(&p);
}

/* The next store goes to the slot that is not whole: the bound is never without one that is. */
OL_TEST(a_store_that_failed_is_not_followed_by_one_over_the_whole_slot) {
    for (int failures = 1; failures < 4; failures++) {
        place p;
        ol_error error;
        ol_flush_sidecar_bound bound = bound_at(300);
        uint8_t bytes[FILE_SIZE];
        place_make(&p, NULL);
        OL_CHECK_OK(ol_fault_fs_create(p.root, &p.fs, &error), &error);
        open_it(&p);
        lower(&p, 100);
        store(&p, 200);
        for (int i = 0; i < failures; i++) {
            ol_fault_fs_fail_at(p.fs, ol_fault_fs_operations(p.fs) + 1, EIO);
            OL_CHECK_INT(ol_flush_sidecar_store(&p.sidecar, &bound, &error), OL_IO);
        }
        check_found(&p, 200, false);
        read_bytes(&p, bytes);
        int whole = ol_load_i64(bytes + 16) == 200 ? 0 : 1;
        store(&p, 300);
        uint8_t after[FILE_SIZE];
        read_bytes(&p, after);
        OL_CHECK(memcmp(bytes + whole * SLOT, after + whole * SLOT, SLOT) == 0);
        check_found(&p, 300, false);
        ol_flush_sidecar_close(&p.sidecar);
        ol_fault_fs_free(p.fs);
        place_remove(&p);
    }
}

/* A power loss leaves a bound that was stored since the last one that was synced. */
OL_TEST(a_power_loss_leaves_a_bound_that_was_stored) {
    place p;
    ol_error error;
    place_make(&p, NULL);
    OL_CHECK_OK(ol_fault_fs_create(p.root, &p.fs, &error), &error);
    open_it(&p);
    lower(&p, 100);
    OL_CHECK_OK(p.fs->flush_directory(p.fs, p.root, &error), &error);
    int seen[10] = {0};
    for (int64_t i = 1; i < 10; i++) {
        store(&p, 100 + i);
        if (i % 3 == 0) OL_CHECK_OK(ol_fault_fs_write_back(p.fs, (uint64_t)i, &error), &error);
        for (uint64_t seed = 0; seed < 8; seed++) {
            place left = p;
            ol_flush_sidecar_found found;
            ol_test_directory_make(left.root);
            left.path = ol_test_path(left.root, "offsetlog.flushed");
            OL_CHECK_OK(ol_fault_fs_materialize(p.fs, left.root, seed, &error), &error);
            OL_CHECK_INT(load(&left, &found), OL_OK);
            OL_CHECK(!found.is_half && found.bound.offset >= 100 && found.bound.offset <= 100 + i);
            seen[found.bound.offset - 100]++;
            ol_test_directory_remove(left.root);
        }
    }
    OL_CHECK(seen[0] > 0 && seen[9] > 0);
    /* Lowered, it is synced: nothing higher comes back. */
    lower(&p, 50);
    for (uint64_t seed = 0; seed < 8; seed++) {
        place left = p;
        ol_test_directory_make(left.root);
        left.path = ol_test_path(left.root, "offsetlog.flushed");
        OL_CHECK_OK(ol_fault_fs_materialize(p.fs, left.root, seed, &error), &error);
        check_found(&left, 50, false);
        ol_test_directory_remove(left.root);
    }
    ol_flush_sidecar_close(&p.sidecar);
    ol_fault_fs_free(p.fs);
    place_remove(&p);
}

/* -------------------------------------------------------------------------------- hostile */

OL_TEST(files_of_other_sizes_are_damaged) {
    static const size_t sizes[] = {0, 1, SLOT - 1, SLOT, SLOT + 1, FILE_SIZE - 1, FILE_SIZE + 1, 5000};
    place p;
    uint8_t bytes[5000] = {0};
    ol_flush_sidecar_found found;
    place_make(&p, ol_fs_posix());
    OL_CHECK_INT(load(&p, &found), OL_NO_SUCH_FILE);
    open_it(&p);
    lower(&p, 100);
    read_bytes(&p, bytes);
    ol_flush_sidecar_close(&p.sidecar);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ol_test_write_file(p.path, bytes, sizes[i]);
        OL_CHECK_INT(load(&p, &found), OL_CORRUPT);
        /* It is used again. */
        open_it(&p);
        lower(&p, 300);
        check_found(&p, 300, false);
        ol_flush_sidecar_close(&p.sidecar);
    }
    OL_CHECK(truncate(p.path, (off_t)1 << 42) == 0);
    OL_CHECK_INT(load(&p, &found), OL_CORRUPT);
    place_remove(&p);
}

/* A slot with a right CRC and fields that cannot be. */
OL_TEST(slots_that_nobody_stored_do_not_count) {
    static const struct {
        size_t at;
        int64_t value;
        bool counts;
    } cases[] = {
        {8, 0, false},  {8, -1, false},  {8, INT64_MIN, false}, {8, INT64_MAX, false}, {8, INT64_MAX / 2 + 1, false},
        {8, INT64_MAX / 2, true},        {16, -1, false},       {16, INT64_MAX, true}, {24, -1, false},
        {24, INT64_MAX, true},           {32, -1, false},       {32, INT64_MAX, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        place p;
        uint8_t bytes[FILE_SIZE];
        ol_flush_sidecar_found found;
        place_make(&p, ol_fs_posix());
        open_it(&p);
        store(&p, 100);
        store(&p, 200);
        ol_flush_sidecar_close(&p.sidecar);
        read_bytes(&p, bytes);
        ol_store_i64(bytes + cases[i].at, cases[i].value);
        ol_store_u32(bytes + 60, ol_crc32c(bytes, 60));
        ol_test_write_file(p.path, bytes, sizeof bytes);
        OL_CHECK_INT(load(&p, &found), OL_OK);
        OL_CHECK_INT(found.is_half, !cases[i].counts);
        /* The next ones are newer. */
        if (!cases[i].counts) {
            open_it(&p);
            store(&p, 300);
            store(&p, 400);
            check_found(&p, 400, false);
        }
        place_remove(&p);
    }
}

OL_TEST(random_bytes_are_no_bound) {
    place p;
    uint8_t bytes[FILE_SIZE];
    ol_flush_sidecar_found found;
    place_make(&p, ol_fs_posix());
    for (int i = 0; i < 2000; i++) {
        for (size_t at = 0; at < sizeof bytes; at++) bytes[at] = (uint8_t)ol_test_random();
        if (i % 2) memcpy(bytes, "OLFB\0\1\0\0", 8);
        ol_test_write_file(p.path, bytes, sizeof bytes);
        OL_CHECK_INT(load(&p, &found), OL_CORRUPT);
    }
    place_remove(&p);
}

/* A file that could not be filled is not left, since it would be taken for one that was damaged. */
OL_TEST(a_full_disk_leaves_no_file) {
    place p;
    ol_error error;
    ol_flush_sidecar_found found;
    place_make(&p, NULL);
    OL_CHECK_OK(ol_fault_fs_create(p.root, &p.fs, &error), &error);
    for (int64_t operation = 1; operation < 3; operation++) {
        ol_fault_fs_fill(p.fs, ol_fault_fs_operations(p.fs) + operation);
        OL_CHECK_INT(ol_flush_sidecar_open(&p.sidecar, p.fs, p.path, &error), OL_DISK_FULL);
        ol_fault_fs_fill(p.fs, 0);
        OL_CHECK_INT(load(&p, &found), OL_NO_SUCH_FILE);
    }
    open_it(&p);
    lower(&p, 100);
    check_found(&p, 100, false);
    ol_flush_sidecar_close(&p.sidecar);
    ol_fault_fs_free(p.fs);
    place_remove(&p);
}

OL_TEST_MAIN()
