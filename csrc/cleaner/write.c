/* Writes the batches of a group of segments, after it was decided whether each stays, is rebuilt,
 * or is dropped.  The resulting segment replaces the old ones.
 *
 * If a group has only one segment and loses nothing, the segment is left as it is.  The new segment
 * is therefore begun only at the first difference.  The part of the group before this difference is
 * then copied into it. */
#include <stdlib.h>

#include "base/bytes.h"
#include "cleaner/cleaner_impl.h"

/* -------------------------------------------------------------------------------------- writing */

static int append(ol_clean_copier *copy, const uint8_t *data, size_t size, int64_t base_offset,
                  int64_t last_offset, int64_t max_timestamp, ol_error *error) {
    copy->unpaced += (int64_t)size;
    return ol_segment_rewrite_append(copy->cleaned, data, size, base_offset, last_offset,
                                     max_timestamp, error);
}

static int append_batch(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    const ol_clean_sink *sink = run->scope.options.sink;
    if (OL_UNLIKELY(sink != NULL)) {
        run->walk.bytes_sunk += (int64_t)batch->size;
        return sink->take(sink->context, batch, error);
    }
    /* An emptied batch keeps its greatest timestamp, but has no record of that time, so no index
     * may lead to it. */
    int64_t max_timestamp = batch->magic == 2 && batch->record_count == 0 ? -1
                                                                          : batch->max_timestamp;
    return append(copy, batch->data, batch->size, batch->base_offset, batch->last_offset,
                  max_timestamp, error);
}

/* Copies everything of the lone segment before `position`; its checksums are verified again. */
static int copy_prefix(ol_clean_copier *copy, int64_t position, ol_error *error) {
    ol_clean_source source;
    bool done = false;
    int status = ol_clean_source_open(&source, &copy->run->course, copy->segment,
                                      copy->segment->base_offset, error);
    while (status == OL_OK && !done) {
        ol_batch batch;
        status = ol_clean_source_next_piece(&source, &done, error);
        if (status != OL_OK || done) break;
        for (;;) {
            bool piece_done = false;
            status = ol_clean_source_next_batch(&source, &batch, &piece_done, error);
            if (status != OL_OK || piece_done) break;
            done = source.piece.position + (batch.data - source.piece.data) >= position;
            if (done) break;
            status = append_batch(copy, &batch, error);
            if (status != OL_OK) break;
        }
    }
    ol_clean_source_close(&source);
    return status;
}

int ol_clean_start_writing(ol_clean_copier *copy, int64_t position, ol_error *error) {
    ol_clean_run *run = copy->run;
    int status = ol_segment_rewrite_start(run->scope.log,
                                          run->segments.items[copy->first].base_offset,
                                          run->scope.cuts, &copy->cleaned, error);
    if (status != OL_OK || position == 0) return status;
    OL_ASSERT(copy->count == 1);
    return copy_prefix(copy, position, error);
}

/* Appends a rebuilt batch: one of magic 2, or messages. */
static int append_output(ol_clean_copier *copy, const ol_clean_output *output, ol_error *error) {
    for (size_t at = 0; at < output->size;) {
        ol_batch batch;
        int status = ol_batch_parse(output->data + at, output->size - at, &batch, error);
        OL_ASSERT(status == OL_OK);     /* ol_clean_batch_apply made it */
        status = append_batch(copy, &batch, error);
        if (status != OL_OK) return status;
        at += batch.size;
    }
    return OL_OK;
}

int ol_clean_put_batch(ol_clean_copier *copy, const ol_batch *batch, ol_clean_result result,
                       ol_error *error) {
    bool whole = result == OL_CLEAN_VERBATIM || result == OL_CLEAN_NOT_COMPRESSED;
    if (copy->cleaned == NULL && copy->run->scope.options.sink == NULL) {
        if (whole) return OL_OK;
        int64_t position = copy->source.piece.position + (batch->data - copy->source.piece.data);
        int status = ol_clean_start_writing(copy, position, error);
        if (status != OL_OK) return status;
    }
    if (whole) return append_batch(copy, batch, error);
    if (result == OL_CLEAN_DROPPED) return OL_OK;
    copy->run->course.report->batches_rebuilt++;
    return append_output(copy, &copy->run->walk.output, error);
}

/* ----------------------------------------------------------------------- deciding about batches */

static int64_t new_horizon(const ol_clean_options *options) {
    int64_t horizon;
    return __builtin_add_overflow(options->now_ms, options->delete_retention_ms, &horizon)
               ? INT64_MAX
               : horizon;
}

/* The newest batch of a producer that may continue to write carries its sequence and epoch
 * (docs/format/cleaner.md §8.3). */
