/* Changes that another program may have made to a log, and those that it cannot have made (log/completeness):
 * checkpoints and epochs, gaps, log starts, followers. */
#include <errno.h>

#include "completeness_fixture.h"
#include "testing/fault_fs.h"

/* Closed segments at 0, 16 and 32, the active one at 48 with ten batches. */
enum { BATCHES = 58, LAST_BASE = 48, BROKER_EPOCH = 7 };

/* -------------------------------------------------------------------------------- a broker, by hand */

static void write_batches(const place *p, int64_t segment_base, int64_t position, const int64_t *bases, size_t count,
                          int32_t epoch) {
    char name[32], path[OL_PATH_MAX];
    scene_name(name, segment_base, ".log");
    scene_path(p, name, path);
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    OL_CHECK(fd >= 0);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[BATCH_SIZE];
        fixture_batch batch = scene_batch(5);
        batch.base_offset = bases[i];
        batch.leader_epoch = epoch;
        fixture_encode(&batch, bytes);
        OL_CHECK(pwrite(fd, bytes, sizeof bytes, position + (int64_t)i * BATCH_SIZE) == BATCH_SIZE);
    }
    OL_CHECK(ftruncate(fd, position + (int64_t)count * BATCH_SIZE) == 0);
    close(fd);
}

/* Batches of the broker after ours. */
static void append_as_broker(const place *p, const int64_t *bases, size_t count, int32_t epoch) {
    write_batches(p, LAST_BASE, (BATCHES - LAST_BASE) * BATCH_SIZE, bases, count, epoch);
}

static void assign_as_broker(const place *p, int32_t epoch, int64_t offset) {
    char path[OL_PATH_MAX];
    ol_error error;
    ol_leader_epochs epochs = {0};
    scene_path(p, "leader-epoch-checkpoint", path);
    int status = ol_leader_epochs_load(&epochs, ol_fs_posix(), path, &error);
    OL_CHECK(status == OL_OK || status == OL_NO_SUCH_FILE);
    OL_CHECK_OK(ol_leader_epochs_assign(&epochs, epoch, offset, NULL, &error), &error);
    OL_CHECK_OK(ol_leader_epochs_store(&epochs, ol_fs_posix(), path, &error), &error);
    ol_leader_epochs_free(&epochs);
}

static bool have_others_worked(const place *p) {
    ol_log_recovery recovery;
    ol_log_options options = p->options;
    options.writable = options.create = false;
    fixture_close(fixture_open(&options, &recovery));
    return recovery.others_worked;
}

/* -------------------------------------------------------------------------------- who worked here */

OL_TEST(one_file_that_changed_alone_shows_nobody) {
    static const int64_t next[] = {BATCHES};
    for (int mode = 0; mode < 8; mode++) {
        bool checkpoint = mode & 1, epoch = mode & 2, batch = mode & 4;
        place p;
        scene_make(&p, BATCHES, true);
        if (batch) append_as_broker(&p, next, 1, BROKER_EPOCH);
        if (epoch) assign_as_broker(&p, BROKER_EPOCH, BATCHES);
        p.options.changed_checkpoints = checkpoint;
        OL_CHECK_INT(have_others_worked(&p), epoch && (batch || checkpoint));
        p.options.changed_checkpoints = 2;
        OL_CHECK(have_others_worked(&p));
        fixture_remove(p.root);
    }
}

/* A broker that was killed before its first checkpoint, and followed a log that had been cleaned. */
OL_TEST(a_gap_does_not_hide_who_appended) {
    static const int64_t after_gap[] = {BATCHES + 3, BATCHES + 4};
    place p;
    scene_make(&p, BATCHES, false);
    append_as_broker(&p, after_gap, 2, BROKER_EPOCH);
    assign_as_broker(&p, BROKER_EPOCH, BATCHES + 3);
    OL_CHECK(have_others_worked(&p));
    ol_log *log = fixture_open(&p.options, NULL);
    OL_CHECK_INT(ol_log_end(log), BATCHES + 5);
    fixture_close(log);
    fixture_remove(p.root);
}

