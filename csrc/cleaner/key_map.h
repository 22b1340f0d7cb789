/* cleaner/key_map: the last log offset of every key of one cleaning pass, and the records that pass
 * A knows to be superseded (docs/format/cleaner.md §8.2).
 *
 * The map keeps only a 128-bit hash of a key, so two keys with the same hash would count as one,
 * and the record of one of them would be lost.  That does not happen by chance.  A client that
 * chooses group names cannot cause it either, because every run draws its own secrets for the hash.
 *
 * The map is one array of entries of 24 bytes, in ascending order of the hashes.  The hash of a key
 * names a slot, and the entry of the key is in that slot or after it.  A search therefore ends at
 * the first greater hash, whether or not the key is in the map.  Searches stay cheap until the map
 * is nine tenths full.  Only ol_key_map_clear removes entries.
 *
 * The map and the bits about superseded records each take at most the memory that the caller
 * allows.  The caller owns both.  Only one thread may use them. */
#ifndef OL_CLEANER_KEY_MAP_H
#define OL_CLEANER_KEY_MAP_H

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"

/* -------------------------------------------------------------------------------------- hashing */

typedef struct ol_key_hasher {
    uint64_t keys[2];
    uint64_t starts[2];
    uint64_t sizes[2];
    uint64_t last[2];
} ol_key_hasher;

/* Takes the secrets from the operating system.  In tests, a `seed` other than 0 replaces them.  If
 * the system has no randomness yet, the secrets are derived from the address of `hasher`. */
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

/* Computes the 128-bit hash of a key from two independent products of 64 bits.  Each multiplication
 * consumes 16 bytes of the key.  The last one consumes the last 16 bytes, which may overlap the
 * bytes before.  Every factor depends on a secret, because a client that knew the factors could
 * choose eight bytes that make a product zero.  `kind` separates keys that have the same bytes but
 * different meanings. */
static inline ol_hash128 ol_key_hash(const ol_key_hasher *hasher, const uint8_t *p, size_t size,
                                     uint64_t kind) {
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
    first = ol_key_fold(ol_key_fold(a ^ hasher->keys[0], b ^ first) ^ hasher->last[0],
                        hasher->sizes[0]);
    second = ol_key_fold(ol_key_fold(a ^ hasher->keys[1], b ^ second) ^ hasher->last[1],
                         hasher->sizes[1]);
    return (ol_hash128){first, second};
}

/* -------------------------------------------------------------------------------------- the map */

typedef struct ol_key_entry {
    uint64_t low;
    uint64_t high;
    int64_t next_offset;        /* the offset after the key's last record; 0: the entry is empty */
} ol_key_entry;
_Static_assert(sizeof(ol_key_entry) == 24, "the number of keys in map_bytes depends on it");

typedef struct ol_key_map {
    ol_key_entry *entries;
    uint64_t slots;             /* entries that a hash can name */
    uint64_t capacity;          /* number of entries; a few of them are after the last slot and take
                                   what overflows */
    uint64_t count;
    uint64_t count_max;  /* Number of keys at which the map is full: 3/4 of the slots while the map
                            can still grow, and 9/10 of the slots once it has its full size. */
    size_t bytes_max;
} ol_key_map;

/* Creates a map that takes at most `bytes_max` bytes (rounded down to whole entries).  At first it
 * has space for about `expected` keys.  While the map grows to its full size, it briefly takes up
 * to half as much memory in addition.  Fails with OL_NO_MEMORY. */
int ol_key_map_create(ol_key_map *map, size_t bytes_max, uint64_t expected, ol_error *error)
    OL_NODISCARD;
void ol_key_map_free(ol_key_map *map);      /* a zeroed map is fine */
void ol_key_map_clear(ol_key_map *map);

static inline uint64_t ol_key_map_slot(const ol_key_map *map, ol_hash128 key) {
    return (uint64_t)((__uint128_t)key.low * map->slots >> 64);
}

/* Prefetches the entry of a key.  A caller that handles several keys calls this function some keys
 * ahead of ol_key_map_put or ol_key_map_get.  An entry may span two cache lines. */
static inline void ol_key_map_prefetch(const ol_key_map *map, ol_hash128 key) {
    const char *entry = (const char *)(map->entries + ol_key_map_slot(map, key));
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + sizeof(ol_key_entry) - 1);
}

/* Puts a key with the offset of a record, which must not be negative.  Sets *previous to the offset
 * that the map had for the key, or to -1 if the key is new.  The greater of the two offsets is
 * kept.  Returns false and changes nothing if the key is new and the map is full. */
