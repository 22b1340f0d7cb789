/* partition/snapshot_take, and the load from a snapshot: taken beside commits or at the end, loaded
 * with a tail, and discarded for every reason there is. */
#include "recorded_fs.h"
#include "snapshot_fixture.h"
#include "epoch_of.h"

/* The digest of a load from the log alone. */
static ol_digest loaded_digest(const ol_partition_options *options) {
    ol_partition_options looked_at = *options;
    looked_at.log.writable = looked_at.log.create = false;
    ol_partition *partition = open_partition(&looked_at, true);
    ol_digest digest = digest_of(partition);
    ol_partition_abandon(partition);
    return digest;
}

static void check_snapshot_digest(const ol_snapshot *snapshot, ol_digest expected) {
    ol_digest digest;
    ol_snapshot_digest(snapshot, true, &digest);
    check_same_digest(digest, expected);
}

OL_TEST(what_goes_on_from_a_snapshot_is_what_the_log_says) {
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    container file;
    ol_snapshot_facts facts;
    ol_snapshot *previous = NULL;
    for (int round = 0; round < 25; round++) {
        work_some(&work, 120);
        ol_snapshot *snapshot = take_snapshot(work.partition, previous);
        check_snapshot_digest(snapshot, digest_of(work.partition));
        ol_snapshot_report(snapshot, &facts);
        OL_CHECK_INT(facts.offset, ol_log_end(ol_partition_log(work.partition)));
        store_container(snapshot, options.log.directory, &file);
        ol_snapshot_destroy(snapshot);
        work_some(&work, (int)ol_test_below(30));       /* the tail */
        if (round % 5 == 4) {
            ol_partition_abandon(work.partition);
        } else {
            close_partition(work.partition);
        }
        work.partition = open_from(&options, reopen_container(&file));
        OL_CHECK_INT(loaded_from(work.partition), facts.offset);
        check_same_digest(digest_of(work.partition), loaded_digest(&options));
        /* Every second one starts from the previous one, the others from the log alone. */
        previous = round % 2 == 0 ? reopen_container(&file) : NULL;
        free_container(&file);
    }
    ol_snapshot_destroy(previous);
    close_partition(work.partition);
    remove_fixture();
}

OL_TEST(a_partition_that_is_closed_lends_its_state) {
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    container file;
    ol_error error;
    ol_snapshot *snapshot;
    for (int round = 0; round < 6; round++) {
        work_some(&work, 200);
        if (ol_log_flushed(ol_partition_log(work.partition)) <
            ol_log_end(ol_partition_log(work.partition))) {
            OL_CHECK_INT(ol_partition_snapshot_borrow(work.partition, &snapshot, &error),
                         OL_INVALID);
        }
        flush_all(work.partition);
        ol_digest digest = digest_of(work.partition);
        OL_CHECK_OK(ol_partition_snapshot_borrow(work.partition, &snapshot, &error), &error);
        check_snapshot_digest(snapshot, digest);
        store_container(snapshot, options.log.directory, &file);
        OL_CHECK_OK(ol_partition_snapshot_publish(work.partition, snapshot, file.path, &error),
                    &error);
        ol_snapshot_destroy(snapshot);
        close_partition(work.partition);
        snprintf(file.path, sizeof file.path, "%s/%s", options.log.directory, OL_SNAPSHOT_FILE);
        work.partition = open_from(&options, reopen_container(&file));
        OL_CHECK_INT(loaded_from(work.partition), ol_log_end(ol_partition_log(work.partition)));
        check_same_digest(digest_of(work.partition), digest);
        check_same_digest(loaded_digest(&options), digest);
        free_container(&file);
    }
    close_partition(work.partition);
    remove_fixture();
}

