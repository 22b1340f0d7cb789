/* columns/record_scan.c: walks over the batches, and fills the columns of each view. */
#include "columns/record_scan.h"

#include <string.h>

#include "columns/offset_rows.h"
#include "columns/usual_commits.h"
#include "log/batch_rules.h"

/* The fast path has a fixed cost for each column.  It pays off only if the block has at most this
 * many columns per record of the batch (docs/evidence.md, the scan by itself). */
enum { COLUMNS_PER_RECORD = 5 };

/* ----------------------------------------------------------------------------------------- text */

static const char *const codecs[] = {"none", "gzip", "snappy", "lz4", "zstd"};

static ol_slice text_of(const char *text) { return ol_slice_of(text, strlen(text)); }

static const char *timestamp_type(const ol_batch *batch) {
    if (batch->magic == 0) return "NoTimestampType";
    return (batch->attributes & OL_ATTRIBUTE_LOG_APPEND_TIME) != 0 ? "LogAppendTime" : "CreateTime";
}

/* --------------------------------------------------------------------------- rows of every view */

/* Each of these puts a few columns, unless an earlier column failed. */
static int put_text(ol_record_block *block, int status, ol_column column, const char *text,
                    ol_error *error) {
    /* The length is counted only where it is used. */
    if (status != OL_OK || !block->arrays[column].wanted) return status;
    return ol_record_block_append_string(block, column, text_of(text), error);
}

static void put_batch_numbers(const ol_record_scan *scan, ol_record_block *block,
                              const ol_batch *batch) {
    ol_record_block_put_int32(block, OL_COLUMN_LOG_PARTITION, scan->log_partition);
    ol_record_block_put_int64(block, OL_COLUMN_POSITION, scan->position);
    ol_record_block_put_int64(block, OL_COLUMN_BASE_OFFSET, scan->base_offset);
    ol_record_block_put_int64(block, OL_COLUMN_LAST_OFFSET, batch->last_offset);
    ol_record_block_put_int32(block, OL_COLUMN_BATCH_SIZE, (int32_t)batch->size);
    ol_record_block_put_int32(block, OL_COLUMN_MAGIC, batch->magic);
    ol_record_block_put_boolean(block, OL_COLUMN_TRANSACTIONAL,
                                batch->magic == 2 && ol_batch_is_transactional(batch));
    ol_record_block_put_int64(block, OL_COLUMN_PRODUCER_ID, batch->producer_id);
    ol_record_block_put_int32(block, OL_COLUMN_PRODUCER_EPOCH, batch->producer_epoch);
    ol_record_block_put_int32(block, OL_COLUMN_BASE_SEQUENCE, batch->base_sequence);
    ol_record_block_put_int32(block, OL_COLUMN_BATCH_LEADER_EPOCH, batch->leader_epoch);
    if (batch->magic == 2 && ol_batch_has_horizon(batch)) {
        ol_record_block_put_int64(block, OL_COLUMN_DELETE_HORIZON, batch->base_timestamp);
    } else {
        ol_record_block_put_null(block, OL_COLUMN_DELETE_HORIZON);
    }
}

static int put_batch_text(const ol_record_scan *scan, ol_record_block *block, const ol_batch *batch,
                          ol_error *error) {
    int status = ol_record_block_put_string(block, OL_COLUMN_SEGMENT, scan->segment, error);
    status = put_text(block, status, OL_COLUMN_CODEC, codecs[ol_batch_codec(batch)], error);
    return put_text(block, status, OL_COLUMN_TIMESTAMP_TYPE, timestamp_type(batch), error);
}

static int put_record(const ol_record_scan *scan, ol_record_block *block, const ol_record *record,
                      const char *kind, ol_error *error) {
    ol_record_block_put_int64(block, OL_COLUMN_TIMESTAMP, record->timestamp);
    ol_record_block_put_int64(block, OL_COLUMN_LOG_OFFSET, record->offset);
    if (scan->marker_offset >= 0) {
        ol_record_block_put_int64(block, OL_COLUMN_MARKER_OFFSET, scan->marker_offset);
    } else {
        ol_record_block_put_null(block, OL_COLUMN_MARKER_OFFSET);
    }
    int status = put_text(block, OL_OK, OL_COLUMN_KIND, kind, error);
    return put_text(block, status, OL_COLUMN_OUTCOME, scan->outcome, error);
}

