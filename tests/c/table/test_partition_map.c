/* The chunks of a pair (table/partition_map, chunk_tree, chunk_array) beside a plain list of them: whatever numbers
 * come in whatever order, each is found, the walk ascends, memory and the cost of growth stay bounded. */
#include "table/chunk_array_impl.h"
#include "ol_test.h"

/* ------------------------------------------------------------------------------------------------ the model */

enum { COUNT_MAX = 1 << 19 };

typedef struct map_model {
    ol_partition_map map;
    ol_chunk root;
    uint32_t count;                     /* numbers that may be there */
    uint32_t present;
    uint32_t numbers[COUNT_MAX];        /* ascending */
    bool is_present[COUNT_MAX];
} map_model;

static map_model model;

typedef uint32_t (*numbering)(uint32_t index);

static uint32_t dense(uint32_t index) { return OL_CHUNK_NUMBER_ZERO + index; }
static uint32_t far_apart(uint32_t index) { return 5 + index * 1979; }
static uint32_t every_third(uint32_t index) { return OL_CHUNK_NUMBER_ZERO + index * 3; }
static uint32_t clusters(uint32_t index) { return 77 + index / 700 * 100000 + index % 700 * (1 + index / 700 % 3); }
static uint32_t dense_then_far(uint32_t index) {
    return index < 2000 ? OL_CHUNK_NUMBER_ZERO + index : OL_CHUNK_NUMBER_ZERO + index * 501;
}

static const numbering numberings[] = {dense, far_apart, every_third, clusters, dense_then_far};
enum { NUMBERINGS = sizeof numberings / sizeof *numberings };

static void begin(uint32_t count, numbering number_of) {
    OL_CHECK(count <= COUNT_MAX);
    ol_partition_map_init(&model.map);
    model.root = (ol_chunk){0};
    model.count = count;
    model.present = 0;
    memset(model.is_present, 0, sizeof model.is_present);
    for (uint32_t i = 0; i < count; i++) {
        model.numbers[i] = number_of(i);
        OL_CHECK(i == 0 || model.numbers[i] > model.numbers[i - 1]);
        OL_CHECK(model.numbers[i] < OL_CHUNK_NUMBER_LIMIT);
    }
}

static uint16_t bitmap_of(uint32_t index) { return (uint16_t)(1 + index % 15); }

static int try_add(uint32_t index) {
    ol_error error;
    OL_CHECK(!model.is_present[index]);
    int status = ol_partition_map_add(&model.map, &model.root, model.numbers[index], index + 1, bitmap_of(index),
                                      &error);
    model.is_present[index] = status == OL_OK;
    model.present += status == OL_OK;
    return status;
}

static void add(uint32_t index) { OL_CHECK_INT(try_add(index), OL_OK); }

static void take_out(uint32_t index) {
    OL_CHECK(model.is_present[index]);
    ol_partition_map_remove(&model.map, &model.root, model.numbers[index]);
    model.is_present[index] = false;
    model.present--;
}

static void toggle(uint32_t index) {
    if (model.is_present[index]) {
        take_out(index);
    } else {
        add(index);
    }
}

/* ------------------------------------------------------------------------------------------------ what is checked */

static bool is_valid(void) {
    ol_partition_map_bits bits;
    ol_error error;
    OL_CHECK_OK(ol_partition_map_bits_create(&model.map, &bits, &error), &error);
    bool is_sound = ol_partition_map_validate(&model.map, &error) == OL_OK &&
                    ol_partition_map_validate_root(&model.map, &model.root, &bits) &&
                    ol_partition_map_validate_taken(&model.map, &bits);
    ol_partition_map_bits_free(&bits);
    return is_sound;
}

