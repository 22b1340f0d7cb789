/* snapshot/witness: a snapshot of another log is refused; one of this log is not, although it was
 * cleaned. */
#include "base/crc32c.h"
#include "snapshot_fixture.h"

static void check_refused(const container *file, const ol_partition_options *options,
                          int64_t cleaned_to, const char *reason) {
    ol_snapshot *snapshot = reopen_container(file);
    ol_partition *partition = open_partition(options, false);
    ol_error error;
    int status = ol_partition_snapshot_check(partition, snapshot, cleaned_to, &error);
    if (reason == NULL) {
        OL_CHECK_OK(status, &error);
    } else {
        OL_CHECK_INT(status, OL_INVALID);
        if (strstr(error.reason, reason) == NULL) fprintf(stderr, "%s\n", error.reason);
        OL_CHECK(strstr(error.reason, reason) != NULL);
    }
    ol_snapshot_destroy(snapshot);
    ol_partition_abandon(partition);
}

OL_TEST(a_snapshot_of_another_log_is_refused) {
    static const uint8_t topic_id[16] = "a topic's id...", other_id[16] = "another one's..";
    ol_partition_options options = snapshot_options(fresh_directory());
    options.log.topic_id = topic_id;
    workload work = {.partition = open_partition(&options, true)};
    container file;
    ol_error error;
    char path[OL_PATH_MAX];
    work_some(&work, 150);
    ol_snapshot *snapshot = take_snapshot(work.partition, NULL);
    ol_snapshot_facts facts;
    ol_snapshot_report(snapshot, &facts);
    store_container(snapshot, options.log.directory, &file);
    ol_snapshot_destroy(snapshot);
    work_some(&work, 20);
    close_partition(work.partition);
    check_refused(&file, &options, -1, NULL);
    check_refused(&file, &options, facts.offset, NULL);
    check_refused(&file, &options, facts.offset + 1, "was cleaned below");
    /* Another epoch below S. */
    OL_CHECK_OK(ol_path_join(path, sizeof path, options.log.directory, "leader-epoch-checkpoint",
                             &error),
                &error);
    uint8_t *epochs;
    size_t size;
    OL_CHECK_OK(ol_fs_read_file(ol_fs_posix(), path, 4096, &epochs, &size, &error), &error);
    OL_CHECK_OK(ol_fs_replace_file(ol_fs_posix(), path, "0\n2\n0 0\n1 2\n", 12, &error), &error);
    check_refused(&file, &options, -1, "leader epochs");
    OL_CHECK_OK(ol_fs_replace_file(ol_fs_posix(), path, epochs, size, &error), &error);
    free(epochs);
    check_refused(&file, &options, -1, NULL);
    /* A log that starts later. */
    options.log.log_start_offset = 5;
    check_refused(&file, &options, -1, "the log start offset has changed");
    options.log.log_start_offset = -1;
    /* Another topic. */
    fixture_forget_manifest(options.log.directory);
    OL_CHECK_OK(ol_path_join(path, sizeof path, options.log.directory, "partition.metadata",
                             &error),
                &error);
    OL_CHECK_OK(ol_fs_posix()->remove(ol_fs_posix(), path, &error), &error);
    options.log.topic_id = NULL;
    check_refused(&file, &options, -1, "topic id");
    options.log.topic_id = other_id;
    check_refused(&file, &options, -1, "topic id");
    free_container(&file);
    remove_fixture();
}

/* A snapshot of thirty commits, kept aside, and an empty log under the same epoch in the place of
 * theirs. */
static ol_partition *begin_anew(ol_partition_options *options, container *file) {
    *options = snapshot_options(fresh_directory());
    options->leader_epoch = 3;
    ol_partition *partition = open_partition(options, true);
    for (int i = 0; i < 30; i++) commit_one(partition, "g", "t", i, i);
    ol_snapshot *snapshot = take_snapshot(partition, NULL);
    store_container(snapshot, "/tmp", file);
    snprintf(file->path, sizeof file->path, "/tmp/%s.%d", OL_SNAPSHOT_FILE, (int)getpid());
    write_container(file);
    ol_snapshot_destroy(snapshot);
    unlink("/tmp/" OL_SNAPSHOT_FILE ".tmp");
    ol_partition_abandon(partition);
    *options = snapshot_options(fresh_directory());
    options->leader_epoch = 3;
    return open_partition(options, true);
}

/* The log is written again with other records, past S or not as far. */
static void check_replaced(int records, const char *reason) {
    ol_partition_options options;
    container file;
    ol_partition *partition = begin_anew(&options, &file);
    for (int i = 0; i < records; i++) commit_one(partition, "g", "t", i, i + (records > 40));
    close_partition(partition);
    check_refused(&file, &options, -1, reason);
    unlink(file.path);
    free_container(&file);
    remove_fixture();
}

/* A log that grew elsewhere under the same epochs, with batches of other sizes: none of them stands
 * at the place of a witness. */
