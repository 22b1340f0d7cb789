/* Walks the log to find the offset of a time.  It skips segments, and parts of segments, in which
 * no record can be later according to the time index. */
#include "log/offset_for_time.h"

#include <string.h>

#include "log/files/offset_index.h"
#include "log/log_impl.h"
#include "log/batch_walk.h"

typedef struct cutoff {
    ol_log *log;
    ol_fs *fs;
    int64_t timestamp;
    int64_t until;
    int64_t offset;             /* the end of the prefix as far as it is known */
    bool found;                 /* a batch after the prefix is too new */
} cutoff;

/* Finds the segment that holds `offset`, and the base of the next one (INT64_MAX: there is
 * none). */
static bool segment_of(const ol_log *log, int64_t offset, ol_log_segment_info *segment,
                       int64_t *next_base) {
    ol_log_segment_info info;
    bool found = false;
    *next_base = INT64_MAX;
    for (size_t i = 0; ol_log_segment_at(log, i, &info); i++) {
        if (found && info.base_offset > offset) {
            *next_base = info.base_offset;
            break;
        }
        *segment = info;
        found = true;
    }
    return found;
}

/* "<20 digits>.log" -> "<20 digits>.timeindex". */
static bool time_index_path(const char *log_path, char *path, size_t capacity) {
    const char suffix[] = ".timeindex";
    size_t stem = strlen(log_path);
    if (stem < 4 || strcmp(log_path + stem - 4, ".log") != 0 ||
        stem - 4 + sizeof suffix > capacity) {
        return false;
    }
    memcpy(path, log_path, stem - 4);
    memcpy(path + stem - 4, suffix, sizeof suffix);
    return true;
}

/* Finds how far the time index of a segment proves that no record is too new.  Sets *proven to an
 * offset in the last batch of which it proves that; returns false if it proves nothing.  An entry
 * says that no record up to its batch is newer than the entry.  This stays true if a cleaned
 * segment has replaced this one. */
static bool look_up(const cutoff *work, const ol_log_segment_info *segment, int64_t next_base,
                    int64_t *proven) {
    char path[OL_ERROR_PATH_MAX + sizeof ".timeindex"];
    ol_index index;
    ol_error ignored;
    int64_t timestamp = -1;
    if (!time_index_path(segment->path, path, sizeof path)) return false;
    if (ol_index_open(&index, work->fs, path, OL_INDEX_TIME, segment->base_offset, SIZE_MAX / 2,
                      OL_INDEX_READ, &ignored) != OL_OK) {
        return false;
    }
    int status = ol_index_check(&index, INT64_MAX, next_base, &ignored);
    if (status == OL_OK) {
        status = ol_time_index_lookup(&index, work->timestamp, &timestamp, proven, &ignored);
    }
    ol_index_close(&index);
    return status == OL_OK && timestamp >= 0 && timestamp <= work->timestamp;
}

/* Decides whether a batch ends the prefix.  Only bytes with a right CRC can show that. */
static int judge(cutoff *work, ol_batch_walk *walk, const ol_batch *batch, ol_error *error) {
    ol_error damage;
    if (OL_LIKELY(batch->max_timestamp <= work->timestamp)) {
        work->offset = ol_batch_next_offset(batch);
        return OL_OK;
    }
    if (ol_batch_check_crc(batch, &damage) != OL_OK) {
        return ol_batch_walk_refuse(walk, batch, error);
    }
    work->found = true;
    return OL_OK;
}

/* Walks from `from` to the end of the segment, where `next_base` begins, or to the first batch that
 * is too new. */
static int walk_segment(cutoff *work, int64_t from, int64_t next_base, ol_error *error) {
    ol_batch_walk walk;
    ol_batch batch;
    int64_t until = next_base < work->until ? next_base : work->until;
    int status = ol_batch_walk_open(&walk, work->log, from, until, false, error);
    if (status != OL_OK) return status;
    while (!work->found) {
        status = ol_batch_walk_next(&walk, &batch, error);
        if (status != OL_OK) break;
        status = judge(work, &walk, &batch, error);
        if (status != OL_OK) break;
    }
    ol_batch_walk_close(&walk);
    return status == OL_END ? OL_OK : status;
}

int ol_log_offset_for_time(ol_log *log, int64_t timestamp_ms, int64_t until, int64_t *offset,
                           ol_error *error) {
    cutoff work = {.log = log,
                   .fs = log->fs,
                   .timestamp = timestamp_ms,
                   .until = until,
                   .offset = ol_log_start(log)};
    ol_log_segment_info segment;
    int64_t next_base = 0;
    int64_t from = work.offset;
    int status = OL_OK;
    while (status == OL_OK && !work.found && from < until && next_base != INT64_MAX) {
        if (!segment_of(log, from, &segment, &next_base)) break;
        int64_t proven;
        /* The batch of the entry is old enough, too; the walk begins with it to find its end. */
        if (look_up(&work, &segment, next_base, &proven) && proven > from) from = proven;
        status = walk_segment(&work, from, next_base, error);
        from = next_base;
    }
    /* If no batch is too new, the prefix ends at `until`: batches that were cleaned away at the end
     * do not matter. */
    *offset = work.found && work.offset < until ? work.offset : until;
    return status;
}
