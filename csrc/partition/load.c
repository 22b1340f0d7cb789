/* Loads a partition: replays the log into the state, in order (ol_batch_applier), from the log
 * start or from the offset of a snapshot. */
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "log/batch_walk.h"
#include "partition/partition_impl.h"
#include "snapshot/snapshot.h"
#include "state/batch_applier.h"

typedef struct loader {
    ol_partition *partition;
    ol_batch_walk walk;
    ol_batch_walk_reporter reporter;
    int64_t limit;                  /* replicated: W; nothing at or above it is applied */
    bool stopped;                   /* the load met a batch that reaches the limit */
    bool from_snapshot;             /* the batches below it were not read; a gap would mean that the
                                       snapshot belongs to another log */
    bool is_tail_proved;            /* the batch that reaches the limit begins where the one
                                       before it ended */
    bool has_writer;                /* the last pass holds the writer lock */
    ol_batch_applier apply;
} loader;

static int64_t next_offset(const loader *load) { return ol_batch_walk_next_offset(&load->walk); }

/* ------------------------------------------------------------ reports */

static void report_batch(void *context, const ol_batch *batch, const ol_error *refused) {
    loader *load = context;
    const ol_log_piece *piece = &load->walk.piece;
    ol_error found = *refused;
    ol_error_at(&found, piece->path, piece->position + (batch->data - piece->data));
    ol_partition_report(load->partition, &found, batch->base_offset, ol_batch_next_offset(batch));
}

static void report_damage(void *context, const ol_error *damage, int64_t below) {
    loader *load = context;
    ol_partition_report(load->partition, damage, damage->offset, below);
}

static void publish_progress(loader *load) {
    load->partition->load.batches = load->apply.batches;
    load->partition->load.records = load->apply.records;
    load->partition->load.bytes = load->walk.bytes + (int64_t)load->walk.position;
}

/* Rows borrow from the bytes that the walk is about to release. */
static int release_bytes(void *context, ol_error *error) {
    loader *load = context;
    int status = ol_batch_applier_flush(&load->apply, error);
    publish_progress(load);
    return status;
}

/* ------------------------------------------------------------ the beginning */

static int start_at(loader *load, int64_t offset, ol_error *error) {
    ol_partition *partition = load->partition;
    const ol_refusal refused = {report_batch, load};
    ol_batch_applier_init(&load->apply, &partition->state, &partition->own.open,
                          partition->options.log.decompressor, refused);
    load->reporter = (ol_batch_walk_reporter){release_bytes, report_damage, load};
    load->stopped = false;
    partition->load.bytes = 0;
    partition->load.bytes_total = load->from_snapshot ? 0 : ol_log_size_bytes(partition->log);
    partition->snapshot.offset = load->from_snapshot ? offset : -1;
    partition->load.snapshot_offset = partition->snapshot.offset;
    return ol_batch_walk_open_reported(&load->walk, partition->log, offset, &load->reporter, error);
}

static void record_discarded(ol_partition *partition, const ol_error *why) {
    pthread_mutex_lock(&partition->problems.lock);
    partition->problems.discarded = *why;
    partition->problems.has_discarded = true;
    pthread_mutex_unlock(&partition->problems.lock);
}

/* Called when the snapshot does not match the present log: drops its state, and reads the log from
 * its start. */
static int begin_again(loader *load, const ol_error *why, ol_error *error) {
    ol_partition *partition = load->partition;
    ol_state fresh;
    int status = ol_state_create(&fresh, error);
    if (status != OL_OK) return status;
    if (!load->has_writer) pthread_mutex_lock(&partition->writer);
    pthread_mutex_lock(&partition->table);
    ol_state_destroy(&partition->state);
    partition->state = fresh;
    partition->own.open.count = 0;
    pthread_mutex_unlock(&partition->table);
    if (!load->has_writer) pthread_mutex_unlock(&partition->writer);
    record_discarded(partition, why);
    load->from_snapshot = false;
    ol_batch_walk_close(&load->walk);
    return start_at(load, ol_log_start(partition->log), error);
}

