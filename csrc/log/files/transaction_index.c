/* Keeps the entries in an array in memory, and writes each append to the file. */
#include "log/files/transaction_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { KEPT_BYTES = 4096 };     /* space is kept by the block of a file system */

enum {
    AT_VERSION = 0,
    AT_PRODUCER_ID = 2,
    AT_FIRST_OFFSET = 10,
    AT_LAST_OFFSET = 18,
    AT_LAST_STABLE_OFFSET = 26
};

void ol_transaction_index_encode(uint8_t *target, const ol_aborted_transaction *entry) {
    ol_store_i16(target + AT_VERSION, 0);
    ol_store_i64(target + AT_PRODUCER_ID, entry->producer_id);
    ol_store_i64(target + AT_FIRST_OFFSET, entry->first_offset);
    ol_store_i64(target + AT_LAST_OFFSET, entry->last_offset);
    ol_store_i64(target + AT_LAST_STABLE_OFFSET, entry->last_stable_offset);
}

static ol_aborted_transaction decode(const uint8_t *bytes) {
    return (ol_aborted_transaction){
        .producer_id = ol_load_i64(bytes + AT_PRODUCER_ID),
        .first_offset = ol_load_i64(bytes + AT_FIRST_OFFSET),
        .last_offset = ol_load_i64(bytes + AT_LAST_OFFSET),
        .last_stable_offset = ol_load_i64(bytes + AT_LAST_STABLE_OFFSET),
    };
}

/* The first offset may be below the base, if the transaction began in an earlier segment. */
static const char *entry_fault(const ol_aborted_transaction *entry, int64_t base_offset,
                               int64_t previous_last) {
    if (entry->producer_id < 0) return "its producer id is negative";
    if (entry->first_offset < 0 || entry->first_offset > entry->last_offset) {
        return "its first offset is negative or above its last offset";
    }
    if (entry->last_offset < base_offset) return "its last offset is below the segment's base";
    if (entry->last_offset <= previous_last) return "its last offset is not above the one before";
    return NULL;
}

int ol_transaction_index_parse(ol_slice bytes, int64_t base_offset, ol_aborted_transaction *entries,
                               ol_error *error) {
    size_t count = bytes.size / OL_TRANSACTION_INDEX_ENTRY_SIZE;
    int64_t previous_last = -1;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = bytes.data + i * OL_TRANSACTION_INDEX_ENTRY_SIZE;
        ol_aborted_transaction entry = decode(at);
        const char *fault = ol_load_i16(at) != 0 ? "its version is not 0"
                                                 : entry_fault(&entry, base_offset, previous_last);
        if (fault != NULL) {
            ol_fail(error, OL_CORRUPT, "aborted transaction %zu: %s", i, fault);
            return ol_error_at(error, NULL, (int64_t)(i * OL_TRANSACTION_INDEX_ENTRY_SIZE));
        }
        if (entries != NULL) entries[i] = entry;
        previous_last = entry.last_offset;
    }
    if (bytes.size % OL_TRANSACTION_INDEX_ENTRY_SIZE == 0) return OL_OK;
    ol_fail(error, OL_CORRUPT, "the size %zu is not a multiple of %d", bytes.size,
            OL_TRANSACTION_INDEX_ENTRY_SIZE);
    return ol_error_at(error, NULL, (int64_t)(count * OL_TRANSACTION_INDEX_ENTRY_SIZE));
}

static int load_entries(ol_transaction_index *index, ol_error *error) {
    uint8_t *bytes;
    size_t size;
    int status = ol_fs_read_file(index->fs, index->path, OL_TRANSACTION_INDEX_SIZE_MAX, &bytes,
                                 &size, error);
    if (status != OL_OK) return status;
    size_t count = size / OL_TRANSACTION_INDEX_ENTRY_SIZE;
    index->entries = malloc((count == 0 ? 1 : count) * sizeof *index->entries);
    if (index->entries == NULL) {
        free(bytes);
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu aborted transactions", count);
    }
    status = ol_transaction_index_parse(ol_slice_of(bytes, size), index->base_offset,
                                        index->entries, error);
    free(bytes);
    if (status != OL_OK) return ol_error_at(error, index->path, error->position);
    index->count = index->kept = count;
    index->capacity = count == 0 ? 1 : count;
    return OL_OK;
}

