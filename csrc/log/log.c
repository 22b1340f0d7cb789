/* Gives access to the positions, the segments, the leader epochs and the producers of an open log,
 * and closes the log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log/batch_rules.h"
#include "log/log_impl.h"

void ol_log_config_init(ol_log_config *config) {
    *config = (ol_log_config){
        .segment_bytes = OL_SEGMENT_BYTES_DEFAULT,
        .segment_ms = (int64_t)604800000,
        .index_interval_bytes = 4096,
        .segment_index_bytes = (int64_t)10 << 20,
        .producer_expiration_ms = (int64_t)86400000,
        .extend_bytes_min = (int64_t)64 << 10,
        .extend_bytes_max = (int64_t)8 << 20,
        .settled_bytes_min = (int64_t)1 << 20,
        .append = OL_APPEND_AUTO,
    };
}

int64_t ol_log_start(const ol_log *log) {
    return atomic_load_explicit(&log->shared.start, memory_order_acquire);
}
int64_t ol_log_end(const ol_log *log) {
    return atomic_load_explicit(&log->shared.end, memory_order_acquire);
}
int64_t ol_log_flushed(const ol_log *log) {
    return atomic_load_explicit(&log->shared.flushed, memory_order_acquire);
}
bool ol_log_is_writable(const ol_log *log) { return log->writable; }

void ol_log_record_end(ol_log *log, int64_t end) {
    OL_ASSERT(!log->writable);
    int64_t known = atomic_load(&log->shared.end);
    while (end > known && !atomic_compare_exchange_weak(&log->shared.end, &known, end)) continue;
}

bool ol_log_has_failed(const ol_log *log) { return atomic_load(&log->shared.failed); }
int64_t ol_log_active_timestamp(const ol_log *log) { return log->tail.active->max_timestamp; }
uint64_t ol_log_cuts(const ol_log *log) { return atomic_load(&log->shared.cuts); }

/* The callers have a const log; the lock inside it is not part of its value. */
static pthread_mutex_t *lock_of(const pthread_mutex_t *lock) {
    return (pthread_mutex_t *)(uintptr_t)lock;
}

int32_t ol_log_leader_epoch(const ol_log *log) {
    pthread_mutex_lock(lock_of(&log->epochs.lock));
    int32_t epoch = ol_leader_epochs_newest(&log->epochs.cache);
    pthread_mutex_unlock(lock_of(&log->epochs.lock));
    return epoch;
}

void ol_log_end_for_epoch(const ol_log *log, int32_t epoch, int32_t *found_epoch,
                          int64_t *end_offset) {
    pthread_mutex_lock(lock_of(&log->epochs.lock));
    ol_leader_epochs_end_offset(&log->epochs.cache, epoch, ol_log_end(log), found_epoch,
                                end_offset);
    pthread_mutex_unlock(lock_of(&log->epochs.lock));
}

int32_t ol_log_epoch_at(const ol_log *log, int64_t offset) {
    pthread_mutex_lock(lock_of(&log->epochs.lock));
    int32_t epoch = ol_leader_epochs_at(&log->epochs.cache, offset);
    pthread_mutex_unlock(lock_of(&log->epochs.lock));
    return epoch;
}

size_t ol_log_epochs(const ol_log *log, int64_t offset, ol_leader_epoch *epochs, size_t capacity) {
    size_t count = 0;
    pthread_mutex_lock(lock_of(&log->epochs.lock));
    while (count < log->epochs.cache.count &&
           log->epochs.cache.entries[count].start_offset < offset) {
        if (count < capacity) epochs[count] = log->epochs.cache.entries[count];
        count++;
    }
    pthread_mutex_unlock(lock_of(&log->epochs.lock));
    return count;
}

bool ol_log_topic_id(const ol_log *log, uint8_t topic_id[16]) {
    if (log->has_topic_id) memcpy(topic_id, log->topic_id, OL_UUID_SIZE);
    return log->has_topic_id;
}

