/* front/admissions: members that may commit without asking the coordinator again.
 *
 * When the coordinator has checked a request in full, its decision holds until the group changes.
 * The coordinator therefore stores an admission for the group, generation, member id and instance
 * id of the request.  If a later request has the same four values, the front answers it without the
 * coordinator.  Every other request goes to the coordinator.  Before the coordinator handles
 * anything that may change a group, it revokes all admissions of the group.
 *
 * The coordinator does not see the requests that the front answers.  When it revokes admissions,
 * the set therefore reports the time of each member's last request, and the coordinator extends the
 * member's session accordingly.
 *
 * Ownership: the set copies names and owns its entries.  To make an empty set, set all of its
 * memory to zero and then set `seed` and `limit`.  If the seed and the limits of `counts` are set
 * too, the set counts the commits of each group.  The set takes no locks.  Only one thread may use
 * it.
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
    int32_t generation;         /* below 0: not of a member; the member id is then empty */
} ol_admission_key;

typedef struct ol_admission ol_admission;

void ol_admissions_free(ol_admissions *admissions);

/* Admits requests with this key from now on.  If the set has reached its limit, it first drops the
 * admissions of all groups that have no admitted member.  Requests of these groups go to the
 * coordinator again, which admits them again.  If the set is still at its limit, the call fails
 * with OL_LIMIT.  It can also fail with OL_NO_MEMORY.  After a failure the set is unchanged, except
 * for the dropped admissions. */
int ol_admissions_add(ol_admissions *admissions, const ol_admission_key *key,
                      ol_error *error) OL_NODISCARD;

/* Returns the admission of a request, or NULL if there is none and the coordinator must check the
 * request.  The admission is valid until the set is next changed. */
ol_admission *ol_admissions_find(const ol_admissions *admissions, const ol_admission_key *key);

/* Records that the member made a request at the time `now` (in seconds). */
void ol_admission_hear(ol_admission *admission, double now);

/* Counts one more commit of the group of an admission, if the commits of the group are counted
 * (front/commit_counts). */
void ol_admission_count_commit(ol_admission *admission);

/* Revokes all admissions of a group.  `heard` is called for each member that has made a request
 * since it was admitted, with the time of its last request.  `member_id` is valid only during that
 * call. */
typedef void ol_heard(void *context, ol_slice member_id, double at);
void ol_admissions_revoke(ol_admissions *admissions, ol_slice group, ol_heard *heard,
                          void *context);

/* Revokes all admissions of the groups for which `concerns` returns true.  The members that made
 * requests are not reported. */
typedef bool ol_concerns(void *context, ol_slice group);
void ol_admissions_revoke_if(ol_admissions *admissions, ol_concerns *concerns, void *context);

#endif
