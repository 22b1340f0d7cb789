/* An open that accepts loss: what is bad is taken out of the segments and kept in copies, every right batch stays, the
 * log goes on, and the next open finds nothing wrong (log/repair). */
#include <errno.h>

#include "completeness_fixture.h"
#include "testing/fault_fs.h"

/* Closed segments at 0, 16 and 32, the active one at 48 with ten batches. */
enum { BATCHES = 58, LAST_BASE = 48 };

/* -------------------------------------------------------------------------------- harm */

static void overwrite(const place *p, int64_t base_offset, int64_t position, const void *data, size_t size) {
    char name[32], path[OL_PATH_MAX];
    scene_name(name, base_offset, ".log");
    scene_path(p, name, path);
    int fd = open(path, O_WRONLY);
    OL_CHECK(fd >= 0 && pwrite(fd, data, size, position) == (ssize_t)size);
    close(fd);
}

static void flip(const place *p, int64_t offset, int64_t within) {
    char name[32];
    scene_name(name, offset / SEGMENT_BATCHES * SEGMENT_BATCHES, ".log");
    flip_byte(p->path, name, offset % SEGMENT_BATCHES * BATCH_SIZE + within);
}

static void put_batches(const place *p, int64_t segment_base, int64_t position, int64_t base_offset, int count) {
    for (int i = 0; i < count; i++) {
        uint8_t bytes[BATCH_SIZE];
        fixture_batch batch = scene_batch(8);
        batch.base_offset = base_offset + i;
        fixture_encode(&batch, bytes);
        overwrite(p, segment_base, position + i * BATCH_SIZE, bytes, sizeof bytes);
    }
}

static void harm_first_batch(const place *p) { flip(p, 0, 100); }
static void harm_start_of_a_closed_one(const place *p) { flip(p, 16, 100); }
static void harm_middle_of_a_closed_one(const place *p) { flip(p, 25, 100); }
static void harm_end_of_a_closed_one(const place *p) { flip(p, 31, 255); }
static void harm_start_of_the_active_one(const place *p) { flip(p, 48, 100); }
static void harm_middle_of_the_active_one(const place *p) { flip(p, 52, 100); }
static void harm_end_of_the_active_one(const place *p) { flip(p, 57, 255); }
static void harm_lengths(const place *p) {
    flip(p, 5, OL_BATCH_AT_LENGTH);
    flip(p, 20, OL_BATCH_AT_LENGTH + 3);
    flip(p, 50, OL_BATCH_AT_LENGTH + 2);
}
static void harm_everywhere(const place *p) {
    for (int64_t offset = 0; offset < BATCHES; offset += 3) flip(p, offset, 77 + offset);
}
static void harm_with_zeros(const place *p) {
    static const uint8_t zeros[600];
    overwrite(p, 16, 3 * BATCH_SIZE + 200, zeros, sizeof zeros);
    overwrite(p, LAST_BASE, 100, zeros, 300);
}
static void harm_all_of_a_closed_one(const place *p) {
    uint8_t bytes[SEGMENT_SIZE];
    memset(bytes, 0x5a, sizeof bytes);
    overwrite(p, 16, 0, bytes, sizeof bytes);
}
static void harm_all_of_the_active_one(const place *p) {
    uint8_t bytes[10 * BATCH_SIZE];
    memset(bytes, 0x5a, sizeof bytes);
    overwrite(p, LAST_BASE, 0, bytes, sizeof bytes);
}
static void harm_by_cutting(const place *p) {
    scene_cut_segment(p, 0, 3 * BATCH_SIZE + 50);
    scene_cut_segment(p, 32, 0);
}
static void harm_by_removing_the_first(const place *p) { scene_remove_segment(p, 0); }
static void harm_by_removing_one(const place *p) { scene_remove_segment(p, 16); }
static void harm_by_removing_the_last(const place *p) { scene_remove_segment(p, LAST_BASE); }
static void harm_by_removing_all(const place *p) {
    for (int64_t base = 0; base <= LAST_BASE; base += SEGMENT_BATCHES) scene_remove_segment(p, base);
}
/* A segment that goes on over what the next one has, and one that begins with what the one before has. */
static void harm_by_overlapping(const place *p) {
    put_batches(p, 0, SEGMENT_SIZE, 16, 2);
    put_batches(p, 32, 0, 30, 2);
}
static void harm_by_garbage_after_a_closed_one(const place *p) { overwrite(p, 16, SEGMENT_SIZE, "garbage", 7); }
/* As a crash leaves it: bytes that no flush covered. */
static void harm_beside_a_torn_tail(const place *p) {
    uint8_t bytes[3 * BATCH_SIZE];
    memset(bytes, 0xa5, sizeof bytes);
    overwrite(p, LAST_BASE, 10 * BATCH_SIZE, bytes, sizeof bytes);
    flip(p, 25, 100);
}
static void harm_witnesses(const place *p) {
    flip_byte(p->path, OL_MANIFEST_FILE, 30);
    flip_byte(p->path, OL_FLUSH_SIDECAR_FILE, 20);
}

