/* Encodes and decodes a producer snapshot.  The file has a version, a CRC, a count, and entries of
 * 46 bytes (docs/format/directory.md §1.6). */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "log/files/producers.h"

enum { AT_VERSION = 0, AT_CRC = 2, AT_COUNT = 6, AT_ENTRIES = OL_PRODUCERS_SNAPSHOT_HEADER_SIZE };

/* Byte positions inside an entry. */
enum {
    AT_PRODUCER_ID = 0,
    AT_EPOCH = 8,
    AT_LAST_SEQUENCE = 10,
    AT_LAST_OFFSET = 14,
    AT_OFFSET_DELTA = 22,
    AT_TIMESTAMP = 26,
    AT_COORDINATOR_EPOCH = 34,
    AT_TRANSACTION_FIRST_OFFSET = 38,
};

static void encode_entry(uint8_t *target, const ol_producer *producer) {
    ol_store_i64(target + AT_PRODUCER_ID, producer->producer_id);
    ol_store_i16(target + AT_EPOCH, producer->epoch);
    ol_store_i32(target + AT_LAST_SEQUENCE, producer->last_sequence);
    ol_store_i64(target + AT_LAST_OFFSET, producer->last_offset);
    ol_store_i32(target + AT_OFFSET_DELTA, producer->offset_delta);
    ol_store_i64(target + AT_TIMESTAMP, producer->timestamp);
    ol_store_i32(target + AT_COORDINATOR_EPOCH, producer->coordinator_epoch);
    ol_store_i64(target + AT_TRANSACTION_FIRST_OFFSET, producer->transaction_first_offset);
}

static ol_producer decode_entry(const uint8_t *bytes) {
    return (ol_producer){
        .producer_id = ol_load_i64(bytes + AT_PRODUCER_ID),
        .epoch = ol_load_i16(bytes + AT_EPOCH),
        .last_sequence = ol_load_i32(bytes + AT_LAST_SEQUENCE),
        .last_offset = ol_load_i64(bytes + AT_LAST_OFFSET),
        .offset_delta = ol_load_i32(bytes + AT_OFFSET_DELTA),
        .timestamp = ol_load_i64(bytes + AT_TIMESTAMP),
        .coordinator_epoch = ol_load_i32(bytes + AT_COORDINATOR_EPOCH),
        .transaction_first_offset = ol_load_i64(bytes + AT_TRANSACTION_FIRST_OFFSET),
    };
}

static int compare_entries(const void *a, const void *b) {
    int64_t left = ol_load_i64(a), right = ol_load_i64(b);
    return (left > right) - (left < right);
}

int ol_producers_encode(const ol_producers *producers, uint8_t **bytes, size_t *size,
                        ol_error *error) {
    size_t total = AT_ENTRIES + producers->count * OL_PRODUCERS_SNAPSHOT_ENTRY_SIZE;
    if (total > OL_PRODUCERS_SNAPSHOT_SIZE_MAX) {
        return ol_fail(error, OL_TOO_LARGE, "a snapshot of %zu producers would be too large",
                       producers->count);
    }
    uint8_t *result = malloc(total);
    if (result == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for a snapshot of %zu producers",
                       producers->count);
    }
    uint8_t *at = result + AT_ENTRIES;
    for (size_t i = 0; i < producers->slot_count; i++) {
        if (producers->slots[i].producer_id < 0) continue;
        encode_entry(at, &producers->slots[i]);
        at += OL_PRODUCERS_SNAPSHOT_ENTRY_SIZE;
    }
    OL_ASSERT(at == result + total);
    qsort(result + AT_ENTRIES, producers->count, OL_PRODUCERS_SNAPSHOT_ENTRY_SIZE, compare_entries);
    ol_store_i16(result + AT_VERSION, OL_PRODUCERS_SNAPSHOT_VERSION);
    ol_store_i32(result + AT_COUNT, (int32_t)producers->count);
    ol_store_u32(result + AT_CRC, ol_crc32c(result + AT_COUNT, total - AT_COUNT));
    *bytes = result;
    *size = total;
    return OL_OK;
}

