/* Random steps of a table and its reference together (ol_test_table.h). */
#ifndef OL_TEST_TABLE_STEPS_H
#define OL_TEST_TABLE_STEPS_H

#include "ol_test_table.h"

OL_UNUSED static model_reservation *random_reservation(table_model *model) {
    for (int tries = 0; tries < 8; tries++) {
        model_reservation *found = &model->reservations[ol_test_below(MODEL_RESERVATIONS)];
        if (found->used) return found;
    }
    return NULL;
}

OL_UNUSED static model_reservation *free_reservation(table_model *model) {
    for (int i = 0; i < MODEL_RESERVATIONS; i++) {
        if (!model->reservations[i].used) return &model->reservations[i];
    }
    return NULL;
}

OL_UNUSED static void unpin(model_value *value) {
    if (--value->pins == 0) value->tombstone = INT64_MIN;
}

/* ends: 0 install, 1 install if newer, 2 release */
OL_UNUSED static void end_reservation(table_model *model, model_reservation *held, int how) {
    model_value *value = &model->values[held->group][held->topic][held->partition];
    if (how == 0) {
        held->value.log_offset = model->next_log_offset++;
        ol_table_install(model->table, &held->reservation, &held->value);
        model_set(value, held);
    } else if (how == 1) {
        bool newer = held->value.log_offset > value->tombstone &&
                     (!value->present || held->value.log_offset > value->log_offset);
        OL_CHECK_INT(ol_table_install_if_newer(model->table, &held->reservation, &held->value), newer);
        if (newer) model_set(value, held);
    } else {
        ol_table_release(model->table, &held->reservation);
    }
    unpin(value);
    held->used = false;
}

OL_UNUSED static void step(table_model *model, int partitions, unsigned remove_weight) {
    ol_error error;
    int g = (int)ol_test_below(MODEL_GROUPS), t = (int)ol_test_below(MODEL_TOPICS), p = (int)ol_test_below((uint64_t)partitions);
    ol_pair_name name = model_name(model, g, t);
    model_value *value = &model->values[g][t][p];
    unsigned dice = (unsigned)ol_test_below(10 + remove_weight);
    if (dice >= 10) {
        int64_t log_offset = model->next_log_offset++;
        OL_CHECK_INT(ol_table_remove(model->table, &name, model_partition(p), log_offset), value->present);
        value->present = false;
        if (value->pins != 0) value->tombstone = log_offset;
    } else if (dice < 6) {
        model_reservation put;
        random_value(model, &put);
        OL_CHECK_OK(ol_table_put(model->table, &name, model_partition(p), &put.value, &error), &error);
        model_set(value, &put);
    } else if (dice < 8) {
        model_reservation *held = free_reservation(model);
        if (held == NULL) return;
        random_value(model, held);
        held->group = g, held->topic = t, held->partition = p;
        OL_CHECK_OK(ol_table_reserve(model->table, &name, model_partition(p), &held->value, &held->reservation, &error), &error);
        held->used = true;
        if (value->pins++ == 0) value->tombstone = INT64_MIN;
    } else {
        model_reservation *held = random_reservation(model);
        if (held != NULL) end_reservation(model, held, (int)ol_test_below(3));
    }
}

/* Up to 40 rows of one pair: mostly neighbours that ascend, as a consumer commits them, sometimes in any order or twice. */
OL_UNUSED static void put_run(table_model *model, int partitions) {
    enum { ROWS = 40 };
    static model_reservation put[ROWS];
    ol_position_row rows[ROWS];
    ol_error error;
    int g = (int)ol_test_below(MODEL_GROUPS), t = (int)ol_test_below(MODEL_TOPICS), p = (int)ol_test_below((uint64_t)partitions);
    bool ascending = ol_test_below(3) != 0, bare = ol_test_below(2) != 0;
    size_t count = 0, wanted = 1 + ol_test_below(ROWS);
    for (; count < wanted && p < partitions; count++) {
        memset(&put[count], 0, sizeof put[count]);
        random_value(model, &put[count]);
        if (bare) {
            put[count].value.metadata = ol_slice_of("", put[count].metadata[0] = 0);
            put[count].value.expire_timestamp = -1;
            put[count].value.topic_id = NULL;
        }
        rows[count] = (ol_position_row){put[count].value, model_partition(p)};
        model_set(&model->values[g][t][p], &put[count]);
        p = ascending ? p + 1 + (int)ol_test_below(8) / 7 : (int)ol_test_below((uint64_t)partitions);
    }
    ol_pair_name name = model_name(model, g, t);
    uint32_t hint = ol_test_below(2) ? ol_table_prefetch_pair(model->table, &name) : 0;
    OL_CHECK_OK(ol_table_put_run(model->table, hint, &name, rows, count, &error), &error);
}

OL_UNUSED static void create_model(table_model *model) {
    ol_error error;
    memset(model, 0, sizeof *model);
    for (int i = 0; i < MODEL_GROUPS * MODEL_TOPICS * MODEL_PARTITIONS; i++) (&model->values[0][0][0])[i].tombstone = INT64_MIN;
    OL_CHECK_OK(ol_table_create(&model->table, &error), &error);
}

OL_UNUSED static void check_reservations(const table_model *model) {
    for (int i = 0; i < MODEL_RESERVATIONS; i++) {
        const model_reservation *held = &model->reservations[i];
        if (!held->used) continue;
        const model_value *expected = &model->values[held->group][held->topic][held->partition];
        ol_position_value value;
        OL_CHECK_INT(ol_table_get_reserved(model->table, &held->reservation, &value), expected->present);
        if (expected->present) check_value(expected, &value);
    }
}

OL_UNUSED static void empty_model(table_model *model) {
    for (int i = 0; i < MODEL_RESERVATIONS; i++) {
        if (model->reservations[i].used) end_reservation(model, &model->reservations[i], 2);
    }
    for (int g = 0; g < MODEL_GROUPS; g++) {
        for (int t = 0; t < MODEL_TOPICS; t++) {
            for (int p = 0; p < MODEL_PARTITIONS; p++) {
                ol_pair_name name = model_name(model, g, t);
                ol_table_remove(model->table, &name, model_partition(p), model->next_log_offset++);
                model->values[g][t][p].present = false;
            }
        }
    }
}

#endif
