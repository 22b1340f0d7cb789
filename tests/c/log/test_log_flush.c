/* The bytes that a flush may acknowledge: between it and the disk stand the writer, truncations and the background. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "log_fixture.h"
#include "testing/fault_fs.h"

enum { POWER_LOSSES = 40 };

typedef struct place {
    char root[OL_PATH_MAX];
    char path[OL_PATH_MAX];
    ol_fs *fs;
    ol_log *log;
    ol_log_options options;
} place;

static place shared;                    /* for the hooks below */

static void open_place(int64_t extend_bytes) {
    ol_error error;
    fixture_directory(shared.root);
    OL_CHECK_OK(ol_fault_fs_create(shared.root, &shared.fs, &error), &error);
    fixture_join(shared.path, shared.root, "p-0");
    shared.options = fixture_options(shared.path);
    shared.options.fs = shared.fs;
    shared.options.config.segment_bytes = 1 << 20;
    shared.options.config.extend_bytes_min = shared.options.config.extend_bytes_max = extend_bytes;
}

static int64_t flush(void) {
    ol_error error;
    int64_t flushed = -1;
    OL_CHECK_OK(ol_log_flush(shared.log, &flushed, &error), &error);
    return flushed;
}

/* Power is lost: whatever the disk holds, all below `acknowledged` is there. */
static void check_power_losses(int64_t acknowledged) {
    for (uint64_t seed = 1; seed <= POWER_LOSSES; seed++) {
        char target[OL_PATH_MAX];
        char path[OL_PATH_MAX];
        ol_error error;
        ol_log_recovery recovery;
        fixture_directory(target);
        OL_CHECK_OK(ol_fault_fs_materialize(shared.fs, target, seed, &error), &error);
        fixture_join(path, target, "p-0");
        ol_log_options options = fixture_options(path);
        options.config = shared.options.config;
        options.replicated = shared.options.replicated;
        ol_log *log = fixture_open(&options, &recovery);
        OL_CHECK(!recovery.corrupt);
        OL_CHECK(ol_log_end(log) >= acknowledged);
        fixture_close(log);
        fixture_remove(target);
    }
}

static void leave_place(void) {
    ol_log_abandon(shared.log);
    ol_fault_fs_free(shared.fs);
    fixture_remove(shared.root);
}

/* ------------------------------------------------------------------------------------------------ truncations */

static int (*plain_rename)(ol_fs *fs, const char *source, const char *target, ol_error *error);
static size_t appended_meanwhile;       /* of a value to append in the middle of a flush, 0 none */

static int rename_while_appending(ol_fs *fs, const char *source, const char *target, ol_error *error) {
    if (appended_meanwhile > 0 && strstr(target, "leader-epoch-checkpoint") != NULL) {
        size_t value_size = appended_meanwhile;
        appended_meanwhile = 0;
        fixture_append(shared.log, fixture_plain(value_size, 4));
    }
    return plain_rename(fs, source, target, error);
}

/* A flush covers a batch that came while it ran, beyond the end that it tells.  A truncation to that end cuts the batch and leaves
 * `flushed` where it is, and what is written in its place is not on disk. */
OL_TEST(what_replaces_batches_that_a_flush_covered_beyond_its_end_is_flushed) {
    ol_error error;
    open_place(256 << 10);
    shared.options.replicated = true;
    plain_rename = shared.fs->rename;
    shared.fs->rename = rename_while_appending;
    shared.log = fixture_open(&shared.options, NULL);
    fixture_append(shared.log, fixture_plain(50, 1));
    flush();
    for (uint64_t salt = 2; salt <= 3; salt++) {
        fixture_batch batch = fixture_plain(50, salt);
        batch.leader_epoch = 1;
        fixture_append(shared.log, batch);
    }
    appended_meanwhile = 12000;
    OL_CHECK_INT(flush(), 3);
    OL_CHECK_INT(appended_meanwhile, 0);
    OL_CHECK_INT(ol_log_end(shared.log), 4);
    OL_CHECK_OK(ol_log_truncate(shared.log, 3, &error), &error);
    fixture_append(shared.log, fixture_plain(15000, 5));
    fixture_append(shared.log, fixture_plain(50, 6));
    OL_CHECK_INT(flush(), 5);
    check_power_losses(5);
    leave_place();
}

