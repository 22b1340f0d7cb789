/* Each read and each allocation of everything that reads a log under commits is made to fail once: snapshots, past states, times,
 * transactions, views, the cleaner, a second reader.  The call says so, with the place of a read, or does without; the partition is as it
 * was, and another one goes on.  (Those of opens, commits, loads, truncations and closes fail in partition/test_partition_faults.c.) */
#include <errno.h>

#include "cleaner/cleaner.h"
#include "fault_memory.h"
#include "history/change_feed.h"
#include "history/state_at.h"
#include "log/offset_for_time.h"
#include "log/transaction_spans.h"
#include "log/view.h"
#include "snapshot_fixture.h"
#include "testing/fault_fs.h"

typedef struct scene {
    const char *root;
    char directories[2][270];
    ol_fs *fs;
    ol_partition_options options;
    workload work;
    ol_partition *other;
    int64_t beside;             /* the last offset that the other one committed */
    container snapshot;
    int64_t changes;            /* the sum over all rows of a feed; 0: not known yet */
    int64_t failed;             /* calls that failed */
    int64_t spared;             /* and that did without */
} scene;

/* The failing resource, and how often it was asked for. */
typedef enum resource { RESOURCE_READ, RESOURCE_MEMORY } resource;

typedef int (*reading)(scene *s, ol_error *error);

static ol_log *log_of(const scene *s) { return ol_partition_log(s->work.partition); }

/* ------------------------------------------------------------------------------------------------ what reads */

static int read_snapshot(scene *s, ol_error *error) {
    ol_snapshot *snapshot;
    int status = ol_partition_snapshot_begin(s->work.partition, &snapshot, error);
    if (status != OL_OK) return status;
    status = ol_partition_snapshot_advance(s->work.partition, snapshot, ol_log_flushed(log_of(s)), NULL, error);
    if (status == OL_OK) {
        ol_digest digest;
        ol_snapshot_digest(snapshot, true, &digest);
        check_same_digest(digest, digest_of(s->work.partition));
    }
    ol_snapshot_destroy(snapshot);
    return status;
}

static int check_snapshot(scene *s, ol_error *error) {
    ol_snapshot *snapshot;
    int status = ol_snapshot_open(s->fs, s->snapshot.path, 1, &snapshot, error);
    if (status != OL_OK) return status;
    status = ol_partition_snapshot_check(s->work.partition, snapshot, -1, error);
    ol_snapshot_destroy(snapshot);
    return status;
}

static int read_past(scene *s, ol_error *error) {
    int64_t end = ol_log_end(log_of(s));
    ol_state_at pasts[2] = {{.cut = end / 2}, {.cut = end}};
    ol_timeline_facts facts;
    int status = ol_state_at_make(s->work.partition, NULL, pasts, 2, NULL, &facts, error);
    if (status == OL_OK) OL_CHECK_INT(facts.passed_over, 0);
    for (int i = 0; i < 2; i++) ol_state_destroy(&pasts[i].state);
    return status;
}

static int read_times(scene *s, ol_error *error) {
    int64_t end = ol_log_end(log_of(s)), found;
    ol_timeline_batch batch;
    int status = ol_timeline_next_batch(s->work.partition, end / 3, &batch, error);
    if (status == OL_OK) OL_CHECK(batch.timestamp > 0 && batch.first <= end / 3 && end / 3 < batch.next);
    if (status == OL_OK) status = ol_log_offset_for_time(log_of(s), fixture_now - 5000, end, &found, error);
    return status;
}

static int read_transactions(scene *s, ol_error *error) {
    int64_t end = ol_log_end(log_of(s)), found;
    int status = ol_log_open_since(log_of(s), end / 2, &found, error);
    if (status == OL_OK) status = ol_log_ended_by(log_of(s), end / 2, end, &found, error);
    return status;
}

static int ignore_aborted(void *context OL_UNUSED, const ol_aborted_transaction *transaction OL_UNUSED) { return OL_OK; }

