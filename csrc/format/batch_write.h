/* format/batch_write: encodes batches of magic 2 straight into the caller's memory
 * (docs/format/batches.md §2.1, §2.2, §2.5).
 *
 * The records of a batch are written before its header.  The caller leaves OL_BATCH_OVERHEAD bytes
 * free, puts the records after them, and then calls ol_batch_seal, which writes the header.  The
 * caller has checked that the memory is large enough.  No function here allocates, locks or
 * fails. */
#ifndef OL_FORMAT_BATCH_WRITE_H
#define OL_FORMAT_BATCH_WRITE_H

#include "format/batch.h"
#include "format/record_put.h"

/* The header of a batch to be written.  Initialise it with ol_batch_fields_init. */
typedef struct ol_batch_fields {
    int64_t base_offset;
    int64_t base_timestamp;     /* timestamp of the first record, or the delete horizon */
    int64_t max_timestamp;
    int64_t producer_id;
    int32_t leader_epoch;
    int32_t base_sequence;
    int32_t last_offset_delta;
    int32_t record_count;
    int16_t producer_epoch;
    int16_t attributes;
} ol_batch_fields;

/* Sets the fields of a plain coordinator batch (docs/format/batches.md §2.5, docs/format/traps.md
 * trap 6): the producer id and the producer epoch are -1, baseSequence is 0, the leader epoch is
 * -1, and there are no attributes. */
void ol_batch_fields_init(ol_batch_fields *fields, int64_t base_offset, int64_t timestamp);

/* Puts one record whose key and value are already encoded, and returns the position after it.  The
 * functions of format/record_put.h put a record piece by piece. */
uint8_t *ol_record_put(uint8_t *p, int64_t timestamp_delta, int32_t offset_delta, ol_slice key,
                       ol_slice value, int32_t header_count, ol_slice headers);

/* Writes the header of 61 bytes at `start`, including the checksum, for the records that end at
 * `end`.  The length field and the magic are stored last.  A reader of the same memory that finds a
 * length in the header therefore finds a whole batch. */
void ol_batch_seal(uint8_t *start, const uint8_t *end, const ol_batch_fields *fields);

/* Sets the base offset and the leader epoch of a sealed batch in place.  The checksum does not
 * cover these two fields (docs/format/traps.md trap 5). */
void ol_batch_assign(uint8_t *start, int64_t base_offset, int32_t leader_epoch);

/* Writes an end-transaction marker (docs/format/batches.md §2.5, 78 bytes) and returns its size. */
size_t ol_batch_put_marker(uint8_t *start, int64_t offset, int32_t leader_epoch, int64_t timestamp,
                           int64_t producer_id, int16_t producer_epoch, ol_control type,
                           int32_t coordinator_epoch);

#endif
