/* From a time to a place in the log: against a walk over everything, with time indexes that are right, stale, damaged or gone. */
#include "log_fixture.h"
#include "log/offset_for_time.h"
#include "log/batch_walk.h"

enum { BATCHES = 4000 };

typedef struct written {
    int64_t base_offset;
    int64_t last_offset;
    int64_t timestamp;
} written;

static const int64_t begun = 1700000000000;

/* The rule itself: the end of the last batch before the first that is too young. */
static int64_t expected_cutoff(const written *batches, size_t count, int64_t timestamp, int64_t until) {
    int64_t offset = 0;
    for (size_t i = 0; i < count && batches[i].timestamp <= timestamp && batches[i].base_offset < until; i++) {
        offset = batches[i].last_offset + 1;
    }
    return offset < until ? offset : until;
}

static void check_all(ol_log *log, const written *batches, size_t count) {
    ol_error error;
    int64_t offset = 0;
    int64_t end = ol_log_end(log);
    for (int i = 0; i < 300; i++) {
        int64_t timestamp = begun - 10 + (int64_t)ol_test_below(BATCHES + 2000);
        if (i % 3 == 0) timestamp = batches[ol_test_below(count)].timestamp - (int64_t)ol_test_below(2);
        int64_t until = i % 5 == 0 ? (int64_t)ol_test_below((uint64_t)end + 1) : end;
        OL_CHECK_OK(ol_log_offset_for_time(log, timestamp, until, &offset, &error), &error);
        OL_CHECK_INT(offset, expected_cutoff(batches, count, timestamp, until));
    }
    OL_CHECK_OK(ol_log_offset_for_time(log, INT64_MAX, end, &offset, &error), &error);
    OL_CHECK_INT(offset, end);
    OL_CHECK_OK(ol_log_offset_for_time(log, INT64_MIN, end, &offset, &error), &error);
    OL_CHECK_INT(offset, 0);
}

/* Batches whose times rise, and with `jumps` go back and far ahead now and then. */
static void fill(ol_log *log, written *batches, bool jumps) {
    int64_t now = begun;
    for (size_t i = 0; i < BATCHES; i++) {
        fixture_batch batch = fixture_plain(40 + ol_test_below(100), i);
        now += (int64_t)ol_test_below(3);
        batch.timestamp = now;
        batch.count = 1 + (int32_t)ol_test_below(3);
        if (jumps && ol_test_below(500) == 0) batch.timestamp = now + (int64_t)ol_test_below(1000) - 300;
        int64_t base = fixture_append(log, batch);
        batches[i] = (written){base, base + batch.count - 1, batch.timestamp};
    }
}

static void each_index(const char *directory, void (*change)(const char *path)) {
    DIR *opened = opendir(directory);
    OL_CHECK(opened != NULL);
    for (struct dirent *entry = readdir(opened); entry != NULL; entry = readdir(opened)) {
        char path[OL_PATH_MAX];
        if (strstr(entry->d_name, ".timeindex") == NULL) continue;
        fixture_join(path, directory, entry->d_name);
        change(path);
    }
    closedir(opened);
}

static void cut_index(const char *path) {
    struct stat status;
    OL_CHECK(stat(path, &status) == 0);
    OL_CHECK(truncate(path, status.st_size / 12 / 2 * 12) == 0);
}

static void damage_index(const char *path) {
    size_t size;
    uint8_t *data = fixture_read(path, &size);
    for (size_t at = 12; at + 12 <= size; at += 12) {
        for (size_t i = 0; i < 12; i++) data[at + i] = (uint8_t)ol_test_random();
    }
    fixture_write(path, data, size);
    free(data);
}

static void remove_index(const char *path) { OL_CHECK(unlink(path) == 0); }

static void check_with_indexes(bool jumps) {
    char directory[OL_PATH_MAX];
    written *batches = calloc(BATCHES, sizeof *batches);
    fixture_directory(directory);
    ol_log_options options = fixture_options(directory);
    ol_log *log = fixture_open(&options, NULL);
    fill(log, batches, jumps);
    check_all(log, batches, BATCHES);
    fixture_close(log);
    options.writable = options.create = false;
    options.clean = true;
    void (*changes[])(const char *) = {NULL, cut_index, damage_index, remove_index};
    for (size_t i = 0; i < 4; i++) {
        if (changes[i] != NULL) each_index(directory, changes[i]);
        log = fixture_open(&options, NULL);
        check_all(log, batches, BATCHES);
        ol_log_abandon(log);
    }
    fixture_remove(directory);
    free(batches);
}

