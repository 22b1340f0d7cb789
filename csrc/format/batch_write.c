/* format/batch_write.c: encodes batches of magic 2 (docs/format/batches.md §2.1, §2.2, §2.5). */
#include "format/batch_write.h"
#include "base/bytes.h"
#include "base/crc32c.h"

void ol_batch_fields_init(ol_batch_fields *fields, int64_t base_offset, int64_t timestamp) {
    *fields = (ol_batch_fields){
        .base_offset = base_offset,
        .base_timestamp = timestamp,
        .max_timestamp = timestamp,
        .producer_id = -1,
        .leader_epoch = -1,
        .base_sequence = 0,  /* a coordinator's plain batch: not -1 (docs/format/traps.md trap 6) */
        .producer_epoch = -1,
    };
}

static inline uint8_t *put_bytes(uint8_t *p, ol_slice bytes) {
    if (bytes.size > 0) memcpy(p, bytes.data, bytes.size);
    return p + bytes.size;
}

static inline int64_t size_or_null(ol_slice bytes) {
    return bytes.data == NULL ? -1 : (int64_t)bytes.size;
}

uint8_t *ol_record_put(uint8_t *p, int64_t timestamp_delta, int32_t offset_delta, ol_slice key,
                       ol_slice value, int32_t header_count, ol_slice headers) {
    int64_t key_size = size_or_null(key), value_size = size_or_null(value);
    size_t body = ol_record_body_size(timestamp_delta, offset_delta, key_size, value_size,
                                      header_count, headers.size);
    p = ol_record_put_start(p, body, timestamp_delta, offset_delta, key_size);
    p = put_bytes(p, key);
    p = ol_record_put_value_size(p, value_size);
    p = put_bytes(p, value);
    return ol_record_put_headers(p, header_count, headers);
}

void ol_batch_seal(uint8_t *start, const uint8_t *end, const ol_batch_fields *fields) {
    size_t size = (size_t)(end - start);
    OL_ASSERT(size >= OL_BATCH_OVERHEAD && size - OL_BATCH_LOG_OVERHEAD <= INT32_MAX);
    OL_ASSERT((fields->attributes & OL_ATTRIBUTE_CODEC) == OL_CODEC_NONE);
    OL_ASSERT(fields->record_count >= 0 && fields->last_offset_delta >= fields->record_count - 1);
    ol_store_i64(start + OL_BATCH_AT_BASE_OFFSET, fields->base_offset);
    ol_store_i32(start + OL_BATCH_AT_LEADER_EPOCH, fields->leader_epoch);
    ol_store_i16(start + OL_BATCH_AT_ATTRIBUTES, fields->attributes);
    ol_store_i32(start + OL_BATCH_AT_LAST_OFFSET_DELTA, fields->last_offset_delta);
    ol_store_i64(start + OL_BATCH_AT_BASE_TIMESTAMP, fields->base_timestamp);
    ol_store_i64(start + OL_BATCH_AT_MAX_TIMESTAMP, fields->max_timestamp);
    ol_store_i64(start + OL_BATCH_AT_PRODUCER_ID, fields->producer_id);
    ol_store_i16(start + OL_BATCH_AT_PRODUCER_EPOCH, fields->producer_epoch);
    ol_store_i32(start + OL_BATCH_AT_BASE_SEQUENCE, fields->base_sequence);
    ol_store_i32(start + OL_BATCH_AT_RECORD_COUNT, fields->record_count);
    uint32_t crc = ol_crc32c(start + OL_BATCH_AT_ATTRIBUTES, size - OL_BATCH_AT_ATTRIBUTES);
    ol_store_u32(start + OL_BATCH_AT_CRC, crc);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    start[OL_BATCH_AT_MAGIC] = 2;
    ol_store_i32(start + OL_BATCH_AT_LENGTH, (int32_t)(size - OL_BATCH_LOG_OVERHEAD));
}

void ol_batch_assign(uint8_t *start, int64_t base_offset, int32_t leader_epoch) {
    ol_store_i64(start + OL_BATCH_AT_BASE_OFFSET, base_offset);
    ol_store_i32(start + OL_BATCH_AT_LEADER_EPOCH, leader_epoch);
}

size_t ol_batch_put_marker(uint8_t *start, int64_t offset, int32_t leader_epoch, int64_t timestamp,
                           int64_t producer_id, int16_t producer_epoch, ol_control type,
                           int32_t coordinator_epoch) {
    OL_ASSERT(type == OL_CONTROL_ABORT || type == OL_CONTROL_COMMIT);
    uint8_t key[4], value[6];
    ol_store_i16(key, 0);
    ol_store_i16(key + 2, (int16_t)type);
    ol_store_i16(value, 0);
    ol_store_i32(value + 2, coordinator_epoch);
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, offset, timestamp);
    fields.leader_epoch = leader_epoch;
    fields.producer_id = producer_id;
    fields.producer_epoch = producer_epoch;
    fields.base_sequence = -1;
    fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_CONTROL;
    fields.record_count = 1;
    uint8_t *end = ol_record_put(start + OL_BATCH_AT_RECORDS, 0, 0, ol_slice_of(key, sizeof key),
                                 ol_slice_of(value, sizeof value), 0, ol_slice_null());
    OL_ASSERT(end - start == OL_BATCH_MARKER_SIZE);
    ol_batch_seal(start, end, &fields);
    return OL_BATCH_MARKER_SIZE;
}
