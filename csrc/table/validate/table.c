/* table/validate/table.c: validation of a table that came from a file.
 *
 * Several workers check ranges of pairs, each with its own bits and sums.  A worker takes 32 pairs
 * at a time.  It prefetches their names, lines of the hash index, arrays of chunks and cells, so
 * that the cache misses overlap.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/parallel.h"
#include "table/validate/ownership.h"
#include "table/dump.h"
#include "table/table_impl.h"

enum {
    BATCH_PAIRS = 32,
    RANGE_PAIRS = 1 << 14,
    CELLS_AHEAD = 6,                /* chunks between the prefetch of a run and its check */
    PIECES_OF_TASK = 256,
};

typedef struct worker {
    const ol_table *table;
    uint64_t key;
    const char *wrong;              /* the first fault found */
    ol_ownership_bits cells;
    ol_partition_map_bits partition_map;
    uint64_t references;            /* sum of the marks of strings, one for each use */
    uint64_t pairs, heads, present, absent, with_extras;
    ol_hash_index_tally pair_items, group_items, pair_lines, group_lines;
    uint32_t last_group;            /* the group of last_hash */
    uint64_t last_group_hash;
} worker;

typedef struct check {
    const ol_table *table;
    worker workers[OL_PARALLEL_WORKERS_MAX];
    unsigned worker_count;
    /* units of work: ranges of pairs, then of the hash of pairs, then of that of groups */
    size_t ranges, pair_tasks;
} check;

static bool is_living(const ol_table *table, uint32_t pair) {
    return pair != 0 && pair < ol_table_pair_limit(table) &&
           ol_table_pair(table, pair)->topic != OL_PAIR_FREE;
}

/* The compiler takes a function that only prefetches for one without effect and drops its calls,
 * unless it is inline. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE void prefetch(const void *base, size_t position) {
    __builtin_prefetch((const void *)((uintptr_t)base + position));
}

/* ---------------------------------------------------------------------------------------- cells */

static bool check_marked_cells(worker *work, uint32_t pair, const ol_cell *cells, unsigned count) {
    const ol_table *table = work->table;
    for (unsigned i = 0; i < count; i++) {
        uint32_t string = cells[i].metadata & OL_CELL_METADATA;
        if (ol_table_is_absent(&cells[i])) {
            work->absent++;
            work->present--;
            continue;
        }
        if (string != 0) work->references += ol_ownership_mark(work->key, string);
        work->with_extras += cells[i].metadata >> 31;
        if ((cells[i].metadata & OL_CELL_TOPIC_ID) &&
            ol_string_pool_topic_id(&table->string_pool, ol_table_pair(table, pair)->topic) ==
                NULL) {
            return false;
        }
    }
    return true;
}

static bool check_run(worker *work, uint32_t pair, const ol_chunk *chunk) {
    if (OL_UNLIKELY(chunk->bitmap >> OL_CHUNK_PARTITIONS != 0)) return false;
    unsigned count = ol_table_ones(chunk->bitmap), capacity = ol_table_run_capacity(count);
    if (OL_UNLIKELY(chunk->run % capacity != 0 ||
                    !ol_ownership_take_aligned(&work->cells, chunk->run, capacity))) {
        return false;
    }
    const ol_cell *cells = (const ol_cell *)work->table->cells.units.base + chunk->run;
    uint32_t any = 0;
    for (unsigned i = 0; i < count; i++) any |= cells[i].metadata;
    work->present += count;
    return any == 0 || check_marked_cells(work, pair, cells, count);
}

static bool check_leaf(worker *work, uint32_t number, const ol_chunk_array *leaf) {
    const void *cells = work->table->cells.units.base;
    for (uint32_t i = 0; i < leaf->count; i++) {
        if (i + CELLS_AHEAD < leaf->count) {
            prefetch(cells, leaf->chunk[i + CELLS_AHEAD].run * sizeof(ol_cell) + 28);
        }
        if (leaf->chunk[i].bitmap != 0 && !check_run(work, number, &leaf->chunk[i])) return false;
    }
    return true;
}

