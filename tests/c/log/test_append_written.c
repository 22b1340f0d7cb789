/* Batches that are written with pwrite, where the file system does not keep the pages of a mapping: what a write that fails leaves, what a
 * file that somebody else cut is (one that is mapped, too), and what it costs in memory. */
#include <errno.h>
#include <sys/mman.h>

#include "log/log_impl.h"
#include "log_fixture.h"
#include "testing/fault_fs.h"

typedef struct scene {
    char root[OL_PATH_MAX];
    char path[OL_PATH_MAX];
    ol_fs fs;
    ol_log_options options;
    ol_log *log;
} scene;

/* The faults of the file system of a scene. */
static struct {
    size_t half;                /* so many bytes of a write reach the file, and then it fails; 0: none fails */
    bool fails_on;              /* so do all later writes */
    bool keeps_pages;
    int maps;
} disk;

static int write_half(ol_file *file, int64_t position, const void *data, size_t size, ol_error *error) {
    if (disk.half == 0) return ol_fs_posix()->write(file, position, data, size, error);
    size_t half = disk.half < size ? disk.half : size;
    OL_CHECK_OK(ol_fs_posix()->write(file, position, data, half, error), error);
    if (!disk.fails_on) disk.half = 0;
    (void)ol_fail_errno(error, ENOSPC, "pwrite", "disk");
    return ol_error_at(error, NULL, position + (int64_t)half);
}

static int count_map(ol_file *file, size_t size, void **data, ol_error *error) {
    disk.maps++;
    return ol_fs_posix()->map(file, size, data, error);
}

static int keeps_pages(ol_file *file OL_UNUSED, bool *keeps, ol_error *error OL_UNUSED) {
    *keeps = disk.keeps_pages;
    return OL_OK;
}

static void begin(scene *s, ol_append append) {
    memset(&disk, 0, sizeof disk);
    fixture_directory(s->root);
    fixture_join(s->path, s->root, "__consumer_offsets-0");
    s->fs = *ol_fs_posix();
    s->fs.write = write_half;
    s->fs.map = count_map;
    s->fs.keeps_pages = keeps_pages;
    s->options = fixture_options(s->path);
    s->options.fs = &s->fs;
    s->options.config.append = append;
    s->log = fixture_open(&s->options, NULL);
}

static void begin_in_segments_of(scene *s, ol_append append, int64_t segment_bytes) {
    begin(s, append);
    fixture_close(s->log);
    s->options.config.segment_bytes = segment_bytes;
    s->log = fixture_open(&s->options, NULL);
}

static void end(scene *s) {
    fixture_close(s->log);
    fixture_remove(s->root);
}

/* The bytes of the file after the end of the log. */
static void check_zeros_after_end(const scene *s) {
    size_t size = 0;
    ol_log_segment_info info;
    OL_CHECK(ol_log_segment_at(s->log, 0, &info) && info.active);
    uint8_t *bytes = fixture_read(info.path, &size);
    for (size_t i = (size_t)info.size; i < size; i++) OL_CHECK_INT(bytes[i], 0);
    free(bytes);
}

static int append(scene *s, size_t value_size, ol_error *error) {
    fixture_batch batch = fixture_plain(value_size, 3);
    return fixture_try_append(s->log, &batch, error);
}

