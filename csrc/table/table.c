/* table/table.c: reservations, puts and removals. */
#include "table/table_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void ol_table_set_seed(ol_table *table, uint64_t seed) {
    table->seed = seed;
    table->string_pool.seed = ol_hash64_mix(seed, 1);
    table->cell_extras.seed = ol_hash64_mix(seed, 2);
}

int ol_table_create(ol_table **table, ol_error *error) {
    uint64_t seed;
    ssize_t size = getrandom(&seed, sizeof seed, 0);
    if (size != (ssize_t)sizeof seed) {
        return ol_fail_errno(error, size < 0 ? errno : EIO, "getrandom", NULL);
    }
    ol_table *created = calloc(1, sizeof *created);
    if (created == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a table");
    ol_run_allocator_init(&created->cells, sizeof(ol_cell), (uint64_t)1 << 32, true);
    ol_partition_map_init(&created->partition_map);
    ol_string_pool_init(&created->string_pool, 0);
    ol_cell_extras_init(&created->cell_extras, 0);
    ol_table_init_pairs(created);
    ol_table_set_seed(created, seed);
    *table = created;
    return OL_OK;
}

void ol_table_destroy(ol_table *table) {
    if (table == NULL) return;
    ol_run_allocator_free_all(&table->cells);
    ol_arena_free(&table->pairs);
    ol_partition_map_free_all(&table->partition_map);
    ol_string_pool_free_all(&table->string_pool);
    ol_cell_extras_free_all(&table->cell_extras);
    ol_hash_index_free(&table->pair_index);
    ol_hash_index_free(&table->group_index);
    free(table);
}

uint64_t ol_table_group_hash(const ol_table *table, ol_slice group) {
    return ol_hash64(group.data, group.size, table->seed);
}

ol_pair_name ol_table_name(const ol_table *table, ol_slice group, uint64_t group_hash,
                           ol_slice topic) {
    (void)table;
    return (ol_pair_name){group, topic, group_hash, ol_hash64(topic.data, topic.size, group_hash)};
}

/* ------------------------------------------------------------------------ references of a value */

/* References and decisions made before a value is written, so that writing it cannot fail. */
typedef struct value_needs {
    uint32_t metadata;          /* a reference */
    uint32_t topic_id;  /* a reference to a string of only this id; 0: none, or the pair's */
    uint32_t pair_topic;  /* a reference to the pair's next topic string; 0: the topic stays */
    bool pair_id;               /* the value carries the pair's id, once pair_topic is set */
} value_needs;

static void release_prepared(ol_table *table, const value_needs *prepared) {
    ol_string_pool_release(&table->string_pool, prepared->metadata);
    ol_string_pool_release(&table->string_pool, prepared->topic_id);
    ol_string_pool_release(&table->string_pool, prepared->pair_topic);
}

enum { CHUNKS_INSPECTED_MAX = 64 };

/* Returns whether the pair can take another topic id: no cell other than `except` carries the
 * present one.  Inspects at most 256 cells.  If these do not decide it, the answer is no, and the
 * value gets an extras entry, which is equally correct. */
static bool id_is_unused(const ol_table *table, uint32_t pair, const ol_cell *except) {
    const ol_chunk *root = &ol_table_pair(table, pair)->root;
    if (ol_string_pool_topic_id(&table->string_pool, ol_table_pair(table, pair)->topic) == NULL) {
        return true;
    }
    ol_chunk_walk walk = {0};
    const ol_chunk *chunk;
    uint32_t number, inspected = 0;
    for (; (chunk = ol_partition_map_at(&table->partition_map, root, &walk, &number)) != NULL;
         walk.place++) {
        if (inspected++ == CHUNKS_INSPECTED_MAX) return false;
        for (unsigned i = 0; i < ol_table_ones(chunk->bitmap); i++) {
            const ol_cell *cell = (const ol_cell *)table->cells.units.base + chunk->run + i;
            if (cell != except && (cell->metadata & OL_CELL_TOPIC_ID) &&
                cell->metadata != OL_CELL_ABSENT) {
                return false;
            }
        }
    }
    return true;
}

static int prepare_id(ol_table *table, uint32_t pair, const ol_cell *except,
                      const uint8_t *topic_id, value_needs *prepared, ol_error *error) {
    uint32_t topic = ol_table_pair(table, pair)->topic;
    prepared->pair_id = ol_table_has_id(table, topic, topic_id);
    if (prepared->pair_id) return OL_OK;
    if (!id_is_unused(table, pair, except)) {
        return ol_string_pool_intern(&table->string_pool, ol_slice_of("", 0), topic_id,
                                     &prepared->topic_id, error);
    }
    prepared->pair_id = true;
    ol_slice name = ol_string_pool_get(&table->string_pool, topic);
    return ol_string_pool_intern(&table->string_pool, name, topic_id, &prepared->pair_topic, error);
}

/* Copies the value's topic id: it may be in the arena of strings, like everything read from the
 * table, and adding a string may move that arena. */
static const uint8_t *copy_id(const uint8_t *topic_id, uint8_t *copy) {
    return topic_id == NULL ? NULL : memcpy(copy, topic_id, OL_STRING_ID_SIZE);
}

static int prepare(ol_table *table, uint32_t pair, const ol_cell *except,
                   const ol_position_value *value, value_needs *prepared, ol_error *error) {
    uint8_t copy[OL_STRING_ID_SIZE];
    const uint8_t *topic_id = copy_id(value->topic_id, copy);
    memset(prepared, 0, sizeof *prepared);
    int status = ol_string_pool_intern(&table->string_pool, value->metadata, NULL,
                                       &prepared->metadata, error);
    if (status == OL_OK && topic_id != NULL) {
        status = prepare_id(table, pair, except, topic_id, prepared, error);
    }
    if (status != OL_OK) release_prepared(table, prepared);
    return status;
}

static void set_pair_topic(ol_table *table, uint32_t pair, uint32_t topic) {
    if (topic == 0) return;
    ol_pair *record = ol_table_pair(table, pair);
    ol_string_pool_release(&table->string_pool, record->topic);
    record->topic = topic;
}

/* ------------------------------------------------------------------------------- writing a cell */

static void clear_side(ol_table *table, ol_cell_extras_entry *entry) {
    ol_string_pool_release(&table->string_pool, entry->topic_id);
    entry->topic_id = 0;
    entry->expire_timestamp = -1;
}

/* Makes a cell absent, whatever it was; dropping its extras entry is left to the caller. */
static void clear_cell(ol_table *table, ol_cell *cell, ol_cell_extras_entry *entry) {
    if (ol_table_is_absent(cell)) return;
    ol_table_mark(table, cell);
    ol_string_pool_release(&table->string_pool, cell->metadata & OL_CELL_METADATA);
    if (cell->metadata & OL_CELL_EXTRAS) clear_side(table, entry);
    cell->metadata = OL_CELL_ABSENT;
    table->count--;
    table->absent_count++;
}

/* Writes a value for which everything was prepared.  `entry` is the cell's extras entry; NULL only
 * if neither the old nor the new value needs one. */
static void write_cell(ol_table *table, ol_cell *cell, ol_cell_extras_entry *entry,
                       const ol_position_value *value, int64_t expire_timestamp,
                       const value_needs *prepared) {
    clear_cell(table, cell, entry);
    ol_table_mark(table, cell);
    uint32_t flags = prepared->pair_id ? OL_CELL_TOPIC_ID : 0;
    if (prepared->topic_id != 0) {
        entry->topic_id = prepared->topic_id;
        flags |= OL_CELL_EXTRAS;
    }
    if (expire_timestamp != -1) {
        entry->expire_timestamp = expire_timestamp;
        flags |= OL_CELL_EXTRAS;
    }
    cell->offset = value->offset;
    cell->log_offset = value->log_offset;
    cell->commit_timestamp = value->commit_timestamp;
    cell->leader_epoch = value->leader_epoch;
    cell->metadata = prepared->metadata | flags;
    table->count++;
    table->absent_count--;
}

/* Drops whatever no value and no reservation needs any more.  Frees an absent cell, and the pair
 * with its last one. */
static void sweep(ol_table *table, uint32_t pair, int32_t partition, const ol_cell *cell,
                  ol_cell_extras_entry *entry) {
    uint32_t pins = entry != NULL ? entry->pins : 0;
    if (pins != 0) return;
    bool absent = ol_table_is_absent(cell);
    if (entry != NULL && (absent || !(cell->metadata & OL_CELL_EXTRAS))) {
        ol_cell_extras_drop(&table->cell_extras, entry);
    }
    if (absent) ol_table_free_cell(table, pair, partition);
}

static ol_cell_extras_entry *find_side(const ol_table *table, uint32_t pair, int32_t partition) {
    return ol_cell_extras_find(&table->cell_extras, ol_cell_extras_key(pair, partition));
}

/* ------------------------------------------------------------------------------------------ put */

bool ol_table_drop_empty_pair(ol_table *table, uint32_t pair) {
    const ol_pair *record = ol_table_pair(table, pair);
    if (record->root.bitmap != 0 || record->root.run != 0) return false;
    ol_table_free_pair(table, pair);
    return true;
}

/* Undoes the additions of a call that failed: a pair without cells, an absent cell that no
 * reservation pins. */
static void undo(ol_table *table, uint32_t pair, int32_t partition) {
    if (pair == 0 || ol_table_drop_empty_pair(table, pair)) return;
    const ol_cell *cell = ol_table_find_cell(table, pair, partition);
    ol_cell_extras_entry *entry = find_side(table, pair, partition);
    if (cell != NULL) sweep(table, pair, partition, cell, entry);
}

/* Finds or makes the pair and the cell; on failure the caller undoes. */
static int make_cell(ol_table *table, const ol_pair_name *name, int32_t partition, uint32_t *pair,
                     ol_cell **cell, ol_error *error) {
    if (*pair == 0) {
        int status = ol_table_add_pair(table, name, pair, error);
        if (status != OL_OK) return status;
    }
    *cell = ol_table_find_cell(table, *pair, partition);
    if (*cell != NULL) return OL_OK;
    return ol_table_add_cell(table, *pair, partition, cell, error);
}

static int put_anything(ol_table *table, const ol_pair_name *name, uint32_t pair, int32_t partition,
                        const ol_position_value *value, ol_error *error) {
    ol_cell *cell;
    ol_cell_extras_entry *entry = NULL;
    value_needs prepared;
    int status = make_cell(table, name, partition, &pair, &cell, error);
    if (status == OL_OK) status = prepare(table, pair, cell, value, &prepared, error);
    if (status != OL_OK) {
        undo(table, pair, partition);
        return status;
    }
    if (prepared.topic_id != 0 || value->expire_timestamp != -1) {
        status = ol_cell_extras_make(&table->cell_extras, ol_cell_extras_key(pair, partition),
                                     &entry, error);
        if (status != OL_OK) {
            release_prepared(table, &prepared);
            undo(table, pair, partition);
            return status;
        }
    } else if (!ol_table_is_absent(cell) && (cell->metadata & OL_CELL_EXTRAS)) {
        entry = find_side(table, pair, partition);
    }
    set_pair_topic(table, pair, prepared.pair_topic);
    write_cell(table, cell, entry, value, value->expire_timestamp, &prepared);
    if (entry != NULL) sweep(table, pair, partition, cell, entry);
    table->last_pair = pair;
    table->last_hash = name->hash;
    return OL_OK;
}

uint32_t ol_table_find(const ol_table *table, const ol_pair_name *name) {
    uint32_t pair = table->last_pair;
    if (pair != 0 && table->last_hash == name->hash &&
        ol_table_pair_is(table, ol_table_pair(table, pair), name)) {
        return pair;
    }
    return ol_table_find_pair(table, name);
}

uint32_t ol_table_find_hinted(const ol_table *table, uint32_t hint, const ol_pair_name *name) {
    if (hint != 0 && ol_table_pair_is(table, ol_table_pair(table, hint), name)) return hint;
    return ol_table_find(table, name);
}

int ol_table_put_at(ol_table *table, uint32_t pair, const ol_pair_name *name, int32_t partition,
                    const ol_position_value *value, ol_error *error) {
    table->changes++;
    uint32_t metadata;
    ol_cell *cell = pair != 0 ? ol_table_find_cell(table, pair, partition) : NULL;
    if (cell == NULL || !ol_table_is_plain(table, pair, cell, value, &metadata)) {
        return put_anything(table, name, pair, partition, value, error);
    }
    ol_table_store_plain(table, cell, value, metadata);
    table->last_pair = pair;
    table->last_hash = name->hash;
    return OL_OK;
}

uint32_t ol_table_settled(const ol_table *table, const ol_pair_name *name, int32_t partition,
                          const ol_position_value *value) {
    uint32_t pair = ol_table_find(table, name), metadata;
    const ol_cell *cell = pair != 0 ? ol_table_find_cell(table, pair, partition) : NULL;
    return cell != NULL && ol_table_is_plain(table, pair, cell, value, &metadata) ? pair : 0;
}

int ol_table_put(ol_table *table, const ol_pair_name *name, int32_t partition,
                 const ol_position_value *value, ol_error *error) {
    return ol_table_put_at(table, ol_table_find(table, name), name, partition, value, error);
}

int ol_table_put_hinted(ol_table *table, uint32_t pair, const ol_pair_name *name, int32_t partition,
                        const ol_position_value *value, ol_error *error) {
    return ol_table_put_at(table, ol_table_find_hinted(table, pair, name), name, partition, value,
                           error);
}

/* --------------------------------------------------------------------------------- reservations */

/* A reservation always holds its id as a separate string: the pair may take another id before the
 * value is installed. */
static int prepare_reserved_id(ol_table *table, uint32_t pair, const uint8_t *topic_id,
                               value_needs *prepared, ol_error *error) {
    prepared->topic_id = 0;
    int status = prepare_id(table, pair, NULL, topic_id, prepared, error);
    if (status != OL_OK || prepared->topic_id != 0) return status;
    return ol_string_pool_intern(&table->string_pool, ol_slice_of("", 0), topic_id,
                                 &prepared->topic_id, error);
}

int ol_table_reserve(ol_table *table, const ol_pair_name *name, int32_t partition,
                     const ol_position_value *value, ol_reservation *reservation, ol_error *error) {
    table->changes++;
    uint8_t copy[OL_STRING_ID_SIZE];
    const uint8_t *topic_id = copy_id(value->topic_id, copy);
    uint32_t pair = ol_table_find(table, name);
    ol_cell *cell;
    ol_cell_extras_entry *entry = NULL;
    value_needs prepared = {0};
    int status = make_cell(table, name, partition, &pair, &cell, error);
    if (status == OL_OK) {
        status = ol_string_pool_intern(&table->string_pool, value->metadata, NULL,
                                       &prepared.metadata, error);
    }
    if (status == OL_OK && topic_id != NULL) {
        status = prepare_reserved_id(table, pair, topic_id, &prepared, error);
    }
    if (status == OL_OK) {
        status = ol_cell_extras_make(&table->cell_extras, ol_cell_extras_key(pair, partition),
                                     &entry, error);
    }
    if (status != OL_OK) {
        release_prepared(table, &prepared);
        undo(table, pair, partition);
        return status;
    }
    set_pair_topic(table, pair, prepared.pair_topic);
    entry->pins++;
    table->cell_extras.pins++;
    *reservation = (ol_reservation){
        .pair = pair,
        .partition = partition,
        .metadata = prepared.metadata,
        .topic_id = prepared.topic_id,
        .expire_timestamp = value->expire_timestamp,
    };
    return OL_OK;
}

static void unpin(ol_table *table, const ol_reservation *reservation, const ol_cell *cell,
                  ol_cell_extras_entry *entry) {
    OL_ASSERT(entry->pins != 0 && table->cell_extras.pins != 0);
    entry->pins--;
    table->cell_extras.pins--;
    sweep(table, reservation->pair, reservation->partition, cell, entry);
}

static void find_reserved(const ol_table *table, const ol_reservation *reservation, ol_cell **cell,
                          ol_cell_extras_entry **entry) {
    *cell = ol_table_find_cell(table, reservation->pair, reservation->partition);
    *entry = find_side(table, reservation->pair, reservation->partition);
    OL_ASSERT(*cell != NULL && *entry != NULL && (*entry)->pins != 0);
}

void ol_table_install(ol_table *table, const ol_reservation *reservation,
                      const ol_position_value *value) {
    table->changes++;
    ol_cell *cell;
    ol_cell_extras_entry *entry;
    find_reserved(table, reservation, &cell, &entry);
    value_needs prepared = {.metadata = reservation->metadata, .topic_id = reservation->topic_id};
    if (prepared.topic_id != 0) {
        const uint8_t *topic_id = ol_string_pool_topic_id(&table->string_pool, prepared.topic_id);
        if (ol_table_has_id(table, ol_table_pair(table, reservation->pair)->topic, topic_id)) {
            ol_string_pool_release(&table->string_pool, prepared.topic_id);
            prepared.topic_id = 0;
            prepared.pair_id = true;
        }
    }
    write_cell(table, cell, entry, value, reservation->expire_timestamp, &prepared);
    unpin(table, reservation, cell, entry);
}

bool ol_table_install_if_newer(ol_table *table, const ol_reservation *reservation,
                               const ol_position_value *value) {
    ol_cell *cell;
    ol_cell_extras_entry *entry;
    find_reserved(table, reservation, &cell, &entry);
    bool newer = entry->tombstone < value->log_offset &&
                 (ol_table_is_absent(cell) || cell->log_offset < value->log_offset);
    if (newer) {
        ol_table_install(table, reservation, value);
    } else {
        ol_table_release(table, reservation);
    }
    return newer;
}

void ol_table_release(ol_table *table, const ol_reservation *reservation) {
    table->changes++;
    ol_cell *cell;
    ol_cell_extras_entry *entry;
    find_reserved(table, reservation, &cell, &entry);
    ol_string_pool_release(&table->string_pool, reservation->metadata);
    ol_string_pool_release(&table->string_pool, reservation->topic_id);
    unpin(table, reservation, cell, entry);
}

bool ol_table_remove(ol_table *table, const ol_pair_name *name, int32_t partition,
                     int64_t log_offset) {
    uint32_t pair = ol_table_find(table, name);
    ol_cell *cell = pair != 0 ? ol_table_find_cell(table, pair, partition) : NULL;
    if (cell == NULL) return false;
    table->changes++;
    bool present = !ol_table_is_absent(cell);
    ol_cell_extras_entry *entry = NULL;
    if (table->cell_extras.pins != 0 || (present && (cell->metadata & OL_CELL_EXTRAS))) {
        entry = find_side(table, pair, partition);
    }
    clear_cell(table, cell, entry);
    if (entry != NULL && entry->pins != 0 && log_offset > entry->tombstone) {
        entry->tombstone = log_offset;
    }
    sweep(table, pair, partition, cell, entry);
    return present;
}
