/* Removes bytes that are not good batches from the segments after the owner of the directory has
 * accepted the loss, so that the log can be used again.  Every file is copied before it changes.
 * If no good batch follows the bad bytes, they are left to the recovery, which truncates them as a
 * torn tail. */
#include <stdlib.h>
#include <string.h>

#include "log/batch_rules.h"
#include "log/file_scan.h"
#include "log/log_impl.h"
#include "log/swap_plan.h"

typedef struct repair {
    ol_opening *opening;
    ol_found_segment *segment;
    bool is_last;
    int64_t offset_max;         /* the greatest that fits below the next segment */
    int64_t next_offset;        /* the next right batch begins here or above */
    bool has_bad;               /* bytes that are not a right batch were met, */
    bool has_hole;              /* and a right batch after them */
    ol_file *target;            /* NULL: batches are only inspected */
    int64_t written;
} repair;

static int take(repair *work, const ol_batch *batch, ol_error *error) {
    int status = OL_OK;
    work->has_hole |= work->has_bad;
    work->next_offset = ol_batch_next_offset(batch);
    if (work->target != NULL) {
        ol_fs *fs = work->opening->log->fs;
        status = fs->write(work->target, work->written, batch->data, batch->size, error);
        work->written += (int64_t)batch->size;
    }
    return status;
}

static bool is_right(const repair *work, const ol_batch *batch) {
    ol_error ignored;
    return batch->base_offset >= work->next_offset && batch->last_offset <= work->offset_max &&
           ol_batch_check_crc(batch, &ignored) == OL_OK;
}

/* Appends every right batch of the segment. */
static int walk(repair *work, int64_t next_offset, ol_error *error) {
    ol_file_scan scan;
    ol_batch batch;
    work->next_offset = next_offset;
    work->has_bad = work->has_hole = false;
    int status = ol_file_scan_open(&scan, work->opening->log->fs, work->segment->path, 0, -1,
                                   error);
    if (status != OL_OK) return status;
    for (;;) {
        int64_t at = scan.position;
        status = ol_file_scan_next(&scan, &batch, error);
        if (status == OL_END || status == OL_IO || status == OL_NO_MEMORY || status == OL_CRASHED) {
            break;
        }
        if (status == OL_OK && is_right(work, &batch)) {
            status = take(work, &batch, error);
            if (status != OL_OK) break;
            continue;
        }
        work->has_bad = true;
        status = ol_file_scan_resync(&scan, at, work->next_offset, work->offset_max, &batch, error);
        if (status != OL_OK) break;
    }
    ol_file_scan_close(&scan);
    return status == OL_END ? OL_OK : status;
}

/* Replaces the segment by its right batches. */
static int rewrite(repair *work, int64_t next_offset, ol_error *error) {
    ol_log *log = work->opening->log;
    ol_log_recovery *report = work->opening->report;
    char path[OL_PATH_MAX], copy[OL_PATH_MAX];
    int64_t bytes = 0;
    int status = ol_recovery_copy_aside(log, work->segment, 0, copy, &bytes, error);
    if (status == OL_OK) status = ol_log_path(log, OL_TRUNCATED_FILE, path, error);
    if (status == OL_OK) {
        status = log->fs->open(log->fs, path, OL_OPEN_CREATE, &work->target, error);
    }
    if (status != OL_OK) return status;
    work->written = 0;
    status = log->fs->truncate(work->target, 0, error);
    if (status == OL_OK) status = walk(work, next_offset, error);
    if (status == OL_OK) status = log->fs->flush(work->target, error);
    log->fs->close(work->target);
    work->target = NULL;
    if (status == OL_OK) status = log->fs->rename(log->fs, path, work->segment->path, error);
    if (status == OL_OK) status = log->fs->flush_directory(log->fs, log->directory, error);
    if (status != OL_OK) return status;
    work->segment->file_size = work->segment->size = work->written;
    report->torn_bytes += bytes;
    return OL_OK;
}

int ol_repair_segments(ol_opening *opening, ol_error *error) {
    int64_t next_offset = 0;
    int status = OL_OK;
    for (size_t i = 0; i < opening->found_count && status == OL_OK; i++) {
        ol_found_segment *segment = &opening->found[i];
        repair work = {
            .opening = opening,
            .segment = segment,
            .is_last = i + 1 == opening->found_count,
            .offset_max = ol_segment_offset_max(segment->base_offset),
        };
        if (next_offset < segment->base_offset) next_offset = segment->base_offset;
        if (!work.is_last && segment[1].base_offset <= work.offset_max) {
            work.offset_max = segment[1].base_offset - 1;
        }
        status = walk(&work, next_offset, error);
        if (status == OL_OK && (work.has_hole || (work.has_bad && !work.is_last))) {
            status = rewrite(&work, next_offset, error);
        }
        next_offset = work.next_offset;
    }
    return status;
}
