/* wire/form: the form of a message in one of its versions, computed once so that reads and writes
 * are fast.
 *
 * The tables of fields (format/schema) describe all versions of a message at once.  A form
 * describes one version.  It lists the fields of the version as steps, in the order of their bytes.
 * It also holds the default value of every field of the table.  A field that the version does not
 * have gets this value.
 *
 * Ownership: an ol_forms owns its forms, which do not move in memory until it is freed.  To make an
 * empty ol_forms, set all of its memory to zero and then set `schema`.  The functions take no
 * locks.  Only one thread may use an ol_forms.  A form does not change after it was made.
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
    uint16_t place;  /* index of the value in its struct and of the field in its table */
    uint32_t element_size_min;  /* of an array, in bytes */
    const ol_struct_form *inner;    /* of a struct or an array of structs; otherwise NULL */
} ol_step;

struct ol_struct_form {
    const ol_field *fields;     /* its table */
    const ol_value *defaults;   /* of all fields of the table */
    uint16_t width;             /* fields of the table */
    /* The steps come in three parts: the untagged fields in sequence, up to `placed_end`; the
     * tagged fields in ascending order of their tags, up to `tagged_end`; and the fields that this
     * version does not have. */
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
    ol_form *made[OL_FORM_VERSIONS_MAX];    /* by version; NULL: not made yet */
} ol_forms;

/* Makes the form of a version.  Fails with OL_UNSUPPORTED if the schema does not have the version,
 * or with OL_NO_MEMORY. */
int ol_forms_make(ol_forms *forms, int16_t version, ol_error *error) OL_NODISCARD;

/* Sets *form to the form of a version.  The first call for a version makes the form.  Fails as
 * ol_forms_make does. */
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

/* Returns the default value of a field.  If the field is a struct that is neither tagged nor
 * nullable, the caller must then set the values of the struct's fields. */
ol_value ol_field_default(const ol_field *field);

#endif
