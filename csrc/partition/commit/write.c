/* Writes a batch into the bytes that the log has reserved.  The steps are: encode, reserve memory,
 * publish, apply. */
#include "partition/commit/commit_impl.h"

enum { PREFETCH_DISTANCE = 8 };     /* rows between a prefetch and the use */

size_t ol_commit_record_size(const ol_commit *work, const ol_planned *planned, size_t index) {
    bool first = index == 0;
    return ol_record_size(0, (int32_t)index, (int64_t)planned->key_size, planned->value_size,
                          first ? work->header_count : 0, first ? work->headers_size : 0);
}

size_t ol_commit_batch_size(const ol_commit *work, size_t from, size_t to) {
    size_t size = OL_BATCH_OVERHEAD;
    for (size_t i = from; i < to; i++) {
        size += ol_commit_record_size(work, &work->planned[i], i - from);
    }
    return size;
}

int ol_commit_reserve_place(const ol_commit *work, size_t size, size_t count, uint8_t **start,
                            int64_t *base_offset, ol_error *error) {
    ol_log *log = work->partition->log;
    int32_t last_delta = (int32_t)count - 1;
    if (OL_LIKELY(work->producer_id < 0)) {
        return ol_log_reserve(log, size, last_delta, work->timestamp, start, base_offset, error);
    }
    return ol_log_reserve_transactional(log, work->producer_id, size, last_delta, work->timestamp,
                                        start, base_offset, error);
}

static uint8_t *put_record(const ol_commit *work, uint8_t *p, const ol_planned *planned,
                           size_t index) {
    const ol_item *item = planned->item;
    int32_t header_count = index == 0 ? work->header_count : 0;
    ol_slice headers = ol_slice_of(work->headers, index == 0 ? work->headers_size : 0);
    if (item->kind == OL_ITEM_GROUP_RECORD) {
        return ol_record_put(p, 0, (int32_t)index, item->key, item->value, header_count, headers);
    }
    size_t body = ol_record_body_size(0, (int32_t)index, (int64_t)planned->key_size,
                                      planned->value_size, header_count, headers.size);
    p = ol_record_put_start(p, body, 0, (int32_t)index, (int64_t)planned->key_size);
    p = ol_offset_key_put(p, OL_KEY_OFFSET_COMMIT, item->group, item->topic, item->partition);
    p = ol_record_put_value_size(p, planned->value_size);
    if (item->kind == OL_ITEM_POSITION) {
        ol_offset_value value = ol_commit_encoded_value(work, item);
        p = ol_offset_value_put(p, &value, planned->value_version);
    }
    return ol_record_put_headers(p, header_count, headers);
}

ol_batch_fields ol_commit_batch_fields(const ol_commit *work, int64_t base_offset, size_t count) {
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, work->timestamp);
    fields.leader_epoch = work->partition->leadership.epoch;
    fields.record_count = (int32_t)count;
    fields.last_offset_delta = (int32_t)count - 1;
    if (work->producer_id >= 0) {
        fields.producer_id = work->producer_id;
        fields.producer_epoch = work->producer_epoch;
        fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    }
    return fields;
}

static ol_position_value position_value(const ol_commit *work, const ol_item *item,
                                        int16_t version) {
    ol_offset_value value = ol_commit_encoded_value(work, item);
    return (ol_position_value){
        .offset = value.offset,
        .commit_timestamp = value.commit_timestamp,
        .expire_timestamp = value.expire_timestamp,
        /* v1 and v2 cannot hold it (docs/format/traps.md trap 8). */
        .leader_epoch = version <= 2 ? -1 : value.leader_epoch,
        .metadata = value.metadata,
        .topic_id = version == 4 ? value.topic_id : NULL,
    };
}

void ol_commit_lock_table(ol_commit *work) {
    if (!work->table_locked) pthread_mutex_lock(&work->partition->table);
}

void ol_commit_unlock_table(ol_commit *work) {
    if (!work->table_locked) pthread_mutex_unlock(&work->partition->table);
}

static void release_one(ol_state *state, ol_planned *planned) {
    if (!planned->reserved) return;
    planned->reserved = false;
    if (planned->item->kind == OL_ITEM_GROUP_RECORD) {
        ol_group_records_release(state->group_records, planned->group_reservation);
    } else {
        ol_table_release(state->table, &planned->reservation);
    }
}

void ol_commit_release(ol_commit *work, size_t from) {
    ol_commit_lock_table(work);
    for (size_t i = from; i < work->count; i++) {
        release_one(&work->partition->state, &work->planned[i]);
    }
    ol_commit_unlock_table(work);
}

static int reserve_group_record(ol_commit *work, ol_planned *planned, ol_error *error) {
    const ol_item *item = planned->item;
    if (item->value.data == NULL) return OL_OK;
    ol_group_record record = {.key = item->key, .value = item->value, .group = planned->name.group};
    int status = ol_group_records_reserve(work->partition->state.group_records, &record,
                                          &planned->group_reservation, error);
    planned->reserved = status == OL_OK;
    return status;
}