OL_TEST(an_own_transaction_that_a_crash_left_is_ended_after_a_snapshot_too) {
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    ol_snapshot *snapshot;
    ol_load_progress progress;
    ol_error error;
    container file;
    commit_pending(work.partition, 7, "g", "t", 0, 5);
    commit_large(&work);
    flush_all(work.partition);
    ol_log *log = ol_partition_log(work.partition);
    int64_t marker = ol_log_end(log) - 1;
    OL_CHECK_OK(ol_partition_snapshot_begin(work.partition, &snapshot, &error), &error);
    OL_CHECK_OK(ol_partition_snapshot_advance(work.partition, snapshot, marker, NULL, &error),
                &error);
    store_container(snapshot, options.log.directory, &file);
    ol_snapshot_destroy(snapshot);
    OL_CHECK_OK(ol_log_truncate(log, marker, &error), &error);
    ol_partition_abandon(work.partition);
    work.partition = open_from(&options, reopen_container(&file));
    ol_partition_progress(work.partition, &progress);
    OL_CHECK_INT(progress.aborted_own, 1);
    OL_CHECK_INT(progress.snapshot_offset, marker);
    OL_CHECK_INT(fetch_one(work.partition, "group-large", "topic-large", 3), -1);
    check_same_digest(digest_of(work.partition), loaded_digest(&options));
    end_transaction(work.partition, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(fetch_one(work.partition, "g", "t", 0), 5);
    free_container(&file);
    close_partition(work.partition);
    remove_fixture();
}

/* --------------------------------------------------------------------------- reasons to discard */

/* Puts a batch of one plain position at any offset, as a follower or a cleaner leaves it. */
static size_t put_batch(uint8_t *start, int64_t base_offset, int32_t last_offset_delta,
                        int16_t attributes) {
    uint8_t key[64], value[64];
    size_t key_size =
        (size_t)(ol_offset_key_put(key, 1, text("group-0"), text("topic-0"), 3) - key);
    size_t value_size =
        (size_t)(ol_offset_value_3_put(value, base_offset, -1, text(""), 1) - value);
    uint8_t *end = ol_record_put(start + OL_BATCH_OVERHEAD, 0, 0, ol_slice_of(key, key_size),
                                 ol_slice_of(value, value_size), 0, ol_slice_null());
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, fixture_now);
    fields.last_offset_delta = last_offset_delta;
    fields.record_count = 1;
    fields.attributes = attributes;
    ol_batch_seal(start, end, &fields);
    return (size_t)(end - start);
}

static void check_tail_is_refused(int64_t gap, int32_t last_offset_delta, int16_t attributes,
                                  const char *reason) {
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    container file;
    ol_error error;
    uint8_t bytes[512];
    work_some(&work, 150);
    ol_snapshot *snapshot = take_snapshot(work.partition, NULL);
    store_container(snapshot, options.log.directory, &file);
    ol_snapshot_destroy(snapshot);
    ol_log *log = ol_partition_log(work.partition);
    size_t size = put_batch(bytes, ol_log_end(log) + gap, last_offset_delta, attributes);
    OL_CHECK_OK(ol_log_append(log, bytes, size, &error), &error);
    ol_partition_abandon(work.partition);
    ol_snapshot *earlier = reopen_container(&file);
    work.partition = open_from(&options, reopen_container(&file));
    check_same_digest(digest_of(work.partition), loaded_digest(&options));
    if (reason == NULL) {
        OL_CHECK(!ol_partition_snapshot_discarded(work.partition, &error));
        OL_CHECK(loaded_from(work.partition) >= 0);
        take_snapshot(work.partition, earlier);
    } else {
        OL_CHECK(ol_partition_snapshot_discarded(work.partition, &error));
        OL_CHECK(strstr(error.reason, reason) != NULL && error.position >= 0 && error.offset >= 0);
        OL_CHECK_INT(loaded_from(work.partition), -1);
        flush_all(work.partition);
        OL_CHECK_INT(ol_partition_snapshot_advance(work.partition, earlier,
                                                   ol_log_flushed(ol_partition_log(work.partition)),
                                                   NULL, &error),
                     OL_CORRUPT);
    }
    ol_snapshot_destroy(earlier);
    work_some(&work, 50);
    check_same_digest(digest_of(work.partition), loaded_digest(&options));
    free_container(&file);
    close_partition(work.partition);
    remove_fixture();
}

