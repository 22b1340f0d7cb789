/* Follows a leader, and moves W for the host (docs/architecture.md §7). */
#include "format/batch.h"
#include "partition/partition_impl.h"

/* ----------------------------------------------------------------------------------- moving W */

static void report_refused(void *partition, const ol_batch *batch, const ol_error *error) {
    ol_error problem = *error;
    if (problem.offset < 0) problem.offset = batch->base_offset;
    ol_partition_report(partition, &problem, batch->base_offset, ol_batch_next_offset(batch));
}

/* A record that Kafka would refuse is reported and skipped, as in a load of the same bytes, so the
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
        ol_partition_overlay_applied(partition, batch);
        ol_batch_clock_record(&partition->clock, batch->max_timestamp);
    }
    pthread_mutex_unlock(&partition->table);
    return status;
}

static int apply_to(ol_partition *partition, int64_t watermark, ol_error *error) {
    int status = ol_partition_for_each_batch(partition, partition->applied, watermark, apply_batch,
                                             NULL, error);
    if (status != OL_OK) {
        ol_partition_fail(partition);
        return status;
    }
    ol_partition_set_positions(partition, watermark, watermark);
    ol_unapplied_drop(&partition->unapplied, watermark);
    ol_partition_overlay_settled(partition);
    return OL_OK;
}

int ol_partition_move_watermark(ol_partition *partition, int64_t offset, ol_error *error) {
    int64_t end = ol_log_end(partition->log);
    int64_t watermark = offset < end && !partition->leadership.alone ? offset : end;
    if (watermark < partition->watermark) watermark = partition->watermark;
    if (!ol_partition_is_loaded(partition)) {
        /* The load applies up to the new W. */
        ol_partition_set_positions(partition, watermark, partition->applied);
        return OL_OK;
    }
    int status = OL_OK;
    if (watermark > partition->applied) status = apply_to(partition, watermark, error);
    if (status == OL_OK) status = ol_partition_activate(partition, error);
    /* A leader without followers, whose W no follower moves, tries again with its next commit. */
    if (status != OL_OK && partition->leadership.alone) partition->leadership.ready = false;
    return status;
}

int ol_partition_advance(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                         ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = ol_partition_check_replicated(partition, error);
    if (status == OL_OK) status = ol_partition_check_epoch(partition, leader_epoch, error);
    if (status == OL_OK) status = ol_partition_move_watermark(partition, offset, error);
    pthread_mutex_unlock(&partition->writer);
    ol_partition_wake(partition, false);
    return status;
}

/* ---------------------------------------------------------------------------------- following */

static int check_follower(const ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    int status = ol_partition_check_replicated(partition, error);
    if (status == OL_OK) status = ol_partition_check_epoch(partition, leader_epoch, error);
    if (status != OL_OK || !partition->leadership.leads) return status;
    return ol_partition_refuse(partition, OL_FENCED_LEADER_EPOCH, error,
                               "this replica leads in epoch %d, but only a follower accepts this "
                               "call",
                               leader_epoch);
}

/* A leader writes in its own epoch, and the batches that it copied have older ones. */
static int check_batch_epochs(const uint8_t *data, size_t size, int32_t leader_epoch,
                              ol_error *error) {
    for (size_t position = 0; position < size;) {
        ol_batch batch;
        int status = ol_batch_parse(data + position, size - position, &batch, error);
        if (status == OL_OK && batch.leader_epoch > leader_epoch) {
            status = ol_fail(error, OL_CORRUPT,
                             "a batch has leader epoch %d, newer than %d, the epoch of its sender",
                             batch.leader_epoch, leader_epoch);
            error->offset = batch.base_offset;
        }
        if (status != OL_OK) {
            error->position = (int64_t)position;
            return status;
        }
        position += batch.size;
    }
    return OL_OK;
}

