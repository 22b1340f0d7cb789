/* base/int64_map.c: open addressing with backward shift. */
#include "base/int64_map.h"

#include <stdlib.h>

#include "base/hash.h"

static size_t home_of(const ol_int64_map *numbers, uint64_t key) {
    return ol_hash64_mix(key, 0x51ed270b35ae1e5du) & (numbers->capacity - 1);
}

static size_t next(const ol_int64_map *numbers, size_t at) {
    return (at + 1) & (numbers->capacity - 1);
}

/* The place of the key, or the free place where it would be put. */
static size_t find(const ol_int64_map *numbers, uint64_t key) {
    size_t at = home_of(numbers, key);
    while (numbers->entries[at].value != 0 && numbers->entries[at].key != key)
        at = next(numbers, at);
    return at;
}

void ol_int64_map_free(ol_int64_map *numbers) {
    free(numbers->entries);
    *numbers = (ol_int64_map){NULL, 0, 0};
}

int ol_int64_map_reserve(ol_int64_map *numbers, size_t count, ol_error *error) {
    if (count <= numbers->capacity / 4 * 3) return OL_OK;
    ol_int64_map larger = {.capacity = numbers->capacity == 0 ? 16 : numbers->capacity,
                           .count = numbers->count};
    while (count > larger.capacity / 4 * 3) larger.capacity *= 2;
    larger.entries = calloc(larger.capacity, sizeof *larger.entries);
    if (larger.entries == NULL)
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu keys", count);
    for (size_t i = 0; i < numbers->capacity; i++) {
        if (numbers->entries[i].value != 0)
            larger.entries[find(&larger, numbers->entries[i].key)] = numbers->entries[i];
    }
    free(numbers->entries);
    *numbers = larger;
    return OL_OK;
}

uint64_t ol_int64_map_get(const ol_int64_map *numbers, uint64_t key) {
    return numbers->count == 0 ? 0 : numbers->entries[find(numbers, key)].value;
}

static void remove_at(ol_int64_map *numbers, size_t hole) {
    numbers->entries[hole].value = 0;
    numbers->count--;
    /* Every later entry of the run moves into the hole unless its home lies between the two. */
    for (size_t at = next(numbers, hole); numbers->entries[at].value != 0; at = next(numbers, at)) {
        size_t home = home_of(numbers, numbers->entries[at].key), mask = numbers->capacity - 1;
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        numbers->entries[hole] = numbers->entries[at];
        numbers->entries[at].value = 0;
        hole = at;
    }
}

void ol_int64_map_set(ol_int64_map *numbers, uint64_t key, uint64_t value) {
    if (numbers->capacity == 0) {
        OL_ASSERT(value == 0);
        return;
    }
    size_t at = find(numbers, key);
    bool there = numbers->entries[at].value != 0;
    if (value == 0) {
        if (there) remove_at(numbers, at);
        return;
    }
    OL_ASSERT(there || numbers->count < numbers->capacity - 1);
    numbers->count += !there;
    numbers->entries[at] = (ol_int64_map_entry){key, value};
}
