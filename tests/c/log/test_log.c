#include <errno.h>
#include <sys/wait.h>

#include "log/log_impl.h"
#include "log_fixture.h"
#include "testing/fault_fs.h"

OL_TEST(appends_and_reads_back) {
    char directory[OL_PATH_MAX];
    char path[OL_PATH_MAX];
    fixture_directory(directory);
    fixture_join(path, directory, "__consumer_offsets-3");
    ol_log_options options = fixture_options(path);
    ol_log *log = fixture_open(&options, NULL);
    OL_CHECK_INT(ol_log_end(log), 0);
    size_t written = 0;
    for (int i = 0; i < 2000; i++) {
        fixture_batch batch = fixture_plain(20 + (size_t)i % 300, (uint64_t)i);
        written += fixture_batch_size(&batch);
        OL_CHECK_INT(fixture_append(log, batch), i);
    }
    OL_CHECK_INT(ol_log_end(log), 2000);
    OL_CHECK_INT(ol_log_flushed(log), 0);
    size_t size = 0;
    uint8_t *bytes = fixture_read_log(log, 0, 10000, &size);
    OL_CHECK_INT(size, written);
    ol_log_segment_info info;
    size_t segments = 0;
    while (ol_log_segment_at(log, segments, &info)) segments++;
    OL_CHECK(segments > 3);
    ol_error error;
    int64_t flushed = 0;
    OL_CHECK_OK(ol_log_flush(log, &flushed, &error), &error);
    OL_CHECK_INT(flushed, 2000);
    fixture_close(log);
    log = fixture_open(&options, NULL);
    OL_CHECK_INT(ol_log_end(log), 2000);
    size_t again_size = 0;
    uint8_t *again = fixture_read_log(log, 0, 1 << 20, &again_size);
    OL_CHECK_INT(again_size, size);
    OL_CHECK(memcmp(bytes, again, size) == 0);
    free(again);
    free(bytes);
    fixture_close(log);
    fixture_remove(directory);
}

typedef struct place {
    char root[OL_PATH_MAX];
    char path[OL_PATH_MAX];
    ol_log_options options;
    ol_log *log;
} place;

static void place_make_as(place *p, ol_append append) {
    fixture_directory(p->root);
    fixture_join(p->path, p->root, "__consumer_offsets-0");
    p->options = fixture_options(p->path);
    p->options.config.append = append;
    p->log = fixture_open(&p->options, NULL);
}

static void place_make(place *p) { place_make_as(p, fixture_append_way()); }

static void place_remove(place *p) {
    fixture_close(p->log);
    fixture_remove(p->root);
}

static size_t segment_count(const ol_log *log) {
    ol_log_segment_info info;
    size_t count = 0;
    while (ol_log_segment_at(log, count, &info)) count++;
    return count;
}

OL_TEST(a_log_with_one_small_batch_is_small_on_disk) {
    place p;
    ol_error error;
    fixture_directory(p.root);
    fixture_join(p.path, p.root, "__consumer_offsets-0");
    p.options = fixture_options(p.path);
    ol_log_config_init(&p.options.config);
    p.log = fixture_open(&p.options, NULL);
    OL_CHECK(!ol_log_prepare(p.log));           /* nothing is made ahead for a log that is only open */
    fixture_append(p.log, fixture_plain(50, 1));
    int64_t flushed;
    OL_CHECK_OK(ol_log_flush(p.log, &flushed, &error), &error);
    int64_t bytes = fixture_size(p.path, "00000000000000000000.log") + fixture_size(p.path, OL_FLUSH_SIDECAR_FILE);
    OL_CHECK(bytes <= (64 << 10) + 4096);
    place_remove(&p);
}

