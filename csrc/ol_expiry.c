#include "ol_expiry.h"

/* From when retention counts, or -1 where no condition applies and nothing expires (trap 22). */
static int64_t retention_base(const ol_group_view *view, const ol_position_value *value, bool *subscribed_are_kept) {
    *subscribed_are_kept = false;
    switch (view->kind) {
        case OL_GROUP_SIMPLE:
            return value->commit_timestamp;
        case OL_GROUP_CLASSIC:
            if (view->is_empty) return view->state_timestamp >= 0 ? view->state_timestamp : value->commit_timestamp;
            *subscribed_are_kept = true;
            if (view->is_consumer_protocol && view->is_stable && view->subscription_known) return value->commit_timestamp;
            return -1;
        case OL_GROUP_CONSUMER:
            *subscribed_are_kept = true;
            return value->commit_timestamp;
    }
    OL_ASSERT(!"a group is of one kind");
    return -1;
}

bool ol_position_expired(const ol_group_state *groups, ol_slice group, ol_slice topic, const ol_position_value *value,
                         bool is_pending, int64_t retention_ms, int64_t now_ms) {
    if (is_pending) return false;
    ol_group_view view = {.kind = OL_GROUP_SIMPLE, .is_empty = true, .state_timestamp = -1};
    if (!groups->view(groups->context, group, &view)) view.kind = OL_GROUP_SIMPLE;
    bool subscribed_are_kept;
    int64_t base = retention_base(&view, value, &subscribed_are_kept);
    if (base < 0 && view.kind == OL_GROUP_CLASSIC && !view.is_empty) return false;
    if (subscribed_are_kept && groups->is_subscribed(groups->context, group, topic)) return false;
    if (value->expire_timestamp >= 0) return now_ms >= value->expire_timestamp;
    /* Compared by subtraction on the side that cannot overflow: both are times, `now` was checked by the caller. */
    return retention_ms >= 0 && base >= 0 && now_ms >= base && now_ms - base >= retention_ms;
}
