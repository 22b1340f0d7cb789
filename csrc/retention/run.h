/* retention/run: a run of retention over a partition.  It writes tombstones for expired positions,
 * and for the records of groups that have no positions left (docs/format/coordinator.md §5.13,
 * docs/maintenance.md).
 *
 * A run inspects one group after another.  Before it writes the tombstones of a group, it takes the
 * writer lock and decides again which positions are due; a position that was committed since the
 * inspection is therefore kept.  The tombstones of a group form one ordinary commit batch.  Those
 * of a large group form several batches, which is allowed because each position expires
 * independently.  The tombstones of the group's own records are in the last of these batches.  If a
 * run stops half-way, the log is correct, and the next run finds the rest.
 *
 * A run deletes nothing of a group whose retention is OL_RETENTION_NEVER, even if its records have
 * expire timestamps.
 *
 * Locks: a run takes the table lock for some thousand positions at a time, and the writer lock for
 * each batch.  The caller must hold neither. */
#ifndef OL_RETENTION_RUN_H
#define OL_RETENTION_RUN_H

#include <stdatomic.h>

#include "retention/report_rows.h"
#include "retention/expiry_rule.h"
#include "partition/partition.h"
#include "retention/group_rules.h"

typedef struct ol_retention_options {
    const ol_retention_rules *rules;
    const ol_group_state *groups;       /* NULL: the log's own records (retention/group_view.h) */
    int64_t now_ms;  /* the current time: positions that are due at or before it expire */
    const _Atomic bool *stop;           /* may be NULL; checked before each group */
} ol_retention_options;

typedef struct ol_retention_report {
    uint64_t groups;  /* inspected groups: all with positions or records of their own */
    uint64_t groups_never;      /* those whose retention is OL_RETENTION_NEVER */
    uint64_t groups_held;       /* share groups and groups that are held (ol_group_view.is_held) */
    uint64_t groups_removed;
    uint64_t positions_expired;
    uint64_t positions_pending; /* expired, but protected by a transaction */
    uint64_t batches;
    int64_t end_offset;         /* for ol_partition_wait; -1: nothing was written */
    uint64_t term;              /* of the last commit, for ol_partition_wait */
    bool stopped;
} ol_retention_report;

/* Makes a run over all groups and writes the tombstones.  After a failure *report counts the
 * tombstones that were written before it.  Fails as ol_partition_commit does; while the partition
 * loads, it fails with OL_LOADING. */
int ol_retention_expire(ol_partition *partition, const ol_retention_options *options,
                        ol_retention_report *report, ol_error *error) OL_NODISCARD;

/* Like ol_retention_expire, for one group.  The coordinator that calls this keeps the group from
 * changing until the call returns. */
int ol_retention_expire_group(ol_partition *partition, const ol_retention_options *options,
                              ol_slice group, ol_retention_report *report,
                              ol_error *error) OL_NODISCARD;

/* Appends to `rows` the positions and groups that a run would delete at now_ms, and changes
 * nothing.  The partition may be read-only.  The call releases the table lock after each topic of a
 * group, so the rows may or may not reflect a commit that is made during the call.
 * `partition_number` becomes the log_partition of the rows. */
int ol_retention_preview(ol_partition *partition, const ol_retention_options *options,
                         int32_t partition_number, ol_expiring_rows *rows,
                         ol_retention_report *report, ol_error *error) OL_NODISCARD;

#endif
