/* Pass B: a group of segments becomes one segment without what goes (docs/format/cleaner.md §8.3). */
#include <stdlib.h>
#include <string.h>

#include "cleaner/cleaner_impl.h"

/* ------------------------------------------------------------------------------------------------ data */

static int64_t count_bits(const uint64_t *words, size_t count) {
    int64_t bits = 0;
    for (size_t i = 0; i < count; i++) bits += __builtin_popcountll(words[i]);
    return bits;
}

/* bits[from, from + count) to the front. */
static void take_bits(const uint64_t *bits, size_t from, size_t count, uint64_t *taken) {
    for (size_t i = 0; i * 64 < count; i++) {
        size_t word = from / 64 + i;
        uint64_t value = bits[word] >> (from % 64);
        if (from % 64 != 0 && word + 1 < OL_CLEAN_ROWS / 64) value |= bits[word + 1] << (64 - from % 64);
        size_t left = count - i * 64;
        taken[i] = left < 64 ? value & ((UINT64_C(1) << left) - 1) : value;
    }
}

/* Decides all that waits, and writes it. */
int ol_clean_flush_rows(ol_clean_copier *copy, ol_error *error) {
    ol_clean_run *run = copy->run;
    uint64_t kept[OL_CLEAN_ROWS / 64], tombstones[OL_CLEAN_ROWS / 64], words[OL_CLEAN_ROWS / 64];
    ol_clean_decide(run, copy->row_count, kept, tombstones);
    size_t row = 0;
    for (size_t i = 0; i < copy->batch_count; i++) {
        const ol_batch *batch = &run->batches[i];
        size_t count = run->batch_rows[i];
        ol_clean_result result = OL_CLEAN_DROPPED;
        int status;
        if (OL_LIKELY(count == 1) && (kept[row / 64] & ~tombstones[row / 64]) >> (row % 64) & 1) {
            status = ol_clean_put_batch(copy, batch, OL_CLEAN_VERBATIM, error);
        } else {
            bool begins = false;
            ol_clean_choice choice = {.kept = words};
            take_bits(tombstones, row, count, words);
            for (size_t word = 0; word * 64 < count; word++) begins |= words[word] != 0;
            take_bits(kept, row, count, words);
            choice.kept_count = count_bits(words, (count + 63) / 64);
            status = ol_clean_finish_batch(copy, batch, (int64_t)count, &choice, begins, &result, error);
        }
        if (OL_UNLIKELY(status != OL_OK)) return status;
        row += count;
    }
    copy->row_count = copy->batch_count = 0;
    return OL_OK;
}

static inline void add_row(ol_clean_copier *copy, const ol_record *record, int64_t last_offset) {
    ol_clean_run *run = copy->run;
    ol_clean_row *row = &run->rows[copy->row_count];
    ol_clean_see(&run->hasher, run->options, record, last_offset, row, ol_clean_name_place(run, copy->row_count));
    ol_clean_mark_row(row, copy->verdict);
    ol_key_map_prefetch(&run->map, row->key);
    copy->row_count++;
}

/* A batch whose records fit the rows beside others. */
static int add_short(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    if (OL_UNLIKELY((size_t)batch->record_count > OL_CLEAN_ROWS - copy->row_count || copy->batch_count == OL_CLEAN_ROWS)) {
        int status = ol_clean_flush_rows(copy, error);
        if (status != OL_OK) return status;
    }
    ol_records records;
    ol_record record;
    size_t before = copy->row_count;
    if (OL_LIKELY(ol_records_sole(batch, &record))) {
        add_row(copy, &record, batch->last_offset);
    } else {
        int status = ol_records_open(&records, batch, NULL, error);
        if (OL_UNLIKELY(status != OL_OK)) return status;
        while (OL_LIKELY((status = ol_records_next(&records, &record, error)) == OL_OK)) {
            add_row(copy, &record, batch->last_offset);
        }
        ol_records_close(&records);
        if (OL_UNLIKELY(status != OL_END)) return status;
    }
    run->batches[copy->batch_count] = *batch;
    run->batch_rows[copy->batch_count++] = (uint16_t)(copy->row_count - before);
    return OL_OK;
}

