/* Sorts the rules by the size of their names, then by bytes, and searches for the longest match. */
#include "retention/group_rules.h"

#include <stdlib.h>
#include <string.h>

typedef struct stored_rule {
    const uint8_t *name;
    size_t size;
    int64_t retention_ms;
    int32_t number;             /* its index among the given rules */
} stored_rule;

/* Rules of groups and rules of prefixes, each list sorted by size and then by bytes, so that names
 * of one length are adjacent. */
struct ol_retention_rules {
    int64_t default_ms;
    size_t group_count;
    size_t prefix_count;
    stored_rule *groups;
    stored_rule *prefixes;      /* after the groups, in the same allocation */
    uint8_t *names;
};

static int compare_names(const uint8_t *left, size_t left_size, const uint8_t *right,
                         size_t right_size) {
    if (left_size != right_size) return left_size < right_size ? -1 : 1;
    return left_size == 0 ? 0 : memcmp(left, right, left_size);
}

static int compare_rules(const void *a, const void *b) {
    const stored_rule *left = a, *right = b;
    return compare_names(left->name, left->size, right->name, right->size);
}

static const stored_rule *find(const stored_rule *rules, size_t count, const uint8_t *name,
                               size_t size) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_names(rules[middle].name, rules[middle].size, name, size);
        if (order == 0) return &rules[middle];
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

static void store_rule(stored_rule *stored, const ol_retention_rule *rule, size_t number,
                       uint8_t *name) {
    if (rule->group.size > 0) memcpy(name, rule->group.data, rule->group.size);
    *stored = (stored_rule){name, rule->group.size, rule->retention_ms, (int32_t)number};
}

static int sort_rules(stored_rule *rules, size_t count, ol_error *error) {
    if (count > 1) qsort(rules, count, sizeof *rules, compare_rules);
    for (size_t i = 1; i < count; i++) {
        if (compare_rules(&rules[i - 1], &rules[i]) != 0) continue;
        ol_fail(error, OL_INVALID, "there are two rules for the same group or prefix");
        error->item = rules[i].number;
        return error->status;
    }
    return OL_OK;
}

static int check_rules(const ol_retention_rule *rules, size_t count, int64_t default_ms,
                       ol_error *error) {
    if (default_ms < OL_RETENTION_NEVER) {
        return ol_fail(error, OL_INVALID,
                       "the retention %lld ms must not be negative", (long long)default_ms);
    }
    if (count > INT32_MAX) {
        return ol_fail(error, OL_INVALID, "there are %zu rules; the limit is %d", count,
                       INT32_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (rules[i].retention_ms >= OL_RETENTION_NEVER) continue;
        ol_fail(error, OL_INVALID,
                "the retention %lld ms must not be negative", (long long)rules[i].retention_ms);
        error->item = (int64_t)i;
        return error->status;
    }
    return OL_OK;
}

static int store_all(ol_retention_rules *stored, const ol_retention_rule *rules, size_t count,
                     ol_error *error) {
    size_t size = 1;
    for (size_t i = 0; i < count; i++) {
        size += rules[i].group.size;
        if (!rules[i].is_prefix) stored->group_count++;
    }
    stored->groups = malloc((count + 1) * sizeof *stored->groups);
    stored->names = malloc(size);
    if (stored->groups == NULL || stored->names == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu rules", count);
    }
    stored->prefixes = stored->groups + stored->group_count;
    uint8_t *name = stored->names;
    for (size_t i = 0, groups = 0; i < count; i++) {
        stored_rule *place = rules[i].is_prefix ? &stored->prefixes[stored->prefix_count++]
                                                : &stored->groups[groups++];
        store_rule(place, &rules[i], i, name);
        name += rules[i].group.size;
    }
    int status = sort_rules(stored->groups, stored->group_count, error);
    return status == OL_OK ? sort_rules(stored->prefixes, stored->prefix_count, error) : status;
}

int ol_retention_rules_create(const ol_retention_rule *rules, size_t count, int64_t default_ms,
                              ol_retention_rules **created, ol_error *error) {
    int status = check_rules(rules, count, default_ms, error);
    if (status != OL_OK) return status;
    ol_retention_rules *stored = calloc(1, sizeof *stored);
    if (stored == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for %zu rules", count);
    stored->default_ms = default_ms;
    status = store_all(stored, rules, count, error);
    if (status != OL_OK) {
        ol_retention_rules_destroy(stored);
        return status;
    }
    *created = stored;
    return OL_OK;
}

void ol_retention_rules_destroy(ol_retention_rules *rules) {
    if (rules == NULL) return;
    free(rules->groups);
    free(rules->names);
    free(rules);
}

/* Returns the number of prefixes that are at most `size` bytes long. */
static size_t count_up_to(const ol_retention_rules *rules, size_t count, size_t size) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rules->prefixes[middle].size <= size) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

ol_retention ol_retention_of(const ol_retention_rules *rules, ol_slice group) {
    const stored_rule *rule = find(rules->groups, rules->group_count, group.data, group.size);
    size_t count = count_up_to(rules, rules->prefix_count, group.size);
    while (rule == NULL && count > 0) {
        size_t size = rules->prefixes[count - 1].size;
        rule = find(rules->prefixes, count, group.data, size);
        if (size == 0) break;
        count = count_up_to(rules, count, size - 1);
    }
    if (rule == NULL) return (ol_retention){rules->default_ms, OL_RETENTION_DEFAULT};
    return (ol_retention){rule->retention_ms, rule->number};
}
