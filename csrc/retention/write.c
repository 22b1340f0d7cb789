/* Decides again which positions of one group are due, and writes their tombstones, both under the
 * writer lock (docs/format/coordinator.md §5.13, docs/format/records.md §3.6). */
#include <time.h>

#include "partition/tombstones.h"
#include "retention/run_impl.h"

/* Batches of a big group are kept short, so that the lock is held only briefly. */
#define BIG_GROUP_BATCH_BYTES ((size_t)1 << 20)

/* A batch that is being collected. */
typedef struct collected {
    ol_slice topic;             /* in a big group only this one; else null */
    ol_tombstones tombstones;
    size_t bytes_max;
    uint64_t pending;           /* due, but protected by a transaction */
    uint64_t kept;              /* all that stay */
    bool is_full;               /* more positions are due than fit the batch */
    bool is_last;               /* nothing of the group is left */
} collected;

static ol_pair_name name_in(const ol_table *table, ol_slice group, ol_slice topic) {
    return ol_table_name(table, group, ol_table_group_hash(table, group), topic);
}

/* A position with a record above W is left to the next run. */
static bool is_in_flight(const ol_in_flight *inflight, const ol_pair_name *name, int32_t number) {
    if (!inflight->active) return false;
    bool present;
    ol_position_value value;
    int64_t log_offset;
    if (ol_in_flight_find(inflight, name, number, &present, &value, &log_offset)) return true;
    ol_pair_name written = name_in(inflight->written.table, name->group, name->topic);
    return ol_pending_has(inflight->written.pending, &written, number);
}

static bool has_group_records_in_flight(const ol_in_flight *inflight, ol_slice group) {
    size_t cursor = 0;
    ol_group_record record;
    return inflight->active &&
           ol_group_records_next_of_group(inflight->written.group_records, group, &cursor, &record);
}

static bool has_anything_in_flight(const ol_in_flight *inflight, ol_slice group) {
    if (!inflight->active) return false;
    const ol_table *written = inflight->written.table, *absent = inflight->absent;
    uint64_t written_hash = ol_table_group_hash(written, group);
    return ol_table_group_positions(written, group, written_hash) > 0 ||
           ol_table_group_positions(absent, group, ol_table_group_hash(absent, group)) > 0 ||
           ol_pending_has_group(inflight->written.pending, group, written_hash) ||
           has_group_records_in_flight(inflight, group);
}

static int take_position(ol_slice group, const ol_partition_view *now, collected *batch,
                         const ol_pair_name *name, int32_t number, ol_error *error) {
    bool is_pending = ol_pending_has(now->state->pending, name, number);
    if (is_pending || is_in_flight(now->in_flight, name, number)) {
        batch->pending += is_pending;
        batch->kept++;
        return OL_OK;
    }
    size_t count = batch->tombstones.count, bytes = batch->tombstones.batch_bytes;
    int status = ol_tombstones_add_position(&batch->tombstones, group, name->topic, number, error);
    if (status == OL_OK && count > 0 && batch->tombstones.batch_bytes > batch->bytes_max) {
        ol_tombstones_cut(&batch->tombstones, count, bytes);
        batch->is_full = true;
    }
    return status;
}

static bool next_position(const ol_table *table, const collected *batch, ol_slice group,
                          uint64_t hash, ol_table_cursor *cursor, ol_table_row *row) {
    if (batch->topic.data == NULL) return ol_table_next_of_group(table, group, hash, cursor, row);
    ol_pair_name name = ol_table_name(table, group, hash, batch->topic);
    return ol_table_next_of_pair(table, &name, cursor, row);
}

static int collect_positions(const ol_retention_run *run, const ol_partition_view *now,
                             const ol_group_view *view, collected *batch, ol_error *error) {
    const ol_table *table = now->state->table;
    ol_slice group = run->group.name;
    uint64_t hash = ol_table_group_hash(table, group);
    ol_table_cursor cursor = {0};
    ol_table_row row;
    ol_pair_name name = {0};
    int status = OL_OK;
    while (status == OL_OK && !batch->is_full &&
           next_position(table, batch, group, hash, &cursor, &row)) {
        if (!ol_retention_is_due(run, &run->group, view, &row)) {
            batch->kept++;
            continue;
        }
        if (row.topic.data != name.topic.data || row.topic.size != name.topic.size ||
            name.group.data == NULL) {
            name = ol_table_name(table, group, hash, row.topic);
        }
        status = take_position(group, now, batch, &name, row.partition, error);
    }
    return status;
}

/* The group's own records are deleted with the last of its positions, in the same batch if they
 * fit; otherwise alone in the next one. */
