/* Any bytes as a .log file: batches and messages are found one after the other, checked and walked.
 *
 * An accepted batch is held against the promises of format/batch.h, and a walk over an uncompressed batch of magic 2 is
 * written again and must read the same. */
#include <stdlib.h>
#include <string.h>

#include "../c/golden_batches.h"
#include "fuzz.h"
#include "format/batch_write.h"

static const char *const seeds[] = {
    GOLDEN_A GOLDEN_B GOLDEN_C GOLDEN_D,
    GOLDEN_A_CLEANED GOLDEN_A_CLEANED_TWICE,
    GOLDEN_B_EMPTIED GOLDEN_C_WITH_HORIZON,
    /* magic 0, magic 1, and a magic 1 wrapper of two messages in the stored form below */
    "0000000000000007000000101fecd70a0000000000016b0000000176",
    "00000000000000070000001839268c3301000000018bcfe56800000000016b0000000176",
    "00000000000000090000005e000000000101000000018bcfe56800ffffffff00000048"
    "00000000000000000000001839268c3301000000018bcfe56800000000016b0000000176"
    "00000000000000020000001839268c3301000000018bcfe56800000000016b0000000176",
    NULL,
};

const char *const *ol_fuzz_seeds(void) { return seeds; }

/* Only gzip "inflates", to the block itself; the others are damaged or not there. */
static int held;
static int decompress(void *context, ol_codec codec, int magic, ol_slice input, size_t limit, ol_slice *output, ol_error *error) {
    (void)context;
    (void)magic;
    if (codec == OL_CODEC_ZSTD) return ol_fail(error, OL_UNSUPPORTED, "no such codec");
    if (codec != OL_CODEC_GZIP) return ol_fail(error, OL_CORRUPT, "a damaged block");
    if (input.size > limit) return ol_fail(error, OL_LIMIT, "over the limit");
    uint8_t *copy = malloc(input.size ? input.size : 1);
    if (input.size > 0) memcpy(copy, input.data, input.size);
    *output = ol_slice_of(copy, input.size);
    held++;
    return OL_OK;
}

static void release(void *context, ol_slice output) {
    (void)context;
    held--;
    free((void *)(uintptr_t)output.data);
}

static const ol_decompressor port = {decompress, release, NULL, 1 << 16};

static uint64_t touch(ol_slice slice) {
    uint64_t sum = 0;
    for (size_t i = 0; i < slice.size; i++) sum += slice.data[i];
    return sum;
}

static void check_record(const ol_batch *batch, const ol_record *record, int64_t previous_offset) {
    ol_error error;
    ol_slice key, value;
    static volatile uint64_t sink;
    sink += touch(record->key) + touch(record->value) + touch(record->headers);
    OL_ASSERT(record->offset > previous_offset && record->offset <= batch->last_offset);
    OL_ASSERT(batch->magic != 2 || record->offset >= batch->base_offset);
    const uint8_t *cursor = record->headers.data, *limit = cursor + record->headers.size;
    for (int32_t i = 0; i < record->header_count; i++) {
        OL_ASSERT(ol_record_header_next(&cursor, limit, &key, &value, &error) == OL_OK);
        sink += touch(key) + touch(value);
    }
    OL_ASSERT(ol_record_header_next(&cursor, limit, &key, &value, &error) == OL_END);
    ol_control type;
    int32_t epoch;
    int status = ol_control_decode(record, &type, &epoch, &error);
    OL_ASSERT(status == OL_OK || status == OL_CORRUPT);
}

