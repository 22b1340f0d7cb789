/* state/batch_applier: applies the batches of a log to a state, in order.
 *
 * A load and a snapshot in the making read a log this way.  Cache misses of the table overlap
 * (state/prefetch_window).  The caller has checked CRCs and offsets.  Undecodable records are
 * reported and skipped, unlike in a Kafka broker.
 *
 * Ownership: rows borrow from the caller's bytes until ol_batch_applier_flush.  Locks: none, one
 * thread.  The struct is large: allocate it with base/pages.
 */
#ifndef OL_STATE_BATCH_APPLIER_H
#define OL_STATE_BATCH_APPLIER_H

#include "state/prefetch_window.h"
#include "state/own_transactions.h"

typedef struct ol_batch_applier {
    ol_state *state;
    ol_own_transactions *own;           /* our open transactions, updated by the walk */
    const ol_decompressor *decompressor;
    ol_refusal refused;                 /* called for each batch or record that cannot be applied */
    int64_t max_timestamp;              /* of all batches; -1: none */
    int64_t batches;
    int64_t records;
    ol_prefetch_window window;
} ol_batch_applier;

void ol_batch_applier_init(ol_batch_applier *applier, ol_state *state, ol_own_transactions *own,
                           const ol_decompressor *decompressor, ol_refusal refused);

/* Applies a batch; a part of it may be applied only at the next flush.  After OL_NO_MEMORY, or
 * OL_IO of an interrupted decompressor, the state no longer matches the log. */
int ol_batch_applier_apply(ol_batch_applier *applier, const ol_batch *batch, ol_error *error)
    OL_NODISCARD;

/* Applies the rest of the batches so far; afterwards nothing borrows from them. */
int ol_batch_applier_flush(ol_batch_applier *applier, ol_error *error) OL_NODISCARD;

#endif
