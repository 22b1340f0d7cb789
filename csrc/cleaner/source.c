/* Lists the segments, reads them batch by batch, and quarantines damaged ones.  It checks each
 * batch before its content is used, and keeps to the rate limit. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/pages.h"
#include "cleaner/cleaner_impl.h"
#include "log/segment.h"

enum {
    NAP_NS = 20 * 1000 * 1000,
    BURST_NS = 1000 * 1000 * 1000,
};

/* ----------------------------------------------------------------------------------------- pace */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool shall_stop(ol_clean_course *course) {
    const _Atomic bool *stop = course->scope->options.stop;
    if (stop == NULL || !atomic_load_explicit(stop, memory_order_relaxed)) return false;
    course->report->stopped = true;
    course->has_ended = true;
    return true;
}

int ol_clean_pace(ol_clean_course *course, int64_t bytes_read, int64_t bytes_written) {
    const ol_clean_options *options = &course->scope->options;
    course->report->bytes_read += bytes_read;
    course->report->bytes_written += bytes_written;
    if (options->progress != NULL) {
        options->progress->bytes_read += bytes_read;
        options->progress->bytes_written += bytes_written;
    }
    if (shall_stop(course)) return OL_END;
    if (options->bytes_per_second <= 0) return OL_OK;
    if (course->start_ns == 0) course->start_ns = now_ns();
    course->bytes += bytes_read + bytes_written;
    double due_ns = (double)course->bytes / (double)options->bytes_per_second * 1e9;
    for (;;) {
        double left_ns = due_ns - (double)(now_ns() - course->start_ns);
        if (left_ns <= 0) {
            /* After the disk was slow for a time, the run does not catch up in one burst. */
            if (left_ns < -BURST_NS) course->start_ns += (int64_t)(-left_ns) - BURST_NS;
            return OL_OK;
        }
        struct timespec nap = {0, left_ns < NAP_NS ? (long)left_ns + 1 : NAP_NS};
        nanosleep(&nap, NULL);
        if (shall_stop(course)) return OL_END;
    }
}

/* -------------------------------------------------------------------------------------- batches */

bool ol_clean_was_cut(ol_clean_course *course) {
    if (ol_log_cuts(course->scope->log) == course->scope->cuts) return false;
    course->report->truncated = true;
    course->has_ended = true;
    return true;
}

/* In a log that this process writes, only closed segments are read, each from its file.  A log that
 * another process writes is read through ol_log_reader. */
static int open_file(ol_clean_source *source, ol_error *error) {
    const ol_log_options *log = source->course->scope->log_options;
    int status = ol_segment_path(source->path, sizeof source->path, log->directory,
                                 source->segment->base_offset, ".log", error);
    if (status == OL_OK) {
        status = log->fs->open(log->fs, source->path, OL_OPEN_READ, &source->file, error);
    }
    source->piece.path = source->path;
    return status;
}

int ol_clean_source_open(ol_clean_source *source, ol_clean_course *course,
                         const ol_clean_segment *segment, int64_t from, ol_error *error) {
    ol_log *log = course->scope->log;
    source->course = course;
    source->segment = segment;
    source->reader = NULL;
    source->file = NULL;
    source->buffer = NULL;
    source->capacity = source->position = source->wanted = 0;
    source->piece = (ol_log_piece){.segment_base = segment->base_offset};
    source->bounds = (ol_batch_bounds){.next_offset = segment->base_offset, .has_previous = true};
    ol_batch_bounds_enter(&source->bounds, segment->base_offset, segment->next_base);
    source->tally = (ol_clean_tally){0};
    source->read_to = 0;
    if (from < segment->base_offset) from = segment->base_offset;
    int status = ol_log_is_writable(log) ? open_file(source, error)
                                         : ol_log_reader_open(log, from, &source->reader, error);
    return status != OL_OK && ol_clean_was_cut(course) ? OL_END : status;
}

void ol_clean_source_close(ol_clean_source *source) {
    if (source->reader != NULL) ol_log_reader_close(source->reader);
    if (source->file != NULL) source->course->scope->log_options->fs->close(source->file);
    ol_pages_free(source->buffer, source->capacity);
    source->reader = NULL;
    source->file = NULL;
    source->buffer = NULL;
}

