/* format/schema.c: the bounded decoder over the tables of fields. */
#include "format/schema.h"

#include "base/bytes.h"

enum {
    STRING_SIZE_MAX = 32767,
    UUID_SIZE = 16,
};

/* The state of a decoding: the position, and the end of the bytes that may be read.  While a tag is
 * read, this end is the end of the tag. */
typedef struct decoder {
    const ol_schema *schema;
    const ol_schema_visitor *visitor;
    ol_error *error;
    const uint8_t *p;
    const uint8_t *limit;
    int16_t version;
    bool flexible;
} decoder;

#define REPORT(decoder_pointer, function, ...) \
    ((decoder_pointer)->visitor->function == NULL \
         ? OL_OK \
         : (decoder_pointer)->visitor->function((decoder_pointer)->visitor->context, __VA_ARGS__, \
                                                (decoder_pointer)->error))

static int decode_fields(decoder *d, const ol_field *fields, int depth);

static int refuse(const decoder *d, const ol_field *field, const char *reason) {
    return ol_fail(d->error, OL_CORRUPT, "%s version %d: %s %s", d->schema->name, d->version,
                   field->name, reason);
}

static size_t left(const decoder *d) { return (size_t)(d->limit - d->p); }

/* The bytes of a value of fixed size; 0 for the others. */
static const uint8_t widths[] = {
    [OL_FIELD_BOOLEAN] = 1, [OL_FIELD_I8] = 1,  [OL_FIELD_I16] = 2,  [OL_FIELD_U16] = 2,
    [OL_FIELD_I32] = 4,     [OL_FIELD_I64] = 8, [OL_FIELD_UUID] = UUID_SIZE, [OL_FIELD_STRUCT] = 0,
};

/* Returns the fewest bytes that a value can have. */
static size_t size_min(ol_field_kind kind, const ol_field *fields, int16_t version,
                       bool flexible) {
    if (kind == OL_FIELD_STRING) return flexible ? 1 : 2;
    if (kind == OL_FIELD_BYTES || kind == OL_FIELD_ARRAY) return flexible ? 1 : 4;
    if (kind != OL_FIELD_STRUCT) return widths[kind];
    size_t size = flexible;    /* the count of tags */
    for (const ol_field *field = fields; field->name != NULL; field++) {
        if (field->tagged || !ol_field_in_version(field, version)) continue;
        bool presence_alone = field->kind == OL_FIELD_STRUCT && field->nullable;
        size += presence_alone ? 1 : size_min(field->kind, field->fields, version, flexible);
    }
    return size > 0 ? size : 1;
}

size_t ol_schema_element_size_min(const ol_schema *schema, int16_t version,
                                  const ol_field *array) {
    return size_min(array->element, array->fields, version, version >= schema->flexible_from);
}

/* Reads the size of a string, of bytes or of an array, -1 for null.  *size is wide enough for any
 * encoded value. */
static int read_size(decoder *d, const ol_field *field, ol_field_kind kind, int64_t *size) {
    if (d->flexible) {
        uint32_t size_plus_one;
        const uint8_t *next = ol_read_uvarint(d->p, d->limit, &size_plus_one);
        if (next == NULL) return refuse(d, field, "is truncated in its size");
        d->p = next;
        *size = (int64_t)size_plus_one - 1;
    } else {
        size_t width = kind == OL_FIELD_STRING ? 2 : 4;
        if (left(d) < width) return refuse(d, field, "is truncated in its size");
        *size = width == 2 ? ol_load_i16(d->p) : ol_load_i32(d->p);
        d->p += width;
    }
    if (*size < -1) return refuse(d, field, "has a negative size");
    if (kind == OL_FIELD_STRING && *size > STRING_SIZE_MAX) {
        return refuse(d, field, "is longer than a string can be");
    }
    size_t unit =
        kind == OL_FIELD_ARRAY ? ol_schema_element_size_min(d->schema, d->version, field) : 1;
    if (*size > (int64_t)(left(d) / unit)) return refuse(d, field,
                                                         "extends beyond the end of the bytes");
    return OL_OK;
}

static int decode_integer(decoder *d, const ol_field *field, ol_field_kind kind) {
    size_t width = widths[kind];
    if (left(d) < width) return refuse(d, field, "is truncated");
    const uint8_t *p = d->p;
    int64_t value = 0;
    switch (kind) {
        case OL_FIELD_BOOLEAN: value = *p != 0; break;
        case OL_FIELD_I8: value = (int8_t)*p; break;
        case OL_FIELD_I16: value = ol_load_i16(p); break;
        case OL_FIELD_U16: value = ol_load_u16(p); break;
        case OL_FIELD_I32: value = ol_load_i32(p); break;
        case OL_FIELD_I64: value = ol_load_i64(p); break;
        default: OL_ASSERT(false);
    }
    d->p += width;
    return REPORT(d, integer, field, value);
}

static int decode_bytes(decoder *d, const ol_field *field, ol_field_kind kind, bool nullable) {
    int64_t size = UUID_SIZE;
    if (kind == OL_FIELD_UUID) {
        if (left(d) < UUID_SIZE) return refuse(d, field, "is truncated");
    } else {
        int status = read_size(d, field, kind, &size);
        if (status != OL_OK) return status;
    }
    if (size < 0) return nullable ? REPORT(d, null_value, field) : refuse(d, field, "is null");
    ol_slice value = ol_slice_of(d->p, (size_t)size);
    d->p += size;
    return REPORT(d, bytes, field, value);
}

