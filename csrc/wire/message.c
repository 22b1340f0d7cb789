/* wire/message.c: what a message holds before it is read or filled. */
#include "wire/message.h"

size_t ol_message_width(const ol_field *fields) {
    size_t width = 0;
    while (fields[width].name != NULL) width++;
    return width;
}

int ol_message_defaults(const ol_field *fields, ol_value_pool *pool, ol_value **values,
                        ol_error *error) {
    int status = ol_value_pool_take(pool, ol_message_width(fields), values, error);
    for (size_t i = 0; fields[i].name != NULL && status == OL_OK; i++) {
        ol_value *value = &(*values)[i];
        *value = ol_field_default(&fields[i]);
        if (fields[i].kind == OL_FIELD_STRUCT && value->number != 0) {
            status = ol_message_defaults(fields[i].fields, pool, &value->values, error);
        }
    }
    return status;
}
