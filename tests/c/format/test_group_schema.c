/* The records of groups by their schemas: vectors of docs/format/records.md §3.4, §3.5 and of Kafka's own classes in both directions, damage,
 * agreement with format/offset_record, and every record in the broker directories where they are there. */
#include <ftw.h>

#include "group_schema_vectors_consumer.h"
#include "group_schema_vectors_streams.h"
#include "format/batch.h"
#include "base/bytes.h"
#include "format/offset_record.h"
#include "format/schema_encode.h"
#include "schema_json.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define MEMBER_HEAD "{\"protocolType\":\"consumer\",\"generation\":5,\"protocol\":\"range\",\"leader\":\"m-1\","
#define MEMBER_TIME MEMBER_HEAD "\"currentStateTimestamp\":1700000000000,"
#define MEMBER_TAIL "\"sessionTimeout\":45000,\"subscription\":\"AAE=\",\"assignment\":\"AgME\"}]}"
#define ID "\"AQIDBAUGBwgJCgsMDQ4PEA\""

/* The vectors of the specification, the two bytes of type or version included. */
static const struct {
    int16_t type;
    bool is_key;
    const char *hex;
    const char *json;
} specified[] = {
    {1, true, "000100086d792d67726f757000066f726465727300000003", "{\"group\":\"my-group\",\"topic\":\"orders\",\"partition\":3}"},
    {0, true, "000000086d792d67726f757000066f726465727300000003", "{\"group\":\"my-group\",\"topic\":\"orders\",\"partition\":3}"},
    {0, false, "0000000000000000002a00046d6574610000018bcfe56800",
     "{\"offset\":42,\"metadata\":\"meta\",\"commitTimestamp\":1700000000000}"},
    {1, false, "0001000000000000002a00046d6574610000018bcfe568000000018bcfee8fc0",
     "{\"offset\":42,\"metadata\":\"meta\",\"commitTimestamp\":1700000000000,\"expireTimestamp\":1700000600000}"},
    {1, false, "0002000000000000002a00046d6574610000018bcfe56800",
     "{\"offset\":42,\"metadata\":\"meta\",\"commitTimestamp\":1700000000000}"},
    {1, false, "0003000000000000002a0000000700046d6574610000018bcfe56800",
     "{\"offset\":42,\"leaderEpoch\":7,\"metadata\":\"meta\",\"commitTimestamp\":1700000000000}"},
    {1, false, "0004000000000000002a00000007056d6574610000018bcfe5680000",
     "{\"offset\":42,\"leaderEpoch\":7,\"metadata\":\"meta\",\"commitTimestamp\":1700000000000}"},
    {2, true, "000200086d792d67726f7570", "{\"group\":\"my-group\"}"},
    {2, false,
     "00000008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d31000163000a2f3132372e302e302e310000afc8000000020001"
     "00000003020304",
     MEMBER_HEAD "\"members\":[{\"memberId\":\"m-1\",\"clientId\":\"c\",\"clientHost\":\"/127.0.0.1\"," MEMBER_TAIL},
    {2, false,
     "00010008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d31000163000a2f3132372e302e302e31000493e00000afc80000"
     "0002000100000003020304",
     MEMBER_HEAD "\"members\":[{\"memberId\":\"m-1\",\"clientId\":\"c\",\"clientHost\":\"/127.0.0.1\",\"rebalanceTimeout\":300000,"
     MEMBER_TAIL},
    {2, false,
     "00020008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000100036d2d31000163000a2f3132372e302e302e310004"
     "93e00000afc800000002000100000003020304",
     MEMBER_TIME "\"members\":[{\"memberId\":\"m-1\",\"clientId\":\"c\",\"clientHost\":\"/127.0.0.1\",\"rebalanceTimeout\":300000,"
     MEMBER_TAIL},
    {2, false,
     "00030008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000100036d2d310003692d31000163000a2f3132372e302e"
     "302e31000493e00000afc800000002000100000003020304",
     MEMBER_TIME "\"members\":[{\"memberId\":\"m-1\",\"groupInstanceId\":\"i-1\",\"clientId\":\"c\",\"clientHost\":\"/127.0.0.1\","
     "\"rebalanceTimeout\":300000," MEMBER_TAIL},
    {2, false,
     "000409636f6e73756d6572000000050672616e6765046d2d310000018bcfe5680002046d2d3104692d3102630b2f3132372e302e302e31000493e00000af"
     "c8030001040203040000",
     MEMBER_TIME "\"members\":[{\"memberId\":\"m-1\",\"groupInstanceId\":\"i-1\",\"clientId\":\"c\",\"clientHost\":\"/127.0.0.1\","
     "\"rebalanceTimeout\":300000," MEMBER_TAIL},
    {2, false, "00030008636f6e73756d657200000006ffffffff0000018bcfe5680000000000",
     "{\"protocolType\":\"consumer\",\"generation\":6,\"protocol\":null,\"leader\":null,\"currentStateTimestamp\":1700000000000,"
     "\"members\":[]}"},
    {2, false, "0003000000000000ffffffff0000018bcfe5680000000000",
     "{\"protocolType\":\"\",\"generation\":0,\"protocol\":null,\"leader\":null,\"currentStateTimestamp\":1700000000000,"
     "\"members\":[]}"},
    {3, true, "0003000167", "{\"groupId\":\"g\"}"},
    {3, false, "00000000000900", "{\"epoch\":9}"},
    {4, false, "0000020102030405060708090a0b0c0d0e0f10027400000003010000",
     "{\"topics\":[{\"topicId\":" ID ",\"topicName\":\"t\",\"numPartitions\":3,\"partitionMetadata\":[]}]}"},
    {5, true, "000500016700016d", "{\"groupId\":\"g\",\"memberId\":\"m\"}"},
    {5, false, "00000002720263032f68030261026200000493e00000",
     "{\"instanceId\":null,\"rackId\":\"r\",\"clientId\":\"c\",\"clientHost\":\"/h\",\"subscribedTopicNames\":[\"a\",\"b\"],"
     "\"subscribedTopicRegex\":null,\"rebalanceTimeoutMs\":300000,\"serverAssignor\":null}"},
    {5, false, "00000002720263032f68030261026200000493e000010012010000afc8020672616e6765040102030000",
     "{\"instanceId\":null,\"rackId\":\"r\",\"clientId\":\"c\",\"clientHost\":\"/h\",\"subscribedTopicNames\":[\"a\",\"b\"],"
     "\"subscribedTopicRegex\":null,\"rebalanceTimeoutMs\":300000,\"serverAssignor\":null,\"classicMemberMetadata\":"
     "{\"sessionTimeoutMs\":45000,\"supportedProtocols\":[{\"name\":\"range\",\"metadata\":\"AQID\"}]}}"},
    {6, false, "00000000000900", "{\"assignmentEpoch\":9}"},
    {7, false, "0000020102030405060708090a0b0c0d0e0f100300000000000000020000",
     "{\"topicPartitions\":[{\"topicId\":" ID ",\"partitions\":[0,2]}]}"},
    {8, false, "0000000000090000000800020102030405060708090a0b0c0d0e0f100200000000000100",
     "{\"memberEpoch\":9,\"previousMemberEpoch\":8,\"state\":0,\"assignedPartitions\":[{\"topicId\":" ID
     ",\"partitions\":[0]}],\"partitionsPendingRevocation\":[]}"},
};