/* -------------------------------------------------------------------------------------- commits */

static bool is_position(const ol_key *key) {
    return key->known && key->type <= OL_KEY_OFFSET_COMMIT;
}

static bool asks_for_names(const ol_record_scan *scan) {
    return scan->group.data != NULL || scan->topic.data != NULL || scan->partition >= 0;
}

static bool is_asked(const ol_record_scan *scan, const ol_key *key) {
    if (scan->group.data != NULL && !(key->known && ol_slice_equal(key->group, scan->group))) {
        return false;
    }
    if (scan->topic.data != NULL &&
        !(is_position(key) && ol_slice_equal(key->topic, scan->topic))) {
        return false;
    }
    if (scan->partition >= 0 && !(is_position(key) && key->partition == scan->partition)) {
        return false;
    }
    return ol_key_shard_has(&scan->shard, key);
}

/* *refused: the record cannot be decoded, and no row was begun. */
static int report_commit(ol_record_scan *scan, ol_record_block *block, const ol_record *record,
                         bool *refused, ol_error *error) {
    const ol_batch *batch = &scan->records.batch;
    ol_key key;
    ol_offset_value value;
    bool is_tombstone = record->value.data == NULL;
    int status = ol_key_decode(record->key, &key, error);
    if (status == OL_OK && (!is_position(&key) || !is_asked(scan, &key))) return OL_OK;
    if (status == OL_OK && !is_tombstone) {
        status = ol_offset_value_decode(record->value, key.type, &value, error);
    }
    *refused = status != OL_OK;
    if (status != OL_OK) return status;
    status = ol_record_block_put_offset_key(block, &key, error);
    if (status == OL_OK) {
        status = ol_record_block_put_offset_value(block, is_tombstone ? NULL : &value, error);
    }
    if (status == OL_OK) {
        status = put_record(scan, block, record, is_tombstone ? "delete" : "commit", error);
    }
    ol_record_block_put_int64(block, OL_COLUMN_PRODUCER_ID, batch->producer_id);
    ol_record_block_put_int32(block, OL_COLUMN_PRODUCER_EPOCH, batch->producer_epoch);
    ol_record_block_put_int32(block, OL_COLUMN_LOG_PARTITION, scan->log_partition);
    if (status == OL_OK) ol_record_block_end(block);
    return status;
}

/* --------------------------------------------------------------------------------- every record */

static int put_headers(ol_record_block *block, const ol_record *record, ol_error *error) {
    const uint8_t *cursor = record->headers.data;
    const uint8_t *limit = cursor + record->headers.size;
    ol_slice key, value;
    int status = OL_OK;
    if (!block->arrays[OL_COLUMN_HEADER_KEYS].wanted) return OL_OK;
    for (int32_t i = 0; i < record->header_count && status == OL_OK; i++) {
        status = ol_record_header_next(&cursor, limit, &key, &value, error);
        if (status == OL_OK) {
            status = ol_record_block_add_string(block, OL_COLUMN_HEADER_KEYS, key, error);
        }
    }
    ol_record_block_end_list(block, OL_COLUMN_HEADER_KEYS);
    return status == OL_END ? OL_OK : status;
}

/* Puts the columns that come from a data record's key: `kind`, and names and value if they
 * exist. */
static int put_decoded(const ol_record_scan *scan, ol_record_block *block, const ol_record *record,
                       const ol_key *key, const ol_offset_value *value, ol_error *error) {
    int status = ol_record_block_put_offset_value(block, value, error);
    if (status != OL_OK || is_position(key)) {
        return status == OL_OK ? ol_record_block_put_offset_key(block, key, error) : status;
    }
    ol_record_block_put_null(block, OL_COLUMN_TOPIC);
    ol_record_block_put_null(block, OL_COLUMN_PARTITION);
    if (record->value.size >= 2) {
        ol_record_block_put_int32(block, OL_COLUMN_VALUE_VERSION, ol_load_i16(record->value.data));
    }
    if (key->known) return ol_record_block_put_string(block, OL_COLUMN_GROUP, key->group, error);
    ol_record_block_put_null(block, OL_COLUMN_GROUP);
    (void)scan;
    return OL_OK;
}

