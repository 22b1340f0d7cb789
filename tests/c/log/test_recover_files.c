/* An open (log/open, log/swap_plan, log/rebuild) and the files that it finds: docs/format/traps.md traps 10, 11,
 * 28 to 31 and 37. */
#include "recovery_fixture.h"
#include "log/files/offset_index.h"
#include "log/files/partition_metadata.h"
#include "log/swap_plan.h"

OL_TEST(trap_10_the_last_offset_is_not_counted_from_records) {
    place p;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 100, 10);
    fixture_batch gapped = fixture_plain(10, 1);
    gapped.count = 3;                       /* lastOffsetDelta 2, one record */
    OL_CHECK_INT(fixture_append(log, gapped), 100);
    OL_CHECK_INT(ol_log_end(log), 103);
    ol_log_abandon(log);
    log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(log), 103);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(trap_11_an_emptied_batch_advances_the_log_end) {
    place p;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    ol_error error;
    uint8_t batch[OL_BATCH_OVERHEAD];
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, 103, -1);
    ol_batch_seal(batch, batch + sizeof batch, &fields);
    OL_CHECK_OK(ol_log_append(log, batch, sizeof batch, &error), &error);
    OL_CHECK_INT(ol_log_end(log), 104);
    ol_log_abandon(log);
    log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(log), 104);
    fixture_close(log);
    fixture_remove(p.root);
}

/* Segments 0 (offsets 0..99) and 100 (100..199), and what a cleaner left beside them. */
static void make_swap(place *p) {
    place_make(p);
    p->options.config.segment_bytes = 100 * 100;
    fixture_batch plain = fixture_plain(0, 0);
    size_t value_size = 100 - fixture_batch_size(&plain);
    ol_log *log = fixture_open(&p->options, NULL);
    append_many(log, 200, value_size);
    fixture_close(log);
    OL_CHECK_INT(fixture_size(p->path, FIRST_LOG), 10000);
    OL_CHECK_INT(fixture_size(p->path, "00000000000000000100.log"), 10000);
    char path[OL_PATH_MAX];
    size_t size_0, size_1;
    fixture_join(path, p->path, FIRST_LOG);
    uint8_t *bytes_0 = fixture_read(path, &size_0);
    fixture_join(path, p->path, "00000000000000000100.log");
    uint8_t *bytes_1 = fixture_read(path, &size_1);
    bytes_0 = realloc(bytes_0, 20000);
    memcpy(bytes_0 + 10000, bytes_1, 10000);
    fixture_join(path, p->path, "00000000000000000000.log.swap");
    /* Batches 50 to 199: the first fifty were cleaned away. */
    fixture_write(path, bytes_0 + 5000, 15000);
    fixture_join(path, p->path, "00000000000000000000.index.swap");
    fixture_write(path, "", 0);
    free(bytes_0);
    free(bytes_1);
}

OL_TEST(trap_28_crash_during_swap) {
    place p;
    for (int writable = 0; writable < 2; writable++) {
        make_swap(&p);
        ol_log_recovery recovery;
        p.options.writable = writable != 0;
        p.options.config.segment_bytes = 64 << 10;
        ol_log *log = fixture_open(&p.options, &recovery);
        OL_CHECK_INT(recovery.swaps_finished, 1);
        OL_CHECK_INT(recovery.segments_removed, 2);
        OL_CHECK_INT(ol_log_end(log), 200);
        size_t size;
        uint8_t *bytes = fixture_read_log(log, 0, 4096, &size);
        OL_CHECK_INT(size, 15000);
        OL_CHECK_INT(ol_load_i64(bytes), 50);
        free(bytes);
        fixture_close(log);
        OL_CHECK_INT(fixture_exists(p.path, "00000000000000000000.log.swap"), !writable);
        OL_CHECK_INT(fixture_exists(p.path, "00000000000000000100.log"), !writable);
        OL_CHECK_INT(fixture_size(p.path, FIRST_LOG), writable ? 15000 : 10000);
        fixture_remove(p.root);
    }
}

