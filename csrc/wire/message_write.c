/* wire/message_write.c: bytes from values. */
#include "wire/message.h"

#include <string.h>

#include "format/schema_put.h"

enum {
    SIZE_MAX_BYTES = 5,         /* of a size, a count or a tag */
    INTEGER_MAX_BYTES = 8,
    UVARINT_1_END = 0x80,       /* below it a varint has one byte */
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

static size_t struct_size_max(const ol_struct_form *form, const ol_value *values);

static size_t value_size_max(const ol_struct_form *inner, ol_field_kind kind,
                             const ol_value *value) {
    switch (kind) {
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES:
        case OL_FIELD_UUID:
            return SIZE_MAX_BYTES + (value->number > 0 ? (size_t)value->number : 0);
        case OL_FIELD_STRUCT:
            return 1 + (value->number != 0 ? struct_size_max(inner, value->values) : 0);
        default: return INTEGER_MAX_BYTES;
    }
}

static size_t array_size_max(const ol_step *step, const ol_value *array) {
    size_t size = SIZE_MAX_BYTES;
    const ol_struct_form *inner = step->inner;
    for (int64_t i = 0; i < array->number; i++) {
        size += inner != NULL ? struct_size_max(inner, array->values + (size_t)i * inner->width)
                              : value_size_max(NULL, step->element, &array->values[i]);
    }
    return size;
}

static size_t struct_size_max(const ol_struct_form *form, const ol_value *values) {
    size_t size = SIZE_MAX_BYTES;    /* the count of tags */
    for (uint16_t i = 0; i < form->tagged_end; i++) {
        const ol_step *step = &form->steps[i];
        const ol_value *value = &values[step->place];
        if (i >= form->placed_end) size += 2 * SIZE_MAX_BYTES;
        size += step->kind == OL_FIELD_ARRAY ? array_size_max(step, value)
                                             : value_size_max(step->inner, step->kind, value);
    }
    return size;
}

size_t ol_message_size_max(const ol_form *form, const ol_value *message) {
    return struct_size_max(form->outermost, message);
}

/* ---------------------------------------------------------------------------------------- bytes */

/* A message that is being written.  Each function that puts a value is given its position and
 * returns the position after it.  If it fails, it sets `status` and returns NULL. */
typedef struct writer {
    const ol_form *form;
    const uint8_t *limit;
    int status;
    ol_error *error;
} writer;

/* A field that is being written: a step, and the struct whose table has the field. */
typedef struct field_at {
    const ol_struct_form *of;
    const ol_step *step;
} field_at;

static uint8_t *put_struct(writer *w, const ol_struct_form *form, const ol_value *values,
                           uint8_t *p);

OL_NOINLINE static uint8_t *refuse(writer *w, field_at at, int status, const char *reason) {
    const char *name = at.step != NULL ? at.of->fields[at.step->place].name : "it";
    w->status = ol_fail(w->error, status, "%s version %d: %s %s", w->form->schema->name,
                        w->form->version, name, reason);
    return NULL;
}

static bool has_room(const writer *w, const uint8_t *p, size_t size) {
    return (size_t)(w->limit - p) >= size;
}

OL_NOINLINE static uint8_t *no_room(writer *w, field_at at) {
    return refuse(w, at, OL_TOO_LARGE, "does not fit the buffer");
}

static inline uint8_t *put_integer(writer *w, field_at at, ol_field_kind kind, int64_t value,
                                   uint8_t *p) {
    const ol_integer_form *form = &ol_integer_forms[kind];
    if (OL_UNLIKELY(value < form->least || value > form->greatest)) {
        return refuse(w, at, OL_INVALID, "is out of range");
    }
    if (OL_UNLIKELY(!has_room(w, p, form->width))) return no_room(w, at);
    return ol_put_integer(p, form->width, value);
}

static inline uint8_t *put_size(writer *w, field_at at, ol_field_kind kind, int64_t size,
                                uint8_t *p) {
    if (OL_LIKELY(w->form->is_flexible && size < UVARINT_1_END - 1 && p != w->limit)) {
        *p = (uint8_t)(size + 1);
        return p + 1;
    }
    if (size > (kind == OL_FIELD_STRING ? OL_SCHEMA_STRING_MAX : INT32_MAX)) {
        return refuse(w, at, OL_TOO_LARGE, "is longer than the format allows");
    }
    if (!has_room(w, p, ol_size_width(w->form->is_flexible, kind, size))) return no_room(w, at);
    return ol_put_size(p, w->form->is_flexible, kind, size);
}

static inline uint8_t *put_bytes(writer *w, field_at at, ol_field_kind kind, bool may_be_null,
                                 const ol_value *value, uint8_t *p) {
    if (value->number < 0) {
        return may_be_null ? put_size(w, at, kind, -1, p)
                           : refuse(w, at, OL_INVALID, "cannot be null");
    }
    size_t size = (size_t)value->number;
    if (kind == OL_FIELD_UUID) {
        if (size != OL_SCHEMA_UUID_SIZE) return refuse(w, at, OL_INVALID, "does not have 16 bytes");
    } else {
        p = put_size(w, at, kind, value->number, p);
        if (p == NULL) return NULL;
    }
    if (!has_room(w, p, size)) return no_room(w, at);
    if (size > 0) memcpy(p, value->bytes, size);
    return p + size;
}

/* An element is never null. */
static uint8_t *put_array(writer *w, field_at at, const ol_value *array, uint8_t *p) {
    const ol_struct_form *inner = at.step->inner;
    ol_field_kind kind = at.step->element;
    if (array->number < 0 && !at.step->may_be_null) {
        return refuse(w, at, OL_INVALID, "cannot be null");
    }
    p = put_size(w, at, OL_FIELD_ARRAY, array->number, p);
    for (int64_t i = 0; i < array->number && p != NULL; i++) {
        if (inner != NULL) {
            p = put_struct(w, inner, array->values + (size_t)i * inner->width, p);
        } else if (kind >= OL_FIELD_UUID) {
            p = put_bytes(w, at, kind, false, &array->values[i], p);
        } else {
            p = put_integer(w, at, kind, array->values[i].number, p);
        }
    }
    return p;
}

/* A struct that may be null begins with a byte. */
static uint8_t *put_inner(writer *w, field_at at, const ol_value *value, uint8_t *p) {
    if (!at.step->may_be_null) {
        return value->number != 0 ? put_struct(w, at.step->inner, value->values, p)
                                  : refuse(w, at, OL_INVALID, "cannot be null");
    }
    if (!has_room(w, p, 1)) return no_room(w, at);
    bool is_tagged = at.of->fields[at.step->place].tagged;
    *p = value->number != 0 ? 1 : is_tagged ? 0 : 0xff;
    return value->number != 0 ? put_struct(w, at.step->inner, value->values, p + 1) : p + 1;
}

static inline uint8_t *put_value(writer *w, field_at at, const ol_value *value, uint8_t *p) {
    switch (at.step->kind) {
        case OL_FIELD_UUID:
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES:
            return put_bytes(w, at, at.step->kind, at.step->may_be_null, value, p);
        case OL_FIELD_ARRAY: return put_array(w, at, value, p);
        case OL_FIELD_STRUCT: return put_inner(w, at, value, p);
        /* The frequent kinds are called by name, so that the compiler can inline them. */
        case OL_FIELD_I16: return put_integer(w, at, OL_FIELD_I16, value->number, p);
        case OL_FIELD_I32: return put_integer(w, at, OL_FIELD_I32, value->number, p);
        case OL_FIELD_I64: return put_integer(w, at, OL_FIELD_I64, value->number, p);
        default: return put_integer(w, at, at.step->kind, value->number, p);
    }
}

/* ----------------------------------------------------------------------------------------- tags */

/* The size of a tag precedes its bytes, and the width of the size depends on the number of bytes.
 * The bytes are therefore written first and then moved to make space for the size. */
static uint8_t *put_tag(writer *w, field_at at, const ol_value *value, uint8_t *p) {
    if (!has_room(w, p, ol_uvarint_size(at.step->tag))) return no_room(w, at);
    uint8_t *start = ol_store_uvarint(p, at.step->tag);
    p = put_value(w, at, value, start);
    if (p == NULL) return NULL;
    size_t size = (size_t)(p - start), width = ol_uvarint_size((uint32_t)size);
    if (!has_room(w, p, width)) return no_room(w, at);
    memmove(start + width, start, size);
    ol_store_uvarint(start, (uint32_t)size);
    return p + width;
}

static bool is_written(field_at at, const ol_value *values) {
    return !is_default(&at.of->fields[at.step->place], &values[at.step->place]);
}

static inline uint8_t *put_tags(writer *w, const ol_struct_form *form, const ol_value *values,
                                uint8_t *p) {
    uint32_t count = 0;
    for (uint16_t i = form->placed_end; i < form->tagged_end; i++) {
        count += is_written((field_at){form, &form->steps[i]}, values);
    }
    /* A struct has fewer than 128 tags, so the count is one byte. */
    if (OL_UNLIKELY(!has_room(w, p, 1))) return no_room(w, (field_at){form, NULL});
    *p++ = (uint8_t)count;
    for (uint16_t i = form->placed_end; i < form->tagged_end && p != NULL; i++) {
        field_at at = {form, &form->steps[i]};
        if (is_written(at, values)) p = put_tag(w, at, &values[at.step->place], p);
    }
    return p;
}

static uint8_t *put_struct(writer *w, const ol_struct_form *form, const ol_value *values,
                           uint8_t *p) {
    const ol_step *end = form->steps + form->placed_end;
    for (const ol_step *step = form->steps; step != end; step++) {
        p = put_value(w, (field_at){form, step}, &values[step->place], p);
        if (OL_UNLIKELY(p == NULL)) return NULL;
    }
    return w->form->is_flexible ? put_tags(w, form, values, p) : p;
}

int ol_message_write(const ol_form *form, const ol_value *message, uint8_t *bytes, size_t capacity,
                     size_t *size, ol_error *error) {
    writer w = {.form = form, .limit = bytes + capacity, .error = error};
    uint8_t *end = put_struct(&w, form->outermost, message, bytes);
    if (end == NULL) return w.status;
    *size = (size_t)(end - bytes);
    return OL_OK;
}
