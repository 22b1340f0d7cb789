/* partition/snapshot_take: a snapshot that is copied from the state in memory while commits go on is what a replay of the log up to
 * its offset gives. */
#include <pthread.h>
#include <time.h>

#include "snapshot_fixture.h"

enum { MANY = 20000 };

/* Enough cells for several steps of a copy. */
static void commit_many(ol_partition *partition) {
    for (int i = 0; i < MANY; i++) commit_one(partition, "many", "many", i, i);
}

static ol_snapshot *copy_of(ol_partition *partition) {
    ol_error error;
    ol_snapshot *snapshot;
    OL_CHECK_OK(ol_partition_snapshot_copy(partition, NULL, &snapshot, &error), &error);
    return snapshot;
}

/* Writes it, as nobody else does meanwhile, and returns what the file holds. */
static ol_snapshot *stored(ol_snapshot *snapshot, const char *directory, container *file) {
    store_container(snapshot, directory, file);
    return reopen_container(file);
}

static void check_against_log(ol_partition *partition, const ol_snapshot *snapshot) {
    ol_error error;
    ol_snapshot *replayed;
    ol_snapshot_facts facts, expected;
    ol_digest digest, expected_digest;
    ol_snapshot_report(snapshot, &facts);
    flush_all(partition);
    OL_CHECK_OK(ol_partition_snapshot_begin(partition, &replayed, &error), &error);
    OL_CHECK_OK(ol_partition_snapshot_advance(partition, replayed, facts.offset, NULL, &error), &error);
    ol_snapshot_report(replayed, &expected);
    OL_CHECK_INT(facts.offset, expected.offset);
    OL_CHECK_INT(facts.positions, expected.positions);
    OL_CHECK_INT(facts.group_records, expected.group_records);
    OL_CHECK_INT(facts.max_timestamp, expected.max_timestamp);
    ol_snapshot_digest(snapshot, true, &digest);
    ol_snapshot_digest(replayed, true, &expected_digest);
    check_same_digest(digest, expected_digest);
    OL_CHECK_OK(ol_partition_snapshot_check(partition, snapshot, -1, &error), &error);
    ol_snapshot_destroy(replayed);
}

OL_TEST(a_copy_is_what_the_log_says) {
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    container file;
    ol_error error;
    for (int round = 0; round < 12; round++) {
        work_some(&work, 150);
        ol_snapshot *snapshot = copy_of(work.partition);
        ol_snapshot_facts facts, copied;
        ol_snapshot_report(snapshot, &copied);
        OL_CHECK_INT(copied.offset, ol_log_end(ol_partition_log(work.partition)));
        ol_snapshot *read = stored(snapshot, options.log.directory, &file);
        ol_snapshot_report(read, &facts);
        OL_CHECK_INT(copied.positions, facts.positions);
        OL_CHECK_INT(copied.group_records, facts.group_records);
        check_against_log(work.partition, read);
        ol_snapshot_destroy(read);
        OL_CHECK_OK(ol_partition_snapshot_publish(work.partition, snapshot, file.path, &error), &error);
        OL_CHECK_INT(ol_partition_snapshot_offset(work.partition), copied.offset);
        ol_snapshot_destroy(snapshot);
        /* A load goes on from it, and what is open goes on. */
        work_some(&work, (int)ol_test_below(30));
        ol_digest digest = digest_of(work.partition);
        close_partition(work.partition);
        snprintf(file.path, sizeof file.path, "%s/%s", options.log.directory, OL_SNAPSHOT_FILE);
        work.partition = open_from(&options, reopen_container(&file));
        OL_CHECK_INT(loaded_from(work.partition), copied.offset);
        check_same_digest(digest_of(work.partition), digest);
        free_container(&file);
    }
    close_partition(work.partition);
    remove_fixture();
}

typedef struct beside {
    workload *work;
    atomic_bool stop;
} beside;

