/* table/chunk_array.c: arrays of chunks, dense or sorted, and their memory. */
#include "table/chunk_array_impl.h"

#include <string.h>

/* ----------------------------------------------------------------------------- memory of arrays */

/* Returns the smallest size class of at least `units`. */
unsigned ol_partition_map_class(uint64_t units, uint64_t *class_units) {
    OL_ASSERT(units > OL_RUN_LENGTH_MAX);
    unsigned shift = 61 - (unsigned)__builtin_clzll(units);
    uint64_t mantissa = (units + ((uint64_t)1 << shift) - 1) >> shift;
    *class_units = mantissa << shift;
    return shift * 4 + (unsigned)mantissa - 4;
}

static int allocate_large(ol_partition_map *partition_map, uint64_t units, uint32_t *name,
                          uint64_t *class_units, ol_error *error) {
    unsigned class = ol_partition_map_class(units, class_units);
    OL_ASSERT(class < OL_PARTITION_MAP_CLASS_COUNT);
    uint32_t *list = &partition_map->large_free[class];
    if (*list != 0) {
        *name = (*list - 1) | OL_PARTITION_MAP_LARGE;
        *list = ol_chunk_array_named(partition_map, *name)->count;
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

int ol_chunk_array_allocate(ol_partition_map *partition_map, uint64_t capacity, ol_chunk_form form,
                            uint32_t *name, ol_error *error) {
    uint64_t units = ol_partition_map_units(capacity, form);
    int status;
    if (units <= OL_RUN_LENGTH_MAX) {
        status = allocate_small(partition_map, (unsigned)units, name, error);
    } else {
        status = allocate_large(partition_map, units, name, &units, error);
    }
    if (status != OL_OK) return status;
    ol_chunk_array *array = ol_chunk_array_named(partition_map, *name);
    uint64_t places = units - OL_PARTITION_MAP_HEADER_UNITS;
    memset(array, 0, units * sizeof(ol_chunk));
    array->capacity = (uint16_t)(form == OL_CHUNKS_DENSE ? places : places * 2 / 3);
    array->form = form;
    OL_ASSERT(array->capacity >= capacity &&
              ol_partition_map_units(array->capacity, form) <= units);
    return OL_OK;
}

void ol_chunk_array_free(ol_partition_map *partition_map, uint32_t name) {
    ol_chunk_array *array = ol_chunk_array_named(partition_map, name);
    uint64_t units = ol_partition_map_units(array->capacity, array->form), class_units;
    if (!(name & OL_PARTITION_MAP_LARGE)) {
        ol_run_allocator_free(&partition_map->small, name, (unsigned)units);
        return;
    }
    unsigned class = ol_partition_map_class(units, &class_units);
    array->count = partition_map->large_free[class];
    partition_map->large_free[class] = (name & ~OL_PARTITION_MAP_LARGE) + 1;
    partition_map->large_free_units += class_units;
}

/* ----------------------------------------------------------------------------- chunks of a leaf */

/* Returns the index of the first chunk of a sparse leaf with a number at or above `number`. */
static uint32_t lower_bound(const ol_chunk_array *leaf, uint32_t number) {
    const uint32_t *numbers = ol_partition_map_numbers(leaf);
    uint32_t at = 0;
    while (at < leaf->count && numbers[at] < number) at++;
    return at;
}

/* Moves the chunks of a leaf from place `from` on to place `to`. */
static void move_chunks(ol_partition_map *partition_map, ol_chunk_array *leaf, uint32_t from,
                        uint32_t to) {
    uint32_t length = leaf->count - from;
    memmove(leaf->chunk + to, leaf->chunk + from, length * sizeof(ol_chunk));
    if (leaf->form == OL_CHUNKS_SPARSE) {
        uint32_t *numbers = ol_partition_map_numbers(leaf);
        memmove(numbers + to, numbers + from, length * sizeof(uint32_t));
    }
    partition_map->moved += length;
}

bool ol_chunk_array_has_room(const ol_chunk_array *leaf, uint32_t number) {
    if (leaf->form == OL_CHUNKS_SPARSE) return leaf->count < leaf->capacity;
    uint32_t end = leaf->base + leaf->count;
    uint32_t first = number < leaf->base ? number : leaf->base;
    return (number < end ? end : number + 1) - first <= leaf->capacity;
}

bool ol_chunk_array_has_room_for(const ol_chunk_array *leaf, ol_chunk_span all) {
    if (leaf->form == OL_CHUNKS_SPARSE) return all.living <= leaf->capacity;
    return all.last - (leaf->base < all.first ? leaf->base : all.first) < leaf->capacity;
}

static uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Returns the place of a new chunk. */
static uint32_t open_sparse(ol_partition_map *partition_map, ol_chunk_array *leaf,
                            uint32_t number) {
    uint32_t at = lower_bound(leaf, number);
    move_chunks(partition_map, leaf, at, at + 1);
    ol_partition_map_numbers(leaf)[at] = number;
    leaf->count++;
    return at;
}

static uint32_t open_dense(ol_partition_map *partition_map, ol_chunk_array *leaf, uint32_t number) {
    if (leaf->count == 0) leaf->base = number;
    if (number < leaf->base) {
        /* Half of the places that stay free are left before the chunk, for chunks with descending
         * numbers. */
        uint32_t shift = leaf->base - number;
        shift += min(leaf->capacity - leaf->count - shift, number) / 2;
        move_chunks(partition_map, leaf, 0, shift);
        memset(leaf->chunk, 0, shift * sizeof(ol_chunk));
        leaf->count += shift;
        leaf->base -= shift;
    }
    uint32_t at = number - leaf->base;
    if (at >= leaf->count) leaf->count = at + 1;
    OL_ASSERT(leaf->chunk[at].bitmap == 0);
    return at;
}

void ol_chunk_array_put(ol_partition_map *partition_map, ol_chunk_array *leaf, uint32_t number,
                        ol_chunk chunk) {
    OL_ASSERT(ol_chunk_array_has_room(leaf, number) || leaf->count == 0);
    uint32_t at = leaf->form == OL_CHUNKS_SPARSE ? open_sparse(partition_map, leaf, number)
                                                 : open_dense(partition_map, leaf, number);
    leaf->chunk[at] = (ol_chunk){.run = chunk.run, .bitmap = chunk.bitmap};
    leaf->living++;
}

void ol_chunk_array_take(ol_partition_map *partition_map, ol_chunk_array *leaf, uint32_t number) {
    if (leaf->form == OL_CHUNKS_SPARSE) {
        uint32_t at = lower_bound(leaf, number);
        OL_ASSERT(at < leaf->count && ol_partition_map_numbers(leaf)[at] == number);
        move_chunks(partition_map, leaf, at + 1, at);
        leaf->count--;
    } else {
        uint32_t at = number - leaf->base, count = leaf->count;
        OL_ASSERT(at < count && leaf->chunk[at].bitmap != 0);
        leaf->chunk[at] = (ol_chunk){0};
        while (leaf->count != 0 && leaf->chunk[leaf->count - 1].bitmap == 0) leaf->count--;
        partition_map->moved += count - leaf->count;
    }
    leaf->living--;
}

void ol_chunk_array_copy(ol_partition_map *partition_map, ol_chunk_array *target,
                         const ol_chunk_array *source, uint32_t from, uint32_t to) {
    for (uint32_t place = from; place < to; place++) {
        if (source->chunk[place].bitmap == 0) continue;
        ol_chunk_array_put(partition_map, target, ol_chunk_array_number(source, place),
                           source->chunk[place]);
    }
    partition_map->moved += to - from;
}

/* ------------------------------------------------------------------------------- choice of form */

ol_chunk_span ol_chunk_array_span(const ol_chunk_array *leaf) {
    uint32_t first = 0;
    while (leaf->chunk[first].bitmap == 0) first++;
    return (ol_chunk_span){leaf->living, ol_chunk_array_number(leaf, first),
                           ol_chunk_array_number(leaf, leaf->count - 1)};
}

ol_chunk_form ol_chunk_span_form(ol_chunk_span span) {
    uint64_t places = (uint64_t)span.last - span.first + 1;
    /* The dense form may take two units more, because it is faster. */
    return ol_partition_map_units(span.living, OL_CHUNKS_SPARSE) + 2 <
                   ol_partition_map_units(places, OL_CHUNKS_DENSE)
               ? OL_CHUNKS_SPARSE
               : OL_CHUNKS_DENSE;
}

bool ol_chunk_span_fits(ol_chunk_span span) {
    return ol_chunk_span_form(span) == OL_CHUNKS_SPARSE
               ? span.living <= OL_CHUNKS_SPARSE_MAX
               : span.last - span.first < OL_CHUNKS_DENSE_MAX;
}

int ol_chunk_array_allocate_leaf(ol_partition_map *partition_map, ol_chunk_span span,
                                 uint32_t *name, ol_error *error) {
    uint32_t places = span.last - span.first + 1;
    bool is_sparse = ol_chunk_span_form(span) == OL_CHUNKS_SPARSE &&
                     span.living <= OL_CHUNKS_SPARSE_MAX;
    OL_ASSERT(is_sparse || places <= OL_CHUNKS_DENSE_MAX);
    return ol_chunk_array_allocate(partition_map, is_sparse ? span.living : places,
                                   is_sparse ? OL_CHUNKS_SPARSE : OL_CHUNKS_DENSE, name, error);
}
