/* Keeps the overlay of a replicated leader (state/in_flight.h): the values of the records in
 * [W, log end).
 *
 * A commit without conditions only reserves the memory that applying it will need; it does not
 * enter its values into the overlay.  A call that compares with the latest written values first
 * enters everything that was written since the last such call.  A commit therefore allocates
 * nothing after its append.  If entering values fails, only the call that needs them is refused. */
#include "partition/partition_impl.h"

static int record_batch(ol_partition *partition, const ol_batch *batch, void *overlay,
                        ol_error *error) {
    return ol_in_flight_record(overlay, &partition->state, batch,
                               partition->options.log.decompressor, error);
}

static int64_t recorded_to(const ol_partition *partition) {
    int64_t applied = partition->applied;
    return partition->recorded_to > applied ? partition->recorded_to : applied;
}

bool ol_partition_is_overlay_complete(const ol_partition *partition) {
    return ol_partition_applies_at_once(partition) ||
           recorded_to(partition) >= ol_log_end(partition->log);
}

int ol_partition_complete_overlay(ol_partition *partition, ol_error *error) {
    if (ol_partition_is_overlay_complete(partition)) return OL_OK;
    int64_t end = ol_log_end(partition->log);
    int status = ol_partition_for_each_batch(partition, recorded_to(partition), end, record_batch,
                                             &partition->inflight, error);
    if (status == OL_OK) {
        partition->recorded_to = end;
    } else {
        /* Half a batch may be recorded. */
        ol_in_flight_forget(&partition->inflight);
        partition->recorded_to = partition->applied;
    }
    return status;
}

int ol_partition_read_in_flight(ol_partition *partition, ol_error *error) {
    ol_in_flight fresh;
    ol_in_flight_init(&fresh);
    int64_t end = ol_log_end(partition->log);
    int status = ol_partition_for_each_stored_batch(partition, partition->applied, end,
                                                    record_batch, &fresh, error);
    if (status == OL_OK) {
        ol_in_flight_take_records(&partition->inflight, &fresh);
        partition->recorded_to = end;
    }
    /* The fresh overlay holds no reservations, so the table is not touched. */
    ol_in_flight_reset(&fresh, partition->state.table);
    return status;
}

void ol_partition_overlay_applied(ol_partition *partition, const ol_batch *batch) {
    ol_table *table = partition->state.table;
    ol_in_flight_release(&partition->inflight, table, batch->last_offset);
    if (batch->last_offset < partition->recorded_to) {
        ol_in_flight_applied(&partition->inflight, batch, partition->options.log.decompressor);
    }
}

void ol_partition_overlay_settled(ol_partition *partition) {
    if (partition->recorded_to <= partition->applied) ol_in_flight_forget(&partition->inflight);
}

void ol_partition_drop_overlay(ol_partition *partition) {
    pthread_mutex_lock(&partition->table);
    ol_in_flight_reset(&partition->inflight, partition->state.table);
    ol_group_records_release_promised(partition->state.group_records);
    pthread_mutex_unlock(&partition->table);
    partition->recorded_to = 0;
    partition->value_version_unapplied = 0;
    ol_unapplied_free(&partition->unapplied);
}
