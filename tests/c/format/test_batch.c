/* Batches of magic 2: the golden bytes of docs/format/vectors.md §14.2 in both directions, what is refused and how, cuts and flipped bits. */
#include "golden_batches.h"
#include "format/batch_write.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "ol_test.h"
#include "stored_codec.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static const char *const golden[] = {GOLDEN_A,         GOLDEN_B,       GOLDEN_C, GOLDEN_D, GOLDEN_A_CLEANED, GOLDEN_A_CLEANED_TWICE,
                                     GOLDEN_B_EMPTIED, GOLDEN_C_WITH_HORIZON};

typedef struct expectation {
    const char *hex;
    int64_t base_offset, last_offset, base_timestamp, max_timestamp, producer_id;
    int32_t leader_epoch, base_sequence, record_count;
    uint32_t crc;
    int16_t producer_epoch, attributes;
} expectation;

static const expectation expectations[] = {
    {GOLDEN_A, 100, 102, GOLDEN_TIME, GOLDEN_TIME, -1, 6, 0, 3, 0x77c25c61, -1, 0},
    {GOLDEN_B, 103, 103, GOLDEN_TIME, GOLDEN_TIME, 4000, 6, 0, 1, 0x9c092555, 2, 0x10},
    {GOLDEN_C, 104, 104, GOLDEN_TIME + 1, GOLDEN_TIME + 1, 4000, 6, -1, 1, 0x63e14b66, 2, 0x30},
    {GOLDEN_D, 105, 105, GOLDEN_TIME + 2, GOLDEN_TIME + 2, 4000, 6, -1, 1, 0x63793dab, 2, 0x30},
    {GOLDEN_A_CLEANED, 100, 102, GOLDEN_HORIZON, GOLDEN_TIME, -1, 6, 0, 2, 0x4048cb97, -1, 0x40},
    {GOLDEN_A_CLEANED_TWICE, 100, 102, GOLDEN_HORIZON, GOLDEN_TIME, -1, 6, 0, 1, 0xa6dbc3ef, -1, 0x40},
    {GOLDEN_B_EMPTIED, 103, 103, -1, GOLDEN_TIME, 4000, 6, 0, 0, 0x3df2544b, 2, 0x10},
    {GOLDEN_C_WITH_HORIZON, 104, 104, GOLDEN_HORIZON, GOLDEN_TIME + 1, 4000, 6, -1, 1, 0x50718f82, 2, 0x70},
};

/* Walks a batch to its end; the status that ended it, and what was seen. */
typedef struct walk {
    int count;
    int64_t last_offset;
    ol_record records[8];
} walk;

static int walk_batch(const ol_batch *batch, const ol_decompressor *port, walk *seen) {
    ol_error error;
    ol_records records;
    memset(seen, 0, sizeof *seen);
    int status = ol_records_open(&records, batch, port, &error);
    if (status != OL_OK) return status;
    ol_record record;
    while ((status = ol_records_next(&records, &record, &error)) == OL_OK) {
        if (seen->count < 8) seen->records[seen->count] = record;
        seen->count++;
        seen->last_offset = record.offset;
    }
    ol_records_close(&records);
    return status;
}

static ol_batch parse(const uint8_t *bytes, size_t size) {
    ol_batch batch;
    ol_error error;
    OL_CHECK_OK(ol_batch_parse(bytes, size, &batch, &error), &error);
    return batch;
}

static int parse_status(const uint8_t *bytes, size_t size) {
    ol_batch batch;
    ol_error error;
    ol_error_clear(&error);
    int status = ol_batch_parse(bytes, size, &batch, &error);
    if (status != OL_OK) {
        OL_CHECK_INT(error.status, status);
        OL_CHECK(error.reason[0] != '\0');
    }
    return status;
}

/* Makes the CRC right again after a test has changed covered bytes. */
static void reseal(uint8_t *bytes, size_t size) {
    ol_store_u32(bytes + OL_BATCH_AT_CRC, ol_crc32c(bytes + OL_BATCH_AT_ATTRIBUTES, size - OL_BATCH_AT_ATTRIBUTES));
}

