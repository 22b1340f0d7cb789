/* base/int64_map: a small map from 64-bit keys to 64-bit values that are not 0.
 *
 * The map is for side structures of a few thousand entries.  It uses open addressing with backward
 * shift, so a removal leaves no marker.  When the map grows, it moves all entries in one step.
 * This would take too long for the large structures of table/, which use ol_hash_index instead.
 *
 * Ownership: the map owns its entries; zeroed memory is an empty map.  The caller reserves memory
 * in advance, so that setting a value cannot fail.  The map takes no locks.
 */
#ifndef OL_BASE_INT64_MAP_H
#define OL_BASE_INT64_MAP_H

#include "base/status.h"

typedef struct ol_int64_map_entry {
    uint64_t key;
    uint64_t value;             /* 0: free */
} ol_int64_map_entry;

typedef struct ol_int64_map {
    ol_int64_map_entry *entries;
    size_t capacity;            /* a power of two, or 0 */
    size_t count;
} ol_int64_map;

void ol_int64_map_free(ol_int64_map *map);
/* Reserves memory for `count` keys in all.  If it fails with OL_NO_MEMORY, nothing has changed. */
int ol_int64_map_reserve(ol_int64_map *map, size_t count, ol_error *error) OL_NODISCARD;
uint64_t ol_int64_map_get(const ol_int64_map *map, uint64_t key);      /* 0: none */
void ol_int64_map_set(ol_int64_map *map, uint64_t key, uint64_t value); /* value 0 removes */
/* Sets a value other than 0 and returns the previous one, or 0. */
uint64_t ol_int64_map_exchange(ol_int64_map *map, uint64_t key, uint64_t value);
/* Removes every key.  If the map is large, its memory is freed, and the next ol_int64_map_reserve
 * allocates memory again. */
void ol_int64_map_clear(ol_int64_map *map);
/* Prefetches the entry of a key that one of the next calls will need. */
void ol_int64_map_prefetch(const ol_int64_map *map, uint64_t key);

#endif
