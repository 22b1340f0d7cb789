/* columns/transaction_outcomes.c: keeps markers, sorted by producer and log offset. */
#include "columns/transaction_outcomes.h"

#include <stdlib.h>
#include <string.h>

void ol_transaction_outcomes_free(ol_transaction_outcomes *outcomes) {
    free(outcomes->markers);
    ol_int64_map_free(&outcomes->open);
    memset(outcomes, 0, sizeof *outcomes);
}

static int add_marker(ol_transaction_outcomes *outcomes, int64_t producer_id, int64_t offset,
                      ol_control type, ol_error *error) {
    if (outcomes->count == outcomes->capacity) {
        size_t capacity = outcomes->capacity > 0 ? 2 * outcomes->capacity : 64;
        ol_outcome_marker *moved = realloc(outcomes->markers, capacity * sizeof *moved);
        if (moved == NULL) {
            return ol_fail(error, OL_NO_MEMORY, "no memory for %zu transaction markers", capacity);
        }
        outcomes->markers = moved;
        outcomes->capacity = capacity;
    }
    outcomes->markers[outcomes->count++] = (ol_outcome_marker){producer_id, offset, type};
    outcomes->is_sorted = false;
    ol_int64_map_set(&outcomes->open, (uint64_t)producer_id + 1, 0);
    return OL_OK;
}

static int record_markers(ol_transaction_outcomes *outcomes, const ol_batch *batch,
                          ol_records *records, ol_error *error) {
    ol_record record;
    ol_error damage;
    while (ol_records_next(records, &record, &damage) == OL_OK) {
        ol_control type;
        int32_t coordinator_epoch;
        if (ol_control_decode(&record, &type, &coordinator_epoch, &damage) != OL_OK) return OL_OK;
        if (type == OL_CONTROL_OTHER) continue;
        int status = add_marker(outcomes, batch->producer_id, record.offset, type, error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

int ol_transaction_outcomes_record(ol_transaction_outcomes *outcomes, const ol_batch *batch,
                                   const ol_decompressor *decompressor, bool is_asked,
                                   ol_error *error) {
    if (ol_batch_is_control(batch)) {
        ol_records records;
        ol_error damage;
        if (ol_batch_check_crc(batch, &damage) != OL_OK) return OL_OK;
        if (ol_records_open(&records, batch, decompressor, &damage) != OL_OK) return OL_OK;
        /* A load applies nothing of a batch that is damaged anywhere. */
        int status = ol_records_check(&records, &damage) == OL_OK
                         ? record_markers(outcomes, batch, &records, error)
                         : OL_OK;
        ol_records_close(&records);
        return status;
    }
    /* A batch without a producer takes effect at once (docs/format/loading.md §6.4). */
    if (!is_asked || !ol_batch_is_transactional(batch) || batch->producer_id < 0) return OL_OK;
    int status = ol_int64_map_reserve(&outcomes->open, outcomes->open.count + 1, error);
    if (status == OL_OK) ol_int64_map_set(&outcomes->open, (uint64_t)batch->producer_id + 1, 1);
    return status;
}

static int compare(const void *left, const void *right) {
    const ol_outcome_marker *a = left;
    const ol_outcome_marker *b = right;
    if (a->producer_id != b->producer_id) return a->producer_id < b->producer_id ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

void ol_transaction_outcomes_sort(ol_transaction_outcomes *outcomes) {
    if (outcomes->count > 0) {
        qsort(outcomes->markers, outcomes->count, sizeof *outcomes->markers, compare);
    }
    outcomes->is_sorted = true;
}

const ol_outcome_marker *ol_transaction_outcomes_find(const ol_transaction_outcomes *outcomes,
                                                      int64_t producer_id, int64_t offset) {
    OL_ASSERT(outcomes->is_sorted || outcomes->count == 0);
    size_t low = 0;
    size_t high = outcomes->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const ol_outcome_marker *marker = &outcomes->markers[middle];
        bool before = marker->producer_id != producer_id ? marker->producer_id < producer_id
                                                         : marker->offset <= offset;
        if (before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == outcomes->count || outcomes->markers[low].producer_id != producer_id) return NULL;
    return &outcomes->markers[low];
}
