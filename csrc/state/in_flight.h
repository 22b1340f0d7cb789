/* state/in_flight: the overlay of a replicated leader: what its log has above W, the end of what is
 * committed.
 *
 * The overlay holds the records that are written and not yet applied (docs/architecture.md §4 step
 * 5).  Conditions compare with the latest written value: first the overlay, then the table.  Values
 * of open transactions do not count until their COMMIT marker is written; from then on they count
 * by the rule of docs/format/loading.md §6.4.  The overlay holds reservations of the memory that
 * the table needs to apply a record, until W has passed the record.
 *
 * Locks: the partition's writer lock around every call; ol_in_flight_release and ol_in_flight_reset
 * give memory back to the table, so they need the table lock as well.  Without replicas the overlay
 * is empty and costs one test.
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
    ol_state written;       /* positions and pending values of records that are not applied yet */
    ol_table *absent;       /* positions whose latest record, not applied yet, is a tombstone */
    ol_group_records *gone; /* group records whose latest record, not applied yet, is a tombstone */
    bool active;            /* something was recorded since the last reset */
    ol_int64_map ended;     /* producer id -> the offset after its latest marker in the overlay */
    ol_held *held;          /* reservations in the main table, by log offset */
    size_t held_count;
    size_t held_capacity;
    size_t held_first;      /* those before it were released */
} ol_in_flight;

void ol_in_flight_init(ol_in_flight *in_flight);
/* Releases the reservations into `table` and empties the overlay. */
void ol_in_flight_reset(ol_in_flight *in_flight, ol_table *table);

/* Reserves memory for `count` calls of ol_in_flight_hold, which then cannot fail.  Fails with
 * OL_NO_MEMORY. */
int ol_in_flight_reserve(ol_in_flight *in_flight, size_t count, ol_error *error) OL_NODISCARD;
void ol_in_flight_hold(ol_in_flight *in_flight, int64_t log_offset,
                       const ol_reservation *reservation);

/* Records a batch that was written above W; `state` is the applied state, for the pending values
 * that a marker may install.  Records and batches that apply would refuse are skipped.  Fails
 * with OL_NO_MEMORY, or with the status of a decompressor that was interrupted. */
int ol_in_flight_record(ol_in_flight *in_flight, const ol_state *state, const ol_batch *batch,
                        const ol_decompressor *decompressor, ol_error *error) OL_NODISCARD;

/* Ends the reservations of the records up to `last_offset`, which were applied to the main
 * table. */
void ol_in_flight_release(ol_in_flight *in_flight, ol_table *table, int64_t last_offset);

/* Removes a recorded batch that was applied to the main table: its records leave the overlay. */
void ol_in_flight_applied(ol_in_flight *in_flight, const ol_batch *batch,
                          const ol_decompressor *decompressor);

/* Replaces all records by those of `from`, which is empty afterwards; reservations stay. */
void ol_in_flight_take_records(ol_in_flight *in_flight, ol_in_flight *from);

/* Removes every record but no reservation: everything that was recorded has been applied, or will
 * be recorded again. */
void ol_in_flight_forget(ol_in_flight *in_flight);

/* Finds the latest record that the overlay has for a position.  Returns false if it has none.
 * Otherwise *log_offset is that of the record, and *present says whether the record is a value,
 * which then fills *value, or a tombstone. */
bool ol_in_flight_find(const ol_in_flight *in_flight, const ol_pair_name *name, int32_t partition,
                       bool *present, ol_position_value *value, int64_t *log_offset);

#endif
