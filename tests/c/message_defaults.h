/* message_defaults: a message as it is before a test fills it. */
#ifndef MESSAGE_DEFAULTS_H
#define MESSAGE_DEFAULTS_H

#include "ol_test.h"
#include "wire/message.h"

/* The fields of a struct with their defaults, in memory of the pool. */
static ol_value *message_defaults(const ol_field *fields, ol_value_pool *pool) {
    ol_value *values;
    ol_error error;
    OL_CHECK_OK(ol_value_pool_take(pool, ol_message_width(fields), &values, &error), &error);
    for (size_t i = 0; fields[i].name != NULL; i++) {
        values[i] = ol_field_default(&fields[i]);
        if (fields[i].kind == OL_FIELD_STRUCT && values[i].number != 0) {
            values[i].values = message_defaults(fields[i].fields, pool);
        }
    }
    return values;
}

#endif
