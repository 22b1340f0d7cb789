/* table/read.c: one position, hints, walks, counts, digest and memory use. */
#include <string.h>

#include "table/digest.h"
#include "table/table_impl.h"

/* --------------------------------------------------------------------------------- one position */

void ol_table_read_cell(const ol_table *table, uint32_t pair, int32_t partition,
                        const ol_cell *cell, ol_position_value *value) {
    value->offset = cell->offset;
    value->log_offset = cell->log_offset;
    value->commit_timestamp = cell->commit_timestamp;
    value->expire_timestamp = -1;
    value->leader_epoch = cell->leader_epoch;
    value->metadata = ol_string_pool_get(&table->string_pool, cell->metadata & OL_CELL_METADATA);
    value->topic_id = NULL;
    if (cell->metadata & OL_CELL_TOPIC_ID) {
        value->topic_id = ol_string_pool_topic_id(&table->string_pool,
                                                  ol_table_pair(table, pair)->topic);
    }
    if (OL_UNLIKELY(cell->metadata & OL_CELL_EXTRAS)) {
        const ol_cell_extras_entry *entry = ol_cell_extras_find(
            &table->cell_extras, ol_cell_extras_key(pair, partition));
        value->expire_timestamp = entry->expire_timestamp;
        if (entry->topic_id != 0) {
            value->topic_id = ol_string_pool_topic_id(&table->string_pool, entry->topic_id);
        }
    }
}

bool ol_table_get_of_pair(const ol_table *table, uint32_t pair, int32_t partition,
                          ol_position_value *value) {
    const ol_cell *cell = ol_table_find_cell(table, pair, partition);
    if (cell == NULL || ol_table_is_absent(cell)) return false;
    ol_table_read_cell(table, pair, partition, cell, value);
    return true;
}

bool ol_table_get(const ol_table *table, const ol_pair_name *name, int32_t partition,
                  ol_position_value *value) {
    uint32_t pair = ol_table_find_pair(table, name);
    return pair != 0 && ol_table_get_of_pair(table, pair, partition, value);
}

bool ol_table_get_reserved(const ol_table *table, const ol_reservation *reservation,
                           ol_position_value *value) {
    return ol_table_get_of_pair(table, reservation->pair, reservation->partition, value);
}

/* ---------------------------------------------------------------------------------------- hints */

void ol_table_prefetch_slot(const ol_table *table, const ol_pair_name *name) {
    if (table->count == 0) return;
    const ol_hash_index_piece *piece = ol_hash_index_piece_of(&table->pair_index, name->hash);
    __builtin_prefetch(
        ol_hash_index_line_at(&table->pair_index, piece, ol_hash_index_home(piece, name->hash)));
}

/* The first candidate is nearly always the right pair, because 5 bits of its hash match; a wrong
 * one only wastes the hint. */
uint32_t ol_table_prefetch_pair(const ol_table *table, const ol_pair_name *name) {
    ol_hash_index_probe probe = ol_hash_index_probe_begin(&table->pair_index, name->hash);
    uint32_t pair = ol_hash_index_probe_next(&probe);
    if (pair != 0) __builtin_prefetch(ol_table_pair(table, pair));
    return pair;
}

void ol_table_prefetch_chunk(const ol_table *table, uint32_t number, int32_t partition) {
    if (number == 0) return;
    const ol_pair *pair = ol_table_pair(table, number);
    ol_string_pool_prefetch(&table->string_pool, pair->group);
    ol_string_pool_prefetch(&table->string_pool, pair->topic);
    if (pair->root.bitmap != 0) {
        __builtin_prefetch((const ol_cell *)table->cells.units.base + pair->root.run, 1);
    } else if (pair->root.run != 0) {
        const ol_chunk_array *array = ol_partition_map_array(&table->partition_map, &pair->root);
        __builtin_prefetch(array);
        /* The chunk's place if the array begins at partition 0, as most do. */
        if (partition >= 0 && partition < 4096) {
            __builtin_prefetch(&array->chunk[partition / OL_CHUNK_PARTITIONS]);
        }
    }
}