static bool check_chunks(worker *work, uint32_t number, const ol_pair *pair) {
    const ol_partition_map *partition_map = &work->table->partition_map;
    if (OL_LIKELY(pair->root.bitmap != 0)) return check_run(work, number, &pair->root);
    if (!ol_partition_map_validate_root(partition_map, &pair->root, &work->partition_map)) {
        return false;
    }
    uint32_t name = ol_partition_map_first_leaf(partition_map, &pair->root);
    while (name != 0) {
        ol_chunk named = {.run = name};
        const ol_chunk_array *leaf = ol_partition_map_array(partition_map, &named);
        if (!check_leaf(work, number, leaf)) return false;
        name = ol_partition_map_next_leaf(partition_map, &pair->root,
                                          ol_chunk_array_number(leaf, leaf->count - 1));
    }
    return true;
}

/* ---------------------------------------------------------------------------------------- pairs */

static uint64_t hash_group(worker *work, uint32_t group) {
    if (group != work->last_group || group == 0) {
        work->last_group = group;
        work->last_group_hash = ol_table_group_hash(
            work->table, ol_string_pool_get(&work->table->string_pool, group));
    }
    return work->last_group_hash;
}

/* Neighbours in the chain of a group agree, so a walk from a first pair ends. */
static bool are_links_sound(const ol_table *table, uint32_t number, const ol_pair *pair) {
    if (pair->next != 0 &&
        (!is_living(table, pair->next) || ol_table_pair(table, pair->next)->previous != number ||
         ol_table_pair(table, pair->next)->group != pair->group)) {
        return false;
    }
    return pair->previous == 0 || (is_living(table, pair->previous) &&
                                   ol_table_pair(table, pair->previous)->next == number);
}

/* Prefetches the memory that the pair's own memory leads to. */
ALWAYS_INLINE void fetch_names(const ol_table *table, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        const ol_pair *pair = ol_table_pair(table, i);
        prefetch(table->string_pool.arena.base, (size_t)pair->group * OL_STRING_UNIT_SIZE);
        prefetch(table->string_pool.arena.base, (size_t)pair->topic * OL_STRING_UNIT_SIZE);
        if (pair->root.bitmap != 0) {
            prefetch(table->cells.units.base, pair->root.run * sizeof(ol_cell) + 28);
        } else {
            const ol_arena *arena = pair->root.run & OL_PARTITION_MAP_LARGE
                                        ? &table->partition_map.large
                                        : &table->partition_map.small.units;
            prefetch(arena->base,
                     (size_t)(pair->root.run & ~OL_PARTITION_MAP_LARGE) * sizeof(ol_chunk));
        }
    }
}

static bool hash_names(worker *work, uint32_t first, uint32_t end, uint64_t *hashes) {
    const ol_table *table = work->table;
    for (uint32_t i = first; i < end; i++) {
        const ol_pair *pair = ol_table_pair(table, i);
        if (pair->topic == OL_PAIR_FREE) continue;
        if (!ol_string_pool_is_within(&table->string_pool, pair->group) ||
            !ol_string_pool_is_within(&table->string_pool, pair->topic)) {
            return false;
        }
        ol_slice topic = ol_string_pool_get(&table->string_pool, pair->topic);
        uint64_t hash = ol_hash64(topic.data, topic.size, hash_group(work, pair->group));
        hashes[i - first] = hash;
        if (table->pair_index.pieces.used == 0) return false;
        if (table->pair_index.depth != 0) {
            prefetch(table->pair_index.directory.base,
                     (hash >> (64 - table->pair_index.depth)) * sizeof(uint32_t));
        }
    }
    return true;
}

/* Prefetches the memory that a hash leads to, one step for the whole batch before the next step. */
ALWAYS_INLINE void fetch_lines(const ol_hash_index *hash_index, const uint64_t *hashes,
                               uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        __builtin_prefetch(ol_hash_index_piece_of(hash_index, hashes[i]));
    }
    for (uint32_t i = 0; i < count; i++) {
        const ol_hash_index_piece *piece = ol_hash_index_piece_of(hash_index, hashes[i]);
        __builtin_prefetch(
            ol_hash_index_line_at(hash_index, piece, ol_hash_index_home(piece, hashes[i])));
    }
}

