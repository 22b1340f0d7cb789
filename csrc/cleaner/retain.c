/* Decides which records stay (docs/format/cleaner.md §8.3, docs/maintenance.md). */
#include "cleaner/cleaner_impl.h"

/* ----------------------------------------------------------------------------- reading a record */

int64_t ol_clean_hold_end(const ol_clean_hold *holds, size_t count, ol_slice group) {
    int64_t end = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const ol_clean_hold *hold = &holds[i];
        if (hold->end >= end || hold->group.size > group.size) continue;
        if (!hold->is_prefix && hold->group.size != group.size) continue;
        if (ol_bytes_equal(hold->group.data, group.data, hold->group.size)) end = hold->end;
    }
    return end;
}

uint32_t ol_clean_hold_flags(const ol_clean_options *options, ol_slice group, int64_t last_offset) {
    int64_t end = ol_clean_hold_end(options->holds, options->hold_count, group);
    if (end == INT64_MAX) return 0;
    return last_offset >= end ? OL_CLEAN_HELD : OL_CLEAN_WATCHED;
}

uint32_t ol_clean_read_other(const ol_key_hasher *hasher, const ol_clean_options *options,
                             const ol_record *record, int64_t last_offset, ol_clean_row *row) {
    ol_key key;
    ol_error ignored;
    row->key = (ol_hash128){0, 0};
    if (record->key.data == NULL) return OL_CLEAN_KEYLESS;
    if (ol_key_decode(record->key, &key, &ignored) != OL_OK) return OL_CLEAN_UNREADABLE;
    /* ol_clean_read_row has handled every offset key that can be decoded. */
    OL_ASSERT(!key.known || (uint16_t)key.type > OL_KEY_OFFSET_COMMIT);
    row->key = ol_key_hash(hasher, record->key.data, record->key.size, 1);
    if (!key.known || options->hold_count == 0) return 0;
    return ol_clean_hold_flags(options, key.group, last_offset);
}

bool ol_clean_can_decode(const ol_record *record) {
    ol_offset_value value;
    ol_error ignored;
    return ol_offset_value_decode(record->value, ol_load_i16(record->key.data), &value, &ignored) ==
           OL_OK;
}

ol_clean_verdict ol_clean_judge_batch(const ol_clean_scope *scope,
                                      const ol_clean_transactions *transactions,
                                      ol_clean_segments *segments, ol_clean_segment *segment,
                                      const ol_batch *batch) {
    ol_clean_verdict verdict = {0, 0};
    bool is_known = transactions->from >= 0 && batch->base_offset >= transactions->from;
    if (OL_UNLIKELY(ol_clean_is_pending(batch)) && is_known) {
        ol_clean_fate fate = ol_clean_fates_find(&transactions->fates, batch->producer_id,
                                                 batch->base_offset);
        if (fate == OL_CLEAN_ABORTED) verdict.value_flags = OL_CLEAN_OF_ABORTED;
        if (fate == OL_CLEAN_UNCERTAIN) verdict.value_flags = OL_CLEAN_OF_UNCERTAIN;
    }
    if (OL_UNLIKELY(batch->last_offset >= segments->damaged.tombstone_block)) return verdict;
    bool may_go = batch->magic == 2 ? ol_batch_has_horizon(batch) &&
                                          batch->base_timestamp <= scope->options.now_ms
                                    : ol_clean_legacy_may_go(scope, segments, segment);
    if (OL_UNLIKELY(may_go)) verdict.tombstone_flags = OL_CLEAN_MAY_GO;
    return verdict;
}

/* -------------------------------------------------------------------------------- asking the table
 *
 * The partition's table saves keys in the map: if a position has a cell, the cell says which record
 * is its last one.
 *
 * The table keeps changing.  A cell below the end of the pass names a committed record that nothing
 * can undo, so everything below it is superseded.  There are two exceptions: a marker above E
 * committed the record, so that at E it is still pending; or the history of the group is held, so
 * the record may not supersede anything.  Everything else is left to the map.  If the table had an
 * answer about a record in pass A but has none now, a superseded record stays until the next run,
 * and so does a tombstone that the map does not hold. */

enum { HOLD_KEYS = 128 };       /* under one hold of the table lock, for which commits wait */

bool ol_clean_can_ask_table(ol_partition *partition) {
    const ol_state *state;
    ol_error ignored;
    if (ol_partition_lock_applied(partition, &state, &ignored) != OL_OK) return false;
    ol_partition_unlock_state(partition);
    return true;
}