typedef struct range {
    int64_t from, below;
} range;

typedef struct harm {
    const char *name;
    void (*act)(const place *p);
    range lost[4];
    bool loses_thirds;
    int64_t end;                /* of the log afterwards */
} harm;

static const harm harms[] = {
    {"the first batch", harm_first_batch, {{0, 1}}, false, BATCHES},
    {"the start of a closed segment", harm_start_of_a_closed_one, {{16, 17}}, false, BATCHES},
    {"the middle of a closed segment", harm_middle_of_a_closed_one, {{25, 26}}, false, BATCHES},
    {"the end of a closed segment", harm_end_of_a_closed_one, {{31, 32}}, false, BATCHES},
    {"the start of the active segment", harm_start_of_the_active_one, {{48, 49}}, false, BATCHES},
    {"the middle of the active segment", harm_middle_of_the_active_one, {{52, 53}}, false, BATCHES},
    {"the end of the active segment", harm_end_of_the_active_one, {{57, 58}}, false, 57},
    {"lengths", harm_lengths, {{5, 6}, {20, 21}, {50, 51}}, false, BATCHES},
    {"every third batch", harm_everywhere, {{0, 0}}, true, BATCHES - 1},
    {"zeros", harm_with_zeros, {{19, 23}, {48, 50}}, false, BATCHES},
    {"all of a closed segment", harm_all_of_a_closed_one, {{16, 32}}, false, BATCHES},
    {"all of the active segment", harm_all_of_the_active_one, {{48, 58}}, false, LAST_BASE},
    {"segments that end early", harm_by_cutting, {{3, 16}, {32, 48}}, false, BATCHES},
    {"no first segment", harm_by_removing_the_first, {{0, 16}}, false, BATCHES},
    {"a segment less", harm_by_removing_one, {{16, 32}}, false, BATCHES},
    {"no last segment", harm_by_removing_the_last, {{48, 58}}, false, LAST_BASE},
    {"no segment", harm_by_removing_all, {{0, 58}}, false, 0},
    {"segments that overlap", harm_by_overlapping, {{32, 34}}, false, BATCHES},
    {"garbage after a closed segment", harm_by_garbage_after_a_closed_one, {{0, 0}}, false, BATCHES},
    {"damage beside a torn tail", harm_beside_a_torn_tail, {{25, 26}}, false, BATCHES},
    {"witnesses", harm_witnesses, {{0, 0}}, false, BATCHES},
};
enum { HARMS = sizeof harms / sizeof harms[0] };

/* -------------------------------------------------------------------------------- what is left */

static const char *current = "";
#define CHECK_IT(condition) \
    do { \
        if (!(condition)) fprintf(stderr, "after harm to %s:\n", current); \
        OL_CHECK(condition); \
    } while (0)

