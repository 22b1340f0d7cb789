/* A workload in which one file operation fails, each in turn: with EIO, with ENOSPC, a flush that did not reach the disk, the
 * faulting in of pages, or a read; or one allocation.
 * The call that met it must say so with a status of its kind and leave everything as it was, or the partition has failed; opened again
 * it holds everything that was acknowledged, and a power loss after that takes nothing of it.  A load that could not read some bytes
 * has reported them, and the partition is read-only.
 *
 * At least 600 operations and as many reads and allocations fail, with OFFSETLOG_DEPTH=long 10,000 of each.  OL_FAULT_RUN=seed OL_FAULT_AT=n
 * OL_FAULT_KIND=kind: one again. */
#include <errno.h>
#include <stdarg.h>

#include "crash_workload.h"
#include "fault_memory.h"
#include "epoch_of.h"

typedef enum fault_kind { FAULT_IO, FAULT_DISK_FULL, FAULT_FLUSH, FAULT_POPULATE, FAULT_READ, FAULT_MEMORY } fault_kind;

typedef struct fault_place {
    uint64_t seed;
    int64_t at;
    fault_kind kind;
    int step;
    bool replicated;
} fault_place;

OL_PRINTF(2, 3) static void fail_at(const fault_place *place, const char *format, ...) {
    static const char *const kinds[] = {"EIO", "ENOSPC", "flush", "populate", "read", "memory"};
    va_list arguments;
    fprintf(stderr, "seed %" PRIu64 "%s, %s at %" PRId64 " (kind %d), step %d: ", place->seed, place->replicated ? " replicated" : "",
            kinds[place->kind], place->at, place->kind, place->step);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    exit(1);
}

static void check_status(const fault_place *place, int status, const ol_error *error) {
    bool is_full = place->kind == FAULT_DISK_FULL || place->kind == FAULT_POPULATE;
    int kind = is_full ? OL_DISK_FULL : place->kind == FAULT_MEMORY ? OL_NO_MEMORY : OL_IO;
    bool of_its_kind = status == OL_FAILED || status == kind;
    if (!of_its_kind) fail_at(place, "status %s: %s", ol_status_name(status), error->reason);
    if (status != error->status || error->reason[0] == '\0') fail_at(place, "an error that says nothing");
}

/* The atoms that a failed call left in the log count from now on. */
static void take_over(const fault_place *place, workload *w, size_t low) {
    char why[256] = "";
    model_history *history = w->history;
    int64_t count = model_find(history, low, history->count, w->partition, why, sizeof why);
    if (count < 0) fail_at(place, "no state of the model from %zu to %zu: %s", low, history->count, why);
    model_drop_to(history, (size_t)count);
    for (; history->done < history->count; history->done++) history->atoms[history->done].end_offset = workload_end(w);
    model_replay(history, history->done, &w->now);
}

/* Records that a replicated partition wrote and does not apply yet show once W has passed them. */
static void apply_all(const fault_place *place, workload *w, const ol_digest *before) {
    ol_error error;
    ol_digest after = digest_of(w->partition);
    if (memcmp(before, &after, sizeof after) != 0) fail_at(place, "a call failed and changed what is applied");
    if (ol_partition_advance(w->partition, epoch_of(w->partition), INT64_MAX, &error) != OL_OK) fail_at(place, "advancing: %s", error.reason);
}

/* The partition goes on: nothing may have changed.  Only a commit of several groups that is larger than a batch, or one of a
 * transaction that the caller will abort, may have got half way; each group is there whole or not at all.  So it may in a replicated
 * partition, where none of it is applied yet: the groups before the failure are in the log (ol_partition_commit), and W will come to
 * them. */
