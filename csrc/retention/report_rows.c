/* A growing array of rows. */
#include "retention/report_rows.h"

#include <stdlib.h>
#include <string.h>

void ol_expiring_rows_free(ol_expiring_rows *rows) {
    free(rows->rows);
    ol_string_dictionary_free(&rows->group_names);
    ol_string_dictionary_free(&rows->topic_names);
    memset(rows, 0, sizeof *rows);
}

static int grow(ol_expiring_rows *rows, ol_error *error) {
    if (rows->count < rows->capacity) return OL_OK;
    size_t capacity = rows->capacity + rows->capacity / 2 + 256;
    ol_expiring_row *moved = realloc(rows->rows, capacity * sizeof *moved);
    if (moved == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu expiring positions", capacity);
    }
    rows->rows = moved;
    rows->capacity = capacity;
    return OL_OK;
}

int ol_expiring_rows_append(ol_expiring_rows *rows, ol_slice group, ol_slice topic,
                            const ol_expiring_row *row, ol_error *error) {
    int32_t group_number, topic_number = -1;
    int status = grow(rows, error);
    if (status == OL_OK) {
        status = ol_string_dictionary_number(&rows->group_names, group, &group_number, error);
    }
    if (status == OL_OK && row->base != OL_EXPIRY_GROUP) {
        status = ol_string_dictionary_number(&rows->topic_names, topic, &topic_number, error);
    }
    if (status != OL_OK) return status;
    ol_expiring_row *appended = &rows->rows[rows->count++];
    *appended = *row;
    appended->group = group_number;
    appended->topic = topic_number;
    return OL_OK;
}
