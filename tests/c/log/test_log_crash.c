/* A workload is stopped at each of its file operations; what a disk could hold then is opened again.  Everything that was acknowledged
 * as flushed must be there byte for byte; after it there may be more whole batches, without a gap, and nothing else.
 * Nothing is reported as lost or in doubt, and nobody else as having worked there.
 *
 * OFFSETLOG_DEPTH=long runs more workloads and draws more disk states at each point. */
#include "accusation.h"
#include "derived.h"
#include "log_fixture.h"
#include "testing/fault_fs.h"

enum { WORKLOAD_STEPS = 110, BATCHES_MAX = 4096 };

typedef struct model {
    uint8_t *bytes[BATCHES_MAX];
    size_t sizes[BATCHES_MAX];
    int64_t bases[BATCHES_MAX];
    int64_t nexts[BATCHES_MAX];
    size_t count;
    size_t tentative;           /* batches of `count` whose append did not return */
    int64_t acknowledged;       /* everything below was flushed */
    int64_t cutting;            /* a truncation to here did not return; -1 none */
    int64_t recovery_point;     /* by the owner's checkpoint */
    size_t published;           /* batches that a killed process must leave */
    ol_log_mark mark;           /* a state was taken there, and is on disk */
    int64_t settled_bytes_min;
    bool created;               /* the first open returned: manifest and sidecar have to be there */
} model;

static void model_clear(model *m) {
    for (size_t i = 0; i < m->count; i++) free(m->bytes[i]);
    ol_log_mark_free(&m->mark);
    *m = (model){.cutting = -1, .recovery_point = -1};
}

static void model_cut(model *m, int64_t offset) {
    while (m->count > 0 && m->nexts[m->count - 1] > offset) free(m->bytes[--m->count]);
    m->published = m->count;
}

/* The owner's options for a log that may have been stopped. */
static ol_log_options options_of(const char *partition, const model *m) {
    ol_log_options options = fixture_options(partition);
    options.config.segment_bytes = 24 << 10;
    options.recovery_point = m->recovery_point;
    options.witnessed = m->created;
    options.mark = &m->mark;
    options.config.settled_bytes_min = m->settled_bytes_min;
    return options;
}

typedef struct run {
    ol_fs *fs;
    ol_log_options options;
    ol_log *log;
    model *m;
    uint64_t salt;
    int64_t transaction;        /* producer id of an open one, -1 */
    int32_t epoch;
} run;

static int run_append(run *r, ol_error *error) {
    model *m = r->m;
    size_t value_size = ol_test_below(8) == 0 ? ol_test_below(9000) : ol_test_below(400);
    fixture_batch batch = fixture_plain(value_size, ++r->salt);
    batch.count = 1 + (int32_t)ol_test_below(3);
    batch.leader_epoch = r->epoch;
    batch.timestamp += (int64_t)r->salt;
    batch.flushed_note = ol_log_take_flushed_record(r->log);
    if (r->transaction >= 0) {
        batch.producer_id = r->transaction;
        batch.producer_epoch = 0;
        batch.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    }
    uint8_t *start = NULL;
    size_t size = fixture_batch_size(&batch);
    int status = ol_log_reserve(r->log, size, batch.count - 1, batch.timestamp, &start, &batch.base_offset, error);
    if (status != OL_OK) return status;
    ol_batch_fields fields = fixture_encode(&batch, start);
    OL_CHECK(m->count < BATCHES_MAX);
    m->bytes[m->count] = malloc(size);
    memcpy(m->bytes[m->count], start, size);
    m->sizes[m->count] = size;
    m->bases[m->count] = batch.base_offset;
    m->nexts[m->count] = batch.base_offset + batch.count;
    m->count++;
    m->tentative = 1;
    status = ol_log_publish(r->log, &fields, size, error);
    if (status == OL_OK) {
        m->tentative = 0;
        m->published = m->count;
    }
    return status;
}