static const ol_schema *schema_of(int16_t type, bool is_key) {
    if (type == -1) return ol_schema_of_subscription();
    if (type == -2) return ol_schema_of_assignment();
    return is_key ? ol_schema_of_key(type) : ol_schema_of_value(type);
}

static int rewrite(const ol_schema *schema, int16_t version, ol_slice bytes, uint8_t *out, size_t capacity, size_t *size,
                   ol_error *error) {
    ol_schema_writer writer;
    int status = ol_schema_writer_start(&writer, schema, version, out, capacity, error);
    ol_schema_visitor visitor = ol_schema_writer_visitor(&writer);
    if (status == OL_OK) status = ol_schema_decode(schema, version, bytes, &visitor, NULL, error);
    if (status == OL_OK) status = ol_schema_writer_finish(&writer, size, error);
    return status;
}

/* Decoded it prints as expected and uses every byte; written again it is the same; one byte of memory less does not do. */
static void check_both_ways(const ol_schema *schema, int16_t version, ol_slice bytes, const char *json) {
    schema_json j;
    ol_error error;
    size_t used, size;
    OL_CHECK_OK(schema_to_json(schema, version, bytes, &j, &used, &error), &error);
    if (strcmp(j.text, json) != 0) fprintf(stderr, "%s\n%s\n%s\n", schema->name, j.text, json);
    OL_CHECK(strcmp(j.text, json) == 0);
    OL_CHECK_INT(used, bytes.size);
    free(j.text);
    uint8_t *out = malloc(bytes.size);
    OL_CHECK_OK(rewrite(schema, version, bytes, out, bytes.size, &size, &error), &error);
    OL_CHECK_INT(size, bytes.size);
    OL_CHECK(memcmp(out, bytes.data, size) == 0);
    for (size_t capacity = 0; capacity < bytes.size; capacity++) {
        uint8_t *less = malloc(capacity ? capacity : 1);
        OL_CHECK_INT(rewrite(schema, version, bytes, less, capacity, &size, &error), OL_TOO_LARGE);
        free(less);
    }
    free(out);
}

