/* columns/offset_rows.c: puts keys, values and positions into the columns of a row. */
#include "columns/offset_rows.h"

/* Puts an id in Kafka's form: base64 in the alphabet of URLs, without padding. */
static int put_topic_id(ol_record_block *block, const uint8_t *id, ol_error *error) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char text[22];
    if (id == NULL) {
        ol_record_block_put_null(block, OL_COLUMN_TOPIC_ID);
        return OL_OK;
    }
    for (size_t i = 0, bit = 0; i < sizeof text; i++, bit += 6) {
        unsigned pair = (unsigned)id[bit / 8] << 8 |
                        (bit / 8 + 1 < OL_TOPIC_ID_SIZE ? id[bit / 8 + 1] : 0u);
        text[i] = digits[pair >> (10 - bit % 8) & 63];
    }
    return ol_record_block_put_string(block, OL_COLUMN_TOPIC_ID, ol_slice_of(text, sizeof text),
                                      error);
}

int ol_record_block_put_offset_value(ol_record_block *block, const ol_offset_value *value,
                                     ol_error *error) {
    static const ol_column columns[] = {OL_COLUMN_OFFSET,           OL_COLUMN_LEADER_EPOCH,
                                        OL_COLUMN_METADATA,         OL_COLUMN_COMMIT_TIMESTAMP,
                                        OL_COLUMN_EXPIRE_TIMESTAMP, OL_COLUMN_TOPIC_ID,
                                        OL_COLUMN_VALUE_VERSION};
    if (value == NULL) {
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
            ol_record_block_put_null(block, columns[i]);
        }
        return OL_OK;
    }
    ol_record_block_put_int64(block, OL_COLUMN_OFFSET, value->offset);
    ol_record_block_put_int32(block, OL_COLUMN_LEADER_EPOCH, value->leader_epoch);
    ol_record_block_put_int64(block, OL_COLUMN_COMMIT_TIMESTAMP, value->commit_timestamp);
    ol_record_block_put_int64(block, OL_COLUMN_EXPIRE_TIMESTAMP, value->expire_timestamp);
    ol_record_block_put_int32(block, OL_COLUMN_VALUE_VERSION, value->version);
    int status = ol_record_block_put_string(block, OL_COLUMN_METADATA, value->metadata, error);
    return status == OL_OK ? put_topic_id(block, value->topic_id, error) : status;
}

int ol_record_block_put_offset_key(ol_record_block *block, const ol_key *key, ol_error *error) {
    ol_record_block_put_int32(block, OL_COLUMN_PARTITION, key->partition);
    int status = ol_record_block_put_string(block, OL_COLUMN_GROUP, key->group, error);
    return status == OL_OK ? ol_record_block_put_string(block, OL_COLUMN_TOPIC, key->topic, error)
                           : status;
}

int ol_record_block_put_position(ol_record_block *block, int32_t log_partition,
                                 const ol_table_row *row, ol_error *error) {
    const ol_position_value *from = &row->value;
    ol_key key = {.group = row->group, .topic = row->topic, .partition = row->partition};
    ol_offset_value value = {.offset = from->offset,
                             .commit_timestamp = from->commit_timestamp,
                             .leader_epoch = from->leader_epoch,
                             .expire_timestamp = from->expire_timestamp,
                             .metadata = from->metadata,
                             .topic_id = from->topic_id};
    OL_ASSERT(!block->arrays[OL_COLUMN_VALUE_VERSION].wanted);
    ol_record_block_put_int32(block, OL_COLUMN_LOG_PARTITION, log_partition);
    ol_record_block_put_int64(block, OL_COLUMN_LOG_OFFSET, from->log_offset);
    int status = ol_record_block_put_offset_key(block, &key, error);
    if (status == OL_OK) status = ol_record_block_put_offset_value(block, &value, error);
    if (status == OL_OK) {
        ol_record_block_end(block);
    } else {
        ol_record_block_drop(block);
    }
    return status;
}

int ol_record_block_put_table(ol_record_block *block, int32_t log_partition, const ol_table *table,
                              ol_table_cursor *cursor, ol_error *error) {
    ol_table_row row;
    while (block->count < block->capacity) {
        ol_table_cursor before = *cursor;
        if (!ol_table_next(table, cursor, &row)) return OL_END;
        int status = ol_record_block_put_position(block, log_partition, &row, error);
        if (status == OL_OK) continue;
        /* These bytes do not fit the block: the row becomes the first of the next block. */
        *cursor = before;
        return status == OL_LIMIT && block->count > 0 ? OL_OK : status;
    }
    return OL_OK;
}
