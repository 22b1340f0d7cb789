/* front/front: answers the most frequent requests of consumers, from the bytes of the request to
 * the bytes of the answer.
 *
 * Nearly all requests to a broker that serves positions are OffsetCommit, OffsetFetch and
 * Heartbeat.  To answer nearly all of these, the front needs only the table of positions and an
 * admission (front/admissions), which says that the member may commit.  The front declines every
 * other request: it returns false and changes nothing.  The caller then passes the request to the
 * general path, which implements the whole protocol.  The front therefore never answers with an
 * error code.
 *
 * Ownership: the front owns its sets and the values of one request at a time.  The front has no
 * locks of its own.  Only one thread may use it.
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
    OL_FRONT_VALUES_MAX = 1 << 20,      /* values (16 bytes each) of a request and its answer */
    OL_FRONT_COUNTED_GROUPS_MAX = 1 << 16,
    OL_FRONT_COUNTED_BYTES_MAX = 32 << 20,
};

/* A buffer of answers, one after the other.  Before each answer, four bytes contain its size. */
typedef struct ol_answers {
    uint8_t *bytes;
    size_t size;
    size_t capacity;
} ol_answers;

void ol_answers_free(ol_answers *answers);

/* The layouts of the request and of the answer, in every version of one API: OffsetCommit,
 * OffsetFetch or Heartbeat. */
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
    bool *is_led;  /* by log partition: whether this broker leads it and knows its groups */
    int32_t partition_count;
    size_t metadata_units_max;  /* of one position, in UTF-16 units */
    uint64_t requests;          /* number of the last request; marks the topics that it names */
    ol_item *items;             /* of one request */
    size_t item_capacity;
} ol_front;

/* Makes an empty front for `partition_count` log partitions, none of which this broker leads.
 * Fails with OL_NO_MEMORY. */
int ol_front_init(ol_front *front, int32_t partition_count, size_t metadata_units_max,
                  uint64_t seed, size_t admissions_max, ol_error *error) OL_NODISCARD;
void ol_front_free(ol_front *front);

/* Sets whether this broker leads a log partition and knows its groups.  If `is_led` is false, the
 * front revokes all admissions of the groups of the log partition and declines every OffsetFetch of
 * these groups. */
void ol_front_set_led(ol_front *front, int32_t log_partition, bool is_led);

/* Reads the header of a frame and sets *body to the bytes after the header.  `frame` does not
 * include the four bytes of the size.  Returns true if the API is OffsetCommit, OffsetFetch or
 * Heartbeat, and the header is valid and has a supported version.  Otherwise the general path must
 * handle the frame. */
bool ol_front_begin(ol_slice frame, ol_request_header *header, ol_slice *body);

/* A commit that is admitted. */
typedef struct ol_front_commit {
    /* The items point into the frame and into the front.  They are valid until the next call of
     * the front. */
    const ol_item *items;
    size_t count;
    int32_t log_partition;
    ol_admission *admission;
    /* the answer is written, but not counted in ol_answers.size until ol_front_end_commit */
    size_t answer_size;
} ol_front_commit;

/* Reads an OffsetCommit, and writes its answer after the last one in `answers`, without adding the
 * size of the answer to answers->size.  `now` is in ms since 1970.  Returns false if the front
 * declines the request.  If it returns true, the caller commits the items and then calls
 * ol_front_end_commit.  To drop the commit instead, the caller begins another request. */
bool ol_front_begin_commit(ol_front *front, const ol_request_header *header, ol_slice body,
                           int64_t now, ol_front_commit *commit, ol_answers *answers);

/* Adds the size of the answer that ol_front_begin_commit wrote to answers->size, records that the
 * member was heard from at the time `at` (in seconds), and counts the commit for its group. */
void ol_front_end_commit(const ol_front_commit *commit, double at, ol_answers *answers);

/* Appends the answer of an OffsetFetch of one group.  partitions[i] is log partition i, or NULL if
 * that log partition was never written to.  Returns false if the front declines the request. */
bool ol_front_fetch(ol_front *front, const ol_request_header *header, ol_slice body,
                    ol_partition *const *partitions, ol_answers *answers);

/* Appends the answer of a Heartbeat that came at `at`, in seconds.  Returns false if the front
 * declines the request. */
bool ol_front_heartbeat(ol_front *front, const ol_request_header *header, ol_slice body, double at,
                        ol_answers *answers);

#endif
