/* table/cell_extras: the rare parts of a position.
 *
 * The rare parts of a position are an expire timestamp, a topic id other than the pair's, and
 * reservations.  There is one entry per (pair, partition) with a field for each part.  An entry
 * exists while at least one part is set.
 *
 * Ownership: entries belong to the struct; a topic id is a reference in the table's string pool.
 * Locks: none; the table's owner serialises.  Calls that fail change nothing.
 */
#ifndef OL_TABLE_CELL_EXTRAS_H
#define OL_TABLE_CELL_EXTRAS_H

#include "table/hash_index.h"

typedef struct ol_cell_extras_entry {
    uint64_t key;
    int64_t expire_timestamp;   /* -1: none */
    int64_t tombstone;  /* log offset of the last tombstone applied while reservations pinned the
                           cell; INT64_MIN: none */
    uint32_t topic_id;          /* string number, one reference held; 0: none */
    uint32_t pins;              /* live reservations */
} ol_cell_extras_entry;

_Static_assert(sizeof(ol_cell_extras_entry) == 32,
               "the account of memory in docs/table.md counts on it");

typedef struct ol_cell_extras {
    ol_arena entries;           /* entry 0 is not used */
    ol_hash_index hash_index;
    uint64_t seed;
    uint64_t pins;              /* sum over all entries */
    uint32_t free_entry;        /* linked through key */
    uint32_t free_count;
} ol_cell_extras;

static inline uint64_t ol_cell_extras_key(uint32_t pair, int32_t partition) {
    return (uint64_t)pair << 32 | (uint32_t)partition;
}

void ol_cell_extras_init(ol_cell_extras *cell_extras, uint64_t seed);
void ol_cell_extras_free_all(ol_cell_extras *cell_extras);

/* Returns the entry, valid until the next ol_cell_extras_make; NULL when there is none. */
ol_cell_extras_entry *ol_cell_extras_find(const ol_cell_extras *cell_extras, uint64_t key);
/* Prefetches the line of the hash index in which an entry is, or will be. */
void ol_cell_extras_prefetch(const ol_cell_extras *cell_extras, uint64_t key);
/* Finds the entry or makes an empty one.  Fails with OL_NO_MEMORY or OL_LIMIT. */
int ol_cell_extras_make(ol_cell_extras *cell_extras, uint64_t key, ol_cell_extras_entry **entry,
                        ol_error *error) OL_NODISCARD;
/* Frees an entry whose parts are all unset. */
void ol_cell_extras_drop(ol_cell_extras *cell_extras, ol_cell_extras_entry *entry);

uint64_t ol_cell_extras_resident(const ol_cell_extras *cell_extras);
uint64_t ol_cell_extras_unused(const ol_cell_extras *cell_extras);

/* Walks the entries: `at` starts at 0; returns NULL after the last. */
const ol_cell_extras_entry *ol_cell_extras_next(const ol_cell_extras *cell_extras, uint32_t *at);
void ol_cell_extras_verify(const ol_cell_extras *cell_extras);

/* Validates entries that came from a file (table/validate/ownership.h), except the cells they
 * belong to.  After OL_OK every entry is safe to read.  Otherwise OL_CORRUPT. */
int ol_cell_extras_validate(const ol_cell_extras *cell_extras, uint64_t key, ol_error *error)
    OL_NODISCARD;

#endif