static int reserve_one(ol_commit *work, ol_planned *planned, ol_error *error) {
    if (OL_UNLIKELY(planned->item->kind == OL_ITEM_GROUP_RECORD)) {
        return reserve_group_record(work, planned, error);
    }
    if (planned->item->kind != OL_ITEM_POSITION) return OL_OK;
    ol_position_value value = position_value(work, planned->item, planned->value_version);
    if (work->may_settle) {
        planned->settled_pair = ol_table_settled(work->partition->state.table, &planned->name,
                                                 planned->item->partition, &value);
        if (OL_LIKELY(planned->settled_pair != 0)) return OL_OK;
    }
    int status = ol_table_reserve(work->partition->state.table, &planned->name,
                                  planned->item->partition, &value, &planned->reservation, error);
    planned->reserved = status == OL_OK;
    return status;
}

/* A row of a transaction needs two more maps besides the table's, each a cache miss. */
static void prefetch_reserved(const ol_commit *work, size_t index) {
    if (index >= work->count || work->planned[index].item->kind != OL_ITEM_POSITION) return;
    const ol_planned *planned = &work->planned[index];
    const ol_table *table = work->partition->state.table;
    ol_table_prefetch_reserved(table, ol_table_prefetch_pair(table, &planned->name),
                               planned->item->partition);
}

static void prefetch_pending(const ol_commit *work, size_t index) {
    if (index >= work->count || !work->planned[index].reserved) return;
    const ol_planned *planned = &work->planned[index];
    if (planned->item->kind != OL_ITEM_POSITION) return;
    ol_pending_prefetch(work->partition->state.pending, planned->reservation.pair,
                        planned->reservation.partition);
}

/* Reserves all memory that applying the items will need; without memory, nothing is changed.  The
 * writer lock keeps everything except a loader away from the table until the items are applied, so
 * a settled pair stays settled. */
int ol_commit_reserve_all(ol_commit *work, ol_error *error) {
    ol_partition *partition = work->partition;
    int status = OL_OK;
    /* The loader changes the table without a lock, and applies this commit when it reaches it. */
    if (!ol_partition_is_loaded(partition)) return OL_OK;
    bool applies_at_once = ol_partition_applies_at_once(partition);
    work->may_settle = partition->role == OL_ROLE_ACTIVE && applies_at_once &&
                       work->producer_id < 0 && !work->has_tombstones;
    ol_commit_lock_table(work);
    bool is_pending = work->producer_id >= 0 && applies_at_once;
    if (is_pending) {
        status =
            ol_pending_reserve(partition->state.pending, work->producer_id, work->count, error);
    }
    for (size_t i = 0; i < work->count && status == OL_OK; i++) {
        if (is_pending) prefetch_reserved(work, i + PREFETCH_DISTANCE);
        status = reserve_one(work, &work->planned[i], error);
    }
    ol_commit_unlock_table(work);
    if (status == OL_OK && !applies_at_once) {
        status = ol_in_flight_reserve(&partition->inflight, work->count, error);
    }
    if (status != OL_OK) ol_commit_release(work, 0);
    return status;
}

static int apply_one(ol_commit *work, ol_planned *planned, int64_t log_offset, ol_error *error) {
    const ol_item *item = planned->item;
    ol_change change;
    change.producer_id = work->own_transaction ? -1 : work->producer_id;
    change.reservation = NULL;
    change.pair_hint = 0;
    if (OL_LIKELY(item->kind == OL_ITEM_POSITION)) {
        change.kind = OL_CHANGE_POSITION;
        change.name = planned->name;
        change.partition = item->partition;
        change.value_version = planned->value_version;
        change.value = position_value(work, item, planned->value_version);
        change.value.log_offset = log_offset;
        change.pair_hint = planned->settled_pair;
        change.reservation = planned->reserved ? &planned->reservation : NULL;
        planned->reserved = false;
    } else if (item->kind == OL_ITEM_POSITION_TOMBSTONE) {
        change.kind = OL_CHANGE_POSITION_TOMBSTONE;
        change.name = planned->name;
        change.partition = item->partition;
        change.value.log_offset = log_offset;
    } else {
        change.kind =
            item->value.data == NULL ? OL_CHANGE_GROUP_RECORD_TOMBSTONE : OL_CHANGE_GROUP_RECORD;
        change.group_record = (ol_group_record){item->key, item->value, log_offset, work->timestamp,
                                                planned->name.group};
        change.group_reservation = planned->reserved ? planned->group_reservation : NULL;
        planned->reserved = false;
    }
    return ol_state_apply(&work->partition->state, &change, error);
}

/* Applies a batch in a store without replicas, or for a leader that is alone.  W is the log end, so
 * the batch is applied at once. */
