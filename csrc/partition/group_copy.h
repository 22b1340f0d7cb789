/* partition/group_copy: a copy of the committed positions of one group.  The lock of the table is
 * held only while the positions are copied.
 *
 * The copy is for a caller that does slow work on each position, such as making a Python object:
 * commits continue during this work.  The copy comes with a fingerprint of the positions.  A caller
 * that decides from the copy what to commit passes the fingerprint to
 * ol_partition_commit_unchanged, which refuses the commit if the group has changed since.
 *
 * The fingerprint.  Every committed position of a group comes from one record of the log.  The log
 * offsets of these records therefore identify the state of the group.  The fingerprint is the sum
 * of their hashes.  If two fingerprints are equal, all positions of the group are equal. */
#ifndef OL_PARTITION_GROUP_COPY_H
#define OL_PARTITION_GROUP_COPY_H

#include "base/arena.h"
#include "partition/partition.h"

typedef struct ol_group_fingerprint {
    ol_hash128 sum;
    uint64_t positions;
} ol_group_fingerprint;

/* Returns the fingerprint of the positions of a group.  The caller must hold a lock under which the
 * state may be read. */
ol_group_fingerprint ol_group_fingerprint_of(const ol_state *state, ol_slice group);

/* Commits items of one group as ol_partition_commit does, but only if the fingerprint of the group
 * is still `seen`.  If it is not, or if some records of the log have not been applied yet, fails
 * with OL_CONDITION and writes nothing.  The items must have no conditions.  They are written
 * outside of transactions. */
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

/* Fills a zeroed copy.  The caller must free the copy even if the call fails.  Takes the table
 * lock.  Fails as ol_partition_lock_state does, or with OL_NO_MEMORY. */
int ol_group_copy_take(ol_group_copy *copy, ol_partition *partition, ol_slice group,
                       ol_error *error) OL_NODISCARD;

/* Returns the position at `index` of the copy.  The positions are in the same order as in the
 * table.  The row has no group name, and its slices point into the copy. */
ol_table_row ol_group_copy_row(const ol_group_copy *copy, size_t index);

void ol_group_copy_free(ol_group_copy *copy);

#endif
