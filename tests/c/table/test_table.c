/* The table (ol_table, table/pairs, table/read, table/put_run) against a model, and its limits. */
#include "ol_test_table_steps.h"

OL_TEST(random_operations_agree_with_the_model) {
    static table_model model;
    create_model(&model);
    static const unsigned remove_weights[] = {2, 14, 4, 30};
    for (int i = 0; i < 40000; i++) {
        int partitions = i % 20000 < 10000 ? MODEL_PARTITIONS : 20;
        if (ol_test_below(8) == 0) {
            put_run(&model, partitions);
        } else {
            step(&model, partitions, remove_weights[i / 1000 % 4]);
        }
        if (i % 97 == 0) model_check(&model);
        if (i % 97 == 0) model_check_walk(&model);
        if (i % 97 == 0) check_reservations(&model);
    }
    empty_model(&model);
    model_check(&model);
    ol_table_memory memory;
    ol_table_memory_usage(model.table, &memory);
    OL_CHECK_INT(memory.string_bytes, 0);
    ol_table_destroy(model.table);
}

OL_TEST(hostile_partition_numbers) {
    ol_table *table;
    ol_error error;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    ol_pair_name name = name_pair(table, "g", "t");
    enum { COUNT = 3000 };
    static int32_t partitions[COUNT];
    for (int i = 0; i < COUNT; i++) {
        partitions[i] = i % 3 == 0 ? (int32_t)ol_test_random() : (int32_t)ol_test_below(1000) - 100;
        ol_position_value value = {.offset = partitions[i], .expire_timestamp = -1};
        OL_CHECK_OK(ol_table_put(table, &name, partitions[i], &value, &error), &error);
        if (i % 100 == 0) ol_table_verify(table);
    }
    ol_table_cursor cursor = {0};
    ol_table_row row;
    int64_t before = INT64_MIN;
    uint64_t walked = 0;
    while (ol_table_next_of_pair(table, &name, &cursor, &row)) {
        OL_CHECK(row.partition > before && row.value.offset == row.partition);
        before = row.partition;
        walked++;
    }
    OL_CHECK_INT(walked, ol_table_count(table));
    for (int i = 0; i < COUNT; i++) {
        ol_table_remove(table, &name, partitions[i], i);
        if (i % 100 == 0) ol_table_verify(table);
    }
    OL_CHECK_INT(ol_table_count(table), 0);
    ol_table_verify(table);
    ol_table_destroy(table);
}

static uint64_t resident(const ol_table *table) {
    ol_table_memory memory;
    ol_table_memory_usage(table, &memory);
    return memory.cells + memory.pairs + memory.pair_hash + memory.chunks + memory.strings + memory.side;
}

/* Groups come and go for a long time: what is freed is used again. */
OL_TEST(many_groups_created_and_removed) {
    ol_table *table;
    ol_error error;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    OL_CHECK_INT(resident(table), 0);
    enum { LIVING = 2000, ROUNDS = 60000 };
    static uint32_t numbers[LIVING];
    static int sizes[LIVING];
    uint64_t resident_early = 0;
    uint8_t topic_id[16] = {1};
    for (int i = 0; i < ROUNDS; i++) {
        int at = (int)ol_test_below(LIVING);
        char group[64];
        for (int p = 0; p < sizes[at]; p++) {
            snprintf(group, sizeof group, "group-%u", numbers[at]);
            ol_pair_name name = name_pair(table, group, p % 2 ? "orders" : "payments");
            OL_CHECK(ol_table_remove(table, &name, p, i));
        }
        numbers[at] = (uint32_t)i;
        sizes[at] = 1 + (int)ol_test_below(20);
        for (int p = 0; p < sizes[at]; p++) {
            snprintf(group, sizeof group, "group-%u", numbers[at]);
            ol_pair_name name = name_pair(table, group, p % 2 ? "orders" : "payments");
            ol_position_value value = {.offset = p, .log_offset = i, .expire_timestamp = p % 5 == 0 ? i : -1};
            value.metadata = p % 7 == 0 ? text(group) : text("");
            if (p % 3 == 0) value.topic_id = topic_id;
            OL_CHECK_OK(ol_table_put(table, &name, p, &value, &error), &error);
        }
        if (i == ROUNDS / 2) resident_early = resident(table);
        if (i % 10000 == 0) ol_table_verify(table);
    }
    ol_table_verify(table);
    OL_CHECK(resident(table) < resident_early + resident_early / 10);
    ol_table_destroy(table);
}

/* ------------------------------------------------------------------------------------------------ reservations */

