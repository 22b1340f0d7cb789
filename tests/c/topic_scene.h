/* topic_scene: the log of a topic with small segments, what its owner keeps of it, and a disk that stops or fails. */
#ifndef TOPIC_SCENE_H
#define TOPIC_SCENE_H

#include "accusation.h"
#include "testing/fault_fs.h"
#include "topic_fixture.h"

enum { SEGMENT_BYTES = 4 << 10 };
#define NOW ((int64_t)1800000000000)

typedef struct topic_scene {
    char directory[OL_PATH_MAX];
    char partition[OL_PATH_MAX];
    ol_log_options options;
    ol_topic_log *topic;
    int64_t acknowledged;       /* everything below was flushed */
    int64_t stored_start;       /* in the checkpoint of log starts */
    bool created;
    ol_fs *disk;                /* NULL: the system's */
} topic_scene;

static void scene_begin(topic_scene *s) {
    memset(s, 0, sizeof *s);
    fixture_directory(s->directory);
    fixture_join(s->partition, s->directory, "t-0");
    s->options = fixture_options(s->partition);
    s->options.config.segment_bytes = SEGMENT_BYTES;
    s->options.replicated = true;
}

static int scene_open(topic_scene *s, ol_error *error) {
    ol_log_recovery recovery;
    s->options.log_start_offset = s->stored_start > 0 ? s->stored_start : -1;
    int status = ol_topic_log_open(&s->options, 0, &s->topic, &recovery, error);
    if (status != OL_OK) s->topic = NULL;
    if (status == OL_OK) s->created = true;
    if (status == OL_OK) OL_CHECK(accusation(&recovery) == NULL);
    return status;
}

/* Closes the log in order. */
static void scene_end(topic_scene *s) {
    int64_t end;
    ol_error error;
    OL_CHECK_OK(ol_topic_log_close(s->topic, &end, &error), &error);
    fixture_remove(s->directory);
}

static ol_log *log_of(const topic_scene *s) { return ol_topic_log_log(s->topic); }

OL_UNUSED static int flush(topic_scene *s, ol_error *error) {
    int64_t flushed = 0;
    int status = ol_log_flush(log_of(s), &flushed, error);
    if (status == OL_OK) s->acknowledged = flushed;
    return status;
}

OL_UNUSED static int reopen(topic_scene *s, bool clean_stop, ol_error *error) {
    int64_t end = 0;
    ol_topic_log *topic = s->topic;
    s->topic = NULL;
    int status = OL_OK;
    if (clean_stop) {
        status = ol_topic_log_close(topic, &end, error);
        if (status == OL_OK) s->acknowledged = end;
    } else {
        ol_topic_log_abandon(topic);
    }
    if (status != OL_OK) return status;
    s->options.clean = clean_stop;
    s->options.witnessed = true;
    return scene_open(s, error);
}

/* ------------------------------------------------------------------------------------------------ a disk that stops */

OL_UNUSED static void scene_begin_on_disk(topic_scene *s, uint64_t seed) {
    ol_error error;
    char root[OL_PATH_MAX];
    scene_begin(s);
    fixture_join(root, s->directory, "root");
    mkdir(root, 0777);
    fixture_join(s->partition, root, "t-0");
    OL_CHECK_OK(ol_fault_fs_create(root, &s->disk, &error), &error);
    s->options.fs = s->disk;
    ol_test_random_state = seed;
}

OL_UNUSED static void scene_abandon(topic_scene *s) {
    if (s->topic != NULL) ol_topic_log_abandon(s->topic);
    ol_fault_fs_free(s->disk);
    fixture_remove(s->directory);
}

/* Opens in a scene of its own what the disk of another one could hold: all of it, or by draw. */
OL_UNUSED static void scene_open_disk(topic_scene *s, const topic_scene *of, int64_t stop_at, int draw) {
    ol_error error;
    scene_begin(s);
    if (draw == 0) {
        OL_CHECK_OK(ol_fault_fs_materialize_all(of->disk, s->directory, &error), &error);
    } else {
        OL_CHECK_OK(ol_fault_fs_materialize(of->disk, s->directory, (uint64_t)stop_at * 16 + (uint64_t)draw, &error), &error);
    }
    s->stored_start = of->stored_start;
    s->options.witnessed = of->created;
    OL_CHECK_OK(scene_open(s, &error), &error);
    OL_CHECK(ol_log_end(log_of(s)) >= of->acknowledged);
}

#endif
