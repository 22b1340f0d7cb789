/* cleaner_fixture: logs of any content in a replicated partition, what they held before they were cleaned, and replays of both. */
#ifndef CLEANER_FIXTURE_H
#define CLEANER_FIXTURE_H

#include "accusation.h"
#include "base/bytes.h"
#include "cleaner/cleaner.h"
#include "base/crc32c.h"
#include "format/message_set.h"
#include "partition/partition_impl.h"
#include "partition_fixture.h"
#include "stored_codec.h"
#include "epoch_of.h"

/* Not every test uses every part. */
#pragma GCC diagnostic ignored "-Wunused-function"

enum { BUILT_MAX = 1 << 20, HISTORY_MAX = 60000, OL_CLEAN_RETENTION_MS = 24 * 3600 * 1000 };

/* ------------------------------------------------------------------------------------------------ batches */

typedef struct built {
    uint8_t data[BUILT_MAX];
    uint8_t *end;
    ol_batch_fields fields;
    bool compressed;
} built;

static built building;

static built *begin_batch(int64_t base, int16_t attributes, int64_t producer_id, int64_t timestamp) {
    built *batch = &building;
    ol_batch_fields_init(&batch->fields, base, timestamp);
    batch->fields.attributes = attributes;
    batch->fields.producer_id = producer_id;
    batch->fields.producer_epoch = producer_id < 0 ? -1 : 0;
    batch->fields.leader_epoch = 0;
    batch->fields.last_offset_delta = 0;
    batch->compressed = (attributes & OL_ATTRIBUTE_CODEC) != 0;
    batch->end = batch->data + OL_BATCH_AT_RECORDS;
    if (batch->compressed) *batch->end++ = 'S';
    return batch;
}

static void add_record(built *batch, int32_t offset_delta, int64_t timestamp, ol_slice key, ol_slice value) {
    OL_CHECK((size_t)(batch->end - batch->data) + key.size + value.size + 100 < BUILT_MAX);
    batch->end = ol_record_put(batch->end, timestamp - batch->fields.base_timestamp, offset_delta, key, value, 0, ol_slice_null());
    batch->fields.record_count++;
    if (offset_delta > batch->fields.last_offset_delta) batch->fields.last_offset_delta = offset_delta;
    if (timestamp > batch->fields.max_timestamp) batch->fields.max_timestamp = timestamp;
}

static ol_slice end_batch(built *batch) {
    int16_t attributes = batch->fields.attributes;
    batch->fields.attributes = (int16_t)(attributes & ~OL_ATTRIBUTE_CODEC);
    ol_batch_seal(batch->data, batch->end, &batch->fields);
    size_t size = (size_t)(batch->end - batch->data);
    if (batch->compressed) {
        ol_store_i16(batch->data + OL_BATCH_AT_ATTRIBUTES, attributes);
        ol_store_u32(batch->data + OL_BATCH_AT_CRC,
                     ol_crc32c(batch->data + OL_BATCH_AT_ATTRIBUTES, size - OL_BATCH_AT_ATTRIBUTES));
    }
    return ol_slice_of(batch->data, size);
}

static uint8_t *put_message(uint8_t *start, int64_t offset, int8_t magic, uint8_t attributes, int64_t timestamp, ol_slice key,
                            ol_slice value) {
    uint8_t *p = start + OL_MESSAGE_AT_BODY_MAGIC_0;
    ol_store_i64(start, offset);
    start[OL_BATCH_AT_MAGIC] = (uint8_t)magic;
    start[OL_MESSAGE_AT_ATTRIBUTES] = attributes;
    if (magic == 1) {
        ol_store_i64(p, timestamp);
        p += 8;
    }
    const ol_slice parts[2] = {key, value};
    for (int i = 0; i < 2; i++) {
        ol_store_i32(p, parts[i].data == NULL ? -1 : (int32_t)parts[i].size);
        if (parts[i].size > 0) memcpy(p + 4, parts[i].data, parts[i].size);
        p += 4 + parts[i].size;
    }
    ol_store_i32(start + OL_BATCH_AT_LENGTH, (int32_t)(p - start - OL_BATCH_LOG_OVERHEAD));
    ol_store_u32(start + OL_MESSAGE_AT_CRC, ol_crc32(start + OL_BATCH_AT_MAGIC, (size_t)(p - start) - OL_BATCH_AT_MAGIC));
    return p;
}

