/* table/cell_extras.c: a hash index over an arena of entries, with a list of free ones. */
#include "table/cell_extras.h"

#include <string.h>

#include "base/hash.h"
#include "table/validate/ownership.h"

enum { ENTRY_BITS = 27 };
#define FREE_ENTRY UINT32_MAX       /* stored as the topic id of a free entry */

static ol_cell_extras_entry *entry_at(const ol_cell_extras *side, uint32_t number) {
    return (ol_cell_extras_entry *)side->entries.base + number;
}

/* Mixed twice: the keys of neighbouring partitions differ in a few low bits.  After one
 * multiplication by an unlucky seed most of them would share the high bit that splits a piece of
 * the hash index. */
static uint64_t hash_key(const ol_cell_extras *side, uint64_t key) {
    return ol_hash64_mix(ol_hash64_mix(key, side->seed), side->seed);
}

static uint64_t hash_of(const void *owner, uint32_t number) {
    const ol_cell_extras *side = owner;
    return hash_key(side, entry_at(side, number)->key);
}

static void prefetch(const void *owner, uint32_t number, int round) {
    if (round == 0) __builtin_prefetch(entry_at(owner, number));
}

static const ol_hash_index_items side_items = {hash_of, prefetch};

void ol_cell_extras_init(ol_cell_extras *side, uint64_t seed) {
    memset(side, 0, sizeof *side);
    side->seed = seed;
    ol_hash_index_init(&side->slots, ENTRY_BITS, &side_items, side);
}

void ol_cell_extras_free_all(ol_cell_extras *side) {
    ol_arena_free(&side->entries);
    ol_hash_index_free(&side->slots);
}

static ol_cell_extras_entry *find(const ol_cell_extras *side, uint64_t key, uint64_t hash) {
    ol_hash_index_probe probe = ol_hash_index_probe_begin(&side->slots, hash);
    for (uint32_t number; (number = ol_hash_index_probe_next(&probe)) != 0;) {
        if (entry_at(side, number)->key == key) return entry_at(side, number);
    }
    return NULL;
}

ol_cell_extras_entry *ol_cell_extras_find(const ol_cell_extras *side, uint64_t key) {
    return find(side, key, hash_key(side, key));
}

static int add_free_entry(ol_cell_extras *side, ol_error *error) {
    size_t count = side->entries.used / sizeof(ol_cell_extras_entry);
    if (count >= (size_t)1 << ENTRY_BITS)
        return ol_fail(error, OL_LIMIT, "the table's side entries are all in use");
    bool first = count == 0;
    int status = ol_arena_extend(&side->entries, sizeof(ol_cell_extras_entry) * (first ? 2 : 1),
                                 error);
    if (status != OL_OK) return status;
    uint32_t number = (uint32_t)count + first;
    entry_at(side, number)->key = side->free_entry;
    entry_at(side, number)->topic_id = FREE_ENTRY;
    side->free_entry = number;
    side->free_count++;
    return OL_OK;
}

int ol_cell_extras_make(ol_cell_extras *side, uint64_t key, ol_cell_extras_entry **entry,
                        ol_error *error) {
    uint64_t hash = hash_key(side, key);
    *entry = find(side, key, hash);
    if (*entry != NULL) return OL_OK;
    int status = ol_hash_index_reserve(&side->slots, hash, error);
    if (status == OL_OK && side->free_entry == 0) status = add_free_entry(side, error);
    if (status != OL_OK) return status;
    uint32_t number = side->free_entry;
    *entry = entry_at(side, number);
    side->free_entry = (uint32_t)(*entry)->key;
    side->free_count--;
    **entry = (ol_cell_extras_entry){.key = key, .expire_timestamp = -1, .tombstone = INT64_MIN};
    ol_hash_index_insert(&side->slots, hash, number);
    return OL_OK;
}

void ol_cell_extras_drop(ol_cell_extras *side, ol_cell_extras_entry *entry) {
    OL_ASSERT(entry->pins == 0 && entry->topic_id == 0);
    uint32_t number = (uint32_t)(entry - (ol_cell_extras_entry *)side->entries.base);
    ol_hash_index_remove(&side->slots, hash_key(side, entry->key), number);
    *entry = (ol_cell_extras_entry){.key = side->free_entry, .topic_id = FREE_ENTRY};
    side->free_entry = number;
    side->free_count++;
}

