/* Reads the batches between the feed's offset and W. */
#include "history/change_feed.h"

#include <string.h>

#include "base/bytes.h"
#include "columns/offset_rows.h"
#include "log/batch_walk.h"
#include "log/transaction_spans.h"

/* A read in progress: the batch whose records are returned. */
typedef struct pass {
    ol_change_feed *feed;
    ol_record_block *block;
    ol_batch_walk walk;
    int64_t until;              /* W when the pass began */
    int64_t passed_over;        /* damage that the walk has met, and that was reported */
    int64_t reported_from;      /* changes below it were returned */
    int64_t back_from;  /* the pass follows transactions from here on; at or below reported_from */
    bool has_batch;             /* the walk has given one */
    bool begins_at_segment;     /* the walk began at the start of a segment and found the offset by
                                   itself */
} pass;

int ol_change_feed_create(ol_change_feed *feed, int32_t log_partition, const ol_slice *groups,
                          size_t group_count, ol_error *error) {
    *feed = (ol_change_feed){.log_partition = log_partition,
                             .groups = groups,
                             .group_count = group_count,
                             .epoch = -1};
    if (groups == NULL) return OL_OK;
    int status = ol_int64_map_reserve(&feed->group_numbers, group_count, error);
    if (status != OL_OK) return status;
    for (size_t i = 0; i < group_count; i++) {
        uint64_t hash = ol_hash64(groups[i].data, groups[i].size, 0);
        ol_int64_map_set(&feed->group_numbers, hash, i + 1);
    }
    return OL_OK;
}

static void drop_state(ol_change_feed *feed) {
    if (feed->has_state) ol_state_destroy(&feed->state);
    feed->has_state = feed->is_installing = false;
}

void ol_change_feed_free(ol_change_feed *feed) {
    drop_state(feed);
    ol_int64_map_free(&feed->group_numbers);
    memset(feed, 0, sizeof *feed);
}

bool ol_change_feed_is_current(const ol_change_feed *feed) {
    return ol_log_cuts(ol_partition_log(feed->partition)) == feed->cuts;
}

int ol_change_feed_start(ol_change_feed *feed, int64_t offset, int32_t epoch, int64_t known_below,
                         ol_error *error) {
    ol_log *log = ol_partition_log(feed->partition);
    drop_state(feed);
    feed->offset = offset;
    feed->epoch = epoch;
    feed->known_from = offset;
    feed->known_below = known_below;
    feed->gap = (ol_change_gap){0};
    /* Taken before the log is read, so that later truncations are noticed. */
    feed->cuts = ol_log_cuts(log);
    return ol_log_open_since(log, offset, &feed->scanned_from, error);
}

/* --------------------------------------------------------------------------------------- groups */

static bool is_one_of(const ol_change_feed *feed, ol_slice group) {
    for (size_t i = 0; i < feed->group_count; i++) {
        if (ol_slice_equal(feed->groups[i], group)) return true;
    }
    return false;
}

static bool is_watched(const ol_change_feed *feed, ol_slice group) {
    if (feed->groups == NULL) return true;
    uint64_t number = ol_int64_map_get(&feed->group_numbers, ol_hash64(group.data, group.size, 0));
    if (number == 0) return false;
    /* Two positions may share a hash. */
    return ol_slice_equal(feed->groups[number - 1], group) || is_one_of(feed, group);
}

/* ----------------------------------------------------------------------------------------- rows */

/* Where a change takes effect. */
typedef struct place {
    int64_t offset;
    int64_t timestamp;
    int32_t epoch;
} place;

static int put_row(pass *work, const ol_key *key, const ol_offset_value *value, int64_t log_offset,
                   place effective, ol_error *error) {
    ol_record_block *block = work->block;
    ol_record_block_put_int32(block, OL_COLUMN_LOG_PARTITION, work->feed->log_partition);
    ol_record_block_put_int64(block, OL_COLUMN_LOG_OFFSET, log_offset);
    ol_record_block_put_int64(block, OL_COLUMN_EFFECTIVE_AT, effective.offset);
    ol_record_block_put_int32(block, OL_COLUMN_BATCH_LEADER_EPOCH, effective.epoch);
    ol_record_block_put_int64(block, OL_COLUMN_TIMESTAMP, effective.timestamp);
    int status = ol_record_block_put_offset_key(block, key, error);
    if (status == OL_OK) status = ol_record_block_put_offset_value(block, value, error);
    if (status == OL_OK) {
        ol_record_block_end(block);
    } else {
        ol_record_block_drop(block);
    }
    return status;
}

