/* ol_numbers: a small map from 64-bit keys to 64-bit values that are not 0, for side structures of some thousand entries.
 *
 * Open addressing with backward shift: removing leaves nothing behind.  Room is made ahead, so that setting cannot fail.  It grows by
 * doubling, all at once: the table's own structures, which become large, use ol_slots.
 */
#ifndef OL_NUMBERS_H
#define OL_NUMBERS_H

#include "ol_status.h"

typedef struct ol_numbers_entry {
    uint64_t key;
    uint64_t value;             /* 0: free */
} ol_numbers_entry;

typedef struct ol_numbers {
    ol_numbers_entry *entries;
    size_t capacity;            /* a power of two, or 0 */
    size_t count;
} ol_numbers;

void ol_numbers_free(ol_numbers *numbers);
/* Room for `count` keys in all. */
int ol_numbers_reserve(ol_numbers *numbers, size_t count, ol_error *error) OL_NODISCARD;
uint64_t ol_numbers_get(const ol_numbers *numbers, uint64_t key);      /* 0: none */
void ol_numbers_set(ol_numbers *numbers, uint64_t key, uint64_t value); /* value 0 removes */

#endif
