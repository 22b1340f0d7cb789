/* table/pairs.c: how the pairs and cells of a table are added and freed. */
#include "table/table_impl.h"

#include <string.h>

/* --------------------------------------------------------------------------------------- hashes */

static uint64_t pair_hash_of(const void *owner, uint32_t number) {
    const ol_table *table = owner;
    const ol_pair *pair = ol_table_pair(table, number);
    uint64_t group_hash = ol_table_group_hash(table,
                                              ol_string_pool_get(&table->string_pool, pair->group));
    ol_slice topic = ol_string_pool_get(&table->string_pool, pair->topic);
    return ol_hash64(topic.data, topic.size, group_hash);
}

static uint64_t group_hash_of(const void *owner, uint32_t number) {
    const ol_table *table = owner;
    return ol_table_group_hash(
        table, ol_string_pool_get(&table->string_pool, ol_table_pair(table, number)->group));
}

static void prefetch(const void *owner, uint32_t number, int round) {
    const ol_table *table = owner;
    const ol_pair *pair = ol_table_pair(table, number);
    if (round == 0) {
        __builtin_prefetch(pair);
    } else if (round == 1) {
        ol_string_pool_prefetch(&table->string_pool, pair->group);
        ol_string_pool_prefetch(&table->string_pool, pair->topic);
    }
}

static const ol_hash_index_items pair_items = {pair_hash_of, prefetch};
static const ol_hash_index_items group_items = {group_hash_of, prefetch};

void ol_table_init_pairs(ol_table *table) {
    ol_hash_index_init(&table->pair_index, OL_PAIR_BITS, &pair_items, table);
    ol_hash_index_init(&table->group_index, OL_PAIR_BITS, &group_items, table);
}

uint32_t ol_table_find_group(const ol_table *table, ol_slice group, uint64_t group_hash) {
    ol_hash_index_probe probe = ol_hash_index_probe_begin(&table->group_index, group_hash);
    uint32_t pair;
    while ((pair = ol_hash_index_probe_next(&probe)) != 0) {
        if (ol_string_pool_equal(&table->string_pool, ol_table_pair(table, pair)->group, group)) {
            break;
        }
    }
    return pair;
}

/* ---------------------------------------------------------------------------------------- pairs */

static int add_free_pair(ol_table *table, ol_error *error) {
    uint32_t limit = ol_table_pair_limit(table);
    if (limit >= 1u << OL_PAIR_BITS) {
        return ol_fail(error, OL_LIMIT, "the table cannot hold more pairs");
    }
    uint32_t number = limit == 0 ? 1 : limit;
    int status = ol_arena_extend(&table->pairs, sizeof(ol_pair) * (number + 1 - limit), error);
    if (status != OL_OK) return status;
    if (limit == 0) ol_table_pair(table, 0)->topic = OL_PAIR_FREE;
    *ol_table_pair(table, number) = (ol_pair){.topic = OL_PAIR_FREE, .next = table->free_pair};
    table->free_pair = number;
    table->free_pair_count++;
    return OL_OK;
}

static int reserve_pair(ol_table *table, const ol_pair_name *name, bool new_group,
                        ol_error *error) {
    int status = ol_hash_index_reserve(&table->pair_index, name->hash, error);
    if (status == OL_OK && new_group) {
        status = ol_hash_index_reserve(&table->group_index, name->group_hash, error);
    }
    if (status == OL_OK && table->free_pair == 0) status = add_free_pair(table, error);
    return status;
}

int ol_table_add_pair(ol_table *table, const ol_pair_name *name, uint32_t *pair, ol_error *error) {
    uint32_t first = ol_table_find_group(table, name->group, name->group_hash);
    int status = reserve_pair(table, name, first == 0, error);
    if (status != OL_OK) return status;
    uint32_t topic, group;
    status = ol_string_pool_intern(&table->string_pool, name->topic, NULL, &topic, error);
    if (status != OL_OK) return status;
    if (first != 0) {
        group = ol_table_pair(table, first)->group;
        ol_string_pool_retain(&table->string_pool, group);
    } else {
        status = ol_string_pool_add(&table->string_pool, name->group, &group, error);
        if (status != OL_OK) {
            ol_string_pool_release(&table->string_pool, topic);
            return status;
        }
    }
    *pair = table->free_pair;
    ol_pair *record = ol_table_pair(table, *pair);
    table->free_pair = record->next;
    table->free_pair_count--;
    *record = (ol_pair){.group = group, .topic = topic};
    ol_hash_index_insert(&table->pair_index, name->hash, *pair);
    if (first == 0) {
        ol_hash_index_insert(&table->group_index, name->group_hash, *pair);
        return OL_OK;
    }
    /* The new pair becomes the second: the hash of groups keeps naming the first. */
    ol_pair *head = ol_table_pair(table, first);
    record->previous = first;
    record->next = head->next;
    if (head->next != 0) ol_table_pair(table, head->next)->previous = *pair;
    head->next = *pair;
    return OL_OK;
}

