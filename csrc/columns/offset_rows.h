/* columns/offset_rows: offset commits, and the positions of a table, as rows of a block.
 *
 * Strings are copied, so a row borrows nothing.  A function that fails returns OL_NO_MEMORY, or
 * OL_LIMIT if the strings do not fit the block (columns/record_block).  Locks: none.
 */
#ifndef OL_COLUMNS_OFFSET_ROWS_H
#define OL_COLUMNS_OFFSET_ROWS_H

#include "format/offset_record.h"
#include "columns/record_block.h"
#include "table/table.h"

/* Puts the group, topic and partition of a position's key into the current row. */
int ol_record_block_put_offset_key(ol_record_block *block, const ol_key *key, ol_error *error)
    OL_NODISCARD;

/* Puts the fields of a commit and the version of its value into the current row.  If `value` is
 * NULL, for a tombstone or a record that is not a position, they become null. */
int ol_record_block_put_offset_value(ol_record_block *block, const ol_offset_value *value,
                                     ol_error *error) OL_NODISCARD;

/* Puts a whole row: a position, and the log partition and log offset of its record. */
int ol_record_block_put_position(ol_record_block *block, int32_t log_partition,
                                 const ol_table_row *row, ol_error *error) OL_NODISCARD;

/* Puts rows of a table, beginning at a cursor that is zeroed at first.  Returns OL_OK when the next
 * row may not fit the block, OL_END after the last row. */
int ol_record_block_put_table(ol_record_block *block, int32_t log_partition, const ol_table *table,
                              ol_table_cursor *cursor, ol_error *error) OL_NODISCARD;

#endif
