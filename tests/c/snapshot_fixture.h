/* snapshot_fixture: a partition with every kind of record in it, and snapshots of it in a container
 * of the simplest kind: one section after the other, and an end like that of an Arrow file. */
#ifndef SNAPSHOT_FIXTURE_H
#define SNAPSHOT_FIXTURE_H

#include <fcntl.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "partition/snapshot_take.h"
#include "partition_fixture.h"

enum { WORKLOAD_PRODUCERS = 4 };

typedef struct workload {
    ol_partition *partition;
    bool open[WORKLOAD_PRODUCERS];      /* transactions */
} workload;

static ol_partition_options snapshot_options(const char *directory) {
    ol_partition_options options = fixture_options(directory);
    options.batch_bytes_max = 2048;
    options.log.config.segment_bytes = 16 << 10;
    options.log.config.extend_bytes_min = 4096;
    options.log.config.extend_bytes_max = 8192;
    options.value_v4 = OL_VALUE_V4_ALWAYS;
    return options;
}

OL_UNUSED static ol_item random_item(char names[2][24]) {
    static const uint8_t topic_ids[2][16] = {"aaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbb"};
    snprintf(names[0], 24, "group-%d", (int)ol_test_below(12));
    snprintf(names[1], 24, "topic-%d", (int)ol_test_below(6));
    ol_item item = position_item(names[0], names[1], (int32_t)ol_test_below(40),
                                 (int64_t)ol_test_below(1000000));
    if (ol_test_below(4) == 0) item.metadata = text("some metadata");
    if (ol_test_below(6) == 0) item.expire_timestamp = 1800000000000;
    else if (ol_test_below(4) == 0) item.topic_id = topic_ids[ol_test_below(2)];
    item.leader_epoch = (int32_t)ol_test_below(5) - 1;
    return item;
}

OL_UNUSED static void commit_random(workload *work, int64_t producer_id) {
    char names[2][24];
    ol_item item = random_item(names);
    ol_commit_result result;
    ol_error error;
    if (producer_id < 0 && ol_test_below(5) == 0) item.kind = OL_ITEM_POSITION_TOMBSTONE;
    OL_CHECK_OK(try_one(work->partition, item, producer_id, &result, &error), &error);
}

OL_UNUSED static void commit_group_record(workload *work) {
    uint8_t key[32];
    char name[24];
    ol_commit_result result;
    ol_error error;
    int size = snprintf(name, sizeof name, "group-%d", (int)ol_test_below(12));
    ol_store_i16(key, OL_KEY_GROUP_METADATA);
    ol_store_i16(key + 2, (int16_t)size);
    memcpy(key + 4, name, (size_t)size);
    ol_item item = {.kind = OL_ITEM_GROUP_RECORD,
                    .group = text(name),
                    .key = ol_slice_of(key, 4 + (size_t)size)};
    if (ol_test_below(4) != 0) item.value = text("what this group knows of itself");
    OL_CHECK_OK(ol_partition_commit(work->partition, &item, 1, -1, -1, &result, &error), &error);
}

/* More than a batch holds: a transaction of ours. */
OL_UNUSED static void commit_large(workload *work) {
    ol_item items[90];
    ol_commit_result result;
    ol_error error;
    for (int i = 0; i < 90; i++) items[i] = position_item("group-large", "topic-large", i, i);
    OL_CHECK_OK(ol_partition_commit(work->partition, items, 90, -1, -1, &result, &error), &error);
}

OL_UNUSED static void work_some(workload *work, int steps) {
    for (int i = 0; i < steps; i++) {
        int64_t producer = (int64_t)ol_test_below(WORKLOAD_PRODUCERS);
        unsigned dice = (unsigned)ol_test_below(20);
        fixture_now += 7;
        if (dice < 11) {
            commit_random(work, -1);
        } else if (dice < 15) {
            commit_random(work, 100 + producer);
            work->open[producer] = true;
        } else if (dice < 17) {
            if (work->open[producer]) {
                end_transaction(work->partition, 100 + producer,
                                dice == 15 ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
            }
            work->open[producer] = false;
        } else if (dice < 19) {
            commit_group_record(work);
        } else if (ol_test_below(4) == 0) {
            commit_large(work);
        }
    }
}

OL_UNUSED static void flush_all(ol_partition *partition) {
    ol_error error;
    OL_CHECK_OK(ol_partition_wait(partition, ol_log_end(ol_partition_log(partition)), OL_TERM_NOW,
                                  OL_WAIT_FLUSHED, -1, &error),
                &error);
}

/* -------------------------------------------------------------------------------- the container */

typedef struct container {
    ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS];
    char path[300];
    uint8_t *bytes;
    size_t size;
    size_t directory;           /* where it stands */
} container;