OL_TEST(a_tail_with_something_missing_discards_the_snapshot) {
    check_tail_is_refused(0, 0, 0, NULL);
    check_tail_is_refused(1, 0, 0, "does not begin where");
    check_tail_is_refused(0, 1, 0, "records of a batch were cleaned away");
    check_tail_is_refused(0, 0, OL_ATTRIBUTE_DELETE_HORIZON, "was cleaned");
}

static void empty_segment(const ol_partition_options *options, int64_t base_offset) {
    char path[OL_PATH_MAX];
    snprintf(path, sizeof path, "%s/%020lld.log", options->log.directory, (long long)base_offset);
    OL_CHECK(truncate(path, 0) == 0);
    snprintf(path, sizeof path, "%s/%020lld.index", options->log.directory, (long long)base_offset);
    unlink(path);
    snprintf(path, sizeof path, "%s/%020lld.timeindex", options->log.directory,
             (long long)base_offset);
    unlink(path);
}

/* The commits after the snapshot deleted a position of it and were cleaned away to the last batch,
 * so that no batch shows the gap. */
static void check_tail_that_is_gone(bool replicated) {
    ol_partition_options options = snapshot_options(fresh_directory());
    options.leader_epoch = 3;
    ol_partition *partition = open_partition(&options, true);
    container file;
    ol_error error;
    commit_one(partition, "g", "t", 5, 5);
    OL_CHECK_OK(ol_partition_roll(partition, &error), &error);
    commit_one(partition, "other", "t", 5, 1);
    OL_CHECK_OK(ol_partition_roll(partition, &error), &error);
    ol_snapshot *snapshot = take_snapshot(partition, NULL);
    store_container(snapshot, options.log.directory, &file);
    ol_snapshot_destroy(snapshot);
    delete_one(partition, "g", "t", 5);
    OL_CHECK_OK(ol_partition_roll(partition, &error), &error);
    flush_all(partition);
    close_partition(partition);
    empty_segment(&options, 0);
    empty_segment(&options, 2);
    fixture_forget_manifest(options.log.directory);
    ol_digest right = loaded_digest(&options);
    options.replicated = replicated;
    partition = open_partition(&options, false);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 3);
    if (replicated) OL_CHECK_OK(ol_partition_advance(partition, epoch_of(partition), 3, &error), &error);
    snapshot = reopen_container(&file);
    OL_CHECK_OK(ol_partition_snapshot_check(partition, snapshot, -1, &error), &error);
    OL_CHECK_OK(ol_partition_load_from(partition, snapshot, &error), &error);
    OL_CHECK(ol_partition_snapshot_discarded(partition, &error) &&
             strstr(error.reason, "from offset 2 up to offset 3") != NULL);
    OL_CHECK_INT(loaded_from(partition), -1);
    if (replicated) OL_CHECK_OK(ol_partition_become_leader(partition, 9, false, &error), &error);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 5), -1);
    OL_CHECK_INT(fetch_one(partition, "other", "t", 5), 1);
    check_same_digest(digest_of(partition), right);
    free_container(&file);
    ol_partition_abandon(partition);
    remove_fixture();
}

OL_TEST(a_tail_that_was_cleaned_away_discards_the_snapshot) {
    check_tail_that_is_gone(false);
    check_tail_that_is_gone(true);
}

