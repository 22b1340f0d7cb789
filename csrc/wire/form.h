/* wire/form: a message in one of its versions, prepared to be read and written again and again.
 *
 * The tables (format/schema) describe all versions at once.  A form holds what they say about one
 * version.  It has the version's fields as steps in the order of the bytes, the defaults of fields
 * that the version does not have, and the sizes that follow from both.
 *
 * Ownership: ol_forms owns its forms, which do not move until it is freed; zeroed memory with a
 * schema has no forms yet.  Locks: none; forms are constant once made, and ol_forms belongs to one
 * thread.
 */
#ifndef OL_WIRE_FORM_H
#define OL_WIRE_FORM_H

#include "format/schema.h"
#include "wire/value_pool.h"

typedef struct ol_struct_form ol_struct_form;

/* One field of a struct. */
typedef struct ol_step {
    uint8_t kind;               /* ol_field_kind, as is `element` */
    uint8_t element;
    uint8_t tag;
    bool may_be_null;
    uint16_t place;  /* index of its value in the struct, and of its field in the table */
    uint32_t element_size_min;  /* of an array, in bytes */
    const ol_struct_form *inner;    /* of a struct or an array of structs; else NULL */
} ol_step;

struct ol_struct_form {
    const ol_field *fields;     /* its table */
    const ol_value *defaults;   /* of all fields of the table */
    uint16_t width;             /* fields of the table */
    /* Where each kind of steps ends: first the fields in sequence, then the tagged fields in
     * ascending order of their tags, then the fields that this version does not have. */
    uint16_t placed_end;
    uint16_t tagged_end;
    ol_step steps[];
};

typedef struct ol_form {
    const ol_schema *schema;
    const ol_struct_form *outermost;
    int16_t version;
    bool is_flexible;
} ol_form;

enum { OL_FORM_VERSIONS_MAX = 20 };     /* of a schema, from 0 on */

typedef struct ol_forms {
    const ol_schema *schema;
    ol_form *made[OL_FORM_VERSIONS_MAX];    /* by version; NULL: not asked for yet */
} ol_forms;

/* Makes the form of a version.  Fails with OL_UNSUPPORTED if the schema does not have the version,
 * or with OL_NO_MEMORY. */
int ol_forms_make(ol_forms *forms, int16_t version, ol_error *error) OL_NODISCARD;

/* Finds the form of a version, and makes it when it is first asked for.  Fails as ol_forms_make
 * does. */
OL_NODISCARD static inline int ol_forms_get(ol_forms *forms, int16_t version, const ol_form **form,
                                            ol_error *error) {
    if (OL_UNLIKELY(version < 0 || version >= OL_FORM_VERSIONS_MAX ||
                    forms->made[version] == NULL)) {
        int status = ol_forms_make(forms, version, error);
        if (status != OL_OK) return status;
    }
    *form = forms->made[version];
    return OL_OK;
}

void ol_forms_free(ol_forms *forms);

/* Returns how many values a struct with these fields has. */
size_t ol_message_width(const ol_field *fields);

/* Returns the default value of a field.  For a struct that is neither tagged nor nullable, the
 * caller must set the values of its fields. */
ol_value ol_field_default(const ol_field *field);

#endif
