/* Recognises the log of a snapshot by the last batches below S, its witnesses.
 *
 * A batch is identified by its CRC and by its base and last offset, leader epoch and producer.  A
 * cleaner does not change the offsets, the epoch and the producer, but it may drop some records of
 * the batch, set a delete horizon, or drop the whole batch.  If a cleaner has done one of these to
 * the last witness, the newest positions of the state must still be in the log, because a clean of
 * the log below S keeps them.
 */
#include <string.h>

#include "format/offset_record.h"
#include "log/batch_walk.h"
#include "snapshot/snapshot_impl.h"

enum {
    NEWEST_POSITIONS = 8,
    FIRST_STEP = 2 * OL_SNAPSHOT_WITNESSES, /* offsets, back from the end of the log, */
    NEXT_STEP = 8,                          /* and the factor for the next try */
};

void ol_snapshot_record_witness(ol_snapshot *snapshot, const ol_batch *batch) {
    snapshot->witnesses[snapshot->batches_seen++ % OL_SNAPSHOT_WITNESSES] = (ol_snapshot_witness){
        .base_offset = batch->base_offset,
        .last_offset = batch->last_offset,
        .producer_id = batch->producer_id,
        .leader_epoch = batch->leader_epoch,
        .record_count = batch->record_count,
        .crc = batch->crc,
        .producer_epoch = batch->producer_epoch,
        .magic = batch->magic,
    };
}

size_t ol_snapshot_witness_count(const ol_snapshot *snapshot) {
    return snapshot->batches_seen < OL_SNAPSHOT_WITNESSES ? (size_t)snapshot->batches_seen
                                                          : OL_SNAPSHOT_WITNESSES;
}

const ol_snapshot_witness *ol_snapshot_witness_at(const ol_snapshot *snapshot, size_t index) {
    uint64_t first = snapshot->batches_seen - ol_snapshot_witness_count(snapshot);
    return &snapshot->witnesses[(first + index) % OL_SNAPSHOT_WITNESSES];
}

static int record_from(ol_snapshot *snapshot, ol_log *log, int64_t from, ol_error *error) {
    ol_batch_walk walk;
    ol_batch batch;
    int status = ol_batch_walk_open(&walk, log, from, snapshot->offset, false, error);
    if (status != OL_OK) return status;
    snapshot->batches_seen = 0;
    while ((status = ol_batch_walk_next(&walk, &batch, error)) == OL_OK) {
        ol_snapshot_record_witness(snapshot, &batch);
    }
    ol_batch_walk_close(&walk);
    return status == OL_END ? OL_OK : status;
}

int ol_snapshot_find_witnesses(ol_snapshot *snapshot, ol_log *log, ol_error *error) {
    /* The log cannot be walked backwards, and in a cleaned log offsets say little about the number
     * of batches. */
    for (int64_t step = FIRST_STEP;; step *= NEXT_STEP) {
        int64_t from = snapshot->offset - snapshot->log_start > step ? snapshot->offset - step
                                                                     : snapshot->log_start;
        int status = record_from(snapshot, log, from, error);
        if (status != OL_OK || from == snapshot->log_start ||
            snapshot->batches_seen >= OL_SNAPSHOT_WITNESSES) {
            return status;
        }
    }
}

/* ---------------------------------------------------------------------------------- the batches */

typedef struct proof {
    const ol_snapshot *snapshot;
    int64_t cleaned_to;
    size_t index;               /* of the next witness */
    size_t count;
    bool is_last_whole;         /* the last witness is in the log as it was appended */
    bool is_last_there;         /* as it was appended, or as a cleaner left it */
} proof;

static const ol_snapshot_witness *next_witness(const proof *work) {
    return ol_snapshot_witness_at(work->snapshot, work->index);
}

/* Returns whether a cleaner may have changed the batch at `base`.  A cleaning that did not finish
 * is in no checkpoint.  Its effect on earlier witnesses does not matter if the last witness exists
 * and is whole. */
static bool may_be_cleaned(const proof *work, int64_t base) {
    return base < work->cleaned_to || work->index + 1 < work->count;
}

/* Called when witnesses that end below `offset` are not in the log: a cleaner may have dropped
 * them. */
static int pass_missing(proof *work, int64_t offset, ol_error *error) {
    for (; work->index < work->count && next_witness(work)->last_offset < offset; work->index++) {
        int64_t base = next_witness(work)->base_offset;
        if (!may_be_cleaned(work, base)) {
            return ol_fail(error, OL_INVALID, "the batch at offset %lld is gone", (long long)base);
        }
    }
    return OL_OK;
}

static bool is_same_place(const ol_snapshot_witness *witness, const ol_batch *batch) {
    return witness->magic == batch->magic && witness->base_offset == batch->base_offset &&
           witness->last_offset == batch->last_offset &&
           witness->leader_epoch == batch->leader_epoch &&
           witness->producer_id == batch->producer_id &&
           witness->producer_epoch == batch->producer_epoch;
}

