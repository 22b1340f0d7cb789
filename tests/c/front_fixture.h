/* front_fixture: a front with one partition, a group with a member, topics that are known; frames of the three requests in every
 * version, and their way through the front as the server goes it. */
#ifndef FRONT_FIXTURE_H
#define FRONT_FIXTURE_H

#include "base/bytes.h"
#include "front/front.h"
#include "message_defaults.h"
#include "partition_fixture.h"

enum { FRAME_MAX = 1 << 12, FIXTURE_PARTITIONS = 3, FIXTURE_GENERATION = 4, FIXTURE_SEED = 99, METADATA_UNITS_MAX = 10 };

static const uint8_t fixture_topic_id[OL_TOPIC_ID_SIZE] = "0123456789abcde";

typedef struct front_fixture {
    ol_front front;
    ol_partition *partition;
    ol_answers answers;
    uint64_t commits;
} front_fixture;

static const int16_t fixture_keys[] = {OL_API_OFFSET_COMMIT, OL_API_OFFSET_FETCH, OL_API_HEARTBEAT};

/* The fields of a request; the defaults are those of a member that commits "m" at offset 5 of partition 1. */
typedef struct asking {
    int16_t key, version;
    const char *group, *member, *instance, *topic, *metadata;   /* instance, metadata: NULL is null */
    const uint8_t *topic_id;
    int32_t generation, partition, epoch;
    int64_t offset, retention;
    size_t topics, partitions;                                  /* how often each is named */
} asking;

static asking asking_of(int16_t key, int16_t version) {
    return (asking){.key = key, .version = version, .group = "group", .member = "member", .topic = "orders",
                    .metadata = "m", .topic_id = fixture_topic_id, .generation = FIXTURE_GENERATION, .partition = 1,
                    .epoch = 2, .offset = 5, .retention = -1, .topics = 1, .partitions = 1};
}

static ol_admission_key admission_key(const asking *each) {
    return (ol_admission_key){.group = text(each->group), .member_id = text(each->member), .generation = each->generation,
                              .group_instance_id = each->instance != NULL ? text(each->instance) : ol_slice_null()};
}

static front_fixture open_front(ol_partition *partition) {
    front_fixture fixture = {.partition = partition};
    ol_error error;
    OL_CHECK_OK(ol_front_init(&fixture.front, 1, METADATA_UNITS_MAX, FIXTURE_SEED, 100, &error), &error);
    OL_CHECK_OK(ol_known_topics_put(&fixture.front.topics, text("orders"), fixture_topic_id, FIXTURE_PARTITIONS, &error), &error);
    asking each = asking_of(OL_API_HEARTBEAT, 4);
    ol_admission_key key = admission_key(&each);
    OL_CHECK_OK(ol_admissions_add(&fixture.front.admissions, &key, &error), &error);
    /* Versions before 1 and 3 have no generation, or no instance: of nobody. */
    each.generation = -1, each.member = "";
    key = admission_key(&each);
    OL_CHECK_OK(ol_admissions_add(&fixture.front.admissions, &key, &error), &error);
    ol_front_set_led(&fixture.front, 0, true);
    return fixture;
}

static void close_front(front_fixture *fixture) {
    ol_front_free(&fixture->front);
    ol_answers_free(&fixture->answers);
}

/* ---------------------------------------------------------------------------------------------------------------- frames */

static ol_value *field_of(const ol_field *fields, ol_value *values, const char *name) {
    for (size_t i = 0; fields[i].name != NULL; i++) {
        if (strcmp(fields[i].name, name) == 0) return &values[i];
    }
    OL_CHECK(!"a field of this name");
    return NULL;
}

static const ol_field *fields_in(const ol_field *fields, const char *name) {
    for (; fields->name != NULL; fields++) {
        if (strcmp(fields->name, name) == 0) return fields->fields;
    }
    OL_CHECK(!"a list of this name");
    return NULL;
}

static ol_value text_or_null(const char *string) {
    return ol_value_bytes(string != NULL ? text(string) : ol_slice_null());
}

