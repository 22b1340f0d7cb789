/* table/run_allocator: allocates runs of neighbouring units.  All units have the same size.  Holes
 * that free runs leave can be used again.
 *
 * Units belong to pages of 128 units.  Each page has a bitmap of its free units, so that
 * neighbouring holes become one hole by themselves.  The pages are in lists by the length of their
 * longest free run.  A run of n units comes from a page whose longest free run is at least n, and
 * as short as possible.
 *
 * All runs of an allocator are either unaligned or aligned.  Unaligned runs have 1 to 32 units and
 * begin at any unit of a page.  Aligned runs have 1, 2 or 4 units and begin at a multiple of their
 * length.  If runs are aligned, a unit can be unusable only because it is next to a live run of
 * fewer than 4 units.  The loss therefore depends only on the live runs, not on what was allocated
 * and freed before.  Cells are allocated in aligned runs, because they are nearly all of the memory
 * of a table.
 *
 * Ownership: the allocator owns the units.  The functions take no lock.  A call that fails changes
 * nothing. */
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
    /* bit n is set if there is a page whose longest free run has n units */
    uint64_t lists_used;
    /* for each length of the longest free run: the number of the first page plus 1, or 0 if there
     * is none */
    uint32_t lists[OL_RUN_LENGTH_MAX + 1];
} ol_run_allocator;

/* Initialises an allocator.  The indices of all its units are below `index_limit`. */
void ol_run_allocator_init(ol_run_allocator *run_allocator, uint32_t unit_size,
                           uint64_t index_limit, bool aligned);
void ol_run_allocator_free_all(ol_run_allocator *run_allocator);

/* Allocates `length` units and sets *index to the index of the first.  Fails with OL_NO_MEMORY or
 * OL_LIMIT. */
int ol_run_allocator_allocate(ol_run_allocator *run_allocator, unsigned length, uint32_t *index,
                              ol_error *error) OL_NODISCARD;
void ol_run_allocator_free(ol_run_allocator *run_allocator, uint32_t index, unsigned length);

uint64_t ol_run_allocator_resident(const ol_run_allocator *run_allocator);

/* ol_run_allocator_verify asserts that the lists and the bitmaps agree.  ol_run_allocator_is_free
 * returns whether a unit is free, for checks that the owner makes. */
void ol_run_allocator_verify(const ol_run_allocator *run_allocator);
bool ol_run_allocator_is_free(const ol_run_allocator *run_allocator, uint32_t index);

/* Validation of runs that came from a file (table/validate/ownership.h).  ol_run_allocator_validate
 * checks the pages and the lists.  ol_run_allocator_validate_taken checks that each unit is either
 * free or taken by exactly one user. */
int ol_run_allocator_validate(const ol_run_allocator *run_allocator, ol_error *error) OL_NODISCARD;
bool ol_run_allocator_validate_taken(const ol_run_allocator *run_allocator,
                                     const ol_ownership_bits *taken);

#endif
