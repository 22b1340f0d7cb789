/* front/admissions.c: one table has all admissions.  A second table has the groups, each with a
 * list of its admissions. */
#include "front/admissions.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

typedef struct group_entry {
    ol_chained_entry link;
    ol_admission *first;
    ol_commit_count *count;     /* NULL: it is not counted */
    size_t size;
    uint8_t name[];
} group_entry;

struct ol_admission {
    ol_chained_entry link;
    group_entry *group;
    ol_admission *next_of_group;
    double heard_at;            /* below 0: not yet */
    int32_t generation;
    bool has_instance;
    uint16_t member_size;
    uint16_t instance_size;
    uint8_t names[];            /* of the member, of its instance */
};

/* ------------------------------------------------------------ lookup */

static uint64_t hash_of_name(const ol_admissions *admissions, ol_slice name) {
    return ol_hash64(name.data, name.size, admissions->seed);
}

static uint64_t hash_of(const ol_admissions *admissions, uint64_t group_hash,
                        const ol_admission_key *key) {
    uint64_t hash = ol_hash64_mix(group_hash, (uint32_t)key->generation);
    if (key->member_id.size == 0) return hash;
    return ol_hash64_mix(hash, hash_of_name(admissions, key->member_id));
}

static ol_slice name_of(const group_entry *group) { return ol_slice_of(group->name, group->size); }

static ol_slice member_of(const ol_admission *admission) {
    return ol_slice_of(admission->names, admission->member_size);
}

static ol_slice instance_of(const ol_admission *admission) {
    if (!admission->has_instance) return ol_slice_null();
    return ol_slice_of(admission->names + admission->member_size, admission->instance_size);
}

static bool is_same_instance(ol_slice a, ol_slice b) {
    return (a.data == NULL) == (b.data == NULL) && ol_slice_equal(a, b);
}

static group_entry *find_group(const ol_admissions *admissions, ol_slice name, uint64_t hash) {
    ol_chained_entry *each = ol_chained_map_first(&admissions->groups, hash);
    for (; each != NULL; each = each->next) {
        if (each->hash == hash && ol_slice_equal(name_of((group_entry *)each), name)) break;
    }
    return (group_entry *)each;
}

ol_admission *ol_admissions_find(const ol_admissions *admissions, const ol_admission_key *key) {
    uint64_t hash = hash_of(admissions, hash_of_name(admissions, key->group), key);
    ol_chained_entry *each = ol_chained_map_first(&admissions->entries, hash);
    for (; each != NULL; each = each->next) {
        const ol_admission *found = (const ol_admission *)each;
        if (each->hash == hash && found->generation == key->generation &&
            ol_slice_equal(name_of(found->group), key->group) &&
            ol_slice_equal(member_of(found), key->member_id) &&
            is_same_instance(instance_of(found), key->group_instance_id)) {
            break;
        }
    }
    return (ol_admission *)each;
}

void ol_admission_hear(ol_admission *admission, double now) { admission->heard_at = now; }

void ol_admission_count_commit(ol_admission *admission) {
    if (admission->group->count != NULL) admission->group->count->commits++;
}

/* ------------------------------------------------------------ ends */

static void ignore(void *context, ol_slice member_id, double at) {
    (void)context;
    (void)member_id;
    (void)at;
}

static void revoke_group(ol_admissions *admissions, group_entry *group, ol_heard *heard,
                         void *context) {
    for (ol_admission *each = group->first, *next; each != NULL; each = next) {
        next = each->next_of_group;
        if (each->heard_at >= 0 && each->member_size > 0) {
            heard(context, member_of(each), each->heard_at);
        }
        ol_chained_map_remove(&admissions->entries, &each->link);
        if (each->member_size == 0) admissions->memberless--;
        free(each);
    }
    ol_chained_map_remove(&admissions->groups, &group->link);
    ol_commit_counts_release(&admissions->counts, group->count);
    free(group);
}

void ol_admissions_revoke(ol_admissions *admissions, ol_slice group, ol_heard *heard,
                          void *context) {
    group_entry *found = find_group(admissions, group, hash_of_name(admissions, group));
    if (found != NULL) revoke_group(admissions, found, heard, context);
}

/* Calls revoke_group for each group that `is_chosen`. */
static void revoke_each(ol_admissions *admissions,
                        bool (*is_chosen)(const group_entry *group, ol_concerns *concerns,
                                          void *context),
                        ol_concerns *concerns, void *context) {
    for (size_t i = 0; i < admissions->groups.bucket_count; i++) {
        ol_chained_entry *next;
        for (ol_chained_entry *each = admissions->groups.buckets[i]; each != NULL; each = next) {
            next = each->next;
            group_entry *group = (group_entry *)each;
            if (is_chosen(group, concerns, context)) revoke_group(admissions, group, ignore, NULL);
        }
    }
}

