/* Commits that are taken many at a time, against the path that takes one record at a time: random batches with all
 * kinds of records, mutated with a right checksum, read between any bounds, in blocks of any size, which have no room
 * for strings or whose memory runs out.  Each record in the usual form, against the decoders of any form. */
#include "columns/usual_commits.h"
#include "fault_memory.h"
#include "memory_scan.h"
#include "stored_codec.h"

enum { ROUNDS = 3000, ROUNDS_LONG = 200000, TEXTS = 6 };

static const ol_column columns[] = {
    OL_COLUMN_GROUP, OL_COLUMN_TOPIC, OL_COLUMN_PARTITION, OL_COLUMN_OFFSET, OL_COLUMN_LEADER_EPOCH, OL_COLUMN_METADATA,
    OL_COLUMN_COMMIT_TIMESTAMP, OL_COLUMN_EXPIRE_TIMESTAMP, OL_COLUMN_TOPIC_ID, OL_COLUMN_KIND, OL_COLUMN_TIMESTAMP,
    OL_COLUMN_OUTCOME, OL_COLUMN_MARKER_OFFSET, OL_COLUMN_PRODUCER_ID, OL_COLUMN_PRODUCER_EPOCH,
    OL_COLUMN_LOG_PARTITION, OL_COLUMN_LOG_OFFSET,
    /* which the fast path does not fill */
    OL_COLUMN_VALUE_VERSION};
enum { COLUMNS = sizeof columns / sizeof *columns, COLUMNS_OF_VIEW = COLUMNS - 1 };
static const ol_column strings[] = {OL_COLUMN_GROUP, OL_COLUMN_TOPIC, OL_COLUMN_METADATA};

/* ----------------------------------------------------------------------------------------------- random batches */

/* No byte of the log is wrong. */
static bool is_whole;

static ol_slice random_text(void) {
    static const char *const texts[TEXTS] = {"", "a", "group-00017", "caf\xc3\xa9", "broken \xff\xc3 \xed\xa0\x80!",
        "a name of more than sixty-four bytes, which a block copies by another way than it does short names"};
    const char *text = texts[ol_test_below(4) == 0 ? ol_test_below(TEXTS) : 2];
    return ol_slice_of(text, strlen(text));
}

static void put_random_record(void) {
    uint8_t key[256], value[256], topic_id[OL_TOPIC_ID_SIZE] = {7};
    uint64_t kind = ol_test_below(16);
    int16_t type = kind == 0 ? OL_KEY_OFFSET_COMMIT_LEGACY : OL_KEY_OFFSET_COMMIT;
    uint8_t *key_end = ol_offset_key_put(key, type, random_text(), random_text(), (int32_t)ol_test_below(1000));
    ol_offset_value of = {.offset = (int64_t)ol_test_random(), .commit_timestamp = (int64_t)ol_test_random(),
                          .expire_timestamp = -1, .leader_epoch = (int32_t)ol_test_below(9) - 1,
                          .metadata = random_text(), .topic_id = topic_id};
    int16_t version = kind == 0 ? 0 : kind <= 3 ? (int16_t)ol_test_below(5) : 3;
    uint8_t *value_end = ol_offset_value_put(value, &of, version);
    if (kind == 4) ol_store_i16(key, OL_KEY_GROUP_METADATA);
    /* Bytes after the last field, which the decoders pass over. */
    if (kind == 5) *key_end++ = 0;
    if (kind == 6) *value_end++ = 0;
    ol_slice tombstone = ol_slice_null(), bytes = ol_slice_of(value, (size_t)(value_end - value));
    memory_log_put(&the_log, ol_slice_of(key, (size_t)(key_end - key)), kind == 7 ? tombstone : bytes);
}

