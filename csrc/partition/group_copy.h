/* partition/group_copy: the committed positions of one group, copied out of the table while its
 * lock is held briefly.
 *
 * Slow work on each position, such as making a Python object, reads the copy while commits
 * continue.  The copy comes with a fingerprint of the positions, so that a commit based on the copy
 * can be refused if the group has changed since.
 *
 * The fingerprint.  Every committed position of a group comes from one record of the log, so the
 * log offsets of these records identify the state of the group.  A fingerprint is the sum of their
 * hashes; equal fingerprints mean that all positions of the group are equal.
 */
#ifndef OL_PARTITION_GROUP_COPY_H
#define OL_PARTITION_GROUP_COPY_H

#include "base/arena.h"
#include "partition/partition.h"

typedef struct ol_group_fingerprint {
    ol_hash128 sum;
    uint64_t positions;
} ol_group_fingerprint;

/* Returns the fingerprint of a group's positions.  The caller holds a lock under which the state
 * may be read. */
ol_group_fingerprint ol_group_fingerprint_of(const ol_state *state, ol_slice group);

/* Commits plain items of one group, as ol_partition_commit does, if the group's fingerprint is
 * still `seen`.  If it is not, or if some records of the log are not applied yet, returns
 * OL_CONDITION with nothing written.  The items may not have conditions of their own. */
int ol_partition_commit_unchanged(ol_partition *partition, ol_slice group,
                                  const ol_group_fingerprint *seen, const ol_item *items,
                                  size_t count, ol_commit_result *result,
                                  ol_error *error) OL_NODISCARD;

typedef struct ol_group_copy {
    ol_group_fingerprint fingerprint;   /* of exactly these positions */
    size_t count;
    ol_arena rows;
    ol_arena bytes;             /* topics, topic ids and metadata */
} ol_group_copy;

/* Fills a zeroed copy; the caller frees it also after a failure.  Takes the table lock and fails as
 * ol_partition_lock_state, or with OL_NO_MEMORY. */
int ol_group_copy_take(ol_group_copy *copy, ol_partition *partition, ol_slice group,
                       ol_error *error) OL_NODISCARD;

/* Returns position `index` of the copy, which keeps the table's order.  The row has no group name
 * and borrows from the copy. */
ol_table_row ol_group_copy_row(const ol_group_copy *copy, size_t index);

void ol_group_copy_free(ol_group_copy *copy);

#endif
