/* base/xxh3.c: XXH3-128 with seed 0 and the default secret.
 *
 * This is written from the published description of the algorithm.  There are five ranges of input
 * lengths, and each has its own way of mixing.  Inputs of 241 bytes or more are taken in stripes of
 * 64 bytes by eight accumulators.
 */
#include "base/hash.h"

#include <string.h>

#define PRIME32_1 0x9e3779b1u
#define PRIME32_2 0x85ebca77u
#define PRIME32_3 0xc2b2ae3du
#define PRIME64_1 0x9e3779b185ebca87u
#define PRIME64_2 0xc2b2ae3d27d4eb4fu
#define PRIME64_3 0x165667b19e3779f9u
#define PRIME64_4 0x85ebca77c2b2ae63u
#define PRIME64_5 0x27d4eb2f165667c5u
#define MIX_MULTIPLIER_1 0x165667919e3779f9u
#define MIX_MULTIPLIER_2 0x9fb21c651e98df25u

enum {
    SECRET_SIZE = 192,
    STRIPE_SIZE = 64,
    SECRET_STEP = 8,            /* the secret's move from stripe to stripe */
    BLOCK_STRIPES = (SECRET_SIZE - STRIPE_SIZE) / SECRET_STEP,
    BLOCK_SIZE = BLOCK_STRIPES * STRIPE_SIZE,
    SECRET_SIZE_LEAST = 136,    /* the part of the secret that the middle lengths may use */
};

static const uint8_t secret[SECRET_SIZE] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static inline uint32_t read32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t read64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline ol_hash128 multiply(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (ol_hash128){(uint64_t)product, (uint64_t)(product >> 64)};
}

static inline uint64_t multiply_fold(uint64_t a, uint64_t b) {
    ol_hash128 product = multiply(a, b);
    return product.low ^ product.high;
}

static inline uint64_t avalanche(uint64_t h) {
    h ^= h >> 37;
    h *= MIX_MULTIPLIER_1;
    return h ^ (h >> 32);
}

static inline uint64_t avalanche_long(uint64_t h) {
    h ^= h >> 33;
    h *= PRIME64_2;
    h ^= h >> 29;
    h *= PRIME64_3;
    return h ^ (h >> 32);
}

static ol_hash128 hash_0(void) {
    return (ol_hash128){avalanche_long(read64(secret + 64) ^ read64(secret + 72)),
                        avalanche_long(read64(secret + 80) ^ read64(secret + 88))};
}

static ol_hash128 hash_1_to_3(const uint8_t *p, size_t size) {
    uint32_t first = p[0], middle = p[size >> 1], last = p[size - 1];
    uint32_t low = (first << 16) | (middle << 24) | last | ((uint32_t)size << 8);
    uint32_t swapped = __builtin_bswap32(low);
    uint32_t high = (swapped << 13) | (swapped >> 19);
    uint64_t flip_low = read32(secret) ^ read32(secret + 4);
    uint64_t flip_high = read32(secret + 8) ^ read32(secret + 12);
    return (ol_hash128){avalanche_long(low ^ flip_low), avalanche_long(high ^ flip_high)};
}

static ol_hash128 hash_4_to_8(const uint8_t *p, size_t size) {
    uint64_t input = read32(p) + ((uint64_t)read32(p + size - 4) << 32);
    uint64_t keyed = input ^ read64(secret + 16) ^ read64(secret + 24);
    ol_hash128 h = multiply(keyed, PRIME64_1 + (size << 2));
    h.high += h.low << 1;
    h.low ^= h.high >> 3;
    h.low ^= h.low >> 35;
    h.low *= MIX_MULTIPLIER_2;
    h.low ^= h.low >> 28;
    h.high = avalanche(h.high);
    return h;
}

static ol_hash128 hash_9_to_16(const uint8_t *p, size_t size) {
    uint64_t low = read64(p), high = read64(p + size - 8);
    ol_hash128 m = multiply(low ^ high ^ read64(secret + 32) ^ read64(secret + 40), PRIME64_1);
    m.low += (uint64_t)(size - 1) << 54;
    high ^= read64(secret + 48) ^ read64(secret + 56);
    m.high += high + (uint64_t)(uint32_t)high * (PRIME32_2 - 1);
    m.low ^= __builtin_bswap64(m.high);
    ol_hash128 h = multiply(m.low, PRIME64_2);
    h.high += m.high * PRIME64_2;
    return (ol_hash128){avalanche(h.low), avalanche(h.high)};
}

