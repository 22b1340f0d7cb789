/* table/hash_index.c: growth, splits and removal of a hash index. */
#include "table/hash_index.h"

#include <string.h>

enum {
    UNIT_ITEMS = OL_HASH_INDEX_LINE_ITEMS * OL_HASH_INDEX_UNIT_LINES,
    UNIT_ITEMS_USED_MAX = UNIT_ITEMS * 9 / 10,
    PIECE_ITEMS_MAX = UNIT_ITEMS * OL_HASH_INDEX_PIECE_UNITS,
    UNITS_AFTER_SPLIT = 4,
    UNIT_SIZE = OL_HASH_INDEX_UNIT_LINES * (int)sizeof(ol_hash_index_line),
};

_Static_assert(sizeof(ol_hash_index_piece) == 32, "no padding");

uint32_t ol_hash_index_match_portable(const ol_hash_index *hash_index,
                                      const ol_hash_index_line *line, uint32_t tag) {
    uint32_t matches = 0;
    for (int i = 0; i < OL_HASH_INDEX_LINE_ITEMS; i++) {
        matches |= (uint32_t)((line->slot[i] ^ tag) >> hash_index->item_bits == 0) << i;
    }
    return matches;
}

void ol_hash_index_init(ol_hash_index *hash_index, unsigned item_bits,
                        const ol_hash_index_items *items, const void *owner) {
    OL_ASSERT(item_bits < 32);
    memset(hash_index, 0, sizeof *hash_index);
    hash_index->item_bits = item_bits;
    hash_index->items = items;
    hash_index->owner = owner;
}

void ol_hash_index_free(ol_hash_index *hash_index) {
    ol_arena_free(&hash_index->units);
    ol_arena_free(&hash_index->pieces);
    ol_arena_free(&hash_index->directory);
}

static ol_hash_index_line *unit_lines(const ol_hash_index *hash_index, uint32_t unit) {
    return (ol_hash_index_line *)hash_index->units.base + (size_t)unit * OL_HASH_INDEX_UNIT_LINES;
}

static int allocate_unit(ol_hash_index *hash_index, uint32_t *unit, ol_error *error) {
    if (hash_index->free_unit != 0) {
        *unit = hash_index->free_unit - 1;
        ol_hash_index_line *lines = unit_lines(hash_index, *unit);
        hash_index->free_unit = lines[0].slot[0];
        hash_index->free_unit_count--;
        memset(lines, 0, UNIT_SIZE);
        return OL_OK;
    }
    int status = ol_arena_extend(&hash_index->units, UNIT_SIZE, error);
    if (status != OL_OK) return status;
    *unit = (uint32_t)(hash_index->units.used / UNIT_SIZE - 1);
    return OL_OK;
}

static void free_unit(ol_hash_index *hash_index, uint32_t unit) {
    unit_lines(hash_index, unit)[0].slot[0] = hash_index->free_unit;
    hash_index->free_unit = unit + 1;
    hash_index->free_unit_count++;
}

/* Provides enough free units for a split, the largest possible growth, so that the steps after it
 * cannot fail. */
static int reserve_units(ol_hash_index *hash_index, uint32_t count, ol_error *error) {
    while (hash_index->free_unit_count < count) {
        int status = ol_arena_extend(&hash_index->units, UNIT_SIZE, error);
        if (status != OL_OK) return status;
        free_unit(hash_index, (uint32_t)(hash_index->units.used / UNIT_SIZE - 1));
    }
    return OL_OK;
}

static void add_reserved_unit(ol_hash_index *hash_index, ol_hash_index_piece *piece) {
    OL_ASSERT(hash_index->free_unit != 0 && piece->unit_count < OL_HASH_INDEX_PIECE_UNITS);
    ol_error error;
    int status = allocate_unit(hash_index, &piece->unit[piece->unit_count], &error);
    OL_ASSERT(status == OL_OK);
    piece->unit_count++;
}