static int make_room_for_bits(ol_clean_run *run, size_t words, ol_error *error) {
    if (words <= run->kept_capacity) return OL_OK;
    size_t capacity = words < 2 * run->kept_capacity ? 2 * run->kept_capacity : words;
    uint64_t *kept = realloc(run->kept, capacity * sizeof *kept);
    if (kept == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to clean a batch of %zu records", words * 64);
    run->kept = kept;
    run->kept_capacity = capacity;
    return OL_OK;
}

/* A compressed batch, or one of more records than there are rows: decided by itself, some rows at a time. */
static int decide_alone(ol_clean_copier *copy, const ol_batch *batch, int64_t *record_count, bool *begins, ol_error *error) {
    ol_clean_run *run = copy->run;
    uint64_t tombstones[OL_CLEAN_ROWS / 64];
    ol_records records;
    ol_record record;
    int status = ol_records_open(&records, batch, run->decompressor, error);
    if (status != OL_OK) return status;
    size_t words = 0;
    for (;;) {
        status = ol_records_next(&records, &record, error);
        if (status == OL_OK) add_row(copy, &record, batch->last_offset);
        if (status == OL_OK && copy->row_count < OL_CLEAN_ROWS) continue;
        if (status != OL_OK && status != OL_END) break;
        int room = make_room_for_bits(run, words + OL_CLEAN_ROWS / 64, error);
        if (room != OL_OK) {
            status = room;
            break;
        }
        ol_clean_decide(run, copy->row_count, run->kept + words, tombstones);
        for (size_t i = 0; i < OL_CLEAN_ROWS / 64; i++) *begins |= tombstones[i] != 0;
        *record_count += (int64_t)copy->row_count;
        words += OL_CLEAN_ROWS / 64;
        copy->row_count = 0;
        if (status == OL_END) break;
    }
    copy->row_count = 0;
    ol_records_close(&records);
    return status == OL_END ? OL_OK : status;
}

static int add_alone(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    int status = ol_clean_flush_rows(copy, error);
    if (status != OL_OK) return status;
    copy->verdict = ol_clean_judge_batch(run, copy->segment, batch);
    ol_clean_counts before = run->report->records;
    int64_t record_count = 0;
    bool begins = false;
    status = decide_alone(copy, batch, &record_count, &begins, error);
    if (status != OL_OK) return status;
    ol_clean_choice choice = {.kept = run->kept};
    choice.kept_count = run->report->records.kept - before.kept;
    ol_clean_result result = OL_CLEAN_VERBATIM;
    status = ol_clean_finish_batch(copy, batch, record_count, &choice, begins, &result, error);
    if (status != OL_OK || result != OL_CLEAN_NOT_COMPRESSED) return status;
    /* All of it stays after all, and what deletes something in it has to stay as well. */
    run->report->records = before;
    run->report->records.read += record_count;
    run->report->records.kept += record_count;
    run->report->batches_not_compressed++;
    if (choice.kept_count < record_count && batch->base_offset < run->tombstone_block) run->tombstone_block = batch->base_offset;
    return OL_OK;
}

/* ------------------------------------------------------------------------------------------------ segments */

/* As if the records of batches that pass A has decided had been decided here, and dropped. */
static int drop_gone(ol_clean_copier *copy, ol_error *error) {
    ol_clean_run *run = copy->run;
    int64_t bytes, position = copy->source.piece.position + (int64_t)copy->source.position;
    int64_t count = ol_clean_source_skip_gone(&copy->source, &bytes);
    if (count == 0) return OL_OK;
    run->report->batches += count;
    run->report->records.read += count;
    run->report->records.superseded += count;
    run->taken_bytes += bytes;
    if (OL_LIKELY(copy->cleaned != NULL || run->options->sink != NULL)) return OL_OK;
    /* The first difference; what waits stands before it. */
    int status = ol_clean_flush_rows(copy, error);
    return status == OL_OK && copy->cleaned == NULL ? ol_clean_start_writing(copy, position, error) : status;
}

static int add_batch(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    run->report->batches++;
    run->taken_bytes += (int64_t)batch->size;
    int status = ol_clean_source_check(&copy->source, batch, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    if (OL_UNLIKELY(ol_batch_is_control(batch))) return ol_clean_add_control(copy, batch, error);
    if (OL_UNLIKELY(ol_clean_is_pending(batch))) {
        status = ol_clean_open_add(&run->open, batch->producer_id, batch->base_offset, error);
        if (status != OL_OK) return status;
    }
    if (OL_UNLIKELY(ol_batch_codec(batch) != OL_CODEC_NONE || batch->record_count > OL_CLEAN_ROWS)) {
        return add_alone(copy, batch, error);
    }
    copy->verdict = ol_clean_judge_batch(run, copy->segment, batch);
    return add_short(copy, batch, error);
}

static int tell_pace(ol_clean_copier *copy, int64_t records) {
    ol_clean_run *run = copy->run;
    int64_t written = copy->unpaced;
    copy->unpaced = 0;
    if (run->options->progress != NULL) run->options->progress->records_read += records;
    return ol_clean_pace(run, 0, written);
}

static int copy_segment(ol_clean_copier *copy, ol_error *error) {
    bool done = false;
    int status = ol_clean_source_open(&copy->source, copy->run, copy->segment, copy->segment->base_offset, error);
    while (status == OL_OK) {
        ol_batch batch;
        int64_t records = copy->run->report->records.read;
        status = ol_clean_source_next_piece(&copy->source, &done, error);
        if (status != OL_OK || done) break;
        for (;;) {
            status = drop_gone(copy, error);
            if (OL_UNLIKELY(status != OL_OK)) break;
            copy->next_offset = copy->source.next_offset;
            status = ol_clean_source_next_unchecked(&copy->source, &batch, &done, error);
            if (OL_UNLIKELY(status != OL_OK || done)) break;
            status = add_batch(copy, &batch, error);
            if (OL_UNLIKELY(status != OL_OK)) {
                if (ol_clean_is_damage(status)) ol_clean_source_blame(&copy->source, &batch, error);
                break;
            }
        }
        if (status == OL_OK) status = ol_clean_flush_rows(copy, error);      /* they borrow from the piece */
        if (status == OL_OK) status = tell_pace(copy, copy->run->report->records.read - records);
    }
    if (status == OL_OK) status = ol_clean_source_check_tally(&copy->source, error);
    copy->row_count = copy->batch_count = 0;
    ol_clean_source_close(&copy->source);
    return status;
}

int ol_clean_copy_group(ol_clean_run *run, size_t first, size_t count, size_t *bad, ol_error *error) {
    ol_clean_copier copy = {.run = run, .first = first, .count = count};
    int status = count > 1 && run->options->sink == NULL ? ol_clean_start_writing(&copy, 0, error) : OL_OK;
    for (size_t i = first; i < first + count && status == OL_OK; i++) {
        *bad = i;
        copy.segment = &run->segments[i];
        status = copy_segment(&copy, error);
    }
    if (status == OL_OK && copy.cleaned != NULL) status = ol_clean_swap_in(&copy, error);
    ol_segment_rewrite_discard(copy.cleaned);
    free(copy.index);
    free(copy.aborted);
    return status;
}
