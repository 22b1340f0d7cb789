/* base/arena: a run of zeroed memory that grows at its end and is addressed by offsets.
 *
 * An arena of up to 16 KiB is a block of the heap, so that a store with many small tables stays
 * small.  A larger arena is a mapping of its own, which grows by at least an eighth at a time.  The
 * kernel grows a mapping in place or moves it without copying (mremap).  The unused part of a
 * mapping takes address space, but no memory.  A mapping of at least 2 MiB is aligned to huge
 * pages, and a mapping of at least 64 MiB requests them.
 *
 * Ownership: the arena owns its memory; zeroed memory is an empty arena.  Growth may move the
 * memory, so a pointer into it is valid only until the next ol_arena_extend.  The arena takes no
 * locks.
 */
#ifndef OL_BASE_ARENA_H
#define OL_BASE_ARENA_H

#include "base/base.h"
#include "base/status.h"

typedef struct ol_arena {
    uint8_t *base;              /* aligned to 64 bytes */
    size_t used;                /* bytes */
    size_t capacity;            /* bytes */
} ol_arena;

/* Extends the arena by `size` zeroed bytes and counts them as used.  If it fails with OL_NO_MEMORY,
 * nothing has changed. */
int ol_arena_extend(ol_arena *arena, size_t size, ol_error *error) OL_NODISCARD;
void ol_arena_free(ol_arena *arena);

/* Returns how many bytes of memory the arena takes, not counting its unused address space. */
uint64_t ol_arena_resident(const ol_arena *arena);

/* For tests: lets `calls` more calls of ol_arena_extend in this process succeed and makes every
 * later one fail.  A negative number switches the failures off. */
void ol_arena_fail_after(int64_t calls);

#endif
