/* columns/transaction_outcomes: how the transactions of a log ended.
 *
 * The outcomes let a reader that begins anywhere in a log decide whether each record took effect.
 * A marker decides about everything that its producer wrote after that producer's previous marker
 * (docs/format/loading.md §6.4).
 *
 * Ownership: memory belongs to the object until it is freed.  Locks: none; one thread records, any
 * number read afterwards.
 */
#ifndef OL_COLUMNS_TRANSACTION_OUTCOMES_H
#define OL_COLUMNS_TRANSACTION_OUTCOMES_H

#include "format/batch.h"
#include "base/int64_map.h"

typedef struct ol_outcome_marker {
    int64_t producer_id;
    int64_t offset;
    ol_control type;
} ol_outcome_marker;

typedef struct ol_transaction_outcomes {
    ol_outcome_marker *markers;
    size_t count;
    size_t capacity;
    bool is_sorted;
    ol_int64_map open;            /* producer id + 1 -> 1: has written since its last marker */
} ol_transaction_outcomes;

/* Zeroed memory is empty. */
void ol_transaction_outcomes_free(ol_transaction_outcomes *outcomes);

/* Records one batch, in log order.  A data batch only counts its transaction as open, and only if
 * `is_asked`: a reader need not wait for transactions that begin after the end of its read.  A
 * control batch that cannot be read is skipped, as in a load.  Fails with OL_NO_MEMORY. */
int ol_transaction_outcomes_record(ol_transaction_outcomes *outcomes, const ol_batch *batch,
                                   const ol_decompressor *decompressor, bool is_asked,
                                   ol_error *error) OL_NODISCARD;

/* Returns the number of asked-for transactions that have not ended yet. */
static inline size_t ol_transaction_outcomes_open(const ol_transaction_outcomes *outcomes) {
    return outcomes->open.count;
}

/* Sorts the markers; call it once after the last batch. */
void ol_transaction_outcomes_sort(ol_transaction_outcomes *outcomes);

/* Returns the marker that ended the transaction in which a producer wrote at a log offset; NULL if
 * none did. */
const ol_outcome_marker *ol_transaction_outcomes_find(const ol_transaction_outcomes *outcomes,
                                                      int64_t producer_id, int64_t offset);

#endif
