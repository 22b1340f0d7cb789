/* table/assert_partition_map.c: asserts every invariant of arrays and trees of chunks. */
#include "table/chunk_array_impl.h"

/* The numbers that an array may hold: [low, high). */
typedef struct number_range {
    uint32_t low;
    uint32_t high;
} number_range;

typedef struct verification {
    const ol_partition_map *partition_map;
    uint8_t *small_used;
    uint64_t large_units;
    unsigned leaf_depth;        /* of the first leaf; all others have the same */
    bool has_leaf;
} verification;

static void mark_units(verification *check, uint32_t name, const ol_chunk_array *array) {
    uint64_t units = ol_partition_map_units(array->capacity, array->form);
    if (name & OL_PARTITION_MAP_LARGE) {
        ol_partition_map_class(units, &units);
        check->large_units += units;
        return;
    }
    for (uint64_t unit = name; unit < name + units; unit++) {
        OL_ASSERT(!(check->small_used[unit / 8] >> (unit % 8) & 1));
        check->small_used[unit / 8] |= (uint8_t)(1u << (unit % 8));
    }
}

static void check_leaf(verification *check, const ol_chunk_array *leaf, number_range range,
                       unsigned depth) {
    if (!check->has_leaf) check->leaf_depth = depth;
    check->has_leaf = true;
    OL_ASSERT(depth == check->leaf_depth);
    OL_ASSERT(leaf->capacity <= (leaf->form == OL_CHUNKS_DENSE ? OL_CHUNKS_DENSE_MAX
                                                               : OL_CHUNKS_SPARSE_MAX));
    uint32_t living = 0, previous = 0;
    for (uint32_t i = 0; i < leaf->count; i++) {
        uint32_t number = ol_chunk_array_number(leaf, i);
        bool is_living = leaf->chunk[i].bitmap != 0;
        living += is_living;
        OL_ASSERT(is_living || leaf->form == OL_CHUNKS_DENSE);
        OL_ASSERT(i == 0 || number > previous);
        OL_ASSERT(!is_living || (number >= range.low && number < range.high));
        OL_ASSERT(leaf->chunk[i].number == 0);
        previous = number;
    }
    OL_ASSERT(living == leaf->living && living != 0);
    OL_ASSERT(leaf->chunk[leaf->count - 1].bitmap != 0);
}

static void check_array(verification *check, uint32_t name, number_range range, unsigned depth) {
    const ol_chunk_array *array = ol_chunk_array_named(check->partition_map, name);
    OL_ASSERT(name != 0 && array->count != 0 && array->count <= array->capacity);
    mark_units(check, name, array);
    if (array->form != OL_CHUNKS_BRANCH) {
        check_leaf(check, array, range, depth);
        return;
    }
    const uint32_t *numbers = ol_partition_map_numbers(array);
    OL_ASSERT(depth < OL_CHUNKS_DEPTH_MAX && array->capacity <= OL_CHUNKS_BRANCH_MAX);
    OL_ASSERT(array->living == 0 && numbers[0] == 0 && (depth != 0 || array->count > 1));
    for (uint32_t i = 0; i < array->count; i++) {
        number_range below = {i == 0 ? range.low : numbers[i],
                              i + 1 == array->count ? range.high : numbers[i + 1]};
        OL_ASSERT(below.low >= range.low && below.low < below.high && below.high <= range.high);
        OL_ASSERT(array->chunk[i].bitmap == 0 && array->chunk[i].number == 0);
        check_array(check, array->chunk[i].run, below, depth + 1);
    }
}

uint64_t ol_partition_map_verify_root(const ol_partition_map *partition_map, const ol_chunk *root,
                                      uint8_t *small_used) {
    if (root->bitmap != 0) return 0;
    verification check = {.partition_map = partition_map, .small_used = small_used};
    check_array(&check, root->run, (number_range){0, OL_CHUNK_NUMBER_LIMIT}, 0);
    return check.large_units;
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
            const ol_chunk_array *array = ol_chunk_array_named(partition_map,
                                                               (link - 1) | OL_PARTITION_MAP_LARGE);
            uint64_t class_units;
            OL_ASSERT(ol_partition_map_class(ol_partition_map_units(array->capacity, array->form),
                                             &class_units) == class);
            free_units += class_units;
            link = array->count;
        }
    }
    OL_ASSERT(free_units == partition_map->large_free_units);
    OL_ASSERT((free_units + large_units) * sizeof(ol_chunk) == partition_map->large.used);
}
