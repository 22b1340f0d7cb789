/* The log's account of positions: states of the past against the live one of that moment, record by record. */
#include "partition/group_copy.h"
#include "log/batch_walk.h"
#include "history/state_at.h"
#include "partition_fixture.h"

enum { STEPS = 1500, GROUPS = 4, NUMBERS = 5, PRODUCERS = 3 };

static const char *const groups[GROUPS] = {"a", "ab", "b", ""};
static const char *const topics[2] = {"t", "topic"};

typedef struct moment {
    int64_t end;
    ol_digest digest;
} moment;

static ol_partition_options small_segments(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.log.config.segment_bytes = 16 << 10;
    options.batch_bytes_max = 8 << 10;
    return options;
}

static void commit_some(ol_partition *partition, int64_t producer_id) {
    ol_item items[4];
    ol_commit_result result;
    ol_error error;
    size_t count = 1 + ol_test_below(4);
    const char *group = groups[ol_test_below(GROUPS)];
    for (size_t i = 0; i < count; i++) {
        items[i] = position_item(group, topics[ol_test_below(2)], (int32_t)ol_test_below(NUMBERS), (int64_t)ol_test_below(1000));
        if (ol_test_below(5) == 0) items[i].metadata = text("some metadata");
        if (producer_id < 0 && ol_test_below(6) == 0) items[i].kind = OL_ITEM_POSITION_TOMBSTONE;
    }
    OL_CHECK_OK(ol_partition_commit(partition, items, count, producer_id, producer_id < 0 ? -1 : 0, &result, &error), &error);
}

