/* partition/flusher: the threads of a store that flush partitions ahead of those who will wait for
 * it.
 *
 * Flushes that run at the same time share the disk's own flush, so that fifty take the time of a
 * few; for that the writes of the next OL_FLUSHER_AHEAD in the queue are begun before the first is
 * flushed.  A thread starts when a partition is queued and none is idle, at most OL_FLUSHER_THREADS
 * of them; then they sleep.
 *
 * Correctness does not depend on them: a thread that waits (ol_partition_wait) joins a flush under
 * way or flushes by itself, and the partition reports a failure to it.  The flusher does not hold
 * its lock (partition/partition_impl.h) while the disk works.  After fork the child has no such
 * threads: it calls ol_flusher_abandon.
 */
#ifndef OL_PARTITION_FLUSHER_H
#define OL_PARTITION_FLUSHER_H

#include "partition/partition.h"

enum { OL_FLUSHER_THREADS = 8, OL_FLUSHER_AHEAD = 64 };

typedef struct ol_flusher ol_flusher;

int ol_flusher_create(ol_flusher **flusher, ol_error *error) OL_NODISCARD;

/* Begins to flush what is written in these partitions by now, and returns at once.  A partition
 * belongs to one flusher, and is closed after ol_flusher_stop or ol_flusher_remove. */
void ol_flusher_begin(ol_flusher *flusher, ol_partition *const *partitions, size_t count);

/* The same where nobody will wait (ol_log_flush_unasked).  A flush under way that began before what
 * is written by now is followed by another. */
void ol_flusher_begin_unasked(ol_flusher *flusher, ol_partition *partition);

/* Takes a partition out of the queue, or waits for its flush: no thread uses it any more.  Nobody
 * may begin another of its flushes. */
void ol_flusher_remove(ol_flusher *flusher, ol_partition *partition);

/* Waits for the flushes under way, drops the queue, stops the threads and frees the flusher.  No
 * other call may be under way. */
void ol_flusher_stop(ol_flusher *flusher);

/* In a forked child: leaks the flusher, since what its threads held at the fork cannot be freed
 * safely. */
void ol_flusher_abandon(ol_flusher *flusher);

#endif
