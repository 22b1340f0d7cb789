/* The ends of transactions: markers as they are recorded, those that cannot be read, and the search by producer and
 * offset. */
#include "base/bytes.h"
#include "columns/transaction_outcomes.h"
#include "memory_scan.h"
#include "stored_codec.h"

enum { PRODUCERS = 5, STEPS = 400, UNKNOWN_TYPE = 2 };

/* An allocation that no machine can serve fails under a sanitizer as it does without one. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

static void check_end(const ol_transaction_outcomes *outcomes, int64_t producer_id, int64_t offset,
                      int64_t marker_offset, ol_control type) {
    const ol_outcome_marker *marker = ol_transaction_outcomes_find(outcomes, producer_id, offset);
    OL_CHECK(marker != NULL);
    OL_CHECK_INT(marker->producer_id, producer_id);
    OL_CHECK_INT(marker->offset, marker_offset);
    OL_CHECK_INT(marker->type, type);
}

static void check_no_end(const ol_transaction_outcomes *outcomes, int64_t producer_id, int64_t offset) {
    OL_CHECK(ol_transaction_outcomes_find(outcomes, producer_id, offset) == NULL);
}

/* A transaction of producer 7 at offset 0, which nothing ends. */
static void begin_transaction(void) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, 7, 1);
}

/* Adds a record to the control batch in the making. */
static void put_marker_record(int16_t type) {
    uint8_t key[4] = {0};
    ol_store_i16(key + 2, type);
    memory_log_put(&the_log, ol_slice_of(key, sizeof key), ol_slice_of("\0\0\0\0\0\3", 6));
}

static void check_still_open(const ol_decompressor *decompressor) {
    ol_transaction_outcomes outcomes = outcomes_of_log(decompressor);
    OL_CHECK_INT(outcomes.count, 0);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 1);
    check_no_end(&outcomes, 7, 0);
    ol_transaction_outcomes_free(&outcomes);
}

static void check_ended(const ol_decompressor *decompressor, ol_control type) {
    ol_transaction_outcomes outcomes = outcomes_of_log(decompressor);
    OL_CHECK_INT(outcomes.count, 1);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 0);
    check_end(&outcomes, 7, 0, 1, type);
    ol_transaction_outcomes_free(&outcomes);
}

/* ----------------------------------------------------------------------------------------- markers that can be read */

OL_TEST(a_marker_ends_its_transaction_as_it_says) {
    for (int type = OL_CONTROL_ABORT; type <= OL_CONTROL_COMMIT; type++) {
        begin_transaction();
        memory_log_marker(&the_log, 7, (ol_control)type);
        check_ended(NULL, (ol_control)type);
    }
}

OL_TEST(a_marker_ends_the_writes_of_its_own_producer_below_it) {
    begin_transaction();
    memory_log_commits(&the_log, 8, 2);
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
    check_end(&outcomes, 7, 0, 3, OL_CONTROL_COMMIT);
    check_end(&outcomes, 7, 2, 3, OL_CONTROL_COMMIT);
    check_no_end(&outcomes, 7, 3);
    check_no_end(&outcomes, 7, INT64_MAX);
    check_no_end(&outcomes, 6, 0);
    check_no_end(&outcomes, 8, 1);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 1);
    ol_transaction_outcomes_free(&outcomes);
}

OL_TEST(a_producer_that_is_reused_has_an_end_for_each_transaction) {
    begin_transaction();
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    memory_log_commits(&the_log, 7, 2);
    memory_log_marker(&the_log, 7, OL_CONTROL_ABORT);
    memory_log_commits(&the_log, 7, 1);
    ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
    check_end(&outcomes, 7, 0, 1, OL_CONTROL_COMMIT);
    check_end(&outcomes, 7, 2, 4, OL_CONTROL_ABORT);
    check_end(&outcomes, 7, 3, 4, OL_CONTROL_ABORT);
    check_no_end(&outcomes, 7, 5);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 1);
    ol_transaction_outcomes_free(&outcomes);
}