static void *commit_beside(void *context) {
    beside *run = context;
    for (int i = 0; !atomic_load(&run->stop); i++) {
        commit_one(run->work->partition, "many", "many", (i * 7919) % MANY, i);
        if (i % 8 == 0) work_some(run->work, 2);
    }
    return NULL;
}

OL_TEST(commits_beside_a_copy_do_not_get_into_it_by_halves) {
    ol_partition_options options = snapshot_options(fresh_directory());
    options.log.config.segment_bytes = 1 << 20;
    workload work = {.partition = open_partition(&options, true)};
    container file;
    commit_many(work.partition);
    for (int round = 0; round < 15; round++) {
        beside run = {.work = &work};
        pthread_t thread;
        ol_snapshot_facts facts;
        OL_CHECK(pthread_create(&thread, NULL, commit_beside, &run) == 0);
        ol_snapshot *snapshot = copy_of(work.partition);
        atomic_store(&run.stop, true);
        OL_CHECK(pthread_join(thread, NULL) == 0);
        ol_snapshot_report(snapshot, &facts);
        OL_CHECK(facts.offset <= ol_log_end(ol_partition_log(work.partition)));
        ol_snapshot *read = stored(snapshot, options.log.directory, &file);
        check_against_log(work.partition, read);
        ol_snapshot_destroy(read);
        ol_snapshot_destroy(snapshot);
        free_container(&file);
    }
    close_partition(work.partition);
    remove_fixture();
}

OL_TEST(what_cannot_be_copied_is_refused) {
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    ol_snapshot *snapshot;
    ol_error error;
    atomic_bool stop = true;
    work_some(&work, 100);
    OL_CHECK_INT(ol_partition_snapshot_copy(work.partition, &stop, &snapshot, &error), OL_CLOSED);
    ol_snapshot_destroy(copy_of(work.partition));
    /* Records above the flushed bound are not published. */
    container file;
    flush_all(work.partition);
    commit_one(work.partition, "g", "t", 0, 1);
    snapshot = copy_of(work.partition);
    store_container(snapshot, options.log.directory, &file);
    OL_CHECK_INT(ol_partition_snapshot_publish(work.partition, snapshot, file.path, &error), OL_WOULD_BLOCK);
    ol_snapshot_destroy(snapshot);
    free_container(&file);
    close_partition(work.partition);
    ol_partition *partition = open_partition(&options, false);
    OL_CHECK_INT(ol_partition_snapshot_copy(partition, NULL, &snapshot, &error), OL_INVALID);
    ol_partition_abandon(partition);
    options.replicated = true;
    partition = open_partition(&options, true);
    OL_CHECK_INT(ol_partition_snapshot_copy(partition, NULL, &snapshot, &error), OL_INVALID);
    ol_partition_abandon(partition);
    remove_fixture();
}

static ol_partition_options options_of_large_records(void) {
    ol_partition_options options = snapshot_options(fresh_directory());
    options.batch_bytes_max = 256 << 10;
    options.log.config.segment_bytes = 64 << 20;
    return options;
}

/* 200 KiB each. */
static void commit_large_records(ol_partition *partition, int count) {
    ol_commit_result result;
    ol_error error;
    static uint8_t value[200 << 10];
    for (int i = 0; i < count; i++) {
        uint8_t key[32];
        char name[24];
        int size = snprintf(name, sizeof name, "group-%d", i);
        ol_store_i16(key, OL_KEY_GROUP_METADATA);
        ol_store_i16(key + 2, (int16_t)size);
        memcpy(key + 4, name, (size_t)size);
        ol_item item = {.kind = OL_ITEM_GROUP_RECORD,
                        .group = text(name),
                        .key = ol_slice_of(key, 4 + (size_t)size),
                        .value = ol_slice_of(value, sizeof value)};
        OL_CHECK_OK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), &error);
    }
}

