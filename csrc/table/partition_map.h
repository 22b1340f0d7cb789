/* table/partition_map: the chunks of 4 partition numbers of a pair, and the places of their cells.
 *
 * A pair whose only chunk is in the usual range holds it inline.  Other pairs have an array.  If
 * the chunk numbers are dense, the array is indexed by them; otherwise it is sorted, with the
 * numbers beside the chunks (a log may name any number).  Chunks that do not fit one array are in a
 * tree: its leaves are such arrays, all at the same depth, and its branches are sorted arrays of
 * arrays.  So adding or removing a chunk moves a bounded number of others at each level, whatever
 * the numbers are.  If chunk numbers are dense in one range and sparse in another, each range costs
 * as much as it would without the other.
 *
 * Small arrays come from a run allocator, so growth by one leaves no holes; large ones come from
 * size classes a seventh to a quarter apart.  Sorted leaves are always small, because trees that
 * grow in step would drop all their outgrown arrays at once.
 *
 * Ownership: the map owns the arrays; a pair owns its root.  Locks: none.  Calls that fail change
 * no chunk; an array may have been divided.
 */
#ifndef OL_TABLE_PARTITION_MAP_H
#define OL_TABLE_PARTITION_MAP_H

#include "table/run_allocator.h"

enum { OL_CHUNK_PARTITIONS = 4 };

/* The root in a pair.  bitmap != 0: the only chunk.  bitmap == 0: `run` names an array, or is 0 for
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

typedef enum ol_chunk_form {
    OL_CHUNKS_DENSE,            /* chunk[i] has the number base + i; its bitmap may be 0 */
    OL_CHUNKS_SPARSE,           /* chunk[i] has the number numbers[i]; they ascend */
    OL_CHUNKS_BRANCH,           /* chunk[i] is the root of the numbers from numbers[i] up to
                                   numbers[i + 1]; numbers[0] is 0 */
} ol_chunk_form;

typedef struct ol_chunk_array {
    uint32_t count;             /* number of chunks, including empty places of a dense array */
    uint32_t base;              /* in a dense array: the first place's number */
    uint16_t capacity;
    uint16_t living;            /* number of chunks that exist; 0 in a branch */
    uint32_t form;              /* ol_chunk_form */
    ol_chunk chunk[];           /* `capacity` chunks; unless the array is dense, as many chunk
                                   numbers follow */
} ol_chunk_array;

_Static_assert(sizeof(ol_chunk_array) == 16, "two units");

/* The capacities fill 8,192, 32 and 128 units. */
enum {
    OL_CHUNKS_DENSE_MAX = 8190,
    OL_CHUNKS_SPARSE_MAX = 20,
    OL_CHUNKS_BRANCH_MAX = 84,
    OL_CHUNKS_DEPTH_MAX = 8,    /* greatest number of branches above a leaf; a pair of 2^30 chunks
                                   needs six */
};

enum { OL_PARTITION_MAP_CLASS_COUNT = 128 };
#define OL_PARTITION_MAP_LARGE 0x80000000u     /* the bit that is set in the name of an array in
                                                  `large` */

typedef struct ol_partition_map {
    ol_run_allocator small;
    ol_arena large;
    uint64_t large_free_units;
    /* first free array of each size class: unit index + 1; 0: none */
    uint32_t large_free[OL_PARTITION_MAP_CLASS_COUNT];
    uint64_t moved;  /* how many places calls have copied or moved so far: the cost of growth */
} ol_partition_map;

void ol_partition_map_init(ol_partition_map *partition_map);
void ol_partition_map_free_all(ol_partition_map *partition_map);

/* Adds a chunk that does not exist yet.  `root` is the pair's; it must not be in memory of the map.
 * Fails with OL_NO_MEMORY, or with OL_LIMIT if the map's memory, or the depth of a tree that came
 * from a file, would exceed its limit. */
int ol_partition_map_add(ol_partition_map *partition_map, ol_chunk *root, uint32_t number,
                         uint32_t run, uint16_t bitmap, ol_error *error) OL_NODISCARD;
/* Reserves space for `count` more chunks numbered `first` to `last`, if all fit one array, so that
 * adding them does not rebuild the array.  The root must have a chunk already. */
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

/* Validation of chunks that came from a file (table/validate/ownership.h), in three calls.  The
 * first checks the parts that belong to no pair, the second each pair's root and the units that it
 * takes, and the last that every unit was taken or is free. */
