/* front/commit_counts: beside a plain array; names that share a hash; the limit and what is forgotten; reading in parts. */
#include "front/commit_counts.h"

#include "base/bytes.h"
#include "colliding_names.h"
#include "fault_memory.h"

enum { GROUPS = 40, SEED = 4711, STEPS = 20000, MANY = 5000, BYTES = 1 << 20 };

typedef struct plain {
    uint64_t commits;
    ol_commit_count *held;
} plain;

/* Half of the groups share a hash. */
static ol_slice group_name(size_t group, uint8_t name[COLLIDING_SIZE]) {
    if (group % 2 == 0) return colliding_name(SEED, group, name);
    return ol_slice_of(name, (size_t)snprintf((char *)name, COLLIDING_SIZE, "group-%zu", group));
}

typedef struct wanted {
    ol_slice group;
    uint64_t commits;
    size_t times, all;
} wanted;

static void look(void *context, ol_slice group, uint64_t commits) {
    wanted *look_for = context;
    look_for->all++;
    if (!ol_slice_equal(group, look_for->group)) return;
    look_for->commits = commits;
    look_for->times++;
}

static wanted read_all(const ol_commit_counts *counts, ol_slice group) {
    wanted found = {.group = group};
    size_t part = 0;
    do {
        part = ol_commit_counts_read(counts, part, look, &found);
    } while (part != 0);
    return found;
}

static void step(ol_commit_counts *counts, plain *each, ol_slice name, uint64_t draw) {
    if (draw % 3 == 0) {
        ol_commit_counts_add(counts, name);
        each->commits++;
    } else if (each->held != NULL && draw % 3 == 1) {
        each->held->commits++;
        each->commits++;
    } else if (each->held != NULL) {
        ol_commit_counts_release(counts, each->held);
        each->held = NULL;
    } else {
        each->held = ol_commit_counts_hold(counts, name);
        OL_CHECK(each->held != NULL && each->held->commits == each->commits);
    }
}

OL_TEST(beside_a_plain_array) {
    ol_commit_counts counts = {.seed = SEED, .limit = GROUPS, .bytes_limit = BYTES};
    plain model[GROUPS] = {0};
    bool is_known[GROUPS] = {0};
    uint8_t bytes[COLLIDING_SIZE];
    for (int i = 0; i < STEPS; i++) {
        size_t group = ol_test_below(GROUPS);
        step(&counts, &model[group], group_name(group, bytes), ol_test_random());
        is_known[group] = true;
    }
    for (size_t i = 0; i < GROUPS; i++) {
        wanted found = read_all(&counts, group_name(i, bytes));
        OL_CHECK(found.times == (is_known[i] ? 1 : 0));
        OL_CHECK(found.commits == model[i].commits);
    }
    ol_commit_counts_free(&counts);
}

OL_TEST(the_limit_forgets_what_nobody_holds) {
    ol_commit_counts counts = {.seed = SEED, .limit = 4, .bytes_limit = BYTES};
    uint8_t bytes[COLLIDING_SIZE];
    ol_commit_count *first = ol_commit_counts_hold(&counts, group_name(0, bytes));
    first->commits = 7;
    for (size_t i = 1; i <= 4; i++) ol_commit_counts_add(&counts, group_name(i, bytes));
    OL_CHECK(read_all(&counts, group_name(0, bytes)).commits == 7);
    OL_CHECK(read_all(&counts, group_name(1, bytes)).times == 0);
    wanted last = read_all(&counts, group_name(4, bytes));
    OL_CHECK(last.commits == 1 && last.all == 2);
    /* More than half are held: a new group is not counted, and those that are there stay. */
    (void)ol_commit_counts_hold(&counts, group_name(4, bytes));
    (void)ol_commit_counts_hold(&counts, group_name(5, bytes));
    ol_commit_counts_add(&counts, group_name(6, bytes));
    OL_CHECK(ol_commit_counts_hold(&counts, group_name(7, bytes)) == NULL);
    ol_commit_counts_release(&counts, NULL);
    ol_commit_counts_add(&counts, group_name(6, bytes));
    OL_CHECK(read_all(&counts, group_name(6, bytes)).commits == 2);
    ol_commit_counts_free(&counts);
}

