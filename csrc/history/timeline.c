/* Walks over the log, and skips records by the headers of batches and the first bytes of keys. */
#include "history/timeline.h"

#include <string.h>

#include "base/bytes.h"
#include "log/batch_walk.h"

typedef struct timeline {
    const ol_timeline_filter *filter;
    const ol_timeline_sink *sink;
    ol_timeline_facts *facts;
    const ol_decompressor *decompressor;
    int64_t from;
    int64_t until;
    int64_t expected;           /* the offset after the last one that exists; -1 after damage */
} timeline;

uint64_t ol_timeline_place(const ol_key *key) {
    uint64_t hash = ol_hash64(key->group.data, key->group.size, 0);
    hash = ol_hash64_mix(hash, ol_hash64(key->topic.data, key->topic.size, 1));
    return ol_hash64_mix(hash, (uint64_t)(uint32_t)key->partition + 1);
}

/* ------------------------------------------------------------------------------ missing offsets */

static void add_missing(timeline *work, int64_t from, int64_t to) {
    if (from < work->facts->first_missing) work->facts->first_missing = from;
    if (to > work->facts->missing_end) work->facts->missing_end = to;
}

/* The log continues at `base`: the offsets before it are missing. */
static void expect(timeline *work, int64_t base) {
    if (work->expected >= 0 && base > work->expected) add_missing(work, work->expected, base);
}

/* The header of magic 2 shows whether offsets are missing.  To find out which ones is not worth a
 * walk over the records. */
static void count_header(timeline *work, const ol_batch *batch) {
    expect(work, batch->base_offset);
    /* In a batch that begins below `from`, the missing offsets may be below `from`, too. */
    bool is_thinned = batch->base_offset >= work->from &&
                      batch->record_count <= batch->last_offset - batch->base_offset;
    if (is_thinned) add_missing(work, batch->base_offset, batch->last_offset + 1);
    work->expected = batch->last_offset + 1;
}

static void count_record(timeline *work, int64_t offset) {
    expect(work, offset);
    work->expected = offset + 1;
}

/* ------------------------------------------------------------------------------------ one batch */

/* Nearly every record is of another group, and the first bytes of its key show it. */
static bool may_match(const ol_timeline_filter *filter, const ol_record *record) {
    ol_slice key = record->key;
    if (filter->only_tombstones && record->value.data != NULL) return false;
    if (key.size < 4 || key.data[0] != 0 || key.data[1] > OL_KEY_OFFSET_COMMIT) return false;
    if (filter->group.data == NULL) return true;
    int16_t size = ol_load_i16(key.data + 2);
    return size >= 0 && (size_t)size == filter->group.size && key.size - 4 >= filter->group.size &&
           memcmp(key.data + 4, filter->group.data, filter->group.size) == 0;
}

static bool matches(const ol_timeline_filter *filter, const ol_key *key) {
    if (filter->topic.data != NULL &&
        (key->partition != filter->partition || !ol_slice_equal(key->topic, filter->topic))) {
        return false;
    }
    return filter->places == NULL || ol_int64_map_get(filter->places, ol_timeline_place(key)) != 0;
}

/* Checks the structure of all records (OL_CORRUPT), and counts those that may match; does not move
 * `records`. */
static int check_structure(timeline *work, const ol_batch *batch, const ol_records *records,
                           size_t *matching, ol_error *error) {
    ol_records walk = *records;     /* the same bytes, a cursor of its own */
    ol_record record;
    int status;
    *matching = 0;
    int64_t expected = work->expected;
    while ((status = ol_records_next(&walk, &record, error)) == OL_OK) {
        if (batch->magic < 2) count_record(work, record.offset);
        *matching += may_match(work->filter, &record);
    }
    if (status == OL_END) return OL_OK;
    work->expected = expected;
    return status;
}

static int report_data(timeline *work, const ol_batch *batch, ol_records *records,
                       ol_error *error) {
    ol_record record;
    ol_key key;
    ol_error refusal;
    int status;
    while ((status = ol_records_next(records, &record, error)) == OL_OK) {
        if (record.offset >= work->until) return OL_OK;
        if (record.offset < work->from || !may_match(work->filter, &record)) continue;
        if (ol_key_decode(record.key, &key, &refusal) != OL_OK) {
            work->facts->refused++;
            continue;
        }
        if (!matches(work->filter, &key)) continue;
        status = work->sink->record(work->sink->context, batch, &record, &key, error);
        if (status != OL_OK) return status;
    }
    return status == OL_END ? OL_OK : status;
}

static int report_control(timeline *work, const ol_batch *batch, ol_records *records,
                          ol_error *error) {
    ol_record record;
    int status;
    while ((status = ol_records_next(records, &record, error)) == OL_OK) {
        ol_control type;
        int32_t coordinator_epoch;
        ol_error damage;
        if (record.offset >= work->until) return OL_OK;
        if (record.offset < work->from) continue;
        if (ol_control_decode(&record, &type, &coordinator_epoch, &damage) != OL_OK) return OL_OK;
        status = work->sink->marker(work->sink->context, batch, &record, type, error);
        if (status != OL_OK) return status;
    }
    return status == OL_END ? OL_OK : status;
}

