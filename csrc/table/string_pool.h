/* table/string_pool: byte strings of up to 32,767 bytes.  Equal strings are stored once and have a
 * reference count.
 *
 * The number of a string is its position in one arena, in units of 4 bytes.  A number has 30 bits,
 * so an arena can have 4 GiB.  Before the bytes of a string there are 6 bytes with its reference
 * count and its length.  A string can also have a topic id (16 bytes); two strings with the same
 * bytes but different topic ids are different strings.  This way, the pairs of a topic share one
 * topic id.  The empty string without a topic id has the number 0 and takes no space.  A string
 * never moves while it has references.  The space of a freed string is used again for a string of
 * the same size.
 *
 * Ownership: each number that an owner holds counts as one reference.  The functions take no lock.
 * A call that fails changes nothing. */
#ifndef OL_TABLE_STRING_POOL_H
#define OL_TABLE_STRING_POOL_H

#include <string.h>

#include "base/bytes.h"
#include "table/hash_index.h"

enum {
    OL_STRING_NUMBER_BITS = 30,
    OL_STRING_NUMBER_MAX = (1 << OL_STRING_NUMBER_BITS) - 2,
    OL_STRING_BYTES_MAX = 32767,
    OL_STRING_ID_SIZE = 16,
    OL_STRING_UNIT_SIZE = 4,
    OL_STRING_HEADER_SIZE = 6,
};

typedef struct ol_string_pool {
    ol_arena arena;
    ol_arena free_lists;        /* for each size in units: the number of the first free string */
    ol_hash_index hash_index;             /* strings that ol_string_pool_intern can find */
    uint64_t seed;
    uint64_t count;             /* strings, each once */
    uint64_t bytes;  /* total size of these strings, with topic ids and without headers */
    uint64_t free_bytes;        /* of freed strings */
} ol_string_pool;

void ol_string_pool_init(ol_string_pool *string_pool, uint64_t seed);
void ol_string_pool_free_all(ol_string_pool *string_pool);

/* Sets *number to the number of the string with these bytes and this topic id (16 bytes; NULL:
 * none).  Stores the string if it does not exist yet.  Adds one reference to the string.  Fails
 * with OL_NO_MEMORY, OL_LIMIT (the arena is full) or OL_TOO_LARGE. */
int ol_string_pool_intern(ol_string_pool *string_pool, ol_slice bytes, const uint8_t *topic_id,
                          uint32_t *number, ol_error *error) OL_NODISCARD;
/* Stores a separate string with one reference.  ol_string_pool_intern does not find it.  The
 * function is for owners that have an index of their own. */
int ol_string_pool_add(ol_string_pool *string_pool, ol_slice bytes, uint32_t *number,
                       ol_error *error) OL_NODISCARD;
void ol_string_pool_retain(ol_string_pool *string_pool, uint32_t number);
void ol_string_pool_release(ol_string_pool *string_pool, uint32_t number);

uint64_t ol_string_pool_resident(const ol_string_pool *string_pool);
uint64_t ol_string_pool_unused(const ol_string_pool *string_pool);

/* Asserts every invariant except the reference counts.  Copies each reference count to
 * `references`, at the number of its string, so that the owner can compare the counts with its own.
 * `references` has arena.used / 4 elements. */
void ol_string_pool_verify(const ol_string_pool *string_pool, uint32_t *references);

/* Validates strings that came from a file, but not the reference counts.  To check these, sets
 * *references to the sum of the marks of all strings (table/validate/ownership.h), each multiplied
 * by the string's reference count.  The owner compares this sum with that of the strings it uses.
 * A string whose number came from a file may be read only if ol_string_pool_is_within says that it
 * is within the arena. */
int ol_string_pool_validate(const ol_string_pool *string_pool, uint64_t key, uint64_t *references,
                            ol_error *error) OL_NODISCARD;
bool ol_string_pool_is_within(const ol_string_pool *string_pool, uint32_t number);

/* -------------------------------------------------------------------------------------- reading */

static inline const uint8_t *ol_string_pool_record(const ol_string_pool *string_pool,
                                                   uint32_t number) {
    return string_pool->arena.base + (size_t)number * OL_STRING_UNIT_SIZE;
}

static inline uint16_t ol_string_pool_length_field(const uint8_t *record) {
    uint16_t field;
    memcpy(&field, record + sizeof(uint32_t), sizeof field);
    return field;
}

/* Returns the bytes of the string without the topic id.  The data of the slice is never NULL. */
static inline ol_slice ol_string_pool_get(const ol_string_pool *string_pool, uint32_t number) {
    if (number == 0) return ol_slice_of("", 0);
    const uint8_t *record = ol_string_pool_record(string_pool, number);
    uint16_t field = ol_string_pool_length_field(record);
    size_t id_size = field >> 15 ? OL_STRING_ID_SIZE : 0;
    return ol_slice_of(record + OL_STRING_HEADER_SIZE + id_size, field & OL_STRING_BYTES_MAX);
}

/* Returns the string's topic id, or NULL. */
static inline const uint8_t *ol_string_pool_topic_id(const ol_string_pool *string_pool,
                                                     uint32_t number) {
    if (number == 0) return NULL;
    const uint8_t *record = ol_string_pool_record(string_pool, number);
    return ol_string_pool_length_field(record) >> 15 ? record + OL_STRING_HEADER_SIZE : NULL;
}

static inline bool ol_string_pool_equal(const ol_string_pool *string_pool, uint32_t number,
                                        ol_slice bytes) {
    return ol_slice_equal(ol_string_pool_get(string_pool, number), bytes);
}

static inline void ol_string_pool_prefetch(const ol_string_pool *string_pool, uint32_t number) {
    __builtin_prefetch(ol_string_pool_record(string_pool, number));
}

#endif
