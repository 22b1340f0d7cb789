/* Counts the references and the uses of a segment, opens its files, and writes the entries of its
 * indexes. */
#include "log/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "log/files/names.h"

int ol_segment_path(char *path, size_t capacity, const char *directory, int64_t offset,
                    const char *suffix, ol_error *error) {
    char name[OL_NAME_SIZE_MAX + 1];
    int status = ol_file_name(name, sizeof name, offset, suffix, error);
    if (status == OL_OK) status = ol_path_join(path, capacity, directory, name, error);
    return status;
}

int ol_segment_create(ol_fs *fs, const char *directory, const char *path, int64_t base_offset,
                      int64_t size, ol_segment **segment, ol_error *error) {
    ol_segment *created = calloc(1, sizeof *created);
    char *path_copy = strdup(path);
    char *directory_copy = strdup(directory);
    if (created == NULL || path_copy == NULL || directory_copy == NULL) {
        free(created);
        free(path_copy);
        free(directory_copy);
        return ol_fail(error, OL_NO_MEMORY, "no memory for a segment");
    }
    created->fs = fs;
    created->path = path_copy;
    created->directory = directory_copy;
    created->base_offset = base_offset;
    created->references = 1;
    created->first_timestamp = -1;
    created->max_timestamp = -1;
    created->max_timestamp_offset = base_offset;
    created->next_base = -1;
    created->has_checksum = size == 0;
    atomic_init(&created->size, size);
    atomic_init(&created->extended, size);
    atomic_init(&created->populated, size);
    atomic_init(&created->detached, false);
    pthread_mutex_init(&created->lock, NULL);
    *segment = created;
    return OL_OK;
}

static _Atomic int kept_files;

static void close_file(ol_segment *segment) {
    if (segment->is_written) {
        ol_pages_free(segment->data, segment->mapped_size);
    } else if (segment->data != NULL) {
        segment->fs->unmap(segment->fs, segment->data, segment->mapped_size);
    }
    if (segment->file != NULL) segment->fs->close(segment->file);
    if (segment->kept) atomic_fetch_sub(&kept_files, 1);
    segment->kept = false;
    segment->data = NULL;
    segment->file = NULL;
    segment->mapped_size = 0;
}

void ol_segment_reference(ol_segment *segment) {
    pthread_mutex_lock(&segment->lock);
    segment->references++;
    pthread_mutex_unlock(&segment->lock);
}

void ol_segment_release(ol_segment *segment) {
    pthread_mutex_lock(&segment->lock);
    OL_ASSERT(segment->references > 0);
    bool last = --segment->references == 0;
    pthread_mutex_unlock(&segment->lock);
    if (!last) return;
    OL_ASSERT(segment->users == 0);
    ol_segment_close_indexes(segment);
    pthread_mutex_destroy(&segment->lock);
    free(segment->path);
    free(segment->directory);
    free(segment);
}

bool ol_segment_use(ol_segment *segment) {
    pthread_mutex_lock(&segment->lock);
    bool attached = !atomic_load(&segment->detached);
    if (attached) {
        segment->users++;
        segment->references++;
    }
    pthread_mutex_unlock(&segment->lock);
    return attached;
}

void ol_segment_unuse(ol_segment *segment) {
    pthread_mutex_lock(&segment->lock);
    OL_ASSERT(segment->users > 0);
    if (--segment->users == 0) close_file(segment);
    pthread_mutex_unlock(&segment->lock);
    ol_segment_release(segment);
}

int ol_segment_open_file(ol_segment *segment, ol_file **file, bool *shared, ol_error *error) {
    pthread_mutex_lock(&segment->lock);
    OL_ASSERT(segment->users > 0);
    int status = OL_OK;
    *file = segment->file;
    *shared = segment->file != NULL;
    if (!*shared && atomic_load(&segment->detached)) {
        (void)ol_fail(error, OL_NO_SUCH_FILE,
                      "the segment was replaced or removed while it was read");
        status = ol_error_at(error, segment->path, -1);
    } else if (!*shared) {
        /* Under the lock: until the segment is detached the name is that of its file. */
        status = segment->fs->open(segment->fs, segment->path, OL_OPEN_READ, file, error);
    }
    pthread_mutex_unlock(&segment->lock);
    return status;
}

