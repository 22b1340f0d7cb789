/* Records of .log files as rows: against a walk over the same batches, from any position, in blocks of any size; where
 * damage stops them; shares of a state. */
#include <stdio.h>

#include "base/java_string.h"
#include "columns/offset_rows.h"
#include "columns/record_scan.h"
#include "memory_scan.h"
#include "partition_fixture.h"

enum { STEPS = 400, ROWS_MAX = 4000, PRODUCERS = 3 };

static const char *const groups[] = {"a", "ab", "caf\xc3\xa9", "broken \xff\xc3 \xed\xa0\x80!", ""};
static const ol_column commit_columns[] = {OL_COLUMN_GROUP, OL_COLUMN_TOPIC, OL_COLUMN_PARTITION, OL_COLUMN_OFFSET, OL_COLUMN_METADATA,
                                           OL_COLUMN_TOPIC_ID, OL_COLUMN_KIND, OL_COLUMN_OUTCOME, OL_COLUMN_MARKER_OFFSET, OL_COLUMN_LOG_OFFSET};
static const ol_column record_columns[] = {OL_COLUMN_LOG_OFFSET, OL_COLUMN_KEY, OL_COLUMN_VALUE, OL_COLUMN_HEADER_KEYS, OL_COLUMN_CONTROL_TYPE,
                                           OL_COLUMN_KIND, OL_COLUMN_SEGMENT, OL_COLUMN_CODEC, OL_COLUMN_TRANSACTIONAL, OL_COLUMN_GROUP};
static const ol_column batch_columns[] = {OL_COLUMN_BASE_OFFSET, OL_COLUMN_LAST_OFFSET, OL_COLUMN_CRC_OK, OL_COLUMN_CONTROL, OL_COLUMN_RECORD_COUNT};
static const char *const kinds[] = {"legacy", "offset_commit"};

typedef struct log_file {
    char path[512];
    int64_t ends[STEPS];        /* byte positions after batches */
    size_t end_count;
    int64_t next_offset;
} log_file;

/* ------------------------------------------------------------------------------------------------ a log, and what is in it */

static void write_log(log_file *file) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    bool open[PRODUCERS] = {false};
    for (int i = 0; i < STEPS; i++) {
        size_t producer = ol_test_below(PRODUCERS);
        const char *group = groups[ol_test_below(5)];
        uint64_t kind = ol_test_below(8);
        if (kind == 0 && open[producer]) {
            end_transaction(partition, (int64_t)producer, ol_test_below(2) ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
            open[producer] = false;
        } else if (kind <= 2) {
            commit_pending(partition, (int64_t)producer, group, "topic", (int32_t)ol_test_below(9), i);
            open[producer] = true;
        } else if (kind == 3) {
            delete_one(partition, group, "topic", (int32_t)ol_test_below(9));
        } else {
            commit_one(partition, group, "t", (int32_t)ol_test_below(9), i);
        }
    }
    file->next_offset = ol_log_end(ol_partition_log(partition));
    close_partition(partition);
    snprintf(file->path, sizeof file->path, "%s/00000000000000000000.log", fixture_directory);
    ol_file_scan scan;
    ol_batch batch;
    ol_error error;
    OL_CHECK_OK(ol_file_scan_open(&scan, ol_fs_posix(), file->path, 0, -1, &error), &error);
    file->end_count = 0;
    while (ol_file_scan_next(&scan, &batch, &error) == OL_OK) file->ends[file->end_count++] = scan.position;
    ol_file_scan_close(&scan);
    OL_CHECK(file->end_count > STEPS / 2 && file->end_count <= STEPS);
}

static void find_outcomes(const log_file *file, ol_transaction_outcomes *outcomes) {
    ol_file_scan scan;
    ol_batch batch;
    ol_error error;
    OL_CHECK_OK(ol_file_scan_open(&scan, ol_fs_posix(), file->path, 0, -1, &error), &error);
    while (ol_file_scan_next(&scan, &batch, &error) == OL_OK) OL_CHECK_OK(ol_transaction_outcomes_record(outcomes, &batch, NULL, true, &error), &error);
    ol_file_scan_close(&scan);
    ol_transaction_outcomes_sort(outcomes);
}

