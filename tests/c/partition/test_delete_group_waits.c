/* A delete of a group that finds nothing is settled by all that was written before it looked. */
#include <pthread.h>
#include <unistd.h>

#include "epoch_of.h"
#include "partition/partition_impl.h"
#include "partition_fixture.h"

static ol_commit_result second;

static void *delete_again(void *leader) {
    ol_error error;
    OL_CHECK_OK(ol_partition_delete_group(leader, text("g"), true, &second, &error), &error);
    return NULL;
}

OL_TEST(a_delete_that_waited_for_the_writer_waits_for_what_that_wrote) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.replicated = true;
    ol_partition *leader = open_partition(&options, true);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(leader, 1, false, &error), &error);
    commit_one(leader, "g", "t", 0, 1);
    pthread_mutex_lock(&leader->writer);
    pthread_t thread;
    OL_CHECK_INT(pthread_create(&thread, NULL, delete_again, leader), 0);
    /* Long enough for it to stand before the lock; a shorter time proves less and fails nothing. */
    usleep(100000);
    ol_item item = position_item("g", "t", 0, 1);
    item.kind = OL_ITEM_POSITION_TOMBSTONE;
    ol_commit_result first;
    OL_CHECK_OK(ol_partition_commit_locked(leader, &item, 1, -1, -1, &first, &error), &error);
    pthread_mutex_unlock(&leader->writer);
    pthread_join(thread, NULL);
    OL_CHECK_INT(second.written, 0);
    OL_CHECK_INT(second.end_offset, first.end_offset);
    close_partition(leader);
    remove_fixture();
}

OL_TEST_MAIN()