static void check_unchanged(const fault_place *place, workload *w, const ol_digest *before) {
    char why[256] = "";
    bool several = w->history->count > w->history->done + 1;
    ol_positions positions;
    ol_partition_positions(w->partition, &positions);
    if (several) {
        /* A lone store has applied them, and leaves a transaction whose end found no space to its next write. */
        if (place->replicated && positions.applied < positions.written) apply_all(place, w, before);
        take_over(place, w, w->history->done);
        return;
    }
    model_drop_to(w->history, w->history->done);
    ol_digest after = digest_of(w->partition);
    if (memcmp(before, &after, sizeof after) != 0) fail_at(place, "a call failed and changed the state");
    if (positions.applied == positions.written && !model_same(&w->now, w->partition, why, sizeof why)) {
        fail_at(place, "a call failed, and the state is another than the model's: %s", why);
    }
}

/* Bytes that a load could not read are reported, with their place, and nothing is written to the partition any more. */
static bool has_unread_bytes(const fault_place *place, const workload *w) {
    ol_problem problem;
    if (w->partition == NULL || !ol_partition_is_read_only(w->partition)) return false;
    if (place->kind != FAULT_READ || !ol_partition_problem_at(w->partition, 0, &problem) || problem.error.status != OL_IO ||
        problem.error.path[0] == '\0' || problem.error.position < 0) {
        fail_at(place, "a read-only partition without a report of what could not be read");
    }
    return true;
}

/* The partition failed, or is not open: it is opened again. All writes are in memory still, so all of them must be
 * there. */
static void open_again(const fault_place *place, workload *w) {
    ol_error error;
    if (w->partition != NULL) ol_partition_abandon(w->partition);
    w->clean = false;
    int status = workload_open(w, &error);
    if (status != OL_OK) fail_at(place, "opening again: %s (%s)", error.reason, error.path);
    take_over(place, w, w->cutting >= 0 ? model_count_below(w->history, w->cutting) : w->history->done);
    w->cutting = -1;
    workload_acknowledge(w, ol_log_flushed(ol_partition_log(w->partition)));
    if (w->acknowledged_disk > w->history->done) w->acknowledged_disk = w->history->done;
}

static bool goes_on(const workload *w) {
    return w->partition != NULL && ol_partition_role(w->partition) == OL_ROLE_ACTIVE &&
           !ol_log_has_failed(ol_partition_log(w->partition));
}

/* A possible state of the disk when power is lost at the end of it all. */
static void check_power_loss(const fault_place *place, workload *w, const char *target) {
    char why[256] = "", directory[256];
    ol_error error;
    ol_log_recovery recovery;
    ol_partition *partition;
    remove_tree(target);
    OL_CHECK(mkdir(target, 0777) == 0);
    scratch_join(directory, target);
    OL_CHECK_OK(ol_fault_fs_materialize(w->fs, target, place->seed + (uint64_t)place->at, &error), &error);
    ol_partition_options options = w->options;
    options.log.fs = ol_fs_posix();
    options.log.directory = directory;
    options.log.clean = false;
    int status = ol_partition_open(&options, &partition, &recovery, &error);
    const char *reason = status != OL_OK ? error.reason : accusation(&recovery);
    if (reason != NULL) fail_at(place, "after a power loss: %s", reason);
    if (options.replicated) OL_CHECK_OK(ol_partition_advance(partition, epoch_of(partition), INT64_MAX, &error), &error);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    if (options.replicated) OL_CHECK_OK(ol_partition_become_leader(partition, 1000000, false, &error), &error);
    if (model_find(w->history, w->acknowledged_disk, w->history->count, partition, why, sizeof why) < 0) {
        fail_at(place, "after a power loss, no state of the model from %zu to %zu: %s", w->acknowledged_disk, w->history->count, why);
    }
    close_partition(partition);
}

typedef struct fault_counts {
    int64_t operations;
    int64_t flushes;
    int64_t populates;
    int64_t reads;
    int64_t allocations;
    int64_t unread;             /* loads that passed over bytes */
    int64_t refused;            /* calls that failed and left everything as it was */
    int64_t failed;             /* partitions that had to be opened again */
} fault_counts;

