/* history/state_at: earlier states of a partition, rebuilt from its log by the functions that a
 * load uses (docs/architecture.md §2.1).
 *
 * A past is the state of the records below a log offset, its `cut`; a transaction counts if its
 * marker is below the cut.  One walk makes several pasts.  A past holds only the positions that the
 * filter asks for.
 *
 * A past belongs to the caller: plain memory, no lock.  Calls that take a partition fail as
 * ol_timeline_walk does, or with OL_NO_MEMORY. */
#ifndef OL_HISTORY_STATE_AT_H
#define OL_HISTORY_STATE_AT_H

#include "history/timeline.h"

typedef struct ol_state_at {
    ol_state state;
    int64_t cut;
} ol_state_at;

/* Called before each tombstone is applied, whether it deletes a position or finds none.  `value` is
 * the value that the position had before, or NULL. */
typedef struct ol_state_at_tombstones {
    int (*report)(void *context, const ol_record *record, const ol_key *key,
                  const ol_position_value *value, const ol_timeline_facts *facts, ol_error *error);
    void *context;
} ol_state_at_tombstones;

/* Fills the states of pasts[0, count), whose cuts are set, in one walk.  The caller destroys all of
 * them (ol_state_destroy), also after a failure.  `tombstones` may be NULL; otherwise it receives
 * the tombstones below the cut of pasts[0]. */
int ol_state_at_make(ol_partition *partition, const ol_timeline_filter *filter, ol_state_at *pasts,
                     size_t count, const ol_state_at_tombstones *tombstones,
                     ol_timeline_facts *facts, ol_error *error) OL_NODISCARD;

/* Adds to `places` the ol_timeline_place of every position that has a tombstone below the log
 * offset `until` with a timestamp of at least `since_ms`. */
int ol_state_at_find_tombstones(ol_partition *partition, const ol_timeline_filter *filter,
                                int64_t until, int64_t since_ms, ol_int64_map *places,
                                ol_timeline_facts *facts, ol_error *error) OL_NODISCARD;

/* Receives each position that differs between two states.  `before` or `after` is NULL if that
 * state does not have the position. */
typedef struct ol_state_at_changes {
    int (*report)(void *context, const ol_table_row *before, const ol_table_row *after,
                  ol_error *error);
    void *context;
} ol_state_at_changes;

/* Returns whether two values are equal apart from their times of commit and expiry.  Topic ids are
 * compared only if both values have one. */
bool ol_state_at_is_same(const ol_position_value *a, const ol_position_value *b);

/* Reports every position that differs between the two states, in unspecified order.  A failure of
 * `changes` ends the call. */
int ol_state_at_compare(const ol_state *before, const ol_state *after,
                        const ol_state_at_changes *changes, ol_error *error) OL_NODISCARD;

#endif
