/* Expiry as a pure function (spec §5.13). */
#include "ol_expiry.h"
#include "ol_test.h"

typedef struct known {
    bool there;
    ol_group_view view;
    bool subscribed;
} known;

static bool view_of(void *context, ol_slice group OL_UNUSED, ol_group_view *view) {
    const known *self = context;
    if (self->there) *view = self->view;
    return self->there;
}

static bool is_subscribed(void *context, ol_slice group OL_UNUSED, ol_slice topic OL_UNUSED) {
    return ((const known *)context)->subscribed;
}

enum { DAY = 86400000 };

static bool expired(known group, int64_t commit, int64_t expire, bool pending, int64_t retention, int64_t now) {
    ol_group_state port = {view_of, is_subscribed, &group};
    ol_position_value value = {.commit_timestamp = commit, .expire_timestamp = expire};
    return ol_position_expired(&port, ol_slice_of("g", 1), ol_slice_of("t", 1), &value, pending, retention, now);
}

OL_TEST(a_simple_group_counts_from_the_commit) {
    known none = {0};
    OL_CHECK(!expired(none, 0, -1, false, 7LL * DAY, 7LL * DAY - 1));
    OL_CHECK(expired(none, 0, -1, false, 7LL * DAY, 7LL * DAY));
    OL_CHECK(!expired(none, 0, -1, true, 7LL * DAY, 70LL * DAY));
    OL_CHECK(!expired(none, 0, -1, false, -1, 70LL * DAY));
    OL_CHECK(expired(none, 0, 5, false, -1, 5));
    OL_CHECK(!expired(none, 0, 6, false, 1, 5));
}

OL_TEST(trap_21_an_empty_group_counts_from_when_it_became_empty) {
    known empty = {true, {.kind = OL_GROUP_CLASSIC, .is_empty = true, .is_consumer_protocol = true, .state_timestamp = 4LL * DAY}, false};
    OL_CHECK(!expired(empty, 0, -1, false, 7LL * DAY, 10LL * DAY));
    OL_CHECK(expired(empty, 0, -1, false, 7LL * DAY, 11LL * DAY));
    empty.view.state_timestamp = -1;
    OL_CHECK(expired(empty, 0, -1, false, 7LL * DAY, 10LL * DAY));
}

OL_TEST(trap_22_nothing_expires_where_no_condition_applies) {
    known rebalancing = {true, {.kind = OL_GROUP_CLASSIC, .is_consumer_protocol = true, .subscription_known = true}, false};
    OL_CHECK(!expired(rebalancing, 0, 1, false, 1, 70LL * DAY));
    rebalancing.view.is_stable = true;
    OL_CHECK(expired(rebalancing, 0, 1, false, 1, 70LL * DAY));
    rebalancing.subscribed = true;
    OL_CHECK(!expired(rebalancing, 0, 1, false, 1, 70LL * DAY));
}

OL_TEST(a_consumer_group_keeps_what_it_subscribes_to) {
    known group = {true, {.kind = OL_GROUP_CONSUMER}, true};
    OL_CHECK(!expired(group, 0, -1, false, 1, DAY));
    group.subscribed = false;
    OL_CHECK(expired(group, 0, -1, false, 1, DAY));
}

OL_TEST_MAIN()