OL_TEST(the_background_makes_reserving_free_of_system_calls) {
    place p;
    place_make_as(&p, OL_APPEND_MAPPED);
    OL_CHECK(!ol_log_is_prepared(p.log, 200, 0, 1700000000000));
    fixture_append(p.log, fixture_plain(50, 1));
    while (ol_log_prepare(p.log)) continue;
    OL_CHECK(ol_log_is_prepared(p.log, 200, 0, 1700000000000));
    for (int i = 0; i < 600; i++) {
        fixture_append(p.log, fixture_plain(50, 1));
        while (ol_log_prepare(p.log)) continue;
    }
    OL_CHECK(segment_count(p.log) > 1);
    /* Near the end of a segment the next one lies ready, under a name that begins with no digit. */
    bool spare = false;
    for (int i = 0; i < 600 && !spare; i++) {
        fixture_append(p.log, fixture_plain(50, 1));
        while (ol_log_prepare(p.log)) continue;
        spare = fixture_count(p.path, "offsetlog.spare-") == 1;
    }
    OL_CHECK(spare);
    fixture_close(p.log);
    OL_CHECK_INT(fixture_count(p.path, "offsetlog.spare-"), 0);
    p.log = fixture_open(&p.options, NULL);
    place_remove(&p);
}

OL_TEST(a_reservation_that_is_not_published_is_forgotten) {
    place p;
    ol_error error;
    uint8_t *first, *second;
    int64_t base;
    place_make(&p);
    OL_CHECK_OK(ol_log_reserve(p.log, 200, 0, 1, &first, &base, &error), &error);
    memset(first, 7, 200);
    memset(first, 0, 200);
    OL_CHECK_OK(ol_log_reserve(p.log, 100, 0, 1, &second, &base, &error), &error);
    OL_CHECK(first == second);
    OL_CHECK_INT(base, 0);
    OL_CHECK_INT(ol_log_reserve(p.log, (64 << 10) + 1, 0, 1, &second, &base, &error), OL_TOO_LARGE);
    OL_CHECK_INT(ol_log_reserve(p.log, 100, -1, 1, &second, &base, &error), OL_INVALID);
    OL_CHECK_INT(ol_log_end(p.log), 0);
    place_remove(&p);
}

OL_TEST(a_segment_is_rolled_by_time_and_by_offsets) {
    place p;
    place_make(&p);
    fixture_close(p.log);
    p.options.config.segment_ms = 1000;
    p.log = fixture_open(&p.options, NULL);
    fixture_batch batch = fixture_plain(10, 1);
    fixture_append(p.log, batch);
    batch.timestamp += 1000;
    fixture_append(p.log, batch);
    OL_CHECK_INT(segment_count(p.log), 1);
    batch.timestamp += 1;
    fixture_append(p.log, batch);
    OL_CHECK_INT(segment_count(p.log), 2);
    batch.count = INT32_MAX;
    fixture_append(p.log, batch);
    fixture_append(p.log, batch);
    OL_CHECK_INT(segment_count(p.log), 3);
    OL_CHECK_INT(ol_log_end(p.log), 3 + 2 * (int64_t)INT32_MAX);
    OL_CHECK(fixture_exists(p.path, "00000000000000000002.snapshot"));
    place_remove(&p);
}

OL_TEST(the_last_segment_of_all_ends_below_the_greatest_number) {
    place p;
    ol_error error;
    char from[OL_PATH_MAX];
    char to[OL_PATH_MAX];
    uint8_t data[256];
    uint8_t *start;
    int64_t base;
    fixture_batch batch = fixture_plain(10, 1);
    size_t size = fixture_batch_size(&batch);
    place_make(&p);
    fixture_close(p.log);
    fixture_join(from, p.path, "00000000000000000000.log");
    fixture_join(to, p.path, "09223372036854775802.log");
    OL_CHECK_INT(rename(from, to), 0);
    p.log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(p.log), INT64_MAX - 5);
    while (ol_log_prepare(p.log)) continue;
    batch.base_offset = INT64_MAX - 5;
    batch.count = 6;
    fixture_encode(&batch, data);
    OL_CHECK_INT(ol_log_append(p.log, data, size, &error), OL_CORRUPT);
    OL_CHECK_INT(ol_log_reserve(p.log, size, 5, batch.timestamp, &start, &base, &error), OL_TOO_LARGE);
    batch.count = 5;
    fixture_encode(&batch, data);
    OL_CHECK_OK(ol_log_append(p.log, data, size, &error), &error);
    OL_CHECK_INT(ol_log_end(p.log), INT64_MAX);
    OL_CHECK_INT(segment_count(p.log), 1);
    OL_CHECK_INT(ol_log_reserve(p.log, size, 0, batch.timestamp, &start, &base, &error), OL_TOO_LARGE);
    fixture_close(p.log);
    p.log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(p.log), INT64_MAX);
    place_remove(&p);
}

