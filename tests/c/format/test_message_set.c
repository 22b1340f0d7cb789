/* Messages of magic 0 and 1: the vectors of docs/format/batches.md §2.8, wrappers with and without gaps, and what is refused. */
#include "format/batch.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "ol_test.h"
#include "stored_codec.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define TIME INT64_C(1700000000000)
#define MAGIC_0 "0000000000000007000000101fecd70a0000000000016b0000000176"
#define MAGIC_1 "00000000000000070000001839268c3301000000018bcfe56800000000016b0000000176"

enum { MESSAGE_ROOM = 4096 };

/* Writes a message and returns its end; a NULL slice is null. */
static uint8_t *put_message(uint8_t *p, int magic, int64_t offset, uint8_t attributes, int64_t timestamp, ol_slice key,
                            ol_slice value) {
    uint8_t *start = p;
    ol_store_i64(p, offset);
    p[16] = (uint8_t)magic;
    p[17] = attributes;
    p += 18;
    if (magic == 1) {
        ol_store_i64(p, timestamp);
        p += 8;
    }
    const ol_slice parts[2] = {key, value};
    for (int i = 0; i < 2; i++) {
        ol_store_i32(p, parts[i].data == NULL ? -1 : (int32_t)parts[i].size);
        p += 4;
        if (parts[i].size > 0) memcpy(p, parts[i].data, parts[i].size);
        p += parts[i].size;
    }
    ol_store_i32(start + 8, (int32_t)(p - start - 12));
    ol_store_u32(start + 12, ol_crc32(start + 16, (size_t)(p - start - 16)));
    return p;
}

static ol_slice text(const char *characters) { return ol_slice_of(characters, strlen(characters)); }

/* A wrapper whose block is 'S' and the messages (see stored_codec). */
typedef struct wrapper {
    uint8_t block[MESSAGE_ROOM];
    uint8_t bytes[MESSAGE_ROOM + 64];
    uint8_t *end;           /* of the block */
    size_t size;
} wrapper;

static void wrapper_start(wrapper *w) {
    w->block[0] = 'S';
    w->end = w->block + 1;
}

static void wrapper_seal(wrapper *w, int magic, int64_t offset, uint8_t attributes, int64_t timestamp) {
    ol_slice block = ol_slice_of(w->block, (size_t)(w->end - w->block));
    w->size = (size_t)(put_message(w->bytes, magic, offset, attributes, timestamp, ol_slice_null(), block) - w->bytes);
}

typedef struct walk {
    int count;
    int64_t offsets[16], timestamps[16];
    char first_of_value[16];
} walk;

static int walk_bytes(const uint8_t *bytes, size_t size, walk *seen, size_t limit) {
    stored_codec stored;
    ol_decompressor port = stored_port(&stored);
    if (limit != 0) port.limit = limit;
    memset(seen, 0, sizeof *seen);
    ol_error error;
    ol_batch batch;
    ol_records records;
    int status = ol_batch_parse(bytes, size, &batch, &error);
    if (status == OL_OK) status = ol_batch_check_crc(&batch, &error);
    if (status == OL_OK) status = ol_records_open(&records, &batch, &port, &error);
    if (status != OL_OK) {
        OL_CHECK_INT(stored.held, 0);
        return status;
    }
    ol_record record;
    while ((status = ol_records_next(&records, &record, &error)) == OL_OK) {
        OL_CHECK(seen->count < 16);
        seen->offsets[seen->count] = record.offset;
        seen->timestamps[seen->count] = record.timestamp;
        seen->first_of_value[seen->count] = record.value.size > 0 ? (char)record.value.data[0] : 0;
        seen->count++;
    }
    ol_records_close(&records);
    OL_CHECK_INT(stored.held, 0);
    return status;
}

static int walk_wrapper(const wrapper *w, walk *seen) { return walk_bytes(w->bytes, w->size, seen, 0); }

