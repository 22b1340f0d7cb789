/* Bytes that the disk cannot read, and files that another program cut short: an error with its place, and a way past it. */
#include <errno.h>

#include "log/batch_walk.h"
#include "log/transaction_spans.h"
#include "log/view.h"
#include "log_fixture.h"
#include "testing/fault_fs.h"

enum { SEGMENTS = 4, VALUE_SIZE = 100 };

/* A log of four segments, the last of which is the active one, on a disk that can be spoiled. */
typedef struct scene {
    char root[OL_PATH_MAX];
    char path[OL_PATH_MAX];
    ol_fs *fs;
    ol_log_options options;
    ol_log *log;
    size_t batch_size;
    int per_segment;
} scene;

static void begin(scene *s) {
    ol_error error;
    fixture_batch plain = fixture_plain(VALUE_SIZE, 0);
    fixture_directory(s->root);
    fixture_join(s->path, s->root, "__consumer_offsets-0");
    OL_CHECK_OK(ol_fault_fs_create(s->root, &s->fs, &error), &error);
    s->options = fixture_options(s->path);
    s->options.fs = s->fs;
    s->options.config.segment_bytes = 128 << 10;
    s->batch_size = fixture_batch_size(&plain);
    s->per_segment = (int)((128 << 10) / s->batch_size);
    s->log = fixture_open(&s->options, NULL);
    for (int i = 0; i < SEGMENTS * s->per_segment; i++) fixture_append(s->log, fixture_plain(VALUE_SIZE, (uint64_t)i));
    int64_t flushed;
    OL_CHECK_OK(ol_log_flush(s->log, &flushed, &error), &error);
}

static void end(scene *s) {
    if (s->log != NULL) fixture_close(s->log);
    ol_fault_fs_free(s->fs);
    fixture_remove(s->root);
}

static void open_read_only(scene *s) {
    fixture_close(s->log);
    s->options.writable = s->options.create = false;
    s->options.clean = true;
    s->options.recovery_point = SEGMENTS * s->per_segment;
    s->log = fixture_open(&s->options, NULL);
}

static const char *segment_path(const scene *s, int number) {
    static char path[OL_PATH_MAX];
    char name[32];
    snprintf(name, sizeof name, "%020d.log", number * s->per_segment);
    fixture_join(path, s->path, name);
    return path;
}

static void spoil(const scene *s, int number, int64_t from, int64_t to) {
    ol_error error;
    OL_CHECK_OK(ol_fault_fs_spoil(s->fs, segment_path(s, number), from, to, &error), &error);
}

static void shrink(const scene *s, int number, int64_t size) {
    ol_error error;
    OL_CHECK_OK(ol_fault_fs_shrink(s->fs, segment_path(s, number), size, &error), &error);
}

static void check_offsets(const ol_log_piece *piece, int64_t *next) {
    ol_batch batch;
    ol_error error;
    for (size_t at = 0; at < piece->size; at += batch.size) {
        OL_CHECK_OK(ol_batch_parse(piece->data + at, piece->size - at, &batch, &error), &error);
        OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
        OL_CHECK_INT(batch.base_offset, *next);
        *next = batch.last_offset + 1;
    }
}

/* Reads on to the end or to a failure; every offset from *next on is given. */
static int read_on(ol_log_reader *reader, int64_t *next, ol_error *error) {
    ol_log_piece piece;
    int status;
    while ((status = ol_log_reader_next(reader, 50000, &piece, error)) == OL_OK) check_offsets(&piece, next);
    return status;
}

/* A reader gives all batches up to the offset `first`, fails there with the place of that batch, and goes on at `second`. */
static void check_gap(scene *s, int number, int64_t first, int64_t second, const char *reason) {
    ol_error error;
    ol_log_reader *reader;
    int64_t next = 0, end_offset = SEGMENTS * s->per_segment;
    bool is_end = false;
    OL_CHECK_OK(ol_log_reader_open(s->log, 0, &reader, &error), &error);
    OL_CHECK_INT(read_on(reader, &next, &error), OL_IO);
    OL_CHECK_INT(next, first);
    OL_CHECK(strcmp(error.path, segment_path(s, number)) == 0);
    OL_CHECK_INT(error.position, (first - number * s->per_segment) * (int64_t)s->batch_size);
    OL_CHECK_INT(error.offset, first);
    OL_CHECK(strstr(error.reason, reason) != NULL);
    /* It is asked again, and says so again. */
    int64_t position = error.position;
    OL_CHECK_INT(read_on(reader, &next, &error), OL_IO);
    OL_CHECK_INT(error.position, position);
    OL_CHECK_OK(ol_log_reader_skip(reader, position, &is_end, &error), &error);
    OL_CHECK_INT(is_end, second == end_offset);
    next = second;
    OL_CHECK_INT(read_on(reader, &next, &error), OL_END);
    OL_CHECK_INT(next, end_offset);
    ol_log_reader_close(reader);
}

