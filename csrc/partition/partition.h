/* partition/partition: one partition of the offsets log: its log on disk and its state in memory
 * (docs/architecture.md §2, §4, §7).
 *
 * Watermark.  W is the high watermark.  Reads see only records below W, and of these not the
 * records of transactions that are still open.  In a partition without replicas, W is the log end,
 * because each record is applied right after it was appended, under the same hold of the writer
 * lock.  In a replicated partition, the host (the broker or the server that owns the replica) moves
 * W with ol_partition_advance.  The records in [W, log end) are then in flight: they have been
 * written, conditions of commits take them into account (state/in_flight.h), but reads do not see
 * them.  Only the code that moves W applies records to the state, strictly in log order.  At all
 * times, written (the log end) >= flushed, and written >= W >= applied.
 *
 * Locks.  The writer lock serialises everything that appends, applies or changes the role.  The
 * table lock keeps readers away from the state while a batch is applied.  The header
 * partition/partition_impl.h describes the other locks, and the order in which all of them are
 * taken.  Every change to the state of an active partition is made under both the writer lock and
 * the table lock, so a thread that holds one of them may read the state.  A call takes the locks
 * that it needs itself, unless its comment says otherwise.  No call takes or needs Python's GIL.
 *
 * Waiting.  No call holds a lock while it waits for W or for the flush of a commit.  Three kinds of
 * work on files may flush under the writer lock: a truncation, the start of an epoch, and a roll
 * when OL_UNFLUSHED_MAX rolled segments have not been flushed.
 *
 * Memory.  The caller that opens a partition owns it, and must close or abandon it.  Slices and
 * rows that are passed to a call must stay valid until it returns.
 *
 * Failure.  A call that fails returns nothing that must be freed.  It has changed nothing, unless
 * its comment says otherwise.  After some failures (of a flush, a truncation or an apply) the log
 * or the state is unknown.  The partition is then OL_FAILED: it refuses reads and writes until it
 * is closed and opened again. */
#ifndef OL_PARTITION_PARTITION_H
#define OL_PARTITION_PARTITION_H

#include "log/log.h"
#include "state/in_flight.h"
#include "state/own_transactions.h"
#include "state/state.h"

typedef struct ol_partition ol_partition;
typedef struct ol_snapshot ol_snapshot;

typedef enum ol_role {
    OL_ROLE_UNLOADED,           /* the partition was opened, and nothing has been applied */
    OL_ROLE_LOADING,            /* Commits without conditions are appended.  Reads fail with
                                   OL_LOADING. */
    OL_ROLE_ACTIVE,             /* Reads and commits are possible. */
    /* Records below W are applied.  Reads and commits fail with OL_NOT_COORDINATOR. */
    OL_ROLE_FOLLOWER,
    /* Reads and commits fail with OL_FAILED until the partition is opened again. */
    OL_ROLE_FAILED,
} ol_role;

/* Whether an offset with a topic id is written as a value of version 4, which keeps the id. */
typedef enum ol_value_v4 {
    OL_VALUE_V4_AUTO,  /* only if the log already has a value of version 4 */
    OL_VALUE_V4_ALWAYS,
    OL_VALUE_V4_NEVER,  /* the topic id is dropped */
} ol_value_v4;

#define OL_BATCH_BYTES_MAX_DEFAULT ((size_t)16 << 20)