/* *damaged: the records cannot be read, and the sink got none of them. */
static int report_batch(timeline *work, const ol_batch *batch, bool *damaged, ol_error *error) {
    ol_records records;
    size_t matching = 0;
    int status = ol_records_open(&records, batch, work->decompressor, error);
    if (status == OL_OK) {
        status = check_structure(work, batch, &records, &matching, error);
        *damaged = status != OL_OK;
        if (status == OL_OK && work->sink != NULL) {
            if (ol_batch_is_control(batch)) {
                if (work->sink->marker != NULL) {
                    status = report_control(work, batch, &records, error);
                }
            } else if (matching > 0 && work->sink->record != NULL) {
                status = report_data(work, batch, &records, error);
            }
        }
        ol_records_close(&records);
        return *damaged ? OL_OK : status;
    }
    *damaged = !ol_state_is_no_damage(status);
    return *damaged ? OL_OK : status;
}

static int meet_batch(timeline *work, const ol_batch *batch, ol_error *error) {
    bool damaged = false;
    int status = OL_OK;
    work->facts->last_timestamp = batch->max_timestamp;
    if (batch->max_timestamp > work->facts->max_timestamp) {
        work->facts->max_timestamp = batch->max_timestamp;
    }
    if (batch->magic == 2) count_header(work, batch);
    if (work->sink != NULL || batch->magic < 2) status = report_batch(work, batch, &damaged, error);
    if (damaged) {
        work->facts->passed_over++;
        if (batch->magic < 2) work->expected = batch->last_offset + 1;
    }
    return status;
}

static const ol_timeline_filter everything;

int ol_timeline_walk(ol_partition *partition, int64_t from, int64_t until,
                     const ol_timeline_filter *filter, const ol_timeline_sink *sink,
                     ol_timeline_facts *facts, ol_error *error) {
    ol_batch_walk walk;
    ol_batch batch;
    ol_log *log = ol_partition_log(partition);
    int64_t start = ol_log_start(log);
    timeline work = {.filter = filter != NULL ? filter : &everything,
                     .sink = sink,
                     .facts = facts,
                     .decompressor = ol_partition_get_options(partition)->log.decompressor,
                     .until = until,
                     .from = from > start ? from : 0,
                     .expected = from > start ? from : 0};
    *facts = (ol_timeline_facts){
        .first_missing = INT64_MAX, .max_timestamp = -1, .last_timestamp = INT64_MIN};
    int status = ol_batch_walk_open(&walk, log, from > start ? from : start, until, sink != NULL,
                                    error);
    if (status != OL_OK) return status;
    int64_t passed_over = 0;
    while ((status = ol_batch_walk_next(&walk, &batch, error)) == OL_OK) {
        if (walk.passed_over > passed_over) {
            /* Offsets that damage took count as damage, not as missing. */
            facts->passed_over += walk.passed_over - passed_over;
            passed_over = walk.passed_over;
            work.expected = -1;
        }
        status = meet_batch(&work, &batch, error);
        if (status != OL_OK) break;
    }
    if (status == OL_END && walk.passed_over == passed_over) expect(&work, until);
    facts->passed_over += walk.passed_over - passed_over;
    ol_batch_walk_close(&walk);
    return status == OL_END ? OL_OK : status;
}

/* The header of a compressed set of magic 0 or 1 names its last offset only. */
static int64_t first_offset(const ol_partition *partition, const ol_batch *batch) {
    const ol_decompressor *decompressor =
        ol_partition_get_options(partition)->log.decompressor;
    ol_records records;
    ol_record record;
    ol_error ignored;
    int64_t first = batch->base_offset;
    if (batch->record_count >= 0) return first;
    if (ol_records_open(&records, batch, decompressor, &ignored) != OL_OK) return first;
    if (ol_records_next(&records, &record, &ignored) == OL_OK) first = record.offset;
    ol_records_close(&records);
    return first;
}

int ol_timeline_next_batch(ol_partition *partition, int64_t from, ol_timeline_batch *found,
                           ol_error *error) {
    ol_batch_walk walk;
    ol_batch batch;
    *found = (ol_timeline_batch){.first = -1, .next = -1, .timestamp = -1};
    ol_log *log = ol_partition_log(partition);
    int status = ol_batch_walk_open(&walk, log, from, INT64_MAX, true, error);
    if (status != OL_OK) return status;
    status = ol_batch_walk_next(&walk, &batch, error);
    if (status == OL_OK) {
        found->first = first_offset(partition, &batch);
        found->next = ol_batch_next_offset(&batch);
        found->timestamp = batch.max_timestamp;
    }
    ol_batch_walk_close(&walk);
    return status == OL_END ? OL_OK : status;
}