/* As long as clients' names may be. */
OL_TEST(names_take_no_more_bytes_than_the_limit) {
    static uint8_t bytes[32 << 10];
    ol_commit_counts counts = {.seed = SEED, .limit = MANY, .bytes_limit = BYTES};
    ol_slice name = ol_slice_of(bytes, sizeof bytes);
    for (size_t i = 0; i < 200; i++) {
        bytes[0] = (uint8_t)i;
        ol_commit_counts_add(&counts, name);
        OL_CHECK(counts.bytes <= BYTES && read_all(&counts, name).commits == 1);
    }
    size_t held = 0;
    for (size_t i = 0; i < 200; i++) {
        bytes[0] = (uint8_t)i;
        if (ol_commit_counts_hold(&counts, name) != NULL) held++;
    }
    /* Those that are held stay, and nothing is forgotten for others when they are half of it. */
    OL_CHECK(held >= 16 && held < 32 && counts.bytes <= BYTES);
    OL_CHECK(counts.held == held && counts.held_bytes <= counts.bytes);
    bytes[0] = 255;
    ol_commit_counts_add(&counts, ol_slice_of(bytes, 10));
    OL_CHECK(read_all(&counts, ol_slice_of(bytes, 10)).commits == 1);
    static uint8_t large[BYTES];
    ol_commit_counts_add(&counts, ol_slice_of(large, sizeof large));
    OL_CHECK(read_all(&counts, ol_slice_of(large, sizeof large)).times == 0);
    ol_commit_counts_free(&counts);
    OL_CHECK(counts.bytes == 0 && counts.held_bytes == 0);
}

OL_TEST(no_limit_counts_nothing) {
    ol_commit_counts counts = {0};
    uint8_t bytes[COLLIDING_SIZE];
    OL_CHECK(ol_commit_counts_hold(&counts, group_name(1, bytes)) == NULL);
    OL_CHECK(read_all(&counts, group_name(1, bytes)).all == 0);
    ol_commit_counts_free(&counts);
}

OL_TEST(many_are_read_in_parts) {
    ol_commit_counts counts = {.seed = SEED, .limit = 2 * MANY, .bytes_limit = BYTES};
    uint8_t bytes[COLLIDING_SIZE];
    for (size_t i = 0; i < MANY; i++) ol_commit_counts_add(&counts, group_name(2 * i + 1, bytes));
    wanted found = {.group = group_name(1, bytes)};
    size_t part = ol_commit_counts_read(&counts, 0, look, &found);
    OL_CHECK(part == 1 && found.all < MANY);
    /* The table grows in between: none that was there is left out. */
    for (size_t i = MANY; i < 2 * MANY; i++) ol_commit_counts_add(&counts, group_name(2 * i + 1, bytes));
    while (part != 0) part = ol_commit_counts_read(&counts, part, look, &found);
    OL_CHECK(found.all >= MANY && found.times >= 1);
    ol_commit_counts_free(&counts);
}

OL_TEST(memory_that_runs_out_counts_nothing) {
    uint8_t bytes[COLLIDING_SIZE];
    for (int64_t at = 1; at <= 2; at++) {
        ol_commit_counts counts = {.seed = SEED, .limit = 4, .bytes_limit = BYTES};
        fault_memory_at(at);
        OL_CHECK(ol_commit_counts_hold(&counts, group_name(1, bytes)) == NULL);
        fault_memory_at(0);
        OL_CHECK(ol_commit_counts_hold(&counts, group_name(1, bytes)) != NULL);
        ol_commit_counts_free(&counts);
    }
}

OL_TEST_MAIN()