/* `log.directory` must outlive the partition. */
typedef struct ol_partition_options {
    ol_log_options log;
    /* The greatest size of a batch, at most segment_bytes.  A larger commit is split by group.  A
     * value above 11/12 of segment_bytes has the effect of that limit (ol_log_batch_bytes_max). */
    size_t batch_bytes_max;
    bool replicated;            /* the host moves W */
    bool refuse_while_loading;  /* Until the partition is active, commits fail with OL_LOADING, as
                                   reads do. */
    int64_t watermark;          /* Replicated only: W at the open, from the checkpoint of high
                                   watermarks; -1: unknown. */
    /* The term with which the partition begins.  A term changes when leadership ends or the log is
     * truncated (ol_partition_wait).  This one must be above all terms of earlier opens of the
     * partition, because callers may still wait for commits of those terms. */
    uint64_t term;
    int32_t leader_epoch;  /* The leader epoch of the batches that are written. -1: one more than
                              the newest epoch in the log.  A replicated partition gets its epoch
                              from ol_partition_become_leader. */
    /* The partition will be loaded from its snapshot if the snapshot can be used.  The open then
     * need not read the log below the snapshot (log/settled.c). */
    bool goes_on_from_snapshot;
    ol_value_v4 value_v4;
    int64_t (*clock_ms)(void *context);     /* the wall clock, which tests replace; NULL: the clock
                                               of the system */
    /* The steady clock with which the wall clock is compared (partition/batch_clock.h).  NULL: the
     * clock of the system; but if clock_ms is given, the wall clock is not compared. */
    int64_t (*steady_ms)(void *context);
    void *clock_context;
} ol_partition_options;

void ol_partition_options_init(ol_partition_options *options);

/* Opens the log of a partition (ol_log_open).  The state is empty until ol_partition_load.
 * `options` is copied, but the file system, the decompressor and the clocks in it are not; they
 * must outlive the partition. */
int ol_partition_open(const ol_partition_options *options, ol_partition **partition,
                      ol_log_recovery *recovery, ol_error *error) OL_NODISCARD;

/* Closes the log cleanly (ol_log_close).  If the partition has failed or is read-only, only frees
 * it.  The partition is freed even if the call fails.  No other call may run at the same time or
 * follow. */
