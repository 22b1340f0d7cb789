/* Runs one commit (docs/architecture.md §4): plans it and checks its conditions, reserves bytes in
 * the log, encodes the batch, reserves the memory that applying it will need, publishes the batch,
 * and applies it. */
#include <stdlib.h>
#include <string.h>

#include "partition/commit/commit_impl.h"

enum {
    STACK_ITEMS = 4,                    /* small commits plan on the stack */
    SCRATCH_ITEMS_MAX = 4096,           /* planned items that stay allocated between commits */
};

static int write_one_batch(ol_commit *work, size_t size, ol_error *error) {
    uint8_t *start;
    int64_t base_offset;
    int status = ol_commit_reserve_place(work, size, work->count, &start, &base_offset, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    /* Encoding comes before reserving memory, so that the cells of the table arrive in the cache
     * meanwhile. */
    if (work->count <= STACK_ITEMS && !work->partition->load_runs) ol_commit_prefetch(work);
    ol_commit_encode(work, 0, work->count, start, size);
    status = ol_commit_reserve_all(work, error);
    if (OL_UNLIKELY(status != OL_OK)) {
        memset(start, 0, size);     /* bytes after the log end are zeros */
        return status;
    }
    status = ol_commit_publish(work, 0, work->count, start, size, base_offset, error);
    if (OL_UNLIKELY(status != OL_OK)) {
        ol_commit_release(work, 0);
        return status;
    }
    *work->result = (ol_commit_result){.base_offset = base_offset,
                                       .end_offset = base_offset + (int64_t)work->count,
                                       .timestamp = work->timestamp,
                                       .written = work->count,
                                       .rests_on = -1};
    return OL_OK;
}

static int ensure_planned(ol_partition *partition, size_t count, ol_error *error) {
    if (count <= partition->scratch.planned_capacity) return OL_OK;
    ol_planned *planned = realloc(partition->scratch.planned, count * sizeof *planned);
    if (planned == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory to plan a commit of %zu records", count);
    }
    partition->scratch.planned = planned;
    partition->scratch.planned_capacity = count;
    return OL_OK;
}

size_t ol_commit_scratch_bytes(const ol_commit_scratch *scratch) {
    return scratch->planned_capacity * sizeof *scratch->planned +
           scratch->row_capacity * sizeof *scratch->rows +
           scratch->run_capacity * sizeof *scratch->runs;
}

void ol_commit_scratch_free(ol_commit_scratch *scratch) {
    free(scratch->planned);
    free(scratch->rows);
    free(scratch->runs);
    *scratch = (ol_commit_scratch){0};
}

/* A commit of millions must not keep its scratch for ever. */
static void release_scratch(ol_partition *partition) {
    if (partition->scratch.planned_capacity <= SCRATCH_ITEMS_MAX) return;
    free(partition->scratch.planned);
    partition->scratch.planned = NULL;
    partition->scratch.planned_capacity = 0;
}

/* A producer with an epoch below the one in the log may no longer write (docs/format/coordinator.md
 * §5.2). */
static int check_producer_epoch(const ol_partition *partition, int64_t producer_id,
                                int16_t producer_epoch, ol_error *error) {
    int16_t known_epoch;
    int32_t coordinator_epoch;
    if (producer_id < 0 ||
        !ol_log_producer(partition->log, producer_id, &known_epoch, &coordinator_epoch)) {
        return OL_OK;
    }
    if (producer_epoch >= known_epoch) return OL_OK;
    return ol_fail(error, OL_FENCED, "producer epoch %d is older than %d, the newest in the log",
                   producer_epoch, known_epoch);
}

/* Returns whether the items are compared with the latest written values. */
static bool compares(const ol_item *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (items[i].condition != OL_CONDITION_NONE ||
            items[i].kind == OL_ITEM_POSITION_TOMBSTONE || items[i].kind == OL_ITEM_GENERATION) {
            return true;
        }
    }
    return false;
}

