/* Pass B: a group of segments becomes one segment without what goes (spec §8.3 to §8.5).
 *
 * A lone segment of which nothing goes is left as it is: nothing is written until the first difference, then what was passed is copied. */
#include <stdlib.h>
#include <string.h>

#include "ol_clean_internal.h"

typedef struct copier {
    ol_clean_run *run;
    size_t first;               /* of run->segments */
    size_t count;
    ol_clean_segment *segment;  /* the current one */
    ol_clean_source source;
    ol_cleaned *cleaned;        /* NULL: nothing differs yet */
    int64_t next_offset;        /* behind the batch before the current one, or the base of the group */
    int64_t unpaced;            /* bytes written that the pace was not told of */
    size_t row_count;           /* waiting in run->rows */
    size_t batch_count;         /* whose rows they are */
    ol_clean_verdict verdict;   /* of the batch that is being added */
    bool index_read;
    ol_aborted_transaction *index;          /* what the .txnindex files say of markers in the group */
    size_t index_count;
    size_t index_capacity;
    ol_aborted_transaction *aborted;        /* of the markers that stay */
    size_t aborted_count;
    size_t aborted_capacity;
} copier;

/* ------------------------------------------------------------------------------------------------ writing */

static int append(copier *copy, const uint8_t *data, size_t size, int64_t base_offset, int64_t last_offset,
                  int64_t max_timestamp, ol_error *error) {
    copy->unpaced += (int64_t)size;
    return ol_cleaned_append(copy->cleaned, data, size, base_offset, last_offset, max_timestamp, error);
}

static int append_batch(copier *copy, const ol_batch *batch, ol_error *error) {
    const ol_clean_sink *sink = copy->run->options->sink;
    if (OL_UNLIKELY(sink != NULL)) {
        copy->run->told_bytes += (int64_t)batch->size;
        return sink->take(sink->context, batch, error);
    }
    return append(copy, batch->data, batch->size, batch->base_offset, batch->last_offset, batch->max_timestamp, error);
}

/* Everything of the lone segment before `position`, checked once more. */
static int copy_prefix(copier *copy, int64_t position, ol_error *error) {
    ol_clean_source source;
    bool done = false;
    int status = ol_clean_source_open(&source, copy->run, copy->segment, copy->segment->base_offset, error);
    while (status == OL_OK && !done) {
        ol_batch batch;
        status = ol_clean_source_next_piece(&source, &done, error);
        if (status != OL_OK || done) break;
        for (;;) {
            bool behind = false;
            status = ol_clean_source_next_batch(&source, &batch, &behind, error);
            if (status != OL_OK || behind) break;
            done = source.piece.position + (batch.data - source.piece.data) >= position;
            if (done) break;
            status = append_batch(copy, &batch, error);
            if (status != OL_OK) break;
        }
    }
    ol_clean_source_close(&source);
    return status;
}

/* From here on everything is written.  `position`: of the first difference in the current segment. */
static int start_writing(copier *copy, int64_t position, ol_error *error) {
    ol_clean_run *run = copy->run;
    int status = ol_cleaned_start(run->log, run->segments[copy->first].base_offset, run->cuts, &copy->cleaned, error);
    if (status != OL_OK || position == 0) return status;
    OL_ASSERT(copy->count == 1);
    return copy_prefix(copy, position, error);
}

/* The output is one batch of magic 2, or messages. */
static int append_output(copier *copy, const ol_clean_output *output, ol_error *error) {
    for (size_t at = 0; at < output->size;) {
        ol_batch batch;
        int status = ol_batch_parse(output->data + at, output->size - at, &batch, error);
        OL_ASSERT(status == OL_OK);     /* we wrote it */
        status = append_batch(copy, &batch, error);
        if (status != OL_OK) return status;
        at += batch.size;
    }
    return OL_OK;
}

/* Writes a batch as it was decided. */
static int put_batch(copier *copy, const ol_batch *batch, ol_clean_result result, ol_error *error) {
    bool whole = result == OL_CLEAN_VERBATIM || result == OL_CLEAN_NOT_COMPRESSED;
    if (copy->cleaned == NULL && copy->run->options->sink == NULL) {
        if (whole) return OL_OK;
        int64_t position = copy->source.piece.position + (batch->data - copy->source.piece.data);
        int status = start_writing(copy, position, error);
        if (status != OL_OK) return status;
    }
    if (whole) return append_batch(copy, batch, error);
    if (result == OL_CLEAN_DROPPED) return OL_OK;
    copy->run->report->batches_rebuilt++;
    return append_output(copy, &copy->run->output, error);
}

