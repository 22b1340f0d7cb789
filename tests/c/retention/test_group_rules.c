/* Which retention is in force for a group. */
#include <stdlib.h>

#include "retention/group_rules.h"
#include "ol_test.h"

static ol_slice text(const char *string) { return ol_slice_of(string, strlen(string)); }

static ol_retention_rules *made(const ol_retention_rule *rules, size_t count, int64_t default_ms) {
    ol_retention_rules *created;
    ol_error error;
    OL_CHECK_OK(ol_retention_rules_create(rules, count, default_ms, &created, &error), &error);
    return created;
}

static void check(const ol_retention_rules *rules, const char *group, int64_t retention_ms, int32_t rule) {
    ol_retention found = ol_retention_of(rules, text(group));
    OL_CHECK_INT(found.retention_ms, retention_ms);
    OL_CHECK_INT(found.rule, rule);
}

OL_TEST(without_rules_the_default_counts) {
    ol_retention_rules *rules = made(NULL, 0, OL_RETENTION_NEVER);
    check(rules, "", OL_RETENTION_NEVER, OL_RETENTION_DEFAULT);
    check(rules, "a", OL_RETENTION_NEVER, OL_RETENTION_DEFAULT);
    ol_retention_rules_destroy(rules);
    ol_retention_rules_destroy(NULL);
}

OL_TEST(a_group_counts_before_a_prefix_and_a_longer_prefix_before_a_shorter) {
    const ol_retention_rule given[] = {
        {text("bill"), true, 1}, {text("billing"), false, OL_RETENTION_NEVER}, {text("billing-"), true, 3}, {text("b"), true, 4}, {text(""), false, 5}};
    ol_retention_rules *rules = made(given, 5, 6);
    check(rules, "bill", 1, 0);
    check(rules, "billing", OL_RETENTION_NEVER, 1);
    check(rules, "billing2", 1, 0);
    check(rules, "billing-", 3, 2);
    check(rules, "billing-eu", 3, 2);
    check(rules, "bi", 4, 3);
    check(rules, "", 5, 4);
    check(rules, "a", 6, OL_RETENTION_DEFAULT);
    ol_retention_rules_destroy(rules);
}

OL_TEST(the_empty_prefix_fits_every_group) {
    const ol_retention_rule given[] = {{text(""), true, 1}, {text("x"), true, 2}};
    ol_retention_rules *rules = made(given, 2, OL_RETENTION_NEVER);
    check(rules, "", 1, 0);
    check(rules, "a", 1, 0);
    check(rules, "xy", 2, 1);
    ol_retention_rules_destroy(rules);
}

OL_TEST(what_cannot_be_is_refused) {
    ol_retention_rules *rules;
    ol_error error;
    const ol_retention_rule twice[] = {{text("a"), true, 1}, {text("a"), false, 1}, {text("a"), true, 2}};
    OL_CHECK_INT(ol_retention_rules_create(twice, 3, 0, &rules, &error), OL_INVALID);
    const ol_retention_rule negative[] = {{text("a"), true, 1}, {text("b"), true, -2}};
    OL_CHECK_INT(ol_retention_rules_create(negative, 2, 0, &rules, &error), OL_INVALID);
    OL_CHECK_INT(error.item, 1);
    OL_CHECK_INT(ol_retention_rules_create(NULL, 0, -2, &rules, &error), OL_INVALID);
}

/* Against a search through all of them. */
OL_TEST(many_rules) {
    enum { COUNT = 600 };
    static char names[COUNT][8];
    static ol_retention_rule given[COUNT];
    size_t count = 0;
    srand(7);
    for (int i = 0; i < COUNT; i++) {
        int size = rand() % 6;
        for (int k = 0; k < size; k++) names[count][k] = (char)('a' + rand() % 3);
        names[count][size] = '\0';
        given[count] = (ol_retention_rule){text(names[count]), rand() % 2 == 0, i};
        bool known = false;
        for (size_t k = 0; k < count; k++) {
            known |= given[k].is_prefix == given[count].is_prefix && strcmp(names[k], names[count]) == 0;
        }
        count += !known;
    }
    ol_retention_rules *rules = made(given, count, 12345);
    for (int i = 0; i < 3000; i++) {
        char group[8] = {0};
        int size = rand() % 7, best = OL_RETENTION_DEFAULT, best_size = -1;
        for (int k = 0; k < size; k++) group[k] = (char)('a' + rand() % 3);
        for (size_t k = 0; k < count; k++) {
            int length = (int)strlen(names[k]);
            bool fits = given[k].is_prefix ? strncmp(group, names[k], (size_t)length) == 0 : strcmp(group, names[k]) == 0;
            if (fits && !given[k].is_prefix) length = 100;
            if (fits && length > best_size) best = (int)k, best_size = length;
        }
        check(rules, group, best < 0 ? 12345 : given[best].retention_ms, best);
    }
    ol_retention_rules_destroy(rules);
}

OL_TEST_MAIN()