OL_UNUSED static ol_slice position_key(uint8_t *p, int16_t type, const char *group, const char *topic, int32_t partition) {
    return ol_slice_of(p, (size_t)(ol_offset_key_put(p, type, text(group), text(topic), partition) - p));
}

OL_UNUSED static ol_slice position_value(uint8_t *p, int64_t offset, int16_t version) {
    static const uint8_t topic_id[16] = "0123456789abcdef";
    ol_offset_value value = {.offset = offset, .commit_timestamp = 5, .leader_epoch = version >= 3 ? 4 : -1,
                             .expire_timestamp = version == 1 ? 99 : -1, .metadata = text(offset % 3 ? "" : "metadata"),
                             .topic_id = version == 4 ? topic_id : NULL};
    return ol_slice_of(p, (size_t)(ol_offset_value_put(p, &value, version) - p));
}

/* Key of a group record: type, group, and for some types a member. */
OL_UNUSED static ol_slice group_key(uint8_t *p, int16_t type, const char *group, const char *member) {
    uint8_t *start = p;
    ol_store_i16(p, type);
    ol_store_i16(p + 2, (int16_t)strlen(group));
    memcpy(p + 4, group, strlen(group));
    p += 4 + strlen(group);
    if (member != NULL) {
        ol_store_i16(p, (int16_t)strlen(member));
        memcpy(p + 2, member, strlen(member));
        p += 2 + strlen(member);
    }
    return ol_slice_of(start, (size_t)(p - start));
}

/* ------------------------------------------------------------------------------------------------ a log and its past */

typedef struct past_batch {
    uint8_t *data;
    size_t size;
    int64_t base;
    int64_t next;
} past_batch;

typedef struct world {
    const char *directory;
    ol_partition *partition;
    ol_partition_options options;
    stored_codec codec;
    ol_decompressor decompressor;
    past_batch *past;
    size_t past_count;
    int64_t now;
    int64_t checkpoint;
    int64_t floor;
    int compressing;            /* blocks that the compressor holds */
} world;

OL_UNUSED static int stored_compress_always(void *context, ol_codec codec, int magic, ol_slice input, ol_slice *output,
                                            ol_error *error) {
    (void)codec;
    (void)error;
    OL_CHECK_INT(magic, 2);
    uint8_t *block = malloc(input.size + 1);
    block[0] = 'S';
    memcpy(block + 1, input.data, input.size);
    *output = ol_slice_of(block, input.size + 1);
    ++*(int *)context;
    return OL_OK;
}

/* One that cannot always. */
OL_UNUSED static int world_compress(void *context, ol_codec codec, int magic, ol_slice input, ol_slice *output, ol_error *error) {
    if (input.size % 7 == 3) return ol_fail(error, OL_UNSUPPORTED, "asked to fail");
    return stored_compress_always(context, codec, magic, input, output, error);
}

OL_UNUSED static void world_release(void *context, ol_slice output) {
    --*(int *)context;
    free((void *)(uintptr_t)output.data);
}

/* No harm was done to the directory, and nobody else worked there. */
static void open_world_partition(world *w) {
    ol_log_recovery recovery;
    ol_error error;
    OL_CHECK_OK(ol_partition_open(&w->options, &w->partition, &recovery, &error), &error);
    if (accusation(&recovery) != NULL) {
        fprintf(stderr, "the open reports: %s\n", accusation(&recovery));
        exit(1);
    }
    w->options.log.witnessed = true;
    OL_CHECK_OK(ol_partition_load(w->partition, &error), &error);
    if (w->options.replicated) OL_CHECK_OK(ol_partition_become_follower(w->partition, 1000, &error), &error);
}

OL_UNUSED static void open_world(world *w, int64_t segment_bytes) {
    memset(w, 0, sizeof *w);
    w->directory = fresh_directory();
    w->options = fixture_options(w->directory);
    w->options.replicated = true;
    w->options.log.config.segment_bytes = segment_bytes;
    w->options.log.config.index_interval_bytes = 512;
    w->options.batch_bytes_max = (size_t)segment_bytes / 2;
    w->decompressor = stored_port(&w->codec);
    w->options.log.decompressor = &w->decompressor;
    w->past = malloc(HISTORY_MAX * sizeof *w->past);
    w->now = fixture_now;
    w->checkpoint = w->floor = -1;
    open_world_partition(w);
}

