/* ol_preparer: the background thread of a store. */
#include "ol_preparer.h"

#include <time.h>
#include <unistd.h>

#include "ol_test.h"
#include "ol_test_directory.h"

OL_TEST(it_starts_and_stops_with_nothing_to_do) {
    ol_preparer *preparer;
    ol_error error;
    for (int i = 0; i < 20; i++) {
        OL_CHECK(ol_preparer_start(&preparer, &error) == OL_OK);
        ol_preparer_kick(preparer);
        ol_preparer_stop(preparer);
    }
}

static ol_item item_of(int32_t partition) {
    return (ol_item){.group = ol_slice_of("g", 1), .topic = ol_slice_of("t", 1), .partition = partition, .kind = OL_ITEM_POSITION,
                     .offset = 7, .commit_timestamp = -1, .expire_timestamp = -1, .leader_epoch = -1,
                     .metadata = ol_slice_of("", 0)};
}

OL_TEST(it_prepares_what_commits_use_up) {
    char directory[256];
    ol_test_directory_make(directory);
    const char *path = ol_test_path(directory, "__consumer_offsets-0");
    ol_partition_options options;
    ol_partition_options_init(&options);
    options.log.fs = ol_fs_posix();
    options.log.directory = path;
    options.log.writable = options.log.create = true;
    ol_partition *partition;
    ol_preparer *preparer;
    ol_log_recovery recovery;
    ol_commit_result result;
    ol_error error;
    OL_CHECK(ol_partition_open(&options, &partition, &recovery, &error) == OL_OK);
    OL_CHECK(ol_partition_load(partition, &error) == OL_OK);
    OL_CHECK(ol_preparer_start(&preparer, &error) == OL_OK);
    OL_CHECK(ol_preparer_add(preparer, partition, &error) == OL_OK);
    int waited = 0;
    for (int32_t i = 0; i < 20000; i++) {
        ol_item item = item_of(i % 50);
        int status = ol_partition_try_commit(partition, &item, 1, &result, &error);
        if (status == OL_WOULD_BLOCK) {
            waited++;
            status = ol_partition_commit(partition, &item, 1, -1, -1, &result, &error);
            ol_preparer_kick(preparer);
        }
        OL_CHECK(status == OL_OK);
    }
    OL_CHECK(waited > 0 && waited < 20000);
    ol_preparer_remove(preparer, partition);
    ol_preparer_remove(preparer, partition);
    ol_preparer_stop(preparer);
    OL_CHECK(ol_partition_close(partition, &error) == OL_OK);
    ol_test_directory_remove(directory);
}

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

OL_TEST(it_sleeps_when_nothing_is_to_be_done) {
    ol_preparer *preparer;
    ol_error error;
    OL_CHECK(ol_preparer_start(&preparer, &error) == OL_OK);
    usleep((OL_PREPARER_IDLE_POLLS + 20) * OL_PREPARER_POLL_MS * 1000);
    double before = cpu_seconds();
    usleep(200000);
    OL_CHECK(cpu_seconds() - before < 0.02);
    ol_preparer_stop(preparer);
}

OL_TEST_MAIN()
