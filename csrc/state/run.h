/* state/run: the state of a *run*, a part of a log that may begin anywhere, and how two runs are
 * joined.
 *
 * Several runs of one log can be applied in parallel and joined afterwards.  The result is the
 * state of the whole log.  A run remembers the values that it leaves, and also its effects on the
 * state before it.  These effects are the positions and group records that the run has removed, and
 * how the first transaction of each producer ended, because it may have begun before the run
 * (docs/format/loading.md §6.4).  When two runs are joined, the values and the removals of the
 * later run take precedence, because all of its records come after those of the earlier run.
 *
 * For ownership and locks, the rules of state/state apply.
 */
#ifndef OL_STATE_RUN_H
#define OL_STATE_RUN_H

#include "state/state.h"

/* Creates the state of a run.  It is like a state of ol_state_create, but it also remembers the
 * effects of the run on the state before it. */
int ol_run_create(ol_state *state, ol_error *error) OL_NODISCARD;
/* Called by state/state. */
void ol_run_effects_destroy(ol_run_effects *effects);       /* NULL is fine */
uint64_t ol_run_effects_memory_usage(const ol_run_effects *effects);
int ol_run_record_removed(ol_run_effects *effects, const ol_change *change, ol_error *error)
    OL_NODISCARD;
int ol_run_record_end(ol_run_effects *effects, int64_t producer_id, ol_control type,
                      ol_error *error) OL_NODISCARD;

/* Applies the run `later` to the state `earlier`.  `later` is the run that follows `earlier` in the
 * log, and it is not changed.  `earlier` is the state of another run, or a state that begins at the
 * start of the log.  If the call fails with OL_NO_MEMORY or OL_LIMIT, `earlier` no longer matches
 * the log. */
int ol_run_join(ol_state *earlier, const ol_state *later, ol_error *error) OL_NODISCARD;

#endif