/* ------------------------------------------------------------------------------------------------ closes */

/* False when the close makes fewer flushes than `nth`. */
static bool close_with_failing_flush(int64_t nth) {
    enum { BEFORE = 3, ALL = 8 };
    ol_error error;
    open_place(256 << 10);
    shared.log = fixture_open(&shared.options, NULL);
    for (uint64_t salt = 0; salt < BEFORE; salt++) fixture_append(shared.log, fixture_plain(50, salt));
    flush();
    for (uint64_t salt = BEFORE; salt < ALL; salt++) fixture_append(shared.log, fixture_plain(50, salt));
    int64_t before = ol_fault_fs_flushes(shared.fs);
    ol_fault_fs_fail_flush(shared.fs, before + nth, ENOSPC);
    int status = ol_log_close(shared.log, &error);
    bool reached = ol_fault_fs_flushes(shared.fs) >= before + nth;
    ol_fault_fs_fail_flush(shared.fs, 0, 0);
    OL_CHECK_INT(status, reached ? OL_DISK_FULL : OL_OK);
    if (reached) {
        ol_log_recovery recovery;
        shared.log = fixture_open(&shared.options, &recovery);
        OL_CHECK_INT(ol_log_end(shared.log), ALL);
        OL_CHECK_INT(ol_log_flushed(shared.log), ALL);
        check_power_losses(ALL);
        ol_log_abandon(shared.log);
    }
    ol_fault_fs_free(shared.fs);
    fixture_remove(shared.root);
    return reached;
}

/* The pages that a failed flush lost count as clean: a second one would succeed, and acknowledge what the disk does not have. */
OL_TEST(a_close_whose_flush_meets_a_full_disk_makes_it_no_second_time) {
    int64_t nth = 1;
    while (close_with_failing_flush(nth)) nth++;
    printf("  %lld flushes of a close\n", (long long)(nth - 1));
    OL_CHECK(nth > 4);
}

/* ------------------------------------------------------------------------------------------------ the background */

static int (*plain_flush_range)(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error);
static bool background_fails;           /* the next flush of a range, which the background makes */
static pthread_t waiter;
static atomic_bool waiter_told;
static int waiter_status;
static int64_t waiter_flushed;

static void *wait_for_disk(void *context) {
    ol_error error;
    waiter_status = ol_log_flush(shared.log, &waiter_flushed, &error);
    atomic_store(&waiter_told, true);
    return context;
}

/* The kernel tells of a page that was lost only once, here to the background; meanwhile somebody else's flush of the same file succeeds. */
static int flush_range_failing(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error) {
    if (!background_fails) return plain_flush_range(file, data, from, to, error);
    background_fails = false;
    for (int i = 0; i < 12; i++) fixture_append(shared.log, fixture_plain(6000, 7));
    int64_t flushes = ol_fault_fs_flushes(shared.fs);
    ol_fault_fs_fail_flush(shared.fs, flushes + 1, EIO);
    int status = plain_flush_range(file, data, from, to, error);
    OL_CHECK_INT(status, OL_IO);
    OL_CHECK_INT(pthread_create(&waiter, NULL, wait_for_disk, NULL), 0);
    while (ol_fault_fs_flushes(shared.fs) < flushes + 2) usleep(1000);
    usleep(50000);
    OL_CHECK(!atomic_load(&waiter_told));
    return status;
}

