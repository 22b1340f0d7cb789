/* front/front.c: the front's life, and what its requests share. */
#include "front/front_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/java_string.h"

enum {
    SIZE_BYTES = 4,
    HEAD_MAX_BYTES = SIZE_BYTES + OL_RESPONSE_HEADER_MAX,
    ANSWERS_BYTES_MIN = 64 << 10,
    /* Small requests can ask for large answers, such as for the longest metadata again and
     * again. */
    ANSWERS_BYTES_MAX = 64 << 20,
};

/* ------------------------------------------------------------ places of fields */

static const ol_field *field_at(const ol_field *fields, int place, const char *name) {
    OL_ASSERT(strcmp(fields[place].name, name) == 0);
    return &fields[place];
}

static void check_commit(const ol_api *api) {
    const ol_field *request = api->request->fields, *response = api->response->fields;
    field_at(request, COMMIT_GROUP, "groupId");
    field_at(request, COMMIT_GENERATION, "generationIdOrMemberEpoch");
    field_at(request, COMMIT_MEMBER, "memberId");
    field_at(request, COMMIT_INSTANCE, "groupInstanceId");
    field_at(request, COMMIT_RETENTION, "retentionTimeMs");
    const ol_field *topic = field_at(request, COMMIT_TOPICS, "topics")->fields;
    field_at(topic, COMMIT_TOPIC_NAME, "name");
    field_at(topic, COMMIT_TOPIC_ID, "topicId");
    const ol_field *partition = field_at(topic, COMMIT_PARTITIONS, "partitions")->fields;
    field_at(partition, COMMIT_INDEX, "partitionIndex");
    field_at(partition, COMMIT_OFFSET, "committedOffset");
    field_at(partition, COMMIT_EPOCH, "committedLeaderEpoch");
    field_at(partition, COMMIT_TIMESTAMP, "commitTimestamp");
    field_at(partition, COMMIT_METADATA, "committedMetadata");
    OL_ASSERT(ol_message_width(topic) == COMMIT_TOPIC_WIDTH);
    OL_ASSERT(ol_message_width(partition) == COMMIT_WIDTH);
    topic = field_at(response, COMMITTED_TOPICS, "topics")->fields;
    partition = field_at(topic, COMMITTED_PARTITIONS, "partitions")->fields;
    field_at(partition, COMMITTED_ERROR, "errorCode");
    OL_ASSERT(ol_message_width(response) == COMMITTED_ANSWER_WIDTH);
    OL_ASSERT(ol_message_width(topic) == COMMITTED_TOPIC_WIDTH);
    OL_ASSERT(ol_message_width(partition) == COMMITTED_WIDTH);
}

static void check_fetch(const ol_api *api) {
    const ol_field *request = api->request->fields, *response = api->response->fields;
    field_at(request, FETCH_GROUP, "groupId");
    const ol_field *topic = field_at(request, FETCH_TOPICS, "topics")->fields;
    field_at(topic, FETCH_TOPIC_PARTITIONS, "partitionIndexes");
    OL_ASSERT(ol_message_width(topic) == FETCH_TOPIC_WIDTH);
    const ol_field *group = field_at(request, FETCH_GROUPS, "groups")->fields;
    field_at(request, FETCH_STABLE, "requireStable");
    topic = field_at(group, FETCH_GROUP_TOPICS, "topics")->fields;
    field_at(topic, FETCH_TOPICS_ID, "topicId");
    field_at(topic, FETCH_TOPICS_PARTITIONS, "partitionIndexes");
    OL_ASSERT(ol_message_width(topic) == FETCH_TOPICS_WIDTH);

    field_at(response, FETCHED_ERROR, "errorCode");
    OL_ASSERT(ol_message_width(response) == FETCHED_ANSWER_WIDTH);
    topic = field_at(response, FETCHED_TOPICS, "topics")->fields;
    OL_ASSERT(ol_message_width(topic) == FETCHED_TOPIC_WIDTH);
    const ol_field *partition = field_at(topic, FETCHED_TOPIC_PARTITIONS, "partitions")->fields;
    field_at(partition, FETCHED_METADATA, "metadata");
    OL_ASSERT(ol_message_width(partition) == FETCHED_WIDTH);
    group = field_at(response, FETCHED_GROUPS, "groups")->fields;
    field_at(group, FETCHED_GROUP_ERROR, "errorCode");
    OL_ASSERT(ol_message_width(group) == FETCHED_GROUP_WIDTH);
    topic = field_at(group, FETCHED_GROUP_TOPICS, "topics")->fields;
    OL_ASSERT(ol_message_width(topic) == FETCHED_TOPICS_WIDTH);
    partition = field_at(topic, FETCHED_TOPICS_PARTITIONS, "partitions")->fields;
    field_at(partition, FETCHED_PARTITION_ERROR, "errorCode");
    OL_ASSERT(ol_message_width(partition) == FETCHED_WIDTH);
}

