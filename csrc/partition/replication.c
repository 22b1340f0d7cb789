/* Changes leadership, and moves W for the host (docs/architecture.md §7). */
#include <string.h>

#include "partition/partition_impl.h"

enum { REPLAY_PIECE_BYTES = 1 << 20 };

typedef int (*batch_function)(ol_partition *partition, const ol_batch *batch, void *context,
                              ol_error *error);

/* Calls `function` for each batch of [from, to), in order, until it returns OL_END.  Under writer,
 * so that the log does not change meanwhile. */
static int for_each_batch(ol_partition *partition, int64_t from, int64_t to,
                          batch_function function, void *context, ol_error *error) {
    if (from >= to) return OL_OK;
    ol_log_reader *reader;
    ol_log_piece piece;
    int status = ol_log_reader_open(partition->log, from, &reader, error);
    if (status != OL_OK) return status;
    bool done = false;
    while (!done &&
           (status = ol_log_reader_next(reader, REPLAY_PIECE_BYTES, &piece, error)) == OL_OK) {
        for (size_t position = 0; position < piece.size && !done;) {
            ol_batch batch;
            status = ol_batch_parse(piece.data + position, piece.size - position, &batch, error);
            if (status == OL_OK) status = ol_batch_check_crc(&batch, error);
            if (status != OL_OK) {
                ol_error_at(error, piece.path, piece.position + (int64_t)position);
                break;
            }
            done = batch.last_offset >= to;
            if (!done && batch.last_offset >= from) {
                status = function(partition, &batch, context, error);
            }
            if (status != OL_OK) break;
            position += batch.size;
        }
        if (status != OL_OK) break;
    }
    ol_log_reader_close(reader);
    return status == OL_END ? OL_OK : status;
}

static int record_batch(ol_partition *partition, const ol_batch *batch, void *overlay,
                        ol_error *error) {
    return ol_in_flight_record(overlay, &partition->state, batch,
                               partition->options.log.decompressor, error);
}

static void report_refused(void *partition, const ol_batch *batch, const ol_error *error) {
    ol_error problem = *error;
    if (problem.offset < 0) problem.offset = batch->base_offset;
    ol_partition_report(partition, &problem, batch->base_offset, ol_batch_next_offset(batch));
}

/* A record that Kafka would refuse is reported and passed over, as by a load of the same bytes: the
 * live state equals the replay. */
static int apply_batch(ol_partition *partition, const ol_batch *batch, void *context OL_UNUSED,
                       ol_error *error) {
    const ol_decompressor *decompressor = partition->options.log.decompressor;
    ol_refusal refused = {report_refused, partition};
    pthread_mutex_lock(&partition->table);
    int status = ol_state_apply_batch(&partition->state, batch, decompressor, &refused, error);
    if (status != OL_OK && !ol_state_is_no_damage(status)) {
        report_refused(partition, batch, error);
        status = OL_OK;
    }
    if (status == OL_OK) {
        ol_in_flight_applied(&partition->inflight, partition->state.table, batch, decompressor);
    }
    pthread_mutex_unlock(&partition->table);
    return status;
}

/* -------------------------------------------------------------------- open transactions of ours */

typedef struct own_search {
    int64_t producer_id;
    bool is_own;
} own_search;

/* Inspects the first record of the producer's first batch. */
static int find_header(ol_partition *partition, const ol_batch *batch, void *context,
                       ol_error *error) {
    own_search *search = context;
    if (batch->producer_id != search->producer_id || ol_batch_is_control(batch)) return OL_OK;
    ol_records records;
    ol_record record;
    int status = ol_records_open(&records, batch, partition->options.log.decompressor, error);
    if (status != OL_OK) return status == OL_NO_MEMORY ? status : OL_END;
    search->is_own =
        ol_records_next(&records, &record, error) == OL_OK && ol_own_transactions_marks(&record);
    ol_records_close(&records);
    return OL_END;
}

/* Closes with ABORT our own transactions that an earlier leader left open
 * (docs/architecture.md §7): those with an id of our range and our header.  We write a transaction
 * under one hold of the writer lock, so that nobody will end one that is open here.  The log's own
 * list follows truncations; a list made while applying would not. */
static int abort_own(ol_partition *partition, ol_error *error) {
    ol_log_transaction transaction;
    ol_commit_result result;
    for (size_t i = 0; ol_log_open_transaction_at(partition->log, i, &transaction);) {
        own_search search = {transaction.producer_id, false};
        int status = OL_OK;
        if (transaction.producer_id >= OL_OWN_PRODUCER_ID_MIN) {
            status = for_each_batch(partition, transaction.first_offset, ol_log_end(partition->log),
                                    find_header, &search, error);
        }
        if (status != OL_OK) return status;
        if (!search.is_own) {
            i++;
            continue;
        }
        status = ol_partition_write_marker(partition, transaction.producer_id, -1, OL_CONTROL_ABORT,
                                           0, &result, error);
        if (status != OL_OK) return status;
        partition->load.aborted_own++;      /* the next open one moves to `i` */
    }
    return OL_OK;
}

