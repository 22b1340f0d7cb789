/* partition/tombstones: collects tombstones for one batch, first those of positions and then those
 * of the group's own records.
 *
 * The batch has its own copies of strings, because strings of the state are freed when the first
 * tombstone is applied.  Zeroed memory is an empty batch.  It must be freed even after a failure.
 * Every failure is OL_NO_MEMORY.  The functions take no lock; the caller collects tombstones under
 * the lock that keeps the state unchanged. */
#ifndef OL_PARTITION_TOMBSTONES_H
#define OL_PARTITION_TOMBSTONES_H

#include "partition/partition.h"

typedef struct ol_tombstones {
    ol_item *items;
    size_t count;
    size_t capacity;
    size_t batch_bytes;         /* upper bound of the batch's size */
    struct ol_tombstone_block *block;
    /* The topic of the last position, as it is in the table.  If two addresses are equal, the
     * strings are equal. */
    ol_slice topic;
    ol_slice topic_copy;
} ol_tombstones;

void ol_tombstones_free(ol_tombstones *all);

/* `group` must stay valid until the tombstones have been written. */
int ol_tombstones_add_position(ol_tombstones *all, ol_slice group, ol_slice topic,
                               int32_t partition, ol_error *error) OL_NODISCARD;
int ol_tombstones_add_group_records(ol_tombstones *all, const ol_group_records *records,
                                    ol_slice group, ol_error *error) OL_NODISCARD;

/* Sorts the tombstones of group records from index `first` on into the order that a broker needs
 * when it replays the batch (docs/format/loading.md §6.4). */
void ol_tombstones_sort_group_records(ol_tombstones *all, size_t first);

/* Drops the tombstones from index `count` on. */
void ol_tombstones_cut(ol_tombstones *all, size_t count, size_t batch_bytes);

#endif