OL_TEST(a_damaged_log_has_no_use_for_a_snapshot) {
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    container file;
    ol_error error;
    char path[OL_PATH_MAX];
    work_some(&work, 300);
    ol_snapshot *snapshot = take_snapshot(work.partition, NULL);
    store_container(snapshot, options.log.directory, &file);
    ol_snapshot_destroy(snapshot);
    close_partition(work.partition);
    ol_log_segment_info info;
    work.partition = open_partition(&options, false);
    OL_CHECK(ol_log_segment_at(ol_partition_log(work.partition), 0, &info) && info.size > 2000);
    snprintf(path, sizeof path, "%s", info.path);
    ol_partition_abandon(work.partition);
    int descriptor = open(path, O_RDWR);
    OL_CHECK(descriptor >= 0 && pwrite(descriptor, "xxxx", 4, 1000) == 4);
    close(descriptor);
    options.log.recovery_point = 0;
    work.partition = open_partition(&options, true);
    OL_CHECK(ol_partition_is_read_only(work.partition));
    OL_CHECK_INT(ol_partition_snapshot_borrow(work.partition, &snapshot, &error), OL_INVALID);
    OL_CHECK_OK(ol_partition_snapshot_begin(work.partition, &snapshot, &error), &error);
    OL_CHECK_INT(ol_partition_snapshot_advance(work.partition, snapshot,
                                               ol_log_end(ol_partition_log(work.partition)), NULL,
                                               &error),
                 OL_CORRUPT);
    ol_snapshot_destroy(snapshot);
    snapshot = reopen_container(&file);
    OL_CHECK_INT(ol_partition_snapshot_check(work.partition, snapshot, -1, &error), OL_INVALID);
    OL_CHECK(strstr(error.reason, "damaged") != NULL);
    ol_snapshot_destroy(snapshot);
    ol_partition_abandon(work.partition);
    free_container(&file);
    remove_fixture();
}

OL_TEST(a_snapshot_in_the_making_can_be_stopped) {
    ol_partition_options options = snapshot_options(fresh_directory());
    workload work = {.partition = open_partition(&options, true)};
    ol_snapshot *snapshot;
    ol_error error;
    atomic_bool stop = true;
    work_some(&work, 100);
    flush_all(work.partition);
    OL_CHECK_OK(ol_partition_snapshot_begin(work.partition, &snapshot, &error), &error);
    OL_CHECK_INT(ol_partition_snapshot_advance(work.partition, snapshot,
                                               ol_log_flushed(ol_partition_log(work.partition)),
                                               &stop, &error),
                 OL_CLOSED);
    ol_snapshot_destroy(snapshot);
    close_partition(work.partition);
    remove_fixture();
}

/* ----------------------------------------------------------------------------------- truncation */

