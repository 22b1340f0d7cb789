/* format/message_set.c: single messages, and the walk over a wrapper's inner messages. */
#include "format/message_set.h"

#include <inttypes.h>

#include "base/bytes.h"

int ol_message_parse(const uint8_t *data, size_t size, ol_batch *batch, ol_error *error) {
    int8_t magic = (int8_t)data[OL_BATCH_AT_MAGIC];
    OL_ASSERT(magic == 0 || magic == 1);
    OL_ASSERT(size >= (size_t)ol_message_least_length(magic) + OL_BATCH_LOG_OVERHEAD);
    *batch = (ol_batch){
        .data = data,
        .size = size,
        .base_offset = ol_load_i64(data),
        .base_timestamp = magic == 1 ? ol_load_i64(data + OL_MESSAGE_AT_TIMESTAMP) : -1,
        .producer_id = -1,
        .leader_epoch = -1,
        .base_sequence = -1,
        .record_count = 1,
        .crc = ol_load_u32(data + OL_MESSAGE_AT_CRC),
        .producer_epoch = -1,
        /* The other bits mean nothing here, and must not read as those of magic 2. */
        .attributes = (int16_t)(data[OL_MESSAGE_AT_ATTRIBUTES] &
                                (magic == 1 ? OL_ATTRIBUTE_CODEC | OL_ATTRIBUTE_LOG_APPEND_TIME
                                            : OL_ATTRIBUTE_CODEC)),
        .magic = magic,
    };
    batch->last_offset = batch->base_offset;
    batch->max_timestamp = batch->base_timestamp;
    if (batch->base_offset < 0) {
        ol_fail(error, OL_CORRUPT, "the offset of a message is negative (%" PRId64 ")",
                batch->base_offset);
        return ol_error_at(error, NULL, 0);
    }
    int codec = ol_batch_codec(batch);
    if (codec > OL_CODEC_LZ4) {
        ol_fail(error, OL_UNSUPPORTED, "a message of magic %d cannot have codec %d",
                magic, codec);
        return ol_error_at(error, NULL, OL_MESSAGE_AT_ATTRIBUTES);
    }
    if (codec != OL_CODEC_NONE) batch->record_count = -1;
    return OL_OK;
}

/* Reads an i32 length and as many bytes; -1 is null.  Returns the position after them, or NULL. */
static const uint8_t *read_bytes(const uint8_t *p, const uint8_t *limit, ol_slice *slice) {
    if (limit - p < 4) return NULL;
    int32_t size = ol_load_i32(p);
    p += 4;
    if (size < 0) {
        *slice = ol_slice_null();
        return size == -1 ? p : NULL;
    }
    if (limit - p < size) return NULL;
    *slice = ol_slice_of(p, (size_t)size);
    return p + size;
}

int ol_message_record(const ol_batch *message, ol_record *record, ol_error *error) {
    const uint8_t *limit = message->data + message->size;
    const uint8_t *p = message->data + (message->magic == 0 ? OL_MESSAGE_AT_BODY_MAGIC_0
                                                            : OL_MESSAGE_AT_BODY_MAGIC_1);
    record->offset = message->base_offset;
    record->timestamp = message->base_timestamp;
    record->headers = ol_slice_of(limit, 0);
    record->header_count = 0;
    record->attributes = (int8_t)message->attributes;
    record->magic = message->magic;
    p = read_bytes(p, limit, &record->key);
    if (p != NULL) p = read_bytes(p, limit, &record->value);
    if (p == limit) return OL_OK;
    ol_fail(error, OL_CORRUPT,
            "key and value of the message at offset %" PRId64 " do not fill it exactly",
            message->base_offset);
    error->offset = message->base_offset;
    return ol_error_at(error, NULL, 0);
}

/* ------------------------------------------------------------------------------------- wrappers */

static int refuse_inner(const ol_records *records, ol_error *error, const char *reason,
                        int64_t inner_offset) {
    if (inner_offset < 0) {
        ol_fail(error, OL_CORRUPT, "inside the compressed message at offset %" PRId64 ": %s",
                records->batch.base_offset, reason);
    } else {
        ol_fail(error, OL_CORRUPT,
                "inside the compressed message at offset %" PRId64 ": %s (inner offset %" PRId64
                ")",
                records->batch.base_offset, reason, inner_offset);
    }
    error->offset = records->batch.base_offset;
    return OL_CORRUPT;
}