OL_TEST(an_absent_cell_is_seen_by_no_read) {
    ol_table *table;
    ol_error error;
    ol_reservation reservation;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    ol_pair_name name = name_pair(table, "g", "t");
    ol_position_value value = {.offset = 5, .log_offset = 10, .expire_timestamp = -1, .metadata = text("m")}, found;
    OL_CHECK_OK(ol_table_reserve(table, &name, 3, &value, &reservation, &error), &error);
    ol_table_cursor all = {0}, groups = {0};
    ol_table_row row;
    ol_slice group;
    uint64_t positions;
    OL_CHECK(!ol_table_get(table, &name, 3, &found) && !ol_table_next(table, &all, &row));
    OL_CHECK(!ol_table_next_group(table, &groups, &group, &positions));
    OL_CHECK_INT(ol_table_count(table), 0);
    OL_CHECK_INT(ol_table_group_positions(table, name.group, name.group_hash), 0);
    ol_table_verify(table);
    ol_table_install(table, &reservation, &value);
    OL_CHECK(ol_table_get(table, &name, 3, &found) && found.offset == 5 && found.metadata.size == 1);
    OL_CHECK(ol_table_remove(table, &name, 3, 11));
    ol_table_verify(table);
    ol_table_destroy(table);
}

OL_TEST(trap_15_tombstone_is_remembered_while_pinned) {
    ol_table *table;
    ol_error error;
    ol_reservation first, second;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    ol_pair_name name = name_pair(table, "g", "t");
    ol_position_value value = {.offset = 5, .log_offset = 103, .expire_timestamp = 9}, found;
    OL_CHECK_OK(ol_table_reserve(table, &name, 3, &value, &first, &error), &error);
    OL_CHECK_OK(ol_table_reserve(table, &name, 3, &value, &second, &error), &error);
    OL_CHECK(!ol_table_remove(table, &name, 3, 104));
    OL_CHECK(!ol_table_install_if_newer(table, &first, &value));
    ol_table_verify(table);
    value.log_offset = 105;
    OL_CHECK(ol_table_install_if_newer(table, &second, &value));
    OL_CHECK(ol_table_get(table, &name, 3, &found) && found.expire_timestamp == 9);
    ol_table_verify(table);
    ol_table_destroy(table);
}

/* ------------------------------------------------------------------------------------------------ topic ids */

OL_TEST(a_new_topic_id_is_taken_over_by_the_pair) {
    ol_table *table;
    ol_error error;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    ol_pair_name name = name_pair(table, "g", "t");
    uint8_t ids[3][16];
    for (int round = 0; round < 3; round++) {
        memset(ids[round], round + 1, 16);
        for (int twice = 0; twice < 2; twice++) {
            for (int p = 0; p < 40; p++) {
                ol_position_value value = {.offset = p, .expire_timestamp = -1, .topic_id = ids[round]}, found;
                OL_CHECK_OK(ol_table_put(table, &name, p, &value, &error), &error);
                OL_CHECK(ol_table_get(table, &name, p, &found) && memcmp(found.topic_id, ids[round], 16) == 0);
                ol_table_verify(table);
            }
        }
    }
    ol_table_memory memory;
    ol_table_memory_usage(table, &memory);
    OL_CHECK_INT(memory.string_bytes, 1 + 1 + 16);      /* group, topic, and one topic id */
    ol_table_destroy(table);
}

/* ------------------------------------------------------------------------------------------------ out of memory */

typedef int (*failing_call)(table_model *model, model_reservation *held, ol_error *error);

static int call_put(table_model *model, model_reservation *held, ol_error *error) {
    ol_pair_name name = model_name(model, held->group, held->topic);
    return ol_table_put(model->table, &name, model_partition(held->partition), &held->value, error);
}

static int call_reserve(table_model *model, model_reservation *held, ol_error *error) {
    ol_pair_name name = model_name(model, held->group, held->topic);
    return ol_table_reserve(model->table, &name, model_partition(held->partition), &held->value, &held->reservation, error);
}

/* Lets each allocation of the call fail in turn, until it needs none that fails. */
static void fail_in_turn(table_model *model, model_reservation *held, failing_call call, int *failures) {
    ol_error error;
    for (int64_t allowed = 0;; allowed++) {
        ol_arena_fail_after(allowed);
        int status = call(model, held, &error);
        ol_arena_fail_after(-1);
        if (status == OL_OK) return;
        OL_CHECK_INT(status, OL_NO_MEMORY);
        OL_CHECK(allowed < 100);
        ++*failures;
        model_check(model);
        check_reservations(model);
    }
}

