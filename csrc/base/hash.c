/* base/hash.c: a fast 64-bit hash for tables in memory. */
#include "base/hash.h"

#include <string.h>

static inline uint64_t read32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t read64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t fold(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#define KEY_1 0xa0b428db8f3d5b27u
#define KEY_2 0x589965cc75374cc3u
#define KEY_3 0x1d8e4e27c47d124fu

/* Each multiplication takes 16 bytes.  The last one takes the last 16, which may overlap those
 * before, so that no length needs a byte loop.  The bytes are combined with keys that depend on the
 * seed: with fixed keys a client could choose eight bytes that make a product zero. */
uint64_t ol_hash64(const void *data, size_t size, uint64_t seed) {
    const uint8_t *p = data;
    uint64_t key = fold(seed ^ KEY_1, KEY_2);
    uint64_t state = seed + size * KEY_3;
    uint64_t a, b;
    if (OL_LIKELY(size > 16)) {
        const uint8_t *last = p + size - 16;
        for (; p < last; p += 16) state = fold(read64(p) ^ key, read64(p + 8) ^ state);
        a = read64(last);
        b = read64(last + 8);
    } else if (size >= 8) {
        a = read64(p);
        b = read64(p + size - 8);
    } else if (size >= 4) {
        a = read32(p);
        b = read32(p + size - 4);
    } else if (size > 0) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[size >> 1] << 8 | p[size - 1];
        b = 0;
    } else {
        a = b = 0;
    }
    return fold(fold(a ^ key, b ^ state) ^ KEY_1, key + size);
}