OL_TEST(golden_headers) {
    for (size_t k = 0; k < COUNT_OF(expectations); k++) {
        const expectation *e = &expectations[k];
        size_t size;
        uint8_t *bytes = ol_test_unhex(e->hex, &size);
        ol_batch batch = parse(bytes, size);
        ol_error error;
        OL_CHECK_INT(batch.size, size);
        OL_CHECK_INT(batch.base_offset, e->base_offset);
        OL_CHECK_INT(batch.last_offset, e->last_offset);
        OL_CHECK_INT(batch.base_timestamp, e->base_timestamp);
        OL_CHECK_INT(batch.max_timestamp, e->max_timestamp);
        OL_CHECK_INT(batch.producer_id, e->producer_id);
        OL_CHECK_INT(batch.leader_epoch, e->leader_epoch);
        OL_CHECK_INT(batch.base_sequence, e->base_sequence);
        OL_CHECK_INT(batch.record_count, e->record_count);
        OL_CHECK_INT(batch.crc, e->crc);
        OL_CHECK_INT(batch.producer_epoch, e->producer_epoch);
        OL_CHECK_INT(batch.attributes, e->attributes);
        OL_CHECK_INT(batch.magic, 2);
        OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
        walk seen;
        OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_END);
        OL_CHECK_INT(seen.count, e->record_count);
        free(bytes);
    }
}

OL_TEST(golden_records) {
    size_t size;
    uint8_t *bytes = ol_test_unhex(GOLDEN_A, &size);
    ol_batch batch = parse(bytes, size);
    walk seen;
    OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_END);
    for (int i = 0; i < 3; i++) {
        const ol_record *record = &seen.records[i];
        OL_CHECK_INT(record->offset, 100 + i);
        OL_CHECK_INT(record->timestamp, GOLDEN_TIME);
        OL_CHECK_INT(record->key.size, 24);
        OL_CHECK_INT(record->key.data[23], 3 + i);
        OL_CHECK_INT(record->header_count, 0);
        OL_CHECK_INT(record->headers.size, 0);
        OL_CHECK_INT(record->magic, 2);
        OL_CHECK((record->value.data == NULL) == (i == 2));
    }
    OL_CHECK_INT(ol_load_i64(seen.records[1].value.data + 2), 43);
    free(bytes);
}

OL_TEST(markers) {
    static const struct {
        const char *hex;
        ol_control type;
        int64_t offset, timestamp;
    } markers[] = {{GOLDEN_C, OL_CONTROL_COMMIT, 104, GOLDEN_TIME + 1}, {GOLDEN_D, OL_CONTROL_ABORT, 105, GOLDEN_TIME + 2}};
    for (size_t k = 0; k < 2; k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(markers[k].hex, &size);
        ol_batch batch = parse(bytes, size);
        OL_CHECK(ol_batch_is_control(&batch) && ol_batch_is_transactional(&batch) && !ol_batch_has_horizon(&batch));
        walk seen;
        OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_END);
        ol_control type;
        int32_t epoch;
        ol_error error;
        OL_CHECK_OK(ol_control_decode(&seen.records[0], &type, &epoch, &error), &error);
        OL_CHECK_INT(type, markers[k].type);
        OL_CHECK_INT(epoch, 11);
        uint8_t written[OL_BATCH_MARKER_SIZE];
        OL_CHECK_INT(ol_batch_put_marker(written, markers[k].offset, 6, markers[k].timestamp, 4000, 2, type, epoch), size);
        OL_CHECK(memcmp(written, bytes, size) == 0);
        free(bytes);
    }
}

OL_TEST(control_records_of_other_kinds_and_cut_ones) {
    static const struct {
        const char *key, *value;
        int status;
        ol_control type;
        int32_t epoch;
    } cases[] = {
        {"00000002", "", OL_OK, OL_CONTROL_OTHER, -1},
        {"00000063", NULL, OL_OK, OL_CONTROL_OTHER, -1},
        {"000500010000", "0009000000070102", OL_OK, OL_CONTROL_COMMIT, 7},
        {"000000", "00000000000b", OL_CORRUPT, 0, 0},
        {"ffff0001", "00000000000b", OL_CORRUPT, 0, 0},
        {"00000001", "0000000000", OL_CORRUPT, 0, 0},
        {"00000000", "ffff00000001", OL_CORRUPT, 0, 0},
        {"00000000", NULL, OL_CORRUPT, 0, 0},
        {NULL, "00000000000b", OL_CORRUPT, 0, 0},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        ol_record record = {.offset = 0};
        uint8_t *key = NULL, *value = NULL;
        if (cases[k].key != NULL) record.key.data = key = ol_test_unhex(cases[k].key, &record.key.size);
        if (cases[k].value != NULL) record.value.data = value = ol_test_unhex(cases[k].value, &record.value.size);
        ol_control type;
        int32_t epoch;
        ol_error error;
        OL_CHECK_INT(ol_control_decode(&record, &type, &epoch, &error), cases[k].status);
        if (cases[k].status == OL_OK) {
            OL_CHECK_INT(type, cases[k].type);
            OL_CHECK_INT(epoch, cases[k].epoch);
        }
        free(key);
        free(value);
    }
}

