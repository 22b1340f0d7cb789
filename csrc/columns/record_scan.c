/* columns/record_scan.c: the columns of each view, and the walk over batches. */
#include "columns/record_scan.h"

#include <string.h>

#include "columns/offset_rows.h"

/* ----------------------------------------------------------------------------------------- text */

static const char *const codecs[] = {"none", "gzip", "snappy", "lz4", "zstd"};

static ol_slice text_of(const char *text) { return ol_slice_of(text, strlen(text)); }

static const char *timestamp_type(const ol_batch *batch) {
    if (batch->magic == 0) return "NoTimestampType";
    return (batch->attributes & OL_ATTRIBUTE_LOG_APPEND_TIME) != 0 ? "LogAppendTime" : "CreateTime";
}

/* --------------------------------------------------------------------------- rows of every view */

/* Each puts a few columns if the columns before succeeded. */
static int put_text(ol_record_block *rows, int status, ol_column column, const char *text,
                    ol_error *error) {
    return status == OL_OK ? ol_record_block_put_string(rows, column, text_of(text), error)
                           : status;
}

static void put_batch_numbers(const ol_record_scan *work, ol_record_block *rows,
                              const ol_batch *batch) {
    ol_record_block_put_int32(rows, OL_COLUMN_LOG_PARTITION, work->log_partition);
    ol_record_block_put_int64(rows, OL_COLUMN_POSITION, work->position);
    ol_record_block_put_int64(rows, OL_COLUMN_BASE_OFFSET, work->base_offset);
    ol_record_block_put_int64(rows, OL_COLUMN_LAST_OFFSET, batch->last_offset);
    ol_record_block_put_int32(rows, OL_COLUMN_BATCH_SIZE, (int32_t)batch->size);
    ol_record_block_put_int32(rows, OL_COLUMN_MAGIC, batch->magic);
    ol_record_block_put_boolean(rows, OL_COLUMN_TRANSACTIONAL,
                                batch->magic == 2 && ol_batch_is_transactional(batch));
    ol_record_block_put_int64(rows, OL_COLUMN_PRODUCER_ID, batch->producer_id);
    ol_record_block_put_int32(rows, OL_COLUMN_PRODUCER_EPOCH, batch->producer_epoch);
    ol_record_block_put_int32(rows, OL_COLUMN_BASE_SEQUENCE, batch->base_sequence);
    ol_record_block_put_int32(rows, OL_COLUMN_BATCH_LEADER_EPOCH, batch->leader_epoch);
    if (batch->magic == 2 && ol_batch_has_horizon(batch)) {
        ol_record_block_put_int64(rows, OL_COLUMN_DELETE_HORIZON, batch->base_timestamp);
    } else {
        ol_record_block_put_null(rows, OL_COLUMN_DELETE_HORIZON);
    }
}

static int put_batch_text(const ol_record_scan *work, ol_record_block *rows, const ol_batch *batch,
                          ol_error *error) {
    int status = ol_record_block_put_string(rows, OL_COLUMN_SEGMENT, work->segment, error);
    status = put_text(rows, status, OL_COLUMN_CODEC, codecs[ol_batch_codec(batch)], error);
    return put_text(rows, status, OL_COLUMN_TIMESTAMP_TYPE, timestamp_type(batch), error);
}

static int put_record(const ol_record_scan *work, ol_record_block *rows, const ol_record *record,
                      const char *kind, ol_error *error) {
    ol_record_block_put_int64(rows, OL_COLUMN_TIMESTAMP, record->timestamp);
    ol_record_block_put_int64(rows, OL_COLUMN_LOG_OFFSET, record->offset);
    if (work->marker_offset >= 0) {
        ol_record_block_put_int64(rows, OL_COLUMN_MARKER_OFFSET, work->marker_offset);
    } else {
        ol_record_block_put_null(rows, OL_COLUMN_MARKER_OFFSET);
    }
    int status = put_text(rows, OL_OK, OL_COLUMN_KIND, kind, error);
    return put_text(rows, status, OL_COLUMN_OUTCOME, work->outcome, error);
}

/* -------------------------------------------------------------------------------------- commits */

static bool is_position(const ol_key *key) {
    return key->known && key->type <= OL_KEY_OFFSET_COMMIT;
}

static bool is_asked(const ol_record_scan *work, const ol_key *key) {
    if (work->group.data != NULL && !(key->known && ol_slice_equal(key->group, work->group)))
        return false;
    if (work->topic.data != NULL && !(is_position(key) && ol_slice_equal(key->topic, work->topic)))
        return false;
    if (work->partition >= 0 && !(is_position(key) && key->partition == work->partition))
        return false;
    return ol_key_shard_has(&work->bucket, key);
}

