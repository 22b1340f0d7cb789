/* log/ends: space for the ends of open transactions, on a disk that becomes full. */
#include <errno.h>

#include "testing/fault_fs.h"
#include "log/log_impl.h"
#include "recovery_fixture.h"

enum { MANY = 130 };            /* markers of more than two pages, entries of more than one */

/* Segments that keep as many. */
static const int64_t SEGMENT_BYTES = 256 << 10;

typedef struct disk {
    place p;
    ol_fs *fs;
    ol_log *log;
} disk;

static void open_disk(disk *d) {
    ol_error error;
    place_make(&d->p);
    OL_CHECK_OK(ol_fault_fs_create(d->p.root, &d->fs, &error), &error);
    d->p.options.fs = d->fs;
    d->p.options.config.segment_bytes = SEGMENT_BYTES;
    d->log = fixture_open(&d->p.options, NULL);
}

static void remove_disk(disk *d) {
    ol_fault_fs_free(d->fs);
    fixture_remove(d->p.root);
}

static void fill(disk *d) { ol_fault_fs_fill(d->fs, 1); }
static void give_space(disk *d) { ol_fault_fs_fill(d->fs, 0); }

static int try_begin(ol_log *log, int64_t producer_id, ol_error *error) {
    fixture_batch batch = fixture_plain(50, 1);
    batch.producer_id = producer_id;
    batch.producer_epoch = 0;
    batch.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    uint8_t *start = NULL;
    size_t size = fixture_batch_size(&batch);
    int status = ol_log_reserve_transactional(log, producer_id, size, 0, batch.timestamp, &start, &batch.base_offset, error);
    if (status != OL_OK) return status;
    ol_batch_fields fields = fixture_encode(&batch, start);
    return ol_log_publish(log, &fields, size, error);
}

static int try_end(ol_log *log, int64_t producer_id, ol_control type, int64_t timestamp, ol_error *error) {
    uint8_t *start = NULL;
    int64_t base_offset = 0;
    int status = ol_log_reserve_end(log, timestamp, &start, &base_offset, error);
    if (status != OL_OK) return status;
    for (size_t i = 0; i < OL_BATCH_MARKER_SIZE; i++) OL_CHECK_INT(start[i], 0);
    ol_batch_put_marker(start, base_offset, -1, timestamp, producer_id, 0, type, 3);
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, timestamp);
    fields.producer_id = producer_id;
    fields.producer_epoch = 0;
    fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_CONTROL;
    fields.record_count = 1;
    return ol_log_publish(log, &fields, OL_BATCH_MARKER_SIZE, error);
}

static void begin_many(ol_log *log, int count) {
    ol_error error;
    for (int i = 0; i < count; i++) OL_CHECK_OK(try_begin(log, 100 + i, &error), &error);
    OL_CHECK_INT(ol_log_kept_ends(log), count);
}

static void abort_many(ol_log *log, int from, int to) {
    ol_error error;
    for (int i = from; i < to; i++) OL_CHECK_OK(try_end(log, 100 + i, OL_CONTROL_ABORT, 1700000000000, &error), &error);
}

/* Plain batches until one meets the full disk. */
static int append_until_full(ol_log *log) {
    ol_error error;
    int count = 0;
    for (;; count++) {
        fixture_batch batch = fixture_plain(100, (uint64_t)count);
        int status = fixture_try_append(log, &batch, &error);
        if (status == OL_DISK_FULL) return count;
        OL_CHECK_OK(status, &error);
    }
}

static int count_aborted(void *context, const ol_aborted_transaction *transaction OL_UNUSED) {
    ++*(int *)context;
    return OL_OK;
}

static int aborted_in(ol_log *log) {
    ol_error error;
    int count = 0;
    OL_CHECK_OK(ol_log_collect_aborted(log, 0, INT64_MAX, count_aborted, &count, &error), &error);
    return count;
}

/* Nothing was lost by it, closed or killed. */
static void check_opened_again(disk *d, int aborted) {
    int64_t end = ol_log_end(d->log);
    OL_CHECK(!ol_log_has_failed(d->log));
    give_space(d);
    for (int killed = 1; killed >= 0; killed--) {
        if (killed) ol_log_abandon(d->log);
        else fixture_close(d->log);
        d->log = fixture_open(&d->p.options, NULL);
        OL_CHECK_INT(ol_log_end(d->log), end);
        OL_CHECK_INT(aborted_in(d->log), aborted);
        OL_CHECK_INT(ol_log_first_unstable(d->log), end);
    }
    fixture_close(d->log);
}

