/* ol_preallocator: the background thread of a store. */
#include "partition/preallocator.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "ol_test.h"
#include "ol_test_directory.h"

OL_TEST(it_starts_and_stops_with_nothing_to_do) {
    ol_preallocator *preparer;
    ol_error error;
    for (int i = 0; i < 20; i++) {
        OL_CHECK(ol_preallocator_start(&preparer, NULL, 0, &error) == OL_OK);
        ol_preallocator_kick(preparer);
        ol_preallocator_stop(preparer);
    }
}

static ol_item item_of(int32_t partition) {
    return (ol_item){.group = ol_slice_of("g", 1), .topic = ol_slice_of("t", 1), .partition = partition, .kind = OL_ITEM_POSITION,
                     .offset = 7, .commit_timestamp = -1, .expire_timestamp = -1, .leader_epoch = -1,
                     .metadata = ol_slice_of("", 0)};
}

static ol_partition *open_partition(ol_fs *fs, const char *directory, const char *name) {
    ol_partition_options options;
    ol_partition_options_init(&options);
    options.log.fs = fs;
    options.log.directory = ol_test_path(directory, name);
    options.log.writable = options.log.create = true;
    ol_partition *partition;
    ol_log_recovery recovery;
    ol_error error;
    OL_CHECK(ol_partition_open(&options, &partition, &recovery, &error) == OL_OK);
    OL_CHECK(ol_partition_load(partition, &error) == OL_OK);
    return partition;
}

OL_TEST(it_prepares_what_commits_use_up) {
    char directory[256];
    ol_test_directory_make(directory);
    ol_preallocator *preparer;
    ol_commit_result result;
    ol_error error;
    ol_partition *partition = open_partition(ol_fs_posix(), directory, "__consumer_offsets-0");
    OL_CHECK(ol_preallocator_start(&preparer, NULL, 0, &error) == OL_OK);
    OL_CHECK(ol_preallocator_add(preparer, partition, &error) == OL_OK);
    int waited = 0;
    for (int32_t i = 0; i < 20000; i++) {
        ol_item item = item_of(i % 50);
        int status = ol_partition_try_commit(partition, &item, 1, &result, &error);
        if (status == OL_WOULD_BLOCK) {
            waited++;
            status = ol_partition_commit(partition, &item, 1, -1, -1, &result, &error);
            ol_preallocator_kick(preparer);
        }
        OL_CHECK(status == OL_OK);
    }
    OL_CHECK(waited > 0 && waited < 20000);
    ol_preallocator_remove(preparer, partition);
    ol_preallocator_remove(preparer, partition);
    ol_preallocator_stop(preparer);
    OL_CHECK(ol_partition_close(partition, &error) == OL_OK);
    ol_test_directory_remove(directory);
}

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

OL_TEST(it_sleeps_when_nothing_is_to_be_done) {
    ol_preallocator *preparer;
    ol_error error;
    OL_CHECK(ol_preallocator_start(&preparer, NULL, 0, &error) == OL_OK);
    usleep((OL_PREALLOCATOR_IDLE_POLLS + 20) * OL_PREALLOCATOR_POLL_MS * 1000);
    double before = cpu_seconds();
    usleep(200000);
    OL_CHECK(cpu_seconds() - before < 0.02);
    ol_preallocator_stop(preparer);
}

/* ------------------------------------------------------------------------------------------------ a slow disk */

static int (*plain_flush_range)(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error);
static pthread_t tester;
static sem_t released;
static atomic_bool flushing;
static atomic_bool gave_up;             /* nobody released the disk: whoever should have was waiting for it */

/* The first flush of the background lasts until it is released. */
static int flush_range_until_released(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error) {
    static atomic_bool begun;
    if (pthread_equal(pthread_self(), tester) || atomic_exchange(&begun, true)) return plain_flush_range(file, data, from, to, error);
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 5;
    atomic_store(&flushing, true);
    if (sem_timedwait(&released, &deadline) != 0) atomic_store(&gave_up, true);
    int status = plain_flush_range(file, data, from, to, error);
    atomic_store(&flushing, false);
    return status;
}

static void *release_later(void *context) {
    usleep(50000);
    sem_post(&released);
    return context;
}