void ol_table_free_pair(ol_table *table, uint32_t pair) {
    ol_pair *record = ol_table_pair(table, pair);
    OL_ASSERT(record->topic != OL_PAIR_FREE && record->root.bitmap == 0 && record->root.run == 0);
    if (table->last_pair == pair) table->last_pair = 0;
    if (record->previous != 0) {
        ol_table_pair(table, record->previous)->next = record->next;
    } else if (record->next != 0) {
        ol_hash_index_replace(&table->group_index, group_hash_of(table, pair), pair, record->next);
    } else {
        ol_hash_index_remove(&table->group_index, group_hash_of(table, pair), pair);
    }
    if (record->next != 0) ol_table_pair(table, record->next)->previous = record->previous;
    ol_hash_index_remove(&table->pair_index, pair_hash_of(table, pair), pair);
    ol_string_pool_release(&table->string_pool, record->group);
    ol_string_pool_release(&table->string_pool, record->topic);
    *record = (ol_pair){.topic = OL_PAIR_FREE, .next = table->free_pair};
    table->free_pair = pair;
    table->free_pair_count++;
}

/* ---------------------------------------------------------------------------------------- cells */

static ol_cell *cells_of(const ol_table *table, uint32_t run) {
    return (ol_cell *)table->cells.units.base + run;
}

/* Opens a gap at `position` of a run of `length` cells, in place if the run has a spare unit. */
static int grow_run(ol_table *table, ol_chunk *chunk, unsigned length, unsigned position,
                    ol_error *error) {
    uint32_t run = chunk->run;
    if (ol_table_run_capacity(length) > length) {
        ol_cell *cells = cells_of(table, run);
        ol_table_mark(table, cells);
        memmove(cells + position + 1, cells + position, (length - position) * sizeof *cells);
        return OL_OK;
    }
    uint32_t larger;
    int status = ol_run_allocator_allocate(&table->cells, ol_table_run_capacity(length + 1),
                                           &larger, error);
    if (status != OL_OK) return status;
    ol_cell *target = cells_of(table, larger), *source = cells_of(table, run);
    ol_table_mark(table, target);
    memcpy(target, source, position * sizeof *target);
    memcpy(target + position + 1, source + position, (length - position) * sizeof *target);
    ol_run_allocator_free(&table->cells, run, length);
    chunk->run = larger;
    return OL_OK;
}

static int add_chunk(ol_table *table, uint32_t pair, uint32_t number, unsigned bit, uint32_t *run,
                     ol_error *error) {
    int status = ol_run_allocator_allocate(&table->cells, 1, run, error);
    if (status != OL_OK) return status;
    ol_chunk *root = &ol_table_pair(table, pair)->root;
    status = ol_partition_map_add(&table->partition_map, root, number, *run, (uint16_t)(1u << bit),
                                  error);
    if (status != OL_OK) ol_run_allocator_free(&table->cells, *run, 1);
    return status;
}

int ol_table_add_cell(ol_table *table, uint32_t pair, int32_t partition, ol_cell **cell,
                      ol_error *error) {
    uint32_t number = ol_chunk_number(partition);
    unsigned bit = (uint32_t)partition % OL_CHUNK_PARTITIONS;
    ol_chunk *chunk = ol_partition_map_find(&table->partition_map,
                                            &ol_table_pair(table, pair)->root, number);
    if (chunk == NULL) {
        uint32_t run;
        int status = add_chunk(table, pair, number, bit, &run, error);
        if (status != OL_OK) return status;
        *cell = cells_of(table, run);
    } else {
        OL_ASSERT(!(chunk->bitmap >> bit & 1));
        unsigned position = ol_table_ones(chunk->bitmap & ((1u << bit) - 1));
        int status = grow_run(table, chunk, ol_table_ones(chunk->bitmap), position, error);
        if (status != OL_OK) return status;
        chunk->bitmap |= (uint16_t)(1u << bit);
        *cell = cells_of(table, chunk->run) + position;
    }
    ol_table_mark(table, *cell);
    **cell = (ol_cell){.log_offset = INT64_MIN, .metadata = OL_CELL_ABSENT};
    table->absent_count++;
    return OL_OK;
}

void ol_table_free_cell(ol_table *table, uint32_t pair, int32_t partition) {
    ol_pair *record = ol_table_pair(table, pair);
    uint32_t number = ol_chunk_number(partition);
    unsigned bit = (uint32_t)partition % OL_CHUNK_PARTITIONS;
    ol_chunk *chunk = ol_partition_map_find(&table->partition_map, &record->root, number);
    OL_ASSERT(chunk != NULL && (chunk->bitmap >> bit & 1));
    OL_ASSERT(ol_table_is_absent(ol_table_cell_at(table, chunk, bit)));
    table->absent_count--;
    unsigned length = ol_table_ones(chunk->bitmap),
             position = ol_table_ones(chunk->bitmap & ((1u << bit) - 1));
    ol_cell *cells = cells_of(table, chunk->run);
    ol_table_mark(table, cells);
    memmove(cells + position, cells + position + 1, (length - position - 1) * sizeof *cells);
    unsigned before = ol_table_run_capacity(length), after = ol_table_run_capacity(length - 1);
    if (after < before) ol_run_allocator_free(&table->cells, chunk->run + after, before - after);
    if (length > 1) {
        chunk->bitmap &= (uint16_t)~(1u << bit);
        return;
    }
    ol_partition_map_remove(&table->partition_map, &record->root, number);
    if (record->root.bitmap == 0 && record->root.run == 0) ol_table_free_pair(table, pair);
}