/* A leader becomes active once W has passed the log end of its election. */
static int activate(ol_partition *partition, ol_error *error) {
    int loading = OL_ROLE_LOADING;
    if (partition->role != loading || partition->applied < partition->leadership.elected_end) {
        return OL_OK;
    }
    int status = partition->read_only ? OL_OK : abort_own(partition, error);
    /* A flush that failed meanwhile made it FAILED: it stays so. */
    if (status == OL_OK) atomic_compare_exchange_strong(&partition->role, &loading, OL_ROLE_ACTIVE);
    return status;
}

/* ----------------------------------------------------------------------------------- leadership */

/* Under writer; releasing reservations changes the table. */
static void replace_overlay(ol_partition *partition, const ol_in_flight *overlay) {
    pthread_mutex_lock(&partition->table);
    ol_in_flight_reset(&partition->inflight, partition->state.table);
    ol_group_records_release_promised(partition->state.group_records);
    pthread_mutex_unlock(&partition->table);
    partition->inflight = *overlay;
}

static void empty_overlay(ol_partition *partition) {
    ol_in_flight empty;
    ol_in_flight_init(&empty);
    replace_overlay(partition, &empty);
}

static int check_replicated(const ol_partition *partition, ol_error *error) {
    if (partition->options.replicated) return OL_OK;
    return ol_fail(error, OL_INVALID, "the partition is not replicated");
}

static int check_epoch(const ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    if (partition->role == OL_ROLE_FAILED) {
        return ol_fail(error, OL_FAILED, "the partition failed and must be opened again");
    }
    if (partition->role == OL_ROLE_UNLOADED || partition->load_runs) {
        return ol_fail(error, OL_LOADING, "the partition was not loaded yet");
    }
    if (leader_epoch > partition->leadership.epoch) return OL_OK;
    return ol_fail(error, OL_FENCED, "leader epoch %d is not above %d", leader_epoch,
                   partition->leadership.epoch);
}

static int lead_locked(ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    int status = check_replicated(partition, error);
    if (status == OL_OK) status = check_epoch(partition, leader_epoch, error);
    if (status == OL_OK && partition->read_only) {
        status = ol_fail(error, OL_READ_ONLY, "the partition is open read-only");
    }
    if (status != OL_OK) return status;
    ol_in_flight overlay;    /* built aside: after a failure a leader may need the old one */
    ol_in_flight_init(&overlay);
    int64_t end = ol_log_end(partition->log);
    status = for_each_batch(partition, partition->applied, end, record_batch, &overlay, error);
    if (status == OL_OK) status = ol_log_assign_epoch(partition->log, leader_epoch, error);
    if (status != OL_OK) {
        /* It holds no reservations: the table is not touched. */
        ol_in_flight_reset(&overlay, partition->state.table);
        return status;
    }
    replace_overlay(partition, &overlay);
    partition->leadership.epoch = leader_epoch;
    partition->leadership.ready = true;
    partition->leadership.elected_end = end;
    /* Without the space their ends are written as other batches are. */
    ol_error ignored;
    (void)!ol_log_keep_ends(partition->log, &ignored);
    int role = partition->role;
    if (role == OL_ROLE_FAILED ||
        !atomic_compare_exchange_strong(&partition->role, &role, OL_ROLE_LOADING)) {
        return ol_fail(error, OL_FAILED, "the partition failed and must be opened again");
    }
    status = activate(partition, error);
    if (partition->role == OL_ROLE_FAILED) return status;
    return OL_OK;           /* else it leads, and the next ol_partition_advance tries again */
}

