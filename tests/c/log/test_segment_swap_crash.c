/* A log is filled, cleaned twice with commits and rolls between, and stopped at each of its file operations; what a disk could hold then is opened
 * again.  It must be the log before the swap that was under way, or the log after it, with all that was flushed, and nothing else; nothing is
 * reported as lost or in doubt, and nobody else as having worked there.  Then the same with operations that fail instead.
 *
 * OFFSETLOG_DEPTH=long runs more workloads and draws more disk states at each point. */
#include <errno.h>

#include "accusation.h"
#include "cleaned_fixture.h"
#include "testing/fault_fs.h"

enum { SEGMENT_BYTES = 4 << 10 };

typedef struct run {
    ol_fs *fs;
    ol_log_options options;
    ol_log *log;
    model m;
    uint64_t salt;
    int64_t transaction;        /* producer id of an open one, -1 */
    int64_t acknowledged;       /* everything below was flushed */
    int64_t cutting;            /* a truncation to here did not return, -1 none */
    int64_t recovery_point;
    int64_t end;                /* of the log, which a swap does not lower although it drops the last batches */
    size_t published;           /* batches that a killed process must leave */
    bool faulty;                /* operations fail: steps go on after a failure */
    bool created;               /* the first open returned: manifest and sidecar have to be there */
    int64_t swaps;
} run;

static ol_log_options small_options(const char *partition) {
    ol_log_options options = fixture_options(partition);
    options.config.segment_bytes = SEGMENT_BYTES;
    options.config.index_interval_bytes = 256;
    return options;
}

/* ------------------------------------------------------------------------------------------------ the workload */

static void note_end(run *r) {
    int64_t next = r->m.count > 0 ? r->m.batches[r->m.count - 1].next : 0;
    if (next > r->end) r->end = next;
}

static int append_one(run *r, ol_error *error) {
    fixture_batch batch = fixture_plain(ol_test_below(500), ++r->salt);
    batch.count = 1 + (int32_t)ol_test_below(3);
    batch.timestamp += (int64_t)r->salt;
    batch.flushed_note = ol_log_take_flushed_record(r->log);
    if (r->transaction >= 0) {
        batch.producer_id = r->transaction;
        batch.producer_epoch = 0;
        batch.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    }
    int status = model_append(&r->m, r->log, batch, error);
    note_end(r);
    if (status == OL_OK) r->published = r->m.count;
    return status;
}

static int append_many(run *r, ol_error *error) {
    int status = OL_OK;
    for (uint64_t left = 8 + ol_test_below(16); left > 0 && status == OL_OK; left--) {
        uint64_t draw = ol_test_below(20);
        if (draw == 0 && r->transaction < 0) {
            r->transaction = 1 + (int64_t)ol_test_below(4);
        } else if (draw == 1 && r->transaction >= 0 && r->m.count > 0 && r->m.batches[r->m.count - 1].producer_id >= 0) {
            ol_control type = ol_test_below(3) ? OL_CONTROL_ABORT : OL_CONTROL_COMMIT;
            status = model_append_marker(&r->m, r->log, r->transaction, type, error);
            note_end(r);
            if (status == OL_OK) {
                r->published = r->m.count;
                r->transaction = -1;
            }
            continue;
        }
        status = append_one(r, error);
    }
    return status;
}

static int flush_log(run *r, ol_error *error) {
    int64_t flushed = 0;
    int status = ol_log_flush(r->log, &flushed, error);
    if (status == OL_OK) r->acknowledged = flushed;
    if (status == OL_OK && ol_test_below(3) == 0) r->recovery_point = flushed;
    return status;
}

typedef struct draw {
    uint64_t seed;
    uint64_t kept_of_eight;
    int64_t limit;
} draw;

static bool keep_drawn(void *context, const model_batch *batch) {
    const draw *d = context;
    if (batch->producer_id >= 0) return true;
    uint64_t hash = (d->seed ^ (uint64_t)batch->base) * 0x9e3779b97f4a7c15u;
    return batch->base < d->limit && (hash >> 61) < d->kept_of_eight;
}