uint64_t ol_cell_extras_resident(const ol_cell_extras *side) {
    return ol_arena_resident(&side->entries) + ol_hash_index_resident(&side->slots);
}

uint64_t ol_cell_extras_unused(const ol_cell_extras *side) {
    return side->free_count * sizeof(ol_cell_extras_entry) + ol_hash_index_unused(&side->slots);
}

const ol_cell_extras_entry *ol_cell_extras_next(const ol_cell_extras *side, uint32_t *at) {
    size_t count = side->entries.used / sizeof(ol_cell_extras_entry);
    while (++*at < count) {
        if (entry_at(side, *at)->topic_id != FREE_ENTRY) return entry_at(side, *at);
    }
    return NULL;
}

void ol_cell_extras_verify(const ol_cell_extras *side) {
    size_t count = side->entries.used / sizeof(ol_cell_extras_entry);
    uint64_t pins = 0, living = 0;
    uint32_t at = 0, free_count = 0;
    for (const ol_cell_extras_entry *entry; (entry = ol_cell_extras_next(side, &at)) != NULL;
         living++) {
        pins += entry->pins;
        OL_ASSERT(ol_cell_extras_find(side, entry->key) == entry);
    }
    for (uint32_t link = side->free_entry; link != 0; link = (uint32_t)entry_at(side, link)->key) {
        OL_ASSERT(entry_at(side, link)->topic_id == FREE_ENTRY && ++free_count <= side->free_count);
    }
    OL_ASSERT(pins == side->pins && living == side->slots.count && free_count == side->free_count);
    OL_ASSERT(count == 0 || living + free_count + 1 == count);
    ol_hash_index_verify(&side->slots);
}

/* ----------------------------------------------------------------------------------- validation */

/* The list of free entries names each of them once; otherwise a walk of it would not end. */
static bool is_free_list_sound(const ol_cell_extras *side, uint64_t free_count) {
    size_t count = side->entries.used / sizeof(ol_cell_extras_entry);
    uint64_t listed = 0;
    for (uint32_t link = side->free_entry; link != 0; link = (uint32_t)entry_at(side, link)->key) {
        if (link >= count || entry_at(side, link)->topic_id != FREE_ENTRY || ++listed > free_count)
            return false;
    }
    return listed == free_count && free_count == side->free_count;
}

static bool are_entries_sound(const ol_cell_extras *side, uint64_t key) {
    size_t count = side->entries.used / sizeof(ol_cell_extras_entry);
    uint64_t living = 0, pins = 0;
    uint32_t at = 0;
    ol_hash_index_tally lines = {0, 0}, found = {0, 0};
    for (const ol_cell_extras_entry *entry; (entry = ol_cell_extras_next(side, &at)) != NULL;
         living++) {
        if (entry->pins == 0 && entry->topic_id == 0 && entry->expire_timestamp == -1) return false;
        if (!ol_hash_index_validate_item(&side->slots, hash_key(side, entry->key), at, key, &found))
            return false;
        pins += entry->pins;
    }
    if (!ol_hash_index_validate_lines(&side->slots, 0, ol_hash_index_pieces(&side->slots), key,
                                      &lines))
        return false;
    return lines.items == side->slots.count && lines.items == found.items &&
           lines.passed == found.passed && pins == side->pins &&
           is_free_list_sound(side, count == 0 ? 0 : count - 1 - living);
}

int ol_cell_extras_validate(const ol_cell_extras *side, uint64_t key, ol_error *error) {
    int status = ol_hash_index_validate_shape(&side->slots, error);
    if (status != OL_OK) return status;
    size_t count = side->entries.used / sizeof(ol_cell_extras_entry);
    bool sound = side->entries.used % sizeof(ol_cell_extras_entry) == 0 &&
                 count <= (size_t)1 << ENTRY_BITS && count != 1;
    if (!sound || !are_entries_sound(side, key))
        return ol_fail(error, OL_CORRUPT, "the side entries are not sound");
    return OL_OK;
}
