/* Counts what a run decides. */
#include "cleaner/survey.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cleaner/cleaner_impl.h"
#include "format/record_put.h"
#include "log/batch_walk.h"

/* The facts of a record that are known before the size of its batch. */
typedef struct entry {
    uint32_t share;             /* index */
    uint32_t weight;            /* its encoded size */
    uint8_t outcome;            /* ol_clean_outcome */
    bool is_tombstone;
    bool is_live;
} entry;

typedef struct seen_record {
    ol_slice key;
    uint32_t weight;
    int64_t producer_id;        /* of the transaction that this value belongs to; -1: none */
} seen_record;

struct ol_clean_surveyor {
    ol_clean_survey *survey;
    seen_record rows[OL_CLEAN_ROWS];   /* parallel to the rows of the run; keys borrow as their
                                          names do */
    entry *entries;             /* decided, in the order of the log */
    size_t entry_count;
    size_t entry_capacity;
    size_t taken;               /* of the entries: their batches are counted */
    int64_t segment_base;       /* the segment counted last; -1 none */
};

/* ----------------------------------------------------------------------------------- the result */

void ol_clean_survey_free(ol_clean_survey *survey) {
    ol_string_dictionary_free(&survey->names);
    free(survey->shares);
    *survey = (ol_clean_survey){0};
}

static int make_room_for_shares(ol_clean_survey *survey, size_t count, ol_error *error) {
    if (count <= survey->share_capacity) return OL_OK;
    size_t capacity = count < 2 * survey->share_capacity ? 2 * survey->share_capacity : count;
    ol_clean_share *shares = realloc(survey->shares, capacity * sizeof *shares);
    if (shares == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory to count the records of %zu groups", count);
    }
    survey->shares = shares;
    survey->share_capacity = capacity;
    return OL_OK;
}

static int share_of(ol_clean_survey *survey, ol_slice group, uint32_t *share, ol_error *error) {
    int32_t number;
    *share = 0;
    if (group.data == NULL) return OL_OK;
    int status = ol_string_dictionary_number(&survey->names, group, &number, error);
    if (status != OL_OK) return status;
    size_t count = survey->names.count + 1;
    status = make_room_for_shares(survey, count, error);
    if (status != OL_OK) return status;
    for (; survey->share_count < count; survey->share_count++) {
        survey->shares[survey->share_count] = (ol_clean_share){0};
    }
    *share = (uint32_t)number + 1;
    return OL_OK;
}

/* ------------------------------------------------------------------------------------ a record */

static uint32_t weight_of(const ol_batch *batch, const ol_record *record) {
    uint64_t timestamp_delta = (uint64_t)record->timestamp - (uint64_t)batch->base_timestamp;
    size_t size = record->key.size + record->value.size + record->headers.size;
    if (OL_UNLIKELY(size > INT32_MAX / 2)) return INT32_MAX / 2;
    int64_t key = record->key.data == NULL ? -1 : (int64_t)record->key.size;
    int64_t value = record->value.data == NULL ? -1 : (int64_t)record->value.size;
    return (uint32_t)ol_record_size((int64_t)timestamp_delta,
                                    (int32_t)(record->offset - batch->base_offset), key, value,
                                    record->header_count,
                                    record->header_count > 0 ? record->headers.size : 0);
}

void ol_clean_survey_see(ol_clean_surveyor *surveyor, size_t row, const ol_batch *batch,
                         const ol_record *record) {
    surveyor->rows[row] = (seen_record){
        .key = record->key,
        .weight = weight_of(batch, record),
        .producer_id = ol_clean_is_pending(batch) ? batch->producer_id : -1,
    };
}

/* Returns whether the table, or the producer's open transaction, has exactly this value. */
static bool is_position(const ol_state *state, const ol_clean_row *row, const ol_clean_name *name,
                        int64_t producer_id) {
    ol_position_value value;
    ol_pair_name pair = ol_table_name(state->table, name->group,
                                      ol_table_group_hash(state->table, name->group), name->topic);
    if (ol_table_get(state->table, &pair, name->partition, &value) &&
        value.log_offset == row->offset) {
        return true;
    }
    return producer_id >= 0 &&
           ol_pending_get(state->pending, producer_id, &pair, name->partition, &value) &&
           value.log_offset == row->offset;
}

