/* The open of a torn log is stopped at each of its file operations, and then power is lost.  The open that follows finds
 * the batches before the torn place and no others, everything that was cut stands in a copy (docs/durability.md,
 * "Torn or corrupt"), and nothing is reported as lost or in doubt. */
#include "accusation.h"
#include "recovery_fixture.h"
#include "testing/fault_fs.h"

enum { BATCHES = 14, FLUSHED = 2, VALUE_SIZE = 1100, SEGMENTS_MAX = 8 };

/* A segment as it was before anything was cut, from the torn place on. */
typedef struct torn_segment {
    char copies[64];            /* how the names of its copies begin */
    uint8_t *bytes;
    size_t size;
} torn_segment;

typedef struct torn_log {
    char root[OL_PATH_MAX];
    ol_fs *disk;                /* as the killed process left it, all durable */
    torn_segment torn[SEGMENTS_MAX];
    size_t count;
    int64_t end;                /* where the first bad batch is */
} torn_log;

static ol_log_options options_of(const char *partition) {
    ol_log_options options = fixture_options(partition);
    options.config.segment_bytes = OL_SEGMENT_BYTES_MIN;
    return options;
}

/* The partition was created: its manifest and its sidecar have to be there. */
static ol_log_options options_of_torn(const char *partition) {
    ol_log_options options = options_of(partition);
    options.witnessed = true;
    return options;
}

/* Flips a bit of the batch at `end`, and keeps what stands there and after it. */
static void tear(torn_log *t, const char *partition, const ol_log *log) {
    fixture_batch plain = fixture_plain(VALUE_SIZE, 0);
    int64_t batch_size = (int64_t)fixture_batch_size(&plain);
    ol_log_segment_info info;
    for (size_t i = 0; ol_log_segment_at(log, i, &info); i++) {
        int64_t from = info.base_offset < t->end ? (t->end - info.base_offset) * batch_size : 0;
        if (from >= info.size) continue;
        char name[32];
        snprintf(name, sizeof name, "%020" PRId64 ".log", info.base_offset);
        if (info.base_offset <= t->end) flip_byte(partition, name, from + batch_size - 1);
        OL_CHECK(t->count < SEGMENTS_MAX);
        torn_segment *torn = &t->torn[t->count++];
        snprintf(torn->copies, sizeof torn->copies, "broken-%s.", name);
        size_t size = 0;
        uint8_t *bytes = fixture_read(info.path, &size);
        torn->size = (size_t)(info.size - from);
        torn->bytes = malloc(torn->size);
        memcpy(torn->bytes, bytes + from, torn->size);
        free(bytes);
    }
}

/* A broker leaves no notes of its rolls. */
static void remove_notes(const char *partition) {
    DIR *directory = opendir(partition);
    OL_CHECK(directory != NULL);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char path[OL_PATH_MAX];
        fixture_join(path, partition, entry->d_name);
        if (strncmp(entry->d_name, "offsetlog.rolled-", 17) == 0) OL_CHECK(unlink(path) == 0);
    }
    closedir(directory);
}

/* BATCHES batches in several segments, the first FLUSHED of them flushed, a flipped bit in the one at `end`; then
 * killed. */
static void leave_torn(torn_log *t, const char *directory, int64_t end, bool noted) {
    ol_error error;
    char partition[OL_PATH_MAX];
    *t = (torn_log){.end = end};
    fixture_join(t->root, directory, "root");
    OL_CHECK(mkdir(t->root, 0777) == 0);
    fixture_join(partition, t->root, "p-0");
    ol_log_options options = options_of(partition);
    ol_log *log = fixture_open(&options, NULL);
    append_many(log, FLUSHED, VALUE_SIZE);
    OL_CHECK_INT(flush(log), FLUSHED);
    append_many(log, BATCHES - FLUSHED, VALUE_SIZE);
    tear(t, partition, log);
    ol_log_abandon(log);
    if (!noted) remove_notes(partition);
    OL_CHECK_OK(ol_fault_fs_create(t->root, &t->disk, &error), &error);
}

static void release_torn(torn_log *t) {
    for (size_t i = 0; i < t->count; i++) free(t->torn[i].bytes);
    ol_fault_fs_free(t->disk);
    fixture_remove(t->root);
}

