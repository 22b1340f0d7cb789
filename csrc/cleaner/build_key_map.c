/* Pass A puts the last offset of every key of the dirty part into the map (docs/format/cleaner.md
 * §8.2).
 *
 * It also puts two kinds of records of the clean part into the map.  The first kind is tombstones
 * whose retention time has passed, so that the pass that drops them also drops everything that they
 * deleted.  The second kind is records of groups with a hold.  A hold keeps the history of a group
 * from an offset on.  When this offset moves up, records that the hold no longer keeps may be
 * superseded. */
#include <stdlib.h>

#include "cleaner/cleaner_impl.h"

typedef struct scanner {
    ol_clean_run *run;
    uint64_t clean_max;         /* keys of the clean part, at most half of the map: a pass must make
                                   progress */
    bool in_clean;
    bool full;                  /* the map is full: the pass ends at pass.end */
    bool again;                 /* scan again from the start, now */
    bool damaged;               /* a segment was quarantined: scan again after the other segments */
} scanner;

/* ----------------------------------------------------------------------------------------- rows */

/* Adds rows of the clean part.  If a row does not fit the map, another pass follows.  In this pass,
 * a tombstone that did not fit is not dropped, and any other record that did not fit supersedes
 * nothing. */
static void put_clean_rows(ol_key_map *map, const ol_clean_rows *rows, uint64_t key_max) {
    int64_t ignored;
    for (size_t i = 0; i < rows->count && map->count < key_max; i++) {
        (void)!ol_key_map_put(map, rows->row[i].key, rows->row[i].offset, &ignored);
    }
}

/* Returns false when the map is full; the pass then ends before the first record that did not
 * fit. */
static bool put_rows(ol_clean_pass *pass, const ol_clean_rows *rows, uint32_t plain_flags) {
    int64_t previous[OL_CLEAN_ROWS];
    size_t count = rows->count;
    for (size_t i = 0; i < count; i++) {
        const ol_clean_row *row = &rows->row[i];
        if (OL_LIKELY(ol_key_map_put(&pass->map, row->key, row->offset, &previous[i]))) continue;
        if (row->offset < pass->end) pass->end = row->offset;
        count = i;
    }
    /* This is a separate loop so that the cache misses of the bits overlap. */
    for (size_t i = 0; i < count; i++) {
        const ol_clean_row *row = &rows->row[i];
        ol_clean_superseded_put(&pass->superseded, row->offset, row->flags == plain_flags,
                                previous[i]);
    }
    return count == rows->count;
}

/* Keeps the rows for which the table has no answer. */
static void ask_table(ol_partition *partition, int64_t limit, ol_clean_rows *rows) {
    int64_t answers[OL_CLEAN_ROWS];
    size_t left = 0;
    ol_clean_ask_table(partition, rows, limit, answers);
    for (size_t i = 0; i < rows->count; i++) {
        if (answers[i] < 0) rows->row[left++] = rows->row[i];
    }
    rows->count = left;
}

static void flush_rows(scanner *scan) {
    ol_clean_run *run = scan->run;
    ol_clean_pass *pass = &run->pass;
    ol_clean_rows *rows = &run->rows;
    const uint32_t plain_flags = run->scope.keys_are_bytes ? 0 : OL_CLEAN_POSITION;
    if (OL_LIKELY(!scan->full)) {
        if (OL_UNLIKELY(pass->ask_table) && rows->count > 0) {
            ask_table(run->scope.partition,
                      ol_clean_answers_end(pass, run->transactions.fates.first_uncertain), rows);
        }
        if (OL_UNLIKELY(scan->in_clean)) {
            put_clean_rows(&pass->map, rows, scan->clean_max);
        } else if (OL_UNLIKELY(!put_rows(pass, rows, plain_flags))) {
            scan->full = true;
            if (!pass->ask_table && run->scope.options.use_table &&
                ol_clean_can_ask_table(run->scope.partition)) {
                pass->ask_table = scan->again = true;
            }
        }
    }
    rows->count = 0;
}

