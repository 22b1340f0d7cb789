/* format/group_schema_tables: the tables keep what the decoder and the writer rely on, name what Kafka's tools print, and every field of every
 * version can be written and read again. */
#include <stdarg.h>

#include "format/group_schema.h"
#include "format/schema_encode.h"
#include "ol_test.h"

enum { TYPES = 24, BYTES_MAX = 1 << 16, TEXT_MAX = 1 << 18 };

/* The records that a broker of 4.3 knows (docs/format/records.md §3, docs/format/brokers.md §15.1): the stem of both
 * names, and of the value the last version and the first that is flexible. */
typedef struct known_type {
    int16_t type;
    const char *stem;
    int16_t last_version, flexible_from;
} known_type;

static const known_type known_types[] = {
    {0, "LegacyOffsetCommit", 0, OL_SCHEMA_NEVER},
    {1, "OffsetCommit", 4, 4},
    {2, "GroupMetadata", 4, 4},
    {3, "ConsumerGroupMetadata", 0, 0},
    {4, "ConsumerGroupPartitionMetadata", 0, 0},
    {5, "ConsumerGroupMemberMetadata", 0, 0},
    {6, "ConsumerGroupTargetAssignmentMetadata", 0, 0},
    {7, "ConsumerGroupTargetAssignmentMember", 0, 0},
    {8, "ConsumerGroupCurrentMemberAssignment", 0, 0},
    {10, "ShareGroupMemberMetadata", 0, 0},
    {11, "ShareGroupMetadata", 0, 0},
    {12, "ShareGroupTargetAssignmentMetadata", 0, 0},
    {13, "ShareGroupTargetAssignmentMember", 0, 0},
    {14, "ShareGroupCurrentMemberAssignment", 0, 0},
    {15, "ShareGroupStatePartitionMetadata", 0, 0},
    {16, "ConsumerGroupRegularExpression", 0, 0},
    {17, "StreamsGroupMetadata", 0, 0},
    {19, "StreamsGroupMemberMetadata", 0, 0},
    {20, "StreamsGroupTargetAssignmentMetadata", 0, 0},
    {21, "StreamsGroupTargetAssignmentMember", 0, 0},
    {22, "StreamsGroupCurrentMemberAssignment", 0, 0},
    {23, "StreamsGroupTopology", 0, 0},
};
#define KNOWN_COUNT (sizeof known_types / sizeof known_types[0])

OL_TEST(types_names_and_versions_are_those_of_a_broker) {
    size_t known = 0;
    for (int16_t type = 0; type < TYPES; type++) {
        const ol_schema *key = ol_schema_of_key(type), *value = ol_schema_of_value(type);
        OL_CHECK((key == NULL) == (value == NULL));
        if (key == NULL) continue;
        const known_type *expected = &known_types[known++];
        char key_name[64], value_name[64];
        OL_CHECK_INT(type, expected->type);
        snprintf(key_name, sizeof key_name, "%sKey", expected->stem);
        snprintf(value_name, sizeof value_name, "%sValue", expected->stem);
        OL_CHECK(strcmp(key->name, key_name) == 0 && strcmp(value->name, value_name) == 0);
        OL_CHECK(key->first_version == 0 && key->last_version == 0 && key->flexible_from == OL_SCHEMA_NEVER);
        OL_CHECK(value->first_version == 0 && value->last_version == expected->last_version);
        OL_CHECK_INT(value->flexible_from, expected->flexible_from);
    }
    OL_CHECK_INT(known, KNOWN_COUNT);
    OL_CHECK(strcmp(ol_schema_of_subscription()->name, "ConsumerProtocolSubscription") == 0);
    OL_CHECK(strcmp(ol_schema_of_assignment()->name, "ConsumerProtocolAssignment") == 0);
}

/* Whoever knows a key of any kind finds its group in it without knowing the kind. */
OL_TEST(a_key_begins_with_its_group) {
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        const ol_field *first = ol_schema_of_key(known_types[i].type)->fields;
        OL_CHECK(first->kind == OL_FIELD_STRING && !first->nullable && !first->tagged);
        OL_CHECK(strcmp(first->name, known_types[i].type <= 2 ? "group" : "groupId") == 0);
    }
}

/* ------------------------------------------------------------------------------------------------ what the tables keep */

static void check_fields(const ol_schema *schema, const ol_field *fields, int depth);