/* Ours ended between the manifest and the checkpoint of the epochs, which follows it. */
OL_TEST(an_epoch_that_only_the_manifest_knows_shows_nobody) {
    place p;
    ol_error error;
    ol_manifest manifest = {0};
    scene_place(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    OL_CHECK_OK(ol_log_assign_epoch(log, 4, &error), &error);
    for (int i = 0; i < BATCHES; i++) {
        fixture_batch batch = scene_batch(1);
        batch.leader_epoch = 4;
        fixture_append(log, batch);
    }
    flush(log);
    ol_log_abandon(log);
    p.options.witnessed = true;
    OL_CHECK(!have_others_worked(&p));
    scene_load_manifest(&p, &manifest);
    OL_CHECK_INT(manifest.epoch, 4);
    manifest.epoch = 5;
    scene_store_manifest(&p, &manifest);
    OL_CHECK(!have_others_worked(&p));
    scene_cut_segment(&p, LAST_BASE, BATCH_SIZE);
    CHECK_FINDINGS(&p, {true, LAST_BASE + 1, BATCHES});
    fixture_remove(p.root);
}

/* A batch of a newer epoch, appended by the writer while a flush stores the manifest. */
static ol_log *epoch_writer;

static int rename_beside_writer(ol_fs *fs, const char *source, const char *target, ol_error *error) {
    ol_log *log = epoch_writer;
    int status = ol_fs_posix()->rename(fs, source, target, error);
    if (log == NULL || strstr(target, OL_MANIFEST_FILE) == NULL) return status;
    epoch_writer = NULL;
    fixture_batch batch = scene_batch(1);
    batch.leader_epoch = 6;
    fixture_append(log, batch);
    return status;
}

OL_TEST(an_epoch_that_comes_while_the_manifest_is_stored_is_named_there) {
    place p;
    ol_manifest manifest = {0};
    ol_fs fs = *ol_fs_posix();
    fs.rename = rename_beside_writer;
    scene_place(&p);
    p.options.fs = &fs;
    ol_log *log = fixture_open(&p.options, NULL);
    fixture_batch batch = scene_batch(1);
    batch.leader_epoch = 5;
    fixture_append(log, batch);
    epoch_writer = log;
    flush(log);
    OL_CHECK(epoch_writer == NULL);
    flush(log);
    ol_log_abandon(log);
    scene_load_manifest(&p, &manifest);
    OL_CHECK_INT(manifest.epoch, 6);
    ol_manifest_free(&manifest);
    OL_CHECK(!have_others_worked(&p));
    fixture_remove(p.root);
}

/* The epochs and the manifest are stored in an order that leaves no trace of anybody else, wherever the machine
 * stops. */
OL_TEST(epochs_stored_by_us_show_nobody_wherever_the_machine_stops) {
    int64_t states = 0;
    bool is_stopped = true;
    for (int64_t stop_at = 1; is_stopped; stop_at++) {
        place p;
        ol_error error;
        ol_fs *fs;
        ol_log *log = NULL;
        ol_log_recovery recovery;
        char target[OL_PATH_MAX];
        scene_make(&p, BATCHES, true);
        /* An unclean stop: the batches know an epoch that the checkpoint does not. */
        static const int64_t next[] = {BATCHES};
        append_as_broker(&p, next, 1, 3);
        p.options.clean = false;
        OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
        ol_fault_fs_stop_at(fs, stop_at);
        p.options.fs = fs;
        int status = ol_log_open(&p.options, &log, &recovery, &error);
        if (status == OL_OK) status = ol_log_assign_epoch(log, 4, &error);
        if (status == OL_OK) status = ol_log_truncate(log, BATCHES, &error);
        if (status == OL_OK) status = ol_log_truncate(log, BATCHES - 3, &error);
        is_stopped = ol_fault_fs_stopped(fs);
        OL_CHECK(is_stopped || status == OL_OK);
        if (log != NULL) ol_log_abandon(log);
        fixture_join(target, p.root, "");
        for (uint64_t seed = 0; seed < 4; seed++) {
            place left = p;
            fixture_directory(left.root);
            OL_CHECK_OK(ol_fault_fs_materialize(fs, left.root, seed, &error), &error);
            fixture_join(left.path, left.root, "__consumer_offsets-0");
            left.options.directory = left.path;
            left.options.fs = ol_fs_posix();
            left.options.recovery_point = -1;
            for (int writable = 0; writable < 2; writable++) {
                left.options.writable = left.options.create = writable;
                fixture_close(fixture_open(&left.options, &recovery));
                if (accusation(&recovery) != NULL) {
                    fprintf(stderr, "stopped at %" PRId64 ", disk %" PRIu64 ": %s\n", stop_at, seed,
                            accusation(&recovery));
                    exit(1);
                }
            }
            fixture_remove(left.root);
            states++;
        }
        ol_fault_fs_free(fs);
        fixture_remove(p.root);
    }
    printf("  %" PRId64 " states of the disk\n", states);
    OL_CHECK(states > 100);
}

/* -------------------------------------------------------------------------------- what it binds then */

OL_TEST(a_broker_that_appended_is_no_loss) {
    static const int64_t next[] = {BATCHES, BATCHES + 1, BATCHES + 2};
    for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
        place p;
        scene_make(&p, BATCHES, true);
        append_as_broker(&p, next, 3, BROKER_EPOCH);
        assign_as_broker(&p, BROKER_EPOCH, BATCHES);
        p.options.clean = false;
        if (checkpoints) checkpoint_as_broker(&p, BATCHES + 3, -1);
        OL_CHECK(have_others_worked(&p));
        CHECK_COMPLETE(&p);
        fixture_remove(p.root);
    }
}

