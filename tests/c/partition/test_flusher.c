/* ol_flusher and partition/wait: flushes that others make. */
#include "partition/flusher.h"

#include <errno.h>
#include <semaphore.h>

#include "testing/fault_fs.h"
#include "ol_test.h"
#include "ol_test_directory.h"

enum { PARTITIONS = 20, MANY = OL_FLUSHER_AHEAD + 20 };

static char directory[256];
static ol_error error;

static ol_partition *open_numbered(ol_fs *fs, int number) {
    char name[64];
    snprintf(name, sizeof name, "__consumer_offsets-%d", number);
    ol_partition_options options;
    ol_partition_options_init(&options);
    options.log.fs = fs;
    options.log.directory = ol_test_path(directory, name);
    options.log.writable = options.log.create = true;
    options.log.config.append = OL_APPEND_MAPPED;
    ol_partition *partition;
    ol_log_recovery recovery;
    OL_CHECK_OK(ol_partition_open(&options, &partition, &recovery, &error), &error);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    return partition;
}

static ol_commit_result commit(ol_partition *partition, int64_t offset) {
    ol_item item = {.group = ol_slice_of("g", 1), .topic = ol_slice_of("t", 1), .kind = OL_ITEM_POSITION, .offset = offset,
                    .commit_timestamp = -1, .expire_timestamp = -1, .leader_epoch = -1, .metadata = ol_slice_of("", 0)};
    ol_commit_result result;
    OL_CHECK_OK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), &error);
    return result;
}

OL_TEST(it_stops_with_nothing_done) {
    for (int i = 0; i < 10; i++) {
        ol_flusher *flusher;
        OL_CHECK_OK(ol_flusher_create(&flusher, &error), &error);
        ol_flusher_stop(flusher);
    }
}

OL_TEST(many_partitions_are_flushed_together) {
    ol_partition *partitions[PARTITIONS];
    ol_flusher *flusher;
    ol_commit_result results[PARTITIONS];
    ol_test_directory_make(directory);
    for (int i = 0; i < PARTITIONS; i++) partitions[i] = open_numbered(ol_fs_posix(), i);
    OL_CHECK_OK(ol_flusher_create(&flusher, &error), &error);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < PARTITIONS; i++) results[i] = commit(partitions[i], round);
        for (int i = 0; i < PARTITIONS; i++) {
            ol_flusher_begin(flusher, &partitions[i], 1);
            if (i % 3 == 0) ol_flusher_begin(flusher, &partitions[i], 1);
        }
        for (int i = 0; i < PARTITIONS; i++) {
            OL_CHECK_OK(ol_partition_wait(partitions[i], results[i].end_offset, results[i].term, OL_WAIT_FLUSHED, -1, &error),
                        &error);
            OL_CHECK(ol_partition_is_flushed(partitions[i], results[i].end_offset, results[i].term));
            OL_CHECK(!ol_partition_is_flushed(partitions[i], results[i].end_offset, results[i].term + 1));
        }
    }
    /* Stopped with flushes begun. */
    for (int i = 0; i < PARTITIONS; i++) {
        commit(partitions[i], 1000);
        ol_flusher_begin(flusher, &partitions[i], 1);
    }
    ol_flusher_stop(flusher);
    for (int i = 0; i < PARTITIONS; i++) OL_CHECK_OK(ol_partition_close(partitions[i], &error), &error);
    ol_test_directory_remove(directory);
}

static void wait_until_flushed(ol_partition *partition, ol_commit_result result) {
    for (int i = 0; i < 5000 && !ol_partition_is_flushed(partition, result.end_offset, result.term); i++) usleep(1000);
    OL_CHECK(ol_partition_is_flushed(partition, result.end_offset, result.term));
}

