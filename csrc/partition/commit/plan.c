/* Plans a commit: checks everything that can refuse it, and changes nothing. */
#include <string.h>

#include "base/bytes.h"
#include "partition/commit/commit_impl.h"
#include "partition/commit/generation.h"

/* Finds the latest written value of a position.  Sets *rests_on to the log offset that W must reach
 * for the value to be final, or to -1 if it is applied already. */
static bool latest_written(const ol_partition *partition, const ol_pair_name *name, int32_t number,
                           ol_position_value *value, int64_t *rests_on) {
    bool present;
    int64_t log_offset;
    *rests_on = -1;
    if (ol_in_flight_find(&partition->inflight, name, number, &present, value, &log_offset)) {
        *rests_on = log_offset + 1;
        return present;
    }
    return ol_table_get(partition->state.table, name, number, value);
}

static int refuse(ol_commit *work, int status, size_t item, bool found, int64_t offset,
                  int64_t rests_on, ol_error *error) {
    const ol_item *asked = work->planned[work->count].item;
    if (status == OL_REWIND) {
        ol_fail(error, status, "the committed offset is %lld, which is above %lld",
                (long long)offset, (long long)asked->offset);
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

static int check_condition(ol_commit *work, const ol_planned *planned, size_t item,
                           ol_error *error) {
    const ol_item *asked = planned->item;
    ol_position_value value;
    int64_t rests_on;
    bool found =
        latest_written(work->partition, &planned->name, asked->partition, &value, &rests_on);
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
    OL_ASSERT(!"unknown kind of condition");
    return OL_OK;
}

/* A tombstone is written only if it has something to delete (docs/format/coordinator.md §5.4). */
static bool is_there(const ol_partition *partition, const ol_planned *planned) {
    ol_position_value value;
    int64_t rests_on;
    if (latest_written(partition, &planned->name, planned->item->partition, &value, &rests_on)) {
        return true;
    }
    if (ol_pending_has(partition->state.pending, &planned->name, planned->item->partition)) {
        return true;
    }
    const ol_in_flight *inflight = &partition->inflight;
    if (!inflight->active) return false;
    const ol_table *table = inflight->written.table;
    ol_pair_name name =
        ol_table_name(table, planned->name.group, ol_table_group_hash(table, planned->name.group),
                      planned->name.topic);
    return ol_pending_has(inflight->written.pending, &name, planned->item->partition);
}

static int16_t known_version_of_log(const ol_partition *partition) {
    /* A loader changes the state without a lock. */
    bool is_loaded = ol_partition_is_loaded(partition);
    int32_t seen = is_loaded ? partition->state.value_version_max : -1;
    int16_t unapplied = partition->value_version_unapplied;
    if (unapplied > 0 && unapplied > seen) seen = unapplied;
    if (!ol_log_has_other_writers(partition->log)) return seen >= 4 ? 4 : 3;
    if (seen >= 0) return seen == 0 ? 1 : (int16_t)seen;
    bool has_all = is_loaded && atomic_load(&partition->applied) == ol_log_end(partition->log);
    return has_all ? 3 : 1;
}

int16_t ol_commit_known_value_version(const ol_partition *partition) {
    if (partition->options.value_v4 == OL_VALUE_V4_ALWAYS) return 4;
    int16_t version = known_version_of_log(partition);
    return version == 4 && partition->options.value_v4 == OL_VALUE_V4_NEVER ? 3 : version;
}

ol_offset_value ol_commit_encoded_value(const ol_commit *work, const ol_item *item) {
    return (ol_offset_value){
        .offset = item->offset,
        .commit_timestamp =
            item->commit_timestamp >= 0 ? item->commit_timestamp : work->position_time,
        .expire_timestamp = item->expire_timestamp,
        .leader_epoch = item->leader_epoch,
        .metadata = item->metadata,
        .topic_id = item->topic_id,
    };
}

static void plan_name(ol_commit *work, ol_planned *planned, const ol_planned *previous) {
    const ol_item *item = planned->item;
    const ol_table *table = work->partition->state.table;
    uint64_t group_hash;
    if (previous != NULL && previous->item->kind != OL_ITEM_GROUP_RECORD &&
        previous->item->group.data == item->group.data &&
        previous->item->group.size == item->group.size) {
        group_hash = previous->name.group_hash;
        if (previous->item->topic.data == item->topic.data &&
            previous->item->topic.size == item->topic.size) {
            planned->name = previous->name;
            return;
        }
    } else {
        group_hash = ol_table_group_hash(table, item->group);
    }
    planned->name = ol_table_name(table, item->group, group_hash, item->topic);
}

/* Refuses a record that a broker would not load.  Also refuses a record of an offset, because
 * offsets have an item kind of their own.  *group points into the key. */
static int check_group_record(const ol_item *item, size_t index, ol_slice *group, ol_error *error) {
    ol_key key;
    int status = ol_key_decode(item->key, &key, error);
    if (status == OL_OK && (!key.known || key.type <= OL_KEY_OFFSET_COMMIT ||
                            !ol_slice_equal(key.group, item->group))) {
        status = ol_fail(error, OL_INVALID,
                         "the key (of type %d) names another group, or is not the key of a group "
                         "record",
                         key.type);
    }
    if (status == OL_OK) {
        *group = key.group;
    } else {
        error->item = (int64_t)index;
    }
    return status;
}

static void plan_sizes(ol_commit *work, ol_planned *planned) {
    const ol_item *item = planned->item;
    if (item->kind == OL_ITEM_GROUP_RECORD) {
        planned->key_size = item->key.size;
        planned->value_size = item->value.data == NULL ? -1 : (int64_t)item->value.size;
        return;
    }
    planned->key_size = ol_offset_key_size(item->group, item->topic);
    planned->value_size = -1;
    if (item->kind == OL_ITEM_POSITION) {
        ol_offset_value value = ol_commit_encoded_value(work, item);
        planned->value_version =
            ol_offset_value_version(&value, ol_commit_known_value_version(work->partition));
        planned->value_size = (int64_t)ol_offset_value_size(&value, planned->value_version);
    }
}

static int check_generation(ol_commit *work, const ol_item *item, size_t index, ol_error *error) {
    int status = ol_commit_check_generation(work->partition, item, work->result, error);
    if (status != OL_OK) error->item = (int64_t)index;
    return status;
}

/* Fills work->planned and checks every condition; nothing is changed. */
int ol_commit_plan(ol_commit *work, const ol_item *items, size_t count, ol_error *error) {
    const ol_planned *previous = NULL;
    for (size_t i = 0; i < count; i++) {
        if (OL_UNLIKELY(items[i].kind == OL_ITEM_GENERATION)) {
            int refused = check_generation(work, &items[i], i, error);
            if (refused != OL_OK) return refused;
            continue;
        }
        ol_planned *planned = &work->planned[work->count];
        planned->item = &items[i];
        planned->reserved = false;
        planned->settled_pair = 0;
        if (items[i].kind != OL_ITEM_GROUP_RECORD) {
            OL_ASSERT(items[i].group.size <= OL_STRING_SIZE_MAX &&
                      items[i].topic.size <= OL_STRING_SIZE_MAX);
            OL_ASSERT(items[i].metadata.size <= OL_STRING_SIZE_MAX);
            plan_name(work, planned, previous);
        }
        if (items[i].kind != OL_ITEM_POSITION) work->has_tombstones = true;
        int status = OL_OK;
        if (OL_UNLIKELY(items[i].condition != OL_CONDITION_NONE)) {
            status = check_condition(work, planned, i, error);
        }
        if (OL_UNLIKELY(items[i].kind == OL_ITEM_GROUP_RECORD)) {
            status = check_group_record(&items[i], i, &planned->name.group, error);
        }
        if (OL_UNLIKELY(status != OL_OK)) return status;
        if (items[i].kind == OL_ITEM_POSITION_TOMBSTONE && !is_there(work->partition, planned)) {
            continue;
        }
        plan_sizes(work, planned);
        previous = planned;
        work->count++;
    }
    return OL_OK;
}

void ol_commit_plan_time(ol_commit *work) {
    ol_batch_time now = ol_batch_clock_next(&work->partition->clock);
    work->timestamp = now.batch;
    work->position_time = now.position;
}

static void add_header(ol_commit *work, const char *key, const uint8_t *value, size_t value_size) {
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

void ol_commit_plan_headers(ol_commit *work) {
    work->headers_size = 0;
    work->header_count = 0;
    if (work->own_transaction) add_header(work, OL_HEADER_TRANSACTION, (const uint8_t *)"1", 1);
    if (work->partition->options.replicated) return;
    int64_t flushed = ol_log_take_flushed_record(work->partition->log);
    if (OL_LIKELY(flushed < 0)) return;
    uint8_t value[8];
    ol_store_i64(value, flushed);
    add_header(work, OL_HEADER_FLUSHED, value, sizeof value);
}
