/* Keeps the producers in a map with open addressing and backward shifts, and the open transactions
 * in a list. */
#include "log/files/producers.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { SLOT_COUNT_MIN = 16, FREE = -1 };

void ol_producers_free(ol_producers *producers) {
    free(producers->slots);
    free(producers->open);
    memset(producers, 0, sizeof *producers);
}

void ol_producers_clear(ol_producers *producers) {
    for (size_t i = 0; i < producers->slot_count; i++) producers->slots[i].producer_id = FREE;
    producers->count = 0;
    producers->open_count = 0;
    producers->highest_id_plus_one = 0;
}

/* ------------------------------------------------------------ the map */

/* Producer ids are handed out in sequence, so their bits are mixed. */
static size_t home_of(const ol_producers *producers, int64_t producer_id) {
    return (size_t)ol_hash64_mix((uint64_t)producer_id, 0) & (producers->slot_count - 1);
}

/* Returns the slot of the id, or the free slot where it belongs. */
static ol_producer *slot_of(const ol_producers *producers, int64_t producer_id) {
    size_t at = home_of(producers, producer_id);
    while (producers->slots[at].producer_id != FREE &&
           producers->slots[at].producer_id != producer_id) {
        at = (at + 1) & (producers->slot_count - 1);
    }
    return &producers->slots[at];
}

const ol_producer *ol_producers_find(const ol_producers *producers, int64_t producer_id) {
    if (producers->count == 0 || producer_id < 0) return NULL;
    const ol_producer *slot = slot_of(producers, producer_id);
    return slot->producer_id == FREE ? NULL : slot;
}

static int resize(ol_producers *producers, size_t slot_count, ol_error *error) {
    ol_producers larger = *producers;
    larger.slots = malloc(slot_count * sizeof *larger.slots);
    if (larger.slots == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu producers", slot_count);
    }
    larger.slot_count = slot_count;
    for (size_t i = 0; i < slot_count; i++) larger.slots[i].producer_id = FREE;
    for (size_t i = 0; i < producers->slot_count; i++) {
        const ol_producer *producer = &producers->slots[i];
        if (producer->producer_id != FREE) *slot_of(&larger, producer->producer_id) = *producer;
    }
    free(producers->slots);
    *producers = larger;
    return OL_OK;
}

static int reserve_open(ol_producers *producers, size_t additional, ol_error *error) {
    size_t needed = producers->open_count + additional;
    if (needed <= producers->open_capacity) return OL_OK;
    size_t capacity = producers->open_capacity == 0 ? 4 : 2 * producers->open_capacity;
    if (capacity < needed) capacity = needed;
    ol_open_transaction *open = realloc(producers->open, capacity * sizeof *open);
    if (open == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu open transactions", capacity);
    }
    producers->open = open;
    producers->open_capacity = capacity;
    return OL_OK;
}

/* The map is at most three quarters full, so that a probe stays short. */
static size_t count_max(size_t slot_count) { return slot_count / 4 * 3; }

bool ol_producers_is_full(const ol_producers *producers) {
    return producers->count > 0 && producers->count >= count_max(producers->slot_count);
}

int ol_producers_reserve(ol_producers *producers, size_t additional, ol_error *error) {
    size_t needed = producers->count + additional;
    size_t slot_count = producers->slot_count == 0 ? SLOT_COUNT_MIN : producers->slot_count;
    while (count_max(slot_count) < needed) slot_count *= 2;
    if (slot_count != producers->slot_count) {
        int status = resize(producers, slot_count, error);
        if (status != OL_OK) return status;
    }
    return reserve_open(producers, additional, error);
}

/* ol_producers_reserve must have been called. */
static ol_producer *find_or_add(ol_producers *producers, int64_t producer_id) {
    ol_producer *slot = slot_of(producers, producer_id);
    if (slot->producer_id != FREE) return slot;
    OL_ASSERT(producers->count < count_max(producers->slot_count));
    *slot = (ol_producer){
        .producer_id = producer_id,
        .last_offset = -1,
        .timestamp = -1,
        .transaction_first_offset = -1,
        .last_sequence = -1,
        .coordinator_epoch = -1,
        .epoch = -1,
    };
    producers->count++;
    int64_t plus_one = producer_id == INT64_MAX ? INT64_MAX : producer_id + 1;
    if (plus_one > producers->highest_id_plus_one) producers->highest_id_plus_one = plus_one;
    return slot;
}

