/* Rare parts of positions beside a plain array: found by key, made once, gone when nothing is set. */
#include "table/cell_extras.h"
#include "ol_test.h"

enum { KEYS = 500 };

static uint64_t key_of(int i) { return ol_cell_extras_key((uint32_t)(i % 7 + 1), i); }

OL_TEST(entries_are_those_of_a_plain_array) {
    ol_cell_extras extras = {0};
    static int64_t expected[KEYS];      /* the expire timestamp; -1: no entry */
    ol_error error;
    ol_cell_extras_init(&extras, 42);
    for (int i = 0; i < KEYS; i++) expected[i] = -1;
    for (int step = 0; step < 20000; step++) {
        int i = (int)ol_test_below(KEYS);
        ol_cell_extras_entry *entry = ol_cell_extras_find(&extras, key_of(i));
        OL_CHECK_INT(entry != NULL, expected[i] >= 0);
        if (entry != NULL && ol_test_below(2) == 0) {
            entry->expire_timestamp = -1;
            ol_cell_extras_drop(&extras, entry);
            expected[i] = -1;
        } else {
            OL_CHECK_OK(ol_cell_extras_make(&extras, key_of(i), &entry, &error), &error);
            if (expected[i] >= 0) OL_CHECK_INT(entry->expire_timestamp, expected[i]);
            entry->expire_timestamp = expected[i] = (int64_t)ol_test_below(1000000);
        }
        if (step % 499 == 0) ol_cell_extras_verify(&extras);
    }
    int64_t present = 0, walked = 0;
    for (int i = 0; i < KEYS; i++) present += expected[i] >= 0;
    uint32_t at = 0;
    const ol_cell_extras_entry *entry;
    while ((entry = ol_cell_extras_next(&extras, &at)) != NULL) {
        OL_CHECK_INT(entry->expire_timestamp, expected[(int32_t)entry->key]);
        walked++;
    }
    OL_CHECK_INT(walked, present);
    OL_CHECK(ol_cell_extras_resident(&extras) >= ol_cell_extras_unused(&extras));
    ol_cell_extras_free_all(&extras);
}

OL_TEST(a_key_tells_pairs_and_partitions_apart) {
    OL_CHECK(ol_cell_extras_key(1, 2) != ol_cell_extras_key(2, 1));
    OL_CHECK(ol_cell_extras_key(1, INT32_MAX) != ol_cell_extras_key(2, 0));
}

OL_TEST_MAIN()
