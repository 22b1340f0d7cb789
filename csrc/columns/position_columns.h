/* columns/position_columns: committed positions as columns, for reads in bulk.
 *
 * The arrays lie as Arrow wants them, so that Python hands them on without looking at a row.  Groups and topics are numbers into
 * dictionaries.  A block holds at most OL_POSITION_COLUMNS_METADATA_MAX bytes of metadata, since its end positions have 32 bits.  No locks:
 * the owner holds what keeps the rows alive while they are appended.
 */
#ifndef OL_COLUMNS_POSITION_COLUMNS_H
#define OL_COLUMNS_POSITION_COLUMNS_H

#include "base/string_dictionary.h"
#include "table/table.h"

#define OL_POSITION_COLUMNS_METADATA_MAX ((size_t)1 << 30)

typedef struct ol_position_columns {
    size_t count;
    size_t capacity;
    int32_t *groups;            /* numbers into group_names */
    int32_t *topics;            /* numbers into topic_names */
    int32_t *partitions;
    int64_t *offsets;
    int32_t *leader_epochs;
    int64_t *commit_timestamps;
    int64_t *expire_timestamps;
    int32_t *log_partitions;
    int64_t *log_offsets;
    int32_t *metadata_ends;     /* count + 1, the first is 0 */
    uint8_t *metadata;
    size_t metadata_capacity;
    uint8_t *topic_ids;         /* 16 bytes a row; NULL as long as no row has one */
    uint8_t *topic_id_valid;    /* a bitmap, lowest bit first */
    size_t topic_id_count;      /* rows that have one */
    ol_string_dictionary group_names;
    ol_string_dictionary topic_names;
    const uint8_t *last_group;  /* where the last row's strings lay in the table: equal places, equal strings */
    const uint8_t *last_topic;
    size_t last_group_size;
    size_t last_topic_size;
    int32_t last_group_number;
    int32_t last_topic_number;
} ol_position_columns;

/* Zeroed memory is an empty block. */
void ol_position_columns_free(ol_position_columns *columns);

/* Room for `count` more rows in every array but the metadata. */
int ol_position_columns_reserve(ol_position_columns *columns, size_t count, ol_error *error) OL_NODISCARD;

/* Appends a row.  OL_LIMIT when the block's metadata is full (begin another block), OL_NO_MEMORY; nothing is appended then. */
int ol_position_columns_append(ol_position_columns *columns, int32_t log_partition, const ol_table_row *row, ol_error *error) OL_NODISCARD;

/* To be called when the strings of the rows so far may have been freed or moved: at the end of a hold of the table's lock. */
void ol_position_columns_release(ol_position_columns *columns);

/* Every position of a table, or of one group. */
int ol_position_columns_append_table(ol_position_columns *columns, int32_t log_partition, const ol_table *table, ol_table_cursor *cursor,
                            ol_error *error) OL_NODISCARD;
int ol_position_columns_append_group(ol_position_columns *columns, int32_t log_partition, const ol_table *table, ol_slice group, ol_error *error)
    OL_NODISCARD;

#endif
