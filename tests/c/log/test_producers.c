#include <dirent.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "log/files/names.h"
#include "log/files/producers.h"
#include "ol_test.h"
#include "ol_test_directory.h"

static const char empty_snapshot[] = "000148674bc700000000";
static const char one_snapshot[] =
    "000124de42bf000000010000000000000fa00002000000000000000000000067000000000000018bcfe56800ffffffff0000000000000067";
/* Spec 14.2: a transactional commit at 103, its COMMIT marker at 104, an ABORT marker at 105, the commit emptied. */
static const char data_batch[] =
    "00000000000000670000006800000006029c0925550010000000000000018bcfe568000000018bcfe568000000000000000fa0000200000000000000016c"
    "00000030000100086d792d67726f757000066f72646572730000000330000300000000000000320000000700000000018bcfe5680000";
static const char commit_marker[] =
    "000000000000006800000042000000060263e14b660030000000000000018bcfe568010000018bcfe568010000000000000fa00002ffffffff0000000120"
    "00000008000000010c00000000000b00";
static const char abort_marker[] =
    "000000000000006900000042000000060263793dab0030000000000000018bcfe568020000018bcfe568020000000000000fa00002ffffffff0000000120"
    "00000008000000000c00000000000b00";
static const char emptied_batch[] =
    "00000000000000670000003100000006023df2544b001000000000ffffffffffffffff0000018bcfe568000000000000000fa000020000000000000000";

#define T INT64_C(1700000000000)

static ol_error error;

static void apply_hex(ol_producers *producers, const char *hex, ol_producers_change *change) {
    size_t size;
    ol_batch batch;
    uint8_t *bytes = ol_test_unhex(hex, &size);
    OL_CHECK_OK(ol_batch_parse(bytes, size, &batch, &error), &error);
    OL_CHECK_OK(ol_producers_apply(producers, &batch, change, &error), &error);
    free(bytes);
}

static void check_encoded(const ol_producers *producers, const char *hex) {
    uint8_t *bytes;
    size_t size, expected_size;
    uint8_t *expected = ol_test_unhex(hex, &expected_size);
    OL_CHECK_OK(ol_producers_encode(producers, &bytes, &size, &error), &error);
    OL_CHECK_INT(size, expected_size);
    OL_CHECK(memcmp(bytes, expected, size) == 0);
    free(bytes);
    free(expected);
}

static int decode_copy(ol_producers *producers, const uint8_t *bytes, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    int status = ol_producers_decode(producers, ol_slice_of(copy, size), &error);
    free(copy);
    return status;
}

OL_TEST(snapshot_vectors_both_directions) {
    ol_producers producers = {0};
    check_encoded(&producers, empty_snapshot);
    apply_hex(&producers, data_batch, NULL);
    check_encoded(&producers, one_snapshot);
    ol_producers_free(&producers);
    size_t size;
    uint8_t *bytes = ol_test_unhex(empty_snapshot, &size);
    OL_CHECK_OK(decode_copy(&producers, bytes, size), &error);
    OL_CHECK_INT(producers.count, 0);
    free(bytes);
    bytes = ol_test_unhex(one_snapshot, &size);
    OL_CHECK_OK(decode_copy(&producers, bytes, size), &error);
    free(bytes);
    const ol_producer *producer = ol_producers_find(&producers, 4000);
    OL_CHECK(producer != NULL);
    OL_CHECK_INT(producer->epoch, 2);
    OL_CHECK_INT(producer->last_sequence, 0);
    OL_CHECK_INT(producer->last_offset, 103);
    OL_CHECK_INT(producer->offset_delta, 0);
    OL_CHECK_INT(producer->timestamp, T);
    OL_CHECK_INT(producer->coordinator_epoch, -1);
    OL_CHECK_INT(producer->transaction_first_offset, 103);
    OL_CHECK_INT(ol_producers_first_open_offset(&producers), 103);
    OL_CHECK_INT(ol_producers_highest_id(&producers), 4000);
    OL_CHECK(ol_producers_find(&producers, 4001) == NULL);
    OL_CHECK(ol_producers_find(&producers, -1) == NULL);
    check_encoded(&producers, one_snapshot);
    ol_producers_free(&producers);
}

OL_TEST(golden_transaction_commits_and_aborts) {
    ol_producers producers = {0};
    ol_producers_change change;
    apply_hex(&producers, data_batch, &change);
    OL_CHECK(!change.completed);
    apply_hex(&producers, commit_marker, &change);
    OL_CHECK(change.completed && !change.aborted);
    OL_CHECK_INT(ol_producers_first_open_offset(&producers), -1);
    const ol_producer *producer = ol_producers_find(&producers, 4000);
    OL_CHECK_INT(producer->coordinator_epoch, 11);
    OL_CHECK_INT(producer->timestamp, T + 1);
    OL_CHECK_INT(producer->last_offset, 103);
    OL_CHECK_INT(producer->last_sequence, 0);
    apply_hex(&producers, abort_marker, &change);       /* nothing is open */
    OL_CHECK(!change.completed && !change.aborted);
    ol_producers_free(&producers);
    apply_hex(&producers, emptied_batch, &change);      /* still opens the transaction that it began */
    OL_CHECK_INT(ol_producers_first_open_offset(&producers), 103);
    apply_hex(&producers, abort_marker, &change);
    OL_CHECK(change.completed && change.aborted);
    OL_CHECK_INT(change.transaction.producer_id, 4000);
    OL_CHECK_INT(change.transaction.first_offset, 103);
    OL_CHECK_INT(change.transaction.last_offset, 105);
    OL_CHECK_INT(change.transaction.last_stable_offset, 106);
    ol_producers_free(&producers);
}