/* Writes the records of a sound batch again and reads them: the same records, sizes as foretold. */
static void check_rewritten(const ol_batch *batch) {
    ol_error error;
    ol_records records, again;
    ol_record record, back;
    uint8_t *bytes = malloc(batch->size), *p = bytes + OL_BATCH_AT_RECORDS;
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, batch->base_offset, batch->base_timestamp);
    fields.last_offset_delta = (int32_t)(batch->last_offset - batch->base_offset);
    fields.record_count = batch->record_count;
    OL_ASSERT(ol_records_open(&records, batch, NULL, &error) == OL_OK);
    while (ol_records_next(&records, &record, &error) == OL_OK) {
        int64_t timestamp_delta = (int64_t)((uint64_t)record.timestamp - (uint64_t)batch->base_timestamp);
        int32_t offset_delta = (int32_t)(record.offset - batch->base_offset);
        size_t size = ol_record_size(timestamp_delta, offset_delta, record.key.data ? (int64_t)record.key.size : -1,
                                     record.value.data ? (int64_t)record.value.size : -1, record.header_count, record.headers.size);
        /* Nothing is longer than it was: what was read may have had varints longer than they need be. */
        OL_ASSERT(size <= batch->size - (size_t)(p - bytes));
        uint8_t *end = ol_record_put(p, timestamp_delta, offset_delta, record.key, record.value, record.header_count, record.headers);
        OL_ASSERT((size_t)(end - p) == size);
        p = end;
    }
    ol_records_close(&records);
    ol_batch_seal(bytes, p, &fields);
    ol_batch written;
    OL_ASSERT(ol_batch_parse(bytes, (size_t)(p - bytes), &written, &error) == OL_OK);
    OL_ASSERT(ol_batch_check_crc(&written, &error) == OL_OK);
    OL_ASSERT(ol_records_open(&records, batch, NULL, &error) == OL_OK);
    OL_ASSERT(ol_records_open(&again, &written, NULL, &error) == OL_OK);
    while (ol_records_next(&records, &record, &error) == OL_OK) {
        OL_ASSERT(ol_records_next(&again, &back, &error) == OL_OK);
        OL_ASSERT(back.offset == record.offset && back.timestamp == record.timestamp);
        OL_ASSERT(back.key.size == record.key.size && back.value.size == record.value.size);
    }
    OL_ASSERT(ol_records_next(&again, &back, &error) == OL_END);
    ol_records_close(&again);
    ol_records_close(&records);
    free(bytes);
}

static void check_batch(const ol_batch *batch) {
    ol_error error;
    ol_records records;
    ol_record record;
    int status = ol_batch_check_crc(batch, &error);
    OL_ASSERT(status == OL_OK || status == OL_CORRUPT);
    if (ol_records_open(&records, batch, &port, &error) != OL_OK) {
        OL_ASSERT(held == 0);
        return;
    }
    int64_t previous = batch->magic == 2 ? batch->base_offset - 1 : -1;
    int32_t count = 0;
    while ((status = ol_records_next(&records, &record, &error)) == OL_OK) {
        check_record(batch, &record, previous);
        previous = record.offset;
        count++;
    }
    OL_ASSERT(status == OL_END || status == OL_CORRUPT || status == OL_UNSUPPORTED);
    ol_records_close(&records);
    OL_ASSERT(held == 0);
    if (status != OL_END) return;
    OL_ASSERT(batch->record_count < 0 || count == batch->record_count);
    bool plain = batch->magic == 2 && (batch->attributes & (OL_ATTRIBUTE_CODEC | OL_ATTRIBUTE_LOG_APPEND_TIME)) == 0;
    if (plain) check_rewritten(batch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t at = 0;
    while (at < size) {
        ol_batch batch;
        ol_error error;
        int status = ol_batch_parse(data + at, size - at, &batch, &error);
        if (status != OL_OK) {
            OL_ASSERT(status == OL_TORN || status == OL_CORRUPT || status == OL_UNSUPPORTED);
            OL_ASSERT(status != OL_TORN || batch.size == 0 || batch.size > size - at);
            break;
        }
        OL_ASSERT(batch.size <= size - at && batch.last_offset >= batch.base_offset && batch.base_offset >= 0);
        check_batch(&batch);
        at += batch.size;
    }
    return 0;
}
