/* partition/partition_impl: the structure of a partition, shared only by the files of this folder.
 *
 * Locks, in the order in which they are taken; a thread that holds one takes only later ones:
 *
 *   0  load_gate         held while segments are replaced; a load begins under it
 *   1  writer            whatever appends, applies or changes the role: `role`, `read_only`,
 *                        `load_runs`, `watermark`, `applied`, `inflight`, `recorded_to`,
 *                        `unapplied`, `leadership`, `clock`, `scratch`, `own`,
 *                        `value_version_unapplied`; with `table` also `state`
 *   2  table             keeps readers out of `state` while it changes; either lock is enough
 *                        to read it
 *   3  snapshot.lock     `snapshot`, and the snapshot's file in the directory
 *   4  the log's locks   log/log_impl.h
 *   5  wait.lock, problems.lock, and the lock of the flusher, which covers `flush`: no lock is
 *                        taken under any of these
 *
 * `term` changes under writer and wait.lock together.  A thread whose flush made the log fail sets
 * `role` to FAILED, and damage sets `read_only`, under any of these locks or none.  A log that
 * failed otherwise (an unasked flush, an extension, a roll) leaves `role` as it is, so
 * ol_partition_role asks the log, too.  The thread that loads writes `load`, `snapshot.offset` and
 * `state` without a lock, because no other thread reads the state of a partition that loads.
 * Atomic fields are read without a lock.  `options` and `log` do not change after the open.
 */
#ifndef OL_PARTITION_PARTITION_IMPL_H
#define OL_PARTITION_PARTITION_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "partition/batch_clock.h"
#include "partition/commit/commit.h"
#include "partition/partition.h"
#include "partition/unapplied.h"
#include "state/in_flight.h"

struct ol_partition {
    ol_partition_options options;
    ol_log *log;

    pthread_mutex_t load_gate;
    pthread_mutex_t writer;
    pthread_mutex_t table;
    ol_state state;
    /* Replicated only: the overlay, the log offset up to which records are in it (`applied`, if
     * that is higher), and the batches above W that need not be read back from the log. */
    ol_in_flight inflight;
    int64_t recorded_to;
    ol_unapplied unapplied;

    /* Every commit and most reads check these, so they are kept together, apart from the locks
     * below. */
    _Atomic int role;               /* ol_role */
    _Atomic bool read_only;
    bool load_runs;
    int16_t value_version_unapplied; /* highest version of an offset value that this leader wrote
                                        and could not apply at once; 0: none.  Under writer. */
    _Atomic int64_t watermark;
    _Atomic int64_t applied;
    _Atomic uint64_t term;          /* counts how often leadership ended or the log was truncated */

    struct {
        bool ready;                 /* ol_partition_ensure_ready has nothing to do */
        _Atomic bool leads;         /* replicated: this replica was elected in `epoch`; it may not
                                       be active yet */
        bool alone;                 /* leads, and no other replica exists: W is the log end */
        int32_t epoch;  /* replicated: the newest epoch that the host gave or the log has */
        int64_t elected_end;  /* log end at the election; active once `applied` is there */
    } leadership;

    ol_batch_clock clock;

    ol_commit_scratch scratch;

    struct {
        int64_t last_producer_id;
        ol_own_transactions open;   /* those that carry our header */
    } own;

    /* Threads that wait for the disk or for W. */
    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        _Atomic bool flushing;      /* one flush serves all who wait */
        _Atomic int64_t last_flush_ns;      /* how long it took, monotonic */
        _Atomic int64_t last_flush_end_ns;
    } wait;

    /* The place of this partition in the queue of its flusher. */
    struct {
        ol_partition *next;
        int64_t end;
        bool unasked;               /* no caller waits for it */
        int writing;                /* threads that begin its writes */
        _Atomic bool begun;         /* queued, or a thread flushes it */
    } flush;

    /* Progress of the load (ol_load_progress). */
    struct {
        _Atomic int64_t bytes, bytes_total, batches, records, aborted_own;
        _Atomic int64_t snapshot_offset;    /* offset of the snapshot that the load began with; -1:
                                               none */
    } load;

    struct {
        pthread_mutex_t lock;
        _Atomic int64_t offset;     /* offset of the snapshot file; -1: none, or unknown */
    } snapshot;

    struct {
        pthread_mutex_t lock;
        bool has_discarded;         /* the load dropped the snapshot that it began with */
        ol_error discarded;         /* why it did */
        ol_problem *kept;           /* the first OL_PROBLEMS_KEPT problems; NULL if there is none */
        int64_t kept_count;
        _Atomic int64_t count;
    } problems;
};

/* The header that carries the flushed bound (docs/durability.md). */
#define OL_HEADER_FLUSHED "ol.flushed"

/* The only function that sets W and applied; asserts written >= W >= applied.  Under writer. */
void ol_partition_set_positions(ol_partition *partition, int64_t watermark, int64_t applied);