static void seal_random_batch(void) {
    static const int16_t attributes[] = {0, 0, 0, OL_ATTRIBUTE_LOG_APPEND_TIME, OL_ATTRIBUTE_TRANSACTIONAL};
    int16_t chosen = attributes[ol_test_below(5)];
    size_t batch = the_log.count;
    memory_log_seal(&the_log, chosen == OL_ATTRIBUTE_TRANSACTIONAL ? 7 : -1, chosen);
    if (ol_test_below(8) == 0) {
        memory_log_start(&the_log, batch)[OL_BATCH_AT_ATTRIBUTES + 1] |= OL_ATTRIBUTE_DELETE_HORIZON;
        memory_log_renew_crc(&the_log, batch);
    }
    if (ol_test_below(8) == 0) {
        memory_log_compress(&the_log);
        return;
    }
    /* Mostly whole batches; the others have a wrong byte where it matters, or anywhere. */
    size_t size = memory_log_bits(&the_log, batch) / 8;
    for (uint64_t wrong = ol_test_below(8) == 0 ? 1 + ol_test_below(3) : 0; wrong > 0; wrong--) {
        size_t at = OL_BATCH_AT_ATTRIBUTES + ol_test_below(size - OL_BATCH_AT_ATTRIBUTES);
        if (ol_test_below(2) == 0) at = OL_BATCH_AT_RECORDS + ol_test_below(size - OL_BATCH_AT_RECORDS);
        uint8_t *byte = memory_log_start(&the_log, batch) + at;
        is_whole = false;
        *byte = ol_test_below(2) == 0 ? (uint8_t)ol_test_random() : (uint8_t)(*byte + 2 * ol_test_below(3) - 2);
    }
    memory_log_renew_crc(&the_log, batch);
}

static void write_random_log(void) {
    memory_log_clear(&the_log);
    is_whole = true;
    for (uint64_t batches = 1 + ol_test_below(6); batches > 0; batches--) {
        uint64_t records = ol_test_below(8) == 0 ? 40 + ol_test_below(150) : 1 + ol_test_below(12);
        for (; records > 0; records--) put_random_record();
        seal_random_batch();
    }
}

/* ----------------------------------------------------------------------------------------- the two ways to read */

/* The part of the log that is read, and the blocks it is read into. */
typedef struct reading {
    const ol_transaction_outcomes *outcomes;
    int64_t first, until, count_from;
    size_t capacity;
    uint64_t wanted, filter;
} reading;

static int64_t random_offset(void) { return (int64_t)ol_test_below((uint64_t)the_log.next_offset + 3); }

static reading random_reading(const ol_transaction_outcomes *outcomes) {
    reading r = {.outcomes = outcomes, .until = INT64_MAX, .filter = ol_test_below(12),
                 .capacity = 1 + ol_test_below(ol_test_below(2) ? 12 : 300),
                 .wanted = (ol_test_random() | 1u << ol_test_below(COLUMNS_OF_VIEW)) & ((1u << COLUMNS_OF_VIEW) - 1)};
    if (ol_test_below(8) == 0) r.wanted |= 1u << COLUMNS_OF_VIEW;
    if (ol_test_below(4) == 0) r.first = random_offset();
    if (ol_test_below(4) == 0) r.until = r.first + random_offset();
    if (ol_test_below(4) == 0) r.count_from = random_offset();
    return r;
}

/* How many log offsets a whole log has between the bounds: each has a record. */
static int64_t offsets_between(const reading *r) {
    int64_t from = r->first > r->count_from ? r->first : r->count_from;
    int64_t until = r->until < the_log.next_offset ? r->until : the_log.next_offset;
    return until > from ? until - from : 0;
}

static void filter(memory_scan *s, uint64_t choice) {
    if (choice == 0) s->work.group = ol_slice_of("group-00017", 11);
    if (choice == 1) s->work.topic = ol_slice_of("a", 1);
    if (choice == 2) s->work.partition = 3;
    if (choice == 3) s->work.shard = (ol_key_shard){.number = 1, .count = 2};
    if (choice == 4) s->work.group = ol_slice_of("absent", 6);
}

