/* columns/usual_commits.c: reads commits of the usual form, and fills each column in a loop. */
#include "columns/usual_commits.h"

#include <string.h>

void ol_usual_commits_read(ol_usual_commits *commits, const ol_records *records, size_t count_max,
                           ol_usual_filter *filter, const void *context) {
    const uint8_t *p = records->cursor, *limit = records->limit;
    /* Offsets grow and lie within the batch; the delta of a record has 32 bits. */
    int64_t last = records->batch.last_offset - records->base;
    int64_t previous = records->previous_offset - records->base;
    size_t count = 0;
    int32_t read_count = 0;
    if (count_max > OL_USUAL_COMMITS_MAX) count_max = OL_USUAL_COMMITS_MAX;
    while (count < count_max && read_count < records->remaining) {
        ol_usual_commit *commit = &commits->commits[count];
        const uint8_t *after = ol_usual_commit_read(p, limit, commit);
        if (OL_UNLIKELY(after == NULL || commit->offset_delta <= previous ||
                        commit->offset_delta > last)) {
            break;
        }
        previous = commit->offset_delta;
        p = after;
        read_count++;
        if (filter == NULL || filter(context, commit)) count++;
    }
    commits->count = count;
    commits->read_count = read_count;
    commits->cursor = p;
    commits->last_delta = (int32_t)previous;
}

/* -------------------------------------------------------------------------------------- columns */

static int64_t *int64_rows(const ol_record_block *block, ol_column column) {
    return (int64_t *)(void *)block->arrays[column].data + block->count;
}

static int32_t *int32_rows(const ol_record_block *block, ol_column column) {
    return (int32_t *)(void *)block->arrays[column].data + block->count;
}

static void fill_int64(ol_record_block *block, ol_column column, int64_t value, size_t count) {
    int64_t *rows = int64_rows(block, column);
    for (size_t i = 0; i < count; i++) rows[i] = value;
}

static void fill_int32(ol_record_block *block, ol_column column, int32_t value, size_t count) {
    int32_t *rows = int32_rows(block, column);
    for (size_t i = 0; i < count; i++) rows[i] = value;
}

static void put_timestamps(const ol_usual_commits *commits, const ol_batch *batch,
                           ol_record_block *block) {
    int64_t *rows = int64_rows(block, OL_COLUMN_TIMESTAMP);
    if ((batch->attributes & OL_ATTRIBUTE_LOG_APPEND_TIME) != 0) {
        fill_int64(block, OL_COLUMN_TIMESTAMP, batch->max_timestamp, commits->count);
        return;
    }
    /* The sum wraps, as in ol_records_next. */
    for (size_t i = 0; i < commits->count; i++) {
        rows[i] = (int64_t)((uint64_t)batch->base_timestamp +
                            (uint64_t)(int64_t)commits->commits[i].timestamp_delta);
    }
}

static int put_texts(const ol_usual_commits *commits, ol_column column, ol_record_block *block,
                     ol_slice (*text_of)(const ol_usual_commit *commit), ol_error *error) {
    ol_slice texts[OL_USUAL_COMMITS_MAX];
    for (size_t i = 0; i < commits->count; i++) texts[i] = text_of(&commits->commits[i]);
    return ol_record_block_append_strings(block, column, texts, commits->count, error);
}

static int repeat_text(const ol_usual_commits *commits, ol_column column, ol_record_block *block,
                       const char *text, ol_error *error) {
    ol_slice texts[OL_USUAL_COMMITS_MAX], slice = ol_slice_of(text, strlen(text));
    for (size_t i = 0; i < commits->count; i++) texts[i] = slice;
    return ol_record_block_append_strings(block, column, texts, commits->count, error);
}

/* Returns whether a column has no value in any of the rows. */
static bool is_null(const ol_usual_rows *constants, ol_column column) {
    return column == OL_COLUMN_TOPIC_ID ||
           (column == OL_COLUMN_MARKER_OFFSET && constants->marker_offset < 0);
}