OL_TEST(every_transaction_is_ended_on_a_disk_that_other_batches_filled) {
    disk d;
    open_disk(&d);
    begin_many(d.log, MANY);
    fill(&d);
    OL_CHECK(append_until_full(d.log) > 0);
    abort_many(d.log, 0, MANY);
    OL_CHECK_INT(ol_log_kept_ends(d.log), 0);
    OL_CHECK_INT(aborted_in(d.log), MANY);
    check_opened_again(&d, MANY);
    remove_disk(&d);
}

OL_TEST(batches_and_ends_take_turns_on_a_full_disk) {
    disk d;
    ol_error error;
    open_disk(&d);
    begin_many(d.log, MANY);
    fill(&d);
    for (int i = 0; i < MANY; i++) {
        (void)append_until_full(d.log);
        if (i % 3 == 0) OL_CHECK_OK(try_end(d.log, 100 + i, OL_CONTROL_COMMIT, 1700000000000, &error), &error);
        else abort_many(d.log, i, i + 1);
    }
    check_opened_again(&d, MANY - (MANY + 2) / 3);
    remove_disk(&d);
}

/* Full from each operation of the first batch on: nothing is kept, and nothing was begun. */
OL_TEST(a_transaction_whose_end_cannot_be_kept_does_not_begin) {
    int refused = 0;
    for (int64_t nth = 1;; nth++) {
        disk d;
        ol_error error;
        open_disk(&d);
        append_many(d.log, 3, 100);
        int64_t done = ol_fault_fs_operations(d.fs);
        ol_fault_fs_fill(d.fs, done + nth);
        int status = try_begin(d.log, 7, &error);
        ol_log_transaction transaction;
        OL_CHECK_INT(ol_log_find_transaction(d.log, 7, &transaction), status == OL_OK);
        OL_CHECK_INT(ol_log_kept_ends(d.log), status == OL_OK);
        if (status != OL_OK) {
            refused++;
            OL_CHECK_INT(status, OL_DISK_FULL);
            OL_CHECK_INT(ol_log_end(d.log), 3);
            append_many(d.log, 1, 100);         /* which needs no space */
        }
        give_space(&d);
        if (status != OL_OK) OL_CHECK_OK(try_begin(d.log, 7, &error), &error);
        fill(&d);
        OL_CHECK_OK(try_end(d.log, 7, OL_CONTROL_ABORT, 1700000000000, &error), &error);
        bool over = ol_fault_fs_operations(d.fs) < done + nth;
        check_opened_again(&d, 1);
        remove_disk(&d);
        if (over) break;
    }
    OL_CHECK(refused >= 2);
}

/* Full from each operation of a roll on: the ends are in the old segment, or in the next. */
OL_TEST(a_roll_takes_the_space_along_or_leaves_it) {
    int refused = 0;
    for (int64_t nth = 1;; nth++) {
        disk d;
        ol_error error;
        open_disk(&d);
        begin_many(d.log, MANY);
        ol_fault_fs_fill(d.fs, ol_fault_fs_operations(d.fs) + nth);
        int status = ol_log_roll_active(d.log, &error);
        OL_CHECK(status == OL_OK || status == OL_DISK_FULL);
        refused += status != OL_OK;
        OL_CHECK_INT(ol_log_kept_ends(d.log), MANY);
        bool over = !ol_fault_fs_is_full(d.fs);
        fill(&d);
        (void)append_until_full(d.log);
        abort_many(d.log, 0, MANY);
        OL_CHECK_INT(aborted_in(d.log), MANY);
        check_opened_again(&d, MANY);
        remove_disk(&d);
        if (over) break;
    }
    OL_CHECK(refused > 5);
}

OL_TEST(an_end_does_without_a_roll_that_the_full_disk_refuses) {
    disk d;
    ol_error error;
    open_disk(&d);
    begin_many(d.log, 2);
    fill(&d);
    /* A week later the segment is old. */
    int64_t later = 1700000000000 + d.p.options.config.segment_ms + 1;
    OL_CHECK_OK(try_end(d.log, 100, OL_CONTROL_ABORT, later, &error), &error);
    OL_CHECK_INT(d.log->list.count, 1);
    give_space(&d);
    OL_CHECK_OK(try_end(d.log, 101, OL_CONTROL_ABORT, later, &error), &error);
    OL_CHECK_INT(d.log->list.count, 2);
    check_opened_again(&d, 2);
    remove_disk(&d);
}