/* Called when the batch does not prove that nothing is missing before it. */
static int leave_snapshot(loader *load, const ol_batch *batch, const char *gap, ol_error *error) {
    const ol_log_piece *piece = &load->walk.piece;
    ol_error why;
    (void)ol_fail(&why, OL_INVALID, "%s", gap);
    ol_error_at(&why, piece->path, piece->position + (batch->data - piece->data));
    why.offset = batch->base_offset;
    return begin_again(load, &why, error);
}

/* ------------------------------------------------------------ one pass */

/* The first batch after a snapshot shows how many bytes are left to read. */
static void count_tail(loader *load) {
    const ol_log_piece *piece = &load->walk.piece;
    ol_log_segment_info info;
    int64_t bytes = -piece->position;
    for (size_t i = 0; ol_log_segment_at(load->partition->log, i, &info); i++) {
        if (info.base_offset >= piece->segment_base) bytes += info.size;
    }
    load->partition->load.bytes_total = bytes;
}

/* Ends the pass before the batch; a later pass applies it, once the limit has moved above it. */
static int stop_before(loader *load, const ol_batch *batch, ol_error *error) {
    load->stopped = true;
    load->is_tail_proved = batch->base_offset == load->walk.previous_offset;
    int status = ol_batch_applier_flush(&load->apply, error);
    ol_batch_walk_put_back(&load->walk);
    return status == OL_OK ? OL_END : status;
}

/* *left: the batch shows that the snapshot cannot be used, and the load begins again. */
static OL_NOINLINE int check_after_snapshot(loader *load, const ol_batch *batch, bool *left,
                                            ol_error *error) {
    if (load->apply.batches == 0) count_tail(load);
    if (batch->last_offset >= load->limit) return OL_OK;
    const char *gap = ol_snapshot_gap(batch, load->walk.previous_offset);
    *left = gap != NULL;
    return *left ? leave_snapshot(load, batch, gap, error) : OL_OK;
}

static inline int load_batch(loader *load, const ol_batch *batch, ol_error *error) {
    if (OL_UNLIKELY(load->from_snapshot)) {
        bool left = false;
        int status = check_after_snapshot(load, batch, &left, error);
        if (status != OL_OK || left) return status;
    }
    if (OL_UNLIKELY(batch->last_offset >= load->limit)) return stop_before(load, batch, error);
    return ol_batch_applier_apply(&load->apply, batch, error);
}

/* Returns whether the pass has reached `end`.  Called only between pieces, which end where batches
 * do, so that no part of a batch is left. */
static inline bool is_pass_over(const loader *load, int64_t end) {
    if (OL_LIKELY(!ol_batch_walk_is_between_pieces(&load->walk))) return false;
    return ol_log_is_writable(load->partition->log) && next_offset(load) >= end &&
           load->apply.batches > 0;
}

/* Reads up to the present log end, or to the limit.  Concurrent commits may be faster than the
 * load, so a pass does not follow the moving end. */
static int load_to_end(loader *load, ol_error *error) {
    int64_t end = ol_log_end(load->partition->log);
    int status = load->stopped ? OL_END : OL_OK;
    while (status == OL_OK && !is_pass_over(load, end)) {
        ol_batch batch;
        status = ol_batch_walk_next(&load->walk, &batch, error);
        if (OL_LIKELY(status == OL_OK)) status = load_batch(load, &batch, error);
    }
    if (status == OL_OK || status == OL_END) status = ol_batch_applier_flush(&load->apply, error);
    publish_progress(load);
    return status;
}

/* Called when everything up to the log end was walked: bytes that were neither read nor reported
 * are damage that looked like an end. */
static void check_complete(loader *load) {
    ol_partition *partition = load->partition;
    int64_t end = ol_log_end(partition->log);
    if (next_offset(load) == end || !ol_log_is_writable(partition->log) ||
        partition->read_only) {
        return;
    }
    ol_log_segment_info last = {0}, info;
    for (size_t i = 0; ol_log_segment_at(partition->log, i, &info); i++) last = info;
    /* The end of the log was compacted away (docs/format/traps.md trap 25). */
    if (last.size == 0 && last.base_offset == end) return;
    ol_error damage;
    ol_fail(&damage, OL_CORRUPT,
            "the log ends at offset %lld, but only records below %lld could be read",
            (long long)end, (long long)next_offset(load));
    ol_error_at(&damage, last.path, -1);
    damage.offset = next_offset(load);
    ol_partition_report(partition, &damage, next_offset(load), end);
}

