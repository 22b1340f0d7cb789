/* partition/group_copy: the committed positions of one group, taken out of the table in one short hold of its lock.
 *
 * Whoever makes something slow of each position, as an object of Python, does so from the copy, while commits go on.
 */
#ifndef OL_PARTITION_GROUP_COPY_H
#define OL_PARTITION_GROUP_COPY_H

#include "base/arena.h"
#include "partition/group_fingerprint.h"

typedef struct ol_group_copy {
    ol_group_fingerprint mark;         /* of exactly these positions */
    size_t count;
    ol_arena rows;
    ol_arena bytes;             /* topics, topic ids and metadata */
} ol_group_copy;

/* Fills a zeroed copy, which is to be freed also after a failure.  As ol_partition_lock_state, or OL_NO_MEMORY. */
int ol_group_copy_take(ol_group_copy *copy, ol_partition *partition, ol_slice group, ol_error *error) OL_NODISCARD;

/* One position, in the order of the table; without the group's name.  It points into the copy. */
ol_table_row ol_group_copy_row(const ol_group_copy *copy, size_t index);

void ol_group_copy_free(ol_group_copy *copy);

#endif
