/* recovery_fixture: a partition directory of a test's own, filled, flushed and damaged in one line each. */
#ifndef RECOVERY_FIXTURE_H
#define RECOVERY_FIXTURE_H

#include "log_fixture.h"

typedef struct place {
    char root[OL_PATH_MAX];
    char path[OL_PATH_MAX];
    ol_log_options options;
} place;

OL_UNUSED static void place_make(place *p) {
    fixture_directory(p->root);
    fixture_join(p->path, p->root, "__consumer_offsets-0");
    p->options = fixture_options(p->path);
}

OL_UNUSED static void append_many(ol_log *log, int count, size_t value_size) {
    for (int i = 0; i < count; i++) fixture_append(log, fixture_plain(value_size, (uint64_t)i));
}

OL_UNUSED static int64_t flush(ol_log *log) {
    ol_error error;
    int64_t flushed = 0;
    OL_CHECK_OK(ol_log_flush(log, &flushed, &error), &error);
    return flushed;
}

#define FIRST_LOG "00000000000000000000.log"

#endif
