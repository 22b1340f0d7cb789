/* Arenas that are large at once, as those of a snapshot are, and how they go on growing. */
#include <string.h>

#include "base/arena.h"
#include "ol_test.h"

enum { MIB = 1 << 20, HUGE_PAGE = 2 * MIB };

static void fill(ol_arena *arena, size_t from) {
    for (size_t at = from; at < arena->used; at += 4093) {
        OL_CHECK_INT(arena->base[at], 0);
        arena->base[at] = (uint8_t)(at * 31 >> 3);
    }
}

static void check_filled(const ol_arena *arena, size_t size) {
    for (size_t at = 0; at < size; at += 4093) OL_CHECK_INT(arena->base[at], (uint8_t)(at * 31 >> 3));
}

OL_TEST(an_arena_that_is_large_at_once_grows_as_any_other) {
    static const size_t sizes[] = {100, 16 << 10, 20 << 10, MIB, HUGE_PAGE - 4096, HUGE_PAGE, 5 * MIB + 17, 62 * MIB, 64 * MIB, 67 * MIB + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ol_arena arena = {0};
        ol_error error;
        OL_CHECK_OK(ol_arena_extend(&arena, sizes[i], &error), &error);
        OL_CHECK_INT(arena.used, sizes[i]);
        if (arena.capacity >= HUGE_PAGE) OL_CHECK_INT((uintptr_t)arena.base % HUGE_PAGE, 0);
        OL_CHECK(ol_arena_resident(&arena) >= sizes[i] && ol_arena_resident(&arena) <= arena.capacity);
        fill(&arena, 0);
        /* To beyond where huge pages are asked for, where it was below. */
        while (arena.used < 2 * sizes[i] + 3 * MIB) {
            size_t before = (arena.used + 4092) / 4093 * 4093;
            OL_CHECK_OK(ol_arena_extend(&arena, arena.used / 3 + 4093, &error), &error);
            fill(&arena, before);
        }
        check_filled(&arena, arena.used);
        ol_arena_free(&arena);
        OL_CHECK(arena.base == NULL && arena.capacity == 0);
    }
}

OL_TEST(a_refused_growth_changes_nothing) {
    ol_arena arena = {0};
    ol_error error;
    OL_CHECK_OK(ol_arena_extend(&arena, 3 * MIB, &error), &error);
    fill(&arena, 0);
    OL_CHECK_INT(ol_arena_extend(&arena, SIZE_MAX / 2, &error), OL_NO_MEMORY);
    OL_CHECK_INT(ol_arena_extend(&arena, (size_t)1 << 55, &error), OL_NO_MEMORY);
    OL_CHECK_INT(arena.used, 3 * MIB);
    check_filled(&arena, arena.used);
    ol_arena_free(&arena);
}

OL_TEST_MAIN()
