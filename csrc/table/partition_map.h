/* table/partition_map: the chunks of 4 partition numbers of a pair, and the places of their cells.
 *
 * A pair whose only chunk is in the usual range holds it inline.  Other pairs have an array:
 * indexed by the chunk's number where the numbers are dense, sorted with the numbers beside it
 * where they are not (a hostile log may name any number).  Small arrays come from a run allocator,
 * so growth by one leaves no holes; large ones come from size classes an eighth to a quarter apart.
 *
 * Ownership: the map owns the arrays; a pair owns its root.  Locks: none.  Calls that fail change
 * nothing.
 */
#ifndef OL_TABLE_PARTITION_MAP_H
#define OL_TABLE_PARTITION_MAP_H

#include "table/run_allocator.h"

enum { OL_CHUNK_PARTITIONS = 4 };

/* The root in a pair. bitmap != 0: the only chunk. bitmap == 0: `run` names an array, or is 0 for
 * no chunk at all. */
typedef struct ol_chunk {
    uint32_t run;               /* index of its first cell */
    uint16_t bitmap;  /* bit i: partition 4 * number + i has a cell; 0 in an array: no such chunk */
    uint16_t number;            /* in a pair: the chunk number less OL_CHUNK_NUMBER_ZERO */
} ol_chunk;

_Static_assert(sizeof(ol_chunk) == 8, "the account of memory in docs/table.md counts on it");

/* The chunk number of partition 0.  Chunk numbers are ordered as partitions are. */
#define OL_CHUNK_NUMBER_ZERO 0x20000000u
static inline uint32_t ol_chunk_number(int32_t partition) {
    return ((uint32_t)partition ^ 0x80000000u) / OL_CHUNK_PARTITIONS;
}
static inline int32_t ol_chunk_partition(uint32_t number, unsigned bit) {
    return (int32_t)((number * OL_CHUNK_PARTITIONS + bit) ^ 0x80000000u);
}

typedef struct ol_chunk_array {
    uint32_t count;             /* chunks, including empty places of a dense array */
    uint32_t capacity;
    uint32_t base;              /* in a dense array: the first chunk's number */
    uint32_t living : 31;       /* chunks that exist */
    uint32_t sparse : 1;
    ol_chunk chunk[];           /* `capacity` of them; in a sparse array as many numbers follow */
} ol_chunk_array;

_Static_assert(sizeof(ol_chunk_array) == 16, "two units");

enum { OL_PARTITION_MAP_CLASS_COUNT = 128 };
#define OL_PARTITION_MAP_LARGE 0x80000000u     /* set in the name of an array that is in `large` */

typedef struct ol_partition_map {
    ol_run_allocator small;
    ol_arena large;
    uint64_t large_free_units;
    uint32_t large_free[OL_PARTITION_MAP_CLASS_COUNT];     /* unit index + 1, by size class */
} ol_partition_map;

void ol_partition_map_init(ol_partition_map *partition_map);
void ol_partition_map_free_all(ol_partition_map *partition_map);

/* Adds a chunk that does not exist yet.  `root` is the pair's; it may not lie in memory of the map.
 * OL_NO_MEMORY or OL_LIMIT. */
int ol_partition_map_add(ol_partition_map *partition_map, ol_chunk *root, uint32_t number,
                         uint32_t run, uint16_t bitmap, ol_error *error) OL_NODISCARD;
/* Makes room for `count` more chunks numbered `first` to `last`, so that adding them does not
 * rebuild the array.  The root must have a chunk already. */
int ol_partition_map_reserve(ol_partition_map *partition_map, ol_chunk *root, uint32_t first,
                             uint32_t last, uint32_t count, ol_error *error) OL_NODISCARD;
void ol_partition_map_remove(ol_partition_map *partition_map, ol_chunk *root, uint32_t number);

uint64_t ol_partition_map_resident(const ol_partition_map *partition_map);
uint64_t ol_partition_map_unused(const ol_partition_map *partition_map);

/* Marks the small units of this root in `small_used`, one bit each; returns the number of its large
 * units. */
uint64_t ol_partition_map_verify_root(const ol_partition_map *partition_map, const ol_chunk *root,
                                      uint8_t *small_used);
