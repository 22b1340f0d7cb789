/* Reads a log upwards in pieces of whole batches.
 *
 * Every piece is read with pread into the reader's buffer.  If this process writes the log, the
 * writer publishes the sizes up to which the reader may read, and a segment that was replaced or
 * truncated stays readable while the reader uses it.  A read-only log is read to the ends of its
 * files: another process extends and rolls them, and may shorten or remove them.  A reader
 * remembers an offset.  It keeps file positions only for the segment object that it uses. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/pages.h"
#include "log/batch_rules.h"
#include "log/file_scan.h"
#include "log/log_impl.h"

/* A piece stays in the cache between reading and checking.  The first pieces are small, because
 * many readers need only a few batches. */
enum {
    READER_TRIES = 3,
    WALK_AHEAD = 2048,
    FIRST_READ_BYTES = 64 << 10,
    SEARCH_READ_BYTES = 16 << 10,       /* more than there is between two entries of an index */
};

struct ol_log_reader {
    ol_log *log;
    int64_t offset;             /* everything below was returned */
    ol_segment *segment;        /* in use; NULL: to be found by offset */
    int64_t position;           /* of the next piece, in the segment */
    bool positioned;  /* false: `position` came from an index and is at or before the offset */
    ol_file *file;              /* of the segment */
    bool shared;                /* the file is the segment's, not the reader's own */
    uint8_t *buffer;            /* the last bytes that were read */
    size_t capacity;
    bool is_lent;               /* the buffer is the caller's */
    size_t buffered;
    int64_t buffer_position;
    size_t read_bytes;          /* of the next piece, doubled with each one */
    bool was_followed;          /* another segment already followed this one when the reader last
                                   checked for more */
    int tries;
    int64_t hint_base;          /* a batch at or before `offset` starts at `hint` in this segment */
    int64_t hint;
    int64_t search_budget;      /* remaining budget for all searches of this reader
                                   (log/file_scan.h) */
    char *path;
};

