/* table/string_pool.c: keeps the strings in one arena and the freed ones in lists by size, and
 * stores equal strings once. */
#include "table/string_pool.h"

#include "base/hash.h"
#include "table/validate/ownership.h"

/* The top bit of the reference count marks a string that is not interned; the top bit of the length
 * marks a topic id before the bytes.  A free string keeps its length, and its count is the number
 * of the next free one. */
#define NOT_INTERNED 0x80000000u
#define WITH_ID 0x8000u

static uint32_t size_in_units(size_t bytes, bool with_id) {
    size_t size = OL_STRING_HEADER_SIZE + (with_id ? OL_STRING_ID_SIZE : 0) + bytes;
    return (uint32_t)((size + OL_STRING_UNIT_SIZE - 1) / OL_STRING_UNIT_SIZE);
}

static uint32_t record_units(const uint8_t *record) {
    uint16_t field = ol_string_pool_length_field(record);
    return size_in_units(field & OL_STRING_BYTES_MAX, field >> 15);
}

/* Records begin at multiples of four bytes. */
static uint32_t *count_of(const ol_string_pool *string_pool, uint32_t number) {
    return (uint32_t *)(string_pool->arena.base + (size_t)number * OL_STRING_UNIT_SIZE);
}

static uint64_t hash_bytes(const ol_string_pool *string_pool, ol_slice bytes,
                           const uint8_t *topic_id) {
    uint64_t hash = ol_hash64(bytes.data, bytes.size, string_pool->seed);
    if (topic_id != NULL) {
        hash = ol_hash64_mix(hash, ol_hash64(topic_id, OL_STRING_ID_SIZE, string_pool->seed));
    }
    return hash;
}

static uint64_t hash_of(const void *owner, uint32_t number) {
    const ol_string_pool *string_pool = owner;
    return hash_bytes(string_pool, ol_string_pool_get(string_pool, number),
                      ol_string_pool_topic_id(string_pool, number));
}

static void prefetch(const void *owner, uint32_t number, int round) {
    if (round == 0) ol_string_pool_prefetch(owner, number);
}

static const ol_hash_index_items string_items = {hash_of, prefetch};

void ol_string_pool_init(ol_string_pool *string_pool, uint64_t seed) {
    memset(string_pool, 0, sizeof *string_pool);
    string_pool->seed = seed;
    ol_hash_index_init(&string_pool->hash_index, OL_STRING_NUMBER_BITS, &string_items, string_pool);
}

void ol_string_pool_free_all(ol_string_pool *string_pool) {
    ol_arena_free(&string_pool->arena);
    ol_arena_free(&string_pool->free_lists);
    ol_hash_index_free(&string_pool->hash_index);
}

static uint32_t *free_list(const ol_string_pool *string_pool, uint32_t units) {
    return (uint32_t *)string_pool->free_lists.base + units;
}

/* Allocates a record.  The head of its size's free list is made now, because freeing must not
 * fail. */
static int allocate(ol_string_pool *string_pool, uint32_t units, uint32_t *number,
                    ol_error *error) {
    size_t lists_size = ((size_t)units + 1) * sizeof(uint32_t);
    if (string_pool->free_lists.used < lists_size) {
        int status = ol_arena_extend(&string_pool->free_lists,
                                     lists_size - string_pool->free_lists.used, error);
        if (status != OL_OK) return status;
    }
    uint32_t *list = free_list(string_pool, units);
    if (*list != 0) {
        *number = *list;
        *list = *count_of(string_pool, *number);
        string_pool->free_bytes -= (uint64_t)units * OL_STRING_UNIT_SIZE;
        return OL_OK;
    }
    /* Unit 0 stays unused: number 0 is the empty string. */
    size_t first = string_pool->arena.used == 0 ? 1 : string_pool->arena.used / OL_STRING_UNIT_SIZE;
    size_t end = first + units;
    if (end > OL_STRING_NUMBER_MAX) {
        return ol_fail(error, OL_LIMIT, "the table's strings have reached their limit of 4 GiB");
    }
    int status = ol_arena_extend(&string_pool->arena,
                                 end * OL_STRING_UNIT_SIZE - string_pool->arena.used, error);
    if (status != OL_OK) return status;
    *number = (uint32_t)first;
    return OL_OK;
}