/* Without the file, users are refused when they open it. */
static void keep_file(ol_segment *segment) {
    ol_error ignored;
    segment->kept = atomic_fetch_add(&kept_files, 1) < OL_KEPT_FILES_MAX &&
                    segment->fs->open(segment->fs, segment->path, OL_OPEN_READ, &segment->file,
                                      &ignored) == OL_OK;
    if (!segment->kept) atomic_fetch_sub(&kept_files, 1);
}

void ol_segment_detach(ol_segment *segment) {
    pthread_mutex_lock(&segment->lock);
    atomic_store(&segment->detached, true);
    if (segment->users > 0 && segment->file == NULL) keep_file(segment);
    pthread_mutex_unlock(&segment->lock);
}

static int choose_append(ol_segment *segment, ol_file *file, ol_append append, ol_error *error) {
    bool keeps = append == OL_APPEND_MAPPED;
    int status = OL_OK;
    if (append == OL_APPEND_AUTO) status = segment->fs->keeps_pages(file, &keeps, error);
    segment->is_written = !keeps;
    return status;
}

static int make_data(ol_segment *segment, ol_file *file, size_t size, ol_error *error) {
    void *data = NULL;
    int status = OL_OK;
    if (!segment->is_written) {
        status = segment->fs->map(file, size, &data, error);
    } else if ((data = ol_pages_reserve(size)) == NULL) {
        status = ol_fail(error, OL_NO_MEMORY, "no memory to write a segment of %zu bytes", size);
    }
    segment->data = data;
    segment->mapped_size = data != NULL ? size : 0;
    return status;
}

int ol_segment_use_writable(ol_segment *segment, ol_file *file, size_t mapped_size,
                            ol_append append, ol_error *error) {
    OL_ASSERT(segment->users == 0);
    int status = OL_OK;
    if (file == NULL) {
        status = segment->fs->open(segment->fs, segment->path, OL_OPEN_WRITE, &file, error);
    }
    if (status != OL_OK) return status;
    status = choose_append(segment, file, append, error);
    if (status == OL_OK) status = make_data(segment, file, mapped_size, error);
    if (status != OL_OK) {
        segment->is_written = false;
        segment->fs->close(file);
        return status;
    }
    segment->file = file;
    segment->given_back = 0;
    segment->users = 1;
    segment->references++;
    return OL_OK;
}

void ol_segment_use_aside(ol_segment *segment, ol_file *file, int64_t size) {
    OL_ASSERT(segment->users == 0);
    segment->file = file;
    atomic_store(&segment->size, size);
    atomic_store(&segment->extended, size);
    atomic_store(&segment->populated, size);
    segment->users = 1;
    segment->references++;
}

/* Another process may have truncated the file.  Acknowledged bytes are then gone, and extending the
 * file would replace them by zeros. */
int ol_segment_check_length(ol_segment *segment, int64_t length, ol_error *error) {
    int64_t size = 0;
    int status = segment->fs->size(segment->file, &size, error);
    if (status != OL_OK || size >= length) return status;
    const char *said = length > atomic_load(&segment->size) ? "was extended to" : "its segment has";
    (void)ol_fail(error, OL_IO, "the file is %lld bytes long, but %s %lld bytes", (long long)size,
                  said, (long long)length);
    return ol_error_at(error, segment->path, size);
}

int ol_segment_check_mapping(ol_segment *segment, ol_error *error) {
    if (segment->is_written) return OL_OK;
    int64_t extended = atomic_load_explicit(&segment->extended, memory_order_acquire);
    return ol_segment_check_length(segment, extended, error);
}

