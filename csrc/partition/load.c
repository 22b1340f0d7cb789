/* Loading: the log is replayed into the state, in order (ol_batch_applier), from its start or from where a snapshot ends. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/pages.h"
#include "partition/partition_impl.h"
#include "snapshot/snapshot.h"
#include "state/batch_applier.h"

enum {
    PIECE_BYTES = 512 << 10,        /* stays in the cache between checking and decoding, and is hardly seen beside the table */
};

typedef struct loader {
    ol_partition *partition;
    ol_log_reader *reader;
    ol_log_piece piece;
    int64_t limit;                  /* replicated: W; nothing at or above it is applied */
    int64_t next_offset;            /* behind the last batch that was applied or passed over */
    int64_t segment_base;           /* whose `segment_limit` it is */
    int64_t segment_limit;          /* base of the segment behind it; INT64_MAX for the last */
    bool ended;                     /* read-only: an unfinished batch was met; whatever stands behind it does not count */
    bool from_snapshot;             /* what was not read is in the state already; a gap would mean that it is another log's */
    bool is_tail_proved;            /* the batch that the limit lies in begins where the one before it ended */
    bool has_writer;                /* the last pass holds the writer lock */
    ol_batch_applier apply;
} loader;

static void report_batch(void *context, const ol_batch *batch, const ol_error *refused) {
    loader *load = context;
    ol_error found = *refused;
    ol_error_at(&found, load->piece.path, load->piece.position + (batch->data - load->piece.data));
    ol_partition_report(load->partition, &found, (int64_t)batch->size);
}

static int load_batch(loader *load, const ol_batch *batch, ol_error *error) {
    int status = ol_batch_applier_apply(&load->apply, batch, error);
    load->next_offset = batch->last_offset + 1;
    return status;
}

/* Goes on behind bytes that cannot be read; they are reported, unless they are the unfinished tail of a log that somebody else
 * writes, or the torn place where recovery found the log to end: no damage (docs/durability.md).  The load ends there: what stands behind was
 * left out by recovery, or was begun since, and with a batch missing before it must not be applied. */
static int pass_over(loader *load, const ol_error *damage, ol_error *error) {
    const ol_partition *partition = load->partition;
    bool is_end = false;
    int status = ol_log_reader_skip(load->reader, damage->position, &is_end, error);
    if (status != OL_OK) return status;
    bool unfinished = false;
    if (!ol_log_is_writable(partition->log)) {
        bool found_end = load->next_offset >= ol_log_end(partition->log);
        unfinished = (is_end || found_end) && load->next_offset >= ol_log_flushed(partition->log);
        load->ended = unfinished || is_end;
    }
    if (!unfinished) ol_partition_report(load->partition, damage, -1);
    return OL_OK;
}

/* A batch that cannot be read at `position` of the piece.  *again: the piece was read anew and is to be walked from its start. */
static int load_damaged(loader *load, size_t position, bool *again, ol_error *error) {
    ol_error damage = *error;
    int64_t file_position = load->piece.position + (int64_t)position;
    ol_error_at(&damage, load->piece.path, file_position);
    if (damage.offset < 0) damage.offset = load->next_offset;
    int status = ol_batch_applier_flush(&load->apply, error);      /* its rows borrow from the piece */
    if (status != OL_OK) return status;
    if (!ol_log_is_writable(load->partition->log)) {
        status = ol_log_reader_retry(load->reader, file_position, &load->piece, error);
        *again = status == OL_OK;
        if (status != OL_END) return status;
    }
    return pass_over(load, &damage, error);
}