static void check_foreign(const char *group, int records) {
    ol_partition_options options;
    container file;
    ol_partition *partition = begin_anew(&options, &file);
    for (int i = 0; i < records; i++) commit_one(partition, group, "t", i, 1000 + i);
    close_partition(partition);
    check_refused(&file, &options, -1, "the log has a different batch at");
    check_refused(&file, &options, 30, "the log has a different batch at");
    unlink(file.path);
    free_container(&file);
    remove_fixture();
}

OL_TEST(a_log_that_grew_elsewhere_has_no_use_for_a_snapshot) {
    check_foreign("another-g", 50);
    check_foreign("another-g", 30);
    check_foreign("h", 31);
}

/* Keeps only so many batches of the first segment, from the one at index `first` on, as a cleaner
 * may leave it; stamped: with a delete horizon. */
static void keep_batches(const ol_partition_options *options, size_t first, size_t count,
                         bool stamped) {
    fixture_forget_manifest(options->log.directory);
    ol_error error;
    char path[OL_PATH_MAX];
    uint8_t *bytes;
    size_t size, from = 0, at = 0;
    ol_batch batch;
    snprintf(path, sizeof path, "%s/%020d.log", options->log.directory, 0);
    OL_CHECK_OK(ol_fs_read_file(ol_fs_posix(), path, 1 << 20, &bytes, &size, &error), &error);
    for (size_t i = 0; i < first + count; i++) {
        if (i == first) from = at;
        OL_CHECK_OK(ol_batch_parse(bytes + at, size - at, &batch, &error), &error);
        if (stamped && i >= first) {
            ol_store_i16(bytes + at + OL_BATCH_AT_ATTRIBUTES, OL_ATTRIBUTE_DELETE_HORIZON);
            ol_store_u32(bytes + at + OL_BATCH_AT_CRC,
                         ol_crc32c(bytes + at + OL_BATCH_AT_ATTRIBUTES,
                                   batch.size - OL_BATCH_AT_ATTRIBUTES));
        }
        at += batch.size;
    }
    OL_CHECK_OK(ol_fs_replace_file(ol_fs_posix(), path, bytes + from, at - from, &error), &error);
    free(bytes);
    snprintf(path, sizeof path, "%s/%020d.index", options->log.directory, 0);
    unlink(path);
    snprintf(path, sizeof path, "%s/%020d.timeindex", options->log.directory, 0);
    unlink(path);
}

/* 20 records, then a roll: S == E, as when an idle segment is closed and cleaned.  Positions 0..9,
 * each written twice, or the last ones deleted. */
static ol_partition_options written_to_be_cleaned(container *file, int deleted) {
    ol_partition_options options = snapshot_options(fresh_directory());
    options.leader_epoch = 3;
    ol_partition *partition = open_partition(&options, true);
    ol_error error;
    for (int i = 0; i < 20 - deleted; i++) commit_one(partition, "g", "t", i % 10, i);
    for (int i = 0; i < deleted; i++) delete_one(partition, "g", "t", i);
    OL_CHECK_OK(ol_partition_roll(partition, &error), &error);
    ol_snapshot *snapshot = take_snapshot(partition, NULL);
    store_container(snapshot, options.log.directory, file);
    ol_snapshot_destroy(snapshot);
    close_partition(partition);
    return options;
}

OL_TEST(what_cleaning_left_of_the_last_batches_is_enough) {
    container file;
    ol_partition_options options = written_to_be_cleaned(&file, 0);
    check_refused(&file, &options, 20, NULL);
    keep_batches(&options, 10, 10, false);
    check_refused(&file, &options, 20, NULL);
    check_refused(&file, &options, -1, NULL);
    keep_batches(&options, 5, 5, false);
    check_refused(&file, &options, 20, NULL);
    /* A cleaning up to 20 would have kept the newest positions. */
    keep_batches(&options, 0, 4, false);
    check_refused(&file, &options, 20, "committed at log offset 19, but the log does not contain that commit");
    check_refused(&file, &options, -1, "the batch at offset 19 is gone");
    free_container(&file);
    remove_fixture();
    /* The last eight are tombstones: they get a horizon, then go. */
    options = written_to_be_cleaned(&file, 9);
    check_refused(&file, &options, 20, NULL);
    keep_batches(&options, 9, 11, true);
    check_refused(&file, &options, 20, NULL);
    check_refused(&file, &options, -1, "the log has a different batch at offset 19");
    keep_batches(&options, 0, 1, false);
    check_refused(&file, &options, 20, NULL);
    keep_batches(&options, 0, 0, false);
    check_refused(&file, &options, 20, "committed at log offset 9, but the log does not contain");
    free_container(&file);
    remove_fixture();
}

OL_TEST(a_log_that_was_written_again_is_known_by_its_last_batch) {
    check_replaced(50, "the log has a different batch at");
    check_replaced(20, "above the log end");
    check_replaced(35, NULL);
}

OL_TEST_MAIN()
