/* retention/expiry_rule: when a committed position expires, a pure function of the record, the
 * group's state and the retention (docs/format/coordinator.md §5.13, docs/maintenance.md).
 *
 * The caller supplies the group's state: from a coordinator, or from the log if there is none.  No
 * locks, no memory. */
#ifndef OL_RETENTION_EXPIRY_RULE_H
#define OL_RETENTION_EXPIRY_RULE_H

#include "base/base.h"
#include "table/table.h"

typedef enum ol_group_kind {
    OL_GROUP_SIMPLE,  /* classic without a protocol type: commits without members created it */
    OL_GROUP_CLASSIC,
    OL_GROUP_CONSUMER,          /* KIP-848, and streams groups, which commit in the same way */
    OL_GROUP_SHARE,             /* its positions are elsewhere; nothing expires here */
} ol_group_kind;

/* The state of a group, as far as retention depends on it. */
typedef struct ol_group_view {
    ol_group_kind kind;
    bool is_empty;              /* no members */
    bool is_stable;             /* classic: in state Stable */
    bool is_consumer_protocol;  /* classic: protocol type "consumer" */
    bool subscription_known;    /* every member's subscription could be read */
    /* nothing expires: without a coordinator, its records show members or cannot be read */
    bool is_held;
    int64_t state_timestamp;    /* ms, of the last change of state; -1: unknown */
} ol_group_view;

/* Returns the view of a group about which nothing is known. */
static inline ol_group_view ol_group_view_simple(void) {
    return (ol_group_view){.kind = OL_GROUP_SIMPLE, .is_empty = true, .state_timestamp = -1};
}

/* Returns whether a subscription of a member keeps the positions of its topics from expiring.  It
 * does not in an empty classic group, which has no members, or in a simple one, whose members are
 * not known. */
static inline bool ol_group_view_keeps_subscribed(const ol_group_view *view) {
    return view->kind == OL_GROUP_CONSUMER || (view->kind == OL_GROUP_CLASSIC && !view->is_empty);
}

/* Returns whether the group's own records may be deleted once it has no position left. */
static inline bool ol_group_view_may_go(const ol_group_view *view) {
    return view->is_empty && !view->is_held && view->kind != OL_GROUP_SHARE;
}

/* How a coordinator reports the states of its groups.  `view` fills *view; if it returns false,
 * nothing is known of the group, which then counts as a simple one.  `is_subscribed` returns
 * whether a member reads the topic.  The engine holds no lock while it calls these functions.
 * `release` (may be NULL) is called after each `view`, also after one that returned false, once the
 * resulting tombstones are written.  Between the two calls a coordinator may keep the group from
 * changing. */
typedef struct ol_group_state {
    bool (*view)(void *context, ol_slice group, ol_group_view *view);
    bool (*is_subscribed)(void *context, ol_slice group, ol_slice topic);
    void (*release)(void *context, ol_slice group);
    void *context;
} ol_group_state;

typedef enum ol_expiry_base {
    OL_EXPIRY_NEVER,
    OL_EXPIRY_COMMIT,           /* counts from the commit */
    OL_EXPIRY_STATE,            /* counts from the time when the group became empty */
    OL_EXPIRY_OWN,              /* the record itself says when */
    OL_EXPIRY_GROUP,  /* in a report: the group has no position left, so its own records go */
} ol_expiry_base;

typedef struct ol_expiry {
    ol_expiry_base base;
    int64_t base_ms;  /* the retention counts from it; OL_EXPIRY_OWN: the expire timestamp */
    int64_t at_ms;              /* expired from this time on; OL_EXPIRY_NEVER: INT64_MAX */
} ol_expiry;

static inline bool ol_expiry_is_due(const ol_expiry *expiry, int64_t now_ms) {
    return expiry->base != OL_EXPIRY_NEVER && expiry->at_ms <= now_ms;
}

/* Returns when a position of a group in this state expires.  `is_subscribed` says whether a member
 * reads the topic.  If retention_ms is below 0, only an expire timestamp in the record lets the
 * position expire.  A pending value of a transaction protects the position for longer; the caller
 * checks for one. */
ol_expiry ol_position_expiry(const ol_group_view *view, const ol_position_value *value,
                             bool is_subscribed, int64_t retention_ms);

#endif
