/* base/chained_map: a hash table of entries that carry their own links.
 *
 * The map is for side structures whose keys have several parts and whose entries are removed one by
 * one.  The user of the map embeds ol_chained_entry as the first member of its entries.  The map
 * knows only the hashes of the keys; its user stores the keys and compares them:
 *
 *     for (ol_chained_entry *e = ol_chained_map_first(map, hash); e != NULL; e = e->next)
 *         if (e->hash == hash && key_of(e) == key) ...
 *
 * Ownership: the map owns its buckets, and its user owns the entries.  Zeroed memory is an empty
 * map.  The map takes no locks.
 */
#ifndef OL_BASE_CHAINED_MAP_H
#define OL_BASE_CHAINED_MAP_H

#include "base/status.h"

typedef struct ol_chained_entry {
    struct ol_chained_entry *next;
    uint64_t hash;
} ol_chained_entry;

typedef struct ol_chained_map {
    ol_chained_entry **buckets;
    size_t bucket_count;        /* a power of two, or 0 */
    size_t count;
} ol_chained_map;

/* Frees the buckets of the map.  The user of the map frees the entries. */
void ol_chained_map_free(ol_chained_map *map);

/* Reserves memory for one more entry.  If it fails with OL_NO_MEMORY, nothing has changed. */
int ol_chained_map_reserve(ol_chained_map *map, ol_error *error) OL_NODISCARD;

/* Adds an entry.  The caller has set its hash and called ol_chained_map_reserve. */
void ol_chained_map_add(ol_chained_map *map, ol_chained_entry *entry);

/* Removes an entry, which must be in the map. */
void ol_chained_map_remove(ol_chained_map *map, ol_chained_entry *entry);

/* Returns the first entry of the bucket, or NULL.  The bucket may also hold entries with other
 * hashes. */
static inline ol_chained_entry *ol_chained_map_first(const ol_chained_map *map, uint64_t hash) {
    return map->bucket_count == 0 ? NULL : map->buckets[hash & (map->bucket_count - 1)];
}

#endif
