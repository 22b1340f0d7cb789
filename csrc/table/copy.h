/* table/copy: a copy of a table that its owner keeps changing.
 *
 * Cells are nine tenths of a table.  They are copied in steps of some tens of microseconds, between
 * which the table changes.  The table marks the pages of cells that change after their step
 * (ol_table_mark), and these are copied once more.  The last step copies the marked pages and
 * everything but the cells at once, so the copy is the table of that moment, byte for byte.
 *
 *     ol_table_copy_measure      under the lock that keeps the table from changing
 *     ol_table_copy_prepare      without the lock: allocates and touches the memory of the copy
 *     ol_table_copy_begin        under the lock
 *     ol_table_copy_step         under the lock, which is released between steps; true: continue
 *     ol_table_copy_finish       under the lock; or ol_table_copy_cancel, also after a failure
 *
 * Ownership: the target is an empty table of the caller.  If finish succeeds, the target is the
 * copy; otherwise it can only be destroyed.  The struct owns the marks.  The table must not be
 * destroyed between begin and the end.  Only one copy of a table is made at a time: begin refuses
 * another.
 */
#ifndef OL_TABLE_COPY_H
#define OL_TABLE_COPY_H

#include "table/dump.h"

typedef struct ol_table_copy {
    ol_table *source;
    ol_table *target;
    size_t sizes[OL_TABLE_SECTIONS];    /* of the source's arenas, when measured */
    uint64_t *marks;
    uint32_t page_count;                /* number of pages of cells when the table was measured */
    uint32_t copied_again;              /* number of marked pages that were copied again in steps */
    bool begun;
} ol_table_copy;

/* Returns how many bytes, at least, the last step will copy under the lock. */
size_t ol_table_copy_measure(ol_table *source, ol_table *target, ol_table_copy *copy);

/* Returns how many bytes the last step would copy under the lock now. */
size_t ol_table_copy_left(const ol_table_copy *copy);

/* Allocates the copy's memory.  OL_NO_MEMORY: there is nothing to cancel. */
int ol_table_copy_prepare(ol_table_copy *copy, ol_error *error) OL_NODISCARD;

/* Begins the copy.  OL_WOULD_BLOCK: another copy of the table is under way. */
int ol_table_copy_begin(ol_table_copy *copy, ol_error *error) OL_NODISCARD;

/* Copies at most 256 KiB; false: nothing is left that is worth another step. */
bool ol_table_copy_step(ol_table_copy *copy);

/* Completes the copy.  OL_NO_MEMORY: the table has grown, and the copy cannot grow with it. */
int ol_table_copy_finish(ol_table_copy *copy, ol_error *error) OL_NODISCARD;

/* Ends a copy, whether it was finished or not; a second call does nothing. */
void ol_table_copy_cancel(ol_table_copy *copy);

#endif
