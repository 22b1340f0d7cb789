/* Loading: logs that are not what a lone store would have written. */
#include <fcntl.h>

#include "ol_bytes.h"
#include "partition_fixture.h"

/* Writes one plain batch of one record into `out`; returns its size. */
static size_t put_batch(uint8_t *out, int64_t offset, ol_slice key, ol_slice value) {
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, offset, fixture_now);
    fields.leader_epoch = 0;
    fields.record_count = 1;
    uint8_t *end = ol_record_put(out + OL_BATCH_OVERHEAD, 0, 0, key, value, 0, ol_slice_of("", 0));
    ol_batch_seal(out, end, &fields);
    return (size_t)(end - out);
}

static size_t put_position(uint8_t *out, int64_t offset, int16_t key_type, bool tombstone, int64_t committed) {
    uint8_t key[64], value[64];
    ol_slice group = text("g"), topic = text("t");
    uint8_t *key_end = ol_offset_key_put(key, key_type, group, topic, 0);
    ol_offset_value fields = {.offset = committed, .commit_timestamp = 1, .expire_timestamp = -1, .leader_epoch = -1,
                              .metadata = text("")};
    uint8_t *value_end = ol_offset_value_put(value, &fields, key_type == OL_KEY_OFFSET_COMMIT_LEGACY ? 0 : 3);
    ol_slice bytes = tombstone ? ol_slice_null() : ol_slice_of(value, (size_t)(value_end - value));
    return put_batch(out, offset, ol_slice_of(key, (size_t)(key_end - key)), bytes);
}

static void write_segment(const char *directory, int64_t base, const void *data, size_t size) {
    char path[400];
    ol_error error;
    OL_CHECK_OK(ol_fs_posix()->make_directory(ol_fs_posix(), directory, &error), &error);
    snprintf(path, sizeof path, "%s/%020lld.log", directory, (long long)base);
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    OL_CHECK(file >= 0);
    OL_CHECK_INT(write(file, data, size), size);
    close(file);
}

OL_TEST(trap_25_the_load_ends_where_the_last_segment_was_compacted_away) {
    const char *directory = fresh_directory();
    uint8_t batch[300];
    write_segment(directory, 0, batch, put_position(batch, 437, OL_KEY_OFFSET_COMMIT, false, 5));
    write_segment(directory, 500, "", 0);
    ol_partition_options options = fixture_options(directory);
    options.log.clean = true;
    options.log.recovery_point = 500;
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 500);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 5);
    OL_CHECK_INT(commit_one(partition, "g", "t", 0, 6).base_offset, 500);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(trap_40_a_tombstone_of_the_new_key_removes_what_the_old_key_wrote) {
    const char *directory = fresh_directory();
    uint8_t log[900];
    size_t size = put_position(log, 10, OL_KEY_OFFSET_COMMIT_LEGACY, false, 5);
    write_segment(directory, 0, log, size);
    ol_partition_options options = fixture_options(directory);
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 5);
    close_partition(partition);
    directory = fresh_directory();
    size += put_position(log + size, 20, OL_KEY_OFFSET_COMMIT, true, 0);
    write_segment(directory, 0, log, size);
    partition = open_partition(&options, true);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), -1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(trap_09_an_unknown_key_type_is_passed_over_and_a_cut_key_makes_the_partition_read_only) {
    const char *directory = fresh_directory();
    const uint8_t unknown[] = {0, 99, 0, 1, 'x'}, cut[] = {0, 1, 0, 1, 'g'};
    uint8_t log[900];
    size_t size = put_batch(log, 0, ol_slice_of(unknown, sizeof unknown), text("anything"));
    size += put_position(log + size, 1, OL_KEY_OFFSET_COMMIT, false, 5);
    write_segment(directory, 0, log, size);
    ol_partition_options options = fixture_options(directory);
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK(!ol_partition_is_read_only(partition));
    close_partition(partition);
    directory = fresh_directory();
    size_t position = size;
    size += put_batch(log + size, 2, ol_slice_of(cut, sizeof cut), text("anything"));
    size += put_position(log + size, 3, OL_KEY_OFFSET_COMMIT, false, 6);
    write_segment(directory, 0, log, size);
    partition = open_partition(&options, true);
    OL_CHECK(ol_partition_is_read_only(partition));
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 6);
    ol_problem problem;
    OL_CHECK(ol_partition_problem_at(partition, 0, &problem));
    OL_CHECK_INT(problem.error.position, position);
    OL_CHECK_INT(problem.error.offset, 2);
    OL_CHECK(!ol_partition_problem_at(partition, 1, &problem));
    ol_commit_result result;
    ol_error error;
    OL_CHECK_INT(try_one(partition, position_item("g", "t", 0, 1), -1, &result, &error), OL_READ_ONLY);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_value_version_that_brokers_refuse_makes_the_partition_read_only) {
    const char *directory = fresh_directory();
    uint8_t log[900], key[64];
    uint8_t *key_end = ol_offset_key_put(key, OL_KEY_OFFSET_COMMIT, text("g"), text("t"), 0);
    const uint8_t value[] = {0, 5, 0, 0, 0, 0, 0, 0, 0, 1};
    size_t size = put_batch(log, 0, ol_slice_of(key, (size_t)(key_end - key)), ol_slice_of(value, sizeof value));
    write_segment(directory, 0, log, size);
    ol_partition_options options = fixture_options(directory);
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK(ol_partition_is_read_only(partition));
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), -1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