static int clean_some(run *r, ol_error *error) {
    int64_t bases[MODEL_SEGMENTS_MAX];
    size_t count = segment_bases(r->log, bases);
    if (count < 2) return OL_OK;
    size_t first = ol_test_below(3) ? 0 : ol_test_below(count - 1);
    size_t taken = 1 + ol_test_below(count - 1 - first);
    draw d = {.seed = ol_test_random(), .kept_of_eight = ol_test_below(9), .limit = INT64_MAX};
    /* Now and then all that comes after some place goes. */
    if (ol_test_below(3) == 0) d.limit = bases[first] + (int64_t)ol_test_below((uint64_t)(bases[first + taken] - bases[first]) + 1);
    int status = model_clean(&r->m, r->log, first, taken, keep_drawn, &d, error);
    if (status == OL_OK) r->swaps++;
    if (status == OL_OK) r->published = r->m.count;
    return status == OL_WOULD_BLOCK ? OL_OK : status;
}

static int reopen(run *r, bool clean, ol_error *error) {
    ol_log_recovery recovery;
    int status = OL_OK;
    int64_t end = ol_log_end(r->log);
    ol_log *log = r->log;
    r->log = NULL;
    if (clean) {
        status = ol_log_close(log, error);
    } else {
        ol_log_abandon(log);
    }
    if (status != OL_OK) return status;
    if (clean) r->acknowledged = end;
    r->options.clean = clean;
    r->options.recovery_point = clean ? end : r->recovery_point;
    status = ol_log_open(&r->options, &r->log, &recovery, error);
    if (status != OL_OK) {
        r->log = NULL;
        return status;
    }
    OL_CHECK(accusation(&recovery) == NULL);
    OL_CHECK_INT(recovery.torn_bytes, 0);
    r->acknowledged = ol_log_flushed(r->log);
    return OL_OK;
}

static int cut_tail(run *r, ol_error *error) {
    model *m = &r->m;
    if (m->count == 0) return OL_OK;
    int64_t offset = m->batches[m->count - 1 - ol_test_below(m->count < 40 ? m->count : 40)].next;
    if (r->recovery_point > offset) r->recovery_point = offset;
    if (r->acknowledged > offset) r->acknowledged = offset;
    r->cutting = offset;
    int status = ol_log_truncate(r->log, offset, error);
    if (status != OL_OK) return status;
    r->cutting = -1;
    model_cut(m, offset);
    r->published = m->count;
    r->end = ol_log_end(r->log);
    ol_log_transaction transaction;
    r->transaction = ol_log_open_transaction_at(r->log, 0, &transaction) ? transaction.producer_id : -1;
    return OL_OK;
}

static int step(run *r, uint64_t what, ol_error *error) {
    if (what < 4) return append_many(r, error);
    if (what < 6) return flush_log(r, error);
    if (what == 6) (void)ol_log_prepare(r->log);
    if (what == 7) return ol_fault_fs_write_back(r->fs, ol_test_random(), error);
    if (what == 8) return ol_log_roll_active(r->log, error);
    if (what == 9) return cut_tail(r, error);
    if (what == 10) return reopen(r, ol_test_below(2), error);
    if (what >= 11) {
        /* Mostly of what is flushed, now and then of what the swap has to refuse. */
        int status = ol_test_below(5) ? flush_log(r, error) : OL_OK;
        return status == OL_OK ? clean_some(r, error) : status;
    }
    return OL_OK;
}

/* Twice in a row at the least, with all kinds of steps between. */
static int run_steps(run *r, ol_error *error) {
    static const uint8_t fixed[] = {0, 0, 0, 4, 11, 0, 0, 11, 11, 8, 4, 11};
    int status = OL_OK;
    for (size_t i = 0; i < sizeof fixed + 14 && status == OL_OK; i++) {
        uint64_t what = i < sizeof fixed ? fixed[i] : ol_test_below(14);
        status = step(r, what, error);
    }
    return status;
}

static void run_begin(run *r, const char *root, const char *partition, uint64_t seed) {
    ol_error error;
    mkdir(root, 0777);
    memset(r, 0, sizeof *r);
    OL_CHECK_OK(ol_fault_fs_create(root, &r->fs, &error), &error);
    ol_test_random_state = seed;
    r->transaction = -1;
    r->cutting = -1;
    r->recovery_point = -1;
    r->options = small_options(partition);
    r->options.fs = r->fs;
}

