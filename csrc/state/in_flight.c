/* state/in_flight.c: keeps the overlay's state, its tombstones and its reservations. */
#include "state/in_flight.h"

#include <stdlib.h>
#include <string.h>

void ol_in_flight_init(ol_in_flight *in_flight) {
    memset(in_flight, 0, sizeof *in_flight);
}

static void drop_records(ol_in_flight *in_flight) {
    ol_state_destroy(&in_flight->written);
    ol_group_records_destroy(in_flight->gone);
    in_flight->gone = NULL;
    ol_table_destroy(in_flight->absent);
    ol_int64_map_free(&in_flight->ended);
    in_flight->written = (ol_state){0};
    in_flight->absent = NULL;
    in_flight->active = false;
}

void ol_in_flight_reset(ol_in_flight *in_flight, ol_table *table) {
    ol_in_flight_release(in_flight, table, INT64_MAX);
    free(in_flight->held);
    drop_records(in_flight);
    ol_in_flight_init(in_flight);
}

void ol_in_flight_take_records(ol_in_flight *in_flight, ol_in_flight *from) {
    drop_records(in_flight);
    in_flight->written = from->written;
    in_flight->absent = from->absent;
    in_flight->gone = from->gone;
    in_flight->ended = from->ended;
    in_flight->active = from->active;
    from->written = (ol_state){0};
    from->absent = NULL;
    from->gone = NULL;
    from->ended = (ol_int64_map){0};
    from->active = false;
}

int ol_in_flight_reserve(ol_in_flight *in_flight, size_t count, ol_error *error) {
    if (in_flight->held_first > in_flight->held_capacity / 2) {
        size_t live = in_flight->held_count - in_flight->held_first;
        memmove(in_flight->held, in_flight->held + in_flight->held_first,
                live * sizeof *in_flight->held);
        in_flight->held_first = 0;
        in_flight->held_count = live;
    }
    size_t wanted = in_flight->held_count + count;
    if (wanted <= in_flight->held_capacity) return OL_OK;
    size_t capacity = wanted + wanted / 2 + 64;
    ol_held *held = realloc(in_flight->held, capacity * sizeof *held);
    if (held == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu reserved positions", capacity);
    }
    in_flight->held = held;
    in_flight->held_capacity = capacity;
    return OL_OK;
}

void ol_in_flight_hold(ol_in_flight *in_flight, int64_t log_offset,
                       const ol_reservation *reservation) {
    OL_ASSERT(in_flight->held_count < in_flight->held_capacity);
    in_flight->held[in_flight->held_count++] = (ol_held){log_offset, *reservation};
}

/* The overlay has a table with a hash seed of its own, so names are hashed again. */
static ol_pair_name rename_for(const ol_table *table, const ol_pair_name *name) {
    return ol_table_name(table, name->group, ol_table_group_hash(table, name->group), name->topic);
}

bool ol_in_flight_find(const ol_in_flight *in_flight, const ol_pair_name *name, int32_t partition,
                       bool *present, ol_position_value *value, int64_t *log_offset) {
    if (!in_flight->active) return false;
    ol_position_value gone;
    ol_pair_name written_name = rename_for(in_flight->written.table, name);
    ol_pair_name absent_name = rename_for(in_flight->absent, name);
    *present = ol_table_get(in_flight->written.table, &written_name, partition, value);
    bool erased = ol_table_get(in_flight->absent, &absent_name, partition, &gone);
    OL_ASSERT(!(*present && erased));
    *log_offset = *present ? value->log_offset : erased ? gone.log_offset : -1;
    return *present || erased;
}

static int record_value(ol_in_flight *in_flight, const ol_pair_name *name, int32_t partition,
                        const ol_position_value *value, ol_error *error) {
    ol_pair_name absent_name = rename_for(in_flight->absent, name);
    ol_pair_name written_name = rename_for(in_flight->written.table, name);
    int status = ol_table_put(in_flight->written.table, &written_name, partition, value, error);
    if (status == OL_OK) {
        ol_table_remove(in_flight->absent, &absent_name, partition, value->log_offset);
    }
    return status;
}

static int record_tombstone(ol_in_flight *in_flight, const ol_change *change, ol_error *error) {
    ol_pair_name absent_name = rename_for(in_flight->absent, &change->name);
    ol_position_value gone = {.log_offset = change->value.log_offset, .expire_timestamp = -1};
    int status = ol_table_put(in_flight->absent, &absent_name, change->partition, &gone, error);
    if (status != OL_OK) return status;
    ol_table_remove(in_flight->written.table, &change->name, change->partition,
                    change->value.log_offset);
    return OL_OK;
}

/* Records one pending value whose COMMIT was written.  It is the latest written value unless a
 * later record is in flight or in the applied table. */
