/* state/prefetch_window: positions that a load has decoded and not yet applied, so that the misses of the table overlap.
 *
 * Plain positions, nearly all of every log, are gathered as runs of rows of one (group, topic) and applied together, in the order of
 * the log: while one run is put, the slot, pair, chunk and cell of later ones are fetched.  Whatever is not a plain position is for the caller, who
 * applies the window first; so the order of the log is kept, and no pair is freed while a hint names it.
 *
 * Ownership: rows borrow from the bytes of their records until they are applied or taken back.  Locks: none, one thread.
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

/* How far a window was filled: what ol_prefetch_window_take_back returns to. */
typedef struct ol_load_mark {
    uint32_t row_count;
    uint32_t run_count;
    int32_t value_version_max;
} ol_load_mark;

typedef struct ol_prefetch_window {
    ol_state *state;
    ol_load_mark filled;
    ol_slice key_start;             /* of the last run: a key up to its partition; NULL where nothing is known of it */
    int16_t key_type;
    ol_load_run runs[OL_PREFETCH_WINDOW_ROWS];
    ol_position_row rows[OL_PREFETCH_WINDOW_ROWS];
} ol_prefetch_window;

void ol_prefetch_window_init(ol_prefetch_window *window, ol_state *state);

static inline uint32_t ol_prefetch_window_room(const ol_prefetch_window *window) {
    return OL_PREFETCH_WINDOW_ROWS - window->filled.row_count;
}

/* Takes a record whose value is a position.  Returns false, with nothing changed, for every other one: tombstones, other kinds, and what
 * cannot be decoded.  There must be room. */
bool ol_prefetch_window_add(ol_prefetch_window *window, const ol_record *record);

/* Forgets the rows that came since the mark. */
void ol_prefetch_window_take_back(ol_prefetch_window *window, ol_load_mark mark);

/* Applies all rows and empties the window.  OL_NO_MEMORY or OL_LIMIT: some were not applied, and the state is not that of the log. */
int ol_prefetch_window_apply(ol_prefetch_window *window, ol_error *error) OL_NODISCARD;

#endif
