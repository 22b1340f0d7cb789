/* The dry run: adds a row for everything that would expire. */
#include "retention/run_impl.h"

/* The positions of the group so far. */
typedef struct seen {
    uint64_t kept;
    uint64_t due;
    int64_t latest_ms;          /* the latest time at which a due position expires */
} seen;

static int report_position(ol_retention_run *run, const ol_table_row *row, const ol_expiry *expiry,
                           ol_error *error) {
    const ol_expiring_row found = {.at_ms = expiry->at_ms,
                                   .base_ms = expiry->base_ms,
                                   .retention_ms = run->group.retention.retention_ms,
                                   .offset = row->value.offset,
                                   .log_offset = row->value.log_offset,
                                   .partition = row->partition,
                                   .rule = run->group.retention.rule,
                                   .log_partition = run->partition_number,
                                   .base = (int32_t)expiry->base};
    return ol_expiring_rows_append(run->rows, run->group.name, row->topic, &found, error);
}

static int report_topic(ol_retention_run *run, const ol_state *state, ol_slice topic, seen *all,
                        ol_error *error) {
    const ol_retention_group *group = &run->group;
    ol_group_view view = ol_retention_view(group, state);
    ol_pair_name name = ol_table_name(state->table, group->name,
                                      ol_table_group_hash(state->table, group->name), topic);
    ol_table_cursor cursor = {0};
    ol_table_row row;
    int status = OL_OK;
    while (status == OL_OK && ol_table_next_of_pair(state->table, &name, &cursor, &row)) {
        ol_expiry expiry = ol_retention_when(group, &view, &row);
        bool is_due = ol_expiry_is_due(&expiry, run->options->now_ms);
        bool is_pending = is_due && ol_pending_has(state->pending, &name, row.partition);
        run->report->positions_pending += is_pending;
        if (!is_due || is_pending) {
            all->kept++;
            continue;
        }
        status = report_position(run, &row, &expiry, error);
        all->due += status == OL_OK;
        if (expiry.at_ms > all->latest_ms) all->latest_ms = expiry.at_ms;
    }
    return status;
}

/* Reports the group itself, when nothing of it is left. */
static int report_group(ol_retention_run *run, const ol_state *state, const seen *all,
                        ol_error *error) {
    const ol_retention_group *group = &run->group;
    ol_group_view view = ol_retention_view(group, state);
    uint64_t hash = ol_table_group_hash(state->table, group->name);
    if (all->kept > 0 || !ol_group_view_may_go(&view) ||
        ol_pending_has_group(state->pending, group->name, hash)) {
        return OL_OK;
    }
    if (ol_table_group_positions(state->table, group->name, hash) != all->due) {
        return OL_OK;    /* a commit came meanwhile */
    }
    const ol_expiring_row found = {.at_ms = all->due > 0 ? all->latest_ms : view.state_timestamp,
                                   .base_ms = view.state_timestamp,
                                   .retention_ms = group->retention.retention_ms,
                                   .offset = -1,
                                   .log_offset = -1,
                                   .partition = -1,
                                   .rule = group->retention.rule,
                                   .log_partition = run->partition_number,
                                   .base = OL_EXPIRY_GROUP};
    int status = ol_expiring_rows_append(run->rows, group->name, ol_slice_null(), &found, error);
    run->report->groups_removed += status == OL_OK;
    return status;
}

int ol_retention_report_group(ol_retention_run *run, ol_error *error) {
    seen all = {.latest_ms = INT64_MIN};
    const ol_state *state;
    int status = run->group.is_frozen ? OL_OK : ol_retention_list_topics(run, error);
    for (size_t i = 0; status == OL_OK && i <= run->group.topics.count; i++) {
        status = ol_partition_lock_state(run->partition, &state, error);
        if (status != OL_OK) break;
        if (i < run->group.topics.count) {
            status = report_topic(run, state, ol_name_list_get(&run->group.topics, i), &all, error);
        } else {
            status = report_group(run, state, &all, error);
        }
        ol_partition_unlock_state(run->partition);
    }
    run->report->positions_expired += all.due;
    return status;
}
