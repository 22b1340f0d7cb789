/* columns/record_scan: the records of a .log file as rows, from a position on and within bounds of log offsets.
 *
 * A reader that knows nothing of the rest of the log: no table, no state, only batches in their order.  Half a batch is never told: its structure is checked
 * before its first record becomes a row, although its rows may fill several blocks.
 *
 * The caller owns the scan, the decompressor and what the slices point to, for as long as it uses this.  One thread.
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
    ol_file_scan *scan;
    const ol_decompressor *decompressor;
    const ol_transaction_outcomes *outcomes;        /* NULL as long as nobody asked; see OL_WOULD_BLOCK */
    const char *const *kinds;           /* names of records by key type, kind_count of them, NULL for types that are not known */
    size_t kind_count;
    ol_slice segment;                   /* name of the file */
    int64_t first;                      /* log offsets below are left out */
    int64_t until;                      /* and those from here on */
    int64_t next_offset;                /* no batch begins below; moves with the scan */
    int64_t count_from;
    int64_t present;                    /* how many log offsets of [count_from, until) and at or above `first` have a record; whatever is looked for */
    int32_t log_partition;
    ol_record_view view;
    ol_slice group;                     /* only this one; data NULL: all, likewise the topic; the views of records and batches look at no topic */
    ol_slice topic;
    int32_t partition;                  /* -1: all */
    ol_key_shard bucket;
    bool wants_outcomes;
    /* of the batch that is being told */
    ol_records records;
    int64_t position;
    int64_t base_offset;
    const char *outcome;
    int64_t marker_offset;              /* -1: none */
    bool is_open;
} ol_record_scan;

/* Fills `rows` until they are full (OL_OK), or the scan's limit or `until` is reached (OL_END: scan->position is behind the last batch that was looked at).
 *
 *   OL_WOULD_BLOCK   the next batch belongs to a transaction, outcomes are wanted, and there are none yet: set them and go on;
 *   OL_CORRUPT, OL_TORN, OL_UNSUPPORTED, OL_LIMIT   damage at scan->position, and nothing of that batch was told; or, with *refused set, one record, of
 *                    which error->offset is the log offset, which a broker would not load: a further call goes on behind it;
 *   OL_IO, OL_NO_MEMORY.
 * What was filled in before stays, whatever is returned. */
int ol_record_scan_fill(ol_record_scan *work, ol_record_block *rows, bool *refused, ol_error *error) OL_NODISCARD;

/* Lets go of the batch that is being told, if there is one. */
void ol_record_scan_close(ol_record_scan *work);

#endif