/* Writes every record of a golden batch again with the fields of its header: the same bytes must come out. */
OL_TEST(golden_batches_are_written_byte_for_byte) {
    for (size_t k = 0; k < COUNT_OF(golden); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(golden[k], &size);
        ol_batch batch = parse(bytes, size);
        walk seen;
        OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_END);
        ol_batch_fields fields;
        ol_batch_fields_init(&fields, batch.base_offset, batch.base_timestamp);
        fields.max_timestamp = batch.max_timestamp;
        fields.producer_id = batch.producer_id;
        fields.producer_epoch = batch.producer_epoch;
        fields.leader_epoch = batch.leader_epoch;
        fields.base_sequence = batch.base_sequence;
        fields.attributes = batch.attributes;
        fields.last_offset_delta = (int32_t)(batch.last_offset - batch.base_offset);
        fields.record_count = batch.record_count;
        uint8_t *written = calloc(1, size), *p = written + OL_BATCH_AT_RECORDS;
        for (int i = 0; i < seen.count; i++) {
            const ol_record *record = &seen.records[i];
            int64_t timestamp_delta = record->timestamp - batch.base_timestamp;
            int32_t offset_delta = (int32_t)(record->offset - batch.base_offset);
            size_t record_size = ol_record_size(timestamp_delta, offset_delta, record->key.data ? (int64_t)record->key.size : -1,
                                                record->value.data ? (int64_t)record->value.size : -1, 0, 0);
            OL_CHECK(record_size <= (size_t)(written + size - p));
            uint8_t *next = ol_record_put(p, timestamp_delta, offset_delta, record->key, record->value, 0, ol_slice_null());
            OL_CHECK_INT(next - p, record_size);
            p = next;
        }
        OL_CHECK(p == written + size);
        ol_batch_seal(written, p, &fields);
        OL_CHECK(memcmp(written, bytes, size) == 0);
        free(written);
        free(bytes);
    }
}

OL_TEST(trap_05_crc_range) {
    size_t size;
    uint8_t *bytes = ol_test_unhex(GOLDEN_A, &size);
    ol_error error;
    ol_batch_assign(bytes, 0, -1);
    ol_batch batch = parse(bytes, size);
    OL_CHECK_INT(batch.base_offset, 0);
    OL_CHECK_INT(batch.leader_epoch, -1);
    OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
    ol_batch_assign(bytes, 100, 6);
    batch = parse(bytes, size);
    OL_CHECK_INT(batch.crc, 0x77c25c61);
    OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
    /* The CRC does not see the magic, the parser must. */
    bytes[OL_BATCH_AT_MAGIC] = 3;
    OL_CHECK_INT(parse_status(bytes, size), OL_UNSUPPORTED);
    bytes[OL_BATCH_AT_MAGIC] = 0xff;
    OL_CHECK_INT(parse_status(bytes, size), OL_CORRUPT);
    free(bytes);
}

OL_TEST(trap_06_base_sequence_of_plain_commits) {
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, 5, GOLDEN_TIME);
    fields.record_count = 0;
    uint8_t bytes[OL_BATCH_OVERHEAD];
    ol_batch_seal(bytes, bytes + sizeof bytes, &fields);
    OL_CHECK_INT(ol_load_i32(bytes + OL_BATCH_AT_BASE_SEQUENCE), 0);
    OL_CHECK_INT(ol_load_i64(bytes + OL_BATCH_AT_PRODUCER_ID), -1);
    uint8_t marker[OL_BATCH_MARKER_SIZE];
    ol_batch_put_marker(marker, 6, 0, GOLDEN_TIME, 9, 0, OL_CONTROL_ABORT, 0);
    OL_CHECK_INT(ol_load_i32(marker + OL_BATCH_AT_BASE_SEQUENCE), -1);
}

