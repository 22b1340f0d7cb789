/* base/string_dictionary.c: strings in one run of bytes, with a hash of their numbers. */
#include "base/string_dictionary.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

enum { CAPACITY_FIRST = 16, BYTES_FIRST = 256 };

void ol_string_dictionary_free(ol_string_dictionary *dictionary) {
    free(dictionary->ends);
    free(dictionary->bytes);
    free(dictionary->slots);
    free(dictionary->hashes);
    uint64_t seed = dictionary->seed;
    memset(dictionary, 0, sizeof *dictionary);
    dictionary->seed = seed;
}

static int no_memory(ol_error *error) {
    return ol_fail(error, OL_NO_MEMORY, "no memory for a dictionary of strings");
}

static void fill_slots(uint32_t *slots, size_t slot_count, const uint32_t *hashes, size_t count) {
    for (size_t number = 0; number < count; number++) {
        size_t slot = hashes[number] & (slot_count - 1);
        while (slots[slot] != 0) slot = (slot + 1) & (slot_count - 1);
        slots[slot] = (uint32_t)number + 1;
    }
}

/* Reserves memory for one more string.  The arrays grow one by one, so after a failure some may be
 * larger, but nothing else has changed. */
static int grow(ol_string_dictionary *dictionary, ol_error *error) {
    size_t capacity = dictionary->capacity == 0 ? CAPACITY_FIRST : dictionary->capacity * 2;
    int64_t *ends = realloc(dictionary->ends, (capacity + 1) * sizeof *ends);
    if (ends == NULL) return no_memory(error);
    dictionary->ends = ends;
    if (dictionary->count == 0) dictionary->ends[0] = 0;
    uint32_t *hashes = realloc(dictionary->hashes, capacity * sizeof *hashes);
    if (hashes == NULL) return no_memory(error);
    dictionary->hashes = hashes;
    uint32_t *slots = calloc(capacity * 2, sizeof *slots);
    if (slots == NULL) return no_memory(error);
    fill_slots(slots, capacity * 2, hashes, dictionary->count);
    free(dictionary->slots);
    dictionary->slots = slots;
    dictionary->slot_count = capacity * 2;
    dictionary->capacity = capacity;
    return OL_OK;
}

static int grow_bytes(ol_string_dictionary *dictionary, size_t size, ol_error *error) {
    size_t used = (size_t)dictionary->ends[dictionary->count];
    if (dictionary->bytes_capacity - used >= size && dictionary->bytes != NULL) return OL_OK;
    size_t capacity = dictionary->bytes_capacity * 2 + size + BYTES_FIRST;
    uint8_t *bytes = realloc(dictionary->bytes, capacity);
    if (bytes == NULL) return no_memory(error);
    dictionary->bytes = bytes;
    dictionary->bytes_capacity = capacity;
    return OL_OK;
}

static bool find(const ol_string_dictionary *dictionary, ol_slice string, uint32_t hash,
                 size_t *slot) {
    size_t at = hash & (dictionary->slot_count - 1);
    while (dictionary->slots[at] != 0) {
        size_t number = dictionary->slots[at] - 1;
        if (dictionary->hashes[number] == hash &&
            ol_slice_equal(ol_string_dictionary_get(dictionary, number), string)) {
            *slot = at;
            return true;
        }
        at = (at + 1) & (dictionary->slot_count - 1);
    }
    *slot = at;
    return false;
}

int ol_string_dictionary_number(ol_string_dictionary *dictionary, ol_slice string, int32_t *number,
                                ol_error *error) {
    uint64_t wide = ol_hash64(string.data, string.size, dictionary->seed);
    uint32_t hash = (uint32_t)(wide ^ wide >> 32);
    size_t slot = 0;
    if (dictionary->count > 0 && find(dictionary, string, hash, &slot)) {
        *number = (int32_t)(dictionary->slots[slot] - 1);
        return OL_OK;
    }
    if (dictionary->count == INT32_MAX) {
        return ol_fail(error, OL_LIMIT, "more than 2^31 - 1 distinct strings");
    }
    if (dictionary->count == dictionary->capacity) {
        int status = grow(dictionary, error);
        if (status != OL_OK) return status;
        OL_ASSERT(!find(dictionary, string, hash, &slot));
    }
    int status = grow_bytes(dictionary, string.size, error);
    if (status != OL_OK) return status;
    size_t at = dictionary->count;
    if (string.size > 0) memcpy(dictionary->bytes + dictionary->ends[at], string.data, string.size);
    dictionary->ends[at + 1] = dictionary->ends[at] + (int64_t)string.size;
    dictionary->hashes[at] = hash;
    dictionary->slots[slot] = (uint32_t)at + 1;
    dictionary->count++;
    *number = (int32_t)at;
    return OL_OK;
}
