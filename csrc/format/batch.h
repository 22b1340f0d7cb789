/* format/batch: record batches of magic 2 and message sets of magic 0 and 1 in a .log file.
 *
 * docs/format/batches.md §2 describes the format.  ol_batch_parse reads the header of the next
 * batch.  It checks every size before it uses the size.  In files of magic 0 and 1 it treats each
 * message as one batch.  Such a message may be a wrapper, that is, a message whose value is a
 * compressed block of other messages.  ol_batch_check_crc verifies the checksum.  The ol_records
 * functions read the records of a batch of any magic and any codec, even if its offsets have gaps.
 * The functions that write batches are in format/batch_write.h.
 *
 * Ownership: nothing here owns the bytes to which it points.  An ol_batch and its records point
 * into the caller's buffer.  The records of a compressed batch point into memory of the ol_records
 * from which they were read, and are valid until this ol_records is closed.  The functions take no
 * locks.  Several threads can read different batches at the same time. */
#ifndef OL_FORMAT_BATCH_H
#define OL_FORMAT_BATCH_H

#include "base/base.h"
#include "base/status.h"

enum {
    OL_BATCH_OVERHEAD = 61,             /* size of the header of magic 2; also the size of a batch
                                           that has no records left */
    OL_BATCH_LOG_OVERHEAD = 12,         /* the fields baseOffset and batchLength; batchLength does
                                           not count these bytes */
    OL_BATCH_MAGIC_END = 17,            /* number of bytes from the start of a batch to the end of
                                           its magic */
    OL_BATCH_MINIMUM_LENGTH = 14,  /* the least value of the length field, whatever the magic */
    OL_BATCH_MARKER_SIZE = 78,  /* size of a batch with an end-transaction marker that has no
                                   headers and whose deltas are 0 */
};

/* Byte positions inside a magic 2 header (docs/format/batches.md §2.1). */
enum {
    OL_BATCH_AT_BASE_OFFSET = 0,
    OL_BATCH_AT_LENGTH = 8,
    OL_BATCH_AT_LEADER_EPOCH = 12,
    OL_BATCH_AT_MAGIC = 16,
    OL_BATCH_AT_CRC = 17,
    OL_BATCH_AT_ATTRIBUTES = 21,
    OL_BATCH_AT_LAST_OFFSET_DELTA = 23,
    OL_BATCH_AT_BASE_TIMESTAMP = 27,
    OL_BATCH_AT_MAX_TIMESTAMP = 35,
    OL_BATCH_AT_PRODUCER_ID = 43,
    OL_BATCH_AT_PRODUCER_EPOCH = 51,
    OL_BATCH_AT_BASE_SEQUENCE = 53,
    OL_BATCH_AT_RECORD_COUNT = 57,
    OL_BATCH_AT_RECORDS = 61,
};

enum {
    OL_ATTRIBUTE_CODEC = 0x07,
    OL_ATTRIBUTE_LOG_APPEND_TIME = 0x08,
    OL_ATTRIBUTE_TRANSACTIONAL = 0x10,
    OL_ATTRIBUTE_CONTROL = 0x20,
    OL_ATTRIBUTE_DELETE_HORIZON = 0x40,
};

typedef enum ol_codec {
    OL_CODEC_NONE = 0,
    OL_CODEC_GZIP = 1,
    OL_CODEC_SNAPPY = 2,
    OL_CODEC_LZ4 = 3,
    OL_CODEC_ZSTD = 4
} ol_codec;

typedef enum ol_control {
    OL_CONTROL_ABORT = 0,
    OL_CONTROL_COMMIT = 1,
    OL_CONTROL_OTHER = 2
} ol_control;

/* One batch (magic 2) or one message (magic 0 or 1).  In a message, base_offset and last_offset are
 * equal.  In a wrapper, both are the offset in the wrapper's header, which is the offset of the
 * last message in the wrapper.  The offset of the first message in it is known only after
 * decompression. */
