/* Truncates a log.  The sidecar is lowered and flushed first, so that removed bytes can never count
 * as flushed.  The removed names and the new length are durable before the call returns, so that a
 * crash cannot bring removed batches back between newer ones.
 *
 * A power loss in the middle can leave a file that still has its old length.  It then has zeros
 * where the truncation cleared its last page, and after them old batches whose `ol.flushed` header
 * claims a bound above the new end.  Therefore the truncation first creates an empty file
 * `offsetlog.cut-<offset>`, which makes recovery ignore these batches.  The name of this file is
 * durable before the truncation, and its removal is durable before the call returns. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/directory_pass.h"
#include "log/log_impl.h"
#include "log/segment_checksum.h"
#include "log/file_scan.h"
#include "log/swap_plan.h"

enum { COPY_CHUNK = 1 << 20 };

typedef struct cut_place {
    size_t index;               /* segment that will be the last */
    int64_t base_offset;
    int64_t position;           /* its new size */
    int64_t end;                /* the new log end */
} cut_place;

/* Finds the first batch whose last offset is at or above `offset`: this batch and everything after
 * it are removed. */
static int find_cut(ol_log *log, int64_t offset, cut_place *cut, ol_error *error) {
    for (size_t i = log->list.count; i-- > 0;) {
        ol_segment *segment = log->list.segments[i];
        if (segment->base_offset > offset && i > 0) continue;
        *cut = (cut_place){.index = i,
                           .base_offset = segment->base_offset,
                           .end = segment->base_offset};
        if (segment->base_offset >= offset) break;
        ol_file_scan scan;
        int status = ol_file_scan_open(&scan, log->fs, segment->path, 0,
                                       atomic_load(&segment->size), error);
        if (status != OL_OK) return status;
        ol_batch batch;
        while ((status = ol_file_scan_next(&scan, &batch, error)) == OL_OK &&
               batch.last_offset < offset) {
            cut->position = scan.position;
            cut->end = ol_batch_next_offset(&batch);
        }
        ol_file_scan_close(&scan);
        if (status != OL_OK && status != OL_END) return status;
        break;
    }
    /* Nothing is left below the first segment: the log begins again at the offset (as Kafka's
     * truncateFullyAndStartAt). */
    if (cut->end > offset) cut->end = offset;
    return OL_OK;
}

/* Replaces the file by a copy of its first `size` bytes: readers continue with the file that they
 * have. */