OL_TEST(a_follower_appends_batches_as_they_are_or_nothing) {
    place p;
    ol_error error;
    uint8_t data[4096];
    size_t size = 0;
    place_make(&p);
    for (int i = 0; i < 5; i++) {
        fixture_batch batch = fixture_plain(100, (uint64_t)i);
        batch.base_offset = 10 + 3 * i;                 /* with gaps: the leader's log was cleaned */
        batch.leader_epoch = i / 2;
        fixture_encode(&batch, data + size);
        size += fixture_batch_size(&batch);
    }
    data[size - 3] ^= 1;
    OL_CHECK_INT(ol_log_append(p.log, data, size, &error), OL_CORRUPT);
    OL_CHECK_INT(error.position, 4 * (int64_t)(size / 5));
    OL_CHECK_INT(ol_log_end(p.log), 0);
    data[size - 3] ^= 1;
    OL_CHECK_INT(ol_log_append(p.log, data, size - 1, &error), OL_CORRUPT);
    OL_CHECK_OK(ol_log_append(p.log, data, size, &error), &error);
    OL_CHECK_INT(ol_log_end(p.log), 23);
    OL_CHECK_INT(ol_log_leader_epoch(p.log), 2);
    OL_CHECK_INT(ol_log_append(p.log, data, size, &error), OL_CORRUPT);
    int32_t epoch;
    int64_t end;
    ol_log_end_for_epoch(p.log, 1, &epoch, &end);
    OL_CHECK_INT(epoch, 1);
    OL_CHECK_INT(end, 22);
    size_t read;
    uint8_t *bytes = fixture_read_log(p.log, 0, 200, &read);
    OL_CHECK_INT(read, size);
    OL_CHECK(memcmp(bytes, data, size) == 0);
    free(bytes);
    place_remove(&p);
}

OL_TEST(an_older_leader_epoch_is_fenced) {
    place p;
    ol_error error;
    place_make(&p);
    OL_CHECK_INT(ol_log_leader_epoch(p.log), -1);
    OL_CHECK_OK(ol_log_assign_epoch(p.log, 3, &error), &error);
    OL_CHECK_INT(ol_log_assign_epoch(p.log, 2, &error), OL_FENCED_LEADER_EPOCH);
    OL_CHECK_OK(ol_log_assign_epoch(p.log, 3, &error), &error);
    fixture_close(p.log);
    p.log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_leader_epoch(p.log), 3);        /* kept although nothing was written in it */
    place_remove(&p);
}

OL_TEST(a_truncation_takes_producers_epochs_and_later_segments_along) {
    place p;
    ol_error error;
    place_make(&p);
    int64_t flushed;
    OL_CHECK_OK(ol_log_assign_epoch(p.log, 1, &error), &error);
    for (int i = 0; i < 300; i++) fixture_append(p.log, fixture_plain(500, 1));
    fixture_batch batch = fixture_plain(50, 1);
    batch.producer_id = 7;
    batch.producer_epoch = 0;
    batch.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    int64_t transaction = fixture_append(p.log, batch);
    fixture_append_marker(p.log, 7, OL_CONTROL_ABORT);
    OL_CHECK_OK(ol_log_assign_epoch(p.log, 2, &error), &error);
    fixture_append(p.log, fixture_plain(50, 1));
    OL_CHECK_OK(ol_log_flush(p.log, &flushed, &error), &error);
    OL_CHECK_INT(flushed, 303);
    OL_CHECK_OK(ol_log_truncate(p.log, 400, &error), &error);
    OL_CHECK_INT(ol_log_end(p.log), 303);
    OL_CHECK_OK(ol_log_truncate(p.log, transaction + 1, &error), &error);
    OL_CHECK_INT(ol_log_end(p.log), 301);
    OL_CHECK_INT(ol_log_flushed(p.log), 301);
    OL_CHECK_INT(ol_log_first_unstable(p.log), 300);
    OL_CHECK_INT(ol_log_leader_epoch(p.log), 1);
    OL_CHECK_OK(ol_log_truncate(p.log, 100, &error), &error);
    OL_CHECK_INT(ol_log_end(p.log), 100);
    OL_CHECK_INT(ol_log_first_unstable(p.log), 100);
    OL_CHECK_INT(segment_count(p.log), 1);
    OL_CHECK_INT(fixture_append(p.log, fixture_plain(50, 9)), 100);
    ol_log_abandon(p.log);
    p.log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(p.log), 101);
    size_t size;
    free(fixture_read_log(p.log, 0, 4096, &size));
    place_remove(&p);
}