static int create(ol_string_pool *string_pool, ol_slice bytes, const uint8_t *topic_id,
                  uint32_t count, uint32_t *number, ol_error *error) {
    uint32_t units = size_in_units(bytes.size, topic_id != NULL);
    /* The bytes may be borrowed from this arena, which `allocate` can move. */
    uintptr_t place = (uintptr_t)bytes.data - (uintptr_t)string_pool->arena.base;
    bool borrowed = bytes.data != NULL && place < string_pool->arena.used;
    int status = allocate(string_pool, units, number, error);
    if (status != OL_OK) return status;
    if (borrowed) bytes.data = string_pool->arena.base + place;
    uint8_t *record = (uint8_t *)count_of(string_pool, *number);
    uint16_t field = (uint16_t)(bytes.size | (topic_id != NULL ? WITH_ID : 0));
    memcpy(record, &count, sizeof count);
    memcpy(record + sizeof count, &field, sizeof field);
    record += OL_STRING_HEADER_SIZE;
    if (topic_id != NULL) {
        memcpy(record, topic_id, OL_STRING_ID_SIZE);
        record += OL_STRING_ID_SIZE;
        string_pool->bytes += OL_STRING_ID_SIZE;
    }
    if (bytes.size != 0) memcpy(record, bytes.data, bytes.size);
    string_pool->bytes += bytes.size;
    string_pool->count++;
    return OL_OK;
}

static bool same_id(const uint8_t *a, const uint8_t *b) {
    if (a == NULL || b == NULL) return a == b;
    return memcmp(a, b, OL_STRING_ID_SIZE) == 0;
}

int ol_string_pool_intern(ol_string_pool *string_pool, ol_slice bytes, const uint8_t *topic_id,
                          uint32_t *number, ol_error *error) {
    *number = 0;
    if (bytes.size == 0 && topic_id == NULL) return OL_OK;
    if (bytes.size > OL_STRING_BYTES_MAX) {
        return ol_fail(error, OL_TOO_LARGE, "a string of %zu bytes is too long", bytes.size);
    }
    uint64_t hash = hash_bytes(string_pool, bytes, topic_id);
    ol_hash_index_probe probe = ol_hash_index_probe_begin(&string_pool->hash_index, hash);
    for (uint32_t candidate; (candidate = ol_hash_index_probe_next(&probe)) != 0;) {
        if (!ol_string_pool_equal(string_pool, candidate, bytes)) continue;
        if (!same_id(ol_string_pool_topic_id(string_pool, candidate), topic_id)) continue;
        ol_string_pool_retain(string_pool, candidate);
        *number = candidate;
        return OL_OK;
    }
    int status = ol_hash_index_reserve(&string_pool->hash_index, hash, error);
    if (status != OL_OK) return status;
    status = create(string_pool, bytes, topic_id, 1, number, error);
    if (status != OL_OK) return status;
    ol_hash_index_insert(&string_pool->hash_index, hash, *number);
    return OL_OK;
}

int ol_string_pool_add(ol_string_pool *string_pool, ol_slice bytes, uint32_t *number,
                       ol_error *error) {
    *number = 0;
    if (bytes.size == 0) return OL_OK;
    if (bytes.size > OL_STRING_BYTES_MAX) {
        return ol_fail(error, OL_TOO_LARGE, "a string of %zu bytes is too long", bytes.size);
    }
    return create(string_pool, bytes, NULL, NOT_INTERNED | 1, number, error);
}

void ol_string_pool_retain(ol_string_pool *string_pool, uint32_t number) {
    if (number == 0) return;
    uint32_t *count = count_of(string_pool, number);
    OL_ASSERT((*count & ~NOT_INTERNED) != 0 && (*count & ~NOT_INTERNED) != (NOT_INTERNED - 1));
    ++*count;
}