static const char *check_pair(worker *work, uint32_t number, uint64_t hash) {
    const ol_table *table = work->table;
    const ol_pair *pair = ol_table_pair(table, number);
    work->pairs++;
    if (pair->group != 0) work->references += ol_ownership_mark(work->key, pair->group);
    if (pair->topic != 0) work->references += ol_ownership_mark(work->key, pair->topic);
    if (!are_links_sound(table, number, pair)) {
        return "the chain of a group's topics is inconsistent";
    }
    if (!ol_hash_index_validate_item(&table->pair_index, hash, number, work->key,
                                     &work->pair_items)) {
        return "a topic of a group is not in the hash";
    }
    if (pair->previous == 0) {
        work->heads++;
        if (!ol_hash_index_validate_item(&table->group_index, hash_group(work, pair->group), number,
                                         work->key, &work->group_items)) {
            return "a group is not in the hash";
        }
    }
    return check_chunks(work, number, pair) ? NULL : "the positions of a topic are inconsistent";
}

/* Computes the hashes of [first, end) and prefetches everything that their checks touch. */
static void prepare_pairs(worker *work, uint32_t first, uint32_t end,
                          uint64_t hashes[BATCH_PAIRS]) {
    const ol_hash_index *hash_index = &work->table->pair_index;
    fetch_names(work->table, first, end);
    memset(hashes, 0, BATCH_PAIRS * sizeof *hashes);
    if (!hash_names(work, first, end, hashes)) {
        work->wrong = "the name of a topic or group is invalid";
    } else if (hash_index->pieces.used != 0) {
        fetch_lines(hash_index, hashes, end - first);
    }
}

/* Prepares the next batch before it checks one, so that the prefetches have the time of a whole
 * batch to complete. */
static void check_pairs(worker *work, uint32_t first, uint32_t end) {
    uint64_t hashes[2][BATCH_PAIRS];
    uint32_t stop = end - first < BATCH_PAIRS ? end : first + BATCH_PAIRS;
    prepare_pairs(work, first, stop, hashes[0]);
    for (unsigned turn = 0; first < end && work->wrong == NULL; turn ^= 1) {
        uint32_t next_stop = end - stop < BATCH_PAIRS ? end : stop + BATCH_PAIRS;
        prepare_pairs(work, stop, next_stop, hashes[turn ^ 1]);
        for (uint32_t i = first; i < stop && work->wrong == NULL; i++) {
            if (ol_table_pair(work->table, i)->topic != OL_PAIR_FREE) {
                work->wrong = check_pair(work, i, hashes[turn][i - first]);
            }
        }
        first = stop;
        stop = next_stop;
    }
}

/* -------------------------------------------------------------------------------------- workers */

static size_t tasks_of(const ol_hash_index *hash_index) {
    return (ol_hash_index_pieces(hash_index) + PIECES_OF_TASK - 1) / PIECES_OF_TASK;
}

static void check_lines(worker *work, const ol_hash_index *hash_index, size_t task,
                        ol_hash_index_tally *tally) {
    size_t first = task * PIECES_OF_TASK, end = first + PIECES_OF_TASK,
           pieces = ol_hash_index_pieces(hash_index);
    if (!ol_hash_index_validate_lines(hash_index, first, end < pieces ? end : pieces, work->key,
                                      tally)) {
        work->wrong = "a piece of a hash index is inconsistent";
    }
}

static void run_piece(void *context, unsigned worker_number, size_t index) {
    check *all = context;
    worker *work = &all->workers[worker_number];
    if (work->wrong != NULL) return;
    if (index < all->ranges) {
        uint32_t limit = ol_table_pair_limit(all->table), first = (uint32_t)index * RANGE_PAIRS;
        uint32_t end = limit - first < RANGE_PAIRS ? limit : first + RANGE_PAIRS;
        check_pairs(work, first == 0 ? 1 : first, end);
    } else if (index < all->pair_tasks) {
        check_lines(work, &all->table->pair_index, index - all->ranges, &work->pair_lines);
    } else {
        check_lines(work, &all->table->group_index, index - all->pair_tasks, &work->group_lines);
    }
}

static int start_worker(worker *work, const ol_table *table, uint64_t key, ol_error *error) {
    *work = (worker){.table = table, .key = key};
    int status = ol_ownership_bits_create(
        &work->cells, (uint64_t)table->cells.page_count * OL_RUN_ALLOCATOR_PAGE_UNITS, error);
    return status != OL_OK
               ? status
               : ol_partition_map_bits_create(&table->partition_map, &work->partition_map, error);
}

static void add_tally(ol_hash_index_tally *sum, const ol_hash_index_tally *part) {
    sum->items += part->items;
    sum->passed += part->passed;
}