/* Whatever changes positions, and a record of a group now and then. */
static void step(ol_partition *partition, bool *open) {
    ol_commit_result result;
    ol_error error;
    size_t producer = ol_test_below(PRODUCERS);
    fixture_now += (int64_t)ol_test_below(3);
    switch (ol_test_below(10)) {
        case 0:
            if (open[producer]) end_transaction(partition, (int64_t)producer, ol_test_below(2) ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
            open[producer] = false;
            return;
        case 1:
        case 2:
            commit_some(partition, (int64_t)producer);
            open[producer] = true;
            return;
        case 3:
            if (ol_test_below(10) != 0) break;
            OL_CHECK_OK(ol_partition_delete_group(partition, text(groups[ol_test_below(GROUPS)]), false, &result, &error), &error);
            return;
        default:
            break;
    }
    commit_some(partition, -1);
}

static ol_digest digest_of_past(ol_partition *partition, int64_t cut, ol_timeline_facts *facts) {
    ol_state_at past = {.cut = cut};
    ol_error error;
    ol_digest digest;
    OL_CHECK_OK(ol_state_at_make(partition, NULL, &past, 1, NULL, facts, &error), &error);
    ol_table_verify(past.state.table);
    ol_state_digest(&past.state, true, &digest);
    ol_state_destroy(&past.state);
    return digest;
}

static void check_moments(ol_partition *partition, const moment *moments) {
    for (int i = 0; i < 150; i++) {
        const moment *then = &moments[ol_test_below(STEPS)];
        ol_timeline_facts facts;
        ol_digest past = digest_of_past(partition, then->end, &facts);
        check_same_digest(past, then->digest);
        OL_CHECK_INT(facts.first_missing, INT64_MAX);
        OL_CHECK_INT(facts.missing_end, 0);
        OL_CHECK_INT(facts.passed_over + facts.refused, 0);
    }
}

static void run_steps(ol_partition *partition, moment *moments) {
    bool open[PRODUCERS] = {false};
    for (size_t i = 0; i < STEPS; i++) {
        step(partition, open);
        moments[i] = (moment){ol_log_end(ol_partition_log(partition)), digest_of(partition)};
    }
}

OL_TEST(a_past_is_what_the_live_state_was) {
    moment *moments = calloc(STEPS, sizeof *moments);
    ol_partition_options options = small_segments();
    ol_partition *partition = open_partition(&options, true);
    run_steps(partition, moments);
    check_moments(partition, moments);
    close_partition(partition);
    options.log.writable = options.log.create = false;
    partition = open_partition(&options, true);
    check_moments(partition, moments);
    ol_partition_abandon(partition);
    free(moments);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ a part of it */

static int count_rows(void *context, const ol_table_row *before, const ol_table_row *after, ol_error *error OL_UNUSED) {
    size_t *counts = context;
    counts[before == NULL ? 1 : after == NULL ? 2 : 3]++;
    return OL_OK;
}

static void make_past(ol_partition *partition, const ol_timeline_filter *filter, ol_state_at *pasts, size_t count) {
    ol_timeline_facts facts;
    ol_error error;
    OL_CHECK_OK(ol_state_at_make(partition, filter, pasts, count, NULL, &facts, &error), &error);
}

/* Every position of `whole` that is of the group is in `part`, with the same value, and nothing else. */
static void check_part(const ol_state *whole, const ol_state *part, const char *group) {
    ol_table_cursor cursor = {0};
    ol_table_row row;
    uint64_t count = 0;
    while (ol_table_next(whole->table, &cursor, &row)) {
        if (!ol_slice_equal(row.group, text(group))) continue;
        ol_position_value value;
        ol_pair_name name = ol_table_name(part->table, row.group, ol_table_group_hash(part->table, row.group), row.topic);
        OL_CHECK(ol_table_get(part->table, &name, row.partition, &value));
        OL_CHECK(ol_state_at_is_same(&value, &row.value) && value.log_offset == row.value.log_offset);
        count++;
    }
    OL_CHECK_INT(ol_table_count(part->table), count);
}

OL_TEST(a_past_of_a_group_is_its_part_and_pasts_are_compared) {
    moment *moments = calloc(STEPS, sizeof *moments);
    ol_partition_options options = small_segments();
    ol_partition *partition = open_partition(&options, true);
    run_steps(partition, moments);
    int64_t end = ol_log_end(ol_partition_log(partition));
    for (int i = 0; i < 40; i++) {
        ol_state_at whole[2] = {{.cut = (int64_t)ol_test_below((uint64_t)end + 1)}, {.cut = (int64_t)ol_test_below((uint64_t)end + 1)}};
        make_past(partition, NULL, whole, 2);
        for (size_t k = 0; k < GROUPS; k++) {
            ol_timeline_filter filter = {.group = text(groups[k])};
            ol_state_at part = {.cut = whole[1].cut};
            make_past(partition, &filter, &part, 1);
            check_part(&whole[1].state, &part.state, groups[k]);
            ol_state_destroy(&part.state);
        }
        size_t there[4] = {0}, back[4] = {0};
        ol_error error;
        ol_state_at_changes changes = {.report = count_rows, .context = there};
        OL_CHECK_OK(ol_state_at_compare(&whole[0].state, &whole[1].state, &changes, &error), &error);
        changes.context = back;
        OL_CHECK_OK(ol_state_at_compare(&whole[1].state, &whole[0].state, &changes, &error), &error);
        OL_CHECK(there[1] == back[2] && there[2] == back[1] && there[3] == back[3]);
        OL_CHECK_INT(ol_table_count(whole[1].state.table), ol_table_count(whole[0].state.table) + there[1] - there[2]);
        ol_state_destroy(&whole[0].state);
        ol_state_destroy(&whole[1].state);
    }
    close_partition(partition);
    free(moments);
    remove_fixture();
}

typedef struct met {
    int64_t offsets[64];
    int64_t tombstones;
    size_t count;
    size_t markers;
} met;

static int meet_record(void *context, const ol_batch *batch OL_UNUSED, const ol_record *record, const ol_key *key, ol_error *error OL_UNUSED) {
    met *found = context;
    OL_CHECK(key->partition == 3 && found->count < 64);
    found->tombstones += record->value.data == NULL;
    found->offsets[found->count++] = record->offset;
    return OL_OK;
}

static int meet_marker(void *context, const ol_batch *batch, const ol_record *record OL_UNUSED, ol_control type, ol_error *error OL_UNUSED) {
    met *found = context;
    OL_CHECK(batch->producer_id == 7 && type == OL_CONTROL_ABORT);
    found->markers++;
    return OL_OK;
}

OL_TEST(a_walk_tells_the_records_of_one_position) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    int64_t wanted[4];
    commit_one(partition, "a", "topic", 2, 1);
    wanted[0] = commit_one(partition, "a", "topic", 3, 1).base_offset;
    commit_one(partition, "a", "topi", 3, 1);
    commit_one(partition, "atopic", "c", 3, 1);
    wanted[1] = commit_pending(partition, 7, "a", "topic", 3, 1).base_offset;
    wanted[2] = delete_one(partition, "a", "topic", 3).base_offset;
    end_transaction(partition, 7, OL_CONTROL_ABORT);
    wanted[3] = commit_one(partition, "a", "topic", 3, 1).base_offset;
    int64_t end = ol_log_end(ol_partition_log(partition));
    ol_timeline_filter filter = {.group = text("a"), .topic = text("topic"), .partition = 3};
    ol_timeline_facts facts;
    ol_error error;
    for (int64_t from = 0; from <= end; from++) {
        for (int64_t until = 0; until <= end + 1; until++) {
            met found = {.count = 0};
            ol_timeline_sink sink = {.record = meet_record, .marker = meet_marker, .context = &found};
            OL_CHECK_OK(ol_timeline_walk(partition, from, until, &filter, &sink, &facts, &error), &error);
            size_t count = 0;
            for (size_t i = 0; i < 4; i++) {
                if (wanted[i] < from || wanted[i] >= until) continue;
                OL_CHECK(count < found.count);
                OL_CHECK_INT(found.offsets[count++], wanted[i]);
            }
            OL_CHECK_INT(found.count, count);
            OL_CHECK_INT(found.tombstones, wanted[2] >= from && wanted[2] < until);
            OL_CHECK_INT(found.markers, 6 >= from && 6 < until);
        }
    }
    close_partition(partition);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ what is gone */

static size_t put_commit(uint8_t *start, int64_t base_offset, int32_t last_delta, int32_t records, int32_t first_delta) {
    uint8_t key[64], value[64];
    uint8_t *key_end = ol_offset_key_put(key, 1, text("a"), text("t"), (int32_t)base_offset);
    ol_offset_value commit = {.offset = 1, .commit_timestamp = 5, .expire_timestamp = -1, .leader_epoch = -1, .metadata = text("")};
    uint8_t *value_end = ol_offset_value_put(value, &commit, 3);
    uint8_t *p = start + OL_BATCH_OVERHEAD;
    for (int32_t i = 0; i < records; i++) {
        p = ol_record_put(p, 0, first_delta + i, ol_slice_of(key, (size_t)(key_end - key)), ol_slice_of(value, (size_t)(value_end - value)),
                          0, ol_slice_null());
    }
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, 1700000000000 + base_offset);
    fields.last_offset_delta = last_delta;
    fields.record_count = records;
    ol_batch_seal(start, p, &fields);
    return (size_t)(p - start);
}

static void append(ol_partition *partition, int64_t base_offset, int32_t last_delta, int32_t records, int32_t first_delta) {
    uint8_t bytes[1024];
    ol_error error;
    size_t size = put_commit(bytes, base_offset, last_delta, records, first_delta);
    OL_CHECK_OK(ol_log_append(ol_partition_log(partition), bytes, size, &error), &error);
}

OL_TEST(what_is_missing_is_reported) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, false);
    append(partition, 0, 2, 3, 0);
    append(partition, 3, 4, 2, 1);      /* of 3 to 7 there are 4 and 5 */
    append(partition, 8, 1, 2, 0);
    append(partition, 20, 0, 1, 0);     /* 10 to 19 are gone */
    append(partition, 21, 0, 1, 0);
    ol_error error;
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    ol_timeline_facts facts;
    const int64_t none = INT64_MAX;
    const int64_t expected[][4] = {{0, 3, none, 0},  {0, 8, 3, 8},    {0, 10, 3, 8},   {0, 12, 3, 12},   {0, 22, 3, 20},
                                   {8, 10, none, 0}, {8, 22, 10, 20}, {20, 22, none, 0}, {15, 22, 15, 20}, {22, 22, none, 0}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        OL_CHECK_OK(ol_timeline_walk(partition, expected[i][0], expected[i][1], NULL, NULL, &facts, &error), &error);
        OL_CHECK_INT(facts.first_missing, expected[i][2]);
        OL_CHECK_INT(facts.missing_end, expected[i][3]);
    }
    OL_CHECK_OK(ol_timeline_walk(partition, 0, 21, NULL, NULL, &facts, &error), &error);
    OL_CHECK_INT(facts.max_timestamp, 1700000000020);
    close_partition(partition);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ tombstones */

