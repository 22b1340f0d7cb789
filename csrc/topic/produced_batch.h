/* topic/produced_batch: the rules by which a batch of a producer is checked before it is appended
 * to a log (docs/format/batches.md §2.1, §2.2).
 *
 * A producer sends one batch of magic 2 for each partition.  The base offset of the batch is 0, and
 * its records have the offsets 0, 1, 2, ...; the log assigns the base offset.  The records of a
 * compressed batch are checked only if the topic requires keys and there is a decompressor.  The
 * batch is stored as it was sent, without compressing or decompressing it.
 *
 * The functions own no memory and take no locks.
 */
#ifndef OL_TOPIC_PRODUCED_BATCH_H
#define OL_TOPIC_PRODUCED_BATCH_H

#include "format/batch.h"

/* The reason why a batch was refused.  The server reports it to the producer. */
typedef enum ol_produce_refusal {
    OL_PRODUCE_ACCEPTED = 0,
    OL_PRODUCE_NOT_ONE_BATCH,           /* the bytes are not exactly one batch of magic 2 */
    OL_PRODUCE_CORRUPT_MESSAGE,
    OL_PRODUCE_INVALID_RECORD,
    OL_PRODUCE_MESSAGE_TOO_LARGE,
    OL_PRODUCE_INVALID_TIMESTAMP,
    OL_PRODUCE_UNSUPPORTED_COMPRESSION,
    OL_PRODUCE_INVALID_TXN_STATE,       /* it is transactional, which is not supported here */
    OL_PRODUCE_OUT_OF_ORDER_SEQUENCE,
    OL_PRODUCE_INVALID_PRODUCER_EPOCH,
} ol_produce_refusal;

typedef struct ol_produce_rules {
    size_t batch_bytes_max;             /* max.message.bytes */
    int64_t timestamp_min;              /* of records: message.timestamp.before.max.ms */
    int64_t timestamp_max;              /* message.timestamp.after.max.ms */
    int64_t log_append_time;  /* replaces the producer's timestamps; -1: they are kept */
    bool takes_zstd;                    /* from Produce 7 on */
    bool needs_keys;                    /* a compacted topic */
    const ol_decompressor *decompressor;/* for the keys of compressed batches; NULL: their keys are
                                           not checked */
} ol_produce_rules;

typedef struct ol_produced_batch {
    ol_batch batch;                     /* borrows from the bytes */
    /* the greatest timestamp of the records; that of the header if the records were not read */
    int64_t max_timestamp;
    ol_produce_refusal refusal;
    int32_t refused_record;  /* index of the first refused record; -1: the whole batch */
} ol_produced_batch;

/* Checks the bytes that a producer sent for one partition.  If they are acceptable, returns OL_OK
 * and sets produced->refusal to OL_PRODUCE_ACCEPTED.  Otherwise fails with OL_CORRUPT and sets
 * produced->refusal and error->reason.  Can also fail with OL_NO_MEMORY. */
int ol_produced_batch_check(ol_slice bytes, const ol_produce_rules *rules,
                            ol_produced_batch *produced, ol_error *error) OL_NODISCARD;

/* Sets `indexes` to the indexes of the refused records of a batch, at most `capacity` of them, and
 * returns their number.  The caller calls it only for a refused batch whose refused_record is not
 * -1.  The record count of a compressed batch was not checked against the size of the batch, so it
 * may be any number. */
size_t ol_produced_batch_refused(const ol_produced_batch *produced, const ol_produce_rules *rules,
                                 int32_t *indexes, size_t capacity);

/* Copies the batch to `start`, and sets its base offset, its leader epoch and its timestamp type.
 * The caller has filled the memory at `start` with zeros.  The length of the batch is stored last,
 * so a thread that reads a length from this memory reads a whole batch.  The batch gets a new CRC
 * if its timestamps are replaced, or if its header had the wrong greatest timestamp or timestamp
 * type.  The records are not changed. */
void ol_produced_batch_put(uint8_t *start, const ol_produced_batch *produced, int64_t base_offset,
                           int32_t leader_epoch, int64_t log_append_time);

#endif
