/* Encodes facts, pending values and group records as bytes, and decodes them.  Everything is
 * big-endian. */
#include <stdlib.h>
#include <string.h>

#include "snapshot/snapshot_impl.h"

#define FACTS_MAGIC UINT64_C(0x4f4c534e41503031)        /* "OLSNAP01" */

enum {
    MARK_FIXED_SIZE = 8 * 6 + 4 * 4,
    FACTS_FIXED_SIZE = 8 + 4 + 8 + 8 + 8 + 8 + 4 + 8 + 1 + 16 + 4 + 4 + 4 + 4 + MARK_FIXED_SIZE,
    WITNESS_SIZE = 8 * 3 + 4 * 3 + 2 + 1,
    EPOCH_SIZE = 12,
    OWN_SIZE = 8,
    PENDING_SIZE = 8 + 4 * 4 + 8 * 4 + 4 + 1,
    RECORD_HEAD_SIZE = 4 + 4 + 8 + 8,
};

/* ------------------------------------------------------------------------------------- encoding */

static uint8_t *put_u8(uint8_t *p, uint8_t value) {
    *p = value;
    return p + 1;
}
static uint8_t *put_u32(uint8_t *p, uint32_t value) {
    ol_store_u32(p, value);
    return p + 4;
}
static uint8_t *put_u64(uint8_t *p, uint64_t value) {
    ol_store_u64(p, value);
    return p + 8;
}
static uint8_t *put_i64(uint8_t *p, int64_t value) { return put_u64(p, (uint64_t)value); }

static int make_blob(ol_snapshot *snapshot, int blob, size_t size, ol_error *error) {
    free(snapshot->blobs[blob]);
    snapshot->blobs[blob] = malloc(size + 1);
    snapshot->blob_sizes[blob] = size;
    if (snapshot->blobs[blob] == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory to encode a snapshot");
    }
    return OL_OK;
}

static uint8_t *put_witness(uint8_t *p, const ol_snapshot_witness *witness) {
    p = put_i64(p, witness->base_offset);
    p = put_i64(p, witness->last_offset);
    p = put_i64(p, witness->producer_id);
    p = put_u32(p, (uint32_t)witness->leader_epoch);
    p = put_u32(p, (uint32_t)witness->record_count);
    p = put_u32(p, witness->crc);
    ol_store_i16(p, witness->producer_epoch);
    return put_u8(p + 2, (uint8_t)witness->magic);
}

static uint8_t *put_mark(uint8_t *p, const ol_log_mark *mark) {
    p = put_i64(p, mark->offset);
    p = put_i64(p, mark->segment_base);
    p = put_i64(p, mark->position);
    p = put_i64(p, mark->first_timestamp);
    p = put_i64(p, mark->max_timestamp);
    p = put_i64(p, mark->max_timestamp_offset);
    p = put_u32(p, mark->checksum);
    p = put_u32(p, mark->aborted_count);
    p = put_u32(p, mark->aborted_crc);
    return put_u32(p, mark->producers_size);
}

static int put_facts(ol_snapshot *snapshot, ol_error *error) {
    if (snapshot->own.count > OL_SNAPSHOT_OWN_MAX) {
        return ol_fail(error, OL_LIMIT,
                       "%zu internal transactions are open, but a snapshot holds at most %d",
                       snapshot->own.count, OL_SNAPSHOT_OWN_MAX);
    }
    size_t witness_count = ol_snapshot_witness_count(snapshot);
    size_t size = FACTS_FIXED_SIZE + witness_count * WITNESS_SIZE +
                  snapshot->epoch_count * EPOCH_SIZE + snapshot->own.count * OWN_SIZE +
                  snapshot->mark.producers_size;
    int status = make_blob(snapshot, OL_SNAPSHOT_FACTS, size, error);
    if (status != OL_OK) return status;
    uint8_t *p = snapshot->blobs[OL_SNAPSHOT_FACTS];
    p = put_u64(p, FACTS_MAGIC);
    p = put_u32(p, OL_SNAPSHOT_VERSION);
    p = put_u64(p, ol_table_layout());
    p = put_i64(p, snapshot->offset);
    p = put_i64(p, snapshot->log_start);
    p = put_i64(p, snapshot->max_timestamp);
    p = put_u32(p, (uint32_t)snapshot->state.value_version_max);
    p = put_u64(p, snapshot->state.unknown_records);
    p = put_u8(p, snapshot->has_topic_id);
    memcpy(p, snapshot->topic_id, OL_TOPIC_ID_SIZE);
    p += OL_TOPIC_ID_SIZE;
    p = put_u32(p, (uint32_t)snapshot->number);
    p = put_u32(p, (uint32_t)witness_count);
    p = put_u32(p, (uint32_t)snapshot->epoch_count);
    p = put_u32(p, (uint32_t)snapshot->own.count);
    p = put_mark(p, &snapshot->mark);
    for (size_t i = 0; i < witness_count; i++) {
        p = put_witness(p, ol_snapshot_witness_at(snapshot, i));
    }
    for (size_t i = 0; i < snapshot->epoch_count; i++) {
        p = put_u32(p, (uint32_t)snapshot->epochs[i].epoch);
        p = put_i64(p, snapshot->epochs[i].start_offset);
    }
    for (size_t i = 0; i < snapshot->own.count; i++) p = put_i64(p, snapshot->own.ids[i]);
    if (snapshot->mark.producers_size > 0) {
        memcpy(p, snapshot->mark.producers, snapshot->mark.producers_size);
        p += snapshot->mark.producers_size;
    }
    OL_ASSERT(p == snapshot->blobs[OL_SNAPSHOT_FACTS] + size);
    return OL_OK;
}

