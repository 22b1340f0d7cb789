/* Keys and values of offset commits: the vectors of docs/format/records.md §3.2, docs/format/brokers.md §15.1 in both directions, and what is refused. */
#include "base/bytes.h"
#include "format/offset_record.h"
#include "ol_test.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
#define TIME INT64_C(1700000000000)

static ol_slice text(const char *characters) { return ol_slice_of(characters, strlen(characters)); }

static const uint8_t topic_id[OL_TOPIC_ID_SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static int decode_key(const char *hex, ol_key *key, uint8_t **bytes) {
    size_t size;
    ol_error error;
    *bytes = ol_test_unhex(hex, &size);
    return ol_key_decode(ol_slice_of(*bytes, size), key, &error);
}

static int key_status(const char *hex) {
    ol_key key;
    uint8_t *bytes;
    int status = decode_key(hex, &key, &bytes);
    free(bytes);
    return status;
}

static int value_status(const char *hex, int16_t key_type) {
    size_t size;
    ol_offset_value value;
    ol_error error;
    uint8_t *bytes = ol_test_unhex(hex, &size);
    int status = ol_offset_value_decode(ol_slice_of(bytes, size), key_type, &value, &error);
    free(bytes);
    return status;
}

OL_TEST(keys_of_offset_commits) {
    static const char *const hex[] = {"000000086d792d67726f757000066f726465727300000003",
                                      "000100086d792d67726f757000066f726465727300000003"};
    for (int16_t type = 0; type < 2; type++) {
        ol_key key;
        uint8_t *bytes;
        OL_CHECK_INT(decode_key(hex[type], &key, &bytes), OL_OK);
        OL_CHECK_INT(key.type, type);
        OL_CHECK(key.known);
        OL_CHECK(ol_slice_equal(key.group, text("my-group")));
        OL_CHECK(ol_slice_equal(key.topic, text("orders")));
        OL_CHECK_INT(key.partition, 3);
        OL_CHECK(key.member.data == NULL);
        uint8_t written[24];
        OL_CHECK_INT(ol_offset_key_size(key.group, key.topic), sizeof written);
        OL_CHECK(ol_offset_key_put(written, type, key.group, key.topic, 3) == written + sizeof written);
        OL_CHECK(memcmp(written, bytes, sizeof written) == 0);
        free(bytes);
    }
}

/* Offset 42, epoch 7, metadata "meta", commit time T, expire time T + 600000 (docs/format/records.md §3.2); v4 with a topic id (docs/format/brokers.md §15.1). */
static const struct {
    const char *hex;
    int16_t version;
    int32_t leader_epoch;
    int64_t expire_timestamp;
    bool with_topic_id;
} values[] = {
    {"0000000000000000002a00046d6574610000018bcfe56800", 0, -1, -1, false},
    {"0001000000000000002a00046d6574610000018bcfe568000000018bcfee8fc0", 1, -1, TIME + 600000, false},
    {"0002000000000000002a00046d6574610000018bcfe56800", 2, -1, -1, false},
    {"0003000000000000002a0000000700046d6574610000018bcfe56800", 3, 7, -1, false},
    {"0004000000000000002a00000007056d6574610000018bcfe5680000", 4, 7, -1, false},
    {"0004000000000000002a00000007056d6574610000018bcfe568000100100102030405060708090a0b0c0d0e0f10", 4, 7, -1, true},
};

OL_TEST(values_of_every_version) {
    for (size_t k = 0; k < COUNT_OF(values); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(values[k].hex, &size);
        ol_offset_value value;
        ol_error error;
        OL_CHECK_OK(ol_offset_value_decode(ol_slice_of(bytes, size), 1, &value, &error), &error);
        OL_CHECK_INT(value.version, values[k].version);
        OL_CHECK_INT(value.offset, 42);
        OL_CHECK_INT(value.leader_epoch, values[k].leader_epoch);
        OL_CHECK(ol_slice_equal(value.metadata, text("meta")));
        OL_CHECK_INT(value.commit_timestamp, TIME);
        OL_CHECK_INT(value.expire_timestamp, values[k].expire_timestamp);
        OL_CHECK((value.topic_id != NULL) == values[k].with_topic_id);
        if (value.topic_id != NULL) OL_CHECK(memcmp(value.topic_id, topic_id, sizeof topic_id) == 0);
        OL_CHECK_INT(ol_offset_value_size(&value, value.version), size);
        uint8_t *written = malloc(size);
        OL_CHECK(ol_offset_value_put(written, &value, value.version) == written + size);
        OL_CHECK(memcmp(written, bytes, size) == 0);
        free(written);
        free(bytes);
    }
}

OL_TEST(a_value_cut_at_every_length_is_corrupt_and_bytes_after_it_are_not) {
    for (size_t k = 0; k < COUNT_OF(values); k++) {
        size_t size;
        uint8_t *bytes = ol_test_unhex(values[k].hex, &size);
        ol_offset_value value;
        ol_error error;
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *copy = malloc(cut ? cut : 1);
            memcpy(copy, bytes, cut);
            OL_CHECK_INT(ol_offset_value_decode(ol_slice_of(copy, cut), 1, &value, &error), OL_CORRUPT);
            free(copy);
        }
        uint8_t *longer = malloc(size + 3);
        memcpy(longer, bytes, size);
        memset(longer + size, 0xff, 3);
        OL_CHECK_OK(ol_offset_value_decode(ol_slice_of(longer, size + 3), 1, &value, &error), &error);
        free(longer);
        free(bytes);
    }
    ol_offset_value value;
    ol_error error;
    OL_CHECK_INT(ol_offset_value_decode(ol_slice_null(), 1, &value, &error), OL_CORRUPT);
}

