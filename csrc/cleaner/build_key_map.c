/* Pass A: the last offset of every key of the dirty part goes into the map (docs/format/cleaner.md §8.2).
 *
 * Of the part that is clean already two kinds of records go into it, too: tombstones whose time has passed, so that whatever they deleted is dropped in the
 * pass in which they are, and records of groups that are held, since a hold that moved on leaves superseded ones behind. */
#include "cleaner/cleaner_impl.h"

typedef struct scanner {
    ol_clean_run *run;
    size_t count;               /* of run->rows */
    uint64_t clean_max;         /* keys of the clean part: half of the map at most, so that every pass gets on */
    bool in_clean;
    bool full;                  /* the pass ends at run->pass_end */
    bool again;                 /* from the start, now */
    bool damaged;               /* a segment was quarantined: from the start, once the others were looked through */
} scanner;

/* ------------------------------------------------------------------------------------------------ rows */

/* Of a part that is clean already: one that finds no room is not dropped, or supersedes nothing yet; another pass comes. */
static void put_clean_rows(scanner *scan, size_t count) {
    ol_clean_run *run = scan->run;
    int64_t ignored;
    for (size_t i = 0; i < count && run->map.count < scan->clean_max; i++) {
        (void)!ol_key_map_put(&run->map, run->rows[i].key, run->rows[i].offset, &ignored);
    }
}

static void put_rows(scanner *scan, size_t count) {
    ol_clean_run *run = scan->run;
    int64_t previous[OL_CLEAN_ROWS];
    for (size_t i = 0; i < count; i++) {
        const ol_clean_row *row = &run->rows[i];
        if (OL_LIKELY(ol_key_map_put(&run->map, row->key, row->offset, &previous[i]))) continue;
        scan->full = true;
        if (row->offset < run->pass_end) run->pass_end = row->offset;
        count = i;
    }
    /* By themselves, so that their misses overlap. */
    for (size_t i = 0; i < count; i++) {
        const ol_clean_row *row = &run->rows[i];
        ol_clean_superseded_put(&run->superseded, row->offset, row->flags == OL_CLEAN_POSITION, previous[i]);
    }
}

/* Only those that the table says nothing of. */
static size_t ask_table(ol_clean_run *run, size_t count) {
    int64_t answers[OL_CLEAN_ROWS];
    size_t left = 0;
    ol_clean_ask_table(run, count, answers);
    for (size_t i = 0; i < count; i++) {
        if (answers[i] < 0) run->rows[left++] = run->rows[i];
    }
    return left;
}

static void flush_rows(scanner *scan) {
    ol_clean_run *run = scan->run;
    size_t count = scan->count;
    scan->count = 0;
    if (OL_UNLIKELY(scan->full)) return;
    if (OL_UNLIKELY(run->ask_table) && count > 0) count = ask_table(run, count);
    if (OL_UNLIKELY(scan->in_clean)) {
        put_clean_rows(scan, count);
    } else {
        put_rows(scan, count);
    }
    if (OL_UNLIKELY(scan->full) && !run->ask_table && run->options->use_table && ol_clean_can_ask_table(run)) {
        run->ask_table = true;
        scan->again = true;
    }
}

static inline void add_record(scanner *scan, const ol_record *record, int64_t last_offset, ol_clean_verdict verdict) {
    ol_clean_run *run = scan->run;
    ol_clean_row *row = &run->rows[scan->count];
    ol_clean_see(&run->hasher, run->options, record, last_offset, row, ol_clean_name_place(run, scan->count));
    ol_clean_mark_row(row, verdict);
    const uint32_t never = OL_CLEAN_KEYLESS | OL_CLEAN_UNREADABLE | OL_CLEAN_HELD | OL_CLEAN_OF_ABORTED | OL_CLEAN_OF_UNCERTAIN;
    if (OL_UNLIKELY(row->flags & never)) return;
    if (OL_UNLIKELY(scan->in_clean)) {
        if (!(row->flags & (OL_CLEAN_MAY_GO | OL_CLEAN_WATCHED))) return;
    } else if (OL_UNLIKELY(row->offset < run->first_dirty)) {
        return;
    }
    if ((row->flags & (OL_CLEAN_POSITION | OL_CLEAN_TOMBSTONE)) == OL_CLEAN_POSITION && !ol_clean_is_taken(record)) return;
    ol_key_map_prefetch(&run->map, row->key);
    if (++scan->count == OL_CLEAN_ROWS) flush_rows(scan);
}

/* ------------------------------------------------------------------------------------------------ batches */

static bool has_ended(const scanner *scan) { return scan->full || scan->again; }

