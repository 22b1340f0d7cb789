/* format/group_schema: the fields of every record of __consumer_offsets, as data (docs/format/records.md §3, docs/format/brokers.md §15.1), with one bounded decoder that
 * walks them for any of the records.
 *
 * Field names are those that Kafka's own tools print.  The tables are constant, so that other layers can walk them too: to
 * write a record from a dictionary, walk its schema and call ol_schema_writer (format/group_schema_encode.h) in the same order as the decoder
 * would tell its events.  The engine's own path for offset commits is format/offset_record; their schemas are here for dumps.
 */
#ifndef OL_FORMAT_GROUP_SCHEMA_H
#define OL_FORMAT_GROUP_SCHEMA_H

#include "base/base.h"
#include "base/status.h"

typedef enum ol_field_kind {
    OL_FIELD_NONE = 0,
    OL_FIELD_BOOLEAN,
    OL_FIELD_I8,
    OL_FIELD_I16,
    OL_FIELD_U16,
    OL_FIELD_I32,
    OL_FIELD_I64,
    OL_FIELD_UUID,              /* 16 bytes */
    OL_FIELD_STRING,
    OL_FIELD_BYTES,
    OL_FIELD_ARRAY,
    OL_FIELD_STRUCT,
} ol_field_kind;

enum {
    OL_SCHEMA_DEPTH_MAX = 8,    /* structs and arrays inside each other; the tables stay below it */
    OL_SCHEMA_NEVER = INT16_MAX,
};

typedef struct ol_field {
    const char *name;           /* NULL ends a list of fields */
    ol_field_kind kind;
    ol_field_kind element;      /* of an array: any kind but an array */
    bool nullable;
    bool tagged;                /* in the struct's tags, not in its place */
    uint8_t tag;
    int16_t first_version;
    int16_t removed_in;         /* the version that no longer has it; 0: all do */
    const struct ol_field *fields;      /* of a struct, or of each element of an array of structs; else NULL */
} ol_field;

typedef struct ol_schema {
    const char *name;
    const ol_field *fields;
    int16_t first_version;
    int16_t last_version;
    int16_t flexible_from;      /* from this version on: compact sizes and tags; OL_SCHEMA_NEVER */
} ol_schema;

/* NULL for a type that is not known (9, 18, above 23, below 0).  Keys have the one version 0. */
const ol_schema *ol_schema_of_key(int16_t key_type);
const ol_schema *ol_schema_of_value(int16_t key_type);

/* What a consumer puts into the subscription and assignment bytes of a GroupMetadata member. */
const ol_schema *ol_schema_of_subscription(void);
const ol_schema *ol_schema_of_assignment(void);

static inline bool ol_field_in_version(const ol_field *field, int16_t version) {
    return version >= field->first_version && (field->removed_in == 0 || version < field->removed_in);
}

/* What the decoder tells, in the order of the bytes.  A function may be NULL; one that returns something else than OL_OK has
 * filled the error and ends the walk with that status.  `field` is that of the table: for the elements of an array the array's,
 * for the outermost struct NULL.  A tagged field is told only where it is there.
 *
 * Slices are borrowed from the bytes that are decoded and are never NULL: what is null comes as `null_value`. */
typedef struct ol_schema_visitor {
    int (*begin_struct)(void *context, const ol_field *field, ol_error *error);
    int (*end_struct)(void *context, const ol_field *field, ol_error *error);
    int (*begin_array)(void *context, const ol_field *field, int32_t count, ol_error *error);
    int (*end_array)(void *context, const ol_field *field, ol_error *error);
    int (*integer)(void *context, const ol_field *field, int64_t value, ol_error *error);
    int (*bytes)(void *context, const ol_field *field, ol_slice value, ol_error *error);    /* UUID, STRING, BYTES */
    int (*null_value)(void *context, const ol_field *field, ol_error *error);
    int (*unknown_tag)(void *context, uint32_t tag, ol_slice value, ol_error *error);
    void *context;
} ol_schema_visitor;

/* Walks `bytes`, which begin behind the two bytes of the key's type or the value's version.  *used (may be NULL) is where the
 * last known field ended; bytes behind it are ignored (docs/format/records.md §3.1).
 *
 * OL_UNSUPPORTED: a version that the schema does not have.  OL_CORRUPT: a field is cut, is null and must not be, or does not fill its tag
 * exactly; counts are judged by the bytes that are left before anything is told of the array.  What was told before a failure
 * stays told.  No locks, no allocation; the work is linear in the bytes. */
int ol_schema_decode(const ol_schema *schema, int16_t version, ol_slice bytes, const ol_schema_visitor *visitor, size_t *used,
                     ol_error *error) OL_NODISCARD;

#endif
