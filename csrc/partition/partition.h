/* partition/partition: one partition of the offsets log: its log on disk and its state in memory
 * (docs/architecture.md §2, §4, §7).
 *
 * Watermark.  W is the high watermark: records below it count.  A lone partition has W == log end:
 * apply follows append under the writer lock.  In a replicated partition the host moves W
 * (ol_partition_advance), and the records in [W, log end) are in flight: written, visible to
 * conditions through the overlay (state/in_flight.h), invisible to reads.  Only the code that moves
 * W applies, strictly in log order.  Always: written (log end) >= flushed, written >= W >= applied.
 *
 * Locks.  The writer lock serialises everything that appends, applies or changes the role.  The
 * table lock keeps readers of the state out while a batch is applied.  partition/partition_impl.h
 * gives their order and all other locks.  Every change of an active partition's state is made under
 * both of these locks, so the holder of either may read the state.  A call takes the locks that it
 * needs itself, unless its comment says otherwise.  No call takes or needs Python's GIL, and none
 * holds a lock while it waits for W or for the flush of a commit.  Work on files may flush under
 * the writer lock: a truncation, a new epoch, and a roll after OL_UNFLUSHED_MAX others that no
 * flush has covered.
 *
 * Memory.  The caller that opens a partition owns it and closes or abandons it.  Slices and rows
 * that are passed in are borrowed until the call returns.
 *
 * Failure.  A call that fails returns nothing to free, and has changed nothing unless its comment
 * says otherwise.  A failure after which the log or the state is unknown (of a flush, a truncation,
 * an apply) makes the partition OL_FAILED: it refuses reads and writes until it is closed and
 * opened again.
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
    OL_ROLE_LOADING,            /* plain commits are appended; reads fail with OL_LOADING */
    OL_ROLE_ACTIVE,
    OL_ROLE_FOLLOWER,  /* applies below W; reads and commits fail with OL_NOT_COORDINATOR */
    OL_ROLE_FAILED,
} ol_role;

/* When an offset with a topic id is written as a value of version 4, which keeps the id. */
typedef enum ol_value_v4 {
    OL_VALUE_V4_AUTO,  /* if the log already has a value of version 4 */
    OL_VALUE_V4_ALWAYS,
    OL_VALUE_V4_NEVER,
} ol_value_v4;

#define OL_BATCH_BYTES_MAX_DEFAULT ((size_t)16 << 20)

/* `log.directory` must outlive the partition. */
typedef struct ol_partition_options {
    ol_log_options log;
    /* a larger commit is split by group; at most segment_bytes; more than eleven twelfths of
     * segment_bytes are not used (ol_log_batch_bytes_max) */
    size_t batch_bytes_max;
    bool replicated;            /* the host moves W */
    bool refuse_while_loading;  /* commits, too, fail with OL_LOADING until the partition is
                                   active */
    int64_t watermark;          /* replicated: where W begins, as the checkpoint of high watermarks
                                   says; -1 unknown */
    uint64_t term;              /* the first term: above those of an earlier open, since callers may
                                   still wait for its commits */
    int32_t leader_epoch;  /* epoch of the batches written; -1: newest in the log + 1 (lone only) */
    bool goes_on_from_snapshot; /* the partition will be loaded from its snapshot, if that can be
                                   used: the log below it need not be read (log/settled.c) */
    ol_value_v4 value_v4;
    int64_t (*clock_ms)(void *context);     /* the wall clock; NULL: the system's; tests set it */
    int64_t (*steady_ms)(void *context);    /* the steady clock that clock_ms is checked against
                                               (ol_batch_clock); NULL: the system's, but if
                                               clock_ms is given, it is not checked */
    void *clock_context;
} ol_partition_options;

void ol_partition_options_init(ol_partition_options *options);

/* Opens the log (ol_log_open); the state is empty until ol_partition_load.  Copies `options`, but
 * not the fs, decompressor and clock that they point to: these must outlive the partition. */
int ol_partition_open(const ol_partition_options *options, ol_partition **partition,
                      ol_log_recovery *recovery, ol_error *error) OL_NODISCARD;

/* Closes cleanly (ol_log_close), or only frees when the partition failed or is read-only.  The
 * partition is freed in any case; no other call may run or follow. */