static void check_vector(const schema_vector *vector) {
    size_t size;
    uint8_t *bytes = ol_test_unhex(vector->hex, &size);
    check_both_ways(schema_of(vector->type, vector->is_key), vector->version, ol_slice_of(bytes, size), vector->json);
    free(bytes);
}

static size_t vector_count(void) { return COUNT_OF(consumer_vectors) + COUNT_OF(streams_vectors); }
static const schema_vector *vector_at(size_t k) {
    return k < COUNT_OF(consumer_vectors) ? &consumer_vectors[k] : &streams_vectors[k - COUNT_OF(consumer_vectors)];
}

OL_TEST(vectors_of_the_specification) {
    for (size_t k = 0; k < COUNT_OF(specified); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(specified[k].hex, &size);
        int16_t prefix = ol_load_i16(bytes);
        if (specified[k].is_key) OL_CHECK_INT(prefix, specified[k].type);
        check_both_ways(schema_of(specified[k].type, specified[k].is_key), specified[k].is_key ? 0 : prefix,
                        ol_slice_of(bytes + 2, size - 2), specified[k].json);
        free(bytes);
    }
}

OL_TEST(vectors_of_kafkas_own_classes) {
    for (size_t k = 0; k < vector_count(); k++) check_vector(vector_at(k));
}

OL_TEST(every_type_is_known_to_keys_and_values_and_to_ol_offsets) {
    for (int16_t type = -3; type < 30; type++) {
        uint8_t key_bytes[16] = {0};
        ol_store_i16(key_bytes, type);
        ol_key key;
        ol_error error;
        OL_CHECK_OK(ol_key_decode(ol_slice_of(key_bytes, sizeof key_bytes), &key, &error), &error);
        OL_CHECK((ol_schema_of_key(type) != NULL) == key.known);
        OL_CHECK((ol_schema_of_value(type) != NULL) == key.known);
    }
    OL_CHECK(ol_schema_of_key(INT16_MIN) == NULL && ol_schema_of_value(INT16_MAX) == NULL);
}

OL_TEST(a_vector_cut_at_every_length_is_corrupt) {
    for (size_t k = 0; k < vector_count(); k++) {
        const schema_vector *vector = vector_at(k);
        size_t size;
        uint8_t *bytes = ol_test_unhex(vector->hex, &size);
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *copy = malloc(cut ? cut : 1);
            memcpy(copy, bytes, cut);
            ol_schema_visitor nothing = {0};
            ol_error error;
            OL_CHECK_INT(ol_schema_decode(schema_of(vector->type, vector->is_key), vector->version, ol_slice_of(copy, cut), &nothing,
                                          NULL, &error),
                         OL_CORRUPT);
            free(copy);
        }
        free(bytes);
    }
}

