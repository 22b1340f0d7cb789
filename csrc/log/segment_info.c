/* Reads facts from the files of segments, which the cleaner uses to select and to clean
 * segments. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "log/log_impl.h"
#include "log/file_scan.h"

/* ------------------------------------------------------------ sizes and times */

/* Finds the size and the newest timestamp of one index; a missing file has neither. */
static int look_at_index(ol_segment *segment, ol_index_kind kind, int64_t *size, int64_t *timestamp,
                         ol_error *error) {
    const ol_index *index = kind == OL_INDEX_OFFSET ? &segment->offset_index : &segment->time_index;
    ol_index opened;
    int status = OL_OK;
    *size = 0;
    *timestamp = -1;
    bool open = !segment->indexes_open;
    if (open) {
        char path[OL_PATH_MAX];
        const char *suffix = kind == OL_INDEX_OFFSET ? ".index" : ".timeindex";
        status = ol_segment_path(path, sizeof path, segment->directory, segment->base_offset,
                                 suffix, error);
        if (status == OL_OK) {
            status = ol_index_open(&opened, segment->fs, path, kind, segment->base_offset, 0,
                                   OL_INDEX_READ, error);
        }
        if (status != OL_OK) return status == OL_NO_SUCH_FILE ? OL_OK : status;
        index = &opened;
    }
    *size = (int64_t)(index->count * index->entry_size);
    if (kind == OL_INDEX_TIME) *timestamp = index->last_timestamp;
    if (open) ol_index_close(&opened);
    return OL_OK;
}

/* Finds the greatest timestamp of the first batch; an empty segment has none. */
static int look_at_first_batch(const ol_segment *segment, int64_t *timestamp, ol_error *error) {
    ol_file_scan scan;
    ol_batch batch;
    *timestamp = -1;
    int64_t size = atomic_load_explicit(&segment->size, memory_order_acquire);
    if (size == 0) return OL_OK;
    ol_file *file = NULL;
    uint8_t header[OL_BATCH_OVERHEAD];
    size_t got = 0;
    int status = segment->fs->open(segment->fs, segment->path, OL_OPEN_READ, &file, error);
    if (status != OL_OK) return status;
    status = segment->fs->read(file, 0, header, sizeof header, &got, error);
    segment->fs->close(file);
    if (status != OL_OK) return status;
    if (got == sizeof header && header[OL_BATCH_AT_MAGIC] == 2) {
        *timestamp = ol_load_i64(header + OL_BATCH_AT_MAX_TIMESTAMP);
        return OL_OK;
    }
    status = ol_file_scan_open(&scan, segment->fs, segment->path, 0, size, error);
    if (status != OL_OK) return status;
    status = ol_file_scan_next(&scan, &batch, error);
    if (status == OL_OK) *timestamp = batch.max_timestamp;
    ol_file_scan_close(&scan);
    return status == OL_IO || status == OL_NO_MEMORY || status == OL_CRASHED ? status : OL_OK;
}

static int look_at_files(ol_segment *segment, ol_log_segment_files *files, ol_error *error) {
    int64_t ignored;
    int status = segment->fs->modified(segment->fs, segment->path, &files->modified_ms, error);
    if (status == OL_OK) status = look_at_first_batch(segment, &files->first_timestamp, error);
    if (status != OL_OK) return status;
    pthread_mutex_lock(&segment->lock);
    status = look_at_index(segment, OL_INDEX_OFFSET, &files->index_size, &ignored, error);
    if (status == OL_OK) {
        status = look_at_index(segment, OL_INDEX_TIME, &files->time_index_size,
                               &files->largest_timestamp, error);
    }
    pthread_mutex_unlock(&segment->lock);
    if (files->largest_timestamp < 0) files->largest_timestamp = files->modified_ms;
    return status;
}