static void place(const ol_hash_index *hash_index, const ol_hash_index_piece *piece, uint64_t hash,
                  uint32_t item) {
    uint32_t line_count = piece->unit_count * OL_HASH_INDEX_UNIT_LINES;
    uint32_t at = ol_hash_index_home(piece, hash);
    for (uint32_t step = 0; step < line_count; step++) {
        ol_hash_index_line *line = ol_hash_index_line_at(hash_index, piece, at);
        for (int i = 0; i < OL_HASH_INDEX_LINE_ITEMS; i++) {
            if (line->slot[i] != 0) continue;
            line->slot[i] = ol_hash_index_tag(hash_index, hash) | item;
            return;
        }
        line->passed++;
        if (++at == line_count) at = 0;
    }
    OL_ASSERT(!"a piece has a free slot");
}

/* Copies a piece's items out and clears its lines. */
static uint32_t drain(const ol_hash_index *hash_index, const ol_hash_index_piece *piece,
                      uint32_t *items) {
    uint32_t count = 0;
    for (uint32_t unit = 0; unit < piece->unit_count; unit++) {
        ol_hash_index_line *lines = unit_lines(hash_index, piece->unit[unit]);
        for (int i = 0; i < OL_HASH_INDEX_UNIT_LINES; i++) {
            for (int j = 0; j < OL_HASH_INDEX_LINE_ITEMS; j++) {
                if (lines[i].slot[j] != 0) {
                    items[count++] = ol_hash_index_item(hash_index, lines[i].slot[j]);
                }
            }
        }
        memset(lines, 0, UNIT_SIZE);
    }
    OL_ASSERT(count == piece->used);
    return count;
}

