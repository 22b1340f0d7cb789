/* What an open need not read again (log/settled): below a state of the caller and the flushed bound.  A batch that was
 * damaged there shows whether it was read. */
#include "accusation.h"
#include "derived.h"
#include "log/files/flush_sidecar.h"
#include "recovery_fixture.h"

enum { BATCHES = 200, EARLY = 5, VALUE_SIZE = 100 };

#define FIRST_INDEX "00000000000000000000.index"
#define FIRST_TIMES "00000000000000000000.timeindex"
#define FIRST_ABORTED "00000000000000000000.txnindex"

static int64_t position_of(int batch) {
    fixture_batch plain = fixture_plain(VALUE_SIZE, 0);
    return batch * (int64_t)fixture_batch_size(&plain);
}

static void append_timed(ol_log *log, int count) {
    for (int i = 0; i < count; i++) {
        fixture_batch batch = fixture_plain(VALUE_SIZE, (uint64_t)i);
        batch.timestamp += ol_log_end(log);
        fixture_append(log, batch);
    }
}

static void prepare(place *p) {
    place_make(p);
    p->options.config.index_interval_bytes = 1024;
    p->options.config.settled_bytes_min = 1024;
}

/* `flushed` of the batches are on disk; the process was killed, or closed the log. */
static void leave(place *p, int flushed, bool clean) {
    prepare(p);
    ol_log *log = fixture_open(&p->options, NULL);
    append_timed(log, flushed);
    flush(log);
    append_timed(log, BATCHES - flushed);
    if (clean) {
        fixture_close(log);
    } else {
        ol_log_abandon(log);
    }
    p->options.clean = clean;
    p->options.witnessed = true;
    if (clean) p->options.recovery_point = BATCHES;
}

static void damage(place *p, int batch) { flip_byte(p->path, FIRST_LOG, position_of(batch) + 80); }

/* Whether the next open, with a state of what lies below `state`, meets the damage. */
static bool meets(place *p, int64_t state, ol_log_recovery *recovery) {
    p->options.state_offset = state;
    ol_log *log = fixture_open(&p->options, recovery);
    bool met = recovery->corrupt || recovery->torn_bytes > 0;
    if (!met) {
        OL_CHECK_INT(ol_log_end(log), BATCHES);
        OL_CHECK(ol_log_is_writable(log));
        derived_true(log);
    }
    ol_log_abandon(log);
    return met;
}

OL_TEST(an_open_with_a_state_reads_only_what_lies_above_it) {
    ol_log_recovery recovery;
    for (int clean = 0; clean < 2; clean++) {
        place p;
        leave(&p, BATCHES, clean);
        damage(&p, EARLY);
        OL_CHECK(!meets(&p, BATCHES, &recovery));
        OL_CHECK(accusation(&recovery) == NULL);
        fixture_remove(p.root);
    }
}

OL_TEST(an_open_without_a_state_reads_all) {
    ol_log_recovery recovery;
    for (int clean = 0; clean < 2; clean++) {
        place p;
        leave(&p, BATCHES, clean);
        damage(&p, EARLY);
        OL_CHECK(meets(&p, -1, &recovery));
        OL_CHECK(recovery.corrupt);
        fixture_remove(p.root);
    }
}

OL_TEST(damage_above_the_state_is_found_though_it_was_flushed) {
    ol_log_recovery recovery;
    for (int clean = 0; clean < 2; clean++) {
        place p;
        leave(&p, BATCHES, clean);
        damage(&p, BATCHES / 2 + 1);
        OL_CHECK(meets(&p, BATCHES / 2, &recovery));
        OL_CHECK(recovery.corrupt);
        OL_CHECK_INT(recovery.corruption.position, position_of(BATCHES / 2 + 1));
        fixture_remove(p.root);
    }
}

OL_TEST(damage_above_the_flushed_bound_is_torn_whatever_the_state_says) {
    place p;
    ol_log_recovery recovery;
    leave(&p, BATCHES / 2, false);
    damage(&p, BATCHES / 2 + 1);
    OL_CHECK(meets(&p, INT64_MAX, &recovery));
    OL_CHECK(!recovery.corrupt);
    OL_CHECK_INT(recovery.torn_position, position_of(BATCHES / 2 + 1));
    fixture_remove(p.root);
}

/* ------------------------------------------------------------------------------------------------ doubts */

static void take_away(place *p, const char *name) {
    char path[OL_PATH_MAX];
    fixture_join(path, p->path, name);
    OL_CHECK(unlink(path) == 0);
}

static void zero(place *p, const char *name, int64_t from, size_t size) {
    char path[OL_PATH_MAX];
    uint8_t zeros[64] = {0};
    fixture_join(path, p->path, name);
    int fd = open(path, O_WRONLY);
    OL_CHECK(fd >= 0 && pwrite(fd, zeros, size, from) == (ssize_t)size);
    close(fd);
}

