/* Cleans the log of a replica whose table was dropped, and beside changes of what the replica does:
 * loads, truncations, elections. */
#include "cleaner_fixture.h"

static const char *const groups[] = {"g", "h", "i"};

/* Overwrites the same positions again and again, over many small segments. */
static void fill(world *w, int count) {
    for (int i = 0; i < count; i++) append_position(w, -1, groups[i % 3], i % 7, i);
}

static void unload(world *w) {
    ol_error error;
    OL_CHECK_OK(ol_partition_unload(w->partition, epoch_of(w->partition), &error), &error);
}

static void load(world *w) {
    ol_error error;
    OL_CHECK_OK(ol_partition_load(w->partition, &error), &error);
}

static ol_digest digest_of_replica(world *w) {
    ol_digest digest;
    ol_error error;
    int64_t applied;
    OL_CHECK_OK(ol_partition_digest(w->partition, true, &digest, &applied, &error), &error);
    return digest;
}

OL_TEST(a_log_without_a_table_is_cleaned_as_one_with_it) {
    for (int is_unloaded = 0; is_unloaded < 2; is_unloaded++) {
        world w;
        open_world(&w, 4096);
        fill(&w, 300);
        roll_world(&w);
        ol_digest before = digest_of_replica(&w);
        if (is_unloaded) unload(&w);
        ol_clean_report report = clean(&w);
        OL_CHECK(report.complete);
        OL_CHECK_INT(report.records.kept, 21);
        OL_CHECK_INT(report.records.superseded, 300 - 21);
        check_log(&w, world_end(&w));
        if (is_unloaded) load(&w);
        ol_digest after = digest_of_replica(&w);
        OL_CHECK(memcmp(&before, &after, sizeof before) == 0);
        close_world(&w);
    }
}

/* The log calls the transaction ended; at W it is open, and its value may yet be taken back. */
OL_TEST(without_a_table_a_transaction_that_is_open_at_the_watermark_stays) {
    for (int is_unloaded = 0; is_unloaded < 2; is_unloaded++) {
        world w;
        open_world(&w, 4096);
        fill(&w, 100);
        int64_t first = append_position(&w, 7, "g", 0, 1000);
        fill(&w, 100);
        int64_t watermark = world_end(&w);
        append_marker(&w, 7, OL_CONTROL_ABORT);
        fill(&w, 50);
        ol_error error;
        OL_CHECK_OK(ol_partition_roll(w.partition, &error), &error);
        advance_world(&w, watermark);
        if (is_unloaded) unload(&w);
        ol_clean_report report = clean(&w);
        OL_CHECK(report.target > 0 && report.target <= first);
        OL_CHECK(report.records.superseded > 0);
        check_log(&w, watermark);
        check_log(&w, world_end(&w));
        close_world(&w);
    }
}

OL_TEST(nothing_above_the_watermark_is_cleaned_without_a_table) {
    world w;
    ol_error error;
    open_world(&w, 4096);
    fill(&w, 60);
    advance_world(&w, world_end(&w));
    int64_t watermark = world_end(&w);
    fill(&w, 200);
    OL_CHECK_OK(ol_partition_roll(w.partition, &error), &error);
    unload(&w);
    ol_clean_report report = clean(&w);
    OL_CHECK(report.target <= watermark);
    check_log(&w, watermark);
    check_log(&w, world_end(&w));
    close_world(&w);
}

OL_TEST(a_replica_without_a_table_rolls_and_a_leader_without_one_does_not) {
    world w;
    ol_error error;
    open_world(&w, 4096);
    fill(&w, 5);
    unload(&w);
    OL_CHECK_OK(ol_partition_roll(w.partition, &error), &error);
    fill(&w, 5);
    OL_CHECK_OK(ol_partition_become_leader(w.partition, epoch_of(w.partition) + 1, false, &error),
                &error);
    OL_CHECK_INT(ol_partition_roll(w.partition, &error), OL_LOADING);
    close_world(&w);
}

/* ------------------------------------------------------------------------- beside other changes */

/* The action at the first long read of the cleaner. */
static struct {
    world *w;
    void (*happens)(world *w);
    bool armed;
    pthread_t thread;
    _Atomic bool load_may_read;
} scene;

static _Thread_local bool loads_here;

