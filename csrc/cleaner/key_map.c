/* Puts keys into the map of a pass, and lets the map grow. */
#include "cleaner/key_map.h"

#include <sys/mman.h>
#include <sys/random.h>

#include "base/pages.h"

enum {
    SLOTS_MIN = 64,
    SPARE_MAX = 512,            /* entries after the last slot, for its overflow */
    GROWTH = 2,
    HUGE_PAGE_SIZE = 2 << 20,
};

static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void ol_key_hasher_init(ol_key_hasher *hasher, uint64_t seed) {
    if (seed != 0 || getrandom(hasher, sizeof *hasher, GRND_NONBLOCK) != (ssize_t)sizeof *hasher) {
        /* The system has no randomness yet.  The address of a variable is unknown outside the
         * process. */
        uint64_t state = seed != 0 ? seed : (uint64_t)(uintptr_t)hasher;
        for (int i = 0; i < 2; i++) {
            hasher->keys[i] = next_random(&state);
            hasher->starts[i] = next_random(&state);
            hasher->sizes[i] = next_random(&state);
            hasher->last[i] = next_random(&state);
        }
    }
    for (int i = 0; i < 2; i++) hasher->sizes[i] |= 1;      /* a factor: never zero */
}

static uint64_t spare_for(uint64_t entries) {
    return entries / 8 < SPARE_MAX ? entries / 8 : SPARE_MAX;
}

static uint64_t entries_max(size_t bytes_max) {
    uint64_t entries = bytes_max / sizeof(ol_key_entry);
    return entries < SLOTS_MIN ? SLOTS_MIN : entries;
}

static bool allocate(ol_key_map *map, uint64_t entries) {
    size_t bytes = entries * sizeof(ol_key_entry);
    map->entries = ol_pages_allocate(bytes);
    if (map->entries == NULL) return false;
    /* Keys are spread over the whole map: with small pages nearly every one would cost a TLB miss,
     * too. */
    if (bytes >= HUGE_PAGE_SIZE) (void)madvise(map->entries, bytes, MADV_HUGEPAGE);
    map->capacity = entries;
    map->slots = entries - spare_for(entries);
    map->count_max = entries < entries_max(map->bytes_max) ? map->slots / 4 * 3
                                                           : map->slots - map->slots / 10;
    map->count = 0;
    return true;
}

int ol_key_map_create(ol_key_map *map, size_t bytes_max, uint64_t expected, ol_error *error) {
    memset(map, 0, sizeof *map);
    map->bytes_max = bytes_max;
    uint64_t entries = entries_max(bytes_max);
    if (expected * 2 < entries / GROWTH) {
        entries = expected * 2 < SLOTS_MIN ? SLOTS_MIN : expected * 2;
    }
    if (allocate(map, entries)) return OL_OK;
    return ol_fail(error, OL_NO_MEMORY, "no memory for a map of %llu keys",
                   (unsigned long long)entries);
}

void ol_key_map_free(ol_key_map *map) {
    ol_pages_free(map->entries, map->capacity * sizeof(ol_key_entry));
    memset(map, 0, sizeof *map);
}

void ol_key_map_clear(ol_key_map *map) {
    if (map->count > 0) memset(map->entries, 0, map->capacity * sizeof(ol_key_entry));
    map->count = 0;
}

/* Returns the place of the key, or the place at which it must be inserted so that hashes ascend. */
static ol_key_entry *find_place(const ol_key_map *map, ol_hash128 key) {
    ol_key_entry *entry = map->entries + ol_key_map_slot(map, key);
    while (entry->next_offset != 0 &&
           (entry->low < key.low || (entry->low == key.low && entry->high != key.high))) {
        entry++;
    }
    return entry;
}

/* Moves the entries from `place` up to the next empty one by one place.  The last entry of all
 * stays empty. */
static bool open_place(ol_key_map *map, ol_key_entry *place) {
    ol_key_entry *empty = place, *last = map->entries + map->capacity - 1;
    while (empty->next_offset != 0) empty++;
    if (empty >= last) return false;
    memmove(place + 1, place, (size_t)(empty - place) * sizeof *place);
    return true;
}

static bool grow(ol_key_map *map) {
    uint64_t entries = entries_max(map->bytes_max);
    if (map->capacity >= entries) return false;
    ol_key_map old = *map;
    int64_t ignored;
    /* The old entries and the new ones take memory at the same time. */
    if (old.capacity * GROWTH <= entries / GROWTH) entries = old.capacity * GROWTH;
    if (!allocate(map, entries)) {
        *map = old;
        return false;
    }
    for (uint64_t i = 0; i < old.capacity; i++) {
        const ol_key_entry *entry = &old.entries[i];
        if (entry->next_offset == 0) continue;
        /* The entries come in the order of their hashes, so each is put after all others. */
        bool put = ol_key_map_put(map, (ol_hash128){entry->low, entry->high},
                                  entry->next_offset - 1, &ignored);
        OL_ASSERT(put);
    }
    ol_pages_free(old.entries, old.capacity * sizeof(ol_key_entry));
    return true;
}

bool ol_key_map_put(ol_key_map *map, ol_hash128 key, int64_t offset, int64_t *previous) {
    OL_ASSERT(offset >= 0 && offset < INT64_MAX);
    ol_key_entry *place = find_place(map, key);
    *previous = place->next_offset - 1;
    if (place->next_offset != 0 && place->low == key.low) {
        if (place->next_offset <= offset) place->next_offset = offset + 1;
        return true;
    }
    *previous = -1;
    if (OL_UNLIKELY(map->count >= map->count_max) || !open_place(map, place)) {
        return grow(map) && ol_key_map_put(map, key, offset, previous);
    }
    *place = (ol_key_entry){key.low, key.high, offset + 1};
    map->count++;
    return true;
}