void ol_string_pool_release(ol_string_pool *string_pool, uint32_t number) {
    if (number == 0) return;
    uint32_t *count = count_of(string_pool, number);
    OL_ASSERT((*count & ~NOT_INTERNED) != 0);
    if ((--*count & ~NOT_INTERNED) != 0) return;
    if (!(*count & NOT_INTERNED)) {
        ol_hash_index_remove(&string_pool->hash_index, hash_of(string_pool, number), number);
    }
    const uint8_t *record = ol_string_pool_record(string_pool, number);
    uint32_t units = record_units(record);
    uint16_t field = ol_string_pool_length_field(record);
    string_pool->count--;
    string_pool->bytes -= (field & OL_STRING_BYTES_MAX) + (field >> 15 ? OL_STRING_ID_SIZE : 0u);
    string_pool->free_bytes += (uint64_t)units * OL_STRING_UNIT_SIZE;
    *count = *free_list(string_pool, units);
    *free_list(string_pool, units) = number;
}

uint64_t ol_string_pool_resident(const ol_string_pool *string_pool) {
    return ol_arena_resident(&string_pool->arena) + ol_arena_resident(&string_pool->free_lists) +
           ol_hash_index_resident(&string_pool->hash_index);
}

uint64_t ol_string_pool_unused(const ol_string_pool *string_pool) {
    return string_pool->free_bytes + ol_hash_index_unused(&string_pool->hash_index);
}

void ol_string_pool_verify(const ol_string_pool *string_pool, uint32_t *references) {
    const uint32_t is_free = UINT32_MAX;
    uint32_t unit_count = (uint32_t)(string_pool->arena.used / OL_STRING_UNIT_SIZE);
    uint64_t free_bytes = 0, count = 0, bytes = 0, interned = 0;
    memset(references, 0, string_pool->arena.used);
    for (uint32_t units = 0; units < string_pool->free_lists.used / sizeof(uint32_t); units++) {
        for (uint32_t number = *free_list(string_pool, units); number != 0;
             number = *count_of(string_pool, number)) {
            OL_ASSERT(number < unit_count && references[number] == 0);
            OL_ASSERT(record_units(ol_string_pool_record(string_pool, number)) == units);
            references[number] = is_free;
            free_bytes += (uint64_t)units * OL_STRING_UNIT_SIZE;
        }
    }
    uint32_t number = unit_count == 0 ? 0 : 1;
    while (number < unit_count) {
        const uint8_t *record = ol_string_pool_record(string_pool, number);
        if (references[number] == is_free) {
            references[number] = 0;
        } else {
            uint16_t field = ol_string_pool_length_field(record);
            references[number] = *count_of(string_pool, number) & ~NOT_INTERNED;
            OL_ASSERT(references[number] != 0);
            interned += !(*count_of(string_pool, number) & NOT_INTERNED);
            bytes += (field & OL_STRING_BYTES_MAX) + (field >> 15 ? OL_STRING_ID_SIZE : 0u);
            count++;
        }
        number += record_units(record);
    }
    OL_ASSERT(number == unit_count);
    OL_ASSERT(free_bytes == string_pool->free_bytes && count == string_pool->count &&
              bytes == string_pool->bytes);
    OL_ASSERT(interned == string_pool->hash_index.count);
    ol_hash_index_verify(&string_pool->hash_index);
}

/* ----------------------------------------------------------------------------------- validation */

bool ol_string_pool_is_within(const ol_string_pool *string_pool, uint32_t number) {
    size_t at = (size_t)number * OL_STRING_UNIT_SIZE, used = string_pool->arena.used;
    if (number == 0) return true;
    if (at >= used || used - at < OL_STRING_HEADER_SIZE) return false;
    return used - at >=
           (size_t)record_units(ol_string_pool_record(string_pool, number)) * OL_STRING_UNIT_SIZE;
}

/* Walks the lists of free strings and marks their places. */
static bool take_free(const ol_string_pool *string_pool, ol_ownership_bits *free_places,
                      uint64_t *count) {
    uint64_t free_bytes = 0;
    for (uint32_t units = 0; units < string_pool->free_lists.used / sizeof(uint32_t); units++) {
        for (uint32_t number = *free_list(string_pool, units); number != 0;
             number = *count_of(string_pool, number)) {
            if (!ol_string_pool_is_within(string_pool, number) ||
                record_units(ol_string_pool_record(string_pool, number)) != units) {
                return false;
            }
            if (!ol_ownership_take(free_places, number, 1)) return false;
            free_bytes += (uint64_t)units * OL_STRING_UNIT_SIZE;
            ++*count;
        }
    }
    return free_bytes == string_pool->free_bytes;
}

