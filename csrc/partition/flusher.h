/* partition/flusher: the threads of a store that flush partitions before a caller waits for the
 * flush.
 *
 * Flushes that run at the same time share the disk's own flush, so that fifty take the time of a
 * few.  To make them overlap, the writes of the next OL_FLUSHER_AHEAD partitions in the queue are
 * begun before the first is flushed.  A thread starts when a partition is queued and no thread is
 * idle, up to OL_FLUSHER_THREADS of them; idle threads sleep.
 *
 * Correctness does not depend on these threads: a caller that waits (ol_partition_wait) joins a
 * running flush or flushes itself, and the partition reports a failure to it.  The flusher does not
 * hold its lock (partition/partition_impl.h) while the disk works.  After fork the child has no
 * such threads: it calls ol_flusher_abandon.
 */
#ifndef OL_PARTITION_FLUSHER_H
#define OL_PARTITION_FLUSHER_H

#include "partition/partition.h"

enum { OL_FLUSHER_THREADS = 8, OL_FLUSHER_AHEAD = 64 };

typedef struct ol_flusher ol_flusher;

int ol_flusher_create(ol_flusher **flusher, ol_error *error) OL_NODISCARD;

/* Begins to flush everything written in these partitions so far, and returns at once.  A partition
 * belongs to one flusher, and is closed after ol_flusher_stop or ol_flusher_remove. */
void ol_flusher_begin(ol_flusher *flusher, ol_partition *const *partitions, size_t count);

/* Like ol_flusher_begin, for one partition and a flush that no caller waits for
 * (ol_log_flush_unasked).  If a flush is running that does not cover everything written so far,
 * another follows it. */
void ol_flusher_begin_unasked(ol_flusher *flusher, ol_partition *partition);

/* Takes a partition out of the queue, or waits for its flush.  Afterwards no thread uses it; no
 * other flush of it may be begun. */
void ol_flusher_remove(ol_flusher *flusher, ol_partition *partition);

/* Waits for the running flushes, drops the queue, stops the threads and frees the flusher.  No
 * other call may run. */
void ol_flusher_stop(ol_flusher *flusher);

/* In a forked child: leaks the flusher, since what its threads held at the fork cannot be freed
 * safely. */
void ol_flusher_abandon(ol_flusher *flusher);

#endif
