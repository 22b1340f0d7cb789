/* table/validate/partition_map.c: validation of chunks that came from a file. */
#include "table/chunk_array_impl.h"

static uint64_t large_units(const ol_partition_map *partition_map) {
    return partition_map->large.used / sizeof(ol_chunk);
}

static uint64_t small_units(const ol_partition_map *partition_map) {
    return (uint64_t)partition_map->small.page_count * OL_RUN_ALLOCATOR_PAGE_UNITS;
}

int ol_partition_map_bits_create(const ol_partition_map *partition_map, ol_partition_map_bits *bits,
                                 ol_error *error) {
    int status = ol_ownership_bits_create(&bits->small, small_units(partition_map), error);
    if (status != OL_OK) return status;
    return ol_ownership_bits_create(&bits->large, large_units(partition_map), error);
}

void ol_partition_map_bits_free(ol_partition_map_bits *bits) {
    ol_ownership_bits_free(&bits->small);
    ol_ownership_bits_free(&bits->large);
}

int ol_partition_map_validate(const ol_partition_map *partition_map, ol_error *error) {
    if (partition_map->large.used % sizeof(ol_chunk) != 0 ||
        large_units(partition_map) > OL_PARTITION_MAP_LARGE) {
        return ol_fail(error, OL_CORRUPT, "the arrays of chunks have a wrong size");
    }
    return ol_run_allocator_validate(&partition_map->small, error);
}

/* --------------------------------------------------------------------------------------- arrays */

static uint32_t capacity_max(ol_chunk_form form) {
    return form == OL_CHUNKS_DENSE    ? OL_CHUNKS_DENSE_MAX
           : form == OL_CHUNKS_SPARSE ? OL_CHUNKS_SPARSE_MAX
                                      : OL_CHUNKS_BRANCH_MAX;
}

/* Returns the header of an array by its name, or NULL if no array can be there; *first and *units
 * are the array's units, which were checked to exist. */
static const ol_chunk_array *array_at(const ol_partition_map *partition_map, uint32_t name,
                                      uint64_t *first, uint64_t *units) {
    bool is_large = name & OL_PARTITION_MAP_LARGE;
    uint64_t limit = is_large ? large_units(partition_map) : small_units(partition_map);
    *first = name & ~OL_PARTITION_MAP_LARGE;
    if (*first >= limit || limit - *first < OL_PARTITION_MAP_HEADER_UNITS + 1) return NULL;
    const ol_chunk_array *array = ol_chunk_array_named(partition_map, name);
    if (array->form > OL_CHUNKS_BRANCH || array->capacity == 0 ||
        array->capacity > capacity_max(array->form)) {
        return NULL;
    }
    *units = ol_partition_map_units(array->capacity, array->form);
    if (is_large != (*units > OL_RUN_LENGTH_MAX)) return NULL;
    if (is_large) ol_partition_map_class(*units, units);
    if (*units > limit - *first) return NULL;
    if (!is_large && *first % OL_RUN_ALLOCATOR_PAGE_UNITS + *units > OL_RUN_ALLOCATOR_PAGE_UNITS) {
        return NULL;
    }
    return array;
}

/* The numbers that an array may hold: [low, high). */
typedef struct number_range {
    uint32_t low;
    uint32_t high;
} number_range;

static bool is_sparse_sound(const ol_chunk_array *leaf, number_range range) {
    const uint32_t *numbers = ol_partition_map_numbers(leaf);
    for (uint32_t i = 0; i < leaf->count; i++) {
        if (leaf->chunk[i].bitmap == 0 || leaf->chunk[i].number != 0) return false;
        if (numbers[i] < range.low || numbers[i] >= range.high) return false;
        if (i != 0 && numbers[i] <= numbers[i - 1]) return false;
    }
    return leaf->living == leaf->count;
}

/* Places after the last chunk must be empty, because a chunk added there counts as new.  Places
 * before the first may be below the range, as in a leaf that was divided. */
static bool is_dense_sound(const ol_chunk_array *leaf, number_range range) {
    uint32_t living = 0, numbers = 0, behind = 0, first = 0;
    if (leaf->base >= range.high || leaf->count > range.high - leaf->base) return false;
    for (uint32_t i = 0; i < leaf->count; i++) {
        living += leaf->chunk[i].bitmap != 0;
        numbers |= leaf->chunk[i].number;
        first += living == 0;
    }
    for (uint32_t i = leaf->count; i < leaf->capacity; i++) behind |= leaf->chunk[i].bitmap;
    return living == leaf->living && numbers == 0 && behind == 0 &&
           leaf->chunk[leaf->count - 1].bitmap != 0 && leaf->base + first >= range.low;
}

