/* table/hash_index: a hash of 32-bit item numbers.
 *
 * The owner keeps the items, their keys and their hashes.  A line is one cache line of 15 slots,
 * with a count of the items that found the line full and continued to a later one.  A slot holds an
 * item number and, above it, as many bits of the item's hash as fit (5 for 27-bit numbers), so a
 * wrong item is hardly ever inspected.  A removal clears the item's slot and decrements the counts
 * of the lines that the item had passed: no item moves and no marker stays.
 *
 * Lines belong to pieces of 1 to 6 units of 1 KiB.  A full piece gets one more unit; a full piece
 * of six units is split in two of four along the next bit of the hash.  So slots cost 4.7 to 6.3
 * bytes per item at any size, and growth touches at most 1,300 items.
 *
 * Ownership: the index owns its arenas.  Locks: none; calls that take a const index may run side by
 * side.  Calls that fail change nothing.
 */
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
    uint8_t depth;  /* number of hash bits that all items of the piece share */
    uint16_t zero;
} ol_hash_index_piece;

/* The index asks its owner about items with these calls.  `prefetch` may be NULL; otherwise it is
 * called in three rounds before `hash_of`. */
typedef struct ol_hash_index_items {
    uint64_t (*hash_of)(const void *owner, uint32_t item);
    void (*prefetch)(const void *owner, uint32_t item, int round);
} ol_hash_index_items;

typedef struct ol_hash_index {
    ol_arena units;
    ol_arena pieces;
    ol_arena directory;  /* piece numbers by the first `depth` bits of a hash; unused at depth 0 */
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

/* Reserves a slot for one more item of this hash.  Fails with OL_NO_MEMORY or OL_LIMIT.  After a
 * success, ol_hash_index_insert cannot fail if it is the next change. */
int ol_hash_index_reserve(ol_hash_index *hash_index, uint64_t hash, ol_error *error) OL_NODISCARD;
void ol_hash_index_insert(ol_hash_index *hash_index, uint64_t hash, uint32_t item);
void ol_hash_index_remove(ol_hash_index *hash_index, uint64_t hash, uint32_t item);
/* Replaces `item` in its slot by another item of the same hash. */
void ol_hash_index_replace(ol_hash_index *hash_index, uint64_t hash, uint32_t item,
                           uint32_t replacement);

uint64_t ol_hash_index_resident(const ol_hash_index *hash_index);
/* Returns the bytes of free slots and free units. */
uint64_t ol_hash_index_unused(const ol_hash_index *hash_index);
void ol_hash_index_verify(const ol_hash_index *hash_index);

/* ----------------------------------------------------------------------------------- validation */

/* Validates the structure of an index that came from a file (table/validate/ownership.h): its
 * pieces, units and directory.  Returns OL_CORRUPT if it is not valid.  After OL_OK every probe is
 * safe, whatever the slots hold. */
int ol_hash_index_validate_shape(const ol_hash_index *hash_index, ol_error *error) OL_NODISCARD;

/* The index is valid when the tally of all its lines equals the tally of all the owner's items. */
typedef struct ol_hash_index_tally {
    uint64_t items;
    uint64_t passed;            /* sum of the marks of lines, one for each item that passed them */
} ol_hash_index_tally;

/* Adds the lines of pieces [first, end) to *tally; false when a piece contradicts its own count. */
bool ol_hash_index_validate_lines(const ol_hash_index *hash_index, size_t first, size_t end,
                                  uint64_t key, ol_hash_index_tally *tally);
/* Adds an item to *tally; false when the index does not have it. */
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

/* Returns a mask.  Bit i: slot i holds an item with this tag, or tag 0 is wanted and the slot is
 * free. */
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
    /* The last of the sixteen words is the count of passed items. */
    return (uint32_t)_mm_movemask_epi8(bytes) & 0x7fff;
}
#else
static inline uint32_t ol_hash_index_match(const ol_hash_index *hash_index,
                                           const ol_hash_index_line *line, uint32_t tag) {
    return ol_hash_index_match_portable(hash_index, line, tag);
}
#endif

/* A probe yields the candidates for a hash, then 0. */
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
            if (item != 0) return item;         /* a free slot matches tag 0, too */
        }
        if (probe->line == NULL || probe->line->passed == 0 || --probe->left == 0) return 0;
        probe->at++;
        if (probe->at == probe->piece->unit_count * OL_HASH_INDEX_UNIT_LINES) probe->at = 0;
        probe->line = ol_hash_index_line_at(probe->hash_index, probe->piece, probe->at);
        probe->matches = ol_hash_index_match(probe->hash_index, probe->line, probe->tag);
    }
}

#endif
