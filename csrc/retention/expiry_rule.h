/* retention/expiry_rule: when a committed position expires: a pure function of the record, the group's state and the retention
 * (docs/format/coordinator.md §5.13, docs/maintenance.md).  The group's state comes through a port: from a coordinator, or from the log where there is none.
 */
#ifndef OL_RETENTION_EXPIRY_RULE_H
#define OL_RETENTION_EXPIRY_RULE_H

#include "base/base.h"
#include "table/table.h"

typedef enum ol_group_kind {
    OL_GROUP_SIMPLE,            /* classic without a protocol type: made by commits alone */
    OL_GROUP_CLASSIC,
    OL_GROUP_CONSUMER,          /* KIP-848, and streams groups, which commit as these do */
    OL_GROUP_SHARE,             /* its positions are elsewhere; nothing of it expires */
} ol_group_kind;

/* What retention must know of a group. */
typedef struct ol_group_view {
    ol_group_kind kind;
    bool is_empty;              /* no members */
    bool is_stable;             /* classic: in state Stable */
    bool is_consumer_protocol;  /* classic: protocol type "consumer" */
    bool subscription_known;    /* every member's subscription could be read */
    bool is_held;               /* nothing of it expires, whatever the rest says: it has members that nobody can be asked about, or records that
                                   cannot be read */
    int64_t state_timestamp;    /* ms of the last change of state, -1 unknown */
} ol_group_view;

/* What is known of a group that nothing is known of. */
static inline ol_group_view ol_group_view_simple(void) {
    return (ol_group_view){.kind = OL_GROUP_SIMPLE, .is_empty = true, .state_timestamp = -1};
}

/* Whether positions of topics that a member reads are kept.  Members of an empty classic group read nothing, and those of a simple one are not known. */
static inline bool ol_group_view_keeps_subscribed(const ol_group_view *view) {
    return view->kind == OL_GROUP_CONSUMER || (view->kind == OL_GROUP_CLASSIC && !view->is_empty);
}

/* Whether the group's own records may go once it has no position left. */
static inline bool ol_group_view_may_go(const ol_group_view *view) {
    return view->is_empty && !view->is_held && view->kind != OL_GROUP_SHARE;
}

/* The port.  `view` fills *view; false: nothing is known of the group, which then is a simple one.  `is_subscribed` tells whether a member reads the
 * topic.  Called without locks of the engine's.  `release` (may be NULL) follows each `view`, also one that returned false, once all that comes of it is
 * written: a coordinator whose `view` keeps the group from changing until then leaves no gap. */
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
    OL_EXPIRY_GROUP,            /* of a group, not of a position: nothing is left of it */
} ol_expiry_base;

typedef struct ol_expiry {
    ol_expiry_base base;
    int64_t base_ms;            /* what the retention is counted from; with OWN the expire timestamp */
    int64_t at_ms;              /* from this time on it has expired; with NEVER INT64_MAX */
} ol_expiry;

static inline bool ol_expiry_is_due(const ol_expiry *expiry, int64_t now_ms) {
    return expiry->base != OL_EXPIRY_NEVER && expiry->at_ms <= now_ms;
}

/* When a position of such a group expires, unless a transaction has a value for it, which protects it.  retention_ms < 0: never by retention; an
 * expire timestamp in the record counts all the same.  `is_subscribed`: a member reads its topic. */
ol_expiry ol_position_expiry(const ol_group_view *view, const ol_position_value *value, bool is_subscribed, int64_t retention_ms);

#endif