OL_TEST(the_file_system_chooses_unless_the_setting_does) {
    static const struct { ol_append append; bool keeps, maps; } cases[] = {
        {OL_APPEND_AUTO, true, true},      {OL_APPEND_AUTO, false, false},   {OL_APPEND_MAPPED, false, true},
        {OL_APPEND_MAPPED, true, true},    {OL_APPEND_WRITTEN, true, false}, {OL_APPEND_WRITTEN, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scene s;
        ol_error error;
        int64_t flushed;
        begin(&s, cases[i].append);
        /* The open made a segment; the rolls below make more, and spares. */
        disk.keeps_pages = cases[i].keeps;
        fixture_close(s.log);
        disk.maps = 0;
        s.log = fixture_open(&s.options, NULL);
        for (int k = 0; k < 300; k++) {
            OL_CHECK_OK(append(&s, 700, &error), &error);
            while (ol_log_prepare(s.log)) continue;
        }
        OL_CHECK_OK(ol_log_flush(s.log, &flushed, &error), &error);
        OL_CHECK_OK(ol_log_truncate(s.log, 10, &error), &error);
        OL_CHECK_INT(disk.maps > 0, cases[i].maps);
        end(&s);
    }
}

OL_TEST(a_write_that_fails_half_way_is_taken_back) {
    scene s;
    ol_error error;
    begin(&s, OL_APPEND_WRITTEN);
    for (int i = 0; i < 60; i++) {
        int64_t end_offset = ol_log_end(s.log);
        /* Below the extension of the file, over its end, and with nothing there yet. */
        disk.half = 1 + ol_test_below(900);
        OL_CHECK_INT(append(&s, 100 + 40 * (size_t)i, &error), OL_DISK_FULL);
        OL_CHECK_INT(ol_log_end(s.log), end_offset);
        OL_CHECK(!ol_log_has_failed(s.log));
        check_zeros_after_end(&s);
        /* fixture_try_append checks that the place is zeroed in memory, too. */
        if (i % 3 == 0) OL_CHECK_OK(append(&s, 50, &error), &error);
    }
    size_t size;
    free(fixture_read_log(s.log, 0, 1 << 16, &size));
    fixture_close(s.log);
    s.log = fixture_open(&s.options, NULL);
    OL_CHECK_INT(ol_log_end(s.log), 20);
    end(&s);
}

OL_TEST(half_a_batch_that_stays_fails_the_log) {
    scene s;
    ol_error error;
    begin(&s, OL_APPEND_WRITTEN);
    for (int i = 0; i < 5; i++) OL_CHECK_OK(append(&s, 100, &error), &error);
    disk.half = 40;
    disk.fails_on = true;
    OL_CHECK_INT(append(&s, 100, &error), OL_FAILED);
    OL_CHECK(strstr(error.path, "00000000000000000000.log") != NULL && error.position > 0);
    OL_CHECK(ol_log_has_failed(s.log));
    disk.half = 0;
    OL_CHECK_INT(append(&s, 100, &error), OL_FAILED);
    OL_CHECK_INT(ol_log_end(s.log), 5);
    ol_log_abandon(s.log);
    s.log = fixture_open(&s.options, NULL);
    OL_CHECK_INT(ol_log_end(s.log), 5);
    OL_CHECK_OK(append(&s, 100, &error), &error);
    end(&s);
}

/* Every operation of appends, rolls and extensions. */
OL_TEST(a_full_disk_changes_nothing) {
    scene s;
    ol_error error;
    ol_fs *fs = NULL;
    begin(&s, OL_APPEND_WRITTEN);
    fixture_close(s.log);
    OL_CHECK_OK(ol_fault_fs_create(s.root, &fs, &error), &error);
    s.options.fs = fs;
    s.log = fixture_open(&s.options, NULL);
    int refused = 0;
    for (int i = 0; i < 400; i++) {
        int64_t end_offset = ol_log_end(s.log);
        ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + 1 + (int64_t)ol_test_below(3), ENOSPC);
        int status = append(&s, 700, &error);
        ol_fault_fs_fail_at(fs, 0, 0);
        if (status != OL_OK) {
            OL_CHECK_INT(status, OL_DISK_FULL);
            OL_CHECK_INT(ol_log_end(s.log), end_offset);
            refused++;
            OL_CHECK_OK(append(&s, 700, &error), &error);
        }
        OL_CHECK_INT(ol_log_end(s.log), end_offset + 1);
    }
    OL_CHECK(refused > 50);
    OL_CHECK(!ol_log_has_failed(s.log));
    size_t size;
    free(fixture_read_log(s.log, 0, 1 << 16, &size));
    fixture_close(s.log);
    s.log = fixture_open(&s.options, NULL);
    OL_CHECK_INT(ol_log_end(s.log), 400);
    fixture_close(s.log);
    ol_fault_fs_free(fs);
    fixture_remove(s.root);
}

OL_TEST(a_file_that_somebody_cut_takes_no_more_batches) {
    static const int64_t sizes[] = {0, 100, 4096, 9000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        scene s;
        ol_error error;
        ol_log_segment_info info;
        char reason[120];
        begin(&s, OL_APPEND_WRITTEN);
        for (int k = 0; k < 20; k++) OL_CHECK_OK(append(&s, 500, &error), &error);
        OL_CHECK(ol_log_segment_at(s.log, 0, &info));
        OL_CHECK(truncate(info.path, sizes[i]) == 0);
        for (int k = 0; k < 2; k++) {
            OL_CHECK_INT(append(&s, 500, &error), OL_IO);
            snprintf(reason, sizeof reason, "the file is %d bytes long, but its segment has %d bytes", (int)sizes[i], (int)info.size);
            OL_CHECK(strcmp(error.reason, reason) == 0);
            OL_CHECK(strcmp(error.path, info.path) == 0);
        }
        OL_CHECK_INT(fixture_size(s.path, "00000000000000000000.log"), sizes[i]);
        OL_CHECK_INT(ol_log_end(s.log), 20);
        ol_log_abandon(s.log);
        fixture_remove(s.root);
    }
}

