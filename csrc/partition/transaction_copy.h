/* partition/transaction_copy: the open transactions of a partition and the groups whose positions
 * they hold, copied while each lock is held briefly.
 *
 * The caller creates Python objects from the copy.  Creating them under a lock could deadlock: it
 * may start a garbage collection, which runs other code that may take the same lock.
 */
#ifndef OL_PARTITION_TRANSACTION_COPY_H
#define OL_PARTITION_TRANSACTION_COPY_H

#include "base/arena.h"
#include "partition/partition.h"

typedef struct ol_transaction_copy {
    size_t count;
    ol_arena rows;
    ol_arena groups;            /* groups of all transactions, one after the other */
    ol_arena names;
} ol_transaction_copy;

typedef struct ol_copied_transaction {
    ol_log_transaction known;
    uint64_t positions;         /* that a COMMIT would install */
    size_t first_group;         /* for ol_transaction_copy_group */
    size_t group_count;         /* a group may be listed again */
} ol_copied_transaction;

/* Fills a zeroed copy; the caller frees it also after a failure.  Takes the writer lock and then
 * the table lock: a transaction that ends in between has no positions.  Fails as
 * ol_partition_lock_state, or with OL_NO_MEMORY. */
int ol_transaction_copy_take(ol_transaction_copy *copy, ol_partition *partition,
                             ol_error *error) OL_NODISCARD;

/* Returns transaction `index` of the copy, in the order of first offsets. */
ol_copied_transaction ol_transaction_copy_row(const ol_transaction_copy *copy, size_t index);

/* Returns the name of a group, borrowed from the copy. */
ol_slice ol_transaction_copy_group(const ol_transaction_copy *copy, size_t index);

void ol_transaction_copy_free(ol_transaction_copy *copy);

#endif