/* ------------------------------------------------------------------------------------------------ reading it */

typedef struct found {
    int64_t offsets[ROWS_MAX];
    int64_t markers[ROWS_MAX];
    char outcomes[ROWS_MAX];
    size_t count;
} found;

static ol_slice string_at(const ol_row_array *array, size_t row) {
    return ol_slice_of(array->data + array->ends[row], (size_t)(array->ends[row + 1] - array->ends[row]));
}

static bool is_null(const ol_row_array *array, size_t row) { return (array->valid[row >> 3] >> (row & 7) & 1) == 0; }

static void take_rows(const ol_record_block *rows, found *into) {
    for (size_t row = 0; row < rows->count; row++) {
        OL_CHECK(into->count < ROWS_MAX);
        into->offsets[into->count] = ((const int64_t *)(const void *)rows->arrays[OL_COLUMN_LOG_OFFSET].data)[row];
        if (rows->arrays[OL_COLUMN_OUTCOME].wanted) {
            const ol_row_array *marker = &rows->arrays[OL_COLUMN_MARKER_OFFSET];
            into->markers[into->count] = is_null(marker, row) ? -1 : ((const int64_t *)(const void *)marker->data)[row];
            into->outcomes[into->count] = (char)string_at(&rows->arrays[OL_COLUMN_OUTCOME], row).data[0];
            bool valid = true;
            ol_utf16_units(string_at(&rows->arrays[OL_COLUMN_GROUP], row), &valid);
            OL_CHECK(valid);
        }
        into->count++;
    }
}

typedef struct reading {
    ol_record_view view;
    int64_t position;
    int64_t limit;
    int64_t first;
    int64_t until;
    ol_key_shard bucket;
    size_t block_rows;
} reading;

static reading everything(ol_record_view view, size_t block_rows) {
    return (reading){.view = view, .limit = -1, .until = INT64_MAX, .block_rows = block_rows};
}

static void make_rows(ol_record_block *rows, ol_record_view view, size_t block_rows) {
    ol_error error;
    const ol_column *columns = view == OL_VIEW_COMMITS ? commit_columns : view == OL_VIEW_RECORDS ? record_columns : batch_columns;
    size_t count = view == OL_VIEW_BATCHES ? sizeof batch_columns / sizeof *batch_columns : 10;
    OL_CHECK_OK(ol_record_block_create(rows, columns, count, block_rows, &error), &error);
}

static void read_rows(const log_file *file, const reading *how, const ol_transaction_outcomes *outcomes, found *into) {
    ol_record_block rows;
    ol_file_scan scan;
    ol_error error;
    bool refused;
    make_rows(&rows, how->view, how->block_rows);
    OL_CHECK_OK(ol_file_scan_open(&scan, ol_fs_posix(), file->path, how->position, how->limit, &error), &error);
    ol_record_scan work = {.file_scan = &scan, .kinds = kinds, .kind_count = 2, .segment = text("x.log"), .first = how->first, .until = how->until,
                           .view = how->view, .partition = -1, .shard = how->bucket, .wants_outcomes = how->view == OL_VIEW_COMMITS};
    for (;;) {
        int status = ol_record_scan_fill(&work, &rows, &refused, &error);
        if (status == OL_WOULD_BLOCK) {
            work.outcomes = outcomes;
            continue;
        }
        OL_CHECK(status == OL_OK || status == OL_END);
        take_rows(&rows, into);
        if (status == OL_END) break;
        OL_CHECK_INT(rows.count, rows.capacity);
        ol_record_block_clear(&rows);
    }
    ol_record_scan_close(&work);
    ol_file_scan_close(&scan);
    ol_record_block_free(&rows);
}

static void check_same(const found *a, const found *b) {
    OL_CHECK_INT(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        OL_CHECK_INT(a->offsets[i], b->offsets[i]);
        OL_CHECK_INT(a->markers[i], b->markers[i]);
        OL_CHECK_INT(a->outcomes[i], b->outcomes[i]);
    }
}

