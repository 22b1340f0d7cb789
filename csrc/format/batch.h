/* format/batch: record batches of magic 2 and message sets of magic 0 and 1 in a .log file.
 *
 * docs/format/batches.md §2 describes the format.  Reading: ol_batch_parse finds the next batch and
 * checks every size before it is used.  With magic 0 and 1 that is the next message, perhaps a
 * compressed wrapper.  ol_batch_check_crc checks the bytes.  ol_records walks the records, whatever
 * the magic, the codec or the gaps.  Writing: format/batch_write.h.
 *
 * Ownership: nothing here owns the bytes it points to.  An ol_batch and its records borrow from the
 * caller's buffer, records of a compressed batch from the open ol_records.  Locks: none; many
 * threads can read different batches.
 */
#ifndef OL_FORMAT_BATCH_H
#define OL_FORMAT_BATCH_H

#include "base/base.h"
#include "base/status.h"

enum {
    OL_BATCH_OVERHEAD = 61,             /* size of a magic 2 header, and of an emptied batch */
    OL_BATCH_LOG_OVERHEAD = 12,         /* baseOffset and batchLength, which the length excludes */
    OL_BATCH_MAGIC_END = 17,            /* bytes up to and including the magic */
    OL_BATCH_MINIMUM_LENGTH = 14,  /* the least value of the length field, whatever the magic */
    OL_BATCH_MARKER_SIZE = 78,  /* an end-transaction marker without headers and with deltas 0 */
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

/* One batch (magic 2) or one message (magic 0 or 1).  A message has base_offset == last_offset.  In
 * a wrapper both are the offset in the header, which is that of the last inner message; the first
 * inner offset is known only after decompression. */
typedef struct ol_batch {
    const uint8_t *data;        /* first byte of the batch */
    size_t size;                /* all of it, overhead included */
    int64_t base_offset;
    /* base_offset + lastOffsetDelta; survives compaction (docs/format/traps.md trap 10) */
    int64_t last_offset;
    /* magic 2: of the first record, or the delete horizon; magic 1: the message's timestamp; magic
     * 0: -1 */
    int64_t base_timestamp;
    int64_t max_timestamp;
    int64_t producer_id;        /* -1: none */
    int32_t leader_epoch;       /* -1: unset, and for magic 0/1 */
    int32_t base_sequence;
    int32_t record_count;  /* magic 2: as in the header; magic 0/1: 1, for a wrapper -1 (unknown) */
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
 *   OL_TORN          `size` bytes are not enough; batch->size is the needed size where the length
 *                    could be read, else 0;
 *   OL_CORRUPT       a size rule of docs/format/batches.md §2.4 is broken (length < 14, magic 2
 *                    below 61 bytes, negative counts, an offset range that overflows), or a
 *                    magic below 0;
 *   OL_UNSUPPORTED   magic above 2, or codec 5 to 7.
 * error->position is relative to `data`.  Reads nothing past `size`. */
int ol_batch_parse(const uint8_t *data, size_t size, ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Verifies the checksum, and returns OL_OK, or OL_CORRUPT with both checksums in the reason.  The
 * checksum of magic 2 is a CRC-32C from the attributes on, that of magic 0 and 1 a CRC-32 from the
 * magic on. */
int ol_batch_check_crc(const ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Returns the offset after the last one of the batch.  A last offset of INT64_MAX, which is
 * possible until log/batch_rules.h has checked the base offset, has no next offset; the result is
 * INT64_MAX. */
static inline int64_t ol_batch_next_offset(const ol_batch *batch) {
    return OL_UNLIKELY(batch->last_offset == INT64_MAX) ? INT64_MAX : batch->last_offset + 1;
}

/* Returns whether all offsets of a batch are at or above `until` (INT64_MAX: no bound).
 * `next_offset` is the end of the preceding batch.  It matters only for a wrapper of magic 0 or 1:
 * the header of a wrapper has only the offset of the last message, and the first may be below
 * `until`. */
static inline bool ol_batch_is_after(const ol_batch *batch, int64_t next_offset, int64_t until) {
    return until != INT64_MAX && batch->base_offset >= until &&
           (batch->record_count >= 0 || next_offset >= until);
}

/* The calls to a decompressor, which lives above the engine (it calls pyarrow).
 *
 * `decompress` inflates `input` to at most `limit` bytes.  It returns OL_OK and sets *output to
 * memory that stays valid until `release` is called with it; OL_LIMIT when the result would be
 * larger than `limit`; OL_CORRUPT when the block is damaged; OL_UNSUPPORTED for a missing codec.
 * `magic` matters for LZ4: in magic 0, the checksum of the frame header is wrong.  The engine calls
 * `decompress` from any thread, but never while it holds a lock that the callback could need.
 */
typedef struct ol_decompressor {
    int (*decompress)(void *context, ol_codec codec, int magic, ol_slice input, size_t limit,
                      ol_slice *output, ol_error *error);
    void (*release)(void *context, ol_slice output);
    void *context;
    size_t limit;               /* bytes that one batch may inflate to */
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
    int8_t magic;  /* magic of the message this record was in (an inner message may have its own) */
} ol_record;

/* A walk over the records of one batch; plain memory of the caller, to be closed exactly once after
 * a successful open. */
typedef struct ol_records {
    ol_batch batch;
    const ol_decompressor *decompressor;
    ol_slice inflated;          /* data == NULL unless the batch was compressed */
    const uint8_t *cursor;
    const uint8_t *limit;
    int64_t base;  /* added to a record's offset delta or to an inner message's offset */
    int64_t previous_offset;
    int32_t remaining;          /* records still to come; -1: unknown (wrapper) */
} ol_records;

/* Opens a walk.  `decompressor` may be NULL: then a compressed batch is OL_UNSUPPORTED.  Otherwise
 * it must live until ol_records_close.  After a failure there is nothing to close. */
int ol_records_open(ol_records *records, const ol_batch *batch, const ol_decompressor *decompressor,
                    ol_error *error) OL_NODISCARD;

/* Returns OL_OK with the next record, or OL_END after the last one.  OL_CORRUPT: the records do not
 * fill the batch exactly, or a record breaks a rule of docs/format/batches.md §2.2 (offsets must
 * grow and be within the batch).  In a log-append-time batch, every record gets the batch's max
 * timestamp. */
int ol_records_next(ol_records *records, ol_record *record, ol_error *error) OL_NODISCARD;

/* Checks all records of an opened batch without moving its walk.  OL_OK: the structure of the batch
 * is valid to its end. */
int ol_records_check(const ol_records *records, ol_error *error) OL_NODISCARD;

void ol_records_close(ol_records *records);

/* Reads the record of a batch in the most common form: magic 2, not compressed, one record at its
 * base offset, with a timestamp delta of one byte and no headers.  Returns false for any other
 * batch, and for one that breaks a rule, which a walk then reports. */
bool ol_records_sole(const ol_batch *batch, ol_record *record);

/* Reads one header of a record: *cursor starts at record->headers.data, `limit` is the end of the
 * headers.  Returns OL_END after the last one, and OL_CORRUPT for a header that is truncated or has
 * a null key. */
int ol_record_header_next(const uint8_t **cursor, const uint8_t *limit, ol_slice *key,
                          ol_slice *value, ol_error *error) OL_NODISCARD;

/* Decodes a control record and checks its key and value (docs/format/batches.md §2.6).
 * *coordinator_epoch is -1 for OL_CONTROL_OTHER. */
int ol_control_decode(const ol_record *record, ol_control *type, int32_t *coordinator_epoch,
                      ol_error *error) OL_NODISCARD;

#endif
