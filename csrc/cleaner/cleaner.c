#include "cleaner/cleaner.h"

#include <stdlib.h>
#include <string.h>

#include "cleaner/cleaner_impl.h"

enum {
    DELETE_RETENTION_MS = 24 * 3600 * 1000,
    BYTES_PER_KEY = 2048,       /* of log, as a first guess of how many keys there are; the map grows, and a small one stays in the cache */
};

void ol_clean_options_init(ol_clean_options *options) {
    *options = (ol_clean_options){
        .first_dirty = -1,
        .end_max = INT64_MAX,
        .delete_retention_ms = DELETE_RETENTION_MS,
        .map_bytes = OL_CLEAN_MAP_BYTES_DEFAULT,
    };
}

static int check_options(const ol_clean_options *options, ol_error *error) {
    if (options->map_bytes < OL_CLEAN_MAP_BYTES_MIN) {
        return ol_fail(error, OL_INVALID, "map_bytes %zu is below %zu", options->map_bytes, OL_CLEAN_MAP_BYTES_MIN);
    }
    if (options->delete_retention_ms < 0 || options->now_ms < 0 || options->end_max < 0) {
        return ol_fail(error, OL_INVALID, "a time or an offset of a clean is negative");
    }
    return OL_OK;
}

/* ------------------------------------------------------------------------------------------------ where it ends */

static int check_role(const ol_clean_run *run, ol_error *error) {
    const ol_partition *partition = run->partition;
    if (!ol_log_is_writable(run->log) && run->options->sink == NULL) return ol_fail(error, OL_READ_ONLY, "the log is open read-only");
    switch (ol_partition_role(partition)) {
        case OL_ROLE_ACTIVE:
        case OL_ROLE_FOLLOWER:
            return OL_OK;
        case OL_ROLE_UNLOADED:
        case OL_ROLE_LOADING:
            return ol_fail(error, OL_LOADING, "the partition is loading");
        case OL_ROLE_FAILED:
            return ol_fail(error, OL_FAILED, "the partition failed and must be opened again");
    }
    OL_ASSERT(!"a partition has a role");
    return OL_OK;
}

/* Nothing at or above the result can be taken back: neither by a truncation, nor by the end of a transaction.  Transactions that the log calls ended may have
 * their marker above W; those of the state are the ones that are open there. */
static int find_limit(ol_clean_run *run, ol_error *error) {
    ol_partition_view now;
    ol_pending_producer pending;
    ol_partition_lock_writer(run->partition, &now);
    int status = check_role(run, error);
    if (status == OL_OK) {
        run->cuts = ol_log_cuts(run->log);
        run->report->log_end = ol_log_end(run->log);
        run->limit = ol_log_first_unstable(run->log);
        if (now.watermark < run->limit) run->limit = now.watermark;
        if (ol_pending_producer_at(now.state->pending, 0, &pending) && pending.first_log_offset < run->limit) {
            run->limit = pending.first_log_offset;
        }
        status = ol_log_producers_copy(run->log, &run->producers, &run->producer_count, error);
    }
    ol_partition_unlock_writer(run->partition);
    if (run->options->end_max < run->limit) run->limit = run->options->end_max;
    return status;
}

/* Segments are replaced only when all that was rolled is on disk.  No commit waits for this flush, so it is not asked for: commits are to cost no more
 * after a clean than before it. */
