/* Keeps an array of producers, and a map from a producer id to an index in the array.  When the
 * array is full, producers that the log has forgotten are removed. */
#include "topic/recent_batches.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void ol_recent_batches_free(ol_recent_batches *recent) {
    free(recent->producers);
    ol_int64_map_free(&recent->places);
    memset(recent, 0, sizeof *recent);
}

static uint64_t key_of(int64_t producer_id) { return (uint64_t)producer_id + 1; }

static ol_recent_producer *find(const ol_recent_batches *recent, int64_t producer_id) {
    uint64_t place = ol_int64_map_get(&recent->places, key_of(producer_id));
    return place == 0 ? NULL : &recent->producers[place - 1];
}

/* Sequences wrap to 0 after 2^31 - 1. */
static int32_t sequence_after(int32_t sequence, int64_t distance) {
    return (int32_t)(((uint32_t)sequence + (uint32_t)distance) & 0x7fffffffu);
}

static int32_t last_sequence_of(const ol_batch *batch) {
    return sequence_after(batch->base_sequence, batch->last_offset - batch->base_offset);
}

/* ------------------------------------------------------------ room */

static void forget_expired(ol_recent_batches *recent, const ol_log *log) {
    ol_log_last_batch ignored;
    size_t kept = 0;
    for (size_t i = 0; i < recent->count; i++) {
        ol_recent_producer *producer = &recent->producers[i];
        bool is_known = ol_log_last_batch_of(log, producer->producer_id, &ignored);
        if (is_known && kept != i) recent->producers[kept] = *producer;
        uint64_t place = is_known ? ++kept : 0;
        ol_int64_map_set(&recent->places, key_of(recent->producers[i].producer_id), place);
    }
    recent->count = kept;
}

static int make_room(ol_recent_batches *recent, const ol_log *log, ol_error *error) {
    if (recent->count < recent->capacity) return OL_OK;
    forget_expired(recent, log);
    if (2 * recent->count < recent->capacity) return OL_OK;
    size_t capacity = recent->capacity == 0 ? 16 : 2 * recent->capacity;
    int status = ol_int64_map_reserve(&recent->places, capacity, error);
    if (status != OL_OK) return status;
    ol_recent_producer *larger = realloc(recent->producers, capacity * sizeof *larger);
    if (larger == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu producers", capacity);
    }
    recent->producers = larger;
    recent->capacity = capacity;
    return OL_OK;
}

/* Adds a producer with its last batch, which is all that the log knows of it. */
static void enter(ol_recent_batches *recent, int64_t producer_id, bool is_known,
                  const ol_log_last_batch *last) {
    ol_recent_producer *producer = &recent->producers[recent->count++];
    *producer = (ol_recent_producer){.producer_id = producer_id, .epoch = -1};
    ol_int64_map_set(&recent->places, key_of(producer_id), recent->count);
    if (!is_known) return;
    producer->epoch = last->epoch;
    if (last->last_sequence < 0) return;
    producer->count = 1;
    producer->batches[0] = (ol_recent_batch){
        .base_offset = last->last_offset - last->offset_delta,
        .last_offset = last->last_offset,
        .timestamp = last->timestamp,
        .base_sequence = sequence_after(last->last_sequence, -(int64_t)last->offset_delta),
        .last_sequence = last->last_sequence,
    };
}

/* ------------------------------------------------------------ the rules */

static const ol_recent_batch *duplicate_of(const ol_recent_producer *producer,
                                           const ol_batch *batch) {
    if (producer->epoch != batch->producer_epoch) return NULL;
    int32_t last = last_sequence_of(batch);
    for (int i = 0; i < producer->count; i++) {
        const ol_recent_batch *known = &producer->batches[i];
        if (known->base_sequence == batch->base_sequence && known->last_sequence == last) {
            return known;
        }
    }
    return NULL;
}

static int refuse_sequence(ol_produced_batch *produced, int32_t due, ol_error *error) {
    const ol_batch *batch = &produced->batch;
    produced->refusal = OL_PRODUCE_OUT_OF_ORDER_SEQUENCE;
    return ol_fail(error, OL_CORRUPT,
                   "producer %" PRId64 " in epoch %d sent sequence %d, but %d is expected",
                   batch->producer_id, batch->producer_epoch, batch->base_sequence, due);
}

static int check_sequence(const ol_recent_producer *producer, ol_produced_batch *produced,
                          ol_error *error) {
    const ol_batch *batch = &produced->batch;
    if (producer->epoch < 0) return OL_OK;      /* the log has forgotten it, or never knew it */
    if (batch->producer_epoch < producer->epoch) {
        produced->refusal = OL_PRODUCE_INVALID_PRODUCER_EPOCH;
        return ol_fail(error, OL_CORRUPT,
                       "producer %" PRId64 " is in epoch %d, but its batch has epoch %d",
                       batch->producer_id, producer->epoch, batch->producer_epoch);
    }
    bool is_new_epoch = batch->producer_epoch != producer->epoch || producer->count == 0;
    int32_t due =
        is_new_epoch ? 0 : sequence_after(producer->batches[producer->count - 1].last_sequence, 1);
    return batch->base_sequence == due ? OL_OK : refuse_sequence(produced, due, error);
}

int ol_recent_batches_check(ol_recent_batches *recent, const ol_log *log,
                            ol_produced_batch *produced, const ol_recent_batch **duplicate,
                            ol_error *error) {
    int64_t producer_id = produced->batch.producer_id;
    ol_log_last_batch last;
    bool is_known = ol_log_last_batch_of(log, producer_id, &last);
    *duplicate = NULL;
    ol_recent_producer *producer = find(recent, producer_id);
    if (producer == NULL) {
        int status = make_room(recent, log, error);
        if (status != OL_OK) return status;
        enter(recent, producer_id, is_known, &last);
        producer = find(recent, producer_id);
    } else if (!is_known) {
        producer->epoch = -1;
        producer->count = 0;
    }
    *duplicate = duplicate_of(producer, &produced->batch);
    return *duplicate != NULL ? OL_OK : check_sequence(producer, produced, error);
}

void ol_recent_batches_add(ol_recent_batches *recent, const ol_produced_batch *produced,
                           int64_t base_offset, int64_t max_timestamp) {
    const ol_batch *batch = &produced->batch;
    ol_recent_producer *producer = find(recent, batch->producer_id);
    OL_ASSERT(producer != NULL);
    if (producer->epoch != batch->producer_epoch) producer->count = 0;
    producer->epoch = batch->producer_epoch;
    if (producer->count == OL_RECENT_BATCHES) {
        producer->count--;
        memmove(producer->batches, producer->batches + 1,
                (OL_RECENT_BATCHES - 1) * sizeof *producer->batches);
    }
    producer->batches[producer->count++] = (ol_recent_batch){
        .base_offset = base_offset,
        .last_offset = base_offset + (batch->last_offset - batch->base_offset),
        .timestamp = max_timestamp,
        .base_sequence = batch->base_sequence,
        .last_sequence = last_sequence_of(batch),
    };
}