OL_TEST(splits_and_blocks_of_any_size_tell_the_same) {
    static log_file file;
    static found whole, parts;
    ol_transaction_outcomes outcomes = {0};
    write_log(&file);
    find_outcomes(&file, &outcomes);
    for (int round = 0; round < 60; round++) {
        ol_record_view view = ol_test_below(2) ? OL_VIEW_COMMITS : OL_VIEW_RECORDS;
        memset(&whole, 0, sizeof whole);
        memset(&parts, 0, sizeof parts);
        reading how = everything(view, ROWS_MAX);
        read_rows(&file, &how, &outcomes, &whole);
        OL_CHECK(whole.count > 0);
        int64_t at = 0;
        for (size_t k = ol_test_below(4); at < file.ends[file.end_count - 1]; k += 1 + ol_test_below(file.end_count / 3)) {
            if (k >= file.end_count) k = file.end_count - 1;
            how = everything(view, 1 + ol_test_below(70));
            how.position = at;
            how.limit = file.ends[k];
            if (how.limit > at) read_rows(&file, &how, &outcomes, &parts);
            at = how.limit > at ? how.limit : at;
        }
        check_same(&whole, &parts);
    }
    ol_transaction_outcomes_free(&outcomes);
    remove_fixture();
}

OL_TEST(bounds_of_log_offsets_and_buckets_part_the_records) {
    static log_file file;
    static found whole, parts;
    ol_transaction_outcomes outcomes = {0};
    write_log(&file);
    find_outcomes(&file, &outcomes);
    memset(&whole, 0, sizeof whole);
    reading how = everything(OL_VIEW_COMMITS, 64);
    read_rows(&file, &how, &outcomes, &whole);
    for (int round = 0; round < 40; round++) {
        memset(&parts, 0, sizeof parts);
        for (int64_t first = 0; first < file.next_offset;) {
            how.first = first;
            how.until = first += 1 + (int64_t)ol_test_below(200);
            read_rows(&file, &how, &outcomes, &parts);
        }
        check_same(&whole, &parts);
    }
    how = everything(OL_VIEW_COMMITS, 64);
    how.bucket.by_group = ol_test_below(2);
    how.bucket.count = 3;
    memset(&parts, 0, sizeof parts);
    for (how.bucket.number = 0; how.bucket.number < 3; how.bucket.number++) read_rows(&file, &how, &outcomes, &parts);
    OL_CHECK_INT(whole.count, parts.count);
    ol_transaction_outcomes_free(&outcomes);
    remove_fixture();
}

OL_TEST(batches_are_known_by_their_headers) {
    static log_file file;
    ol_record_block rows;
    ol_file_scan scan;
    ol_error error;
    bool refused;
    write_log(&file);
    make_rows(&rows, OL_VIEW_BATCHES, STEPS + 1);
    OL_CHECK_OK(ol_file_scan_open(&scan, ol_fs_posix(), file.path, 0, -1, &error), &error);
    ol_record_scan work = {.file_scan = &scan, .until = INT64_MAX, .view = OL_VIEW_BATCHES, .partition = -1};
    OL_CHECK_INT(ol_record_scan_fill(&work, &rows, &refused, &error), OL_END);
    OL_CHECK_INT(rows.count, file.end_count);
    for (size_t row = 0; row < rows.count; row++) OL_CHECK(rows.arrays[OL_COLUMN_CRC_OK].data[row >> 3] >> (row & 7) & 1);
    ol_file_scan_close(&scan);
    ol_record_block_free(&rows);
    remove_fixture();
}

/* ----------------------------------------------------------------------------------------------------------- damage */

OL_TEST(an_undamaged_log_is_read_to_its_end) {
    write_batches();
    check_stop_of_every_way(OL_END, the_log.count, the_log.count, the_log.next_offset);
}

/* Any bit of the records, or of the header from the checksum on. */
static void check_flipped_bits(memory_scan *s, size_t way) {
    for (size_t i = 0; i < the_log.count; i++) {
        ol_batch batch = memory_log_batch(&the_log, i);
        for (size_t bit = MEMORY_LOG_FIRST_BIT; bit < memory_log_bits(&the_log, i); bit++) {
            memory_log_flip(&the_log, i, bit);
            check_stop(s, OL_CORRUPT, i, rows_of(ways[way].view, i), batch.base_offset);
            memory_log_flip(&the_log, i, bit);
        }
        /* On to the next batch. */
        s->file_scan.limit = (int64_t)the_log.starts[i + 1];
        OL_CHECK_INT(fill(s), OL_END);
        s->file_scan.limit = (int64_t)the_log.filled;
    }
}

