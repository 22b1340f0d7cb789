/* state/group_records.c: records on the heap, found by key and by group, and their reservations. */
#include "state/group_records.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "table/digest.h"
#include "table/hash_index.h"

/* Values can be of any size, so each record is a block of the heap.  Records are numbered from 1
 * and walked by number; the number of a removed one is reused.
 *
 * The records of a group form a chain.  The hash of groups holds only the first record, so a group
 * costs one slot and nothing else.  A new record is linked after the first, and a removal touches
 * only its neighbours.
 *
 * A reservation pins the record of its key.  If no record exists, the reservation adds an absent
 * one, which stores nothing but the key.
 */
typedef struct stored_record {
    uint8_t *bytes;             /* key, then value; NULL: unused */
    uint32_t key_size;
    uint32_t value_size;        /* or ABSENT */
    uint16_t group_at;          /* the group's name within the key */
    uint16_t group_size;
    uint32_t pins;              /* reservations */
    int64_t log_offset;
    int64_t timestamp;
    uint32_t next;              /* in its group, or in the free list; 0: none */
    uint32_t previous;          /* in its group; 0: none, the hash of groups names this one */
} stored_record;

_Static_assert(sizeof(stored_record) == 48, "no padding");

struct ol_group_reservation {
    stored_record record;       /* complete except for its links */
    uint32_t number;            /* of the pinned record */
    ol_group_reservation *next; /* the promise after it */
};

struct ol_group_records {
    ol_arena records;           /* record 0 is not used */
    ol_hash_index key_index;
    ol_hash_index group_index;       /* the first record of each */
    uint64_t seed;
    uint64_t count;             /* without absent ones */
    uint64_t bytes;             /* on the heap, in records */
    uint64_t reserved_bytes;    /* on the heap, in reservations */
    uint32_t free_record;
    ol_group_reservation *promised;         /* by log offset */
    ol_group_reservation *promised_last;
};

enum { RECORD_BITS = 27 };
#define ABSENT UINT32_MAX

static stored_record *record_at(const ol_group_records *records, size_t number) {
    return (stored_record *)records->records.base + number;
}

static size_t record_limit(const ol_group_records *records) {
    return records->records.used / sizeof(stored_record);
}

static bool is_absent(const stored_record *record) {
    return record->value_size == ABSENT;
}

static uint64_t size_of(const stored_record *record) {
    return (uint64_t)record->key_size + (is_absent(record) ? 0 : record->value_size);
}

static uint64_t hash_of(const void *owner, uint32_t number) {
    const ol_group_records *records = owner;
    const stored_record *record = record_at(records, number);
    return ol_hash64(record->bytes, record->key_size, records->seed);
}

static ol_slice group_of(const stored_record *record) {
    return ol_slice_of(record->bytes + record->group_at, record->group_size);
}

static uint64_t hash_slice(const ol_group_records *records, ol_slice bytes) {
    return ol_hash64(bytes.data, bytes.size, records->seed);
}

static uint64_t group_hash_of(const void *owner, uint32_t number) {
    return hash_slice(owner, group_of(record_at(owner, number)));
}

static const ol_hash_index_items record_items = {hash_of, NULL};
static const ol_hash_index_items group_items = {group_hash_of, NULL};

