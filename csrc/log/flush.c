/* Flushes the log: first the segments that were rolled since the last flush, then the active
 * segment, then the names in the directory.  Only after that does `flushed` move.
 *
 * A flush runs at the same time as the writer.  A segment that the log wrote to stays open until a
 * flush has covered it.  Only a flush, a truncation and the close end this use, and all of them
 * hold flush.lock.  A flush therefore need not count itself as a user of the files. */
#include <stdlib.h>
#include <string.h>

#include "log/log_impl.h"

int ol_log_store_bound(ol_log *log, const ol_flush_sidecar_bound *bound, bool lower,
                       ol_error *error) {
    if (log->flush.sidecar.file == NULL) {
        char path[OL_PATH_MAX];
        int status = ol_log_path(log, OL_FLUSH_SIDECAR_FILE, path, error);
        if (status == OL_OK) {
            status = ol_flush_sidecar_open(&log->flush.sidecar, log->fs, path, error);
        }
        if (status != OL_OK) {
            /* Without a sidecar, only the distinction between torn and corrupt is less certain; but
             * a bound that is too high must be lowered. */
            return lower || status == OL_CRASHED ? status : OL_OK;
        }
    }
    if (lower) return ol_flush_sidecar_lower(&log->flush.sidecar, bound, error);
    /* If the new bound cannot be stored, the old one stays; it is lower and still true. */
    int status = ol_flush_sidecar_store(&log->flush.sidecar, bound, error);
    return status == OL_CRASHED ? status : OL_OK;
}

/* Returns the base of the segment that holds `offset`, which is in the log. */
static int64_t base_of(ol_log *log, int64_t offset) {
    ol_segment *segment = ol_log_find_segment(log, offset);
    OL_ASSERT(segment != NULL);
    int64_t base_offset = segment->base_offset;
    ol_segment_release(segment);
    return base_offset;
}

/* A sidecar that still names a segment after it was cleaned would describe another file: positions
 * past its end, and a flush that ends within a batch.  Later stores, which are not synced, only
 * name later segments. */
int ol_log_settle_bound(ol_log *log, int64_t base_offset, ol_error *error) {
    if (log->flush.settled_base >= base_offset) return OL_OK;
    int64_t flushed = ol_log_flushed(log);
    ol_flush_sidecar_bound bound = log->flush.last;
    if (bound.position == 0 || bound.offset != flushed) {
        pthread_mutex_lock(&log->epochs.lock);
        int32_t epoch = ol_leader_epochs_at(&log->epochs.cache, flushed - 1);
        pthread_mutex_unlock(&log->epochs.lock);
        bound = (ol_flush_sidecar_bound){.offset = flushed,
                                         .segment_base = base_of(log, flushed),
                                         .leader_epoch = epoch};
    }
    OL_ASSERT(bound.segment_base >= base_offset);
    int status = ol_log_store_bound(log, &bound, true, error);
    if (status == OL_OK) log->flush.settled_base = bound.segment_base;
    return status;
}

/* Collects the rolled segments that no flush has covered, ascending.  *end is the log end and
 * *position the size of the active segment.  While a batch is being published, the position may
 * already include it, but the end does not. */
static int collect(ol_log *log, ol_segment ***rolled, size_t *count, ol_segment **active,
                   int64_t *end, int64_t *position, ol_error *error) {
    *rolled = NULL;
    *count = 0;
    pthread_mutex_lock(&log->list.lock);
    *active = log->tail.active;
    *end = ol_log_end(log);
    *position = atomic_load_explicit(&log->tail.active->size, memory_order_acquire);
    for (size_t i = 0; i < log->list.count; i++) *count += log->list.segments[i]->flush_needed;
    if (*count > 0) *rolled = malloc(*count * sizeof **rolled);
    size_t filled = 0;
    for (size_t i = 0; i < log->list.count && *rolled != NULL; i++) {
        if (log->list.segments[i]->flush_needed) (*rolled)[filled++] = log->list.segments[i];
    }
    pthread_mutex_unlock(&log->list.lock);
    return *count > 0 && *rolled == NULL ? ol_fail(error, OL_NO_MEMORY, "no memory to flush")
                                         : OL_OK;
}

static void mark_flushed(ol_log *log, ol_segment *const *rolled, size_t count, bool flushed) {
    pthread_mutex_lock(&log->list.lock);
    for (size_t i = 0; i < count; i++) rolled[i]->flush_needed = !flushed;
    pthread_mutex_unlock(&log->list.lock);
}

