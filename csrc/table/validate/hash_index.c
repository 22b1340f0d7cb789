/* table/validate/hash_index.c: validation of a hash index that came from a file. */
#include <string.h>

#include "table/hash_index.h"
#include "table/validate/ownership.h"

enum { UNIT_SIZE = OL_HASH_INDEX_UNIT_LINES * (int)sizeof(ol_hash_index_line) };

static const ol_hash_index_piece *piece_at(const ol_hash_index *hash_index, size_t piece) {
    return (const ol_hash_index_piece *)hash_index->pieces.base + piece;
}

/* ---------------------------------------------------------------------------------------- shape */

/* The directory names each piece by exactly the first bits of the hashes of its items. */
static bool is_directory_sound(const ol_hash_index *hash_index) {
    size_t pieces = ol_hash_index_pieces(hash_index), seen = 0;
    const uint32_t *directory = (const uint32_t *)hash_index->directory.base;
    if (hash_index->depth > OL_HASH_INDEX_DEPTH_MAX) return false;
    if (hash_index->depth == 0) {
        return hash_index->directory.used == 0 && pieces <= 1 &&
               (pieces == 0 || piece_at(hash_index, 0)->depth == 0);
    }
    uint64_t size = (uint64_t)1 << hash_index->depth;
    if (hash_index->directory.used != size * sizeof(uint32_t)) return false;
    for (uint64_t at = 0; at < size; seen++) {
        uint32_t piece = directory[at];
        if (piece >= pieces || piece_at(hash_index, piece)->depth > hash_index->depth) return false;
        uint64_t span = (uint64_t)1 << (hash_index->depth - piece_at(hash_index, piece)->depth);
        if (at % span != 0) return false;
        for (uint64_t i = 0; i < span; i++) {
            if (directory[at + i] != piece) return false;
        }
        at += span;
    }
    return seen == pieces;
}

/* Each unit belongs to one piece or is free. */
static bool are_units_sound(const ol_hash_index *hash_index, ol_ownership_bits *units) {
    uint64_t taken = 0, unused = 0;
    for (size_t i = 0; i < ol_hash_index_pieces(hash_index); i++) {
        const ol_hash_index_piece *piece = piece_at(hash_index, i);
        if (piece->unit_count < 1 || piece->unit_count > OL_HASH_INDEX_PIECE_UNITS) return false;
        for (unsigned k = 0; k < piece->unit_count; k++) {
            if (!ol_ownership_take(units, piece->unit[k], 1)) return false;
        }
        taken += piece->unit_count;
    }
    for (uint32_t link = hash_index->free_unit; link != 0; unused++) {
        if (!ol_ownership_take(units, (uint64_t)link - 1, 1)) return false;
        link = ((const ol_hash_index_line *)(hash_index->units.base +
                                             (size_t)(link - 1) * UNIT_SIZE))
                   ->slot[0];
    }
    return unused == hash_index->free_unit_count && taken + unused == units->count;
}

/* Each piece is named by one span of the directory only. */
static bool are_pieces_named_once(const ol_hash_index *hash_index, ol_ownership_bits *pieces) {
    const uint32_t *directory = (const uint32_t *)hash_index->directory.base;
    for (uint64_t at = 0; hash_index->depth != 0 && at < (uint64_t)1 << hash_index->depth;) {
        if (!ol_ownership_take(pieces, directory[at], 1)) return false;
        at += (uint64_t)1 << (hash_index->depth - piece_at(hash_index, directory[at])->depth);
    }
    return true;
}