bool ol_key_map_put(ol_key_map *map, ol_hash128 key, int64_t offset, int64_t *previous)
    OL_NODISCARD;

/* Returns the key's offset, or -1. */
static inline int64_t ol_key_map_get(const ol_key_map *map, ol_hash128 key) {
    const ol_key_entry *entry = map->entries + ol_key_map_slot(map, key);
    /* The last entry of the array stays empty, so that every search ends. */
    while (entry->next_offset != 0 && entry->low <= key.low) {
        if (entry->low == key.low && entry->high == key.high) return entry->next_offset - 1;
        entry++;
    }
    return -1;
}

/* ------------------------------------------------------------------------------ superseded records
 *
 * In a log of commits, nearly every batch consists of one plain record that a later record
 * supersedes.  Pass A keeps two bits for each offset.  `plain` says that the fate of the record
 * depends only on its offset and its key.  `gone` says that a record with the same key follows:
 * when pass A puts a key again, it learns the offset of the key's previous record, and sets the bit
 * of that record.  If both bits are set and the record is alone in its batch, pass B drops the
 * batch without verifying the checksum, reading the record or searching the map.  Otherwise pass B
 * reads the record and decides.
 *
 * The bits cover a range of offsets that begins where the dirty part begins.  The size of the range
 * is limited, so that large gaps between offsets cannot make the bits take more memory than
 * allowed. */

typedef struct ol_clean_superseded {
    uint64_t *plain;  /* records whose fate depends only on their offset and their key */
    uint64_t *gone;             /* records after which a record with the same key follows */
    int64_t from;
    uint64_t count;             /* number of offsets that are covered, from `from` on */
    uint64_t capacity;
} ol_clean_superseded;

/* Clears the bits.  They then cover the offsets [from, end), or the first part of this range if the
 * bits for all of it would exceed `bytes_max`.  If memory is short, they cover no offset. */
static inline void ol_clean_superseded_start(ol_clean_superseded *bits, int64_t from, int64_t end,
                                             size_t bytes_max) {
    uint64_t words = ((uint64_t)(end - from) + 63) / 64,
             words_max = bytes_max / (2 * sizeof *bits->gone);
    if (words > words_max) words = words_max;
    if (words * 64 > bits->capacity) {
        free(bits->plain);
        bits->plain = calloc(2 * words, sizeof *bits->plain);
        bits->capacity = bits->plain != NULL ? words * 64 : 0;
    } else if (words != 0) {
        memset(bits->plain, 0, bits->capacity / 64 * 2 * sizeof *bits->plain);
    }
    bits->gone = bits->plain + bits->capacity / 64;
    bits->from = from;
    bits->count = words * 64 < bits->capacity ? words * 64 : bits->capacity;
}

static inline void ol_clean_superseded_free(ol_clean_superseded *bits) {
    free(bits->plain);
    *bits = (ol_clean_superseded){0};
}

/* Called after a record was put into the map.  Marks the previous record with the same key as
 * superseded.  `offset` is the offset of the record, `is_plain` says whether the fate of this
 * record depends only on its key and its offset, and `previous` is the offset of the previous
 * record, or -1 if the key was new. */
static inline void ol_clean_superseded_put(ol_clean_superseded *bits, int64_t offset, bool is_plain,
                                           int64_t previous) {
    uint64_t at = (uint64_t)offset - (uint64_t)bits->from,
             before = (uint64_t)previous - (uint64_t)bits->from;
    if (OL_LIKELY(at < bits->count)) bits->plain[at / 64] |= (uint64_t)is_plain << (at % 64);
    if (before < bits->count && previous < offset) {
        bits->gone[before / 64] |= UINT64_C(1) << (before % 64);
    }
}

/* Clears the bit `gone` of the record at `offset`, so that pass B reads the record. */
static inline void ol_clean_superseded_undo(ol_clean_superseded *bits, int64_t offset) {
    uint64_t at = (uint64_t)offset - (uint64_t)bits->from;
    if (at < bits->count) bits->gone[at / 64] &= ~(UINT64_C(1) << (at % 64));
}

static inline bool ol_clean_superseded_is_gone(const ol_clean_superseded *bits, int64_t offset) {
    uint64_t at = (uint64_t)offset - (uint64_t)bits->from;
    return at < bits->count && (bits->plain[at / 64] & bits->gone[at / 64]) >> (at % 64) & 1;
}

#endif
