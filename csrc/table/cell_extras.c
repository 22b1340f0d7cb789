/* table/cell_extras.c: keeps the entries in an arena, finds them with a hash index, and lists the
 * free ones. */
#include "table/cell_extras.h"

#include <string.h>

#include "base/hash.h"
#include "table/validate/ownership.h"

enum { ENTRY_BITS = 27 };
#define FREE_ENTRY UINT32_MAX       /* stored as the topic id of a free entry */

static ol_cell_extras_entry *entry_at(const ol_cell_extras *cell_extras, uint32_t number) {
    return (ol_cell_extras_entry *)cell_extras->entries.base + number;
}

/* Mixes a key twice, because the keys of neighbouring partitions differ in a few low bits.  After a
 * single multiplication by an unlucky seed, most of them would share the high bit that splits a
 * piece of the hash index. */
static uint64_t hash_key(const ol_cell_extras *cell_extras, uint64_t key) {
    return ol_hash64_mix(ol_hash64_mix(key, cell_extras->seed), cell_extras->seed);
}

static uint64_t hash_of(const void *owner, uint32_t number) {
    const ol_cell_extras *cell_extras = owner;
    return hash_key(cell_extras, entry_at(cell_extras, number)->key);
}

static void prefetch(const void *owner, uint32_t number, int round) {
    if (round == 0) __builtin_prefetch(entry_at(owner, number));
}

static const ol_hash_index_items extras_items = {hash_of, prefetch};

void ol_cell_extras_init(ol_cell_extras *cell_extras, uint64_t seed) {
    memset(cell_extras, 0, sizeof *cell_extras);
    cell_extras->seed = seed;
    ol_hash_index_init(&cell_extras->hash_index, ENTRY_BITS, &extras_items, cell_extras);
}

void ol_cell_extras_free_all(ol_cell_extras *cell_extras) {
    ol_arena_free(&cell_extras->entries);
    ol_hash_index_free(&cell_extras->hash_index);
}

static ol_cell_extras_entry *find(const ol_cell_extras *cell_extras, uint64_t key, uint64_t hash) {
    ol_hash_index_probe probe = ol_hash_index_probe_begin(&cell_extras->hash_index, hash);
    for (uint32_t number; (number = ol_hash_index_probe_next(&probe)) != 0;) {
        if (entry_at(cell_extras, number)->key == key) return entry_at(cell_extras, number);
    }
    return NULL;
}

ol_cell_extras_entry *ol_cell_extras_find(const ol_cell_extras *cell_extras, uint64_t key) {
    return find(cell_extras, key, hash_key(cell_extras, key));
}

void ol_cell_extras_prefetch(const ol_cell_extras *cell_extras, uint64_t key) {
    const ol_hash_index *index = &cell_extras->hash_index;
    if (index->count == 0) return;
    uint64_t hash = hash_key(cell_extras, key);
    const ol_hash_index_piece *piece = ol_hash_index_piece_of(index, hash);
    __builtin_prefetch(ol_hash_index_line_at(index, piece, ol_hash_index_home(piece, hash)), 1);
}

static int add_free_entry(ol_cell_extras *cell_extras, ol_error *error) {
    size_t count = cell_extras->entries.used / sizeof(ol_cell_extras_entry);
    if (count >= (size_t)1 << ENTRY_BITS) {
        return ol_fail(error, OL_LIMIT,
                       "the table cannot hold more positions with an expire timestamp, an open "
                       "transaction, or a topic id that differs from their topic's");
    }
    bool first = count == 0;
    int status = ol_arena_extend(&cell_extras->entries,
                                 sizeof(ol_cell_extras_entry) * (first ? 2 : 1), error);
    if (status != OL_OK) return status;
    uint32_t number = (uint32_t)count + first;
    entry_at(cell_extras, number)->key = cell_extras->free_entry;
    entry_at(cell_extras, number)->topic_id = FREE_ENTRY;
    cell_extras->free_entry = number;
    cell_extras->free_count++;
    return OL_OK;
}

int ol_cell_extras_make(ol_cell_extras *cell_extras, uint64_t key, ol_cell_extras_entry **entry,
                        ol_error *error) {
    uint64_t hash = hash_key(cell_extras, key);
    *entry = find(cell_extras, key, hash);
    if (*entry != NULL) return OL_OK;
    int status = ol_hash_index_reserve(&cell_extras->hash_index, hash, error);
    if (status == OL_OK && cell_extras->free_entry == 0) {
        status = add_free_entry(cell_extras, error);
    }
    if (status != OL_OK) return status;
    uint32_t number = cell_extras->free_entry;
    *entry = entry_at(cell_extras, number);
    cell_extras->free_entry = (uint32_t)(*entry)->key;
    cell_extras->free_count--;
    **entry = (ol_cell_extras_entry){.key = key, .expire_timestamp = -1, .tombstone = INT64_MIN};
    ol_hash_index_insert(&cell_extras->hash_index, hash, number);
    return OL_OK;
}

