/* Parses and formats file names, directory names and topic ids. */
#include "log/files/names.h"

#include <stdio.h>
#include <string.h>

static const char uuid_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

bool ol_uuid_is_zero(const ol_uuid *uuid) {
    uint8_t all = 0;
    for (size_t i = 0; i < OL_UUID_SIZE; i++) all |= uuid->bytes[i];
    return all == 0;
}

/* 128 bits in 6-bit digits, most significant first; the last digit carries 2 bits and 4 spare
 * zeros. */
void ol_uuid_format(const ol_uuid *uuid, char text[OL_UUID_TEXT_SIZE]) {
    uint32_t bits = 0;
    unsigned bit_count = 0;
    size_t next_byte = 0;
    for (size_t i = 0; i < OL_UUID_TEXT_SIZE; i++) {
        if (bit_count < 6) {
            bits = bits << 8 | (next_byte < OL_UUID_SIZE ? uuid->bytes[next_byte] : 0u);
            next_byte++;
            bit_count += 8;
        }
        bit_count -= 6;
        text[i] = uuid_alphabet[bits >> bit_count & 63];
    }
}

static int uuid_digit(uint8_t character) {
    const char *found = character == 0 ? NULL : strchr(uuid_alphabet, character);
    return found == NULL ? -1 : (int)(found - uuid_alphabet);
}

bool ol_uuid_parse(ol_slice text, ol_uuid *uuid) {
    ol_uuid result;
    uint32_t bits = 0;
    unsigned bit_count = 0;
    size_t count = 0;
    if (text.size != OL_UUID_TEXT_SIZE) return false;
    for (size_t i = 0; i < OL_UUID_TEXT_SIZE; i++) {
        int digit = uuid_digit(text.data[i]);
        if (digit < 0) return false;
        bits = bits << 6 | (uint32_t)digit;
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            result.bytes[count++] = (uint8_t)(bits >> bit_count);
        }
    }
    OL_ASSERT(count == OL_UUID_SIZE && bit_count == 4);
    if ((bits & 15) != 0) return false;
    *uuid = result;
    return true;
}

int ol_file_name(char *name, size_t capacity, int64_t offset, const char *suffix, ol_error *error) {
    if (offset < 0) {
        return ol_fail(error, OL_INVALID, "offset %lld cannot be a file name",
                       (long long)offset);
    }
    int size = snprintf(name, capacity, "%0*lld%s", OL_OFFSET_DIGITS, (long long)offset, suffix);
    if (size < 0 || (size_t)size >= capacity) {
        return ol_fail(error, OL_INVALID, "the buffer is too small for a file name");
    }
    return OL_OK;
}

bool ol_file_name_parse(const char *name, int64_t *offset, const char **suffix) {
    uint64_t value = 0;
    for (size_t i = 0; i < OL_OFFSET_DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9') return false;
        uint64_t digit = (uint64_t)(name[i] - '0');
        if (value > ((uint64_t)INT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    if (name[OL_OFFSET_DIGITS] >= '0' && name[OL_OFFSET_DIGITS] <= '9') return false;
    *offset = (int64_t)value;
    *suffix = name + OL_OFFSET_DIGITS;
    return true;
}

/* Digits without sign or leading zero, so that one partition has one directory name. */
static bool parse_partition(const char *text, size_t size, int32_t *partition) {
    int64_t value = 0;
    if (size == 0 || size > 10 || (size > 1 && text[0] == '0')) return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (text[i] - '0');
    }
    if (value > INT32_MAX) return false;
    *partition = (int32_t)value;
    return true;
}

static bool is_identifier(const char *text, size_t size) {
    if (size != 32) return false;
    for (size_t i = 0; i < size; i++) {
        bool is_hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
        if (!is_hex) return false;
    }
    return true;
}

static const struct {
    ol_directory_kind kind;
    const char *suffix;
} directory_suffixes[] = {
    {OL_DIRECTORY_DELETE, "-delete"},
    {OL_DIRECTORY_STRAY, "-stray"},
    {OL_DIRECTORY_FUTURE, "-future"},
};

/* Takes ".<32 hex digits><suffix>" off the end; *size is the rest. */
static ol_directory_kind strip_suffix(const char *name, size_t *size) {
    for (size_t i = 0; i < sizeof directory_suffixes / sizeof directory_suffixes[0]; i++) {
        size_t suffix_size = strlen(directory_suffixes[i].suffix);
        if (*size < suffix_size + 33) continue;
        size_t stem = *size - suffix_size - 33;
        if (memcmp(name + *size - suffix_size, directory_suffixes[i].suffix, suffix_size) != 0) {
            continue;
        }
        if (name[stem] != '.' || !is_identifier(name + stem + 1, 32)) continue;
        *size = stem;
        return directory_suffixes[i].kind;
    }
    return OL_DIRECTORY_PARTITION;
}

bool ol_directory_name_parse(const char *name, ol_directory_name *parsed) {
    size_t size = strlen(name);
    if (size > OL_NAME_SIZE_MAX || strchr(name, '/') != NULL) return false;
    ol_directory_kind kind = strip_suffix(name, &size);
    size_t dash = size;
    while (dash > 0 && name[dash - 1] != '-') dash--;
    /* A name that was capped keeps its dash, so the topic part may only be empty by mistake. */
    if (dash < 2) return false;
    int32_t partition;
    if (!parse_partition(name + dash, size - dash, &partition)) return false;
    memcpy(parsed->topic, name, dash - 1);
    parsed->topic[dash - 1] = '\0';
    parsed->partition = partition;
    parsed->kind = kind;
    return true;
}

int ol_directory_name_format(char name[OL_NAME_SIZE_MAX + 1], ol_directory_kind kind,
                             const char *topic, int32_t partition, const char *id,
                             ol_error *error) {
    char end[64];
    size_t topic_size = strlen(topic);
    if (topic_size == 0 || topic_size > OL_TOPIC_SIZE_MAX || strchr(topic, '/') != NULL) {
        return ol_fail(error, OL_INVALID, "'%.100s' is not a topic name", topic);
    }
    if (partition < 0) return ol_fail(error, OL_INVALID, "partition %d is negative", partition);
    int end_size = snprintf(end, sizeof end, "-%d", partition);
    if (kind != OL_DIRECTORY_PARTITION) {
        if (!is_identifier(id, strlen(id))) {
            return ol_fail(error, OL_INVALID, "an identifier must have 32 hexadecimal digits");
        }
        const char *suffix = directory_suffixes[kind - OL_DIRECTORY_DELETE].suffix;
        end_size += snprintf(end + end_size, sizeof end - (size_t)end_size, ".%s%s", id, suffix);
    }
    OL_ASSERT(end_size > 0 && (size_t)end_size < sizeof end);
    bool capped = kind == OL_DIRECTORY_DELETE || kind == OL_DIRECTORY_STRAY;
    size_t room = OL_NAME_SIZE_MAX - (size_t)end_size;
    if (topic_size > room && !capped) {
        return ol_fail(error, OL_TOO_LARGE, "the directory name is over 255 bytes");
    }
    if (topic_size > room) topic_size = room;
    memcpy(name, topic, topic_size);
    memcpy(name + topic_size, end, (size_t)end_size + 1);
    return OL_OK;
}
