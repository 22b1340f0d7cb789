/* wire/message_write.c: bytes from values, through the one encoder (format/schema_encode). */
#include "wire/message.h"

#include <string.h>

#include "format/schema_encode.h"

enum {
    SIZE_MAX_BYTES = 5,         /* of a size, a count or a tag */
    INTEGER_MAX_BYTES = 8,
};

/* ------------------------------------------------------------------------------------- defaults */

static bool is_default(const ol_field *field, const ol_value *value);

static bool all_default(const ol_field *fields, const ol_value *values) {
    for (size_t i = 0; fields[i].name != NULL; i++) {
        if (!is_default(&fields[i], &values[i])) return false;
    }
    return true;
}

static bool is_zero(const uint8_t *uuid) {
    static const uint8_t zero[16];
    return memcmp(uuid, zero, sizeof zero) == 0;
}

static bool is_default(const ol_field *field, const ol_value *value) {
    switch (field->kind) {
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES:
        case OL_FIELD_ARRAY: return value->number == (field->null_by_default ? -1 : 0);
        case OL_FIELD_UUID: return is_zero(value->bytes);
        case OL_FIELD_STRUCT:
            return value->number == 0 ||
                   (!field->nullable && all_default(field->fields, value->values));
        default: return value->number == field->default_value;
    }
}

/* ----------------------------------------------------------------------------------------- size */

static size_t fields_size_max(const ol_field *fields, int16_t version, const ol_value *values);

static size_t value_size_max(const ol_field *field, ol_field_kind kind, int16_t version,
                             const ol_value *value) {
    switch (kind) {
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES:
        case OL_FIELD_UUID:
            return SIZE_MAX_BYTES + (value->number > 0 ? (size_t)value->number : 0);
        case OL_FIELD_STRUCT:
            return 1 + (value->number != 0
                            ? fields_size_max(field->fields, version, value->values)
                            : 0);
        default: return INTEGER_MAX_BYTES;
    }
}

static size_t array_size_max(const ol_field *field, int16_t version, const ol_value *array) {
    size_t size = SIZE_MAX_BYTES;
    size_t width = field->element == OL_FIELD_STRUCT ? ol_message_width(field->fields) : 1;
    for (int64_t i = 0; i < array->number; i++) {
        const ol_value *element = array->values + (size_t)i * width;
        size += field->element == OL_FIELD_STRUCT
                    ? fields_size_max(field->fields, version, element)
                    : value_size_max(field, field->element, version, element);
    }
    return size;
}

static size_t fields_size_max(const ol_field *fields, int16_t version, const ol_value *values) {
    size_t size = SIZE_MAX_BYTES;    /* the count of tags */
    for (size_t i = 0; fields[i].name != NULL; i++) {
        if (!ol_field_in_version(&fields[i], version)) continue;
        if (fields[i].tagged) size += 2 * SIZE_MAX_BYTES;
        size += fields[i].kind == OL_FIELD_ARRAY
                    ? array_size_max(&fields[i], version, &values[i])
                    : value_size_max(&fields[i], fields[i].kind, version, &values[i]);
    }
    return size;
}

size_t ol_message_size_max(const ol_schema *schema, int16_t version, const ol_value *message) {
    return fields_size_max(schema->fields, version, message);
}

/* ---------------------------------------------------------------------------------------- bytes */

static int write_struct(ol_schema_writer *w, const ol_field *field, const ol_field *fields,
                        const ol_value *values, ol_error *error);

static int write_array(ol_schema_writer *w, const ol_field *field, const ol_value *array,
                       ol_error *error);

static int write_value(ol_schema_writer *w, const ol_field *field, ol_field_kind kind,
                       const ol_value *value, ol_error *error) {
    switch (kind) {
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES:
        case OL_FIELD_UUID:
            if (value->number < 0) return ol_schema_put_null(w, field, error);
            return ol_schema_put_bytes(w, field, ol_value_slice(value), error);
        case OL_FIELD_ARRAY:
            if (value->number < 0) return ol_schema_put_null(w, field, error);
            return write_array(w, field, value, error);
        case OL_FIELD_STRUCT:
            if (value->number == 0) return ol_schema_put_null(w, field, error);
            return write_struct(w, field, field->fields, value->values, error);
        default: return ol_schema_put_integer(w, field, value->number, error);
    }
}

static int write_array(ol_schema_writer *w, const ol_field *field, const ol_value *array,
                       ol_error *error) {
    bool of_structs = field->element == OL_FIELD_STRUCT;
    size_t width = of_structs ? ol_message_width(field->fields) : 1;
    int status = ol_schema_put_begin_array(w, field, (int32_t)array->number, error);
    for (int64_t i = 0; i < array->number && status == OL_OK; i++) {
        const ol_value *element = array->values + (size_t)i * width;
        status = of_structs ? write_struct(w, field, field->fields, element, error)
                            : write_value(w, field, field->element, element, error);
    }
    return status == OL_OK ? ol_schema_put_end_array(w, field, error) : status;
}

/* The field with the least tag above `tag`; NULL: none is left to write. */
static const ol_field *next_tag(const ol_schema_writer *w, const ol_field *fields, int tag) {
    const ol_field *next = NULL;
    for (const ol_field *field = fields; field->name != NULL; field++) {
        if (!field->tagged || field->tag <= tag) continue;
        if (!ol_field_in_version(field, w->version)) continue;
        if (next == NULL || field->tag < next->tag) next = field;
    }
    return next;
}

static int write_tags(ol_schema_writer *w, const ol_field *fields, const ol_value *values,
                      ol_error *error) {
    int status = OL_OK;
    const ol_field *field = next_tag(w, fields, -1);
    for (; field != NULL && status == OL_OK; field = next_tag(w, fields, field->tag)) {
        const ol_value *value = &values[field - fields];
        if (!is_default(field, value)) status = write_value(w, field, field->kind, value, error);
    }
    return status;
}

static int write_struct(ol_schema_writer *w, const ol_field *field, const ol_field *fields,
                        const ol_value *values, ol_error *error) {
    int status = ol_schema_put_begin_struct(w, field, error);
    for (size_t i = 0; fields[i].name != NULL && status == OL_OK; i++) {
        if (fields[i].tagged || !ol_field_in_version(&fields[i], w->version)) continue;
        status = write_value(w, &fields[i], fields[i].kind, &values[i], error);
    }
    if (status == OL_OK && w->flexible) status = write_tags(w, fields, values, error);
    return status == OL_OK ? ol_schema_put_end_struct(w, field, error) : status;
}

int ol_message_write(const ol_schema *schema, int16_t version, const ol_value *message,
                     uint8_t *bytes, size_t capacity, size_t *size, ol_error *error) {
    ol_schema_writer writer;
    int status = ol_schema_writer_start(&writer, schema, version, bytes, capacity, error);
    if (status == OL_OK) status = write_struct(&writer, NULL, schema->fields, message, error);
    return status == OL_OK ? ol_schema_writer_finish(&writer, size, error) : status;
}
