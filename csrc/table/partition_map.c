/* table/partition_map.c: arrays of chunks, dense or sparse, and the memory they lie in. */
#include "table/partition_map.h"

#include <string.h>

enum { NUMBER_LIMIT_INSIDE = 1 << 16 };

void ol_partition_map_init(ol_partition_map *partition_map) {
    memset(partition_map, 0, sizeof *partition_map);
    ol_run_allocator_init(&partition_map->small, sizeof(ol_chunk), OL_PARTITION_MAP_LARGE, false);
}

void ol_partition_map_free_all(ol_partition_map *partition_map) {
    ol_run_allocator_free_all(&partition_map->small);
    ol_arena_free(&partition_map->large);
}

/* ----------------------------------------------------------------------------- memory of arrays */

/* The smallest size class of at least `units`. */
unsigned ol_partition_map_class(uint64_t units, uint64_t *class_units) {
    OL_ASSERT(units > OL_RUN_LENGTH_MAX);
    unsigned shift = 61 - (unsigned)__builtin_clzll(units);
    uint64_t mantissa = (units + ((uint64_t)1 << shift) - 1) >> shift;
    *class_units = mantissa << shift;
    return shift * 4 + (unsigned)mantissa - 4;
}

static ol_chunk_array *array_named(const ol_partition_map *partition_map, uint32_t name) {
    ol_chunk root = {.run = name};
    return ol_partition_map_array(partition_map, &root);
}

static int allocate_large(ol_partition_map *partition_map, uint64_t units, uint32_t *name,
                          uint64_t *class_units, ol_error *error) {
    unsigned class = ol_partition_map_class(units, class_units);
    OL_ASSERT(class < OL_PARTITION_MAP_CLASS_COUNT);
    uint32_t *list = &partition_map->large_free[class];
    if (*list != 0) {
        *name = (*list - 1) | OL_PARTITION_MAP_LARGE;
        *list = array_named(partition_map, *name)->count;
        partition_map->large_free_units -= *class_units;
        return OL_OK;
    }
    uint64_t first = partition_map->large.used / sizeof(ol_chunk);
    if (first + *class_units >= OL_PARTITION_MAP_LARGE) {
        return ol_fail(error, OL_LIMIT, "the table's chunk arrays are full");
    }
    int status = ol_arena_extend(&partition_map->large, *class_units * sizeof(ol_chunk), error);
    if (status != OL_OK) return status;
    *name = (uint32_t)first | OL_PARTITION_MAP_LARGE;
    return OL_OK;
}

static int allocate_small(ol_partition_map *partition_map, unsigned units, uint32_t *name,
                          ol_error *error) {
    if (partition_map->small.page_count == 0) {
        /* Unit 0 is never used: an array named 0 is no array. */
        int status = ol_run_allocator_allocate(&partition_map->small, 1, name, error);
        if (status != OL_OK) return status;
        OL_ASSERT(*name == 0);
    }
    return ol_run_allocator_allocate(&partition_map->small, units, name, error);
}

static int allocate_array(ol_partition_map *partition_map, uint64_t capacity, bool sparse,
                          uint32_t *name, ol_error *error) {
    uint64_t units = ol_partition_map_units(capacity, sparse);
    int status;
    if (units <= OL_RUN_LENGTH_MAX) {
        status = allocate_small(partition_map, (unsigned)units, name, error);
    } else {
        status = allocate_large(partition_map, units, name, &units, error);
    }
    if (status != OL_OK) return status;
    ol_chunk_array *array = array_named(partition_map, *name);
    uint64_t places = units - OL_PARTITION_MAP_HEADER_UNITS;
    memset(array, 0, units * sizeof(ol_chunk));
    array->capacity = (uint32_t)(sparse ? places * 2 / 3 : places);
    array->sparse = sparse;
    OL_ASSERT(array->capacity >= capacity &&
              ol_partition_map_units(array->capacity, sparse) <= units);
    return OL_OK;
}

