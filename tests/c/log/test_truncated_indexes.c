/* An index entry of a batch that a truncation removed stays away after a loss of power: below a later mark no open checks
 * entries again, and the entry would name a position inside another batch (csrc/log/truncate.c). */
#include "accusation.h"
#include "derived.h"
#include "log_fixture.h"
#include "testing/fault_fs.h"

enum { STATES = 32, BATCHES = 40, KEPT = 10 };

typedef struct disk {
    char directory[OL_PATH_MAX];
    char root[OL_PATH_MAX];
    ol_fs *fs;
    ol_log_options options;
    ol_log_mark mark;
} disk;

static void append_until(ol_log *log, int64_t end, size_t value_size) {
    while (ol_log_end(log) < end) {
        fixture_batch batch = fixture_plain(value_size, 1);
        batch.timestamp += ol_log_end(log);
        fixture_append(log, batch);
    }
}

/* A log whose first indexes are on disk is truncated, and goes on with batches of another size. */
static void truncate_and_go_on(disk *d) {
    char partition[OL_PATH_MAX];
    ol_error error;
    fixture_directory(d->directory);
    fixture_join(d->root, d->directory, "root");
    mkdir(d->root, 0777);
    fixture_join(partition, d->root, "p-0");
    OL_CHECK_OK(ol_fault_fs_create(d->root, &d->fs, &error), &error);
    d->options = fixture_options(partition);
    d->options.fs = d->fs;
    d->options.config.index_interval_bytes = 256;
    d->options.config.settled_bytes_min = 1;
    ol_log *log = fixture_open(&d->options, NULL);
    append_until(log, BATCHES, 100);
    fixture_close(log);
    d->options.clean = d->options.witnessed = true;
    d->options.recovery_point = BATCHES;
    log = fixture_open(&d->options, NULL);
    OL_CHECK_OK(ol_log_truncate(log, KEPT, &error), &error);
    append_until(log, BATCHES, 300);
    OL_CHECK_OK(ol_log_take_mark(log, &d->mark, &error), &error);
    OL_CHECK_OK(ol_log_flush(log, &(int64_t){0}, &error), &error);
    OL_CHECK_OK(ol_fault_fs_stop(d->fs, &error), &error);
    ol_log_abandon(log);
}

OL_TEST(no_entry_of_a_removed_batch_comes_back) {
    disk d = {.mark = {0}};
    ol_error error;
    ol_log_recovery recovery;
    char target[OL_PATH_MAX];
    char partition[OL_PATH_MAX];
    truncate_and_go_on(&d);
    fixture_join(target, d.directory, "target");
    fixture_join(partition, target, "p-0");
    for (uint64_t seed = 0; seed < STATES; seed++) {
        mkdir(target, 0777);
        OL_CHECK_OK(ol_fault_fs_materialize(d.fs, target, ol_test_seed * STATES + seed, &error), &error);
        ol_log_options options = d.options;
        options.directory = partition;
        options.fs = ol_fs_posix();
        options.clean = false;
        options.recovery_point = KEPT;
        options.mark = &d.mark;
        ol_log *log = fixture_open(&options, &recovery);
        OL_CHECK(accusation(&recovery) == NULL);
        OL_CHECK_INT(ol_log_end(log), BATCHES);
        derived_true(log);
        ol_log_abandon(log);
        fixture_remove(target);
    }
    ol_log_mark_free(&d.mark);
    ol_fault_fs_free(d.fs);
    fixture_remove(d.directory);
}

OL_TEST_MAIN()
