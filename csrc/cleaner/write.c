/* What becomes of a batch that was decided: it stays, is rebuilt, or goes; and the segment that is made of them takes the place of the old ones.
 *
 * A lone segment of which nothing goes is left as it is: nothing is written until the first difference, then what was passed is copied. */
#include <stdlib.h>

#include "base/bytes.h"
#include "cleaner/cleaner_impl.h"

/* ------------------------------------------------------------------------------------------------ writing */

static int append(ol_clean_copier *copy, const uint8_t *data, size_t size, int64_t base_offset, int64_t last_offset,
                  int64_t max_timestamp, ol_error *error) {
    copy->unpaced += (int64_t)size;
    return ol_segment_rewrite_append(copy->cleaned, data, size, base_offset, last_offset, max_timestamp, error);
}

static int append_batch(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) {
    const ol_clean_sink *sink = copy->run->options->sink;
    if (OL_UNLIKELY(sink != NULL)) {
        copy->run->told_bytes += (int64_t)batch->size;
        return sink->take(sink->context, batch, error);
    }
    /* An emptied batch keeps its greatest timestamp, but holds no record of that time which an index could lead to. */
    int64_t max_timestamp = batch->magic == 2 && batch->record_count == 0 ? -1 : batch->max_timestamp;
    return append(copy, batch->data, batch->size, batch->base_offset, batch->last_offset, max_timestamp, error);
}

/* Everything of the lone segment before `position`, checked once more. */
static int copy_prefix(ol_clean_copier *copy, int64_t position, ol_error *error) {
    ol_clean_source source;
    bool done = false;
    int status = ol_clean_source_open(&source, copy->run, copy->segment, copy->segment->base_offset, error);
    while (status == OL_OK && !done) {
        ol_batch batch;
        status = ol_clean_source_next_piece(&source, &done, error);
        if (status != OL_OK || done) break;
        for (;;) {
            bool behind = false;
            status = ol_clean_source_next_batch(&source, &batch, &behind, error);
            if (status != OL_OK || behind) break;
            done = source.piece.position + (batch.data - source.piece.data) >= position;
            if (done) break;
            status = append_batch(copy, &batch, error);
            if (status != OL_OK) break;
        }
    }
    ol_clean_source_close(&source);
    return status;
}

/* From here on everything is written.  `position`: of the first difference in the current segment. */
int ol_clean_start_writing(ol_clean_copier *copy, int64_t position, ol_error *error) {
    ol_clean_run *run = copy->run;
    int status = ol_segment_rewrite_start(run->log, run->segments[copy->first].base_offset, run->cuts, &copy->cleaned, error);
    if (status != OL_OK || position == 0) return status;
    OL_ASSERT(copy->count == 1);
    return copy_prefix(copy, position, error);
}

/* The output is one batch of magic 2, or messages. */
static int append_output(ol_clean_copier *copy, const ol_clean_output *output, ol_error *error) {
    for (size_t at = 0; at < output->size;) {
        ol_batch batch;
        int status = ol_batch_parse(output->data + at, output->size - at, &batch, error);
        OL_ASSERT(status == OL_OK);     /* we wrote it */
        status = append_batch(copy, &batch, error);
        if (status != OL_OK) return status;
        at += batch.size;
    }
    return OL_OK;
}

/* Writes a batch as it was decided. */
int ol_clean_put_batch(ol_clean_copier *copy, const ol_batch *batch, ol_clean_result result, ol_error *error) {
    bool whole = result == OL_CLEAN_VERBATIM || result == OL_CLEAN_NOT_COMPRESSED;
    if (copy->cleaned == NULL && copy->run->options->sink == NULL) {
        if (whole) return OL_OK;
        int64_t position = copy->source.piece.position + (batch->data - copy->source.piece.data);
        int status = ol_clean_start_writing(copy, position, error);
        if (status != OL_OK) return status;
    }
    if (whole) return append_batch(copy, batch, error);
    if (result == OL_CLEAN_DROPPED) return OL_OK;
    copy->run->report->batches_rebuilt++;
    return append_output(copy, &copy->run->output, error);
}

/* ------------------------------------------------------------------------------------------------ deciding about batches */

