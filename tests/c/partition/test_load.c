/* Loading: logs that are not what a lone store would have written. */
#include <fcntl.h>
#include <pthread.h>

#include "base/bytes.h"
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

OL_TEST(waiting_for_a_flush_of_a_read_only_log_does_not_end_its_reads) {
    const char *directory = fresh_directory();
    uint8_t log[900];
    size_t size = 0, positions[3];
    for (int i = 0; i < 3; i++) {
        positions[i] = size;
        size += put_position(log + size, i, OL_KEY_OFFSET_COMMIT, false, i);
    }
    log[positions[1] + OL_BATCH_AT_RECORDS] ^= 1;
    write_segment(directory, 0, log, size);
    ol_partition_options options = fixture_options(directory);
    options.log.recovery_point = 2;
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK(!ol_log_is_writable(ol_partition_log(partition)));
    ol_error error;
    int status = ol_partition_wait(partition, 3, OL_TERM_NOW, OL_WAIT_FLUSHED, 1000, &error);
    OL_CHECK(status == OL_READ_ONLY || status == OL_OK);
    OL_CHECK_INT(ol_partition_role(partition), OL_ROLE_ACTIVE);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 2);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(an_end_below_the_recovery_point_is_reported_and_commits_go_on) {
    const char *directory = fresh_directory();
    uint8_t log[300];
    write_segment(directory, 0, log, put_position(log, 0, OL_KEY_OFFSET_COMMIT, false, 5));
    ol_partition_options options = fixture_options(directory);
    options.log.recovery_point = 100;
    ol_partition *partition = open_partition(&options, true);
    ol_problem problem;
    OL_CHECK(ol_partition_problem_at(partition, 0, &problem));
    OL_CHECK_INT(problem.error.offset, 1);
    OL_CHECK(!ol_partition_problem_at(partition, 1, &problem));
    OL_CHECK(!ol_partition_is_read_only(partition));
    commit_one(partition, "g", "t", 0, 6);
    close_partition(partition);
    remove_fixture();
}

typedef struct load_thread {
    ol_partition *partition;
    int status;
} load_thread;

static void *load_in_thread(void *argument) {
    load_thread *self = argument;
    ol_error error;
    self->status = ol_partition_load(self->partition, &error);
    return NULL;
}

OL_TEST(commits_made_during_a_load_are_applied_by_the_loader) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    ol_item items[100];
    ol_commit_result result;
    ol_error error;
    for (int i = 0; i < 1000; i++) {
        char topic[32];
        snprintf(topic, sizeof topic, "topic-%d", i);
        for (int k = 0; k < 100; k++) items[k] = position_item("g", topic, k, i);
        OL_CHECK_OK(ol_partition_commit(partition, items, 100, -1, -1, &result, &error), &error);
    }
    close_partition(partition);
    options.log.clean = true;
    partition = open_partition(&options, false);
    load_thread self = {.partition = partition};
    pthread_t thread;
    OL_CHECK_INT(pthread_create(&thread, NULL, load_in_thread, &self), 0);
    int64_t accepted = 0;
    while (ol_partition_role(partition) != OL_ROLE_ACTIVE) {
        char group[32];
        snprintf(group, sizeof group, "during-%" PRId64, accepted % 1000);
        ol_item item = position_item(group, "t", 0, accepted);
        item.metadata = text(group);
        int status = try_one(partition, item, -1, &result, &error);
        OL_CHECK(status == OL_OK || status == OL_LOADING);
        accepted += status == OL_OK;
        const ol_state *state;
        status = ol_partition_lock_state(partition, &state, &error);
        if (status == OL_OK) ol_partition_unlock_state(partition);
    }
    pthread_join(thread, NULL);
    OL_CHECK_INT(self.status, OL_OK);
    OL_CHECK(accepted > 0);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 100000 + accepted);
    ol_digest live = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_flipped_base_offset_costs_its_own_batch_and_no_other) {
    /* The base offset is not covered by the CRC: whichever bit is flipped, the batch it stands in is the one that is reported. */
    for (int bit = 0; bit < 63; bit++) {
        const char *directory = fresh_directory();
        uint8_t log[16 * 200];
        size_t size = 0, damaged = 0;
        for (int i = 0; i < 16; i++) {
            if (i == 5) damaged = size;
            size += put_position(log + size, 100 + i, OL_KEY_OFFSET_COMMIT, false, i);
        }
        log[damaged + 7 - (size_t)bit / 8] ^= (uint8_t)(1u << bit % 8);
        write_segment(directory, 100, log, size);
        write_segment(directory, 116, "", 0);
        ol_partition_options options = fixture_options(directory);
        options.log.clean = true;
        options.log.recovery_point = 116;
        ol_partition *partition = open_partition(&options, true);
        OL_CHECK(ol_partition_is_read_only(partition));
        OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 15);
        ol_load_progress progress;
        ol_partition_progress(partition, &progress);
        OL_CHECK_INT(progress.records, 15);
        OL_CHECK_INT(progress.problems, 1);
        close_partition(partition);
    }
    remove_fixture();
}

