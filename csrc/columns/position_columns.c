/* columns/position_columns.c: appends rows to growing arrays. */
#include "columns/position_columns.h"

#include <stdlib.h>
#include <string.h>

void ol_position_columns_free(ol_position_columns *columns) {
    free(columns->groups);
    free(columns->topics);
    free(columns->partitions);
    free(columns->offsets);
    free(columns->leader_epochs);
    free(columns->commit_timestamps);
    free(columns->expire_timestamps);
    free(columns->log_partitions);
    free(columns->log_offsets);
    free(columns->metadata_ends);
    free(columns->metadata);
    free(columns->topic_ids);
    free(columns->topic_id_valid);
    ol_string_dictionary_free(&columns->group_names);
    ol_string_dictionary_free(&columns->topic_names);
    memset(columns, 0, sizeof *columns);
}

static int no_memory(ol_error *error) {
    return ol_fail(error, OL_NO_MEMORY, "no memory for columns of positions");
}

static bool move(void *array, size_t count, size_t item_size) {
    void **place = array;
    void *moved = realloc(*place, count * item_size);
    if (moved == NULL) return false;
    *place = moved;
    return true;
}

static bool move_topic_ids(ol_position_columns *columns, size_t capacity) {
    size_t before = (columns->capacity + 7) / 8, after = (capacity + 7) / 8;
    if (!move(&columns->topic_ids, capacity, 16) || !move(&columns->topic_id_valid, after, 1)) {
        return false;
    }
    memset(columns->topic_id_valid + before, 0, after - before);
    return true;
}

static int grow(ol_position_columns *columns, size_t capacity, ol_error *error) {
    bool done = move(&columns->groups, capacity, sizeof(int32_t)) &&
                move(&columns->topics, capacity, sizeof(int32_t)) &&
                move(&columns->partitions, capacity, sizeof(int32_t)) &&
                move(&columns->offsets, capacity, sizeof(int64_t)) &&
                move(&columns->leader_epochs, capacity, sizeof(int32_t)) &&
                move(&columns->commit_timestamps, capacity, sizeof(int64_t)) &&
                move(&columns->expire_timestamps, capacity, sizeof(int64_t)) &&
                move(&columns->log_partitions, capacity, sizeof(int32_t)) &&
                move(&columns->log_offsets, capacity, sizeof(int64_t)) &&
                move(&columns->metadata_ends, capacity + 1, sizeof(int32_t)) &&
                (columns->topic_ids == NULL || move_topic_ids(columns, capacity));
    if (!done) return no_memory(error);
    if (columns->capacity == 0) columns->metadata_ends[0] = 0;
    columns->capacity = capacity;
    return OL_OK;
}

int ol_position_columns_reserve(ol_position_columns *columns, size_t count, ol_error *error) {
    if (columns->capacity - columns->count >= count) return OL_OK;
    return grow(columns, columns->count + count, error);
}

static int append_metadata(ol_position_columns *columns, ol_slice metadata, ol_error *error) {
    size_t used = (size_t)columns->metadata_ends[columns->count];
    if (OL_UNLIKELY(metadata.size > 0)) {
        if (used + metadata.size > OL_POSITION_COLUMNS_METADATA_MAX) {
            return ol_fail(error, OL_LIMIT, "the metadata of a block of positions exceeds 1 GiB");
        }
        if (columns->metadata_capacity - used < metadata.size) {
            size_t capacity = columns->metadata_capacity * 2 + metadata.size + 256;
            if (!move(&columns->metadata, capacity, 1)) return no_memory(error);
            columns->metadata_capacity = capacity;
        }
        memcpy(columns->metadata + used, metadata.data, metadata.size);
    }
    columns->metadata_ends[columns->count + 1] = (int32_t)(used + metadata.size);
    return OL_OK;
}

static int append_topic_id(ol_position_columns *columns, const uint8_t *topic_id, ol_error *error) {
    if (columns->topic_ids == NULL) {
        uint8_t *topic_ids = calloc(columns->capacity, 16),
                *valid = calloc((columns->capacity + 7) / 8, 1);
        if (topic_ids == NULL || valid == NULL) {
            free(topic_ids);
            free(valid);
            return no_memory(error);
        }
        columns->topic_ids = topic_ids;
        columns->topic_id_valid = valid;
    }
    memcpy(columns->topic_ids + columns->count * 16, topic_id, 16);
    columns->topic_id_valid[columns->count / 8] |= (uint8_t)(1u << (columns->count % 8));
    columns->topic_id_count++;
    return OL_OK;
}

