/* columns/position_columns: committed positions as columns, for reads in bulk.
 *
 * The arrays have Arrow's layout, so Python passes them on without inspecting a row.  The columns
 * of groups and topics hold numbers of strings in dictionaries.  A block holds at most
 * OL_POSITION_COLUMNS_METADATA_MAX bytes of metadata, because the end positions of the metadata
 * strings have 32 bits.
 *
 * Ownership: the block owns its arrays.  The functions take no locks: while rows are appended, the
 * caller holds the lock that keeps the rows of the table in place.  If a row cannot be appended,
 * the block keeps the rows before it.
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
    int32_t *metadata_ends;     /* count + 1 of them; the first is 0 */
    uint8_t *metadata;
    size_t metadata_capacity;
    uint8_t *topic_ids;         /* 16 bytes for each row; NULL while no row has a topic id */
    uint8_t *topic_id_valid;    /* a bitmap, lowest bit first */
    size_t topic_id_count;      /* rows with a topic id */
    ol_string_dictionary group_names;
    ol_string_dictionary topic_names;
    /* addresses of the last row's strings in the table: equal addresses mean equal strings */
    const uint8_t *last_group;
    const uint8_t *last_topic;
    size_t last_group_size;
    size_t last_topic_size;
    int32_t last_group_number;
    int32_t last_topic_number;
} ol_position_columns;

/* Zeroed memory is an empty block. */
void ol_position_columns_free(ol_position_columns *columns);

/* Reserves memory for `count` more rows in every array except the metadata.  Fails with
 * OL_NO_MEMORY. */
int ol_position_columns_reserve(ol_position_columns *columns, size_t count, ol_error *error)
    OL_NODISCARD;

/* Appends a row.  Fails with OL_NO_MEMORY, or with OL_LIMIT if the row's metadata does not fit the
 * block; the caller then puts the row into another block. */
int ol_position_columns_append(ol_position_columns *columns, int32_t log_partition,
                               const ol_table_row *row, ol_error *error) OL_NODISCARD;

/* Drops the addresses of the table's strings.  The caller calls it before each release of the table
 * lock, because the strings may be freed or moved once the lock is released. */
void ol_position_columns_release(ol_position_columns *columns);

/* Append every position of a table, or of one group, from the cursor on.  A zeroed cursor is at the
 * first position.  They fail with OL_NO_MEMORY, or with OL_LIMIT if the metadata of a row does not
 * fit the block.  After a failure the cursor is at the row that was not appended, so the caller can
 * continue with another block.  The caller holds the table lock from the first call to the last. */
int ol_position_columns_append_table(ol_position_columns *columns, int32_t log_partition,
                                     const ol_table *table, ol_table_cursor *cursor,
                                     ol_error *error) OL_NODISCARD;
int ol_position_columns_append_group(ol_position_columns *columns, int32_t log_partition,
                                     const ol_table *table, ol_slice group,
                                     ol_table_cursor *cursor, ol_error *error) OL_NODISCARD;

#endif
