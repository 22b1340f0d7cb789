/* format/batch_write: the bytes of records, headers and markers (docs/format/batches.md §2.1, §2.2, §2.5), written out, and that nothing else is touched.  That what is
 * written is read again as it was is in test_batch.c. */
#include "golden_batches.h"
#include "format/batch_write.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "ol_test.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

enum { GUARD = 0xa5 };

static ol_slice text(const char *string) { return string == NULL ? ol_slice_null() : ol_slice_of(string, strlen(string)); }

/* ------------------------------------------------------------------------------------------------ records */

typedef struct record_case {
    int64_t timestamp_delta;
    int32_t offset_delta;
    const char *key, *value;
    int32_t header_count;
    const char *headers;
    const char *hex;
} record_case;

static const record_case record_cases[] = {
    {0, 0, "k", NULL, 0, "", "0e000000" "026b" "01" "00"},                      /* null, a tombstone */
    {0, 0, "k", "", 0, "", "0e000000" "026b" "00" "00"},                        /* empty, which null is not */
    {0, 0, NULL, "v", 0, "", "0e000000" "01" "0276" "00"},
    {-1, 64, NULL, "", 0, "", "0e00" "01" "8001" "01" "00" "00"},               /* zigzag: -1 is 1, 64 is 128 */
    {INT64_C(86401000), 1, "", "", 0, "", "1200" "d0ffb252" "02" "00" "00" "00"},
    {0, 0, "k", "v", 1, "\x02h\x02v", "18000000" "026b" "0276" "02" "02680276"},
    {0, 0, "k", "v", 2, "\x02h\x01\x02i\x01", "1c000000" "026b" "0276" "04" "026801" "026901"},
};

OL_TEST(a_record_is_written_byte_for_byte) {
    for (size_t k = 0; k < COUNT_OF(record_cases); k++) {
        const record_case *c = &record_cases[k];
        size_t size;
        uint8_t *expected = ol_test_unhex(c->hex, &size);
        uint8_t *written = malloc(size);        /* exactly as large: a sanitizer sees a byte past it */
        uint8_t *end = ol_record_put(written, c->timestamp_delta, c->offset_delta, text(c->key), text(c->value), c->header_count,
                                     text(c->headers));
        OL_CHECK_INT(end - written, size);
        OL_CHECK(memcmp(written, expected, size) == 0);
        free(written);
        free(expected);
    }
}

/* The length of a record and that of its value each take a byte more from 64, 8192 and 1048576 on. */
OL_TEST(lengths_grow_by_a_byte_where_they_must) {
    static const size_t edges[] = {64, 8192, 1048576};
    uint8_t *value = calloc(1, 1048576 + 64), *written = malloc(1048576 + 128);
    for (size_t k = 0; k < COUNT_OF(edges); k++) {
        for (size_t size = edges[k] - 32; size < edges[k] + 32; size++) {
            memset(value, (int)size & 0xff, size);
            uint8_t *end = ol_record_put(written, 0, 0, text("k"), ol_slice_of(value, size), 0, ol_slice_null());
            size_t body = 5 + ol_varint_size((int32_t)size) + size + 1;
            OL_CHECK_INT(end - written, ol_varint_size((int32_t)body) + body);
            int32_t length, value_size;
            const uint8_t *p = ol_read_varint(written, end, &length);
            OL_CHECK(p != NULL && length == (int32_t)body);
            p = ol_read_varint(p + 5, end, &value_size);
            OL_CHECK(p != NULL && value_size == (int32_t)size && memcmp(p, value, size) == 0);
            OL_CHECK_INT(end[-1], 0);
        }
    }
    free(value);
    free(written);
}

/* ------------------------------------------------------------------------------------------------ headers of batches */

OL_TEST(a_plain_batch_is_a_coordinators) {
    ol_batch_fields fields;
    memset(&fields, GUARD, sizeof fields);
    ol_batch_fields_init(&fields, 7, GOLDEN_TIME);
    OL_CHECK(fields.base_offset == 7 && fields.base_timestamp == GOLDEN_TIME && fields.max_timestamp == GOLDEN_TIME);
    OL_CHECK(fields.producer_id == -1 && fields.producer_epoch == -1 && fields.leader_epoch == -1);
    OL_CHECK(fields.base_sequence == 0);        /* docs/format/traps.md trap 6 */
    OL_CHECK(fields.attributes == 0 && fields.record_count == 0 && fields.last_offset_delta == 0);
}

static const ol_batch_fields every_field = {
    .base_offset = INT64_C(0x0102030405060708),
    .base_timestamp = INT64_C(0x1112131415161718),
    .max_timestamp = INT64_C(0x2122232425262728),
    .producer_id = INT64_C(0x3132333435363738),
    .leader_epoch = 0x41424344,
    .base_sequence = 0x51525354,
    .last_offset_delta = 0x61626364,
    .record_count = 3,
    .producer_epoch = 0x7172,
    .attributes = OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_DELETE_HORIZON,
};

/* Each field once, at the place that docs/format/batches.md §2.1 gives it; the records after the header and the bytes
 * around the batch stay. */
