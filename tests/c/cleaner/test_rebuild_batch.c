/* One batch, of which some records go: the golden bytes of docs/format/vectors.md §14.2, both magics, compression, and batches that stay as they are. */
#include "cleaner/rebuild_batch.h"

#include "golden_batches.h"
#include "base/bytes.h"
#include "format/batch_write.h"
#include "format/message_set.h"
#include "ol_test.h"
#include "stored_codec.h"

static ol_batch parse(const uint8_t *data, size_t size) {
    ol_batch batch;
    ol_error error;
    OL_CHECK_OK(ol_batch_parse(data, size, &batch, &error), &error);
    OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
    return batch;
}

static int stored_compress(void *context, ol_codec codec, int magic, ol_slice input, ol_slice *output, ol_error *error) {
    (void)codec;
    OL_CHECK_INT(magic, 2);
    if (context == NULL) return ol_fail(error, OL_UNSUPPORTED, "asked to fail");
    uint8_t *block = malloc(input.size + 1);
    block[0] = 'S';
    memcpy(block + 1, input.data, input.size);
    *output = ol_slice_of(block, input.size + 1);
    ++*(int *)context;
    return OL_OK;
}

static void stored_give_back(void *context, ol_slice output) {
    --*(int *)context;
    free((void *)(uintptr_t)output.data);
}

static ol_clean_result apply(const ol_batch *batch, int64_t count, ol_clean_choice choice, uint64_t kept, ol_clean_output *output) {
    ol_clean_result result;
    ol_error error;
    choice.kept = &kept;
    choice.kept_count = __builtin_popcountll(kept);
    OL_CHECK_OK(ol_clean_batch_apply(batch, count, &choice, NULL, NULL, output, &result, &error), &error);
    return result;
}

/* The rest of a golden batch is another one. */
static void check_golden(const char *before, uint64_t kept, ol_clean_choice choice, const char *after) {
    size_t size, expected_size;
    uint8_t *data = ol_test_unhex(before, &size), *expected = ol_test_unhex(after, &expected_size);
    ol_batch batch = parse(data, size);
    ol_clean_output output = {0};
    OL_CHECK_INT(apply(&batch, batch.record_count, choice, kept, &output), OL_CLEAN_REBUILT);
    OL_CHECK_INT(output.size, expected_size);
    OL_CHECK(memcmp(output.data, expected, expected_size) == 0);
    OL_CHECK_INT(output.max_timestamp, parse(output.data, output.size).max_timestamp);
    ol_clean_output_free(&output);
    free(data);
    free(expected);
}

OL_TEST(golden_bytes) {
    ol_clean_choice plain = {.new_horizon = -1};
    check_golden(GOLDEN_A, 5, (ol_clean_choice){.new_horizon = GOLDEN_HORIZON}, GOLDEN_A_CLEANED);
    check_golden(GOLDEN_A_CLEANED, 1, plain, GOLDEN_A_CLEANED_TWICE);
    check_golden(GOLDEN_B, 0, (ol_clean_choice){.retain_empty = true, .new_horizon = -1}, GOLDEN_B_EMPTIED);
    check_golden(GOLDEN_C, 1, (ol_clean_choice){.new_horizon = GOLDEN_HORIZON}, GOLDEN_C_WITH_HORIZON);
}

OL_TEST(what_stays_whole_stays_as_it_is) {
    static const char *const golden[] = {GOLDEN_A, GOLDEN_B, GOLDEN_C, GOLDEN_D, GOLDEN_A_CLEANED, GOLDEN_C_WITH_HORIZON};
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        size_t size;
        uint8_t *data = ol_test_unhex(golden[i], &size);
        ol_batch batch = parse(data, size);
        ol_clean_output output = {0};
        ol_clean_choice choice = {.retain_empty = true, .new_horizon = -1};
        uint64_t all = (UINT64_C(1) << batch.record_count) - 1;
        OL_CHECK_INT(apply(&batch, batch.record_count, choice, all, &output), OL_CLEAN_VERBATIM);
        choice.retain_empty = false;
        OL_CHECK_INT(apply(&batch, batch.record_count, choice, 0, &output), OL_CLEAN_DROPPED);
        OL_CHECK(output.data == NULL);
        free(data);
    }
    size_t size;
    uint8_t *data = ol_test_unhex(GOLDEN_B_EMPTIED, &size);
    ol_batch batch = parse(data, size);
    ol_clean_output output = {0};
    OL_CHECK_INT(apply(&batch, 0, (ol_clean_choice){.retain_empty = true, .new_horizon = -1}, 0, &output), OL_CLEAN_VERBATIM);
    OL_CHECK_INT(apply(&batch, 0, (ol_clean_choice){.new_horizon = -1}, 0, &output), OL_CLEAN_DROPPED);
    ol_clean_output_free(&output);
    free(data);
}

