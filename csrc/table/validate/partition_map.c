/* table/validate/partition_map.c: validation of chunks that came from a file. */
#include "table/partition_map.h"

/* above every chunk number of a 32-bit partition */
#define NUMBER_LIMIT (2 * OL_CHUNK_NUMBER_ZERO)

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
    status = ol_ownership_bits_create(&bits->large, large_units(partition_map), error);
    if (status != OL_OK) ol_ownership_bits_free(&bits->small);
    return status;
}

void ol_partition_map_bits_free(ol_partition_map_bits *bits) {
    ol_ownership_bits_free(&bits->small);
    ol_ownership_bits_free(&bits->large);
}

int ol_partition_map_validate(const ol_partition_map *partition_map, ol_error *error) {
    if (partition_map->large.used % sizeof(ol_chunk) != 0 ||
        large_units(partition_map) > OL_PARTITION_MAP_LARGE) {
        return ol_fail(error, OL_CORRUPT, "the arrays of chunks have an odd size");
    }
    return ol_run_allocator_validate(&partition_map->small, error);
}

/* --------------------------------------------------------------------------------------- arrays */

/* The header of an array by its name, or NULL if none can be there; *first and *units are the
 * array's units, checked to exist. */
static const ol_chunk_array *array_at(const ol_partition_map *partition_map, uint32_t name,
                                      uint64_t *first, uint64_t *units) {
    bool is_large = name & OL_PARTITION_MAP_LARGE;
    uint64_t limit = is_large ? large_units(partition_map) : small_units(partition_map);
    *first = name & ~OL_PARTITION_MAP_LARGE;
    if (*first >= limit || limit - *first < OL_PARTITION_MAP_HEADER_UNITS + 1) return NULL;
    ol_chunk root = {.run = name};
    const ol_chunk_array *array = ol_partition_map_array(partition_map, &root);
    *units = ol_partition_map_units(array->capacity, array->sparse);
    if (array->capacity == 0 || is_large != (*units > OL_RUN_LENGTH_MAX)) return NULL;
    if (is_large) ol_partition_map_class(*units, units);
    if (*units > limit - *first) return NULL;
    if (!is_large && *first % OL_RUN_ALLOCATOR_PAGE_UNITS + *units > OL_RUN_ALLOCATOR_PAGE_UNITS) {
        return NULL;
    }
    return array;
}

static bool is_sparse_sound(ol_chunk_array *array) {
    const uint32_t *numbers = ol_partition_map_numbers(array);
    for (uint32_t i = 0; i < array->count; i++) {
        if (array->chunk[i].bitmap == 0 || array->chunk[i].number != 0) return false;
        if (numbers[i] >= NUMBER_LIMIT || (i != 0 && numbers[i] <= numbers[i - 1])) return false;
    }
    return array->living == array->count;
}

/* Places after the last chunk are empty, since a chunk added there counts as new. */
static bool is_dense_sound(const ol_chunk_array *array) {
    uint32_t living = 0, numbers = 0, behind = 0;
    if (array->base >= NUMBER_LIMIT || array->count > NUMBER_LIMIT - array->base) return false;
    for (uint32_t i = 0; i < array->count; i++) {
        living += array->chunk[i].bitmap != 0;
        numbers |= array->chunk[i].number;
    }
    for (uint32_t i = array->count; i < array->capacity; i++) behind |= array->chunk[i].bitmap;
    return living == array->living && numbers == 0 && behind == 0 &&
           array->chunk[array->count - 1].bitmap != 0;
}

bool ol_partition_map_validate_root(const ol_partition_map *partition_map, const ol_chunk *root,
                                    ol_partition_map_bits *bits) {
    if (root->bitmap != 0) return true;
    uint64_t first, units;
    ol_chunk_array *array = root->run == 0 ? NULL
                                           : (ol_chunk_array *)array_at(partition_map, root->run,
                                                                        &first, &units);
    if (array == NULL || array->count == 0 || array->count > array->capacity) return false;
    if (!ol_ownership_take(root->run & OL_PARTITION_MAP_LARGE ? &bits->large : &bits->small, first,
                           units)) {
        return false;
    }
    return array->sparse ? is_sparse_sound(array) : is_dense_sound(array);
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
                ol_partition_map_class(ol_partition_map_units(array->capacity, array->sparse),
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
