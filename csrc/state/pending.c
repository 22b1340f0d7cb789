/* state/pending.c: entries by producer, chained by position and by group. */
#include "state/pending.h"

#include <stdlib.h>
#include <string.h>

#include "table/digest.h"
#include "base/int64_map.h"
#include "table/reserved.h"

/* An entry's name is made from its producer's place and its own place, plus one; 0 is no entry.
 * Entries of one position, and those of one group, are chained, newest first; `heads` names the
 * first of each chain. */
typedef uint64_t entry_name;
enum { CHAIN_POSITION, CHAIN_GROUP, CHAIN_COUNT };
enum { CELL_DISTANCE = 8 };         /* entries between the prefetch of a cell and its use */

typedef struct pending_entry {
    ol_reservation reservation;
    int64_t offset;
    int64_t log_offset;
    int64_t commit_timestamp;
    int32_t leader_epoch;
    bool replaced;  /* by a later value of its producer; holds no reservation any more */
    entry_name next[CHAIN_COUNT];
    entry_name previous[CHAIN_COUNT];
} pending_entry;

typedef struct producer_entries {
    int64_t producer_id;
    pending_entry *entries;     /* in log order */
    uint32_t count;
    uint32_t capacity;
} producer_entries;

struct ol_pending {
    ol_table *table;
    producer_entries **producers;       /* NULL: the place is free */
    uint32_t *order;                    /* places of producers with entries, by first log offset */
    uint32_t *free_places;
    uint32_t producer_count;            /* places in use */
    uint32_t free_count;
    uint32_t order_count;
    uint32_t capacity;                  /* of the three arrays */
    size_t entry_count;
    ol_int64_map places;                  /* producer id -> place + 1 */
    ol_int64_map heads[CHAIN_COUNT];
};

/* --------------------------------------------------------------------------- entries and chains */

static pending_entry *entry_named(const ol_pending *pending, entry_name name) {
    return &pending->producers[(name - 1) >> 32]->entries[(uint32_t)(name - 1)];
}

static entry_name name_of(uint32_t place, uint32_t index) {
    return ((uint64_t)place << 32 | index) + 1;
}

static uint64_t position_key(uint32_t pair, int32_t partition) {
    return (uint64_t)pair << 32 | (uint32_t)partition;
}

static uint64_t chain_key(const ol_pending *pending, const pending_entry *entry, int chain) {
    if (chain == CHAIN_GROUP) return ol_table_reserved_group(pending->table, &entry->reservation);
    return position_key(entry->reservation.pair, entry->reservation.partition);
}

static void link_entry(ol_pending *pending, entry_name name) {
    pending_entry *entry = entry_named(pending, name);
    for (int chain = 0; chain < CHAIN_COUNT; chain++) {
        uint64_t key = chain_key(pending, entry, chain);
        entry->previous[chain] = 0;
        entry->next[chain] = ol_int64_map_exchange(&pending->heads[chain], key, name);
        if (entry->next[chain] != 0) {
            entry_named(pending, entry->next[chain])->previous[chain] = name;
        }
    }
}

static void unlink_entry(ol_pending *pending, entry_name name) {
    pending_entry *entry = entry_named(pending, name);
    for (int chain = 0; chain < CHAIN_COUNT; chain++) {
        if (entry->next[chain] != 0) {
            entry_named(pending, entry->next[chain])->previous[chain] = entry->previous[chain];
        }
        if (entry->previous[chain] != 0) {
            entry_named(pending, entry->previous[chain])->next[chain] = entry->next[chain];
        } else {
            ol_int64_map_set(&pending->heads[chain], chain_key(pending, entry, chain),
                             entry->next[chain]);
        }
    }
}

static bool is_live(const ol_pending *pending, const pending_entry *entry) {
    return !entry->replaced &&
           !ol_table_reserved_erased(pending->table, &entry->reservation, entry->log_offset);
}

static ol_position_value value_of(const pending_entry *entry) {
    return (ol_position_value){
        .offset = entry->offset,
        .log_offset = entry->log_offset,
        .commit_timestamp = entry->commit_timestamp,
        .expire_timestamp = entry->reservation.expire_timestamp,
        .leader_epoch = entry->leader_epoch,
    };
}

/* ------------------------------------------------------------------------------------ producers */

static producer_entries *find_producer(const ol_pending *pending, int64_t producer_id,
                                       uint32_t *place) {
    uint64_t found = ol_int64_map_get(&pending->places, (uint64_t)producer_id);
    if (found == 0) return NULL;
    *place = (uint32_t)found - 1;
    return pending->producers[*place];
}

