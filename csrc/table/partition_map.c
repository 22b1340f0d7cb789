/* table/partition_map.c: the roots of pairs, and the account of the arrays. */
#include "table/chunk_tree_impl.h"

#include <string.h>

enum { NUMBER_LIMIT_INSIDE = 1 << 16 };

void ol_partition_map_init(ol_partition_map *partition_map) {
    memset(partition_map, 0, sizeof *partition_map);
    ol_run_allocator_init(&partition_map->small, sizeof(ol_chunk), OL_PARTITION_MAP_LARGE, false);
}

void ol_partition_map_free_all(ol_partition_map *partition_map) {
    ol_run_allocator_free_all(&partition_map->small);
    ol_arena_free(&partition_map->large);
}

/* ----------------------------------------------------------------------------- adding, removing */

/* Makes the root's first array, with space for these chunks and the one that the root holds
 * inline. */
static int make_array(ol_partition_map *partition_map, ol_chunk *root, ol_chunk_span span,
                      ol_error *error) {
    uint32_t name, number = OL_CHUNK_NUMBER_ZERO + root->number;
    if (root->bitmap != 0) span = ol_chunk_span_join(span, ol_chunk_span_of_one(number));
    int status = ol_chunk_array_allocate_leaf(partition_map, span, &name, error);
    if (status != OL_OK) return status;
    if (root->bitmap != 0) {
        ol_chunk_array_put(partition_map, ol_chunk_array_named(partition_map, name), number, *root);
    }
    *root = (ol_chunk){.run = name};
    return OL_OK;
}

int ol_partition_map_add(ol_partition_map *partition_map, ol_chunk *root, uint32_t number,
                         uint32_t run, uint16_t bitmap, ol_error *error) {
    OL_ASSERT(bitmap != 0);
    ol_chunk chunk = {.run = run, .bitmap = bitmap};
    bool none = root->bitmap == 0 && root->run == 0;
    if (none && number - OL_CHUNK_NUMBER_ZERO < NUMBER_LIMIT_INSIDE) {
        chunk.number = (uint16_t)(number - OL_CHUNK_NUMBER_ZERO);
        *root = chunk;
        return OL_OK;
    }
    if (none || root->bitmap != 0) {
        int status = make_array(partition_map, root, ol_chunk_span_of_one(number), error);
        if (status != OL_OK) return status;
        ol_chunk_array_put(partition_map, ol_chunk_array_named(partition_map, root->run), number,
                           chunk);
        return OL_OK;
    }
    return ol_chunk_tree_add(partition_map, root, number, chunk, error);
}

int ol_partition_map_reserve(ol_partition_map *partition_map, ol_chunk *root, uint32_t first,
                             uint32_t last, uint32_t count, ol_error *error) {
    OL_ASSERT(root->bitmap != 0 || root->run != 0);
    ol_chunk_span more = {count, first, last};
    if (root->bitmap != 0) {
        ol_chunk_span one = ol_chunk_span_of_one(OL_CHUNK_NUMBER_ZERO + root->number);
        if (!ol_chunk_span_fits(ol_chunk_span_join(more, one))) return OL_OK;
        return make_array(partition_map, root, more, error);
    }
    return ol_chunk_tree_reserve(partition_map, root, more, error);
}

/* Moves the last chunk of a root back into it. */
static void hold_inline(ol_partition_map *partition_map, ol_chunk *root) {
    const ol_chunk_array *leaf = ol_chunk_array_named(partition_map, root->run);
    if (leaf->form == OL_CHUNKS_BRANCH || leaf->living != 1) return;
    ol_chunk last = leaf->chunk[leaf->count - 1];
    uint32_t number = ol_chunk_array_number(leaf, leaf->count - 1) - OL_CHUNK_NUMBER_ZERO;
    if (number >= NUMBER_LIMIT_INSIDE) return;
    ol_chunk_array_free(partition_map, root->run);
    last.number = (uint16_t)number;
    *root = last;
}

void ol_partition_map_remove(ol_partition_map *partition_map, ol_chunk *root, uint32_t number) {
    if (root->bitmap != 0) {
        OL_ASSERT(number - OL_CHUNK_NUMBER_ZERO == root->number);
        *root = (ol_chunk){0};
        return;
    }
    ol_chunk_tree_remove(partition_map, root, number);
    if (root->run != 0) hold_inline(partition_map, root);
}

/* -------------------------------------------------------------------------------------- account */

uint64_t ol_partition_map_resident(const ol_partition_map *partition_map) {
    return ol_run_allocator_resident(&partition_map->small) +
           ol_arena_resident(&partition_map->large);
}

uint64_t ol_partition_map_unused(const ol_partition_map *partition_map) {
    return (partition_map->small.free_units + partition_map->large_free_units) * sizeof(ol_chunk);
}
