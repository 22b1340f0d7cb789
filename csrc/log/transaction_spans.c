/* Finds the transactions that are open at an offset: it loads a producer snapshot below the offset
 * and walks the log from there. */
#include "log/transaction_spans.h"

#include <string.h>

#include "log/log_impl.h"
#include "log/batch_walk.h"

/* Returns the base of the last segment that begins below `offset`, -1 if there is none. */
static int64_t base_below(const ol_log *log, int64_t offset) {
    ol_log_segment_info info;
    int64_t base = -1;
    for (size_t i = 0; ol_log_segment_at(log, i, &info) && info.base_offset < offset; i++) {
        base = info.base_offset;
    }
    return base;
}

/* Loads the newest snapshot of producers at or below an offset, among those at bases of segments;
 * *from is where the walk continues.  Without a snapshot it walks from the log start. */
static int load_snapshot(const ol_log *log, int64_t offset, ol_producers *producers, int64_t *from,
                         ol_error *error) {
    for (int64_t base = base_below(log, offset + 1); base > 0; base = base_below(log, base)) {
        char path[OL_PATH_MAX];
        int status = ol_segment_path(path, sizeof path, log->directory, base, ".snapshot", error);
        if (status == OL_OK) status = ol_producers_load(producers, log->fs, path, error);
        *from = base;
        if (status == OL_OK || status == OL_NO_MEMORY || status == OL_IO) return status;
    }
    *from = ol_log_start(log);
    return OL_OK;
}

/* Finds the producers as they were at an offset. */
static int producers_at(ol_log *log, int64_t offset, ol_producers *producers, ol_error *error) {
    ol_batch_walk walk;
    ol_batch batch;
    int64_t from;
    int status = load_snapshot(log, offset, producers, &from, error);
    if (status == OL_OK) status = ol_batch_walk_open(&walk, log, from, offset, true, error);
    if (status != OL_OK) return status;
    while ((status = ol_batch_walk_next(&walk, &batch, error)) == OL_OK) {
        if (batch.producer_id < 0) continue;
        status = ol_producers_apply(producers, &batch, NULL, error);
        /* A marker that does not decode ends nothing. */
        if (status != OL_OK && status != OL_CORRUPT && status != OL_UNSUPPORTED) break;
    }
    ol_batch_walk_close(&walk);
    return status == OL_END ? OL_OK : status;
}

int ol_log_open_since(ol_log *log, int64_t offset, int64_t *first, ol_error *error) {
    ol_producers producers;
    memset(&producers, 0, sizeof producers);
    int status = producers_at(log, offset, &producers, error);
    int64_t oldest = ol_producers_first_open_offset(&producers);
    *first = oldest >= 0 && oldest < offset ? oldest : offset;
    ol_producers_free(&producers);
    return status;
}

/* Walks on until all transactions open at `offset` have ended, or the log has. */
static int follow(ol_log *log, int64_t offset, int64_t until, ol_producers *producers, int64_t *end,
                  ol_error *error) {
    ol_batch_walk walk;
    ol_batch batch;
    ol_producers_change change;
    int status = ol_batch_walk_open(&walk, log, offset, until, true, error);
    if (status != OL_OK) return status;
    while (status == OL_OK) {
        int64_t oldest = ol_producers_first_open_offset(producers);
        if (oldest < 0 || oldest >= offset) break;
        status = ol_batch_walk_next(&walk, &batch, error);
        if (status != OL_OK || batch.producer_id < 0) continue;
        change.completed = false;
        status = ol_producers_apply(producers, &batch, &change, error);
        if (status == OL_CORRUPT || status == OL_UNSUPPORTED) status = OL_OK;
        if (status == OL_OK && change.completed && change.transaction.first_offset < offset) {
            *end = ol_batch_next_offset(&batch);
        }
    }
    ol_batch_walk_close(&walk);
    return status == OL_END ? OL_OK : status;
}

int ol_log_ended_by(ol_log *log, int64_t offset, int64_t until, int64_t *end, ol_error *error) {
    ol_producers producers;
    memset(&producers, 0, sizeof producers);
    *end = offset;
    int status = producers_at(log, offset, &producers, error);
    if (status == OL_OK) status = follow(log, offset, until, &producers, end, error);
    ol_producers_free(&producers);
    return status;
}
