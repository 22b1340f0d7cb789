/* partition/unapplied: keeps the latest batches of a replicated leader in memory until W has passed
 * them.
 *
 * W is the high watermark (partition/partition.h).  The host moves W soon after a commit.  Without
 * these batches in memory, each move of W would have to read what the commit has just written to
 * the file.  This is only a cache: a batch that is not in it can be read from the log.  Therefore
 * keeping a batch cannot fail.
 *
 * Locks: the caller of every function holds the writer lock of the partition.  The memory belongs
 * to the cache and has at most OL_UNAPPLIED_BYTES_MAX bytes.  ol_unapplied_free frees it. */
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
    int64_t from;               /* the batches with the log offsets [from, to) are here; if from ==
                                   to, the cache is empty */
    int64_t to;
} ol_unapplied;

/* Keeps a sealed batch with the log offsets [base_offset, next_offset).  If there is a gap before
 * the batch, or not enough memory for all, the earlier batches are dropped.  If there is not enough
 * memory for the batch alone, nothing is kept. */
void ol_unapplied_keep(ol_unapplied *unapplied, const uint8_t *batch, size_t size,
                       int64_t base_offset, int64_t next_offset);

/* Returns the batches from the one that contains `offset` to the end of the cache.  The slice is
 * valid until the next call.  If a part of [offset, to) is not in the cache, returns an empty
 * slice. */
ol_slice ol_unapplied_find(const ol_unapplied *unapplied, int64_t offset, int64_t to);

/* Drops the batches below `offset`. */
void ol_unapplied_drop(ol_unapplied *unapplied, int64_t offset);

/* Drops all batches and frees the memory. */
void ol_unapplied_free(ol_unapplied *unapplied);

#endif
