/* partition/transaction_copy: a copy of the open transactions of a partition and of the groups for
 * which they have positions.  Each lock is held only while data is copied.
 *
 * The caller makes Python objects from the copy.  Making them under a lock could deadlock, because
 * Python may then start a garbage collection, which runs other code that may take the same lock. */
#ifndef OL_PARTITION_TRANSACTION_COPY_H
#define OL_PARTITION_TRANSACTION_COPY_H

#include "base/arena.h"
#include "partition/partition.h"

typedef struct ol_transaction_copy {
    size_t count;
    ol_arena rows;
    ol_arena groups;  /* the groups of all transactions, one transaction after the other */
    ol_arena names;
} ol_transaction_copy;

typedef struct ol_copied_transaction {
    ol_log_transaction known;
    uint64_t positions;         /* that a COMMIT would install */
    size_t first_group;         /* for ol_transaction_copy_group */
    size_t group_count;         /* a group may be listed again */
} ol_copied_transaction;

/* Fills a zeroed copy.  The caller must free the copy even if the call fails.  The call takes the
 * writer lock to copy the transactions, releases it, and takes the table lock to copy the groups.
 * If a transaction ends in between, the copy has no positions and groups of it.  Fails as
 * ol_partition_lock_state does, or with OL_NO_MEMORY. */
int ol_transaction_copy_take(ol_transaction_copy *copy, ol_partition *partition,
                             ol_error *error) OL_NODISCARD;

/* Returns the transaction at `index` of the copy.  The transactions are in the order of their first
 * offsets. */
ol_copied_transaction ol_transaction_copy_row(const ol_transaction_copy *copy, size_t index);

/* Returns the name of a group.  The slice points into the copy. */
ol_slice ol_transaction_copy_group(const ol_transaction_copy *copy, size_t index);

void ol_transaction_copy_free(ol_transaction_copy *copy);

#endif
