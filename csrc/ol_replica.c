/* Leadership, and W moved from outside (design §7). */
#include <string.h>

#include "ol_partition_internal.h"

enum { REPLAY_PIECE_BYTES = 1 << 20 };

typedef int (*batch_function)(ol_partition *partition, const ol_batch *batch, ol_error *error);

/* Calls `function` for each batch of [from, to), in order.  Under writer: the log does not change meanwhile. */
static int for_each_batch(ol_partition *partition, int64_t from, int64_t to, batch_function function, ol_error *error) {
    if (from >= to) return OL_OK;
    ol_log_reader *reader;
    ol_log_piece piece;
    int status = ol_log_reader_open(partition->log, from, &reader, error);
    if (status != OL_OK) return status;
    bool done = false;
    while (!done && (status = ol_log_reader_next(reader, REPLAY_PIECE_BYTES, &piece, error)) == OL_OK) {
        for (size_t position = 0; position < piece.size && !done;) {
            ol_batch batch;
            status = ol_batch_parse(piece.data + position, piece.size - position, &batch, error);
            if (status == OL_OK) status = ol_batch_check_crc(&batch, error);
            if (status != OL_OK) {
                ol_error_at(error, piece.path, piece.position + (int64_t)position);
                break;
            }
            done = batch.last_offset >= to;
            if (!done && batch.last_offset >= from) status = function(partition, &batch, error);
            if (status != OL_OK) break;
            position += batch.size;
        }
        if (status != OL_OK) break;
    }
    ol_log_reader_close(reader);
    return status == OL_END ? OL_OK : status;
}

static int note_batch(ol_partition *partition, const ol_batch *batch, ol_error *error) {
    return ol_inflight_note(&partition->inflight, &partition->state, batch, partition->options.log.decompressor, error);
}

static int apply_batch(ol_partition *partition, const ol_batch *batch, ol_error *error) {
    const ol_decompressor *decompressor = partition->options.log.decompressor;
    pthread_mutex_lock(&partition->table);
    int status = ol_state_apply_batch(&partition->state, batch, decompressor, NULL, error);
    if (status == OL_OK) ol_inflight_applied(&partition->inflight, partition->state.table, batch, decompressor);
    pthread_mutex_unlock(&partition->table);
    return status;
}

static int check_replicated(const ol_partition *partition, ol_error *error) {
    if (partition->options.replicated) return OL_OK;
    return ol_fail(error, OL_INVALID, "the partition is not replicated");
}

static int check_epoch(const ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    if (partition->role == OL_ROLE_FAILED) return ol_fail(error, OL_FAILED, "the partition failed and must be opened again");
    if (partition->role == OL_ROLE_UNLOADED || partition->load_runs) {
        return ol_fail(error, OL_LOADING, "the partition was not loaded yet");
    }
    if (leader_epoch > partition->leader_epoch) return OL_OK;
    return ol_fail(error, OL_FENCED, "leader epoch %d is not above %d", leader_epoch, partition->leader_epoch);
}

static int lead_locked(ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    int status = check_replicated(partition, error);
    if (status == OL_OK) status = check_epoch(partition, leader_epoch, error);
    if (status == OL_OK && partition->read_only) status = ol_fail(error, OL_READ_ONLY, "the partition is open read-only");
    if (status != OL_OK) return status;
    ol_inflight_reset(&partition->inflight, partition->state.table);
    int64_t end = ol_log_end(partition->log);
    status = for_each_batch(partition, partition->applied, end, note_batch, error);
    if (status == OL_OK) status = ol_log_assign_epoch(partition->log, leader_epoch, error);
    if (status != OL_OK) {
        ol_inflight_reset(&partition->inflight, partition->state.table);
        return status;
    }
    partition->leader_epoch = leader_epoch;
    partition->epoch_assigned = true;
    partition->elected_end = end;
    partition->role = partition->applied >= end ? OL_ROLE_ACTIVE : OL_ROLE_LOADING;
    return OL_OK;
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
    pthread_mutex_lock(&partition->table);
    ol_inflight_reset(&partition->inflight, partition->state.table);
    pthread_mutex_unlock(&partition->table);
    partition->leader_epoch = leader_epoch;
    partition->epoch_assigned = false;
    partition->role = OL_ROLE_FOLLOWER;
    return OL_OK;
}

