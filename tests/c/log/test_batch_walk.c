/* Walks with a reporter: the order of its calls, the way past damage, and the end that moves. */
#include "log/batch_walk.h"
#include "log_fixture.h"

typedef struct reports {
    int released;
    int damaged;
    int released_at_damage;
    int fail_release;           /* the status of the next release */
    ol_error damage;
} reports;

static int release(void *context, ol_error *error) {
    reports *seen = context;
    seen->released++;
    if (seen->fail_release == OL_OK) return OL_OK;
    return ol_fail(error, seen->fail_release, "the test refuses to release");
}

static void damaged(void *context, const ol_error *damage, int64_t below) {
    OL_CHECK(below > damage->offset);
    reports *seen = context;
    seen->damaged++;
    seen->released_at_damage = seen->released;
    seen->damage = *damage;
}

typedef struct scene {
    char directory[OL_PATH_MAX];
    ol_log *log;
    reports seen;
    ol_batch_walk_reporter reporter;
    ol_batch_walk walk;
} scene;

static void append(scene *s, int count) {
    for (int i = 0; i < count; i++) fixture_append(s->log, fixture_plain(50, (uint64_t)i));
}

static void begin(scene *s, int batches) {
    memset(s, 0, sizeof *s);
    fixture_directory(s->directory);
    ol_log_options options = fixture_options(s->directory);
    s->log = fixture_open(&options, NULL);
    append(s, batches);
}

static void walk_from(scene *s, int64_t from) {
    ol_error error;
    s->reporter = (ol_batch_walk_reporter){release, damaged, &s->seen};
    OL_CHECK_OK(ol_batch_walk_open_reported(&s->walk, s->log, from, &s->reporter, &error), &error);
}

/* The base offset of the next batch; -1 at the end. */
static int64_t next(scene *s) {
    ol_batch batch;
    ol_error error;
    int status = ol_batch_walk_next(&s->walk, &batch, &error);
    if (status == OL_END) return -1;
    OL_CHECK_OK(status, &error);
    return batch.base_offset;
}

static void finish(scene *s) {
    ol_batch_walk_close(&s->walk);
    ol_batch_walk_close(&s->walk);
    ol_log_abandon(s->log);
    fixture_remove(s->directory);
}

/* Closes the log, changes the bytes of batch `number`, and opens it again for reading. */
static void reopen_changed(scene *s, int number, size_t at, uint8_t value, int64_t recovery_point) {
    char path[OL_PATH_MAX];
    size_t size, position = 0;
    fixture_close(s->log);
    fixture_join(path, s->directory, "00000000000000000000.log");
    uint8_t *data = fixture_read(path, &size);
    for (int i = 0; i < number; i++) {
        size_t length = (size_t)ol_load_i32(data + position + OL_BATCH_AT_LENGTH);
        position += OL_BATCH_LOG_OVERHEAD + length;
    }
    data[position + at] = value;
    fixture_write(path, data, size);
    free(data);
    ol_log_options options = fixture_options(s->directory);
    options.writable = options.create = false;
    options.clean = recovery_point < 0;
    options.recovery_point = recovery_point;
    s->log = fixture_open(&options, NULL);
}

OL_TEST(a_reported_walk_goes_on_where_the_log_grew) {
    scene s;
    begin(&s, 3);
    walk_from(&s, 0);
    for (int64_t i = 0; i < 3; i++) OL_CHECK_INT(next(&s), i);
    OL_CHECK_INT(s.seen.released, 0);
    OL_CHECK_INT(next(&s), -1);
    OL_CHECK_INT(s.seen.released, 1);
    OL_CHECK(!s.walk.ended);
    int64_t bytes = s.walk.bytes;
    OL_CHECK(bytes > 0);
    append(&s, 2);
    OL_CHECK_INT(next(&s), 3);
    OL_CHECK_INT(next(&s), 4);
    OL_CHECK_INT(next(&s), -1);
    OL_CHECK(s.walk.bytes > bytes);
    OL_CHECK_INT(s.seen.damaged, 0);
    OL_CHECK_INT(ol_batch_walk_next_offset(&s.walk), 5);
    finish(&s);
}

