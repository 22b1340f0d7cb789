/* memory_scan: a scan over a log in memory, whichever way it is read, and where damage stops it. */
#ifndef OL_TEST_MEMORY_SCAN_H
#define OL_TEST_MEMORY_SCAN_H

#include "columns/record_scan.h"
#include "memory_log.h"

/* The views of records, with outcomes and without. */
static const struct {
    ol_record_view view;
    bool wants_outcomes;
} ways[] = {{OL_VIEW_COMMITS, false}, {OL_VIEW_COMMITS, true}, {OL_VIEW_RECORDS, false}, {OL_VIEW_RECORDS, true}};

enum { WAYS = sizeof ways / sizeof *ways, MEMORY_ROWS = 32 };

static memory_log the_log;

/* The file that holds the log. */
struct ol_file {
    const memory_log *log;
};

static int memory_read(ol_file *file, int64_t position, void *data, size_t size, size_t *got, ol_error *error OL_UNUSED) {
    size_t left = file->log->filled - (size_t)position;
    *got = size < left ? size : left;
    memcpy(data, file->log->bytes + position, *got);
    return OL_OK;
}

static int memory_size(ol_file *file, int64_t *size, ol_error *error OL_UNUSED) {
    *size = (int64_t)file->log->filled;
    return OL_OK;
}

static ol_file the_file = {&the_log};
static ol_fs memory_fs = {.read = memory_read, .size = memory_size};

/* Plain batches, transactions with each outcome, and their markers; no log offset is left out. */
OL_UNUSED static void write_batches(void) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, 2);
    memory_log_commits(&the_log, 7, 2);
    memory_log_marker(&the_log, 7, OL_CONTROL_COMMIT);
    memory_log_commits(&the_log, 8, 1);
    memory_log_commits(&the_log, -1, 2);
    memory_log_marker(&the_log, 8, OL_CONTROL_ABORT);
    memory_log_commits(&the_log, 9, 1);
}

OL_UNUSED static void record_batch(ol_transaction_outcomes *outcomes, size_t i, const ol_decompressor *decompressor,
                                   bool is_asked) {
    ol_error error;
    ol_batch batch = memory_log_batch(&the_log, i);
    OL_CHECK_OK(ol_transaction_outcomes_record(outcomes, &batch, decompressor, is_asked, &error), &error);
}

/* Everything is asked for. */
OL_UNUSED static ol_transaction_outcomes outcomes_of_log(const ol_decompressor *decompressor) {
    ol_transaction_outcomes outcomes = {0};
    for (size_t i = 0; i < the_log.count; i++) record_batch(&outcomes, i, decompressor, true);
    ol_transaction_outcomes_sort(&outcomes);
    return outcomes;
}

typedef struct memory_scan {
    ol_file_scan file_scan;
    ol_record_scan work;
    ol_record_block rows;
    ol_error error;
    bool refused;
} memory_scan;

OL_UNUSED static void begin_scan(memory_scan *s, ol_record_view view, bool wants_outcomes,
                                 const ol_transaction_outcomes *outcomes) {
    static const ol_column of_records[] = {OL_COLUMN_LOG_OFFSET, OL_COLUMN_KIND, OL_COLUMN_OUTCOME,
                                           OL_COLUMN_MARKER_OFFSET};
    static const ol_column of_batches[] = {OL_COLUMN_BASE_OFFSET, OL_COLUMN_LAST_OFFSET, OL_COLUMN_CRC_OK,
                                           OL_COLUMN_CONTROL};
    bool has_records = view != OL_VIEW_BATCHES;
    OL_CHECK_OK(ol_record_block_create(&s->rows, has_records ? of_records : of_batches, 4, MEMORY_ROWS, &s->error),
                &s->error);
    ol_file_scan_start(&s->file_scan, &memory_fs, &the_file, false, 0, (int64_t)the_log.filled);
    s->work = (ol_record_scan){.file_scan = &s->file_scan, .outcomes = outcomes, .segment = ol_slice_of("x.log", 5),
                               .until = INT64_MAX, .view = view, .partition = -1, .wants_outcomes = wants_outcomes};
}

OL_UNUSED static void begin_way(memory_scan *s, size_t way, const ol_transaction_outcomes *outcomes) {
    begin_scan(s, ways[way].view, ways[way].wants_outcomes, ways[way].wants_outcomes ? outcomes : NULL);
}

OL_UNUSED static void end_scan(memory_scan *s) {
    ol_record_scan_close(&s->work);
    ol_file_scan_close(&s->file_scan);
    ol_record_block_free(&s->rows);
}

/* Checks a scan of each way, which has not begun to read. */
OL_UNUSED static void for_each_way(void (*check)(memory_scan *s, size_t way)) {
    ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
    for (size_t way = 0; way < WAYS; way++) {
        memory_scan s;
        begin_way(&s, way, &outcomes);
        check(&s, way);
        end_scan(&s);
    }
    ol_transaction_outcomes_free(&outcomes);
}

/* The log may have been damaged since the last call, so nothing that was read before it counts. */
OL_UNUSED static int fill(memory_scan *s) {
    s->file_scan.buffer_size = 0;
    return ol_record_scan_fill(&s->work, &s->rows, &s->refused, &s->error);
}

OL_UNUSED static int64_t int64_at(const memory_scan *s, ol_column column, size_t row) {
    return ((const int64_t *)(const void *)s->rows.arrays[column].data)[row];
}

OL_UNUSED static bool boolean_at(const memory_scan *s, ol_column column, size_t row) {
    return s->rows.arrays[column].data[row >> 3] >> (row & 7) & 1;
}

/* How many rows the first so many batches have. */
OL_UNUSED static size_t rows_of(ol_record_view view, size_t batches) {
    size_t count = 0;
    for (size_t i = 0; i < batches; i++) {
        ol_batch batch = memory_log_batch(&the_log, i);
        if (view == OL_VIEW_RECORDS || !ol_batch_is_control(&batch)) count += (size_t)batch.record_count;
    }
    return count;
}

/* The scan stays where it is, and another call reports the same. */
OL_UNUSED static void check_stop(memory_scan *s, int status, size_t i, size_t rows, int64_t next_offset) {
    for (int call = 0; call < 2; call++) {
        OL_CHECK_INT(fill(s), status);
        OL_CHECK(!s->refused);
        OL_CHECK_INT(s->rows.count, rows);
        OL_CHECK_INT(s->file_scan.position, the_log.starts[i]);
        OL_CHECK_INT(s->work.next_offset, next_offset);
    }
}

/* Every way of reading stops before batch `i`. */
OL_UNUSED static void check_stop_of_every_way(int status, size_t i, size_t batches_with_rows, int64_t next_offset) {
    memory_scan s;
    ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
    for (size_t way = 0; way < WAYS; way++) {
        begin_way(&s, way, &outcomes);
        check_stop(&s, status, i, rows_of(ways[way].view, batches_with_rows), next_offset);
        end_scan(&s);
    }
    ol_transaction_outcomes_free(&outcomes);
}

/* False for the few headers that no walk over a file returns, whatever their checksum. */
OL_UNUSED static bool can_be_parsed(size_t i) {
    ol_batch batch;
    ol_error error;
    return ol_batch_parse(memory_log_start(&the_log, i), memory_log_bits(&the_log, i) / 8, &batch, &error) == OL_OK;
}

#endif