static bool is_lost(const harm *h, int64_t offset) {
    if (h->loses_thirds) return offset % 3 == 0;
    for (size_t i = 0; i < sizeof h->lost / sizeof h->lost[0]; i++) {
        if (offset >= h->lost[i].from && offset < h->lost[i].below) return true;
    }
    return false;
}

/* Every right batch is there, byte for byte, and no other. */
static void check_batches(const harm *h, ol_log *log, const uint8_t *whole) {
    size_t size = 0, at = 0;
    uint8_t *bytes = fixture_read_log(log, 0, 4096, &size);
    CHECK_IT(ol_log_end(log) == h->end);
    for (int64_t offset = 0; offset < h->end; offset++) {
        if (is_lost(h, offset)) continue;
        CHECK_IT(at + BATCH_SIZE <= size && memcmp(bytes + at, whole + offset * BATCH_SIZE, BATCH_SIZE) == 0);
        at += BATCH_SIZE;
    }
    CHECK_IT(at == size);
    free(bytes);
}

/* All batches, one after the other, as they were written. */
static uint8_t *read_whole(const place *p) {
    ol_log_options options = p->options;
    size_t size = 0;
    options.writable = options.create = false;
    ol_log *log = fixture_open(&options, NULL);
    uint8_t *bytes = fixture_read_log(log, 0, 4096, &size);
    ol_log_abandon(log);
    OL_CHECK_INT(size, BATCHES * BATCH_SIZE);
    return bytes;
}

static bool is_copy(const char *directory, const char *name, const uint8_t *bytes, size_t size) {
    char path[OL_PATH_MAX];
    size_t copy_size = 0;
    const char *last_dot = strstr(name, ".log.") + 5;
    size_t position = strtoull(last_dot, NULL, 10);
    fixture_join(path, directory, name);
    uint8_t *copy = fixture_read(path, &copy_size);
    bool is_same = position <= size && copy_size >= size - position &&
                   memcmp(copy, bytes + position, size - position) == 0;
    free(copy);
    return is_same;
}

/* Whether some copy has all that the file had, from the first byte that is another now on. */
static bool is_kept(const char *directory, const char *name, const uint8_t *bytes, size_t size) {
    char prefix[64];
    bool found = false;
    snprintf(prefix, sizeof prefix, "broken-%s.", name);
    DIR *listing = opendir(directory);
    OL_CHECK(listing != NULL);
    for (struct dirent *entry = readdir(listing); entry != NULL && !found; entry = readdir(listing)) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) found = is_copy(directory, entry->d_name, bytes, size);
    }
    closedir(listing);
    return found;
}

/* There is a copy of every segment that changed. */
static void check_copies(const char *before, const char *after) {
    for (int64_t base = 0; base <= LAST_BASE; base += SEGMENT_BATCHES) {
        char name[32], path[OL_PATH_MAX];
        size_t size = 0, after_size = 0;
        scene_name(name, base, ".log");
        if (!fixture_exists(before, name)) continue;
        fixture_join(path, before, name);
        uint8_t *bytes = fixture_read(path, &size);
        while (size > 0 && bytes[size - 1] == 0) size--;
        fixture_join(path, after, name);
        uint8_t *now = fixture_exists(after, name) ? fixture_read(path, &after_size) : NULL;
        bool is_unchanged = now != NULL && after_size >= size && memcmp(now, bytes, size) == 0;
        CHECK_IT(is_unchanged || is_kept(after, name, bytes, size));
        free(bytes);
        free(now);
    }
}

static ol_log_options accepting(const place *p) {
    ol_log_options options = p->options;
    options.clean = false;
    options.accept_loss = true;
    return options;
}

static void accept(const place *p, const harm *h, const uint8_t *whole, const char *before) {
    ol_log_options options = accepting(p);
    ol_log_recovery recovery;
    ol_log *log = fixture_open(&options, &recovery);
    CHECK_IT(!recovery.corrupt && !recovery.is_lossy && ol_log_is_writable(log));
    check_batches(h, log, whole);
    fixture_close(log);
    check_copies(before, p->path);
}

