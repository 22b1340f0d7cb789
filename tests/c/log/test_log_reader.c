#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "log_fixture.h"
#include "base/crc32c.h"
#include "log/file_scan.h"

typedef struct place {
    char root[OL_PATH_MAX];
    char path[OL_PATH_MAX];
    ol_log_options options;
    ol_log *log;
} place;

static void place_make(place *p) {
    fixture_directory(p->root);
    fixture_join(p->path, p->root, "__consumer_offsets-0");
    p->options = fixture_options(p->path);
    p->options.config.segment_bytes = 16 << 10;
    p->options.config.index_interval_bytes = 512;
    p->log = fixture_open(&p->options, NULL);
}

static void place_remove(place *p) {
    fixture_close(p->log);
    fixture_remove(p->root);
}

static void append_many(ol_log *log, int count, size_t value_size) {
    for (int i = 0; i < count; i++) fixture_append(log, fixture_plain(value_size, (uint64_t)i));
}

static int64_t next_base(ol_log_reader *reader, size_t size_max, int64_t *behind) {
    ol_error error;
    ol_log_piece piece;
    int status = ol_log_reader_next(reader, size_max, &piece, &error);
    if (status == OL_END) return -1;
    OL_CHECK_OK(status, &error);
    ol_batch batch;
    for (size_t at = 0; at < piece.size; at += batch.size) {
        OL_CHECK_OK(ol_batch_parse(piece.data + at, piece.size - at, &batch, &error), &error);
    }
    if (behind != NULL) *behind = batch.last_offset + 1;
    return piece.base_offset;
}

OL_TEST(starts_at_the_batch_that_holds_the_offset) {
    place p;
    ol_error error;
    place_make(&p);
    for (int i = 0; i < 400; i++) {
        fixture_batch batch = fixture_plain(100, (uint64_t)i);
        batch.count = 3;
        fixture_append(p.log, batch);
    }
    for (int writable = 1; writable >= 0; writable--) {
        ol_log *log = p.log;
        p.options.writable = writable != 0;
        if (!writable) log = fixture_open(&p.options, NULL);
        for (int64_t offset = 0; offset < 1200; offset += 7) {
            ol_log_reader *reader;
            OL_CHECK_OK(ol_log_reader_open(log, offset, &reader, &error), &error);
            OL_CHECK_INT(next_base(reader, 1, NULL), offset - offset % 3);
            ol_log_reader_close(reader);
        }
        if (!writable) fixture_close(log);
    }
    ol_log_reader *reader;
    OL_CHECK_INT(ol_log_reader_open(p.log, 1201, &reader, &error), OL_OUT_OF_RANGE);
    place_remove(&p);
}

OL_TEST(pieces_are_as_large_as_asked_for) {
    place p;
    ol_error error;
    place_make(&p);
    append_many(p.log, 100, 100);
    ol_log_reader *reader;
    ol_log_piece piece;
    fixture_batch plain = fixture_plain(100, 0);
    size_t size = fixture_batch_size(&plain);
    OL_CHECK_OK(ol_log_reader_open(p.log, 0, &reader, &error), &error);
    OL_CHECK_OK(ol_log_reader_next(reader, 5 * size + 1, &piece, &error), &error);
    OL_CHECK_INT(piece.size, 5 * size);
    OL_CHECK_OK(ol_log_reader_next(reader, 1, &piece, &error), &error);
    OL_CHECK_INT(piece.size, size);
    OL_CHECK_INT(piece.position, 5 * size);
    ol_log_reader_close(reader);
    place_remove(&p);
}