static int interrupted_read(ol_file *file, int64_t position, void *data, size_t size, size_t *got,
                            ol_error *error) {
    if (loads_here) {
        while (!scene.load_may_read) usleep(100);
    } else if (scene.armed && size > 1000) {
        scene.armed = false;
        scene.happens(scene.w);
    }
    return ol_fs_posix()->read(file, position, data, size, got, error);
}

static void open_scene(world *w, ol_fs *fs, void (*happens)(world *w)) {
    *fs = *ol_fs_posix();
    fs->read = interrupted_read;
    open_world(w, 4096);
    close_partition(w->partition);
    w->options.log.fs = fs;
    open_world_partition(w);
    fill(w, 200);
    roll_world(w);
    scene.w = w;
    scene.happens = happens;
    scene.armed = true;
    scene.load_may_read = false;
}

static void *run_load(void *argument) {
    loads_here = true;
    load(argument);
    loads_here = false;
    return NULL;
}

static bool is_loading(world *w) { return ol_partition_role(w->partition) == OL_ROLE_LOADING; }

static void begin_load(world *w) {
    OL_CHECK(pthread_create(&scene.thread, NULL, run_load, w) == 0);
    while (!is_loading(w)) usleep(100);
}

OL_TEST(no_segment_is_replaced_while_a_load_runs) {
    world w;
    ol_fs fs;
    open_scene(&w, &fs, begin_load);
    ol_digest before = digest_of_replica(&w);
    unload(&w);
    ol_clean_report report = clean(&w);
    OL_CHECK(report.load_began && !report.complete && !report.truncated);
    OL_CHECK_INT(report.end, -1);
    OL_CHECK_INT(report.bytes_after, report.bytes_before);
    scene.load_may_read = true;
    pthread_join(scene.thread, NULL);
    ol_digest after = digest_of_replica(&w);
    OL_CHECK(memcmp(&before, &after, sizeof before) == 0);
    report = clean(&w);
    OL_CHECK(report.complete && report.bytes_after < report.bytes_before);
    check_log(&w, world_end(&w));
    close_world(&w);
}

static void lead(world *w) {
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(w->partition, epoch_of(w->partition) + 1, false, &error),
                &error);
}

static void lead_and_follow(world *w) {
    ol_error error;
    lead(w);
    OL_CHECK_OK(
        ol_partition_become_follower(w->partition, epoch_of(w->partition) + 1, &error), &error);
}

OL_TEST(an_election_does_not_disturb_a_clean) {
    void (*const changes[])(world *) = {lead, lead_and_follow, unload};
    for (int i = 0; i < 3; i++) {
        world w;
        ol_fs fs;
        open_scene(&w, &fs, changes[i]);
        ol_digest before = digest_of_replica(&w);
        ol_clean_report report = clean(&w);
        OL_CHECK(!scene.armed);
        OL_CHECK(report.complete && !report.load_began && !report.truncated);
        OL_CHECK_INT(report.records.kept, 21);
        check_log(&w, world_end(&w));
        if (changes[i] == unload) load(&w);
        ol_digest after = digest_of_replica(&w);
        OL_CHECK(memcmp(&before, &after, sizeof before) == 0);
        close_world(&w);
    }
}

/* An unclean election cuts what a run has read: the run must not put it back. */
static void cut_below(world *w) {
    ol_error error;
    OL_CHECK_OK(ol_partition_truncate(w->partition, epoch_of(w->partition), 5, &error), &error);
    while (w->past_count > 5) free(w->past[--w->past_count].data);
    fill(w, 150);
}

OL_TEST(a_truncation_below_what_is_cleaned_ends_the_run) {
    world w;
    ol_fs fs;
    open_scene(&w, &fs, cut_below);
    ol_clean_report report = clean(&w);
    OL_CHECK(!scene.armed);
    OL_CHECK(report.truncated && !report.complete);
    OL_CHECK_INT(report.quarantined, 0);
    check_log(&w, world_end(&w));
    load(&w);
    roll_world(&w);
    /* The fixture keeps a checkpoint of the log that was. */
    w.checkpoint = -1;
    report = clean(&w);
    OL_CHECK(report.complete && report.bytes_after < report.bytes_before);
    check_log(&w, world_end(&w));
    close_world(&w);
}

OL_TEST_MAIN()
