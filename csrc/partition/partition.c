/* Opens and closes a partition, keeps its positions and problems, and lets readers in. */
#include "partition/partition.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition/partition_impl.h"
#include "snapshot/snapshot.h"

void ol_partition_options_init(ol_partition_options *options) {
    memset(options, 0, sizeof *options);
    ol_log_config_init(&options->log.config);
    options->log.recovery_point = -1;
    options->log.log_start_offset = -1;
    options->log.cleaned_by_others = -1;
    options->batch_bytes_max = OL_BATCH_BYTES_MAX_DEFAULT;
    options->leader_epoch = -1;
    options->watermark = -1;
}

/* Returns the time for the age of producers.  Under writer, or while no other thread has the
 * partition. */
static int64_t believed_time(void *partition) {
    return ol_batch_clock_now(&((ol_partition *)partition)->clock);
}

static void initialise_locks(ol_partition *partition) {
    pthread_mutex_init(&partition->load_gate, NULL);
    pthread_mutex_init(&partition->writer, NULL);
    pthread_mutex_init(&partition->table, NULL);
    pthread_mutex_init(&partition->wait.lock, NULL);
    pthread_mutex_init(&partition->problems.lock, NULL);
    pthread_mutex_init(&partition->snapshot.lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&partition->wait.changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void free_partition(ol_partition *partition) {
    if (partition->state.table != NULL) {
        ol_in_flight_reset(&partition->inflight, partition->state.table);
    }
    ol_state_destroy(&partition->state);
    ol_commit_scratch_free(&partition->scratch);
    free(partition->problems.kept);
    ol_own_transactions_free(&partition->own.open);
    ol_unapplied_free(&partition->unapplied);
    pthread_mutex_destroy(&partition->load_gate);
    pthread_mutex_destroy(&partition->writer);
    pthread_mutex_destroy(&partition->table);
    pthread_mutex_destroy(&partition->wait.lock);
    pthread_mutex_destroy(&partition->problems.lock);
    pthread_mutex_destroy(&partition->snapshot.lock);
    pthread_cond_destroy(&partition->wait.changed);
    free(partition);
}

static void report_losses(ol_partition *partition, const ol_log_recovery *recovery);

static void initialise_positions(ol_partition *partition) {
    const ol_partition_options *options = &partition->options;
    int64_t start = ol_log_start(partition->log), end = ol_log_end(partition->log);
    int64_t watermark = options->replicated ? options->watermark : end;
    if (watermark > end) watermark = end;
    partition->watermark = watermark > start ? watermark : start;
    partition->applied = start;
    int32_t newest = ol_log_leader_epoch(partition->log);
    if (options->replicated && newest > partition->leadership.epoch) {
        partition->leadership.epoch = newest;
    }
}

/* A snapshot that cannot be read gives no mark; the load reports why. */
static int open_log(ol_partition *partition, ol_log_recovery *recovery, ol_error *error) {
    ol_log_options *options = &partition->options.log;
    ol_log_mark mark = {0};
    char path[OL_PATH_MAX];
    ol_error ignored;
    if (partition->options.goes_on_from_snapshot &&
        ol_path_join(path, sizeof path, options->directory, OL_SNAPSHOT_FILE, &ignored) == OL_OK &&
        ol_snapshot_file_mark(options->fs, path, &mark, &ignored) == OL_OK) {
        options->mark = &mark;
    }
    int status = ol_log_open(options, &partition->log, recovery, error);
    options->mark = NULL;
    ol_log_mark_free(&mark);
    return status;
}

int ol_partition_open(const ol_partition_options *options, ol_partition **opened,
                      ol_log_recovery *recovery, ol_error *error) {
    if (options->batch_bytes_max < OL_BATCH_OVERHEAD ||
        (int64_t)options->batch_bytes_max > options->log.config.segment_bytes) {
        return ol_fail(error, OL_INVALID,
                       "batch_bytes_max %zu is not between %d and segment_bytes %lld",
                       options->batch_bytes_max, OL_BATCH_OVERHEAD,
                       (long long)options->log.config.segment_bytes);
    }
    ol_partition *partition = calloc(1, sizeof *partition);
    if (partition == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a partition");
    partition->options = *options;
    size_t fits = ol_log_batch_bytes_max(&options->log.config);
    if (options->batch_bytes_max > fits) partition->options.batch_bytes_max = fits;
    partition->options.log.replicated = options->replicated;
    ol_batch_clock_init(&partition->clock, options->clock_ms, options->steady_ms,
                        options->clock_context);
    partition->options.log.clock_ms = believed_time;
    partition->options.log.clock_context = partition;
    partition->leadership.epoch = options->leader_epoch;
    partition->term = options->term;
    partition->role = OL_ROLE_UNLOADED;
    partition->load.snapshot_offset = partition->snapshot.offset = -1;
    initialise_locks(partition);
    ol_in_flight_init(&partition->inflight);
    int status = ol_state_create(&partition->state, error);
    if (status == OL_OK) status = open_log(partition, recovery, error);
    if (status != OL_OK) {
        free_partition(partition);
        return status;
    }
    initialise_positions(partition);
    partition->read_only = !ol_log_is_writable(partition->log);
    if (recovery->corrupt) {
        ol_partition_report(partition, &recovery->corruption, recovery->corruption.offset,
                            recovery->corruption_below);
    }
    report_losses(partition, recovery);
    *opened = partition;
    return OL_OK;
}

int ol_partition_close(ol_partition *partition, ol_error *error) {
    int status = OL_OK;
    if (ol_log_is_writable(partition->log) && partition->role != OL_ROLE_FAILED) {
        status = ol_log_close(partition->log, error);
    } else {
        bool failed = partition->role == OL_ROLE_FAILED;
        ol_log_abandon(partition->log);
        if (failed) {
            status = ol_partition_refuse(partition, OL_FAILED, error,
                                         "the partition had failed, so its log was not closed "
                                         "cleanly");
        }
    }
    free_partition(partition);
    return status;
}

void ol_partition_abandon(ol_partition *partition) {
    ol_log_abandon(partition->log);
    free_partition(partition);
}

/* A flush that fails in the background makes the log and the partition fail before any call sees
 * the failure. */
ol_role ol_partition_role(const ol_partition *partition) {
    return ol_log_has_failed(partition->log) ? OL_ROLE_FAILED : (ol_role)partition->role;
}

ol_log *ol_partition_log(ol_partition *partition) { return partition->log; }
bool ol_partition_is_read_only(const ol_partition *partition) { return partition->read_only; }

void ol_partition_set_positions(ol_partition *partition, int64_t watermark, int64_t applied) {
    OL_ASSERT(watermark >= partition->watermark);
    OL_ASSERT(applied >= partition->applied);
    OL_ASSERT(applied <= watermark);
    OL_ASSERT(watermark <= ol_log_end(partition->log));
    atomic_store_explicit(&partition->watermark, watermark, memory_order_release);
    atomic_store_explicit(&partition->applied, applied, memory_order_release);
}

size_t ol_partition_scratch_bytes(ol_partition *partition) {
    pthread_mutex_lock(&partition->writer);
    size_t bytes = ol_commit_scratch_bytes(&partition->scratch);
    pthread_mutex_unlock(&partition->writer);
    return bytes;
}

void ol_partition_positions(ol_partition *partition, ol_positions *positions) {
    /* In this order of reads, written >= W >= applied and written >= flushed hold for the results,
     * although the positions move in between. */
    positions->applied = atomic_load_explicit(&partition->applied, memory_order_acquire);
    positions->watermark = atomic_load_explicit(&partition->watermark, memory_order_acquire);
    positions->flushed = ol_log_flushed(partition->log);
    positions->written = ol_log_end(partition->log);
}

uint64_t ol_partition_term(const ol_partition *partition) {
    return partition->term;
}

/* Returns whether a problem is already known.  Recovery and the load find the same bad bytes, which
 * are reported only once, as the load has found them, because it knows better where they end.  The
 * caller holds problems.lock. */
static bool is_known_problem(const ol_partition *partition, const ol_problem *problem) {
    const ol_error *error = &problem->error;
    for (int64_t i = 0; i < partition->problems.kept_count; i++) {
        ol_problem *kept = &partition->problems.kept[i];
        const ol_error *known = &kept->error;
        if (known->position == error->position && known->position >= 0 &&
            known->offset == error->offset && strcmp(known->path, error->path) == 0) {
            if (problem->below > kept->below) kept->below = problem->below;
            return true;
        }
    }
    return false;
}

/* Adds a problem.  If memory to keep it is missing, the problem is only counted.  The caller holds
 * problems.lock. */
static void add_problem(ol_partition *partition, const ol_problem *problem) {
    int64_t kept = partition->problems.kept_count;
    if (kept == OL_PROBLEMS_KEPT) return;
    if ((kept & (kept - 1)) == 0) {
        size_t capacity = kept == 0 ? 1 : 2 * (size_t)kept;
        ol_problem *problems = realloc(partition->problems.kept, capacity * sizeof *problems);
        if (problems == NULL) return;
        partition->problems.kept = problems;
    }
    partition->problems.kept[partition->problems.kept_count++] = *problem;
}

static void keep_problem(ol_partition *partition, const ol_problem *problem) {
    pthread_mutex_lock(&partition->problems.lock);
    if (!is_known_problem(partition, problem)) {
        add_problem(partition, problem);
        partition->problems.count++;
    }
    pthread_mutex_unlock(&partition->problems.lock);
}

void ol_partition_report(ol_partition *partition, const ol_error *error, int64_t from,
                         int64_t below) {
    const ol_problem problem = {*error, from, below, OL_PROBLEM_DAMAGE};
    keep_problem(partition, &problem);
    partition->read_only = true;
}

static void report_losses(ol_partition *partition, const ol_log_recovery *recovery) {
    for (size_t i = 0; i < recovery->loss_count; i++) {
        const ol_log_loss *loss = &recovery->losses[i];
        const ol_problem problem = {loss->error, loss->from, loss->below,
                                    loss->proven ? OL_PROBLEM_LOSS : OL_PROBLEM_DOUBT};
        keep_problem(partition, &problem);
    }
}

void ol_partition_widen_problems(ol_partition *partition) {
    ol_pending_producer oldest;
    if (!ol_pending_producer_at(partition->state.pending, 0, &oldest)) return;
    int64_t first_unstable = oldest.first_log_offset;
    pthread_mutex_lock(&partition->problems.lock);
    for (int64_t i = 0; i < partition->problems.kept_count; i++) {
        ol_problem *problem = &partition->problems.kept[i];
        bool has_range = problem->from >= 0 && problem->below > problem->from;
        if (has_range && first_unstable < problem->from) problem->from = first_unstable;
    }
    pthread_mutex_unlock(&partition->problems.lock);
}

bool ol_partition_problem_at(const ol_partition *partition, size_t index, ol_problem *problem) {
    pthread_mutex_t *lock = (pthread_mutex_t *)&partition->problems.lock;
    pthread_mutex_lock(lock);
    bool there = (int64_t)index < partition->problems.kept_count;
    if (there) *problem = partition->problems.kept[index];
    pthread_mutex_unlock(lock);
    return there;
}

bool ol_partition_snapshot_discarded(const ol_partition *partition, ol_error *why) {
    pthread_mutex_t *lock = (pthread_mutex_t *)&partition->problems.lock;
    pthread_mutex_lock(lock);
    bool discarded = partition->problems.has_discarded;
    if (discarded) *why = partition->problems.discarded;
    pthread_mutex_unlock(lock);
    return discarded;
}

void ol_partition_progress(const ol_partition *partition, ol_load_progress *progress) {
    progress->bytes = partition->load.bytes;
    progress->bytes_total = partition->load.bytes_total;
    progress->batches = partition->load.batches;
    progress->records = partition->load.records;
    progress->aborted_own = partition->load.aborted_own;
    progress->snapshot_offset = partition->load.snapshot_offset;
    pthread_mutex_t *lock = (pthread_mutex_t *)&partition->problems.lock;
    pthread_mutex_lock(lock);
    progress->problems = partition->problems.count;
    pthread_mutex_unlock(lock);
}

void ol_partition_fail(ol_partition *partition) {
    partition->role = OL_ROLE_FAILED;
    ol_partition_wake(partition, false);
}

/* A refused caller gets the reason in the error itself, not only in the list of problems. */
int ol_partition_refuse(const ol_partition *partition, int status, ol_error *error,
                        const char *format, ...) {
    char reason[OL_ERROR_REASON_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    ol_fail(error, status, "%s", reason);
    return ol_error_at(error, partition->options.log.directory, -1);
}

static int refuse_read_only(const ol_partition *partition, ol_error *error) {
    ol_problem problem;
    size_t index = 0;
    bool there = ol_partition_problem_at(partition, index, &problem);
    while (there && problem.kind == OL_PROBLEM_DOUBT) {
        there = ol_partition_problem_at(partition, ++index, &problem);
    }
    /* The log is not damaged: the store was opened read-only, and reports that in these words
     * everywhere. */
    if (!there) return ol_fail(error, OL_READ_ONLY, "the store is open read-only");
    const ol_error *found = &problem.error;
    const char *slash = strrchr(found->path, '/');
    const char *file = slash == NULL ? found->path : slash + 1;
    if (found->position < 0) {
        ol_fail(error, OL_READ_ONLY,
                "the partition is read-only because its log is damaged (remedy: `offsetlog "
                "repair`): %s",
                found->reason);
    } else {
        ol_fail(error, OL_READ_ONLY,
                "the partition is read-only because its log is damaged (remedy: `offsetlog "
                "repair`): in %s at byte %lld: %s",
                file, (long long)found->position, found->reason);
    }
    return ol_error_at(error, partition->options.log.directory, -1);
}

/* A caller that repeats the call succeeds only at a leader. */
static int refuse_loading(const ol_partition *partition, ol_error *error) {
    if (partition->options.replicated && !partition->leadership.leads) {
        return ol_partition_refuse(partition, OL_NOT_COORDINATOR, error,
                                   "this process does not lead the partition");
    }
    return ol_partition_refuse(partition, OL_LOADING, error, "the partition is loading");
}

/* A plain commit does not depend on the result of a load, because the load reaches it in log
 * order. */
static int check_loading(const ol_partition *partition, bool needs_state, ol_error *error) {
    bool replicated = partition->options.replicated;
    bool is_accepted = replicated ? partition->leadership.leads
                                  : partition->role == OL_ROLE_LOADING;
    if (is_accepted && !needs_state && !partition->options.refuse_while_loading) return OL_OK;
    return refuse_loading(partition, error);
}

int ol_partition_check_writable(const ol_partition *partition, bool needs_state, ol_error *error) {
    if (OL_UNLIKELY(partition->read_only)) return refuse_read_only(partition, error);
    if (OL_UNLIKELY(ol_log_has_failed(partition->log))) {
        return ol_partition_refuse(partition, OL_FAILED, error,
                                   "the log failed and must be opened again");
    }
    switch ((ol_role)partition->role) {
        case OL_ROLE_ACTIVE:
            return OL_OK;
        case OL_ROLE_LOADING:
        case OL_ROLE_UNLOADED:
            return check_loading(partition, needs_state, error);
        case OL_ROLE_FOLLOWER:
            return ol_partition_refuse(partition, OL_NOT_COORDINATOR, error,
                                       "this process does not lead the partition");
        case OL_ROLE_FAILED:
            return ol_partition_refuse(partition, OL_FAILED, error,
                                       "the partition failed and must be opened again");
    }
    OL_ASSERT(!"a partition has a role");
    return OL_OK;
}

/* Segments of a replica need not match those of its leader, so a follower may roll, too, loaded or
 * not. */
static int check_may_roll(const ol_partition *partition, ol_error *error) {
    int role = partition->role;
    bool copies = partition->options.replicated && !partition->leadership.leads &&
                  (role == OL_ROLE_FOLLOWER || role == OL_ROLE_UNLOADED);
    bool may = copies && !partition->read_only && !ol_log_has_failed(partition->log);
    return may ? OL_OK : ol_partition_check_writable(partition, true, error);
}

int ol_partition_roll(ol_partition *partition, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = check_may_roll(partition, error);
    if (status == OL_OK) status = ol_log_roll_active(partition->log, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}

static int assign_epoch(ol_partition *partition, ol_error *error) {
    if (partition->leadership.epoch < 0) {
        /* The CRC of a batch does not cover its epoch, so no epoch in the log may stop commits. */
        int32_t newest = ol_log_leader_epoch(partition->log);
        partition->leadership.epoch = newest == INT32_MAX ? newest : newest + 1;
    }
    return ol_log_assign_epoch(partition->log, partition->leadership.epoch, error);
}

int ol_partition_abort_own(ol_partition *partition, ol_error *error) {
    int status = assign_epoch(partition, error);
    while (status == OL_OK && partition->own.open.count > 0) {
        ol_commit_result result;
        status = ol_partition_write_marker(partition, partition->own.open.ids[0], -1,
                                           OL_CONTROL_ABORT, 0, &result, error);
        if (status == OL_OK) partition->load.aborted_own++;
    }
    partition->leadership.ready = status == OL_OK;
    return status;
}

int ol_partition_ensure_ready(ol_partition *partition, ol_error *error) {
    if (OL_LIKELY(partition->leadership.ready)) return OL_OK;
    /* The leader has caught up with its log but could not close transactions, so it tries again. */
    if (partition->leadership.alone && ol_partition_is_loaded(partition)) {
        partition->leadership.ready = true;
        return ol_partition_move_watermark(partition, 0, error);
    }
    /* Problems that a load finds are known at its end. */
    bool loaded = partition->role == OL_ROLE_ACTIVE && !partition->options.replicated;
    if (loaded) return ol_partition_abort_own(partition, error);
    int status = assign_epoch(partition, error);
    partition->leadership.ready = status == OL_OK;
    return status;
}

/* -------------------------------------------------------------------------------------- reading */

static int check_readable(const ol_partition *partition, ol_error *error) {
    if (OL_UNLIKELY(ol_log_has_failed(partition->log))) {
        return ol_partition_refuse(partition, OL_FAILED, error,
                                   "the log failed and must be opened again");
    }
    switch ((ol_role)partition->role) {
        case OL_ROLE_ACTIVE:
            return OL_OK;
        case OL_ROLE_UNLOADED:
        case OL_ROLE_LOADING:
            return refuse_loading(partition, error);
        case OL_ROLE_FOLLOWER:
            return ol_partition_refuse(partition, OL_NOT_COORDINATOR, error,
                                       "this process does not lead the partition");
        case OL_ROLE_FAILED:
            return ol_partition_refuse(partition, OL_FAILED, error,
                                       "the partition failed and must be opened again");
    }
    OL_ASSERT(!"a partition has a role");
    return OL_OK;
}

static int finish_lock_state(ol_partition *partition, const ol_state **state, ol_error *error) {
    int status = check_readable(partition, error);
    if (OL_UNLIKELY(status != OL_OK)) {
        pthread_mutex_unlock(&partition->table);
        return status;
    }
    *state = &partition->state;
    return OL_OK;
}

int ol_partition_lock_state(ol_partition *partition, const ol_state **state, ol_error *error) {
    pthread_mutex_lock(&partition->table);
    return finish_lock_state(partition, state, error);
}

int ol_partition_try_lock_state(ol_partition *partition, const ol_state **state, ol_error *error) {
    if (pthread_mutex_trylock(&partition->table) != 0) return OL_WOULD_BLOCK;
    return finish_lock_state(partition, state, error);
}

void ol_partition_unlock_state(ol_partition *partition) { pthread_mutex_unlock(&partition->table); }

int ol_partition_lock_applied(ol_partition *partition, const ol_state **state, ol_error *error) {
    pthread_mutex_lock(&partition->table);
    int role = partition->role, status = OL_OK;
    if (ol_log_has_failed(partition->log) || role == OL_ROLE_FAILED) {
        status = check_readable(partition, error);
    } else if (role != OL_ROLE_ACTIVE && role != OL_ROLE_FOLLOWER) {
        status = ol_partition_refuse(partition, OL_LOADING, error, "the partition is not loaded");
    }
    *state = &partition->state;
    if (status != OL_OK) pthread_mutex_unlock(&partition->table);
    return status;
}

/* ------------------------------------------------------------ for the folders above */

const ol_partition_options *ol_partition_get_options(const ol_partition *partition) {
    return &partition->options;
}

void ol_partition_lock_writer(ol_partition *partition, ol_partition_view *view) {
    pthread_mutex_lock(&partition->writer);
    *view = (ol_partition_view){&partition->state, &partition->inflight, partition->watermark};
}

void ol_partition_leadership(ol_partition *partition, ol_leadership *leadership) {
    pthread_mutex_lock(&partition->writer);
    *leadership = (ol_leadership){.epoch = partition->leadership.epoch,
                                  .leads = partition->leadership.leads,
                                  .alone = partition->leadership.alone,
                                  .term = partition->term,
                                  .elected_end = partition->leadership.elected_end};
    pthread_mutex_unlock(&partition->writer);
}

void ol_partition_unlock_writer(ol_partition *partition) {
    pthread_mutex_unlock(&partition->writer);
}

int ol_partition_hold_loads(ol_partition *partition, ol_error *error) {
    pthread_mutex_lock(&partition->load_gate);
    pthread_mutex_lock(&partition->writer);
    bool runs = partition->load_runs;
    pthread_mutex_unlock(&partition->writer);
    if (!runs) return OL_OK;
    pthread_mutex_unlock(&partition->load_gate);
    return ol_partition_refuse(partition, OL_LOADING, error, "the partition is loading");
}

void ol_partition_release_loads(ol_partition *partition) {
    pthread_mutex_unlock(&partition->load_gate);
}

int64_t ol_partition_newest_timestamp(ol_partition *partition) {
    pthread_mutex_lock(&partition->writer);
    int64_t newest = partition->clock.newest;
    pthread_mutex_unlock(&partition->writer);
    return newest;
}
