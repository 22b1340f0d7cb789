/* ol_log_roll: the note of a roll, what the old segment becomes, what the next one starts as, and a roll that fails at every operation. */
#include <errno.h>

#include "testing/fault_fs.h"
#include "log/log_impl.h"
#include "log/swap_plan.h"
#include "recovery_fixture.h"

#define SECOND_LOG "00000000000000000003.log"
#define NOTE "offsetlog.rolled-0-%lld-3"

static void roll(ol_log *log, int64_t base_offset) {
    ol_error error;
    OL_CHECK_OK(ol_log_roll(log, base_offset, &error), &error);
}

static int64_t size_of_three(void) {
    fixture_batch plain = fixture_plain(100, 0);
    return 3 * (int64_t)fixture_batch_size(&plain);
}

static void note_of_three(char name[128]) { snprintf(name, 128, NOTE, (long long)size_of_three()); }

OL_TEST(the_name_of_a_note_says_what_was_rolled) {
    static const int64_t values[] = {0, 1, 4096, INT32_MAX, INT64_MAX};
    char name[128];
    for (size_t i = 0; i < 125; i++) {
        int64_t base = values[i % 5], size = values[i / 5 % 5], next = values[i / 25];
        int64_t found_base = -1, found_size = -1, found_next = -1;
        OL_CHECK_INT(ol_log_rolled_name(name, sizeof name, base, size, next), OL_OK);
        OL_CHECK(ol_log_rolled_parse(name, &found_base, &found_size, &found_next));
        OL_CHECK(found_base == base && found_size == size && found_next == next);
        size_t length = strlen(name);
        OL_CHECK_INT(ol_log_rolled_name(name, length, base, size, next), OL_INVALID);
        OL_CHECK_INT(ol_log_rolled_name(name, length + 1, base, size, next), OL_OK);
    }
}

OL_TEST(a_name_that_is_no_note_is_none) {
    static const char *const names[] = {
        "", "offsetlog.rolled", "offsetlog.rolled-", "offsetlog.rolled-1", "offsetlog.rolled-1-", "offsetlog.rolled-1-2",
        "offsetlog.rolled-1-2-", "offsetlog.rolled-1-2-3-", "offsetlog.rolled-1-2-3-4", "offsetlog.rolled-1-2-3x", "offsetlog.rolled--1-2-3",
        "offsetlog.rolled-1--2-3", "offsetlog.rolled-1-2- 3", "offsetlog.rolled-1-+2-3", "offsetlog.rolled-1-2-9223372036854775808",
        "offsetlog.rolled-1-2-99999999999999999999999", "offsetlog.cut-1-2-3", "xoffsetlog.rolled-1-2-3",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t base, size, next;
        if (ol_log_rolled_parse(names[i], &base, &size, &next)) fprintf(stderr, "\"%s\" was taken for a note\n", names[i]);
        OL_CHECK(!ol_log_rolled_parse(names[i], &base, &size, &next));
    }
}

OL_TEST(a_roll_trims_the_old_segment_and_leaves_a_note_until_it_is_flushed) {
    place p;
    char note[128];
    place_make(&p);
    note_of_three(note);
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 3, 100);
    OL_CHECK(fixture_size(p.path, FIRST_LOG) > size_of_three());
    roll(log, 3);
    OL_CHECK_INT(fixture_size(p.path, FIRST_LOG), size_of_three());
    OL_CHECK_INT(fixture_size(p.path, "00000000000000000000.index"), 0);
    OL_CHECK_INT(fixture_size(p.path, "00000000000000000000.timeindex"), 12);
    OL_CHECK(fixture_exists(p.path, "00000000000000000003.snapshot"));
    OL_CHECK(fixture_exists(p.path, SECOND_LOG));
    OL_CHECK(fixture_exists(p.path, note));
    OL_CHECK_INT(ol_log_end(log), 3);
    /* A roll is no flush, and a flush has nothing to do before something is appended. */
    OL_CHECK_INT(ol_log_flushed(log), 0);
    OL_CHECK_INT(fixture_append(log, fixture_plain(100, 3)), 3);
    OL_CHECK_INT(flush(log), 4);
    OL_CHECK(!fixture_exists(p.path, note));
    fixture_close(log);
    log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(log), 4);
    fixture_close(log);
    fixture_remove(p.root);
}

