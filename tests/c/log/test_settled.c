/* The part that an open need not read again (log/settled): below a state of the caller and the flushed bound.  A batch
 * that was damaged there shows whether it was read. */
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

static ol_log_mark mark;         /* that of the state */

static void take_mark(ol_log *log) {
    ol_error error;
    ol_log_mark_free(&mark);
    OL_CHECK_OK(ol_log_take_mark(log, &mark, &error), &error);
    OL_CHECK_INT(mark.offset, ol_log_end(log));
}

/* `state` batches are below the mark, `flushed` of all are on disk; the process was killed, or closed the log. */
static void leave_marked(place *p, int state, int flushed, bool clean) {
    prepare(p);
    ol_log *log = fixture_open(&p->options, NULL);
    for (int i = 0; i <= BATCHES; i++) {
        if (i == state) take_mark(log);
        if (i == flushed) flush(log);
        if (i < BATCHES) append_timed(log, 1);
    }
    if (clean) {
        fixture_close(log);
    } else {
        ol_log_abandon(log);
    }
    p->options.clean = clean;
    p->options.witnessed = true;
    if (clean) p->options.recovery_point = BATCHES;
}

static void leave(place *p, int flushed, bool clean) { leave_marked(p, flushed, flushed, clean); }

static void damage(place *p, int batch) { flip_byte(p->path, FIRST_LOG, position_of(batch) + 80); }

/* Whether the next open, with a state of what lies below `state`, meets the damage. */
static bool meets(place *p, bool has_state, ol_log_recovery *recovery) {
    p->options.mark = has_state ? &mark : NULL;
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
        OL_CHECK(!meets(&p, true, &recovery));
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
        OL_CHECK(meets(&p, false, &recovery));
        OL_CHECK(recovery.corrupt);
        fixture_remove(p.root);
    }
}

OL_TEST(damage_above_the_state_is_found_though_it_was_flushed) {
    ol_log_recovery recovery;
    for (int clean = 0; clean < 2; clean++) {
        place p;
        leave_marked(&p, BATCHES / 2, BATCHES, clean);
        damage(&p, BATCHES / 2 + 1);
        OL_CHECK(meets(&p, true, &recovery));
        OL_CHECK(recovery.corrupt);
        OL_CHECK_INT(recovery.corruption.position, position_of(BATCHES / 2 + 1));
        fixture_remove(p.root);
    }
}

OL_TEST(damage_above_the_flushed_bound_is_torn_whatever_the_state_says) {
    place p;
    ol_log_recovery recovery;
    leave_marked(&p, BATCHES, BATCHES / 2, false);
    damage(&p, BATCHES / 2 + 1);
    OL_CHECK(meets(&p, true, &recovery));
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
        if (!meets(&p, true, &recovery)) {
            fprintf(stderr, "%s: the open did not read all\n", doubts[i].name);
            exit(1);
        }
        fixture_remove(p.root);
    }
}

/* ------------------------------------------------------------------------------------------------ segments */

/* Three segments and the begin of a fourth, all flushed; killed.  The mark lies in the third, or at the end. */
static void leave_segments(place *p, bool at_the_end) {
    prepare(p);
    ol_log *log = fixture_open(&p->options, NULL);
    while (log->list.count < 3) append_timed(log, 10);
    append_timed(log, 100);
    take_mark(log);
    while (log->list.count < 4) append_timed(log, 10);
    append_timed(log, 100);
    if (at_the_end) take_mark(log);
    flush(log);
    p->options.mark = &mark;
    p->options.witnessed = true;
    ol_log_abandon(log);
}

OL_TEST(closed_segments_below_a_state_are_not_read) {
    for (int at_the_end = 0; at_the_end < 2; at_the_end++) {
        place p;
        ol_log_recovery recovery;
        leave_segments(&p, at_the_end);
        damage(&p, EARLY);
        ol_log *log = fixture_open(&p.options, &recovery);
        OL_CHECK(accusation(&recovery) == NULL);
        derived_true(log);
        for (size_t i = 2; i < 4; i++) OL_CHECK(log->list.segments[i]->has_checksum);
        ol_log_abandon(log);
        p.options.mark = NULL;
        log = fixture_open(&p.options, &recovery);
        OL_CHECK(recovery.corrupt);
        ol_log_abandon(log);
        fixture_remove(p.root);
    }
}

/* As after a roll: in its own segment the mark has next to nothing below it. */
OL_TEST(closed_segments_count_as_what_need_not_be_read) {
    place p;
    ol_log_recovery recovery;
    prepare(&p);
    p.options.config.settled_bytes_min = position_of(100);
    ol_log *log = fixture_open(&p.options, NULL);
    while (log->list.count < 2) append_timed(log, 1);
    take_mark(log);
    OL_CHECK(mark.position < position_of(10));
    flush(log);
    ol_log_abandon(log);
    p.options.mark = &mark;
    p.options.witnessed = true;
    damage(&p, EARLY);
    log = fixture_open(&p.options, &recovery);
    OL_CHECK(accusation(&recovery) == NULL);
    derived_true(log);
    ol_log_abandon(log);
    fixture_remove(p.root);
}