static void no_index(place *p) { take_away(p, FIRST_INDEX); }
static void no_times(place *p) { take_away(p, FIRST_TIMES); }
static void no_sidecar(place *p) { take_away(p, OL_FLUSH_SIDECAR_FILE); }
static void no_manifest(place *p) { take_away(p, OL_MANIFEST_FILE); }
static void zeros_in_the_index(place *p) { zero(p, FIRST_INDEX, 16, 16); }
static void zeros_in_the_times(place *p) { zero(p, FIRST_TIMES, 24, 24); }
/* Each entry leads one byte too far. */
static void another_place(place *p) {
    for (int64_t at = 7; at < fixture_size(p->path, FIRST_INDEX); at += 8) flip_byte(p->path, FIRST_INDEX, at);
}
static void aborted_of_nothing(place *p) {
    char path[OL_PATH_MAX];
    fixture_join(path, p->path, FIRST_ABORTED);
    fixture_write(path, "none", 4);
}
static void later_epoch(place *p) {
    char path[OL_PATH_MAX];
    fixture_join(path, p->path, "leader-epoch-checkpoint");
    fixture_write(path, "0\n1\n7 0\n", 8);
}
static void of_a_replica(place *p) { p->options.replicated = true; }
static void too_little(place *p) { p->options.config.settled_bytes_min = position_of(BATCHES) + 1; }
static void many_files_of_others(place *p) { p->options.changed_checkpoints = 2; }

OL_TEST(whatever_is_doubtful_makes_an_open_read_all) {
    static const struct {
        const char *name;
        void (*bring)(place *p);
    } doubts[] = {
        {"no index", no_index},
        {"no time index", no_times},
        {"no sidecar", no_sidecar},
        {"no manifest", no_manifest},
        {"zeros in the index", zeros_in_the_index},
        {"zeros in the time index", zeros_in_the_times},
        {"an index that leads elsewhere", another_place},
        {"a transaction index that is none", aborted_of_nothing},
        {"an epoch that the manifest does not know", later_epoch},
        {"a replica", of_a_replica},
        {"less than is worth it", too_little},
        {"another program worked here", many_files_of_others},
    };
    ol_log_recovery recovery;
    for (size_t i = 0; i < sizeof doubts / sizeof *doubts; i++) {
        place p;
        leave(&p, BATCHES, false);
        damage(&p, EARLY);
        doubts[i].bring(&p);
        if (!meets(&p, BATCHES, &recovery)) {
            fprintf(stderr, "%s: the open did not read all\n", doubts[i].name);
            exit(1);
        }
        fixture_remove(p.root);
    }
}

/* The time index on disk ends before the offset index where a process ended that kept its last entries in memory. */
OL_TEST(checks_begin_where_both_indexes_know_the_batches) {
    place p;
    ol_log_recovery recovery;
    leave(&p, BATCHES, false);
    char path[OL_PATH_MAX];
    fixture_join(path, p.path, FIRST_TIMES);
    OL_CHECK(truncate(path, 12 * 4) == 0);
    damage(&p, BATCHES / 2);
    OL_CHECK(meets(&p, BATCHES, &recovery));
    fixture_remove(p.root);
}

/* ------------------------------------------------------------------------------------------------ segments */

/* Three segments and the begin of a fourth, all flushed; killed. */
static void leave_segments(place *p) {
    prepare(p);
    ol_log *log = fixture_open(&p->options, NULL);
    while (log->list.count < 4) append_timed(log, 10);
    append_timed(log, 100);
    flush(log);
    p->options.state_offset = ol_log_end(log);
    p->options.witnessed = true;
    ol_log_abandon(log);
}

OL_TEST(closed_segments_below_a_state_are_not_read) {
    place p;
    ol_log_recovery recovery;
    leave_segments(&p);
    damage(&p, EARLY);
    ol_log *log = fixture_open(&p.options, &recovery);
    OL_CHECK(accusation(&recovery) == NULL);
    OL_CHECK_INT(ol_log_end(log), p.options.state_offset);
    derived_true(log);
    ol_log_abandon(log);
    p.options.state_offset = -1;
    log = fixture_open(&p.options, &recovery);
    OL_CHECK(recovery.corrupt);
    ol_log_abandon(log);
    fixture_remove(p.root);
}

