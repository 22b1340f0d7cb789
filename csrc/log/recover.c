/* Checks the batches of a log that is opened, and decides whether the first bad one is a torn tail
 * or corruption (docs/format/recovery.md §9.2, docs/durability.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "log/batch_rules.h"
#include "log/file_scan.h"
#include "log/log_impl.h"
#include "log/segment_checksum.h"

enum { REWRITE_CHUNK = 1 << 20 };

/* Where the first bad batch is. */
typedef struct bad_place {
    size_t index;               /* of the segment */
    int64_t position;
    ol_bad_offsets at;          /* among the offsets */
    bool whole;                 /* the CRC is right; the batch only starts too low */
    bool zeros;                 /* only zeros from there to the end of the file */
    bool searched;              /* the next two are set, as of one moment: another process may
                                   append while we read */
    int64_t noted_after;       /* the greatest `ol.flushed` after it, or -1 */
    int64_t end_after;         /* where the last right batch after it ends; `at.offset` when
                                   there is none */
    ol_error error;
} bad_place;

/* ------------------------------------------------------------ walking */

/* Checks the CRC, and the offsets by the rules of docs/durability.md; the size is right. */
static int check_batch(const ol_batch *batch, int64_t segment_base, int64_t offset_min,
                       ol_error *error) {
    int status = ol_batch_check_crc(batch, error);
    if (status != OL_OK) return status;
    ol_batch_bounds bounds = {.next_offset = offset_min, .has_previous = true};
    ol_batch_bounds_enter(&bounds, segment_base, INT64_MAX);
    if (OL_LIKELY(ol_batch_is_in_bounds(&bounds, batch))) return OL_OK;
    const uint8_t *end = batch->data + batch->size;
    return ol_batch_refuse_offsets(&bounds, batch, ol_batch_judge_offsets(&bounds, batch, end),
                                   error);
}

static void record_timestamps(ol_found_segment *segment, const ol_batch *batch, int64_t position) {
    if (position == 0) segment->first_timestamp = batch->max_timestamp;
    if (batch->max_timestamp > segment->max_timestamp) {
        segment->max_timestamp = batch->max_timestamp;
        segment->max_timestamp_offset = batch->last_offset;
    }
}

/* Only an epoch above the checkpoint's newest counts (docs/format/recovery.md §9.2).  After a clean
 * stop the checkpoint is not written for it: it is unknown where in the unchecked segments an older
 * epoch began. */
static int record_epoch(ol_opening *opening, const ol_batch *batch, ol_error *error) {
    ol_log *log = opening->log;
    if (batch->leader_epoch <= ol_leader_epochs_newest(&log->epochs.cache)) return OL_OK;
    bool changed = false;
    int status = ol_leader_epochs_assign(&log->epochs.cache, batch->leader_epoch,
                                         batch->base_offset, &changed, error);
    if (changed && !opening->options->clean) log->epochs.changed = true;
    return status;
}

/* Returns the bound that the sidecar gives, or -1.  Other programs may have worked here, and
 * truncated and extended the log.  The bound is then valid only if the segment file is at least as
 * long as the sidecar says, and if the epoch that wrote the last flushed offset is still the one
 * that the sidecar names. */
static int64_t sidecar_bound(const ol_opening *opening) {
    if (!opening->has_sidecar || opening->options->accept_loss) return -1;
    const ol_flush_sidecar_bound *bound = &opening->sidecar.bound;
    if (ol_completeness_is_sidecar_true(opening)) return bound->offset;
    if (ol_leader_epochs_at(&opening->log->epochs.cache, bound->offset - 1) !=
        bound->leader_epoch) {
        return -1;
    }
    for (size_t i = 0; i < opening->found_count; i++) {
        const ol_found_segment *segment = &opening->found[i];
        if (segment->base_offset == bound->segment_base) {
            return segment->file_size >= bound->position ? bound->offset : -1;
        }
    }
    return -1;
}

