/* wire/message_write.c: bytes from values. */
#include "wire/message.h"

#include <string.h>

#include "format/schema_put.h"

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

/* An answer of many positions is thousands of values: they are written straight away, while the
 * encoder of events checks the order of what it is called with. */
typedef struct output {
    const ol_schema *schema;
    uint8_t *p;
    uint8_t *limit;
    int16_t version;
    bool flexible;
    ol_error *error;
} output;

static int put_fields(output *o, const ol_field *fields, const ol_value *values);
static int put_array(output *o, const ol_field *field, const ol_value *array);

OL_NOINLINE static int refuse(const output *o, const ol_field *field, int status,
                              const char *reason) {
    return ol_fail(o->error, status, "%s version %d: %s %s", o->schema->name, o->version,
                   field != NULL ? field->name : "it", reason);
}

static bool has_room(const output *o, size_t size) { return (size_t)(o->limit - o->p) >= size; }

static int no_room(const output *o, const ol_field *field) {
    return refuse(o, field, OL_TOO_LARGE, "does not fit the memory");
}

static int put_integer(output *o, const ol_field *field, ol_field_kind kind, int64_t value) {
    const ol_integer_form *form = &ol_integer_forms[kind];
    if (value < form->least || value > form->greatest) {
        return refuse(o, field, OL_INVALID, "is out of range");
    }
    if (!has_room(o, form->width)) return no_room(o, field);
    o->p = ol_put_integer(o->p, form->width, value);
    return OL_OK;
}

static int put_size(output *o, const ol_field *field, ol_field_kind kind, int64_t size) {
    if (size > (kind == OL_FIELD_STRING ? OL_SCHEMA_STRING_MAX : INT32_MAX)) {
        return refuse(o, field, OL_TOO_LARGE, "is longer than the format can say");
    }
    if (!has_room(o, ol_size_width(o->flexible, kind, size))) return no_room(o, field);
    o->p = ol_put_size(o->p, o->flexible, kind, size);
    return OL_OK;
}

static int put_null(output *o, const ol_field *field) {
    if (!ol_field_may_be_null(field, o->version)) {
        return refuse(o, field, OL_INVALID, "cannot be null");
    }
    if (field->kind != OL_FIELD_STRUCT) return put_size(o, field, field->kind, -1);
    if (!has_room(o, 1)) return no_room(o, field);
    *o->p++ = field->tagged ? 0 : 0xff;
    return OL_OK;
}

static int put_bytes(output *o, const ol_field *field, ol_field_kind kind, const ol_value *value) {
    size_t size = (size_t)value->number;
    if (kind == OL_FIELD_UUID) {
        if (size != OL_SCHEMA_UUID_SIZE) return refuse(o, field, OL_INVALID, "has not 16 bytes");
    } else {
        int status = put_size(o, field, kind, value->number);
        if (status != OL_OK) return status;
    }
    if (!has_room(o, size)) return no_room(o, field);
    if (size > 0) memcpy(o->p, value->bytes, size);
    o->p += size;
    return OL_OK;
}

static int put_struct(output *o, const ol_field *field, const ol_value *value) {
    if (ol_field_may_be_null(field, o->version)) {
        if (!has_room(o, 1)) return no_room(o, field);
        *o->p++ = 1;
    }
    return put_fields(o, field->fields, value->values);
}

static bool is_null(const ol_field *field, const ol_value *value) {
    if (field->kind == OL_FIELD_STRUCT) return value->number == 0;
    return field->kind >= OL_FIELD_UUID && value->number < 0;
}

static int put_value(output *o, const ol_field *field, const ol_value *value) {
    if (is_null(field, value)) return put_null(o, field);
    switch (field->kind) {
        case OL_FIELD_UUID:
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES: return put_bytes(o, field, field->kind, value);
        case OL_FIELD_ARRAY: return put_array(o, field, value);
        case OL_FIELD_STRUCT: return put_struct(o, field, value);
        default: return put_integer(o, field, field->kind, value->number);
    }
}