static int make_room(ol_clean_source *source, size_t size, ol_error *error) {
    if (size <= source->capacity) return OL_OK;
    uint8_t *buffer = ol_pages_allocate(size);
    if (buffer == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to read %zu bytes", size);
    ol_pages_free(source->buffer, source->capacity);
    source->buffer = buffer;
    source->capacity = size;
    return OL_OK;
}

static int fail_at(const ol_clean_source *source, int64_t position, const char *reason,
                   int64_t number, ol_error *error) {
    (void)ol_fail(error, OL_CORRUPT, "%s (%" PRId64 ")", reason, number);
    error->offset = source->bounds.next_offset;
    return ol_error_at(error, source->path, position);
}

/* Reads the next piece, which begins after the last whole batch. */
static int read_piece(ol_clean_source *source, ol_error *error) {
    int64_t position = source->piece.position + (int64_t)source->position,
            left = source->segment->size - position;
    size_t size = source->wanted > OL_CLEAN_PIECE_BYTES ? source->wanted : OL_CLEAN_PIECE_BYTES,
           got = 0;
    if ((int64_t)source->wanted > left) {
        return fail_at(source, position,
                       "a batch extends beyond the end of its segment", left, error);
    }
    int status = make_room(source, size, error);
    if (status != OL_OK) return status;
    if ((int64_t)size > left) size = (size_t)left;
    status = source->course->scope->log_options->fs->read(source->file, position, source->buffer,
                                                          size, &got, error);
    if (status == OL_IO) error->offset = source->bounds.next_offset;
    if (status != OL_OK) return status;
    if (got < size) {
        return fail_at(source, position + (int64_t)got, "the file is shorter than its segment",
                       source->segment->size, error);
    }
    source->piece.data = source->buffer;
    source->piece.size = size;
    source->piece.position = position;
    return OL_OK;
}

int ol_clean_source_next_piece(ol_clean_source *source, bool *done, ol_error *error) {
    const ol_clean_segment *segment = source->segment;
    /* A segment that another process appends to may have grown since it was listed. */
    *done = source->read_to >=
            (segment->is_open && source->file == NULL ? INT64_MAX : segment->size);
    if (*done) return OL_OK;
    int status = source->file != NULL ? read_piece(source, error)
                                      : ol_log_reader_next(source->reader, OL_CLEAN_PIECE_BYTES,
                                                           &source->piece, error);
    if (ol_clean_was_cut(source->course)) return OL_END;
    /* One bad sector must not stop all cleaning. */
    if (status == OL_IO && error->position >= 0) return OL_CORRUPT;
    *done = status == OL_END ||
            (status == OL_OK && source->piece.segment_base != segment->base_offset);
    if (*done) return OL_OK;
    if (status != OL_OK) return status;
    source->position = source->wanted = 0;
    source->read_to = source->piece.position + (int64_t)source->piece.size;
    return ol_clean_pace(source->course, (int64_t)source->piece.size, 0);
}

/* The piece ends within a batch: the next piece begins with that batch. */
static bool ends_piece(ol_clean_source *source, const ol_batch *batch) {
    if (source->file == NULL || source->read_to >= source->segment->size) return false;
    source->wanted = batch->size > 0 ? batch->size : OL_BATCH_OVERHEAD;
    source->read_to = source->piece.position + (int64_t)source->position;
    return true;
}

int ol_clean_source_blame(const ol_clean_source *source, const ol_batch *batch, ol_error *error) {
    if (error->offset < 0) error->offset = batch->base_offset;
    return ol_error_at(error, source->piece.path,
                       source->piece.position + (batch->data - source->piece.data));
}

static OL_NOINLINE int refuse_offsets(const ol_clean_source *source, const ol_batch *batch,
                                      ol_error *error) {
    ol_fail(error, OL_CORRUPT,
            "the offsets %" PRId64 " to %" PRId64
            " of the batch are not above those of the batch before, or outside the segment",
            batch->base_offset, batch->last_offset);
    return ol_clean_source_blame(source, batch, error);
}

static OL_NOINLINE int refuse_batch(const ol_clean_source *source, const ol_batch *batch,
                                    ol_error *error) {
    error->offset = source->bounds.next_offset;
    return ol_error_at(error, source->piece.path,
                       source->piece.position + (batch->data - source->piece.data));
}

int ol_clean_source_next_unchecked(ol_clean_source *source, ol_batch *batch, bool *done,
                                   ol_error *error) {
    const ol_log_piece *piece = &source->piece;
    *done = source->position >= piece->size;
    if (*done) return OL_OK;
    int status = ol_batch_parse(piece->data + source->position, piece->size - source->position,
                                batch, error);
    if (OL_UNLIKELY(status != OL_OK)) {
        *done = status == OL_TORN && ends_piece(source, batch);
        if (*done) return OL_OK;
        batch->data = piece->data + source->position;
        return refuse_batch(source, batch, error);
    }
    /* No checksum covers the base offset. */
    const ol_clean_segment *segment = source->segment;
    if (OL_UNLIKELY(!ol_batch_is_in_bounds(&source->bounds, batch))) {
        status = ol_clean_source_check(source, batch, error);
        *done = status == OL_OK && batch->last_offset >= segment->next_base && segment->is_open;
        if (!*done) return status != OL_OK ? status : refuse_offsets(source, batch, error);
        source->read_to = INT64_MAX;
        return OL_OK;
    }
    source->bounds.next_offset = batch->last_offset + 1;
    source->position += batch->size;
    source->tally.batches++;
    source->tally.base_offsets += (uint64_t)batch->base_offset;
    return OL_OK;
}

int ol_clean_source_check(const ol_clean_source *source, const ol_batch *batch, ol_error *error) {
    int status = ol_batch_check_crc(batch, error);
    if (OL_LIKELY(status == OL_OK)) return OL_OK;
    (void)refuse_batch(source, batch, error);
    /* If this batch was returned before, the bounds are already after it. */
    bool was_given = batch->data < source->piece.data + source->position;
    if (was_given) error->offset = batch->base_offset;
    return status;
}

/* Returns the size of a batch of one plain record, or 0 for any other. */
static inline size_t plain_size(const uint8_t *data, size_t left) {
    if (left < OL_BATCH_OVERHEAD || data[OL_BATCH_AT_MAGIC] != 2 ||
        ol_load_i32(data + OL_BATCH_AT_RECORD_COUNT) != 1) {
        return 0;
    }
    if (ol_load_u16(data + OL_BATCH_AT_ATTRIBUTES) != 0 ||
        ol_load_i64(data + OL_BATCH_AT_PRODUCER_ID) >= 0) {
        return 0;
    }
    uint32_t length = ol_load_u32(data + OL_BATCH_AT_LENGTH);
    if (length < OL_BATCH_OVERHEAD - OL_BATCH_LOG_OVERHEAD ||
        length > left - OL_BATCH_LOG_OVERHEAD) {
        return 0;
    }
    return ol_load_u32(data + OL_BATCH_AT_LAST_OFFSET_DELTA) == 0
               ? (size_t)length + OL_BATCH_LOG_OVERHEAD
               : 0;
}

int64_t ol_clean_source_skip_gone(ol_clean_source *source, const ol_clean_superseded *superseded,
                                  int64_t *bytes) {
    const ol_log_piece *piece = &source->piece;
    size_t position = source->position;
    int64_t next_offset = source->bounds.next_offset, count = 0;
    *bytes = 0;
    if (!source->segment->is_tallied) return 0;
    while (position < piece->size) {
        const uint8_t *data = piece->data + position;
        size_t size = plain_size(data, piece->size - position);
        if (size == 0) break;
        int64_t offset = ol_load_i64(data + OL_BATCH_AT_BASE_OFFSET);
        if (offset < next_offset || offset > source->bounds.offset_max ||
            !ol_clean_superseded_is_gone(superseded, offset)) {
            break;
        }
        next_offset = offset + 1;
        source->tally.base_offsets += (uint64_t)offset;
        position += size;
        count++;
    }
    *bytes = (int64_t)(position - source->position);
    source->position = position;
    source->bounds.next_offset = next_offset;
    source->tally.batches += count;
    return count;
}

int ol_clean_source_check_tally(const ol_clean_source *source, ol_error *error) {
    const ol_clean_segment *segment = source->segment;
    const ol_clean_tally *then = &segment->tally, *now = &source->tally;
    if (!segment->is_tallied ||
        (then->batches == now->batches && then->base_offsets == now->base_offsets)) {
        return OL_OK;
    }
    return fail_at(source, 0, "the segment held other batches when its keys were read",
                   then->batches, error);
}

int ol_clean_source_next_batch(ol_clean_source *source, ol_batch *batch, bool *done,
                               ol_error *error) {
    int64_t next_offset = source->bounds.next_offset;
    int status = ol_clean_source_next_unchecked(source, batch, done, error);
    if (OL_UNLIKELY(status != OL_OK || *done)) return status;
    status = ol_batch_check_crc(batch, error);
    if (OL_LIKELY(status == OL_OK)) return OL_OK;
    source->bounds.next_offset = next_offset;
    return refuse_batch(source, batch, error);
}

/* ------------------------------------------------------------------------------------- segments */

static int add_segment(ol_clean_segments *segments, ol_clean_segment segment, ol_error *error) {
    if (segments->count == segments->capacity) {
        size_t capacity = segments->capacity == 0 ? 16 : segments->capacity * 2;
        ol_clean_segment *items = realloc(segments->items, capacity * sizeof *items);
        if (items == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory for a list of %zu segments", capacity);
        }
        segments->items = items;
        segments->capacity = capacity;
    }
    const ol_clean_damaged *damaged = &segments->damaged;
    for (size_t i = 0; i < damaged->count; i++) {
        segment.quarantined |= damaged->bases[i] == segment.base_offset;
    }
    segments->items[segments->count++] = segment;
    return OL_OK;
}

int ol_clean_list_segments(ol_clean_course *course, ol_clean_segments *segments, int64_t limit,
                           ol_error *error) {
    ol_log *log = course->scope->log;
    const ol_clean_sink *sink = course->scope->options.sink;
    ol_log_segment_info info, next;
    segments->count = 0;
    segments->end = limit;
    segments->legacy_horizon_known = false;
    bool there = ol_log_segment_at(log, 0, &info);
    for (size_t i = 1; there; i++) {
        segments->end = info.base_offset;
        there = ol_log_segment_at(log, i, &next);
        if (!there || info.active || next.base_offset > limit ||
            next.base_offset <= info.base_offset) {
            if (sink == NULL || !sink->takes_active || limit <= segments->end) break;
            there = false;
            next.base_offset = limit;
        }
        ol_clean_segment segment = {.base_offset = info.base_offset,
                                    .next_base = next.base_offset,
                                    .size = info.size,
                                    .is_open = !there};
        int status = add_segment(segments, segment, error);
        if (status != OL_OK) return status;
        segments->end = next.base_offset;
        info = next;
    }
    return ol_clean_was_cut(course) ? OL_END : OL_OK;
}

static int add_damaged(ol_clean_damaged *damaged, int64_t base_offset, ol_error *error) {
    if (damaged->count == damaged->capacity) {
        size_t capacity = damaged->capacity == 0 ? 16 : damaged->capacity * 2;
        int64_t *bases = realloc(damaged->bases, capacity * sizeof *bases);
        if (bases == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory for a list of %zu segments", capacity);
        }
        damaged->bases = bases;
        damaged->capacity = capacity;
    }
    damaged->bases[damaged->count++] = base_offset;
    return OL_OK;
}

int ol_clean_quarantine_segment(ol_clean_course *course, ol_clean_segments *segments,
                                ol_clean_segment *segment, const ol_error *damage,
                                ol_error *error) {
    if (ol_clean_was_cut(course)) return OL_END;
    OL_ASSERT(!segment->quarantined);
    ol_clean_damaged *damaged = &segments->damaged;
    ol_clean_report *report = course->report;
    ol_error found = *damage;       /* it may be the same memory as *error */
    int status = add_damaged(damaged, segment->base_offset, error);
    if (status != OL_OK) return status;
    segment->quarantined = true;
    if (segment->base_offset < damaged->marker_block) damaged->marker_block = segment->base_offset;
    ol_clean_block_tombstones(segments, segment->base_offset);
    if (report->quarantined < OL_CLEAN_QUARANTINE_KEPT) {
        report->quarantine[report->quarantined] = (ol_clean_quarantine){segment->base_offset,
                                                                        found};
    }
    report->quarantined++;
    return OL_OK;
}

/* -------------------------------------------------------------------------------- magic 0 and 1 */

/* Old message formats have no delete horizon.  Instead, the age of the file counts, compared with
 * that of the newest file that was clean before this pass (docs/format/cleaner.md §8.3). */
static void find_legacy_horizon(const ol_clean_scope *scope, ol_clean_segments *segments) {
    ol_log_segment_files files;
    ol_error ignored;
    segments->legacy_horizon_known = true;
    segments->legacy_horizon_ms = INT64_MIN;
    for (size_t i = segments->count; i > 0; i--) {
        int64_t base_offset = segments->items[i - 1].base_offset;
        if (base_offset >= segments->first_dirty) continue;
        if (ol_log_segment_files_at(scope->log, base_offset, &files, &ignored) == OL_OK) {
            segments->legacy_horizon_ms = files.modified_ms - scope->options.delete_retention_ms;
        }
        return;
    }
}

bool ol_clean_legacy_may_go(const ol_clean_scope *scope, ol_clean_segments *segments,
                            ol_clean_segment *segment) {
    if (!segments->legacy_horizon_known) find_legacy_horizon(scope, segments);
    if (!segment->legacy_known) {
        ol_log_segment_files files;
        ol_error ignored;
        segment->legacy_known = true;
        segment->legacy_may_go = segments->legacy_horizon_ms != INT64_MIN &&
                                 ol_log_segment_files_at(scope->log, segment->base_offset, &files,
                                                         &ignored) == OL_OK &&
                                 files.modified_ms <= segments->legacy_horizon_ms;
    }
    return segment->legacy_may_go;
}