static void check_field(const ol_schema *schema, const ol_field *field, int depth) {
    OL_CHECK(field->name[0] >= 'a' && field->name[0] <= 'z');
    OL_CHECK(field->kind > OL_FIELD_NONE && field->kind <= OL_FIELD_STRUCT);
    OL_CHECK((field->kind == OL_FIELD_ARRAY) == (field->element != OL_FIELD_NONE) && field->element != OL_FIELD_ARRAY);
    bool has_size = field->kind == OL_FIELD_STRING || field->kind == OL_FIELD_BYTES || field->kind == OL_FIELD_ARRAY;
    OL_CHECK(!field->nullable || has_size || field->kind == OL_FIELD_STRUCT);
    OL_CHECK(field->first_version >= schema->first_version && field->first_version <= schema->last_version);
    OL_CHECK(field->removed_in == 0 || (field->removed_in > field->first_version && field->removed_in <= schema->last_version));
    OL_CHECK(field->tagged || field->tag == 0);
    /* Tags are there only where the struct has room for them. */
    OL_CHECK(!field->tagged || field->first_version >= schema->flexible_from);
    bool has_fields = field->kind == OL_FIELD_STRUCT || field->element == OL_FIELD_STRUCT;
    OL_CHECK(has_fields == (field->fields != NULL));
    if (has_fields) check_fields(schema, field->fields, depth + (field->kind == OL_FIELD_ARRAY ? 2 : 1));
}

static void check_fields(const ol_schema *schema, const ol_field *fields, int depth) {
    OL_CHECK(depth < OL_SCHEMA_DEPTH_MAX);
    OL_CHECK(fields->name != NULL);     /* an element has a byte at least: the decoder bounds counts by it */
    int tags = 0;
    for (const ol_field *field = fields; field->name != NULL; field++) {
        for (const ol_field *before = fields; before < field; before++) OL_CHECK(strcmp(before->name, field->name) != 0);
        /* A writer tells the fields in the order of the list: tags after all others, ascending. */
        OL_CHECK(tags == 0 || field->tagged);
        if (field->tagged) OL_CHECK_INT(field->tag, tags++);
        check_field(schema, field, depth);
    }
}

static const ol_schema *schema_at(size_t index) {
    if (index == 2 * TYPES) return ol_schema_of_subscription();
    if (index == 2 * TYPES + 1) return ol_schema_of_assignment();
    int16_t type = (int16_t)(index / 2);
    return index % 2 == 0 ? ol_schema_of_key(type) : ol_schema_of_value(type);
}

OL_TEST(tables_keep_what_their_readers_rely_on) {
    for (size_t i = 0; i < 2 * TYPES + 2; i++) {
        const ol_schema *schema = schema_at(i);
        if (schema == NULL) continue;
        OL_CHECK(schema->first_version <= schema->last_version);
        OL_CHECK(schema->flexible_from == OL_SCHEMA_NEVER || schema->flexible_from <= schema->last_version);
        check_fields(schema, schema->fields, 1);
    }
}

/* ------------------------------------------------------------------------------------------------ every field, every version */

/* The events as text; the same from a walk of the table and from the decoder. */
static char output[TEXT_MAX];
static size_t output_size;

static int tell(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(output + output_size, sizeof output - output_size, format, arguments);
    va_end(arguments);
    OL_CHECK(size >= 0 && output_size + (size_t)size < sizeof output);
    output_size += (size_t)size;
    return OL_OK;
}

static const char *name_of(const ol_field *field) { return field == NULL ? "" : field->name; }

static int tell_begin_struct(void *context OL_UNUSED, const ol_field *field, ol_error *error OL_UNUSED) {
    return tell("%s{", name_of(field));
}
static int tell_end_struct(void *context OL_UNUSED, const ol_field *field, ol_error *error OL_UNUSED) {
    return tell("}%s ", name_of(field));
}
static int tell_begin_array(void *context OL_UNUSED, const ol_field *field, int32_t count, ol_error *error OL_UNUSED) {
    return tell("%s[%d:", name_of(field), (int)count);
}
static int tell_end_array(void *context OL_UNUSED, const ol_field *field, ol_error *error OL_UNUSED) {
    return tell("]%s ", name_of(field));
}
static int tell_integer(void *context OL_UNUSED, const ol_field *field, int64_t value, ol_error *error OL_UNUSED) {
    return tell("%s=%" PRId64 " ", name_of(field), value);
}
static int tell_bytes(void *context OL_UNUSED, const ol_field *field, ol_slice value, ol_error *error OL_UNUSED) {
    tell("%s=", name_of(field));
    for (size_t i = 0; i < value.size; i++) tell("%02x", value.data[i]);
    return tell("/%zu ", value.size);
}
static int tell_null(void *context OL_UNUSED, const ol_field *field, ol_error *error OL_UNUSED) {
    return tell("%s=null ", name_of(field));
}
static int tell_unknown(void *context OL_UNUSED, uint32_t tag, ol_slice value OL_UNUSED, ol_error *error OL_UNUSED) {
    return tell("tag %u ", tag);
}