/* ------------------------------------------------------------------------------------------------ deciding about batches */

static int64_t new_horizon(const ol_clean_run *run) {
    const ol_clean_options *options = run->options;
    int64_t horizon;
    return __builtin_add_overflow(options->now_ms, options->delete_retention_ms, &horizon) ? INT64_MAX : horizon;
}

/* The newest batch of a producer that may go on carries its sequence and epoch (spec §8.3). */
static bool is_last_of_producer(const ol_clean_run *run, const ol_batch *batch) {
    size_t low = 0, high = run->producer_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (run->producers[middle].producer_id < batch->producer_id) low = middle + 1;
        else high = middle;
    }
    if (low == run->producer_count || run->producers[low].producer_id != batch->producer_id) return false;
    const ol_log_producer_state *state = &run->producers[low];
    if (state->last_offset >= 0) return state->last_offset == batch->last_offset;
    return ol_batch_is_control(batch) && state->epoch == batch->producer_epoch;
}

static bool retains_empty(const ol_clean_run *run, const ol_batch *batch) {
    if (batch->last_offset + 1 == run->target) return true;
    return batch->producer_id >= 0 && is_last_of_producer(run, batch);
}

static int finish_batch(copier *copy, const ol_batch *batch, int64_t record_count, ol_clean_choice *choice, bool begins_horizon,
                        ol_clean_result *result, ol_error *error) {
    ol_clean_run *run = copy->run;
    choice->retain_empty = choice->kept_count == 0 && retains_empty(run, batch);
    choice->new_horizon = begins_horizon && batch->magic == 2 && !ol_batch_has_horizon(batch) ? new_horizon(run) : -1;
    int status = ol_clean_batch_apply(batch, record_count, choice, run->decompressor, run->options->compressor, &run->output,
                                      result, error);
    if (status != OL_OK) return status;
    /* A wrapper says only where it ends: its first message may lie below the segment that a roll began with it. */
    bool unpacked = *result == OL_CLEAN_REBUILT && batch->magic < 2;
    if (unpacked && ol_load_i64(run->output.data) < copy->next_offset) *result = OL_CLEAN_NOT_COMPRESSED;
    return put_batch(copy, batch, *result, error);
}

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
static int flush_rows(copier *copy, ol_error *error) {
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
            status = put_batch(copy, batch, OL_CLEAN_VERBATIM, error);
        } else {
            bool begins = false;
            ol_clean_choice choice = {.kept = words};
            take_bits(tombstones, row, count, words);
            for (size_t word = 0; word * 64 < count; word++) begins |= words[word] != 0;
            take_bits(kept, row, count, words);
            choice.kept_count = count_bits(words, (count + 63) / 64);
            status = finish_batch(copy, batch, (int64_t)count, &choice, begins, &result, error);
        }
        if (OL_UNLIKELY(status != OL_OK)) return status;
        row += count;
    }
    copy->row_count = copy->batch_count = 0;
    return OL_OK;
}

static inline void add_row(copier *copy, const ol_record *record, int64_t last_offset) {
    ol_clean_run *run = copy->run;
    ol_clean_row *row = &run->rows[copy->row_count];
    ol_clean_see(&run->hasher, run->options, record, last_offset, row, &run->names[copy->row_count]);
    ol_clean_mark_row(row, copy->verdict);
    ol_key_map_prefetch(&run->map, row->key);
    copy->row_count++;
}