/* The offset of the batch at a position of a segment. */
static int64_t offset_at(const scene *s, int number, int64_t position) {
    return number * s->per_segment + position / (int64_t)s->batch_size;
}

OL_TEST(a_reader_gives_what_is_before_a_bad_sector_and_goes_on_after_it) {
    for (int read_only = 0; read_only < 2; read_only++) {
        for (int number = 0; number < SEGMENTS; number++) {
            scene s;
            begin(&s);
            if (read_only) open_read_only(&s);
            spoil(&s, number, 40960, 40960 + 4096);
            check_gap(&s, number, offset_at(&s, number, 40960), offset_at(&s, number, 45056) + 1, strerror(EIO));
            spoil(&s, number, 0, 0);
            int64_t next = 0;
            ol_error error;
            ol_log_reader *reader;
            OL_CHECK_OK(ol_log_reader_open(s.log, 0, &reader, &error), &error);
            OL_CHECK_INT(read_on(reader, &next, &error), OL_END);
            OL_CHECK_INT(next, SEGMENTS * s.per_segment);
            ol_log_reader_close(reader);
            end(&s);
        }
    }
}

/* Each attempt may take seconds, so a large bad place is passed in few. */
OL_TEST(a_bad_place_to_the_end_of_a_file_is_passed_in_few_attempts) {
    scene s;
    begin(&s);
    spoil(&s, 1, 4096, 1 << 30);
    int64_t reads = ol_fault_fs_reads(s.fs);
    check_gap(&s, 1, offset_at(&s, 1, 4096), 2 * s.per_segment, strerror(EIO));
    OL_CHECK(ol_fault_fs_reads(s.fs) - reads < 60);
    end(&s);
}

OL_TEST(a_file_cut_short_is_an_error_with_both_sizes) {
    for (int number = 0; number < SEGMENTS; number++) {
        scene s;
        begin(&s);
        shrink(&s, number, 10000);
        check_gap(&s, number, offset_at(&s, number, 10000), (number + 1) * s.per_segment, "the file is 10000 bytes long, but its segment has ");
        shrink(&s, number, 0);
        check_gap(&s, number, offset_at(&s, number, 0), (number + 1) * s.per_segment, "the file is 0 bytes long, but its segment has ");
        /* The log would be closed over bytes that are gone. */
        ol_log_abandon(s.log);
        s.log = NULL;
        end(&s);
    }
}

OL_TEST(what_a_piece_holds_outlives_the_file) {
    scene s;
    ol_error error;
    ol_log_reader *reader;
    ol_log_piece piece;
    begin(&s);
    OL_CHECK_OK(ol_log_reader_open(s.log, 0, &reader, &error), &error);
    OL_CHECK_OK(ol_log_reader_next(reader, 50000, &piece, &error), &error);
    shrink(&s, 0, 0);
    int64_t next = 0;
    check_offsets(&piece, &next);
    OL_CHECK(next > 100);
    ol_log_reader_close(reader);
    end(&s);
}

/* ------------------------------------------------------------------------------------------------ walks */

static int release(void *context OL_UNUSED, ol_error *error OL_UNUSED) { return OL_OK; }

static void keep_damage(void *context, const ol_error *damage, int64_t below OL_UNUSED) { *(ol_error *)context = *damage; }

OL_TEST(a_load_reports_what_cannot_be_read_and_other_walks_fail) {
    scene s;
    ol_error error, damage = {0};
    ol_batch_walk walk;
    ol_batch batch;
    begin(&s);
    spoil(&s, 1, 40960, 40960 + 4096);
    int64_t first = offset_at(&s, 1, 40960), second = offset_at(&s, 1, 45056) + 1, next = 0;
    const ol_batch_walk_reporter reporter = {release, keep_damage, &damage};
    OL_CHECK_OK(ol_batch_walk_open_reported(&walk, s.log, 0, &reporter, &error), &error);
    while (ol_batch_walk_next(&walk, &batch, &error) == OL_OK) {
        if (next == first) next = second;
        OL_CHECK_INT(batch.base_offset, next);
        next = batch.last_offset + 1;
    }
    ol_batch_walk_close(&walk);
    OL_CHECK_INT(next, ol_log_end(s.log));
    OL_CHECK_INT(walk.passed_over, 1);
    OL_CHECK_INT(damage.status, OL_IO);
    OL_CHECK_INT(damage.sys_errno, EIO);
    OL_CHECK_INT(damage.offset, first);
    OL_CHECK(strcmp(damage.path, segment_path(&s, 1)) == 0);
    int status;
    OL_CHECK_OK(ol_batch_walk_open(&walk, s.log, 0, ol_log_end(s.log), true, &error), &error);
    for (next = 0; (status = ol_batch_walk_next(&walk, &batch, &error)) == OL_OK; next++) continue;
    OL_CHECK_INT(status, OL_IO);
    OL_CHECK_INT(next, first);
    OL_CHECK_INT(error.position, damage.position);
    OL_CHECK_INT(walk.passed_over, 0);
    ol_batch_walk_close(&walk);
    int64_t oldest;
    OL_CHECK_OK(ol_log_open_since(s.log, first, &oldest, &error), &error);
    end(&s);
}

