/* cleaner/key_map: the last log offset of every key of one cleaning pass, in memory that is set beforehand (docs/format/cleaner.md §8.2).
 *
 * Only a 128-bit hash of a key is kept, so two keys with the same hash would count as one, and the record of one of them would be lost.  By chance that
 * does not happen; that nobody makes it happen is why every run draws its own secrets for the hash: names of groups come from clients.
 *
 * Entries of 24 bytes lie in one array in the order of their hashes, each at or behind the place that its hash names, so that a search ends at the
 * first greater hash, found or not, and costs little up to nine tenths full.  Nothing is ever removed but by ol_key_map_clear.
 * One thread uses a map. */
#ifndef OL_CLEANER_KEY_MAP_H
#define OL_CLEANER_KEY_MAP_H

#include <string.h>

#include "base/hash.h"
#include "base/status.h"

/* ------------------------------------------------------------------------------------------------ hashing */

typedef struct ol_key_hasher {
    uint64_t keys[2];
    uint64_t starts[2];
    uint64_t sizes[2];
    uint64_t last[2];
} ol_key_hasher;

/* Secrets from the operating system, or from `seed` where it is not 0 (tests). */
void ol_key_hasher_init(ol_key_hasher *hasher, uint64_t seed);

static inline uint64_t ol_key_read64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t ol_key_fold(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two independent lanes of 64 bits; one multiplication takes 16 bytes, the last 16 are taken again.  Every factor depends on a secret: with known
 * ones anybody could choose eight bytes that make a product zero.  `kind` keeps apart keys whose bytes are the same but mean different things. */
static inline ol_hash128 ol_key_hash(const ol_key_hasher *hasher, const uint8_t *p, size_t size, uint64_t kind) {
    uint64_t a = 0, b = 0;
    uint64_t first = hasher->starts[0] + (size ^ kind << 56) * hasher->sizes[0];
    uint64_t second = hasher->starts[1] + (size ^ kind << 56) * hasher->sizes[1];
    if (OL_LIKELY(size > 16)) {
        const uint8_t *last = p + size - 16;
        for (; p < last; p += 16) {
            a = ol_key_read64(p);
            b = ol_key_read64(p + 8);
            first = ol_key_fold(a ^ hasher->keys[0], b ^ first);
            second = ol_key_fold(a ^ hasher->keys[1], b ^ second);
        }
        a = ol_key_read64(last);
        b = ol_key_read64(last + 8);
    } else if (size >= 8) {
        a = ol_key_read64(p);
        b = ol_key_read64(p + size - 8);
    } else {
        for (size_t i = 0; i < size; i++) a = a << 8 | p[i];
    }
    first = ol_key_fold(ol_key_fold(a ^ hasher->keys[0], b ^ first) ^ hasher->last[0], hasher->sizes[0]);
    second = ol_key_fold(ol_key_fold(a ^ hasher->keys[1], b ^ second) ^ hasher->last[1], hasher->sizes[1]);
    return (ol_hash128){first, second};
}

/* ------------------------------------------------------------------------------------------------ the map */

typedef struct ol_key_entry {
    uint64_t low;
    uint64_t high;
    int64_t next_offset;        /* behind the last record; 0: the entry is empty, as fresh memory is */
} ol_key_entry;
_Static_assert(sizeof(ol_key_entry) == 24, "what map_bytes is divided by");

typedef struct ol_key_map {
    ol_key_entry *entries;
    uint64_t slots;             /* that a hash can name */
    uint64_t capacity;          /* entries, a few behind the last slot included */
    uint64_t count;
    uint64_t count_max;         /* beyond which it grows, or is full: three quarters of the slots, nine tenths once it cannot grow */
    size_t bytes_max;
} ol_key_map;

/* A map that takes at most `bytes_max` (rounded down to entries), and begins with room for about `expected` keys.  Growing to its full size it takes up
 * to half as much again for a moment.  OL_NO_MEMORY. */
int ol_key_map_create(ol_key_map *map, size_t bytes_max, uint64_t expected, ol_error *error) OL_NODISCARD;
void ol_key_map_free(ol_key_map *map);      /* a zeroed map is fine */
void ol_key_map_clear(ol_key_map *map);

static inline uint64_t ol_key_map_slot(const ol_key_map *map, ol_hash128 key) {
    return (uint64_t)((__uint128_t)key.low * map->slots >> 64);
}

/* A hint, some keys ahead: an entry may lie across two lines. */
static inline void ol_key_map_prefetch(const ol_key_map *map, ol_hash128 key) {
    const char *entry = (const char *)(map->entries + ol_key_map_slot(map, key));
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + sizeof(ol_key_entry) - 1);
}

/* Raises the key's offset to `offset`, which is not negative; *previous is what it was, or -1.  False, with nothing changed, for a new key when the map is
 * full. */
bool ol_key_map_put(ol_key_map *map, ol_hash128 key, int64_t offset, int64_t *previous) OL_NODISCARD;

/* The key's offset, or -1. */
static inline int64_t ol_key_map_get(const ol_key_map *map, ol_hash128 key) {
    const ol_key_entry *entry = map->entries + ol_key_map_slot(map, key);
    /* The last entry of all stays empty, so that every search ends. */
    while (entry->next_offset != 0 && entry->low <= key.low) {
        if (entry->low == key.low && entry->high == key.high) return entry->next_offset - 1;
        entry++;
    }
    return -1;
}

#endif
