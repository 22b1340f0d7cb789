#include "ol_group_records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ol_bytes.h"
#include "ol_digest.h"
#include "ol_slots.h"

/* Values can be of any size, so each is a block of the heap; records are numbered from 1, in the order of their numbers they are
 * walked, and a removed one's number is used again. */
typedef struct stored_record {
    uint8_t *bytes;             /* key, then value; NULL: not in use */
    size_t key_size;
    size_t value_size;          /* of a record not in use: number of the next one */
    int64_t log_offset;
    int64_t timestamp;
} stored_record;

struct ol_group_records {
    ol_arena records;           /* record 0 is not used */
    ol_slots slots;
    uint64_t seed;
    uint64_t bytes;             /* on the heap */
    size_t free_record;
};

enum { RECORD_BITS = 27 };

static stored_record *record_at(const ol_group_records *records, size_t number) {
    return (stored_record *)records->records.base + number;
}

static size_t record_limit(const ol_group_records *records) {
    return records->records.used / sizeof(stored_record);
}

static uint64_t hash_of(const void *owner, uint32_t number) {
    const ol_group_records *records = owner;
    const stored_record *record = record_at(records, number);
    return ol_hash64(record->bytes, record->key_size, records->seed);
}

static const ol_slots_items record_items = {hash_of, NULL};

