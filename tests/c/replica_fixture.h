/* replica_fixture: replicated partitions, led and followed in one line. */
#ifndef REPLICA_FIXTURE_H
#define REPLICA_FIXTURE_H

#include "epoch_of.h"
#include "partition_fixture.h"

OL_UNUSED static ol_partition *open_replica(const char *directory, bool load) {
    ol_partition_options options = fixture_options(directory);
    options.replicated = true;
    return open_partition(&options, load);
}

/* The directory of a second replica, beside that of fresh_directory(). */
OL_UNUSED static const char *second_directory(char path[300]) {
    snprintf(path, 300, "%.*s-1", (int)strlen(fixture_directory) - 2, fixture_directory);
    return path;
}

OL_UNUSED static void lead(ol_partition *partition, int32_t epoch, bool alone) {
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(partition, epoch, alone, &error), &error);
}

OL_UNUSED static void follow(ol_partition *partition, int32_t epoch) {
    ol_error error;
    OL_CHECK_OK(ol_partition_become_follower(partition, epoch, &error), &error);
}

OL_UNUSED static void advance(ol_partition *partition, int64_t offset) {
    ol_error error;
    OL_CHECK_OK(ol_partition_advance(partition, epoch_of(partition), offset, &error), &error);
}

#endif
