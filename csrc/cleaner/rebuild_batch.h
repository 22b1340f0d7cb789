/* cleaner/rebuild_batch: one batch without some of its records (docs/format/batches.md §2.7,
 * docs/format/cleaner.md §8.3).
 *
 * The caller chooses the records to drop.  A batch of magic 2 keeps its base and last offset,
 * producer, sequence and framing, whatever is dropped.  With magic 0 and 1 every message is a batch
 * by itself.  A compressed wrapper that loses messages is written uncompressed, as Kafka's first
 * cleaner did (docs/format/brokers.md §15.2).  So the engine need not compress in a format that
 * only old brokers write.  No locks. */
#ifndef OL_CLEANER_REBUILD_BATCH_H
#define OL_CLEANER_REBUILD_BATCH_H

#include "format/batch.h"

/* The calls to a compressor, which lives above the engine.  `compress` returns one block in the
 * framing that Kafka reads (docs/format/batches.md §2.3), in memory that stays valid until
 * `release` is called with it.  It fails with OL_UNSUPPORTED or OL_NO_MEMORY.  The engine calls
 * `compress` from any thread, without holding a lock. */
typedef struct ol_compressor {
    int (*compress)(void *context, ol_codec codec, int magic, ol_slice input, ol_slice *output,
                    ol_error *error);
    void (*release)(void *context, ol_slice output);
    void *context;
} ol_compressor;

/* The outcome for a batch. */
typedef enum ol_clean_result {
    OL_CLEAN_VERBATIM,          /* all of the batch stays, byte for byte */
    OL_CLEAN_REBUILT,           /* the bytes in `output` take the batch's place */
    OL_CLEAN_DROPPED,
    OL_CLEAN_NOT_COMPRESSED,    /* records had to go, but the rest cannot be written again: all
                                   stay */
} ol_clean_result;

/* The records that stay: bit i for the i-th record of the batch, in words of 64. */
typedef struct ol_clean_choice {
    const uint64_t *kept;
    int64_t kept_count;
    bool retain_empty;          /* magic 2: the header stays when no record does */
    int64_t new_horizon;  /* magic 2: delete horizon to set, if the batch has none; -1: none */
} ol_clean_choice;

/* Memory of the caller that grows as needed.  The caller zeroes it first, and frees it with
 * ol_clean_output_free. */
typedef struct ol_clean_output {
    uint8_t *data;
    size_t size;  /* size of the last result: one batch of magic 2, or messages in a row */
    size_t capacity;
    int64_t max_timestamp;      /* of a batch of magic 2 */
} ol_clean_output;
void ol_clean_output_free(ol_clean_output *output);

/* Sets *result and, where needed, rebuilds the batch into `output`.  The caller has verified the
 * checksum and walked the records; `record_count` is their number (the header of a wrapper does not
 * contain it).  Fails with OL_NO_MEMORY, or as ol_records_open and ol_records_next do. */
int ol_clean_batch_apply(const ol_batch *batch, int64_t record_count, const ol_clean_choice *choice,
                         const ol_decompressor *decompressor, const ol_compressor *compressor,
                         ol_clean_output *output, ol_clean_result *result, ol_error *error)
    OL_NODISCARD;

#endif
