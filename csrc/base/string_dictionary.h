/* base/string_dictionary: distinct byte strings, numbered from 0 in the order of their first use.
 *
 * Bulk reads and writes turn a column of strings into a column of numbers with it.  Ownership: the
 * strings are copied, one after the other in Arrow's layout of a column (end positions and bytes).
 * Locks: none.
 */
#ifndef OL_BASE_STRING_DICTIONARY_H
#define OL_BASE_STRING_DICTIONARY_H

#include "base/base.h"
#include "base/status.h"

typedef struct ol_string_dictionary {
    int64_t *ends;              /* count + 1 ends: string i is [ends[i], ends[i + 1]) */
    uint8_t *bytes;
    size_t count;
    size_t capacity;
    size_t bytes_capacity;
    uint32_t *slots;            /* string number + 1, or 0 in a free slot; at most half full */
    uint32_t *hashes;           /* of each string */
    size_t slot_count;          /* a power of two */
    uint64_t seed;
} ol_string_dictionary;

/* Zeroed memory is an empty dictionary with seed 0; use a random seed for names from outside. */
void ol_string_dictionary_free(ol_string_dictionary *dictionary);

/* Sets *number to the number of a string and adds the string if it is new.  Fails with
 * OL_NO_MEMORY, or with OL_LIMIT above 2^31 - 1 strings; nothing has changed then. */
int ol_string_dictionary_number(ol_string_dictionary *dictionary, ol_slice string, int32_t *number,
                                ol_error *error) OL_NODISCARD;

static inline ol_slice ol_string_dictionary_get(const ol_string_dictionary *dictionary,
                                                size_t number) {
    int64_t start = dictionary->ends[number];
    return ol_slice_of(dictionary->bytes + start, (size_t)(dictionary->ends[number + 1] - start));
}

#endif