OL_TEST(a_batch_may_hold_several_markers) {
    begin_transaction();
    put_marker_record(OL_CONTROL_COMMIT);
    put_marker_record(UNKNOWN_TYPE);
    put_marker_record(OL_CONTROL_ABORT);
    memory_log_seal_control(&the_log, 7);
    ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
    OL_CHECK_INT(outcomes.count, 2);
    check_end(&outcomes, 7, 0, 1, OL_CONTROL_COMMIT);
    check_end(&outcomes, 7, 1, 3, OL_CONTROL_ABORT);
    ol_transaction_outcomes_free(&outcomes);
}

OL_TEST(a_compressed_marker_is_read_and_its_block_released) {
    stored_codec stored;
    ol_decompressor port = stored_port(&stored);
    begin_transaction();
    memory_log_marker(&the_log, 7, OL_CONTROL_ABORT);
    memory_log_compress(&the_log);
    check_ended(&port, OL_CONTROL_ABORT);
    OL_CHECK_INT(stored.held, 0);
}

/* The map of open transactions has the id plus 1 as its key. */
OL_TEST(the_least_and_the_greatest_producer_id_end_their_transactions) {
    static const int64_t ids[] = {0, INT64_MAX};
    for (size_t i = 0; i < 2; i++) {
        memory_log_clear(&the_log);
        memory_log_commits(&the_log, ids[i], 1);
        memory_log_marker(&the_log, ids[i], OL_CONTROL_COMMIT);
        memory_log_commits(&the_log, ids[i], 1);
        ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
        check_end(&outcomes, ids[i], 0, 1, OL_CONTROL_COMMIT);
        check_no_end(&outcomes, ids[i], 2);
        OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 1);
        ol_transaction_outcomes_free(&outcomes);
    }
}

/* ----------------------------------------------------------------------------------------- markers that end nothing */

OL_TEST(a_flipped_bit_in_a_marker_leaves_its_transaction_open) {
    size_t refused = 0;
    begin_transaction();
    memory_log_marker(&the_log, 7, OL_CONTROL_ABORT);
    for (size_t bit = MEMORY_LOG_FIRST_BIT; bit < memory_log_bits(&the_log, 1); bit++) {
        ol_batch batch;
        ol_error error;
        memory_log_flip(&the_log, 1, bit);
        /* No walk over a file returns a batch whose header cannot be: a negative delta, or too many records. */
        if (ol_batch_parse(memory_log_start(&the_log, 1), OL_BATCH_MARKER_SIZE, &batch, &error) == OL_OK) {
            check_still_open(NULL);
        } else {
            refused++;
        }
        memory_log_flip(&the_log, 1, bit);
    }
    OL_CHECK_INT(refused, 32);
    check_ended(NULL, OL_CONTROL_ABORT);
}

OL_TEST(a_marker_of_an_unknown_type_ends_nothing) {
    static const int16_t types[] = {UNKNOWN_TYPE, 3, -1};
    for (size_t i = 0; i < 3; i++) {
        begin_transaction();
        put_marker_record(types[i]);
        memory_log_seal_control(&the_log, 7);
        check_still_open(NULL);
    }
}

OL_TEST(a_marker_that_cannot_be_decoded_ends_nothing) {
    ol_slice commit = ol_slice_of("\0\0\0\1", 4), value = ol_slice_of("\0\0\0\0\0\3", 6);
    const ol_slice records[][2] = {
        {ol_slice_null(), value},
        {ol_slice_of("\0\0\0", 3), value},
        {ol_slice_of("\xff\xff\0\1", 4), value},
        {commit, ol_slice_null()},
        {commit, ol_slice_of("\0\0\0\0\0", 5)},
        {commit, ol_slice_of("\xff\xff\0\0\0\3", 6)},
    };
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        begin_transaction();
        memory_log_control(&the_log, 7, records[i][0], records[i][1]);
        check_still_open(NULL);
    }
}

