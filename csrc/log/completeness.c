/* Compares the findings of an open with the claims of the witnesses, which are the manifest, the
 * sidecar and the checkpoints (docs/durability.md, "Complete or not").
 *
 * A witness that is ahead of the log proves loss.  If another program has written to the log since
 * then, the witness proves only the loss of what that program cannot have changed.  A missing
 * witness proves nothing, and leaves a doubt. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/file_scan.h"
#include "log/log_impl.h"
#include "log/segment_checksum.h"

/* ------------------------------------------------------------ reports */

static ol_log_loss *add_loss(ol_opening *opening, bool proven, int64_t from, int64_t below) {
    ol_log_recovery *report = opening->report;
    if (proven) report->is_lossy = true;
    if (report->loss_count < OL_LOG_LOSSES_KEPT) {
        ol_log_loss *loss = &report->losses[report->loss_count++];
        *loss = (ol_log_loss){.from = from, .below = below, .proven = proven};
        return loss;
    }
    ol_log_loss *last = &report->losses[OL_LOG_LOSSES_KEPT - 1];
    if (from < last->from) last->from = from;
    if (below > last->below) last->below = below;
    last->proven |= proven;
    return last;
}

static void describe(ol_log_loss *loss, const char *path, const char *format, ...)
    OL_PRINTF(3, 4);

