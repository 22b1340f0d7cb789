/* Runs of random logs, applied by themselves and joined in any order, against the one apply of the whole. */
#include "format/batch_write.h"
#include "format/offset_record.h"
#include "state/run.h"
#include "ol_test.h"

enum { BYTES_MAX = 1 << 20, BATCHES = 120, RUNS_MAX = 9 };

static ol_slice text(const char *value) { return ol_slice_of(value, strlen(value)); }

typedef struct bytes {
    uint8_t *data;
    size_t size;
    int64_t next_offset;
    size_t starts[BATCHES];
} bytes;

static uint8_t *put_position(uint8_t *out, int32_t delta, bool deleted) {
    static const char *const groups[] = {"a", "billing"}, *const topics[] = {"t", "orders"}, *const metadata[] = {"", "m", "longer"};
    uint8_t key[64], value[64];
    ol_slice group = text(groups[ol_test_below(2)]), topic = text(topics[ol_test_below(2)]);
    size_t key_size = (size_t)(ol_offset_key_put(key, OL_KEY_OFFSET_COMMIT, group, topic, (int32_t)ol_test_below(6)) - key);
    ol_slice given = text(metadata[ol_test_below(3)]);
    size_t value_size = (size_t)(ol_offset_value_3_put(value, (int64_t)ol_test_below(1u << 30), -1, given, 5) - value);
    given = deleted ? ol_slice_null() : ol_slice_of(value, value_size);
    return ol_record_put(out, 0, delta, ol_slice_of(key, key_size), given, 0, ol_slice_of("", 0));
}

/* Group metadata, of which the state knows the group and nothing about the value; type 2 (docs/format/records.md §3.1). */
static uint8_t *put_group_record(uint8_t *out, int32_t delta, bool deleted) {
    uint8_t key[5] = {0, 2, 0, 1, (uint8_t)('a' + ol_test_below(4))};
    uint8_t value[3] = {0, 3, (uint8_t)ol_test_below(256)};
    ol_slice given = deleted ? ol_slice_null() : ol_slice_of(value, sizeof value);
    return ol_record_put(out, 0, delta, ol_slice_of(key, sizeof key), given, 0, ol_slice_of("", 0));
}

static void put_data(bytes *log, int64_t producer_id) {
    int32_t count = (int32_t)ol_test_below(6) + 1;
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, log->next_offset, 5);
    fields.record_count = count;
    fields.last_offset_delta = count - 1;
    if (producer_id >= 0) {
        fields.producer_id = producer_id;
        fields.producer_epoch = 0;
        fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    }
    uint8_t *start = log->data + log->size, *end = start + OL_BATCH_OVERHEAD;
    for (int32_t i = 0; i < count; i++) {
        bool deleted = ol_test_below(5) == 0;
        end = ol_test_below(6) == 0 ? put_group_record(end, i, deleted) : put_position(end, i, deleted);
    }
    ol_batch_seal(start, end, &fields);
    log->size += (size_t)(end - start);
    log->next_offset += count;
}

static void put_log(bytes *log) {
    for (int i = 0; i < BATCHES; i++) {
        log->starts[i] = log->size;
        int64_t producer_id = (int64_t)ol_test_below(4);
        uint64_t choice = ol_test_below(10);
        if (choice < 3) {
            ol_control type = ol_test_below(3) == 0 ? OL_CONTROL_ABORT : OL_CONTROL_COMMIT;
            log->size += ol_batch_put_marker(log->data + log->size, log->next_offset, 0, 1, producer_id, 0, type, 0);
            log->next_offset++;
        } else {
            put_data(log, choice < 7 ? producer_id : -1);
        }
    }
}

static void apply(const bytes *log, size_t from, size_t to, ol_state *state) {
    ol_batch batch;
    ol_error error;
    for (size_t at = from; at < to; at += batch.size) {
        OL_CHECK_OK(ol_batch_parse(log->data + at, log->size - at, &batch, &error), &error);
        OL_CHECK_OK(ol_state_apply_batch(state, &batch, NULL, NULL, &error), &error);
    }
}

static void check_same(const ol_state *whole, const ol_state *joined) {
    for (int physical = 0; physical < 2; physical++) {
        ol_digest a, b;
        ol_state_digest(whole, physical != 0, &a);
        ol_state_digest(joined, physical != 0, &b);
        OL_CHECK(memcmp(&a, &b, sizeof a) == 0);
    }
    OL_CHECK_INT(joined->value_version_max, whole->value_version_max);
    OL_CHECK_INT(joined->unknown_records, whole->unknown_records);
    ol_table_verify(joined->table);
    ol_group_records_verify(joined->group_records);
}

/* Joins neighbours in a random order until one is left; the first begins with the log. */
static void join_all(ol_state *runs, size_t count) {
    ol_error error;
    while (count > 1) {
        size_t left = ol_test_below((unsigned)count - 1);
        OL_CHECK_OK(ol_run_join(&runs[left], &runs[left + 1], &error), &error);
        ol_state_destroy(&runs[left + 1]);
        count--;
        memmove(&runs[left + 1], &runs[left + 2], (count - left - 1) * sizeof *runs);
    }
}

static void compare(const bytes *log, size_t count) {
    ol_state whole, runs[RUNS_MAX + 1];
    ol_error error;
    size_t first = 0;
    OL_CHECK_OK(ol_state_create(&whole, &error), &error);
    apply(log, 0, log->size, &whole);
    for (size_t i = 0; i < count; i++) {
        size_t next = i + 1 == count ? BATCHES : first + ol_test_below((unsigned)(BATCHES - first) + 1);
        size_t from = first == BATCHES ? log->size : log->starts[first];
        size_t to = next == BATCHES ? log->size : log->starts[next];
        if (i == 0) OL_CHECK_OK(ol_state_create(&runs[i], &error), &error);
        else OL_CHECK_OK(ol_run_create(&runs[i], &error), &error);
        apply(log, from, to, &runs[i]);
        first = next;
    }
    join_all(runs, count);
    check_same(&whole, &runs[0]);
    /* Transactions that are open at the end end alike. */
    for (int64_t producer = 0; producer < 4; producer++) {
        ol_control type = producer % 2 == 0 ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT;
        ol_state_end_transaction(&whole, producer, type);
        ol_state_end_transaction(&runs[0], producer, type);
    }
    check_same(&whole, &runs[0]);
    ol_state_destroy(&whole);
    ol_state_destroy(&runs[0]);
}

OL_TEST(joined_runs_are_the_whole) {
    for (int round = 0; round < 60; round++) {
        bytes log = {.data = malloc(BYTES_MAX)};
        put_log(&log);
        OL_CHECK(log.size < BYTES_MAX);
        for (size_t count = 1; count <= RUNS_MAX; count++) compare(&log, count);
        free(log.data);
    }
}

OL_TEST(memory_of_a_run_counts_what_it_removed) {
    ol_state state, run;
    ol_error error;
    bytes log = {.data = malloc(BYTES_MAX)};
    put_log(&log);
    OL_CHECK_OK(ol_state_create(&state, &error), &error);
    OL_CHECK_OK(ol_run_create(&run, &error), &error);
    uint64_t empty = ol_state_memory_usage(&state);
    apply(&log, 0, log.size, &state);
    apply(&log, 0, log.size, &run);
    OL_CHECK(empty > 0 && ol_state_memory_usage(&state) > empty);
    OL_CHECK(ol_state_memory_usage(&run) > ol_state_memory_usage(&state));
    ol_state_destroy(&state);
    ol_state_destroy(&run);
    free(log.data);
}

OL_TEST_MAIN()
