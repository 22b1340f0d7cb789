/* Opens a partition directory.  The steps, in their order:
 *
 *   1. Finish or undo the swaps that a crash interrupted (log/directory_pass.c).
 *   2. Load the small files.
 *   3. Check the batches (log/recover.c).
 *   4. Make the list of segments.
 *   5. Replay the log for the producers and the indexes (log/rebuild.c).
 *   6. Make the tail of the log durable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log/directory_pass.h"
#include "log/log_impl.h"
#include "log/files/partition_metadata.h"

enum { OPEN_TRIES = 4 };

/* ------------------------------------------------------------ the directory */

static int carry_out(ol_log *log, const ol_swap_plan *plan, ol_error *error) {
    int status = OL_OK;
    for (size_t i = 0; i < plan->action_count && status == OL_OK; i++) {
        char path[OL_PATH_MAX];
        char target[OL_PATH_MAX];
        status = ol_log_path(log, plan->actions[i].name, path, error);
        if (status == OL_OK && plan->actions[i].target == NULL) {
            status = log->fs->remove(log->fs, path, error);
            if (status == OL_NO_SUCH_FILE) status = OL_OK;
        } else if (status == OL_OK) {
            status = ol_log_path(log, plan->actions[i].target, target, error);
            if (status == OL_OK) status = log->fs->rename(log->fs, path, target, error);
        }
    }
    if (status == OL_OK && plan->action_count > 0) {
        status = log->fs->flush_directory(log->fs, log->directory, error);
    }
    return status;
}

static int add_found(ol_opening *opening, const char *path, int64_t base_offset, ol_error *error) {
    ol_fs *fs = opening->log->fs;
    ol_file *file = NULL;
    int64_t size = 0;
    int status = fs->open(fs, path, OL_OPEN_READ, &file, error);
    if (status != OL_OK) return status;
    status = fs->size(file, &size, error);
    fs->close(file);
    char *copy = status == OL_OK ? strdup(path) : NULL;
    if (status == OL_OK && copy == NULL) {
        status = ol_fail(error, OL_NO_MEMORY, "no memory for a segment");
    }
    if (status != OL_OK) return status;
    opening->found[opening->found_count++] = (ol_found_segment){
        .path = copy,
        .base_offset = base_offset,
        .file_size = size,
        .size = size,
        .first_timestamp = -1,
        .max_timestamp = -1,
    };
    return OL_OK;
}

/* Makes the swap plan and finds the segments that the directory has after it.  A writable open
 * carries the plan out. */
static int find_segments(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    ol_swap_plan plan;
    int status = ol_directory_plan(log->fs, log->directory, &plan, error);
    if (status != OL_OK) return status;
    if (log->writable) status = carry_out(log, &plan, error);
    opening->report->swaps_finished = plan.swaps_finished;
    opening->report->segments_removed = plan.segments_removed;
    opening->found = calloc(plan.name_count + 1, sizeof *opening->found);
    opening->names = calloc(plan.name_count + 1, sizeof *opening->names);
    if (opening->found == NULL || opening->names == NULL) {
        status = status != OL_OK
                     ? status
                     : ol_fail(error, OL_NO_MEMORY, "no memory for the list of segments");
    }
    for (size_t i = 0; i < plan.name_count && status == OL_OK; i++) {
        const char *suffix = NULL;
        int64_t base_offset = 0;
        char path[OL_PATH_MAX];
        opening->names[opening->name_count++] = plan.names[i].name;
        const char *real = log->writable ? plan.names[i].name : plan.names[i].real;
        if (ol_file_name_parse(plan.names[i].name, &base_offset, &suffix) &&
            strcmp(suffix, ".log") == 0) {
            status = ol_log_path(log, real, path, error);
            if (status == OL_OK) status = add_found(opening, path, base_offset, error);
        }
        plan.names[i].name = NULL;
    }
    for (size_t i = 0; i < opening->found_count; i++) {
        bool last = i + 1 == opening->found_count;
        opening->found[i].next_offset = last ? INT64_MAX : opening->found[i + 1].base_offset;
    }
    ol_swap_plan_free(&plan);
    return status;
}