OL_TEST(trap_10_last_offset_from_record_count) {
    size_t size;
    uint8_t *bytes = ol_test_unhex(GOLDEN_A_CLEANED, &size);
    ol_batch batch = parse(bytes, size);
    OL_CHECK_INT(batch.record_count, 2);
    OL_CHECK_INT(batch.last_offset, 102);
    walk seen;
    OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_END);
    OL_CHECK_INT(seen.records[0].offset, 100);
    OL_CHECK_INT(seen.records[1].offset, 102);
    free(bytes);
}

OL_TEST(a_batch_is_after_a_bound_if_none_of_its_offsets_is_below) {
    ol_batch batch = {.base_offset = 10, .last_offset = 12, .record_count = 3};
    OL_CHECK(ol_batch_is_after(&batch, 0, 9) && ol_batch_is_after(&batch, 0, 10));
    OL_CHECK(!ol_batch_is_after(&batch, 0, 11));
    /* The offset of a wrapper is that of its last message: the first may be where the batch before it ended. */
    batch.record_count = -1;
    OL_CHECK(!ol_batch_is_after(&batch, 8, 9) && ol_batch_is_after(&batch, 9, 9));
    OL_CHECK(!ol_batch_is_after(&batch, 11, 11));
    batch.record_count = 1;
    batch.base_offset = batch.last_offset = INT64_MAX;
    OL_CHECK(!ol_batch_is_after(&batch, INT64_MAX, INT64_MAX));
}

OL_TEST(trap_11_empty_batches_and_empty_control_batches) {
    for (int control = 0; control < 2; control++) {
        for (int codec = 0; codec < 5; codec++) {
            size_t size;
            uint8_t *bytes = ol_test_unhex(GOLDEN_B_EMPTIED, &size);
            if (control) bytes[OL_BATCH_AT_ATTRIBUTES + 1] |= OL_ATTRIBUTE_CONTROL;
            bytes[OL_BATCH_AT_ATTRIBUTES + 1] |= (uint8_t)codec;    /* codec bits say nothing where there is no block */
            reseal(bytes, size);
            ol_batch batch = parse(bytes, size);
            OL_CHECK_INT(batch.size, 61);
            OL_CHECK_INT(batch.base_offset, 103);
            OL_CHECK_INT(batch.last_offset, 103);
            walk seen;
            OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_END);
            OL_CHECK_INT(seen.count, 0);
            free(bytes);
        }
    }
}

OL_TEST(trap_12_delete_horizon_timestamps) {
    static const char *const cleaned[] = {GOLDEN_A_CLEANED, GOLDEN_A_CLEANED_TWICE, GOLDEN_C_WITH_HORIZON};
    for (size_t k = 0; k < 3; k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(cleaned[k], &size);
        ol_batch batch = parse(bytes, size);
        OL_CHECK(ol_batch_has_horizon(&batch));
        OL_CHECK_INT(batch.base_timestamp, GOLDEN_HORIZON);
        walk seen;
        OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_END);
        OL_CHECK_INT(seen.records[0].timestamp, k == 2 ? GOLDEN_TIME + 1 : GOLDEN_TIME);
        free(bytes);
    }
}

OL_TEST(a_log_append_time_batch_has_one_timestamp) {
    size_t size;
    uint8_t *bytes = ol_test_unhex(GOLDEN_A_CLEANED, &size);
    bytes[OL_BATCH_AT_ATTRIBUTES + 1] |= OL_ATTRIBUTE_LOG_APPEND_TIME;
    ol_store_i64(bytes + OL_BATCH_AT_MAX_TIMESTAMP, 77);
    ol_batch batch = parse(bytes, size);
    walk seen;
    OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_END);
    OL_CHECK_INT(seen.records[0].timestamp, 77);
    OL_CHECK_INT(seen.records[1].timestamp, 77);
    free(bytes);
}

