/* ol_expiry: whether a committed position has expired: a pure function of the record, the group's state and the time
 * (spec §5.13, design §8).  The group's state comes through a port: from a coordinator, or from the log where there is none.
 */
#ifndef OL_EXPIRY_H
#define OL_EXPIRY_H

#include "ol_base.h"
#include "ol_table.h"

typedef enum ol_group_kind {
    OL_GROUP_SIMPLE,            /* classic without a protocol type: made by commits alone */
    OL_GROUP_CLASSIC,
    OL_GROUP_CONSUMER,          /* KIP-848 */
} ol_group_kind;

/* What retention must know of a group. */
typedef struct ol_group_view {
    ol_group_kind kind;
    bool is_empty;              /* no members */
    bool is_stable;             /* classic: in state Stable */
    bool is_consumer_protocol;  /* classic: protocol type "consumer" */
    bool subscription_known;    /* every member's subscription could be read */
    int64_t state_timestamp;    /* ms of the last change of state, -1 unknown */
} ol_group_view;

/* The port.  `view` fills *view; false: nothing is known of the group, which then is a simple one.  `is_subscribed` tells whether a member reads the
 * topic.  Called without locks of the engine's. */
typedef struct ol_group_state {
    bool (*view)(void *context, ol_slice group, ol_group_view *view);
    bool (*is_subscribed)(void *context, ol_slice group, ol_slice topic);
    void *context;
} ol_group_state;

/* Whether the position of `group`/`topic` has expired at `now_ms`.  retention_ms < 0: never by retention; an expire timestamp in the record counts all the
 * same.  `is_pending`: a transaction has a value for this position, which protects it. */
bool ol_position_expired(const ol_group_state *groups, ol_slice group, ol_slice topic, const ol_position_value *value,
                         bool is_pending, int64_t retention_ms, int64_t now_ms);

#endif