int ol_partition_become_follower(ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = follow_locked(partition, leader_epoch, error);
    pthread_mutex_unlock(&partition->writer);
    if (status == OL_OK) ol_partition_wake(partition, true);
    return status;
}

static int append_locked(ol_partition *partition, const uint8_t *data, size_t size, ol_error *error) {
    int status = check_replicated(partition, error);
    if (status != OL_OK) return status;
    if (partition->role != OL_ROLE_FOLLOWER) {
        return ol_fail(error, OL_FENCED, "only a follower appends what a leader wrote");
    }
    return ol_log_append(partition->log, data, size, error);
}

int ol_partition_append(ol_partition *partition, const uint8_t *data, size_t size, ol_error *error) {
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
    if (watermark <= partition->watermark) return OL_OK;
    if (partition->role == OL_ROLE_UNLOADED || partition->load_runs) {
        ol_partition_set_positions(partition, watermark, partition->applied);    /* the load goes up to it */
        return OL_OK;
    }
    status = for_each_batch(partition, partition->applied, watermark, apply_batch, error);
    if (status != OL_OK) {
        ol_partition_fail(partition);
        return status;
    }
    ol_partition_set_positions(partition, watermark, watermark);
    if (watermark == end) {
        pthread_mutex_lock(&partition->table);
        ol_inflight_reset(&partition->inflight, partition->state.table);
        pthread_mutex_unlock(&partition->table);
    }
    if (partition->role == OL_ROLE_LOADING && watermark >= partition->elected_end) partition->role = OL_ROLE_ACTIVE;
    return OL_OK;
}

int ol_partition_advance(ol_partition *partition, int64_t offset, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = advance_locked(partition, offset, error);
    pthread_mutex_unlock(&partition->writer);
    ol_partition_wake(partition, false);
    return status;
}

/* Drops the state; the caller loads anew. */
static int drop_state(ol_partition *partition, ol_error *error) {
    ol_state fresh;
    int status = ol_state_create(&fresh, error);
    if (status != OL_OK) return status;
    pthread_mutex_lock(&partition->table);
    ol_inflight_reset(&partition->inflight, partition->state.table);
    ol_state_destroy(&partition->state);
    partition->state = fresh;
    pthread_mutex_unlock(&partition->table);
    partition->own_count = 0;
    partition->role = OL_ROLE_UNLOADED;
    return OL_OK;
}

static int truncate_locked(ol_partition *partition, int64_t offset, ol_error *error) {
    int status = check_replicated(partition, error);
    if (status != OL_OK) return status;
    if (partition->load_runs) return ol_fail(error, OL_LOADING, "the partition is loading");
    if (partition->role == OL_ROLE_ACTIVE || partition->role == OL_ROLE_LOADING) {
        return ol_fail(error, OL_FENCED, "a leader does not truncate");
    }
    if (offset >= ol_log_end(partition->log)) return OL_OK;
    bool below_state = offset < partition->watermark || offset < partition->applied;
    if (below_state) {
        status = drop_state(partition, error);
        if (status != OL_OK) return status;
        /* Positions may go back only here, with no state left that they could contradict. */
        int64_t start = ol_log_start(partition->log);
        partition->applied = start;
        partition->watermark = offset > start ? (offset < partition->watermark ? offset : partition->watermark) : start;
    }
    return ol_log_truncate(partition->log, offset, error);
}

int ol_partition_truncate(ol_partition *partition, int64_t offset, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = truncate_locked(partition, offset, error);
    pthread_mutex_unlock(&partition->writer);
    if (status == OL_OK) ol_partition_wake(partition, true);
    return status;
}