/* `count` elements with their defaults. */
static ol_value *array_of(ol_value_pool *pool, const ol_field *fields, ol_value *array, size_t count) {
    ol_error error;
    size_t width = ol_message_width(fields);
    OL_CHECK_OK(ol_value_pool_take(pool, count * width, &array->values, &error), &error);
    array->number = (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        ol_value *defaults = message_defaults(fields, pool);
        memcpy(&array->values[i * width], defaults, width * sizeof *defaults);
    }
    return array->values;
}

static void fill_commit(const asking *each, ol_value_pool *pool, const ol_field *fields, ol_value *values) {
    *field_of(fields, values, "generationIdOrMemberEpoch") = ol_value_integer(each->generation);
    *field_of(fields, values, "memberId") = text_or_null(each->member);
    *field_of(fields, values, "groupInstanceId") = text_or_null(each->instance);
    *field_of(fields, values, "retentionTimeMs") = ol_value_integer(each->retention);
    const ol_field *of_topic = fields_in(fields, "topics"), *of_partition = fields_in(of_topic, "partitions");
    ol_value *topic = array_of(pool, of_topic, field_of(fields, values, "topics"), each->topics);
    for (size_t i = 0; i < each->topics; i++, topic += ol_message_width(of_topic)) {
        *field_of(of_topic, topic, "name") = text(each->topic).size > 0 ? text_or_null(each->topic) : (ol_value){0};
        *field_of(of_topic, topic, "topicId") = ol_value_bytes(ol_slice_of(each->topic_id, OL_TOPIC_ID_SIZE));
        ol_value *partition = array_of(pool, of_partition, field_of(of_topic, topic, "partitions"), each->partitions);
        for (size_t j = 0; j < each->partitions; j++, partition += ol_message_width(of_partition)) {
            *field_of(of_partition, partition, "partitionIndex") = ol_value_integer(each->partition);
            *field_of(of_partition, partition, "committedOffset") = ol_value_integer(each->offset);
            *field_of(of_partition, partition, "committedLeaderEpoch") = ol_value_integer(each->epoch);
            *field_of(of_partition, partition, "committedMetadata") = text_or_null(each->metadata);
        }
    }
}

static void fill_topics(const asking *each, ol_value_pool *pool, const ol_field *fields, ol_value *values, bool has_ids) {
    const ol_field *of_topic = fields_in(fields, "topics");
    ol_value *topic = array_of(pool, of_topic, field_of(fields, values, "topics"), each->topics);
    for (size_t i = 0; i < each->topics; i++, topic += ol_message_width(of_topic)) {
        ol_error error;
        *field_of(of_topic, topic, "name") = text_or_null(each->topic);
        if (has_ids) *field_of(of_topic, topic, "topicId") = ol_value_bytes(ol_slice_of(each->topic_id, OL_TOPIC_ID_SIZE));
        ol_value *numbers = field_of(of_topic, topic, "partitionIndexes");
        OL_CHECK_OK(ol_value_pool_take(pool, each->partitions, &numbers->values, &error), &error);
        numbers->number = (int64_t)each->partitions;
        for (size_t j = 0; j < each->partitions; j++) numbers->values[j] = ol_value_integer(each->partition);
    }
}

static void fill_fetch(const asking *each, ol_value_pool *pool, const ol_field *fields, ol_value *values) {
    if (each->version < 8) {
        fill_topics(each, pool, fields, values, false);
        return;
    }
    const ol_field *of_group = fields_in(fields, "groups");
    ol_value *group = array_of(pool, of_group, field_of(fields, values, "groups"), 1);
    *field_of(of_group, group, "groupId") = text_or_null(each->group);
    fill_topics(each, pool, of_group, group, true);
}

static void fill_heartbeat(const asking *each, const ol_field *fields, ol_value *values) {
    *field_of(fields, values, "generationId") = ol_value_integer(each->generation);
    *field_of(fields, values, "memberId") = text_or_null(each->member);
    *field_of(fields, values, "groupInstanceId") = text_or_null(each->instance);
}

