/* Walks the batches of one file, which it reads into a buffer, and searches for the next good batch
 * after a bad one. */
#include "log/file_scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

/* A piece is copied, summed and decoded while it is still in the cache of the core. */
enum { SCAN_BUFFER_SIZE = 1 << 16, ENDING_BYTES = 64, UNREADABLE_STEP = 4096 };

void ol_file_scan_start(ol_file_scan *scan, ol_fs *fs, ol_file *file, bool owns, int64_t position,
                        int64_t limit) {
    *scan = (ol_file_scan){.fs = fs,
                           .file = file,
                           .owns_file = owns,
                           .position = position,
                           .limit = limit,
                           .budget = OL_FILE_SCAN_BUDGET,
                           .claimed_end = -1};
}

int ol_file_scan_open(ol_file_scan *scan, ol_fs *fs, const char *path, int64_t position,
                      int64_t limit, ol_error *error) {
    ol_file *file = NULL;
    int64_t size = 0;
    int status = fs->open(fs, path, OL_OPEN_READ, &file, error);
    if (status != OL_OK) return status;
    status = fs->size(file, &size, error);
    if (status != OL_OK) {
        fs->close(file);
        return status;
    }
    ol_file_scan_start(scan, fs, file, true, position, limit < 0 || limit > size ? size : limit);
    return OL_OK;
}

void ol_file_scan_close(ol_file_scan *scan) {
    if (scan->owns_file) scan->fs->close(scan->file);
    scan->owns_file = false;
    free(scan->buffer);
    scan->buffer = NULL;
}

/* Makes [position, position + size) available at *data; *got is less only at the end of the file,
 * or at the end of the bytes that count. */
static int fetch(ol_file_scan *scan, int64_t position, size_t size, const uint8_t **data,
                 size_t *got, ol_error *error) {
    int64_t remaining = scan->limit - position;
    if (remaining < 0) remaining = 0;
    if ((int64_t)size > remaining) size = (size_t)remaining;
    int64_t buffered_end = scan->buffer_position + (int64_t)scan->buffer_size;
    if (position >= scan->buffer_position && position + (int64_t)size <= buffered_end) {
        *data = scan->buffer + (position - scan->buffer_position);
        *got = (size_t)(buffered_end - position);
        return OL_OK;
    }
    size_t wanted = size > SCAN_BUFFER_SIZE ? size : SCAN_BUFFER_SIZE;
    if ((int64_t)wanted > remaining) wanted = (size_t)remaining;
    if (wanted > scan->capacity) {
        uint8_t *buffer = realloc(scan->buffer, wanted);
        if (buffer == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory to read a batch of %zu bytes", wanted);
        }
        scan->buffer = buffer;
        scan->capacity = wanted;
    }
    scan->buffer_position = position;
    scan->buffer_size = 0;
    if (wanted > 0) {
        int status = scan->fs->read(scan->file, position, scan->buffer, wanted, &scan->buffer_size,
                                    error);
        /* The unreadable bytes may be after those that were asked for, because more was read. */
        bool enough = status == OL_IO && scan->buffer_size >= size;
        if (status != OL_OK && !enough) return status;
    }
    *data = scan->buffer;
    *got = scan->buffer_size;
    return OL_OK;
}

/* Returns the batch at `position`; moves nothing. */
static int batch_at(ol_file_scan *scan, int64_t position, ol_batch *batch, ol_error *error) {
    const uint8_t *data = NULL;
    size_t got = 0;
    int status = fetch(scan, position, OL_BATCH_OVERHEAD, &data, &got, error);
    if (status != OL_OK) return status;
    if (got == 0) {
        return position < scan->limit
                   ? ol_fail(error, OL_TORN,
                             "the file ends before byte %lld, but should end at byte %lld",
                             (long long)position, (long long)scan->limit)
                   : OL_END;
    }
    status = ol_batch_parse(data, got, batch, error);
    if (status == OL_TORN && batch->size > got && (int64_t)batch->size <= scan->limit - position) {
        size_t needed = batch->size;
        status = fetch(scan, position, needed, &data, &got, error);
        if (status != OL_OK) return status;
        if (got < needed) {
            return ol_fail(error, OL_TORN,
                           "the file is %lld bytes long, but its segment has %lld bytes",
                           (long long)position + (long long)got, (long long)scan->limit);
        }
        status = ol_batch_parse(data, got, batch, error);
    }
    return status;
}

