/* table/table_impl: the records of a table, and how a cell is found.
 *
 * The files of this folder and the code that checks a table (table/validate) include this header.
 * The rules of table/table.h apply. */
#ifndef OL_TABLE_TABLE_IMPL_H
#define OL_TABLE_TABLE_IMPL_H

#include <string.h>

#include "table/partition_map.h"
#include "table/cell_extras.h"
#include "table/string_pool.h"
#include "table/table.h"

/* -------------------------------------------------------------------------------------- records */

typedef struct ol_cell {
    int64_t offset;
    int64_t log_offset;         /* log offset of the record that has the value; not used if the cell
                                   is absent */
    int64_t commit_timestamp;
    int32_t leader_epoch;
    uint32_t metadata;  /* number of the metadata string, with two flags; or OL_CELL_ABSENT */
} ol_cell;

_Static_assert(sizeof(ol_cell) == 32, "two cells are a cache line");

#define OL_CELL_EXTRAS 0x80000000u  /* the cell has an entry in cell_extras with an expire timestamp
                                       or a topic id */
#define OL_CELL_TOPIC_ID 0x40000000u    /* the cell has the topic id of its pair */
#define OL_CELL_METADATA 0x3fffffffu
/* The cell is reserved, or its value was removed while a reservation pins it.  No read sees it. */
#define OL_CELL_ABSENT 0x3fffffffu

_Static_assert(OL_STRING_NUMBER_MAX < OL_CELL_ABSENT,
               "no string is named as an absent cell is marked");

typedef struct ol_pair {
    uint32_t group;  /* number of the string with the group's name; it is the same in all pairs of
                        the group */
    uint32_t topic;  /* number of the string with the topic's name and the pair's topic id;
                        OL_PAIR_FREE: the pair is not in use */
    uint32_t next;              /* the next pair of the same group, or 0; if this pair is free: the
                                   next free pair */
    uint32_t previous;          /* the previous pair of the same group; 0: this pair is the first
                                   one, which group_index contains */
    ol_chunk root;
} ol_pair;

_Static_assert(sizeof(ol_pair) == 24, "the account of memory in docs/table.md counts on it");

#define OL_PAIR_FREE UINT32_MAX
enum { OL_PAIR_BITS = 27 };

struct ol_table {
    ol_run_allocator cells;
    ol_arena pairs;             /* pair 0 is not used */
    ol_partition_map partition_map;
    ol_string_pool string_pool;
    ol_cell_extras cell_extras;
    ol_hash_index pair_index;
    ol_hash_index group_index;  /* the first pair of each group, by the hash of the group's name */
    uint64_t seed;
    uint64_t changes;
    uint64_t count;             /* committed positions */
    uint64_t absent_count;      /* absent cells */
    uint64_t last_hash;         /* hash of the pair of the last put */
    uint32_t last_pair;         /* number of that pair; 0: none */
    uint32_t free_pair;
    uint32_t free_pair_count;
    /* Set while a copy is made (table/copy.h).  `marks` has one bit for each page of cells, which
     * is set if the page has changed since it was copied.  marked_count is the number of these
     * pages, and copied_pages is the number of pages that have been copied so far. */
    uint64_t *marks;
    uint32_t marked_count;
    uint32_t copied_pages;
};

/* -------------------------------------------------------------------------------------- finding */

static inline ol_pair *ol_table_pair(const ol_table *table, uint32_t pair) {
    return (ol_pair *)table->pairs.base + pair;
}

static inline uint32_t ol_table_pair_limit(const ol_table *table) {
    return (uint32_t)(table->pairs.used / sizeof(ol_pair));
}

static inline bool ol_table_pair_is(const ol_table *table, const ol_pair *pair,
                                    const ol_pair_name *name) {
    return ol_string_pool_equal(&table->string_pool, pair->topic, name->topic) &&
           ol_string_pool_equal(&table->string_pool, pair->group, name->group);
}

/* Returns the number of the pair, or 0. */
static inline uint32_t ol_table_find_pair(const ol_table *table, const ol_pair_name *name) {
    ol_hash_index_probe probe = ol_hash_index_probe_begin(&table->pair_index, name->hash);
    uint32_t pair;
    while ((pair = ol_hash_index_probe_next(&probe)) != 0) {
        if (ol_table_pair_is(table, ol_table_pair(table, pair), name)) break;
    }
    return pair;
}

/* Returns the first pair of a group, or 0. */
uint32_t ol_table_find_group(const ol_table *table, ol_slice group, uint64_t group_hash);

/* Returns how many bits are set in the bitmap of a chunk.  The constant contains the sixteen
 * answers, with 4 bits each. */
static inline unsigned ol_table_ones(uint32_t bitmap) {
    return 0x4332322132212110u >> (bitmap * 4) & 7;
}

/* Returns how many units are allocated for a run of this many cells. */
static inline unsigned ol_table_run_capacity(unsigned cells) {
    return cells == 3 ? 4 : cells;
}

