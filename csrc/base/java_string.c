/* base/java_string.c: the hash and the UTF-16 length of a string as Java decodes it. */
#include "base/java_string.h"

#include <string.h>

#define ASCII_MASK 0x8080808080808080u

static inline uint64_t read64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t read32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline bool is_continuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

/* ----------------------------------------------------------------------------------------- hash */

/* 31^n modulo 2^32. */
static const uint32_t powers[9] = {1u,        31u,        961u,        29791u,     923521u,
                                   28629151u, 887503681u, 1742810335u, 2487512833u};

/* Returns the hash of eight ASCII characters, the first of them in the lowest byte.  Neighbours are
 * joined to 16-bit sums, these to 32-bit sums, and these to the result.  A leading zero byte adds
 * nothing. */
static inline uint32_t hash_eight(uint64_t word) {
    const uint64_t bytes = 0x00ff00ff00ff00ffu, halves = 0x0000ffff0000ffffu;
    uint64_t pairs = (word & bytes) * 31 + ((word >> 8) & bytes);
    uint64_t fours = (pairs & halves) * 961 + ((pairs >> 16) & halves);
    return (uint32_t)fours * powers[4] + (uint32_t)(fours >> 32);
}

static inline uint32_t hash_unit(uint32_t hash, uint32_t unit) { return hash * 31 + unit; }

static inline uint32_t hash_code_point(uint32_t hash, uint32_t c) {
    if (c < 0x10000) return hash_unit(hash, c);
    return hash_unit(hash_unit(hash, 0xd800 + ((c - 0x10000) >> 10)), 0xdc00 + (c & 0x3ff));
}

enum { REPLACEMENT = 0xfffd };

/* The next two functions implement Java's rule for grouping malformed bytes.  They set *c to the
 * character and return the number of bytes that it consumed.  `left` counts the first byte and is
 * at least 1. */
static size_t decode_three(const uint8_t *p, size_t left, uint32_t *c) {
    *c = REPLACEMENT;
    if (left < 2) return 1;
    if (!is_continuation(p[1]) || (p[0] == 0xe0 && p[1] < 0xa0)) return 1;
    if (left < 3) return 2;
    if (!is_continuation(p[2])) return 2;
    uint32_t value = (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    /* An encoded surrogate is one malformed run of three, not three of one. */
    if (value < 0xd800 || value > 0xdfff) *c = value;
    return 3;
}

static size_t decode_four(const uint8_t *p, size_t left, uint32_t *c) {
    *c = REPLACEMENT;
    if (p[0] > 0xf4 || left < 2) return 1;
    if (!is_continuation(p[1]) || (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90)) {
        return 1;
    }
    if (left < 3 || !is_continuation(p[2])) return 2;
    if (left < 4 || !is_continuation(p[3])) return 3;
    *c = (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
         (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
    return 4;
}

static size_t decode(const uint8_t *p, size_t left, uint32_t *c) {
    uint8_t first = p[0];
    *c = first;
    if (first < 0x80) return 1;
    if (first >= 0xf0) return decode_four(p, left, c);
    if (first >= 0xe0) return decode_three(p, left, c);
    *c = REPLACEMENT;
    if (first < 0xc2 || left < 2 || !is_continuation(p[1])) return 1;
    *c = (uint32_t)(first & 0x1f) << 6 | (p[1] & 0x3f);
    return 2;
}

static OL_NOINLINE uint32_t hash_any(uint32_t hash, const uint8_t *p, size_t left) {
    while (left > 0) {
        uint32_t c;
        size_t used = decode(p, left, &c);
        OL_ASSERT(used <= left);
        hash = hash_code_point(hash, c);
        p += used;
        left -= used;
    }
    return hash;
}

static uint32_t hash_short(const uint8_t *p, size_t size) {
    if (size < 4) return hash_any(0, p, size);
    /* The word is joined from two halves, which may overlap; bytes that are in both get the same
     * position. */
    uint64_t word = read32(p + size - 4) << 32 | read32(p) << (8 * (8 - size));
    return OL_LIKELY((word & ASCII_MASK) == 0) ? hash_eight(word) : hash_any(0, p, size);
}

int32_t ol_java_hash(ol_slice utf8) {
    const uint8_t *p = utf8.data;
    size_t left = utf8.size;
    uint32_t hash = 0;
    if (left < 8) return (int32_t)hash_short(p, left);
    const uint8_t *end = p + left;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t word = read64(p);
        if (OL_UNLIKELY(word & ASCII_MASK)) return (int32_t)hash_any(hash, p, left);
        hash = hash * powers[8] + hash_eight(word);
    }
    /* Moves the last 0 to 7 characters to the upper end of a word; the shift is split because 64 at
     * once is undefined. */
    unsigned half_shift = 32 - 4 * (unsigned)left;
    uint64_t word = read64(end - 8) >> half_shift >> half_shift << half_shift << half_shift;
    if (OL_UNLIKELY(word & ASCII_MASK)) return (int32_t)hash_any(hash, p, left);
    return (int32_t)(hash * powers[left] + hash_eight(word));
}

int32_t ol_partition_for(ol_slice group, int32_t count) {
    OL_ASSERT(count > 0);
    int32_t hash = ol_java_hash(group);
    if (hash == INT32_MIN) return 0;
    return (hash < 0 ? -hash : hash) % count;
}

size_t ol_java_character(const uint8_t *p, size_t left, uint32_t *character) {
    OL_ASSERT(left > 0);
    return decode(p, left, character);
}

/* --------------------------------------------------------------------------------------- length */

/* Returns the UTF-16 units of the well-formed character at p, 0 for anything else; *used is its
 * size in bytes. */
static size_t units_of_next(const uint8_t *p, size_t left, size_t *used) {
    uint32_t c;
    *used = decode(p, left, &c);
    if (c == REPLACEMENT && !(*used == 3 && p[0] == 0xef)) return 0;
    return c < 0x10000 ? 1 : 2;
}

size_t ol_utf16_units(ol_slice utf8, bool *valid) {
    const uint8_t *p = utf8.data;
    size_t left = utf8.size, units = 0;
    *valid = true;
    while (left > 0) {
        if (left >= 8 && (read64(p) & ASCII_MASK) == 0) {
            units += 8;
            p += 8;
            left -= 8;
            continue;
        }
        size_t used = 1, more = 1;
        if (p[0] >= 0x80) {
            more = units_of_next(p, left, &used);
            if (more == 0) {
                *valid = false;
                more = 1;
            }
        }
        units += more;
        p += used;
        left -= used;
    }
    return units;
}
