/* cleaner/rebuild_batch: rebuilds one batch without some of its records (docs/format/batches.md
 * §2.7, docs/format/cleaner.md §8.3).
 *
 * The caller chooses the records to drop.  A rebuilt batch of magic 2 keeps its base offset, last
 * offset, producer, sequence and framing, whatever is dropped.  With magic 0 and 1 every message is
 * a batch by itself.  If a compressed wrapper loses messages, the others are written as single
 * messages without compression, as Kafka's first cleaner did (docs/format/brokers.md §15.2).  The
 * engine therefore never compresses in a format that only old brokers write.  No locks. */
#ifndef OL_CLEANER_REBUILD_BATCH_H
#define OL_CLEANER_REBUILD_BATCH_H

#include "format/batch.h"

/* The calls to a compressor, which is outside the engine.  `compress` returns one block in the
 * framing that Kafka reads (docs/format/batches.md §2.3).  The memory of the block must stay valid
 * until the engine passes it to `release`.  `compress` may fail with OL_UNSUPPORTED or
 * OL_NO_MEMORY.  The engine calls it from any thread, without holding a lock. */
typedef struct ol_compressor {
    int (*compress)(void *context, ol_codec codec, int magic, ol_slice input, ol_slice *output,
                    ol_error *error);
    void (*release)(void *context, ol_slice output);
    void *context;
} ol_compressor;

/* The outcome for a batch. */
typedef enum ol_clean_result {
    OL_CLEAN_VERBATIM,          /* all of the batch stays, byte for byte */
    OL_CLEAN_REBUILT,           /* the bytes in `output` replace the batch */
    OL_CLEAN_DROPPED,
    /* The batch should have changed, but it cannot be written again.  The whole batch stays. */
    OL_CLEAN_NOT_COMPRESSED,
} ol_clean_result;

/* The records that stay.  Bit i of `kept`, which consists of words of 64 bits, is set if the i-th
 * record of the batch stays. */
typedef struct ol_clean_choice {
    const uint64_t *kept;
    int64_t kept_count;
    bool retain_empty;  /* magic 2: if no record stays, the header stays as an empty batch */
    int64_t new_horizon;  /* magic 2: the delete horizon that the batch gets; only for a batch that
                             has none; -1: none */
} ol_clean_choice;

/* Memory of the caller that grows as needed.  The caller zeroes it first, and frees it with
 * ol_clean_output_free. */
typedef struct ol_clean_output {
    uint8_t *data;
    size_t size;  /* size of the last result, which is one batch of magic 2 or a sequence of
                     messages */
    size_t capacity;
    int64_t max_timestamp;      /* of a batch of magic 2 */
} ol_clean_output;
void ol_clean_output_free(ol_clean_output *output);

/* Decides what happens to the batch and sets *result.  If the batch must change, rebuilds it into
 * `output`.  The caller has verified the checksum and read all records.  `record_count` is the
 * number of records, because the header of a wrapper does not contain it.  Fails with OL_NO_MEMORY,
 * or as ol_records_open and ol_records_next do. */
int ol_clean_batch_apply(const ol_batch *batch, int64_t record_count, const ol_clean_choice *choice,
                         const ol_decompressor *decompressor, const ol_compressor *compressor,
                         ol_clean_output *output, ol_clean_result *result, ol_error *error)
    OL_NODISCARD;

#endif
