/* format/schema: lists of fields as data, and one bounded decoder that walks them.
 *
 * A schema says which fields a record or a message has in which version, in Kafka's own terms: its
 * tables use the field names of Kafka's tools.  The schemas of records of __consumer_offsets are in
 * format/group_schema, those of requests and responses in wire/.  Tables are constant, and code
 * outside this folder may walk them: to write bytes from other data, walk the schema and call
 * ol_schema_writer (format/schema_encode.h) in the order of the decoder's events.
 *
 * Ownership: events borrow from the decoded bytes.  Locks: none.
 */
#ifndef OL_FORMAT_SCHEMA_H
#define OL_FORMAT_SCHEMA_H

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
    OL_SCHEMA_DEPTH_MAX = 8,  /* nesting of structs and arrays; all tables stay below this limit */
    OL_SCHEMA_NEVER = INT16_MAX,
};

typedef struct ol_field {
    const char *name;           /* NULL ends a list of fields */
    ol_field_kind kind;
    ol_field_kind element;      /* kind of an array's elements: any kind but an array */
    bool nullable;
    bool tagged;                /* encoded among the struct's tagged fields, not in sequence */
    bool null_by_default;
    uint8_t tag;
    int16_t first_version;
    int16_t removed_in;         /* the first version without the field; 0: none */
    int16_t nullable_from;      /* the first version in which a nullable field may be null */
    int64_t default_value;      /* value of an integer that the bytes lack */
    /* the fields of a struct, or of each element of an array of structs; else NULL */
    const struct ol_field *fields;
} ol_field;

typedef struct ol_schema {
    const char *name;
    const ol_field *fields;
    int16_t first_version;
    int16_t last_version;
    int16_t flexible_from;      /* the first version with compact sizes and tags; OL_SCHEMA_NEVER:
                                   none */
} ol_schema;

static inline bool ol_field_in_version(const ol_field *field, int16_t version) {
    return version >= field->first_version &&
           (field->removed_in == 0 || version < field->removed_in);
}

static inline bool ol_field_may_be_null(const ol_field *field, int16_t version) {
    return field->nullable && version >= field->nullable_from;
}

/* Returns the fewest bytes that an element of an array can have. */
size_t ol_schema_element_size_min(const ol_schema *schema, int16_t version, const ol_field *array);

/* The decoder's events, in the order of the bytes.  A function may be NULL.  A function that fails
 * fills the error, and the walk ends with its status.  `field` is the entry in the table: for an
 * element of an array the entry of the array, for the outermost struct NULL.  A tagged field is
 * reported only if it is present.
 *
 * Slices are borrowed from the decoded bytes and are never NULL: null is reported as `null_value`.
 */
typedef struct ol_schema_visitor {
    int (*begin_struct)(void *context, const ol_field *field, ol_error *error);
    int (*end_struct)(void *context, const ol_field *field, ol_error *error);
    int (*begin_array)(void *context, const ol_field *field, int32_t count, ol_error *error);
    int (*end_array)(void *context, const ol_field *field, ol_error *error);
    int (*integer)(void *context, const ol_field *field, int64_t value, ol_error *error);
    /* UUID, STRING, BYTES */
    int (*bytes)(void *context, const ol_field *field, ol_slice value, ol_error *error);
    int (*null_value)(void *context, const ol_field *field, ol_error *error);
    int (*unknown_tag)(void *context, uint32_t tag, ol_slice value, ol_error *error);
    void *context;
} ol_schema_visitor;

/* Walks `bytes`, which begin after the two bytes of the key's type or the value's version.  *used
 * (may be NULL) is the end of the last known field; bytes after it are ignored
 * (docs/format/records.md §3.1).
 *
 * OL_UNSUPPORTED: the schema does not have this version.  OL_CORRUPT: a field ends early, is null
 * against the schema or does not fill its tag exactly, or an array has a greater count than the
 * remaining bytes can hold.  The count is checked before any event of the array.  Events before a
 * failure stay valid.  No allocation; the work is linear in the bytes.
 */
int ol_schema_decode(const ol_schema *schema, int16_t version, ol_slice bytes,
                     const ol_schema_visitor *visitor, size_t *used, ol_error *error) OL_NODISCARD;

#endif
