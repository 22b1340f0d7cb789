/* partition/snapshot_take: a snapshot that is copied from the state in memory while commits go on is what a replay of the log up to
 * its offset gives. */
#include <pthread.h>

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

OL_TEST(too_many_records_of_groups_are_not_copied_at_once) {
    ol_partition_options options = snapshot_options(fresh_directory());
    options.batch_bytes_max = 256 << 10;
    options.log.config.segment_bytes = 32 << 20;
    ol_partition *partition = open_partition(&options, true);
    ol_snapshot *snapshot;
    ol_commit_result result;
    ol_error error;
    static uint8_t value[200 << 10];
    for (int i = 0; i < 50; i++) {
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
    OL_CHECK_INT(ol_partition_snapshot_copy(partition, NULL, &snapshot, &error), OL_LIMIT);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
