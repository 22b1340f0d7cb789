/* Which keys differ: exactly those that were changed, in states of the test's own and in a partition that goes on. */
#include "history/state_diff.h"

#include <pthread.h>
#include <unistd.h>

#include "base/bytes.h"
#include "log/file_scan.h"
#include "partition_fixture.h"

enum { GROUPS = 9, TOPICS = 4, PARTITIONS = 12, RECORDS = 20, PRODUCERS = 3 };

static const ol_differences all = {.limit = SIZE_MAX};

/* ------------------------------------------------------------------------------------------------ states of the test's own */

static ol_state new_state(void) {
    ol_state state;
    ol_error error;
    OL_CHECK_OK(ol_state_create(&state, &error), &error);
    return state;
}

static ol_position_value value_at(int64_t offset, int64_t log_offset) {
    return (ol_position_value){.offset = offset, .log_offset = log_offset, .commit_timestamp = 1000 + offset, .expire_timestamp = -1,
                               .leader_epoch = -1, .metadata = text("m")};
}

static ol_pair_name pair_of(const ol_state *state, const char *group, const char *topic) {
    return ol_table_name(state->table, text(group), ol_table_group_hash(state->table, text(group)), text(topic));
}

static void put(ol_state *state, const char *group, const char *topic, int32_t partition, ol_position_value value) {
    ol_error error;
    ol_pair_name name = pair_of(state, group, topic);
    OL_CHECK_OK(ol_table_put(state->table, &name, partition, &value, &error), &error);
}

static void put_pending(ol_state *state, int64_t producer_id, const char *group, int32_t partition, ol_position_value value) {
    ol_error error;
    ol_reservation reservation;
    ol_pair_name name = pair_of(state, group, "t");
    OL_CHECK_OK(ol_pending_reserve(state->pending, producer_id, 1, &error), &error);
    OL_CHECK_OK(ol_table_reserve(state->table, &name, partition, &value, &reservation, &error), &error);
    ol_pending_add(state->pending, producer_id, &reservation, &value);
}

static void put_record(ol_state *state, const char *key, const char *value, int64_t log_offset, int64_t timestamp) {
    ol_error error;
    ol_group_record record = {text(key), text(value), log_offset, timestamp, ol_slice_of((const uint8_t *)key + 2, strlen(key) - 2)};
    OL_CHECK_OK(ol_group_records_put(state->group_records, &record, &error), &error);
}

static bool are_equal(const ol_state *left, const ol_state *right, bool physical) {
    ol_digest one, other;
    ol_state_digest(left, physical, &one);
    ol_state_digest(right, physical, &other);
    return memcmp(&one, &other, sizeof one) == 0;
}

static ol_differences compare(const ol_state *left, const ol_state *right, bool physical) {
    ol_differences found = all;
    ol_error error;
    OL_CHECK_OK(ol_state_diff(left, right, physical, &found, &error), &error);
    OL_CHECK_INT(found.left_out, 0);
    OL_CHECK((found.count == 0) == are_equal(left, right, physical));
    return found;
}

static size_t count_of(ol_differences found) {
    size_t count = found.count;
    ol_differences_free(&found);
    return count;
}

static const char *group_name(int number) {
    static char name[32];
    snprintf(name, sizeof name, "group-%d", number);
    return name;
}

/* The same content in whatever order. */
static void fill(ol_state *state, int turn) {
    for (int i = 0; i < GROUPS * TOPICS * PARTITIONS; i++) {
        int at = turn ? GROUPS * TOPICS * PARTITIONS - 1 - i : i;
        char topic[16];
        snprintf(topic, sizeof topic, "topic-%d", at / PARTITIONS % TOPICS);
        put(state, group_name(at / PARTITIONS / TOPICS), topic, at % PARTITIONS * 7, value_at(at, at));
    }
    for (int producer = 0; producer < PRODUCERS; producer++) {
        for (int i = 0; i < 5; i++) put_pending(state, 40 + producer, group_name(i % 2), i, value_at(i, 5000 + producer * 10 + i));
    }
    for (int i = 0; i < RECORDS; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s%d", "r-", turn ? RECORDS - 1 - i : i);
        put_record(state, key, "value", 6000 + (turn ? RECORDS - 1 - i : i), 77);
    }
}