typedef struct tree_check {
    const ol_partition_map *partition_map;
    ol_partition_map_bits *bits;
    unsigned leaf_depth;        /* of the leaves seen, once there is one */
    bool has_leaf;
} tree_check;

static bool is_leaf_sound(tree_check *check, const ol_chunk_array *leaf, number_range range,
                          unsigned depth) {
    if (check->has_leaf && depth != check->leaf_depth) return false;
    check->leaf_depth = depth;
    check->has_leaf = true;
    return leaf->form == OL_CHUNKS_SPARSE ? is_sparse_sound(leaf, range)
                                          : is_dense_sound(leaf, range);
}

static bool is_array_sound(tree_check *check, uint32_t name, number_range range, unsigned depth);

/* The leaves show that the numbers ascend within the range: each leaf has a chunk in its own
 * range. */
static bool is_branch_sound(tree_check *check, const ol_chunk_array *branch, number_range range,
                            unsigned depth) {
    const uint32_t *numbers = ol_partition_map_numbers(branch);
    if (depth == OL_CHUNKS_DEPTH_MAX || branch->living != 0 || numbers[0] != 0 ||
        (depth == 0 && branch->count == 1)) {
        return false;
    }
    for (uint32_t i = 0; i < branch->count; i++) {
        number_range below = {i == 0 ? range.low : numbers[i],
                              i + 1 == branch->count ? range.high : numbers[i + 1]};
        if (branch->chunk[i].bitmap != 0 || branch->chunk[i].number != 0 ||
            !is_array_sound(check, branch->chunk[i].run, below, depth + 1)) {
            return false;
        }
    }
    return true;
}

/* Every array is taken only once, so a branch that leads back to itself is detected; the depth is
 * limited, too. */
static bool is_array_sound(tree_check *check, uint32_t name, number_range range, unsigned depth) {
    uint64_t first, units;
    const ol_chunk_array *array = name == 0 ? NULL
                                            : array_at(check->partition_map, name, &first, &units);
    if (array == NULL || array->count == 0 || array->count > array->capacity) return false;
    ol_ownership_bits *bits = name & OL_PARTITION_MAP_LARGE ? &check->bits->large
                                                            : &check->bits->small;
    if (!ol_ownership_take(bits, first, units)) return false;
    return array->form == OL_CHUNKS_BRANCH ? is_branch_sound(check, array, range, depth)
                                           : is_leaf_sound(check, array, range, depth);
}

bool ol_partition_map_validate_root(const ol_partition_map *partition_map, const ol_chunk *root,
                                    ol_partition_map_bits *bits) {
    if (root->bitmap != 0) return true;
    tree_check check = {.partition_map = partition_map, .bits = bits};
    return is_array_sound(&check, root->run, (number_range){0, OL_CHUNK_NUMBER_LIMIT}, 0);
}

/* ----------------------------------------------------------------------------------- free units */

static bool take_free_large(const ol_partition_map *partition_map, ol_ownership_bits *large) {
    uint64_t free_units = 0;
    for (unsigned class = 0; class < OL_PARTITION_MAP_CLASS_COUNT; class++) {
        for (uint32_t link = partition_map->large_free[class]; link != 0;) {
            uint64_t first, units, class_units;
            const ol_chunk_array *array = link > OL_PARTITION_MAP_LARGE
                                              ? NULL
                                              : array_at(partition_map,
                                                         (link - 1) | OL_PARTITION_MAP_LARGE,
                                                         &first, &units);
            if (array == NULL ||
                ol_partition_map_class(ol_partition_map_units(array->capacity, array->form),
                                       &class_units) != class) {
                return false;
            }
            if (!ol_ownership_take(large, first, units)) return false;
            free_units += units;
            link = array->count;
        }
    }
    return free_units == partition_map->large_free_units;
}

bool ol_partition_map_validate_taken(const ol_partition_map *partition_map,
                                     ol_partition_map_bits *bits) {
    /* Unit 0 is never used: an array named 0 is no array. */
    if (partition_map->small.page_count != 0 && !ol_ownership_take(&bits->small, 0, 1)) {
        return false;
    }
    return ol_run_allocator_validate_taken(&partition_map->small, &bits->small) &&
           take_free_large(partition_map, &bits->large) && ol_ownership_all_taken(&bits->large);
}