/* ------------------------------------------------------------------------------------------------ made batches */

typedef struct made {
    uint8_t data[4096];
    size_t size;
    ol_batch batch;
} made;

/* Records at odd offset deltas with keys "k0" ..., timestamps 1000 - 10 i, one header each. */
static void make_batch(made *batch, int32_t count, int16_t attributes, bool compressed) {
    uint8_t header[] = {2, 'h', 4, 'v', 'v'};
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, 500, 1000);
    fields.attributes = (int16_t)(attributes & ~OL_ATTRIBUTE_CODEC);
    fields.last_offset_delta = 2 * count + 3;
    fields.record_count = count;
    fields.leader_epoch = 9;
    fields.producer_id = 77;
    fields.producer_epoch = 3;
    fields.base_sequence = 12;
    fields.max_timestamp = attributes & OL_ATTRIBUTE_LOG_APPEND_TIME ? 5555 : 1000;
    uint8_t *p = batch->data + OL_BATCH_AT_RECORDS + compressed;
    batch->data[OL_BATCH_AT_RECORDS] = 'S';
    for (int32_t i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        ol_slice value = i % 4 == 3 ? ol_slice_null() : ol_slice_of("value", 5);
        p = ol_record_put(p, -10 * i, 2 * i + 1, ol_slice_of(key, strlen(key)), value, 1, ol_slice_of(header, sizeof header));
    }
    ol_batch_seal(batch->data, p, &fields);
    batch->size = (size_t)(p - batch->data);
    if (compressed) {
        ol_store_i16(batch->data + OL_BATCH_AT_ATTRIBUTES, attributes);
        ol_batch sealed;
        ol_error error;
        OL_CHECK_OK(ol_batch_parse(batch->data, batch->size, &sealed, &error), &error);
        sealed.crc = 0;
        OL_CHECK(ol_batch_check_crc(&sealed, &error) == OL_CORRUPT);
        unsigned crc;
        OL_CHECK(sscanf(strstr(error.reason, "bytes have ") + 11, "%8x", &crc) == 1);
        ol_store_u32(batch->data + OL_BATCH_AT_CRC, crc);
    }
    batch->batch = parse(batch->data, batch->size);
}

/* Every record of `after` is one of `before` that was kept, with everything it had. */
static void check_records(const ol_batch *before, const ol_batch *after, uint64_t kept, const ol_decompressor *decompressor) {
    ol_records old_records, new_records;
    ol_record old, new;
    ol_error error;
    OL_CHECK_OK(ol_records_open(&old_records, before, decompressor, &error), &error);
    OL_CHECK_OK(ol_records_open(&new_records, after, decompressor, &error), &error);
    for (int i = 0; ol_records_next(&old_records, &old, &error) == OL_OK; i++) {
        if (!(kept >> i & 1)) continue;
        OL_CHECK_OK(ol_records_next(&new_records, &new, &error), &error);
        OL_CHECK_INT(new.offset, old.offset);
        OL_CHECK_INT(new.timestamp, old.timestamp);
        OL_CHECK(ol_slice_equal(new.key, old.key) && ol_slice_equal(new.value, old.value));
        OL_CHECK((new.value.data == NULL) == (old.value.data == NULL));
        OL_CHECK(ol_slice_equal(new.headers, old.headers));
        OL_CHECK_INT(new.header_count, old.header_count);
    }
    OL_CHECK_INT(ol_records_next(&new_records, &new, &error), OL_END);
    ol_records_close(&old_records);
    ol_records_close(&new_records);
}

