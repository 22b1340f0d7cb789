/* Writes a commit by the fast path, which takes nearly every commit.  The conditions are:
 * - The store has no replicas.
 * - The commit fits one batch.
 * - The commit has only positions, and none of them has a condition.
 * - The table already has the keys of all positions.
 * - The values are written in version 3.
 * For any other commit the fast path changes nothing; the general path (ol_commit_plan) takes it.
 *
 * Consecutive items of one (group, topic) form a run, which is planned, sized and encoded together,
 * and applied by ol_state_apply_run.  The records keep the order of the items.
 */
#include <stdlib.h>
#include <string.h>

#include "partition/commit/commit_impl.h"
#include "format/offset_record.h"

enum {
    STACK_ROWS = 4,
    PARTITION_SIZE = 4,             /* at the end of a key */
    ROWS_KEPT_MAX = 4096,           /* rows that stay allocated between commits */
};

typedef struct gathered {
    ol_position_row *rows;
    ol_commit_run *runs;
    size_t row_count;
    size_t run_count;
    size_t size;                    /* of the batch, without headers */
} gathered;

/* ------------------------------------------------------------------------------------ gathering */

static bool is_of_run(const ol_item *item, const ol_item *previous) {
    return item->group.data == previous->group.data && item->group.size == previous->group.size &&
           item->topic.data == previous->topic.data && item->topic.size == previous->topic.size;
}

/* A single commit waits for every cache miss of the table.  So it guesses the pair, prefetches what
 * leads from there to the cell, and compares the names while the cell arrives. */
static uint32_t find_alone(const ol_table *table, const ol_pair_name *name, int32_t partition) {
    uint32_t guess = ol_table_prefetch_pair(table, name);
    ol_table_prefetch_chunk(table, guess, partition);
    ol_table_prefetch_cell(table, guess, partition);
    return ol_table_find_hinted(table, guess, name);
}

/* `alone`: the partition of a commit of few rows, else -1. */
static bool begin_run(ol_commit *work, gathered *to, ol_slice group, ol_slice topic,
                      int32_t alone) {
    const ol_table *table = work->partition->state.table;
    ol_commit_run *run = &to->runs[to->run_count];
    bool same_group = to->run_count != 0 && run[-1].name.group.data == group.data &&
                      run[-1].name.group.size == group.size;
    uint64_t group_hash = same_group ? run[-1].name.group_hash : ol_table_group_hash(table, group);
    run->name = ol_table_name(table, group, group_hash, topic);
    run->pair =
        alone >= 0 ? find_alone(table, &run->name, alone) : ol_table_find(table, &run->name);
    run->first_row = to->row_count;
    run->key_size = ol_offset_key_size(group, topic);
    to->run_count++;
    return run->pair != 0;
}

static size_t record_size(const ol_commit_run *run, const ol_position_row *row, size_t index) {
    return ol_record_size(0, (int32_t)index, (int64_t)run->key_size,
                          (int64_t)ol_offset_value_3_size(row->value.metadata), 0, 0);
}

/* Returns whether the item is a position without a condition, with a value of version 3. */
static bool is_plain(const ol_item *item, bool writes_topic_ids) {
    return item->kind == OL_ITEM_POSITION && item->condition == OL_CONDITION_NONE &&
           item->expire_timestamp == -1 && (item->topic_id == NULL || !writes_topic_ids);
}

/* Fills rows and runs; false: some item is not plain, or its pair is new. */
static bool gather(ol_commit *work, gathered *to, const ol_item *items, size_t count) {
    const ol_table *table = work->partition->state.table;
    bool writes_topic_ids = ol_commit_known_value_version(work->partition) >= 4;
    to->size = OL_BATCH_OVERHEAD;
    for (size_t i = 0; i < count; i++) {
        const ol_item *item = &items[i];
        if (!is_plain(item, writes_topic_ids)) return false;
        OL_ASSERT(item->group.size <= OL_STRING_SIZE_MAX && item->topic.size <= OL_STRING_SIZE_MAX);
        if (i == 0 || !is_of_run(item, item - 1)) {
            if (!begin_run(work, to, item->group, item->topic,
                           count <= STACK_ROWS ? item->partition : -1)) {
                return false;
            }
        }
        const ol_commit_run *run = &to->runs[to->run_count - 1];
        /* Two cells share a cache line. */
        if (to->row_count == run->first_row || (item->partition ^ item[-1].partition) > 1) {
            ol_table_prefetch_cell(table, run->pair, item->partition);
        }
        ol_position_row *row = &to->rows[to->row_count];
        row->partition = item->partition;
        row->value.offset = item->offset;
        row->value.commit_timestamp =
            item->commit_timestamp >= 0 ? item->commit_timestamp : work->position_time;
        row->value.expire_timestamp = -1;
        row->value.leader_epoch = item->leader_epoch;
        row->value.metadata = item->metadata;
        row->value.topic_id = NULL;
        to->size += record_size(run, row, i);
        to->row_count++;
    }
    return true;
}