int64_t ol_producers_highest_id(const ol_producers *producers) {
    return producers->highest_id_plus_one - 1;
}

/* Takes the slot out and moves those after it up, so that no probe meets a hole before its key. */
static void remove_slot(ol_producers *producers, size_t at) {
    size_t mask = producers->slot_count - 1;
    size_t hole = at;
    for (size_t next = (at + 1) & mask; producers->slots[next].producer_id != FREE;
         next = (next + 1) & mask) {
        size_t home = home_of(producers, producers->slots[next].producer_id);
        /* The entry may move into the hole unless its home lies after the hole (modulo the
         * size). */
        if (((next - home) & mask) < ((next - hole) & mask)) continue;
        producers->slots[hole] = producers->slots[next];
        hole = next;
    }
    producers->slots[hole].producer_id = FREE;
    producers->count--;
}

static bool is_expired(const ol_producer *producer, int64_t now_ms, int64_t expiration_ms) {
    int64_t age;
    if (producer->transaction_first_offset >= 0) return false;
    if (__builtin_sub_overflow(now_ms, producer->timestamp, &age)) {
        return producer->timestamp < now_ms;
    }
    return age >= expiration_ms;
}

size_t ol_producers_expire(ol_producers *producers, int64_t now_ms, int64_t expiration_ms,
                           int64_t kept_id) {
    size_t expired = 0;
    for (size_t at = 0; at < producers->slot_count;) {
        const ol_producer *producer = &producers->slots[at];
        bool stays = producer->producer_id == FREE || producer->producer_id == kept_id;
        if (stays || !is_expired(producer, now_ms, expiration_ms)) {
            at++;
            continue;
        }
        /* Another producer may have moved to this slot, so the slot is checked again. */
        remove_slot(producers, at);
        expired++;
    }
    return expired;
}

/* ------------------------------------------------------------ open transactions */

static void open_transaction(ol_producers *producers, ol_producer *producer, int64_t first_offset) {
    OL_ASSERT(producers->open_count < producers->open_capacity);
    producer->transaction_first_offset = first_offset;
    /* In log order the new transaction is the last, unless the snapshot before it belonged to
     * another log. */
    size_t at = producers->open_count;
    while (at > 0 && producers->open[at - 1].first_offset > first_offset) at--;
    memmove(producers->open + at + 1, producers->open + at,
            (producers->open_count - at) * sizeof *producers->open);
    producers->open[at] = (ol_open_transaction){first_offset, producer->producer_id};
    producers->open_count++;
}

static void close_transaction(ol_producers *producers, ol_producer *producer) {
    size_t at = 0;
    while (at < producers->open_count && producers->open[at].producer_id != producer->producer_id) {
        at++;
    }
    OL_ASSERT(at < producers->open_count);
    producers->open_count--;
    memmove(producers->open + at, producers->open + at + 1,
            (producers->open_count - at) * sizeof *producers->open);
    producer->transaction_first_offset = -1;
}

void ol_producers_restore(ol_producers *producers, const ol_producer *entry) {
    ol_producer *slot = find_or_add(producers, entry->producer_id);
    *slot = *entry;
    if (entry->transaction_first_offset < 0) return;
    OL_ASSERT(producers->open_count < producers->open_capacity);
    producers->open[producers->open_count++] =
        (ol_open_transaction){entry->transaction_first_offset, entry->producer_id};
}

int64_t ol_producers_first_open_offset(const ol_producers *producers) {
    return producers->open_count == 0 ? -1 : producers->open[0].first_offset;
}

/* ------------------------------------------------------------ batches */

