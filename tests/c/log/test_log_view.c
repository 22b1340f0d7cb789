/* A view holds what the log was, whatever is cleaned, rolled and cut away since. */
#include "log/view.h"

#include <pthread.h>

#include "cleaned_fixture.h"
#include "log/file_scan.h"
#include "log/segment.h"

static model *new_model(void) { return calloc(1, sizeof(model)); }

static void free_model(model *m) {
    model_remove_from(m, 0);
    free(m);
}

static void fill(model *m, ol_log *log, int count) {
    ol_error error;
    for (int i = 0; i < count; i++) OL_CHECK_OK(model_append(m, log, fixture_plain(400, (uint64_t)i), &error), &error);
}

static ol_log_view *open_view(ol_log *log) {
    ol_error error;
    ol_log_view *view = NULL;
    OL_CHECK_OK(ol_log_view_open(log, &view, &error), &error);
    return view;
}

/* All bytes, read from the files. */
static uint8_t *read_view(const ol_log_view *view, size_t *size) {
    ol_log_view_segment segment;
    ol_error error;
    uint8_t *bytes = malloc(1);
    *size = 0;
    for (size_t i = 0; ol_log_view_at(view, i, &segment); i++) {
        ol_file_scan scan;
        ol_batch batch;
        int status;
        OL_CHECK_OK(ol_log_view_scan(view, i, 0, &scan, &error), &error);
        while ((status = ol_file_scan_next(&scan, &batch, &error)) == OL_OK) {
            OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
            bytes = realloc(bytes, *size + batch.size);
            memcpy(bytes + *size, batch.data, batch.size);
            *size += batch.size;
        }
        OL_CHECK_INT(status, OL_END);
        ol_file_scan_close(&scan);
    }
    return bytes;
}

static void check_view(const ol_log_view *view, const model *m) {
    size_t size = 0;
    int64_t end = 0;
    uint8_t *bytes = read_view(view, &size);
    OL_CHECK_INT(model_match(m, bytes, size, false, &end), (int64_t)m->count);
    free(bytes);
}

static ol_log *open_log(char path[OL_PATH_MAX]) {
    fixture_directory(path);
    ol_log_options options = fixture_options(path);
    options.config.segment_bytes = 8 << 10;
    return fixture_open(&options, NULL);
}

static void flush(ol_log *log) {
    ol_error error;
    int64_t flushed = 0;
    OL_CHECK_OK(ol_log_flush(log, &flushed, &error), &error);
}

static void end(ol_log *log, const char *path, model *m) {
    fixture_close(log);
    fixture_remove(path);
    free_model(m);
}

OL_TEST(what_is_appended_to_the_last_segment_is_in_it) {
    char path[OL_PATH_MAX];
    ol_log *log = open_log(path);
    model *m = new_model();
    ol_log_view *view = open_view(log);
    check_view(view, m);
    fill(m, log, 5);
    check_view(view, m);
    ol_log_view_close(view);
    end(log, path, m);
}

OL_TEST(what_comes_after_a_roll_is_not_in_it) {
    char path[OL_PATH_MAX];
    ol_log *log = open_log(path);
    model *m = new_model(), *later = new_model();
    ol_error error;
    fill(m, log, 30);
    ol_log_view *view = open_view(log);
    OL_CHECK_OK(ol_log_roll_active(log, &error), &error);
    check_view(view, m);
    fill(later, log, 1);
    check_view(view, m);
    OL_CHECK(ol_log_view_is_current(view));
    ol_log_view_close(view);
    free_model(later);
    end(log, path, m);
}

OL_TEST(what_is_cleaned_away_stays_readable) {
    char path[OL_PATH_MAX];
    ol_log *log = open_log(path);
    model *m = new_model(), *before = new_model();
    ol_error error;
    fill(m, log, 120);
    for (size_t i = 0; i < m->count; i++) model_add(before, m->batches[i].bytes, m->batches[i].size);
    flush(log);
    ol_log_view *view = open_view(log);
    OL_CHECK_OK(model_clean(m, log, 0, 3, keep_none, NULL, &error), &error);
    OL_CHECK_OK(model_clean(m, log, 1, 2, keep_none, NULL, &error), &error);
    OL_CHECK(!ol_log_view_is_current(view));
    check_view(view, before);
    ol_log_view *newer = open_view(log);
    OL_CHECK(ol_log_view_is_current(newer));
    check_view(newer, m);
    ol_log_view_close(newer);
    ol_log_view_close(view);
    free_model(before);
    end(log, path, m);
}

