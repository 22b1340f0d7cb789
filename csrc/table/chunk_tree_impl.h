/* table/chunk_tree_impl: the arrays of one root: a single one, or a tree of them.
 *
 * A leaf that gets too many chunks is divided, and neighbours that have few are joined, so that
 * each holds about as many as it can.  Each level above is kept in the same way.  The rules of
 * table/partition_map.h apply; the root names an array.
 */
#ifndef OL_TABLE_CHUNK_TREE_IMPL_H
#define OL_TABLE_CHUNK_TREE_IMPL_H

#include "table/chunk_array_impl.h"

/* Adds a chunk that does not exist yet.  Fails with OL_NO_MEMORY or OL_LIMIT. */
int ol_chunk_tree_add(ol_partition_map *partition_map, ol_chunk *root, uint32_t number,
                      ol_chunk chunk, ol_error *error) OL_NODISCARD;

/* Makes space for more chunks in the root's only array; does nothing if they do not fit one
 * array. */
int ol_chunk_tree_reserve(ol_partition_map *partition_map, ol_chunk *root, ol_chunk_span more,
                          ol_error *error) OL_NODISCARD;

/* Removes a chunk.  With the last one the root names no array. */
void ol_chunk_tree_remove(ol_partition_map *partition_map, ol_chunk *root, uint32_t number);

#endif
