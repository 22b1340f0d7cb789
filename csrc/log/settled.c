/* The part of a log that an open need not read again.
 *
 * The caller of the open has a state with a mark (log/mark.h).  The state contains the batches
 * below the mark, so the open need not read them for the state.  If the sidecar says that
 * everything below the mark was flushed, the open need not check them either: they were right when
 * they were flushed.  The open then begins its checks at the mark, usually within a segment.
 * Otherwise a restart would read every active segment whole, up to `segment_bytes` in each log
 * partition.  Damage below the mark is found later, by readers and by `verify`.
 *
 * The mark contains everything else that the skipped batches would give: producers, the checksum
 * and timestamps.  If anything is doubtful, the open reads everything, as it does without a state:
 * another program wrote to the directory, a witness (manifest, sidecar or checkpoint) is missing,
 * an index is wrong, or there is a loss. */
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "log/file_scan.h"
#include "log/log_impl.h"

enum { ABORTED_MAX = 4096, PRODUCERS_MAX = 4096 };

/* ------------------------------------------------------------ the mark */

static uint32_t crc_of_aborted(const ol_transaction_index *index, size_t count) {
    uint32_t crc = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[OL_TRANSACTION_INDEX_ENTRY_SIZE];
        ol_transaction_index_encode(bytes, &index->entries[i]);
        crc = ol_crc32c_extend(crc, bytes, sizeof bytes);
    }
    return crc;
}

int ol_log_take_mark(ol_log *log, ol_log_mark *mark, ol_error *error) {
    const ol_segment *active = log->tail.active;
    const ol_transaction_index *aborted = &active->transaction_index;
    *mark = (ol_log_mark){0};
    if (!active->has_checksum || active->is_index_cut || aborted->count > ABORTED_MAX ||
        log->producers.map.count > PRODUCERS_MAX) {
        return OL_OK;
    }
    size_t size = 0;
    int status = ol_producers_encode(&log->producers.map, &mark->producers, &size, error);
    if (status != OL_OK || size > OL_LOG_MARK_PRODUCERS_SIZE_MAX) {
        ol_log_mark_free(mark);
        return status;
    }
    mark->offset = log->tail.next_offset;
    mark->segment_base = active->base_offset;
    mark->position = log->tail.size;
    mark->first_timestamp = active->first_timestamp;
    mark->max_timestamp = active->max_timestamp;
    mark->max_timestamp_offset = active->max_timestamp_offset;
    mark->checksum = active->checksum;
    mark->aborted_count = (uint32_t)aborted->count;
    mark->aborted_crc = crc_of_aborted(aborted, aborted->count);
    mark->producers_size = (uint32_t)size;
    return OL_OK;
}

void ol_log_mark_free(ol_log_mark *mark) {
    free(mark->producers);
    *mark = (ol_log_mark){0};
}

/* ------------------------------------------------------------ an open */

/* Returns whether a flush covered the roll to the segment of the mark, and so the indexes and the
 * end of the segment before it.  A flush that covered a batch of the segment did.  The bound may
 * name a segment without any, of which this is not known (ol_log_settle_bound). */
static bool is_roll_flushed(const ol_flush_sidecar_bound *bound, const ol_log_mark *mark) {
    if (bound->segment_base > mark->segment_base) return true;
    return bound->segment_base == mark->segment_base &&
           (mark->position > 0 || bound->position > 0);
}

/* Returns whether everything below the mark was flushed, and only we worked here since. */
static bool is_believed(const ol_opening *opening) {
    const ol_log_options *options = opening->options;
    const ol_log_mark *mark = options->mark;
    return mark != NULL && mark->offset > 0 && mark->position >= 0 && opening->has_manifest &&
           ol_completeness_is_sidecar_true(opening) &&
           opening->sidecar.bound.offset >= mark->offset &&
           is_roll_flushed(&opening->sidecar.bound, mark) &&
           opening->manifest.epoch == ol_leader_epochs_newest(&opening->log->epochs.cache) &&
           opening->report->loss_count == 0 && !options->accept_loss && !options->replicated &&
           opening->log->writable;
}

/* Checks that the batch that was appended after the mark is at the mark; a cleaner that removed
 * anything before it has moved it.  In the last segment no batch may follow the mark yet. */
static int check_place(const ol_opening *opening, const ol_found_segment *segment, bool is_last,
                       bool *is_there, ol_error *error) {
    const ol_log_mark *mark = opening->options->mark;
    ol_file_scan scan;
    ol_batch batch;
    int64_t used = mark->position;
    *is_there = false;
    if (mark->position > segment->file_size) return OL_OK;
    int status = ol_file_scan_open(&scan, opening->log->fs, segment->path, mark->position, -1,
                                   error);
    if (status != OL_OK) return status;
    status = ol_file_scan_next(&scan, &batch, error);
    if (status == OL_OK) {
        *is_there = ol_batch_check_crc(&batch, error) == OL_OK &&
                    batch.base_offset == mark->offset;
    } else if (is_last && status != OL_IO && status != OL_NO_MEMORY) {
        status = ol_file_scan_used(&scan, mark->position, &used, error);
        *is_there = status == OL_OK && used == mark->position;
    }
    ol_file_scan_close(&scan);
    return status == OL_IO || status == OL_NO_MEMORY ? status : OL_OK;
}