/* Whether some copy of the segment begins with what stood there; a copy ends with the rest of its page. */
static bool is_copied(const char *partition, const torn_segment *torn) {
    bool found = false;
    DIR *directory = opendir(partition);
    OL_CHECK(directory != NULL);
    for (struct dirent *entry = readdir(directory); entry != NULL && !found; entry = readdir(directory)) {
        if (strncmp(entry->d_name, torn->copies, strlen(torn->copies)) != 0) continue;
        char path[OL_PATH_MAX];
        size_t size = 0;
        fixture_join(path, partition, entry->d_name);
        uint8_t *bytes = fixture_read(path, &size);
        found = size >= torn->size && memcmp(bytes, torn->bytes, torn->size) == 0;
        free(bytes);
    }
    closedir(directory);
    return found;
}

/* Opens the log after the second power loss and checks it.  With `done` the first open returned, so nothing is left
 * to cut. */
static void check_left(const torn_log *t, const char *root, bool done, int64_t stop_at) {
    char partition[OL_PATH_MAX];
    ol_log_recovery recovery;
    fixture_join(partition, root, "p-0");
    ol_log_options options = options_of_torn(partition);
    ol_log *log = fixture_open(&options, &recovery);
    bool right = accusation(&recovery) == NULL && ol_log_end(log) == t->end && (!done || recovery.torn_bytes == 0);
    for (size_t i = 0; i < t->count; i++) right = right && is_copied(partition, &t->torn[i]);
    if (!right) {
        fprintf(stderr, "torn at %" PRId64 ", the open stopped at operation %" PRId64 "%s: the log ends at %" PRId64
                ", %" PRId64 " torn bytes, accused: %s\n",
                t->end, stop_at, done ? " (it returned)" : "", ol_log_end(log), recovery.torn_bytes,
                accusation(&recovery) == NULL ? "no" : accusation(&recovery));
        for (size_t i = 0; i < t->count; i++) {
            bool kept = is_copied(partition, &t->torn[i]);
            fprintf(stderr, "  %s %s\n", t->torn[i].copies, kept ? "is copied" : "IS LOST");
        }
        exit(1);
    }
    OL_CHECK_INT(fixture_append(log, fixture_plain(VALUE_SIZE, 1)), t->end);
    fixture_close(log);
}

/* Opens the torn log, stops at operation `stop_at` and loses power, some times over.  Whether the open returned. */
static bool stop_the_open(const torn_log *t, const char *directory, int64_t stop_at, uint64_t disks) {
    char target[OL_PATH_MAX];
    char partition[OL_PATH_MAX];
    char again[OL_PATH_MAX];
    ol_error error;
    ol_fs *fs = NULL;
    ol_log *log = NULL;
    ol_log_recovery recovery;
    fixture_join(target, directory, "target");
    fixture_join(again, directory, "again");
    OL_CHECK(mkdir(target, 0777) == 0);
    OL_CHECK_OK(ol_fault_fs_materialize_all(t->disk, target, &error), &error);
    OL_CHECK_OK(ol_fault_fs_create(target, &fs, &error), &error);
    ol_fault_fs_stop_at(fs, stop_at);
    fixture_join(partition, target, "p-0");
    ol_log_options options = options_of_torn(partition);
    options.fs = fs;
    int status = ol_log_open(&options, &log, &recovery, &error);
    bool done = status == OL_OK;
    OL_CHECK(done || status == OL_CRASHED);
    if (done) ol_log_abandon(log);
    for (uint64_t i = 0; i < disks; i++) {
        OL_CHECK(mkdir(again, 0777) == 0);
        uint64_t seed = ol_test_seed * 1000003 + (uint64_t)stop_at * disks + i;
        OL_CHECK_OK(ol_fault_fs_materialize(fs, again, seed, &error), &error);
        check_left(t, again, done, stop_at);
        fixture_remove(again);
    }
    ol_fault_fs_free(fs);
    fixture_remove(target);
    return done;
}

OL_TEST(whatever_an_open_cuts_is_kept_and_what_it_returned_stays) {
    char directory[OL_PATH_MAX];
    fixture_directory(directory);
    int64_t points = 0;
    uint64_t disks = (uint64_t)ol_test_depth(2, 24);
    /* From the flushed bound on: the middle of a segment, and the first batch of one. */
    for (int64_t i = 2 * FLUSHED; i < 2 * BATCHES; i++) {
        torn_log t;
        leave_torn(&t, directory, i / 2, i % 2 == 0);
        int64_t stop_at = 1;
        while (!stop_the_open(&t, directory, stop_at, disks)) stop_at++;
        points += stop_at - 1;
        release_torn(&t);
    }
    printf("  %" PRId64 " stops of an open, each with %" PRIu64 " states of the disk (seed %" PRIu64 ")\n", points, disks,
           ol_test_seed);
    fixture_remove(directory);
}

OL_TEST_MAIN()
