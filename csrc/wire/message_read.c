/* wire/message_read.c: values from bytes, by the events of the one decoder (format/schema). */
#include "wire/message.h"

size_t ol_message_width(const ol_field *fields) {
    size_t width = 0;
    while (fields[width].name != NULL) width++;
    return width;
}

static int default_of(const ol_field *field, ol_value_pool *pool, ol_value *value,
                      ol_error *error) {
    static const uint8_t zero_uuid[16];
    switch (field->kind) {
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES:
        case OL_FIELD_ARRAY:
            value->number = field->null_by_default ? -1 : 0;
            if (field->kind != OL_FIELD_ARRAY) value->bytes = zero_uuid;
            return OL_OK;
        case OL_FIELD_UUID: *value = ol_value_bytes(ol_slice_of(zero_uuid, 16)); return OL_OK;
        case OL_FIELD_STRUCT:
            if (field->nullable || field->tagged) return OL_OK;
            value->number = 1;
            return ol_message_defaults(field->fields, pool, &value->values, error);
        default: value->number = field->default_value; return OL_OK;
    }
}

static int set_defaults(const ol_field *fields, ol_value_pool *pool, ol_value *values,
                        ol_error *error) {
    for (size_t i = 0; fields[i].name != NULL; i++) {
        int status = default_of(&fields[i], pool, &values[i], error);
        if (status != OL_OK) return status;
    }
    return OL_OK;
}

int ol_message_defaults(const ol_field *fields, ol_value_pool *pool, ol_value **values,
                        ol_error *error) {
    int status = ol_value_pool_take(pool, ol_message_width(fields), values, error);
    return status == OL_OK ? set_defaults(fields, pool, *values, error) : status;
}

/* ----------------------------------------------------------------------------------- the events */

/* A struct or an array whose values are being read. */
typedef struct frame {
    const ol_field *fields;     /* the struct's; NULL: an array */
    ol_value *values;           /* the struct's fields; the array's next element */
    size_t step;                /* an array's: values in an element */
} frame;

typedef struct reader {
    ol_value_pool *pool;
    const ol_schema *schema;
    ol_value *message;
    int depth;
    frame frames[2 * OL_SCHEMA_DEPTH_MAX];
} reader;

static void push(reader *r, frame opened) {
    OL_ASSERT(r->depth < 2 * OL_SCHEMA_DEPTH_MAX);
    r->frames[r->depth++] = opened;
}

/* The place of the value that comes next. */
static ol_value *place_of(reader *r, const ol_field *field) {
    frame *top = &r->frames[r->depth - 1];
    if (top->fields != NULL) return &top->values[field - top->fields];
    ol_value *element = top->values;
    top->values += top->step;
    return element;
}

static int begin_struct(void *context, const ol_field *field, ol_error *error) {
    reader *r = context;
    const ol_field *fields = field != NULL ? field->fields : r->schema->fields;
    ol_value *values = NULL;
    int status;
    if (field != NULL && r->frames[r->depth - 1].fields == NULL) {
        values = place_of(r, field);
        status = set_defaults(fields, r->pool, values, error);
    } else {
        status = ol_message_defaults(fields, r->pool, &values, error);
        if (status == OL_OK && field == NULL) r->message = values;
        if (status == OL_OK && field != NULL) {
            *place_of(r, field) = (ol_value){.number = 1, .values = values};
        }
    }
    if (status == OL_OK) push(r, (frame){.fields = fields, .values = values});
    return status;
}

static int begin_array(void *context, const ol_field *field, int32_t count, ol_error *error) {
    reader *r = context;
    bool of_structs = field->element == OL_FIELD_STRUCT;
    size_t step = of_structs ? ol_message_width(field->fields) : 1;
    ol_value *values = NULL;
    int status = ol_value_pool_take(r->pool, (size_t)count * step, &values, error);
    if (status != OL_OK) return status;
    *place_of(r, field) = (ol_value){.number = count, .values = values};
    push(r, (frame){.values = values, .step = step});
    return OL_OK;
}

static int end(void *context, const ol_field *field, ol_error *error) {
    reader *r = context;
    (void)field;
    (void)error;
    r->depth--;
    return OL_OK;
}

static int integer(void *context, const ol_field *field, int64_t value, ol_error *error) {
    (void)error;
    *place_of(context, field) = ol_value_integer(value);
    return OL_OK;
}

static int bytes(void *context, const ol_field *field, ol_slice value, ol_error *error) {
    (void)error;
    *place_of(context, field) = ol_value_bytes(value);
    return OL_OK;
}

static int null_value(void *context, const ol_field *field, ol_error *error) {
    (void)error;
    *place_of(context, field) = (ol_value){.number = field->kind == OL_FIELD_STRUCT ? 0 : -1};
    return OL_OK;
}

int ol_message_read(const ol_schema *schema, int16_t version, ol_slice body, ol_value_pool *pool,
                    ol_value **message, size_t *used, ol_error *error) {
    reader r = {.pool = pool, .schema = schema};
    ol_schema_visitor visitor = {.begin_struct = begin_struct,
                                 .end_struct = end,
                                 .begin_array = begin_array,
                                 .end_array = end,
                                 .integer = integer,
                                 .bytes = bytes,
                                 .null_value = null_value,
                                 .context = &r};
    int status = ol_schema_decode(schema, version, body, &visitor, used, error);
    if (status == OL_OK) *message = r.message;
    return status;
}
