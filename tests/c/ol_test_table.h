/* A reference of ol_table for tests: a fixed set of positions, each with its value written out, and the reservations alive. */
#ifndef OL_TEST_TABLE_H
#define OL_TEST_TABLE_H

#include "base/arena.h"
#include "table/table.h"
#include "ol_test.h"

enum { MODEL_GROUPS = 7, MODEL_TOPICS = 5, MODEL_PARTITIONS = 48, MODEL_RESERVATIONS = 24 };

typedef struct model_value {
    bool present;
    int64_t offset, log_offset, commit_timestamp, expire_timestamp;
    int32_t leader_epoch;
    char metadata[48];
    int topic_id;               /* 0 none, else the byte that it consists of */
    unsigned pins;
    int64_t tombstone;          /* the last one while pinned */
} model_value;

typedef struct model_reservation {
    bool used;
    int group, topic, partition;
    ol_reservation reservation;
    ol_position_value value;
    char metadata[48];
    uint8_t topic_id[16];
} model_reservation;

typedef struct table_model {
    ol_table *table;
    int64_t next_log_offset;
    model_value values[MODEL_GROUPS][MODEL_TOPICS][MODEL_PARTITIONS];
    model_reservation reservations[MODEL_RESERVATIONS];
} table_model;

static const char *const model_groups[MODEL_GROUPS] = {"", "a", "billing", "g\xc3\xa9", "other", "other2",
                                                       "a group with quite a long name, longer than the others"};
static const char *const model_topics[MODEL_TOPICS] = {"", "orders", "t", "payments-and-more", "a"};

/* Neighbours, far apart, and both ends of what 32 bits hold. */
static int32_t model_partition(int index) {
    static const int32_t hostile[] = {INT32_MIN, INT32_MIN + 15, INT32_MIN + 16, -1, -16, -17, INT32_MAX, INT32_MAX - 15,
                                      INT32_MAX - 16, 1 << 20, (1 << 20) - 1, 1000, 5000, 70000, 900000, 123456789};
    return index < 32 ? index : hostile[index - 32];
}

OL_UNUSED static ol_slice text(const char *string) { return ol_slice_of(string, strlen(string)); }

OL_UNUSED static ol_pair_name name_pair(const ol_table *table, const char *group, const char *topic) {
    return ol_table_name(table, text(group), ol_table_group_hash(table, text(group)), text(topic));
}

OL_UNUSED static ol_pair_name model_name(const table_model *model, int group, int topic) {
    return name_pair(model->table, model_groups[group], model_topics[topic]);
}

OL_UNUSED static void random_value(table_model *model, model_reservation *to) {
    static const char *const metadata[] = {"", "", "", "m", "some metadata", "consumer-17@host.example"};
    to->value = (ol_position_value){
        .offset = (int64_t)ol_test_random(),
        .log_offset = model->next_log_offset++,
        .commit_timestamp = (int64_t)ol_test_below(1u << 30),
        .expire_timestamp = ol_test_below(5) == 0 ? (int64_t)ol_test_below(100) - 3 : -1,
        .leader_epoch = (int32_t)ol_test_below(5) - 1,
    };
    snprintf(to->metadata, sizeof to->metadata, "%s", metadata[ol_test_below(6)]);
    if (ol_test_below(8) == 0) snprintf(to->metadata, sizeof to->metadata, "%d", (int)ol_test_below(1000));
    to->value.metadata = text(to->metadata);
    int id = (int)ol_test_below(12) - 8;
    if (id > 0) {
        memset(to->topic_id, id, 16);
        to->value.topic_id = to->topic_id;
    }
}

OL_UNUSED static void model_set(model_value *to, const model_reservation *from) {
    to->present = true;
    to->offset = from->value.offset;
    to->log_offset = from->value.log_offset;
    to->commit_timestamp = from->value.commit_timestamp;
    to->expire_timestamp = from->value.expire_timestamp;
    to->leader_epoch = from->value.leader_epoch;
    memcpy(to->metadata, from->metadata, sizeof to->metadata);
    to->topic_id = from->value.topic_id != NULL ? from->topic_id[0] : 0;
}