static int number_strings(ol_position_columns *columns, const ol_table_row *row, ol_error *error) {
    if (row->group.data != columns->last_group || row->group.size != columns->last_group_size) {
        int status = ol_string_dictionary_number(&columns->group_names, row->group,
                                                 &columns->last_group_number, error);
        if (status != OL_OK) return status;
        columns->last_group = row->group.data;
        columns->last_group_size = row->group.size;
    }
    if (row->topic.data != columns->last_topic || row->topic.size != columns->last_topic_size) {
        int status = ol_string_dictionary_number(&columns->topic_names, row->topic,
                                                 &columns->last_topic_number, error);
        if (status != OL_OK) return status;
        columns->last_topic = row->topic.data;
        columns->last_topic_size = row->topic.size;
    }
    return OL_OK;
}

int ol_position_columns_append(ol_position_columns *columns, int32_t log_partition,
                               const ol_table_row *row, ol_error *error) {
    int status = OL_OK;
    if (OL_UNLIKELY(columns->count == columns->capacity)) {
        status = grow(columns, columns->capacity * 2 + 16, error);
    }
    if (OL_LIKELY(status == OL_OK)) status = number_strings(columns, row, error);
    if (OL_LIKELY(status == OL_OK)) status = append_metadata(columns, row->value.metadata, error);
    if (OL_UNLIKELY(row->value.topic_id != NULL) && status == OL_OK) {
        status = append_topic_id(columns, row->value.topic_id, error);
    }
    if (OL_UNLIKELY(status != OL_OK)) return status;
    size_t at = columns->count;
    if (OL_UNLIKELY(columns->topic_ids != NULL) && row->value.topic_id == NULL) {
        memset(columns->topic_ids + at * 16, 0, 16);
    }
    columns->groups[at] = columns->last_group_number;
    columns->topics[at] = columns->last_topic_number;
    columns->partitions[at] = row->partition;
    columns->offsets[at] = row->value.offset;
    columns->leader_epochs[at] = row->value.leader_epoch;
    columns->commit_timestamps[at] = row->value.commit_timestamp;
    columns->expire_timestamps[at] = row->value.expire_timestamp;
    columns->log_partitions[at] = log_partition;
    columns->log_offsets[at] = row->value.log_offset;
    columns->count++;
    return OL_OK;
}

void ol_position_columns_release(ol_position_columns *columns) {
    columns->last_group = NULL;
    columns->last_topic = NULL;
}

int ol_position_columns_append_table(ol_position_columns *columns, int32_t log_partition,
                                     const ol_table *table, ol_table_cursor *cursor,
                                     ol_error *error) {
    ol_table_row row;
    ol_table_cursor before = *cursor;
    int status = ol_position_columns_reserve(columns, 1, error);
    while (status == OL_OK && ol_table_next(table, cursor, &row)) {
        status = ol_position_columns_append(columns, log_partition, &row, error);
        if (OL_LIKELY(status == OL_OK)) before = *cursor;
    }
    /* The row that did not fit becomes the first of the next block. */
    if (status != OL_OK) *cursor = before;
    ol_position_columns_release(columns);
    return status;
}

int ol_position_columns_append_group(ol_position_columns *columns, int32_t log_partition,
                                     const ol_table *table, ol_slice group,
                                     ol_table_cursor *cursor, ol_error *error) {
    ol_table_row row;
    ol_table_cursor before = *cursor;
    uint64_t hash = ol_table_group_hash(table, group);
    int status = OL_OK;
    while (status == OL_OK && ol_table_next_of_group(table, group, hash, cursor, &row)) {
        status = ol_position_columns_append(columns, log_partition, &row, error);
        if (OL_LIKELY(status == OL_OK)) before = *cursor;
    }
    if (status != OL_OK) *cursor = before;
    ol_position_columns_release(columns);
    return status;
}