OL_TEST(a_reader_at_the_end_sees_what_comes_later) {
    place p;
    ol_error error;
    place_make(&p);
    p.options.writable = false;
    ol_log *other = fixture_open(&p.options, NULL);
    ol_log_reader *readers[2];
    OL_CHECK_OK(ol_log_reader_open(p.log, 0, &readers[0], &error), &error);
    OL_CHECK_OK(ol_log_reader_open(other, 0, &readers[1], &error), &error);
    int64_t reached[2] = {0, 0};
    for (int i = 0; i < 60; i++) {
        for (int r = 0; r < 2; r++) OL_CHECK_INT(next_base(readers[r], 1 << 20, NULL), -1);
        append_many(p.log, 1 + i % 7, 700);
        for (int r = 0; r < 2; r++) {
            int64_t base;
            while ((base = next_base(readers[r], 4096, &reached[r])) >= 0) continue;
            OL_CHECK_INT(reached[r], ol_log_end(p.log));
        }
    }
    for (int r = 0; r < 2; r++) ol_log_reader_close(readers[r]);
    fixture_close(other);
    place_remove(&p);
}

OL_TEST(what_is_truncated_stays_readable_until_the_reader_moves_on) {
    place p;
    ol_error error;
    place_make(&p);
    append_many(p.log, 300, 100);
    for (int64_t cut = 290; cut > 0; cut -= 61) {
        ol_log_reader *reader;
        ol_log_piece piece;
        OL_CHECK_OK(ol_log_reader_open(p.log, ol_log_end(p.log) - 1, &reader, &error), &error);
        OL_CHECK_OK(ol_log_reader_next(reader, 1 << 20, &piece, &error), &error);
        uint8_t *copy = malloc(piece.size);
        memcpy(copy, piece.data, piece.size);
        OL_CHECK_OK(ol_log_truncate(p.log, cut, &error), &error);
        OL_CHECK_INT(ol_log_end(p.log), cut);
        append_many(p.log, 1, 3000);
        OL_CHECK(memcmp(copy, piece.data, piece.size) == 0);
        free(copy);
        int status = ol_log_reader_next(reader, 1 << 20, &piece, &error);
        OL_CHECK(status == OL_OUT_OF_RANGE || status == OL_END);
        ol_log_reader_close(reader);
        size_t size;
        free(fixture_read_log(p.log, 0, 5000, &size));
    }
    place_remove(&p);
}

OL_TEST(a_read_only_reader_survives_segments_that_vanish) {
    place p;
    ol_error error;
    place_make(&p);
    append_many(p.log, 400, 100);
    fixture_close(p.log);
    p.options.writable = false;
    ol_log *log = fixture_open(&p.options, NULL);
    ol_log_segment_info second, third;
    OL_CHECK(ol_log_segment_at(log, 1, &second) && ol_log_segment_at(log, 2, &third));
    ol_log_reader *reader;
    int64_t behind = 0;
    OL_CHECK_OK(ol_log_reader_open(log, 0, &reader, &error), &error);
    OL_CHECK_INT(next_base(reader, 1 << 20, &behind), 0);
    OL_CHECK_INT(behind, second.base_offset);
    OL_CHECK(unlink(second.path) == 0);
    OL_CHECK_INT(next_base(reader, 1 << 20, &behind), third.base_offset);
    while (next_base(reader, 1 << 20, &behind) >= 0) continue;
    OL_CHECK_INT(behind, 400);
    ol_log_reader_close(reader);
    fixture_close(log);
    p.options.writable = true;
    p.log = fixture_open(&p.options, NULL);
    place_remove(&p);
}