int ol_segment_extend(ol_segment *segment, int64_t to, bool written, ol_error *error) {
    int64_t from = atomic_load_explicit(&segment->extended, memory_order_relaxed);
    int64_t populated = atomic_load_explicit(&segment->populated, memory_order_relaxed);
    OL_ASSERT(to <= (int64_t)segment->mapped_size);
    if (to > from) {
        ol_growth growth = written ? OL_GROW_WRITTEN : OL_GROW_ALLOCATED;
        /* A copy-on-write file system allocates new blocks when written zeros are replaced. */
        if (segment->is_written) growth = OL_GROW_IF_CHEAP;
        /* An extension would hide that the file was truncated. */
        int64_t length = segment->is_written ? atomic_load(&segment->size) : from;
        int status = ol_segment_check_length(segment, length, error);
        if (status == OL_OK) {
            status = segment->fs->extend(segment->file, from, to, growth, error);
        }
        if (status != OL_OK) return status;
        atomic_store_explicit(&segment->extended, to, memory_order_release);
        from = to;
    }
    if (populated >= from) return OL_OK;
    if (!segment->is_written) {
        int status = segment->fs->populate(segment->file, segment->data, (size_t)populated,
                                           (size_t)from, error);
        if (status != OL_OK) return status;
    }
    atomic_store_explicit(&segment->populated, from, memory_order_release);
    return OL_OK;
}

/* A failed write may have left the first bytes of the batch after the end of the log.  The next
 * open must find neither a batch that was refused nor half of one. */
static int take_back(ol_segment *segment, int64_t position, ol_error *error) {
    int64_t size = 0;
    ol_error ignored;
    int64_t written_end = error->position;
    if (written_end <= position) return error->status;
    int status = segment->fs->size(segment->file, &size, &ignored);
    if (written_end > size) written_end = size;
    if (status == OL_OK && written_end > position) {
        status = segment->fs->write(segment->file, position, segment->data + position,
                                    (size_t)(written_end - position), &ignored);
    }
    if (status == OL_OK || status == OL_CRASHED) return error->status;
    (void)ol_fail(error, OL_FAILED,
                  "the batch of a failed write cannot be removed from the file: %.200s",
                  ignored.reason);
    return ol_error_at(error, segment->path, position);
}

enum { GIVE_BACK_BYTES = 256 << 10 };

/* A writer needs the memory of the last batches only. */
static void give_back(ol_segment *segment, int64_t position) {
    if (position - segment->given_back < GIVE_BACK_BYTES) return;
    segment->given_back += (int64_t)ol_pages_give_back(
        segment->data + segment->given_back, (size_t)(position - segment->given_back));
}

int ol_segment_write(ol_segment *segment, int64_t position, size_t size, ol_error *error) {
    if (!segment->is_written) return OL_OK;
    uint8_t *data = segment->data + position;
    int status = ol_segment_check_length(segment, position, error);
    bool is_there = status == OL_OK;
    if (is_there) status = segment->fs->write(segment->file, position, data, size, error);
    if (status == OL_OK) {
        give_back(segment, position);
        return OL_OK;
    }
    memset(data, 0, size);
    return is_there ? take_back(segment, position, error) : status;
}

int ol_segment_flush_range(ol_segment *segment, int64_t from, int64_t to, ol_error *error) {
    if (segment->is_written || segment->data == NULL || to == 0) {
        return segment->fs->flush(segment->file, error);
    }
    OL_ASSERT(to <= (int64_t)segment->mapped_size);
    return segment->fs->flush_range(segment->file, segment->data, from, to, error);
}

int ol_segment_begin_flush_range(ol_segment *segment, int64_t from, int64_t to, ol_error *error) {
    if (segment->is_written || segment->fs->begin_flush_range == NULL) return OL_OK;
    return segment->fs->begin_flush_range(segment->file, segment->data, from, to, error);
}

