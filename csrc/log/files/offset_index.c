/* Implements both indexes.  Each is an array of entries in a file, and has a block of new entries
 * in memory. */
#include "log/files/offset_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { CHECK_BLOCK_SIZE = 12 * 8 * 1024 };      /* a multiple of both entry sizes */

typedef struct index_entry {
    int64_t key;                /* compared by a lookup: the offset, or the timestamp */
    int64_t offset;             /* absolute */
    int64_t position;           /* offset index only, else 0 */
} index_entry;

static size_t entry_size_of(ol_index_kind kind) {
    return kind == OL_INDEX_OFFSET ? OL_OFFSET_INDEX_ENTRY_SIZE : OL_TIME_INDEX_ENTRY_SIZE;
}

/* Base offsets come from file names and may be any 63-bit number; a hostile entry must not overflow
 * the sum. */
static int64_t absolute_offset(int64_t base_offset, int32_t relative) {
    int64_t offset;
    return __builtin_add_overflow(base_offset, (int64_t)relative, &offset) ? INT64_MAX : offset;
}

static index_entry decode_entry(ol_index_kind kind, int64_t base_offset, const uint8_t *bytes) {
    index_entry entry;
    if (kind == OL_INDEX_OFFSET) {
        entry.offset = absolute_offset(base_offset, ol_load_i32(bytes));
        entry.position = ol_load_i32(bytes + 4);
        entry.key = entry.offset;
    } else {
        entry.key = ol_load_i64(bytes);
        entry.offset = absolute_offset(base_offset, ol_load_i32(bytes + 8));
        entry.position = 0;
    }
    return entry;
}

static bool is_zero(const uint8_t *bytes, size_t size) {
    uint8_t all = 0;
    for (size_t i = 0; i < size; i++) all |= bytes[i];
    return all == 0;
}

static int read_exactly(const ol_index *index, size_t first, size_t count, uint8_t *bytes,
                        ol_error *error) {
    size_t got;
    int64_t position = (int64_t)(first * index->entry_size);
    int status = index->fs->read(index->file, position, bytes, count * index->entry_size, &got,
                                 error);
    if (status != OL_OK) return status;
    if (got == count * index->entry_size) return OL_OK;
    /* Another process may have truncated the file of a running broker. */
    ol_fail(error, OL_CORRUPT, "the index ended at %zu entries while it was read",
            first + got / index->entry_size);
    return ol_error_at(error, index->path, position + (int64_t)got);
}

static int read_entry(const ol_index *index, size_t at, uint8_t *bytes, ol_error *error) {
    OL_ASSERT(at < index->count);
    if (at < index->stored) return read_exactly(index, at, 1, bytes, error);
    memcpy(bytes, index->pending + (at - index->stored) * index->entry_size, index->entry_size);
    return OL_OK;
}

/* No entry in use is all zeros: the first batch of a segment has none, so an entry's position is
 * not 0, and a timestamp of 0 would belong to 1970.  Zeros only follow entries, so the number of
 * used entries is found by binary search. */
static int find_used(ol_index *index, size_t entry_count, ol_error *error) {
    size_t low = 0, high = entry_count;
    uint8_t bytes[OL_TIME_INDEX_ENTRY_SIZE];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int status = read_exactly(index, middle, 1, bytes, error);
        if (status != OL_OK) return status;
        if (is_zero(bytes, index->entry_size)) high = middle;
        else low = middle + 1;
    }
    index->count = index->stored = low;
    return OL_OK;
}

static int load_last(ol_index *index, ol_error *error) {
    uint8_t bytes[OL_TIME_INDEX_ENTRY_SIZE];
    index->last_offset = index->base_offset;
    index->last_timestamp = -1;
    if (index->count == 0) return OL_OK;
    int status = read_entry(index, index->count - 1, bytes, error);
    if (status != OL_OK) return status;
    index_entry last = decode_entry(index->kind, index->base_offset, bytes);
    index->last_offset = last.offset;
    if (index->kind == OL_INDEX_TIME) index->last_timestamp = last.key;
    return OL_OK;
}