static void run_steps(fault_place *place, workload *w, fault_counts *counts) {
    ol_error error;
    fault_memory_pause(false);
    int status = workload_open(w, &error);
    fault_memory_pause(true);
    for (place->step = 0;; place->step++) {
        if (has_unread_bytes(place, w)) {
            counts->unread++;
            open_again(place, w);
            status = OL_OK;
        }
        if (status != OL_OK) {
            check_status(place, status, &error);
            counts->failed++;
            open_again(place, w);
        }
        if (place->step == WORKLOAD_STEPS) return;
        ol_digest before = digest_of(w->partition);
        fault_memory_pause(false);
        status = workload_step(w, &error);
        fault_memory_pause(true);
        if (status == OL_OK && ol_partition_role(w->partition) == OL_ROLE_FAILED) {
            /* The call did what it says; something after it (a flush of what was prepared, an index) failed the log. */
            status = ol_fail(&error, OL_FAILED, "the log failed behind a call that succeeded");
        }
        if (status != OL_OK && goes_on(w)) {
            check_status(place, status, &error);
            check_unchanged(place, w, &before);
            counts->refused++;
            status = OL_OK;
        }
    }
}

static void run_with_fault(const char *root, const char *target, fault_place *place, fault_counts *counts) {
    static model_history history;
    static workload w;
    char directory[256];
    ol_error error;
    ol_fs *fs;
    remove_tree(root);
    OL_CHECK(mkdir(root, 0777) == 0);
    scratch_join(directory, root);
    OL_CHECK_OK(ol_fault_fs_create(root, &fs, &error), &error);
    fs->stored = NULL;          /* a store into a mapping does not fail */
    fault_memory_pause(true);
    fault_memory_at(place->kind == FAULT_MEMORY ? place->at : 0);
    if (place->kind == FAULT_READ) ol_fault_fs_fail_read(fs, place->at, EIO);
    else if (place->kind == FAULT_POPULATE) ol_fault_fs_fail_populate(fs, place->at, ENOSPC);
    else if (place->kind == FAULT_FLUSH) ol_fault_fs_fail_flush(fs, place->at, EIO);
    else if (place->kind != FAULT_MEMORY) ol_fault_fs_fail_at(fs, place->at, place->kind == FAULT_IO ? EIO : ENOSPC);
    workload_begin(&w, fs, directory, place->replicated, place->seed, &history);
    run_steps(place, &w, counts);
    counts->operations = ol_fault_fs_operations(fs);
    counts->flushes = ol_fault_fs_flushes(fs);
    counts->populates = ol_fault_fs_populates(fs);
    counts->reads = ol_fault_fs_reads(fs);
    counts->allocations = fault_memory_calls();
    fault_memory_at(0);
    ol_fault_fs_fail_at(fs, 0, 0);
    ol_fault_fs_fail_flush(fs, 0, 0);
    ol_fault_fs_fail_populate(fs, 0, 0);
    ol_fault_fs_fail_read(fs, 0, 0);
    check_power_loss(place, &w, target);
    /* Killed and opened once more, everything is there. */
    ol_partition_abandon(w.partition);
    w.partition = NULL;
    open_again(place, &w);
    workload_free(&w);
    ol_fault_fs_free(fs);
}

/* The run without a failure. */
static fault_counts run_sound(const char *root, const char *target, fault_place *place) {
    fault_counts clean = {0};
    run_with_fault(root, target, place, &clean);
    OL_CHECK_INT(clean.failed + clean.refused + clean.unread, 0);
    return clean;
}

static void run_all(const char *root, const char *target, uint64_t seed, fault_counts *counts, int64_t *points) {
    fault_place place = {.seed = seed, .replicated = seed % 4 == 3};
    fault_counts clean = run_sound(root, target, &place);
    for (int64_t at = 1; at <= clean.operations; at++, (*points)++) {
        place.at = at;
        place.kind = (uint64_t)at % 2 == seed % 2 ? FAULT_IO : FAULT_DISK_FULL;
        run_with_fault(root, target, &place, counts);
    }
    place.kind = FAULT_FLUSH;
    for (place.at = 1; place.at <= clean.flushes; place.at++, (*points)++) run_with_fault(root, target, &place, counts);
    place.kind = FAULT_POPULATE;
    for (place.at = 1; place.at <= clean.populates; place.at++, (*points)++) run_with_fault(root, target, &place, counts);
}

