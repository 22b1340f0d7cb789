/* base/int64_map.c: open addressing with backward shift. */
#include "base/int64_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { CAPACITY_KEPT_MAX = 256 };   /* of a map that was cleared */

static size_t home_of(const ol_int64_map *map, uint64_t key) {
    return ol_hash64_mix(key, 0x51ed270b35ae1e5du) & (map->capacity - 1);
}

static size_t next(const ol_int64_map *map, size_t at) {
    return (at + 1) & (map->capacity - 1);
}

/* Returns the place of the key, or the free place where it would be put. */
static size_t find(const ol_int64_map *map, uint64_t key) {
    size_t at = home_of(map, key);
    while (map->entries[at].value != 0 && map->entries[at].key != key) at = next(map, at);
    return at;
}

void ol_int64_map_free(ol_int64_map *map) {
    free(map->entries);
    *map = (ol_int64_map){NULL, 0, 0};
}

int ol_int64_map_reserve(ol_int64_map *map, size_t count, ol_error *error) {
    if (count <= map->capacity / 4 * 3) return OL_OK;
    ol_int64_map larger = {.capacity = map->capacity == 0 ? 16 : map->capacity,
                           .count = map->count};
    while (count > larger.capacity / 4 * 3) larger.capacity *= 2;
    larger.entries = calloc(larger.capacity, sizeof *larger.entries);
    if (larger.entries == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu keys", count);
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->entries[i].value != 0) {
            larger.entries[find(&larger, map->entries[i].key)] = map->entries[i];
        }
    }
    free(map->entries);
    *map = larger;
    return OL_OK;
}

uint64_t ol_int64_map_get(const ol_int64_map *map, uint64_t key) {
    return map->count == 0 ? 0 : map->entries[find(map, key)].value;
}

static void remove_at(ol_int64_map *map, size_t hole) {
    map->entries[hole].value = 0;
    map->count--;
    /* Every later entry of the run moves into the hole unless its home is between the hole and the
     * entry. */
    for (size_t at = next(map, hole); map->entries[at].value != 0; at = next(map, at)) {
        size_t home = home_of(map, map->entries[at].key), mask = map->capacity - 1;
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        map->entries[hole] = map->entries[at];
        map->entries[at].value = 0;
        hole = at;
    }
}

uint64_t ol_int64_map_exchange(ol_int64_map *map, uint64_t key, uint64_t value) {
    OL_ASSERT(value != 0 && map->capacity != 0);
    size_t at = find(map, key);
    uint64_t before = map->entries[at].value;
    OL_ASSERT(before != 0 || map->count < map->capacity - 1);
    map->count += before == 0;
    map->entries[at] = (ol_int64_map_entry){key, value};
    return before;
}

void ol_int64_map_clear(ol_int64_map *map) {
    if (map->capacity > CAPACITY_KEPT_MAX) {
        ol_int64_map_free(map);
        return;
    }
    if (map->count != 0) memset(map->entries, 0, map->capacity * sizeof *map->entries);
    map->count = 0;
}

void ol_int64_map_prefetch(const ol_int64_map *map, uint64_t key) {
    if (map->capacity != 0) __builtin_prefetch(&map->entries[home_of(map, key)], 1);
}

void ol_int64_map_set(ol_int64_map *map, uint64_t key, uint64_t value) {
    if (value != 0) {
        ol_int64_map_exchange(map, key, value);
    } else if (map->count != 0) {
        size_t at = find(map, key);
        if (map->entries[at].value != 0) remove_at(map, at);
    }
}