/* Whatever the damage: no read outside the bytes, balanced events, and what still decodes is written again in a form that decodes to
 * the same. */
OL_TEST(damaged_vectors_are_walked_safely) {
    for (size_t k = 0; k < vector_count(); k++) {
        const schema_vector *vector = vector_at(k);
        const ol_schema *schema = schema_of(vector->type, vector->is_key);
        size_t size;
        uint8_t *bytes = ol_test_unhex(vector->hex, &size);
        for (int round = 0; round < 60 && size > 0; round++) {
            uint8_t *copy = malloc(size);
            memcpy(copy, bytes, size);
            for (uint64_t changes = 1 + ol_test_below(3); changes > 0; changes--) {
                copy[ol_test_below(size)] = (uint8_t)(ol_test_below(2) ? ol_test_random() : ol_test_below(3) - 1);
            }
            schema_json j;
            ol_error error;
            size_t used = 0, written;
            if (schema_to_json(schema, vector->version, ol_slice_of(copy, size), &j, &used, &error) == OL_OK) {
                OL_CHECK(used <= size && j.depth == 0);
                uint8_t *out = malloc(size + 64);
                int status = rewrite(schema, vector->version, ol_slice_of(copy, used), out, size + 64, &written, &error);
                OL_CHECK(status == OL_OK || status == OL_INVALID);      /* tags that do not ascend are read, not written */
                if (status == OL_OK) {
                    schema_json again;
                    OL_CHECK_OK(schema_to_json(schema, vector->version, ol_slice_of(out, written), &again, &used, &error), &error);
                    OL_CHECK(strcmp(again.text, j.text) == 0 && again.unknown_tags == j.unknown_tags && used == written);
                    free(again.text);
                }
                free(out);
            }
            free(j.text);
            free(copy);
        }
        free(bytes);
    }
}

OL_TEST(unknown_tags_are_reported_and_bytes_after_are_not) {
    size_t size, used, written;
    ol_error error;
    schema_json j;
    /* epoch 9, tag 0 metadataHash 1, tag 7 of two bytes, tag 300 of none */
    uint8_t *bytes = ol_test_unhex("000000090300080000000000000001" "0702abcd" "ac0200" "ffff", &size), out[64];
    const ol_schema *schema = ol_schema_of_value(3);
    OL_CHECK_OK(schema_to_json(schema, 0, ol_slice_of(bytes, size), &j, &used, &error), &error);
    OL_CHECK(strcmp(j.text, "{\"epoch\":9,\"metadataHash\":1}") == 0);
    OL_CHECK_INT(j.unknown_tags, 2);
    OL_CHECK_INT(used, size - 2);
    OL_CHECK_OK(rewrite(schema, 0, ol_slice_of(bytes, size), out, sizeof out, &written, &error), &error);
    OL_CHECK_INT(written, used);
    OL_CHECK(memcmp(out, bytes, used) == 0);
    free(j.text);
    free(bytes);
}

static int value_status(int16_t type, const char *hex) {
    size_t size;
    uint8_t *bytes = ol_test_unhex(hex, &size);
    ol_schema_visitor nothing = {0};
    ol_error error;
    int status =
        ol_schema_decode(ol_schema_of_value(type), ol_load_i16(bytes), ol_slice_of(bytes + 2, size - 2), &nothing, NULL, &error);
    free(bytes);
    return status;
}

