/* retention/report_rows: the rows of a report of expiring positions, with their times and reasons.
 *
 * The caller owns the rows.  The functions take no locks. */
#ifndef OL_RETENTION_REPORT_ROWS_H
#define OL_RETENTION_REPORT_ROWS_H

#include "base/string_dictionary.h"
#include "retention/expiry_rule.h"
#include "retention/group_rules.h"

/* All rows have the same size.  One field of all rows can therefore be read as a column whose
 * stride is the size of a row. */
typedef struct ol_expiring_row {
    int64_t at_ms;              /* -1: unknown, as for a group without positions */
    int64_t base_ms;            /* -1: unknown, as for a group without positions */
    int64_t retention_ms;
    int64_t offset;             /* -1 for a group */
    int64_t log_offset;         /* -1 for a group */
    int32_t group;              /* index into group_names */
    int32_t topic;              /* index into topic_names; -1 for a group */
    int32_t partition;          /* -1 for a group */
    int32_t rule;               /* ol_retention.rule */
    int32_t log_partition;
    int32_t base;               /* ol_expiry_base */
} ol_expiring_row;

_Static_assert(sizeof(ol_expiring_row) == 64, "no padding; the columns' strides depend on it");

typedef struct ol_expiring_rows {
    ol_expiring_row *rows;
    size_t count;
    size_t capacity;
    ol_string_dictionary group_names;
    ol_string_dictionary topic_names;
} ol_expiring_rows;

/* Zeroed memory is an empty list. */
void ol_expiring_rows_free(ol_expiring_rows *rows);

/* Appends a copy of *row and sets the copy's indices of the group and of the topic.  In the row of
 * a group (OL_EXPIRY_GROUP) the topic is -1.  If the call fails with OL_NO_MEMORY or OL_LIMIT, it
 * has appended nothing. */
int ol_expiring_rows_append(ol_expiring_rows *rows, ol_slice group, ol_slice topic,
                            const ol_expiring_row *row, ol_error *error) OL_NODISCARD;

#endif