static bool is_full(const pass *work) { return work->block->count == work->block->capacity; }

/* -------------------------------------------------------------------------------- transactions */

static bool has_pending(const ol_change_feed *feed) {
    ol_pending_producer producer;
    return feed->has_state && ol_pending_producer_at(feed->state.pending, 0, &producer);
}

/* The state follows the positions that open transactions have a value for, and no others. */
static int follow(ol_change_feed *feed, const ol_batch *batch, const ol_record *record,
                  bool is_pending, ol_error *error) {
    ol_change change;
    if (is_pending && !feed->has_state) {
        int status = ol_state_create(&feed->state, error);
        if (status != OL_OK) return status;
        feed->has_state = true;
    }
    if (!is_pending && !has_pending(feed)) return OL_OK;
    int status = ol_change_decode(&feed->state, batch, record, NULL, &change, error);
    if (status != OL_OK) return status;
    if (!is_pending && !ol_pending_has(feed->state.pending, &change.name, change.partition)) {
        return OL_OK;
    }
    return ol_state_apply(&feed->state, &change, error);
}

static void move_on(ol_change_feed *feed, int64_t offset, int32_t epoch) {
    if (offset <= feed->offset) return;
    feed->offset = offset;
    feed->epoch = epoch;
}

/* Returns the values that the feed's marker installs, in their log order.  OL_OK: the block is full
 * before the last one; OL_END: all were returned. */
static int install(pass *work, ol_error *error) {
    ol_change_feed *feed = work->feed;
    ol_table_row row;
    for (;;) {
        size_t before = feed->installed;
        if (!ol_pending_next_value(feed->state.pending, feed->marker_producer_id, &feed->installed,
                                   &row)) {
            return OL_END;
        }
        if (is_full(work)) {
            feed->installed = before;
            return OL_OK;
        }
        ol_key key = {.group = row.group, .topic = row.topic, .partition = row.partition};
        ol_offset_value value = {.offset = row.value.offset,
                                 .commit_timestamp = row.value.commit_timestamp,
                                 .leader_epoch = row.value.leader_epoch,
                                 .expire_timestamp = row.value.expire_timestamp,
                                 .metadata = row.value.metadata,
                                 .topic_id = row.value.topic_id};
        place marker = {feed->marker_offset, feed->marker_timestamp, feed->marker_epoch};
        int status = put_row(work, &key, &value, row.value.log_offset, marker, error);
        if (status == OL_LIMIT && work->block->count > 0) {
            /* These bytes do not fit the block: the row becomes the first of the next one. */
            feed->installed = before;
            return OL_OK;
        }
        if (status != OL_OK) return status;
    }
}

static void end_transaction(ol_change_feed *feed, int64_t producer_id, ol_control type) {
    ol_state_end_transaction(&feed->state, producer_id, type);
    /* With no transaction open, nothing is left to decide. */
    if (!has_pending(feed)) drop_state(feed);
}

/* Installs what is left of the feed's marker.  Returns the same statuses as install. */
static int go_on_installing(pass *work, ol_error *error) {
    ol_change_feed *feed = work->feed;
    int status = install(work, error);
    if (status != OL_END) return status;
    feed->is_installing = false;
    end_transaction(feed, feed->marker_producer_id, OL_CONTROL_COMMIT);
    move_on(feed, feed->marker_offset + 1, feed->marker_epoch);
    return OL_END;
}

/* Returns OL_END if the record is finished, and otherwise the same as go_on_installing. */
static int meet_marker(pass *work, const ol_batch *batch, const ol_record *record,
                       ol_error *error) {
    ol_change_feed *feed = work->feed;
    ol_control type;
    int32_t coordinator_epoch;
    ol_error damage;
    if (!feed->has_state) return OL_END;
    /* A marker that does not decode ends nothing, as in a load. */
    if (ol_control_decode(record, &type, &coordinator_epoch, &damage) != OL_OK) return OL_END;
    if (type != OL_CONTROL_COMMIT || record->offset < work->reported_from) {
        end_transaction(feed, batch->producer_id, type);
        return OL_END;
    }
    feed->is_installing = true;
    feed->installed = 0;
    feed->marker_producer_id = batch->producer_id;
    feed->marker_offset = record->offset;
    feed->marker_timestamp = record->timestamp;
    feed->marker_epoch = batch->leader_epoch;
    return go_on_installing(work, error);
}

