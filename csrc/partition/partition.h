/* partition/partition: one partition of the offsets log: its log on disk and its state in memory, joined (docs/architecture.md §2, docs/architecture.md §4, docs/architecture.md §7).
 *
 * Watermark.  W is the offset below which records count.  A lone partition has W == log end: apply follows append under the
 * writer lock.  A replicated one has W moved from outside (ol_partition_advance); what lies in [W, log end) is in flight: written,
 * visible to conditions through the overlay, invisible to reads.  Only the code that moves W applies, strictly in log order.
 * Always: written (log end) >= flushed, written >= W >= applied.
 *
 * Locks.  `writer` serialises everything that appends, applies or changes role; `table` keeps readers of the state out while a
 * batch is applied.  Order: writer, then table.  Every change of the state is made under both, so the holder of either may read it.
 * No call here takes or needs Python's GIL; no lock is held while waiting for the disk or for W.
 *
 * Failure.  A call that fails has changed nothing, unless the partition becomes OL_FAILED (a failed flush, memory while applying): then it
 * refuses reads and writes until it is closed and opened anew.
 */
#ifndef OL_PARTITION_PARTITION_H
#define OL_PARTITION_PARTITION_H

#include "log/log.h"
#include "state/in_flight.h"
#include "state/own_transactions.h"
#include "state/state.h"

typedef struct ol_partition ol_partition;
typedef struct ol_snapshot ol_snapshot;

typedef enum ol_role {
    OL_ROLE_UNLOADED,           /* opened, nothing applied */
    OL_ROLE_LOADING,            /* a load runs; plain commits are appended, reads answer OL_LOADING */
    OL_ROLE_ACTIVE,
    OL_ROLE_FOLLOWER,           /* applies what it is fed, below W; refuses reads and commits with OL_NOT_COORDINATOR */
    OL_ROLE_FAILED,
} ol_role;

#define OL_BATCH_BYTES_MAX_DEFAULT ((size_t)16 << 20)

typedef struct ol_partition_options {
    ol_log_options log;
    size_t batch_bytes_max;     /* a commit above it becomes a transaction; at most segment_bytes */
    bool replicated;            /* W is moved from outside */
    int32_t leader_epoch;       /* of our appends; -1: newest in the log + 1 at the first append (lone only) */
    bool write_value_v4;        /* value v4 where a topic id is given; else only when the log already holds v4 */
    int64_t (*clock_ms)(void *context);     /* NULL: the system's; tests */
    void *clock_context;
} ol_partition_options;

void ol_partition_options_init(ol_partition_options *options);

/* Opens the log (ol_log_open); the state is empty until ol_partition_load.  Copies `options`; what they point to (fs, decompressor, clock) must outlive the partition. */
int ol_partition_open(const ol_partition_options *options, ol_partition **partition, ol_log_recovery *recovery, ol_error *error)
    OL_NODISCARD;

