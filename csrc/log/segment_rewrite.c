/* Writes a cleaned segment under temporary names.  log/segment_swap.c puts it in place. */
#include "log/segment_rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "log/batch_rules.h"
#include "log/log_impl.h"
#include "log/segment_checksum.h"
#include "base/pages.h"

/* The file is flushed as it grows.  Otherwise all dirty bytes would be written at once at the end,
 * and commits that wait for the disk would wait for these bytes, too. */
enum { BUFFER_SIZE = 1 << 20, FLUSH_STEP = 8 << 20 };

struct ol_segment_rewrite {
    ol_log *log;
    ol_segment *segment;        /* has the names that the files will get */
    ol_file *file;
    uint8_t *buffer;
    size_t buffered;
    int64_t written;            /* bytes in the file */
    int64_t flushed;
    int64_t next_offset;        /* the next batch begins here or above */
    uint64_t cuts;
};

static void free_cleaned(ol_segment_rewrite *cleaned) {
    pthread_mutex_lock(&cleaned->log->list.lock);
    cleaned->log->list.is_cleaning = false;
    pthread_mutex_unlock(&cleaned->log->list.lock);
    ol_pages_free(cleaned->buffer, BUFFER_SIZE);
    free(cleaned);
}

void ol_segment_rewrite_discard(ol_segment_rewrite *cleaned) {
    if (cleaned == NULL) return;
    ol_log *log = cleaned->log;
    int64_t base_offset = cleaned->segment->base_offset;
    if (cleaned->file != NULL) log->fs->close(cleaned->file);
    ol_segment_release(cleaned->segment);
    ol_log_remove_aside(log, base_offset);
    free_cleaned(cleaned);
}

static int claim_log(ol_log *log, ol_error *error) {
    pthread_mutex_lock(&log->list.lock);
    bool taken = log->list.is_cleaning;
    log->list.is_cleaning = true;
    pthread_mutex_unlock(&log->list.lock);
    return taken ? ol_fail(error, OL_INVALID, "a segment of this log is being cleaned already")
                 : OL_OK;
}

static int create_cleaned(ol_log *log, int64_t base_offset, uint64_t cuts,
                          ol_segment_rewrite **created, ol_error *error) {
    char path[OL_PATH_MAX];
    int status = ol_segment_path(path, sizeof path, log->directory, base_offset, ".log", error);
    if (status != OL_OK) return status;
    ol_segment_rewrite *cleaned = calloc(1, sizeof *cleaned);
    uint8_t *buffer = ol_pages_allocate(BUFFER_SIZE);
    status = cleaned == NULL || buffer == NULL
                 ? ol_fail(error, OL_NO_MEMORY, "no memory to clean a segment")
                 : ol_segment_create(log->fs, log->directory, path, base_offset, 0,
                                     &cleaned->segment, error);
    if (status != OL_OK) {
        free(cleaned);
        ol_pages_free(buffer, BUFFER_SIZE);
        return status;
    }
    cleaned->segment->has_checksum = true;
    cleaned->log = log;
    cleaned->buffer = buffer;
    cleaned->next_offset = base_offset;
    cleaned->cuts = cuts;
    *created = cleaned;
    return OL_OK;
}

static int create_files(ol_segment_rewrite *cleaned, ol_error *error) {
    ol_log *log = cleaned->log;
    char path[OL_PATH_MAX];
    int status = ol_segment_path(path, sizeof path, log->directory, cleaned->segment->base_offset,
                                 ".log.cleaned", error);
    if (status == OL_OK) {
        status = log->fs->open(log->fs, path, OL_OPEN_CREATE_NEW, &cleaned->file, error);
    }
    if (status != OL_OK) return status;
    return ol_segment_open_indexes_aside(cleaned->segment, (size_t)log->config.segment_index_bytes,
                                         ".cleaned", error);
}

int ol_segment_rewrite_start(ol_log *log, int64_t base_offset, uint64_t cuts,
                             ol_segment_rewrite **cleaned, ol_error *error) {
    *cleaned = NULL;
    if (base_offset < 0) return ol_fail(error, OL_INVALID,
                                        "the base of a segment must not be negative");
    int status = ol_log_check_writable(log, error);
    if (status == OL_OK) status = claim_log(log, error);
    if (status != OL_OK) return status;
    ol_segment_rewrite *created = NULL;
    status = ol_log_clear_leftovers(log, error);
    if (status == OL_OK) status = create_cleaned(log, base_offset, cuts, &created, error);
    if (status != OL_OK) {
        pthread_mutex_lock(&log->list.lock);
        log->list.is_cleaning = false;
        pthread_mutex_unlock(&log->list.lock);
        return status;
    }
    status = create_files(created, error);
    if (status != OL_OK) {
        ol_segment_rewrite_discard(created);
        return status;
    }
    *cleaned = created;
    return OL_OK;
}

