/* base/pages: large buffers that live for a moment, in pages of their own.
 *
 * From the allocator of the C library they would leave holes that a long-lived process keeps for ever; these go back to the system when they are
 * freed.  No locks; the caller owns what it allocated.
 */
#ifndef OL_BASE_PAGES_H
#define OL_BASE_PAGES_H

#include "base/base.h"

/* Zeroed memory for at least `size` bytes, or NULL. */
void *ol_pages_allocate(size_t size) OL_NODISCARD;

/* `size` is what was asked for; NULL is fine. */
void ol_pages_free(void *memory, size_t size);

#endif
