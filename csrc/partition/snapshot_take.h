/* partition/snapshot_take: snapshots (snapshot/snapshot.h) of a partition: taken from it, checked
 * against it, and published.
 *
 * One thread at a time uses a snapshot.  A borrowed snapshot must not outlive its partition.  No
 * call holds a lock while it reads the log; snapshot.lock (partition/partition_impl.h) keeps
 * publish, remove and a truncation apart.  The caller owns and destroys a snapshot that is
 * returned; a call that fails returns none.
 */
#ifndef OL_PARTITION_SNAPSHOT_TAKE_H
#define OL_PARTITION_SNAPSHOT_TAKE_H

#include "partition/partition.h"
#include "snapshot/snapshot.h"

/* Does what ol_snapshot_begin does, for a loaded partition. */
int ol_partition_snapshot_begin(ol_partition *partition, ol_snapshot **snapshot,
                                ol_error *error) OL_NODISCARD;

/* Does what ol_snapshot_advance does; OL_WOULD_BLOCK also when leadership ended meanwhile. */
int ol_partition_snapshot_advance(ol_partition *partition, ol_snapshot *snapshot, int64_t up_to,
                                  const atomic_bool *stop, ol_error *error) OL_NODISCARD;

/* Makes a snapshot that borrows the partition's own state, at the log end, which must be flushed:
 * for a lone partition that is being closed.  Until the snapshot is destroyed, no other function
 * may be called with the partition.  OL_INVALID when the partition is not active, has problems, or
 * is not flushed. */
int ol_partition_snapshot_borrow(ol_partition *partition, ol_snapshot **snapshot,
                                 ol_error *error) OL_NODISCARD;

/* Copies the state of an active partition of a lone store, without a replay, at a log end that is
 * at or above that at the time of the call.  Commits continue; they wait for some tens of
 * microseconds at a time, and once for about a millisecond.  Records above the flushed bound must
 * be flushed before the snapshot is published.  OL_INVALID: the partition is not active, or has
 * problems.  OL_LIMIT: commits would have to wait longer.  OL_CLOSED: *stop was set.
 * OL_WOULD_BLOCK: another copy is being made, or the log was cleaned or truncated meanwhile.  Also
 * fails with OL_NO_MEMORY or OL_IO. */
int ol_partition_snapshot_copy(ol_partition *partition, const atomic_bool *stop,
                               ol_snapshot **snapshot, ol_error *error) OL_NODISCARD;

/* Replaces the partition's snapshot by the file that was written and flushed as `temporary`, and
 * flushes the directory.  OL_WOULD_BLOCK: since the snapshot was begun, leadership ended or the log
 * was truncated; or the log is not flushed up to the snapshot's offset, or W is below it.  A file
 * that cannot be put there is removed. */
int ol_partition_snapshot_publish(ol_partition *partition, const ol_snapshot *snapshot,
                                  const char *temporary, ol_error *error) OL_NODISCARD;

/* Removes the partition's snapshot, if there is one, durably. */
int ol_partition_snapshot_remove(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Returns the offset of the snapshot that the partition was loaded from, or that was published
 * since; -1 for none. */
int64_t ol_partition_snapshot_offset(const ol_partition *partition);

/* Returns about how many bytes of log a load would read now: those after the partition's snapshot,
 * or the whole log if it has none. */
int64_t ol_partition_snapshot_tail_bytes(const ol_partition *partition);

/* Does what ol_snapshot_check does, against the partition's log; OL_INVALID also when that log is
 * damaged. */
int ol_partition_snapshot_check(ol_partition *partition, const ol_snapshot *snapshot,
                                int64_t cleaned_to, ol_error *error) OL_NODISCARD;

#endif
