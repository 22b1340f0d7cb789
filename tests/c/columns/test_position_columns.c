/* ol_string_dictionary and ol_position_columns: numbers of strings, and positions as columns. */
#include "columns/position_columns.h"
#include "ol_test.h"

static ol_slice text(const char *value) { return ol_slice_of(value, strlen(value)); }

OL_TEST(a_dictionary_numbers_each_string_once) {
    ol_string_dictionary dictionary = {.seed = 7};
    ol_error error;
    char name[32];
    for (int round = 0; round < 2; round++) {
        for (int32_t i = 0; i < 5000; i++) {
            int32_t number = -1;
            snprintf(name, sizeof name, "name %d", i);
            OL_CHECK(ol_string_dictionary_number(&dictionary, text(name), &number, &error) == OL_OK);
            OL_CHECK(number == i);
        }
    }
    OL_CHECK(dictionary.count == 5000);
    ol_slice last = ol_string_dictionary_get(&dictionary, 4999);
    OL_CHECK(last.size == 9 && memcmp(last.data, "name 4999", 9) == 0);
    ol_string_dictionary_free(&dictionary);
    OL_CHECK(dictionary.count == 0 && dictionary.seed == 7);
}

OL_TEST(a_dictionary_holds_the_empty_string) {
    ol_string_dictionary dictionary = {0};
    ol_error error;
    int32_t number = -1;
    OL_CHECK(ol_string_dictionary_number(&dictionary, text(""), &number, &error) == OL_OK && number == 0);
    OL_CHECK(ol_string_dictionary_number(&dictionary, ol_slice_null(), &number, &error) == OL_OK && number == 0);
    OL_CHECK(ol_string_dictionary_number(&dictionary, text("a"), &number, &error) == OL_OK && number == 1);
    OL_CHECK(ol_string_dictionary_get(&dictionary, 0).size == 0);
    ol_string_dictionary_free(&dictionary);
}

static ol_table_row row_of(const char *group, const char *topic, int32_t partition, const char *metadata, const uint8_t *topic_id) {
    return (ol_table_row){
        .group = text(group),
        .topic = text(topic),
        .partition = partition,
        .value = {.offset = 10 + partition, .log_offset = 100 + partition, .commit_timestamp = 1000, .expire_timestamp = -1,
                  .leader_epoch = 3, .metadata = text(metadata), .topic_id = topic_id},
    };
}

OL_TEST(rows_become_columns) {
    ol_position_columns columns = {0};
    ol_error error;
    uint8_t topic_id[16] = {1, 2, 3};
    for (int32_t i = 0; i < 1000; i++) {
        ol_table_row row = row_of(i % 2 ? "g" : "h", "t", i, i % 3 ? "" : "meta", i >= 500 && i % 5 == 0 ? topic_id : NULL);
        OL_CHECK(ol_position_columns_append(&columns, 9, &row, &error) == OL_OK);
    }
    OL_CHECK(columns.count == 1000 && columns.group_names.count == 2 && columns.topic_names.count == 1);
    OL_CHECK(columns.topic_id_count == 100);
    for (int32_t i = 0; i < 1000; i++) {
        OL_CHECK(columns.groups[i] == i % 2 && columns.topics[i] == 0 && columns.partitions[i] == i);
        OL_CHECK(columns.offsets[i] == 10 + i && columns.log_offsets[i] == 100 + i && columns.log_partitions[i] == 9);
        OL_CHECK(columns.leader_epochs[i] == 3 && columns.commit_timestamps[i] == 1000 && columns.expire_timestamps[i] == -1);
        OL_CHECK(columns.metadata_ends[i + 1] - columns.metadata_ends[i] == (i % 3 ? 0 : 4));
        bool has = (columns.topic_id_valid[i / 8] >> (i % 8) & 1) != 0;
        OL_CHECK(has == (i >= 500 && i % 5 == 0));
        OL_CHECK(columns.topic_ids[16 * i] == (has ? 1 : 0) || i < 500);
    }
    ol_position_columns_free(&columns);
}

OL_TEST(a_table_and_a_group_are_appended) {
    ol_table *table;
    ol_error error;
    OL_CHECK(ol_table_create(&table, &error) == OL_OK);
    for (int32_t i = 0; i < 300; i++) {
        ol_table_row row = row_of(i % 3 ? "many" : "few", i % 2 ? "a" : "b", i, "", NULL);
        ol_pair_name name = ol_table_name(table, row.group, ol_table_group_hash(table, row.group), row.topic);
        OL_CHECK(ol_table_put(table, &name, i, &row.value, &error) == OL_OK);
    }
    ol_position_columns all = {0}, few = {0};
    ol_table_cursor cursor = {0};
    OL_CHECK(ol_position_columns_append_table(&all, 0, table, &cursor, &error) == OL_OK);
    OL_CHECK(all.count == 300 && all.group_names.count == 2 && all.topic_names.count == 2);
    cursor = (ol_table_cursor){0};
    OL_CHECK(ol_position_columns_append_group(&few, 0, table, text("few"), &cursor, &error) == OL_OK);
    cursor = (ol_table_cursor){0};
    OL_CHECK(ol_position_columns_append_group(&few, 0, table, text("nobody"), &cursor, &error) == OL_OK);
    OL_CHECK(few.count == 100 && few.group_names.count == 1);
    ol_position_columns_free(&all);
    ol_position_columns_free(&few);
    ol_table_destroy(table);
}

/* A block without metadata that says that it holds almost as much as it may. */
static void fill(ol_position_columns *columns, int32_t left) {
    ol_error error;
    OL_CHECK(ol_position_columns_reserve(columns, 1, &error) == OL_OK);
    columns->metadata_ends[0] = (int32_t)OL_POSITION_COLUMNS_METADATA_MAX - left;
}

OL_TEST(what_does_not_fit_goes_into_the_next_block) {
    ol_table *table;
    ol_error error;
    OL_CHECK(ol_table_create(&table, &error) == OL_OK);
    for (int32_t i = 0; i < 3; i++) {
        ol_table_row row = row_of("group", "a", i, i == 1 ? "long" : "", NULL);
        ol_pair_name name = ol_table_name(table, row.group, ol_table_group_hash(table, row.group), row.topic);
        OL_CHECK(ol_table_put(table, &name, i, &row.value, &error) == OL_OK);
    }
    for (int by_group = 0; by_group < 2; by_group++) {
        ol_position_columns first = {0}, second = {0};
        ol_position_columns *blocks[] = {&first, &second};
        int statuses[] = {OL_LIMIT, OL_OK};
        ol_table_cursor cursor = {0};
        fill(&first, 3);
        for (int i = 0; i < 2; i++) {
            int status = by_group ? ol_position_columns_append_group(blocks[i], 0, table, text("group"), &cursor, &error)
                                  : ol_position_columns_append_table(blocks[i], 0, table, &cursor, &error);
            OL_CHECK_INT(status, statuses[i]);
        }
        OL_CHECK_INT(first.count, 1);
        OL_CHECK_INT(second.count, 2);
        OL_CHECK(second.partitions[0] == 1 && second.partitions[1] == 2);
        OL_CHECK_INT(second.metadata_ends[2], 4);
        ol_position_columns_free(&first);
        ol_position_columns_free(&second);
    }
    ol_table_destroy(table);
}

OL_TEST_MAIN()
