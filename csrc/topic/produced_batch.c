/* Checks the header first, and then the records.  Compressed records are checked only if they must
 * have keys. */
#include "topic/produced_batch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "format/batch_write.h"

/* A record that is not compressed: length, attributes, two deltas, two lengths, header count. */
enum { RECORD_BYTES_MIN = 7 };

/* One check: its rules, and where its verdict is stored. */
typedef struct check {
    const ol_produce_rules *rules;
    ol_produced_batch *produced;
    ol_error *error;
} check;

static int refuse(check *work, ol_produce_refusal refusal, int32_t record, const char *format, ...)
    OL_PRINTF(4, 5);

static int refuse(check *work, ol_produce_refusal refusal, int32_t record, const char *format,
                  ...) {
    char reason[OL_ERROR_REASON_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    work->produced->refusal = refusal;
    work->produced->refused_record = record;
    return ol_fail(work->error, OL_CORRUPT, "%s", reason);
}

/* Parses the bytes, which must be one batch. */
static int parse_sole(check *work, ol_slice bytes) {
    ol_batch *batch = &work->produced->batch;
    ol_error cause;
    if (bytes.size < OL_BATCH_MAGIC_END) {
        return refuse(work, OL_PRODUCE_NOT_ONE_BATCH, -1, "%zu bytes do not contain a batch",
                      bytes.size);
    }
    int8_t magic = (int8_t)bytes.data[OL_BATCH_AT_MAGIC];
    if (magic != 2) {
        return refuse(work, OL_PRODUCE_NOT_ONE_BATCH, -1,
                      "the batch has magic %d; only 2 is accepted", magic);
    }
    int status = ol_batch_parse(bytes.data, bytes.size, batch, &cause);
    if (status == OL_UNSUPPORTED) {
        return refuse(work, OL_PRODUCE_UNSUPPORTED_COMPRESSION, -1, "%s", cause.reason);
    }
    if (status == OL_TORN) {
        return refuse(work, OL_PRODUCE_NOT_ONE_BATCH, -1, "%s", cause.reason);
    }
    if (status != OL_OK) {
        return refuse(work, OL_PRODUCE_CORRUPT_MESSAGE, -1, "%s", cause.reason);
    }
    if (batch->size != bytes.size) {
        return refuse(work, OL_PRODUCE_NOT_ONE_BATCH, -1,
                      "%zu bytes follow the first batch; a partition accepts one batch per request",
                      bytes.size - batch->size);
    }
    return OL_OK;
}

static int check_header(check *work) {
    const ol_batch *batch = &work->produced->batch;
    const ol_produce_rules *rules = work->rules;
    ol_error cause;
    if (batch->base_offset != 0) {
        return refuse(work, OL_PRODUCE_INVALID_RECORD, -1,
                      "the base offset must be 0, not %" PRId64, batch->base_offset);
    }
    if (batch->size > rules->batch_bytes_max) {
        return refuse(work, OL_PRODUCE_MESSAGE_TOO_LARGE, -1,
                      "the batch has %zu bytes, but max.message.bytes is %zu",
                      batch->size, rules->batch_bytes_max);
    }
    if (ol_batch_check_crc(batch, &cause) != OL_OK) {
        return refuse(work, OL_PRODUCE_CORRUPT_MESSAGE, -1, "%s", cause.reason);
    }
    if (ol_batch_is_control(batch)) {
        return refuse(work, OL_PRODUCE_INVALID_RECORD, -1, "a client cannot send markers");
    }
    if (ol_batch_codec(batch) == OL_CODEC_ZSTD && !rules->takes_zstd) {
        return refuse(work, OL_PRODUCE_UNSUPPORTED_COMPRESSION, -1,
                      "zstd requires version 7 of Produce or later");
    }
    int64_t count = batch->last_offset - batch->base_offset + 1;
    if (batch->record_count <= 0 || count != batch->record_count) {
        return refuse(work, OL_PRODUCE_INVALID_RECORD, -1,
                      "the batch has %" PRId64 " offsets for %d records", count,
                      batch->record_count);
    }
    return OL_OK;
}

static int check_producer(check *work) {
    const ol_batch *batch = &work->produced->batch;
    if (ol_batch_is_transactional(batch)) {
        return refuse(work, OL_PRODUCE_INVALID_TXN_STATE, -1,
                      "transactions on ordinary topics are not supported");
    }
    if (batch->producer_id >= 0 && (batch->base_sequence < 0 || batch->producer_epoch < 0)) {
        return refuse(work, OL_PRODUCE_INVALID_RECORD, -1,
                      "producer %" PRId64 " sent epoch %d and sequence %d: neither may be negative",
                      batch->producer_id, batch->producer_epoch, batch->base_sequence);
    }
    return OL_OK;
}

static int check_timestamp(check *work, int64_t timestamp, int32_t record) {
    const ol_produce_rules *rules = work->rules;
    if (rules->log_append_time >= 0 || timestamp < 0) return OL_OK;
    if (timestamp >= rules->timestamp_min && timestamp <= rules->timestamp_max) return OL_OK;
    return refuse(work, OL_PRODUCE_INVALID_TIMESTAMP, record,
                  "timestamp %" PRId64 " is not within %" PRId64 " and %" PRId64, timestamp,
                  rules->timestamp_min, rules->timestamp_max);
}

static int check_record(check *work, const ol_record *record, int64_t expected) {
    int32_t index = (int32_t)expected;
    if (record->offset != expected) {
        return refuse(work, OL_PRODUCE_INVALID_RECORD, index,
                      "the record has offset %" PRId64 " in its batch, but %" PRId64 " is expected",
                      record->offset, expected);
    }
    if (work->rules->needs_keys && record->key.data == NULL) {
        return refuse(work, OL_PRODUCE_INVALID_RECORD, index,
                      "the topic is compacted, but the record has no key");
    }
    if (record->timestamp > work->produced->max_timestamp) {
        work->produced->max_timestamp = record->timestamp;
    }
    return check_timestamp(work, record->timestamp, index);
}

static int refuse_unreadable(check *work, const ol_error *cause) {
    return refuse(work, OL_PRODUCE_INVALID_RECORD, -1, "%s", cause->reason);
}

static int check_count(check *work) {
    const ol_batch *batch = &work->produced->batch;
    size_t count_max = (batch->size - OL_BATCH_OVERHEAD) / RECORD_BYTES_MIN;
    if ((size_t)batch->record_count > count_max) {
        return refuse(work, OL_PRODUCE_INVALID_RECORD, -1,
                      "the batch claims %d records, but its %zu bytes can hold at most %zu records",
                      batch->record_count, batch->size, count_max);
    }
    return OL_OK;
}

static int check_records(check *work) {
    ol_records records;
    ol_record record;
    ol_error cause;
    int status = ol_records_open(&records, &work->produced->batch, work->rules->decompressor,
                                 &cause);
    if (status == OL_NO_MEMORY) {
        *work->error = cause;
        return status;
    }
    if (status != OL_OK) return refuse_unreadable(work, &cause);
    work->produced->max_timestamp = -1;
    for (int64_t expected = 0;; expected++) {
        status = ol_records_next(&records, &record, &cause);
        if (status != OL_OK) break;
        status = check_record(work, &record, expected);
        if (status != OL_OK) {
            ol_records_close(&records);
            return status;
        }
    }
    ol_records_close(&records);
    return status == OL_END ? OL_OK : refuse_unreadable(work, &cause);
}

int ol_produced_batch_check(ol_slice bytes, const ol_produce_rules *rules,
                            ol_produced_batch *produced, ol_error *error) {
    check work = {.rules = rules, .produced = produced, .error = error};
    *produced = (ol_produced_batch){.refusal = OL_PRODUCE_ACCEPTED, .refused_record = -1};
    int status = parse_sole(&work, bytes);
    if (status == OL_OK) status = check_header(&work);
    if (status == OL_OK) status = check_producer(&work);
    if (status != OL_OK) return status;
    bool is_plain = ol_batch_codec(&produced->batch) == OL_CODEC_NONE;
    if (is_plain) status = check_count(&work);
    if (status != OL_OK) return status;
    if (is_plain || (rules->needs_keys && rules->decompressor != NULL)) {
        return check_records(&work);
    }
    produced->max_timestamp = produced->batch.max_timestamp;
    return check_timestamp(&work, produced->max_timestamp, -1);
}

static void set_time(uint8_t *start, size_t size, int16_t attributes, int64_t max_timestamp) {
    ol_store_i16(start + OL_BATCH_AT_ATTRIBUTES, attributes);
    ol_store_i64(start + OL_BATCH_AT_MAX_TIMESTAMP, max_timestamp);
    uint32_t crc = ol_crc32c(start + OL_BATCH_AT_ATTRIBUTES, size - OL_BATCH_AT_ATTRIBUTES);
    ol_store_u32(start + OL_BATCH_AT_CRC, crc);
}

size_t ol_produced_batch_refused(const ol_produced_batch *produced, const ol_produce_rules *rules,
                                 int32_t *indexes, size_t capacity) {
    ol_error ignored;
    ol_produced_batch again = *produced;
    check work = {.rules = rules, .produced = &again, .error = &ignored};
    ol_records records;
    ol_record record;
    size_t count = 0;
    if (ol_records_open(&records, &produced->batch, rules->decompressor, &ignored) != OL_OK) {
        return 0;
    }
    for (int64_t expected = 0; count < capacity; expected++) {
        if (ol_records_next(&records, &record, &ignored) != OL_OK) break;
        if (check_record(&work, &record, expected) != OL_OK) indexes[count++] = (int32_t)expected;
    }
    ol_records_close(&records);
    return count;
}

void ol_produced_batch_put(uint8_t *start, const ol_produced_batch *produced, int64_t base_offset,
                           int32_t leader_epoch, int64_t log_append_time) {
    const ol_batch *batch = &produced->batch;
    bool replaces_time = log_append_time >= 0;
    int64_t max_timestamp = replaces_time ? log_append_time : produced->max_timestamp;
    int16_t attributes = (int16_t)(batch->attributes & ~OL_ATTRIBUTE_LOG_APPEND_TIME);
    if (replaces_time) attributes |= OL_ATTRIBUTE_LOG_APPEND_TIME;
    memcpy(start + OL_BATCH_LOG_OVERHEAD, batch->data + OL_BATCH_LOG_OVERHEAD,
           batch->size - OL_BATCH_LOG_OVERHEAD);
    ol_batch_assign(start, base_offset, leader_epoch);
    if (attributes != batch->attributes || max_timestamp != batch->max_timestamp) {
        set_time(start, batch->size, attributes, max_timestamp);
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    ol_store_i32(start + OL_BATCH_AT_LENGTH, (int32_t)(batch->size - OL_BATCH_LOG_OVERHEAD));
}
