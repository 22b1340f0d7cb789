/* The load (partition/load, ol_prefetch_window) against the one apply, batch by batch, on logs of every mixture. */
#include <fcntl.h>

#include "base/bytes.h"
#include "partition_fixture.h"

enum { BATCH_BYTES_MAX = 1 << 20, RECORD_BYTES_MAX = 200 };

typedef struct written_log {
    uint8_t *data;
    size_t size;
    int64_t next_offset;
} written_log;

static ol_slice random_name(const char *const *names, uint64_t count) { return text(names[ol_test_below(count)]); }

/* Mostly positions; now and then a tombstone, a group record, a kind that nobody knows. */
static uint8_t *put_random_record(uint8_t *out, int32_t delta, int *partition, ol_slice group, ol_slice topic, bool plain) {
    static const char *const metadata[] = {"", "", "", "m", "some metadata"};
    uint8_t key[128], value[128];
    unsigned dice = plain ? 9 : (unsigned)ol_test_below(40);
    if (dice == 0) {
        const uint8_t unknown[] = {0, 99, 0, 1, 'x'};
        return ol_record_put(out, 0, delta, ol_slice_of(unknown, sizeof unknown), text("anything"), 0, ol_slice_of("", 0));
    }
    *partition = ol_test_below(4) == 0 ? (int)ol_test_below(300) : *partition + 1;
    int16_t key_type = !plain && ol_test_below(20) == 0 ? OL_KEY_OFFSET_COMMIT_LEGACY : OL_KEY_OFFSET_COMMIT;
    uint8_t *key_end = ol_offset_key_put(key, key_type, group, topic, *partition);
    ol_offset_value fields = {.offset = (int64_t)ol_test_below(1u << 30), .commit_timestamp = 7, .expire_timestamp = -1,
                              .leader_epoch = (int32_t)ol_test_below(3) - 1, .metadata = text(metadata[ol_test_below(5)])};
    if (key_type == OL_KEY_OFFSET_COMMIT && ol_test_below(30) == 0) fields.expire_timestamp = 99;
    int16_t version = key_type == OL_KEY_OFFSET_COMMIT_LEGACY ? 0 : ol_offset_value_version(&fields, 3);
    uint8_t *value_end = ol_offset_value_put(value, &fields, version);
    ol_slice bytes = dice == 1 ? ol_slice_null() : ol_slice_of(value, (size_t)(value_end - value));
    return ol_record_put(out, 0, delta, ol_slice_of(key, (size_t)(key_end - key)), bytes, 0, ol_slice_of("", 0));
}

/* Appends a batch of `count` records; `claimed` is how many its header speaks of. */
static void put_batch(written_log *log, int32_t count, int32_t claimed, bool plain) {
    static const char *const groups[] = {"a", "billing", "other"}, *const topics[] = {"t", "orders", "payments"};
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, log->next_offset, fixture_now);
    fields.leader_epoch = 0;
    fields.record_count = claimed;
    fields.last_offset_delta = (claimed > count ? claimed : count) - 1;
    uint8_t *start = log->data + log->size, *end = start + OL_BATCH_OVERHEAD;
    int partition = 0;
    ol_slice group = text("a"), topic = text("t");
    for (int32_t i = 0; i < count; i++) {
        if (ol_test_below(30) == 0) group = random_name(groups, 3), partition = 0;
        if (ol_test_below(20) == 0) topic = random_name(topics, 3), partition = 0;
        end = put_random_record(end, i, &partition, group, topic, plain);
    }
    ol_batch_seal(start, end, &fields);
    log->size += (size_t)(end - start);
    log->next_offset += fields.last_offset_delta + 1;
}

static void write_log(const char *directory, const written_log *log) {
    char path[400];
    ol_error error;
    OL_CHECK_OK(ol_fs_posix()->make_directory(ol_fs_posix(), directory, &error), &error);
    snprintf(path, sizeof path, "%s/%020d.log", directory, 0);
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    OL_CHECK(file >= 0);
    OL_CHECK_INT(write(file, log->data, log->size), log->size);
    close(file);
}

