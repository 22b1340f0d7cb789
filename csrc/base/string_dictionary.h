/* base/string_dictionary: distinct byte strings, numbered from 0 in the order of their first use.
 *
 * Bulk reads and writes use a dictionary to turn a column of strings into a column of numbers.
 * Ownership: the dictionary owns copies of the strings.  They have Arrow's layout of a column: an
 * array of bytes, with the strings one after the other, and an array of end positions.  The
 * dictionary takes no locks.
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
    uint32_t *slots;            /* string number + 1, or 0 if free; at most half are used */
    uint32_t *hashes;           /* of each string */
    size_t slot_count;          /* a power of two */
    uint64_t seed;
} ol_string_dictionary;

/* Zeroed memory is an empty dictionary with seed 0.  If the strings come from outside the process,
 * use a random seed. */
void ol_string_dictionary_free(ol_string_dictionary *dictionary);

/* Sets *number to the number of a string and adds the string if it is new.  Fails with
 * OL_NO_MEMORY, or with OL_LIMIT if the dictionary would have more than 2^31 - 1 strings.  After a
 * failure the dictionary is unchanged. */
int ol_string_dictionary_number(ol_string_dictionary *dictionary, ol_slice string, int32_t *number,
                                ol_error *error) OL_NODISCARD;

static inline ol_slice ol_string_dictionary_get(const ol_string_dictionary *dictionary,
                                                size_t number) {
    int64_t start = dictionary->ends[number];
    return ol_slice_of(dictionary->bytes + start, (size_t)(dictionary->ends[number + 1] - start));
}

#endif