/* *refused: the record cannot be decoded, and no row was begun. */
static int tell_commit(ol_record_scan *work, ol_record_block *rows, const ol_record *record,
                       bool *refused, ol_error *error) {
    const ol_batch *batch = &work->records.batch;
    ol_key key;
    ol_offset_value value;
    bool is_tombstone = record->value.data == NULL;
    int status = ol_key_decode(record->key, &key, error);
    if (status == OL_OK && (!is_position(&key) || !is_asked(work, &key))) return OL_OK;
    if (status == OL_OK && !is_tombstone)
        status = ol_offset_value_decode(record->value, key.type, &value, error);
    *refused = status != OL_OK;
    if (status != OL_OK) return status;
    status = ol_record_block_put_offset_key(rows, &key, error);
    if (status == OL_OK)
        status = ol_record_block_put_offset_value(rows, is_tombstone ? NULL : &value, error);
    if (status == OL_OK)
        status = put_record(work, rows, record, is_tombstone ? "delete" : "commit", error);
    ol_record_block_put_int64(rows, OL_COLUMN_PRODUCER_ID, batch->producer_id);
    ol_record_block_put_int32(rows, OL_COLUMN_PRODUCER_EPOCH, batch->producer_epoch);
    ol_record_block_put_int32(rows, OL_COLUMN_LOG_PARTITION, work->log_partition);
    if (status == OL_OK) ol_record_block_end(rows);
    return status;
}

/* --------------------------------------------------------------------------------- every record */

static int put_headers(ol_record_block *rows, const ol_record *record, ol_error *error) {
    const uint8_t *cursor = record->headers.data;
    const uint8_t *limit = cursor + record->headers.size;
    ol_slice key, value;
    int status = OL_OK;
    if (!rows->arrays[OL_COLUMN_HEADER_KEYS].wanted) return OL_OK;
    for (int32_t i = 0; i < record->header_count && status == OL_OK; i++) {
        status = ol_record_header_next(&cursor, limit, &key, &value, error);
        if (status == OL_OK)
            status = ol_record_block_add_string(rows, OL_COLUMN_HEADER_KEYS, key, error);
    }
    ol_record_block_end_list(rows, OL_COLUMN_HEADER_KEYS);
    return status == OL_END ? OL_OK : status;
}

/* The columns of a data record's key: `kind`, and names and value where they exist. */
static int put_decoded(const ol_record_scan *work, ol_record_block *rows, const ol_record *record,
                       const ol_key *key, const ol_offset_value *value, ol_error *error) {
    int status = ol_record_block_put_offset_value(rows, value, error);
    if (status != OL_OK || is_position(key))
        return status == OL_OK ? ol_record_block_put_offset_key(rows, key, error) : status;
    ol_record_block_put_null(rows, OL_COLUMN_TOPIC);
    ol_record_block_put_null(rows, OL_COLUMN_PARTITION);
    if (record->value.size >= 2)
        ol_record_block_put_int32(rows, OL_COLUMN_VALUE_VERSION, ol_load_i16(record->value.data));
    if (key->known) return ol_record_block_put_string(rows, OL_COLUMN_GROUP, key->group, error);
    ol_record_block_put_null(rows, OL_COLUMN_GROUP);
    (void)work;
    return OL_OK;
}

static const char *kind_of(const ol_record_scan *work, const ol_key *key) {
    const char *kind = key->known && key->type >= 0 && (size_t)key->type < work->kind_count
                           ? work->kinds[key->type]
                           : NULL;
    return kind != NULL ? kind : "unknown";
}

static int put_raw(ol_record_block *rows, const ol_record *record, ol_error *error) {
    int status = ol_record_block_put_bytes(rows, OL_COLUMN_KEY, record->key, error);
    if (status == OL_OK)
        status = ol_record_block_put_bytes(rows, OL_COLUMN_VALUE, record->value, error);
    return status == OL_OK ? put_headers(rows, record, error) : status;
}

static int end_record(const ol_record_scan *work, ol_record_block *rows, const ol_record *record,
                      const char *kind, int status, ol_error *error) {
    const ol_batch *batch = &work->records.batch;
    if (status == OL_OK) status = put_raw(rows, record, error);
    put_batch_numbers(work, rows, batch);
    if (status == OL_OK) status = put_batch_text(work, rows, batch, error);
    if (status == OL_OK) status = put_record(work, rows, record, kind, error);
    if (status == OL_OK) ol_record_block_end(rows);
    return status;
}

