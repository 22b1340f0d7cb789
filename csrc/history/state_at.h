/* history/state_at: states that a partition had, made anew from its log by the one apply (docs/architecture.md §2.1).
 *
 * A past is the state of the records below a log offset, its `cut`; of transactions those count whose markers lie below it.  Several pasts
 * are made in one walk.  What a group or a set of places is asked for is in it, nothing else.
 *
 * A past that was made is the caller's alone: plain memory, no lock.
 */
#ifndef OL_HISTORY_STATE_AT_H
#define OL_HISTORY_STATE_AT_H

#include "history/timeline.h"

typedef struct ol_state_at {
    ol_state state;
    int64_t cut;
} ol_state_at;

/* A tombstone that took a position away, or found none: what it is told before it is applied.  `value` is NULL where nothing was committed. */
typedef struct ol_state_at_tombstones {
    int (*report)(void *context, const ol_record *record, const ol_key *key, const ol_position_value *value,
                  const ol_timeline_facts *facts, ol_error *error);
    void *context;
} ol_state_at_tombstones;

/* Fills the states of pasts[0, count), whose cuts are set, in one walk.  All of them are to be destroyed (ol_state_destroy), also after a failure.
 * `tombstones` may be NULL; it is told of those below the first past's cut. */
int ol_state_at_make(ol_partition *partition, const ol_timeline_filter *filter, ol_state_at *pasts, size_t count,
                 const ol_state_at_tombstones *tombstones, ol_timeline_facts *facts, ol_error *error) OL_NODISCARD;

/* Adds the place of every position that a tombstone of [0, until) deletes, of those written at or after a time. */
int ol_state_at_find_tombstones(ol_partition *partition, const ol_timeline_filter *filter, int64_t until, int64_t since_ms,
                            ol_int64_map *places, ol_timeline_facts *facts, ol_error *error) OL_NODISCARD;

/* A position in two states: in `before`, in `after`, or in both with another value.  Each is NULL where there is none. */
typedef struct ol_state_at_changes {
    int (*report)(void *context, const ol_table_row *before, const ol_table_row *after, ol_error *error);
    void *context;
} ol_state_at_changes;

/* Whether two values are the same position: the times of commit and expiry are not looked at, and topic ids only where both have one. */
bool ol_state_at_is_same(const ol_position_value *a, const ol_position_value *b);

/* Tells every position that is not the same in both, in unspecified order. */
int ol_state_at_compare(const ol_state *before, const ol_state *after, const ol_state_at_changes *changes, ol_error *error) OL_NODISCARD;

#endif