/* Fills runs for rows that exist already; false as for gather. */
static bool gather_rows(ol_commit *work, gathered *to, const ol_row_run *runs, size_t run_count,
                        size_t row_count) {
    const ol_table *table = work->partition->state.table;
    to->size = OL_BATCH_OVERHEAD;
    for (size_t i = 0; i < run_count; i++) {
        OL_ASSERT(runs[i].first_row == to->row_count);
        if (!begin_run(work, to, runs[i].group, runs[i].topic, -1)) return false;
        const ol_commit_run *run = &to->runs[i];
        size_t end = i + 1 < run_count ? runs[i + 1].first_row : row_count;
        int32_t line = -1;
        for (; to->row_count < end; to->row_count++) {
            ol_position_row *row = &to->rows[to->row_count];
            if (row->value.expire_timestamp != -1) return false;
            if (row->partition / 2 != line) {
                ol_table_prefetch_cell(table, run->pair, row->partition);
            }
            line = row->partition / 2;
            if (row->value.commit_timestamp < 0) row->value.commit_timestamp = work->position_time;
            to->size += record_size(run, row, to->row_count);
        }
    }
    return true;
}

static size_t run_end(const gathered *of, size_t run) {
    return run + 1 < of->run_count ? of->runs[run + 1].first_row : of->row_count;
}

static bool is_settled(const ol_commit *work, const gathered *of) {
    for (size_t i = 0; i < of->run_count; i++) {
        const ol_commit_run *run = &of->runs[i];
        if (!ol_table_run_settled(work->partition->state.table, run->pair,
                                  of->rows + run->first_row, run_end(of, i) - run->first_row)) {
            return false;
        }
    }
    return true;
}

/* -------------------------------------------------------------------------------------- writing */

/* The keys of a run differ in the partition alone.  Copies whole words, up to seven bytes too many.
 * That is safe, because in both source and target a partition and a value follow the start of a
 * key, and are written later. */
static inline void copy_key_start(uint8_t *to, const uint8_t *from, size_t size) {
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        memcpy(to + at, from + at, sizeof(uint64_t));
    }
}

static uint8_t *put_row(const ol_commit *work, uint8_t *p, const ol_commit_run *run,
                        const ol_position_row *row, size_t index, const uint8_t **key) {
    bool first = index == 0;
    int32_t header_count = first ? work->header_count : 0;
    ol_slice headers = ol_slice_of(work->headers, first ? work->headers_size : 0);
    int64_t key_size = (int64_t)run->key_size,
            value_size = (int64_t)ol_offset_value_3_size(row->value.metadata);
    size_t body =
        ol_record_body_size(0, (int32_t)index, key_size, value_size, header_count, headers.size);
    p = ol_record_put_start(p, body, 0, (int32_t)index, key_size);
    if (*key == NULL) {
        *key = p;
        p = ol_offset_key_put(p, OL_KEY_OFFSET_COMMIT, run->name.group, run->name.topic,
                              row->partition);
    } else {
        copy_key_start(p, *key, run->key_size - PARTITION_SIZE);
        ol_store_i32(p + run->key_size - PARTITION_SIZE, row->partition);
        p += run->key_size;
    }
    p = ol_record_put_value_size(p, value_size);
    p = ol_offset_value_3_put(p, row->value.offset, row->value.leader_epoch, row->value.metadata,
                              row->value.commit_timestamp);
    return ol_record_put_headers(p, header_count, headers);
}