static int rename_without_space(ol_fs *fs, const char *source, const char *target, ol_error *error) {
    if (strstr(target, OL_MANIFEST_FILE) == NULL) return ol_fs_posix()->rename(fs, source, target, error);
    return ol_fail_errno(error, ENOSPC, "rename", target);
}

/* The manifest of before would be held against the broker once the log dir has adopted its checkpoints. */
OL_TEST(an_open_after_a_broker_fails_where_its_manifest_cannot_be_stored) {
    for (int others = 0; others < 2; others++) {
        place p;
        ol_error error;
        ol_log *log = NULL;
        ol_log_recovery recovery;
        ol_fs fs = *ol_fs_posix();
        fs.rename = rename_without_space;
        scene_make(&p, BATCHES, true);
        scene_remove_segment(&p, 16);
        if (others) checkpoint_as_broker(&p, BATCHES, LAST_BASE);
        else p.options.accept_loss = true, p.options.clean = false;
        place full = p;
        full.options.fs = &fs;
        OL_CHECK_INT(ol_log_open(&full.options, &log, &recovery, &error), OL_DISK_FULL);
        OL_CHECK(log == NULL);
        fixture_close(fixture_open(&p.options, &recovery));
        OL_CHECK(!recovery.is_lossy);
        p.options.accept_loss = false;
        p.options.changed_checkpoints = 0;
        p.options.recovery_point_changed = false;
        p.options.cleaned_by_others = -1;
        CHECK_COMPLETE(&p);
        fixture_remove(p.root);
    }
}

/* It binds at and above the broker's cleaner checkpoint; what lies below nobody can decide. */
OL_TEST(closed_segments_are_bound_from_the_cleaner_checkpoint_on) {
    static const int64_t cleaned[] = {-1, 0, 16, 32, 48};
    for (size_t i = 0; i < sizeof cleaned / sizeof cleaned[0]; i++) {
        for (int64_t base = 0; base < LAST_BASE; base += SEGMENT_BATCHES) {
            place p;
            scene_make(&p, BATCHES, true);
            checkpoint_as_broker(&p, BATCHES, cleaned[i]);
            scene_remove_segment(&p, base);
            if (base < cleaned[i]) CHECK_COMPLETE(&p);
            else CHECK_FINDINGS(&p, {true, base, base + SEGMENT_BATCHES});
            fixture_remove(p.root);
        }
    }
}

/* A checkpoint that is damaged, or in which a digit changed, proves no loss. */
OL_TEST(a_cleaner_checkpoint_that_cannot_be_right_leaves_a_doubt) {
    static const int64_t cleaned[] = {OL_CLEANED_UNKNOWN, BATCHES, 15, 17};
    static const int64_t from[] = {0, 0, 15, 17};
    for (size_t i = 0; i < sizeof cleaned / sizeof cleaned[0]; i++) {
        place p;
        scene_make(&p, BATCHES, true);
        checkpoint_as_broker(&p, BATCHES, cleaned[i]);
        CHECK_COMPLETE(&p);
        fixture_remove(p.root);
        scene_make(&p, BATCHES, true);
        checkpoint_as_broker(&p, BATCHES, cleaned[i]);
        scene_remove_segment(&p, 32);
        CHECK_FINDINGS(&p, {false, from[i], BATCHES});
        fixture_remove(p.root);
    }
}

