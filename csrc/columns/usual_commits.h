/* columns/usual_commits: makes rows of many commits at a time, column by column.
 *
 * This is the fast path of columns/record_scan.  It first reads a number of commits that have the
 * form of format/usual_commit, and then fills each wanted column for all of these commits.  A
 * record that may have another form is left to the slow path of the scan, which reads one record at
 * a time.  The two paths give the same rows.
 *
 * Ownership: the functions keep nothing after they return.  They take no locks.
 */
#ifndef OL_COLUMNS_USUAL_COMMITS_H
#define OL_COLUMNS_USUAL_COMMITS_H

#include "columns/record_block.h"
#include "format/batch.h"
#include "format/usual_commit.h"

enum { OL_USUAL_COMMITS_MAX = 64 };

typedef struct ol_usual_commits {
    ol_usual_commit commits[OL_USUAL_COMMITS_MAX];
    size_t count;
    int32_t read_count;         /* records read, whether or not the filter selected them */
    int32_t last_delta;         /* offset delta of the last record read */
    const uint8_t *cursor;      /* where the walk continues after them */
} ol_usual_commits;

/* Values that are the same for all rows of a batch. */
typedef struct ol_usual_rows {
    const char *outcome;
    int64_t marker_offset;      /* -1: none */
    int32_t log_partition;
} ol_usual_rows;

/* Returns whether the scan selects a commit.  `context` is the pointer that the caller passed to
 * ol_usual_commits_read. */
typedef bool ol_usual_filter(const void *context, const ol_usual_commit *commit);

/* Reads commits from the cursor of a walk over an uncompressed batch of magic 2, without moving the
 * cursor, and keeps those that `filter` selects.  If `filter` is NULL, it keeps all.  The read ends
 * when `count_max` or OL_USUAL_COMMITS_MAX commits were kept, at the end of the batch, or at the
 * first record that may have another form. */
void ol_usual_commits_read(ol_usual_commits *commits, const ol_records *records, size_t count_max,
                           ol_usual_filter *filter, const void *context);

/* Moves the walk past the records that were read. */
static inline void ol_usual_commits_pass(const ol_usual_commits *commits, ol_records *records) {
    records->cursor = commits->cursor;
    records->previous_offset = records->base + commits->last_delta;
    records->remaining -= commits->read_count;
}

/* Appends a row for each commit to a block with columns of OL_VIEW_COMMITS.  The caller ensures
 * that the block has space for the rows.  Fails with OL_NO_MEMORY or OL_LIMIT as
 * columns/record_block does, or with OL_UNSUPPORTED if the block has a column that only the slow
 * path can fill.  After a failure no row was appended. */
int ol_usual_commits_put(const ol_usual_commits *commits, const ol_batch *batch,
                         const ol_usual_rows *rows, ol_record_block *block,
                         ol_error *error) OL_NODISCARD;

#endif
