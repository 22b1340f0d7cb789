/* in_flight_fixture: a leader's log, all of which the overlay recorded and the first batches of which are applied. */
#ifndef IN_FLIGHT_FIXTURE_H
#define IN_FLIGHT_FIXTURE_H

#include "memory_log.h"
#include "state/in_flight.h"

enum { PLAIN = -1, NONE = -1 };

typedef struct scene {
    ol_state state;             /* applied */
    ol_in_flight overlay;
    const ol_decompressor *decompressor;
    memory_log *log;
    size_t applied;             /* batches of the log */
    int64_t applied_offset;
} scene;

OL_UNUSED static ol_slice text(const char *string) { return ol_slice_of(string, strlen(string)); }

OL_UNUSED static scene begin(void) {
    scene s = {.log = calloc(1, sizeof *s.log)};
    ol_error error;
    OL_CHECK_OK(ol_state_create(&s.state, &error), &error);
    ol_in_flight_init(&s.overlay);
    return s;
}

OL_UNUSED static void end(scene *s) {
    ol_in_flight_reset(&s->overlay, s->state.table);
    ol_table_verify(s->state.table);
    ol_state_destroy(&s->state);
    free(s->log);
}

/* --------------------------------------------------------------------------------- making a log */

/* NULL is a tombstone. */
OL_UNUSED static void add_position(scene *s, const char *topic, int32_t partition, const ol_offset_value *value,
                                   int16_t version) {
    uint8_t key[1024], bytes[128];
    size_t key_size = (size_t)(ol_offset_key_put(key, OL_KEY_OFFSET_COMMIT, text("g"), text(topic), partition) - key);
    ol_slice encoded = ol_slice_null();
    if (value != NULL) encoded = ol_slice_of(bytes, (size_t)(ol_offset_value_put(bytes, value, version) - bytes));
    memory_log_put(s->log, ol_slice_of(key, key_size), encoded);
}

OL_UNUSED static void add_value(scene *s, int32_t partition, int64_t offset) {
    ol_offset_value value = {.offset = offset, .commit_timestamp = 1, .expire_timestamp = -1, .leader_epoch = -1,
                             .metadata = text("")};
    add_position(s, "t", partition, &value, 3);
}

/* The batch will claim to have one record more than it has. */
OL_UNUSED static void add_broken_value(scene *s, int32_t partition, int64_t offset) {
    add_value(s, partition, offset);
    s->log->records++;
}

OL_UNUSED static void add_tombstone(scene *s, int32_t partition) { add_position(s, "t", partition, NULL, 0); }

/* The records of the group "g" are of two types: 2 and 3. */
OL_UNUSED static ol_slice group_key(int type) {
    static const uint8_t key[2][5] = {{0, 2, 0, 1, 'g'}, {0, 3, 0, 1, 'g'}};
    return ol_slice_of(key[type - 2], sizeof key[0]);
}

OL_UNUSED static void add_group_record(scene *s, int type, const char *value) {
    memory_log_put(s->log, group_key(type), value != NULL ? text(value) : ol_slice_null());
}

/* Ends the batch. */
OL_UNUSED static void seal(scene *s, int64_t producer_id, int attributes) {
    if (producer_id >= 0) attributes |= OL_ATTRIBUTE_TRANSACTIONAL;
    memory_log_seal(s->log, producer_id, (int16_t)attributes);
}

OL_UNUSED static ol_batch last_batch(const scene *s) { return memory_log_batch(s->log, s->log->count - 1); }

/* The overlay takes the last batch. */
OL_UNUSED static int try_record(scene *s, ol_error *error) {
    ol_batch batch = last_batch(s);
    return ol_in_flight_record(&s->overlay, &s->state, &batch, s->decompressor, error);
}

/* Returns the log offset of its last record. */
OL_UNUSED static int64_t record(scene *s) {
    ol_error error;
    OL_CHECK_OK(try_record(s, &error), &error);
    return last_batch(s).last_offset;
}

/* Writes what was added. */
OL_UNUSED static int64_t write_with(scene *s, int64_t producer_id, int attributes) {
    seal(s, producer_id, attributes);
    return record(s);
}

OL_UNUSED static int64_t write_batch(scene *s, int64_t producer_id) { return write_with(s, producer_id, 0); }

OL_UNUSED static int64_t write_value(scene *s, int64_t producer_id, int32_t partition, int64_t offset) {
    add_value(s, partition, offset);
    return write_batch(s, producer_id);
}

