/* table/dump: converts a table to bytes, and bytes to a table (docs/table.md).
 *
 * A table contains no addresses, so a snapshot can contain the table as it is in memory.  It
 * contains the bytes of the table's arenas, and the other fields of the table, which are called its
 * numbers.
 * Another version of this code, another processor or another hash function may use a different
 * layout.  ol_table_layout detects this.
 *
 * Ownership: the arenas still belong to the table.  The functions take no lock.  While the caller
 * reads the arenas, it must make sure that the table does not change. */
#ifndef OL_TABLE_DUMP_H
#define OL_TABLE_DUMP_H

#include "base/arena.h"
#include "table/table.h"

/* Must be increased with every change to the contents of the arenas that ol_table_layout does not
 * detect by itself. */
enum { OL_TABLE_LAYOUT_VERSION = 2 };

/* Returns a number that identifies the layout.  Two different layouts have different numbers. */
uint64_t ol_table_layout(void);

typedef struct ol_table_section {
    const char *name;           /* lower-case letters and underscores */
    ol_arena *arena;
} ol_table_section;

enum { OL_TABLE_SECTIONS = 21, OL_TABLE_NUMBERS_SIZE = 228 * 8 };

/* Returns the name of the section with this index. */
const char *ol_table_section_name(int index);

/* Lists the arenas of a table, always in the same order.  The arenas of a new table are empty, and
 * the caller fills them. */
void ol_table_sections(ol_table *table, ol_table_section sections[OL_TABLE_SECTIONS]);

void ol_table_put_numbers(const ol_table *table, uint8_t numbers[OL_TABLE_NUMBERS_SIZE]);

/* Sets the numbers of a table whose arenas the caller has filled.  It validates nothing.  Returns
 * false if a number does not fit its field. */
bool ol_table_take_numbers(ol_table *table, const uint8_t numbers[OL_TABLE_NUMBERS_SIZE]);

/* Makes a table usable after the caller has filled its arenas.  It sets the numbers, and validates
 * everything (table/validate/ownership.h) with `threads` threads.  `held` are the reservations that
 * existed when the table was dumped, and they exist again from now on.  After OL_CORRUPT or
 * OL_NO_MEMORY the table can only be destroyed. */
int ol_table_restore(ol_table *table, const uint8_t numbers[OL_TABLE_NUMBERS_SIZE],
                     const ol_reservation *held, size_t held_count, unsigned threads,
                     ol_error *error) OL_NODISCARD;

/* The validation alone. */
int ol_table_validate(const ol_table *table, const ol_reservation *held, size_t held_count,
                      unsigned threads, ol_error *error) OL_NODISCARD;

#endif
