/* retention/run: one run of retention over a partition: tombstones for expired positions, and for
 * groups that have nothing left (docs/format/coordinator.md §5.13, docs/maintenance.md).
 *
 * A run inspects one group after another.  Under the writer lock, before it writes the tombstones,
 * it decides again, so a position that was committed in between survives.  The tombstones of a
 * group form one ordinary commit batch.  Those of a large group form several, which is allowed
 * because each position expires independently; the last batch holds the tombstones of the group's
 * own records.  A run that stops half-way leaves a correct log: the next run finds the rest.
 *
 * A group whose retention is OL_RETENTION_NEVER is not touched, whatever its records say.
 *
 * Locks: the table lock for some thousand positions at a time, and the writer lock for each batch.
 * The caller holds none. */
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
    int64_t now_ms;  /* the caller's clock: positions that are due at or before it expire */
    const _Atomic bool *stop;           /* may be NULL; checked before each group */
} ol_retention_options;

typedef struct ol_retention_report {
    uint64_t groups;  /* the groups inspected: all that have positions or records of their own */
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

/* Makes a run over all groups and writes the tombstones.  After a failure the report says what was
 * written before.  Fails as ol_partition_commit does, with OL_LOADING while the partition loads. */
int ol_retention_expire(ol_partition *partition, const ol_retention_options *options,
                        ol_retention_report *report, ol_error *error) OL_NODISCARD;

/* Like ol_retention_expire, for one group.  The coordinator that calls this keeps the group from
 * changing until the call returns. */
int ol_retention_expire_group(ol_partition *partition, const ol_retention_options *options,
                              ol_slice group, ol_retention_report *report,
                              ol_error *error) OL_NODISCARD;

/* The dry run: appends to `rows` what would expire up to now_ms, and changes nothing; the partition
 * may be read-only.  One hold of the table lock covers one topic of a group, so a commit made
 * during the call may or may not be in the rows.  `partition_number` goes into the rows. */
int ol_retention_preview(ol_partition *partition, const ol_retention_options *options,
                         int32_t partition_number, ol_expiring_rows *rows,
                         ol_retention_report *report, ol_error *error) OL_NODISCARD;

#endif
