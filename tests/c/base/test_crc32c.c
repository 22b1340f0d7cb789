/* CRC-32C and CRC-32: the values of docs/format/conventions.md §0, and every implementation against the definition, bit by bit. */
#include "base/crc32c.h"
#include "ol_test.h"

static uint32_t bitwise(uint32_t polynomial, uint32_t crc, const uint8_t *p, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >> 1) ^ polynomial : crc >> 1;
    }
    return ~crc;
}

static uint8_t *random_bytes(size_t size) {
    uint8_t *bytes = malloc(size ? size : 1);
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)ol_test_random();
    return bytes;
}

static const char *const names[] = {"sse4.2", "armv8", "tables"};

OL_TEST(the_check_values_of_the_specification) {
    OL_CHECK_INT(ol_crc32c("123456789", 9), 0xe3069283);
    OL_CHECK_INT(ol_crc32("123456789", 9), 0xcbf43926);
    OL_CHECK_INT(ol_crc32c("", 0), 0);
    OL_CHECK_INT(ol_crc32("", 0), 0);
    for (size_t i = 0; i < 3; i++) {
        ol_crc32c_function function = ol_crc32c_by_name(names[i]);
        if (function != NULL) OL_CHECK_INT(function(0, "123456789", 9), 0xe3069283);
    }
    OL_CHECK(ol_crc32c_by_name("none") == NULL);
}

OL_TEST(the_implementation_in_use_has_a_name) {
    printf("  %s\n", ol_crc32c_implementation());
    OL_CHECK(ol_crc32c_by_name(ol_crc32c_implementation()) != NULL);
    OL_CHECK(ol_crc32c_by_name("tables") != NULL);
}

OL_TEST(every_length_up_to_700_in_every_implementation) {
    for (size_t size = 0; size <= 700; size++) {
        uint8_t *bytes = random_bytes(size);
        uint32_t start = (uint32_t)ol_test_random();
        uint32_t expected = bitwise(0x82f63b78u, start, bytes, size);
        for (size_t i = 0; i < 3; i++) {
            ol_crc32c_function function = ol_crc32c_by_name(names[i]);
            if (function != NULL) OL_CHECK_INT(function(start, bytes, size), expected);
        }
        OL_CHECK_INT(ol_crc32c_extend(start, bytes, size), expected);
        OL_CHECK_INT(ol_crc32(bytes, size), bitwise(0xedb88320u, 0, bytes, size));
        free(bytes);
    }
}

OL_TEST(long_runs_around_the_lane_lengths) {
    static const size_t sizes[] = {6143, 6144, 6145, 6167, 6168, 6215, 6216, 12287, 12288, 12289, 12296, 18432, 24583, 100003};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        uint8_t *bytes = random_bytes(sizes[k]);
        uint32_t expected = bitwise(0x82f63b78u, 0, bytes, sizes[k]);
        for (size_t i = 0; i < 3; i++) {
            ol_crc32c_function function = ol_crc32c_by_name(names[i]);
            if (function != NULL) OL_CHECK_INT(function(0, bytes, sizes[k]), expected);
        }
        free(bytes);
    }
}

OL_TEST(a_run_cut_anywhere_gives_the_crc_of_the_whole) {
    for (int round = 0; round < 500; round++) {
        size_t size = ol_test_below(9000);
        uint8_t *bytes = random_bytes(size);
        size_t cut = ol_test_below(size + 1);
        OL_CHECK_INT(ol_crc32c_extend(ol_crc32c(bytes, cut), bytes + cut, size - cut), ol_crc32c(bytes, size));
        free(bytes);
    }
}

OL_TEST_MAIN()
