/* partition/commit/generation: the generation of a group.  It is in the latest record of the group,
 * which may still be in flight (docs/format/records.md §3.4, docs/format/coordinator.md §5.1).
 *
 * Locks: the caller of every function holds the partition's writer lock, and has completed the
 * overlay (ol_partition_complete_overlay).
 */
#ifndef OL_PARTITION_COMMIT_GENERATION_H
#define OL_PARTITION_COMMIT_GENERATION_H

#include "partition/partition.h"

/* Checks an OL_ITEM_GENERATION.  Fails with OL_GENERATION if the group has another generation, or
 * if it has members but must have none.  Then sets `found`, `found_offset` and `rests_on` of
 * *result. */
int ol_commit_check_generation(const ol_partition *partition, const ol_item *item,
                               ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Encodes a GroupMetadata value that has no members and the generation after the present one.  Sets
 * *generation to that generation. */
enum { OL_FENCE_VALUE_MAX = 2 + 2 + 32767 + 4 + 2 + 2 + 8 + 4 };
int ol_commit_put_next_generation(const ol_partition *partition, ol_slice group, int64_t timestamp,
                                  uint8_t value[OL_FENCE_VALUE_MAX], size_t *size,
                                  int32_t *generation, ol_error *error) OL_NODISCARD;

/* Encodes the key of a record of the group.  Returns its size. */
enum { OL_GROUP_KEY_MAX = 2 + 2 + 32767 };
size_t ol_commit_put_group_key(int16_t type, ol_slice group, uint8_t key[OL_GROUP_KEY_MAX]);

#endif