static void describe(ol_log_loss *loss, const char *path, const char *format, ...) {
    char reason[OL_ERROR_REASON_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    (void)ol_fail(&loss->error, OL_CORRUPT, "%s", reason);
    loss->error.offset = loss->from;
    (void)ol_error_at(&loss->error, path, -1);
}

static bool is_same_doubt(const ol_manifest_doubt *a, const ol_manifest_doubt *b) {
    return a->from == b->from && a->below == b->below && a->cause == b->cause;
}

static void report_doubt(ol_opening *opening, ol_doubt_cause cause, int64_t from, int64_t below) {
    static const char *const reasons[OL_DOUBT_CAUSES] = {
        [OL_DOUBT_MANIFEST] = "the manifest is missing or damaged: nothing shows that all of the "
                              "log is there",
        [OL_DOUBT_SIDECAR] = "the record of the last flush is missing or damaged: nothing shows "
                             "that the last batches are there",
        [OL_DOUBT_GAP] = "offsets are missing in the part that another program wrote: a follower "
                         "of a cleaned log may lack them, but a leader has lost them",
        [OL_DOUBT_END] = "the log ends below the recovery point that another program wrote",
    };
    static const char *const files[OL_DOUBT_CAUSES] = {OL_MANIFEST_FILE, OL_FLUSH_SIDECAR_FILE, "",
                                                       ""};
    char path[OL_PATH_MAX];
    ol_error ignored;
    const char *directory = opening->log->directory;
    bool has_file = files[cause][0] != '\0' &&
                    ol_log_path(opening->log, files[cause], path, &ignored) == OL_OK;
    ol_manifest_doubt doubt = {.from = from, .below = below, .cause = cause};
    for (size_t i = 0; i < opening->doubts.doubt_count; i++) {
        if (is_same_doubt(&opening->doubts.doubts[i], &doubt)) return;
    }
    ol_manifest_add_doubt(&opening->doubts, &doubt);
    describe(add_loss(opening, false, from, below), has_file ? path : directory, "%s",
             reasons[cause]);
}

static bool is_reported(const ol_opening *opening, int64_t from, int64_t to) {
    for (size_t i = 0; i < opening->report->loss_count; i++) {
        const ol_log_loss *loss = &opening->report->losses[i];
        if (loss->proven && loss->from <= from && to <= loss->below) return true;
    }
    return false;
}

/* ------------------------------------------------------------ the witnesses */

static int load_manifest(ol_opening *opening, ol_error *error) {
    char path[OL_PATH_MAX];
    int status = ol_log_path(opening->log, OL_MANIFEST_FILE, path, error);
    if (status != OL_OK) return status;
    status = ol_manifest_load(&opening->manifest, opening->log->fs, path, error);
    opening->has_manifest = status == OL_OK;
    /* A later version's manifest must not be replaced, and a reader cannot use it. */
    opening->is_manifest_later = status == OL_UNSUPPORTED;
    if (opening->is_manifest_later) return opening->log->writable ? status : OL_OK;
    opening->is_manifest_damaged = status == OL_CORRUPT || status == OL_LIMIT;
    return opening->is_manifest_damaged || status == OL_NO_SUCH_FILE ? OL_OK : status;
}

static int load_sidecar(ol_opening *opening, ol_error *error) {
    char path[OL_PATH_MAX];
    int status = ol_log_path(opening->log, OL_FLUSH_SIDECAR_FILE, path, error);
    if (status != OL_OK) return status;
    status = ol_flush_sidecar_load(opening->log->fs, path, &opening->sidecar, error);
    opening->has_sidecar = status == OL_OK;
    return status == OL_CORRUPT || status == OL_NO_SUCH_FILE ? OL_OK : status;
}

int ol_completeness_load(ol_opening *opening, ol_error *error) {
    int status = load_manifest(opening, error);
    return status == OL_OK ? load_sidecar(opening, error) : status;
}

int ol_completeness_has_moved(ol_opening *opening, bool *moved, ol_error *error) {
    ol_opening later = {.log = opening->log};
    int status = load_manifest(&later, error);
    *moved = later.has_manifest != opening->has_manifest ||
             later.manifest.sequence != opening->manifest.sequence;
    ol_manifest_free(&later.manifest);
    return status;
}

bool ol_completeness_is_sidecar_true(const ol_opening *opening) {
    bool is_ours = opening->has_manifest || opening->options->witnessed;
    return opening->has_sidecar && is_ours && !opening->has_worked_here;
}

/* ------------------------------------------------------------ segments */

static const ol_found_segment *find_segment(const ol_opening *opening, int64_t base_offset) {
    size_t low = 0, high = opening->found_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (opening->found[middle].base_offset < base_offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool is_there = low < opening->found_count && opening->found[low].base_offset == base_offset;
    return is_there ? &opening->found[low] : NULL;
}

/* The batches of a segment, as far as they can be read. */
typedef struct segment_end {
    int64_t offset;             /* after the last one */
    int32_t epoch;              /* of the last one, -1 none */
    bool is_whole;              /* right batches to the end of the file, perhaps none */
} segment_end;

/* The offsets that the batches of a segment may have. */
typedef struct segment_rule {
    const ol_manifest *manifest;    /* refuses gaps; NULL: any gap is legal */
    int64_t below;                  /* no batch reaches beyond */
} segment_rule;

/* Returns whether a batch follows the one that ends at `end`.  No CRC covers a base offset. */
static bool follows(const segment_rule *rule, const ol_batch *batch, int64_t end) {
    int64_t base = batch->base_offset;
    if (base < end || base >= rule->below || ol_batch_next_offset(batch) > rule->below) {
        return false;
    }
    return base == end || rule->manifest == NULL ||
           ol_manifest_is_gap_legal(rule->manifest, end, base);
}

/* If two batches contradict each other after a gap, either may have the wrong base offset.  The one
 * that leaves the gap then counts as unreadable, too. */
static int find_end(const ol_opening *opening, const ol_found_segment *found,
                    const segment_rule *rule, segment_end *end, ol_error *error) {
    ol_file_scan scan;
    ol_batch batch;
    int64_t sure = found->base_offset;
    *end = (segment_end){.offset = found->base_offset, .epoch = -1};
    int status = ol_file_scan_open(&scan, opening->log->fs, found->path, 0, -1, error);
    if (status != OL_OK) return status;
    while ((status = ol_file_scan_next(&scan, &batch, error)) == OL_OK &&
           ol_batch_check_crc(&batch, error) == OL_OK && follows(rule, &batch, end->offset)) {
        sure = batch.base_offset > end->offset ? end->offset : ol_batch_next_offset(&batch);
        end->offset = ol_batch_next_offset(&batch);
        end->epoch = batch.leader_epoch;
    }
    if (status == OL_OK && batch.base_offset < end->offset) end->offset = sure;
    end->is_whole = status == OL_END;
    ol_file_scan_close(&scan);
    return status == OL_IO || status == OL_NO_MEMORY || status == OL_CRASHED ? status : OL_OK;
}

/* ------------------------------------------------------------ other programs */

/* Finds out whether the last existing batch carries the newest epoch of the checkpoint. */
static int has_written_newest(const ol_opening *opening, bool *written, ol_error *error) {
    int status = OL_OK;
    segment_end end = {.epoch = -1};
    const segment_rule any = {.below = INT64_MAX};
    for (size_t i = opening->found_count; i-- > 0 && end.epoch < 0 && status == OL_OK;) {
        status = find_end(opening, &opening->found[i], &any, &end, error);
    }
    *written = end.epoch >= 0 && end.epoch == ol_leader_epochs_newest(&opening->log->epochs.cache);
    return status;
}

static bool is_base(const ol_opening *opening, int64_t offset) {
    const ol_manifest *manifest = &opening->manifest;
    if (manifest->tail.base_offset == offset || find_segment(opening, offset) != NULL) return true;
    for (size_t i = 0; i < manifest->segment_count; i++) {
        if (manifest->segments[i].base_offset == offset) return true;
    }
    return false;
}

/* Finds up to where the other program cleaned.  The program's checkpoint is not a witness against
 * the log if it is damaged, or names an offset at which no clean can have ended.  A clean usually
 * ends at the base of a segment, and never beyond the last one. */
static void judge_cleaned(ol_opening *opening) {
    int64_t said = opening->options->cleaned_by_others;
    /* 0: the checkpoint has no entry, although ours may have had one. */
    bool is_gone = said == 0 && opening->manifest.cleaned > 0;
    bool is_wrong = is_gone || (said > 0 && !is_base(opening, said));
    bool is_beyond = is_wrong && (opening->found_count == 0 ||
                                  said > opening->found[opening->found_count - 1].base_offset);
    opening->cleaned = is_beyond ? -1 : said;
    opening->is_cleaned_uncertain = is_wrong;
}

/* Batches that existed when the manifest was written may have been cleaned, or lost. */
static void doubt_what_was_found(ol_opening *opening) {
    int64_t from = opening->cleaned < 0 ? 0 : opening->cleaned;
    opening->has_doubtful_gap = true;
    report_doubt(opening, OL_DOUBT_GAP, from, opening->manifest.tail.end_offset);
}

/* A broker writes several files while it works: its checkpoints, the epochs of what it leads, and
 * batches in the newest of them.  A single file that changed alone is damage.  An epoch older than
 * the manifest's proves nothing, because a process of ours may have ended between storing a new
 * epoch in the manifest and storing the epochs. */
static int judge_others(ol_opening *opening, ol_error *error) {
    const ol_leader_epochs *epochs = &opening->log->epochs.cache;
    int changes = opening->options->changed_checkpoints;
    int status = OL_OK;
    bool written = false;
    bool is_other = opening->has_manifest && epochs->count > 0 &&
                    ol_leader_epochs_newest(epochs) != opening->manifest.epoch;
    bool is_newer = is_other && ol_leader_epochs_newest(epochs) > opening->manifest.epoch;
    if (is_newer && changes == 0) status = has_written_newest(opening, &written, error);
    opening->has_worked_here = changes + is_other + written >= 2;
    opening->report->others_worked = opening->has_worked_here;
    if (opening->has_worked_here) judge_cleaned(opening);
    return status;
}

static void refuse_log_start(ol_opening *opening, const char *reason) {
    int64_t first = opening->found_count == 0 ? 0 : opening->found[0].base_offset;
    describe(add_loss(opening, false, first, first), opening->log->directory,
             "the log start offset %" PRId64 " in log-start-offset-checkpoint was not used: %s",
             opening->log_start, reason);
    opening->log_start = 0;
    opening->report->log_start_refused = true;
}

/* A checkpoint that changed while nothing else did is not used. */
static void judge_checkpoints(ol_opening *opening) {
    const ol_log_options *options = opening->options;
    opening->recovery_point = options->accept_loss ? -1 : options->recovery_point;
    opening->log_start = options->log_start_offset > 0 ? options->log_start_offset : 0;
    if (!opening->has_manifest || opening->has_worked_here) return;
    if (options->recovery_point_changed) opening->recovery_point = -1;
    if (options->log_start_changed && opening->log_start > 0) {
        refuse_log_start(opening, "no other file shows that a broker worked here");
    }
}

void ol_completeness_judge_start(ol_opening *opening) {
    /* A broker that deleted everything below this start flushed up to there. */
    if (opening->recovery_point >= opening->log_start || opening->found_count == 0) return;
    refuse_log_start(opening, "the log and its recovery point end below that offset");
}

/* Returns whether a segment must exist as the manifest lists it.  A broker's cleaner changes what
 * is below its checkpoint, and what is below the start of the log may be removed. */
static bool is_bound(const ol_opening *opening, const ol_manifest_segment *listed) {
    return listed->base_offset >= opening->cleaned &&
           (opening->log_start == 0 || listed->end_offset > opening->log_start);
}

/* ------------------------------------------------------------ closed segments */

/* Returns whether the files of the swap that was under way look as after a finished swap. */
static bool looks_swapped(const ol_opening *opening, const ol_found_segment *first) {
    const ol_manifest *manifest = &opening->manifest;
    if (first == NULL || first->file_size != manifest->swap.size) return false;
    for (size_t i = 0; i < opening->found_count; i++) {
        const ol_found_segment *found = &opening->found[i];
        bool is_replaced = found->base_offset > manifest->swap.base_offset &&
                           found->base_offset <= manifest->swap_last;
        if (is_replaced && found->file_size > 0) return false;
    }
    return true;
}

/* Finds out whether the swap took place; the first old segment may be as long as the new one. */
static int was_swapped(const ol_opening *opening, bool *swapped, ol_error *error) {
    const ol_manifest_segment *swap = &opening->manifest.swap;
    *swapped = false;
    if (!opening->manifest.has_swap) return OL_OK;
    const ol_found_segment *first = find_segment(opening, swap->base_offset);
    if (!looks_swapped(opening, first)) return OL_OK;
    uint32_t checksum = 0;
    int status = ol_segment_checksum_file(opening->log->fs, first->path, swap->size, &checksum,
                                          error);
    *swapped = status == OL_OK && (!swap->has_checksum || checksum == swap->checksum);
    bool is_damaged = status == OL_CORRUPT || status == OL_TORN || status == OL_UNSUPPORTED;
    return is_damaged ? OL_OK : status;
}

/* Makes the manifest list the new segment of a swap instead of the old ones. */
static void list_swapped(ol_manifest *manifest) {
    size_t kept = 0;
    bool is_listed = false;
    for (size_t i = 0; i < manifest->segment_count; i++) {
        const ol_manifest_segment listed = manifest->segments[i];
        bool is_replaced = listed.base_offset >= manifest->swap.base_offset &&
                           listed.base_offset <= manifest->swap_last;
        if (!is_replaced) manifest->segments[kept++] = listed;
        if (is_replaced && !is_listed) manifest->segments[kept++] = manifest->swap;
        is_listed |= is_replaced;
    }
    manifest->segment_count = kept;
}

static bool is_as_listed(const ol_manifest *manifest, const ol_found_segment *found) {
    for (size_t i = 0; i < manifest->segment_count; i++) {
        const ol_manifest_segment *listed = &manifest->segments[i];
        if (listed->base_offset == found->base_offset) return listed->size == found->file_size;
    }
    return false;
}

/* Returns whether a cleaner may have merged the missing segment at `base_offset` into the one
 * before, which then differs from the listed one. */
static bool may_be_joined(const ol_opening *opening, int64_t base_offset) {
    size_t i = opening->found_count;
    while (i > 0 && opening->found[i - 1].base_offset > base_offset) i--;
    return i > 0 && !is_as_listed(&opening->manifest, &opening->found[i - 1]);
}

/* Another program may have merged later segments into a listed one. */
static segment_rule rule_of(const ol_opening *opening, const ol_manifest_segment *listed,
                            const ol_found_segment *found) {
    bool is_closed = listed != &opening->manifest.tail;
    bool is_last = found == &opening->found[opening->found_count - 1];
    segment_rule rule = {.manifest = opening->has_worked_here ? NULL : &opening->manifest,
                         .below = is_last ? INT64_MAX : found[1].base_offset};
    if (is_closed && !opening->has_worked_here) rule.below = listed->end_offset;
    return rule;
}

/* Checks one segment that the manifest lists. */
static int check_segment(ol_opening *opening, const ol_manifest_segment *listed, ol_error *error) {
    const ol_found_segment *found = find_segment(opening, listed->base_offset);
    segment_end there = {.offset = listed->base_offset};
    char path[OL_PATH_MAX];
    int status = ol_segment_path(path, sizeof path, opening->log->directory, listed->base_offset,
                                 ".log", error);
    if (status != OL_OK || (found != NULL && found->file_size >= listed->size)) return status;
    if (found != NULL) {
        const segment_rule rule = rule_of(opening, listed, found);
        status = find_end(opening, found, &rule, &there, error);
    }
    /* The size of an active segment may count a batch more than its end does. */
    bool is_tail = listed == &opening->manifest.tail;
    if (status != OL_OK || (is_tail && there.offset >= listed->end_offset)) return status;
    /* Bytes are missing, and the batches do not show which. */
    int64_t end = there.offset < listed->end_offset ? there.offset : listed->base_offset;
    if (opening->is_cleaned_uncertain) {
        doubt_what_was_found(opening);
        return OL_OK;
    }
    /* The other program's cleaner may have been stopped before it stored its checkpoint. */
    bool is_cleaned = found == NULL ? may_be_joined(opening, listed->base_offset)
                                    : there.is_whole || there.offset >= listed->end_offset;
    if (is_cleaned && opening->has_worked_here) {
        opening->has_doubtful_gap = true;
        report_doubt(opening, OL_DOUBT_GAP, listed->base_offset, listed->end_offset);
        return OL_OK;
    }
    ol_log_loss *loss = add_loss(opening, true, end, listed->end_offset);
    if (found == NULL) {
        describe(loss, path, "the segment is missing; it held the log offsets %" PRId64
                 " to %" PRId64, listed->base_offset, listed->end_offset - 1);
    } else {
        describe(loss, path, "the segment is %" PRId64 " bytes long and was %" PRId64
                 " bytes long: the log offsets %" PRId64 " to %" PRId64 " are missing",
                 found->file_size, listed->size, end, listed->end_offset - 1);
    }
    return OL_OK;
}

static int check_listed(ol_opening *opening, ol_error *error) {
    ol_manifest *manifest = &opening->manifest;
    bool swapped = false;
    int status = was_swapped(opening, &swapped, error);
    if (swapped) list_swapped(manifest);
    for (size_t i = 0; i < manifest->segment_count && status == OL_OK; i++) {
        const ol_manifest_segment *listed = &manifest->segments[i];
        if (is_bound(opening, listed)) status = check_segment(opening, listed, error);
    }
    /* Checks the segment that was active then and is closed by now.  If no segment follows it, the
     * end of the log decides. */
    const ol_manifest_segment *tail = &manifest->tail;
    bool is_closed = opening->found_count > 0 &&
                     opening->found[opening->found_count - 1].base_offset > tail->base_offset;
    if (status == OL_OK && is_closed && is_bound(opening, tail)) {
        status = check_segment(opening, tail, error);
    }
    return status;
}

/* Finds where the segment before `base_offset` ends; ol_log_rolled_first if there is none. */
static int end_before(ol_opening *opening, int64_t base_offset, int64_t *end, ol_error *error) {
    segment_end there = {.offset = ol_log_rolled_first(opening, base_offset)};
    const segment_rule any = {.below = INT64_MAX};
    size_t i = opening->found_count;
    while (i > 0 && opening->found[i - 1].base_offset >= base_offset) i--;
    int status = OL_OK;
    if (i > 0) status = find_end(opening, &opening->found[i - 1], &any, &there, error);
    *end = there.offset;
    return status;
}

/* Checks one note of a roll (log/roll.c).  Its name was on the disk before that of the next
 * segment, and no swap or deletion removes a segment before a flush has removed its note. */
static int check_note(ol_opening *opening, int64_t base_offset, int64_t next_base,
                      ol_error *error) {
    char path[OL_PATH_MAX];
    int64_t from = 0;
    bool exists = false;
    if (find_segment(opening, base_offset) != NULL || find_segment(opening, next_base) == NULL ||
        next_base <= opening->log_start || is_reported(opening, base_offset, next_base)) {
        return OL_OK;
    }
    int status = end_before(opening, base_offset, &from, error);
    if (status != OL_OK || from > base_offset) return status;
    if (ol_manifest_is_gap_legal(&opening->manifest, from, next_base)) return OL_OK;
    status = ol_segment_path(path, sizeof path, opening->log->directory, base_offset, ".log",
                             error);
    if (status == OL_OK) status = opening->log->fs->exists(opening->log->fs, path, &exists, error);
    if (status != OL_OK) return status;
    /* A writer began the segment while the directory was being listed. */
    if (exists) return ol_fail(error, OL_NO_SUCH_FILE, "a segment was created during the open");
    describe(add_loss(opening, true, from, next_base), path, "the segment is missing; it was "
             "closed at %" PRId64 ": the log offsets %" PRId64 " to %" PRId64 " are missing",
             next_base, from, next_base - 1);
    return OL_OK;
}

/* Checks segments that were closed since the manifest was written, and are not flushed. */
static int check_notes(ol_opening *opening, ol_error *error) {
    int status = OL_OK;
    int64_t base_offset, size, next_base;
    if (opening->has_worked_here || opening->options->accept_loss) return OL_OK;
    for (size_t i = 0; i < opening->name_count && status == OL_OK; i++) {
        if (!ol_log_rolled_parse(opening->names[i], &base_offset, &size, &next_base)) continue;
        status = check_note(opening, base_offset, next_base, error);
    }
    return status;
}

int ol_completeness_check_segments(ol_opening *opening, ol_error *error) {
    int status = judge_others(opening, error);
    if (status != OL_OK) return status;
    judge_checkpoints(opening);
    if (!opening->has_manifest) {
        bool is_missing = opening->options->witnessed && !opening->is_manifest_later;
        if (is_missing || opening->is_manifest_damaged) {
            report_doubt(opening, OL_DOUBT_MANIFEST, 0, INT64_MAX);
        }
        return OL_OK;
    }
    for (size_t i = 0; i < opening->manifest.doubt_count; i++) {
        const ol_manifest_doubt *doubt = &opening->manifest.doubts[i];
        report_doubt(opening, doubt->cause, doubt->from, doubt->below);
    }
    status = check_listed(opening, error);
    if (status == OL_OK) status = check_notes(opening, error);
    if (opening->options->accept_loss) opening->report->is_lossy = false;
    return status;
}

bool ol_completeness_is_gap_legal(ol_opening *opening, int64_t from, int64_t to) {
    const ol_manifest *manifest = &opening->manifest;
    if (!opening->has_manifest || opening->options->accept_loss) return true;
    if (is_reported(opening, from, to)) return true;
    if (!opening->has_worked_here) return ol_manifest_is_gap_legal(manifest, from, to);
    /* First what the other program cleaned, then what it found here, then what it wrote. */
    int64_t cleaned = opening->cleaned;
    int64_t found = manifest->tail.end_offset < to ? manifest->tail.end_offset : to;
    if (from < cleaned) from = cleaned;
    if (from < found && !ol_manifest_is_gap_legal(manifest, from, found)) {
        /* A cleaner never changes the active segment. */
        bool is_closed = to <= opening->found[opening->found_count - 1].base_offset;
        if (!opening->is_cleaned_uncertain && !is_closed) return false;
        doubt_what_was_found(opening);
    }
    if (to > found && to > cleaned) report_doubt(opening, OL_DOUBT_GAP, from, to);
    return true;
}

/* ------------------------------------------------------------ the end */

/* The greatest log end that a witness claims, and that witness. */
typedef struct reach {
    int64_t offset;
    const char *witness;
} reach;

static void stretch(reach *farthest, int64_t offset, const char *witness) {
    if (offset > farthest->offset) *farthest = (reach){offset, witness};
}

/* A sidecar of a log without a manifest speaks only for what its own epoch wrote. */
static bool has_epoch_of_sidecar(const ol_opening *opening) {
    const ol_flush_sidecar_bound *bound = &opening->sidecar.bound;
    return ol_leader_epochs_at(&opening->log->epochs.cache, bound->offset - 1) ==
           bound->leader_epoch;
}

static void check_reach(ol_opening *opening) {
    const ol_log_options *options = opening->options;
    reach proven = {-1, NULL}, doubtful = {-1, NULL};
    bool is_ours = (opening->has_manifest || options->witnessed) && !opening->has_worked_here;
    if (opening->has_manifest) {
        stretch(is_ours ? &proven : &doubtful, opening->manifest.tail.end_offset, "the manifest");
    }
    if (opening->has_sidecar) {
        bool is_true = is_ours || (has_epoch_of_sidecar(opening) &&
                                   opening->recovery_point > opening->end);
        stretch(is_true ? &proven : &doubtful, opening->sidecar.bound.offset,
                "the record of the last flush, " OL_FLUSH_SIDECAR_FILE ",");
    }
    int64_t recovery_point = options->accept_loss ? options->recovery_point
                                                  : opening->recovery_point;
    stretch(is_ours ? &proven : &doubtful, recovery_point, "the recovery point of the checkpoint");
    ol_log_recovery *report = opening->report;
    /* Below the start of the log everything may be removed. */
    if (proven.offset <= opening->log_start) proven.offset = -1;
    if (proven.offset > opening->end && report->corrupt &&
        report->corruption.offset >= opening->end) {
        report->corruption_below = proven.offset;
    } else if (proven.offset > opening->end &&
               !is_reported(opening, opening->end, proven.offset)) {
        const ol_found_segment *last = opening->found_count == 0
                                           ? NULL
                                           : &opening->found[opening->found_count - 1];
        describe(add_loss(opening, true, opening->end, proven.offset),
                 last == NULL ? opening->log->directory : last->path,
                 "the log ends at offset %" PRId64 ", but %s says that it reached %" PRId64,
                 opening->end, proven.witness, proven.offset);
    } else if (doubtful.offset > opening->end && opening->recovery_point > opening->end) {
        report_doubt(opening, OL_DOUBT_END, opening->end, doubtful.offset);
    }
}

/* Compares the contents of segments that were read and are as long as they should be. */
static void check_contents(ol_opening *opening) {
    /* A cleaner that was stopped before it wrote its checkpoint may have rewritten them record for
     * record. */
    if (opening->report->corrupt || opening->has_worked_here) return;
    for (size_t i = 0; i < opening->manifest.segment_count; i++) {
        const ol_manifest_segment *listed = &opening->manifest.segments[i];
        const ol_found_segment *found = find_segment(opening, listed->base_offset);
        bool is_same = found == NULL || !found->checked || found->file_size != listed->size ||
                       !found->has_checksum || !listed->has_checksum ||
                       found->checksum == listed->checksum || !is_bound(opening, listed);
        if (is_same) continue;
        describe(add_loss(opening, true, listed->base_offset, listed->end_offset), found->path,
                 "the batches of the segment have changed since they were written");
    }
}

/* Adopts checksums of segments that were not read this time. */
static void take_checksums(ol_opening *opening) {
    size_t at = 0;
    for (size_t i = 0; i < opening->found_count; i++) {
        ol_found_segment *found = &opening->found[i];
        const ol_manifest *manifest = &opening->manifest;
        while (at < manifest->segment_count &&
               manifest->segments[at].base_offset < found->base_offset) {
            at++;
        }
        if (at == manifest->segment_count) return;
        const ol_manifest_segment *listed = &manifest->segments[at];
        if (found->has_checksum || listed->base_offset != found->base_offset ||
            listed->size != found->size) {
            continue;
        }
        found->has_checksum = listed->has_checksum;
        found->checksum = listed->checksum;
    }
}

void ol_completeness_check_end(ol_opening *opening) {
    if (opening->options->being_written) return;
    check_reach(opening);
    check_contents(opening);
    bool has_witness = opening->has_sidecar && !opening->sidecar.is_half;
    if (!has_witness && (opening->has_manifest || opening->options->witnessed)) {
        report_doubt(opening, OL_DOUBT_SIDECAR, opening->end, INT64_MAX);
    }
    /* The loss was accepted: the next manifest leaves it out. */
    if (opening->options->accept_loss) {
        opening->report->is_lossy = false;
        opening->doubts.doubt_count = 0;
        opening->manifest.range_count = 0;
    }
    take_checksums(opening);
}

/* ------------------------------------------------------------ the next manifest */

/* Returns whether the manifest lists the closed segments that exist. */
static bool lists_all(const ol_opening *opening) {
    const ol_manifest *manifest = &opening->manifest;
    if (manifest->segment_count + 1 != opening->found_count) return false;
    for (size_t i = 0; i < manifest->segment_count; i++) {
        if (manifest->segments[i].base_offset != opening->found[i].base_offset ||
            manifest->segments[i].size != opening->found[i].size) {
            return false;
        }
    }
    return true;
}

/* Adds ranges that say which program wrote the offsets below and above the end. */
static int extend_ranges(const ol_opening *opening, ol_manifest *kept, ol_error *error) {
    bool is_ours = !opening->log->replicated;
    int status = OL_OK;
    if (kept->range_count == 0) {
        bool is_new = opening->found_count == 0;
        status = ol_manifest_add_range(kept, 0, is_new && is_ours, error);
    } else if (opening->has_worked_here) {
        status = ol_manifest_add_range(kept, kept->tail.end_offset, false, error);
    }
    return status == OL_OK ? ol_manifest_add_range(kept, opening->end, is_ours, error) : status;
}

static bool has_same_doubts(const ol_manifest *a, const ol_manifest *b) {
    bool is_same = a->doubt_count == b->doubt_count;
    for (size_t i = 0; i < a->doubt_count && is_same; i++) {
        is_same = is_same_doubt(&a->doubts[i], &b->doubts[i]);
    }
    return is_same;
}

/* Returns whether the manifest that was found differs from what is known about the log now. */
static bool is_outdated(const ol_opening *opening, int32_t epoch) {
    const ol_manifest *found = &opening->manifest;
    return !opening->has_manifest || opening->options->accept_loss || opening->has_worked_here ||
           found->has_topic_id != opening->log->has_topic_id || found->has_swap ||
           found->epoch != epoch || !lists_all(opening) ||
           !has_same_doubts(found, &opening->doubts);
}

/* Ranges are added and removed at the end. */
static bool has_last_range(const ol_manifest *manifest, size_t count, ol_manifest_range last) {
    if (manifest->range_count != count || count == 0) return false;
    const ol_manifest_range *range = &manifest->ranges[count - 1];
    return range->offset == last.offset && range->is_ours == last.is_ours;
}

int ol_completeness_adopt(ol_opening *opening, ol_error *error) {
    ol_log *log = opening->log;
    ol_manifest *found = &opening->manifest;
    size_t range_count = found->range_count;
    ol_manifest_range last_range = {0};
    if (range_count > 0) last_range = found->ranges[range_count - 1];
    int32_t epoch = ol_leader_epochs_newest(&log->epochs.cache);
    bool is_due = is_outdated(opening, epoch);
    int status = extend_ranges(opening, found, error);
    if (status != OL_OK) return status;
    is_due |= !has_last_range(found, range_count, last_range);
    ol_manifest *kept = &log->manifest.kept;
    *kept = *found;
    *found = (ol_manifest){0};
    ol_manifest_drop_segments(kept);
    kept->has_swap = false;
    kept->has_topic_id = log->has_topic_id;
    memcpy(kept->topic_id.bytes, log->topic_id, OL_UUID_SIZE);
    kept->epoch = epoch;
    /* A gap that was left in doubt is reported as a doubt, and never later as a loss. */
    int64_t cleaned = opening->has_doubtful_gap ? kept->tail.end_offset : opening->cleaned;
    if (kept->cleaned < cleaned) kept->cleaned = cleaned;
    memcpy(kept->doubts, opening->doubts.doubts, sizeof kept->doubts);
    kept->doubt_count = opening->doubts.doubt_count;
    atomic_store(&log->manifest.is_due, is_due);
    atomic_store(&log->manifest.has_other, ol_manifest_has_other(kept));
    return OL_OK;
}