OL_TEST(equal_states_have_no_difference) {
    ol_state left = new_state(), right = new_state();
    fill(&left, 0);
    fill(&right, 1);
    for (int physical = 0; physical < 2; physical++) OL_CHECK_INT(count_of(compare(&left, &right, physical != 0)), 0);
    ol_state_destroy(&left);
    ol_state_destroy(&right);
}

OL_TEST(a_value_of_each_field_is_reported) {
    static const uint8_t id[16] = {1}, other_id[16] = {1, 2};
    ol_position_value changed[] = {value_at(7, 9), value_at(7, 9), value_at(7, 9), value_at(7, 9), value_at(7, 9), value_at(7, 9),
                                   value_at(7, 9), value_at(8, 9)};
    changed[0].leader_epoch = 3;
    changed[1].commit_timestamp = 1;
    changed[2].expire_timestamp = 5;
    changed[3].metadata = text("n");
    changed[4].metadata = text("");
    changed[5].topic_id = id;
    changed[6].topic_id = other_id;
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        ol_state left = new_state(), right = new_state();
        ol_position_value before = value_at(7, 9);
        if (i == 6) before.topic_id = id;
        put(&left, "g", "t", 3, before);
        put(&left, "g", "t", 4, before);
        put(&right, "g", "t", 4, before);
        put(&right, "g", "t", 3, changed[i]);
        ol_differences found = compare(&left, &right, false);
        OL_CHECK_INT(found.count, 1);
        ol_difference *at = &found.items[0];
        OL_CHECK_INT(at->kind, OL_DIGEST_POSITION);
        OL_CHECK(ol_slice_equal(at->group, text("g")) && ol_slice_equal(at->topic, text("t")));
        OL_CHECK_INT(at->partition, 3);
        OL_CHECK_INT(at->producer_id, -1);
        OL_CHECK(at->left.is_there && at->right.is_there);
        OL_CHECK_INT(at->left.value.offset, 7);
        OL_CHECK_INT(at->right.value.offset, changed[i].offset);
        OL_CHECK(ol_slice_equal(at->right.value.metadata, changed[i].metadata));
        OL_CHECK((at->right.value.topic_id != NULL) == (changed[i].topic_id != NULL));
        if (at->right.value.topic_id != NULL) OL_CHECK(memcmp(at->right.value.topic_id, changed[i].topic_id, 16) == 0);
        ol_state_destroy(&left);        /* the differences own their bytes */
        ol_state_destroy(&right);
        OL_CHECK(ol_slice_equal(at->left.value.metadata, text("m")));
        ol_differences_free(&found);
    }
}

OL_TEST(where_a_record_stands_counts_only_physically) {
    ol_state left = new_state(), right = new_state();
    put(&left, "g", "t", 3, value_at(7, 9));
    put(&right, "g", "t", 3, value_at(7, 10));
    put_pending(&left, 40, "g", 5, value_at(1, 20));
    put_pending(&right, 40, "g", 5, value_at(1, 21));
    put_record(&left, "r-1", "v", 30, 5);
    put_record(&right, "r-1", "v", 30, 6);
    OL_CHECK_INT(count_of(compare(&left, &right, false)), 0);
    ol_differences found = compare(&left, &right, true);
    OL_CHECK_INT(found.count, 3);
    for (unsigned i = 0; i < 3; i++) OL_CHECK_INT(found.items[i].kind, i + 1);
    OL_CHECK_INT(found.items[2].right.value.commit_timestamp, 6);
    OL_CHECK_INT(found.items[2].left.value.log_offset, 30);
    ol_differences_free(&found);
    ol_state_destroy(&left);
    ol_state_destroy(&right);
}

OL_TEST(what_is_pending_is_reported_by_producer) {
    ol_state left = new_state(), right = new_state();
    fill(&left, 0);
    fill(&right, 1);
    put_pending(&left, 41, group_name(0), 0, value_at(99, 7000));       /* takes the place of an earlier one */
    put_pending(&right, 50, group_name(0), 0, value_at(1, 7001));
    ol_pair_name name = pair_of(&left, group_name(1), "t");
    ol_table_remove(left.table, &name, 3, 8000);                        /* ends what three producers have pending there */
    ol_differences found = compare(&left, &right, false);
    OL_CHECK_INT(found.count, 5);
    static const int64_t producers[] = {40, 41, 41, 42, 50};
    for (size_t i = 0; i < 5; i++) {
        OL_CHECK_INT(found.items[i].kind, OL_DIGEST_PENDING);
        OL_CHECK_INT(found.items[i].producer_id, producers[i]);
    }
    OL_CHECK(!found.items[0].left.is_there && found.items[0].right.is_there);
    OL_CHECK_INT(found.items[0].partition, 3);
    OL_CHECK_INT(found.items[1].left.value.offset, 99);
    OL_CHECK_INT(found.items[1].right.value.offset, 0);
    OL_CHECK(!found.items[4].left.is_there && found.items[4].right.is_there);
    ol_differences_free(&found);
    ol_state_destroy(&left);
    ol_state_destroy(&right);
}

