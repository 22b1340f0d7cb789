/* partition/group_fingerprint: a commit that is written only while a group is exactly as it was seen.
 *
 * Every committed position of a group comes from one record of the log, so that the log offsets of these records say which state the
 * group is in.  A mark is their sum; equal marks mean equal positions, of the group as a whole.
 */
#ifndef OL_PARTITION_GROUP_FINGERPRINT_H
#define OL_PARTITION_GROUP_FINGERPRINT_H

#include "partition/partition.h"

typedef struct ol_group_fingerprint {
    ol_hash128 sum;
    uint64_t positions;
} ol_group_fingerprint;

/* Of a state that is locked. */
ol_group_fingerprint ol_group_fingerprint_of(const ol_state *state, ol_slice group);

/* As ol_partition_commit of plain items of one group, if its mark still is `seen`; OL_CONDITION with nothing written where it is not, or where
 * records of the log are not applied yet.  No item has a condition of its own. */
int ol_partition_commit_unchanged(ol_partition *partition, ol_slice group, const ol_group_fingerprint *seen, const ol_item *items,
                                  size_t count, ol_commit_result *result, ol_error *error) OL_NODISCARD;

#endif