static int run_open(run *r, ol_error *error) {
    ol_log_recovery recovery;
    int status = ol_log_open(&r->options, &r->log, &recovery, error);
    r->created = r->options.witnessed = status == OL_OK;
    return status;
}

/* ------------------------------------------------------------------------------------------------ what must be there */

typedef struct transactions {
    ol_aborted_transaction aborted[256];
    size_t aborted_count;
    int64_t open[8];            /* first offset by producer id, -1 none */
} transactions;

static void derive_transactions(const uint8_t *bytes, size_t size, transactions *found) {
    ol_error error;
    found->aborted_count = 0;
    for (int i = 0; i < 8; i++) found->open[i] = -1;
    for (size_t at = 0; at < size;) {
        ol_batch batch;
        OL_CHECK_OK(ol_batch_parse(bytes + at, size - at, &batch, &error), &error);
        at += batch.size;
        if (batch.producer_id < 0) continue;
        OL_CHECK(batch.producer_id < 8);
        int64_t *first = &found->open[batch.producer_id];
        if (!ol_batch_is_control(&batch)) {
            if (*first < 0) *first = batch.base_offset;
            continue;
        }
        /* The key of a marker: version and type; its record begins after five varints of one byte each. */
        bool abort = batch.data[OL_BATCH_AT_RECORDS + 8] == OL_CONTROL_ABORT;
        if (abort && *first >= 0 && found->aborted_count < 256) {
            found->aborted[found->aborted_count++] =
                (ol_aborted_transaction){.producer_id = batch.producer_id, .first_offset = *first, .last_offset = batch.base_offset};
        }
        *first = -1;
    }
}

typedef struct compared {
    const transactions *expected;
    size_t at;
} compared;

static int compare_aborted(void *context, const ol_aborted_transaction *transaction) {
    compared *c = context;
    OL_CHECK(c->at < c->expected->aborted_count);
    const ol_aborted_transaction *expected = &c->expected->aborted[c->at++];
    OL_CHECK_INT(transaction->producer_id, expected->producer_id);
    OL_CHECK_INT(transaction->first_offset, expected->first_offset);
    OL_CHECK_INT(transaction->last_offset, expected->last_offset);
    return OL_OK;
}

/* Producers and aborted transactions are those of the batches that are there. */
static void check_transactions(ol_log *log, const uint8_t *bytes, size_t size) {
    transactions *expected = malloc(sizeof *expected);
    ol_error error;
    derive_transactions(bytes, size, expected);
    compared c = {.expected = expected};
    OL_CHECK_OK(ol_log_collect_aborted(log, 0, INT64_MAX, compare_aborted, &c, &error), &error);
    OL_CHECK_INT(c.at, expected->aborted_count);
    int64_t unstable = INT64_MAX;
    for (int i = 0; i < 8; i++) {
        if (expected->open[i] >= 0 && expected->open[i] < unstable) unstable = expected->open[i];
    }
    if (unstable == INT64_MAX) unstable = ol_log_end(log);
    OL_CHECK_INT(ol_log_first_unstable(log), unstable);
    free(expected);
}

static const char *where(const char *what, uint64_t seed, int64_t stop_at) {
    static char text[128];
    snprintf(text, sizeof text, "%s, seed %" PRIu64 ", operation %" PRId64, what, seed, stop_at);
    return text;
}

/* The log holds a prefix of the model, with the batches that go or without all of them, that reaches `guaranteed` at least. */
static void check_content(ol_log *log, const run *r, int64_t guaranteed, size_t count_min, const char *what) {
    size_t size = 0;
    int64_t ends[2];
    uint8_t *bytes = fixture_read_log(log, 0, 8192, &size);
    int64_t matched = -1;
    for (int without = 0; without < 2; without++) {
        int64_t count = model_match(&r->m, bytes, size, without == 1, &ends[without]);
        if (count > matched) matched = count;
    }
    int64_t end = ol_log_end(log);
    bool right = matched >= 0 && (size_t)matched >= count_min && end >= guaranteed && end <= r->end && ol_log_flushed(log) == end;
    /* Everything below `guaranteed` is there, with or without what goes. */
    for (size_t i = matched < 0 ? 0 : (size_t)matched; i < r->m.count && right; i++) {
        right = r->m.batches[i].next > guaranteed || r->m.batches[i].going;
    }
    if (!right) {
        fprintf(stderr, "%s: %" PRId64 " of %zu batches match, %zu at least; log end %" PRId64 ", acknowledged %" PRId64 ", end %" PRId64 "\n", what,
                matched, r->m.count, count_min, end, guaranteed, r->end);
        exit(1);
    }
    check_transactions(log, bytes, size);
    free(bytes);
}