static void begin(memory_scan *s, const reading *r, bool one_at_a_time) {
    ol_column some[COLUMNS];
    size_t count = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        if (r->wanted >> i & 1) some[count++] = columns[i];
    }
    begin_scan(s, OL_VIEW_COMMITS, (r->wanted & 1) != 0, r->outcomes);
    ol_record_block_free(&s->rows);
    OL_CHECK_OK(ol_record_block_create(&s->rows, some, count, r->capacity, &s->error), &s->error);
    s->work.log_partition = 5;
    s->work.one_at_a_time = one_at_a_time;
    s->work.first = r->first;
    s->work.until = r->until;
    s->work.count_from = r->count_from;
    filter(s, r->filter);
}

static bool bit_at(const uint8_t *bits, size_t row) { return bits[row >> 3] >> (row & 7) & 1; }

static void check_same_column(const ol_row_array *a, const ol_row_array *b, size_t count) {
    OL_CHECK_INT(a->wanted, b->wanted);
    if (!a->wanted) return;
    size_t width = a->kind == OL_COLUMN_INT64 ? 8 : 4;
    for (size_t row = 0; row < count; row++) {
        bool is_valid = bit_at(a->valid, row);
        OL_CHECK_INT(is_valid, bit_at(b->valid, row));
        OL_CHECK(is_valid || (a->has_nulls && b->has_nulls));
        if (a->kind == OL_COLUMN_STRING) {
            OL_CHECK_INT(a->ends[row + 1], b->ends[row + 1]);
        } else {
            OL_CHECK(memcmp(a->data + row * width, b->data + row * width, width) == 0);
        }
    }
    if (a->kind == OL_COLUMN_STRING) {
        size_t start = (size_t)a->ends[0];
        OL_CHECK(memcmp(a->data + start, b->data + start, (size_t)a->ends[count] - start) == 0);
    }
    /* The row that would be next has no value yet. */
    if (count % 8 != 0) OL_CHECK(!bit_at(a->valid, count));
}

static void check_same(const memory_scan *a, const memory_scan *b, int status, int status_of_b) {
    OL_CHECK_INT(status, status_of_b);
    OL_CHECK_INT(a->refused, b->refused);
    OL_CHECK_INT(a->rows.count, b->rows.count);
    for (size_t i = 0; i < COLUMNS; i++) {
        check_same_column(&a->rows.arrays[columns[i]], &b->rows.arrays[columns[i]], a->rows.count);
    }
    OL_CHECK_INT(a->file_scan.position, b->file_scan.position);
    OL_CHECK_INT(a->work.next_offset, b->work.next_offset);
    OL_CHECK_INT(a->work.present, b->work.present);
    if (status == OL_OK || status == OL_END) return;
    OL_CHECK(strcmp(a->error.reason, b->error.reason) == 0);
    OL_CHECK_INT(a->error.offset, b->error.offset);
    OL_CHECK_INT(a->error.position, b->error.position);
}

/* The columns of strings have room for `room` bytes in each block, and use them up before they have none. */
static void limit_strings(memory_scan *s, size_t room) {
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        ol_row_array *array = &s->rows.arrays[strings[i]];
        if (!array->wanted) continue;
        free(array->data);
        array->data = (uint8_t *)malloc(room) - (OL_RECORD_BLOCK_BYTES_MAX - room);
        array->data_capacity = OL_RECORD_BLOCK_BYTES_MAX;
        array->ends[0] = (int32_t)(OL_RECORD_BLOCK_BYTES_MAX - room);
    }
}

/* They have as much room as there is, from the next block on. */
static void end_limit(memory_scan *s) {
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        ol_row_array *array = &s->rows.arrays[strings[i]];
        if (!array->wanted || array->ends[0] == 0) continue;
        free(array->data + array->ends[0]);
        array->data = NULL;
        array->data_capacity = 0;
        array->ends[0] = 0;
    }
}