/* A note that is still there says that the end of a segment is missing.  The loss counts where no flush covered the
 * segment; where one did, the note is an old one, somebody else compacted the segment since, and the gap is legal. */
OL_TEST(a_note_tells_a_lost_end_from_a_compacted_one_by_what_was_flushed) {
    enum { LOST, COMPACTED_BY_CHECKPOINT, COMPACTED_BY_SIDECAR, CASES };
    for (int which = 0; which < CASES; which++) {
        place p;
        char note[128], path[OL_PATH_MAX];
        ol_log_recovery recovery;
        place_make(&p);
        note_of_three(note);
        ol_log *log = fixture_open(&p.options, NULL);
        append_many(log, 3, 100);
        roll(log, 3);
        append_many(log, 2, 100);
        if (which == COMPACTED_BY_SIDECAR) OL_CHECK_INT(flush(log), 5);
        ol_log_abandon(log);
        fixture_join(path, p.path, note);
        fixture_write(path, "", 0);
        fixture_join(path, p.path, FIRST_LOG);
        OL_CHECK(truncate(path, 2 * (size_of_three() / 3)) == 0);
        if (which == COMPACTED_BY_CHECKPOINT) p.options.recovery_point = 5;
        log = fixture_open(&p.options, &recovery);
        OL_CHECK(!recovery.corrupt);
        OL_CHECK_INT(ol_log_end(log), which == LOST ? 2 : 5);
        OL_CHECK_INT(recovery.segments_removed, which == LOST);
        OL_CHECK_INT(fixture_count(p.path, "broken-") > 0, which == LOST);
        fixture_close(log);
        fixture_remove(p.root);
    }
}

OL_TEST(an_empty_segment_is_not_rolled) {
    place p;
    ol_error error;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_roll(log, 0, &error), OL_TOO_LARGE);
    append_many(log, 3, 100);
    roll(log, 3);
    OL_CHECK_INT(ol_log_roll(log, 3, &error), OL_TOO_LARGE);
    OL_CHECK_INT(fixture_append(log, fixture_plain(100, 3)), 3);
    fixture_close(log);
    fixture_remove(p.root);
}

/* A follower's next batch may lie after a gap; the segment is named after it. */
OL_TEST(the_next_segment_begins_where_its_first_batch_does) {
    place p;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 3, 100);
    roll(log, 70);
    OL_CHECK(fixture_exists(p.path, "00000000000000000070.log"));
    OL_CHECK_INT(log->tail.active->base_offset, 70);
    OL_CHECK_INT(log->tail.size, 0);
    OL_CHECK_INT(log->tail.timestamp_limit, INT64_MAX);
    OL_CHECK_INT(log->tail.offset_limit, 70 + (int64_t)INT32_MAX);
    fixture_close(log);
    fixture_remove(p.root);
}

/* Indexes of an earlier life, which say something about batches that are not there. */
OL_TEST(leftover_indexes_of_the_next_segment_do_not_speak_for_it) {
    place p;
    char path[OL_PATH_MAX];
    uint8_t garbage[96];
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 3, 100);
    memset(garbage, 1, sizeof garbage);
    fixture_join(path, p.path, "00000000000000000003.index");
    fixture_write(path, garbage, sizeof garbage);
    fixture_join(path, p.path, "00000000000000000003.timeindex");
    fixture_write(path, garbage, sizeof garbage);
    fixture_join(path, p.path, SECOND_LOG);
    fixture_write(path, garbage, sizeof garbage);
    roll(log, 3);
    fixture_append(log, fixture_plain(100, 3));
    fixture_close(log);
    OL_CHECK_INT(fixture_size(p.path, "00000000000000000003.index"), 0);
    OL_CHECK_INT(fixture_size(p.path, "00000000000000000003.timeindex"), 12);
    OL_CHECK_INT(fixture_size(p.path, SECOND_LOG), size_of_three() / 3);
    fixture_remove(p.root);
}

