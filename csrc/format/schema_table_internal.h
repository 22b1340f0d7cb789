/* format/schema_table_internal: the macros with which tables of fields are written.  Only sources
 * of tables include it.
 */
#ifndef OL_FORMAT_SCHEMA_TABLE_INTERNAL_H
#define OL_FORMAT_SCHEMA_TABLE_INTERNAL_H

#include "format/schema.h"

/* FIELD declares a field that every version has, that is not tagged and that is never null.  The
 * macros after it change one of these properties. */
#define FIELD(field_name, field_kind) .name = field_name, .kind = OL_FIELD_##field_kind
#define NULLABLE .nullable = true
#define NULLABLE_FROM(version) .nullable = true, .nullable_from = version
#define SINCE(version) .first_version = version
#define REMOVED_IN(version) .removed_in = version
#define TAG(number) .tagged = true, .tag = number
/* The default value of an integer.  A field without this macro that is not present in the bytes is
 * read as 0, "", an empty array or false. */
#define DEFAULT(value) .default_value = value
#define DEFAULT_NULL .null_by_default = true
#define ARRAY_OF(field_name, element_kind) \
    FIELD(field_name, ARRAY), .element = OL_FIELD_##element_kind
#define ARRAY_OF_STRUCTS(field_name, list) ARRAY_OF(field_name, STRUCT), .fields = list
#define STRUCT_OF(field_name, list) FIELD(field_name, STRUCT), .fields = list
#define END {.name = NULL}

#endif