/* Returns how many rows there were until the end, or until damage that ends it.  room 0: for any strings. */
static size_t compare_ways(const reading *r, size_t room) {
    memory_scan many, single;
    stored_codec stored;
    ol_decompressor port = stored_port(&stored);
    size_t rows = 0;
    begin(&many, r, false);
    begin(&single, r, true);
    many.work.decompressor = single.work.decompressor = &port;
    if (room > 0) limit_strings(&many, room);
    if (room > 0) limit_strings(&single, room);
    for (;;) {
        ol_error_clear(&many.error);
        ol_error_clear(&single.error);
        int status = fill(&many);
        check_same(&many, &single, status, fill(&single));
        rows += many.rows.count;
        if (status != OL_OK && !many.refused) break;
        ol_record_block_clear(&many.rows);
        ol_record_block_clear(&single.rows);
    }
    if (is_whole) OL_CHECK_INT(many.work.present, offsets_between(r));
    end_limit(&many);
    end_limit(&single);
    end_scan(&many);
    end_scan(&single);
    return rows;
}

/* The transaction of the producer commits after everything, or it is open. */
static ol_outcome_marker marker = {.producer_id = 7, .offset = 1000000, .type = OL_CONTROL_COMMIT};
static ol_transaction_outcomes random_outcomes(void) {
    return (ol_transaction_outcomes){.markers = &marker, .is_sorted = true, .count = ol_test_below(2)};
}

OL_TEST(many_at_a_time_are_the_rows_of_one_at_a_time) {
    size_t rows = 0;
    for (int64_t round = ol_test_depth(ROUNDS, ROUNDS_LONG); round > 0; round--) {
        write_random_log();
        ol_transaction_outcomes outcomes = random_outcomes();
        reading r = random_reading(&outcomes);
        /* A text of three bytes for each malformed one has room. */
        rows += compare_ways(&r, ol_test_below(4) == 0 ? 400 + ol_test_below(2000) : 0);
    }
    OL_CHECK(rows > ROUNDS);
}

/* ------------------------------------------------------------------------------------ blocks that hold no more */

static void begin_commits(memory_scan *s, const reading *r, int32_t count) {
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, count);
    begin(s, r, false);
}

OL_TEST(a_block_without_room_for_strings_ends_the_fast_path_for_itself_alone) {
    reading r = {.until = INT64_MAX, .capacity = 300, .wanted = 1, .filter = 12};
    memory_scan s;
    begin_commits(&s, &r, 200);
    limit_strings(&s, 5 * 100);
    OL_CHECK_OK(fill(&s), &s.error);
    OL_CHECK_INT(s.rows.count, 100);
    OL_CHECK(!s.work.takes_many);
    end_limit(&s);
    ol_record_block_clear(&s.rows);
    s.rows.capacity = 64;
    OL_CHECK_OK(fill(&s), &s.error);
    OL_CHECK_INT(s.rows.count, 64);
    OL_CHECK(s.work.takes_many);
    end_scan(&s);
}

static bool no_commit(const void *context OL_UNUSED, const ol_usual_commit *commit OL_UNUSED) { return false; }

/* A filter is asked for each record, not for as many as have room. */
OL_TEST(a_filter_that_matches_nothing_passes_a_batch_at_once) {
    reading r = {.until = INT64_MAX, .capacity = 1, .wanted = 1, .filter = 4};
    memory_scan s;
    begin_commits(&s, &r, 200);
    ol_records records;
    ol_usual_commits commits;
    ol_batch batch = memory_log_batch(&the_log, 0);
    OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &s.error), &s.error);
    ol_usual_commits_read(&commits, &records, 1, no_commit, NULL);
    OL_CHECK_INT(commits.count, 0);
    OL_CHECK_INT(commits.read_count, 200);
    ol_records_close(&records);
    OL_CHECK_INT(fill(&s), OL_END);
    OL_CHECK_INT(s.work.present, 200);
    end_scan(&s);
}

/* How often the scan of many failed to allocate, and went on. */
static int absorbed;

