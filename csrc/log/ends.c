/* Keeps space for the ends of open transactions, from the first batch of each transaction on.  For
 * each transaction this is space for a marker in the active segment, and for an entry in the
 * transaction index of this segment.
 *
 * All markers have the same size, so the log only counts for how many it keeps space.  Batches of
 * other kinds do not use this space: if no other space is left, they roll the segment or fail
 * because the disk is full.  A roll reserves the space in the next segment before it frees the
 * space in the old one.  A marker therefore never needs a roll to have space.  If a roll is due for
 * another reason, but the disk is full, the marker is written without a roll. */
#include "log/batch_rules.h"
#include "log/log_impl.h"

/* The space takes at most a twelfth of a segment, so that batches still fit beside it: a hundred
 * thousand ends in one of 100 MiB, four in the smallest. */
enum { SHARE_OF_SEGMENT = 12 };

static size_t ends_max(const ol_log *log) {
    return (size_t)(log->config.segment_bytes / SHARE_OF_SEGMENT / OL_BATCH_MARKER_SIZE);
}

size_t ol_log_kept_ends(const ol_log *log) {
    return (size_t)(ol_log_kept_bytes(log) / OL_BATCH_MARKER_SIZE);
}

void ol_log_count_ends(ol_log *log, size_t count) {
    atomic_store_explicit(&log->tail.kept, (int64_t)count * OL_BATCH_MARKER_SIZE,
                          memory_order_relaxed);
    log->tail.offset_limit = ol_segment_offset_max(log->tail.active->base_offset) - (int64_t)count;
}

size_t ol_log_ends_wanted(const ol_log *log, int64_t producer_id) {
    size_t wanted = log->producers.map.open_count;
    const ol_producer *producer = ol_producers_find(&log->producers.map, producer_id);
    if (producer_id >= 0 && (producer == NULL || producer->transaction_first_offset < 0)) wanted++;
    return wanted < ends_max(log) ? wanted : ends_max(log);
}

int ol_log_keep_entries(ol_log *log, size_t count, ol_error *error) {
    ol_segment *active = log->tail.active;
    pthread_mutex_lock(&active->lock);
    int status = ol_transaction_index_keep_space(&active->transaction_index, count, error);
    pthread_mutex_unlock(&active->lock);
    return status;
}

int ol_log_carry_ends(ol_log *log, ol_segment *next, ol_error *error) {
    int64_t kept = ol_log_kept_bytes(log);
    if (kept == 0) return OL_OK;
    int status = ol_transaction_index_keep_space(&next->transaction_index, ol_log_kept_ends(log),
                                                 error);
    if (status != OL_OK) return status;
    return ol_segment_extend(next, kept, atomic_load(&log->signals.flush_demanded), error);
}

void ol_log_end_was_written(ol_log *log) {
    size_t count = ol_log_kept_ends(log);
    if (count > 0) ol_log_count_ends(log, count - 1);
}

void ol_log_release_ends(ol_log *log) {
    if (log->tail.active != NULL) ol_log_count_ends(log, 0);
}

size_t ol_log_batch_bytes_max(const ol_log_config *config) {
    return (size_t)(config->segment_bytes - config->segment_bytes / SHARE_OF_SEGMENT);
}

int ol_log_keep_ends(ol_log *log, ol_error *error) {
    int status = ol_log_check_writable(log, error);
    size_t wanted = ol_log_ends_wanted(log, -1);
    if (status != OL_OK || wanted <= ol_log_kept_ends(log)) return status;
    int64_t end = log->tail.size + (int64_t)wanted * OL_BATCH_MARKER_SIZE;
    if (end > log->tail.size_limit) {
        status = ol_log_roll_active(log, error);
        end = (int64_t)wanted * OL_BATCH_MARKER_SIZE;
    }
    if (status == OL_OK) status = ol_log_keep_entries(log, wanted, error);
    if (status == OL_OK) status = ol_log_extend(log, end, error);
    if (status != OL_OK) return status;
    atomic_store(&log->signals.appended, true);
    ol_log_count_ends(log, wanted);
    return OL_OK;
}