static void check_structure(void) {
    uint8_t *used = calloc((size_t)model.map.small.page_count * OL_RUN_ALLOCATOR_PAGE_UNITS / 8 + 1, 1);
    bool is_empty = model.root.bitmap == 0 && model.root.run == 0;
    OL_CHECK_INT(is_empty, model.present == 0);
    uint64_t large = is_empty ? 0 : ol_partition_map_verify_root(&model.map, &model.root, used);
    ol_partition_map_verify(&model.map, used, large);
    free(used);
    if (!is_empty) OL_CHECK(is_valid());
}

static void check_chunk(uint32_t index) {
    ol_chunk *chunk = ol_partition_map_find(&model.map, &model.root, model.numbers[index]);
    OL_CHECK_INT(chunk != NULL, model.is_present[index]);
    if (chunk == NULL) return;
    OL_CHECK_INT(chunk->run, index + 1);
    OL_CHECK_INT(chunk->bitmap, bitmap_of(index));
}

static void check_all(void) {
    check_structure();
    ol_chunk_walk walk = {0};
    for (uint32_t i = 0; i < model.count; i++) {
        check_chunk(i);
        if (i == 0 || model.numbers[i] != model.numbers[i - 1] + 1) {
            OL_CHECK(ol_partition_map_find(&model.map, &model.root, model.numbers[i] - 1) == NULL);
        }
        if (!model.is_present[i]) continue;
        uint32_t number;
        const ol_chunk *chunk = ol_partition_map_at(&model.map, &model.root, &walk, &number);
        OL_CHECK(chunk != NULL && number == model.numbers[i] && chunk->run == i + 1);
        walk.place++;
    }
    uint32_t number;
    if (model.present != 0) OL_CHECK(ol_partition_map_at(&model.map, &model.root, &walk, &number) == NULL);
}

/* Nothing is left over once the last chunk is gone: all memory of the map is free. */
static void end(void) {
    for (uint32_t i = 0; i < model.count; i++) {
        if (model.is_present[i]) take_out(i);
    }
    check_structure();
    uint64_t units = model.map.small.page_count * (uint64_t)OL_RUN_ALLOCATOR_PAGE_UNITS +
                     model.map.large.used / sizeof(ol_chunk);
    OL_CHECK_INT(ol_partition_map_unused(&model.map) / sizeof(ol_chunk), units == 0 ? 0 : units - 1);
    ol_partition_map_free_all(&model.map);
}

static unsigned depth(void) {
    unsigned branches = 0;
    if (model.root.bitmap != 0 || model.root.run == 0) return 0;
    for (const ol_chunk_array *array = ol_partition_map_array(&model.map, &model.root);
         array->form == OL_CHUNKS_BRANCH; branches++) {
        array = ol_partition_map_array(&model.map, &array->chunk[0]);
    }
    return branches;
}

/* Bytes that the arrays take, without what is free. */
static uint64_t bytes_used(void) {
    return (model.map.small.page_count * (uint64_t)OL_RUN_ALLOCATOR_PAGE_UNITS) * sizeof(ol_chunk) +
           model.map.large.used - ol_partition_map_unused(&model.map);
}

/* ------------------------------------------------------------------------------------------------ orders */

typedef enum order { ASCENDING, DESCENDING, RANDOM, FROM_BOTH_ENDS, FROM_THE_MIDDLE, ORDERS } order;

static const char *const order_names[] = {"ascending", "descending", "random", "from both ends", "from the middle"};

static uint32_t *make_order(uint32_t count, order kind) {
    uint32_t *indices = malloc(count * sizeof *indices);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t half = i / 2;
        indices[i] = kind == DESCENDING        ? count - 1 - i
                     : kind == FROM_BOTH_ENDS  ? (i % 2 ? count - 1 - half : half)
                     : kind == FROM_THE_MIDDLE ? (i % 2 ? (count - 1) / 2 + 1 + half : (count - 1) / 2 - half)
                                               : i;
    }
    for (uint32_t i = count - 1; kind == RANDOM && i > 0; i--) {
        uint32_t j = (uint32_t)ol_test_below(i + 1), swapped = indices[i];
        indices[i] = indices[j];
        indices[j] = swapped;
    }
    return indices;
}