OL_TEST(trap_07_value_version_is_not_the_key_version) {
    OL_CHECK_INT(key_status("000100086d792d67726f757000066f726465727300000003"), OL_OK);
    OL_CHECK_INT(value_status(values[3].hex, 1), OL_OK);
    /* Only under the legacy key it is bound to 0 (docs/format/brokers.md §15.1). */
    OL_CHECK_INT(value_status(values[0].hex, 0), OL_OK);
    for (size_t k = 1; k < COUNT_OF(values); k++) OL_CHECK_INT(value_status(values[k].hex, 0), OL_UNSUPPORTED);
}

OL_TEST(versions_that_nobody_writes) {
    OL_CHECK_INT(value_status("0005000000000000002a00000007056d6574610000018bcfe5680000", 1), OL_UNSUPPORTED);
    OL_CHECK_INT(value_status("ffff000000000000002a00046d6574610000018bcfe56800", 1), OL_UNSUPPORTED);
    OL_CHECK_INT(value_status("7fff", 1), OL_UNSUPPORTED);
}

OL_TEST(null_and_wrong_metadata) {
    OL_CHECK_INT(value_status("0003000000000000002a00000007ffff0000018bcfe56800", 1), OL_CORRUPT);
    OL_CHECK_INT(value_status("0003000000000000002a0000000780000000018bcfe56800", 1), OL_CORRUPT);
    OL_CHECK_INT(value_status("0004000000000000002a00000007000000018bcfe5680000", 1), OL_CORRUPT);
    OL_CHECK_INT(value_status("0004000000000000002a00000007ffffffff0f0000018bcfe5680000", 1), OL_CORRUPT);
}

OL_TEST(tags_of_version_4) {
    static const struct {
        const char *tags;
        int status;
        bool has_topic_id;
    } cases[] = {
        {"00", OL_OK, false},
        {"010010000000000000000000000000000000" "00", OL_OK, false},                        /* all zero: none */
        {"0105020102", OL_OK, false},                                                       /* unknown tag */
        {"0200100102030405060708090a0b0c0d0e0f100700", OL_OK, true},                        /* then an unknown one */
        {"020501ff00100102030405060708090a0b0c0d0e0f10", OL_OK, true},                      /* order is not our business */
        {"01000f0102030405060708090a0b0c0d0e0f", OL_CORRUPT, false},                        /* a topic id of 15 bytes */
        {"0200100102030405060708090a0b0c0d0e0f10", OL_CORRUPT, false},                      /* two announced, one there
        */
        {"0105ffffffff0f", OL_CORRUPT, false},
        {"ffffffff0f", OL_CORRUPT, false},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        char hex[256];
        snprintf(hex, sizeof hex, "0004000000000000002a00000007056d6574610000018bcfe56800%s", cases[k].tags);
        size_t size;
        uint8_t *bytes = ol_test_unhex(hex, &size);
        ol_offset_value value;
        ol_error error;
        OL_CHECK_INT(ol_offset_value_decode(ol_slice_of(bytes, size), 1, &value, &error), cases[k].status);
        if (cases[k].status == OL_OK) OL_CHECK((value.topic_id != NULL) == cases[k].has_topic_id);
        free(bytes);
    }
}

OL_TEST(keys_of_the_group_records) {
    static const int16_t of_group[] = {2, 3, 4, 6, 11, 12, 15, 17, 20, 23};
    static const int16_t of_member[] = {5, 7, 8, 10, 13, 14, 16, 19, 21, 22};
    for (size_t k = 0; k < 10; k++) {
        char hex[64];
        ol_key key;
        uint8_t *bytes;
        snprintf(hex, sizeof hex, "%04x000167", (unsigned)of_group[k]);
        OL_CHECK_INT(decode_key(hex, &key, &bytes), OL_OK);
        OL_CHECK(key.known && key.type == of_group[k]);
        OL_CHECK(ol_slice_equal(key.group, text("g")) && key.member.data == NULL && key.topic.data == NULL);
        free(bytes);
        snprintf(hex, sizeof hex, "%04x00016700016d", (unsigned)of_member[k]);
        OL_CHECK_INT(decode_key(hex, &key, &bytes), OL_OK);
        OL_CHECK(key.known && key.type == of_member[k]);
        OL_CHECK(ol_slice_equal(key.group, text("g")) && ol_slice_equal(key.member, text("m")));
        free(bytes);
        snprintf(hex, sizeof hex, "%04x000167", (unsigned)of_member[k]);
        OL_CHECK_INT(key_status(hex), OL_CORRUPT);
    }
}