OL_TEST(headers_of_records) {
    static const uint8_t headers[] = {2, 'k', 4, 'v', 'w', 0, 1, 2, 'x', 0};
    uint8_t bytes[256];
    ol_slice key = ol_slice_of("key", 3), value = ol_slice_of("", 0);
    uint8_t *end = ol_record_put(bytes + OL_BATCH_AT_RECORDS, 0, 0, key, value, 3, ol_slice_of(headers, sizeof headers));
    OL_CHECK_INT(end - bytes - OL_BATCH_AT_RECORDS, ol_record_size(0, 0, 3, 0, 3, sizeof headers));
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, 9, GOLDEN_TIME);
    fields.record_count = 1;
    ol_batch_seal(bytes, end, &fields);
    ol_batch batch = parse(bytes, sizeof bytes);
    walk seen;
    OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_END);
    ol_record *record = &seen.records[0];
    OL_CHECK_INT(record->header_count, 3);
    OL_CHECK(record->value.data != NULL && record->value.size == 0);
    const uint8_t *cursor = record->headers.data, *limit = cursor + record->headers.size;
    ol_slice name, content;
    ol_error error;
    OL_CHECK_OK(ol_record_header_next(&cursor, limit, &name, &content, &error), &error);
    OL_CHECK(ol_slice_equal(name, ol_slice_of("k", 1)) && ol_slice_equal(content, ol_slice_of("vw", 2)));
    OL_CHECK_OK(ol_record_header_next(&cursor, limit, &name, &content, &error), &error);
    OL_CHECK(name.data != NULL && name.size == 0 && content.data == NULL);
    OL_CHECK_OK(ol_record_header_next(&cursor, limit, &name, &content, &error), &error);
    OL_CHECK(ol_slice_equal(name, ol_slice_of("x", 1)) && content.data != NULL && content.size == 0);
    OL_CHECK_INT(ol_record_header_next(&cursor, limit, &name, &content, &error), OL_END);
}

OL_TEST(what_the_header_refuses) {
    static const struct {
        int at, size;
        int64_t value;
        int status;
    } cases[] = {
        {OL_BATCH_AT_LENGTH, 4, 0, OL_CORRUPT},
        {OL_BATCH_AT_LENGTH, 4, -1, OL_CORRUPT},
        {OL_BATCH_AT_LENGTH, 4, INT32_MIN, OL_CORRUPT},
        {OL_BATCH_AT_LENGTH, 4, 13, OL_CORRUPT},
        {OL_BATCH_AT_LENGTH, 4, 48, OL_CORRUPT},
        {OL_BATCH_AT_LENGTH, 4, INT32_MAX, OL_TORN},
        {OL_BATCH_AT_LENGTH, 4, 191, OL_TORN},
        {OL_BATCH_AT_BASE_OFFSET, 8, -1, OL_CORRUPT},
        {OL_BATCH_AT_BASE_OFFSET, 8, INT64_MAX - 1, OL_CORRUPT},
        {OL_BATCH_AT_BASE_OFFSET, 8, INT64_MAX - 2, OL_OK},
        {OL_BATCH_AT_LAST_OFFSET_DELTA, 4, -1, OL_CORRUPT},
        {OL_BATCH_AT_LAST_OFFSET_DELTA, 4, 1, OL_CORRUPT},
        {OL_BATCH_AT_RECORD_COUNT, 4, -1, OL_CORRUPT},
        {OL_BATCH_AT_RECORD_COUNT, 4, INT32_MIN, OL_CORRUPT},
        {OL_BATCH_AT_RECORD_COUNT, 4, 4, OL_CORRUPT},
        {OL_BATCH_AT_ATTRIBUTES, 2, 5, OL_UNSUPPORTED},
        {OL_BATCH_AT_ATTRIBUTES, 2, 7, OL_UNSUPPORTED},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(GOLDEN_A, &size);
        uint8_t *at = bytes + cases[k].at;
        if (cases[k].size == 8) ol_store_i64(at, cases[k].value);
        if (cases[k].size == 4) ol_store_i32(at, (int32_t)cases[k].value);
        if (cases[k].size == 2) ol_store_i16(at, (int16_t)cases[k].value);
        OL_CHECK_INT(parse_status(bytes, size), cases[k].status);
        free(bytes);
    }
    uint8_t zeros[64] = {0};
    OL_CHECK_INT(parse_status(zeros, sizeof zeros), OL_CORRUPT);
}