/* Opens a state of the disk, compares, and lets the log go on: an append, a swap, a clean close. */
static void check_state(const char *partition, const run *r, int64_t guaranteed, size_t count_min, const char *what) {
    ol_error error;
    ol_log *log = NULL;
    ol_log_recovery recovery;
    ol_log_options options = small_options(partition);
    options.recovery_point = r->recovery_point;
    options.witnessed = r->created;
    for (int writable = 0; writable < 2; writable++) {
        options.writable = options.create = writable;
        int status = ol_log_open(&options, &log, &recovery, &error);
        const char *reason = status != OL_OK ? error.reason : accusation(&recovery);
        if (reason != NULL) {
            fprintf(stderr, "%s, %s: %s\n", what, writable ? "writable" : "read-only", reason);
            exit(1);
        }
        if (!writable) ol_log_abandon(log);
    }
    check_no_leftovers(partition);
    check_content(log, r, guaranteed, count_min, what);
    int64_t base = fixture_append(log, fixture_plain(100, 7));
    OL_CHECK_OK(ol_log_roll_active(log, &error), &error);
    int64_t flushed = 0;
    OL_CHECK_OK(ol_log_flush(log, &flushed, &error), &error);
    int64_t bases[MODEL_SEGMENTS_MAX];
    size_t count = segment_bases(log, bases);
    ol_segment_rewrite *cleaned = NULL;
    size_t size = 0;
    uint8_t *bytes = fixture_read_log(log, 0, 8192, &size);
    OL_CHECK_OK(ol_segment_rewrite_start(log, bases[0], ol_log_cuts(log), &cleaned, &error), &error);
    for (size_t at = 0; at < size;) {
        ol_batch batch;
        OL_CHECK_OK(ol_batch_parse(bytes + at, size - at, &batch, &error), &error);
        OL_CHECK_OK(ol_segment_rewrite_append(cleaned, batch.data, batch.size, batch.base_offset, batch.last_offset, batch.max_timestamp,
                                      &error), &error);
        at += batch.size;
    }
    OL_CHECK_OK(ol_segment_rewrite_swap(cleaned, bases, count - 1, &error), &error);
    fixture_close(log);
    options.clean = true;
    options.witnessed = true;
    options.recovery_point = base + 1;
    log = fixture_open(&options, &recovery);
    OL_CHECK_INT(ol_log_end(log), base + 1);
    OL_CHECK_INT(recovery.torn_bytes, 0);
    OL_CHECK(accusation(&recovery) == NULL);
    size_t size_after = 0;
    uint8_t *after = fixture_read_log(log, 0, 8192, &size_after);
    OL_CHECK_INT(size_after, size);
    OL_CHECK(memcmp(bytes, after, size) == 0);
    free(bytes);
    free(after);
    fixture_close(log);
}

/* ------------------------------------------------------------------------------------------------ stopped */

typedef struct places {
    char directory[OL_PATH_MAX];
    char root[OL_PATH_MAX];
    char partition[OL_PATH_MAX];
    char target[OL_PATH_MAX];
    char target_partition[OL_PATH_MAX];
    char again[OL_PATH_MAX];
    char again_partition[OL_PATH_MAX];
} places;

static places *places_make(void) {
    places *p = malloc(sizeof *p);
    fixture_directory(p->directory);
    fixture_join(p->root, p->directory, "root");
    fixture_join(p->partition, p->root, "p-0");
    fixture_join(p->target, p->directory, "target");
    fixture_join(p->target_partition, p->target, "p-0");
    fixture_join(p->again, p->directory, "again");
    fixture_join(p->again_partition, p->again, "p-0");
    return p;
}

static void places_free(places *p) {
    fixture_remove(p->directory);
    free(p);
}