/* Offsets of the current segment end where the next one begins; of the last one, at the log end (which moves while others commit). */
static int64_t offset_limit(loader *load) {
    const ol_log *log = load->partition->log;
    if (load->segment_limit == 0 || load->segment_base != load->piece.segment_base) {
        ol_log_segment_info info;
        load->segment_base = load->piece.segment_base;
        load->segment_limit = INT64_MAX;
        for (size_t i = 0; ol_log_segment_at(log, i, &info); i++) {
            if (info.base_offset <= load->segment_base) continue;
            load->segment_limit = info.base_offset;
            break;
        }
    }
    if (load->segment_limit == INT64_MAX && ol_log_is_writable(log)) return ol_log_end(log);
    return load->segment_limit;
}

/* Whether the batch behind this one, in the same piece, begins below where this one ends: then it is this one's offset that is wrong, since the
 * other fits what came before.  Asked only where there is a gap before the batch. */
static bool is_above_successor(const loader *load, const ol_batch *batch) {
    const uint8_t *behind = batch->data + batch->size;
    size_t left = load->piece.size - (size_t)(behind - load->piece.data);
    if (left < sizeof(int64_t)) return false;
    int64_t successor = ol_load_i64(behind + OL_BATCH_AT_BASE_OFFSET);
    return successor >= load->next_offset && successor <= batch->last_offset;
}

/* A batch whose CRC is right and whose offsets, which no CRC covers, cannot be: the rules by which recovery ends or condemns a log.  Only what
 * the log start leaves of the first batch may begin below. */
static int check_offsets(loader *load, const ol_batch *batch, ol_error *error) {
    if (OL_UNLIKELY(batch->last_offset >= offset_limit(load))) {
        return ol_fail(error, OL_CORRUPT, "last offset %lld is not below %lld, where the segment ends", (long long)batch->last_offset,
                       (long long)offset_limit(load));
    }
    if (OL_UNLIKELY(batch->base_offset > load->next_offset && batch->magic == 2 && is_above_successor(load, batch))) {
        return ol_fail(error, OL_CORRUPT, "base offset %lld is above that of the batch behind it", (long long)batch->base_offset);
    }
    if (OL_UNLIKELY(batch->base_offset < load->next_offset && load->apply.batches > 0)) {
        return ol_fail(error, OL_CORRUPT, "base offset %lld is below %lld, where the batch before it ended",
                       (long long)batch->base_offset, (long long)load->next_offset);
    }
    if (OL_UNLIKELY(batch->last_offset - load->piece.segment_base > INT32_MAX || batch->last_offset == INT64_MAX)) {
        return ol_fail(error, OL_CORRUPT, "last offset %lld does not fit the segment at %lld", (long long)batch->last_offset,
                       (long long)load->piece.segment_base);
    }
    return OL_OK;
}

static void start_at(loader *load, int64_t offset) {
    ol_partition *partition = load->partition;
    const ol_refusal refused = {report_batch, load};
    ol_batch_applier_init(&load->apply, &partition->state, &partition->own.open, partition->options.log.decompressor, refused);
    load->next_offset = offset;
    load->segment_limit = 0;
    load->ended = false;
    partition->load.bytes = 0;
    partition->load.bytes_total = load->from_snapshot ? 0 : ol_log_size_bytes(partition->log);
    partition->load.snapshot_offset = partition->snapshot.offset = load->from_snapshot ? offset : -1;
}

static void note_discarded(ol_partition *partition, const ol_error *why) {
    pthread_mutex_lock(&partition->problems.lock);
    partition->problems.discarded = *why;
    partition->problems.has_discarded = true;
    pthread_mutex_unlock(&partition->problems.lock);
}

/* The snapshot is not of this log as it is now: its state goes, and the log is read from its start. */
static int begin_anew(loader *load, const ol_error *why, ol_error *error) {
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
    note_discarded(partition, why);
    load->from_snapshot = false;
    start_at(load, ol_log_start(partition->log));
    ol_log_reader_close(load->reader);
    load->reader = NULL;
    load->piece.size = 0;
    return ol_log_reader_open(partition->log, load->next_offset, &load->reader, error);
}

