/* columns/offset_rows: offset commits, and the positions of a table, as rows of a block.
 *
 * Each function puts columns of the row that is being filled.  What is put borrows nothing: strings are copied.  No locks.
 */
#ifndef OL_COLUMNS_OFFSET_ROWS_H
#define OL_COLUMNS_OFFSET_ROWS_H

#include "format/offset_record.h"
#include "columns/record_block.h"
#include "table/table.h"

/* Group, topic and partition of a key of a position. */
int ol_record_block_put_offset_key(ol_record_block *rows, const ol_key *key, ol_error *error) OL_NODISCARD;

/* What a commit says, the version of its value included; NULL: a tombstone, or no position at all. */
int ol_record_block_put_offset_value(ol_record_block *rows, const ol_offset_value *value, ol_error *error) OL_NODISCARD;

/* A whole row: a position and where its record stands. */
int ol_record_block_put_position(ol_record_block *rows, int32_t log_partition, const ol_table_row *row, ol_error *error) OL_NODISCARD;

/* Rows of a table from a cursor on, which begins zeroed: OL_OK when the block is full, OL_END behind the last.  OL_NO_MEMORY, OL_LIMIT. */
int ol_record_block_put_table(ol_record_block *rows, int32_t log_partition, const ol_table *table, ol_table_cursor *cursor, ol_error *error) OL_NODISCARD;

#endif