static void fill_with_failures(int *failures) {
    static table_model model;
    create_model(&model);
    for (int i = 0; i < 120; i++) {
        model_reservation *held = free_reservation(&model);
        bool reserve = held != NULL && i % 3 == 0;
        model_reservation put, *target = reserve ? held : &put;
        target->group = (int)ol_test_below(MODEL_GROUPS);
        target->topic = (int)ol_test_below(MODEL_TOPICS);
        target->partition = (int)ol_test_below(MODEL_PARTITIONS);
        random_value(&model, target);
        model_value *value = &model.values[target->group][target->topic][target->partition];
        fail_in_turn(&model, target, reserve ? call_reserve : call_put, failures);
        if (reserve) {
            held->used = true;
            if (value->pins++ == 0) value->tombstone = INT64_MIN;
        } else {
            model_set(value, target);
        }
    }
    empty_model(&model);
    model_check(&model);
    ol_table_destroy(model.table);
}

OL_TEST(each_allocation_that_fails_changes_nothing) {
    int failures = 0;
    for (int i = 0; i < 5; i++) fill_with_failures(&failures);
    OL_CHECK(failures > 200);
}

/* ------------------------------------------------------------------------------------------------ many */

OL_TEST(many_pairs_in_random_order) {
    ol_table *table;
    ol_error error;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    enum { PAIRS = 20000 };
    for (int i = 0; i < 3 * PAIRS; i++) {
        char group[32];
        unsigned number = (unsigned)ol_test_below(PAIRS);
        snprintf(group, sizeof group, "group-%u", number / 3);
        ol_pair_name name = name_pair(table, group, number % 3 == 0 ? "orders" : number % 3 == 1 ? "payments" : "x");
        ol_position_value value = {.offset = number, .log_offset = i, .expire_timestamp = -1};
        ol_table_prefetch_slot(table, &name);
        uint32_t hint = ol_table_prefetch_pair(table, &name);
        ol_table_prefetch_chunk(table, hint, i % 3);
        ol_table_prefetch_cell(table, hint, i % 3);
        OL_CHECK_OK(ol_table_put(table, &name, i % 3, &value, &error), &error);
    }
    ol_table_verify(table);
    ol_table_cursor cursor = {0};
    ol_table_row row;
    uint64_t count = 0;
    while (ol_table_next(table, &cursor, &row)) {
        ol_pair_name name = ol_table_name(table, row.group, ol_table_group_hash(table, row.group), row.topic);
        ol_position_value value;
        OL_CHECK(ol_table_get(table, &name, row.partition, &value) && value.offset == row.value.offset);
        value.offset = -2;
        uint32_t pair = ol_table_find(table, &name);
        OL_CHECK(ol_table_get_of_pair(table, pair, row.partition, &value) && value.offset == row.value.offset);
        count++;
    }
    OL_CHECK_INT(count, ol_table_count(table));
    ol_table_destroy(table);
}

/* The rows before the one that found no memory are there, the others are not; put again they are all there.  `first` has
 * the first row, which makes the pair, need more than a cell: metadata, an expire timestamp, or a topic id. */
static void fail_run_everywhere(int first) {
    enum { ROWS = 300 };
    static const uint8_t topic_id[16] = {7};
    ol_position_row rows[ROWS];
    int32_t partition = 0;
    for (int i = 0; i < ROWS; i++, partition += 1 + (int32_t)ol_test_below(12) / 11) {
        rows[i] = (ol_position_row){{.offset = i, .log_offset = i, .commit_timestamp = 1, .expire_timestamp = -1}, partition};
        if (i % 50 == 49) rows[i].value.metadata = text("m");
    }
    if (first == 1) rows[0].value.metadata = text("first");
    if (first == 2) rows[0].value.expire_timestamp = 9;
    if (first == 3) rows[0].value.topic_id = topic_id;
    for (int64_t allowed = 0, done = false; !done; allowed++) {
        OL_CHECK(allowed < 1000);
        ol_table *table;
        ol_error error;
        OL_CHECK_OK(ol_table_create(&table, &error), &error);
        ol_pair_name name = name_pair(table, "g", "t");
        ol_arena_fail_after(allowed);
        int status = ol_table_put_run(table, 0, &name, rows, ROWS, &error);
        ol_arena_fail_after(-1);
        done = status == OL_OK;
        OL_CHECK(done || status == OL_NO_MEMORY);
        ol_table_verify(table);
        uint64_t present = 0;
        ol_position_value value;
        while (present < ROWS && ol_table_get(table, &name, rows[present].partition, &value)) present++;
        OL_CHECK_INT(ol_table_count(table), present);
        OL_CHECK_OK(ol_table_put_run(table, 0, &name, rows, ROWS, &error), &error);
        ol_table_verify(table);
        OL_CHECK_INT(ol_table_count(table), ROWS);
        ol_table_destroy(table);
    }
}

OL_TEST(a_run_that_fails_leaves_its_first_rows) {
    for (int first = 0; first <= 3; first++) fail_run_everywhere(first);
}

OL_TEST_MAIN()