void ol_table_prefetch_cell(const ol_table *table, uint32_t number, int32_t partition) {
    if (number == 0) return;
    ol_pair *pair = ol_table_pair(table, number);
    if (pair->root.bitmap != 0) return;
    ol_chunk *chunk = ol_partition_map_find(&table->partition_map, &pair->root,
                                            ol_chunk_number(partition));
    if (chunk == NULL) return;
    __builtin_prefetch((const ol_cell *)table->cells.units.base + chunk->run +
                           (uint32_t)partition % OL_CHUNK_PARTITIONS,
                       1);
}

void ol_table_prefetch_reserved(const ol_table *table, uint32_t pair, int32_t partition) {
    if (pair == 0) return;
    ol_cell_extras_prefetch(&table->cell_extras, ol_cell_extras_key(pair, partition));
    ol_table_prefetch_cell(table, pair, partition);
}

/* ---------------------------------------------------------------------------------------- walks */

static void begin_walk(const ol_table *table, ol_table_cursor *cursor, uint32_t first_pair) {
    if (!cursor->started) {
        *cursor = (ol_table_cursor){.changes = table->changes, .pair = first_pair, .started = true};
    }
    OL_ASSERT(cursor->changes == table->changes);
}

/* Returns the next position of the cursor's pair.  When there is none, the cursor leaves the
 * pair. */
static bool next_of_pair(const ol_table *table, ol_table_cursor *cursor, ol_table_row *row) {
    const ol_pair *pair = ol_table_pair(table, cursor->pair);
    ol_chunk_walk walk = {cursor->leaf, cursor->place};
    const ol_chunk *chunk;
    uint32_t number;
    for (; (chunk = ol_partition_map_at(&table->partition_map, &pair->root, &walk, &number)) !=
           NULL;
         walk.place++, cursor->bit = 0) {
        while (cursor->bit < OL_CHUNK_PARTITIONS && chunk->bitmap >> cursor->bit != 0) {
            unsigned bit = cursor->bit +
                           (unsigned)__builtin_ctz((uint32_t)chunk->bitmap >> cursor->bit);
            cursor->bit = bit + 1;
            const ol_cell *cell = ol_table_cell_at(table, chunk, bit);
            if (ol_table_is_absent(cell)) continue;
            cursor->leaf = walk.leaf;
            cursor->place = walk.place;
            row->group = ol_string_pool_get(&table->string_pool, pair->group);
            row->topic = ol_string_pool_get(&table->string_pool, pair->topic);
            row->partition = ol_chunk_partition(number, bit);
            ol_table_read_cell(table, cursor->pair, row->partition, cell, &row->value);
            return true;
        }
    }
    cursor->leaf = cursor->place = cursor->bit = 0;
    return false;
}

bool ol_table_next(const ol_table *table, ol_table_cursor *cursor, ol_table_row *row) {
    begin_walk(table, cursor, 1);
    for (; cursor->pair < ol_table_pair_limit(table); cursor->pair++) {
        if (ol_table_pair(table, cursor->pair)->topic == OL_PAIR_FREE) continue;
        if (next_of_pair(table, cursor, row)) return true;
    }
    return false;
}

bool ol_table_next_of_group(const ol_table *table, ol_slice group, uint64_t group_hash,
                            ol_table_cursor *cursor, ol_table_row *row) {
    begin_walk(table, cursor, cursor->started ? 0 : ol_table_find_group(table, group, group_hash));
    for (; cursor->pair != 0; cursor->pair = ol_table_pair(table, cursor->pair)->next) {
        if (next_of_pair(table, cursor, row)) return true;
    }
    return false;
}

bool ol_table_next_of_pair(const ol_table *table, const ol_pair_name *name, ol_table_cursor *cursor,
                           ol_table_row *row) {
    begin_walk(table, cursor, cursor->started ? 0 : ol_table_find_pair(table, name));
    if (cursor->pair == 0) return false;
    if (next_of_pair(table, cursor, row)) return true;
    cursor->pair = 0;
    return false;
}

bool ol_table_next_topic(const ol_table *table, ol_slice group, uint64_t group_hash,
                         ol_table_cursor *cursor, ol_slice *topic) {
    begin_walk(table, cursor, cursor->started ? 0 : ol_table_find_group(table, group, group_hash));
    if (cursor->pair == 0) return false;
    const ol_pair *pair = ol_table_pair(table, cursor->pair);
    *topic = ol_string_pool_get(&table->string_pool, pair->topic);
    cursor->pair = pair->next;
    return true;
}