static int check_index(const ol_opening *opening, const ol_found_segment *segment,
                       const char *suffix, ol_index_kind kind, ol_error *error) {
    char path[OL_PATH_MAX];
    int status = ol_segment_path(path, sizeof path, opening->log->directory, segment->base_offset,
                                 suffix, error);
    if (status != OL_OK) return status;
    return ol_index_check_file(kind, opening->log->fs, path, OL_SEGMENT_BYTES_MAX,
                               segment->base_offset, segment->file_size, INT64_MAX, error);
}

static int open_transactions(const ol_opening *opening, const ol_found_segment *segment,
                             ol_transaction_index *index, ol_error *error) {
    char path[OL_PATH_MAX];
    int status = ol_segment_path(path, sizeof path, opening->log->directory, segment->base_offset,
                                 ".txnindex", error);
    if (status != OL_OK) return status;
    return ol_transaction_index_open(index, opening->log->fs, path, segment->base_offset, false,
                                     error);
}

/* Checks the transaction indexes of closed segments below, because only a walk with the producers
 * of that time could rebuild them. */
static int check_transactions_below(const ol_opening *opening, size_t at, ol_error *error) {
    int status = OL_OK;
    for (size_t i = 0; i < at && status == OL_OK; i++) {
        ol_transaction_index index;
        status = open_transactions(opening, &opening->found[i], &index, error);
        if (status == OL_OK) ol_transaction_index_close(&index);
    }
    return status;
}

/* Checks that the aborted transactions below the mark are the same as when the mark was taken. */
static int check_transactions(const ol_opening *opening, const ol_found_segment *segment,
                              ol_error *error) {
    const ol_log_mark *mark = opening->options->mark;
    ol_transaction_index index;
    int status = open_transactions(opening, segment, &index, error);
    if (status != OL_OK) return status;
    bool is_same = index.count >= mark->aborted_count &&
                   crc_of_aborted(&index, mark->aborted_count) == mark->aborted_crc &&
                   (index.count == mark->aborted_count ||
                    index.entries[mark->aborted_count].last_offset >= mark->offset);
    ol_transaction_index_close(&index);
    if (is_same) return OL_OK;
    return ol_fail(error, OL_CORRUPT, "the aborted transactions below the mark have changed");
}

static int check_producers(const ol_log_mark *mark, ol_error *error) {
    ol_producers producers = {0};
    int status = ol_producers_decode(&producers,
                                     ol_slice_of(mark->producers, mark->producers_size), error);
    ol_producers_free(&producers);
    return status;
}

/* Checks the settled part.  OL_CORRUPT or a similar status: something is doubtful. */
static int check_settled(const ol_opening *opening, size_t at, ol_error *error) {
    const ol_found_segment *segment = &opening->found[at];
    bool is_there = false, is_last = at + 1 == opening->found_count;
    int status = check_place(opening, segment, is_last, &is_there, error);
    if (status == OL_OK && !is_there) {
        status = ol_fail(error, OL_CORRUPT, "the log has no batch at the mark");
    }
    if (status == OL_OK) status = check_index(opening, segment, ".index", OL_INDEX_OFFSET, error);
    if (status == OL_OK) status = check_index(opening, segment, ".timeindex", OL_INDEX_TIME, error);
    if (status == OL_OK) status = check_transactions(opening, segment, error);
    if (status == OL_OK) status = check_transactions_below(opening, at, error);
    return status == OL_OK ? check_producers(opening->options->mark, error) : status;
}

static int64_t bytes_below(const ol_opening *opening, size_t first, size_t at) {
    int64_t bytes = opening->options->mark->position;
    for (size_t i = first; i < at; i++) bytes += opening->found[i].file_size;
    return bytes;
}

int ol_settled_skip(ol_opening *opening, size_t *first, ol_error *error) {
    const ol_log_mark *mark = opening->options->mark;
    if (!is_believed(opening)) return OL_OK;
    size_t at = opening->found_count - 1;
    while (at > *first && opening->found[at].base_offset > mark->segment_base) at--;
    ol_found_segment *segment = &opening->found[at];
    if (segment->base_offset != mark->segment_base) return OL_OK;
    if (bytes_below(opening, *first, at) < opening->log->config.settled_bytes_min) return OL_OK;
    int status = check_settled(opening, at, error);
    bool is_doubtful = status == OL_CORRUPT || status == OL_TORN || status == OL_UNSUPPORTED ||
                       status == OL_NO_SUCH_FILE || status == OL_LIMIT;
    if (status != OL_OK) return is_doubtful ? OL_OK : status;
    segment->from = mark->position;
    segment->first_timestamp = mark->first_timestamp;
    segment->max_timestamp = mark->max_timestamp;
    segment->max_timestamp_offset = mark->max_timestamp_offset;
    segment->checksum = mark->checksum;
    opening->is_settled = true;
    *first = at;
    return OL_OK;
}