static inline void add_record(scanner *scan, const ol_record *record, int64_t last_offset,
                              ol_clean_verdict verdict) {
    ol_clean_run *run = scan->run;
    ol_clean_row *row = ol_clean_next_row(&run->rows, &run->scope, &run->pass, record, last_offset,
                                          verdict);
    const uint32_t never = OL_CLEAN_KEYLESS | OL_CLEAN_UNREADABLE | OL_CLEAN_HELD |
                           OL_CLEAN_OF_ABORTED | OL_CLEAN_OF_UNCERTAIN;
    if (OL_UNLIKELY(row->flags & never)) return;
    if (OL_UNLIKELY(scan->in_clean)) {
        if (!(row->flags & (OL_CLEAN_MAY_GO | OL_CLEAN_WATCHED))) return;
    } else if (OL_UNLIKELY(row->offset < run->segments.first_dirty)) {
        return;
    }
    bool is_value = (row->flags & (OL_CLEAN_POSITION | OL_CLEAN_TOMBSTONE)) == OL_CLEAN_POSITION;
    if (is_value && !ol_clean_is_accepted(record)) return;
    ol_key_map_prefetch(&run->pass.map, row->key);
    if (++run->rows.count == OL_CLEAN_ROWS) flush_rows(scan);
}

/* -------------------------------------------------------------------------------------- batches */

static bool has_ended(const scanner *scan) { return scan->full || scan->again; }