int ol_file_scan_next(ol_file_scan *scan, ol_batch *batch, ol_error *error) {
    if (scan->position >= scan->limit) return OL_END;
    int status = batch_at(scan, scan->position, batch, error);
    if (status == OL_OK) {
        scan->position += (int64_t)batch->size;
    } else if (status == OL_TORN || status == OL_CORRUPT || status == OL_UNSUPPORTED) {
        error->position = scan->position;
    }
    return status;
}

/* Makes the batch before scan->position available, together with the header of the next one. */
static int fetch_again(ol_file_scan *scan, ol_batch *batch, size_t head_size, ol_error *error) {
    const uint8_t *data = NULL;
    size_t got = 0, size = batch->size;
    int64_t position = scan->position - (int64_t)size;
    int status = fetch(scan, position, size + head_size, &data, &got, error);
    /* The next call meets the unreadable bytes; batches before them are still returned. */
    if (status == OL_IO) status = fetch(scan, position, size, &data, &got, error);
    if (status != OL_OK) return status;
    bool is_same = ol_batch_parse(data, got, batch, error) == OL_OK && batch->size == size;
    return is_same ? OL_OK : ol_fail(error, OL_TORN, "the batch changed while it was read");
}

int ol_file_scan_follower(ol_file_scan *scan, ol_batch *batch, int64_t *successor, bool *found,
                          ol_error *error) {
    uint8_t head[sizeof(int64_t)];
    size_t got = 0;
    *found = false;
    if (scan->limit - scan->position < (int64_t)sizeof(head)) {
        /* A batch may follow after the limit. */
        int status = scan->fs->read(scan->file, scan->position, head, sizeof(head), &got, error);
        if (status != OL_OK || got < sizeof(head)) return status == OL_IO ? OL_OK : status;
        *successor = ol_load_i64(head);
        *found = true;
        return OL_OK;
    }
    const uint8_t *end = scan->buffer + scan->buffer_size;
    if ((size_t)(end - (batch->data + batch->size)) < sizeof(head)) {
        int status = fetch_again(scan, batch, sizeof(head), error);
        if (status != OL_OK) return status;
        end = scan->buffer + scan->buffer_size;
    }
    if ((size_t)(end - (batch->data + batch->size)) < sizeof(head)) return OL_OK;
    *successor = ol_load_i64(batch->data + batch->size + OL_BATCH_AT_BASE_OFFSET);
    *found = true;
    return OL_OK;
}

/* Sets *followed to whether there is a whole batch with a right CRC at scan->position. */
static int is_followed(ol_file_scan *scan, bool *followed, ol_error *error) {
    ol_file_scan probe;
    ol_batch batch;
    int64_t size = 0;
    *followed = false;
    int status = scan->fs->size(scan->file, &size, error);
    if (status != OL_OK) return status;
    ol_file_scan_start(&probe, scan->fs, scan->file, false, scan->position, size);
    status = ol_file_scan_next(&probe, &batch, error);
    *followed = status == OL_OK && ol_batch_check_crc(&batch, error) == OL_OK;
    ol_file_scan_close(&probe);
    return status == OL_NO_MEMORY ? status : OL_OK;
}

static int refuse(const ol_batch *batch, const ol_batch_bounds *bounds, ol_offsets_verdict verdict,
                  ol_error *error) {
    int status = ol_batch_check_crc(batch, error);
    return status == OL_OK ? ol_batch_refuse_offsets(bounds, batch, verdict, error) : status;
}

int ol_file_scan_judge(ol_file_scan *scan, ol_batch *batch, const ol_batch_bounds *bounds,
                       ol_error *error) {
    if (bounds->limit != INT64_MAX && batch->last_offset >= bounds->limit) {
        return refuse(batch, bounds, OL_OFFSETS_REACH_LIMIT, error);
    }
    if (batch->magic != 2) return OL_OK;
    if (batch->base_offset < bounds->segment_base) {
        ol_batch_bounds from_base = {.next_offset = bounds->segment_base};
        return refuse(batch, &from_base, OL_OFFSETS_GO_BACK, error);
    }
    int64_t next_offset = bounds->next_offset;
    if (next_offset < bounds->segment_base) next_offset = bounds->segment_base;
    if (batch->base_offset <= next_offset) return OL_OK;
    bool found = false, followed = false;
    int64_t successor = 0;
    int status = ol_file_scan_follower(scan, batch, &successor, &found, error);
    if (status != OL_OK || !found) return status;
    if (successor < next_offset || successor > batch->last_offset) return OL_OK;
    status = is_followed(scan, &followed, error);
    if (status != OL_OK || !followed) return status;
    return refuse(batch, bounds, OL_OFFSETS_PASS_SUCCESSOR, error);
}

