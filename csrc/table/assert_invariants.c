/* table/assert_invariants.c: asserts every invariant of a table, which it computes from scratch. */
#include <stdlib.h>
#include <string.h>

#include "table/table_impl.h"

typedef struct verification {
    const ol_table *table;
    uint32_t *references;       /* per string number: the stored count less the references found */
    uint8_t *cells_used;
    uint8_t *small_used;
    uint64_t large_units;
    uint64_t present;
    uint64_t absent;
    uint64_t pairs;
    uint64_t groups;
    uint64_t spare;             /* units that runs of three cells leave unused */
    uint64_t with_extras;         /* cells that are marked OL_CELL_EXTRAS */
} verification;

static void count_reference(verification *check, uint32_t string) {
    if (string == 0) return;
    OL_ASSERT(string < check->table->string_pool.arena.used / OL_STRING_UNIT_SIZE &&
              check->references[string] != 0);
    check->references[string]--;
}

static void check_cell(verification *check, uint32_t pair, int32_t partition, const ol_cell *cell) {
    const ol_table *table = check->table;
    const ol_cell_extras_entry *entry = ol_cell_extras_find(&table->cell_extras,
                                                            ol_cell_extras_key(pair, partition));
    if (ol_table_is_absent(cell)) {
        OL_ASSERT(entry != NULL && entry->pins != 0);
        OL_ASSERT(entry->topic_id == 0 && entry->expire_timestamp == -1);
        check->absent++;
        return;
    }
    check->present++;
    count_reference(check, cell->metadata & OL_CELL_METADATA);
    if (cell->metadata & OL_CELL_TOPIC_ID) {
        OL_ASSERT(ol_string_pool_topic_id(&table->string_pool, ol_table_pair(table, pair)->topic) !=
                  NULL);
        OL_ASSERT(entry == NULL || entry->topic_id == 0);
    }
    bool used = entry != NULL && (entry->topic_id != 0 || entry->expire_timestamp != -1);
    OL_ASSERT(used == (cell->metadata >> 31));
    OL_ASSERT(entry == NULL || used || entry->pins != 0);
    check->with_extras += used;
}

static void check_chunk(verification *check, uint32_t pair, uint32_t number,
                        const ol_chunk *chunk) {
    const ol_table *table = check->table;
    unsigned cells = ol_table_ones(chunk->bitmap), capacity = ol_table_run_capacity(cells);
    OL_ASSERT(chunk->bitmap < 1 << OL_CHUNK_PARTITIONS && chunk->run % capacity == 0);
    for (unsigned i = cells; i < capacity; i++) {
        OL_ASSERT(!ol_run_allocator_is_free(&table->cells, chunk->run + i));
    }
    check->spare += capacity - cells;
    for (unsigned bit = 0; bit < OL_CHUNK_PARTITIONS; bit++) {
        if (!(chunk->bitmap >> bit & 1)) continue;
        int32_t partition = ol_chunk_partition(number, bit);
        const ol_cell *cell = ol_table_cell_at(table, chunk, bit);
        size_t index = (size_t)(cell - (const ol_cell *)table->cells.units.base);
        OL_ASSERT(index < (size_t)table->cells.page_count * OL_RUN_ALLOCATOR_PAGE_UNITS);
        OL_ASSERT(!ol_run_allocator_is_free(&table->cells, (uint32_t)index));
        OL_ASSERT(!(check->cells_used[index / 8] >> (index % 8) & 1));
        check->cells_used[index / 8] |= (uint8_t)(1u << (index % 8));
        OL_ASSERT(ol_table_find_cell(table, pair, partition) == cell);
        check_cell(check, pair, partition, cell);
    }
}

