/* front/offset_fetch.c: answers an OffsetFetch of one group.  The positions are written into the
 * answer while the table is locked. */
#include "base/java_string.h"
#include "front/front_impl.h"
#include "state/state.h"

enum {
    /* Versions of OffsetFetch. */
    WITHOUT_POSITION_UNKNOWN = 0,   /* the only version in which a missing position is an error */
    FETCH_OF_GROUPS = 8,        /* the first in which a request names any number of groups */
    WITH_MEMBER = 9,            /* the first in which a request may name a member */
    WITH_TOPIC_IDS = 10,        /* the first in which topics have ids in place of names */
};

/* A fetch of one group, in the form of one version or another. */
typedef struct asking {
    ol_front *front;
    ol_slice group;
    const ol_value *topics;
    bool of_groups;
    bool by_id;
    bool is_stable;  /* requireStable: positions that may still change are not answered */
    const ol_state *state;      /* NULL: nothing was ever committed */
    uint64_t group_hash;
} asking;

static size_t width_of(const asking *work) {
    return work->of_groups ? FETCH_TOPICS_WIDTH : FETCH_TOPIC_WIDTH;
}

static const ol_value *partitions_of(const asking *work, const ol_value *topic) {
    return &topic[work->of_groups ? FETCH_TOPICS_PARTITIONS : FETCH_TOPIC_PARTITIONS];
}

static bool name_of(const asking *work, const ol_value *topic, ol_slice *name) {
    if (!work->by_id) {
        *name = ol_value_slice(&topic[FETCH_TOPICS_NAME]);
        return ol_front_is_text(*name);
    }
    ol_known_topic *known =
        ol_known_topics_of_id(&work->front->topics, topic[FETCH_TOPICS_ID].bytes);
    if (known == NULL) return false;
    *name = ol_slice_of(known->name, known->name_size);
    return true;
}

/* Sets the answer for one partition; `pair` is 0 where group and topic have no positions. */
static void answer_position(const asking *work, uint32_t pair, int64_t number, ol_value *answer) {
    ol_position_value found;
    answer[FETCHED_INDEX] = ol_value_integer(number);
    answer[FETCHED_PARTITION_ERROR] = ol_value_integer(0);
    if (pair == 0 || number < 0 ||
        !ol_table_get_of_pair(work->state->table, pair, (int32_t)number, &found)) {
        answer[FETCHED_OFFSET] = answer[FETCHED_EPOCH] = ol_value_integer(-1);
        answer[FETCHED_METADATA] = ol_value_bytes(ol_slice_of("", 0));
        return;
    }
    answer[FETCHED_OFFSET] = ol_value_integer(found.offset);
    answer[FETCHED_EPOCH] = ol_value_integer(found.leader_epoch);
    answer[FETCHED_METADATA] =
        ol_value_bytes(found.metadata.size > 0 ? found.metadata : ol_slice_of("", 0));
}

static bool answer_topic(const asking *work, const ol_value *topic, ol_value *answer) {
    ol_slice topic_name;
    uint32_t pair = 0;
    const ol_value *partitions = partitions_of(work, topic);
    size_t count = (size_t)partitions->number;
    if (!name_of(work, topic, &topic_name)) return false;
    if (work->state != NULL) {
        const ol_table *table = work->state->table;
        ol_pair_name name = ol_table_name(table, work->group, work->group_hash, topic_name);
        pair = ol_table_find(table, &name);
    }
    ol_value *answers = ol_front_values(work->front, count * FETCHED_WIDTH);
    if (answers == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        answer_position(work, pair, partitions->values[i].number, &answers[i * FETCHED_WIDTH]);
    }
    answer[FETCHED_TOPIC_NAME] = topic[FETCH_TOPIC_NAME];
    if (work->of_groups) answer[FETCHED_TOPICS_ID] = topic[FETCH_TOPICS_ID];
    answer[work->of_groups ? FETCHED_TOPICS_PARTITIONS : FETCHED_TOPIC_PARTITIONS] =
        (ol_value){.number = partitions->number, .values = answers};
    return true;
}

