/* partition/partition_impl: the structure of a partition, shared only by the files of this folder.
 *
 * The locks, in the order in which they are taken.  A thread that holds a lock takes only locks
 * that are further down:
 *
 *   0  load_gate         held while segments are replaced; a load begins under it
 *   1  writer            everything that appends, applies or changes the role: `role`, `read_only`,
 *                        `load_runs`, `watermark`, `applied`, `inflight`, `recorded_to`,
 *                        `unapplied`, `leadership`, `clock`, `scratch`, `own`,
 *                        `value_version_unapplied`; with `table` also `state`
 *   2  table             keeps readers away from `state` while it changes; a thread that holds
 *                        this lock or `writer` may read it
 *   3  snapshot.lock     `snapshot`, and the snapshot's file in the directory
 *   4  the log's locks   log/log_impl.h
 *   5  wait.lock, problems.lock, and the lock of the flusher, which covers `flush`: no lock is
 *                        taken under any of these
 *
 * Some fields do not follow these rules:
 * - `term` changes only under writer and wait.lock together.
 * - If a flush makes the log fail, the thread that flushes sets `role` to FAILED, whether it holds
 *   one of these locks or none.  If the log fails in another way (in an unasked flush, an extension
 *   or a roll), `role` stays as it is; therefore ol_partition_role asks the log as well.
 * - A thread that finds damage sets `read_only`, whether it holds one of these locks or none.
 * - The thread that loads writes `load`, `snapshot.offset` and `state` without a lock, because no
 *   other thread reads the state of a partition while it loads.
 * - Atomic fields are read without a lock.
 * - `options` and `log` do not change after the open. */
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
    /* Only for a replicated partition. */
    ol_in_flight inflight;          /* the overlay */
    int64_t recorded_to;            /* the overlay has the records up to this log offset, or up to
                                       `applied` if `applied` is higher */
    ol_unapplied unapplied;         /* batches above W that are kept in memory, so that they need
                                       not be read from the log */

    /* Every commit and most reads check these fields.  Therefore they are next to each other, and
     * apart from the locks below. */
    _Atomic int role;               /* ol_role */
    _Atomic bool read_only;
    bool load_runs;
    /* The highest version of an offset value that this leader has written and could not apply at
     * once; 0: there is none.  Changes under writer. */
    int16_t value_version_unapplied;
    _Atomic int64_t watermark;
    _Atomic int64_t applied;
    _Atomic uint64_t term;          /* counts how often leadership ended or the log was truncated */

    struct {
        bool ready;                 /* true: ol_partition_ensure_ready has nothing to do */
        _Atomic bool leads;         /* replicated: this replica was elected in `epoch`, but may not
                                       be active yet */
        bool alone;  /* this replica leads and is the only one, so W is the log end */
        int32_t epoch;  /* replicated: the newest epoch that the host has given or that is in the
                           log */
        int64_t elected_end;  /* the log end at the election; the leader becomes active when
                                 `applied` reaches it */
    } leadership;

    ol_batch_clock clock;

    ol_commit_scratch scratch;

    struct {
        int64_t last_producer_id;
        ol_own_transactions open;  /* the open transactions whose batches have the store's header */
    } own;

    /* Threads that wait for the disk or for W. */
    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        _Atomic bool flushing;      /* a flush is running, which serves all threads that wait */
        _Atomic int64_t last_flush_ns;      /* how long it took, monotonic */
        _Atomic int64_t last_flush_end_ns;
    } wait;

    /* The place of this partition in the queue of its flusher. */
    struct {
        ol_partition *next;
        int64_t end;
        bool unasked;               /* no caller waits for this flush */
        int writing;                /* number of threads that are starting its writes */
        _Atomic bool begun;         /* the partition is queued, or a thread is flushing it */
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

/* Sets W and `applied`, and asserts written >= W >= applied.  Only an open, a truncation and an
 * unload set them without this function.  The caller holds writer. */
void ol_partition_set_positions(ol_partition *partition, int64_t watermark, int64_t applied);

/* Wakes the threads that wait for a flush or for W.  If `deposed` is true, the caller must hold
 * writer, and the call also ends the term, so that these threads return OL_NOT_COORDINATOR. */
void ol_partition_wake(ol_partition *partition, bool deposed);

/* Called at the end of a load.  If offsets are missing, a transaction may look open only because
 * its marker had one of these offsets.  The values of this transaction are then lost, too.
 * Therefore the call extends each range of missing offsets down to the first offset of the oldest
 * open transaction. */
void ol_partition_widen_problems(ol_partition *partition);
/* Adds damage to the problems and makes the partition read-only.  `from` and `below` give the log
 * offsets [from, below) that cannot be read because of the damage; -1 stands for an unknown
 * bound. */
void ol_partition_report(ol_partition *partition, const ol_error *error, int64_t from,
                         int64_t below);

/* Removes the snapshot from the directory durably, if there is one.  The caller holds
 * snapshot.lock. */
int ol_partition_drop_snapshot(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Returns whether W always is the log end, so that a batch is applied as soon as it is written.
 * This is so in a partition without replicas and on a leader that is alone.  The caller holds
 * writer. */
static inline bool ol_partition_applies_at_once(const ol_partition *partition) {
    return !partition->options.replicated || partition->leadership.alone;
}

/* Under writer. */
static inline bool ol_partition_is_loaded(const ol_partition *partition) {
    return partition->role != OL_ROLE_UNLOADED && !partition->load_runs;
}

/* partition/batch_pass.c.  Calls `function` for the batches of [from, to) in their order.  A batch
 * that begins below `from` is included, but a batch that extends to `to` or above it is not.  The
 * calls stop when `function` returns OL_END.  The caller holds writer, so that the log does not
 * change during the pass. */
typedef int (*ol_batch_function)(ol_partition *partition, const ol_batch *batch, void *context,
                                 ol_error *error);
int ol_partition_for_each_batch(ol_partition *partition, int64_t from, int64_t to,
                                ol_batch_function function, void *context, ol_error *error);
/* Does what ol_partition_for_each_batch does, but reads all batches from the files, even those that
 * are in memory. */
int ol_partition_for_each_stored_batch(ol_partition *partition, int64_t from, int64_t to,
                                       ol_batch_function function, void *context,
                                       ol_error *error);

/* partition/overlay.c, all under writer. */
/* Reads the records in [applied, log end) from the files into the overlay.  A new leader relies on
 * these records, so damage in them must be found before it leads.  If the call fails, the overlay
 * is unchanged. */
int ol_partition_read_in_flight(ol_partition *partition, ol_error *error);
bool ol_partition_is_overlay_complete(const ol_partition *partition);
/* Called after a batch was applied, and still under `table`.  Takes the records of the batch out of
 * the overlay. */
void ol_partition_overlay_applied(ol_partition *partition, const ol_batch *batch);
/* Called when W has moved. */
void ol_partition_overlay_settled(ol_partition *partition);
/* Empties the overlay and sets value_version_unapplied to 0.  Called when leadership has ended or
 * before the log is truncated, because this replica then has no commits in flight any more. */
void ol_partition_drop_overlay(ol_partition *partition);

/* Fills *error with the reason why the partition refuses a call and with the directory of the
 * partition.  Returns `status`. */
int ol_partition_refuse(const ol_partition *partition, int status, ol_error *error,
                        const char *format, ...) OL_PRINTF(4, 5);

/* These functions are in partition/leadership.c, and the caller holds writer.
 * ol_partition_check_replicated fails with OL_INVALID if the partition is not replicated, and with
 * OL_FAILED if it has failed. */
int ol_partition_check_replicated(const ol_partition *partition, ol_error *error);
/* Fails with OL_FENCED_LEADER_EPOCH if `leader_epoch` is older than the present epoch, and with
 * OL_UNKNOWN_LEADER_EPOCH if it is newer. */
int ol_partition_check_epoch(const ol_partition *partition, int32_t leader_epoch, ol_error *error);
/* Makes the leader active if everything below the log end at its election has been applied. */
int ol_partition_activate(ol_partition *partition, ol_error *error);

/* partition/replication.c.  Moves W to `offset`, but never beyond the log end and never back.  On a
 * leader that is alone, W moves to the log end, whatever `offset` is.  The caller holds writer. */
int ol_partition_move_watermark(ol_partition *partition, int64_t offset, ol_error *error);

/* Called before a batch is written.  Makes sure that the log knows the epoch of the batch.  In a
 * store without replicas that is loaded, also makes sure that no transaction of the store's own is
 * open.  The caller holds writer. */
int ol_partition_ensure_ready(ol_partition *partition, ol_error *error);

/* Aborts the transactions that the store itself wrote and that an earlier process or a full disk
 * left open (docs/architecture.md §5).  If the call fails, the next write calls it again.  Only for
 * a store without replicas.  The caller holds writer. */
int ol_partition_abort_own(ol_partition *partition, ol_error *error);

/* Appends and applies an end-transaction marker, and moves W and `applied`.  The caller holds
 * writer. */
int ol_partition_write_marker(ol_partition *partition, int64_t producer_id, int16_t producer_epoch,
                              ol_control type, int32_t coordinator_epoch, ol_commit_result *result,
                              ol_error *error);

/* Appends an end-transaction marker as ol_partition_write_marker does, but leaves it to the caller
 * to apply it.  Sets *start to the batch of the marker.  The caller holds writer. */
int ol_partition_append_marker(ol_partition *partition, int64_t producer_id, int16_t producer_epoch,
                               ol_control type, int32_t coordinator_epoch, uint8_t **start,
                               ol_commit_result *result, ol_error *error);

#endif
