/* The path of one commit (design §4): plan, conditions, reserve, encode, publish, apply. */
#include <stdlib.h>
#include <string.h>

#include "ol_bytes.h"
#include "ol_partition_internal.h"

enum {
    STACK_ITEMS = 4,                    /* small commits plan on the stack */
    TRY_BYTES_MAX = 4096,               /* above it the caller lets the GIL go */
    RECORD_DELTA_SLACK = 2 * (OL_UVARINT_MAX - 1),  /* an offset delta and the record's length may each take more bytes than with delta 0 */
    HEADERS_SIZE_MAX = 64,
};

/* One call of ol_partition_commit. */
typedef struct commit {
    ol_partition *partition;
    ol_planned *planned;
    size_t count;               /* planned items: those that will be written */
    int64_t producer_id;
    int16_t producer_epoch;
    int64_t timestamp;
    bool has_tombstones;        /* or group records: neither may be split over batches */
    bool own_transaction;       /* values are applied behind the COMMIT marker */
    bool table_locked;          /* from before the reservation until after the apply */
    uint8_t headers[HEADERS_SIZE_MAX];  /* of the first record of a batch */
    size_t headers_size;
    int32_t header_count;
    ol_commit_result *result;
} commit;

/* ------------------------------------------------------------------------------------------------ conditions */

/* The latest written value of a position; *rests_on is the W that would settle it, -1 when it is applied. */
static bool latest_written(const ol_partition *partition, const ol_pair_name *name, int32_t number, ol_position_value *value,
                           int64_t *rests_on) {
    bool present;
    int64_t log_offset;
    *rests_on = -1;
    if (ol_inflight_find(&partition->inflight, name, number, &present, value, &log_offset)) {
        *rests_on = log_offset + 1;
        return present;
    }
    return ol_table_get(partition->state.table, name, number, value);
}

static int refuse(commit *work, int status, size_t item, bool found, int64_t offset, int64_t rests_on, ol_error *error) {
    const ol_item *asked = work->planned[work->count].item;
    if (status == OL_REWIND) {
        ol_fail(error, status, "the committed offset is %lld, which is above %lld", (long long)offset, (long long)asked->offset);
    } else if (found) {
        ol_fail(error, status, "the committed offset is %lld", (long long)offset);
    } else {
        ol_fail(error, status, "there is no committed offset");
    }
    error->item = (int64_t)item;
    work->result->found = found;
    work->result->found_offset = offset;
    work->result->rests_on = rests_on;
    return status;
}

static int check_condition(commit *work, const ol_planned *planned, size_t item, ol_error *error) {
    const ol_item *asked = planned->item;
    ol_position_value value;
    int64_t rests_on;
    bool found = latest_written(work->partition, &planned->name, asked->partition, &value, &rests_on);
    int64_t offset = found ? value.offset : -1;
    switch ((ol_condition)asked->condition) {
        case OL_CONDITION_NONE:
            return OL_OK;
        case OL_CONDITION_EQUALS:
            if (found && offset == asked->expected) return OL_OK;
            return refuse(work, OL_CONDITION, item, found, offset, rests_on, error);
        case OL_CONDITION_ABSENT:
            if (!found) return OL_OK;
            return refuse(work, OL_CONDITION, item, found, offset, rests_on, error);
        case OL_CONDITION_MONOTONIC:
            if (!found || offset <= asked->offset) return OL_OK;
            return refuse(work, OL_REWIND, item, found, offset, rests_on, error);
    }
    OL_ASSERT(!"a condition is one of four");
    return OL_OK;
}

/* A tombstone is written only where something is to be deleted (spec §5.4). */
static bool is_there(const ol_partition *partition, const ol_planned *planned) {
    ol_position_value value;
    int64_t rests_on;
    if (latest_written(partition, &planned->name, planned->item->partition, &value, &rests_on)) return true;
    if (ol_pending_has(partition->state.pending, &planned->name, planned->item->partition)) return true;
    const ol_inflight *inflight = &partition->inflight;
    if (!inflight->active) return false;
    const ol_table *table = inflight->written.table;
    ol_pair_name name = ol_table_name(table, planned->name.group, ol_table_group_hash(table, planned->name.group),
                                      planned->name.topic);
    return ol_pending_has(inflight->written.pending, &name, planned->item->partition);
}

/* ------------------------------------------------------------------------------------------------ planning */