typedef struct erased {
    int64_t tombstone;
    int64_t value;              /* -1 none */
} erased;

typedef struct erasures {
    erased found[16];
    size_t count;
} erasures;

static int meet_tombstone(void *context, const ol_record *record, const ol_key *key OL_UNUSED, const ol_position_value *value,
                          const ol_timeline_facts *facts OL_UNUSED, ol_error *error OL_UNUSED) {
    erasures *found = context;
    OL_CHECK(found->count < 16);
    found->found[found->count++] = (erased){record->offset, value == NULL ? -1 : value->log_offset};
    return OL_OK;
}

OL_TEST(tombstones_are_reported_with_what_they_take) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    ol_int64_map places = {0};
    ol_timeline_facts facts;
    ol_error error;
    ol_timeline_filter all = {.partition = 0};
    int64_t now = fixture_now;
    commit_one(partition, "a", "t", 1, 5);                                  /* 0 */
    commit_one(partition, "a", "t", 2, 6);
    delete_one(partition, "a", "t", 1);                                     /* 2 takes 0 */
    commit_pending(partition, 7, "a", "t", 1, 8);
    delete_one(partition, "a", "t", 1);                                     /* 4 takes what was pending: nothing committed */
    fixture_now += 1000;
    commit_one(partition, "b", "t", 1, 5);                                  /* 5 */
    delete_one(partition, "b", "t", 1);                                     /* 6 takes 5 */
    int64_t end = ol_log_end(ol_partition_log(partition));
    OL_CHECK_OK(ol_state_at_find_tombstones(partition, &all, end, now + 1, &places, &facts, &error), &error);
    OL_CHECK_INT(places.count, 1);
    OL_CHECK_OK(ol_state_at_find_tombstones(partition, &all, end, INT64_MIN, &places, &facts, &error), &error);
    OL_CHECK_INT(places.count, 2);
    erasures found = {.count = 0};
    ol_state_at_tombstones tombstones = {.report = meet_tombstone, .context = &found};
    ol_timeline_filter filter = {.places = &places};
    ol_state_at past = {.cut = end};
    OL_CHECK_OK(ol_state_at_make(partition, &filter, &past, 1, &tombstones, &facts, &error), &error);
    const erased expected[] = {{2, 0}, {4, -1}, {6, 5}};
    OL_CHECK_INT(found.count, 3);
    for (size_t i = 0; i < 3; i++) {
        OL_CHECK_INT(found.found[i].tombstone, expected[i].tombstone);
        OL_CHECK_INT(found.found[i].value, expected[i].value);
    }
    OL_CHECK_INT(ol_table_count(past.state.table), 0);      /* a position without a tombstone was not asked for */
    ol_state_destroy(&past.state);
    ol_int64_map_free(&places);
    fixture_now = now;
    close_partition(partition);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ a commit while nothing changed */