OL_TEST(a_mapped_file_that_somebody_cut_takes_no_more_batches) {
    scene s;
    ol_error error;
    ol_log_segment_info info;
    begin(&s, OL_APPEND_MAPPED);
    fixture_batch batch = fixture_plain(500, 3);
    for (int k = 0; k < 20; k++) OL_CHECK_OK(fixture_try_append(s.log, &batch, &error), &error);
    OL_CHECK(ol_log_segment_at(s.log, 0, &info));
    const int64_t extended = s.log->tail.active->extended;
    OL_CHECK(extended > info.size);
    const int64_t sizes[] = {extended - 1, info.size, 9000, 4096, 100, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char reason[120];
        OL_CHECK(truncate(info.path, sizes[i]) == 0);
        batch.timestamp++;
        for (int k = 0; k < 2; k++) {
            OL_CHECK_INT(fixture_try_append(s.log, &batch, &error), OL_IO);
            snprintf(reason, sizeof reason, "the file is %d bytes long, but was extended to %d bytes", (int)sizes[i], (int)extended);
            OL_CHECK(strcmp(error.reason, reason) == 0);
            OL_CHECK(strcmp(error.path, info.path) == 0);
        }
        /* An extension would hide the cut. */
        OL_CHECK_INT(ol_segment_extend(s.log->tail.active, extended + 4096, false, &error), OL_IO);
        OL_CHECK_INT(fixture_size(s.path, "00000000000000000000.log"), sizes[i]);
        int64_t offset;
        uint8_t *start;
        OL_CHECK_INT(ol_log_reserve_end(s.log, batch.timestamp, &start, &offset, &error), OL_IO);
        OL_CHECK_INT(ol_log_end(s.log), 20);
    }
    OL_CHECK(!ol_log_has_failed(s.log));
    ol_log_abandon(s.log);
    fixture_remove(s.root);
}

/* A batch of the timestamp of the last check asks again after so many bytes, and after a check that failed. */
OL_TEST(the_length_of_a_mapped_file_is_asked_for_again) {
    scene s;
    ol_error error;
    begin_in_segments_of(&s, OL_APPEND_MAPPED, 1 << 20);
    OL_CHECK_OK(ol_log_extend(s.log, 1 << 19, &error), &error);
    fixture_batch batch = fixture_plain(500, 3);
    OL_CHECK_OK(fixture_try_append(s.log, &batch, &error), &error);
    ol_log_segment_info info;
    OL_CHECK(ol_log_segment_at(s.log, 0, &info));
    /* The pages that are stored to stay. */
    OL_CHECK(truncate(info.path, s.log->tail.active->extended - 4096) == 0);
    int appended = 0;
    while (fixture_try_append(s.log, &batch, &error) == OL_OK) appended++;
    OL_CHECK_INT(error.status, OL_IO);
    OL_CHECK(appended > 64 && appended < 256);
    OL_CHECK_INT(fixture_try_append(s.log, &batch, &error), OL_IO);
    ol_log_abandon(s.log);
    fixture_remove(s.root);
}

/* A roll and a close trim the file, which would give it its length back, and a flush would vouch for it. */
OL_TEST(a_file_that_somebody_cut_is_not_made_whole) {
    static const ol_append ways[] = {OL_APPEND_WRITTEN, OL_APPEND_MAPPED};
    for (size_t way = 0; way < 2; way++) {
        scene s;
        ol_error error;
        ol_log_segment_info info;
        int64_t flushed = 0;
        begin(&s, ways[way]);
        fixture_batch batch = fixture_plain(500, 3);
        for (int k = 0; k < 20; k++) OL_CHECK_OK(fixture_try_append(s.log, &batch, &error), &error);
        OL_CHECK_OK(ol_log_flush(s.log, &flushed, &error), &error);
        OL_CHECK_OK(fixture_try_append(s.log, &batch, &error), &error);
        OL_CHECK(ol_log_segment_at(s.log, 0, &info));
        OL_CHECK(truncate(info.path, 100) == 0);
        OL_CHECK_INT(ol_log_roll(s.log, ol_log_end(s.log), &error), OL_IO);
        OL_CHECK(strcmp(error.path, info.path) == 0);
        OL_CHECK_INT(ol_log_flush(s.log, &flushed, &error), OL_IO);
        OL_CHECK_INT(flushed, 20);
        batch.timestamp += INT64_C(1000) * 3600 * 24 * 365;     /* would roll */
        OL_CHECK_INT(fixture_try_append(s.log, &batch, &error), OL_IO);
        OL_CHECK_INT(s.log->list.count, 1);
        OL_CHECK(!ol_log_has_failed(s.log));
        OL_CHECK_INT(ol_log_close(s.log, &error), OL_IO);
        OL_CHECK_INT(fixture_size(s.path, "00000000000000000000.log"), 100);
        fixture_remove(s.root);
    }
}

static size_t resident(uint8_t *data, size_t size) {
    size_t pages = size / 4096, count = 0;
    unsigned char *found = malloc(pages);
    OL_CHECK(mincore(data, size, found) == 0);
    for (size_t i = 0; i < pages; i++) count += found[i] & 1;
    free(found);
    return count * 4096;
}

OL_TEST(the_memory_of_what_was_written_is_given_back) {
    scene s;
    ol_error error;
    begin_in_segments_of(&s, OL_APPEND_WRITTEN, 16 << 20);
    size_t most = 0;
    for (int i = 0; i < 3000; i++) {
        OL_CHECK_OK(append(&s, 5000, &error), &error);
        size_t now = resident(s.log->tail.data, 16 << 20);
        if (now > most) most = now;
    }
    OL_CHECK_INT(s.log->list.count, 1);
    OL_CHECK(most < 300 << 10);
    size_t size;
    free(fixture_read_log(s.log, 0, 1 << 20, &size));
    OL_CHECK(size > 15000000);
    end(&s);
}

OL_TEST_MAIN()