OL_TEST(the_cutoff_is_where_the_first_younger_batch_begins) { check_with_indexes(false); }

OL_TEST(times_that_go_back_and_ahead_do_not_mislead_it) {
    for (int i = 0; i < 3; i++) check_with_indexes(true);
}

OL_TEST(an_empty_log_begins_and_ends_at_once) {
    char directory[OL_PATH_MAX];
    ol_error error;
    int64_t offset = -1;
    fixture_directory(directory);
    ol_log_options options = fixture_options(directory);
    ol_log *log = fixture_open(&options, NULL);
    OL_CHECK_OK(ol_log_offset_for_time(log, begun, 0, &offset, &error), &error);
    OL_CHECK_INT(offset, 0);
    fixture_close(log);
    fixture_remove(directory);
}

/* Batches in the positions [first, last) of the first segment's file, through their length fields. */
static size_t position_of(const uint8_t *data, int skipped) {
    size_t position = 0;
    for (int i = 0; i < skipped; i++) position += OL_BATCH_LOG_OVERHEAD + (size_t)ol_load_i32(data + position + OL_BATCH_AT_LENGTH);
    return position;
}

/* A byte of the time itself, so that the damaged batch claims to be of another time. */
static void damage_batch(const char *directory, int number, uint8_t first_byte) {
    char path[OL_PATH_MAX];
    size_t size;
    fixture_join(path, directory, "00000000000000000000.log");
    uint8_t *data = fixture_read(path, &size);
    data[position_of(data, number) + OL_BATCH_AT_MAX_TIMESTAMP] = first_byte;
    fixture_write(path, data, size);
    free(data);
}

OL_TEST(damaged_batches_are_passed_over) {
    char directory[OL_PATH_MAX];
    ol_error error;
    ol_batch_walk walk;
    ol_batch batch;
    int64_t offset = -1;
    fixture_directory(directory);
    ol_log_options options = fixture_options(directory);
    ol_log *log = fixture_open(&options, NULL);
    for (int i = 0; i < 100; i++) {
        fixture_batch one = fixture_plain(50, (uint64_t)i);
        one.timestamp = begun + i;
        fixture_append(log, one);
    }
    fixture_close(log);
    damage_batch(directory, 40, 0x7f);
    options.writable = options.create = false;
    options.clean = true;
    log = fixture_open(&options, NULL);
    /* It says to be of a far future, and its checksum says that it cannot be believed. */
    OL_CHECK_OK(ol_log_offset_for_time(log, begun + 60, ol_log_end(log), &offset, &error), &error);
    OL_CHECK_INT(offset, 61);
    OL_CHECK_OK(ol_batch_walk_open(&walk, log, 0, ol_log_end(log), true, &error), &error);
    for (int64_t next = 0; ol_batch_walk_next(&walk, &batch, &error) == OL_OK; next++) {
        if (next == 40) next++;
        OL_CHECK_INT(batch.base_offset, next);
    }
    OL_CHECK_INT(ol_batch_walk_next_offset(&walk), 100);
    OL_CHECK_INT(walk.passed_over, 1);
    ol_batch_walk_close(&walk);
    ol_log_abandon(log);
    fixture_remove(directory);
}

OL_TEST(a_walk_begins_and_ends_within_the_log) {
    char directory[OL_PATH_MAX];
    ol_error error;
    ol_batch_walk walk;
    ol_batch batch;
    written *batches = calloc(BATCHES, sizeof *batches);
    fixture_directory(directory);
    ol_log_options options = fixture_options(directory);
    ol_log *log = fixture_open(&options, NULL);
    fill(log, batches, false);
    int64_t end = ol_log_end(log);
    for (int i = 0; i < 200; i++) {
        int64_t from = (int64_t)ol_test_below((uint64_t)end + 2);
        int64_t until = (int64_t)ol_test_below((uint64_t)end + 100);
        size_t at = 0;
        while (at < BATCHES && batches[at].last_offset < from) at++;
        OL_CHECK_OK(ol_batch_walk_open(&walk, log, from, until, i % 2 == 0, &error), &error);
        while (ol_batch_walk_next(&walk, &batch, &error) == OL_OK) {
            OL_CHECK(at < BATCHES && batches[at].base_offset < until);
            OL_CHECK_INT(batch.base_offset, batches[at++].base_offset);
        }
        OL_CHECK(from >= until || at == BATCHES || batches[at].base_offset >= until);
        ol_batch_walk_close(&walk);
    }
    fixture_close(log);
    fixture_remove(directory);
    free(batches);
}

OL_TEST_MAIN()