/* Wakes the threads that wait for a flush or for W.  `deposed` (under writer) also ends the term,
 * so that they return OL_NOT_COORDINATOR. */
void ol_partition_wake(ol_partition *partition, bool deposed);

/* Called at the end of a load.  If the marker of a transaction may be among missing offsets, the
 * transaction's values are lost with it; so the range of missing offsets is widened to begin at the
 * transaction's first offset. */
void ol_partition_widen_problems(ol_partition *partition);
/* Keeps a report of damage and makes the partition read-only.  The damage makes the log offsets
 * [from, below) unreadable (-1 unknown). */
void ol_partition_report(ol_partition *partition, const ol_error *error, int64_t from,
                         int64_t below);

/* Under snapshot.lock: removes the snapshot, if there is one, from the directory, durably. */
int ol_partition_drop_snapshot(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Under writer: returns whether a batch takes effect as soon as it is written. */
static inline bool ol_partition_applies_at_once(const ol_partition *partition) {
    return !partition->options.replicated || partition->leadership.alone;
}

/* Under writer. */
static inline bool ol_partition_is_loaded(const ol_partition *partition) {
    return partition->role != OL_ROLE_UNLOADED && !partition->load_runs;
}

/* partition/batch_pass.c.  Calls `function`, in order, for each batch that overlaps [from, to) and
 * does not reach above it, until `function` returns OL_END.  Under writer, so that the log does not
 * change meanwhile. */
typedef int (*ol_batch_function)(ol_partition *partition, const ol_batch *batch, void *context,
                                 ol_error *error);
int ol_partition_for_each_batch(ol_partition *partition, int64_t from, int64_t to,
                                ol_batch_function function, void *context, ol_error *error);
/* Like ol_partition_for_each_batch, but always reads the files, whatever is in memory. */
int ol_partition_for_each_stored_batch(ol_partition *partition, int64_t from, int64_t to,
                                       ol_batch_function function, void *context,
                                       ol_error *error);

/* partition/overlay.c, all under writer. */
/* Reads the records in [applied, log end) from the files into the overlay, because damage there
 * must be found before a new leader relies on these records.  On failure the overlay is as it
 * was. */
int ol_partition_read_in_flight(ol_partition *partition, ol_error *error);
bool ol_partition_is_overlay_complete(const ol_partition *partition);
/* Called under `table` after a batch was applied: takes its records out of the overlay. */
void ol_partition_overlay_applied(ol_partition *partition, const ol_batch *batch);
/* Called when W has moved. */
void ol_partition_overlay_settled(ol_partition *partition);
/* Empties the overlay and forgets the version of unapplied values: leadership ended, or the log was
 * truncated, so nothing is in flight. */
void ol_partition_drop_overlay(ol_partition *partition);

/* Fills `error` with the reason why a partition refuses a call, and with its directory; returns
 * `status`. */
int ol_partition_refuse(const ol_partition *partition, int status, ol_error *error,
                        const char *format, ...) OL_PRINTF(4, 5);

/* partition/leadership.c, all under writer.  Refuses a lone partition with OL_INVALID, and a failed
 * one with OL_FAILED. */
int ol_partition_check_replicated(const ol_partition *partition, ol_error *error);
/* Refuses with OL_FENCED_LEADER_EPOCH or OL_UNKNOWN_LEADER_EPOCH unless `leader_epoch` is the
 * present one. */
int ol_partition_check_epoch(const ol_partition *partition, int32_t leader_epoch, ol_error *error);
/* Makes a leader active once everything below the log end of its election was applied. */
int ol_partition_activate(ol_partition *partition, ol_error *error);

/* partition/replication.c.  Under writer: moves W to min(offset, log end), or for a leader that is
 * alone to the log end; never back. */
int ol_partition_move_watermark(ol_partition *partition, int64_t offset, ol_error *error);

/* Called under writer before a batch is written: makes sure that the log knows the batch's epoch,
 * and that a loaded lone store has no transaction of its own open. */
int ol_partition_ensure_ready(ol_partition *partition, ol_error *error);

/* Under writer, in a lone store: closes with ABORT the store's own transactions that an earlier
 * process or a full disk left open (docs/architecture.md §5).  After a failure the next write tries
 * again. */
int ol_partition_abort_own(ol_partition *partition, ol_error *error);

/* Under writer: appends and applies an end-transaction marker, and moves W and applied. */
int ol_partition_write_marker(ol_partition *partition, int64_t producer_id, int16_t producer_epoch,
                              ol_control type, int32_t coordinator_epoch, ol_commit_result *result,
                              ol_error *error);

/* Under writer: appends an end-transaction marker, as ol_partition_write_marker does; the caller
 * applies it.  *start is the marker's batch. */
int ol_partition_append_marker(ol_partition *partition, int64_t producer_id, int16_t producer_epoch,
                               ol_control type, int32_t coordinator_epoch, uint8_t **start,
                               ol_commit_result *result, ol_error *error);

#endif
