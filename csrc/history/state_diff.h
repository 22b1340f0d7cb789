/* history/state_diff: which keys differ between two states whose digests differ (docs/digest.md).
 *
 * A key names a committed position, a pending position of a producer, or a group record.  A key
 * differs if only one of the states has it, or if its values in the two states differ in a field
 * that the digest includes.  If the argument `physical` is true, log offsets and the timestamps of
 * group records are compared, too.
 *
 * ol_state_diff compares two states that belong to the caller and do not change.  The comparison of
 * a live partition with a replay of its log, while commits continue, takes three steps:
 *
 *   1. ol_state_diff_live finds keys that may differ.  It locks the table for some hundred keys
 *      at a time.  Commits wait while it walks over the pending values.
 *   2. ol_state_diff_read_live reads all of these keys again, under one lock, and returns the
 *      offset up to which the log was applied.
 *   3. The caller replays the log up to that offset.  ol_state_diff_settle then drops the keys
 *      whose values in the replayed state equal those that step 2 read.
 *
 * The remaining keys are true differences, whatever was committed meanwhile, because the values on
 * both sides belong to the same log offset.
 *
 * A comparison takes time linear in the size of the states.  A list of differences owns its bytes,
 * and the caller frees the list.  The functions that take a live partition acquire its writer lock
 * or its table lock; the caller must hold neither. */
#ifndef OL_HISTORY_STATE_DIFF_H
#define OL_HISTORY_STATE_DIFF_H

#include "table/digest.h"
#include "log/view.h"
#include "partition/partition.h"

/* A key in one state. */
typedef struct ol_compared {
    bool is_there;
    ol_position_value value;    /* of a group record: log_offset and commit_timestamp only */
    size_t value_size;          /* size of the value of a group record, in bytes */
    ol_hash128 value_hash;      /* XXH3-128 of the value of a group record */
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
    /* the memory that the slices of the key, of `left` and of `right` point into */
    uint8_t *owned[3];
} ol_difference;

/* The caller zeroes the list and sets `limit`.  Once the list has `limit` differences, further ones
 * are only counted, in `left_out`. */
typedef struct ol_differences {
    ol_difference *items;
    size_t count;
    size_t capacity;
    size_t limit;
    uint64_t left_out;
} ol_differences;

void ol_differences_free(ol_differences *differences);

/* Adds every key that differs to the list.  The list is ordered by kind, producer and group.
 * Within a group, positions are ordered by topic and partition, and group records by their keys.
 * Fails with OL_NO_MEMORY. */
int ol_state_diff(const ol_state *left, const ol_state *right, bool physical, ol_differences *found,
                  ol_error *error) OL_NODISCARD;

/* Computes the digest of a live state, and sets *applied to the log offset up to which the log was
 * applied.  If `view` is not NULL, *view is set to a view of the log's present segments; the caller
 * replays it up to *applied and then closes it.  For a read-only log *view is set to NULL.  Commits
 * wait during the call; reads of the state do not.  Fails as ol_partition_lock_state and
 * ol_log_view_open do. */
int ol_state_diff_cut(ol_partition *live, bool physical, ol_digest *digest, int64_t *applied,
                      ol_log_view **view, ol_error *error) OL_NODISCARD;

/* Adds the keys that may differ between the live state (left) and `replayed` (right), the state of
 * the records below `cut`.  It skips keys whose record in the live state has a log offset of at
 * least `cut`, because these were written after the replay.  Fails as ol_partition_lock_state does,
 * or with OL_NO_MEMORY. */
int ol_state_diff_live(ol_partition *live, const ol_state *replayed, int64_t cut, bool physical,
                       ol_differences *found, ol_error *error) OL_NODISCARD;

/* Reads the values of all keys in the live state (left) again, under one lock.  Sets *applied and
 * *view as ol_state_diff_cut does.  Fails as ol_state_diff_cut does, or with OL_NO_MEMORY. */
int ol_state_diff_read_live(ol_partition *live, ol_differences *differences, int64_t *applied,
                            ol_log_view **view, ol_error *error) OL_NODISCARD;

/* Reads the values of all keys in the state `right` again, drops the keys that do not differ, drops
 * duplicates, and sorts the remaining keys.  Fails with OL_NO_MEMORY. */
int ol_state_diff_settle(const ol_state *right, bool physical, ol_differences *differences,
                         ol_error *error) OL_NODISCARD;

#endif