OL_TEST(a_flipped_bit_ends_a_scan_before_its_batch) {
    write_batches();
    for_each_way(check_flipped_bits);
}

OL_TEST(a_flipped_bit_is_reported_in_the_row_of_its_batch) {
    memory_scan s;
    size_t judged = 0;
    write_batches();
    for (size_t i = 0; i < the_log.count; i++) {
        for (size_t bit = MEMORY_LOG_FIRST_BIT; bit < memory_log_bits(&the_log, i); bit++) {
            memory_log_flip(&the_log, i, bit);
            begin_scan(&s, OL_VIEW_BATCHES, true, NULL);
            if (can_be_parsed(i)) {
                OL_CHECK_INT(fill(&s), OL_END);
                OL_CHECK_INT(s.rows.count, the_log.count);
                for (size_t row = 0; row < s.rows.count; row++) {
                    OL_CHECK_INT(boolean_at(&s, OL_COLUMN_CRC_OK, row), row != i);
                }
                judged++;
            } else {
                OL_CHECK_INT(fill(&s), OL_CORRUPT);
                OL_CHECK_INT(s.rows.count, i);
                OL_CHECK_INT(s.file_scan.position, the_log.starts[i]);
            }
            end_scan(&s);
            memory_log_flip(&the_log, i, bit);
        }
    }
    OL_CHECK(judged > 8 * (the_log.filled - the_log.count * OL_BATCH_OVERHEAD));
}

/* An end of the transaction would be searched for in vain. */
OL_TEST(damage_is_reported_before_outcomes_are_asked_for) {
    memory_scan s;
    write_batches();
    for (ol_record_view view = OL_VIEW_COMMITS; view <= OL_VIEW_RECORDS; view++) {
        begin_scan(&s, view, true, NULL);
        check_stop(&s, OL_WOULD_BLOCK, 1, 2, 2);
        memory_log_flip_last(&the_log, 1);
        check_stop(&s, OL_CORRUPT, 1, 2, 2);
        memory_log_flip_last(&the_log, 1);
        check_stop(&s, OL_WOULD_BLOCK, 1, 2, 2);
        end_scan(&s);
    }
}

static void check_resync(memory_scan *s, size_t way) {
    ol_batch next;
    size_t all = rows_of(ways[way].view, the_log.count), before = rows_of(ways[way].view, 3);
    check_stop(s, OL_CORRUPT, 3, before, 5);
    int64_t damaged = s->file_scan.position, next_offset = s->work.next_offset;
    OL_CHECK_OK(ol_file_scan_resync(&s->file_scan, damaged, next_offset, INT64_MAX, &next, &s->error), &s->error);
    OL_CHECK_INT(fill(s), OL_END);
    OL_CHECK_INT(s->rows.count, all - 1);
    OL_CHECK_INT(int64_at(s, OL_COLUMN_LOG_OFFSET, before - 1), ways[way].view == OL_VIEW_RECORDS ? 4 : 3);
    OL_CHECK_INT(int64_at(s, OL_COLUMN_LOG_OFFSET, before), 6);
}

OL_TEST(a_scan_goes_on_after_a_damaged_batch) {
    write_batches();
    memory_log_flip_last(&the_log, 3);
    for_each_way(check_resync);
}

static void check_limits(memory_scan *s, size_t way) {
    for (size_t limit = the_log.starts[3] + 1; limit < the_log.starts[4]; limit++) {
        s->file_scan.limit = (int64_t)limit;
        check_stop(s, OL_TORN, 3, rows_of(ways[way].view, 3), 5);
    }
}

OL_TEST(a_batch_that_the_limit_cuts_is_torn) {
    memory_scan s;
    write_batches();
    for_each_way(check_limits);
    begin_scan(&s, OL_VIEW_BATCHES, false, NULL);
    s.file_scan.limit = (int64_t)the_log.starts[4] - 1;
    check_stop(&s, OL_TORN, 3, 3, 5);
    end_scan(&s);
}