/* Makes the checks that come before any entry is read. */
static int check_frame(ol_slice bytes, size_t *count, ol_error *error) {
    if (bytes.size < AT_ENTRIES) {
        return ol_fail(error, OL_CORRUPT, "a snapshot of %zu bytes has no header", bytes.size);
    }
    int16_t version = ol_load_i16(bytes.data + AT_VERSION);
    if (version != OL_PRODUCERS_SNAPSHOT_VERSION) {
        return ol_fail(error, OL_UNSUPPORTED, "the snapshot has the unknown version %d", version);
    }
    uint32_t stored = ol_load_u32(bytes.data + AT_CRC);
    uint32_t computed = ol_crc32c(bytes.data + AT_COUNT, bytes.size - AT_COUNT);
    if (stored != computed) {
        return ol_fail(error, OL_CORRUPT, "the snapshot has CRC %08x, but its bytes have %08x",
                       stored, computed);
    }
    int32_t said = ol_load_i32(bytes.data + AT_COUNT);
    size_t there = (bytes.size - AT_ENTRIES) / OL_PRODUCERS_SNAPSHOT_ENTRY_SIZE;
    if (said < 0 || (size_t)said != there ||
        (bytes.size - AT_ENTRIES) % OL_PRODUCERS_SNAPSHOT_ENTRY_SIZE != 0) {
        return ol_fail(error, OL_CORRUPT,
                       "the snapshot claims %d producers, but has %zu bytes", said,
                       bytes.size);
    }
    *count = there;
    return OL_OK;
}

/* Decoding takes two passes, because open transactions must be entered in the order of their first
 * offsets, and the file has no order.  Sorting them once keeps a hostile file from costing the
 * square of its size. */
static int compare_open(const void *a, const void *b) {
    const ol_open_transaction *left = a, *right = b;
    return (left->first_offset > right->first_offset) - (left->first_offset < right->first_offset);
}

static int add_entries(ol_producers *producers, ol_slice bytes, size_t count, ol_error *error) {
    for (size_t i = 0; i < count; i++) {
        ol_producer entry = decode_entry(bytes.data + AT_ENTRIES +
                                         i * OL_PRODUCERS_SNAPSHOT_ENTRY_SIZE);
        if (entry.producer_id < 0) {
            return ol_fail(error, OL_CORRUPT, "entry %zu has a negative producer id", i);
        }
        if (ol_producers_find(producers, entry.producer_id) != NULL) {
            return ol_fail(error, OL_CORRUPT, "producer %lld appears more than once",
                           (long long)entry.producer_id);
        }
        if (entry.transaction_first_offset < 0) entry.transaction_first_offset = -1;
        ol_producers_restore(producers, &entry);
    }
    if (producers->open_count > 1) {
        qsort(producers->open, producers->open_count, sizeof *producers->open, compare_open);
    }
    return OL_OK;
}

int ol_producers_decode(ol_producers *producers, ol_slice bytes, ol_error *error) {
    size_t count = 0;
    OL_ASSERT(producers->count == 0);
    int status = check_frame(bytes, &count, error);
    if (status == OL_OK) status = ol_producers_reserve(producers, count, error);
    if (status == OL_OK) status = add_entries(producers, bytes, count, error);
    if (status != OL_OK) ol_producers_clear(producers);
    return status;
}

int ol_producers_load(ol_producers *producers, ol_fs *fs, const char *path, ol_error *error) {
    uint8_t *bytes;
    size_t size;
    int status = ol_fs_read_file(fs, path, OL_PRODUCERS_SNAPSHOT_SIZE_MAX, &bytes, &size, error);
    if (status != OL_OK) return status;
    status = ol_producers_decode(producers, ol_slice_of(bytes, size), error);
    free(bytes);
    return status == OL_OK ? OL_OK : ol_error_at(error, path, -1);
}

static int write_snapshot(ol_fs *fs, const char *path, const uint8_t *bytes, size_t size,
                          bool flush, ol_error *error) {
    ol_file *file;
    int status = fs->open(fs, path, OL_OPEN_CREATE, &file, error);
    if (status != OL_OK) return status;
    status = fs->truncate(file, 0, error);
    if (status == OL_OK) status = fs->write(file, 0, bytes, size, error);
    if (status == OL_OK && flush) status = fs->flush(file, error);
    fs->close(file);
    if (status != OL_OK) {
        /* A file with this name would promise a state. */
        ol_error ignored;
        int removed = fs->remove(fs, path, &ignored);
        (void)removed;
    }
    return status;
}

int ol_producers_store(const ol_producers *producers, ol_fs *fs, const char *path, bool flush,
                       ol_error *error) {
    uint8_t *bytes;
    size_t size;
    int status = ol_producers_encode(producers, &bytes, &size, error);
    if (status != OL_OK) return status;
    status = write_snapshot(fs, path, bytes, size, flush, error);
    free(bytes);
    return status;
}