static int index_path(const ol_segment *segment, const char *suffix, const char *ending,
                      char path[OL_PATH_MAX], ol_error *error) {
    char both[64];
    snprintf(both, sizeof both, "%s%s", suffix, ending);
    return ol_segment_path(path, OL_PATH_MAX, segment->directory, segment->base_offset, both,
                           error);
}

static int open_transactions(ol_segment *segment, const char *ending, bool is_rebuilt,
                             ol_error *error) {
    char path[OL_PATH_MAX];
    int status = index_path(segment, ".txnindex", ending, path, error);
    if (status != OL_OK) return status;
    if (is_rebuilt) {
        return ol_transaction_index_begin(&segment->transaction_index, segment->fs, path,
                                          segment->base_offset, error);
    }
    return ol_transaction_index_open(&segment->transaction_index, segment->fs, path,
                                     segment->base_offset, true, error);
}

static int open_indexes(ol_segment *segment, size_t index_bytes_max, const char *ending,
                        bool is_rebuilt, ol_error *error) {
    OL_ASSERT(!segment->indexes_open);
    char path[OL_PATH_MAX];
    int status = index_path(segment, ".index", ending, path, error);
    if (status != OL_OK) return status;
    status = ol_index_open(&segment->offset_index, segment->fs, path, OL_INDEX_OFFSET,
                           segment->base_offset, index_bytes_max, OL_INDEX_APPEND, error);
    if (status != OL_OK) return status;
    status = index_path(segment, ".timeindex", ending, path, error);
    if (status == OL_OK) {
        status = ol_index_open(&segment->time_index, segment->fs, path, OL_INDEX_TIME,
                               segment->base_offset, index_bytes_max, OL_INDEX_APPEND, error);
    }
    if (status == OL_OK) {
        status = open_transactions(segment, ending, is_rebuilt, error);
        if (status != OL_OK) ol_index_close(&segment->time_index);
    }
    if (status != OL_OK) {
        ol_index_close(&segment->offset_index);
        return status;
    }
    segment->indexes_open = true;
    return OL_OK;
}

int ol_segment_open_indexes_aside(ol_segment *segment, size_t index_bytes_max, const char *ending,
                                  ol_error *error) {
    return open_indexes(segment, index_bytes_max, ending, false, error);
}

int ol_segment_open_indexes(ol_segment *segment, size_t index_bytes_max, ol_error *error) {
    return open_indexes(segment, index_bytes_max, "", false, error);
}

int ol_segment_open_indexes_emptied(ol_segment *segment, size_t index_bytes_max, ol_error *error) {
    return open_indexes(segment, index_bytes_max, "", true, error);
}

void ol_segment_close_indexes(ol_segment *segment) {
    if (!segment->indexes_open) return;
    segment->indexes_open = false;
    ol_index_close(&segment->offset_index);
    ol_index_close(&segment->time_index);
    ol_transaction_index_close(&segment->transaction_index);
}

void ol_segment_append_entries(ol_segment *segment, int64_t position, int64_t last_offset,
                               bool *full) {
    ol_error ignored;
    pthread_mutex_lock(&segment->lock);
    int status = ol_offset_index_append(&segment->offset_index, last_offset, position, &ignored);
    if (status == OL_OK && segment->max_timestamp >= 0) {
        status = ol_time_index_append(&segment->time_index, segment->max_timestamp,
                                      segment->max_timestamp_offset, false, &ignored);
    }
    (void)status;
    if (full != NULL) {
        *full = ol_index_is_full(&segment->offset_index) || ol_index_is_full(&segment->time_index);
    }
    pthread_mutex_unlock(&segment->lock);
}

int ol_segment_finish_indexes(ol_segment *segment, ol_error *error) {
    OL_ASSERT(segment->indexes_open);
    pthread_mutex_lock(&segment->lock);
    if (segment->max_timestamp >= 0) {
        ol_error ignored;
        int full = ol_time_index_append(&segment->time_index, segment->max_timestamp,
                                        segment->max_timestamp_offset, true, &ignored);
        (void)full;
    }
    int status = ol_index_trim(&segment->offset_index, error);
    if (status == OL_OK) status = ol_index_trim(&segment->time_index, error);
    pthread_mutex_unlock(&segment->lock);
    return status;
}

