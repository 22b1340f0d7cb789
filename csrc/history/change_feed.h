/* history/change_feed: the changes of the positions of a partition, in the order of its log.
 *
 * A feed reads the log from an offset up to W, the end of the committed part of the log
 * (docs/architecture.md §10).  A feed works at every replica that has the log, whatever the role of
 * the replica is.  The feed returns a plain value or a tombstone when it reaches the offset of its
 * record, and the values of a transaction when it reaches their COMMIT marker.  As in every load,
 * state/pending decides which values a marker installs (docs/format/loading.md §6.4).
 *
 * A feed leaves nothing out silently.  A *gap* is a range of log offsets whose changes are unknown.
 * Either the log does not have these offsets, because it was cleaned or begins above them, or the
 * batches or records at these offsets cannot be read.  A read reports a gap before it continues
 * after the gap.  If transactions are open at the offset at which a feed starts, some of their
 * values lie below that offset.  The feed then also reports the gaps between the beginning of the
 * oldest of these transactions and its start, because values may be missing there.
 *
 * Between two reads a feed holds only copies, so the partition may be cleaned, truncated and
 * closed.  After a truncation, ol_change_feed_is_current returns false, and the owner must start
 * the feed again.
 *
 * Ownership: the feed owns its memory; the caller owns the groups, which must outlive the feed, and
 * the partition.  Threads: one thread uses a feed, while commits, cleaning and other feeds
 * continue.  A feed holds no lock while it reads the disk.
 */
#ifndef OL_HISTORY_CHANGE_FEED_H
#define OL_HISTORY_CHANGE_FEED_H

#include "base/int64_map.h"
#include "columns/record_block.h"
#include "partition/partition.h"

/* A piece of the log whose changes cannot be reported. */
typedef struct ol_change_gap {
    int64_t from;
    int64_t below;              /* the offset after the gap; 0: there is no gap */
    /* true: the log has these offsets, but they cannot be read; false: the log does not have
     * them */
    bool is_damage;
} ol_change_gap;

typedef struct ol_change_feed {
    ol_partition *partition;    /* set by the owner before every read */
    int32_t log_partition;
    const ol_slice *groups;     /* group_count of them, NULL: all */
    size_t group_count;
    ol_int64_map group_numbers;
    /* The feed has returned every change that takes effect below this log offset. */
    int64_t offset;
    int32_t epoch;              /* leader epoch of the record before `offset`; -1: none */
    /* A gap that the owner already knows.  The feed does not report it again. */
    int64_t known_from;
    int64_t known_below;
    ol_change_gap gap;
    uint64_t cuts;  /* ol_log_cuts when the feed was started; a truncation changes it */
    int64_t scanned_from;       /* where the oldest transaction open at the feed's start began */
    ol_state state;  /* values of open transactions, and later changes of their positions */
    bool has_state;
    /* The COMMIT marker whose values the feed is returning, and the cursor into these values. */
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

/* Starts the feed at log offset `offset`.  `epoch` is the leader epoch of the record before that
 * offset.  If `known_below` is above `offset`, the owner already knows of a gap between these two
 * offsets, and the feed does not report it.  The call reads the log from the beginning of the
 * oldest transaction that was open at `offset`.  It fails with OL_IO, OL_NO_MEMORY, or
 * OL_OUT_OF_RANGE.  OL_OUT_OF_RANGE means that the log was truncated during the call and the feed
 * must be started again. */
int ol_change_feed_start(ol_change_feed *feed, int64_t offset, int32_t epoch, int64_t known_below,
                         ol_error *error) OL_NODISCARD;

/* Adds rows to `block`.  The call returns OL_OK when the block is full, or when the feed meets a
 * gap; feed->gap is then set, and the rows in the block come before the gap.  It returns OL_END
 * when the feed has reached W.
 *
 * A marker can have more rows than fit into the block.  If feed->is_installing is true after a
 * call, the block has only some of the rows of one marker, and feed->offset is not yet after that
 * marker.  The call that returns the last row of the marker ends with that row and returns OL_OK.
 *
 * The feed reports each gap once, and then treats the gap as known.  The owner can make the known
 * gap longer by raising feed->known_below.
 *
 * The call fails with OL_IO, OL_NO_MEMORY, OL_OUT_OF_RANGE or OL_LIMIT.  After a failure the block
 * may hold rows at or above feed->offset.  The owner drops the rows and starts the feed again at
 * the offset up to which it has processed the changes. */
int ol_change_feed_read(ol_change_feed *feed, ol_record_block *block,
                        ol_error *error) OL_NODISCARD;

/* Returns false if the log was truncated since the feed was started. */
bool ol_change_feed_is_current(const ol_change_feed *feed);

#endif