static int run_marker(run *r, ol_error *error) {
    model *m = r->m;
    uint8_t *start = NULL;
    int64_t base_offset = 0;
    int status = ol_log_reserve(r->log, OL_BATCH_MARKER_SIZE, 0, 1700000000000, &start, &base_offset, error);
    if (status != OL_OK) return status;
    ol_control type = ol_test_below(2) ? OL_CONTROL_ABORT : OL_CONTROL_COMMIT;
    ol_batch_put_marker(start, base_offset, r->epoch, 1700000000000, r->transaction, 0, type, 1);
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, 1700000000000);
    fields.producer_id = r->transaction;
    fields.producer_epoch = 0;
    fields.leader_epoch = r->epoch;
    fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_CONTROL;
    fields.record_count = 1;
    m->bytes[m->count] = malloc(OL_BATCH_MARKER_SIZE);
    memcpy(m->bytes[m->count], start, OL_BATCH_MARKER_SIZE);
    m->sizes[m->count] = OL_BATCH_MARKER_SIZE;
    m->bases[m->count] = base_offset;
    m->nexts[m->count] = base_offset + 1;
    m->count++;
    m->tentative = 1;
    status = ol_log_publish(r->log, &fields, OL_BATCH_MARKER_SIZE, error);
    if (status == OL_OK) {
        m->tentative = 0;
        m->published = m->count;
        r->transaction = -1;
    }
    return status;
}

static int run_open(run *r, bool clean, ol_error *error) {
    ol_log_recovery recovery;
    r->options.clean = clean;
    r->options.witnessed = true;
    r->options.recovery_point = clean ? r->m->nexts[r->m->count - 1] : r->m->recovery_point;
    if (clean && r->m->count == 0) r->options.recovery_point = 0;
    r->options.mark = &r->m->mark;
    int status = ol_log_open(&r->options, &r->log, &recovery, error);
    if (status != OL_OK) {
        r->log = NULL;
        return status;
    }
    OL_CHECK(accusation(&recovery) == NULL);
    OL_CHECK_INT(recovery.torn_bytes, 0);
    r->m->acknowledged = ol_log_flushed(r->log);
    ol_log_transaction transaction;
    r->transaction = ol_log_open_transaction_at(r->log, 0, &transaction) ? transaction.producer_id : -1;
    return OL_OK;
}

static int run_truncate(run *r, ol_error *error) {
    model *m = r->m;
    if (m->count == 0) return OL_OK;
    size_t keep = m->count - 1 - ol_test_below(m->count < 12 ? m->count : 12);
    int64_t offset = m->nexts[keep];
    if (m->recovery_point > offset) m->recovery_point = offset;
    if (m->acknowledged > offset) m->acknowledged = offset;
    /* The owner of a log drops younger states before it truncates. */
    if (m->mark.offset > offset) ol_log_mark_free(&m->mark);
    m->cutting = offset;
    ol_log_reader *reader = NULL;
    ol_log_piece piece;
    /* Now and then somebody reads what is cut. */
    if (ol_test_below(2)) {
        OL_CHECK_OK(ol_log_reader_open(r->log, m->bases[m->count - 1], &reader, error), error);
        int status = ol_log_reader_next(reader, 1 << 16, &piece, error);
        OL_CHECK(status == OL_OK || status == OL_CRASHED);
    }
    int status = ol_log_truncate(r->log, offset, error);
    if (reader != NULL) ol_log_reader_close(reader);
    if (status != OL_OK) return status;
    m->cutting = -1;
    model_cut(m, offset);
    OL_CHECK_INT(ol_log_end(r->log), offset);
    if (m->acknowledged > ol_log_flushed(r->log)) m->acknowledged = ol_log_flushed(r->log);
    ol_log_transaction transaction;
    r->transaction = ol_log_open_transaction_at(r->log, 0, &transaction) ? transaction.producer_id : -1;
    r->epoch++;
    return ol_log_assign_epoch(r->log, r->epoch, error);
}

