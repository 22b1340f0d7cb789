/* wire/form.c: forms from tables. */
#include "wire/form.h"

#include <stdlib.h>

enum { FIELDS_END = 128 };      /* of a struct; a count of tags has one byte */

size_t ol_message_width(const ol_field *fields) {
    size_t width = 0;
    while (fields[width].name != NULL) width++;
    return width;
}

ol_value ol_field_default(const ol_field *field) {
    static const uint8_t zero[16];
    switch (field->kind) {
        case OL_FIELD_STRING:
        case OL_FIELD_BYTES:
            return (ol_value){.number = field->null_by_default ? -1 : 0, .bytes = zero};
        case OL_FIELD_ARRAY: return (ol_value){.number = field->null_by_default ? -1 : 0};
        case OL_FIELD_UUID: return ol_value_bytes(ol_slice_of(zero, sizeof zero));
        case OL_FIELD_STRUCT: return (ol_value){.number = !field->nullable && !field->tagged};
        default: return ol_value_integer(field->default_value);
    }
}

/* ------------------------------------------------------------------------------------- structs */

static void free_struct(const ol_struct_form *form) {
    if (form == NULL) return;
    for (uint16_t i = 0; i < form->width; i++) free_struct(form->steps[i].inner);
    free((void *)form);
}

/* The kinds of steps: for fields in sequence, for tagged fields, and for fields that the version
 * does not have. */
typedef enum part { PLACED, TAGGED, ABSENT } part;

static part part_of(const ol_field *field, int16_t version) {
    if (!ol_field_in_version(field, version)) return ABSENT;
    return field->tagged ? TAGGED : PLACED;
}

/* Appends the steps of one part; tagged fields are sorted by their tags. */
static uint16_t add_steps(const ol_schema *schema, int16_t version, ol_struct_form *form,
                          uint16_t start, part wanted) {
    uint16_t end = start;
    for (uint16_t place = 0; place < form->width; place++) {
        const ol_field *field = &form->fields[place];
        if (part_of(field, version) != wanted) continue;
        uint16_t at = end++;
        for (; at > start && form->steps[at - 1].tag > field->tag; at--) {
            form->steps[at] = form->steps[at - 1];
        }
        form->steps[at] = (ol_step){.kind = (uint8_t)field->kind,
                                    .element = (uint8_t)field->element,
                                    .tag = field->tag,
                                    .may_be_null = ol_field_may_be_null(field, version),
                                    .place = place};
        if (field->kind == OL_FIELD_ARRAY) {
            form->steps[at].element_size_min =
                (uint32_t)ol_schema_element_size_min(schema, version, field);
        }
    }
    return end;
}

static ol_struct_form *make_struct(const ol_schema *schema, int16_t version,
                                   const ol_field *fields);

/* Makes the forms of the structs in a struct, and the defaults of its fields, which point into
 * these forms. */
static bool make_inner(const ol_schema *schema, int16_t version, ol_struct_form *form,
                       ol_value *defaults) {
    for (uint16_t i = 0; i < form->width; i++) {
        ol_step *step = &form->steps[i];
        const ol_field *field = &form->fields[step->place];
        ol_value *value = &defaults[step->place];
        *value = ol_field_default(field);
        if (field->fields == NULL) continue;
        step->inner = make_struct(schema, version, field->fields);
        if (step->inner == NULL) return false;
        if (field->kind == OL_FIELD_STRUCT && value->number != 0) {
            value->values = (ol_value *)step->inner->defaults;
        }
    }
    return true;
}

/* Returns NULL if there is no memory. */
static ol_struct_form *make_struct(const ol_schema *schema, int16_t version,
                                   const ol_field *fields) {
    size_t width = ol_message_width(fields);
    ol_struct_form *form =
        calloc(1, sizeof *form + width * (sizeof form->steps[0] + sizeof form->defaults[0]));
    if (form == NULL) return NULL;
    ol_value *defaults = (ol_value *)(form->steps + width);
    form->fields = fields;
    form->defaults = defaults;
    form->width = (uint16_t)width;
    form->placed_end = add_steps(schema, version, form, 0, PLACED);
    form->tagged_end = add_steps(schema, version, form, form->placed_end, TAGGED);
    uint16_t end = add_steps(schema, version, form, form->tagged_end, ABSENT);
    OL_ASSERT(end == width && width < FIELDS_END);
    if (make_inner(schema, version, form, defaults)) return form;
    free_struct(form);
    return NULL;
}

/* --------------------------------------------------------------------------------------- forms */

static int no_memory(const ol_schema *schema, ol_error *error) {
    return ol_fail(error, OL_NO_MEMORY, "no memory for the form of %s", schema->name);
}

int ol_forms_make(ol_forms *forms, int16_t version, ol_error *error) {
    const ol_schema *schema = forms->schema;
    if (version < schema->first_version || version > schema->last_version) {
        return ol_fail(error, OL_UNSUPPORTED, "version %d of %s is not supported", version,
                       schema->name);
    }
    OL_ASSERT(version < OL_FORM_VERSIONS_MAX);      /* the tables are ours */
    ol_form *form = malloc(sizeof *form);
    if (form == NULL) return no_memory(schema, error);
    *form = (ol_form){.schema = schema,
                      .outermost = make_struct(schema, version, schema->fields),
                      .version = version,
                      .is_flexible = version >= schema->flexible_from};
    if (form->outermost == NULL) {
        free(form);
        return no_memory(schema, error);
    }
    forms->made[version] = form;
    return OL_OK;
}

void ol_forms_free(ol_forms *forms) {
    for (size_t i = 0; i < OL_FORM_VERSIONS_MAX; i++) {
        if (forms->made[i] == NULL) continue;
        free_struct(forms->made[i]->outermost);
        free(forms->made[i]);
        forms->made[i] = NULL;
    }
}
