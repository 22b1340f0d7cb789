/* crash_model: what a partition must hold, kept as plainly as can be, to judge the engine by.
 *
 * A history is a list of atoms in log order; each is there whole or not at all: one batch, one group of a commit that was larger
 * than a batch, one end of a transaction.  The state after the first k atoms is made by applying them from the start, by the rules of
 * docs/format/loading.md §6.4.  Nothing here is shared with the engine but its reading functions, through which a partition is compared.
 */
#ifndef CRASH_MODEL_H
#define CRASH_MODEL_H

#include "base/bytes.h"
#include "partition_fixture.h"

enum {
    MODEL_GROUPS = 5,
    MODEL_TOPICS = 2,
    MODEL_NUMBERS = 24,
    MODEL_KEYS_OF_GROUP = MODEL_TOPICS * MODEL_NUMBERS,
    MODEL_KEYS = MODEL_GROUPS * MODEL_KEYS_OF_GROUP,
    MODEL_PRODUCERS = 3,
    MODEL_ATOMS_MAX = 4096,
};

typedef enum model_kind { MODEL_PUT, MODEL_ERASE, MODEL_RECORD, MODEL_RECORD_ERASE } model_kind;

typedef struct model_entry {
    model_kind kind;
    int key;                    /* of a position, or the group's number */
    int64_t offset;             /* or the number that a group record's value is made of */
    int32_t leader_epoch;
    int32_t metadata;           /* number that the text is made of; 0: none */
} model_entry;

typedef struct model_atom {
    model_entry *entries;
    size_t count;
    int producer;               /* index of an open transaction; -1: plain */
    int end;                    /* OL_CONTROL_COMMIT or OL_CONTROL_ABORT of the producer's transaction; -1: none */
    int64_t log_offset;         /* of the first record, or below it with no other record between */
    int64_t end_offset;
} model_atom;

typedef struct model_value {
    bool present;
    int64_t offset;
    int32_t leader_epoch;
    int32_t metadata;
    int64_t log_offset;
} model_value;

typedef struct model_state {
    model_value positions[MODEL_KEYS];
    model_value pending[MODEL_PRODUCERS][MODEL_KEYS];
    bool is_open[MODEL_PRODUCERS];
    int64_t records[MODEL_GROUPS];      /* -1 none */
} model_state;

typedef struct model_history {
    model_atom atoms[MODEL_ATOMS_MAX];
    size_t count;
    size_t done;                /* atoms of calls that returned OL_OK; those after may be there or not */
} model_history;

static const int64_t model_producer_ids[MODEL_PRODUCERS] = {4000, 17, 123456789012};

/* ------------------------------------------------------------------------------------------------ names */

static const char *model_group_name(int group) {
    static const char *const names[MODEL_GROUPS] = {"billing", "g", "orders-é", "reports", "zeta"};
    return names[group];
}

static int model_key_of(int group, int topic, int number) { return (group * MODEL_TOPICS + topic) * MODEL_NUMBERS + number; }
static int model_group_of(int key) { return key / MODEL_KEYS_OF_GROUP; }
static const char *model_topic_of(int key) { return key / MODEL_NUMBERS % MODEL_TOPICS == 0 ? "invoices" : "t"; }
static int32_t model_number_of(int key) { return key % MODEL_NUMBERS; }

static ol_slice model_metadata(int32_t metadata, char buffer[16]) {
    if (metadata == 0) return text("");
    snprintf(buffer, 16, "m%d", metadata);
    return ol_slice_of(buffer, strlen(buffer));
}

/* The key of a group's metadata record (type 2), and a value that tells `number`. */
static ol_slice model_record_key(int group, uint8_t buffer[32]) {
    const char *name = model_group_name(group);
    ol_store_i16(buffer, 2);
    ol_store_i16(buffer + 2, (int16_t)strlen(name));
    memcpy(buffer + 4, name, strlen(name));
    return ol_slice_of(buffer, 4 + strlen(name));
}