static int prepare(ol_index *index, const char *path, size_t size_max, ol_error *error) {
    int64_t size;
    index->path = strdup(path);
    if (index->path == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for an index");
    if (index->mode == OL_INDEX_APPEND) {
        index->pending = malloc(OL_INDEX_BLOCK_ENTRIES * index->entry_size);
        if (index->pending == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for an index");
    }
    int status = index->fs->size(index->file, &size, error);
    if (status == OL_OK) status = find_used(index, (size_t)size / index->entry_size, error);
    if (status == OL_OK) status = load_last(index, error);
    index->capacity = size_max / index->entry_size;
    if (index->capacity < index->count) index->capacity = index->count;
    return status;
}

int ol_index_open(ol_index *index, ol_fs *fs, const char *path, ol_index_kind kind,
                  int64_t base_offset, size_t size_max, ol_index_mode mode, ol_error *error) {
    OL_ASSERT(base_offset >= 0);
    memset(index, 0, sizeof *index);
    index->fs = fs;
    index->kind = kind;
    index->mode = mode;
    index->entry_size = entry_size_of(kind);
    index->base_offset = base_offset;
    int status = fs->open(fs, path, mode == OL_INDEX_APPEND ? OL_OPEN_CREATE : OL_OPEN_READ,
                          &index->file, error);
    if (status != OL_OK) return status;
    status = prepare(index, path, size_max, error);
    if (status != OL_OK) ol_index_close(index);
    return status;
}

void ol_index_close(ol_index *index) {
    if (index->file != NULL) index->fs->close(index->file);
    free(index->pending);
    free(index->path);
    memset(index, 0, sizeof *index);
}

bool ol_index_is_full(const ol_index *index) {
    size_t kept = index->kind == OL_INDEX_TIME ? 1 : 0;
    return index->count + kept >= index->capacity;
}

/* ------------------------------------------------------------ writing */

static int write_pending(ol_index *index, ol_error *error) {
    size_t waiting = index->count - index->stored;
    if (waiting == 0) return OL_OK;
    int64_t position = (int64_t)(index->stored * index->entry_size);
    int status = index->fs->write(index->file, position, index->pending,
                                  waiting * index->entry_size, error);
    if (status == OL_OK) index->stored = index->count;
    return status;
}

/* Makes space for one more entry in memory.  False: the block is full and cannot be written, so the
 * entry is dropped.  That only makes lookups slower, and a commit must not fail because of it. */
static bool make_room(ol_index *index) {
    ol_error error;
    if (index->count - index->stored < OL_INDEX_BLOCK_ENTRIES) return true;
    if (write_pending(index, &error) == OL_OK) return true;
    index->dropped++;
    return false;
}

static uint8_t *next_slot(ol_index *index) {
    return index->pending + (index->count - index->stored) * index->entry_size;
}

/* Checks an appended offset by the rules of both kinds; only in a time index may it equal the last
 * one. */
static int check_append(const ol_index *index, int64_t offset, bool full, ol_error *error) {
    if (index->mode != OL_INDEX_APPEND) {
        return ol_fail(error, OL_READ_ONLY, "the index was opened for reading only");
    }
    if (offset < index->base_offset || offset - index->base_offset > INT32_MAX) {
        return ol_fail(error, OL_INVALID, "offset %lld does not fit a segment with base %lld",
                       (long long)offset, (long long)index->base_offset);
    }
    bool grows = index->kind == OL_INDEX_TIME ? offset >= index->last_offset
                                              : offset > index->last_offset;
    if (index->count > 0 && !grows) {
        return ol_fail(error, OL_INVALID,
                       "offset %lld is not above the last one, %lld", (long long)offset,
                       (long long)index->last_offset);
    }
    if (full) return ol_fail(error, OL_LIMIT, "the index is full at %zu entries", index->count);
    return OL_OK;
}

int ol_offset_index_append(ol_index *index, int64_t offset, int64_t position, ol_error *error) {
    OL_ASSERT(index->kind == OL_INDEX_OFFSET);
    int status = check_append(index, offset, index->count >= index->capacity, error);
    if (status != OL_OK) return status;
    /* An entry of zeros would read as unused; it adds nothing to an empty index. */
    if (position < 0 || position > INT32_MAX || (position == 0 && offset == index->base_offset)) {
        return ol_fail(error, OL_INVALID, "position %lld does not fit an index entry",
                       (long long)position);
    }
    if (!make_room(index)) return OL_OK;
    uint8_t *slot = next_slot(index);
    ol_store_i32(slot, (int32_t)(offset - index->base_offset));
    ol_store_i32(slot + 4, (int32_t)position);
    index->count++;
    index->last_offset = offset;
    return OL_OK;
}

int ol_time_index_append(ol_index *index, int64_t timestamp, int64_t offset, bool at_roll,
                         ol_error *error) {
    OL_ASSERT(index->kind == OL_INDEX_TIME);
    if (timestamp <= index->last_timestamp) return OL_OK;
    bool full = at_roll ? index->count >= index->capacity : ol_index_is_full(index);
    int status = check_append(index, offset, full, error);
    if (status != OL_OK) return status;
    /* As above: zeros read as unused. */
    if (timestamp == 0 && offset == index->base_offset) return OL_OK;
    if (!make_room(index)) return OL_OK;
    uint8_t *slot = next_slot(index);
    ol_store_i64(slot, timestamp);
    ol_store_i32(slot + 8, (int32_t)(offset - index->base_offset));
    index->count++;
    index->last_offset = offset;
    index->last_timestamp = timestamp;
    return OL_OK;
}

int ol_index_trim(ol_index *index, ol_error *error) {
    if (index->mode != OL_INDEX_APPEND) {
        return ol_fail(error, OL_READ_ONLY, "the index was opened for reading only");
    }
    int status = write_pending(index, error);
    if (status != OL_OK) return status;
    int64_t size, used = (int64_t)(index->count * index->entry_size);
    status = index->fs->size(index->file, &size, error);
    if (status == OL_OK && size != used) status = index->fs->truncate(index->file, used, error);
    return status;
}

int ol_index_write(ol_index *index, ol_error *error) { return write_pending(index, error); }

int ol_index_flush(ol_index *index, ol_error *error) {
    if (index->mode != OL_INDEX_APPEND) {
        return ol_fail(error, OL_READ_ONLY, "the index was opened for reading only");
    }
    int status = write_pending(index, error);
    return status == OL_OK ? index->fs->flush(index->file, error) : status;
}

/* Shortens the index to `count` entries, in the file as well, so that later bytes cannot be taken
 * for entries. */
static int cut(ol_index *index, size_t count, ol_error *error) {
    size_t stored = count < index->stored ? count : index->stored;
    int64_t size, used = (int64_t)(stored * index->entry_size);
    int status = index->fs->size(index->file, &size, error);
    if (status == OL_OK && size > used) status = index->fs->truncate(index->file, used, error);
    if (status != OL_OK) return status;
    index->count = count;
    index->stored = stored;
    return load_last(index, error);
}

int ol_index_reset(ol_index *index, ol_error *error) {
    if (index->mode != OL_INDEX_APPEND) {
        return ol_fail(error, OL_READ_ONLY, "the index was opened for reading only");
    }
    index->dropped = 0;
    return cut(index, 0, error);
}

int ol_index_truncate(ol_index *index, int64_t offset, int64_t log_size, ol_error *error) {
    uint8_t bytes[OL_TIME_INDEX_ENTRY_SIZE];
    if (index->mode != OL_INDEX_APPEND) {
        return ol_fail(error, OL_READ_ONLY, "the index was opened for reading only");
    }
    size_t low = 0, high = index->count;
    /* Offsets and positions both grow, so the entries to drop are at the end. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int status = read_entry(index, middle, bytes, error);
        if (status != OL_OK) return status;
        index_entry entry = decode_entry(index->kind, index->base_offset, bytes);
        bool goes = entry.offset >= offset ||
                    (index->kind == OL_INDEX_OFFSET && entry.position >= log_size);
        if (goes) high = middle;
        else low = middle + 1;
    }
    return low == index->count ? OL_OK : cut(index, low, error);
}

/* ------------------------------------------------------------ lookups */

/* Finds the greatest entry whose key is at or below `target`; *found is false when there is
 * none. */
static int find_floor(const ol_index *index, int64_t target, index_entry *result, bool *found,
                      ol_error *error) {
    uint8_t bytes[OL_TIME_INDEX_ENTRY_SIZE];
    size_t low = 0, high = index->count;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int status = read_entry(index, middle, bytes, error);
        if (status != OL_OK) return status;
        index_entry entry = decode_entry(index->kind, index->base_offset, bytes);
        if (entry.key > target) {
            high = middle;
        } else {
            *result = entry;
            *found = true;
            low = middle + 1;
        }
    }
    return OL_OK;
}

int ol_offset_index_lookup(const ol_index *index, int64_t target, int64_t *offset,
                           int64_t *position, ol_error *error) {
    index_entry entry;
    bool found;
    OL_ASSERT(index->kind == OL_INDEX_OFFSET);
    int status = find_floor(index, target, &entry, &found, error);
    if (status != OL_OK) return status;
    /* A damaged entry may hold anything; an impossible value counts as no entry. */
    bool usable = found && entry.offset >= index->base_offset && entry.position >= 0;
    *offset = usable ? entry.offset : index->base_offset;
    *position = usable ? entry.position : 0;
    return OL_OK;
}

int ol_time_index_lookup(const ol_index *index, int64_t target, int64_t *timestamp, int64_t *offset,
                         ol_error *error) {
    index_entry entry;
    bool found;
    OL_ASSERT(index->kind == OL_INDEX_TIME);
    int status = find_floor(index, target, &entry, &found, error);
    if (status != OL_OK) return status;
    bool usable = found && entry.offset >= index->base_offset;
    *timestamp = usable ? entry.key : -1;
    *offset = usable ? entry.offset : index->base_offset;
    return OL_OK;
}

/* ------------------------------------------------------------ checking */

typedef struct index_checker {
    ol_index_kind kind;
    int64_t base_offset;
    int64_t log_size;
    int64_t next_offset;
    index_entry previous;
    size_t count;
    bool in_zeros;
} index_checker;

static const char *entry_fault(const index_checker *checker, const index_entry *entry) {
    bool is_first = checker->count == 0;
    const index_entry *previous = &checker->previous;
    if (entry->offset < checker->base_offset) return "its offset is below the segment's base";
    if (entry->offset >= checker->next_offset) return "its offset is after the end of the segment";
    if (checker->kind == OL_INDEX_OFFSET) {
        if (entry->position < 0) return "its position is negative";
        if (entry->position >= checker->log_size) {
            return "its position is after the end of the log";
        }
        if (!is_first && entry->offset <= previous->offset) return "its offset does not grow";
        if (!is_first && entry->position <= previous->position) return "its position does not grow";
        return NULL;
    }
    if (entry->key < 0) return "its timestamp is negative";
    if (!is_first && entry->key <= previous->key) return "its timestamp does not grow";
    if (!is_first && entry->offset < previous->offset) return "its offset goes back";
    return NULL;
}

/* Checks the entries of one block of the file. */
static int check_block(index_checker *checker, const uint8_t *bytes, size_t count,
                       ol_error *error) {
    size_t entry_size = entry_size_of(checker->kind);
    for (size_t i = 0; i < count; i++, checker->count++) {
        const uint8_t *at = bytes + i * entry_size;
        const char *fault = NULL;
        if (is_zero(at, entry_size)) {
            checker->in_zeros = true;
            continue;
        }
        index_entry entry = decode_entry(checker->kind, checker->base_offset, at);
        fault = checker->in_zeros ? "it follows zeros" : entry_fault(checker, &entry);
        if (fault != NULL) {
            ol_fail(error, OL_CORRUPT, "index entry %zu: %s", checker->count, fault);
            return ol_error_at(error, NULL, (int64_t)(checker->count * entry_size));
        }
        checker->previous = entry;
    }
    return OL_OK;
}

static int check_size(ol_index_kind kind, int64_t size, ol_error *error) {
    int64_t excess = size % (int64_t)entry_size_of(kind);
    if (excess == 0) return OL_OK;
    ol_fail(error, OL_CORRUPT, "the size %lld is not a multiple of %zu", (long long)size,
            entry_size_of(kind));
    return ol_error_at(error, NULL, size - excess);
}

int ol_index_check_bytes(ol_index_kind kind, ol_slice bytes, int64_t base_offset, int64_t log_size,
                         int64_t next_offset, ol_error *error) {
    index_checker checker = {.kind = kind,
                             .base_offset = base_offset,
                             .log_size = log_size,
                             .next_offset = next_offset};
    int status = check_block(&checker, bytes.data, bytes.size / entry_size_of(kind), error);
    return status == OL_OK ? check_size(kind, (int64_t)bytes.size, error) : status;
}

/* Checks a file block by block, because fresh pages for a whole index cost more than the check. */
static int check_file(ol_fs *fs, ol_file *file, int64_t size_max, index_checker *checker,
                      ol_error *error) {
    uint8_t *block = malloc(CHECK_BLOCK_SIZE);
    if (block == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to check an index");
    int64_t size, position = 0;
    int status = fs->size(file, &size, error);
    if (status == OL_OK && size > size_max) {
        status = ol_fail(error, OL_CORRUPT, "an index cannot have %lld bytes",
                         (long long)size);
    }
    while (status == OL_OK && position < size) {
        size_t got;
        status = fs->read(file, position, block, CHECK_BLOCK_SIZE, &got, error);
        if (status != OL_OK || got == 0) break;
        status = check_block(checker, block, got / entry_size_of(checker->kind), error);
        position += (int64_t)got;
    }
    free(block);
    return status == OL_OK ? check_size(checker->kind, size, error) : status;
}

int ol_index_check_file(ol_index_kind kind, ol_fs *fs, const char *path, int64_t size_max,
                        int64_t base_offset, int64_t log_size, int64_t next_offset,
                        ol_error *error) {
    index_checker checker = {.kind = kind,
                             .base_offset = base_offset,
                             .log_size = log_size,
                             .next_offset = next_offset};
    ol_file *file = NULL;
    int status = fs->open(fs, path, OL_OPEN_READ, &file, error);
    if (status != OL_OK) return status;
    status = check_file(fs, file, size_max, &checker, error);
    fs->close(file);
    return status;
}

int ol_index_check(const ol_index *index, int64_t log_size, int64_t next_offset, ol_error *error) {
    index_checker checker = {.kind = index->kind,
                             .base_offset = index->base_offset,
                             .log_size = log_size,
                             .next_offset = next_offset};
    int status = check_file(index->fs, index->file, INT64_MAX, &checker, error);
    if (status == OL_OK && index->count > index->stored) {
        checker.in_zeros = false;
        checker.count = index->stored;
        status = check_block(&checker, index->pending, index->count - index->stored, error);
    }
    return status == OL_OK ? OL_OK : ol_error_at(error, index->path, error->position);
}