static int put_pending(ol_snapshot *snapshot, const ol_pending *pending, ol_error *error) {
    ol_pending_cursor cursor = {0, 0};
    ol_pending_entry entry;
    uint64_t count = 0;
    while (ol_pending_next_entry(pending, &cursor, &entry)) count++;
    snapshot->pending_count = count;
    int status = make_blob(snapshot, OL_SNAPSHOT_PENDING, count * PENDING_SIZE, error);
    if (status != OL_OK) return status;
    uint8_t *p = snapshot->blobs[OL_SNAPSHOT_PENDING];
    cursor = (ol_pending_cursor){0, 0};
    while (ol_pending_next_entry(pending, &cursor, &entry)) {
        p = put_i64(p, entry.producer_id);
        p = put_u32(p, entry.reservation.pair);
        p = put_u32(p, (uint32_t)entry.reservation.partition);
        p = put_u32(p, entry.reservation.metadata);
        p = put_u32(p, entry.reservation.topic_id);
        p = put_i64(p, entry.reservation.expire_timestamp);
        p = put_i64(p, entry.offset);
        p = put_i64(p, entry.log_offset);
        p = put_i64(p, entry.commit_timestamp);
        p = put_u32(p, (uint32_t)entry.leader_epoch);
        p = put_u8(p, entry.replaced);
    }
    return OL_OK;
}

static int put_group_records(ol_snapshot *snapshot, const ol_group_records *records,
                             ol_error *error) {
    ol_group_record record;
    size_t size = 0, cursor = 0;
    while (ol_group_records_next(records, &cursor, &record)) {
        size += RECORD_HEAD_SIZE + record.key.size + record.value.size;
    }
    int status = make_blob(snapshot, OL_SNAPSHOT_GROUP_RECORDS, size, error);
    if (status != OL_OK) return status;
    uint8_t *p = snapshot->blobs[OL_SNAPSHOT_GROUP_RECORDS];
    cursor = 0;
    while (ol_group_records_next(records, &cursor, &record)) {
        p = put_u32(p, (uint32_t)record.key.size);
        p = put_u32(p, (uint32_t)record.value.size);
        p = put_i64(p, record.log_offset);
        p = put_i64(p, record.timestamp);
        memcpy(p, record.key.data, record.key.size);
        p += record.key.size;
        if (record.value.size != 0) memcpy(p, record.value.data, record.value.size);
        p += record.value.size;
    }
    return OL_OK;
}

int ol_snapshot_put_state(ol_snapshot *snapshot, const ol_state *state, ol_error *error) {
    int status = make_blob(snapshot, OL_SNAPSHOT_NUMBERS, OL_TABLE_NUMBERS_SIZE, error);
    if (status == OL_OK) {
        ol_table_put_numbers(state->table, snapshot->blobs[OL_SNAPSHOT_NUMBERS]);
        status = put_pending(snapshot, state->pending, error);
    }
    return status == OL_OK ? put_group_records(snapshot, state->group_records, error) : status;
}

int ol_snapshot_put_blobs(ol_snapshot *snapshot, ol_error *error) {
    int status = put_facts(snapshot, error);
    if (status != OL_OK || snapshot->copied) return status;
    return ol_snapshot_put_state(snapshot, &snapshot->state, error);
}

/* ------------------------------------------------------------------------------------- decoding */

static uint32_t take_u32(const uint8_t **p) {
    uint32_t value = ol_load_u32(*p);
    *p += 4;
    return value;
}
static uint64_t take_u64(const uint8_t **p) {
    uint64_t value = ol_load_u64(*p);
    *p += 8;
    return value;
}
static int64_t take_i64(const uint8_t **p) { return (int64_t)take_u64(p); }

