/* The map of 64-bit keys against an array that is searched. */
#include "base/int64_map.h"
#include "ol_test.h"

enum { KEYS = 300, STEPS = 20000 };

/* Neighbouring keys, and such that differ in high bits alone. */
static uint64_t key_of(size_t index) {
    return index % 2 == 0 ? index : (uint64_t)index << 40;
}

static void check_all(const ol_int64_map *map, const uint64_t *expected) {
    size_t count = 0;
    for (size_t i = 0; i < KEYS; i++) {
        OL_CHECK_INT(ol_int64_map_get(map, key_of(i)), expected[i]);
        count += expected[i] != 0;
    }
    OL_CHECK_INT(map->count, count);
}

OL_TEST(a_map_holds_what_was_set_last) {
    ol_int64_map map = {0};
    uint64_t expected[KEYS] = {0};
    ol_error error;
    for (int step = 0; step < STEPS; step++) {
        size_t index = ol_test_below(KEYS);
        uint64_t value = 1 + ol_test_below(1000);
        OL_CHECK_OK(ol_int64_map_reserve(&map, map.count + 1, &error), &error);
        ol_int64_map_prefetch(&map, key_of(index));
        switch (ol_test_below(5)) {
            case 0:
                ol_int64_map_set(&map, key_of(index), value);
                expected[index] = value;
                break;
            case 1:
            case 2:
                OL_CHECK_INT(ol_int64_map_exchange(&map, key_of(index), value), expected[index]);
                expected[index] = value;
                break;
            default:
                ol_int64_map_set(&map, key_of(index), 0);
                expected[index] = 0;
        }
        if (step % 100 == 0) check_all(&map, expected);
        if (step % 3000 == 2999) {
            ol_int64_map_clear(&map);
            for (size_t i = 0; i < KEYS; i++) expected[i] = 0;
            check_all(&map, expected);
        }
    }
    check_all(&map, expected);
    ol_int64_map_free(&map);
}

OL_TEST(a_large_map_that_is_cleared_gives_its_memory_back) {
    ol_int64_map map = {0};
    ol_error error;
    OL_CHECK_OK(ol_int64_map_reserve(&map, 100000, &error), &error);
    for (uint64_t i = 0; i < 100000; i++) ol_int64_map_set(&map, i, i + 1);
    ol_int64_map_clear(&map);
    OL_CHECK(map.entries == NULL && map.capacity == 0);
    OL_CHECK_INT(ol_int64_map_get(&map, 7), 0);
    ol_int64_map_prefetch(&map, 7);
    OL_CHECK_OK(ol_int64_map_reserve(&map, 1, &error), &error);
    OL_CHECK_INT(ol_int64_map_exchange(&map, 7, 9), 0);
    ol_int64_map_clear(&map);
    OL_CHECK(map.capacity != 0);
    OL_CHECK_INT(ol_int64_map_get(&map, 7), 0);
    ol_int64_map_free(&map);
}

OL_TEST_MAIN()
