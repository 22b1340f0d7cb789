/* A survey counts, by group and by reason, exactly what the clean after it drops and frees. */
#include "cleaner/survey.h"
#include "partition_fixture.h"

static const int64_t day_ms = 86400000;

static ol_partition *small_partition(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.log.config.segment_bytes = 16 << 10;
    options.batch_bytes_max = 8 << 10;
    return open_partition(&options, true);
}

static void name_group(char group[16]) { snprintf(group, 16, "g%d", (int)ol_test_below(12)); }

/* Plain commits, deletions, and transactions that end either way. */
static void work(ol_partition *partition, int count) {
    for (int i = 0; i < count; i++) {
        char group[16];
        int32_t number = (int32_t)ol_test_below(20);
        name_group(group);
        fixture_now += (int64_t)ol_test_below(1000);
        switch (ol_test_below(12)) {
            case 0:
                delete_one(partition, group, "t", number);
                break;
            case 1:
                commit_pending(partition, 7, group, "t", number, i);
                end_transaction(partition, 7,
                                ol_test_below(2) ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
                break;
            default:
                commit_one(partition, group, "t", number, i);
        }
    }
}

static ol_clean_options options_now(void) {
    ol_clean_options options;
    ol_clean_options_init(&options);
    options.now_ms = fixture_now;
    return options;
}

static ol_clean_report survey_log(ol_partition *partition, bool closes_active, size_t map_bytes,
                                  ol_clean_survey *survey) {
    static ol_clean_report report;
    ol_clean_options options = options_now();
    ol_error error;
    options.map_bytes = map_bytes;
    OL_CHECK_OK(ol_cleaner_survey(partition, &options, closes_active, survey, &report, &error),
                &error);
    return report;
}

static ol_clean_report clean(ol_partition *partition) {
    static ol_clean_report report;
    ol_clean_options options = options_now();
    ol_error error;
    OL_CHECK_OK(ol_cleaner_run(partition, &options, &report, &error), &error);
    return report;
}

static ol_clean_share total(const ol_clean_survey *survey) {
    ol_clean_share sum = {0};
    for (size_t i = 0; i < survey->share_count; i++) {
        const ol_clean_share *share = &survey->shares[i];
        sum.records += share->records;
        sum.live_records += share->live_records;
        sum.superseded += share->superseded;
        sum.aborted += share->aborted;
        sum.expired_tombstones += share->expired_tombstones;
        sum.expired_markers += share->expired_markers;
        sum.keyless += share->keyless;
        sum.tombstones += share->tombstones;
        sum.markers += share->markers;
        sum.bytes += share->bytes;
        sum.live_bytes += share->live_bytes;
        sum.freed_bytes += share->freed_bytes;
    }
    return sum;
}

static const ol_clean_share *share_of(const ol_clean_survey *survey, const char *group) {
    for (size_t i = 0; i < survey->names.count; i++) {
        ol_slice name = ol_string_dictionary_get(&survey->names, i);
        if (name.size == strlen(group) && memcmp(name.data, group, name.size) == 0) {
            return &survey->shares[i + 1];
        }
    }
    return NULL;
}

static int64_t positions_of(ol_partition *partition) {
    const ol_state *state;
    ol_error error;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    int64_t count = (int64_t)ol_table_count(state->table);
    ol_partition_unlock_state(partition);
    return count;
}

static int64_t whole(double bytes) { return (int64_t)(bytes + (bytes < 0 ? -0.5 : 0.5)); }

OL_TEST(a_survey_counts_what_a_clean_drops) {
    for (int turn = 0; turn < 4; turn++) {
        ol_partition *partition = small_partition();
        for (int again = 0; again < 3; again++) {
            work(partition, 1200);
            if (again == 2) fixture_now += 2 * day_ms;
            ol_clean_survey survey = {0};
            ol_clean_report found = survey_log(partition, false, OL_CLEAN_MAP_BYTES_DEFAULT,
                                              &survey);
            ol_clean_share sum = total(&survey);
            OL_CHECK(found.complete);
            OL_CHECK_INT(sum.live_records - positions_of(partition),
                         sum.markers + sum.expired_markers);
            ol_clean_report done = clean(partition);
            OL_CHECK_INT(found.target, done.target);
            OL_CHECK_INT(sum.superseded, done.records.superseded);
            OL_CHECK_INT(sum.aborted, done.records.aborted_dropped);
            OL_CHECK_INT(sum.expired_tombstones, done.records.tombstones_dropped);
            OL_CHECK_INT(sum.expired_markers, done.markers_dropped);
            OL_CHECK_INT(sum.keyless, 0);
            OL_CHECK_INT(found.bytes_after, done.bytes_after);
            /* Batches without records are not counted. */
            int64_t freed = done.bytes_before - done.bytes_after;
            OL_CHECK(freed - whole(sum.freed_bytes) >= 0);
            OL_CHECK_INT((freed - whole(sum.freed_bytes)) % OL_BATCH_OVERHEAD, 0);
            OL_CHECK(again == 2 || freed == whole(sum.freed_bytes));
            OL_CHECK(sum.superseded > 100 && sum.tombstones > 0);
            ol_clean_survey_free(&survey);
        }
        close_partition(partition);
        remove_fixture();
    }
}

OL_TEST(groups_have_their_records) {
    ol_partition *partition = small_partition();
    ol_clean_survey survey = {0};
    for (int i = 0; i < 10; i++) commit_one(partition, "a", "t", 0, i);
    for (int i = 0; i < 4; i++) commit_one(partition, "b", "t", i, i);
    delete_one(partition, "b", "t", 1);
    commit_pending(partition, 7, "b", "t", 0, 5);
    end_transaction(partition, 7, OL_CONTROL_ABORT);
    ol_clean_report found = survey_log(partition, true, OL_CLEAN_MAP_BYTES_DEFAULT, &survey);
    OL_CHECK_INT(found.target, found.log_end);
    OL_CHECK_INT(survey.segments, 1);
    OL_CHECK_INT(survey.batches, 17);
    const ol_clean_share *a = share_of(&survey, "a"), *b = share_of(&survey, "b");
    OL_CHECK_INT(a->records, 10);
    OL_CHECK_INT(a->superseded, 9);
    OL_CHECK_INT(a->live_records, 1);
    OL_CHECK_INT(whole(a->freed_bytes + a->live_bytes), whole(a->bytes));
    OL_CHECK(whole(a->live_bytes) >= OL_BATCH_OVERHEAD);
    OL_CHECK_INT(b->records, 6);
    OL_CHECK_INT(b->superseded, 1);
    OL_CHECK_INT(b->aborted, 1);
    OL_CHECK_INT(b->tombstones, 1);
    OL_CHECK_INT(b->live_records, 3);
    OL_CHECK_INT(survey.shares[0].markers, 1);
    /* The active segment is left alone, and so is a transaction that is open. */
    (void)survey_log(partition, false, OL_CLEAN_MAP_BYTES_DEFAULT, &survey);
    OL_CHECK_INT(total(&survey).superseded + total(&survey).aborted, 0);
    OL_CHECK_INT(total(&survey).live_records, 1 + 3 + 1);
    commit_pending(partition, 8, "a", "t", 0, 50);
    commit_pending(partition, 8, "a", "t", 0, 51);
    (void)survey_log(partition, true, OL_CLEAN_MAP_BYTES_DEFAULT, &survey);
    OL_CHECK_INT(total(&survey).superseded, 0);
    /* The later value of a transaction replaced its earlier one. */
    OL_CHECK_INT(share_of(&survey, "a")->live_records, 2);
    ol_clean_survey_free(&survey);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(values_of_open_transactions_are_live_until_replaced_or_erased) {
    ol_partition *partition = small_partition();
    ol_clean_survey survey = {0};
    commit_pending(partition, 7, "a", "t", 0, 1);
    commit_pending(partition, 8, "a", "t", 0, 2);
    commit_pending(partition, 8, "b", "t", 0, 3);
    for (int active = 0; active < 2; active++) {
        (void)survey_log(partition, active == 1, OL_CLEAN_MAP_BYTES_DEFAULT, &survey);
        OL_CHECK_INT(share_of(&survey, "a")->live_records, 2);
        OL_CHECK_INT(share_of(&survey, "b")->live_records, 1);
    }
    /* A plain value does not end them, a tombstone does. */
    commit_one(partition, "a", "t", 0, 4);
    commit_pending(partition, 8, "b", "t", 0, 5);
    delete_one(partition, "b", "t", 0);
    (void)survey_log(partition, true, OL_CLEAN_MAP_BYTES_DEFAULT, &survey);
    OL_CHECK_INT(share_of(&survey, "a")->live_records, 3);
    OL_CHECK_INT(share_of(&survey, "b")->live_records, 0);
    end_transaction(partition, 7, OL_CONTROL_ABORT);
    end_transaction(partition, 8, OL_CONTROL_COMMIT);
    (void)survey_log(partition, true, OL_CLEAN_MAP_BYTES_DEFAULT, &survey);
    OL_CHECK_INT(share_of(&survey, "a")->live_records, 1);
    OL_CHECK_INT(total(&survey).live_records, 1 + 2);
    ol_clean_survey_free(&survey);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(records_of_a_batch_share_its_bytes) {
    ol_partition *partition = small_partition();
    ol_clean_survey survey = {0};
    ol_item items[200];
    ol_error error;
    ol_commit_result result;
    for (int i = 0; i < 200; i++) items[i] = position_item("many", "t", i, i);
    OL_CHECK_OK(ol_partition_commit(partition, items, 200, -1, -1, &result, &error), &error);
    for (int i = 0; i < 150; i++) commit_one(partition, "many", "t", i, i);
    ol_clean_report found = survey_log(partition, true, OL_CLEAN_MAP_BYTES_DEFAULT, &survey);
    const ol_clean_share *many = share_of(&survey, "many");
    OL_CHECK_INT(many->superseded, 150);
    OL_CHECK_INT(many->live_records, 200);
    /* A commit of more than one batch ends with a marker. */
    OL_CHECK_INT(survey.shares[0].markers, 1);
    OL_CHECK_INT(whole(total(&survey).bytes), found.bytes_before);
    OL_CHECK_INT(whole(total(&survey).freed_bytes), found.bytes_before - found.bytes_after);
    OL_CHECK(many->freed_bytes > 0 && many->live_bytes > many->freed_bytes);
    ol_clean_survey_free(&survey);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(records_whose_keys_do_not_fit_are_counted) {
    ol_partition *partition = small_partition();
    ol_clean_survey large = {0}, small = {0};
    work(partition, 3000);
    ol_clean_report whole_map = survey_log(partition, true, OL_CLEAN_MAP_BYTES_DEFAULT, &large);
    ol_clean_report found = survey_log(partition, true, OL_CLEAN_MAP_BYTES_MIN, &small);
    /* Everything is counted, whether it was decided or not. */
    OL_CHECK(whole_map.complete && !found.complete);
    OL_CHECK_INT(total(&small).records, total(&large).records);
    OL_CHECK_INT(total(&small).live_records, total(&large).live_records);
    OL_CHECK_INT(whole(total(&small).bytes), whole(total(&large).bytes));
    OL_CHECK(total(&small).superseded <= total(&large).superseded);
    ol_clean_survey_free(&large);
    ol_clean_survey_free(&small);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
