/* topic/recent_batches: the last five batches of each idempotent producer.  A new batch of the
 * producer is compared with them (docs/format/topics.md §17.2).
 *
 * A producer has at most five requests to a partition in flight.  If the answer to a request was
 * lost, the producer sends the request again.  The log recognises the request by its sequence
 * numbers and gives the same answer as the first time.  When a log is opened, it knows the last
 * batch of each producer (log/files/producers.h), but not the four batches before it.  A caller
 * that closes and reopens a log can hand these batches over with ol_topic_log_swap_recent.
 *
 * Ownership: zeroed memory is an empty set, which owns its entries.  The set takes no locks; the
 * caller holds the writer lock of the topic log.
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
    int64_t timestamp;          /* greatest of the batch, as it is in the log */
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

/* Checks whether a batch may be appended to the log.  The batch has a producer id, and
 * ol_produced_batch_check has accepted it.  If the log already has the batch, *duplicate points to
 * its entry, which is valid until the set is next changed.  If the batch may be appended,
 * *duplicate is NULL, and the memory for ol_recent_batches_add is reserved.  In both cases the
 * result is OL_OK.  The call fails with OL_CORRUPT, and sets produced->refusal and error->reason,
 * if one of these is so:
 *
 *   - the producer epoch is older than the producer's last one;
 *   - the sequence numbers do not continue those of the producer's last batch;
 *   - the producer epoch is new, and its sequence numbers do not begin with 0.
 *
 * The call can also fail with OL_NO_MEMORY. */
int ol_recent_batches_check(ol_recent_batches *recent, const ol_log *log,
                            ol_produced_batch *produced, const ol_recent_batch **duplicate,
                            ol_error *error) OL_NODISCARD;

/* Adds a batch.  The caller calls it after it has appended the batch to the log at
 * `base_offset`.  `max_timestamp` is the greatest timestamp that the batch has in the log: the
 * append time if the topic replaces the producer's timestamps. */
void ol_recent_batches_add(ol_recent_batches *recent, const ol_produced_batch *produced,
                           int64_t base_offset, int64_t max_timestamp);

#endif
