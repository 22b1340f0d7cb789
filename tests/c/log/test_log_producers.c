/* Producers that are too old are forgotten (docs/format/directory.md §1.6): in memory, and so in the next snapshot. */
#include "log/files/producers.h"
#include "recovery_fixture.h"

static const int64_t DAY_MS = 86400000;

/* A batch of the producer, of the time it is. */
static int64_t append_of(ol_log *log, int64_t producer_id, bool transactional) {
    fixture_batch batch = fixture_plain(50, 1);
    batch.timestamp = fixture_now;
    batch.producer_id = producer_id;
    batch.producer_epoch = 0;
    if (transactional) batch.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    return fixture_append(log, batch);
}

static bool is_known(const ol_log *log, int64_t producer_id) {
    int16_t epoch;
    int32_t coordinator_epoch;
    return ol_log_producer(log, producer_id, &epoch, &coordinator_epoch);
}

/* How many are in the snapshot at `offset`; -1: there is none. */
static int64_t count_in_snapshot(const place *p, int64_t offset) {
    char name[64];
    snprintf(name, sizeof name, "%020lld.snapshot", (long long)offset);
    int64_t size = fixture_size(p->path, name);
    return size < 0 ? -1 : (size - OL_PRODUCERS_SNAPSHOT_HEADER_SIZE) / OL_PRODUCERS_SNAPSHOT_ENTRY_SIZE;
}

OL_TEST(a_close_forgets_those_that_are_too_old_but_for_open_transactions_and_the_greatest_id) {
    place p;
    int64_t started = fixture_now;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_of(log, 1, false);
    append_of(log, 2, true);
    append_of(log, 9, false);
    fixture_now++;
    append_of(log, 3, false);
    fixture_now = started + DAY_MS;
    OL_CHECK(is_known(log, 1));
    fixture_close(log);
    OL_CHECK_INT(count_in_snapshot(&p, 4), 3);
    log = fixture_open(&p.options, NULL);
    ol_log_transaction transaction;
    OL_CHECK(!is_known(log, 1) && is_known(log, 2) && is_known(log, 3) && is_known(log, 9));
    OL_CHECK(ol_log_find_transaction(log, 2, &transaction));
    OL_CHECK_INT(ol_log_highest_producer_id(log), 9);
    fixture_close(log);
    fixture_now = started;
    fixture_remove(p.root);
}

OL_TEST(an_open_forgets_those_that_became_too_old_meanwhile) {
    for (int killed = 0; killed < 2; killed++) {
        place p;
        int64_t started = fixture_now;
        place_make(&p);
        ol_log *log = fixture_open(&p.options, NULL);
        append_of(log, 1, false);
        append_of(log, 2, true);
        append_of(log, 5, false);
        if (killed) {
            ol_log_abandon(log);
        } else {
            fixture_close(log);
            OL_CHECK_INT(count_in_snapshot(&p, 3), 3);
        }
        fixture_now += DAY_MS - 1;
        log = fixture_open(&p.options, NULL);
        OL_CHECK(is_known(log, 1) && is_known(log, 2) && is_known(log, 5));
        ol_log_abandon(log);
        fixture_now++;
        log = fixture_open(&p.options, NULL);
        OL_CHECK(!is_known(log, 1) && is_known(log, 2) && is_known(log, 5));
        fixture_close(log);
        fixture_now = started;
        fixture_remove(p.root);
    }
}

OL_TEST(the_snapshot_of_a_roll_has_only_those_that_are_young_enough) {
    place p;
    int64_t started = fixture_now;
    place_make(&p);
    p.options.config.producer_expiration_ms = 1000;
    ol_log *log = fixture_open(&p.options, NULL);
    for (int64_t id = 0; id < 10; id++) append_of(log, id, false);
    fixture_now += 1000;
    for (int64_t id = 10; id < 14; id++) append_of(log, id, false);
    ol_log_segment_info info;
    while (!ol_log_segment_at(log, 1, &info)) fixture_append(log, fixture_plain(2000, 1));
    OL_CHECK_INT(count_in_snapshot(&p, info.base_offset), 4);
    OL_CHECK(!is_known(log, 9) && is_known(log, 10));
    fixture_close(log);
    fixture_now = started;
    fixture_remove(p.root);
}

/* Without a roll and without a close: one producer an hour, and at most a day of them matters. */
OL_TEST(a_log_that_only_appends_does_not_remember_for_ever) {
    enum { HOURS = 400, REMEMBERED_MAX = 100 };
    place p;
    int64_t started = fixture_now;
    place_make(&p);
    p.options.config.segment_bytes = 1 << 20;
    ol_log *log = fixture_open(&p.options, NULL);
    for (int64_t hour = 0; hour < HOURS; hour++) {
        append_of(log, hour, false);
        int known = 0;
        for (int64_t id = 0; id <= hour; id++) {
            known += is_known(log, id);
            OL_CHECK(hour - id >= 24 || is_known(log, id));
        }
        OL_CHECK(known <= REMEMBERED_MAX);
        fixture_now += 3600000;
    }
    fixture_close(log);
    fixture_now = started;
    fixture_remove(p.root);
}

OL_TEST(a_truncation_reads_no_old_producers_back) {
    place p;
    ol_error error;
    int64_t started = fixture_now;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_of(log, 1, false);
    append_of(log, 2, false);
    int64_t end = append_of(log, 3, false);
    fixture_now += DAY_MS;
    OL_CHECK_OK(ol_log_truncate(log, end, &error), &error);
    OL_CHECK(!is_known(log, 1));
    OL_CHECK_INT(ol_log_highest_producer_id(log), 3);
    fixture_close(log);
    fixture_now = started;
    fixture_remove(p.root);
}

OL_TEST(an_age_below_one_is_refused) {
    place p;
    ol_error error;
    ol_log *log = NULL;
    ol_log_recovery recovery;
    place_make(&p);
    p.options.config.producer_expiration_ms = 0;
    OL_CHECK_INT(ol_log_open(&p.options, &log, &recovery, &error), OL_INVALID);
    fixture_remove(p.root);
}

OL_TEST_MAIN()