static bool is_value_v4_allowed(const ol_partition *partition) {
    return partition->options.write_value_v4 || partition->state.value_version_max >= 4;
}

static ol_offset_value encoded_value(const commit *work, const ol_item *item) {
    return (ol_offset_value){
        .offset = item->offset,
        .commit_timestamp = item->commit_timestamp >= 0 ? item->commit_timestamp : work->timestamp,
        .expire_timestamp = item->expire_timestamp,
        .leader_epoch = item->leader_epoch,
        .metadata = item->metadata,
        .topic_id = item->topic_id,
    };
}

static void plan_name(commit *work, ol_planned *planned, const ol_planned *previous) {
    const ol_item *item = planned->item;
    const ol_table *table = work->partition->state.table;
    uint64_t group_hash;
    if (previous != NULL && previous->item->kind != OL_ITEM_GROUP_RECORD && previous->item->group.data == item->group.data &&
        previous->item->group.size == item->group.size) {
        group_hash = previous->name.group_hash;
        if (previous->item->topic.data == item->topic.data && previous->item->topic.size == item->topic.size) {
            planned->name = previous->name;
            return;
        }
    } else {
        group_hash = ol_table_group_hash(table, item->group);
    }
    planned->name = ol_table_name(table, item->group, group_hash, item->topic);
}

static void plan_sizes(commit *work, ol_planned *planned) {
    const ol_item *item = planned->item;
    if (item->kind == OL_ITEM_GROUP_RECORD) {
        planned->key_size = item->key.size;
        planned->value_size = item->value.data == NULL ? -1 : (int64_t)item->value.size;
        return;
    }
    planned->key_size = ol_offset_key_size(item->group, item->topic);
    planned->value_size = -1;
    if (item->kind == OL_ITEM_POSITION) {
        ol_offset_value value = encoded_value(work, item);
        planned->value_version = ol_offset_value_version(&value, is_value_v4_allowed(work->partition));
        planned->value_size = (int64_t)ol_offset_value_size(&value, planned->value_version);
    }
}

/* Fills work->planned and checks every condition; nothing is changed. */
static int plan(commit *work, const ol_item *items, size_t count, ol_error *error) {
    const ol_planned *previous = NULL;
    for (size_t i = 0; i < count; i++) {
        ol_planned *planned = &work->planned[work->count];
        planned->item = &items[i];
        planned->reserved = false;
        if (items[i].kind != OL_ITEM_GROUP_RECORD) {
            OL_ASSERT(items[i].group.size <= OL_STRING_SIZE_MAX && items[i].topic.size <= OL_STRING_SIZE_MAX);
            OL_ASSERT(items[i].metadata.size <= OL_STRING_SIZE_MAX);
            plan_name(work, planned, previous);
        }
        if (items[i].kind != OL_ITEM_POSITION) work->has_tombstones = true;
        if (items[i].kind == OL_ITEM_POSITION_TOMBSTONE && !is_there(work->partition, planned)) continue;
        if (OL_UNLIKELY(items[i].condition != OL_CONDITION_NONE)) {
            int status = check_condition(work, planned, i, error);
            if (status != OL_OK) return status;
        }
        plan_sizes(work, planned);
        previous = planned;
        work->count++;
    }
    return OL_OK;
}

static void plan_time(commit *work) {
    int64_t now = ol_partition_now(work->partition);
    work->timestamp = now > work->partition->last_timestamp ? now : work->partition->last_timestamp;
}

/* ------------------------------------------------------------------------------------------------ headers */

static void add_header(commit *work, const char *key, const uint8_t *value, size_t value_size) {
    size_t key_size = strlen(key);
    OL_ASSERT(work->headers_size + key_size + value_size + 2 <= sizeof work->headers);
    uint8_t *p = work->headers + work->headers_size;
    p = ol_store_varint(p, (int32_t)key_size);
    memcpy(p, key, key_size);
    p = ol_store_varint(p + key_size, (int32_t)value_size);
    memcpy(p, value, value_size);
    work->headers_size = (size_t)(p + value_size - work->headers);
    work->header_count++;
}

static void plan_headers(commit *work) {
    work->headers_size = 0;
    work->header_count = 0;
    if (work->own_transaction) add_header(work, OL_HEADER_TRANSACTION, (const uint8_t *)"1", 1);
    if (work->partition->options.replicated) return;
    int64_t flushed = ol_log_take_flushed_note(work->partition->log);
    if (OL_LIKELY(flushed < 0)) return;
    uint8_t value[8];
    ol_store_i64(value, flushed);
    add_header(work, OL_HEADER_FLUSHED, value, sizeof value);
}