static bool is_last_of_producer(const ol_clean_scope *scope, const ol_batch *batch) {
    size_t low = 0, high = scope->producer_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (scope->producers[middle].producer_id < batch->producer_id) low = middle + 1;
        else high = middle;
    }
    if (low == scope->producer_count || scope->producers[low].producer_id != batch->producer_id) {
        return false;
    }
    const ol_log_producer_state *state = &scope->producers[low];
    if (state->last_offset >= 0) return state->last_offset == batch->last_offset;
    return ol_batch_is_control(batch) && state->epoch == batch->producer_epoch;
}

/* A follower that copies a cleaned log learns from its batches where leader epochs begin.  Without
 * the first batch of an epoch, the follower assumes a later start of the epoch.  As a leader it
 * would then not notice that another replica's log diverges below that start
 * (docs/format/leader-epochs.md §12.2). */
static bool is_first_of_epoch(const ol_clean_scope *scope, const ol_batch *batch) {
    int32_t epoch;
    int64_t start;
    ol_log_end_for_epoch(scope->log, batch->leader_epoch - 1, &epoch, &start);
    return start == batch->base_offset;
}

static bool retains_empty(const ol_clean_scope *scope, const ol_batch *batch) {
    if (batch->last_offset + 1 == scope->target) return true;
    if (batch->leader_epoch > 0 && is_first_of_epoch(scope, batch)) return true;
    return batch->producer_id >= 0 && is_last_of_producer(scope, batch);
}

int ol_clean_finish_batch(ol_clean_copier *copy, const ol_batch *batch, int64_t record_count,
                          ol_clean_choice *choice, bool begins_horizon, ol_clean_result *result,
                          ol_error *error) {
    const ol_clean_scope *scope = &copy->run->scope;
    ol_clean_output *output = &copy->run->walk.output;
    bool gets_horizon = begins_horizon && batch->magic == 2 && !ol_batch_has_horizon(batch);
    choice->retain_empty = choice->kept_count == 0 && retains_empty(scope, batch);
    choice->new_horizon = gets_horizon ? new_horizon(&scope->options) : -1;
    int status = ol_clean_batch_apply(batch, record_count, choice, scope->log_options->decompressor,
                                      scope->options.compressor, output, result, error);
    if (status != OL_OK) return status;
    /* A wrapper names only its end: its first message may be below the base of the segment that
     * begins with the wrapper. */
    bool unpacked = *result == OL_CLEAN_REBUILT && batch->magic < 2;
    if (unpacked && ol_load_i64(output->data) < copy->next_offset) {
        *result = OL_CLEAN_NOT_COMPRESSED;
    }
    return ol_clean_put_batch(copy, batch, *result, error);
}

/* -------------------------------------------------------------------------------------- markers */

void ol_clean_markers_free(ol_clean_markers *markers) {
    free(markers->index);
    free(markers->aborted);
    *markers = (ol_clean_markers){0};
}

static int add_transaction(ol_aborted_transaction **list, size_t *count, size_t *capacity,
                           const ol_aborted_transaction *entry, ol_error *error) {
    if (*count == *capacity) {
        size_t grown = *capacity == 0 ? 16 : *capacity * 2;
        ol_aborted_transaction *entries = realloc(*list, grown * sizeof *entries);
        if (entries == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory for %zu aborted transactions", grown);
        }
        *list = entries;
        *capacity = grown;
    }
    (*list)[(*count)++] = *entry;
    return OL_OK;
}

static int visit_index(void *context, const ol_aborted_transaction *entry) {
    ol_clean_markers *markers = context;
    ol_error ignored;
    return add_transaction(&markers->index, &markers->index_count, &markers->index_capacity, entry,
                           &ignored);
}

/* Keeps the entry that the old index has for this marker, or if it has none, makes the entry from
 * the log. */
static int keep_aborted(ol_clean_copier *copy, const ol_batch *marker, int64_t first_offset,
                        ol_error *error) {
    ol_clean_run *run = copy->run;
    ol_clean_markers *markers = &copy->markers;
    if (!markers->index_read) {
        ol_error ignored;
        const ol_clean_segment *first = &run->segments.items[copy->first],
                               *last = first + copy->count - 1;
        markers->index_read = true;
        (void)!ol_log_collect_aborted(run->scope.log, first->base_offset, last->next_base,
                                      visit_index, markers, &ignored);
    }
    ol_aborted_transaction entry = {
        .producer_id = marker->producer_id,
        .first_offset = first_offset,
        .last_offset = marker->last_offset,
        .last_stable_offset = ol_clean_open_lowest(&run->walk.open, marker->last_offset + 1),
    };
    for (size_t i = 0; i < markers->index_count; i++) {
        const ol_aborted_transaction *known = &markers->index[i];
        if (known->last_offset != entry.last_offset || known->producer_id != entry.producer_id) {
            continue;
        }
        if (known->first_offset <= known->last_offset) entry = *known;
        break;
    }
    if (entry.first_offset < 0) return OL_OK;
    return add_transaction(&markers->aborted, &markers->aborted_count, &markers->aborted_capacity,
                           &entry, error);
}