OL_UNUSED static void check_value(const model_value *expected, const ol_position_value *actual) {
    OL_CHECK_INT(actual->offset, expected->offset);
    OL_CHECK_INT(actual->log_offset, expected->log_offset);
    OL_CHECK_INT(actual->commit_timestamp, expected->commit_timestamp);
    OL_CHECK_INT(actual->expire_timestamp, expected->expire_timestamp);
    OL_CHECK_INT(actual->leader_epoch, expected->leader_epoch);
    OL_CHECK(actual->metadata.size == strlen(expected->metadata));
    OL_CHECK(memcmp(actual->metadata.data, expected->metadata, actual->metadata.size) == 0);
    OL_CHECK_INT(actual->topic_id != NULL ? actual->topic_id[0] : 0, expected->topic_id);
    OL_CHECK(actual->topic_id == NULL || actual->topic_id[15] == actual->topic_id[0]);
}

OL_UNUSED static int index_of(const char *const *names, int count, ol_slice name) {
    for (int i = 0; i < count; i++) {
        if (strlen(names[i]) == name.size && memcmp(names[i], name.data, name.size) == 0) return i;
    }
    return -1;
}

OL_UNUSED static int partition_index(int32_t partition) {
    for (int i = 0; i < MODEL_PARTITIONS; i++) {
        if (model_partition(i) == partition) return i;
    }
    return -1;
}

/* Everything the table says against everything the model says. */
OL_UNUSED static void model_check(const table_model *model) {
    ol_table_verify(model->table);
    uint64_t count = 0, groups = 0;
    ol_hash128 sum = {0, 0};
    for (int g = 0; g < MODEL_GROUPS; g++) {
        uint64_t in_group = 0;
        for (int t = 0; t < MODEL_TOPICS; t++) {
            ol_pair_name name = model_name(model, g, t);
            for (int p = 0; p < MODEL_PARTITIONS; p++) {
                const model_value *expected = &model->values[g][t][p];
                ol_position_value value;
                bool found = ol_table_get(model->table, &name, model_partition(p), &value);
                OL_CHECK_INT(found, expected->present);
                if (!found) continue;
                check_value(expected, &value);
                sum = ol_hash128_add(sum, ol_position_digest(name.group, name.topic, model_partition(p), &value, true));
                in_group++;
            }
        }
        uint64_t hash = ol_table_group_hash(model->table, text(model_groups[g]));
        OL_CHECK_INT(ol_table_group_positions(model->table, text(model_groups[g]), hash), in_group);
        ol_table_cursor cursor = {0};
        ol_table_row row;
        uint64_t walked = 0;
        while (ol_table_next_of_group(model->table, text(model_groups[g]), hash, &cursor, &row)) walked++;
        OL_CHECK_INT(walked, in_group);
        count += in_group;
        groups += in_group != 0;
    }
    OL_CHECK_INT(ol_table_count(model->table), count);
    ol_hash128 digest = ol_table_digest(model->table, true);
    OL_CHECK(digest.low == sum.low && digest.high == sum.high);
    ol_table_cursor cursor = {0};
    ol_slice group;
    uint64_t positions, listed = 0;
    while (ol_table_next_group(model->table, &cursor, &group, &positions)) {
        OL_CHECK(positions != 0 && index_of(model_groups, MODEL_GROUPS, group) >= 0);
        listed++;
    }
    OL_CHECK_INT(listed, groups);
}

/* The walk of all: each position once, partitions of a pair ascending. */
OL_UNUSED static void model_check_walk(const table_model *model) {
    ol_table_cursor cursor = {0};
    ol_table_row row;
    uint64_t count = 0;
    int group_before = -1, topic_before = -1;
    int32_t partition_before = 0;
    while (ol_table_next(model->table, &cursor, &row)) {
        int g = index_of(model_groups, MODEL_GROUPS, row.group), t = index_of(model_topics, MODEL_TOPICS, row.topic);
        int p = partition_index(row.partition);
        OL_CHECK(g >= 0 && t >= 0 && p >= 0 && model->values[g][t][p].present);
        check_value(&model->values[g][t][p], &row.value);
        if (g == group_before && t == topic_before) OL_CHECK(row.partition > partition_before);
        group_before = g, topic_before = t, partition_before = row.partition;
        count++;
    }
    OL_CHECK_INT(count, ol_table_count(model->table));
}

#endif