/* The log goes on, and nothing is wrong with it any more, nor with what comes after. */
static void check_goes_on(place *p, const harm *h) {
    p->options.clean = true;
    p->options.recovery_point = h->end;
    CHECK_COMPLETE(p);
    p->options.clean = false;
    p->options.recovery_point = -1;
    CHECK_COMPLETE(p);
}

OL_TEST(what_is_bad_is_taken_out_and_kept_and_the_log_goes_on) {
    for (int i = 0; i < 2 * HARMS; i++) {
        const harm *h = &harms[i / 2];
        place p;
        char before[OL_PATH_MAX];
        current = h->name;
        scene_make(&p, BATCHES, i & 1);
        uint8_t *whole = read_whole(&p);
        fixture_join(before, p.root, "before");
        h->act(&p);
        fixture_copy_directory(p.path, before);
        accept(&p, h, whole, before);
        check_goes_on(&p, h);
        free(whole);
        fixture_remove(p.root);
    }
}

OL_TEST(nothing_is_copied_where_nothing_is_bad) {
    for (int clean = 0; clean < 2; clean++) {
        place p;
        static const harm none = {"nothing", NULL, {{0, 0}}, false, BATCHES};
        current = none.name;
        scene_make(&p, BATCHES, clean);
        uint8_t *whole = read_whole(&p);
        accept(&p, &none, whole, p.path);
        OL_CHECK_INT(fixture_count(p.path, "broken-"), 0);
        check_goes_on(&p, &none);
        free(whole);
        fixture_remove(p.root);
    }
}

/* Twice the same: a copy of the first time is not overwritten. */
OL_TEST(copies_of_two_times_are_both_kept) {
    place p;
    scene_make(&p, BATCHES, true);
    for (int64_t i = 0; i < 3; i++) {
        flip(&p, 16, i == 0 ? 100 : 50 + i);
        ol_log_options options = accepting(&p);
        fixture_close(fixture_open(&options, NULL));
        OL_CHECK_INT(fixture_count(p.path, "broken-00000000000000000016.log.0"), i + 1);
    }
    fixture_remove(p.root);
}

/* Bytes that the disk cannot read are not taken for bad: somebody may read them yet. */
OL_TEST(a_bad_sector_is_not_accepted) {
    for (int64_t base = 0; base <= LAST_BASE; base += SEGMENT_BATCHES) {
        place p;
        ol_error error;
        ol_fs *fs;
        ol_log *log = NULL;
        ol_log_recovery recovery;
        char name[32], path[OL_PATH_MAX];
        scene_make(&p, BATCHES, true);
        flip(&p, 25, 100);
        OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
        ol_log_options options = accepting(&p);
        options.fs = fs;
        scene_name(name, base, ".log");
        scene_path(&p, name, path);
        OL_CHECK_OK(ol_fault_fs_spoil(fs, path, 512, 1024, &error), &error);
        OL_CHECK_INT(ol_log_open(&options, &log, &recovery, &error), OL_IO);
        OL_CHECK(strcmp(error.path, path) == 0);
        OL_CHECK_OK(ol_fault_fs_spoil(fs, path, 0, 0, &error), &error);
        fixture_close(fixture_open(&options, &recovery));
        ol_fault_fs_free(fs);
        check_goes_on(&p, &harms[2]);
        fixture_remove(p.root);
    }
}

/* -------------------------------------------------------------------------------- stopped */

/* An open that is not asked to accept anything, after one that was stopped: what was not finished is still reported. */
static void check_still_reported(const place *p, const harm *h, const uint8_t *whole) {
    ol_log_options options = p->options;
    ol_log_recovery recovery;
    options.clean = options.writable = options.create = false;
    options.recovery_point = -1;
    ol_log *log = fixture_open(&options, &recovery);
    if (accusation(&recovery) == NULL) check_batches(h, log, whole);
    ol_log_abandon(log);
}