OL_TEST(a_read_only_reader_survives_a_file_that_is_cut_under_it) {
    place p;
    ol_error error;
    place_make(&p);
    append_many(p.log, 50, 100);
    fixture_close(p.log);
    p.options.writable = false;
    ol_log *log = fixture_open(&p.options, NULL);
    ol_log_reader *reader;
    OL_CHECK_OK(ol_log_reader_open(log, 0, &reader, &error), &error);
    OL_CHECK_INT(next_base(reader, 1000, NULL), 0);
    char path[OL_PATH_MAX];
    fixture_join(path, p.path, "00000000000000000000.log");
    fixture_batch plain = fixture_plain(100, 0);
    int64_t size = (int64_t)fixture_batch_size(&plain);
    OL_CHECK(truncate(path, 20 * size) == 0);
    int64_t behind = 0;
    while (next_base(reader, 1000, &behind) >= 0) continue;
    OL_CHECK_INT(behind, 20);
    ol_log_reader_close(reader);
    /* Cut inside a batch that was flushed: no broker does that, so it is said. */
    ol_log_piece piece;
    OL_CHECK(truncate(path, 12 * size + 30) == 0);
    OL_CHECK_OK(ol_log_reader_open(log, 0, &reader, &error), &error);
    OL_CHECK_OK(ol_log_reader_next(reader, 1 << 20, &piece, &error), &error);
    OL_CHECK_INT(piece.size, 12 * size);
    OL_CHECK_INT(ol_log_reader_next(reader, 1 << 20, &piece, &error), OL_CORRUPT);
    ol_log_reader_close(reader);
    fixture_close(log);
    p.options.writable = true;
    p.log = fixture_open(&p.options, NULL);
    place_remove(&p);
}

OL_TEST(a_bad_place_is_reported_and_can_be_passed) {
    place p;
    ol_error error;
    place_make(&p);
    append_many(p.log, 50, 100);
    fixture_close(p.log);
    char path[OL_PATH_MAX];
    size_t size;
    fixture_join(path, p.path, "00000000000000000000.log");
    uint8_t *bytes = fixture_read(path, &size);
    fixture_batch plain = fixture_plain(100, 0);
    size_t batch_size = fixture_batch_size(&plain);
    memset(bytes + 3 * batch_size, 0xff, 20);
    fixture_write(path, bytes, size);
    free(bytes);
    p.options.recovery_point = 50;
    ol_log_recovery recovery;
    ol_log *log = fixture_open(&p.options, &recovery);
    OL_CHECK(recovery.corrupt);
    OL_CHECK_INT(ol_log_end(log), 50);
    ol_log_reader *reader;
    ol_log_piece piece;
    int64_t behind = 0;
    bool is_end = true;
    OL_CHECK_OK(ol_log_reader_open(log, 0, &reader, &error), &error);
    OL_CHECK_INT(next_base(reader, 1 << 20, &behind), 0);
    OL_CHECK_INT(behind, 3);
    OL_CHECK_INT(ol_log_reader_next(reader, 1 << 20, &piece, &error), OL_CORRUPT);
    OL_CHECK_INT(error.position, 3 * batch_size);
    OL_CHECK(strstr(error.path, "00000000000000000000.log") != NULL);
    OL_CHECK_OK(ol_log_reader_skip(reader, error.position, &is_end, &error), &error);
    OL_CHECK(!is_end);
    OL_CHECK_INT(next_base(reader, 1 << 20, &behind), 4);
    OL_CHECK_INT(behind, 50);
    OL_CHECK_OK(ol_log_reader_skip(reader, 49 * (int64_t)batch_size, &is_end, &error), &error);
    OL_CHECK(is_end);
    ol_log_reader_close(reader);
    fixture_close(log);
    fixture_remove(p.root);
}

/* One bit of the fourth batch's length, by which the walk to a place in the segment goes. */
static void open_after_damage(place *p, size_t at, uint8_t mask, bool writable) {
    char path[OL_PATH_MAX];
    size_t size;
    place_make(p);
    append_many(p->log, 50, 100);
    fixture_close(p->log);
    fixture_join(path, p->path, "00000000000000000000.log");
    uint8_t *bytes = fixture_read(path, &size);
    fixture_batch plain = fixture_plain(100, 0);
    bytes[3 * fixture_batch_size(&plain) + at] ^= mask;
    fixture_write(path, bytes, size);
    free(bytes);
    fixture_join(path, p->path, "00000000000000000000.index");
    OL_CHECK(unlink(path) == 0 || errno == ENOENT);
    p->options.recovery_point = 50;
    p->options.writable = writable;
    p->log = fixture_open(&p->options, NULL);
}