/* If the checkpoint is ahead, another program wrote here since and may have compacted the segments
 * that the sidecar describes.  If both agree, as after our close, a writer without checkpoints may
 * have written; but no program compacts the last segment. */
static bool may_be_compacted(const ol_opening *opening, const ol_found_segment *segment) {
    int64_t recovery_point = opening->recovery_point;
    int64_t flushed = opening->sidecar.bound.offset;
    bool followed = segment != &opening->found[opening->found_count - 1];
    return flushed < recovery_point || (flushed == recovery_point && followed);
}

/* A flush ends where a batch does.  If a batch begins below the sidecar's bound and ends above it,
 * but is at its old position, its base offset must have changed. */
static int check_bound(const ol_opening *opening, const ol_found_segment *segment,
                       const ol_batch *batch, const bad_place *place, ol_error *error) {
    const ol_flush_sidecar_bound *bound = &opening->sidecar.bound;
    bool covered = segment->base_offset < bound->segment_base ||
                   (segment->base_offset == bound->segment_base &&
                    place->position < bound->position);
    bool crosses = place->at.end < bound->offset && batch->last_offset >= bound->offset;
    if (!covered || !crosses || may_be_compacted(opening, segment) || sidecar_bound(opening) < 0) {
        return OL_OK;
    }
    return ol_fail(error, OL_CORRUPT,
                   "the last offset of the batch is %lld, but the flush that covered the batch "
                   "ended at offset %lld",
                   (long long)batch->last_offset, (long long)bound->offset);
}

/* Refuses a gap before the batch, unless it is legal: offsetlog as leader leaves no gap. */
static int check_gap(ol_opening *opening, const ol_batch *batch, bad_place *bad) {
    int64_t from = bad->at.end, to = batch->base_offset;
    if (OL_LIKELY(to <= from) || ol_completeness_is_gap_legal(opening, from, to)) return OL_OK;
    return ol_fail(&bad->error, OL_CORRUPT, "the offsets %lld to %lld are missing before the batch",
                   (long long)from, (long long)to - 1);
}

/* Records where and why the batch at the end of the walk is bad. */
static int describe_bad(ol_file_scan *scan, const ol_found_segment *segment, int64_t bad_base,
                        bad_place *bad) {
    int64_t used = bad->position;
    ol_error read_error;
    int status = ol_file_scan_used(scan, bad->position, &used, &read_error);
    if (status != OL_OK) {
        bad->error = read_error;
        return status;
    }
    bad->zeros = used == bad->position;
    ol_bad_offsets_set(&bad->at, bad->whole ? bad_base : -1);
    bad->error.status = OL_CORRUPT;
    bad->error.offset = bad->at.offset;
    return ol_error_at(&bad->error, segment->path, bad->position);
}

/* Called before the first batch of a segment is checked. */
static void begin_segment(ol_found_segment *segment, bad_place *bad) {
    segment->checked = true;
    if (segment->from == 0) {
        segment->checksum = 0;
        segment->first_timestamp = -1;
        segment->max_timestamp = -1;
        segment->max_timestamp_offset = segment->base_offset;
    }
    if (bad->at.end < segment->base_offset) bad->at.end = segment->base_offset;
    bad->at.before = bad->at.end;
}

/* Checks one segment, from bad->position and bad->at.end on.  OL_OK: the segment is whole
 * (bad->zeros: zeros follow its last batch).  OL_CORRUPT: `bad` says where and why. */
