/* state/state.c: decodes records, applies changes, and applies whole batches. */
#include "state/state.h"

#include <string.h>

#include "base/bytes.h"
#include "state/run.h"

int ol_state_create(ol_state *state, ol_error *error) {
    memset(state, 0, sizeof *state);
    state->value_version_max = -1;
    int status = ol_table_create(&state->table, error);
    if (status == OL_OK) status = ol_pending_create(state->table, &state->pending, error);
    if (status == OL_OK) status = ol_group_records_create(&state->group_records, error);
    if (status != OL_OK) ol_state_destroy(state);
    return status;
}

void ol_state_destroy(ol_state *state) {
    if (state->pending != NULL) ol_pending_destroy(state->pending);
    if (state->group_records != NULL) ol_group_records_destroy(state->group_records);
    if (state->table != NULL) ol_table_destroy(state->table);
    ol_run_effects_destroy(state->effects);
    memset(state, 0, sizeof *state);
}

static ol_pair_name name_of(const ol_state *state, const ol_key *key, const ol_change *previous) {
    uint64_t group_hash;
    if (previous != NULL && ol_slice_equal(previous->name.group, key->group)) {
        if (ol_slice_equal(previous->name.topic, key->topic)) {
            ol_pair_name name = previous->name;
            name.group = key->group;
            name.topic = key->topic;
            return name;
        }
        group_hash = previous->name.group_hash;
    } else {
        group_hash = ol_table_group_hash(state->table, key->group);
    }
    return ol_table_name(state->table, key->group, group_hash, key->topic);
}

static bool is_position(const ol_change *change) {
    return change->kind == OL_CHANGE_POSITION || change->kind == OL_CHANGE_POSITION_TOMBSTONE;
}

