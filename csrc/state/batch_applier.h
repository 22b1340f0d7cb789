/* state/batch_applier: applies the batches of a log to a state, in order.
 *
 * Loads and snapshots apply a log with these functions.  The applier prefetches the memory of the
 * table, so that its cache misses overlap (state/prefetch_window).  The caller has checked the CRCs
 * and the offsets of the batches.  The applier reports and skips a record that cannot be decoded; a
 * Kafka broker would not load the log.
 *
 * Ownership: the applier points into the bytes of the batches until ol_batch_applier_flush, so the
 * caller must keep them until then.  The applier takes no locks; one thread uses it.  The struct is
 * large and should be allocated with base/pages.
 */
#ifndef OL_STATE_BATCH_APPLIER_H
#define OL_STATE_BATCH_APPLIER_H

#include "state/prefetch_window.h"
#include "state/own_transactions.h"

typedef struct ol_batch_applier {
    ol_state *state;
    ol_own_transactions *own;           /* the open own transactions, which the applier updates */
    const ol_decompressor *decompressor;
    ol_refusal refused;                 /* called for each batch or record that cannot be applied */
    int64_t max_timestamp;              /* of all batches; -1: none */
    int64_t batches;
    int64_t records;
    ol_prefetch_window window;
} ol_batch_applier;

void ol_batch_applier_init(ol_batch_applier *applier, ol_state *state, ol_own_transactions *own,
                           const ol_decompressor *decompressor, ol_refusal refused);

/* Applies a batch.  Some of its records may be applied only at the next flush.  If the call fails
 * with OL_NO_MEMORY, or with OL_IO because the decompressor was interrupted, the state no longer
 * matches the log. */
int ol_batch_applier_apply(ol_batch_applier *applier, const ol_batch *batch, ol_error *error)
    OL_NODISCARD;

/* Applies the remaining records of all batches so far.  After the call the applier no longer points
 * into the bytes of these batches. */
int ol_batch_applier_flush(ol_batch_applier *applier, ol_error *error) OL_NODISCARD;

#endif
