/* format/records.c: the walk over the records of a batch of any magic and codec.
 *
 * The rules are in docs/format/batches.md §2.2, §2.3 and §2.6.
 */
#include <inttypes.h>

#include "format/batch.h"
#include "base/bytes.h"
#include "format/message_set.h"

enum {
    HEADER_SIZE_LEAST = 2,      /* an empty key and a null value */
};

static OL_NOINLINE int refuse(const ol_records *records, const uint8_t *p, ol_error *error,
                              const char *reason, int64_t value) {
    const ol_batch *batch = &records->batch;
    ol_fail(error, OL_CORRUPT, "in the batch at offset %" PRId64 ": %s (%" PRId64 ")",
            batch->base_offset, reason, value);
    error->offset = batch->base_offset;
    /* A position in an inflated block says nothing about the file. */
    return ol_error_at(error, NULL, records->inflated.data == NULL ? p - batch->data : -1);
}

/* Nearly every varint of a commit has one byte; longer ones are read out of line. */
static OL_NOINLINE const uint8_t *read_long_varint(const uint8_t *p, const uint8_t *limit,
                                                   int32_t *v) {
    return ol_read_varint(p, limit, v);
}
static inline const uint8_t *read_varint(const uint8_t *p, const uint8_t *limit, int32_t *v) {
    if (OL_LIKELY(p != limit && *p < 0x80)) {
        *v = ol_unzigzag32(*p);
        return p + 1;
    }
    return read_long_varint(p, limit, v);
}

/* Two bytes cover every record up to 8 KiB, every size from 64 on, and the offsets of batches up to
 * 8,192 records. */
static inline const uint8_t *read_size(const uint8_t *p, const uint8_t *limit, int32_t *v) {
    if (OL_LIKELY(limit - p >= 2)) {
        uint32_t first = p[0], second = p[1];
        if (first < 0x80) {
            *v = ol_unzigzag32(first);
            return p + 1;
        }
        if (OL_LIKELY(second < 0x80)) {
            *v = ol_unzigzag32((first & 0x7f) | second << 7);
            return p + 2;
        }
    }
    return read_long_varint(p, limit, v);
}

/* Reads a size and as many bytes; -1 is null.  Returns the position after them, or NULL. */
static inline const uint8_t *read_slice(const uint8_t *p, const uint8_t *limit, ol_slice *slice) {
    int32_t size;
    p = read_size(p, limit, &size);
    if (OL_UNLIKELY(p == NULL)) return NULL;
    if (OL_UNLIKELY(size < 0)) {
        *slice = ol_slice_null();
        return size == -1 ? p : NULL;
    }
    if (OL_UNLIKELY(limit - p < size)) return NULL;
    *slice = ol_slice_of(p, (size_t)size);
    return p + size;
}

static int inflate(ol_records *records, ol_error *error) {
    const ol_batch *batch = &records->batch;
    const ol_decompressor *port = records->decompressor;
    if (port == NULL) {
        return ol_fail(error, OL_UNSUPPORTED,
                       "the batch is compressed, and there is no decompressor");
    }
    ol_slice block = ol_slice_of(batch->data + OL_BATCH_AT_RECORDS,
                                 batch->size - OL_BATCH_OVERHEAD);
    ol_slice output = ol_slice_null();
    int status = port->decompress(port->context, ol_batch_codec(batch), 2, block, port->limit,
                                  &output, error);
    if (status != OL_OK) return status;
    OL_ASSERT(output.size <= port->limit);
    records->inflated = output;
    records->cursor = output.data;
    records->limit = output.data + output.size;
    return OL_OK;
}

int ol_records_open(ol_records *records, const ol_batch *batch, const ol_decompressor *decompressor,
                    ol_error *error) {
    records->batch = *batch;
    records->decompressor = decompressor;
    records->inflated = ol_slice_null();
    if (OL_UNLIKELY(batch->magic < 2)) return ol_messages_open(records, error);
    records->base = batch->base_offset;
    records->previous_offset = batch->base_offset - 1;
    records->remaining = batch->record_count;
    records->cursor = batch->data + OL_BATCH_AT_RECORDS;
    records->limit = batch->data + batch->size;
    if (OL_LIKELY(ol_batch_codec(batch) == OL_CODEC_NONE)) return OL_OK;
    if (batch->record_count == 0) {
        /* A batch without records has no block: any bytes there were not written as one. */
        records->limit = records->cursor;
        return OL_OK;
    }
    return inflate(records, error);
}