/* Opens p, accepting, on a machine that stops at `stop_at`, and opens what is left again.  Whether it stopped. */
static bool stop_accepting(const place *p, const harm *h, const uint8_t *whole, int64_t stop_at, uint64_t disks) {
    ol_error error;
    ol_fs *fs;
    ol_log *log = NULL;
    ol_log_recovery recovery;
    place target = *p;
    fixture_directory(target.root);
    fixture_join(target.path, target.root, "__consumer_offsets-0");
    fixture_copy_directory(p->path, target.path);
    target.options.directory = target.path;
    OL_CHECK_OK(ol_fault_fs_create(target.root, &fs, &error), &error);
    ol_fault_fs_stop_at(fs, stop_at);
    ol_log_options options = accepting(&target);
    options.fs = fs;
    int status = ol_log_open(&options, &log, &recovery, &error);
    bool is_stopped = ol_fault_fs_stopped(fs);
    CHECK_IT(is_stopped || status == OL_OK);
    if (status == OL_OK) ol_log_abandon(log);
    for (uint64_t i = 0; i <= disks; i++) {
        place left = target;
        fixture_directory(left.root);
        fixture_join(left.path, left.root, "__consumer_offsets-0");
        left.options.directory = left.path;
        if (i == disks) OL_CHECK_OK(ol_fault_fs_materialize_all(fs, left.root, &error), &error);
        else OL_CHECK_OK(ol_fault_fs_materialize(fs, left.root, (uint64_t)stop_at * 64 + i, &error), &error);
        check_still_reported(&left, h, whole);
        accept(&left, h, whole, p->path);
        if (i == disks) check_goes_on(&left, h);
        fixture_remove(left.root);
    }
    ol_fault_fs_free(fs);
    fixture_remove(target.root);
    return is_stopped;
}

OL_TEST(an_accepting_open_that_is_stopped_anywhere_is_finished_by_another) {
    uint64_t disks = (uint64_t)ol_test_depth(2, 12);
    int64_t stops = 0;
    for (size_t i = 0; i < HARMS; i++) {
        place p;
        current = harms[i].name;
        scene_make(&p, BATCHES, i & 1);
        uint8_t *whole = read_whole(&p);
        harms[i].act(&p);
        int64_t stop_at = 1;
        while (stop_accepting(&p, &harms[i], whole, stop_at, disks)) stop_at++;
        stops += stop_at - 1;
        free(whole);
        fixture_remove(p.root);
    }
    printf("  %" PRId64 " stops, each with %" PRIu64 " states of the disk\n", stops, disks + 1);
}

/* And operations that fail: nothing is accepted half, and the next call finishes it. */
OL_TEST(an_accepting_open_in_which_an_operation_fails_is_finished_by_another) {
    int64_t failures = 0;
    for (size_t i = 0; i < HARMS; i++) {
        bool is_met = true;
        for (int64_t operation = 1; is_met; operation++) {
            place p;
            ol_error error;
            ol_fs *fs;
            ol_log *log = NULL;
            ol_log_recovery recovery;
            char before[OL_PATH_MAX];
            current = harms[i].name;
            scene_make(&p, BATCHES, i & 1);
            uint8_t *whole = read_whole(&p);
            harms[i].act(&p);
            fixture_join(before, p.root, "before");
            fixture_copy_directory(p.path, before);
            OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
            ol_log_options options = accepting(&p);
            options.fs = fs;
            ol_fault_fs_fail_at(fs, operation, operation % 2 ? EIO : ENOSPC);
            int status = ol_log_open(&options, &log, &recovery, &error);
            is_met = ol_fault_fs_operations(fs) >= operation;
            CHECK_IT(status == OL_OK || status == OL_IO || status == OL_DISK_FULL);
            CHECK_IT(status == OL_OK || error.reason[0] != '\0');
            if (status == OL_OK) ol_log_abandon(log);
            failures += status != OL_OK;
            ol_fault_fs_free(fs);
            accept(&p, &harms[i], whole, before);
            free(whole);
            fixture_remove(p.root);
        }
    }
    printf("  %" PRId64 " failures\n", failures);
    OL_CHECK(failures > 200);
}

OL_TEST_MAIN()