OL_TEST(trap_09_unknown_key_type) {
    static const char *const unknown[] = {"0009000167", "0012000167", "0018", "001700", "7fff01", "ffff000167"};
    for (size_t k = 0; k < COUNT_OF(unknown); k++) {
        ol_key key;
        uint8_t *bytes;
        int status = decode_key(unknown[k], &key, &bytes);
        if (k == 3) {
            OL_CHECK_INT(status, OL_CORRUPT);   /* type 23 has become a known one since, and this one is cut */
        } else {
            OL_CHECK_INT(status, OL_OK);
            OL_CHECK(!key.known && key.group.data == NULL);
        }
        free(bytes);
    }
    OL_CHECK_INT(key_status("000100086d792d67726f7570"), OL_CORRUPT);
}

OL_TEST(cut_keys_and_bytes_after_a_key) {
    const char *hex = "000100086d792d67726f757000066f726465727300000003";
    size_t size;
    uint8_t *bytes = ol_test_unhex(hex, &size);
    ol_key key;
    ol_error error;
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        memcpy(copy, bytes, cut);
        OL_CHECK_INT(ol_key_decode(ol_slice_of(copy, cut), &key, &error), OL_CORRUPT);
        free(copy);
    }
    free(bytes);
    OL_CHECK_INT(ol_key_decode(ol_slice_null(), &key, &error), OL_CORRUPT);
    OL_CHECK_INT(key_status("000100086d792d67726f757000066f726465727300000003ff"), OL_OK);
    OL_CHECK_INT(key_status("0001ffff00066f726465727300000003"), OL_CORRUPT);
    OL_CHECK_INT(key_status("000100000000ffffffff"), OL_OK);
}

OL_TEST(trap_08_an_expire_timestamp_makes_version_1) {
    ol_offset_value value = {.offset = 1, .expire_timestamp = -1, .leader_epoch = 4};
    OL_CHECK_INT(ol_offset_value_version(&value, 3), 3);
    OL_CHECK_INT(ol_offset_value_version(&value, 4), 3);
    value.topic_id = topic_id;
    OL_CHECK_INT(ol_offset_value_version(&value, 3), 3);
    OL_CHECK_INT(ol_offset_value_version(&value, 4), 4);
    value.expire_timestamp = TIME;
    for (int16_t known = 1; known <= 4; known++) OL_CHECK_INT(ol_offset_value_version(&value, known), 1);
}

OL_TEST(a_version_that_readers_may_not_know_is_written_for_a_leader_epoch_alone) {
    ol_offset_value value = {.offset = 1, .expire_timestamp = -1, .leader_epoch = -1, .topic_id = topic_id};
    for (int16_t known = 1; known <= 4; known++) OL_CHECK_INT(ol_offset_value_version(&value, known), known);
    value.leader_epoch = 0;
    for (int16_t known = 1; known <= 3; known++) OL_CHECK_INT(ol_offset_value_version(&value, known), 3);
}

OL_TEST(random_values_come_back_as_they_were) {
    for (int round = 0; round < 2000; round++) {
        size_t metadata_size = ol_test_below(3) == 0 ? ol_test_below(OL_STRING_SIZE_MAX + 1) : ol_test_below(140);
        uint8_t *metadata = malloc(metadata_size ? metadata_size : 1);
        memset(metadata, (int)ol_test_random(), metadata_size);
        uint8_t id[OL_TOPIC_ID_SIZE];
        for (size_t i = 0; i < sizeof id; i++) id[i] = (uint8_t)(ol_test_random() | 1);
        ol_offset_value in = {(int64_t)ol_test_random(), (int64_t)ol_test_random(), (int64_t)ol_test_random(),
                              (int32_t)ol_test_random(), 0, ol_slice_of(metadata, metadata_size), ol_test_below(2) ? id : NULL};
        int16_t version = (int16_t)ol_test_below(5);
        size_t size = ol_offset_value_size(&in, version);
        uint8_t *bytes = malloc(size);
        OL_CHECK(ol_offset_value_put(bytes, &in, version) == bytes + size);
        ol_offset_value out;
        ol_error error;
        OL_CHECK_OK(ol_offset_value_decode(ol_slice_of(bytes, size), 1, &out, &error), &error);
        OL_CHECK_INT(out.version, version);
        OL_CHECK_INT(out.offset, in.offset);
        OL_CHECK_INT(out.commit_timestamp, in.commit_timestamp);
        OL_CHECK_INT(out.expire_timestamp, version == 1 ? in.expire_timestamp : -1);
        OL_CHECK_INT(out.leader_epoch, version >= 3 ? in.leader_epoch : -1);
        OL_CHECK(ol_slice_equal(out.metadata, in.metadata));
        OL_CHECK((out.topic_id != NULL) == (version == 4 && in.topic_id != NULL));
        if (out.topic_id != NULL) OL_CHECK(memcmp(out.topic_id, id, sizeof id) == 0);
        free(bytes);
        free(metadata);
    }
}

OL_TEST_MAIN()
