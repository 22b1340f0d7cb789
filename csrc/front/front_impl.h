/* Shared by the files in front/: the positions of the fields of requests and answers, and the
 * functions that read a request and write an answer. */
#ifndef OL_FRONT_FRONT_IMPL_H
#define OL_FRONT_FRONT_IMPL_H

#include "front/front.h"
#include "wire/message.h"

/* The positions of fields in wire/tables_offsets.c and wire/tables_groups.c; ol_front_init checks
 * that each position still has the field with the expected name. */
enum {
    COMMIT_GROUP,
    COMMIT_GENERATION,
    COMMIT_MEMBER,
    COMMIT_INSTANCE,
    COMMIT_RETENTION,
    COMMIT_TOPICS,
};
enum { COMMIT_TOPIC_NAME, COMMIT_TOPIC_ID, COMMIT_PARTITIONS, COMMIT_TOPIC_WIDTH };
enum { COMMIT_INDEX, COMMIT_OFFSET, COMMIT_EPOCH, COMMIT_TIMESTAMP, COMMIT_METADATA, COMMIT_WIDTH };

enum { COMMITTED_TOPICS = 1, COMMITTED_ANSWER_WIDTH };
enum { COMMITTED_TOPIC_NAME, COMMITTED_TOPIC_ID, COMMITTED_PARTITIONS, COMMITTED_TOPIC_WIDTH };
enum { COMMITTED_INDEX, COMMITTED_ERROR, COMMITTED_WIDTH };

enum { FETCH_GROUP, FETCH_TOPICS, FETCH_GROUPS, FETCH_STABLE };
enum { FETCH_TOPIC_NAME, FETCH_TOPIC_PARTITIONS, FETCH_TOPIC_WIDTH };
enum { FETCH_GROUP_ID, FETCH_GROUP_MEMBER, FETCH_GROUP_EPOCH, FETCH_GROUP_TOPICS };
enum { FETCH_TOPICS_NAME, FETCH_TOPICS_ID, FETCH_TOPICS_PARTITIONS, FETCH_TOPICS_WIDTH };

enum { FETCHED_TOPICS = 1, FETCHED_ERROR, FETCHED_GROUPS, FETCHED_ANSWER_WIDTH };
enum { FETCHED_TOPIC_NAME, FETCHED_TOPIC_PARTITIONS, FETCHED_TOPIC_WIDTH };
enum { FETCHED_GROUP_ID, FETCHED_GROUP_TOPICS, FETCHED_GROUP_ERROR, FETCHED_GROUP_WIDTH };
enum { FETCHED_TOPICS_NAME, FETCHED_TOPICS_ID, FETCHED_TOPICS_PARTITIONS, FETCHED_TOPICS_WIDTH };
enum {
    FETCHED_INDEX,
    FETCHED_OFFSET,
    FETCHED_EPOCH,
    FETCHED_METADATA,
    FETCHED_PARTITION_ERROR,
    FETCHED_WIDTH,
};

enum { HEARTBEAT_GROUP, HEARTBEAT_GENERATION, HEARTBEAT_MEMBER, HEARTBEAT_INSTANCE };
enum { BEATEN_THROTTLE, BEATEN_ERROR, BEATEN_WIDTH };

/* Clears the front's pool of values and reads the body of a request into it.  Returns NULL if the
 * body is incomplete or too large; the general path then reports the error. */
const ol_value *ol_front_read(ol_front *front, const ol_request_header *header, ol_slice body);

/* Takes `count` values from the pool for the caller to set.  Returns NULL if the pool has fewer. */
static inline ol_value *ol_front_values(ol_front *front, size_t count) {
    ol_value *values;
    ol_error ignored;
    int status = ol_value_pool_take_unset(&front->pool, count, &values, &ignored);
    return status == OL_OK ? values : NULL;
}

/* Writes an answer after the last one in `answers`, without adding its size to answers->size, and
 * returns its size.  Returns 0 if memory is short, or if all answers together would exceed 64
 * MiB. */
size_t ol_front_write(ol_front *front, const ol_request_header *header, const ol_value *answer,
                      ol_answers *answers);

/* Returns whether the bytes are well-formed UTF-8 (ol_utf16_units). */
bool ol_front_is_text(ol_slice name);

#endif
