/* The disk is full from one file operation on, each in turn, for some steps of a workload with commits, transactions, rolls, cleans and
 * reopenings.  Meanwhile each call succeeds, or says OL_DISK_FULL and has changed nothing; reads go on; a transaction that was begun
 * with space can be ended.  Once there is space again everything succeeds, without opening the partition again, and the state is the
 * model's; so it is after a close and an open.
 *
 * At least 600 operations, with OFFSETLOG_DEPTH=long 10,000.  OL_FULL_RUN=seed OL_FULL_AT=n: one again. */
#include <stdarg.h>

#include "cleaner/cleaner.h"
#include "crash_workload.h"

enum { FULL_STEPS = 16 };       /* steps for which the disk stays full */

typedef struct full_place {
    uint64_t seed;
    int64_t at;
    int step;
    bool over;                  /* there is space again */
} full_place;

typedef struct full_counts {
    bool opened_full;           /* the partition was opened on the full disk: it may have no space for the ends of what it found open */
    int64_t operations;
    int64_t refused;
    int64_t ends;               /* of transactions, on the full disk */
} full_counts;

OL_PRINTF(2, 3) static void fail_at(const full_place *place, const char *format, ...) {
    va_list arguments;
    fprintf(stderr, "seed %" PRIu64 ", full from operation %" PRId64 ", step %d: ", place->seed, place->at, place->step);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    exit(1);
}

/* ------------------------------------------------------------------------------------------------ steps */

static int step_clean(workload *w, ol_error *error) {
    ol_clean_options options;
    ol_clean_options_init(&options);
    options.now_ms = fixture_now;
    options.delete_retention_ms = 1;
    options.map_bytes = 1 << 16;
    ol_clean_report report;
    int status = ol_cleaner_run(w->partition, &options, &report, error);
    return status;
}

static int full_step(workload *w, ol_error *error) {
    uint64_t draw = ol_test_below(100);
    int producer = (int)ol_test_below(MODEL_PRODUCERS);
    if (draw < 8) return step_clean(w, error);
    if (draw < 14) return ol_partition_roll(w->partition, error);
    if (draw < 30) return w->now.is_open[producer] ? step_end(w, producer, error) : step_small(w, producer, false, error);
    return workload_step(w, error);
}

static size_t open_transactions(const workload *w) {
    size_t count = 0;
    for (int i = 0; i < MODEL_PRODUCERS; i++) count += w->now.is_open[i];
    return count;
}

/* ------------------------------------------------------------------------------------------------ checks */

/* The first of several groups in one call, and of the batches of one transaction, may be there, each whole. */
static void check_unchanged(const full_place *place, workload *w, const ol_digest *before) {
    char why[256] = "";
    model_history *history = w->history;
    if (history->count > history->done + 1) {
        int64_t count = model_find(history, history->done, history->count, w->partition, why, sizeof why);
        if (count < 0) fail_at(place, "no state of the model: %s", why);
        model_drop_to(history, (size_t)count);
        for (; history->done < history->count; history->done++) history->atoms[history->done].end_offset = workload_end(w);
        model_replay(history, history->done, &w->now);
        return;
    }
    model_drop_to(history, history->done);
    ol_digest after = digest_of(w->partition);
    if (memcmp(before, &after, sizeof after) != 0) fail_at(place, "a call met a full disk and changed the state");
    if (!model_same(&w->now, w->partition, why, sizeof why)) fail_at(place, "the state is another than the model's: %s", why);
}

static void check_goes_on(const full_place *place, const workload *w) {
    if (ol_log_has_failed(ol_partition_log(w->partition))) fail_at(place, "the log failed");
    if (ol_partition_role(w->partition) != OL_ROLE_ACTIVE) fail_at(place, "role %d", (int)ol_partition_role(w->partition));
    if (ol_partition_is_read_only(w->partition)) fail_at(place, "the partition is read-only");
}

static void give_space(full_place *place, workload *w) {
    ol_fault_fs_fill(w->fs, 0);
    place->over = true;
}

/* A reopening met the full disk, which may refuse an open as well; with space everything is there. */
static void open_again(full_place *place, workload *w) {
    char why[256] = "";
    ol_error error;
    w->clean = false;
    int status = workload_open(w, &error);
    if (status == OL_OK) return;
    if (status != OL_DISK_FULL) fail_at(place, "opening on a full disk: %s", error.reason);
    if (w->partition != NULL) ol_partition_abandon(w->partition);
    give_space(place, w);
    status = workload_open(w, &error);
    if (status != OL_OK) fail_at(place, "opening with space again: %s (%s)", error.reason, error.path);
    if (!model_same(&w->now, w->partition, why, sizeof why)) fail_at(place, "opened again it is another: %s", why);
}