/* Sequences wrap to 0 after 2^31 - 1; -1 stays -1. */
static int32_t last_sequence_of(const ol_batch *batch) {
    if (batch->base_sequence < 0) return -1;
    uint32_t delta = (uint32_t)(batch->last_offset - batch->base_offset);
    return (int32_t)(((uint32_t)batch->base_sequence + delta) & 0x7fffffffu);
}

/* A new epoch is like a new producer with the same id: nothing known about its batches holds any
 * longer. */
static void set_epoch(ol_producer *producer, int16_t epoch) {
    if (producer->epoch == epoch) return;
    producer->epoch = epoch;
    producer->last_sequence = -1;
    producer->last_offset = -1;
    producer->offset_delta = 0;
}

static void apply_data(ol_producers *producers, const ol_batch *batch) {
    ol_producer *producer = find_or_add(producers, batch->producer_id);
    set_epoch(producer, batch->producer_epoch);
    producer->last_sequence = last_sequence_of(batch);
    producer->last_offset = batch->last_offset;
    producer->offset_delta = (int32_t)(batch->last_offset - batch->base_offset);
    producer->timestamp = batch->max_timestamp;
    if (ol_batch_is_transactional(batch) && producer->transaction_first_offset < 0) {
        open_transaction(producers, producer, batch->base_offset);
    }
}

int ol_producers_apply_marker(ol_producers *producers, const ol_batch *batch, ol_control type,
                              int32_t coordinator_epoch, ol_producers_change *change,
                              ol_error *error) {
    if (change != NULL) memset(change, 0, sizeof *change);
    if (batch->producer_id < 0 || type == OL_CONTROL_OTHER) return OL_OK;
    int status = ol_producers_reserve(producers, 1, error);
    if (status != OL_OK) return status;
    ol_producer *producer = find_or_add(producers, batch->producer_id);
    int64_t first_offset = producer->transaction_first_offset;
    set_epoch(producer, batch->producer_epoch);
    producer->coordinator_epoch = coordinator_epoch;
    producer->timestamp = batch->max_timestamp;
    /* A marker without a transaction is legal: its producer wrote nothing to this partition. */
    if (first_offset < 0) return OL_OK;
    close_transaction(producers, producer);
    if (change == NULL) return OL_OK;
    int64_t still_open = ol_producers_first_open_offset(producers);
    change->completed = true;
    change->aborted = type == OL_CONTROL_ABORT;
    change->transaction = (ol_aborted_transaction){
        .producer_id = batch->producer_id,
        .first_offset = first_offset,
        .last_offset = batch->last_offset,
        .last_stable_offset = still_open >= 0 ? still_open : ol_batch_next_offset(batch),
    };
    return OL_OK;
}

/* Reads the one record of a control batch.  *empty: the cleaner left none. */
static int decode_marker(const ol_batch *batch, ol_control *type, int32_t *coordinator_epoch,
                         bool *empty, ol_error *error) {
    ol_records records;
    ol_record record;
    int status = ol_records_open(&records, batch, NULL, error);
    if (status != OL_OK) return status;
    status = ol_records_next(&records, &record, error);
    *empty = status == OL_END;
    if (status == OL_OK) status = ol_control_decode(&record, type, coordinator_epoch, error);
    ol_records_close(&records);
    return status == OL_END ? OL_OK : status;
}

int ol_producers_apply(ol_producers *producers, const ol_batch *batch, ol_producers_change *change,
                       ol_error *error) {
    if (change != NULL) memset(change, 0, sizeof *change);
    if (batch->magic < 2 || batch->producer_id < 0) return OL_OK;
    if (ol_batch_is_control(batch)) {
        ol_control type = OL_CONTROL_OTHER;
        int32_t coordinator_epoch = -1;
        bool empty;
        int status = decode_marker(batch, &type, &coordinator_epoch, &empty, error);
        if (status != OL_OK || empty) return status;
        return ol_producers_apply_marker(producers, batch, type, coordinator_epoch, change, error);
    }
    int status = ol_producers_reserve(producers, 1, error);
    if (status == OL_OK) apply_data(producers, batch);
    return status;
}