static void every_order(uint32_t count, numbering number_of, order in, order out) {
    uint32_t *coming = make_order(count, in), *going = make_order(count, out);
    begin(count, number_of);
    for (uint32_t i = 0; i < count; i++) {
        add(coming[i]);
        if (i % 1009 == 0) check_all();
    }
    check_all();
    for (uint32_t i = 0; i < count; i++) {
        take_out(going[i]);
        if (i % 1009 == 0) check_all();
    }
    end();
    free(coming);
    free(going);
}

OL_TEST(chunks_come_and_go_in_any_order) {
    for (unsigned k = 0; k < NUMBERINGS; k++) {
        for (int in = 0; in < ORDERS; in++) {
            every_order(1 + (uint32_t)ol_test_below(6000), numberings[k], in, (order)ol_test_below(ORDERS));
        }
    }
}

OL_TEST(chunks_come_and_go_at_random) {
    for (unsigned k = 0; k < NUMBERINGS; k++) {
        uint32_t count = 1 + (uint32_t)ol_test_below(5000), steps = (uint32_t)ol_test_depth(20000, 400000);
        begin(count, numberings[k]);
        uint32_t low = 0, high = count;
        for (uint32_t i = 0; i < steps; i++) {
            if (i % 2000 == 0) {
                low = (uint32_t)ol_test_below(count);
                high = low + 1 + (uint32_t)ol_test_below(count - low);
            }
            toggle(low + (uint32_t)ol_test_below(high - low));
            if (i % 997 == 0) check_all();
        }
        check_all();
        end();
    }
}

/* The same topic is dense, then has few partitions that lie far apart, then is dense again. */
OL_TEST(dense_then_sparse_and_back) {
    enum { COUNT = 40000 };
    begin(COUNT, dense);
    for (uint32_t i = 0; i < COUNT; i++) add(i);
    uint64_t when_dense = bytes_used();
    uint32_t *going = make_order(COUNT, RANDOM);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < COUNT - COUNT / 100; i++) take_out(going[i]);
        check_all();
        OL_CHECK(bytes_used() < model.present * 40);
        for (uint32_t i = 0; i < COUNT - COUNT / 100; i++) add(going[i]);
        check_all();
        OL_CHECK(bytes_used() < when_dense + when_dense / 4);
        OL_CHECK(depth() <= 1);
    }
    free(going);
    end();
}

/* ------------------------------------------------------------------------------------------------ cost */

typedef struct cost {
    uint64_t worst;             /* places moved by one call */
    double average;
} cost;

static void count_call(uint64_t before, cost *of) {
    uint64_t moved = model.map.moved - before;
    if (moved > of->worst) of->worst = moved;
}

static void measure(uint32_t count, numbering number_of, order kind, cost *adding, cost *taking) {
    uint32_t *indices = make_order(count, kind);
    begin(count, number_of);
    *adding = *taking = (cost){0};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t before = model.map.moved;
        add(indices[i]);
        count_call(before, adding);
    }
    adding->average = (double)model.map.moved / count;
    uint64_t added = model.map.moved;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t before = model.map.moved;
        take_out(indices[i]);
        count_call(before, taking);
    }
    taking->average = (double)(model.map.moved - added) / count;
    end();
    free(indices);
}

