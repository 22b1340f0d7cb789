#include "log/files/names.h"
#include "log/files/partition_metadata.h"
#include "ol_test.h"
#include "ol_test_directory.h"

static ol_error error;

static bool parse_uuid(const char *text, ol_uuid *uuid) { return ol_uuid_parse(ol_slice_of(text, strlen(text)), uuid); }

OL_TEST(uuids_as_text) {
    ol_uuid uuid;
    char text[OL_UUID_TEXT_SIZE + 1] = {0};
    OL_CHECK(parse_uuid("AAAAAAAAAAAAAAAAAAAAAQ", &uuid));
    for (int i = 0; i < 16; i++) OL_CHECK_INT(uuid.bytes[i], i == 15);
    OL_CHECK(parse_uuid("_____________________w", &uuid));
    for (int i = 0; i < 16; i++) OL_CHECK_INT(uuid.bytes[i], 0xff);
    OL_CHECK(!ol_uuid_is_zero(&uuid));
    OL_CHECK(parse_uuid("AAAAAAAAAAAAAAAAAAAAAA", &uuid));
    OL_CHECK(ol_uuid_is_zero(&uuid));
    OL_CHECK(!parse_uuid("AAAAAAAAAAAAAAAAAAAAAB", &uuid));      /* spare bits */
    OL_CHECK(!parse_uuid("AAAAAAAAAAAAAAAAAAAAA", &uuid));
    OL_CHECK(!parse_uuid("AAAAAAAAAAAAAAAAAAAAAAA", &uuid));
    OL_CHECK(!parse_uuid("AAAAAAAAAAAAAAAAAAAA==", &uuid));
    OL_CHECK(!parse_uuid("AAAAAAAAA+AAAAAAAAAAAQ", &uuid));
    OL_CHECK(!ol_uuid_parse(ol_slice_of("AAAAAAAAA\0AAAAAAAAAAAQ", 22), &uuid));
    for (int round = 0; round < 1000; round++) {
        ol_uuid again;
        for (int i = 0; i < 16; i++) uuid.bytes[i] = (uint8_t)ol_test_random();
        ol_uuid_format(&uuid, text);
        OL_CHECK(parse_uuid(text, &again));
        OL_CHECK(memcmp(&uuid, &again, sizeof uuid) == 0);
    }
}

OL_TEST(file_names) {
    char name[64];
    int64_t offset;
    const char *suffix;
    OL_CHECK_OK(ol_file_name(name, sizeof name, 0, ".log", &error), &error);
    OL_CHECK(strcmp(name, "00000000000000000000.log") == 0);
    OL_CHECK_OK(ol_file_name(name, sizeof name, INT64_MAX, ".log.cleaned", &error), &error);
    OL_CHECK(strcmp(name, "09223372036854775807.log.cleaned") == 0);
    OL_CHECK(ol_file_name_parse(name, &offset, &suffix));
    OL_CHECK_INT(offset, INT64_MAX);
    OL_CHECK(strcmp(suffix, ".log.cleaned") == 0);
    OL_CHECK(!ol_file_name_parse("09223372036854775808.log", &offset, &suffix));
    OL_CHECK(!ol_file_name_parse("99999999999999999999.log", &offset, &suffix));
    OL_CHECK(!ol_file_name_parse("000000000000000000001.log", &offset, &suffix));
    OL_CHECK(!ol_file_name_parse("0000000000000000001.log", &offset, &suffix));
    OL_CHECK(!ol_file_name_parse("", &offset, &suffix));
    OL_CHECK(!ol_file_name_parse("leader-epoch-checkpoint", &offset, &suffix));
    OL_CHECK_INT(ol_file_name(name, 24, 0, ".log", &error), OL_INVALID);
    OL_CHECK_INT(ol_file_name(name, sizeof name, -1, ".log", &error), OL_INVALID);
}

#define ID "0123456789abcdef0123456789abcdef"