static void encode(const ol_commit *work, const gathered *of, uint8_t *start, size_t size,
                   int64_t base_offset) {
    uint8_t *p = start + OL_BATCH_OVERHEAD;
    for (size_t i = 0; i < of->run_count; i++) {
        const uint8_t *key = NULL;
        for (size_t row = of->runs[i].first_row; row < run_end(of, i); row++) {
            of->rows[row].value.log_offset = base_offset + (int64_t)row;
            p = put_row(work, p, &of->runs[i], &of->rows[row], row, &key);
        }
    }
    OL_ASSERT(p == start + size);
}

static void apply(ol_commit *work, const gathered *of) {
    ol_partition *partition = work->partition;
    int64_t end = ol_log_end(partition->log);
    ol_error ignored;
    ol_commit_lock_table(work);
    for (size_t i = 0; i < of->run_count; i++) {
        const ol_commit_run *run = &of->runs[i];
        int status =
            ol_state_apply_run(&partition->state, run->pair, &run->name, of->rows + run->first_row,
                               run_end(of, i) - run->first_row, 3, &ignored);
        OL_ASSERT(status == OL_OK);
    }
    /* The table is still locked, so a reader of both the state and the positions sees both as
     * before or both as after. */
    ol_partition_set_positions(partition, end, end);
    ol_commit_unlock_table(work);
}