int ol_partition_close(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Frees the partition without writing anything.  Used in a forked child, or after a failure. */
void ol_partition_abandon(ol_partition *partition);

ol_role ol_partition_role(const ol_partition *partition);
ol_log *ol_partition_log(ol_partition *partition);
bool ol_partition_is_read_only(const ol_partition *partition);

/* -------------------------------------------------------------------------------------- loading */

/* A finding of an open or a load.  A finding does not end the load.  Damage and proven loss make
 * the partition read-only (docs/architecture.md §2.4, §5; docs/verify.md). */
typedef enum ol_problem_kind {
    OL_PROBLEM_DAMAGE,  /* bytes that cannot be read, so that the log offsets in them are lost */
    OL_PROBLEM_LOSS,            /* acknowledged batches that are missing */
    OL_PROBLEM_DOUBT,           /* batches may be missing: no witness (log/log.h) proves that they
                                   are present; commits continue */
} ol_problem_kind;

typedef struct ol_problem {
    ol_error error;             /* path, position, log offset, reason */
    int64_t from;               /* the first log offset that is affected; -1: unknown */
    int64_t below;  /* the log offset after the last one that is affected; INT64_MAX: unknown; -1:
                       unknown, too, but only for damage */
    ol_problem_kind kind;
} ol_problem;

/* The progress of a load.  It can be read at any time.  The fields are updated one by one, so they
 * may be of slightly different moments. */
typedef struct ol_load_progress {
    int64_t bytes;              /* read so far */
    int64_t bytes_total;  /* number of bytes to read: all of the log, or only the part after the
                             snapshot */
    int64_t batches;
    int64_t records;
    int64_t problems;  /* number of all problems that were found; only the first OL_PROBLEMS_KEPT of
                          them are kept */
    int64_t aborted_own;  /* number of the store's own transactions that were open and that the load
                             ended with ABORT */
    int64_t snapshot_offset;    /* log offset of the snapshot from which the load began; `bytes`
                                   counts only what comes after it. -1: there was no snapshot */
} ol_load_progress;
#define OL_PROBLEMS_KEPT 64

/* Applies the records of the log to the state and checks every CRC.  A partition without replicas
 * is loaded up to the log end, even if the log end moves during the load, and then becomes active.
 * A replicated partition is loaded up to W, and then becomes a follower, or active if it leads.
 * Commits may be appended during the load.
 *
 * A bad batch below the flushed bound is skipped, and so is a record that Kafka would refuse.  Each
 * is kept as a problem and makes the partition read-only.
 *
 * The load fails with OL_INVALID if the partition is already loaded or loading, or has failed.
 * After any other failure, such as OL_NO_MEMORY or OL_IO, the partition is OL_FAILED. */
int ol_partition_load(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Loads the partition as ol_partition_load does, but begins with the state of a snapshot, which was
 * read from a file and checked (partition/snapshot_take.h).  The call takes over the snapshot even
 * if it fails.
 *
 * The load drops the state of the snapshot and loads everything from the log if the offset of the
 * snapshot is above W, or if records at or above this offset may be missing.  The signs are:
 * - a gap between batches;
 * - a batch that was cleaned;
 * - offsets before the log end that no batch covers.
 * ol_partition_snapshot_discarded returns the reason why the snapshot was dropped. */
int ol_partition_load_from(ol_partition *partition, ol_snapshot *snapshot,
                           ol_error *error) OL_NODISCARD;
void ol_partition_progress(const ol_partition *partition, ol_load_progress *progress);
/* Returns whether the load dropped the snapshot with which it began (snapshot/snapshot.h).  If so,
 * sets *why to the reason. */
bool ol_partition_snapshot_discarded(const ol_partition *partition, ol_error *why);
bool ol_partition_problem_at(const ol_partition *partition, size_t index, ol_problem *problem);

/* ----------------------------------------------------------------------------------- committing */

typedef enum ol_item_kind {
    OL_ITEM_POSITION,           /* an offset for the key (group, topic, partition) */
    OL_ITEM_POSITION_TOMBSTONE,  /* a tombstone, which is written only if a committed or pending
                                    value exists */
    OL_ITEM_GROUP_RECORD,       /* a record of `group` with an encoded key; if value.data is NULL, a
                                   tombstone */
    /* A condition that writes nothing.  The whole commit is refused unless the latest record of
     * `group` that was written has the generation `expected`.  With `expected` -1, it is refused
     * unless the group has no members. */
    OL_ITEM_GENERATION,
} ol_item_kind;

typedef enum ol_condition {
    OL_CONDITION_NONE,
    /* The present offset of the key is the one that was written last, even if it is in flight; a
     * tombstone removes it. */
    OL_CONDITION_EQUALS,        /* the present offset is `expected` */
    OL_CONDITION_ABSENT,        /* there is no present offset */
    OL_CONDITION_MONOTONIC,     /* there is no present offset, or it is not above the new one */
} ol_condition;

/* One item to write.  Its slices must stay valid until the call returns. */
typedef struct ol_item {
    ol_slice group;
    ol_slice topic;
    int32_t partition;
    uint8_t kind;               /* ol_item_kind */
    uint8_t condition;          /* ol_condition */
    int64_t expected;
    int64_t offset;
    int64_t commit_timestamp;   /* -1: the present time (partition/batch_clock.h) */
    int64_t expire_timestamp;   /* -1 none */
    int32_t leader_epoch;       /* -1 none */
    ol_slice metadata;
    const uint8_t *topic_id;    /* 16 bytes or NULL */
    ol_slice key;               /* OL_ITEM_GROUP_RECORD */
    ol_slice value;
} ol_item;

typedef struct ol_commit_result {
    int64_t base_offset;        /* log offset of the first record; -1: no record was written,
                                   because there was nothing to delete */
    /* log offset after the last record.  The commit is durable once the log is flushed up to here,
     * and replicated once W is here. */
    int64_t end_offset;
    int64_t timestamp;          /* ms, of the batch */
    size_t written;  /* number of records written; a tombstone is not written, and not counted, if
                        there is nothing to delete */
    /* After OL_CONDITION and OL_REWIND: whether the key has a present offset (ol_condition).  After
     * OL_GENERATION: whether the group has a record. */
    bool found;
    int64_t found_offset;       /* the present offset; after OL_GENERATION, the generation of the
                                   group */
    /* If a refusal depends on records in flight, which may still be truncated: the log offset that
     * W must reach before the refusal is final.  Otherwise -1. */
    int64_t rests_on;
    uint64_t term;  /* the term in which the commit was written or refused, to be passed to
                       ol_partition_wait */
} ol_commit_result;

/* Stands for the term at the time of the call.  Used to wait for something other than a commit. */
#define OL_TERM_NOW UINT64_MAX

/* Writes all items or none (docs/architecture.md §2.3, §4), in their order and in one batch.
 *
 * If the items do not fit one batch and one of them is a tombstone or a group record, the call is
 * refused with OL_TOO_LARGE.  Other items that do not fit one batch are sorted by group and written
 * as several batches.  Each of these batches contains whole groups and is atomic by itself.  A
 * group that does not fit one batch is written as a transaction of the store's own.
 *
 * The space for everything is allocated before the first byte is written.  Writing can still fail,
 * with OL_IO, or with OL_DISK_FULL at a roll within a commit that is larger than a segment.  The
 * groups before the failure are then written, and each of them is complete.
 *
 * If `producer_id` is 0 or greater, the call writes transactional batches, as many as needed.  The
 * caller must end the transaction later; the log keeps space for its end
 * (ol_log_reserve_transactional).  If `producer_id` is -1, the batches are not transactional.  The
 * caller must have checked the items against the limits of the API; the sizes of strings are
 * asserted.  If an item is refused, error->item is its index, and result->found and
 * result->found_offset give the present value.
 *
 * Fails with OL_CONDITION, OL_REWIND, OL_GENERATION, OL_LOADING, OL_NOT_COORDINATOR, OL_READ_ONLY,
 * OL_FAILED, OL_FENCED, OL_TOO_LARGE, OL_DISK_FULL, OL_NO_MEMORY, OL_IO. */
int ol_partition_commit(ol_partition *partition, const ol_item *items, size_t count,
                        int64_t producer_id, int16_t producer_epoch, ol_commit_result *result,
                        ol_error *error) OL_NODISCARD;

/* A run of rows that have the same group and topic.  It ends where the next run begins. */
typedef struct ol_row_run {
    ol_slice group;
    ol_slice topic;
    size_t first_row;
} ol_row_run;

/* Commits positions that are given in columns, as ol_partition_commit does.  Each row is one item
 * without a condition and without a topic id.  If `producer_id` is 0 or greater, the rows belong to
 * its transaction.  The call fills in the log offsets of the rows, and their commit timestamps
 * where these are -1.  The caller must not use the rows afterwards.  Neighbouring runs of the same
 * group must point to the same bytes for its name.  There must be at least one run, and at least
 * one row in each run. */
int ol_partition_commit_rows(ol_partition *partition, const ol_row_run *runs, size_t run_count,
                             ol_position_row *rows, size_t row_count, int64_t producer_id,
                             int16_t producer_epoch, ol_commit_result *result,
                             ol_error *error) OL_NODISCARD;

/* Commits as ol_partition_commit does, but never waits.  The Python binding calls it while it holds
 * the GIL.  Returns OL_WOULD_BLOCK and changes nothing if
 * - another thread holds a lock;
 * - the pages for the batch have not been faulted in;
 * - the batch is larger than 4 KiB;
 * - the partition cannot take a commit now, for example because it is loading or read-only. */
int ol_partition_try_commit(ol_partition *partition, const ol_item *items, size_t count,
                            ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Deletes a group.  It writes one batch with tombstones for every committed or pending position and
 * for the records of the group.  If there is nothing to delete, result->written is 0.  If
 * `only_empty` is true and the group has members, fails with OL_GENERATION. */
int ol_partition_delete_group(ol_partition *partition, ol_slice group, bool only_empty,
                              ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Ends the generation of a group (docs/format/records.md §3.4).  In one batch, the call writes a
 * group record that has the next generation and no members, and then the items, which must be
 * positions of the group.  From then on, members of the former generation are refused.  Sets
 * *generation to the new generation.  Fails as ol_partition_commit does, with OL_INVALID if the
 * group uses the consumer protocol, or with OL_LIMIT if the group has the greatest generation
 * already. */
int ol_partition_fence(ol_partition *partition, ol_slice group, const ol_item *items, size_t count,
                       int32_t *generation, ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Ends a transaction with a marker.  If `producer_epoch` is -1, the marker gets the epoch that the
 * producer has in the log.  Fails with OL_TRANSACTION if the log has no open transaction of this
 * producer, and with OL_FENCED if `producer_epoch` is older than the producer's epoch.  If no space
 * was kept for the marker, the call may fail with OL_DISK_FULL; it can then be repeated. */
int ol_partition_end_transaction(ol_partition *partition, int64_t producer_id,
                                 int16_t producer_epoch, ol_control type, int32_t coordinator_epoch,
                                 ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Checks a producer that is about to begin a transaction.  Fails with OL_TRANSACTION if the
 * producer id is negative or in the range that offsetlog reserves for itself, or if the producer
 * has an open transaction.  Fails with OL_FENCED if the log has a newer epoch of the producer. */
int ol_partition_check_producer(ol_partition *partition, int64_t producer_id,
                                int16_t producer_epoch, ol_error *error) OL_NODISCARD;

/* Closes the active segment of the log (ol_log_roll_active), so that it can be cleaned even if no
 * commit fills it.  The call is refused when a commit with a condition would be refused.  There is
 * one exception: a replica that does not lead may roll, whether it is loaded or not. */
int ol_partition_roll(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Finds the open transaction at `index`.  The open transactions are numbered from 0 in the order of
 * their first offsets.  Returns false if there are not so many.  Waits for the writer lock. */
bool ol_partition_transaction_at(ol_partition *partition, size_t index,
                                 ol_log_transaction *transaction);

/* -------------------------------------------------------------------------------------- waiting */

typedef enum ol_wait_for { OL_WAIT_FLUSHED, OL_WAIT_WATERMARK } ol_wait_for;

/* Waits until W has reached `end_offset`, or until everything below `end_offset` is flushed; `what`
 * says which.  If the call waits for a flush and no other thread is flushing, it flushes by itself.
 * One flush serves all threads that wait.  If timeout_ms is negative, there is no time limit.
 *
 * `term` is the term that the commit returned.  If leadership has ended or the log has been
 * truncated since the commit, even before this call, the call fails with OL_NOT_COORDINATOR,
 * because other records may now be below `end_offset`.  In a store without replicas the term never
 * changes.
 *
 * Fails with OL_FAILED, OL_NOT_COORDINATOR or OL_TIMED_OUT.  If the flush could not begin, fails
 * with OL_NO_MEMORY, OL_IO, OL_DISK_FULL or OL_READ_ONLY; the next call then tries again.  A
 * failure does not undo the commit: its records may still be in the log and come to be below W. */
int ol_partition_wait(ol_partition *partition, int64_t end_offset, uint64_t term, ol_wait_for what,
                      int64_t timeout_ms, ol_error *error) OL_NODISCARD;

/* Returns what ol_partition_wait would return without waiting.  If ol_partition_wait would have to
 * wait, returns OL_WOULD_BLOCK.  It never flushes and takes no lock. */
int ol_partition_try_wait(const ol_partition *partition, int64_t end_offset, uint64_t term,
                          ol_wait_for what, ol_error *error) OL_NODISCARD;

/* Returns whether ol_partition_wait with OL_WAIT_FLUSHED would return OL_OK at once.  Takes no
 * lock. */
bool ol_partition_is_flushed(const ol_partition *partition, int64_t end_offset, uint64_t term);

/* For a thread that both commits and collects the commits that have been flushed: returns whether
 * the thread should begin the next flush now.  `end_offset` is the end of the last commit that the
 * thread has collected.  The result is true if all of these conditions hold:
 * - No flush is running or queued.
 * - At least as many offsets wait for a flush as are flushed and not yet collected.
 * - The last flush took less than twice the time that has passed since it ended.
 * Takes no lock. */
bool ol_partition_is_behind(const ol_partition *partition, int64_t end_offset);

/* -------------------------------------------------------------------------------------- reading */

/* A reader holds the table lock for a short time while it reads the state.  ol_partition_lock_state
 * also checks the role.  If it returns OL_LOADING, OL_NOT_COORDINATOR or OL_FAILED, the state is
 * not locked.  ol_partition_try_lock_state does the same, but returns OL_WOULD_BLOCK instead of
 * waiting. */
int ol_partition_lock_state(ol_partition *partition, const ol_state **state,
                            ol_error *error) OL_NODISCARD;
int ol_partition_try_lock_state(ol_partition *partition, const ol_state **state,
                                ol_error *error) OL_NODISCARD;
void ol_partition_unlock_state(ol_partition *partition);
/* Locks the state for maintenance of the log, which does not answer clients.  Unlike
 * ol_partition_lock_state, it also locks the state of a follower.  Fails with OL_LOADING if nothing
 * is loaded, or if this replica is the leader but not active yet. */
int ol_partition_lock_applied(ol_partition *partition, const ol_state **state,
                              ol_error *error) OL_NODISCARD;

typedef struct ol_positions {
    int64_t written;            /* log end */
    int64_t watermark;
    int64_t applied;
    int64_t flushed;
} ol_positions;
void ol_partition_positions(ol_partition *partition, ol_positions *positions);
/* Returns the present term.  A caller that wants to wait for log offsets must read the term before
 * the log offsets.  If other records then take these log offsets, the wait fails. */
uint64_t ol_partition_term(const ol_partition *partition);

/* Returns the size of the scratch memory in bytes, which earlier commits have allocated and the
 * next commit will use. */
size_t ol_partition_scratch_bytes(ol_partition *partition);

/* -------------------------------------------------------- replication (docs/architecture.md §7)
 *
 * The caller of each of these calls passes the leader epoch that it believes to be the present one.
 * The call compares this epoch with the newest epoch that the replica knows: the last one that the
 * host has given, or the newest in the log.
 * - If the epoch of the call is older, the call fails with OL_FENCED_LEADER_EPOCH.
 * - If it is newer, the call fails with OL_UNKNOWN_LEADER_EPOCH.  The caller must repeat the call
 *   once the host has given this epoch.  This rule does not apply to ol_partition_become_leader and
 *   ol_partition_become_follower, with which the host gives a new epoch.
 * - If both are equal, but this replica leads in the epoch and the call is one for a follower, the
 *   call fails with OL_FENCED_LEADER_EPOCH, too.
 * These failures change nothing. */

/* Makes this replica the leader in an epoch.  The epoch must be above the newest one known, unless
 * this replica already leads in it with the same `alone`.  The partition need not be loaded yet:
 * commits without conditions are appended from now on, and the load applies them.  `alone` says
 * that there is no other replica.  If `alone` is true, W follows the log end by itself, and commits
 * are applied at once, as in a store without replicas.
 *
 * The role stays OL_ROLE_LOADING until all of these conditions hold, and then becomes active:
 * - The partition is loaded.
 * - W has reached the log end that the log had at this call.
 * - Transactions of the store's own that an earlier leader left open have been ended with ABORT.
 * If a load finds damage, the partition does not become active, because its answers would lack what
 * cannot be read.
 *
 * If the call is refused with OL_FENCED_LEADER_EPOCH, OL_READ_ONLY, OL_INVALID or OL_FAILED,
 * nothing has changed.  The election itself fails with OL_CORRUPT or OL_IO if a record in [W, log
 * end) cannot be read, and with OL_IO or OL_DISK_FULL if the list of epochs cannot be written.
 * Such a failure ends the leadership that this replica had before: it becomes a follower in the
 * epoch that it knew, as after ol_partition_become_follower.  The call can be repeated. */
int ol_partition_become_leader(ol_partition *partition, int32_t leader_epoch, bool alone,
                               ol_error *error) OL_NODISCARD;
/* Makes the replica a follower in `leader_epoch`, which must not be below the newest epoch known.
 * A leader that resigns passes its own epoch.  Commits that are waiting fail with
 * OL_NOT_COORDINATOR.  The state is kept, because it contains only records below W. */
int ol_partition_become_follower(ol_partition *partition, int32_t leader_epoch,
                                 ol_error *error) OL_NODISCARD;
/* Drops the state of a follower to free memory.  The log and W stay as they are.  ol_partition_load
 * loads the state again.  Fails with OL_LOADING during a load. */
int ol_partition_unload(ol_partition *partition, int32_t leader_epoch,
                        ol_error *error) OL_NODISCARD;
/* Appends what a follower has fetched: whole batches that keep their offsets (ol_log_append).  The
 * partition need not be loaded.  Fails as ol_log_append does.  Also fails with OL_CORRUPT if a
 * batch has a later epoch than the leader. */
int ol_partition_append(ol_partition *partition, int32_t leader_epoch, const uint8_t *data,
                        size_t size, ol_error *error) OL_NODISCARD;
/* Moves W to `offset`, or to the log end if that is lower.  W never moves back.  The call applies
 * the records below W and wakes the threads that wait for W.  During a load, the load applies the
 * records instead.  A record that Kafka would refuse is skipped and kept as a problem, as in a
 * load, and makes the partition read-only.
 *
 * A leader may become active by this call.  If it cannot write the ABORT markers that this needs,
 * the call fails with the reason, such as OL_DISK_FULL.  If the partition is damaged, the call
 * fails with OL_READ_ONLY.  In both cases the leader stays loading, and the next call tries
 * again. */
int ol_partition_advance(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                         ol_error *error) OL_NODISCARD;
/* Truncates the log of a follower to `offset`.  If records below W, or records that have been
 * applied, are removed, the state is dropped, and the caller must call ol_partition_load again.
 * Fails with OL_LOADING during a load. */
int ol_partition_truncate(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                          ol_error *error) OL_NODISCARD;
/* Called for a follower whose log ends below the start of the leader's log.  Removes everything
 * from the log and begins it again at `offset`, which must not be below the log end.  The caller
 * must then call ol_partition_load again.  After OL_DISK_FULL and OL_NO_MEMORY the log may be empty
 * and still begin at its former start.  The call can then be repeated. */
int ol_partition_restart_at(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                            ol_error *error) OL_NODISCARD;

typedef enum ol_read_up_to {
    OL_READ_WRITTEN,            /* up to the log end, for followers */
    OL_READ_WATERMARK,          /* up to W, for consumers */
} ol_read_up_to;
/* Reads batches as ol_log_read does, for followers and consumers of the partition.  The partition
 * may have any role.  If leader_epoch is -1, the epoch does not matter.  Otherwise the call fails
 * if the epoch is not the present one, before or after the bytes are read. */
int ol_partition_read(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                      ol_read_up_to up_to, uint8_t *buffer, size_t capacity, size_t *size,
                      ol_error *error) OL_NODISCARD;
/* Finds a range of a file as ol_log_file_range does, for the same callers as ol_partition_read.
 * The log may be truncated while the caller sends the range. */
int ol_partition_file_range(ol_partition *partition, int32_t leader_epoch, int64_t offset,
                            ol_read_up_to up_to, size_t size_max, ol_file_range *range,
                            ol_error *error) OL_NODISCARD;

/* Computes the digest of everything that has been applied, whatever the role is.  Sets *applied to
 * the log offset below which everything has been applied.  Fails with OL_LOADING if nothing is
 * loaded. */
int ol_partition_digest(ol_partition *partition, bool physical, ol_digest *digest,
                        int64_t *applied, ol_error *error) OL_NODISCARD;

typedef struct ol_leadership {
    int32_t epoch;              /* the newest known, -1 none */
    bool leads;
    bool alone;
    uint64_t term;
    int64_t elected_end;        /* for a leader: the log end when it was elected */
} ol_leadership;
void ol_partition_leadership(ol_partition *partition, ol_leadership *leadership);

/* --------------------------------------------------------------------------- for the folders above
 *
 * The cleaner, retention and history use these calls to read and write a partition.  They therefore
 * need not know the struct of the partition. */

/* Returns the options of ol_partition_open.  They do not change while the partition is open, so no
 * lock is needed. */
const ol_partition_options *ol_partition_get_options(const ol_partition *partition);

/* The parts of a partition that change only under the writer lock.  The pointers are valid until
 * the lock is released. */
typedef struct ol_partition_view {
    /* The applied state.  It must not be read during ol_partition_load, which writes it without a
     * lock. */
    const ol_state *state;
    /* The overlay: the records in [W, log end).  It is complete only after
     * ol_partition_complete_overlay. */
    const ol_in_flight *in_flight;
    int64_t watermark;
} ol_partition_view;

/* Takes the writer lock.  The caller should hold it only for a short time, because commits wait for
 * it.  While no load runs, the state in *view may be read without the table lock. */
void ol_partition_lock_writer(ol_partition *partition, ol_partition_view *view);
void ol_partition_unlock_writer(ol_partition *partition);

/* Prevents loads from beginning until ol_partition_release_loads is called.  A caller that replaces
 * segments of the log needs this: otherwise a load could read a value in an old segment and then
 * continue in a new one from which the value's tombstone was removed.  Fails with OL_LOADING if a
 * load is running; the caller must then not call ol_partition_release_loads.  Takes the writer lock
 * for a short time. */
int ol_partition_hold_loads(ol_partition *partition, ol_error *error) OL_NODISCARD;
void ol_partition_release_loads(ol_partition *partition);

/* Returns OL_OK if the role of the partition allows commits.  `needs_state` is true for a commit
 * that depends on the present state.  The caller holds the writer lock. */
int ol_partition_check_writable(const ol_partition *partition, bool needs_state, ol_error *error)
    OL_NODISCARD;

/* Adds the records that have been written since the last call of this function to the overlay,
 * which is `in_flight` of the view.  Fails with OL_NO_MEMORY, OL_CORRUPT or OL_IO.  The caller
 * holds the writer lock. */
int ol_partition_complete_overlay(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Commits as ol_partition_commit does, for a caller that already holds the writer lock and has
 * decided under it what to write. */
int ol_partition_commit_locked(ol_partition *partition, const ol_item *items, size_t count,
                               int64_t producer_id, int16_t producer_epoch,
                               ol_commit_result *result, ol_error *error) OL_NODISCARD;

/* Makes the partition OL_FAILED.  Every later call is refused, and every call that is waiting
 * returns OL_FAILED. */
void ol_partition_fail(ol_partition *partition);

/* Returns the greatest timestamp of all batches that were loaded or written, or 0 if there is no
 * batch.  If a clock shows an earlier time, either the clock is wrong now, or it was wrong when
 * that batch was written.  Takes the writer lock. */
int64_t ol_partition_newest_timestamp(ol_partition *partition);

#endif
