/* Control batches in pass B (docs/format/cleaner.md §8.5), and the .txnindex of what is written. */
#include <stdlib.h>

#include "cleaner/cleaner_impl.h"

static int add_transaction(ol_aborted_transaction **list, size_t *count, size_t *capacity, const ol_aborted_transaction *entry,
                           ol_error *error) {
    if (*count == *capacity) {
        size_t grown = *capacity == 0 ? 16 : *capacity * 2;
        ol_aborted_transaction *entries = realloc(*list, grown * sizeof *entries);
        if (entries == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for %zu aborted transactions", grown);
        *list = entries;
        *capacity = grown;
    }
    (*list)[(*count)++] = *entry;
    return OL_OK;
}

static int visit_index(void *context, const ol_aborted_transaction *entry) {
    ol_clean_copier *copy = context;
    ol_error ignored;
    return add_transaction(&copy->index, &copy->index_count, &copy->index_capacity, entry, &ignored);
}

/* What the index says of this marker, or, where it says nothing, what the log does. */
static int keep_aborted(ol_clean_copier *copy, const ol_batch *marker, int64_t first_offset, ol_error *error) {
    ol_clean_run *run = copy->run;
    if (!copy->index_read) {
        ol_error ignored;
        const ol_clean_segment *last = &run->segments[copy->first + copy->count - 1];
        copy->index_read = true;
        (void)!ol_log_collect_aborted(run->log, run->segments[copy->first].base_offset, last->next_base, visit_index, copy, &ignored);
    }
    ol_aborted_transaction entry = {
        .producer_id = marker->producer_id,
        .first_offset = first_offset,
        .last_offset = marker->last_offset,
        .last_stable_offset = ol_clean_open_lowest(&run->open, marker->last_offset + 1),
    };
    for (size_t i = 0; i < copy->index_count; i++) {
        const ol_aborted_transaction *known = &copy->index[i];
        if (known->last_offset != entry.last_offset || known->producer_id != entry.producer_id) continue;
        if (known->first_offset <= known->last_offset) entry = *known;
        break;
    }
    if (entry.first_offset < 0) return OL_OK;
    return add_transaction(&copy->aborted, &copy->aborted_count, &copy->aborted_capacity, &entry, error);
}

/* A marker goes, after its time, once nothing is left of its transaction (docs/format/cleaner.md §8.5). */
int ol_clean_add_control(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    ol_control type;
    int32_t count;
    int status = ol_clean_flush_rows(copy, error);
    if (status == OL_OK) status = ol_clean_read_control(batch, &type, &count, error);
    if (status != OL_OK) return status;
    bool blocked = batch->base_offset >= run->marker_block;
    bool ends = count > 0 && type != OL_CONTROL_OTHER;
    ol_clean_open_entry *seen = ends ? ol_clean_open_find(&run->open, batch->producer_id) : NULL;
    int64_t first_offset = seen != NULL ? seen->first_offset : -1;
    if (seen != NULL) ol_clean_open_remove(&run->open, seen);
    bool discardable = seen == NULL && !blocked && ends && count == 1;
    bool goes = discardable && ol_batch_has_horizon(batch) && batch->base_timestamp <= run->options->now_ms;
    if (!discardable && ends && type == OL_CONTROL_ABORT) status = keep_aborted(copy, batch, first_offset, error);
    if (status != OL_OK) return status;
    uint64_t all = goes ? 0 : UINT64_MAX;
    ol_clean_choice choice = {.kept = &all, .kept_count = goes ? 0 : count};
    ol_clean_result result = OL_CLEAN_VERBATIM;
    if (count > 64) return ol_clean_put_batch(copy, batch, result, error);
    status = ol_clean_finish_batch(copy, batch, count, &choice, discardable && !goes, &result, error);
    if (goes) run->report->markers_dropped++;
    return status;
}
