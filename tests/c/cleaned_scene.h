/* A log of small segments, which tests fill, clean and open again. */
#ifndef CLEANED_SCENE_H
#define CLEANED_SCENE_H

#include "cleaned_fixture.h"

/* Not every test uses every part. */
#pragma GCC diagnostic ignored "-Wunused-function"

typedef struct scene {
    char directory[OL_PATH_MAX];
    char partition[OL_PATH_MAX];
    ol_log_options options;
    ol_log *log;
    model *m;
} scene;

static void scene_open(scene *s) {
    fixture_directory(s->directory);
    fixture_join(s->partition, s->directory, "p-0");
    s->options = fixture_options(s->partition);
    s->options.config.segment_bytes = 8 << 10;
    s->options.config.index_interval_bytes = 512;
    s->log = fixture_open(&s->options, NULL);
    s->m = calloc(1, sizeof *s->m);
}

static void scene_close(scene *s) {
    fixture_close(s->log);
    fixture_remove(s->directory);
    model_remove_from(s->m, 0);
    free(s->m);
}

static void append(scene *s, size_t value_size) {
    ol_error error;
    fixture_batch batch = fixture_plain(value_size, s->m->count);
    batch.count = 1 + (int32_t)(s->m->count % 3);
    batch.timestamp += (int64_t)s->m->count;
    OL_CHECK_OK(model_append(s->m, s->log, batch, &error), &error);
}

static void append_transactional(scene *s, int64_t producer_id) {
    ol_error error;
    fixture_batch batch = fixture_plain(50, s->m->count);
    batch.producer_id = producer_id;
    batch.producer_epoch = 0;
    batch.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    OL_CHECK_OK(model_append(s->m, s->log, batch, &error), &error);
}

static void flush(scene *s) {
    ol_error error;
    int64_t flushed = 0;
    OL_CHECK_OK(ol_log_flush(s->log, &flushed, &error), &error);
    OL_CHECK_INT(flushed, ol_log_end(s->log));
}

static size_t segments(scene *s) {
    int64_t bases[MODEL_SEGMENTS_MAX];
    return segment_bases(s->log, bases);
}

static void fill(scene *s, size_t segment_count) {
    while (segments(s) < segment_count) append(s, 300);
    flush(s);
}

static void clean(scene *s, size_t first, size_t count, keeps keep, void *context) {
    ol_error error;
    OL_CHECK_OK(model_clean(s->m, s->log, first, count, keep, context, &error), &error);
    check_no_leftovers(s->partition);
    model_check(s->m, s->log);
}

static void reopen(scene *s, bool clean_stop) {
    ol_log_recovery recovery;
    int64_t end = ol_log_end(s->log);
    if (clean_stop) {
        fixture_close(s->log);
    } else {
        ol_log_abandon(s->log);
    }
    s->options.clean = clean_stop;
    s->options.recovery_point = clean_stop ? end : -1;
    s->log = fixture_open(&s->options, &recovery);
    OL_CHECK(!recovery.corrupt);
    OL_CHECK_INT(recovery.torn_bytes, 0);
    OL_CHECK_INT(ol_log_end(s->log), end);
    model_check(s->m, s->log);
}

#endif