static bool answer_topics(const asking *work, ol_value *answer) {
    size_t count = (size_t)work->topics->number;
    size_t width = work->of_groups ? FETCHED_TOPICS_WIDTH : FETCHED_TOPIC_WIDTH;
    ol_value *answers = ol_front_values(work->front, count * width);
    if (answers == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        if (!answer_topic(work, &work->topics->values[i * width_of(work)], &answers[i * width])) {
            return false;
        }
    }
    *answer = (ol_value){.number = work->topics->number, .values = answers};
    return true;
}

static size_t write_answer(const asking *work, const ol_request_header *header,
                           ol_answers *answers) {
    ol_value answer[FETCHED_ANSWER_WIDTH] = {0}, group[FETCHED_GROUP_WIDTH] = {0};
    if (work->of_groups) {
        group[FETCHED_GROUP_ID] = ol_value_bytes(work->group);
        answer[FETCHED_GROUPS] = (ol_value){.number = 1, .values = group};
    }
    ol_value *topics = work->of_groups ? &group[FETCHED_GROUP_TOPICS] : &answer[FETCHED_TOPICS];
    if (!answer_topics(work, topics)) return 0;
    return ol_front_write(work->front, header, answer, answers);
}

/* Returns whether a member of a modern group asks; the coordinator decides about such a request. */
static bool is_of_member(const ol_value *group, int16_t version) {
    return version >= WITH_MEMBER &&
           (group[FETCH_GROUP_MEMBER].number >= 0 || group[FETCH_GROUP_EPOCH].number >= 0);
}

/* Takes the one group of the request, and its topics.  A request for all topics is rare and
 * declined. */
static bool take_group(asking *work, const ol_value *request, int16_t version) {
    if (work->of_groups) {
        if (request[FETCH_GROUPS].number != 1) return false;
        const ol_value *group = request[FETCH_GROUPS].values;
        if (is_of_member(group, version)) return false;
        work->group = ol_value_slice(&group[FETCH_GROUP_ID]);
        work->topics = &group[FETCH_GROUP_TOPICS];
    } else {
        work->group = ol_value_slice(&request[FETCH_GROUP]);
        work->topics = &request[FETCH_TOPICS];
    }
    return work->topics->number >= 0 && ol_front_is_text(work->group);
}

static bool answer(asking *work, const ol_request_header *header, ol_answers *answers) {
    if (work->state != NULL) {
        work->group_hash = ol_table_group_hash(work->state->table, work->group);
        if (work->is_stable &&
            ol_pending_has_group(work->state->pending, work->group, work->group_hash)) {
            return false;
        }
    }
    size_t size = write_answer(work, header, answers);
    answers->size += size;
    return size > 0;
}

/* Returns whether there are records at or above W, which are not committed yet.  A fetch with
 * requireStable must wait until they are. */
static bool has_records_above_w(ol_partition *partition) {
    ol_positions positions;
    ol_partition_positions(partition, &positions);
    return positions.written > positions.watermark;
}

bool ol_front_fetch(ol_front *front, const ol_request_header *header, ol_slice body,
                    ol_partition *const *partitions, ol_answers *answers) {
    asking work = {.front = front,
                   .of_groups = header->api_version >= FETCH_OF_GROUPS,
                   .by_id = header->api_version >= WITH_TOPIC_IDS};
    if (header->api_version == WITHOUT_POSITION_UNKNOWN) return false;
    const ol_value *request = ol_front_read(front, header, body);
    if (request == NULL || !take_group(&work, request, header->api_version)) {
        return false;
    }
    work.is_stable = request[FETCH_STABLE].number != 0;
    int32_t number = ol_partition_for(work.group, front->partition_count);
    if (!front->is_led[number] || partitions[number] == NULL) return false;
    if (work.is_stable && has_records_above_w(partitions[number])) return false;
    ol_error ignored;
    /* The values point into the table, so the answer is written before the table is unlocked. */
    if (ol_partition_try_lock_state(partitions[number], &work.state, &ignored) != OL_OK) {
        return false;
    }
    bool is_answered = answer(&work, header, answers);
    ol_partition_unlock_state(partitions[number]);
    return is_answered;
}
