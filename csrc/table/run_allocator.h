/* table/run_allocator: allocates runs of neighbouring units of one size, without lasting holes.
 *
 * Units are in pages of 128, each with a bitmap of its free units, so neighbouring holes join by
 * themselves.  A page is listed by its longest free run; a run of n comes from the page whose
 * longest free run fits it best.
 *
 * The runs of an allocator are of one of two kinds.  Free runs have 1 to 32 units and begin
 * anywhere in a page.  Aligned runs have 1, 2 or 4 units and begin at a multiple of their length.
 * Units are left over only beside a live run smaller than 4, so the loss is bounded by the live
 * runs, whatever was allocated and freed before.  Cells are aligned, because they are nearly all of
 * a table's memory.
 *
 * Ownership: the allocator owns the units.  Locks: none.  Calls that fail change nothing.
 */
#ifndef OL_TABLE_RUN_ALLOCATOR_H
#define OL_TABLE_RUN_ALLOCATOR_H

#include "base/arena.h"
#include "table/validate/ownership.h"

enum { OL_RUN_LENGTH_MAX = 32, OL_RUN_ALIGNED_MAX = 4, OL_RUN_ALLOCATOR_PAGE_UNITS = 128 };

typedef struct ol_run_allocator_page {
    uint64_t free[2];           /* bit i: unit i is free */
    uint32_t next;              /* page number + 1; 0: none */
    uint32_t previous;
} ol_run_allocator_page;

_Static_assert(sizeof(ol_run_allocator_page) == 24,
               "the account of memory in docs/table.md counts on it");

typedef struct ol_run_allocator {
    ol_arena units;
    ol_arena pages;
    uint64_t free_units;
    uint32_t unit_size;
    uint32_t page_count;
    uint32_t page_count_max;
    bool aligned;
    uint64_t lists_used;                            /* bit n: list n is not empty */
    uint32_t lists[OL_RUN_LENGTH_MAX + 1];          /* first page by longest free run: page number +
                                                       1; 0: none */
} ol_run_allocator;

/* No unit gets an index at or above `index_limit`. */
void ol_run_allocator_init(ol_run_allocator *run_allocator, uint32_t unit_size,
                           uint64_t index_limit, bool aligned);
void ol_run_allocator_free_all(ol_run_allocator *run_allocator);

/* Sets the index of the first of `length` units.  Fails with OL_NO_MEMORY or OL_LIMIT. */
int ol_run_allocator_allocate(ol_run_allocator *run_allocator, unsigned length, uint32_t *index,
                              ol_error *error) OL_NODISCARD;
void ol_run_allocator_free(ol_run_allocator *run_allocator, uint32_t index, unsigned length);

uint64_t ol_run_allocator_resident(const ol_run_allocator *run_allocator);

/* The first function asserts that lists and bitmaps agree.  The second returns whether a unit is
 * free, for the owner's own checks. */
void ol_run_allocator_verify(const ol_run_allocator *run_allocator);
bool ol_run_allocator_is_free(const ol_run_allocator *run_allocator, uint32_t index);

/* Validate runs that came from a file (table/validate/ownership.h): the first function checks pages
 * and lists, the second that each unit is either free or taken by exactly one user. */
int ol_run_allocator_validate(const ol_run_allocator *run_allocator, ol_error *error) OL_NODISCARD;
bool ol_run_allocator_validate_taken(const ol_run_allocator *run_allocator,
                                     const ol_ownership_bits *taken);

#endif
