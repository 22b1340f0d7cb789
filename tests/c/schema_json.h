/* schema_json: prints a decoded record as Kafka's tools do, as JSON without blanks; and the form of the vectors. */
#ifndef OL_TEST_SCHEMA_JSON_H
#define OL_TEST_SCHEMA_JSON_H

#include "format/group_schema.h"
#include "ol_test.h"

typedef struct schema_vector {
    int16_t type;
    bool is_key;
    int16_t version;
    const char *hex;
    const char *json;
} schema_vector;

typedef struct schema_json {
    char *text;
    size_t size, capacity;
    int depth;
    bool in_array[32];
    bool first[32];
    int unknown_tags;
} schema_json;

static void json_put(schema_json *j, const void *bytes, size_t size) {
    if (j->size + size + 1 > j->capacity) {
        j->capacity = 2 * (j->size + size + 1);
        j->text = realloc(j->text, j->capacity);
    }
    memcpy(j->text + j->size, bytes, size);
    j->size += size;
    j->text[j->size] = '\0';
}

static void json_text(schema_json *j, const char *text) { json_put(j, text, strlen(text)); }

static void json_name(schema_json *j, const ol_field *field) {
    if (j->depth == 0) return;
    if (!j->first[j->depth]) json_text(j, ",");
    j->first[j->depth] = false;
    if (j->in_array[j->depth]) return;
    json_text(j, "\"");
    json_text(j, field->name);
    json_text(j, "\":");
}

static void json_open(schema_json *j, bool array) {
    json_text(j, array ? "[" : "{");
    OL_CHECK(j->depth < 31);
    j->depth++;
    j->in_array[j->depth] = array;
    j->first[j->depth] = true;
}

static int json_begin_struct(void *context, const ol_field *field, ol_error *error) {
    (void)error;
    json_name(context, field);
    json_open(context, false);
    return OL_OK;
}

static int json_end_struct(void *context, const ol_field *field, ol_error *error) {
    (void)field;
    (void)error;
    ((schema_json *)context)->depth--;
    json_text(context, "}");
    return OL_OK;
}

static int json_begin_array(void *context, const ol_field *field, int32_t count, ol_error *error) {
    (void)count;
    (void)error;
    json_name(context, field);
    json_open(context, true);
    return OL_OK;
}

static int json_end_array(void *context, const ol_field *field, ol_error *error) {
    (void)field;
    (void)error;
    ((schema_json *)context)->depth--;
    json_text(context, "]");
    return OL_OK;
}

static int json_integer(void *context, const ol_field *field, int64_t value, ol_error *error) {
    (void)error;
    char text[32];
    json_name(context, field);
    snprintf(text, sizeof text, "%" PRId64, value);
    json_text(context, text);
    return OL_OK;
}

static void json_string(schema_json *j, ol_slice value) {
    for (size_t i = 0; i < value.size; i++) {
        static const char short_forms[] = "btn?fr";
        uint8_t byte = value.data[i];
        char text[8];
        if (byte == '"' || byte == '\\') {
            snprintf(text, sizeof text, "\\%c", byte);
        } else if (byte >= 8 && byte <= 13 && byte != 11) {
            snprintf(text, sizeof text, "\\%c", short_forms[byte - 8]);
        } else if (byte < 32) {
            snprintf(text, sizeof text, "\\u%04X", byte);
        } else {
            snprintf(text, sizeof text, "%c", byte);
        }
        json_text(j, text);
    }
}

/* UUIDs in the alphabet of URLs and without padding, bytes in the usual form. */
static void json_base64(schema_json *j, ol_slice value, bool url) {
    const char *alphabet = url ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                               : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < value.size; i += 3) {
        size_t size = value.size - i < 3 ? value.size - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++) bits = bits << 8 | (k < size ? value.data[i + k] : 0);
        for (size_t k = 0; k < 4; k++) {
            if (k <= size) json_put(j, &alphabet[bits >> (18 - 6 * k) & 63], 1);
            if (k > size && !url) json_text(j, "=");
        }
    }
}

static int json_bytes(void *context, const ol_field *field, ol_slice value, ol_error *error) {
    (void)error;
    schema_json *j = context;
    ol_field_kind kind = field->kind == OL_FIELD_ARRAY ? field->element : field->kind;
    json_name(j, field);
    json_text(j, "\"");
    if (kind == OL_FIELD_STRING) json_string(j, value);
    if (kind != OL_FIELD_STRING) json_base64(j, value, kind == OL_FIELD_UUID);
    json_text(j, "\"");
    return OL_OK;
}

static int json_null(void *context, const ol_field *field, ol_error *error) {
    (void)error;
    json_name(context, field);
    json_text(context, "null");
    return OL_OK;
}

static int json_unknown_tag(void *context, uint32_t tag, ol_slice value, ol_error *error) {
    (void)tag;
    (void)value;
    (void)error;
    ((schema_json *)context)->unknown_tags++;
    return OL_OK;
}

/* Decodes to JSON; the caller frees j->text. */
OL_UNUSED static int schema_to_json(const ol_schema *schema, int16_t version, ol_slice bytes, schema_json *j, size_t *used,
                                    ol_error *error) {
    memset(j, 0, sizeof *j);
    json_put(j, "", 0);
    ol_schema_visitor visitor = {json_begin_struct, json_end_struct, json_begin_array, json_end_array, json_integer,
                                 json_bytes,        json_null,       json_unknown_tag, j};
    return ol_schema_decode(schema, version, bytes, &visitor, used, error);
}

#endif