/* The cost of growth is shown by a count: a call moves no more places of a large pair than of a small one. */
OL_TEST(growth_moves_a_bounded_number_of_places) {
    static const numbering measured[] = {far_apart, every_third, dense};
    static const char *const names[] = {"far apart", "every third", "dense"};
    uint32_t largest = (uint32_t)ol_test_depth(1 << 16, COUNT_MAX);
    for (int k = 0; k < 3; k++) {
        for (int kind = 0; kind < ORDERS; kind++) {
            for (uint32_t count = 1 << 8; count <= largest; count *= 16) {
                cost adding, taking;
                measure(count, measured[k], (order)kind, &adding, &taking);
                printf("  %-11s %-15s %6u: %5.1f places an add, at most %" PRIu64 "; %5.1f a removal, %" PRIu64 "\n",
                       names[k], order_names[kind], count, adding.average, adding.worst, taking.average, taking.worst);
                bool is_far = measured[k] == far_apart;
                OL_CHECK(adding.average < (is_far ? 30 : 200) && taking.average < (is_far ? 30 : 200));
                OL_CHECK(adding.worst < (is_far ? 500 : 4 * OL_CHUNKS_DENSE_MAX));
                OL_CHECK(taking.worst < (is_far ? 500 : 8 * OL_CHUNKS_DENSE_MAX));
            }
        }
    }
}

OL_TEST(the_depth_is_logarithmic) {
    for (int kind = 0; kind < ORDERS; kind++) {
        enum { COUNT = 1 << 16 };
        uint32_t *indices = make_order(COUNT, (order)kind);
        begin(COUNT, far_apart);
        uint64_t leaves = 1;
        for (uint32_t i = 0; i < COUNT; i++) {
            add(indices[i]);
            /* Leaves hold ten chunks or more, but for those at an edge; branches forty children. */
            if ((i & (i + 1)) != 0) continue;
            unsigned needed = 0;
            for (leaves = i / 10 + 1; leaves > 1; leaves /= 40) needed++;
            OL_CHECK(depth() <= needed);
        }
        end();
        free(indices);
    }
}

/* An entry of a far-apart partition takes 32 bytes of cell and a quarter byte of its bitmap, and at most 31 in here. */
OL_TEST(far_apart_numbers_take_at_most_31_bytes_each) {
    for (int kind = 0; kind < ORDERS; kind++) {
        enum { COUNT = 50000 };
        uint32_t *indices = make_order(COUNT, (order)kind);
        begin(COUNT, far_apart);
        for (uint32_t i = 0; i < COUNT; i++) {
            add(indices[i]);
            if (i % 5000 == 4999) OL_CHECK(ol_partition_map_resident(&model.map) < 31 * (uint64_t)model.present);
        }
        for (uint32_t i = 0; i < COUNT - 1000; i++) {
            take_out(indices[i]);
            if (i % 1000 == 0) OL_CHECK(bytes_used() <= 31 * (uint64_t)model.present);
        }
        end();
        free(indices);
    }
}

/* A dense leaf that has few chunks left, far apart, is divided until each part takes what it needs. */
OL_TEST(a_leaf_that_was_dense_gives_its_memory_back) {
    enum { COUNT = OL_CHUNKS_DENSE_MAX, LEFT = COUNT / 4 };
    begin(COUNT, dense);
    for (uint32_t i = 0; i < COUNT; i++) add(i);
    for (uint32_t i = LEFT; i < COUNT; i++) {
        if (i % 4 != 0) take_out(i);
    }
    for (uint32_t i = 0; i < LEFT; i++) {
        take_out(i);
        OL_CHECK(bytes_used() <= 31 * (uint64_t)model.present);
    }
    check_all();
    end();
}

/* Pairs that grow in step drop their outgrown arrays at the same time. */
OL_TEST(pairs_that_grow_in_step_take_no_more) {
    enum { PAIRS = 500, EACH = 120 };
    static ol_chunk roots[PAIRS];
    ol_partition_map map;
    ol_error error;
    ol_partition_map_init(&map);
    memset(roots, 0, sizeof roots);
    for (uint32_t i = 0; i < EACH; i++) {
        for (uint32_t pair = 0; pair < PAIRS; pair++) {
            OL_CHECK_OK(ol_partition_map_add(&map, &roots[pair], far_apart(i * 7 % EACH), 1, 1, &error), &error);
        }
        if (i >= 8) OL_CHECK(ol_partition_map_resident(&map) < 31 * PAIRS * (uint64_t)(i + 1));
    }
    ol_partition_map_free_all(&map);
}