/* ---------------------------------------------------------------------------------- offsets that no checksum covers */

static void assign(size_t i, int64_t base_offset) { ol_batch_assign(memory_log_start(&the_log, i), base_offset, -1); }

OL_TEST(a_base_offset_that_goes_back_is_damage) {
    for (int64_t base_offset = 0; base_offset < 5; base_offset++) {
        write_batches();
        assign(3, base_offset);
        check_stop_of_every_way(OL_CORRUPT, 3, 3, 5);
    }
}

/* As a load reports it: the batch after it shows which of the two is wrong. */
OL_TEST(a_base_offset_that_is_too_great_is_reported_at_its_batch) {
    write_batches();
    assign(3, 6);
    check_stop_of_every_way(OL_CORRUPT, 3, 3, 5);
}

OL_TEST(a_gap_between_batches_is_no_damage) {
    write_batches();
    assign(6, 100);
    check_stop_of_every_way(OL_END, the_log.count, the_log.count, 101);
}

OL_TEST(a_scan_that_begins_in_the_middle_knows_where_the_batch_before_it_ended) {
    memory_scan s;
    write_batches();
    for (int64_t next_offset = 5; next_offset <= 6; next_offset++) {
        begin_scan(&s, OL_VIEW_COMMITS, false, NULL);
        s.file_scan.position = (int64_t)the_log.starts[3];
        s.work.next_offset = next_offset;
        OL_CHECK_INT(fill(&s), next_offset == 5 ? OL_END : OL_CORRUPT);
        OL_CHECK_INT(s.file_scan.position, next_offset == 5 ? the_log.filled : the_log.starts[3]);
        end_scan(&s);
    }
}

OL_TEST(the_greatest_last_offset_leaves_none_for_the_next_batch) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, 1);
    memory_log_commits(&the_log, -1, 2);
    assign(1, INT64_MAX - 1);
    check_stop_of_every_way(OL_CORRUPT, 1, 1, 1);
    assign(1, INT64_MAX - 2);
    check_stop_of_every_way(OL_END, 2, 2, INT64_MAX);
}

OL_TEST(the_greatest_base_offset_is_no_end_of_the_log) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, 1);
    memory_log_commits(&the_log, -1, 1);
    assign(1, INT64_MAX);
    check_stop_of_every_way(OL_CORRUPT, 1, 1, 1);
}

OL_TEST(a_row_of_a_batch_shows_its_offsets_as_they_are) {
    static const int64_t bases[] = {INT64_MAX - 1, 3, 0};
    memory_scan s;
    memory_log_clear(&the_log);
    for (size_t i = 0; i < 3; i++) {
        memory_log_commits(&the_log, -1, 2);
        assign(i, bases[i]);
    }
    begin_scan(&s, OL_VIEW_BATCHES, false, NULL);
    OL_CHECK_INT(fill(&s), OL_END);
    OL_CHECK_INT(s.rows.count, 3);
    for (size_t i = 0; i < 3; i++) {
        OL_CHECK_INT(int64_at(&s, OL_COLUMN_BASE_OFFSET, i), bases[i]);
        OL_CHECK_INT(int64_at(&s, OL_COLUMN_LAST_OFFSET, i), bases[i] + 1);
        OL_CHECK(boolean_at(&s, OL_COLUMN_CRC_OK, i));
    }
    end_scan(&s);
}

/* ----------------------------------------------------------------------------------- batches that are not asked for */

OL_TEST(a_batch_outside_the_asked_offsets_is_not_read) {
    memory_scan s;
    write_batches();
    for (size_t i = 0; i < the_log.count; i++) {
        if (i != 4) memory_log_flip_last(&the_log, i);
    }
    for (ol_record_view view = OL_VIEW_COMMITS; view <= OL_VIEW_BATCHES; view++) {
        begin_scan(&s, view, false, NULL);
        s.work.first = 6;
        s.work.until = 8;
        OL_CHECK_INT(fill(&s), OL_END);
        OL_CHECK_INT(s.rows.count, view == OL_VIEW_BATCHES ? 1 : 2);
        OL_CHECK_INT(s.file_scan.position, the_log.starts[5]);
        end_scan(&s);
    }
}

