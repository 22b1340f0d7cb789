/* base/pages: large buffers that live for a moment, in pages of their own.
 *
 * The C library's allocator would keep holes for them for the life of the process; these pages go
 * back to the system when they are freed.  Ownership: the caller owns the memory.  Locks: none.
 */
#ifndef OL_BASE_PAGES_H
#define OL_BASE_PAGES_H

#include "base/base.h"

/* Zeroed memory for at least `size` bytes, or NULL. */
void *ol_pages_allocate(size_t size) OL_NODISCARD;

/* `size` is the requested one; NULL is fine. */
void ol_pages_free(void *memory, size_t size);

#endif
