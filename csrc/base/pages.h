/* base/pages: short-lived large buffers, in pages of their own.
 *
 * Buffers of the C library's allocator could leave holes in its heap for the life of the process;
 * these pages return to the system when they are freed.  Ownership: the caller owns the memory.
 * Locks: none.
 */
#ifndef OL_BASE_PAGES_H
#define OL_BASE_PAGES_H

#include <sys/mman.h>

#include "base/base.h"

/* Faults pages in without changing their content.  Older headers lack the name; older kernels
 * return EINVAL. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Returns zeroed memory for at least `size` bytes, or NULL. */
void *ol_pages_allocate(size_t size) OL_NODISCARD;

/* Like ol_pages_allocate, for memory that is mostly unused at any one time.  A forked child does
 * not inherit it. */
void *ol_pages_reserve(size_t size) OL_NODISCARD;

/* Gives the whole pages of [memory, memory + size) back to the system and returns their size in
 * bytes.  `memory` is page-aligned.  The pages read as zeros afterwards. */
size_t ol_pages_give_back(void *memory, size_t size);

/* Frees pages; `size` is the size that was requested, and `memory` may be NULL. */
void ol_pages_free(void *memory, size_t size);

#endif