OL_TEST(directory_names_parse) {
    const struct {
        const char *name;
        const char *topic;      /* NULL: no partition directory */
        int32_t partition;
        ol_directory_kind kind;
    } cases[] = {
        {"__consumer_offsets-0", "__consumer_offsets", 0, OL_DIRECTORY_PARTITION},
        {"__consumer_offsets-49", "__consumer_offsets", 49, OL_DIRECTORY_PARTITION},
        {"a-b.c_d-2147483647", "a-b.c_d", INT32_MAX, OL_DIRECTORY_PARTITION},
        {"t--1", "t-", 1, OL_DIRECTORY_PARTITION},
        {"t-1." ID "-delete", "t", 1, OL_DIRECTORY_DELETE},
        {"t-1." ID "-stray", "t", 1, OL_DIRECTORY_STRAY},
        {"t-1." ID "-future", "t", 1, OL_DIRECTORY_FUTURE},
        {"t-1.0123-delete", NULL, 0, 0},
        {"t-1." ID "-gone", NULL, 0, 0},
        {"t-1.0123456789ABCDEF0123456789abcdef-delete", NULL, 0, 0},
        {"t-2147483648", NULL, 0, 0},
        {"t-99999999999999999999", NULL, 0, 0},
        {"t-01", NULL, 0, 0},
        {"t-+1", NULL, 0, 0},
        {"t-", NULL, 0, 0},
        {"-1", NULL, 0, 0},
        {"t", NULL, 0, 0},
        {"", NULL, 0, 0},
        {"." ID "-delete", NULL, 0, 0},
        {"remote-log-index-cache", NULL, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ol_directory_name parsed;
        bool is_partition = ol_directory_name_parse(cases[i].name, &parsed);
        if (is_partition != (cases[i].topic != NULL)) fprintf(stderr, "%s\n", cases[i].name);
        OL_CHECK(is_partition == (cases[i].topic != NULL));
        if (!is_partition) continue;
        OL_CHECK(strcmp(parsed.topic, cases[i].topic) == 0);
        OL_CHECK_INT(parsed.partition, cases[i].partition);
        OL_CHECK_INT(parsed.kind, cases[i].kind);
        char name[OL_NAME_SIZE_MAX + 1];
        OL_CHECK_OK(ol_directory_name_format(name, parsed.kind, parsed.topic, parsed.partition, ID, &error), &error);
        OL_CHECK(strcmp(name, cases[i].name) == 0);
    }
}

OL_TEST(directory_names_are_capped) {
    char topic[250], name[OL_NAME_SIZE_MAX + 1];
    memset(topic, 'x', 249);
    topic[249] = '\0';
    ol_directory_name parsed;
    OL_CHECK_OK(ol_directory_name_format(name, OL_DIRECTORY_DELETE, topic, 12345, ID, &error), &error);
    OL_CHECK_INT(strlen(name), 255);
    OL_CHECK(ol_directory_name_parse(name, &parsed));
    OL_CHECK_INT(strlen(parsed.topic), 255 - strlen("-12345." ID "-delete"));
    OL_CHECK_INT(parsed.partition, 12345);
    OL_CHECK_OK(ol_directory_name_format(name, OL_DIRECTORY_PARTITION, topic, 12345, NULL, &error), &error);
    OL_CHECK_INT(strlen(name), 255);
    OL_CHECK_INT(ol_directory_name_format(name, OL_DIRECTORY_PARTITION, topic, 123456, NULL, &error), OL_TOO_LARGE);
    OL_CHECK_INT(ol_directory_name_format(name, OL_DIRECTORY_FUTURE, topic, 1, ID, &error), OL_TOO_LARGE);
    OL_CHECK_INT(ol_directory_name_format(name, OL_DIRECTORY_DELETE, topic, 1, "short", &error), OL_INVALID);
    OL_CHECK_INT(ol_directory_name_format(name, OL_DIRECTORY_PARTITION, "", 1, NULL, &error), OL_INVALID);
    OL_CHECK_INT(ol_directory_name_format(name, OL_DIRECTORY_PARTITION, "t", -1, NULL, &error), OL_INVALID);
}

static const char metadata[] = "version: 0\ntopic_id: KZ0mhcr8R2SYWoWqiKJDqA";

static int parse_metadata(const char *text, size_t size, ol_uuid *id) {
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    int status = ol_partition_metadata_parse(ol_slice_of(copy, size), id, &error);
    free(copy);
    return status;
}

OL_TEST(trap_37_metadata_ends_after_the_id) {
    ol_uuid id;
    char text[OL_PARTITION_METADATA_SIZE];
    OL_CHECK_INT(strlen(metadata), OL_PARTITION_METADATA_SIZE);
    OL_CHECK_OK(parse_metadata(metadata, strlen(metadata), &id), &error);
    OL_CHECK_INT(id.bytes[0], 0x29);
    ol_partition_metadata_format(&id, text);
    OL_CHECK(memcmp(text, metadata, sizeof text) == 0);
    for (size_t cut = 0; cut < strlen(metadata); cut++) OL_CHECK_INT(parse_metadata(metadata, cut, &id), OL_CORRUPT);
}

OL_TEST(metadata_of_another_form) {
    const struct {
        const char *text;
        int status;
    } cases[] = {
        {"version: 0\ntopic_id: KZ0mhcr8R2SYWoWqiKJDqA\n", OL_OK},
        {"version:  0\r\ntopic_id: KZ0mhcr8R2SYWoWqiKJDqA\r\n", OL_OK},
        {"version: 1\ntopic_id: KZ0mhcr8R2SYWoWqiKJDqA", OL_UNSUPPORTED},
        {"version: \ntopic_id: KZ0mhcr8R2SYWoWqiKJDqA", OL_CORRUPT},
        {"version: x\ntopic_id: KZ0mhcr8R2SYWoWqiKJDqA", OL_CORRUPT},
        {"version:0\ntopic_id: KZ0mhcr8R2SYWoWqiKJDqA", OL_CORRUPT},
        {"topic_id: KZ0mhcr8R2SYWoWqiKJDqA\nversion: 0", OL_CORRUPT},
        {"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", OL_CORRUPT},
        {"version: 0\ntopic_id: KZ0mhcr8R2SYWoWqiKJDqB", OL_CORRUPT},
        {"version: 0\ntopic_id: KZ0mhcr8R2SYWoWqiKJDqA\nmore: 1", OL_CORRUPT},
        {"version: 0\n\ntopic_id: KZ0mhcr8R2SYWoWqiKJDqA", OL_CORRUPT},
        {"version: 0", OL_CORRUPT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ol_uuid id;
        OL_CHECK_INT(parse_metadata(cases[i].text, strlen(cases[i].text), &id), cases[i].status);
    }
}

OL_TEST(metadata_file) {
    char directory[256];
    ol_test_directory_make(directory);
    ol_fs *fs = ol_fs_posix();
    const char *path = ol_test_path(directory, OL_PARTITION_METADATA_NAME);
    ol_uuid id = {{0}}, loaded;
    OL_CHECK_INT(ol_partition_metadata_load(fs, path, &loaded, &error), OL_NO_SUCH_FILE);
    OL_CHECK_INT(ol_partition_metadata_store(fs, path, &id, &error), OL_INVALID);
    id.bytes[7] = 9;
    OL_CHECK_OK(ol_partition_metadata_store(fs, path, &id, &error), &error);
    OL_CHECK_OK(ol_partition_metadata_load(fs, path, &loaded, &error), &error);
    OL_CHECK(memcmp(&id, &loaded, sizeof id) == 0);
    ol_test_write_file(path, "", 0);
    OL_CHECK_INT(ol_partition_metadata_load(fs, path, &loaded, &error), OL_CORRUPT);
    OL_CHECK(strcmp(error.path, path) == 0);
    ol_test_directory_remove(directory);
}

OL_TEST_MAIN()
