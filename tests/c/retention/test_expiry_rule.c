/* Expiry as a pure function (docs/format/coordinator.md §5.13). */
#include "retention/expiry_rule.h"
#include "ol_test.h"

enum { DAY = 86400000 };

static bool expired(ol_group_view view, bool subscribed, int64_t commit, int64_t expire, int64_t retention, int64_t now) {
    ol_position_value value = {.commit_timestamp = commit, .expire_timestamp = expire};
    ol_expiry expiry = ol_position_expiry(&view, &value, subscribed, retention);
    OL_CHECK((expiry.base == OL_EXPIRY_NEVER) == (expiry.at_ms == INT64_MAX));
    return ol_expiry_is_due(&expiry, now);
}

static const ol_group_view rebalancing = {.kind = OL_GROUP_CLASSIC, .is_consumer_protocol = true, .subscription_known = true,
                                          .state_timestamp = 0};

OL_TEST(a_simple_group_counts_from_the_commit) {
    ol_group_view simple = ol_group_view_simple();
    OL_CHECK(!expired(simple, false, 0, -1, 7LL * DAY, 7LL * DAY - 1));
    OL_CHECK(expired(simple, false, 0, -1, 7LL * DAY, 7LL * DAY));
    OL_CHECK(expired(simple, true, 0, -1, 7LL * DAY, 7LL * DAY));
    OL_CHECK(!expired(simple, false, 0, -1, -1, 70LL * DAY));
    OL_CHECK(expired(simple, false, 0, 5, -1, 5));
    OL_CHECK(!expired(simple, false, 0, 6, 1, 5));
}

OL_TEST(trap_21_an_empty_group_counts_from_when_it_became_empty) {
    ol_group_view empty = {.kind = OL_GROUP_CLASSIC, .is_empty = true, .is_consumer_protocol = true, .state_timestamp = 4LL * DAY};
    OL_CHECK(!expired(empty, false, 0, -1, 7LL * DAY, 10LL * DAY));
    OL_CHECK(expired(empty, false, 0, -1, 7LL * DAY, 11LL * DAY));
    OL_CHECK(expired(empty, false, 0, 5, 7LL * DAY, 5));
    empty.state_timestamp = -1;
    OL_CHECK(expired(empty, false, 0, -1, 7LL * DAY, 10LL * DAY));
    empty.kind = OL_GROUP_SIMPLE;
    empty.state_timestamp = 4LL * DAY;
    OL_CHECK(expired(empty, false, 0, -1, 7LL * DAY, 10LL * DAY));
}

OL_TEST(trap_22_nothing_expires_where_no_condition_applies) {
    ol_group_view group = rebalancing;
    OL_CHECK(!expired(group, false, 0, 1, 1, 70LL * DAY));
    group.is_stable = true;
    OL_CHECK(expired(group, false, 0, 1, 1, 70LL * DAY));
    OL_CHECK(expired(group, false, 0, -1, 70LL * DAY, 70LL * DAY));
    OL_CHECK(!expired(group, true, 0, 1, 1, 70LL * DAY));
    group.subscription_known = false;
    OL_CHECK(!expired(group, false, 0, 1, 1, 70LL * DAY));
    group.subscription_known = true;
    group.is_consumer_protocol = false;
    OL_CHECK(!expired(group, false, 0, 1, 1, 70LL * DAY));
}

OL_TEST(a_consumer_group_keeps_what_it_subscribes_to) {
    ol_group_view group = {.kind = OL_GROUP_CONSUMER};
    OL_CHECK(!expired(group, true, 0, -1, 1, DAY));
    OL_CHECK(!expired(group, true, 0, 1, 1, DAY));
    OL_CHECK(expired(group, false, 0, -1, 1, DAY));
    group.is_empty = true;
    group.state_timestamp = 4LL * DAY;
    OL_CHECK(expired(group, false, 0, -1, DAY, DAY));
}

OL_TEST(of_a_share_group_and_of_one_that_is_held_nothing_expires) {
    ol_group_view group = {.kind = OL_GROUP_SHARE, .is_empty = true};
    OL_CHECK(!expired(group, false, 0, 1, 1, DAY));
    group = ol_group_view_simple();
    group.is_held = true;
    OL_CHECK(!expired(group, false, 0, 1, 1, DAY));
}

/* A log can hold any number; what overflows is never, and no undefined behaviour. */
OL_TEST(times_at_the_edges) {
    ol_group_view simple = ol_group_view_simple();
    OL_CHECK(!expired(simple, false, INT64_MAX, -1, 1, INT64_MAX));
    OL_CHECK(!expired(simple, false, 1, -1, INT64_MAX, INT64_MAX));
    OL_CHECK(!expired(simple, false, -1, -1, 0, INT64_MAX));
    OL_CHECK(!expired(simple, false, INT64_MIN, INT64_MIN, 0, INT64_MAX));
    OL_CHECK(expired(simple, false, INT64_MIN, 0, 0, 0));
    OL_CHECK(expired(simple, false, 7, -1, 0, 7));
}

OL_TEST_MAIN()
