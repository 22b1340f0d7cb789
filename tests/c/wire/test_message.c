/* wire/message: the tables keep what the codec relies on; every message of every version is read and written back byte by byte, cut at
 * every length, and refused before it takes more memory than its pool may give. */
#include "wire/message.h"

#include "base/bytes.h"
#include "fault_memory.h"
#include "message_defaults.h"
#include "ol_test.h"
#include "wire/api.h"
#include "wire/header.h"

enum { BYTES_MAX = 1 << 16, VALUES_MAX = 1 << 16 };

static ol_value_pool new_pool(void) { return (ol_value_pool){.limit = VALUES_MAX}; }

/* The form of a version; the caller frees `forms`, which owns it. */
static const ol_form *form_of(ol_forms *forms, const ol_schema *schema, int16_t version) {
    const ol_form *form, *again;
    ol_error error;
    *forms = (ol_forms){.schema = schema};
    OL_CHECK_OK(ol_forms_get(forms, version, &form, &error), &error);
    OL_CHECK_OK(ol_forms_get(forms, version, &again, &error), &error);
    OL_CHECK(form == again && form->version == version);
    return form;
}

/* ------------------------------------------------------------------------------------------------------------------ tables */

static void check_fields(const ol_schema *schema, const ol_field *fields, int depth) {
    bool tags[64] = {false};
    OL_CHECK(2 * depth < OL_SCHEMA_DEPTH_MAX);
    for (const ol_field *field = fields; field->name != NULL; field++) {
        ol_field_kind kind = field->kind == OL_FIELD_ARRAY ? field->element : field->kind;
        OL_CHECK((kind == OL_FIELD_STRUCT) == (field->fields != NULL));
        OL_CHECK(field->removed_in == 0 || field->removed_in > field->first_version);
        OL_CHECK(!field->null_by_default || field->nullable);
        OL_CHECK(!field->tagged || field->first_version >= schema->flexible_from);
        if (field->tagged) {
            OL_CHECK(field->tag < 64 && !tags[field->tag]);
            tags[field->tag] = true;
        }
        if (field->fields != NULL) check_fields(schema, field->fields, depth + 1);
    }
}

OL_TEST(tables_keep_what_the_codec_relies_on) {
    int16_t previous = -1;
    OL_CHECK_INT(ol_api_count(), 24);
    for (size_t i = 0; i < ol_api_count(); i++) {
        const ol_api *api = ol_api_at(i);
        OL_CHECK(api->key > previous);
        previous = api->key;
        OL_CHECK(ol_api_of_key(api->key) == api);
        OL_CHECK_INT(api->request->first_version, api->response->first_version);
        OL_CHECK_INT(api->request->last_version, api->response->last_version);
        OL_CHECK_INT(api->request->flexible_from, api->response->flexible_from);
        OL_CHECK(api->advertised_from >= api->request->first_version);
        OL_CHECK(strncmp(api->request->name, api->name, strlen(api->name)) == 0);
        OL_CHECK(strcmp(api->request->name + strlen(api->name), "Request") == 0);
        OL_CHECK(strcmp(api->response->name + strlen(api->name), "Response") == 0);
        check_fields(api->request, api->request->fields, 0);
        check_fields(api->response, api->response->fields, 0);
    }
    OL_CHECK(ol_api_of_key(-1) == NULL && ol_api_of_key(4) == NULL && ol_api_of_key(61) == NULL && ol_api_of_key(INT16_MAX) == NULL);
}

/* ------------------------------------------------------------------------------------------------------- drawn messages */

static void draw_fields(const ol_field *fields, int16_t version, ol_value_pool *pool, ol_value *values);

static ol_value drawn_bytes(size_t size) {
    static uint8_t letters[64];
    if (letters[0] == 0) {
        for (size_t i = 0; i < sizeof letters; i++) letters[i] = (uint8_t)('A' + i);
    }
    return ol_value_bytes(ol_slice_of(letters + ol_test_below(8), size));
}

static int64_t drawn_integer(ol_field_kind kind) {
    int64_t drawn = (int64_t)ol_test_random();
    switch (kind) {
        case OL_FIELD_BOOLEAN: return drawn & 1;
        case OL_FIELD_I8: return (int8_t)drawn;
        case OL_FIELD_I16: return (int16_t)drawn;
        case OL_FIELD_U16: return (uint16_t)drawn;
        case OL_FIELD_I32: return (int32_t)drawn;
        default: return drawn;
    }
}