/* One record is asked for; the damage is in the other. */
OL_TEST(a_batch_that_reaches_into_the_asked_offsets_is_checked) {
    memory_scan s;
    write_batches();
    memory_log_flip(&the_log, 1, 8 * OL_BATCH_AT_RECORDS + 30);
    begin_scan(&s, OL_VIEW_COMMITS, false, NULL);
    s.work.first = 3;
    check_stop(&s, OL_CORRUPT, 1, 0, 2);
    end_scan(&s);
}

/* --------------------------------------------------------------------------------------------------------- outcomes */

static void check_outcome(const memory_scan *s, size_t row, const char *outcome, int64_t marker_offset) {
    const ol_row_array *marker = &s->rows.arrays[OL_COLUMN_MARKER_OFFSET];
    OL_CHECK(ol_slice_equal(string_at(&s->rows.arrays[OL_COLUMN_OUTCOME], row), text(outcome)));
    OL_CHECK_INT(is_null(marker, row) ? -1 : int64_at(s, OL_COLUMN_MARKER_OFFSET, row), marker_offset);
}

/* Both are by log offset; the markers are at 4 and 8. */
static const char *const outcomes_by_offset[] = {"plain",   "plain", "committed", "committed", "plain",
                                                 "aborted", "plain", "plain",     "plain",     "open"};
static const int64_t ends_by_offset[] = {-1, -1, 4, 4, -1, 8, -1, -1, -1, -1};

static void check_outcomes(memory_scan *s, size_t way) {
    OL_CHECK_INT(fill(s), OL_END);
    for (size_t row = 0; row < s->rows.count; row++) {
        int64_t offset = int64_at(s, OL_COLUMN_LOG_OFFSET, row);
        bool wanted = ways[way].wants_outcomes;
        check_outcome(s, row, wanted ? outcomes_by_offset[offset] : "plain", wanted ? ends_by_offset[offset] : -1);
    }
}

OL_TEST(a_row_has_the_outcome_that_its_marker_gave) {
    write_batches();
    for_each_way(check_outcomes);
}

OL_TEST(a_transaction_whose_marker_is_damaged_is_open) {
    memory_scan s;
    write_batches();
    memory_log_flip_last(&the_log, 2);
    ol_transaction_outcomes outcomes = outcomes_of_log(NULL);
    begin_scan(&s, OL_VIEW_COMMITS, true, &outcomes);
    check_stop(&s, OL_CORRUPT, 2, 4, 4);
    for (size_t row = 2; row < 4; row++) check_outcome(&s, row, "open", -1);
    end_scan(&s);
    ol_transaction_outcomes_free(&outcomes);
}

OL_TEST(a_scan_of_batches_never_asks_for_outcomes) {
    memory_scan s;
    write_batches();
    begin_scan(&s, OL_VIEW_BATCHES, true, NULL);
    OL_CHECK_INT(fill(&s), OL_END);
    OL_CHECK_INT(s.rows.count, the_log.count);
    end_scan(&s);
}

/* ---------------------------------------------------------------------------------- right checksums, wrong contents */

/* The record is between two good ones, and the scan goes on after it. */
static void check_refused(ol_record_view view, int status) {
    memory_scan s;
    begin_scan(&s, view, false, NULL);
    OL_CHECK_INT(fill(&s), status);
    OL_CHECK(s.refused);
    OL_CHECK_INT(s.rows.count, 2);
    OL_CHECK_INT(s.error.offset, 2);
    OL_CHECK_INT(s.error.position, the_log.starts[1]);
    OL_CHECK_INT(fill(&s), OL_END);
    OL_CHECK(!s.refused);
    OL_CHECK_INT(s.rows.count, 3);
    for (size_t row = 0; row < 3; row++) OL_CHECK_INT(int64_at(&s, OL_COLUMN_LOG_OFFSET, row), row < 2 ? row : 3);
    OL_CHECK_INT(s.work.present, 4);
    end_scan(&s);
}

static void write_bad_record(ol_slice key, ol_slice value) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, 1);
    memory_log_put_commit(&the_log, 0);
    memory_log_put(&the_log, key, value);
    memory_log_put_commit(&the_log, 1);
    memory_log_seal(&the_log, -1, 0);
}