OL_TEST(vectors_of_the_specification) {
    for (int magic = 0; magic < 2; magic++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(magic == 0 ? MAGIC_0 : MAGIC_1, &size);
        ol_batch batch;
        ol_error error;
        OL_CHECK_OK(ol_batch_parse(bytes, size, &batch, &error), &error);
        OL_CHECK_INT(batch.magic, magic);
        OL_CHECK_INT(batch.size, size);
        OL_CHECK_INT(batch.base_offset, 7);
        OL_CHECK_INT(batch.last_offset, 7);
        OL_CHECK_INT(batch.record_count, 1);
        OL_CHECK_INT(batch.producer_id, -1);
        OL_CHECK_INT(batch.leader_epoch, -1);
        OL_CHECK_INT(batch.max_timestamp, magic == 0 ? -1 : TIME);
        OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
        ol_records records;
        ol_record record;
        OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &error), &error);
        OL_CHECK_OK(ol_records_next(&records, &record, &error), &error);
        OL_CHECK_INT(record.offset, 7);
        OL_CHECK_INT(record.timestamp, magic == 0 ? -1 : TIME);
        OL_CHECK_INT(record.magic, magic);
        OL_CHECK(ol_slice_equal(record.key, text("k")) && ol_slice_equal(record.value, text("v")));
        OL_CHECK_INT(record.header_count, 0);
        OL_CHECK_INT(ol_records_next(&records, &record, &error), OL_END);
        ol_records_close(&records);
        uint8_t written[64];
        OL_CHECK_INT(put_message(written, magic, 7, 0, TIME, text("k"), text("v")) - written, size);
        OL_CHECK(memcmp(written, bytes, size) == 0);
        free(bytes);
    }
}

OL_TEST(null_key_and_null_value) {
    for (int magic = 0; magic < 2; magic++) {
        uint8_t bytes[64];
        size_t size = (size_t)(put_message(bytes, magic, 0, 0, TIME, ol_slice_null(), ol_slice_null()) - bytes);
        ol_batch batch;
        ol_error error;
        ol_records records;
        ol_record record;
        OL_CHECK_OK(ol_batch_parse(bytes, size, &batch, &error), &error);
        OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &error), &error);
        OL_CHECK_OK(ol_records_next(&records, &record, &error), &error);
        OL_CHECK(record.key.data == NULL && record.value.data == NULL);
        ol_records_close(&records);
    }
}

OL_TEST(a_wrapper_of_magic_0_has_absolute_offsets) {
    wrapper w;
    walk seen;
    wrapper_start(&w);
    w.end = put_message(w.end, 0, 20, 0, 0, text("k"), text("a"));
    w.end = put_message(w.end, 0, 22, 0, 0, text("k"), text("b"));
    wrapper_seal(&w, 0, 22, OL_CODEC_GZIP, 0);
    OL_CHECK_INT(walk_wrapper(&w, &seen), OL_END);
    OL_CHECK_INT(seen.count, 2);
    OL_CHECK_INT(seen.offsets[0], 20);
    OL_CHECK_INT(seen.offsets[1], 22);
    OL_CHECK_INT(seen.timestamps[0], -1);
}

OL_TEST(a_wrapper_of_magic_1_has_relative_offsets_and_gaps) {
    static const int64_t inner[] = {0, 3, 4};
    wrapper w;
    walk seen;
    wrapper_start(&w);
    for (int i = 0; i < 3; i++) w.end = put_message(w.end, 1, inner[i], 0, TIME + i, text("k"), text("abc" + i));
    wrapper_seal(&w, 1, 104, OL_CODEC_SNAPPY, TIME + 9);
    OL_CHECK_INT(walk_wrapper(&w, &seen), OL_END);
    OL_CHECK_INT(seen.count, 3);
    for (int i = 0; i < 3; i++) {
        OL_CHECK_INT(seen.offsets[i], 100 + inner[i]);
        OL_CHECK_INT(seen.timestamps[i], TIME + i);
        OL_CHECK_INT(seen.first_of_value[i], "abc"[i]);
    }
}

OL_TEST(a_wrapper_of_a_single_message) {
    wrapper w;
    walk seen;
    wrapper_start(&w);
    w.end = put_message(w.end, 1, 0, 0, TIME, text("k"), text("a"));
    wrapper_seal(&w, 1, 55, OL_CODEC_LZ4, TIME);
    OL_CHECK_INT(walk_wrapper(&w, &seen), OL_END);
    OL_CHECK_INT(seen.count, 1);
    OL_CHECK_INT(seen.offsets[0], 55);
}

