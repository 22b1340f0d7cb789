/* Integers and varints: the vectors of docs/format/conventions.md §0 in both directions, and what the decoders refuse. */
#include "base/bytes.h"
#include "ol_test.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

OL_TEST(varints_of_the_specification) {
    static const struct {
        int32_t value;
        const char *hex;
    } cases[] = {{0, "00"},       {1, "02"},       {-1, "01"},   {63, "7e"},
                 {-64, "7f"},     {64, "8001"},    {300, "d804"}, {INT32_MAX, "feffffff0f"},
                 {INT32_MIN, "ffffffff0f"}};
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(cases[k].hex, &size), written[OL_UVARINT_MAX];
        int32_t value;
        OL_CHECK(ol_read_varint(bytes, bytes + size, &value) == bytes + size);
        OL_CHECK_INT(value, cases[k].value);
        OL_CHECK_INT(ol_varint_size(cases[k].value), size);
        OL_CHECK_INT(ol_store_varint(written, cases[k].value) - written, size);
        OL_CHECK(memcmp(written, bytes, size) == 0);
        free(bytes);
    }
}

OL_TEST(varlongs_of_the_specification) {
    static const struct {
        int64_t value;
        const char *hex;
    } cases[] = {{-86400000, "ffefb252"}, {86400000, "80f0b252"}, {INT64_MAX, "feffffffffffffffff01"},
                 {INT64_MIN, "ffffffffffffffffff01"}, {-86401000, "cfffb252"}};
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(cases[k].hex, &size), written[OL_UVARLONG_MAX];
        int64_t value;
        OL_CHECK(ol_read_varlong(bytes, bytes + size, &value) == bytes + size);
        OL_CHECK_INT(value, cases[k].value);
        OL_CHECK_INT(ol_varlong_size(cases[k].value), size);
        OL_CHECK_INT(ol_store_varlong(written, cases[k].value) - written, size);
        OL_CHECK(memcmp(written, bytes, size) == 0);
        free(bytes);
    }
}

OL_TEST(uvarints_of_the_specification) {
    static const struct {
        uint32_t value;
        const char *hex;
    } cases[] = {{127, "7f"}, {128, "8001"}, {16383, "ff7f"}, {16384, "808001"}, {UINT32_MAX, "ffffffff0f"}};
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(cases[k].hex, &size), written[OL_UVARINT_MAX];
        uint32_t value;
        OL_CHECK(ol_read_uvarint(bytes, bytes + size, &value) == bytes + size);
        OL_CHECK_INT(value, cases[k].value);
        OL_CHECK_INT(ol_uvarint_size(cases[k].value), size);
        OL_CHECK_INT(ol_store_uvarint(written, cases[k].value) - written, size);
        OL_CHECK(memcmp(written, bytes, size) == 0);
        free(bytes);
    }
}

OL_TEST(varints_that_are_too_long_or_cut) {
    static const struct {
        const char *hex;
        bool of_32, of_64;      /* whether it is one */
    } cases[] = {
        {"", false, false},
        {"80", false, false},
        {"ffffff", false, false},
        {"ffffffff0f", true, true},
        {"ffffffff10", false, true},            /* a bit beyond 32 */
        {"808080808000", false, true},          /* a sixth byte */
        {"8080808000", true, true},             /* longer than it need be is legal */
        {"ffffffffffffffffff01", false, true},
        {"ffffffffffffffffff02", false, false},
        {"8080808080808080808000", false, false},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(cases[k].hex, &size);
        uint32_t value;
        uint64_t long_value;
        OL_CHECK((ol_read_uvarint(bytes, bytes + size, &value) != NULL) == cases[k].of_32);
        OL_CHECK((ol_read_uvarlong(bytes, bytes + size, &long_value) != NULL) == cases[k].of_64);
        free(bytes);
    }
}

OL_TEST(random_integers_come_back) {
    for (int round = 0; round < 100000; round++) {
        uint64_t value = ol_test_random() >> ol_test_below(64);
        uint8_t *bytes = malloc(ol_uvarlong_size(value));
        OL_CHECK(ol_store_uvarlong(bytes, value) == bytes + ol_uvarlong_size(value));
        uint64_t back;
        OL_CHECK(ol_read_uvarlong(bytes, bytes + ol_uvarlong_size(value), &back) != NULL);
        OL_CHECK_INT(back, value);
        free(bytes);
        OL_CHECK_INT(ol_unzigzag64(ol_zigzag64((int64_t)value)), value);
        OL_CHECK_INT(ol_unzigzag32(ol_zigzag32((int32_t)value)), (int32_t)value);
    }
}

OL_TEST(fixed_integers_are_big_endian) {
    uint8_t bytes[8];
    ol_store_u64(bytes, 0x0102030405060708u);
    for (int i = 0; i < 8; i++) OL_CHECK_INT(bytes[i], i + 1);
    OL_CHECK_INT(ol_load_u16(bytes), 0x0102);
    OL_CHECK_INT(ol_load_u32(bytes), 0x01020304);
    OL_CHECK_INT(ol_load_i64(bytes), 0x0102030405060708);
    ol_store_i16(bytes, -2);
    OL_CHECK_INT(ol_load_i16(bytes), -2);
    ol_store_i32(bytes, INT32_MIN);
    OL_CHECK_INT(ol_load_i32(bytes), INT32_MIN);
}

OL_TEST_MAIN()