/* A record area after the header of a batch with offsets 100 to 100 + last_delta. */
static int walk_area(const char *hex, int32_t count, int32_t last_delta) {
    size_t size;
    uint8_t *area = ol_test_unhex(hex, &size);
    uint8_t *bytes = malloc(OL_BATCH_OVERHEAD + size);
    memcpy(bytes + OL_BATCH_OVERHEAD, area, size);
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, 100, GOLDEN_TIME);
    fields.record_count = count;
    fields.last_offset_delta = last_delta;
    ol_batch_seal(bytes, bytes + OL_BATCH_OVERHEAD + size, &fields);
    ol_batch batch = parse(bytes, OL_BATCH_OVERHEAD + size);
    walk seen;
    int status = walk_batch(&batch, NULL, &seen);
    if (status == OL_END) OL_CHECK_INT(seen.count, count);
    free(bytes);
    free(area);
    return status;
}

OL_TEST(what_the_records_refuse) {
    OL_CHECK_INT(walk_area("0c000000010100", 1, 0), OL_END);                /* null key, null value */
    OL_CHECK_INT(walk_area("0c000000000000", 1, 0), OL_END);                /* empty key, empty value */
    OL_CHECK_INT(walk_area("0c0000000101000c000002010100", 2, 1), OL_END);
    OL_CHECK_INT(walk_area("0c0000020101000c000006010100", 2, 3), OL_END);  /* gaps before, between, after */
    OL_CHECK_INT(walk_area("0c0000000101000c000000010100", 2, 1), OL_CORRUPT);  /* the same offset twice */
    OL_CHECK_INT(walk_area("0c0000020101000c000000010100", 2, 1), OL_CORRUPT);  /* backwards */
    OL_CHECK_INT(walk_area("0c000001010100", 1, 0), OL_CORRUPT);            /* negative delta */
    OL_CHECK_INT(walk_area("0c000002010100", 1, 0), OL_CORRUPT);            /* above the last */
    OL_CHECK_INT(walk_area("14""00""00""feffffff0f""010100", 1, 0), OL_CORRUPT);
    OL_CHECK_INT(walk_area("0c000000010100ff", 1, 0), OL_CORRUPT);          /* a byte after the last record */
    OL_CHECK_INT(walk_area("", 1, 0), OL_CORRUPT);
    OL_CHECK_INT(walk_area("0c0000000101000c000002010100", 1, 1), OL_CORRUPT);  /* one record more */
    OL_CHECK_INT(walk_area("0c000000010100", 2, 1), OL_CORRUPT);            /* one fewer */
    OL_CHECK_INT(walk_area("0e000000010100", 1, 0), OL_CORRUPT);            /* the length passes the end */
    OL_CHECK_INT(walk_area("0e00000001010000", 1, 0), OL_CORRUPT);          /* a byte in a record after its fields */
    OL_CHECK_INT(walk_area("0a000000010100", 1, 0), OL_CORRUPT);
    OL_CHECK_INT(walk_area("00000000010100", 1, 0), OL_CORRUPT);            /* length 0 */
    OL_CHECK_INT(walk_area("01", 1, 0), OL_CORRUPT);                        /* length -1 */
    OL_CHECK_INT(walk_area("0c000000030100", 1, 0), OL_CORRUPT);            /* key length -2 */
    OL_CHECK_INT(walk_area("0c000000010300", 1, 0), OL_CORRUPT);            /* value length -2 */
    OL_CHECK_INT(walk_area("0c000000080100", 1, 0), OL_CORRUPT);            /* key passes the record */
    OL_CHECK_INT(walk_area("0c000000010101", 1, 0), OL_CORRUPT);            /* -1 headers */
    OL_CHECK_INT(walk_area("0c000000010102", 1, 0), OL_CORRUPT);            /* a header that is not there */
    OL_CHECK_INT(walk_area("1000000001010201""01", 1, 0), OL_CORRUPT);      /* a header with a null key */
    OL_CHECK_INT(walk_area("ffffffffff01", 1, 0), OL_CORRUPT);              /* a varint of six bytes */
    OL_CHECK_INT(walk_area("200080808080808080808080", 1, 0), OL_CORRUPT);
}

OL_TEST(a_batch_cut_at_every_length_is_torn) {
    for (size_t k = 0; k < COUNT_OF(golden); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(golden[k], &size);
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *copy = malloc(cut ? cut : 1);
            memcpy(copy, bytes, cut);
            ol_batch batch;
            ol_error error;
            OL_CHECK_INT(ol_batch_parse(copy, cut, &batch, &error), OL_TORN);
            OL_CHECK_INT(batch.size, cut < OL_BATCH_LOG_OVERHEAD ? 0 : size);
            free(copy);
        }
        free(bytes);
    }
}

