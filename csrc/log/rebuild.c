/* Rebuilds state from the log during an open: the producers, and indexes that are missing, that are
 * stale or that an unclean stop has left. */
#include <stdlib.h>
#include <string.h>

#include "log/log_impl.h"
#include "log/file_scan.h"

static bool snapshot_offset(const char *name, int64_t *offset) {
    const char *suffix = NULL;
    return ol_file_name_parse(name, offset, &suffix) && strcmp(suffix, ".snapshot") == 0;
}

static int remove_snapshot(ol_log *log, const char *name, ol_error *error) {
    char path[OL_PATH_MAX];
    int status = ol_log_path(log, name, path, error);
    if (status == OL_OK) status = log->fs->remove(log->fs, path, error);
    return status == OL_NO_SUCH_FILE ? OL_OK : status;
}

/* Loads the newest whole snapshot at or below `snapshot_max`; bad ones are removed
 * (docs/format/directory.md §1.6).  *from is its offset, 0 when there is none. */
static int load_snapshot(ol_log *log, int64_t snapshot_max, char *const *names, size_t name_count,
                         int64_t *from, ol_error *error) {
    for (;;) {
        const char *best = NULL;
        *from = -1;
        for (size_t i = 0; i < name_count; i++) {
            int64_t offset;
            if (snapshot_offset(names[i], &offset) && offset <= snapshot_max && offset > *from) {
                *from = offset;
                best = names[i];
            }
        }
        log->producers.snapshot_offset = *from;
        if (best == NULL) return OL_OK;
        char path[OL_PATH_MAX];
        int status = ol_log_path(log, best, path, error);
        if (status == OL_OK) status = ol_producers_load(&log->producers.map, log->fs, path, error);
        if (status != OL_CORRUPT && status != OL_UNSUPPORTED && status != OL_LIMIT &&
            status != OL_NO_SUCH_FILE) {
            return status;
        }
        if (log->writable) {
            status = remove_snapshot(log, best, error);
            if (status != OL_OK) return status;
        }
        snapshot_max = *from - 1;
    }
}

typedef struct replay {
    ol_log *log;
    int64_t producers_from;     /* the snapshot already covers batches below it */
    const ol_log_mark *mark;    /* where the checks began, or NULL */
} replay;

/* Loads the producers of the mark, so that no snapshot of them is needed. */
static int load_marked(ol_log *log, const ol_log_mark *mark, ol_error *error) {
    log->producers.snapshot_offset = -1;
    return ol_producers_decode(&log->producers.map,
                               ol_slice_of(mark->producers, mark->producers_size), error);
}

static int replay_producer(replay *state, ol_segment *rebuilt, const ol_batch *batch,
                           ol_error *error) {
    ol_log *log = state->log;
    ol_producers_change change = {0};
    int status = ol_producers_apply(&log->producers.map, batch, &change, error);
    /* A marker that does not decode ends nothing. */
    if (status == OL_CORRUPT || status == OL_UNSUPPORTED) return OL_OK;
    ol_log_count_producer_id(log, batch->producer_id);
    if (status == OL_OK && change.aborted && rebuilt != NULL) {
        status = ol_transaction_index_append(&rebuilt->transaction_index, &change.transaction,
                                             error);
    }
    return status;
}

/* Lets the indexes keep their entries of batches that were not checked. */
static int keep_settled(const replay *state, const ol_found_segment *found, ol_segment *segment,
                        ol_error *error) {
    int64_t offset = state->mark->offset;
    int status = OL_OK;
    if (found->rebuild_indexes) {
        status = ol_index_truncate(&segment->offset_index, offset, found->from, error);
    }
    if (status == OL_OK && (found->rebuild_indexes || found->rebuild_times)) {
        status = ol_index_truncate(&segment->time_index, offset, found->from, error);
    }
    if (status == OL_OK && found->rebuild_transactions) {
        status = ol_transaction_index_truncate(&segment->transaction_index, offset, error);
    }
    segment->max_timestamp = state->mark->max_timestamp;
    segment->max_timestamp_offset = state->mark->max_timestamp_offset;
    /* The last entries of the index may be missing. */
    segment->bytes_since_index = state->log->config.index_interval_bytes + 1;
    return status;
}

static int empty_rebuilt(const ol_found_segment *found, ol_segment *segment, ol_error *error) {
    int status = OL_OK;
    if (found->rebuild_indexes) status = ol_index_reset(&segment->offset_index, error);
    if (status == OL_OK && (found->rebuild_indexes || found->rebuild_times)) {
        status = ol_index_reset(&segment->time_index, error);
    }
    return status;
}

/* Opens the indexes of a segment for a rebuild and empties those that are to be rebuilt. */
static int open_rebuilt(const replay *state, const ol_found_segment *found, ol_segment **rebuilt,
                        ol_error *error) {
    ol_log *log = state->log;
    ol_segment *segment = NULL;
    bool is_whole = found->from == 0;
    size_t size_max = (size_t)log->config.segment_index_bytes;
    int status = ol_segment_create(log->fs, log->directory, found->path, found->base_offset,
                                   found->size, &segment, error);
    if (status != OL_OK) return status;
    status = found->rebuild_transactions && is_whole
                 ? ol_segment_open_indexes_emptied(segment, size_max, error)
                 : ol_segment_open_indexes(segment, size_max, error);
    if (status == OL_OK) {
        status = is_whole ? empty_rebuilt(found, segment, error)
                          : keep_settled(state, found, segment, error);
    }
    if (status != OL_OK) {
        ol_segment_release(segment);
        return status;
    }
    *rebuilt = segment;
    return OL_OK;
}

