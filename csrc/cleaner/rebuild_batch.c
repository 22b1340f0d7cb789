/* Writes the records that stay, in the format of their batch. */
#include "cleaner/rebuild_batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "format/batch_write.h"
#include "format/message_set.h"

enum { OUTPUT_CAPACITY_MIN = 4 << 10 };

/* A batch of magic 2 that is being rebuilt. */
typedef struct rebuild {
    ol_batch_fields fields;
    int64_t max_timestamp;      /* of the records that stay */
    bool has_base;
} rebuild;

void ol_clean_output_free(ol_clean_output *output) {
    free(output->data);
    memset(output, 0, sizeof *output);
}

static int make_room(ol_clean_output *output, size_t size, ol_error *error) {
    if (OL_LIKELY(size <= output->capacity - output->size)) return OL_OK;
    size_t capacity = output->capacity * 2 < OUTPUT_CAPACITY_MIN ? OUTPUT_CAPACITY_MIN
                                                                 : output->capacity * 2;
    if (capacity < output->size + size) capacity = output->size + size;
    uint8_t *data = realloc(output->data, capacity);
    if (data == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory to rebuild a batch of %zu bytes", capacity);
    }
    output->data = data;
    output->capacity = capacity;
    return OL_OK;
}

static bool is_kept(const ol_clean_choice *choice, int64_t index) {
    return choice->kept[index / 64] >> (index % 64) & 1;
}

static int64_t size_or_null(ol_slice bytes) {
    return bytes.data == NULL ? -1 : (int64_t)bytes.size;
}

/* -------------------------------------------------------------------------------------- magic 2 */

/* Sets the fields that stay the same whatever is dropped. */
static void fields_of(const ol_batch *batch, ol_batch_fields *fields) {
    *fields = (ol_batch_fields){
        .base_offset = batch->base_offset,
        .base_timestamp = -1,
        .max_timestamp = batch->max_timestamp,
        .producer_id = batch->producer_id,
        .leader_epoch = batch->leader_epoch,
        .base_sequence = batch->base_sequence,
        .last_offset_delta = (int32_t)(batch->last_offset - batch->base_offset),
        .producer_epoch = batch->producer_epoch,
        .attributes = (int16_t)(batch->attributes &
                                (OL_ATTRIBUTE_LOG_APPEND_TIME | OL_ATTRIBUTE_TRANSACTIONAL |
                                 OL_ATTRIBUTE_CONTROL)),
    };
}

static int put_empty(const ol_batch *batch, ol_clean_output *output, ol_clean_result *result,
                     ol_error *error) {
    ol_batch_fields fields;
    fields_of(batch, &fields);
    output->size = 0;
    int status = make_room(output, OL_BATCH_OVERHEAD, error);
    if (status != OL_OK) return status;
    ol_batch_seal(output->data, output->data + OL_BATCH_OVERHEAD, &fields);
    output->size = OL_BATCH_OVERHEAD;
    output->max_timestamp = fields.max_timestamp;
    bool same = batch->size == OL_BATCH_OVERHEAD &&
                memcmp(batch->data, output->data, OL_BATCH_OVERHEAD) == 0;
    *result = same ? OL_CLEAN_VERBATIM : OL_CLEAN_REBUILT;
    return OL_OK;
}

static int put_record(rebuild *state, const ol_record *record, ol_clean_output *output,
                      ol_error *error) {
    ol_batch_fields *fields = &state->fields;
    if (!state->has_base) {
        fields->base_timestamp = record->timestamp;
        state->has_base = true;
    }
    if (record->timestamp > state->max_timestamp) state->max_timestamp = record->timestamp;
    /* The file can hold any two numbers; their difference wraps as in Java. */
    int64_t timestamp_delta = (int64_t)((uint64_t)record->timestamp -
                                        (uint64_t)fields->base_timestamp);
    int32_t offset_delta = (int32_t)(record->offset - fields->base_offset);
    size_t headers = record->header_count > 0 ? record->headers.size : 0;
    size_t key = record->key.size, value = record->value.size;
    if (OL_UNLIKELY(key + value + headers > INT32_MAX / 2)) {
        return ol_fail(error, OL_TOO_LARGE,
                       "a record of %zu bytes is too large for a rebuilt batch",
                       key + value + headers);
    }
    size_t size = ol_record_size(timestamp_delta, offset_delta, size_or_null(record->key),
                                 size_or_null(record->value), record->header_count, headers);
    int status = make_room(output, size, error);
    if (status != OL_OK) return status;
    uint8_t *end = ol_record_put(output->data + output->size, timestamp_delta, offset_delta,
                                 record->key, record->value, record->header_count,
                                 ol_slice_of(record->headers.data, headers));
    output->size = (size_t)(end - output->data);
    return OL_OK;
}