static int scan_records(scanner *scan, ol_clean_segment *segment, const ol_batch *batch, ol_error *error) {
    ol_clean_verdict verdict = ol_clean_judge_batch(scan->run, segment, batch);
    ol_records records;
    ol_record record;
    if (OL_LIKELY(ol_records_sole(batch, &record))) {
        add_record(scan, &record, batch->last_offset, verdict);
        return OL_OK;
    }
    int status = ol_records_open(&records, batch, scan->run->decompressor, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    while ((status = ol_records_next(&records, &record, error)) == OL_OK) {
        add_record(scan, &record, batch->last_offset, verdict);
    }
    /* Names borrow from memory that ends here. */
    if (OL_UNLIKELY(records.inflated.data != NULL)) flush_rows(scan);
    ol_records_close(&records);
    return status == OL_END ? OL_OK : status;
}

/* Fates must be known before the first value of a transaction is judged, also where it was left in the clean part: aborted ones of held groups are. */
static int learn_at(scanner *scan, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = scan->run;
    if (run->fates_from >= 0 && batch->base_offset >= run->fates_from) return OL_OK;
    flush_rows(scan);           /* what is met meanwhile changes nothing of them */
    return ol_clean_learn(run, batch->base_offset, &scan->again, error);
}

static inline bool concerns_clean(scanner *scan, ol_clean_segment *segment, const ol_batch *batch) {
    const ol_clean_options *options = scan->run->options;
    if (options->hold_count > 0) return true;
    if (batch->magic < 2) return ol_clean_legacy_may_go(scan->run, segment);
    return ol_batch_has_horizon(batch) && batch->base_timestamp <= options->now_ms;
}

static int scan_batch(scanner *scan, ol_clean_segment *segment, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = scan->run;
    if (OL_UNLIKELY(ol_batch_is_control(batch))) return OL_OK;
    if (OL_UNLIKELY(scan->in_clean ? !concerns_clean(scan, segment, batch) : batch->last_offset < run->first_dirty)) return OL_OK;
    if (OL_UNLIKELY(batch->base_offset >= run->fates_limit)) {
        flush_rows(scan);
        if (run->fates_limit < run->pass_end) run->pass_end = run->fates_limit;
        scan->full = true;
        return OL_OK;
    }
    if (OL_UNLIKELY(ol_clean_is_pending(batch))) {
        int status = learn_at(scan, batch, error);
        if (status != OL_OK || has_ended(scan)) return status;
    }
    return scan_records(scan, segment, batch, error);
}

static int scan_segment(scanner *scan, ol_clean_segment *segment, int64_t from, ol_error *error) {
    ol_clean_source source;
    bool done = false, whole = false;       /* a piece is done; all of the segment is */
    int status = ol_clean_source_open(&source, scan->run, segment, from, error);
    while (status == OL_OK && !has_ended(scan)) {
        ol_batch batch;
        status = ol_clean_source_next_piece(&source, &whole, error);
        if (status != OL_OK || whole) break;
        while (!has_ended(scan)) {
            status = ol_clean_source_next_batch(&source, &batch, &done, error);
            if (status != OL_OK || done) break;
            status = scan_batch(scan, segment, &batch, error);
            if (OL_UNLIKELY(status != OL_OK)) {
                if (ol_clean_is_damage(status)) ol_clean_source_blame(&source, &batch, error);
                break;
            }
        }
        if (status == OL_OK) flush_rows(scan);
    }
    segment->is_tallied = status == OL_OK && whole && from <= segment->base_offset;
    segment->tally = source.tally;
    scan->count = 0;
    ol_clean_source_close(&source);
    return status;
}

/* ------------------------------------------------------------------------------------------------ the pass */

/* Segments that do not reach below pass_end are none of this pass. */
static int scan_part(scanner *scan, bool clean, ol_error *error) {
    ol_clean_run *run = scan->run;
    scan->in_clean = clean;
    for (size_t i = 0; i < run->segment_count && !has_ended(scan); i++) {
        ol_clean_segment *segment = &run->segments[i];
        bool concerned = clean ? segment->base_offset < run->first_dirty : segment->next_base > run->first_dirty;
        if (!concerned || segment->quarantined) continue;
        int status = scan_segment(scan, segment, clean ? segment->base_offset : run->first_dirty, error);
        if (ol_clean_is_damage(status)) {
            /* What a damaged segment said before is forgotten.  The others are looked through first, so that this happens once. */
            scan->damaged = true;
            status = ol_clean_quarantine_segment(run, segment, error, error);
        }
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static int scan_once(ol_clean_run *run, bool *again, ol_error *error) {
    scanner scan = {.run = run, .clean_max = run->options->map_bytes / sizeof(ol_key_entry) / 2};
    int status = scan_part(&scan, true, error);
    if (status == OL_OK && !scan.again) status = scan_part(&scan, false, error);
    *again = scan.again || scan.damaged;
    if (*again) run->fates_from = -1;
    return status;
}

int ol_clean_scan(ol_clean_run *run, ol_error *error) {
    /* Fates that end early ended the pass before this one. */
    if (run->fates_limit < run->target) run->fates_from = -1;
    for (;;) {
        bool again = false;
        ol_key_map_clear(&run->map);
        ol_clean_superseded_start(&run->superseded, run->first_dirty, run->target, run->options->map_bytes / 8);
        run->pass_end = run->target;
        if (run->fates_from < 0) run->fates_limit = run->target;
        int status = scan_once(run, &again, error);
        if (status != OL_OK) return status;
        if (again) continue;
        if (run->pass_end > run->first_dirty || run->pass_end == run->target) return OL_OK;
        return ol_fail(error, OL_NO_MEMORY, "the map of %zu bytes holds no key", run->options->map_bytes);
    }
}
