/* Base offsets that cannot be right, which no CRC covers: a scan of records stops at the batch that has one. */
#include "memory_scan.h"

enum { BATCHES = 6 };

static void write_plain(void) {
    memory_log_clear(&the_log);
    for (int i = 0; i < BATCHES; i++) memory_log_commits(&the_log, -1, 2);
}

static void move_batch(size_t i, int64_t base_offset) { ol_store_i64(memory_log_start(&the_log, i), base_offset); }

/* Scans up to `until` and returns the status; *stop is the batch at which it ended. */
static int scan_until(ol_record_view view, int64_t until, int64_t segment_base, int64_t segment_limit, size_t *stop) {
    memory_scan s;
    begin_scan(&s, view, false, NULL);
    s.work.until = until;
    s.work.segment_base = segment_base;
    s.work.segment_limit = segment_limit;
    int status = ol_record_scan_fill(&s.work, &s.rows, &s.refused, &s.error);
    for (*stop = 0; (int64_t)the_log.starts[*stop] < s.file_scan.position;) ++*stop;
    end_scan(&s);
    return status;
}

static void check_stops(int64_t until, int64_t segment_base, int64_t segment_limit, int expected, size_t batch) {
    ol_record_view views[] = {OL_VIEW_COMMITS, OL_VIEW_RECORDS};
    size_t stop = 0;
    for (size_t i = 0; i < 2; i++) {
        OL_CHECK_INT(scan_until(views[i], until, segment_base, segment_limit, &stop), expected);
        OL_CHECK_INT(stop, batch);
    }
    /* Headers are shown as they are, up to the first that begins at `until`. */
    OL_CHECK_INT(scan_until(OL_VIEW_BATCHES, until, segment_base, segment_limit, &stop), OL_END);
    OL_CHECK(expected == OL_CORRUPT ? stop > batch : stop == batch);
}

OL_TEST(a_batch_above_the_one_after_it_is_no_end) {
    int64_t wrong[] = {5, 11, 100, (int64_t)1 << 53};
    for (size_t i = 0; i < 4; i++) {
        write_plain();
        move_batch(2, wrong[i]);
        check_stops(8, 0, 0, OL_CORRUPT, 2);
        check_stops(INT64_MAX, 0, 0, OL_CORRUPT, 2);
    }
}

OL_TEST(a_gap_is_legal_where_no_batch_contradicts) {
    write_plain();
    for (size_t i = 3; i < BATCHES; i++) move_batch(i, 100 + 2 * (int64_t)i);
    check_stops(INT64_MAX, 0, 0, OL_END, BATCHES);
    check_stops(50, 0, 0, OL_END, 3);
}

/* An unfinished write proves nothing about the batch before it. */
OL_TEST(half_a_batch_contradicts_nobody) {
    write_plain();
    move_batch(4, 50);
    uint8_t *last = memory_log_start(&the_log, 5);
    last[OL_BATCH_AT_RECORDS + 3] ^= 1;
    check_stops(40, 0, 0, OL_END, 4);
    write_plain();
    move_batch(5, 50);
    check_stops(40, 0, 0, OL_END, 5);
}

OL_TEST(a_segment_has_both_bounds) {
    write_plain();
    check_stops(INT64_MAX, 0, 12, OL_END, BATCHES);
    check_stops(INT64_MAX, 0, 11, OL_CORRUPT, 5);
    check_stops(INT64_MAX, 1, 0, OL_CORRUPT, 0);
}

/* The batch that goes back lies below the place where reading begins only by what it says. */
OL_TEST(a_batch_that_goes_back_is_not_left_out) {
    write_plain();
    move_batch(3, 1);
    memory_scan s;
    begin_scan(&s, OL_VIEW_RECORDS, false, NULL);
    s.work.first = 4;
    OL_CHECK_INT(ol_record_scan_fill(&s.work, &s.rows, &s.refused, &s.error), OL_CORRUPT);
    OL_CHECK_INT(s.rows.count, 2);
    end_scan(&s);
}

/* Where the range begins within it, or after the batch that follows. */
OL_TEST(a_batch_that_goes_back_below_the_range_may_hold_some_of_it) {
    struct {
        int64_t first;
        int expected;
        size_t rows;
    } cases[] = {{7, OL_CORRUPT, 0}, {8, OL_END, 4}, {9, OL_END, 3}};
    for (size_t i = 0; i < 3; i++) {
        write_plain();
        move_batch(3, 1);
        memory_scan s;
        begin_scan(&s, OL_VIEW_RECORDS, false, NULL);
        s.work.first = cases[i].first;
        OL_CHECK_INT(ol_record_scan_fill(&s.work, &s.rows, &s.refused, &s.error), cases[i].expected);
        OL_CHECK_INT(s.rows.count, cases[i].rows);
        end_scan(&s);
    }
}

OL_TEST_MAIN()
