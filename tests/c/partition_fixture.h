/* partition_fixture: opening partitions in a temporary directory, and committing in one line. */
#ifndef PARTITION_FIXTURE_H
#define PARTITION_FIXTURE_H

#include <ftw.h>
#include <unistd.h>

#include "partition/partition.h"
#include "ol_test.h"
#include "forget_manifest.h"

static char fixture_directory[256];

static int remove_entry(const char *path, const struct stat *info OL_UNUSED, int type OL_UNUSED, struct FTW *walk OL_UNUSED) {
    return remove(path);
}

static void remove_tree(const char *path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

OL_UNUSED static const char *fresh_directory(void) {
    snprintf(fixture_directory, sizeof fixture_directory, "/tmp/offsetlog-test-%d/__consumer_offsets-0", (int)getpid());
    char parent[256];
    snprintf(parent, sizeof parent, "/tmp/offsetlog-test-%d", (int)getpid());
    remove_tree(parent);
    ol_error error;
    OL_CHECK_OK(ol_fs_posix()->make_directory(ol_fs_posix(), parent, &error), &error);
    return fixture_directory;
}

OL_UNUSED static void remove_fixture(void) {
    char parent[256];
    snprintf(parent, sizeof parent, "/tmp/offsetlog-test-%d", (int)getpid());
    remove_tree(parent);
}

static int64_t fixture_now = 1700000000000;
static int64_t fixture_clock(void *context OL_UNUSED) { return fixture_now; }

OL_UNUSED static ol_partition_options fixture_options(const char *directory) {
    ol_partition_options options;
    ol_partition_options_init(&options);
    options.log.fs = ol_fs_posix();
    options.log.directory = directory;
    options.log.writable = true;
    options.log.create = true;
    options.clock_ms = fixture_clock;
    options.log.config.append = (ol_append)ol_test_setting("OL_APPEND", OL_APPEND_AUTO);
    return options;
}

OL_UNUSED static ol_partition *open_partition(const ol_partition_options *options, bool load) {
    ol_partition *partition;
    ol_log_recovery recovery;
    ol_error error;
    OL_CHECK_OK(ol_partition_open(options, &partition, &recovery, &error), &error);
    if (load) OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    return partition;
}

OL_UNUSED static void close_partition(ol_partition *partition) {
    ol_error error;
    OL_CHECK_OK(ol_partition_close(partition, &error), &error);
}

static ol_slice text(const char *string) { return ol_slice_of(string, strlen(string)); }

static ol_item position_item(const char *group, const char *topic, int32_t partition, int64_t offset) {
    return (ol_item){.kind = OL_ITEM_POSITION, .group = text(group), .topic = text(topic), .partition = partition,
                     .offset = offset, .commit_timestamp = -1, .expire_timestamp = -1, .leader_epoch = -1,
                     .metadata = text("")};
}

OL_UNUSED static int try_one(ol_partition *partition, ol_item item, int64_t producer_id, ol_commit_result *result,
                             ol_error *error) {
    return ol_partition_commit(partition, &item, 1, producer_id, producer_id < 0 ? -1 : 0, result, error);
}

OL_UNUSED static ol_commit_result commit_one(ol_partition *partition, const char *group, const char *topic, int32_t number,
                                             int64_t offset) {
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(try_one(partition, position_item(group, topic, number, offset), -1, &result, &error), &error);
    return result;
}

OL_UNUSED static ol_commit_result commit_pending(ol_partition *partition, int64_t producer_id, const char *group,
                                                 const char *topic, int32_t number, int64_t offset) {
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(try_one(partition, position_item(group, topic, number, offset), producer_id, &result, &error), &error);
    return result;
}

OL_UNUSED static ol_commit_result delete_one(ol_partition *partition, const char *group, const char *topic, int32_t number) {
    ol_item item = position_item(group, topic, number, 0);
    item.kind = OL_ITEM_POSITION_TOMBSTONE;
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), &error);
    return result;
}

OL_UNUSED static void end_transaction(ol_partition *partition, int64_t producer_id, ol_control type) {
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_end_transaction(partition, producer_id, 0, type, 0, &result, &error), &error);
}

/* The committed offset, or -1 when there is none. */
OL_UNUSED static int64_t fetch_one(ol_partition *partition, const char *group, const char *topic, int32_t number) {
    const ol_state *state;
    ol_error error;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    ol_pair_name name = ol_table_name(state->table, text(group), ol_table_group_hash(state->table, text(group)), text(topic));
    ol_position_value value;
    int64_t offset = ol_table_get(state->table, &name, number, &value) ? value.offset : -1;
    ol_partition_unlock_state(partition);
    return offset;
}

OL_UNUSED static ol_digest digest_of(ol_partition *partition) {
    const ol_state *state;
    ol_error error;
    ol_digest digest;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    ol_table_verify(state->table);
    ol_state_digest(state, true, &digest);
    ol_partition_unlock_state(partition);
    return digest;
}

OL_UNUSED static void check_same_digest(ol_digest a, ol_digest b) { OL_CHECK(memcmp(&a, &b, sizeof a) == 0); }

#endif
