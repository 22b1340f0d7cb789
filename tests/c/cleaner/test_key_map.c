/* The map of key hashes: against a model, while it grows, when it is full. */
#include "cleaner/key_map.h"

#include "ol_test.h"

static ol_hash128 random_key(void) {
    uint64_t low = ol_test_random();
    return (ol_hash128){low, ol_test_random()};
}

OL_TEST(what_is_put_is_found) {
    enum { KEYS = 20000 };
    static ol_hash128 keys[KEYS];
    static int64_t offsets[KEYS];
    ol_key_map map;
    ol_error error;
    int64_t previous;
    OL_CHECK_OK(ol_key_map_create(&map, 1 << 20, 10, &error), &error);
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = random_key();
        offsets[i] = -1;
    }
    for (int i = 0; i < 5 * KEYS; i++) {
        size_t at = ol_test_below(KEYS);
        int64_t offset = (int64_t)ol_test_below(1 << 30);
        OL_CHECK(ol_key_map_put(&map, keys[at], offset, &previous));
        OL_CHECK_INT(previous, offsets[at]);
        if (offset > offsets[at]) offsets[at] = offset;
    }
    uint64_t count = 0;
    for (size_t i = 0; i < KEYS; i++) {
        OL_CHECK_INT(ol_key_map_get(&map, keys[i]), offsets[i]);
        count += offsets[i] >= 0;
    }
    OL_CHECK_INT(map.count, count);
    for (int i = 0; i < KEYS; i++) OL_CHECK_INT(ol_key_map_get(&map, random_key()), -1);
    OL_CHECK(map.capacity * sizeof(ol_key_entry) <= 1 << 20);
    ol_key_map_clear(&map);
    OL_CHECK_INT(map.count, 0);
    for (size_t i = 0; i < KEYS; i++) OL_CHECK_INT(ol_key_map_get(&map, keys[i]), -1);
    ol_key_map_free(&map);
}

OL_TEST(hashes_that_agree_in_one_half_are_different_keys) {
    ol_key_map map;
    ol_error error;
    int64_t previous;
    OL_CHECK_OK(ol_key_map_create(&map, 1 << 16, 0, &error), &error);
    for (uint64_t i = 0; i < 20; i++) {
        OL_CHECK(ol_key_map_put(&map, (ol_hash128){7, i}, (int64_t)i, &previous));
        OL_CHECK_INT(previous, -1);
    }
    OL_CHECK(ol_key_map_put(&map, (ol_hash128){8, 0}, 100, &previous));
    for (uint64_t i = 0; i < 20; i++) OL_CHECK_INT(ol_key_map_get(&map, (ol_hash128){7, i}), i);
    OL_CHECK_INT(ol_key_map_get(&map, (ol_hash128){7, 20}), -1);
    OL_CHECK_INT(ol_key_map_get(&map, (ol_hash128){8, 0}), 100);
    OL_CHECK_INT(ol_key_map_get(&map, (ol_hash128){6, 0}), -1);
    ol_key_map_free(&map);
}

OL_TEST(hashes_at_either_end_have_a_place) {
    ol_key_map map;
    ol_error error;
    int64_t previous;
    OL_CHECK_OK(ol_key_map_create(&map, 64 * sizeof(ol_key_entry), 0, &error), &error);
    OL_CHECK(ol_key_map_put(&map, (ol_hash128){0, 0}, 0, &previous));
    OL_CHECK_INT(ol_key_map_get(&map, (ol_hash128){0, 0}), 0);
    /* All at the last slot: a key that does not fit after it is refused, nothing is written past the end. */
    uint64_t put = 0;
    while (ol_key_map_put(&map, (ol_hash128){UINT64_MAX, put}, (int64_t)put, &previous)) put++;
    OL_CHECK(put > 0 && put < 64);
    for (uint64_t i = 0; i < put; i++) OL_CHECK_INT(ol_key_map_get(&map, (ol_hash128){UINT64_MAX, i}), i);
    OL_CHECK_INT(ol_key_map_get(&map, (ol_hash128){UINT64_MAX, put}), -1);
    ol_key_map_free(&map);
}

OL_TEST(a_full_map_refuses_new_keys_and_takes_known_ones) {
    ol_key_map map;
    ol_error error;
    int64_t previous;
    OL_CHECK_OK(ol_key_map_create(&map, 4096, 1, &error), &error);
    ol_hash128 keys[200];
    size_t put = 0;
    for (keys[0] = random_key(); ol_key_map_put(&map, keys[put], (int64_t)put, &previous); keys[put] = random_key()) put++;
    OL_CHECK(put >= 100 && put <= 4096 / sizeof(ol_key_entry));
    OL_CHECK(map.capacity * sizeof(ol_key_entry) <= 4096);
    for (size_t i = 0; i < put; i++) {
        OL_CHECK(ol_key_map_put(&map, keys[i], (int64_t)i + 1000, &previous));
        OL_CHECK_INT(previous, i);
        OL_CHECK(ol_key_map_put(&map, keys[i], 3, &previous));
        OL_CHECK_INT(previous, i + 1000);
        OL_CHECK_INT(ol_key_map_get(&map, keys[i]), i + 1000);
    }
    OL_CHECK_INT(ol_key_map_get(&map, keys[put]), -1);
    ol_key_map_free(&map);
}

OL_TEST(a_hash_depends_on_bytes_size_kind_and_secrets) {
    enum { SIZE_MAX_TRIED = 80 };
    ol_key_hasher hasher, other, random;
    ol_key_hasher_init(&hasher, ol_test_seed);
    ol_key_hasher_init(&other, ol_test_seed + 1);
    ol_key_hasher_init(&random, 0);
    for (size_t size = 0; size <= SIZE_MAX_TRIED; size++) {
        /* Exactly as large as it says, for the sanitizer. */
        uint8_t *bytes = calloc(size ? size : 1, 1);
        ol_hash128 hash = ol_key_hash(&hasher, bytes, size, 0);
        ol_hash128 kind = ol_key_hash(&hasher, bytes, size, 1);
        ol_hash128 secret = ol_key_hash(&other, bytes, size, 0);
        ol_hash128 drawn = ol_key_hash(&random, bytes, size, 0);
        OL_CHECK(hash.low != hash.high && hash.low != kind.low && hash.high != kind.high);
        OL_CHECK(hash.low != secret.low && hash.high != secret.high && hash.low != drawn.low && hash.high != drawn.high);
        for (size_t bit = 0; bit < size * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            ol_hash128 flipped = ol_key_hash(&hasher, bytes, size, 0);
            OL_CHECK(hash.low != flipped.low && hash.high != flipped.high);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        if (size > 0) {
            ol_hash128 shorter = ol_key_hash(&hasher, bytes, size - 1, 0);
            OL_CHECK(hash.low != shorter.low && hash.high != shorter.high);
        }
        free(bytes);
    }
}

OL_TEST_MAIN()