OL_TEST(seal_writes_each_field_at_its_place_and_nothing_else) {
    enum { AROUND = 16, RECORDS = 40, SIZE = OL_BATCH_OVERHEAD + RECORDS };
    uint8_t bytes[AROUND + SIZE + AROUND], *start = bytes + AROUND;
    memset(bytes, GUARD, sizeof bytes);
    ol_batch_seal(start, start + SIZE, &every_field);
    size_t size;
    uint8_t *expected = ol_test_unhex("0102030405060708" "00000059" "41424344" "02" "00000000" "0050" "61626364" "1112131415161718"
                                      "2122232425262728" "3132333435363738" "7172" "51525354" "00000003", &size);
    OL_CHECK_INT(size, OL_BATCH_OVERHEAD);
    uint32_t crc = ol_crc32c(start + 21, SIZE - 21);
    ol_store_u32(expected + 17, crc);
    OL_CHECK(memcmp(start, expected, size) == 0);
    for (size_t i = 0; i < AROUND; i++) OL_CHECK(bytes[i] == GUARD && bytes[AROUND + SIZE + i] == GUARD);
    for (size_t i = OL_BATCH_OVERHEAD; i < SIZE; i++) OL_CHECK(start[i] == GUARD);
    free(expected);
}

OL_TEST(a_batch_without_records_is_its_header) {
    uint8_t bytes[OL_BATCH_OVERHEAD];
    ol_batch_fields fields;
    ol_batch batch;
    ol_error error;
    ol_batch_fields_init(&fields, 9, GOLDEN_TIME);
    fields.last_offset_delta = 4;       /* as compaction leaves it of five records */
    ol_batch_seal(bytes, bytes + sizeof bytes, &fields);
    OL_CHECK_OK(ol_batch_parse(bytes, sizeof bytes, &batch, &error), &error);
    OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
    OL_CHECK(batch.last_offset == 13 && batch.record_count == 0 && batch.size == OL_BATCH_OVERHEAD);
}

/* A log that appends a batch sealed by somebody else changes two fields; the checksum goes on to hold
 * (docs/format/traps.md trap 5). */
OL_TEST(assign_changes_offset_and_epoch_alone) {
    size_t size;
    uint8_t *bytes = ol_test_unhex(GOLDEN_A, &size), *before = ol_test_unhex(GOLDEN_A, &size);
    ol_batch_assign(bytes, INT64_C(0x0102030405060708), 0x11121314);
    for (size_t i = 0; i < size; i++) {
        if (i < 8) OL_CHECK_INT(bytes[i], i + 1);
        else if (i >= 12 && i < 16) OL_CHECK_INT(bytes[i], 0x11 + i - 12);
        else OL_CHECK_INT(bytes[i], before[i]);
    }
    ol_batch batch;
    ol_error error;
    OL_CHECK_OK(ol_batch_parse(bytes, size, &batch, &error), &error);
    OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
    ol_batch_assign(bytes, 100, 6);
    OL_CHECK(memcmp(bytes, before, size) == 0);
    free(bytes);
    free(before);
}

/* ------------------------------------------------------------------------------------------------ markers */

OL_TEST(a_marker_is_written_byte_for_byte_into_78_bytes) {
    static const struct {
        const char *hex;
        int64_t offset, timestamp;
        ol_control type;
    } markers[] = {{GOLDEN_C, 104, GOLDEN_TIME + 1, OL_CONTROL_COMMIT}, {GOLDEN_D, 105, GOLDEN_TIME + 2, OL_CONTROL_ABORT}};
    for (size_t k = 0; k < COUNT_OF(markers); k++) {
        size_t size;
        uint8_t *expected = ol_test_unhex(markers[k].hex, &size);
        OL_CHECK_INT(size, OL_BATCH_MARKER_SIZE);
        ol_control type;
        int32_t coordinator_epoch;
        uint8_t *written = malloc(size);
        ol_batch batch;
        ol_records records;
        ol_record record;
        ol_error error;
        OL_CHECK_OK(ol_batch_parse(expected, size, &batch, &error), &error);
        OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &error), &error);
        OL_CHECK_OK(ol_records_next(&records, &record, &error), &error);
        OL_CHECK_OK(ol_control_decode(&record, &type, &coordinator_epoch, &error), &error);
        OL_CHECK_INT(type, markers[k].type);
        OL_CHECK_INT(ol_batch_put_marker(written, markers[k].offset, 6, markers[k].timestamp, 4000, 2, type, coordinator_epoch), size);
        OL_CHECK(memcmp(written, expected, size) == 0);
        ol_records_close(&records);
        free(written);
        free(expected);
    }
}

/* The size of a marker does not depend on what it says. */
OL_TEST(the_largest_numbers_fit_a_marker) {
    uint8_t *written = malloc(OL_BATCH_MARKER_SIZE);
    ol_batch batch;
    ol_error error;
    ol_batch_put_marker(written, INT64_MAX, INT32_MAX, INT64_MAX, INT64_MAX, INT16_MAX, OL_CONTROL_ABORT, INT32_MAX);
    OL_CHECK_OK(ol_batch_parse(written, OL_BATCH_MARKER_SIZE, &batch, &error), &error);
    OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
    OL_CHECK(batch.base_offset == INT64_MAX && batch.producer_id == INT64_MAX && batch.base_sequence == -1);
    OL_CHECK(ol_batch_is_control(&batch) && ol_batch_is_transactional(&batch));
    free(written);
}

OL_TEST_MAIN()
