/* Pass B divides the segments into groups, and makes of each group one segment without the dropped
 * records (docs/format/cleaner.md §8.3, §8.4). */
#include <stdlib.h>
#include <string.h>

#include "cleaner/cleaner_impl.h"

/* ----------------------------------------------------------------------------------------- data */

static int64_t count_bits(const uint64_t *words, size_t count) {
    int64_t bits = 0;
    for (size_t i = 0; i < count; i++) bits += __builtin_popcountll(words[i]);
    return bits;
}

/* Moves bits[from, from + count) to the front. */
static void take_bits(const uint64_t *bits, size_t from, size_t count, uint64_t *taken) {
    for (size_t i = 0; i * 64 < count; i++) {
        size_t word = from / 64 + i;
        uint64_t value = bits[word] >> (from % 64);
        if (from % 64 != 0 && word + 1 < OL_CLEAN_ROWS / 64) {
            value |= bits[word + 1] << (64 - from % 64);
        }
        size_t left = count - i * 64;
        taken[i] = left < 64 ? value & ((UINT64_C(1) << left) - 1) : value;
    }
}

static int retain_rows(ol_clean_run *run, uint64_t kept[OL_CLEAN_ROWS / 64],
                       uint64_t tombstones[OL_CLEAN_ROWS / 64], ol_error *error) {
    ol_clean_retain(run->scope.partition, &run->pass, run->transactions.fates.first_uncertain,
                    &run->rows, &run->course.report->records, kept, tombstones);
    if (OL_LIKELY(run->scope.surveyor == NULL)) return OL_OK;
    return ol_clean_survey_rows(run->scope.surveyor, run->scope.partition, &run->rows, error);
}

/* `sunk`: walk.bytes_sunk before the batch was put. */
static void survey_batch(ol_clean_copier *copy, const ol_batch *batch, size_t record_count,
                         int64_t sunk, bool is_whole) {
    ol_clean_run *run = copy->run;
    if (OL_LIKELY(run->scope.surveyor == NULL)) return;
    ol_clean_survey_batch(run->scope.surveyor, batch, copy->segment->base_offset, record_count,
                          run->walk.bytes_sunk - sunk, is_whole);
}

int ol_clean_flush_rows(ol_clean_copier *copy, ol_error *error) {
    ol_clean_run *run = copy->run;
    ol_clean_walk *walk = &run->walk;
    uint64_t kept[OL_CLEAN_ROWS / 64], tombstones[OL_CLEAN_ROWS / 64], words[OL_CLEAN_ROWS / 64];
    int status = retain_rows(run, kept, tombstones, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    size_t row = 0;
    for (size_t i = 0; i < walk->batch_count; i++) {
        const ol_batch *batch = &walk->batches[i];
        size_t count = walk->batch_rows[i];
        ol_clean_result result = OL_CLEAN_DROPPED;
        int64_t sunk = walk->bytes_sunk;
        if (OL_LIKELY(count == 1) && (kept[row / 64] & ~tombstones[row / 64]) >> (row % 64) & 1) {
            status = ol_clean_put_batch(copy, batch, OL_CLEAN_VERBATIM, error);
        } else {
            bool begins = false;
            ol_clean_choice choice = {.kept = words};
            take_bits(tombstones, row, count, words);
            for (size_t word = 0; word * 64 < count; word++) begins |= words[word] != 0;
            take_bits(kept, row, count, words);
            choice.kept_count = count_bits(words, (count + 63) / 64);
            status = ol_clean_finish_batch(copy, batch, (int64_t)count, &choice, begins, &result,
                                           error);
        }
        if (OL_UNLIKELY(status != OL_OK)) return status;
        survey_batch(copy, batch, count, sunk, result == OL_CLEAN_NOT_COMPRESSED);
        row += count;
    }
    run->rows.count = walk->batch_count = 0;
    return OL_OK;
}

static inline void add_row(ol_clean_copier *copy, const ol_batch *batch, const ol_record *record) {
    ol_clean_run *run = copy->run;
    ol_clean_row *row = ol_clean_next_row(&run->rows, &run->scope, &run->pass, record,
                                          batch->last_offset, copy->verdict);
    if (OL_UNLIKELY(run->scope.surveyor != NULL)) {
        ol_clean_survey_see(run->scope.surveyor, run->rows.count, batch, record);
    }
    ol_key_map_prefetch(&run->pass.map, row->key);
    run->rows.count++;
}

/* Adds a batch whose records fit the rows together with those of other batches. */
static int add_short(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_walk *walk = &copy->run->walk;
    const ol_clean_rows *rows = &copy->run->rows;
    if (OL_UNLIKELY((size_t)batch->record_count > OL_CLEAN_ROWS - rows->count ||
                    walk->batch_count == OL_CLEAN_ROWS)) {
        int status = ol_clean_flush_rows(copy, error);
        if (status != OL_OK) return status;
    }
    ol_records records;
    ol_record record;
    size_t before = rows->count;
    if (OL_LIKELY(ol_records_sole(batch, &record))) {
        add_row(copy, batch, &record);
    } else {
        int status = ol_records_open(&records, batch, NULL, error);
        if (OL_UNLIKELY(status != OL_OK)) return status;
        while (OL_LIKELY((status = ol_records_next(&records, &record, error)) == OL_OK)) {
            add_row(copy, batch, &record);
        }
        ol_records_close(&records);
        if (OL_UNLIKELY(status != OL_END)) return status;
    }
    walk->batches[walk->batch_count] = *batch;
    walk->batch_rows[walk->batch_count++] = (uint16_t)(rows->count - before);
    return OL_OK;
}

static int make_room_for_bits(ol_clean_walk *walk, size_t words, ol_error *error) {
    if (words <= walk->kept_capacity) return OL_OK;
    size_t capacity = words < 2 * walk->kept_capacity ? 2 * walk->kept_capacity : words;
    uint64_t *kept = realloc(walk->kept, capacity * sizeof *kept);
    if (kept == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory to clean a batch of %zu records",
                       words * 64);
    }
    walk->kept = kept;
    walk->kept_capacity = capacity;
    return OL_OK;
}

