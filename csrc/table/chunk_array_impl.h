/* table/chunk_array_impl: one array of chunks, and the memory of arrays.
 *
 * Shared by chunk_tree.c, which joins arrays to trees, partition_map.c and their checks.  The rules
 * of table/partition_map.h apply.  The name of an array says where it is; a pointer to an array is
 * valid until the next allocation.
 */
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

/* Chunks of a leaf, made or planned: how many, and the range of their numbers. */
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

/* Returns the span of a leaf; in a dense leaf, skips the empty places at the front. */
ol_chunk_span ol_chunk_array_span(const ol_chunk_array *leaf);

/* Return whether a leaf has space for one more chunk, or for all chunks of a span that includes its
 * own. */
bool ol_chunk_array_has_room(const ol_chunk_array *leaf, uint32_t number);
bool ol_chunk_array_has_room_for(const ol_chunk_array *leaf, ol_chunk_span all);

/* Put a chunk into a leaf that has space for it, or take one out.  A dense leaf then loses the
 * empty places at its end. */
void ol_chunk_array_put(ol_partition_map *partition_map, ol_chunk_array *leaf, uint32_t number,
                        ol_chunk chunk);
void ol_chunk_array_take(ol_partition_map *partition_map, ol_chunk_array *leaf, uint32_t number);

/* Return the form that takes less memory for a span, and whether one leaf of that form can hold the
 * whole span. */
ol_chunk_form ol_chunk_span_form(ol_chunk_span span);
bool ol_chunk_span_fits(ol_chunk_span span);

/* Allocates an empty leaf for these chunks: in the form that takes less memory, or dense if they
 * are too many for that form. */
int ol_chunk_array_allocate_leaf(ol_partition_map *partition_map, ol_chunk_span span,
                                 uint32_t *name, ol_error *error) OL_NODISCARD;

/* Copies the chunks at the places [from, to); the target has space for them and holds only smaller
 * numbers. */
void ol_chunk_array_copy(ol_partition_map *partition_map, ol_chunk_array *target,
                         const ol_chunk_array *source, uint32_t from, uint32_t to);

#endif