/* The state that the one apply makes of the bytes, without the batches that it refuses. */
static void apply_each(const written_log *log, ol_state *state, int *refused) {
    ol_error error;
    ol_batch batch;
    OL_CHECK_OK(ol_state_create(state, &error), &error);
    *refused = 0;
    for (size_t at = 0; at < log->size; at += batch.size) {
        OL_CHECK_OK(ol_batch_parse(log->data + at, log->size - at, &batch, &error), &error);
        if (ol_state_apply_batch(state, &batch, NULL, NULL, &error) != OL_OK) ++*refused;
    }
}

static void compare(const written_log *log, int expected_refused) {
    const char *directory = fresh_directory();
    write_log(directory, log);
    ol_state expected;
    int refused;
    apply_each(log, &expected, &refused);
    OL_CHECK_INT(refused, expected_refused);
    ol_partition_options options = fixture_options(directory);
    ol_partition *partition = open_partition(&options, true);
    ol_problem problem;
    int problems = 0;
    while (ol_partition_problem_at(partition, (size_t)problems, &problem)) problems++;
    OL_CHECK_INT(problems, refused);
    const ol_state *loaded;
    ol_error error;
    ol_digest a, b;
    OL_CHECK_OK(ol_partition_lock_state(partition, &loaded, &error), &error);
    ol_table_verify(loaded->table);
    ol_state_digest(&expected, true, &a);
    ol_state_digest(loaded, true, &b);
    OL_CHECK_INT(loaded->value_version_max, expected.value_version_max);
    OL_CHECK_INT(loaded->unknown_records, expected.unknown_records);
    ol_partition_unlock_state(partition);
    OL_CHECK(memcmp(&a, &b, sizeof a) == 0);
    close_partition(partition);
    ol_state_destroy(&expected);
    remove_fixture();
}

static written_log new_log(void) { return (written_log){.data = malloc(8 * BATCH_BYTES_MAX)}; }

OL_TEST(a_loaded_log_is_the_log_applied_batch_by_batch) {
    for (int round = 0; round < 12; round++) {
        written_log log = new_log();
        while (log.size < 4 * BATCH_BYTES_MAX - 3000 * RECORD_BYTES_MAX) {
            static const uint64_t most[] = {1, 3, 40, 1024, 3000};
            int32_t count = 1 + (int32_t)ol_test_below(most[ol_test_below(5)]);
            put_batch(&log, count, count, ol_test_below(2) == 0);
            if (round % 2 == 0 && log.next_offset > 3000) break;
        }
        compare(&log, 0);
        free(log.data);
    }
}

/* The window holds 1,024 rows: batches of just as many, one fewer and one more, alone and after others. */
OL_TEST(batches_as_large_as_the_window) {
    for (int32_t before = 0; before < 3; before++) {
        for (int32_t count = 1023; count <= 1025; count++) {
            written_log log = new_log();
            if (before != 0) put_batch(&log, before, before, true);
            put_batch(&log, count, count, true);
            put_batch(&log, 2, 2, true);
            compare(&log, 0);
            free(log.data);
        }
    }
}

/* Nothing of a batch is applied whose last record is missing or whose bytes go on after it, whichever way it is loaded.
 * */
OL_TEST(half_a_batch_is_never_applied) {
    static const int32_t counts[] = {1, 2, 500, 1024, 1500};
    for (int i = 0; i < 5; i++) {
        for (int wrong = -1; wrong <= 1; wrong += 2) {
            if (counts[i] + wrong == 0) continue;
            for (int plain = 0; plain < 2; plain++) {
                written_log log = new_log();
                put_batch(&log, 20, 20, true);
                put_batch(&log, counts[i], counts[i] + wrong, plain);
                put_batch(&log, 20, 20, true);
                compare(&log, 1);
                free(log.data);
            }
        }
    }
}

OL_TEST_MAIN()
