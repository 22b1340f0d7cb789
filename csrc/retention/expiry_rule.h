/* retention/expiry_rule: computes when a committed position expires from the record, the state of
 * the group and the retention (docs/format/coordinator.md §5.13, docs/maintenance.md).
 *
 * The caller supplies the group's state.  The state comes from a coordinator, or from the log if
 * there is no coordinator.  The functions take no locks and allocate no memory. */
#ifndef OL_RETENTION_EXPIRY_RULE_H
#define OL_RETENTION_EXPIRY_RULE_H

#include "base/base.h"
#include "table/table.h"

typedef enum ol_group_kind {
    /* a classic group without a protocol type: its clients commit without being members */
    OL_GROUP_SIMPLE,
    OL_GROUP_CLASSIC,
    OL_GROUP_CONSUMER,          /* a group of KIP-848, or a streams group */
    OL_GROUP_SHARE,             /* its positions are in another topic and never expire */
} ol_group_kind;

/* The parts of a group's state on which retention depends. */
typedef struct ol_group_view {
    ol_group_kind kind;
    bool is_empty;              /* no members */
    bool is_stable;             /* classic: in state Stable */
    bool is_consumer_protocol;  /* classic: protocol type "consumer" */
    bool subscription_known;    /* every member's subscription could be read */
    /* no position of the group expires, because there is no coordinator and the group's records
     * show members or cannot be read */
    bool is_held;
    int64_t state_timestamp;    /* time of the last change of state, in ms; -1: unknown */
} ol_group_view;

/* Returns the view of a simple group, which is used for a group about which nothing is known. */
static inline ol_group_view ol_group_view_simple(void) {
    return (ol_group_view){.kind = OL_GROUP_SIMPLE, .is_empty = true, .state_timestamp = -1};
}

/* Returns whether the positions of a topic do not expire while a member of the group subscribes to
 * the topic.  Returns false for an empty classic group, which has no members, and for a simple
 * group, whose members are not known. */
static inline bool ol_group_view_keeps_subscribed(const ol_group_view *view) {
    return view->kind == OL_GROUP_CONSUMER || (view->kind == OL_GROUP_CLASSIC && !view->is_empty);
}

/* Returns whether the group's own records may be deleted once the group has no positions left. */
static inline bool ol_group_view_may_go(const ol_group_view *view) {
    return view->is_empty && !view->is_held && view->kind != OL_GROUP_SHARE;
}

/* The functions with which a coordinator reports the states of its groups.  The engine holds no
 * lock while it calls them.  `view` fills *view.  If it returns false, the coordinator does not
 * know the group, and the group is treated as a simple one.  `is_subscribed` returns whether a
 * member subscribes to the topic.  After each call of `view`, whatever it returned, the engine
 * writes the tombstones of the group, if any are due, and then calls `release`, which may be NULL.
 * Between these two calls the coordinator may keep the group from changing. */
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
    OL_EXPIRY_OWN,              /* the record has an expire timestamp */
    OL_EXPIRY_GROUP,  /* only in a report: the group's own records will be deleted */
} ol_expiry_base;

typedef struct ol_expiry {
    ol_expiry_base base;
    int64_t base_ms;  /* start of the retention; OL_EXPIRY_OWN: the expire timestamp */
    int64_t at_ms;              /* the time of expiry; OL_EXPIRY_NEVER: INT64_MAX */
} ol_expiry;

static inline bool ol_expiry_is_due(const ol_expiry *expiry, int64_t now_ms) {
    return expiry->base != OL_EXPIRY_NEVER && expiry->at_ms <= now_ms;
}

/* Returns when a position of a group in this state expires.  `is_subscribed` is whether a member
 * subscribes to the position's topic.  If retention_ms is below 0, only a position whose record has
 * an expire timestamp can expire.  A position must not expire while an open transaction has a value
 * for it.  The function does not know of such values; the caller checks this condition. */
ol_expiry ol_position_expiry(const ol_group_view *view, const ol_position_value *value,
                             bool is_subscribed, int64_t retention_ms);

#endif
