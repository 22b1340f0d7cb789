/* base/crc32c_hardware.c: CRC-32C in three lanes, on x86-64 and arm64. */
#include "base/crc32c_hardware.h"

#include <string.h>

static inline uint64_t load_word(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("sse4.2,crc32,pclmul")))

enum {
    /* longer lanes amortize the joining better, but 6 KiB is already within 3 % of the limit */
    LANE_WORDS_MAX = 256,
};

/* By lane length in words: the factors that move a CRC over one lane and over two.  The power is 33
 * bits short, because the carry-less product of two reflected values is one bit off and the final
 * CRC instruction adds 32. */
typedef struct lane_shift {
    uint32_t over_one;
    uint32_t over_two;
} lane_shift;
static lane_shift lane_shifts[LANE_WORDS_MAX + 1];

static void lane_shifts_fill(void) {
    for (uint64_t words = 1; words <= LANE_WORDS_MAX; words++) {
        lane_shifts[words].over_one = ol_crc32c_power(64 * words - 33);
        lane_shifts[words].over_two = ol_crc32c_power(128 * words - 33);
    }
}

TARGET static inline uint64_t three_lanes(uint64_t state, const uint8_t *p, size_t words) {
    const uint8_t *second = p + 8 * words, *third = second + 8 * words;
    uint64_t a = state, b = 0, c = 0;
    for (size_t i = 0; i < words; i++) {
        a = _mm_crc32_u64(a, load_word(p + 8 * i));
        b = _mm_crc32_u64(b, load_word(second + 8 * i));
        c = _mm_crc32_u64(c, load_word(third + 8 * i));
    }
    __m128i shifts = _mm_loadl_epi64((const __m128i *)&lane_shifts[words]);
    __m128i over_two = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a),
                                            _mm_srli_epi64(shifts, 32), 0);
    __m128i over_one = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)b),
                                            _mm_cvtepu32_epi64(shifts), 0);
    uint64_t product = (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(over_two, over_one));
    return _mm_crc32_u64(0, product) ^ c;
}

TARGET static uint32_t few_bytes(uint32_t state, const uint8_t *p, size_t size) {
    for (; size > 0; size--, p++) state = _mm_crc32_u8(state, *p);
    return ~state;
}

TARGET static uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t size) {
    const uint8_t *p = data;
    if (OL_UNLIKELY(size < 8)) return few_bytes(~crc, p, size);
    const uint8_t *end = p + size;
    uint64_t state = ~crc;
    while (OL_UNLIKELY(size >= 24 * LANE_WORDS_MAX)) {
        state = three_lanes(state, p, LANE_WORDS_MAX);
        p += 24 * LANE_WORDS_MAX;
        size -= 24 * LANE_WORDS_MAX;
    }
    if (size >= 72) {
        size_t words = size / 24;
        state = three_lanes(state, p, words);
        p += 24 * words;
        size -= 24 * words;
    }
    for (; size >= 8; size -= 8, p += 8) state = _mm_crc32_u64(state, load_word(p));
    /* Adds the last 0 to 7 bytes without a branch.  A state of zero stays zero over zero bytes.  So
     * the bytes are moved to the upper end of a word with zeros below, together with the part of
     * the state that applies to them. */
    unsigned half_shift = 32 - 4 * (unsigned)size;
    uint64_t tail = load_word(end - 8) >> half_shift >> half_shift;
    uint64_t word = (tail ^ state) << half_shift << half_shift;
    return ~(uint32_t)(_mm_crc32_u64(0, word) ^ (state >> (8 * size)));
}

ol_crc32c_function ol_crc32c_hardware(const char **name) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul")) return NULL;
    lane_shifts_fill();
    *name = "sse4.2";
    return crc32c_sse42;
}

#elif defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

#if defined(__clang__)
#define TARGET __attribute__((target("crc")))
#else
#define TARGET __attribute__((target("+crc")))
#endif
#include <arm_acle.h>

enum {
    /* long, since here the lanes are joined by arithmetic on ordinary integers */
    LANE_BYTES = 4096,
};
static uint32_t over_one_lane, over_two_lanes;

TARGET static uint32_t three_lanes(uint32_t state, const uint8_t *p) {
    uint32_t a = state, b = 0, c = 0;
    for (size_t i = 0; i < LANE_BYTES; i += 8) {
        a = __crc32cd(a, load_word(p + i));
        b = __crc32cd(b, load_word(p + LANE_BYTES + i));
        c = __crc32cd(c, load_word(p + 2 * LANE_BYTES + i));
    }
    return ol_crc32c_multiply(a, over_two_lanes) ^ ol_crc32c_multiply(b, over_one_lane) ^ c;
}

TARGET static uint32_t crc32c_armv8(uint32_t crc, const void *data, size_t size) {
    const uint8_t *p = data;
    uint32_t state = ~crc;
    for (; size >= 3 * LANE_BYTES; size -= 3 * LANE_BYTES, p += 3 * LANE_BYTES) {
        state = three_lanes(state, p);
    }
    for (; size >= 8; size -= 8, p += 8) state = __crc32cd(state, load_word(p));
    for (; size > 0; size--, p++) state = __crc32cb(state, *p);
    return ~state;
}

ol_crc32c_function ol_crc32c_hardware(const char **name) {
    if ((getauxval(AT_HWCAP) & HWCAP_CRC32) == 0) return NULL;
    over_one_lane = ol_crc32c_power(8 * LANE_BYTES);
    over_two_lanes = ol_crc32c_power(16 * LANE_BYTES);
    *name = "armv8";
    return crc32c_armv8;
}

#else

ol_crc32c_function ol_crc32c_hardware(const char **name) {
    (void)name;
    return NULL;
}

#endif