static void check_framing(const ol_batch *before, const ol_batch *after) {
    OL_CHECK_INT(after->base_offset, before->base_offset);
    OL_CHECK_INT(after->last_offset, before->last_offset);
    OL_CHECK_INT(after->leader_epoch, before->leader_epoch);
    OL_CHECK_INT(after->producer_id, before->producer_id);
    OL_CHECK_INT(after->producer_epoch, before->producer_epoch);
    OL_CHECK_INT(after->base_sequence, before->base_sequence);
    OL_CHECK_INT(after->attributes & ~OL_ATTRIBUTE_DELETE_HORIZON, before->attributes & ~OL_ATTRIBUTE_DELETE_HORIZON);
}

OL_TEST(any_choice_leaves_the_framing_and_the_chosen_records) {
    static const int16_t attributes[] = {0, OL_ATTRIBUTE_LOG_APPEND_TIME, OL_ATTRIBUTE_TRANSACTIONAL};
    for (int round = 0; round < 600; round++) {
        made before;
        int32_t count = 1 + (int32_t)ol_test_below(20);
        make_batch(&before, count, attributes[ol_test_below(3)], false);
        uint64_t all = (UINT64_C(1) << count) - 1, kept = ol_test_random() & all;
        if (kept == 0) kept = 1;
        bool horizon = ol_test_below(2);
        ol_clean_output output = {0};
        ol_clean_choice choice = {.new_horizon = horizon ? (int64_t)ol_test_below(3000) : -1};
        ol_clean_result result = apply(&before.batch, count, choice, kept, &output);
        if (kept == all && !horizon) {
            OL_CHECK_INT(result, OL_CLEAN_VERBATIM);
            continue;
        }
        OL_CHECK_INT(result, OL_CLEAN_REBUILT);
        ol_batch after = parse(output.data, output.size);
        check_framing(&before.batch, &after);
        check_records(&before.batch, &after, kept, NULL);
        OL_CHECK_INT(after.record_count, __builtin_popcountll(kept));
        OL_CHECK_INT(ol_batch_has_horizon(&after), horizon);
        int first = __builtin_ctzll(kept);
        bool log_append = before.batch.attributes & OL_ATTRIBUTE_LOG_APPEND_TIME;
        int64_t first_timestamp = log_append ? 5555 : 1000 - 10 * first;
        OL_CHECK_INT(after.base_timestamp, horizon ? choice.new_horizon : first_timestamp);
        OL_CHECK_INT(after.max_timestamp, first_timestamp);
        /* A horizon that is there stays, and a batch that loses nothing more is not touched again. */
        ol_clean_output again = {0};
        ol_clean_choice later = {.new_horizon = -1};
        uint64_t left = (UINT64_C(1) << after.record_count) - 1;
        OL_CHECK_INT(apply(&after, after.record_count, later, left, &again), OL_CLEAN_VERBATIM);
        if (after.record_count > 1) {
            OL_CHECK_INT(apply(&after, after.record_count, later, 1, &again), OL_CLEAN_REBUILT);
            ol_batch last = parse(again.data, again.size);
            OL_CHECK_INT(ol_batch_has_horizon(&last), horizon);
            OL_CHECK_INT(last.base_timestamp, after.base_timestamp);
        }
        ol_clean_output_free(&again);
        ol_clean_output_free(&output);
    }
}

OL_TEST(emptied_batches_keep_what_producers_need) {
    made before;
    make_batch(&before, 5, OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_LOG_APPEND_TIME, false);
    ol_clean_output output = {0};
    ol_clean_choice choice = {.retain_empty = true, .new_horizon = -1};
    OL_CHECK_INT(apply(&before.batch, 5, choice, 0, &output), OL_CLEAN_REBUILT);
    ol_batch after = parse(output.data, output.size);
    check_framing(&before.batch, &after);
    OL_CHECK_INT(after.size, OL_BATCH_OVERHEAD);
    OL_CHECK_INT(after.record_count, 0);
    OL_CHECK_INT(after.base_timestamp, -1);
    OL_CHECK_INT(after.max_timestamp, 5555);
    ol_clean_output_free(&output);
}