/* One allocation of the scan of many fails, each in turn: its rows are those of the other until it ends. */
static bool compare_without_memory(const reading *r, int64_t at) {
    memory_scan many, single;
    begin(&many, r, false);
    begin(&single, r, true);
    OL_CHECK_OK(fill(&single), &single.error);
    fault_memory_at(at);
    int status = fill(&many);
    bool failed = fault_memory_calls() >= at;
    fault_memory_at(0);
    if (status == OL_NO_MEMORY) {
        OL_CHECK(many.rows.count <= single.rows.count);
        for (size_t i = 0; i < COLUMNS; i++) {
            check_same_column(&many.rows.arrays[columns[i]], &single.rows.arrays[columns[i]], many.rows.count);
        }
    } else {
        check_same(&many, &single, status, OL_OK);
        absorbed += failed;
    }
    end_scan(&many);
    end_scan(&single);
    return failed;
}

OL_TEST(memory_that_runs_out_changes_no_row) {
    reading r = {.until = INT64_MAX, .capacity = 150, .wanted = (1u << COLUMNS_OF_VIEW) - 1, .filter = 12};
    uint8_t key[512], value[512], name[200];
    memset(name, 'n', sizeof name);
    memory_log_clear(&the_log);
    for (int32_t i = 0; i < 200; i++) {
        ol_slice text = ol_slice_of(name, sizeof name);
        uint8_t *key_end = ol_offset_key_put(key, OL_KEY_OFFSET_COMMIT, text, ol_slice_of(name, 9), i);
        uint8_t *value_end = ol_offset_value_3_put(value, i, -1, text, 5);
        memory_log_put(&the_log, ol_slice_of(key, (size_t)(key_end - key)),
                       ol_slice_of(value, (size_t)(value_end - value)));
    }
    memory_log_seal(&the_log, -1, 0);
    absorbed = 0;
    for (int64_t at = 1; compare_without_memory(&r, at); at++) {}
    /* The strings of a column found no memory for many rows, and then for one at a time. */
    OL_CHECK(absorbed > 0);
}

/* ---------------------------------------------------------------------------------------------- a single record */

static bool same_slice(ol_slice a, ol_slice b) { return a.size == b.size && a.data == b.data; }

/* A record that is read as usual is read as the decoders of any form read it. */
static void check_record(const uint8_t *record_at, const uint8_t *limit, const ol_usual_commit *commit,
                         const uint8_t *end) {
    ol_batch batch = {.data = record_at - OL_BATCH_AT_RECORDS, .magic = 2, .record_count = 1, .last_offset = INT32_MAX,
                      .size = (size_t)(limit - record_at) + OL_BATCH_OVERHEAD, .base_timestamp = 1000};
    ol_records records;
    ol_record record;
    ol_key key;
    ol_offset_value value;
    ol_error error;
    OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &error), &error);
    OL_CHECK_OK(ol_records_next(&records, &record, &error), &error);
    OL_CHECK(records.cursor == end);
    OL_CHECK_INT(record.offset, commit->offset_delta);
    OL_CHECK_INT(record.timestamp, 1000 + commit->timestamp_delta);
    OL_CHECK_OK(ol_key_decode(record.key, &key, &error), &error);
    OL_CHECK_INT(key.type, OL_KEY_OFFSET_COMMIT);
    OL_CHECK(same_slice(key.group, ol_usual_commit_group(commit)));
    OL_CHECK(same_slice(key.topic, ol_usual_commit_topic(commit)));
    OL_CHECK_INT(key.partition, ol_usual_commit_partition(commit));
    OL_CHECK_OK(ol_offset_value_decode(record.value, key.type, &value, &error), &error);
    OL_CHECK_INT(value.version, 3);
    OL_CHECK_INT(value.offset, ol_usual_commit_offset(commit));
    OL_CHECK_INT(value.leader_epoch, ol_usual_commit_leader_epoch(commit));
    OL_CHECK(same_slice(value.metadata, ol_usual_commit_metadata(commit)));
    OL_CHECK_INT(value.commit_timestamp, ol_usual_commit_timestamp(commit));
    ol_records_close(&records);
}