static int collect_group_records(ol_slice group, const ol_partition_view *now,
                                 const ol_group_view *view, collected *batch, ol_error *error) {
    const ol_state *state = now->state;
    uint64_t hash = ol_table_group_hash(state->table, group);
    if (batch->topic.data != NULL || batch->is_full || batch->kept > 0 ||
        !ol_group_view_may_go(view)) {
        return OL_OK;
    }
    if (ol_pending_has_group(state->pending, group, hash) ||
        has_anything_in_flight(now->in_flight, group)) {
        return OL_OK;
    }
    size_t count = batch->tombstones.count, bytes = batch->tombstones.batch_bytes;
    int status = ol_tombstones_add_group_records(&batch->tombstones, state->group_records, group,
                                                 error);
    if (status != OL_OK) return status;
    ol_tombstones_sort_group_records(&batch->tombstones, count);
    if (count > 0 && batch->tombstones.batch_bytes > batch->bytes_max) {
        ol_tombstones_cut(&batch->tombstones, count, bytes);
        batch->is_full = true;
    } else {
        batch->is_last = true;
    }
    return OL_OK;
}

static size_t count_positions(const ol_tombstones *tombstones) {
    size_t count = 0;
    while (count < tombstones->count &&
           tombstones->items[count].kind == OL_ITEM_POSITION_TOMBSTONE) {
        count++;
    }
    return count;
}

static void account(const ol_retention_run *run, const collected *batch,
                    const ol_commit_result *result) {
    ol_retention_report *report = run->report;
    /* If this batch is full, the next one counts them. */
    if (!batch->is_full) report->positions_pending += batch->pending;
    /* The positions of a big group were deleted by earlier batches; those of any other group are
     * deleted by this one. */
    report->groups_removed += batch->is_last && (batch->tombstones.count > 0 || run->group.is_big);
    if (batch->tombstones.count == 0) return;
    report->positions_expired += count_positions(&batch->tombstones);
    report->batches++;
    report->end_offset = result->end_offset;
    report->term = result->term;
}

/* Called under the writer lock. */
static int write_batch(const ol_retention_run *run, const ol_partition_view *now, collected *batch,
                       ol_error *error) {
    ol_partition *partition = run->partition;
    int status = ol_partition_check_writable(partition, true, error);
    if (status == OL_OK) status = ol_partition_complete_overlay(partition, error);
    if (status != OL_OK || has_group_records_in_flight(now->in_flight, run->group.name)) {
        return status;
    }
    ol_group_view view = ol_retention_view(&run->group, now->state);
    status = collect_positions(run, now, &view, batch, error);
    if (status == OL_OK) status = collect_group_records(run->group.name, now, &view, batch, error);
    ol_commit_result result;
    if (status == OL_OK && batch->tombstones.count > 0) {
        status = ol_partition_commit_locked(partition, batch->tombstones.items,
                                            batch->tombstones.count, -1, -1, &result, error);
    }
    if (status == OL_OK) account(run, batch, &result);
    return status;
}

void ol_retention_give_way(void) {
    const struct timespec moment = {.tv_nsec = 50000};
    nanosleep(&moment, NULL);
}

/* Writes batches until nothing more is due, in one topic or in all. */
static int write_all(const ol_retention_run *run, ol_slice topic, ol_error *error) {
    ol_partition_view now;
    size_t bytes_max = ol_partition_get_options(run->partition)->batch_bytes_max;
    if (topic.data != NULL && bytes_max > BIG_GROUP_BATCH_BYTES) bytes_max = BIG_GROUP_BATCH_BYTES;
    int status = OL_OK;
    for (bool more = true; status == OL_OK && more;) {
        collected batch = {.topic = topic, .bytes_max = bytes_max};
        ol_partition_lock_writer(run->partition, &now);
        status = write_batch(run, &now, &batch, error);
        ol_partition_unlock_writer(run->partition);
        more = batch.is_full;
        ol_tombstones_free(&batch.tombstones);
        if (more) ol_retention_give_way();
    }
    return status;
}

/* Writes topic by topic, so that no hold of the lock covers all of them.  If the group is empty
 * after that, a last batch removes it. */
static int write_big(ol_retention_run *run, ol_error *error) {
    const ol_state *state;
    int status = OL_OK;
    for (size_t i = 0; status == OL_OK && i < run->group.topics.count; i++) {
        status = write_all(run, ol_name_list_get(&run->group.topics, i), error);
    }
    if (status == OL_OK) status = ol_partition_lock_state(run->partition, &state, error);
    if (status != OL_OK) return status;
    uint64_t left = ol_table_group_positions(state->table, run->group.name,
                                             ol_table_group_hash(state->table, run->group.name));
    ol_partition_unlock_state(run->partition);
    return left == 0 ? write_all(run, ol_slice_null(), error) : OL_OK;
}

int ol_retention_write(ol_retention_run *run, ol_error *error) {
    int status = OL_OK;
    bool due = true;
    if (run->group.is_big || run->group.is_frozen) {
        status = ol_retention_glance_by_topic(run, &due, error);
    }
    if (status != OL_OK || !due) return status;
    return run->group.is_big ? write_big(run, error) : write_all(run, ol_slice_null(), error);
}
