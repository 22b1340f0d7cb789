/* table/dump.c: the arenas of a table by name, and its numbers in one fixed order. */
#include "table/dump.h"

#include "table/table_impl.h"

uint64_t ol_table_layout(void) {
    static const char short_name[] = "offsetlog",
                      long_name[] = "a longer name, which takes another way";
    const uint64_t parts[] = {
        OL_TABLE_LAYOUT_VERSION,
        sizeof(ol_cell),
        sizeof(ol_pair),
        sizeof(ol_chunk),
        sizeof(ol_chunk_array),
        sizeof(ol_run_allocator_page),
        sizeof(ol_hash_index_line),
        sizeof(ol_hash_index_piece),
        sizeof(ol_cell_extras_entry),
        OL_STRING_HEADER_SIZE,
        OL_PAIR_BITS,
        OL_STRING_NUMBER_BITS,
        OL_RUN_ALLOCATOR_PAGE_UNITS,
        OL_CHUNK_PARTITIONS,
        OL_PARTITION_MAP_CLASS_COUNT,
        OL_CHUNKS_DENSE_MAX,
        OL_CHUNKS_SPARSE_MAX,
        OL_CHUNKS_BRANCH_MAX,
        OL_CHUNKS_DEPTH_MAX,
        OL_HASH_INDEX_UNIT_LINES,
        OL_HASH_INDEX_PIECE_UNITS,
        ol_hash64(short_name, sizeof short_name, 1),
        ol_hash64(long_name, sizeof long_name, 2),
        ol_hash64_mix(3, 4),
    };
    return ol_hash64(parts, sizeof parts, 0);
}

static const char *const section_names[OL_TABLE_SECTIONS] = {
    "cells",          "cell_pages",       "pairs",        "pair_slots",      "pair_pieces",
    "pair_directory", "group_slots",      "group_pieces", "group_directory", "chunks",
    "chunk_pages",    "chunks_large",     "strings",      "strings_free",    "string_slots",
    "string_pieces",  "string_directory", "side",         "side_slots",      "side_pieces",
    "side_directory",
};

const char *ol_table_section_name(int index) { return section_names[index]; }

void ol_table_sections(ol_table *table, ol_table_section sections[OL_TABLE_SECTIONS]) {
    ol_arena *const arenas[OL_TABLE_SECTIONS] = {
        &table->cells.units,
        &table->cells.pages,
        &table->pairs,
        &table->pair_index.units,
        &table->pair_index.pieces,
        &table->pair_index.directory,
        &table->group_index.units,
        &table->group_index.pieces,
        &table->group_index.directory,
        &table->partition_map.small.units,
        &table->partition_map.small.pages,
        &table->partition_map.large,
        &table->string_pool.arena,
        &table->string_pool.free_lists,
        &table->string_pool.hash_index.units,
        &table->string_pool.hash_index.pieces,
        &table->string_pool.hash_index.directory,
        &table->cell_extras.entries,
        &table->cell_extras.hash_index.units,
        &table->cell_extras.hash_index.pieces,
        &table->cell_extras.hash_index.directory,
    };
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) {
        sections[i] = (ol_table_section){section_names[i], arenas[i]};
    }
}

/* -------------------------------------------------------------------------------------- numbers */

/* One walk names the fields for both directions, so the two cannot disagree. */
typedef struct number_walk {
    uint8_t *at;
    bool put;
    bool fits;                  /* whether every number read so far fits its field */
} number_walk;

static void walk_u64(number_walk *walk, uint64_t *field) {
    if (walk->put) {
        ol_store_u64(walk->at, *field);
    } else {
        *field = ol_load_u64(walk->at);
    }
    walk->at += 8;
}

static void walk_u32(number_walk *walk, uint32_t *field) {
    uint64_t wide = *field;
    walk_u64(walk, &wide);
    *field = (uint32_t)wide;
    walk->fits &= wide <= UINT32_MAX;
}

static void walk_run_allocator(number_walk *walk, ol_run_allocator *run_allocator) {
    walk_u64(walk, &run_allocator->free_units);
    walk_u32(walk, &run_allocator->page_count);
    walk_u64(walk, &run_allocator->lists_used);
    for (unsigned i = 0; i <= OL_RUN_LENGTH_MAX; i++) walk_u32(walk, &run_allocator->lists[i]);
}

static void walk_hash_index(number_walk *walk, ol_hash_index *hash_index) {
    walk_u64(walk, &hash_index->count);
    walk_u32(walk, &hash_index->depth);
    walk_u32(walk, &hash_index->free_unit);
    walk_u32(walk, &hash_index->free_unit_count);
}

static void walk_table(number_walk *walk, ol_table *table) {
    walk_u64(walk, &table->seed);
    walk_u64(walk, &table->count);
    walk_u64(walk, &table->absent_count);
    walk_u32(walk, &table->free_pair);
    walk_u32(walk, &table->free_pair_count);
    walk_run_allocator(walk, &table->cells);
    walk_run_allocator(walk, &table->partition_map.small);
    walk_u64(walk, &table->partition_map.large_free_units);
    for (unsigned i = 0; i < OL_PARTITION_MAP_CLASS_COUNT; i++) {
        walk_u32(walk, &table->partition_map.large_free[i]);
    }
    walk_u64(walk, &table->string_pool.count);
    walk_u64(walk, &table->string_pool.bytes);
    walk_u64(walk, &table->string_pool.free_bytes);
    walk_hash_index(walk, &table->string_pool.hash_index);
    walk_hash_index(walk, &table->pair_index);
    walk_hash_index(walk, &table->group_index);
    walk_u64(walk, &table->cell_extras.pins);
    walk_u32(walk, &table->cell_extras.free_entry);
    walk_u32(walk, &table->cell_extras.free_count);
    walk_hash_index(walk, &table->cell_extras.hash_index);
}

void ol_table_put_numbers(const ol_table *table, uint8_t numbers[OL_TABLE_NUMBERS_SIZE]) {
    number_walk walk = {.at = numbers, .put = true, .fits = true};
    walk_table(&walk, (ol_table *)table);
    OL_ASSERT(walk.at == numbers + OL_TABLE_NUMBERS_SIZE);
}

bool ol_table_take_numbers(ol_table *table, const uint8_t numbers[OL_TABLE_NUMBERS_SIZE]) {
    number_walk walk = {.at = (uint8_t *)numbers, .put = false, .fits = true};
    walk_table(&walk, table);
    OL_ASSERT(walk.at == numbers + OL_TABLE_NUMBERS_SIZE);
    ol_table_set_seed(table, table->seed);
    return walk.fits;
}

int ol_table_restore(ol_table *table, const uint8_t numbers[OL_TABLE_NUMBERS_SIZE],
                     const ol_reservation *held, size_t held_count, unsigned threads,
                     ol_error *error) {
    if (!ol_table_take_numbers(table, numbers)) {
        return ol_fail(error, OL_CORRUPT, "a number of the table does not fit its field");
    }
    return ol_table_validate(table, held, held_count, threads, error);
}