OL_TEST(what_the_decoder_refuses) {
    OL_CHECK_INT(value_status(3, "00010000000900"), OL_UNSUPPORTED);
    OL_CHECK_INT(value_status(2, "00050000000900"), OL_UNSUPPORTED);
    OL_CHECK_INT(value_status(0, "0001000000000000002a00046d6574610000018bcfe568000000018bcfee8fc0"), OL_UNSUPPORTED);
    OL_CHECK_INT(value_status(3, "ffff0000000900"), OL_UNSUPPORTED);
    OL_CHECK_INT(value_status(7, "0000ffffffff0f"), OL_CORRUPT);        /* 2^32 - 2 elements */
    OL_CHECK_INT(value_status(7, "0000ff01"), OL_CORRUPT);
    OL_CHECK_INT(value_status(7, "000000"), OL_CORRUPT);                /* a null array that must not be */
    OL_CHECK_INT(value_status(3, "0000000000090100090000000000000001"), OL_CORRUPT);    /* a tag of nine bytes for an i64 */
    OL_CHECK_INT(value_status(3, "00000000000901000700000000000000"), OL_CORRUPT);
    OL_CHECK_INT(value_status(2, "0000ffff"), OL_CORRUPT);              /* null protocol type */
    OL_CHECK_INT(value_status(2, "0003000000000000ffffffff0000018bcfe568007fffffff"), OL_CORRUPT);
    OL_CHECK_INT(value_status(2, "0003000000000000ffffffff0000018bcfe56800fffffffe"), OL_CORRUPT);
}

OL_TEST(what_the_writer_refuses) {
    ol_schema_writer writer;
    ol_error error;
    uint8_t out[64];
    const ol_field *fields = ol_schema_of_value(1)->fields;     /* offset, leaderEpoch, metadata ... */
    size_t size;
    OL_CHECK_INT(ol_schema_writer_start(&writer, ol_schema_of_value(1), 5, out, sizeof out, &error), OL_UNSUPPORTED);
    for (int wrong = 0; wrong < 9; wrong++) {
        OL_CHECK_OK(ol_schema_writer_start(&writer, ol_schema_of_value(1), 3, out, sizeof out, &error), &error);
        if (wrong == 0) OL_CHECK_INT(ol_schema_put_integer(&writer, &fields[0], 1, &error), OL_INVALID);
        OL_CHECK((ol_schema_put_begin_struct(&writer, NULL, &error) == OL_OK) == (wrong != 0));
        if (wrong == 1) OL_CHECK_INT(ol_schema_put_integer(&writer, &fields[1], INT64_C(1) << 31, &error), OL_INVALID);
        if (wrong == 2) OL_CHECK_INT(ol_schema_put_null(&writer, &fields[2], &error), OL_INVALID);
        if (wrong == 3) OL_CHECK_INT(ol_schema_put_integer(&writer, &fields[2], 1, &error), OL_INVALID);
        if (wrong == 4) OL_CHECK_INT(ol_schema_put_bytes(&writer, &fields[0], ol_slice_of("a", 1), &error), OL_INVALID);
        if (wrong == 5) OL_CHECK_INT(ol_schema_put_integer(&writer, &fields[4], 1, &error), OL_INVALID);    /* of version 1 only */
        if (wrong == 6) OL_CHECK_INT(ol_schema_put_bytes(&writer, &fields[2], ol_slice_of(out, 32768), &error), OL_TOO_LARGE);
        if (wrong == 7) OL_CHECK_INT(ol_schema_put_unknown_tag(&writer, 1, ol_slice_of("a", 1), &error), OL_INVALID);
        if (wrong == 8) OL_CHECK_INT(ol_schema_writer_finish(&writer, &size, &error), OL_INVALID);
        OL_CHECK(ol_schema_put_end_struct(&writer, NULL, &error) != OL_OK);     /* a failure sticks */
        OL_CHECK(ol_schema_writer_finish(&writer, &size, &error) != OL_OK);
    }
}

/* ------------------------------------------------------------------------------------------------ beside format/offset_record */

typedef struct collected {
    ol_offset_value value;
    ol_slice strings[2];
    int string_count;
    int32_t partition;
} collected;

static int collect_integer(void *context, const ol_field *field, int64_t value, ol_error *error) {
    (void)error;
    collected *c = context;
    if (strcmp(field->name, "offset") == 0) c->value.offset = value;
    if (strcmp(field->name, "leaderEpoch") == 0) c->value.leader_epoch = (int32_t)value;
    if (strcmp(field->name, "commitTimestamp") == 0) c->value.commit_timestamp = value;
    if (strcmp(field->name, "expireTimestamp") == 0) c->value.expire_timestamp = value;
    if (strcmp(field->name, "partition") == 0) c->partition = (int32_t)value;
    return OL_OK;
}