OL_TEST(room_that_was_reserved_is_used_by_the_next_rolls) {
    place p;
    ol_error error;
    place_make(&p);
    fixture_append(p.log, fixture_plain(50, 1));
    OL_CHECK_OK(ol_log_reserve_space(p.log, 200 << 10, 5000, &error), &error);
    int spares = fixture_count(p.path, "offsetlog.spare-");
    OL_CHECK(spares >= 3);
    OL_CHECK_INT(fixture_size(p.path, "00000000000000000000.log"), 64 << 10);
    fixture_batch batch = fixture_plain(4900, 1);
    for (size_t written = 0; written + 5000 < (200u << 10); written += fixture_batch_size(&batch)) fixture_append(p.log, batch);
    OL_CHECK(segment_count(p.log) >= 3);
    OL_CHECK(fixture_count(p.path, "offsetlog.spare-") < spares);
    place_remove(&p);
}

OL_TEST(a_failed_flush_fails_the_log_until_it_is_opened_again) {
    place p;
    ol_error error;
    fixture_directory(p.root);
    fixture_join(p.path, p.root, "__consumer_offsets-0");
    p.options = fixture_options(p.path);
    ol_fs *fs = NULL;
    OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
    p.options.fs = fs;
    p.log = fixture_open(&p.options, NULL);
    fixture_append(p.log, fixture_plain(50, 1));
    ol_fault_fs_fail_flush(fs, ol_fault_fs_flushes(fs) + 1, EIO);
    int64_t flushed = 0;
    OL_CHECK_INT(ol_log_flush(p.log, &flushed, &error), OL_IO);
    OL_CHECK_INT(flushed, 0);
    OL_CHECK(ol_log_has_failed(p.log));
    uint8_t *start;
    int64_t base;
    OL_CHECK_INT(ol_log_reserve(p.log, 100, 0, 1, &start, &base, &error), OL_FAILED);
    OL_CHECK_INT(ol_log_flush(p.log, &flushed, &error), OL_FAILED);
    OL_CHECK_INT(ol_log_close(p.log, &error), OL_FAILED);
    ol_log_recovery recovery;
    p.log = fixture_open(&p.options, &recovery);
    OL_CHECK(recovery.rewritten_bytes > 0);
    OL_CHECK_INT(ol_log_end(p.log), 1);
    OL_CHECK_INT(ol_log_flushed(p.log), 1);
    fixture_close(p.log);
    ol_fault_fs_free(fs);
    fixture_remove(p.root);
}

static bool truncate_fails;

static int failing_truncate(ol_file *file, int64_t size, ol_error *error) {
    if (truncate_fails) return ol_fail_errno(error, EIO, "ftruncate", NULL);
    return ol_fs_posix()->truncate(file, size, error);
}

/* Creates a log of 50 batches in `fs`. */
static ol_log *fifty_batches(place *p, ol_fs *fs) {
    fixture_directory(p->root);
    fixture_join(p->path, p->root, "__consumer_offsets-0");
    p->options = fixture_options(p->path);
    p->options.fs = fs;
    ol_log *log = fixture_open(&p->options, NULL);
    for (int i = 0; i < 50; i++) fixture_append(log, fixture_plain(50, (uint64_t)i));
    return log;
}