static void draw_value(const ol_field *field, ol_field_kind kind, bool may_be_null, int16_t version, ol_value_pool *pool,
                       ol_value *value) {
    ol_error error;
    if (kind == OL_FIELD_STRUCT) {
        value->number = 1;
        if (may_be_null && ol_test_below(3) == 0) {
            value->number = 0;
            return;
        }
        value->values = message_defaults(field->fields, pool);
        draw_fields(field->fields, version, pool, value->values);
    } else if (may_be_null && ol_test_below(3) == 0) {
        *value = (ol_value){.number = -1};
    } else if (kind == OL_FIELD_ARRAY) {
        size_t width = field->element == OL_FIELD_STRUCT ? ol_message_width(field->fields) : 1;
        value->number = (int64_t)ol_test_below(4);
        OL_CHECK_OK(ol_value_pool_take(pool, (size_t)value->number * width, &value->values, &error), &error);
        for (int64_t i = 0; i < value->number; i++) {
            ol_value *element = value->values + (size_t)i * width;
            if (field->element != OL_FIELD_STRUCT) {
                draw_value(field, field->element, false, version, pool, element);
                continue;
            }
            ol_value *defaults = message_defaults(field->fields, pool);
            memcpy(element, defaults, width * sizeof *element);
            draw_fields(field->fields, version, pool, element);
        }
    } else if (kind == OL_FIELD_UUID) {
        *value = drawn_bytes(16);
    } else if (kind == OL_FIELD_STRING || kind == OL_FIELD_BYTES) {
        *value = drawn_bytes(ol_test_below(20));
    } else {
        *value = ol_value_integer(drawn_integer(kind));
    }
}

static void draw_fields(const ol_field *fields, int16_t version, ol_value_pool *pool, ol_value *values) {
    for (size_t i = 0; fields[i].name != NULL; i++) {
        if (!ol_field_in_version(&fields[i], version) || ol_test_below(8) == 0) continue;
        draw_value(&fields[i], fields[i].kind, ol_field_may_be_null(&fields[i], version), version, pool, &values[i]);
    }
}

static bool equal_fields(const ol_field *fields, const ol_value *a, const ol_value *b);

static bool equal_values(const ol_field *field, ol_field_kind kind, const ol_value *a, const ol_value *b) {
    if (kind == OL_FIELD_STRUCT && field->tagged && !field->nullable) {
        /* One that is there with its defaults is not written. */
        ol_value_pool pool = new_pool();
        ol_value *defaults = message_defaults(field->fields, &pool);
        bool equal = equal_fields(field->fields, a->number ? a->values : defaults, b->number ? b->values : defaults);
        ol_value_pool_free(&pool);
        return equal;
    }
    if (a->number != b->number) return false;
    if (kind == OL_FIELD_STRUCT) return a->number == 0 || equal_fields(field->fields, a->values, b->values);
    if (kind == OL_FIELD_STRING || kind == OL_FIELD_BYTES || kind == OL_FIELD_UUID) {
        return a->number <= 0 || memcmp(a->bytes, b->bytes, (size_t)a->number) == 0;
    }
    if (kind != OL_FIELD_ARRAY) return true;
    size_t width = field->element == OL_FIELD_STRUCT ? ol_message_width(field->fields) : 1;
    for (int64_t i = 0; i < a->number; i++) {
        const ol_value *one = a->values + (size_t)i * width, *other = b->values + (size_t)i * width;
        if (field->element == OL_FIELD_STRUCT ? !equal_fields(field->fields, one, other)
                                              : !equal_values(field, field->element, one, other)) {
            return false;
        }
    }
    return true;
}

static bool equal_fields(const ol_field *fields, const ol_value *a, const ol_value *b) {
    for (size_t i = 0; fields[i].name != NULL; i++) {
        if (!equal_values(&fields[i], fields[i].kind, &a[i], &b[i])) return false;
    }
    return true;
}