static int init(ol_transaction_index *index, ol_fs *fs, const char *path, int64_t base_offset,
                bool writable, ol_error *error) {
    memset(index, 0, sizeof *index);
    index->fs = fs;
    index->base_offset = base_offset;
    index->writable = writable;
    index->path = strdup(path);
    return index->path != NULL
               ? OL_OK
               : ol_fail(error, OL_NO_MEMORY, "no memory for a transaction index");
}

int ol_transaction_index_begin(ol_transaction_index *index, ol_fs *fs, const char *path,
                               int64_t base_offset, ol_error *error) {
    int status = init(index, fs, path, base_offset, true, error);
    index->is_kept_back = status == OL_OK;
    return status;
}

int ol_transaction_index_store(ol_transaction_index *index, ol_error *error) {
    OL_ASSERT(index->is_kept_back);
    if (index->count == 0) {
        int status = index->fs->remove(index->fs, index->path, error);
        return status == OL_NO_SUCH_FILE ? OL_OK : status;
    }
    size_t size = index->count * OL_TRANSACTION_INDEX_ENTRY_SIZE;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a transaction index");
    for (size_t i = 0; i < index->count; i++) {
        ol_transaction_index_encode(bytes + i * OL_TRANSACTION_INDEX_ENTRY_SIZE,
                                    &index->entries[i]);
    }
    int status = ol_fs_replace_file(index->fs, index->path, bytes, size, error);
    free(bytes);
    return status;
}

int ol_transaction_index_open(ol_transaction_index *index, ol_fs *fs, const char *path,
                              int64_t base_offset, bool writable, ol_error *error) {
    int status = init(index, fs, path, base_offset, writable, error);
    if (status != OL_OK) return status;
    status = load_entries(index, error);
    if (status == OL_NO_SUCH_FILE) return OL_OK;
    if (status == OL_OK && writable) {
        status = fs->open(fs, path, OL_OPEN_WRITE, &index->file, error);
    }
    if (status != OL_OK) ol_transaction_index_close(index);
    return status;
}

void ol_transaction_index_close(ol_transaction_index *index) {
    if (index->file != NULL) index->fs->close(index->file);
    free(index->entries);
    free(index->path);
    memset(index, 0, sizeof *index);
}

static int make_room(ol_transaction_index *index, size_t more, ol_error *error) {
    if (more <= index->capacity - index->count) return OL_OK;
    size_t capacity = index->capacity == 0 ? 4 : 2 * index->capacity;
    if (capacity < index->count + more) capacity = index->count + more;
    ol_aborted_transaction *entries = realloc(index->entries, capacity * sizeof *entries);
    if (entries == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu aborted transactions", capacity);
    }
    index->entries = entries;
    index->capacity = capacity;
    return OL_OK;
}

static int ensure_file(ol_transaction_index *index, ol_error *error) {
    if (index->file != NULL) return OL_OK;
    int status = index->fs->open(index->fs, index->path, OL_OPEN_CREATE, &index->file, error);
    if (status == OL_OK) index->is_new = true;
    return status;
}

int ol_transaction_index_keep_space(ol_transaction_index *index, size_t more, ol_error *error) {
    size_t needed = index->count + more;
    if (!index->writable) {
        return ol_fail(error, OL_READ_ONLY, "the transaction index was opened for reading only");
    }
    int status = make_room(index, more, error);
    if (status != OL_OK || needed <= index->kept) return status;
    status = ensure_file(index, error);
    if (status != OL_OK) return status;
    /* Space is kept in whole blocks, so an earlier transaction has usually kept the space for this
     * entry already. */
    size_t bytes = needed * OL_TRANSACTION_INDEX_ENTRY_SIZE + KEPT_BYTES - 1;
    bytes -= bytes % KEPT_BYTES;
    status = index->fs->keep_space(index->file, (int64_t)bytes, error);
    if (status == OL_OK) index->kept = bytes / OL_TRANSACTION_INDEX_ENTRY_SIZE;
    return status;
}