OL_TEST(a_failed_truncation_fails_the_log_and_stops_its_readers) {
    place p;
    ol_fs fs = *ol_fs_posix();
    ol_error error;
    fs.truncate = failing_truncate;
    ol_log *log = fifty_batches(&p, &fs);
    ol_log_reader *readers[2];
    ol_log_piece piece;
    OL_CHECK_OK(ol_log_reader_open(log, 0, &readers[0], &error), &error);
    truncate_fails = true;
    OL_CHECK_INT(ol_log_truncate(log, 20, &error), OL_IO);
    truncate_fails = false;
    OL_CHECK(ol_log_has_failed(log));
    OL_CHECK_OK(ol_log_reader_open(log, 0, &readers[1], &error), &error);
    for (int i = 0; i < 2; i++) {
        alarm(20);
        OL_CHECK_INT(ol_log_reader_next(readers[i], 1 << 20, &piece, &error), OL_FAILED);
        ol_log_reader_close(readers[i]);
    }
    alarm(0);
    OL_CHECK(!ol_log_prepare(log));
    OL_CHECK_INT(ol_log_truncate(log, 10, &error), OL_FAILED);
    ol_log_abandon(log);
    log = fixture_open(&p.options, NULL);
    OL_CHECK(ol_log_end(log) == 50 || ol_log_end(log) == 20);
    fixture_close(log);
    fixture_remove(p.root);
}

typedef enum note_fault { NOTE_GOES, NOTE_STAYS, NOTE_MAY_COME_BACK } note_fault;

static bool disk_is_full;
static note_fault fault_of_note;

static int rename_on_full_disk(ol_fs *fs, const char *source, const char *target, ol_error *error) {
    if (!disk_is_full) return ol_fs_posix()->rename(fs, source, target, error);
    return ol_fail_errno(error, ENOSPC, "rename", target);
}

static int remove_with_fault(ol_fs *fs, const char *path, ol_error *error) {
    bool fails = fault_of_note == NOTE_STAYS && strstr(path, OL_CUT_PREFIX) != NULL;
    return fails ? ol_fail_errno(error, ENOSPC, "unlink", path) : ol_fs_posix()->remove(fs, path, error);
}

static int flush_directory_with_fault(ol_fs *fs, const char *path, ol_error *error) {
    if (fault_of_note != NOTE_MAY_COME_BACK) return ol_fs_posix()->flush_directory(fs, path, error);
    return ol_fail_errno(error, ENOSPC, "fsync", path);
}

/* "The disk is full" means that the log is unchanged. With a note, damage to later batches would not be reported. */
OL_TEST(a_truncation_on_a_full_disk_leaves_the_log_or_fails_it) {
    for (int fault = NOTE_GOES; fault <= NOTE_MAY_COME_BACK; fault++) {
        place p;
        ol_fs fs = *ol_fs_posix();
        ol_error error;
        fs.rename = rename_on_full_disk;
        fs.remove = remove_with_fault;
        fs.flush_directory = flush_directory_with_fault;
        ol_log *log = fifty_batches(&p, &fs);
        disk_is_full = true;
        fault_of_note = (note_fault)fault;
        int status = ol_log_truncate(log, 20, &error);
        disk_is_full = false;
        fault_of_note = NOTE_GOES;
        OL_CHECK_INT(status, fault == NOTE_GOES ? OL_DISK_FULL : OL_IO);
        OL_CHECK_INT(error.status, status);
        OL_CHECK(ol_log_has_failed(log) == (fault != NOTE_GOES));
        OL_CHECK_INT(ol_log_end(log), 50);
        OL_CHECK_INT(fixture_count(p.path, OL_CUT_PREFIX), fault == NOTE_STAYS);
        if (fault == NOTE_GOES) {
            fixture_append(log, fixture_plain(50, 50));
            fixture_close(log);
        } else {
            ol_log_abandon(log);
        }
        log = fixture_open(&p.options, NULL);
        OL_CHECK_INT(ol_log_end(log), fault == NOTE_GOES ? 51 : 50);
        OL_CHECK_INT(fixture_count(p.path, OL_CUT_PREFIX), 0);
        fixture_close(log);
        fixture_remove(p.root);
    }
}