/* Writes a frame, without its size; returns its size.  Correlation id 7, client id "c". */
static size_t make_frame(const asking *each, uint8_t *frame, size_t capacity) {
    const ol_schema *schema = ol_api_of_key(each->key)->request;
    ol_value_pool pool = {.limit = SIZE_MAX};
    ol_value *values;
    ol_error error;
    values = message_defaults(schema->fields, &pool);
    if (each->key != OL_API_OFFSET_FETCH || each->version < 8) {
        *field_of(schema->fields, values, "groupId") = text_or_null(each->group);
    }
    if (each->key == OL_API_OFFSET_COMMIT) fill_commit(each, &pool, schema->fields, values);
    if (each->key == OL_API_OFFSET_FETCH) fill_fetch(each, &pool, schema->fields, values);
    if (each->key == OL_API_HEARTBEAT) fill_heartbeat(each, schema->fields, values);
    ol_store_i16(frame, each->key);
    ol_store_i16(frame + 2, each->version);
    ol_store_i32(frame + 4, 7);
    ol_store_i16(frame + 8, 1);
    frame[10] = 'c';
    size_t head = 11, size;
    if (each->version >= schema->flexible_from) frame[head++] = 0;
    ol_forms forms = {.schema = schema};
    const ol_form *form;
    OL_CHECK_OK(ol_forms_get(&forms, each->version, &form, &error), &error);
    OL_CHECK_OK(ol_message_write(form, values, frame + head, capacity - head, &size, &error), &error);
    ol_forms_free(&forms);
    ol_value_pool_free(&pool);
    return head + size;
}

/* --------------------------------------------------------------------------------------------------------------- answers */

static bool answer_commit(front_fixture *fixture, const ol_request_header *header, ol_slice body) {
    ol_front_commit commit;
    ol_commit_result result;
    ol_error error;
    if (!ol_front_begin_commit(&fixture->front, header, body, fixture_now, &commit, &fixture->answers)) return false;
    OL_CHECK_INT(commit.log_partition, 0);
    if (ol_partition_commit(fixture->partition, commit.items, commit.count, -1, -1, &result, &error) != OL_OK) return false;
    ol_front_end_commit(&commit, 1.0, &fixture->answers);
    fixture->commits++;
    return true;
}

/* Hands a frame over as the server does; false: declined, with nothing added to the answers. */
static bool answer_frame(front_fixture *fixture, ol_slice frame) {
    ol_request_header header;
    ol_slice body;
    size_t before = fixture->answers.size;
    ol_partition *partitions[] = {fixture->partition};
    bool is_answered = false;
    if (ol_front_begin(frame, &header, &body)) {
        if (header.api_key == OL_API_OFFSET_COMMIT) {
            is_answered = answer_commit(fixture, &header, body);
        } else if (header.api_key == OL_API_OFFSET_FETCH) {
            is_answered = ol_front_fetch(&fixture->front, &header, body, partitions, &fixture->answers);
        } else {
            is_answered = ol_front_heartbeat(&fixture->front, &header, body, 1.0, &fixture->answers);
        }
    }
    OL_CHECK(is_answered ? fixture->answers.size > before : fixture->answers.size == before);
    return is_answered;
}

/* Takes the only answer: its size and header are right, and its body is whole.  The values borrow from the answers. */
static ol_value *take_answer(front_fixture *fixture, const ol_request_header *asked, ol_value_pool *pool) {
    const ol_schema *schema = asked->api->response;
    size_t head = asked->api_version >= schema->flexible_from ? 9 : 8, used;
    ol_value *values;
    ol_error error;
    OL_CHECK(fixture->answers.size >= head);
    OL_CHECK_INT(ol_load_i32(fixture->answers.bytes), fixture->answers.size - 4);
    OL_CHECK_INT(ol_load_i32(fixture->answers.bytes + 4), asked->correlation_id);
    ol_slice body = ol_slice_of(fixture->answers.bytes + head, fixture->answers.size - head);
    ol_forms forms = {.schema = schema};
    const ol_form *form;
    OL_CHECK_OK(ol_forms_get(&forms, asked->api_version, &form, &error), &error);
    OL_CHECK_OK(ol_message_read(form, body, pool, &values, &used, &error), &error);
    /* None of these answers has a struct in its place, whose defaults would be the form's. */
    ol_forms_free(&forms);
    OL_CHECK_INT(used, body.size);
    fixture->answers.size = 0;
    return values;
}

#endif
