/* Makes a run of the cleaner: determines E, makes the passes, and fills the report. */
#include "cleaner/cleaner.h"

#include <stdlib.h>
#include <string.h>

#include "cleaner/cleaner_impl.h"

enum {
    DELETE_RETENTION_MS = 24 * 3600 * 1000,
    BYTES_PER_KEY = 2048,       /* bytes of log per key; a low guess is fine: a small map fits the
                                   cache, and it grows */
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
        return ol_fail(error, OL_INVALID, "map_bytes %zu is below %zu", options->map_bytes,
                       OL_CLEAN_MAP_BYTES_MIN);
    }
    if (options->delete_retention_ms < 0 || options->now_ms < 0 || options->end_max < 0) {
        return ol_fail(error, OL_INVALID,
                       "delete_retention_ms, now_ms and end_max must not be negative");
    }
    return OL_OK;
}

/* -------------------------------------------------------------------------------- where it ends */

/* The log was truncated while the owner determined the limit. */
static int stop_cut(ol_clean_course *course) {
    course->report->truncated = true;
    course->has_ended = true;
    return OL_END;
}

/* Nothing below the limit can be undone.  Segments are replaced only when everything that was
 * rolled is on disk. */
static int find_limit(ol_clean_run *run, ol_error *error) {
    ol_clean_scope *scope = &run->scope;
    ol_clean_report *report = run->course.report;
    int status = scope->owner->find_limit(scope, &report->log_end, error);
    if (status == OL_OK) ol_clean_lower_limit(scope, scope->options.end_max);
    if (status == OL_OK && scope->options.sink == NULL) {
        status = scope->owner->flush(scope, report->log_end, error);
        if (status == OL_OK) ol_clean_lower_limit(scope, ol_log_flushed(scope->log));
    }
    return status == OL_NOT_COORDINATOR ? stop_cut(&run->course) : status;
}

/* --------------------------------------------------------------------------------------- passes */

static int64_t bytes_from(const ol_clean_segments *segments, int64_t from) {
    int64_t bytes = 0;
    for (size_t i = 0; i < segments->count; i++) {
        if (segments->items[i].next_base > from) bytes += segments->items[i].size;
    }
    return bytes;
}

static int run_pass(ol_clean_run *run, ol_error *error) {
    ol_clean_report *report = run->course.report;
    ol_clean_segments *segments = &run->segments;
    ol_clean_progress *progress = run->scope.options.progress;
    report->passes++;
    if (progress != NULL) {
        progress->passes = report->passes;
        progress->bytes_total = report->bytes_read + bytes_from(segments, 0) +
                                bytes_from(segments, segments->first_dirty);
    }
    int status = ol_clean_build_key_map(run, error);
    report->keys = (int64_t)run->pass.map.count;
    if (status == OL_OK) status = ol_clean_copy_segments(run, error);
    if (status != OL_OK) return status;
    segments->first_dirty = run->pass.end;
    if (run->pass.end > report->end) report->end = run->pass.end;
    return OL_OK;
}

static int run_passes(ol_clean_run *run, ol_error *error) {
    const ol_clean_scope *scope = &run->scope;
    ol_clean_segments *segments = &run->segments;
    int64_t dirty = bytes_from(segments, segments->first_dirty);
    int status = ol_key_map_create(&run->pass.map, scope->options.map_bytes,
                                   (uint64_t)dirty / BYTES_PER_KEY, error);
    while (status == OL_OK) {
        status = run_pass(run, error);
        if (status != OL_OK) break;
        run->course.report->complete = segments->first_dirty >= scope->target;
        if (run->course.report->complete || scope->options.sink != NULL) break;
        status = ol_clean_list_segments(&run->course, segments, scope->target, error);
    }
    return status;
}

/* ---------------------------------------------------------------------------------------- a run */

static void count_segments(const ol_clean_segments *segments, int64_t *count, int64_t *bytes) {
    *count = (int64_t)segments->count;
    *bytes = bytes_from(segments, 0);
}