OL_TEST(a_full_disk_changes_nothing) {
    place p;
    ol_error error;
    fixture_directory(p.root);
    fixture_join(p.path, p.root, "__consumer_offsets-0");
    p.options = fixture_options(p.path);
    ol_fs *fs = NULL;
    OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
    p.options.fs = fs;
    p.log = fixture_open(&p.options, NULL);
    int64_t end = 0;
    int refused = 0;
    for (int i = 0; i < 400; i++) {
        fixture_batch batch = fixture_plain(700, (uint64_t)i);
        ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + 1 + (int64_t)ol_test_below(9), ENOSPC);
        uint8_t *start;
        int status = ol_log_reserve(p.log, fixture_batch_size(&batch), 0, batch.timestamp, &start, &batch.base_offset, &error);
        ol_fault_fs_fail_at(fs, 0, 0);
        OL_CHECK(status == OL_OK || status == OL_DISK_FULL);
        if (status != OL_OK) {
            refused++;
            OL_CHECK_INT(ol_log_end(p.log), end);
            continue;
        }
        ol_batch_fields fields = fixture_encode(&batch, start);
        OL_CHECK_OK(ol_log_publish(p.log, &fields, fixture_batch_size(&batch), &error), &error);
        end = ol_log_end(p.log);
    }
    OL_CHECK(refused > 3);
    OL_CHECK(!ol_log_has_failed(p.log));
    OL_CHECK(segment_count(p.log) > 2);
    size_t size;
    free(fixture_read_log(p.log, 0, 1 << 16, &size));
    OL_CHECK_INT(size % fixture_batch_size(&(fixture_batch){.value_size = 700, .flushed_note = -1}), 0);
    fixture_close(p.log);
    p.log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(p.log), end);
    fixture_close(p.log);
    ol_fault_fs_free(fs);
    fixture_remove(p.root);
}

OL_TEST(pages_that_cannot_be_faulted_in_are_the_error_of_their_batch) {
    place p;
    ol_error error;
    fixture_directory(p.root);
    fixture_join(p.path, p.root, "__consumer_offsets-0");
    p.options = fixture_options(p.path);
    p.options.config.append = OL_APPEND_MAPPED;
    ol_fs *fs = NULL;
    OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
    p.options.fs = fs;
    p.log = fixture_open(&p.options, NULL);
    int refused = 0;
    for (int i = 0; i < 400; i++) {
        fixture_batch batch = fixture_plain(700, (uint64_t)i);
        int64_t end = ol_log_end(p.log);
        int sys_errno = i % 2 ? ENOSPC : EIO;
        ol_fault_fs_fail_populate(fs, ol_fault_fs_populates(fs) + 1, sys_errno);
        int status = fixture_try_append(p.log, &batch, &error);
        if (status != OL_OK) {
            refused++;
            OL_CHECK_INT(status, sys_errno == ENOSPC ? OL_DISK_FULL : OL_IO);
            OL_CHECK_INT(ol_log_end(p.log), end);
            /* The background meets it as well, and the log goes on. */
            ol_fault_fs_fail_populate(fs, ol_fault_fs_populates(fs) + 1, sys_errno);
            (void)ol_log_prepare(p.log);
            ol_fault_fs_fail_populate(fs, 0, 0);
            OL_CHECK_OK(fixture_try_append(p.log, &batch, &error), &error);
        }
        OL_CHECK_INT(ol_log_end(p.log), end + 1);
    }
    OL_CHECK(refused > 10);
    OL_CHECK(segment_count(p.log) > 2);
    size_t size;
    free(fixture_read_log(p.log, 0, 1 << 16, &size));
    OL_CHECK(!ol_log_has_failed(p.log));
    fixture_close(p.log);
    p.log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(p.log), 400);
    fixture_close(p.log);
    ol_fault_fs_free(fs);
    fixture_remove(p.root);
}