OL_UNUSED static void close_world(world *w) {
    close_partition(w->partition);
    for (size_t i = 0; i < w->past_count; i++) free(w->past[i].data);
    free(w->past);
    OL_CHECK_INT(w->codec.held, 0);
    OL_CHECK_INT(w->compressing, 0);
    remove_fixture();
}

OL_UNUSED static int64_t world_end(const world *w) { return ol_log_end(w->partition->log); }

static void append_bytes(world *w, ol_slice bytes) {
    ol_batch batch;
    ol_error error;
    OL_CHECK_OK(ol_partition_append(w->partition, epoch_of(w->partition), bytes.data, bytes.size, &error), &error);
    for (size_t at = 0; at < bytes.size; at += batch.size) {
        OL_CHECK_OK(ol_batch_parse(bytes.data + at, bytes.size - at, &batch, &error), &error);
        OL_CHECK(w->past_count < HISTORY_MAX);
        past_batch *past = &w->past[w->past_count++];
        *past = (past_batch){malloc(batch.size), batch.size, batch.base_offset, batch.last_offset + 1};
        memcpy(past->data, batch.data, batch.size);
    }
}

OL_UNUSED static void advance_world(world *w, int64_t offset) {
    ol_error error;
    OL_CHECK_OK(ol_partition_advance(w->partition, epoch_of(w->partition), offset, &error), &error);
}

OL_UNUSED static void append_marker(world *w, int64_t producer_id, ol_control type) {
    uint8_t marker[OL_BATCH_MARKER_SIZE];
    ol_batch_put_marker(marker, world_end(w), 0, w->now, producer_id, 0, type, 3);
    append_bytes(w, ol_slice_of(marker, sizeof marker));
}

/* One record in a batch of its own. */
OL_UNUSED static int64_t append_one(world *w, int64_t producer_id, ol_slice key, ol_slice value) {
    int64_t base = world_end(w);
    built *batch = begin_batch(base, producer_id < 0 ? 0 : OL_ATTRIBUTE_TRANSACTIONAL, producer_id, w->now);
    add_record(batch, 0, w->now, key, value);
    append_bytes(w, end_batch(batch));
    return base;
}

OL_UNUSED static int64_t append_position(world *w, int64_t producer_id, const char *group, int32_t number, int64_t offset) {
    uint8_t key[128], value[128];
    ol_slice bytes = offset < 0 ? ol_slice_null() : position_value(value, offset, 3);
    return append_one(w, producer_id, position_key(key, 1, group, "t", number), bytes);
}

/* Closes the active segment, and moves W to the end. */
OL_UNUSED static void roll_world(world *w) {
    ol_error error;
    pthread_mutex_lock(&w->partition->writer);
    OL_CHECK_OK(ol_log_roll_active(w->partition->log, &error), &error);
    pthread_mutex_unlock(&w->partition->writer);
    advance_world(w, world_end(w));
}

/* ------------------------------------------------------------------------------------------------ replays */

static void refuse_nothing(void *context OL_UNUSED, const ol_batch *batch OL_UNUSED, const ol_error *error OL_UNUSED) {}

static void apply_to(world *w, ol_state *state, const ol_batch *batch) {
    ol_refusal refused = {refuse_nothing, NULL};
    ol_error ignored;
    (void)!ol_state_apply_batch(state, batch, &w->decompressor, &refused, &ignored);
}

/* Replays the log below `limit` as it was before any clean. */
OL_UNUSED static void replay_past(world *w, int64_t limit, ol_state *state) {
    ol_error error;
    OL_CHECK_OK(ol_state_create(state, &error), &error);
    for (size_t i = 0; i < w->past_count && w->past[i].next <= limit; i++) {
        ol_batch batch;
        OL_CHECK_OK(ol_batch_parse(w->past[i].data, w->past[i].size, &batch, &error), &error);
        apply_to(w, state, &batch);
    }
}

/* Walks the log as it is now; unreadable bytes are passed over, as by a load.  Every right batch that `visit` is given
 * is below `limit`. */