/* Returns whether the state has exactly this record. */
static bool is_in_state(const ol_state *state, const ol_clean_row *row, const ol_clean_name *name,
                        const seen_record *seen) {
    if (row->flags & OL_CLEAN_POSITION) return is_position(state, row, name, seen->producer_id);
    ol_group_record record;
    return ol_group_records_get(state->group_records, seen->key, &record) &&
           record.log_offset == row->offset;
}

/* The state keeps no record with an unknown key: such a record is live until it is superseded. */
static bool is_live(const ol_state *state, const ol_clean_rows *rows, size_t i,
                    const seen_record *seen, bool is_known) {
    const ol_clean_row *row = &rows->row[i];
    if (row->flags & (OL_CLEAN_TOMBSTONE | OL_CLEAN_KEYLESS)) return false;
    if (!is_known) return rows->outcome[i] <= OL_CLEAN_STAYS_AND_BEGINS;
    return is_in_state(state, row, &rows->name[i], seen);
}

static ol_slice group_of(const ol_clean_rows *rows, size_t i, ol_slice bytes, bool *is_known) {
    *is_known = true;
    if (rows->row[i].flags & OL_CLEAN_POSITION) return rows->name[i].group;
    ol_key key;
    ol_error ignored;
    *is_known = bytes.data != NULL && ol_key_decode(bytes, &key, &ignored) == OL_OK && key.known;
    return *is_known ? key.group : ol_slice_null();
}

static int make_room_for_entries(ol_clean_surveyor *surveyor, size_t count, ol_error *error) {
    size_t wanted = surveyor->entry_count + count;
    if (wanted <= surveyor->entry_capacity) return OL_OK;
    size_t capacity = wanted < 2 * surveyor->entry_capacity ? 2 * surveyor->entry_capacity : wanted;
    entry *entries = realloc(surveyor->entries, capacity * sizeof *entries);
    if (entries == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory to survey a batch of %zu records", wanted);
    }
    surveyor->entries = entries;
    surveyor->entry_capacity = capacity;
    return OL_OK;
}

static int add_entries(ol_clean_surveyor *surveyor, const ol_clean_rows *rows,
                       const ol_state *state, ol_error *error) {
    for (size_t i = 0; i < rows->count; i++) {
        const seen_record *seen = &surveyor->rows[i];
        entry *added = &surveyor->entries[surveyor->entry_count];
        bool is_known;
        ol_slice group = group_of(rows, i, seen->key, &is_known);
        int status = share_of(surveyor->survey, group, &added->share, error);
        if (status != OL_OK) return status;
        added->weight = seen->weight;
        added->outcome = rows->outcome[i];
        added->is_tombstone = rows->row[i].flags & OL_CLEAN_TOMBSTONE;
        added->is_live = is_live(state, rows, i, seen, is_known);
        surveyor->entry_count++;
    }
    return OL_OK;
}

int ol_clean_survey_rows(ol_clean_surveyor *surveyor, ol_partition *partition,
                         const ol_clean_rows *rows, ol_error *error) {
    const ol_state *state;
    int status = make_room_for_entries(surveyor, rows->count, error);
    if (status == OL_OK) status = ol_partition_lock_applied(partition, &state, error);
    if (status != OL_OK) return status;
    status = add_entries(surveyor, rows, state, error);
    ol_partition_unlock_state(partition);
    return status;
}

/* -------------------------------------------------------------------------------------- a batch */

static bool goes(const entry *one) { return one->outcome > OL_CLEAN_STAYS_AND_BEGINS; }

static void count_entry(ol_clean_share *share, const entry *one) {
    share->records++;
    share->live_records += one->is_live;
    switch ((ol_clean_outcome)one->outcome) {
        case OL_CLEAN_STAYS:
        case OL_CLEAN_STAYS_AND_BEGINS:
            share->tombstones += one->is_tombstone;
            return;
        case OL_CLEAN_SUPERSEDED:
            share->superseded++;
            return;
        case OL_CLEAN_TOMBSTONE_GOES:
            share->expired_tombstones++;
            return;
        case OL_CLEAN_ABORTED_GOES:
            share->aborted++;
            return;
        case OL_CLEAN_KEYLESS_GOES:
            share->keyless++;
            return;
    }
}