int ol_group_records_create(ol_group_records **records, ol_error *error) {
    uint64_t seed;
    ssize_t size = getrandom(&seed, sizeof seed, 0);
    if (size != (ssize_t)sizeof seed) {
        return ol_fail_errno(error, size < 0 ? errno : EIO, "getrandom", NULL);
    }
    *records = calloc(1, sizeof **records);
    if (*records == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for group records");
    (*records)->seed = seed;
    ol_hash_index_init(&(*records)->key_index, RECORD_BITS, &record_items, *records);
    ol_hash_index_init(&(*records)->group_index, RECORD_BITS, &group_items, *records);
    return OL_OK;
}

void ol_group_records_destroy(ol_group_records *records) {
    if (records == NULL) return;
    ol_group_records_release_promised(records);
    for (size_t i = 1; i < record_limit(records); i++) free(record_at(records, i)->bytes);
    ol_arena_free(&records->records);
    ol_hash_index_free(&records->key_index);
    ol_hash_index_free(&records->group_index);
    free(records);
}

static uint32_t find(const ol_group_records *records, ol_slice key, uint64_t hash) {
    ol_hash_index_probe probe = ol_hash_index_probe_begin(&records->key_index, hash);
    uint32_t number;
    while ((number = ol_hash_index_probe_next(&probe)) != 0) {
        const stored_record *record = record_at(records, number);
        if (ol_slice_equal(ol_slice_of(record->bytes, record->key_size), key)) break;
    }
    return number;
}

static uint32_t find_group(const ol_group_records *records, ol_slice group, uint64_t hash) {
    ol_hash_index_probe probe = ol_hash_index_probe_begin(&records->group_index, hash);
    uint32_t number;
    while ((number = ol_hash_index_probe_next(&probe)) != 0 &&
           !ol_slice_equal(group_of(record_at(records, number)), group)) {
        continue;
    }
    return number;
}

/* ------------------------------------------------------------------------------------- changing */

/* Makes sure that the head of the free list is a free number, without taking it. */
static int reserve_number(ol_group_records *records, ol_error *error) {
    if (records->free_record != 0) return OL_OK;
    size_t limit = record_limit(records);
    if (limit >> RECORD_BITS != 0) return ol_fail(error, OL_LIMIT,
                                                  "the group records have reached their limit");
    size_t number = limit == 0 ? 1 : limit;
    int status = ol_arena_extend(&records->records, sizeof(stored_record) * (number + 1 - limit),
                                 error);
    if (status == OL_OK) records->free_record = (uint32_t)number;
    return status;
}

static void link_record(ol_group_records *records, uint32_t number, uint32_t first,
                        uint64_t group_hash) {
    if (first == 0) {
        ol_hash_index_insert(&records->group_index, group_hash, number);
        return;
    }
    stored_record *record = record_at(records, number), *head = record_at(records, first);
    record->previous = first;
    record->next = head->next;
    if (head->next != 0) record_at(records, head->next)->previous = number;
    head->next = number;
}

static void unlink_record(ol_group_records *records, uint32_t number) {
    const stored_record *record = record_at(records, number);
    if (record->next != 0) record_at(records, record->next)->previous = record->previous;
    if (record->previous != 0) {
        record_at(records, record->previous)->next = record->next;
    } else if (record->next != 0) {
        ol_hash_index_replace(&records->group_index, group_hash_of(records, number), number,
                              record->next);
    } else {
        ol_hash_index_remove(&records->group_index, group_hash_of(records, number), number);
    }
}

/* Adds a record of a new key; `record` holds everything except its links.  On success its bytes are
 * taken over. */
static int add_record(ol_group_records *records, const stored_record *record, uint64_t hash,
                      uint32_t *added, ol_error *error) {
    ol_slice group = group_of(record);
    uint64_t group_hash = hash_slice(records, group);
    uint32_t first = find_group(records, group, group_hash);
    int status = ol_hash_index_reserve(&records->key_index, hash, error);
    if (status == OL_OK && first == 0) {
        status = ol_hash_index_reserve(&records->group_index, group_hash, error);
    }
    if (status == OL_OK) status = reserve_number(records, error);
    if (status != OL_OK) return status;
    uint32_t number = records->free_record;
    records->free_record = record_at(records, number)->next;
    *record_at(records, number) = *record;
    records->bytes += size_of(record);
    records->count += !is_absent(record);
    ol_hash_index_insert(&records->key_index, hash, number);
    link_record(records, number, first, group_hash);
    *added = number;
    return OL_OK;
}

static void replace_record(ol_group_records *records, uint32_t number,
                           const stored_record *replacement) {
    stored_record *record = record_at(records, number);
    OL_ASSERT(record->group_at == replacement->group_at &&
              record->group_size == replacement->group_size);
    stored_record old = *record;
    records->bytes += size_of(replacement);
    records->bytes -= size_of(&old);
    records->count += is_absent(&old);
    free(old.bytes);
    *record = *replacement;
    record->pins = old.pins;
    record->next = old.next;
    record->previous = old.previous;
}

static void drop_record(ol_group_records *records, uint32_t number, uint64_t hash) {
    ol_hash_index_remove(&records->key_index, hash, number);
    unlink_record(records, number);
    stored_record *record = record_at(records, number);
    records->bytes -= size_of(record);
    records->count -= !is_absent(record);
    free(record->bytes);
    *record = (stored_record){.next = records->free_record};
    records->free_record = number;
}

/* A pinned record that is removed becomes an absent one.  If its value cannot be freed now, it is
 * freed with the reservation. */
static void hide_record(ol_group_records *records, uint32_t number) {
    stored_record *record = record_at(records, number);
    records->bytes -= record->value_size;
    records->count--;
    record->value_size = ABSENT;
    uint8_t *less = realloc(record->bytes, (size_t)record->key_size + 1);
    if (less != NULL) record->bytes = less;
}

static int copy_record(const ol_group_record *given, stored_record *record, ol_error *error) {
    if (given->key.size >= UINT32_MAX || given->value.size >= UINT32_MAX) {
        return ol_fail(error, OL_TOO_LARGE, "a group record must not exceed 4 GiB");
    }
    OL_ASSERT(given->group.data >= given->key.data && given->group.size <= given->key.size);
    size_t group_at = (size_t)(given->group.data - given->key.data),
           size = given->key.size + given->value.size;
    OL_ASSERT(group_at <= given->key.size - given->group.size);
    /* both have 16 bits, near the key's beginning */
    OL_ASSERT(group_at <= UINT16_MAX && given->group.size <= UINT16_MAX);
    uint8_t *bytes = malloc(size + 1);
    if (bytes == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for a record of %zu bytes", size);
    }
    if (given->key.size != 0) memcpy(bytes, given->key.data, given->key.size);
    if (given->value.size != 0) {
        memcpy(bytes + given->key.size, given->value.data, given->value.size);
    }
    *record = (stored_record){
        .bytes = bytes,
        .key_size = (uint32_t)given->key.size,
        .value_size = (uint32_t)given->value.size,
        .group_at = (uint16_t)group_at,
        .group_size = (uint16_t)given->group.size,
        .log_offset = given->log_offset,
        .timestamp = given->timestamp,
    };
    return OL_OK;
}

/* --------------------------------------------------------------------------------- reservations */

static int add_absent(ol_group_records *records, const ol_group_record *given, uint64_t hash,
                      uint32_t *number, ol_error *error) {
    ol_group_record key_only = *given;
    key_only.value = ol_slice_null();
    stored_record record;
    int status = copy_record(&key_only, &record, error);
    if (status != OL_OK) return status;
    record.value_size = ABSENT;
    status = add_record(records, &record, hash, number, error);
    if (status != OL_OK) free(record.bytes);
    return status;
}

int ol_group_records_reserve(ol_group_records *records, const ol_group_record *given,
                             ol_group_reservation **reservation, ol_error *error) {
    stored_record record;
    int status = copy_record(given, &record, error);
    if (status != OL_OK) return status;
    ol_group_reservation *made = malloc(sizeof *made);
    if (made == NULL) status = ol_fail(error, OL_NO_MEMORY, "no memory to reserve a record");
    uint64_t hash = hash_slice(records, given->key);
    uint32_t number = find(records, given->key, hash);
    if (status == OL_OK && number == 0) status = add_absent(records, given, hash, &number, error);
    if (status != OL_OK) {
        free(made);
        free(record.bytes);
        return status;
    }
    record_at(records, number)->pins++;
    *made = (ol_group_reservation){.record = record, .number = number};
    records->reserved_bytes += sizeof *made + size_of(&record);
    *reservation = made;
    return OL_OK;
}

/* Frees a reservation, whose bytes by now belong to a record or are freed. */
static void end_reservation(ol_group_records *records, ol_group_reservation *reservation) {
    records->reserved_bytes -= sizeof *reservation + size_of(&reservation->record);
    free(reservation);
}

void ol_group_records_install(ol_group_records *records, ol_group_reservation *reservation,
                              int64_t log_offset, int64_t timestamp) {
    reservation->record.log_offset = log_offset;
    reservation->record.timestamp = timestamp;
    record_at(records, reservation->number)->pins--;
    replace_record(records, reservation->number, &reservation->record);
    end_reservation(records, reservation);
}

void ol_group_records_release(ol_group_records *records, ol_group_reservation *reservation) {
    uint32_t number = reservation->number;
    stored_record *record = record_at(records, number);
    record->pins--;
    if (record->pins == 0 && is_absent(record)) {
        drop_record(records, number, hash_of(records, number));
    }
    free(reservation->record.bytes);
    end_reservation(records, reservation);
}

void ol_group_records_promise(ol_group_records *records, ol_group_reservation *reservation,
                              int64_t log_offset) {
    OL_ASSERT(records->promised == NULL || records->promised_last->record.log_offset < log_offset);
    reservation->record.log_offset = log_offset;
    if (records->promised == NULL) {
        records->promised = reservation;
    } else {
        records->promised_last->next = reservation;
    }
    records->promised_last = reservation;
}

static ol_group_reservation *take_promised(ol_group_records *records) {
    ol_group_reservation *first = records->promised;
    records->promised = first->next;
    return first;
}

static bool is_same_record(const stored_record *record, const ol_group_record *given) {
    return record->key_size == given->key.size && record->value_size == given->value.size &&
           memcmp(record->bytes, given->key.data, given->key.size) == 0 &&
           (given->value.size == 0 ||
            memcmp(record->bytes + record->key_size, given->value.data, given->value.size) == 0);
}

/* Installs the value promised to this record.  Promises to records that should have come at or
 * before this one are useless now and are released. */
static bool put_promised(ol_group_records *records, const ol_group_record *given) {
    while (records->promised != NULL && records->promised->record.log_offset <= given->log_offset) {
        ol_group_reservation *first = take_promised(records);
        if (first->record.log_offset == given->log_offset &&
            is_same_record(&first->record, given)) {
            ol_group_records_install(records, first, given->log_offset, given->timestamp);
            return true;
        }
        ol_group_records_release(records, first);
    }
    return false;
}

void ol_group_records_release_promised(ol_group_records *records) {
    while (records->promised != NULL) ol_group_records_release(records, take_promised(records));
}

/* ------------------------------------------------------------------------------- put and remove */

int ol_group_records_put(ol_group_records *records, const ol_group_record *given, ol_error *error) {
    if (OL_UNLIKELY(records->promised != NULL) && put_promised(records, given)) return OL_OK;
    stored_record record;
    int status = copy_record(given, &record, error);
    if (status != OL_OK) return status;
    uint64_t hash = hash_slice(records, given->key);
    uint32_t number = find(records, given->key, hash);
    if (number != 0) {
        replace_record(records, number, &record);
        return OL_OK;
    }
    status = add_record(records, &record, hash, &number, error);
    if (status != OL_OK) free(record.bytes);
    return status;
}

bool ol_group_records_remove(ol_group_records *records, ol_slice key) {
    uint64_t hash = hash_slice(records, key);
    uint32_t number = find(records, key, hash);
    if (number == 0 || is_absent(record_at(records, number))) return false;
    if (record_at(records, number)->pins != 0) {
        hide_record(records, number);
    } else {
        drop_record(records, number, hash);
    }
    return true;
}

/* -------------------------------------------------------------------------------------- reading */

static void read_record(const stored_record *stored, ol_group_record *record) {
    record->key = ol_slice_of(stored->bytes, stored->key_size);
    record->value = ol_slice_of(stored->bytes + stored->key_size, stored->value_size);
    record->log_offset = stored->log_offset;
    record->timestamp = stored->timestamp;
    record->group = group_of(stored);
}

bool ol_group_records_get(const ol_group_records *records, ol_slice key, ol_group_record *record) {
    uint32_t number = find(records, key, hash_slice(records, key));
    if (number == 0 || is_absent(record_at(records, number))) return false;
    read_record(record_at(records, number), record);
    return true;
}

bool ol_group_records_next(const ol_group_records *records, size_t *cursor,
                           ol_group_record *record) {
    size_t limit = record_limit(records);
    while (++*cursor < limit) {
        const stored_record *stored = record_at(records, *cursor);
        if (stored->bytes == NULL || is_absent(stored)) continue;
        read_record(stored, record);
        return true;
    }
    return false;
}

/* The cursor is the number of the last returned record; the chain's last record ends the walk. */
bool ol_group_records_next_of_group(const ol_group_records *records, ol_slice group, size_t *cursor,
                                    ol_group_record *record) {
    uint32_t number = *cursor == 0 ? find_group(records, group, hash_slice(records, group))
                                   : record_at(records, *cursor)->next;
    while (number != 0 && is_absent(record_at(records, number))) {
        number = record_at(records, number)->next;
    }
    if (number == 0) return false;
    *cursor = number;
    read_record(record_at(records, number), record);
    return true;
}

uint64_t ol_group_records_count(const ol_group_records *records) {
    return records->count;
}

static uint8_t *put_hashed(uint8_t *p, ol_slice bytes) {
    ol_hash128 hash = ol_xxh3_128(bytes.data, bytes.size);
    ol_store_u32(p, (uint32_t)bytes.size);
    ol_store_u64(p + 4, hash.high);
    ol_store_u64(p + 12, hash.low);
    return p + 20;
}

/* Keys and values can be long, so their hashes are used, and no record is copied to be hashed. */
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
    return sizeof *records + records->bytes + records->reserved_bytes +
           ol_arena_resident(&records->records) + ol_hash_index_resident(&records->key_index) +
           ol_hash_index_resident(&records->group_index);
}