/* A batch whose records fit the rows beside others. */
static int add_short(copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    if (OL_UNLIKELY((size_t)batch->record_count > OL_CLEAN_ROWS - copy->row_count || copy->batch_count == OL_CLEAN_ROWS)) {
        int status = flush_rows(copy, error);
        if (status != OL_OK) return status;
    }
    ol_records records;
    ol_record record;
    size_t before = copy->row_count;
    int status = ol_records_open(&records, batch, NULL, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    while (OL_LIKELY((status = ol_records_next(&records, &record, error)) == OL_OK)) {
        add_row(copy, &record, batch->last_offset);
    }
    ol_records_close(&records);
    if (OL_UNLIKELY(status != OL_END)) return status;
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
static int decide_alone(copier *copy, const ol_batch *batch, int64_t *record_count, bool *begins, ol_error *error) {
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

static int add_alone(copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    int status = flush_rows(copy, error);
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
    status = finish_batch(copy, batch, record_count, &choice, begins, &result, error);
    if (status != OL_OK || result != OL_CLEAN_NOT_COMPRESSED) return status;
    /* All of it stays after all, and what deletes something in it has to stay as well. */
    run->report->records = before;
    run->report->records.read += record_count;
    run->report->records.kept += record_count;
    run->report->batches_not_compressed++;
    if (choice.kept_count < record_count && batch->base_offset < run->tombstone_block) run->tombstone_block = batch->base_offset;
    return OL_OK;
}

/* ------------------------------------------------------------------------------------------------ markers */

static int add_transaction(ol_aborted_transaction **list, size_t *count, size_t *capacity, const ol_aborted_transaction *entry,
                           ol_error *error) {
    if (*count == *capacity) {
        size_t grown = *capacity == 0 ? 16 : *capacity * 2;
        ol_aborted_transaction *entries = realloc(*list, grown * sizeof *entries);
        if (entries == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for %zu aborted transactions", grown);
        *list = entries;
        *capacity = grown;
    }
    (*list)[(*count)++] = *entry;
    return OL_OK;
}

static int visit_index(void *context, const ol_aborted_transaction *entry) {
    copier *copy = context;
    ol_error ignored;
    return add_transaction(&copy->index, &copy->index_count, &copy->index_capacity, entry, &ignored);
}

/* What the index says of this marker, or, where it says nothing, what the log does. */
static int keep_aborted(copier *copy, const ol_batch *marker, int64_t first_offset, ol_error *error) {
    ol_clean_run *run = copy->run;
    if (!copy->index_read) {
        ol_error ignored;
        const ol_clean_segment *last = &run->segments[copy->first + copy->count - 1];
        copy->index_read = true;
        (void)!ol_log_collect_aborted(run->log, run->segments[copy->first].base_offset, last->next_base, visit_index, copy, &ignored);
    }
    ol_aborted_transaction entry = {
        .producer_id = marker->producer_id,
        .first_offset = first_offset,
        .last_offset = marker->last_offset,
        .last_stable_offset = ol_clean_open_lowest(&run->open, marker->last_offset + 1),
    };
    for (size_t i = 0; i < copy->index_count; i++) {
        const ol_aborted_transaction *known = &copy->index[i];
        if (known->last_offset != entry.last_offset || known->producer_id != entry.producer_id) continue;
        if (known->first_offset <= known->last_offset) entry = *known;
        break;
    }
    if (entry.first_offset < 0) return OL_OK;
    return add_transaction(&copy->aborted, &copy->aborted_count, &copy->aborted_capacity, &entry, error);
}

/* A marker goes, after its time, once nothing is left of its transaction (spec §8.5). */
static int add_control(copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    ol_control type;
    int32_t count;
    int status = flush_rows(copy, error);
    if (status == OL_OK) status = ol_clean_read_control(batch, &type, &count, error);
    if (status != OL_OK) return status;
    bool blocked = batch->base_offset >= run->marker_block;
    bool ends = count > 0 && type != OL_CONTROL_OTHER;
    ol_clean_open_entry *seen = ends ? ol_clean_open_find(&run->open, batch->producer_id) : NULL;
    int64_t first_offset = seen != NULL ? seen->first_offset : -1;
    if (seen != NULL) ol_clean_open_remove(&run->open, seen);
    bool discardable = seen == NULL && !blocked && ends && count == 1;
    bool goes = discardable && ol_batch_has_horizon(batch) && batch->base_timestamp <= run->options->now_ms;
    if (!discardable && ends && type == OL_CONTROL_ABORT) status = keep_aborted(copy, batch, first_offset, error);
    if (status != OL_OK) return status;
    uint64_t all = goes ? 0 : UINT64_MAX;
    ol_clean_choice choice = {.kept = &all, .kept_count = goes ? 0 : count};
    ol_clean_result result = OL_CLEAN_VERBATIM;
    if (count > 64) return put_batch(copy, batch, result, error);
    status = finish_batch(copy, batch, count, &choice, discardable && !goes, &result, error);
    if (goes) run->report->markers_dropped++;
    return status;
}

/* ------------------------------------------------------------------------------------------------ segments */

static int add_batch(copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    run->report->batches++;
    run->taken_bytes += (int64_t)batch->size;
    if (OL_UNLIKELY(ol_batch_is_control(batch))) return add_control(copy, batch, error);
    if (OL_UNLIKELY(ol_clean_is_pending(batch))) {
        int status = ol_clean_open_add(&run->open, batch->producer_id, batch->base_offset, error);
        if (status != OL_OK) return status;
    }
    if (OL_UNLIKELY(ol_batch_codec(batch) != OL_CODEC_NONE || batch->record_count > OL_CLEAN_ROWS)) {
        return add_alone(copy, batch, error);
    }
    copy->verdict = ol_clean_judge_batch(run, copy->segment, batch);
    return add_short(copy, batch, error);
}

static int tell_pace(copier *copy, int64_t records) {
    ol_clean_run *run = copy->run;
    int64_t written = copy->unpaced;
    copy->unpaced = 0;
    if (run->options->progress != NULL) run->options->progress->records_read += records;
    return ol_clean_pace(run, 0, written);
}

static int copy_segment(copier *copy, ol_error *error) {
    bool done = false;
    int status = ol_clean_source_open(&copy->source, copy->run, copy->segment, copy->segment->base_offset, error);
    while (status == OL_OK) {
        ol_batch batch;
        int64_t records = copy->run->report->records.read;
        status = ol_clean_source_next_piece(&copy->source, &done, error);
        if (status != OL_OK || done) break;
        for (;;) {
            copy->next_offset = copy->source.next_offset;
            status = ol_clean_source_next_batch(&copy->source, &batch, &done, error);
            if (OL_UNLIKELY(status != OL_OK || done)) break;
            status = add_batch(copy, &batch, error);
            if (OL_UNLIKELY(status != OL_OK)) {
                if (ol_clean_is_damage(status)) ol_clean_source_blame(&copy->source, &batch, error);
                break;
            }
        }
        if (status == OL_OK) status = flush_rows(copy, error);      /* they borrow from the piece */
        if (status == OL_OK) status = tell_pace(copy, copy->run->report->records.read - records);
    }
    copy->row_count = copy->batch_count = 0;
    ol_clean_source_close(&copy->source);
    return status;
}

/* ------------------------------------------------------------------------------------------------ groups */

/* A pass may end within a batch, or between a value that supersedes and the marker from which on it counts; a run does not. */
static int raise_floor(ol_clean_run *run, ol_error *error) {
    if (run->floor_raised) return OL_OK;
    const ol_clean_options *options = run->options;
    int64_t floor = run->target;
    int status = options->raise_floor == NULL ? OL_OK : options->raise_floor(options->raise_floor_context, floor, error);
    if (status != OL_OK) return status;
    run->floor_raised = true;
    if (floor > run->report->floor) run->report->floor = floor;
    return OL_OK;
}

static int swap_in(copier *copy, ol_error *error) {
    ol_clean_run *run = copy->run;
    ol_cleaned *cleaned = copy->cleaned;
    int status = OL_OK;
    for (size_t i = 0; i < copy->aborted_count && status == OL_OK; i++) {
        status = ol_cleaned_append_aborted(cleaned, &copy->aborted[i], error);
    }
    if (status == OL_OK) status = raise_floor(run, error);
    int64_t *bases = status == OL_OK ? malloc(copy->count * sizeof *bases) : NULL;
    if (status == OL_OK && bases == NULL) status = ol_fail(error, OL_NO_MEMORY, "no memory for %zu bases", copy->count);
    if (status != OL_OK) return status;
    for (size_t i = 0; i < copy->count; i++) bases[i] = run->segments[copy->first + i].base_offset;
    copy->cleaned = NULL;
    status = ol_cleaned_swap(cleaned, bases, copy->count, error);
    free(bases);
    if (status == OL_OK && run->options->progress != NULL) run->options->progress->segments_after++;
    if (status != OL_WOULD_BLOCK) return status;
    /* The log was cut, or rolled since the flush: another run will find it as it is. */
    run->report->truncated = ol_log_cuts(run->log) != run->cuts;
    run->ended = true;
    return OL_END;
}

int ol_clean_copy_group(ol_clean_run *run, size_t first, size_t count, size_t *bad, ol_error *error) {
    copier copy = {.run = run, .first = first, .count = count};
    int status = count > 1 && run->options->sink == NULL ? start_writing(&copy, 0, error) : OL_OK;
    for (size_t i = first; i < first + count && status == OL_OK; i++) {
        *bad = i;
        copy.segment = &run->segments[i];
        status = copy_segment(&copy, error);
    }
    if (status == OL_OK && copy.cleaned != NULL) status = swap_in(&copy, error);
    ol_cleaned_discard(copy.cleaned);
    free(copy.index);
    free(copy.aborted);
    return status;
}
