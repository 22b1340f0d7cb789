/* Random logs, cleaned by random schedules: what they say stays the same, and they get small.
 *
 * Everything that can stand in a log does: positions of every version under both types of key, tombstones, records of groups, unknown kinds, transactions that
 * are committed, aborted and open, large, compressed, emptied and old batches, gaps.  OFFSETLOG_DEPTH=long makes more logs. */
#include "cleaner_fixture.h"
#include "epoch_of.h"

enum { GROUPS = 6, TOPICS = 4, NUMBERS = 8, PRODUCERS = 5, FIRST_PRODUCER = 1000 };

typedef struct model {
    world w;
    bool open[PRODUCERS];
    bool allow_old;             /* messages of magic 0 and 1 */
    bool allow_compressed;
    bool allow_refused;         /* values that apply refuses */
    int transactional;          /* of ten batches */
    int64_t hold_ends[GROUPS];  /* never moved back; -1 not held */
} model;

static bool chance(uint64_t of) { return ol_test_below(of) == 0; }

/* ------------------------------------------------------------------------------------------------ records */

static ol_slice random_position(const model *m, uint8_t *key, uint8_t *value_bytes, bool old, ol_slice *value) {
    char group[24], topic[24];
    /* Some keys are written much more often than others. */
    uint64_t number = chance(3) ? ol_test_below(GROUPS * TOPICS * NUMBERS) : ol_test_below(20);
    snprintf(group, sizeof group, "group-%d", (int)(number % GROUPS));
    snprintf(topic, sizeof topic, "t%d", (int)(number / GROUPS % TOPICS));
    int32_t partition = (int32_t)(number / GROUPS / TOPICS);
    static const int16_t versions[] = {0, 1, 2, 3, 3, 3, 4};
    int16_t version = versions[ol_test_below(7)];
    bool legacy = version == 0 && chance(2);
    ol_slice bytes = position_key(key, legacy ? 0 : 1, group, topic, partition);
    if (chance(40)) key[bytes.size++] = 'x';    /* bytes after the key mean nothing */
    *value = chance(6) ? ol_slice_null() : position_value(value_bytes, (int64_t)ol_test_below(1000000), version);
    if (m->allow_refused && !old && chance(25) && value->data != NULL) ol_store_i16(value_bytes, 77);
    return bytes;
}

static ol_slice random_other(uint8_t *key, uint8_t *value_bytes, ol_slice *value) {
    static const int16_t types[] = {2, 3, 5, 17, 99};
    char group[24], member[24];
    int16_t type = types[ol_test_below(5)];
    snprintf(group, sizeof group, "group-%d", (int)ol_test_below(GROUPS));
    snprintf(member, sizeof member, "m%d", (int)ol_test_below(4));
    memset(value_bytes, 'v', 30);
    *value = chance(4) ? ol_slice_null() : ol_slice_of(value_bytes, 5 + ol_test_below(25));
    return group_key(key, type, group, type == 5 || type == 99 ? member : NULL);
}

static ol_slice random_record(const model *m, uint8_t *key, uint8_t *value_bytes, bool old, ol_slice *value) {
    return chance(8) ? random_other(key, value_bytes, value) : random_position(m, key, value_bytes, old, value);
}

/* ------------------------------------------------------------------------------------------------ batches */

static void append_data(model *m, int64_t producer_id) {
    world *w = &m->w;
    uint8_t key[128], bytes[128];
    int16_t attributes = 0;
    if (producer_id >= 0) attributes |= OL_ATTRIBUTE_TRANSACTIONAL;
    if (chance(10)) attributes |= OL_ATTRIBUTE_LOG_APPEND_TIME;
    if (m->allow_compressed && chance(5)) attributes |= OL_CODEC_LZ4;
    int64_t gap = chance(12) ? (int64_t)ol_test_below(20) : 0;
    built *batch = begin_batch(world_end(w) + gap, attributes, producer_id, w->now);
    uint64_t records = chance(3) ? 1 + ol_test_below(6) : 1;
    if (w->options.log.config.segment_bytes > 60000 && chance(150)) records = 250 + ol_test_below(400);
    if (chance(60)) records = 0;
    int32_t delta = 0;
    for (uint64_t i = 0; i < records; i++) {
        ol_slice value;
        ol_slice name = random_record(m, key, bytes, false, &value);
        if (i > 0) delta += 1 + (int32_t)(chance(5) ? ol_test_below(4) : 0);
        add_record(batch, delta, attributes & OL_ATTRIBUTE_LOG_APPEND_TIME ? w->now : w->now - (int64_t)ol_test_below(50), name,
                   value);
    }
    if (records == 0) {
        batch->end = batch->data + OL_BATCH_OVERHEAD;
        batch->compressed = false;
        batch->fields.attributes &= ~OL_ATTRIBUTE_CODEC;
        batch->fields.base_timestamp = -1;
    }
    if (chance(10)) batch->fields.last_offset_delta += (int32_t)ol_test_below(3);
    append_bytes(w, end_batch(batch));
}

