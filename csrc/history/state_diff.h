/* history/state_diff: which keys differ between two states, where their digests say that some do (docs/digest.md).
 *
 * A key is a committed position, a pending position of a producer, or a group record.  It differs when the digest would count it differently: when it is in
 * one state only, or with other values; `physical` looks at log offsets too, and at the timestamps of group records.
 *
 * Two states of the caller's are compared at once.  A live partition is compared with a replay of its log while commits go on, in steps:
 *
 *   1. ol_partition_compare finds keys that may differ.  The table is locked for some hundred keys at a time; commits wait while
 *      what is pending is walked.
 *   2. ol_partition_read_differences reads what all of them are now, under one lock, and tells up to where the log was applied.
 *   3. The caller replays the log up to there; ol_state_settle_differences drops the keys that are the same in that state.
 *
 * What is left differs, whatever was committed meanwhile, since both sides are of one log offset.  A key that was written to between 1 and 2 is
 * told if it still differs.
 *
 * Time is linear in the size of the states; a list of differences owns its bytes. */
#ifndef OL_HISTORY_STATE_DIFF_H
#define OL_HISTORY_STATE_DIFF_H

#include "table/digest.h"
#include "log/view.h"
#include "partition/partition.h"

/* What one state says of a key. */
typedef struct ol_compared {
    bool is_there;
    ol_position_value value;    /* positions; of a group record only log_offset, and its timestamp as commit_timestamp */
    size_t value_size;          /* of a group record's value: bytes, */
    ol_hash128 value_hash;      /* and their XXH3-128 */
} ol_compared;

typedef struct ol_difference {
    unsigned kind;              /* OL_DIGEST_POSITION, OL_DIGEST_PENDING, OL_DIGEST_GROUP_RECORD */
    int64_t producer_id;        /* of what is pending, else -1 */
    ol_slice group;             /* of positions; of a group record the part of its key that names it */
    ol_slice topic;
    int32_t partition;
    ol_slice key;               /* of a group record */
    ol_compared left;
    ol_compared right;
    uint8_t *owned[3];          /* what the slices of the key, of left and of right lie in */
} ol_difference;

/* Zero-initialise, then set `limit`: what is found above it is only counted. */
typedef struct ol_differences {
    ol_difference *items;
    size_t count;
    size_t capacity;
    size_t limit;
    uint64_t left_out;
} ol_differences;

void ol_differences_free(ol_differences *differences);

/* Adds every key that differs; ordered by kind, producer, group, topic and partition, or key.  OL_NO_MEMORY. */
int ol_state_diff(const ol_state *left, const ol_state *right, bool physical, ol_differences *found, ol_error *error) OL_NODISCARD;

/* The digest of a live state and the log offset below which everything is in it.  Where `view` is not NULL it gets the log's segments of that moment, to be
 * replayed up to there and then closed; NULL for a log that is read-only.  Commits wait meanwhile, reads of the state do not.  Fails as
 * ol_partition_lock_state and ol_log_view_open. */
int ol_partition_cut(ol_partition *live, bool physical, ol_digest *digest, int64_t *applied, ol_log_view **view, ol_error *error)
    OL_NODISCARD;

/* Adds the keys that may differ between the live state, left, and `replayed`, right, a state of the records below `cut`; those that the live state has at
 * or above `cut` are passed over, since they were written to since.  Fails as ol_partition_lock_state, or with OL_NO_MEMORY. */
int ol_partition_compare(ol_partition *live, const ol_state *replayed, int64_t cut, bool physical, ol_differences *found,
                         ol_error *error) OL_NODISCARD;

/* Reads the left side of all keys anew, of one moment; *applied and `view` as above. */
int ol_partition_read_differences(ol_partition *live, ol_differences *differences, int64_t *applied, ol_log_view **view,
                                  ol_error *error) OL_NODISCARD;

/* Reads the right side of all keys anew, drops the keys that do not differ, and those that are in the list twice, and orders the rest. */
int ol_state_settle_differences(const ol_state *right, bool physical, ol_differences *differences, ol_error *error) OL_NODISCARD;

#endif
