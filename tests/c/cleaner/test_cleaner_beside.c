/* Cleans beside what else happens to a log: commits that wait for no disk, truncations that are under way, and those that failed. */
#include "cleaner_fixture.h"

/* ------------------------------------------------------------------------------------------------ commits that wait for nothing */

static _Atomic int extensions_written;

static int counting_extend(ol_file *file, int64_t from, int64_t to, ol_growth growth, ol_error *failure) {
    extensions_written += growth == OL_GROW_WRITTEN;
    return ol_fs_posix()->extend(file, from, to, growth, failure);
}

OL_TEST(the_flush_of_a_clean_makes_later_commits_no_dearer) {
    world w;
    ol_error error;
    int64_t flushed = 0;
    ol_fs fs = *ol_fs_posix();
    fs.extend = counting_extend;
    open_world(&w, 4096);
    close_partition(w.partition);
    w.options.log.fs = &fs;
    open_world_partition(&w);
    for (int i = 0; i < 100; i++) append_position(&w, -1, "g", i % 7, i);
    /* The file that says how much is flushed is written by the first flush. */
    OL_CHECK_OK(ol_log_flush_unasked(w.partition->log, &flushed, &error), &error);
    roll_world(&w);
    extensions_written = 0;
    ol_clean_options options = clean_options(&w);
    OL_CHECK(clean_with(&w, &options).segments_before > 1);
    for (int i = 0; i < 100; i++) append_position(&w, -1, "g", i % 7, i);
    OL_CHECK_INT(extensions_written, 0);
    close_world(&w);
}

/* ------------------------------------------------------------------------------------------------ a truncation under way */

typedef struct cutting {
    world *w;
    pthread_t thread;
    int64_t offset;
    bool armed;                 /* the next long read of the cleaner is after the cut of the file, and before the
    truncation's end */
    _Atomic bool began;
    _Atomic bool cut;
} cutting;

static cutting cuts;

static void *cut_log(void *argument OL_UNUSED) {
    ol_error error;
    pthread_mutex_lock(&cuts.w->partition->writer);
    OL_CHECK_OK(ol_log_truncate(cuts.w->partition->log, cuts.offset, &error), &error);
    pthread_mutex_unlock(&cuts.w->partition->writer);
    return NULL;
}

static int reading_behind_cut(ol_file *file, int64_t position, void *data, size_t size, size_t *got, ol_error *error) {
    if (cuts.armed && size > 1000) {
        cuts.armed = false;
        cuts.began = true;
        OL_CHECK(pthread_create(&cuts.thread, NULL, cut_log, NULL) == 0);
        while (!cuts.cut) usleep(100);
    }
    return ol_fs_posix()->read(file, position, data, size, got, error);
}

/* Long enough for the cleaner to judge what it read. */
static int slow_truncate(ol_file *file, int64_t size, ol_error *error) {
    int status = ol_fs_posix()->truncate(file, size, error);
    if (cuts.began && !cuts.cut) {
        cuts.cut = true;
        usleep(200000);
    }
    return status;
}

OL_TEST(a_file_that_is_being_cut_is_not_damaged) {
    world w;
    ol_fs fs = *ol_fs_posix();
    fs.read = reading_behind_cut;
    fs.truncate = slow_truncate;
    open_world(&w, 4096);
    close_partition(w.partition);
    w.options.log.fs = &fs;
    open_world_partition(&w);
    for (int i = 0; i < 100; i++) append_position(&w, -1, "g", i % 7, i);
    roll_world(&w);
    cuts = (cutting){.w = &w, .offset = 3, .armed = true};
    ol_clean_report report = clean(&w);
    pthread_join(cuts.thread, NULL);
    OL_CHECK(report.truncated && !report.complete);
    OL_CHECK_INT(report.quarantined, 0);
    OL_CHECK_INT(world_end(&w), 3);
    close_world(&w);
}

OL_TEST_MAIN()
