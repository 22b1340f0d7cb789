/* Mutations of good files through the parsers of the small formats, seeded.  OFFSETLOG_DEPTH=long makes it longer. */
#include "../fuzz/fuzz_small_formats.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "ol_test.h"

typedef struct seed_input {
    uint8_t format;
    const char *hex;            /* or text, when it begins with '=' */
} seed_input;

static const seed_input seeds[] = {
    {0, "=0\n2\n__consumer_offsets 0 1042\n__consumer_offsets 12 7\n"},
    {1, "=0\n3\n0 0\n2 17\n9 1042\n"},
    {2, "000124de42bf000000010000000000000fa00002000000000000000000000067000000000000018bcfe56800ffffffff0000000000000067"},
    {3, "00000000000000000fa000000000000000670000000000000069000000000000006a"
        "00000000000000000fa0000000000000006b000000000000006d000000000000006e"},
    {4, "00000034000013880000004000002388000000500000338800000000000000000000000000000000"},
    {5, "0000018bcfe56800000000310000018bcfe5680100000034000000000000000000000000"},
    {6, "=__consumer_offsets-49"},
    {6, "=__consumer_offsets-49.0123456789abcdef0123456789abcdef-delete"},
    {6, "=00000000000000000123.log.swap"},
    {7, "=version: 0\ntopic_id: KZ0mhcr8R2SYWoWqiKJDqA"},
};

static size_t load_seed(const seed_input *seed, uint8_t *target) {
    target[0] = seed->format;
    if (seed->hex[0] == '=') {
        memcpy(target + 1, seed->hex + 1, strlen(seed->hex) - 1);
        return strlen(seed->hex);
    }
    size_t size;
    uint8_t *bytes = ol_test_unhex(seed->hex, &size);
    memcpy(target + 1, bytes, size);
    free(bytes);
    return size + 1;
}

/* A snapshot's CRC is set right, else nothing after it would ever be reached. */
static void run(uint8_t *input, size_t size) {
    ol_fuzz_small_formats(input, size);
    if (size < 11 || input[0] % OL_FUZZ_SMALL_FORMAT_COUNT != 2) return;
    ol_store_u32(input + 3, ol_crc32c(input + 7, size - 7));
    ol_fuzz_small_formats(input, size);
}

OL_TEST(every_cut_and_every_bit) {
    uint8_t input[512];
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        size_t size = load_seed(&seeds[i], input);
        for (size_t cut = 0; cut <= size; cut++) {
            load_seed(&seeds[i], input);
            run(input, cut);
        }
        for (size_t bit = 8; bit < 8 * size; bit++) {
            load_seed(&seeds[i], input);
            input[bit / 8] ^= (uint8_t)(1u << bit % 8);
            run(input, size);
        }
    }
}

static size_t mutate(uint8_t *input, size_t size, size_t capacity) {
    size_t at = 1 + ol_test_below(size);
    switch (ol_test_below(5)) {
        case 0: input[at < size ? at : size - 1] = (uint8_t)ol_test_random(); return size;
        case 1: return at;
        case 2: {       /* a piece is repeated */
            size_t piece = ol_test_below(size - 1) + 1;
            if (size + piece > capacity) return size;
            memmove(input + 1 + piece, input + 1, size - 1);
            return size + piece;
        }
        case 3: {       /* a number that is on an edge */
            static const uint64_t edges[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX};
            if (at + 8 <= size) ol_store_u64(input + at, edges[ol_test_below(8)]);
            return size;
        }
        default: {      /* a character that means something */
            static const char characters[] = "0123456789-+ \n\r\t.:";
            input[at < size ? at : size - 1] = (uint8_t)characters[ol_test_below(sizeof characters - 1)];
            return size;
        }
    }
}

OL_TEST(seeded_mutations) {
    int64_t rounds = ol_test_depth(60000, 1200000);
    uint8_t input[1024];
    for (int64_t round = 0; round < rounds; round++) {
        size_t size = load_seed(&seeds[ol_test_below(sizeof seeds / sizeof seeds[0])], input);
        for (uint64_t count = ol_test_below(6); count > 0 && size > 1; count--) size = mutate(input, size, sizeof input);
        run(input, size);
    }
}

OL_TEST_MAIN()
