/* Parses, formats and stores the two lines of partition.metadata. */
#include "log/files/partition_metadata.h"

#include <stdlib.h>
#include <string.h>

static const char version_line[] = "version: 0\n";
static const char topic_id_key[] = "topic_id: ";

enum { FILE_SIZE_MAX = 4096 };

void ol_partition_metadata_format(const ol_uuid *topic_id, char text[OL_PARTITION_METADATA_SIZE]) {
    size_t version_size = sizeof version_line - 1;
    size_t key_size = sizeof topic_id_key - 1;
    OL_ASSERT(version_size + key_size + OL_UUID_TEXT_SIZE == OL_PARTITION_METADATA_SIZE);
    memcpy(text, version_line, version_size);
    memcpy(text + version_size, topic_id_key, key_size);
    ol_uuid_format(topic_id, text + version_size + key_size);
}

static bool is_white(uint8_t byte) {
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static bool is_number(ol_slice text) {
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
    }
    return text.size > 0;
}

/* Takes "<key>:<white space><value>" off the front, up to the end of the line; false if the line is
 * not of this form. */
static bool take_field(ol_slice *text, const char *key, ol_slice *value) {
    size_t key_size = strlen(key);
    const uint8_t *line_end = memchr(text->data, '\n', text->size);
    size_t line_size = line_end == NULL ? text->size : (size_t)(line_end - text->data);
    size_t at = key_size + 1;
    if (line_size < at || memcmp(text->data, key, key_size) != 0 || text->data[key_size] != ':') {
        return false;
    }
    if (at == line_size || !is_white(text->data[at])) return false;
    while (at < line_size && is_white(text->data[at])) at++;
    size_t end = line_size;
    while (end > at && is_white(text->data[end - 1])) end--;
    *value = ol_slice_of(text->data + at, end - at);
    size_t used = line_end == NULL ? line_size : line_size + 1;
    *text = ol_slice_of(text->data + used, text->size - used);
    return true;
}

int ol_partition_metadata_parse(ol_slice text, ol_uuid *topic_id, ol_error *error) {
    ol_slice version, id;
    ol_uuid uuid;
    if (text.size == 0) return ol_fail(error, OL_CORRUPT, "the file is empty");
    if (!take_field(&text, "version", &version)) {
        return ol_fail(error, OL_CORRUPT, "line 1 is not a version");
    }
    if (!is_number(version)) {
        return ol_fail(error, OL_CORRUPT, "line 1: the version is not a number");
    }
    if (version.size != 1 || version.data[0] != '0') {
        return ol_fail(error, OL_UNSUPPORTED, "version '%.*s' is not 0",
                       (int)(version.size < 20 ? version.size : 20), (const char *)version.data);
    }
    if (text.size == 0 || !take_field(&text, "topic_id", &id)) {
        return ol_fail(error, OL_CORRUPT, "line 2 is not a topic id");
    }
    if (!ol_uuid_parse(id, &uuid)) {
        return ol_fail(error, OL_CORRUPT, "the topic id is not 22 characters of base64");
    }
    if (ol_uuid_is_zero(&uuid)) return ol_fail(error, OL_CORRUPT, "the topic id is zero");
    for (size_t i = 0; i < text.size; i++) {
        if (!is_white(text.data[i])) {
            return ol_fail(error, OL_CORRUPT, "the file has more text after the topic id");
        }
    }
    *topic_id = uuid;
    return OL_OK;
}

int ol_partition_metadata_load(ol_fs *fs, const char *path, ol_uuid *topic_id, ol_error *error) {
    uint8_t *text;
    size_t size;
    int status = ol_fs_read_file(fs, path, FILE_SIZE_MAX, &text, &size, error);
    if (status == OL_LIMIT) error->status = status = OL_CORRUPT;
    if (status != OL_OK) return status;
    status = ol_partition_metadata_parse(ol_slice_of(text, size), topic_id, error);
    free(text);
    return status == OL_OK ? OL_OK : ol_error_at(error, path, -1);
}

int ol_partition_metadata_store(ol_fs *fs, const char *path, const ol_uuid *topic_id,
                                ol_error *error) {
    char text[OL_PARTITION_METADATA_SIZE];
    if (ol_uuid_is_zero(topic_id)) return ol_fail(error, OL_INVALID, "a topic id must not be zero");
    ol_partition_metadata_format(topic_id, text);
    return ol_fs_replace_file(fs, path, text, sizeof text, error);
}