static void check_heartbeat(const ol_api *api) {
    field_at(api->request->fields, HEARTBEAT_GROUP, "groupId");
    field_at(api->request->fields, HEARTBEAT_GENERATION, "generationId");
    field_at(api->request->fields, HEARTBEAT_MEMBER, "memberId");
    field_at(api->request->fields, HEARTBEAT_INSTANCE, "groupInstanceId");
    field_at(api->response->fields, BEATEN_ERROR, "errorCode");
    OL_ASSERT(ol_message_width(api->response->fields) == BEATEN_WIDTH);
}

/* ------------------------------------------------------------ life */

static ol_front_api messages_of(int16_t key) {
    const ol_api *api = ol_api_of_key(key);
    return (ol_front_api){.request.schema = api->request, .answer.schema = api->response};
}

static void free_messages(ol_front_api *api) {
    ol_forms_free(&api->request);
    ol_forms_free(&api->answer);
}

int ol_front_init(ol_front *front, int32_t partition_count, size_t metadata_units_max,
                  uint64_t seed, size_t admissions_max, ol_error *error) {
    check_commit(ol_api_of_key(OL_API_OFFSET_COMMIT));
    check_fetch(ol_api_of_key(OL_API_OFFSET_FETCH));
    check_heartbeat(ol_api_of_key(OL_API_HEARTBEAT));
    *front = (ol_front){.partition_count = partition_count,
                        .metadata_units_max = metadata_units_max,
                        .admissions = {.seed = seed,
                                       .limit = admissions_max,
                                       .counts = {.seed = seed,
                                                  .limit = OL_FRONT_COUNTED_GROUPS_MAX,
                                                  .bytes_limit = OL_FRONT_COUNTED_BYTES_MAX}},
                        .topics.seed = seed,
                        .pool.limit = OL_FRONT_VALUES_MAX,
                        .commits = messages_of(OL_API_OFFSET_COMMIT),
                        .fetches = messages_of(OL_API_OFFSET_FETCH),
                        .heartbeats = messages_of(OL_API_HEARTBEAT)};
    front->is_led = calloc((size_t)partition_count, sizeof *front->is_led);
    if (front->is_led == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a front");
    return OL_OK;
}

void ol_front_free(ol_front *front) {
    ol_admissions_free(&front->admissions);
    ol_known_topics_free(&front->topics);
    ol_value_pool_free(&front->pool);
    free_messages(&front->commits);
    free_messages(&front->fetches);
    free_messages(&front->heartbeats);
    free(front->is_led);
    free(front->items);
    *front = (ol_front){0};
}

typedef struct led_partition {
    const ol_front *front;
    int32_t number;
} led_partition;

static bool is_of_partition(void *context, ol_slice group) {
    const led_partition *led = context;
    return ol_partition_for(group, led->front->partition_count) == led->number;
}

void ol_front_set_led(ol_front *front, int32_t log_partition, bool is_led) {
    OL_ASSERT(log_partition >= 0 && log_partition < front->partition_count);
    front->is_led[log_partition] = is_led;
    led_partition led = {.front = front, .number = log_partition};
    if (!is_led) ol_admissions_revoke_if(&front->admissions, is_of_partition, &led);
}

/* ------------------------------------------------------------ requests */

bool ol_front_begin(ol_slice frame, ol_request_header *header, ol_slice *body) {
    if (frame.size < 2) return false;
    int16_t key = ol_load_i16(frame.data);
    if (key != OL_API_OFFSET_COMMIT && key != OL_API_OFFSET_FETCH && key != OL_API_HEARTBEAT) {
        return false;
    }
    size_t used;
    ol_error ignored;
    if (ol_request_header_read(frame, header, &used, &ignored) != OL_OK) return false;
    *body = ol_slice_of(frame.data + used, frame.size - used);
    return true;
}

static ol_front_api *api_of(ol_front *front, const ol_request_header *header) {
    switch (header->api_key) {
        case OL_API_OFFSET_COMMIT: return &front->commits;
        case OL_API_OFFSET_FETCH: return &front->fetches;
        default: OL_ASSERT(header->api_key == OL_API_HEARTBEAT); return &front->heartbeats;
    }
}

const ol_value *ol_front_read(ol_front *front, const ol_request_header *header, ol_slice body) {
    const ol_form *form;
    ol_value *message;
    ol_error ignored;
    ol_value_pool_clear(&front->pool);
    int status =
        ol_forms_get(&api_of(front, header)->request, header->api_version, &form, &ignored);
    if (status == OL_OK) {
        status = ol_message_read(form, body, &front->pool, &message, NULL, &ignored);
    }
    return status == OL_OK ? message : NULL;
}

bool ol_front_is_text(ol_slice name) {
    bool valid;
    (void)ol_utf16_units(name, &valid);
    return valid;
}

/* ------------------------------------------------------------ answers */

void ol_answers_free(ol_answers *answers) {
    free(answers->bytes);
    *answers = (ol_answers){0};
}

static bool reserve(ol_answers *answers, size_t size) {
    size_t needed = answers->size + size;
    if (needed <= answers->capacity) return true;
    if (needed > ANSWERS_BYTES_MAX) return false;
    size_t capacity = needed + needed / 2;
    if (capacity < ANSWERS_BYTES_MIN) capacity = ANSWERS_BYTES_MIN;
    if (capacity > ANSWERS_BYTES_MAX) capacity = ANSWERS_BYTES_MAX;
    uint8_t *bytes = realloc(answers->bytes, capacity);
    if (bytes == NULL) return false;
    answers->bytes = bytes;
    answers->capacity = capacity;
    return true;
}

/* Like ol_front_write, into the present buffer; 0: it is too small. */
static size_t write_answer(const ol_form *form, const ol_request_header *header,
                           const ol_value *answer, const ol_answers *answers) {
    size_t room = answers->capacity - answers->size, size;
    if (room < HEAD_MAX_BYTES) return 0;
    uint8_t *start = answers->bytes + answers->size;
    size_t head = SIZE_BYTES + ol_response_header_write(header, start + SIZE_BYTES);
    ol_error error;
    int status = ol_message_write(form, answer, start + head, room - head, &size, &error);
    if (status == OL_TOO_LARGE) return 0;
    OL_ASSERT(status == OL_OK);     /* the values are ours */
    ol_store_i32(start, (int32_t)(head - SIZE_BYTES + size));
    return head + size;
}

size_t ol_front_write(ol_front *front, const ol_request_header *header, const ol_value *answer,
                      ol_answers *answers) {
    const ol_form *form;
    ol_error ignored;
    int status =
        ol_forms_get(&api_of(front, header)->answer, header->api_version, &form, &ignored);
    if (status != OL_OK) return 0;
    size_t size = write_answer(form, header, answer, answers);
    /* This is rare, so the size of the answer is computed only now. */
    if (size > 0 || !reserve(answers, HEAD_MAX_BYTES + ol_message_size_max(form, answer))) {
        return size;
    }
    return write_answer(form, header, answer, answers);
}
