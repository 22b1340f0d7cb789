/* partition/commit/fast_path: it writes and applies the same as the general way, for any input. */
#include "base/bytes.h"
#include "partition_fixture.h"

enum { GROUPS = 3, TOPICS = 3, PARTITIONS = 40, ITEMS_MAX = 60 };

static const char topic_ids[TOPICS][OL_TOPIC_ID_SIZE] = {"the first id", "the second id", "the third id"};
static const char *const groups[GROUPS] = {"a", "billing", "another group"}, *const topics[TOPICS] = {"t", "orders", "payments"};

/* The expected value of each position. */
typedef struct expected {
    int64_t offset[GROUPS][TOPICS][PARTITIONS];
    char metadata[GROUPS][TOPICS][PARTITIONS][4];
} expected;

/* The items as the rows of runs. */
static int commit_rows(ol_partition *partition, const ol_item *items, size_t count, int64_t producer_id, ol_commit_result *result,
                       ol_error *error) {
    ol_position_row rows[ITEMS_MAX];
    ol_row_run runs[ITEMS_MAX];
    size_t run_count = 0;
    for (size_t i = 0; i < count; i++) {
        const ol_item *item = &items[i];
        if (i == 0 || !ol_slice_equal(item->group, item[-1].group) || !ol_slice_equal(item->topic, item[-1].topic)) {
            runs[run_count++] = (ol_row_run){item->group, item->topic, i};
        }
        rows[i] = (ol_position_row){{.offset = item->offset, .commit_timestamp = item->commit_timestamp, .leader_epoch = item->leader_epoch,
                                     .expire_timestamp = item->expire_timestamp, .metadata = item->metadata},
                                    item->partition};
    }
    return ol_partition_commit_rows(partition, runs, run_count, rows, count, producer_id, producer_id < 0 ? -1 : 0, result, error);
}

typedef enum commit_way { COMMIT_ITEMS, COMMIT_TRY, COMMIT_ROWS, COMMIT_TRANSACTIONAL_ROWS } commit_way;

/* Rows in a transaction of their own, which takes effect with its marker. */
static int commit_rows_in_transaction(ol_partition *partition, const ol_item *items, size_t count, ol_commit_result *result, ol_error *error) {
    ol_commit_result marker;
    int status = commit_rows(partition, items, count, 77, result, error);
    if (status != OL_OK) return status;
    OL_CHECK_INT(result->end_offset, result->base_offset + (int64_t)count);
    status = ol_partition_end_transaction(partition, 77, 0, OL_CONTROL_COMMIT, 0, &marker, error);
    result->end_offset = marker.end_offset;
    return status;
}

/* One commit of 1 to 60 items, most of them of known positions; some twice, some with other metadata, some with what only the long way takes. */
static void commit_random(ol_partition *partition, expected *model, commit_way way) {
    static const char *const metadata[] = {"", "", "", "", "", "", "m", "xyz"};
    ol_item items[ITEMS_MAX];
    size_t count = ol_test_below(3) == 0 ? 1 + ol_test_below(4) : 1 + ol_test_below(ITEMS_MAX);
    int g = (int)ol_test_below(GROUPS), t = (int)ol_test_below(TOPICS), p = (int)ol_test_below(PARTITIONS);
    bool changes_metadata = ol_test_below(4) == 0, is_special = ol_test_below(6) == 0;
    bool has_ids = way < COMMIT_ROWS && ol_test_below(2) == 0;
    for (size_t i = 0; i < count; i++, p = (p + 1 + (int)ol_test_below(3)) % PARTITIONS) {
        if (ol_test_below(12) == 0) t = (int)ol_test_below(TOPICS);
        if (ol_test_below(20) == 0) g = (int)ol_test_below(GROUPS);
        if (ol_test_below(10) == 0 && i > 0) p = items[i - 1].partition;
        const char *own = changes_metadata ? metadata[ol_test_below(8)] : model->metadata[g][t][p];
        items[i] = position_item(groups[g], topics[t], p, (int64_t)ol_test_below(1u << 30));
        items[i].leader_epoch = (int32_t)ol_test_below(4) - 1;
        if (has_ids) items[i].topic_id = (const uint8_t *)topic_ids[t];
        if (is_special && ol_test_below(5) == 0) items[i].expire_timestamp = 12345;
        if (is_special && ol_test_below(5) == 0) items[i].commit_timestamp = 99;
        memmove(model->metadata[g][t][p], own, strlen(own) + 1);
        items[i].metadata = text(own == model->metadata[g][t][p] ? model->metadata[g][t][p] : own);
        model->offset[g][t][p] = items[i].offset;
    }
    ol_commit_result result;
    ol_error error;
    int64_t before = ol_log_end(ol_partition_log(partition));
    int status = OL_WOULD_BLOCK;
    if (way == COMMIT_TRY) status = ol_partition_try_commit(partition, items, count, &result, &error);
    if (way == COMMIT_ROWS) status = commit_rows(partition, items, count, -1, &result, &error);
    if (way == COMMIT_TRANSACTIONAL_ROWS) status = commit_rows_in_transaction(partition, items, count, &result, &error);
    if (status == OL_WOULD_BLOCK) status = ol_partition_commit(partition, items, count, -1, -1, &result, &error);
    OL_CHECK_OK(status, &error);
    OL_CHECK_INT(result.base_offset, before);
    OL_CHECK_INT(result.end_offset, before + (int64_t)count + (way == COMMIT_TRANSACTIONAL_ROWS));
    OL_CHECK_INT(result.written, count);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), result.end_offset);
}

