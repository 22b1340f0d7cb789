/* base/pages: short-lived large buffers, in pages of their own.
 *
 * A large buffer from the C library's allocator could leave a hole in its heap for the life of the
 * process.  These pages return to the operating system when they are freed.  Ownership: the caller
 * owns the memory.  The functions take no locks.
 */
#ifndef OL_BASE_PAGES_H
#define OL_BASE_PAGES_H

#include <sys/mman.h>

#include "base/base.h"

/* The advice with which madvise faults pages in without changing their content.  Older headers do
 * not define the constant, and older kernels return EINVAL for it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Returns zeroed memory for at least `size` bytes, or NULL. */
void *ol_pages_allocate(size_t size) OL_NODISCARD;

/* Returns zeroed memory for at least `size` bytes, or NULL.  Use this function instead of
 * ol_pages_allocate if most of the memory is unused at any one time.  A forked child process does
 * not inherit the memory. */
void *ol_pages_reserve(size_t size) OL_NODISCARD;

/* Gives the whole pages in [memory, memory + size) back to the operating system, and returns their
 * size in bytes.  `memory` must be page-aligned.  Afterwards these pages read as zeros. */
size_t ol_pages_give_back(void *memory, size_t size);

/* Frees pages; `size` is the size that was requested, and `memory` may be NULL. */
void ol_pages_free(void *memory, size_t size);

#endif