static int tell_record(ol_record_scan *work, ol_record_block *rows, const ol_record *record,
                       bool *refused, ol_error *error) {
    ol_key key;
    ol_offset_value value;
    bool has_value = false;
    int status = ol_key_decode(record->key, &key, error);
    if (status == OL_OK && !is_asked(work, &key)) return OL_OK;
    if (status == OL_OK && is_position(&key) && record->value.data != NULL) {
        status = ol_offset_value_decode(record->value, key.type, &value, error);
        has_value = true;
    }
    *refused = status != OL_OK;
    if (status != OL_OK) return status;
    ol_record_block_put_null(rows, OL_COLUMN_CONTROL_TYPE);
    status = put_decoded(work, rows, record, &key, has_value ? &value : NULL, error);
    return end_record(work, rows, record, kind_of(work, &key), status, error);
}

static int tell_marker(ol_record_scan *work, ol_record_block *rows, const ol_record *record,
                       bool *refused, ol_error *error) {
    static const char *const types[] = {[OL_CONTROL_ABORT] = "ABORT",
                                        [OL_CONTROL_COMMIT] = "COMMIT",
                                        [OL_CONTROL_OTHER] = "OTHER"};
    ol_control type;
    int32_t coordinator_epoch;
    bool is_filtered = work->group.data != NULL || work->topic.data != NULL || work->partition >= 0;
    if (is_filtered || (work->bucket.count > 1 && work->bucket.number != 0)) return OL_OK;
    int status = ol_control_decode(record, &type, &coordinator_epoch, error);
    *refused = status != OL_OK;
    if (status != OL_OK) return status;
    ol_record_block_put_null(rows, OL_COLUMN_GROUP);
    ol_record_block_put_null(rows, OL_COLUMN_TOPIC);
    ol_record_block_put_null(rows, OL_COLUMN_PARTITION);
    status = ol_record_block_put_offset_value(rows, NULL, error);
    status = put_text(rows, status, OL_COLUMN_CONTROL_TYPE, types[type], error);
    return end_record(work, rows, record, "marker", status, error);
}

/* -------------------------------------------------------------------------------------- batches */

static int tell_batch(const ol_record_scan *work, ol_record_block *rows, const ol_batch *batch,
                      ol_error *error) {
    ol_error damage;
    put_batch_numbers(work, rows, batch);
    ol_record_block_put_boolean(rows, OL_COLUMN_CONTROL,
                                batch->magic == 2 && ol_batch_is_control(batch));
    ol_record_block_put_int64(rows, OL_COLUMN_BASE_TIMESTAMP, batch->base_timestamp);
    ol_record_block_put_int64(rows, OL_COLUMN_MAX_TIMESTAMP, batch->max_timestamp);
    ol_record_block_put_int64(rows, OL_COLUMN_CRC, batch->crc);
    if (batch->record_count >= 0) {
        ol_record_block_put_int32(rows, OL_COLUMN_RECORD_COUNT, batch->record_count);
    } else {
        ol_record_block_put_null(rows, OL_COLUMN_RECORD_COUNT);
    }
    if (rows->arrays[OL_COLUMN_CRC_OK].wanted) {
        ol_record_block_put_boolean(rows, OL_COLUMN_CRC_OK,
                                    ol_batch_check_crc(batch, &damage) == OL_OK);
    }
    int status = put_batch_text(work, rows, batch, error);
    if (status == OL_OK) ol_record_block_end(rows);
    return status;
}

/* ------------------------------------------------------------------------------------- the walk */

/* The outcome of the batch's transaction.  OL_WOULD_BLOCK: not known yet. */
static int find_outcome(ol_record_scan *work, const ol_batch *batch) {
    work->outcome = "plain";
    work->marker_offset = -1;
    bool has_outcome = ol_batch_is_transactional(batch) && !ol_batch_is_control(batch) &&
                       batch->producer_id >= 0;
    if (!work->wants_outcomes || !has_outcome) return OL_OK;
    if (work->outcomes == NULL) return OL_WOULD_BLOCK;
    const ol_outcome_marker *marker = ol_transaction_outcomes_find(
        work->outcomes, batch->producer_id, batch->base_offset);
    work->outcome = "open";
    if (marker == NULL) return OL_OK;
    work->outcome = marker->type == OL_CONTROL_COMMIT ? "committed" : "aborted";
    work->marker_offset = marker->offset;
    return OL_OK;
}