OL_TEST(what_is_appended_between_open_and_load_is_applied_and_said_to_be) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *writer = open_partition(&options, true);
    commit_one(writer, "g", "t", 1, 1);
    options.log.writable = options.log.create = false;
    ol_partition *reader = open_partition(&options, false);
    commit_one(writer, "g", "t", 2, 2);
    ol_error error;
    OL_CHECK_OK(ol_partition_load(reader, &error), &error);
    OL_CHECK_INT(fetch_one(reader, "g", "t", 2), 2);
    ol_positions positions;
    ol_partition_positions(reader, &positions);
    OL_CHECK_INT(positions.applied, 2);
    OL_CHECK_INT(positions.written, 2);
    close_partition(reader);
    close_partition(writer);
    remove_fixture();
}

OL_TEST(a_torn_tail_says_nothing_of_the_base_offset_of_the_last_batch) {
    const char *directory = fresh_directory();
    uint8_t log[900];
    size_t size = put_position(log, 10, OL_KEY_OFFSET_COMMIT, false, 5);
    size += put_position(log + size, 20, OL_KEY_OFFSET_COMMIT, false, 6);
    /* As if it were the batch that belongs into the gap, but for its CRC. */
    size_t tail = put_position(log + size, 15, OL_KEY_OFFSET_COMMIT, false, 7);
    log[size + OL_BATCH_AT_CRC] ^= 1;
    write_segment(directory, 0, log, size + tail);
    ol_partition_options options = fixture_options(directory);
    for (int writable = 0; writable < 2; writable++) {
        options.log.writable = options.log.create = writable;
        ol_partition *partition = open_partition(&options, true);
        OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), 21);
        OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 6);
        ol_partition_abandon(partition);
    }
    remove_fixture();
}

/* One bit makes a batch in the middle end where the log does. */
OL_TEST(a_batch_that_seems_to_be_the_last_one_hides_none_after_it) {
    const char *directory = fresh_directory();
    uint8_t log[14 * 200];
    size_t size = 0, damaged = 0;
    for (int i = 0; i < 14; i++) {
        if (i == 5) damaged = size;
        size += put_position(log + size, i, OL_KEY_OFFSET_COMMIT, false, i);
    }
    ol_store_i64(log + damaged, 5 ^ 8);
    write_segment(directory, 0, log, size);
    ol_partition_options options = fixture_options(directory);
    options.log.clean = true;
    options.log.recovery_point = 14;
    for (int writable = 0; writable < 2; writable++) {
        options.log.writable = options.log.create = writable;
        ol_partition *partition = open_partition(&options, true);
        OL_CHECK(ol_partition_is_read_only(partition));
        OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 13);
        ol_load_progress progress;
        ol_partition_progress(partition, &progress);
        OL_CHECK_INT(progress.records, 13);
        OL_CHECK(progress.problems >= 1);
        ol_partition_abandon(partition);
    }
    remove_fixture();
}

OL_TEST_MAIN()
