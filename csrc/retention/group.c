/* Finds the state and the topics of one group, and which of its positions are due. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "retention/group_view.h"
#include "retention/run_impl.h"

/* ---------------------------------------------------------------------------------------- names */

static bool make_room(void *array, size_t *capacity, size_t wanted, size_t item_size) {
    if (wanted <= *capacity) return true;
    size_t grown = wanted + wanted / 2 + 64;
    void **place = array, *moved = realloc(*place, grown * item_size);
    if (moved == NULL) return false;
    *place = moved;
    *capacity = grown;
    return true;
}

int ol_name_list_add(ol_name_list *list, ol_slice name, ol_error *error) {
    bool done = make_room(&list->bytes, &list->bytes_capacity, list->size + name.size + 1, 1) &&
                make_room(&list->ends, &list->capacity, list->count + 1, sizeof *list->ends);
    if (!done) return ol_fail(error, OL_NO_MEMORY, "no memory for a list of names");
    if (name.size > 0) memcpy(list->bytes + list->size, name.data, name.size);
    list->size += name.size;
    list->ends[list->count++] = list->size;
    return OL_OK;
}

ol_slice ol_name_list_get(const ol_name_list *list, size_t index) {
    size_t start = index == 0 ? 0 : list->ends[index - 1];
    return ol_slice_of(list->bytes + start, list->ends[index] - start);
}

void ol_name_list_free(ol_name_list *list) {
    free(list->bytes);
    free(list->ends);
    memset(list, 0, sizeof *list);
}

int ol_retention_list_topics(ol_retention_run *run, ol_error *error) {
    ol_retention_group *group = &run->group;
    const ol_state *state;
    ol_table_cursor cursor = {0};
    ol_slice topic;
    group->topics.size = group->topics.count = 0;
    int status = ol_partition_lock_state(run->partition, &state, error);
    if (status != OL_OK) return status;
    uint64_t hash = ol_table_group_hash(state->table, group->name);
    while (status == OL_OK &&
           ol_table_next_topic(state->table, group->name, hash, &cursor, &topic)) {
        status = ol_name_list_add(&group->topics, topic, error);
    }
    ol_partition_unlock_state(run->partition);
    return status;
}

/* ------------------------------------------------------------------------------------ its state */

static int compare_slices(const void *a, const void *b) {
    const ol_slice *left = a, *right = b;
    if (left->size != right->size) return left->size < right->size ? -1 : 1;
    return left->size == 0 ? 0 : memcmp(left->data, right->data, left->size);
}

static int ask_for_topics(ol_retention_run *run, ol_error *error) {
    ol_retention_group *group = &run->group;
    const ol_group_state *groups = run->options->groups;
    group->unread = malloc((group->topics.count + 1) * sizeof *group->unread);
    if (group->unread == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for the topics of a group");
    }
    for (size_t i = 0; i < group->topics.count; i++) {
        ol_slice topic = ol_name_list_get(&group->topics, i);
        if (!groups->is_subscribed(groups->context, group->name, topic)) {
            group->unread[group->unread_count++] = topic;
        }
    }
    if (group->unread_count > 1) {
        qsort(group->unread, group->unread_count, sizeof *group->unread, compare_slices);
    }
    return OL_OK;
}

int ol_retention_freeze(ol_retention_run *run, ol_error *error) {
    const ol_group_state *groups = run->options->groups;
    ol_retention_group *group = &run->group;
    if (groups == NULL) return OL_OK;
    int status = ol_retention_list_topics(run, error);
    if (status != OL_OK) return status;
    group->is_frozen = true;
    if (!groups->view(groups->context, group->name, &group->view)) {
        group->view = ol_group_view_simple();
    }
    return ol_group_view_keeps_subscribed(&group->view) ? ask_for_topics(run, error) : OL_OK;
}

void ol_retention_thaw(ol_retention_run *run) {
    const ol_group_state *groups = run->options->groups;
    ol_retention_group *group = &run->group;
    if (!group->is_frozen) return;
    if (groups->release != NULL) groups->release(groups->context, group->name);
    group->is_frozen = false;
    free(group->unread);
    group->unread = NULL;
    group->unread_count = 0;
}

ol_group_view ol_retention_view(const ol_retention_group *group, const ol_state *state) {
    if (group->is_frozen) return group->view;
    ol_group_view view;
    ol_group_view_read(state->group_records, group->name, &view);
    return view;
}

static bool is_read(const ol_retention_group *group, const ol_group_view *view, ol_slice topic) {
    if (!group->is_frozen || !ol_group_view_keeps_subscribed(view)) {
        return false;   /* the state comes from the log: the group has no members, or is held */
    }
    return bsearch(&topic, group->unread, group->unread_count, sizeof topic, compare_slices) ==
           NULL;
}

ol_expiry ol_retention_when(const ol_retention_group *group, const ol_group_view *view,
                            const ol_table_row *row) {
    return ol_position_expiry(view, &row->value, is_read(group, view, row->topic),
                              group->retention.retention_ms);
}

/* ---------------------------------------------------------------------------------- at a glance */

bool ol_retention_glance(const ol_retention_run *run, const ol_retention_group *group,
                         const ol_state *state) {
    ol_group_view view = ol_retention_view(group, state);
    ol_table_cursor cursor = {0};
    ol_table_row row;
    uint64_t hash = ol_table_group_hash(state->table, group->name);
    bool is_without = true;
    while (ol_table_next_of_group(state->table, group->name, hash, &cursor, &row)) {
        if (ol_retention_is_due(run, group, &view, &row)) return true;
        is_without = false;
    }
    return is_without && ol_group_view_may_go(&view);
}

static bool glance_at_topic(const ol_retention_run *run, const ol_state *state, ol_slice topic) {
    const ol_retention_group *group = &run->group;
    ol_group_view view = ol_retention_view(group, state);
    ol_pair_name name = ol_table_name(state->table, group->name,
                                      ol_table_group_hash(state->table, group->name), topic);
    ol_table_cursor cursor = {0};
    ol_table_row row;
    while (ol_table_next_of_pair(state->table, &name, &cursor, &row)) {
        if (ol_retention_is_due(run, group, &view, &row)) return true;
    }
    return false;
}

int ol_retention_glance_by_topic(ol_retention_run *run, bool *due, ol_error *error) {
    int status = run->group.is_frozen ? OL_OK : ol_retention_list_topics(run, error);
    *due = status == OL_OK && run->group.topics.count == 0;
    for (size_t i = 0; status == OL_OK && !*due && i < run->group.topics.count; i++) {
        const ol_state *state;
        status = ol_partition_lock_state(run->partition, &state, error);
        if (status != OL_OK) break;
        *due = glance_at_topic(run, state, ol_name_list_get(&run->group.topics, i));
        ol_partition_unlock_state(run->partition);
    }
    return status;
}