/* Called when a rolled segment is on disk: from then on only its readers hold it open, and its note
 * is no longer needed once the manifest lists it. */
static int finish_segment(ol_log *log, ol_segment *segment, bool is_listed, ol_error *error) {
    char name[128];
    char path[OL_PATH_MAX];
    pthread_mutex_lock(&log->list.lock);
    bool note = segment->rolled_note;
    segment->rolled_note = false;
    pthread_mutex_unlock(&log->list.lock);
    pthread_mutex_lock(&segment->lock);
    ol_segment_close_indexes(segment);
    pthread_mutex_unlock(&segment->lock);
    int64_t size = atomic_load(&segment->size);
    ol_segment_unuse(segment);
    if (!note || ol_log_rolled_name(name, sizeof name, segment->base_offset, size,
                                    segment->next_base) != OL_OK) {
        return OL_OK;
    }
    int status = is_listed ? ol_log_path(log, name, path, error) : OL_IO;
    if (status == OL_OK) status = log->fs->remove(log->fs, path, error);
    /* A note that could not be removed is right until the segment is cleaned, and the next open
     * removes it. */
    if (status != OL_OK && status != OL_NO_SUCH_FILE) {
        pthread_mutex_lock(&log->list.lock);
        segment->note_stayed = true;
        pthread_mutex_unlock(&log->list.lock);
    }
    return status == OL_CRASHED ? status : OL_OK;
}

/* Returns whether only the bytes after the last flush can be dirty: published bytes are never
 * stored to again, but a truncation voids that flush. */
static bool is_tail_dirty(ol_log *log, const ol_segment *active, int64_t position) {
    const ol_flush_sidecar_bound *last = &log->flush.last;
    return last->position > 0 && last->segment_base == active->base_offset &&
           last->offset == ol_log_flushed(log) && position >= last->position;
}

static int flush_active(ol_log *log, ol_segment *active, int64_t position, ol_error *error) {
    int64_t from = is_tail_dirty(log, active, position) ? log->flush.last.position : 0;
    int status = ol_segment_flush_range(active, from, position, error);
    bool is_named = false;
    if (status == OL_OK) status = ol_segment_flush_entries(active, &is_named, error);
    if (is_named) atomic_store(&log->signals.names_changed, true);
    return status;
}

void ol_log_begin_flush(ol_log *log) {
    ol_error ignored;
    if (pthread_mutex_trylock(&log->flush.lock) != 0) return;
    if (log->writable && !ol_log_has_failed(log)) {
        pthread_mutex_lock(&log->list.lock);
        ol_segment *active = log->tail.active;
        int64_t position = atomic_load_explicit(&active->size, memory_order_acquire);
        pthread_mutex_unlock(&log->list.lock);
        /* A segment that is rolled meanwhile stays open: its file is closed under flush.lock. */
        int64_t from = log->flush.last.position;
        if (is_tail_dirty(log, active, position) && position > from &&
            ol_segment_begin_flush_range(active, from, position, &ignored) != OL_OK) {
            ol_log_set_failed(log);
        }
    }
    pthread_mutex_unlock(&log->flush.lock);
}

/* Called after our own flush succeeded: the background may be flushing the same file and may have
 * received an error that concerns our bytes, too.  Steps take turns with two locks, so this waits
 * for the step under way and never for later ones. */
static int wait_for_step(ol_log *log, ol_error *error) {
    pthread_mutex_t *lock = &log->steps.locks[atomic_load(&log->steps.newest) & 1];
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return ol_log_check_writable(log, error);
}

/* Returns whether a flush would change the disk.  The bytes of a rolled segment may be on disk
 * already, but its trimming is not. */
static bool is_flush_due(ol_log *log, int64_t end) {
    return ol_log_flushed(log) < end || atomic_load(&log->signals.roll_unflushed);
}

/* Called when rolled segments are on disk.  If the manifest cannot be stored, for example on a full
 * disk, the flush still succeeds, because the notes of the rolls stay. */
static int update_manifest(ol_log *log, const ol_flush_sidecar_bound *bound, bool rolled,
                           bool *is_listed, ol_error *error) {
    ol_log_note_tail(log, bound);
    if (!rolled && !atomic_load(&log->manifest.is_due)) return OL_OK;
    int status = ol_log_store_manifest(log, error);
    *is_listed = status == OL_OK;
    return status == OL_CRASHED ? status : OL_OK;
}

