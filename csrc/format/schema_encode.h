/* format/schema_encode: encodes a record from the events of ol_schema_decode.
 *
 * To write a record, call start, then begin_struct(NULL), then one function for each field of the
 * version, in the order of the schema (for an array: begin_array, the elements, end_array).  Put
 * the wanted tagged fields last, in ascending order of their tags.  Then call end_struct(NULL) and
 * finish.  The functions have the types of the visitor's callbacks, so that a decoder can drive the
 * writer.
 *
 * Ownership: the writer owns nothing and writes only into the caller's memory.  Locks: none.  After
 * a failure every later call returns the failure again.
 */
#ifndef OL_FORMAT_SCHEMA_ENCODE_H
#define OL_FORMAT_SCHEMA_ENCODE_H

#include "format/schema.h"

typedef struct ol_schema_frame {
    const ol_field *field;
    uint8_t *tags;              /* of a struct: where its tags begin; NULL before the first tag */
    uint8_t *tag_size;          /* where the open tag's size is written; NULL when none is open */
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

/* Starts a writer that writes from `bytes` on.  The caller writes the two bytes that precede them
 * in a record: the type of a key, or the version of a value. */
int ol_schema_writer_start(ol_schema_writer *writer, const ol_schema *schema, int16_t version,
                           uint8_t *bytes, size_t capacity, ol_error *error) OL_NODISCARD;

/* OL_TOO_LARGE: the buffer is too small, or a string is longer than 32,767 bytes.  OL_INVALID: an
 * integer outside its field's range, null for a field that cannot be null, a UUID without 16 bytes,
 * tags that do not ascend, or a call that the schema does not allow here, such as a wrong number of
 * elements. */
int ol_schema_put_begin_struct(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_end_struct(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_begin_array(void *writer, const ol_field *field, int32_t count, ol_error *error);
int ol_schema_put_end_array(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_integer(void *writer, const ol_field *field, int64_t value, ol_error *error);
int ol_schema_put_bytes(void *writer, const ol_field *field, ol_slice value, ol_error *error);
int ol_schema_put_null(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_unknown_tag(void *writer, uint32_t tag, ol_slice value, ol_error *error);

/* Ends the output and sets *size to its size.  OL_INVALID: a struct or an array is still open. */
int ol_schema_writer_finish(ol_schema_writer *writer, size_t *size, ol_error *error) OL_NODISCARD;

/* Returns a visitor that writes the events it receives. */
ol_schema_visitor ol_schema_writer_visitor(ol_schema_writer *writer);

#endif