static const ol_schema_visitor teller = {tell_begin_struct, tell_end_struct, tell_begin_array, tell_end_array,
                                         tell_integer,      tell_bytes,      tell_null,      tell_unknown,   NULL};

/* One event, reported and written; its arguments are evaluated twice. */
#define BOTH(function, ...) \
    do { \
        ol_error both_error; \
        OL_CHECK_OK(ol_schema_put_##function(writer, __VA_ARGS__, &both_error), &both_error); \
        tell_##function(NULL, __VA_ARGS__, &both_error); \
    } while (0)

static void make_fields(ol_schema_writer *writer, const ol_field *fields);

static int64_t random_integer(ol_field_kind kind) {
    static const int widths[] = {[OL_FIELD_I8] = 8, [OL_FIELD_I16] = 16, [OL_FIELD_U16] = 16, [OL_FIELD_I32] = 32, [OL_FIELD_I64] = 64};
    if (kind == OL_FIELD_BOOLEAN) return (int64_t)ol_test_below(2);
    uint64_t bits = ol_test_random();
    if (ol_test_below(4) == 0) bits = ol_test_below(2) ? UINT64_MAX : 0;
    if (kind == OL_FIELD_U16) return (int64_t)(bits & 0xffff);
    return (int64_t)(bits << (64 - widths[kind])) >> (64 - widths[kind]);
}

static void make_one(ol_schema_writer *writer, const ol_field *field, ol_field_kind kind) {
    uint8_t bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)ol_test_random();
    size_t size = kind == OL_FIELD_UUID ? 16 : ol_test_below(ol_test_below(8) == 0 ? sizeof bytes : 5);
    int64_t value;
    switch (kind) {
        case OL_FIELD_STRUCT:
            BOTH(begin_struct, field);
            make_fields(writer, field->fields);
            BOTH(end_struct, field);
            return;
        case OL_FIELD_UUID:
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES:
            BOTH(bytes, field, ol_slice_of(bytes, size));
            return;
        default:
            value = random_integer(kind);
            BOTH(integer, field, value);
    }
}

static void make_field(ol_schema_writer *writer, const ol_field *field) {
    if (field->nullable && ol_test_below(3) == 0) {
        BOTH(null, field);
        return;
    }
    if (field->kind != OL_FIELD_ARRAY) {
        make_one(writer, field, field->kind);
        return;
    }
    int32_t count = (int32_t)ol_test_below(4);
    BOTH(begin_array, field, count);
    for (int32_t i = 0; i < count; i++) make_one(writer, field, field->element);
    BOTH(end_array, field);
}

static void make_fields(ol_schema_writer *writer, const ol_field *fields) {
    for (const ol_field *field = fields; field->name != NULL; field++) {
        if (!ol_field_in_version(field, writer->version)) continue;
        if (!field->tagged || ol_test_below(2)) make_field(writer, field);
    }
}

static void check_random_record(const ol_schema *schema, int16_t version) {
    static uint8_t bytes[BYTES_MAX];
    static char expected[TEXT_MAX];
    ol_schema_writer state, *writer = &state;
    ol_error error;
    size_t size, used;
    output_size = 0;
    OL_CHECK_OK(ol_schema_writer_start(writer, schema, version, bytes, sizeof bytes, &error), &error);
    BOTH(begin_struct, NULL);
    make_fields(writer, schema->fields);
    BOTH(end_struct, NULL);
    OL_CHECK_OK(ol_schema_writer_finish(writer, &size, &error), &error);
    memcpy(expected, output, output_size + 1);
    output_size = 0;
    uint8_t *copy = malloc(size ? size : 1);        /* exactly as large: a sanitizer sees a read past it */
    memcpy(copy, bytes, size);
    OL_CHECK_OK(ol_schema_decode(schema, version, ol_slice_of(copy, size), &teller, &used, &error), &error);
    OL_CHECK_INT(used, size);
    if (strcmp(output, expected) != 0) {
        fprintf(stderr, "%s version %d\n%s\n%s\n", schema->name, version, output, expected);
    }
    OL_CHECK(strcmp(output, expected) == 0);
    free(copy);
}

OL_TEST(random_records_of_every_schema_and_version_come_back) {
    for (size_t i = 0; i < 2 * TYPES + 2; i++) {
        const ol_schema *schema = schema_at(i);
        if (schema == NULL) continue;
        for (int16_t version = schema->first_version; version <= schema->last_version; version++) {
            for (int round = 0; round < 100; round++) check_random_record(schema, version);
        }
    }
}

OL_TEST_MAIN()