/* An array of dense chunks takes 8 bytes for each and 16 for all, as long as it comes from small memory. */
OL_TEST(dense_chunks_take_eight_bytes) {
    begin(30, dense);
    add(0);
    OL_CHECK_INT(bytes_used(), 0);
    for (uint32_t i = 1; i < 30; i++) {
        add(i);
        OL_CHECK_INT(bytes_used() - sizeof(ol_chunk), 16 + 8 * (i + 1));      /* unit 0 is nobody's */
    }
    end();
    begin(COUNT_MAX, dense);
    for (uint32_t i = 0; i < COUNT_MAX; i++) add(i);
    OL_CHECK(bytes_used() < COUNT_MAX * 9ull);
    OL_CHECK_INT(depth(), 1);
    end();
}

/* ------------------------------------------------------------------------------------------------ failures */

/* Memory fails at some moment of a call; the chunks are those from before. */
OL_TEST(a_call_that_finds_no_memory_changes_no_chunk) {
    int failures = 0;
    for (unsigned k = 0; k < NUMBERINGS; k++) {
        enum { COUNT = 4000 };
        begin(COUNT, numberings[k]);
        for (int i = 0; i < 30000; i++) {
            uint32_t index = (uint32_t)ol_test_below(COUNT);
            ol_arena_fail_after(ol_test_below(3) == 0 ? -1 : (int64_t)ol_test_below(2));
            if (model.is_present[index]) {
                if (ol_test_below(3) == 0) take_out(index);
            } else if (try_add(index) != OL_OK) {
                check_structure();
                if (failures++ % 16 == 0) check_all();
            }
        }
        ol_arena_fail_after(-1);
        check_all();
        end();
    }
    printf("  %d calls found no memory\n", failures);
    OL_CHECK(failures > 100);
}

/* A full leaf becomes two below a branch.  There is memory for the branch and for no leaf: the branch goes, too. */
OL_TEST(a_leaf_that_cannot_be_divided_stays_the_only_array) {
    enum { MIDDLE = OL_CHUNKS_SPARSE_MAX / 2, HELD_MAX = 64 };
    ol_error error;
    uint32_t held[HELD_MAX], count = 0;
    begin(OL_CHUNKS_SPARSE_MAX + 1, far_apart);
    for (uint32_t i = 0; i <= OL_CHUNKS_SPARSE_MAX; i++) {
        if (i != MIDDLE) add(i);
    }
    ol_arena_fail_after(0);
    while (ol_chunk_array_allocate(&model.map, 1, OL_CHUNKS_SPARSE, &held[count], &error) == OL_OK) count++;
    ol_chunk_array_free(&model.map, held[--count]);
    ol_chunk_array_free(&model.map, held[--count]);
    uint32_t leaf = model.root.run;
    OL_CHECK_INT(try_add(MIDDLE), OL_NO_MEMORY);
    OL_CHECK_INT(model.root.run, leaf);
    ol_arena_fail_after(-1);
    while (count > 0) ol_chunk_array_free(&model.map, held[--count]);
    check_all();
    add(MIDDLE);
    check_all();
    end();
}

/* ------------------------------------------------------------------------------------------------ hostile arrays */

static void begin_by_hand(void) {
    ol_error error;
    uint32_t name;
    begin(1, dense);
    OL_CHECK_OK(ol_chunk_array_allocate(&model.map, 1, OL_CHUNKS_SPARSE, &name, &error), &error);
    ol_chunk_array_free(&model.map, name);      /* unit 0 is taken from now on */
}

static void check_tree(uint32_t name, bool is_sound) {
    model.root = (ol_chunk){.run = name};
    OL_CHECK_INT(is_valid(), is_sound);
    ol_partition_map_free_all(&model.map);
}