static int next_inner(const ol_records *records, const uint8_t *p, ol_batch *inner,
                      ol_error *error) {
    int status = ol_batch_parse(p, (size_t)(records->limit - p), inner, error);
    if (status == OL_TORN) return refuse_inner(records, error, "the last message is truncated", -1);
    if (status != OL_OK) {
        error->position = -1;   /* a position in the inflated block says nothing about the file */
        return status;
    }
    if (inner->magic > 1) {
        return refuse_inner(records, error, "a message has magic 2", inner->base_offset);
    }
    if (ol_batch_codec(inner) != OL_CODEC_NONE) {
        return refuse_inner(records, error, "a message is itself compressed",
                            inner->base_offset);
    }
    return OL_OK;
}

/* Inner offsets of magic 1 are relative to a base, which only the last message reveals, because its
 * absolute offset is the wrapper's; compaction leaves gaps between them (docs/format/brokers.md
 * §15.2).  Inner offsets of magic 0 are absolute. */
static int find_base(ol_records *records, ol_error *error) {
    int64_t last = -1;
    ol_batch inner;
    for (const uint8_t *p = records->cursor; p != records->limit; p += inner.size) {
        int status = next_inner(records, p, &inner, error);
        if (status != OL_OK) return status;
        if (inner.base_offset <= last) {
            return refuse_inner(records, error, "the offsets do not grow", inner.base_offset);
        }
        last = inner.base_offset;
    }
    if (last < 0) return refuse_inner(records, error, "there is no message", -1);
    if (last > records->batch.last_offset) {
        return refuse_inner(records, error,
                            "an inner offset is above the compressed message's offset", last);
    }
    records->base = records->batch.magic == 1 ? records->batch.last_offset - last : 0;
    return OL_OK;
}

int ol_messages_open(ol_records *records, ol_error *error) {
    const ol_batch *batch = &records->batch;
    records->base = 0;
    records->previous_offset = -1;
    records->cursor = batch->data;
    records->limit = batch->data + batch->size;
    records->remaining = 1;
    ol_codec codec = ol_batch_codec(batch);
    if (codec == OL_CODEC_NONE) return OL_OK;
    ol_record wrapper;
    int status = ol_message_record(batch, &wrapper, error);
    if (status != OL_OK) return status;
    if (wrapper.value.data == NULL) return refuse_inner(records, error, "the value is null", -1);
    const ol_decompressor *port = records->decompressor;
    if (port == NULL) {
        return ol_fail(error, OL_UNSUPPORTED,
                       "the message is compressed, and there is no decompressor");
    }
    ol_slice output = ol_slice_null();
    status = port->decompress(port->context, codec, batch->magic, wrapper.value, port->limit,
                              &output, error);
    if (status != OL_OK) return status;
    OL_ASSERT(output.size <= port->limit);
    records->inflated = output;
    records->cursor = output.data;
    records->limit = output.data + output.size;
    records->remaining = -1;
    status = find_base(records, error);
    if (status != OL_OK) ol_records_close(records);
    return status;
}

int ol_messages_next(ol_records *records, ol_record *record, ol_error *error) {
    if (records->cursor == records->limit) return OL_END;
    if (records->remaining == 1) {
        records->cursor = records->limit;
        return ol_message_record(&records->batch, record, error);
    }
    ol_batch inner;
    int status = next_inner(records, records->cursor, &inner, error);
    if (status == OL_OK) status = ol_batch_check_crc(&inner, error);
    if (status == OL_OK) status = ol_message_record(&inner, record, error);
    if (status != OL_OK) {
        error->position = -1;   /* a position in the inflated block says nothing about the file */
        return status;
    }
    records->cursor += inner.size;
    record->offset += records->base;
    if (records->batch.attributes & OL_ATTRIBUTE_LOG_APPEND_TIME) {
        record->timestamp = records->batch.max_timestamp;
    }
    OL_ASSERT(record->offset > records->previous_offset &&
              record->offset <= records->batch.last_offset);
    records->previous_offset = record->offset;
    return OL_OK;
}
