/* state/batch_applier: the batches of a log are applied to a state, in order, with the misses of the table overlapped (ol_prefetch_window).
 *
 * For who reads a log from a place on: a load, and a snapshot in the making.  CRCs and offsets are checked by the caller before.  What cannot be
 * decoded is told and passed over, as a Kafka broker would not.
 *
 * Ownership: rows borrow from the caller's bytes until ol_batch_applier_flush.  Locks: none, one thread.  It is large (base/pages).
 */
#ifndef OL_STATE_BATCH_APPLIER_H
#define OL_STATE_BATCH_APPLIER_H

#include "state/prefetch_window.h"
#include "state/own_transactions.h"

typedef struct ol_batch_applier {
    ol_state *state;
    ol_own_transactions *own;           /* open ones of ours come and go here */
    const ol_decompressor *decompressor;
    ol_refusal refused;                 /* called for each batch or record that cannot be applied */
    int64_t max_timestamp;              /* of the batches; -1 none */
    int64_t batches;
    int64_t records;
    ol_prefetch_window window;
} ol_batch_applier;

void ol_batch_applier_init(ol_batch_applier *loader, ol_state *state, ol_own_transactions *own, const ol_decompressor *decompressor,
                          ol_refusal refused);

/* Applies a batch, in part perhaps only with the next flush.  OL_NO_MEMORY, or OL_IO of a decompressor that was interrupted: the state is not
 * that of the log any more. */
int ol_batch_applier_apply(ol_batch_applier *loader, const ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Applies what is left of the batches so far; nothing borrows from them any more. */
int ol_batch_applier_flush(ol_batch_applier *loader, ol_error *error) OL_NODISCARD;

#endif
