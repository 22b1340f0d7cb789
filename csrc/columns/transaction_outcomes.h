/* columns/transaction_outcomes: how the transactions of a log ended, so that a reader who begins anywhere can say of each record whether it took effect.
 *
 * A marker ends what its producer has written since the one before it (docs/format/loading.md §6.4).  Memory belongs to the object until it is freed.
 * No locks: one thread notes, any number ask afterwards.
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

/* Notes one batch, in log order.  Of data only whether its transaction is open is kept, and only with `is_asked`: what lies behind the end of what somebody
 * reads begins no wait.  A control batch that cannot be read is passed over, as by a load.  OL_NO_MEMORY. */
int ol_transaction_outcomes_record(ol_transaction_outcomes *outcomes, const ol_batch *batch, const ol_decompressor *decompressor, bool is_asked,
                     ol_error *error) OL_NODISCARD;

/* How many transactions that were asked for have not ended yet. */
static inline size_t ol_transaction_outcomes_open(const ol_transaction_outcomes *outcomes) { return outcomes->open.count; }

/* To be called once behind the last note. */
void ol_transaction_outcomes_sort(ol_transaction_outcomes *outcomes);

/* The marker that ended what a producer wrote at a log offset; NULL when none did. */
const ol_outcome_marker *ol_transaction_outcomes_find(const ol_transaction_outcomes *outcomes, int64_t producer_id, int64_t offset);

#endif