static bool has_name(const ol_opening *opening, int64_t offset, const char *wanted) {
    for (size_t i = 0; i < opening->name_count; i++) {
        const char *suffix = NULL;
        int64_t number;
        if (ol_file_name_parse(opening->names[i], &number, &suffix) && number == offset &&
            strcmp(suffix, wanted) == 0) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------ the small files */

/* Keeps a damaged file as evidence under an unused name.  The file is copied, or renamed if it is
 * too large to copy. */
static int keep_damaged(ol_log *log, const char *name, ol_error *error) {
    char path[OL_PATH_MAX], aside[OL_PATH_MAX], kept_as[64];
    uint8_t *bytes = NULL;
    size_t size = 0;
    snprintf(kept_as, sizeof kept_as, "%s.damaged", name);
    int status = ol_log_path(log, name, path, error);
    if (status == OL_OK) status = ol_log_untaken_path(log, kept_as, aside, error);
    if (status != OL_OK) return status;
    status = ol_fs_read_file(log->fs, path, OL_MANIFEST_SIZE_MAX, &bytes, &size, error);
    if (status == OL_LIMIT) return log->fs->rename(log->fs, path, aside, error);
    if (status == OL_OK) status = ol_fs_replace_file(log->fs, aside, bytes, size, error);
    free(bytes);
    return status;
}

/* Stores `id`, which is known from elsewhere.  Evidence is not overwritten: a copy of a damaged
 * file stays. */
static int restore_topic_id(ol_opening *opening, const char *path, const ol_uuid *id,
                            ol_error *error) {
    ol_log *log = opening->log;
    if (!log->writable) return OL_OK;
    int status = keep_damaged(log, OL_PARTITION_METADATA_NAME, error);
    if (status == OL_NO_SUCH_FILE) status = OL_OK;
    return status == OL_OK ? ol_partition_metadata_store(log->fs, path, id, error) : status;
}

/* Returns the id that a partition.metadata should have if it has another one, or is damaged or
 * missing: the manifest's, or that of the topic's other partitions.  NULL if the id is right or
 * unknown. */
static const uint8_t *right_topic_id(const ol_opening *opening, int status, const ol_uuid *found) {
    const ol_log_options *options = opening->options;
    const ol_uuid *known = &opening->manifest.topic_id;
    /* If other files changed too, the topic was created again, or the partition was given to
     * another cluster. */
    bool is_other = status == OL_OK && memcmp(known, found, sizeof *found) != 0 &&
                    options->changed_checkpoints == 0;
    bool is_damaged = status == OL_CORRUPT || status == OL_LIMIT;
    bool is_missing = status == OL_NO_SUCH_FILE;
    if (opening->manifest.has_topic_id) {
        bool is_wrong = is_other || is_damaged || is_missing || status == OL_UNSUPPORTED;
        return is_wrong ? known->bytes : NULL;
    }
    return is_damaged || (is_missing && options->witnessed) ? options->known_topic_id : NULL;
}

static int load_topic_id(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    const uint8_t *wanted = opening->options->topic_id;
    char path[OL_PATH_MAX];
    ol_uuid found;
    int status = ol_log_path(log, OL_PARTITION_METADATA_NAME, path, error);
    if (status != OL_OK) return status;
    status = ol_partition_metadata_load(log->fs, path, &found, error);
    const uint8_t *right = right_topic_id(opening, status, &found);
    if (right != NULL) {
        memcpy(found.bytes, right, OL_UUID_SIZE);
        status = restore_topic_id(opening, path, &found, error);
    }
    if (status == OL_OK && wanted != NULL && memcmp(wanted, found.bytes, OL_UUID_SIZE) != 0) {
        (void)ol_fail(error, OL_CORRUPT, "the partition belongs to another topic id");
        return ol_error_at(error, path, -1);
    }
    /* The offsets do not need an id.  A reader ignores a damaged file; a file of a later version is
     * always ignored and left as it is. */
    bool is_damaged = status == OL_CORRUPT || status == OL_LIMIT;
    bool is_passed = status == OL_UNSUPPORTED || (is_damaged && !log->writable);
    if (is_passed && wanted == NULL) return OL_OK;
    if (status == OL_NO_SUCH_FILE) {
        if (wanted == NULL || !log->writable) return OL_OK;
        memcpy(found.bytes, wanted, OL_UUID_SIZE);
        status = ol_partition_metadata_store(log->fs, path, &found, error);
    }
    if (status != OL_OK) return status;
    log->has_topic_id = true;
    memcpy(log->topic_id, found.bytes, OL_UUID_SIZE);
    return OL_OK;
}

static int load_small_files(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    char path[OL_PATH_MAX];
    int status = load_topic_id(opening, error);
    if (status == OL_OK) status = ol_log_path(log, OL_EPOCHS_FILE, path, error);
    if (status != OL_OK) return status;
    status = ol_leader_epochs_load(&log->epochs.cache, log->fs, path, error);
    /* A checkpoint that cannot be parsed, or has an unknown version, counts as missing
     * (docs/format/directory.md §1.5).  Most of its epochs are also in the batches. */
    if (status == OL_CORRUPT || status == OL_NO_SUCH_FILE || status == OL_LIMIT ||
        status == OL_UNSUPPORTED) {
        status = OL_OK;
    }
    return status;
}

/* ------------------------------------------------------------ indexes after a clean stop */

static int check_index(ol_opening *opening, const ol_found_segment *segment, const char *suffix,
                       ol_index_kind kind, bool *right, ol_error *error) {
    ol_log *log = opening->log;
    char path[OL_PATH_MAX];
    *right = false;
    if (!has_name(opening, segment->base_offset, suffix)) return OL_OK;
    int status = ol_segment_path(path, sizeof path, log->directory, segment->base_offset, suffix,
                                 error);
    if (status == OL_OK) {
        status = ol_index_check_file(kind, log->fs, path, OL_SEGMENT_BYTES_MAX,
                                     segment->base_offset, segment->size, segment->next_offset,
                                     error);
    }
    *right = status == OL_OK;
    return status == OL_CORRUPT ? OL_OK : status;
}

static int check_transactions(ol_opening *opening, const ol_found_segment *segment, bool *right,
                              ol_error *error) {
    ol_log *log = opening->log;
    char path[OL_PATH_MAX];
    ol_transaction_index index;
    *right = true;
    if (!has_name(opening, segment->base_offset, ".txnindex")) return OL_OK;
    int status = ol_segment_path(path, sizeof path, log->directory, segment->base_offset,
                                 ".txnindex", error);
    if (status == OL_OK) {
        status = ol_transaction_index_open(&index, log->fs, path, segment->base_offset, false,
                                           error);
        *right = status == OL_OK &&
                 (index.count == 0 ||
                  index.entries[index.count - 1].last_offset < segment->next_offset);
        if (status == OL_OK) ol_transaction_index_close(&index);
    }
    return status == OL_CORRUPT || status == OL_LIMIT ? OL_OK : status;
}

/* Checks the indexes that need not be rebuilt already because of an unclean stop: a missing or
 * stale one is rebuilt (docs/format/recovery.md §9.1). */
static int check_indexes(ol_opening *opening, ol_error *error) {
    int status = OL_OK;
    for (size_t i = 0; i < opening->found_count && status == OL_OK; i++) {
        ol_found_segment *segment = &opening->found[i];
        bool offsets = true;
        bool times = true;
        bool transactions = true;
        if (!segment->rebuild_indexes) {
            status = check_index(opening, segment, ".index", OL_INDEX_OFFSET, &offsets, error);
            if (status == OL_OK) {
                status = check_index(opening, segment, ".timeindex", OL_INDEX_TIME, &times, error);
            }
            segment->rebuild_indexes = !offsets;
            segment->rebuild_times = !times;
        }
        if (status == OL_OK && !segment->rebuild_transactions) {
            status = check_transactions(opening, segment, &transactions, error);
            segment->rebuild_transactions = !transactions;
        }
    }
    return status;
}

/* ------------------------------------------------------------ segments */

/* Called when everything is below the log start (docs/format/recovery.md §9.3), or when there is
 * nothing: the log begins again, empty.  The old files are copied aside. */
static int begin_again(ol_opening *opening, int64_t offset, ol_error *error) {
    ol_log *log = opening->log;
    int status = OL_OK;
    while (opening->found_count > 0 && status == OL_OK) {
        ol_found_segment *last = &opening->found[opening->found_count - 1];
        char copy[OL_PATH_MAX];
        int64_t bytes = 0;
        status = ol_recovery_copy_aside(log, last, 0, copy, &bytes, error);
        if (status != OL_OK) break;
        status = ol_segment_remove_files(log->fs, log->directory, last->base_offset, error);
        if (status == OL_OK) free(opening->found[--opening->found_count].path);
    }
    if (status != OL_OK) return status;
    if (ol_leader_epochs_truncate_from_end(&log->epochs.cache, 0)) log->epochs.changed = true;
    opening->end = offset;
    opening->flushed = offset;
    return OL_OK;
}

static int make_segments(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    for (size_t i = 0; i < opening->found_count; i++) {
        const ol_found_segment *found = &opening->found[i];
        ol_segment *segment = NULL;
        int status = ol_segment_create(log->fs, log->directory, found->path, found->base_offset,
                                       found->size, &segment, error);
        if (status != OL_OK) return status;
        segment->first_timestamp = found->first_timestamp;
        segment->max_timestamp = found->max_timestamp;
        segment->max_timestamp_offset = found->max_timestamp_offset;
        segment->checksum = found->checksum;
        segment->has_checksum = found->has_checksum;
        status = ol_log_add_segment(log, segment, error);
        if (status != OL_OK) {
            ol_segment_release(segment);
            return status;
        }
    }
    return OL_OK;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Makes the last segment the active one: ready for appends, with its indexes open. */
static int open_active(ol_log *log, ol_error *error) {
    ol_segment *active = log->list.segments[log->list.count - 1];
    int64_t mapped = atomic_load(&active->size);
    if (mapped < log->config.segment_bytes) mapped = log->config.segment_bytes;
    int status = ol_segment_use_writable(active, NULL, (size_t)mapped, log->config.append, error);
    if (status != OL_OK) return status;
    status = ol_segment_open_indexes(active, (size_t)log->config.segment_index_bytes, error);
    if (status != OL_OK) {
        ol_segment_unuse(active);
        return status;
    }
    active->created_ms = now_ms();
    ol_log_activate(log, active);
    return OL_OK;
}

/* The name of the directory must survive as well.  If the directory holds no segment, its parent
 * may not have been flushed, because the open that created it may have been stopped here. */
static int flush_parent(const ol_log *log, ol_error *error) {
    char parent[OL_PATH_MAX];
    size_t length = strlen(log->directory);
    while (length > 1 && log->directory[length - 1] == '/') length--;
    while (length > 0 && log->directory[length - 1] != '/') length--;
    while (length > 1 && log->directory[length - 1] == '/') length--;
    if (length >= sizeof parent) {
        return ol_fail(error, OL_INVALID, "the path of the partition directory is too long");
    }
    memcpy(parent, log->directory, length);
    parent[length] = '\0';
    return log->fs->flush_directory(log->fs, length == 0 ? "." : parent, error);
}

static int start_empty(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    ol_segment *segment = NULL;
    int status = flush_parent(log, error);
    if (status == OL_OK) status = ol_log_start_segment(log, opening->end, &segment, error);
    if (status != OL_OK) return status;
    status = ol_log_add_segment(log, segment, error);
    if (status != OL_OK) {
        ol_segment_unuse(segment);
        ol_segment_release(segment);
        return status;
    }
    ol_log_activate(log, segment);
    return log->fs->flush_directory(log->fs, log->directory, error);
}

/* ------------------------------------------------------------ all of it */

static int remove_notes(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    int status = OL_OK;
    for (size_t i = 0; i < opening->name_count && status == OL_OK; i++) {
        char path[OL_PATH_MAX];
        bool is_note = strncmp(opening->names[i], OL_ROLLED_PREFIX, strlen(OL_ROLLED_PREFIX)) ==
                           0 ||
                       strncmp(opening->names[i], OL_CUT_PREFIX, strlen(OL_CUT_PREFIX)) == 0;
        if (!is_note) continue;
        status = ol_log_path(log, opening->names[i], path, error);
        if (status == OL_OK) status = log->fs->remove(log->fs, path, error);
        if (status == OL_NO_SUCH_FILE) status = OL_OK;
    }
    return status;
}

/* Until the next manifest replaces it, the damaged one shows that the log had a manifest. */
static int keep_damaged_manifest(ol_opening *opening, ol_error *error) {
    if (!opening->is_manifest_damaged) return OL_OK;
    return keep_damaged(opening->log, OL_MANIFEST_FILE, error);
}

/* Stores the present sidecar, manifest and epochs.  All are durable before the first append.  The
 * manifest is stored after the sidecar, because a manifest implies that the sidecar exists, and
 * before the epochs, because it names the newest of them. */
static int store_witnesses(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    const ol_flush_sidecar_bound *known = &opening->sidecar.bound;
    ol_flush_sidecar_bound bound = {
        .offset = opening->flushed,
        .segment_base = log->tail.active->base_offset,
        .position = log->tail.size,
        .leader_epoch = ol_leader_epochs_at(&log->epochs.cache, opening->flushed - 1),
    };
    bool is_new = !opening->has_sidecar || opening->sidecar.is_half || !opening->has_manifest ||
                  opening->options->accept_loss;
    /* A sidecar of an earlier log must not describe this one. */
    bool is_stale = known->offset != bound.offset || known->position != bound.position ||
                    known->leader_epoch != bound.leader_epoch;
    int status = is_new || is_stale ? ol_log_store_bound(log, &bound, is_new, error) : OL_OK;
    if (status == OL_OK) status = ol_completeness_adopt(opening, error);
    if (status == OL_OK && !opening->has_manifest) status = keep_damaged_manifest(opening, error);
    if (status != OL_OK) return status;
    ol_log_note_tail(log, &bound);
    if (atomic_load(&log->manifest.is_due)) {
        status = ol_log_store_manifest(log, error);
        /* If the existing manifest is still true, the next flush may store the new one.  If another
         * program worked here, the manifest is not true: once the checkpoints no longer show that
         * program, it would report the program's changes as a loss. */
        bool is_true = opening->has_manifest && !opening->has_worked_here &&
                       !opening->options->accept_loss;
        if (status != OL_OK && (status == OL_CRASHED || !is_true)) return status;
    }
    return ol_log_store_epochs(log, error);
}

/* Makes the last steps of a writable open, after the segments are right. */
static int finish_writable(ol_opening *opening, int64_t snapshot_max, ol_error *error) {
    ol_log *log = opening->log;
    /* Kafka drops the entry that starts at the end as well.  That entry says that a leader began
     * there and wrote nothing.  Here it is kept, so that no epoch is ever used twice.  No entry
     * starts above the greatest number. */
    if (opening->end < INT64_MAX &&
        ol_leader_epochs_truncate_from_end(&log->epochs.cache, opening->end + 1)) {
        log->epochs.changed = true;
    }
    int status = ol_recovery_rewrite(opening, error);
    if (status == OL_OK) status = remove_notes(opening, error);
    if (status == OL_OK) {
        status = ol_log_remove_snapshots(log, opening->names, opening->name_count, snapshot_max,
                                         true, error);
    }
    if (status == OL_OK) {
        status = log->list.count > 0 ? open_active(log, error) : start_empty(opening, error);
    }
    if (status != OL_OK) return status;
    return store_witnesses(opening, error);
}

/* After damage or proven loss is found, nothing in the directory is changed. */
static int check(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    const ol_log_recovery *report = opening->report;
    int status = ol_completeness_check_segments(opening, error);
    if (status != OL_OK) return status;
    if (report->is_lossy) log->writable = false;
    if (opening->options->accept_loss && log->writable) {
        status = ol_repair_segments(opening, error);
        if (status != OL_OK) return status;
    }
    if (opening->found_count > 0) {
        status = ol_recovery_run(opening, error);
        if (status != OL_OK) return status;
    } else {
        opening->end = opening->flushed = opening->log_start;
    }
    /* A log start above the end counts only if the log may begin again there. */
    if (opening->end < opening->log_start) ol_completeness_judge_start(opening);
    ol_completeness_check_end(opening);
    if (report->corrupt || report->is_lossy) log->writable = false;
    return OL_OK;
}

static int open_segments(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    int64_t snapshot_max = INT64_MAX;
    int status = check(opening, error);
    if (status != OL_OK) return status;
    int64_t log_start = opening->log_start;
    if (log->writable && opening->end < log_start) {
        status = begin_again(opening, log_start, error);
        snapshot_max = -1;
    }
    if (status == OL_OK && log->writable) status = check_indexes(opening, error);
    for (size_t i = opening->found_count; i-- > 0;) {
        const ol_found_segment *found = &opening->found[i];
        if (found->rebuild_transactions && found->from == 0) snapshot_max = found->base_offset;
    }
    if (snapshot_max > opening->end) snapshot_max = opening->end;
    if (status == OL_OK && (opening->found_count > 0 || log->writable)) {
        const ol_log_mark *mark = opening->is_settled ? opening->options->mark : NULL;
        status = ol_log_replay(log, opening->found, opening->found_count, snapshot_max, mark,
                               opening->names, opening->name_count, error);
    }
    if (status == OL_OK) status = make_segments(opening, error);
    if (status == OL_OK && log->writable) status = finish_writable(opening, snapshot_max, error);
    if (status != OL_OK) return status;
    int64_t first_base = log->list.count > 0 ? log->list.segments[0]->base_offset : log_start;
    atomic_store(&log->shared.start, log_start > first_base ? log_start : first_base);
    if (atomic_load(&log->shared.start) > opening->end) {
        atomic_store(&log->shared.start, opening->end);
    }
    atomic_store(&log->shared.end, opening->end);
    atomic_store(&log->shared.flushed, opening->flushed);
    log->tail.next_offset = opening->end;
    log->tail.newest_epoch = ol_leader_epochs_newest(&log->epochs.cache);
    log->note.written = -1;
    return OL_OK;
}

static int make_directory(const ol_log_options *options, ol_error *error) {
    bool exists = false;
    int status = options->fs->exists(options->fs, options->directory, &exists, error);
    if (status != OL_OK || exists) return status;
    if (options->create && options->writable) {
        return options->fs->make_directory(options->fs, options->directory, error);
    }
    (void)ol_fail(error, OL_NO_SUCH_FILE, "the partition directory does not exist");
    return ol_error_at(error, options->directory, -1);
}

int ol_log_check_config(const ol_log_config *config, ol_error *error) {
    bool right = config->segment_bytes >= OL_SEGMENT_BYTES_MIN &&
                 config->segment_bytes <= OL_SEGMENT_BYTES_MAX && config->segment_ms > 0 &&
                 config->producer_expiration_ms > 0 && config->index_interval_bytes >= 0 &&
                 config->segment_index_bytes >= 64 &&
                 config->segment_index_bytes <= OL_SEGMENT_BYTES_MAX &&
                 config->extend_bytes_min >= 4096 &&
                 config->extend_bytes_max >= config->extend_bytes_min;
    return right ? OL_OK : ol_fail(error, OL_INVALID, "a setting of the log is out of range");
}

static int create_log(const ol_log_options *options, ol_log **created, ol_error *error) {
    ol_log *log = calloc(1, sizeof *log);
    char *directory = strdup(options->directory);
    if (log == NULL || directory == NULL) {
        free(log);
        free(directory);
        return ol_fail(error, OL_NO_MEMORY, "no memory for a log");
    }
    log->fs = options->fs;
    log->stored = options->fs->stored;
    log->directory = directory;
    log->config = options->config;
    log->writable = options->writable;
    log->replicated = options->replicated;
    log->decompressor = options->decompressor;
    log->clock_ms = options->clock_ms;
    log->clock_context = options->clock_context;
    log->process = getpid();
    log->extension.step_bytes = options->config.extend_bytes_min;
    log->producers.snapshot_offset = -1;
    log->producers.highest_id = -1;
    log->tail.newest_epoch = -1;
    log->note.written = -1;
    log->flush.settled_base = -1;
    log->tail.slow = true;
    pthread_mutex_init(&log->swap.lock, NULL);
    pthread_mutex_init(&log->flush.lock, NULL);
    pthread_mutex_init(&log->extension.lock, NULL);
    pthread_mutex_init(&log->manifest.lock, NULL);
    pthread_mutex_init(&log->list.lock, NULL);
    pthread_mutex_init(&log->epochs.lock, NULL);
    pthread_mutex_init(&log->read.lock, NULL);
    for (int i = 0; i < 2; i++) pthread_mutex_init(&log->steps.locks[i], NULL);
    *created = log;
    return OL_OK;
}

/* Sets *moved if the verdicts may mix two moments. */
static int open_once(const ol_log_options *options, bool has_witnesses, ol_log **opened,
                     ol_log_recovery *recovery, bool *moved, ol_error *error) {
    ol_log *log = NULL;
    *moved = false;
    *recovery = (ol_log_recovery){.torn_position = -1, .corruption_below = -1};
    int status = create_log(options, &log, error);
    if (status != OL_OK) return status;
    ol_opening opening = {.log = log, .options = options, .report = recovery, .cleaned = -1};
    if (has_witnesses) status = ol_completeness_load(&opening, error);
    if (status == OL_OK) status = find_segments(&opening, error);
    if (status == OL_OK) status = load_small_files(&opening, error);
    if (status == OL_OK) status = open_segments(&opening, error);
    bool is_accused = recovery->loss_count > 0 || recovery->corrupt;
    if (status == OL_OK && is_accused && !options->writable) {
        status = ol_completeness_has_moved(&opening, moved, error);
    }
    for (size_t i = 0; i < opening.found_count; i++) free(opening.found[i].path);
    free(opening.found);
    ol_manifest_free(&opening.manifest);
    ol_directory_free_names(opening.names, opening.name_count);
    if (status != OL_OK) {
        ol_log_abandon(log);
        return status;
    }
    *opened = log;
    return OL_OK;
}

/* Opens a log that another process may roll, clean or delete between the reads of the directory and
 * those of its files. */
static int open_moving(const ol_log_options *options, ol_log **log, ol_log_recovery *recovery,
                       ol_error *error) {
    bool moved = false;
    int status = OL_OK;
    for (int i = 0; i < OPEN_TRIES; i++) {
        if (i > 0 && status == OL_OK) ol_log_abandon(*log);
        status = open_once(options, true, log, recovery, &moved, error);
        if (status != OL_NO_SUCH_FILE && !moved) return status;
    }
    if (!moved) return status;
    /* The log changes faster than it can be read, so it cannot be compared with its witnesses. */
    ol_log_options unwitnessed = *options;
    unwitnessed.witnessed = false;
    ol_log_abandon(*log);
    return open_once(&unwitnessed, false, log, recovery, &moved, error);
}

int ol_log_open(const ol_log_options *options, ol_log **log, ol_log_recovery *recovery,
                ol_error *error) {
    bool ignored;
    int status = ol_log_check_config(&options->config, error);
    if (status == OL_OK) status = make_directory(options, error);
    if (status != OL_OK) return status;
    return options->writable ? open_once(options, true, log, recovery, &ignored, error)
                             : open_moving(options, log, recovery, error);
}