/* ------------------------------------------------------------------------------------------------ encoding */

static size_t record_size(const commit *work, const ol_planned *planned, size_t index) {
    bool first = index == 0;
    return ol_record_size(0, (int32_t)index, (int64_t)planned->key_size, planned->value_size, first ? work->header_count : 0,
                          first ? work->headers_size : 0);
}

static size_t batch_size(const commit *work, size_t from, size_t to) {
    size_t size = OL_BATCH_OVERHEAD;
    for (size_t i = from; i < to; i++) size += record_size(work, &work->planned[i], i - from);
    return size;
}

static uint8_t *put_record(const commit *work, uint8_t *p, const ol_planned *planned, size_t index) {
    const ol_item *item = planned->item;
    int32_t header_count = index == 0 ? work->header_count : 0;
    ol_slice headers = ol_slice_of(work->headers, index == 0 ? work->headers_size : 0);
    if (item->kind == OL_ITEM_GROUP_RECORD) {
        return ol_record_put(p, 0, (int32_t)index, item->key, item->value, header_count, headers);
    }
    size_t body = ol_record_body_size(0, (int32_t)index, (int64_t)planned->key_size, planned->value_size, header_count,
                                      headers.size);
    p = ol_record_put_start(p, body, 0, (int32_t)index, (int64_t)planned->key_size);
    p = ol_offset_key_put(p, OL_KEY_OFFSET_COMMIT, item->group, item->topic, item->partition);
    p = ol_record_put_value_size(p, planned->value_size);
    if (item->kind == OL_ITEM_POSITION) {
        ol_offset_value value = encoded_value(work, item);
        p = ol_offset_value_put(p, &value, planned->value_version);
    }
    return ol_record_put_headers(p, header_count, headers);
}

static ol_batch_fields batch_fields(const commit *work, int64_t base_offset, size_t count) {
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, work->timestamp);
    fields.leader_epoch = work->partition->leader_epoch;
    fields.record_count = (int32_t)count;
    fields.last_offset_delta = (int32_t)count - 1;
    if (work->producer_id >= 0) {
        fields.producer_id = work->producer_id;
        fields.producer_epoch = work->producer_epoch;
        fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    }
    return fields;
}

/* ------------------------------------------------------------------------------------------------ reserving, applying */

static ol_position_value position_value(const commit *work, const ol_item *item, int16_t version) {
    ol_offset_value value = encoded_value(work, item);
    return (ol_position_value){
        .offset = value.offset,
        .commit_timestamp = value.commit_timestamp,
        .expire_timestamp = value.expire_timestamp,
        .leader_epoch = version == 1 ? -1 : value.leader_epoch,     /* v1 has no place for it (trap 8) */
        .metadata = value.metadata,
        .topic_id = version == 4 ? value.topic_id : NULL,
    };
}

static void lock_table(commit *work) {
    if (!work->table_locked) pthread_mutex_lock(&work->partition->table);
}

static void unlock_table(commit *work) {
    if (!work->table_locked) pthread_mutex_unlock(&work->partition->table);
}

static void release_reservations(commit *work, size_t from) {
    lock_table(work);
    for (size_t i = from; i < work->count; i++) {
        if (work->planned[i].reserved) ol_table_release(work->partition->state.table, &work->planned[i].reservation);
        work->planned[i].reserved = false;
    }
    unlock_table(work);
}

static int reserve_one(commit *work, ol_planned *planned, ol_error *error) {
    if (planned->item->kind != OL_ITEM_POSITION) return OL_OK;
    ol_position_value value = position_value(work, planned->item, planned->value_version);
    int status = ol_table_reserve(work->partition->state.table, &planned->name, planned->item->partition, &value,
                                  &planned->reservation, error);
    planned->reserved = status == OL_OK;
    return status;
}

/* Everything that applying will need, for all items; out of memory leaves nothing changed. */
static int reserve_all(commit *work, ol_error *error) {
    ol_partition *partition = work->partition;
    int status = OL_OK;
    lock_table(work);
    if (work->producer_id >= 0 && !partition->options.replicated) {
        status = ol_pending_reserve(partition->state.pending, work->producer_id, work->count, error);
    }
    for (size_t i = 0; i < work->count && status == OL_OK; i++) status = reserve_one(work, &work->planned[i], error);
    unlock_table(work);
    if (status == OL_OK && partition->options.replicated) status = ol_inflight_reserve(&partition->inflight, work->count, error);
    if (status != OL_OK) release_reservations(work, 0);
    return status;
}