static const char *kind_of(const ol_record_scan *scan, const ol_key *key) {
    const char *kind = key->known && key->type >= 0 && (size_t)key->type < scan->kind_count
                           ? scan->kinds[key->type]
                           : NULL;
    return kind != NULL ? kind : "unknown";
}

static int put_raw(ol_record_block *block, const ol_record *record, ol_error *error) {
    int status = ol_record_block_put_bytes(block, OL_COLUMN_KEY, record->key, error);
    if (status == OL_OK) {
        status = ol_record_block_put_bytes(block, OL_COLUMN_VALUE, record->value, error);
    }
    return status == OL_OK ? put_headers(block, record, error) : status;
}

static int end_record(const ol_record_scan *scan, ol_record_block *block, const ol_record *record,
                      const char *kind, int status, ol_error *error) {
    const ol_batch *batch = &scan->records.batch;
    if (status == OL_OK) status = put_raw(block, record, error);
    put_batch_numbers(scan, block, batch);
    if (status == OL_OK) status = put_batch_text(scan, block, batch, error);
    if (status == OL_OK) status = put_record(scan, block, record, kind, error);
    if (status == OL_OK) ol_record_block_end(block);
    return status;
}

static int report_record(ol_record_scan *scan, ol_record_block *block, const ol_record *record,
                         bool *refused, ol_error *error) {
    ol_key key;
    ol_offset_value value;
    bool has_value = false;
    int status = ol_key_decode(record->key, &key, error);
    if (status == OL_OK && !is_asked(scan, &key)) return OL_OK;
    if (status == OL_OK && is_position(&key) && record->value.data != NULL) {
        status = ol_offset_value_decode(record->value, key.type, &value, error);
        has_value = true;
    }
    *refused = status != OL_OK;
    if (status != OL_OK) return status;
    ol_record_block_put_null(block, OL_COLUMN_CONTROL_TYPE);
    status = put_decoded(scan, block, record, &key, has_value ? &value : NULL, error);
    return end_record(scan, block, record, kind_of(scan, &key), status, error);
}

static int report_marker(ol_record_scan *scan, ol_record_block *block, const ol_record *record,
                         bool *refused, ol_error *error) {
    static const char *const types[] = {[OL_CONTROL_ABORT] = "ABORT",
                                        [OL_CONTROL_COMMIT] = "COMMIT",
                                        [OL_CONTROL_OTHER] = "OTHER"};
    ol_control type;
    int32_t coordinator_epoch;
    if (asks_for_names(scan) || (scan->shard.count > 1 && scan->shard.number != 0)) return OL_OK;
    int status = ol_control_decode(record, &type, &coordinator_epoch, error);
    *refused = status != OL_OK;
    if (status != OL_OK) return status;
    ol_record_block_put_null(block, OL_COLUMN_GROUP);
    ol_record_block_put_null(block, OL_COLUMN_TOPIC);
    ol_record_block_put_null(block, OL_COLUMN_PARTITION);
    status = ol_record_block_put_offset_value(block, NULL, error);
    status = put_text(block, status, OL_COLUMN_CONTROL_TYPE, types[type], error);
    return end_record(scan, block, record, "marker", status, error);
}

/* -------------------------------------------------------------------------------------- batches */

