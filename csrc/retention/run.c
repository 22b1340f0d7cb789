/* Walks over the groups: first those with positions, then those that have only records of their
 * own. */
#include "retention/run.h"

#include "base/bytes.h"
#include "retention/run_impl.h"

enum { HOLD_GROUPS = 1024 };

static bool is_stopped(ol_retention_run *run) {
    const _Atomic bool *stop = run->options->stop;
    if (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed)) {
        run->report->stopped = true;
    }
    return run->report->stopped;
}

/* Returns whether the group must be handled.  With a coordinator every group must be, because the
 * coordinator cannot be asked here, under the table lock. */
static bool is_wanted(ol_retention_run *run, const ol_state *state, ol_slice name, bool is_big) {
    ol_retention_report *report = run->report;
    ol_retention_group group = {.name = name,
                                .retention = ol_retention_of(run->options->rules, name)};
    report->groups++;
    if (group.retention.retention_ms < 0) {
        report->groups_never++;
        return false;
    }
    if (run->options->groups != NULL) return true;
    ol_group_view view = ol_retention_view(&group, state);
    if (view.is_held || view.kind == OL_GROUP_SHARE) {
        report->groups_held++;
        return false;
    }
    return is_big || ol_retention_glance(run, &group, state);
}

/* Gathers groups with positions.  The last of them may be a big group, whose positions are too many
 * for one hold of the lock. */
static int gather(ol_retention_run *run, const ol_state *state, ol_table_cursor *cursor, bool *more,
                  ol_error *error) {
    uint64_t inspected = 0, positions;
    ol_slice name;
    int status = OL_OK;
    ol_table_renew(state->table, cursor);
    while (status == OL_OK && inspected < OL_RETENTION_HOLD_POSITIONS &&
           run->names.count < HOLD_GROUPS && !run->last_is_big) {
        *more = ol_table_next_group(state->table, cursor, &name, &positions);
        if (!*more) break;
        bool is_big = positions > OL_RETENTION_HOLD_POSITIONS;
        inspected += is_big ? 0 : positions + 1;
        if (!is_wanted(run, state, name, is_big)) continue;
        run->last_is_big = is_big;
        status = ol_name_list_add(&run->names, name, error);
    }
    return status;
}

/* Gathers groups that have only records: each at the first of its records. */
static int gather_bare(ol_retention_run *run, const ol_state *state, size_t *at, bool *more,
                       ol_error *error) {
    ol_group_record record, first;
    int status = OL_OK;
    for (unsigned inspected = 0; status == OL_OK && inspected < OL_RETENTION_HOLD_POSITIONS &&
                                 run->names.count < HOLD_GROUPS;
         inspected++) {
        *more = ol_group_records_next(state->group_records, at, &record);
        if (!*more) break;
        size_t cursor = 0;
        bool found = ol_group_records_next_of_group(state->group_records, record.group, &cursor,
                                                    &first);
        OL_ASSERT(found);
        if (!ol_slice_equal(first.key, record.key)) continue;
        uint64_t hash = ol_table_group_hash(state->table, record.group);
        if (ol_table_group_positions(state->table, record.group, hash) > 0) continue;
        if (is_wanted(run, state, record.group, false)) {
            status = ol_name_list_add(&run->names, record.group, error);
        }
    }
    return status;
}

static int handle_group(ol_retention_run *run, ol_slice name, bool is_big, ol_error *error) {
    ol_retention_group *group = &run->group;
    group->name = name;
    group->retention = ol_retention_of(run->options->rules, name);
    group->is_big = is_big;
    int status = ol_retention_freeze(run, error);
    if (status == OL_OK && group->is_frozen &&
        (group->view.is_held || group->view.kind == OL_GROUP_SHARE)) {
        run->report->groups_held++;
    } else if (status == OL_OK) {
        status = run->rows != NULL ? ol_retention_report_group(run, error)
                                   : ol_retention_write(run, error);
    }
    ol_retention_thaw(run);
    return status;
}

static int handle_gathered(ol_retention_run *run, ol_error *error) {
    int status = OL_OK;
    for (size_t i = 0; status == OL_OK && i < run->names.count && !is_stopped(run); i++) {
        status = handle_group(run, ol_name_list_get(&run->names, i),
                              run->last_is_big && i + 1 == run->names.count, error);
    }
    return status;
}

static int walk(ol_retention_run *run, bool is_bare, ol_error *error) {
    ol_table_cursor cursor = {0};
    size_t at = 0;
    const ol_state *state;
    int status = OL_OK;
    for (bool more = true; status == OL_OK && more && !is_stopped(run);) {
        run->names.size = run->names.count = 0;
        run->last_is_big = false;
        status = ol_partition_lock_state(run->partition, &state, error);
        if (status != OL_OK) break;
        status = is_bare ? gather_bare(run, state, &at, &more, error)
                         : gather(run, state, &cursor, &more, error);
        ol_partition_unlock_state(run->partition);
        uint64_t batches = run->report->batches;
        if (status == OL_OK) status = handle_gathered(run, error);
        if (run->report->batches != batches) ol_retention_give_way();
    }
    return status;
}

static int walk_all(ol_retention_run *run, ol_error *error) {
    *run->report = (ol_retention_report){.end_offset = -1};
    int status = walk(run, false, error);
    if (status == OL_OK) status = walk(run, true, error);
    ol_name_list_free(&run->names);
    ol_name_list_free(&run->group.topics);
    return status;
}

int ol_retention_expire(ol_partition *partition, const ol_retention_options *options,
                        ol_retention_report *report, ol_error *error) {
    ol_retention_run run = {.partition = partition, .options = options, .report = report};
    return walk_all(&run, error);
}

static int count_group(ol_retention_run *run, ol_slice name, uint64_t *positions,
                       ol_error *error) {
    const ol_state *state;
    int status = ol_partition_lock_state(run->partition, &state, error);
    if (status != OL_OK) return status;
    *positions = ol_table_group_positions(state->table, name,
                                          ol_table_group_hash(state->table, name));
    ol_partition_unlock_state(run->partition);
    return OL_OK;
}

int ol_retention_expire_group(ol_partition *partition, const ol_retention_options *options,
                              ol_slice group, ol_retention_report *report, ol_error *error) {
    ol_retention_run run = {.partition = partition, .options = options, .report = report};
    uint64_t positions;
    *report = (ol_retention_report){.end_offset = -1, .groups = 1};
    if (ol_retention_of(options->rules, group).retention_ms < 0) {
        report->groups_never = 1;
        return OL_OK;
    }
    int status = count_group(&run, group, &positions, error);
    if (status == OL_OK) {
        status = handle_group(&run, group, positions > OL_RETENTION_HOLD_POSITIONS, error);
    }
    ol_name_list_free(&run.group.topics);
    return status;
}

int ol_retention_preview(ol_partition *partition, const ol_retention_options *options,
                         int32_t partition_number, ol_expiring_rows *rows,
                         ol_retention_report *report, ol_error *error) {
    ol_retention_run run = {.partition = partition,
                            .options = options,
                            .report = report,
                            .rows = rows,
                            .partition_number = partition_number};
    return walk_all(&run, error);
}
