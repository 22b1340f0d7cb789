/* format/schema: describes records and messages by tables of their fields, and decodes them by
 * these tables.
 *
 * A schema says which fields a record or a message has in which version.  A schema is a set of
 * tables, which use the same field names as Kafka's tools.  The schemas of the records of
 * __consumer_offsets are in format/group_schema, and those of requests and responses in wire/.  The
 * tables are constant, and code outside this folder may read them.
 *
 * To write a record, the caller walks the schema and calls the functions of ol_schema_writer
 * (format/schema_encode.h), in the order in which the decoder would report the fields as events.
 *
 * Ownership: the slices in events point into the decoded bytes.  The functions take no locks. */
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
    OL_SCHEMA_DEPTH_MAX = 8,  /* how deep structs and arrays can be nested; no table exceeds it */
    OL_SCHEMA_NEVER = INT16_MAX,
};

typedef struct ol_field {
    const char *name;           /* NULL ends a list of fields */
    ol_field_kind kind;
    ol_field_kind element;      /* kind of an array's elements: any kind but an array */
    bool nullable;
    bool tagged;                /* The field is encoded among the tagged fields at the end of its
                                   struct, not at its place in the sequence. */
    bool null_by_default;
    uint8_t tag;
    int16_t first_version;
    int16_t removed_in;         /* the first version without the field; 0: none */
    int16_t nullable_from;      /* the first version in which a nullable field may be null */
    int64_t default_value;      /* the value of an integer field that is not present in the bytes */
    /* The fields of a struct.  For an array of structs, the fields of each element.  NULL for all
     * other kinds. */
    const struct ol_field *fields;
} ol_field;

typedef struct ol_schema {
    const char *name;
    const ol_field *fields;
    int16_t first_version;
    int16_t last_version;
    int16_t flexible_from;      /* the first version that has compact sizes and tagged fields;
                                   OL_SCHEMA_NEVER: no version */
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

/* The functions that the decoder calls for the parts of a record, in the order of the bytes.  A
 * function pointer may be NULL.  If a function fails, it must fill *error, and the decoder ends
 * with its status.  `field` is the entry of the field in its table.  For an element of an array,
 * `field` is the entry of the array.  For the outermost struct, `field` is NULL.  A tagged field is
 * reported only if it is present.
 *
 * Slices point into the decoded bytes.  Their data is never NULL, because a null string, bytes or
 * array is reported with `null_value`. */
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

/* Decodes `bytes` and calls the functions of the visitor.  `bytes` begin after the two bytes that
 * hold the type of the key or the version of the value.  *used is set to the end of the last known
 * field; the bytes after it are ignored (docs/format/records.md §3.1).  `used` may be NULL.
 *
 * Returns OL_UNSUPPORTED if the schema does not have this version.  Returns OL_CORRUPT if the bytes
 * end within a field, if a field is null although the schema does not allow it, or if a tagged
 * field has another size than its tag states.  Also returns OL_CORRUPT if the count of an array is
 * greater than the remaining bytes allow.  The decoder checks the count before it reports the
 * array.  Events that were reported before a failure remain valid.  The decoder allocates no
 * memory, and its time is proportional to the number of bytes. */
int ol_schema_decode(const ol_schema *schema, int16_t version, ol_slice bytes,
                     const ol_schema_visitor *visitor, size_t *used, ol_error *error) OL_NODISCARD;

#endif