static int publish(ol_commit *work, const gathered *of, uint8_t *start, size_t size,
                   int64_t base_offset, ol_error *error) {
    ol_batch_fields fields = ol_commit_batch_fields(work, base_offset, of->row_count);
    ol_batch_seal(start, start + size, &fields);
    int status = ol_log_publish(work->partition->log, &fields, size, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    ol_batch_clock_record(&work->partition->clock, work->timestamp);
    apply(work, of);
    *work->result = (ol_commit_result){.base_offset = base_offset,
                                       .end_offset = base_offset + (int64_t)of->row_count,
                                       .timestamp = work->timestamp,
                                       .written = of->row_count,
                                       .rests_on = -1};
    return OL_OK;
}

/* Returns the bytes that the headers add to the first record; its length field may grow, too. */
static size_t headers_cost(const ol_commit *work, const gathered *of) {
    int64_t key_size = (int64_t)of->runs[0].key_size,
            value_size = (int64_t)ol_offset_value_3_size(of->rows[0].value.metadata);
    return ol_record_size(0, 0, key_size, value_size, work->header_count, work->headers_size) -
           ol_record_size(0, 0, key_size, value_size, 0, 0);
}

static int write_batch(ol_commit *work, const gathered *of, bool *done, ol_error *error) {
    ol_log *log = work->partition->log;
    size_t size = of->size;
    /* A small commit is encoded first, while its cells arrive.  That is not possible if a flushed
     * record must be taken: the log returns it only once, so only the log itself may still refuse
     * the batch. */
    bool settles_first = of->row_count > STACK_ROWS || ol_log_has_flushed_record(log);
    if (settles_first) {
        if (!is_settled(work, of)) return OL_OK;
        ol_commit_plan_headers(work);
        if (work->header_count > 0) size += headers_cost(work, of);
    }
    uint8_t *start;
    int64_t base_offset;
    int status = ol_log_reserve(log, size, (int32_t)of->row_count - 1, work->timestamp, &start,
                                &base_offset, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    encode(work, of, start, size, base_offset);
    if (!settles_first && !is_settled(work, of)) {
        memset(start, 0, size);         /* bytes after the log end are zeros */
        return OL_OK;
    }
    *done = true;
    return publish(work, of, start, size, base_offset, error);
}

/* ------------------------------------------------------------------------------------ the whole */

static int ensure_runs(ol_partition *partition, size_t count, ol_error *error) {
    if (count <= partition->scratch.run_capacity) return OL_OK;
    ol_commit_run *runs = realloc(partition->scratch.runs, count * sizeof *runs);
    if (runs == NULL) {
        return ol_fail(error, OL_NO_MEMORY,
                       "no memory to plan a commit for up to %zu (group, topic) pairs", count);
    }
    partition->scratch.runs = runs;
    partition->scratch.run_capacity = count;
    return OL_OK;
}

/* Allocates `count` rows and as many runs, because each row may be of a pair of its own. */
static int ensure_rows(ol_partition *partition, size_t count, ol_error *error) {
    if (count > partition->scratch.row_capacity) {
        ol_position_row *rows = realloc(partition->scratch.rows, count * sizeof *rows);
        if (rows == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory to plan a commit of %zu records", count);
        }
        partition->scratch.rows = rows;
        partition->scratch.row_capacity = count;
    }
    return ensure_runs(partition, count, error);
}

/* A commit of millions must not keep its scratch for ever. */
static void release_rows(ol_partition *partition) {
    if (partition->scratch.row_capacity > ROWS_KEPT_MAX) {
        free(partition->scratch.rows);
        partition->scratch.rows = NULL;
        partition->scratch.row_capacity = 0;
    }
    if (partition->scratch.run_capacity > ROWS_KEPT_MAX) {
        free(partition->scratch.runs);
        partition->scratch.runs = NULL;
        partition->scratch.run_capacity = 0;
    }
}

/* Returns whether a settled pair stays settled until the apply, because no loader or other writer
 * may change the table meanwhile, and whether values are of version 3. */
static bool may_go_fast(const ol_commit *work) {
    const ol_partition *partition = work->partition;
    return partition->role == OL_ROLE_ACTIVE && ol_partition_applies_at_once(partition) &&
           !partition->load_runs && work->producer_id < 0 &&
           ol_commit_known_value_version(partition) >= 3;
}

static int write_gathered(ol_commit *work, const gathered *of, bool *done, ol_error *error) {
    ol_partition *partition = work->partition;
    if (of->size + OL_COMMIT_HEADERS_MAX > partition->options.batch_bytes_max) return OL_OK;
    if (!work->never_waits) return write_batch(work, of, done, error);
    bool prepared = of->size <= OL_COMMIT_TRY_BYTES_MAX &&
                    ol_log_is_prepared(partition->log, of->size + OL_COMMIT_HEADERS_MAX,
                                       (int32_t)of->row_count - 1, work->timestamp);
    if (!prepared) return OL_WOULD_BLOCK;
    if (pthread_mutex_trylock(&partition->table) != 0) return OL_WOULD_BLOCK;
    work->table_locked = true;
    int status = write_batch(work, of, done, error);
    work->table_locked = false;
    pthread_mutex_unlock(&partition->table);
    return status;
}

static int try_gathered(ol_commit *work, gathered *to, const ol_item *items, size_t count,
                        bool *done, ol_error *error) {
    return gather(work, to, items, count) ? write_gathered(work, to, done, error) : OL_OK;
}

int ol_commit_fast_path(ol_commit *work, const ol_item *items, size_t count, bool *done,
                        ol_error *error) {
    ol_partition *partition = work->partition;
    *done = false;
    work->header_count = 0;
    work->headers_size = 0;
    if (count == 0 || !may_go_fast(work)) return OL_OK;
    if (count <= STACK_ROWS) {
        ol_position_row rows[STACK_ROWS];
        ol_commit_run runs[STACK_ROWS];
        gathered to = {.rows = rows, .runs = runs};
        return try_gathered(work, &to, items, count, done, error);
    }
    bool has_room =
        count <= partition->scratch.row_capacity && count <= partition->scratch.run_capacity;
    if (work->never_waits && !has_room) return OL_WOULD_BLOCK;
    int status = ensure_rows(partition, count, error);
    if (status != OL_OK) return status;
    gathered to = {.rows = partition->scratch.rows, .runs = partition->scratch.runs};
    status = try_gathered(work, &to, items, count, done, error);
    release_rows(partition);
    return status;
}

int ol_commit_fast_path_rows(ol_commit *work, const ol_row_run *runs, size_t run_count,
                             ol_position_row *rows, size_t row_count, bool *done, ol_error *error) {
    ol_partition *partition = work->partition;
    *done = false;
    work->header_count = 0;
    work->headers_size = 0;
    if (!may_go_fast(work)) return OL_OK;
    int status = ensure_runs(partition, run_count, error);
    if (status != OL_OK) return status;
    gathered of = {.rows = rows, .runs = partition->scratch.runs};
    if (gather_rows(work, &of, runs, run_count, row_count)) {
        status = write_gathered(work, &of, done, error);
    }
    release_rows(partition);
    return status;
}