/* The cleaner's checkpoint alone is not believed either. */
OL_TEST(a_cleaner_checkpoint_that_changed_alone_frees_nothing) {
    place p;
    scene_make(&p, BATCHES, true);
    p.options.changed_checkpoints = 1;
    p.options.cleaned_by_others = BATCHES;
    scene_remove_segment(&p, 16);
    CHECK_FINDINGS(&p, {true, 16, 32});
    fixture_remove(p.root);
}

/* Our end is no proof by itself once somebody else may have cut the log.  His recovery point leaves a doubt, and
 * together with a sidecar whose epoch he did not touch it is proof. */
OL_TEST(the_end_that_another_program_left) {
    for (int mode = 0; mode < 3; mode++) {
        place p;
        scene_make(&p, BATCHES, true);
        scene_cut_segment(&p, LAST_BASE, BATCH_SIZE);
        checkpoint_as_broker(&p, mode == 0 ? LAST_BASE + 1 : BATCHES, -1);
        if (mode == 1) assign_as_broker(&p, BROKER_EPOCH, LAST_BASE + 1);
        if (mode == 0) CHECK_COMPLETE(&p);
        if (mode == 1) CHECK_FINDINGS(&p, {false, LAST_BASE + 1, BATCHES});
        if (mode == 2) CHECK_FINDINGS(&p, {true, LAST_BASE + 1, BATCHES});
        fixture_remove(p.root);
    }
}

/* Segments that its cleaner replaced before it was killed, with no checkpoint of it. */
OL_TEST(a_cleaner_that_was_stopped_before_its_checkpoint_leaves_a_doubt) {
    static const int64_t some[] = {17, 20, 21};
    static const int64_t joined[] = {3, 17, 20, 21};
    place p;
    /* Cleaned by itself. */
    scene_make(&p, BATCHES, true);
    checkpoint_as_broker(&p, BATCHES, -1);
    write_batches(&p, 16, 0, some, 3, -1);
    CHECK_FINDINGS(&p, {false, 16, 32});
    fixture_remove(p.root);
    /* Joined to the one before. */
    scene_make(&p, BATCHES, true);
    checkpoint_as_broker(&p, BATCHES, -1);
    write_batches(&p, 0, 0, joined, 4, -1);
    scene_remove_segment(&p, 16);
    CHECK_FINDINGS(&p, {false, 0, 16}, {false, 16, 32});
    fixture_remove(p.root);
    /* Missing beside one that is as it was. */
    scene_make(&p, BATCHES, true);
    checkpoint_as_broker(&p, BATCHES, -1);
    write_batches(&p, 0, 0, joined, 1, -1);
    scene_remove_segment(&p, 32);
    CHECK_FINDINGS(&p, {false, 0, 16}, {true, 32, 48});
    fixture_remove(p.root);
}

OL_TEST(a_gap_in_what_another_program_appended_is_a_doubt_that_stays) {
    static const int64_t gapped[] = {BATCHES, BATCHES + 4};
    place p;
    scene_make(&p, BATCHES, true);
    append_as_broker(&p, gapped, 2, BROKER_EPOCH);
    assign_as_broker(&p, BROKER_EPOCH, BATCHES);
    checkpoint_as_broker(&p, BATCHES + 5, -1);
    CHECK_FINDINGS(&p, {false, BATCHES + 1, BATCHES + 4});
    const finding doubt = {false, BATCHES + 1, BATCHES + 4};
    p.options.changed_checkpoints = 0;
    p.options.recovery_point_changed = false;
    for (int i = 0; i < 3; i++) {
        ol_log_recovery recovery;
        p.options.recovery_point = -1;
        ol_log *log = fixture_open(&p.options, &recovery);
        OL_CHECK(has_findings(&recovery, &doubt, 1));
        OL_CHECK(!recovery.others_worked);
        scene_append(log, SEGMENT_BATCHES);
        ol_log_abandon(log);
    }
    fixture_remove(p.root);
}