/* The open of a crashed log is stopped as well, somewhere, and what is left then is drawn into p->again. */
static void crash_the_open(const places *p, const run *r, uint64_t seed) {
    ol_error error;
    ol_fs *fs = NULL;
    ol_log *log = NULL;
    ol_log_recovery recovery;
    OL_CHECK_OK(ol_fault_fs_create(p->target, &fs, &error), &error);
    ol_fault_fs_stop_at(fs, 1 + (int64_t)(seed % 29));
    ol_log_options options = small_options(p->target_partition);
    options.fs = fs;
    options.recovery_point = r->recovery_point;
    options.witnessed = r->created;
    int status = ol_log_open(&options, &log, &recovery, &error);
    OL_CHECK(status == OL_OK || status == OL_CRASHED);
    if (status == OL_OK) ol_log_abandon(log);
    mkdir(p->again, 0777);
    OL_CHECK_OK(ol_fault_fs_materialize(fs, p->again, seed, &error), &error);
    ol_fault_fs_free(fs);
}

static void check_disk(const places *p, const run *r, uint64_t seed, int64_t stop_at, int i, bool killed) {
    ol_error error;
    uint64_t draw_seed = seed * 1000003 + (uint64_t)stop_at * 16 + (uint64_t)i;
    size_t count_min = killed && r->cutting < 0 ? r->published : 0;
    mkdir(p->target, 0777);
    if (killed) {
        OL_CHECK_OK(ol_fault_fs_materialize_all(r->fs, p->target, &error), &error);
    } else {
        OL_CHECK_OK(ol_fault_fs_materialize(r->fs, p->target, draw_seed, &error), &error);
    }
    mkdir(p->target_partition, 0777);
    if (i % 3 == 1) {
        crash_the_open(p, r, draw_seed * 7919);
        mkdir(p->again_partition, 0777);
        check_state(p->again_partition, r, r->acknowledged, count_min, where("and again in the open", seed, stop_at));
        fixture_remove(p->again);
    } else {
        check_state(p->target_partition, r, r->acknowledged, count_min, where(killed ? "killed" : "power lost", seed, stop_at));
    }
    fixture_remove(p->target);
}

static int64_t crash_at(const places *p, uint64_t seed, int64_t stop_at, int seeds, int64_t *swaps) {
    ol_error error;
    run *r = malloc(sizeof *r);
    run_begin(r, p->root, p->partition, seed);
    ol_fault_fs_stop_at(r->fs, stop_at);
    int status = run_open(r, &error);
    if (status == OL_OK) status = run_steps(r, &error);
    if (stop_at == 0) OL_CHECK_OK(status, &error);
    if (stop_at > 0) OL_CHECK(status == OL_CRASHED || ol_fault_fs_stopped(r->fs));
    if (stop_at == 0) model_check(&r->m, r->log);
    if (r->log != NULL) ol_log_abandon(r->log);
    int64_t operations = ol_fault_fs_operations(r->fs);
    for (int i = 0; i <= seeds; i++) check_disk(p, r, seed, stop_at, i, i == seeds);
    ol_fault_fs_free(r->fs);
    fixture_remove(p->root);
    *swaps = r->swaps;
    model_remove_from(&r->m, 0);
    free(r);
    return operations;
}

OL_TEST(a_clean_stopped_at_each_of_its_file_operations_leaves_the_old_log_or_the_new) {
    places *p = places_make();
    int runs = (int)ol_test_depth(3, 20);
    int seeds = (int)ol_test_depth(2, 6);
    int64_t points = 0;
    int64_t swaps = 0;
    for (int i = 0; i < runs; i++) {
        uint64_t seed = ol_test_seed * 100 + (uint64_t)i;
        int64_t of_run = 0;
        int64_t operations = crash_at(p, seed, 0, seeds, &of_run);
        OL_CHECK(of_run >= 2);
        for (int64_t stop_at = 1; stop_at <= operations; stop_at++) {
            int64_t ignored;
            crash_at(p, seed, stop_at, seeds, &ignored);
            points++;
        }
        swaps += of_run;
    }
    printf("  %" PRId64 " points, %" PRId64 " states of the disk, %" PRId64 " swaps\n", points, points * (seeds + 1), swaps);
    places_free(p);
}

/* ------------------------------------------------------------------------------------------------ failing */