/* Closes cleanly (ol_log_close), or only frees when the partition failed or is read-only.  No other call may run or follow. */
int ol_partition_close(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Frees without writing: in a forked child, or after a failure. */
void ol_partition_abandon(ol_partition *partition);

ol_role ol_partition_role(const ol_partition *partition);
ol_log *ol_partition_log(ol_partition *partition);
bool ol_partition_is_read_only(const ol_partition *partition);

/* ------------------------------------------------------------------------------------------------ loading */

/* A thing found while loading that does not end the load but makes the partition read-only (docs/architecture.md §2.4, docs/architecture.md §4). */
typedef struct ol_problem {
    ol_error error;             /* path, position, log offset, reason */
    int64_t bytes;              /* size of what was passed over, -1 unknown */
} ol_problem;

/* What loading knows, readable at any time (each field by itself). */
typedef struct ol_load_progress {
    int64_t bytes;              /* read so far */
    int64_t bytes_total;        /* of the log when the load began */
    int64_t batches;
    int64_t records;
    int64_t problems;           /* all that were found; the first OL_PROBLEMS_KEPT are kept */
    int64_t aborted_own;        /* open transactions of ours that the end of the load closed with ABORT */
    int64_t snapshot_offset;    /* of the snapshot that it goes on from, -1 none; bytes are of what stands behind it */
} ol_load_progress;
#define OL_PROBLEMS_KEPT 64

/* Replays the log into the state, to the moving end, and makes the partition active (lone), or the follower of what it read (replicated: up to W).
 * Every CRC is checked.  A bad batch below the flushed bound, or a record that Kafka would refuse, is kept as a problem, passed over, and makes the partition
 * read-only.  Commits may be appended meanwhile.  Fails with OL_NO_MEMORY or OL_IO: the partition is then OL_FAILED. */
int ol_partition_load(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* ol_partition_load, from the state of a snapshot on that came from a file and was checked (partition/snapshot_take.h); the snapshot is used up in any
 * case.  The first sign at or above S that something may be missing (a gap, a batch that was cleaned, no batch up to the log end) drops the state, and
 * everything is loaded from the log: see ol_partition_snapshot_discarded. */
int ol_partition_load_from(ol_partition *partition, ol_snapshot *snapshot, ol_error *error) OL_NODISCARD;
void ol_partition_progress(const ol_partition *partition, ol_load_progress *progress);
/* Whether the load dropped the snapshot that it began with (snapshot/snapshot.h), and why. */
bool ol_partition_snapshot_discarded(const ol_partition *partition, ol_error *why);
bool ol_partition_problem_at(const ol_partition *partition, size_t index, ol_problem *problem);

/* ------------------------------------------------------------------------------------------------ committing */

typedef enum ol_item_kind {
    OL_ITEM_POSITION,           /* commit value at (group, topic, partition) */
    OL_ITEM_POSITION_TOMBSTONE, /* delete it; written only where a committed or pending value exists */
    OL_ITEM_GROUP_RECORD,       /* a raw key with a value, or with value.data == NULL a tombstone; `group` must be the key's */
} ol_item_kind;

typedef enum ol_condition {
    OL_CONDITION_NONE,
    OL_CONDITION_EQUALS,        /* the latest written offset is `expected` */
    OL_CONDITION_ABSENT,        /* there is none */
    OL_CONDITION_MONOTONIC,     /* there is none, or it is <= the new one */
} ol_condition;

/* One thing to be written.  Slices borrow; they must stay until the call returns. */
typedef struct ol_item {
    ol_slice group;
    ol_slice topic;
    int32_t partition;
    uint8_t kind;               /* ol_item_kind */
    uint8_t condition;          /* ol_condition */
    int64_t expected;
    int64_t offset;
    int64_t commit_timestamp;   /* -1: the batch's time */
    int64_t expire_timestamp;   /* -1 none */
    int32_t leader_epoch;       /* -1 none */
    ol_slice metadata;
    const uint8_t *topic_id;    /* 16 bytes or NULL */
    ol_slice key;               /* OL_ITEM_GROUP_RECORD */
    ol_slice value;
} ol_item;

typedef struct ol_commit_result {
    int64_t base_offset;        /* log offset of the first record written; -1: nothing was (deletes of what is not there) */
    int64_t end_offset;         /* what must be flushed, or be below W, for all of it to be durable, or replicated */
    int64_t timestamp;          /* ms, of the batch */
    size_t written;             /* records; items - written tombstones found nothing to delete */
    bool found;                 /* a refusal (OL_CONDITION, OL_REWIND): whether there was a committed offset, and which */
    int64_t found_offset;
    int64_t rests_on;           /* a refusal (OL_CONDITION, OL_REWIND) that rests on an in-flight value: wait for this W before answering; -1 else */
    uint64_t term;              /* in which it was written, or refused: what ol_partition_wait is given */
} ol_commit_result;

/* The term that runs when the call begins: for who waits for what is there, not for a commit. */
#define OL_TERM_NOW UINT64_MAX

/* Writes all items or none (docs/architecture.md §4).  One batch; where they do not fit one batch, groups are kept whole: batches of whole groups, each atomic by
 * itself, and a group that does not fit one batch as a transaction of ours.  Deletes that do not fit one batch are OL_TOO_LARGE.
 * Space is made sure of first; where writing fails all the same in between (OL_IO, or OL_DISK_FULL of an index or a snapshot at a roll), the
 * groups before that are there, each whole.
 * `producer_id` >= 0 writes transactional batches (the caller ends the transaction); -1 plain ones.
 * Items were checked by the caller against the limits of the API (string sizes are asserted).  On refusal error->item is the item's index and
 * result->found/found_offset what was there.
 * Fails with OL_CONDITION, OL_REWIND, OL_LOADING, OL_NOT_COORDINATOR, OL_READ_ONLY, OL_FAILED, OL_FENCED, OL_TOO_LARGE, OL_DISK_FULL, OL_NO_MEMORY, OL_IO. */
int ol_partition_commit(ol_partition *partition, const ol_item *items, size_t count, int64_t producer_id, int16_t producer_epoch,
                        ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* A run of rows of one (group, topic), which end where the next run's begin. */
typedef struct ol_row_run {
    ol_slice group;
    ol_slice topic;
    size_t first_row;
} ol_row_run;

/* Plain positions in columns: as ol_partition_commit of an item for each row, without conditions and topic ids.  A commit timestamp of -1 is filled
 * in, and log offsets are: the rows are the caller's, who gives them up.  Runs that follow each other with the same group hold the same bytes,
 * not a copy.  At least one run, and one row in each. */
int ol_partition_commit_rows(ol_partition *partition, const ol_row_run *runs, size_t run_count, ol_position_row *rows, size_t row_count,
                             ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* ol_partition_commit when nothing has to be waited for: OL_WOULD_BLOCK, with nothing changed, when a lock is taken, the pages were not touched ahead, or the batch is above
 * 4 KiB.  What the binding calls while it holds the GIL. */
int ol_partition_try_commit(ol_partition *partition, const ol_item *items, size_t count, ol_commit_result *result,
                            ol_error *error) OL_NODISCARD;

/* Deletes everything of a group in one batch: tombstones for every committed or pending position and for its group records.
 * result->written == 0: there was nothing. */
int ol_partition_delete_group(ol_partition *partition, ol_slice group, ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Ends a transaction with a marker.  OL_TRANSACTION when the log knows no open one of this producer; OL_FENCED when the epoch is older than the
 * producer's.  producer_epoch -1: the one the log knows. */
int ol_partition_end_transaction(ol_partition *partition, int64_t producer_id, int16_t producer_epoch, ol_control type,
                                 int32_t coordinator_epoch, ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* OL_TRANSACTION when the producer id is of our own range or has an open transaction; OL_FENCED when the epoch is older than known. */
int ol_partition_check_producer(ol_partition *partition, int64_t producer_id, int16_t producer_epoch, ol_error *error) OL_NODISCARD;

/* Closes the active segment of the log (ol_log_roll_active), so that it can be cleaned although nobody fills it.  Takes the writer lock; refuses as a
 * commit would. */
int ol_partition_roll(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Open transactions by their first offset, index from 0; false behind the last.  Waits for a writer under way. */
bool ol_partition_transaction_at(ol_partition *partition, size_t index, ol_log_transaction *transaction);

/* ------------------------------------------------------------------------------------------------ waiting */

typedef enum ol_wait_for { OL_WAIT_FLUSHED, OL_WAIT_WATERMARK } ol_wait_for;

/* Waits until everything below `end_offset` is flushed (flushing itself when nobody does: one fdatasync serves all who wait) or below W.
 * `term` is that of the commit: leadership that ended or a truncation since, also before the call, is OL_NOT_COORDINATOR, since other records may
 * stand below `end_offset` by then.  The term of a lone store never changes.
 * timeout_ms < 0: no limit.  OL_FAILED, OL_NOT_COORDINATOR, OL_TIMED_OUT. */
int ol_partition_wait(ol_partition *partition, int64_t end_offset, uint64_t term, ol_wait_for what, int64_t timeout_ms,
                      ol_error *error) OL_NODISCARD;

/* Whether ol_partition_wait for OL_WAIT_FLUSHED would return OL_OK at once; takes no lock. */
bool ol_partition_is_flushed(const ol_partition *partition, int64_t end_offset, uint64_t term);

/* For who goes on committing while collecting what is flushed, and has come to `end_offset`: whether it is time to begin the next flush, since none
 * runs, as much waits for it as is left to collect, and flushing is faster than committing.  Takes no lock. */
bool ol_partition_is_behind(const ol_partition *partition, int64_t end_offset);

/* ------------------------------------------------------------------------------------------------ reading */

/* Readers hold the table lock around reads of the state and let it go soon.  lock_state checks the role: OL_LOADING, OL_NOT_COORDINATOR,
 * OL_FAILED leave it unlocked.  try_ returns OL_WOULD_BLOCK instead of waiting. */
int ol_partition_lock_state(ol_partition *partition, const ol_state **state, ol_error *error) OL_NODISCARD;
int ol_partition_try_lock_state(ol_partition *partition, const ol_state **state, ol_error *error) OL_NODISCARD;
void ol_partition_unlock_state(ol_partition *partition);

typedef struct ol_positions {
    int64_t written;            /* log end */
    int64_t watermark;
    int64_t applied;
    int64_t flushed;
} ol_positions;
void ol_partition_positions(ol_partition *partition, ol_positions *positions);

/* Bytes of scratch that commits left allocated for the next one.  Takes the writer lock. */
size_t ol_partition_scratch_bytes(ol_partition *partition);

/* ------------------------------------------------------------------------------------------------ replication (docs/architecture.md §7) */

/* Starts leadership at an epoch: OL_FENCED unless it is above the current one.  [W, log end) is scanned into the overlay; active when W has reached the log
 * end of this moment and the transactions of ours that an earlier leader left open are closed with ABORT, loading until then.  On failure leadership is as it
 * was before. */
int ol_partition_become_leader(ol_partition *partition, int32_t leader_epoch, ol_error *error) OL_NODISCARD;
/* Who waits is told OL_NOT_COORDINATOR; the state stays: it holds only what is below W. */
int ol_partition_become_follower(ol_partition *partition, int32_t leader_epoch, ol_error *error) OL_NODISCARD;
/* A follower's fetch: whole batches, offsets kept (ol_log_append). */
int ol_partition_append(ol_partition *partition, const uint8_t *data, size_t size, ol_error *error) OL_NODISCARD;
/* W moves to min(offset, log end), never back; what is below it is applied and who waits for it is woken.  A record that Kafka would refuse is kept as a
 * problem and passed over, as by a load, and makes the partition read-only.  A leader that is due to become active and cannot write its ABORTs is told why
 * (OL_DISK_FULL, say); it stays loading, and the next call tries again. */
int ol_partition_advance(ol_partition *partition, int64_t offset, ol_error *error) OL_NODISCARD;
/* Cuts the log at `offset`; below W or applied the state is dropped and loaded anew (the caller calls ol_partition_load). */
int ol_partition_truncate(ol_partition *partition, int64_t offset, ol_error *error) OL_NODISCARD;

/* ------------------------------------------------------------------------------------------------ for the rooms above
 *
 * The cleaner, retention and history read and write a partition through these calls, so that they need not know its struct. */

/* The options of ol_partition_open.  They do not change while the partition is open, so no lock is needed. */
const ol_partition_options *ol_partition_get_options(const ol_partition *partition);

/* The parts of a partition that only the holder of the writer lock changes.  Borrowed: valid until the lock is released. */
typedef struct ol_partition_view {
    const ol_state *state;          /* the applied state, whatever the role is */
    const ol_in_flight *in_flight;  /* the records in [W, log end) */
    int64_t watermark;
} ol_partition_view;

/* Takes the writer lock, for a moment: commits wait for it.  The state in *view may be read without the table lock. */
void ol_partition_lock_writer(ol_partition *partition, ol_partition_view *view);
void ol_partition_unlock_writer(ol_partition *partition);

/* Under the writer lock.  OL_OK when the role allows commits; `needs_state`: a commit that depends on the present state. */
int ol_partition_check_writable(const ol_partition *partition, bool needs_state, ol_error *error) OL_NODISCARD;

/* Under the writer lock: ol_partition_commit for a caller that has decided under the same hold what to write. */
int ol_partition_commit_locked(ol_partition *partition, const ol_item *items, size_t count, int64_t producer_id,
                               int16_t producer_epoch, ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Makes the partition OL_FAILED: every later call is refused, and every waiting one is woken with that. */
void ol_partition_fail(ol_partition *partition);

/* The timestamp of the newest batch that was loaded or written.  A clock that shows an earlier time is wrong.  -1 or 0 where
 * there is no batch.  Takes the writer lock. */
int64_t ol_partition_newest_timestamp(ol_partition *partition);

#endif
