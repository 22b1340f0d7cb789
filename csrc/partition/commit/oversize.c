/* Writes items that do not fit one batch.  They are sorted by group and written in batches of whole
 * groups.  A group that does not fit one batch is written as a transaction of the store's own
 * (docs/architecture.md §2.3, §4). */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "partition/commit/commit_impl.h"

/* Offset delta and record length may both take more bytes than with delta 0. */
enum { RECORD_DELTA_SLACK = 2 * (OL_UVARINT_MAX - 1) };

static int compare_groups(const void *a, const void *b) {
    const ol_planned *left = a, *right = b;
    size_t common = left->item->group.size < right->item->group.size ? left->item->group.size
                                                                     : right->item->group.size;
    int order = common > 0 ? memcmp(left->item->group.data, right->item->group.data, common) : 0;
    if (order != 0) return order;
    if (left->item->group.size != right->item->group.size) {
        return left->item->group.size < right->item->group.size ? -1 : 1;
    }
    /* The caller's order within a group: the last of two equal keys wins. */
    return left->item < right->item ? -1 : left->item > right->item;
}

/* Returns the end of the run of items from `from` on that belong to one group. */
static size_t end_of_group(const ol_commit *work, size_t from) {
    size_t to = from + 1;
    while (to < work->count &&
           ol_slice_equal(work->planned[to].item->group, work->planned[from].item->group)) {
        to++;
    }
    return to;
}

/* Returns an upper bound of a record's size, wherever it is in a batch. */
static size_t bound_of_record(const ol_commit *work, size_t index) {
    return ol_commit_record_size(work, &work->planned[index], 0) + RECORD_DELTA_SLACK;
}

/* Returns the end of a batch that begins at item `from`: it takes as many items as fit one batch,
 * but at least one, and none at or after `limit`. */
static size_t end_of_batch(const ol_commit *work, size_t from, size_t limit) {
    size_t size = OL_BATCH_OVERHEAD + OL_COMMIT_HEADERS_MAX;
    size_t to = from;
    while (to < limit) {
        size += bound_of_record(work, to);
        if (size > work->partition->options.batch_bytes_max && to > from) break;
        to++;
    }
    return to;
}

static int write_part(ol_commit *work, size_t from, size_t to, ol_error *error) {
    uint8_t *start;
    int64_t base_offset;
    ol_commit_plan_headers(work);
    size_t size = ol_commit_batch_size(work, from, to);
    int status = ol_commit_reserve_place(work, size, to - from, &start, &base_offset, error);
    if (status == OL_OK) {
        ol_commit_encode(work, from, to, start, size);
        status = ol_commit_publish(work, from, to, start, size, base_offset, error);
    }
    if (status != OL_OK) return status;
    if (work->result->base_offset < 0) work->result->base_offset = base_offset;
    work->result->end_offset = base_offset + (int64_t)(to - from);
    work->result->written += to - from;
    return OL_OK;
}

/* Returns a producer id that is above every one in the log and is never used twice.  It is made
 * from the time and, if that does not suffice, from a counter. */
static int64_t next_own_producer_id(ol_commit *work) {
    ol_partition *partition = work->partition;
    int64_t id = OL_OWN_PRODUCER_ID_MIN + (work->timestamp << 16);
    int64_t highest = ol_log_highest_producer_id(partition->log);
    if (partition->own.last_producer_id > highest) highest = partition->own.last_producer_id;
    if (id <= highest && highest < INT64_MAX) id = highest + 1;
    if (highest == INT64_MAX) id = -1;      /* a producer of another program took the last id */
    if (id > 0) partition->own.last_producer_id = id;
    return id;
}

/* Called when the log has an open transaction of the store's own that the state does not have.  In
 * a store without replicas, the end of the transaction may have met a full disk, because too many
 * transactions are open to keep space for all ends.  The next write then ends the transaction.  In
 * every other case the next load ends it. */
static int leave_open(ol_partition *partition, int status) {
    if (status == OL_DISK_FULL && !partition->options.replicated) {
        partition->leadership.ready = false;
    } else {
        ol_partition_fail(partition);
    }
    return status;
}

/* Writes the COMMIT of a transaction of the store's own.  In a store without replicas, applies all
 * its values at once, together with W.  In a replicated partition they are applied when W passes
 * the marker. */
static int commit_own(ol_commit *work, size_t from, size_t to, ol_error *error) {
    ol_partition *partition = work->partition;
    ol_commit_result marker;
    uint8_t *start;
    int status;
    if (!ol_partition_applies_at_once(partition)) {
        status = ol_partition_write_marker(partition, work->producer_id, work->producer_epoch,
                                           OL_CONTROL_COMMIT, 0, &marker, error);
    } else {
        status = ol_partition_append_marker(partition, work->producer_id, work->producer_epoch,
                                            OL_CONTROL_COMMIT, 0, &start, &marker, error);
        if (status == OL_OK) status = ol_commit_apply_deferred(work, from, to, error);
    }
    if (status != OL_OK) return leave_open(partition, status);
    work->result->end_offset = marker.end_offset;
    return OL_OK;
}

/* Writes a group that does not fit one batch: the batches of a transaction of the store's own and
 * its COMMIT, or an ABORT if a batch could not be written. */