OL_UNUSED static void walk_log(world *w, int64_t limit, void (*visit)(void *context, const ol_batch *batch), void *context) {
    ol_log_reader *reader;
    ol_log_piece piece;
    ol_error error;
    int64_t next = -1;
    OL_CHECK_OK(ol_log_reader_open(w->partition->log, 0, &reader, &error), &error);
    for (;;) {
        int status = ol_log_reader_next(reader, 64 << 10, &piece, &error);
        if (status == OL_END) break;
        size_t at = 0;
        bool damaged = status == OL_CORRUPT;
        if (!damaged) OL_CHECK_OK(status, &error);
        while (!damaged && at < piece.size) {
            ol_batch batch;
            status = ol_batch_parse(piece.data + at, piece.size - at, &batch, &error);
            if (status == OL_OK) status = ol_batch_check_crc(&batch, &error);
            damaged = status != OL_OK;
            if (damaged) break;
            at += batch.size;
            if (batch.last_offset >= limit) continue;
            OL_CHECK(batch.base_offset >= next || batch.magic < 2);
            next = batch.last_offset + 1;
            visit(context, &batch);
        }
        if (!damaged) continue;
        bool is_end = false;
        int64_t position = status == OL_CORRUPT && error.path[0] != 0 ? error.position : piece.position + (int64_t)at;
        OL_CHECK_OK(ol_log_reader_skip(reader, position, &is_end, &error), &error);
    }
    ol_log_reader_close(reader);
}

typedef struct replaying {
    world *w;
    ol_state *state;
} replaying;

static void replay_batch(void *context, const ol_batch *batch) {
    replaying *replay = context;
    apply_to(replay->w, replay->state, batch);
}

OL_UNUSED static void replay_log(world *w, int64_t limit, ol_state *state) {
    replaying replay = {w, state};
    ol_error error;
    OL_CHECK_OK(ol_state_create(state, &error), &error);
    walk_log(w, limit, replay_batch, &replay);
}

/* Every record of a position, and every marker, that ever was: for the reader of a failed test. */
static void trace_position(world *w, ol_slice group, ol_slice topic, int32_t partition) {
    uint8_t wanted[128];
    ol_slice key = ol_slice_of(wanted, (size_t)(ol_offset_key_put(wanted, 1, group, topic, partition) - wanted));
    for (size_t i = 0; i < w->past_count; i++) {
        ol_batch batch;
        ol_records records;
        ol_record record;
        ol_error error;
        OL_CHECK_OK(ol_batch_parse(w->past[i].data, w->past[i].size, &batch, &error), &error);
        OL_CHECK_OK(ol_records_open(&records, &batch, &w->decompressor, &error), &error);
        while (ol_records_next(&records, &record, &error) == OL_OK) {
            bool same = record.key.size >= key.size && memcmp(record.key.data + 2, key.data + 2, key.size - 2) == 0;
            if (!same && !ol_batch_is_control(&batch)) continue;
            fprintf(stderr, "%lld in [%lld, %lld] magic %d attributes %02x producer %lld: %s\n", (long long)record.offset,
                    (long long)batch.base_offset, (long long)batch.last_offset, batch.magic, batch.attributes,
                    (long long)batch.producer_id,
                    ol_batch_is_control(&batch) ? (record.key.data[3] ? "COMMIT" : "ABORT")
                                                : record.value.data == NULL ? "tombstone" : "value");
        }
        ol_records_close(&records);
    }
}

/* Positions of one state that another one does not have so. */
static void print_difference(world *w, const char *which, const ol_state *a, const ol_state *b) {
    ol_table_cursor cursor = {0};
    ol_table_row row;
    while (ol_table_next(a->table, &cursor, &row)) {
        ol_pair_name name = ol_table_name(b->table, row.group, ol_table_group_hash(b->table, row.group), row.topic);
        ol_position_value other;
        bool there = ol_table_get(b->table, &name, row.partition, &other);
        if (there && other.log_offset == row.value.log_offset) continue;
        fprintf(stderr, "%s: %.*s %.*s %d from offset %lld, other %lld\n", which, (int)row.group.size, row.group.data,
                (int)row.topic.size, row.topic.data, row.partition, (long long)row.value.log_offset,
                there ? (long long)other.log_offset : -1LL);
        if (getenv("OL_TRACE") != NULL) trace_position(w, row.group, row.topic, row.partition);
    }
}