OL_TEST(spares_become_segments_and_the_rest_is_dropped) {
    place p;
    ol_error error;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 3, 100);
    OL_CHECK_OK(ol_log_reserve_space(log, 150 << 10, 5000, &error), &error);
    int spares = fixture_count(p.path, "offsetlog.spare-");
    OL_CHECK_INT(log->extension.spare_count, spares);
    OL_CHECK(spares >= 2);
    roll(log, 3);
    OL_CHECK_INT(fixture_count(p.path, "offsetlog.spare-"), spares - 1);
    /* Its blocks are there already. */
    OL_CHECK_INT(fixture_size(p.path, SECOND_LOG), 64 << 10);
    OL_CHECK_INT(fixture_append(log, fixture_plain(100, 3)), 3);
    pthread_mutex_lock(&log->extension.lock);
    OL_CHECK_OK(ol_log_drop_spares(log, &error), &error);
    pthread_mutex_unlock(&log->extension.lock);
    OL_CHECK_INT(fixture_count(p.path, "offsetlog.spare-"), 0);
    fixture_append(log, fixture_plain(100, 4));
    roll(log, 5);
    fixture_append(log, fixture_plain(100, 5));
    fixture_close(log);
    log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(log), 6);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(room_that_no_segment_has_is_refused) {
    place p;
    ol_error error;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_reserve_space(log, -1, 100, &error), OL_INVALID);
    OL_CHECK_INT(ol_log_reserve_space(log, 1000, 0, &error), OL_INVALID);
    OL_CHECK_INT(ol_log_reserve_space(log, 1000, (64 << 10) + 1, &error), OL_INVALID);
    OL_CHECK_OK(ol_log_reserve_space(log, 1000, 64 << 10, &error), &error);
    OL_CHECK_INT(fixture_count(p.path, "offsetlog.spare-"), 0);
    fixture_close(log);
    fixture_remove(p.root);
}

/* Whichever of its operations fails, the log goes on where it was, and the roll succeeds when it is tried again. */
OL_TEST(a_roll_that_fails_leaves_the_log_as_it_was) {
    for (int with_spare = 0; with_spare < 2; with_spare++) {
        int64_t failures = 0;
        for (int64_t nth = 1;; nth++) {
            place p;
            ol_error error;
            ol_fs *fs = NULL;
            place_make(&p);
            OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
            p.options.fs = fs;
            ol_log *log = fixture_open(&p.options, NULL);
            append_many(log, 3, 100);
            if (with_spare) OL_CHECK_OK(ol_log_reserve_space(log, 100 << 10, 5000, &error), &error);
            ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + nth, EIO);
            int64_t before = ol_fault_fs_operations(fs);
            int status = ol_log_roll(log, 3, &error);
            bool done = ol_fault_fs_operations(fs) < before + nth;
            ol_fault_fs_fail_at(fs, 0, 0);
            if (status != OL_OK) {
                failures++;
                OL_CHECK_INT(status, OL_IO);
                OL_CHECK(!ol_log_has_failed(log));
                OL_CHECK_INT(log->tail.active->base_offset, 0);
                OL_CHECK_INT(log->list.count, 1);
                OL_CHECK_INT(ol_log_end(log), 3);
                roll(log, 3);
            }
            OL_CHECK_INT(log->tail.active->base_offset, 3);
            OL_CHECK_INT(fixture_size(p.path, FIRST_LOG), size_of_three());
            OL_CHECK_INT(fixture_append(log, fixture_plain(100, 3)), 3);
            OL_CHECK_INT(flush(log), 4);
            fixture_close(log);
            log = fixture_open(&p.options, NULL);
            OL_CHECK_INT(ol_log_end(log), 4);
            size_t size;
            free(fixture_read_log(log, 0, 1 << 16, &size));
            OL_CHECK_INT(size, size_of_three() / 3 * 4);
            fixture_close(log);
            ol_fault_fs_free(fs);
            fixture_remove(p.root);
            if (done) break;
        }
        OL_CHECK(failures >= 4);
    }
}