static void append_old(model *m) {
    static uint8_t outer[8192], inner[4096];
    world *w = &m->w;
    uint8_t key[128], bytes[128], *p = inner;
    int8_t magic = (int8_t)ol_test_below(2);
    ol_slice value, name;
    int64_t base = world_end(w);
    if (!m->allow_compressed || chance(2)) {
        name = random_record(m, key, bytes, true, &value);
        p = put_message(outer, base, magic, 0, w->now, name, value);
        append_bytes(w, ol_slice_of(outer, (size_t)(p - outer)));
        return;
    }
    uint64_t count = 1 + ol_test_below(5);
    int64_t offset = 0;
    *p++ = 'S';
    for (uint64_t i = 0; i < count; i++) {
        name = random_record(m, key, bytes, true, &value);
        if (i > 0) offset += 1 + (int64_t)(chance(4) ? ol_test_below(3) : 0);
        p = put_message(p, magic == 0 ? base + offset : offset, magic, 0, w->now - 7, name, value);
    }
    uint8_t attributes = (uint8_t)(OL_CODEC_GZIP | (magic == 1 && chance(2) ? OL_ATTRIBUTE_LOG_APPEND_TIME : 0));
    p = put_message(outer, base + offset, magic, attributes, w->now, ol_slice_null(), ol_slice_of(inner, (size_t)(p - inner)));
    append_bytes(w, ol_slice_of(outer, (size_t)(p - outer)));
}

static void append_control(model *m, int producer, bool must) {
    world *w = &m->w;
    if (!must && chance(8)) {
        /* One that an earlier cleaning emptied, or of a kind that ends nothing. */
        built *batch = begin_batch(world_end(w), OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_CONTROL, FIRST_PRODUCER + 77, w->now);
        if (chance(2)) add_record(batch, 0, w->now, ol_slice_of("\0\0\0\2", 4), ol_slice_of("\0\0\0\0", 4));
        append_bytes(w, end_batch(batch));
        return;
    }
    append_marker(w, FIRST_PRODUCER + producer, chance(2) ? OL_CONTROL_ABORT : OL_CONTROL_COMMIT);
    m->open[producer] = false;
}

