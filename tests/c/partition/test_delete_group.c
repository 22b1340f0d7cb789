/* Deleting a group: exactly its own records go, and in the order that a broker's replay asks for. */
#include "partition_fixture.h"

enum { MEMBERS = 300 };

/* A key of a group, with a member's id where `member` is not negative. */
static ol_slice key_of(uint8_t type, char group, int member, uint8_t *bytes) {
    memcpy(bytes, (uint8_t[]){0, type, 0, 1, (uint8_t)group}, 5);
    if (member < 0) return ol_slice_of(bytes, 5);
    int size = snprintf((char *)bytes + 7, 16, "member-%d", member);
    bytes[5] = 0;
    bytes[6] = (uint8_t)size;
    return ol_slice_of(bytes, 7 + (size_t)size);
}

/* A consumer group as a broker writes it: its epoch, its target's epoch, and three records a member. */
static void commit_group(ol_partition *partition, char group, int members) {
    static const uint8_t kinds[] = {3, 6, 5, 7, 8};
    ol_item items[5 * MEMBERS];
    static uint8_t keys[5 * MEMBERS][32];
    char name[2] = {group, '\0'};
    size_t count = 0;
    for (int kind = 0; kind < 5; kind++) {
        for (int member = 0; member < (kind < 2 ? 1 : members); member++, count++) {
            items[count] = (ol_item){.kind = OL_ITEM_GROUP_RECORD, .group = text(name), .value = text("value"),
                                     .key = key_of(kinds[kind], group, kind < 2 ? -1 : member, keys[count])};
        }
    }
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(partition, items, count, -1, -1, &result, &error), &error);
}

static int64_t records_of(ol_partition *partition, const char *group) {
    const ol_state *state;
    ol_error error;
    ol_group_record record;
    size_t cursor = 0;
    int64_t count = 0;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    ol_group_records_verify(state->group_records);
    while (ol_group_records_next_of_group(state->group_records, text(group), &cursor, &record)) count++;
    ol_partition_unlock_state(partition);
    return count;
}

/* The types of the keys of one batch, in its order, each run of equal ones once. */
static void check_order(ol_partition *partition, int64_t from, const int16_t *types, size_t count) {
    ol_error error;
    ol_log_reader *reader;
    ol_log_piece piece;
    ol_batch batch;
    ol_records records;
    ol_record record;
    OL_CHECK_OK(ol_log_reader_open(ol_partition_log(partition), from, &reader, &error), &error);
    OL_CHECK_OK(ol_log_reader_next(reader, 1 << 20, &piece, &error), &error);
    OL_CHECK_OK(ol_batch_parse(piece.data, piece.size, &batch, &error), &error);
    OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &error), &error);
    size_t at = 0;
    for (int16_t type = -1; ol_records_next(&records, &record, &error) == OL_OK;) {
        ol_key key;
        OL_CHECK_OK(ol_key_decode(record.key, &key, &error), &error);
        OL_CHECK(record.value.data == NULL);
        if (key.type == type) continue;
        type = key.type;
        OL_CHECK(at < count);
        OL_CHECK_INT(type, types[at++]);
    }
    OL_CHECK_INT(at, count);
    ol_records_close(&records);
    ol_log_reader_close(reader);
}

OL_TEST(the_records_of_one_group_go_in_the_order_of_a_broker) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_group(partition, 'a', MEMBERS);
    commit_group(partition, 'b', MEMBERS);
    commit_group(partition, 'c', 1);
    commit_one(partition, "b", "t", 1, 5);
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_delete_group(partition, text("b"), false, &result, &error), &error);
    OL_CHECK_INT(result.written, 3 * MEMBERS + 3);
    check_order(partition, result.base_offset, (int16_t[]){1, 8, 7, 6, 5, 3}, 6);
    OL_CHECK_INT(records_of(partition, "a"), 3 * MEMBERS + 2);
    OL_CHECK_INT(records_of(partition, "b"), 0);
    OL_CHECK_INT(records_of(partition, "c"), 5);
    ol_digest live = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    OL_CHECK_INT(records_of(partition, "a"), 3 * MEMBERS + 2);
    OL_CHECK_OK(ol_partition_delete_group(partition, text("a"), false, &result, &error), &error);
    OL_CHECK_OK(ol_partition_delete_group(partition, text("c"), false, &result, &error), &error);
    OL_CHECK_OK(ol_partition_delete_group(partition, text("b"), false, &result, &error), &error);
    OL_CHECK_INT(result.written, 0);
    OL_CHECK_INT(records_of(partition, "a") + records_of(partition, "c"), 0);
    close_partition(partition);
    remove_fixture();
}

/* Group names are the caller's and a log's: any bytes, one inside the other, empty. */
OL_TEST(a_group_is_not_taken_for_one_whose_name_begins_like_it) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    static const uint8_t keys[][8] = {{0, 2, 0, 0}, {0, 2, 0, 1, 'x'}, {0, 2, 0, 2, 'x', 0}, {0, 2, 0, 2, 'x', 'x'}};
    static const size_t sizes[] = {4, 5, 6, 6};
    for (size_t i = 0; i < 4; i++) {
        ol_item item = {.kind = OL_ITEM_GROUP_RECORD, .group = ol_slice_of(keys[i] + 4, sizes[i] - 4), .value = text("v"),
                        .key = ol_slice_of(keys[i], sizes[i])};
        ol_commit_result result;
        ol_error error;
        OL_CHECK_OK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), &error);
    }
    for (size_t i = 0; i < 4; i++) {
        ol_commit_result result;
        ol_error error;
        OL_CHECK_OK(ol_partition_delete_group(partition, ol_slice_of(keys[i] + 4, sizes[i] - 4), false, &result, &error), &error);
        OL_CHECK_INT(result.written, 1);
    }
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