OL_TEST(a_marker_after_one_that_cannot_be_decoded_is_not_read) {
    begin_transaction();
    memory_log_put(&the_log, ol_slice_of("\0", 1), ol_slice_null());
    put_marker_record(OL_CONTROL_COMMIT);
    memory_log_seal_control(&the_log, 7);
    check_still_open(NULL);
}

/* A load applies nothing of such a batch. */
OL_TEST(a_marker_before_a_broken_record_ends_nothing) {
    begin_transaction();
    put_marker_record(OL_CONTROL_COMMIT);
    size_t second = the_log.filled;
    put_marker_record(UNKNOWN_TYPE);
    memory_log_seal_control(&the_log, 7);
    the_log.bytes[second] += 2;
    memory_log_renew_crc(&the_log, 1);
    check_still_open(NULL);
}

OL_TEST(a_record_that_passes_the_end_of_its_control_batch_ends_nothing) {
    begin_transaction();
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    memory_log_start(&the_log, 1)[OL_BATCH_AT_RECORDS] += 2;
    memory_log_renew_crc(&the_log, 1);
    check_still_open(NULL);
}

OL_TEST(a_control_batch_that_a_cleaner_emptied_ends_nothing) {
    begin_transaction();
    memory_log_seal_control(&the_log, 7);
    check_still_open(NULL);
}

OL_TEST(a_compressed_marker_that_cannot_be_inflated_ends_nothing) {
    stored_codec stored;
    ol_decompressor port = stored_port(&stored);
    begin_transaction();
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    memory_log_compress(&the_log);
    check_still_open(NULL);
    memory_log_start(&the_log, 1)[OL_BATCH_AT_RECORDS] = 'T';
    memory_log_renew_crc(&the_log, 1);
    check_still_open(&port);
    OL_CHECK_INT(stored.held, 0);
}

/* A batch is passed over, not the log: what follows it counts. */
OL_TEST(a_marker_after_a_damaged_one_ends_the_transaction) {
    begin_transaction();
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    memory_log_marker(&the_log, 7, OL_CONTROL_ABORT);
    memory_log_flip_last(&the_log, 1);
    ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
    check_end(&outcomes, 7, 0, 2, OL_CONTROL_ABORT);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 0);
    ol_transaction_outcomes_free(&outcomes);
}

/* --------------------------------------------------------------------------------------- transactions that are open */

OL_TEST(a_transaction_is_open_once_until_its_marker) {
    static const size_t open[] = {1, 1, 2, 1, 0, 0};
    ol_transaction_outcomes outcomes = {0};
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, 7, 1);
    memory_log_commits(&the_log, 7, 1);
    memory_log_commits(&the_log, 8, 1);
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    memory_log_marker(&the_log, 8, OL_CONTROL_ABORT);
    memory_log_marker(&the_log, 8, OL_CONTROL_ABORT);
    for (size_t i = 0; i < the_log.count; i++) {
        record_batch(&outcomes, i, NULL, true);
        OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), open[i]);
    }
    OL_CHECK_INT(outcomes.count, 3);
    ol_transaction_outcomes_free(&outcomes);
}

OL_TEST(a_batch_past_the_end_of_a_read_starts_no_wait_but_its_marker_counts) {
    ol_transaction_outcomes outcomes = {0};
    begin_transaction();
    memory_log_commits(&the_log, 8, 1);
    memory_log_marker(&the_log, 8, OL_CONTROL_COMMIT);
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    record_batch(&outcomes, 0, NULL, true);
    for (size_t i = 1; i < 3; i++) {
        record_batch(&outcomes, i, NULL, false);
        OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 1);
    }
    record_batch(&outcomes, 3, NULL, false);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 0);
    OL_CHECK_INT(outcomes.count, 2);
    ol_transaction_outcomes_free(&outcomes);
}