OL_TEST(a_forked_child_lets_go_without_touching_anything) {
    place p;
    place_make(&p);
    fixture_append(p.log, fixture_plain(50, 1));
    fflush(stdout);
    pid_t child = fork();
    OL_CHECK(child >= 0);
    if (child == 0) {
        ol_log_abandon(p.log);
        _exit(0);
    }
    int status = 0;
    OL_CHECK(waitpid(child, &status, 0) == child);
    OL_CHECK_INT(status, 0);
    OL_CHECK_INT(fixture_append(p.log, fixture_plain(50, 2)), 1);
    place_remove(&p);
}

/* The first batch of a segment is of 1700000000000; what would start the next segment has work to do, whatever lies ready. */
OL_TEST(nothing_is_prepared_for_a_batch_that_rolls) {
    place p;
    ol_error error;
    place_make_as(&p, OL_APPEND_MAPPED);
    int64_t limit = 1700000000000 + p.options.config.segment_ms;
    fixture_append(p.log, fixture_plain(50, 1));
    while (ol_log_prepare(p.log)) continue;
    for (int i = 0; i < 2; i++) {
        fixture_batch batch = fixture_plain(50, 1);
        batch.timestamp = i == 0 ? limit : limit + 1;
        size_t before = segment_count(p.log);
        OL_CHECK_INT(ol_log_is_prepared(p.log, fixture_batch_size(&batch), 0, batch.timestamp), i == 0);
        OL_CHECK_OK(fixture_try_append(p.log, &batch, &error), &error);
        OL_CHECK_INT(segment_count(p.log) - before, i);
    }
    /* Its offsets would not fit the segment, which begins at 2 now. */
    while (ol_log_prepare(p.log)) continue;
    fixture_append(p.log, fixture_plain(50, 1));
    OL_CHECK(ol_log_is_prepared(p.log, 200, INT32_MAX - 2, limit));
    OL_CHECK(!ol_log_is_prepared(p.log, 200, INT32_MAX, limit));
    place_remove(&p);
}

/* Returns the note that the batch carries. */
static int64_t append_noted(ol_log *log) {
    fixture_batch batch = fixture_plain(50, 1);
    batch.flushed_note = ol_log_take_flushed_record(log);
    fixture_append(log, batch);
    return batch.flushed_note;
}

static void flush(ol_log *log) {
    ol_error error;
    int64_t flushed;
    OL_CHECK_OK(ol_log_flush(log, &flushed, &error), &error);
}

OL_TEST(the_flushed_note_is_written_once_after_each_flush) {
    place p;
    place_make(&p);
    OL_CHECK_INT(append_noted(p.log), 0);
    OL_CHECK_INT(append_noted(p.log), -1);
    flush(p.log);
    OL_CHECK_INT(append_noted(p.log), 2);
    OL_CHECK_INT(append_noted(p.log), -1);
    flush(p.log);
    flush(p.log);
    OL_CHECK_INT(append_noted(p.log), 4);
    OL_CHECK_INT(append_noted(p.log), -1);
    place_remove(&p);
}

OL_TEST(a_flushed_note_of_a_batch_that_was_not_appended_is_given_again) {
    place p;
    ol_error error;
    uint8_t *start = NULL;
    int64_t base_offset;
    place_make(&p);
    append_noted(p.log);
    flush(p.log);
    /* It had no room, or was given up when the room was there. */
    OL_CHECK_INT(ol_log_take_flushed_record(p.log), 1);
    OL_CHECK_INT(ol_log_reserve(p.log, 65 << 10, 0, 1700000000000, &start, &base_offset, &error), OL_TOO_LARGE);
    OL_CHECK_INT(ol_log_take_flushed_record(p.log), 1);
    OL_CHECK_OK(ol_log_reserve(p.log, 200, 0, 1700000000000, &start, &base_offset, &error), &error);
    /* Another one without headers follows. */
    fixture_append_marker(p.log, 77, OL_CONTROL_ABORT);
    OL_CHECK_INT(append_noted(p.log), 1);
    OL_CHECK_INT(append_noted(p.log), -1);
    /* And the batch that carried it may be cut. */
    OL_CHECK_OK(ol_log_truncate(p.log, 2, &error), &error);
    OL_CHECK_INT(append_noted(p.log), 1);
    OL_CHECK_INT(append_noted(p.log), -1);
    place_remove(&p);
}

OL_TEST_MAIN()