static const ol_chunk a_chunk = {.run = 1, .bitmap = 1};

static uint32_t make_branch(const uint32_t *names, const uint32_t *numbers, uint32_t count) {
    ol_error error;
    uint32_t name;
    OL_CHECK_OK(ol_chunk_array_allocate(&model.map, count, OL_CHUNKS_BRANCH, &name, &error), &error);
    ol_chunk_array *branch = ol_chunk_array_named(&model.map, name);
    for (uint32_t i = 0; i < count; i++) {
        branch->chunk[i].run = names[i];
        ol_partition_map_numbers(branch)[i] = i == 0 ? 0 : numbers[i];
    }
    branch->count = count;
    return name;
}

/* A full leaf of numbers with room between them, or a leaf of one. */
static uint32_t make_leaf(uint32_t number, uint32_t count) {
    ol_error error;
    uint32_t name;
    OL_CHECK_OK(ol_chunk_array_allocate(&model.map, count, OL_CHUNKS_SPARSE, &name, &error), &error);
    for (uint32_t i = 0; i < count; i++) {
        ol_chunk_array_put(&model.map, ol_chunk_array_named(&model.map, name), number + 4 * i, a_chunk);
    }
    return name;
}

/* A tree whose leaves lie below `height` branches; those on the way to its lowest numbers have as many children as may
 * be. */
static uint32_t make_full_path(unsigned height, uint32_t number, bool is_full) {
    if (height == 0) return make_leaf(number, is_full ? OL_CHUNKS_SPARSE_MAX : 1);
    uint32_t names[OL_CHUNKS_BRANCH_MAX], numbers[OL_CHUNKS_BRANCH_MAX], count = is_full ? OL_CHUNKS_BRANCH_MAX : 1;
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = i == 0 ? number : number + height * 100 + i;
        names[i] = make_full_path(height - 1, numbers[i], is_full && i == 0);
    }
    return make_branch(names, numbers, count);
}

/* Such a tree can only come from a file; it is valid, and a chunk that would deepen it is refused. */
OL_TEST(a_tree_that_cannot_grow_deeper_refuses_a_chunk) {
    ol_error error;
    begin_by_hand();
    model.root = (ol_chunk){.run = make_full_path(OL_CHUNKS_DEPTH_MAX, 1000, true)};
    OL_CHECK(is_valid());
    OL_CHECK_INT(depth(), OL_CHUNKS_DEPTH_MAX);
    OL_CHECK_INT(ol_partition_map_add(&model.map, &model.root, 1002, 9, 1, &error), OL_LIMIT);
    OL_CHECK(is_valid());
    OL_CHECK(ol_partition_map_find(&model.map, &model.root, 1002) == NULL);
    OL_CHECK(ol_partition_map_find(&model.map, &model.root, 1004) != NULL);
    ol_partition_map_remove(&model.map, &model.root, 1004);
    OL_CHECK(is_valid());
    OL_CHECK_OK(ol_partition_map_add(&model.map, &model.root, 1002, 9, 1, &error), &error);
    OL_CHECK(is_valid());
    ol_partition_map_free_all(&model.map);
    for (unsigned above = 0; above < 2; above++) {
        begin_by_hand();
        uint32_t numbers[2] = {0, 5000}, height = OL_CHUNKS_DEPTH_MAX - 1 + above;
        uint32_t names[2] = {make_full_path(height, 1000, false), make_full_path(height, 5000, false)};
        check_tree(make_branch(names, numbers, 2), above == 0);
    }
}

/* Two leaves of the numbers 100 and 200, the second below a branch of its own or not, beside what a branch says. */
static void check_pair_of_leaves(uint32_t first, uint32_t second, bool is_deeper, bool is_sound) {
    begin_by_hand();
    uint32_t names[2] = {make_leaf(100, 1), make_leaf(200, 1)}, numbers[2] = {first, second};
    if (is_deeper) names[1] = make_branch(&names[1], numbers, 1);
    check_tree(make_branch(names, numbers, 2), is_sound);
}