/* Adds the results of a worker to those of the first. */
static void merge(worker *sum, const worker *part) {
    if (sum->wrong == NULL) sum->wrong = part->wrong;
    bool apart = ol_ownership_merge(&sum->cells, &part->cells) &&
                 ol_ownership_merge(&sum->partition_map.small, &part->partition_map.small) &&
                 ol_ownership_merge(&sum->partition_map.large, &part->partition_map.large);
    if (!apart && sum->wrong == NULL) sum->wrong = "two topics share positions";
    sum->references += part->references;
    sum->pairs += part->pairs;
    sum->heads += part->heads;
    sum->present += part->present;
    sum->absent += part->absent;
    sum->with_extras += part->with_extras;
    add_tally(&sum->pair_items, &part->pair_items);
    add_tally(&sum->group_items, &part->group_items);
    add_tally(&sum->pair_lines, &part->pair_lines);
    add_tally(&sum->group_lines, &part->group_lines);
}

/* --------------------------------------------------------------------------------------- extras */

/* A string that is used as a topic id must have one. */
static bool has_id(const ol_table *table, uint32_t string) {
    return ol_string_pool_is_within(&table->string_pool, string) &&
           ol_string_pool_topic_id(&table->string_pool, string) != NULL;
}

/* The entries with a value are exactly those that cells point to, and each absent cell is pinned by
 * a reservation. */
static const char *check_extras(worker *sum, const ol_reservation *held, size_t held_count) {
    const ol_table *table = sum->table;
    uint64_t pins = 0, used = 0, absent = 0;
    uint32_t at = 0;
    for (const ol_cell_extras_entry *entry;
         (entry = ol_cell_extras_next(&table->cell_extras, &at)) != NULL;) {
        uint32_t pair = (uint32_t)(entry->key >> 32);
        const ol_cell *cell = is_living(table, pair)
                                  ? ol_table_find_cell(table, pair, (int32_t)(uint32_t)entry->key)
                                  : NULL;
        if (cell == NULL) return "an entry for extras belongs to no position";
        if (ol_cell_extras_find(&table->cell_extras, entry->key) != entry) {
            return "a position has two entries for extras";
        }
        bool holds = entry->topic_id != 0 || entry->expire_timestamp != -1;
        bool is_absent = ol_table_is_absent(cell);
        if (holds != (!is_absent && cell->metadata >> 31) || (is_absent && entry->pins == 0)) {
            return "an entry for extras contradicts its position";
        }
        if (entry->topic_id != 0) {
            if (!has_id(table, entry->topic_id) || (cell->metadata & OL_CELL_TOPIC_ID)) {
                return "a topic id is invalid";
            }
            sum->references += ol_ownership_mark(sum->key, entry->topic_id);
        }
        pins += entry->pins * ol_ownership_mark(sum->key, entry->key);
        used += holds;
        absent += is_absent;
    }
    if (used != sum->with_extras || absent != sum->absent) return "an entry for extras is missing";
    for (size_t i = 0; i < held_count; i++) {
        const ol_reservation *each = &held[i];
        pins -= ol_ownership_mark(sum->key, ol_cell_extras_key(each->pair, each->partition));
        if (each->topic_id != 0 && !has_id(table, each->topic_id)) {
            return "a pending topic id is invalid";
        }
        if (each->topic_id != 0) sum->references += ol_ownership_mark(sum->key, each->topic_id);
        if (each->metadata != 0) sum->references += ol_ownership_mark(sum->key, each->metadata);
    }
    return pins == 0 && held_count == table->cell_extras.pins
               ? NULL
               : "the space that the table reserves does not match the pending positions";
}

static bool are_free_pairs_sound(const ol_table *table, uint64_t pairs) {
    uint32_t limit = ol_table_pair_limit(table), listed = 0;
    for (uint32_t pair = table->free_pair; pair != 0; pair = ol_table_pair(table, pair)->next) {
        if (pair >= limit || ol_table_pair(table, pair)->topic != OL_PAIR_FREE ||
            ++listed > table->free_pair_count) {
            return false;
        }
    }
    return listed == table->free_pair_count &&
           (limit == 0 ? pairs == 0 : pairs + listed + 1 == limit);
}