static bool is_concerned(const group_entry *group, ol_concerns *concerns, void *context) {
    return concerns(context, name_of(group));
}

void ol_admissions_revoke_if(ol_admissions *admissions, ol_concerns *concerns, void *context) {
    revoke_each(admissions, is_concerned, concerns, context);
}

/* Dropping a group without admitted members loses nothing. */
static bool is_memberless(const group_entry *group, ol_concerns *concerns, void *context) {
    (void)concerns;
    (void)context;
    const ol_admission *each = group->first;
    while (each != NULL && each->member_size == 0) each = each->next_of_group;
    return each == NULL;
}

static bool is_any(const group_entry *group, ol_concerns *concerns, void *context) {
    (void)group;
    (void)concerns;
    (void)context;
    return true;
}

void ol_admissions_free(ol_admissions *admissions) {
    revoke_each(admissions, is_any, NULL, NULL);
    ol_chained_map_free(&admissions->groups);
    ol_chained_map_free(&admissions->entries);
    ol_commit_counts_free(&admissions->counts);
}

/* ------------------------------------------------------------ admitting */

static group_entry *make_group(ol_slice name, uint64_t hash, ol_error *error) {
    group_entry *group = malloc(sizeof *group + name.size);
    if (group == NULL) {
        (void)ol_fail(error, OL_NO_MEMORY, "no memory for an admission");
        return NULL;
    }
    *group = (group_entry){.link.hash = hash, .size = name.size};
    if (name.size > 0) memcpy(group->name, name.data, name.size);
    return group;
}

static ol_admission *make_admission(const ol_admission_key *key, uint64_t hash, ol_error *error) {
    ol_slice member = key->member_id, instance = key->group_instance_id;
    ol_admission *admission = malloc(sizeof *admission + member.size + instance.size);
    if (admission == NULL) {
        (void)ol_fail(error, OL_NO_MEMORY, "no memory for an admission");
        return NULL;
    }
    *admission = (ol_admission){.link.hash = hash,
                                .heard_at = -1,
                                .generation = key->generation,
                                .has_instance = instance.data != NULL,
                                .member_size = (uint16_t)member.size,
                                .instance_size = (uint16_t)instance.size};
    if (member.size > 0) memcpy(admission->names, member.data, member.size);
    if (instance.size > 0) memcpy(admission->names + member.size, instance.data, instance.size);
    return admission;
}

static int make_room(ol_admissions *admissions, ol_error *error) {
    /* Searches only if there is something to find; otherwise each request of a member that does not
     * fit would search. */
    if (admissions->entries.count >= admissions->limit && admissions->memberless > 0) {
        revoke_each(admissions, is_memberless, NULL, NULL);
    }
    if (admissions->entries.count >= admissions->limit) {
        return ol_fail(error, OL_LIMIT, "%zu members are admitted, which is the limit",
                       admissions->entries.count);
    }
    int status = ol_chained_map_reserve(&admissions->entries, error);
    return status == OL_OK ? ol_chained_map_reserve(&admissions->groups, error) : status;
}

int ol_admissions_add(ol_admissions *admissions, const ol_admission_key *key, ol_error *error) {
    OL_ASSERT(key->member_id.size <= UINT16_MAX && key->group_instance_id.size <= UINT16_MAX);
    if (ol_admissions_find(admissions, key) != NULL) return OL_OK;
    int status = make_room(admissions, error);
    if (status != OL_OK) return status;
    uint64_t group_hash = hash_of_name(admissions, key->group);
    uint64_t hash = hash_of(admissions, group_hash, key);
    group_entry *known = find_group(admissions, key->group, group_hash);
    group_entry *group = known != NULL ? known : make_group(key->group, group_hash, error);
    ol_admission *admission = group == NULL ? NULL : make_admission(key, hash, error);
    if (admission == NULL) {
        if (known == NULL) free(group);
        return OL_NO_MEMORY;
    }
    if (known == NULL) {
        group->count = ol_commit_counts_hold(&admissions->counts, key->group);
        ol_chained_map_add(&admissions->groups, &group->link);
    }
    admission->group = group;
    admission->next_of_group = group->first;
    group->first = admission;
    ol_chained_map_add(&admissions->entries, &admission->link);
    if (key->member_id.size == 0) admissions->memberless++;
    return OL_OK;
}