/* Fills one wanted column, except the bits that say which rows are null. */
static int put_column(const ol_usual_commits *commits, const ol_batch *batch,
                      const ol_usual_rows *constants, ol_column column, ol_record_block *block,
                      ol_error *error) {
    const ol_usual_commit *commit = commits->commits;
    size_t count = commits->count;
    switch (column) {
    case OL_COLUMN_OFFSET: {
        int64_t *rows = int64_rows(block, column);
        for (size_t i = 0; i < count; i++) rows[i] = ol_usual_commit_offset(&commit[i]);
        return OL_OK;
    }
    case OL_COLUMN_PARTITION: {
        int32_t *rows = int32_rows(block, column);
        for (size_t i = 0; i < count; i++) rows[i] = ol_usual_commit_partition(&commit[i]);
        return OL_OK;
    }
    case OL_COLUMN_LEADER_EPOCH: {
        int32_t *rows = int32_rows(block, column);
        for (size_t i = 0; i < count; i++) rows[i] = ol_usual_commit_leader_epoch(&commit[i]);
        return OL_OK;
    }
    case OL_COLUMN_COMMIT_TIMESTAMP: {
        int64_t *rows = int64_rows(block, column);
        for (size_t i = 0; i < count; i++) rows[i] = ol_usual_commit_timestamp(&commit[i]);
        return OL_OK;
    }
    case OL_COLUMN_LOG_OFFSET: {
        int64_t *rows = int64_rows(block, column);
        for (size_t i = 0; i < count; i++) rows[i] = batch->base_offset + commit[i].offset_delta;
        return OL_OK;
    }
    case OL_COLUMN_TIMESTAMP:
        put_timestamps(commits, batch, block);
        return OL_OK;
    case OL_COLUMN_EXPIRE_TIMESTAMP:
        fill_int64(block, column, -1, count);
        return OL_OK;
    case OL_COLUMN_PRODUCER_ID:
        fill_int64(block, column, batch->producer_id, count);
        return OL_OK;
    case OL_COLUMN_PRODUCER_EPOCH:
        fill_int32(block, column, batch->producer_epoch, count);
        return OL_OK;
    case OL_COLUMN_LOG_PARTITION:
        fill_int32(block, column, constants->log_partition, count);
        return OL_OK;
    case OL_COLUMN_MARKER_OFFSET:
        fill_int64(block, column, is_null(constants, column) ? 0 : constants->marker_offset, count);
        return OL_OK;
    case OL_COLUMN_GROUP:
        return put_texts(commits, column, block, ol_usual_commit_group, error);
    case OL_COLUMN_TOPIC:
        return put_texts(commits, column, block, ol_usual_commit_topic, error);
    case OL_COLUMN_METADATA:
        return put_texts(commits, column, block, ol_usual_commit_metadata, error);
    case OL_COLUMN_KIND:
        return repeat_text(commits, column, block, "commit", error);
    case OL_COLUMN_OUTCOME:
        return repeat_text(commits, column, block, constants->outcome, error);
    case OL_COLUMN_TOPIC_ID:
        return repeat_text(commits, column, block, "", error);
    default:
        return ol_fail(error, OL_UNSUPPORTED, "the column %s can only be filled one row at a time",
                       ol_column_name(column));
    }
}

int ol_usual_commits_put(const ol_usual_commits *commits, const ol_batch *batch,
                         const ol_usual_rows *rows, ol_record_block *block, ol_error *error) {
    for (size_t i = 0; i < block->column_count; i++) {
        int status = put_column(commits, batch, rows, block->columns[i], block, error);
        if (OL_UNLIKELY(status != OL_OK)) return status;
    }
    /* Set only now, so that a failure leaves the bits of rows that were not added unchanged. */
    for (size_t i = 0; i < block->column_count; i++) {
        ol_column column = block->columns[i];
        ol_record_block_mark(block, column, commits->count, !is_null(rows, column));
    }
    block->count += commits->count;
    return OL_OK;
}
