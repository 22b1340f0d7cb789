/* ol_state_loader: the batches of a log are applied to a state, in order, with the misses of the table overlapped (ol_load_window).
 *
 * For who reads a log from a place on: a load, and a snapshot in the making.  CRCs and offsets are checked by the caller before.  What cannot be
 * decoded is told and passed over, as a Kafka broker would not.
 *
 * Ownership: rows borrow from the caller's bytes until ol_state_loader_flush.  Locks: none, one thread.  It is large (base/pages).
 */
#ifndef OL_STATE_LOADER_H
#define OL_STATE_LOADER_H

#include "ol_load_window.h"
#include "ol_own_transactions.h"

typedef struct ol_state_loader {
    ol_state *state;
    ol_own_transactions *own;           /* open ones of ours come and go here */
    const ol_decompressor *decompressor;
    ol_refusal refused;                 /* called for each batch or record that cannot be applied */
    int64_t max_timestamp;              /* of the batches; -1 none */
    int64_t batches;
    int64_t records;
    ol_load_window window;
} ol_state_loader;

void ol_state_loader_init(ol_state_loader *loader, ol_state *state, ol_own_transactions *own, const ol_decompressor *decompressor,
                          ol_refusal refused);

/* Applies a batch, in part perhaps only with the next flush.  OL_NO_MEMORY, or OL_IO of a decompressor that was interrupted: the state is not
 * that of the log any more. */
int ol_state_loader_apply(ol_state_loader *loader, const ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Applies what is left of the batches so far; nothing borrows from them any more. */
int ol_state_loader_flush(ol_state_loader *loader, ol_error *error) OL_NODISCARD;

#endif
