/* memory_log: a log in memory, which a test writes batch by batch, and damages. */
#ifndef OL_TEST_MEMORY_LOG_H
#define OL_TEST_MEMORY_LOG_H

#include "base/crc32c.h"
#include "format/batch_write.h"
#include "format/offset_record.h"
#include "ol_test.h"

enum { MEMORY_LOG_BYTES = 1 << 17, MEMORY_LOG_BATCHES = 1024, MEMORY_LOG_TIME = 1700000 };

typedef struct memory_log {
    uint8_t bytes[MEMORY_LOG_BYTES];
    size_t starts[MEMORY_LOG_BATCHES + 1];      /* byte positions of the batches, and of the end */
    size_t count;
    size_t filled;              /* bytes, with the records of the batch that is not sealed yet */
    int32_t records;            /* of that batch */
    int64_t next_offset;
} memory_log;

/* Zeroed memory is empty, and so is a log after this. */
OL_UNUSED static void memory_log_clear(memory_log *log) { memset(log, 0, sizeof *log); }

static uint8_t *memory_log_start(memory_log *log, size_t i) { return log->bytes + log->starts[i]; }

static void memory_log_end_batch(memory_log *log, size_t end, int32_t offsets) {
    OL_CHECK(log->count < MEMORY_LOG_BATCHES && end <= MEMORY_LOG_BYTES);
    log->starts[++log->count] = log->filled = end;
    log->next_offset += offsets;
    log->records = 0;
}

/* Adds a record to the batch that memory_log_seal will end. */
OL_UNUSED static void memory_log_put(memory_log *log, ol_slice key, ol_slice value) {
    if (log->records == 0) log->filled += OL_BATCH_OVERHEAD;
    OL_CHECK(log->filled + key.size + value.size + 64 < MEMORY_LOG_BYTES);
    uint8_t *end = ol_record_put(log->bytes + log->filled, 0, log->records++, key, value, 0, ol_slice_null());
    log->filled = (size_t)(end - log->bytes);
}

/* Ends the batch.  One without a record has one offset, as a batch that a cleaner emptied. */
OL_UNUSED static void memory_log_seal(memory_log *log, int64_t producer_id, int16_t attributes) {
    if (log->records == 0) log->filled += OL_BATCH_OVERHEAD;
    int32_t offsets = log->records > 0 ? log->records : 1;
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, log->next_offset, MEMORY_LOG_TIME);
    fields.producer_id = producer_id;
    fields.producer_epoch = producer_id >= 0 ? 0 : -1;
    fields.attributes = attributes;
    fields.record_count = log->records;
    fields.last_offset_delta = offsets - 1;
    ol_batch_seal(memory_log_start(log, log->count), log->bytes + log->filled, &fields);
    memory_log_end_batch(log, log->filled, offsets);
}

OL_UNUSED static void memory_log_put_commit(memory_log *log, int32_t partition) {
    uint8_t key[64], value[64];
    uint8_t *key_end = ol_offset_key_put(key, OL_KEY_OFFSET_COMMIT, ol_slice_of("group", 5), ol_slice_of("topic", 5),
                                         partition);
    uint8_t *value_end = ol_offset_value_3_put(value, 10 + partition, -1, ol_slice_of("m", 1), 5);
    memory_log_put(log, ol_slice_of(key, (size_t)(key_end - key)), ol_slice_of(value, (size_t)(value_end - value)));
}

/* Writes a batch of offset commits: a plain one with producer id -1, else one of a transaction. */
OL_UNUSED static void memory_log_commits(memory_log *log, int64_t producer_id, int32_t count) {
    for (int32_t i = 0; i < count; i++) memory_log_put_commit(log, i);
    memory_log_seal(log, producer_id, producer_id >= 0 ? OL_ATTRIBUTE_TRANSACTIONAL : 0);
}

OL_UNUSED static void memory_log_marker(memory_log *log, int64_t producer_id, ol_control type) {
    OL_CHECK(log->filled + OL_BATCH_MARKER_SIZE <= MEMORY_LOG_BYTES);
    uint8_t *start = memory_log_start(log, log->count);
    size_t size = ol_batch_put_marker(start, log->next_offset, -1, MEMORY_LOG_TIME, producer_id, 0, type, 3);
    memory_log_end_batch(log, log->filled + size, 1);
}

OL_UNUSED static void memory_log_seal_control(memory_log *log, int64_t producer_id) {
    memory_log_seal(log, producer_id, OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_CONTROL);
}

/* A control batch with one record, which need not be a marker that can be read. */
OL_UNUSED static void memory_log_control(memory_log *log, int64_t producer_id, ol_slice key, ol_slice value) {
    memory_log_put(log, key, value);
    memory_log_seal_control(log, producer_id);
}

/* Makes the checksum right again after a change of the bytes that it covers. */
OL_UNUSED static void memory_log_renew_crc(memory_log *log, size_t i) {
    uint8_t *start = memory_log_start(log, i);
    size_t size = log->starts[i + 1] - log->starts[i];
    ol_store_u32(start + OL_BATCH_AT_CRC, ol_crc32c(start + OL_BATCH_AT_ATTRIBUTES, size - OL_BATCH_AT_ATTRIBUTES));
}

/* Compresses the last batch, in the form of stored_codec. */
OL_UNUSED static void memory_log_compress(memory_log *log) {
    size_t last = log->count - 1;
    uint8_t *start = memory_log_start(log, last), *records = start + OL_BATCH_AT_RECORDS;
    OL_CHECK(log->filled < MEMORY_LOG_BYTES);
    memmove(records + 1, records, log->filled - log->starts[last] - OL_BATCH_OVERHEAD);
    *records = 'S';
    log->starts[log->count] = ++log->filled;
    start[OL_BATCH_AT_ATTRIBUTES + 1] |= OL_CODEC_ZSTD;
    ol_store_i32(start + OL_BATCH_AT_LENGTH, (int32_t)(log->filled - log->starts[last] - OL_BATCH_LOG_OVERHEAD));
    memory_log_renew_crc(log, last);
}

OL_UNUSED static ol_batch memory_log_batch(memory_log *log, size_t i) {
    ol_batch batch;
    ol_error error;
    OL_CHECK_OK(ol_batch_parse(memory_log_start(log, i), log->starts[i + 1] - log->starts[i], &batch, &error), &error);
    return batch;
}

/* Bits are counted from the first byte of the batch. */
OL_UNUSED static void memory_log_flip(memory_log *log, size_t i, size_t bit) {
    memory_log_start(log, i)[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* The bits that a checksum protects, its own included; base offset, length, leader epoch and magic lie before them. */
enum { MEMORY_LOG_FIRST_BIT = 8 * OL_BATCH_AT_CRC };
OL_UNUSED static size_t memory_log_bits(const memory_log *log, size_t i) {
    return 8 * (log->starts[i + 1] - log->starts[i]);
}

/* The last bit of the batch, which any checksum protects. */
OL_UNUSED static void memory_log_flip_last(memory_log *log, size_t i) {
    memory_log_flip(log, i, memory_log_bits(log, i) - 1);
}

#endif