OL_TEST(other_partitions_come_and_go_while_one_waits_for_the_disk) {
    char directory[256];
    ol_test_directory_make(directory);
    ol_fs fs = *ol_fs_posix();
    plain_flush_range = fs.flush_range;
    fs.flush_range = flush_range_until_released;
    tester = pthread_self();
    OL_CHECK(sem_init(&released, 0, 0) == 0);
    ol_preallocator *preparer;
    ol_commit_result result;
    ol_error error;
    int64_t flushed;
    ol_partition *slow = open_partition(&fs, directory, "__consumer_offsets-0");
    ol_partition *other = open_partition(&fs, directory, "__consumer_offsets-1");
    ol_item item = item_of(0);
    OL_CHECK(ol_partition_commit(slow, &item, 1, -1, -1, &result, &error) == OL_OK);
    OL_CHECK(ol_log_flush(ol_partition_log(slow), &flushed, &error) == OL_OK);
    OL_CHECK(ol_preallocator_start(&preparer, NULL, 0, &error) == OL_OK);
    OL_CHECK(ol_preallocator_add(preparer, slow, &error) == OL_OK);
    while (!atomic_load(&flushing)) {
        OL_CHECK(ol_partition_commit(slow, &item, 1, -1, -1, &result, &error) == OL_OK);
        ol_preallocator_kick(preparer);
    }
    OL_CHECK(ol_preallocator_add(preparer, other, &error) == OL_OK);
    ol_preallocator_remove(preparer, other);
    OL_CHECK(!atomic_load(&gave_up));
    /* But the partition whose file that is stays until the flush is over. */
    pthread_t thread;
    OL_CHECK(pthread_create(&thread, NULL, release_later, NULL) == 0);
    ol_preallocator_remove(preparer, slow);
    OL_CHECK(!atomic_load(&flushing));
    OL_CHECK(!atomic_load(&gave_up));
    pthread_join(thread, NULL);
    ol_preallocator_stop(preparer);
    OL_CHECK(ol_partition_close(slow, &error) == OL_OK);
    OL_CHECK(ol_partition_close(other, &error) == OL_OK);
    sem_destroy(&released);
    ol_test_directory_remove(directory);
}

OL_TEST(what_is_rolled_is_flushed_though_nobody_waits) {
    char directory[256];
    ol_test_directory_make(directory);
    ol_preallocator *preparer;
    ol_flusher *flusher;
    ol_commit_result result;
    ol_error error;
    ol_partition *partition = open_partition(ol_fs_posix(), directory, "__consumer_offsets-0");
    ol_log *log = ol_partition_log(partition);
    OL_CHECK(ol_flusher_create(&flusher, &error) == OL_OK);
    OL_CHECK(ol_preallocator_start(&preparer, flusher, 0, &error) == OL_OK);
    OL_CHECK(ol_preallocator_add(preparer, partition, &error) == OL_OK);
    ol_item item = item_of(0);
    for (int round = 0; round < 3; round++) {
        int64_t before = ol_log_flushed(log);
        while (!ol_log_wants_flush(log) && ol_log_flushed(log) == before) {
            OL_CHECK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error) == OL_OK);
            OL_CHECK(ol_partition_roll(partition, &error) == OL_OK);
        }
        ol_preallocator_kick(preparer);
        for (int waited = 0; ol_log_flushed(log) == before && waited < 60000; waited++) usleep(1000);
        OL_CHECK(ol_log_flushed(log) > before);
    }
    ol_preallocator_stop(preparer);
    ol_flusher_stop(flusher);
    OL_CHECK(ol_partition_close(partition, &error) == OL_OK);
    ol_test_directory_remove(directory);
}

/* Commits that nobody waits for, and a thread that sleeps between them. */
OL_TEST(what_is_written_is_flushed_by_time) {
    static const int64_t intervals[] = {20, 0};
    for (int i = 0; i < 2; i++) {
        char directory[256];
        ol_test_directory_make(directory);
        ol_preallocator *preparer;
        ol_flusher *flusher;
        ol_commit_result result;
        ol_error error;
        ol_partition *partition = open_partition(ol_fs_posix(), directory, "__consumer_offsets-0");
        ol_log *log = ol_partition_log(partition);
        OL_CHECK(ol_flusher_create(&flusher, &error) == OL_OK);
        OL_CHECK(ol_preallocator_start(&preparer, flusher, intervals[i], &error) == OL_OK);
        OL_CHECK(ol_preallocator_add(preparer, partition, &error) == OL_OK);
        ol_item item = item_of(0);
        for (int round = 0; round < 3; round++) {
            usleep((OL_PREALLOCATOR_IDLE_POLLS + 20) * OL_PREALLOCATOR_POLL_MS * 1000);
            OL_CHECK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error) == OL_OK);
            int waited = 0;
            while (intervals[i] > 0 && ol_log_flushed(log) < result.end_offset && waited < 60000) {
                usleep(1000);
                waited++;
            }
            OL_CHECK((ol_log_flushed(log) == result.end_offset) == (intervals[i] > 0));
        }
        ol_preallocator_stop(preparer);
        ol_flusher_stop(flusher);
        OL_CHECK(ol_partition_close(partition, &error) == OL_OK);
        ol_test_directory_remove(directory);
    }
}

OL_TEST_MAIN()
