/* format/batch.c: the header of a batch, and its checksum. */
#include "format/batch.h"

#include <inttypes.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "format/message_set.h"

/* Failures are out of line, so that the path of a valid batch stays short. */
static OL_NOINLINE int refuse(ol_error *error, int status, int64_t position, const char *reason,
                              int64_t value) {
    ol_fail(error, status, "%s (%" PRId64 ")", reason, value);
    return ol_error_at(error, NULL, position);
}

static OL_NOINLINE int torn(ol_batch *batch, size_t needed, size_t size, ol_error *error) {
    batch->size = needed;
    ol_fail(error, OL_TORN, "a batch needs %zu bytes, but only %zu are left",
            needed ? needed : (size_t)OL_BATCH_MAGIC_END, size);
    return ol_error_at(error, NULL, 0);
}

/* Handles the remaining cases: fewer bytes than a header of magic 2, or another magic.  The length
 * is judged before the end of the bytes, because a wrong length is no reason to wait for more. */
static OL_NOINLINE int parse_rest(const uint8_t *data, size_t size, ol_batch *batch,
                                  ol_error *error) {
    if (size < OL_BATCH_LOG_OVERHEAD) return torn(batch, 0, size, error);
    int32_t length = ol_load_i32(data + OL_BATCH_AT_LENGTH);
    if (length < OL_BATCH_MINIMUM_LENGTH) {
        return refuse(error, OL_CORRUPT, OL_BATCH_AT_LENGTH,
                      "the length of a batch is below 14 bytes", length);
    }
    size_t total = (size_t)length + OL_BATCH_LOG_OVERHEAD;
    if (size < OL_BATCH_MAGIC_END) return torn(batch, total, size, error);
    int8_t magic = (int8_t)data[OL_BATCH_AT_MAGIC];
    if (magic < 0) {
        return refuse(error, OL_CORRUPT, OL_BATCH_AT_MAGIC, "the magic of a batch is negative",
                      magic);
    }
    if (magic > 2) {
        return refuse(error, OL_UNSUPPORTED, OL_BATCH_AT_MAGIC, "the magic of a batch is not known",
                      magic);
    }
    if (magic < 2) {
        if (length < ol_message_least_length(magic)) {
            return refuse(error, OL_CORRUPT, OL_BATCH_AT_LENGTH,
                          "the length is too small even for an empty message", length);
        }
        if (size < total) return torn(batch, total, size, error);
        return ol_message_parse(data, total, batch, error);
    }
    if (total < OL_BATCH_OVERHEAD) {
        return refuse(error, OL_CORRUPT, OL_BATCH_AT_LENGTH,
                      "the length is too small even for an empty batch", length);
    }
    return torn(batch, total, size, error);
}

static OL_NOINLINE int refuse_fields(const ol_batch *batch, int32_t delta, ol_error *error) {
    int codec = batch->attributes & OL_ATTRIBUTE_CODEC;
    if (batch->base_offset < 0) {
        return refuse(error, OL_CORRUPT, 0, "the base offset is negative", batch->base_offset);
    }
    if (delta < 0) {
        return refuse(error, OL_CORRUPT, OL_BATCH_AT_LAST_OFFSET_DELTA,
                      "the last offset delta is negative", delta);
    }
    if (batch->base_offset > INT64_MAX - delta) {
        return refuse(error, OL_CORRUPT, 0,
                      "the offsets of the batch exceed the greatest possible offset",
                      batch->base_offset);
    }
    if (codec > OL_CODEC_ZSTD) {
        return refuse(error, OL_UNSUPPORTED, OL_BATCH_AT_ATTRIBUTES, "the codec is not known",
                      codec);
    }
    return refuse(error, OL_CORRUPT, OL_BATCH_AT_RECORD_COUNT,
                  "the record count is negative, or above the number of offsets in the batch",
                  batch->record_count);
}

int ol_batch_parse(const uint8_t *data, size_t size, ol_batch *batch, ol_error *error) {
    if (OL_UNLIKELY(size < OL_BATCH_OVERHEAD || data[OL_BATCH_AT_MAGIC] != 2)) {
        return parse_rest(data, size, batch, error);
    }
    int32_t length = ol_load_i32(data + OL_BATCH_AT_LENGTH);
    if (OL_UNLIKELY(length < OL_BATCH_OVERHEAD - OL_BATCH_LOG_OVERHEAD ||
                    (size_t)length + OL_BATCH_LOG_OVERHEAD > size)) {
        return parse_rest(data, size, batch, error);
    }
    batch->data = data;
    batch->size = (size_t)length + OL_BATCH_LOG_OVERHEAD;
    batch->base_offset = ol_load_i64(data + OL_BATCH_AT_BASE_OFFSET);
    batch->base_timestamp = ol_load_i64(data + OL_BATCH_AT_BASE_TIMESTAMP);
    batch->max_timestamp = ol_load_i64(data + OL_BATCH_AT_MAX_TIMESTAMP);
    batch->producer_id = ol_load_i64(data + OL_BATCH_AT_PRODUCER_ID);
    batch->leader_epoch = ol_load_i32(data + OL_BATCH_AT_LEADER_EPOCH);
    batch->base_sequence = ol_load_i32(data + OL_BATCH_AT_BASE_SEQUENCE);
    batch->record_count = ol_load_i32(data + OL_BATCH_AT_RECORD_COUNT);
    batch->crc = ol_load_u32(data + OL_BATCH_AT_CRC);
    batch->producer_epoch = ol_load_i16(data + OL_BATCH_AT_PRODUCER_EPOCH);
    batch->attributes = ol_load_i16(data + OL_BATCH_AT_ATTRIBUTES);
    batch->magic = 2;
    int32_t delta = ol_load_i32(data + OL_BATCH_AT_LAST_OFFSET_DELTA);
    /* Every record has its own offset, so there cannot be more records than offsets. */
    if (OL_UNLIKELY(batch->base_offset < 0 || delta < 0 || batch->base_offset > INT64_MAX - delta ||
                    batch->record_count < 0 || batch->record_count - 1 > delta ||
                    (batch->attributes & OL_ATTRIBUTE_CODEC) > OL_CODEC_ZSTD)) {
        return refuse_fields(batch, delta, error);
    }
    batch->last_offset = batch->base_offset + delta;
    return OL_OK;
}

static OL_NOINLINE int refuse_crc(const ol_batch *batch, uint32_t computed, ol_error *error) {
    ol_fail(error, OL_CORRUPT,
            "the batch at offset %" PRId64 " has checksum %08" PRIx32 ", its bytes have %08" PRIx32,
            batch->base_offset, batch->crc, computed);
    error->offset = batch->base_offset;
    return ol_error_at(error, NULL, batch->magic == 2 ? OL_BATCH_AT_CRC : OL_MESSAGE_AT_CRC);
}

int ol_batch_check_crc(const ol_batch *batch, ol_error *error) {
    uint32_t computed;
    if (OL_LIKELY(batch->magic == 2)) {
        computed = ol_crc32c(batch->data + OL_BATCH_AT_ATTRIBUTES,
                             batch->size - OL_BATCH_AT_ATTRIBUTES);
    } else {
        computed = ol_crc32(batch->data + OL_BATCH_AT_MAGIC, batch->size - OL_BATCH_AT_MAGIC);
    }
    return OL_LIKELY(computed == batch->crc) ? OL_OK : refuse_crc(batch, computed, error);
}
