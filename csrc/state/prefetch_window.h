/* state/prefetch_window: positions decoded and not yet applied, so that cache misses overlap.
 *
 * Plain positions, which are nearly all records of every log, are gathered as runs of rows of one
 * (group, topic) and applied together in log order.  While one run is put, the memory of the table
 * that later runs need is prefetched.  The caller applies every other record itself, after it has
 * applied the window.  So log order is kept, and the table does not free an entry that a run's hint
 * names.
 *
 * Ownership: rows borrow from the bytes of their records until they are applied or taken back.
 * Locks: none, one thread.
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

/* Takes a record whose value is a position.  Returns false, with nothing changed, for every other
 * one: tombstones, other kinds, and undecodable records.  The window must not be full. */
bool ol_prefetch_window_add(ol_prefetch_window *window, const ol_record *record);

/* Drops the rows added since the mark. */
void ol_prefetch_window_take_back(ol_prefetch_window *window, ol_prefetch_mark mark);

/* Applies all rows and empties the window.  After OL_NO_MEMORY or OL_LIMIT some rows were not
 * applied, and the state no longer matches the log. */
int ol_prefetch_window_apply(ol_prefetch_window *window, ol_error *error) OL_NODISCARD;

#endif