static int decode_position(const ol_state *state, const ol_key *key, const ol_record *record,
                           const ol_change *previous, ol_change *change, ol_error *error) {
    if (previous != NULL && !is_position(previous)) previous = NULL;
    change->name = name_of(state, key, previous);
    change->partition = key->partition;
    change->value.log_offset = record->offset;
    if (record->value.data == NULL) {
        change->kind = OL_CHANGE_POSITION_TOMBSTONE;
        return OL_OK;
    }
    ol_offset_value decoded;
    int status = ol_offset_value_decode(record->value, key->type, &decoded, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    change->kind = OL_CHANGE_POSITION;
    change->value_version = decoded.version;
    change->value.offset = decoded.offset;
    change->value.commit_timestamp = decoded.commit_timestamp;
    change->value.expire_timestamp = decoded.expire_timestamp;
    change->value.leader_epoch = decoded.leader_epoch;
    change->value.metadata = decoded.metadata;
    change->value.topic_id = decoded.topic_id;
    return OL_OK;
}

int ol_change_decode(const ol_state *state, const ol_batch *batch, const ol_record *record,
                     const ol_change *previous, ol_change *change, ol_error *error) {
    ol_key key;
    change->reservation = NULL;
    change->pair_hint = 0;
    change->producer_id = ol_batch_is_transactional(batch) ? batch->producer_id : -1;
    int status = ol_key_decode(record->key, &key, error);
    if (status == OL_OK && OL_LIKELY(key.type <= OL_KEY_OFFSET_COMMIT && key.known)) {
        status = decode_position(state, &key, record, previous, change, error);
    } else if (status == OL_OK && key.known) {
        change->kind = record->value.data == NULL ? OL_CHANGE_GROUP_RECORD_TOMBSTONE
                                                  : OL_CHANGE_GROUP_RECORD;
        change->group_reservation = NULL;
        change->group_record = (ol_group_record){record->key, record->value, record->offset,
                                                 record->timestamp, key.group};
    } else if (status == OL_OK) {
        change->kind = OL_CHANGE_NONE;
    }
    if (OL_UNLIKELY(status != OL_OK)) error->offset = record->offset;
    return status;
}

static int apply_pending(ol_state *state, const ol_change *change, ol_error *error) {
    ol_reservation own;
    const ol_reservation *reservation = change->reservation;
    if (reservation == NULL) {
        int status = ol_pending_reserve(state->pending, change->producer_id, 1, error);
        if (status != OL_OK) return status;
        status = ol_table_reserve(state->table, &change->name, change->partition, &change->value,
                                  &own, error);
        if (status != OL_OK) return status;
        reservation = &own;
    }
    ol_pending_add(state->pending, change->producer_id, reservation, &change->value);
    return OL_OK;
}

static int apply_position(ol_state *state, const ol_change *change, ol_error *error) {
    if (change->value_version > state->value_version_max) {
        state->value_version_max = change->value_version;
    }
    if (change->producer_id >= 0) return apply_pending(state, change, error);
    if (change->reservation == NULL) {
        return ol_table_put_hinted(state->table, change->pair_hint, &change->name,
                                   change->partition, &change->value, error);
    }
    ol_table_install(state->table, change->reservation, &change->value);
    return OL_OK;
}

static int apply_group_record(ol_state *state, const ol_change *change, ol_error *error) {
    const ol_group_record *record = &change->group_record;
    if (change->group_reservation == NULL) {
        return ol_group_records_put(state->group_records, record, error);
    }
    ol_group_records_install(state->group_records, change->group_reservation, record->log_offset,
                             record->timestamp);
    return OL_OK;
}

static int record_removed(ol_state *state, const ol_change *change, ol_error *error) {
    return state->effects == NULL ? OL_OK : ol_run_record_removed(state->effects, change, error);
}

int ol_state_apply(ol_state *state, const ol_change *change, ol_error *error) {
    switch (change->kind) {
        case OL_CHANGE_POSITION:
            return apply_position(state, change, error);
        case OL_CHANGE_POSITION_TOMBSTONE:
            ol_table_remove(state->table, &change->name, change->partition,
                            change->value.log_offset);
            return record_removed(state, change, error);
        case OL_CHANGE_GROUP_RECORD:
            return apply_group_record(state, change, error);
        case OL_CHANGE_GROUP_RECORD_TOMBSTONE:
            ol_group_records_remove(state->group_records, change->group_record.key);
            return record_removed(state, change, error);
        case OL_CHANGE_NONE:
            state->unknown_records++;
            return OL_OK;
    }
    OL_ASSERT(!"a change has a kind");
    return OL_OK;
}

int ol_state_apply_run(ol_state *state, uint32_t hint, const ol_pair_name *name,
                       const ol_position_row *rows, size_t count, int32_t value_version,
                       ol_error *error) {
    if (value_version > state->value_version_max) state->value_version_max = value_version;
    return ol_table_put_run(state->table, hint, name, rows, count, error);
}

void ol_state_end_transaction(ol_state *state, int64_t producer_id, ol_control type) {
    if (type == OL_CONTROL_COMMIT) ol_pending_commit(state->pending, producer_id);
    if (type == OL_CONTROL_ABORT) ol_pending_abort(state->pending, producer_id);
}

static int apply_control(ol_state *state, const ol_batch *batch, const ol_state_share *share,
                         ol_records *records, ol_error *error) {
    ol_record record;
    int status = ol_records_next(records, &record, error);
    while (status == OL_OK) {
        ol_control type;
        int32_t coordinator_epoch;
        status = ol_control_decode(&record, &type, &coordinator_epoch, error);
        if (status != OL_OK) return status;
        if (share == NULL || record.offset < share->until) {
            ol_state_end_transaction(state, batch->producer_id, type);
            if (state->effects != NULL) {
                status = ol_run_record_end(state->effects, batch->producer_id, type, error);
                if (status != OL_OK) return status;
            }
        }
        status = ol_records_next(records, &record, error);
    }
    return status == OL_END ? OL_OK : status;
}

static bool is_shared(const ol_state_share *share, const ol_record *record) {
    ol_key key;
    ol_error damage;
    if (share == NULL) return true;
    if (record->offset >= share->until) return false;
    if (share->shard.count <= 1) return true;
    if (ol_key_decode(record->key, &key, &damage) != OL_OK) return share->shard.number == 0;
    return ol_key_shard_has(&share->shard, &key);
}

static int apply_data(ol_state *state, const ol_batch *batch, const ol_state_share *share,
                      ol_records *records, const ol_refusal *refused, ol_error *error) {
    ol_change changes[2];
    const ol_change *previous = NULL;
    ol_record record;
    int status;
    for (unsigned turn = 0; (status = ol_records_next(records, &record, error)) == OL_OK;) {
        if (!is_shared(share, &record)) continue;
        ol_change *change = &changes[turn];
        status = ol_change_decode(state, batch, &record, previous, change, error);
        if (status != OL_OK) {
            if (refused == NULL) return status;
            refused->report(refused->context, batch, error);
            continue;
        }
        status = ol_state_apply(state, change, error);
        if (status != OL_OK) return status;
        previous = change;
        turn ^= 1;
    }
    return status == OL_END ? OL_OK : status;
}

int ol_state_apply_batch(ol_state *state, const ol_batch *batch,
                         const ol_decompressor *decompressor, const ol_refusal *refused,
                         ol_error *error) {
    return ol_state_apply_share(state, batch, NULL, decompressor, refused, error);
}

int ol_state_apply_share(ol_state *state, const ol_batch *batch, const ol_state_share *share,
                         const ol_decompressor *decompressor, const ol_refusal *refused,
                         ol_error *error) {
    ol_records records;
    int status = ol_records_open(&records, batch, decompressor, error);
    if (status != OL_OK) return status;
    /* Half a batch is never applied, so the structure is checked before the first record is
     * applied. */
    status = ol_records_check(&records, error);
    if (status != OL_OK) {
        ol_records_close(&records);
        return status;
    }
    if (ol_batch_is_control(batch)) {
        status = apply_control(state, batch, share, &records, error);
    } else {
        status = apply_data(state, batch, share, &records, refused, error);
    }
    ol_records_close(&records);
    return status;
}

uint64_t ol_state_memory_usage(const ol_state *state) {
    return ol_table_memory_total(state->table) + ol_pending_memory_usage(state->pending) +
           ol_group_records_memory_usage(state->group_records) +
           (state->effects == NULL ? 0 : ol_run_effects_memory_usage(state->effects));
}

void ol_state_digest(const ol_state *state, bool physical, ol_digest *digest) {
    digest->positions = ol_table_digest(state->table, physical);
    digest->group_records = ol_group_records_digest(state->group_records, physical);
    digest->pending = ol_pending_digest(state->pending, physical);
}