/* Returns how many positions have the id of their topic. */
static int check_model(ol_partition *partition, const expected *model) {
    int with_id = 0;
    const ol_state *state;
    ol_error error;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    for (int g = 0; g < GROUPS; g++) {
        for (int t = 0; t < TOPICS; t++) {
            ol_pair_name name = ol_table_name(state->table, text(groups[g]), ol_table_group_hash(state->table, text(groups[g])), text(topics[t]));
            for (int p = 0; p < PARTITIONS; p++) {
                ol_position_value value;
                bool found = ol_table_get(state->table, &name, p, &value);
                OL_CHECK_INT(found ? value.offset : -1, model->offset[g][t][p]);
                if (found) OL_CHECK(ol_slice_equal(value.metadata, text(model->metadata[g][t][p])));
                if (!found || value.topic_id == NULL) continue;
                OL_CHECK(memcmp(value.topic_id, topic_ids[t], OL_TOPIC_ID_SIZE) == 0);
                with_id++;
            }
        }
    }
    ol_partition_unlock_state(partition);
    return with_id;
}

/* Every batch of the log from its bytes through the one apply; also how many batches carry the flushed note. */
static ol_digest digest_of_bytes(ol_partition *partition, int *notes) {
    ol_log_reader *reader;
    ol_log_piece piece;
    ol_error error;
    ol_state state;
    ol_digest digest;
    *notes = 0;
    OL_CHECK_OK(ol_state_create(&state, &error), &error);
    OL_CHECK_OK(ol_log_reader_open(ol_partition_log(partition), 0, &reader, &error), &error);
    while (ol_log_reader_next(reader, 1 << 20, &piece, &error) == OL_OK) {
        ol_batch batch;
        for (size_t at = 0; at < piece.size; at += batch.size) {
            OL_CHECK_OK(ol_batch_parse(piece.data + at, piece.size - at, &batch, &error), &error);
            OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
            OL_CHECK_OK(ol_state_apply_batch(&state, &batch, NULL, NULL, &error), &error);
            ol_records records;
            ol_record record;
            OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &error), &error);
            OL_CHECK_OK(ol_records_next(&records, &record, &error), &error);
            *notes += record.header_count;
            ol_records_close(&records);
        }
    }
    ol_log_reader_close(reader);
    ol_state_digest(&state, true, &digest);
    ol_state_destroy(&state);
    return digest;
}

static void run(commit_way way, bool writes_topic_ids) {
    static expected model;
    ol_error error;
    memset(&model, 0, sizeof model);
    memset(model.offset, -1, sizeof model.offset);
    ol_partition_options options = fixture_options(fresh_directory());
    options.log.config.segment_bytes = 8 << 20;       /* no roll, and no flush that comes with it */
    options.batch_bytes_max = 8 << 20;
    options.value_v4 = writes_topic_ids ? OL_VALUE_V4_ALWAYS : OL_VALUE_V4_AUTO;
    ol_partition *partition = open_partition(&options, true);
    int flushes = 0, notes;
    for (int i = 0; i < 1500; i++) {
        commit_random(partition, &model, way);
        fixture_now += (int64_t)ol_test_below(3);
        if (i % 50 == 0) (void)check_model(partition, &model);
        if (ol_test_below(9) == 0) {
            int64_t flushed;
            OL_CHECK_OK(ol_log_flush(ol_partition_log(partition), &flushed, &error), &error);
            flushes++;
        }
        if (ol_test_below(40) == 0) ol_log_prepare(ol_partition_log(partition));
    }
    commit_random(partition, &model, way);
    OL_CHECK((check_model(partition, &model) > 0) == writes_topic_ids);
    ol_digest live = digest_of(partition);
    check_same_digest(live, digest_of_bytes(partition, &notes));
    OL_CHECK_INT(notes, flushes + 1);       /* the first batch tells what was flushed when the log was opened */
    close_partition(partition);
    options.log.clean = true;
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    check_model(partition, &model);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(commits_of_every_shape_are_written_and_applied_alike) { run(COMMIT_ITEMS, false); }
OL_TEST(so_are_those_that_never_wait) { run(COMMIT_TRY, false); }
OL_TEST(so_are_rows) { run(COMMIT_ROWS, false); }
OL_TEST(so_are_rows_in_transactions) { run(COMMIT_TRANSACTIONAL_ROWS, false); }
OL_TEST(so_are_those_whose_topics_keep_their_ids) {
    run(COMMIT_ITEMS, true);
    run(COMMIT_TRY, true);
}

/* Nothing to write is nothing written, whether or not there is a note to take. */
OL_TEST(a_commit_of_nothing_writes_nothing) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_one(partition, "a", "t", 0, 1);
    for (int flushed_before = 0; flushed_before < 2; flushed_before++) {
        ol_commit_result result;
        ol_error error;
        int64_t flushed;
        if (flushed_before) OL_CHECK_OK(ol_log_flush(ol_partition_log(partition), &flushed, &error), &error);
        OL_CHECK_OK(ol_partition_commit(partition, NULL, 0, -1, -1, &result, &error), &error);
        OL_CHECK_INT(result.base_offset, -1);
        OL_CHECK_INT(result.written, 0);
        OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 1);
    }
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
