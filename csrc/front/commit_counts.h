/* front/commit_counts: how many commits each group has made.
 *
 * A commit that the front answers costs one addition: the admission that it finds
 * (front/admissions) holds the count of its group.  A count outlives the admissions of its group,
 * which come and go with every change of it.  Names come from outside, so there are limits of
 * groups and of bytes: at either the counts that nobody holds are forgotten, if they are at least
 * half of it (or looking for them would cost every new group too much), and otherwise new groups
 * are not counted.
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

/* The count of a group, which stays until it is released; NULL: the group is not counted, since
 * there is no room or no memory.  It must not be held. */
ol_commit_count *ol_commit_counts_hold(ol_commit_counts *counts, ol_slice group);

/* Gives a count back; NULL is allowed.  It goes on counting when it is held again. */
void ol_commit_counts_release(ol_commit_counts *counts, ol_commit_count *count);

/* Counts one commit of a group, held or not, if there is room. */
void ol_commit_counts_add(ol_commit_counts *counts, ol_slice group);

/* Calls `found` with the counts of the next part of all groups; `group` is borrowed for the call.
 * Begin with part 0, and go on with the returned part until that is 0.  Changes between two
 * parts may be left out, and a group may be reported twice; the later report is the newer one. */
typedef void ol_commits_found(void *context, ol_slice group, uint64_t commits);
size_t ol_commit_counts_read(const ol_commit_counts *counts, size_t part, ol_commits_found *found,
                             void *context);

#endif