static int check_segment(ol_opening *opening, ol_found_segment *segment, bad_place *bad) {
    ol_file_scan scan;
    int status = ol_file_scan_open(&scan, opening->log->fs, segment->path, bad->position, -1,
                                   &bad->error);
    if (status != OL_OK) return status;
    segment->file_size = scan.limit;
    bad->whole = bad->zeros = bad->searched = false;
    if (bad->position == segment->from) begin_segment(segment, bad);
    ol_batch batch;
    int64_t bad_base = -1;
    while ((status = ol_file_scan_next(&scan, &batch, &bad->error)) == OL_OK) {
        ol_error ignored;
        status = check_batch(&batch, segment->base_offset, bad->at.end, &bad->error);
        if (status == OL_CORRUPT) {
            bad->whole = batch.base_offset < bad->at.end &&
                         ol_batch_check_crc(&batch, &ignored) == OL_OK;
            bad_base = batch.base_offset;
        }
        if (status == OL_OK) status = check_gap(opening, &batch, bad);
        if (status == OL_OK) status = check_bound(opening, segment, &batch, bad, &bad->error);
        if (status == OL_OK) status = record_epoch(opening, &batch, &bad->error);
        if (status != OL_OK) break;
        record_timestamps(segment, &batch, bad->position);
        segment->checksum = ol_segment_checksum_add(segment->checksum, batch.data);
        ol_bad_offsets_advance(&bad->at, &batch);
        bad->position = scan.position;
    }
    segment->size = bad->position;
    segment->has_checksum = segment->checked;
    segment->next_offset = bad->at.end;
    bad->at.offset = bad->at.end;
    if (status == OL_TORN || status == OL_UNSUPPORTED || status == OL_CORRUPT) {
        status = describe_bad(&scan, segment, bad_base, bad);
    }
    ol_file_scan_close(&scan);
    return status == OL_END ? OL_OK : status;
}

/* Returns whether a note says that this segment was larger when the log rolled to the one at
 * `next_base`. */
