/* format/schema_encode: encodes a record from the events of ol_schema_decode.
 *
 * To write a record, call ol_schema_writer_start and then begin_struct with NULL.  Next, call one
 * function for each field of the version, in the order of the schema; for an array, call
 * begin_array, write the elements, and call end_array.  Write the tagged fields of a struct after
 * its other fields, in ascending order of their tags.  Then call end_struct with NULL, and finish.
 * The functions have the types of the visitor's callbacks, so that a decoder can call them
 * directly.
 *
 * Ownership: the writer owns no memory and writes only into the caller's buffer.  The functions
 * take no locks.  After one call has failed, every later call fails as well. */
#ifndef OL_FORMAT_SCHEMA_ENCODE_H
#define OL_FORMAT_SCHEMA_ENCODE_H

#include "format/schema.h"

typedef struct ol_schema_frame {
    const ol_field *field;
    uint8_t *tags;  /* for a struct: where its tagged fields begin; NULL before the first */
    uint8_t *tag_size;          /* where the size of the tagged field that is being written goes;
                                   NULL if none is being written */
    uint32_t tag_count;
    uint32_t last_tag;
    int32_t elements_left;      /* for an array: number of elements not yet written */
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

/* Starts a writer whose output begins at `bytes`.  In a record, two bytes precede this output: the
 * type of a key, or the version of a value.  The caller writes them.  Fails with OL_UNSUPPORTED if
 * the schema does not have this version. */
int ol_schema_writer_start(ol_schema_writer *writer, const ol_schema *schema, int16_t version,
                           uint8_t *bytes, size_t capacity, ol_error *error) OL_NODISCARD;

/* These functions fail with OL_TOO_LARGE if the buffer is too small or a string is longer than
 * 32,767 bytes.  They fail with OL_INVALID in each of these cases:
 *   - an integer is outside the range of its field
 *   - null is written to a field that cannot be null
 *   - a UUID does not have 16 bytes
 *   - the tags do not ascend
 *   - the schema does not allow the call at this point, for example because an array has a wrong
 *     number of elements. */
int ol_schema_put_begin_struct(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_end_struct(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_begin_array(void *writer, const ol_field *field, int32_t count, ol_error *error);
int ol_schema_put_end_array(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_integer(void *writer, const ol_field *field, int64_t value, ol_error *error);
int ol_schema_put_bytes(void *writer, const ol_field *field, ol_slice value, ol_error *error);
int ol_schema_put_null(void *writer, const ol_field *field, ol_error *error);
int ol_schema_put_unknown_tag(void *writer, uint32_t tag, ol_slice value, ol_error *error);

/* Ends the output and sets *size to its size.  Fails with OL_INVALID if a struct or an array has
 * not been ended. */
int ol_schema_writer_finish(ol_schema_writer *writer, size_t *size, ol_error *error) OL_NODISCARD;

/* Returns a visitor that writes the events it receives. */
ol_schema_visitor ol_schema_writer_visitor(ol_schema_writer *writer);

#endif
