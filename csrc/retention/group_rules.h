/* retention/group_rules: finds the retention of a group.  The rule for the group itself decides; if
 * there is none, the rule with the longest matching prefix; if there is none, the default.
 *
 * Rules do not change after they were built, so any number of threads may use them without a lock.
 * The rules own copies of the names. */
#ifndef OL_RETENTION_GROUP_RULES_H
#define OL_RETENTION_GROUP_RULES_H

#include "base/base.h"
#include "base/status.h"

#define OL_RETENTION_NEVER ((int64_t)-1)
#define OL_RETENTION_DEFAULT ((int32_t)-1)  /* no rule matches: the default retention applies */

typedef struct ol_retention_rule {
    ol_slice group;
    bool is_prefix;             /* the rule is for all groups whose names begin with `group` */
    int64_t retention_ms;       /* or OL_RETENTION_NEVER */
} ol_retention_rule;

/* The retention of a group. */
typedef struct ol_retention {
    int64_t retention_ms;       /* or OL_RETENTION_NEVER */
    int32_t rule;               /* index in the caller's array of rules, or OL_RETENTION_DEFAULT */
} ol_retention;

typedef struct ol_retention_rules ol_retention_rules;

/* Builds the rules.  Fails with OL_INVALID if two rules are for the same group or prefix, or if a
 * retention is below OL_RETENTION_NEVER; error->item is then the rule's index.  Also fails with
 * OL_INVALID if there are too many rules, or if the default is below OL_RETENTION_NEVER.  Can also
 * fail with OL_NO_MEMORY. */
int ol_retention_rules_create(const ol_retention_rule *rules, size_t count, int64_t default_ms,
                              ol_retention_rules **created, ol_error *error) OL_NODISCARD;
void ol_retention_rules_destroy(ol_retention_rules *rules);    /* NULL is fine */

/* Finds the retention of a group.  A rule for the group itself has precedence over a rule for a
 * prefix, and a longer prefix has precedence over a shorter one.  The call makes one binary search
 * for each distinct length of the prefixes. */
ol_retention ol_retention_of(const ol_retention_rules *rules, ol_slice group);

#endif