int ol_log_segment_files_at(ol_log *log, int64_t base_offset, ol_log_segment_files *files,
                            ol_error *error) {
    *files = (ol_log_segment_files){.first_timestamp = -1, .largest_timestamp = -1};
    ol_segment *segment = ol_log_find_segment(log, base_offset);
    int status = OL_OUT_OF_RANGE;
    if (segment != NULL && segment->base_offset == base_offset) {
        status = look_at_files(segment, files, error);
        /* A swap may have hidden the file for a moment, or removed it. */
        if (status == OL_NO_SUCH_FILE) status = OL_OUT_OF_RANGE;
    }
    if (segment != NULL) ol_segment_release(segment);
    if (status != OL_OUT_OF_RANGE) return status;
    return ol_fail(error, OL_OUT_OF_RANGE, "the log has no segment at offset %lld",
                   (long long)base_offset);
}

/* ------------------------------------------------------------ aborted transactions */

typedef struct aborted_list {
    ol_aborted_transaction *entries;
    size_t count;
    size_t capacity;
} aborted_list;

static int add_aborted(void *context, const ol_aborted_transaction *transaction) {
    aborted_list *list = context;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        ol_aborted_transaction *entries = realloc(list->entries, capacity * sizeof *entries);
        if (entries == NULL) return OL_NO_MEMORY;
        list->entries = entries;
        list->capacity = capacity;
    }
    list->entries[list->count++] = *transaction;
    return OL_OK;
}

/* Gathers the entries of one segment that overlap [from, up_to); the writer may be appending to
 * those of the active one. */
static int gather(ol_segment *segment, int64_t from, int64_t up_to, aborted_list *list,
                  bool *complete, ol_error *error) {
    int status = OL_OK;
    *complete = false;
    pthread_mutex_lock(&segment->lock);
    if (segment->indexes_open) {
        status = ol_transaction_index_collect(&segment->transaction_index, from, up_to, add_aborted,
                                              list, complete);
    } else {
        char path[OL_PATH_MAX];
        ol_transaction_index index;
        status = ol_segment_path(path, sizeof path, segment->directory, segment->base_offset,
                                 ".txnindex", error);
        if (status == OL_OK) {
            status = ol_transaction_index_open(&index, segment->fs, path, segment->base_offset,
                                               false, error);
        }
        if (status == OL_OK) {
            status = ol_transaction_index_collect(&index, from, up_to, add_aborted, list, complete);
            ol_transaction_index_close(&index);
        }
    }
    pthread_mutex_unlock(&segment->lock);
    return status == OL_NO_MEMORY
               ? ol_fail(error, OL_NO_MEMORY, "no memory for the aborted transactions")
               : status;
}

/* Makes one pass over the segments.  OL_WOULD_BLOCK: a segment was replaced meanwhile, so the
 * findings may mix the old and the new one. */
static int gather_all(ol_log *log, int64_t from, int64_t up_to, aborted_list *list,
                      ol_error *error) {
    int status = OL_OK;
    bool complete = false;
    list->count = 0;
    for (ol_segment *segment = ol_log_find_segment(log, from); segment != NULL;) {
        status = gather(segment, from, up_to, list, &complete, error);
        int64_t base_offset = segment->base_offset;
        if (atomic_load(&segment->detached) && status != OL_NO_MEMORY) status = OL_WOULD_BLOCK;
        ol_segment_release(segment);
        segment = status == OL_OK && !complete ? ol_log_next_segment(log, base_offset) : NULL;
    }
    return status;
}

int ol_log_collect_aborted(ol_log *log, int64_t from, int64_t up_to,
                           int (*visit)(void *context, const ol_aborted_transaction *transaction),
                           void *context, ol_error *error) {
    aborted_list list = {0};
    int status;
    do {
        /* Segments that a failed truncation left in the list stay replaced. */
        status =
            atomic_load(&log->shared.half_cut)
                ? ol_fail(error, OL_FAILED,
                          "a truncation failed, so the log end is unknown; open the log again")
                : gather_all(log, from, up_to, &list, error);
    } while (status == OL_WOULD_BLOCK);
    for (size_t i = 0; i < list.count && status == OL_OK; i++) {
        status = visit(context, &list.entries[i]);
    }
    free(list.entries);
    return status;
}
