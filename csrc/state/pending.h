/* state/pending: offsets of open transactions, by producer id (docs/format/loading.md §6.4).
 *
 * Each entry holds a reservation in the table, so a COMMIT allocates nothing and cannot fail.
 * Locks and ownership as table/table.
 */
#ifndef OL_STATE_PENDING_H
#define OL_STATE_PENDING_H

#include "table/table.h"

typedef struct ol_pending ol_pending;

int ol_pending_create(ol_table *table, ol_pending **pending, ol_error *error) OL_NODISCARD;
/* Releases every reservation; the table must still exist. */
void ol_pending_destroy(ol_pending *pending);

/* Reserves memory for `count` more entries of a producer, so that as many calls of ol_pending_add
 * cannot fail.  Fails with OL_NO_MEMORY, or with OL_LIMIT above 2^31 - 1 values of the producer. */
int ol_pending_reserve(ol_pending *pending, int64_t producer_id, size_t count, ol_error *error)
    OL_NODISCARD;

/* Adds one value of an open transaction and takes over the reservation.  ol_pending_reserve was
 * called for it.  Log offsets of one producer ascend.  A value replaces an earlier one of this
 * producer for the same position. */
void ol_pending_add(ol_pending *pending, int64_t producer_id, const ol_reservation *reservation,
                    const ol_position_value *value);

/* Prefetches the memory that an ol_pending_add a few calls later will need for a position. */
void ol_pending_prefetch(const ol_pending *pending, uint32_t pair, int32_t partition);

/* Commit installs the producer's values in log order, each if it is newer than the position's value
 * in the table; abort drops them.  Without a transaction nothing happens.  Both end the producer's
 * entry, cannot fail, and return the number of values installed or dropped. */
size_t ol_pending_commit(ol_pending *pending, int64_t producer_id);
size_t ol_pending_abort(ol_pending *pending, int64_t producer_id);

typedef struct ol_pending_producer {
    int64_t producer_id;
    int64_t first_log_offset;
    uint64_t values;
} ol_pending_producer;
/* Fills *producer with number `index`, from 0 on, of the producers in the order of their first log
 * offsets.  Returns false after the last. */
/* producer->values counts the values that no tombstone erased; it can be 0 while the transaction is
 * open. */
bool ol_pending_producer_at(const ol_pending *pending, size_t index, ol_pending_producer *producer);

/* Sets *row to the next value, in log order, that a COMMIT of `producer_id` would install now.
 * *cursor starts at 0.  Returns false after the last value.  A change of the pending values ends
 * the walk.  The table may change; its new contents then decide about the remaining values.  *row
 * borrows its strings. */
bool ol_pending_next_value(const ol_pending *pending, int64_t producer_id, size_t *cursor,
                           ol_table_row *row);

/* Sets *row to the next pending value of one group, of any producer, newest first.  *cursor starts
 * at 0.  Returns false after the last value.  A walk takes time proportional to the group's
 * values. */
bool ol_pending_next_of_group(const ol_pending *pending, ol_slice group, uint64_t group_hash,
                              uint64_t *cursor, ol_table_row *row);

/* Returns whether any producer has a live pending value for this position: such a partition is
 * "unstable" (docs/format/coordinator.md §5.3).  A pending value lives until its transaction ends,
 * a tombstone erases it, or its producer replaces it; a newer plain value does not end it. */
bool ol_pending_has(const ol_pending *pending, const ol_pair_name *name, int32_t partition);
/* Like ol_pending_next_of_group, for the values of one group for which ol_pending_has is true. */
bool ol_pending_next_unstable(const ol_pending *pending, ol_slice group, uint64_t group_hash,
                              uint64_t *cursor, ol_table_row *row);
/* Returns whether any producer has a live pending value for any position of this group. */
bool ol_pending_has_group(const ol_pending *pending, ol_slice group, uint64_t group_hash);

/* Sets *row to the next live value, by producer and then in log order: the values that the digest
 * counts, even if the position has a newer plain value.  Zero-initialise the cursor.  Returns false
 * after the last value.  A change of the pending values does not end the walk, but values may then
 * be missed or returned twice.  *row borrows its strings. */
typedef struct ol_pending_cursor {
    uint32_t producer;
    uint32_t entry;
} ol_pending_cursor;
bool ol_pending_next(const ol_pending *pending, ol_pending_cursor *cursor, int64_t *producer_id,
                     ol_table_row *row);

/* Finds the live value of one producer for a position, in time proportional to the number of
 * transactions that have one for it.  Fills *value, whose metadata is borrowed. */
bool ol_pending_get(const ol_pending *pending, int64_t producer_id, const ol_pair_name *name,
                    int32_t partition, ol_position_value *value);

/* Returns the digest of the live pending values, keyed by producer (docs/digest.md). */
ol_hash128 ol_pending_digest(const ol_pending *pending, bool physical);

uint64_t ol_pending_memory_usage(const ol_pending *pending);

/* Everything that is kept of one value, for saving and restoring.  Values that their producer
 * replaced are included, although they no longer hold a reservation. */
typedef struct ol_pending_entry {
    int64_t producer_id;
    ol_reservation reservation;
    int64_t offset;
    int64_t log_offset;
    int64_t commit_timestamp;
    int32_t leader_epoch;
    bool replaced;
} ol_pending_entry;

/* Sets *entry to the next of all entries: producers in the order of their first log offsets, the
 * entries of each in log order.  Zero-initialise the cursor.  Returns false after the last
 * entry. */
bool ol_pending_next_entry(const ol_pending *pending, ol_pending_cursor *cursor,
                           ol_pending_entry *entry);

/* Restores one entry after those before it; the table holds its reservation (unless it was
 * replaced).  Fails with OL_CORRUPT if no walk can have returned the entries in this order. */
int ol_pending_restore(ol_pending *pending, const ol_pending_entry *entry, ol_error *error)
    OL_NODISCARD;

#endif
