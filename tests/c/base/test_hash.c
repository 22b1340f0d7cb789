/* The hashes: XXH3-128 against the library's values, Java's String.hashCode against a Java machine's (docs/format/partitioning.md §4), and the quality of
 * the hash of the tables in memory. */
#include "java_hash_vectors.h"
#include "base/hash.h"
#include "base/java_string.h"
#include "ol_test.h"
#include "xxh3_vectors.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static ol_slice text(const char *characters) { return ol_slice_of(characters, strlen(characters)); }

OL_TEST(xxh3_equals_the_library_at_every_length) {
    for (size_t k = 0; k < COUNT_OF(xxh3_vectors); k++) {
        size_t size = xxh3_vectors[k].size;
        uint8_t *bytes = malloc(size ? size : 1);
        for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(i * i * 7 + i * 131 + (i >> 3) + size * 17);
        ol_hash128 hash = ol_xxh3_128(bytes, size);
        OL_CHECK_INT(hash.low, xxh3_vectors[k].hash.low);
        OL_CHECK_INT(hash.high, xxh3_vectors[k].hash.high);
        free(bytes);
    }
}

OL_TEST(sums_of_hashes_carry_and_borrow) {
    ol_hash128 a = {UINT64_MAX, 1}, b = {2, UINT64_MAX};
    ol_hash128 sum = ol_hash128_add(a, b);
    OL_CHECK_INT(sum.low, 1);
    OL_CHECK_INT(sum.high, 1);
    ol_hash128 back = ol_hash128_subtract(sum, b);
    OL_CHECK(back.low == a.low && back.high == a.high);
}

static const struct {
    const char *group;
    int32_t hash, of_50, of_7, of_100;
} groups[] = {
    {"testGroup", -1202336499, 49, 0, 99},
    {"", 0, 0, 0, 0},
    {"test", 3556498, 48, 1, 98},
    {"my-group", -1906497762, 12, 1, 62},
    {"console-consumer-12345", 158455506, 6, 6, 6},
    {"consumer-group-1", 147483020, 20, 6, 20},
    {"polygenelubricants", INT32_MIN, 0, 0, 0},
    {"DESIGNING WORKHOUSES", INT32_MIN, 0, 0, 0},
    {"group-\xc3\xa9", 293427483, 33, 6, 83},
    {"\xe7\xb5\x84-1", 30818792, 42, 4, 92},
    {"\xf0\x9f\x98\x80", 1772899, 49, 2, 99},
    {"grp-\xf0\x9f\x98\x80-x", -2126143882, 32, 2, 82},
    {"connect-cluster", 1440343063, 13, 5, 63},
    {"__consumer_offsets", -970371369, 19, 2, 69},
};

OL_TEST(partition_table_of_the_specification) {
    for (size_t k = 0; k < COUNT_OF(groups); k++) {
        ol_slice group = text(groups[k].group);
        OL_CHECK_INT(ol_java_hash(group), groups[k].hash);
        OL_CHECK_INT(ol_partition_for(group, 50), groups[k].of_50);
        OL_CHECK_INT(ol_partition_for(group, 7), groups[k].of_7);
        OL_CHECK_INT(ol_partition_for(group, 100), groups[k].of_100);
        OL_CHECK_INT(ol_partition_for(group, 1), 0);
    }
    OL_CHECK_INT(ol_java_hash(ol_slice_null()), 0);
}

OL_TEST(trap_01_abs_of_min_value) { OL_CHECK_INT(ol_partition_for(text("polygenelubricants"), 50), 0); }

OL_TEST(trap_02_31_bit_mask_instead_of_abs) { OL_CHECK_INT(ol_partition_for(text("my-group"), 50), 12); }

OL_TEST(trap_03_hashing_code_points_or_bytes) { OL_CHECK_INT(ol_partition_for(text("\xf0\x9f\x98\x80"), 50), 49); }

OL_TEST(trap_04_malformed_utf8_group_id) {
    OL_CHECK_INT(ol_java_hash(text("\xed\xa0\x80")), 65533);
    OL_CHECK_INT(ol_partition_for(text("\xed\xa0\x80"), 50), 33);
    OL_CHECK_INT(ol_java_hash(text("\xc0\x80")), 65533 * 31 + 65533);
    OL_CHECK_INT(ol_java_hash(text("\xe2\x82")), 65533);
    OL_CHECK_INT(ol_java_hash(text("\xf0\x9f\x98")), 65533);
}