static ol_batch plain_batch(int64_t producer_id, int16_t epoch, int64_t base_offset, int32_t delta, int32_t sequence,
                            int16_t attributes) {
    return (ol_batch){.base_offset = base_offset, .last_offset = base_offset + delta, .max_timestamp = base_offset * 10,
                      .producer_id = producer_id, .base_sequence = sequence, .record_count = delta + 1,
                      .producer_epoch = epoch, .attributes = attributes, .magic = 2};
}

static void apply(ol_producers *producers, ol_batch batch) {
    OL_CHECK_OK(ol_producers_apply(producers, &batch, NULL, &error), &error);
}

OL_TEST(open_transactions_keep_their_order) {
    ol_producers producers = {0};
    ol_producers_change change;
    apply(&producers, plain_batch(7, 0, 10, 4, 0, OL_ATTRIBUTE_TRANSACTIONAL));
    apply(&producers, plain_batch(5, 0, 20, 0, 0, OL_ATTRIBUTE_TRANSACTIONAL));
    apply(&producers, plain_batch(7, 0, 30, 0, 5, OL_ATTRIBUTE_TRANSACTIONAL));
    apply(&producers, plain_batch(-1, -1, 31, 0, 0, 0));
    apply(&producers, plain_batch(9, 0, 40, 0, 0, 0));
    OL_CHECK_INT(producers.count, 3);
    OL_CHECK_INT(producers.open_count, 2);
    OL_CHECK_INT(ol_producers_first_open_offset(&producers), 10);
    ol_batch marker = plain_batch(5, 1, 50, 0, -1, OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_CONTROL);
    OL_CHECK_OK(ol_producers_apply_marker(&producers, &marker, OL_CONTROL_OTHER, -1, &change, &error), &error);
    OL_CHECK(!change.completed);
    OL_CHECK_OK(ol_producers_apply_marker(&producers, &marker, OL_CONTROL_ABORT, 3, &change, &error), &error);
    OL_CHECK(change.aborted);
    OL_CHECK_INT(change.transaction.first_offset, 20);
    OL_CHECK_INT(change.transaction.last_stable_offset, 10);
    /* The marker carries the next epoch (transactions version 2): what was known of the batches is gone. */
    OL_CHECK_INT(ol_producers_find(&producers, 5)->epoch, 1);
    OL_CHECK_INT(ol_producers_find(&producers, 5)->last_offset, -1);
    OL_CHECK_INT(ol_producers_find(&producers, 5)->last_sequence, -1);
    marker = plain_batch(7, 0, 60, 0, -1, OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_CONTROL);
    OL_CHECK_OK(ol_producers_apply_marker(&producers, &marker, OL_CONTROL_COMMIT, 3, &change, &error), &error);
    OL_CHECK(change.completed && !change.aborted);
    OL_CHECK_INT(change.transaction.last_stable_offset, 61);
    OL_CHECK_INT(ol_producers_find(&producers, 7)->last_sequence, 5);
    ol_producers_free(&producers);
}

OL_TEST(sequences_wrap_at_two_to_the_31) {
    ol_producers producers = {0};
    apply(&producers, plain_batch(1, 0, 0, 3, INT32_MAX - 1, 0));
    OL_CHECK_INT(ol_producers_find(&producers, 1)->last_sequence, 1);
    apply(&producers, plain_batch(1, 0, 4, 3, -1, 0));
    OL_CHECK_INT(ol_producers_find(&producers, 1)->last_sequence, -1);
    OL_CHECK_INT(ol_producers_find(&producers, 1)->offset_delta, 3);
    ol_producers_free(&producers);
}

