/* table/cell_extras: the rare parts of a position.
 *
 * Most positions consist only of a cell.  The rare parts of a position are an expire timestamp, a
 * topic id that differs from the pair's, and reservations.  If a position has at least one of these
 * parts, there is one entry for its (pair, partition), with a field for each part.
 *
 * Ownership: the struct owns the entries.  The topic id of an entry is a string of the table's
 * string pool, of which the entry holds one reference.  The functions take no lock; the owner of
 * the table makes sure that calls do not overlap.  A call that fails changes nothing. */
#ifndef OL_TABLE_CELL_EXTRAS_H
#define OL_TABLE_CELL_EXTRAS_H

#include "table/hash_index.h"

typedef struct ol_cell_extras_entry {
    uint64_t key;
    int64_t expire_timestamp;   /* -1: none */
    int64_t tombstone;  /* log offset of the last tombstone that was applied to the cell while it
                           had reservations; INT64_MIN: none */
    uint32_t topic_id;          /* number of a string, of which one reference is held; 0: none */
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

/* Returns the entry, or NULL if there is none.  The pointer is valid until the next
 * ol_cell_extras_make. */
ol_cell_extras_entry *ol_cell_extras_find(const ol_cell_extras *cell_extras, uint64_t key);
/* Prefetches the line of the hash index in which the entry is or would be. */
void ol_cell_extras_prefetch(const ol_cell_extras *cell_extras, uint64_t key);
/* Returns the entry in *entry.  If there is none, makes an empty one.  Fails with OL_NO_MEMORY or
 * OL_LIMIT. */
int ol_cell_extras_make(ol_cell_extras *cell_extras, uint64_t key, ol_cell_extras_entry **entry,
                        ol_error *error) OL_NODISCARD;
/* Frees an entry.  All of its parts must be unset. */
void ol_cell_extras_drop(ol_cell_extras *cell_extras, ol_cell_extras_entry *entry);

uint64_t ol_cell_extras_resident(const ol_cell_extras *cell_extras);
uint64_t ol_cell_extras_unused(const ol_cell_extras *cell_extras);

/* Returns the next entry of a walk over all entries, or NULL after the last.  *at must be 0 at the
 * beginning. */
const ol_cell_extras_entry *ol_cell_extras_next(const ol_cell_extras *cell_extras, uint32_t *at);
void ol_cell_extras_verify(const ol_cell_extras *cell_extras);

/* Validates entries that came from a file (table/validate/ownership.h).  Does not check whether
 * there is a cell for each entry.  Returns OL_CORRUPT if an entry is invalid.  After OL_OK every
 * entry can be read safely. */
int ol_cell_extras_validate(const ol_cell_extras *cell_extras, uint64_t key, ol_error *error)
    OL_NODISCARD;

#endif
