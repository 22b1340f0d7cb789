/* Reserves and publishes batches.  This is the hot path: for a plain batch, each of the two calls
 * makes a few comparisons and stores, and one branch leads to all other cases. */
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "log/batch_rules.h"
#include "log/log_impl.h"
#include "log/segment_checksum.h"

enum { NEXT_BATCH_LINES = 3 };        /* cache lines of a batch of one position */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns whether Kafka would start a new segment for this batch (docs/format/directory.md §1.10);
 * space for `ends` is kept after it. */
static bool must_roll(const ol_log *log, size_t size, int64_t last_offset, int64_t max_timestamp,
                      size_t ends) {
    const ol_segment *active = log->tail.active;
    int64_t needed = (int64_t)(size + ends * OL_BATCH_MARKER_SIZE);
    if (needed > log->tail.size_limit - log->tail.size ||
        last_offset > ol_segment_offset_max(active->base_offset) - (int64_t)ends) {
        return true;
    }
    if (log->tail.size == 0) return false;
    if (log->tail.index_full) return true;
    if (active->first_timestamp < 0) return now_ms() - active->created_ms > log->config.segment_ms;
    return max_timestamp > log->tail.timestamp_limit;
}

/* Before the map of producers grows, producers that are too old are removed.  If only few are
 * removed, the map grows all the same, so that the next check, which visits all producers, comes
 * only after many new ones. */
static int make_room_for_producer(ol_log *log, ol_error *error) {
    ol_producers *producers = &log->producers.map;
    size_t wanted = 1;
    if (ol_producers_is_full(producers)) {
        size_t half = producers->count / 2;
        size_t expired = ol_log_expire_producers(log);
        if (expired < half) wanted += half - expired;
    }
    return ol_producers_reserve(producers, wanted, error);
}

static int check_batch_size(const ol_log *log, int64_t base_offset, size_t size,
                            int64_t last_offset, ol_error *error) {
    if (size < OL_BATCH_MINIMUM_LENGTH + OL_BATCH_LOG_OVERHEAD || last_offset < base_offset) {
        return ol_fail(error, OL_INVALID, "a batch must have a header and at least one offset");
    }
    int64_t room = log->config.segment_bytes - ol_log_kept_bytes(log);
    if ((int64_t)size <= room) return OL_OK;
    return ol_fail(error, OL_TOO_LARGE,
                   "a batch of %zu bytes does not fit a segment of %lld bytes, in which %lld bytes "
                   "are reserved for the markers of open transactions",
                   size, (long long)log->config.segment_bytes, (long long)ol_log_kept_bytes(log));
}

/* Reserves memory for the state that publishing will record, so that publishing cannot fail. */
static int make_room(ol_log *log, ol_error *error) {
    int status = make_room_for_producer(log, error);
    if (status != OL_OK) return status;
    pthread_mutex_lock(&log->epochs.lock);
    status = ol_leader_epochs_reserve(&log->epochs.cache, 1, error);
    pthread_mutex_unlock(&log->epochs.lock);
    return status;
}

static void take_place(ol_log *log, size_t size, uint8_t **start) {
    log->tail.slow = false;
    atomic_store_explicit(&log->signals.appended, true, memory_order_relaxed);
    log->tail.reserved_size = (int64_t)size;
    *start = log->tail.data + log->tail.size;
}

enum { CHECKED_BYTES = 64 << 10 };

/* Checks the length of the mapped file.  If another process has truncated it, a store would kill
 * this process.  The check is not repeated for batches with the same timestamp (usually the same
 * millisecond) in the next CHECKED_BYTES, so that frequent small commits pay nothing.  A truncation
 * in this time is not noticed. */
static OL_NOINLINE int check_file(ol_log *log, int64_t end, int64_t max_timestamp,
                                  ol_error *error) {
    int status = ol_segment_check_mapping(log->tail.active, error);
    log->tail.checked_at = status == OL_OK ? max_timestamp : INT64_MIN;
    log->tail.checked_below = end + CHECKED_BYTES;
    return status;
}

static bool is_file_checked(const ol_log *log, int64_t end, int64_t max_timestamp) {
    return max_timestamp == log->tail.checked_at && end <= log->tail.checked_below;
}

static OL_NOINLINE int reserve_slowly(ol_log *log, int64_t base_offset, size_t size,
                                      int64_t last_offset, int64_t max_timestamp, uint8_t **start,
                                      ol_error *error) {
    int status = ol_log_check_writable(log, error);
    if (status == OL_OK) status = check_batch_size(log, base_offset, size, last_offset, error);
    if (status == OL_OK) status = make_room(log, error);
    if (status == OL_OK &&
        must_roll(log, size, last_offset, max_timestamp, ol_log_kept_ends(log))) {
        status = ol_log_roll(log, base_offset, error);
    }
    if (status == OL_OK) {
        int64_t end = log->tail.size + (int64_t)size + ol_log_kept_bytes(log);
        status = ol_log_extend(log, end, error);
        if (status == OL_OK) status = check_file(log, end, max_timestamp, error);
    }
    if (status == OL_OK) take_place(log, size, start);
    return status;
}