OL_UNUSED static int64_t write_tombstone(scene *s, int64_t producer_id, int32_t partition) {
    add_tombstone(s, partition);
    return write_batch(s, producer_id);
}

OL_UNUSED static int64_t write_group_record(scene *s, int type, const char *value) {
    add_group_record(s, type, value);
    return write_batch(s, PLAIN);
}

OL_UNUSED static int64_t write_marker(scene *s, int64_t producer_id, ol_control type) {
    memory_log_marker(s->log, producer_id, type);
    return record(s);
}

OL_UNUSED static void ignore_refused(void *context OL_UNUSED, const ol_batch *batch OL_UNUSED,
                                     const ol_error *error OL_UNUSED) {}

/* W passes the next `count` batches, as in csrc/partition/replication.c. */
OL_UNUSED static void apply(scene *s, int count) {
    ol_refusal refused = {ignore_refused, NULL};
    for (; count > 0; count--) {
        ol_batch batch = memory_log_batch(s->log, s->applied++);
        ol_error error;
        int status = ol_state_apply_batch(&s->state, &batch, s->decompressor, &refused, &error);
        OL_CHECK(!ol_state_is_no_damage(status));
        ol_in_flight_release(&s->overlay, s->state.table, batch.last_offset);
        ol_in_flight_applied(&s->overlay, &batch, s->decompressor);
        s->applied_offset = batch.last_offset + 1;
    }
}

/* Records all that is not applied. */
OL_UNUSED static int record_again(const scene *s, ol_in_flight *overlay, ol_error *error) {
    for (size_t i = s->applied; i < s->log->count; i++) {
        ol_batch batch = memory_log_batch(s->log, i);
        int status = ol_in_flight_record(overlay, &s->state, &batch, s->decompressor, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static void forget_batches(scene *s) {
    int64_t next_offset = s->log->next_offset;
    memory_log_clear(s->log);
    s->log->next_offset = next_offset;
    s->applied = 0;
}

/* Elects a leader: its overlay is built from the log and the applied state alone. */
OL_UNUSED static void elect(scene *s) {
    ol_error error;
    ol_in_flight_reset(&s->overlay, s->state.table);
    OL_CHECK_OK(record_again(s, &s->overlay, &error), &error);
    if (s->applied == s->log->count) forget_batches(s);
}

/* --------------------------------------------------------------------------- asking the overlay */

OL_UNUSED static ol_pair_name name_in(const ol_table *table, const char *topic) {
    return ol_table_name(table, text("g"), ol_table_group_hash(table, text("g")), text(topic));
}

OL_UNUSED static bool find(const scene *s, const char *topic, int32_t partition, bool *present,
                           ol_position_value *value, int64_t *log_offset) {
    ol_pair_name name = name_in(s->state.table, topic);      /* hashed for another table than the overlay's */
    return ol_in_flight_find(&s->overlay, &name, partition, present, value, log_offset);
}

/* The log offset of the latest record in flight of (g, t, partition), or NONE. */
OL_UNUSED static int64_t place(const scene *s, int32_t partition) {
    ol_position_value value;
    bool present;
    int64_t log_offset;
    if (!find(s, "t", partition, &present, &value, &log_offset)) return NONE;
    if (present) OL_CHECK_INT(value.log_offset, log_offset);
    return log_offset;
}

/* The latest written value, as a condition compares with it: the overlay first, then the table. */
OL_UNUSED static bool latest_value(const scene *s, int32_t partition, ol_position_value *value) {
    bool present;
    int64_t log_offset;
    if (find(s, "t", partition, &present, value, &log_offset)) return present;
    ol_pair_name name = name_in(s->state.table, "t");
    return ol_table_get(s->state.table, &name, partition, value);
}

OL_UNUSED static int64_t latest(const scene *s, int32_t partition) {
    ol_position_value value;
    return latest_value(s, partition, &value) ? value.offset : NONE;
}

OL_UNUSED static bool has_pending(const ol_state *state, int32_t partition) {
    if (state->pending == NULL) return false;       /* that of an empty overlay */
    ol_pair_name name = name_in(state->table, "t");
    return ol_pending_has(state->pending, &name, partition);
}

/* The log offset of the group record in flight, or NONE. */
OL_UNUSED static int64_t group_record_place(const scene *s, int type) {
    ol_group_record found;
    if (!s->overlay.active || !ol_group_records_get(s->overlay.written.group_records, group_key(type), &found)) {
        return NONE;
    }
    return found.log_offset;
}

#endif