/* A commit with names and metadata of these sizes, in memory of exactly its size. */
static uint8_t *exact_record(size_t name_size, size_t metadata_size, size_t *size) {
    static const uint8_t text[300] = {'x'};
    uint8_t key[700], value[400], bytes[1200];
    ol_slice name = ol_slice_of(text, name_size);
    uint8_t *key_end = ol_offset_key_put(key, OL_KEY_OFFSET_COMMIT, name, name, 1);
    uint8_t *value_end = ol_offset_value_3_put(value, 77, 2, ol_slice_of(text, metadata_size), 5);
    uint8_t *end = ol_record_put(bytes, -3, (int32_t)(20 * name_size), ol_slice_of(key, (size_t)(key_end - key)),
                                 ol_slice_of(value, (size_t)(value_end - value)), 0, ol_slice_null());
    *size = (size_t)(end - bytes);
    uint8_t *exact = malloc(OL_BATCH_OVERHEAD + *size);
    memcpy(exact + OL_BATCH_OVERHEAD, bytes, *size);
    return exact;
}

OL_TEST(a_usual_record_with_any_byte_changed_is_read_as_by_the_decoders_or_in_doubt) {
    for (size_t name_size = 0; name_size <= 280; name_size = name_size * 2 + 1) {
        for (size_t metadata_size = 0; metadata_size <= 100; metadata_size = metadata_size * 3 + 1) {
            size_t size;
            ol_usual_commit commit;
            uint8_t *memory = exact_record(name_size, metadata_size, &size), *record = memory + OL_BATCH_OVERHEAD;
            const uint8_t *limit = record + size;
            OL_CHECK(ol_usual_commit_read(record, limit, &commit) == limit);
            check_record(record, limit, &commit, limit);
            for (size_t at = 0; at < size; at++) {
                uint8_t right = record[at];
                for (int wrong = 0; wrong < 256; wrong++) {
                    record[at] = (uint8_t)wrong;
                    const uint8_t *end = ol_usual_commit_read(record, limit, &commit);
                    if (end != NULL) check_record(record, limit, &commit, end);
                }
                record[at] = right;
            }
            free(memory);
        }
    }
}

OL_TEST(a_usual_record_that_is_cut_is_in_doubt) {
    size_t size;
    uint8_t *memory = exact_record(10, 5, &size);
    for (size_t cut = 0; cut < size; cut++) {
        ol_usual_commit commit;
        uint8_t *part = malloc(cut > 0 ? cut : 1);
        memcpy(part, memory + OL_BATCH_OVERHEAD, cut);
        OL_CHECK(ol_usual_commit_read(part, part + cut, &commit) == NULL);
        free(part);
    }
    free(memory);
}

/* The usual form is taken as a whole: a batch of it leaves nothing to the path that takes one at a time. */
OL_TEST(a_batch_of_usual_commits_is_read_in_one_piece) {
    ol_records records;
    ol_usual_commits commits;
    ol_error error;
    memory_log_clear(&the_log);
    memory_log_commits(&the_log, -1, OL_USUAL_COMMITS_MAX);
    ol_batch batch = memory_log_batch(&the_log, 0);
    OL_CHECK_OK(ol_records_open(&records, &batch, NULL, &error), &error);
    ol_usual_commits_read(&commits, &records, 1000, NULL, NULL);
    OL_CHECK_INT(commits.count, OL_USUAL_COMMITS_MAX);
    OL_CHECK(records.cursor == batch.data + OL_BATCH_AT_RECORDS);
    ol_usual_commits_pass(&commits, &records);
    OL_CHECK_INT(records.remaining, 0);
    ol_record record;
    OL_CHECK_INT(ol_records_next(&records, &record, &error), OL_END);
    ol_records_close(&records);
}

OL_TEST_MAIN()