/* An own transaction that cannot be closed now must not keep the partition from being read.  On a
 * full disk the next write tries again; until then the partition works. */
static int close_own(ol_partition *partition, ol_error *error) {
    if (partition->own.open.count == 0) return OL_OK;
    int status = ol_partition_abort_own(partition, error);
    if (status == OL_OK || status == OL_NO_MEMORY || ol_log_has_failed(partition->log)) {
        return status;
    }
    if (status != OL_DISK_FULL) ol_partition_report(partition, error, -1, -1);
    return OL_OK;
}

/* Keeps space so that clients can end the transactions that they left open, even if the disk is
 * full by then.  If no space can be kept now, the next transaction that begins keeps it. */
static int keep_ends(ol_partition *partition, ol_error *error) {
    ol_log_transaction first;
    if (!ol_log_open_transaction_at(partition->log, 0, &first)) return OL_OK;
    int status = ol_partition_ensure_ready(partition, error);
    if (status == OL_OK) status = ol_log_keep_ends(partition->log, error);
    return ol_log_has_failed(partition->log) ? status : OL_OK;
}

/* Called after the last pass.  Each batch proves that nothing is missing before it.  If the log
 * ends above the last batch, nothing proves that for the offsets in between: a cleaner may have
 * removed all batches there, including tombstones of the snapshot's values. */
static int check_tail(loader *load, ol_error *error) {
    const ol_partition *partition = load->partition;
    if (!load->from_snapshot || load->walk.ended || load->is_tail_proved) return OL_OK;
    int64_t end = ol_log_end(partition->log);
    if (load->limit < end) end = load->limit;
    if (next_offset(load) >= end) return OL_OK;
    ol_error why;
    (void)ol_fail(&why, OL_INVALID,
                  "the log has no batch from offset %lld up to offset %lld",
                  (long long)next_offset(load), (long long)end);
    why.offset = next_offset(load);
    int status = begin_again(load, &why, error);
    return status != OL_OK ? status : load_to_end(load, error);
}

/* For a replicated partition.  W may have moved meanwhile, and the batches in between count as
 * applied once the load is over. */
static int finish_replicated(loader *load, ol_error *error) {
    ol_partition *partition = load->partition;
    if (partition->leadership.alone) {
        ol_partition_set_positions(partition, ol_log_end(partition->log), partition->applied);
    }
    if (partition->watermark > load->limit) {
        load->limit = partition->watermark;
        load->stopped = load->is_tail_proved = false;
        int status = load_to_end(load, error);
        if (status == OL_OK) status = check_tail(load, error);
        if (status != OL_OK) return status;
    }
    ol_batch_clock_record(&partition->clock, load->apply.max_timestamp);
    ol_partition_set_positions(partition, partition->watermark, partition->watermark);
    partition->load_runs = false;
    if (partition->leadership.leads) {
        ol_error why;  /* the partition stays loading, and the next advance or commit tries again */
        (void)!ol_partition_move_watermark(partition, 0, &why);
        return OL_OK;
    }
    int loading = OL_ROLE_LOADING;
    atomic_compare_exchange_strong(&partition->role, &loading, OL_ROLE_FOLLOWER);
    return OL_OK;
}

static int finish(loader *load, ol_error *error) {
    ol_partition *partition = load->partition;
    if (partition->options.replicated) return finish_replicated(load, error);
    check_complete(load);
    ol_partition_widen_problems(partition);
    ol_batch_clock_record(&partition->clock, load->apply.max_timestamp);
    /* Batches that another process appended since the log was opened are in the state, too. */
    if (!ol_log_is_writable(partition->log)) ol_log_record_end(partition->log, next_offset(load));
    int64_t end = ol_log_end(partition->log);
    ol_partition_set_positions(partition, end, end);
    if (!partition->read_only) {
        int status = close_own(partition, error);
        bool is_closed = partition->own.open.count == 0 && !partition->read_only;
        if (status == OL_OK && is_closed) status = keep_ends(partition, error);
        if (status != OL_OK) return status;
    }
    /* A flush that failed meanwhile has made it FAILED, and it stays so. */
    int loading = OL_ROLE_LOADING;
    atomic_compare_exchange_strong(&partition->role, &loading, OL_ROLE_ACTIVE);
    return OL_OK;
}