/* Asserts that each record is found by its key, the first of a chain by its group, and that
 * neighbours agree. */
static void verify_record(const ol_group_records *records, uint32_t number) {
    const stored_record *record = record_at(records, number);
    ol_slice key = ol_slice_of(record->bytes, record->key_size), group = group_of(record);
    OL_ASSERT(find(records, key, hash_slice(records, key)) == number);
    bool is_first = find_group(records, group, hash_slice(records, group)) == number;
    OL_ASSERT(is_first == (record->previous == 0));
    OL_ASSERT(record->pins != 0 || !is_absent(record));
    if (record->previous != 0) OL_ASSERT(record_at(records, record->previous)->next == number);
    if (record->next == 0) return;
    const stored_record *next = record_at(records, record->next);
    OL_ASSERT(next->bytes != NULL && next->previous == number &&
              ol_slice_equal(group_of(next), group));
}

void ol_group_records_verify(const ol_group_records *records) {
    uint64_t count = 0, absent = 0, groups = 0, unused = 0, bytes = 0;
    ol_hash_index_verify(&records->key_index);
    ol_hash_index_verify(&records->group_index);
    for (uint32_t number = 1; number < record_limit(records); number++) {
        const stored_record *record = record_at(records, number);
        if (record->bytes == NULL) continue;
        verify_record(records, number);
        count++;
        groups += record->previous == 0;
        absent += is_absent(record);
        bytes += size_of(record);
    }
    for (uint32_t number = records->free_record; number != 0;
         number = record_at(records, number)->next) {
        OL_ASSERT(record_at(records, number)->bytes == NULL);
        unused++;
    }
    OL_ASSERT(count == records->key_index.count && groups == records->group_index.count &&
              bytes == records->bytes);
    OL_ASSERT(count - absent == records->count);
    OL_ASSERT(record_limit(records) == 0 || count + unused + 1 == record_limit(records));
}