/* An element is never null. */
static int put_element(output *o, const ol_field *field, const ol_value *value) {
    switch (field->element) {
        case OL_FIELD_UUID:
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES:
            if (value->number < 0) return refuse(o, field, OL_INVALID, "cannot be null");
            return put_bytes(o, field, field->element, value);
        case OL_FIELD_STRUCT: return put_fields(o, field->fields, value);
        default: return put_integer(o, field, field->element, value->number);
    }
}

static int put_array(output *o, const ol_field *field, const ol_value *array) {
    size_t width = field->element == OL_FIELD_STRUCT ? ol_message_width(field->fields) : 1;
    int status = put_size(o, field, OL_FIELD_ARRAY, array->number);
    for (int64_t i = 0; i < array->number && status == OL_OK; i++) {
        status = put_element(o, field, array->values + (size_t)i * width);
    }
    return status;
}

/* ----------------------------------------------------------------------------------------- tags */

/* The field with the least tag above `tag`; NULL: none is left to write. */
static const ol_field *next_tag(const output *o, const ol_field *fields, int tag) {
    const ol_field *next = NULL;
    for (const ol_field *field = fields; field->name != NULL; field++) {
        if (!field->tagged || field->tag <= tag) continue;
        if (!ol_field_in_version(field, o->version)) continue;
        if (next == NULL || field->tag < next->tag) next = field;
    }
    return next;
}

/* The size of a tag stands before its bytes, and its own size depends on it: they are moved. */
static int put_tag(output *o, const ol_field *field, const ol_value *value) {
    if (!has_room(o, ol_uvarint_size(field->tag))) return no_room(o, field);
    o->p = ol_store_uvarint(o->p, field->tag);
    uint8_t *start = o->p;
    int status = put_value(o, field, value);
    if (status != OL_OK) return status;
    size_t size = (size_t)(o->p - start), width = ol_uvarint_size((uint32_t)size);
    if (!has_room(o, width)) return no_room(o, field);
    memmove(start + width, start, size);
    ol_store_uvarint(start, (uint32_t)size);
    o->p += width;
    return OL_OK;
}

static int put_tags(output *o, const ol_field *fields, const ol_value *values) {
    uint32_t count = 0;
    const ol_field *field = next_tag(o, fields, -1);
    for (const ol_field *each = field; each != NULL; each = next_tag(o, fields, each->tag)) {
        count += !is_default(each, &values[each - fields]);
    }
    if (!has_room(o, ol_uvarint_size(count))) return no_room(o, NULL);
    o->p = ol_store_uvarint(o->p, count);
    int status = OL_OK;
    for (; field != NULL && status == OL_OK; field = next_tag(o, fields, field->tag)) {
        const ol_value *value = &values[field - fields];
        if (!is_default(field, value)) status = put_tag(o, field, value);
    }
    return status;
}

static int put_fields(output *o, const ol_field *fields, const ol_value *values) {
    int status = OL_OK;
    for (size_t i = 0; fields[i].name != NULL && status == OL_OK; i++) {
        if (fields[i].tagged || !ol_field_in_version(&fields[i], o->version)) continue;
        status = put_value(o, &fields[i], &values[i]);
    }
    return status == OL_OK && o->flexible ? put_tags(o, fields, values) : status;
}

int ol_message_write(const ol_schema *schema, int16_t version, const ol_value *message,
                     uint8_t *bytes, size_t capacity, size_t *size, ol_error *error) {
    output o = {.schema = schema,
                .p = bytes,
                .limit = bytes + capacity,
                .version = version,
                .flexible = version >= schema->flexible_from,
                .error = error};
    if (version < schema->first_version || version > schema->last_version) {
        return refuse(&o, NULL, OL_UNSUPPORTED, "has no such version");
    }
    int status = put_fields(&o, schema->fields, message);
    if (status == OL_OK) *size = (size_t)(o.p - bytes);
    return status;
}
