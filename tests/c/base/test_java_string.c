/* base/java_string: every character there is, every way to break one, and that hash and length follow from the characters (docs/format/partitioning.md §4). */
#include "base/java_string.h"
#include "ol_test.h"

enum { REPLACEMENT = 0xfffd };

static size_t encode(uint32_t c, uint8_t bytes[4]) {
    if (c < 0x80) {
        bytes[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        bytes[0] = (uint8_t)(0xc0 | c >> 6);
        bytes[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        bytes[0] = (uint8_t)(0xe0 | c >> 12);
        bytes[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        bytes[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    bytes[0] = (uint8_t)(0xf0 | c >> 18);
    bytes[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    bytes[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    bytes[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

static bool is_surrogate(uint32_t c) { return c >= 0xd800 && c < 0xe000; }

/* The bytes in a block of their own, so that one read too many is seen. */
static size_t character_of(const uint8_t *bytes, size_t size, uint32_t *c) {
    uint8_t *copy = malloc(size);
    memcpy(copy, bytes, size);
    size_t used = ol_java_character(copy, size, c);
    free(copy);
    return used;
}

OL_TEST(every_character_is_itself) {
    for (uint32_t c = 0; c < 0x110000; c++) {
        uint8_t bytes[5] = {0};
        uint32_t found;
        bool valid;
        size_t size = encode(c, bytes);
        bytes[size] = 'x';
        OL_CHECK_INT(ol_java_character(bytes, size + 1, &found), size);
        OL_CHECK_INT(found, is_surrogate(c) ? REPLACEMENT : c);
        OL_CHECK_INT(ol_utf16_units(ol_slice_of(bytes, size + 1), &valid), c < 0x10000 ? 2 : 3);
        OL_CHECK(valid == !is_surrogate(c));
    }
}

OL_TEST(a_character_that_is_cut_off_is_one_replacement) {
    static const uint32_t characters[] = {0xe9, 0x7ff, 0x800, 0x20ac, 0xffff, 0x10000, 0x1f600, 0x10ffff};
    for (size_t i = 0; i < sizeof characters / sizeof *characters; i++) {
        uint8_t bytes[4];
        size_t size = encode(characters[i], bytes);
        for (size_t left = 1; left < size; left++) {
            uint32_t found = 0;
            OL_CHECK_INT(character_of(bytes, left, &found), left);
            OL_CHECK_INT(found, REPLACEMENT);
        }
        /* Neither does it take what follows along. */
        for (size_t left = 1; left < size; left++) {
            uint8_t broken[4];
            uint32_t found = 0;
            memcpy(broken, bytes, left);
            broken[left] = 'x';
            OL_CHECK_INT(character_of(broken, left + 1, &found), left);
            OL_CHECK_INT(found, REPLACEMENT);
        }
    }
}

/* Bytes that no character begins with, and such as would be a shorter or a too large one. */
OL_TEST(bytes_that_are_no_character_are_replaced_one_by_one) {
    static const struct {
        const char *bytes;
        size_t used;
    } cases[] = {
        {"\x80xx", 1},         {"\xbfxx", 1},         {"\xc0\x80", 1},           {"\xc1\xbf", 1},         {"\xe0\x80\x80", 1},
        {"\xe0\x9f\xbf", 1},   {"\xf0\x80\x80\x80", 1}, {"\xf0\x8f\xbf\xbf", 1}, {"\xf4\x90\x80\x80", 1}, {"\xf5\x80\x80\x80", 1},
        {"\xff\xff\xff\xff", 1}, {"\xed\xa0\x80", 3},   {"\xed\xbf\xbf", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t found = 0;
        OL_CHECK_INT(character_of((const uint8_t *)cases[i].bytes, strlen(cases[i].bytes), &found), cases[i].used);
        OL_CHECK_INT(found, REPLACEMENT);
    }
}

/* Java's String.hashCode of the characters, one by one. */
static int32_t hash_by_characters(const uint8_t *bytes, size_t size, size_t *units) {
    uint32_t hash = 0;
    *units = 0;
    while (size > 0) {
        uint32_t c;
        size_t used = ol_java_character(bytes, size, &c);
        OL_CHECK(used >= 1 && used <= size);
        if (c >= 0x10000) {
            hash = hash * 31 + (0xd800 + ((c - 0x10000) >> 10));
            hash = hash * 31 + (0xdc00 + (c & 0x3ff));
            *units += 2;
        } else {
            hash = hash * 31 + c;
            *units += 1;
        }
        bytes += used;
        size -= used;
    }
    return (int32_t)hash;
}

OL_TEST(hash_and_length_follow_from_the_characters_whatever_the_bytes) {
    for (int run = 0; run < 40000; run++) {
        size_t size = (size_t)ol_test_below(40);
        uint8_t *bytes = malloc(size + 1);
        bool wild = ol_test_below(2) != 0;
        for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(wild || ol_test_below(12) == 0 ? ol_test_below(256) : ol_test_below(128));
        size_t units;
        bool valid;
        int32_t hash = hash_by_characters(bytes, size, &units);
        OL_CHECK_INT(ol_java_hash(ol_slice_of(bytes, size)), hash);
        OL_CHECK_INT(ol_utf16_units(ol_slice_of(bytes, size), &valid), units);
        int64_t positive = hash == INT32_MIN ? 0 : hash < 0 ? -(int64_t)hash : hash;
        OL_CHECK_INT(ol_partition_for(ol_slice_of(bytes, size), 50), positive % 50);
        OL_CHECK_INT(ol_partition_for(ol_slice_of(bytes, size), INT32_MAX), positive % INT32_MAX);
        OL_CHECK_INT(ol_partition_for(ol_slice_of(bytes, size), 1), 0);
        free(bytes);
    }
}

OL_TEST_MAIN()
