/* What stays (docs/format/cleaner.md §8.3, docs/maintenance.md). */
#include "cleaner/cleaner_impl.h"

ol_clean_verdict ol_clean_judge_batch(ol_clean_run *run, ol_clean_segment *segment, const ol_batch *batch) {
    ol_clean_verdict verdict = {0, 0};
    if (OL_UNLIKELY(ol_clean_is_pending(batch)) && run->fates_from >= 0 && batch->base_offset >= run->fates_from) {
        ol_clean_fate fate = ol_clean_fates_find(&run->fates, batch->producer_id, batch->base_offset);
        if (fate == OL_CLEAN_ABORTED) verdict.value_flags = OL_CLEAN_OF_ABORTED;
        if (fate == OL_CLEAN_UNCERTAIN) verdict.value_flags = OL_CLEAN_OF_UNCERTAIN;
    }
    if (OL_UNLIKELY(batch->last_offset >= run->tombstone_block)) return verdict;
    bool may_go = batch->magic == 2 ? ol_batch_has_horizon(batch) && batch->base_timestamp <= run->options->now_ms
                                    : ol_clean_legacy_may_go(run, segment);
    if (OL_UNLIKELY(may_go)) verdict.tombstone_flags = OL_CLEAN_MAY_GO;
    return verdict;
}

/* What becomes of a record that is not live, or a tombstone. */
typedef enum outcome { STAYS, STAYS_AND_BEGINS, SUPERSEDED, TOMBSTONE_GOES, ABORTED, KEYLESS } outcome;

static outcome decide(const ol_clean_run *run, const ol_clean_row *row, int64_t latest) {
    const uint32_t always = OL_CLEAN_HELD | OL_CLEAN_UNREADABLE | OL_CLEAN_OF_UNCERTAIN;
    if ((row->flags & always) || row->offset >= run->pass_end) return STAYS;
    if (row->flags & OL_CLEAN_KEYLESS) return KEYLESS;
    if (row->flags & OL_CLEAN_OF_ABORTED) return ABORTED;
    const uint32_t erases = OL_CLEAN_POSITION | OL_CLEAN_TOMBSTONE;
    /* It may have erased a value that is pending at E and stays. */
    if (OL_UNLIKELY((row->flags & erases) == erases && row->offset >= run->fates.first_uncertain)) return STAYS;
    if (latest > row->offset) return SUPERSEDED;
    if (!(row->flags & OL_CLEAN_TOMBSTONE)) return STAYS;
    /* Only one that the map holds: then nothing of its key below it stays in this pass. */
    return (row->flags & OL_CLEAN_MAY_GO) && latest == row->offset ? TOMBSTONE_GOES : STAYS_AND_BEGINS;
}

static void count(ol_clean_counts *counts, outcome found) {
    switch (found) {
        case STAYS:
        case STAYS_AND_BEGINS:
            counts->kept++;
            return;
        case SUPERSEDED:
            counts->superseded++;
            return;
        case TOMBSTONE_GOES:
            counts->tombstones_dropped++;
            return;
        case ABORTED:
            counts->aborted_dropped++;
            return;
        case KEYLESS:
            counts->keyless_dropped++;
            return;
    }
}

void ol_clean_decide(ol_clean_run *run, size_t row_count, uint64_t kept[OL_CLEAN_ROWS / 64],
                     uint64_t tombstones[OL_CLEAN_ROWS / 64]) {
    int64_t answers[OL_CLEAN_ROWS];
    for (size_t i = 0; i < OL_CLEAN_ROWS / 64; i++) kept[i] = tombstones[i] = 0;
    if (OL_UNLIKELY(run->ask_table)) ol_clean_ask_table(run, row_count, answers);
    for (size_t i = 0; i < row_count; i++) {
        const ol_clean_row *row = &run->rows[i];
        int64_t latest = OL_UNLIKELY(run->ask_table) ? answers[i] : -1;
        if (OL_LIKELY(latest < 0)) latest = ol_key_map_get(&run->map, row->key);
        outcome found = decide(run, row, latest);
        count(&run->report->records, found);
        uint64_t bit = UINT64_C(1) << (i % 64);
        if (found <= STAYS_AND_BEGINS) kept[i / 64] |= bit;
        if (OL_UNLIKELY(found == STAYS_AND_BEGINS)) tombstones[i / 64] |= bit;
    }
    run->report->records.read += (int64_t)row_count;
}
