/* table/hash_index: a hash of 32-bit item numbers.
 *
 * The index contains only the numbers of items; its owner keeps the items, their keys and their
 * hashes.  A line is a cache line with 15 slots and a count.  The count says how many items found
 * the line full and went on to a later line.  A slot contains the number of an item and, in the
 * bits above it, as many bits of the item's hash as fit (5 if the numbers have 27 bits), so that a
 * probe hardly ever looks at a wrong item.  When an item is removed, its slot is cleared, and the
 * count of every line that the item had passed is decremented.  No other item moves, and no marker
 * remains.
 *
 * Lines belong to pieces.  A piece has 1 to 6 units, and a unit has 1 KiB.  A full piece gets one
 * more unit.  If it has six units already, it is split into two pieces of four units each by the
 * next bit of the hash.  The slots therefore cost 4.7 to 6.3 bytes per item, whatever the number of
 * items is.  One step of growth touches at most 1,300 items.
 *
 * Ownership: the index owns its arenas.  The functions take no lock.  Calls that take a const index
 * may run at the same time.  A call that fails changes nothing. */
#ifndef OL_TABLE_HASH_INDEX_H
#define OL_TABLE_HASH_INDEX_H

#include "base/arena.h"

enum {
    OL_HASH_INDEX_LINE_ITEMS = 15,
    OL_HASH_INDEX_UNIT_LINES = 16,
    OL_HASH_INDEX_PIECE_UNITS = 6,
    OL_HASH_INDEX_DEPTH_MAX = 24,
};

typedef struct ol_hash_index_line {
    uint32_t slot[OL_HASH_INDEX_LINE_ITEMS];     /* 0: free */
    uint32_t passed;
} ol_hash_index_line;

_Static_assert(sizeof(ol_hash_index_line) == 64, "a line is a cache line");

typedef struct ol_hash_index_piece {
    uint32_t unit[OL_HASH_INDEX_PIECE_UNITS];
    uint32_t used;                          /* items */
    uint8_t unit_count;
    uint8_t depth;  /* number of leading hash bits that all items of the piece have in common */
    uint16_t zero;
} ol_hash_index_piece;

/* The calls with which the index asks its owner about items.  `prefetch` may be NULL.  Otherwise
 * the index calls it in three rounds before it calls `hash_of`. */
typedef struct ol_hash_index_items {
    uint64_t (*hash_of)(const void *owner, uint32_t item);
    void (*prefetch)(const void *owner, uint32_t item, int round);
} ol_hash_index_items;

typedef struct ol_hash_index {
    ol_arena units;
    ol_arena pieces;
    ol_arena directory;  /* the number of the piece for each value of the first `depth` bits of a
                            hash; unused if depth is 0 */
    const ol_hash_index_items *items;
    const void *owner;
    uint64_t count;
    uint32_t item_bits;                     /* item numbers are 1 to 2^item_bits - 1 */
    uint32_t depth;
    uint32_t free_unit;                     /* first free unit + 1 */
    uint32_t free_unit_count;
} ol_hash_index;

void ol_hash_index_init(ol_hash_index *hash_index, unsigned item_bits,
                        const ol_hash_index_items *items, const void *owner);
void ol_hash_index_free(ol_hash_index *hash_index);

/* Reserves a slot for one more item with this hash.  If the next change to the index is an
 * ol_hash_index_insert with this hash, it cannot fail.  Fails with OL_NO_MEMORY or OL_LIMIT. */
int ol_hash_index_reserve(ol_hash_index *hash_index, uint64_t hash, ol_error *error) OL_NODISCARD;
void ol_hash_index_insert(ol_hash_index *hash_index, uint64_t hash, uint32_t item);
void ol_hash_index_remove(ol_hash_index *hash_index, uint64_t hash, uint32_t item);
/* Puts `replacement` into the slot of `item`.  Both must have the same hash. */
void ol_hash_index_replace(ol_hash_index *hash_index, uint64_t hash, uint32_t item,
                           uint32_t replacement);

uint64_t ol_hash_index_resident(const ol_hash_index *hash_index);
/* Returns how many bytes the free slots and the free units have. */
uint64_t ol_hash_index_unused(const ol_hash_index *hash_index);
void ol_hash_index_verify(const ol_hash_index *hash_index);

/* ----------------------------------------------------------------------------------- validation */

/* Validates the structure of an index that came from a file (table/validate/ownership.h), which
 * consists of its pieces, units and directory.  Returns OL_CORRUPT if it is not valid.  After OL_OK
 * every probe is safe, whatever is in the slots. */
int ol_hash_index_validate_shape(const ol_hash_index *hash_index, ol_error *error) OL_NODISCARD;

/* A tally of the items of an index.  To validate an index, the caller makes two tallies: one from
 * all lines of the index, and one from all items of the owner.  The index is valid if the two
 * tallies are equal. */
typedef struct ol_hash_index_tally {
    uint64_t items;
    uint64_t passed;            /* a sum: each item adds the marks (table/validate/ownership.h) of
                                   all lines that it passed */
} ol_hash_index_tally;

/* Adds the lines of the pieces [first, end) to *tally.  Returns false if the item count of a piece
 * is wrong. */
bool ol_hash_index_validate_lines(const ol_hash_index *hash_index, size_t first, size_t end,
                                  uint64_t key, ol_hash_index_tally *tally);
