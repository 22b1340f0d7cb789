/* Makes a swap plan from a list of names in memory, with the steps of docs/format/recovery.md §9.1
 * one after the other. */
#include "log/swap_plan.h"

#include <stdlib.h>
#include <string.h>

#include "log/files/names.h"

/* One name while the plan is made; number is -1 for names that are not `<20 digits><suffix>`. */
typedef struct entry {
    const char *name;
    const char *suffix;
    char *target;
    int64_t number;
    bool removed;
} entry;

static bool ends_with(const char *text, const char *end) {
    size_t size = strlen(text);
    size_t end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

static int add_action(ol_swap_plan *plan, const char *name, const char *target, ol_error *error) {
    char *name_copy = strdup(name);
    char *target_copy = target == NULL ? NULL : strdup(target);
    if (name_copy == NULL || (target != NULL && target_copy == NULL)) {
        free(name_copy);
        free(target_copy);
        return ol_fail(error, OL_NO_MEMORY, "no memory to examine the files in the directory");
    }
    plan->actions[plan->action_count++] = (ol_swap_action){name_copy, target_copy};
    return OL_OK;
}

static int remove_entry(ol_swap_plan *plan, entry *found, ol_error *error) {
    found->removed = true;
    if (found->number >= 0 && strncmp(found->suffix, ".log", 4) == 0 &&
        !ends_with(found->name, ".deleted")) {
        plan->segments_removed++;
    }
    return add_action(plan, found->name, NULL, error);
}

/* Steps 1 and 2: files marked for deletion, and leftovers of an interrupted cleaning or split. */
static int plan_leftovers(entry *entries, size_t count, ol_swap_plan *plan, ol_error *error) {
    int status = OL_OK;
    int64_t cleaned_min = INT64_MAX;
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        const char *name = entries[i].name;
        bool deleted = ends_with(name, ".deleted") && !ends_with(name, ".checkpoint.deleted");
        bool ours = strncmp(name, OL_SPARE_PREFIX, strlen(OL_SPARE_PREFIX)) == 0 ||
                    strcmp(name, OL_TRUNCATED_FILE) == 0;
        if (deleted || ours) status = remove_entry(plan, &entries[i], error);
        if (entries[i].number >= 0 && ends_with(name, ".cleaned") &&
            entries[i].number < cleaned_min) {
            cleaned_min = entries[i].number;
        }
    }
    /* The swaps are removed before the .cleaned files that condemn them, so a pass that was stopped
     * in between decides the same. */
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        bool condemned = ends_with(entries[i].name, ".swap") && entries[i].number >= cleaned_min;
        if (condemned) status = remove_entry(plan, &entries[i], error);
    }
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        if (entries[i].number >= 0 && ends_with(entries[i].name, ".cleaned")) {
            status = remove_entry(plan, &entries[i], error);
        }
    }
    return status;
}

/* Steps 3 to 5: a swap that got far enough is finished. */
static int plan_swaps(entry *entries, size_t count, ol_swap_next_offset next_offset, void *context,
                      ol_swap_plan *plan, ol_error *error) {
    int64_t low = INT64_MAX;
    int64_t high = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        if (entries[i].removed || entries[i].number < 0 ||
            strcmp(entries[i].suffix, ".log.swap") != 0) {
            continue;
        }
        int64_t next = 0;
        int status = next_offset(context, entries[i].name, entries[i].number, &next, error);
        if (status != OL_OK) return status;
        if (entries[i].number < low) low = entries[i].number;
        if (next > high) high = next;
        plan->swaps_finished++;
    }
    int status = OL_OK;
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        bool is_swap = ends_with(entries[i].name, ".swap");
        if (entries[i].removed || is_swap || entries[i].number < low || entries[i].number >= high) {
            continue;
        }
        if (entries[i].number >= 0) status = remove_entry(plan, &entries[i], error);
    }
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        if (entries[i].removed || entries[i].number < 0 || !ends_with(entries[i].name, ".swap")) {
            continue;
        }
        entries[i].target = strndup(entries[i].name, strlen(entries[i].name) - strlen(".swap"));
        if (entries[i].target == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory to examine the files in the directory");
        }
        /* An older file of that name (an index whose own log was not in the range) is replaced by
         * the rename. */
        for (size_t j = 0; j < count; j++) {
            if (j != i && entries[j].target == NULL &&
                strcmp(entries[j].name, entries[i].target) == 0) {
                entries[j].removed = true;
            }
        }
        status = add_action(plan, entries[i].name, entries[i].target, error);
    }
    return status;
}

