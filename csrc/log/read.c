/* Reads for callers that send batches to others: into their buffer, or as a range of a file. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "format/batch.h"
#include "log/log_impl.h"

static int check_range(const ol_log *log, int64_t offset, ol_error *error) {
    int64_t start = ol_log_start(log), end = ol_log_end(log);
    if (offset >= start && offset <= end) return OL_OK;
    (void)ol_fail(error, OL_OUT_OF_RANGE, "offset %lld is not in the log, which holds %lld to %lld",
                  (long long)offset, (long long)start, (long long)end);
    error->offset = offset;
    return OL_OUT_OF_RANGE;
}

/* If the log start has moved past the offset since, the batch that was found may be far above. */
static int check_start(const ol_log *log, int64_t offset, ol_error *error) {
    return offset < ol_log_start(log) ? check_range(log, offset, error) : OL_OK;
}

/* Returns the size of the whole batches whose records are all below `end`; *next is the position
 * after them. */
static size_t below(const uint8_t *data, size_t size, int64_t end, int64_t *next) {
    size_t total = 0;
    while (total < size) {
        ol_batch batch;
        ol_error ignored;
        if (ol_batch_parse(data + total, size - total, &batch, &ignored) != OL_OK) break;
        if (ol_batch_next_offset(&batch) > end) break;
        *next = ol_batch_next_offset(&batch);
        total += batch.size;
    }
    return total;
}

static bool is_active(ol_log *log, int64_t segment_base) {
    ol_segment *next = ol_log_next_segment(log, segment_base);
    if (next != NULL) ol_segment_release(next);
    return next == NULL;
}

/* A follower continues where its last read ended.  The remembered position is valid only in the
 * active segment, which no cleaner replaces, and only until a truncation. */
static void use_hint(ol_log *log, ol_log_reader *reader, int64_t offset) {
    pthread_mutex_lock(&log->read.lock);
    int64_t segment_base = log->read.segment_base, position = log->read.position;
    bool is_known = log->read.offset == offset && log->read.cuts == ol_log_cuts(log);
    pthread_mutex_unlock(&log->read.lock);
    if (is_known && is_active(log, segment_base)) {
        ol_log_reader_hint(reader, segment_base, position);
    }
}

static void keep_hint(ol_log *log, const ol_log_piece *piece, size_t size, int64_t next,
                      uint64_t cuts) {
    pthread_mutex_lock(&log->read.lock);
    log->read.segment_base = piece->segment_base;
    log->read.position = piece->position + (int64_t)size;
    log->read.offset = next;
    log->read.cuts = cuts;
    pthread_mutex_unlock(&log->read.lock);
}

int ol_log_read(ol_log *log, int64_t offset, int64_t end, uint8_t *buffer, size_t capacity,
                size_t *size, ol_error *error) {
    *size = 0;
    if (capacity < OL_BATCH_OVERHEAD) {
        return ol_fail(error, OL_INVALID,
                       "the buffer has %zu bytes, fewer than the smallest possible batch",
                       capacity);
    }
    int status = check_range(log, offset, error);
    if (status != OL_OK || offset >= end || offset == ol_log_end(log)) return status;
    uint64_t cuts = ol_log_cuts(log);
    ol_log_reader *reader;
    status = ol_log_reader_open(log, offset, &reader, error);
    if (status != OL_OK) return status;
    ol_log_reader_lend(reader, buffer, capacity);
    use_hint(log, reader, offset);
    ol_log_piece piece;
    status = ol_log_reader_next(reader, capacity, &piece, error);
    if (status == OL_OK) {
        int64_t next = offset;
        *size = below(piece.data, piece.size, end, &next);
        if (piece.data != buffer) memmove(buffer, piece.data, *size);
        if (*size > 0) keep_hint(log, &piece, *size, next, cuts);
    }
    ol_log_reader_close(reader);
    if (status != OL_OK && status != OL_END) return status;
    status = check_start(log, offset, error);
    if (status != OL_OK) *size = 0;
    return status;
}

static int locate(ol_log *log, int64_t offset, ol_log_place *place, char path[OL_ERROR_PATH_MAX],
                  ol_error *error) {
    ol_log_reader *reader;
    int status = ol_log_reader_open(log, offset, &reader, error);
    if (status != OL_OK) return status;
    status = ol_log_reader_locate(reader, place, error);
    if (status == OL_OK) snprintf(path, OL_ERROR_PATH_MAX, "%s", place->path);
    ol_log_reader_close(reader);
    return status;
}

int ol_log_file_range(ol_log *log, int64_t offset, int64_t end, size_t size_max,
                      ol_file_range *range, ol_error *error) {
    char ignored[OL_ERROR_PATH_MAX];
    ol_log_place first, last;
    *range = (ol_file_range){.size = 0};
    int status = check_range(log, offset, error);
    if (status != OL_OK || offset >= end || offset == ol_log_end(log)) return status;
    status = locate(log, offset, &first, range->path, error);
    if (status != OL_OK) return status == OL_END ? OL_OK : status;
    int64_t size = first.available;
    /* Needed at the log end, too: another batch may have been appended there since. */
    status = locate(log, end, &last, ignored, error);
    if (status == OL_OK && last.segment_base == first.segment_base) {
        size = last.position - first.position;
        if (size <= 0) return OL_OK;        /* the first batch reaches above the end */
    }
    if (status != OL_OK && status != OL_END) return status;
    if (size > (int64_t)size_max) size = (int64_t)size_max;
    if (size < (int64_t)first.batch_size) size = (int64_t)first.batch_size;
    if (first.batch_size == 0 || size > first.available) size = 0;
    range->position = first.position;
    range->size = (size_t)size;
    return check_start(log, offset, error);
}