static void run_all_reads(const char *root, const char *target, uint64_t seed, fault_counts *counts, int64_t *points) {
    fault_place place = {.seed = seed, .replicated = seed % 4 == 3};
    int64_t reads = run_sound(root, target, &place).reads;
    place.kind = FAULT_READ;
    for (place.at = 1; place.at <= reads; place.at++, (*points)++) run_with_fault(root, target, &place, counts);
}

OL_TEST(an_operation_that_fails_changes_nothing_or_the_partition_has_failed) {
    int64_t wanted = ol_test_depth(600, 10000);
    int64_t points = 0, only = ol_test_setting("OL_FAULT_RUN", -1);
    char root[256], target[256];
    fault_counts counts = {0};
    scratch_root(root, "root");
    scratch_root(target, "target");
    if (only >= 0) {
        fault_place place = {.seed = (uint64_t)only, .at = ol_test_setting("OL_FAULT_AT", 1),
                             .kind = (fault_kind)ol_test_setting("OL_FAULT_KIND", 0), .replicated = only % 4 == 3};
        run_with_fault(root, target, &place, &counts);
    } else {
        for (uint64_t seed = ol_test_seed * 1000 + 500; points < wanted; seed++) run_all(root, target, seed, &counts, &points);
    }
    printf("  %" PRId64 " operations failed: %" PRId64 " calls refused, %" PRId64 " partitions opened again (seed %" PRIu64 ")\n", points,
           counts.refused, counts.failed, ol_test_seed);
    remove_tree(root);
    remove_tree(target);
}

OL_TEST(a_read_that_fails_is_reported_and_loses_nothing) {
    int64_t wanted = ol_test_depth(600, 10000), points = 0;
    char root[256], target[256];
    fault_counts counts = {0};
    scratch_root(root, "root");
    scratch_root(target, "target");
    for (uint64_t seed = ol_test_seed * 1000 + 700; points < wanted; seed++) run_all_reads(root, target, seed, &counts, &points);
    printf("  %" PRId64 " reads failed: %" PRId64 " calls refused, %" PRId64 " partitions opened again, %" PRId64
           " loads passed over bytes (seed %" PRIu64 ")\n", points, counts.refused, counts.failed, counts.unread, ol_test_seed);
    OL_CHECK(counts.failed > 0 && counts.unread > 0);
    remove_tree(root);
    remove_tree(target);
}

OL_TEST(an_allocation_that_fails_changes_nothing_or_the_partition_has_failed) {
    enum { RUNS = 4 };
    int64_t wanted = ol_test_depth(600, 10000) / RUNS, points = 0;
    char root[256], target[256];
    fault_counts counts = {0};
    scratch_root(root, "root");
    scratch_root(target, "target");
    for (uint64_t seed = ol_test_seed * 1000 + 900; points < wanted * RUNS; seed++) {
        fault_place place = {.seed = seed, .replicated = seed % 4 == 3};
        int64_t allocations = run_sound(root, target, &place).allocations;
        place.kind = FAULT_MEMORY;
        for (int64_t i = 0; i < wanted; i++, points++) {
            place.at = 1 + allocations * i / wanted;
            run_with_fault(root, target, &place, &counts);
        }
    }
    printf("  %" PRId64 " allocations failed: %" PRId64 " calls refused, %" PRId64 " partitions opened again (seed %" PRIu64 ")\n", points,
           counts.refused, counts.failed, ol_test_seed);
    OL_CHECK(counts.refused > 0 && counts.failed > 0);
    remove_tree(root);
    remove_tree(target);
}

OL_TEST_MAIN()