static int report_batch(const ol_record_scan *scan, ol_record_block *block, const ol_batch *batch,
                        ol_error *error) {
    ol_error damage;
    put_batch_numbers(scan, block, batch);
    ol_record_block_put_boolean(block, OL_COLUMN_CONTROL,
                                batch->magic == 2 && ol_batch_is_control(batch));
    ol_record_block_put_int64(block, OL_COLUMN_BASE_TIMESTAMP, batch->base_timestamp);
    ol_record_block_put_int64(block, OL_COLUMN_MAX_TIMESTAMP, batch->max_timestamp);
    ol_record_block_put_int64(block, OL_COLUMN_CRC, batch->crc);
    if (batch->record_count >= 0) {
        ol_record_block_put_int32(block, OL_COLUMN_RECORD_COUNT, batch->record_count);
    } else {
        ol_record_block_put_null(block, OL_COLUMN_RECORD_COUNT);
    }
    if (block->arrays[OL_COLUMN_CRC_OK].wanted) {
        ol_record_block_put_boolean(block, OL_COLUMN_CRC_OK,
                                    ol_batch_check_crc(batch, &damage) == OL_OK);
    }
    int status = put_batch_text(scan, block, batch, error);
    if (status == OL_OK) ol_record_block_end(block);
    return status;
}

/* ------------------------------------------------------------------------------------- the walk */

/* Finds the outcome of the batch's transaction.  OL_WOULD_BLOCK: it is not known yet. */
static int find_outcome(ol_record_scan *scan, const ol_batch *batch) {
    scan->outcome = "plain";
    scan->marker_offset = -1;
    bool has_outcome = ol_batch_is_transactional(batch) && !ol_batch_is_control(batch) &&
                       batch->producer_id >= 0;
    if (!scan->wants_outcomes || !has_outcome) return OL_OK;
    if (scan->outcomes == NULL) return OL_WOULD_BLOCK;
    const ol_outcome_marker *marker = ol_transaction_outcomes_find(
        scan->outcomes, batch->producer_id, batch->base_offset);
    scan->outcome = "open";
    if (marker == NULL) return OL_OK;
    scan->outcome = marker->type == OL_CONTROL_COMMIT ? "committed" : "aborted";
    scan->marker_offset = marker->offset;
    return OL_OK;
}

/* `walk` is a copy with a cursor of its own. */
static int64_t first_offset(ol_records walk) {
    ol_record record;
    ol_error ignored;
    bool is_empty = ol_records_next(&walk, &record, &ignored) != OL_OK;
    return is_empty ? walk.batch.base_offset : record.offset;
}

/* If all rows of the batch fit the block, the walk that makes the rows also does the check. */
static int check_unless_it_fits(ol_record_scan *scan, const ol_record_block *block,
                                ol_error *error) {
    int32_t count = scan->records.batch.record_count;
    scan->first_row = block->count;
    scan->present_before = scan->present;
    scan->is_checked = count < 0 || (size_t)count > block->capacity - block->count;
    return scan->is_checked ? ol_records_check(&scan->records, error) : OL_OK;
}

/* Returns whether the rows of the open batch are made from many records at a time.  The batch must
 * not be compressed, must have enough records, and the offset bounds must exclude none of them. */
static bool takes_many(const ol_record_scan *scan, const ol_record_block *block) {
    const ol_batch *batch = &scan->records.batch;
    return scan->view == OL_VIEW_COMMITS && !scan->one_at_a_time && batch->magic == 2 &&
           (int64_t)batch->record_count * COLUMNS_PER_RECORD >= (int64_t)block->column_count &&
           !ol_batch_is_control(batch) && ol_batch_codec(batch) == OL_CODEC_NONE &&
           batch->base_offset >= scan->first && batch->base_offset >= scan->count_from &&
           batch->last_offset < scan->until;
}

static int open_batch(ol_record_scan *scan, const ol_record_block *block, const ol_batch *batch,
                      ol_error *error) {
    int status = ol_batch_check_crc(batch, error);
    if (status == OL_OK) status = ol_batch_check_follows(batch, scan->next_offset, error);
    if (status != OL_OK) return status;
    status = find_outcome(scan, batch);
    if (status == OL_OK) status = ol_records_open(&scan->records, batch, scan->decompressor, error);
    if (status != OL_OK) return status;
    status = check_unless_it_fits(scan, block, error);
    scan->is_open = status == OL_OK;
    scan->takes_many = scan->is_open && takes_many(scan, block);
    if (!scan->is_open) {
        ol_records_close(&scan->records);
    } else if (batch->record_count < 0) {
        /* The header of a wrapper names its last message only. */
        scan->base_offset = first_offset(scan->records);
    }
    return status;
}