typedef struct strings_tally {
    uint64_t count;
    uint64_t bytes;
    uint64_t references;
    ol_hash_index_tally interned;
} strings_tally;

static bool check_living(const ol_string_pool *string_pool, uint32_t number, uint64_t key,
                         strings_tally *tally) {
    const uint8_t *record = ol_string_pool_record(string_pool, number);
    uint16_t field = ol_string_pool_length_field(record);
    uint32_t count = *count_of(string_pool, number), references = count & ~NOT_INTERNED;
    /* Half the largest count, so that live users may add as many again; and the free list of its
     * size exists. */
    if (references == 0 || references > NOT_INTERNED / 2) return false;
    if (record_units(record) >= string_pool->free_lists.used / sizeof(uint32_t)) return false;
    tally->references += references * ol_ownership_mark(key, number);
    tally->bytes += (field & OL_STRING_BYTES_MAX) + (field >> 15 ? OL_STRING_ID_SIZE : 0u);
    tally->count++;
    return (count & NOT_INTERNED) ||
           ol_hash_index_validate_item(&string_pool->hash_index, hash_of(string_pool, number),
                                       number, key, &tally->interned);
}

/* The records fill the arena without gaps; each is either free or counted. */
static bool are_records_sound(const ol_string_pool *string_pool, uint64_t key,
                              const ol_ownership_bits *free_places, uint64_t free_count,
                              strings_tally *tally) {
    uint64_t unit_count = string_pool->arena.used / OL_STRING_UNIT_SIZE,
             number = unit_count == 0 ? 0 : 1;
    while (number < unit_count) {
        if (!ol_string_pool_is_within(string_pool, (uint32_t)number)) return false;
        if (free_places->words[number / 64] >> (number % 64) & 1) {
            free_count--;
        } else if (!check_living(string_pool, (uint32_t)number, key, tally)) {
            return false;
        }
        number += record_units(ol_string_pool_record(string_pool, (uint32_t)number));
    }
    return number == unit_count && free_count == 0 && tally->count == string_pool->count &&
           tally->bytes == string_pool->bytes;
}

int ol_string_pool_validate(const ol_string_pool *string_pool, uint64_t key, uint64_t *references,
                            ol_error *error) {
    int status = ol_hash_index_validate_shape(&string_pool->hash_index, error);
    if (status != OL_OK) return status;
    ol_hash_index_tally lines = {0, 0};
    strings_tally tally = {0};
    ol_ownership_bits free_places;
    uint64_t free_count = 0;
    bool sound = string_pool->arena.used % OL_STRING_UNIT_SIZE == 0 &&
                 string_pool->free_lists.used % sizeof(uint32_t) == 0 &&
                 string_pool->arena.used / OL_STRING_UNIT_SIZE <= (size_t)OL_STRING_NUMBER_MAX + 1;
    if (!sound) {
        return ol_fail(error, OL_CORRUPT,
                       "the size of the string arena or of its free lists is impossible");
    }
    status = ol_ownership_bits_create(&free_places, string_pool->arena.used / OL_STRING_UNIT_SIZE,
                                      error);
    if (status != OL_OK) return status;
    sound = ol_hash_index_validate_lines(&string_pool->hash_index, 0,
                                         ol_hash_index_pieces(&string_pool->hash_index), key,
                                         &lines) &&
            take_free(string_pool, &free_places, &free_count) &&
            are_records_sound(string_pool, key, &free_places, free_count, &tally) &&
            lines.items == string_pool->hash_index.count && lines.items == tally.interned.items &&
            lines.passed == tally.interned.passed;
    ol_ownership_bits_free(&free_places);
    if (!sound) return ol_fail(error, OL_CORRUPT, "the strings are inconsistent");
    *references = tally.references;
    return OL_OK;
}