int ol_partition_close(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Frees without writing: in a forked child, or after a failure. */
void ol_partition_abandon(ol_partition *partition);

ol_role ol_partition_role(const ol_partition *partition);
ol_log *ol_partition_log(ol_partition *partition);
bool ol_partition_is_read_only(const ol_partition *partition);

/* -------------------------------------------------------------------------------------- loading */

/* The findings of an open and a load.  None of them ends the load; damage and proven loss make the
 * partition read-only (docs/architecture.md §2.4, §5; docs/verify.md). */
typedef enum ol_problem_kind {
    OL_PROBLEM_DAMAGE,          /* bytes that cannot be read; the log offsets in them are lost */
    OL_PROBLEM_LOSS,            /* acknowledged batches that are not there */
    OL_PROBLEM_DOUBT,           /* no witness proves that these batches exist; commits continue */
} ol_problem_kind;

typedef struct ol_problem {
    ol_error error;             /* path, position, log offset, reason */
    int64_t from;               /* the first log offset concerned; -1: unknown */
    int64_t below;  /* the offset after the last one; unknown: INT64_MAX, for damage also -1 */
    ol_problem_kind kind;
} ol_problem;

/* Progress of a load, readable at any time (each field by itself). */
typedef struct ol_load_progress {
    int64_t bytes;              /* read so far */
    int64_t bytes_total;  /* bytes to be read: all of the log, or its part after the snapshot */
    int64_t batches;
    int64_t records;
    int64_t problems;  /* all problems that were found; OL_PROBLEMS_KEPT of them are kept */
    int64_t aborted_own;  /* how many of the store's own open transactions the load closed with
                             ABORT */
    int64_t snapshot_offset;    /* offset of the load's snapshot, after which bytes are counted; -1:
                                   none */
} ol_load_progress;
#define OL_PROBLEMS_KEPT 64

/* Replays the log into the state, up to the log end, even if that moves meanwhile, and makes the
 * partition active (lone), or a follower (replicated: up to W).  Checks every CRC.  A bad batch
 * below the flushed bound, or a record that Kafka would refuse, is kept as a problem and skipped,
 * and makes the partition read-only.  Commits may be appended meanwhile.  Fails with OL_INVALID if
 * the partition is loaded or loading already, or has failed.  After any other failure, such as
 * OL_NO_MEMORY or OL_IO, the partition is OL_FAILED. */
int ol_partition_load(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Loads as ol_partition_load does, but starts from the state of a snapshot that was read from a
 * file and checked (partition/snapshot_take.h).  The call takes over the snapshot in any case.
 * Signs that something may be missing at or above the snapshot's offset are a gap, a batch that was
 * cleaned, and no batch up to the log end.  At the first such sign, or if the snapshot is above W,
 * the call drops that state and loads everything from the log (ol_partition_snapshot_discarded). */
int ol_partition_load_from(ol_partition *partition, ol_snapshot *snapshot,
                           ol_error *error) OL_NODISCARD;
void ol_partition_progress(const ol_partition *partition, ol_load_progress *progress);
/* Returns whether the load dropped the snapshot that it began with (snapshot/snapshot.h), and
 * why. */
bool ol_partition_snapshot_discarded(const ol_partition *partition, ol_error *why);
bool ol_partition_problem_at(const ol_partition *partition, size_t index, ol_problem *problem);

/* ----------------------------------------------------------------------------------- committing */

typedef enum ol_item_kind {
    OL_ITEM_POSITION,           /* commit value at (group, topic, partition) */
    OL_ITEM_POSITION_TOMBSTONE, /* written only where a committed or pending value exists */
    OL_ITEM_GROUP_RECORD,       /* a raw key of `group`; value.data == NULL: a tombstone */
    OL_ITEM_GENERATION,         /* writes nothing: all is refused unless the latest written record
                                   of `group` has the generation `expected`; -1: unless the group
                                   has no members */
} ol_item_kind;

typedef enum ol_condition {
    OL_CONDITION_NONE,
    OL_CONDITION_EQUALS,        /* the latest written offset is `expected` */
    OL_CONDITION_ABSENT,        /* there is none */
    OL_CONDITION_MONOTONIC,     /* no offset was written, or it is <= the new one */
} ol_condition;

/* One item to write.  Slices borrow; they must stay until the call returns. */
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
    int64_t base_offset;        /* log offset of the first record; -1: none was written (nothing to
                                   delete) */
    int64_t end_offset;         /* log offset after the last record: durable once flushed up to
                                   here, replicated once W is here */
    int64_t timestamp;          /* ms, of the batch */
    size_t written;  /* records written; tombstones that found nothing to delete are not counted */
    bool found;                 /* OL_CONDITION, OL_REWIND: whether an offset was committed;
                                   OL_GENERATION: whether the group has a record */
    int64_t found_offset;       /* OL_GENERATION: its generation */
    int64_t rests_on;           /* after a refusal that depends on records in flight: the W at which
                                   it is final; else -1 */
    uint64_t term;  /* the term in which it was written, or refused: for ol_partition_wait */
} ol_commit_result;

/* Means the term at the time of the call: for a wait that does not belong to a commit. */
#define OL_TERM_NOW UINT64_MAX

/* Writes all items or none (docs/architecture.md §2.3, §4), in their order, in one batch.  Items
 * that do not fit one batch are sorted by group and written as batches of whole groups, each atomic
 * by itself.  A group that does not fit one batch is written as a transaction of the store's own.
 * If tombstones or group records are among items that do not fit one batch, the call is refused
 * with OL_TOO_LARGE.  Space for everything is allocated first.  If writing fails nevertheless
 * (OL_IO, or OL_DISK_FULL of a roll within a commit that is larger than a segment), the groups
 * before the failure are written, each whole.
 *
 * `producer_id` >= 0 writes transactional batches, as many as needed; the caller ends the
 * transaction, for which space is kept (ol_log_reserve_transactional). -1 writes plain ones.  The
 * caller has checked the items against the limits of the API (string sizes are asserted).  On
 * refusal error->item is the index of the item, and result->found and found_offset give the
 * committed value.
 *
 * Fails with OL_CONDITION, OL_REWIND, OL_GENERATION, OL_LOADING, OL_NOT_COORDINATOR, OL_READ_ONLY,
 * OL_FAILED, OL_FENCED, OL_TOO_LARGE, OL_DISK_FULL, OL_NO_MEMORY, OL_IO.
 */
int ol_partition_commit(ol_partition *partition, const ol_item *items, size_t count,
                        int64_t producer_id, int16_t producer_epoch, ol_commit_result *result,
                        ol_error *error) OL_NODISCARD;

/* A run of rows of one (group, topic); it ends where the next run begins. */
typedef struct ol_row_run {
    ol_slice group;
    ol_slice topic;
    size_t first_row;
} ol_row_run;

/* Does what ol_partition_commit does, for positions in columns: one item for each row, without
 * conditions and topic ids, plain or in a transaction (`producer_id` >= 0).  Fills in the log
 * offsets, and the commit timestamps that are -1; the caller must not use the rows afterwards.
 * Consecutive runs of one group point to the same bytes of its name.  At least one run, and one row
 * in each. */
int ol_partition_commit_rows(ol_partition *partition, const ol_row_run *runs, size_t run_count,
                             ol_position_row *rows, size_t row_count, int64_t producer_id,
                             int16_t producer_epoch, ol_commit_result *result,
                             ol_error *error) OL_NODISCARD;

/* Does what ol_partition_commit does, but never waits.  OL_WOULD_BLOCK, with nothing changed: a
 * lock is held elsewhere, the pages were not faulted in ahead, the batch is above 4 KiB, or the
 * partition is not ready for a commit (loading, read-only).  The binding calls it while it holds
 * the GIL. */
int ol_partition_try_commit(ol_partition *partition, const ol_item *items, size_t count,
                            ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Deletes a group in one batch: tombstones for every committed or pending position and for its
 * group records.  result->written == 0: there was nothing.  `only_empty`: OL_GENERATION when the
 * group has members. */
int ol_partition_delete_group(ol_partition *partition, ol_slice group, bool only_empty,
                              ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Ends the generation of a group (docs/format/records.md §3.4): writes, in one batch, a record of
 * the next generation without members, and the items, which are positions of the group.  Members of
 * the former generation are refused from then on.  Sets *generation to the new one.  Fails as
 * ol_partition_commit does, with OL_INVALID for a group of the consumer protocol, or with OL_LIMIT
 * at the greatest generation. */
int ol_partition_fence(ol_partition *partition, ol_slice group, const ol_item *items, size_t count,
                       int32_t *generation, ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Ends a transaction with a marker.  OL_TRANSACTION: the log has no open transaction of this
 * producer.  OL_FENCED: the epoch is older than the producer's.  OL_DISK_FULL: no space is kept for
 * the marker; the call can be repeated.  producer_epoch -1: the one in the log. */
int ol_partition_end_transaction(ol_partition *partition, int64_t producer_id,
                                 int16_t producer_epoch, ol_control type, int32_t coordinator_epoch,
                                 ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Checks a producer that begins a transaction.  OL_TRANSACTION when the producer id is negative, is
 * in the range that offsetlog reserves for itself, or has an open transaction; OL_FENCED when the
 * epoch is older than known. */
int ol_partition_check_producer(ol_partition *partition, int64_t producer_id,
                                int16_t producer_epoch, ol_error *error) OL_NODISCARD;

/* Closes the active segment of the log (ol_log_roll_active), so that it can be cleaned although no
 * commit fills it.  Refuses as a commit would; a replica that does not lead may roll, too, loaded
 * or not. */
int ol_partition_roll(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Returns the open transaction at `index`, counted from 0 by first offset; false after the last.
 * Waits for the writer lock. */
bool ol_partition_transaction_at(ol_partition *partition, size_t index,
                                 ol_log_transaction *transaction);

/* -------------------------------------------------------------------------------------- waiting */

typedef enum ol_wait_for { OL_WAIT_FLUSHED, OL_WAIT_WATERMARK } ol_wait_for;

/* Waits until everything below `end_offset` is below W, or is flushed.  If no other thread flushes,
 * the call flushes itself; one flush serves all threads that wait.  `term` is that of the commit.
 * If leadership ended or the log was truncated since the commit, even before the call, the result
 * is OL_NOT_COORDINATOR, because other records may now be below `end_offset`.  The term of a lone
 * store never changes.  timeout_ms < 0: no limit.
 *
 * Fails with OL_FAILED, OL_NOT_COORDINATOR, OL_TIMED_OUT; with OL_NO_MEMORY, OL_IO, OL_DISK_FULL,
 * OL_READ_ONLY if the flush could not begin; the next call then tries again.  After a failure the
 * records stay in the log, and below W they count. */
int ol_partition_wait(ol_partition *partition, int64_t end_offset, uint64_t term, ol_wait_for what,
                      int64_t timeout_ms, ol_error *error) OL_NODISCARD;

/* Like ol_partition_wait, but never waits nor flushes, and takes no lock: OL_WOULD_BLOCK if
 * ol_partition_wait would wait. */
int ol_partition_try_wait(const ol_partition *partition, int64_t end_offset, uint64_t term,
                          ol_wait_for what, ol_error *error) OL_NODISCARD;

/* Returns whether ol_partition_wait for OL_WAIT_FLUSHED would return OL_OK at once; takes no
 * lock. */
bool ol_partition_is_flushed(const ol_partition *partition, int64_t end_offset, uint64_t term);

/* Returns whether a caller that commits while it collects flushed commits should begin the next
 * flush now; `end_offset` is the end of the last commit that it collected.  True under three
 * conditions: no flush runs or is queued; at least as many offsets wait for a flush as are flushed
 * and not yet collected; and the last flush took less than twice the time that has passed since its
 * end.  Takes no lock. */
bool ol_partition_is_behind(const ol_partition *partition, int64_t end_offset);

/* -------------------------------------------------------------------------------------- reading */

/* Readers briefly hold the table lock while they read the state.  lock_state checks the role; when
 * it returns OL_LOADING, OL_NOT_COORDINATOR or OL_FAILED, the state is not locked.  The variant
 * try_ returns OL_WOULD_BLOCK instead of waiting. */
int ol_partition_lock_state(ol_partition *partition, const ol_state **state,
                            ol_error *error) OL_NODISCARD;
int ol_partition_try_lock_state(ol_partition *partition, const ol_state **state,
                                ol_error *error) OL_NODISCARD;
void ol_partition_unlock_state(ol_partition *partition);
/* Like lock_state, for maintenance of the log, which answers no clients: it also locks the state of
 * a follower.  OL_LOADING if nothing is loaded, or for a leader that is not active yet. */
int ol_partition_lock_applied(ol_partition *partition, const ol_state **state,
                              ol_error *error) OL_NODISCARD;

typedef struct ol_positions {
    int64_t written;            /* log end */
    int64_t watermark;
    int64_t applied;
    int64_t flushed;
} ol_positions;
void ol_partition_positions(ol_partition *partition, ol_positions *positions);
/* Returns the present term.  A caller that reads the term before the log offsets, and then waits
 * for these, is refused if they may belong to other records by then. */
uint64_t ol_partition_term(const ol_partition *partition);

/* Returns the bytes of scratch memory that commits left allocated for the next one. */
size_t ol_partition_scratch_bytes(ol_partition *partition);

/* -------------------------------------------------------- replication (docs/architecture.md §7)
 *
 * Every call carries the leader epoch in which its caller believes the partition to be.
 * OL_FENCED_LEADER_EPOCH: that epoch is older than the newest one known, or this replica leads in
 * it and is asked to follow.  OL_UNKNOWN_LEADER_EPOCH: that epoch is newer; the caller repeats the
 * call when the partition knows it.  Neither failure changes anything.  The newest epoch known is
 * the one that the host gave last, or the newest in the log. */

/* Starts leadership at an epoch.  Fails with OL_FENCED_LEADER_EPOCH unless the epoch is above the
 * newest one known, or this replica leads in it already.  The partition stays loading until it is
 * loaded, W has reached the present log end, and own transactions that an earlier leader left open
 * are closed with ABORT.  Then it is active.  A partition that a load finds damaged does not become
 * active, because its answers would lack what cannot be read.  The partition need not be loaded
 * yet: plain commits are appended from now on, and the load applies them.  `alone`: there is no
 * other replica, W follows the log end by itself, and commits are applied as in a lone store.
 *
 * A refusal changes nothing: OL_FENCED_LEADER_EPOCH, OL_READ_ONLY, OL_INVALID, OL_FAILED.  An
 * election that fails ends the leadership before it, and the replica follows in the epoch that it
 * knew, as after ol_partition_become_follower; the call can be repeated.  It fails with OL_CORRUPT
 * or OL_IO if a record in [W, log end) cannot be read, and with OL_IO or OL_DISK_FULL if the list
 * of epochs cannot be written. */
int ol_partition_become_leader(ol_partition *partition, int32_t leader_epoch, bool alone,
                               ol_error *error) OL_NODISCARD;
/* Makes the replica a follower in `leader_epoch`, which must not be below the newest epoch known; a
 * leader that resigns passes its own epoch.  Commits that wait get OL_NOT_COORDINATOR.  The state
 * stays, because it holds only records below W. */
int ol_partition_become_follower(ol_partition *partition, int32_t leader_epoch,
                                 ol_error *error) OL_NODISCARD;
/* Drops a follower's state, to free memory; the log and W stay.  ol_partition_load loads the state
 * again.  OL_LOADING during a load. */
int ol_partition_unload(ol_partition *partition, int32_t leader_epoch,
                        ol_error *error) OL_NODISCARD;
/* Appends what a follower fetched: whole batches, with their offsets (ol_log_append), whether the
 * partition is loaded or not.  OL_CORRUPT also for a batch of a later epoch than the leader's. */
int ol_partition_append(ol_partition *partition, int32_t leader_epoch, const uint8_t *data,
                        size_t size, ol_error *error) OL_NODISCARD;
/* Moves W to min(offset, log end), never back, applies the records below it and wakes the threads
 * that wait for it; during a load, the load applies them.  A record that Kafka would refuse is kept
 * as a problem and skipped, as by a load, and makes the partition read-only.  If a leader is due to
 * become active but cannot write its ABORTs, the call fails with the reason, such as OL_DISK_FULL;
 * if the leader is damaged, with OL_READ_ONLY.  The leader then stays loading, and the next call
 * tries again. */
int ol_partition_advance(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                         ol_error *error) OL_NODISCARD;
/* Truncates a follower's log to `offset`.  If `offset` is below W or below what is applied, the
 * state is dropped, and the caller calls ol_partition_load again.  OL_LOADING during a load. */
int ol_partition_truncate(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                          ol_error *error) OL_NODISCARD;
/* Drops the log of a follower that ends below the start of its leader's log, and begins it again at
 * `offset`; the caller calls ol_partition_load again.  After OL_DISK_FULL and OL_NO_MEMORY the log
 * may be empty at its former start: the call can be repeated. */
int ol_partition_restart_at(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                            ol_error *error) OL_NODISCARD;

typedef enum ol_read_up_to {
    OL_READ_WRITTEN,            /* followers */
    OL_READ_WATERMARK,          /* consumers */
} ol_read_up_to;
/* Like ol_log_read, for followers and consumers of the partition, in any role; leader_epoch -1: any
 * epoch.  The bytes are of the log as it was in that epoch. */
int ol_partition_read(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                      ol_read_up_to up_to, uint8_t *buffer, size_t capacity, size_t *size,
                      ol_error *error) OL_NODISCARD;
/* Like ol_log_file_range, for the same callers as ol_partition_read.  The log may be truncated
 * while the range is sent. */
int ol_partition_file_range(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                            ol_read_up_to up_to, size_t size_max, ol_file_range *range,
                            ol_error *error) OL_NODISCARD;

/* Computes the digest of everything applied, whatever the role, and sets *applied: everything below
 * this log offset was applied.  OL_LOADING if nothing is loaded. */
int ol_partition_digest(ol_partition *partition, bool physical, ol_digest *digest,
                        int64_t *applied, ol_error *error) OL_NODISCARD;

typedef struct ol_leadership {
    int32_t epoch;              /* the newest known, -1 none */
    bool leads;
    bool alone;
    uint64_t term;
    int64_t elected_end;        /* of a leader: log end at its election */
} ol_leadership;
void ol_partition_leadership(ol_partition *partition, ol_leadership *leadership);

/* ----------------------------------------------------------------------------- for the rooms above
 *
 * The cleaner, retention and history read and write a partition through these calls, so that they
 * need not know its struct. */

/* Returns the options of ol_partition_open.  They do not change while the partition is open, so no
 * lock is needed. */
const ol_partition_options *ol_partition_get_options(const ol_partition *partition);

/* The parts of a partition that only the holder of the writer lock changes.  Borrowed: valid until
 * the lock is released. */
typedef struct ol_partition_view {
    const ol_state *state;          /* the applied state; not to be read during ol_partition_load,
                                       which writes it without a lock */
    const ol_in_flight *in_flight;  /* the records in [W, log end), once
                                       ol_partition_complete_overlay was called */
    int64_t watermark;
} ol_partition_view;

/* Takes the writer lock; hold it only briefly, because commits wait for it.  The state in *view,
 * when no load runs, may be read without the table lock. */
void ol_partition_lock_writer(ol_partition *partition, ol_partition_view *view);
void ol_partition_unlock_writer(ol_partition *partition);

/* Keeps loads from beginning while the caller replaces segments of the log.  Otherwise a load could
 * read a value in an old segment and continue in a new one from which the value's tombstone was
 * removed.  OL_LOADING: a load runs, and nothing is held.  Takes the writer lock briefly. */
int ol_partition_hold_loads(ol_partition *partition, ol_error *error) OL_NODISCARD;
void ol_partition_release_loads(ol_partition *partition);

/* Under the writer lock: returns OL_OK when the role allows commits; `needs_state`: for a commit
 * that depends on the present state. */
int ol_partition_check_writable(const ol_partition *partition, bool needs_state, ol_error *error)
    OL_NODISCARD;

/* Under the writer lock: records in the view's in_flight what was written since the last such call.
 * Fails with OL_NO_MEMORY, OL_CORRUPT or OL_IO. */
int ol_partition_complete_overlay(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Under the writer lock: does what ol_partition_commit does, for a caller that has decided under
 * the same hold what to write. */
int ol_partition_commit_locked(ol_partition *partition, const ol_item *items, size_t count,
                               int64_t producer_id, int16_t producer_epoch,
                               ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Makes the partition OL_FAILED: every later call is refused, and every waiting one returns
 * OL_FAILED. */
void ol_partition_fail(ol_partition *partition);

/* Returns the greatest timestamp of a batch that was loaded or written.  If a clock shows an
 * earlier time, it is wrong now, or was wrong when that batch was written. 0 if there is no batch.
 * Takes the writer lock. */
int64_t ol_partition_newest_timestamp(ol_partition *partition);

#endif