/* At a batch that is no proof that nothing is missing before it. */
static int leave_snapshot(loader *load, const ol_batch *batch, const char *gap, ol_error *error) {
    ol_error why;
    (void)ol_fail(&why, OL_INVALID, "%s", gap);
    ol_error_at(&why, load->piece.path, load->piece.position + (batch->data - load->piece.data));
    why.offset = batch->base_offset;
    return begin_anew(load, &why, error);
}

/* Walks the current piece; *stopped when the limit was reached. */
static int load_piece(loader *load, bool *stopped, ol_error *error) {
    size_t position = 0;
    while (position < load->piece.size) {
        ol_batch batch;
        int status = ol_batch_parse(load->piece.data + position, load->piece.size - position, &batch, error);
        if (OL_LIKELY(status == OL_OK)) status = ol_batch_check_crc(&batch, error);
        if (OL_LIKELY(status == OL_OK)) status = check_offsets(load, &batch, error);
        if (OL_UNLIKELY(status != OL_OK)) {
            bool again = false;
            status = load_damaged(load, position, &again, error);
            if (status != OL_OK || !again) return status;
            position = 0;
            continue;
        }
        if (batch.last_offset >= load->limit) {
            *stopped = true;
            /* Passes that follow meet what stands behind it. */
            if (batch.base_offset == load->next_offset) load->is_tail_proved = true;
            return OL_OK;
        }
        if (batch.last_offset >= load->next_offset) {
            const char *gap = load->from_snapshot ? ol_snapshot_gap(&batch, load->next_offset) : NULL;
            if (OL_UNLIKELY(gap != NULL)) return leave_snapshot(load, &batch, gap, error);
            status = load_batch(load, &batch, error);
            if (OL_UNLIKELY(status != OL_OK)) return status;
        }
        position += batch.size;
    }
    return OL_OK;
}

static void publish_progress(loader *load) {
    load->partition->load.batches = load->apply.batches;
    load->partition->load.records = load->apply.records;
    load->partition->load.bytes += (int64_t)load->piece.size;
}

/* With the first piece behind a snapshot it is known how much there is to be read. */
static void count_tail(loader *load) {
    ol_log_segment_info info;
    int64_t bytes = -load->piece.position;
    for (size_t i = 0; ol_log_segment_at(load->partition->log, i, &info); i++) {
        if (info.base_offset >= load->piece.segment_base) bytes += info.size;
    }
    load->partition->load.bytes_total = bytes;
}

/* Reads on until the end that the log has now, or the limit.  Commits beside the load may be faster than it, so that it does not follow the
 * end; pieces end where batches do, so that nothing of one is left behind. */