/* Written and read, a message is the same; with less memory than it needs, or cut, it is refused. */
static void check_one(const ol_schema *schema, int16_t version) {
    static uint8_t written[BYTES_MAX], again[BYTES_MAX];
    ol_value_pool pool = new_pool(), other = new_pool();
    ol_forms forms;
    const ol_form *form = form_of(&forms, schema, version);
    ol_value *message, *read;
    ol_error error;
    size_t size, used, size_again;
    message = message_defaults(schema->fields, &pool);
    draw_fields(schema->fields, version, &pool, message);
    size_t size_max = ol_message_size_max(form, message);
    OL_CHECK(size_max <= BYTES_MAX);
    OL_CHECK_OK(ol_message_write(form, message, written, size_max, &size, &error), &error);

    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, written, size);
    OL_CHECK_OK(ol_message_read(form, ol_slice_of(exact, size), &other, &read, &used, &error), &error);
    OL_CHECK_INT(used, size);
    OL_CHECK(equal_fields(schema->fields, message, read));
    OL_CHECK_OK(ol_message_write(form, read, again, BYTES_MAX, &size_again, &error), &error);
    OL_CHECK_INT(size_again, size);
    OL_CHECK(memcmp(again, exact, size) == 0);
    free(exact);
    for (size_t less = 0; less < size; less += 1 + ol_test_below(1 + size / 16)) {
        uint8_t *cut = malloc(less ? less : 1);
        memcpy(cut, written, less);
        OL_CHECK_INT(ol_message_write(form, message, cut, less, &size_again, &error), OL_TOO_LARGE);
        memcpy(cut, written, less);
        ol_value_pool_clear(&other);
        OL_CHECK_INT(ol_message_read(form, ol_slice_of(cut, less), &other, &read, &used, &error), OL_CORRUPT);
        free(cut);
    }
    ol_forms_free(&forms);
    ol_value_pool_free(&other);
    ol_value_pool_free(&pool);
}

OL_TEST(every_message_of_every_version_is_read_as_it_was_written) {
    int64_t rounds = ol_test_depth(20, 300);
    for (size_t i = 0; i < ol_api_count(); i++) {
        const ol_api *api = ol_api_at(i);
        for (int16_t version = api->request->first_version; version <= api->request->last_version; version++) {
            for (int64_t round = 0; round < rounds; round++) {
                check_one(api->request, version);
                check_one(api->response, version);
            }
        }
    }
}

/* ------------------------------------------------------------------------------------------------------ hostile messages */

/* The decoder of events (format/schema) walks the same tables: it accepts the same bytes, and refuses the others in the same words. */
static void check_general_decoder_agrees(const ol_schema *schema, int16_t version, ol_slice bytes, int status, size_t used,
                                         const ol_error *error) {
    static const ol_schema_visitor nobody;
    ol_error other_error;
    size_t other_used;
    if (status == OL_LIMIT) return;
    OL_CHECK_INT(ol_schema_decode(schema, version, bytes, &nobody, &other_used, &other_error), status);
    if (status == OL_OK) {
        OL_CHECK_INT(other_used, used);
    } else {
        OL_CHECK(strcmp(other_error.reason, error->reason) == 0);
    }
}

OL_TEST(mutated_messages_are_read_or_refused) {
    static uint8_t bytes[BYTES_MAX];
    int64_t rounds = ol_test_depth(100000, 5000000);
    for (int64_t round = 0; round < rounds; round++) {
        const ol_api *api = ol_api_at(ol_test_below(ol_api_count()));
        const ol_schema *schema = ol_test_below(2) ? api->request : api->response;
        int16_t version = (int16_t)(schema->first_version + ol_test_below((uint64_t)(schema->last_version - schema->first_version + 1)));
        ol_forms forms;
        const ol_form *form = form_of(&forms, schema, version);
        ol_value_pool pool = new_pool();
        ol_value *message;
        ol_error error;
        size_t size, used;
        message = message_defaults(schema->fields, &pool);
        draw_fields(schema->fields, version, &pool, message);
        OL_CHECK_OK(ol_message_write(form, message, bytes, BYTES_MAX, &size, &error), &error);
        for (uint64_t changes = 1 + ol_test_below(3); changes > 0 && size > 0; changes--) {
            bytes[ol_test_below(size)] = (uint8_t)(ol_test_below(2) ? 0xffu >> ol_test_below(8) : ol_test_random());
        }
        uint8_t *exact = malloc(size ? size : 1);
        memcpy(exact, bytes, size);
        ol_value_pool_clear(&pool);
        int status = ol_message_read(form, ol_slice_of(exact, size), &pool, &message, &used, &error);
        OL_CHECK(status == OL_OK || status == OL_CORRUPT || status == OL_LIMIT);
        check_general_decoder_agrees(schema, version, ol_slice_of(exact, size), status, used, &error);
        free(exact);
        ol_forms_free(&forms);
        ol_value_pool_free(&pool);
    }
}