static ol_group_fingerprint mark_of(ol_partition *partition, const char *group) {
    const ol_state *state;
    ol_error error;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    ol_group_fingerprint mark = ol_group_fingerprint_of(state, text(group));
    ol_partition_unlock_state(partition);
    return mark;
}

static int commit_unchanged(ol_partition *partition, const char *group, ol_group_fingerprint mark, int64_t offset) {
    ol_item items[2] = {position_item(group, "t", 1, offset), position_item(group, "t", 2, 0)};
    ol_commit_result result;
    ol_error error;
    items[1].kind = OL_ITEM_POSITION_TOMBSTONE;
    return ol_partition_commit_unchanged(partition, text(group), &mark, items, 2, &result, &error);
}

OL_TEST(a_commit_is_refused_once_the_group_has_changed) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_one(partition, "a", "t", 1, 5);
    commit_one(partition, "a", "t", 2, 6);
    ol_group_fingerprint mark = mark_of(partition, "a");
    commit_one(partition, "b", "t", 1, 5);      /* another group */
    OL_CHECK_INT(commit_unchanged(partition, "a", mark, 7), OL_OK);
    OL_CHECK_INT(fetch_one(partition, "a", "t", 1), 7);
    OL_CHECK_INT(fetch_one(partition, "a", "t", 2), -1);
    OL_CHECK_INT(commit_unchanged(partition, "a", mark, 8), OL_CONDITION);
    mark = mark_of(partition, "a");
    commit_one(partition, "a", "t", 1, 7);      /* the same offset, and yet another commit */
    OL_CHECK_INT(commit_unchanged(partition, "a", mark, 8), OL_CONDITION);
    mark = mark_of(partition, "a");
    commit_pending(partition, 7, "a", "t", 3, 9);
    end_transaction(partition, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(commit_unchanged(partition, "a", mark, 8), OL_CONDITION);
    mark = mark_of(partition, "none");
    OL_CHECK_INT(mark.positions, 0);
    OL_CHECK_INT(commit_unchanged(partition, "none", mark, 1), OL_OK);
    OL_CHECK_INT(commit_unchanged(partition, "none", mark, 2), OL_CONDITION);
    OL_CHECK_INT(fetch_one(partition, "none", "t", 1), 1);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_copy_of_a_group_outlives_what_it_was_copied_from) {
    enum { POSITIONS = 3000 };
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    for (int32_t i = 0; i < POSITIONS; i++) commit_one(partition, "a", topics[i % 2], i, i);
    commit_one(partition, "b", "t", 1, 5);
    ol_group_copy copy;
    ol_error error;
    memset(&copy, 0, sizeof copy);
    OL_CHECK_OK(ol_group_copy_take(&copy, partition, text("a"), &error), &error);
    ol_group_fingerprint mark = mark_of(partition, "a");
    OL_CHECK(copy.fingerprint.positions == mark.positions && copy.fingerprint.sum.low == mark.sum.low && copy.fingerprint.sum.high == mark.sum.high);
    for (int32_t i = 0; i < POSITIONS; i++) commit_one(partition, "a", topics[i % 2], i, 7);
    close_partition(partition);
    bool seen[POSITIONS] = {false};
    OL_CHECK_INT(copy.count, POSITIONS);
    for (size_t i = 0; i < copy.count; i++) {
        ol_table_row row = ol_group_copy_row(&copy, i);
        OL_CHECK(row.partition >= 0 && row.partition < POSITIONS && !seen[row.partition]);
        seen[row.partition] = true;
        OL_CHECK_INT(row.value.offset, row.partition);
        OL_CHECK_INT(row.value.log_offset, row.partition);
        const char *topic = topics[row.partition % 2];
        OL_CHECK(row.topic.size == strlen(topic) && memcmp(row.topic.data, topic, row.topic.size) == 0);
    }
    ol_group_copy_free(&copy);
    remove_fixture();
}