/* GroupMetadata v3 of an empty group whose generation is `number`. */
static ol_slice model_record_value(int64_t number, uint8_t buffer[32]) {
    memset(buffer, 0, 32);
    ol_store_i16(buffer, 3);                    /* version; protocol type "" */
    ol_store_i32(buffer + 4, (int32_t)number);
    ol_store_i16(buffer + 8, -1);               /* no protocol */
    ol_store_i16(buffer + 10, -1);              /* no leader */
    ol_store_i64(buffer + 12, -1);              /* no time; no members */
    return ol_slice_of(buffer, 24);
}

/* ------------------------------------------------------------------------------------------------ the rules */

static void model_reset(model_state *state) {
    memset(state, 0, sizeof *state);
    for (int i = 0; i < MODEL_GROUPS; i++) state->records[i] = -1;
}

static void model_apply_entry(model_state *state, const model_atom *atom, const model_entry *entry) {
    model_value value = {true, entry->offset, entry->leader_epoch, entry->metadata, atom->log_offset};
    switch (entry->kind) {
        case MODEL_PUT:
            if (atom->producer >= 0) state->pending[atom->producer][entry->key] = value;
            else state->positions[entry->key] = value;
            break;
        case MODEL_ERASE:
            state->positions[entry->key].present = false;
            for (int i = 0; i < MODEL_PRODUCERS; i++) state->pending[i][entry->key].present = false;
            break;
        case MODEL_RECORD:
            state->records[entry->key] = entry->offset;
            break;
        case MODEL_RECORD_ERASE:
            state->records[entry->key] = -1;
            break;
    }
}

/* Whether a COMMIT would install this value: nothing newer is stored. */
static bool model_would_install(const model_state *state, int producer, int key) {
    const model_value *pending = &state->pending[producer][key];
    const model_value *stored = &state->positions[key];
    return pending->present && (!stored->present || pending->log_offset > stored->log_offset);
}

static void model_apply(model_state *state, const model_atom *atom) {
    if (atom->end < 0) {
        if (atom->producer >= 0) state->is_open[atom->producer] = true;
        for (size_t i = 0; i < atom->count; i++) model_apply_entry(state, atom, &atom->entries[i]);
        return;
    }
    for (int key = 0; key < MODEL_KEYS; key++) {
        model_value *pending = &state->pending[atom->producer][key];
        bool installed = atom->end == OL_CONTROL_COMMIT && model_would_install(state, atom->producer, key);
        if (installed) state->positions[key] = *pending;
        pending->present = false;
    }
    state->is_open[atom->producer] = false;
}

static model_atom *model_add(model_history *history, size_t entries, int producer, int end, int64_t log_offset) {
    OL_CHECK(history->count < MODEL_ATOMS_MAX);
    model_atom *atom = &history->atoms[history->count++];
    *atom = (model_atom){.count = entries, .producer = producer, .end = end, .log_offset = log_offset, .end_offset = INT64_MAX};
    if (entries > 0) atom->entries = malloc(entries * sizeof *atom->entries);
    return atom;
}

static void model_drop_to(model_history *history, size_t count) {
    while (history->count > count) free(history->atoms[--history->count].entries);
    if (history->done > count) history->done = count;
}

static void model_replay(const model_history *history, size_t count, model_state *state) {
    model_reset(state);
    for (size_t i = 0; i < count; i++) model_apply(state, &history->atoms[i]);
}

/* Atoms that end at or below `offset`, of those that are done. */
OL_UNUSED static size_t model_count_below(const model_history *history, int64_t offset) {
    size_t count = 0;
    while (count < history->done && history->atoms[count].end_offset <= offset) count++;
    return count;
}

/* ------------------------------------------------------------------------------------------------ comparing */

static bool model_same_value(const model_value *wanted, bool found, const ol_position_value *value) {
    char buffer[16];
    if (wanted->present != found) return false;
    return !found || (wanted->offset == value->offset && wanted->leader_epoch == value->leader_epoch &&
                      ol_slice_equal(model_metadata(wanted->metadata, buffer), value->metadata));
}

