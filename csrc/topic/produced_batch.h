/* topic/produced_batch: the rules for a batch that a producer sends, before a log takes it
 * (docs/format/batches.md §2.1, §2.2).
 *
 * A producer sends one batch of magic 2 for each partition.  Its base offset is 0, and its records
 * have the offsets 0, 1, 2, ...: the log assigns the base.  Records of a compressed batch are
 * inspected only if they must have keys and there is a decompressor; the batch itself is stored as
 * it came.
 *
 * Pure: nothing is owned, no lock is taken.
 */
#ifndef OL_TOPIC_PRODUCED_BATCH_H
#define OL_TOPIC_PRODUCED_BATCH_H

#include "format/batch.h"

/* The reason why a batch is refused, for the answer to the producer. */
typedef enum ol_produce_refusal {
    OL_PRODUCE_ACCEPTED = 0,
    OL_PRODUCE_NOT_ONE_BATCH,           /* the bytes are not exactly one batch of magic 2 */
    OL_PRODUCE_CORRUPT_MESSAGE,
    OL_PRODUCE_INVALID_RECORD,
    OL_PRODUCE_MESSAGE_TOO_LARGE,
    OL_PRODUCE_INVALID_TIMESTAMP,
    OL_PRODUCE_UNSUPPORTED_COMPRESSION,
    OL_PRODUCE_INVALID_TXN_STATE,       /* there are no transactions on ordinary topics */
    OL_PRODUCE_OUT_OF_ORDER_SEQUENCE,
    OL_PRODUCE_INVALID_PRODUCER_EPOCH,
} ol_produce_refusal;

typedef struct ol_produce_rules {
    size_t batch_bytes_max;             /* max.message.bytes */
    int64_t timestamp_min;              /* of records: message.timestamp.before.max.ms */
    int64_t timestamp_max;              /* message.timestamp.after.max.ms */
    int64_t log_append_time;  /* replaces the times of the records; -1: the producer's stay */
    bool takes_zstd;                    /* from Produce 7 on */
    bool needs_keys;                    /* a compacted topic */
    const ol_decompressor *decompressor;/* for the keys of compressed batches; NULL: their keys are
                                           not checked */
} ol_produce_rules;

typedef struct ol_produced_batch {
    ol_batch batch;                     /* borrows from the bytes */
    /* the greatest of its records; if these were not read, that in the header */
    int64_t max_timestamp;
    ol_produce_refusal refusal;
    int32_t refused_record;  /* the index of the record; -1: the batch as a whole is refused */
} ol_produced_batch;

/* Checks the bytes that a producer sent for one partition.  Returns OL_OK and the refusal
 * OL_PRODUCE_ACCEPTED, or OL_CORRUPT with another refusal and the reason. */
int ol_produced_batch_check(ol_slice bytes, const ol_produce_rules *rules,
                            ol_produced_batch *produced, ol_error *error) OL_NODISCARD;

/* Fills in the indexes of the refused records of a batch, at most `capacity` of them, and returns
 * how many.  Call it only for a refused batch whose refused_record is not -1.  The record count of
 * such a batch is possible for its size if it is uncompressed; a compressed batch may claim any
 * count. */
size_t ol_produced_batch_refused(const ol_produced_batch *produced, const ol_produce_rules *rules,
                                 int32_t *indexes, size_t capacity);

/* Copies the batch to `start`, with its position in the log and the topic's kind of time.  The
 * bytes at `start` are 0, and the length is stored last: a reader of the same memory that sees a
 * length sees a whole batch.  A batch whose time is replaced, or whose header had the wrong
 * greatest timestamp or kind of time, gets a new CRC; no record is changed. */
void ol_produced_batch_put(uint8_t *start, const ol_produced_batch *produced, int64_t base_offset,
                           int32_t leader_epoch, int64_t log_append_time);

#endif
