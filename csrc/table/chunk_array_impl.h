/* table/chunk_array_impl: one array of chunks, and the allocation of arrays.
 *
 * chunk_tree.c, which joins arrays to trees, partition_map.c and the code that checks both use
 * these functions.  The rules of table/partition_map.h apply.  An array has a name, a number that
 * says where it is in memory.  A pointer to an array is valid only until the next allocation. */
#ifndef OL_TABLE_CHUNK_ARRAY_IMPL_H
#define OL_TABLE_CHUNK_ARRAY_IMPL_H

#include "table/partition_map.h"

/* Chunk numbers are below it. */
#define OL_CHUNK_NUMBER_LIMIT (2 * OL_CHUNK_NUMBER_ZERO)

static inline ol_chunk_array *ol_chunk_array_named(const ol_partition_map *partition_map,
                                                   uint32_t name) {
    ol_chunk root = {.run = name};
    return ol_partition_map_array(partition_map, &root);
}

/* Allocates an empty array of at least this capacity.  Fails with OL_NO_MEMORY or OL_LIMIT. */
int ol_chunk_array_allocate(ol_partition_map *partition_map, uint64_t capacity, ol_chunk_form form,
                            uint32_t *name, ol_error *error) OL_NODISCARD;
void ol_chunk_array_free(ol_partition_map *partition_map, uint32_t name);

/* --------------------------------------------------------------------------------------- leaves */

/* Describes the chunks of a leaf, which may be only planned: how many chunks there are, and the
 * first and the last of their chunk numbers. */
typedef struct ol_chunk_span {
    uint64_t living;
    uint32_t first;
    uint32_t last;
} ol_chunk_span;

static inline ol_chunk_span ol_chunk_span_of_one(uint32_t number) {
    return (ol_chunk_span){1, number, number};
}

static inline ol_chunk_span ol_chunk_span_join(ol_chunk_span a, ol_chunk_span b) {
    return (ol_chunk_span){a.living + b.living, a.first < b.first ? a.first : b.first,
                           a.last > b.last ? a.last : b.last};
}

/* Returns the span of a leaf.  The empty places at the front of a dense leaf do not belong to
 * it. */
ol_chunk_span ol_chunk_array_span(const ol_chunk_array *leaf);

/* ol_chunk_array_has_room returns whether a leaf has space for one more chunk.
 * ol_chunk_array_has_room_for returns whether it has space for all chunks of a span, which must
 * include the chunks of the leaf. */
bool ol_chunk_array_has_room(const ol_chunk_array *leaf, uint32_t number);
bool ol_chunk_array_has_room_for(const ol_chunk_array *leaf, ol_chunk_span all);

/* ol_chunk_array_put puts a chunk into a leaf, which must have space for it.  ol_chunk_array_take
 * takes a chunk out of a leaf, and also removes the empty places at the end of a dense leaf. */
void ol_chunk_array_put(ol_partition_map *partition_map, ol_chunk_array *leaf, uint32_t number,
                        ol_chunk chunk);
void ol_chunk_array_take(ol_partition_map *partition_map, ol_chunk_array *leaf, uint32_t number);

/* ol_chunk_span_form returns the form that takes less memory for the chunks of a span.
 * ol_chunk_span_fits returns whether one leaf of that form can hold all of them. */
ol_chunk_form ol_chunk_span_form(ol_chunk_span span);
bool ol_chunk_span_fits(ol_chunk_span span);

/* Allocates an empty leaf that can hold the chunks of a span.  It has the form that takes less
 * memory, or is dense if there are too many chunks for that form. */
int ol_chunk_array_allocate_leaf(ol_partition_map *partition_map, ol_chunk_span span,
                                 uint32_t *name, ol_error *error) OL_NODISCARD;

/* Copies the chunks at the places [from, to) of `source` to the end of `target`.  The target must
 * have space for them, and all of its chunk numbers must be smaller. */
void ol_chunk_array_copy(ol_partition_map *partition_map, ol_chunk_array *target,
                         const ol_chunk_array *source, uint32_t from, uint32_t to);

#endif
