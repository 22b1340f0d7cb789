/* The part of a log that an open need not read again.
 *
 * What lies below the offset at which the caller's state begins, and was flushed as the sidecar
 * says, was right when it was flushed, and nobody needs its batches now: the state has them.  An
 * open begins its checks above it, also within a segment, where the indexes help to find a batch;
 * otherwise a restart reads every active segment whole, which is up to `segment_bytes` in each log
 * partition.  Damage below is found by whoever reads there, and by `verify`.
 *
 * Whatever is doubtful makes the open read all, as it does without a state: another program that
 * worked here, a witness that is missing, an index that is not right, a loss.  The facts that the
 * skipped batches would have given come from elsewhere: the timestamps from the time index, the
 * epochs from their checkpoint, which is on disk before any batch of theirs, and the aborted
 * transactions from the transaction index, which each flush covers. */
#include "log/file_scan.h"
#include "log/log_impl.h"

/* Everything below is settled; -1: nothing is. */
static int64_t settled_below(const ol_opening *opening) {
    const ol_log_options *options = opening->options;
    bool is_ours = opening->has_manifest && ol_completeness_is_sidecar_true(opening) &&
                   opening->manifest.epoch ==
                       ol_leader_epochs_newest(&opening->log->epochs.cache);
    if (!is_ours || opening->report->loss_count > 0 || options->accept_loss ||
        options->replicated || !opening->log->writable) {
        return -1;
    }
    int64_t flushed = opening->sidecar.bound.offset;
    return options->state_offset < flushed ? options->state_offset : flushed;
}

static int open_index(const ol_opening *opening, const ol_found_segment *segment,
                      ol_index_kind kind, ol_index *index, ol_error *error) {
    char path[OL_PATH_MAX];
    const char *suffix = kind == OL_INDEX_OFFSET ? ".index" : ".timeindex";
    int status = ol_segment_path(path, sizeof path, opening->log->directory, segment->base_offset,
                                 suffix, error);
    if (status == OL_OK) {
        status = ol_index_open(index, opening->log->fs, path, kind, segment->base_offset,
                               OL_SEGMENT_BYTES_MAX, OL_INDEX_READ, error);
    }
    if (status != OL_OK) return status;
    status = ol_index_check(index, segment->file_size, INT64_MAX, error);
    if (status != OL_OK) ol_index_close(index);
    return status;
}

/* The position of the batch that the indexes have at or below `offset`.  The time index ends before
 * the offset index where a process ended that had not written its last entries; nobody knows the
 * timestamps of the batches between. */
static int find_position(const ol_opening *opening, const ol_found_segment *segment, int64_t offset,
                         int64_t *position, ol_error *error) {
    ol_index index;
    int64_t found;
    int status = open_index(opening, segment, OL_INDEX_TIME, &index, error);
    if (status != OL_OK) return status;
    if (index.last_offset < offset) offset = index.last_offset;
    ol_index_close(&index);
    status = open_index(opening, segment, OL_INDEX_OFFSET, &index, error);
    if (status != OL_OK) return status;
    status = ol_offset_index_lookup(&index, offset, &found, position, error);
    ol_index_close(&index);
    return status;
}

/* The greatest timestamp of the batches below `offset`, of which the time index has none that
 * later batches do not bring as well. */
static int find_timestamp(const ol_opening *opening, ol_found_segment *segment, int64_t offset,
                          ol_error *error) {
    ol_index index;
    int status = open_index(opening, segment, OL_INDEX_TIME, &index, error);
    if (status != OL_OK) return status;
    status = ol_time_index_last_below(&index, offset, &segment->max_timestamp,
                                      &segment->max_timestamp_offset, error);
    ol_index_close(&index);
    return status;
}

static int check_transactions(const ol_opening *opening, const ol_found_segment *segment,
                              ol_error *error) {
    char path[OL_PATH_MAX];
    ol_transaction_index index;
    int status = ol_segment_path(path, sizeof path, opening->log->directory, segment->base_offset,
                                 ".txnindex", error);
    if (status == OL_OK) {
        status = ol_transaction_index_open(&index, opening->log->fs, path, segment->base_offset,
                                           false, error);
    }
    if (status == OL_OK) ol_transaction_index_close(&index);
    return status;
}

