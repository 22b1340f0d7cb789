/* wire/message_read.c: values from bytes, step by step of a form. */
#include "base/bytes.h"
#include "format/schema_put.h"
#include "wire/message.h"

/* A message that is being read.  Each function that reads is given the position of a value and
 * returns the position after it.  If it fails, it sets `status` and returns NULL.  While a tag is
 * read, `limit` is the end of the tag. */
typedef struct reader {
    const ol_form *form;
    ol_value_pool *pool;
    const uint8_t *limit;
    int status;
    ol_error *error;
} reader;

/* A field that is being read: a step, and the struct whose table has the field. */
typedef struct field_at {
    const ol_struct_form *of;
    const ol_step *step;
} field_at;

static const uint8_t *read_struct(reader *r, const ol_struct_form *form, ol_value *values,
                                  const uint8_t *p);

OL_NOINLINE static const uint8_t *refuse(reader *r, field_at at, const char *reason) {
    r->status =
        ol_fail(r->error, OL_CORRUPT, "%s version %d: %s %s", r->form->schema->name,
                r->form->version, at.of->fields[at.step->place].name, reason);
    return NULL;
}

OL_NOINLINE static const uint8_t *refuse_tags(reader *r, const char *reason) {
    r->status = ol_fail(r->error, OL_CORRUPT, "%s version %d: %s", r->form->schema->name,
                        r->form->version, reason);
    return NULL;
}

static size_t left(const reader *r, const uint8_t *p) { return (size_t)(r->limit - p); }

/* Nearly all varints have one byte. */
static inline const uint8_t *read_uvarint(const uint8_t *p, const uint8_t *limit, uint32_t *value) {
    if (OL_UNLIKELY(p == limit || *p >= 0x80)) return ol_read_uvarint(p, limit, value);
    *value = *p;
    return p + 1;
}

/* Reads the size of a string, of bytes or of an array, -1 for null, and checks that the remaining
 * bytes can hold it. */
static inline const uint8_t *read_size(reader *r, field_at at, ol_field_kind kind, size_t unit,
                                       const uint8_t *p, int64_t *size) {
    if (r->form->is_flexible) {
        uint32_t size_plus_one;
        p = read_uvarint(p, r->limit, &size_plus_one);
        if (p == NULL) return refuse(r, at, "is truncated in its size");
        *size = (int64_t)size_plus_one - 1;
    } else {
        size_t width = kind == OL_FIELD_STRING ? 2 : 4;
        if (left(r, p) < width) return refuse(r, at, "is truncated in its size");
        *size = width == 2 ? ol_load_i16(p) : ol_load_i32(p);
        p += width;
    }
    if (*size < -1) return refuse(r, at, "has a negative size");
    if (kind == OL_FIELD_STRING && *size > OL_SCHEMA_STRING_MAX) {
        return refuse(r, at, "is longer than a string can be");
    }
    if (*size > 0 && (uint64_t)*size * unit > left(r, p)) {
        return refuse(r, at, "extends beyond the end of the bytes");
    }
    return p;
}

static inline const uint8_t *read_bytes(reader *r, field_at at, ol_field_kind kind,
                                        bool may_be_null, const uint8_t *p, ol_value *value) {
    int64_t size = -1;
    p = read_size(r, at, kind, 1, p, &size);
    if (p == NULL) return NULL;
    if (size < 0) {
        if (!may_be_null) return refuse(r, at, "is null");
        *value = (ol_value){.number = -1};
        return p;
    }
    *value = ol_value_bytes(ol_slice_of(p, (size_t)size));
    return p + size;
}

static inline const uint8_t *read_fixed(reader *r, field_at at, ol_field_kind kind,
                                        const uint8_t *p, ol_value *value) {
    size_t size = left(r, p);
    switch (kind) {
        case OL_FIELD_BOOLEAN:
            if (size < 1) break;
            *value = ol_value_integer(*p != 0);
            return p + 1;
        case OL_FIELD_I8:
            if (size < 1) break;
            *value = ol_value_integer((int8_t)*p);
            return p + 1;
        case OL_FIELD_I16:
            if (size < 2) break;
            *value = ol_value_integer(ol_load_i16(p));
            return p + 2;
        case OL_FIELD_U16:
            if (size < 2) break;
            *value = ol_value_integer(ol_load_u16(p));
            return p + 2;
        case OL_FIELD_I32:
            if (size < 4) break;
            *value = ol_value_integer(ol_load_i32(p));
            return p + 4;
        case OL_FIELD_I64:
            if (size < 8) break;
            *value = ol_value_integer(ol_load_i64(p));
            return p + 8;
        default:
            OL_ASSERT(kind == OL_FIELD_UUID);
            if (size < OL_SCHEMA_UUID_SIZE) break;
            *value = ol_value_bytes(ol_slice_of(p, OL_SCHEMA_UUID_SIZE));
            return p + OL_SCHEMA_UUID_SIZE;
    }
    return refuse(r, at, "is truncated");
}

