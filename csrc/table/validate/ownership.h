/* table/validate/ownership: proof that each unit of a restored table has exactly one owner.
 *
 * A table from a file is used only after everything that the code relies on was checked: memory
 * safety, loops that end, and the code's own assertions.  The checks are the files of this folder
 * and the ol_*_validate functions.
 *
 * A unit is the smallest piece of an arena that can be allocated.  Two methods show that each unit
 * has exactly one owner.  The first is a bit for each unit of an arena, which is set when an owner
 * takes the unit.  The second is a sum of marks.  A mark is a pseudo-random number that is computed
 * from a key and the number of an object.  If two sets of objects have the same sum of marks, they
 * almost certainly contain the same objects equally often.  The key is drawn for each check, so the
 * author of a forged file cannot know it.
 */
#ifndef OL_TABLE_VALIDATE_OWNERSHIP_H
#define OL_TABLE_VALIDATE_OWNERSHIP_H

#include <stdlib.h>

#include "base/base.h"
#include "base/status.h"

static inline uint64_t ol_ownership_mark(uint64_t key, uint64_t number) {
    uint64_t z = (number + 1) * 0x9e3779b97f4a7c15u + key;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

typedef struct ol_ownership_bits {
    uint64_t *words;
    uint64_t count;             /* bits */
} ol_ownership_bits;

static inline int ol_ownership_bits_create(ol_ownership_bits *bits, uint64_t count,
                                           ol_error *error) {
    bits->count = count;
    bits->words = calloc((size_t)(count / 64 + 1), sizeof *bits->words);
    if (bits->words == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to check a table");
    return OL_OK;
}

static inline void ol_ownership_bits_free(ol_ownership_bits *bits) { free(bits->words); }

/* Marks `length` units from `first` on as taken.  Returns false if one of them does not exist or is
 * taken already.  `length` must be 1, 2 or 4, and `first` a multiple of `length`, so that the units
 * are in one word of the bitmap. */
static inline bool ol_ownership_take_aligned(ol_ownership_bits *bits, uint64_t first,
                                             unsigned length) {
    if (OL_UNLIKELY(first >= bits->count || length > bits->count - first)) return false;
    uint64_t mask = (((uint64_t)1 << length) - 1) << (first % 64);
    uint64_t *word = &bits->words[first / 64];
    bool untaken = (*word & mask) == 0;
    *word |= mask;
    return untaken;
}

static inline bool ol_ownership_take(ol_ownership_bits *bits, uint64_t first, uint64_t length) {
    if (OL_UNLIKELY(first >= bits->count || length > bits->count - first)) return false;
    for (uint64_t i = first; i < first + length; i++) {
        uint64_t mask = (uint64_t)1 << (i % 64);
        if (bits->words[i / 64] & mask) return false;
        bits->words[i / 64] |= mask;
    }
    return true;
}

/* Adds the units that are taken in `other` to those in `bits`.  Returns false if a unit is taken in
 * both. */
static inline bool ol_ownership_merge(ol_ownership_bits *bits, const ol_ownership_bits *other) {
    uint64_t both = 0;
    for (uint64_t i = 0; i < bits->count / 64 + 1; i++) {
        both |= bits->words[i] & other->words[i];
        bits->words[i] |= other->words[i];
    }
    return both == 0;
}

static inline bool ol_ownership_all_taken(const ol_ownership_bits *bits) {
    for (uint64_t i = 0; i < bits->count / 64; i++) {
        if (bits->words[i] != UINT64_MAX) return false;
    }
    uint64_t rest = ((uint64_t)1 << (bits->count % 64)) - 1;
    return (bits->words[bits->count / 64] & rest) == rest;
}

#endif