/* A marker is dropped, after its time, once nothing of its transaction is left
 * (docs/format/cleaner.md §8.5). */
int ol_clean_add_control(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    ol_clean_open *open = &run->walk.open;
    ol_control type;
    int32_t count;
    int status = ol_clean_flush_rows(copy, error);
    if (status == OL_OK) status = ol_clean_read_control(batch, &type, &count, error);
    if (status != OL_OK) return status;
    bool blocked = batch->base_offset >= run->segments.damaged.marker_block;
    bool ends = count > 0 && type != OL_CONTROL_OTHER;
    ol_clean_open_entry *seen = ends ? ol_clean_open_find(open, batch->producer_id) : NULL;
    int64_t first_offset = seen != NULL ? seen->first_offset : -1;
    if (seen != NULL) ol_clean_open_remove(open, seen);
    bool discardable = seen == NULL && !blocked && ends && count == 1;
    bool goes = discardable && ol_batch_has_horizon(batch) &&
                batch->base_timestamp <= run->scope.options.now_ms;
    if (!discardable && ends && type == OL_CONTROL_ABORT) {
        status = keep_aborted(copy, batch, first_offset, error);
    }
    if (status != OL_OK) return status;
    uint64_t all = goes ? 0 : UINT64_MAX;
    ol_clean_choice choice = {.kept = &all, .kept_count = goes ? 0 : count};
    ol_clean_result result = OL_CLEAN_VERBATIM;
    int64_t sunk = run->walk.bytes_sunk;
    status = count > 64 ? ol_clean_put_batch(copy, batch, result, error)
                        : ol_clean_finish_batch(copy, batch, count, &choice, discardable && !goes,
                                                &result, error);
    if (goes) run->course.report->markers_dropped++;
    if (status == OL_OK && run->scope.surveyor != NULL) {
        ol_clean_survey_markers(run->scope.surveyor, batch, copy->segment->base_offset, count, goes,
                                run->walk.bytes_sunk - sunk);
    }
    return status;
}

/* --------------------------------------------------------------------------- the end of a group */

/* The floor is E, not the end of the pass, because the pass may end within a batch, or between a
 * superseding value and its COMMIT marker. */
static int raise_floor(const ol_clean_scope *scope, bool *is_raised, ol_clean_report *report,
                       ol_error *error) {
    if (*is_raised) return OL_OK;
    const ol_clean_options *options = &scope->options;
    int64_t floor = scope->target;
    int status = options->raise_floor == NULL
                     ? OL_OK
                     : options->raise_floor(options->raise_floor_context, floor, error);
    if (status != OL_OK) return status;
    *is_raised = true;
    if (floor > report->floor) report->floor = floor;
    return OL_OK;
}

int ol_clean_swap_in(ol_clean_copier *copy, ol_error *error) {
    ol_clean_run *run = copy->run;
    ol_clean_progress *progress = run->scope.options.progress;
    const ol_clean_markers *markers = &copy->markers;
    ol_segment_rewrite *cleaned = copy->cleaned;
    int status = OL_OK;
    for (size_t i = 0; i < markers->aborted_count && status == OL_OK; i++) {
        status = ol_segment_rewrite_append_aborted(cleaned, &markers->aborted[i], error);
    }
    if (status == OL_OK) {
        status = raise_floor(&run->scope, &run->walk.floor_raised, run->course.report, error);
    }
    int64_t *bases = status == OL_OK ? malloc(copy->count * sizeof *bases) : NULL;
    if (status == OL_OK && bases == NULL) {
        status = ol_fail(error, OL_NO_MEMORY, "no memory for the base offsets of %zu segments",
                         copy->count);
    }
    if (status != OL_OK) return status;
    for (size_t i = 0; i < copy->count; i++) {
        bases[i] = run->segments.items[copy->first + i].base_offset;
    }
    status = run->scope.owner->hold_swap(&run->scope, error);
    if (status == OL_LOADING) {
        free(bases);
        run->course.report->load_began = run->course.has_ended = true;
        return OL_END;
    }
    copy->cleaned = NULL;
    status = ol_segment_rewrite_swap(cleaned, bases, copy->count, error);
    run->scope.owner->release_swap(&run->scope);
    free(bases);
    if (status == OL_OK && progress != NULL) progress->segments_after++;
    if (status != OL_WOULD_BLOCK) return status;
    /* The log was truncated, or rolled since the flush: the next run begins with the segments of
     * that time. */
    run->course.report->truncated = ol_log_cuts(run->scope.log) != run->scope.cuts;
    run->course.has_ended = true;
    return OL_END;
}
