/* front/offset_commit.c: makes the items and the answer of an OffsetCommit from its values. */
#include <stdlib.h>

#include "base/java_string.h"
#include "front/front_impl.h"

enum {
    /* Versions of OffsetCommit. */
    WITH_TIMESTAMPS = 1,        /* the only version in which each position has a timestamp */
    WITH_TOPIC_IDS = 10,        /* the first in which topics have ids in place of names */
};

/* One request that is being turned into items. */
typedef struct reading {
    ol_front *front;
    ol_slice group;
    int64_t expire_timestamp;
    bool by_id;
    size_t count;
} reading;

static bool reserve_items(ol_front *front, size_t count) {
    if (count <= front->item_capacity) return true;
    size_t capacity = count + count / 2 + 16;
    ol_item *items = realloc(front->items, capacity * sizeof *items);
    if (items == NULL) return false;
    front->items = items;
    front->item_capacity = capacity;
    return true;
}

/* Returns the topic, unless another part of the request has already named it. */
static ol_known_topic *topic_of(reading *work, const ol_value *topic) {
    ol_front *front = work->front;
    ol_known_topic *known =
        work->by_id ? ol_known_topics_of_id(&front->topics, topic[COMMIT_TOPIC_ID].bytes)
                    : ol_known_topics_of_name(&front->topics,
                                              ol_value_slice(&topic[COMMIT_TOPIC_NAME]));
    if (known == NULL || known->mark == front->requests) return NULL;
    known->mark = front->requests;
    return known;
}

static bool take_metadata(const ol_front *front, const ol_value *value, ol_slice *metadata) {
    *metadata = ol_value_slice(value);
    if (value->number <= 0) {
        *metadata = ol_slice_of("", 0);
        return true;
    }
    bool valid;
    return ol_utf16_units(*metadata, &valid) <= front->metadata_units_max && valid;
}

static bool take_position(reading *work, const ol_known_topic *topic, const ol_value *position) {
    int64_t index = position[COMMIT_INDEX].number;
    if (index < 0 || index >= topic->partitions) return false;
    ol_item *item = &work->front->items[work->count++];
    *item = (ol_item){.group = work->group,
                      .topic = ol_slice_of(topic->name, topic->name_size),
                      .partition = (int32_t)index,
                      .kind = OL_ITEM_POSITION,
                      .offset = position[COMMIT_OFFSET].number,   /* also below 0, as Kafka */
                      .commit_timestamp = -1,
                      .expire_timestamp = work->expire_timestamp,
                      .leader_epoch = (int32_t)position[COMMIT_EPOCH].number,
                      .topic_id = topic->id};
    return take_metadata(work->front, &position[COMMIT_METADATA], &item->metadata);
}

static bool answer_topic(reading *work, const ol_value *topic, ol_value *answer) {
    const ol_value *asked = &topic[COMMIT_PARTITIONS];
    size_t count = (size_t)asked->number;
    ol_value *partitions = ol_front_values(work->front, count * COMMITTED_WIDTH);
    if (partitions == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        ol_value *partition = &partitions[i * COMMITTED_WIDTH];
        partition[COMMITTED_INDEX] = asked->values[i * COMMIT_WIDTH + COMMIT_INDEX];
        partition[COMMITTED_ERROR] = ol_value_integer(0);
    }
    answer[COMMITTED_TOPIC_NAME] = topic[COMMIT_TOPIC_NAME];
    answer[COMMITTED_TOPIC_ID] = topic[COMMIT_TOPIC_ID];
    answer[COMMITTED_PARTITIONS] = (ol_value){.number = asked->number, .values = partitions};
    return true;
}

static bool take_topic(reading *work, const ol_value *topic, ol_value *answer) {
    const ol_known_topic *known = topic_of(work, topic);
    const ol_value *partitions = &topic[COMMIT_PARTITIONS];
    /* A topic without partitions must be left out of the answer.  That is rare, so the general path
     * does it. */
    if (known == NULL || partitions->number <= 0) return false;
    if (!reserve_items(work->front, work->count + (size_t)partitions->number)) return false;
    for (int64_t i = 0; i < partitions->number; i++) {
        if (!take_position(work, known, &partitions->values[i * COMMIT_WIDTH])) return false;
    }
    return answer_topic(work, topic, answer);
}

/* Makes the items of all topics, and their answers. */
static bool take_topics(reading *work, const ol_value *topics, ol_value *answer) {
    ol_value *answered =
        ol_front_values(work->front, (size_t)topics->number * COMMITTED_TOPIC_WIDTH);
    if (answered == NULL) return false;
    for (int64_t i = 0; i < topics->number; i++) {
        if (!take_topic(work, &topics->values[i * COMMIT_TOPIC_WIDTH],
                        &answered[i * COMMITTED_TOPIC_WIDTH])) {
            return false;
        }
    }
    *answer = (ol_value){.number = topics->number, .values = answered};
    return true;
}

static ol_admission *admission_of(const ol_front *front, const ol_value *request) {
    ol_admission_key key = {.group = ol_value_slice(&request[COMMIT_GROUP]),
                            .generation = (int32_t)request[COMMIT_GENERATION].number,
                            .member_id = ol_value_slice(&request[COMMIT_MEMBER]),
                            .group_instance_id = ol_value_slice(&request[COMMIT_INSTANCE])};
    return ol_admissions_find(&front->admissions, &key);
}

bool ol_front_begin_commit(ol_front *front, const ol_request_header *header, ol_slice body,
                           int64_t now, ol_front_commit *commit, ol_answers *answers) {
    if (header->api_version == WITH_TIMESTAMPS) return false;
    const ol_value *request = ol_front_read(front, header, body);
    if (request == NULL || request[COMMIT_TOPICS].number <= 0) return false;
    commit->admission = admission_of(front, request);
    if (commit->admission == NULL) return false;
    int64_t retention = request[COMMIT_RETENTION].number;
    if (retention < -1 || retention > INT64_MAX - now) return false;
    reading work = {.front = front,
                    .group = ol_value_slice(&request[COMMIT_GROUP]),
                    .expire_timestamp = retention < 0 ? -1 : now + retention,
                    .by_id = header->api_version >= WITH_TOPIC_IDS};
    front->requests++;
    ol_value answer[COMMITTED_ANSWER_WIDTH] = {0};
    if (!take_topics(&work, &request[COMMIT_TOPICS], &answer[COMMITTED_TOPICS])) return false;
    commit->answer_size = ol_front_write(front, header, answer, answers);
    if (commit->answer_size == 0) return false;
    commit->items = front->items;
    commit->count = work.count;
    commit->log_partition = ol_partition_for(work.group, front->partition_count);
    return true;
}

void ol_front_end_commit(const ol_front_commit *commit, double at, ol_answers *answers) {
    ol_admission_hear(commit->admission, at);
    ol_admission_count_commit(commit->admission);
    answers->size += commit->answer_size;
}