/* The segment goes on over the base of the one that did not come to be: nothing of that may be found by the next open. */
OL_TEST(a_log_grows_on_over_a_roll_that_failed) {
    for (int64_t nth = 1;; nth++) {
        place p;
        ol_error error;
        ol_fs *fs = NULL;
        place_make(&p);
        OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
        p.options.fs = fs;
        ol_log *log = fixture_open(&p.options, NULL);
        append_many(log, 3, 100);
        ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + nth, EIO);
        int status = ol_log_roll(log, 3, &error);
        ol_fault_fs_fail_at(fs, 0, 0);
        if (status != OL_OK) {
            char note[128];
            note_of_three(note);
            OL_CHECK_INT(fixture_append(log, fixture_plain(100, 3)), 3);
            OL_CHECK_INT(flush(log), 4);
            OL_CHECK(!fixture_exists(p.path, note));
            OL_CHECK(!fixture_exists(p.path, SECOND_LOG));
        }
        ol_log_abandon(log);
        ol_log_recovery recovery;
        log = fixture_open(&p.options, &recovery);
        OL_CHECK(!recovery.corrupt);
        OL_CHECK_INT(ol_log_end(log), status == OL_OK ? 3 : 4);
        fixture_close(log);
        ol_fault_fs_free(fs);
        fixture_remove(p.root);
        if (status == OL_OK) break;
    }
}

/* One more batch, and another that ends where the file does: no zeros tell where the segment ended. */
static void grow_to_end_of_file(ol_log *log) {
    fixture_batch batch = fixture_plain(1000, 3);
    fixture_append(log, batch);
    size_t room = (size_t)(log->tail.active->extended - log->tail.size);
    batch.value_size = room - (fixture_batch_size(&batch) - batch.value_size);
    while (fixture_batch_size(&batch) > room) batch.value_size--;
    fixture_append(log, batch);
    OL_CHECK_INT(log->tail.size, log->tail.active->extended);
}

static void check_power_losses(ol_fs *fs, const place *p, int64_t acknowledged) {
    for (uint64_t seed = 1; seed <= 100; seed++) {
        char target[OL_PATH_MAX];
        char path[OL_PATH_MAX];
        ol_error error;
        ol_log_recovery recovery;
        fixture_directory(target);
        OL_CHECK_OK(ol_fault_fs_materialize(fs, target, seed, &error), &error);
        fixture_join(path, target, "__consumer_offsets-0");
        ol_log_options options = fixture_options(path);
        options.config = p->options.config;
        ol_log *log = fixture_open(&options, &recovery);
        OL_CHECK(!recovery.corrupt);
        OL_CHECK(ol_log_end(log) >= acknowledged);
        fixture_close(log);
        fixture_remove(target);
    }
}

/* The names of what did not come to be may be on disk when it is removed again, and so they are there after a power loss, unless a flush has
 * covered the removal. */
OL_TEST(a_power_loss_does_not_bring_back_a_roll_that_failed) {
    for (int64_t nth = 1;; nth++) {
        place p;
        ol_error error;
        ol_fs *fs = NULL;
        place_make(&p);
        OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
        p.options.fs = fs;
        ol_log *log = fixture_open(&p.options, NULL);
        append_many(log, 3, 100);
        flush(log);
        ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + nth, ENOSPC);
        int status = ol_log_roll(log, 3, &error);
        ol_fault_fs_fail_at(fs, 0, 0);
        if (status != OL_OK) {
            grow_to_end_of_file(log);
            check_power_losses(fs, &p, flush(log));
        }
        ol_log_abandon(log);
        ol_fault_fs_free(fs);
        fixture_remove(p.root);
        if (status == OL_OK) break;
    }
}

