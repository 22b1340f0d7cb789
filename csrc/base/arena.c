/* base/arena.c: small arenas on the heap, larger ones as mappings that mremap grows. */
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pages.h"

enum {
    HEAP_SIZE_FIRST = 256,
    HEAP_SIZE_MAX = 16 << 10,           /* above this an arena is a mapping of its own */
    MAP_STEP_MIN = 64 << 10,
    HUGE_PAGE_SIZE = 2 << 20,
    /* from here on rounding up to a huge page costs at most a thirtieth */
    HUGE_ARENA_SIZE_MIN = 64 << 20,
    PAGE_SIZE = 4096,
};

static int64_t calls_until_failure = -1;

void ol_arena_fail_after(int64_t calls) {
    calls_until_failure = calls;
}

static size_t round_up(size_t size, size_t step) {
    return (size + step - 1) / step * step;
}

static size_t capacity_for(const ol_arena *arena, size_t needed) {
    if (needed <= HEAP_SIZE_MAX) {
        size_t capacity = HEAP_SIZE_FIRST;
        while (capacity < needed) capacity *= 2;
        return capacity;
    }
    size_t step = arena->capacity / 8 > MAP_STEP_MIN ? arena->capacity / 8 : MAP_STEP_MIN;
    size_t capacity = arena->capacity + step > needed ? arena->capacity + step : needed;
    return round_up(capacity, capacity >= HUGE_ARENA_SIZE_MIN ? HUGE_PAGE_SIZE : PAGE_SIZE);
}

static uint8_t *grow_on_heap(ol_arena *arena, size_t capacity) {
    uint8_t *base = aligned_alloc(64, capacity);
    if (base == NULL) return NULL;
    if (arena->used != 0) memcpy(base, arena->base, arena->used);
    memset(base + arena->used, 0, capacity - arena->used);
    free(arena->base);
    return base;
}

/* Reserves address space of `capacity` bytes at a multiple of the huge page size, because only
 * between such addresses can the kernel move whole page tables and huge pages unchanged.  Returns
 * NULL if no address space is left. */
static uint8_t *reserve_aligned(size_t capacity) {
    size_t span = capacity + HUGE_PAGE_SIZE;
    uint8_t *space = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                          0);
    if (space == MAP_FAILED) return NULL;
    size_t before = (HUGE_PAGE_SIZE - (uintptr_t)space % HUGE_PAGE_SIZE) % HUGE_PAGE_SIZE;
    if (before != 0) munmap(space, before);
    if (before != HUGE_PAGE_SIZE) munmap(space + before + capacity, HUGE_PAGE_SIZE - before);
    return space + before;
}

static void advise(uint8_t *base, size_t capacity) {
    /* Each call gives the advice for the whole mapping: parts with different advice would be
     * separate mappings, which mremap refuses to move together.  If the kernel refuses the advice,
     * only speed is lost. */
    if (capacity >= HUGE_ARENA_SIZE_MIN) (void)madvise(base, capacity, MADV_HUGEPAGE);
}

/* An arena that is large from the start will be filled at once, from a snapshot.  In a smaller one,
 * only the whole huge pages below `needed` are made now; the pages after `needed` stay small, so no
 * memory is wasted.  Afterwards the whole mapping gets the same advice again, as mremap requires;
 * that takes no page away. */
static void populate_huge(uint8_t *base, size_t needed, size_t capacity) {
    size_t whole = needed / HUGE_PAGE_SIZE * HUGE_PAGE_SIZE;
    if (whole == 0 || capacity >= HUGE_ARENA_SIZE_MIN || madvise(base, whole, MADV_HUGEPAGE) != 0) {
        return;
    }
    (void)madvise(base, whole, MADV_POPULATE_WRITE);
    (void)madvise(base, capacity, MADV_NOHUGEPAGE);
}

static uint8_t *map_first(ol_arena *arena, size_t needed, size_t capacity) {
    uint8_t *space = capacity >= HUGE_PAGE_SIZE ? reserve_aligned(capacity) : NULL;
    if (capacity >= HUGE_PAGE_SIZE && space == NULL) return NULL;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (space != NULL ? MAP_FIXED : 0);
    uint8_t *base = mmap(space, capacity, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (base == MAP_FAILED) {
        if (space != NULL) munmap(space, capacity);
        return NULL;
    }
    advise(base, capacity);
    populate_huge(base, needed, capacity);
    if (arena->used != 0) memcpy(base, arena->base, arena->used);
    free(arena->base);
    return base;
}

static uint8_t *move_aligned(ol_arena *arena, size_t capacity) {
    uint8_t *target = reserve_aligned(capacity);
    if (target == NULL) return NULL;
    uint8_t *base = mremap(arena->base, arena->capacity, capacity, MREMAP_MAYMOVE | MREMAP_FIXED,
                           target);
    if (base != MAP_FAILED) return base;
    munmap(target, capacity);
    return NULL;
}

static uint8_t *grow_mapping(ol_arena *arena, size_t capacity) {
    bool large = capacity >= HUGE_PAGE_SIZE;
    bool aligned = (uintptr_t)arena->base % HUGE_PAGE_SIZE == 0;
    uint8_t *base = MAP_FAILED;
    if (!large || aligned) {
        base = mremap(arena->base, arena->capacity, capacity, large ? 0 : MREMAP_MAYMOVE);
    }
    if (base == MAP_FAILED) {
        if (!large) return NULL;
        base = move_aligned(arena, capacity);
        if (base == NULL) return NULL;
    }
    advise(base, capacity);
    return base;
}

static OL_NOINLINE int grow(ol_arena *arena, size_t needed, ol_error *error) {
    size_t capacity = capacity_for(arena, needed);
    uint8_t *base;
    if (capacity <= HEAP_SIZE_MAX) {
        base = grow_on_heap(arena, capacity);
    } else if (arena->capacity <= HEAP_SIZE_MAX) {
        base = map_first(arena, needed, capacity);
    } else {
        base = grow_mapping(arena, capacity);
    }
    if (base == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "the table cannot grow to %zu bytes", capacity);
    }
    arena->base = base;
    arena->capacity = capacity;
    return OL_OK;
}

int ol_arena_extend(ol_arena *arena, size_t size, ol_error *error) {
    if (OL_UNLIKELY(calls_until_failure >= 0)) {
        if (calls_until_failure == 0) {
            return ol_fail(error, OL_NO_MEMORY, "this allocation fails at the request of a test");
        }
        calls_until_failure--;
    }
    if (OL_UNLIKELY(size > arena->capacity - arena->used)) {
        if (size > SIZE_MAX / 4 - arena->used) {
            return ol_fail(error, OL_NO_MEMORY,
                           "%zu bytes are more than the address space holds", size);
        }
        int status = grow(arena, arena->used + size, error);
        if (status != OL_OK) return status;
    }
    arena->used += size;
    return OL_OK;
}

void ol_arena_free(ol_arena *arena) {
    if (arena->capacity > HEAP_SIZE_MAX) {
        munmap(arena->base, arena->capacity);
    } else {
        free(arena->base);
    }
    *arena = (ol_arena){NULL, 0, 0};
}

uint64_t ol_arena_resident(const ol_arena *arena) {
    if (arena->capacity <= HEAP_SIZE_MAX) return arena->capacity;
    size_t resident = round_up(arena->used,
                               arena->capacity >= HUGE_ARENA_SIZE_MIN ? HUGE_PAGE_SIZE : PAGE_SIZE);
    return resident < arena->capacity ? resident : arena->capacity;
}
