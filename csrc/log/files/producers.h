/* log/files/producers: the producers of a partition's log and their transactions
 * (docs/format/directory.md §1.6, docs/format/batches.md §2.6).
 *
 * The structure maps producer ids to the states of the producers, and lists the open transactions
 * in the order of their first offsets.  Every batch is applied to it in log order.  Its contents at
 * an offset are written to a file, the producer snapshot, from which a later load continues.  A
 * truncation loads an older snapshot and replays the log from there.  The structure has no lock of
 * its own; the writer lock of the partition protects it.
 */
#ifndef OL_LOG_FILES_PRODUCERS_H
#define OL_LOG_FILES_PRODUCERS_H

#include "base/base.h"
#include "format/batch.h"
#include "fs/fs.h"
#include "base/status.h"
#include "log/files/transaction_index.h"

enum {
    OL_PRODUCERS_SNAPSHOT_VERSION = 1,
    OL_PRODUCERS_SNAPSHOT_HEADER_SIZE = 10,
    OL_PRODUCERS_SNAPSHOT_ENTRY_SIZE = 46,
};

#define OL_PRODUCERS_SNAPSHOT_SIZE_MAX ((size_t)256 << 20)

typedef struct ol_producer {
    int64_t producer_id;                /* >= 0 */
    int64_t last_offset;                /* of its last data batch, -1 none */
    int64_t timestamp;                  /* greatest timestamp of its last batch or marker */
    int64_t transaction_first_offset;   /* -1: none open */
    int32_t last_sequence;              /* -1 none */
    int32_t offset_delta;               /* last minus first offset of its last data batch */
    int32_t coordinator_epoch;          /* -1 until a marker was seen */
    int16_t epoch;
} ol_producer;

typedef struct ol_open_transaction {
    int64_t first_offset;
    int64_t producer_id;
} ol_open_transaction;

/* Zeroed memory is an empty structure. */
typedef struct ol_producers {
    ol_producer *slots;                 /* open addressing; producer_id -1 marks a free slot */
    size_t slot_count;                  /* power of two, or 0 */
    size_t count;
    int64_t highest_id_plus_one;        /* the highest id of all producers that were ever applied,
                                           even if they have expired, plus one; saturates */
    ol_open_transaction *open;          /* ascending by first offset */
    size_t open_count;
    size_t open_capacity;
} ol_producers;

void ol_producers_free(ol_producers *producers);
void ol_producers_clear(ol_producers *producers);

/* Reserves memory for `additional` producers, so that applying as many batches cannot fail for lack
 * of memory. */
int ol_producers_reserve(ol_producers *producers, size_t additional, ol_error *error) OL_NODISCARD;

/* Finds a producer, in constant time.  Returns NULL if it is not known.  The result is valid until
 * the next change. */
const ol_producer *ol_producers_find(const ol_producers *producers, int64_t producer_id);

/* The effect of a batch on the open transactions. */
typedef struct ol_producers_change {
    bool completed;                     /* the batch is a marker that has ended an open transaction;
                                           `transaction` describes it */
    bool aborted;  /* in addition, the marker is an ABORT, so `transaction` must be added to the
                      transaction index */
    ol_aborted_transaction transaction;
} ol_producers_change;

/* Applies the next batch of the log, and decodes it if it is a marker.  These batches change
 * nothing: batches without a producer id, control batches that are neither COMMIT nor ABORT, and
 * control batches from which a cleaner has removed the record.  `change` may be NULL.  Fails with
 * OL_CORRUPT if a marker cannot be decoded, or with OL_NO_MEMORY.  After a failure nothing has
 * changed. */
int ol_producers_apply(ol_producers *producers, const ol_batch *batch, ol_producers_change *change,
                       ol_error *error) OL_NODISCARD;

/* Does what ol_producers_apply does, for a marker whose record the caller has already decoded. */
int ol_producers_apply_marker(ol_producers *producers, const ol_batch *batch, ol_control type,
                              int32_t coordinator_epoch, ol_producers_change *change,
                              ol_error *error) OL_NODISCARD;

/* Returns the highest producer id that was applied since the structure was empty, or that was in
 * the producer snapshot from which it was loaded.  A snapshot has only producers that had not
 * expired.  Returns -1 if there is none. */
int64_t ol_producers_highest_id(const ol_producers *producers);

/* Returns the first offset of the oldest open transaction, which is Kafka's last stable offset.
 * Returns -1 if no transaction is open; the last stable offset is then the high watermark. */
int64_t ol_producers_first_open_offset(const ol_producers *producers);

/* Returns whether one more producer would make the map grow; the caller should expire some
 * first. */
bool ol_producers_is_full(const ol_producers *producers);

/* Removes the producers that have no open transaction and a timestamp `expiration_ms` or more
 * before `now_ms`, but not `kept_id` (-1: none).  Returns how many. */
size_t ol_producers_expire(ol_producers *producers, int64_t now_ms, int64_t expiration_ms,
                           int64_t kept_id);

/* Only for the decoder of producer snapshots.  Adds a producer that is not in the structure yet.
 * The caller has reserved memory with ol_producers_reserve.  If the producer has an open
 * transaction, it is put at the end of the list, and the caller must sort the list afterwards. */
void ol_producers_restore(ol_producers *producers, const ol_producer *entry);

/* Makes the bytes of a producer snapshot.  The caller frees *bytes.  The entries are ordered by
 * producer id, so equal states give equal bytes. */
int ol_producers_encode(const ol_producers *producers, uint8_t **bytes, size_t *size,
                        ol_error *error) OL_NODISCARD;

/* Fills an empty *producers from the bytes of a producer snapshot.  Fails with OL_CORRUPT if the
 * size or the CRC is wrong, or if a producer id is negative or appears twice.  Fails with
 * OL_UNSUPPORTED for another version, or with OL_NO_MEMORY.  After a failure *producers is still
 * empty. */
int ol_producers_decode(ol_producers *producers, ol_slice bytes, ol_error *error) OL_NODISCARD;

/* Load and store the producer snapshot at `path` (log/files/names.h has its name).  A crash may
 * leave a truncated file, which the CRC detects.  If `flush` is true, the file is durable when the
 * call returns, but its name is not; the caller flushes the directory. */
int ol_producers_load(ol_producers *producers, ol_fs *fs, const char *path,
                      ol_error *error) OL_NODISCARD;
int ol_producers_store(const ol_producers *producers, ol_fs *fs, const char *path, bool flush,
                       ol_error *error) OL_NODISCARD;

#endif