int ol_segment_flush(ol_segment *segment, ol_error *error) {
    int status = ol_segment_flush_range(segment, 0, atomic_load(&segment->size), error);
    if (status != OL_OK || !segment->indexes_open) return status;
    /* Only the indexes of a segment that is no longer appended to are flushed, so the lock is held
     * against lookups alone. */
    pthread_mutex_lock(&segment->lock);
    status = ol_index_flush(&segment->offset_index, error);
    if (status == OL_OK) status = ol_index_flush(&segment->time_index, error);
    if (status == OL_OK) status = ol_transaction_index_flush(&segment->transaction_index, error);
    pthread_mutex_unlock(&segment->lock);
    return status;
}

int ol_segment_flush_entries(ol_segment *segment, bool *is_named, ol_error *error) {
    ol_transaction_index *aborted = &segment->transaction_index;
    ol_file *file = NULL;
    pthread_mutex_lock(&segment->lock);
    /* Entries that cannot be written stay in memory. */
    int status = ol_index_write(&segment->offset_index, error);
    if (status != OL_CRASHED) status = ol_index_write(&segment->time_index, error);
    /* While there are entries, their file stays open until the segment is flushed and closed, which
     * the caller excludes. */
    if (aborted->is_dirty && aborted->count > 0) file = aborted->file;
    aborted->is_dirty = aborted->is_dirty && file == NULL;
    *is_named = file != NULL && aborted->is_new;
    if (file != NULL) aborted->is_new = false;
    pthread_mutex_unlock(&segment->lock);
    if (status == OL_CRASHED) return status;
    /* Without the lock: the writer takes it for each entry. */
    return file != NULL ? segment->fs->flush(file, error) : OL_OK;
}

int ol_segment_remove_files(ol_fs *fs, const char *directory, int64_t base_offset,
                            ol_error *error) {
    /* The .log is removed first: the next open removes an index without its log, but would keep a
     * log without its indexes. */
    static const char *const suffixes[] = {".log", ".index", ".timeindex", ".txnindex"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char path[OL_PATH_MAX];
        int status = ol_segment_path(path, sizeof path, directory, base_offset, suffixes[i], error);
        if (status == OL_OK) status = fs->remove(fs, path, error);
        if (status != OL_OK && status != OL_NO_SUCH_FILE) return status;
    }
    return OL_OK;
}

int64_t ol_segment_lookup(ol_segment *segment, int64_t offset) {
    ol_error ignored;
    int64_t found_offset = 0;
    int64_t position = 0;
    pthread_mutex_lock(&segment->lock);
    int status;
    if (segment->indexes_open) {
        status = ol_offset_index_lookup(&segment->offset_index, offset, &found_offset, &position,
                                        &ignored);
    } else {
        char path[OL_PATH_MAX];
        ol_index index;
        status = ol_segment_path(path, sizeof path, segment->directory, segment->base_offset,
                                 ".index", &ignored);
        if (status == OL_OK) {
            status = ol_index_open(&index, segment->fs, path, OL_INDEX_OFFSET, segment->base_offset,
                                   (size_t)10 << 20, OL_INDEX_READ, &ignored);
        }
        if (status == OL_OK) {
            status = ol_offset_index_lookup(&index, offset, &found_offset, &position, &ignored);
            ol_index_close(&index);
        }
    }
    pthread_mutex_unlock(&segment->lock);
    return status == OL_OK && position >= 0 ? position : 0;
}

void ol_segment_abandon(ol_segment *segment) {
    if (segment->file != NULL) segment->fs->close(segment->file);
    ol_segment_close_indexes(segment);
    free(segment->path);
    free(segment->directory);
    free(segment);
}