int ol_group_records_create(ol_group_records **records, ol_error *error) {
    uint64_t seed;
    ssize_t size = getrandom(&seed, sizeof seed, 0);
    if (size != (ssize_t)sizeof seed) return ol_fail_errno(error, size < 0 ? errno : EIO, "getrandom", NULL);
    *records = calloc(1, sizeof **records);
    if (*records == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for group records");
    (*records)->seed = seed;
    ol_slots_init(&(*records)->slots, RECORD_BITS, &record_items, *records);
    return OL_OK;
}

void ol_group_records_destroy(ol_group_records *records) {
    if (records == NULL) return;
    for (size_t i = 1; i < record_limit(records); i++) free(record_at(records, i)->bytes);
    ol_arena_free(&records->records);
    ol_slots_free(&records->slots);
    free(records);
}

static uint32_t find(const ol_group_records *records, ol_slice key, uint64_t hash) {
    ol_slots_probe probe = ol_slots_probe_begin(&records->slots, hash);
    uint32_t number;
    while ((number = ol_slots_probe_next(&probe)) != 0) {
        const stored_record *record = record_at(records, number);
        if (ol_slice_equal(ol_slice_of(record->bytes, record->key_size), key)) break;
    }
    return number;
}

/* A free record's number is made the head of the free list; nothing is taken off it yet. */
static int reserve_record(ol_group_records *records, uint64_t hash, ol_error *error) {
    int status = ol_slots_reserve(&records->slots, hash, error);
    if (status != OL_OK || records->free_record != 0) return status;
    size_t limit = record_limit(records);
    if (limit >> RECORD_BITS != 0) return ol_fail(error, OL_LIMIT, "no more group records fit");
    size_t number = limit == 0 ? 1 : limit;
    status = ol_arena_extend(&records->records, sizeof(stored_record) * (number + 1 - limit), error);
    if (status == OL_OK) records->free_record = number;
    return status;
}

int ol_group_records_put(ol_group_records *records, const ol_group_record *given, ol_error *error) {
    if (given->key.size > UINT32_MAX || given->value.size > UINT32_MAX) {
        return ol_fail(error, OL_TOO_LARGE, "a record of more than 4 GiB");
    }
    uint64_t hash = ol_hash64(given->key.data, given->key.size, records->seed);
    uint32_t number = find(records, given->key, hash);
    if (number == 0) {
        int status = reserve_record(records, hash, error);
        if (status != OL_OK) return status;
    }
    size_t size = given->key.size + given->value.size;
    uint8_t *bytes = malloc(size + 1);
    if (bytes == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a record of %zu bytes", size);
    if (given->key.size != 0) memcpy(bytes, given->key.data, given->key.size);
    if (given->value.size != 0) memcpy(bytes + given->key.size, given->value.data, given->value.size);
    bool added = number == 0;
    if (added) {
        number = (uint32_t)records->free_record;
        records->free_record = record_at(records, number)->value_size;
    }
    stored_record *record = record_at(records, number);
    if (!added) {
        records->bytes -= record->key_size + record->value_size;
        free(record->bytes);
    }
    *record = (stored_record){bytes, given->key.size, given->value.size, given->log_offset, given->timestamp};
    records->bytes += size;
    if (added) ol_slots_insert(&records->slots, hash, number);
    return OL_OK;
}

bool ol_group_records_remove(ol_group_records *records, ol_slice key) {
    uint64_t hash = ol_hash64(key.data, key.size, records->seed);
    uint32_t number = find(records, key, hash);
    if (number == 0) return false;
    ol_slots_remove(&records->slots, hash, number);
    stored_record *record = record_at(records, number);
    records->bytes -= record->key_size + record->value_size;
    free(record->bytes);
    *record = (stored_record){.value_size = records->free_record};
    records->free_record = number;
    return true;
}

static void read_record(const stored_record *stored, ol_group_record *record) {
    record->key = ol_slice_of(stored->bytes, stored->key_size);
    record->value = ol_slice_of(stored->bytes + stored->key_size, stored->value_size);
    record->log_offset = stored->log_offset;
    record->timestamp = stored->timestamp;
}

bool ol_group_records_get(const ol_group_records *records, ol_slice key, ol_group_record *record) {
    uint32_t number = find(records, key, ol_hash64(key.data, key.size, records->seed));
    if (number != 0) read_record(record_at(records, number), record);
    return number != 0;
}

bool ol_group_records_next(const ol_group_records *records, size_t *cursor, ol_group_record *record) {
    size_t limit = record_limit(records);
    while (++*cursor < limit) {
        const stored_record *stored = record_at(records, *cursor);
        if (stored->bytes == NULL) continue;
        read_record(stored, record);
        return true;
    }
    return false;
}

uint64_t ol_group_records_count(const ol_group_records *records) {
    return records->slots.count;
}

static uint8_t *put_hashed(uint8_t *p, ol_slice bytes) {
    ol_hash128 hash = ol_xxh3_128(bytes.data, bytes.size);
    ol_store_u32(p, (uint32_t)bytes.size);
    ol_store_u64(p + 4, hash.high);
    ol_store_u64(p + 12, hash.low);
    return p + 20;
}

/* Keys and values can be long: their hashes stand for them, so that no record is ever copied to be hashed. */
static ol_hash128 record_digest(const ol_group_record *record, bool physical) {
    uint8_t bytes[1 + 20 + 20 + 8 + 8], *p = bytes;
    *p++ = physical ? OL_DIGEST_GROUP_RECORD | OL_DIGEST_PHYSICAL : OL_DIGEST_GROUP_RECORD;
    p = put_hashed(p, record->key);
    p = put_hashed(p, record->value);
    if (physical) {
        ol_store_i64(p, record->timestamp);
        ol_store_i64(p + 8, record->log_offset);
        p += 16;
    }
    return ol_xxh3_128(bytes, (size_t)(p - bytes));
}

ol_hash128 ol_group_records_digest(const ol_group_records *records, bool physical) {
    ol_hash128 sum = {0, 0};
    size_t cursor = 0;
    for (ol_group_record record; ol_group_records_next(records, &cursor, &record);) {
        sum = ol_hash128_add(sum, record_digest(&record, physical));
    }
    return sum;
}

uint64_t ol_group_records_memory_usage(const ol_group_records *records) {
    return sizeof *records + records->bytes + ol_arena_resident(&records->records) + ol_slots_resident(&records->slots);
}
