/* state/prefetch_window: positions that were decoded but not yet applied, so that the cache misses
 * of applying them overlap.
 *
 * Nearly all records of every log are plain positions.  The window gathers them as runs of rows
 * with the same group and topic, and applies the runs together in log order.  While it applies one
 * run, it prefetches the memory of the table that later runs need.  The caller applies the window
 * before it applies any other record.  The order of the log is therefore kept, and no pair is freed
 * while a run has a hint that names the pair (table/table.h).
 *
 * Ownership: the rows point into the bytes of their records until they are applied or dropped.  The
 * window takes no locks; one thread uses it.
 */
#ifndef OL_STATE_PREFETCH_WINDOW_H
#define OL_STATE_PREFETCH_WINDOW_H

#include "state/state.h"

enum { OL_PREFETCH_WINDOW_ROWS = 1024 };

typedef struct ol_load_run {
    ol_pair_name name;
    uint32_t first_row;
    uint32_t hint;
} ol_load_run;

/* A fill level, for ol_prefetch_window_take_back. */
typedef struct ol_prefetch_mark {
    uint32_t row_count;
    uint32_t run_count;
    int32_t value_version_max;
} ol_prefetch_mark;

typedef struct ol_prefetch_window {
    ol_state *state;
    ol_prefetch_mark filled;
    /* of the last run: the bytes of a key before its partition; NULL: unknown */
    ol_slice key_start;
    int16_t key_type;
    ol_load_run runs[OL_PREFETCH_WINDOW_ROWS];
    ol_position_row rows[OL_PREFETCH_WINDOW_ROWS];
} ol_prefetch_window;

void ol_prefetch_window_init(ol_prefetch_window *window, ol_state *state);

static inline uint32_t ol_prefetch_window_room(const ol_prefetch_window *window) {
    return OL_PREFETCH_WINDOW_ROWS - window->filled.row_count;
}

/* Adds to the window a record whose value is a position.  Returns false and changes nothing if the
 * record is a tombstone, is of another kind, or cannot be decoded.  The window must not be full. */
bool ol_prefetch_window_add(ol_prefetch_window *window, const ol_record *record);

/* Drops the rows that were added since the mark. */
void ol_prefetch_window_take_back(ol_prefetch_window *window, ol_prefetch_mark mark);

/* Applies all rows and empties the window.  If it fails with OL_NO_MEMORY or OL_LIMIT, some rows
 * were not applied, and the state no longer matches the log. */
int ol_prefetch_window_apply(ol_prefetch_window *window, ol_error *error) OL_NODISCARD;

#endif