int ol_transaction_index_trim(ol_transaction_index *index, ol_error *error) {
    if (index->file == NULL || index->kept <= index->count) return OL_OK;
    index->kept = index->count;
    if (index->count > 0) {
        int64_t size = (int64_t)index->count * OL_TRANSACTION_INDEX_ENTRY_SIZE;
        return index->fs->truncate(index->file, size, error);
    }
    index->fs->close(index->file);
    index->file = NULL;
    return index->fs->remove(index->fs, index->path, error);
}

int ol_transaction_index_append(ol_transaction_index *index, const ol_aborted_transaction *entry,
                                ol_error *error) {
    if (!index->writable) {
        return ol_fail(error, OL_READ_ONLY, "the transaction index was opened for reading only");
    }
    int64_t previous_last = index->count == 0 ? -1 : index->entries[index->count - 1].last_offset;
    const char *fault = entry_fault(entry, index->base_offset, previous_last);
    if (fault != NULL) {
        return ol_fail(error, OL_INVALID, "an aborted transaction cannot be appended: %s", fault);
    }
    int status = make_room(index, 1, error);
    if (status == OL_OK && index->is_kept_back) {
        index->entries[index->count++] = *entry;
        return OL_OK;
    }
    if (status == OL_OK) status = ensure_file(index, error);
    if (status != OL_OK) return status;
    uint8_t bytes[OL_TRANSACTION_INDEX_ENTRY_SIZE];
    ol_transaction_index_encode(bytes, entry);
    int64_t position = (int64_t)index->count * OL_TRANSACTION_INDEX_ENTRY_SIZE;
    status = index->fs->write(index->file, position, bytes, sizeof bytes, error);
    index->is_dirty = true;
    if (status == OL_OK) index->entries[index->count++] = *entry;
    return status;
}

static int cut(ol_transaction_index *index, size_t count, ol_error *error) {
    if (index->file != NULL) {
        int64_t size = (int64_t)count * OL_TRANSACTION_INDEX_ENTRY_SIZE;
        int status = index->fs->truncate(index->file, size, error);
        if (status != OL_OK) return status;
    }
    index->count = index->kept = count;
    index->is_dirty = true;
    return OL_OK;
}

int ol_transaction_index_truncate(ol_transaction_index *index, int64_t offset, ol_error *error) {
    if (!index->writable) {
        return ol_fail(error, OL_READ_ONLY, "the transaction index was opened for reading only");
    }
    size_t count = index->count;
    while (count > 0 && index->entries[count - 1].last_offset >= offset) count--;
    return count == index->count ? OL_OK : cut(index, count, error);
}

int ol_transaction_index_reset(ol_transaction_index *index, ol_error *error) {
    if (!index->writable) {
        return ol_fail(error, OL_READ_ONLY, "the transaction index was opened for reading only");
    }
    return cut(index, 0, error);
}

int ol_transaction_index_flush(ol_transaction_index *index, ol_error *error) {
    if (index->file == NULL) return OL_OK;
    int status = index->fs->flush(index->file, error);
    if (status == OL_OK) index->is_dirty = false;
    return status;
}

int ol_transaction_index_collect(const ol_transaction_index *index, int64_t from, int64_t up_to,
                                 int (*visit)(void *context, const ol_aborted_transaction *entry),
                                 void *context, bool *complete) {
    *complete = false;
    for (size_t i = 0; i < index->count; i++) {
        const ol_aborted_transaction *entry = &index->entries[i];
        if (entry->last_offset >= from && entry->first_offset < up_to) {
            int status = visit(context, entry);
            if (status != OL_OK) return status;
        }
        if (entry->last_stable_offset >= up_to) {
            *complete = true;
            return OL_OK;
        }
    }
    return OL_OK;
}
