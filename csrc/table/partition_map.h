/* table/partition_map: divides the partitions of a pair into chunks of 4 consecutive numbers, and
 * says where the cells of each chunk are.
 *
 * If a pair has only one chunk and its number is in the usual range, the pair contains the chunk
 * itself.  Any other pair has an array of chunks.  If the chunk numbers are dense, the array is
 * indexed by them.  Otherwise the array is sorted and also contains the numbers, because a log may
 * contain any partition number.  If the chunks do not fit one array, they are in a tree.  Its
 * leaves are such arrays, all at the same depth, and its branches are sorted arrays of arrays.
 * Adding or removing a chunk therefore moves a limited number of other chunks at each level,
 * whatever the numbers are.  If the numbers are dense in one range and sparse in another, neither
 * range takes more memory because of the other.
 *
 * Small arrays come from a run allocator, so that no holes remain when an array grows by one chunk.
 * Large arrays come from size classes, each of which is larger than the one before by a seventh to
 * a quarter.  Sorted leaves are always small: if large ones existed, trees that grow at the same
 * time would free all their old arrays at once.
 *
 * Ownership: the map owns the arrays, and a pair owns its root.  The functions take no lock.  A
 * call that fails changes no chunk, but it may have divided an array. */
#ifndef OL_TABLE_PARTITION_MAP_H
#define OL_TABLE_PARTITION_MAP_H

#include "table/run_allocator.h"

enum { OL_CHUNK_PARTITIONS = 4 };

/* A chunk, or the root of a pair's chunks (the field `root` of ol_pair).  If the bitmap of a root
 * is not 0, the root is the pair's only chunk.  If the bitmap of a root is 0, `run` is the name of
 * an array, or 0 if the pair has no chunk. */
typedef struct ol_chunk {
    uint32_t run;               /* index of its first cell */
    /* Bit i is set if the partition 4 * number + i has a cell.  In an array, 0 means that the chunk
     * does not exist. */
    uint16_t bitmap;
    uint16_t number;            /* only in a pair: the chunk number minus OL_CHUNK_NUMBER_ZERO */
} ol_chunk;

_Static_assert(sizeof(ol_chunk) == 8, "the account of memory in docs/table.md counts on it");

/* The number of the chunk that contains partition 0.  Chunk numbers are in the same order as
 * partitions. */
#define OL_CHUNK_NUMBER_ZERO 0x20000000u
static inline uint32_t ol_chunk_number(int32_t partition) {
    return ((uint32_t)partition ^ 0x80000000u) / OL_CHUNK_PARTITIONS;
}
static inline int32_t ol_chunk_partition(uint32_t number, unsigned bit) {
    return (int32_t)((number * OL_CHUNK_PARTITIONS + bit) ^ 0x80000000u);
}

typedef enum ol_chunk_form {
    OL_CHUNKS_DENSE,            /* chunk[i] has the number base + i; if its bitmap is 0, the chunk
                                   does not exist */
    OL_CHUNKS_SPARSE,           /* chunk[i] has the number numbers[i]; the numbers ascend */
    OL_CHUNKS_BRANCH,           /* chunk[i] is the root of the chunks whose numbers are at or above
                                   numbers[i] and below numbers[i + 1]; numbers[0] is 0 */
} ol_chunk_form;

typedef struct ol_chunk_array {
    uint32_t count;  /* number of places in use; in a dense array it includes empty places */
    uint32_t base;              /* in a dense array: the chunk number of the first place */
    uint16_t capacity;
    uint16_t living;            /* number of chunks that exist; 0 in a branch */
    uint32_t form;              /* ol_chunk_form */
    ol_chunk chunk[];           /* `capacity` chunks; if the array is not dense, as many chunk
                                   numbers follow them */
} ol_chunk_array;

_Static_assert(sizeof(ol_chunk_array) == 16, "two units");

/* With these capacities, the arrays fill 8,192, 32 and 128 units. */
enum {
    OL_CHUNKS_DENSE_MAX = 8190,
    OL_CHUNKS_SPARSE_MAX = 20,
    OL_CHUNKS_BRANCH_MAX = 84,
    OL_CHUNKS_DEPTH_MAX = 8,    /* the greatest number of branches above a leaf; a pair with 2^30
                                   chunks needs six */
};

enum { OL_PARTITION_MAP_CLASS_COUNT = 128 };
#define OL_PARTITION_MAP_LARGE 0x80000000u     /* the name of an array has this bit if the array is
                                                  in `large` */

typedef struct ol_partition_map {
    ol_run_allocator small;
    ol_arena large;
    uint64_t large_free_units;
    /* for each size class, the first free array: the index of its unit plus 1, or 0 if there is
     * none */
    uint32_t large_free[OL_PARTITION_MAP_CLASS_COUNT];
    uint64_t moved;  /* how many places have been copied or moved so far, which measures the cost of
                        growth */
} ol_partition_map;