static int record_committed(ol_in_flight *in_flight, const ol_state *state, const ol_table_row *row,
                            ol_error *error) {
    ol_pair_name name = {.group = row->group, .topic = row->topic};
    ol_position_value latest;
    bool present;
    int64_t log_offset;
    if (ol_in_flight_find(in_flight, &name, row->partition, &present, &latest, &log_offset)) {
        if (log_offset >= row->value.log_offset) return OL_OK;
    } else {
        ol_pair_name applied_name = rename_for(state->table, &name);
        if (ol_table_get(state->table, &applied_name, row->partition, &latest) &&
            latest.log_offset > row->value.log_offset) {
            return OL_OK;
        }
    }
    return record_value(in_flight, &name, row->partition, &row->value, error);
}

/* Copies the strings that a row borrows from the table that is about to receive the value, because
 * the put may move that table's memory. */
static uint8_t *own_row(ol_table_row *row) {
    size_t size = row->group.size + row->topic.size + row->value.metadata.size + OL_TOPIC_ID_SIZE;
    uint8_t *copy = malloc(size);
    if (copy == NULL) return NULL;
    uint8_t *p = copy;
    ol_slice *slices[] = {&row->group, &row->topic, &row->value.metadata};
    for (size_t i = 0; i < 3; i++) {
        if (slices[i]->size > 0) memcpy(p, slices[i]->data, slices[i]->size);
        slices[i]->data = p;
        p += slices[i]->size;
    }
    if (row->value.topic_id != NULL) {
        row->value.topic_id = memcpy(p, row->value.topic_id, OL_TOPIC_ID_SIZE);
    }
    return copy;
}