int ol_partition_append(ol_partition *partition, int32_t leader_epoch, const uint8_t *data,
                        size_t size, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = check_follower(partition, leader_epoch, error);
    if (status == OL_OK) status = check_batch_epochs(data, size, leader_epoch, error);
    if (status == OL_OK) status = ol_log_append(partition->log, data, size, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}

/* -------------------------------------------------------------------------------------- cutting */

/* Replaces the applied state by an empty one; the caller loads it again. */
static void drop_state(ol_partition *partition, const ol_state *fresh) {
    pthread_mutex_lock(&partition->table);
    ol_state_destroy(&partition->state);
    partition->state = *fresh;
    /* Set under this lock, because a holder that finds a role with a state may read the state. */
    partition->role = OL_ROLE_UNLOADED;
    pthread_mutex_unlock(&partition->table);
    partition->own.open.count = 0;
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

/* Truncates the log; `fresh` becomes the state if the present one must be dropped.  With `restart`
 * everything is removed, and the log begins again at `offset`. */
static int cut(ol_partition *partition, int64_t offset, bool restart, ol_error *error) {
    int64_t keep = restart ? ol_log_start(partition->log) : offset;
    /* Done before other records can take the offsets that a caller waits for. */
    ol_partition_wake(partition, true);
    /* A snapshot that was begun before this can no longer be published; one that holds removed
     * records is deleted first. */
    int status = drop_snapshot_above(partition, restart ? -1 : keep, error);
    if (status != OL_OK) return status;
    bool below_state = restart || keep < partition->watermark || keep < partition->applied;
    ol_state fresh = {0};
    if (below_state) status = ol_state_create(&fresh, error);
    if (status != OL_OK) return status;
    ol_partition_drop_overlay(partition);
    status = ol_log_truncate(partition->log, keep, error);
    bool was_cut = status == OL_OK;
    if (status == OL_OK && restart) status = ol_log_restart(partition->log, offset, error);
    if (status != OL_OK && !(was_cut && !ol_log_has_failed(partition->log))) {
        ol_state_destroy(&fresh);
        /* Only another open can find out what is left of the log. */
        if (ol_log_has_failed(partition->log)) ol_partition_fail(partition);
        return status;
    }
    if (below_state) {
        drop_state(partition, &fresh);
        /* Positions may decrease only here, where no state is left to contradict them. */
        int64_t start = ol_log_start(partition->log);
        partition->applied = start;
        if (partition->watermark > keep) partition->watermark = keep;
        if (partition->watermark < start) partition->watermark = start;
    }
    /* If W was inside a batch, nothing of that batch was applied, and all of it is removed. */
    int64_t end = ol_log_end(partition->log);
    if (partition->applied > end) partition->applied = end;
    if (partition->watermark > end) partition->watermark = end;
    return status;
}

static int check_cut(const ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    int status = check_follower(partition, leader_epoch, error);
    if (status == OL_OK && partition->load_runs) {
        status = ol_partition_refuse(partition, OL_LOADING, error, "the partition is loading");
    }
    if (status == OL_OK && partition->read_only) {
        status = ol_partition_refuse(partition, OL_READ_ONLY, error,
                                     "the partition is open read-only");
    }
    return status;
}

int ol_partition_truncate(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                          ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = check_cut(partition, leader_epoch, error);
    if (status == OL_OK) {
        status = offset < ol_log_end(partition->log)
                     ? cut(partition, offset, false, error)
                     : ol_log_truncate(partition->log, offset, error);
    }
    pthread_mutex_unlock(&partition->writer);
    return status;
}

int ol_partition_restart_at(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                            ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = check_follower(partition, leader_epoch, error);
    if (status == OL_OK && offset < ol_log_end(partition->log)) {
        status = ol_partition_refuse(partition, OL_INVALID, error,
                                     "the log end offset is %lld, so the emptied log cannot begin "
                                     "at %lld, which is lower",
                                     (long long)ol_log_end(partition->log), (long long)offset);
    }
    if (status == OL_OK) status = check_cut(partition, leader_epoch, error);
    if (status == OL_OK) status = cut(partition, offset, true, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}

static int unload_locked(ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    int status = check_follower(partition, leader_epoch, error);
    if (status == OL_OK && partition->load_runs) {
        status = ol_partition_refuse(partition, OL_LOADING, error, "the partition is loading");
    }
    ol_state fresh;
    if (status == OL_OK) status = ol_state_create(&fresh, error);
    if (status != OL_OK) return status;
    drop_state(partition, &fresh);
    partition->applied = ol_log_start(partition->log);
    return OL_OK;
}

int ol_partition_unload(ol_partition *partition, int32_t leader_epoch, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = unload_locked(partition, leader_epoch, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}

/* -------------------------------------------------------------------------------------- reading */

int ol_partition_digest(ol_partition *partition, bool physical, ol_digest *digest,
                        int64_t *applied, ol_error *error) {
    int status = OL_OK;
    pthread_mutex_lock(&partition->writer);
    if (ol_partition_is_loaded(partition)) {
        ol_state_digest(&partition->state, physical, digest);
        *applied = partition->applied;
    } else {
        status = ol_partition_refuse(partition, OL_LOADING, error, "the partition is not loaded");
    }
    pthread_mutex_unlock(&partition->writer);
    return status;
}

/* Checks the epoch (-1: no check), and finds the end of what may be read. */
static int find_read_end(ol_partition *partition, int32_t leader_epoch, ol_read_up_to up_to,
                         int64_t *end, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = OL_OK;
    if (leader_epoch >= 0) status = ol_partition_check_epoch(partition, leader_epoch, error);
    *end = up_to == OL_READ_WRITTEN ? ol_log_end(partition->log) : partition->watermark;
    pthread_mutex_unlock(&partition->writer);
    return status;
}

int ol_partition_read(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                      ol_read_up_to up_to, uint8_t *buffer, size_t capacity, size_t *size,
                      ol_error *error) {
    int64_t end, now;
    *size = 0;
    int status = find_read_end(partition, leader_epoch, up_to, &end, error);
    if (status != OL_OK) return status;
    status = ol_log_read(partition->log, offset, end, buffer, capacity, size, error);
    /* The bytes are of that epoch only if the epoch has not changed. */
    if (status == OL_OK) status = find_read_end(partition, leader_epoch, up_to, &now, error);
    if (status != OL_OK) *size = 0;
    return status;
}

int ol_partition_file_range(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                            ol_read_up_to up_to, size_t size_max, ol_file_range *range,
                            ol_error *error) {
    int64_t end;
    int status = find_read_end(partition, leader_epoch, up_to, &end, error);
    if (status != OL_OK) return status;
    return ol_log_file_range(partition->log, offset, end, size_max, range, error);
}
