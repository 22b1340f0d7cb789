/* table/dump: a table as bytes, and a table from bytes (docs/table.md: the table is position-independent, so a snapshot is the table).
 *
 * The bytes are those of its arenas, as they lie in memory, and some numbers.  They are of one layout: another version of this code, another
 * processor or another hash makes other ones, which ol_table_layout tells.  Whoever dumps keeps the table from changing for as long as the arenas are
 * read.  Locks: none in here.
 */
#ifndef OL_TABLE_DUMP_H
#define OL_TABLE_DUMP_H

#include "base/arena.h"
#include "table/table.h"

/* To be counted up with every change of what the arenas hold that ol_table_layout does not see by itself. */
enum { OL_TABLE_LAYOUT_VERSION = 1 };

/* A number that is another one where the arenas would be. */
uint64_t ol_table_layout(void);

typedef struct ol_table_section {
    const char *name;           /* lower case letters, and underscores */
    ol_arena *arena;
} ol_table_section;

enum { OL_TABLE_SECTIONS = 21, OL_TABLE_NUMBERS_SIZE = 228 * 8 };

/* The name of each, by index. */
const char *ol_table_section_name(int index);

/* The arenas, always in the same order.  Of a table just created they are empty, for the caller to fill or to let adopt a mapping. */
void ol_table_sections(ol_table *table, ol_table_section sections[OL_TABLE_SECTIONS]);

void ol_table_put_numbers(const ol_table *table, uint8_t numbers[OL_TABLE_NUMBERS_SIZE]);

/* Takes a table into use whose arenas were filled: sets the numbers and checks all of it (table/validate/ownership.h), with so many threads.  `held` are the
 * reservations that were alive when it was dumped; from now on they are again.  OL_CORRUPT: the table can only be destroyed.  OL_NO_MEMORY. */
int ol_table_restore(ol_table *table, const uint8_t numbers[OL_TABLE_NUMBERS_SIZE], const ol_reservation *held, size_t held_count,
                     unsigned threads, ol_error *error) OL_NODISCARD;

/* The second half of it. */
int ol_table_validate(const ol_table *table, const ol_reservation *held, size_t held_count, unsigned threads, ol_error *error) OL_NODISCARD;

#endif
