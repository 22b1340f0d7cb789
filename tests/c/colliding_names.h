/* colliding_names: names of 16 bytes whose 64-bit hashes are the same, for tables whose seed is known. */
#ifndef COLLIDING_NAMES_H
#define COLLIDING_NAMES_H

#include "base/hash.h"
#include "ol_test.h"

enum { COLLIDING_SIZE = 16 };

/* The number-th name.  Eight bytes that equal the hash's key for a seed make its product zero, whatever follows them
 * (base/hash.c); the check fails if the hash changes. */
OL_UNUSED static ol_slice colliding_name(uint64_t seed, uint64_t number, uint8_t bytes[COLLIDING_SIZE]) {
    __uint128_t product = (__uint128_t)(seed ^ 0xa0b428db8f3d5b27u) * 0x589965cc75374cc3u;
    uint64_t key = (uint64_t)product ^ (uint64_t)(product >> 64);
    uint8_t first[COLLIDING_SIZE] = {0};
    memcpy(first, &key, sizeof key);
    memcpy(bytes, first, COLLIDING_SIZE);
    memcpy(bytes + 8, &number, sizeof number);
    OL_CHECK(ol_hash64(bytes, COLLIDING_SIZE, seed) == ol_hash64(first, COLLIDING_SIZE, seed));
    return ol_slice_of(bytes, COLLIDING_SIZE);
}

#endif
