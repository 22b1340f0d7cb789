/* ol_side: what few positions have: an expire timestamp, a topic id that is not their pair's, reservations.
 *
 * One entry by (pair, partition), with a place for each of them.  An entry is there while one of them is.
 */
#ifndef OL_SIDE_H
#define OL_SIDE_H

#include "ol_slots.h"

typedef struct ol_side_entry {
    uint64_t key;
    int64_t expire_timestamp;   /* -1 none */
    int64_t tombstone;          /* log offset of the last tombstone applied while pinned; INT64_MIN none */
    uint32_t topic_id;          /* string number, a reference held; 0 none */
    uint32_t pins;              /* living reservations */
} ol_side_entry;

_Static_assert(sizeof(ol_side_entry) == 32, "the account of memory in docs/table.md counts on it");

typedef struct ol_side {
    ol_arena entries;           /* entry 0 is not used */
    ol_slots slots;
    uint64_t seed;
    uint64_t pins;              /* of all entries */
    uint32_t free_entry;        /* linked through key */
    uint32_t free_count;
} ol_side;

static inline uint64_t ol_side_key(uint32_t pair, int32_t partition) {
    return (uint64_t)pair << 32 | (uint32_t)partition;
}

void ol_side_init(ol_side *side, uint64_t seed);
void ol_side_free_all(ol_side *side);

/* NULL when there is none.  Valid until the next ol_side_make. */
ol_side_entry *ol_side_find(const ol_side *side, uint64_t key);
/* Finds the entry or makes an empty one. */
int ol_side_make(ol_side *side, uint64_t key, ol_side_entry **entry, ol_error *error) OL_NODISCARD;
/* Drops an entry that holds nothing any more. */
void ol_side_drop(ol_side *side, ol_side_entry *entry);

uint64_t ol_side_resident(const ol_side *side);
uint64_t ol_side_unused(const ol_side *side);

/* Walks the entries: `at` from 0; NULL behind the last. */
const ol_side_entry *ol_side_next(const ol_side *side, uint32_t *at);
void ol_side_verify(const ol_side *side);

/* Of entries that came from a file (ol_sound.h): checks everything but what they belong to.  Then each can be read. */
int ol_side_check(const ol_side *side, uint64_t key, ol_error *error) OL_NODISCARD;

#endif
