/* A log is opened for reading while its owner rolls, cleans and cuts it: between the moment at which the reader reads
 * the manifest and the one at which it sees the segments.  Nobody is accused of what is only read of two times. */
#include "completeness_fixture.h"

/* The owner acts when the reader lists the directory. */
static struct {
    ol_log *owner;
    model m;
    void (*act)(void);
    int times;                  /* left */
    int done;
} moving;

static int moving_list(ol_fs *fs, const char *path, int (*visit)(void *context, const char *name), void *context,
                       ol_error *error) {
    if (moving.times > 0) {
        moving.times--;
        moving.done++;
        moving.act();
    }
    return ol_fs_posix()->list(fs, path, visit, context, error);
}

static ol_fs *moving_fs(void) {
    static ol_fs fs;
    fs = *ol_fs_posix();
    fs.list = moving_list;
    return &fs;
}

static void fill(int count) {
    ol_error error;
    for (int i = 0; i < count; i++) {
        OL_CHECK_OK(model_append(&moving.m, moving.owner, scene_batch((uint64_t)i), &error), &error);
    }
}

static void act_roll(void) {
    fill(2 * SEGMENT_BATCHES);
    flush(moving.owner);
}

static bool keep_drawn(void *context OL_UNUSED, const model_batch *batch) {
    return (batch->base * 7 + moving.done) % 10 < 5;
}

static void act_clean(void) {
    ol_error error;
    int64_t bases[MODEL_SEGMENTS_MAX];
    fill(2 * SEGMENT_BATCHES);
    flush(moving.owner);
    size_t count = segment_bases(moving.owner, bases);
    OL_CHECK_OK(model_clean(&moving.m, moving.owner, 0, count - 1, keep_drawn, NULL, &error), &error);
    flush(moving.owner);
}

static void act_truncate(void) {
    ol_error error;
    OL_CHECK_OK(ol_log_truncate(moving.owner, ol_log_end(moving.owner) - 20, &error), &error);
}

/* The reader opens the log as it is in the end, or as it was at some moment of its open. */
static void check_moving(void (*act)(void), int times, bool checkpointed) {
    place p;
    ol_log_recovery recovery;
    scene_place(&p);
    moving.owner = fixture_open(&p.options, NULL);
    moving.act = act;
    moving.times = times;
    moving.done = 0;
    fill(8 * SEGMENT_BATCHES);
    flush(moving.owner);
    int64_t before = ol_log_end(moving.owner);
    ol_log_options options = p.options;
    options.fs = moving_fs();
    options.writable = options.create = false;
    options.witnessed = true;
    options.recovery_point = checkpointed ? before : -1;
    /* A truncation lowers the checkpoint first. */
    if (act == act_truncate) options.recovery_point = -1;
    ol_log *log = fixture_open(&options, &recovery);
    if (accusation(&recovery) != NULL) print_findings(__FILE__, __LINE__, "the open to read", &recovery);
    OL_CHECK(accusation(&recovery) == NULL);
    OL_CHECK(moving.done > 0);
    OL_CHECK_INT(ol_log_end(log), ol_log_end(moving.owner));
    ol_log_abandon(log);
    fixture_close(moving.owner);
    model_remove_from(&moving.m, 0);
    fixture_remove(p.root);
}

OL_TEST(a_log_that_is_rolled_meanwhile) {
    for (int times = 1; times < 10; times++) check_moving(act_roll, times, times & 1);
}

OL_TEST(a_log_that_is_cleaned_meanwhile) {
    for (int times = 1; times < 10; times++) check_moving(act_clean, times, times & 1);
}

OL_TEST(a_log_that_is_cut_meanwhile) {
    for (int times = 1; times < 6; times++) check_moving(act_truncate, times, times & 1);
}

/* A loss is reported also of a log that moves, as soon as it stands still for one look. */
OL_TEST(a_loss_in_a_log_that_moves_is_a_loss) {
    for (int times = 0; times < 3; times++) {
        place p;
        ol_log_recovery recovery;
        scene_place(&p);
        moving.owner = fixture_open(&p.options, NULL);
        moving.act = act_roll;
        moving.times = times;
        fill(8 * SEGMENT_BATCHES);
        flush(moving.owner);
        scene_remove_segment(&p, 32);
        ol_log_options options = p.options;
        options.fs = moving_fs();
        options.writable = options.create = false;
        ol_log *log = fixture_open(&options, &recovery);
        const finding expected = {true, 32, 48};
        OL_CHECK(has_findings(&recovery, &expected, 1));
        ol_log_abandon(log);
        fixture_close(moving.owner);
        model_remove_from(&moving.m, 0);
        fixture_remove(p.root);
    }
}

OL_TEST_MAIN()