static void ask_some(const ol_table *table, const ol_clean_rows *rows, int64_t limit, size_t from,
                     size_t to, int64_t answers[OL_CLEAN_ROWS]) {
    ol_pair_name names[HOLD_KEYS];
    uint32_t pairs[HOLD_KEYS];
    size_t count = to - from;
    for (size_t i = 0; i < count; i++) {
        const ol_clean_name *name = &rows->name[from + i];
        if (!(rows->row[from + i].flags & OL_CLEAN_POSITION)) continue;
        names[i] = ol_table_name(table, name->group, ol_table_group_hash(table, name->group),
                                 name->topic);
        ol_table_prefetch_slot(table, &names[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (rows->row[from + i].flags & OL_CLEAN_POSITION) {
            pairs[i] = ol_table_prefetch_pair(table, &names[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (rows->row[from + i].flags & OL_CLEAN_POSITION) {
            ol_table_prefetch_chunk(table, pairs[i], rows->name[from + i].partition);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (rows->row[from + i].flags & OL_CLEAN_POSITION) {
            ol_table_prefetch_cell(table, pairs[i], rows->name[from + i].partition);
        }
    }
    for (size_t i = 0; i < count; i++) {
        const ol_clean_row *row = &rows->row[from + i];
        ol_position_value value;
        if (!(row->flags & OL_CLEAN_POSITION) || (row->flags & OL_CLEAN_WATCHED)) continue;
        if (!ol_table_get(table, &names[i], rows->name[from + i].partition, &value)) continue;
        if (value.log_offset >= row->offset && value.log_offset < limit) {
            answers[from + i] = value.log_offset;
        }
    }
}

void ol_clean_ask_table(ol_partition *partition, const ol_clean_rows *rows, int64_t limit,
                        int64_t answers[OL_CLEAN_ROWS]) {
    size_t count = rows->count;
    for (size_t i = 0; i < count; i++) answers[i] = -1;
    for (size_t from = 0; from < count; from += HOLD_KEYS) {
        const ol_state *state;
        ol_error ignored;
        size_t to = count - from < HOLD_KEYS ? count : from + HOLD_KEYS;
        if (ol_partition_lock_applied(partition, &state, &ignored) != OL_OK) return;
        ask_some(state->table, rows, limit, from, to, answers);
        ol_partition_unlock_state(partition);
    }
}

/* ------------------------------------------------------------------------------------- deciding */

/* `latest` is the offset of the last record in the row's slot, or -1 unknown. */
static ol_clean_outcome decide(const ol_clean_row *row, int64_t latest, int64_t pass_end,
                      int64_t first_uncertain) {
    const uint32_t always = OL_CLEAN_HELD | OL_CLEAN_UNREADABLE | OL_CLEAN_OF_UNCERTAIN;
    if ((row->flags & always) || row->offset >= pass_end) return OL_CLEAN_STAYS;
    if (row->flags & OL_CLEAN_KEYLESS) return OL_CLEAN_KEYLESS_GOES;
    if (row->flags & OL_CLEAN_OF_ABORTED) return OL_CLEAN_ABORTED_GOES;
    const uint32_t erases = OL_CLEAN_POSITION | OL_CLEAN_TOMBSTONE;
    /* The tombstone may have erased a value that is pending at E and stays. */
    if (OL_UNLIKELY((row->flags & erases) == erases && row->offset >= first_uncertain)) {
        return OL_CLEAN_STAYS;
    }
    if (latest > row->offset) return OL_CLEAN_SUPERSEDED;
    if (!(row->flags & OL_CLEAN_TOMBSTONE)) return OL_CLEAN_STAYS;
    /* Only a tombstone that the map holds may be dropped: this pass then drops everything below it
     * in its slot. */
    return (row->flags & OL_CLEAN_MAY_GO) && latest == row->offset ? OL_CLEAN_TOMBSTONE_GOES
                                                                   : OL_CLEAN_STAYS_AND_BEGINS;
}

static void count(ol_clean_counts *counts, ol_clean_outcome found) {
    switch (found) {
        case OL_CLEAN_STAYS:
        case OL_CLEAN_STAYS_AND_BEGINS:
            counts->kept++;
            return;
        case OL_CLEAN_SUPERSEDED:
            counts->superseded++;
            return;
        case OL_CLEAN_TOMBSTONE_GOES:
            counts->tombstones_dropped++;
            return;
        case OL_CLEAN_ABORTED_GOES:
            counts->aborted_dropped++;
            return;
        case OL_CLEAN_KEYLESS_GOES:
            counts->keyless_dropped++;
            return;
    }
}

void ol_clean_retain(ol_partition *partition, const ol_clean_pass *pass, int64_t first_uncertain,
                     ol_clean_rows *rows, ol_clean_counts *counts,
                     uint64_t kept[OL_CLEAN_ROWS / 64], uint64_t tombstones[OL_CLEAN_ROWS / 64]) {
    int64_t answers[OL_CLEAN_ROWS];
    for (size_t i = 0; i < OL_CLEAN_ROWS / 64; i++) kept[i] = tombstones[i] = 0;
    if (OL_UNLIKELY(pass->ask_table)) {
        ol_clean_ask_table(partition, rows, ol_clean_answers_end(pass, first_uncertain), answers);
    }
    for (size_t i = 0; i < rows->count; i++) {
        const ol_clean_row *row = &rows->row[i];
        int64_t latest = OL_UNLIKELY(pass->ask_table) ? answers[i] : -1;
        if (OL_LIKELY(latest < 0)) latest = ol_key_map_get(&pass->map, row->key);
        ol_clean_outcome found = decide(row, latest, pass->end, first_uncertain);
        count(counts, found);
        rows->outcome[i] = (uint8_t)found;
        uint64_t bit = UINT64_C(1) << (i % 64);
        if (found <= OL_CLEAN_STAYS_AND_BEGINS) kept[i / 64] |= bit;
        if (OL_UNLIKELY(found == OL_CLEAN_STAYS_AND_BEGINS)) tombstones[i / 64] |= bit;
    }
    counts->read += (int64_t)rows->count;
}