static int run_close(run *r, bool clean, ol_error *error) {
    int status = OL_OK;
    if (clean) {
        status = ol_log_close(r->log, error);
    } else {
        ol_log_abandon(r->log);
    }
    r->log = NULL;
    if (status != OL_OK) return status;
    if (clean && r->m->count > 0) r->m->acknowledged = r->m->nexts[r->m->count - 1];
    return run_open(r, clean, error);
}

static int run_step(run *r, ol_error *error) {
    int64_t flushed = 0;
    uint64_t draw = ol_test_below(100);
    int status = OL_OK;
    if (draw < 66) {
        status = run_append(r, error);
    } else if (draw < 76) {
        ol_log_mark mark = {0};
        if (ol_test_below(2)) OL_CHECK_OK(ol_log_take_mark(r->log, &mark, error), error);
        status = ol_log_flush(r->log, &flushed, error);
        if (status == OL_OK) r->m->acknowledged = flushed;
        /* As a snapshot, it takes the place of the one before once what it covers is on disk. */
        ol_log_mark *superseded = status == OL_OK && mark.offset > 0 ? &r->m->mark : &mark;
        ol_log_mark_free(superseded);
        if (superseded != &mark) r->m->mark = mark;
        if (status == OL_OK && ol_test_below(3) == 0) r->m->recovery_point = flushed;
    } else if (draw < 84) {
        (void)ol_log_prepare(r->log);
    } else if (draw < 87) {
        status = ol_fault_fs_write_back(r->fs, ol_test_random(), error);
    } else if (draw < 92) {
        if (r->transaction < 0) {
            r->transaction = 1 + (int64_t)ol_test_below(5);
            status = run_append(r, error);
        } else {
            status = run_marker(r, error);
        }
    } else if (draw < 95) {
        status = run_truncate(r, error);
    } else if (draw < 97) {
        status = ol_log_reserve_space(r->log, 20000, 5000, error);
    } else if (r->m->count > 0) {
        status = run_close(r, draw == 98, error);
    }
    return status;
}

/* One workload from `seed` until the machine stops or it is done.  Returns the number of file operations. */
static int64_t run_workload(const char *root, const char *partition, uint64_t seed, int64_t stop_at, model *m, ol_fs **fs) {
    ol_error error;
    mkdir(root, 0777);
    OL_CHECK_OK(ol_fault_fs_create(root, fs, &error), &error);
    ol_fault_fs_stop_at(*fs, stop_at);
    ol_test_random_state = seed;
    run r = {.fs = *fs, .m = m, .transaction = -1};
    r.options = fixture_options(partition);
    r.options.fs = *fs;
    r.options.config.segment_bytes = 24 << 10;
    r.options.config.index_interval_bytes = 1024;
    r.options.config.append = seed % 2 ? OL_APPEND_WRITTEN : OL_APPEND_MAPPED;
    r.options.config.settled_bytes_min = m->settled_bytes_min;
    ol_log_recovery recovery;
    int status = ol_log_open(&r.options, &r.log, &recovery, &error);
    m->created = status == OL_OK;
    for (int i = 0; i < WORKLOAD_STEPS && status == OL_OK; i++) status = run_step(&r, &error);
    if (stop_at == 0) OL_CHECK_OK(status, &error);
    if (r.log != NULL) {
        OL_CHECK_INT(ol_log_end(r.log) >= m->acknowledged, true);
        ol_log_abandon(r.log);
    }
    return ol_fault_fs_operations(*fs);
}

/* The values derived for batches that the open did not read must be those that an open of everything derives. */
static void check_derived(ol_log *log, const char *partition, const ol_log_options *options) {
    char copy[OL_PATH_MAX];
    OL_CHECK(snprintf(copy, sizeof copy, "%s-whole", partition) < OL_PATH_MAX);
    fixture_copy_directory(partition, copy);
    ol_log_options whole = *options;
    whole.directory = copy;
    whole.mark = NULL;
    ol_log *other = fixture_open(&whole, NULL);
    derived_equal(log, other);
    ol_log_abandon(other);
    fixture_remove(copy);
    derived_true(log);
}

