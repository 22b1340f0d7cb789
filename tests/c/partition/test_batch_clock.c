/* The time of batches by a wall clock that jumps: what is believed, what a batch and its positions carry, what a load does. */
#include "log/offset_for_time.h"
#include "partition/batch_clock.h"
#include "partition_fixture.h"

enum { SECOND = 1000, HOUR = 3600 * SECOND };
static const int64_t YEAR = 365 * 24 * (int64_t)HOUR;
static const int64_t NOW = 1700000000000;

typedef struct clocks {
    int64_t wall;
    int64_t steady;
    int steady_reads;
} clocks;

static int64_t wall_of(void *context) { return ((clocks *)context)->wall; }
static int64_t steady_of(void *context) {
    clocks *now = context;
    now->steady_reads++;
    return now->steady;
}

static void pass(clocks *now, int64_t ms) {
    now->wall += ms;
    now->steady += ms;
}

static ol_batch_clock clock_of(clocks *now) {
    ol_batch_clock clock;
    *now = (clocks){.wall = NOW, .steady = 12345};
    ol_batch_clock_init(&clock, wall_of, steady_of, now);
    return clock;
}

/* A batch is written now. */
static int64_t write_batch(ol_batch_clock *clock) {
    ol_batch_time time = ol_batch_clock_next(clock);
    OL_CHECK(time.position >= time.batch);
    ol_batch_clock_record(clock, time.batch);
    return time.batch;
}

OL_TEST(time_that_passes_is_believed) {
    clocks now;
    ol_batch_clock clock = clock_of(&now);
    static const int64_t steps[] = {0, 1, 999, 1000, 1001, 59000, HOUR, 24 * (int64_t)HOUR, 365 * 24 * (int64_t)HOUR};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        pass(&now, steps[i]);
        OL_CHECK_INT(write_batch(&clock), now.wall);
    }
}

OL_TEST(a_clock_that_is_put_right_by_a_moment_turns_no_batch_back) {
    clocks now;
    ol_batch_clock clock = clock_of(&now);
    write_batch(&clock);
    now.wall += 30 * SECOND;
    OL_CHECK_INT(write_batch(&clock), NOW + 30 * SECOND);
    now.wall -= 30 * SECOND;
    OL_CHECK_INT(write_batch(&clock), NOW + 30 * SECOND);
    pass(&now, 31 * SECOND);
    OL_CHECK_INT(write_batch(&clock), NOW + 31 * SECOND);
    OL_CHECK_INT(clock.newest, NOW + 31 * SECOND);
}

OL_TEST(one_wrong_reading_leaves_no_trace) {
    static const int64_t jumps[] = {OL_CLOCK_JUMP_MS + 1, HOUR, 3 * 365 * 24 * (int64_t)HOUR, -HOUR,
                                    -(OL_CLOCK_JUMP_MS + 1)};
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        clocks now;
        ol_batch_clock clock = clock_of(&now);
        write_batch(&clock);
        pass(&now, 500);
        now.wall += jumps[i];
        ol_batch_time time = ol_batch_clock_next(&clock);
        OL_CHECK_INT(time.batch, NOW + 500);
        /* A position that expires too early is lost. */
        OL_CHECK_INT(time.position, jumps[i] > 0 ? now.wall : NOW + 500);
        ol_batch_clock_record(&clock, time.batch);
        now.wall -= jumps[i];
        pass(&now, 1);
        OL_CHECK_INT(write_batch(&clock), NOW + 501);
        OL_CHECK_INT(clock.newest, NOW + 501);
    }
}

OL_TEST(a_jump_that_lasts_is_followed_and_so_is_the_way_back) {
    static const int64_t jumps[] = {HOUR, 5 * 365 * 24 * (int64_t)HOUR, -HOUR};
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        clocks now;
        ol_batch_clock clock = clock_of(&now);
        write_batch(&clock);
        for (int way = 0; way < 2; way++) {
            int64_t before = now.wall;
            now.wall += way == 0 ? jumps[i] : -jumps[i];
            for (int64_t passed = 0; passed < OL_CLOCK_DOUBT_MS; passed += 10 * SECOND) {
                OL_CHECK_INT(write_batch(&clock), before + passed);
                pass(&now, 10 * SECOND);
            }
            OL_CHECK_INT(write_batch(&clock), now.wall);
            pass(&now, 1);
            OL_CHECK_INT(write_batch(&clock), now.wall);
        }
    }
}