typedef struct ol_batch {
    const uint8_t *data;        /* first byte of the batch */
    size_t size;                /* all of it, overhead included */
    int64_t base_offset;
    /* base_offset plus lastOffsetDelta.  It stays the same when compaction drops records
     * (docs/format/traps.md trap 10). */
    int64_t last_offset;
    /* magic 2: the timestamp of the first record, or the delete horizon; magic 1: the timestamp of
     * the message; magic 0: -1 */
    int64_t base_timestamp;
    int64_t max_timestamp;
    int64_t producer_id;        /* -1: none */
    int32_t leader_epoch;       /* -1: unset, and for magic 0/1 */
    int32_t base_sequence;
    int32_t record_count;  /* magic 2: the number in the header; magic 0 and 1: 1, or -1 for a
                              wrapper, because its header does not contain the number */
    uint32_t crc;               /* as stored */
    int16_t producer_epoch;
    int16_t attributes;
    int8_t magic;
} ol_batch;

static inline ol_codec ol_batch_codec(const ol_batch *batch) {
    return (ol_codec)(batch->attributes & OL_ATTRIBUTE_CODEC);
}
static inline bool ol_batch_is_control(const ol_batch *batch) {
    return (batch->attributes & OL_ATTRIBUTE_CONTROL) != 0;
}
static inline bool ol_batch_is_transactional(const ol_batch *batch) {
    return (batch->attributes & OL_ATTRIBUTE_TRANSACTIONAL) != 0;
}
static inline bool ol_batch_has_horizon(const ol_batch *batch) {
    return (batch->attributes & OL_ATTRIBUTE_DELETE_HORIZON) != 0;
}

/* Reads the header of the batch at data[0].  Returns
 *   OL_OK            *batch is filled and all of its bytes are within `size`;
 *   OL_TORN          the batch has more than `size` bytes; batch->size is the number of bytes that
 *                    it has, or 0 if the length could not be read;
 *   OL_CORRUPT       the magic is negative, a size is below the least one (docs/format/batches.md
 *                    §2.4), or an offset or a count breaks a rule of docs/format/batches.md §2.1;
 *   OL_UNSUPPORTED   the magic is above 2, or the codec does not exist in this magic.
 * error->position is relative to `data`.  No byte at or after data[size] is read. */
