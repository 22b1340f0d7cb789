/* log/files/producers: the producers of a partition's log and their transactions
 * (docs/format/directory.md §1.6, docs/format/batches.md §2.6).
 *
 * The structure maps producer ids to states, updated by every batch in log order, and lists the
 * open transactions by their first offset.  Its contents at an offset are written as a snapshot,
 * from which a later load continues.  A truncation reloads an older snapshot and replays the log
 * from there.  No lock: the partition's writer lock covers it.
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
    int64_t timestamp;                  /* the greatest of its last batch, or that of its last
                                           marker */
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

/* Zeroed memory is an empty one. */
typedef struct ol_producers {
    ol_producer *slots;                 /* open addressing; producer_id -1 marks a free slot */
    size_t slot_count;                  /* power of two, or 0 */
    size_t count;
    int64_t highest_id_plus_one;        /* of every producer seen, expired ones included;
                                           saturates */
    ol_open_transaction *open;          /* ascending by first offset */
    size_t open_count;
    size_t open_capacity;
} ol_producers;

void ol_producers_free(ol_producers *producers);
void ol_producers_clear(ol_producers *producers);

/* Reserves memory for `additional` producers, so that applying as many batches cannot fail for lack
 * of memory. */
int ol_producers_reserve(ol_producers *producers, size_t additional, ol_error *error) OL_NODISCARD;

/* Finds a producer in constant time; NULL when unknown.  Valid until the next change. */
const ol_producer *ol_producers_find(const ol_producers *producers, int64_t producer_id);

/* The effect of a batch on the open transactions. */
typedef struct ol_producers_change {
    bool completed;                     /* a marker ended a transaction that was open;
                                           `transaction` is filled */
    bool aborted;  /* and it was an ABORT: `transaction` must be added to the transaction index */
    ol_aborted_transaction transaction;
} ol_producers_change;

/* Applies the next batch of the log; if it is a marker, decodes it.  Batches without a producer id,
 * markers of other types and emptied control batches change nothing.  `change` may be NULL.  Fails
 * with OL_CORRUPT when a marker does not decode, or with OL_NO_MEMORY; nothing has changed then. */
int ol_producers_apply(ol_producers *producers, const ol_batch *batch, ol_producers_change *change,
                       ol_error *error) OL_NODISCARD;

/* Like ol_producers_apply, for a marker whose record is decoded already. */
int ol_producers_apply_marker(ol_producers *producers, const ol_batch *batch, ol_control type,
                              int32_t coordinator_epoch, ol_producers_change *change,
                              ol_error *error) OL_NODISCARD;

/* Returns the highest producer id seen since the state was empty or decoded (a snapshot holds only
 * producers that had not expired), -1 none. */
int64_t ol_producers_highest_id(const ol_producers *producers);

/* Returns the first offset of the oldest open transaction, which is the last stable offset. -1:
 * none is open, and the last stable offset is the watermark. */
int64_t ol_producers_first_open_offset(const ol_producers *producers);

/* Returns whether one more producer would make the map grow; the caller should expire some
 * first. */
bool ol_producers_is_full(const ol_producers *producers);

/* Removes the producers that have no open transaction and a timestamp `expiration_ms` or more
 * before `now_ms`, but not `kept_id` (-1: none).  Returns how many. */
size_t ol_producers_expire(ol_producers *producers, int64_t now_ms, int64_t expiration_ms,
                           int64_t kept_id);

/* Adds a producer that the map lacks, after ol_producers_reserve.  Its open transaction, if it has
 * one, is put last; the caller sorts.  For the decoder of snapshots only. */
void ol_producers_restore(ol_producers *producers, const ol_producer *entry);

/* *bytes is malloc'ed.  Entries are ordered by producer id, so equal states give equal bytes. */
int ol_producers_encode(const ol_producers *producers, uint8_t **bytes, size_t *size,
                        ol_error *error) OL_NODISCARD;

/* Fills an empty *producers; on failure it stays empty.  OL_CORRUPT for a wrong size or CRC, a
 * negative producer id or one that appears twice; OL_UNSUPPORTED for another version. */
int ol_producers_decode(ol_producers *producers, ol_slice bytes, ol_error *error) OL_NODISCARD;

/* Load and store the snapshot file at `path` (its name: log/files/names.h).  A crash may leave a
 * truncated file, which the CRC detects.  `flush` makes the file durable before the call returns;
 * the caller flushes the directory. */
int ol_producers_load(ol_producers *producers, ol_fs *fs, const char *path,
                      ol_error *error) OL_NODISCARD;
int ol_producers_store(const ol_producers *producers, ol_fs *fs, const char *path, bool flush,
                       ol_error *error) OL_NODISCARD;

#endif
