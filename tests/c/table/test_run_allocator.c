/* Runs of units beside a plain list of who holds what: no unit twice, none outside the limit, none lost. */
#include "table/run_allocator.h"
#include "ol_test.h"

enum { UNIT = 8, LIMIT = 4096, HELD_MAX = 600 };

typedef struct run {
    uint32_t index;
    unsigned length;
} run;

static void check_units(const ol_run_allocator *allocator, const run *held, size_t count) {
    static uint8_t users[LIMIT];
    memset(users, 0, sizeof users);
    for (size_t i = 0; i < count; i++) {
        for (unsigned at = 0; at < held[i].length; at++) {
            OL_CHECK(held[i].index + at < LIMIT);
            OL_CHECK_INT(users[held[i].index + at]++, 0);
            OL_CHECK(!ol_run_allocator_is_free(allocator, held[i].index + at));
        }
    }
    ol_run_allocator_verify(allocator);
}

static void allocate_and_free(bool aligned) {
    ol_run_allocator allocator = {0};
    static run held[HELD_MAX];
    size_t count = 0;
    ol_error error;
    ol_run_allocator_init(&allocator, UNIT, LIMIT, aligned);
    for (int step = 0; step < 6000; step++) {
        if (count == HELD_MAX || (count > 0 && ol_test_below(5) < 2)) {
            size_t gone = (size_t)ol_test_below(count);
            ol_run_allocator_free(&allocator, held[gone].index, held[gone].length);
            held[gone] = held[--count];
        } else {
            unsigned length = aligned ? 1u << ol_test_below(3) : 1 + (unsigned)ol_test_below(OL_RUN_LENGTH_MAX);
            run made = {.length = length};
            int status = ol_run_allocator_allocate(&allocator, length, &made.index, &error);
            OL_CHECK(status == OL_OK || status == OL_LIMIT);
            if (status == OL_OK) {
                if (aligned) OL_CHECK_INT(made.index % length, 0);
                held[count++] = made;
            }
        }
        if (step % 97 == 0) check_units(&allocator, held, count);
    }
    check_units(&allocator, held, count);
    while (count > 0) {
        count--;
        ol_run_allocator_free(&allocator, held[count].index, held[count].length);
    }
    ol_run_allocator_verify(&allocator);
    OL_CHECK_OK(ol_run_allocator_validate(&allocator, &error), &error);
    ol_run_allocator_free_all(&allocator);
}

OL_TEST(free_runs_hold_each_unit_once) { allocate_and_free(false); }

OL_TEST(aligned_runs_lie_at_multiples_of_their_length) { allocate_and_free(true); }

OL_TEST(a_full_allocator_refuses_and_takes_up_again_after_a_free) {
    ol_run_allocator allocator = {0};
    ol_error error;
    uint32_t index, last = 0;
    ol_run_allocator_init(&allocator, UNIT, 2 * OL_RUN_ALLOCATOR_PAGE_UNITS, false);
    int status;
    while ((status = ol_run_allocator_allocate(&allocator, OL_RUN_LENGTH_MAX, &index, &error)) == OL_OK) last = index;
    OL_CHECK_INT(status, OL_LIMIT);
    ol_run_allocator_verify(&allocator);
    ol_run_allocator_free(&allocator, last, OL_RUN_LENGTH_MAX);
    OL_CHECK_OK(ol_run_allocator_allocate(&allocator, OL_RUN_LENGTH_MAX, &index, &error), &error);
    OL_CHECK_INT(index, last);
    ol_run_allocator_free_all(&allocator);
}

OL_TEST_MAIN()
