/* partition/preallocator: the background thread of a store that extends and touches the active
 * segments ahead of need (ol_log_prepare), and queues flushes that no caller waits for.
 *
 * After a poll that found work, the thread polls again at once, otherwise after
 * OL_PREALLOCATOR_POLL_MS.  After OL_PREALLOCATOR_IDLE_POLLS idle polls it sleeps until the next
 * flush is due, or until it is kicked by a commit that found its pages not prepared.  So an idle
 * store costs one check of its positions per flush interval, or nothing.
 *
 * A flush that is due covers everything written up to then.  So a power loss takes at most what was
 * written during one interval and one flush; or two flushes, if one was running when the next was
 * due.
 *
 * Locks: list_lock covers the list of partitions, wake_lock the sleep.  Each is held only briefly,
 * and no lock is taken under it, so adding a partition or kicking the thread never waits for a
 * file.  Removing a partition waits while that partition is prepared.  After fork the child has no
 * such thread: it calls ol_preallocator_abandon.
 */
#ifndef OL_PARTITION_PREALLOCATOR_H
#define OL_PARTITION_PREALLOCATOR_H

#include "partition/flusher.h"
#include "partition/partition.h"

enum { OL_PREALLOCATOR_POLL_MS = 2, OL_PREALLOCATOR_IDLE_POLLS = 64 };

typedef struct ol_preallocator ol_preallocator;

/* Starts the thread.  `flusher` (may be NULL) flushes the logs that want it (ol_log_wants_flush)
 * and, every `flush_interval_ms` (0: never), those with something unflushed.  Stop the flusher
 * after the preallocator. */
int ol_preallocator_start(ol_preallocator **preallocator, ol_flusher *flusher,
                          int64_t flush_interval_ms, ol_error *error) OL_NODISCARD;

/* Adds a partition, which must be removed before it is closed. */
int ol_preallocator_add(ol_preallocator *preallocator, ol_partition *partition,
                        ol_error *error) OL_NODISCARD;
void ol_preallocator_remove(ol_preallocator *preallocator, ol_partition *partition);

/* Wakes the thread; never waits for it. */
void ol_preallocator_kick(ol_preallocator *preallocator);

/* Stops the thread and frees the preallocator. */
void ol_preallocator_stop(ol_preallocator *preallocator);

/* In a forked child: leaks the preallocator, since what its thread held at the fork cannot be freed
 * safely. */
void ol_preallocator_abandon(ol_preallocator *preallocator);

#endif