static const char *name_after(const entry *found) {
    return found->target != NULL ? found->target : found->name;
}

/* Step 6: removes an index without its log. */
static int plan_orphans(entry *entries, size_t count, ol_swap_plan *plan, ol_error *error) {
    int status = OL_OK;
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        const char *name = name_after(&entries[i]);
        bool is_index = ends_with(name, ".index") || ends_with(name, ".timeindex") ||
                        ends_with(name, ".txnindex");
        if (entries[i].removed || entries[i].number < 0 || !is_index) continue;
        bool has_log = false;
        for (size_t j = 0; j < count && !has_log; j++) {
            has_log = !entries[j].removed && entries[j].number == entries[i].number &&
                      ends_with(name_after(&entries[j]), ".log");
        }
        if (has_log) continue;
        entries[i].removed = true;
        status = add_action(plan, name, NULL, error);
    }
    return status;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const ol_swap_name *)a)->name, ((const ol_swap_name *)b)->name);
}

static int list_remaining(const entry *entries, size_t count, ol_swap_plan *plan, ol_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (entries[i].removed) continue;
        ol_swap_name *name = &plan->names[plan->name_count++];
        *name = (ol_swap_name){strdup(name_after(&entries[i])), strdup(entries[i].name)};
        if (name->name == NULL || name->real == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory to examine the files in the directory");
        }
    }
    qsort(plan->names, plan->name_count, sizeof *plan->names, compare_names);
    return OL_OK;
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

int ol_swap_plan_make(char *const *names, size_t count, ol_swap_next_offset next_offset,
                      void *context, ol_swap_plan *plan, ol_error *error) {
    *plan = (ol_swap_plan){0};
    entry *entries = calloc(count + 1, sizeof *entries);
    plan->actions = calloc(2 * count + 1, sizeof *plan->actions);
    plan->names = calloc(count + 1, sizeof *plan->names);
    int status = OL_OK;
    if (entries == NULL || plan->actions == NULL || plan->names == NULL) {
        status = ol_fail(error, OL_NO_MEMORY, "no memory to examine the files in the directory");
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        entries[i].name = names[i];
        entries[i].suffix = "";
        entries[i].number = -1;
        int64_t number = 0;
        if (ol_file_name_parse(names[i], &number, &entries[i].suffix)) entries[i].number = number;
    }
    if (entries != NULL) qsort(entries, count, sizeof *entries, compare_entries);
    if (status == OL_OK) status = plan_leftovers(entries, count, plan, error);
    if (status == OL_OK) status = plan_swaps(entries, count, next_offset, context, plan, error);
    if (status == OL_OK) status = plan_orphans(entries, count, plan, error);
    if (status == OL_OK) status = list_remaining(entries, count, plan, error);
    for (size_t i = 0; i < count; i++) free(entries[i].target);
    free(entries);
    if (status != OL_OK) ol_swap_plan_free(plan);
    return status;
}

void ol_swap_plan_free(ol_swap_plan *plan) {
    for (size_t i = 0; i < plan->action_count; i++) {
        free(plan->actions[i].name);
        free(plan->actions[i].target);
    }
    for (size_t i = 0; i < plan->name_count; i++) {
        free(plan->names[i].name);
        free(plan->names[i].real);
    }
    free(plan->actions);
    free(plan->names);
    *plan = (ol_swap_plan){0};
}