/* Puts the records that stay, uncompressed, after the space for a header. */
static int put_records(const ol_batch *batch, const ol_clean_choice *choice,
                       const ol_decompressor *decompressor, rebuild *state, ol_clean_output *output,
                       ol_error *error) {
    ol_records records;
    output->size = 0;
    int status = make_room(output, OL_BATCH_OVERHEAD, error);
    if (status == OL_OK) status = ol_records_open(&records, batch, decompressor, error);
    if (status != OL_OK) return status;
    output->size = OL_BATCH_OVERHEAD;
    ol_record record;
    for (int64_t i = 0; (status = ol_records_next(&records, &record, error)) == OL_OK; i++) {
        if (is_kept(choice, i)) status = put_record(state, &record, output, error);
        if (status != OL_OK) break;
    }
    ol_records_close(&records);
    if (status != OL_END) return status;
    if (output->size - OL_BATCH_LOG_OVERHEAD > INT32_MAX) {
        return ol_fail(error, OL_TOO_LARGE, "a rebuilt batch would exceed 2 GiB");
    }
    return OL_OK;
}

/* Replaces the records by one compressed block.  OL_UNSUPPORTED where that is impossible. */
static int compress_records(const ol_batch *batch, const ol_compressor *compressor,
                            ol_clean_output *output, ol_error *error) {
    if (compressor == NULL) return ol_fail(error, OL_UNSUPPORTED,
                                           "the batch is compressed, and there is no compressor");
    ol_slice input = ol_slice_of(output->data + OL_BATCH_AT_RECORDS,
                                 output->size - OL_BATCH_OVERHEAD);
    ol_slice block = ol_slice_null();
    int status = compressor->compress(compressor->context, ol_batch_codec(batch), 2, input, &block,
                                      error);
    if (status != OL_OK) return status;
    output->size = OL_BATCH_OVERHEAD;
    status = block.size > INT32_MAX / 2
                 ? ol_fail(error, OL_UNSUPPORTED,
                           "the compressed block has %zu bytes, more than a batch can hold",
                           block.size)
                 : make_room(output, block.size, error);
    if (status == OL_OK) {
        memcpy(output->data + OL_BATCH_AT_RECORDS, block.data, block.size);
        output->size += block.size;
    }
    compressor->release(compressor->context, block);
    return status;
}

static void seal(const ol_batch *batch, const ol_batch_fields *fields, ol_clean_output *output) {
    uint8_t *start = output->data;
    ol_batch_seal(start, start + output->size, fields);
    output->max_timestamp = fields->max_timestamp;
    if (ol_batch_codec(batch) == OL_CODEC_NONE) return;
    ol_store_i16(start + OL_BATCH_AT_ATTRIBUTES,
                 (int16_t)(fields->attributes | ol_batch_codec(batch)));
    uint32_t crc = ol_crc32c(start + OL_BATCH_AT_ATTRIBUTES, output->size - OL_BATCH_AT_ATTRIBUTES);
    ol_store_u32(start + OL_BATCH_AT_CRC, crc);
}

static int rebuild_batch(const ol_batch *batch, const ol_clean_choice *choice,
                         const ol_decompressor *decompressor, const ol_compressor *compressor,
                         ol_clean_output *output, ol_clean_result *result, ol_error *error) {
    rebuild state = {.max_timestamp = -1};
    fields_of(batch, &state.fields);
    /* A horizon that is set stays, so that a tombstone's retention time does not begin again with
     * every pass. */
    int64_t horizon = ol_batch_has_horizon(batch) ? batch->base_timestamp : choice->new_horizon;
    if (horizon >= 0) {
        state.fields.attributes |= OL_ATTRIBUTE_DELETE_HORIZON;
        state.fields.base_timestamp = horizon;
        state.has_base = true;
    }
    int status = put_records(batch, choice, decompressor, &state, output, error);
    if (status == OL_OK && ol_batch_codec(batch) != OL_CODEC_NONE) {
        status = compress_records(batch, compressor, output, error);
    }
    if (status == OL_TOO_LARGE ||
        (status == OL_UNSUPPORTED && ol_batch_codec(batch) != OL_CODEC_NONE)) {
        *result = OL_CLEAN_NOT_COMPRESSED;
        return OL_OK;
    }
    if (status != OL_OK) return status;
    state.fields.record_count = (int32_t)choice->kept_count;
    if (!(batch->attributes & OL_ATTRIBUTE_LOG_APPEND_TIME)) {
        state.fields.max_timestamp = state.max_timestamp;
    }
    seal(batch, &state.fields, output);
    *result = OL_CLEAN_REBUILT;
    return OL_OK;
}

