/* front/front: the requests of running consumers, from bytes to bytes.
 *
 * Nearly all requests to a broker that serves positions are OffsetCommit, OffsetFetch and
 * Heartbeat, and nearly all of these need only the table and an admission (front/admissions).  The
 * front answers them.  It declines every other request with nothing changed; the general path,
 * which knows every rule, then handles it.  So the front never returns an error of the protocol.
 *
 * Ownership: the front owns its sets and the values of one request at a time.  Locks: none of its
 * own; it belongs to one thread.
 */
#ifndef OL_FRONT_FRONT_H
#define OL_FRONT_FRONT_H

#include "front/admissions.h"
#include "front/known_topics.h"
#include "partition/partition.h"
#include "wire/form.h"
#include "wire/header.h"

enum {
    OL_API_OFFSET_COMMIT = 8,
    OL_API_OFFSET_FETCH = 9,
    OL_API_HEARTBEAT = 12,
    OL_FRONT_VALUES_MAX = 1 << 20,      /* of a request and its answer; a value takes 16 bytes */
    OL_FRONT_COUNTED_GROUPS_MAX = 1 << 16,
    OL_FRONT_COUNTED_BYTES_MAX = 32 << 20,
};

/* Consecutive answers, each preceded by its size in four bytes. */
typedef struct ol_answers {
    uint8_t *bytes;
    size_t size;
    size_t capacity;
} ol_answers;

void ol_answers_free(ol_answers *answers);

/* The messages of OffsetCommit, OffsetFetch or Heartbeat, in every version. */
typedef struct ol_front_api {
    ol_forms request;
    ol_forms answer;
} ol_front_api;

typedef struct ol_front {
    ol_front_api commits;
    ol_front_api fetches;
    ol_front_api heartbeats;
    ol_admissions admissions;
    ol_known_topics topics;
    ol_value_pool pool;
    bool *is_led;  /* by log partition: this broker leads it, and its groups are known */
    int32_t partition_count;
    size_t metadata_units_max;  /* of one position, in UTF-16 units */
    uint64_t requests;          /* marks the topics that one request has named */
    ol_item *items;             /* of one request */
    size_t item_capacity;
} ol_front;

/* Makes an empty front for `partition_count` log partitions, none of which this broker leads.
 * Fails with OL_NO_MEMORY. */
int ol_front_init(ol_front *front, int32_t partition_count, size_t metadata_units_max,
                  uint64_t seed, size_t admissions_max, ol_error *error) OL_NODISCARD;
void ol_front_free(ol_front *front);

/* Sets whether this broker leads a log partition and knows its groups.  If not, the front declines
 * every OffsetFetch of these groups, and all their admissions are revoked. */
void ol_front_set_led(ol_front *front, int32_t log_partition, bool is_led);

/* Reads the header of a frame (without its size); returns true if the API is OffsetCommit,
 * OffsetFetch or Heartbeat. */
bool ol_front_begin(ol_slice frame, ol_request_header *header, ol_slice *body);

/* A commit that is admitted. */
typedef struct ol_front_commit {
    /* borrowed from the frame and the front; valid until the front's next call */
    const ol_item *items;
    size_t count;
    int32_t log_partition;
    ol_admission *admission;
    /* the answer is written, but not counted in ol_answers.size until ol_front_end_commit */
    size_t answer_size;
} ol_front_commit;

/* Reads an OffsetCommit, and writes its answer after the others without counting it yet; `now` is
 * in ms since 1970.  Returns false if the front declines the request.  Otherwise the caller commits
 * the items and then calls ol_front_end_commit, or drops the commit and begins another request. */
bool ol_front_begin_commit(ol_front *front, const ol_request_header *header, ol_slice body,
                           int64_t now, ol_front_commit *commit, ol_answers *answers);

/* Counts the answer that ol_front_begin_commit wrote, records that the member was heard from at
 * `at` (in seconds), and counts the commit for its group. */
void ol_front_end_commit(const ol_front_commit *commit, double at, ol_answers *answers);

/* Appends the answer of an OffsetFetch of one group; `partitions` holds the log partitions by
 * number, NULL for one that was never written to.  Returns false if the front declines the
 * request. */
bool ol_front_fetch(ol_front *front, const ol_request_header *header, ol_slice body,
                    ol_partition *const *partitions, ol_answers *answers);

/* Appends the answer of a Heartbeat that came at `at`, in seconds.  Returns false if the front
 * declines the request. */
bool ol_front_heartbeat(ol_front *front, const ol_request_header *header, ol_slice body, double at,
                        ol_answers *answers);

#endif