OL_TEST(branches_that_do_not_fit_their_leaves_are_refused) {
    check_pair_of_leaves(0, 150, false, true);
    check_pair_of_leaves(0, 200, false, true);
    check_pair_of_leaves(0, 101, false, true);
    check_pair_of_leaves(0, 201, false, false);
    check_pair_of_leaves(0, 100, false, false);
    check_pair_of_leaves(0, 0, false, false);
    check_pair_of_leaves(0, 150, true, false);
    begin_by_hand();
    uint32_t leaf = make_leaf(100, 1), zero = 0;
    check_tree(make_branch(&leaf, &zero, 1), false);        /* a root has two children */
}

/* Larger than any array that this code makes: it could not be divided. */
OL_TEST(arrays_that_are_too_large_are_refused) {
    static const struct { ol_chunk_form form; uint32_t capacity; } wrong[] = {
        {OL_CHUNKS_DENSE, OL_CHUNKS_DENSE_MAX + 100},
        {OL_CHUNKS_SPARSE, OL_CHUNKS_SPARSE_MAX + 1},
        {OL_CHUNKS_DENSE, 1},
    };
    for (int i = 0; i < 3; i++) {
        ol_error error;
        uint32_t name;
        begin_by_hand();
        OL_CHECK_OK(ol_chunk_array_allocate(&model.map, wrong[i].capacity, wrong[i].form, &name, &error), &error);
        ol_chunk_array_put(&model.map, ol_chunk_array_named(&model.map, name), 100, a_chunk);
        check_tree(name, wrong[i].capacity == 1);
    }
}

/* The numbers of a branch lie between those of its neighbours above: else a chunk is put where nobody finds it. */
OL_TEST(ranges_of_branches_do_not_overlap) {
    for (uint32_t wrong = 0; wrong < 3; wrong++) {
        begin_by_hand();
        uint32_t left[2] = {make_leaf(100, 1), make_leaf(200, 1)}, left_numbers[2] = {0, wrong == 1 ? 400 : 150},
                 right[2] = {make_leaf(500, 1), make_leaf(600, 1)}, right_numbers[2] = {0, wrong == 2 ? 250 : 550},
                 root_numbers[2] = {0, 300};
        uint32_t root[2] = {make_branch(left, left_numbers, 2), make_branch(right, right_numbers, 2)};
        check_tree(make_branch(root, root_numbers, 2), wrong == 0);
    }
}

static ol_chunk_array *array_named(uint32_t name) { return ol_chunk_array_named(&model.map, name); }

static uint32_t leaf_below(uint32_t name, uint32_t child) {
    while (array_named(name)->form == OL_CHUNKS_BRANCH) {
        name = array_named(name)->chunk[child].run;
        child = 0;
    }
    return name;
}

/* Each change of one field makes a sound tree unsound, and the change back makes it sound again. */
#define CHECK_REFUSED(field, value) \
    do { \
        __auto_type kept = (field); \
        (field) = (__typeof__(field))(value); \
        OL_CHECK(!is_valid()); \
        (field) = kept; \
        OL_CHECK(is_valid()); \
    } while (0)

