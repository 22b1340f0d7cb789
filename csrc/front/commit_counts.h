/* front/commit_counts: how many commits each group has made.
 *
 * The admission of a request (front/admissions) points to the count of its group, so that a commit
 * which the front answers costs only one addition.  The admission holds the count.  A change of the
 * group revokes its admissions, but the count stays.
 *
 * Clients choose the names of groups, so the number of counted groups and the memory for them are
 * limited.  When a limit is reached, the counts that no admission holds are dropped.  If the held
 * counts alone take more than half of a limit, nothing is dropped and new groups are not counted:
 * each new group would cost a search that frees little.
 *
 * Ownership: the set copies names and owns its counts.  To make an empty set, set all of its memory
 * to zero and then set the seed and the limits.  The set takes no locks.  Only one thread may
 * change it.
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

/* Returns the count of a group and holds it until the caller releases it.  Returns NULL if the
 * group is not counted, because a limit is reached or memory is short.  The count must not be held
 * already. */
ol_commit_count *ol_commit_counts_hold(ol_commit_counts *counts, ol_slice group);

/* Releases a count, which may be NULL.  The set keeps the value of the count for the next hold. */
void ol_commit_counts_release(ol_commit_counts *counts, ol_commit_count *count);

/* Counts one commit of a group, whether or not its count is held.  If the group has no count yet,
 * and a limit is reached or memory is short, nothing is counted. */
void ol_commit_counts_add(ol_commit_counts *counts, ol_slice group);

/* Reads the counts of all groups, one part for each call.  Calls `found` for each group of part
 * `part` and returns the number of the next part, or 0 after the last one.  The caller begins with
 * part 0.  `group` is valid only during the call of `found`.  If counts change between two calls,
 * the changes may be missed, and a group may be reported twice; the later report is then the newer
 * one. */
typedef void ol_commits_found(void *context, ol_slice group, uint64_t commits);
size_t ol_commit_counts_read(const ol_commit_counts *counts, size_t part, ol_commits_found *found,
                             void *context);

#endif
