/* partition/flusher: threads of a store that flush partitions for those who will wait: many partitions together, or one ahead of its next waiter.
 *
 * Flushes that run at the same time share the disk's own flush, so that fifty take the time of a few.  The threads start when there is
 * something to do, one for each partition that waits, at most OL_FLUSHER_THREADS; then they sleep.
 *
 * Nothing rests on them: whoever waits (ol_partition_wait) finds the flush under way, or makes it himself, and is told of its failure by the
 * partition.  One lock, innermost but for the partition's, never held while the disk is waited for.  After fork the child has no such
 * threads: it calls ol_flusher_abandon.
 */
#ifndef OL_PARTITION_FLUSHER_H
#define OL_PARTITION_FLUSHER_H

#include "partition/partition.h"

enum { OL_FLUSHER_THREADS = 8 };

typedef struct ol_flusher ol_flusher;

int ol_flusher_create(ol_flusher **flusher, ol_error *error) OL_NODISCARD;

/* Begins to flush what is written in a partition by now, and returns at once.  A partition belongs to one flusher, and is closed after
 * ol_flusher_stop. */
void ol_flusher_begin(ol_flusher *flusher, ol_partition *partition);

/* The same where nobody will wait (ol_log_flush_unasked). */
void ol_flusher_begin_unasked(ol_flusher *flusher, ol_partition *partition);

/* Waits for the flushes under way, forgets what was only begun, ends the threads and frees. */
void ol_flusher_stop(ol_flusher *flusher);

/* In a forked child: forgets.  What the threads held at that moment cannot be freed safely, so it is left. */
void ol_flusher_abandon(ol_flusher *flusher);

#endif