OL_TEST(a_reader_that_damage_leads_past_the_end_meets_the_damage_and_not_the_end) {
    static const uint8_t masks[] = {0x01, 0x10, 0x40};
    for (size_t i = 0; i < 2 * sizeof masks; i++) {
        place p;
        ol_error error;
        ol_log_reader *reader;
        ol_log_piece piece;
        bool is_end = true;
        open_after_damage(&p, OL_BATCH_AT_LENGTH, masks[i / 2], i % 2 == 0);
        fixture_batch plain = fixture_plain(100, 0);
        OL_CHECK_OK(ol_log_reader_open(p.log, 20, &reader, &error), &error);
        OL_CHECK_INT(ol_log_reader_next(reader, 1 << 20, &piece, &error), OL_CORRUPT);
        OL_CHECK_INT(error.position, 3 * fixture_batch_size(&plain));
        OL_CHECK_OK(ol_log_reader_skip(reader, error.position, &is_end, &error), &error);
        OL_CHECK(!is_end);
        OL_CHECK_INT(next_base(reader, 1 << 20, NULL), 4);
        ol_log_reader_close(reader);
        fixture_close(p.log);
        fixture_remove(p.root);
    }
}

static void change_byte(const char *path, int64_t position, uint8_t mask) {
    uint8_t byte;
    int fd = open(path, O_RDWR);
    OL_CHECK(fd >= 0 && pread(fd, &byte, 1, position) == 1);
    byte ^= mask;
    OL_CHECK(pwrite(fd, &byte, 1, position) == 1);
    close(fd);
}

/* Where a reader goes on after a carrier at offset 3, of which one byte was changed. */
static int64_t pass_carrier(int64_t at, uint8_t mask, bool next_too, bool last) {
    place p;
    ol_error error;
    char path[OL_PATH_MAX];
    place_make(&p);
    append_many(p.log, 3, 100);
    fixture_batch plain = fixture_plain(100, 0);
    int64_t start = 3 * (int64_t)fixture_batch_size(&plain);
    int64_t size = (int64_t)fixture_append_carrier(p.log, 3, -1);
    if (!last) append_many(p.log, 5, 100);
    int64_t end = ol_log_end(p.log);
    fixture_close(p.log);
    fixture_join(path, p.path, "00000000000000000000.log");
    change_byte(path, start + at, mask);
    if (next_too) change_byte(path, start + size + 80, 1);
    p.options.recovery_point = end;
    ol_log_recovery recovery;
    ol_log *log = fixture_open(&p.options, &recovery);
    OL_CHECK(recovery.corrupt);
    OL_CHECK_INT(recovery.corruption.position, start);
    ol_log_reader *reader;
    bool is_end = false;
    OL_CHECK_OK(ol_log_reader_open(log, 0, &reader, &error), &error);
    OL_CHECK_INT(next_base(reader, 1, NULL), 0);
    OL_CHECK_OK(ol_log_reader_skip(reader, start, &is_end, &error), &error);
    OL_CHECK_INT(is_end, last);
    int64_t base = is_end ? -1 : next_base(reader, 1, NULL);
    ol_log_reader_close(reader);
    fixture_close(log);
    fixture_remove(p.root);
    return base;
}

OL_TEST(a_bad_batch_is_passed_with_all_that_its_records_hold) {
    OL_CHECK_INT(pass_carrier(80, 1, false, false), 4);
    OL_CHECK_INT(pass_carrier(OL_BATCH_AT_MAGIC, 0x40, false, false), 4);
    OL_CHECK_INT(pass_carrier(80, 1, true, false), 5);
    OL_CHECK_INT(pass_carrier(80, 1, false, true), -1);
    /* Only where the length leads nowhere the batch inside comes to light. */
    OL_CHECK_INT(pass_carrier(OL_BATCH_AT_LENGTH + 3, 1, false, false), 3);
}