OL_TEST(an_error_that_the_background_was_notified_of_is_not_flushed_over) {
    open_place(64 << 10);
    shared.options.config.append = OL_APPEND_MAPPED;
    plain_flush_range = shared.fs->flush_range;
    shared.log = fixture_open(&shared.options, NULL);
    fixture_append(shared.log, fixture_plain(50, 1));
    flush();
    for (int i = 0; i < 6; i++) fixture_append(shared.log, fixture_plain(6000, 2));
    int64_t acknowledged = flush();
    shared.fs->flush_range = flush_range_failing;
    background_fails = true;
    for (int i = 0; i < 5 && background_fails; i++) (void)ol_log_prepare(shared.log);
    OL_CHECK(!background_fails);
    pthread_join(waiter, NULL);
    OL_CHECK_INT(waiter_status, OL_FAILED);
    OL_CHECK_INT(waiter_flushed, acknowledged);
    OL_CHECK(ol_log_has_failed(shared.log));
    check_power_losses(acknowledged);
    leave_place();
}

/* ------------------------------------------------------------------------------------- writes that are begun before */

static int begun;
static int begin_status;
static int64_t begun_from, begun_to;

static int note_begun(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error) {
    (void)file;
    (void)data;
    begun++;
    begun_from = from;
    begun_to = to;
    return begin_status == OL_OK ? OL_OK : ol_fail(error, begin_status, "the disk does not write");
}

/* While a flush runs, which writes the same. */
static int flush_range_beside_another(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error) {
    ol_log_begin_flush(shared.log);
    return plain_flush_range(file, data, from, to, error);
}

OL_TEST(what_a_flush_would_write_is_begun_once_it_is_known) {
    open_place(64 << 10);
    shared.options.config.append = OL_APPEND_MAPPED;
    shared.log = fixture_open(&shared.options, NULL);
    plain_flush_range = shared.fs->flush_range;
    ol_log_begin_flush(shared.log);     /* a file system that cannot */
    shared.fs->begin_flush_range = note_begun;
    shared.fs->flush_range = flush_range_beside_another;
    fixture_append(shared.log, fixture_plain(50, 1));
    ol_log_begin_flush(shared.log);
    OL_CHECK_INT(begun, 0);             /* anything of the file may be dirty before the first flush */
    flush();
    int64_t end = flush();
    ol_log_begin_flush(shared.log);
    OL_CHECK_INT(begun, 0);
    fixture_append(shared.log, fixture_plain(50, 2));
    ol_log_begin_flush(shared.log);
    OL_CHECK_INT(begun, 1);
    OL_CHECK(begun_from > 0 && begun_to > begun_from);
    int64_t from = begun_to;
    check_power_losses(end);            /* it makes nothing durable */
    fixture_append(shared.log, fixture_plain(50, 3));
    flush();
    OL_CHECK_INT(begun, 1);
    fixture_append(shared.log, fixture_plain(50, 4));
    ol_log_begin_flush(shared.log);
    OL_CHECK_INT(begun, 2);
    OL_CHECK(begun_from > from);
    leave_place();
}

/* The pages may be lost and count as clean: a flush would succeed. */
OL_TEST(a_log_whose_writes_cannot_be_begun_has_failed) {
    open_place(64 << 10);
    shared.options.config.append = OL_APPEND_MAPPED;
    shared.log = fixture_open(&shared.options, NULL);
    shared.fs->begin_flush_range = note_begun;
    fixture_append(shared.log, fixture_plain(50, 1));
    int64_t acknowledged = flush();
    fixture_append(shared.log, fixture_plain(50, 2));
    begin_status = OL_IO;
    ol_log_begin_flush(shared.log);
    begin_status = OL_OK;
    OL_CHECK(ol_log_has_failed(shared.log));
    ol_error error;
    int64_t flushed;
    OL_CHECK_INT(ol_log_flush(shared.log, &flushed, &error), OL_FAILED);
    OL_CHECK_INT(flushed, acknowledged);
    check_power_losses(acknowledged);
    leave_place();
}

OL_TEST_MAIN()