/* Runs cheap tests first: hardly any position passes them, so few CRCs are computed. */
static bool is_plausible(const uint8_t *data, size_t got, int64_t remaining, int64_t offset_min,
                         int64_t offset_max) {
    if (got < OL_BATCH_OVERHEAD || data[OL_BATCH_AT_MAGIC] != 2) return false;
    int64_t length = ol_load_i32(data + OL_BATCH_AT_LENGTH);
    if (length < OL_BATCH_OVERHEAD - OL_BATCH_LOG_OVERHEAD ||
        length > remaining - OL_BATCH_LOG_OVERHEAD) {
        return false;
    }
    int64_t base_offset = ol_load_i64(data + OL_BATCH_AT_BASE_OFFSET);
    int64_t delta = ol_load_i32(data + OL_BATCH_AT_LAST_OFFSET_DELTA);
    return base_offset >= offset_min && delta >= 0 && base_offset <= offset_max - delta;
}

static bool is_zero(const uint8_t *data, size_t size) {
    /* Each byte must equal the one before it; memcmp compares many bytes at a time. */
    return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

/* Sets *end to the end of the batch at `position` by its length field, or -1 if that is impossible.
 * The magic is not checked: it may be the bad byte. */
static int find_claimed_end(ol_file_scan *scan, int64_t position, int64_t *end, ol_error *error) {
    const uint8_t *data = NULL;
    size_t got = 0;
    *end = -1;
    int status = fetch(scan, position, OL_BATCH_LOG_OVERHEAD, &data, &got, error);
    if (status != OL_OK || got < OL_BATCH_LOG_OVERHEAD) return status;
    int64_t length = ol_load_i32(data + OL_BATCH_AT_LENGTH);
    if (length >= OL_BATCH_MINIMUM_LENGTH &&
        length <= scan->limit - position - OL_BATCH_LOG_OVERHEAD) {
        *end = position + OL_BATCH_LOG_OVERHEAD + length;
    }
    return OL_OK;
}

/* Sets *ending to whether the written bytes end at `end`.  Zeros after `end` are an extension, and
 * a length that merely leads into an extension proves nothing.  So the bytes right before `end`
 * must look like the end of a batch. */
static int is_ending(ol_file_scan *scan, int64_t end, bool *ending, ol_error *error) {
    const uint8_t *data = NULL;
    size_t got = 0;
    *ending = end == scan->limit;
    if (*ending) return OL_OK;
    int status = fetch(scan, end, ENDING_BYTES, &data, &got, error);
    if (status != OL_OK || !is_zero(data, got < ENDING_BYTES ? got : ENDING_BYTES)) return status;
    int64_t before = end > ENDING_BYTES ? end - ENDING_BYTES : 0;
    status = fetch(scan, before, (size_t)(end - before), &data, &got, error);
    if (status != OL_OK || (int64_t)got < end - before || is_zero(data, (size_t)(end - before))) {
        return status;
    }
    scan->budget -= scan->limit - end;
    int64_t used = 0;
    status = ol_file_scan_used(scan, end, &used, error);
    *ending = status == OL_OK && used == end;
    return status;
}

static bool is_passed(const ol_file_scan *scan, int status) {
    return status == OL_IO && scan->passes_unreadable;
}

/* Follows the lengths from one bad batch to the next.  OL_OK: a right batch was reached; OL_END:
 * the end was reached.  OL_CORRUPT: the length of the batch at *position leads nowhere. */
static int follow_lengths(ol_file_scan *scan, int64_t *position, int64_t offset_min,
                          int64_t offset_max, ol_batch *batch, ol_error *error) {
    for (;;) {
        int64_t end = -1;
        bool ending = false;
        int status = find_claimed_end(scan, *position, &end, error);
        if (status == OL_OK && end < 0) return OL_CORRUPT;
        if (status == OL_OK) status = is_ending(scan, end, &ending, error);
        if (is_passed(scan, status)) return OL_CORRUPT;
        if (status != OL_OK) return status;
        if (ending) {
            scan->position = end;
            return OL_END;
        }
        status = batch_at(scan, end, batch, error);
        if (is_passed(scan, status)) return OL_CORRUPT;
        if (status == OL_NO_MEMORY || status == OL_IO) return status;
        if (status != OL_OK) return OL_CORRUPT;
        bool right = ol_batch_check_crc(batch, error) == OL_OK;
        bool fits = batch->base_offset >= offset_min && batch->last_offset <= offset_max;
        if (right && fits) {
            scan->position = end;
            return OL_OK;
        }
        /* A batch is here, although a bad one, so the length that led to it was right. */
        if (!right && !fits) return OL_CORRUPT;
        if (!right) scan->budget -= (int64_t)batch->size;
        *position = end;
    }
}

/* Returns where a search continues after the disk could not read the byte that the error names. */
static int64_t pass_unreadable(int64_t position, int64_t *step, const ol_error *error) {
    if (error->position > position) position = error->position;
    position += *step - position % UNREADABLE_STEP;
    *step *= 2;
    return position;
}

/* Tries every byte from `position` on. */
static int try_every_byte(ol_file_scan *scan, int64_t position, int64_t offset_min,
                          int64_t offset_max, ol_batch *batch, ol_error *error) {
    int64_t unreadable_step = UNREADABLE_STEP;
    while (position + OL_BATCH_OVERHEAD <= scan->limit && scan->budget >= 0) {
        const uint8_t *data = NULL;
        size_t got = 0;
        int status = fetch(scan, position, OL_BATCH_OVERHEAD, &data, &got, error);
        if (is_passed(scan, status)) {
            position = pass_unreadable(position, &unreadable_step, error);
            continue;
        }
        if (status != OL_OK) return status;
        if (got < OL_BATCH_OVERHEAD) return OL_END;
        unreadable_step = UNREADABLE_STEP;
        size_t step = 0;
        while (step + OL_BATCH_OVERHEAD <= got &&
               !is_plausible(data + step, got - step, scan->limit - position - (int64_t)step,
                             offset_min, offset_max)) {
            step++;
        }
        position += (int64_t)step;
        if (step + OL_BATCH_OVERHEAD > got) continue;
        status = batch_at(scan, position, batch, error);
        if (status == OL_NO_MEMORY || (status == OL_IO && !is_passed(scan, status))) return status;
        if (status == OL_OK) {
            if (ol_batch_check_crc(batch, error) == OL_OK) {
                scan->position = position;
                return OL_OK;
            }
            scan->budget -= (int64_t)batch->size;
        }
        position++;
    }
    return OL_END;
}

int ol_file_scan_resync(ol_file_scan *scan, int64_t position, int64_t offset_min,
                        int64_t offset_max, ol_batch *batch, ol_error *error) {
    int status = follow_lengths(scan, &position, offset_min, offset_max, batch, error);
    if (status != OL_CORRUPT) return status;
    status = batch_at(scan, position, batch, error);
    if (status == OL_NO_MEMORY || (status == OL_IO && !is_passed(scan, status))) return status;
    if (status == OL_OK && position + (int64_t)batch->size > scan->claimed_end) {
        scan->claimed_end = position + (int64_t)batch->size;
    }
    return try_every_byte(scan, position + 1, offset_min, offset_max, batch, error);
}

int ol_file_scan_used(ol_file_scan *scan, int64_t position, int64_t *used, ol_error *error) {
    *used = position;
    while (position < scan->limit) {
        const uint8_t *data = NULL;
        size_t got = 0;
        int status = fetch(scan, position, 1, &data, &got, error);
        if (status != OL_OK) return status;
        if (got == 0) break;
        /* An extension is megabytes of zeros. */
        size_t last = is_zero(data, got) ? 0 : got;
        while (last > 0 && data[last - 1] == 0) last--;
        if (last > 0) *used = position + (int64_t)last;
        position += (int64_t)got;
    }
    return OL_OK;
}
