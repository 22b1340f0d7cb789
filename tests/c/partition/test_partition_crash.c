/* A workload is stopped at each of its file operations.  The possible states of the disk then, and that of a killed
 * process, are opened again and judged by the model:
 *
 *   - commits acknowledged as "disk" are there; as "process" too where only the process died;
 *   - everything else is whole or absent, in the order of the log: the state is the model's after some number of atoms;
 *   - nothing of an open or aborted transaction is seen, and no loss of unflushed bytes is taken for corruption, or reported;
 *   - a recovery that is stopped at any of its own operations is as good as none;
 *   - reading, writing, closing and killing afterwards find the same state; commits go on.
 *
 * At least 1,000 stops, with OFFSETLOG_DEPTH=long 10,000. */
#include <stdarg.h>

#include "crash_workload.h"
#include "epoch_of.h"

typedef struct crash_place {
    uint64_t seed;
    int64_t stop_at;
    const char *what;           /* "power lost", "killed" */
    uint64_t disk_seed;
    bool replicated;
} crash_place;

OL_PRINTF(2, 3) static void fail_at(const crash_place *place, const char *format, ...) {
    va_list arguments;
    fprintf(stderr, "%s, seed %" PRIu64 "%s, stopped at operation %" PRId64 ", disk %" PRIu64 ": ", place->what, place->seed,
            place->replicated ? " replicated" : "", place->stop_at, place->disk_seed);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    exit(1);
}

/* ------------------------------------------------------------------------------------------------ looking at what is left */

typedef struct left {
    const crash_place *place;
    const model_history *history;
    ol_partition_options options;
    size_t low;                 /* atoms that must be there, at least */
    int64_t count;              /* atoms that are there, -1 while it is not known */
} left;

static ol_partition *open_left(left *l, bool writable) {
    ol_partition *partition;
    ol_log_recovery recovery;
    ol_error error;
    ol_partition_options options = l->options;
    options.log.writable = writable;
    options.log.create = writable;
    int status = ol_partition_open(&options, &partition, &recovery, &error);
    if (status == OL_NO_SUCH_FILE && !writable) return NULL;       /* the directory's name was lost */
    if (status != OL_OK) fail_at(l->place, "open: %s (%s)", error.reason, error.path);
    if (accusation(&recovery) != NULL) fail_at(l->place, "reported by the %s open: %s", writable ? "writable" : "read-only",
                                               accusation(&recovery));
    l->options.log.witnessed |= writable;
    if (options.replicated) status = ol_partition_advance(partition, epoch_of(partition), INT64_MAX, &error);
    if (status == OL_OK) status = ol_partition_load(partition, &error);
    if (status != OL_OK) fail_at(l->place, "load: %s", error.reason);
    ol_problem problem;
    if (ol_partition_problem_at(partition, 0, &problem)) {
        fail_at(l->place, "a problem in the %s load: %s (%s, position %" PRId64 ", flushed %" PRId64 ")",
                writable ? "writable" : "read-only", problem.error.reason, problem.error.path, problem.error.position,
                ol_log_flushed(ol_partition_log(partition)));
    }
    if (options.replicated && writable) {
        int32_t epoch = ol_log_leader_epoch(ol_partition_log(partition)) + 1;
        status = ol_partition_become_leader(partition, epoch > 1000 ? epoch : 1000, false, &error);
        /* The ABORTs that it begins with count when W passes them. */
        if (status == OL_OK) status = ol_partition_advance(partition, epoch_of(partition), INT64_MAX, &error);
        if (status != OL_OK) fail_at(l->place, "lead: %s", error.reason);
    }
    return partition;
}

static ol_digest digest_left(ol_partition *partition) {
    ol_digest digest = digest_of(partition);
    return digest;
}

/* Which state of the model is it?  The log end says which atoms can be in question. */
static void judge_left(left *l, ol_partition *partition) {
    char why[256] = "";
    size_t low = l->low, high = l->history->count;
    if (l->count >= 0) low = high = (size_t)l->count;
    l->count = model_find(l->history, low, high, partition, why, sizeof why);
    if (l->count < 0) {
        fail_at(l->place, "no state of the model from %zu to %zu of %zu atoms (log end %" PRId64 "): %s", low, high,
                l->history->done, ol_log_end(ol_partition_log(partition)), why);
    }
}