/* A newer plain value does not end a pending one, and the digest counts both. */
OL_TEST(what_is_pending_below_a_plain_value_is_compared_too) {
    ol_state left = new_state(), right = new_state();
    put_pending(&left, 40, "g", 5, value_at(1, 20));
    put_pending(&right, 40, "g", 5, value_at(2, 20));
    put(&left, "g", "t", 5, value_at(3, 30));
    put(&right, "g", "t", 5, value_at(3, 30));
    ol_differences found = compare(&left, &right, false);
    OL_CHECK_INT(found.count, 1);
    OL_CHECK_INT(found.items[0].kind, OL_DIGEST_PENDING);
    ol_differences_free(&found);
    ol_state_destroy(&left);
    ol_state_destroy(&right);
}

/* The number in the key of a group record, "r-" and digits; no zero byte follows a key. */
static int number_of(ol_slice key) {
    char digits[16];
    snprintf(digits, sizeof digits, "%.*s", (int)key.size - 2, (const char *)key.data + 2);
    return atoi(digits);
}

OL_TEST(random_changes_are_reported_and_nothing_else) {
    for (int run = 0; run < 60; run++) {
        ol_state left = new_state(), right = new_state();
        fill(&left, 0);
        fill(&right, 1);
        bool changed[GROUPS * TOPICS * PARTITIONS] = {false}, record_changed[RECORDS] = {false};
        size_t expected = 0;
        for (int i = (int)ol_test_below(30); i >= 0; i--) {
            int at = (int)ol_test_below(GROUPS * TOPICS * PARTITIONS);
            char topic[16], key[32];
            snprintf(topic, sizeof topic, "topic-%d", at / PARTITIONS % TOPICS);
            ol_state *state = ol_test_below(2) ? &left : &right;
            int record = (int)ol_test_below(RECORDS);
            snprintf(key, sizeof key, "r-%d", record);
            if (ol_test_below(8) == 0 && !record_changed[record]) {
                record_changed[record] = true;
                expected++;
                if (ol_test_below(2)) {
                    put_record(state, key, "another", 6000 + record, 77);
                } else {
                    ol_group_records_remove(state->group_records, text(key));
                }
            }
            if (changed[at]) continue;
            changed[at] = true;
            expected++;
            ol_pair_name name = pair_of(state, group_name(at / PARTITIONS / TOPICS), topic);
            if (ol_test_below(2)) {
                ol_table_remove(state->table, &name, at % PARTITIONS * 7, 9000);
            } else {
                put(state, group_name(at / PARTITIONS / TOPICS), topic, at % PARTITIONS * 7, value_at(-at - 1, at));
            }
        }
        ol_differences found = compare(&left, &right, ol_test_below(2) == 0);
        OL_CHECK_INT(found.count, expected);
        for (size_t i = 0; i < found.count; i++) {
            const ol_difference *at = &found.items[i];
            if (at->kind == OL_DIGEST_GROUP_RECORD) {
                OL_CHECK(record_changed[number_of(at->key)]);
            } else {
                const ol_compared *side = at->left.is_there ? &at->left : &at->right;
                OL_CHECK(changed[side->value.log_offset]);
            }
        }
        ol_differences few = {.limit = 3};
        ol_error error;
        OL_CHECK_OK(ol_state_diff(&left, &right, false, &few, &error), &error);
        OL_CHECK_INT(few.count + few.left_out, expected);
        OL_CHECK_INT(few.count, expected < 3 ? expected : 3);
        ol_differences_free(&few);
        ol_differences_free(&found);
        ol_state_destroy(&left);
        ol_state_destroy(&right);
    }
}

/* ------------------------------------------------------------------------------------------------ a partition that goes on */