static void check_pair(verification *check, uint32_t number) {
    const ol_table *table = check->table;
    const ol_pair *pair = ol_table_pair(table, number);
    count_reference(check, pair->group);
    count_reference(check, pair->topic);
    ol_slice group = ol_string_pool_get(&table->string_pool, pair->group),
             topic = ol_string_pool_get(&table->string_pool, pair->topic);
    uint64_t group_hash = ol_table_group_hash(table, group);
    ol_pair_name name = ol_table_name(table, group, group_hash, topic);
    OL_ASSERT(ol_table_find_pair(table, &name) == number);
    if (pair->previous == 0) {
        OL_ASSERT(ol_table_find_group(table, group, group_hash) == number);
        check->groups++;
    } else {
        OL_ASSERT(ol_table_pair(table, pair->previous)->next == number);
        OL_ASSERT(ol_table_pair(table, pair->previous)->group == pair->group);
    }
    OL_ASSERT(pair->next == 0 || ol_table_pair(table, pair->next)->previous == number);
    check->large_units += ol_partition_map_verify_root(&table->partition_map, &pair->root,
                                                       check->small_used);
    ol_chunk_walk walk = {0};
    const ol_chunk *chunk;
    uint32_t chunk_number;
    for (; (chunk = ol_partition_map_at(&table->partition_map, &pair->root, &walk,
                                        &chunk_number)) != NULL;
         walk.place++) {
        check_chunk(check, number, chunk_number, chunk);
    }
    check->pairs++;
}

static void check_extras(verification *check) {
    const ol_table *table = check->table;
    uint32_t at = 0;
    uint64_t with_value = 0;
    for (const ol_cell_extras_entry *entry;
         (entry = ol_cell_extras_next(&table->cell_extras, &at)) != NULL;) {
        OL_ASSERT(ol_table_find_cell(table, (uint32_t)(entry->key >> 32),
                                     (int32_t)(uint32_t)entry->key) != NULL);
        count_reference(check, entry->topic_id);
        with_value += entry->topic_id != 0 || entry->expire_timestamp != -1;
    }
    OL_ASSERT(with_value == check->with_extras);
    ol_cell_extras_verify(&table->cell_extras);
}

static void check_strings(verification *check) {
    /* The remaining references belong to reservations, two each at most. */
    size_t units = check->table->string_pool.arena.used / OL_STRING_UNIT_SIZE;
    uint64_t left = 0;
    for (size_t i = 0; i < units; i++) left += check->references[i];
    OL_ASSERT(left <= 2 * check->table->cell_extras.pins);
}

static void *allocate(size_t size) {
    void *memory = calloc(size + 1, 1);
    OL_ASSERT(memory != NULL);
    return memory;
}

void ol_table_verify(const ol_table *table) {
    size_t cell_count = (size_t)table->cells.page_count * OL_RUN_ALLOCATOR_PAGE_UNITS;
    verification check = {
        .table = table,
        .references = allocate(table->string_pool.arena.used),
        .cells_used = allocate(cell_count / 8),
        .small_used = allocate((size_t)table->partition_map.small.page_count *
                               OL_RUN_ALLOCATOR_PAGE_UNITS / 8),
    };
    ol_string_pool_verify(&table->string_pool, check.references);
    uint32_t limit = ol_table_pair_limit(table), free_pairs = 0;
    for (uint32_t pair = 1; pair < limit; pair++) {
        if (ol_table_pair(table, pair)->topic != OL_PAIR_FREE) check_pair(&check, pair);
    }
    for (uint32_t pair = table->free_pair; pair != 0; pair = ol_table_pair(table, pair)->next) {
        OL_ASSERT(ol_table_pair(table, pair)->topic == OL_PAIR_FREE &&
                  ++free_pairs <= table->free_pair_count);
    }
    OL_ASSERT(free_pairs == table->free_pair_count &&
              (limit == 0 || check.pairs + free_pairs + 1 == limit));
    OL_ASSERT(check.pairs == table->pair_index.count && check.groups == table->group_index.count);
    OL_ASSERT(check.present == table->count && check.absent == table->absent_count);
    OL_ASSERT(check.present + check.absent + check.spare + table->cells.free_units == cell_count);
    check_extras(&check);
    check_strings(&check);
    ol_run_allocator_verify(&table->cells);
    ol_partition_map_verify(&table->partition_map, check.small_used, check.large_units);
    ol_hash_index_verify(&table->pair_index);
    ol_hash_index_verify(&table->group_index);
    free(check.references);
    free(check.cells_used);
    free(check.small_used);
}
