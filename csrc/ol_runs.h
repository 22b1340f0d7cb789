/* ol_runs: runs of 1 to 16 neighbouring units of one size, allocated and freed without leaving holes that stay.
 *
 * Units lie in pages of 128 with a bitmap of the free ones, so that neighbouring holes join by themselves.  A page is kept in
 * the list of its longest free run: a run of n comes from the page whose longest hole fits it best.  All growth of a table
 * by single cells goes through here, whatever its order.
 */
#ifndef OL_RUNS_H
#define OL_RUNS_H

#include "ol_arena.h"

enum { OL_RUN_LENGTH_MAX = 16, OL_RUNS_PAGE_UNITS = 128 };

typedef struct ol_runs_page {
    uint64_t free[2];           /* bit i: unit i is free */
    uint32_t next;              /* page number + 1, 0 none */
    uint32_t previous;
} ol_runs_page;

_Static_assert(sizeof(ol_runs_page) == 24, "the account of memory in docs/table.md counts on it");

typedef struct ol_runs {
    ol_arena units;
    ol_arena pages;
    uint64_t free_units;
    uint32_t unit_size;
    uint32_t page_count;
    uint32_t page_count_max;
    uint32_t lists_used;                            /* bit n: list n is not empty */
    uint32_t lists[OL_RUN_LENGTH_MAX + 1];          /* by longest free run: page number + 1 */
} ol_runs;

/* `index_limit`: no unit gets an index at or above it. */
void ol_runs_init(ol_runs *runs, uint32_t unit_size, uint64_t index_limit);
void ol_runs_free_all(ol_runs *runs);

/* Index of the first of `length` units.  OL_NO_MEMORY or OL_LIMIT: nothing changed. */
int ol_runs_allocate(ol_runs *runs, unsigned length, uint32_t *index, ol_error *error) OL_NODISCARD;
void ol_runs_free(ol_runs *runs, uint32_t index, unsigned length);

/* Takes the unit behind (before) a run if it is free. */
bool ol_runs_extend_back(ol_runs *runs, uint32_t index, unsigned length);
bool ol_runs_extend_front(ol_runs *runs, uint32_t index);

uint64_t ol_runs_resident(const ol_runs *runs);

/* Asserts that lists and bitmaps agree.  Whether a unit is free, for the owner's own checks. */
void ol_runs_verify(const ol_runs *runs);
bool ol_runs_is_free(const ol_runs *runs, uint32_t index);

#endif
