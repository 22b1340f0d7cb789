/* table/copy.c: copies the cells page by page, then the pages that have changed since, then
 * everything except the cells. */
#include "table/copy.h"

#include <stdlib.h>
#include <string.h>

#include "table/table_impl.h"

enum {
    CELLS = 0,                          /* the section of the cells */
    CELL_PAGE_SIZE = OL_RUN_ALLOCATOR_PAGE_UNITS * sizeof(ol_cell),
    STEP_PAGES = 64,
    FEW_PAGES = 64,                     /* bytes that the last step may copy as well */
    AGAIN_TIMES_MAX = 2,                /* how many times all pages may be copied again in steps */
    MEMORY_PAGE_SIZE = 4096,
    WORD_BITS = 64,
};

_Static_assert(CELL_PAGE_SIZE == 4096, "a step is 256 KiB");

size_t ol_table_copy_measure(ol_table *source, ol_table *target, ol_table_copy *copy) {
    ol_table_section arenas[OL_TABLE_SECTIONS];
    *copy = (ol_table_copy){.source = source, .target = target};
    ol_table_sections(source, arenas);
    size_t at_once = 0;
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) {
        copy->sizes[i] = arenas[i].arena->used;
        if (i != CELLS) at_once += copy->sizes[i];
    }
    copy->page_count = source->cells.page_count;
    return at_once;
}

/* Touches pages in advance, because pages touched for the first time under the lock would be
 * cleared under it. */
static void touch(ol_arena *arena) {
    for (size_t at = 0; at < arena->used; at += MEMORY_PAGE_SIZE) {
        *(volatile uint8_t *)(arena->base + at) = 0;
    }
}

int ol_table_copy_prepare(ol_table_copy *copy, ol_error *error) {
    ol_table_section arenas[OL_TABLE_SECTIONS];
    ol_table_sections(copy->target, arenas);
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) {
        OL_ASSERT(arenas[i].arena->used == 0);
        if (copy->sizes[i] == 0) continue;
        int status = ol_arena_extend(arenas[i].arena, copy->sizes[i], error);
        if (status != OL_OK) return status;
        touch(arenas[i].arena);
    }
    copy->marks = calloc(copy->page_count / WORD_BITS + 1, sizeof *copy->marks);
    if (copy->marks == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to copy a table");
    return OL_OK;
}

int ol_table_copy_begin(ol_table_copy *copy, ol_error *error) {
    ol_table *source = copy->source;
    if (source->marks != NULL) return ol_fail(error, OL_WOULD_BLOCK, "the table is being copied");
    OL_ASSERT(source->cells.page_count >= copy->page_count);
    source->marks = copy->marks;
    source->copied_pages = source->marked_count = 0;
    copy->begun = true;
    return OL_OK;
}

OL_NOINLINE void ol_table_mark_page(ol_table *table, const ol_cell *cell) {
    size_t index = (size_t)(cell - (const ol_cell *)table->cells.units.base);
    size_t page = index / OL_RUN_ALLOCATOR_PAGE_UNITS;
    if (page >= table->copied_pages) return;
    uint64_t bit = (uint64_t)1 << page % WORD_BITS, *word = &table->marks[page / WORD_BITS];
    table->marked_count += (*word & bit) == 0;
    *word |= bit;
}

static void copy_pages(const ol_table_copy *copy, size_t first, size_t count) {
    size_t at = first * CELL_PAGE_SIZE;
    memcpy(copy->target->cells.units.base + at, copy->source->cells.units.base + at,
           count * CELL_PAGE_SIZE);
}

static void copy_marked(ol_table_copy *copy, uint32_t count_max) {
    ol_table *source = copy->source;
    size_t words = copy->page_count / WORD_BITS + 1;
    uint32_t left = count_max;
    for (size_t i = 0; i < words && source->marked_count != 0 && left != 0; i++) {
        while (copy->marks[i] != 0 && left != 0) {
            copy_pages(copy, i * WORD_BITS + (size_t)__builtin_ctzll(copy->marks[i]), 1);
            copy->marks[i] &= copy->marks[i] - 1;
            source->marked_count--;
            left--;
        }
    }
}

bool ol_table_copy_step(ol_table_copy *copy) {
    ol_table *source = copy->source;
    uint32_t left = copy->page_count - source->copied_pages;
    if (left != 0) {
        uint32_t count = left < STEP_PAGES ? left : STEP_PAGES;
        copy_pages(copy, source->copied_pages, count);
        source->copied_pages += count;
        return true;
    }
    /* If a table changes faster than it is copied, the rest is copied at once at the end. */
    if (source->marked_count <= FEW_PAGES ||
        copy->copied_again >= AGAIN_TIMES_MAX * copy->page_count) {
        return false;
    }
    copy_marked(copy, STEP_PAGES);
    copy->copied_again += STEP_PAGES;
    return true;
}

size_t ol_table_copy_left(const ol_table_copy *copy) {
    const ol_table *source = copy->source;
    ol_table_section arenas[OL_TABLE_SECTIONS];
    ol_table_sections(copy->source, arenas);
    size_t left = (size_t)source->marked_count * CELL_PAGE_SIZE;
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) left += arenas[i].arena->used;
    return left - (size_t)source->copied_pages * CELL_PAGE_SIZE;
}

static int copy_arena(const ol_arena *source, ol_arena *target, size_t from, ol_error *error) {
    if (source->used > target->used) {
        int status = ol_arena_extend(target, source->used - target->used, error);
        if (status != OL_OK) return status;
    }
    target->used = source->used;
    if (source->used > from) memcpy(target->base + from, source->base + from, source->used - from);
    return OL_OK;
}

int ol_table_copy_finish(ol_table_copy *copy, ol_error *error) {
    ol_table *source = copy->source;
    ol_table_section from[OL_TABLE_SECTIONS], to[OL_TABLE_SECTIONS];
    uint8_t numbers[OL_TABLE_NUMBERS_SIZE];
    ol_table_sections(source, from);
    ol_table_sections(copy->target, to);
    copy_marked(copy, UINT32_MAX);
    int status = OL_OK;
    for (int i = 0; i < OL_TABLE_SECTIONS && status == OL_OK; i++) {
        size_t done = i == CELLS ? (size_t)source->copied_pages * CELL_PAGE_SIZE : 0;
        status = copy_arena(from[i].arena, to[i].arena, done, error);
    }
    ol_table_copy_cancel(copy);
    if (status != OL_OK) return status;
    ol_table_put_numbers(source, numbers);
    bool fits = ol_table_take_numbers(copy->target, numbers);
    OL_ASSERT(fits);
    return OL_OK;
}

void ol_table_copy_cancel(ol_table_copy *copy) {
    if (copy->begun) {
        copy->source->marks = NULL;
        copy->source->copied_pages = copy->source->marked_count = 0;
    }
    copy->begun = false;
    free(copy->marks);
    copy->marks = NULL;
}
