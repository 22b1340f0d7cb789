/* partition/partition_impl: the partition's own structure, shared by its source files and nobody else. */
#ifndef OL_PARTITION_PARTITION_IMPL_H
#define OL_PARTITION_PARTITION_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "partition/commit/commit.h"
#include "partition/partition.h"
#include "state/in_flight.h"

struct ol_partition {
    ol_partition_options options;
    ol_log *log;

    pthread_mutex_t writer;
    pthread_mutex_t table;
    ol_state state;                 /* changed under writer and table */
    ol_in_flight inflight;           /* changed under writer; replicated only */

    _Atomic int role;               /* ol_role; changed under writer */
    _Atomic int64_t watermark;
    _Atomic int64_t applied;
    _Atomic bool read_only;

    /* Under writer. */
    bool epoch_assigned;            /* the log knows the epoch that our appends carry */
    int32_t leader_epoch;
    int64_t last_timestamp;         /* of our newest batch, or of the log when it was loaded; batches never go back */
    int64_t newest_loaded;          /* time of the newest batch when it was loaded, as the log has it */
    int64_t elected_end;            /* log end when leadership began: active when applied has reached it */
    bool load_runs;
    ol_commit_scratch scratch;
    int64_t last_own_producer_id;
    ol_own_transactions own;        /* open ones that carry our header */

    pthread_mutex_t wait_lock;      /* innermost: nothing is locked with it held */
    pthread_cond_t wait_changed;
    _Atomic bool flushing;          /* changed under wait_lock: one flush serves all who wait */

    _Atomic int64_t last_flush_ns;          /* how long it took, monotonic */
    _Atomic int64_t last_flush_end_ns;

    /* The flusher's, changed under its lock. */
    ol_partition *flush_next;
    int64_t flush_end;
    bool flush_unasked;             /* nobody waits for it */
    _Atomic bool flush_begun;       /* queued, or a thread is at it */

    _Atomic uint64_t term;          /* changed under writer and wait_lock: counts the times that leadership ended or the log was cut */

    _Atomic int64_t load_bytes, load_bytes_total, load_batches, load_records, load_aborted;
    _Atomic int64_t load_snapshot;  /* offset of the snapshot that the load began with, -1 none */
    pthread_mutex_t snapshot_lock;  /* behind writer; a snapshot takes its place, or a truncation makes it invalid */
    _Atomic int64_t snapshot_file;  /* offset of the snapshot in the directory; -1 none, or unknown */
    pthread_mutex_t problem_lock;
    bool has_discarded;             /* the load dropped the snapshot that it began with, */
    ol_error discarded;             /* and why */
    ol_problem *problems;           /* the first of them; hardly any partition has one */
    int64_t problems_kept;
    int64_t problem_count;
};

/* The header that tells the flushed bound (docs/durability.md). */
#define OL_HEADER_FLUSHED "ol.flushed"

int64_t ol_partition_now(const ol_partition *partition);

/* The one setter of W and applied; asserts written >= W >= applied.  Under writer. */
void ol_partition_set_positions(ol_partition *partition, int64_t watermark, int64_t applied);

/* From now on everything is refused with OL_FAILED; who waits is woken. */
void ol_partition_fail(ol_partition *partition);

/* Wakes who waits for flushed or W; `deposed` (under writer) also ends their term. */
void ol_partition_wake(ol_partition *partition, bool deposed);

/* Keeps a problem and makes the partition read-only. */
void ol_partition_report(ol_partition *partition, const ol_error *error, int64_t bytes);

/* Under snapshot_lock: removes the snapshot from the directory, durably; that there is none is fine. */
int ol_partition_drop_snapshot(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* OL_OK when the role allows commits: `needs_state` for those that look at what is there. */
int ol_partition_check_writable(const ol_partition *partition, bool needs_state, ol_error *error);

/* Under writer: makes sure that the log knows the epoch that our batches will carry. */
int ol_partition_ensure_epoch(ol_partition *partition, ol_error *error);

/* Under writer: appends and applies an end-transaction marker; positions move. */
int ol_partition_write_marker(ol_partition *partition, int64_t producer_id, int16_t producer_epoch, ol_control type,
                              int32_t coordinator_epoch, ol_commit_result *result, ol_error *error);

/* Under writer: the same without the apply, which is the caller's; *start is the marker's batch. */
int ol_partition_append_marker(ol_partition *partition, int64_t producer_id, int16_t producer_epoch, ol_control type,
                               int32_t coordinator_epoch, uint8_t **start, ol_commit_result *result, ol_error *error);

/* Under writer: what ol_partition_commit does once the locks are taken. */
int ol_partition_commit_locked(ol_partition *partition, const ol_item *items, size_t count, int64_t producer_id,
                               int16_t producer_epoch, ol_commit_result *result, ol_error *error);

#endif