static inline ol_cell *ol_table_cell_at(const ol_table *table, const ol_chunk *chunk,
                                        unsigned bit) {
    return (ol_cell *)table->cells.units.base + chunk->run +
           ol_table_ones(chunk->bitmap & ((1u << bit) - 1));
}

/* Returns the cell of a partition, which may be absent (ol_table_is_absent).  Returns NULL if the
 * partition has no cell. */
static inline ol_cell *ol_table_find_cell(const ol_table *table, uint32_t pair, int32_t partition) {
    ol_chunk *chunk = ol_partition_map_find(
        &table->partition_map, &ol_table_pair(table, pair)->root, ol_chunk_number(partition));
    unsigned bit = (uint32_t)partition % OL_CHUNK_PARTITIONS;
    if (chunk == NULL || !(chunk->bitmap >> bit & 1)) return NULL;
    return ol_table_cell_at(table, chunk, bit);
}

static inline bool ol_table_is_absent(const ol_cell *cell) {
    return cell->metadata == OL_CELL_ABSENT;
}

/* -------------------------------------------------------------------------------------- storing */

static inline bool ol_table_has_id(const ol_table *table, uint32_t string,
                                   const uint8_t *topic_id) {
    const uint8_t *own = ol_string_pool_topic_id(&table->string_pool, string);
    return own != NULL && memcmp(own, topic_id, OL_STRING_ID_SIZE) == 0;
}

/* Returns whether ol_table_store_plain can store the value into the cell, without any other change
 * to the table.  In that case, sets *metadata to the argument `metadata` of that call. */
static inline bool ol_table_is_plain(const ol_table *table, uint32_t pair, const ol_cell *cell,
                                     const ol_position_value *value, uint32_t *metadata) {
    uint32_t string = cell->metadata & OL_CELL_METADATA;
    if ((cell->metadata & OL_CELL_EXTRAS) || string == OL_CELL_ABSENT ||
        value->expire_timestamp != -1) {
        return false;
    }
    if (string == 0 ? value->metadata.size != 0
                    : !ol_string_pool_equal(&table->string_pool, string, value->metadata)) {
        return false;
    }
    *metadata = string;
    if (value->topic_id == NULL) return true;
    *metadata |= OL_CELL_TOPIC_ID;
    return ol_table_has_id(table, ol_table_pair(table, pair)->topic, value->topic_id);
}

/* table/copy.c */
void ol_table_mark_page(ol_table *table, const ol_cell *cell);

/* Must be called before or after each change of a cell.  If several cells of one run change, a call
 * for one of them is enough, because all cells of a run are in the same page. */
static inline void ol_table_mark(ol_table *table, const ol_cell *cell) {
    if (OL_UNLIKELY(table->copied_pages != 0)) ol_table_mark_page(table, cell);
}

static inline void ol_table_store_plain(ol_table *table, ol_cell *cell,
                                        const ol_position_value *value, uint32_t metadata) {
    ol_table_mark(table, cell);
    cell->offset = value->offset;
    cell->log_offset = value->log_offset;
    cell->commit_timestamp = value->commit_timestamp;
    cell->leader_epoch = value->leader_epoch;
    cell->metadata = metadata;
}

/* ------------------------------------------------------------------------------ pairs and cells */

/* Derives the seeds of all hashes of the table from one seed. */
void ol_table_set_seed(ol_table *table, uint64_t seed);

/* Adds a pair, which must not exist yet.  It has no cell.  The caller must add a cell or free the
 * pair. */
int ol_table_add_pair(ol_table *table, const ol_pair_name *name, uint32_t *pair, ol_error *error)
    OL_NODISCARD;
void ol_table_free_pair(ol_table *table, uint32_t pair);
void ol_table_init_pairs(ol_table *table);

/* Adds a cell for a partition that has none.  The cell is absent until a value is stored. */
int ol_table_add_cell(ol_table *table, uint32_t pair, int32_t partition, ol_cell **cell,
                      ol_error *error) OL_NODISCARD;
/* Frees an absent cell.  If it was the last cell of its pair, also frees the pair. */
void ol_table_free_cell(ol_table *table, uint32_t pair, int32_t partition);

/* Puts a value as ol_table_put does.  `pair` is the result of looking the pair up; 0 means that it
 * does not exist. */
int ol_table_put_at(ol_table *table, uint32_t pair, const ol_pair_name *name, int32_t partition,
                    const ol_position_value *value, ol_error *error) OL_NODISCARD;
/* Frees a pair if it has no cell.  Returns whether it was freed. */
bool ol_table_drop_empty_pair(ol_table *table, uint32_t pair);

/* Fills *value from a cell that is not absent. */
void ol_table_read_cell(const ol_table *table, uint32_t pair, int32_t partition,
                        const ol_cell *cell, ol_position_value *value);

#endif
