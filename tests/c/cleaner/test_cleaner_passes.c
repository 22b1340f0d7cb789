/* Positions of which the table says nothing to the cleaner, more of them than its map holds: what several passes leave is what one leaves. */
#include "cleaner_findings.h"

enum { ANSWERED = 500, DELETED = 400, COMMITTED_SINCE = 600, PENDING = 200 };

/* Four kinds of positions of one group, each of them committed six times in the segments that are cleaned. */
enum { OF_DELETED = ANSWERED, OF_SINCE = OF_DELETED + DELETED, OF_PENDING = OF_SINCE + COMMITTED_SINCE, POSITIONS = OF_PENDING + PENDING };

/* The table answers for the first of them only: the next have no cell, the cells of others name records above E, and of the last ones it is not known at E
 * whether the value that has the cell now will count. */
static void fill(world *w) {
    open_world(w, 65536);
    for (int i = 0; i < 6 * POSITIONS; i++) append_position(w, -1, "g", i % POSITIONS, i);
    for (int i = 0; i < DELETED; i++) append_position(w, -1, "g", OF_DELETED + i, -1);
    for (int i = 0; i < PENDING; i++) append_position(w, 7, "g", OF_PENDING + i, 100000 + i);
    roll_world(w);
    append_marker(w, 7, OL_CONTROL_COMMIT);
    for (int i = 0; i < COMMITTED_SINCE; i++) append_position(w, -1, "g", OF_SINCE + i, 200000 + i);
    advance_world(w, world_end(w));
}

static bool is_answered(world *w, int32_t number, int64_t below) {
    const ol_state *state;
    ol_error error;
    ol_position_value value;
    OL_CHECK_OK(ol_partition_lock_applied(w->partition, &state, &error), &error);
    ol_pair_name name = ol_table_name(state->table, text("g"), ol_table_group_hash(state->table, text("g")), text("t"));
    bool found = ol_table_get(state->table, &name, number, &value) && value.log_offset < below;
    ol_partition_unlock_state(w->partition);
    return found;
}

static ol_clean_options options_of(const world *w, size_t map_bytes, bool use_table) {
    ol_clean_options options = clean_options(w);
    options.map_bytes = map_bytes;
    options.use_table = use_table;
    return options;
}

/* In whatever passes each key's last record is left, and of a pending one the value before it as well.  The table may
 * have decided about these before the transaction was met: then superseded records stay until the next run. */
static void check_left(world *w, const ol_clean_options *options, const ol_clean_report *report, int64_t tombstones) {
    int64_t wanted = POSITIONS - DELETED + PENDING + COMMITTED_SINCE + tombstones;
    int64_t left = count_log(w).records;
    check_log(w, INT64_MAX);
    check_log(w, report->floor);
    OL_CHECK(report->complete);
    OL_CHECK_INT(report->quarantined, 0);
    if (options->use_table) {
        OL_CHECK(left >= wanted && left <= wanted + 5 * PENDING);
    } else {
        OL_CHECK_INT(left, wanted);
    }
}

/* Once the marker is among what is cleaned nothing is in doubt. */
static void check_end(world *w, const ol_clean_options *options, int64_t tombstones) {
    ol_clean_options last = *options;
    roll_world(w);
    last.first_dirty = w->checkpoint;
    last.end_max = INT64_MAX;
    ol_clean_report report = clean_with(w, &last);
    OL_CHECK(report.complete);
    check_log(w, INT64_MAX);
    OL_CHECK_INT(count_log(w).records, POSITIONS - DELETED + tombstones);
}

static void run(size_t map_bytes, bool use_table, int passes_min) {
    world w;
    fill(&w);
    ol_clean_options options = options_of(&w, map_bytes, use_table);
    ol_clean_report report = clean_with(&w, &options);
    OL_CHECK(is_answered(&w, 0, report.end));
    OL_CHECK(!is_answered(&w, OF_DELETED, report.end));
    OL_CHECK(!is_answered(&w, OF_SINCE, report.end));
    OL_CHECK(!is_answered(&w, OF_PENDING, report.end));
    OL_CHECK(report.passes >= passes_min);
    check_left(&w, &options, &report, DELETED);
    /* Once their time has passed the tombstones go, and so they do when each pass knows a part of them only. */
    w.now += 2 * OL_CLEAN_RETENTION_MS;
    options = options_of(&w, map_bytes, use_table);
    options.first_dirty = -1;
    report = clean_with(&w, &options);
    OL_CHECK(report.passes >= passes_min);
    OL_CHECK_INT(report.records.tombstones_dropped, DELETED);
    check_left(&w, &options, &report, 0);
    check_end(&w, &options, 0);
    close_world(&w);
}

OL_TEST(one_pass_does_it_in_a_large_map) {
    run(OL_CLEAN_MAP_BYTES_DEFAULT, false, 1);
    run(OL_CLEAN_MAP_BYTES_DEFAULT, true, 1);
}

OL_TEST(several_passes_do_it_where_nothing_is_asked) { run(OL_CLEAN_MAP_BYTES_MIN, false, 10); }

/* A map of the least size holds some 150 keys. */
OL_TEST(several_passes_do_it_where_the_table_knows_some) { run(OL_CLEAN_MAP_BYTES_MIN, true, 6); }

/* The end of one run is in the middle of the next one's passes. */
OL_TEST(many_runs_leave_what_one_leaves) {
    world w;
    fill(&w);
    ol_clean_report report = {0};
    ol_clean_options options = {0};
    int runs = 0, passes = 0;
    for (; !report.complete && runs < 100; runs++) {
        options = options_of(&w, OL_CLEAN_MAP_BYTES_MIN, true);
        options.end_max = 700 * (runs + 1);
        report = clean_with(&w, &options);
        passes += (int)report.passes;
        report.complete = report.complete && options.end_max > world_end(&w);
        check_log(&w, INT64_MAX);
        check_log(&w, report.floor);
    }
    OL_CHECK(runs > 3 && runs < 100 && passes > runs);
    check_left(&w, &options, &report, DELETED);
    check_end(&w, &options, DELETED);
    close_world(&w);
}

OL_TEST_MAIN()
