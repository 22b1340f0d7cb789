/* partition/flusher: threads of a store that flush its partitions ahead of time, so that a later
 * wait for a flush is shorter.
 *
 * Flushes that run at the same time share the cache flush of the disk: fifty of them take the time
 * of a few.  To make flushes overlap, the flusher starts the writes of the next OL_FLUSHER_AHEAD
 * partitions in the queue before it flushes the first.  If a partition is queued and no thread is
 * idle, a new thread starts, up to OL_FLUSHER_THREADS threads.  Idle threads sleep.
 *
 * Correctness does not depend on these threads.  A caller that waits (ol_partition_wait) joins a
 * flush that is running, or flushes by itself, and learns of a failure from the partition.  The
 * flusher does not hold its lock (partition/partition_impl.h) while the disk works.  After a fork
 * the child has no such threads, and calls ol_flusher_abandon. */
#ifndef OL_PARTITION_FLUSHER_H
#define OL_PARTITION_FLUSHER_H

#include "partition/partition.h"

enum { OL_FLUSHER_THREADS = 8, OL_FLUSHER_AHEAD = 64 };

typedef struct ol_flusher ol_flusher;

int ol_flusher_create(ol_flusher **flusher, ol_error *error) OL_NODISCARD;

/* Queues the partitions, so that everything written in them so far is flushed, and returns at once.
 * A partition may be queued in one flusher only.  It must not be closed before ol_flusher_remove or
 * ol_flusher_stop has returned. */
void ol_flusher_begin(ol_flusher *flusher, ol_partition *const *partitions, size_t count);

/* Queues one partition for a flush for which no caller waits (ol_log_flush_unasked).  If a flush of
 * the partition is already running but does not cover everything written so far, another flush
 * follows it. */
void ol_flusher_begin_unasked(ol_flusher *flusher, ol_partition *partition);

/* Takes a partition out of the queue.  If the partition is being flushed, waits for this flush.
 * Afterwards no thread of the flusher uses the partition, and it must not be queued again. */
void ol_flusher_remove(ol_flusher *flusher, ol_partition *partition);

/* Waits for the running flushes, empties the queue, stops the threads and frees the flusher.  No
 * other call of the flusher may run at the same time. */
void ol_flusher_stop(ol_flusher *flusher);

/* Called in a forked child.  Leaks the flusher on purpose: its memory cannot be freed safely,
 * because its threads may have been using it at the fork. */
void ol_flusher_abandon(ol_flusher *flusher);

#endif