static bool has_hole(const ol_opening *opening, const ol_found_segment *segment,
                     int64_t next_base) {
    if (segment->next_offset >= next_base) return false;
    for (size_t i = 0; i < opening->name_count; i++) {
        int64_t base_offset, size, noted_next;
        if (!ol_log_rolled_parse(opening->names[i], &base_offset, &size, &noted_next)) continue;
        if (base_offset == segment->base_offset && noted_next == next_base &&
            size > segment->size) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------ the verdict */

/* Returns whether a truncation to `offset` or below was under way: then batches after `offset`
 * prove nothing about flushes. */
static bool was_being_cut(const ol_opening *opening, int64_t offset) {
    for (size_t i = 0; i < opening->name_count; i++) {
        const char *name = opening->names[i];
        char *end = NULL;
        if (strncmp(name, OL_CUT_PREFIX, strlen(OL_CUT_PREFIX)) != 0) continue;
        unsigned long long value = strtoull(name + strlen(OL_CUT_PREFIX), &end, 10);
        if (*end == '\0' && end != name + strlen(OL_CUT_PREFIX) &&
            value <= (unsigned long long)offset) {
            return true;
        }
    }
    return false;
}

/* The result of search_after. */
typedef struct findings {
    int64_t offset_min;
    int64_t noted;              /* the greatest `ol.flushed` */
    int64_t end;                /* where the last right batch ends */
    int64_t budget;             /* one for all files: a crafted directory has many */
} findings;

/* Searches one segment from `position` on.  If `bad` is true, the batch there is bad. */
static int search_segment(const ol_opening *opening, const ol_found_segment *segment,
                          int64_t position, bool bad, findings *found, ol_error *error) {
    ol_file_scan scan;
    ol_batch batch;
    int status = ol_file_scan_open(&scan, opening->log->fs, segment->path, position, -1, error);
    if (status != OL_OK) return status;
    scan.budget = found->budget;
    int64_t last = ol_segment_offset_max(segment->base_offset);
    while (status == OL_OK) {
        int64_t at = scan.position;
        bool right = false;
        if (!bad) {
            status = ol_file_scan_next(&scan, &batch, error);
            right = status == OL_OK && ol_batch_check_crc(&batch, error) == OL_OK &&
                    batch.base_offset >= found->offset_min && batch.last_offset <= last;
            bad = !right && status != OL_END && status != OL_IO && status != OL_NO_MEMORY;
        }
        if (bad) {
            status = ol_file_scan_resync(&scan, at, found->offset_min, last, &batch, error);
            at = scan.position;
            if (status == OL_OK) scan.position += (int64_t)batch.size;
            bad = false;
        }
        if (status != OL_OK) break;
        if (batch.last_offset >= found->end) found->end = ol_batch_next_offset(&batch);
        /* A header inside the bytes of a bad batch may be one that a client stored there. */
        int64_t note = at >= scan.claimed_end ? ol_flush_sidecar_record(&batch) : -1;
        if (note > found->noted) found->noted = note;
    }
    found->budget = scan.budget;
    ol_file_scan_close(&scan);
    return status == OL_END ? OL_OK : status;
}

/* Searches everything after the bad batch for the greatest `ol.flushed` and the end of the last
 * right batch. */
static int search_after(const ol_opening *opening, bad_place *bad, ol_error *error) {
    if (bad->searched) return OL_OK;
    findings found = {.offset_min = bad->at.offset,
                    .noted = -1,
                    .end = bad->at.offset,
                    .budget = OL_FILE_SCAN_BUDGET};
    int status = OL_OK;
    for (size_t i = bad->index; i < opening->found_count && status == OL_OK; i++) {
        bool first = i == bad->index;
        status = search_segment(opening, &opening->found[i], first ? bad->position : 0,
                                first && !bad->whole, &found, error);
    }
    bad->noted_after = was_being_cut(opening, bad->at.offset) ? -1 : found.noted;
    bad->end_after = found.end;
    bad->searched = status == OL_OK;
    return status;
}

/* Checks the last segment of a log to which another process may append while we read it.  Bytes at
 * later positions were written later.  So bad bytes are read once more when something was found
 * after them: if they are still bad, they are not merely being written. */
static int check_growing_segment(ol_opening *opening, ol_found_segment *segment, bad_place *bad) {
    int64_t tried = -1;
    int status = check_segment(opening, segment, bad);
    while (status == OL_CORRUPT && !bad->zeros && bad->position != tried) {
        ol_error error;
        int searched = search_after(opening, bad, &error);
        if (searched != OL_OK) {
            bad->error = error;
            return searched;
        }
        if (bad->end_after <= bad->at.offset) break;
        tried = bad->position;
        status = check_segment(opening, segment, bad);
    }
    return status;
}

/* ------------------------------------------------------------ the consequence */

/* Copies a path.  If it is too long, its beginning is cut off, as in ol_error. */
static void copy_path(char target[OL_ERROR_PATH_MAX], const char *path) {
    size_t length = strlen(path);
    size_t skipped = length >= OL_ERROR_PATH_MAX ? length - OL_ERROR_PATH_MAX + 1 : 0;
    memcpy(target, path + skipped, length - skipped + 1);
}

static int cut_file(ol_log *log, const char *path, int64_t size, bool flush, ol_error *error) {
    ol_file *file = NULL;
    int status = log->fs->open(log->fs, path, OL_OPEN_WRITE, &file, error);
    if (status != OL_OK) return status;
    status = log->fs->truncate(file, size, error);
    if (status == OL_OK && flush) status = log->fs->flush(file, error);
    log->fs->close(file);
    return status;
}

static void drop_found(ol_opening *opening, size_t count) {
    while (opening->found_count > count) free(opening->found[--opening->found_count].path);
}

/* Copies everything from the bad batch on. */
static int copy_torn(ol_opening *opening, const bad_place *bad, ol_error *error) {
    ol_log_recovery *report = opening->report;
    for (size_t i = bad->index; i < opening->found_count; i++) {
        char path[OL_PATH_MAX];
        int64_t bytes = 0, position = i == bad->index ? bad->position : 0;
        int status = ol_recovery_copy_aside(opening->log, &opening->found[i], position, path,
                                            &bytes, error);
        report->torn_bytes += bytes;
        if (bytes > 0 && report->broken_path[0] == '\0') copy_path(report->broken_path, path);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static int remove_last(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    size_t last = opening->found_count - 1;
    int64_t base_offset = opening->found[last].base_offset;
    int status = ol_segment_remove_files(log->fs, log->directory, base_offset, error);
    if (status != OL_OK) return status;
    opening->report->segments_removed++;
    drop_found(opening, last);
    return OL_OK;
}

/* Removes the segments after the torn one, the last one first: a crash in between leaves the same
 * bad bytes with less after them. */
static int remove_later(ol_opening *opening, const bad_place *bad, ol_error *error) {
    ol_fs *fs = opening->log->fs;
    if (opening->found_count == bad->index + 1) return OL_OK;
    while (opening->found_count > bad->index + 1) {
        int status = remove_last(opening, error);
        if (status != OL_OK) return status;
    }
    /* If the removals were lost and the truncation was not, the removed segments would come back
     * after a gap that looks legal. */
    return fs->flush_directory(fs, opening->log->directory, error);
}

/* An empty rest of a segment is removed as well, unless the log ends there anyway. */
static int cut_segment(ol_opening *opening, const bad_place *bad, ol_error *error) {
    ol_found_segment *torn = &opening->found[bad->index];
    bool is_empty = bad->position == 0 && bad->index > 0;
    if (is_empty && torn->base_offset != opening->end) return remove_last(opening, error);
    if (torn->file_size <= bad->position) return OL_OK;
    torn->file_size = bad->position;
    return cut_file(opening->log, torn->path, bad->position, true, error);
}

/* Copies everything from the bad batch on aside, then removes it. */
static int cut_torn(ol_opening *opening, const bad_place *bad, ol_error *error) {
    ol_fs *fs = opening->log->fs;
    int status = copy_torn(opening, bad, error);
    if (status == OL_OK) status = remove_later(opening, bad, error);
    if (status == OL_OK) status = cut_segment(opening, bad, error);
    if (status == OL_OK) status = fs->flush_directory(fs, opening->log->directory, error);
    return status;
}

static void report_corruption(ol_opening *opening, const bad_place *bad, int64_t bound) {
    ol_log_recovery *report = opening->report;
    report->corrupt = true;
    report->corruption = bad->error;
    size_t length = strlen(report->corruption.reason);
    if (bound == INT64_MAX) {
        snprintf(report->corruption.reason + length, sizeof report->corruption.reason - length,
                 " (these bytes have changed since they were flushed to disk before a clean stop)");
        return;
    }
    snprintf(report->corruption.reason + length, sizeof report->corruption.reason - length,
             " (the bytes at log offset %lld have changed since they were flushed to disk: all "
             "below %lld was flushed)",
             (long long)bad->at.offset, (long long)bound);
}

/* After a clean stop everything is flushed, whatever the checkpoint and the sidecar say
 * (docs/format/recovery.md §9.2). */
static bool is_all_flushed(const ol_opening *opening) {
    return opening->options->clean && !opening->options->being_written;
}

/* Returns whether the last segment ends with zeros and nothing else: the extension of the last
 * writer. */
static bool is_extension(const ol_opening *opening, const bad_place *bad) {
    return bad->zeros && bad->index + 1 == opening->found_count;
}

/* *bound: everything below it was flushed.  *end: where the last right batch ends. */
static int find_bound(const ol_opening *opening, bad_place *bad, int64_t *bound, int64_t *end,
                      ol_error *error) {
    int64_t sidecar = sidecar_bound(opening);
    *end = bad->at.offset;
    *bound = opening->recovery_point;
    if (sidecar > *bound) *bound = sidecar;
    if (is_extension(opening, bad)) return OL_OK;
    int status = search_after(opening, bad, error);
    if (status != OL_OK) return status;
    *end = bad->end_after;
    if (!opening->options->replicated && bad->noted_after > *bound) *bound = bad->noted_after;
    if (is_all_flushed(opening)) *bound = INT64_MAX;
    return OL_OK;
}

/* Called if flushed bytes are bad.  The log keeps all of its bytes and becomes read-only. */
static void condemn(ol_opening *opening, const bad_place *bad, int64_t bound, int64_t end) {
    report_corruption(opening, bad, bound);
    /* If one of two batches has the wrong base offset, the batches after both show the right offset
     * better than the first of the two does. */
    bool one_is_wrong = ol_bad_offsets_are_disputed(&bad->at) && end > bad->at.offset;
    opening->end = end > bad->at.end || one_is_wrong ? end : bad->at.end;
    for (size_t i = bad->index; i < opening->found_count; i++) {
        opening->found[i].size = opening->found[i].file_size;
    }
}

/* Ends the log at the bad batch. */
static int end_torn(ol_opening *opening, const bad_place *bad, ol_error *error) {
    ol_log_recovery *report = opening->report;
    ol_found_segment *segment = &opening->found[bad->index];
    bool extension = is_extension(opening, bad);
    opening->end = bad->at.end;
    if (!extension) {
        copy_path(report->torn_path, segment->path);
        report->torn_position = bad->position;
    }
    segment->size = bad->position;
    if (opening->log->writable) return cut_torn(opening, bad, error);
    for (size_t i = bad->index; i < opening->found_count && !extension; i++) {
        report->torn_bytes += opening->found[i].file_size - (i == bad->index ? bad->position : 0);
    }
    drop_found(opening, bad->index + 1);
    return OL_OK;
}

/* Decides whether the first bad batch is torn or corrupt. */
static int judge(ol_opening *opening, bad_place *bad, ol_error *error) {
    int64_t bound = -1, end = -1;
    int status = find_bound(opening, bad, &bound, &end, error);
    if (status != OL_OK) return status;
    if (!ol_bad_offsets_are_flushed(&bad->at, bound)) return end_torn(opening, bad, error);
    condemn(opening, bad, bound, end);
    return OL_OK;
}

/* ------------------------------------------------------------ all of it */

/* Returns the first segment to check: the one that holds the recovery point, and after a clean stop
 * at least the active one.  If a segment begins exactly at the recovery point, the one before it
 * was active when it was flushed, and the trimming at its roll may have been lost. */
static size_t first_checked(const ol_opening *opening) {
    size_t last = opening->found_count - 1;
    size_t first = opening->options->clean ? last : 0;
    while (first < last &&
           opening->found[first + 1].base_offset < opening->recovery_point) {
        first++;
    }
    /* Everything that another program appended is read once, because nothing else shows a gap in
     * it. */
    if (opening->has_worked_here && opening->has_manifest) {
        int64_t from = opening->manifest.tail.base_offset;
        if (from < opening->cleaned) from = opening->cleaned;
        while (first > 0 && opening->found[first].base_offset > from) first--;
    }
    return first;
}

/* Removes the zeros after the last batch of a file: the extension of a process that did not close
 * it. */
static int trim_zeros(ol_opening *opening, ol_found_segment *segment, ol_error *error) {
    if (!opening->log->writable || segment->file_size == segment->size) return OL_OK;
    int status = cut_file(opening->log, segment->path, segment->size, false, error);
    if (status == OL_OK) segment->file_size = segment->size;
    return status;
}

/* Refuses a segment that begins below the end of the previous one, because a batch in it may repeat
 * offsets. */
static int refuse_overlap(ol_opening *opening, ol_found_segment *segment, bad_place *bad) {
    ol_file_scan scan;
    ol_error *error = &bad->error;
    int status = ol_file_scan_open(&scan, opening->log->fs, segment->path, 0, -1, error);
    if (status != OL_OK) return status;
    segment->file_size = scan.limit;
    ol_file_scan_close(&scan);
    bad->at.offset = segment->base_offset;
    bad->whole = true;
    (void)ol_fail(error, OL_CORRUPT,
                  "the segment begins below offset %lld, where the one before it ended",
                  (long long)bad->at.end);
    return ol_error_at(error, segment->path, 0);
}

/* Refuses a gap before the segment: offsetlog as leader leaves none between segments either. */
static int refuse_hole(ol_found_segment *segment, bad_place *bad) {
    bad->whole = true;
    (void)ol_fail(&bad->error, OL_CORRUPT,
                  "the offsets %lld to %lld are missing before the segment",
                  (long long)bad->at.end, (long long)segment->base_offset - 1);
    bad->error.offset = bad->at.end;
    return ol_error_at(&bad->error, segment->path, 0);
}

static int check_next(ol_opening *opening, bad_place *bad) {
    ol_found_segment *segment = &opening->found[bad->index];
    bool last = bad->index + 1 == opening->found_count;
    if (segment->from > 0) return check_segment(opening, segment, bad);
    if (bad->at.end > segment->base_offset) return refuse_overlap(opening, segment, bad);
    if (bad->at.end < segment->base_offset &&
        !ol_completeness_is_gap_legal(opening, bad->at.end, segment->base_offset)) {
        return refuse_hole(segment, bad);
    }
    if (last && !opening->log->writable) return check_growing_segment(opening, segment, bad);
    return check_segment(opening, segment, bad);
}

/* OL_CORRUPT when the end of a right segment is missing, as the note of its roll says.  Below the
 * flushed bound the note is an old one: a flush covered the segment and the removal of the note was
 * lost, or another program compacted the segment since.  The gap is then as legal as any other. */
static int check_hole(const ol_opening *opening, bad_place *bad, ol_error *error) {
    if (bad->index + 1 == opening->found_count) return OL_OK;
    const ol_found_segment *segment = &opening->found[bad->index];
    if (!has_hole(opening, segment, segment[1].base_offset)) return OL_OK;
    int64_t bound = sidecar_bound(opening);
    if (opening->recovery_point > bound) bound = opening->recovery_point;
    int status = search_after(opening, bad, error);
    if (status != OL_OK) return status;
    bool is_real = bound <= bad->at.offset && bad->noted_after <= bad->at.offset;
    return is_real ? OL_CORRUPT : OL_OK;
}

/* Returns whether the trimming of a roll was lost: zeros follow up to where the next segment
 * begins. */
static bool is_untrimmed(const ol_opening *opening, const bad_place *bad) {
    if (!bad->zeros || bad->index + 1 == opening->found_count) return false;
    return opening->found[bad->index + 1].base_offset == bad->at.end;
}

static int check_all(ol_opening *opening, ol_error *error) {
    size_t first = first_checked(opening);
    int status = ol_settled_skip(opening, &first, error);
    if (status != OL_OK) return status;
    const ol_found_segment *begin = &opening->found[first];
    int64_t begin_offset = begin->from > 0 ? opening->options->mark->offset : begin->base_offset;
    ol_bad_offsets at = {.end = begin_offset, .before = begin_offset};
    for (size_t i = first; i < opening->found_count; i++) {
        at.offset = at.end;
        bad_place bad = {.index = i, .at = at, .position = opening->found[i].from};
        ol_error_clear(&bad.error);
        status = check_next(opening, &bad);
        at = bad.at;
        if (status != OL_OK && status != OL_CORRUPT) {
            *error = bad.error;
            return status;
        }
        if (status == OL_CORRUPT && is_untrimmed(opening, &bad)) {
            status = trim_zeros(opening, &opening->found[i], error);
        } else {
            if (status == OL_OK) status = check_hole(opening, &bad, error);
            if (status == OL_CORRUPT) return judge(opening, &bad, error);
        }
        if (status != OL_OK) return status;
    }
    opening->end = at.end;
    return OL_OK;
}

int ol_recovery_run(ol_opening *opening, ol_error *error) {
    OL_ASSERT(opening->found_count > 0);
    opening->report->recovered = !opening->options->clean;
    int status = check_all(opening, error);
    if (status != OL_OK) return status;
    bool clean = opening->options->clean;
    for (size_t i = 0; i < opening->found_count; i++) {
        if (opening->found[i].checked && !clean) {
            opening->found[i].rebuild_indexes = true;
            opening->found[i].rebuild_transactions = true;
        }
    }
    int64_t bound = sidecar_bound(opening);
    if (opening->recovery_point > bound) bound = opening->recovery_point;
    if (bound < 0) bound = 0;
    if (is_all_flushed(opening) && !opening->report->corrupt) bound = opening->end;
    opening->flushed = bound < opening->end ? bound : opening->end;
    return OL_OK;
}

/* Finds the position of the batch that holds `offset`, or the size. */
static int find_position(ol_opening *opening, const ol_found_segment *segment, int64_t offset,
                         int64_t *position, ol_error *error) {
    ol_file_scan scan;
    /* Unchecked batches were flushed. */
    *position = segment->from;
    int status = ol_file_scan_open(&scan, opening->log->fs, segment->path, *position, segment->size,
                                   error);
    if (status != OL_OK) return status;
    ol_batch batch;
    while ((status = ol_file_scan_next(&scan, &batch, error)) == OL_OK &&
           batch.last_offset < offset) {
        *position = scan.position;
    }
    ol_file_scan_close(&scan);
    /* Bytes that cannot be walked here are below the checked ones; rewriting too many does no
     * harm. */
    return status == OL_IO || status == OL_NO_MEMORY ? status : OL_OK;
}

static int rewrite_file(ol_opening *opening, const ol_found_segment *segment, int64_t position,
                        uint8_t *chunk, ol_error *error) {
    ol_log *log = opening->log;
    ol_file *file = NULL;
    int status = log->fs->open(log->fs, segment->path, OL_OPEN_WRITE, &file, error);
    if (status != OL_OK) return status;
    while (position < segment->size && status == OL_OK) {
        int64_t left = segment->size - position;
        size_t wanted = left < REWRITE_CHUNK ? (size_t)left : REWRITE_CHUNK;
        size_t got = 0;
        status = log->fs->read(file, position, chunk, wanted, &got, error);
        if (status == OL_OK && got == 0) {
            status = ol_fail(error, OL_IO, "the file became shorter while it was being opened");
        }
        if (status == OL_OK) status = log->fs->write(file, position, chunk, got, error);
        position += (int64_t)got;
        if (status == OL_OK) opening->report->rewritten_bytes += (int64_t)got;
    }
    if (status == OL_OK) status = log->fs->flush(file, error);
    log->fs->close(file);
    return status;
}

int ol_recovery_rewrite(ol_opening *opening, ol_error *error) {
    bool clean = opening->options->clean;
    if (clean && opening->flushed >= opening->end) return OL_OK;
    uint8_t *chunk = malloc(REWRITE_CHUNK);
    if (chunk == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to write the tail again");
    int status = OL_OK;
    for (size_t i = 0; i < opening->found_count && status == OL_OK; i++) {
        const ol_found_segment *segment = &opening->found[i];
        bool last = i + 1 == opening->found_count;
        int64_t position = 0;
        bool below = last ? opening->end <= opening->flushed
                          : opening->found[i + 1].base_offset <= opening->flushed;
        /* Even the size of a checked segment may never have been flushed.  A roll trims the file
         * and leaves the flush to the next caller, and the process that rolled may have been killed
         * before that. */
        if (below && (clean || !segment->checked)) continue;
        if (below) {
            position = segment->size;
        } else if (segment->base_offset < opening->flushed) {
            status = find_position(opening, segment, opening->flushed, &position, error);
        }
        if (status == OL_OK) status = rewrite_file(opening, segment, position, chunk, error);
    }
    free(chunk);
    if (status == OL_OK) {
        status = opening->log->fs->flush_directory(opening->log->fs, opening->log->directory,
                                                   error);
    }
    if (status == OL_OK) opening->flushed = opening->end;
    return status;
}