/* Replays a view below `until`; the batch at `skipped` is left out. */
static ol_state replay(const ol_log_view *view, int64_t until, int64_t skipped) {
    ol_state state = new_state();
    ol_log_view_segment segment;
    ol_error error;
    for (size_t i = 0; ol_log_view_at(view, i, &segment); i++) {
        ol_file_scan scan;
        ol_batch batch;
        OL_CHECK_OK(ol_log_view_scan(view, i, 0, &scan, &error), &error);
        int status;
        while ((status = ol_file_scan_next(&scan, &batch, &error)) == OL_OK && batch.base_offset < until) {
            if (batch.base_offset != skipped) OL_CHECK_OK(ol_state_apply_batch(&state, &batch, NULL, NULL, &error), &error);
        }
        OL_CHECK(status == OL_OK || status == OL_END);
        ol_file_scan_close(&scan);
    }
    return state;
}

typedef struct live_cut {
    ol_log_view *view;
    ol_digest digest;
    int64_t applied;
} live_cut;

static live_cut take_cut(ol_partition *partition) {
    live_cut cut;
    ol_error error;
    OL_CHECK_OK(ol_state_diff_cut(partition, true, &cut.digest, &cut.applied, &cut.view, &error), &error);
    return cut;
}

/* All three steps; what is left differs. */
static ol_differences settle(ol_partition *partition, const ol_state *state, int64_t cut, int64_t skipped) {
    ol_differences found = all;
    ol_error error;
    OL_CHECK_OK(ol_state_diff_live(partition, state, cut, true, &found, &error), &error);
    int64_t applied;
    ol_log_view *view;
    OL_CHECK_OK(ol_state_diff_read_live(partition, &found, &applied, &view, &error), &error);
    ol_state newer = replay(view, applied, skipped);
    OL_CHECK_OK(ol_state_diff_settle(&newer, true, &found, &error), &error);
    ol_state_destroy(&newer);
    ol_log_view_close(view);
    return found;
}

static ol_partition *small_partition(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.log.config.segment_bytes = 16 << 10;
    options.batch_bytes_max = 8 << 10;
    return open_partition(&options, true);
}