/* The log goes on after a failed step: its reports must hold, and the rest is undecided. */
static int64_t fail_at(const places *p, uint64_t seed, int64_t operation, int sys_errno, bool *log_failed) {
    ol_error error;
    run *r = malloc(sizeof *r);
    run_begin(r, p->root, p->partition, seed);
    OL_CHECK_OK(run_open(r, &error), &error);
    int status = OL_OK;
    for (int i = 0; i < 3; i++) OL_CHECK_OK(append_many(r, &error), &error);
    OL_CHECK_OK(ol_log_roll_active(r->log, &error), &error);
    OL_CHECK_OK(append_many(r, &error), &error);
    OL_CHECK_OK(flush_log(r, &error), &error);
    draw d = {.seed = seed, .kept_of_eight = seed % 9, .limit = seed % 3 == 0 ? (int64_t)(seed % 40) : INT64_MAX};
    int64_t bases[MODEL_SEGMENTS_MAX];
    size_t count = segment_bases(r->log, bases);
    OL_CHECK(count > 2);
    int64_t before = ol_fault_fs_operations(r->fs);
    if (operation > 0) ol_fault_fs_fail_at(r->fs, before + operation, sys_errno);
    status = model_clean(&r->m, r->log, seed % 2, count - 1 - seed % 2, keep_drawn, &d, &error);
    int64_t operations = ol_fault_fs_operations(r->fs) - before;
    ol_fault_fs_fail_at(r->fs, 0, 0);
    *log_failed = ol_log_has_failed(r->log);
    if (operation == 0) OL_CHECK_OK(status, &error);
    if (*log_failed) {
        OL_CHECK(status == OL_IO || status == OL_DISK_FULL);
        /* The log stays readable; nothing can be appended. */
        size_t size = 0;
        int64_t end = 0;
        uint8_t *bytes = fixture_read_log(r->log, 0, 4096, &size);
        int64_t with = model_match(&r->m, bytes, size, false, &end);
        int64_t without = model_match(&r->m, bytes, size, true, &end);
        OL_CHECK((size_t)(with > without ? with : without) == r->m.count);
        free(bytes);
        ol_segment_rewrite *cleaned = NULL;
        OL_CHECK_INT(ol_segment_rewrite_start(r->log, 0, 0, &cleaned, &error), OL_FAILED);
        OL_CHECK_INT(append_one(r, &error), OL_FAILED);
        OL_CHECK_INT(ol_log_close(r->log, &error), OL_FAILED);
        r->log = NULL;
    } else {
        OL_CHECK(status == OL_OK || status == OL_IO || status == OL_DISK_FULL);
        model_check(&r->m, r->log);
        OL_CHECK_OK(append_many(r, &error), &error);
        OL_CHECK_OK(flush_log(r, &error), &error);
        count = segment_bases(r->log, bases);
        OL_CHECK_OK(model_clean(&r->m, r->log, 0, count - 1, keep_drawn, &d, &error), &error);
        check_no_leftovers(p->partition);
        model_check(&r->m, r->log);
        r->published = r->m.count;
    }
    if (r->log != NULL) ol_log_abandon(r->log);
    for (int i = 0; i < 3; i++) check_disk(p, r, seed, operation, i, i == 2);
    ol_fault_fs_free(r->fs);
    fixture_remove(p->root);
    model_remove_from(&r->m, 0);
    free(r);
    return operations;
}

/* An operation fails, and the machine stops while that is undone. */
static void stop_after_failure(const places *p, uint64_t seed, int64_t operation, int64_t stop_after) {
    ol_error error;
    run *r = malloc(sizeof *r);
    run_begin(r, p->root, p->partition, seed);
    OL_CHECK_OK(run_open(r, &error), &error);
    for (int i = 0; i < 3; i++) OL_CHECK_OK(append_many(r, &error), &error);
    OL_CHECK_OK(ol_log_roll_active(r->log, &error), &error);
    OL_CHECK_OK(append_many(r, &error), &error);
    OL_CHECK_OK(flush_log(r, &error), &error);
    draw d = {.seed = seed, .kept_of_eight = seed % 9, .limit = seed % 3 == 0 ? (int64_t)(seed % 40) : INT64_MAX};
    int64_t bases[MODEL_SEGMENTS_MAX];
    size_t count = segment_bases(r->log, bases);
    int64_t before = ol_fault_fs_operations(r->fs);
    ol_fault_fs_fail_at(r->fs, before + operation, EIO);
    ol_fault_fs_stop_at(r->fs, before + operation + stop_after);
    int status = model_clean(&r->m, r->log, seed % 2, count - 1 - seed % 2, keep_drawn, &d, &error);
    if (ol_fault_fs_stopped(r->fs)) {
        /* Undone only in part: the model settled as if it were whole, which is the old log as well.  Removals after the
         * swap may fail. */
        OL_CHECK(status == OL_OK || status == OL_IO || status == OL_CRASHED);
        r->published = r->m.count;
        ol_log_abandon(r->log);
        for (int i = 0; i < 2; i++) check_disk(p, r, seed, operation * 100 + stop_after, i * 2, i == 1);
    } else {
        ol_log_abandon(r->log);
    }
    ol_fault_fs_free(r->fs);
    fixture_remove(p->root);
    model_remove_from(&r->m, 0);
    free(r);
}