int64_t ol_log_size_bytes(const ol_log *log) {
    pthread_mutex_lock(lock_of(&log->list.lock));
    int64_t size = 0;
    for (size_t i = 0; i < log->list.count; i++) {
        size += atomic_load_explicit(&log->list.segments[i]->size, memory_order_acquire);
    }
    pthread_mutex_unlock(lock_of(&log->list.lock));
    return size;
}

bool ol_log_segment_at(const ol_log *log, size_t index, ol_log_segment_info *info) {
    pthread_mutex_lock(lock_of(&log->list.lock));
    bool found = index < log->list.count;
    if (found) {
        const ol_segment *segment = log->list.segments[index];
        info->base_offset = segment->base_offset;
        info->size = atomic_load_explicit(&segment->size, memory_order_acquire);
        info->active = index + 1 == log->list.count;
        size_t length = strlen(segment->path);
        size_t cut = length >= sizeof info->path ? length - sizeof info->path + 1 : 0;
        memcpy(info->path, segment->path + cut, length - cut + 1);
    }
    pthread_mutex_unlock(lock_of(&log->list.lock));
    return found;
}

int ol_log_path(const ol_log *log, const char *name, char path[OL_PATH_MAX], ol_error *error) {
    return ol_path_join(path, OL_PATH_MAX, log->directory, name, error);
}

int ol_log_untaken_path(const ol_log *log, const char *name, char path[OL_PATH_MAX],
                        ol_error *error) {
    enum { COPIES_MAX = 10000 };
    for (int i = 0; i < COPIES_MAX; i++) {
        char numbered[OL_NAME_SIZE_MAX + 1];
        bool taken = false;
        snprintf(numbered, sizeof numbered, i == 0 ? "%s" : "%s.%d", name, i);
        int status = ol_log_path(log, numbered, path, error);
        if (status == OL_OK) status = log->fs->exists(log->fs, path, &taken, error);
        if (status != OL_OK || !taken) return status;
    }
    return ol_fail(error, OL_LIMIT,
                   "too many numbered copies of %s in the directory; move some away", name);
}

void ol_log_set_failed(ol_log *log) { atomic_store(&log->shared.failed, true); }

int ol_log_check_writable(const ol_log *log, ol_error *error) {
    int status = OL_OK;
    if (!log->writable) {
        status = ol_fail(error, OL_READ_ONLY,
                         "the log accepts no writes: it is corrupt, or open for reading only");
    } else if (atomic_load(&log->shared.failed)) {
        status = ol_fail(error, OL_FAILED,
                         "an earlier failure left the log in an unknown state; open the log again");
    }
    if (status != OL_OK) status = ol_error_at(error, log->directory, -1);
    return status;
}

void ol_log_set_limits(ol_log *log) {
    ol_segment *active = log->tail.active;
    log->tail.size = atomic_load(&active->size);
    log->tail.size_limit = log->config.segment_bytes < (int64_t)active->mapped_size
                               ? log->config.segment_bytes
                               : (int64_t)active->mapped_size;
    ol_log_count_ends(log, ol_log_kept_ends(log));
    log->tail.timestamp_limit = INT64_MAX;
    if (log->tail.size > 0) {
        log->tail.timestamp_limit = INT64_MIN;
        if (active->first_timestamp >= 0 &&
            active->first_timestamp <= INT64_MAX - log->config.segment_ms) {
            log->tail.timestamp_limit = active->first_timestamp + log->config.segment_ms;
        }
    }
    log->tail.reserved_size = -1;
    log->tail.slow = true;
    log->tail.checked_at = INT64_MIN;
}

/* Under list.lock. */
static int make_place(ol_log *log, ol_error *error) {
    int status = OL_OK;
    if (log->list.count == log->list.capacity) {
        size_t capacity = log->list.capacity == 0 ? 8 : 2 * log->list.capacity;
        ol_segment **segments = realloc(log->list.segments, capacity * sizeof *segments);
        if (segments == NULL) {
            status = ol_fail(error, OL_NO_MEMORY, "no memory for the list of segments");
        } else {
            log->list.segments = segments;
            log->list.capacity = capacity;
        }
    }
    return status;
}