/* The log at `partition` must hold a prefix of the model that reaches `guaranteed` at least. */
static void check_state(const char *partition, const model *m, int64_t guaranteed, size_t count_min, const char *what,
                        uint64_t seed, int64_t stop_at) {
    ol_error error;
    ol_log *log = NULL;
    ol_log_recovery recovery;
    ol_log_options options = options_of(partition, m);
    for (int writable = 0; writable < 2; writable++) {
        options.writable = options.create = writable;
        int status = ol_log_open(&options, &log, &recovery, &error);
        if (status == OL_NO_SUCH_FILE && !writable && !m->created) continue;
        const char *reason = status != OL_OK ? error.reason : accusation(&recovery);
        if (reason != NULL) {
            fprintf(stderr, "%s, seed %" PRIu64 ", stopped at %" PRId64 ", %s: %s\n", what, seed, stop_at,
                    writable ? "writable" : "read-only", reason);
            exit(1);
        }
        if (!writable) ol_log_abandon(log);
    }
    size_t size = 0;
    uint8_t *bytes = fixture_read_log(log, 0, 8192, &size);
    size_t at = 0;
    size_t count = 0;
    while (count < m->count && at + m->sizes[count] <= size && memcmp(bytes + at, m->bytes[count], m->sizes[count]) == 0) {
        at += m->sizes[count++];
    }
    int64_t end = count > 0 ? m->nexts[count - 1] : 0;
    if (at != size || end < guaranteed || count < count_min || ol_log_end(log) != end || ol_log_flushed(log) != end) {
        fprintf(stderr,
                "%s, seed %" PRIu64 ", stopped at %" PRId64 ": %zu of %zu bytes match, they end at %" PRId64 " (log end %" PRId64
                "), acknowledged %" PRId64 ", batches %zu of at least %zu\n",
                what, seed, stop_at, at, size, end, ol_log_end(log), guaranteed, count, count_min);
        exit(1);
    }
    free(bytes);
    check_derived(log, partition, &options);
    /* The log goes on, and the next open finds what was added. */
    int64_t base = fixture_append(log, fixture_plain(100, 7));
    fixture_close(log);
    options.clean = true;
    options.recovery_point = base + 1;
    options.witnessed = true;
    log = fixture_open(&options, &recovery);
    OL_CHECK_INT(ol_log_end(log), base + 1);
    OL_CHECK_INT(recovery.torn_bytes, 0);
    OL_CHECK(accusation(&recovery) == NULL);
    fixture_close(log);
}

/* The open of a crashed log is stopped as well, somewhere, and what is left then is drawn into `again`. */
static void crash_the_open(const char *target, const char *again, const model *m, uint64_t seed) {
    char partition[OL_PATH_MAX];
    ol_error error;
    ol_fs *fs = NULL;
    ol_log *log = NULL;
    ol_log_recovery recovery;
    fixture_join(partition, target, "p-0");
    OL_CHECK_OK(ol_fault_fs_create(target, &fs, &error), &error);
    ol_fault_fs_stop_at(fs, 1 + (int64_t)(seed % 23));
    ol_log_options options = options_of(partition, m);
    options.fs = fs;
    int status = ol_log_open(&options, &log, &recovery, &error);
    OL_CHECK(status == OL_OK || status == OL_CRASHED);
    if (status == OL_OK) ol_log_abandon(log);
    mkdir(again, 0777);
    OL_CHECK_OK(ol_fault_fs_materialize(fs, again, seed, &error), &error);
    ol_fault_fs_free(fs);
}

/* The process was killed, and the next one opened the log: what it found, in the page cache perhaps, survives a power loss
 * from then on. */