/* Adds an item to *tally.  Returns false if the index does not contain the item. */
bool ol_hash_index_validate_item(const ol_hash_index *hash_index, uint64_t hash, uint32_t item,
                                 uint64_t key, ol_hash_index_tally *tally);

static inline size_t ol_hash_index_pieces(const ol_hash_index *hash_index) {
    return hash_index->pieces.used / sizeof(ol_hash_index_piece);
}

/* -------------------------------------------------------------------------------------- finding */

static inline const ol_hash_index_piece *ol_hash_index_piece_of(const ol_hash_index *hash_index,
                                                                uint64_t hash) {
    uint32_t piece = 0;
    if (hash_index->depth != 0) {
        piece = ((const uint32_t *)hash_index->directory.base)[hash >> (64 - hash_index->depth)];
    }
    return (const ol_hash_index_piece *)hash_index->pieces.base + piece;
}

static inline uint32_t ol_hash_index_home(const ol_hash_index_piece *piece, uint64_t hash) {
    return (uint32_t)((hash & 0xffffffff) * (piece->unit_count * OL_HASH_INDEX_UNIT_LINES) >> 32);
}

static inline ol_hash_index_line *ol_hash_index_line_at(const ol_hash_index *hash_index,
                                                        const ol_hash_index_piece *piece,
                                                        uint32_t line) {
    size_t unit = piece->unit[line / OL_HASH_INDEX_UNIT_LINES];
    return (ol_hash_index_line *)hash_index->units.base + unit * OL_HASH_INDEX_UNIT_LINES +
           line % OL_HASH_INDEX_UNIT_LINES;
}

static inline uint32_t ol_hash_index_tag(const ol_hash_index *hash_index, uint64_t hash) {
    return (uint32_t)(hash >> 32) << hash_index->item_bits;
}

static inline uint32_t ol_hash_index_item(const ol_hash_index *hash_index, uint32_t slot) {
    return slot & (((uint32_t)1 << hash_index->item_bits) - 1);
}

/* Returns a mask in which bit i is set if slot i matches the tag.  A slot with an item matches if
 * the item has this tag.  A free slot matches tag 0. */
uint32_t ol_hash_index_match_portable(const ol_hash_index *hash_index,
                                      const ol_hash_index_line *line, uint32_t tag);

#if defined(__SSE2__)
#include <emmintrin.h>
static inline uint32_t ol_hash_index_match(const ol_hash_index *hash_index,
                                           const ol_hash_index_line *line, uint32_t tag) {
    const __m128i *part = (const __m128i *)line->slot;
    __m128i shift = _mm_cvtsi32_si128((int)hash_index->item_bits);
    __m128i wanted = _mm_set1_epi32((int)(tag >> hash_index->item_bits));
    __m128i equal[4];
    for (int i = 0; i < 4; i++) {
        equal[i] = _mm_cmpeq_epi32(_mm_srl_epi32(_mm_loadu_si128(part + i), shift), wanted);
    }
    __m128i bytes = _mm_packs_epi16(_mm_packs_epi32(equal[0], equal[1]),
                                    _mm_packs_epi32(equal[2], equal[3]));
    /* The last of the sixteen words is not a slot, but the count of passed items. */
    return (uint32_t)_mm_movemask_epi8(bytes) & 0x7fff;
}
#else
static inline uint32_t ol_hash_index_match(const ol_hash_index *hash_index,
                                           const ol_hash_index_line *line, uint32_t tag) {
    return ol_hash_index_match_portable(hash_index, line, tag);
}
#endif

/* A probe returns the possible items for a hash one after the other, and then 0. */
typedef struct ol_hash_index_probe {
    const ol_hash_index *hash_index;
    const ol_hash_index_piece *piece;
    const ol_hash_index_line *line;
    uint32_t tag;
    uint32_t matches;
    uint32_t at;
    uint32_t left;
} ol_hash_index_probe;

static inline ol_hash_index_probe ol_hash_index_probe_begin(const ol_hash_index *hash_index,
                                                            uint64_t hash) {
    ol_hash_index_probe probe = {.hash_index = hash_index,
                                 .tag = ol_hash_index_tag(hash_index, hash)};
    if (hash_index->pieces.used == 0) return probe;
    probe.piece = ol_hash_index_piece_of(hash_index, hash);
    probe.at = ol_hash_index_home(probe.piece, hash);
    probe.left = probe.piece->unit_count * OL_HASH_INDEX_UNIT_LINES;
    probe.line = ol_hash_index_line_at(hash_index, probe.piece, probe.at);
    probe.matches = ol_hash_index_match(hash_index, probe.line, probe.tag);
    return probe;
}

static inline uint32_t ol_hash_index_probe_next(ol_hash_index_probe *probe) {
    for (;;) {
        while (probe->matches != 0) {
            int slot = __builtin_ctz(probe->matches);
            probe->matches &= probe->matches - 1;
            uint32_t item = ol_hash_index_item(probe->hash_index, probe->line->slot[slot]);
            if (item != 0) return item;         /* A free slot matches tag 0 as well. */
        }
        if (probe->line == NULL || probe->line->passed == 0 || --probe->left == 0) return 0;
        probe->at++;
        if (probe->at == probe->piece->unit_count * OL_HASH_INDEX_UNIT_LINES) probe->at = 0;
        probe->line = ol_hash_index_line_at(probe->hash_index, probe->piece, probe->at);
        probe->matches = ol_hash_index_match(probe->hash_index, probe->line, probe->tag);
    }
}

#endif