int ol_records_check(const ol_records *records, ol_error *error) {
    ol_records walk = *records;     /* the same bytes, with a cursor of its own */
    ol_record record;
    int status;
    while ((status = ol_records_next(&walk, &record, error)) == OL_OK) continue;
    return status == OL_END ? OL_OK : status;
}

void ol_records_close(ol_records *records) {
    if (OL_UNLIKELY(records->inflated.data != NULL)) {
        records->decompressor->release(records->decompressor->context, records->inflated);
        records->inflated = ol_slice_null();
    }
    records->cursor = records->limit = NULL;
    records->remaining = 0;
}

int ol_record_header_next(const uint8_t **cursor, const uint8_t *limit, ol_slice *key,
                          ol_slice *value, ol_error *error) {
    const uint8_t *p = *cursor;
    if (p == limit) return OL_END;
    p = read_slice(p, limit, key);
    if (p == NULL || key->data == NULL) {
        return ol_fail(error, OL_CORRUPT, "the key of a record header is truncated or null");
    }
    p = read_slice(p, limit, value);
    if (p == NULL) return ol_fail(error, OL_CORRUPT, "the value of a record header is truncated");
    *cursor = p;
    return OL_OK;
}

static OL_NOINLINE int check_headers(const ol_records *records, const uint8_t *p,
                                     const uint8_t *end, int32_t count, ol_error *error) {
    if (count < 0 || count > (end - p) / HEADER_SIZE_LEAST) {
        return refuse(records, p, error, "the count of headers is wrong", count);
    }
    for (int32_t i = 0; i < count; i++) {
        ol_slice key, value;
        const uint8_t *start = p;
        /* OL_END is returned when the bytes end before the count is reached. */
        if (ol_record_header_next(&p, end, &key, &value, error) != OL_OK) {
            return refuse(records, start, error,
                          "a header of a record is truncated or has a null key", i);
        }
    }
    if (p != end) {
        return refuse(records, p, error, "bytes are left after the fields of a record", end - p);
    }
    return OL_OK;
}

static OL_NOINLINE int end_of_records(const ol_records *records, ol_error *error) {
    if (records->cursor == records->limit) return OL_END;
    return refuse(records, records->cursor, error, "bytes are left after the last record",
                  records->limit - records->cursor);
}