static int write_own_transaction(ol_commit *work, size_t from, size_t to, ol_error *error) {
    ol_partition *partition = work->partition;
    int status = ol_own_transactions_open(&partition->own.open, work->producer_id, error);
    if (status != OL_OK) return status;
    for (size_t next = from; next < to && status == OL_OK;) {
        size_t end = end_of_batch(work, next, to);
        status = write_part(work, next, end, error);
        next = end;
    }
    if (status == OL_OK) return commit_own(work, from, to, error);
    if (partition->role == OL_ROLE_FAILED) return status;       /* the next load closes it */
    ol_log_transaction begun;
    if (!ol_log_find_transaction(partition->log, work->producer_id, &begun)) {
        ol_own_transactions_close(&partition->own.open, work->producer_id);
        return status;
    }
    ol_commit_result marker;
    ol_error ignored;
    int ended = ol_partition_write_marker(partition, work->producer_id, work->producer_epoch,
                                          OL_CONTROL_ABORT, 0, &marker, &ignored);
    if (ended != OL_OK) (void)leave_open(partition, ended);
    return status;
}

/* Allocates the space for everything first, so that a full disk is met before the first byte. */
static int reserve_for_parts(ol_commit *work, ol_error *error) {
    size_t size = 0;
    for (size_t i = 0; i < work->count; i++) size += bound_of_record(work, i);
    size_t per_batch = OL_BATCH_OVERHEAD + OL_COMMIT_HEADERS_MAX + OL_BATCH_MARKER_SIZE;
    size_t batches = 2 + 2 * size / work->partition->options.batch_bytes_max;
    for (size_t i = 0; i < work->count; i = end_of_group(work, i)) batches++;
    int64_t total = (int64_t)(size + batches * per_batch);
    return ol_log_reserve_space(work->partition->log, total,
                                work->partition->options.batch_bytes_max, error);
}

static int check_parts(const ol_commit *work, ol_error *error) {
    const ol_partition *partition = work->partition;
    if (work->has_tombstones) {
        return ol_fail(error, OL_TOO_LARGE,
                       "%zu records do not fit one batch of %zu bytes; some are tombstones or "
                       "group records, which must not be split over several batches",
                       work->count, partition->options.batch_bytes_max);
    }
    if (partition->role != OL_ROLE_ACTIVE) {
        return ol_partition_refuse(work->partition, OL_LOADING, error, "the partition is loading");
    }
    for (size_t i = 0; i < work->count; i++) {
        size_t size = OL_BATCH_OVERHEAD + OL_COMMIT_HEADERS_MAX + bound_of_record(work, i);
        if (size > partition->options.batch_bytes_max) {
            return ol_fail(error, OL_TOO_LARGE,
                           "a record of %zu bytes is larger than batch_bytes_max, %zu", size,
                           partition->options.batch_bytes_max);
        }
    }
    return OL_OK;
}

/* Returns the end of a batch of whole groups that begins at item `from`: as many groups as fit one
 * batch.  Returns `from` if not even the first group fits. */
static size_t end_of_whole_groups(const ol_commit *work, size_t from) {
    size_t size = OL_BATCH_OVERHEAD + OL_COMMIT_HEADERS_MAX;
    size_t end = from;
    while (end < work->count) {
        size_t next = end_of_group(work, end);
        for (size_t i = end; i < next; i++) size += bound_of_record(work, i);
        if (size > work->partition->options.batch_bytes_max) break;
        end = next;
    }
    return end;
}

static int write_group_in_transaction(ol_commit *work, size_t from, size_t to, ol_error *error) {
    int64_t producer_id = next_own_producer_id(work);
    if (producer_id < 0) {
        return ol_fail(error, OL_LIMIT,
                       "these positions need a transaction, because they exceed one batch, but "
                       "the log already uses the largest producer id; commit fewer positions at "
                       "once");
    }
    work->producer_id = producer_id;
    work->producer_epoch = 0;
    work->own_transaction = true;
    int status = write_own_transaction(work, from, to, error);
    work->own_transaction = false;
    work->producer_id = -1;
    return status;
}

static int write_groups(ol_commit *work, ol_error *error) {
    int status = OL_OK;
    for (size_t from = 0; from < work->count && status == OL_OK;) {
        size_t end = end_of_whole_groups(work, from);
        if (end > from) {
            status = write_part(work, from, end, error);
        } else {
            end = end_of_group(work, from);
            status = write_group_in_transaction(work, from, end, error);
        }
        from = end;
    }
    return status;
}

int ol_commit_write_parts(ol_commit *work, ol_error *error) {
    int status = check_parts(work, error);
    if (status != OL_OK) return status;
    qsort(work->planned, work->count, sizeof *work->planned, compare_groups);
    status = reserve_for_parts(work, error);
    if (status == OL_OK) status = ol_commit_reserve_all(work, error);
    if (status != OL_OK) return status;
    *work->result =
        (ol_commit_result){.base_offset = -1, .timestamp = work->timestamp, .rests_on = -1};
    if (work->producer_id >= 0) {
        for (size_t from = 0; from < work->count && status == OL_OK;) {
            size_t end = end_of_batch(work, from, work->count);
            status = write_part(work, from, end, error);
            from = end;
        }
    } else {
        status = write_groups(work, error);
    }
    if (status != OL_OK) ol_commit_release(work, 0);
    return status;
}