OL_TEST(a_batch_that_takes_effect_at_once_starts_no_wait) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, 1);
    memory_log_put_commit(&the_log, 0);
    memory_log_seal(&the_log, 7, 0);
    memory_log_put_commit(&the_log, 0);
    memory_log_seal(&the_log, -1, OL_ATTRIBUTE_TRANSACTIONAL);
    ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 0);
    OL_CHECK_INT(outcomes.count, 0);
    ol_transaction_outcomes_free(&outcomes);
}

OL_TEST(hundreds_of_transactions_are_open_at_once) {
    ol_transaction_outcomes outcomes = {0};
    memory_log_clear(&the_log);
    for (int64_t id = 0; id < STEPS; id++) memory_log_commits(&the_log, id, 1);
    for (int64_t id = 0; id < STEPS; id++) memory_log_marker(&the_log, id, OL_CONTROL_COMMIT);
    for (size_t i = 0; i < the_log.count; i++) {
        record_batch(&outcomes, i, NULL, true);
        OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), i < STEPS ? i + 1 : 2 * STEPS - i - 1);
    }
    ol_transaction_outcomes_sort(&outcomes);
    for (int64_t id = 0; id < STEPS; id++) check_end(&outcomes, id, id, STEPS + id, OL_CONTROL_COMMIT);
    ol_transaction_outcomes_free(&outcomes);
}

/* ----------------------------------------------------------------------------------------- the order and the search */

OL_TEST(nothing_is_found_where_nothing_was_recorded) {
    ol_transaction_outcomes outcomes = {0};
    check_no_end(&outcomes, 7, 0);
    ol_transaction_outcomes_sort(&outcomes);
    check_no_end(&outcomes, 7, 0);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 0);
    ol_transaction_outcomes_free(&outcomes);
}

OL_TEST(outcomes_are_empty_after_they_were_freed) {
    begin_transaction();
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    memory_log_commits(&the_log, 7, 1);
    ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
    ol_transaction_outcomes_free(&outcomes);
    check_no_end(&outcomes, 7, 0);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 0);
    ol_transaction_outcomes_free(&outcomes);
}

/* The base offset is in no checksum, so a marker may lie after one of a greater offset. */
OL_TEST(markers_are_sorted_by_producer_and_then_by_offset) {
    ol_transaction_outcomes outcomes = {0};
    memory_log_clear(&the_log);
    for (int i = 0; i < 6; i++) {
        memory_log_marker(&the_log, i % 2 ? 7 : 8, i % 3 ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
    }
    for (size_t i = 6; i-- > 0;) record_batch(&outcomes, i, NULL, true);
    OL_CHECK(!outcomes.is_sorted);
    ol_transaction_outcomes_sort(&outcomes);
    OL_CHECK(outcomes.is_sorted);
    static const int64_t offsets[] = {1, 3, 5, 0, 2, 4};
    for (size_t i = 0; i < 6; i++) {
        OL_CHECK_INT(outcomes.markers[i].producer_id, i < 3 ? 7 : 8);
        OL_CHECK_INT(outcomes.markers[i].offset, offsets[i]);
        OL_CHECK_INT(outcomes.markers[i].type, offsets[i] % 3 ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
    }
    record_batch(&outcomes, 0, NULL, true);
    OL_CHECK(!outcomes.is_sorted);
    ol_transaction_outcomes_free(&outcomes);
}

typedef struct written {
    ol_outcome_marker markers[STEPS];
    size_t count;
    bool open[PRODUCERS];
} written;

static void write_anything(written *model) {
    memory_log_clear(&the_log);
    memset(model, 0, sizeof *model);
    for (int i = 0; i < STEPS; i++) {
        int64_t id = (int64_t)ol_test_below(PRODUCERS);
        ol_control type = (ol_control)ol_test_below(2);
        if (ol_test_below(3) > 0) {
            memory_log_commits(&the_log, id, 1);
            model->open[id] = true;
            continue;
        }
        model->markers[model->count++] = (ol_outcome_marker){id, the_log.next_offset, type};
        memory_log_marker(&the_log, id, type);
        model->open[id] = false;
    }
}

/* The first marker of the producer above the offset, in log order. */
static const ol_outcome_marker *search_all(const written *model, int64_t producer_id, int64_t offset) {
    for (size_t i = 0; i < model->count; i++) {
        const ol_outcome_marker *marker = &model->markers[i];
        if (marker->producer_id == producer_id && marker->offset > offset) return marker;
    }
    return NULL;
}

OL_TEST(a_search_finds_the_marker_that_a_walk_over_all_of_them_finds) {
    static written model;
    for (int64_t round = 0; round < ol_test_depth(20, 200); round++) {
        write_anything(&model);
        ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
        OL_CHECK_INT(outcomes.count, model.count);
        size_t open = 0;
        for (int64_t id = 0; id < PRODUCERS; id++) open += model.open[id];
        OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), open);
        /* One id below all of them and one above have no marker. */
        for (int64_t id = -1; id <= PRODUCERS; id++) {
            for (int64_t offset = -1; offset <= the_log.next_offset; offset++) {
                const ol_outcome_marker *marker = search_all(&model, id, offset);
                if (marker == NULL) {
                    check_no_end(&outcomes, id, offset);
                } else {
                    check_end(&outcomes, id, offset, marker->offset, marker->type);
                }
            }
        }
        ol_transaction_outcomes_free(&outcomes);
    }
}

