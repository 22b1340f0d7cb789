/* table/copy: copies a table while its owner continues to change it.
 *
 * Nine tenths of the memory of a table are cells (the values of positions).  The cells are copied
 * in steps of some tens of microseconds each.  Between two steps the table may change.  If a page
 * of cells changes after the step that copied it, the table marks the page (ol_table_mark), and a
 * later step copies the page again.  The last step copies all marked pages, and everything except
 * the cells, at once.  The copy is then equal, byte for byte, to the table at the last step.
 *
 *     ol_table_copy_measure      under the lock that keeps the table from changing
 *     ol_table_copy_prepare      without the lock: allocates and touches the memory of the copy
 *     ol_table_copy_begin        under the lock
 *     ol_table_copy_step         under the lock, which is released between steps; true: continue
 *     ol_table_copy_finish       under the lock; or ol_table_copy_cancel, also after a failure
 *
 * Ownership: the target is an empty table that belongs to the caller.  After a successful
 * ol_table_copy_finish, the target is the copy.  After a failure or a cancel, the caller can only
 * destroy it.  The struct owns the marks.  The table must not be destroyed between
 * ol_table_copy_begin and the end of the copy.  Only one copy of a table can be made at a time;
 * ol_table_copy_begin refuses another. */
#ifndef OL_TABLE_COPY_H
#define OL_TABLE_COPY_H

#include "table/dump.h"

typedef struct ol_table_copy {
    ol_table *source;
    ol_table *target;
    size_t sizes[OL_TABLE_SECTIONS];    /* of the source's arenas, when measured */
    uint64_t *marks;
    uint32_t page_count;  /* number of pages that the cells had when the table was measured */
    uint32_t copied_again;  /* number of marked pages that earlier steps have copied again */
    bool begun;
} ol_table_copy;

/* Measures the table.  Returns the least number of bytes that the last step will copy under the
 * lock. */
size_t ol_table_copy_measure(ol_table *source, ol_table *target, ol_table_copy *copy);

/* Returns how many bytes the last step would copy under the lock if it were made now. */
size_t ol_table_copy_left(const ol_table_copy *copy);

/* Allocates the memory of the copy.  If it fails with OL_NO_MEMORY, the caller need not cancel the
 * copy. */
int ol_table_copy_prepare(ol_table_copy *copy, ol_error *error) OL_NODISCARD;

/* Begins the copy.  Fails with OL_WOULD_BLOCK if another copy of the table is being made. */
int ol_table_copy_begin(ol_table_copy *copy, ol_error *error) OL_NODISCARD;

/* Copies at most 256 KiB.  Returns true if the caller must call it again.  Returns false if
 * ol_table_copy_finish is to copy the rest: little is left, or the table changes faster than it is
 * copied. */
bool ol_table_copy_step(ol_table_copy *copy);

/* Completes the copy.  Fails with OL_NO_MEMORY if the table has grown and there is no memory for
 * the copy to grow, too. */
int ol_table_copy_finish(ol_table_copy *copy, ol_error *error) OL_NODISCARD;

/* Ends a copy, whether or not it was finished.  A second call does nothing. */
void ol_table_copy_cancel(ol_table_copy *copy);

#endif