/* Checks the conditions of planning, and sets the time of the commit. */
static int begin(ol_commit *work, bool compares, ol_error *error) {
    ol_partition *partition = work->partition;
    bool state_needed = compares || work->producer_id >= 0;
    *work->result = (ol_commit_result){.base_offset = -1,
                                       .rests_on = -1,
                                       .end_offset = ol_log_end(partition->log)};
    int status = ol_partition_check_writable(partition, state_needed, error);
    if (status == OL_OK) {
        status = check_producer_epoch(partition, work->producer_id, work->producer_epoch, error);
    }
    if (status == OL_OK) status = ol_partition_ensure_ready(partition, error);
    if (status == OL_OK && compares) status = ol_partition_complete_overlay(partition, error);
    if (status == OL_OK) ol_commit_plan_time(work);
    return status;
}

/* Plans and writes a commit that did not take the fast path. */
static int plan_and_write(ol_commit *work, const ol_item *items, size_t count, ol_error *error) {
    int status = ol_commit_plan(work, items, count, error);
    if (status != OL_OK || work->count == 0) return status;
    size_t size = ol_commit_batch_size(work, 0, work->count);
    if (size + OL_COMMIT_HEADERS_MAX > work->partition->options.batch_bytes_max) {
        return ol_commit_write_parts(work, error);
    }
    /* Headers are made only when they will be written, because the log returns a flushed bound only
     * once. */
    ol_commit_plan_headers(work);
    if (work->header_count > 0) size = ol_commit_batch_size(work, 0, work->count);
    return write_one_batch(work, size, error);
}

static int commit_locked(ol_partition *partition, const ol_item *items, size_t count,
                         int64_t producer_id, int16_t producer_epoch, ol_commit_result *result,
                         ol_error *error) {
    ol_planned on_stack[STACK_ITEMS];
    ol_commit work = {.partition = partition,
                      .planned = on_stack,
                      .producer_id = producer_id,
                      .producer_epoch = producer_epoch,
                      .result = result};
    int status = begin(&work, compares(items, count), error);
    if (status != OL_OK) return status;
    bool done;
    status = ol_commit_fast_path(&work, items, count, &done, error);
    if (status != OL_OK || done) return status;
    if (count > STACK_ITEMS) {
        status = ensure_planned(partition, count, error);
        if (status != OL_OK) return status;
        work.planned = partition->scratch.planned;
    }
    status = plan_and_write(&work, items, count, error);
    release_scratch(partition);
    return status;
}

int ol_partition_commit_locked(ol_partition *partition, const ol_item *items, size_t count,
                               int64_t producer_id, int16_t producer_epoch,
                               ol_commit_result *result, ol_error *error) {
    int status = commit_locked(partition, items, count, producer_id, producer_epoch, result, error);
    result->term = partition->term;
    return status;
}

int ol_partition_commit(ol_partition *partition, const ol_item *items, size_t count,
                        int64_t producer_id, int16_t producer_epoch, ol_commit_result *result,
                        ol_error *error) {
    pthread_mutex_lock(&partition->writer);
    int status = ol_partition_commit_locked(partition, items, count, producer_id, producer_epoch,
                                            result, error);
    pthread_mutex_unlock(&partition->writer);
    return status;
}

static void fill_items(ol_item *items, const ol_row_run *runs, size_t run_count,
                       const ol_position_row *rows, size_t row_count) {
    for (size_t i = 0, row = 0; i < run_count; i++) {
        size_t end = i + 1 < run_count ? runs[i + 1].first_row : row_count;
        for (; row < end; row++) {
            const ol_position_value *value = &rows[row].value;
            items[row] = (ol_item){.kind = OL_ITEM_POSITION,
                                   .condition = OL_CONDITION_NONE,
                                   .group = runs[i].group,
                                   .topic = runs[i].topic,
                                   .partition = rows[row].partition,
                                   .offset = value->offset,
                                   .commit_timestamp = value->commit_timestamp,
                                   .expire_timestamp = value->expire_timestamp,
                                   .leader_epoch = value->leader_epoch,
                                   .metadata = value->metadata};
        }
    }
}