static void print_pending(world *w, const char *which, const ol_state *a, const ol_state *b) {
    ol_pending_producer producer;
    for (size_t i = 0; ol_pending_producer_at(a->pending, i, &producer); i++) {
        for (size_t at = 0; at < w->past_count; at++) {
            ol_batch batch;
            ol_records records;
            ol_record record;
            ol_error error;
            OL_CHECK_OK(ol_batch_parse(w->past[at].data, w->past[at].size, &batch, &error), &error);
            if (batch.producer_id != producer.producer_id || ol_batch_is_control(&batch)) continue;
            OL_CHECK_OK(ol_records_open(&records, &batch, &w->decompressor, &error), &error);
            while (ol_records_next(&records, &record, &error) == OL_OK) {
                ol_key key;
                ol_position_value first, second;
                if (ol_key_decode(record.key, &key, &error) != OL_OK || key.type > 1) continue;
                ol_pair_name x = ol_table_name(a->table, key.group, ol_table_group_hash(a->table, key.group), key.topic);
                ol_pair_name y = ol_table_name(b->table, key.group, ol_table_group_hash(b->table, key.group), key.topic);
                bool there = ol_pending_get(a->pending, producer.producer_id, &x, key.partition, &first);
                bool other = ol_pending_get(b->pending, producer.producer_id, &y, key.partition, &second);
                if (there == other && (!there || first.log_offset == second.log_offset)) continue;
                fprintf(stderr, "%s, pending of %lld: offset %lld, other %lld\n", which, (long long)producer.producer_id,
                        there ? (long long)first.log_offset : -1LL, other ? (long long)second.log_offset : -1LL);
                if (getenv("OL_TRACE") != NULL) trace_position(w, key.group, key.topic, key.partition);
            }
            ol_records_close(&records);
        }
    }
}

OL_UNUSED static void check_same_state(world *w, const ol_state *a, const ol_state *b) {
    print_difference(w, "only the first", a, b);
    print_difference(w, "only the second", b, a);
    for (int physical = 0; physical < 2; physical++) {
        ol_digest first, second;
        ol_state_digest(a, physical, &first);
        ol_state_digest(b, physical, &second);
        if (memcmp(&first.pending, &second.pending, sizeof first.pending) != 0) {
            print_pending(w, "only the first", a, b);
            print_pending(w, "only the second", b, a);
        }
        OL_CHECK(memcmp(&first.positions, &second.positions, sizeof first.positions) == 0);
        OL_CHECK(memcmp(&first.group_records, &second.group_records, sizeof first.positions) == 0);
        OL_CHECK(memcmp(&first.pending, &second.pending, sizeof first.positions) == 0);
    }
}

/* The log says of the time below `limit` what it did before it was cleaned. */
OL_UNUSED static void check_log(world *w, int64_t limit) {
    ol_state before, after;
    replay_past(w, limit, &before);
    replay_log(w, limit, &after);
    check_same_state(w, &before, &after);
    ol_state_destroy(&before);
    ol_state_destroy(&after);
}

/* ------------------------------------------------------------------------------------------------ cleaning */

OL_UNUSED static ol_clean_options clean_options(const world *w) {
    ol_clean_options options;
    ol_clean_options_init(&options);
    options.now_ms = w->now;
    options.first_dirty = w->checkpoint;
    return options;
}

OL_UNUSED static ol_clean_report clean_with(world *w, const ol_clean_options *options) {
    static ol_clean_report report;
    ol_error error;
    OL_CHECK_OK(ol_cleaner_run(w->partition, options, &report, &error), &error);
    w->checkpoint = report.end;
    if (report.floor > w->floor) w->floor = report.floor;
    return report;
}

OL_UNUSED static ol_clean_report clean(world *w) {
    ol_clean_options options = clean_options(w);
    return clean_with(w, &options);
}

typedef struct counting {
    world *w;
    int64_t batches, records, tombstones, markers;
    int64_t lone_markers;       /* that end nothing */
    bool open[4096];            /* by producer id */
} counting;

static void count_batch(void *context, const ol_batch *batch) {
    counting *count = context;
    ol_records records;
    ol_record record;
    ol_error error;
    bool *open = batch->producer_id >= 0 ? &count->open[batch->producer_id % 4096] : NULL;
    count->batches++;
    if (open != NULL && !ol_batch_is_control(batch)) *open = true;
    OL_CHECK_OK(ol_records_open(&records, batch, &count->w->decompressor, &error), &error);
    while (ol_records_next(&records, &record, &error) == OL_OK) {
        if (ol_batch_is_control(batch)) {
            if (record.key.data[3] > OL_CONTROL_COMMIT) continue;
            count->markers++;
            count->lone_markers += !*open;
            *open = false;
            continue;
        }
        count->records++;
        count->tombstones += record.value.data == NULL;
    }
    ol_records_close(&records);
}

OL_UNUSED static counting count_log(world *w) {
    counting count = {.w = w};
    walk_log(w, INT64_MAX, count_batch, &count);
    return count;
}

#endif
