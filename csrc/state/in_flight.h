/* state/in_flight: the records that a leader with replicas has written above W, the end of the
 * committed part of its log.  They are kept in an overlay over the applied state.
 *
 * The overlay holds the records that are written but not yet applied to the table
 * (docs/architecture.md §4 step 5).  The condition of a commit is compared with the latest written
 * value of the position, which is in the overlay or else in the table.  A value of an open
 * transaction does not count until the COMMIT marker of the transaction is written.  After that it
 * counts if docs/format/loading.md §6.4 would install it.  Until W has passed a record, the overlay
 * also holds a reservation of the memory that the table needs to apply the record.
 *
 * Locks: the caller holds the partition's writer lock during every call.  ol_in_flight_release and
 * ol_in_flight_reset return memory to the table, so the caller also holds the table lock for them.
 * In a partition without replicas the overlay is empty, and costs a commit only one test.
 */
#ifndef OL_STATE_IN_FLIGHT_H
#define OL_STATE_IN_FLIGHT_H

#include "base/int64_map.h"
#include "state/state.h"

typedef struct ol_held {
    int64_t log_offset;
    ol_reservation reservation;
} ol_held;

typedef struct ol_in_flight {
    ol_state written;       /* the effects of the records that are not applied yet */
    ol_table *absent;       /* positions whose latest unapplied record is a tombstone */
    ol_group_records *gone; /* group records whose latest unapplied record is a tombstone */
    bool active;            /* whether anything was recorded since the last reset */
    ol_int64_map ended;     /* producer id -> the offset after its latest marker in the overlay */
    ol_held *held;          /* reservations in the main table, by log offset */
    size_t held_count;
    size_t held_capacity;
    size_t held_first;      /* index of the first reservation that is not released */
} ol_in_flight;

void ol_in_flight_init(ol_in_flight *in_flight);
/* Returns the reserved memory to `table` and empties the overlay. */
void ol_in_flight_reset(ol_in_flight *in_flight, ol_table *table);

/* Reserves memory for `count` calls of ol_in_flight_hold, which then cannot fail.  Fails with
 * OL_NO_MEMORY. */
int ol_in_flight_reserve(ol_in_flight *in_flight, size_t count, ol_error *error) OL_NODISCARD;
void ol_in_flight_hold(ol_in_flight *in_flight, int64_t log_offset,
                       const ol_reservation *reservation);

/* Records in the overlay a batch that was written above W (the end of what is committed).
 * `state` is the applied state.  If the batch has a COMMIT marker, the marker may install pending
 * values of this state.  Records and batches that could not be applied are skipped.  Fails with
 * OL_NO_MEMORY, or with the status of a decompressor that was interrupted. */
int ol_in_flight_record(ol_in_flight *in_flight, const ol_state *state, const ol_batch *batch,
                        const ol_decompressor *decompressor, ol_error *error) OL_NODISCARD;

/* Releases the reservations of the records up to `last_offset`, which were applied to `table`. */
void ol_in_flight_release(ol_in_flight *in_flight, ol_table *table, int64_t last_offset);

/* Removes the records of a batch, which was applied to the main table, from the overlay. */
void ol_in_flight_applied(ol_in_flight *in_flight, const ol_batch *batch,
                          const ol_decompressor *decompressor);

/* Replaces all records of the overlay by the records of `from`, which is empty afterwards.  The
 * overlay keeps its reservations. */
void ol_in_flight_take_records(ol_in_flight *in_flight, ol_in_flight *from);

/* Removes every record from the overlay, and keeps the reservations of memory for applying them.
 * The caller has applied the records, or will record them again. */
void ol_in_flight_forget(ol_in_flight *in_flight);

/* Finds the latest record that the overlay has for a position.  Returns false if it has none.
 * Otherwise sets *log_offset to the log offset of the record.  If the record is a value, *present
 * is set to true and *value is filled; if the record is a tombstone, *present is set to false. */
bool ol_in_flight_find(const ol_in_flight *in_flight, const ol_pair_name *name, int32_t partition,
                       bool *present, ol_position_value *value, int64_t *log_offset);

#endif