/* A flush of a file that another process truncated would confirm bytes that are missing. */
static int check_lengths(ol_segment *const *rolled, size_t count, ol_segment *active,
                         int64_t position, ol_error *error) {
    int status = ol_segment_check_length(active, position, error);
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        status = ol_segment_check_length(rolled[i], atomic_load(&rolled[i]->size), error);
    }
    return status;
}

int ol_log_flush_locked(ol_log *log, ol_error *error) {
    if (!is_flush_due(log, ol_log_end(log))) return OL_OK;
    bool rolls = atomic_exchange(&log->signals.roll_unflushed, false);
    ol_segment **rolled = NULL;
    ol_segment *active = NULL;
    size_t count = 0;
    int64_t end = 0;
    int64_t position = 0;
    int status = collect(log, &rolled, &count, &active, &end, &position, error);
    if (status == OL_OK) status = check_lengths(rolled, count, active, position, error);
    /* The epochs are stored first: a durable batch must not carry an epoch that the checkpoint
     * lacks. */
    if (status == OL_OK) status = ol_log_store_epochs(log, error);
    if (status != OL_OK) {
        if (rolls) atomic_store(&log->signals.roll_unflushed, true);
        free(rolled);
        return status;
    }
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        status = ol_segment_flush(rolled[i], error);
    }
    if (status == OL_OK) status = flush_active(log, active, position, error);
    bool names = atomic_exchange(&log->signals.names_changed, false);
    if (status == OL_OK && names) status = log->fs->flush_directory(log->fs, log->directory, error);
    if (status == OL_OK) status = wait_for_step(log, error);
    if (status != OL_OK) {
        ol_log_set_failed(log);
        free(rolled);
        return status;
    }
    pthread_mutex_lock(&log->epochs.lock);
    int32_t epoch = ol_leader_epochs_at(&log->epochs.cache, end - 1);
    pthread_mutex_unlock(&log->epochs.lock);
    ol_flush_sidecar_bound bound = {.offset = end,
                                    .segment_base = active->base_offset,
                                    .position = position,
                                    .leader_epoch = epoch};
    atomic_store_explicit(&log->shared.flushed, end, memory_order_release);
    log->flush.last = bound;
    status = ol_log_store_bound(log, &bound, false, error);
    mark_flushed(log, rolled, count, true);
    bool is_listed = true;
    if (status == OL_OK) status = update_manifest(log, &bound, count > 0, &is_listed, error);
    size_t finished = 0;
    while (finished < count && status == OL_OK) {
        status = finish_segment(log, rolled[finished++], is_listed, error);
    }
    /* The simulated machine has stopped: the other segments still belong to the log. */
    mark_flushed(log, rolled + finished, count - finished, false);
    free(rolled);
    return status;
}

void ol_log_expect_flushes(ol_log *log) { atomic_store(&log->signals.flush_demanded, true); }

size_t ol_log_count_unflushed(ol_log *log) {
    size_t count = 0;
    pthread_mutex_lock(&log->list.lock);
    /* A flush covers all of them, so they are adjacent, right below the active one. */
    for (size_t i = log->list.count; i > 0; i--) {
        const ol_segment *segment = log->list.segments[i - 1];
        if (segment == log->tail.active) continue;
        if (!segment->flush_needed) break;
        count++;
    }
    pthread_mutex_unlock(&log->list.lock);
    return count;
}

bool ol_log_wants_flush(ol_log *log) {
    if (!atomic_load_explicit(&log->signals.roll_unflushed, memory_order_relaxed) ||
        ol_log_has_failed(log)) {
        return false;
    }
    return ol_log_count_unflushed(log) >= OL_UNFLUSHED_WANTED;
}

int ol_log_flush(ol_log *log, int64_t *flushed, ol_error *error) {
    if (is_flush_due(log, ol_log_end(log)) && log->writable) ol_log_expect_flushes(log);
    return ol_log_flush_unasked(log, flushed, error);
}

int ol_log_flush_unasked(ol_log *log, int64_t *flushed, ol_error *error) {
    int64_t end = ol_log_end(log);
    int status = OL_OK;
    if (is_flush_due(log, end)) {
        status = ol_log_check_writable(log, error);
        if (status == OL_OK) {
            pthread_mutex_lock(&log->flush.lock);
            /* Another call may have flushed up to our end while we waited. */
            if (is_flush_due(log, end)) {
                status = ol_log_check_writable(log, error);
                if (status == OL_OK) status = ol_log_flush_locked(log, error);
            }
            pthread_mutex_unlock(&log->flush.lock);
        }
    }
    *flushed = ol_log_flushed(log);
    return status;
}
