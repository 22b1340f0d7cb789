#include "log_fixture.h"

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

OL_TEST_MAIN()
