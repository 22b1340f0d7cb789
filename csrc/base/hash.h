/* base/hash: the hashes of the project.
 *
 * Digests use XXH3-128 with seed 0, as the xxHash project specifies it.  Tables in memory use a
 * fast 64-bit hash with a seed for each table; its values never leave the process.  Java's hash of
 * a string is in base/java_string.h.  The functions take no locks and may be called from any
 * thread.
 */
#ifndef OL_BASE_HASH_H
#define OL_BASE_HASH_H

#include "base/base.h"

/* A 128-bit hash, the low half first: value = low + high * 2^64. */
typedef struct ol_hash128 {
    uint64_t low;
    uint64_t high;
} ol_hash128;

/* XXH3-128 with seed 0; equal to the xxHash library's XXH3_128bits. */
ol_hash128 ol_xxh3_128(const void *data, size_t size);

static inline ol_hash128 ol_hash128_add(ol_hash128 a, ol_hash128 b) {
    ol_hash128 sum = {a.low + b.low, a.high + b.high};
    sum.high += sum.low < a.low;
    return sum;
}
static inline ol_hash128 ol_hash128_subtract(ol_hash128 a, ol_hash128 b) {
    ol_hash128 difference = {a.low - b.low, a.high - b.high};
    difference.high -= a.low < b.low;
    return difference;
}

/* Returns a 64-bit hash for tables in memory.  All of its bits are well mixed.  It must not be
 * written to a file, because another version of the library may compute another value.  An
 * adversary who knows the seed can make keys with equal hashes.  Therefore a table takes its seed
 * from the operating system, and compares the keys and not only their hashes. */
uint64_t ol_hash64(const void *data, size_t size, uint64_t seed);

/* Mixes two 64-bit values into one.  It is used to make the hash of a pair from the hashes of the
 * parts. */
static inline uint64_t ol_hash64_mix(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xe7037ed1a0b428dbu);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