static bool model_same_positions(const model_state *model, const ol_state *state, char *why, size_t why_size) {
    uint64_t count = 0;
    for (int key = 0; key < MODEL_KEYS; key++) {
        ol_slice group = text(model_group_name(model_group_of(key)));
        ol_pair_name name = ol_table_name(state->table, group, ol_table_group_hash(state->table, group), text(model_topic_of(key)));
        ol_position_value value = {0};
        bool found = ol_table_get(state->table, &name, model_number_of(key), &value);
        count += model->positions[key].present;
        if (model_same_value(&model->positions[key], found, &value)) continue;
        snprintf(why, why_size, "%s %s-%d is %" PRId64 ", the model says %" PRId64, model_group_name(model_group_of(key)),
                 model_topic_of(key), model_number_of(key), found ? value.offset : -1,
                 model->positions[key].present ? model->positions[key].offset : -1);
        return false;
    }
    if (count == ol_table_count(state->table)) return true;
    snprintf(why, why_size, "%" PRIu64 " positions, the model has %" PRIu64, ol_table_count(state->table), count);
    return false;
}

static bool model_same_records(const model_state *model, const ol_state *state, char *why, size_t why_size) {
    uint64_t count = 0;
    for (int group = 0; group < MODEL_GROUPS; group++) {
        uint8_t key[32], value[32];
        ol_group_record record;
        bool found = ol_group_records_get(state->group_records, model_record_key(group, key), &record);
        bool wanted = model->records[group] >= 0;
        count += wanted;
        if (found == wanted && (!found || ol_slice_equal(record.value, model_record_value(model->records[group], value)))) continue;
        snprintf(why, why_size, "the record of group %s is %s", model_group_name(group), found ? "another" : "missing");
        return false;
    }
    if (count == ol_group_records_count(state->group_records)) return true;
    snprintf(why, why_size, "%" PRIu64 " group records", ol_group_records_count(state->group_records));
    return false;
}

/* Values of open transactions of the workload's own producers, as far as a COMMIT would install them; transactions of the engine's are
 * not looked at. */
static bool model_same_pending(const model_state *model, const ol_state *state, char *why, size_t why_size) {
    for (int producer = 0; producer < MODEL_PRODUCERS; producer++) {
        size_t wanted = 0, found = 0;
        for (int key = 0; key < MODEL_KEYS; key++) wanted += model_would_install(model, producer, key);
        ol_table_row row;
        size_t cursor = 0;
        while (ol_pending_next_value(state->pending, model_producer_ids[producer], &cursor, &row)) {
            bool matched = false;
            for (int key = 0; key < MODEL_KEYS && !matched; key++) {
                matched = row.partition == model_number_of(key) && ol_slice_equal(row.topic, text(model_topic_of(key))) &&
                          ol_slice_equal(row.group, text(model_group_name(model_group_of(key)))) &&
                          model_same_value(&model->pending[producer][key], true, &row.value);
            }
            found += matched;
            if (matched) continue;
            snprintf(why, why_size, "producer %d has a pending value that the model does not know", producer);
            return false;
        }
        if (found == wanted) continue;
        snprintf(why, why_size, "producer %d has %zu pending values, the model %zu", producer, found, wanted);
        return false;
    }
    return true;
}

static bool model_same(const model_state *model, ol_partition *partition, char *why, size_t why_size) {
    const ol_state *state;
    ol_error error;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    bool same = model_same_positions(model, state, why, why_size) && model_same_records(model, state, why, why_size) &&
                model_same_pending(model, state, why, why_size);
    ol_partition_unlock_state(partition);
    return same;
}

/* The number of atoms, from `low` to `high`, after which the model is what the partition holds; -1: none. */
OL_UNUSED static int64_t model_find(const model_history *history, size_t low, size_t high, ol_partition *partition, char *why,
                                    size_t why_size) {
    static model_state state;
    OL_CHECK(low <= high && high <= history->count);
    model_replay(history, low, &state);
    for (size_t count = low;; count++) {
        if (model_same(&state, partition, why, why_size)) return (int64_t)count;
        if (count == high) return -1;
        model_apply(&state, &history->atoms[count]);
    }
}

#endif
