/* The vectors of docs/digest.md. */
#include "table/digest.h"
#include "state/group_records.h"
#include "state/pending.h"
#include "ol_test.h"

static const int64_t commit_time = 1700000000000;

static ol_slice text(const char *string) { return ol_slice_of(string, strlen(string)); }

static void check_digest(ol_hash128 actual, uint64_t high, uint64_t low) {
    OL_CHECK(actual.high == high && actual.low == low);
}

static const ol_position_value *first_value(void) {
    static ol_position_value value;
    value = (ol_position_value){42, 100, commit_time, -1, 7, text("meta"), NULL};
    return &value;
}

static const ol_position_value *second_value(void) {
    static ol_position_value value;
    static uint8_t topic_id[16];
    for (int i = 0; i < 16; i++) topic_id[i] = (uint8_t)(i + 1);
    value = (ol_position_value){0, 101, commit_time, commit_time + 600000, -1, text(""), topic_id};
    return &value;
}

static ol_pair_name pair_name(const ol_table *table, const char *group, const char *topic) {
    return ol_table_name(table, text(group), ol_table_group_hash(table, text(group)), text(topic));
}

OL_TEST(canonical_bytes_of_a_position) {
    static uint8_t bytes[OL_DIGEST_BYTES_MAX];
    size_t size;
    uint8_t *expected = ol_test_unhex("01000000086d792d67726f7570000000066f726465727300000003000000000000002a000000070000018bcfe56800ffffffffffffffff000000046d65746100", &size);
    size_t begun = ol_digest_begin(bytes, OL_DIGEST_POSITION, 0, text("my-group"), text("orders"), false);
    ol_digest_finish(bytes, begun, 3, first_value(), false);
    OL_CHECK(memcmp(bytes, expected, size) == 0);
    free(expected);
}

OL_TEST(positions) {
    const char *topic = "b\xc3\xa9";
    check_digest(ol_position_digest(text("my-group"), text("orders"), 3, first_value(), false), 0x9b49e4a6592ae0ebu, 0x8e4172587feb2f2fu);
    check_digest(ol_position_digest(text("my-group"), text("orders"), 3, first_value(), true), 0x93fd811bd31b6918u, 0x8702f1d509f61f93u);
    check_digest(ol_position_digest(text(""), text(topic), -1, second_value(), false), 0x0578c31d123b8839u, 0x0b2f15ef578f56ccu);
    check_digest(ol_position_digest(text(""), text(topic), -1, second_value(), true), 0xeeb480845dc363c3u, 0x1576065628ff6bc4u);
}

OL_TEST(a_table_is_the_sum_of_its_positions) {
    ol_table *table;
    ol_error error;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    ol_pair_name second = pair_name(table, "", "b\xc3\xa9"), first = pair_name(table, "my-group", "orders");
    check_digest(ol_table_digest(table, false), 0, 0);
    OL_CHECK_OK(ol_table_put(table, &second, -1, second_value(), &error), &error);
    OL_CHECK_OK(ol_table_put(table, &first, 3, first_value(), &error), &error);
    check_digest(ol_table_digest(table, false), 0xa0c2a7c36b666924u, 0x99708847d77a85fbu);
    check_digest(ol_table_digest(table, true), 0x82b201a030deccdbu, 0x9c78f82b32f58b57u);
    ol_table_destroy(table);
}

OL_TEST(pending_positions_by_producer) {
    ol_table *table;
    ol_pending *pending;
    ol_error error;
    ol_reservation reservation;
    ol_position_value value = {50, 103, commit_time, -1, -1, text(""), NULL};
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    OL_CHECK_OK(ol_pending_create(table, &pending, &error), &error);
    ol_pair_name name = pair_name(table, "my-group", "orders");
    OL_CHECK_OK(ol_pending_reserve(pending, 4000, 1, &error), &error);
    OL_CHECK_OK(ol_table_reserve(table, &name, 3, &value, &reservation, &error), &error);
    ol_pending_add(pending, 4000, &reservation, &value);
    check_digest(ol_pending_digest(pending, false), 0x5303e5fd85f4ffabu, 0xb833054c5891631fu);
    check_digest(ol_pending_digest(pending, true), 0xf53cec5f7ce08cb3u, 0xc5107931978ab981u);
    check_digest(ol_table_digest(table, true), 0, 0);
    ol_pending_destroy(pending);
    ol_table_destroy(table);
}

OL_TEST(group_records) {
    ol_group_records *records;
    ol_error error;
    size_t key_size, value_size;
    uint8_t *key = ol_test_unhex("000200086d792d67726f7570", &key_size), *value = ol_test_unhex("000376616c7565", &value_size);
    ol_group_record record = {ol_slice_of(key, key_size), ol_slice_of(value, value_size), 105, commit_time, ol_slice_of(key + 4, 8)};
    OL_CHECK_OK(ol_group_records_create(&records, &error), &error);
    OL_CHECK_OK(ol_group_records_put(records, &record, &error), &error);
    check_digest(ol_group_records_digest(records, false), 0x92c20e294e997581u, 0x19fc44824466c2cau);
    check_digest(ol_group_records_digest(records, true), 0xda77aeefed1b0402u, 0x40493da2be20f203u);
    ol_group_records_destroy(records);
    free(key);
    free(value);
}

OL_TEST_MAIN()