/* Commits rows that cannot take the fast path as items.  Under writer. */
static int commit_as_items(ol_partition *partition, const ol_row_run *runs, size_t run_count,
                           const ol_position_row *rows, size_t row_count, int64_t producer_id,
                           int16_t producer_epoch, ol_commit_result *result, ol_error *error) {
    ol_item *items = malloc(row_count * sizeof *items);
    if (items == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory to plan a commit of %zu records", row_count);
    }
    fill_items(items, runs, run_count, rows, row_count);
    int status = ol_partition_commit_locked(partition, items, row_count, producer_id,
                                            producer_epoch, result, error);
    free(items);
    return status;
}

int ol_partition_commit_rows(ol_partition *partition, const ol_row_run *runs, size_t run_count,
                             ol_position_row *rows, size_t row_count, int64_t producer_id,
                             int16_t producer_epoch, ol_commit_result *result, ol_error *error) {
    OL_ASSERT(run_count > 0 && row_count >= run_count);
    ol_commit work = {.partition = partition,
                      .producer_id = producer_id,
                      .producer_epoch = producer_epoch,
                      .result = result};
    pthread_mutex_lock(&partition->writer);
    int status = begin(&work, false, error);
    bool done = false;
    /* Values of a transaction wait for its end, which the fast path does not know. */
    if (status == OL_OK && producer_id < 0) {
        status = ol_commit_fast_path_rows(&work, runs, run_count, rows, row_count, &done, error);
    }
    if (status == OL_OK && !done) {
        status = commit_as_items(partition, runs, run_count, rows, row_count, producer_id,
                                 producer_epoch, result, error);
    }
    result->term = partition->term;
    pthread_mutex_unlock(&partition->writer);
    return status;
}

/* Tries a commit without waiting: plans it by touching memory only, and continues only if nothing
 * makes it wait.  The caller holds writer. */
static int try_locked(ol_partition *partition, const ol_item *items, size_t count,
                      ol_commit_result *result, ol_error *error) {
    ol_planned on_stack[STACK_ITEMS];
    ol_commit work = {.partition = partition,
                      .planned = on_stack,
                      .producer_id = -1,
                      .producer_epoch = -1,
                      .result = result,
                      .never_waits = true};
    if (partition->role != OL_ROLE_ACTIVE || partition->read_only ||
        !partition->leadership.ready) {
        return OL_WOULD_BLOCK;
    }
    if (!ol_partition_is_overlay_complete(partition) && compares(items, count)) {
        return OL_WOULD_BLOCK;
    }
    *result = (ol_commit_result){.base_offset = -1,
                                 .rests_on = -1,
                                 .end_offset = ol_log_end(partition->log)};
    ol_commit_plan_time(&work);
    bool done;
    int status = ol_commit_fast_path(&work, items, count, &done, error);
    if (status != OL_OK || done) return status;
    if (count > STACK_ITEMS) {
        if (count > partition->scratch.planned_capacity) return OL_WOULD_BLOCK;
        work.planned = partition->scratch.planned;
    }
    status = ol_commit_plan(&work, items, count, error);
    if (status != OL_OK || work.count == 0) return status;
    /* The size of the headers is counted before they are taken, because a refusal here must not use
     * up the flushed record. */
    size_t size = ol_commit_batch_size(&work, 0, work.count);
    bool prepared = size <= OL_COMMIT_TRY_BYTES_MAX &&
                    ol_log_is_prepared(partition->log, size + OL_COMMIT_HEADERS_MAX,
                                       (int32_t)work.count - 1, work.timestamp);
    if (!prepared) return OL_WOULD_BLOCK;
    if (pthread_mutex_trylock(&partition->table) != 0) return OL_WOULD_BLOCK;
    work.table_locked = true;
    ol_commit_plan_headers(&work);
    if (work.header_count > 0) size = ol_commit_batch_size(&work, 0, work.count);
    status = write_one_batch(&work, size, error);
    pthread_mutex_unlock(&partition->table);
    return status;
}

int ol_partition_try_commit(ol_partition *partition, const ol_item *items, size_t count,
                            ol_commit_result *result, ol_error *error) {
    if (pthread_mutex_trylock(&partition->writer) != 0) return OL_WOULD_BLOCK;
    int status = try_locked(partition, items, count, result, error);
    result->term = partition->term;
    pthread_mutex_unlock(&partition->writer);
    return status;
}