/* The sidecar on disk names a place that a swap changes: within the first of several segments, where the flush ended between two batches, of which
 * the second is now joined to what lies before. */
OL_TEST(a_bound_on_disk_that_names_a_cleaned_segment_is_no_corruption) {
    places *p = places_make();
    for (uint64_t seed = 1; seed <= 60; seed++) {
        ol_error error;
        run *r = malloc(sizeof *r);
        run_begin(r, p->root, p->partition, seed);
        OL_CHECK_OK(run_open(r, &error), &error);
        while (ol_log_size_bytes(r->log) < 3000) {
            fixture_batch batch = fixture_plain(60, ++r->salt);
            batch.count = 4;
            OL_CHECK_OK(model_append(&r->m, r->log, batch, &error), &error);
            note_end(r);
        }
        int64_t flushed = 0;
        OL_CHECK_OK(ol_log_flush(r->log, &flushed, &error), &error);
        for (uint64_t i = 0; i < 4; i++) OL_CHECK_OK(ol_fault_fs_write_back(r->fs, seed * 16 + i, &error), &error);
        while (ol_log_size_bytes(r->log) < 12000) {
            fixture_batch batch = fixture_plain(100 + seed % 7, ++r->salt);
            batch.count = 4;
            OL_CHECK_OK(model_append(&r->m, r->log, batch, &error), &error);
            note_end(r);
        }
        OL_CHECK_OK(flush_log(r, &error), &error);
        r->recovery_point = -1;
        r->published = r->m.count;
        /* Nothing of the last batches below the bound stays, and enough of the others to reach past its position. */
        for (size_t i = 0; i < r->m.count; i++) {
            r->m.batches[i].producer_id = r->m.batches[i].next <= flushed && r->m.batches[i].base >= 8 ? -1 : 1;
        }
        int64_t bases[MODEL_SEGMENTS_MAX];
        size_t count = segment_bases(r->log, bases);
        OL_CHECK_OK(model_clean(&r->m, r->log, 0, count - 1, keep_none, NULL, &error), &error);
        r->published = r->m.count;
        ol_log_abandon(r->log);
        for (int i = 0; i < 4; i++) check_disk(p, r, seed, 0, i, i == 3);
        ol_fault_fs_free(r->fs);
        fixture_remove(p->root);
        model_remove_from(&r->m, 0);
        free(r);
    }
    places_free(p);
}

OL_TEST(a_clean_in_which_an_operation_fails_is_undone_or_the_log_is_failed) {
    places *p = places_make();
    int64_t points = 0;
    int64_t failed = 0;
    int runs = (int)ol_test_depth(9, 60);
    for (int i = 0; i < runs; i++) {
        bool log_failed = false;
        uint64_t seed = ol_test_seed * 100 + (uint64_t)i;
        int64_t operations = fail_at(p, seed, 0, 0, &log_failed);
        OL_CHECK(!log_failed);
        for (int64_t operation = 1; operation <= operations; operation++) {
            (void)fail_at(p, seed, operation, operation % 2 ? EIO : ENOSPC, &log_failed);
            points++;
            failed += log_failed;
            if (log_failed || i >= 6) continue;
            for (int64_t stop_after = 1; stop_after < 10; stop_after++) stop_after_failure(p, seed, operation, stop_after);
        }
    }
    printf("  %" PRId64 " failures, %" PRId64 " of them after the point of no return\n", points, failed);
    places_free(p);
}

OL_TEST_MAIN()