/* The batch at `position` of the first of several segments gets a base offset that is far too high; what is read of the log then. */
static void raise_offset(size_t piece_max, int from_end) {
    place p;
    ol_error error;
    ol_log_piece piece;
    ol_log_segment_info first, second;
    place_make(&p);
    append_many(p.log, 300, 100);
    fixture_close(p.log);
    p.options.clean = true;
    p.options.recovery_point = 300;
    fixture_batch plain = fixture_plain(100, 0);
    int64_t size = (int64_t)fixture_batch_size(&plain);
    p.log = fixture_open(&p.options, NULL);
    OL_CHECK(ol_log_segment_at(p.log, 0, &first) && ol_log_segment_at(p.log, 1, &second));
    int64_t bad = first.size - from_end * size;
    change_byte(first.path, bad, 0x10);
    ol_log_reader *reader;
    int64_t passed = 0;
    int64_t count = 0;
    OL_CHECK_OK(ol_log_reader_open(p.log, 0, &reader, &error), &error);
    for (;;) {
        int status = ol_log_reader_next(reader, piece_max, &piece, &error);
        if (status == OL_END) break;
        if (status == OL_CORRUPT) {
            bool is_end = true;
            passed++;
            OL_CHECK_INT(error.position, bad);
            OL_CHECK_OK(ol_log_reader_skip(reader, error.position, &is_end, &error), &error);
            OL_CHECK(!is_end);
            continue;
        }
        OL_CHECK_OK(status, &error);
        count += (int64_t)piece.size / size;
    }
    OL_CHECK_INT(passed, 1);
    OL_CHECK_INT(count, 299);
    ol_log_reader_close(reader);
    place_remove(&p);
}

OL_TEST(an_offset_above_the_next_segment_is_no_end) {
    raise_offset(1 << 20, 1);
    raise_offset(1, 1);
    raise_offset(1, 3);
}

static uint8_t *put_old_message(uint8_t *p, int64_t offset) {
    enum { SIZE = 34 };
    memset(p, 0, SIZE + 3);
    ol_store_i64(p, offset);
    ol_store_i32(p + 8, SIZE + 3 - 12);
    p[16] = 1;
    ol_store_i64(p + 18, 1700000000000);
    ol_store_i32(p + 26, -1);
    ol_store_i32(p + 30, 3);
    memcpy(p + SIZE, "old", 3);
    ol_store_u32(p + 12, ol_crc32(p + 16, SIZE + 3 - 16));
    return p + SIZE + 3;
}

OL_TEST(a_bad_message_of_the_old_format_is_passed_by_its_length) {
    char root[OL_PATH_MAX];
    char path[OL_PATH_MAX];
    uint8_t bytes[256];
    uint8_t *end = bytes;
    ol_error error;
    ol_file_scan scan;
    ol_batch batch;
    fixture_directory(root);
    fixture_join(path, root, "old.log");
    for (int i = 0; i < 5; i++) end = put_old_message(end, i);
    size_t size = (size_t)(end - bytes) / 5;
    bytes[2 * size - 1] ^= 1;
    fixture_write(path, bytes, (size_t)(end - bytes));
    OL_CHECK_OK(ol_file_scan_open(&scan, ol_fs_posix(), path, 0, -1, &error), &error);
    OL_CHECK_OK(ol_file_scan_next(&scan, &batch, &error), &error);
    OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
    OL_CHECK_OK(ol_file_scan_resync(&scan, (int64_t)size, 1, INT64_MAX, &batch, &error), &error);
    OL_CHECK_INT(scan.position, 2 * size);
    OL_CHECK_INT(batch.base_offset, 2);
    ol_file_scan_close(&scan);
    fixture_remove(root);
}

