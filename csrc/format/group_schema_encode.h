/* format/group_schema_encode: encodes a record from the same events that ol_schema_decode tells, in the same order.
 *
 * To write a record: start, begin_struct(NULL), for each field of the schema that is in the version one of the calls (arrays:
 * begin_array, the elements, end_array), tagged fields last and only those that are to be there, in ascending order of their
 * tags, end_struct(NULL), finish.  Every function has the form of the visitor's, so that a decoder can be made to write.
 *
 * The writer owns nothing and writes only into the caller's memory.  A failure sticks: later calls return it again.
 */
#ifndef OL_FORMAT_GROUP_SCHEMA_ENCODE_H
#define OL_FORMAT_GROUP_SCHEMA_ENCODE_H

#include "format/group_schema.h"

typedef struct ol_schema_frame {
    const ol_field *field;
    uint8_t *tags;              /* a struct: where its tags begin; NULL before the first */
    uint8_t *tag_size;          /* where the size of the open tag belongs; NULL when none is open */
    uint32_t tag_count;
    uint32_t last_tag;
    int32_t elements_left;      /* an array's */
    bool is_array;
} ol_schema_frame;

typedef struct ol_schema_writer {
    const ol_schema *schema;
    uint8_t *start;
    uint8_t *p;
    uint8_t *limit;
    int16_t version;
    bool flexible;
    int status;
    int depth;
    ol_schema_frame frames[2 * OL_SCHEMA_DEPTH_MAX];
} ol_schema_writer;

/* What is written begins behind the two bytes of the type or version, which are the caller's. */
int ol_schema_writer_start(ol_schema_writer *writer, const ol_schema *schema, int16_t version, uint8_t *bytes, size_t capacity,
                           ol_error *error) OL_NODISCARD;

/* OL_TOO_LARGE: the memory does not suffice, or a string is longer than 32,767 bytes.  OL_INVALID: an integer outside its
 * field's range, null for a field that cannot be, a UUID that has not 16 bytes, tags that do not ascend, a wrong count. */
int ol_schema_put_begin_struct(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_end_struct(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_begin_array(void *writer, const ol_field *field, int32_t count, ol_error *error);
int ol_schema_put_end_array(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_integer(void *writer, const ol_field *field, int64_t value, ol_error *error);
int ol_schema_put_bytes(void *writer, const ol_field *field, ol_slice value, ol_error *error);
int ol_schema_put_null(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_unknown_tag(void *writer, uint32_t tag, ol_slice value, ol_error *error);

/* Everything was ended; *size is what was written. */
int ol_schema_writer_finish(ol_schema_writer *writer, size_t *size, ol_error *error) OL_NODISCARD;

/* A visitor that writes what it is told. */
ol_schema_visitor ol_schema_writer_visitor(ol_schema_writer *writer);

#endif