static void check_same(const left *l, ol_partition *partition, ol_digest wanted, const char *when) {
    ol_digest digest = digest_left(partition);
    if (memcmp(&digest, &wanted, sizeof digest) != 0) fail_at(l->place, "another digest %s", when);
}

/* Commits go on after the rest, are flushed, and survive one more kill. */
static void go_on(left *l, ol_partition *partition) {
    ol_commit_result result = {0};
    ol_error error;
    for (int i = 0; i < 3; i++) result = commit_one(partition, "afterwards", "t", i, 100 + i);
    if (ol_partition_wait(partition, result.end_offset, result.term, OL_WAIT_FLUSHED, 10000, &error) != OL_OK) {
        fail_at(l->place, "flush afterwards: %s", error.reason);
    }
    if (l->options.replicated) OL_CHECK_OK(ol_partition_advance(partition, epoch_of(partition), INT64_MAX, &error), &error);
    ol_digest digest = digest_left(partition);
    ol_partition_abandon(partition);
    partition = open_left(l, true);
    check_same(l, partition, digest, "after a commit and a kill");
    for (int i = 0; i < 3; i++) OL_CHECK_INT(fetch_one(partition, "afterwards", "t", i), 100 + i);
    close_partition(partition);
}

static void check_left(left *l) {
    if (!l->options.replicated) {
        ol_partition *reader = open_left(l, false);
        if (reader != NULL) {
            judge_left(l, reader);
            close_partition(reader);
        } else if (l->low > 0) {
            fail_at(l->place, "the directory is gone");
        }
    }
    ol_partition *partition = open_left(l, true);
    judge_left(l, partition);
    ol_digest digest = digest_left(partition);
    if (ol_test_below(2)) close_partition(partition); else ol_partition_abandon(partition);
    partition = open_left(l, true);
    check_same(l, partition, digest, "on the second load");
    go_on(l, partition);
}

/* ------------------------------------------------------------------------------------------------ stopping */

typedef struct crash_paths {
    char root[256];
    char partition[256];
    char target[256];
    char target_partition[256];
    char second[256];           /* the state when the recovery of the target is stopped too */
    char second_partition[256];
} crash_paths;

static void make_paths(crash_paths *paths) {
    scratch_root(paths->root, "root");
    scratch_root(paths->target, "target");
    scratch_join(paths->partition, paths->root);
    scratch_join(paths->target_partition, paths->target);
    scratch_root(paths->second, "second");
    scratch_join(paths->second_partition, paths->second);
}

static void remove_paths(const crash_paths *paths) {
    remove_tree(paths->root);
    remove_tree(paths->target);
    remove_tree(paths->second);
}

static void make_empty(const char *path) {
    remove_tree(path);
    OL_CHECK(mkdir(path, 0777) == 0);
}

static void check_disk(const crash_paths *paths, const workload *w, crash_place *place, bool killed) {
    ol_error error;
    make_empty(paths->target);
    place->what = killed ? "killed" : "power lost";
    if (killed) {
        OL_CHECK_OK(ol_fault_fs_materialize_all(w->fs, paths->target, &error), &error);
    } else {
        OL_CHECK_OK(ol_fault_fs_materialize(w->fs, paths->target, place->disk_seed, &error), &error);
    }
    left l = {.place = place, .history = w->history, .options = w->options, .low = w->acknowledged_disk, .count = -1};
    if (killed) l.low = w->cutting < 0 ? w->history->done : model_count_below(w->history, w->cutting);
    l.options.log.fs = ol_fs_posix();
    l.options.log.directory = paths->target_partition;
    l.options.log.clean = false;
    check_left(&l);
}

/* Opens and loads the target over a port that stops at `stop_at`; whether it did. */
static bool stop_recovery(const crash_paths *paths, const workload *w, ol_fs *fs, int64_t stop_at) {
    ol_partition_options options = w->options;
    ol_partition *partition;
    ol_log_recovery recovery;
    ol_error error;
    options.log.fs = fs;
    options.log.directory = paths->target_partition;
    options.log.clean = false;
    ol_fault_fs_stop_at(fs, stop_at);
    if (ol_partition_open(&options, &partition, &recovery, &error) == OL_OK) {
        int status = options.replicated ? ol_partition_advance(partition, epoch_of(partition), INT64_MAX, &error) : OL_OK;
        if (status == OL_OK) status = ol_partition_load(partition, &error);
        OL_CHECK(status == OL_OK || ol_fault_fs_stopped(fs));
        ol_partition_abandon(partition);
    }
    return ol_fault_fs_stopped(fs);
}

