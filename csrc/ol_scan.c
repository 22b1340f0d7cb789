#include "ol_scan.h"

#include <stdlib.h>
#include <string.h>

#include "ol_bytes.h"

enum { SCAN_BUFFER_SIZE = 1 << 18 };

int ol_scan_open(ol_scan *scan, ol_fs *fs, const char *path, int64_t position, int64_t limit, ol_error *error) {
    *scan = (ol_scan){.fs = fs, .position = position, .limit = limit};
    int status = fs->open(fs, path, OL_OPEN_READ, &scan->file, error);
    if (status != OL_OK) return status;
    int64_t size = 0;
    status = fs->size(scan->file, &size, error);
    if (status != OL_OK) {
        fs->close(scan->file);
        return status;
    }
    if (limit < 0 || limit > size) scan->limit = size;
    return OL_OK;
}

void ol_scan_close(ol_scan *scan) {
    scan->fs->close(scan->file);
    free(scan->buffer);
    scan->buffer = NULL;
}

/* Makes [position, position + size) available at *data; *got is less only where the file ends. */
static int fetch(ol_scan *scan, int64_t position, size_t size, const uint8_t **data, size_t *got, ol_error *error) {
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
        if (buffer == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to read a batch of %zu bytes", wanted);
        scan->buffer = buffer;
        scan->capacity = wanted;
    }
    scan->buffer_position = position;
    scan->buffer_size = 0;
    if (wanted > 0) {
        int status = scan->fs->read(scan->file, position, scan->buffer, wanted, &scan->buffer_size, error);
        if (status != OL_OK) return status;
    }
    *data = scan->buffer;
    *got = scan->buffer_size;
    return OL_OK;
}

/* The batch at `position`; moves nothing. */
static int batch_at(ol_scan *scan, int64_t position, ol_batch *batch, ol_error *error) {
    const uint8_t *data = NULL;
    size_t got = 0;
    int status = fetch(scan, position, OL_BATCH_OVERHEAD, &data, &got, error);
    if (status != OL_OK) return status;
    if (got == 0) return position < scan->limit ? ol_fail(error, OL_TORN, "the file ends early") : OL_END;
    status = ol_batch_parse(data, got, batch, error);
    if (status == OL_TORN && batch->size > got && (int64_t)batch->size <= scan->limit - position) {
        size_t needed = batch->size;
        status = fetch(scan, position, needed, &data, &got, error);
        if (status != OL_OK) return status;
        status = ol_batch_parse(data, got, batch, error);
    }
    return status;
}

int ol_scan_next(ol_scan *scan, ol_batch *batch, ol_error *error) {
    if (scan->position >= scan->limit) return OL_END;
    int status = batch_at(scan, scan->position, batch, error);
    if (status == OL_OK) {
        scan->position += (int64_t)batch->size;
    } else if (status == OL_TORN || status == OL_CORRUPT || status == OL_UNSUPPORTED) {
        error->position = scan->position;
    }
    return status;
}

/* Cheap tests first: hardly any position passes them, so the CRC is computed for few. */
static bool is_plausible(const uint8_t *data, size_t got, int64_t remaining, int64_t offset_min, int64_t offset_max) {
    if (got < OL_BATCH_OVERHEAD || data[OL_BATCH_AT_MAGIC] != 2) return false;
    int64_t length = ol_load_i32(data + OL_BATCH_AT_LENGTH);
    if (length < OL_BATCH_OVERHEAD - OL_BATCH_LOG_OVERHEAD || length > remaining - OL_BATCH_LOG_OVERHEAD) return false;
    int64_t base_offset = ol_load_i64(data + OL_BATCH_AT_BASE_OFFSET);
    int64_t delta = ol_load_i32(data + OL_BATCH_AT_LAST_OFFSET_DELTA);
    return base_offset >= offset_min && delta >= 0 && base_offset <= offset_max - delta;
}

int ol_scan_resync(ol_scan *scan, int64_t position, int64_t offset_min, int64_t offset_max, ol_batch *batch, ol_error *error) {
    /* CRCs over hostile lengths could make this quadratic; after so many bytes without a hit the rest is taken as lost. */
    int64_t budget = (int64_t)1 << 32;
    while (position + OL_BATCH_OVERHEAD <= scan->limit) {
        const uint8_t *data = NULL;
        size_t got = 0;
        int status = fetch(scan, position, OL_BATCH_OVERHEAD, &data, &got, error);
        if (status != OL_OK) return status;
        if (got < OL_BATCH_OVERHEAD) return OL_END;
        size_t step = 0;
        while (step + OL_BATCH_OVERHEAD <= got &&
               !is_plausible(data + step, got - step, scan->limit - position - (int64_t)step, offset_min, offset_max)) {
            step++;
        }
        position += (int64_t)step;
        if (step + OL_BATCH_OVERHEAD > got) continue;
        status = batch_at(scan, position, batch, error);
        if (status == OL_NO_MEMORY || status == OL_IO) return status;
        if (status == OL_OK) {
            budget -= (int64_t)batch->size;
            if (ol_batch_check_crc(batch, error) == OL_OK) {
                scan->position = position;
                return OL_OK;
            }
            if (budget < 0) return OL_END;
        }
        position++;
    }
    return OL_END;
}

int ol_scan_used(ol_scan *scan, int64_t position, int64_t *used, ol_error *error) {
    *used = position;
    while (position < scan->limit) {
        const uint8_t *data = NULL;
        size_t got = 0;
        int status = fetch(scan, position, 1, &data, &got, error);
        if (status != OL_OK) return status;
        if (got == 0) break;
        size_t last = got;
        while (last > 0 && data[last - 1] == 0) last--;
        if (last > 0) *used = position + (int64_t)last;
        position += (int64_t)got;
    }
    return OL_OK;
}