static int64_t new_horizon(const ol_clean_run *run) {
    const ol_clean_options *options = run->options;
    int64_t horizon;
    return __builtin_add_overflow(options->now_ms, options->delete_retention_ms, &horizon) ? INT64_MAX : horizon;
}

/* The newest batch of a producer that may go on carries its sequence and epoch (docs/format/cleaner.md §8.3). */
static bool is_last_of_producer(const ol_clean_run *run, const ol_batch *batch) {
    size_t low = 0, high = run->producer_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (run->producers[middle].producer_id < batch->producer_id) low = middle + 1;
        else high = middle;
    }
    if (low == run->producer_count || run->producers[low].producer_id != batch->producer_id) return false;
    const ol_log_producer_state *state = &run->producers[low];
    if (state->last_offset >= 0) return state->last_offset == batch->last_offset;
    return ol_batch_is_control(batch) && state->epoch == batch->producer_epoch;
}

static bool retains_empty(const ol_clean_run *run, const ol_batch *batch) {
    if (batch->last_offset + 1 == run->target) return true;
    return batch->producer_id >= 0 && is_last_of_producer(run, batch);
}

int ol_clean_finish_batch(ol_clean_copier *copy, const ol_batch *batch, int64_t record_count, ol_clean_choice *choice, bool begins_horizon,
                        ol_clean_result *result, ol_error *error) {
    ol_clean_run *run = copy->run;
    choice->retain_empty = choice->kept_count == 0 && retains_empty(run, batch);
    choice->new_horizon = begins_horizon && batch->magic == 2 && !ol_batch_has_horizon(batch) ? new_horizon(run) : -1;
    int status = ol_clean_batch_apply(batch, record_count, choice, run->decompressor, run->options->compressor, &run->output,
                                      result, error);
    if (status != OL_OK) return status;
    /* A wrapper says only where it ends: its first message may lie below the segment that a roll began with it. */
    bool unpacked = *result == OL_CLEAN_REBUILT && batch->magic < 2;
    if (unpacked && ol_load_i64(run->output.data) < copy->next_offset) *result = OL_CLEAN_NOT_COMPRESSED;
    return ol_clean_put_batch(copy, batch, *result, error);
}

/* ------------------------------------------------------------------------------------------------ the end of a group */

/* A pass may end within a batch, or between a value that supersedes and the marker from which on it counts; a run does not. */
static int raise_floor(ol_clean_run *run, ol_error *error) {
    if (run->floor_raised) return OL_OK;
    const ol_clean_options *options = run->options;
    int64_t floor = run->target;
    int status = options->raise_floor == NULL ? OL_OK : options->raise_floor(options->raise_floor_context, floor, error);
    if (status != OL_OK) return status;
    run->floor_raised = true;
    if (floor > run->report->floor) run->report->floor = floor;
    return OL_OK;
}

int ol_clean_swap_in(ol_clean_copier *copy, ol_error *error) {
    ol_clean_run *run = copy->run;
    ol_segment_rewrite *cleaned = copy->cleaned;
    int status = OL_OK;
    for (size_t i = 0; i < copy->aborted_count && status == OL_OK; i++) {
        status = ol_segment_rewrite_append_aborted(cleaned, &copy->aborted[i], error);
    }
    if (status == OL_OK) status = raise_floor(run, error);
    int64_t *bases = status == OL_OK ? malloc(copy->count * sizeof *bases) : NULL;
    if (status == OL_OK && bases == NULL) status = ol_fail(error, OL_NO_MEMORY, "no memory for %zu bases", copy->count);
    if (status != OL_OK) return status;
    for (size_t i = 0; i < copy->count; i++) bases[i] = run->segments[copy->first + i].base_offset;
    copy->cleaned = NULL;
    status = ol_segment_rewrite_swap(cleaned, bases, copy->count, error);
    free(bases);
    if (status == OL_OK && run->options->progress != NULL) run->options->progress->segments_after++;
    if (status != OL_WOULD_BLOCK) return status;
    /* The log was cut, or rolled since the flush: another run will find it as it is. */
    run->report->truncated = ol_log_cuts(run->log) != run->cuts;
    run->ended = true;
    return OL_END;
}