OL_TEST(what_is_truncated_takes_the_snapshot_with_it) {
    ol_partition_options options = snapshot_options(fresh_directory());
    options.replicated = true;
    ol_partition *partition = open_partition(&options, true);
    container file;
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(partition, 1, false, &error), &error);
    for (int i = 0; i < 20; i++) commit_one(partition, "g", "t", i, i);
    flush_all(partition);
    OL_CHECK_OK(ol_partition_advance(partition, epoch_of(partition), 15, &error), &error);
    OL_CHECK_OK(ol_partition_become_follower(partition, 2, &error), &error);
    ol_snapshot *snapshot;
    OL_CHECK_OK(ol_partition_snapshot_begin(partition, &snapshot, &error), &error);
    OL_CHECK_OK(ol_partition_snapshot_advance(partition, snapshot, 15, NULL, &error), &error);
    store_container(snapshot, options.log.directory, &file);
    OL_CHECK_OK(ol_partition_snapshot_publish(partition, snapshot, file.path, &error), &error);
    snprintf(file.path, sizeof file.path, "%s/%s", options.log.directory, OL_SNAPSHOT_FILE);
    ol_snapshot_destroy(snapshot);
    /* A truncation above the snapshot keeps it.  One below removes it, and a snapshot that was
     * begun before cannot be published. */
    OL_CHECK_OK(ol_partition_truncate(partition, epoch_of(partition), 15, &error), &error);
    OL_CHECK(access(file.path, F_OK) == 0);
    OL_CHECK_OK(ol_partition_snapshot_begin(partition, &snapshot, &error), &error);
    OL_CHECK_OK(ol_partition_snapshot_advance(partition, snapshot, 15, NULL, &error), &error);
    free_container(&file);
    store_container(snapshot, options.log.directory, &file);
    OL_CHECK_OK(ol_partition_truncate(partition, epoch_of(partition), 10, &error), &error);
    OL_CHECK_INT(ol_partition_snapshot_publish(partition, snapshot, file.path, &error),
                 OL_WOULD_BLOCK);
    OL_CHECK(access(file.path, F_OK) != 0);
    ol_snapshot_destroy(snapshot);
    snprintf(file.path, sizeof file.path, "%s/%s", options.log.directory, OL_SNAPSHOT_FILE);
    OL_CHECK(access(file.path, F_OK) != 0);
    free_container(&file);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(the_name_of_a_snapshot_is_durable_when_it_comes_and_when_it_goes) {
    ol_partition_options options = snapshot_options(fresh_directory());
    options.log.fs = recorded_fs();
    workload work = {.partition = open_partition(&options, true)};
    container file;
    ol_error error;
    ol_snapshot *snapshot;
    char expected[256];
    work_some(&work, 20);
    flush_all(work.partition);
    OL_CHECK_OK(ol_partition_snapshot_borrow(work.partition, &snapshot, &error), &error);
    store_container(snapshot, options.log.directory, &file);
    recorded_begin();
    OL_CHECK_OK(ol_partition_snapshot_publish(work.partition, snapshot, file.path, &error),
                &error);
    const char *directory = recorded_name(options.log.directory);
    snprintf(expected, sizeof expected, "rename %s to %s\nflush directory %s\n",
             recorded_name(file.path), OL_SNAPSHOT_FILE, directory);
    recorded_check(expected);
    recorded_begin();
    OL_CHECK_OK(ol_partition_snapshot_remove(work.partition, &error), &error);
    snprintf(expected, sizeof expected, "remove %s\nflush directory %s\n", OL_SNAPSHOT_FILE,
             directory);
    recorded_check(expected);
    ol_snapshot_destroy(snapshot);
    close_partition(work.partition);
    free_container(&file);
    remove_fixture();
}

OL_TEST(a_follower_loads_from_a_snapshot_that_is_below_its_watermark) {
    ol_partition_options options = snapshot_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    container file;
    ol_error error;
    for (int i = 0; i < 20; i++) commit_one(partition, "g", "t", i, i);
    ol_snapshot *snapshot = take_snapshot(partition, NULL);
    store_container(snapshot, options.log.directory, &file);
    ol_snapshot_destroy(snapshot);
    for (int i = 0; i < 5; i++) commit_one(partition, "g", "t", i, 100 + i);
    ol_digest digest = digest_of(partition);
    close_partition(partition);
    options.replicated = true;
    partition = open_partition(&options, false);
    OL_CHECK_OK(ol_partition_load_from(partition, reopen_container(&file), &error), &error);
    OL_CHECK(ol_partition_snapshot_discarded(partition, &error) &&
             strstr(error.reason, "above the high watermark") != NULL);
    ol_partition_abandon(partition);
    partition = open_partition(&options, false);
    OL_CHECK_OK(ol_partition_advance(partition, epoch_of(partition), 25, &error), &error);
    OL_CHECK_OK(ol_partition_load_from(partition, reopen_container(&file), &error), &error);
    OL_CHECK(!ol_partition_snapshot_discarded(partition, &error));
    OL_CHECK_INT(loaded_from(partition), 20);
    OL_CHECK_OK(ol_partition_become_leader(partition, 9, false, &error), &error);
    check_same_digest(digest_of(partition), digest);
    free_container(&file);
    ol_partition_abandon(partition);
    remove_fixture();
}

OL_TEST_MAIN()
