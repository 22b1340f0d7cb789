/* partition/snapshot_take: takes snapshots (snapshot/snapshot.h) of a partition, checks them
 * against its log, and publishes them.
 *
 * One thread at a time may use a snapshot.  A snapshot that a call returns belongs to the caller,
 * who must destroy it.  A call that fails returns no snapshot.  A borrowed snapshot must not
 * outlive its partition.  No call holds a lock while it reads the log.  A publication, a removal
 * and a truncation hold snapshot.lock (partition/partition_impl.h), so only one of them runs at a
 * time. */
#ifndef OL_PARTITION_SNAPSHOT_TAKE_H
#define OL_PARTITION_SNAPSHOT_TAKE_H

#include "partition/partition.h"
#include "snapshot/snapshot.h"

/* Does what ol_snapshot_begin does, for a loaded partition. */
int ol_partition_snapshot_begin(ol_partition *partition, ol_snapshot **snapshot,
                                ol_error *error) OL_NODISCARD;

/* Does what ol_snapshot_advance does.  Also fails with OL_WOULD_BLOCK if leadership ended, or the
 * log was truncated, during the call. */
int ol_partition_snapshot_advance(ol_partition *partition, ol_snapshot *snapshot, int64_t up_to,
                                  const atomic_bool *stop, ol_error *error) OL_NODISCARD;

/* Makes a snapshot at the log end that borrows the state of the partition instead of copying it.
 * Used when a store without replicas is closed.  Until the snapshot is destroyed, no other function
 * may be called with the partition.  Fails with OL_INVALID if the partition is not active, has
 * problems, or is not flushed up to the log end. */
int ol_partition_snapshot_borrow(ol_partition *partition, ol_snapshot **snapshot,
                                 ol_error *error) OL_NODISCARD;

/* Copies the state of an active partition without replaying the log.  Only for a store without
 * replicas.  The offset of the snapshot is at or above the log end at the time of the call.
 * Commits continue: they wait for some tens of microseconds several times, and once for about a
 * millisecond.  The log must be flushed up to the offset of the snapshot before the snapshot is
 * published.  Fails with
 * - OL_INVALID if the partition is not active or has problems;
 * - OL_LIMIT if commits would have to wait longer;
 * - OL_CLOSED if *stop was set;
 * - OL_WOULD_BLOCK if another copy is being made, or if the log was cleaned or truncated in the
 *   meantime;
 * - OL_NO_MEMORY or OL_IO. */
int ol_partition_snapshot_copy(ol_partition *partition, const atomic_bool *stop,
                               ol_snapshot **snapshot, ol_error *error) OL_NODISCARD;

/* Replaces the snapshot file of the partition by the file `temporary`, which the caller has written
 * and flushed, and flushes the directory.  If the file cannot be put in place, it is removed.
 * Fails with OL_WOULD_BLOCK if
 * - leadership has ended, or the log has been truncated, since the snapshot was begun;
 * - the log is not flushed up to the offset of the snapshot;
 * - W is below the offset of the snapshot. */
int ol_partition_snapshot_publish(ol_partition *partition, const ol_snapshot *snapshot,
                                  const char *temporary, ol_error *error) OL_NODISCARD;

/* Removes the snapshot of the partition durably, if there is one. */
int ol_partition_snapshot_remove(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* Returns the offset of the snapshot from which the partition was loaded, or which was published
 * later.  Returns -1 if there is none. */
int64_t ol_partition_snapshot_offset(const ol_partition *partition);

/* Returns approximately how many bytes of the log a load would have to read now.  These are the
 * bytes after the snapshot, or the whole log if there is no snapshot. */
int64_t ol_partition_snapshot_tail_bytes(const ol_partition *partition);

/* Checks a snapshot against the log of the partition, as ol_snapshot_check does.  Also returns
 * OL_INVALID if the log is damaged. */
int ol_partition_snapshot_check(ol_partition *partition, const ol_snapshot *snapshot,
                                int64_t cleaned_to, ol_error *error) OL_NODISCARD;

#endif