/* ------------------------------------------------------------------------------------------------ compressed */

OL_TEST(compressed_batches_are_compressed_again_or_stay) {
    stored_codec stored;
    ol_decompressor decompressor = stored_port(&stored);
    int held = 0;
    ol_compressor compressor = {stored_compress, stored_give_back, &held};
    made before;
    make_batch(&before, 12, OL_CODEC_ZSTD | OL_ATTRIBUTE_TRANSACTIONAL, true);
    uint64_t kept = 0x0a5;
    ol_clean_choice choice = {.kept = &kept, .kept_count = 4, .new_horizon = 7000};
    ol_clean_output output = {0};
    ol_clean_result result;
    ol_error error;
    OL_CHECK_OK(ol_clean_batch_apply(&before.batch, 12, &choice, &decompressor, &compressor, &output, &result, &error), &error);
    OL_CHECK_INT(result, OL_CLEAN_REBUILT);
    ol_batch after = parse(output.data, output.size);
    check_framing(&before.batch, &after);
    OL_CHECK_INT(ol_batch_codec(&after), OL_CODEC_ZSTD);
    OL_CHECK_INT(after.base_timestamp, 7000);
    check_records(&before.batch, &after, kept, &decompressor);
    compressor.context = NULL;
    OL_CHECK_OK(ol_clean_batch_apply(&before.batch, 12, &choice, &decompressor, &compressor, &output, &result, &error), &error);
    OL_CHECK_INT(result, OL_CLEAN_NOT_COMPRESSED);
    OL_CHECK_OK(ol_clean_batch_apply(&before.batch, 12, &choice, &decompressor, NULL, &output, &result, &error), &error);
    OL_CHECK_INT(result, OL_CLEAN_NOT_COMPRESSED);
    /* Emptied or whole, nobody has to compress. */
    choice = (ol_clean_choice){.kept = &kept, .retain_empty = true, .new_horizon = -1};
    OL_CHECK_OK(ol_clean_batch_apply(&before.batch, 12, &choice, NULL, NULL, &output, &result, &error), &error);
    OL_CHECK_INT(result, OL_CLEAN_REBUILT);
    after = parse(output.data, output.size);
    OL_CHECK_INT(ol_batch_codec(&after), OL_CODEC_NONE);
    check_framing(&(ol_batch){.base_offset = before.batch.base_offset, .last_offset = before.batch.last_offset,
                              .leader_epoch = 9, .producer_id = 77, .producer_epoch = 3, .base_sequence = 12,
                              .attributes = OL_ATTRIBUTE_TRANSACTIONAL},
                  &after);
    OL_CHECK_INT(held, 0);
    OL_CHECK_INT(stored.held, 0);
    ol_clean_output_free(&output);
}

/* ------------------------------------------------------------------------------------------------ magic 0 and 1 */

static size_t put_message(uint8_t *start, int64_t offset, int8_t magic, uint8_t attributes, int64_t timestamp, ol_slice key,
                          ol_slice value) {
    uint8_t *p = start + OL_MESSAGE_AT_BODY_MAGIC_0;
    ol_store_i64(start, offset);
    start[OL_BATCH_AT_MAGIC] = (uint8_t)magic;
    start[OL_MESSAGE_AT_ATTRIBUTES] = attributes;
    if (magic == 1) ol_store_i64(p, timestamp);
    if (magic == 1) p += 8;
    const ol_slice parts[2] = {key, value};
    for (int i = 0; i < 2; i++) {
        ol_store_i32(p, parts[i].data == NULL ? -1 : (int32_t)parts[i].size);
        if (parts[i].size > 0) memcpy(p + 4, parts[i].data, parts[i].size);
        p += 4 + parts[i].size;
    }
    ol_store_i32(start + OL_BATCH_AT_LENGTH, (int32_t)(p - start - OL_BATCH_LOG_OVERHEAD));
    ol_batch message;
    ol_error error;
    OL_CHECK_OK(ol_batch_parse(start, (size_t)(p - start), &message, &error), &error);
    OL_CHECK(ol_batch_check_crc(&message, &error) == OL_CORRUPT);
    unsigned crc;
    OL_CHECK(sscanf(strstr(error.reason, "bytes have ") + 11, "%8x", &crc) == 1);
    ol_store_u32(start + OL_MESSAGE_AT_CRC, crc);
    return (size_t)(p - start);
}

