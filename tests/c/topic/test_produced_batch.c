/* Every rule for a producer's batch, broken one at a time; and what is put into the log. */
#include "topic_fixture.h"

static ol_produce_refusal refusal_of(ol_slice bytes, const ol_produce_rules *rules, int32_t *record) {
    ol_produced_batch produced;
    ol_error error = {.status = OL_OK};
    int status = ol_produced_batch_check(bytes, rules, &produced, &error);
    OL_CHECK_INT(status, produced.refusal == OL_PRODUCE_ACCEPTED ? OL_OK : OL_CORRUPT);
    OL_CHECK(status == OL_OK || error.reason[0] != '\0');
    if (record != NULL) *record = produced.refused_record;
    return produced.refusal;
}

static ol_produce_refusal refusal_of_sent(const sent_batch *sent, const ol_produce_rules *rules, int32_t *record) {
    uint8_t bytes[SENT_BYTES_MAX];
    return refusal_of(sent_encode(sent, bytes), rules, record);
}

OL_TEST(right_batches_are_taken) {
    ol_produce_rules rules = sent_rules();
    for (int count = 1; count < 40; count++) {
        sent_batch plain = sent_plain(count), idempotent = sent_idempotent(7, 0, 3, count);
        OL_CHECK_INT(refusal_of_sent(&plain, &rules, NULL), OL_PRODUCE_ACCEPTED);
        OL_CHECK_INT(refusal_of_sent(&idempotent, &rules, NULL), OL_PRODUCE_ACCEPTED);
    }
}

OL_TEST(a_batch_that_is_cut_or_changed_is_refused) {
    uint8_t bytes[SENT_BYTES_MAX];
    ol_produce_rules rules = sent_rules();
    sent_batch sent = sent_plain(3);
    ol_slice whole = sent_encode(&sent, bytes);
    for (size_t size = 0; size < whole.size; size++) {
        uint8_t *copy = malloc(size + 1);
        memcpy(copy, whole.data, size);
        OL_CHECK_INT(refusal_of(ol_slice_of(copy, size), &rules, NULL), OL_PRODUCE_NOT_ONE_BATCH);
        free(copy);
    }
    for (size_t at = OL_BATCH_AT_ATTRIBUTES; at < whole.size; at++) {
        bytes[at] ^= 0x10;
        OL_CHECK_INT(refusal_of(whole, &rules, NULL), OL_PRODUCE_CORRUPT_MESSAGE);
        bytes[at] ^= 0x10;
    }
}

OL_TEST(one_batch_of_magic_2_is_taken) {
    uint8_t bytes[2 * SENT_BYTES_MAX];
    ol_produce_rules rules = sent_rules();
    sent_batch sent = sent_plain(2);
    size_t size = sent_encode(&sent, bytes).size;
    sent_encode(&sent, bytes + size);
    OL_CHECK_INT(refusal_of(ol_slice_of(bytes, 2 * size), &rules, NULL), OL_PRODUCE_NOT_ONE_BATCH);
    bytes[OL_BATCH_AT_MAGIC] = 1;
    OL_CHECK_INT(refusal_of(ol_slice_of(bytes, size), &rules, NULL), OL_PRODUCE_NOT_ONE_BATCH);
    OL_CHECK_INT(refusal_of(ol_slice_null(), &rules, NULL), OL_PRODUCE_NOT_ONE_BATCH);
}

OL_TEST(headers_that_contradict_themselves_are_refused) {
    ol_produce_rules rules = sent_rules();
    sent_batch sent = sent_plain(3);
    sent.base_offset = 5;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_INVALID_RECORD);
    sent = sent_plain(3);
    sent.record_count = 2;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_INVALID_RECORD);
    sent = sent_plain(3);
    sent.attributes = OL_ATTRIBUTE_CONTROL;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_INVALID_RECORD);
    sent = sent_idempotent(7, 0, -1, 3);
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_INVALID_RECORD);
    sent = sent_idempotent(7, -1, 0, 3);
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_INVALID_RECORD);
    sent = sent_idempotent(7, 0, 0, 3);
    sent.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_INVALID_TXN_STATE);
}

OL_TEST(the_settings_of_a_topic_are_kept) {
    uint8_t bytes[SENT_BYTES_MAX];
    ol_produce_rules rules = sent_rules();
    sent_batch sent = sent_plain(3);
    rules.batch_bytes_max = sent_encode(&sent, bytes).size;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_ACCEPTED);
    rules.batch_bytes_max--;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_MESSAGE_TOO_LARGE);
    rules = sent_rules();
    rules.needs_keys = true;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_ACCEPTED);
    sent.has_no_keys = true;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_INVALID_RECORD);
    sent.attributes = OL_CODEC_ZSTD;
    rules.takes_zstd = false;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_UNSUPPORTED_COMPRESSION);
}