static int decode_struct(decoder *d, const ol_field *field, const ol_field *fields, int depth) {
    int status = REPORT(d, begin_struct, field);
    if (status == OL_OK) status = decode_fields(d, fields, depth + 1);
    if (status == OL_OK) status = REPORT(d, end_struct, field);
    return status;
}

static int decode_one(decoder *d, const ol_field *field, ol_field_kind kind, bool nullable,
                      int depth) {
    switch (kind) {
        case OL_FIELD_UUID:
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES: return decode_bytes(d, field, kind, nullable);
        case OL_FIELD_STRUCT: return decode_struct(d, field, field->fields, depth);
        default: return decode_integer(d, field, kind);
    }
}

static int decode_array(decoder *d, const ol_field *field, int depth) {
    int64_t count;
    int status = read_size(d, field, OL_FIELD_ARRAY, &count);
    if (status != OL_OK) return status;
    if (count < 0) {
        return ol_field_may_be_null(field, d->version) ? REPORT(d, null_value, field)
                                                       : refuse(d, field, "is null");
    }
    if (count > INT32_MAX) return refuse(d, field, "has more elements than an array can have");
    status = REPORT(d, begin_array, field, (int32_t)count);
    for (int64_t i = 0; i < count && status == OL_OK; i++) {
        status = decode_one(d, field, field->element, false, depth + 1);
    }
    return status == OL_OK ? REPORT(d, end_array, field) : status;
}

static int decode_field(decoder *d, const ol_field *field, int depth) {
    if (field->kind == OL_FIELD_ARRAY) return decode_array(d, field, depth);
    if (field->kind == OL_FIELD_STRUCT && field->nullable) {
        /* A struct that may be null begins with a byte.  Null is a negative byte in an untagged
         * struct and 0 in a tagged one. */
        if (left(d) < 1) return refuse(d, field, "is truncated");
        int8_t presence = (int8_t)*d->p++;
        if (field->tagged ? presence == 0 : presence < 0) return REPORT(d, null_value, field);
    }
    return decode_one(d, field, field->kind, ol_field_may_be_null(field, d->version), depth);
}

static const ol_field *field_of_tag(const decoder *d, const ol_field *fields, uint32_t tag) {
    for (const ol_field *field = fields; field->name != NULL; field++) {
        if (field->tagged && field->tag == tag && ol_field_in_version(field, d->version)) {
            return field;
        }
    }
    return NULL;
}

static int decode_tag(decoder *d, const ol_field *fields, int depth) {
    uint32_t tag, size;
    const uint8_t *p = ol_read_uvarint(d->p, d->limit, &tag);
    if (p != NULL) p = ol_read_uvarint(p, d->limit, &size);
    if (p == NULL || (size_t)(d->limit - p) < size) {
        return ol_fail(d->error, OL_CORRUPT, "%s version %d: a tag is truncated", d->schema->name,
                       d->version);
    }
    d->p = p;
    const ol_field *field = field_of_tag(d, fields, tag);
    if (field == NULL) {
        d->p += size;
        return REPORT(d, unknown_tag, tag, ol_slice_of(p, size));
    }
    const uint8_t *limit = d->limit;
    d->limit = p + size;
    int status = decode_field(d, field, depth);
    if (status == OL_OK && d->p != d->limit) status = refuse(d, field, "does not fill its tag");
    d->limit = limit;
    return status;
}

static int decode_fields(decoder *d, const ol_field *fields, int depth) {
    OL_ASSERT(depth <= OL_SCHEMA_DEPTH_MAX);    /* the tables are ours */
    for (const ol_field *field = fields; field->name != NULL; field++) {
        if (field->tagged || !ol_field_in_version(field, d->version)) continue;
        int status = decode_field(d, field, depth);
        if (status != OL_OK) return status;
    }
    if (!d->flexible) return OL_OK;
    uint32_t count;
    const uint8_t *p = ol_read_uvarint(d->p, d->limit, &count);
    if (p == NULL) {
        return ol_fail(d->error, OL_CORRUPT, "%s version %d: the tags are truncated",
                       d->schema->name, d->version);
    }
    d->p = p;
    for (; count > 0; count--) {
        int status = decode_tag(d, fields, depth);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

int ol_schema_decode(const ol_schema *schema, int16_t version, ol_slice bytes,
                     const ol_schema_visitor *visitor, size_t *used, ol_error *error) {
    if (version < schema->first_version || version > schema->last_version) {
        return ol_fail(error, OL_UNSUPPORTED, "%s has no version %d", schema->name, version);
    }
    decoder d = {schema,
                 visitor,
                 error,
                 bytes.data,
                 bytes.data + bytes.size,
                 version,
                 version >= schema->flexible_from};
    int status = decode_struct(&d, NULL, schema->fields, 0);
    if (status == OL_OK && used != NULL) *used = (size_t)(d.p - bytes.data);
    return status;
}
