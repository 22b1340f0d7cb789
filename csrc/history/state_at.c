/* Makes pasts by a walk over the log, and compares two of them. */
#include "history/state_at.h"

#include <string.h>

typedef struct maker {
    ol_state_at *pasts;
    size_t count;
    const ol_state_at_tombstones *tombstones;
    const ol_timeline_facts *facts;
} maker;

static int report_tombstone(const maker *work, const ol_record *record, const ol_key *key,
                            ol_error *error) {
    const ol_table *table = work->pasts[0].state.table;
    ol_pair_name name = ol_table_name(table, key->group, ol_table_group_hash(table, key->group),
                                      key->topic);
    ol_position_value value;
    bool found = ol_table_get(table, &name, key->partition, &value);
    return work->tombstones->report(work->tombstones->context, record, key, found ? &value : NULL,
                                    work->facts, error);
}

static int apply_record(void *context, const ol_batch *batch, const ol_record *record,
                        const ol_key *key, ol_error *error) {
    maker *work = context;
    ol_change change;
    ol_error refusal;
    if (record->value.data == NULL && work->tombstones != NULL &&
        record->offset < work->pasts[0].cut) {
        int status = report_tombstone(work, record, key, error);
        if (status != OL_OK) return status;
    }
    for (size_t i = 0; i < work->count; i++) {
        if (record->offset >= work->pasts[i].cut) continue;
        /* A value that cannot be decoded is left out, as by a load. */
        if (ol_change_decode(&work->pasts[i].state, batch, record, NULL, &change, &refusal) !=
            OL_OK) {
            continue;
        }
        int status = ol_state_apply(&work->pasts[i].state, &change, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static int end_transaction(void *context, const ol_batch *batch, const ol_record *record,
                           ol_control type, ol_error *error OL_UNUSED) {
    maker *work = context;
    for (size_t i = 0; i < work->count; i++) {
        if (record->offset < work->pasts[i].cut) {
            ol_state_end_transaction(&work->pasts[i].state, batch->producer_id, type);
        }
    }
    return OL_OK;
}

int ol_state_at_make(ol_partition *partition, const ol_timeline_filter *filter, ol_state_at *pasts,
                     size_t count, const ol_state_at_tombstones *tombstones,
                     ol_timeline_facts *facts, ol_error *error) {
    int64_t until = 0;
    for (size_t i = 0; i < count; i++) {
        memset(&pasts[i].state, 0, sizeof pasts[i].state);
        if (pasts[i].cut > until) until = pasts[i].cut;
    }
    for (size_t i = 0; i < count; i++) {
        int status = ol_state_create(&pasts[i].state, error);
        if (status != OL_OK) return status;
    }
    maker work = {.pasts = pasts, .count = count, .tombstones = tombstones, .facts = facts};
    ol_timeline_sink sink = {.record = apply_record, .marker = end_transaction, .context = &work};
    return ol_timeline_walk(partition, 0, until, filter, &sink, facts, error);
}

/* ----------------------------------------------------------------------------------- tombstones */

typedef struct finder {
    ol_int64_map *places;
    int64_t since;
} finder;

static int add_tombstone(void *context, const ol_batch *batch OL_UNUSED, const ol_record *record,
                         const ol_key *key, ol_error *error) {
    finder *work = context;
    if (record->timestamp < work->since) return OL_OK;
    int status = ol_int64_map_reserve(work->places, work->places->count + 1, error);
    if (status == OL_OK) ol_int64_map_set(work->places, ol_timeline_place(key), 1);
    return status;
}

int ol_state_at_find_tombstones(ol_partition *partition, const ol_timeline_filter *filter,
                                int64_t until, int64_t since_ms, ol_int64_map *places,
                                ol_timeline_facts *facts, ol_error *error) {
    finder work = {.places = places, .since = since_ms};
    ol_timeline_filter tombstones = *filter;
    tombstones.only_tombstones = true;
    ol_timeline_sink sink = {.record = add_tombstone, .context = &work};
    return ol_timeline_walk(partition, 0, until, &tombstones, &sink, facts, error);
}

/* ---------------------------------------------------------------------------------- differences */

bool ol_state_at_is_same(const ol_position_value *a, const ol_position_value *b) {
    if (a->offset != b->offset || a->leader_epoch != b->leader_epoch ||
        !ol_slice_equal(a->metadata, b->metadata)) {
        return false;
    }
    return a->topic_id == NULL || b->topic_id == NULL || memcmp(a->topic_id, b->topic_id, 16) == 0;
}

static bool find(const ol_table *table, const ol_table_row *row, ol_table_row *found) {
    ol_pair_name name = ol_table_name(table, row->group, ol_table_group_hash(table, row->group),
                                      row->topic);
    *found = (ol_table_row){.group = row->group, .topic = row->topic, .partition = row->partition};
    return ol_table_get(table, &name, row->partition, &found->value);
}

int ol_state_at_compare(const ol_state *before, const ol_state *after,
                        const ol_state_at_changes *changes, ol_error *error) {
    ol_table_cursor cursor;
    ol_table_row row;
    ol_table_row other;
    memset(&cursor, 0, sizeof cursor);
    while (ol_table_next(before->table, &cursor, &row)) {
        bool found = find(after->table, &row, &other);
        if (found && ol_state_at_is_same(&row.value, &other.value)) continue;
        int status = changes->report(changes->context, &row, found ? &other : NULL, error);
        if (status != OL_OK) return status;
    }
    memset(&cursor, 0, sizeof cursor);
    while (ol_table_next(after->table, &cursor, &row)) {
        if (find(before->table, &row, &other)) continue;
        int status = changes->report(changes->context, NULL, &row, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}