OL_TEST(malformed_bytes_as_a_java_machine_groups_them) {
    for (size_t k = 0; k < COUNT_OF(java_hash_vectors); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(java_hash_vectors[k].hex, &size);
        OL_CHECK_INT(ol_java_hash(ol_slice_of(bytes, size)), java_hash_vectors[k].hash);
        free(bytes);
    }
}

OL_TEST(ascii_of_every_length_and_a_wide_character_at_every_place) {
    for (size_t size = 0; size < 100; size++) {
        uint8_t *bytes = malloc(size + 2);
        uint32_t expected = 0;
        for (size_t i = 0; i < size; i++) {
            bytes[i] = (uint8_t)ol_test_below(128);
            expected = expected * 31 + bytes[i];
        }
        OL_CHECK_INT(ol_java_hash(ol_slice_of(bytes, size)), (int32_t)expected);
        for (size_t at = 0; at + 2 <= size; at++) {
            uint8_t before[2] = {bytes[at], bytes[at + 1]};
            bytes[at] = 0xc3;
            bytes[at + 1] = 0xa9;
            expected = 0;
            for (size_t i = 0; i < size; i++) {
                if (i == at + 1) continue;
                expected = expected * 31 + (i == at ? 0xe9 : bytes[i]);
            }
            OL_CHECK_INT(ol_java_hash(ol_slice_of(bytes, size)), (int32_t)expected);
            memcpy(bytes + at, before, 2);
        }
        free(bytes);
    }
}

OL_TEST(trap_16_units_of_metadata) {
    bool valid;
    char *many = malloc(8192);
    for (size_t i = 0; i < 8192; i += 2) memcpy(many + i, "\xc3\xa9", 2);
    OL_CHECK_INT(ol_utf16_units(ol_slice_of(many, 8192), &valid), 4096);
    OL_CHECK(valid);
    for (size_t i = 0; i < 8192; i += 4) memcpy(many + i, "\xf0\x9f\x98\x80", 4);
    OL_CHECK_INT(ol_utf16_units(ol_slice_of(many, 8192), &valid), 4096);
    OL_CHECK(valid);
    free(many);
    OL_CHECK_INT(ol_utf16_units(text(""), &valid), 0);
    OL_CHECK(valid);
    OL_CHECK_INT(ol_utf16_units(text("plain text, long enough \xe7\xb5\x84 \xef\xbf\xbd"), &valid), 27);
    OL_CHECK(valid);
}

OL_TEST(malformed_utf8_is_reported) {
    static const char *const bad[] = {"\x80", "\xc0\x80", "\xc3", "\xed\xa0\x80", "\xe2\x82", "\xf0\x9f\x98", "\xf5\x80\x80\x80",
                                      "\xf4\x90\x80\x80", "\xe0\x9f\xbf", "12345678\xff", "a\xf0\x8f\xbf\xbf"};
    for (size_t k = 0; k < COUNT_OF(bad); k++) {
        bool valid = true;
        ol_utf16_units(text(bad[k]), &valid);
        OL_CHECK(!valid);
    }
    for (size_t k = 0; k < COUNT_OF(java_hash_vectors); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(java_hash_vectors[k].hex, &size);
        bool valid;
        ol_utf16_units(ol_slice_of(bytes, size), &valid);
        OL_CHECK(valid == (size == 1 && bytes[0] < 0x80));
        free(bytes);
    }
}

OL_TEST(hash64_reads_exactly_its_bytes_and_depends_on_each) {
    for (size_t size = 0; size < 80; size++) {
        uint8_t *bytes = malloc(size ? size : 1);
        for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)ol_test_random();
        uint64_t hash = ol_hash64(bytes, size, 5);
        OL_CHECK(hash != ol_hash64(bytes, size, 6));
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            OL_CHECK(ol_hash64(bytes, size, 5) != hash);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(bytes);
    }
}

/* Numbered names into 2^16 buckets, by the low and by the high bits: the count of hit buckets of a random function is
 * 2^16 (1 - 1/e) = 41,427 with a deviation of about 80. */
OL_TEST(hash64_spreads_numbered_names_over_low_and_high_bits) {
    for (int high = 0; high < 2; high++) {
        uint8_t *hit = calloc(65536, 1);
        int buckets = 0;
        for (int i = 0; i < 65536; i++) {
            char name[64];
            int size = snprintf(name, sizeof name, "group-%d|orders-topic", i);
            uint64_t hash = ol_hash64(name, (size_t)size, ol_test_seed);
            size_t bucket = high ? hash >> 48 : hash & 0xffff;
            buckets += !hit[bucket];
            hit[bucket] = 1;
        }
        free(hit);
        OL_CHECK(buckets > 41427 - 800 && buckets < 41427 + 800);
    }
}

OL_TEST_MAIN()