/* Cut inside and labelled as whole: the sizes fit then, and the CRC must notice. */
OL_TEST(a_batch_cut_and_relabelled_fails_its_crc) {
    size_t size;
    uint8_t *bytes = ol_test_unhex(GOLDEN_A, &size);
    for (size_t cut = OL_BATCH_OVERHEAD; cut < size; cut++) {
        uint8_t *copy = malloc(cut);
        memcpy(copy, bytes, cut);
        ol_store_i32(copy + OL_BATCH_AT_LENGTH, (int32_t)(cut - OL_BATCH_LOG_OVERHEAD));
        ol_batch batch = parse(copy, cut);
        ol_error error;
        OL_CHECK_INT(ol_batch_check_crc(&batch, &error), OL_CORRUPT);
        walk seen;
        OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_CORRUPT);
        free(copy);
    }
    free(bytes);
}

OL_TEST(no_flipped_bit_passes_with_other_content) {
    stored_codec stored;
    ol_decompressor port = stored_port(&stored);
    for (size_t k = 0; k < COUNT_OF(golden); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(golden[k], &size);
        ol_batch original = parse(bytes, size);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            uint8_t *copy = malloc(size);
            memcpy(copy, bytes, size);
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
            ol_batch batch;
            ol_error error;
            if (ol_batch_parse(copy, size, &batch, &error) == OL_OK) {
                walk seen;
                walk_batch(&batch, &port, &seen);
                if (ol_batch_check_crc(&batch, &error) == OL_OK) {
                    /* Only what the log itself assigns is outside the CRC. */
                    OL_CHECK(bit / 8 < 8 || (bit / 8 >= 12 && bit / 8 < 16));
                    OL_CHECK_INT(batch.size, original.size);
                    OL_CHECK_INT(batch.record_count, original.record_count);
                }
            }
            free(copy);
        }
        free(bytes);
    }
    OL_CHECK_INT(stored.held, 0);
}

OL_TEST(compressed_batches_are_walked_through_the_port) {
    size_t size;
    uint8_t *bytes = ol_test_unhex(GOLDEN_A, &size);
    for (int codec = 1; codec <= 4; codec++) {
        uint8_t *copy = malloc(size + 1);
        memcpy(copy, bytes, OL_BATCH_OVERHEAD);
        copy[OL_BATCH_OVERHEAD] = 'S';
        memcpy(copy + OL_BATCH_OVERHEAD + 1, bytes + OL_BATCH_OVERHEAD, size - OL_BATCH_OVERHEAD);
        ol_store_i32(copy + OL_BATCH_AT_LENGTH, (int32_t)(size + 1 - OL_BATCH_LOG_OVERHEAD));
        copy[OL_BATCH_AT_ATTRIBUTES + 1] |= (uint8_t)codec;
        reseal(copy, size + 1);
        ol_batch batch = parse(copy, size + 1);
        walk seen;
        OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_UNSUPPORTED);
        stored_codec stored;
        ol_decompressor port = stored_port(&stored);
        OL_CHECK_INT(walk_batch(&batch, &port, &seen), OL_END);
        OL_CHECK_INT(seen.count, 3);
        OL_CHECK_INT(seen.last_offset, 102);
        OL_CHECK_INT(stored.last_codec, codec);
        OL_CHECK_INT(stored.last_magic, 2);
        port.limit = 10;
        OL_CHECK_INT(walk_batch(&batch, &port, &seen), OL_LIMIT);
        port.limit = OL_DECOMPRESSED_LIMIT_DEFAULT;
        copy[OL_BATCH_OVERHEAD] = 'X';
        OL_CHECK_INT(walk_batch(&batch, &port, &seen), OL_CORRUPT);
        copy[OL_BATCH_OVERHEAD] = 'S';
        copy[OL_BATCH_OVERHEAD + 1] = 0x0e;     /* a wrong record length inside */
        OL_CHECK_INT(walk_batch(&batch, &port, &seen), OL_CORRUPT);
        OL_CHECK_INT(stored.held, 0);
        free(copy);
    }
    free(bytes);
}

static ol_slice random_slice(size_t size_max) {
    if (ol_test_below(8) == 0) return ol_slice_null();
    size_t size = ol_test_below(4) == 0 ? ol_test_below(size_max) : ol_test_below(40);
    uint8_t *bytes = malloc(size ? size : 1);
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)ol_test_random();
    return ol_slice_of(bytes, size);
}