static int apply_lone(ol_commit *work, size_t from, size_t to, int64_t base_offset,
                      ol_error *error) {
    ol_partition *partition = work->partition;
    int64_t end = ol_log_end(partition->log);
    if (OL_UNLIKELY(!ol_partition_is_loaded(partition))) {
        /* The committer does not apply the batch: the loader reaches it in log order
         * (docs/architecture.md §7). */
        ol_partition_set_positions(partition, end, partition->applied);
        return OL_OK;
    }
    int status = OL_OK;
    ol_commit_lock_table(work);
    for (size_t i = from; i < to && status == OL_OK; i++) {
        if (work->producer_id >= 0) prefetch_pending(work, i + PREFETCH_DISTANCE);
        status = apply_one(work, &work->planned[i], base_offset + (int64_t)(i - from), error);
    }
    /* The table is still locked, so a reader of both the state and the positions sees both as
     * before or both as after. */
    if (OL_LIKELY(status == OL_OK)) ol_partition_set_positions(partition, end, end);
    ol_commit_unlock_table(work);
    return status;
}

/* Leaves the values of a transaction of the store's own to be applied after its marker.  No other
 * batch can come between its batches and its marker, so its values need not be pending meanwhile.
 * A replay gives the same state. */
static void defer_apply(ol_commit *work, size_t from, size_t to, int64_t base_offset) {
    for (size_t i = from; i < to; i++) {
        work->planned[i].log_offset = base_offset + (int64_t)(i - from);
    }
}

int ol_commit_apply_deferred(ol_commit *work, size_t from, size_t to, ol_error *error) {
    ol_partition *partition = work->partition;
    int64_t end = ol_log_end(partition->log);
    int status = OL_OK;
    ol_commit_lock_table(work);
    for (size_t i = from; i < to && status == OL_OK; i++) {
        status = apply_one(work, &work->planned[i], work->planned[i].log_offset, error);
    }
    if (status == OL_OK) ol_partition_set_positions(partition, end, end);
    ol_commit_unlock_table(work);
    if (status != OL_OK) ol_partition_fail(partition);
    return status;
}

/* For a replicated leader: the batch stays in flight until W passes it.  Nothing here can fail. */
static void leave_in_flight(ol_commit *work, size_t from, size_t to, int64_t base_offset,
                            const uint8_t *start, size_t size) {
    ol_partition *partition = work->partition;
    for (size_t i = from; i < to; i++) {
        ol_planned *planned = &work->planned[i];
        int64_t log_offset = base_offset + (int64_t)(i - from);
        if (!planned->reserved) continue;
        if (planned->item->kind == OL_ITEM_GROUP_RECORD) {
            ol_group_records_promise(partition->state.group_records, planned->group_reservation,
                                     log_offset);
        } else {
            ol_in_flight_hold(&partition->inflight, log_offset, &planned->reservation);
        }
        planned->reserved = false;
    }
    ol_unapplied_keep(&partition->unapplied, start, size, base_offset,
                      base_offset + (int64_t)(to - from));
}

void ol_commit_prefetch(const ol_commit *work) {
    const ol_table *table = work->partition->state.table;
    for (size_t i = 0; i < work->count; i++) {
        const ol_planned *planned = &work->planned[i];
        if (planned->item->kind == OL_ITEM_GROUP_RECORD) continue;
        ol_table_prefetch_cell(table, ol_table_prefetch_pair(table, &planned->name),
                               planned->item->partition);
    }
}

void ol_commit_encode(const ol_commit *work, size_t from, size_t to, uint8_t *start, size_t size) {
    uint8_t *p = start + OL_BATCH_OVERHEAD;
    for (size_t i = from; i < to; i++) p = put_record(work, p, &work->planned[i], i - from);
    OL_ASSERT(p == start + size);
}

/* The state does not have these values yet, and the next commit must know their versions. */
static void note_versions(const ol_commit *work, size_t from, size_t to) {
    ol_partition *partition = work->partition;
    for (size_t i = from; i < to; i++) {
        const ol_planned *planned = &work->planned[i];
        if (planned->item->kind == OL_ITEM_POSITION &&
            planned->value_version > partition->value_version_unapplied) {
            partition->value_version_unapplied = planned->value_version;
        }
    }
}

int ol_commit_publish(ol_commit *work, size_t from, size_t to, uint8_t *start, size_t size,
                      int64_t base_offset, ol_error *error) {
    ol_partition *partition = work->partition;
    ol_batch_fields fields = ol_commit_batch_fields(work, base_offset, to - from);
    ol_batch_seal(start, start + size, &fields);
    int status = ol_log_publish(partition->log, &fields, size, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    ol_batch_clock_record(&partition->clock, work->timestamp);
    bool applies_at_once = ol_partition_applies_at_once(partition);
    if (OL_UNLIKELY(!applies_at_once || work->own_transaction ||
                    !ol_partition_is_loaded(partition))) {
        note_versions(work, from, to);
    }
    if (OL_UNLIKELY(!applies_at_once)) {
        leave_in_flight(work, from, to, base_offset, start, size);
    } else if (OL_UNLIKELY(work->own_transaction)) {
        defer_apply(work, from, to, base_offset);
    } else {
        status = apply_lone(work, from, to, base_offset, error);
    }
    if (OL_UNLIKELY(status != OL_OK)) ol_partition_fail(partition);
    return status;
}