OL_TEST(a_batch_that_is_put_back_is_given_again) {
    scene s;
    begin(&s, 4);
    walk_from(&s, 1);
    OL_CHECK_INT(next(&s), 1);
    ol_batch_walk_put_back(&s.walk);
    OL_CHECK_INT(ol_batch_walk_next_offset(&s.walk), 1);
    OL_CHECK(!s.walk.bounds.has_previous);
    for (int64_t i = 1; i < 4; i++) OL_CHECK_INT(next(&s), i);
    ol_batch_walk_put_back(&s.walk);
    OL_CHECK(s.walk.bounds.has_previous);
    append(&s, 1);
    OL_CHECK_INT(next(&s), 3);
    OL_CHECK_INT(next(&s), 4);
    OL_CHECK_INT(next(&s), -1);
    finish(&s);
}

OL_TEST(bytes_are_released_before_damage_is_reported) {
    scene s;
    begin(&s, 10);
    reopen_changed(&s, 4, OL_BATCH_AT_MAX_TIMESTAMP, 0x7f, -1);
    walk_from(&s, 0);
    for (int64_t i = 0; i < 10; i++) {
        if (i == 4) continue;
        OL_CHECK_INT(next(&s), i);
        OL_CHECK_INT(s.seen.damaged, i > 4);
    }
    OL_CHECK(s.seen.released_at_damage > 0);
    OL_CHECK_INT(s.seen.damage.status, OL_CORRUPT);
    OL_CHECK_INT(s.seen.damage.offset, 4);
    OL_CHECK(s.seen.damage.position > 0);
    OL_CHECK_INT(next(&s), -1);
    OL_CHECK_INT(s.walk.passed_over, 1);
    finish(&s);
}

OL_TEST(a_batch_that_goes_back_is_damage_only_to_a_reported_walk) {
    scene s;
    ol_error error;
    begin(&s, 10);
    reopen_changed(&s, 4, 7, 2, -1);        /* offset 4 claims to be 2 */
    walk_from(&s, 0);
    for (int64_t i = 0; i < 10; i++) {
        if (i != 4) OL_CHECK_INT(next(&s), i);
    }
    OL_CHECK_INT(s.seen.damaged, 1);
    OL_CHECK_INT(s.seen.damage.offset, 4);
    ol_batch_walk_close(&s.walk);
    OL_CHECK_OK(ol_batch_walk_open(&s.walk, s.log, 0, 10, true, &error), &error);
    for (int64_t i = 0; i < 10; i++) {
        if (i != 4) OL_CHECK_INT(next(&s), i);
    }
    OL_CHECK_INT(s.walk.passed_over, 0);
    OL_CHECK_INT(next(&s), -1);
    finish(&s);
}

OL_TEST(an_unfinished_tail_is_counted_and_not_reported) {
    scene s;
    begin(&s, 10);
    reopen_changed(&s, 9, OL_BATCH_AT_RECORDS, 0x7f, 0);
    walk_from(&s, 0);
    for (int64_t i = 0; i < 9; i++) OL_CHECK_INT(next(&s), i);
    OL_CHECK_INT(next(&s), -1);
    OL_CHECK_INT(s.seen.damaged, 0);
    finish(&s);
}

OL_TEST(a_failed_release_ends_the_call) {
    scene s;
    ol_batch batch;
    ol_error error;
    begin(&s, 2);
    walk_from(&s, 0);
    OL_CHECK_INT(next(&s), 0);
    OL_CHECK_INT(next(&s), 1);
    s.seen.fail_release = OL_NO_MEMORY;
    OL_CHECK_INT(ol_batch_walk_next(&s.walk, &batch, &error), OL_NO_MEMORY);
    finish(&s);
}

OL_TEST(a_reported_walk_begins_within_the_log) {
    scene s;
    ol_error error;
    begin(&s, 2);
    int status = ol_batch_walk_open_reported(&s.walk, s.log, 3, &s.reporter, &error);
    OL_CHECK_INT(status, OL_OUT_OF_RANGE);
    finish(&s);
}

OL_TEST_MAIN()