OL_TEST(too_many_records_of_groups_are_not_copied_at_once) {
    ol_partition_options options = options_of_large_records();
    ol_partition *partition = open_partition(&options, true);
    ol_snapshot *snapshot;
    ol_error error;
    commit_large_records(partition, 50);
    OL_CHECK_INT(ol_partition_snapshot_copy(partition, NULL, &snapshot, &error), OL_LIMIT);
    close_partition(partition);
    remove_fixture();
}

/* ------------------------------------------------------------- what happens between two steps of a copy */

/* Done in the first pause of a copy, on its thread. */
static _Thread_local void (*in_pause)(void *context);
static _Thread_local void *pause_context;

/* The engine's call: a copy pauses between two steps, without a lock. */
int nanosleep(const struct timespec *time, struct timespec *left) {
    void (*done)(void *) = in_pause;
    in_pause = NULL;
    if (done != NULL) done(pause_context);
    return clock_nanosleep(CLOCK_REALTIME, 0, time, left);
}

static int copy_with_pause(ol_partition *partition, void (*done)(void *), void *context, const atomic_bool *stop,
                           ol_snapshot **snapshot) {
    ol_error error;
    in_pause = done;
    pause_context = context;
    int status = ol_partition_snapshot_copy(partition, stop, snapshot, &error);
    OL_CHECK(in_pause == NULL);
    return status;
}

static void commit_some_records(void *partition) { commit_large_records(partition, 100); }

static void commit_too_many_records(void *partition) { commit_large_records(partition, 200); }

OL_TEST(a_copy_is_given_up_where_too_much_has_come_meanwhile) {
    ol_partition_options options = options_of_large_records();
    ol_partition *partition = open_partition(&options, true);
    ol_snapshot *snapshot;
    commit_many(partition);
    OL_CHECK_INT(copy_with_pause(partition, commit_too_many_records, partition, NULL, &snapshot), OL_LIMIT);
    close_partition(partition);
    remove_fixture();
    /* Less than that is taken at once, though it is more than a copy may begin with. */
    options = options_of_large_records();
    partition = open_partition(&options, true);
    commit_many(partition);
    OL_CHECK_INT(copy_with_pause(partition, commit_some_records, partition, NULL, &snapshot), OL_OK);
    ol_snapshot_facts facts;
    ol_snapshot_report(snapshot, &facts);
    OL_CHECK_INT(facts.group_records, 100);
    OL_CHECK_INT(facts.offset, MANY + 100);
    ol_snapshot_destroy(snapshot);
    close_partition(partition);
    remove_fixture();
}

static void copy_once_more(void *partition) {
    ol_snapshot *snapshot;
    ol_error error;
    OL_CHECK_INT(ol_partition_snapshot_copy(partition, NULL, &snapshot, &error), OL_WOULD_BLOCK);
    commit_one(partition, "many", "many", 7, 7);
}

OL_TEST(a_second_copy_beside_one_is_refused) {
    ol_partition_options options = snapshot_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    ol_snapshot *snapshot;
    container file;
    commit_many(partition);
    OL_CHECK_INT(copy_with_pause(partition, copy_once_more, partition, NULL, &snapshot), OL_OK);
    ol_snapshot *read = stored(snapshot, options.log.directory, &file);
    check_against_log(partition, read);
    ol_snapshot_destroy(read);
    ol_snapshot_destroy(snapshot);
    free_container(&file);
    ol_snapshot_destroy(copy_of(partition));                 /* nobody copies it any more */
    close_partition(partition);
    remove_fixture();
}

static void set_stop(void *stop) { atomic_store((atomic_bool *)stop, true); }

OL_TEST(a_copy_is_stopped_between_two_steps) {
    ol_partition_options options = snapshot_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    ol_snapshot *snapshot;
    atomic_bool stop = false;
    commit_many(partition);
    OL_CHECK_INT(copy_with_pause(partition, set_stop, &stop, &stop, &snapshot), OL_CLOSED);
    ol_snapshot_destroy(copy_of(partition));
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