static void check_killed_and_lost(const char *partition, const char *target, const model *m, ol_fs *fs, uint64_t seed,
                                  int64_t stop_at, int seeds) {
    char target_partition[OL_PATH_MAX];
    ol_error error;
    ol_log *log = NULL;
    ol_log_recovery recovery;
    ol_fault_fs_restart(fs);
    ol_log_options options = options_of(partition, m);
    options.fs = fs;
    OL_CHECK_OK(ol_log_open(&options, &log, &recovery, &error), &error);
    OL_CHECK(accusation(&recovery) == NULL);
    int64_t end = ol_log_end(log);
    if (m->cutting < 0 && m->published > 0) OL_CHECK(end >= m->nexts[m->published - 1]);
    ol_log_abandon(log);
    fixture_join(target_partition, target, "p-0");
    for (int i = 0; i < seeds; i++) {
        mkdir(target, 0777);
        uint64_t draw = seed * 1013 + (uint64_t)stop_at * 10 + (uint64_t)i;
        OL_CHECK_OK(ol_fault_fs_materialize(fs, target, draw, &error), &error);
        check_state(target_partition, m, end, 0, "killed, opened, and power lost", seed, stop_at);
        fixture_remove(target);
    }
}

static int64_t crash_at(const char *directory, uint64_t seed, int64_t stop_at, int seeds) {
    char root[OL_PATH_MAX];
    char partition[OL_PATH_MAX];
    char target[OL_PATH_MAX];
    char target_partition[OL_PATH_MAX];
    ol_error error;
    ol_fs *fs = NULL;
    /* Within the small segments of these workloads checks begin wherever they may, or at their starts. */
    model m = {.cutting = -1, .recovery_point = -1, .settled_bytes_min = seed % 4 < 2 ? 1 : 1 << 20};
    fixture_join(root, directory, "root");
    fixture_join(partition, root, "p-0");
    fixture_join(target, directory, "target");
    fixture_join(target_partition, target, "p-0");
    int64_t operations = run_workload(root, partition, seed, stop_at, &m, &fs);
    if (stop_at > 0) OL_CHECK(ol_fault_fs_stopped(fs));
    int64_t guaranteed = m.acknowledged;
    for (int i = 0; i <= seeds; i++) {
        mkdir(target, 0777);
        bool killed = i == seeds;
        if (killed) {
            OL_CHECK_OK(ol_fault_fs_materialize_all(fs, target, &error), &error);
        } else {
            OL_CHECK_OK(ol_fault_fs_materialize(fs, target, seed * 1000 + (uint64_t)stop_at * 10 + (uint64_t)i, &error), &error);
        }
        size_t count_min = killed && m.cutting < 0 ? m.published : 0;
        mkdir(target_partition, 0777);
        if (i == 0) {
            char again[OL_PATH_MAX];
            char again_partition[OL_PATH_MAX];
            fixture_join(again, directory, "again");
            fixture_join(again_partition, again, "p-0");
            crash_the_open(target, again, &m, seed * 7919 + (uint64_t)stop_at);
            mkdir(again_partition, 0777);
            check_state(again_partition, &m, guaranteed, count_min, "power lost, and again in the open", seed, stop_at);
            fixture_remove(again);
        } else {
            check_state(target_partition, &m, guaranteed, count_min, killed ? "killed" : "power lost", seed, stop_at);
        }
        fixture_remove(target);
    }
    check_killed_and_lost(partition, target, &m, fs, seed, stop_at, seeds);
    ol_fault_fs_free(fs);
    fixture_remove(root);
    model_clear(&m);
    return operations;
}

OL_TEST(a_run_stopped_at_each_of_its_file_operations_keeps_what_was_flushed) {
    char directory[OL_PATH_MAX];
    fixture_directory(directory);
    int runs = (int)ol_test_depth(3, 20);
    int seeds = (int)ol_test_depth(2, 4);
    int64_t points = 0;
    for (int i = 0; i < runs; i++) {
        uint64_t seed = ol_test_seed * 100 + (uint64_t)i;
        int64_t operations = crash_at(directory, seed, 0, seeds);
        for (int64_t stop_at = 1; stop_at <= operations; stop_at++) {
            crash_at(directory, seed, stop_at, seeds);
            points += 2 * seeds + 1;
        }
    }
    printf("  %" PRId64 " crash states\n", points);
    fixture_remove(directory);
}

OL_TEST_MAIN()