static int report_any(ol_record_scan *scan, ol_record_block *block, const ol_record *record,
                      bool *refused, ol_error *error) {
    bool is_control = ol_batch_is_control(&scan->records.batch);
    int status;
    if (scan->view == OL_VIEW_COMMITS) {
        /* Markers have no rows in this view. */
        status = is_control ? OL_OK : report_commit(scan, block, record, refused, error);
    } else if (is_control) {
        status = report_marker(scan, block, record, refused, error);
    } else {
        status = report_record(scan, block, record, refused, error);
    }
    if (status == OL_OK) return OL_OK;
    ol_record_block_drop(block);
    if (status == OL_CORRUPT) *refused = true;
    error->offset = record->offset;
    error->position = scan->position;
    return status;
}

void ol_record_scan_close(ol_record_scan *scan) {
    if (scan->is_open) ol_records_close(&scan->records);
    scan->is_open = false;
}

static void take_back(ol_record_scan *scan, ol_record_block *block) {
    while (block->count > scan->first_row) {
        block->count--;
        ol_record_block_drop(block);
    }
    scan->present = scan->present_before;
    scan->next_offset = scan->next_before;
    scan->file_scan->position = scan->position;
    ol_record_scan_close(scan);
}

/* Called before rows of a batch that has records left are returned: checks the rest of the batch.
 * Damage drops the rows and takes precedence over `status`. */
static int check_rest(ol_record_scan *scan, ol_record_block *block, int status, bool *refused,
                      ol_error *error) {
    ol_error damage;
    if (scan->is_checked) return status;
    scan->is_checked = true;
    int found = ol_records_check(&scan->records, &damage);
    if (found == OL_OK) return status;
    *refused = false;
    *error = damage;
    take_back(scan, block);
    return found;
}

static bool is_asked_commit(const void *scan, const ol_usual_commit *commit) {
    ol_key key = {.type = OL_KEY_OFFSET_COMMIT,
                  .known = true,
                  .group = ol_usual_commit_group(commit),
                  .topic = ol_usual_commit_topic(commit),
                  .partition = ol_usual_commit_partition(commit)};
    return is_asked(scan, &key);
}

/* Puts records of the open batch while they have the usual form.  When that form ends, or their
 * rows do not fit, the following records are taken one at a time. */
static void report_many(ol_record_scan *scan, ol_record_block *block) {
    ol_usual_commits commits;
    ol_usual_rows rows = {.outcome = scan->outcome,
                          .marker_offset = scan->marker_offset,
                          .log_partition = scan->log_partition};
    ol_usual_filter *filter =
        asks_for_names(scan) || scan->shard.count > 1 ? is_asked_commit : NULL;
    ol_error ignored;
    while (scan->takes_many && block->count < block->capacity) {
        ol_usual_commits_read(&commits, &scan->records, block->capacity - block->count, filter,
                              scan);
        if (commits.read_count == 0) return;
        if (commits.count > 0) {
            scan->takes_many = ol_usual_commits_put(&commits, &scan->records.batch, &rows, block,
                                                    &ignored) == OL_OK;
            if (!scan->takes_many) return;
        }
        ol_usual_commits_pass(&commits, &scan->records);
        scan->present += commits.read_count;
    }
}

/* Puts records of the open batch until the block is full (OL_OK) or the batch ends (OL_END). */
static int report_records(ol_record_scan *scan, ol_record_block *block, bool *refused,
                          ol_error *error) {
    ol_record record;
    for (;;) {
        report_many(scan, block);
        if (block->count == block->capacity) break;
        const uint8_t *cursor = scan->records.cursor;
        int64_t previous_offset = scan->records.previous_offset;
        int32_t remaining = scan->records.remaining;
        int status = ol_records_next(&scan->records, &record, error);
        if (OL_UNLIKELY(status != OL_OK)) {
            if (status != OL_END) take_back(scan, block);
            return status;
        }
        if (record.offset < scan->first || record.offset >= scan->until) continue;
        status = report_any(scan, block, &record, refused, error);
        if (status == OL_LIMIT && block->count > 0) {
            /* These bytes do not fit the block: the record becomes the first of the next block. */
            scan->records.cursor = cursor;
            scan->records.previous_offset = previous_offset;
            scan->records.remaining = remaining;
            break;
        }
        if (record.offset >= scan->count_from) scan->present++;
        if (status != OL_OK) return check_rest(scan, block, status, refused, error);
    }
    return check_rest(scan, block, OL_OK, refused, error);
}

