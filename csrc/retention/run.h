/* retention/run: retention of one partition: what has expired gets tombstones, and a group of which nothing is left goes too (docs/format/coordinator.md §5.13, docs/maintenance.md).
 *
 * Groups are looked at one by one, and what is found is decided once more under the writer lock, where its tombstones are written: a position that was
 * committed in between survives.  A group's tombstones are one ordinary commit batch, or several of a large group: each position expires by
 * itself, and the group's own records go in the last.  Half-way, nothing is wrong: the next run finds the rest.
 *
 * Of a group whose retention is OL_RETENTION_NEVER nothing is touched, whatever its records say.
 */
#ifndef OL_RETENTION_RUN_H
#define OL_RETENTION_RUN_H

#include <stdatomic.h>

#include "retention/report_rows.h"
#include "retention/expiry_rule.h"
#include "partition/partition.h"
#include "retention/group_rules.h"

typedef struct ol_expire_options {
    const ol_retention_rules *rules;
    const ol_group_state *groups;       /* NULL: what the log's own records tell (ol_group_view) */
    int64_t now_ms;                     /* what expires at or before it has expired; the caller has looked at the clock */
    const _Atomic bool *stop;           /* NULL, or looked at before each group */
} ol_expire_options;

typedef struct ol_expire_report {
    uint64_t groups;            /* looked at: those with positions or records of their own */
    uint64_t groups_never;      /* of which so many are never to expire, */
    uint64_t groups_held;       /* and so many have members, or records that cannot be read */
    uint64_t groups_removed;
    uint64_t positions_expired;
    uint64_t positions_pending; /* would have expired but for a transaction */
    uint64_t batches;
    int64_t end_offset;         /* what to wait for; -1: nothing was written */
    uint64_t term;
    bool stopped;
} ol_expire_report;

/* Writes.  On failure the groups before are done, and the report says so.  Fails as ol_partition_commit does; a partition that loads is OL_LOADING. */
int ol_partition_expire(ol_partition *partition, const ol_expire_options *options, ol_expire_report *report, ol_error *error) OL_NODISCARD;

/* Tells what would expire up to now_ms, appended to `rows`, and changes nothing; also of a partition that is read-only.  No hold of the table's lock is longer
 * than a topic of a group takes; what is committed meanwhile may be seen or not.  `partition_number` goes into the rows. */
int ol_partition_expiring(ol_partition *partition, const ol_expire_options *options, int32_t partition_number, ol_expiring_rows *rows,
                          ol_expire_report *report, ol_error *error) OL_NODISCARD;

#endif