void ol_cell_extras_drop(ol_cell_extras *cell_extras, ol_cell_extras_entry *entry) {
    OL_ASSERT(entry->pins == 0 && entry->topic_id == 0);
    uint32_t number = (uint32_t)(entry - (ol_cell_extras_entry *)cell_extras->entries.base);
    ol_hash_index_remove(&cell_extras->hash_index, hash_key(cell_extras, entry->key), number);
    *entry = (ol_cell_extras_entry){.key = cell_extras->free_entry, .topic_id = FREE_ENTRY};
    cell_extras->free_entry = number;
    cell_extras->free_count++;
}

uint64_t ol_cell_extras_resident(const ol_cell_extras *cell_extras) {
    return ol_arena_resident(&cell_extras->entries) +
           ol_hash_index_resident(&cell_extras->hash_index);
}

uint64_t ol_cell_extras_unused(const ol_cell_extras *cell_extras) {
    return cell_extras->free_count * sizeof(ol_cell_extras_entry) +
           ol_hash_index_unused(&cell_extras->hash_index);
}

const ol_cell_extras_entry *ol_cell_extras_next(const ol_cell_extras *cell_extras, uint32_t *at) {
    size_t count = cell_extras->entries.used / sizeof(ol_cell_extras_entry);
    while (++*at < count) {
        if (entry_at(cell_extras, *at)->topic_id != FREE_ENTRY) return entry_at(cell_extras, *at);
    }
    return NULL;
}

void ol_cell_extras_verify(const ol_cell_extras *cell_extras) {
    size_t count = cell_extras->entries.used / sizeof(ol_cell_extras_entry);
    uint64_t pins = 0, living = 0;
    uint32_t at = 0, free_count = 0;
    for (const ol_cell_extras_entry *entry; (entry = ol_cell_extras_next(cell_extras, &at)) != NULL;
         living++) {
        pins += entry->pins;
        OL_ASSERT(ol_cell_extras_find(cell_extras, entry->key) == entry);
    }
    for (uint32_t link = cell_extras->free_entry; link != 0;
         link = (uint32_t)entry_at(cell_extras, link)->key) {
        OL_ASSERT(entry_at(cell_extras, link)->topic_id == FREE_ENTRY &&
                  ++free_count <= cell_extras->free_count);
    }
    OL_ASSERT(pins == cell_extras->pins && living == cell_extras->hash_index.count &&
              free_count == cell_extras->free_count);
    OL_ASSERT(count == 0 || living + free_count + 1 == count);
    ol_hash_index_verify(&cell_extras->hash_index);
}

/* ----------------------------------------------------------------------------------- validation */

/* Returns whether the list of free entries names each of them once; otherwise a walk of the list
 * might not end. */
static bool is_free_list_sound(const ol_cell_extras *cell_extras, uint64_t free_count) {
    size_t count = cell_extras->entries.used / sizeof(ol_cell_extras_entry);
    uint64_t listed = 0;
    for (uint32_t link = cell_extras->free_entry; link != 0;
         link = (uint32_t)entry_at(cell_extras, link)->key) {
        if (link >= count || entry_at(cell_extras, link)->topic_id != FREE_ENTRY ||
            ++listed > free_count) {
            return false;
        }
    }
    return listed == free_count && free_count == cell_extras->free_count;
}

static bool are_entries_sound(const ol_cell_extras *cell_extras, uint64_t key) {
    size_t count = cell_extras->entries.used / sizeof(ol_cell_extras_entry);
    uint64_t living = 0, pins = 0;
    uint32_t at = 0;
    ol_hash_index_tally lines = {0, 0}, found = {0, 0};
    for (const ol_cell_extras_entry *entry; (entry = ol_cell_extras_next(cell_extras, &at)) != NULL;
         living++) {
        if (entry->pins == 0 && entry->topic_id == 0 && entry->expire_timestamp == -1) return false;
        if (!ol_hash_index_validate_item(&cell_extras->hash_index,
                                         hash_key(cell_extras, entry->key), at, key, &found)) {
            return false;
        }
        pins += entry->pins;
    }
    if (!ol_hash_index_validate_lines(&cell_extras->hash_index, 0,
                                      ol_hash_index_pieces(&cell_extras->hash_index), key,
                                      &lines)) {
        return false;
    }
    return lines.items == cell_extras->hash_index.count && lines.items == found.items &&
           lines.passed == found.passed && pins == cell_extras->pins &&
           is_free_list_sound(cell_extras, count == 0 ? 0 : count - 1 - living);
}

int ol_cell_extras_validate(const ol_cell_extras *cell_extras, uint64_t key, ol_error *error) {
    int status = ol_hash_index_validate_shape(&cell_extras->hash_index, error);
    if (status != OL_OK) return status;
    size_t count = cell_extras->entries.used / sizeof(ol_cell_extras_entry);
    bool sound = cell_extras->entries.used % sizeof(ol_cell_extras_entry) == 0 &&
                 count <= (size_t)1 << ENTRY_BITS && count != 1;
    if (!sound || !are_entries_sound(cell_extras, key)) {
        return ol_fail(error, OL_CORRUPT, "the entries for extras are inconsistent");
    }
    return OL_OK;
}