static bool grow_array(void *array, size_t capacity, size_t size) {
    void **pointer = array;
    void *grown = realloc(*pointer, capacity * size);
    if (grown == NULL) return false;
    *pointer = grown;
    return true;
}

/* If one array grew before another one failed, it is only larger than `capacity` says. */
static int grow_places(ol_pending *pending, ol_error *error) {
    uint32_t capacity = pending->capacity == 0 ? 4 : pending->capacity * 2;
    if (grow_array(&pending->producers, capacity, sizeof *pending->producers) &&
        grow_array(&pending->order, capacity, sizeof *pending->order) &&
        grow_array(&pending->free_places, capacity, sizeof *pending->free_places)) {
        pending->capacity = capacity;
        return OL_OK;
    }
    return ol_fail(error, OL_NO_MEMORY, "no memory for %u producers", capacity);
}

static int add_producer(ol_pending *pending, int64_t producer_id, producer_entries **producer,
                        ol_error *error) {
    int status = ol_int64_map_reserve(&pending->places, pending->places.count + 1, error);
    if (status == OL_OK && pending->free_count == 0 &&
        pending->producer_count == pending->capacity) {
        status = grow_places(pending, error);
    }
    if (status != OL_OK) return status;
    *producer = calloc(1, sizeof **producer);
    if (*producer == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a producer");
    (*producer)->producer_id = producer_id;
    bool reused = pending->free_count != 0;
    uint32_t place = reused ? pending->free_places[--pending->free_count]
                            : pending->producer_count++;
    pending->producers[place] = *producer;
    ol_int64_map_set(&pending->places, (uint64_t)producer_id, (uint64_t)place + 1);
    return OL_OK;
}

static void free_producer(ol_pending *pending, uint32_t place) {
    producer_entries *producer = pending->producers[place];
    for (uint32_t i = 0; i < pending->order_count; i++) {
        if (pending->order[i] != place) continue;
        pending->order_count--;
        memmove(pending->order + i, pending->order + i + 1,
                (pending->order_count - i) * sizeof *pending->order);
        break;
    }
    ol_int64_map_set(&pending->places, (uint64_t)producer->producer_id, 0);
    pending->entry_count -= producer->count;
    pending->free_places[pending->free_count++] = place;
    pending->producers[place] = NULL;
    free(producer->entries);
    free(producer);
}

static void insert_in_order(ol_pending *pending, uint32_t place, int64_t first_log_offset) {
    uint32_t at = pending->order_count++;
    while (at != 0 &&
           pending->producers[pending->order[at - 1]]->entries[0].log_offset > first_log_offset) {
        pending->order[at] = pending->order[at - 1];
        at--;
    }
    pending->order[at] = place;
}

/* ------------------------------------------------------------------------------------- changing */

int ol_pending_create(ol_table *table, ol_pending **pending, ol_error *error) {
    *pending = calloc(1, sizeof **pending);
    if (*pending == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for pending transactions");
    (*pending)->table = table;
    return OL_OK;
}

void ol_pending_destroy(ol_pending *pending) {
    if (pending == NULL) return;
    for (uint32_t place = 0; place < pending->producer_count; place++) {
        if (pending->producers[place] != NULL) {
            ol_pending_abort(pending, pending->producers[place]->producer_id);
        }
    }
    ol_int64_map_free(&pending->places);
    for (int chain = 0; chain < CHAIN_COUNT; chain++) ol_int64_map_free(&pending->heads[chain]);
    free(pending->producers);
    free(pending->order);
    free(pending->free_places);
    free(pending);
}

int ol_pending_reserve(ol_pending *pending, int64_t producer_id, size_t count, ol_error *error) {
    uint32_t place;
    producer_entries *producer = find_producer(pending, producer_id, &place);
    size_t needed = (producer == NULL ? 0 : producer->count) + count;
    if (needed < count || needed > UINT32_MAX / 2) {
        return ol_fail(error, OL_LIMIT, "a transaction cannot hold %zu values", count);
    }
    for (int chain = 0; chain < CHAIN_COUNT; chain++) {
        int status = ol_int64_map_reserve(&pending->heads[chain], pending->entry_count + count,
                                          error);
        if (status != OL_OK) return status;
    }
    if (producer == NULL) {
        int status = add_producer(pending, producer_id, &producer, error);
        if (status != OL_OK) return status;
    }
    if (needed <= producer->capacity) return OL_OK;
    size_t capacity = producer->capacity + producer->capacity / 2;
    if (capacity < needed) capacity = needed;
    if (!grow_array(&producer->entries, capacity, sizeof *producer->entries)) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu pending values", capacity);
    }
    producer->capacity = (uint32_t)capacity;
    return OL_OK;
}

/* Returns the first value of a producer in a position's chain from `name` on, or 0. */
static entry_name find_of_producer(const ol_pending *pending, uint32_t place, entry_name name) {
    while (name != 0 && (name - 1) >> 32 != place) {
        name = entry_named(pending, name)->next[CHAIN_POSITION];
    }
    return name;
}

static entry_name first_of_position(const ol_pending *pending, uint32_t pair, int32_t partition) {
    return ol_int64_map_get(&pending->heads[CHAIN_POSITION], position_key(pair, partition));
}

/* Replaces the earlier entry of a producer for a position by its newest one. */
static void replace_earlier(ol_pending *pending, uint32_t place) {
    const producer_entries *producer = pending->producers[place];
    const pending_entry *newest = &producer->entries[producer->count - 1];
    entry_name name = find_of_producer(pending, place, newest->next[CHAIN_POSITION]);
    if (name == 0) return;
    pending_entry *entry = entry_named(pending, name);
    unlink_entry(pending, name);
    ol_table_release(pending->table, &entry->reservation);
    entry->replaced = true;
}

static void append_entry(ol_pending *pending, producer_entries *producer, uint32_t place,
                         const pending_entry *entry) {
    OL_ASSERT(producer->count < producer->capacity);
    if (producer->count == 0) insert_in_order(pending, place, entry->log_offset);
    producer->entries[producer->count] = *entry;
    if (!entry->replaced) link_entry(pending, name_of(place, producer->count));
    producer->count++;
    pending->entry_count++;
}

void ol_pending_add(ol_pending *pending, int64_t producer_id, const ol_reservation *reservation,
                    const ol_position_value *value) {
    uint32_t place = 0;
    producer_entries *producer = find_producer(pending, producer_id, &place);
    OL_ASSERT(producer != NULL);
    OL_ASSERT(producer->count == 0 ||
              producer->entries[producer->count - 1].log_offset <= value->log_offset);
    const pending_entry entry = {
        .reservation = *reservation,
        .offset = value->offset,
        .log_offset = value->log_offset,
        .commit_timestamp = value->commit_timestamp,
        .leader_epoch = value->leader_epoch,
    };
    append_entry(pending, producer, place, &entry);
    replace_earlier(pending, place);
}

void ol_pending_prefetch(const ol_pending *pending, uint32_t pair, int32_t partition) {
    ol_int64_map_prefetch(&pending->heads[CHAIN_POSITION], position_key(pair, partition));
}

static void prefetch_cell(const ol_pending *pending, const producer_entries *producer,
                          uint32_t index) {
    if (index >= producer->count || producer->entries[index].replaced) return;
    const ol_reservation *reservation = &producer->entries[index].reservation;
    ol_table_prefetch_reserved(pending->table, reservation->pair, reservation->partition);
}

/* Removes the entries of a producer from all chains, in one step if no other producer has any. */
static void unlink_all(ol_pending *pending, uint32_t place) {
    const producer_entries *producer = pending->producers[place];
    if (producer->count == pending->entry_count) {
        for (int chain = 0; chain < CHAIN_COUNT; chain++) {
            ol_int64_map_clear(&pending->heads[chain]);
        }
        return;
    }
    for (uint32_t i = 0; i < producer->count; i++) {
        if (!producer->entries[i].replaced) unlink_entry(pending, name_of(place, i));
    }
}

static size_t end_transaction(ol_pending *pending, int64_t producer_id, bool commit) {
    uint32_t place;
    producer_entries *producer = find_producer(pending, producer_id, &place);
    if (producer == NULL) return 0;
    size_t count = 0;
    unlink_all(pending, place);
    for (uint32_t i = 0; i < producer->count; i++) {
        pending_entry *entry = &producer->entries[i];
        prefetch_cell(pending, producer, i + CELL_DISTANCE);
        if (entry->replaced) continue;
        if (commit) {
            ol_position_value value = value_of(entry);
            count += ol_table_install_if_newer(pending->table, &entry->reservation, &value);
        } else {
            count += is_live(pending, entry);
            ol_table_release(pending->table, &entry->reservation);
        }
    }
    free_producer(pending, place);
    return count;
}

size_t ol_pending_commit(ol_pending *pending, int64_t producer_id) {
    return end_transaction(pending, producer_id, true);
}

size_t ol_pending_abort(ol_pending *pending, int64_t producer_id) {
    return end_transaction(pending, producer_id, false);
}

/* ------------------------------------------------------------------------- saving and restoring */

bool ol_pending_next_entry(const ol_pending *pending, ol_pending_cursor *cursor,
                           ol_pending_entry *entry) {
    if (cursor->producer == pending->order_count) return false;
    const producer_entries *producer = pending->producers[pending->order[cursor->producer]];
    const pending_entry *found = &producer->entries[cursor->entry];
    *entry = (ol_pending_entry){
        .producer_id = producer->producer_id,
        .reservation = found->reservation,
        .offset = found->offset,
        .log_offset = found->log_offset,
        .commit_timestamp = found->commit_timestamp,
        .leader_epoch = found->leader_epoch,
        .replaced = found->replaced,
    };
    if (++cursor->entry == producer->count) {
        cursor->producer++;
        cursor->entry = 0;
    }
    return true;
}

int ol_pending_restore(ol_pending *pending, const ol_pending_entry *given, ol_error *error) {
    if (given->producer_id < 0) return ol_fail(error, OL_CORRUPT,
                                               "a pending value has no producer");
    int status = ol_pending_reserve(pending, given->producer_id, 1, error);
    if (status != OL_OK) return status;
    uint32_t place = 0;
    producer_entries *producer = find_producer(pending, given->producer_id, &place);
    bool goes_back = producer->count != 0 &&
                     producer->entries[producer->count - 1].log_offset > given->log_offset;
    bool repeats = !given->replaced &&
                   find_of_producer(pending, place,
                                    first_of_position(pending, given->reservation.pair,
                                                      given->reservation.partition)) != 0;
    if (goes_back || repeats) {
        return ol_fail(error, OL_CORRUPT,
                       "the pending values of producer %lld are out of order or repeated",
                       (long long)given->producer_id);
    }
    const pending_entry entry = {
        .reservation = given->reservation,
        .offset = given->offset,
        .log_offset = given->log_offset,
        .commit_timestamp = given->commit_timestamp,
        .leader_epoch = given->leader_epoch,
        .replaced = given->replaced,
    };
    append_entry(pending, producer, place, &entry);
    return OL_OK;
}

/* -------------------------------------------------------------------------------------- reading */

bool ol_pending_producer_at(const ol_pending *pending, size_t index,
                            ol_pending_producer *producer) {
    if (index >= pending->order_count) return false;
    const producer_entries *found = pending->producers[pending->order[index]];
    *producer = (ol_pending_producer){found->producer_id, found->entries[0].log_offset, 0};
    for (uint32_t i = 0; i < found->count; i++) {
        producer->values += is_live(pending, &found->entries[i]);
    }
    return true;
}

static void fill_row(const ol_pending *pending, const pending_entry *entry, ol_table_row *row) {
    row->value = value_of(entry);
    ol_table_reserved_row(pending->table, &entry->reservation, row);
}

/* Returns whether a COMMIT would install the entry now. */
static bool is_newest(const ol_pending *pending, const pending_entry *entry) {
    return !entry->replaced &&
           ol_table_reserved_newer(pending->table, &entry->reservation, entry->log_offset);
}

bool ol_pending_next_value(const ol_pending *pending, int64_t producer_id, size_t *cursor,
                           ol_table_row *row) {
    uint32_t place;
    const producer_entries *producer = find_producer(pending, producer_id, &place);
    while (producer != NULL && *cursor < producer->count) {
        const pending_entry *entry = &producer->entries[(*cursor)++];
        if (!is_newest(pending, entry)) continue;
        fill_row(pending, entry, row);
        return true;
    }
    return false;
}

static entry_name first_of_group(const ol_pending *pending, ol_slice group, uint64_t group_hash) {
    uint32_t number;
    if (pending->entry_count == 0 ||
        !ol_table_group_number(pending->table, group, group_hash, &number)) {
        return 0;
    }
    return ol_int64_map_get(&pending->heads[CHAIN_GROUP], number);
}

typedef bool entry_rule(const ol_pending *pending, const pending_entry *entry);

/* The cursor is the name of the last returned entry; the chain's last entry ends the walk. */
static bool next_of_group(const ol_pending *pending, ol_slice group, uint64_t group_hash,
                          entry_rule *is_wanted, uint64_t *cursor, ol_table_row *row) {
    entry_name name = *cursor == 0 ? first_of_group(pending, group, group_hash)
                                   : entry_named(pending, *cursor)->next[CHAIN_GROUP];
    while (name != 0 && !is_wanted(pending, entry_named(pending, name))) {
        name = entry_named(pending, name)->next[CHAIN_GROUP];
    }
    if (name == 0) return false;
    *cursor = name;
    fill_row(pending, entry_named(pending, name), row);
    return true;
}

bool ol_pending_next_of_group(const ol_pending *pending, ol_slice group, uint64_t group_hash,
                              uint64_t *cursor, ol_table_row *row) {
    return next_of_group(pending, group, group_hash, is_newest, cursor, row);
}

bool ol_pending_next_unstable(const ol_pending *pending, ol_slice group, uint64_t group_hash,
                              uint64_t *cursor, ol_table_row *row) {
    return next_of_group(pending, group, group_hash, is_live, cursor, row);
}

static bool chain_has_live(const ol_pending *pending, int chain, uint64_t key) {
    entry_name name = ol_int64_map_get(&pending->heads[chain], key);
    while (name != 0 && !is_live(pending, entry_named(pending, name))) {
        name = entry_named(pending, name)->next[chain];
    }
    return name != 0;
}

bool ol_pending_has(const ol_pending *pending, const ol_pair_name *name, int32_t partition) {
    if (pending->entry_count == 0) return false;
    uint32_t pair = ol_table_pair_number(pending->table, name);
    return pair != 0 && chain_has_live(pending, CHAIN_POSITION, position_key(pair, partition));
}

bool ol_pending_has_group(const ol_pending *pending, ol_slice group, uint64_t group_hash) {
    if (pending->entry_count == 0) return false;
    uint32_t number;
    if (!ol_table_group_number(pending->table, group, group_hash, &number)) return false;
    return chain_has_live(pending, CHAIN_GROUP, number);
}

bool ol_pending_next(const ol_pending *pending, ol_pending_cursor *cursor, int64_t *producer_id,
                     ol_table_row *row) {
    for (; cursor->producer < pending->order_count; cursor->producer++, cursor->entry = 0) {
        const producer_entries *producer = pending->producers[pending->order[cursor->producer]];
        while (cursor->entry < producer->count) {
            const pending_entry *entry = &producer->entries[cursor->entry++];
            if (!is_live(pending, entry)) continue;
            *producer_id = producer->producer_id;
            fill_row(pending, entry, row);
            return true;
        }
    }
    return false;
}

bool ol_pending_get(const ol_pending *pending, int64_t producer_id, const ol_pair_name *name,
                    int32_t partition, ol_position_value *value) {
    uint32_t place;
    if (find_producer(pending, producer_id, &place) == NULL) return false;
    uint32_t pair = ol_table_pair_number(pending->table, name);
    if (pair == 0) return false;
    entry_name found =
        find_of_producer(pending, place, first_of_position(pending, pair, partition));
    if (found == 0 || !is_live(pending, entry_named(pending, found))) return false;
    ol_table_row row;
    fill_row(pending, entry_named(pending, found), &row);
    *value = row.value;
    return true;
}

ol_hash128 ol_pending_digest(const ol_pending *pending, bool physical) {
    uint8_t bytes[OL_DIGEST_BYTES_MAX];
    ol_hash128 sum = {0, 0};
    ol_pending_cursor cursor = {0};
    ol_table_row row;
    int64_t producer_id;
    while (ol_pending_next(pending, &cursor, &producer_id, &row)) {
        size_t begun = ol_digest_begin(bytes, OL_DIGEST_PENDING, producer_id, row.group, row.topic,
                                       physical);
        sum = ol_hash128_add(sum,
                             ol_digest_finish(bytes, begun, row.partition, &row.value, physical));
    }
    return sum;
}

uint64_t ol_pending_memory_usage(const ol_pending *pending) {
    uint64_t bytes = sizeof *pending;
    bytes += pending->capacity *
             (sizeof *pending->producers + sizeof *pending->order + sizeof *pending->free_places);
    bytes += pending->places.capacity * sizeof(ol_int64_map_entry);
    for (int chain = 0; chain < CHAIN_COUNT; chain++) {
        bytes += pending->heads[chain].capacity * sizeof(ol_int64_map_entry);
    }
    for (uint32_t place = 0; place < pending->producer_count; place++) {
        const producer_entries *producer = pending->producers[place];
        if (producer != NULL) {
            bytes += sizeof *producer + producer->capacity * sizeof *producer->entries;
        }
    }
    return bytes;
}
