/* base/bytes: the one place where integers become bytes and back (docs/format/conventions.md §0).
 *
 * All integers are big-endian.  The loads and stores do not check bounds, so the caller must have
 * checked that the bytes are in its buffer.  The varint decoders are for bytes that are not
 * trusted: they take a limit and never read at or past it.
 *
 * Code that reads a length must compare it with the number of bytes left, which is the difference
 * of two pointers.  It must not add the length to a pointer first: a hostile length could make the
 * sum overflow.
 */
#ifndef OL_BASE_BYTES_H
#define OL_BASE_BYTES_H

#include <string.h>

#include "base/base.h"

static inline uint16_t ol_load_u16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap16(v);
}
static inline uint32_t ol_load_u32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}
static inline uint64_t ol_load_u64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}
static inline int16_t ol_load_i16(const uint8_t *p) { return (int16_t)ol_load_u16(p); }
static inline int32_t ol_load_i32(const uint8_t *p) { return (int32_t)ol_load_u32(p); }
static inline int64_t ol_load_i64(const uint8_t *p) { return (int64_t)ol_load_u64(p); }

static inline void ol_store_u16(uint8_t *p, uint16_t v) {
    v = __builtin_bswap16(v);
    memcpy(p, &v, sizeof v);
}
static inline void ol_store_u32(uint8_t *p, uint32_t v) {
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}
static inline void ol_store_u64(uint8_t *p, uint64_t v) {
    v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}
static inline void ol_store_i16(uint8_t *p, int16_t v) { ol_store_u16(p, (uint16_t)v); }
static inline void ol_store_i32(uint8_t *p, int32_t v) { ol_store_u32(p, (uint32_t)v); }
static inline void ol_store_i64(uint8_t *p, int64_t v) { ol_store_u64(p, (uint64_t)v); }

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the loads above swap; a big-endian machine must not");

static inline uint32_t ol_zigzag32(int32_t v) { return ((uint32_t)v << 1) ^ (uint32_t)(v >> 31); }
static inline uint64_t ol_zigzag64(int64_t v) { return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63); }
static inline int32_t ol_unzigzag32(uint32_t v) { return (int32_t)((v >> 1) ^ (~(v & 1) + 1)); }
static inline int64_t ol_unzigzag64(uint64_t v) { return (int64_t)((v >> 1) ^ (~(v & 1) + 1)); }

#define OL_UVARINT_MAX 5
#define OL_UVARLONG_MAX 10

/* Return the size of the value as a varint, in bytes: 1 to 5 for a value of 32 bits, 1 to 10 for
 * one of 64 bits. */
static inline size_t ol_uvarint_size(uint32_t v) {
    return (size_t)((38 - __builtin_clz(v | 1)) / 7);
}
static inline size_t ol_uvarlong_size(uint64_t v) {
    return (size_t)((70 - __builtin_clzll(v | 1)) / 7);
}
static inline size_t ol_varint_size(int32_t v) { return ol_uvarint_size(ol_zigzag32(v)); }
static inline size_t ol_varlong_size(int64_t v) { return ol_uvarlong_size(ol_zigzag64(v)); }

/* Store the value as a varint and return the position after its last byte.  The caller has checked
 * that the buffer has space for it. */
static inline uint8_t *ol_store_uvarlong(uint8_t *p, uint64_t v) {
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}
static inline uint8_t *ol_store_uvarint(uint8_t *p, uint32_t v) { return ol_store_uvarlong(p, v); }
static inline uint8_t *ol_store_varint(uint8_t *p, int32_t v) {
    return ol_store_uvarlong(p, ol_zigzag32(v));
}
static inline uint8_t *ol_store_varlong(uint8_t *p, int64_t v) {
    return ol_store_uvarlong(p, ol_zigzag64(v));
}

/* Read a varint at `p` and return the position after it.  No byte at or past `limit` is read.
 * Return NULL if the varint does not end before `limit`, or if it is too long: a varint has at most
 * 5 bytes and 32 bits, and a varlong at most 10 bytes and 64 bits.  *v is set only on success. */
static inline const uint8_t *ol_read_uvarlong(const uint8_t *p, const uint8_t *limit, uint64_t *v) {
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 70 && p != limit; shift += 7) {
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1) return NULL;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *v = result;
            return p;
        }
    }
    return NULL;
}
static inline const uint8_t *ol_read_uvarint(const uint8_t *p, const uint8_t *limit, uint32_t *v) {
    uint32_t result = 0;
    for (unsigned shift = 0; shift < 35 && p != limit; shift += 7) {
        uint8_t byte = *p++;
        if (shift == 28 && byte > 0x0f) return NULL;
        result |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *v = result;
            return p;
        }
    }
    return NULL;
}
static inline const uint8_t *ol_read_varint(const uint8_t *p, const uint8_t *limit, int32_t *v) {
    uint32_t raw;
    p = ol_read_uvarint(p, limit, &raw);
    if (OL_LIKELY(p != NULL)) *v = ol_unzigzag32(raw);
    return p;
}
static inline const uint8_t *ol_read_varlong(const uint8_t *p, const uint8_t *limit, int64_t *v) {
    uint64_t raw;
    p = ol_read_uvarlong(p, limit, &raw);
    if (OL_LIKELY(p != NULL)) *v = ol_unzigzag64(raw);
    return p;
}

/* Returns whether two runs of `size` bytes are equal.  Runs of 8 to 64 bytes are compared in words
 * of eight bytes; the last word may overlap the one before it.  Most names have such lengths, and
 * the comparison of names is most of the cost of finding records with equal names. */
static inline bool ol_bytes_equal(const uint8_t *a, const uint8_t *b, size_t size) {
    if (size < 8 || size > 64) return size == 0 || memcmp(a, b, size) == 0;
    uint64_t different = 0, x, y;
    for (size_t at = 0; at + 8 < size; at += 8) {
        memcpy(&x, a + at, 8);
        memcpy(&y, b + at, 8);
        different |= x ^ y;
    }
    memcpy(&x, a + size - 8, 8);
    memcpy(&y, b + size - 8, 8);
    return (different | (x ^ y)) == 0;
}

static inline bool ol_slice_equal(ol_slice a, ol_slice b) {
    return a.size == b.size && ol_bytes_equal(a.data, b.data, a.size);
}

#endif
