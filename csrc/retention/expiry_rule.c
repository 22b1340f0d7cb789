/* Applies the rule of expiry, which depends on the kind and state of the group. */
#include "retention/expiry_rule.h"

/* The state of a group decides when the retention begins: at the commit, when the group became
 * empty, or never (docs/format/traps.md trap 22).  If never, the record's own expire timestamp does
 * not count either. */
static ol_expiry_base base_of(const ol_group_view *view) {
    if (view->is_held) return OL_EXPIRY_NEVER;
    switch (view->kind) {
        case OL_GROUP_SIMPLE:
        case OL_GROUP_CONSUMER:
            return OL_EXPIRY_COMMIT;
        case OL_GROUP_CLASSIC:
            if (view->is_empty) {
                return view->state_timestamp >= 0 ? OL_EXPIRY_STATE : OL_EXPIRY_COMMIT;
            }
            if (view->is_consumer_protocol && view->is_stable && view->subscription_known) {
                return OL_EXPIRY_COMMIT;
            }
            return OL_EXPIRY_NEVER;
        case OL_GROUP_SHARE:
            return OL_EXPIRY_NEVER;
    }
    OL_ASSERT(!"a group has one of the kinds above");
    return OL_EXPIRY_NEVER;
}

ol_expiry ol_position_expiry(const ol_group_view *view, const ol_position_value *value,
                             bool is_subscribed, int64_t retention_ms) {
    const ol_expiry never = {OL_EXPIRY_NEVER, -1, INT64_MAX};
    ol_expiry_base base = base_of(view);
    if (base == OL_EXPIRY_NEVER || (is_subscribed && ol_group_view_keeps_subscribed(view))) {
        return never;
    }
    if (value->expire_timestamp >= 0) {
        return (ol_expiry){OL_EXPIRY_OWN, value->expire_timestamp, value->expire_timestamp};
    }
    int64_t from = base == OL_EXPIRY_STATE ? view->state_timestamp : value->commit_timestamp;
    /* A log can hold any number: no clock reaches this time. */
    if (retention_ms < 0 || from < 0 || from > INT64_MAX - retention_ms) return never;
    return (ol_expiry){base, from, from + retention_ms};
}