OL_TEST(transactions_of_an_earlier_process_are_kept_for_or_end_with_space) {
    for (int with_space = 0; with_space < 2; with_space++) {
        disk d;
        ol_error error;
        open_disk(&d);
        begin_many(d.log, MANY);
        fixture_close(d.log);
        d.log = fixture_open(&d.p.options, NULL);
        OL_CHECK_INT(ol_log_kept_ends(d.log), 0);
        if (!with_space) fill(&d);
        OL_CHECK_INT(ol_log_keep_ends(d.log, &error), with_space ? OL_OK : OL_DISK_FULL);
        OL_CHECK_INT(ol_log_kept_ends(d.log), with_space ? MANY : 0);
        if (!with_space) {
            int64_t end = ol_log_end(d.log);
            OL_CHECK_INT(try_end(d.log, 100, OL_CONTROL_ABORT, 1700000000000, &error), OL_DISK_FULL);
            OL_CHECK_INT(ol_log_end(d.log), end);
            give_space(&d);
            /* The next that begins keeps for all. */
            OL_CHECK_OK(try_begin(d.log, 100 + MANY, &error), &error);
            OL_CHECK_INT(ol_log_kept_ends(d.log), MANY + 1);
            abort_many(d.log, MANY, MANY + 1);
        }
        fill(&d);
        (void)append_until_full(d.log);
        abort_many(d.log, 0, MANY);
        check_opened_again(&d, MANY + !with_space);
        remove_disk(&d);
    }
}

OL_TEST(a_twelfth_of_a_segment_is_kept_at_most) {
    disk d;
    ol_error error;
    open_disk(&d);
    int most = (int)(d.p.options.config.segment_bytes / 12 / OL_BATCH_MARKER_SIZE);
    begin_many(d.log, most);
    for (int i = most; i < most + 10; i++) OL_CHECK_OK(try_begin(d.log, 100 + i, &error), &error);
    OL_CHECK_INT(ol_log_kept_ends(d.log), most);
    /* A batch that does not fit beside it is refused, and one that fits is not. */
    fixture_batch batch = fixture_plain(0, 1);
    batch.value_size = ol_log_batch_bytes_max(&d.p.options.config) - fixture_batch_size(&batch) - 5;
    OL_CHECK_OK(fixture_try_append(d.log, &batch, &error), &error);
    batch.value_size += OL_BATCH_MARKER_SIZE + 10;
    OL_CHECK_INT(fixture_try_append(d.log, &batch, &error), OL_TOO_LARGE);
    fill(&d);
    abort_many(d.log, 0, most);
    int64_t end = ol_log_end(d.log);
    int status = OL_OK;
    for (int i = most; i < most + 10 && status == OL_OK; i++) {
        end = ol_log_end(d.log);
        status = try_end(d.log, 100 + i, OL_CONTROL_ABORT, 1700000000000, &error);
    }
    OL_CHECK(status == OL_OK || (status == OL_DISK_FULL && ol_log_end(d.log) == end));
    OL_CHECK(!ol_log_has_failed(d.log));
    give_space(&d);
    fixture_close(d.log);
    remove_disk(&d);
}

/* The kept space shows in no file once the segment is closed. */
OL_TEST(what_was_kept_is_given_back) {
    disk d;
    open_disk(&d);
    begin_many(d.log, 2);
    OL_CHECK_INT(fixture_size(d.p.path, "00000000000000000000.txnindex"), 0);
    OL_CHECK_INT(ol_log_roll_active(d.log, &(ol_error){0}), OL_OK);
    OL_CHECK(!fixture_exists(d.p.path, "00000000000000000000.txnindex"));
    abort_many(d.log, 0, 1);
    OL_CHECK_INT(fixture_size(d.p.path, "00000000000000000002.txnindex"), OL_TRANSACTION_INDEX_ENTRY_SIZE);
    fixture_close(d.log);
    OL_CHECK_INT(fixture_size(d.p.path, "00000000000000000002.txnindex"), OL_TRANSACTION_INDEX_ENTRY_SIZE);
    OL_CHECK_INT(fixture_size(d.p.path, "00000000000000000002.log"), OL_BATCH_MARKER_SIZE);
    remove_disk(&d);
    open_disk(&d);
    begin_many(d.log, 2);
    fixture_close(d.log);
    OL_CHECK(!fixture_exists(d.p.path, "00000000000000000000.txnindex"));
    remove_disk(&d);
}