/* A cleaner took batches before the mark from its segment, which has been closed since. */
OL_TEST(a_segment_in_which_the_batch_after_the_mark_lies_elsewhere_is_read_whole) {
    place p;
    ol_log_recovery recovery;
    leave_segments(&p, false);
    damage(&p, EARLY);
    mark.position -= position_of(1);
    ol_log *log = fixture_open(&p.options, &recovery);
    OL_CHECK(recovery.corrupt);
    ol_log_abandon(log);
    fixture_remove(p.root);
}

OL_TEST(a_segment_that_was_not_read_whole_keeps_its_checksum) {
    place p;
    ol_error error;
    leave(&p, BATCHES, false);
    p.options.mark = &mark;
    ol_log *log = fixture_open(&p.options, NULL);
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

/* One transaction is aborted below the mark, one lies across it, one begins above it. */
static void leave_transactions(place *p) {
    prepare(p);
    ol_log *log = fixture_open(&p->options, NULL);
    append_timed(log, 50);
    append_of(log, 7);
    append_of(log, 8);
    fixture_append_marker(log, 7, OL_CONTROL_ABORT);
    append_timed(log, 50);
    take_mark(log);
    flush(log);
    append_of(log, 9);
    fixture_append_marker(log, 8, OL_CONTROL_ABORT);
    append_timed(log, 10);
    flush(log);
    ol_log_abandon(log);
    p->options.witnessed = true;
    p->options.mark = &mark;
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

OL_TEST(the_producers_of_the_mark_give_the_transactions_that_lie_across_it) {
    place p;
    leave_transactions(&p);
    damage(&p, EARLY);          /* which is not read */
    check_transactions(&p);
    check_transactions(&p);     /* the files that the first open wrote are right as well */
    fixture_remove(p.root);
}

/* Damage in a batch of a producer, whose wrong number no walk may take for right. */
OL_TEST(damage_in_the_batch_of_a_producer_below_the_mark_changes_no_transaction) {
    place p;
    leave_transactions(&p);
    flip_byte(p.path, FIRST_LOG, position_of(50) + 48);
    check_transactions(&p);
    fixture_remove(p.root);
}

static void no_aborted(place *p) { take_away(p, FIRST_ABORTED); }
static void cut_aborted(place *p) {
    char path[OL_PATH_MAX];
    fixture_join(path, p->path, FIRST_ABORTED);
    OL_CHECK(truncate(path, 0) == 0);
}
static void other_aborted(place *p) { flip_byte(p->path, FIRST_ABORTED, 9); }

OL_TEST(a_transaction_index_that_is_not_that_of_the_mark_is_made_from_the_batches) {
    void (*const harms[])(place *p) = {no_aborted, cut_aborted, other_aborted};
    for (size_t i = 0; i < sizeof harms / sizeof *harms; i++) {
        place p;
        leave_transactions(&p);
        harms[i](&p);
        check_transactions(&p);
        fixture_remove(p.root);
    }
}

/* A transaction is aborted in a closed segment, and the mark lies in the next one. */
OL_TEST(a_transaction_index_below_the_segment_of_the_mark_is_made_from_the_batches) {
    place p;
    ol_error error;
    ol_transaction_index aborted;
    char path[OL_PATH_MAX];
    prepare(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_of(log, 7);
    fixture_append_marker(log, 7, OL_CONTROL_ABORT);
    while (log->list.count < 2) append_timed(log, 10);
    append_timed(log, 100);
    take_mark(log);
    flush(log);
    ol_log_abandon(log);
    p.options.mark = &mark;
    p.options.witnessed = true;
    fixture_join(path, p.path, FIRST_ABORTED);
    OL_CHECK(truncate(path, OL_TRANSACTION_INDEX_ENTRY_SIZE - 3) == 0);
    log = fixture_open(&p.options, NULL);
    derived_true(log);
    ol_log_abandon(log);
    OL_CHECK_OK(ol_transaction_index_open(&aborted, ol_fs_posix(), path, 0, false, &error), &error);
    OL_CHECK_INT(aborted.count, 1);
    OL_CHECK_INT(aborted.entries[0].producer_id, 7);
    ol_transaction_index_close(&aborted);
    fixture_remove(p.root);
}

static ol_log *flushed_log;
static int flushes;

static int flush_unlocked(ol_file *file, ol_error *error) {
    pthread_mutex_t *lock = &flushed_log->tail.active->lock;
    OL_CHECK(pthread_mutex_trylock(lock) == 0);
    pthread_mutex_unlock(lock);
    flushes++;
    return ol_fs_posix()->flush(file, error);
}

/* The writer takes the lock of its segment for each entry of an index. */
OL_TEST(the_transaction_index_is_flushed_once_for_each_change_and_nobody_waits_for_it) {
    place p;
    ol_error error;
    prepare(&p);
    ol_fs fs = *ol_fs_posix();
    p.options.fs = &fs;
    p.options.config.append = OL_APPEND_MAPPED;
    ol_log *log = flushed_log = fixture_open(&p.options, NULL);
    append_of(log, 7);
    fixture_append_marker(log, 7, OL_CONTROL_ABORT);
    fs.flush = flush_unlocked;
    flushes = 0;
    OL_CHECK_OK(ol_log_flush(log, &(int64_t){0}, &error), &error);
    OL_CHECK_INT(flushes, 1);
    append_timed(log, 10);
    OL_CHECK_OK(ol_log_flush(log, &(int64_t){0}, &error), &error);
    OL_CHECK_INT(flushes, 1);
    fs.flush = ol_fs_posix()->flush;
    fixture_close(log);
    fixture_remove(p.root);
}

OL_TEST(indexes_that_need_not_be_written_again_stay_as_they_are) {
    place p;
    leave(&p, BATCHES / 2, true);
    int64_t index = fixture_size(p.path, FIRST_INDEX), times = fixture_size(p.path, FIRST_TIMES);
    p.options.mark = &mark;
    ol_log *log = fixture_open(&p.options, NULL);
    derived_true(log);
    fixture_close(log);
    OL_CHECK_INT(fixture_size(p.path, FIRST_INDEX), index);
    OL_CHECK_INT(fixture_size(p.path, FIRST_TIMES), times);
    fixture_remove(p.root);
}

OL_TEST(a_timestamp_that_lies_ahead_does_not_matter) {
    place p;
    ol_log_recovery recovery;
    prepare(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    fixture_batch ahead = fixture_plain(VALUE_SIZE, 1);
    ahead.timestamp += 1000000;
    fixture_append(log, ahead);
    append_timed(log, BATCHES - 1);
    take_mark(log);
    flush(log);
    ol_log_abandon(log);
    p.options.witnessed = true;
    damage(&p, EARLY);
    OL_CHECK(!meets(&p, true, &recovery));
    fixture_remove(p.root);
}

OL_TEST(no_mark_is_taken_of_too_many_producers) {
    place p;
    ol_error error;
    prepare(&p);
    p.options.config.segment_bytes = 8 << 20;
    ol_log *log = fixture_open(&p.options, NULL);
    for (int64_t id = 0; id < 5000; id++) append_of(log, id);
    ol_log_mark_free(&mark);
    OL_CHECK_OK(ol_log_take_mark(log, &mark, &error), &error);
    OL_CHECK_INT(mark.offset, 0);
    fixture_close(log);
    fixture_remove(p.root);
}

/* A power loss may bring back the entries that the truncation removed. */
OL_TEST(no_mark_is_taken_in_a_segment_that_a_truncation_shortened) {
    place p;
    ol_error error;
    prepare(&p);
    ol_log *log = fixture_open(&p.options, NULL);
    append_timed(log, 20);
    OL_CHECK_OK(ol_log_truncate(log, 10, &error), &error);
    append_timed(log, 20);
    ol_log_mark_free(&mark);
    OL_CHECK_OK(ol_log_take_mark(log, &mark, &error), &error);
    OL_CHECK_INT(mark.offset, 0);
    OL_CHECK_OK(ol_log_roll(log, 30, &error), &error);
    take_mark(log);
    fixture_close(log);
    p.options.clean = p.options.witnessed = true;
    p.options.recovery_point = 30;
    log = fixture_open(&p.options, NULL);
    take_mark(log);
    ol_log_abandon(log);
    fixture_remove(p.root);
}

OL_TEST(a_mark_after_a_roll_that_was_not_flushed_is_not_believed) {
    ol_error error;
    for (int is_flushed = 0; is_flushed < 2; is_flushed++) {
        place p;
        ol_log_recovery recovery;
        prepare(&p);
        p.options.config.settled_bytes_min = 1;
        ol_log *log = fixture_open(&p.options, NULL);
        append_timed(log, BATCHES - 1);
        flush(log);
        OL_CHECK_OK(ol_log_roll(log, BATCHES - 1, &error), &error);
        take_mark(log);
        OL_CHECK_INT(mark.position, 0);
        append_timed(log, 1);
        if (is_flushed) flush(log);
        ol_log_abandon(log);
        p.options.witnessed = true;
        damage(&p, EARLY);
        OL_CHECK(meets(&p, true, &recovery) == !is_flushed);
        fixture_remove(p.root);
    }
}

OL_TEST_MAIN()
