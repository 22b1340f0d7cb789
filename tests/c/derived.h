/* derived: what a log derives from its batches, compared with another log of the same batches, and with the batches. */
#ifndef DERIVED_H
#define DERIVED_H

#include "log/file_scan.h"
#include "log/log_impl.h"
#include "log/segment_checksum.h"
#include "log_fixture.h"

/* Producers, open and aborted transactions, epochs. */
OL_UNUSED static void derived_equal(ol_log *a, ol_log *b) {
    ol_log_transaction left, right;
    for (size_t i = 0;; i++) {
        bool more = ol_log_open_transaction_at(a, i, &left);
        OL_CHECK_INT(ol_log_open_transaction_at(b, i, &right), more);
        if (!more) break;
        OL_CHECK_INT(left.producer_id, right.producer_id);
        OL_CHECK_INT(left.first_offset, right.first_offset);
        OL_CHECK_INT(left.last_timestamp, right.last_timestamp);
    }
    OL_CHECK_INT(a->producers.map.count, b->producers.map.count);
    OL_CHECK_INT(a->producers.highest_id, b->producers.highest_id);
    OL_CHECK_INT(a->epochs.cache.count, b->epochs.cache.count);
    OL_CHECK_INT(ol_leader_epochs_newest(&a->epochs.cache), ol_leader_epochs_newest(&b->epochs.cache));
    OL_CHECK_INT(a->list.count, b->list.count);
    const ol_transaction_index *x = &a->tail.active->transaction_index, *y = &b->tail.active->transaction_index;
    OL_CHECK_INT(x->count, y->count);
    OL_CHECK(x->count == 0 || memcmp(x->entries, y->entries, x->count * sizeof *x->entries) == 0);
    OL_CHECK(a->tail.active->has_checksum && b->tail.active->has_checksum);
    OL_CHECK_INT(a->tail.active->checksum, b->tail.active->checksum);
    OL_CHECK_INT(a->tail.active->first_timestamp, b->tail.active->first_timestamp);
    OL_CHECK_INT(a->tail.active->max_timestamp, b->tail.active->max_timestamp);
    OL_CHECK_INT(a->tail.active->max_timestamp_offset, b->tail.active->max_timestamp_offset);
}

/* The indexes of the active segment name its batches, and the time index their greatest timestamps. */
OL_UNUSED static void derived_true(ol_log *log) {
    ol_segment *active = log->tail.active;
    ol_file_scan scan;
    ol_batch batch;
    ol_error error;
    int64_t timestamp = -1, offset = active->base_offset, found_offset, found;
    OL_CHECK_OK(ol_index_check(&active->offset_index, log->tail.size, log->tail.next_offset, &error), &error);
    OL_CHECK_OK(ol_index_check(&active->time_index, log->tail.size, log->tail.next_offset, &error), &error);
    OL_CHECK_OK(ol_file_scan_open(&scan, log->fs, active->path, 0, log->tail.size, &error), &error);
    int64_t before = -1;
    for (;;) {
        int64_t position = scan.position;
        if (ol_file_scan_next(&scan, &batch, &error) != OL_OK) break;
        if (batch.max_timestamp > timestamp) {
            timestamp = batch.max_timestamp;
            offset = batch.last_offset;
        }
        OL_CHECK_OK(ol_offset_index_lookup(&active->offset_index, batch.last_offset, &found_offset, &found, &error), &error);
        /* An entry is new, and of this batch, or an earlier one. */
        if (found_offset == batch.last_offset) OL_CHECK_INT(found, position);
        OL_CHECK(found <= position && found >= before);
        before = found;
        int64_t time, time_offset;
        OL_CHECK_OK(ol_time_index_lookup(&active->time_index, timestamp, &time, &time_offset, &error), &error);
        /* The greatest timestamp so far, or an earlier one. */
        OL_CHECK(time == timestamp ? time_offset == offset : time < timestamp && time_offset <= offset);
    }
    OL_CHECK_INT(scan.position, log->tail.size);
    int64_t last, last_offset;
    OL_CHECK_OK(ol_time_index_lookup(&active->time_index, INT64_MAX, &last, &last_offset, &error), &error);
    OL_CHECK(last <= timestamp);
    OL_CHECK_INT(active->max_timestamp, timestamp);
    OL_CHECK_INT(active->max_timestamp_offset, offset);
    ol_file_scan_close(&scan);
}

#endif
