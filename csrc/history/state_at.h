/* history/state_at: earlier states of a partition, rebuilt from its log by the functions that a
 * load uses (docs/architecture.md §2.1).
 *
 * A past (ol_state_at) is the state that results from the records below a log offset, its `cut`.  A
 * transaction counts if its marker is below the cut.  One walk over the log can make several pasts.
 * A past holds only the positions that the filter selects.
 *
 * The caller owns a past, which is plain memory without a lock.  Functions with a partition as an
 * argument fail as ol_timeline_walk does, or with OL_NO_MEMORY. */
#ifndef OL_HISTORY_STATE_AT_H
#define OL_HISTORY_STATE_AT_H

#include "history/timeline.h"

typedef struct ol_state_at {
    ol_state state;
    int64_t cut;
} ol_state_at;

/* `report` is called before each tombstone is applied, whether or not there is a position that the
 * tombstone deletes.  `value` is the value of the position before the tombstone, or NULL if there
 * is no position. */
typedef struct ol_state_at_tombstones {
    int (*report)(void *context, const ol_record *record, const ol_key *key,
                  const ol_position_value *value, const ol_timeline_facts *facts, ol_error *error);
    void *context;
} ol_state_at_tombstones;

/* Fills the states of pasts[0, count) in one walk.  The caller has set their cuts.  The caller
 * destroys all of the states with ol_state_destroy, also after a failure.  `tombstones` may be
 * NULL; otherwise its `report` is called for the tombstones below the cut of pasts[0]. */
int ol_state_at_make(ol_partition *partition, const ol_timeline_filter *filter, ol_state_at *pasts,
                     size_t count, const ol_state_at_tombstones *tombstones,
                     ol_timeline_facts *facts, ol_error *error) OL_NODISCARD;

/* Adds to `places` the ol_timeline_place of every position that has a tombstone below the log
 * offset `until` with a timestamp of at least `since_ms`. */
int ol_state_at_find_tombstones(ol_partition *partition, const ol_timeline_filter *filter,
                                int64_t until, int64_t since_ms, ol_int64_map *places,
                                ol_timeline_facts *facts, ol_error *error) OL_NODISCARD;

/* `report` is called for each position that differs between two states.  `before` or `after` is
 * NULL if that state does not have the position. */
typedef struct ol_state_at_changes {
    int (*report)(void *context, const ol_table_row *before, const ol_table_row *after,
                  ol_error *error);
    void *context;
} ol_state_at_changes;

/* Returns whether two values are equal apart from their times of commit and expiry.  Topic ids are
 * compared only if both values have one. */
bool ol_state_at_is_same(const ol_position_value *a, const ol_position_value *b);

/* Calls changes->report for every position that differs between the two states, in unspecified
 * order.  If `report` fails, the call ends and returns its status. */
int ol_state_at_compare(const ol_state *before, const ol_state *after,
                        const ol_state_at_changes *changes, ol_error *error) OL_NODISCARD;

#endif