/* -------------------------------------------------------------------------------- magic 0 and 1 */

static uint8_t *put_bytes(uint8_t *p, ol_slice bytes) {
    ol_store_i32(p, (int32_t)size_or_null(bytes));
    if (bytes.size > 0) memcpy(p + 4, bytes.data, bytes.size);
    return p + 4 + bytes.size;
}

static int put_message(const ol_batch *wrapper, const ol_record *record, ol_clean_output *output,
                       ol_error *error) {
    /* A wrapper may give a message of magic 0 a timestamp, which only magic 1 can carry. */
    int8_t magic = record->timestamp != -1 || record->magic == 1;
    size_t body = (size_t)ol_message_least_length(magic) + record->key.size + record->value.size;
    if (body > INT32_MAX / 2) {
        return ol_fail(error, OL_TOO_LARGE,
                       "a message of %zu bytes is too large for a rebuilt batch", body);
    }
    int status = make_room(output, body + OL_BATCH_LOG_OVERHEAD, error);
    if (status != OL_OK) return status;
    uint8_t *start = output->data + output->size;
    ol_store_i64(start, record->offset);
    ol_store_i32(start + OL_BATCH_AT_LENGTH, (int32_t)body);
    start[OL_BATCH_AT_MAGIC] = (uint8_t)magic;
    start[OL_MESSAGE_AT_ATTRIBUTES] =
        magic == 1 ? (uint8_t)(wrapper->attributes & OL_ATTRIBUTE_LOG_APPEND_TIME) : 0;
    if (magic == 1) ol_store_i64(start + OL_MESSAGE_AT_TIMESTAMP, record->timestamp);
    uint8_t *p = put_bytes(
        start + (magic == 0 ? OL_MESSAGE_AT_BODY_MAGIC_0 : OL_MESSAGE_AT_BODY_MAGIC_1),
        record->key);
    p = put_bytes(p, record->value);
    OL_ASSERT((size_t)(p - start) == body + OL_BATCH_LOG_OVERHEAD);
    ol_store_u32(start + OL_MESSAGE_AT_CRC,
                 ol_crc32(start + OL_BATCH_AT_MAGIC, (size_t)(p - start) - OL_BATCH_AT_MAGIC));
    output->size = (size_t)(p - output->data);
    return OL_OK;
}

static int unpack(const ol_batch *wrapper, const ol_clean_choice *choice,
                  const ol_decompressor *decompressor, ol_clean_output *output, ol_error *error) {
    ol_records records;
    output->size = 0;
    int status = ol_records_open(&records, wrapper, decompressor, error);
    if (status != OL_OK) return status;
    ol_record record;
    for (int64_t i = 0; (status = ol_records_next(&records, &record, error)) == OL_OK; i++) {
        if (is_kept(choice, i)) status = put_message(wrapper, &record, output, error);
        if (status != OL_OK) break;
    }
    ol_records_close(&records);
    return status == OL_END ? OL_OK : status;
}

/* ------------------------------------------------------------------------------------- deciding */

int ol_clean_batch_apply(const ol_batch *batch, int64_t record_count, const ol_clean_choice *choice,
                         const ol_decompressor *decompressor, const ol_compressor *compressor,
                         ol_clean_output *output, ol_clean_result *result, ol_error *error) {
    OL_ASSERT(choice->kept_count >= 0 && choice->kept_count <= record_count);
    OL_ASSERT(choice->new_horizon < 0 || (batch->magic == 2 && !ol_batch_has_horizon(batch)));
    if (choice->kept_count == 0) {
        *result = OL_CLEAN_DROPPED;
        return batch->magic == 2 && choice->retain_empty ? put_empty(batch, output, result, error)
                                                         : OL_OK;
    }
    if (choice->kept_count == record_count && choice->new_horizon < 0) {
        *result = OL_CLEAN_VERBATIM;
        return OL_OK;
    }
    if (batch->magic == 2) {
        return rebuild_batch(batch, choice, decompressor, compressor, output, result, error);
    }
    int status = unpack(batch, choice, decompressor, output, error);
    *result = status == OL_TOO_LARGE ? OL_CLEAN_NOT_COMPRESSED : OL_CLEAN_REBUILT;
    return status == OL_TOO_LARGE ? OL_OK : status;
}
