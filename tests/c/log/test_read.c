/* Reads into a caller's buffer, and pieces of files. */
#include <fcntl.h>
#include <unistd.h>

#include "log/log_impl.h"
#include "partition_fixture.h"

enum { BATCHES = 400, BUFFER = 64 << 10 };

static ol_partition *written_log(int64_t segment_bytes) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.log.config.segment_bytes = segment_bytes;
    options.batch_bytes_max = 2048;
    ol_partition *partition = open_partition(&options, true);
    for (int i = 0; i < BATCHES; i++) {
        ol_item items[3];
        size_t count = 1 + ol_test_below(3);
        for (size_t k = 0; k < count; k++) items[k] = position_item("g", "t", (int32_t)k, i);
        ol_commit_result result;
        ol_error error;
        OL_CHECK_OK(ol_partition_commit(partition, items, count, -1, -1, &result, &error), &error);
    }
    return partition;
}

/* Whole batches from the one that holds `offset` on, none of which reaches above `end`. */
static int64_t check_bytes(const uint8_t *data, size_t size, int64_t offset, int64_t end) {
    int64_t next = -1;
    for (size_t at = 0; at < size;) {
        ol_batch batch;
        ol_error error;
        OL_CHECK_OK(ol_batch_parse(data + at, size - at, &batch, &error), &error);
        OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
        OL_CHECK(next < 0 ? batch.base_offset <= offset && batch.last_offset >= offset : batch.base_offset == next);
        next = ol_batch_next_offset(&batch);
        OL_CHECK(next <= end);
        at += batch.size;
    }
    return next < 0 ? offset : next;
}

OL_TEST(every_offset_is_read_in_buffers_of_any_size) {
    static const int64_t segment_sizes[] = {4096, 1 << 20};
    uint8_t *buffer = malloc(BUFFER);
    for (int s = 0; s < 2; s++) {
        ol_partition *partition = written_log(segment_sizes[s]);
        ol_log *log = ol_partition_log(partition);
        int64_t end = ol_log_end(log);
        for (int64_t offset = 0; offset <= end; offset++) {
            size_t size, capacity = 400 + ol_test_below(BUFFER - 400);
            ol_error error;
            int64_t limit = ol_test_below(2) ? end : (int64_t)ol_test_below((uint64_t)end + 1);
            OL_CHECK_OK(ol_log_read(log, offset, limit, buffer, capacity, &size, &error), &error);
            int64_t next = check_bytes(buffer, size, offset, limit);
            if (offset + 3 < limit) OL_CHECK(next > offset);
        }
        /* On and on, as a follower. */
        for (int64_t offset = 0; offset < end;) {
            size_t size;
            ol_error error;
            OL_CHECK_OK(ol_log_read(log, offset, end, buffer, 1000, &size, &error), &error);
            OL_CHECK(size > 0);
            offset = check_bytes(buffer, size, offset, end);
        }
        close_partition(partition);
    }
    free(buffer);
    remove_fixture();
}

OL_TEST(what_cannot_be_read_is_refused) {
    ol_partition *partition = written_log(4096);
    ol_log *log = ol_partition_log(partition);
    uint8_t buffer[2048];
    size_t size;
    ol_error error;
    int64_t end = ol_log_end(log);
    OL_CHECK_INT(ol_log_read(log, end + 1, end, buffer, sizeof buffer, &size, &error), OL_OUT_OF_RANGE);
    OL_CHECK_INT(ol_log_read(log, -1, end, buffer, sizeof buffer, &size, &error), OL_OUT_OF_RANGE);
    OL_CHECK_INT(ol_log_read(log, 0, end, buffer, 60, &size, &error), OL_INVALID);
    OL_CHECK_INT(ol_log_read(log, 0, end, buffer, 61, &size, &error), OL_TOO_LARGE);
    OL_CHECK_INT(size, 0);
    OL_CHECK_OK(ol_log_read(log, end, end, buffer, sizeof buffer, &size, &error), &error);
    OL_CHECK_INT(size, 0);
    OL_CHECK_OK(ol_log_read(log, 0, 0, buffer, sizeof buffer, &size, &error), &error);
    OL_CHECK_INT(size, 0);
    ol_file_range range;
    OL_CHECK_INT(ol_log_file_range(log, end + 1, end, 1000, &range, &error), OL_OUT_OF_RANGE);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_piece_of_a_file_has_what_a_read_has) {
    ol_partition *partition = written_log(4096);
    ol_log *log = ol_partition_log(partition);
    uint8_t *buffer = malloc(BUFFER), *piece = malloc(BUFFER);
    int64_t end = ol_log_end(log);
    for (int64_t offset = 0; offset <= end; offset++) {
        ol_file_range range;
        ol_error error;
        size_t size;
        int64_t limit = ol_test_below(2) ? end : (int64_t)ol_test_below((uint64_t)end + 1);
        OL_CHECK_OK(ol_log_file_range(log, offset, limit, 10 + ol_test_below(3000), &range, &error), &error);
        OL_CHECK_OK(ol_log_read(log, offset, limit, buffer, BUFFER, &size, &error), &error);
        OL_CHECK(range.size <= BUFFER && (range.size > 0) == (size > 0));
        if (range.size == 0) continue;
        int file = open(range.path, O_RDONLY);
        OL_CHECK(file >= 0);
        OL_CHECK_INT(pread(file, piece, range.size, range.position), (int64_t)range.size);
        close(file);
        size_t common = range.size < size ? range.size : size;
        OL_CHECK(memcmp(piece, buffer, common) == 0);
    }
    free(buffer);
    free(piece);
    close_partition(partition);
    remove_fixture();
}

static int reads;
static int count_read(ol_file *file, int64_t position, void *buffer, size_t size, size_t *got, ol_error *error) {
    reads++;
    return ol_fs_posix()->read(file, position, buffer, size, got, error);
}

/* A follower's read costs one call of the file system for its bytes. */
OL_TEST(a_read_that_goes_on_reads_the_file_once) {
    ol_partition *partition = written_log(1 << 20);
    ol_log *log = ol_partition_log(partition);
    uint8_t *buffer = malloc(BUFFER);
    ol_fs counting = *log->fs, *before = log->fs;
    counting.read = count_read;
    log->fs = &counting;
    int64_t end = ol_log_end(log);
    for (int64_t offset = 0, first = 1; offset < end; first = 0) {
        size_t size;
        ol_error error;
        reads = 0;
        OL_CHECK_OK(ol_log_read(log, offset, end, buffer, 1500, &size, &error), &error);
        OL_CHECK(first || reads == 1);
        offset = check_bytes(buffer, size, offset, end);
    }
    log->fs = before;
    free(buffer);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