/* Nor is a hole between what it found here and what it wrote legal by itself: it begins at or after our end. */
OL_TEST(a_gap_in_what_was_ours_is_damage_whoever_worked_here) {
    static const int64_t ours[] = {48, 49, 52, 53, 54, 55, 56, 57, 58};
    for (int mode = 0; mode < 3; mode++) {
        place p;
        scene_make(&p, BATCHES, true);
        write_batches(&p, LAST_BASE, 0, ours, 9, -1);
        if (mode == 1) checkpoint_as_broker(&p, BATCHES + 1, -1);
        if (mode == 2) checkpoint_as_broker(&p, BATCHES + 1, 52);
        /* No cleaner comes into the active segment. */
        if (mode == 2) CHECK_FINDINGS(&p, {false, 0, BATCHES});
        else CHECK_CORRUPT(&p);
        fixture_remove(p.root);
    }
}

/* -------------------------------------------------------------------------------- ranges */

/* Batches 51 and 52 are missing, in the active segment, which every open reads. */
OL_TEST(a_gap_is_damage_where_an_offset_of_ours_is_in_it) {
    static const int64_t left[] = {48, 49, 50, 53, 54, 55, 56, 57};
    static const struct {
        const char *ranges;     /* pairs of an offset and its kind */
        int64_t cleaned;
        bool is_legal;
    } cases[] = {
        {"0o", 0, false},           {"0x", 0, true},            {"0o 51x", 0, true},        {"0o 52x", 0, false},
        {"0x 53o", 0, true},        {"0x 52o", 0, false},       {"0x 51o", 0, false},       {"0o 51x 52o", 0, false},
        {"0o 51x 53o", 0, true},    {"0x 51o 52x", 0, false},   {"0o", 52, false},          {"0o", 53, true},
        {"0o 52x", 52, true},       {"0o 51x 52o", 53, true},   {"0x 300o", 0, true},       {"0o 50x 60o", 0, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        place p;
        ol_error error;
        ol_manifest manifest = {0};
        scene_make(&p, BATCHES, true);
        write_batches(&p, LAST_BASE, 0, left, 8, -1);
        scene_load_manifest(&p, &manifest);
        manifest.cleaned = cases[i].cleaned;
        const char *at = cases[i].ranges;
        for (char *end; *at != '\0'; at = end[1] == ' ' ? end + 2 : end + 1) {
            int64_t offset = strtoll(at, &end, 10);
            OL_CHECK_OK(ol_manifest_add_range(&manifest, offset, *end == 'o', &error), &error);
        }
        scene_store_manifest(&p, &manifest);
        if (cases[i].is_legal) CHECK_COMPLETE(&p);
        else CHECK_CORRUPT(&p);
        fixture_remove(p.root);
    }
}

/* Batches as a follower copies them, each with its own base. */
static int append_copied(ol_log *log, int64_t base_offset, ol_error *error) {
    uint8_t bytes[BATCH_SIZE];
    fixture_batch batch = scene_batch(3);
    batch.base_offset = base_offset;
    fixture_encode(&batch, bytes);
    return ol_log_append(log, bytes, sizeof bytes, error);
}

/* With gaps wherever the leader's log was cleaned: in what is appended, after our own batches, between segments. */
OL_TEST(what_a_follower_copies_may_have_gaps) {
    for (int replicated = 0; replicated < 2; replicated++) {
        for (int clean = 0; clean < 2; clean++) {
            place p;
            ol_error error;
            scene_make(&p, BATCHES, true);
            p.options.replicated = replicated;
            ol_log *log = fixture_open(&p.options, NULL);
            for (int64_t base = BATCHES + 3; base < BATCHES + 150; base += 1 + base % 7) {
                OL_CHECK_OK(append_copied(log, base, &error), &error);
            }
            flush(log);
            p.options.recovery_point = clean ? ol_log_end(log) : -1;
            p.options.clean = clean;
            if (clean) fixture_close(log); else ol_log_abandon(log);
            CHECK_COMPLETE(&p);
            fixture_remove(p.root);
        }
    }
}

/* The end of the log is "ours" on disk for as long as the manifest could not be stored. */
OL_TEST(a_copy_is_refused_until_the_manifest_allows_its_gaps) {
    for (int failures = 1; failures < 4; failures++) {
        place p;
        ol_error error;
        ol_fs *fs;
        scene_make(&p, BATCHES, true);
        OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
        p.options.fs = fs;
        ol_log *log = fixture_open(&p.options, NULL);
        for (int i = 0; i < failures; i++) {
            /* The extension comes first. */
            int64_t before = ol_fault_fs_operations(fs);
            ol_fault_fs_fill(fs, before + 1);
            OL_CHECK_INT(append_copied(log, BATCHES + 9, &error), OL_DISK_FULL);
            ol_fault_fs_fill(fs, 0);
            for (int64_t step = 1; step < 4; step++) {
                ol_fault_fs_fail_at(fs, ol_fault_fs_operations(fs) + step, EIO);
                int status = append_copied(log, BATCHES + 9, &error);
                ol_fault_fs_fail_at(fs, 0, 0);
                OL_CHECK(status == OL_IO || ol_log_end(log) > BATCHES);
                OL_CHECK_OK(ol_log_truncate(log, BATCHES, &error), &error);
            }
        }
        OL_CHECK_OK(append_copied(log, BATCHES + 9, &error), &error);
        flush(log);
        ol_log_abandon(log);
        ol_fault_fs_free(fs);
        p.options.fs = ol_fs_posix();
        p.options.clean = false;
        p.options.recovery_point = -1;
        CHECK_COMPLETE(&p);
        fixture_remove(p.root);
    }
}

/* Power was lost after the manifest had allowed gaps from an offset on, and before what lies below it was on disk: the
 * log ends below, and a follower goes on there. */
OL_TEST(ranges_above_the_end_of_the_log_do_not_stay) {
    for (int replicated = 0; replicated < 2; replicated++) {
        place p;
        ol_error error;
        ol_manifest manifest = {0};
        scene_make(&p, BATCHES, true);
        scene_load_manifest(&p, &manifest);
        OL_CHECK_OK(ol_manifest_add_range(&manifest, BATCHES + 20, false, &error), &error);
        scene_store_manifest(&p, &manifest);
        p.options.replicated = replicated;
        ol_log *log = fixture_open(&p.options, NULL);
        OL_CHECK_OK(append_copied(log, BATCHES + 5, &error), &error);
        OL_CHECK_OK(append_copied(log, BATCHES + 25, &error), &error);
        flush(log);
        ol_log_abandon(log);
        p.options.clean = false;
        p.options.recovery_point = -1;
        CHECK_COMPLETE(&p);
        fixture_remove(p.root);
    }
}

/* A hostile manifest names a range that begins above everything. */
OL_TEST(a_first_range_above_the_end_ends_nothing) {
    place p;
    ol_error error;
    ol_manifest manifest = {0};
    scene_make(&p, BATCHES, true);
    scene_load_manifest(&p, &manifest);
    manifest.ranges[0].offset = INT64_MAX;
    scene_store_manifest(&p, &manifest);
    ol_log *log = fixture_open(&p.options, NULL);
    OL_CHECK_OK(append_copied(log, BATCHES + 5, &error), &error);
    flush(log);
    OL_CHECK_OK(ol_log_truncate(log, 3, &error), &error);
    OL_CHECK_OK(append_copied(log, 5, &error), &error);
    fixture_close(log);
    p.options.recovery_point = 6;
    CHECK_COMPLETE(&p);
    fixture_remove(p.root);
}

OL_TEST(a_truncation_takes_ranges_segments_and_the_end_back) {
    for (int64_t cut = 0; cut < BATCHES; cut += 1 + cut % 13) {
        for (int clean = 0; clean < 2; clean++) {
            place p;
            ol_error error;
            scene_make(&p, BATCHES, true);
            p.options.replicated = true;
            ol_log *log = fixture_open(&p.options, NULL);
            OL_CHECK_OK(append_copied(log, BATCHES + 5, &error), &error);
            flush(log);
            OL_CHECK_OK(ol_log_truncate(log, cut, &error), &error);
            OL_CHECK_OK(append_copied(log, cut + 2, &error), &error);
            p.options.clean = clean;
            p.options.recovery_point = clean ? cut + 3 : -1;
            if (clean) fixture_close(log); else ol_log_abandon(log);
            CHECK_COMPLETE(&p);
            fixture_remove(p.root);
        }
    }
}

/* -------------------------------------------------------------------------------- the start of the log */

OL_TEST(a_log_start_that_changed_alone_is_not_followed) {
    static const int64_t starts[] = {1, 32, BATCHES, BATCHES + 1, INT64_MAX};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        for (int clean = 0; clean < 2; clean++) {
            place p;
            ol_log_recovery recovery;
            scene_make(&p, BATCHES, clean);
            p.options.log_start_offset = starts[i];
            p.options.log_start_changed = true;
            p.options.changed_checkpoints = 1;
            ol_log *log = fixture_open(&p.options, &recovery);
            OL_CHECK(recovery.log_start_refused);
            OL_CHECK_INT(ol_log_start(log), 0);
            ol_log_abandon(log);
            CHECK_FINDINGS(&p, {false, 0, 0});
            fixture_remove(p.root);
        }
    }
}

