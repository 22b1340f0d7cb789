/* columns/offset_rows: puts offset commits and the positions of a table into the rows of a block.
 *
 * The functions copy strings into the block, so a row does not point into the memory of its record.
 * A function that fails returns OL_NO_MEMORY, or OL_LIMIT if the strings do not fit the block
 * (columns/record_block).  The functions take no locks.
 */
#ifndef OL_COLUMNS_OFFSET_ROWS_H
#define OL_COLUMNS_OFFSET_ROWS_H

#include "format/offset_record.h"
#include "columns/record_block.h"
#include "table/table.h"

/* Puts the group, topic and partition of a position's key into the current row. */
int ol_record_block_put_offset_key(ol_record_block *block, const ol_key *key, ol_error *error)
    OL_NODISCARD;

/* Puts the fields of a commit and the version of its value into the current row.  For a tombstone,
 * and for a record that is not a position, `value` is NULL; these columns of the row are then
 * null. */
int ol_record_block_put_offset_value(ol_record_block *block, const ol_offset_value *value,
                                     ol_error *error) OL_NODISCARD;

/* Puts a whole row into the block: a position, with the log partition and the log offset of its
 * record. */
int ol_record_block_put_position(ol_record_block *block, int32_t log_partition,
                                 const ol_table_row *row, ol_error *error) OL_NODISCARD;

/* Puts rows of a table into the block, beginning at the cursor.  The caller zeroes the cursor
 * before the first call.  Returns OL_OK when the next row may not fit the block, and OL_END after
 * the last row of the table. */
int ol_record_block_put_table(ol_record_block *block, int32_t log_partition, const ol_table *table,
                              ol_table_cursor *cursor, ol_error *error) OL_NODISCARD;

#endif
