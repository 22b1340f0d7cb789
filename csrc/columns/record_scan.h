/* columns/record_scan: reads the records of a .log file in a range of log offsets as rows.
 *
 * A scan starts at a position in the file and reads the batches from there on.  It needs no other
 * part of the log, no table and no state.  If the structure of a batch is damaged, a scan returns
 * no row of that batch.  It therefore checks the structure of the whole batch before it returns the
 * block with the batch's first row, even if the rows fill several blocks.
 *
 * Ownership: the file scan, the decompressor and the memory of the slices belong to the caller and
 * outlive the record scan.  A scan takes no locks; one thread uses it.
 */
#ifndef OL_COLUMNS_RECORD_SCAN_H
#define OL_COLUMNS_RECORD_SCAN_H

#include "format/key_shard.h"
#include "columns/transaction_outcomes.h"
#include "columns/record_block.h"
#include "log/file_scan.h"

typedef enum ol_record_view {
    OL_VIEW_COMMITS,            /* offset commits and their tombstones */
    OL_VIEW_RECORDS,            /* every record, markers included */
    OL_VIEW_BATCHES,            /* headers only */
} ol_record_view;

typedef struct ol_record_scan {
    ol_file_scan *file_scan;
    const ol_decompressor *decompressor;
    const ol_transaction_outcomes *outcomes;  /* NULL until the caller sets them (OL_WOULD_BLOCK) */
    const char *const *kinds;  /* kind_count names of records by key type, NULL for unknown types */
    size_t kind_count;
    ol_slice segment;                   /* name of the file */
    int64_t first;                      /* records below this log offset are left out */
    int64_t until;                      /* records at or above this offset are left out */
    int64_t next_offset;                /* the next batch is expected at or above it */
    int64_t segment_base;               /* a batch that begins below it is damage; 0: not known */
    /* base offset of the next segment: a batch with an offset at or above it is damage; 0:
     * not known */
    int64_t segment_limit;
    int64_t count_from;
    /* the number of records that the scan has read at log offsets that are at or above both `first`
     * and count_from, and below `until`; it includes records that the filters below leave out */
    int64_t present;
    int32_t log_partition;
    ol_record_view view;
    /* the scan returns only records of this group, topic and partition; a group or topic whose data
     * is NULL selects all.  OL_VIEW_BATCHES ignores these filters */
    ol_slice group;
    ol_slice topic;
    int32_t partition;                  /* -1: all */
    ol_key_shard shard;
    bool wants_outcomes;
    bool one_at_a_time;                 /* tests: do not use the fast path */
    /* of the open batch */
    ol_records records;
    int64_t position;
    int64_t base_offset;
    const char *outcome;
    int64_t marker_offset;              /* -1: none */
    bool is_open;
    bool takes_many;                    /* the fast path reads it (columns/usual_commits) */
    /* Whether the structure of all records of the batch has been checked.  As long as it has not,
     * all rows of the batch are in the current block.  If the walk then meets damage, the scan
     * removes these rows, with the values below. */
    bool is_checked;
    size_t first_row;                   /* the batch's first row in the block */
    /* `present` and `next_offset` before the batch */
    int64_t present_before;
    int64_t next_before;
} ol_record_scan;

/* Fills `block` with rows.  Returns OL_OK when the next row may not fit the block.  Returns OL_END
 * when the scan has reached the end of the file scan or the log offset `until`; file_scan->position
 * is then after the last batch read.  Whatever the result, the block keeps the rows of earlier
 * batches.  The other results are:
 *
 *   OL_WOULD_BLOCK   The next batch belongs to a transaction, scan->wants_outcomes is true, and
 *                    scan->outcomes is NULL.  The caller sets the outcomes and calls again.
 *   OL_CORRUPT, OL_TORN, OL_UNSUPPORTED, OL_LIMIT
 *                    If *refused is false, there is damage at file_scan->position, and the block
 *                    has no row of that batch.  If *refused is true, a broker would not load the
 *                    record at log offset error->offset.  The next call continues after it.
 *   OL_IO, OL_NO_MEMORY   The file could not be read, or memory ran out.
 */
int ol_record_scan_fill(ol_record_scan *scan, ol_record_block *block, bool *refused,
                        ol_error *error) OL_NODISCARD;

/* Closes the open batch, if there is one. */
void ol_record_scan_close(ol_record_scan *scan);

#endif
