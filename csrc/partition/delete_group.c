/* Deletes everything that the log has of a group in one batch of tombstones
 * (docs/format/records.md §3.6, docs/format/coordinator.md §5.5). */
#include "partition/commit/generation.h"
#include "partition/partition_impl.h"
#include "partition/tombstones.h"

static int collect_positions(ol_tombstones *all, const ol_table *table, ol_slice group,
                             ol_error *error) {
    ol_table_cursor cursor = {0};
    ol_table_row row;
    uint64_t group_hash = ol_table_group_hash(table, group);
    while (ol_table_next_of_group(table, group, group_hash, &cursor, &row)) {
        int status = ol_tombstones_add_position(all, group, row.topic, row.partition, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static int collect_pending(ol_tombstones *all, const ol_pending *pending, const ol_table *table,
                           ol_slice group, ol_error *error) {
    ol_table_row row;
    uint64_t cursor = 0, group_hash = ol_table_group_hash(table, group);
    while (ol_pending_next_of_group(pending, group, group_hash, &cursor, &row)) {
        int status = ol_tombstones_add_position(all, group, row.topic, row.partition, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

/* Collects the group's own records, which come after its positions, in the order of their ranks. */
static int collect_group_records(ol_tombstones *all, const ol_partition *partition, ol_slice group,
                                 ol_error *error) {
    size_t first = all->count;
    int status = ol_tombstones_add_group_records(all, partition->state.group_records, group, error);
    if (status == OL_OK && partition->inflight.active) {
        status = ol_tombstones_add_group_records(all, partition->inflight.written.group_records,
                                                 group, error);
    }
    if (status == OL_OK) ol_tombstones_sort_group_records(all, first);
    return status;
}

/* Lists a position twice if it is both committed and pending, or applied and in flight: a second
 * tombstone of a key in one batch does no harm. */
static int collect(ol_tombstones *all, const ol_partition *partition, ol_slice group,
                   ol_error *error) {
    int status = collect_positions(all, partition->state.table, group, error);
    if (status == OL_OK) {
        status =
            collect_pending(all, partition->state.pending, partition->state.table, group, error);
    }
    if (status == OL_OK && partition->inflight.active) {
        status = collect_positions(all, partition->inflight.written.table, group, error);
        if (status == OL_OK) {
            status = collect_pending(all, partition->inflight.written.pending,
                                     partition->inflight.written.table, group, error);
        }
    }
    if (status == OL_OK) status = collect_group_records(all, partition, group, error);
    return status;
}

static int check_empty(const ol_partition *partition, ol_slice group, ol_commit_result *result,
                       ol_error *error) {
    ol_item item = {.kind = OL_ITEM_GENERATION, .group = group, .expected = -1};
    return ol_commit_check_generation(partition, &item, result, error);
}

static int delete_locked(ol_partition *partition, ol_slice group, bool only_empty,
                         ol_commit_result *result, ol_error *error) {
    int status = ol_partition_check_writable(partition, true, error);
    if (status == OL_OK) status = ol_partition_complete_overlay(partition, error);
    if (status == OL_OK && only_empty) status = check_empty(partition, group, result, error);
    if (status != OL_OK) return status;
    ol_tombstones all = {0};
    status = collect(&all, partition, group, error);
    if (status == OL_OK && all.count > 0) {
        status = ol_partition_commit_locked(partition, all.items, all.count, -1, -1, result, error);
    }
    ol_tombstones_free(&all);
    return status;
}

int ol_partition_delete_group(ol_partition *partition, ol_slice group, bool only_empty,
                              ol_commit_result *result, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    /* The log end is read under the lock: if nothing exists to be deleted, this result depends on
     * the records that are in flight now. */
    *result = (ol_commit_result){.base_offset = -1,
                                 .rests_on = -1,
                                 .end_offset = ol_log_end(partition->log)};
    int status = delete_locked(partition, group, only_empty, result, error);
    result->term = partition->term;
    pthread_mutex_unlock(&partition->writer);
    return status;
}