OL_TEST(what_is_cut_stays_readable) {
    char path[OL_PATH_MAX];
    ol_log *log = open_log(path);
    model *m = new_model();
    ol_error error;
    fill(m, log, 60);
    ol_log_view *view = open_view(log);
    OL_CHECK_OK(ol_log_truncate(log, 50, &error), &error);
    OL_CHECK(!ol_log_view_is_current(view));
    check_view(view, m);
    ol_log_view_close(view);
    end(log, path, m);
}

OL_TEST(a_read_only_log_cannot_be_held) {
    char path[OL_PATH_MAX];
    ol_log *log = open_log(path);
    model *m = new_model();
    ol_error error;
    fill(m, log, 3);
    fixture_close(log);
    ol_log_options options = fixture_options(path);
    options.writable = options.create = false;
    log = fixture_open(&options, NULL);
    ol_log_view *view = NULL;
    OL_CHECK_INT(ol_log_view_open(log, &view, &error), OL_READ_ONLY);
    OL_CHECK(view == NULL);
    end(log, path, m);
}

/* ------------------------------------------------------------------------------------------------ descriptors */

static int descriptors(void) { return fixture_count("/proc/self/fd", ""); }

OL_TEST(a_view_takes_descriptors_only_of_segments_that_left_the_log) {
    char path[OL_PATH_MAX];
    ol_log *log = open_log(path);
    model *m = new_model(), *before = new_model();
    ol_error error;
    while (fixture_count(path, "0") < 4 * 60) {
        fill(m, log, 10);
        flush(log);
    }
    for (size_t i = 0; i < m->count; i++) model_add(before, m->batches[i].bytes, m->batches[i].size);
    int open = descriptors();
    ol_log_view *view = open_view(log);
    check_view(view, m);
    OL_CHECK_INT(descriptors(), open);
    OL_CHECK_OK(model_clean(m, log, 0, 40, keep_none, NULL, &error), &error);
    OL_CHECK_INT(descriptors(), open + 40);
    OL_CHECK_OK(ol_log_truncate(log, m->batches[m->count - 30].base, &error), &error);
    check_view(view, before);
    ol_log_view_close(view);
    OL_CHECK(descriptors() <= open);
    free_model(before);
    end(log, path, m);
}

/* How many segments can still be read; the rest must say why not. */
static int count_readable(const ol_log_view *view) {
    ol_log_view_segment segment;
    ol_error error;
    int readable = 0;
    for (size_t i = 0; ol_log_view_at(view, i, &segment); i++) {
        ol_file_scan scan;
        int status = ol_log_view_scan(view, i, 0, &scan, &error);
        if (status == OL_OK) {
            ol_file_scan_close(&scan);
            readable++;
        } else {
            OL_CHECK_INT(status, OL_NO_SUCH_FILE);
            OL_CHECK(strcmp(error.path, segment.path) == 0);
        }
    }
    return readable;
}

OL_TEST(no_more_than_so_many_files_are_kept) {
    enum { SEGMENTS = OL_KEPT_FILES_MAX + 20 };
    char path[OL_PATH_MAX];
    ol_log *log = open_log(path);
    model *m = new_model();
    ol_error error;
    fill(m, log, 1);
    flush(log);
    int open = descriptors();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SEGMENTS; i++) {
            fill(m, log, 1);
            if (i % 20 == 0) flush(log);
            OL_CHECK_OK(ol_log_roll_active(log, &error), &error);
        }
        flush(log);
        ol_log_view *view = open_view(log);
        OL_CHECK_INT(count_readable(view), SEGMENTS + 1);
        OL_CHECK_OK(ol_log_truncate(log, 0, &error), &error);
        model_cut(m, 0);
        /* The active segment was open. */
        OL_CHECK_INT(count_readable(view), OL_KEPT_FILES_MAX + 1);
        OL_CHECK(!ol_log_view_is_current(view));
        ol_log_view_close(view);
        OL_CHECK(descriptors() <= open);
    }
    end(log, path, m);
}