void ol_partition_map_verify(const ol_partition_map *partition_map, const uint8_t *small_used,
                             uint64_t large_units);

/* Validation of chunks that came from a file (table/validate/ownership.h), in three calls: the
 * parts that belong to no pair; each pair's root and the units it takes for itself; last, that
 * every unit was taken or is free. */
typedef struct ol_partition_map_bits {
    ol_ownership_bits small;
    ol_ownership_bits large;
} ol_partition_map_bits;
int ol_partition_map_bits_create(const ol_partition_map *partition_map, ol_partition_map_bits *bits,
                                 ol_error *error) OL_NODISCARD;
void ol_partition_map_bits_free(ol_partition_map_bits *bits);
int ol_partition_map_validate(const ol_partition_map *partition_map, ol_error *error) OL_NODISCARD;
bool ol_partition_map_validate_root(const ol_partition_map *partition_map, const ol_chunk *root,
                                    ol_partition_map_bits *bits);
bool ol_partition_map_validate_taken(const ol_partition_map *partition_map,
                                     ol_partition_map_bits *bits);

/* The units that an array of this capacity takes, and the size class of large ones: 4, 5, 6 or 7
 * times a power of two. */
enum { OL_PARTITION_MAP_HEADER_UNITS = 2 };
static inline uint64_t ol_partition_map_units(uint64_t capacity, bool sparse) {
    return OL_PARTITION_MAP_HEADER_UNITS + capacity + (sparse ? (capacity + 1) / 2 : 0);
}
unsigned ol_partition_map_class(uint64_t units, uint64_t *class_units);

/* -------------------------------------------------------------------------------------- reading */

static inline ol_chunk_array *ol_partition_map_array(const ol_partition_map *partition_map,
                                                     const ol_chunk *root) {
    const ol_arena *arena = root->run & OL_PARTITION_MAP_LARGE ? &partition_map->large
                                                               : &partition_map->small.units;
    return (ol_chunk_array *)(arena->base +
                              (size_t)(root->run & ~OL_PARTITION_MAP_LARGE) * sizeof(ol_chunk));
}

static inline uint32_t *ol_partition_map_numbers(ol_chunk_array *array) {
    return (uint32_t *)(array->chunk + array->capacity);
}

/* Index of the first chunk of a sparse array whose number is at or above `number`. */
uint32_t ol_partition_map_lower_bound(ol_chunk_array *array, uint32_t number);

/* The chunk of this number, or NULL.  Its bitmap is not 0. */
static inline ol_chunk *ol_partition_map_find(const ol_partition_map *partition_map, ol_chunk *root,
                                              uint32_t number) {
    if (root->bitmap != 0) return number - OL_CHUNK_NUMBER_ZERO == root->number ? root : NULL;
    if (root->run == 0) return NULL;
    ol_chunk_array *array = ol_partition_map_array(partition_map, root);
    uint32_t at = number - array->base;
    if (OL_UNLIKELY(array->sparse)) {
        at = ol_partition_map_lower_bound(array, number);
        if (at < array->count && ol_partition_map_numbers(array)[at] != number) return NULL;
    }
    if (at >= array->count || array->chunk[at].bitmap == 0) return NULL;
    return &array->chunk[at];
}

/* The places of a root in the order of numbers: their count, and the chunk at one of them (its
 * bitmap may be 0). */
static inline uint32_t ol_partition_map_places(const ol_partition_map *partition_map,
                                               const ol_chunk *root) {
    if (root->bitmap != 0) return 1;
    return root->run == 0 ? 0 : ol_partition_map_array(partition_map, root)->count;
}
static inline const ol_chunk *ol_partition_map_at(const ol_partition_map *partition_map,
                                                  const ol_chunk *root, uint32_t place,
                                                  uint32_t *number) {
    if (root->bitmap != 0) {
        *number = OL_CHUNK_NUMBER_ZERO + root->number;
        return root;
    }
    ol_chunk_array *array = ol_partition_map_array(partition_map, root);
    *number = array->sparse ? ol_partition_map_numbers(array)[place] : array->base + place;
    return &array->chunk[place];
}

#endif