int ol_hash_index_validate_shape(const ol_hash_index *hash_index, ol_error *error) {
    bool sound = hash_index->units.used % UNIT_SIZE == 0 &&
                 hash_index->pieces.used % sizeof(ol_hash_index_piece) == 0 &&
                 hash_index->units.used / UNIT_SIZE <= UINT32_MAX && is_directory_sound(hash_index);
    if (sound && ol_hash_index_pieces(hash_index) == 0) {
        sound = hash_index->count == 0 && hash_index->depth == 0;
    }
    if (!sound) return ol_fail(error, OL_CORRUPT, "the directory of a hash index is inconsistent");
    ol_ownership_bits units, pieces;
    int status = ol_ownership_bits_create(&units, hash_index->units.used / UNIT_SIZE, error);
    if (status != OL_OK) return status;
    status = ol_ownership_bits_create(&pieces, ol_hash_index_pieces(hash_index), error);
    if (status == OL_OK) {
        if (!are_units_sound(hash_index, &units) || !are_pieces_named_once(hash_index, &pieces)) {
            status = ol_fail(error, OL_CORRUPT, "the pieces of a hash index are inconsistent");
        }
        ol_ownership_bits_free(&pieces);
    }
    ol_ownership_bits_free(&units);
    return status;
}

/* ---------------------------------------------------------------------------------------- items */

bool ol_hash_index_validate_lines(const ol_hash_index *hash_index, size_t first, size_t end,
                                  uint64_t key, ol_hash_index_tally *tally) {
    for (size_t i = first; i < end; i++) {
        const ol_hash_index_piece *piece = piece_at(hash_index, i);
        uint32_t used = 0;
        for (unsigned k = 0; k < piece->unit_count; k++) {
            uint64_t number = (uint64_t)piece->unit[k] * OL_HASH_INDEX_UNIT_LINES;
            const ol_hash_index_line *lines = (const ol_hash_index_line *)hash_index->units.base +
                                              number;
            for (unsigned line = 0; line < OL_HASH_INDEX_UNIT_LINES; line++) {
                for (unsigned slot = 0; slot < OL_HASH_INDEX_LINE_ITEMS; slot++) {
                    used += lines[line].slot[slot] != 0;
                }
                if (lines[line].passed != 0) {
                    tally->passed += lines[line].passed * ol_ownership_mark(key, number + line);
                }
            }
        }
        if (used != piece->used) return false;
        tally->items += used;
    }
    return true;
}

/* Compares four slots at a time, because a plain loop compiles to fifteen branches. */
static inline bool holds(const ol_hash_index_line *line, uint32_t wanted) {
    typedef uint32_t quad __attribute__((vector_size(16)));
    const quad all = {wanted, wanted, wanted, wanted};
    quad quartet, equal = {0, 0, 0, 0};
    for (unsigned slot = 0; slot + 4 <= OL_HASH_INDEX_LINE_ITEMS; slot += 4) {
        memcpy(&quartet, &line->slot[slot], sizeof quartet);
        equal |= (quad)(quartet == all);
    }
    uint32_t found = equal[0] | equal[1] | equal[2] | equal[3];
    for (unsigned slot = OL_HASH_INDEX_LINE_ITEMS / 4 * 4; slot < OL_HASH_INDEX_LINE_ITEMS;
         slot++) {
        found |= line->slot[slot] == wanted;
    }
    return found != 0;
}

bool ol_hash_index_validate_item(const ol_hash_index *hash_index, uint64_t hash, uint32_t item,
                                 uint64_t key, ol_hash_index_tally *tally) {
    if (OL_UNLIKELY(hash_index->pieces.used == 0)) return false;
    const ol_hash_index_piece *piece = ol_hash_index_piece_of(hash_index, hash);
    uint32_t line_count = piece->unit_count * OL_HASH_INDEX_UNIT_LINES,
             at = ol_hash_index_home(piece, hash);
    uint32_t wanted = ol_hash_index_tag(hash_index, hash) | item;
    for (uint32_t step = 0; step < line_count; step++) {
        const ol_hash_index_line *line = ol_hash_index_line_at(hash_index, piece, at);
        if (OL_LIKELY(holds(line, wanted))) {
            tally->items++;
            return true;
        }
        if (line->passed == 0) return false;
        tally->passed += ol_ownership_mark(
            key, (uint64_t)(line - (const ol_hash_index_line *)hash_index->units.base));
        if (++at == line_count) at = 0;
    }
    return false;
}
