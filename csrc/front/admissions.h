/* front/admissions: members that may commit without asking the coordinator again.
 *
 * The coordinator checks a request in full.  Its decision holds until the group changes.  So the
 * coordinator stores an admission here for exactly this (group, generation, member id, instance
 * id).  It revokes all admissions of a group before it handles anything that may change the group.
 * A request that finds its admission is answered without the coordinator; every other request goes
 * to the coordinator.
 *
 * The coordinator does not see the requests that are answered here.  A revocation therefore reports
 * when each member was last heard from, and the coordinator extends the members' sessions
 * accordingly.
 *
 * Ownership: the set copies names; it owns its entries.  Zeroed memory with a seed and a limit is
 * an empty set; if its counts have a seed and limits, too, commits are counted by group.  Locks:
 * none; it belongs to one thread.
 */
#ifndef OL_FRONT_ADMISSIONS_H
#define OL_FRONT_ADMISSIONS_H

#include "base/chained_map.h"
#include "front/commit_counts.h"

typedef struct ol_admissions {
    ol_chained_map groups;
    ol_chained_map entries;
    ol_commit_counts counts;    /* of the commits of groups */
    uint64_t seed;              /* of hashes: names come from outside */
    size_t limit;               /* of entries */
    size_t memberless;          /* entries without a member */
} ol_admissions;

/* The parts of a request that decide whether it is admitted. */
typedef struct ol_admission_key {
    ol_slice group;
    ol_slice member_id;
    ol_slice group_instance_id; /* null is a value */
    int32_t generation;         /* below 0: no member; the member id is then empty */
} ol_admission_key;

typedef struct ol_admission ol_admission;

void ol_admissions_free(ol_admissions *admissions);

/* Admits requests with this key from now on.  At the limit, the admissions of groups without an
 * admitted member are dropped first; they are made again when the next such request comes.  Fails
 * with OL_LIMIT if the limit is still reached, or with OL_NO_MEMORY.  After a failure nothing has
 * changed, except for the dropped admissions. */
int ol_admissions_add(ol_admissions *admissions, const ol_admission_key *key,
                      ol_error *error) OL_NODISCARD;

/* Returns the admission of a request, valid until the next change.  NULL: the coordinator must be
 * asked. */
ol_admission *ol_admissions_find(const ol_admissions *admissions, const ol_admission_key *key);

/* Records that the member was heard from at `now` (in seconds). */
void ol_admission_hear(ol_admission *admission, double now);

/* Counts one more commit of the admission's group, if that group is counted
 * (front/commit_counts). */
void ol_admission_count_commit(ol_admission *admission);

/* Revokes all admissions of a group.  `heard` is called for each member that was heard from since
 * it was admitted, with the time of its last request; member_id is borrowed for the call. */
typedef void ol_heard(void *context, ol_slice member_id, double at);
void ol_admissions_revoke(ol_admissions *admissions, ol_slice group, ol_heard *heard,
                          void *context);

/* Revokes all admissions of the groups for which the predicate is true, without reporting the
 * members that were heard from. */
typedef bool ol_concerns(void *context, ol_slice group);
void ol_admissions_revoke_if(ol_admissions *admissions, ol_concerns *concerns, void *context);

#endif