static void count_batch(ol_clean_surveyor *surveyor, const ol_batch *batch, int64_t segment_base) {
    surveyor->survey->batches++;
    if (segment_base != surveyor->segment_base) surveyor->survey->segments++;
    surveyor->segment_base = segment_base;
    OL_ASSERT(batch->size > 0);
}

/* The bytes that a batch frees are divided among its dropped records.  If none is dropped, the
 * bytes by which the batch grows are divided among all its records. */
static void count_entries(ol_clean_survey *survey, const ol_batch *batch, const entry *entries,
                          size_t count, int64_t bytes_after) {
    double weights = 0, going = 0;
    for (size_t i = 0; i < count; i++) {
        weights += entries[i].weight;
        if (goes(&entries[i])) going += entries[i].weight;
    }
    double freed = (double)((int64_t)batch->size - bytes_after);
    double header = batch->magic == 2 ? OL_BATCH_OVERHEAD : 0;
    for (size_t i = 0; i < count; i++) {
        const entry *one = &entries[i];
        ol_clean_share *share = &survey->shares[one->share];
        double bytes = ((double)batch->size - header) * one->weight / weights +
                       header / (double)count;
        count_entry(share, one);
        share->bytes += bytes;
        if (one->is_live) share->live_bytes += bytes;
        if (going == 0) share->freed_bytes += freed / (double)count;
        else if (goes(one)) share->freed_bytes += freed * one->weight / going;
    }
}

void ol_clean_survey_batch(ol_clean_surveyor *surveyor, const ol_batch *batch, int64_t segment_base,
                           size_t record_count, int64_t bytes_after, bool is_whole) {
    entry *entries = surveyor->entries + surveyor->taken;
    surveyor->taken += record_count;
    OL_ASSERT(surveyor->taken <= surveyor->entry_count);
    if (surveyor->taken == surveyor->entry_count) surveyor->taken = surveyor->entry_count = 0;
    if (record_count == 0) return;
    for (size_t i = 0; is_whole && i < record_count; i++) entries[i].outcome = OL_CLEAN_STAYS;
    count_batch(surveyor, batch, segment_base);
    count_entries(surveyor->survey, batch, entries, record_count, bytes_after);
}

void ol_clean_survey_markers(ol_clean_surveyor *surveyor, const ol_batch *batch,
                             int64_t segment_base, int32_t count, bool are_dropped,
                             int64_t bytes_after) {
    if (count <= 0) return;
    ol_clean_share *share = &surveyor->survey->shares[0];
    count_batch(surveyor, batch, segment_base);
    share->records += count;
    share->live_records += count;
    *(are_dropped ? &share->expired_markers : &share->markers) += count;
    share->bytes += (double)batch->size;
    share->live_bytes += (double)batch->size;
    share->freed_bytes += (double)((int64_t)batch->size - bytes_after);
}

/* -------------------------------------------------------------------- what a clean leaves alone */

static int flush_left(ol_clean_run *run, ol_error *error) {
    ol_clean_rows *rows = &run->rows;
    memset(rows->outcome, OL_CLEAN_STAYS, sizeof rows->outcome);
    int status = ol_clean_survey_rows(run->scope.surveyor, run->scope.partition, rows, error);
    rows->count = 0;
    return status;
}

static int survey_records(ol_clean_run *run, const ol_batch *batch, int64_t segment_base,
                          ol_error *error) {
    const ol_clean_verdict none = {0, 0};
    ol_clean_surveyor *surveyor = run->scope.surveyor;
    ol_records records;
    ol_record record;
    size_t count = 0;
    int status = ol_records_open(&records, batch, run->scope.log_options->decompressor, error);
    if (status != OL_OK) return status;
    while ((status = ol_records_next(&records, &record, error)) == OL_OK) {
        ol_clean_survey_see(surveyor, run->rows.count, batch, &record);
        (void)ol_clean_next_row(&run->rows, &run->scope, &run->pass, &record, batch->last_offset,
                                none);
        count++;
        if (++run->rows.count == OL_CLEAN_ROWS) status = flush_left(run, error);
        if (status != OL_OK) break;
    }
    int flushed = status == OL_END ? flush_left(run, error) : status;
    ol_records_close(&records);
    if (flushed == OL_OK) {
        ol_clean_survey_batch(surveyor, batch, segment_base, count, (int64_t)batch->size, false);
    }
    return flushed;
}