/* A right batch at a position. */
static int read_batch(const ol_opening *opening, const ol_found_segment *segment, int64_t position,
                      int64_t *base_offset, int64_t *timestamp, ol_error *error) {
    ol_file_scan scan;
    ol_batch batch;
    int status = ol_file_scan_open(&scan, opening->log->fs, segment->path, position, -1, error);
    if (status != OL_OK) return status;
    status = ol_file_scan_next(&scan, &batch, error);
    if (status == OL_OK) status = ol_batch_check_crc(&batch, error);
    if (status == OL_OK) {
        *base_offset = batch.base_offset;
        *timestamp = batch.max_timestamp;
    }
    ol_file_scan_close(&scan);
    return status;
}

/* Begins the checks of a segment at the last batch that its index has at or below `below`. */
static int begin_within(const ol_opening *opening, ol_found_segment *segment, int64_t below,
                        ol_error *error) {
    int64_t position = 0, offset = 0, first_offset = 0, first_timestamp = 0, ignored;
    int status = find_position(opening, segment, below, &position, error);
    if (status != OL_OK || position < opening->log->config.settled_bytes_min) {
        return status;
    }
    status = read_batch(opening, segment, 0, &first_offset, &first_timestamp, error);
    if (status == OL_OK) {
        status = read_batch(opening, segment, position, &offset, &ignored, error);
    }
    bool is_there = status == OL_OK && first_offset >= segment->base_offset &&
                    offset > first_offset && offset <= below;
    if (status == OL_OK && !is_there) {
        return ol_fail(error, OL_CORRUPT, "the index names a place where its batch is not");
    }
    ol_found_segment settled = *segment;
    if (status == OL_OK) status = check_transactions(opening, segment, error);
    if (status == OL_OK) status = find_timestamp(opening, &settled, offset, error);
    if (status != OL_OK) return status;
    settled.first_timestamp = first_timestamp;
    settled.from = position;
    settled.from_offset = offset;
    settled.settled_below = below;
    *segment = settled;
    return OL_OK;
}

int ol_settled_skip(ol_opening *opening, size_t *first, ol_error *error) {
    int64_t below = settled_below(opening);
    size_t last = opening->found_count - 1;
    while (*first < last && opening->found[*first + 1].base_offset < below) (*first)++;
    ol_found_segment *segment = &opening->found[*first];
    if (below <= segment->base_offset) return OL_OK;
    int status = begin_within(opening, segment, below, error);
    /* Then it is read whole. */
    bool is_doubtful = status == OL_CORRUPT || status == OL_TORN || status == OL_UNSUPPORTED ||
                       status == OL_END || status == OL_NO_SUCH_FILE || status == OL_LIMIT;
    return is_doubtful ? OL_OK : status;
}

/* ------------------------------------------------------------ producers beside a state */

/* More of them take longer to write than a writer should wait. */
enum { PRODUCERS_BESIDE_MAX = 4096 };

static bool is_base(ol_log *log, int64_t offset) {
    ol_segment *segment = ol_log_find_segment(log, offset);
    bool found = segment != NULL && segment->base_offset == offset;
    if (segment != NULL) ol_segment_release(segment);
    return found;
}

/* Neither that of a segment nor the newest there is.  The next open removes one that stays. */
static void remove_producers(ol_log *log, int64_t offset) {
    char path[OL_PATH_MAX];
    ol_error ignored;
    if (offset < 0 || offset == log->producers.snapshot_offset || is_base(log, offset)) return;
    int status = ol_segment_path(path, sizeof path, log->directory, offset, ".snapshot", &ignored);
    if (status == OL_OK) status = log->fs->remove(log->fs, path, &ignored);
    (void)status;
}

int ol_log_store_beside_state(ol_log *log, ol_error *error) {
    int64_t end = log->tail.next_offset, before = log->producers.beside_next;
    int status = ol_log_check_writable(log, error);
    if (status != OL_OK || log->producers.snapshot_offset >= end ||
        log->producers.map.count > PRODUCERS_BESIDE_MAX) {
        return status;
    }
    status = ol_log_store_snapshot(log, end, false, error);
    if (status != OL_OK) return status;
    log->producers.beside_next = end;
    if (before != log->producers.beside_state) remove_producers(log, before);
    return OL_OK;
}

void ol_log_settle_beside_state(ol_log *log, int64_t offset) {
    int64_t before = log->producers.beside_state;
    if (log->producers.beside_next != offset || before == offset) return;
    log->producers.beside_state = offset;
    remove_producers(log, before);
}