/* A commit that is refused for a full disk must not keep it full. */
OL_TEST(room_that_was_not_found_is_given_back) {
    int refused = 0;
    for (int64_t nth = 1;; nth++) {
        place p;
        ol_error error;
        ol_fs *fs = NULL;
        place_make(&p);
        OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
        p.options.fs = fs;
        ol_log *log = fixture_open(&p.options, NULL);
        append_many(log, 3, 100);
        OL_CHECK_OK(ol_log_reserve_space(log, 80 << 10, 5000, &error), &error);
        size_t spares_before = log->extension.spare_count;
        OL_CHECK(spares_before > 0);
        ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + nth, ENOSPC);
        int status = ol_log_reserve_space(log, 400 << 10, 5000, &error);
        ol_fault_fs_fail_at(fs, 0, 0);
        if (status != OL_OK) {
            refused++;
            OL_CHECK_INT(status, OL_DISK_FULL);
            OL_CHECK_INT(log->extension.spare_count, spares_before);
            OL_CHECK_INT(fixture_count(p.path, OL_SPARE_PREFIX), (int)spares_before);
            /* The earlier segments are used as ever. */
            append_many(log, 100, 1000);
        }
        fixture_close(log);
        ol_fault_fs_free(fs);
        fixture_remove(p.root);
        if (status == OL_OK) break;
    }
    OL_CHECK(refused > 3);
}

static int open_files(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    OL_CHECK(directory != NULL);
    while (readdir(directory) != NULL) count++;
    closedir(directory);
    return count;
}

OL_TEST(segments_that_nobody_flushes_do_not_keep_their_files_open) {
    place p;
    place_make(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 1, 100);
    int before = open_files();
    int64_t end = 1;
    for (int i = 0; i < 10 * OL_UNFLUSHED_MAX; i++) {
        roll(log, end);
        append_many(log, 1, 100);
        end++;
        OL_CHECK(ol_log_count_unflushed(log) <= OL_UNFLUSHED_MAX);
        OL_CHECK(open_files() - before <= 4 * OL_UNFLUSHED_MAX + 2);
    }
    OL_CHECK(ol_log_flushed(log) > 0);
    /* Nobody waits for the disk, so extensions are not flushed ahead. */
    OL_CHECK(!atomic_load(&log->signals.flush_demanded));
    OL_CHECK(ol_log_wants_flush(log));
    OL_CHECK_INT(flush(log), end);
    OL_CHECK(!ol_log_wants_flush(log));
    OL_CHECK(open_files() - before <= 2);
    fixture_close(log);
    log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(log), end);
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(a_roll_whose_flush_fails_fails_the_log) {
    place p;
    ol_error error;
    ol_fs *fs = NULL;
    place_make(&p);
    OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
    p.options.fs = fs;
    ol_log *log = fixture_open(&p.options, NULL);
    append_many(log, 1, 100);
    for (int i = 1; i <= OL_UNFLUSHED_MAX; i++) {
        roll(log, i);
        append_many(log, 1, 100);
    }
    OL_CHECK_INT(ol_log_flushed(log), 0);
    ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + 1, EIO);
    OL_CHECK_INT(ol_log_roll(log, OL_UNFLUSHED_MAX + 1, &error), OL_IO);
    ol_fault_fs_fail_at(fs, 0, 0);
    OL_CHECK(ol_log_has_failed(log));
    OL_CHECK_INT(ol_log_end(log), OL_UNFLUSHED_MAX + 1);
    ol_log_abandon(log);
    log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(log), OL_UNFLUSHED_MAX + 1);
    fixture_close(log);
    ol_fault_fs_free(fs);
    fixture_remove(p.root);
}

OL_TEST_MAIN()