/* A follower gets markers as bytes, and keeps nothing for them. */
OL_TEST(a_follower_is_refused_whole_batches_on_a_full_disk) {
    int refused = 0;
    for (int64_t nth = 1;; nth++) {
        disk leader, follower;
        ol_error error;
        size_t size;
        open_disk(&leader);
        open_disk(&follower);
        begin_many(leader.log, 40);
        abort_many(leader.log, 0, 40);
        uint8_t *bytes = fixture_read_log(leader.log, 0, 1 << 20, &size);
        append_many(follower.log, 0, 100);
        ol_fault_fs_fill(follower.fs, ol_fault_fs_operations(follower.fs) + nth);
        int status = ol_log_append(follower.log, bytes, size, &error);
        bool over = !ol_fault_fs_is_full(follower.fs);
        OL_CHECK(status == OL_OK || status == OL_DISK_FULL);
        OL_CHECK(!ol_log_has_failed(follower.log));
        if (status != OL_OK) {
            refused++;
            OL_CHECK_INT(ol_log_end(follower.log), 0);
            give_space(&follower);
            OL_CHECK_OK(ol_log_append(follower.log, bytes, size, &error), &error);
        }
        OL_CHECK_INT(aborted_in(follower.log), 40);
        free(bytes);
        check_opened_again(&follower, 40);
        check_opened_again(&leader, 40);
        remove_disk(&follower);
        remove_disk(&leader);
        if (over) break;
    }
    OL_CHECK(refused > 1);
}

/* Bytes of several segments: what came before the disk was full is cut again, or stays. */
OL_TEST(a_follower_keeps_whole_batches_where_a_full_disk_refuses_the_cut) {
    int refused = 0, stayed = 0;
    for (int64_t nth = 1;; nth++) {
        disk leader, follower;
        ol_error error;
        size_t size;
        open_disk(&leader);
        open_disk(&follower);
        for (int i = 0; i < 3; i++) {
            begin_many(leader.log, 2);
            append_many(leader.log, 6, 40000);
            abort_many(leader.log, 0, 2);
        }
        uint8_t *bytes = fixture_read_log(leader.log, 0, 1 << 20, &size);
        OL_CHECK((int64_t)size > 2 * follower.p.options.config.segment_bytes);
        ol_fault_fs_fill(follower.fs, ol_fault_fs_operations(follower.fs) + nth);
        int status = ol_log_append(follower.log, bytes, size, &error);
        bool over = !ol_fault_fs_is_full(follower.fs);
        OL_CHECK(status == OL_OK || status == OL_DISK_FULL);
        OL_CHECK(!ol_log_has_failed(follower.log));
        refused += status != OL_OK;
        stayed += status != OL_OK && ol_log_end(follower.log) > 0;
        size_t there;
        uint8_t *found = fixture_read_log(follower.log, 0, 1 << 20, &there);
        OL_CHECK(there <= size && memcmp(found, bytes, there) == 0);
        give_space(&follower);
        OL_CHECK_OK(ol_log_append(follower.log, bytes + there, size - there, &error), &error);
        free(found);
        free(bytes);
        check_opened_again(&follower, 6);
        check_opened_again(&leader, 6);
        remove_disk(&follower);
        remove_disk(&leader);
        if (over) break;
    }
    OL_CHECK(refused > stayed && stayed > 0);
}

OL_TEST(a_truncation_on_a_full_disk_is_made_or_refused) {
    int refused = 0;
    for (int64_t nth = 1;; nth++) {
        disk d;
        ol_error error;
        open_disk(&d);
        OL_CHECK_OK(ol_log_assign_epoch(d.log, 1, &error), &error);
        append_many(d.log, 10, 60000);
        if (nth % 2 == 0) flush(d.log);
        OL_CHECK_OK(ol_log_assign_epoch(d.log, 2, &error), &error);
        ol_fault_fs_fill(d.fs, ol_fault_fs_operations(d.fs) + (nth + 1) / 2);
        int status = ol_log_truncate(d.log, 4, &error);
        bool over = !ol_fault_fs_is_full(d.fs);
        refused += status != OL_OK;
        OL_CHECK(status == OL_OK || status == OL_DISK_FULL);
        OL_CHECK(!ol_log_has_failed(d.log));
        OL_CHECK_INT(ol_log_end(d.log), status == OL_OK ? 4 : 10);
        OL_CHECK_INT(fixture_count(d.p.path, "offsetlog.cut-"), 0);
        size_t size;
        free(fixture_read_log(d.log, 0, 1 << 20, &size));
        give_space(&d);
        if (status != OL_OK) OL_CHECK_OK(ol_log_truncate(d.log, 4, &error), &error);
        append_many(d.log, 2, 100);
        check_opened_again(&d, 0);
        remove_disk(&d);
        if (over && nth % 2 == 0) break;
    }
    OL_CHECK(refused >= 2);
}

OL_TEST_MAIN()
