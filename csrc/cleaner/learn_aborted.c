/* Which transactions were aborted is learnt from the log itself, by one walk from the first transactional batch of the dirty part to E.
 *
 * What is still open at E is not decided, be its marker above E or not: to whoever asks for the state at E its values are pending.  They stay and supersede nothing
 * in this run, and the next one begins before them. */
#include "cleaner/cleaner_impl.h"

enum { FATES_MIN = 1024 };

/* How many fates are kept before it is asked whether a shorter pass would do. */
static size_t fates_budget(const ol_clean_run *run) {
    size_t budget = run->options->map_bytes / 4 / sizeof(ol_clean_ended);
    return budget < FATES_MIN ? FATES_MIN : budget;
}

/* Too many transactions for one pass: it ends where all that began before have ended.  Where that is nowhere, memory has to do. */
static bool is_enough(ol_clean_run *run, int64_t from, int64_t next_offset) {
    if (run->fates.count < fates_budget(run)) return false;
    int64_t limit = ol_clean_open_lowest(&run->fates.open, next_offset);
    if (limit <= from || limit <= run->first_dirty) return false;
    run->fates_limit = limit;
    ol_clean_open_clear(&run->fates.open);
    return true;
}

/* A hold that ends within a transaction ends before it: at the end of the hold its values do not count yet. */
static void lower_holds(ol_clean_run *run, int64_t next_offset) {
    for (size_t i = 0; i < run->own_options.hold_count; i++) {
        ol_clean_hold *hold = &run->holds[i];
        if (hold->end < run->learnt_to || hold->end >= next_offset) continue;
        hold->end = ol_clean_open_lowest(&run->fates.open, hold->end);
    }
    run->learnt_to = next_offset;
}

static int learn_segment(ol_clean_run *run, ol_clean_segment *segment, int64_t from, bool *enough, ol_error *error) {
    ol_clean_source source;
    bool done = false;
    int status = ol_clean_source_open(&source, run, segment, from, error);
    while (status == OL_OK && !*enough) {
        ol_batch batch;
        status = ol_clean_source_next_piece(&source, &done, error);
        if (status != OL_OK || done) break;
        while (!*enough) {
            status = ol_clean_source_next_batch(&source, &batch, &done, error);
            if (status != OL_OK || done) break;
            if (batch.last_offset < from || !(ol_batch_is_control(&batch) || ol_clean_is_pending(&batch))) continue;
            if (run->own_options.hold_count > 0) lower_holds(run, batch.base_offset + 1);
            size_t count = run->fates.count;
            status = ol_clean_fates_add(&run->fates, &batch, true, error);
            if (status != OL_OK) {
                ol_clean_source_blame(&source, &batch, error);
                break;
            }
            if (run->fates.count > count) *enough = is_enough(run, from, batch.last_offset + 1);
        }
    }
    ol_clean_source_close(&source);
    return status;
}

int ol_clean_learn(ol_clean_run *run, int64_t from, bool *again, ol_error *error) {
    bool enough = false;
    int status = OL_OK;
    *again = false;
    ol_clean_fates_free(&run->fates);
    run->fates_from = -1;
    run->learnt_to = from;
    run->fates_limit = run->target;
    for (size_t i = 0; i < run->segment_count && !enough; i++) {
        ol_clean_segment *segment = &run->segments[i];
        if (segment->next_base <= from) continue;
        if (segment->quarantined) {
            ol_clean_fates_add_damage(&run->fates);
            continue;
        }
        status = learn_segment(run, segment, from, &enough, error);
        if (ol_clean_is_damage(status)) {
            /* The others are looked through first, so that this happens once. */
            *again = true;
            ol_clean_fates_add_damage(&run->fates);
            status = ol_clean_quarantine_segment(run, segment, error, error);
        }
        if (status != OL_OK) return status;
    }
    if (*again) return OL_OK;
    lower_holds(run, run->target);
    status = ol_clean_fates_seal(&run->fates, error);
    if (status != OL_OK) return status;
    run->fates_from = from;
    if (run->fates.first_open < run->end_max) run->end_max = run->fates.first_open;
    if (run->fates.first_uncertain < run->tombstone_block) run->tombstone_block = run->fates.first_uncertain;
    return OL_OK;
}