static int flush_log(ol_clean_run *run, ol_error *error) {
    ol_partition *partition = run->partition;
    int64_t flushed = 0;
    int status = ol_log_flush_unasked(run->log, &flushed, error);
    if (ol_log_has_failed(run->log)) {
        ol_partition_fail(partition);
    } else if (status != OL_OK) {
        return status;
    }
    /* It is flushed, unless the partition failed, or was cut since its end was looked at. */
    status = ol_partition_wait(partition, run->report->log_end, OL_TERM_NOW, OL_WAIT_FLUSHED, -1, error);
    if (status == OL_NOT_COORDINATOR) {
        run->report->truncated = true;
        run->ended = true;
        return OL_END;
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------ passes */

static int64_t bytes_from(const ol_clean_run *run, int64_t from) {
    int64_t bytes = 0;
    for (size_t i = 0; i < run->segment_count; i++) {
        if (run->segments[i].next_base > from) bytes += run->segments[i].size;
    }
    return bytes;
}

static int run_pass(ol_clean_run *run, ol_error *error) {
    ol_clean_report *report = run->report;
    ol_clean_progress *progress = run->options->progress;
    report->passes++;
    run->legacy_horizon_known = false;
    if (progress != NULL) {
        progress->passes = report->passes;
        progress->bytes_total = report->bytes_read + bytes_from(run, 0) + bytes_from(run, run->first_dirty);
    }
    int status = ol_clean_scan(run, error);
    report->keys = (int64_t)run->map.count;
    if (status == OL_OK) status = ol_clean_groups(run, error);
    if (status != OL_OK) return status;
    run->first_dirty = run->pass_end;
    if (run->pass_end > report->end) report->end = run->pass_end;
    return OL_OK;
}

static int run_passes(ol_clean_run *run, ol_error *error) {
    const ol_clean_options *options = run->options;
    int64_t dirty = bytes_from(run, run->first_dirty);
    int status = ol_key_map_create(&run->map, options->map_bytes, (uint64_t)dirty / BYTES_PER_KEY, error);
    while (status == OL_OK) {
        status = run_pass(run, error);
        if (status != OL_OK) break;
        run->report->complete = run->first_dirty >= run->target;
        if (run->report->complete || options->sink != NULL) break;
        status = ol_clean_list_segments(run, false, error);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------ a run */

static void count_segments(const ol_clean_run *run, int64_t *segments, int64_t *bytes) {
    *segments = (int64_t)run->segment_count;
    *bytes = bytes_from(run, 0);
}

static int prepare(ol_clean_run *run, ol_error *error) {
    int64_t checkpoint = run->options->first_dirty;
    int status = find_limit(run, error);
    if (status == OL_OK && run->options->sink == NULL) {
        status = flush_log(run, error);
        int64_t flushed = ol_log_flushed(run->log);
        if (flushed < run->limit) run->limit = flushed;
    }
    if (status != OL_OK) return status;
    status = ol_clean_list_segments(run, true, error);
    if (status != OL_OK) return status;
    run->report->target = run->target;
    run->log_start = ol_log_start(run->log);
    /* A checkpoint that is not in the log is of another time (docs/format/cleaner.md §8.1). */
    if (checkpoint < run->log_start || checkpoint > run->report->log_end) checkpoint = -1;
    run->report->end = run->report->floor = checkpoint;
    run->first_dirty = checkpoint < 0 ? run->log_start : checkpoint < run->target ? checkpoint : run->target;
    count_segments(run, &run->report->segments_before, &run->report->bytes_before);
    return OL_OK;
}

static void finish(ol_clean_run *run) {
    ol_clean_report *report = run->report;
    ol_error ignored;
    if (report->end > report->floor) report->floor = report->end;
    if (report->end > run->end_max) report->end = run->end_max;
    if (ol_clean_list_segments(run, false, &ignored) == OL_OK) {
        count_segments(run, &report->segments_after, &report->bytes_after);
    }
    if (run->options->sink != NULL) report->bytes_after = report->bytes_before - (run->taken_bytes - run->told_bytes);
}

static void free_run(ol_clean_run *run) {
    ol_key_map_free(&run->map);
    ol_clean_superseded_free(&run->superseded);
    ol_clean_fates_free(&run->fates);
    ol_clean_open_free(&run->open);
    ol_clean_output_free(&run->output);
    free(run->kept);
    free(run->segments);
    free(run->quarantined);
    free(run->producers);
    free(run->holds);
    free(run);
}

static int copy_holds(ol_clean_run *run, const ol_clean_options *options, ol_error *error) {
    if (options->hold_count == 0) return OL_OK;
    run->holds = malloc(options->hold_count * sizeof *run->holds);
    if (run->holds == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for %zu holds", options->hold_count);
    memcpy(run->holds, options->holds, options->hold_count * sizeof *run->holds);
    run->own_options.holds = run->holds;
    return OL_OK;
}

int ol_cleaner_run(ol_partition *partition, const ol_clean_options *options, ol_clean_report *report, ol_error *error) {
    memset(report, 0, sizeof *report);
    report->end = report->floor = -1;
    int status = check_options(options, error);
    if (status != OL_OK) return status;
    ol_clean_run *run = calloc(1, sizeof *run);
    if (run == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a clean");
    run->partition = partition;
    run->log = ol_partition_log(partition);
    run->log_options = &ol_partition_get_options(partition)->log;
    run->own_options = *options;
    run->options = &run->own_options;
    run->decompressor = run->log_options->decompressor;
    run->report = report;
    run->fates_from = -1;
    run->marker_block = run->tombstone_block = run->end_max = INT64_MAX;
    ol_clean_fates_init(&run->fates);
    ol_key_hasher_init(&run->hasher, 0);
    status = copy_holds(run, options, error);
    if (status == OL_OK) status = prepare(run, error);
    if (status == OL_OK) {
        status = run_passes(run, error);
        finish(run);
    }
    OL_ASSERT(status != OL_END || run->ended);
    free_run(run);
    return status == OL_END ? OL_OK : status;
}