static int apply_one(commit *work, ol_planned *planned, int64_t log_offset, ol_error *error) {
    const ol_item *item = planned->item;
    ol_change change;
    change.producer_id = work->own_transaction ? -1 : work->producer_id;
    change.reservation = NULL;
    if (OL_LIKELY(item->kind == OL_ITEM_POSITION)) {
        change.kind = OL_CHANGE_POSITION;
        change.name = planned->name;
        change.partition = item->partition;
        change.value_version = planned->value_version;
        change.value = position_value(work, item, planned->value_version);
        change.value.log_offset = log_offset;
        change.reservation = &planned->reservation;
        planned->reserved = false;
    } else if (item->kind == OL_ITEM_POSITION_TOMBSTONE) {
        change.kind = OL_CHANGE_POSITION_TOMBSTONE;
        change.name = planned->name;
        change.partition = item->partition;
        change.value.log_offset = log_offset;
    } else {
        change.kind = item->value.data == NULL ? OL_CHANGE_GROUP_RECORD_TOMBSTONE : OL_CHANGE_GROUP_RECORD;
        change.group_record = (ol_group_record){item->key, item->value, log_offset, work->timestamp};
    }
    return ol_state_apply(&work->partition->state, &change, error);
}

/* A lone store: W is the log end, the batch counts at once. */
static int apply_lone(commit *work, size_t from, size_t to, int64_t base_offset, ol_error *error) {
    ol_partition *partition = work->partition;
    int64_t end = ol_log_end(partition->log);
    if (OL_UNLIKELY(partition->role == OL_ROLE_LOADING)) {
        /* Not applied by its committer: the loader reaches it in log order (design §7). */
        lock_table(work);
        for (size_t i = from; i < to; i++) {
            if (work->planned[i].reserved) ol_table_release(partition->state.table, &work->planned[i].reservation);
            work->planned[i].reserved = false;
        }
        unlock_table(work);
        ol_partition_set_positions(partition, end, partition->applied);
        return OL_OK;
    }
    int status = OL_OK;
    lock_table(work);
    for (size_t i = from; i < to && status == OL_OK; i++) {
        status = apply_one(work, &work->planned[i], base_offset + (int64_t)(i - from), error);
    }
    unlock_table(work);
    if (OL_LIKELY(status == OL_OK)) ol_partition_set_positions(partition, end, end);
    return status;
}

/* A transaction of ours: nothing can come between its batches and its marker, so that its values need not be pending meanwhile; they are applied behind
 * the marker (what a replay makes of it is the same). */
static void defer_apply(commit *work, size_t from, size_t to, int64_t base_offset) {
    int64_t end = ol_log_end(work->partition->log);
    for (size_t i = from; i < to; i++) work->planned[i].log_offset = base_offset + (int64_t)(i - from);
    ol_partition_set_positions(work->partition, end, end);
}

static int apply_deferred(commit *work, size_t from, size_t to, ol_error *error) {
    int status = OL_OK;
    if (work->partition->options.replicated) return status;
    lock_table(work);
    for (size_t i = from; i < to && status == OL_OK; i++) {
        status = apply_one(work, &work->planned[i], work->planned[i].log_offset, error);
    }
    unlock_table(work);
    return status;
}

/* A replicated leader: the batch is in flight until W passes it. */
static int note_in_flight(commit *work, size_t from, size_t to, int64_t base_offset, const uint8_t *start, size_t size,
                          ol_error *error) {
    ol_partition *partition = work->partition;
    for (size_t i = from; i < to; i++) {
        ol_planned *planned = &work->planned[i];
        if (!planned->reserved) continue;
        ol_inflight_hold(&partition->inflight, base_offset + (int64_t)(i - from), &planned->reservation);
        planned->reserved = false;
    }
    ol_batch batch;
    int status = ol_batch_parse(start, size, &batch, error);
    OL_ASSERT(status == OL_OK);
    return ol_inflight_note(&partition->inflight, &partition->state, &batch, NULL, error);
}

/* ------------------------------------------------------------------------------------------------ writing */

