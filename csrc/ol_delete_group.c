/* Deleting everything that the log knows of a group: one batch of tombstones (spec §3.6, §5.5). */
#include <stdlib.h>
#include <string.h>

#include "ol_bytes.h"
#include "ol_partition_internal.h"

/* Items with strings of their own: what the state lends is gone with the first tombstone applied. */
typedef struct doomed {
    ol_item *items;
    size_t count;
    size_t capacity;
    uint8_t **copies;           /* one allocation an item */
} doomed;

static void free_doomed(doomed *all) {
    for (size_t i = 0; i < all->count; i++) free(all->copies[i]);
    free(all->copies);
    free(all->items);
}

static int grow(doomed *all, ol_error *error) {
    if (all->count < all->capacity) return OL_OK;
    size_t capacity = all->capacity * 2 + 64;
    ol_item *items = realloc(all->items, capacity * sizeof *items);
    if (items != NULL) all->items = items;
    uint8_t **copies = realloc(all->copies, capacity * sizeof *copies);
    if (copies != NULL) all->copies = copies;
    if (items == NULL || copies == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to delete a group");
    all->capacity = capacity;
    return OL_OK;
}

static int add_copy(doomed *all, ol_slice bytes, ol_slice *copy, ol_error *error) {
    int status = grow(all, error);
    if (status != OL_OK) return status;
    uint8_t *data = malloc(bytes.size + 1);
    if (data == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to delete a group");
    if (bytes.size > 0) memcpy(data, bytes.data, bytes.size);
    all->copies[all->count] = data;
    *copy = ol_slice_of(data, bytes.size);
    return OL_OK;
}

static int add_position(doomed *all, ol_slice group, const ol_table_row *row, ol_error *error) {
    ol_slice topic;
    int status = add_copy(all, row->topic, &topic, error);
    if (status != OL_OK) return status;
    all->items[all->count++] = (ol_item){.kind = OL_ITEM_POSITION_TOMBSTONE, .group = group, .topic = topic,
                                         .partition = row->partition};
    return OL_OK;
}

static int add_group_record(doomed *all, ol_slice group, ol_slice key, ol_error *error) {
    ol_slice copy;
    int status = add_copy(all, key, &copy, error);
    if (status != OL_OK) return status;
    all->items[all->count++] = (ol_item){.kind = OL_ITEM_GROUP_RECORD, .group = group, .key = copy};
    return OL_OK;
}

static int collect_positions(doomed *all, const ol_table *table, ol_slice group, ol_error *error) {
    ol_table_cursor cursor = {0};
    ol_table_row row;
    uint64_t group_hash = ol_table_group_hash(table, group);
    while (ol_table_next_of_group(table, group, group_hash, &cursor, &row)) {
        int status = add_position(all, group, &row, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static int collect_pending(doomed *all, const ol_pending *pending, const ol_table *table, ol_slice group, ol_error *error) {
    ol_table_row row;
    uint64_t cursor = 0, group_hash = ol_table_group_hash(table, group);
    while (ol_pending_next_of_group(pending, group, group_hash, &cursor, &row)) {
        int status = add_position(all, group, &row, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

/* Where a kind of record stands in the order of a group's tombstones: members before what they hang on, the group itself last.
 * A broker validates this order when it replays (spec §6.4). */
static int tombstone_rank(int16_t type) {
    static const int8_t order[] = {8, 7, 6, 5, 16, 4, 3, 14, 13, 12, 10, 15, 11, 22, 21, 20, 19, 17, 23, 2};
    for (size_t i = 0; i < sizeof order; i++) {
        if (order[i] == type) return (int)i;
    }
    return (int)sizeof order;
}

static int compare_ranks(const void *a, const void *b) {
    const ol_item *left = a, *right = b;
    ol_key left_key, right_key;
    ol_error ignored;
    int left_status = ol_key_decode(left->key, &left_key, &ignored);
    int right_status = ol_key_decode(right->key, &right_key, &ignored);
    OL_ASSERT(left_status == OL_OK && right_status == OL_OK);
    int difference = tombstone_rank(left_key.type) - tombstone_rank(right_key.type);
    if (difference != 0) return difference;
    size_t common = left->key.size < right->key.size ? left->key.size : right->key.size;
    int order = memcmp(left->key.data, right->key.data, common);
    return order != 0 ? order : (left->key.size > right->key.size) - (left->key.size < right->key.size);
}

static int collect_group_records(doomed *all, const ol_group_records *records, ol_slice group, ol_error *error) {
    size_t cursor = 0;
    ol_group_record record;
    while (ol_group_records_next_of_group(records, group, &cursor, &record)) {
        int status = add_group_record(all, group, record.key, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

/* The group's own records behind its positions, in the order of their ranks. */
static int collect_all_group_records(doomed *all, const ol_partition *partition, ol_slice group, ol_error *error) {
    size_t first = all->count;
    int status = collect_group_records(all, partition->state.group_records, group, error);
    if (status == OL_OK && partition->inflight.active) {
        status = collect_group_records(all, partition->inflight.written.group_records, group, error);
    }
    if (status == OL_OK && all->count > first) qsort(all->items + first, all->count - first, sizeof *all->items, compare_ranks);
    return status;
}

/* What is both committed and pending, or applied and in flight, is listed twice; a second tombstone of a key in one batch does no harm. */
static int collect(doomed *all, const ol_partition *partition, ol_slice group, ol_error *error) {
    int status = collect_positions(all, partition->state.table, group, error);
    if (status == OL_OK) status = collect_pending(all, partition->state.pending, partition->state.table, group, error);
    if (status == OL_OK && partition->inflight.active) {
        status = collect_positions(all, partition->inflight.written.table, group, error);
        if (status == OL_OK) status = collect_pending(all, partition->inflight.written.pending, partition->inflight.written.table, group, error);
    }
    if (status == OL_OK) status = collect_all_group_records(all, partition, group, error);
    return status;
}

static int delete_locked(ol_partition *partition, ol_slice group, ol_commit_result *result, ol_error *error) {
    int status = ol_partition_check_writable(partition, true, error);
    if (status != OL_OK) return status;
    doomed all = {0};
    status = collect(&all, partition, group, error);
    if (status == OL_OK && all.count > 0) {
        status = ol_partition_commit_locked(partition, all.items, all.count, -1, -1, result, error);
    }
    free_doomed(&all);
    return status;
}

int ol_partition_delete_group(ol_partition *partition, ol_slice group, ol_commit_result *result, ol_error *error) {
    *result = (ol_commit_result){.base_offset = -1, .rests_on = -1, .end_offset = ol_log_end(partition->log)};
    pthread_mutex_lock(&partition->writer);
    int status = delete_locked(partition, group, result, error);
    result->term = partition->term;
    pthread_mutex_unlock(&partition->writer);
    return status;
}