/* It is the owner's, or a broker's that worked here. */
OL_TEST(what_lies_below_the_log_start_may_be_missing) {
    for (int mode = 0; mode < 4; mode++) {
        place p;
        ol_log_recovery recovery;
        scene_make(&p, BATCHES, true);
        p.options.log_start_offset = 35;
        if (mode & 1) {
            checkpoint_as_broker(&p, BATCHES, -1);
            p.options.log_start_changed = true;
        }
        scene_remove_segment(&p, 0);
        scene_remove_segment(&p, 16);
        if (mode & 2) {
            scene_remove_segment(&p, 32);
            CHECK_FINDINGS(&p, {true, 32, 48});
        } else {
            ol_log *log = fixture_open(&p.options, &recovery);
            OL_CHECK_INT(ol_log_start(log), 35);
            ol_log_abandon(log);
            CHECK_COMPLETE(&p);
        }
        fixture_remove(p.root);
    }
}

OL_TEST(a_log_start_above_the_end_needs_a_recovery_point_that_is_there_too) {
    for (int follows = 0; follows < 2; follows++) {
        place p;
        ol_log_recovery recovery;
        scene_make(&p, BATCHES, true);
        checkpoint_as_broker(&p, follows ? 1000 : 999, -1);
        p.options.log_start_offset = 1000;
        p.options.log_start_changed = true;
        ol_log *log = fixture_open(&p.options, &recovery);
        OL_CHECK_INT(recovery.log_start_refused, !follows);
        OL_CHECK_INT(ol_log_end(log), follows ? 1000 : BATCHES);
        /* The log ends below its recovery point, too. */
        OL_CHECK_INT(recovery.loss_count, follows ? 1 : 2);
        OL_CHECK(!recovery.is_lossy);
        /* Nothing is unlinked on the word of checkpoints. */
        OL_CHECK_INT(fixture_count(p.path, "broken-"), follows ? 4 : 0);
        ol_log_abandon(log);
        fixture_remove(p.root);
    }
}