static int run(loader *load, ol_error *error) {
    ol_partition *partition = load->partition;
    /* The first passes run concurrently with commits, and each reads the batches appended during
     * the one before; the last pass keeps the writer out. */
    int status = OL_OK;
    for (int pass = 0; pass < 3 && status == OL_OK; pass++) status = load_to_end(load, error);
    if (status != OL_OK) return status;
    pthread_mutex_lock(&partition->writer);
    load->has_writer = true;
    status = load_to_end(load, error);
    if (status == OL_OK) status = check_tail(load, error);
    if (status == OL_OK) status = finish(load, error);
    if (status == OL_OK) partition->load_runs = false;
    pthread_mutex_unlock(&partition->writer);
    ol_partition_wake(partition, false);
    return status;
}

/* Replaces the empty state by that of a snapshot; the empty one is destroyed with the snapshot. */
static void adopt(ol_partition *partition, ol_snapshot *snapshot) {
    pthread_mutex_lock(&partition->table);
    ol_snapshot_swap_state(snapshot, &partition->state, &partition->own.open);
    pthread_mutex_unlock(&partition->table);
}

static int begin(ol_partition *partition, ol_snapshot *snapshot, ol_error *error) {
    int status = OL_OK;
    pthread_mutex_lock(&partition->load_gate);
    pthread_mutex_lock(&partition->writer);
    if (partition->load_runs || partition->role != OL_ROLE_UNLOADED) {
        status = ol_fail(error, OL_INVALID,
                         "the partition is loaded or loading already, or has failed");
    } else {
        partition->load_runs = true;
        partition->role = OL_ROLE_LOADING;
        partition->problems.has_discarded = false;
        if (snapshot != NULL) adopt(partition, snapshot);
    }
    pthread_mutex_unlock(&partition->writer);
    pthread_mutex_unlock(&partition->load_gate);
    return status;
}

static int load_from(ol_partition *partition, ol_snapshot *snapshot, ol_error *error) {
    loader *load = ol_pages_allocate(sizeof *load);
    if (load == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to load a partition");
    load->partition = partition;
    load->from_snapshot = snapshot != NULL;
    load->limit = partition->options.replicated ? partition->watermark : INT64_MAX;
    ol_snapshot_facts facts = {.offset = ol_log_start(partition->log)};
    if (snapshot != NULL) ol_snapshot_report(snapshot, &facts);
    int status = start_at(load, facts.offset, error);
    if (snapshot != NULL) load->apply.max_timestamp = facts.max_timestamp;
    if (status == OL_OK) status = run(load, error);
    ol_batch_walk_close(&load->walk);
    ol_pages_free(load, sizeof *load);
    return status;
}

static int load_state(ol_partition *partition, ol_snapshot *snapshot, ol_error *error) {
    int status = begin(partition, snapshot, error);
    if (status != OL_OK) return status;
    status = load_from(partition, snapshot, error);
    if (status != OL_OK) {
        /* Both are set together; otherwise a commit in between would find a partition that no
         * thread loads. */
        pthread_mutex_lock(&partition->writer);
        partition->load_runs = false;
        ol_partition_fail(partition);
        pthread_mutex_unlock(&partition->writer);
    }
    return status;
}

int ol_partition_load(ol_partition *partition, ol_error *error) {
    return load_state(partition, NULL, error);
}

int ol_partition_load_from(ol_partition *partition, ol_snapshot *snapshot, ol_error *error) {
    ol_snapshot_facts facts;
    ol_snapshot_report(snapshot, &facts);
    ol_error above;
    bool is_above = partition->options.replicated && facts.offset > partition->watermark;
    if (is_above) {
        (void)ol_fail(&above, OL_INVALID,
                      "the snapshot's log offset %lld is above the high watermark %lld",
                      (long long)facts.offset, (long long)partition->watermark);
    }
    int status = load_state(partition, is_above ? NULL : snapshot, error);
    if (is_above) record_discarded(partition, &above);
    ol_snapshot_destroy(snapshot);
    return status;
}
