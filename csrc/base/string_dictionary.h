/* base/string_dictionary: distinct byte strings, numbered from 0 in the order in which they were first seen.
 *
 * For bulk reads and writes: a column of strings becomes a column of numbers.  The strings are copied and lie behind one another, as Arrow lays
 * out a column of strings (end positions and bytes).  No locks.
 */
#ifndef OL_BASE_STRING_DICTIONARY_H
#define OL_BASE_STRING_DICTIONARY_H

#include "base/base.h"
#include "base/status.h"

typedef struct ol_string_dictionary {
    int64_t *ends;              /* ends[i] is where string i - 1 ends: count + 1 of them, ends[0] is 0 */
    uint8_t *bytes;
    size_t count;
    size_t capacity;
    size_t bytes_capacity;
    uint32_t *slots;            /* number + 1, 0 empty; a power of two, at most half full */
    uint32_t *hashes;           /* of each string */
    size_t slot_count;
    uint64_t seed;
} ol_string_dictionary;

/* Zeroed memory is an empty dictionary with a seed of 0; names from outside deserve a random one. */
void ol_string_dictionary_free(ol_string_dictionary *dictionary);

/* The number of a string, which is added when it is new.  OL_NO_MEMORY, or OL_LIMIT beyond 2^31 - 1 strings: nothing changed. */
int ol_string_dictionary_number(ol_string_dictionary *dictionary, ol_slice string, int32_t *number, ol_error *error) OL_NODISCARD;

static inline ol_slice ol_string_dictionary_get(const ol_string_dictionary *dictionary, size_t number) {
    int64_t start = dictionary->ends[number];
    return ol_slice_of(dictionary->bytes + start, (size_t)(dictionary->ends[number + 1] - start));
}

#endif