int ol_partition_become_leader(ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = lead_locked(partition, leader_epoch, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}

static int follow_locked(ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    int status = check_replicated(partition, error);
    if (status == OL_OK) status = check_epoch(partition, leader_epoch, error);
    if (status != OL_OK) return status;
    int role = partition->role;
    if (role == OL_ROLE_FAILED ||
        !atomic_compare_exchange_strong(&partition->role, &role, OL_ROLE_FOLLOWER)) {
        return ol_fail(error, OL_FAILED, "the partition failed and must be opened again");
    }
    empty_overlay(partition);
    partition->leadership.epoch = leader_epoch;
    ol_log_release_ends(partition->log);
    partition->leadership.ready = false;
    ol_partition_wake(partition, true);
    return OL_OK;
}

int ol_partition_become_follower(ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = follow_locked(partition, leader_epoch, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}

static int append_locked(ol_partition *partition, const uint8_t *data, size_t size,
                         ol_error *error) {
    int status = check_replicated(partition, error);
    if (status != OL_OK) return status;
    if (partition->role != OL_ROLE_FOLLOWER) {
        return ol_fail(error, OL_FENCED, "only a follower appends what a leader wrote");
    }
    return ol_log_append(partition->log, data, size, error);
}

int ol_partition_append(ol_partition *partition, const uint8_t *data, size_t size,
                        ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = append_locked(partition, data, size, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}

static int advance_locked(ol_partition *partition, int64_t offset, ol_error *error) {
    int status = check_replicated(partition, error);
    if (status != OL_OK) return status;
    int64_t end = ol_log_end(partition->log);
    int64_t watermark = offset < end ? offset : end;
    if (partition->role == OL_ROLE_FAILED) {
        return ol_fail(error, OL_FAILED, "the partition failed and must be opened again");
    }
    if (partition->role == OL_ROLE_UNLOADED || partition->load_runs) {
        /* The load reads up to it. */
        if (watermark > partition->watermark) {
            ol_partition_set_positions(partition, watermark, partition->applied);
        }
        return OL_OK;
    }
    if (watermark <= partition->watermark) return activate(partition, error);
    status = for_each_batch(partition, partition->applied, watermark, apply_batch, NULL, error);
    if (status != OL_OK) {
        ol_partition_fail(partition);
        return status;
    }
    ol_partition_set_positions(partition, watermark, watermark);
    if (watermark == end) empty_overlay(partition);
    return activate(partition, error);
}

int ol_partition_advance(ol_partition *partition, int64_t offset, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = advance_locked(partition, offset, error);
    pthread_mutex_unlock(&partition->writer);
    ol_partition_wake(partition, false);
    return status;
}

/* Puts an empty state in the place of the one that was applied; the caller loads it again. */
static void drop_state(ol_partition *partition, const ol_state *fresh) {
    pthread_mutex_lock(&partition->table);
    ol_in_flight_reset(&partition->inflight, partition->state.table);
    ol_state_destroy(&partition->state);
    partition->state = *fresh;
    pthread_mutex_unlock(&partition->table);
    partition->own.open.count = 0;
    partition->role = OL_ROLE_UNLOADED;
}

static int drop_snapshot_above(ol_partition *partition, int64_t offset, ol_error *error) {
    int status = OL_OK;
    pthread_mutex_lock(&partition->snapshot.lock);
    if (partition->snapshot.offset < 0 || partition->snapshot.offset > offset) {
        status = ol_partition_drop_snapshot(partition, error);
    }
    pthread_mutex_unlock(&partition->snapshot.lock);
    return status;
}

static int truncate_locked(ol_partition *partition, int64_t offset, ol_error *error) {
    int status = check_replicated(partition, error);
    if (status != OL_OK) return status;
    if (partition->role == OL_ROLE_FAILED) {
        return ol_fail(error, OL_FAILED, "the partition failed and must be opened again");
    }
    if (partition->load_runs) return ol_fail(error, OL_LOADING, "the partition is loading");
    if (partition->role == OL_ROLE_ACTIVE || partition->role == OL_ROLE_LOADING) {
        return ol_fail(error, OL_FENCED, "a leader does not truncate");
    }
    if (offset >= ol_log_end(partition->log)) return OL_OK;
    /* Before other records can take the offsets that somebody waits for. */
    ol_partition_wake(partition, true);
    /* A snapshot that was begun before this cannot be published any more; one that holds cut
     * records is removed first. */
    status = drop_snapshot_above(partition, offset, error);
    if (status != OL_OK) return status;
    bool below_state = offset < partition->watermark || offset < partition->applied;
    ol_state fresh = {0};
    if (below_state) status = ol_state_create(&fresh, error);
    if (status != OL_OK) return status;
    status = ol_log_truncate(partition->log, offset, error);
    if (status != OL_OK) {
        ol_state_destroy(&fresh);
        /* Only another open can find out what is left of the log. */
        if (ol_log_has_failed(partition->log)) ol_partition_fail(partition);
        return status;
    }
    if (below_state) {
        drop_state(partition, &fresh);
        /* Positions may go back only here, where no state is left to contradict them. */
        int64_t start = ol_log_start(partition->log);
        partition->applied = start;
        partition->watermark = offset > start
                                   ? (offset < partition->watermark ? offset : partition->watermark)
                                   : start;
    }
    /* If W lay inside a batch, nothing of that batch was applied, and all of it is cut. */
    int64_t end = ol_log_end(partition->log);
    if (partition->applied > end) partition->applied = end;
    if (partition->watermark > end) partition->watermark = end;
    return OL_OK;
}

int ol_partition_truncate(ol_partition *partition, int64_t offset, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = truncate_locked(partition, offset, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}