static int swap_ends_at_200(void *context, const char *name, int64_t base_offset, int64_t *next_offset, ol_error *error) {
    (void)context;
    (void)name;
    (void)base_offset;
    (void)error;
    *next_offset = 200;
    return OL_OK;
}

static bool plan_has(const ol_swap_plan *plan, const char *name, const char *target) {
    for (size_t i = 0; i < plan->action_count; i++) {
        const char *found = plan->actions[i].target;
        bool same = target == NULL ? found == NULL : found != NULL && strcmp(found, target) == 0;
        if (strcmp(plan->actions[i].name, name) == 0 && same) return true;
    }
    return false;
}

OL_TEST(trap_28_cleaned_files_condemn_only_the_swaps_above_them) {
    char *names[] = {
        "00000000000000000000.log",        "00000000000000000000.index",      "00000000000000000100.log",
        "00000000000000000100.snapshot",   "00000000000000000200.log",        "00000000000000000200.index",
        "00000000000000000000.log.swap",   "00000000000000000050.log.cleaned", "00000000000000000060.log.swap",
        "00000000000000000300.index",      "leader-epoch-checkpoint",         "00000000000000000007.log.deleted",
        "offsetlog.spare-3",               "offsetlog.flushed",               "broken-00000000000000000000.log.17",
    };
    ol_swap_plan plan;
    ol_error error;
    OL_CHECK_OK(ol_swap_plan_make(names, sizeof names / sizeof names[0], swap_ends_at_200, NULL, &plan, &error), &error);
    OL_CHECK(plan_has(&plan, "00000000000000000050.log.cleaned", NULL));
    OL_CHECK(plan_has(&plan, "00000000000000000060.log.swap", NULL));
    OL_CHECK(plan_has(&plan, "00000000000000000000.log", NULL));
    OL_CHECK(plan_has(&plan, "00000000000000000000.index", NULL));
    OL_CHECK(plan_has(&plan, "00000000000000000100.log", NULL));
    OL_CHECK(plan_has(&plan, "00000000000000000100.snapshot", NULL));
    OL_CHECK(plan_has(&plan, "00000000000000000000.log.swap", "00000000000000000000.log"));
    OL_CHECK(plan_has(&plan, "00000000000000000007.log.deleted", NULL));
    OL_CHECK(plan_has(&plan, "00000000000000000300.index", NULL));
    OL_CHECK(plan_has(&plan, "offsetlog.spare-3", NULL));
    OL_CHECK_INT(plan.action_count, 10);
    OL_CHECK_INT(plan.name_count, 6);
    OL_CHECK_INT(plan.swaps_finished, 1);
    ol_swap_plan_free(&plan);
}

/* Three segments; a CRC error in the second one. */
static void make_three_segments(place *p, bool killed) {
    place_make(p);
    p->options.config.segment_bytes = 4096;
    ol_log *log = fixture_open(&p->options, NULL);
    append_many(log, 40, 200);
    if (killed) {
        ol_log_abandon(log);
    } else {
        fixture_close(log);
    }
    OL_CHECK(fixture_count(p->path, "0000") >= 9);
}

