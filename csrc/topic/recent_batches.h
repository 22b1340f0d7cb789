/* topic/recent_batches: the last five batches of each idempotent producer, with which a log
 * compares new batches (docs/format/topics.md §17.2).
 *
 * A producer has at most five requests to a partition in flight.  A request that is sent again,
 * because its answer was lost, is recognised by its sequence numbers and gets the same answer as
 * the first time.  After an open the log knows the last batch of each producer
 * (log/files/producers.h), but not the four before it, unless the caller hands them over from the
 * closed log (ol_topic_log_swap_recent).
 *
 * Ownership: zeroed memory is an empty set, which owns its entries.  Locks: none; the owner of the
 * log holds its writer's lock.
 */
#ifndef OL_TOPIC_RECENT_BATCHES_H
#define OL_TOPIC_RECENT_BATCHES_H

#include "base/int64_map.h"
#include "log/log.h"
#include "topic/produced_batch.h"

enum { OL_RECENT_BATCHES = 5 };

typedef struct ol_recent_batch {
    int64_t base_offset;
    int64_t last_offset;
    int64_t timestamp;          /* greatest of the batch */
    int32_t base_sequence;
    int32_t last_sequence;
} ol_recent_batch;

typedef struct ol_recent_producer {
    int64_t producer_id;        /* -1: a free place */
    ol_recent_batch batches[OL_RECENT_BATCHES];     /* oldest first */
    int count;
    int16_t epoch;
} ol_recent_producer;

typedef struct ol_recent_batches {
    ol_recent_producer *producers;
    size_t count;
    size_t capacity;
    ol_int64_map places;        /* producer id + 1 -> index + 1 */
} ol_recent_batches;

void ol_recent_batches_free(ol_recent_batches *recent);

/* Checks whether the log may append the batch, which has a producer id and passed
 * ol_produced_batch_check.  If the log has the batch already, *duplicate is set to it (valid until
 * the next change) and OL_OK is returned.  If the log may append it, *duplicate is NULL, and memory
 * for ol_recent_batches_add is reserved.  Fails with OL_CORRUPT, a refusal and the reason if the
 * sequence numbers do not follow or the epoch is an older one, or with OL_NO_MEMORY. */
int ol_recent_batches_check(ol_recent_batches *recent, const ol_log *log,
                            ol_produced_batch *produced, const ol_recent_batch **duplicate,
                            ol_error *error) OL_NODISCARD;

/* Called when the batch is in the log, at `base_offset`. */
void ol_recent_batches_add(ol_recent_batches *recent, const ol_produced_batch *produced,
                           int64_t base_offset);

#endif
