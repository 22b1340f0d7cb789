/* A partition as the owner of a log that is cleaned.  It reports the limit below which no record
 * can be truncated or aborted any more, flushes the log, and keeps loads from running during a swap
 * of segments. */
#include "cleaner/cleaner_impl.h"
#include "log/transaction_spans.h"

static int check_role(const ol_clean_scope *scope, ol_error *error) {
    if (!ol_log_is_writable(scope->log) && scope->options.sink == NULL) {
        return ol_fail(error, OL_READ_ONLY, "the log is open read-only");
    }
    switch (ol_partition_role(scope->partition)) {
        case OL_ROLE_ACTIVE:
        case OL_ROLE_FOLLOWER:
            return OL_OK;
        case OL_ROLE_UNLOADED:
            if (ol_partition_get_options(scope->partition)->replicated) return OL_OK;
            return ol_fail(error, OL_LOADING, "the partition is not loaded");
        case OL_ROLE_LOADING:
            return ol_fail(error, OL_LOADING, "the partition is loading");
        case OL_ROLE_FAILED:
            return ol_fail(error, OL_FAILED, "the partition failed and must be opened again");
    }
    OL_ASSERT(!"a partition has a role");
    return OL_OK;
}

/* A transaction that the log calls ended may have its marker above W.  The state knows the
 * transactions that are open at W; if no state is loaded, the log is walked. */
static int find_open_at_watermark(ol_clean_scope *scope, int64_t watermark, ol_error *error) {
    int64_t first;
    int status = ol_log_open_since(scope->log, watermark, &first, error);
    if (status == OL_OK) ol_clean_lower_limit(scope, first);
    bool was_cut = ol_log_cuts(scope->log) != scope->cuts;
    return status != OL_OK && was_cut ? OL_NOT_COORDINATOR : status;
}

/* Nothing below the limit can be undone, neither by a truncation nor by the end of a
 * transaction. */
static int find_limit(ol_clean_scope *scope, int64_t *log_end, ol_error *error) {
    ol_partition_view now;
    ol_pending_producer pending;
    ol_partition_lock_writer(scope->partition, &now);
    int status = check_role(scope, error);
    bool is_loaded = ol_partition_role(scope->partition) != OL_ROLE_UNLOADED;
    if (status == OL_OK) {
        scope->cuts = ol_log_cuts(scope->log);
        *log_end = ol_log_end(scope->log);
        scope->limit = ol_log_first_unstable(scope->log);
        ol_clean_lower_limit(scope, now.watermark);
        if (is_loaded && ol_pending_producer_at(now.state->pending, 0, &pending)) {
            ol_clean_lower_limit(scope, pending.first_log_offset);
        }
        status = ol_log_producers_copy(scope->log, &scope->producers, &scope->producer_count,
                                       error);
    }
    ol_partition_unlock_writer(scope->partition);
    if (status == OL_OK && !is_loaded) {
        status = find_open_at_watermark(scope, now.watermark, error);
    }
    return status;
}

/* No commit waits for this flush, so it counts as unasked: commits must not cost more after a clean
 * than before it. */
static int flush(const ol_clean_scope *scope, int64_t log_end, ol_error *error) {
    int64_t flushed = 0;
    int status = ol_log_flush_unasked(scope->log, &flushed, error);
    if (ol_log_has_failed(scope->log)) {
        ol_partition_fail(scope->partition);
    } else if (status != OL_OK) {
        return status;
    }
    /* The log is flushed now, unless the partition failed, or the log was truncated since
     * find_limit read its end. */
    return ol_partition_wait(scope->partition, log_end, OL_TERM_NOW, OL_WAIT_FLUSHED, -1, error);
}

static int hold_swap(const ol_clean_scope *scope, ol_error *error) {
    return ol_partition_hold_loads(scope->partition, error);
}

static void release_swap(const ol_clean_scope *scope) {
    ol_partition_release_loads(scope->partition);
}

int ol_clean_partition(ol_partition *partition, const ol_clean_options *options,
                       ol_clean_surveyor *surveyor, ol_clean_report *report, ol_error *error) {
    static const ol_clean_owner owner = {find_limit, flush, hold_swap, release_swap};
    const ol_clean_scope scope = {
        .owner = &owner,
        .partition = partition,
        .surveyor = surveyor,
        .log = ol_partition_log(partition),
        .log_options = &ol_partition_get_options(partition)->log,
    };
    return ol_clean_log(&scope, options, report, error);
}

int ol_cleaner_run(ol_partition *partition, const ol_clean_options *options,
                   ol_clean_report *report, ol_error *error) {
    return ol_clean_partition(partition, options, NULL, report, error);
}