OL_TEST(a_record_that_cannot_be_decoded_is_refused_alone) {
    ol_slice key = ol_slice_of("\0\1\0\1g\0\1t\0\0\0\0", 12);
    const struct {
        ol_slice key, value;
        int status;
    } records[] = {
        {ol_slice_null(), text("v"), OL_CORRUPT},
        {ol_slice_of("\0\1\0\1g\0\1t\0\0\0", 11), ol_slice_null(), OL_CORRUPT},
        {key, ol_slice_of("\0\3\0", 3), OL_CORRUPT},
        {key, ol_slice_of("\0\11\0\0\0\0\0\0\0\1", 10), OL_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        write_bad_record(records[i].key, records[i].value);
        check_refused(OL_VIEW_COMMITS, records[i].status);
        check_refused(OL_VIEW_RECORDS, records[i].status);
    }
}

/* Markers are no rows of the view of commits, so nothing there depends on them. */
OL_TEST(a_marker_that_cannot_be_decoded_is_refused_where_markers_are_rows) {
    memory_scan s;
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, 1);
    memory_log_control(&the_log, 7, ol_slice_of("\0\0\0\1", 4), ol_slice_of("\0\0", 2));
    for (ol_record_view view = OL_VIEW_COMMITS; view <= OL_VIEW_RECORDS; view++) {
        begin_scan(&s, view, false, NULL);
        OL_CHECK_INT(fill(&s), view == OL_VIEW_RECORDS ? OL_CORRUPT : OL_END);
        OL_CHECK(s.refused == (view == OL_VIEW_RECORDS));
        if (s.refused) OL_CHECK_INT(s.error.offset, 1);
        OL_CHECK_INT(fill(&s), OL_END);
        OL_CHECK_INT(s.rows.count, 1);
        end_scan(&s);
    }
}

/* ------------------------------------------------------------------------------------------------ states by shares */

static void replay(const log_file *file, const ol_state_share *share, ol_state *state) {
    ol_file_scan scan;
    ol_batch batch;
    ol_error error;
    OL_CHECK_OK(ol_state_create(state, &error), &error);
    OL_CHECK_OK(ol_file_scan_open(&scan, ol_fs_posix(), file->path, 0, -1, &error), &error);
    while (ol_file_scan_next(&scan, &batch, &error) == OL_OK) {
        OL_CHECK_OK(ol_state_apply_share(state, &batch, share, NULL, NULL, &error), &error);
    }
    ol_file_scan_close(&scan);
}

static size_t count_rows(const ol_state *state) {
    static const ol_column columns[] = {OL_COLUMN_GROUP, OL_COLUMN_TOPIC, OL_COLUMN_OFFSET, OL_COLUMN_LOG_OFFSET, OL_COLUMN_LOG_PARTITION};
    ol_table_cursor cursor = {0};
    ol_record_block rows;
    ol_error error;
    size_t count = 0;
    int status;
    OL_CHECK_OK(ol_record_block_create(&rows, columns, 5, 3, &error), &error);
    do {
        ol_record_block_clear(&rows);
        status = ol_record_block_put_table(&rows, 7, state->table, &cursor, &error);
        OL_CHECK(status == OL_OK || status == OL_END);
        count += rows.count;
    } while (status == OL_OK);
    ol_record_block_free(&rows);
    return count;
}