OL_TEST(searches_share_one_budget) {
    char root[OL_PATH_MAX];
    char path[OL_PATH_MAX];
    ol_error error;
    ol_file_scan scan;
    ol_batch batch;
    enum { HEADERS = 64, SIZE = HEADERS * OL_BATCH_OVERHEAD };
    uint8_t bytes[SIZE] = {0};
    fixture_directory(root);
    fixture_join(path, root, "crafted.log");
    /* Headers that claim what is left of the file, with wrong CRCs. */
    for (int i = 0; i < HEADERS; i++) {
        uint8_t *header = bytes + i * OL_BATCH_OVERHEAD;
        ol_store_i32(header + OL_BATCH_AT_LENGTH, SIZE - 100 - i * OL_BATCH_OVERHEAD);
        header[OL_BATCH_AT_MAGIC] = 2;
    }
    fixture_write(path, bytes, sizeof bytes);
    OL_CHECK_OK(ol_file_scan_open(&scan, ol_fs_posix(), path, 0, -1, &error), &error);
    scan.budget = 20 * SIZE;
    OL_CHECK_INT(ol_file_scan_resync(&scan, 0, 0, INT64_MAX, &batch, &error), OL_END);
    OL_CHECK(scan.budget < 0 && scan.budget > -2 * SIZE);
    int64_t left = scan.budget;
    OL_CHECK_INT(ol_file_scan_resync(&scan, 7 * OL_BATCH_OVERHEAD, 0, INT64_MAX, &batch, &error), OL_END);
    OL_CHECK(scan.budget >= left - SIZE);
    ol_file_scan_close(&scan);
    fixture_remove(root);
}

OL_TEST(a_retry_reads_the_same_bytes_at_most_three_times) {
    place p;
    ol_error error;
    place_make(&p);
    append_many(p.log, 10, 100);
    fixture_close(p.log);
    p.options.writable = false;
    ol_log *log = fixture_open(&p.options, NULL);
    ol_log_reader *reader;
    ol_log_piece piece;
    fixture_batch plain = fixture_plain(100, 0);
    int64_t size = (int64_t)fixture_batch_size(&plain);
    OL_CHECK_OK(ol_log_reader_open(log, 0, &reader, &error), &error);
    OL_CHECK_OK(ol_log_reader_next(reader, 1 << 20, &piece, &error), &error);
    for (int i = 0; i < 2; i++) {
        OL_CHECK_OK(ol_log_reader_retry(reader, 4 * size, &piece, &error), &error);
        OL_CHECK_INT(piece.base_offset, 4);
        OL_CHECK_INT(piece.size, 6 * size);
    }
    OL_CHECK_INT(ol_log_reader_retry(reader, 4 * size, &piece, &error), OL_END);
    OL_CHECK_INT(ol_log_reader_next(reader, 1 << 20, &piece, &error), OL_END);
    ol_log_reader_close(reader);
    fixture_close(log);
    p.options.writable = true;
    p.log = fixture_open(&p.options, NULL);
    place_remove(&p);
}

/* ------------------------------------------------------------------------------------------------ many threads */

typedef struct shared_run {
    ol_log *log;
    atomic_bool done;
} shared_run;

static void *read_all_the_time(void *context) {
    shared_run *run = context;
    ol_error error;
    while (!atomic_load(&run->done)) {
        ol_log_reader *reader;
        int64_t start = ol_log_end(run->log) / 2;
        int64_t next = -1;
        OL_CHECK_OK(ol_log_reader_open(run->log, start, &reader, &error), &error);
        for (;;) {
            ol_log_piece piece;
            int64_t end = ol_log_end(run->log);
            int status = ol_log_reader_next(reader, 1 << 14, &piece, &error);
            if (status == OL_END) {
                OL_CHECK(next >= end || next < 0);
                break;
            }
            OL_CHECK_OK(status, &error);
            for (size_t at = 0; at < piece.size;) {
                ol_batch batch;
                OL_CHECK_OK(ol_batch_parse(piece.data + at, piece.size - at, &batch, &error), &error);
                OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
                OL_CHECK(next < 0 || batch.base_offset == next);
                next = batch.last_offset + 1;
                at += batch.size;
            }
            OL_CHECK(next <= ol_log_end(run->log));
        }
        ol_log_reader_close(reader);
    }
    return NULL;
}

