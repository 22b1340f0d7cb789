/* Cleans beside what else happens to a log: commits that wait for no disk, truncations that are under way, and those that failed. */
#include "cleaner_fixture.h"

/* ------------------------------------------------------------------------------------------------ commits that wait for nothing */

static _Atomic int extensions_written;

static int counting_extend(ol_file *file, int64_t from, int64_t to, bool written, ol_error *failure) {
    extensions_written += written;
    return ol_fs_posix()->extend(file, from, to, written, failure);
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

OL_TEST_MAIN()