static inline uint64_t mix_16(const uint8_t *p, const uint8_t *s) {
    return multiply_fold(read64(p) ^ read64(s), read64(p + 8) ^ read64(s + 8));
}

static inline void mix_32(ol_hash128 *sum, const uint8_t *first, const uint8_t *second,
                          const uint8_t *s) {
    sum->low += mix_16(first, s);
    sum->low ^= read64(second) + read64(second + 8);
    sum->high += mix_16(second, s + 16);
    sum->high ^= read64(first) + read64(first + 8);
}

static ol_hash128 finish_middle(ol_hash128 sum, size_t size) {
    uint64_t low = sum.low + sum.high;
    uint64_t high = sum.low * PRIME64_1 + sum.high * PRIME64_4 + size * PRIME64_2;
    return (ol_hash128){avalanche(low), (uint64_t)0 - avalanche(high)};
}

static ol_hash128 hash_17_to_128(const uint8_t *p, size_t size) {
    ol_hash128 sum = {size * PRIME64_1, 0};
    for (size_t pair = (size - 1) / 32 + 1; pair-- > 0;) {
        mix_32(&sum, p + 16 * pair, p + size - 16 * (pair + 1), secret + 32 * pair);
    }
    return finish_middle(sum, size);
}

static ol_hash128 hash_129_to_240(const uint8_t *p, size_t size) {
    ol_hash128 sum = {size * PRIME64_1, 0};
    for (size_t i = 0; i < 128; i += 32) mix_32(&sum, p + i, p + i + 16, secret + i);
    sum.low = avalanche(sum.low);
    sum.high = avalanche(sum.high);
    for (size_t i = 160; i <= size; i += 32) {
        mix_32(&sum, p + i - 32, p + i - 16, secret + 3 + i - 160);
    }
    mix_32(&sum, p + size - 16, p + size - 32, secret + SECRET_SIZE_LEAST - 17 - 16);
    return finish_middle(sum, size);
}

static inline void accumulate(uint64_t sums[8], const uint8_t *p, const uint8_t *s) {
    for (size_t i = 0; i < 8; i++) {
        uint64_t value = read64(p + 8 * i);
        uint64_t keyed = value ^ read64(s + 8 * i);
        sums[i ^ 1] += value;
        sums[i] += (uint64_t)(uint32_t)keyed * (keyed >> 32);
    }
}

static uint64_t merge(const uint64_t sums[8], const uint8_t *s, uint64_t start) {
    uint64_t result = start;
    for (size_t i = 0; i < 4; i++) {
        result += multiply_fold(sums[2 * i] ^ read64(s + 16 * i),
                                sums[2 * i + 1] ^ read64(s + 16 * i + 8));
    }
    return avalanche(result);
}

static ol_hash128 hash_long(const uint8_t *p, size_t size) {
    uint64_t sums[8] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
                        PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
    const uint8_t *end = p + size;
    const uint8_t *last_secret = secret + SECRET_SIZE - STRIPE_SIZE;
    /* Strictly more than a block must be left: the last stripe always ends with the input. */
    for (; (size_t)(end - p) > BLOCK_SIZE; p += BLOCK_SIZE) {
        for (size_t n = 0; n < BLOCK_STRIPES; n++) {
            accumulate(sums, p + n * STRIPE_SIZE, secret + n * SECRET_STEP);
        }
        for (size_t i = 0; i < 8; i++) {
            sums[i] ^= sums[i] >> 47;
            sums[i] ^= read64(last_secret + 8 * i);
            sums[i] *= PRIME32_1;
        }
    }
    size_t stripes = ((size_t)(end - p) - 1) / STRIPE_SIZE;
    for (size_t n = 0; n < stripes; n++) {
        accumulate(sums, p + n * STRIPE_SIZE, secret + n * SECRET_STEP);
    }
    accumulate(sums, end - STRIPE_SIZE, last_secret - 7);
    return (ol_hash128){merge(sums, secret + 11, size * PRIME64_1),
                        merge(sums, last_secret - 11, ~(size * PRIME64_2))};
}

ol_hash128 ol_xxh3_128(const void *data, size_t size) {
    const uint8_t *p = data;
    if (size <= 16) {
        if (size > 8) return hash_9_to_16(p, size);
        if (size >= 4) return hash_4_to_8(p, size);
        return size > 0 ? hash_1_to_3(p, size) : hash_0();
    }
    if (size <= 128) return hash_17_to_128(p, size);
    if (size <= 240) return hash_129_to_240(p, size);
    return hash_long(p, size);
}