int ol_log_reader_open(ol_log *log, int64_t offset, ol_log_reader **reader, ol_error *error) {
    if (offset < 0 || (log->writable && offset > ol_log_end(log))) {
        return ol_fail(error, OL_OUT_OF_RANGE, "offset %lld is not in the log, which ends at %lld",
                       (long long)offset, (long long)ol_log_end(log));
    }
    ol_log_reader *created = calloc(1, sizeof *created);
    if (created == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a reader");
    created->log = log;
    created->offset = offset;
    created->read_bytes = FIRST_READ_BYTES;
    created->search_budget = OL_FILE_SCAN_BUDGET;
    *reader = created;
    return OL_OK;
}

static void leave_segment(ol_log_reader *reader) {
    if (reader->segment == NULL) return;
    if (!reader->shared) reader->log->fs->close(reader->file);
    ol_segment_unuse(reader->segment);
    reader->file = NULL;
    reader->segment = NULL;
}

void ol_log_reader_close(ol_log_reader *reader) {
    leave_segment(reader);
    if (!reader->is_lent) ol_pages_free(reader->buffer, reader->capacity);
    free(reader->path);
    free(reader);
}

void ol_log_reader_lend(ol_log_reader *reader, uint8_t *buffer, size_t capacity) {
    OL_ASSERT(reader->buffer == NULL && capacity >= OL_BATCH_OVERHEAD);
    reader->buffer = buffer;
    reader->capacity = reader->read_bytes = capacity;
    reader->is_lent = true;
}

/* Takes over the caller's reference to the segment, and moves to `position` in it. */
static int enter_segment(ol_log_reader *reader, ol_segment *segment, int64_t position,
                         bool positioned, ol_error *error) {
    reader->was_followed = false;
    free(reader->path);
    reader->path = strdup(segment->path);
    bool used = ol_segment_use(segment);
    ol_segment_release(segment);
    if (!used) return OL_WOULD_BLOCK;
    int status = reader->path == NULL
                     ? ol_fail(error, OL_NO_MEMORY, "no memory for a reader")
                     : ol_segment_open_file(segment, &reader->file, &reader->shared, error);
    if (status != OL_OK) {
        bool replaced = status == OL_NO_SUCH_FILE && atomic_load(&segment->detached);
        ol_segment_unuse(segment);
        return replaced ? OL_WOULD_BLOCK : status;
    }
    reader->segment = segment;
    reader->position = position;
    reader->positioned = positioned;
    reader->buffered = 0;
    return OL_OK;
}

int64_t ol_log_reader_offset(const ol_log_reader *reader) { return reader->offset; }

/* ------------------------------------------------------------ bytes */

static int make_room(ol_log_reader *reader, size_t size, ol_error *error) {
    if (size <= reader->capacity) return OL_OK;
    if (reader->is_lent) {
        return ol_fail(error, OL_TOO_LARGE, "a batch needs %zu bytes, but the buffer has %zu", size,
                       reader->capacity);
    }
    uint8_t *buffer = ol_pages_allocate(size);
    if (buffer == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to read %zu bytes", size);
    ol_pages_free(reader->buffer, reader->capacity);
    reader->buffer = buffer;
    reader->capacity = size;
    reader->buffered = 0;
    return OL_OK;
}

/* Fills the buffer from `position` on, with `wanted` bytes if the file has them.  After OL_IO it
 * holds what comes before the bytes that the disk cannot read. */
static int fill(ol_log_reader *reader, int64_t position, size_t wanted, ol_error *error) {
    int status = make_room(reader, wanted, error);
    if (status != OL_OK) return status;
    reader->buffer_position = position;
    reader->buffered = 0;
    return reader->log->fs->read(reader->file, position, reader->buffer, wanted, &reader->buffered,
                                 error);
}

/* Returns the size of the batch at data[0] by its length field, or 0 if the header cannot be right.
 * Used only to walk: the caller checks the bytes. */
static size_t batch_size_at(const uint8_t *data, size_t got) {
    if (got < OL_BATCH_MAGIC_END) return 0;
    int64_t length = ol_load_i32(data + OL_BATCH_AT_LENGTH);
    int magic = (int8_t)data[OL_BATCH_AT_MAGIC];
    int64_t length_min = magic == 2 ? OL_BATCH_OVERHEAD - OL_BATCH_LOG_OVERHEAD
                                    : OL_BATCH_MINIMUM_LENGTH;
    if (magic < 0 || magic > 2 || length < length_min) return 0;
    return (size_t)length + OL_BATCH_LOG_OVERHEAD;
}

/* Returns the offset after the batch at data[0], whose size was found right. */
static int64_t next_offset_at(const uint8_t *data) {
    uint64_t next = (uint64_t)ol_load_i64(data) + 1;
    if (data[OL_BATCH_AT_MAGIC] == 2) {
        next += (uint64_t)(int64_t)ol_load_i32(data + OL_BATCH_AT_LAST_OFFSET_DELTA);
    }
    return (int64_t)next;
}

static int fail_at(ol_log_reader *reader, int64_t position, const char *reason, ol_error *error) {
    (void)ol_fail(error, OL_CORRUPT, "%s", reason);
    error->offset = reader->offset;
    return ol_error_at(error, reader->path, position);
}

/* Reports that the batch at the reader's position cannot be read; the caller may continue after
 * it. */
static int blame(ol_log_reader *reader, int status, ol_error *error) {
    if (status != OL_IO) return status;
    error->offset = reader->offset;
    return ol_error_at(error, reader->path, reader->position);
}

/* ------------------------------------------------------------ finding the place */

/* Sets *data and *got to the bytes that the buffer holds at `position`: enough for a header if the
 * segment has one there. */
static int header_at(ol_log_reader *reader, int64_t position, const uint8_t **data, size_t *got,
                     ol_error *error) {
    int64_t buffered_end = reader->buffer_position + (int64_t)reader->buffered;
    int status = OL_OK;
    *data = NULL;
    *got = 0;
    if (position < reader->buffer_position || position + OL_BATCH_OVERHEAD > buffered_end) {
        int64_t size = atomic_load_explicit(&reader->segment->size, memory_order_acquire);
        int64_t left = reader->log->writable ? size - position : INT64_MAX;
        if (left <= 0) return OL_OK;
        size_t wanted = reader->is_lent ? reader->capacity : SEARCH_READ_BYTES;
        status = fill(reader, position, left < (int64_t)wanted ? (size_t)left : wanted, error);
        if (status != OL_OK && status != OL_IO) return status;
    }
    *data = reader->buffer + (position - reader->buffer_position);
    *got = (size_t)(reader->buffer_position + (int64_t)reader->buffered - position);
    /* A caller that continues from here meets the bad bytes. */
    return status == OL_IO && *got > 0 ? OL_OK : status;
}

/* Finds the size of the segment that counts: what the writer published, or all of the file of
 * another writer. */
static int find_limit(ol_log_reader *reader, int64_t *limit, ol_error *error) {
    *limit = atomic_load_explicit(&reader->segment->size, memory_order_acquire);
    return reader->log->writable ? OL_OK : reader->log->fs->size(reader->file, limit, error);
}

/* Called when the walk has reached the segment's end, or a damaged size has led far beyond it.  A
 * caller that continues then meets the damage at the batch that led there. */
static int end_walk(ol_log_reader *reader, int64_t previous, ol_error *error) {
    int64_t limit = 0;
    int status = find_limit(reader, &limit, error);
    bool is_end = reader->position <= limit;
    if (!is_end) reader->position = previous;
    reader->positioned = true;
    return status == OL_OK && is_end ? OL_END : status;
}

/* Walks from an index position to the batch that holds the offset.  OL_END: the offset is above
 * those of the segment. */
static int walk_to_offset(ol_log_reader *reader, ol_error *error) {
    bool trusted = reader->position == 0;
    int64_t previous = reader->position;
    for (;;) {
        const uint8_t *data = NULL;
        size_t got = 0;
        int status = header_at(reader, reader->position, &data, &got, error);
        if (status != OL_OK) return blame(reader, status, error);
        size_t size = batch_size_at(data, got);
        bool right = size > 0 && (got >= OL_BATCH_OVERHEAD || data[OL_BATCH_AT_MAGIC] < 2);
        if (!trusted && (!right || ol_load_i64(data) > reader->offset)) {
            /* The index is stale or damaged.  A batch always begins at the start of the file. */
            reader->position = 0;
            trusted = true;
            continue;
        }
        trusted = true;
        if (got == 0) return end_walk(reader, previous, error);
        if (!right || next_offset_at(data) > reader->offset) {
            reader->positioned = true;
            return OL_OK;
        }
        previous = reader->position;
        reader->position += (int64_t)size;
    }
}

/* Finds the segment that holds reader->offset, or the first one after it. */
static int find_place(ol_log_reader *reader, ol_error *error) {
    ol_log *log = reader->log;
    if (atomic_load(&log->shared.half_cut)) {
        return ol_fail(error, OL_FAILED,
                       "a truncation failed, so the log end is unknown; open the log again");
    }
    if (log->writable && reader->offset > ol_log_end(log)) {
        return ol_fail(error, OL_OUT_OF_RANGE,
                       "the log was truncated to offset %lld while it was read at offset %lld",
                       (long long)ol_log_end(log), (long long)reader->offset);
    }
    ol_segment *segment = ol_log_find_segment(log, reader->offset);
    if (segment == NULL) return OL_END;
    bool from_start = segment->base_offset >= reader->offset;
    int64_t position = from_start ? 0 : ol_segment_lookup(segment, reader->offset);
    if (!from_start && reader->hint > position && reader->hint_base == segment->base_offset) {
        position = reader->hint;
    }
    return enter_segment(reader, segment, position, from_start, error);
}

void ol_log_reader_hint(ol_log_reader *reader, int64_t segment_base, int64_t position) {
    reader->hint_base = segment_base;
    reader->hint = position;
}

int ol_log_reader_locate(ol_log_reader *reader, ol_log_place *place, ol_error *error) {
    int status;
    do {
        leave_segment(reader);
        status = find_place(reader, error);
        if (status == OL_OK && !reader->positioned) status = walk_to_offset(reader, error);
    } while (status == OL_WOULD_BLOCK);
    if (status != OL_OK) return status;
    const uint8_t *data;
    size_t got;
    status = header_at(reader, reader->position, &data, &got, error);
    if (status != OL_OK) return status;
    int64_t size = atomic_load_explicit(&reader->segment->size, memory_order_acquire);
    *place = (ol_log_place){.path = reader->path,
                            .segment_base = reader->segment->base_offset,
                            .position = reader->position,
                            .batch_size = batch_size_at(data, got),
                            .available = size - reader->position};
    return OL_OK;
}

/* Moves to the next segment.  OL_END: there is none, and the reader stays where it is.
 * OL_WOULD_BLOCK: try again. */
static int next_segment(ol_log_reader *reader, ol_error *error) {
    ol_segment *next = ol_log_next_segment(reader->log, reader->segment->base_offset);
    if (next == NULL) return OL_END;
    /* The segment may have grown between our read of its size and the roll.  Once another segment
     * follows it, it grows no more. */
    if (!reader->was_followed) {
        reader->was_followed = true;
        ol_segment_release(next);
        return OL_WOULD_BLOCK;
    }
    /* The segment was replaced meanwhile: its contents are in another segment now, and the next one
     * in the list follows that one. */
    if (atomic_load(&reader->segment->detached)) {
        ol_segment_release(next);
        leave_segment(reader);
        return OL_WOULD_BLOCK;
    }
    leave_segment(reader);
    /* Nothing below the next segment is left to read, even if damage was skipped; listing the
     * directory again must not lead back. */
    if (next->base_offset > reader->offset) reader->offset = next->base_offset;
    return enter_segment(reader, next, 0, true, error);
}

/* ------------------------------------------------------------ pieces */

/* Returns the size of the whole batches in data[0, got): at most size_max bytes, but at least one
 * batch.  *last is where the last one starts. */
static size_t walk_batches(const uint8_t *data, size_t got, size_t size_max, size_t *last) {
    size_t total = 0;
    *last = 0;
    while (total < got) {
        size_t size = batch_size_at(data + total, got - total);
        if (size == 0 || size > got - total || (total > 0 && size > size_max - total)) break;
        *last = total;
        total += size;
        /* Each length leads to the next one.  Without this prefetch every header would be a
         * separate cache miss. */
        __builtin_prefetch(data + (got - total > WALK_AHEAD ? total + WALK_AHEAD : total));
        if (total >= size_max) break;
    }
    return total;
}

static int give_piece(ol_log_reader *reader, const uint8_t *data, size_t size, size_t last,
                      ol_log_piece *piece) {
    piece->data = data;
    piece->size = size;
    piece->base_offset = ol_load_i64(data);
    piece->position = reader->position;
    piece->segment_base = reader->segment->base_offset;
    piece->path = reader->path;
    reader->position += (int64_t)size;
    int64_t next = next_offset_at(data + last);
    if (next > reader->offset) reader->offset = next;
    reader->tries = 0;
    return OL_OK;
}

/* Returns where the next segment begins, or -1. */
static int64_t next_base(ol_log_reader *reader) {
    ol_segment *next = ol_log_next_segment(reader->log, reader->segment->base_offset);
    if (next == NULL) return -1;
    int64_t base_offset = next->base_offset;
    ol_segment_release(next);
    return base_offset;
}

static bool has_first_batch(const ol_log_reader *reader) {
    size_t first = batch_size_at(reader->buffer, reader->buffered);
    return first > 0 && first <= reader->buffered;
}

/* Reads from the reader's position on, where the file has `available` bytes: the whole first batch
 * and, up to size_max, some more. */
static int read_batches(ol_log_reader *reader, int64_t available, size_t size_max,
                        ol_error *error) {
    size_t wanted = reader->read_bytes < size_max ? reader->read_bytes : size_max;
    if (wanted < OL_BATCH_OVERHEAD) wanted = OL_BATCH_OVERHEAD;
    if ((int64_t)wanted > available) wanted = (size_t)available;
    /* The search for the position has read into a lent buffer as much as fits. */
    bool is_there = reader->is_lent && reader->buffer_position == reader->position &&
                    reader->buffered >= wanted;
    int status = is_there ? OL_OK : fill(reader, reader->position, wanted, error);
    size_t first = batch_size_at(reader->buffer, reader->buffered);
    if (status == OL_OK && first > reader->buffered && (int64_t)first <= available) {
        status = fill(reader, reader->position, first, error);
    }
    if (reader->read_bytes < size_max) reader->read_bytes *= 2;
    if (status == OL_IO && has_first_batch(reader)) return OL_OK;
    return blame(reader, status, error);
}

/* Finds the end of the offsets of the second batch in the buffer, -1 if there is none; the file has
 * `available` bytes. */
static int find_second_end(ol_log_reader *reader, int64_t available, int64_t *end,
                           ol_error *error) {
    size_t first = batch_size_at(reader->buffer, reader->buffered);
    size_t needed = first + OL_BATCH_OVERHEAD;
    *end = -1;
    if (first == 0 || (int64_t)needed > available) return OL_OK;
    int status = needed > reader->buffered ? fill(reader, reader->position, needed, error) : OL_OK;
    if (status != OL_OK) return blame(reader, status, error);
    if (needed > reader->buffered) return OL_OK;
    size_t second = batch_size_at(reader->buffer + first, reader->buffered - first);
    bool fits = second > 0 && (int64_t)second <= available - (int64_t)first;
    if (fits) *end = next_offset_at(reader->buffer + first);
    return OL_OK;
}

/* Refuses a first batch that ends above the log end although the batch after it ends at or below
 * it.  No CRC covers the base offset. */
static int check_first(ol_log_reader *reader, int64_t available, int64_t end, ol_error *error) {
    int64_t second_end = -1;
    if (!has_first_batch(reader) || next_offset_at(reader->buffer) <= end) return OL_OK;
    int status = find_second_end(reader, available, &second_end, error);
    if (status != OL_OK || second_end < 0 || second_end > end) return status;
    return fail_at(reader, reader->position, "the batch has offsets at or above the log end offset",
                   error);
}

/* Called if there is no whole batch at the reader's position although the log has more bytes
 * there. */
static int refuse_bytes(ol_log_reader *reader, int64_t size, ol_error *error) {
    int64_t file_size = 0;
    int status = reader->log->fs->size(reader->file, &file_size, error);
    if (status != OL_OK) return status;
    if (file_size >= size) {
        return fail_at(reader, reader->position, "the bytes are not a record batch", error);
    }
    status = ol_fail(error, OL_IO, "the file is %lld bytes long, but its segment has %lld bytes",
                     (long long)file_size, (long long)size);
    return blame(reader, status, error);
}

/* A segment that another one follows is finished, and nothing in it reaches above the base of the
 * next one.  Keeps the part of the piece that is below that base, or fails if there is none. */
static int bound_piece(ol_log_reader *reader, const uint8_t *data, size_t *size, size_t *last,
                       ol_error *error) {
    int64_t bound = next_base(reader);
    if (bound < 0 || *size == 0) return OL_OK;
    if (next_offset_at(data) <= bound && next_offset_at(data + *last) <= bound) return OL_OK;
    /* The log was truncated meanwhile: the next segment does not follow this one. */
    if (atomic_load(&reader->segment->detached)) return OL_WOULD_BLOCK;
    if (next_offset_at(data) > bound) {
        return fail_at(reader, reader->position,
                       "the offsets of the batch reach into the next segment", error);
    }
    while (next_offset_at(data + *last) > bound) *size = walk_batches(data, *last, *last, last);
    return OL_OK;
}

/* Reads a piece of a log of ours: of the bytes that the writer has published. */
static int own_piece(ol_log_reader *reader, size_t size_max, ol_log_piece *piece, ol_error *error) {
    size_t last = 0;
    int64_t end = ol_log_end(reader->log);
    int64_t segment_size = atomic_load_explicit(&reader->segment->size, memory_order_acquire);
    int64_t available = segment_size - reader->position;
    if (available <= 0) return OL_END;
    int status = read_batches(reader, available, size_max, error);
    if (status == OL_OK) status = check_first(reader, available, end, error);
    if (status != OL_OK) return status;
    const uint8_t *data = reader->buffer;
    size_t size = walk_batches(data, reader->buffered, size_max, &last);
    status = bound_piece(reader, data, &size, &last, error);
    if (status != OL_OK) return status;
    /* The writer stores the size before the end, so the last batches may be above the end that was
     * read. */
    while (size > 0 && next_offset_at(data + last) > end) {
        int64_t newer = ol_log_end(reader->log);
        if (newer == end) {
            size = last == 0 ? 0 : walk_batches(data, last, last, &last);
            if (size == 0) return OL_END;
        }
        end = newer;
    }
    return size == 0 ? refuse_bytes(reader, segment_size, error)
                     : give_piece(reader, data, size, last, piece);
}

/* Begins a search in the file that the reader has. */
static void start_scan(ol_log_reader *reader, ol_file_scan *scan, int64_t position, int64_t limit) {
    ol_file_scan_start(scan, reader->log->fs, reader->file, false, position, limit);
    scan->budget = reader->search_budget;
}

/* Sets *unfinished to whether unreadable bytes of the last segment are a tail that is being written
 * or was torn: no batch follows them, or recovery found that the log ends there. */
static int is_unfinished(ol_log_reader *reader, bool *unfinished, ol_error *error) {
    ol_file_scan scan;
    ol_batch batch;
    int64_t limit = 0;
    int64_t flushed = ol_log_flushed(reader->log), end = ol_log_end(reader->log);
    bool needs_search = ol_bad_bytes_are_tail(reader->offset, flushed, end, false);
    *unfinished = ol_bad_bytes_are_tail(reader->offset, flushed, end, true);
    if (*unfinished || !needs_search) return OL_OK;
    int status = find_limit(reader, &limit, error);
    if (status != OL_OK) return status;
    int64_t last = ol_segment_offset_max(reader->segment->base_offset);
    start_scan(reader, &scan, reader->position, limit);
    status = ol_file_scan_resync(&scan, reader->position, reader->offset, last, &batch, error);
    reader->search_budget = scan.budget;
    ol_file_scan_close(&scan);
    *unfinished = status == OL_END;
    return status == OL_END ? OL_OK : status;
}

/* Sets *untrimmed to whether only zeros follow in this segment: the trimming of a roll was lost
 * with the power, or was not made yet. */
static int is_untrimmed(ol_log_reader *reader, bool *untrimmed, ol_error *error) {
    ol_file_scan scan;
    int64_t used = 0, limit = 0;
    *untrimmed = false;
    int status = find_limit(reader, &limit, error);
    if (status != OL_OK) return status;
    start_scan(reader, &scan, reader->position, limit);
    status = ol_file_scan_used(&scan, reader->position, &used, error);
    ol_file_scan_close(&scan);
    *untrimmed = used == reader->position;
    return status;
}

/* Reads a piece of a file that another process writes. */
static int foreign_piece(ol_log_reader *reader, size_t size_max, ol_log_piece *piece,
                         ol_error *error) {
    size_t last = 0;
    int64_t file_size = 0;
    int status = reader->log->fs->size(reader->file, &file_size, error);
    if (status != OL_OK) return status;
    if (reader->position >= file_size) return OL_END;
    status = read_batches(reader, file_size - reader->position, size_max, error);
    if (status != OL_OK) return status;
    const uint8_t *data = reader->buffer;
    size_t size = walk_batches(data, reader->buffered, size_max, &last);
    bool whole = size >= OL_BATCH_OVERHEAD || (size > 0 && data[OL_BATCH_AT_MAGIC] < 2);
    if (whole) return give_piece(reader, data, size, last, piece);
    bool at_end = false;
    int64_t next = next_base(reader);
    if (next < 0) status = is_unfinished(reader, &at_end, error);
    if (next == reader->offset) status = is_untrimmed(reader, &at_end, error);
    if (status != OL_OK) return status;
    return at_end ? OL_END
                  : fail_at(reader, reader->position, "the bytes are not a record batch", error);
}

static int next_once(ol_log_reader *reader, size_t size_max, ol_log_piece *piece, ol_error *error) {
    if (reader->segment != NULL &&
        (atomic_load(&reader->segment->detached) || atomic_load(&reader->log->shared.half_cut))) {
        leave_segment(reader);
    }
    for (;;) {
        int status = OL_OK;
        if (reader->segment == NULL) status = find_place(reader, error);
        /* The segment was truncated or replaced after it was found and before it was used. */
        if (status == OL_WOULD_BLOCK) continue;
        if (status == OL_OK && !reader->positioned) status = walk_to_offset(reader, error);
        if (status == OL_OK) {
            status = reader->log->writable ? own_piece(reader, size_max, piece, error)
                                           : foreign_piece(reader, size_max, piece, error);
        }
        /* The segment was replaced after it was found and before it was read. */
        if (status == OL_WOULD_BLOCK) {
            leave_segment(reader);
            continue;
        }
        if (status != OL_END || reader->segment == NULL) return status;
        if (reader->log->writable && reader->offset < ol_log_end(reader->log) &&
            atomic_load_explicit(&reader->segment->size, memory_order_acquire) > reader->position) {
            return OL_END;
        }
        status = next_segment(reader, error);
        if (status != OL_OK && status != OL_WOULD_BLOCK) return status;
    }
}

/* Sets *rolled to whether the process that writes to a read-only log has begun a segment that our
 * list does not have. */
static int was_rolled(ol_log_reader *reader, bool *rolled, ol_error *error) {
    char path[OL_PATH_MAX];
    *rolled = false;
    if (reader->segment != NULL && reader->segment->base_offset == reader->offset) return OL_OK;
    int status = ol_segment_path(path, sizeof path, reader->log->directory, reader->offset, ".log",
                                 error);
    if (status == OL_OK) status = reader->log->fs->exists(reader->log->fs, path, rolled, error);
    return status;
}

int ol_log_reader_next(ol_log_reader *reader, size_t size_max, ol_log_piece *piece,
                       ol_error *error) {
    int status = OL_OK;
    for (int i = 0; i < READER_TRIES; i++) {
        status = next_once(reader, size_max, piece, error);
        bool listed = false;
        if (reader->log->writable) return status;
        if (status == OL_END) {
            int looked = was_rolled(reader, &listed, error);
            if (looked != OL_OK) return looked;
        }
        if (status != OL_NO_SUCH_FILE && !listed) return status;
        /* The directory has a file that recovery leaves out. */
        if (i + 1 == READER_TRIES) return status;
        leave_segment(reader);
        status = ol_log_list_again(reader->log, error);
        if (status != OL_OK) return status;
    }
    return status;
}

int ol_log_reader_retry(ol_log_reader *reader, int64_t position, ol_log_piece *piece,
                        ol_error *error) {
    if (reader->log->writable) return OL_END;
    if (++reader->tries >= READER_TRIES) return OL_END;
    size_t last = 0;
    int64_t piece_end = reader->buffer_position + (int64_t)reader->buffered;
    if (position < reader->buffer_position || position >= piece_end) {
        return ol_fail(error, OL_INVALID,
                       "the reader's last read did not include byte %lld of the segment",
                       (long long)position);
    }
    int status = fill(reader, position, (size_t)(piece_end - position), error);
    if (status != OL_OK) return status;
    size_t size = walk_batches(reader->buffer, reader->buffered, reader->buffered, &last);
    if (size == 0) return fail_at(reader, position, "the bytes are not a record batch", error);
    int tries = reader->tries;
    reader->position = position;
    status = give_piece(reader, reader->buffer, size, last, piece);
    reader->tries = tries;
    return status;
}

/* Another file has the segment's name by now.  The position in it is found by offset: by the one
 * that the bad batch claims, if that can be right. */
static void leave_replaced(ol_log_reader *reader, int64_t position) {
    int64_t base_offset = reader->segment->base_offset;
    int64_t buffered_end = reader->buffer_position + (int64_t)reader->buffered;
    if (position >= reader->buffer_position && position + OL_BATCH_MAGIC_END <= buffered_end) {
        int64_t claimed = ol_load_i64(reader->buffer + (position - reader->buffer_position));
        if (claimed >= base_offset && claimed < reader->offset) reader->offset = claimed;
    }
    leave_segment(reader);
}

int ol_log_reader_skip(ol_log_reader *reader, int64_t position, bool *is_end, ol_error *error) {
    ol_file_scan scan;
    ol_batch batch;
    bool writable = reader->log->writable;
    *is_end = false;
    if (reader->segment == NULL) return ol_fail(error, OL_INVALID,
                                                "the reader has not read a segment yet");
    if (writable && atomic_load(&reader->segment->detached)) {
        leave_replaced(reader, position);
        return OL_OK;
    }
    int64_t base = reader->segment->base_offset;
    int64_t last = ol_segment_offset_max(base);
    int64_t limit = 0;
    int status = find_limit(reader, &limit, error);
    if (status != OL_OK) return status;
    /* reader->offset already includes the bytes at the position, right or wrong.  So the search
     * begins at the file position, and only batches of this segment are considered. */
    start_scan(reader, &scan, position, limit);
    scan.passes_unreadable = true;
    status = ol_file_scan_resync(&scan, position, base, last, &batch, error);
    reader->search_budget = scan.budget;
    if (status == OL_OK) {
        reader->position = scan.position;
        reader->positioned = true;
        reader->offset = batch.base_offset;
    }
    ol_file_scan_close(&scan);
    if (status == OL_END) {
        /* Batches that were appended after the limit meanwhile are after bad bytes. */
        reader->was_followed = true;
        status = next_segment(reader, error);
        if (status == OL_END) *is_end = true;
        if (status == OL_END || status == OL_WOULD_BLOCK) status = OL_OK;
        /* Our writer appends after the bad bytes; in a file of another process they may still
         * become right. */
        if (*is_end && writable) reader->position = limit;
    }
    return status;
}