/* The sum over all rows is the same whether a failure came in between or not. */
static int sum_changes(ol_change_feed *feed, ol_record_block *block, int64_t *sum, ol_error *error) {
    int status;
    do {
        status = ol_change_feed_read(feed, block, error);
        if (status != OL_OK && status != OL_END) return status;
        OL_CHECK_INT(feed->gap.below, 0);
        const int64_t *offsets = (const int64_t *)(const void *)block->arrays[OL_COLUMN_LOG_OFFSET].data;
        for (size_t i = 0; i < block->count; i++) *sum += offsets[i];
        ol_record_block_clear(block);
    } while (status == OL_OK);
    return OL_OK;
}

static int read_changes(scene *s, ol_error *error) {
    static const ol_column columns[] = {OL_COLUMN_LOG_OFFSET, OL_COLUMN_EFFECTIVE_AT, OL_COLUMN_GROUP, OL_COLUMN_TOPIC};
    ol_change_feed feed;
    ol_record_block block;
    int64_t sum = 0;
    int status = ol_record_block_create(&block, columns, 4, 100, error);
    if (status != OL_OK) return status;
    status = ol_change_feed_create(&feed, 0, NULL, 0, error);
    if (status == OL_OK) {
        feed.partition = s->work.partition;
        status = ol_change_feed_start(&feed, ol_log_end(log_of(s)) / 3, -1, 0, error);
        if (status == OL_OK) status = sum_changes(&feed, &block, &sum, error);
        ol_change_feed_free(&feed);
    }
    ol_record_block_free(&block);
    if (status != OL_OK) return status;
    if (s->changes == 0) s->changes = sum;
    OL_CHECK(sum > 0);
    OL_CHECK_INT(sum, s->changes);
    return OL_OK;
}

static int read_aborted(scene *s, ol_error *error) {
    return ol_log_collect_aborted(log_of(s), 0, ol_log_end(log_of(s)), ignore_aborted, NULL, error);
}

static int read_files(scene *s, ol_error *error) {
    ol_log_segment_info info;
    ol_log_segment_files files;
    int status = OL_OK;
    for (size_t i = 0; status == OL_OK && ol_log_segment_at(log_of(s), i, &info); i++) {
        status = ol_log_segment_files_at(log_of(s), info.base_offset, &files, error);
    }
    return status;
}

static int read_view(scene *s, ol_error *error) {
    ol_log_view *view;
    ol_log_view_segment segment;
    ol_batch batch;
    int status = ol_log_view_open(log_of(s), &view, error);
    if (status != OL_OK) return status;
    for (size_t i = 0; status == OL_OK && ol_log_view_at(view, i, &segment); i++) {
        ol_file_scan scan;
        status = ol_log_view_scan(view, i, 0, &scan, error);
        if (status != OL_OK) break;
        while ((status = ol_file_scan_next(&scan, &batch, error)) == OL_OK) OL_CHECK_OK(ol_batch_check_crc(&batch, error), error);
        if (status == OL_END) status = OL_OK;
        ol_file_scan_close(&scan);
    }
    ol_log_view_close(view);
    return status;
}

/* Somebody who reads the directory of a writer. */
static int read_beside(scene *s, ol_error *error) {
    ol_partition_options options = s->options;
    ol_partition *partition;
    ol_log_recovery recovery;
    options.log.writable = options.log.create = false;
    int status = ol_partition_open(&options, &partition, &recovery, error);
    if (status != OL_OK) return status;
    OL_CHECK(!recovery.corrupt);
    status = ol_partition_load(partition, error);
    ol_problem problem;
    if (status == OL_OK && ol_partition_problem_at(partition, 0, &problem)) {
        *error = problem.error;
        status = problem.error.status;
    } else if (status == OL_OK) {
        check_same_digest(digest_of(partition), digest_of(s->work.partition));
    }
    ol_partition_abandon(partition);
    return status;
}

/* Unreadable segments are left as they are, and reported. */
static int clean(scene *s, ol_error *error) {
    ol_clean_options options;
    ol_clean_report report;
    ol_clean_options_init(&options);
    options.now_ms = fixture_now;
    options.delete_retention_ms = 0;
    int status = ol_cleaner_run(s->work.partition, &options, &report, error);
    if (status != OL_OK || report.quarantined == 0) return status;
    *error = report.quarantine[0].error;
    OL_CHECK(error->position >= 0);
    return error->status;
}