static void check_ends(const full_place *place, const workload *w, int status, const full_counts *counts) {
    const model_history *history = w->history;
    bool is_end = history->count > history->done && history->atoms[history->done].end >= 0;
    if (status != OL_OK && is_end && !counts->opened_full) fail_at(place, "a transaction cannot be ended on a full disk");
}

/* ------------------------------------------------------------------------------------------------ a run */

static void run_step(full_place *place, workload *w, full_counts *counts) {
    ol_error error;
    ol_digest before = digest_of(w->partition);
    size_t open_before = open_transactions(w);
    int opens = w->opens;
    bool is_full = ol_fault_fs_is_full(w->fs);
    int status = full_step(w, &error);
    if (status != OL_OK && (status != OL_DISK_FULL || place->at == 0 || place->over)) {
        fail_at(place, "%s: %s (%s)", ol_status_name(status), error.reason, error.path);
    }
    check_ends(place, w, status, counts);
    counts->refused += status != OL_OK;
    counts->ends += is_full && open_transactions(w) < open_before;
    counts->opened_full = counts->opened_full || w->opens != opens;
    if (w->partition == NULL) {
        open_again(place, w);
    } else if (status != OL_OK) {
        check_goes_on(place, w);
        check_unchanged(place, w, &before);
    }
    check_goes_on(place, w);
    workload_check_live(w);
}

static void run_steps(full_place *place, workload *w, full_counts *counts) {
    ol_error error;
    int full_steps = 0;
    place->over = counts->opened_full = false;
    if (workload_open(w, &error) != OL_OK) open_again(place, w);
    for (place->step = 0; place->step < WORKLOAD_STEPS; place->step++) {
        bool is_full = ol_fault_fs_is_full(w->fs);
        if (!is_full) counts->opened_full = false;
        full_steps += is_full;
        if (full_steps > FULL_STEPS) give_space(place, w);
        run_step(place, w, counts);
    }
}

static void check_closed_and_opened(const full_place *place, workload *w) {
    ol_error error;
    ol_fault_fs_fill(w->fs, 0);
    ol_digest before = digest_of(w->partition);
    if (ol_partition_close(w->partition, &error) != OL_OK) fail_at(place, "close: %s", error.reason);
    w->clean = true;
    if (workload_open(w, &error) != OL_OK) fail_at(place, "opening: %s", error.reason);
    ol_digest after = digest_of(w->partition);
    if (memcmp(&before, &after, sizeof after) != 0) fail_at(place, "opened again the digest is another");
    workload_check_live(w);
}

static void run_full(const char *root, full_place *place, full_counts *counts) {
    static model_history history;
    static workload w;
    char directory[256];
    ol_error error;
    ol_fs *fs;
    remove_tree(root);
    OL_CHECK(mkdir(root, 0777) == 0);
    scratch_join(directory, root);
    OL_CHECK_OK(ol_fault_fs_create(root, &fs, &error), &error);
    fs->stored = NULL;          /* a store into a mapping needs no space */
    ol_fault_fs_fill(fs, place->at);
    workload_begin(&w, fs, directory, false, place->seed, &history);
    run_steps(place, &w, counts);
    counts->operations = ol_fault_fs_operations(fs);
    check_closed_and_opened(place, &w);
    workload_free(&w);
    ol_fault_fs_free(fs);
}

OL_TEST(a_full_disk_changes_nothing_and_ends_with_space) {
    int64_t wanted = ol_test_depth(600, 10000);
    int64_t points = 0, only = ol_test_setting("OL_FULL_RUN", -1);
    char root[256];
    full_counts counts = {0};
    scratch_root(root, "root");
    if (only >= 0) {
        full_place place = {.seed = (uint64_t)only, .at = ol_test_setting("OL_FULL_AT", 1)};
        run_full(root, &place, &counts);
        points = wanted;
    }
    for (uint64_t seed = ol_test_seed * 1000; points < wanted; seed++) {
        full_place place = {.seed = seed};
        full_counts clean = {0};
        run_full(root, &place, &clean);
        OL_CHECK_INT(clean.refused, 0);
        for (place.at = 1; place.at <= clean.operations; place.at++, points++) run_full(root, &place, &counts);
    }
    printf("  full from %" PRId64 " operations: %" PRId64 " calls refused, %" PRId64 " transactions ended meanwhile (seed %" PRIu64 ")\n",
           points, counts.refused, counts.ends, ol_test_seed);
    OL_CHECK(only >= 0 || (counts.refused > points && counts.ends > points / 4));
    remove_tree(root);
}

OL_TEST_MAIN()