OL_TEST(a_segment_that_was_not_read_whole_gets_its_checksum_when_it_is_closed) {
    place p;
    ol_error error;
    leave(&p, BATCHES, false);
    p.options.state_offset = BATCHES;
    ol_log *log = fixture_open(&p.options, NULL);
    OL_CHECK(!log->tail.active->has_checksum);
    while (log->list.count < 2) append_timed(log, 10);
    flush(log);
    ol_log_abandon(log);
    char path[OL_PATH_MAX];
    ol_manifest manifest = {0};
    uint32_t checksum = 0;
    fixture_join(path, p.path, OL_MANIFEST_FILE);
    OL_CHECK_OK(ol_manifest_load(&manifest, ol_fs_posix(), path, &error), &error);
    OL_CHECK_INT(manifest.segment_count, 1);
    OL_CHECK(manifest.segments[0].has_checksum);
    fixture_join(path, p.path, FIRST_LOG);
    OL_CHECK_OK(ol_segment_checksum_file(ol_fs_posix(), path, manifest.segments[0].size, &checksum, &error), &error);
    OL_CHECK_INT(manifest.segments[0].checksum, checksum);
    ol_manifest_free(&manifest);
    fixture_remove(p.root);
}

/* ------------------------------------------------------------------------------------------------ transactions */

static void append_of(ol_log *log, int64_t producer_id) {
    fixture_batch batch = fixture_plain(VALUE_SIZE, 1);
    batch.timestamp += ol_log_end(log);
    batch.producer_id = producer_id;
    batch.producer_epoch = 0;
    batch.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    fixture_append(log, batch);
}

static int64_t take_state(ol_log *log) {
    ol_error error;
    OL_CHECK_OK(ol_log_store_beside_state(log, &error), &error);
    flush(log);
    int64_t offset = ol_log_end(log);
    ol_log_settle_beside_state(log, offset);
    return offset;
}

/* One transaction is aborted below the state, one lies across it, one begins above it. */
static void leave_transactions(place *p, bool beside) {
    ol_error error;
    prepare(p);
    ol_log *log = fixture_open(&p->options, NULL);
    append_timed(log, 50);
    append_of(log, 7);
    append_of(log, 8);
    fixture_append_marker(log, 7, OL_CONTROL_ABORT);
    append_timed(log, 50);
    if (beside) {
        p->options.state_offset = take_state(log);
    } else {
        p->options.state_offset = flush(log);
    }
    append_of(log, 9);
    fixture_append_marker(log, 8, OL_CONTROL_ABORT);
    append_timed(log, 10);
    OL_CHECK_OK(ol_log_flush(log, &(int64_t){0}, &error), &error);
    ol_log_abandon(log);
    p->options.witnessed = true;
    flip_byte(p->path, FIRST_LOG, position_of(EARLY) + 80);
}

static void check_transactions(place *p) {
    ol_log_recovery recovery;
    ol_log_transaction open;
    ol_log *log = fixture_open(&p->options, &recovery);
    OL_CHECK(accusation(&recovery) == NULL);
    const ol_transaction_index *aborted = &log->tail.active->transaction_index;
    OL_CHECK_INT(aborted->count, 2);
    OL_CHECK_INT(aborted->entries[0].producer_id, 7);
    OL_CHECK_INT(aborted->entries[0].first_offset, 50);
    OL_CHECK_INT(aborted->entries[1].producer_id, 8);
    OL_CHECK_INT(aborted->entries[1].first_offset, 51);
    OL_CHECK(ol_log_open_transaction_at(log, 0, &open));
    OL_CHECK_INT(open.producer_id, 9);
    OL_CHECK(!ol_log_open_transaction_at(log, 1, &open));
    derived_true(log);
    ol_log_abandon(log);
}

OL_TEST(producers_beside_the_state_and_those_of_older_batches_give_the_same_transactions) {
    for (int beside = 0; beside < 2; beside++) {
        place p;
        leave_transactions(&p, beside);
        check_transactions(&p);
        check_transactions(&p);     /* what the first open wrote is right as well */
        fixture_remove(p.root);
    }
}

OL_TEST(producers_of_the_state_before_are_removed_when_the_next_one_is_settled) {
    place p;
    ol_error error;
    prepare(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_timed(log, 20);
    take_state(log);
    append_timed(log, 20);
    OL_CHECK_OK(ol_log_store_beside_state(log, &error), &error);
    OL_CHECK(fixture_exists(p.path, "00000000000000000020.snapshot"));
    OL_CHECK(fixture_exists(p.path, "00000000000000000040.snapshot"));
    /* That state came to nothing. */
    append_timed(log, 10);
    take_state(log);
    OL_CHECK(!fixture_exists(p.path, "00000000000000000020.snapshot"));
    OL_CHECK(!fixture_exists(p.path, "00000000000000000040.snapshot"));
    OL_CHECK(fixture_exists(p.path, "00000000000000000050.snapshot"));
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(producers_of_a_segment_are_not_removed_with_those_of_a_state) {
    place p;
    ol_error error;
    prepare(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_timed(log, 20);
    take_state(log);
    OL_CHECK_OK(ol_log_roll_active(log, &error), &error);
    append_timed(log, 20);
    take_state(log);
    OL_CHECK(fixture_exists(p.path, "00000000000000000020.snapshot"));
    OL_CHECK(fixture_exists(p.path, "00000000000000000040.snapshot"));
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST_MAIN()
