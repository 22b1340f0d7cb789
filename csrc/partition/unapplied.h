/* partition/unapplied: the latest batches of a replicated leader, in memory until W passes them.
 *
 * The host moves W soon after a commit.  Without these bytes every move would read the file that
 * the commit has just written.  This is a cache: a batch that is not here can be read from the log,
 * so keeping one cannot fail.
 *
 * Locks: the partition's writer lock around every call.  The memory, at most
 * OL_UNAPPLIED_BYTES_MAX, is the cache's own; ol_unapplied_free releases it.
 */
#ifndef OL_PARTITION_UNAPPLIED_H
#define OL_PARTITION_UNAPPLIED_H

#include "base/base.h"
#include "base/bytes.h"

enum { OL_UNAPPLIED_BYTES_MAX = 4 << 20 };

typedef struct ol_unapplied {
    uint8_t *bytes;             /* whole batches, without gaps in their offsets */
    size_t capacity;
    size_t start;               /* of the first batch */
    size_t end;                 /* of the last one */
    int64_t from;               /* the log offsets [from, to) are here; empty: from == to */
    int64_t to;
} ol_unapplied;

/* Keeps a sealed batch with the log offsets [base_offset, next_offset); drops the earlier ones if
 * there is a gap before it, or no room for all.  If there is no room for the batch alone, nothing
 * is kept. */
void ol_unapplied_keep(ol_unapplied *unapplied, const uint8_t *batch, size_t size,
                       int64_t base_offset, int64_t next_offset);

/* Returns the whole batches from `offset` to the end of the cache, borrowed until the next call; an
 * empty slice if a part of [offset, to) is not here. */
ol_slice ol_unapplied_find(const ol_unapplied *unapplied, int64_t offset, int64_t to);

/* Drops the batches below `offset`. */
void ol_unapplied_drop(ol_unapplied *unapplied, int64_t offset);

/* Drops all batches, and gives the memory back. */
void ol_unapplied_free(ol_unapplied *unapplied);

#endif
