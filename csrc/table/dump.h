/* table/dump: a table as bytes, and a table from bytes (docs/table.md).
 *
 * The table is position-independent, so a snapshot is the table: the bytes are those of its arenas,
 * exactly as in memory, and some numbers.  Another version of this code, another processor or
 * another hash lays them out differently; ol_table_layout detects that.
 *
 * Ownership: the arenas stay the table's.  Locks: none; the caller keeps the table from changing
 * while it reads the arenas.
 */
#ifndef OL_TABLE_DUMP_H
#define OL_TABLE_DUMP_H

#include "base/arena.h"
#include "table/table.h"

/* To be increased with every change of the arenas' contents that ol_table_layout does not detect by
 * itself. */
enum { OL_TABLE_LAYOUT_VERSION = 2 };

/* Returns a number that differs between any two layouts. */
uint64_t ol_table_layout(void);

typedef struct ol_table_section {
    const char *name;           /* lower-case letters and underscores */
    ol_arena *arena;
} ol_table_section;

enum { OL_TABLE_SECTIONS = 21, OL_TABLE_NUMBERS_SIZE = 228 * 8 };

/* Returns the name of a section, by index. */
const char *ol_table_section_name(int index);

/* Lists the arenas, always in the same order.  In a table just created they are empty, and the
 * caller fills them. */
void ol_table_sections(ol_table *table, ol_table_section sections[OL_TABLE_SECTIONS]);

void ol_table_put_numbers(const ol_table *table, uint8_t numbers[OL_TABLE_NUMBERS_SIZE]);

/* Sets the numbers of a table whose arenas are filled, without validating anything.  False: a
 * number does not fit its field. */
bool ol_table_take_numbers(ol_table *table, const uint8_t numbers[OL_TABLE_NUMBERS_SIZE]);

/* Takes a table into use after its arenas were filled: sets the numbers and validates everything
 * (table/validate/ownership.h) with `threads` threads.  `held` are the reservations that were live
 * at the dump; they are live again from now on.  After OL_CORRUPT or OL_NO_MEMORY the table can
 * only be destroyed. */
int ol_table_restore(ol_table *table, const uint8_t numbers[OL_TABLE_NUMBERS_SIZE],
                     const ol_reservation *held, size_t held_count, unsigned threads,
                     ol_error *error) OL_NODISCARD;

/* The validation alone. */
int ol_table_validate(const ol_table *table, const ol_reservation *held, size_t held_count,
                      unsigned threads, ol_error *error) OL_NODISCARD;

#endif