int ol_batch_parse(const uint8_t *data, size_t size, ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Verifies the checksum.  Returns OL_CORRUPT if it is wrong; the reason then contains the stored
 * and the computed checksum.  With magic 2 the checksum is a CRC-32C of all bytes from the
 * attributes on.  With magic 0 and 1 it is a CRC-32 of all bytes from the magic on. */
int ol_batch_check_crc(const ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Returns the offset after the last offset of the batch.  If the last offset is INT64_MAX, there is
 * no greater offset, and the function returns INT64_MAX.  The functions of log/batch_rules.h refuse
 * such an offset, so this happens only before they have checked the batch. */
static inline int64_t ol_batch_next_offset(const ol_batch *batch) {
    return OL_UNLIKELY(batch->last_offset == INT64_MAX) ? INT64_MAX : batch->last_offset + 1;
}

/* Returns whether all offsets of a batch are at or above `until`.  If `until` is INT64_MAX, there
 * is no bound, and the result is false.  `next_offset` is the offset after the last one of the
 * preceding batch.  It matters only for a wrapper of magic 0 or 1, because the header of a wrapper
 * contains only the offset of the last message, and the first message may be below `until`. */
static inline bool ol_batch_is_after(const ol_batch *batch, int64_t next_offset, int64_t until) {
    return until != INT64_MAX && batch->base_offset >= until &&
           (batch->record_count >= 0 || next_offset >= until);
}

/* The functions of a decompressor.  The code outside the engine provides them; they call pyarrow.
 *
 * `decompress` decompresses `input`.  If it succeeds, it sets *output to the result and returns
 * OL_OK.  The memory of the result stays valid until the engine passes it to `release`.
 * `decompress` returns OL_LIMIT if the result would exceed `limit` bytes, OL_CORRUPT if the input
 * is damaged, and OL_UNSUPPORTED if the codec is not available.  It needs `magic` for LZ4, because
 * in magic 0 the checksum in the LZ4 frame header is computed from the wrong bytes.  The engine
 * calls `decompress` from any thread, but never while it holds a lock that the callback could
 * need. */
typedef struct ol_decompressor {
    int (*decompress)(void *context, ol_codec codec, int magic, ol_slice input, size_t limit,
                      ol_slice *output, ol_error *error);
    void (*release)(void *context, ol_slice output);
    void *context;
    size_t limit;               /* the most bytes that a decompressed batch may have */
} ol_decompressor;

#define OL_DECOMPRESSED_LIMIT_DEFAULT ((size_t)64 << 20)

typedef struct ol_record {
    int64_t offset;
    int64_t timestamp;          /* -1: none (magic 0) */
    ol_slice key;               /* data == NULL: null */
    ol_slice value;             /* data == NULL: null, a tombstone */
    ol_slice headers;           /* the encoded headers, without their count */
    int32_t header_count;
    int8_t attributes;
    int8_t magic;  /* the magic of the message that this record was in; an inner message may have
                      another magic than its wrapper */
} ol_record;

/* A walk over the records of one batch.  The caller provides the memory.  After a successful
 * ol_records_open, the caller must call ol_records_close exactly once. */
typedef struct ol_records {
    ol_batch batch;
    const ol_decompressor *decompressor;
    ol_slice inflated;          /* data == NULL unless the batch was compressed */
    const uint8_t *cursor;
    const uint8_t *limit;
    int64_t base;  /* the number that is added to a record's offset delta, or to the offset of an
                      inner message */
    int64_t previous_offset;
    int32_t remaining;  /* number of records that have not been read yet; -1: unknown (wrapper) */
} ol_records;

/* Opens a walk.  If `decompressor` is NULL, a compressed batch is refused with OL_UNSUPPORTED.
 * Otherwise the decompressor must stay valid until ol_records_close.  After a failure the caller
 * need not close the walk. */
int ol_records_open(ol_records *records, const ol_batch *batch, const ol_decompressor *decompressor,
                    ol_error *error) OL_NODISCARD;

/* Reads the next record and returns OL_OK, or returns OL_END after the last record.  Returns
 * OL_CORRUPT if the records do not fill the batch exactly, or if a record breaks a rule of
 * docs/format/batches.md §2.2.  For example, its offset must be greater than that of the record
 * before it, and must be within the batch.  In a batch with log-append time, the timestamp of every
 * record is the max timestamp of the batch. */
int ol_records_next(ol_records *records, ol_record *record, ol_error *error) OL_NODISCARD;

/* Checks all records of an open walk without moving the walk.  Returns OL_OK if the structure of
 * the batch is valid to its end. */
int ol_records_check(const ol_records *records, ol_error *error) OL_NODISCARD;

void ol_records_close(ol_records *records);

/* Reads the only record of a batch that has the most common form.  Such a batch has magic 2, is not
 * compressed and contains exactly one record.  The record is at the base offset, its timestamp
 * delta has one byte, and it has no headers.  Returns false for a batch of another form, and for a
 * batch that breaks a rule.  The caller then reads the batch with ol_records_next, which reports a
 * broken rule. */
bool ol_records_sole(const ol_batch *batch, ol_record *record);

/* Reads one header of a record.  Before the first call, the caller sets *cursor to
 * record->headers.data.  `limit` is the end of the headers.  Returns OL_END after the last header,
 * and OL_CORRUPT if a header is truncated or has a null key. */
int ol_record_header_next(const uint8_t **cursor, const uint8_t *limit, ol_slice *key,
                          ol_slice *value, ol_error *error) OL_NODISCARD;

/* Decodes a control record and checks its key and value (docs/format/batches.md §2.6).  If the type
 * is OL_CONTROL_OTHER, *coordinator_epoch is -1. */
int ol_control_decode(const ol_record *record, ol_control *type, int32_t *coordinator_epoch,
                      ol_error *error) OL_NODISCARD;

#endif