static const uint8_t *read_elements(reader *r, field_at at, size_t count, ol_value *values,
                                    const uint8_t *p) {
    const ol_struct_form *inner = at.step->inner;
    ol_field_kind kind = at.step->element;
    if (inner != NULL) {
        for (size_t i = 0; i < count && p != NULL; i++) {
            p = read_struct(r, inner, &values[i * inner->width], p);
        }
    } else if (kind == OL_FIELD_STRING || kind == OL_FIELD_BYTES) {
        for (size_t i = 0; i < count && p != NULL; i++) {
            p = read_bytes(r, at, kind, false, p, &values[i]);
        }
    } else {
        for (size_t i = 0; i < count && p != NULL; i++) p = read_fixed(r, at, kind, p, &values[i]);
    }
    return p;
}

static const uint8_t *read_array(reader *r, field_at at, const uint8_t *p, ol_value *value) {
    int64_t count = -1;
    p = read_size(r, at, OL_FIELD_ARRAY, at.step->element_size_min, p, &count);
    if (p == NULL) return NULL;
    *value = (ol_value){.number = count};
    if (count < 0) return at.step->may_be_null ? p : refuse(r, at, "is null");
    if (count > INT32_MAX) return refuse(r, at, "has more elements than an array can have");
    size_t width = at.step->inner != NULL ? at.step->inner->width : 1;
    r->status =
        ol_value_pool_take_unset(r->pool, (size_t)count * width, &value->values, r->error);
    if (r->status != OL_OK) return NULL;
    return read_elements(r, at, (size_t)count, value->values, p);
}

/* A struct that may be null begins with a byte.  Null is a negative byte in an untagged struct and
 * 0 in a tagged one. */
static const uint8_t *read_inner(reader *r, field_at at, const uint8_t *p, ol_value *value) {
    const ol_field *field = &at.of->fields[at.step->place];
    if (field->nullable) {
        if (left(r, p) < 1) return refuse(r, at, "is truncated");
        int8_t presence = (int8_t)*p++;
        *value = (ol_value){0};
        if (field->tagged ? presence == 0 : presence < 0) return p;
    }
    value->number = 1;
    r->status =
        ol_value_pool_take_unset(r->pool, at.step->inner->width, &value->values, r->error);
    if (r->status != OL_OK) return NULL;
    return read_struct(r, at.step->inner, value->values, p);
}

static inline const uint8_t *read_value(reader *r, field_at at, const uint8_t *p,
                                        ol_value *value) {
    switch (at.step->kind) {
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES:
            return read_bytes(r, at, at.step->kind, at.step->may_be_null, p, value);
        case OL_FIELD_ARRAY: return read_array(r, at, p, value);
        case OL_FIELD_STRUCT: return read_inner(r, at, p, value);
        default: return read_fixed(r, at, at.step->kind, p, value);
    }
}

/* ----------------------------------------------------------------------------------------- tags */

static const ol_step *step_of_tag(const ol_struct_form *form, uint32_t tag) {
    for (uint16_t i = form->placed_end; i < form->tagged_end; i++) {
        if (form->steps[i].tag == tag) return &form->steps[i];
    }
    return NULL;
}

static const uint8_t *read_tag(reader *r, const ol_struct_form *form, ol_value *values,
                               const uint8_t *p) {
    uint32_t tag, size;
    p = ol_read_uvarint(p, r->limit, &tag);
    if (p != NULL) p = ol_read_uvarint(p, r->limit, &size);
    if (p == NULL || left(r, p) < size) return refuse_tags(r, "a tag is truncated");
    const uint8_t *limit = r->limit, *end = p + size;
    field_at at = {form, step_of_tag(form, tag)};
    if (at.step == NULL) return end;
    r->limit = end;
    p = read_value(r, at, p, &values[at.step->place]);
    if (p != NULL && p != end) p = refuse(r, at, "does not fill its tag");
    r->limit = limit;
    return p;
}

static inline const uint8_t *read_tags(reader *r, const ol_struct_form *form, ol_value *values,
                                       const uint8_t *p) {
    uint32_t count;
    p = read_uvarint(p, r->limit, &count);
    if (p == NULL) return refuse_tags(r, "the tags are truncated");
    for (; count > 0 && p != NULL; count--) p = read_tag(r, form, values, p);
    return p;
}

static const uint8_t *read_struct(reader *r, const ol_struct_form *form, ol_value *values,
                                  const uint8_t *p) {
    const ol_step *step = form->steps, *placed_end = step + form->placed_end;
    for (; step != placed_end; step++) {
        p = read_value(r, (field_at){form, step}, p, &values[step->place]);
        if (OL_UNLIKELY(p == NULL)) return NULL;
    }
    for (const ol_step *end = form->steps + form->width; step != end; step++) {
        values[step->place] = form->defaults[step->place];
    }
    return r->form->is_flexible ? read_tags(r, form, values, p) : p;
}

int ol_message_read(const ol_form *form, ol_slice bytes, ol_value_pool *pool, ol_value **message,
                    size_t *used, ol_error *error) {
    reader r = {
        .form = form, .pool = pool, .limit = bytes.data + bytes.size, .error = error};
    ol_value *values;
    int status = ol_value_pool_take_unset(pool, form->outermost->width, &values, error);
    if (status != OL_OK) return status;
    const uint8_t *end = read_struct(&r, form->outermost, values, bytes.data);
    if (end == NULL) return r.status;
    *message = values;
    if (used != NULL) *used = (size_t)(end - bytes.data);
    return OL_OK;
}