static void check_wrapper(int8_t magic, bool log_append) {
    uint8_t inner[1024] = {'S'}, outer[2048];
    size_t size = 1;
    for (int i = 0; i < 5; i++) {
        char key[8];
        snprintf(key, sizeof key, "key%d", i);
        /* Gaps are left by an earlier cleaning; inner offsets of magic 1 are relative. */
        int64_t offset = magic == 0 ? 100 + 3 * i : 3 * i;
        ol_slice value = i == 2 ? ol_slice_null() : ol_slice_of("abc", 3);
        size += put_message(inner + size, offset, magic, 0, 4000 + i, ol_slice_of(key, 4), value);
    }
    uint8_t attributes = (uint8_t)(OL_CODEC_GZIP | (log_append ? OL_ATTRIBUTE_LOG_APPEND_TIME : 0));
    size = put_message(outer, 112, magic, attributes, 9000, ol_slice_null(), ol_slice_of(inner, size));
    ol_batch wrapper = parse(outer, size);
    stored_codec stored;
    ol_decompressor decompressor = stored_port(&stored);
    uint64_t kept = 0x16;       /* 1, 2 and 4 */
    ol_clean_choice choice = {.kept = &kept, .kept_count = 3, .new_horizon = -1};
    ol_clean_output output = {0};
    ol_clean_result result;
    ol_error error;
    OL_CHECK_OK(ol_clean_batch_apply(&wrapper, 5, &choice, &decompressor, NULL, &output, &result, &error), &error);
    OL_CHECK_INT(result, OL_CLEAN_REBUILT);
    static const int64_t offsets[] = {103, 106, 112};
    size_t at = 0;
    for (int i = 0; i < 3; i++) {
        ol_batch message = parse(output.data + at, output.size - at);
        ol_record record;
        OL_CHECK_OK(ol_message_record(&message, &record, &error), &error);
        OL_CHECK_INT(message.magic, magic);
        OL_CHECK_INT(record.offset, offsets[i]);
        OL_CHECK_INT(record.timestamp, magic == 0 ? -1 : log_append ? 9000 : 4000 + (offsets[i] - 100) / 3);
        OL_CHECK_INT(record.key.size, 4);
        OL_CHECK((record.value.data == NULL) == (i == 1));
        OL_CHECK_INT(message.attributes, log_append ? OL_ATTRIBUTE_LOG_APPEND_TIME : 0);
        at += message.size;
    }
    OL_CHECK_INT(at, output.size);
    choice.kept_count = 0;
    choice.retain_empty = true;         /* no header can stay without a record */
    OL_CHECK_OK(ol_clean_batch_apply(&wrapper, 5, &choice, &decompressor, NULL, &output, &result, &error), &error);
    OL_CHECK_INT(result, OL_CLEAN_DROPPED);
    OL_CHECK_INT(stored.held, 0);
    ol_clean_output_free(&output);
}

OL_TEST(a_wrapper_is_unpacked) {
    check_wrapper(0, false);
    check_wrapper(1, false);
    check_wrapper(1, true);
}

OL_TEST(a_message_stays_or_goes) {
    uint8_t data[256];
    for (int8_t magic = 0; magic < 2; magic++) {
        size_t size = put_message(data, 7, magic, 0, GOLDEN_TIME, ol_slice_of("k", 1), ol_slice_of("v", 1));
        ol_batch message = parse(data, size);
        ol_clean_output output = {0};
        ol_clean_choice choice = {.retain_empty = true, .new_horizon = -1};
        OL_CHECK_INT(apply(&message, 1, choice, 1, &output), OL_CLEAN_VERBATIM);
        OL_CHECK_INT(apply(&message, 1, choice, 0, &output), OL_CLEAN_DROPPED);
    }
}

OL_TEST_MAIN()