static int collect_bytes(void *context, const ol_field *field, ol_slice value, ol_error *error) {
    (void)error;
    collected *c = context;
    static const uint8_t zeros[16];
    if (strcmp(field->name, "metadata") == 0) c->value.metadata = value;
    if (strcmp(field->name, "topicId") == 0) c->value.topic_id = memcmp(value.data, zeros, 16) == 0 ? NULL : value.data;
    if (strcmp(field->name, "group") == 0) c->strings[0] = value;
    if (strcmp(field->name, "topic") == 0) c->strings[1] = value;
    return OL_OK;
}

static int collect(int16_t type, bool is_key, ol_slice bytes, collected *c) {
    memset(c, 0, sizeof *c);
    c->value.leader_epoch = -1;
    c->value.expire_timestamp = -1;
    ol_schema_visitor visitor = {.integer = collect_integer, .bytes = collect_bytes, .context = c};
    ol_error error;
    if (bytes.size < 2) return OL_CORRUPT;
    int16_t version = is_key ? 0 : ol_load_i16(bytes.data);
    return ol_schema_decode(schema_of(type, is_key), version, ol_slice_of(bytes.data + 2, bytes.size - 2), &visitor, NULL, &error);
}

OL_TEST(schemas_and_ol_offsets_agree_also_on_damaged_bytes) {
    for (int round = 0; round < 60000; round++) {
        static const uint8_t id[16] = {9, 8, 7};
        uint8_t text[40] = "group metadata with some text in it, \xc3\xa9", room[256];
        ol_offset_value in = {(int64_t)ol_test_random(), (int64_t)ol_test_random(), (int64_t)ol_test_random(),
                              (int32_t)ol_test_random(), 0, ol_slice_of(text, ol_test_below(40)), ol_test_below(2) ? id : NULL};
        uint8_t *end = ol_offset_value_put(room, &in, (int16_t)ol_test_below(5));
        size_t size = (size_t)(end - room);
        if (ol_test_below(2)) room[ol_test_below(size)] = (uint8_t)ol_test_random();
        if (ol_test_below(4) == 0) size = ol_test_below(size);
        uint8_t *bytes = malloc(size ? size : 1);
        memcpy(bytes, room, size);
        int16_t type = (int16_t)ol_test_below(2);
        ol_offset_value value;
        collected c;
        ol_error error;
        int status = ol_offset_value_decode(ol_slice_of(bytes, size), type, &value, &error);
        OL_CHECK_INT(collect(type, false, ol_slice_of(bytes, size), &c), status);
        if (status == OL_OK) {
            OL_CHECK_INT(c.value.offset, value.offset);
            OL_CHECK_INT(c.value.leader_epoch, value.leader_epoch);
            OL_CHECK_INT(c.value.commit_timestamp, value.commit_timestamp);
            OL_CHECK_INT(c.value.expire_timestamp, value.expire_timestamp);
            OL_CHECK(c.value.topic_id == value.topic_id);
            OL_CHECK(c.value.metadata.data == value.metadata.data && c.value.metadata.size == value.metadata.size);
        }
        free(bytes);
    }
}

OL_TEST(schemas_and_ol_offsets_agree_on_keys) {
    for (int round = 0; round < 20000; round++) {
        uint8_t room[128];
        int16_t type = (int16_t)ol_test_below(2);
        ol_slice group = ol_slice_of("some-group-of-ours", ol_test_below(18)), topic = ol_slice_of("orders.in", ol_test_below(9));
        size_t size = (size_t)(ol_offset_key_put(room, type, group, topic, (int32_t)ol_test_random()) - room);
        if (ol_test_below(2)) room[2 + ol_test_below(size - 2)] = (uint8_t)ol_test_random();
        if (ol_test_below(4) == 0) size = ol_test_below(size);
        uint8_t *bytes = malloc(size ? size : 1);
        memcpy(bytes, room, size);
        ol_key key;
        collected c;
        ol_error error;
        int status = ol_key_decode(ol_slice_of(bytes, size), &key, &error);
        OL_CHECK_INT(collect(type, true, ol_slice_of(bytes, size), &c), status);
        if (status == OL_OK) {
            OL_CHECK(c.strings[0].data == key.group.data && c.strings[0].size == key.group.size);
            OL_CHECK(c.strings[1].data == key.topic.data && c.strings[1].size == key.topic.size);
            OL_CHECK_INT(c.partition, key.partition);
        }
        free(bytes);
    }
}

