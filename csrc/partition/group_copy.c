/* Copies the committed positions of a group, and writes a commit only while they are unchanged. */
#include "partition/group_copy.h"

#include <string.h>

#include "base/bytes.h"
#include "partition/partition_impl.h"

/* An arena moves as it grows, so a row holds positions in it, not pointers. */
typedef struct copied_row {
    ol_position_value value;    /* its metadata has a size only */
    size_t topic_at;
    size_t topic_size;
    size_t metadata_at;
    size_t topic_id_at;
    int32_t partition;
    bool has_topic_id;
} copied_row;

/* The strings of the previous row.  While the table is locked, equal addresses mean equal
 * strings. */
typedef struct strings_before {
    ol_slice topic;
    size_t topic_at;
    const uint8_t *topic_id;
    size_t topic_id_at;
} strings_before;

static int copy_bytes(ol_group_copy *copy, ol_slice content, size_t *at, ol_error *error) {
    *at = copy->bytes.used;
    if (content.size == 0) return OL_OK;
    int status = ol_arena_extend(&copy->bytes, content.size, error);
    if (status == OL_OK) memcpy(copy->bytes.base + *at, content.data, content.size);
    return status;
}

static int copy_strings(ol_group_copy *copy, const ol_table_row *row, strings_before *before,
                        size_t *metadata_at, ol_error *error) {
    int status = copy_bytes(copy, row->value.metadata, metadata_at, error);
    if (status == OL_OK &&
        (row->topic.data != before->topic.data || row->topic.size != before->topic.size)) {
        status = copy_bytes(copy, row->topic, &before->topic_at, error);
        before->topic = row->topic;
    }
    if (status == OL_OK && row->value.topic_id != NULL && row->value.topic_id != before->topic_id) {
        ol_slice id = {row->value.topic_id, OL_TOPIC_ID_SIZE};
        status = copy_bytes(copy, id, &before->topic_id_at, error);
        before->topic_id = row->value.topic_id;
    }
    return status;
}

static int copy_row(ol_group_copy *copy, const ol_table_row *row, strings_before *before,
                    ol_error *error) {
    size_t metadata_at, at = copy->rows.used;
    int status = copy_strings(copy, row, before, &metadata_at, error);
    if (status == OL_OK) status = ol_arena_extend(&copy->rows, sizeof(copied_row), error);
    if (status != OL_OK) return status;
    copied_row copied = {
        .value = row->value,
        .topic_at = before->topic_at,
        .topic_size = row->topic.size,
        .metadata_at = metadata_at,
        .topic_id_at = before->topic_id_at,
        .partition = row->partition,
        .has_topic_id = row->value.topic_id != NULL,
    };
    memcpy(copy->rows.base + at, &copied, sizeof copied);
    copy->count++;
    return OL_OK;
}

int ol_group_copy_take(ol_group_copy *copy, ol_partition *partition, ol_slice group,
                       ol_error *error) {
    const ol_state *state = NULL;
    strings_before before;
    ol_table_cursor cursor;
    ol_table_row row;
    memset(&before, 0, sizeof before);
    memset(&cursor, 0, sizeof cursor);
    int status = ol_partition_lock_state(partition, &state, error);
    if (status != OL_OK) return status;
    copy->fingerprint = ol_group_fingerprint_of(state, group);
    uint64_t hash = ol_table_group_hash(state->table, group);
    while (status == OL_OK && ol_table_next_of_group(state->table, group, hash, &cursor, &row)) {
        status = copy_row(copy, &row, &before, error);
    }
    ol_partition_unlock_state(partition);
    return status;
}

ol_table_row ol_group_copy_row(const ol_group_copy *copy, size_t index) {
    copied_row copied;
    OL_ASSERT(index < copy->count);
    memcpy(&copied, copy->rows.base + index * sizeof copied, sizeof copied);
    ol_table_row row = {.partition = copied.partition, .value = copied.value};
    row.topic = (ol_slice){copy->bytes.base + copied.topic_at, copied.topic_size};
    row.value.metadata.data =
        copied.value.metadata.size == 0 ? NULL : copy->bytes.base + copied.metadata_at;
    row.value.topic_id = copied.has_topic_id ? copy->bytes.base + copied.topic_id_at : NULL;
    return row;
}

void ol_group_copy_free(ol_group_copy *copy) {
    ol_arena_free(&copy->rows);
    ol_arena_free(&copy->bytes);
    copy->count = 0;
}

/* ---------------------------------------------------------------------------------- fingerprint */

ol_group_fingerprint ol_group_fingerprint_of(const ol_state *state, ol_slice group) {
    ol_group_fingerprint fingerprint = {{0, 0}, 0};
    ol_table_cursor cursor;
    ol_table_row row;
    uint64_t hash = ol_table_group_hash(state->table, group);
    memset(&cursor, 0, sizeof cursor);
    while (ol_table_next_of_group(state->table, group, hash, &cursor, &row)) {
        uint8_t bytes[8];
        ol_store_i64(bytes, row.value.log_offset);
        fingerprint.sum = ol_hash128_add(fingerprint.sum, ol_xxh3_128(bytes, sizeof bytes));
        fingerprint.positions++;
    }
    return fingerprint;
}

/* Under writer: no other thread changes the state. */
static bool is_unchanged(const ol_partition *partition, ol_slice group,
                         const ol_group_fingerprint *seen) {
    if (atomic_load(&partition->applied) != ol_log_end(partition->log)) return false;
    ol_group_fingerprint now = ol_group_fingerprint_of(&partition->state, group);
    return now.positions == seen->positions && now.sum.low == seen->sum.low &&
           now.sum.high == seen->sum.high;
}

int ol_partition_commit_unchanged(ol_partition *partition, ol_slice group,
                                  const ol_group_fingerprint *seen, const ol_item *items,
                                  size_t count, ol_commit_result *result, ol_error *error) {
    *result = (ol_commit_result){.base_offset = -1, .rests_on = -1};
    pthread_mutex_lock(&partition->writer);
    int status = ol_partition_check_writable(partition, true, error);
    if (status == OL_OK && !is_unchanged(partition, group, seen)) {
        status = ol_fail(error, OL_CONDITION, "the group has changed since it was read");
    }
    if (status == OL_OK) {
        status = ol_partition_commit_locked(partition, items, count, -1, -1, result, error);
    }
    result->term = partition->term;
    pthread_mutex_unlock(&partition->writer);
    return status;
}