/* A tail that cannot be read is not one that somebody else is still writing. */
OL_TEST(an_unreadable_end_of_a_read_only_log_is_reported) {
    scene s;
    ol_error error, damage = {0};
    ol_batch_walk walk;
    ol_batch batch;
    begin(&s);
    open_read_only(&s);
    spoil(&s, SEGMENTS - 1, 100000, 1 << 20);
    int64_t next = 0;
    const ol_batch_walk_reporter reporter = {release, keep_damage, &damage};
    OL_CHECK_OK(ol_batch_walk_open_reported(&walk, s.log, 0, &reporter, &error), &error);
    while (ol_batch_walk_next(&walk, &batch, &error) == OL_OK) next = batch.last_offset + 1;
    ol_batch_walk_close(&walk);
    OL_CHECK_INT(next, offset_at(&s, SEGMENTS - 1, 100000));
    OL_CHECK_INT(damage.status, OL_IO);
    OL_CHECK_INT(damage.offset, next);
    end(&s);
}

OL_TEST(a_view_of_a_bad_sector_fails_at_its_place) {
    scene s;
    ol_error error;
    ol_log_view *view;
    ol_file_scan scan;
    ol_batch batch;
    begin(&s);
    OL_CHECK_OK(ol_log_view_open(s.log, &view, &error), &error);
    spoil(&s, 2, 50000, 50001);
    OL_CHECK_OK(ol_log_view_scan(view, 2, 0, &scan, &error), &error);
    int status;
    int64_t next = 2 * s.per_segment;
    for (; (status = ol_file_scan_next(&scan, &batch, &error)) == OL_OK; next++) OL_CHECK_INT(batch.base_offset, next);
    OL_CHECK_INT(status, OL_IO);
    OL_CHECK_INT(next, offset_at(&s, 2, 50000));
    OL_CHECK_INT(error.position, 50000);
    ol_file_scan_close(&scan);
    shrink(&s, 3, 10000);
    OL_CHECK_OK(ol_log_view_scan(view, 3, 0, &scan, &error), &error);
    while ((status = ol_file_scan_next(&scan, &batch, &error)) == OL_OK) continue;
    OL_CHECK_INT(status, OL_TORN);
    OL_CHECK(strstr(error.reason, "the file is 10000 bytes long, but its segment has ") != NULL);
    ol_file_scan_close(&scan);
    ol_log_view_close(view);
    ol_log_abandon(s.log);
    s.log = NULL;
    end(&s);
}

/* A recovery must not take what the disk cannot read for a torn tail, and cut it. */
OL_TEST(a_bad_sector_in_what_an_open_checks_fails_the_open_and_changes_nothing) {
    scene s;
    ol_error error;
    ol_log *log;
    ol_log_recovery recovery;
    begin(&s);
    ol_log_abandon(s.log);
    s.log = NULL;
    for (int number = 0; number < SEGMENTS; number++) {
        int64_t operations = ol_fault_fs_operations(s.fs);
        spoil(&s, number, 20000, 24096);
        OL_CHECK_INT(ol_log_open(&s.options, &log, &recovery, &error), OL_IO);
        OL_CHECK(strcmp(error.path, segment_path(&s, number)) == 0);
        OL_CHECK_INT(error.position, 20000);
        OL_CHECK_INT(ol_fault_fs_operations(s.fs), operations);
        spoil(&s, number, 0, 0);
    }
    s.log = fixture_open(&s.options, &recovery);
    OL_CHECK(!recovery.corrupt);
    OL_CHECK_INT(recovery.torn_bytes, 0);
    OL_CHECK_INT(ol_log_end(s.log), SEGMENTS * s.per_segment);
    end(&s);
}

OL_TEST_MAIN()