/* Decides a batch that is compressed, or has more records than there are rows, by itself, some rows
 * at a time. */
static int decide_alone(ol_clean_copier *copy, const ol_batch *batch, int64_t *record_count,
                        bool *begins, ol_error *error) {
    ol_clean_run *run = copy->run;
    uint64_t tombstones[OL_CLEAN_ROWS / 64];
    ol_records records;
    ol_record record;
    int status = ol_records_open(&records, batch, run->scope.log_options->decompressor, error);
    if (status != OL_OK) return status;
    size_t words = 0;
    for (;;) {
        status = ol_records_next(&records, &record, error);
        if (status == OL_OK) add_row(copy, batch, &record);
        if (status == OL_OK && run->rows.count < OL_CLEAN_ROWS) continue;
        if (status != OL_OK && status != OL_END) break;
        int room = make_room_for_bits(&run->walk, words + OL_CLEAN_ROWS / 64, error);
        if (room != OL_OK) {
            status = room;
            break;
        }
        int retained = retain_rows(run, run->walk.kept + words, tombstones, error);
        if (OL_UNLIKELY(retained != OL_OK)) {
            status = retained;
            break;
        }
        for (size_t i = 0; i < OL_CLEAN_ROWS / 64; i++) *begins |= tombstones[i] != 0;
        *record_count += (int64_t)run->rows.count;
        words += OL_CLEAN_ROWS / 64;
        run->rows.count = 0;
        if (status == OL_END) break;
    }
    run->rows.count = 0;
    ol_records_close(&records);
    return status == OL_END ? OL_OK : status;
}

static ol_clean_verdict judge_batch(ol_clean_copier *copy, const ol_batch *batch) {
    ol_clean_run *run = copy->run;
    return ol_clean_judge_batch(&run->scope, &run->transactions, &run->segments, copy->segment,
                                batch);
}

static int add_alone(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    ol_clean_report *report = run->course.report;
    int status = ol_clean_flush_rows(copy, error);
    if (status != OL_OK) return status;
    copy->verdict = judge_batch(copy, batch);
    ol_clean_counts before = report->records;
    int64_t record_count = 0;
    bool begins = false;
    status = decide_alone(copy, batch, &record_count, &begins, error);
    if (status != OL_OK) return status;
    ol_clean_choice choice = {.kept = run->walk.kept};
    choice.kept_count = report->records.kept - before.kept;
    ol_clean_result result = OL_CLEAN_VERBATIM;
    int64_t sunk = run->walk.bytes_sunk;
    status = ol_clean_finish_batch(copy, batch, record_count, &choice, begins, &result, error);
    if (status != OL_OK) return status;
    survey_batch(copy, batch, (size_t)record_count, sunk, result == OL_CLEAN_NOT_COMPRESSED);
    if (result != OL_CLEAN_NOT_COMPRESSED) return OL_OK;
    /* The whole batch stays after all, so tombstones for records in it must stay, too. */
    report->records = before;
    report->records.read += record_count;
    report->records.kept += record_count;
    report->batches_not_compressed++;
    if (choice.kept_count < record_count) {
        ol_clean_block_tombstones(&run->segments, batch->base_offset);
    }
    return OL_OK;
}