OL_TEST(a_form_that_finds_no_memory_is_made_later) {
    ol_forms forms = {.schema = ol_api_of_key(1)->response};
    const ol_form *form;
    ol_error error;
    bool has_failed = true;
    for (int64_t at = 1; has_failed; at++) {
        fault_memory_at(at);
        int status = ol_forms_get(&forms, 12, &form, &error);
        has_failed = fault_memory_calls() >= at;
        fault_memory_at(0);
        OL_CHECK_INT(status, has_failed ? OL_NO_MEMORY : OL_OK);
        OL_CHECK(at > 1 || has_failed);
    }
    OL_CHECK_INT(ol_forms_get(&forms, 3, &form, &error), OL_UNSUPPORTED);
    OL_CHECK(strcmp(error.reason, "version 3 of FetchResponse is not supported") == 0);
    OL_CHECK_INT(ol_forms_get(&forms, 99, &form, &error), OL_UNSUPPORTED);
    OL_CHECK_INT(ol_forms_get(&forms, -1, &form, &error), OL_UNSUPPORTED);
    ol_forms_free(&forms);
}

OL_TEST(a_count_is_judged_before_memory_is_taken) {
    /* OffsetCommit 2: an empty group, generation, member, retention; 100,000,000 topics. */
    uint8_t bytes[64] = {0};
    ol_store_i32(bytes + 2 + 4 + 2 + 8, 100000000);
    ol_value_pool pool = new_pool();
    ol_value *message;
    ol_error error;
    ol_forms forms;
    const ol_form *form = form_of(&forms, ol_api_of_key(8)->request, 2);
    OL_CHECK_INT(ol_message_read(form, ol_slice_of(bytes, sizeof bytes), &pool, &message, NULL, &error), OL_CORRUPT);
    OL_CHECK(strstr(error.reason, "OffsetCommitRequest version 2: topics extends beyond the end") != NULL);
    OL_CHECK(pool.count < 64);
    ol_forms_free(&forms);
    ol_value_pool_free(&pool);
}

OL_TEST(a_pool_gives_no_more_than_its_limit_and_again_after_a_clear) {
    ol_value_pool pool = {.limit = 3000};
    ol_value *values, *kept;
    ol_error error;
    for (int round = 0; round < 3; round++) {
        OL_CHECK_OK(ol_value_pool_take(&pool, 10, &kept, &error), &error);
        kept[9].number = 7;
        OL_CHECK_OK(ol_value_pool_take(&pool, 2900, &values, &error), &error);
        OL_CHECK_INT(values[2899].number, 0);
        OL_CHECK_INT(ol_value_pool_take(&pool, 91, &values, &error), OL_LIMIT);
        OL_CHECK_OK(ol_value_pool_take(&pool, 90, &values, &error), &error);
        OL_CHECK_INT(ol_value_pool_take(&pool, 1, &values, &error), OL_LIMIT);
        OL_CHECK_INT(kept[9].number, 7);
        ol_value_pool_clear(&pool);
    }
    ol_value_pool_free(&pool);
}

/* ------------------------------------------------------------------------------------------------------------- vectors */

static size_t from_hex(const char *hex, uint8_t *bytes) {
    size_t size = strlen(hex) / 2;
    for (size_t i = 0; i < size; i++) {
        unsigned byte;
        OL_CHECK(sscanf(hex + 2 * i, "%2x", &byte) == 1);
        bytes[i] = (uint8_t)byte;
    }
    return size;
}