static int take_lists(ol_snapshot *snapshot, const uint8_t *p, uint32_t epoch_count,
                      uint32_t own_count, ol_error *error) {
    snapshot->epochs = malloc((epoch_count + 1) * sizeof *snapshot->epochs);
    if (snapshot->epochs == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a snapshot");
    snapshot->epoch_count = epoch_count;
    for (uint32_t i = 0; i < epoch_count; i++) {
        snapshot->epochs[i].epoch = (int32_t)take_u32(&p);
        snapshot->epochs[i].start_offset = take_i64(&p);
    }
    int status = OL_OK;
    for (uint32_t i = 0; i < own_count && status == OL_OK; i++) {
        status = ol_own_transactions_open(&snapshot->own, take_i64(&p), error);
    }
    return status;
}

/* Takes the witnesses.  False: they are out of order, or not below the offset. */
static bool take_witnesses(ol_snapshot *snapshot, const uint8_t **p, uint32_t count) {
    int64_t next_offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        ol_snapshot_witness *witness = &snapshot->witnesses[i];
        witness->base_offset = take_i64(p);
        witness->last_offset = take_i64(p);
        witness->producer_id = take_i64(p);
        witness->leader_epoch = (int32_t)take_u32(p);
        witness->record_count = (int32_t)take_u32(p);
        witness->crc = take_u32(p);
        witness->producer_epoch = ol_load_i16(*p);
        witness->magic = (int8_t)(*p)[2];
        *p += 3;
        if (witness->base_offset < next_offset || witness->last_offset < witness->base_offset ||
            witness->last_offset >= snapshot->offset) {
            return false;
        }
        next_offset = witness->last_offset + 1;
    }
    snapshot->batches_seen = count;
    return true;
}

static void take_mark(ol_log_mark *mark, const uint8_t **p) {
    mark->offset = take_i64(p);
    mark->segment_base = take_i64(p);
    mark->position = take_i64(p);
    mark->first_timestamp = take_i64(p);
    mark->max_timestamp = take_i64(p);
    mark->max_timestamp_offset = take_i64(p);
    mark->checksum = take_u32(p);
    mark->aborted_count = take_u32(p);
    mark->aborted_crc = take_u32(p);
    mark->producers_size = take_u32(p);
}