/* -------------------------------------------------------------------------------------- records */

static void set_gap(ol_change_feed *feed, int64_t from, int64_t below, bool is_damage) {
    feed->gap = (ol_change_gap){.from = from, .below = below, .is_damage = is_damage};
}

static int give_position(pass *work, const ol_batch *batch, const ol_record *record,
                         const ol_key *key, ol_error *error) {
    ol_change_feed *feed = work->feed;
    ol_offset_value value;
    ol_error refusal;
    bool is_deletion = record->value.data == NULL;
    bool is_reported = record->offset >= work->reported_from;
    if (!is_deletion &&
        ol_offset_value_decode(record->value, key->type, &value, &refusal) != OL_OK) {
        /* A load skips it, too, and reports damage. */
        if (is_reported) set_gap(feed, record->offset, record->offset + 1, true);
        return OL_END;
    }
    bool is_pending = !is_deletion && ol_batch_is_transactional(batch) && batch->producer_id >= 0;
    if (!is_pending && is_reported) {
        place here = {record->offset, record->timestamp, batch->leader_epoch};
        int status = put_row(work, key, is_deletion ? NULL : &value, record->offset, here, error);
        if (status != OL_OK) return status;
    }
    int status = follow(feed, batch, record, is_pending, error);
    return status == OL_OK ? OL_END : status;
}

/* OL_END: the record is finished; OL_OK: the block is full before that. */
static int give_record(pass *work, const ol_batch *batch, const ol_record *record,
                       ol_error *error) {
    ol_change_feed *feed = work->feed;
    ol_key key;
    ol_error refusal;
    if (ol_batch_is_control(batch)) return meet_marker(work, batch, record, error);
    if (ol_key_decode(record->key, &key, &refusal) != OL_OK) {
        if (record->offset >= work->reported_from) {
            set_gap(feed, record->offset, record->offset + 1, true);
        }
        return OL_END;
    }
    if (!key.known || key.type > OL_KEY_OFFSET_COMMIT || !is_watched(feed, key.group)) {
        return OL_END;
    }
    return give_position(work, batch, record, &key, error);
}

/* Returns the records at and above `from`.  OL_END: all were returned; OL_OK: the block was full,
 * or a gap was met before. */
static int give_records(pass *work, const ol_batch *batch, ol_records *records, int64_t from,
                        ol_error *error) {
    ol_change_feed *feed = work->feed;
    ol_record record;
    int status;
    while ((status = ol_records_next(records, &record, error)) == OL_OK) {
        if (record.offset < from) continue;
        if (is_full(work)) return OL_OK;
        status = give_record(work, batch, &record, error);
        /* These bytes do not fit the block: the record becomes the first of the next one. */
        if (status == OL_LIMIT && work->block->count > 0) return OL_OK;
        if (status != OL_END) return status;
        move_on(feed, record.offset + 1, batch->leader_epoch);
        if (feed->gap.below > 0) return OL_OK;
    }
    return status;
}

/* ------------------------------------------------------------------------------ missing offsets */

typedef struct missing {
    int64_t expected;           /* the offset after the last one that exists */
    int64_t from;               /* the first missing one, INT64_MAX: none */
    int64_t below;              /* after the last missing one */
} missing;

static void expect(missing *found, int64_t offset, int64_t next) {
    if (offset > found->expected) {
        if (found->from == INT64_MAX) found->from = found->expected;
        found->below = offset;
    }
    found->expected = next;
}

/* Checks the structure of all records, and finds the log offsets that are missing in front of them
 * and between them. */
static int check_records(const ol_batch *batch, ol_records walk, missing *found, ol_error *error) {
    ol_record record;
    int status;
    if (batch->magic == 2) expect(found, batch->base_offset, batch->base_offset);
    while ((status = ol_records_next(&walk, &record, error)) == OL_OK) {
        expect(found, record.offset, record.offset + 1);
    }
    if (status != OL_END) return status;
    int64_t next = ol_batch_next_offset(batch);
    expect(found, next, next);
    return OL_OK;
}