/* A batch whose records cannot be read is not counted, like one with a wrong checksum. */
static int survey_left(ol_clean_run *run, const ol_batch *batch, int64_t segment_base,
                       ol_error *error) {
    ol_clean_surveyor *surveyor = run->scope.surveyor;
    int status;
    if (ol_batch_is_control(batch)) {
        ol_control type;
        int32_t count;
        status = ol_clean_read_control(batch, &type, &count, error);
        if (status == OL_OK) {
            ol_clean_survey_markers(surveyor, batch, segment_base, count, false,
                                    (int64_t)batch->size);
        }
    } else {
        status = survey_records(run, batch, segment_base, error);
    }
    if (!ol_clean_is_damage(status)) return status;
    run->rows.count = surveyor->entry_count = surveyor->taken = 0;
    return OL_OK;
}

static int survey_segment(ol_clean_run *run, int64_t base, int64_t until, ol_error *error) {
    ol_batch_walk walk;
    ol_batch batch;
    int status = ol_batch_walk_open(&walk, run->scope.log, base, until, true, error);
    if (status != OL_OK) return status;
    while ((status = ol_batch_walk_next(&walk, &batch, error)) == OL_OK) {
        if (batch.base_offset < base) continue;
        status = survey_left(run, &batch, base, error);
        if (status == OL_OK) status = ol_clean_pace(&run->course, (int64_t)batch.size, 0);
        if (status != OL_OK) break;
    }
    ol_batch_walk_close(&walk);
    return status == OL_END && !run->course.has_ended ? OL_OK : status;
}

static bool is_quarantined(const ol_clean_segments *segments, int64_t base) {
    for (size_t i = 0; i < segments->damaged.count; i++) {
        if (segments->damaged.bases[i] == base) return true;
    }
    return false;
}

int ol_clean_survey_rest(ol_clean_run *run, ol_error *error) {
    const ol_clean_report *report = run->course.report;
    ol_log_segment_info info, next;
    bool there = ol_log_segment_at(run->scope.log, 0, &info);
    for (size_t i = 1; there && info.base_offset < report->log_end; i++) {
        there = ol_log_segment_at(run->scope.log, i, &next);
        int64_t until = there && next.base_offset < report->log_end ? next.base_offset
                                                                    : report->log_end;
        if (info.base_offset >= report->sink_end ||
            is_quarantined(&run->segments, info.base_offset)) {
            int status = survey_segment(run, info.base_offset, until, error);
            if (status != OL_OK) return status;
        }
        info = next;
    }
    return OL_OK;
}

/* ---------------------------------------------------------------------------------------- a run */

static int take_nothing(void *context, const ol_batch *batch, ol_error *error) {
    (void)context;
    (void)batch;
    (void)error;
    return OL_OK;
}

static int prepare(ol_clean_survey *survey, ol_error *error) {
    int status = make_room_for_shares(survey, 1, error);
    if (status != OL_OK) return status;
    survey->shares[0] = (ol_clean_share){0};
    survey->share_count = 1;
    /* Names come from clients. */
    ol_key_hasher secrets;
    ol_key_hasher_init(&secrets, 0);
    survey->names.seed = secrets.keys[0];
    return OL_OK;
}

int ol_cleaner_survey(ol_partition *partition, const ol_clean_options *options, bool closes_active,
                      ol_clean_survey *survey, ol_clean_report *report, ol_error *error) {
    ol_clean_survey_free(survey);
    memset(report, 0, sizeof *report);
    ol_clean_surveyor *surveyor = calloc(1, sizeof *surveyor);
    if (surveyor == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a survey");
    surveyor->survey = survey;
    surveyor->segment_base = -1;
    int status = prepare(survey, error);
    const ol_log *log = ol_partition_log(partition);
    const ol_clean_sink sink = {
        .take = take_nothing,
        .takes_active = closes_active && ol_log_first_unstable(log) >= ol_log_end(log),
    };
    ol_clean_options own = *options;
    own.first_dirty = -1;
    own.sink = &sink;
    own.raise_floor = NULL;
    if (status == OL_OK) {
        status = ol_clean_partition(partition, &own, surveyor, report, error);
    }
    free(surveyor->entries);
    free(surveyor);
    return status;
}
