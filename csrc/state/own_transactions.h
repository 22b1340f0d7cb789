/* state/own_transactions: the producer ids of the open own transactions of a partition.
 *
 * An own transaction is one that the partition itself begins and ends.  It writes one if the items
 * of one group in a commit do not fit one batch (docs/architecture.md §2.3).  Only a few are open
 * at a time.  Zeroed memory is an empty set.  The set takes no locks; its owner makes one call at a
 * time.
 */
#ifndef OL_STATE_OWN_TRANSACTIONS_H
#define OL_STATE_OWN_TRANSACTIONS_H

#include "format/batch.h"

/* the lowest producer id of an own transaction */
#define OL_OWN_PRODUCER_ID_MIN ((int64_t)1 << 62)
#define OL_HEADER_TRANSACTION "ol.transaction"      /* the header that marks their batches */

typedef struct ol_own_transactions {
    int64_t *ids;
    size_t count;
    size_t capacity;
} ol_own_transactions;

void ol_own_transactions_free(ol_own_transactions *own);

/* ol_own_transactions_open adds an id unless the set already has it, and fails with OL_NO_MEMORY.
 * ol_own_transactions_close removes an id if the set has it. */
int ol_own_transactions_open(ol_own_transactions *own, int64_t producer_id, ol_error *error)
    OL_NODISCARD;
void ol_own_transactions_close(ol_own_transactions *own, int64_t producer_id);

/* Returns whether a record carries OL_HEADER_TRANSACTION. */
bool ol_own_transactions_marks(const ol_record *record);

#endif