enum { CONTAINER_END_SIZE = 8 + 3 + 4 + 6 };

OL_UNUSED static void write_container(const container *file) {
    unlink(file->path);
    int descriptor = open(file->path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    OL_CHECK(descriptor >= 0 && write(descriptor, file->bytes, file->size) == (ssize_t)file->size);
    close(descriptor);
}

/* Seals a snapshot and writes it aside. */
OL_UNUSED static void store_container(ol_snapshot *snapshot, const char *directory,
                                      container *file) {
    ol_error error;
    OL_CHECK_OK(ol_snapshot_seal(snapshot, 2, file->sections, &error), &error);
    snprintf(file->path, sizeof file->path, "%s/%s.tmp", directory, OL_SNAPSHOT_FILE);
    file->size = 100;
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        ol_snapshot_section *section = &file->sections[i];
        OL_CHECK(strcmp(section->name, ol_snapshot_section_name(i)) == 0);
        section->position = (int64_t)file->size;
        file->size += section->size;
    }
    file->directory = (file->size + 7) / 8 * 8;
    file->size = file->directory + OL_SNAPSHOT_DIRECTORY_SIZE + CONTAINER_END_SIZE;
    file->bytes = calloc(1, file->size + 1);
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        ol_snapshot_section *section = &file->sections[i];
        if (section->size != 0) {
            memcpy(file->bytes + section->position, section->data, section->size);
        }
        section->data = file->bytes + section->position;
    }
    ol_snapshot_put_directory(file->sections, file->bytes + file->directory);
    /* The end-of-stream mark, a footer of three bytes, its length, and the magic. */
    memcpy(file->bytes + file->directory + OL_SNAPSHOT_DIRECTORY_SIZE,
           "\xff\xff\xff\xff\0\0\0\0foo\3\0\0\0ARROW1", CONTAINER_END_SIZE);
    write_container(file);
}

OL_UNUSED static void free_container(container *file) { free(file->bytes); }

OL_UNUSED static int open_container(const container *file, unsigned threads, ol_snapshot **snapshot,
                                    ol_error *error) {
    return ol_snapshot_open(ol_fs_posix(), file->path, threads, snapshot, error);
}

OL_UNUSED static ol_snapshot *reopen_container(const container *file) {
    ol_snapshot *snapshot;
    ol_error error;
    OL_CHECK_OK(open_container(file, 2, &snapshot, &error), &error);
    return snapshot;
}

/* A snapshot of all that is flushed, made from nothing or from an earlier one. */
OL_UNUSED static ol_snapshot *take_snapshot(ol_partition *partition, ol_snapshot *earlier) {
    ol_error error;
    ol_snapshot *snapshot = earlier;
    flush_all(partition);
    if (earlier == NULL) {
        OL_CHECK_OK(ol_partition_snapshot_begin(partition, &snapshot, &error), &error);
    }
    OL_CHECK_OK(ol_partition_snapshot_advance(partition, snapshot,
                                              ol_log_flushed(ol_partition_log(partition)), NULL,
                                              &error),
                &error);
    return snapshot;
}

OL_UNUSED static ol_partition *open_from(const ol_partition_options *options,
                                         ol_snapshot *snapshot) {
    ol_partition *partition = open_partition(options, false);
    ol_error error;
    OL_CHECK_OK(ol_partition_snapshot_check(partition, snapshot, -1, &error), &error);
    OL_CHECK_OK(ol_partition_load_from(partition, snapshot, &error), &error);
    return partition;
}

OL_UNUSED static int64_t loaded_from(const ol_partition *partition) {
    ol_load_progress progress;
    ol_partition_progress(partition, &progress);
    return progress.snapshot_offset;
}

#endif
