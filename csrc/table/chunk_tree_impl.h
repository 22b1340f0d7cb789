/* table/chunk_tree_impl: the arrays that belong to one root.  There is either a single array or a
 * tree of arrays.
 *
 * If a leaf gets too many chunks, it is divided.  If two neighbouring leaves have few chunks, they
 * are joined.  Each leaf therefore holds about as many chunks as it can.  Branches are divided and
 * joined in the same way.  The rules of table/partition_map.h apply.  In all of these functions,
 * `root` must contain the name of an array, not a chunk. */
#ifndef OL_TABLE_CHUNK_TREE_IMPL_H
#define OL_TABLE_CHUNK_TREE_IMPL_H

#include "table/chunk_array_impl.h"

/* Adds a chunk.  No chunk with this number may exist.  Fails with OL_NO_MEMORY or OL_LIMIT. */
int ol_chunk_tree_add(ol_partition_map *partition_map, ol_chunk *root, uint32_t number,
                      ol_chunk chunk, ol_error *error) OL_NODISCARD;

/* Makes space for more chunks in the only array of the root.  Does nothing if they do not fit one
 * array. */
int ol_chunk_tree_reserve(ol_partition_map *partition_map, ol_chunk *root, ol_chunk_span more,
                          ol_error *error) OL_NODISCARD;

/* Removes a chunk.  When the last chunk has been removed, the root has no array any more. */
void ol_chunk_tree_remove(ol_partition_map *partition_map, ol_chunk *root, uint32_t number);

#endif