/* ------------------------------------------------------------------------------------------------ the scene */

static void add_work(scene *s, int steps) {
    ol_error error;
    work_some(&s->work, steps);
    OL_CHECK_OK(ol_partition_roll(s->work.partition, &error), &error);
    work_some(&s->work, 5);
    flush_all(s->work.partition);
}

static void begin(scene *s) {
    ol_error error;
    *s = (scene){0};
    s->root = fresh_directory();
    OL_CHECK_OK(ol_fs_posix()->make_directory(ol_fs_posix(), s->root, &error), &error);
    OL_CHECK_OK(ol_fault_fs_create(s->root, &s->fs, &error), &error);
    for (int i = 0; i < 2; i++) {
        OL_CHECK(snprintf(s->directories[i], sizeof s->directories[i], "%s/__consumer_offsets-%d", s->root, i) < 270);
    }
    s->options = snapshot_options(s->directories[1]);
    s->options.log.fs = s->fs;
    s->other = open_partition(&s->options, true);
    s->options.log.directory = s->directories[0];
    s->work.partition = open_partition(&s->options, true);
    for (int i = 0; i < 4; i++) add_work(s, 200);
    ol_snapshot *taken = take_snapshot(s->work.partition, NULL);
    store_container(taken, s->directories[0], &s->snapshot);
    ol_snapshot_destroy(taken);
    /* The faulting file system finds the file when it is opened. */
    ol_file *file;
    OL_CHECK_OK(s->fs->open(s->fs, s->snapshot.path, OL_OPEN_CREATE, &file, &error), &error);
    s->fs->close(file);
}

static void end(scene *s) {
    close_partition(s->work.partition);
    close_partition(s->other);
    free_container(&s->snapshot);
    ol_fault_fs_free(s->fs);
    remove_fixture();
}

static int64_t asked(const scene *s, resource what) {
    return what == RESOURCE_READ ? ol_fault_fs_reads(s->fs) : fault_memory_calls();
}

/* The number-th from now fails; 0: none does. */
static void fail_next(scene *s, resource what, int64_t number) {
    if (what == RESOURCE_MEMORY) fault_memory_at(number);
    else ol_fault_fs_fail_read(s->fs, number == 0 ? 0 : ol_fault_fs_reads(s->fs) + number, EIO);
}

/* The call that met the failure, if any did, and both partitions after it. */
static void check_after(scene *s, resource what, int status, const ol_error *error, const ol_digest *before) {
    if (status == OL_OK) {
        s->spared++;
    } else if (what == RESOURCE_MEMORY) {
        OL_CHECK_INT(status, OL_NO_MEMORY);
        OL_CHECK(error->status == OL_NO_MEMORY && error->reason[0] != 0);
        s->failed++;
    } else {
        OL_CHECK_INT(status, OL_IO);
        OL_CHECK_INT(error->status, OL_IO);
        OL_CHECK_INT(error->sys_errno, EIO);
        OL_CHECK(strstr(error->path, s->root) == error->path);
        s->failed++;
    }
    OL_CHECK_INT(ol_partition_role(s->work.partition), OL_ROLE_ACTIVE);
    OL_CHECK(!ol_partition_is_read_only(s->work.partition));
    check_same_digest(digest_of(s->work.partition), *before);
    commit_one(s->other, "beside", "topic", 0, ++s->beside);
    OL_CHECK_INT(fetch_one(s->other, "beside", "topic", 0), s->beside);
}

/* Every read, or every allocation, of a call that changes nothing. */
static void fail_each(scene *s, resource what, reading call) {
    ol_error error;
    fault_memory_at(0);
    int64_t before = asked(s, what);
    ol_digest digest = digest_of(s->work.partition);
    OL_CHECK_OK(call(s, &error), &error);
    int64_t count = asked(s, what) - before;
    OL_CHECK(count > 0);
    for (int64_t number = 1; number <= count; number++) {
        fail_next(s, what, number);
        int status = call(s, &error);
        fail_next(s, what, 0);
        check_after(s, what, status, &error, &digest);
    }
    OL_CHECK_OK(call(s, &error), &error);
}

