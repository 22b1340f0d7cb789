/* partition/tombstones: a batch of tombstones under construction: positions, and after them a
 * group's own records.
 *
 * The batch owns its strings, because applying the first tombstone frees strings of the state.
 * Zeroed memory is an empty batch.  It must be freed also after a failure, which is always
 * OL_NO_MEMORY.  Locks: none; tombstones are collected under the lock that keeps the state
 * unchanged.
 */
#ifndef OL_PARTITION_TOMBSTONES_H
#define OL_PARTITION_TOMBSTONES_H

#include "partition/partition.h"

typedef struct ol_tombstones {
    ol_item *items;
    size_t count;
    size_t capacity;
    size_t batch_bytes;         /* upper bound of the batch's size */
    struct ol_tombstone_block *block;
    ol_slice topic;  /* topic of the last position, in the table; equal addresses mean equal
                        strings */
    ol_slice topic_copy;
} ol_tombstones;

void ol_tombstones_free(ol_tombstones *all);

/* `group` must stay until the tombstones are written. */
int ol_tombstones_add_position(ol_tombstones *all, ol_slice group, ol_slice topic,
                               int32_t partition, ol_error *error) OL_NODISCARD;
int ol_tombstones_add_group_records(ol_tombstones *all, const ol_group_records *records,
                                    ol_slice group, ol_error *error) OL_NODISCARD;

/* Sorts the group records from index `first` on into the order in which a broker's replay needs
 * their tombstones (docs/format/loading.md §6.4). */
void ol_tombstones_sort_group_records(ol_tombstones *all, size_t first);

/* Drops the tombstones from index `count` on. */
void ol_tombstones_cut(ol_tombstones *all, size_t count, size_t batch_bytes);

#endif