static void free_array(ol_partition_map *partition_map, uint32_t name) {
    ol_chunk_array *array = array_named(partition_map, name);
    uint64_t units = ol_partition_map_units(array->capacity, array->sparse), class_units;
    if (!(name & OL_PARTITION_MAP_LARGE)) {
        ol_run_allocator_free(&partition_map->small, name, (unsigned)units);
        return;
    }
    unsigned class = ol_partition_map_class(units, &class_units);
    array->count = partition_map->large_free[class];
    partition_map->large_free[class] = (name & ~OL_PARTITION_MAP_LARGE) + 1;
    partition_map->large_free_units += class_units;
}

/* ----------------------------------------------------------------------------------- the arrays */

uint32_t ol_partition_map_lower_bound(ol_chunk_array *array, uint32_t number) {
    const uint32_t *numbers = ol_partition_map_numbers(array);
    uint32_t low = 0, high = array->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (numbers[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Puts a chunk into an array with room for it; in a dense array its number is within reach. */
static void put(ol_chunk_array *array, uint32_t number, ol_chunk chunk) {
    uint32_t at;
    if (array->sparse) {
        uint32_t *numbers = ol_partition_map_numbers(array);
        at = ol_partition_map_lower_bound(array, number);
        memmove(array->chunk + at + 1, array->chunk + at, (array->count - at) * sizeof(ol_chunk));
        memmove(numbers + at + 1, numbers + at, (array->count - at) * sizeof(uint32_t));
        numbers[at] = number;
        array->count++;
    } else {
        if (array->count == 0) array->base = number;
        if (number < array->base) {
            uint32_t shift = array->base - number;
            memmove(array->chunk + shift, array->chunk, array->count * sizeof(ol_chunk));
            memset(array->chunk, 0, shift * sizeof(ol_chunk));
            array->count += shift;
            array->base = number;
        }
        at = number - array->base;
        if (at >= array->count) array->count = at + 1;
        OL_ASSERT(array->chunk[at].bitmap == 0);
    }
    OL_ASSERT(array->count <= array->capacity);
    array->chunk[at] = (ol_chunk){.run = chunk.run, .bitmap = chunk.bitmap};
    array->living++;
}

static bool has_room(const ol_chunk_array *array, uint32_t number) {
    if (array->sparse) return array->count < array->capacity;
    uint32_t end = array->base + array->count;
    uint32_t first = number < array->base ? number : array->base;
    return (number < end ? end : number + 1) - first <= array->capacity;
}

/* The chunks a rebuilt array gets room for besides its own: a count, and a range of numbers. */
typedef struct more_chunks {
    uint32_t count;
    uint32_t first;
    uint32_t last;
} more_chunks;

static const more_chunks no_more = {.count = 0, .first = UINT32_MAX, .last = 0};

/* Rebuilds the array in the form that takes less memory.  On failure the old one is unchanged. */
static int rebuild(ol_partition_map *partition_map, ol_chunk *root, more_chunks more,
                   ol_error *error) {
    uint32_t place_count = ol_partition_map_places(partition_map, root);
    uint64_t living = more.count, first = more.first, last = more.last;
    for (uint32_t i = 0; i < place_count; i++) {
        uint32_t at_number;
        if (ol_partition_map_at(partition_map, root, i, &at_number)->bitmap == 0) continue;
        living++;
        if (at_number < first) first = at_number;
        if (at_number > last) last = at_number;
    }
    uint64_t span = last - first + 1;
    /* Two units in favour of the dense form, because it is the faster one. */
    bool sparse = ol_partition_map_units(living, true) + 2 < ol_partition_map_units(span, false);
    uint32_t name;
    int status = allocate_array(partition_map, sparse ? living : span, sparse, &name, error);
    if (status != OL_OK) return status;
    ol_chunk_array *array = array_named(partition_map, name);
    array->base = sparse ? 0 : (uint32_t)first;
    for (uint32_t i = 0; i < place_count; i++) {
        uint32_t at_number;
        const ol_chunk *chunk = ol_partition_map_at(partition_map, root, i, &at_number);
        if (chunk->bitmap != 0) put(array, at_number, *chunk);
    }
    if (root->bitmap == 0 && root->run != 0) free_array(partition_map, root->run);
    *root = (ol_chunk){.run = name};
    return OL_OK;
}

int ol_partition_map_add(ol_partition_map *partition_map, ol_chunk *root, uint32_t number,
                         uint32_t run, uint16_t bitmap, ol_error *error) {
    OL_ASSERT(bitmap != 0);
    ol_chunk chunk = {.run = run, .bitmap = bitmap};
    bool none = root->bitmap == 0 && root->run == 0;
    if (none && number - OL_CHUNK_NUMBER_ZERO < NUMBER_LIMIT_INSIDE) {
        chunk.number = (uint16_t)(number - OL_CHUNK_NUMBER_ZERO);
        *root = chunk;
        return OL_OK;
    }
    if (root->bitmap == 0 && !none &&
        has_room(ol_partition_map_array(partition_map, root), number)) {
        put(ol_partition_map_array(partition_map, root), number, chunk);
        return OL_OK;
    }
    int status = rebuild(partition_map, root, (more_chunks){1, number, number}, error);
    if (status == OL_OK) put(ol_partition_map_array(partition_map, root), number, chunk);
    return status;
}

/* Whether a dense array has room for chunks numbered `first` to `last`, or a sparse one for as many
 * more. */
static bool has_room_for(const ol_chunk_array *array, more_chunks more) {
    if (array->sparse) return array->count + (uint64_t)more.count <= array->capacity;
    return has_room(array, more.first) && has_room(array, more.last) &&
           (uint64_t)more.last - (more.first < array->base ? more.first : array->base) <
               array->capacity;
}

int ol_partition_map_reserve(ol_partition_map *partition_map, ol_chunk *root, uint32_t first,
                             uint32_t last, uint32_t count, ol_error *error) {
    OL_ASSERT(root->bitmap != 0 || root->run != 0);
    more_chunks more = {count, first, last};
    if (root->bitmap == 0 && has_room_for(ol_partition_map_array(partition_map, root), more)) {
        return OL_OK;
    }
    return rebuild(partition_map, root, more, error);
}

/* Removes a chunk from its array, and trims empty places off both ends of a dense one. */
static void take(ol_chunk_array *array, uint32_t number) {
    if (array->sparse) {
        uint32_t *numbers = ol_partition_map_numbers(array);
        uint32_t at = ol_partition_map_lower_bound(array, number);
        OL_ASSERT(at < array->count && numbers[at] == number);
        array->count--;
        memmove(array->chunk + at, array->chunk + at + 1, (array->count - at) * sizeof(ol_chunk));
        memmove(numbers + at, numbers + at + 1, (array->count - at) * sizeof(uint32_t));
    } else {
        uint32_t at = number - array->base;
        OL_ASSERT(at < array->count);
        array->chunk[at] = (ol_chunk){0};
        while (array->count != 0 && array->chunk[array->count - 1].bitmap == 0) array->count--;
    }
    array->living--;
}

void ol_partition_map_remove(ol_partition_map *partition_map, ol_chunk *root, uint32_t number) {
    if (root->bitmap != 0) {
        OL_ASSERT(number - OL_CHUNK_NUMBER_ZERO == root->number);
        *root = (ol_chunk){0};
        return;
    }
    ol_chunk_array *array = ol_partition_map_array(partition_map, root);
    take(array, number);
    if (array->living == 0) {
        free_array(partition_map, root->run);
        *root = (ol_chunk){0};
        return;
    }
    if (array->living == 1) {
        uint32_t place = 0, last_number;
        while (array->chunk[place].bitmap == 0) place++;
        ol_chunk last = *ol_partition_map_at(partition_map, root, place, &last_number);
        if (last_number - OL_CHUNK_NUMBER_ZERO < NUMBER_LIMIT_INSIDE) {
            free_array(partition_map, root->run);
            last.number = (uint16_t)(last_number - OL_CHUNK_NUMBER_ZERO);
            *root = last;
            return;
        }
    }
    /* If shrinking fails, the larger array stays; it costs memory and nothing else. */
    ol_error ignored;
    if (ol_partition_map_units(array->living, true) * 2 <
        ol_partition_map_units(array->capacity, array->sparse)) {
        (void)!rebuild(partition_map, root, no_more, &ignored);
    }
}

/* ---------------------------------------------------------------------------- account and proof */

uint64_t ol_partition_map_resident(const ol_partition_map *partition_map) {
    return ol_run_allocator_resident(&partition_map->small) +
           ol_arena_resident(&partition_map->large);
}

uint64_t ol_partition_map_unused(const ol_partition_map *partition_map) {
    return (partition_map->small.free_units + partition_map->large_free_units) * sizeof(ol_chunk);
}

uint64_t ol_partition_map_verify_root(const ol_partition_map *partition_map, const ol_chunk *root,
                                      uint8_t *small_used) {
    if (root->bitmap != 0) return 0;
    OL_ASSERT(root->run != 0);
    ol_chunk_array *array = ol_partition_map_array(partition_map, root);
    OL_ASSERT(array->count <= array->capacity && array->count != 0);
    uint32_t living = 0, previous = 0, number;
    for (uint32_t i = 0; i < array->count; i++) {
        const ol_chunk *chunk = ol_partition_map_at(partition_map, root, i, &number);
        living += chunk->bitmap != 0;
        OL_ASSERT(!array->sparse || chunk->bitmap != 0);
        OL_ASSERT(i == 0 || number > previous);
        OL_ASSERT(number < 2 * OL_CHUNK_NUMBER_ZERO);
        OL_ASSERT(chunk->number == 0);
        previous = number;
    }
    OL_ASSERT(living == array->living && living != 0);
    OL_ASSERT(array->sparse || array->chunk[array->count - 1].bitmap != 0);
    uint64_t units = ol_partition_map_units(array->capacity, array->sparse);
    if (root->run & OL_PARTITION_MAP_LARGE) {
        ol_partition_map_class(units, &units);
        return units;
    }
    for (uint64_t unit = root->run; unit < root->run + units; unit++) {
        OL_ASSERT(!(small_used[unit / 8] >> (unit % 8) & 1));
        small_used[unit / 8] |= (uint8_t)(1u << (unit % 8));
    }
    return 0;
}

void ol_partition_map_verify(const ol_partition_map *partition_map, const uint8_t *small_used,
                             uint64_t large_units) {
    ol_run_allocator_verify(&partition_map->small);
    uint32_t unit_count = partition_map->small.page_count * OL_RUN_ALLOCATOR_PAGE_UNITS;
    for (uint32_t unit = 1; unit < unit_count; unit++) {
        OL_ASSERT((small_used[unit / 8] >> (unit % 8) & 1) ==
                  !ol_run_allocator_is_free(&partition_map->small, unit));
    }
    uint64_t free_units = 0;
    for (unsigned class = 0; class < OL_PARTITION_MAP_CLASS_COUNT; class++) {
        for (uint32_t link = partition_map->large_free[class]; link != 0;) {
            const ol_chunk_array *array = array_named(partition_map,
                                                      (link - 1) | OL_PARTITION_MAP_LARGE);
            uint64_t class_units;
            OL_ASSERT(ol_partition_map_class(ol_partition_map_units(array->capacity, array->sparse),
                                             &class_units) == class);
            free_units += class_units;
            link = array->count;
        }
    }
    OL_ASSERT(free_units == partition_map->large_free_units);
    OL_ASSERT((free_units + large_units) * sizeof(ol_chunk) == partition_map->large.used);
}