/* Power is lost, and lost again at each operation of the recovery. */
static int64_t check_recovery(const crash_paths *paths, const workload *w, crash_place *place) {
    ol_error error;
    place->what = "power lost, and again in the recovery";
    for (int64_t stop_at = 1;; stop_at++) {
        ol_fs *fs;
        make_empty(paths->target);
        make_empty(paths->second);
        OL_CHECK_OK(ol_fault_fs_materialize(w->fs, paths->target, place->disk_seed, &error), &error);
        OL_CHECK_OK(ol_fault_fs_create(paths->target, &fs, &error), &error);
        bool stopped = stop_recovery(paths, w, fs, stop_at);
        OL_CHECK_OK(ol_fault_fs_materialize(fs, paths->second, place->disk_seed + (uint64_t)stop_at, &error), &error);
        ol_fault_fs_free(fs);
        left l = {.place = place, .history = w->history, .options = w->options, .low = w->acknowledged_disk, .count = -1};
        l.options.log.fs = ol_fs_posix();
        l.options.log.directory = paths->second_partition;
        l.options.log.clean = false;
        check_left(&l);
        if (!stopped) return stop_at;
    }
}

static int64_t recovery_points;
enum { RECOVERY_SAMPLE = 50 };

static int64_t run_and_stop(const crash_paths *paths, uint64_t seed, bool replicated, int64_t stop_at, int disks) {
    static model_history history;
    static workload w;
    ol_error error;
    ol_fs *fs;
    make_empty(paths->root);
    OL_CHECK_OK(ol_fault_fs_create(paths->root, &fs, &error), &error);
    ol_fault_fs_stop_at(fs, stop_at);
    workload_begin(&w, fs, paths->partition, replicated, seed, &history);
    w.check_live = stop_at == 0;
    crash_place place = {.seed = seed, .stop_at = stop_at, .replicated = replicated, .what = "running"};
    int status = workload_run(&w, &error);
    if (stop_at == 0) {
        if (status != OL_OK) fail_at(&place, "%s", error.reason);
    } else if (!ol_fault_fs_stopped(fs)) {
        fail_at(&place, "the run ended before: %s", status != OL_OK ? error.reason : "all steps done");
    }
    for (int i = 0; i <= disks; i++) {
        place.disk_seed = seed * 1000003 + (uint64_t)stop_at * 101 + (uint64_t)i;
        check_disk(paths, &w, &place, i == disks);
    }
    if (stop_at % RECOVERY_SAMPLE == (int64_t)(seed % RECOVERY_SAMPLE)) recovery_points += check_recovery(paths, &w, &place);
    int64_t operations = ol_fault_fs_operations(fs);
    workload_free(&w);
    ol_fault_fs_free(fs);
    return operations;
}

/* One place again, as a failure names it: OL_CRASH_RUN=seed OL_CRASH_AT=operation. */
OL_TEST(a_place_named_by_the_environment) {
    int64_t seed = ol_test_setting("OL_CRASH_RUN", -1);
    if (seed < 0) return;
    crash_paths paths;
    make_paths(&paths);
    run_and_stop(&paths, (uint64_t)seed, seed % 4 == 3, ol_test_setting("OL_CRASH_AT", 0), (int)ol_test_setting("OL_CRASH_SEEDS", 2));
    remove_paths(&paths);
}

OL_TEST(a_run_stopped_at_each_of_its_file_operations_keeps_what_was_acknowledged) {
    int64_t wanted = ol_test_depth(1000, 10000);
    int disks = (int)ol_test_depth(2, 4);
    int64_t points = 0;
    crash_paths paths;
    make_paths(&paths);
    for (uint64_t seed = ol_test_seed * 1000; points < wanted; seed++) {
        bool replicated = seed % 4 == 3;
        int64_t operations = run_and_stop(&paths, seed, replicated, 0, disks);
        for (int64_t stop_at = 1; stop_at <= operations; stop_at++, points++) {
            run_and_stop(&paths, seed, replicated, stop_at, disks);
        }
    }
    printf("  stopped at %" PRId64 " operations, %" PRId64 " states of the disk, and at %" PRId64 " of recoveries (seed %" PRIu64 ")\n",
           points, points * (disks + 1), recovery_points, ol_test_seed);
    remove_paths(&paths);
}

OL_TEST_MAIN()