OL_TEST(an_unsound_tree_from_a_file_is_refused) {
    enum { COUNT = 30000 };
    begin(COUNT, far_apart);
    uint32_t *indices = make_order(COUNT, RANDOM);
    for (uint32_t i = 0; i < COUNT; i++) add(indices[i]);
    free(indices);
    OL_CHECK(depth() >= 2 && is_valid());
    ol_chunk_array *root = array_named(model.root.run), *branch = array_named(root->chunk[1].run),
                   *leaf = array_named(leaf_below(model.root.run, 1));
    uint32_t *root_numbers = ol_partition_map_numbers(root), *branch_numbers = ol_partition_map_numbers(branch),
             *numbers = ol_partition_map_numbers(leaf);
    CHECK_REFUSED(root->chunk[1].run, model.root.run);                      /* leads back to itself */
    CHECK_REFUSED(root->chunk[1].run, root->chunk[0].run);                  /* belongs to two */
    CHECK_REFUSED(root->chunk[1].run, 0);
    CHECK_REFUSED(root->chunk[1].run, UINT32_MAX);
    CHECK_REFUSED(root->chunk[1].run, leaf_below(model.root.run, 1));       /* not as deep as the others */
    CHECK_REFUSED(root->chunk[1].bitmap, 1);
    CHECK_REFUSED(root->chunk[1].number, 1);
    CHECK_REFUSED(root->count, root->count - 1);
    CHECK_REFUSED(root->count, root->capacity + 1);
    CHECK_REFUSED(root->count, 0);
    CHECK_REFUSED(root->capacity, OL_CHUNKS_BRANCH_MAX + 1);
    CHECK_REFUSED(root->living, 1);
    CHECK_REFUSED(root->form, OL_CHUNKS_SPARSE);
    CHECK_REFUSED(root->form, 3);
    CHECK_REFUSED(root_numbers[0], 1);
    CHECK_REFUSED(root_numbers[1], root_numbers[1] + 100000);               /* the first leaf lies below it */
    CHECK_REFUSED(root_numbers[1], root_numbers[2]);
    CHECK_REFUSED(root_numbers[1], 0);
    CHECK_REFUSED(branch_numbers[branch->count - 1], UINT32_MAX);
    CHECK_REFUSED(branch_numbers[1], root_numbers[1]);                      /* nothing is left for the first */
    CHECK_REFUSED(leaf->form, OL_CHUNKS_DENSE);
    CHECK_REFUSED(leaf->form, OL_CHUNKS_BRANCH);
    CHECK_REFUSED(leaf->capacity, OL_CHUNKS_SPARSE_MAX + 1);
    CHECK_REFUSED(leaf->capacity, 0);
    CHECK_REFUSED(leaf->living, leaf->living - 1);
    CHECK_REFUSED(leaf->chunk[1].bitmap, 0);
    CHECK_REFUSED(leaf->chunk[1].number, 1);
    CHECK_REFUSED(numbers[1], numbers[0]);
    CHECK_REFUSED(numbers[0], root_numbers[1] - 1);                         /* belongs to the leaf before */
    CHECK_REFUSED(numbers[leaf->count - 1], OL_CHUNK_NUMBER_LIMIT);
    end();
}

OL_TEST(an_unsound_dense_leaf_is_refused) {
    enum { COUNT = OL_CHUNKS_DENSE_MAX + 1000 };
    begin(COUNT, dense);
    for (uint32_t i = 0; i < COUNT; i++) add(i);
    take_out(COUNT - 2);
    OL_CHECK(depth() == 1 && is_valid());
    ol_chunk_array *leaf = array_named(leaf_below(model.root.run, 1));
    CHECK_REFUSED(leaf->base, leaf->base - 1);                              /* belongs to the leaf before */
    CHECK_REFUSED(leaf->base, OL_CHUNK_NUMBER_LIMIT - leaf->count + 1);
    CHECK_REFUSED(leaf->base, UINT32_MAX);
    CHECK_REFUSED(leaf->count, leaf->count - 1);
    CHECK_REFUSED(leaf->count, leaf->capacity + 1);
    CHECK_REFUSED(leaf->living, leaf->count);
    CHECK_REFUSED(leaf->capacity, OL_CHUNKS_DENSE_MAX + 1);
    CHECK_REFUSED(leaf->chunk[leaf->count - 1].bitmap, 0);
    CHECK_REFUSED(leaf->chunk[leaf->count].bitmap, 1);                      /* would count as new */
    CHECK_REFUSED(leaf->chunk[0].number, 1);
    end();
}

OL_TEST_MAIN()
