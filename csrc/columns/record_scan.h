/* columns/record_scan: the records of a .log file as rows, within bounds of log offsets.
 *
 * A scan starts at a file position and needs only the batches from there on: no other part of the
 * log, no table and no state.  A damaged batch never leaves half of its rows.  The structure of a
 * batch is checked before a block with its first row is returned, even if its rows fill several
 * blocks.
 *
 * Ownership: the file scan, the decompressor and the memory of the slices belong to the caller and
 * outlive the record scan.  Locks: none, one thread.
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
    const ol_transaction_outcomes *outcomes;  /* NULL until OL_WOULD_BLOCK asks for it */
    const char *const *kinds;  /* kind_count names of records by key type, NULL for unknown types */
    size_t kind_count;
    ol_slice segment;                   /* name of the file */
    int64_t first;                      /* log offsets below it are left out */
    int64_t until;                      /* log offsets at or above it are left out, too */
    int64_t next_offset;                /* no batch begins below it; advances with the scan */
    int64_t segment_base;               /* no batch begins below it; 0: not known */
    int64_t segment_limit;              /* no batch reaches it: the base of the next segment; 0:
                                           not known */
    int64_t count_from;
    /* how many log offsets of [count_from, until), from `first` on, have a record, asked for or
     * not */
    int64_t present;
    int32_t log_partition;
    ol_record_view view;
    /* only records of this group, topic and partition; data NULL: of any.  The view of batches
     * ignores them */
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
    /* Whether the structure of all records of the batch was checked.  If not, all of its rows are
     * in the current block, and if the walk meets damage, they are removed with these values: */
    bool is_checked;
    size_t first_row;  /* the batch's first row in the block; below: the counts before it */
    int64_t present_before;
    int64_t next_before;
} ol_record_scan;

/* Fills `block` until the next row may not fit (OL_OK), or until the end of the file scan or the
 * log offset `until` is reached (OL_END: file_scan->position is after the last batch read).  Rows
 * of earlier batches stay, whatever the result.
 *
 *   OL_WOULD_BLOCK   the next batch belongs to a transaction, outcomes are wanted, and there are
 *                    none yet: set them and call again;
 *   OL_CORRUPT, OL_TORN, OL_UNSUPPORTED, OL_LIMIT
 *                    damage at file_scan->position, and that batch gave no row; or, with *refused
 *                    set, one record at log offset error->offset that a broker would not load:
 *                    the next call continues after it;
 *   OL_IO, OL_NO_MEMORY.
 */
int ol_record_scan_fill(ol_record_scan *scan, ol_record_block *block, bool *refused,
                        ol_error *error) OL_NODISCARD;

/* Closes the open batch, if there is one. */
void ol_record_scan_close(ol_record_scan *scan);

#endif