int ol_log_reserve_at(ol_log *log, int64_t base_offset, size_t size, int64_t last_offset,
                      int64_t max_timestamp, uint8_t **start, ol_error *error) {
    int64_t end = log->tail.size + (int64_t)size + ol_log_kept_bytes(log);
    bool fast = !log->tail.slow && size <= (size_t)OL_SEGMENT_BYTES_MAX &&
                end <= log->tail.size_limit && last_offset <= log->tail.offset_limit &&
                last_offset >= base_offset && max_timestamp <= log->tail.timestamp_limit &&
                size >= OL_BATCH_OVERHEAD &&
                !atomic_load_explicit(&log->shared.failed, memory_order_relaxed) &&
                end <= atomic_load_explicit(&log->tail.active->populated, memory_order_acquire);
    if (OL_UNLIKELY(!fast)) {
        return reserve_slowly(log, base_offset, size, last_offset, max_timestamp, start, error);
    }
    if (OL_UNLIKELY(!is_file_checked(log, end, max_timestamp))) {
        int status = check_file(log, end, max_timestamp, error);
        if (status != OL_OK) return status;
    }
    log->tail.reserved_size = (int64_t)size;
    *start = log->tail.data + log->tail.size;
    return OL_OK;
}

int ol_log_reserve(ol_log *log, size_t size, int32_t last_offset_delta, int64_t max_timestamp,
                   uint8_t **start, int64_t *base_offset, ol_error *error) {
    *base_offset = log->tail.next_offset;
    if (OL_UNLIKELY(last_offset_delta < 0)) {
        return ol_fail(error, OL_INVALID, "a batch must have at least one offset");
    }
    if (OL_UNLIKELY(log->tail.next_offset > INT64_MAX - 1 - last_offset_delta)) {
        return ol_fail(error, OL_TOO_LARGE, "the log has reached the greatest possible offset");
    }
    return ol_log_reserve_at(log, log->tail.next_offset, size,
                             log->tail.next_offset + last_offset_delta, max_timestamp, start,
                             error);
}

int ol_log_reserve_transactional(ol_log *log, int64_t producer_id, size_t size,
                                 int32_t last_offset_delta, int64_t max_timestamp, uint8_t **start,
                                 int64_t *base_offset, ol_error *error) {
    size_t before = ol_log_kept_ends(log);
    size_t wanted = ol_log_ends_wanted(log, producer_id);
    bool more = wanted > before;
    if (more) ol_log_count_ends(log, wanted);
    int status = ol_log_reserve(log, size, last_offset_delta, max_timestamp, start, base_offset,
                                error);
    if (status == OL_OK && more) status = ol_log_keep_entries(log, wanted, error);
    if (status != OL_OK && more) ol_log_count_ends(log, before);
    return status;
}

int ol_log_reserve_end(ol_log *log, int64_t max_timestamp, uint8_t **start, int64_t *base_offset,
                       ol_error *error) {
    int64_t offset = *base_offset = log->tail.next_offset;
    size_t kept = ol_log_kept_ends(log);
    size_t others = kept > 0 ? kept - 1 : 0;
    int status = ol_log_check_writable(log, error);
    if (status == OL_OK && offset == INT64_MAX) {
        status = ol_fail(error, OL_TOO_LARGE, "the log has reached the greatest possible offset");
    }
    if (status == OL_OK) status = make_room(log, error);
    if (status == OL_OK &&
        must_roll(log, OL_BATCH_MARKER_SIZE, offset, max_timestamp, others)) {
        status = ol_log_roll(log, offset, error);
        /* The segment is too old or its index is full; the roll can be left to the next batch. */
        if (status == OL_DISK_FULL && kept > 0) status = OL_OK;
    }
    if (status == OL_OK && kept == 0) status = ol_log_keep_entries(log, 1, error);
    if (status == OL_OK) {
        int64_t end = log->tail.size + (int64_t)(others + 1) * OL_BATCH_MARKER_SIZE;
        status = ol_log_extend(log, end, error);
        if (status == OL_OK) status = check_file(log, end, max_timestamp, error);
    }
    if (status == OL_OK) take_place(log, OL_BATCH_MARKER_SIZE, start);
    return status;
}