static int prepare(ol_clean_run *run, ol_error *error) {
    ol_clean_scope *scope = &run->scope;
    ol_clean_report *report = run->course.report;
    int64_t checkpoint = scope->options.first_dirty;
    int status = find_limit(run, error);
    if (status != OL_OK) return status;
    status = ol_clean_list_segments(&run->course, &run->segments, scope->limit, error);
    if (status != OL_OK) return status;
    int64_t target = run->segments.end, log_start = ol_log_start(scope->log);
    scope->target = report->target = target;
    /* A checkpoint outside the log belongs to an earlier log (docs/format/cleaner.md §8.1). */
    if (checkpoint < log_start || checkpoint > report->log_end) checkpoint = -1;
    report->end = report->floor = checkpoint;
    run->segments.first_dirty = checkpoint < target ? checkpoint : target;
    if (checkpoint < 0) run->segments.first_dirty = log_start;
    count_segments(&run->segments, &report->segments_before, &report->bytes_before);
    return OL_OK;
}

static void finish(ol_clean_run *run) {
    ol_clean_report *report = run->course.report;
    const ol_clean_walk *walk = &run->walk;
    ol_error ignored;
    if (report->end > report->floor) report->floor = report->end;
    if (report->end > run->transactions.first_undecided) {
        report->end = run->transactions.first_undecided;
    }
    int status = ol_clean_list_segments(&run->course, &run->segments, run->scope.target, &ignored);
    if (status == OL_OK) {
        count_segments(&run->segments, &report->segments_after, &report->bytes_after);
    }
    if (run->scope.options.sink != NULL) {
        report->bytes_after = report->bytes_before - (walk->bytes_taken - walk->bytes_sunk);
    }
}

static void free_run(ol_clean_run *run) {
    ol_key_map_free(&run->pass.map);
    ol_clean_superseded_free(&run->pass.superseded);
    ol_clean_fates_free(&run->transactions.fates);
    ol_clean_open_free(&run->walk.open);
    ol_clean_output_free(&run->walk.output);
    free(run->walk.kept);
    free(run->segments.items);
    free(run->segments.damaged.bases);
    free(run->scope.producers);
    free(run->transactions.holds);
    free(run);
}

/* Copies the holds, because their ends are lowered later. */
static int copy_holds(ol_clean_run *run, const ol_clean_options *options, ol_error *error) {
    if (options->hold_count == 0) return OL_OK;
    ol_clean_hold *holds = malloc(options->hold_count * sizeof *holds);
    if (holds == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for the min_history of %zu groups",
                       options->hold_count);
    }
    memcpy(holds, options->holds, options->hold_count * sizeof *holds);
    run->scope.options.holds = run->transactions.holds = holds;
    run->transactions.hold_count = options->hold_count;
    return OL_OK;
}

static void initialise(ol_clean_run *run, const ol_clean_scope *scope,
                       const ol_clean_options *options, ol_clean_report *report) {
    run->scope = *scope;
    run->scope.options = *options;
    run->course.scope = &run->scope;
    run->course.report = report;
    run->segments.damaged.marker_block = run->segments.damaged.tombstone_block = INT64_MAX;
    run->transactions.from = -1;
    run->transactions.first_undecided = INT64_MAX;
    ol_clean_fates_init(&run->transactions.fates);
    ol_key_hasher_init(&run->scope.hasher, 0);
}

int ol_clean_log(const ol_clean_scope *scope, const ol_clean_options *options,
                 ol_clean_report *report, ol_error *error) {
    memset(report, 0, sizeof *report);
    report->end = report->floor = -1;
    int status = check_options(options, error);
    if (status != OL_OK) return status;
    ol_clean_run *run = calloc(1, sizeof *run);
    if (run == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a clean");
    initialise(run, scope, options, report);
    status = copy_holds(run, options, error);
    if (status == OL_OK) status = prepare(run, error);
    if (status == OL_OK) {
        status = run_passes(run, error);
        if (status == OL_OK && scope->surveyor != NULL) status = ol_clean_survey_rest(run, error);
        finish(run);
    }
    OL_ASSERT(status != OL_END || run->course.has_ended);
    free_run(run);
    return status == OL_END ? OL_OK : status;
}