/* It is seen again after the time that it has to last, however rarely somebody commits. */
OL_TEST(a_jump_is_followed_by_a_clock_that_is_hardly_read) {
    clocks now;
    ol_batch_clock clock = clock_of(&now);
    write_batch(&clock);
    pass(&now, 5 * HOUR);
    now.wall += HOUR;
    OL_CHECK_INT(write_batch(&clock), NOW + 5 * HOUR);
    pass(&now, 5 * HOUR);
    OL_CHECK_INT(write_batch(&clock), now.wall);
}

OL_TEST(a_clock_that_jumps_about_is_not_followed) {
    clocks now;
    ol_batch_clock clock = clock_of(&now);
    write_batch(&clock);
    for (int i = 0; i < 100; i++) {
        pass(&now, 10 * SECOND);
        int64_t right = now.wall;
        now.wall += i % 2 == 0 ? YEAR : 2 * YEAR;
        OL_CHECK_INT(write_batch(&clock), right);
        now.wall = right;
    }
    /* The same wrong place again and again, but the right one between. */
    for (int i = 0; i < 100; i++) {
        pass(&now, 10 * SECOND);
        int64_t right = now.wall;
        if (i % 2 == 0) now.wall += YEAR;
        OL_CHECK_INT(write_batch(&clock), right);
        now.wall = right;
    }
}

/* A right reading at once ends the doubt, so that the next wrong one, a minute later, begins another. */
OL_TEST(a_doubt_ends_with_the_next_reading_that_is_right) {
    clocks now;
    ol_batch_clock clock = clock_of(&now);
    write_batch(&clock);
    for (int i = 0; i < 3; i++) {
        now.wall += YEAR;
        write_batch(&clock);
        now.wall -= YEAR;
        pass(&now, 1);
        OL_CHECK_INT(write_batch(&clock), now.wall);
        pass(&now, OL_CLOCK_DOUBT_MS + 1);
    }
    OL_CHECK(clock.newest < NOW + YEAR);
}

OL_TEST(a_clock_that_was_wrong_at_first_is_left_when_it_is_put_right) {
    clocks now;
    ol_batch_clock clock = clock_of(&now);
    now.wall += YEAR;
    OL_CHECK_INT(write_batch(&clock), NOW + YEAR);
    now.wall -= YEAR;
    pass(&now, 5);
    OL_CHECK_INT(write_batch(&clock), NOW + YEAR + 5);
    pass(&now, OL_CLOCK_DOUBT_MS);
    OL_CHECK_INT(write_batch(&clock), now.wall);
    /* The newest record is that of the wrong clock: nothing expires by guesswork. */
    OL_CHECK_INT(clock.newest, NOW + YEAR + 5);
}

OL_TEST(a_loaded_time_is_followed_for_a_moment_only) {
    static const int64_t far[] = {INT64_MAX, INT64_MIN, -1, 0, 3000000000000, 1000000000000};
    clocks now;
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        ol_batch_clock clock = clock_of(&now);
        ol_batch_clock_record(&clock, far[i]);
        OL_CHECK_INT(write_batch(&clock), NOW);
        OL_CHECK_INT(clock.newest, far[i] > NOW ? far[i] : NOW);
    }
    ol_batch_clock clock = clock_of(&now);
    ol_batch_clock_record(&clock, NOW + 7);
    OL_CHECK_INT(write_batch(&clock), NOW + 7);
}

OL_TEST(the_steady_clock_is_read_once_a_second) {
    clocks now;
    ol_batch_clock clock = clock_of(&now);
    for (int i = 0; i < 10 * SECOND; i++) {
        write_batch(&clock);
        pass(&now, 1);
    }
    OL_CHECK_INT(now.steady_reads, 10);
}

OL_TEST(the_clocks_of_the_machine) {
    ol_batch_clock clock;
    ol_batch_clock_init(&clock, NULL, NULL, NULL);
    ol_batch_time first = ol_batch_clock_next(&clock), second = ol_batch_clock_next(&clock);
    OL_CHECK(first.batch > NOW && second.batch >= first.batch && second.batch - first.batch < HOUR);
    /* Without the other clock every reading is believed. */
    clocks now = {.wall = NOW};
    ol_batch_clock_init(&clock, wall_of, NULL, &now);
    OL_CHECK_INT(write_batch(&clock), NOW);
    now.wall += YEAR;
    OL_CHECK_INT(write_batch(&clock), NOW + YEAR);
}

