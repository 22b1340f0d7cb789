/* columns/transaction_outcomes: how the transactions of a log ended.
 *
 * A reader that begins anywhere in a log uses the outcomes to decide whether each record took
 * effect.  A marker commits or aborts everything that its producer has written since that
 * producer's previous marker (docs/format/loading.md §6.4).
 *
 * Ownership: the object owns its memory until ol_transaction_outcomes_free.  The functions take no
 * locks.  One thread records the batches; any number of threads may look outcomes up afterwards.
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
    ol_int64_map open;            /* producer id + 1 -> 1 if the producer has written since
                                     its last marker */
} ol_transaction_outcomes;

/* Zeroed memory is empty. */
void ol_transaction_outcomes_free(ol_transaction_outcomes *outcomes);

/* Records one batch.  The caller passes the batches in the order of the log.  A data batch of a
 * transaction marks the transaction as open if `is_asked` is true.  The caller passes false for the
 * batches after the end of the range that it reads, so that it need not wait for transactions that
 * begin after this range.  A control batch that cannot be read is skipped, as in a load.  Fails
 * with OL_NO_MEMORY. */
int ol_transaction_outcomes_record(ol_transaction_outcomes *outcomes, const ol_batch *batch,
                                   const ol_decompressor *decompressor, bool is_asked,
                                   ol_error *error) OL_NODISCARD;

/* Returns the number of open transactions: those with a data batch that was recorded with
 * `is_asked` and without a marker after it. */
static inline size_t ol_transaction_outcomes_open(const ol_transaction_outcomes *outcomes) {
    return outcomes->open.count;
}

/* Sorts the markers.  The caller calls it once, after it has recorded the last batch. */
void ol_transaction_outcomes_sort(ol_transaction_outcomes *outcomes);

/* Returns the marker that ended the transaction to which the producer's record at a log offset
 * belongs, or NULL if no marker has ended it. */
const ol_outcome_marker *ol_transaction_outcomes_find(const ol_transaction_outcomes *outcomes,
                                                      int64_t producer_id, int64_t offset);

#endif