OL_TEST(shares_of_a_state_add_up_to_it) {
    static log_file file;
    write_log(&file);
    for (int round = 0; round < 20; round++) {
        uint32_t count = 1 + (uint32_t)ol_test_below(4);
        ol_state_share share = {.shard = {.count = count, .by_group = ol_test_below(2)}, .until = (int64_t)ol_test_below((uint64_t)file.next_offset + 2)};
        ol_state_share all = {.until = share.until};
        ol_state whole, part;
        ol_digest digest, sum = {{0}, {0}, {0}};
        uint64_t positions = 0;
        replay(&file, &all, &whole);
        for (; share.shard.number < count; share.shard.number++) {
            ol_digest each;
            replay(&file, &share, &part);
            ol_state_digest(&part, true, &each);
            positions += ol_table_count(part.table);
            OL_CHECK_INT(count_rows(&part), ol_table_count(part.table));
            sum.positions = ol_hash128_add(sum.positions, each.positions);
            sum.pending = ol_hash128_add(sum.pending, each.pending);
            ol_state_destroy(&part);
        }
        ol_state_digest(&whole, true, &digest);
        OL_CHECK(memcmp(&sum.positions, &digest.positions, sizeof sum.positions) == 0);
        OL_CHECK(memcmp(&sum.pending, &digest.pending, sizeof sum.pending) == 0);
        OL_CHECK_INT(positions, ol_table_count(whole.table));
        ol_state_destroy(&whole);
    }
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ blocks */

OL_TEST(strings_of_a_block_are_right_or_made_right) {
    static const ol_column columns[] = {OL_COLUMN_GROUP, OL_COLUMN_HEADER_KEYS, OL_COLUMN_CRC_OK};
    ol_record_block rows;
    ol_error error;
    OL_CHECK_OK(ol_record_block_create(&rows, columns, 3, 3, &error), &error);
    /* A dropped row leaves nothing in the block. */
    OL_CHECK_OK(ol_record_block_put_string(&rows, OL_COLUMN_GROUP, text("gone"), &error), &error);
    OL_CHECK_OK(ol_record_block_add_string(&rows, OL_COLUMN_HEADER_KEYS, text("gone"), &error), &error);
    ol_record_block_drop(&rows);
    for (int i = 0; i < 3; i++) {
        OL_CHECK_OK(ol_record_block_put_string(&rows, OL_COLUMN_GROUP, text("a\xff"), &error), &error);
        for (int k = 0; k < 4 * i; k++) OL_CHECK_OK(ol_record_block_add_string(&rows, OL_COLUMN_HEADER_KEYS, text("key"), &error), &error);
        ol_record_block_end_list(&rows, OL_COLUMN_HEADER_KEYS);
        ol_record_block_put_boolean(&rows, OL_COLUMN_CRC_OK, i == 1);
        ol_record_block_end(&rows);
    }
    for (size_t i = 0; i < 3; i++) OL_CHECK(ol_slice_equal(string_at(&rows.arrays[OL_COLUMN_GROUP], i), text("a\xef\xbf\xbd")));
    const ol_row_array *list = &rows.arrays[OL_COLUMN_HEADER_KEYS];
    OL_CHECK(list->list_ends[0] == 0 && list->list_ends[1] == 0 && list->list_ends[2] == 4 && list->list_ends[3] == 12);
    OL_CHECK(ol_slice_equal(string_at(list, 11), text("key")));
    OL_CHECK_INT(rows.arrays[OL_COLUMN_CRC_OK].data[0] & 7, 2);
    for (int i = 0; i < OL_COLUMN_COUNT; i++) OL_CHECK(ol_column_name((ol_column)i) != NULL);
    ol_record_block_free(&rows);
}

/* A block says where its strings end: so the column is full without a gibibyte of strings. */
OL_TEST(a_column_has_no_more_bytes_than_its_limit) {
    static const ol_column column = OL_COLUMN_METADATA;
    ol_record_block rows;
    ol_error error;
    OL_CHECK_OK(ol_record_block_create(&rows, &column, 1, 8, &error), &error);
    ol_row_array *array = &rows.arrays[column];
    array->ends[1] = (int32_t)(OL_RECORD_BLOCK_BYTES_MAX - 20);
    ol_record_block_end(&rows);
    OL_CHECK_OK(ol_record_block_put_string(&rows, column, text("12345678"), &error), &error);
    ol_record_block_end(&rows);
    OL_CHECK_OK(ol_record_block_put_string(&rows, column, text("1234567"), &error), &error);
    ol_record_block_end(&rows);
    OL_CHECK_INT(ol_record_block_put_string(&rows, column, text("123456"), &error), OL_LIMIT);
    OL_CHECK_OK(ol_record_block_put_string(&rows, column, text("12345"), &error), &error);
    ol_record_block_end(&rows);
    OL_CHECK_INT(array->ends[4], OL_RECORD_BLOCK_BYTES_MAX);
    OL_CHECK(ol_slice_equal(string_at(array, 3), text("12345")));
    ol_record_block_free(&rows);
}

OL_TEST_MAIN()