OL_TEST(log_append_time_of_a_wrapper_overrides) {
    wrapper w;
    walk seen;
    wrapper_start(&w);
    w.end = put_message(w.end, 1, 0, 0, TIME, text("k"), text("a"));
    w.end = put_message(w.end, 1, 1, 0, TIME + 1, text("k"), text("b"));
    wrapper_seal(&w, 1, 1, OL_CODEC_GZIP | OL_ATTRIBUTE_LOG_APPEND_TIME, 4711);
    OL_CHECK_INT(walk_wrapper(&w, &seen), OL_END);
    OL_CHECK_INT(seen.timestamps[0], 4711);
    OL_CHECK_INT(seen.timestamps[1], 4711);
}

OL_TEST(a_wrapper_that_inflates_to_nothing_or_to_too_much) {
    wrapper w;
    walk seen;
    wrapper_start(&w);
    wrapper_seal(&w, 1, 5, OL_CODEC_GZIP, TIME);
    OL_CHECK_INT(walk_wrapper(&w, &seen), OL_CORRUPT);
    w.end = put_message(w.end, 1, 0, 0, TIME, text("k"), text("a"));
    wrapper_seal(&w, 1, 5, OL_CODEC_GZIP, TIME);
    OL_CHECK_INT(walk_bytes(w.bytes, w.size, &seen, 10), OL_LIMIT);
    OL_CHECK_INT(walk_wrapper(&w, &seen), OL_END);
    w.block[0] = 'X';
    wrapper_seal(&w, 1, 5, OL_CODEC_GZIP, TIME);
    OL_CHECK_INT(walk_wrapper(&w, &seen), OL_CORRUPT);
    size_t size = (size_t)(put_message(w.bytes, 1, 5, OL_CODEC_GZIP, TIME, ol_slice_null(), ol_slice_null()) - w.bytes);
    OL_CHECK_INT(walk_bytes(w.bytes, size, &seen, 0), OL_CORRUPT);
    wrapper_start(&w);
    w.end = put_message(w.end, 1, 0, 0, TIME, text("k"), text("a"));
    wrapper_seal(&w, 1, 5, OL_CODEC_GZIP, TIME);
    ol_batch batch;
    ol_records records;
    ol_error error;
    OL_CHECK_OK(ol_batch_parse(w.bytes, w.size, &batch, &error), &error);
    OL_CHECK_INT(batch.record_count, -1);
    OL_CHECK_INT(ol_records_open(&records, &batch, NULL, &error), OL_UNSUPPORTED);
}

OL_TEST(inner_messages_that_are_wrong) {
    wrapper w;
    walk seen;
    /* itself compressed */
    wrapper_start(&w);
    w.end = put_message(w.end, 1, 0, OL_CODEC_GZIP, TIME, text("k"), text("a"));
    wrapper_seal(&w, 1, 5, OL_CODEC_GZIP, TIME);
    OL_CHECK_INT(walk_wrapper(&w, &seen), OL_CORRUPT);
    /* offsets that do not grow */
    wrapper_start(&w);
    w.end = put_message(w.end, 1, 1, 0, TIME, text("k"), text("a"));
    w.end = put_message(w.end, 1, 1, 0, TIME, text("k"), text("a"));
    wrapper_seal(&w, 1, 5, OL_CODEC_GZIP, TIME);
    OL_CHECK_INT(walk_wrapper(&w, &seen), OL_CORRUPT);
    /* an offset above the wrapper's, absolute and relative */
    for (int magic = 0; magic < 2; magic++) {
        wrapper_start(&w);
        w.end = put_message(w.end, magic, 6, 0, TIME, text("k"), text("a"));
        wrapper_seal(&w, magic, 5, OL_CODEC_GZIP, TIME);
        OL_CHECK_INT(walk_wrapper(&w, &seen), OL_CORRUPT);
    }
    /* a wrong checksum: what came before it is sound */
    wrapper_start(&w);
    w.end = put_message(w.end, 1, 0, 0, TIME, text("k"), text("a"));
    uint8_t *second = w.end;
    w.end = put_message(w.end, 1, 1, 0, TIME, text("k"), text("b"));
    second[13] ^= 1;
    wrapper_seal(&w, 1, 5, OL_CODEC_GZIP, TIME);
    OL_CHECK_INT(walk_wrapper(&w, &seen), OL_CORRUPT);
    OL_CHECK_INT(seen.count, 1);
    /* cut at every length */
    second[13] ^= 1;
    uint8_t *end = w.end;
    for (w.end = w.block + 1; w.end < end; w.end++) {
        wrapper_seal(&w, 1, 5, OL_CODEC_GZIP, TIME);
        OL_CHECK_INT(walk_wrapper(&w, &seen), w.end == second ? OL_END : OL_CORRUPT);
    }
}