static int take_producers(ol_log_mark *mark, const uint8_t *producers, ol_error *error) {
    if (mark->offset == 0) return OL_OK;
    mark->producers = malloc(mark->producers_size + 1);
    if (mark->producers == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for producers");
    memcpy(mark->producers, producers, mark->producers_size);
    return OL_OK;
}

static bool is_mark_possible(const ol_snapshot *snapshot) {
    const ol_log_mark *mark = &snapshot->mark;
    return mark->producers_size <= OL_LOG_MARK_PRODUCERS_SIZE_MAX &&
           (mark->offset == 0 || mark->offset == snapshot->offset) && mark->segment_base >= 0 &&
           mark->position >= 0;
}

int ol_snapshot_take_facts(ol_snapshot *snapshot, ol_slice bytes, ol_error *error) {
    const uint8_t *p = bytes.data;
    if (bytes.size < FACTS_FIXED_SIZE || take_u64(&p) != FACTS_MAGIC) {
        return ol_fail(error, OL_CORRUPT,
                       "section 'facts' of the snapshot does not begin with its magic number");
    }
    uint32_t version = take_u32(&p);
    if (version != OL_SNAPSHOT_VERSION) {
        return ol_fail(error, OL_UNSUPPORTED, "version %u of the snapshot is not known", version);
    }
    if (take_u64(&p) != ol_table_layout()) {
        return ol_fail(error, OL_UNSUPPORTED,
                       "this version cannot read the layout of the snapshot's table");
    }
    snapshot->offset = take_i64(&p);
    snapshot->log_start = take_i64(&p);
    snapshot->max_timestamp = take_i64(&p);
    snapshot->state.value_version_max = (int32_t)take_u32(&p);
    snapshot->state.unknown_records = take_u64(&p);
    snapshot->has_topic_id = *p++ != 0;
    memcpy(snapshot->topic_id, p, OL_TOPIC_ID_SIZE);
    p += OL_TOPIC_ID_SIZE;
    snapshot->number = (int32_t)take_u32(&p);
    uint32_t witness_count = take_u32(&p);
    uint32_t epoch_count = take_u32(&p), own_count = take_u32(&p);
    take_mark(&snapshot->mark, &p);
    if (bytes.size - FACTS_FIXED_SIZE != (uint64_t)witness_count * WITNESS_SIZE +
                                             (uint64_t)epoch_count * EPOCH_SIZE +
                                             (uint64_t)own_count * OWN_SIZE +
                                             snapshot->mark.producers_size) {
        return ol_fail(error, OL_CORRUPT, "section 'facts' of the snapshot has a wrong size");
    }
    if (!is_mark_possible(snapshot) || snapshot->offset < 0 || snapshot->log_start < 0 ||
        snapshot->log_start > snapshot->offset ||
        snapshot->state.value_version_max < -1 ||
        snapshot->state.value_version_max > OL_OFFSET_VALUE_VERSION_MAX ||
        own_count > OL_SNAPSHOT_OWN_MAX || witness_count > OL_SNAPSHOT_WITNESSES ||
        !take_witnesses(snapshot, &p, witness_count)) {
        return ol_fail(error, OL_CORRUPT, "section 'facts' of the snapshot has impossible values");
    }
    int status = take_lists(snapshot, p, epoch_count, own_count, error);
    const uint8_t *producers = bytes.data + bytes.size - snapshot->mark.producers_size;
    return status == OL_OK ? take_producers(&snapshot->mark, producers, error) : status;
}

static ol_pending_entry take_entry(const uint8_t **p) {
    ol_pending_entry entry;
    entry.producer_id = take_i64(p);
    entry.reservation.pair = take_u32(p);
    entry.reservation.partition = (int32_t)take_u32(p);
    entry.reservation.metadata = take_u32(p);
    entry.reservation.topic_id = take_u32(p);
    entry.reservation.expire_timestamp = take_i64(p);
    entry.offset = take_i64(p);
    entry.log_offset = take_i64(p);
    entry.commit_timestamp = take_i64(p);
    entry.leader_epoch = (int32_t)take_u32(p);
    entry.replaced = *(*p)++ != 0;
    return entry;
}

int ol_snapshot_take_held(ol_slice bytes, ol_reservation **held, size_t *count, ol_error *error) {
    if (bytes.size % PENDING_SIZE != 0) {
        return ol_fail(error, OL_CORRUPT, "section 'pending' of the snapshot has a wrong size");
    }
    size_t entries = bytes.size / PENDING_SIZE;
    *count = 0;
    *held = malloc((entries + 1) * sizeof **held);
    if (*held == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu pending values", entries);
    }
    const uint8_t *p = bytes.data;
    for (size_t i = 0; i < entries; i++) {
        ol_pending_entry entry = take_entry(&p);
        if (!entry.replaced) (*held)[(*count)++] = entry.reservation;
    }
    return OL_OK;
}

int ol_snapshot_take_pending(ol_snapshot *snapshot, ol_slice bytes, ol_error *error) {
    const uint8_t *p = bytes.data;
    int status = OL_OK;
    for (size_t i = 0; i < bytes.size / PENDING_SIZE && status == OL_OK; i++) {
        ol_pending_entry entry = take_entry(&p);
        if (entry.log_offset < 0 || entry.log_offset >= snapshot->offset) {
            return ol_fail(error, OL_CORRUPT,
                           "the log offset of a pending value is not below the snapshot's offset");
        }
        status = ol_pending_restore(snapshot->state.pending, &entry, error);
        snapshot->pending_count++;
    }
    return status;
}

int ol_snapshot_take_group_records(ol_snapshot *snapshot, ol_slice bytes, ol_error *error) {
    const uint8_t *p = bytes.data, *limit = bytes.data + bytes.size;
    int status = OL_OK;
    while (p != limit && status == OL_OK) {
        if (limit - p < RECORD_HEAD_SIZE) {
            return ol_fail(error, OL_CORRUPT, "a group record is truncated");
        }
        size_t key_size = take_u32(&p), value_size = take_u32(&p);
        ol_group_record record = {.log_offset = take_i64(&p), .timestamp = take_i64(&p)};
        if (key_size > (size_t)(limit - p) || value_size > (size_t)(limit - p) - key_size) {
            return ol_fail(error, OL_CORRUPT, "a group record is truncated");
        }
        record.key = ol_slice_of(p, key_size);
        record.value = ol_slice_of(p + key_size, value_size);
        p += key_size + value_size;
        ol_key key;
        status = ol_key_decode(record.key, &key, error);
        if (status != OL_OK || !key.known || key.type <= OL_KEY_OFFSET_COMMIT) {
            return ol_fail(error, OL_CORRUPT, "the key of a group record is not a group key");
        }
        record.group = key.group;
        status = ol_group_records_put(snapshot->state.group_records, &record, error);
    }
    return status;
}
