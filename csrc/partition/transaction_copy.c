/* Copies the open transactions of a partition, and the groups whose positions they hold. */
#include "partition/transaction_copy.h"

#include <string.h>

#include "partition/partition_impl.h"

/* An arena moves as it grows, so a group is a position in it, not a pointer. */
typedef struct copied_group {
    size_t at;
    size_t size;
} copied_group;

static int add_row(ol_transaction_copy *copy, const ol_log_transaction *known, ol_error *error) {
    size_t at = copy->rows.used;
    ol_copied_transaction row = {.known = *known};
    int status = ol_arena_extend(&copy->rows, sizeof row, error);
    if (status != OL_OK) return status;
    memcpy(copy->rows.base + at, &row, sizeof row);
    copy->count++;
    return OL_OK;
}

static int add_group(ol_transaction_copy *copy, ol_slice name, ol_error *error) {
    copied_group group = {copy->names.used, name.size};
    size_t at = copy->groups.used;
    int status = ol_arena_extend(&copy->groups, sizeof group, error);
    if (status == OL_OK && name.size > 0) status = ol_arena_extend(&copy->names, name.size, error);
    if (status != OL_OK) return status;
    memcpy(copy->groups.base + at, &group, sizeof group);
    if (name.size > 0) memcpy(copy->names.base + group.at, name.data, name.size);
    return OL_OK;
}

static int add_rows(ol_transaction_copy *copy, ol_partition *partition, ol_error *error) {
    ol_log_transaction known;
    int status = OL_OK;
    pthread_mutex_lock(&partition->writer);
    while (status == OL_OK && ol_log_open_transaction_at(partition->log, copy->count, &known)) {
        status = add_row(copy, &known, error);
    }
    pthread_mutex_unlock(&partition->writer);
    return status;
}

/* While the table is locked, equal addresses mean equal names, so for a run of positions of one
 * group the name is copied once. */
static int add_groups_of(ol_transaction_copy *copy, size_t index, const ol_pending *pending,
                         ol_error *error) {
    ol_copied_transaction copied = ol_transaction_copy_row(copy, index);
    ol_slice before = {NULL, 0};
    ol_table_row row;
    size_t cursor = 0;
    copied.first_group = copy->groups.used / sizeof(copied_group);
    while (ol_pending_next_value(pending, copied.known.producer_id, &cursor, &row)) {
        bool is_same = copied.positions > 0 && row.group.data == before.data &&
                       row.group.size == before.size;
        copied.positions++;
        if (is_same) continue;
        int status = add_group(copy, row.group, error);
        if (status != OL_OK) return status;
        before = row.group;
    }
    copied.group_count = copy->groups.used / sizeof(copied_group) - copied.first_group;
    memcpy(copy->rows.base + index * sizeof copied, &copied, sizeof copied);
    return OL_OK;
}

int ol_transaction_copy_take(ol_transaction_copy *copy, ol_partition *partition, ol_error *error) {
    const ol_state *state = NULL;
    int status = add_rows(copy, partition, error);
    if (status == OL_OK) status = ol_partition_lock_state(partition, &state, error);
    if (status != OL_OK) return status;
    for (size_t index = 0; status == OL_OK && index < copy->count; index++) {
        status = add_groups_of(copy, index, state->pending, error);
    }
    ol_partition_unlock_state(partition);
    return status;
}

ol_copied_transaction ol_transaction_copy_row(const ol_transaction_copy *copy, size_t index) {
    ol_copied_transaction copied;
    OL_ASSERT(index < copy->count);
    memcpy(&copied, copy->rows.base + index * sizeof copied, sizeof copied);
    return copied;
}

ol_slice ol_transaction_copy_group(const ol_transaction_copy *copy, size_t index) {
    copied_group group;
    OL_ASSERT((index + 1) * sizeof group <= copy->groups.used);
    memcpy(&group, copy->groups.base + index * sizeof group, sizeof group);
    if (group.size == 0) return ol_slice_of("", 0);
    return ol_slice_of(copy->names.base + group.at, group.size);
}

void ol_transaction_copy_free(ol_transaction_copy *copy) {
    ol_arena_free(&copy->rows);
    ol_arena_free(&copy->groups);
    ol_arena_free(&copy->names);
    copy->count = 0;
}
