/* What the cleaner reads: segments, batch by batch, each checked before it is believed; and at what pace. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "ol_clean_internal.h"

enum { NAP_NS = 20 * 1000 * 1000, BURST_NS = 1000 * 1000 * 1000 };

/* ------------------------------------------------------------------------------------------------ pace */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool shall_stop(ol_clean_run *run) {
    if (run->options->stop == NULL || !atomic_load_explicit(run->options->stop, memory_order_relaxed)) return false;
    run->report->stopped = true;
    run->ended = true;
    return true;
}

int ol_clean_pace(ol_clean_run *run, int64_t bytes_read, int64_t bytes_written) {
    run->report->bytes_read += bytes_read;
    run->report->bytes_written += bytes_written;
    if (run->options->progress != NULL) {
        run->options->progress->bytes_read += bytes_read;
        run->options->progress->bytes_written += bytes_written;
    }
    if (shall_stop(run)) return OL_END;
    if (run->options->bytes_per_second <= 0) return OL_OK;
    if (run->pace_start_ns == 0) run->pace_start_ns = now_ns();
    run->pace_bytes += bytes_read + bytes_written;
    double due_ns = (double)run->pace_bytes / (double)run->options->bytes_per_second * 1e9;
    for (;;) {
        double left_ns = due_ns - (double)(now_ns() - run->pace_start_ns);
        if (left_ns <= 0) {
            /* What was not used for long, while the disk was slow, is not made up for in one burst. */
            if (left_ns < -BURST_NS) run->pace_start_ns += (int64_t)(-left_ns) - BURST_NS;
            return OL_OK;
        }
        struct timespec nap = {0, left_ns < NAP_NS ? (long)left_ns + 1 : NAP_NS};
        nanosleep(&nap, NULL);
        if (shall_stop(run)) return OL_END;
    }
}

/* ------------------------------------------------------------------------------------------------ batches */

static bool was_cut(ol_clean_run *run) {
    if (ol_log_cuts(run->log) == run->cuts) return false;
    run->report->truncated = true;
    run->ended = true;
    return true;
}

int ol_clean_source_open(ol_clean_source *source, ol_clean_run *run, const ol_clean_segment *segment, int64_t from,
                         ol_error *error) {
    *source = (ol_clean_source){.run = run, .segment = segment, .next_offset = from};
    if (segment != NULL) {
        source->next_offset = segment->base_offset;
        if (from < segment->base_offset) from = segment->base_offset;
    }
    int status = ol_log_reader_open(run->log, from, &source->reader, error);
    return status == OL_OUT_OF_RANGE && was_cut(run) ? OL_END : status;
}

void ol_clean_source_close(ol_clean_source *source) {
    if (source->reader != NULL) ol_log_reader_close(source->reader);
    source->reader = NULL;
}

int ol_clean_source_next_piece(ol_clean_source *source, bool *done, ol_error *error) {
    const ol_clean_segment *segment = source->segment;
    ol_clean_run *run = source->run;
    *done = segment != NULL && source->read_to >= segment->size;
    if (*done) return OL_OK;
    int status = ol_log_reader_next(source->reader, OL_CLEAN_PIECE_BYTES, &source->piece, error);
    if (was_cut(run)) return OL_END;
    *done = status == OL_END || (status == OL_OK && segment != NULL && source->piece.segment_base != segment->base_offset);
    if (*done) return OL_OK;
    if (status != OL_OK) return status;
    source->position = 0;
    source->read_to = source->piece.position + (int64_t)source->piece.size;
    return ol_clean_pace(run, (int64_t)source->piece.size, 0);
}

int ol_clean_source_blame(const ol_clean_source *source, const ol_batch *batch, ol_error *error) {
    if (error->offset < 0) error->offset = batch->base_offset;
    return ol_error_at(error, source->piece.path, source->piece.position + (batch->data - source->piece.data));
}

static OL_NOINLINE int refuse_offsets(const ol_clean_source *source, const ol_batch *batch, ol_error *error) {
    ol_fail(error, OL_CORRUPT, "the offsets %" PRId64 " to %" PRId64 " of the batch are not above those before it, or not of this segment",
            batch->base_offset, batch->last_offset);
    return ol_clean_source_blame(source, batch, error);
}

int ol_clean_source_next_batch(ol_clean_source *source, ol_batch *batch, bool *done, ol_error *error) {
    const ol_log_piece *piece = &source->piece;
    *done = source->position >= piece->size;
    if (*done) return OL_OK;
    int status = ol_batch_parse(piece->data + source->position, piece->size - source->position, batch, error);
    if (OL_LIKELY(status == OL_OK)) status = ol_batch_check_crc(batch, error);
    if (OL_UNLIKELY(status != OL_OK)) {
        error->offset = source->next_offset;
        return ol_error_at(error, piece->path, piece->position + (int64_t)source->position);
    }
    /* No checksum covers the base offset. */
    int64_t limit = source->segment != NULL ? source->segment->next_base : INT64_MAX;
    if (OL_UNLIKELY((batch->base_offset < source->next_offset && source->segment != NULL) || batch->last_offset >= limit ||
                    batch->last_offset - piece->segment_base > INT32_MAX)) {
        *done = batch->last_offset >= limit && source->segment != NULL && source->segment->is_open;
        if (!*done) return refuse_offsets(source, batch, error);
        source->read_to = INT64_MAX;
        return OL_OK;
    }
    source->next_offset = batch->last_offset + 1;
    source->position += batch->size;
    return OL_OK;
}

