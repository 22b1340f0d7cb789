/* front/commit_counts: how many commits each group has made.
 *
 * A commit that the front answers costs one addition: the admission that it finds
 * (front/admissions) holds the count of its group.  A count outlives the admissions of its group,
 * which change with the group.  Names come from outside, so the number of groups and their bytes
 * are limited.  When a limit is reached, the counts that no admission holds are dropped.  But if
 * held counts take more than half of a limit, nothing is dropped and new groups are not counted,
 * because each new group would cost a search that frees little.
 *
 * Ownership: the set copies names; it owns its counts.  Zeroed memory with a seed and limits is an
 * empty set.  Locks: none; changed by one thread.
 */
#ifndef OL_FRONT_COMMIT_COUNTS_H
#define OL_FRONT_COMMIT_COUNTS_H

#include "base/chained_map.h"

typedef struct ol_commit_counts {
    ol_chained_map entries;
    uint64_t seed;              /* of hashes */
    size_t limit;               /* of groups */
    size_t bytes_limit;         /* of counts with their names */
    size_t bytes;
    size_t held;                /* groups whose counts are held */
    size_t held_bytes;
} ol_commit_counts;

typedef struct ol_commit_count {
    ol_chained_entry link;
    uint64_t commits;
    bool is_held;
    size_t size;
    uint8_t name[];
} ol_commit_count;

void ol_commit_counts_free(ol_commit_counts *counts);

/* Returns the count of a group and holds it until it is released; NULL: the group is not counted,
 * because a limit is reached or memory is short.  The count must not be held already. */
ol_commit_count *ol_commit_counts_hold(ol_commit_counts *counts, ol_slice group);

/* Releases a count; NULL is allowed.  Its value is kept for the next hold. */
void ol_commit_counts_release(ol_commit_counts *counts, ol_commit_count *count);

/* Counts one commit of a group, whether its count is held or not, if the limits allow it. */
void ol_commit_counts_add(ol_commit_counts *counts, ol_slice group);

/* Calls `found` with the counts of the next part of all groups; `group` is borrowed for the call.
 * Begin with part 0 and continue with the returned part until it is 0.  Changes between two parts
 * may be missed, and a group may be reported twice; the later report is the newer one. */
typedef void ol_commits_found(void *context, ol_slice group, uint64_t commits);
size_t ol_commit_counts_read(const ol_commit_counts *counts, size_t part, ol_commits_found *found,
                             void *context);

#endif