void ol_table_renew(const ol_table *table, ol_table_cursor *cursor) {
    if (cursor->started) cursor->changes = table->changes;
}

/* --------------------------------------------------------------------------------------- counts */

static uint64_t pair_positions(const ol_table *table, const ol_pair *pair) {
    ol_chunk_walk walk = {0};
    const ol_chunk *chunk;
    uint32_t number;
    uint64_t count = 0;
    for (; (chunk = ol_partition_map_at(&table->partition_map, &pair->root, &walk, &number)) !=
           NULL;
         walk.place++) {
        unsigned cells = ol_table_ones(chunk->bitmap);
        count += cells;
        /* Only reservations leave absent cells; usually the whole table has none. */
        for (unsigned i = 0; i < cells && table->absent_count != 0; i++) {
            count -= ol_table_is_absent((const ol_cell *)table->cells.units.base + chunk->run + i);
        }
    }
    return count;
}

static uint64_t positions_from(const ol_table *table, uint32_t pair) {
    uint64_t count = 0;
    for (; pair != 0; pair = ol_table_pair(table, pair)->next) {
        count += pair_positions(table, ol_table_pair(table, pair));
    }
    return count;
}

bool ol_table_next_group(const ol_table *table, ol_table_cursor *cursor, ol_slice *group,
                         uint64_t *positions) {
    begin_walk(table, cursor, 1);
    while (cursor->pair < ol_table_pair_limit(table)) {
        uint32_t pair = cursor->pair++;
        const ol_pair *record = ol_table_pair(table, pair);
        if (record->topic == OL_PAIR_FREE || record->previous != 0) continue;
        *positions = positions_from(table, pair);
        if (*positions == 0) continue;
        *group = ol_string_pool_get(&table->string_pool, record->group);
        return true;
    }
    return false;
}

uint64_t ol_table_group_positions(const ol_table *table, ol_slice group, uint64_t group_hash) {
    return positions_from(table, ol_table_find_group(table, group, group_hash));
}

uint64_t ol_table_count(const ol_table *table) {
    return table->count;
}

/* ------------------------------------------------------------------------------- digest, memory */

ol_hash128 ol_table_digest(const ol_table *table, bool physical) {
    uint8_t bytes[OL_DIGEST_BYTES_MAX];
    ol_hash128 sum = {0, 0};
    ol_table_cursor cursor = {0};
    ol_table_row row;
    size_t begun = 0;
    uint32_t pair = 0;
    while (ol_table_next(table, &cursor, &row)) {
        if (cursor.pair != pair) {
            begun = ol_digest_begin(bytes, OL_DIGEST_POSITION, 0, row.group, row.topic, physical);
            pair = cursor.pair;
        }
        sum = ol_hash128_add(sum,
                             ol_digest_finish(bytes, begun, row.partition, &row.value, physical));
    }
    return sum;
}

void ol_table_memory_usage(const ol_table *table, ol_table_memory *memory) {
    memory->cells = ol_run_allocator_resident(&table->cells);
    memory->pairs = ol_arena_resident(&table->pairs);
    memory->pair_hash = ol_hash_index_resident(&table->pair_index) +
                        ol_hash_index_resident(&table->group_index);
    memory->chunks = ol_partition_map_resident(&table->partition_map);
    memory->strings = ol_string_pool_resident(&table->string_pool);
    memory->string_bytes = table->string_pool.bytes;
    memory->side = ol_cell_extras_resident(&table->cell_extras);
    memory->free = table->cells.free_units * sizeof(ol_cell) +
                   table->free_pair_count * sizeof(ol_pair) +
                   ol_hash_index_unused(&table->pair_index) +
                   ol_hash_index_unused(&table->group_index) +
                   ol_partition_map_unused(&table->partition_map) +
                   ol_string_pool_unused(&table->string_pool) +
                   ol_cell_extras_unused(&table->cell_extras);
}

uint64_t ol_table_memory_total(const ol_table *table) {
    ol_table_memory memory;
    ol_table_memory_usage(table, &memory);
    return memory.cells + memory.pairs + memory.pair_hash + memory.chunks + memory.strings +
           memory.side;
}
