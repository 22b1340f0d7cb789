/* history/change_feed: the changes of the positions of a partition, in the order of its log.
 *
 * A feed reads the log from an offset up to W, the end of what is committed (docs/architecture.md
 * §10).  It works at any replica that has the log, whatever the replica's role.  It returns values
 * and tombstones at their own offsets, and the values of a transaction at the offset of its COMMIT
 * marker.  Which values a marker installs is decided by state/pending, as in every load
 * (docs/format/loading.md §6.4).
 *
 * Nothing is left out silently.  Log offsets that the log lacks (it was cleaned, or begins above
 * them), and batches and records that cannot be read, form a *gap*.  A read reports a gap before it
 * continues after it.  A feed that starts while transactions are open also reports the gaps between
 * the beginning of the oldest of these transactions and its start: values of these transactions may
 * be missing there.
 *
 * Between reads a feed holds only copies, so the partition may be cleaned, truncated and closed.
 * After a truncation (ol_change_feed_is_current returns false) the owner starts the feed again.
 *
 * Ownership: the feed owns its memory; the groups and the partition stay the caller's.  Threads:
 * one thread uses a feed; commits, cleaning and other feeds continue meanwhile.  No lock is held
 * while the disk is read.
 */
#ifndef OL_HISTORY_CHANGE_FEED_H
#define OL_HISTORY_CHANGE_FEED_H

#include "base/int64_map.h"
#include "columns/record_block.h"
#include "partition/partition.h"

/* A piece of the log whose changes cannot be reported. */
typedef struct ol_change_gap {
    int64_t from;
    int64_t below;              /* 0: there is no gap */
    /* the log has the offsets, but they cannot be read; false: the log lacks them */
    bool is_damage;
} ol_change_gap;

typedef struct ol_change_feed {
    ol_partition *partition;    /* set by the owner before every read */
    int32_t log_partition;
    const ol_slice *groups;     /* group_count of them, NULL: all */
    size_t group_count;
    ol_int64_map group_numbers;
    /* Every change that takes effect below this log offset was returned. */
    int64_t offset;
    int32_t epoch;              /* leader epoch of the record before `offset`; -1: none */
    /* A gap that the owner knows already, so that it is not reported again. */
    int64_t known_from;
    int64_t known_below;
    ol_change_gap gap;
    uint64_t cuts;  /* ol_log_cuts, which truncations change, when the feed was started */
    int64_t scanned_from;       /* where the oldest transaction that was open at the start began */
    ol_state state;  /* values of open transactions, and later changes of these positions */
    bool has_state;
    /* The COMMIT marker whose values are being returned, and the cursor into them. */
    bool is_installing;
    size_t installed;
    int64_t marker_producer_id;
    int64_t marker_offset;
    int64_t marker_timestamp;
    int32_t marker_epoch;
} ol_change_feed;

/* Prepares a feed of the given groups (NULL: all groups).  If it fails with OL_NO_MEMORY, there is
 * nothing to free. */
int ol_change_feed_create(ol_change_feed *feed, int32_t log_partition, const ol_slice *groups,
                          size_t group_count, ol_error *error) OL_NODISCARD;
void ol_change_feed_free(ol_change_feed *feed);     /* zeroed memory is fine */

/* Starts the feed at log offset `offset`; `epoch` is the leader epoch of the record before it.  The
 * owner already knows of a gap from `offset` to `known_below`.  Reads the log from where the oldest
 * transaction that was open at `offset` began.  Fails with OL_IO, OL_NO_MEMORY, or OL_OUT_OF_RANGE
 * if the log was truncated meanwhile; the feed must then be started again. */
int ol_change_feed_start(ol_change_feed *feed, int64_t offset, int32_t epoch, int64_t known_below,
                         ol_error *error) OL_NODISCARD;

/* Adds rows to `block` until it is full (OL_OK), a gap is met (OL_OK, feed->gap is set; the rows
 * come before it) or W, the end of what is committed, is reached (OL_END).  If feed->is_installing
 * is true afterwards, only a part of one marker's rows was returned, and feed->offset does not
 * cover them yet.  The read that returns the last of these rows ends after them (OL_OK).  A
 * reported gap counts as known; the owner may extend it by raising feed->known_below.
 *
 * After a failure (OL_IO, OL_NO_MEMORY, OL_OUT_OF_RANGE, OL_LIMIT) the block may hold rows that
 * feed->offset does not cover: the owner drops them and starts again at its last offset. */
int ol_change_feed_read(ol_change_feed *feed, ol_record_block *block,
                        ol_error *error) OL_NODISCARD;

/* Returns false if the log was truncated since the feed was started. */
bool ol_change_feed_is_current(const ol_change_feed *feed);

#endif