static int load_to_end(loader *load, ol_error *error) {
    bool stopped = false;
    int64_t end = ol_log_end(load->partition->log);
    while (!stopped && !load->ended) {
        if (ol_log_is_writable(load->partition->log) && load->next_offset >= end && load->apply.batches > 0) return OL_OK;
        int status = ol_log_reader_next(load->reader, PIECE_BYTES, &load->piece, error);
        if (status == OL_CORRUPT) {
            ol_error damage = *error;
            if (damage.offset < 0) damage.offset = load->next_offset;
            status = pass_over(load, &damage, error);
            if (status == OL_OK) continue;
        }
        if (status != OL_OK) {
            ol_error ignored;
            int applied = ol_batch_applier_flush(&load->apply, status == OL_END ? error : &ignored);
            return status == OL_END ? applied : status;
        }
        if (load->from_snapshot && load->apply.batches == 0) count_tail(load);
        status = load_piece(load, &stopped, error);
        if (status == OL_OK) status = ol_batch_applier_flush(&load->apply, error);
        publish_progress(load);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

/* Our own transactions that a crash left open are closed with ABORT by a lone store (docs/architecture.md §4). */
static int abort_own(ol_partition *partition, ol_error *error) {
    while (partition->own.open.count > 0) {
        int64_t producer_id = partition->own.open.ids[0];
        ol_commit_result result;
        int status = ol_partition_ensure_epoch(partition, error);
        if (status != OL_OK) return status;
        status = ol_partition_write_marker(partition, producer_id, -1, OL_CONTROL_ABORT, 0, &result, error);
        if (status != OL_OK) return status;
        partition->load.aborted_own++;
    }
    return OL_OK;
}

/* The newest timestamp of the log, unless it is absurd: a clock that ran days ahead must not be carried on for ever. */
static int64_t sane_timestamp(const ol_partition *partition, int64_t max_timestamp) {
    const int64_t day_ms = 86400000;
    int64_t now = ol_partition_now(partition);
    return max_timestamp > now + day_ms ? now : max_timestamp;
}

static void keep_time(const loader *load) {
    load->partition->clock.newest_loaded = load->apply.max_timestamp;
    load->partition->clock.last_timestamp = sane_timestamp(load->partition, load->apply.max_timestamp);
}

/* Everything up to the log end was walked; what was not, and was not reported, is damage that looked like an end. */
static void check_complete(loader *load) {
    ol_partition *partition = load->partition;
    int64_t end = ol_log_end(partition->log);
    if (load->next_offset == end || !ol_log_is_writable(partition->log) || partition->problems.count > 0) return;
    ol_log_segment_info last = {0}, info;
    for (size_t i = 0; ol_log_segment_at(partition->log, i, &info); i++) last = info;
    if (last.size == 0 && last.base_offset == end) return;      /* the end of the log was compacted away (docs/format/traps.md trap 25) */
    ol_error damage;
    ol_fail(&damage, OL_CORRUPT, "the log ends at offset %lld, but only what is below %lld could be read", (long long)end,
            (long long)load->next_offset);
    ol_error_at(&damage, last.path, -1);
    damage.offset = load->next_offset;
    ol_partition_report(partition, &damage, -1);
}

/* A transaction of ours that cannot be closed now (a full disk, say) must not keep the partition from being read. */
static int close_own(ol_partition *partition, ol_error *error) {
    int status = abort_own(partition, error);
    if (status == OL_OK || status == OL_NO_MEMORY || ol_log_has_failed(partition->log)) return status;
    ol_partition_report(partition, error, -1);
    return OL_OK;
}

/* The last pass is over.  Batches prove that nothing is missing before them; that nothing is missing behind the last one, only the end tells: a cleaner may
 * have taken all that stood there, tombstones of what the snapshot has among it. */
static int check_tail(loader *load, ol_error *error) {
    const ol_partition *partition = load->partition;
    if (!load->from_snapshot || load->ended || load->is_tail_proved) return OL_OK;
    int64_t end = ol_log_end(partition->log);
    if (load->limit < end) end = load->limit;
    if (load->next_offset >= end) return OL_OK;
    ol_error why;
    (void)ol_fail(&why, OL_INVALID, "nothing stands in the log from offset %lld to %lld", (long long)load->next_offset, (long long)end);
    why.offset = load->next_offset;
    int status = begin_anew(load, &why, error);
    return status != OL_OK ? status : load_to_end(load, error);
}

/* Replicated: W may have moved meanwhile, and what lies between counts as applied once the load is over.  The reader stands behind the limit that it
 * was given, so that another one reads on. */
static int finish_replicated(loader *load, ol_error *error) {
    ol_partition *partition = load->partition;
    if (partition->watermark > load->limit) {
        load->limit = partition->watermark;
        load->is_tail_proved = false;
        ol_log_reader_close(load->reader);
        load->reader = NULL;
        int status = ol_log_reader_open(partition->log, load->next_offset, &load->reader, error);
        if (status == OL_OK) status = load_to_end(load, error);
        if (status == OL_OK) status = check_tail(load, error);
        if (status != OL_OK) return status;
    }
    keep_time(load);
    ol_partition_set_positions(partition, partition->watermark, partition->watermark);
    int loading = OL_ROLE_LOADING;
    atomic_compare_exchange_strong(&partition->role, &loading, OL_ROLE_FOLLOWER);
    return OL_OK;
}

static int finish(loader *load, ol_error *error) {
    ol_partition *partition = load->partition;
    if (partition->options.replicated) return finish_replicated(load, error);
    check_complete(load);
    keep_time(load);
    /* What somebody else appended since the log was opened is in the state, too. */
    if (!ol_log_is_writable(partition->log)) ol_log_record_end(partition->log, load->next_offset);
    int64_t end = ol_log_end(partition->log);
    ol_partition_set_positions(partition, end, end);
    if (!partition->read_only) {
        int status = close_own(partition, error);
        if (status != OL_OK) return status;
    }
    /* A flush that failed meanwhile has made it FAILED, and that it stays. */
    int loading = OL_ROLE_LOADING;
    atomic_compare_exchange_strong(&partition->role, &loading, OL_ROLE_ACTIVE);
    return OL_OK;
}

static int run(loader *load, ol_error *error) {
    ol_partition *partition = load->partition;
    /* The first pass runs beside commits; what they appended meanwhile is read again and again, the last of it with the writer kept out. */
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
    return status;
}

/* The state of a snapshot takes the place of the empty one, which the snapshot is destroyed with. */
static void adopt(ol_partition *partition, ol_snapshot *snapshot) {
    pthread_mutex_lock(&partition->table);
    ol_snapshot_swap_state(snapshot, &partition->state, &partition->own.open);
    pthread_mutex_unlock(&partition->table);
}

static int begin(ol_partition *partition, ol_snapshot *snapshot, ol_error *error) {
    int status = OL_OK;
    pthread_mutex_lock(&partition->writer);
    if (partition->load_runs || partition->role != OL_ROLE_UNLOADED) {
        status = ol_fail(error, OL_INVALID, "a partition is loaded once");
    } else {
        partition->load_runs = true;
        partition->role = OL_ROLE_LOADING;
        partition->problems.has_discarded = false;
        if (snapshot != NULL) adopt(partition, snapshot);
    }
    pthread_mutex_unlock(&partition->writer);
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
    start_at(load, facts.offset);
    if (snapshot != NULL) load->apply.max_timestamp = facts.max_timestamp;
    int status = ol_log_reader_open(partition->log, load->next_offset, &load->reader, error);
    if (status == OL_OK) status = run(load, error);
    if (load->reader != NULL) ol_log_reader_close(load->reader);
    ol_pages_free(load, sizeof *load);
    return status;
}

static int load_state(ol_partition *partition, ol_snapshot *snapshot, ol_error *error) {
    int status = begin(partition, snapshot, error);
    if (status != OL_OK) return status;
    status = load_from(partition, snapshot, error);
    if (status != OL_OK) {
        /* Both at once: a commit in between would take the partition for one that nobody loads. */
        pthread_mutex_lock(&partition->writer);
        partition->load_runs = false;
        ol_partition_fail(partition);
        pthread_mutex_unlock(&partition->writer);
    }
    return status;
}

int ol_partition_load(ol_partition *partition, ol_error *error) { return load_state(partition, NULL, error); }

int ol_partition_load_from(ol_partition *partition, ol_snapshot *snapshot, ol_error *error) {
    ol_snapshot_facts facts;
    ol_snapshot_report(snapshot, &facts);
    ol_error above;
    bool is_above = partition->options.replicated && facts.offset > partition->watermark;
    if (is_above) {
        (void)ol_fail(&above, OL_INVALID, "it is of offset %lld, above the watermark %lld", (long long)facts.offset,
                      (long long)partition->watermark);
    }
    int status = load_state(partition, is_above ? NULL : snapshot, error);
    if (is_above) note_discarded(partition, &above);
    ol_snapshot_destroy(snapshot);
    return status;
}