static int scan_records(scanner *scan, ol_clean_segment *segment, const ol_batch *batch,
                        ol_error *error) {
    ol_clean_run *run = scan->run;
    ol_clean_verdict verdict = ol_clean_judge_batch(&run->scope, &run->transactions, &run->segments,
                                                    segment, batch);
    ol_records records;
    ol_record record;
    if (OL_LIKELY(ol_records_sole(batch, &record))) {
        add_record(scan, &record, batch->last_offset, verdict);
        return OL_OK;
    }
    int status = ol_records_open(&records, batch, run->scope.log_options->decompressor, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    while ((status = ol_records_next(&records, &record, error)) == OL_OK) {
        add_record(scan, &record, batch->last_offset, verdict);
    }
    /* The rows' names borrow from memory that is released here. */
    if (OL_UNLIKELY(records.inflated.data != NULL)) flush_rows(scan);
    ol_records_close(&records);
    return status == OL_END ? OL_OK : status;
}

/* Fates must be known before the first value of a transaction is judged, also in the clean part,
 * where values of held groups stay although they were aborted. */
static int learn_at(scanner *scan, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = scan->run;
    ol_clean_transactions *transactions = &run->transactions;
    if (transactions->from >= 0 && batch->base_offset >= transactions->from) return OL_OK;
    flush_rows(scan);           /* the walk that follows changes nothing about these rows */
    return ol_clean_learn_transactions(transactions, &run->course, &run->segments,
                                       batch->base_offset, &scan->again, error);
}

/* Returns whether a batch of the clean part may hold records for the map. */
static inline bool concerns_clean(const ol_clean_scope *scope, ol_clean_segments *segments,
                                  ol_clean_segment *segment, const ol_batch *batch) {
    if (scope->options.hold_count > 0) return true;
    if (batch->magic < 2) return ol_clean_legacy_may_go(scope, segments, segment);
    return ol_batch_has_horizon(batch) && batch->base_timestamp <= scope->options.now_ms;
}

static int scan_batch(scanner *scan, ol_clean_segment *segment, const ol_batch *batch,
                      ol_error *error) {
    ol_clean_run *run = scan->run;
    if (OL_UNLIKELY(ol_batch_is_control(batch))) return OL_OK;
    bool concerned = OL_UNLIKELY(scan->in_clean)
                         ? concerns_clean(&run->scope, &run->segments, segment, batch)
                         : batch->last_offset >= run->segments.first_dirty;
    if (OL_UNLIKELY(!concerned)) return OL_OK;
    if (OL_UNLIKELY(batch->base_offset >= run->transactions.limit)) {
        flush_rows(scan);
        if (run->transactions.limit < run->pass.end) run->pass.end = run->transactions.limit;
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
    bool done = false, whole = false;       /* the piece is done; the whole segment is done */
    int status = ol_clean_source_open(&source, &scan->run->course, segment, from, error);
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
    scan->run->rows.count = 0;
    ol_clean_source_close(&source);
    return status;
}

/* ------------------------------------------------------------------------------------- the pass */

/* Scans the clean segments, or the dirty ones. */
static int scan_part(scanner *scan, bool clean, ol_error *error) {
    ol_clean_run *run = scan->run;
    ol_clean_segments *segments = &run->segments;
    int64_t first_dirty = segments->first_dirty;
    scan->in_clean = clean;
    for (size_t i = 0; i < segments->count && !has_ended(scan); i++) {
        ol_clean_segment *segment = &segments->items[i];
        bool concerned = clean ? segment->base_offset < first_dirty
                               : segment->next_base > first_dirty;
        if (!concerned || segment->quarantined) continue;
        int status = scan_segment(scan, segment, clean ? segment->base_offset : first_dirty, error);
        if (ol_clean_is_damage(status)) {
            /* The map holds keys of the damaged segment, so the scan starts again.  The other
             * segments are scanned first, so that this happens only once. */
            scan->damaged = true;
            status = ol_clean_quarantine_segment(&run->course, segments, segment, error, error);
        }
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

static int scan_once(ol_clean_run *run, bool *again, ol_error *error) {
    scanner scan = {.run = run,
                    .clean_max = run->scope.options.map_bytes / sizeof(ol_key_entry) / 2};
    int status = scan_part(&scan, true, error);
    if (status == OL_OK && !scan.again) status = scan_part(&scan, false, error);
    *again = scan.again || scan.damaged;
    if (*again) run->transactions.from = -1;
    return status;
}

/* The first batch of a leader epoch must not be skipped unread: its header stays. */
static int undo_epoch_starts(ol_clean_run *run, ol_error *error) {
    const ol_clean_scope *scope = &run->scope;
    size_t capacity = ol_log_epochs(scope->log, scope->target, NULL, 0);
    ol_leader_epoch *epochs = malloc((capacity + 1) * sizeof *epochs);
    if (epochs == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for leader epochs");
    size_t count = ol_log_epochs(scope->log, scope->target, epochs, capacity);
    if (count > capacity) count = capacity;
    for (size_t i = 0; i < count; i++) {
        ol_clean_superseded_undo(&run->pass.superseded, epochs[i].start_offset);
    }
    free(epochs);
    return OL_OK;
}

int ol_clean_build_key_map(ol_clean_run *run, ol_error *error) {
    const ol_clean_scope *scope = &run->scope;
    ol_clean_transactions *transactions = &run->transactions;
    ol_clean_pass *pass = &run->pass;
    int64_t first_dirty = run->segments.first_dirty;
    /* The previous pass ended where its known fates ended. */
    if (transactions->limit < scope->target) transactions->from = -1;
    for (;;) {
        bool again = false;
        ol_key_map_clear(&pass->map);
        /* A survey must see every record in pass B. */
        ol_clean_superseded_start(&pass->superseded, first_dirty, scope->target,
                                  scope->surveyor != NULL ? 0 : scope->options.map_bytes / 8);
        pass->end = scope->target;
        if (transactions->from < 0) transactions->limit = scope->target;
        int status = scan_once(run, &again, error);
        if (status != OL_OK) return status;
        if (again) continue;
        if (pass->end > first_dirty || pass->end == scope->target) {
            return undo_epoch_starts(run, error);
        }
        return ol_fail(error, OL_NO_MEMORY,
                       "a map of %zu bytes is too small for one key; raise map_bytes",
                       scope->options.map_bytes);
    }
}
