/* history/state_diff: which keys differ between two states whose digests differ (docs/digest.md).
 *
 * A key is a committed position, a pending position of a producer, or a group record.  It differs
 * when the digest would count it differently: when only one state has it, or when its values
 * differ; `physical` compares log offsets, too, and the timestamps of group records.
 *
 * One call of ol_state_diff compares two states of the caller.  A live partition is compared with a
 * replay of its log while commits continue, in three steps:
 *
 *   1. ol_state_diff_live finds keys that may differ.  It locks the table for some hundred keys
 *      at a time; commits wait while it walks the pending values.
 *   2. ol_state_diff_read_live reads all of them again, under one lock, and returns the
 *      offset up to which the log was applied.
 *   3. The caller replays the log up to there; ol_state_diff_settle drops the keys that are
 *      the same in that state.
 *
 * The remaining keys differ, whatever was committed meanwhile, since both sides show the state at
 * one log offset.  A key that was written between steps 1 and 2 remains if it still differs.
 *
 * Time is linear in the size of the states.  A list of differences owns its bytes; the caller frees
 * it.  Calls with a live partition take its writer lock or its table lock; the caller holds
 * neither. */
#ifndef OL_HISTORY_STATE_DIFF_H
#define OL_HISTORY_STATE_DIFF_H

#include "table/digest.h"
#include "log/view.h"
#include "partition/partition.h"

/* A key in one state. */
typedef struct ol_compared {
    bool is_there;
    ol_position_value value;    /* a group record has log_offset and commit_timestamp only */
    size_t value_size;          /* bytes of a group record's value, */
    ol_hash128 value_hash;      /* and their XXH3-128 */
} ol_compared;

typedef struct ol_difference {
    unsigned kind;              /* OL_DIGEST_POSITION, OL_DIGEST_PENDING, OL_DIGEST_GROUP_RECORD */
    int64_t producer_id;        /* of a pending value, else -1 */
    ol_slice group;             /* of a group record: the part of its key that names the group */
    ol_slice topic;
    int32_t partition;
    ol_slice key;               /* of a group record */
    ol_compared left;
    ol_compared right;
    uint8_t *owned[3];          /* memory of the slices in the key, in left and in right */
} ol_difference;

/* Zero-initialise, then set `limit`: differences beyond it are only counted. */
typedef struct ol_differences {
    ol_difference *items;
    size_t count;
    size_t capacity;
    size_t limit;
    uint64_t left_out;
} ol_differences;

void ol_differences_free(ol_differences *differences);

/* Adds every key that differs, ordered by kind, producer and group, then by topic and partition or
 * by the key of a group record.  Fails with OL_NO_MEMORY. */
int ol_state_diff(const ol_state *left, const ol_state *right, bool physical, ol_differences *found,
                  ol_error *error) OL_NODISCARD;

/* Computes the digest of a live state, and sets *applied to the log offset up to which the log was
 * applied.  `view` may be NULL.  Otherwise *view is set to the log's segments as they are now,
 * which the caller replays up to *applied and closes; for a read-only log it is set to NULL.
 * Commits wait during the call; reads of the state do not.  Fails as ol_partition_lock_state and
 * ol_log_view_open do. */
int ol_state_diff_cut(ol_partition *live, bool physical, ol_digest *digest, int64_t *applied,
                      ol_log_view **view, ol_error *error) OL_NODISCARD;

/* Adds the keys that may differ between the live state (left) and `replayed` (right), the state of
 * the records below `cut`.  It skips keys whose record in the live state has a log offset of at
 * least `cut`: they were written later.  Fails as ol_partition_lock_state does, or with
 * OL_NO_MEMORY. */
int ol_state_diff_live(ol_partition *live, const ol_state *replayed, int64_t cut, bool physical,
                       ol_differences *found, ol_error *error) OL_NODISCARD;

/* Reads the left side of all keys again, under one lock.  Sets *applied and *view as
 * ol_state_diff_cut does, and fails as it does or with OL_NO_MEMORY. */
int ol_state_diff_read_live(ol_partition *live, ol_differences *differences, int64_t *applied,
                            ol_log_view **view, ol_error *error) OL_NODISCARD;

/* Reads the right side of all keys again, drops the keys that do not differ and those that are in
 * the list twice, and sorts the rest.  Fails with OL_NO_MEMORY. */
int ol_state_diff_settle(const ol_state *right, bool physical, ol_differences *differences,
                         ol_error *error) OL_NODISCARD;

#endif