static int walk_segment(replay *state, const ol_found_segment *found, ol_segment *rebuilt,
                        ol_error *error) {
    ol_log *log = state->log;
    ol_file_scan scan;
    int status = ol_file_scan_open(&scan, log->fs, found->path, found->from, found->size, error);
    if (status != OL_OK) return status;
    for (;;) {
        ol_batch batch;
        int64_t position = scan.position;
        status = ol_file_scan_next(&scan, &batch, error);
        if (status != OL_OK) break;
        if (rebuilt != NULL) {
            /* If the offset index stays, the time index gets one entry, at the end. */
            ol_segment_record_batch(rebuilt, position, batch.size, batch.last_offset,
                                    batch.max_timestamp,
                                    found->rebuild_indexes ? log->config.index_interval_bytes
                                                           : INT64_MAX,
                                    NULL);
        }
        if (batch.base_offset >= state->producers_from && batch.producer_id >= 0) {
            status = replay_producer(state, found->rebuild_transactions ? rebuilt : NULL, &batch,
                                     error);
            if (status != OL_OK) break;
        }
    }
    ol_file_scan_close(&scan);
    /* Bytes that cannot be walked are in a segment that was not checked, or in a corrupt log;
     * readers report them. */
    return status == OL_IO || status == OL_NO_MEMORY || status == OL_CRASHED ||
                   status == OL_DISK_FULL
               ? status
               : OL_OK;
}

static bool needs_rebuild(const ol_found_segment *found) {
    return found->rebuild_indexes || found->rebuild_times || found->rebuild_transactions;
}

static int replay_segment(replay *state, const ol_found_segment *found, ol_error *error) {
    ol_log *log = state->log;
    ol_segment *rebuilt = NULL;
    int status = OL_OK;
    bool rebuild = log->writable && needs_rebuild(found);
    if (rebuild) status = open_rebuilt(state, found, &rebuilt, error);
    if (status == OL_OK) status = walk_segment(state, found, rebuilt, error);
    if (rebuilt != NULL) {
        if (status == OL_OK && (found->rebuild_indexes || found->rebuild_times)) {
            status = ol_segment_finish_indexes(rebuilt, error);
        }
        /* The recovery point will pass this segment, and its indexes are then never checked
         * again. */
        if (status == OL_OK) status = ol_index_flush(&rebuilt->offset_index, error);
        if (status == OL_OK) status = ol_index_flush(&rebuilt->time_index, error);
        if (status == OL_OK) {
            ol_transaction_index *transactions = &rebuilt->transaction_index;
            status = transactions->is_kept_back ? ol_transaction_index_store(transactions, error)
                                                : ol_transaction_index_flush(transactions, error);
        }
        ol_segment_release(rebuilt);
    }
    return status;
}

int ol_log_replay(ol_log *log, ol_found_segment *found, size_t count, int64_t snapshot_max,
                  const ol_log_mark *mark, char *const *names, size_t name_count,
                  ol_error *error) {
    replay state = {.log = log, .mark = mark};
    for (size_t i = 0; i < count; i++) {
        if (found[i].rebuild_transactions && found[i].base_offset < snapshot_max) {
            snapshot_max = found[i].base_offset;
        }
    }
    int status;
    if (mark != NULL) {
        state.producers_from = mark->offset;
        status = load_marked(log, mark, error);
    } else {
        status = load_snapshot(log, snapshot_max, names, name_count, &state.producers_from, error);
    }
    if (status != OL_OK) return status;
    log->producers.highest_id = -1;
    for (size_t i = 0; i < log->producers.map.slot_count; i++) {
        ol_log_count_producer_id(log, log->producers.map.slots[i].producer_id);
    }
    for (size_t i = 0; i < count && status == OL_OK; i++) {
        int64_t next_base = i + 1 < count ? found[i + 1].base_offset : INT64_MAX;
        bool needed = next_base > state.producers_from &&
                      log->producers.snapshot_offset < found[i].next_offset;
        if (needed || (needs_rebuild(&found[i]) && log->writable)) {
            status = replay_segment(&state, &found[i], error);
        }
    }
    (void)ol_log_expire_producers(log);
    return status;
}

int ol_log_remove_snapshots(ol_log *log, char *const *names, size_t name_count, int64_t offset,
                            bool strays, ol_error *error) {
    int64_t highest_base = log->list.count > 0
                               ? log->list.segments[log->list.count - 1]->base_offset
                               : -1;
    int64_t newest = -1;
    int status = OL_OK;
    for (size_t i = 0; i < name_count; i++) {
        int64_t found;
        if (snapshot_offset(names[i], &found) && found <= offset && found > newest) newest = found;
    }
    for (size_t i = 0; i < name_count && status == OL_OK; i++) {
        int64_t found;
        if (!snapshot_offset(names[i], &found)) continue;
        bool stray = found > offset;
        if (!stray && strays && !(found == newest && found > highest_base)) {
            ol_segment *segment = ol_log_find_segment(log, found);
            stray = segment == NULL || segment->base_offset != found;
            if (segment != NULL) ol_segment_release(segment);
        }
        if (stray) status = remove_snapshot(log, names[i], error);
    }
    return status;
}