/* Some are queued, some are flushed, and the writes of others are begun. */
OL_TEST(a_partition_that_is_removed_can_be_closed) {
    ol_partition *partitions[MANY];
    ol_flusher *flusher;
    ol_test_directory_make(directory);
    for (int i = 0; i < MANY; i++) partitions[i] = open_numbered(ol_fs_posix(), i);
    OL_CHECK_OK(ol_flusher_create(&flusher, &error), &error);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < MANY; i++) commit(partitions[i], round);
        if (round % 2 == 0) ol_flusher_begin(flusher, partitions, MANY);
        else for (int i = 0; i < MANY; i++) ol_flusher_begin_unasked(flusher, partitions[i]);
        for (int i = round % 3; i < MANY; i += 1 + round % 5) {
            ol_flusher_remove(flusher, partitions[i]);
            OL_CHECK_OK(ol_partition_close(partitions[i], &error), &error);
            partitions[i] = open_numbered(ol_fs_posix(), i);
        }
    }
    /* The others were not forgotten. */
    ol_commit_result results[MANY];
    for (int i = 0; i < MANY; i++) results[i] = commit(partitions[i], 100);
    ol_flusher_begin(flusher, partitions, MANY);
    for (int i = 0; i < MANY; i++) wait_until_flushed(partitions[i], results[i]);
    ol_flusher_stop(flusher);
    for (int i = 0; i < MANY; i++) OL_CHECK_OK(ol_partition_close(partitions[i], &error), &error);
    ol_test_directory_remove(directory);
}

enum { BUSY = OL_FLUSHER_THREADS - 1 };

static _Atomic int writes_begun, flushes_held;
static sem_t flush_begun, flush_released;

static int count_begun(ol_file *file, void *data, int64_t from, int64_t to, ol_error *failure) {
    OL_CHECK(from < to);
    writes_begun++;
    return ol_fs_posix()->begin_flush_range(file, data, from, to, failure);
}

static int flush_range_held(ol_file *file, void *data, int64_t from, int64_t to, ol_error *failure) {
    if (flushes_held++ < BUSY) {
        sem_post(&flush_begun);
        sem_wait(&flush_released);
    }
    return ol_fs_posix()->flush_range(file, data, from, to, failure);
}

/* All threads but one are busy, so that the last one meets all others in the queue, and more of them than it may begin. */
OL_TEST(the_writes_of_those_that_are_queued_are_begun_before_the_first_is_flushed) {
    ol_partition *partitions[MANY];
    ol_flusher *flusher;
    ol_commit_result results[MANY];
    ol_fs fs = *ol_fs_posix();
    ol_test_directory_make(directory);
    sem_init(&flush_begun, 0, 0);
    sem_init(&flush_released, 0, 0);
    for (int i = 0; i < MANY; i++) partitions[i] = open_numbered(&fs, i);
    for (int i = 0; i < MANY; i++) {
        results[i] = commit(partitions[i], 1);
        OL_CHECK_OK(ol_partition_wait(partitions[i], results[i].end_offset, results[i].term, OL_WAIT_FLUSHED, -1, &error), &error);
        results[i] = commit(partitions[i], 2);
    }
    fs.flush_range = flush_range_held;
    OL_CHECK_OK(ol_flusher_create(&flusher, &error), &error);
    ol_flusher_begin(flusher, partitions, BUSY);
    for (int i = 0; i < BUSY; i++) sem_wait(&flush_begun);
    fs.begin_flush_range = count_begun;
    ol_flusher_begin(flusher, partitions + BUSY, MANY - BUSY);
    for (int i = BUSY; i < MANY; i++) wait_until_flushed(partitions[i], results[i]);
    OL_CHECK_INT(writes_begun, MANY - BUSY - 1);
    for (int i = 0; i < BUSY; i++) sem_post(&flush_released);
    for (int i = 0; i < BUSY; i++) wait_until_flushed(partitions[i], results[i]);
    /* One alone is not begun ahead of itself. */
    results[0] = commit(partitions[0], 3);
    ol_flusher_begin(flusher, partitions, 1);
    wait_until_flushed(partitions[0], results[0]);
    OL_CHECK_INT(writes_begun, MANY - BUSY - 1);
    ol_flusher_stop(flusher);
    for (int i = 0; i < MANY; i++) OL_CHECK_OK(ol_partition_close(partitions[i], &error), &error);
    ol_test_directory_remove(directory);
}

OL_TEST(a_flush_that_was_begun_needs_nobody_who_waits) {
    ol_flusher *flusher;
    ol_test_directory_make(directory);
    ol_partition *partition = open_numbered(ol_fs_posix(), 0);
    OL_CHECK_OK(ol_flusher_create(&flusher, &error), &error);
    ol_commit_result result = commit(partition, 1);
    OL_CHECK(!ol_partition_is_flushed(partition, result.end_offset, result.term));
    ol_flusher_begin(flusher, &partition, 1);
    wait_until_flushed(partition, result);
    ol_flusher_stop(flusher);
    OL_CHECK_OK(ol_partition_close(partition, &error), &error);
    ol_test_directory_remove(directory);
}