/* ------------------------------------------------------------------------------------- segments */

/* Counts the skipped batches, which pass A has found superseded, as batches that this pass has
 * dropped. */
static int drop_gone(ol_clean_copier *copy, ol_error *error) {
    ol_clean_run *run = copy->run;
    int64_t bytes, position = copy->source.piece.position + (int64_t)copy->source.position;
    int64_t count = ol_clean_source_skip_gone(&copy->source, &run->pass.superseded, &bytes);
    if (count == 0) return OL_OK;
    ol_clean_report *report = run->course.report;
    report->batches += count;
    report->records.read += count;
    report->records.superseded += count;
    run->walk.bytes_taken += bytes;
    if (OL_LIKELY(copy->cleaned != NULL || run->scope.options.sink != NULL)) return OL_OK;
    /* This is the first difference; the rows collected so far come before it. */
    int status = ol_clean_flush_rows(copy, error);
    return status == OL_OK && copy->cleaned == NULL ? ol_clean_start_writing(copy, position, error)
                                                    : status;
}

static int add_batch(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) {
    ol_clean_run *run = copy->run;
    run->course.report->batches++;
    run->walk.bytes_taken += (int64_t)batch->size;
    int status = ol_clean_source_check(&copy->source, batch, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    if (OL_UNLIKELY(ol_batch_is_control(batch))) return ol_clean_add_control(copy, batch, error);
    if (OL_UNLIKELY(ol_clean_is_pending(batch))) {
        status = ol_clean_open_add(&run->walk.open, batch->producer_id, batch->base_offset, error);
        if (status != OL_OK) return status;
    }
    if (OL_UNLIKELY(ol_batch_codec(batch) != OL_CODEC_NONE ||
                    batch->record_count > OL_CLEAN_ROWS)) {
        return add_alone(copy, batch, error);
    }
    copy->verdict = judge_batch(copy, batch);
    return add_short(copy, batch, error);
}

static int pace(ol_clean_copier *copy, int64_t records) {
    ol_clean_course *course = &copy->run->course;
    ol_clean_progress *progress = course->scope->options.progress;
    int64_t written = copy->unpaced;
    copy->unpaced = 0;
    if (progress != NULL) progress->records_read += records;
    return ol_clean_pace(course, 0, written);
}

static int copy_segment(ol_clean_copier *copy, ol_error *error) {
    ol_clean_run *run = copy->run;
    const ol_clean_counts *counted = &run->course.report->records;
    bool done = false;
    int status = ol_clean_source_open(&copy->source, &run->course, copy->segment,
                                      copy->segment->base_offset, error);
    while (status == OL_OK) {
        ol_batch batch;
        int64_t records = counted->read;
        status = ol_clean_source_next_piece(&copy->source, &done, error);
        if (status != OL_OK || done) break;
        for (;;) {
            status = drop_gone(copy, error);
            if (OL_UNLIKELY(status != OL_OK)) break;
            copy->next_offset = copy->source.bounds.next_offset;
            status = ol_clean_source_next_unchecked(&copy->source, &batch, &done, error);
            if (OL_UNLIKELY(status != OL_OK || done)) break;
            status = add_batch(copy, &batch, error);
            if (OL_UNLIKELY(status != OL_OK)) {
                if (ol_clean_is_damage(status)) ol_clean_source_blame(&copy->source, &batch, error);
                break;
            }
        }
        /* The rows borrow from the piece. */
        if (status == OL_OK) status = ol_clean_flush_rows(copy, error);
        if (status == OL_OK) status = pace(copy, counted->read - records);
    }
    if (status == OL_OK) status = ol_clean_source_check_tally(&copy->source, error);
    run->rows.count = run->walk.batch_count = 0;
    ol_clean_source_close(&copy->source);
    return status;
}

/* Copies segments [first, first + count) into one, without the dropped records, and swaps it in.
 * After a failure *bad is the index of the segment that failed. */
static int copy_group(ol_clean_run *run, size_t first, size_t count, size_t *bad, ol_error *error) {
    ol_clean_copier copy = {.run = run, .first = first, .count = count};
    int status = count > 1 && run->scope.options.sink == NULL
                     ? ol_clean_start_writing(&copy, 0, error)
                     : OL_OK;
    for (size_t i = first; i < first + count && status == OL_OK; i++) {
        *bad = i;
        copy.segment = &run->segments.items[i];
        status = copy_segment(&copy, error);
    }
    if (status == OL_OK && copy.cleaned != NULL) status = ol_clean_swap_in(&copy, error);
    ol_segment_rewrite_discard(copy.cleaned);
    ol_clean_markers_free(&copy.markers);
    return status;
}

/* --------------------------------------------------------------------------------------- groups */

/* The state from which a group is begun again. */
typedef struct saved {
    ol_clean_open open;
    ol_clean_report report;
} saved;

/* Returns how many segments from `first` on make one group. */
static size_t group_size(const ol_clean_run *run, size_t first) {
    const ol_log_config *config = &run->scope.log_options->config;
    const ol_clean_segment *items = run->segments.items;
    int64_t size = 0, index_size = 0, time_index_size = 0;
    size_t count = 0;
    for (size_t i = first; i < run->segments.count; i++, count++) {
        const ol_clean_segment *segment = &items[i];
        ol_log_segment_files files;
        ol_error ignored;
        if (segment->quarantined || segment->base_offset >= run->pass.end) break;
        int status = ol_log_segment_files_at(run->scope.log, segment->base_offset, &files,
                                             &ignored);
        if (status != OL_OK) break;
        size += segment->size;
        index_size += files.index_size;
        time_index_size += files.time_index_size;
        if (count == 0) continue;
        if (size > config->segment_bytes || index_size > config->segment_index_bytes ||
            time_index_size > config->segment_index_bytes) {
            break;
        }
        if (segment->size > 0 &&
            segment->next_base - 1 > ol_segment_offset_max(items[first].base_offset)) {
            break;
        }
    }
    return count == 0 ? 1 : count;
}

static int save(const ol_clean_report *report, const ol_clean_open *open, saved *before,
                ol_error *error) {
    before->report = *report;
    return ol_clean_open_copy(&before->open, open, error);
}

/* Restores the open transactions and the report, except its counts of moved bytes.  The quarantine
 * stays. */
static int restore(ol_clean_report *report, ol_clean_open *open, const saved *before,
                   ol_error *error) {
    ol_clean_report now = *report;
    *report = before->report;
    report->bytes_read = now.bytes_read;
    report->bytes_written = now.bytes_written;
    return ol_clean_open_copy(open, &before->open, error);
}

/* Returns whether a status concerns only one group, so that the run continues. */
static bool concerns_group(int status) {
    return ol_clean_is_damage(status) || status == OL_TOO_LARGE || status == OL_INVALID;
}

/* Pass A found the whole segment valid: if bytes are bad now, they have changed. */
static int blame_change(int status, ol_error *error) {
    if (ol_clean_is_damage(status)) status = error->status = OL_CHANGED;
    return status;
}

/* Cleans one group, or as many of its segments as possible.  *count becomes the number of segments
 * that are done; 0: a segment was quarantined, and the caller tries again. */
static int clean_group(ol_clean_run *run, size_t first, size_t *count, saved *before,
                       ol_error *error) {
    ol_clean_report *report = run->course.report;
    size_t bad = first;
    int status = save(report, &run->walk.open, before, error);
    if (status != OL_OK) return status;
    status = copy_group(run, first, *count, &bad, error);
    if (OL_LIKELY(!concerns_group(status))) return status;
    /* The counts of a survey cannot be undone. */
    if (run->scope.surveyor != NULL) return blame_change(status, error);
    ol_error damage = *error;
    int restored = restore(report, &run->walk.open, before, error);
    if (restored != OL_OK) return restored;
    if (!ol_clean_is_damage(status) && *count > 1) {
        /* The segments do not fit one after all, or have changed since: each is now cleaned by
         * itself. */
        *count = 1;
        return clean_group(run, first, count, before, error);
    }
    *count = 0;
    return ol_clean_quarantine_segment(&run->course, &run->segments, &run->segments.items[bad],
                                       &damage, error);
}

int ol_clean_copy_segments(ol_clean_run *run, ol_error *error) {
    const ol_clean_segments *segments = &run->segments;
    saved before = {.open = {0}};
    int status = OL_OK;
    ol_clean_open_clear(&run->walk.open);
    for (size_t i = 0; i < segments->count && status == OL_OK;) {
        const ol_clean_segment *segment = &segments->items[i];
        if (segment->base_offset >= run->pass.end) break;
        run->course.report->sink_end = segment->next_base;
        if (segment->quarantined) {
            i++;
            continue;
        }
        size_t count = run->scope.options.sink == NULL ? group_size(run, i) : 1;
        status = clean_group(run, i, &count, &before, error);
        i += count;
    }
    ol_clean_open_free(&before.open);
    return status;
}
