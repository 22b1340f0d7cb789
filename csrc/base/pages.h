/* base/pages: large buffers that live for a moment, in pages of their own.
 *
 * The C library's allocator would keep holes for them for the life of the process; these pages go
 * back to the system when they are freed.  Ownership: the caller owns the memory.  Locks: none.
 */
#ifndef OL_BASE_PAGES_H
#define OL_BASE_PAGES_H

#include <sys/mman.h>

#include "base/base.h"

/* Faults pages in without a change of content.  Older headers lack the name, older kernels answer
 * EINVAL. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Zeroed memory for at least `size` bytes, or NULL. */
void *ol_pages_allocate(size_t size) OL_NODISCARD;

/* As ol_pages_allocate, for memory of which only a little is in use at a time.  A forked child does
 * not inherit it. */
void *ol_pages_reserve(size_t size) OL_NODISCARD;

/* Returns the whole pages of [memory, memory + size) to the system; `memory` is the beginning of a
 * page.  The pages read as zeros afterwards.  Returns their size in bytes. */
size_t ol_pages_give_back(void *memory, size_t size);

/* `size` is the requested one; NULL is fine. */
void ol_pages_free(void *memory, size_t size);

#endif