static void append_some(model *m, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        m->w.now += (int64_t)ol_test_below(10);
        int producer = (int)ol_test_below(PRODUCERS);
        if ((int)ol_test_below(10) < m->transactional) {
            if (chance(m->open[producer] ? 3 : 20)) {
                append_control(m, producer, false);
            } else {
                append_data(m, FIRST_PRODUCER + producer);
                m->open[producer] = true;
            }
        } else if (m->allow_old && chance(4)) {
            append_old(m);
        } else {
            append_data(m, -1);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ cleaning */

/* Held groups have a state at every moment since the end of the hold. */
static void check_held(model *m, int group, int64_t limit) {
    char name[24];
    ol_state before, after;
    snprintf(name, sizeof name, "group-%d", group);
    replay_past(&m->w, limit, &before);
    replay_log(&m->w, limit, &after);
    for (int topic = 0; topic < TOPICS; topic++) {
        char topic_name[24];
        snprintf(topic_name, sizeof topic_name, "t%d", topic);
        ol_pair_name a = ol_table_name(before.table, text(name), ol_table_group_hash(before.table, text(name)), text(topic_name));
        ol_pair_name b = ol_table_name(after.table, text(name), ol_table_group_hash(after.table, text(name)), text(topic_name));
        for (int32_t number = 0; number < NUMBERS; number++) {
            ol_position_value old, new;
            bool was = ol_table_get(before.table, &a, number, &old);
            OL_CHECK_INT(ol_table_get(after.table, &b, number, &new), was);
            if (was) OL_CHECK_INT(new.log_offset, old.log_offset);
        }
    }
    ol_state_destroy(&before);
    ol_state_destroy(&after);
}

/* Where a batch ended when it was written, at or above `from`: between two messages of a wrapper nobody could ask. */
static int64_t random_boundary(const world *w, int64_t from) {
    size_t at = ol_test_below(w->past_count + 1);
    while (at < w->past_count && w->past[at].next < from) at++;
    return at == w->past_count ? INT64_MAX : w->past[at].next;
}

typedef struct floors {
    int64_t known;
    int calls;
} floors;

static int note_floor(void *context, int64_t floor, ol_error *error OL_UNUSED) {
    floors *noted = context;
    if (floor > noted->known) noted->known = floor;
    noted->calls++;
    return OL_OK;
}

static void drop_table(world *w) {
    ol_error error;
    OL_CHECK_OK(ol_partition_unload(w->partition, epoch_of(w->partition), &error), &error);
}

static void load_table(world *w) {
    ol_error error;
    OL_CHECK_OK(ol_partition_load(w->partition, &error), &error);
}

static void clean_once(model *m) {
    world *w = &m->w;
    ol_clean_options options = clean_options(w);
    ol_compressor compressor = {world_compress, world_release, &w->compressing};
    _Atomic bool stop = true;
    floors noted = {-1, 0};
    char names[GROUPS][24];
    ol_clean_hold holds[GROUPS];
    options.raise_floor = note_floor;
    options.raise_floor_context = &noted;
    options.delete_retention_ms = chance(3) ? 0 : 400;
    if (chance(8)) options.first_dirty = -1;
    /* With a wrong one everything is still true but for what was pending at moments that are past. */
    bool wrong = chance(12);
    int64_t checkpoint = w->checkpoint;
    if (wrong) options.first_dirty = (int64_t)ol_test_below((uint64_t)world_end(w) + 100);
    if (chance(4)) options.map_bytes = OL_CLEAN_MAP_BYTES_MIN;
    if (chance(4)) options.end_max = (int64_t)ol_test_below((uint64_t)world_end(w) + 1);
    if (!chance(3)) options.compressor = &compressor;
    options.use_table = chance(2);
    if (chance(15)) options.stop = &stop;
    for (int i = 0; i < GROUPS; i++) {
        if (m->hold_ends[i] < 0) continue;
        if (chance(3)) m->hold_ends[i] += (int64_t)ol_test_below((uint64_t)(world_end(w) - m->hold_ends[i]) + 1);
        snprintf(names[i], sizeof names[i], "group-%d", i);
        holds[options.hold_count++] = (ol_clean_hold){text(names[i]), chance(2), m->hold_ends[i]};
    }
    options.holds = holds;
    bool unloaded = chance(4);
    if (unloaded) drop_table(w);
    ol_clean_report report = clean_with(w, &options);
    if (unloaded) load_table(w);
    OL_CHECK(report.complete || report.stopped);
    if (report.quarantined > 0) {
        const ol_error *damage = &report.quarantine[0].error;
        fprintf(stderr, "%s at %" PRId64 ", offset %" PRId64 ": %s\n", damage->path, damage->position, damage->offset, damage->reason);
    }
    OL_CHECK_INT(report.quarantined, 0);
    OL_CHECK(noted.known <= report.floor);
    if (wrong) {
        w->floor = world_end(w);
        w->checkpoint = checkpoint;
    }
    check_log(w, INT64_MAX);
    if (chance(3)) check_log(w, random_boundary(w, w->floor));
    for (int i = 0; i < GROUPS; i++) {
        if (m->hold_ends[i] < 0 || !chance(3)) continue;
        check_held(m, i, random_boundary(w, m->hold_ends[i] < w->floor ? m->hold_ends[i] : w->floor));
    }
}

/* The live state, before and after the directory is opened again, is that of the past. */
static void check_live(model *m, bool reopen) {
    world *w = &m->w;
    ol_state before;
    if (reopen) {
        int64_t watermark = w->partition->watermark;
        close_partition(w->partition);
        open_world_partition(w);
        advance_world(w, watermark);
    }
    replay_past(w, w->partition->applied, &before);
    check_same_state(w, &before, &w->partition->state);
    ol_state_destroy(&before);
}

static void truncate_some(model *m) {
    world *w = &m->w;
    ol_error error;
    int64_t watermark = w->partition->watermark;
    if (watermark == world_end(w)) return;
    OL_CHECK_OK(ol_partition_truncate(w->partition, epoch_of(w->partition), watermark + (int64_t)ol_test_below((uint64_t)(world_end(w) - watermark)), &error),
                &error);
    while (w->past_count > 0 && w->past[w->past_count - 1].next > world_end(w)) free(w->past[--w->past_count].data);
    /* The open producers are those of the log now. */
    for (int i = 0; i < PRODUCERS; i++) {
        ol_log_transaction found;
        m->open[i] = ol_log_find_transaction(w->partition->log, FIRST_PRODUCER + i, &found);
    }
}

/* ------------------------------------------------------------------------------------------------ the end of it */

typedef struct slots {
    world *w;
    int64_t end;
    size_t count;
    ol_hash128 seen[20000];
} slots;

static void see_slot(void *context, const ol_batch *batch) {
    slots *found = context;
    ol_records records;
    ol_record record;
    ol_error error;
    if (ol_batch_is_control(batch) || batch->last_offset >= found->end) return;
    OL_CHECK_OK(ol_records_open(&records, batch, &found->w->decompressor, &error), &error);
    while (ol_records_next(&records, &record, &error) == OL_OK) {
        ol_key key;
        if (ol_key_decode(record.key, &key, &error) != OL_OK) continue;
        bool position = key.known && key.type <= OL_KEY_OFFSET_COMMIT;
        size_t size = position ? 8 + key.group.size + key.topic.size : record.key.size;
        found->seen[found->count++] = ol_xxh3_128(record.key.data + (position ? 2 : 0), size);
    }
    ol_records_close(&records);
}

static int compare_hashes(const void *a, const void *b) { return memcmp(a, b, sizeof(ol_hash128)); }

/* Everything is ended and cleaned until nothing changes: then every slot has one record at most, and nothing is left of what was deleted. */
static void finish_model(model *m) {
    static slots found;
    world *w = &m->w;
    ol_compressor compressor = {stored_compress_always, world_release, &w->compressing};
    for (int i = 0; i < PRODUCERS; i++) {
        if (m->open[i]) append_control(m, i, true);
    }
    roll_world(w);
    ol_clean_options options = clean_options(w);
    options.compressor = &compressor;
    ol_clean_report report;
    int runs = 0;
    do {
        options.first_dirty = runs == 0 ? -1 : w->checkpoint;
        options.now_ms = w->now += OL_CLEAN_RETENTION_MS + 1;
        report = clean_with(w, &options);
        OL_CHECK(report.complete);
        check_log(w, INT64_MAX);
        if (runs > 0 && !m->allow_old) OL_CHECK_INT(report.records.superseded, 0);
        OL_CHECK(++runs < 12);
    } while (report.bytes_written > 0);
    found.count = 0;
    found.w = w;
    found.end = report.target;
    walk_log(w, INT64_MAX, see_slot, &found);
    if (m->allow_refused) return;
    if (m->allow_old) return;   /* their tombstones wait for the age of files, and a wrapper that begins below its segment stays whole */
    qsort(found.seen, found.count, sizeof *found.seen, compare_hashes);
    for (size_t i = 1; i < found.count; i++) OL_CHECK(compare_hashes(&found.seen[i - 1], &found.seen[i]) != 0);
    counting count = count_log(w);
    OL_CHECK_INT(count.tombstones, 0);
    OL_CHECK(count.lone_markers <= PRODUCERS);
}

static void run_model(uint64_t seed) {
    static model m;
    memset(&m, 0, sizeof m);
    ol_test_random_state = seed;
    open_world(&m.w, 4096 << 2 * ol_test_below(3));
    m.allow_old = chance(3);
    m.allow_compressed = chance(2);
    m.transactional = (int)ol_test_below(8);
    for (int i = 0; i < GROUPS; i++) m.hold_ends[i] = chance(6) ? 0 : -1;
    uint64_t steps = 4 + ol_test_below(12);
    for (uint64_t step = 0; step < steps; step++) {
        append_some(&m, ol_test_below(400));
        if (chance(10)) truncate_some(&m);
        int64_t lag = chance(2) ? 0 : (int64_t)ol_test_below(50);
        if (world_end(&m.w) - lag > m.w.partition->watermark) advance_world(&m.w, world_end(&m.w) - lag);
        if (chance(3)) m.w.now += 400;
        if (m.w.partition->role == OL_ROLE_FOLLOWER) clean_once(&m);
        if (chance(4)) check_live(&m, chance(3));
    }
    advance_world(&m.w, world_end(&m.w));
    finish_model(&m);
    check_live(&m, true);
    close_world(&m.w);
}

OL_TEST(what_a_log_says_stays_the_same_however_it_is_cleaned) {
    uint64_t rounds = (uint64_t)ol_test_depth(20, 400);
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t seed = ol_test_seed * 1000003 + round;
        if (getenv("OL_VERBOSE") != NULL) printf("round %" PRIu64 "\n", round);
        fflush(stdout);
        run_model(seed);
    }
}

/* ------------------------------------------------------------------------------------------------ damage */

/* Flips one bit of a closed segment that is not of a base offset, which no checksum covers. */
static void damage_one(world *w) {
    ol_log_segment_info info;
    ol_log_reader *reader;
    ol_log_piece piece;
    ol_error error;
    size_t count = 0;
    while (ol_log_segment_at(w->partition->log, count, &info)) count++;
    if (count < 2) return;
    OL_CHECK(ol_log_segment_at(w->partition->log, ol_test_below(count - 1), &info));
    if (info.size == 0) return;
    OL_CHECK_OK(ol_log_reader_open(w->partition->log, info.base_offset, &reader, &error), &error);
    int status = ol_log_reader_next(reader, 1, &piece, &error);
    for (uint64_t skip = ol_test_below(8); status == OL_OK && skip > 0; skip--) {
        ol_log_piece next;
        status = ol_log_reader_next(reader, 1, &next, &error);
        if (status != OL_OK || next.segment_base != info.base_offset) break;
        piece = next;
    }
    bool found = piece.segment_base == info.base_offset && piece.size > 0 && status != OL_CORRUPT;
    int64_t position = found ? piece.position + 8 + (int64_t)ol_test_below(piece.size - 8) : 0;
    ol_log_reader_close(reader);
    if (!found) return;
    uint8_t byte;
    FILE *file = fopen(info.path, "r+b");
    OL_CHECK(file != NULL && fseek(file, position, SEEK_SET) == 0 && fread(&byte, 1, 1, file) == 1);
    byte ^= (uint8_t)(1 << ol_test_below(8));
    OL_CHECK(fseek(file, position, SEEK_SET) == 0 && fwrite(&byte, 1, 1, file) == 1 && fclose(file) == 0);
}

/* Whoever reads such a log passes over what is bad; what else it says is the same after any cleaning. */
static void clean_damaged(model *m) {
    world *w = &m->w;
    ol_clean_options options = clean_options(w);
    ol_compressor compressor = {world_compress, world_release, &w->compressing};
    ol_state before, after;
    options.delete_retention_ms = 0;
    if (chance(3)) options.first_dirty = -1;
    if (chance(3)) options.map_bytes = OL_CLEAN_MAP_BYTES_MIN;
    if (!chance(3)) options.compressor = &compressor;
    replay_log(w, INT64_MAX, &before);
    ol_clean_report report = clean_with(w, &options);
    OL_CHECK(report.complete);
    replay_log(w, INT64_MAX, &after);
    check_same_state(w, &before, &after);
    ol_state_destroy(&before);
    ol_state_destroy(&after);
}

static void run_damaged(uint64_t seed) {
    static model m;
    memset(&m, 0, sizeof m);
    ol_test_random_state = seed;
    open_world(&m.w, 4096);
    m.allow_compressed = chance(2);
    m.transactional = (int)ol_test_below(8);
    memset(m.hold_ends, 0xff, sizeof m.hold_ends);
    uint64_t steps = 2 + ol_test_below(5);
    for (uint64_t step = 0; step < steps; step++) {
        append_some(&m, ol_test_below(300));
        roll_world(&m.w);
        for (uint64_t i = ol_test_below(3); i > 0; i--) damage_one(&m.w);
        for (uint64_t i = ol_test_below(4); i > 0; i--) clean_damaged(&m);
    }
    close_world(&m.w);
}

OL_TEST(what_is_left_of_a_damaged_log_stays_the_same) {
    uint64_t rounds = (uint64_t)ol_test_depth(30, 600);
    for (uint64_t round = 0; round < rounds; round++) {
        if (getenv("OL_VERBOSE") != NULL) printf("round %" PRIu64 "\n", round);
        fflush(stdout);
        run_damaged(ol_test_seed * 1000003 + round);
    }
}

OL_TEST_MAIN()
