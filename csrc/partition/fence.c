/* Ends the generation of a group.  From then on, commits of its members are refused until they have
 * joined the group again; then they read the positions that are committed now. */
#include <stdlib.h>
#include <string.h>

#include "format/offset_record.h"
#include "partition/commit/generation.h"
#include "partition/partition_impl.h"

/* Too large for a stack. */
typedef struct fence {
    uint8_t key[OL_GROUP_KEY_MAX];
    uint8_t value[OL_FENCE_VALUE_MAX];
    int32_t generation;
    size_t count;
    ol_item items[];
} fence;

static int fence_locked(ol_partition *partition, ol_slice group, fence *all,
                        ol_commit_result *result, ol_error *error) {
    size_t size;
    int status = ol_partition_check_writable(partition, true, error);
    if (status == OL_OK) status = ol_partition_complete_overlay(partition, error);
    if (status == OL_OK) {
        status = ol_commit_put_next_generation(partition, group,
                                               ol_batch_clock_now(&partition->clock), all->value,
                                               &size, &all->generation, error);
    }
    if (status != OL_OK) return status;
    size_t key_size = ol_commit_put_group_key(OL_KEY_GROUP_METADATA, group, all->key);
    all->items[0] = (ol_item){.kind = OL_ITEM_GROUP_RECORD,
                              .group = group,
                              .key = ol_slice_of(all->key, key_size),
                              .value = ol_slice_of(all->value, size)};
    status = ol_partition_commit_locked(partition, all->items, all->count, -1, -1, result, error);
    /* The caller's items begin after the group record, which is none of them. */
    if (status != OL_OK && error->item >= 0) error->item--;
    return status;
}

int ol_partition_fence(ol_partition *partition, ol_slice group, const ol_item *items, size_t count,
                       int32_t *generation, ol_commit_result *result, ol_error *error) {
    *result = (ol_commit_result){.base_offset = -1,
                                 .rests_on = -1,
                                 .end_offset = ol_log_end(partition->log)};
    fence *all = malloc(sizeof *all + (count + 1) * sizeof *all->items);
    if (all == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to fence a group");
    all->count = count + 1;
    all->generation = -1;
    if (count > 0) memcpy(all->items + 1, items, count * sizeof *items);
    pthread_mutex_lock(&partition->writer);
    int status = fence_locked(partition, group, all, result, error);
    result->term = partition->term;
    pthread_mutex_unlock(&partition->writer);
    *generation = all->generation;
    free(all);
    return status;
}
