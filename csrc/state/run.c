/* state/run.c: remembers the removals of a run and the ends of transactions, and joins two runs. */
#include "state/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/int64_map.h"

enum { JOIN_ROWS = 128 };

typedef struct run_marker {
    int64_t producer_id;
    ol_control type;
} run_marker;

struct ol_run_effects {
    ol_table *removed;                      /* log_offset: of the last tombstone */
    ol_group_records *removed_records;
    run_marker *markers;                    /* the first of each producer */
    size_t count;
    size_t capacity;
    ol_int64_map ended;                     /* producer id + 1 -> 1 */
};

/* -------------------------------------------------------------------------------------- effects */

static int create_effects(ol_run_effects **made, ol_error *error) {
    ol_run_effects *effects = calloc(1, sizeof *effects);
    if (effects == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to load a part of a log");
    int status = ol_table_create(&effects->removed, error);
    if (status == OL_OK) status = ol_group_records_create(&effects->removed_records, error);
    if (status != OL_OK) {
        ol_run_effects_destroy(effects);
        return status;
    }
    *made = effects;
    return OL_OK;
}

int ol_run_create(ol_state *state, ol_error *error) {
    int status = ol_state_create(state, error);
    if (status != OL_OK) return status;
    status = create_effects(&state->effects, error);
    if (status != OL_OK) ol_state_destroy(state);
    return status;
}

void ol_run_effects_destroy(ol_run_effects *effects) {
    if (effects == NULL) return;
    if (effects->removed_records != NULL) ol_group_records_destroy(effects->removed_records);
    ol_table_destroy(effects->removed);
    ol_int64_map_free(&effects->ended);
    free(effects->markers);
    free(effects);
}

uint64_t ol_run_effects_memory_usage(const ol_run_effects *effects) {
    return sizeof *effects + ol_table_memory_total(effects->removed) +
           ol_group_records_memory_usage(effects->removed_records) +
           effects->capacity * sizeof *effects->markers +
           effects->ended.capacity * sizeof(ol_int64_map_entry);
}

static ol_pair_name name_in(const ol_table *table, ol_slice group, ol_slice topic) {
    return ol_table_name(table, group, ol_table_group_hash(table, group), topic);
}

static int record_removed_position(ol_run_effects *effects, ol_slice group, ol_slice topic,
                                   int32_t partition, int64_t log_offset, ol_error *error) {
    const ol_pair_name name = name_in(effects->removed, group, topic);
    const ol_position_value tombstone = {
        .log_offset = log_offset,
        .expire_timestamp = -1,
        .leader_epoch = -1,
    };
    return ol_table_put(effects->removed, &name, partition, &tombstone, error);
}

static int record_removed_group_record(ol_run_effects *effects, const ol_group_record *record,
                                       ol_error *error) {
    ol_group_record tombstone = *record;
    tombstone.value = (ol_slice){NULL, 0};
    return ol_group_records_put(effects->removed_records, &tombstone, error);
}

int ol_run_record_removed(ol_run_effects *effects, const ol_change *change, ol_error *error) {
    if (change->kind == OL_CHANGE_GROUP_RECORD_TOMBSTONE) {
        return record_removed_group_record(effects, &change->group_record, error);
    }
    return record_removed_position(effects, change->name.group, change->name.topic,
                                   change->partition, change->value.log_offset, error);
}

int ol_run_record_end(ol_run_effects *effects, int64_t producer_id, ol_control type,
                      ol_error *error) {
    if (producer_id < 0 || type == OL_CONTROL_OTHER) return OL_OK;
    uint64_t key = (uint64_t)producer_id + 1;
    if (ol_int64_map_get(&effects->ended, key) != 0) return OL_OK;
    if (effects->count == effects->capacity) {
        size_t capacity = effects->capacity > 0 ? 2 * effects->capacity : 64;
        run_marker *moved = realloc(effects->markers, capacity * sizeof *moved);
        if (moved == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory for %zu transaction markers", capacity);
        }
        effects->markers = moved;
        effects->capacity = capacity;
    }
    int status = ol_int64_map_reserve(&effects->ended, effects->count + 1, error);
    if (status != OL_OK) return status;
    ol_int64_map_set(&effects->ended, key, 1);
    effects->markers[effects->count++] = (run_marker){producer_id, type};
    return OL_OK;
}

/* ----------------------------------------------------------------------------------------- join */

static void end_transactions(ol_state *earlier, const ol_run_effects *later) {
    for (size_t i = 0; i < later->count; i++) {
        ol_state_end_transaction(earlier, later->markers[i].producer_id, later->markers[i].type);
    }
}

static int remove_all(ol_state *earlier, const ol_run_effects *later, ol_error *error) {
    ol_table_cursor cursor = {0};
    ol_table_row row;
    while (ol_table_next(later->removed, &cursor, &row)) {
        const ol_pair_name name = name_in(earlier->table, row.group, row.topic);
        ol_table_remove(earlier->table, &name, row.partition, row.value.log_offset);
        if (earlier->effects == NULL) continue;
        int status = record_removed_position(earlier->effects, row.group, row.topic, row.partition,
                                             row.value.log_offset, error);
        if (status != OL_OK) return status;
    }
    size_t place = 0;
    ol_group_record record;
    while (ol_group_records_next(later->removed_records, &place, &record)) {
        ol_group_records_remove(earlier->group_records, record.key);
        if (earlier->effects == NULL) continue;
        int status = record_removed_group_record(earlier->effects, &record, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static int put_rows(ol_state *earlier, const ol_table_row *of, const ol_position_row *rows,
                    size_t count, ol_error *error) {
    if (count == 0) return OL_OK;
    const ol_pair_name name = name_in(earlier->table, of->group, of->topic);
    return ol_table_put_run(earlier->table, 0, &name, rows, count, error);
}

/* Positions of one pair are adjacent in the walk, so they are put together. */
static int put_positions(ol_state *earlier, const ol_state *later, ol_error *error) {
    ol_position_row rows[JOIN_ROWS];
    size_t count = 0;
    uint32_t pair = 0;
    ol_table_cursor cursor = {0};
    ol_table_row row, first = {0};
    while (ol_table_next(later->table, &cursor, &row)) {
        if (count == JOIN_ROWS || (count != 0 && cursor.pair != pair)) {
            int status = put_rows(earlier, &first, rows, count, error);
            if (status != OL_OK) return status;
            count = 0;
        }
        if (count == 0) first = row;
        pair = cursor.pair;
        rows[count++] = (ol_position_row){row.value, row.partition};
    }
    return put_rows(earlier, &first, rows, count, error);
}

static int put_group_records(ol_state *earlier, const ol_state *later, ol_error *error) {
    size_t place = 0;
    ol_group_record record;
    while (ol_group_records_next(later->group_records, &place, &record)) {
        int status = ol_group_records_put(earlier->group_records, &record, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static int add_pending(ol_state *earlier, const ol_state *later, ol_error *error) {
    ol_pending_cursor cursor = {0};
    int64_t producer_id;
    ol_table_row row;
    while (ol_pending_next(later->pending, &cursor, &producer_id, &row)) {
        const ol_pair_name name = name_in(earlier->table, row.group, row.topic);
        ol_reservation reservation;
        int status = ol_pending_reserve(earlier->pending, producer_id, 1, error);
        if (status != OL_OK) return status;
        status = ol_table_reserve(earlier->table, &name, row.partition, &row.value, &reservation,
                                  error);
        if (status != OL_OK) return status;
        ol_pending_add(earlier->pending, producer_id, &reservation, &row.value);
    }
    return OL_OK;
}

static int add_ends(ol_run_effects *earlier, const ol_run_effects *later, ol_error *error) {
    for (size_t i = 0; i < later->count; i++) {
        int status = ol_run_record_end(earlier, later->markers[i].producer_id,
                                       later->markers[i].type, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

int ol_run_join(ol_state *earlier, const ol_state *later, ol_error *error) {
    OL_ASSERT(later->effects != NULL);
    end_transactions(earlier, later->effects);
    int status = remove_all(earlier, later->effects, error);
    if (status == OL_OK) status = put_positions(earlier, later, error);
    if (status == OL_OK) status = put_group_records(earlier, later, error);
    if (status == OL_OK) status = add_pending(earlier, later, error);
    if (status == OL_OK && earlier->effects != NULL) {
        status = add_ends(earlier->effects, later->effects, error);
    }
    if (later->value_version_max > earlier->value_version_max) {
        earlier->value_version_max = later->value_version_max;
    }
    earlier->unknown_records += later->unknown_records;
    return status;
}