int ol_records_next(ol_records *records, ol_record *record, ol_error *error) {
    const ol_batch *batch = &records->batch;
    if (OL_UNLIKELY(batch->magic < 2)) return ol_messages_next(records, record, error);
    if (records->remaining == 0) return end_of_records(records, error);
    const uint8_t *start = records->cursor, *p = start;
    int32_t length, offset_delta, header_count;
    int64_t timestamp_delta;
    p = read_size(p, records->limit, &length);
    if (OL_UNLIKELY(p == NULL || length < 1 || length > records->limit - p)) {
        return refuse(records, start, error, "a record extends beyond the end of the batch",
                      p == NULL ? -1 : length);
    }
    const uint8_t *end = p + length;
    record->attributes = (int8_t)*p++;
    record->magic = 2;
    if (OL_LIKELY(p != end && *p < 0x80)) {
        timestamp_delta = ol_unzigzag64(*p++);
    } else {
        p = ol_read_varlong(p, end, &timestamp_delta);
        if (OL_UNLIKELY(p == NULL)) {
            return refuse(records, start, error, "the timestamp of a record is truncated", length);
        }
    }
    p = read_size(p, end, &offset_delta);
    if (OL_UNLIKELY(p == NULL)) {
        return refuse(records, start, error, "the offset of a record is truncated", length);
    }
    if (OL_UNLIKELY(offset_delta < 0 || offset_delta > batch->last_offset - records->base ||
                    records->base + offset_delta <= records->previous_offset)) {
        return refuse(records, start, error,
                      "a record's offset is outside the batch, or not above the previous record's",
                      offset_delta);
    }
    p = read_slice(p, end, &record->key);
    if (OL_UNLIKELY(p == NULL)) {
        return refuse(records, start, error, "a key extends beyond the end of its record", length);
    }
    p = read_slice(p, end, &record->value);
    if (OL_UNLIKELY(p == NULL)) {
        return refuse(records, start, error,
                      "a value extends beyond the end of its record", length);
    }
    p = read_varint(p, end, &header_count);
    if (OL_UNLIKELY(p == NULL)) {
        return refuse(records, start, error, "the count of headers is truncated", length);
    }
    if (OL_UNLIKELY(header_count != 0 || p != end)) {
        int status = check_headers(records, p, end, header_count, error);
        if (status != OL_OK) return status;
    }
    record->header_count = header_count;
    record->headers = ol_slice_of(p, (size_t)(end - p));
    record->offset = records->previous_offset = records->base + offset_delta;
    /* The file can hold any two numbers; their sum wraps as Java's does. */
    record->timestamp = OL_UNLIKELY(batch->attributes & OL_ATTRIBUTE_LOG_APPEND_TIME)
                            ? batch->max_timestamp
                            : (int64_t)((uint64_t)batch->base_timestamp +
                                        (uint64_t)timestamp_delta);
    records->cursor = end;
    records->remaining--;
    return OL_OK;
}

bool ol_records_sole(const ol_batch *batch, ol_record *record) {
    if (batch->magic != 2 || batch->record_count != 1 || ol_batch_codec(batch) != OL_CODEC_NONE) {
        return false;
    }
    const uint8_t *p = batch->data + OL_BATCH_AT_RECORDS, *end = batch->data + batch->size;
    int32_t length, header_count;
    p = read_size(p, end, &length);
    /* The record has attributes, the two deltas of one byte each, and at least one byte for the
     * key's size. */
    if (p == NULL || length != end - p || length < 4 || p[1] >= 0x80 || p[2] != 0) return false;
    record->attributes = (int8_t)p[0];
    record->timestamp = batch->attributes & OL_ATTRIBUTE_LOG_APPEND_TIME
                            ? batch->max_timestamp
                            : (int64_t)((uint64_t)batch->base_timestamp +
                                        (uint64_t)ol_unzigzag64(p[1]));
    p = read_slice(p + 3, end, &record->key);
    if (p != NULL) p = read_slice(p, end, &record->value);
    if (p != NULL) p = read_varint(p, end, &header_count);
    if (p != end || header_count != 0) return false;
    record->header_count = 0;
    record->headers = ol_slice_of(p, 0);
    record->magic = 2;
    record->offset = batch->base_offset;
    return true;
}

int ol_control_decode(const ol_record *record, ol_control *type, int32_t *coordinator_epoch,
                      ol_error *error) {
    if (record->key.data == NULL || record->key.size < 4) {
        return ol_fail(error, OL_CORRUPT, "the key of a control record is truncated");
    }
    if (ol_load_i16(record->key.data) < 0) {
        return ol_fail(error, OL_CORRUPT, "the version of a control record's key is negative");
    }
    int16_t number = ol_load_i16(record->key.data + 2);
    *type = OL_CONTROL_OTHER;
    *coordinator_epoch = -1;
    if (number != OL_CONTROL_ABORT && number != OL_CONTROL_COMMIT) return OL_OK;
    if (record->value.data == NULL || record->value.size < 6) {
        return ol_fail(error, OL_CORRUPT, "the value of an end-of-transaction marker is truncated");
    }
    if (ol_load_i16(record->value.data) < 0) {
        return ol_fail(error, OL_CORRUPT,
                       "the version of an end-of-transaction marker is negative");
    }
    *type = (ol_control)number;
    *coordinator_epoch = ol_load_i32(record->value.data + 2);
    return OL_OK;
}