/* docs/format/wire.md §11.5: requests and responses without their sizes. */
static const struct {
    int16_t api, version;
    bool is_request;
    const char *header, *body;
} vectors[] = {
    {18, 3, true, "00120003000000010002633100", "03707904312e3000"},
    {18, 3, false, "00000001", "000002000800000009000000000000"},
    {18, 0, false, "00000001", "002300000001001200000004"},
    {10, 4, true, "000a0004000000040002633100", "0002096d792d67726f757000"},
    {10, 4, false, "0000000400", "0000000002096d792d67726f7570000000010268000023840000010000"},
    {8, 2, true, "000800020000000200026331",
     "00086d792d67726f75700000000500036d2d31ffffffffffffffff0000000100066f72646572730000000100000003000000000000002a0000"},
    {8, 2, false, "00000002", "0000000100066f726465727300000001000000030000"},
    {8, 7, true, "000800070000000200026331",
     "00086d792d67726f75700000000500036d2d31ffff0000000100066f72646572730000000100000003000000000000002a000000070000"},
    {8, 7, false, "00000002", "000000000000000100066f726465727300000001000000030000"},
    {8, 8, true, "00080008000000020002633100",
     "096d792d67726f757000000005046d2d310002076f72646572730200000003000000000000002a0000000701000000"},
    {8, 8, false, "0000000200", "0000000002076f726465727302000000030000000000"},
    {9, 1, true, "000900010000000300026331", "00086d792d67726f75700000000100066f72646572730000000100000003"},
    {9, 1, false, "00000003", "0000000100066f72646572730000000100000003000000000000002a00000000"},
    {9, 5, false, "00000003", "000000000000000100066f72646572730000000100000003000000000000002a00000007000000000000"},
    {9, 8, true, "00090008000000030002633100", "02096d792d67726f757000000000"},
    {9, 9, true, "00090009000000030002633100", "02096d792d67726f757000ffffffff02076f7264657273020000000300000100"},
    {9, 9, false, "0000000300", "0000000002096d792d67726f757002076f72646572730200000003000000000000002a00000007010000000000000000"},
};

OL_TEST(vectors_are_read_and_written) {
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint8_t header[64], body[256], again[256];
        size_t header_size = from_hex(vectors[i].header, header), body_size = from_hex(vectors[i].body, body);
        const ol_api *api = ol_api_of_key(vectors[i].api);
        ol_forms forms;
        const ol_form *form = form_of(&forms, vectors[i].is_request ? api->request : api->response, vectors[i].version);
        ol_value_pool pool = new_pool();
        ol_value *message;
        ol_error error;
        size_t used, size;
        if (vectors[i].is_request) {
            ol_request_header request;
            OL_CHECK_OK(ol_request_header_read(ol_slice_of(header, header_size), &request, &used, &error), &error);
            OL_CHECK_INT(used, header_size);
            OL_CHECK(request.api == api && request.api_version == vectors[i].version);
            OL_CHECK(request.client_id.size == 2 && memcmp(request.client_id.data, "c1", 2) == 0);
        } else {
            ol_request_header request = {.api = api, .api_key = api->key, .api_version = vectors[i].version,
                                         .correlation_id = ol_load_i32(header)};
            OL_CHECK_INT(ol_response_header_write(&request, again), header_size);
            OL_CHECK(memcmp(again, header, header_size) == 0);
        }
        OL_CHECK_OK(ol_message_read(form, ol_slice_of(body, body_size), &pool, &message, &used, &error), &error);
        OL_CHECK_INT(used, body_size);
        OL_CHECK_OK(ol_message_write(form, message, again, sizeof again, &size, &error), &error);
        OL_CHECK_INT(size, body_size);
        OL_CHECK(memcmp(again, body, size) == 0);
        ol_forms_free(&forms);
        ol_value_pool_free(&pool);
    }
}

OL_TEST(headers_that_are_cut_or_of_something_unknown_are_refused) {
    uint8_t bytes[64];
    ol_request_header header;
    ol_error error;
    size_t used, size = from_hex("00090009000000030002633101050301020300", bytes);
    OL_CHECK_OK(ol_request_header_read(ol_slice_of(bytes, size), &header, &used, &error), &error);
    OL_CHECK_INT(used, size - 1);
    for (size_t less = 0; less < size - 1; less++) {
        uint8_t *cut = malloc(less ? less : 1);
        memcpy(cut, bytes, less);
        OL_CHECK_INT(ol_request_header_read(ol_slice_of(cut, less), &header, &used, &error), OL_CORRUPT);
        free(cut);
    }
    ol_store_i16(bytes + 2, 11);
    OL_CHECK_INT(ol_request_header_read(ol_slice_of(bytes, size), &header, &used, &error), OL_UNSUPPORTED);
    OL_CHECK(strcmp(error.reason, "version 11 of OffsetFetch is not supported") == 0);
    OL_CHECK_INT(header.correlation_id, 3);
    ol_store_i16(bytes, 4);
    OL_CHECK_INT(ol_request_header_read(ol_slice_of(bytes, size), &header, &used, &error), OL_UNSUPPORTED);
    OL_CHECK(strcmp(error.reason, "API key 4 is not supported") == 0);
    size = from_hex("000900010000000affff", bytes);
    OL_CHECK_OK(ol_request_header_read(ol_slice_of(bytes, size), &header, &used, &error), &error);
    OL_CHECK(header.client_id.data == NULL);
}

OL_TEST_MAIN()