OL_TEST(random_batches_come_back_as_they_were) {
    for (int round = 0; round < 300; round++) {
        int count = (int)ol_test_below(30);
        ol_slice keys[30], values[30];
        int64_t deltas[30];
        int32_t offsets[30], offset = 0;
        uint8_t *bytes = malloc(30 * 40100 + 100), *p = bytes + OL_BATCH_AT_RECORDS;
        for (int i = 0; i < count; i++) {
            keys[i] = random_slice(20000);
            values[i] = random_slice(20000);
            deltas[i] = (int64_t)(ol_test_random() >> ol_test_below(64)) * (ol_test_below(2) ? 1 : -1);
            offset += (int32_t)ol_test_below(3) == 0 ? (int32_t)ol_test_below(100000) : 0;
            offsets[i] = offset++;
            p = ol_record_put(p, deltas[i], offsets[i], keys[i], values[i], 0, ol_slice_null());
        }
        ol_batch_fields fields;
        ol_batch_fields_init(&fields, (int64_t)(ol_test_random() >> 2), GOLDEN_TIME);
        fields.record_count = count;
        fields.last_offset_delta = offset + (int32_t)ol_test_below(3);
        ol_batch_seal(bytes, p, &fields);
        ol_batch batch = parse(bytes, (size_t)(p - bytes));
        ol_error error;
        OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
        ol_records records;
        ol_record record;
        OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &error), &error);
        for (int i = 0; i < count; i++) {
            OL_CHECK_OK(ol_records_next(&records, &record, &error), &error);
            OL_CHECK_INT(record.offset, fields.base_offset + offsets[i]);
            OL_CHECK_INT(record.timestamp, (int64_t)((uint64_t)GOLDEN_TIME + (uint64_t)deltas[i]));
            OL_CHECK(ol_slice_equal(record.key, keys[i]) && (record.key.data == NULL) == (keys[i].data == NULL));
            OL_CHECK(ol_slice_equal(record.value, values[i]) && (record.value.data == NULL) == (values[i].data == NULL));
            free((void *)(uintptr_t)keys[i].data);
            free((void *)(uintptr_t)values[i].data);
        }
        OL_CHECK_INT(ol_records_next(&records, &record, &error), OL_END);
        ol_records_close(&records);
        free(bytes);
    }
}

/* Whatever stands there: one that is taken for a sole record is what the walk finds, and all of it. */
static bool check_sole(const uint8_t *bytes, size_t size) {
    ol_batch batch;
    ol_error error;
    ol_record record;
    walk seen;
    if (ol_batch_parse(bytes, size, &batch, &error) != OL_OK || !ol_records_sole(&batch, &record)) return false;
    OL_CHECK_INT(walk_batch(&batch, NULL, &seen), OL_END);
    OL_CHECK_INT(seen.count, 1);
    const ol_record *walked = &seen.records[0];
    OL_CHECK(record.key.data == walked->key.data && record.key.size == walked->key.size);
    OL_CHECK(record.value.data == walked->value.data && record.value.size == walked->value.size);
    OL_CHECK(record.headers.data == walked->headers.data && record.headers.size == walked->headers.size);
    OL_CHECK(record.offset == walked->offset && record.timestamp == walked->timestamp && record.header_count == walked->header_count);
    OL_CHECK(record.attributes == walked->attributes && record.magic == walked->magic);
    return true;
}

OL_TEST(a_sole_record_is_what_the_walk_finds) {
    int taken = 0;
    for (size_t i = 0; i < COUNT_OF(golden); i++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(golden[i], &size);
        uint8_t *exact = malloc(size);
        memcpy(exact, bytes, size);
        ol_batch batch = parse(exact, size);
        OL_CHECK_INT(check_sole(exact, size), batch.record_count == 1 && !ol_batch_has_horizon(&batch));
        for (size_t at = OL_BATCH_AT_ATTRIBUTES; at < size; at++) {
            for (unsigned value = 0; value < 256; value++) {
                exact[at] = (uint8_t)value;
                taken += check_sole(exact, size);
            }
            exact[at] = bytes[at];
        }
        free(exact);
        free(bytes);
    }
    OL_CHECK(taken > 10000);
}

OL_TEST_MAIN()