static int check_batch(proof *work, const ol_batch *batch, ol_error *error) {
    int status = pass_missing(work, batch->base_offset, error);
    if (status != OL_OK) return status;
    bool can_differ = may_be_cleaned(work, batch->base_offset);
    bool is_known = work->index < work->count && is_same_place(next_witness(work), batch);
    /* A cleaner may split a set of messages of an old format. */
    if (!is_known && can_differ && batch->magic != 2) return OL_OK;
    bool is_whole = is_known && next_witness(work)->crc == batch->crc;
    /* A cleaner rewrites a batch when it drops records or stamps a horizon on it. */
    bool is_cleaned =
        is_known && can_differ &&
        (batch->record_count < next_witness(work)->record_count || ol_batch_has_horizon(batch));
    if (!is_whole && !is_cleaned) {
        return ol_fail(error, OL_INVALID, "the log has a different batch at offset %lld",
                       (long long)batch->base_offset);
    }
    work->index++;
    if (work->index == work->count) {
        work->is_last_there = true;
        work->is_last_whole = is_whole;
    }
    return OL_OK;
}

static int check_batches(proof *work, ol_log *log, ol_error *error) {
    const ol_snapshot *snapshot = work->snapshot;
    int64_t from = work->count > 0 ? next_witness(work)->base_offset : snapshot->log_start;
    ol_batch_walk walk;
    ol_batch batch;
    int status = ol_batch_walk_open(&walk, log, from, snapshot->offset, true, error);
    if (status != OL_OK) return status;
    while (status == OL_OK) {
        status = ol_batch_walk_next(&walk, &batch, error);
        if (status == OL_OK) status = check_batch(work, &batch, error);
    }
    if (status == OL_END) status = OL_OK;
    if (status == OL_OK && walk.passed_over > 0) {
        status = ol_fail(error, OL_INVALID, "the log below the snapshot's offset cannot be read");
    }
    ol_batch_walk_close(&walk);
    return status != OL_OK ? status : pass_missing(work, snapshot->offset, error);
}

/* ------------------------------------------------------------------------- the newest positions */

/* The newest first.  The rows borrow from the table. */
typedef struct newest {
    ol_table_row rows[NEWEST_POSITIONS];
    size_t count;
} newest;

static void find_newest(const ol_table *table, newest *found) {
    ol_table_cursor cursor = {0};
    ol_table_row row;
    found->count = 0;
    while (ol_table_next(table, &cursor, &row)) {
        size_t at = found->count;
        if (at == NEWEST_POSITIONS) {
            if (found->rows[at - 1].value.log_offset >= row.value.log_offset) continue;
            at--;
        } else {
            found->count++;
        }
        for (; at > 0 && found->rows[at - 1].value.log_offset < row.value.log_offset; at--) {
            found->rows[at] = found->rows[at - 1];
        }
        found->rows[at] = row;
    }
}

static bool says_row(const ol_record *record, const ol_table_row *row) {
    ol_key key;
    ol_offset_value value;
    ol_error ignored;
    if (record->value.data == NULL || ol_key_decode(record->key, &key, &ignored) != OL_OK ||
        !key.known || key.type > OL_KEY_OFFSET_COMMIT ||
        ol_offset_value_decode(record->value, key.type, &value, &ignored) != OL_OK) {
        return false;
    }
    return key.partition == row->partition && ol_slice_equal(key.group, row->group) &&
           ol_slice_equal(key.topic, row->topic) && value.offset == row->value.offset &&
           value.commit_timestamp == row->value.commit_timestamp &&
           value.leader_epoch == row->value.leader_epoch &&
           ol_slice_equal(value.metadata, row->value.metadata);
}

static bool holds_row(const ol_batch *batch, const ol_table_row *row,
                      const ol_decompressor *decompressor) {
    ol_records records;
    ol_record record;
    ol_error ignored;
    bool found = false;
    if (ol_records_open(&records, batch, decompressor, &ignored) != OL_OK) return false;
    while (!found && ol_records_next(&records, &record, &ignored) == OL_OK) {
        found = record.offset == row->value.log_offset && says_row(&record, row);
    }
    ol_records_close(&records);
    return found;
}

static int find_row(const ol_table_row *row, const ol_snapshot_source *source, ol_error *error) {
    ol_batch_walk walk;
    ol_batch batch;
    int64_t offset = row->value.log_offset;
    int status = ol_batch_walk_open(&walk, source->log, offset, offset + 1, true, error);
    if (status != OL_OK) return status;
    status = ol_batch_walk_next(&walk, &batch, error);
    bool found = status == OL_OK && holds_row(&batch, row, source->decompressor);
    ol_batch_walk_close(&walk);
    if (status != OL_OK && status != OL_END) return status;
    return found ? OL_OK
                 : ol_fail(error, OL_INVALID,
                           "the snapshot contains a position that was committed at log offset "
                           "%lld, but the log does not contain that commit",
                           (long long)offset);
}

static int find_rows(const proof *work, const ol_snapshot_source *source, ol_error *error) {
    newest found;
    find_newest(work->snapshot->state.table, &found);
    int status = OL_OK;
    for (size_t i = 0; i < found.count && status == OL_OK; i++) {
        status = find_row(&found.rows[i], source, error);
    }
    if (status != OL_OK || found.count > 0 || work->is_last_there) return status;
    /* Without positions a load has little to do anyway. */
    return ol_fail(error, OL_INVALID, "nothing proves that the snapshot belongs to this log");
}

int ol_snapshot_prove(const ol_snapshot *snapshot, const ol_snapshot_source *source,
                      int64_t cleaned_to, ol_error *error) {
    proof work = {.snapshot = snapshot,
                  .cleaned_to = cleaned_to,
                  .count = ol_snapshot_witness_count(snapshot)};
    int status = check_batches(&work, source->log, error);
    if (status == OL_OK && !work.is_last_whole && work.count > 0) {
        status = find_rows(&work, source, error);
    }
    return status;
}