int ol_log_reserve_segment(ol_log *log, ol_error *error) {
    pthread_mutex_lock(&log->list.lock);
    int status = make_place(log, error);
    pthread_mutex_unlock(&log->list.lock);
    return status;
}

int ol_log_add_segment(ol_log *log, ol_segment *segment, ol_error *error) {
    pthread_mutex_lock(&log->list.lock);
    int status = make_place(log, error);
    if (status == OL_OK) log->list.segments[log->list.count++] = segment;
    pthread_mutex_unlock(&log->list.lock);
    return status;
}

/* Returns the index of the last segment with a base at or below `offset`, 0 when all are above.
 * Under list.lock; the list is not empty. */
static size_t segment_index(const ol_log *log, int64_t offset) {
    size_t low = 0;
    size_t high = log->list.count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (log->list.segments[middle]->base_offset <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

ol_segment *ol_log_find_segment(ol_log *log, int64_t offset) {
    ol_segment *found = NULL;
    pthread_mutex_lock(&log->list.lock);
    if (log->list.count > 0) {
        found = log->list.segments[segment_index(log, offset)];
        ol_segment_reference(found);
    }
    pthread_mutex_unlock(&log->list.lock);
    return found;
}

ol_segment *ol_log_next_segment(ol_log *log, int64_t base) {
    ol_segment *found = NULL;
    pthread_mutex_lock(&log->list.lock);
    if (log->list.count > 0) {
        size_t index = segment_index(log, base);
        if (log->list.segments[index]->base_offset <= base) index++;
        if (index < log->list.count) found = log->list.segments[index];
        if (found != NULL) ol_segment_reference(found);
    }
    pthread_mutex_unlock(&log->list.lock);
    return found;
}

/* ------------------------------------------------------------ epochs, producers */

static bool have_epochs_changed(ol_log *log, int32_t *newest) {
    pthread_mutex_lock(&log->epochs.lock);
    *newest = ol_leader_epochs_newest(&log->epochs.cache);
    bool changed = log->epochs.changed;
    pthread_mutex_unlock(&log->epochs.lock);
    return changed;
}

/* Stores nothing if the newest epoch is not the one that the manifest names: the writer may have
 * begun another one meanwhile. */
static int store_noted_epochs(ol_log *log, int32_t noted, ol_error *error) {
    char path[OL_PATH_MAX];
    int status = ol_log_path(log, OL_EPOCHS_FILE, path, error);
    pthread_mutex_lock(&log->epochs.lock);
    if (status == OL_OK && ol_leader_epochs_newest(&log->epochs.cache) == noted) {
        status = ol_leader_epochs_store(&log->epochs.cache, log->fs, path, error);
        if (status == OL_OK) log->epochs.changed = false;
    }
    pthread_mutex_unlock(&log->epochs.lock);
    return status;
}

int ol_log_store_epochs(ol_log *log, ol_error *error) {
    int32_t newest;
    int status = OL_OK;
    if (!have_epochs_changed(log, &newest)) return OL_OK;
    /* An epoch that the manifest does not name would look like one of another program. */
    pthread_mutex_lock(&log->manifest.lock);
    while (status == OL_OK && have_epochs_changed(log, &newest)) {
        status = ol_log_note_epoch(log, newest, error);
        if (status == OL_OK) status = store_noted_epochs(log, newest, error);
    }
    pthread_mutex_unlock(&log->manifest.lock);
    return status;
}

/* An epoch that could not be stored has not begun: records of the one before it may follow. */
static void withdraw_epoch(ol_log *log, int32_t epoch) {
    pthread_mutex_lock(&log->epochs.lock);
    ol_leader_epochs *epochs = &log->epochs.cache;
    if (ol_leader_epochs_newest(epochs) == epoch) {
        epochs->count--;
        log->epochs.changed = true;
    }
    log->tail.newest_epoch = ol_leader_epochs_newest(epochs);
    pthread_mutex_unlock(&log->epochs.lock);
}

int ol_log_assign_epoch(ol_log *log, int32_t epoch, ol_error *error) {
    int status = ol_log_check_writable(log, error);
    if (status != OL_OK) return status;
    bool changed = false;
    pthread_mutex_lock(&log->epochs.lock);
    if (epoch < ol_leader_epochs_newest(&log->epochs.cache)) {
        status = ol_fail(error, OL_FENCED_LEADER_EPOCH, "leader epoch %d is older than %d", epoch,
                         ol_leader_epochs_newest(&log->epochs.cache));
    } else {
        status = ol_leader_epochs_assign(&log->epochs.cache, epoch, log->tail.next_offset, &changed,
                                         error);
    }
    if (changed) log->epochs.changed = true;
    pthread_mutex_unlock(&log->epochs.lock);
    if (status != OL_OK) return status;
    log->tail.newest_epoch = epoch;
    status = ol_log_store_epochs(log, error);
    if (status != OL_OK && changed) withdraw_epoch(log, epoch);
    return status;
}

static int64_t time_of_batches(const ol_log *log) {
    if (log->clock_ms != NULL) return log->clock_ms(log->clock_context);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void ol_log_options_of(const ol_log *log, ol_log_options *options) {
    *options = (ol_log_options){
        .fs = log->fs,
        .directory = log->directory,
        .config = log->config,
        .writable = log->writable,
        .replicated = log->replicated,
        .recovery_point = -1,
        .log_start_offset = -1,
        .decompressor = log->decompressor,
    };
}

/* Kafka does this every ten minutes.  The producer with the greatest id stays, because a caller
 * that hands out ids above it must never reuse one. */
size_t ol_log_expire_producers(ol_log *log) {
    return ol_producers_expire(&log->producers.map, time_of_batches(log),
                               log->config.producer_expiration_ms, log->producers.highest_id);
}

int ol_log_store_snapshot(ol_log *log, int64_t offset, bool flush, ol_error *error) {
    char path[OL_PATH_MAX];
    (void)ol_log_expire_producers(log);
    int status = ol_segment_path(path, sizeof path, log->directory, offset, ".snapshot", error);
    if (status == OL_OK) {
        status = ol_producers_store(&log->producers.map, log->fs, path, flush, error);
    }
    if (status == OL_OK) {
        log->producers.snapshot_offset = offset;
        log->producers.snapshot_unflushed = !flush;
    }
    return status;
}

static void fill_transaction(const ol_producer *producer, ol_log_transaction *transaction) {
    *transaction = (ol_log_transaction){
        .producer_id = producer->producer_id,
        .first_offset = producer->transaction_first_offset,
        .last_timestamp = producer->timestamp,
        .producer_epoch = producer->epoch,
    };
}

bool ol_log_open_transaction_at(const ol_log *log, size_t index, ol_log_transaction *transaction) {
    if (index >= log->producers.map.open_count) return false;
    const ol_producer *producer = ol_producers_find(&log->producers.map,
                                                    log->producers.map.open[index].producer_id);
    OL_ASSERT(producer != NULL);
    fill_transaction(producer, transaction);
    return true;
}

bool ol_log_find_transaction(const ol_log *log, int64_t producer_id,
                             ol_log_transaction *transaction) {
    const ol_producer *producer = ol_producers_find(&log->producers.map, producer_id);
    if (producer == NULL || producer->transaction_first_offset < 0) return false;
    fill_transaction(producer, transaction);
    return true;
}

bool ol_log_producer(const ol_log *log, int64_t producer_id, int16_t *producer_epoch,
                     int32_t *coordinator_epoch) {
    const ol_producer *producer = ol_producers_find(&log->producers.map, producer_id);
    if (producer == NULL) return false;
    *producer_epoch = producer->epoch;
    *coordinator_epoch = producer->coordinator_epoch;
    return true;
}

bool ol_log_last_batch_of(const ol_log *log, int64_t producer_id, ol_log_last_batch *last) {
    const ol_producer *producer = ol_producers_find(&log->producers.map, producer_id);
    if (producer == NULL) return false;
    *last = (ol_log_last_batch){
        .last_offset = producer->last_offset,
        .timestamp = producer->timestamp,
        .last_sequence = producer->last_sequence,
        .offset_delta = producer->offset_delta,
        .epoch = producer->epoch,
    };
    return true;
}

static int compare_states(const void *a, const void *b) {
    int64_t left = ((const ol_log_producer_state *)a)->producer_id;
    int64_t right = ((const ol_log_producer_state *)b)->producer_id;
    return left < right ? -1 : left > right;
}

int ol_log_producers_copy(const ol_log *log, ol_log_producer_state **states, size_t *count,
                          ol_error *error) {
    const ol_producers *producers = &log->producers.map;
    *states = NULL;
    *count = 0;
    if (producers->count == 0) return OL_OK;
    ol_log_producer_state *copy = malloc(producers->count * sizeof *copy);
    if (copy == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu producers", producers->count);
    }
    size_t filled = 0;
    for (size_t i = 0; i < producers->slot_count; i++) {
        const ol_producer *producer = &producers->slots[i];
        if (producer->producer_id < 0) continue;
        copy[filled++] = (ol_log_producer_state){producer->producer_id, producer->last_offset,
                                                 producer->epoch};
    }
    OL_ASSERT(filled == producers->count);
    qsort(copy, filled, sizeof *copy, compare_states);
    *states = copy;
    *count = filled;
    return OL_OK;
}

int64_t ol_log_highest_producer_id(const ol_log *log) { return log->producers.highest_id; }

int64_t ol_log_first_unstable(const ol_log *log) {
    int64_t first = ol_producers_first_open_offset(&log->producers.map);
    return first >= 0 ? first : ol_log_end(log);
}

bool ol_log_has_flushed_record(const ol_log *log) {
    return ol_log_flushed(log) != log->note.written;
}

int64_t ol_log_take_flushed_record(ol_log *log) {
    int64_t flushed = ol_log_flushed(log);
    if (flushed == log->note.written) return -1;
    log->note.taken = true;
    return flushed;
}

/* ------------------------------------------------------------ the end */

static void free_log(ol_log *log) {
    pthread_mutex_destroy(&log->swap.lock);
    pthread_mutex_destroy(&log->flush.lock);
    pthread_mutex_destroy(&log->extension.lock);
    pthread_mutex_destroy(&log->manifest.lock);
    pthread_mutex_destroy(&log->list.lock);
    pthread_mutex_destroy(&log->epochs.lock);
    pthread_mutex_destroy(&log->read.lock);
    for (int i = 0; i < 2; i++) pthread_mutex_destroy(&log->steps.locks[i]);
    ol_leader_epochs_free(&log->epochs.cache);
    ol_manifest_free(&log->manifest.kept);
    ol_producers_free(&log->producers.map);
    free(log->list.segments);
    free(log->extension.spares);
    free(log->directory);
    free(log);
}

/* A rolled segment stays in use until it is flushed.  The active one, and one with a swap that
 * failed after the point of no return, stay in use until the close. */
static bool is_used_by_log(const ol_log *log, const ol_segment *segment) {
    return segment == log->tail.active || segment->flush_needed || segment->held;
}

void ol_log_abandon(ol_log *log) {
    bool forked = log->process != getpid();
    OL_ASSERT(forked || !log->list.is_cleaning);
    for (size_t i = 0; i < log->list.count; i++) {
        ol_segment *segment = log->list.segments[i];
        if (forked) {
            ol_segment_abandon(segment);
            continue;
        }
        if (log->writable && is_used_by_log(log, segment)) ol_segment_unuse(segment);
        ol_segment_close_indexes(segment);
        ol_segment_release(segment);
    }
    for (size_t i = 0; i < log->extension.spare_count; i++) {
        if (forked) {
            ol_segment_abandon(log->extension.spares[i]);
            continue;
        }
        ol_segment_unuse(log->extension.spares[i]);
        ol_segment_release(log->extension.spares[i]);
    }
    ol_flush_sidecar_close(&log->flush.sidecar);
    free_log(log);
}

/* Truncates the active file to its true size, which frees the kept and extended space: the files
 * below may need it. */
static int trim_tail(ol_log *log, ol_error *error) {
    ol_segment *active = log->tail.active;
    int status = ol_log_drop_spares(log, error);
    /* If another process truncated the file, trimming would restore its length with zeros. */
    if (status == OL_OK) status = ol_segment_check_length(active, log->tail.size, error);
    if (status == OL_OK && atomic_load(&active->extended) > log->tail.size) {
        atomic_store(&active->extended, log->tail.size);
        atomic_store(&active->populated, log->tail.size);
        status = log->fs->truncate(active->file, log->tail.size, error);
    }
    if (status != OL_OK) return status;
    pthread_mutex_lock(&active->lock);
    status = ol_transaction_index_trim(&active->transaction_index, error);
    pthread_mutex_unlock(&active->lock);
    return status;
}

/* A failed flush is never repeated: the kernel counts the pages that it lost as clean. */
static int flush_for_good(ol_log *log, ol_error *error) {
    int status = ol_segment_flush(log->tail.active, error);
    if (status != OL_OK) ol_log_set_failed(log);
    return status;
}

/* Trims and flushes the files that this log wrote; under flush.lock and extension.lock. */
static int close_files(ol_log *log, ol_error *error) {
    ol_segment *active = log->tail.active;
    int status = trim_tail(log, error);
    if (status != OL_OK) return status;
    bool changed = atomic_load(&log->signals.appended);
    if (changed) status = ol_segment_finish_indexes(active, error);
    if (status == OL_OK) status = ol_log_store_epochs(log, error);
    bool is_stored = log->producers.snapshot_offset == log->tail.next_offset &&
                     !log->producers.snapshot_unflushed;
    if (status == OL_OK && changed && !is_stored) {
        status = ol_log_store_snapshot(log, log->tail.next_offset, true, error);
    }
    if (status == OL_OK && changed) status = flush_for_good(log, error);
    if (status == OL_OK) status = ol_log_flush_locked(log, error);
    if (status == OL_OK && changed) {
        status = log->fs->flush_directory(log->fs, log->directory, error);
        if (status != OL_OK) ol_log_set_failed(log);
    }
    if (status == OL_OK && (changed || atomic_load(&log->manifest.is_due))) {
        status = ol_log_store_manifest(log, error);
    }
    return status;
}

int ol_log_close(ol_log *log, ol_error *error) {
    int status = OL_OK;
    if (log->writable && log->process == getpid()) {
        pthread_mutex_lock(&log->swap.lock);
        pthread_mutex_lock(&log->flush.lock);
        pthread_mutex_lock(&log->extension.lock);
        status = ol_log_check_writable(log, error);
        if (status == OL_OK) status = close_files(log, error);
        if (status == OL_DISK_FULL && !ol_log_has_failed(log)) {
            /* This is not a clean close, but committed records must survive. */
            ol_error ignored;
            int flushed = ol_log_flush_locked(log, &ignored);
            (void)flushed;
        }
        pthread_mutex_unlock(&log->extension.lock);
        pthread_mutex_unlock(&log->flush.lock);
        pthread_mutex_unlock(&log->swap.lock);
    }
    ol_log_abandon(log);
    return status;
}