typedef struct ol_partition_map_bits {
    ol_ownership_bits small;
    ol_ownership_bits large;
} ol_partition_map_bits;
/* Creates bits that are zeros.  ol_partition_map_bits_free must free them, after a failure, too. */
int ol_partition_map_bits_create(const ol_partition_map *partition_map, ol_partition_map_bits *bits,
                                 ol_error *error) OL_NODISCARD;
void ol_partition_map_bits_free(ol_partition_map_bits *bits);
int ol_partition_map_validate(const ol_partition_map *partition_map, ol_error *error) OL_NODISCARD;
bool ol_partition_map_validate_root(const ol_partition_map *partition_map, const ol_chunk *root,
                                    ol_partition_map_bits *bits);
bool ol_partition_map_validate_taken(const ol_partition_map *partition_map,
                                     ol_partition_map_bits *bits);

/* Return the units that an array of this capacity takes, and the size class of large ones: 4, 5, 6
 * or 7 times a power of two. */
enum { OL_PARTITION_MAP_HEADER_UNITS = 2 };
static inline uint64_t ol_partition_map_units(uint64_t capacity, ol_chunk_form form) {
    return OL_PARTITION_MAP_HEADER_UNITS + capacity +
           (form == OL_CHUNKS_DENSE ? 0 : (capacity + 1) / 2);
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

static inline uint32_t *ol_partition_map_numbers(const ol_chunk_array *array) {
    return (uint32_t *)(array->chunk + array->capacity);
}

/* Finds the chunk of this number in an array that is not dense, or in the arrays below it; NULL:
 * there is none. */
ol_chunk *ol_partition_map_find_sorted(const ol_partition_map *partition_map,
                                       ol_chunk_array *array, uint32_t number);

/* Finds the chunk of this number, or NULL.  Its bitmap is not 0. */
static inline ol_chunk *ol_partition_map_find(const ol_partition_map *partition_map, ol_chunk *root,
                                              uint32_t number) {
    if (root->bitmap != 0) return number - OL_CHUNK_NUMBER_ZERO == root->number ? root : NULL;
    if (root->run == 0) return NULL;
    ol_chunk_array *array = ol_partition_map_array(partition_map, root);
    if (OL_UNLIKELY(array->form != OL_CHUNKS_DENSE)) {
        return ol_partition_map_find_sorted(partition_map, array, number);
    }
    uint32_t at = number - array->base;
    if (at >= array->count || array->chunk[at].bitmap == 0) return NULL;
    return &array->chunk[at];
}

/* Return the name of a leaf of a root that holds no chunk inline; 0: none.  The first function
 * returns that of the first leaf, the second that of the leaf after the one that a chunk number
 * belongs to. */
uint32_t ol_partition_map_first_leaf(const ol_partition_map *partition_map, const ol_chunk *root);
uint32_t ol_partition_map_next_leaf(const ol_partition_map *partition_map, const ol_chunk *root,
                                    uint32_t number);

/* A walk over the chunks of a root in the order of their numbers.  Zero-initialise.  It ends with
 * any change of the root's chunks. */
typedef struct ol_chunk_walk {
    uint32_t leaf;  /* the array that the walk is in; 0: not begun, or the root's only chunk */
    uint32_t place;             /* the next one in there */
} ol_chunk_walk;

static inline uint32_t ol_chunk_array_number(const ol_chunk_array *leaf, uint32_t place) {
    return leaf->form == OL_CHUNKS_DENSE ? leaf->base + place
                                         : ol_partition_map_numbers(leaf)[place];
}

/* Returns the chunk at the walk's place or the first one after it; NULL: the walk has ended.  To
 * continue, the caller increments the place. */
static inline const ol_chunk *ol_partition_map_at(const ol_partition_map *partition_map,
                                                  const ol_chunk *root, ol_chunk_walk *walk,
                                                  uint32_t *number) {
    if (root->bitmap != 0) {
        *number = OL_CHUNK_NUMBER_ZERO + root->number;
        return walk->place == 0 ? root : NULL;
    }
    if (walk->leaf == 0) walk->leaf = ol_partition_map_first_leaf(partition_map, root);
    while (walk->leaf != 0) {
        ol_chunk named = {.run = walk->leaf};
        const ol_chunk_array *leaf = ol_partition_map_array(partition_map, &named);
        for (; walk->place < leaf->count; walk->place++) {
            if (leaf->chunk[walk->place].bitmap == 0) continue;
            *number = ol_chunk_array_number(leaf, walk->place);
            return &leaf->chunk[walk->place];
        }
        walk->leaf = ol_partition_map_next_leaf(partition_map, root,
                                                ol_chunk_array_number(leaf, leaf->count - 1));
        walk->place = 0;
    }
    return NULL;
}

#endif