void ol_partition_map_init(ol_partition_map *partition_map);
void ol_partition_map_free_all(ol_partition_map *partition_map);

/* Adds a chunk.  No chunk with this number may exist.  `root` must point to the root in the pair,
 * not into an array of the map, which the call may move.  Fails with OL_NO_MEMORY.  Fails with
 * OL_LIMIT if the memory of the map would exceed its limit, or if a tree that came from a file
 * would become too deep. */
int ol_partition_map_add(ol_partition_map *partition_map, ol_chunk *root, uint32_t number,
                         uint32_t run, uint16_t bitmap, ol_error *error) OL_NODISCARD;
/* Reserves space for `count` more chunks with numbers from `first` to `last`, so that adding them
 * does not rebuild the array.  Does nothing if they do not fit one array.  The root must have a
 * chunk already. */
int ol_partition_map_reserve(ol_partition_map *partition_map, ol_chunk *root, uint32_t first,
                             uint32_t last, uint32_t count, ol_error *error) OL_NODISCARD;
void ol_partition_map_remove(ol_partition_map *partition_map, ol_chunk *root, uint32_t number);

uint64_t ol_partition_map_resident(const ol_partition_map *partition_map);
uint64_t ol_partition_map_unused(const ol_partition_map *partition_map);

/* Sets one bit in `small_used` for each small unit that this root uses.  Returns the number of
 * large units that it uses. */
uint64_t ol_partition_map_verify_root(const ol_partition_map *partition_map, const ol_chunk *root,
                                      uint8_t *small_used);
void ol_partition_map_verify(const ol_partition_map *partition_map, const uint8_t *small_used,
                             uint64_t large_units);

/* Chunks that came from a file (table/validate/ownership.h) are validated in three calls.
 * ol_partition_map_validate checks the parts that belong to no pair.
 * ol_partition_map_validate_root checks the root of one pair and marks the units that it takes.
 * ol_partition_map_validate_taken checks that every unit was taken or is free. */
typedef struct ol_partition_map_bits {
    ol_ownership_bits small;
    ol_ownership_bits large;
} ol_partition_map_bits;
/* Creates the bits and sets them to zero.  They must be freed with ol_partition_map_bits_free, even
 * after a failure. */
int ol_partition_map_bits_create(const ol_partition_map *partition_map, ol_partition_map_bits *bits,
                                 ol_error *error) OL_NODISCARD;
void ol_partition_map_bits_free(ol_partition_map_bits *bits);
int ol_partition_map_validate(const ol_partition_map *partition_map, ol_error *error) OL_NODISCARD;
bool ol_partition_map_validate_root(const ol_partition_map *partition_map, const ol_chunk *root,
                                    ol_partition_map_bits *bits);
bool ol_partition_map_validate_taken(const ol_partition_map *partition_map,
                                     ol_partition_map_bits *bits);

/* ol_partition_map_units returns how many units an array with this capacity takes.
 * ol_partition_map_class returns the size class of a large array.  The size of a class is 4, 5, 6
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

/* Returns the chunk with this number, or NULL if it does not exist.  `array` must not be dense.  If
 * it is a branch, the function searches in the arrays below it. */
ol_chunk *ol_partition_map_find_sorted(const ol_partition_map *partition_map,
                                       ol_chunk_array *array, uint32_t number);

/* Returns the chunk with this number, or NULL if it does not exist.  The bitmap of a returned chunk
 * is not 0. */
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

/* ol_partition_map_first_leaf returns the name of the first leaf.  ol_partition_map_next_leaf
 * returns the name of the leaf after the one to which the chunk `number` belongs.  They return 0 if
 * there is no such leaf.  The root must not be a chunk itself. */
uint32_t ol_partition_map_first_leaf(const ol_partition_map *partition_map, const ol_chunk *root);
uint32_t ol_partition_map_next_leaf(const ol_partition_map *partition_map, const ol_chunk *root,
                                    uint32_t number);

/* A walk over the chunks of a root in the order of their numbers.  It must be initialised with
 * zeros.  After any change to the chunks of the root, the walk cannot be continued. */
typedef struct ol_chunk_walk {
    uint32_t leaf;  /* the leaf in which the walk is; 0: the walk has not begun, or the root is the
                       only chunk */
    uint32_t place;             /* the next one in there */
} ol_chunk_walk;

static inline uint32_t ol_chunk_array_number(const ol_chunk_array *leaf, uint32_t place) {
    return leaf->form == OL_CHUNKS_DENSE ? leaf->base + place
                                         : ol_partition_map_numbers(leaf)[place];
}

/* Returns the chunk at the walk's place, or the next one after it.  Returns NULL at the end.  The
 * caller increments walk->place to go on. */
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
