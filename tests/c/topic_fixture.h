/* topic_fixture: batches as producers send them. */
#ifndef TOPIC_FIXTURE_H
#define TOPIC_FIXTURE_H

#include "base/crc32c.h"
#include "log_fixture.h"
#include "topic/topic_log.h"

enum { SENT_BYTES_MAX = 4096 };

/* A batch as a producer sends it: `count` records of one value byte, with a key, a millisecond apart. */
typedef struct sent_batch {
    int count;
    int64_t first_timestamp;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int16_t attributes;
    bool has_no_keys;
    int64_t base_offset;
    int32_t offset_step;        /* between records; 1 as it must be */
    int32_t record_count;       /* 0: as many as there are */
    int64_t max_timestamp;      /* 0: that of the last record */
} sent_batch;

OL_UNUSED static sent_batch sent_plain(int count) {
    return (sent_batch){.count = count, .first_timestamp = 1700000000000, .producer_id = -1, .producer_epoch = -1,
                        .base_sequence = -1, .offset_step = 1};
}

OL_UNUSED static sent_batch sent_idempotent(int64_t producer_id, int16_t epoch, int32_t sequence, int count) {
    sent_batch sent = sent_plain(count);
    sent.producer_id = producer_id;
    sent.producer_epoch = epoch;
    sent.base_sequence = sequence;
    return sent;
}

OL_UNUSED static ol_slice sent_encode(const sent_batch *sent, uint8_t bytes[SENT_BYTES_MAX]) {
    uint8_t *end = bytes + OL_BATCH_OVERHEAD;
    for (int i = 0; i < sent->count; i++) {
        uint8_t value = (uint8_t)i;
        ol_slice key = sent->has_no_keys ? ol_slice_null() : ol_slice_of("k", 1);
        end = ol_record_put(end, i, i * sent->offset_step, key, ol_slice_of(&value, 1), 0, ol_slice_null());
    }
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, sent->base_offset, sent->first_timestamp);
    fields.max_timestamp = sent->max_timestamp != 0 ? sent->max_timestamp : sent->first_timestamp + sent->count - 1;
    fields.last_offset_delta = sent->count - 1;
    fields.record_count = sent->record_count != 0 ? sent->record_count : sent->count;
    fields.producer_id = sent->producer_id;
    fields.producer_epoch = sent->producer_epoch;
    fields.base_sequence = sent->base_sequence;
    ol_batch_seal(bytes, end, &fields);
    /* Not before: our own batches have none of a codec. */
    size_t size = (size_t)(end - bytes);
    ol_store_i16(bytes + OL_BATCH_AT_ATTRIBUTES, sent->attributes);
    ol_store_u32(bytes + OL_BATCH_AT_CRC, ol_crc32c(bytes + OL_BATCH_AT_ATTRIBUTES, size - OL_BATCH_AT_ATTRIBUTES));
    return ol_slice_of(bytes, (size_t)(end - bytes));
}

OL_UNUSED static ol_produce_rules sent_rules(void) {
    return (ol_produce_rules){.batch_bytes_max = 1 << 20, .timestamp_min = 0, .timestamp_max = INT64_MAX,
                              .log_append_time = -1, .takes_zstd = true};
}

#endif
