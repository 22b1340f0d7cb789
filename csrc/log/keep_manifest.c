/* Keeps the manifest up to date.  If a change removes something from the log, the manifest is
 * stored before the change.  If a change adds something, the manifest is stored after it is on
 * disk.  So the manifest never claims more than there is. */
#include <stdlib.h>

#include "log/log_impl.h"

/* Collects the closed segments below `below` that are flushed; malloc'ed. */
static int collect_segments(ol_log *log, int64_t below, ol_manifest *manifest, ol_error *error) {
    pthread_mutex_lock(&log->list.lock);
    size_t count = log->list.count;
    ol_manifest_segment *segments = malloc((count + 1) * sizeof *segments);
    size_t filled = 0;
    for (size_t i = 0; i + 1 < count && segments != NULL; i++) {
        const ol_segment *segment = log->list.segments[i];
        if (segment->flush_needed || segment->base_offset >= below) break;
        segments[filled++] = (ol_manifest_segment){
            .base_offset = segment->base_offset,
            .end_offset = log->list.segments[i + 1]->base_offset,
            .size = atomic_load(&segment->size),
            .checksum = segment->checksum,
            .has_checksum = segment->has_checksum,
        };
    }
    pthread_mutex_unlock(&log->list.lock);
    manifest->segments = segments;
    manifest->segment_count = filled;
    return segments != NULL ? OL_OK
                            : ol_fail(error, OL_NO_MEMORY, "no memory for a manifest");
}

/* Under manifest.lock. */
static int store_below(ol_log *log, int64_t below, ol_error *error) {
    char path[OL_PATH_MAX];
    ol_manifest *kept = &log->manifest.kept;
    int status = ol_log_path(log, OL_MANIFEST_FILE, path, error);
    if (status == OL_OK) status = collect_segments(log, below, kept, error);
    kept->sequence++;
    if (status == OL_OK) status = ol_manifest_store(kept, log->fs, path, error);
    atomic_store(&log->manifest.is_due, status != OL_OK);
    ol_manifest_drop_segments(kept);
    return status;
}

int ol_log_store_manifest(ol_log *log, ol_error *error) {
    pthread_mutex_lock(&log->manifest.lock);
    int status = store_below(log, INT64_MAX, error);
    pthread_mutex_unlock(&log->manifest.lock);
    return status;
}

void ol_log_note_tail(ol_log *log, const ol_flush_sidecar_bound *flushed) {
    pthread_mutex_lock(&log->manifest.lock);
    log->manifest.kept.tail = (ol_manifest_segment){.base_offset = flushed->segment_base,
                                                    .end_offset = flushed->offset,
                                                    .size = flushed->position};
    pthread_mutex_unlock(&log->manifest.lock);
}

int ol_log_note_epoch(ol_log *log, int32_t epoch, ol_error *error) {
    int32_t before = log->manifest.kept.epoch;
    if (epoch == before && !atomic_load(&log->manifest.is_due)) return OL_OK;
    log->manifest.kept.epoch = epoch;
    int status = store_below(log, INT64_MAX, error);
    if (status != OL_OK) log->manifest.kept.epoch = before;
    return status;
}

bool ol_log_has_other_writers(const ol_log *log) {
    return atomic_load_explicit(&log->manifest.has_other, memory_order_relaxed);
}

int ol_log_note_foreign(ol_log *log, ol_error *error) {
    int status = OL_OK;
    atomic_store(&log->manifest.has_other, true);
    pthread_mutex_lock(&log->manifest.lock);
    ol_manifest *kept = &log->manifest.kept;
    bool is_ours = kept->ranges[kept->range_count - 1].is_ours;
    if (is_ours) status = ol_manifest_add_range(kept, ol_log_end(log), false, error);
    if (status == OL_OK && (is_ours || atomic_load(&log->manifest.is_due))) {
        status = store_below(log, INT64_MAX, error);
    }
    pthread_mutex_unlock(&log->manifest.lock);
    return status;
}

int ol_log_note_swap(ol_log *log, const ol_manifest_segment *segment, int64_t last_base,
                     ol_error *error) {
    pthread_mutex_lock(&log->manifest.lock);
    ol_manifest *kept = &log->manifest.kept;
    const int64_t cleaned = kept->cleaned;
    kept->has_swap = true;
    kept->swap = *segment;
    kept->swap_last = last_base;
    if (cleaned < segment->end_offset) kept->cleaned = segment->end_offset;
    int status = store_below(log, INT64_MAX, error);
    if (status != OL_OK) {
        kept->has_swap = false;
        kept->cleaned = cleaned;
    }
    pthread_mutex_unlock(&log->manifest.lock);
    return status;
}

void ol_log_forget_swap(ol_log *log) {
    pthread_mutex_lock(&log->manifest.lock);
    log->manifest.kept.has_swap = false;
    atomic_store(&log->manifest.is_due, true);
    pthread_mutex_unlock(&log->manifest.lock);
}

int ol_log_note_cut(ol_log *log, int64_t base_offset, int64_t end, int64_t size, ol_error *error) {
    pthread_mutex_lock(&log->manifest.lock);
    ol_manifest *kept = &log->manifest.kept;
    const ol_manifest before = *kept;
    while (kept->range_count > 1 && kept->ranges[kept->range_count - 1].offset >= end) {
        kept->range_count--;
    }
    if (kept->cleaned > end) kept->cleaned = end;
    kept->has_swap = false;
    /* A tail below the new end stays, because the bytes between may not be on disk. */
    if (kept->tail.end_offset > end || kept->tail.base_offset > base_offset) {
        kept->tail = (ol_manifest_segment){.base_offset = base_offset < end ? base_offset : end,
                                           .end_offset = end,
                                           .size = size};
    }
    int status = store_below(log, base_offset, error);
    if (status != OL_OK) {
        int64_t sequence = kept->sequence;
        *kept = before;
        kept->sequence = sequence;
    }
    pthread_mutex_unlock(&log->manifest.lock);
    return status;
}
