/* feed_mirror: a state that follows what a feed of changes gives, for comparison with the state of a load. */
#ifndef FEED_MIRROR_H
#define FEED_MIRROR_H

#include "history/change_feed.h"

typedef struct feed_mirror {
    ol_state state;
    size_t rows;
    bool is_exact;              /* nothing in the rows is other than in the log: malformed text, ids as text */
} feed_mirror;

static const ol_column feed_mirror_columns[] = {
    OL_COLUMN_LOG_OFFSET, OL_COLUMN_EFFECTIVE_AT, OL_COLUMN_GROUP, OL_COLUMN_TOPIC, OL_COLUMN_PARTITION, OL_COLUMN_OFFSET,
    OL_COLUMN_LEADER_EPOCH, OL_COLUMN_METADATA, OL_COLUMN_COMMIT_TIMESTAMP, OL_COLUMN_EXPIRE_TIMESTAMP, OL_COLUMN_TOPIC_ID,
};

static inline bool feed_mirror_is_null(const ol_record_block *block, ol_column column, size_t row) {
    const ol_row_array *array = &block->arrays[column];
    return array->has_nulls && (array->valid[row >> 3] >> (row & 7) & 1) == 0;
}

static inline int64_t feed_mirror_long(const ol_record_block *block, ol_column column, size_t row) {
    return ((const int64_t *)(const void *)block->arrays[column].data)[row];
}

static inline int32_t feed_mirror_int(const ol_record_block *block, ol_column column, size_t row) {
    return ((const int32_t *)(const void *)block->arrays[column].data)[row];
}

static inline ol_slice feed_mirror_text(feed_mirror *mirror, const ol_record_block *block, ol_column column, size_t row) {
    const ol_row_array *array = &block->arrays[column];
    size_t start = (size_t)array->ends[row];
    ol_slice found = ol_slice_of(array->data + start, (size_t)array->ends[row + 1] - start);
    for (size_t i = 0; i < found.size; i++) mirror->is_exact &= found.data[i] < 0x80;
    return found;
}

static inline int feed_mirror_apply(feed_mirror *mirror, const ol_record_block *block, size_t row, ol_error *error) {
    const ol_table *table = mirror->state.table;
    ol_change change = {.kind = OL_CHANGE_POSITION_TOMBSTONE, .producer_id = -1};
    ol_slice group = feed_mirror_text(mirror, block, OL_COLUMN_GROUP, row);
    change.name = ol_table_name(table, group, ol_table_group_hash(table, group), feed_mirror_text(mirror, block, OL_COLUMN_TOPIC, row));
    change.partition = feed_mirror_int(block, OL_COLUMN_PARTITION, row);
    change.value.log_offset = feed_mirror_long(block, OL_COLUMN_LOG_OFFSET, row);
    if (!feed_mirror_is_null(block, OL_COLUMN_OFFSET, row)) {
        change.kind = OL_CHANGE_POSITION;
        change.value.offset = feed_mirror_long(block, OL_COLUMN_OFFSET, row);
        change.value.leader_epoch = feed_mirror_int(block, OL_COLUMN_LEADER_EPOCH, row);
        change.value.metadata = feed_mirror_text(mirror, block, OL_COLUMN_METADATA, row);
        change.value.commit_timestamp = feed_mirror_long(block, OL_COLUMN_COMMIT_TIMESTAMP, row);
        change.value.expire_timestamp = feed_mirror_long(block, OL_COLUMN_EXPIRE_TIMESTAMP, row);
        mirror->is_exact &= feed_mirror_is_null(block, OL_COLUMN_TOPIC_ID, row);
    }
    mirror->rows++;
    return ol_state_apply(&mirror->state, &change, error);
}

/* Follows a partition that is loaded from its beginning to W, `capacity` rows at a time.  Statuses of the feed's own reads. */
static inline int feed_mirror_make(feed_mirror *mirror, ol_partition *partition, size_t capacity, ol_error *error) {
    ol_record_block block;
    ol_change_feed feed;
    *mirror = (feed_mirror){.is_exact = true};
    int status = ol_state_create(&mirror->state, error);
    if (status != OL_OK) return status;
    status = ol_record_block_create(&block, feed_mirror_columns, sizeof feed_mirror_columns / sizeof *feed_mirror_columns, capacity, error);
    if (status != OL_OK) return status;
    status = ol_change_feed_create(&feed, 0, NULL, 0, error);
    feed.partition = partition;
    if (status == OL_OK) status = ol_change_feed_start(&feed, 0, -1, 0, error);
    while (status == OL_OK) {
        int64_t before = feed.offset;
        status = ol_change_feed_read(&feed, &block, error);
        if (status != OL_OK && status != OL_END) break;
        /* Each read gets on. */
        OL_ASSERT(status == OL_END || block.count > 0 || feed.gap.below > 0);
        OL_ASSERT(feed.offset >= before);
        for (size_t i = 0; i < block.count; i++) {
            int applied = feed_mirror_apply(mirror, &block, i, error);
            if (applied != OL_OK) status = applied;
        }
        ol_record_block_clear(&block);
    }
    ol_change_feed_free(&feed);
    ol_record_block_free(&block);
    return status == OL_END ? OL_OK : status;
}

#endif
