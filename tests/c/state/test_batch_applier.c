/* Batches through ol_batch_applier, whose rows wait in a window, against the one apply, batch by batch. */
#include "format/batch_write.h"
#include "format/offset_record.h"
#include "state/batch_applier.h"
#include "ol_test.h"

enum { BYTES_MAX = 4 << 20, BATCHES = 200 };

static ol_slice text(const char *value) { return ol_slice_of(value, strlen(value)); }

typedef struct bytes {
    uint8_t *data;
    size_t size;
    int64_t next_offset;
} bytes;

static uint8_t *put_position(uint8_t *out, int32_t delta, int32_t partition, bool deleted) {
    static const char *const groups[] = {"a", "billing"}, *const topics[] = {"t", "orders", "payments"};
    uint8_t key[64], value[64];
    ol_slice group = text(groups[ol_test_below(2)]), topic = text(topics[ol_test_below(3)]);
    size_t key_size = (size_t)(ol_offset_key_put(key, OL_KEY_OFFSET_COMMIT, group, topic, partition) - key);
    size_t value_size = (size_t)(ol_offset_value_3_put(value, (int64_t)ol_test_below(1u << 30), -1, text("m"), 5) - value);
    ol_slice given = deleted ? ol_slice_null() : ol_slice_of(value, value_size);
    return ol_record_put(out, 0, delta, ol_slice_of(key, key_size), given, 0, ol_slice_of("", 0));
}

/* A plain batch, or one of producer `producer_id`; `claimed` is the count in its header. */
static void put_batch(bytes *log, int32_t count, int32_t claimed, int64_t producer_id, int64_t timestamp) {
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, log->next_offset, timestamp);
    fields.record_count = claimed;
    fields.last_offset_delta = (claimed > count ? claimed : count) - 1;
    if (producer_id >= 0) {
        fields.producer_id = producer_id;
        fields.producer_epoch = 0;
        fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    }
    uint8_t *start = log->data + log->size, *end = start + OL_BATCH_OVERHEAD;
    for (int32_t i = 0; i < count; i++) end = put_position(end, i, (int32_t)ol_test_below(40), ol_test_below(9) == 0);
    ol_batch_seal(start, end, &fields);
    log->size += (size_t)(end - start);
    log->next_offset += fields.last_offset_delta + 1;
}

static void put_marker(bytes *log, int64_t producer_id, ol_control type) {
    log->size += ol_batch_put_marker(log->data + log->size, log->next_offset, 0, 1, producer_id, 0, type, 0);
    log->next_offset++;
}

static void count_refused(void *context, const ol_batch *batch, const ol_error *refused) {
    (void)batch;
    OL_CHECK(refused->reason[0] != '\0');
    ++*(int *)context;
}

static void compare(const bytes *log, int64_t batches, int64_t max_timestamp, int expected_refused) {
    ol_state one, windowed;
    ol_own_transactions own = {0};
    ol_batch batch;
    ol_error error;
    ol_digest a, b;
    int refused_one = 0, refused = 0;
    ol_batch_applier *applier = malloc(sizeof *applier);
    OL_CHECK_OK(ol_state_create(&one, &error), &error);
    OL_CHECK_OK(ol_state_create(&windowed, &error), &error);
    ol_batch_applier_init(applier, &windowed, &own, NULL, (ol_refusal){count_refused, &refused});
    for (size_t at = 0; at < log->size; at += batch.size) {
        OL_CHECK_OK(ol_batch_parse(log->data + at, log->size - at, &batch, &error), &error);
        refused_one += ol_state_apply_batch(&one, &batch, NULL, NULL, &error) != OL_OK;
        OL_CHECK_OK(ol_batch_applier_apply(applier, &batch, &error), &error);
    }
    OL_CHECK_OK(ol_batch_applier_flush(applier, &error), &error);
    ol_state_digest(&one, true, &a);
    ol_state_digest(&windowed, true, &b);
    OL_CHECK(memcmp(&a, &b, sizeof a) == 0);
    OL_CHECK_INT(refused, refused_one);
    OL_CHECK_INT(refused, expected_refused);
    OL_CHECK_INT(applier->batches, batches);
    OL_CHECK_INT(applier->max_timestamp, max_timestamp);
    ol_own_transactions_free(&own);
    ol_state_destroy(&one);
    ol_state_destroy(&windowed);
    free(applier);
}

OL_TEST(a_log_of_commits_and_transactions_leads_to_the_state_of_the_one_apply) {
    bytes log = {.data = malloc(BYTES_MAX)};
    int64_t batches = 0;
    for (int i = 0; i < BATCHES; i++, batches++) {
        switch (ol_test_below(6)) {
        case 0: put_batch(&log, 3, 3, 7 + (int64_t)ol_test_below(3), i); break;
        case 1: put_marker(&log, 7 + (int64_t)ol_test_below(3), ol_test_below(2) ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT); break;
        default: {
            int32_t count = 1 + (int32_t)ol_test_below(60);
            put_batch(&log, count, count, -1, i);
        }
        }
    }
    put_batch(&log, 1, 1, -1, 5000);
    compare(&log, batches + 1, 5000, 0);
    free(log.data);
}

OL_TEST(a_batch_that_is_not_whole_is_reported_and_nothing_of_it_applied) {
    bytes log = {.data = malloc(BYTES_MAX)};
    put_batch(&log, 5, 5, -1, 1);
    put_batch(&log, 20, 21, -1, 1);
    put_batch(&log, 5, 5, -1, 1);
    compare(&log, 3, 1, 1);
    free(log.data);
}

OL_TEST_MAIN()
