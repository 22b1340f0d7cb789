/* base/chained_map.c: a map whose buckets are doubled when it has as many entries as buckets. */
#include "base/chained_map.h"

#include <stdlib.h>

enum { FIRST_BUCKETS = 16 };

void ol_chained_map_free(ol_chained_map *map) {
    free(map->buckets);
    *map = (ol_chained_map){0};
}

static void push(ol_chained_entry **buckets, size_t bucket_count, ol_chained_entry *entry) {
    ol_chained_entry **bucket = &buckets[entry->hash & (bucket_count - 1)];
    entry->next = *bucket;
    *bucket = entry;
}

int ol_chained_map_reserve(ol_chained_map *map, ol_error *error) {
    if (map->count < map->bucket_count) return OL_OK;
    size_t bucket_count = map->bucket_count == 0 ? FIRST_BUCKETS : 2 * map->bucket_count;
    ol_chained_entry **buckets = calloc(bucket_count, sizeof *buckets);
    if (buckets == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu buckets", bucket_count);
    }
    for (size_t i = 0; i < map->bucket_count; i++) {
        for (ol_chained_entry *entry = map->buckets[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            push(buckets, bucket_count, entry);
        }
    }
    free(map->buckets);
    map->buckets = buckets;
    map->bucket_count = bucket_count;
    return OL_OK;
}

void ol_chained_map_add(ol_chained_map *map, ol_chained_entry *entry) {
    OL_ASSERT(map->count < map->bucket_count);
    push(map->buckets, map->bucket_count, entry);
    map->count++;
}

void ol_chained_map_remove(ol_chained_map *map, ol_chained_entry *entry) {
    ol_chained_entry **link = &map->buckets[entry->hash & (map->bucket_count - 1)];
    while (*link != entry) {
        OL_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = entry->next;
    map->count--;
}
