/* The partition's table as an accelerator: where a position has a cell, the cell says which record is its last one.
 *
 * The table goes on changing.  A cell below pass_end names a committed record that nothing takes back, so what lies before it is superseded, unless it was committed
 * by a marker above E, so that it is still pending there, or the group's history is held, where it may not supersede anything.  Everything else is left to the map,
 * also what the table could have said when pass A asked: then a superseded record stays until the next run, and a tombstone that the map does not hold does not
 * go. */
#include "cleaner/cleaner_impl.h"

enum { HOLD_KEYS = 128 };       /* looked up under one hold of the table lock, which commits wait for */

bool ol_clean_can_ask_table(ol_clean_run *run) {
    const ol_state *state;
    ol_error ignored;
    if (ol_partition_lock_state(run->partition, &state, &ignored) != OL_OK) return false;
    ol_partition_unlock_state(run->partition);
    return true;
}

static void ask_some(const ol_table *table, ol_clean_run *run, size_t from, size_t to, int64_t answers[OL_CLEAN_ROWS]) {
    ol_pair_name names[HOLD_KEYS];
    uint32_t pairs[HOLD_KEYS];
    size_t count = to - from;
    int64_t limit = run->pass_end < run->fates.first_uncertain ? run->pass_end : run->fates.first_uncertain;
    for (size_t i = 0; i < count; i++) {
        const ol_clean_name *name = &run->names[from + i];
        if (!(run->rows[from + i].flags & OL_CLEAN_POSITION)) continue;
        names[i] = ol_table_name(table, name->group, ol_table_group_hash(table, name->group), name->topic);
        ol_table_prefetch_slot(table, &names[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (run->rows[from + i].flags & OL_CLEAN_POSITION) pairs[i] = ol_table_prefetch_pair(table, &names[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (run->rows[from + i].flags & OL_CLEAN_POSITION) {
            ol_table_prefetch_chunk(table, pairs[i], run->names[from + i].partition);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (run->rows[from + i].flags & OL_CLEAN_POSITION) {
            ol_table_prefetch_cell(table, pairs[i], run->names[from + i].partition);
        }
    }
    for (size_t i = 0; i < count; i++) {
        const ol_clean_row *row = &run->rows[from + i];
        ol_position_value value;
        if (!(row->flags & OL_CLEAN_POSITION) || (row->flags & OL_CLEAN_WATCHED)) continue;
        if (!ol_table_get(table, &names[i], run->names[from + i].partition, &value)) continue;
        if (value.log_offset >= row->offset && value.log_offset < limit) answers[from + i] = value.log_offset;
    }
}

void ol_clean_ask_table(ol_clean_run *run, size_t count, int64_t answers[OL_CLEAN_ROWS]) {
    for (size_t i = 0; i < count; i++) answers[i] = -1;
    for (size_t from = 0; from < count; from += HOLD_KEYS) {
        const ol_state *state;
        ol_error ignored;
        size_t to = count - from < HOLD_KEYS ? count : from + HOLD_KEYS;
        if (ol_partition_lock_state(run->partition, &state, &ignored) != OL_OK) return;
        ask_some(state->table, run, from, to, answers);
        ol_partition_unlock_state(run->partition);
    }
}
