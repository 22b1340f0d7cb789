/* state/pending: the positions that open transactions have written, by producer id
 * (docs/format/loading.md §6.4).
 *
 * Each entry holds a reservation in the table, so a COMMIT allocates nothing and cannot fail.
 * Locks and ownership are those of table/table.
 */
#ifndef OL_STATE_PENDING_H
#define OL_STATE_PENDING_H

#include "table/table.h"

typedef struct ol_pending ol_pending;

int ol_pending_create(ol_table *table, ol_pending **pending, ol_error *error) OL_NODISCARD;
/* Frees the pending values and releases all of their reservations.  The table must still exist. */
void ol_pending_destroy(ol_pending *pending);

/* Reserves memory for `count` more entries of a producer, so that the next `count` calls of
 * ol_pending_add for it cannot fail.  Fails with OL_NO_MEMORY, or with OL_LIMIT if the producer
 * would have more than 2^31 - 1 values. */
int ol_pending_reserve(ol_pending *pending, int64_t producer_id, size_t count, ol_error *error)
    OL_NODISCARD;

/* Adds one value of an open transaction, and takes over the reservation.  The caller has called
 * ol_pending_reserve for the value.  The values of one producer are added in ascending order of
 * their log offsets.  The value replaces an earlier value of the same producer for the same
 * position. */
void ol_pending_add(ol_pending *pending, int64_t producer_id, const ol_reservation *reservation,
                    const ol_position_value *value);

/* Prefetches the memory that a later ol_pending_add for this position will need. */
void ol_pending_prefetch(const ol_pending *pending, uint32_t pair, int32_t partition);

/* ol_pending_commit installs the values of the producer in log order.  A value is installed only if
 * it is newer than the value of its position in the table.  ol_pending_abort drops the values of
 * the producer.  If the producer has no open transaction, the calls do nothing.  The calls cannot
 * fail.  They return the number of values that were installed or dropped. */
size_t ol_pending_commit(ol_pending *pending, int64_t producer_id);
size_t ol_pending_abort(ol_pending *pending, int64_t producer_id);

typedef struct ol_pending_producer {
    int64_t producer_id;
    int64_t first_log_offset;
    uint64_t values;
} ol_pending_producer;
/* Fills *producer with the producer at `index`, where 0 is the producer with the lowest first log
 * offset.  Returns false if there are not so many producers.  producer->values is the number of
 * values that no tombstone has erased.  It can be 0 while the transaction is open. */
bool ol_pending_producer_at(const ol_pending *pending, size_t index, ol_pending_producer *producer);

/* Sets *row to the next value, in log order, that a COMMIT of `producer_id` would install now.  The
 * caller sets *cursor to 0 before the walk.  Returns false after the last value.  After a change of
 * the pending values, the walk cannot be continued.  The table may change during the walk; its new
 * contents then decide which of the remaining values are returned.  The strings of *row belong to
 * the table. */
bool ol_pending_next_value(const ol_pending *pending, int64_t producer_id, size_t *cursor,
                           ol_table_row *row);

/* Sets *row to the next pending value of one group, whatever its producer, from the newest to the
 * oldest.  The caller sets *cursor to 0 before the walk.  Returns false after the last value.  A
 * walk takes time proportional to the number of the group's pending values. */
bool ol_pending_next_of_group(const ol_pending *pending, ol_slice group, uint64_t group_hash,
                              uint64_t *cursor, ol_table_row *row);

/* Returns whether any producer has a live pending value for this position.  Kafka calls the topic
 * partition "unstable" then (docs/format/coordinator.md §5.3).  A pending value is live until its
 * transaction ends, a tombstone erases the value, or its producer replaces it.  It stays live if a
 * newer plain value is committed. */
bool ol_pending_has(const ol_pending *pending, const ol_pair_name *name, int32_t partition);
/* Like ol_pending_next_of_group, but only for values whose position is unstable, that is, for which
 * ol_pending_has returns true. */
bool ol_pending_next_unstable(const ol_pending *pending, ol_slice group, uint64_t group_hash,
                              uint64_t *cursor, ol_table_row *row);
/* Returns whether any producer has a live pending value for any position of this group. */
bool ol_pending_has_group(const ol_pending *pending, ol_slice group, uint64_t group_hash);

/* Sets *row to the next live value, ordered by producer and then by log offset.  These are the
 * values that the digest includes; the position of a value may have a newer plain value.  The
 * caller zeroes the cursor before the walk.  Returns false after the last value.  If the pending
 * values change during the walk, values may be missed or returned twice.  The strings of *row
 * belong to the table. */
typedef struct ol_pending_cursor {
    uint32_t producer;
    uint32_t entry;
} ol_pending_cursor;
bool ol_pending_next(const ol_pending *pending, ol_pending_cursor *cursor, int64_t *producer_id,
                     ol_table_row *row);

/* Finds the live value of one producer for a position and fills *value.  This takes time
 * proportional to the number of transactions with a live value for the position.  value->metadata
 * is not copied. */
bool ol_pending_get(const ol_pending *pending, int64_t producer_id, const ol_pair_name *name,
                    int32_t partition, ol_position_value *value);

/* Returns the digest of the live pending values, each of which is hashed with its producer id
 * (docs/digest.md). */
ol_hash128 ol_pending_digest(const ol_pending *pending, bool physical);

uint64_t ol_pending_memory_usage(const ol_pending *pending);

/* All data of one entry, for saving and restoring.  There are also entries for values that their
 * producer has replaced; these no longer hold a reservation. */
typedef struct ol_pending_entry {
    int64_t producer_id;
    ol_reservation reservation;
    int64_t offset;
    int64_t log_offset;
    int64_t commit_timestamp;
    int32_t leader_epoch;
    bool replaced;
} ol_pending_entry;

/* Sets *entry to the next entry of a walk over all entries.  The producers come in the order of
 * their first log offsets, and the entries of each producer in log order.  The caller zeroes the
 * cursor before the walk.  Returns false after the last entry. */
bool ol_pending_next_entry(const ol_pending *pending, ol_pending_cursor *cursor,
                           ol_pending_entry *entry);

/* Restores one entry.  The caller restores the entries in the order in which ol_pending_next_entry
 * returned them.  The table already holds the reservation of the entry, unless the entry was
 * replaced.  Fails with OL_CORRUPT if no walk can have returned the entries in this order. */
int ol_pending_restore(ol_pending *pending, const ol_pending_entry *entry, ol_error *error)
    OL_NODISCARD;

#endif