/* A few thousand producers come and go, beside a plain array. */
OL_TEST(map_agrees_with_a_model) {
    enum { IDS = 3000 };
    static int64_t timestamps[IDS];
    ol_producers producers = {0};
    for (int id = 0; id < IDS; id++) timestamps[id] = -1;
    for (int step = 0; step < 40000; step++) {
        int64_t id = (int64_t)ol_test_below(IDS);
        if (step % 4000 == 3999) {
            int64_t now = step * 10, removed = 0;
            for (int i = 0; i < IDS; i++) {
                if (timestamps[i] < 0 || now - timestamps[i] < 9000 || i % 64 == 0 || i == IDS - 1) continue;
                timestamps[i] = -1;
                removed++;
            }
            OL_CHECK_INT(ol_producers_expire(&producers, now, 9000, IDS - 1), removed);
        }
        apply(&producers, plain_batch(id, 0, step, 0, 0, id % 64 == 0 ? OL_ATTRIBUTE_TRANSACTIONAL : 0));
        timestamps[id] = step * 10;
    }
    size_t count = 0;
    for (int id = 0; id < IDS; id++) {
        const ol_producer *producer = ol_producers_find(&producers, id);
        OL_CHECK((producer != NULL) == (timestamps[id] >= 0));
        if (producer == NULL) continue;
        OL_CHECK_INT(producer->timestamp, timestamps[id]);
        count++;
    }
    OL_CHECK_INT(producers.count, count);
    OL_CHECK_INT(ol_producers_highest_id(&producers), IDS - 1);
    uint8_t *bytes, *again;
    size_t size, again_size;
    OL_CHECK_OK(ol_producers_encode(&producers, &bytes, &size, &error), &error);
    ol_producers copy = {0};
    OL_CHECK_OK(decode_copy(&copy, bytes, size), &error);
    OL_CHECK_INT(copy.open_count, producers.open_count);
    OL_CHECK(memcmp(copy.open, producers.open, copy.open_count * sizeof *copy.open) == 0);
    OL_CHECK_OK(ol_producers_encode(&copy, &again, &again_size, &error), &error);
    OL_CHECK(size == again_size && memcmp(bytes, again, size) == 0);
    free(bytes);
    free(again);
    ol_producers_free(&copy);
    ol_producers_free(&producers);
}

OL_TEST(damaged_snapshots_are_refused) {
    size_t size;
    uint8_t *bytes = ol_test_unhex(one_snapshot, &size);
    ol_producers producers = {0};
    for (size_t cut = 0; cut < size; cut++) OL_CHECK_INT(decode_copy(&producers, bytes, cut), OL_CORRUPT);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        OL_CHECK_INT(decode_copy(&producers, bytes, size), bit < 16 ? OL_UNSUPPORTED : OL_CORRUPT);
        OL_CHECK_INT(producers.count, 0);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    /* With a right CRC: a wrong count, a negative id, a repeated id. */
    uint8_t two[56 + 46];
    memcpy(two, bytes, 56);
    memcpy(two + 56, bytes + 10, 46);
    ol_store_u32(two + 2, ol_crc32c(two + 6, sizeof two - 6));
    OL_CHECK_INT(decode_copy(&producers, two, sizeof two), OL_CORRUPT);
    ol_store_i32(two + 6, 2);
    ol_store_u32(two + 2, ol_crc32c(two + 6, sizeof two - 6));
    OL_CHECK_INT(decode_copy(&producers, two, sizeof two), OL_CORRUPT);
    OL_CHECK(strstr(error.reason, "more than once") != NULL);
    OL_CHECK_INT(producers.count, 0);
    OL_CHECK_INT(producers.open_count, 0);
    ol_store_i64(two + 56, -5);
    ol_store_u32(two + 2, ol_crc32c(two + 6, sizeof two - 6));
    OL_CHECK_INT(decode_copy(&producers, two, sizeof two), OL_CORRUPT);
    ol_store_i64(two + 56, 5);
    ol_store_u32(two + 2, ol_crc32c(two + 6, sizeof two - 6));
    OL_CHECK_OK(decode_copy(&producers, two, sizeof two), &error);
    OL_CHECK_INT(producers.count, 2);
    free(bytes);
    ol_producers_free(&producers);
}

OL_TEST(snapshot_files) {
    char directory[256];
    ol_test_directory_make(directory);
    ol_fs *fs = ol_fs_posix();
    const char *path = ol_test_path(directory, "00000000000000000104.snapshot");
    ol_producers producers = {0}, loaded = {0};
    OL_CHECK_INT(ol_producers_load(&loaded, fs, path, &error), OL_NO_SUCH_FILE);
    apply_hex(&producers, data_batch, NULL);
    OL_CHECK_OK(ol_producers_store(&producers, fs, path, true, &error), &error);
    OL_CHECK_OK(ol_producers_load(&loaded, fs, path, &error), &error);
    check_encoded(&loaded, one_snapshot);
    ol_producers_clear(&producers);
    OL_CHECK_OK(ol_producers_store(&producers, fs, path, false, &error), &error);
    ol_producers_clear(&loaded);
    OL_CHECK_OK(ol_producers_load(&loaded, fs, path, &error), &error);
    check_encoded(&loaded, empty_snapshot);
    ol_producers_free(&producers);
    ol_producers_free(&loaded);
    ol_test_directory_remove(directory);
}

OL_TEST(batches_cut_or_flipped_never_break_the_state) {
    const char *texts[] = {data_batch, commit_marker, abort_marker, emptied_batch};
    for (size_t i = 0; i < 4; i++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(texts[i], &size);
        for (size_t bit = 0; bit < 8 * size; bit++) {
            ol_producers producers = {0};
            ol_batch batch;
            apply_hex(&producers, data_batch, NULL);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (ol_batch_parse(bytes, size, &batch, &error) == OL_OK) {
                int status = ol_producers_apply(&producers, &batch, NULL, &error);
                if (status != OL_OK) check_encoded(&producers, one_snapshot);
            }
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            ol_producers_free(&producers);
        }
        free(bytes);
    }
}

OL_TEST_MAIN()
