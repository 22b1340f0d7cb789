/* table/reserved: the names and numbers of a table's reservations, for state/pending.
 *
 * Names and numbers stay the same while the reservation lives.  Slices are borrowed, and locks are
 * held, as in table/table.
 */
#ifndef OL_TABLE_RESERVED_H
#define OL_TABLE_RESERVED_H

#include "table/table.h"

/* Returns the number of a (group, topic) as in ol_reservation.pair; 0 when the table does not have
 * it. */
uint32_t ol_table_pair_number(const ol_table *table, const ol_pair_name *name);

/* Finds a number of a group, the same for all its reservations.  False when the table does not have
 * the group. */
bool ol_table_group_number(const ol_table *table, ol_slice group, uint64_t group_hash,
                           uint32_t *number);
uint32_t ol_table_reserved_group(const ol_table *table, const ol_reservation *reservation);

/* Returns whether a tombstone at or above `log_offset` was applied to the cell while it was pinned
 * (docs/format/traps.md trap 15). */
bool ol_table_reserved_erased(const ol_table *table, const ol_reservation *reservation,
                              int64_t log_offset);
/* Returns whether ol_table_install_if_newer would install now. */
bool ol_table_reserved_newer(const ol_table *table, const ol_reservation *reservation,
                             int64_t log_offset);

/* Completes a row whose value holds the plain fields: fills in the names, metadata, topic id and
 * expire timestamp of the reservation. */
void ol_table_reserved_row(const ol_table *table, const ol_reservation *reservation,
                           ol_table_row *row);

#endif