static int record_pending_of(ol_in_flight *in_flight, const ol_state *state,
                             const ol_pending *pending, int64_t producer_id, ol_error *error) {
    ol_table_row row;
    /* not an index: a recorded value is no longer among the values that a COMMIT would install */
    size_t cursor = 0;
    int64_t ended = (int64_t)ol_int64_map_get(&in_flight->ended, (uint64_t)producer_id);
    while (ol_pending_next_value(pending, producer_id, &cursor, &row)) {
        /* An earlier marker in flight ended this value's transaction; the applied state does not
         * know that yet. */
        if (row.value.log_offset < ended) continue;
        uint8_t *copy = own_row(&row);
        if (copy == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory to commit a pending value");
        }
        int status = record_committed(in_flight, state, &row, error);
        free(copy);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static int record_marker(ol_in_flight *in_flight, const ol_state *state, const ol_batch *batch,
                         int64_t log_offset, ol_control type, ol_error *error) {
    if (type == OL_CONTROL_OTHER) return OL_OK;
    int status = ol_int64_map_reserve(&in_flight->ended, in_flight->ended.count + 1, error);
    if (status != OL_OK) return status;
    if (type == OL_CONTROL_COMMIT) {
        status = record_pending_of(in_flight, state, state->pending, batch->producer_id, error);
        if (status == OL_OK) {
            status = record_pending_of(in_flight, state, in_flight->written.pending,
                                       batch->producer_id, error);
        }
    }
    ol_pending_abort(in_flight->written.pending, batch->producer_id);
    ol_int64_map_set(&in_flight->ended, (uint64_t)batch->producer_id, (uint64_t)log_offset + 1);
    return status;
}

/* Records a group record, so that the deletion of a group and conditions on its generation find
 * those in flight. */
static int record_group(ol_in_flight *in_flight, const ol_change *change, ol_error *error) {
    const ol_group_record *record = &change->group_record;
    int status = OL_OK;
    if (change->kind == OL_CHANGE_GROUP_RECORD_TOMBSTONE) {
        ol_group_record gone = *record;
        gone.value = ol_slice_of("", 0);
        status = ol_group_records_put(in_flight->gone, &gone, error);
    } else if (change->kind == OL_CHANGE_GROUP_RECORD) {
        ol_group_records_remove(in_flight->gone, record->key);
    }
    if (status == OL_OK) status = ol_state_apply(&in_flight->written, change, error);
    return status;
}

/* OL_END: the rest of the batch has no effect. */
static int record_change(ol_in_flight *in_flight, const ol_state *state, const ol_batch *batch,
                         const ol_record *record, ol_error *error) {
    if (ol_batch_is_control(batch)) {
        ol_control type;
        int32_t coordinator_epoch;
        int status = ol_control_decode(record, &type, &coordinator_epoch, error);
        /* Apply ignores markers that follow such a record in its batch. */
        if (status != OL_OK) return OL_END;
        return record_marker(in_flight, state, batch, record->offset, type, error);
    }
    ol_change change;
    /* A record that Kafka would refuse is reported when W passes it, and has no effect then
     * either. */
    if (ol_change_decode(&in_flight->written, batch, record, NULL, &change, error) != OL_OK) {
        return OL_OK;
    }
    if (change.kind == OL_CHANGE_POSITION_TOMBSTONE) {
        return record_tombstone(in_flight, &change, error);
    }
    if (change.kind != OL_CHANGE_POSITION) return record_group(in_flight, &change, error);
    if (change.producer_id >= 0) return ol_state_apply(&in_flight->written, &change, error);
    return record_value(in_flight, &change.name, change.partition, &change.value, error);
}

static int activate(ol_in_flight *in_flight, ol_error *error) {
    if (in_flight->active) return OL_OK;
    int status = ol_state_create(&in_flight->written, error);
    if (status != OL_OK) return status;
    status = ol_table_create(&in_flight->absent, error);
    if (status == OL_OK) status = ol_group_records_create(&in_flight->gone, error);
    if (status != OL_OK) {
        drop_records(in_flight);
        return status;
    }
    in_flight->active = true;
    return OL_OK;
}

int ol_in_flight_record(ol_in_flight *in_flight, const ol_state *state, const ol_batch *batch,
                        const ol_decompressor *decompressor, ol_error *error) {
    int status = activate(in_flight, error);
    if (status != OL_OK) return status;
    ol_records records;
    status = ol_records_open(&records, batch, decompressor, error);
    /* otherwise skipped, as apply does */
    if (status != OL_OK) return ol_state_is_no_damage(status) ? status : OL_OK;
    status = ol_records_check(&records, error);
    if (status != OL_OK) {
        ol_records_close(&records);
        return OL_OK;
    }
    ol_record record;
    while ((status = ol_records_next(&records, &record, error)) == OL_OK) {
        status = record_change(in_flight, state, batch, &record, error);
        if (status != OL_OK) break;
    }
    ol_records_close(&records);
    return status == OL_END ? OL_OK : status;
}

static void release_position(ol_table *table, const ol_change *change) {
    ol_pair_name name = rename_for(table, &change->name);
    ol_position_value value;
    if (!ol_table_get(table, &name, change->partition, &value)) return;
    if (value.log_offset <= change->value.log_offset) {
        ol_table_remove(table, &name, change->partition, change->value.log_offset);
    }
}

static void release_group_record(ol_group_records *records, const ol_group_record *applied) {
    ol_group_record record;
    if (!ol_group_records_get(records, applied->key, &record)) return;
    if (record.log_offset <= applied->log_offset) ol_group_records_remove(records, applied->key);
}

void ol_in_flight_release(ol_in_flight *in_flight, ol_table *table, int64_t last_offset) {
    while (in_flight->held_first < in_flight->held_count &&
           in_flight->held[in_flight->held_first].log_offset <= last_offset) {
        ol_table_release(table, &in_flight->held[in_flight->held_first++].reservation);
    }
    if (in_flight->held_first == in_flight->held_count) {
        in_flight->held_first = in_flight->held_count = 0;
    }
}

/* Applying the batch of a value does not remove the value if a COMMIT marker in flight made it the
 * latest written one, and the entries of ended producers accumulate. */
static bool is_empty(const ol_in_flight *in_flight) {
    ol_pending_producer first;
    return !ol_pending_producer_at(in_flight->written.pending, 0, &first) &&
           ol_table_count(in_flight->written.table) == 0 &&
           ol_table_count(in_flight->absent) == 0 &&
           ol_group_records_count(in_flight->written.group_records) == 0 &&
           ol_group_records_count(in_flight->gone) == 0 &&
           in_flight->ended.count == 0;
}

/* An empty overlay stays allocated; otherwise a leader whose commits have conditions would create
 * one for each commit. */
void ol_in_flight_forget(ol_in_flight *in_flight) {
    if (!in_flight->active || is_empty(in_flight)) return;
    drop_records(in_flight);
}

void ol_in_flight_applied(ol_in_flight *in_flight, const ol_batch *batch,
                          const ol_decompressor *decompressor) {
    if (!in_flight->active) return;
    if (ol_batch_is_control(batch)) {
        uint64_t producer_id = (uint64_t)batch->producer_id;
        if (ol_int64_map_get(&in_flight->ended, producer_id) <= (uint64_t)batch->last_offset + 1) {
            ol_int64_map_set(&in_flight->ended, producer_id, 0);
        }
        return;
    }
    ol_records records;
    ol_record record;
    ol_change change;
    ol_error ignored;
    if (ol_records_open(&records, batch, decompressor, &ignored) != OL_OK) return;
    /* Nothing of a batch that is not whole was recorded or applied. */
    bool is_whole = ol_records_check(&records, &ignored) == OL_OK;
    while (is_whole && ol_records_next(&records, &record, &ignored) == OL_OK) {
        if (ol_change_decode(&in_flight->written, batch, &record, NULL, &change, &ignored) !=
            OL_OK) {
            continue;
        }
        if (change.kind == OL_CHANGE_GROUP_RECORD) {
            release_group_record(in_flight->written.group_records, &change.group_record);
        }
        if (change.kind == OL_CHANGE_GROUP_RECORD_TOMBSTONE) {
            release_group_record(in_flight->gone, &change.group_record);
        }
        if (change.kind != OL_CHANGE_POSITION && change.kind != OL_CHANGE_POSITION_TOMBSTONE) {
            continue;
        }
        if (change.producer_id >= 0 && change.kind == OL_CHANGE_POSITION) continue;
        release_position(in_flight->written.table, &change);
        release_position(in_flight->absent, &change);
    }
    ol_records_close(&records);
}