/* ------------------------------------------------------------------------------------------------ segments */

static int add_segment(ol_clean_run *run, ol_clean_segment segment, ol_error *error) {
    if (run->segment_count == run->segment_capacity) {
        size_t capacity = run->segment_capacity == 0 ? 16 : run->segment_capacity * 2;
        ol_clean_segment *segments = realloc(run->segments, capacity * sizeof *segments);
        if (segments == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a list of %zu segments", capacity);
        run->segments = segments;
        run->segment_capacity = capacity;
    }
    for (size_t i = 0; i < run->quarantined_count; i++) segment.quarantined |= run->quarantined[i] == segment.base_offset;
    run->segments[run->segment_count++] = segment;
    return OL_OK;
}

int ol_clean_list_segments(ol_clean_run *run, bool first, ol_error *error) {
    ol_log_segment_info info, next;
    run->segment_count = 0;
    int64_t limit = first ? run->limit : run->target;
    int64_t target = limit;
    const ol_clean_sink *sink = run->options->sink;
    bool there = ol_log_segment_at(run->log, 0, &info);
    for (size_t i = 1; there; i++) {
        target = info.base_offset;
        there = ol_log_segment_at(run->log, i, &next);
        if (!there || info.active || next.base_offset > limit || next.base_offset <= info.base_offset) {
            if (sink == NULL || !sink->takes_active || limit <= target) break;
            there = false;
            next.base_offset = limit;
        }
        ol_clean_segment segment = {.base_offset = info.base_offset, .next_base = next.base_offset, .size = info.size,
                                    .is_open = !there};
        int status = add_segment(run, segment, error);
        if (status != OL_OK) return status;
        target = next.base_offset;
        info = next;
    }
    if (first) run->target = target;
    return was_cut(run) ? OL_END : OL_OK;
}

static int remember_quarantine(ol_clean_run *run, int64_t base_offset, ol_error *error) {
    if (run->quarantined_count == run->quarantined_capacity) {
        size_t capacity = run->quarantined_capacity == 0 ? 16 : run->quarantined_capacity * 2;
        int64_t *bases = realloc(run->quarantined, capacity * sizeof *bases);
        if (bases == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a list of %zu segments", capacity);
        run->quarantined = bases;
        run->quarantined_capacity = capacity;
    }
    run->quarantined[run->quarantined_count++] = base_offset;
    return OL_OK;
}

int ol_clean_quarantine_segment(ol_clean_run *run, ol_clean_segment *segment, const ol_error *damage, ol_error *error) {
    if (was_cut(run)) return OL_END;
    OL_ASSERT(!segment->quarantined);
    ol_error found = *damage;       /* may be the same memory as *error */
    int status = remember_quarantine(run, segment->base_offset, error);
    if (status != OL_OK) return status;
    segment->quarantined = true;
    if (segment->base_offset < run->marker_block) run->marker_block = segment->base_offset;
    if (segment->base_offset < run->tombstone_block) run->tombstone_block = segment->base_offset;
    ol_clean_report *report = run->report;
    if (report->quarantined < OL_CLEAN_QUARANTINE_KEPT) {
        report->quarantine[report->quarantined] = (ol_clean_quarantine){segment->base_offset, found};
    }
    report->quarantined++;
    return OL_OK;
}

/* ------------------------------------------------------------------------------------------------ magic 0 and 1 */

/* Files of old messages have no delete horizon: what counts is how old the newest file is that was clean before (spec §8.3). */
static void find_legacy_horizon(ol_clean_run *run) {
    ol_log_segment_files files;
    ol_error ignored;
    run->legacy_horizon_known = true;
    run->legacy_horizon_ms = INT64_MIN;
    for (size_t i = run->segment_count; i > 0; i--) {
        int64_t base_offset = run->segments[i - 1].base_offset;
        if (base_offset >= run->first_dirty) continue;
        if (ol_log_segment_files_at(run->log, base_offset, &files, &ignored) == OL_OK) {
            run->legacy_horizon_ms = files.modified_ms - run->options->delete_retention_ms;
        }
        return;
    }
}

bool ol_clean_legacy_may_go(ol_clean_run *run, ol_clean_segment *segment) {
    if (!run->legacy_horizon_known) find_legacy_horizon(run);
    if (!segment->legacy_known) {
        ol_log_segment_files files;
        ol_error ignored;
        segment->legacy_known = true;
        segment->legacy_may_go = run->legacy_horizon_ms != INT64_MIN &&
                                 ol_log_segment_files_at(run->log, segment->base_offset, &files, &ignored) == OL_OK &&
                                 files.modified_ms <= run->legacy_horizon_ms;
    }
    return segment->legacy_may_go;
}