/* A walk that begins in the middle of a segment finds its offset by the headers before it.  If one
 * of these is damaged, the walk may miss what a walk from the beginning of the segment sees. */
static bool may_have_missed(const pass *work) {
    return !work->has_batch && !work->begins_at_segment;
}

/* Returns whether the walk may have begun at a wrong position.  The first batch at or above `start`
 * shows that: bytes were skipped before it, or it begins above `start` although no gap is known
 * there. */
static bool is_astray(const pass *work, const ol_batch *batch, int64_t start) {
    const ol_change_feed *feed = work->feed;
    if (!may_have_missed(work)) return false;
    if (work->walk.passed_over > 0) return true;
    /* Only the records of a compressed message set show where it begins. */
    if (batch->record_count < 0 || batch->base_offset <= start) return false;
    /* A known gap needs no second look. */
    return start < feed->known_from || batch->base_offset > feed->known_below;
}

/* Called when records are missing that may belong to transactions that were open at the feed's
 * offset and take effect above it.  The pass begins again after each such gap; the second gap
 * covers everything that is left up to the offset. */
static bool meet_missing_below(ol_change_feed *feed, int64_t from, int64_t below, bool is_damage) {
    bool is_first = feed->known_from >= feed->offset;
    if (!is_first && below < feed->offset) below = feed->offset;
    set_gap(feed, from, below, is_damage);
    /* A cleaner may have removed more, and lower, records since the first gap was met. */
    if (from < feed->known_from) feed->known_from = from;
    if (is_first || feed->known_below < below) feed->known_below = below;
    return true;
}

/* Sets the gap to the missing offsets, unless the owner knows of them; offsets below the pass do
 * not matter. */
static bool meet_missing(pass *work, const missing *found, bool is_damage) {
    ol_change_feed *feed = work->feed;
    int64_t lowest = feed->offset > work->reported_from ? feed->offset : work->back_from;
    /* A known gap at the offset covers the ends of those transactions. */
    bool is_covered = feed->known_from == feed->offset && feed->known_below > feed->offset;
    if (is_covered) lowest = feed->offset;
    int64_t from = found->from > lowest ? found->from : lowest;
    if (found->from == INT64_MAX || from >= found->below) return false;
    if (from >= feed->known_from && from < feed->known_below) {
        if (found->below <= feed->known_below) return false;
        from = feed->known_below;
    }
    if (from < feed->offset) return meet_missing_below(feed, from, found->below, is_damage);
    set_gap(feed, from, found->below, is_damage);
    /* At the next read the gap is known, so the records are returned. */
    bool adjoins = from == feed->known_below && feed->known_from < feed->known_below;
    if (!adjoins) feed->known_from = from;
    feed->known_below = found->below;
    return true;
}

/* -------------------------------------------------------------------------------------- batches */

/* Below the offset of the feed nothing is reported, but transactions are followed. */
static int give_batch(pass *work, const ol_batch *batch, int64_t expected, int64_t from,
                      ol_error *error) {
    ol_change_feed *feed = work->feed;
    const ol_decompressor *decompressor =
        ol_partition_get_options(feed->partition)->log.decompressor;
    missing found = {.expected = expected, .from = INT64_MAX};
    ol_records records;
    int64_t next = ol_batch_next_offset(batch);
    int status = ol_records_open(&records, batch, decompressor, error);
    if (status == OL_OK) {
        status = check_records(batch, records, &found, error);
        if (status != OL_OK) ol_records_close(&records);
    }
    if (ol_state_is_no_damage(status)) return status;
    if (status != OL_OK) {
        found = (missing){.from = expected, .below = next};
        bool is_new = meet_missing(work, &found, true);
        move_on(feed, next, batch->leader_epoch);
        return is_new ? OL_OK : OL_END;
    }
    status = meet_missing(work, &found, false)
                 ? OL_OK
                 : give_records(work, batch, &records, from, error);
    ol_records_close(&records);
    if (status == OL_END) move_on(feed, next, batch->leader_epoch);
    return status;
}

