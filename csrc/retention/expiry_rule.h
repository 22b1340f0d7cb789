/* retention/expiry_rule: when a committed position expires, a pure function of the record, the
 * group's state and the retention (docs/format/coordinator.md §5.13, docs/maintenance.md).
 *
 * The group's state comes through a port: from a coordinator, or from the log where there is none.
 * No locks, no memory. */
#ifndef OL_RETENTION_EXPIRY_RULE_H
#define OL_RETENTION_EXPIRY_RULE_H

#include "base/base.h"
#include "table/table.h"

typedef enum ol_group_kind {
    OL_GROUP_SIMPLE,            /* classic without a protocol type: only commits made it */
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
    bool is_held;               /* nothing expires: there are members or bad records, and no
                                   coordinator to ask */
    int64_t state_timestamp;    /* ms, of the last change of state; -1 unknown */
} ol_group_view;

/* Returns the view of a group about which nothing is known. */
static inline ol_group_view ol_group_view_simple(void) {
    return (ol_group_view){.kind = OL_GROUP_SIMPLE, .is_empty = true, .state_timestamp = -1};
}

/* Returns whether positions of topics that a member reads are kept.  An empty classic group has no
 * member that reads; the members of a simple group are not known. */
static inline bool ol_group_view_keeps_subscribed(const ol_group_view *view) {
    return view->kind == OL_GROUP_CONSUMER || (view->kind == OL_GROUP_CLASSIC && !view->is_empty);
}

/* Returns whether the group's own records may be deleted once it has no position left. */
static inline bool ol_group_view_may_go(const ol_group_view *view) {
    return view->is_empty && !view->is_held && view->kind != OL_GROUP_SHARE;
}

/* The port.  `view` fills *view; false: nothing is known of the group, so it counts as a simple
 * one.  `is_subscribed` returns whether a member reads the topic.  The engine holds no lock while
 * it calls them.  `release` (may be NULL) is called after each `view`, also after one that returned
 * false, once the resulting tombstones are written.  A coordinator's `view` may keep the group from
 * changing until then, so that no change is missed. */
typedef struct ol_group_state {
    bool (*view)(void *context, ol_slice group, ol_group_view *view);
    bool (*is_subscribed)(void *context, ol_slice group, ol_slice topic);
    void (*release)(void *context, ol_slice group);
    void *context;
} ol_group_state;

typedef enum ol_expiry_base {
    OL_EXPIRY_NEVER,
    OL_EXPIRY_COMMIT,           /* counts from the commit */
    OL_EXPIRY_STATE,            /* counts from when the group became empty */
    OL_EXPIRY_OWN,              /* the record itself says when */
    OL_EXPIRY_GROUP,            /* a group, not a position: nothing is left of it */
} ol_expiry_base;

typedef struct ol_expiry {
    ol_expiry_base base;
    int64_t base_ms;            /* the retention counts from it; with OWN the expire timestamp */
    int64_t at_ms;              /* from this time on it has expired; with NEVER INT64_MAX */
} ol_expiry;

static inline bool ol_expiry_is_due(const ol_expiry *expiry, int64_t now_ms) {
    return expiry->base != OL_EXPIRY_NEVER && expiry->at_ms <= now_ms;
}

/* Returns when a position of such a group expires.  A pending value of a transaction protects the
 * position for longer; the caller checks for one.  retention_ms < 0: never by retention, but an
 * expire timestamp in the record still counts.  `is_subscribed`: a member reads the topic. */
ol_expiry ol_position_expiry(const ol_group_view *view, const ol_position_value *value,
                             bool is_subscribed, int64_t retention_ms);

#endif