/* ------------------------------------------------------------------------------------------------ a partition */

static int64_t commit_time(ol_partition *partition, int32_t number) {
    const ol_state *state;
    ol_error error;
    ol_position_value value;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    ol_pair_name name = ol_table_name(state->table, text("g"), ol_table_group_hash(state->table, text("g")), text("t"));
    OL_CHECK(ol_table_get(state->table, &name, number, &value));
    int64_t time = value.commit_timestamp;
    ol_partition_unlock_state(partition);
    return time;
}

static int64_t offset_at(ol_partition *partition, int64_t time) {
    int64_t offset = -1;
    ol_error error;
    ol_log *log = ol_partition_log(partition);
    OL_CHECK_OK(ol_log_offset_for_time(log, time, ol_log_end(log), &offset, &error), &error);
    return offset;
}

OL_TEST(a_wrong_reading_neither_hides_what_follows_nor_expires_a_producer) {
    clocks now = {.wall = NOW, .steady = 1};
    ol_error error;
    ol_commit_result result;
    ol_partition_options options = fixture_options(fresh_directory());
    options.clock_ms = wall_of;
    options.steady_ms = steady_of;
    options.clock_context = &now;
    ol_partition *partition = open_partition(&options, true);
    commit_pending(partition, 9, "g", "t", 0, 1);
    end_transaction(partition, 9, OL_CONTROL_COMMIT);
    pass(&now, 10);
    now.wall += YEAR;
    /* The short way, the long way, and a marker. */
    OL_CHECK_INT(commit_one(partition, "g", "t", 0, 2).timestamp, NOW + 10);
    OL_CHECK_INT(commit_one(partition, "g", "t", 1, 2).timestamp, NOW + 10);
    OL_CHECK_INT(commit_time(partition, 0), NOW + 10 + YEAR);
    OL_CHECK_INT(commit_time(partition, 1), NOW + 10 + YEAR);
    commit_pending(partition, 10, "g", "t", 2, 1);
    OL_CHECK_OK(ol_partition_end_transaction(partition, 10, 0, OL_CONTROL_COMMIT, 0, &result, &error), &error);
    OL_CHECK_INT(result.timestamp, NOW + 10);
    OL_CHECK_OK(ol_partition_roll(partition, &error), &error);
    now.wall -= YEAR;
    pass(&now, 10);
    OL_CHECK_INT(commit_one(partition, "g", "t", 0, 3).timestamp, NOW + 20);
    OL_CHECK_INT(commit_time(partition, 0), NOW + 20);
    int64_t end = ol_log_end(ol_partition_log(partition));
    OL_CHECK_INT(offset_at(partition, NOW + 19), end - 1);
    OL_CHECK_INT(offset_at(partition, NOW + 20), end);
    OL_CHECK_INT(ol_partition_newest_timestamp(partition), NOW + 20);
    /* The roll has seen the wrong time, which would have made producer 9 a year old. */
    int16_t epoch;
    int32_t coordinator_epoch;
    OL_CHECK(ol_log_producer(ol_partition_log(partition), 9, &epoch, &coordinator_epoch));
    ol_digest digest = digest_of(partition);
    close_partition(partition);
    partition = open_partition(&options, true);
    check_same_digest(digest, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

/* A log of a clock that was wrong for long: what comes after it is of the time it is. */
OL_TEST(a_load_of_a_time_to_come_does_not_carry_it_on) {
    clocks now = {.wall = NOW + YEAR, .steady = 1};
    ol_partition_options options = fixture_options(fresh_directory());
    options.clock_ms = wall_of;
    options.steady_ms = steady_of;
    options.clock_context = &now;
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK_INT(commit_one(partition, "g", "t", 0, 1).timestamp, NOW + YEAR);
    close_partition(partition);
    now.wall = NOW;
    partition = open_partition(&options, true);
    OL_CHECK_INT(commit_one(partition, "g", "t", 0, 2).timestamp, NOW);
    OL_CHECK_INT(commit_time(partition, 0), NOW);
    OL_CHECK_INT(ol_partition_newest_timestamp(partition), NOW + YEAR);
    /* By time nothing after the wrong record can be asked for before its own. */
    OL_CHECK_INT(offset_at(partition, NOW + 1), 0);
    OL_CHECK_INT(offset_at(partition, NOW + YEAR), 2);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