OL_TEST(the_record_that_is_refused_is_named) {
    int32_t record;
    ol_produce_rules rules = sent_rules();
    sent_batch sent = sent_plain(5);
    rules.timestamp_max = sent.first_timestamp + 2;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, &record), OL_PRODUCE_INVALID_TIMESTAMP);
    OL_CHECK_INT(record, 3);
    rules.timestamp_max = INT64_MAX;
    rules.timestamp_min = sent.first_timestamp + 1;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, &record), OL_PRODUCE_INVALID_TIMESTAMP);
    OL_CHECK_INT(record, 0);
    rules.log_append_time = 1;
    OL_CHECK_INT(refusal_of_sent(&sent, &rules, NULL), OL_PRODUCE_ACCEPTED);
    rules = sent_rules();
    sent.offset_step = 0;
    OL_CHECK(refusal_of_sent(&sent, &rules, NULL) == OL_PRODUCE_INVALID_RECORD);
}

OL_TEST(all_records_that_are_refused_are_named) {
    uint8_t bytes[SENT_BYTES_MAX];
    int32_t indexes[8];
    ol_produced_batch produced;
    ol_error error;
    ol_produce_rules rules = sent_rules();
    sent_batch sent = sent_plain(6);
    rules.timestamp_min = sent.first_timestamp + 1;
    rules.timestamp_max = sent.first_timestamp + 3;
    OL_CHECK_INT(ol_produced_batch_check(sent_encode(&sent, bytes), &rules, &produced, &error), OL_CORRUPT);
    OL_CHECK_INT(ol_produced_batch_refused(&produced, &rules, indexes, 8), 3);
    OL_CHECK(indexes[0] == 0 && indexes[1] == 4 && indexes[2] == 5);
    OL_CHECK_INT(ol_produced_batch_refused(&produced, &rules, indexes, 2), 2);
}

/* The number of records decides how much memory is taken for the indexes of those that are refused. */
OL_TEST(a_record_count_that_the_bytes_cannot_hold_is_refused_as_a_whole) {
    uint8_t bytes[SENT_BYTES_MAX];
    int32_t record;
    ol_produce_rules rules = sent_rules();
    rules.needs_keys = true;
    sent_batch sent = sent_plain(3);
    sent.has_no_keys = true;
    ol_slice whole = sent_encode(&sent, bytes);
    int32_t counts[] = {3, 4, 1000, INT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ol_store_i32(bytes + OL_BATCH_AT_LAST_OFFSET_DELTA, counts[i] - 1);
        ol_store_i32(bytes + OL_BATCH_AT_RECORD_COUNT, counts[i]);
        ol_store_u32(bytes + OL_BATCH_AT_CRC,
                     ol_crc32c(bytes + OL_BATCH_AT_ATTRIBUTES, whole.size - OL_BATCH_AT_ATTRIBUTES));
        OL_CHECK_INT(refusal_of(whole, &rules, &record), OL_PRODUCE_INVALID_RECORD);
        OL_CHECK_INT(record, counts[i] == 3 ? 0 : -1);
    }
}

static ol_batch put(const sent_batch *sent, int64_t log_append_time, uint8_t place[SENT_BYTES_MAX]) {
    uint8_t bytes[SENT_BYTES_MAX];
    ol_produced_batch produced;
    ol_batch batch;
    ol_error error;
    ol_produce_rules rules = sent_rules();
    ol_slice encoded = sent_encode(sent, bytes);
    OL_CHECK_OK(ol_produced_batch_check(encoded, &rules, &produced, &error), &error);
    memset(place, 0, SENT_BYTES_MAX);
    ol_produced_batch_put(place, &produced, 1000, 9, log_append_time);
    OL_CHECK_OK(ol_batch_parse(place, encoded.size, &batch, &error), &error);
    OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
    OL_CHECK_INT(batch.base_offset, 1000);
    OL_CHECK_INT(batch.last_offset, 1000 + sent->count - 1);
    OL_CHECK_INT(batch.leader_epoch, 9);
    return batch;
}

OL_TEST(what_is_put_has_its_place_and_its_time) {
    uint8_t place[SENT_BYTES_MAX];
    sent_batch sent = sent_plain(4);
    ol_batch batch = put(&sent, -1, place);
    OL_CHECK_INT(batch.max_timestamp, sent.first_timestamp + 3);
    OL_CHECK_INT(batch.attributes, 0);
    batch = put(&sent, 1234567, place);
    OL_CHECK_INT(batch.max_timestamp, 1234567);
    OL_CHECK_INT(batch.attributes, OL_ATTRIBUTE_LOG_APPEND_TIME);
}

OL_TEST(a_producer_does_not_say_that_its_times_are_those_of_the_append) {
    uint8_t place[SENT_BYTES_MAX];
    sent_batch sent = sent_plain(4);
    sent.attributes = OL_ATTRIBUTE_LOG_APPEND_TIME;
    OL_CHECK_INT(put(&sent, -1, place).attributes, 0);
}

OL_TEST(a_header_with_the_wrong_greatest_timestamp_is_put_right) {
    uint8_t place[SENT_BYTES_MAX];
    sent_batch sent = sent_plain(4);
    sent.max_timestamp = 5;
    OL_CHECK_INT(put(&sent, -1, place).max_timestamp, sent.first_timestamp + 3);
    sent.max_timestamp = INT64_MAX;
    OL_CHECK_INT(put(&sent, -1, place).max_timestamp, sent.first_timestamp + 3);
}

OL_TEST_MAIN()