/* Returns whether the walk has reached `first`; batches that end below it do not matter. */
static bool is_entered(const ol_record_scan *scan) {
    return scan->next_offset >= scan->first;
}

/* A batch with a lower base offset than the one before it is still after it in the file.  It may
 * hold wanted records unless the next batch begins at or below `first`. */
static int judge_order(ol_record_scan *scan, ol_batch *batch, ol_error *error) {
    if (OL_LIKELY(batch->base_offset >= scan->next_offset)) return OL_OK;
    bool concerns = is_entered(scan);
    if (!concerns) {
        int64_t successor = 0;
        bool found = false;
        int status = ol_file_scan_follower(scan->file_scan, batch, &successor, &found, error);
        if (status != OL_OK) return status;
        concerns = !found || successor < scan->next_offset || successor > scan->first;
    }
    if (!concerns) return OL_OK;
    int status = ol_batch_check_crc(batch, error);
    return status == OL_OK ? ol_batch_check_follows(batch, scan->next_offset, error) : status;
}

/* No CRC covers the base offset, and a wrong one could end the scan or make it skip the batch.
 * OL_END: *batch and everything that follows are at or above `until`. */
static int judge(ol_record_scan *scan, ol_batch *batch, ol_error *error) {
    ol_batch_bounds bounds = {.next_offset = scan->next_offset,
                              .limit = scan->segment_limit > 0 ? scan->segment_limit : INT64_MAX,
                              .segment_base = scan->segment_base};
    bool fits = ol_file_scan_fits(scan->file_scan, batch, &bounds);
    int status = OL_LIKELY(fits) ? OL_OK
                                 : ol_file_scan_judge(scan->file_scan, batch, &bounds, error);
    if (status != OL_OK) return status;
    bool is_after = ol_batch_is_after(batch, scan->next_offset, scan->until);
    if (is_after) return OL_END;
    return OL_LIKELY(fits) ? OL_OK : judge_order(scan, batch, error);
}

static int next_batch(ol_record_scan *scan, ol_record_block *block, ol_error *error) {
    ol_batch batch;
    int64_t position = scan->file_scan->position;
    int status = ol_file_scan_next(scan->file_scan, &batch, error);
    if (status != OL_OK) return status;
    scan->position = position;
    scan->base_offset = batch.base_offset;
    status = judge(scan, &batch, error);
    /* A row of a batch shows its offsets as they are. */
    bool is_misplaced = status == OL_CORRUPT && scan->view == OL_VIEW_BATCHES;
    if (is_misplaced) {
        status = report_batch(scan, block, &batch, error);
    } else if (status == OL_OK && (batch.last_offset >= scan->first || is_entered(scan))) {
        status = scan->view == OL_VIEW_BATCHES ? report_batch(scan, block, &batch, error)
                                               : open_batch(scan, block, &batch, error);
    }
    if (status == OL_OK && !is_misplaced) {
        scan->next_before = scan->next_offset;
        scan->next_offset = ol_batch_next_offset(&batch);
    } else if (status != OL_OK) {
        scan->file_scan->position = position;
    }
    return status;
}

int ol_record_scan_fill(ol_record_scan *scan, ol_record_block *block, bool *refused,
                        ol_error *error) {
    *refused = false;
    /* The strings may not have fit the previous block. */
    if (scan->is_open && block->count == 0) scan->takes_many = takes_many(scan, block);
    while (block->count < block->capacity) {
        int status = OL_OK;
        if (scan->is_open) {
            status = report_records(scan, block, refused, error);
            if (status == OL_OK) return OL_OK;
            if (status == OL_END) {
                ol_record_scan_close(scan);
                status = OL_OK;
            }
        } else {
            status = next_batch(scan, block, error);
        }
        if (status != OL_OK) return status;
    }
    return OL_OK;
}