static void find_hashes(const ol_hash_index *hash_index, const uint32_t *items, uint32_t count,
                        uint64_t *hashes) {
    for (int round = 0; round < 3 && hash_index->items->prefetch != NULL; round++) {
        for (uint32_t i = 0; i < count; i++) {
            hash_index->items->prefetch(hash_index->owner, items[i], round);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = hash_index->items->hash_of(hash_index->owner, items[i]);
    }
}

static void resize(ol_hash_index *hash_index, ol_hash_index_piece *piece, uint32_t unit_count) {
    uint32_t items[PIECE_ITEMS_MAX];
    uint64_t hashes[PIECE_ITEMS_MAX];
    uint32_t count = drain(hash_index, piece, items);
    find_hashes(hash_index, items, count, hashes);
    while (piece->unit_count > unit_count) free_unit(hash_index, piece->unit[--piece->unit_count]);
    while (piece->unit_count < unit_count) add_reserved_unit(hash_index, piece);
    for (uint32_t i = 0; i < count; i++) place(hash_index, piece, hashes[i], items[i]);
}

static int double_directory(ol_hash_index *hash_index, ol_error *error) {
    if (hash_index->depth == OL_HASH_INDEX_DEPTH_MAX) {
        return ol_fail(error, OL_LIMIT, "the table's hash cannot grow any further");
    }
    size_t count = hash_index->directory.used / sizeof(uint32_t);
    int status = ol_arena_extend(&hash_index->directory,
                                 (count == 0 ? 2 : count) * sizeof(uint32_t), error);
    if (status != OL_OK) return status;
    uint32_t *directory = (uint32_t *)hash_index->directory.base;
    for (size_t i = count; i-- > 0;) directory[2 * i] = directory[2 * i + 1] = directory[i];
    hash_index->depth++;
    return OL_OK;
}

static int split(ol_hash_index *hash_index, uint64_t hash, ol_error *error) {
    int status = reserve_units(hash_index, UNITS_AFTER_SPLIT, error);
    if (status != OL_OK) return status;
    if (ol_hash_index_piece_of(hash_index, hash)->depth == hash_index->depth) {
        status = double_directory(hash_index, error);
        if (status != OL_OK) return status;
    }
    status = ol_arena_extend(&hash_index->pieces, sizeof(ol_hash_index_piece), error);
    if (status != OL_OK) return status;

    uint32_t items[PIECE_ITEMS_MAX];
    uint64_t hashes[PIECE_ITEMS_MAX];
    ol_hash_index_piece *low = (ol_hash_index_piece *)ol_hash_index_piece_of(hash_index, hash);
    ol_hash_index_piece *high = (ol_hash_index_piece *)hash_index->pieces.base +
                                (hash_index->pieces.used / sizeof *high - 1);
    uint32_t count = drain(hash_index, low, items);
    find_hashes(hash_index, items, count, hashes);
    while (low->unit_count > UNITS_AFTER_SPLIT) free_unit(hash_index, low->unit[--low->unit_count]);
    while (high->unit_count < UNITS_AFTER_SPLIT) add_reserved_unit(hash_index, high);
    low->used = 0;
    low->depth++;
    high->depth = low->depth;

    uint32_t *directory = (uint32_t *)hash_index->directory.base;
    uint64_t span = (uint64_t)1 << (hash_index->depth - low->depth);
    uint64_t first = hash >> (64 - low->depth) << (hash_index->depth - low->depth);
    first &= ~(2 * span - 1);
    uint32_t high_number = (uint32_t)(high - (ol_hash_index_piece *)hash_index->pieces.base);
    for (uint64_t i = 0; i < span; i++) directory[first + span + i] = high_number;
    for (uint32_t i = 0; i < count; i++) {
        ol_hash_index_piece *piece = hashes[i] >> (64 - low->depth) & 1 ? high : low;
        place(hash_index, piece, hashes[i], items[i]);
        piece->used++;
    }
    return OL_OK;
}

static int add_first_piece(ol_hash_index *hash_index, ol_error *error) {
    int status = reserve_units(hash_index, 1, error);
    if (status != OL_OK) return status;
    status = ol_arena_extend(&hash_index->pieces, sizeof(ol_hash_index_piece), error);
    if (status != OL_OK) return status;
    add_reserved_unit(hash_index, (ol_hash_index_piece *)hash_index->pieces.base);
    return OL_OK;
}

int ol_hash_index_reserve(ol_hash_index *hash_index, uint64_t hash, ol_error *error) {
    if (hash_index->pieces.used == 0) {
        int status = add_first_piece(hash_index, error);
        if (status != OL_OK) return status;
    }
    for (;;) {
        ol_hash_index_piece *piece = (ol_hash_index_piece *)ol_hash_index_piece_of(hash_index,
                                                                                   hash);
        if (OL_LIKELY(piece->used < piece->unit_count * UNIT_ITEMS_USED_MAX)) return OL_OK;
        int status;
        if (piece->unit_count < OL_HASH_INDEX_PIECE_UNITS) {
            status = reserve_units(hash_index, 1, error);
            if (status == OL_OK) resize(hash_index, piece, piece->unit_count + 1u);
        } else {
            status = split(hash_index, hash, error);
        }
        if (status != OL_OK) return status;
    }
}

void ol_hash_index_insert(ol_hash_index *hash_index, uint64_t hash, uint32_t item) {
    OL_ASSERT(item != 0 && item == ol_hash_index_item(hash_index, item));
    ol_hash_index_piece *piece = (ol_hash_index_piece *)ol_hash_index_piece_of(hash_index, hash);
    OL_ASSERT(piece->used < piece->unit_count * UNIT_ITEMS);
    place(hash_index, piece, hash, item);
    piece->used++;
    hash_index->count++;
}

/* Finds the slot of an item; `count_down` also removes the item from the counts of the lines that
 * it had passed. */
static uint32_t *find_slot(const ol_hash_index *hash_index, const ol_hash_index_piece *piece,
                           uint64_t hash, uint32_t item, bool count_down) {
    uint32_t line_count = piece->unit_count * OL_HASH_INDEX_UNIT_LINES;
    uint32_t at = ol_hash_index_home(piece, hash),
             wanted = ol_hash_index_tag(hash_index, hash) | item;
    for (uint32_t step = 0; step < line_count; step++) {
        ol_hash_index_line *line = ol_hash_index_line_at(hash_index, piece, at);
        for (int i = 0; i < OL_HASH_INDEX_LINE_ITEMS; i++) {
            if (line->slot[i] == wanted) return &line->slot[i];
        }
        OL_ASSERT(line->passed != 0);
        line->passed -= count_down;
        if (++at == line_count) at = 0;
    }
    OL_ASSERT(!"an item is where its hash says");
    return NULL;
}

void ol_hash_index_remove(ol_hash_index *hash_index, uint64_t hash, uint32_t item) {
    ol_hash_index_piece *piece = (ol_hash_index_piece *)ol_hash_index_piece_of(hash_index, hash);
    *find_slot(hash_index, piece, hash, item, true) = 0;
    piece->used--;
    hash_index->count--;
    /* A half-empty piece gives a unit back.  At that size it is far from needing the unit again. */
    if (piece->unit_count > 1 && piece->used < (piece->unit_count - 1u) * UNIT_ITEMS / 2) {
        resize(hash_index, piece, piece->unit_count - 1u);
    }
}

void ol_hash_index_replace(ol_hash_index *hash_index, uint64_t hash, uint32_t item,
                           uint32_t replacement) {
    *find_slot(hash_index, ol_hash_index_piece_of(hash_index, hash), hash, item,
               false) = ol_hash_index_tag(hash_index, hash) | replacement;
}

uint64_t ol_hash_index_resident(const ol_hash_index *hash_index) {
    return ol_arena_resident(&hash_index->units) + ol_arena_resident(&hash_index->pieces) +
           ol_arena_resident(&hash_index->directory);
}

uint64_t ol_hash_index_unused(const ol_hash_index *hash_index) {
    return hash_index->units.used / UNIT_SIZE * UNIT_ITEMS * sizeof(uint32_t) -
           hash_index->count * sizeof(uint32_t);
}

static void verify_piece(const ol_hash_index *hash_index, const ol_hash_index_piece *piece) {
    uint32_t line_count = piece->unit_count * OL_HASH_INDEX_UNIT_LINES;
    uint32_t passed[OL_HASH_INDEX_PIECE_UNITS * OL_HASH_INDEX_UNIT_LINES] = {0};
    uint32_t used = 0;
    OL_ASSERT(piece->unit_count >= 1 && piece->unit_count <= OL_HASH_INDEX_PIECE_UNITS &&
              piece->depth <= hash_index->depth);
    for (uint32_t at = 0; at < line_count; at++) {
        const ol_hash_index_line *line = ol_hash_index_line_at(hash_index, piece, at);
        for (int i = 0; i < OL_HASH_INDEX_LINE_ITEMS; i++) {
            if (line->slot[i] == 0) continue;
            uint32_t item = ol_hash_index_item(hash_index, line->slot[i]);
            uint64_t hash = hash_index->items->hash_of(hash_index->owner, item);
            OL_ASSERT(ol_hash_index_piece_of(hash_index, hash) == piece);
            OL_ASSERT(line->slot[i] == (ol_hash_index_tag(hash_index, hash) | item));
            for (uint32_t home = ol_hash_index_home(piece, hash); home != at;
                 home = (home + 1) % line_count) {
                passed[home]++;
            }
            OL_ASSERT(
                (ol_hash_index_match(hash_index, line, ol_hash_index_tag(hash_index, hash)) >> i &
                 1) == 1);
            OL_ASSERT(ol_hash_index_match(hash_index, line, line->slot[i]) ==
                      ol_hash_index_match_portable(hash_index, line, line->slot[i]));
            used++;
        }
    }
    for (uint32_t at = 0; at < line_count; at++) {
        OL_ASSERT(ol_hash_index_line_at(hash_index, piece, at)->passed == passed[at]);
    }
    OL_ASSERT(used == piece->used);
}

void ol_hash_index_verify(const ol_hash_index *hash_index) {
    size_t piece_count = hash_index->pieces.used / sizeof(ol_hash_index_piece), units = 0;
    uint64_t used = 0, covered = 0;
    for (size_t i = 0; i < piece_count; i++) {
        const ol_hash_index_piece *piece = (const ol_hash_index_piece *)hash_index->pieces.base + i;
        verify_piece(hash_index, piece);
        used += piece->used;
        units += piece->unit_count;
        covered += (uint64_t)1 << (hash_index->depth - piece->depth);
    }
    OL_ASSERT(used == hash_index->count);
    OL_ASSERT(piece_count == 0 || covered == (uint64_t)1 << hash_index->depth);
    OL_ASSERT((units + hash_index->free_unit_count) * UNIT_SIZE == hash_index->units.used);
    uint32_t free_units = 0;
    for (uint32_t link = hash_index->free_unit; link != 0;
         link = unit_lines(hash_index, link - 1)[0].slot[0]) {
        OL_ASSERT(++free_units <= hash_index->free_unit_count);
    }
    OL_ASSERT(free_units == hash_index->free_unit_count);
}
