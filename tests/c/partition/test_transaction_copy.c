/* The open transactions of a partition as they are copied out: which, whose, how many positions; and without memory. */
#include "partition/transaction_copy.h"
#include "base/arena.h"
#include "partition_fixture.h"

static ol_transaction_copy taken(ol_partition *partition) {
    ol_transaction_copy copy = {0};
    ol_error error;
    OL_CHECK_OK(ol_transaction_copy_take(&copy, partition, &error), &error);
    return copy;
}

static void check_groups(const ol_transaction_copy *copy, size_t index, uint64_t positions, const char *groups) {
    ol_copied_transaction row = ol_transaction_copy_row(copy, index);
    char found[64] = "";
    for (size_t group = 0; group < row.group_count; group++) {
        ol_slice name = ol_transaction_copy_group(copy, row.first_group + group);
        strncat(found, (const char *)name.data, name.size);
        strcat(found, " ");
    }
    OL_CHECK_INT(row.positions, positions);
    OL_CHECK(strcmp(found, groups) == 0);
}

static ol_partition *with_transactions(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_one(partition, "a", "t", 0, 1);
    commit_pending(partition, 9, "b", "t", 0, 2);
    commit_pending(partition, 7, "a", "t", 1, 3);
    commit_pending(partition, 7, "a", "t", 2, 4);
    commit_pending(partition, 7, "b", "t", 1, 5);
    commit_pending(partition, 7, "", "t", 1, 6);
    return partition;
}

OL_TEST(the_transactions_come_by_their_first_offset_with_their_groups) {
    ol_partition *partition = with_transactions();
    ol_transaction_copy copy = taken(partition);
    OL_CHECK_INT(copy.count, 2);
    ol_copied_transaction first = ol_transaction_copy_row(&copy, 0), second = ol_transaction_copy_row(&copy, 1);
    OL_CHECK_INT(first.known.producer_id, 9);
    OL_CHECK_INT(first.known.first_offset, 1);
    OL_CHECK_INT(second.known.producer_id, 7);
    OL_CHECK_INT(second.known.first_offset, 2);
    OL_CHECK_INT(second.known.last_timestamp, fixture_now);
    check_groups(&copy, 0, 1, "b ");
    check_groups(&copy, 1, 4, "a b  ");
    ol_transaction_copy_free(&copy);
    OL_CHECK_INT(copy.count, 0);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(what_a_deletion_erased_is_none_of_its_positions) {
    ol_partition *partition = with_transactions();
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_delete_group(partition, text("a"), false, &result, &error), &error);
    OL_CHECK_OK(ol_partition_delete_group(partition, text(""), false, &result, &error), &error);
    ol_transaction_copy copy = taken(partition);
    check_groups(&copy, 1, 1, "b ");
    ol_transaction_copy_free(&copy);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(without_a_transaction_the_copy_is_empty) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    ol_transaction_copy copy = taken(partition);
    OL_CHECK_INT(copy.count, 0);
    ol_transaction_copy_free(&copy);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(without_memory_it_fails_and_holds_no_lock) {
    ol_partition *partition = with_transactions();
    int64_t calls = 0;
    for (int status = OL_NO_MEMORY; status != OL_OK; calls++) {
        ol_transaction_copy copy = {0};
        ol_error error;
        ol_arena_fail_after(calls);
        status = ol_transaction_copy_take(&copy, partition, &error);
        ol_arena_fail_after(-1);
        if (status != OL_OK) OL_CHECK_INT(status, OL_NO_MEMORY);
        ol_transaction_copy_free(&copy);
        commit_one(partition, "a", "t", 0, calls);
    }
    /* Two rows, four groups, three of which have a name. */
    OL_CHECK_INT(calls, 2 + 4 + 3 + 1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_partition_that_is_not_loaded_is_refused) {
    close_partition(with_transactions());
    ol_partition_options options = fixture_options(fixture_directory);
    ol_partition *partition = open_partition(&options, false);
    ol_transaction_copy copy = {0};
    ol_error error;
    OL_CHECK(ol_transaction_copy_take(&copy, partition, &error) != OL_OK);
    ol_transaction_copy_free(&copy);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    copy = taken(partition);
    OL_CHECK_INT(copy.count, 2);
    ol_transaction_copy_free(&copy);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