/* All segments are copied aside, one by one, and the machine stops between. */
OL_TEST(a_log_that_begins_again_does_so_wherever_the_machine_stops) {
    bool is_stopped = true;
    int64_t states = 0;
    for (int64_t stop_at = 1; is_stopped; stop_at++) {
        place p;
        ol_error error;
        ol_fs *fs;
        ol_log *log = NULL;
        ol_log_recovery recovery;
        scene_make(&p, BATCHES, true);
        checkpoint_as_broker(&p, 1000, -1);
        p.options.log_start_offset = 1000;
        OL_CHECK_OK(ol_fault_fs_create(p.root, &fs, &error), &error);
        ol_fault_fs_stop_at(fs, stop_at);
        p.options.fs = fs;
        if (ol_log_open(&p.options, &log, &recovery, &error) == OL_OK) ol_log_abandon(log);
        is_stopped = ol_fault_fs_stopped(fs);
        for (uint64_t seed = 0; seed < 3; seed++) {
            place left = p;
            fixture_directory(left.root);
            OL_CHECK_OK(ol_fault_fs_materialize(fs, left.root, seed, &error), &error);
            fixture_join(left.path, left.root, "__consumer_offsets-0");
            left.options.directory = left.path;
            left.options.fs = ol_fs_posix();
            for (int again = 0; again < 2; again++) {
                log = fixture_open(&left.options, &recovery);
                OL_CHECK_INT(ol_log_end(log), 1000);
                /* The end below the recovery point is in doubt, and nothing else. */
                bool right = !recovery.is_lossy && !recovery.corrupt && recovery.loss_count <= 2;
                for (size_t i = 0; i < recovery.loss_count; i++) right = right && recovery.losses[i].below == 1000;
                if (!right) print_findings(__FILE__, __LINE__, "the open", &recovery);
                OL_CHECK(right);
                fixture_close(log);
            }
            fixture_remove(left.root);
            states++;
        }
        ol_fault_fs_free(fs);
        fixture_remove(p.root);
    }
    printf("  %" PRId64 " states of the disk\n", states);
}

OL_TEST_MAIN()