static void *flush_all_the_time(void *context) {
    shared_run *run = context;
    ol_error error;
    int64_t before = 0;
    while (!atomic_load(&run->done)) {
        int64_t end = ol_log_end(run->log);
        int64_t flushed = 0;
        OL_CHECK_OK(ol_log_flush(run->log, &flushed, &error), &error);
        OL_CHECK(flushed >= end && flushed >= before);
        before = flushed;
    }
    return NULL;
}

static void *prepare_all_the_time(void *context) {
    shared_run *run = context;
    while (!atomic_load(&run->done)) {
        if (!ol_log_prepare(run->log)) usleep(100);
    }
    return NULL;
}

OL_TEST(readers_flushes_and_the_background_run_beside_the_writer) {
    place p;
    place_make(&p);
    shared_run run = {.log = p.log};
    void *(*const bodies[])(void *) = {read_all_the_time, read_all_the_time, flush_all_the_time, flush_all_the_time,
                                       prepare_all_the_time};
    enum { THREADS = sizeof bodies / sizeof bodies[0] };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) OL_CHECK(pthread_create(&threads[i], NULL, bodies[i], &run) == 0);
    for (int i = 0; i < 6000; i++) fixture_append(p.log, fixture_plain(20 + (size_t)ol_test_below(400), (uint64_t)i));
    atomic_store(&run.done, true);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    OL_CHECK_INT(ol_log_end(p.log), 6000);
    place_remove(&p);
}

/* Reads on at the end of a log of tiny segments, where the writer rolls between one look and the next. */
static void *follow_the_writer(void *context) {
    shared_run *run = context;
    ol_error error;
    ol_log_reader *reader = NULL;
    int64_t next = 0;
    OL_CHECK_OK(ol_log_reader_open(run->log, 0, &reader, &error), &error);
    for (bool last = false; !last;) {
        ol_log_piece piece;
        last = atomic_load(&run->done);
        int status;
        while ((status = ol_log_reader_next(reader, 900, &piece, &error)) == OL_OK) {
            for (size_t at = 0; at < piece.size;) {
                ol_batch batch;
                OL_CHECK_OK(ol_batch_parse(piece.data + at, piece.size - at, &batch, &error), &error);
                OL_CHECK_INT(batch.base_offset, next);
                next = batch.last_offset + 1;
                at += batch.size;
            }
        }
        OL_CHECK_INT(status, OL_END);
    }
    OL_CHECK_INT(next, ol_log_end(run->log));
    ol_log_reader_close(reader);
    return NULL;
}

OL_TEST(a_reader_that_follows_the_writer_misses_nothing_at_a_roll) {
    char directory[OL_PATH_MAX];
    char path[OL_PATH_MAX];
    fixture_directory(directory);
    fixture_join(path, directory, "__consumer_offsets-0");
    ol_log_options options = fixture_options(path);
    options.config.segment_bytes = OL_SEGMENT_BYTES_MIN;
    shared_run run = {.log = fixture_open(&options, NULL)};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) OL_CHECK(pthread_create(&threads[i], NULL, follow_the_writer, &run) == 0);
    for (int i = 0; i < 4000; i++) {
        ol_error error;
        int64_t flushed = 0;
        fixture_append(run.log, fixture_plain(1700, (uint64_t)i));
        if (i % 64 == 0) OL_CHECK_OK(ol_log_flush(run.log, &flushed, &error), &error);
    }
    atomic_store(&run.done, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    fixture_close(run.log);
    fixture_remove(directory);
}

OL_TEST_MAIN()
