/* A partition as the owner of a log that is cleaned (cleaner/partition_owner.c): the roles in which it is refused, and the limit of W
 * and of transactions. */
#include "cleaner_fixture.h"

OL_TEST(what_cannot_be_cleaned_is_refused) {
    static ol_clean_report report;
    ol_error error;
    ol_clean_options options;
    ol_clean_options_init(&options);
    ol_partition_options settings = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&settings, false);
    OL_CHECK_INT(ol_cleaner_run(partition, &options, &report, &error), OL_LOADING);
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    OL_CHECK_OK(ol_cleaner_run(partition, &options, &report, &error), &error);
    OL_CHECK(report.complete && report.passes == 1);
    options.map_bytes = OL_CLEAN_MAP_BYTES_MIN - 1;
    OL_CHECK_INT(ol_cleaner_run(partition, &options, &report, &error), OL_INVALID);
    close_partition(partition);
    ol_clean_options_init(&options);
    settings.log.writable = settings.log.create = false;
    partition = open_partition(&settings, true);
    OL_CHECK_INT(ol_cleaner_run(partition, &options, &report, &error), OL_READ_ONLY);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_partition_that_failed_is_not_cleaned) {
    world w;
    open_world(&w, 4096);
    append_position(&w, -1, "g", 0, 1);
    roll_world(&w);
    static ol_clean_report report;
    ol_error error;
    ol_clean_options options;
    ol_clean_options_init(&options);
    ol_partition_fail(w.partition);
    OL_CHECK_INT(ol_cleaner_run(w.partition, &options, &report, &error), OL_FAILED);
    OL_CHECK(strstr(error.reason, "opened again") != NULL);
    OL_CHECK_INT(report.passes, 0);
    OL_CHECK_INT(ol_partition_close(w.partition, &error), OL_FAILED);
    open_world_partition(&w);
    OL_CHECK(clean(&w).complete);
    close_world(&w);
}

/* Whichever is lower: W, or the beginning of a transaction that is open there. */
OL_TEST(a_run_ends_below_w_and_below_an_open_transaction) {
    for (int is_open = 0; is_open < 2; is_open++) {
        world w;
        open_world(&w, 4096);
        for (int i = 0; i < 50; i++) append_position(&w, -1, "g", 0, i);
        roll_world(&w);
        int64_t limit = world_end(&w);
        if (is_open) append_position(&w, 7, "g", 1, 1);
        for (int i = 0; i < 50; i++) append_position(&w, -1, "g", 0, i);
        ol_error error;
        pthread_mutex_lock(&w.partition->writer);
        OL_CHECK_OK(ol_log_roll_active(w.partition->log, &error), &error);
        pthread_mutex_unlock(&w.partition->writer);
        if (is_open) advance_world(&w, world_end(&w));
        ol_clean_report report = clean(&w);
        OL_CHECK_INT(report.end, limit);
        OL_CHECK_INT(report.records.superseded, 49);
        close_world(&w);
    }
}

OL_TEST_MAIN()