OL_TEST(trap_29_a_corrupt_middle_record_takes_the_later_segments_aside) {
    place p;
    make_three_segments(&p, true);
    ol_log_segment_info info;
    ol_log_recovery recovery;
    p.options.writable = false;
    ol_log *log = fixture_open(&p.options, NULL);
    OL_CHECK(ol_log_segment_at(log, 1, &info));
    int64_t base = info.base_offset;
    fixture_close(log);
    const char *name = strrchr(info.path, '/') + 1;
    fixture_batch plain = fixture_plain(200, 0);
    flip_byte(p.path, name, (int64_t)fixture_batch_size(&plain) + 70);
    p.options.writable = true;
    p.options.recovery_point = 3;
    log = fixture_open(&p.options, &recovery);
    OL_CHECK(!recovery.corrupt);
    OL_CHECK_INT(ol_log_end(log), base + 1);
    OL_CHECK(recovery.segments_removed >= 1);
    OL_CHECK(recovery.torn_bytes > 4096 / 2);
    OL_CHECK(fixture_count(p.path, "broken-") >= 2);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(trap_29_after_a_clean_stop_it_is_not_noticed_until_it_is_read) {
    place p;
    make_three_segments(&p, false);
    ol_log_segment_info info;
    ol_log_recovery recovery;
    p.options.clean = true;
    p.options.recovery_point = 40;
    ol_log *log = fixture_open(&p.options, NULL);
    OL_CHECK(ol_log_segment_at(log, 1, &info));
    fixture_close(log);
    flip_byte(p.path, strrchr(info.path, '/') + 1, 70);
    log = fixture_open(&p.options, &recovery);
    OL_CHECK(!recovery.corrupt);
    OL_CHECK_INT(ol_log_end(log), 40);
    fixture_close(log);
    /* With the recovery point above it, an unclean stop reports it and cuts nothing. */
    p.options.clean = false;
    p.options.recovery_point = info.base_offset + 2;
    log = fixture_open(&p.options, &recovery);
    OL_CHECK(recovery.corrupt);
    OL_CHECK_INT(ol_log_end(log), 40);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(trap_30_an_index_entry_names_the_last_offset_and_the_start_of_its_batch) {
    place p;
    place_make(&p);
    p.options.log_start_offset = 100;
    ol_log *log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(log), 100);
    fixture_batch first = fixture_plain(1, 0);
    first.value_size = 5000 - fixture_batch_size(&first) - 1;
    first.count = 50;
    OL_CHECK_INT(fixture_batch_size(&first), 5000);
    OL_CHECK_INT(fixture_append(log, first), 100);
    fixture_batch second = fixture_plain(200, 1);
    second.count = 3;
    OL_CHECK_INT(fixture_append(log, second), 150);
    fixture_close(log);
    char path[OL_PATH_MAX];
    size_t size;
    fixture_join(path, p.path, "00000000000000000100.index");
    uint8_t *bytes = fixture_read(path, &size);
    OL_CHECK_INT(size, 8);
    OL_CHECK_INT(ol_load_i32(bytes), 52);
    OL_CHECK_INT(ol_load_i32(bytes + 4), 5000);
    free(bytes);
    /* Recovery makes the same entries from the log alone. */
    OL_CHECK(unlink(path) == 0);
    p.options.clean = true;
    p.options.recovery_point = 153;
    log = fixture_open(&p.options, NULL);
    fixture_close(log);
    bytes = fixture_read(path, &size);
    OL_CHECK_INT(size, 8);
    OL_CHECK_INT(ol_load_i32(bytes), 52);
    free(bytes);
    fixture_remove(p.root);
}

OL_TEST(trap_31_a_full_time_index_rolls_and_keeps_its_last_slot) {
    place p;
    place_make(&p);
    p.options.config.index_interval_bytes = 0;
    p.options.config.segment_index_bytes = 64;      /* 8 offset entries, 5 time entries of which one is kept */
    ol_log *log = fixture_open(&p.options, NULL);
    for (int i = 0; i < 12; i++) {
        fixture_batch batch = fixture_plain(10, 1);
        batch.timestamp += i;
        fixture_append(log, batch);
    }
    ol_log_segment_info info;
    OL_CHECK(ol_log_segment_at(log, 1, &info));
    OL_CHECK_INT(info.base_offset, 5);              /* the first batch gets no entry, the next four do */
    fixture_close(log);
    OL_CHECK_INT(fixture_size(p.path, "00000000000000000000.timeindex"), 4 * OL_TIME_INDEX_ENTRY_SIZE);
    fixture_remove(p.root);
}

OL_TEST(trap_37_partition_metadata_has_no_newline_at_its_end) {
    static const uint8_t topic_id[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    static const uint8_t other_id[16] = {9};
    place p;
    place_make(&p);
    p.options.topic_id = topic_id;
    ol_log *log = fixture_open(&p.options, NULL);
    uint8_t found[16];
    OL_CHECK(ol_log_topic_id(log, found));
    OL_CHECK(memcmp(found, topic_id, 16) == 0);
    fixture_close(log);
    OL_CHECK_INT(fixture_size(p.path, "partition.metadata"), 43);
    char path[OL_PATH_MAX];
    size_t size;
    fixture_join(path, p.path, "partition.metadata");
    uint8_t *bytes = fixture_read(path, &size);
    OL_CHECK(bytes[size - 1] != '\n');
    free(bytes);
    p.options.topic_id = other_id;
    ol_error error;
    ol_log_recovery recovery;
    OL_CHECK_INT(ol_log_open(&p.options, &log, &recovery, &error), OL_CORRUPT);
    fixture_remove(p.root);
}

/* ------------------------------------------------------------------------------------------------ state */

OL_TEST(producers_transactions_and_epochs_are_found_again) {
    place p;
    place_make(&p);
    for (int killed = 0; killed < 2; killed++) {
        ol_error error;
        ol_log *log = fixture_open(&p.options, NULL);
        OL_CHECK_OK(ol_log_assign_epoch(log, 4 + killed, &error), &error);
        fixture_batch batch = fixture_plain(50, 1);
        batch.leader_epoch = 4 + killed;
        batch.producer_id = 4000;
        batch.producer_epoch = 2;
        batch.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
        int64_t first = fixture_append(log, batch);
        batch.producer_id = 5000;
        batch.producer_epoch = 0;
        fixture_append(log, batch);
        fixture_append_marker(log, 5000, OL_CONTROL_ABORT);
        int64_t end = ol_log_end(log);
        OL_CHECK_INT(ol_log_first_unstable(log), killed ? 0 : first);
        if (killed) {
            ol_log_abandon(log);
        } else {
            fixture_close(log);
        }
        log = fixture_open(&p.options, NULL);
        ol_log_transaction transaction;
        OL_CHECK(ol_log_find_transaction(log, 4000, &transaction));
        OL_CHECK_INT(transaction.first_offset, 0);
        OL_CHECK_INT(transaction.producer_epoch, 2);
        OL_CHECK(!ol_log_find_transaction(log, 5000, &transaction));
        OL_CHECK(!ol_log_open_transaction_at(log, 1, &transaction));
        int16_t epoch;
        int32_t coordinator_epoch;
        OL_CHECK(ol_log_producer(log, 5000, &epoch, &coordinator_epoch));
        OL_CHECK_INT(coordinator_epoch, 3);
        OL_CHECK_INT(ol_log_highest_producer_id(log), 5000);
        OL_CHECK_INT(ol_log_leader_epoch(log), 4 + killed);
        int32_t found_epoch;
        int64_t end_offset;
        ol_log_end_for_epoch(log, 4, &found_epoch, &end_offset);
        OL_CHECK_INT(found_epoch, 4);
        OL_CHECK_INT(end_offset, killed ? 3 : end);
        OL_CHECK_INT(fixture_size(p.path, "00000000000000000000.txnindex"), 34 * (killed + 1));
        fixture_close(log);
    }
    fixture_remove(p.root);
}

OL_TEST(an_epoch_checkpoint_that_is_not_understood_is_made_again_from_the_log) {
    static const char *const texts[] = {"1\n1\n7 0\n", "0\nnonsense\n", ""};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        place p;
        ol_error error;
        char path[OL_PATH_MAX];
        place_make(&p);
        ol_log *log = fixture_open(&p.options, NULL);
        OL_CHECK_OK(ol_log_assign_epoch(log, 4, &error), &error);
        fixture_batch batch = fixture_plain(50, 1);
        batch.leader_epoch = 4;
        fixture_append(log, batch);
        fixture_close(log);
        fixture_join(path, p.path, "leader-epoch-checkpoint");
        fixture_write(path, texts[i], strlen(texts[i]));
        for (int writable = 0; writable < 2; writable++) {
            p.options.writable = writable != 0;
            log = fixture_open(&p.options, NULL);
            OL_CHECK_INT(ol_log_leader_epoch(log), 4);
            fixture_close(log);
        }
        size_t size;
        uint8_t *bytes = fixture_read(path, &size);
        OL_CHECK(size == 8 && memcmp(bytes, "0\n1\n4 0\n", 8) == 0);
        free(bytes);
        fixture_remove(p.root);
    }
}

OL_TEST(a_bad_partition_metadata_is_no_reason_not_to_read) {
    static const char *const texts[] = {"version: 1\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA", "version: 0\ntopic_id: ?", ""};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        place p;
        ol_error error;
        ol_log_recovery recovery;
        char path[OL_PATH_MAX];
        uint8_t topic_id[16];
        place_make(&p);
        ol_log *log = fixture_open(&p.options, NULL);
        append_many(log, 3, 50);
        fixture_close(log);
        fixture_join(path, p.path, OL_PARTITION_METADATA_NAME);
        fixture_write(path, texts[i], strlen(texts[i]));
        if (i > 0) OL_CHECK(ol_log_open(&p.options, &log, &recovery, &error) != OL_OK);
        p.options.writable = false;
        log = fixture_open(&p.options, NULL);
        OL_CHECK_INT(ol_log_end(log), 3);
        OL_CHECK(!ol_log_topic_id(log, topic_id));
        fixture_close(log);
        /* An owner who knows the id gives it, and a copy of the damaged file stays. */
        const uint8_t wanted[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
        p.options.writable = true;
        p.options.known_topic_id = wanted;
        if (i == 0) {
            /* One of a later version stays. */
            log = fixture_open(&p.options, NULL);
            OL_CHECK(!ol_log_topic_id(log, topic_id));
            fixture_close(log);
            OL_CHECK_INT(fixture_size(p.path, OL_PARTITION_METADATA_NAME), (int64_t)strlen(texts[i]));
            fixture_remove(p.root);
            continue;
        }
        log = fixture_open(&p.options, NULL);
        OL_CHECK(ol_log_topic_id(log, topic_id) && memcmp(topic_id, wanted, sizeof wanted) == 0);
        fixture_close(log);
        OL_CHECK_INT(fixture_size(p.path, OL_PARTITION_METADATA_NAME ".damaged"), (int64_t)strlen(texts[i]));
        p.options.known_topic_id = NULL;
        fixture_close(fixture_open(&p.options, NULL));
        fixture_remove(p.root);
    }
}

OL_TEST(a_log_that_ends_below_its_start_begins_again_if_the_recovery_point_agrees) {
    place p;
    ol_log_recovery recovery;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 10, 50);
    fixture_close(log);
    p.options.log_start_offset = 500;
    /* A broker that deleted everything flushed up to there. */
    for (int again = 0; again < 2; again++) {
        p.options.recovery_point = again == 0 ? 10 : 500;
        if (again == 1) fixture_forget_manifest(p.path);
        log = fixture_open(&p.options, &recovery);
        OL_CHECK_INT(ol_log_start(log), again == 0 ? 0 : 500);
        OL_CHECK_INT(ol_log_end(log), again == 0 ? 10 : 500);
        OL_CHECK_INT(recovery.loss_count, 1);
        OL_CHECK(!recovery.is_lossy && ol_log_is_writable(log));
        OL_CHECK_INT(fixture_exists(p.path, FIRST_LOG), again == 0);
        OL_CHECK_INT(fixture_count(p.path, "broken-"), again);
        if (again == 0) fixture_close(log);
    }
    OL_CHECK_INT(fixture_append(log, fixture_plain(10, 1)), 500);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(overlapping_segments_are_torn_where_they_overlap) {
    place p;
    make_three_segments(&p, true);
    char from[OL_PATH_MAX];
    char to[OL_PATH_MAX];
    fixture_join(from, p.path, FIRST_LOG);
    fixture_join(to, p.path, "00000000000000000001.log");
    size_t size;
    uint8_t *bytes = fixture_read(from, &size);
    fixture_write(to, bytes, size);
    free(bytes);
    ol_log_recovery recovery;
    ol_log *log = fixture_open(&p.options, &recovery);
    OL_CHECK(recovery.torn_bytes > 0 || recovery.corrupt);
    size_t read;
    free(fixture_read_log(log, 0, 1 << 16, &read));
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST_MAIN()