/* ------------------------------------------------------------------------------------------------ what brokers wrote */

static int64_t broker_records[OL_KEY_LAST_KNOWN + 1];

static void check_broker_record(const ol_record *record) {
    ol_key key;
    ol_error error;
    OL_CHECK_OK(ol_key_decode(record->key, &key, &error), &error);
    OL_CHECK(key.known);
    broker_records[key.type]++;
    for (int part = 0; part < 2; part++) {
        ol_slice bytes = part == 0 ? record->key : record->value;
        if (bytes.data == NULL) continue;
        const ol_schema *schema = schema_of(key.type, part == 0);
        int16_t version = part == 0 ? 0 : ol_load_i16(bytes.data);
        ol_slice body = ol_slice_of(bytes.data + 2, bytes.size - 2);
        schema_json j;
        size_t used, size;
        OL_CHECK_OK(schema_to_json(schema, version, body, &j, &used, &error), &error);
        OL_CHECK_INT(used, body.size);
        OL_CHECK_INT(j.unknown_tags, 0);
        free(j.text);
        uint8_t *out = malloc(body.size ? body.size : 1);
        OL_CHECK_OK(rewrite(schema, version, body, out, body.size, &size, &error), &error);
        OL_CHECK(size == body.size && memcmp(out, body.data, size) == 0);
        free(out);
    }
}

static int check_broker_file(const char *path, const struct stat *status, int type, struct FTW *where) {
    (void)where;
    size_t length = strlen(path);
    if (type != FTW_F || length < 4 || strcmp(path + length - 4, ".log") != 0) return 0;
    if (strstr(path, "/__consumer_offsets-") == NULL) return 0;
    size_t size = (size_t)status->st_size;
    uint8_t *bytes = malloc(size ? size : 1);
    FILE *file = fopen(path, "rb");
    OL_CHECK(file != NULL && fread(bytes, 1, size, file) == size);
    fclose(file);
    for (size_t at = 0; at < size;) {
        ol_batch batch;
        ol_records records;
        ol_record record;
        ol_error error;
        if (ol_batch_parse(bytes + at, size - at, &batch, &error) != OL_OK) break;     /* scenarios with a damaged end */
        if (ol_batch_check_crc(&batch, &error) != OL_OK) break;
        at += batch.size;
        if (ol_batch_is_control(&batch) || ol_batch_codec(&batch) != OL_CODEC_NONE) continue;
        OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &error), &error);
        int next;
        while ((next = ol_records_next(&records, &record, &error)) == OL_OK) check_broker_record(&record);
        OL_CHECK_INT(next, OL_END);
        ol_records_close(&records);
    }
    free(bytes);
    return 0;
}

OL_TEST(every_record_of_the_broker_directories_is_used_to_its_last_byte) {
    static const char *const roots[] = {"../data", "../../../shared/data"};
    for (size_t k = 0; k < COUNT_OF(roots); k++) {
        memset(broker_records, 0, sizeof broker_records);
        if (nftw(roots[k], check_broker_file, 16, FTW_PHYS) != 0) {
            printf("  %s is not there\n", roots[k]);
            continue;
        }
        printf("  %s:", roots[k]);
        for (int type = 0; type <= OL_KEY_LAST_KNOWN; type++) {
            if (broker_records[type] > 0) printf(" %d:%" PRId64, type, broker_records[type]);
        }
        printf("\n");
    }
}

OL_TEST_MAIN()