static int write_buffer(ol_segment_rewrite *cleaned, ol_error *error) {
    ol_fs *fs = cleaned->log->fs;
    if (cleaned->buffered == 0) return OL_OK;
    int status = fs->write(cleaned->file, cleaned->written, cleaned->buffer, cleaned->buffered,
                           error);
    if (status != OL_OK) return status;
    cleaned->written += (int64_t)cleaned->buffered;
    cleaned->buffered = 0;
    if (cleaned->written - cleaned->flushed < FLUSH_STEP) return OL_OK;
    cleaned->flushed = cleaned->written;
    return fs->flush(cleaned->file, error);
}

int64_t ol_segment_rewrite_size(const ol_segment_rewrite *cleaned) {
    return cleaned->written + (int64_t)cleaned->buffered;
}

static int check_batch(const ol_segment_rewrite *cleaned, size_t size, int64_t base_offset,
                       int64_t last_offset, ol_error *error) {
    int64_t segment_base = cleaned->segment->base_offset;
    if (size == 0 || base_offset < cleaned->next_offset || last_offset < base_offset) {
        return ol_fail(error, OL_INVALID,
                       "a batch of %zu bytes with offsets %lld to %lld cannot follow offset %lld",
                       size, (long long)base_offset, (long long)last_offset,
                       (long long)cleaned->next_offset - 1);
    }
    bool fits = last_offset <= ol_segment_offset_max(segment_base) &&
                size <= (size_t)OL_SEGMENT_BYTES_MAX &&
                ol_segment_rewrite_size(cleaned) <= OL_SEGMENT_BYTES_MAX - (int64_t)size;
    return fits ? OL_OK
                : ol_fail(error, OL_TOO_LARGE,
                          "the batch does not fit in the segment of base offset %lld",
                          (long long)segment_base);
}

int ol_segment_rewrite_append(ol_segment_rewrite *cleaned, const uint8_t *data, size_t size,
                              int64_t base_offset, int64_t last_offset, int64_t max_timestamp,
                              ol_error *error) {
    int status = check_batch(cleaned, size, base_offset, last_offset, error);
    if (status != OL_OK) return status;
    int64_t position = ol_segment_rewrite_size(cleaned);
    for (size_t copied = 0; copied < size;) {
        size_t room = BUFFER_SIZE - cleaned->buffered;
        size_t count = size - copied < room ? size - copied : room;
        memcpy(cleaned->buffer + cleaned->buffered, data + copied, count);
        cleaned->buffered += count;
        copied += count;
        if (cleaned->buffered == BUFFER_SIZE) status = write_buffer(cleaned, error);
        if (status != OL_OK) return status;
    }
    cleaned->segment->checksum = ol_segment_checksum_add(cleaned->segment->checksum, data);
    ol_segment_record_batch(cleaned->segment, position, size, last_offset, max_timestamp,
                            cleaned->log->config.index_interval_bytes, NULL);
    cleaned->next_offset = last_offset + 1;
    return OL_OK;
}

int ol_segment_rewrite_append_aborted(ol_segment_rewrite *cleaned,
                                      const ol_aborted_transaction *transaction, ol_error *error) {
    return ol_transaction_index_append(&cleaned->segment->transaction_index, transaction, error);
}

/* Makes all bytes of all files durable. */
static int finish_files(ol_segment_rewrite *cleaned, ol_error *error) {
    int status = write_buffer(cleaned, error);
    if (status == OL_OK) status = ol_segment_finish_indexes(cleaned->segment, error);
    if (status == OL_OK) status = cleaned->log->fs->flush(cleaned->file, error);
    if (status == OL_OK) status = ol_index_flush(&cleaned->segment->offset_index, error);
    if (status == OL_OK) status = ol_index_flush(&cleaned->segment->time_index, error);
    if (status == OL_OK) {
        status = ol_transaction_index_flush(&cleaned->segment->transaction_index, error);
    }
    return status;
}

int ol_segment_rewrite_swap(ol_segment_rewrite *cleaned, const int64_t *bases, size_t count,
                            ol_error *error) {
    int status = OL_OK;
    if (count == 0 || bases[0] != cleaned->segment->base_offset) {
        status = ol_fail(error, OL_INVALID,
                         "a cleaned segment must replace at least one segment, and begin at the "
                         "base offset of the first");
    }
    if (status == OL_OK) status = finish_files(cleaned, error);
    if (status != OL_OK) {
        ol_segment_rewrite_discard(cleaned);
        return status;
    }
    ol_aside aside = {
        .segment = cleaned->segment,
        .file = cleaned->file,
        .size = cleaned->written,
        .next_offset = cleaned->next_offset,
        .cuts = cleaned->cuts,
    };
    status = ol_log_swap(cleaned->log, &aside, bases, count, error);
    free_cleaned(cleaned);
    return status;
}
