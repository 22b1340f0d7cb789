/* partition/preallocator: the background thread of a store.  It extends the active segments and
 * touches their pages before they are needed (ol_log_prepare), and queues flushes for which no
 * caller waits.
 *
 * In each poll the thread calls ol_log_prepare for every partition.  If a poll has found work, the
 * thread polls again at once.  Otherwise it waits for OL_PREALLOCATOR_POLL_MS.  After
 * OL_PREALLOCATOR_IDLE_POLLS polls without work it sleeps until the next flush is due, or until a
 * commit whose pages were not prepared wakes it.  In an idle store, the thread therefore wakes up
 * once per flush interval, or never if there is no flush interval.
 *
 * A flush that is due covers everything that was written before it.  Usually, a power loss
 * can therefore destroy only what was written during one interval and one flush.  If the previous
 * flush is still running when the next one is due, a power loss can destroy what was written during
 * the interval and both flushes.
 *
 * Locks: list_lock protects the list of partitions, and wake_lock protects the sleep.  Each is held
 * only for a short time, and no lock is taken under it.  Adding a partition, or waking the thread,
 * therefore never waits for a file.  Removing a partition waits while that partition is being
 * prepared.  After a fork the child has no such thread, and calls ol_preallocator_abandon. */
#ifndef OL_PARTITION_PREALLOCATOR_H
#define OL_PARTITION_PREALLOCATOR_H

#include "partition/flusher.h"
#include "partition/partition.h"

enum { OL_PREALLOCATOR_POLL_MS = 2, OL_PREALLOCATOR_IDLE_POLLS = 64 };

typedef struct ol_preallocator ol_preallocator;

/* Starts the thread.  `flusher` may be NULL.  Otherwise it flushes the logs that should be flushed
 * (ol_log_wants_flush) and, every `flush_interval_ms`, all logs that have unflushed bytes.  If
 * `flush_interval_ms` is 0, logs are not flushed by time.  The flusher must be stopped after the
 * preallocator. */
int ol_preallocator_start(ol_preallocator **preallocator, ol_flusher *flusher,
                          int64_t flush_interval_ms, ol_error *error) OL_NODISCARD;

/* Adds a partition.  It must be removed before the partition is closed. */
int ol_preallocator_add(ol_preallocator *preallocator, ol_partition *partition,
                        ol_error *error) OL_NODISCARD;
void ol_preallocator_remove(ol_preallocator *preallocator, ol_partition *partition);

/* Wakes the thread, and returns without waiting for it. */
void ol_preallocator_kick(ol_preallocator *preallocator);

/* Stops the thread and frees the preallocator. */
void ol_preallocator_stop(ol_preallocator *preallocator);

/* Called in a forked child.  Leaks the preallocator on purpose: its memory cannot be freed safely,
 * because its thread may have been using it at the fork. */
void ol_preallocator_abandon(ol_preallocator *preallocator);

#endif
