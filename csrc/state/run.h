/* state/run: the state of a *run*, a part of a log that may begin anywhere, and how two runs are
 * joined.
 *
 * Runs of one log can be applied side by side and joined afterwards: the result is the state of the
 * whole.  Besides the values that it leaves, a run remembers its effects on the state before it:
 * the positions and group records that it removed, and the end of each producer's first
 * transaction, which may have begun earlier (docs/format/loading.md §6.4).  Every record of the
 * later run comes after every record of the earlier one, so whatever the later run has or removed
 * wins.
 *
 * Ownership and locks as state/state.
 */
#ifndef OL_STATE_RUN_H
#define OL_STATE_RUN_H

#include "state/state.h"

/* Like ol_state_create, but the state remembers its effects. */
int ol_run_create(ol_state *state, ol_error *error) OL_NODISCARD;
/* Called by state/state. */
void ol_run_effects_destroy(ol_run_effects *effects);       /* NULL is fine */
uint64_t ol_run_effects_memory_usage(const ol_run_effects *effects);
int ol_run_record_removed(ol_run_effects *effects, const ol_change *change, ol_error *error)
    OL_NODISCARD;
int ol_run_record_end(ol_run_effects *effects, int64_t producer_id, ol_control type,
                      ol_error *error) OL_NODISCARD;

/* Applies `later`, the run that follows `earlier`, to `earlier`.  `earlier` is a run as well, or
 * begins with the log; `later` stays as it is.  After OL_NO_MEMORY or OL_LIMIT `earlier` no longer
 * matches the log. */
int ol_run_join(ol_state *earlier, const ol_state *later, ol_error *error) OL_NODISCARD;

#endif
