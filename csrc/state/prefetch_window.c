/* state/prefetch_window.c: gathers runs of rows, and prefetches memory while it applies them. */
#include "state/prefetch_window.h"

#include <string.h>

#include "base/bytes.h"

enum {
    PARTITION_SIZE = 4,             /* at the end of a key */
    BARE_VALUE_SIZE = 24,           /* version 3 without metadata */
    PAIR_DISTANCE = 24,             /* runs between the prefetch and the use */
    CHUNK_DISTANCE = 16,
    CELL_DISTANCE = 8,
};

void ol_prefetch_window_init(ol_prefetch_window *window, ol_state *state) {
    window->state = state;
    window->filled = (ol_prefetch_mark){0, 0, -1};
    window->key_start = ol_slice_null();
}

/* -------------------------------------------------------------------------------------- filling */

static uint64_t group_hash_of(const ol_prefetch_window *window, ol_slice group) {
    if (window->filled.run_count != 0) {
        const ol_pair_name *previous = &window->runs[window->filled.run_count - 1].name;
        if (ol_slice_equal(previous->group, group)) return previous->group_hash;
    }
    return ol_table_group_hash(window->state->table, group);
}

/* Begins a run with the pair that a key names; returns false if the key does not name one. */
static bool begin_run(ol_prefetch_window *window, ol_slice bytes, int32_t *partition) {
    ol_key key;
    ol_error ignored;
    if (ol_key_decode(bytes, &key, &ignored) != OL_OK || !key.known ||
        key.type > OL_KEY_OFFSET_COMMIT) {
        return false;
    }
    const ol_table *table = window->state->table;
    ol_load_run *run = &window->runs[window->filled.run_count];
    run->name = ol_table_name(table, key.group, group_hash_of(window, key.group), key.topic);
    run->first_row = window->filled.row_count;
    run->hint = 0;
    ol_table_prefetch_slot(table, &run->name);
    window->filled.run_count++;
    size_t start = (size_t)(key.topic.data + key.topic.size - bytes.data);
    window->key_start = bytes.size == start + PARTITION_SIZE ? ol_slice_of(bytes.data, start)
                                                             : ol_slice_null();
    window->key_type = key.type;
    *partition = key.partition;
    return true;
}

static inline bool continues_run(const ol_prefetch_window *window, ol_slice key) {
    ol_slice start = window->key_start;
    return start.data != NULL && key.size == start.size + PARTITION_SIZE &&
           memcmp(key.data, start.data, start.size) == 0;
}

static bool decode_value(ol_prefetch_window *window, ol_slice bytes, ol_position_value *value) {
    if (OL_LIKELY(bytes.size == BARE_VALUE_SIZE && window->key_type == OL_KEY_OFFSET_COMMIT &&
                  ol_load_i16(bytes.data) == 3 && ol_load_i16(bytes.data + 14) == 0)) {
        if (window->filled.value_version_max < 3) window->filled.value_version_max = 3;
        value->offset = ol_load_i64(bytes.data + 2);
        value->leader_epoch = ol_load_i32(bytes.data + 10);
        value->metadata = ol_slice_of(bytes.data, 0);
        value->commit_timestamp = ol_load_i64(bytes.data + 16);
        value->expire_timestamp = -1;
        value->topic_id = NULL;
        return true;
    }
    ol_offset_value decoded;
    ol_error ignored;
    if (ol_offset_value_decode(bytes, window->key_type, &decoded, &ignored) != OL_OK) return false;
    if (window->filled.value_version_max < decoded.version) {
        window->filled.value_version_max = decoded.version;
    }
    value->offset = decoded.offset;
    value->leader_epoch = decoded.leader_epoch;
    value->metadata = decoded.metadata;
    value->commit_timestamp = decoded.commit_timestamp;
    value->expire_timestamp = decoded.expire_timestamp;
    value->topic_id = decoded.topic_id;
    return true;
}

bool ol_prefetch_window_add(ol_prefetch_window *window, const ol_record *record) {
    OL_ASSERT(window->filled.row_count < OL_PREFETCH_WINDOW_ROWS);
    if (OL_UNLIKELY(record->value.data == NULL || record->key.data == NULL)) return false;
    ol_prefetch_mark mark = window->filled;
    ol_position_row *row = &window->rows[mark.row_count];
    if (OL_LIKELY(continues_run(window, record->key))) {
        row->partition = ol_load_i32(record->key.data + window->key_start.size);
    } else if (!begin_run(window, record->key, &row->partition)) {
        return false;
    }
    if (OL_UNLIKELY(!decode_value(window, record->value, &row->value))) {
        ol_prefetch_window_take_back(window, mark);
        return false;
    }
    row->value.log_offset = record->offset;
    window->filled.row_count++;
    return true;
}

void ol_prefetch_window_take_back(ol_prefetch_window *window, ol_prefetch_mark mark) {
    window->filled = mark;
    window->key_start = ol_slice_null();
}

/* ------------------------------------------------------------------------------------- applying */

static void prefetch(ol_prefetch_window *window, uint32_t at) {
    const ol_table *table = window->state->table;
    uint32_t count = window->filled.run_count;
    if (at + PAIR_DISTANCE < count) {
        ol_load_run *run = &window->runs[at + PAIR_DISTANCE];
        run->hint = ol_table_prefetch_pair(table, &run->name);
    }
    if (at + CHUNK_DISTANCE < count) {
        const ol_load_run *run = &window->runs[at + CHUNK_DISTANCE];
        ol_table_prefetch_chunk(table, run->hint, window->rows[run->first_row].partition);
    }
    if (at + CELL_DISTANCE < count) {
        const ol_load_run *run = &window->runs[at + CELL_DISTANCE];
        ol_table_prefetch_cell(table, run->hint, window->rows[run->first_row].partition);
    }
}

int ol_prefetch_window_apply(ol_prefetch_window *window, ol_error *error) {
    ol_state *state = window->state;
    uint32_t run_count = window->filled.run_count;
    int status = OL_OK;
    for (uint32_t i = 0; i < run_count && status == OL_OK; i++) {
        prefetch(window, i);
        const ol_load_run *run = &window->runs[i];
        uint32_t end = i + 1 < run_count ? run[1].first_row : window->filled.row_count;
        status = ol_state_apply_run(state, run->hint, &run->name, window->rows + run->first_row,
                                    end - run->first_row, window->filled.value_version_max, error);
    }
    ol_prefetch_window_init(window, state);
    return status;
}
