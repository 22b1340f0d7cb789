/* partition/commit/commit: the commit path as the other files of the partition use it.
 *
 * The caller of every function here holds the partition's writer lock.  ol_partition_commit and its
 * variants, which take that lock, are in partition/partition.h.
 */
#ifndef OL_PARTITION_COMMIT_COMMIT_H
#define OL_PARTITION_COMMIT_COMMIT_H

#include "partition/partition.h"

enum { OL_COMMIT_HEADERS_MAX = 64 };    /* bytes, of a batch's first record */

/* Memory that a commit leaves allocated for the next one.  The partition owns it.  Zeroed memory is
 * an empty scratch. */
typedef struct ol_commit_scratch {
    struct ol_planned *planned;
    size_t planned_capacity;
    ol_position_row *rows;          /* of the fast path */
    size_t row_capacity;
    struct ol_commit_run *runs;     /* of the fast path */
    size_t run_capacity;
} ol_commit_scratch;

size_t ol_commit_scratch_bytes(const ol_commit_scratch *scratch);
void ol_commit_scratch_free(ol_commit_scratch *scratch);

#endif
