/* state/in_flight: the overlay of a replicated leader: what was written in [W, log end) and is not applied yet (docs/architecture.md §4 step 5).
 *
 * Conditions compare with the latest written value: the overlay first, then the table.  Values of open transactions do not count until
 * their COMMIT marker is written; from then on they do, by the rule of docs/format/loading.md §6.4.  Memory that the table will need when W passes is held
 * as reservations until then.
 *
 * Locks: the partition's writer lock around every call.  Empty in a lone store, where it costs one test.
 */
#ifndef OL_STATE_IN_FLIGHT_H
#define OL_STATE_IN_FLIGHT_H

#include "state/state.h"

typedef struct ol_held {
    int64_t log_offset;
    ol_reservation reservation;
} ol_held;

typedef struct ol_in_flight {
    ol_state written;       /* positions and pending values of the records in flight */
    ol_table *absent;       /* positions whose latest record in flight is a tombstone */
    bool active;            /* something was noted since the last reset */
    ol_held *held;          /* reservations in the main table, by log offset */
    size_t held_count;
    size_t held_capacity;
    size_t held_first;      /* those before it were released */
} ol_in_flight;

void ol_in_flight_init(ol_in_flight *inflight);
/* Releases the reservations into `table` and forgets everything. */
void ol_in_flight_reset(ol_in_flight *inflight, ol_table *table);

/* Makes room so that `count` ol_in_flight_hold cannot fail. */
int ol_in_flight_reserve(ol_in_flight *inflight, size_t count, ol_error *error) OL_NODISCARD;
void ol_in_flight_hold(ol_in_flight *inflight, int64_t log_offset, const ol_reservation *reservation);

/* A batch was written above W; `state` is the applied state, for the pending values that a marker may install.  Records and batches that apply would refuse are
 * passed over.  Fails with OL_NO_MEMORY only. */
int ol_in_flight_record(ol_in_flight *inflight, const ol_state *state, const ol_batch *batch, const ol_decompressor *decompressor,
                     ol_error *error) OL_NODISCARD;

/* A batch was applied to the main table: its records leave the overlay, its reservations end. */
void ol_in_flight_applied(ol_in_flight *inflight, ol_table *table, const ol_batch *batch, const ol_decompressor *decompressor);

/* The latest written record of a position, when it is in flight.  Returns false when there is none in the overlay; otherwise *present says whether it is
 * a value (then *value is filled) and *log_offset where it stands. */
bool ol_in_flight_find(const ol_in_flight *inflight, const ol_pair_name *name, int32_t partition, bool *present,
                      ol_position_value *value, int64_t *log_offset);

#endif