/* Every other position with metadata and a topic id, while memory runs out at each step. */
OL_TEST(a_copy_of_a_group_is_whole_or_refused) {
    static const uint8_t id[OL_TOPIC_ID_SIZE] = {1, 2, 3};
    ol_partition_options options = fixture_options(fresh_directory());
    options.value_v4 = OL_VALUE_V4_ALWAYS;
    ol_partition *partition = open_partition(&options, true);
    ol_item items[4];
    ol_commit_result result;
    ol_error error;
    for (int32_t i = 0; i < 4; i++) {
        items[i] = position_item("a", "t", i, i);
        if (i % 2 == 1) {
            items[i].metadata = text("some metadata");
            items[i].topic_id = id;
        }
    }
    OL_CHECK_OK(ol_partition_commit(partition, items, 4, -1, -1, &result, &error), &error);
    int status = OL_NO_MEMORY;
    for (int64_t calls = 0; status != OL_OK; calls++) {
        ol_group_copy copy;
        memset(&copy, 0, sizeof copy);
        ol_arena_fail_after(calls);
        status = ol_group_copy_take(&copy, partition, text("a"), &error);
        ol_arena_fail_after(-1);
        OL_CHECK(status == OL_OK ? calls > 4 : status == OL_NO_MEMORY);
        for (size_t i = 0; status == OL_OK && i < 4; i++) {
            ol_table_row row = ol_group_copy_row(&copy, i);
            OL_CHECK_INT(row.value.metadata.size, row.partition % 2 == 1 ? 13 : 0);
            OL_CHECK(row.partition % 2 == 1 ? memcmp(row.value.topic_id, id, sizeof id) == 0 : row.value.topic_id == NULL);
            if (row.partition % 2 == 1) OL_CHECK(memcmp(row.value.metadata.data, "some metadata", 13) == 0);
        }
        ol_group_copy_free(&copy);
    }
    OL_CHECK_INT(fetch_one(partition, "a", "t", 1), 1);      /* no lock was kept */
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