/* ---------------------------------------------------------------------------------------------------- out of memory */

/* The outcomes claim to hold more markers than memory has room for, so that one more finds none. */
OL_TEST(a_marker_that_finds_no_memory_changes_nothing) {
    ol_error error;
    ol_transaction_outcomes outcomes = {0};
    begin_transaction();
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    record_batch(&outcomes, 0, NULL, true);
    outcomes.count = outcomes.capacity = (size_t)1 << 57;
    ol_batch batch = memory_log_batch(&the_log, 1);
    OL_CHECK_INT(ol_transaction_outcomes_record(&outcomes, &batch, NULL, true, &error), OL_NO_MEMORY);
    OL_CHECK(outcomes.markers == NULL && outcomes.count == (size_t)1 << 57 && outcomes.capacity == (size_t)1 << 57);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), 1);
    outcomes.count = outcomes.capacity = 0;
    record_batch(&outcomes, 1, NULL, true);
    ol_transaction_outcomes_sort(&outcomes);
    check_end(&outcomes, 7, 0, 1, OL_CONTROL_COMMIT);
    ol_transaction_outcomes_free(&outcomes);
}

OL_TEST(a_block_is_released_when_its_marker_finds_no_memory) {
    stored_codec stored;
    ol_decompressor port = stored_port(&stored);
    ol_error error;
    ol_transaction_outcomes outcomes = {0};
    begin_transaction();
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    memory_log_compress(&the_log);
    outcomes.count = outcomes.capacity = (size_t)1 << 57;
    ol_batch batch = memory_log_batch(&the_log, 1);
    OL_CHECK_INT(ol_transaction_outcomes_record(&outcomes, &batch, &port, true, &error), OL_NO_MEMORY);
    OL_CHECK_INT(stored.held, 0);
}

OL_TEST(a_transaction_that_finds_no_memory_is_not_open) {
    ol_error error;
    ol_transaction_outcomes outcomes = {0};
    begin_transaction();
    outcomes.open.count = (size_t)1 << 58;
    ol_batch batch = memory_log_batch(&the_log, 0);
    OL_CHECK_INT(ol_transaction_outcomes_record(&outcomes, &batch, NULL, true, &error), OL_NO_MEMORY);
    OL_CHECK_INT(ol_transaction_outcomes_open(&outcomes), (size_t)1 << 58);
    OL_CHECK(outcomes.open.entries == NULL && outcomes.open.capacity == 0);
}

OL_TEST_MAIN()