/* Encodes, publishes and applies one batch at the place that was reserved in the log.  A failure here is the partition's. */
static int write_batch(commit *work, size_t from, size_t to, uint8_t *start, size_t size, int64_t base_offset, ol_error *error) {
    ol_partition *partition = work->partition;
    ol_batch_fields fields = batch_fields(work, base_offset, to - from);
    uint8_t *p = start + OL_BATCH_OVERHEAD;
    for (size_t i = from; i < to; i++) p = put_record(work, p, &work->planned[i], i - from);
    OL_ASSERT(p == start + size);
    ol_batch_seal(start, p, &fields);
    int status = ol_log_publish(partition->log, &fields, size, error);
    if (OL_LIKELY(status == OL_OK)) {
        partition->last_timestamp = work->timestamp;
        if (OL_UNLIKELY(partition->options.replicated)) {
            status = note_in_flight(work, from, to, base_offset, start, size, error);
        } else if (OL_UNLIKELY(work->own_transaction)) {
            defer_apply(work, from, to, base_offset);
        } else {
            status = apply_lone(work, from, to, base_offset, error);
        }
    }
    if (OL_UNLIKELY(status != OL_OK)) ol_partition_fail(partition);
    return status;
}

static int write_one_batch(commit *work, size_t size, ol_error *error) {
    uint8_t *start;
    int64_t base_offset;
    ol_log *log = work->partition->log;
    int status = ol_log_reserve(log, size, (int32_t)work->count - 1, work->timestamp, &start, &base_offset, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    status = reserve_all(work, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    status = write_batch(work, 0, work->count, start, size, base_offset, error);
    if (OL_UNLIKELY(status != OL_OK)) {
        release_reservations(work, 0);
        return status;
    }
    *work->result = (ol_commit_result){.base_offset = base_offset, .end_offset = base_offset + (int64_t)work->count,
                                       .timestamp = work->timestamp, .written = work->count, .rests_on = -1};
    return OL_OK;
}

/* ------------------------------------------------------------------------------------------------ larger than one batch */

static int compare_groups(const void *a, const void *b) {
    const ol_planned *left = a, *right = b;
    size_t common = left->item->group.size < right->item->group.size ? left->item->group.size : right->item->group.size;
    int order = common > 0 ? memcmp(left->item->group.data, right->item->group.data, common) : 0;
    if (order != 0) return order;
    if (left->item->group.size != right->item->group.size) return left->item->group.size < right->item->group.size ? -1 : 1;
    /* The caller's order within a group: the last of two equal keys wins. */
    return left->item < right->item ? -1 : left->item > right->item;
}

/* End of the run of items from `from` on that belong to one group. */
static size_t end_of_group(const commit *work, size_t from) {
    size_t to = from + 1;
    while (to < work->count && ol_slice_equal(work->planned[to].item->group, work->planned[from].item->group)) to++;
    return to;
}

/* The most items from `from` on, not beyond `limit`, that fit one batch; at least one. */
static size_t end_of_batch(const commit *work, size_t from, size_t limit) {
    size_t size = OL_BATCH_OVERHEAD + HEADERS_SIZE_MAX;
    size_t to = from;
    while (to < limit) {
        size += record_size(work, &work->planned[to], 0) + RECORD_DELTA_SLACK;
        if (size > work->partition->options.batch_bytes_max && to > from) break;
        to++;
    }
    return to;
}

static int write_part(commit *work, size_t from, size_t to, ol_error *error) {
    uint8_t *start;
    int64_t base_offset;
    plan_headers(work);
    size_t size = batch_size(work, from, to);
    int status = ol_log_reserve(work->partition->log, size, (int32_t)(to - from) - 1, work->timestamp, &start, &base_offset, error);
    if (status == OL_OK) status = write_batch(work, from, to, start, size, base_offset, error);
    if (status != OL_OK) return status;
    if (work->result->base_offset < 0) work->result->base_offset = base_offset;
    work->result->end_offset = base_offset + (int64_t)(to - from);
    work->result->written += to - from;
    return OL_OK;
}

/* Above every id in the log and never used twice: from the time, which batches never turn back, and a counter. */
static int64_t next_own_producer_id(commit *work) {
    ol_partition *partition = work->partition;
    int64_t id = OL_OWN_PRODUCER_ID_MIN + (work->timestamp << 16);
    int64_t highest = ol_log_highest_producer_id(partition->log);
    if (partition->last_own_producer_id > highest) highest = partition->last_own_producer_id;
    if (id <= highest) id = highest + 1;
    partition->last_own_producer_id = id;
    return id;
}

/* A group that does not fit one batch: batches of a transaction of ours, and its COMMIT. */
static int write_own_transaction(commit *work, size_t from, size_t to, ol_error *error) {
    ol_partition *partition = work->partition;
    ol_commit_result marker;
    size_t first = from;
    int status = ol_partition_own_open(partition, work->producer_id, error);
    if (status != OL_OK) return status;
    while (from < to && status == OL_OK) {
        size_t end = end_of_batch(work, from, to);
        status = write_part(work, from, end, error);
        from = end;
    }
    from = first;
    ol_control type = status == OL_OK ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT;
    ol_error ignored;
    if (status != OL_OK && partition->role == OL_ROLE_FAILED) return status;    /* the next load closes it */
    int ended = ol_partition_write_marker(partition, work->producer_id, work->producer_epoch, type, 0, &marker,
                                          status == OL_OK ? error : &ignored);
    if (status != OL_OK) return status;
    if (ended == OL_OK) {
        work->result->end_offset = marker.end_offset;
        ended = apply_deferred(work, from, to, error);
    }
    return ended;
}

/* Space for everything first, so that a full disk is met before the first byte. */
static int reserve_for_parts(commit *work, ol_error *error) {
    size_t size = 0;
    for (size_t i = 0; i < work->count; i++) size += record_size(work, &work->planned[i], 0) + RECORD_DELTA_SLACK;
    size_t per_batch = OL_BATCH_OVERHEAD + HEADERS_SIZE_MAX + OL_BATCH_MARKER_SIZE;
    size_t batches = 2 + 2 * size / work->partition->options.batch_bytes_max;
    for (size_t i = 0; i < work->count; i = end_of_group(work, i)) batches++;
    int64_t total = (int64_t)(size + batches * per_batch);
    return ol_log_reserve_space(work->partition->log, total, work->partition->options.batch_bytes_max, error);
}

static int check_parts(const commit *work, ol_error *error) {
    const ol_partition *partition = work->partition;
    if (work->has_tombstones) {
        return ol_fail(error, OL_TOO_LARGE, "a delete of %zu records does not fit one batch of %zu bytes, and a larger one "
                       "could not be atomic", work->count, partition->options.batch_bytes_max);
    }
    if (partition->role != OL_ROLE_ACTIVE) return ol_fail(error, OL_LOADING, "the partition is loading");
    for (size_t i = 0; i < work->count; i++) {
        size_t size = OL_BATCH_OVERHEAD + HEADERS_SIZE_MAX + record_size(work, &work->planned[i], 0);
        if (size > partition->options.batch_bytes_max) {
            return ol_fail(error, OL_TOO_LARGE, "one record of %zu bytes is above batch_bytes_max %zu", size,
                           partition->options.batch_bytes_max);
        }
    }
    return OL_OK;
}

static int write_groups(commit *work, ol_error *error) {
    size_t from = 0;
    int status = OL_OK;
    while (from < work->count && status == OL_OK) {
        size_t group_end = end_of_group(work, from);
        if (end_of_batch(work, from, group_end) < group_end) {
            work->producer_id = next_own_producer_id(work);
            work->producer_epoch = 0;
            work->own_transaction = true;
            status = write_own_transaction(work, from, group_end, error);
            work->own_transaction = false;
            work->producer_id = -1;
            from = group_end;
            continue;
        }
        size_t end = group_end;     /* as many whole groups as fit */
        while (end < work->count) {
            size_t next = end_of_group(work, end);
            if (end_of_batch(work, from, next) < next) break;
            end = next;
        }
        status = write_part(work, from, end, error);
        from = end;
    }
    return status;
}

static int write_parts(commit *work, ol_error *error) {
    int status = check_parts(work, error);
    if (status != OL_OK) return status;
    qsort(work->planned, work->count, sizeof *work->planned, compare_groups);
    status = reserve_for_parts(work, error);
    if (status == OL_OK) status = reserve_all(work, error);
    if (status != OL_OK) return status;
    *work->result = (ol_commit_result){.base_offset = -1, .timestamp = work->timestamp, .rests_on = -1};
    if (work->producer_id >= 0) {
        for (size_t from = 0; from < work->count && status == OL_OK;) {
            size_t end = end_of_batch(work, from, work->count);
            status = write_part(work, from, end, error);
            from = end;
        }
    } else {
        status = write_groups(work, error);
    }
    if (status != OL_OK) release_reservations(work, 0);
    return status;
}

/* ------------------------------------------------------------------------------------------------ entry points */

static int ensure_planned(ol_partition *partition, size_t count, ol_error *error) {
    if (count <= partition->planned_capacity) return OL_OK;
    ol_planned *planned = realloc(partition->planned, count * sizeof *planned);
    if (planned == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to plan a commit of %zu records", count);
    partition->planned = planned;
    partition->planned_capacity = count;
    return OL_OK;
}

static bool needs_state(const ol_item *items, size_t count, int64_t producer_id) {
    if (producer_id >= 0) return true;
    for (size_t i = 0; i < count; i++) {
        if (items[i].condition != OL_CONDITION_NONE || items[i].kind == OL_ITEM_POSITION_TOMBSTONE) return true;
    }
    return false;
}

int ol_partition_commit_locked(ol_partition *partition, const ol_item *items, size_t count, int64_t producer_id,
                               int16_t producer_epoch, ol_commit_result *result, ol_error *error) {
    ol_planned on_stack[STACK_ITEMS];
    commit work = {.partition = partition, .planned = on_stack, .producer_id = producer_id, .producer_epoch = producer_epoch,
                   .result = result};
    *result = (ol_commit_result){.base_offset = -1, .rests_on = -1, .end_offset = ol_log_end(partition->log)};
    int status = ol_partition_check_writable(partition, needs_state(items, count, producer_id), error);
    if (status == OL_OK) status = ol_partition_ensure_epoch(partition, error);
    if (status == OL_OK && count > STACK_ITEMS) {
        status = ensure_planned(partition, count, error);
        work.planned = partition->planned;
    }
    if (status != OL_OK) return status;
    plan_time(&work);
    status = plan(&work, items, count, error);
    if (status != OL_OK || work.count == 0) return status;
    plan_headers(&work);
    size_t size = batch_size(&work, 0, work.count);
    if (size <= partition->options.batch_bytes_max) return write_one_batch(&work, size, error);
    return write_parts(&work, error);
}

int ol_partition_commit(ol_partition *partition, const ol_item *items, size_t count, int64_t producer_id, int16_t producer_epoch,
                        ol_commit_result *result, ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = ol_partition_commit_locked(partition, items, count, producer_id, producer_epoch, result, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}

/* Under writer: plans with nothing but memory touched, and goes on only when nothing has to be waited for. */
static int try_locked(ol_partition *partition, const ol_item *items, size_t count, ol_commit_result *result, ol_error *error) {
    ol_planned on_stack[STACK_ITEMS];
    commit work = {.partition = partition, .planned = on_stack, .producer_id = -1, .producer_epoch = -1, .result = result,
                   .table_locked = true};
    if (partition->role != OL_ROLE_ACTIVE || partition->read_only || !partition->epoch_assigned) return OL_WOULD_BLOCK;
    if (count > STACK_ITEMS) {
        if (count > partition->planned_capacity) return OL_WOULD_BLOCK;
        work.planned = partition->planned;
    }
    *result = (ol_commit_result){.base_offset = -1, .rests_on = -1, .end_offset = ol_log_end(partition->log)};
    plan_time(&work);
    int status = plan(&work, items, count, error);
    if (status != OL_OK || work.count == 0) return status;
    /* Room for the headers is counted before they are taken, since a refusal here must not use up the flushed note. */
    size_t size = batch_size(&work, 0, work.count);
    if (size > TRY_BYTES_MAX || !ol_log_is_prepared(partition->log, size + HEADERS_SIZE_MAX)) return OL_WOULD_BLOCK;
    if (pthread_mutex_trylock(&partition->table) != 0) return OL_WOULD_BLOCK;
    plan_headers(&work);
    if (work.header_count > 0) size = batch_size(&work, 0, work.count);
    status = write_one_batch(&work, size, error);
    pthread_mutex_unlock(&partition->table);
    return status;
}

int ol_partition_try_commit(ol_partition *partition, const ol_item *items, size_t count, ol_commit_result *result,
                            ol_error *error) {
    if (pthread_mutex_trylock(&partition->writer) != 0) return OL_WOULD_BLOCK;
    int status = try_locked(partition, items, count, result, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}