static struct {
    ol_log *log;
    model *m;
    int views;
} naming;

static int viewing_rename(ol_fs *fs, const char *source, const char *target, ol_error *error) {
    if (naming.log != NULL && strstr(source, ".log.swap") != NULL) {
        ol_log_view *view = open_view(naming.log);
        size_t size = 0;
        int64_t end = 0;
        uint8_t *bytes = read_view(view, &size);
        OL_CHECK_INT(model_match(naming.m, bytes, size, true, &end), (int64_t)naming.m->count);
        free(bytes);
        OL_CHECK(ol_log_view_is_current(view));
        ol_log_view_close(view);
        naming.views++;
    }
    return ol_fs_posix()->rename(fs, source, target, error);
}

static bool keep_tenth(void *context OL_UNUSED, const model_batch *batch) { return batch->base % 10 == 0; }

OL_TEST(a_view_does_not_take_the_old_file_for_the_new_one_that_has_no_name_yet) {
    char path[OL_PATH_MAX];
    ol_fs fs = *ol_fs_posix();
    fs.rename = viewing_rename;
    fixture_directory(path);
    ol_log_options options = fixture_options(path);
    options.config.segment_bytes = 8 << 10;
    options.fs = &fs;
    ol_log *log = fixture_open(&options, NULL);
    model *m = new_model();
    ol_error error;
    fill(m, log, 60);
    flush(log);
    naming.log = log;
    naming.m = m;
    OL_CHECK_OK(model_clean(m, log, 0, 1, keep_tenth, NULL, &error), &error);
    OL_CHECK_INT(naming.views, 1);
    naming.log = NULL;
    end(log, path, m);
}

/* ------------------------------------------------------------------------------------------------ threads */

typedef struct looking {
    ol_log *log;
    _Atomic bool stop;
    _Atomic int views;
} looking;

/* Every view is whole: no offset that the model never lets go is missing, and offsets ascend. */
static void *look_on(void *argument) {
    looking *to = argument;
    while (!to->stop) {
        ol_log_view *view = open_view(to->log);
        ol_log_view_segment segment;
        ol_error error;
        int64_t kept_next = 0;
        for (size_t i = 0; ol_log_view_at(view, i, &segment); i++) {
            ol_file_scan scan;
            ol_batch batch;
            int status;
            OL_CHECK_OK(ol_log_view_scan(view, i, 0, &scan, &error), &error);
            while ((status = ol_file_scan_next(&scan, &batch, &error)) == OL_OK) {
                if (batch.base_offset % 10 != 0) continue;
                OL_CHECK_INT(batch.base_offset, kept_next);
                kept_next += 10;
            }
            OL_CHECK_INT(status, OL_END);
            ol_file_scan_close(&scan);
        }
        ol_log_view_close(view);
        to->views++;
    }
    return NULL;
}

OL_TEST(views_beside_swaps_are_whole) {
    char path[OL_PATH_MAX];
    looking to = {.log = open_log(path)};
    model *m = new_model();
    ol_error error;
    fill(m, to.log, 60);
    pthread_t thread;
    OL_CHECK(pthread_create(&thread, NULL, look_on, &to) == 0);
    for (int run = 0; run < 40 || to.views < 20; run++) {
        fill(m, to.log, 30);
        flush(to.log);
        int64_t bases[MODEL_SEGMENTS_MAX];
        size_t count = segment_bases(to.log, bases);
        if (count < 4) continue;
        OL_CHECK_OK(model_clean(m, to.log, ol_test_below(count - 3), 2, keep_tenth, NULL, &error), &error);
    }
    to.stop = true;
    pthread_join(thread, NULL);
    end(to.log, path, m);
}

OL_TEST_MAIN()