OL_TEST(codecs_that_old_messages_cannot_have) {
    uint8_t bytes[64];
    for (int codec = 4; codec < 8; codec++) {
        size_t size = (size_t)(put_message(bytes, 1, 5, (uint8_t)codec, TIME, ol_slice_null(), text("S")) - bytes);
        ol_batch batch;
        ol_error error;
        OL_CHECK_INT(ol_batch_parse(bytes, size, &batch, &error), OL_UNSUPPORTED);
    }
    /* The bits of magic 2 mean nothing here. */
    size_t size = (size_t)(put_message(bytes, 1, 5, 0xf0, TIME, ol_slice_null(), text("S")) - bytes);
    ol_batch batch;
    ol_error error;
    OL_CHECK_OK(ol_batch_parse(bytes, size, &batch, &error), &error);
    OL_CHECK(!ol_batch_is_control(&batch) && !ol_batch_is_transactional(&batch) && !ol_batch_has_horizon(&batch));
}

OL_TEST(sizes_inside_a_message) {
    static const struct {
        int at;
        int32_t value;
    } cases[] = {{26, -2}, {26, 2}, {26, 0}, {26, INT32_MAX}, {26, INT32_MIN}, {31, -2}, {31, -1}, {31, 0}, {31, 2}, {31, INT32_MAX}};
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        uint8_t bytes[36];
        uint8_t *end = put_message(bytes, 1, 5, 0, TIME, text("k"), text("v"));
        OL_CHECK_INT(end - bytes, sizeof bytes);
        ol_store_i32(bytes + cases[k].at, cases[k].value);
        ol_store_u32(bytes + 12, ol_crc32(bytes + 16, sizeof bytes - 16));
        walk seen;
        OL_CHECK_INT(walk_bytes(bytes, sizeof bytes, &seen, 0), OL_CORRUPT);
    }
}

OL_TEST(a_message_cut_at_every_length_and_with_every_bit_flipped) {
    wrapper w;
    wrapper_start(&w);
    w.end = put_message(w.end, 1, 0, 0, TIME, text("key"), text("a"));
    w.end = put_message(w.end, 1, 2, 0, TIME, text("key"), text("b"));
    for (int magic = 0; magic < 3; magic++) {
        size_t size;
        uint8_t *bytes;
        if (magic < 2) {
            bytes = ol_test_unhex(magic == 0 ? MAGIC_0 : MAGIC_1, &size);
        } else {
            wrapper_seal(&w, 1, 50, OL_CODEC_GZIP, TIME);
            size = w.size;
            bytes = malloc(size);
            memcpy(bytes, w.bytes, size);
        }
        walk seen;
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *copy = malloc(cut ? cut : 1);
            memcpy(copy, bytes, cut);
            OL_CHECK_INT(walk_bytes(copy, cut, &seen, 0), OL_TORN);
            free(copy);
        }
        for (size_t bit = 0; bit < 8 * size; bit++) {
            uint8_t *copy = malloc(size);
            memcpy(copy, bytes, size);
            copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
            int status = walk_bytes(copy, size, &seen, 0);
            /* The offset is outside the CRC; where it is negative or below the inner ones it is noticed. */
            OL_CHECK(status != OL_END || bit < 64);
            free(copy);
        }
        free(bytes);
    }
}

OL_TEST_MAIN()
