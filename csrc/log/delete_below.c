/* Removes segments at the start of the log, from the oldest on.
 *
 * The log start, the list and the manifest change first, so that neither a reader nor the next open
 * asks for a segment that is about to be removed.  Then the files are renamed, segment by segment.
 * The new names of one segment are on the disk before the next segment is renamed, so that a power
 * loss leaves no gap between existing segments. */
#include <stdlib.h>
#include <string.h>

#include "log/directory_pass.h"
#include "log/log_impl.h"

/* ------------------------------------------------------------ in memory */

/* Returns how many segments at the start end at or below `offset` and are flushed; never counts the
 * active one.  Under flush.lock and list.lock. */
static size_t count_below(const ol_log *log, int64_t offset) {
    size_t count = 0;
    while (count + 1 < log->list.count && !log->list.segments[count]->flush_needed &&
           log->list.segments[count + 1]->base_offset <= offset) {
        count++;
    }
    return count;
}

/* Neither the sidecar nor a note may name a segment that is removed.  Under swap.lock and
 * flush.lock, so the list does not shrink meanwhile. */
static int settle(ol_log *log, size_t count, ol_error *error) {
    int status = OL_OK;
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        pthread_mutex_lock(&log->list.lock);
        ol_segment *segment = log->list.segments[i];
        pthread_mutex_unlock(&log->list.lock);
        status = ol_log_remove_stayed_note(log, segment, error);
    }
    if (status != OL_OK) return status;
    pthread_mutex_lock(&log->list.lock);
    int64_t first_base = log->list.segments[count]->base_offset;
    pthread_mutex_unlock(&log->list.lock);
    return ol_log_settle_bound(log, first_base, error);
}

static void drop_first(ol_log *log, size_t count) {
    pthread_mutex_lock(&log->list.lock);
    ol_segment **segments = log->list.segments;
    for (size_t i = 0; i < count; i++) {
        /* Readers of the segment keep its file. */
        ol_segment_detach(segments[i]);
        ol_segment_release(segments[i]);
    }
    log->list.count -= count;
    memmove(segments, segments + count, log->list.count * sizeof *segments);
    pthread_mutex_unlock(&log->list.lock);
}

static void raise_start(ol_log *log, int64_t offset) {
    if (offset <= ol_log_start(log)) return;
    atomic_store_explicit(&log->shared.start, offset, memory_order_release);
    pthread_mutex_lock(&log->epochs.lock);
    if (ol_leader_epochs_truncate_from_start(&log->epochs.cache, offset)) {
        log->epochs.changed = true;
    }
    pthread_mutex_unlock(&log->epochs.lock);
}

/* Under swap.lock. */
static int forget_segments(ol_log *log, int64_t offset, ol_error *error) {
    pthread_mutex_lock(&log->flush.lock);
    raise_start(log, offset);
    pthread_mutex_lock(&log->list.lock);
    size_t count = count_below(log, offset);
    pthread_mutex_unlock(&log->list.lock);
    int status = count > 0 ? settle(log, count, error) : OL_OK;
    if (status == OL_OK && count > 0) {
        drop_first(log, count);
        atomic_store(&log->manifest.is_due, true);
    }
    pthread_mutex_unlock(&log->flush.lock);
    return status;
}

/* ------------------------------------------------------------ on disk */

/* Returns whether a file is removed with a segment: one of the segment's own, or the producer
 * snapshot before it unless that is the newest one. */
static bool goes(const char *name, int64_t first_base, int64_t newest_snapshot, int64_t *base) {
    static const char *const endings[] = {".log", ".index", ".timeindex", ".txnindex"};
    const char *ending = NULL;
    if (!ol_file_name_parse(name, base, &ending) || *base >= first_base) return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (strcmp(ending, endings[i]) == 0) return true;
    }
    return strcmp(ending, ".snapshot") == 0 && *base != newest_snapshot;
}

static int rename_deleted(ol_log *log, const char *name, ol_error *error) {
    char path[OL_PATH_MAX], target[OL_PATH_MAX];
    int status = ol_log_path(log, name, path, error);
    if (status == OL_OK) status = ol_log_path(log, name, target, error);
    size_t length = strlen(target);
    if (status == OL_OK && length + sizeof OL_DELETED_ENDING > sizeof target) {
        status = ol_fail(error, OL_LIMIT, "the name of a deleted file is too long");
    }
    if (status != OL_OK) return status;
    memcpy(target + length, OL_DELETED_ENDING, sizeof OL_DELETED_ENDING);
    return log->fs->rename(log->fs, path, target, error);
}

static int64_t newest_snapshot_of(char *const *names, size_t count) {
    int64_t newest = -1, number;
    const char *ending = NULL;
    for (size_t i = 0; i < count; i++) {
        bool is_snapshot = ol_file_name_parse(names[i], &number, &ending) &&
                           strcmp(ending, ".snapshot") == 0;
        if (is_snapshot && number > newest) newest = number;
    }
    return newest;
}

/* Renames also what an earlier call has left.  The names are sorted, so those of the oldest segment
 * come first. */
static int rename_files(ol_log *log, ol_error *error) {
    char **names = NULL;
    size_t count = 0;
    pthread_mutex_lock(&log->list.lock);
    int64_t first_base = log->list.segments[0]->base_offset;
    pthread_mutex_unlock(&log->list.lock);
    int status = ol_directory_list(log->fs, log->directory, &names, &count, error);
    if (status != OL_OK) return status;
    int64_t newest_snapshot = newest_snapshot_of(names, count), base, last = -1;
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        if (!goes(names[i], first_base, newest_snapshot, &base)) continue;
        if (last >= 0 && base != last) {
            status = log->fs->flush_directory(log->fs, log->directory, error);
        }
        if (status == OL_OK) status = rename_deleted(log, names[i], error);
        last = base;
    }
    ol_directory_free_names(names, count);
    if (status == OL_OK && last >= 0) {
        status = log->fs->flush_directory(log->fs, log->directory, error);
    }
    return status;
}

int ol_log_delete_below(ol_log *log, int64_t offset, ol_error *error) {
    int status = ol_log_check_writable(log, error);
    if (status != OL_OK) return status;
    if (offset > ol_log_flushed(log)) {
        return ol_fail(error, OL_INVALID,
                       "the log cannot begin at %lld, because it is flushed only up to %lld",
                       (long long)offset, (long long)ol_log_flushed(log));
    }
    pthread_mutex_lock(&log->swap.lock);
    status = forget_segments(log, offset, error);
    /* A manifest that lists a segment would report its file as lost. */
    if (status == OL_OK && atomic_load(&log->manifest.is_due)) {
        status = ol_log_store_manifest(log, error);
    }
    if (status == OL_OK) status = rename_files(log, error);
    if (status == OL_OK) status = ol_log_store_epochs(log, error);
    pthread_mutex_unlock(&log->swap.lock);
    return status;
}