OL_TEST(the_next_flush_is_due_when_as_much_waits_as_is_left) {
    ol_test_directory_make(directory);
    ol_partition *partition = open_numbered(ol_fs_posix(), 0);
    ol_commit_result result = {0};
    OL_CHECK(!ol_partition_is_behind(partition, 0));
    for (int i = 0; i < 10; i++) result = commit(partition, i);
    OL_CHECK_OK(ol_partition_wait(partition, result.end_offset, result.term, OL_WAIT_FLUSHED, -1, &error), &error);
    OL_CHECK(!ol_partition_is_behind(partition, 6) && !ol_partition_is_behind(partition, 10));
    for (int i = 0; i < 4; i++) commit(partition, i);
    usleep(100000);     /* the disk seems fast then */
    OL_CHECK(!ol_partition_is_behind(partition, 5));
    OL_CHECK(ol_partition_is_behind(partition, 6) && ol_partition_is_behind(partition, 10));
    OL_CHECK_OK(ol_partition_close(partition, &error), &error);
    ol_test_directory_remove(directory);
}

OL_TEST(a_flush_that_fails_is_reported_by_the_partition) {
    ol_flusher *flusher;
    ol_test_directory_make(directory);
    ol_fs *fs;
    OL_CHECK_OK(ol_fault_fs_create(directory, &fs, &error), &error);
    ol_partition *partition = open_numbered(fs, 0);
    OL_CHECK_OK(ol_flusher_create(&flusher, &error), &error);
    ol_commit_result first = commit(partition, 1);
    OL_CHECK_OK(ol_partition_wait(partition, first.end_offset, first.term, OL_WAIT_FLUSHED, -1, &error), &error);
    ol_commit_result second = commit(partition, 2);
    ol_fault_fs_fail_flush(fs, ol_fault_fs_flushes(fs) + 1, EIO);
    ol_flusher_begin(flusher, &partition, 1);
    ol_flusher_begin(flusher, &partition, 1);
    OL_CHECK_INT(ol_partition_wait(partition, second.end_offset, second.term, OL_WAIT_FLUSHED, -1, &error), OL_FAILED);
    /* Earlier flushes stay known. */
    OL_CHECK(ol_partition_is_flushed(partition, first.end_offset, first.term));
    OL_CHECK(!ol_partition_is_flushed(partition, second.end_offset, second.term));
    ol_flusher_stop(flusher);
    ol_partition_abandon(partition);
    ol_fault_fs_free(fs);
    ol_test_directory_remove(directory);
}

static int flush_until_released(ol_file *file, void *data, int64_t from, int64_t to, ol_error *failure) {
    sem_post(&flush_begun);
    sem_wait(&flush_released);
    return ol_fs_posix()->flush_range(file, data, from, to, failure);
}

/* A flush is under way when a commit comes, and so does not cover it. */
OL_TEST(what_comes_while_an_unasked_flush_runs_is_flushed_by_the_next) {
    ol_flusher *flusher;
    ol_fs fs = *ol_fs_posix();
    ol_test_directory_make(directory);
    ol_partition *partition = open_numbered(&fs, 0);
    sem_init(&flush_begun, 0, 0);
    sem_init(&flush_released, 0, 0);
    OL_CHECK_OK(ol_flusher_create(&flusher, &error), &error);
    commit(partition, 1);
    fs.flush_range = flush_until_released;
    ol_flusher_begin_unasked(flusher, partition);
    sem_wait(&flush_begun);
    ol_commit_result second = commit(partition, 2);
    ol_flusher_begin_unasked(flusher, partition);
    fs.flush_range = ol_fs_posix()->flush_range;
    sem_post(&flush_released);
    wait_until_flushed(partition, second);
    ol_flusher_stop(flusher);
    OL_CHECK_OK(ol_partition_close(partition, &error), &error);
    ol_test_directory_remove(directory);
}

OL_TEST_MAIN()