static int replace_by_copy(ol_log *log, const ol_segment *segment, int64_t size, ol_error *error) {
    char path[OL_PATH_MAX];
    ol_file *source = NULL;
    ol_file *target = NULL;
    uint8_t *chunk = malloc(COPY_CHUNK);
    if (chunk == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to copy a segment");
    int status = ol_log_path(log, OL_TRUNCATED_FILE, path, error);
    if (status == OL_OK) {
        status = log->fs->open(log->fs, segment->path, OL_OPEN_READ, &source, error);
    }
    if (status == OL_OK) status = log->fs->open(log->fs, path, OL_OPEN_CREATE, &target, error);
    if (status == OL_OK) status = log->fs->truncate(target, 0, error);
    for (int64_t at = 0; at < size && status == OL_OK;) {
        size_t wanted = size - at < COPY_CHUNK ? (size_t)(size - at) : COPY_CHUNK;
        size_t got = 0;
        status = log->fs->read(source, at, chunk, wanted, &got, error);
        if (status == OL_OK && got == 0) {
            status = ol_fail(error, OL_IO, "the segment is shorter than it should be");
        }
        if (status == OL_OK) status = log->fs->write(target, at, chunk, got, error);
        at += (int64_t)got;
    }
    if (status == OL_OK) status = log->fs->flush(target, error);
    if (source != NULL) log->fs->close(source);
    if (target != NULL) log->fs->close(target);
    if (status == OL_OK) status = log->fs->rename(log->fs, path, segment->path, error);
    free(chunk);
    return status;
}

/* Removes the last segment, which is detached, from the list. */
static void drop_last(ol_log *log) {
    ol_segment *last = log->list.segments[--log->list.count];
    if (last == log->tail.active || last->flush_needed) ol_segment_unuse(last);
    if (last == log->tail.active) log->tail.active = NULL;
    pthread_mutex_lock(&last->lock);
    ol_segment_close_indexes(last);
    pthread_mutex_unlock(&last->lock);
    ol_segment_release(last);
}

/* Makes the file of the segment that stays `position` bytes long.  It is detached, so that no new
 * user can come. */
static int cut_segment(ol_log *log, ol_segment *segment, int64_t position, ol_error *error) {
    uint32_t own = segment == log->tail.active || segment->flush_needed ? 1 : 0;
    pthread_mutex_lock(&segment->lock);
    bool read = segment->users > own;
    pthread_mutex_unlock(&segment->lock);
    if (read) return replace_by_copy(log, segment, position, error);
    ol_file *file = NULL;
    int status = log->fs->open(log->fs, segment->path, OL_OPEN_WRITE, &file, error);
    if (status == OL_OK) status = log->fs->truncate(file, position, error);
    if (status == OL_OK) status = log->fs->flush(file, error);
    if (file != NULL) log->fs->close(file);
    return status;
}

/* Finds what the writer must know about a segment that becomes active again. */
static int learn_segment(ol_segment *segment, ol_error *error) {
    ol_file_scan scan;
    ol_batch batch;
    int status = ol_file_scan_open(&scan, segment->fs, segment->path, 0,
                                   atomic_load(&segment->size), error);
    if (status != OL_OK) return status;
    segment->first_timestamp = -1;
    segment->max_timestamp = -1;
    segment->max_timestamp_offset = segment->base_offset;
    segment->bytes_since_index = 0;
    segment->checksum = 0;
    segment->has_checksum = true;
    segment->is_index_cut = true;
    for (int64_t position = 0; (status = ol_file_scan_next(&scan, &batch, error)) == OL_OK;
         position = scan.position) {
        if (position == 0) segment->first_timestamp = batch.max_timestamp;
        segment->checksum = ol_segment_checksum_add(segment->checksum, batch.data);
        if (batch.max_timestamp > segment->max_timestamp) {
            segment->max_timestamp = batch.max_timestamp;
            segment->max_timestamp_offset = batch.last_offset;
        }
    }
    ol_file_scan_close(&scan);
    return status == OL_END ? OL_OK : status;
}

/* Adds a new segment object for the truncated file at the end of the list; it receives the next
 * batches. */
static int reopen_last(ol_log *log, const cut_place *cut, ol_error *error) {
    char path[OL_PATH_MAX];
    ol_segment *segment = NULL;
    int status = ol_segment_path(path, sizeof path, log->directory, cut->base_offset, ".log",
                                 error);
    if (status == OL_OK) {
        status = ol_segment_create(log->fs, log->directory, path, cut->base_offset, cut->position,
                                   &segment, error);
    }
    if (status != OL_OK) return status;
    int64_t mapped = cut->position > log->config.segment_bytes ? cut->position
                                                               : log->config.segment_bytes;
    status = learn_segment(segment, error);
    if (status == OL_OK) {
        status = ol_segment_use_writable(segment, NULL, (size_t)mapped, log->config.append, error);
    }
    if (status != OL_OK) {
        ol_segment_release(segment);
        return status;
    }
    status = ol_segment_open_indexes(segment, (size_t)log->config.segment_index_bytes, error);
    if (status == OL_OK) {
        status = ol_index_truncate(&segment->offset_index, cut->end, cut->position, error);
    }
    if (status == OL_OK) {
        status = ol_index_truncate(&segment->time_index, cut->end, cut->position, error);
    }
    if (status == OL_OK) {
        status = ol_transaction_index_truncate(&segment->transaction_index, cut->end, error);
    }
    if (status != OL_OK) {
        ol_segment_unuse(segment);
        ol_segment_release(segment);
        return status;
    }
    /* The list has space, because a segment was just removed from it. */
    log->list.segments[log->list.count++] = segment;
    ol_log_activate(log, segment);
    return OL_OK;
}

static int cut_note_path(const ol_log *log, int64_t offset, char path[OL_PATH_MAX],
                         ol_error *error) {
    char name[64];
    snprintf(name, sizeof name, OL_CUT_PREFIX "%" PRId64, offset);
    return ol_log_path(log, name, path, error);
}

static int leave_cut_note(ol_log *log, int64_t offset, ol_error *error) {
    char path[OL_PATH_MAX];
    ol_file *file = NULL;
    int status = cut_note_path(log, offset, path, error);
    if (status == OL_OK) status = log->fs->open(log->fs, path, OL_OPEN_CREATE, &file, error);
    if (status == OL_OK) log->fs->close(file);
    return status;
}

/* Removes the files of the dropped segments, the last one first; then truncates.  Under list.lock
 * and extension.lock. */
static int cut_files(ol_log *log, const cut_place *cut, ol_error *error) {
    int status = OL_OK;
    /* Readers in these segments continue with the files that they have, and then find their
     * positions again. */
    for (size_t i = cut->index; i < log->list.count; i++) ol_segment_detach(log->list.segments[i]);
    while (log->list.count > cut->index + 1 && status == OL_OK) {
        status = ol_segment_remove_files(log->fs, log->directory,
                                         log->list.segments[log->list.count - 1]->base_offset,
                                         error);
        if (status == OL_OK) drop_last(log);
    }
    /* If the removals were lost and the truncation was not, the removed segments would come back
     * after a gap that looks legal. */
    if (status == OL_OK) status = log->fs->flush_directory(log->fs, log->directory, error);
    if (status != OL_OK) return status;
    ol_segment *last = log->list.segments[cut->index];
    if (cut->end < cut->base_offset) {
        ol_segment *fresh = NULL;
        status = ol_segment_remove_files(log->fs, log->directory, cut->base_offset, error);
        if (status != OL_OK) return status;
        drop_last(log);
        status = ol_log_start_segment(log, cut->end, &fresh, error);
        if (status != OL_OK) return status;
        log->list.segments[log->list.count++] = fresh;
        ol_log_activate(log, fresh);
        return OL_OK;
    }
    status = cut_segment(log, last, cut->position, error);
    if (status != OL_OK) return status;
    drop_last(log);
    return reopen_last(log, cut, error);
}

/* Loads the producer state at the new end: an older snapshot and the batches after it. */
static int reload_producers(ol_log *log, int64_t end, ol_error *error) {
    char **names = NULL;
    size_t name_count = 0;
    ol_producers_clear(&log->producers.map);
    ol_found_segment *found = calloc(log->list.count, sizeof *found);
    if (found == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to reload producers");
    for (size_t i = 0; i < log->list.count; i++) {
        found[i].path = log->list.segments[i]->path;
        found[i].base_offset = log->list.segments[i]->base_offset;
        found[i].size = atomic_load(&log->list.segments[i]->size);
        found[i].next_offset = i + 1 < log->list.count ? log->list.segments[i + 1]->base_offset
                                                       : end;
    }
    int status = ol_directory_list(log->fs, log->directory, &names, &name_count, error);
    if (status == OL_OK) {
        status = ol_log_remove_snapshots(log, names, name_count, end, false, error);
    }
    int64_t highest = log->producers.highest_id;
    if (status == OL_OK) {
        status = ol_log_replay(log, found, log->list.count, end, NULL, names, name_count,
                               error);
    }
    if (highest > log->producers.highest_id) log->producers.highest_id = highest;
    ol_directory_free_names(names, name_count);
    free(found);
    return status;
}

static int32_t epoch_before(ol_log *log, int64_t offset) {
    pthread_mutex_lock(&log->epochs.lock);
    int32_t epoch = ol_leader_epochs_at(&log->epochs.cache, offset - 1);
    pthread_mutex_unlock(&log->epochs.lock);
    return epoch;
}

static int remove_cut_note(ol_log *log, int64_t offset, ol_error *error) {
    char path[OL_PATH_MAX];
    int status = cut_note_path(log, offset, path, error);
    if (status == OL_OK) status = log->fs->remove(log->fs, path, error);
    if (status == OL_OK) status = log->fs->flush_directory(log->fs, log->directory, error);
    return status;
}

/* Returns `status`, the failure for which the truncation is given up, if the note is durably gone.
 * With the note, an open would remove damaged batches above the offset as the rest of a truncation,
 * and not report them.  The log must therefore take no more batches while the note may stay. */
static int take_back_cut_note(ol_log *log, int64_t offset, int status, ol_error *error) {
    ol_error failure;
    if (remove_cut_note(log, offset, &failure) == OL_OK) return status;
    *error = failure;
    return error->status = OL_IO;
}

/* Lowers the sidecar, creates the note, and removes from the manifest what will be truncated.
 * Everything that needs space is done here, before the truncation: if it returns OL_DISK_FULL, the
 * log is as it was, and a sidecar that is too low is still true.  If the note may stay, the status
 * is OL_IO.  Under flush.lock. */
static int announce_cut(ol_log *log, const cut_place *cut, ol_error *error) {
    ol_flush_sidecar_bound bound = {
        .offset = cut->end,
        .segment_base = cut->base_offset,
        .position = cut->position,
        .leader_epoch = epoch_before(log, cut->end),
    };
    bool lowers = ol_log_flushed(log) > cut->end;
    log->flush.settled_base = -1;
    int status = lowers ? ol_log_store_bound(log, &bound, true, error) : OL_OK;
    if (status == OL_OK) status = leave_cut_note(log, cut->end, error);
    if (status == OL_OK) {
        status = ol_log_note_cut(log, cut->base_offset, cut->end, cut->position, error);
        if (status != OL_OK) status = take_back_cut_note(log, cut->end, status, error);
    }
    if (status == OL_OK && lowers) atomic_store(&log->shared.flushed, cut->end);
    return status;
}

/* If the disk is full, the checkpoint keeps the removed epochs.  They do no harm, and the next
 * flush stores those that are left. */
static int store_epochs_of_cut(ol_log *log, ol_error *error) {
    int status = ol_log_store_epochs(log, error);
    return status == OL_DISK_FULL ? OL_OK : status;
}

/* Under flush.lock and extension.lock. */
static int truncate_to(ol_log *log, const cut_place *cut, ol_error *error) {
    /* A flush covers batches that are appended while it runs, above the end that it reports.  If
     * the log is truncated to that end, `flushed` stays, but new bytes are then written below the
     * position of that flush, which did not cover them. */
    log->flush.last.position = 0;
    ol_log_count_ends(log, 0);
    atomic_store_explicit(&log->shared.end, cut->end, memory_order_release);
    atomic_store(&log->signals.appended, true);
    log->note.written = -1;        /* the batch that carried it may be gone */
    pthread_mutex_lock(&log->epochs.lock);
    if (ol_leader_epochs_truncate_from_end(&log->epochs.cache, cut->end)) {
        log->epochs.changed = true;
    }
    log->tail.newest_epoch = ol_leader_epochs_newest(&log->epochs.cache);
    pthread_mutex_unlock(&log->epochs.lock);
    pthread_mutex_lock(&log->list.lock);
    int status = cut_files(log, cut, error);
    pthread_mutex_unlock(&log->list.lock);
    if (status == OL_OK) log->tail.next_offset = cut->end;
    if (status == OL_OK) status = reload_producers(log, cut->end, error);
    if (status == OL_OK) status = store_epochs_of_cut(log, error);
    if (status == OL_OK) status = remove_cut_note(log, cut->end, error);
    if (cut->end < ol_log_start(log)) atomic_store(&log->shared.start, cut->end);
    return status;
}

/* Called when nothing was written at the offset or above.  A leader may still have begun an epoch
 * there, which another leader's log does not have. */
static int drop_epochs(ol_log *log, int64_t offset, ol_error *error) {
    pthread_mutex_lock(&log->epochs.lock);
    bool changed = ol_leader_epochs_truncate_from_end(&log->epochs.cache, offset);
    if (changed) log->epochs.changed = true;
    log->tail.newest_epoch = ol_leader_epochs_newest(&log->epochs.cache);
    pthread_mutex_unlock(&log->epochs.lock);
    return changed ? store_epochs_of_cut(log, error) : OL_OK;
}

int ol_log_truncate(ol_log *log, int64_t offset, ol_error *error) {
    int status = ol_log_check_writable(log, error);
    if (status != OL_OK) return status;
    if (offset < 0) return ol_fail(error, OL_INVALID, "a log cannot be truncated to below 0");
    if (offset >= log->tail.next_offset) return drop_epochs(log, offset, error);
    cut_place cut = {0};
    pthread_mutex_lock(&log->swap.lock);
    pthread_mutex_lock(&log->flush.lock);
    pthread_mutex_lock(&log->extension.lock);
    /* The next open may finish an abandoned swap, and undo this truncation, unless the files of the
     * swap are removed before. */
    status = ol_log_clear_leftovers_locked(log, error);
    if (status == OL_OK) status = find_cut(log, offset, &cut, error);
    if (status == OL_OK) {
        /* A reader that finds a file shorter than before must learn why, even during the
         * truncation; a reader that starts meanwhile sees the new end. */
        atomic_fetch_add(&log->shared.cuts, 1);
        status = announce_cut(log, &cut, error);
        bool refused = status == OL_DISK_FULL;
        if (status == OL_OK) status = truncate_to(log, &cut, error);
        /* The truncation may be half done: only opening the log again shows what is left.  Segments
         * stay detached, because a file may be shorter than its object says; the flag refuses
         * readers, so that they do not try these segments again and again. */
        if (status != OL_OK && !refused) {
            atomic_store(&log->shared.half_cut, true);
            ol_log_set_failed(log);
            log->tail.slow = true;
        }
        atomic_fetch_add(&log->shared.cuts, 1);
    }
    pthread_mutex_unlock(&log->extension.lock);
    pthread_mutex_unlock(&log->flush.lock);
    pthread_mutex_unlock(&log->swap.lock);
    return status;
}

/* Drops the empty segment before the active one, which is no longer needed.  Under swap.lock,
 * flush.lock and extension.lock. */
static int drop_empty_first(ol_log *log, ol_error *error) {
    pthread_mutex_lock(&log->list.lock);
    ol_segment *first = log->list.segments[0];
    int64_t base_offset = first->base_offset;
    OL_ASSERT(log->list.count == 2 && first != log->tail.active && !first->flush_needed);
    ol_segment_detach(first);
    log->list.segments[0] = log->list.segments[1];
    log->list.count = 1;
    atomic_store(&log->shared.start, log->list.segments[0]->base_offset);
    pthread_mutex_unlock(&log->list.lock);
    pthread_mutex_lock(&first->lock);
    ol_segment_close_indexes(first);
    pthread_mutex_unlock(&first->lock);
    ol_segment_release(first);
    /* A manifest that lists the segment would report its file as lost. */
    int status = ol_log_store_manifest(log, error);
    if (status == OL_OK) {
        status = ol_segment_remove_files(log->fs, log->directory, base_offset, error);
    }
    if (status == OL_OK) status = log->fs->flush_directory(log->fs, log->directory, error);
    return status;
}

static int check_restart(const ol_log *log, int64_t offset, ol_error *error) {
    int status = ol_log_check_writable(log, error);
    if (status != OL_OK) return status;
    bool is_empty = log->list.count == 1 && log->tail.size == 0;
    if (!is_empty || offset < log->tail.next_offset) {
        return ol_fail(error, OL_INVALID,
                       "only an empty log can begin at another offset, which must be %lld or above",
                       (long long)log->tail.next_offset);
    }
    return OL_OK;
}

int ol_log_restart(ol_log *log, int64_t offset, ol_error *error) {
    int64_t flushed;
    int status = check_restart(log, offset, error);
    if (status != OL_OK || offset == log->tail.active->base_offset) return status;
    /* The offsets from here up to `offset` will never exist. */
    status = ol_log_note_foreign(log, error);
    atomic_store(&log->signals.appended, true);
    if (status == OL_OK) status = ol_log_roll(log, offset, error);
    if (status != OL_OK) return status;
    log->tail.next_offset = offset;
    atomic_store_explicit(&log->shared.end, offset, memory_order_release);
    status = ol_log_flush(log, &flushed, error);
    if (status != OL_OK) return status;
    pthread_mutex_lock(&log->swap.lock);
    pthread_mutex_lock(&log->flush.lock);
    pthread_mutex_lock(&log->extension.lock);
    status = drop_empty_first(log, error);
    pthread_mutex_unlock(&log->extension.lock);
    pthread_mutex_unlock(&log->flush.lock);
    pthread_mutex_unlock(&log->swap.lock);
    return status;
}
