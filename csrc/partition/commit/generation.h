/* partition/commit/generation: the generation of a group, as the latest written records of the
 * group have it (docs/format/records.md §3.4, docs/format/coordinator.md §5.1).
 *
 * Locks: the partition's writer lock around every call, with the overlay complete.
 */
#ifndef OL_PARTITION_COMMIT_GENERATION_H
#define OL_PARTITION_COMMIT_GENERATION_H

#include "partition/partition.h"

/* Checks an OL_ITEM_GENERATION.  OL_GENERATION: the group has another generation, or members where
 * there may be none; `found`, `found_offset` and `rests_on` of the result say which it has. */
int ol_commit_check_generation(const ol_partition *partition, const ol_item *item,
                               ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Writes a GroupMetadata value without members, with the generation after the present one. */
enum { OL_FENCE_VALUE_MAX = 2 + 2 + 32767 + 4 + 2 + 2 + 8 + 4 };
int ol_commit_put_next_generation(const ol_partition *partition, ol_slice group, int64_t timestamp,
                                  uint8_t value[OL_FENCE_VALUE_MAX], size_t *size,
                                  int32_t *generation, ol_error *error) OL_NODISCARD;

/* Writes the key of a group's own record. */
enum { OL_GROUP_KEY_MAX = 2 + 2 + 32767 };
size_t ol_commit_put_group_key(int16_t type, ol_slice group, uint8_t key[OL_GROUP_KEY_MAX]);

#endif