static int open_batch(ol_record_scan *work, const ol_batch *batch, ol_error *error) {
    int status = ol_batch_check_crc(batch, error);
    if (status == OL_OK && batch->base_offset < work->next_offset) {
        status = ol_fail(error, OL_CORRUPT,
                         "the offset %lld goes back: the batch before it ends below %lld",
                         (long long)batch->base_offset, (long long)work->next_offset);
    }
    if (status != OL_OK) return status;
    status = find_outcome(work, batch);
    if (status == OL_OK) status = ol_records_open(&work->records, batch, work->decompressor, error);
    if (status != OL_OK) return status;
    ol_records walk = work->records;    /* the same bytes, with a cursor of its own */
    ol_record record;
    status = ol_records_next(&walk, &record, error);
    /* The header of a wrapper names its last message only. */
    if (status == OL_OK && batch->record_count < 0) work->base_offset = record.offset;
    while (status == OL_OK) status = ol_records_next(&walk, &record, error);
    work->is_open = status == OL_END;
    if (work->is_open) return OL_OK;
    ol_records_close(&work->records);
    return status;
}

static int tell_any(ol_record_scan *work, ol_record_block *rows, const ol_record *record,
                    bool *refused, ol_error *error) {
    bool is_control = ol_batch_is_control(&work->records.batch);
    int status;
    if (work->view == OL_VIEW_COMMITS) {
        /* Markers have no rows in this view. */
        status = is_control ? OL_OK : tell_commit(work, rows, record, refused, error);
    } else if (is_control) {
        status = tell_marker(work, rows, record, refused, error);
    } else {
        status = tell_record(work, rows, record, refused, error);
    }
    if (status == OL_OK) return OL_OK;
    ol_record_block_drop(rows);
    if (status == OL_CORRUPT) *refused = true;
    error->offset = record->offset;
    error->position = work->position;
    return status;
}

/* Puts records of the open batch until the rows are full (OL_OK) or it ends (OL_END). */
static int tell_records(ol_record_scan *work, ol_record_block *rows, bool *refused,
                        ol_error *error) {
    ol_record record;
    while (rows->count < rows->capacity) {
        const uint8_t *cursor = work->records.cursor;
        int64_t previous_offset = work->records.previous_offset;
        int32_t remaining = work->records.remaining;
        int status = ol_records_next(&work->records, &record, error);
        if (status != OL_OK) return status;
        if (record.offset < work->first || record.offset >= work->until) continue;
        status = tell_any(work, rows, &record, refused, error);
        if (status == OL_LIMIT && rows->count > 0) {
            /* The block has no room for these bytes: the record becomes the first of the next
             * block. */
            work->records.cursor = cursor;
            work->records.previous_offset = previous_offset;
            work->records.remaining = remaining;
            return OL_OK;
        }
        if (record.offset >= work->count_from) work->present++;
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static int next_batch(ol_record_scan *work, ol_record_block *rows, ol_error *error) {
    ol_batch batch;
    int64_t position = work->scan->position;
    int status = ol_file_scan_next(work->scan, &batch, error);
    if (status != OL_OK) return status;
    work->position = position;
    work->base_offset = batch.base_offset;
    /* The header of a wrapper of magic 0 or 1 names its last message only: the first may lie
     * below. */
    bool is_behind = batch.base_offset >= work->until &&
                     (batch.record_count >= 0 || work->next_offset >= work->until);
    if (is_behind) {
        status = OL_END;
    } else if (work->view == OL_VIEW_BATCHES) {
        if (batch.last_offset >= work->first) status = tell_batch(work, rows, &batch, error);
    } else if (batch.last_offset >= work->first) {
        status = open_batch(work, &batch, error);
    }
    if (status == OL_OK) {
        work->next_offset = batch.last_offset + 1;
    } else {
        work->scan->position = position;
    }
    return status;
}

void ol_record_scan_close(ol_record_scan *work) {
    if (work->is_open) ol_records_close(&work->records);
    work->is_open = false;
}

int ol_record_scan_fill(ol_record_scan *work, ol_record_block *rows, bool *refused,
                        ol_error *error) {
    *refused = false;
    while (rows->count < rows->capacity) {
        int status = OL_OK;
        if (work->is_open) {
            status = tell_records(work, rows, refused, error);
            if (status == OL_OK) return OL_OK;
            if (status == OL_END) {
                ol_record_scan_close(work);
                status = OL_OK;
            }
        } else {
            status = next_batch(work, rows, error);
        }
        if (status != OL_OK) return status;
    }
    return OL_OK;
}