static void run(resource what, reading call, const char *name, bool may_do_without) {
    scene s;
    begin(&s);
    fail_each(&s, what, call);
    printf("  %s: %" PRId64 " calls failed, %" PRId64 " did without\n", name, s.failed, s.spared);
    OL_CHECK(s.failed > 0);
    OL_CHECK(may_do_without || s.spared == 0);
    end(&s);
}

OL_TEST(a_snapshot_fails_with_any_read) { run(RESOURCE_READ, read_snapshot, "a snapshot", false); }
OL_TEST(a_check_of_a_snapshot_fails_with_any_read) { run(RESOURCE_READ, check_snapshot, "a check", true); }
OL_TEST(a_past_state_fails_with_any_read) { run(RESOURCE_READ, read_past, "a past state", false); }
OL_TEST(a_feed_fails_with_any_read_but_of_an_index) { run(RESOURCE_READ, read_changes, "a feed", true); }
OL_TEST(a_time_fails_with_any_read_but_of_an_index) { run(RESOURCE_READ, read_times, "a time", true); }
OL_TEST(transactions_fail_with_any_read_but_of_an_index) { run(RESOURCE_READ, read_transactions, "transactions", true); }
OL_TEST(aborted_transactions_fail_with_any_read) { run(RESOURCE_READ, read_aborted, "aborted transactions", false); }
OL_TEST(facts_about_files_fail_with_any_read) { run(RESOURCE_READ, read_files, "facts", false); }
OL_TEST(a_view_fails_with_any_read) { run(RESOURCE_READ, read_view, "a view", false); }
OL_TEST(a_reader_beside_the_writer_fails_with_any_read) { run(RESOURCE_READ, read_beside, "a reader beside", true); }

OL_TEST(without_memory_each_call_says_so_or_does_without) {
    static const struct {
        reading call;
        const char *name;
    } calls[] = {
        {read_snapshot, "a snapshot"},
        {check_snapshot, "a check"},
        {read_past, "a past state"},
        {read_changes, "a feed"},
        {read_times, "a time"},
        {read_transactions, "transactions"},
        {read_aborted, "aborted transactions"},
        {read_files, "facts"},
        {read_view, "a view"},
        {read_beside, "a reader beside"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) run(RESOURCE_MEMORY, calls[i].call, calls[i].name, true);
}

/* The log grows, so that there is something to clean each time; what cannot be read of a file's facts only keeps it from being joined
 * with others. */
static void fail_cleans(resource what, uint64_t step_max) {
    scene s;
    ol_error error;
    bool fired = true;
    begin(&s);
    for (int64_t number = 1; fired; number += 1 + (int64_t)ol_test_below(step_max)) {
        add_work(&s, 100);
        ol_digest digest = digest_of(s.work.partition);
        fail_next(&s, what, number);
        int64_t before = asked(&s, what);
        int status = clean(&s, &error);
        fired = asked(&s, what) >= before + number;
        fail_next(&s, what, 0);
        check_after(&s, what, status, &error, &digest);
        OL_CHECK_OK(clean(&s, &error), &error);
        check_same_digest(digest_of(s.work.partition), digest);
        OL_CHECK_OK(read_beside(&s, &error), &error);
    }
    printf("  a clean: %" PRId64 " failed, %" PRId64 " did without\n", s.failed, s.spared);
    OL_CHECK(s.failed > 5);
    end(&s);
}

OL_TEST(a_clean_goes_on_after_any_read) { fail_cleans(RESOURCE_READ, (uint64_t)ol_test_depth(20, 1)); }
OL_TEST(a_clean_goes_on_without_any_allocation) { fail_cleans(RESOURCE_MEMORY, (uint64_t)ol_test_depth(20, 1)); }

OL_TEST_MAIN()