bool ol_log_is_prepared(const ol_log *log, size_t size, int32_t last_offset_delta,
                        int64_t max_timestamp) {
    if (!log->writable || log->tail.slow || size > (size_t)OL_SEGMENT_BYTES_MAX) return false;
    /* A write may wait for the disk, or for the network. */
    if (log->tail.active->is_written) return false;
    if (log->tail.next_offset > log->tail.offset_limit - last_offset_delta ||
        max_timestamp > log->tail.timestamp_limit) {
        return false;
    }
    int64_t end = log->tail.size + (int64_t)size + ol_log_kept_bytes(log);
    return end <= log->tail.size_limit &&
           end <= atomic_load_explicit(&log->tail.active->populated, memory_order_acquire);
}

/* Updates producer state, transaction index and epochs, and notes the cases in which the next
 * reservation must check more. */
static OL_NOINLINE void publish_rest(ol_log *log, int64_t base_offset, int64_t producer_id,
                                     int32_t leader_epoch, size_t size) {
    ol_error ignored;
    log->tail.slow = true;
    if (leader_epoch > log->tail.newest_epoch) {
        pthread_mutex_lock(&log->epochs.lock);
        int status = ol_leader_epochs_assign(&log->epochs.cache, leader_epoch, base_offset, NULL,
                                             &ignored);
        OL_ASSERT(status == OL_OK);
        log->epochs.changed = true;
        pthread_mutex_unlock(&log->epochs.lock);
        log->tail.newest_epoch = leader_epoch;
    }
    if (producer_id < 0) return;
    ol_log_count_producer_id(log, producer_id);
    ol_batch batch;
    ol_producers_change change = {0};
    int status = ol_batch_parse(log->tail.data + log->tail.size, size, &batch, &ignored);
    if (status == OL_OK) {
        status = ol_producers_apply(&log->producers.map, &batch, &change, &ignored);
    }
    if (status == OL_OK && change.completed) ol_log_end_was_written(log);
    if (status == OL_OK && change.aborted) {
        pthread_mutex_lock(&log->tail.active->lock);
        status = ol_transaction_index_append(&log->tail.active->transaction_index,
                                             &change.transaction, &ignored);
        pthread_mutex_unlock(&log->tail.active->lock);
    }
    /* The bytes are in the log, so they count; but with an abort missing from the transaction
     * index, the directory must not be closed as clean.  Opening it again rebuilds the index. */
    if (status != OL_OK) ol_log_set_failed(log);
}

/* Called after a bound was taken for the `ol.flushed` header.  The bound counts as written only if
 * this batch has the header.  If the batch for which the bound was taken could not be appended,
 * this one may be a marker without the header. */
static OL_NOINLINE void settle_note(ol_log *log, size_t size) {
    ol_batch batch;
    ol_error ignored;
    log->note.taken = false;
    if (ol_batch_parse(log->tail.data + log->tail.size, size, &batch, &ignored) != OL_OK) return;
    int64_t note = ol_flush_sidecar_record(&batch);
    if (note >= 0) log->note.written = note;
}

/* Makes sure that the bytes are in the file before the log end moves past them; after a failure
 * they are not in it. */
static OL_NOINLINE int reach_file(ol_log *log, ol_segment *active, int64_t position, size_t size,
                                  ol_error *error) {
    int status = ol_segment_write(active, position, size, error);
    if (status == OL_OK && !active->is_written && log->stored != NULL) {
        status = log->stored(active->file, position, size, error);
        if (status != OL_OK && status != OL_CRASHED) memset(log->tail.data + position, 0, size);
    }
    /* A simulated machine that has stopped stores nothing more. */
    if (status == OL_FAILED || status == OL_CRASHED) ol_log_set_failed(log);
    return status;
}

int ol_log_publish_at(ol_log *log, int64_t base_offset, int64_t last_offset, int64_t max_timestamp,
                      int64_t producer_id, int32_t leader_epoch, size_t size, ol_error *error) {
    OL_ASSERT((int64_t)size == log->tail.reserved_size && base_offset >= log->tail.next_offset);
    ol_segment *active = log->tail.active;
    int64_t position = log->tail.size;
    if (OL_UNLIKELY(log->tail.slow_publish)) {
        int status = reach_file(log, active, position, size, error);
        if (status != OL_OK) return status;
    }
    if (OL_UNLIKELY(position == 0)) {
        log->tail.timestamp_limit = INT64_MIN;
        if (max_timestamp >= 0) {
            log->tail.timestamp_limit = max_timestamp > INT64_MAX - log->config.segment_ms
                                            ? INT64_MAX
                                            : max_timestamp + log->config.segment_ms;
        }
    }
    active->checksum = ol_segment_checksum_add(active->checksum, log->tail.data + position);
    ol_segment_record_batch(active, position, size, last_offset, max_timestamp,
                            log->config.index_interval_bytes, &log->tail.index_full);
    if (OL_UNLIKELY(producer_id >= 0 || leader_epoch > log->tail.newest_epoch ||
                    log->tail.index_full)) {
        publish_rest(log, base_offset, producer_id, leader_epoch, size);
    }
    if (OL_UNLIKELY(log->note.taken)) settle_note(log, size);
    log->tail.reserved_size = -1;
    log->tail.size = position + (int64_t)size;
    log->tail.next_offset = last_offset + 1;
    /* Prefetches the position of the next batch, so that its cache lines are here when it comes,
     * however many partitions take turns. */
    for (int line = 0; line < NEXT_BATCH_LINES; line++) {
        __builtin_prefetch(log->tail.data + log->tail.size + 64 * line, 1);
    }
    atomic_store_explicit(&active->size, log->tail.size, memory_order_release);
    atomic_store_explicit(&log->shared.end, log->tail.next_offset, memory_order_release);
    return OL_OK;
}

