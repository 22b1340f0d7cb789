#include "partition/group_fingerprint.h"

#include <string.h>

#include "base/bytes.h"
#include "partition/partition_impl.h"

ol_group_fingerprint ol_group_fingerprint_of(const ol_state *state, ol_slice group) {
    ol_group_fingerprint mark = {{0, 0}, 0};
    ol_table_cursor cursor;
    ol_table_row row;
    uint64_t hash = ol_table_group_hash(state->table, group);
    memset(&cursor, 0, sizeof cursor);
    while (ol_table_next_of_group(state->table, group, hash, &cursor, &row)) {
        uint8_t bytes[8];
        ol_store_i64(bytes, row.value.log_offset);
        mark.sum = ol_hash128_add(mark.sum, ol_xxh3_128(bytes, sizeof bytes));
        mark.positions++;
    }
    return mark;
}

/* Under writer, which alone changes the state. */
static bool is_unchanged(const ol_partition *partition, ol_slice group, const ol_group_fingerprint *seen) {
    if (atomic_load(&partition->applied) != ol_log_end(partition->log)) return false;
    ol_group_fingerprint now = ol_group_fingerprint_of(&partition->state, group);
    return now.positions == seen->positions && now.sum.low == seen->sum.low && now.sum.high == seen->sum.high;
}

int ol_partition_commit_unchanged(ol_partition *partition, ol_slice group, const ol_group_fingerprint *seen, const ol_item *items,
                                  size_t count, ol_commit_result *result, ol_error *error) {
    *result = (ol_commit_result){.base_offset = -1, .rests_on = -1};
    pthread_mutex_lock(&partition->writer);
    int status = ol_partition_check_writable(partition, true, error);
    if (status == OL_OK && !is_unchanged(partition, group, seen)) {
        status = ol_fail(error, OL_CONDITION, "the group was committed to meanwhile");
    }
    if (status == OL_OK) status = ol_partition_commit_locked(partition, items, count, -1, -1, result, error);
    result->term = partition->term;
    pthread_mutex_unlock(&partition->writer);
    return status;
}
