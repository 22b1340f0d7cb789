/* log/files/names: Kafka's names of the files and directories of a log dir, and topic ids as text
 * (docs/format/conventions.md §0, docs/format/directory.md §1.1, §1.2). */
#ifndef OL_LOG_FILES_NAMES_H
#define OL_LOG_FILES_NAMES_H

#include "base/base.h"
#include "log/files/checkpoint.h"
#include "base/status.h"

enum {
    OL_OFFSET_DIGITS = 20,
    OL_NAME_SIZE_MAX = 255,
    OL_UUID_SIZE = 16,
    OL_UUID_TEXT_SIZE = 22,
};

typedef struct ol_uuid {
    uint8_t bytes[OL_UUID_SIZE];        /* most significant first */
} ol_uuid;

bool ol_uuid_is_zero(const ol_uuid *uuid);

/* Writes 22 characters of URL-safe base64, not terminated. */
void ol_uuid_format(const ol_uuid *uuid, char text[OL_UUID_TEXT_SIZE]);

/* Parses an id.  Returns false unless `text` is 22 characters of URL-safe base64 whose 4 unused
 * bits are zero. */
bool ol_uuid_parse(ol_slice text, ol_uuid *uuid);

/* Writes the name `<20 digits><suffix>`, terminated.  The digits are `offset`, and `suffix` is
 * ".log", ".index", ".log.cleaned" or the like. */
int ol_file_name(char *name, size_t capacity, int64_t offset, const char *suffix,
                 ol_error *error) OL_NODISCARD;

/* Splits a name `<20 digits><suffix>`.  *suffix points into `name`.  Returns false for any other
 * name, and for numbers above 2^63 - 1. */
bool ol_file_name_parse(const char *name, int64_t *offset, const char **suffix);

typedef enum ol_directory_kind {
    OL_DIRECTORY_PARTITION = 0,         /* topic-partition */
    OL_DIRECTORY_DELETE = 1,            /* topic-partition.id-delete, the topic perhaps shortened */
    OL_DIRECTORY_STRAY = 2,
    OL_DIRECTORY_FUTURE = 3,
} ol_directory_kind;

typedef struct ol_directory_name {
    char topic[OL_TOPIC_SIZE_MAX + 1];
    int32_t partition;
    ol_directory_kind kind;
} ol_directory_name;

/* Parses the name of a partition directory of one of these kinds.  Returns false for any other
 * name. */
bool ol_directory_name_parse(const char *name, ol_directory_name *parsed);

/* Writes the name of a directory.  `id` is 32 lowercase hexadecimal digits, which a name of
 * OL_DIRECTORY_PARTITION does not contain.  A name may have at most 255 bytes.  In the names of
 * strays and of directories that are being deleted, the topic is shortened so that the name fits.
 * For other names that are too long, fails with OL_TOO_LARGE. */
int ol_directory_name_format(char name[OL_NAME_SIZE_MAX + 1], ol_directory_kind kind,
                             const char *topic, int32_t partition, const char *id,
                             ol_error *error) OL_NODISCARD;

#endif