int ol_log_publish(ol_log *log, const ol_batch_fields *fields, size_t size, ol_error *error) {
    OL_ASSERT(fields->base_offset == log->tail.next_offset);
    return ol_log_publish_at(log, fields->base_offset,
                             fields->base_offset + fields->last_offset_delta, fields->max_timestamp,
                             fields->producer_id, fields->leader_epoch, size, error);
}

typedef struct append_needs {
    size_t largest;             /* bytes of one batch */
    size_t markers;             /* batches that may be one */
} append_needs;

/* Checks all batches before the first of them is written. */
static int check_batches(const ol_log *log, const uint8_t *data, size_t size, append_needs *needs,
                         ol_error *error) {
    int64_t next_offset = log->tail.next_offset;
    for (size_t position = 0; position < size;) {
        ol_batch batch;
        int status = ol_batch_parse(data + position, size - position, &batch, error);
        if (status == OL_OK) status = ol_batch_check_crc(&batch, error);
        if (status == OL_OK) status = ol_batch_check_follows(&batch, next_offset, error);
        if (status == OL_OK) {
            status = check_batch_size(log, batch.base_offset, batch.size, batch.last_offset, error);
        }
        if (status != OL_OK) {
            if (status == OL_TORN) error->status = status = OL_CORRUPT;
            error->position = (int64_t)position;
            return status;
        }
        if (batch.size > needs->largest) needs->largest = batch.size;
        needs->markers += ol_batch_is_control(&batch);
        next_offset = batch.last_offset + 1;
        position += batch.size;
    }
    return OL_OK;
}

/* Reserves space in the log, and for the entries of the markers in the transaction index. */
static int reserve_for_append(ol_log *log, size_t size, const append_needs *needs,
                              ol_error *error) {
    int status = ol_log_reserve_space(log, (int64_t)size, needs->largest, error);
    if (status == OL_OK && needs->markers > 0) {
        status = ol_log_keep_entries(log, ol_log_kept_ends(log) + needs->markers, error);
    }
    return status;
}

static int append_batch(ol_log *log, const ol_batch *batch, ol_error *error) {
    uint8_t *start = NULL;
    int status = ol_log_reserve_at(log, batch->base_offset, batch->size, batch->last_offset,
                                   batch->max_timestamp, &start, error);
    /* The active segment may have changed by a roll meanwhile. */
    if (status == OL_OK && ol_batch_is_control(batch)) {
        status = ol_log_keep_entries(log, ol_log_kept_ends(log) + 1, error);
    }
    if (status != OL_OK) return status;
    memcpy(start, batch->data, batch->size);
    return ol_log_publish_at(log, batch->base_offset, batch->last_offset, batch->max_timestamp,
                             batch->producer_id, batch->leader_epoch, batch->size, error);
}

int ol_log_append(ol_log *log, const uint8_t *data, size_t size, ol_error *error) {
    append_needs needs = {0};
    int64_t end_before = log->tail.next_offset;
    int status = ol_log_check_writable(log, error);
    if (status == OL_OK) status = check_batches(log, data, size, &needs, error);
    if (status == OL_OK && size > 0) status = reserve_for_append(log, size, &needs, error);
    if (status == OL_OK && size > 0) status = ol_log_note_foreign(log, error);
    for (size_t position = 0; status == OL_OK && position < size;) {
        ol_batch batch;
        status = ol_batch_parse(data + position, size - position, &batch, error);
        if (status == OL_OK) status = append_batch(log, &batch, error);
        position += batch.size;
    }
    if (status != OL_OK && log->tail.next_offset != end_before) {
        ol_error ignored;
        int undone = ol_log_truncate(log, end_before, &ignored);
        /* The leader wrote the bytes that are present. */
        if (undone != OL_OK && undone != OL_DISK_FULL) ol_log_set_failed(log);
    }
    return status;
}