OL_TEST(what_a_replay_left_out_is_named) {
    ol_partition *partition = small_partition();
    for (int i = 0; i < 3000; i++) commit_one(partition, group_name(i % 40), "t", i % 600, i);
    int64_t skipped = commit_one(partition, "g", "t", 5, 77).base_offset;
    delete_one(partition, group_name(1), "t", 1);
    commit_pending(partition, 12, "p", "t", 6, 1);
    live_cut cut = take_cut(partition);
    ol_state state = replay(cut.view, cut.applied, -1);
    ol_digest digest;
    ol_state_digest(&state, true, &digest);
    check_same_digest(digest, cut.digest);
    OL_CHECK_INT(count_of(settle(partition, &state, cut.applied, -1)), 0);
    ol_state_destroy(&state);
    state = replay(cut.view, cut.applied, skipped);
    ol_state_digest(&state, true, &digest);
    OL_CHECK(memcmp(&digest, &cut.digest, sizeof digest) != 0);
    ol_differences found = settle(partition, &state, cut.applied, skipped);
    OL_CHECK_INT(found.count, 1);
    OL_CHECK_INT(found.items[0].left.value.offset, 77);
    OL_CHECK(!found.items[0].right.is_there);
    ol_differences_free(&found);
    /* It is written to once more: nobody can tell any more that it was missing. */
    commit_one(partition, "g", "t", 5, 78);
    OL_CHECK_INT(count_of(settle(partition, &state, cut.applied, skipped)), 0);
    ol_state_destroy(&state);
    ol_log_view_close(cut.view);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(what_a_replay_has_too_much_is_named) {
    ol_partition *partition = small_partition();
    for (int i = 0; i < 100; i++) commit_one(partition, group_name(i % 10), "t", i, i);
    commit_pending(partition, 12, "p", "t", 6, 1);
    int64_t skipped = delete_one(partition, group_name(1), "t", 1).base_offset;
    live_cut cut = take_cut(partition);
    ol_state state = replay(cut.view, cut.applied, skipped);
    end_transaction(partition, 12, OL_CONTROL_COMMIT);
    ol_differences found = settle(partition, &state, cut.applied, skipped);
    OL_CHECK_INT(found.count, 1);
    OL_CHECK(!found.items[0].left.is_there);
    OL_CHECK_INT(found.items[0].right.value.offset, 1);
    ol_differences_free(&found);
    ol_state_destroy(&state);
    ol_log_view_close(cut.view);
    close_partition(partition);
    remove_fixture();
}

typedef struct traffic {
    ol_partition *partition;
    _Atomic bool stop;
} traffic;

static void *commit_on(void *argument) {
    traffic *to = argument;
    uint64_t random = 7;
    for (int i = 0; !to->stop; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        char group[32];
        snprintf(group, sizeof group, "group-%d", (int)(random >> 40) % 40);
        int32_t number = (int32_t)(random >> 20 & 255);
        if (i % 7 == 3) delete_one(to->partition, group, "t", number);
        commit_one(to->partition, group, "t", number, i);
        if (i % 50 == 10) commit_pending(to->partition, 20 + i % 3, group, "t", number, i);
        if (i % 50 == 40) end_transaction(to->partition, 20 + (i - 30) % 3, i % 100 == 40 ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
        if (i % 64 == 0) usleep(200);
    }
    return NULL;
}

OL_TEST(cuts_beside_commits_are_exact) {
    traffic to = {.partition = small_partition()};
    int64_t skipped = commit_one(to.partition, "the one", "t", 5, 77).base_offset;
    for (int i = 0; i < 2000; i++) commit_one(to.partition, group_name(i % 40), "t", i % 256, i);
    pthread_t thread;
    OL_CHECK(pthread_create(&thread, NULL, commit_on, &to) == 0);
    for (int run = 0; run < 12; run++) {
        live_cut cut = take_cut(to.partition);
        ol_state state = replay(cut.view, cut.applied, -1);
        ol_digest digest;
        ol_state_digest(&state, true, &digest);
        check_same_digest(digest, cut.digest);
        OL_CHECK_INT(count_of(settle(to.partition, &state, cut.applied, -1)), 0);
        ol_state_destroy(&state);
        state = replay(cut.view, cut.applied, skipped);
        ol_differences found = settle(to.partition, &state, cut.applied, skipped);
        OL_CHECK_INT(found.count, 1);
        OL_CHECK(ol_slice_equal(found.items[0].group, text("the one")));
        ol_differences_free(&found);
        ol_state_destroy(&state);
        ol_log_view_close(cut.view);
    }
    to.stop = true;
    pthread_join(thread, NULL);
    close_partition(to.partition);
    remove_fixture();
}

enum { ENDING_PRODUCERS = 1500, PENDING_PRODUCERS = 4000 };

static void *end_all(void *argument) {
    traffic *to = argument;
    for (int i = 0; i < ENDING_PRODUCERS; i++) {
        end_transaction(to->partition, 1000 + i, OL_CONTROL_ABORT);
        usleep(20);
    }
    to->stop = true;
    return NULL;
}

OL_TEST(what_is_pending_is_named_while_other_transactions_end) {
    traffic to = {.partition = small_partition()};
    for (int i = 0; i < ENDING_PRODUCERS; i++) commit_pending(to.partition, 1000 + i, "ends", "t", i % 100, i);
    for (int i = 0; i < PENDING_PRODUCERS; i++) commit_pending(to.partition, 9000 + i, "stays", "t", i % 100, i);
    live_cut cut = take_cut(to.partition);
    ol_log_view_close(cut.view);
    ol_state nothing;
    ol_error error;
    pthread_t thread;
    OL_CHECK_OK(ol_state_create(&nothing, &error), &error);
    OL_CHECK(pthread_create(&thread, NULL, end_all, &to) == 0);
    while (!to.stop) {
        ol_differences found = {.limit = ENDING_PRODUCERS + PENDING_PRODUCERS};
        OL_CHECK_OK(ol_state_diff_live(to.partition, &nothing, cut.applied, true, &found, &error), &error);
        int stays = 0;
        for (size_t i = 0; i < found.count; i++) stays += ol_slice_equal(found.items[i].group, text("stays"));
        OL_CHECK_INT(stays, PENDING_PRODUCERS);
        ol_differences_free(&found);
    }
    pthread_join(thread, NULL);
    ol_state_destroy(&nothing);
    close_partition(to.partition);
    remove_fixture();
}

OL_TEST_MAIN()