static bool are_equal(const ol_hash_index *hash_index, const ol_hash_index_tally *items,
                      const ol_hash_index_tally *lines) {
    return items->items == lines->items && items->passed == lines->passed &&
           items->items == hash_index->count;
}

static const char *check_sums(worker *sum, const ol_reservation *held, size_t held_count,
                              uint64_t references) {
    const ol_table *table = sum->table;
    if (sum->wrong != NULL) return sum->wrong;
    const char *wrong = check_extras(sum, held, held_count);
    if (wrong != NULL) return wrong;
    if (!are_free_pairs_sound(table, sum->pairs)) return "the list of free pairs is inconsistent";
    if (!are_equal(&table->pair_index, &sum->pair_items, &sum->pair_lines) ||
        sum->pairs != sum->pair_items.items ||
        !are_equal(&table->group_index, &sum->group_items, &sum->group_lines)) {
        return "a hash index and the table hold different items";
    }
    if (!ol_run_allocator_validate_taken(&table->cells, &sum->cells)) {
        return "positions without an owner are not free";
    }
    if (!ol_partition_map_validate_taken(&table->partition_map, &sum->partition_map)) {
        return "chunks without an owner are not free";
    }
    if (sum->present != table->count || sum->absent != table->absent_count) {
        return "the count of positions is wrong";
    }
    return sum->references == references ? NULL : "the reference counts of strings are wrong";
}

/* ------------------------------------------------------------------------- the whole validation */

static int check_shapes(const ol_table *table, ol_error *error) {
    if (table->pairs.used % sizeof(ol_pair) != 0 ||
        table->pairs.used / sizeof(ol_pair) > (size_t)1 << OL_PAIR_BITS ||
        table->pairs.used == sizeof(ol_pair) || table->cells.units.used % sizeof(ol_cell) != 0) {
        return ol_fail(error, OL_CORRUPT, "the table has a wrong size");
    }
    int status = ol_run_allocator_validate(&table->cells, error);
    if (status == OL_OK) status = ol_partition_map_validate(&table->partition_map, error);
    if (status == OL_OK) status = ol_hash_index_validate_shape(&table->pair_index, error);
    if (status == OL_OK) status = ol_hash_index_validate_shape(&table->group_index, error);
    return status;
}

static int check_all(check *all, const ol_reservation *held, size_t held_count, uint64_t references,
                     ol_error *error) {
    const ol_table *table = all->table;
    all->ranges = (ol_table_pair_limit(table) + RANGE_PAIRS - 1) / RANGE_PAIRS;
    all->pair_tasks = all->ranges + tasks_of(&table->pair_index);
    ol_parallel_run(all->worker_count, all->pair_tasks + tasks_of(&table->group_index), run_piece,
                    all);
    for (unsigned i = 1; i < all->worker_count; i++) merge(&all->workers[0], &all->workers[i]);
    const char *wrong = check_sums(&all->workers[0], held, held_count, references);
    return wrong == NULL ? OL_OK : ol_fail(error, OL_CORRUPT, "%s", wrong);
}

int ol_table_validate(const ol_table *table, const ol_reservation *held, size_t held_count,
                      unsigned threads, ol_error *error) {
    uint64_t key, references = 0;
    ssize_t got = getrandom(&key, sizeof key, 0);
    if (got != (ssize_t)sizeof key) key = (uintptr_t)&key ^ table->seed;
    int status = check_shapes(table, error);
    if (status == OL_OK) {
        status = ol_string_pool_validate(&table->string_pool, key, &references, error);
    }
    if (status == OL_OK) status = ol_cell_extras_validate(&table->cell_extras, key, error);
    if (status != OL_OK) return status;
    check *all = calloc(1, sizeof *all);
    if (all == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to check a table");
    all->table = table;
    all->worker_count = threads < 1                         ? 1
                        : threads > OL_PARALLEL_WORKERS_MAX ? OL_PARALLEL_WORKERS_MAX
                                                            : threads;
    for (unsigned i = 0; i < all->worker_count && status == OL_OK; i++) {
        status = start_worker(&all->workers[i], table, key, error);
    }
    if (status == OL_OK) status = check_all(all, held, held_count, references, error);
    for (unsigned i = 0; i < all->worker_count; i++) {
        ol_ownership_bits_free(&all->workers[i].cells);
        ol_partition_map_bits_free(&all->workers[i].partition_map);
    }
    free(all);
    return status;
}