/* The bytes between the last batch and the next one, or W, could not be read. */
static bool meet_damage(pass *work, int64_t from, int64_t below) {
    if (work->walk.passed_over == work->passed_over) return false;
    work->passed_over = work->walk.passed_over;
    missing found = {.from = from, .below = below};
    bool is_new = from < below && meet_missing(work, &found, true);
    if (is_new) move_on(work->feed, below, work->feed->epoch);
    return is_new;
}

/* Returns the changes at and above `start`.  Offsets may be missing from `from` on, which is below
 * `start` if the log begins above `from`.  OL_OK: the block is full, or there is a gap; OL_END: W
 * is reached; OL_OUT_OF_RANGE with may_have_missed: the walk has not found its beginning. */
static int give_batches(pass *work, int64_t from, int64_t start, ol_error *error) {
    ol_change_feed *feed = work->feed;
    ol_batch batch;
    int64_t expected = from;
    int status;
    while ((status = ol_batch_walk_next(&work->walk, &batch, error)) == OL_OK) {
        int64_t next = ol_batch_next_offset(&batch);
        if (next <= start) continue;
        if (next > work->until) return OL_END;      /* W lies within the batch */
        if (is_astray(work, &batch, start)) return OL_OUT_OF_RANGE;
        work->has_batch = true;
        bool has_base = batch.record_count >= 0;
        if (has_base && meet_damage(work, expected, batch.base_offset)) return OL_OK;
        status = give_batch(work, &batch, expected, start, error);
        if (status != OL_END) return status;
        expected = next;
    }
    if (status != OL_END) return status;
    if (start < work->until && may_have_missed(work)) return OL_OUT_OF_RANGE;
    if (meet_damage(work, expected, work->until)) return OL_OK;
    /* The log may have nothing up to W, because it begins there or its end was cleaned away. */
    missing found = {.expected = expected, .from = INT64_MAX};
    expect(&found, work->until, work->until);
    bool is_new = meet_missing(work, &found, false);
    move_on(feed, work->until, feed->epoch);
    return is_new ? OL_OK : OL_END;
}

static int walk_from(pass *work, int64_t begin, int64_t from, int64_t start, ol_error *error) {
    ol_log *log = ol_partition_log(work->feed->partition);
    int status = ol_batch_walk_open(&work->walk, log, begin, work->until, true, error);
    if (status != OL_OK) return status;
    status = give_batches(work, from, start, error);
    ol_batch_walk_close(&work->walk);
    return status;
}

/* Returns the base of the segment that holds an offset, or the offset itself if none does. */
static int64_t segment_base_of(const ol_log *log, int64_t offset) {
    ol_log_segment_info info;
    int64_t base = offset;
    for (size_t i = 0; ol_log_segment_at(log, i, &info) && info.base_offset <= offset; i++) {
        base = info.base_offset;
    }
    return base;
}

static int read_log(pass *work, ol_error *error) {
    ol_change_feed *feed = work->feed;
    ol_log *log = ol_partition_log(feed->partition);
    int64_t start = ol_log_start(log);
    /* The first pass reads again what may belong to transactions that are open at its offset. */
    int64_t from = feed->scanned_from < feed->offset ? feed->scanned_from : feed->offset;
    if (start < from) start = from;
    work->back_from = from;
    int status = walk_from(work, start, from, start, error);
    if (status == OL_OUT_OF_RANGE && may_have_missed(work)) {
        work->begins_at_segment = true;
        work->passed_over = 0;
        status = walk_from(work, segment_base_of(log, start), from, start, error);
    }
    if (feed->gap.below > 0 && feed->gap.from < work->reported_from) {
        /* The next pass begins at the same place, and knows of the gap. */
        drop_state(feed);
    } else {
        feed->scanned_from = INT64_MAX;
    }
    return status;
}

int ol_change_feed_read(ol_change_feed *feed, ol_record_block *block, ol_error *error) {
    ol_positions positions;
    pass work = {.feed = feed, .block = block};
    feed->gap = (ol_change_gap){0};
    if (feed->is_installing) {
        int status = go_on_installing(&work, error);
        /* The owner handles a transaction as a whole.  If another transaction were begun here, the
         * owner would have to handle both together, and so on up to W. */
        return status == OL_END ? OL_OK : status;
    }
    ol_partition_positions(feed->partition, &positions);
    if (feed->offset >= positions.watermark) return OL_END;
    work.until = positions.watermark;
    work.reported_from = feed->offset;
    return read_log(&work, error);
}
