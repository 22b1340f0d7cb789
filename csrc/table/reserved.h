/* table/reserved: the names and numbers of a table's reservations, for state/pending.
 *
 * The names and numbers stay the same as long as the reservation exists.  For slices and locks, the
 * rules of table/table apply. */
#ifndef OL_TABLE_RESERVED_H
#define OL_TABLE_RESERVED_H

#include "table/table.h"

/* Returns the number of a (group, topic), which is the same as in ol_reservation.pair.  Returns 0
 * if the table does not have the pair. */
uint32_t ol_table_pair_number(const ol_table *table, const ol_pair_name *name);

/* Sets *number to a number of the group that is the same for all its reservations.  Returns false
 * if the table does not have the group. */
bool ol_table_group_number(const ol_table *table, ol_slice group, uint64_t group_hash,
                           uint32_t *number);
uint32_t ol_table_reserved_group(const ol_table *table, const ol_reservation *reservation);

/* Returns whether a tombstone at or above `log_offset` was applied to the cell while the cell had a
 * reservation (docs/format/traps.md trap 15). */
bool ol_table_reserved_erased(const ol_table *table, const ol_reservation *reservation,
                              int64_t log_offset);
/* Returns whether ol_table_install_if_newer would install now. */
bool ol_table_reserved_newer(const ol_table *table, const ol_reservation *reservation,
                             int64_t log_offset);

/* Completes a row in which the caller has set the offset, the log offset, the commit timestamp and
 * the leader epoch.  The function adds the names, the metadata, the topic id and the expire
 * timestamp of the reservation. */
void ol_table_reserved_row(const ol_table *table, const ol_reservation *reservation,
                           ol_table_row *row);

#endif
