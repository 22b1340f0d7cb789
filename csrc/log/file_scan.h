/* log/file_scan: walks the batches of one .log file, read with pread into its own buffer.
 *
 * Recovery, rebuilding of indexes and replay of producer state read the log with a scan.  It also
 * works on files that another process may shorten meanwhile.  Bytes are hostile: a batch is only
 * returned when all of its bytes are there and its sizes hold.
 *
 * If the disk cannot read some bytes, the bytes before them can still be read: every call returns
 * what it can.  The call that needs the unreadable bytes fails with OL_IO, and the error names the
 * first of them. */
#ifndef OL_LOG_FILE_SCAN_H
#define OL_LOG_FILE_SCAN_H

#include "base/base.h"
#include "base/bytes.h"
#include "format/batch.h"
#include "log/batch_rules.h"
#include "fs/fs.h"
#include "base/status.h"

typedef struct ol_file_scan {
    ol_fs *fs;
    ol_file *file;
    bool owns_file;
    bool passes_unreadable;     /* a search continues after bytes that the disk cannot read */
    int64_t position;           /* of the next batch */
    int64_t limit;              /* bytes of the file that count */
    uint8_t *buffer;
    size_t capacity;
    int64_t buffer_position;    /* file position of buffer[0] */
    size_t buffer_size;
    int64_t budget;             /* bytes whose CRC may still be computed in vain; a caller with
                                   many scans carries it from one to the next */
    int64_t claimed_end;        /* a batch found below this position is within bytes that a bad
                                   batch claims as its own; -1: none */
} ol_file_scan;

/* CRCs over hostile lengths could make a search quadratic; after this many bytes without a hit the
 * rest counts as lost. */
#define OL_FILE_SCAN_BUDGET ((int64_t)1 << 32)

/* Opens a scan of the file `path`, which must exist; limit -1: of the whole file as it is now.
 * After a failure there is nothing to close. */
int ol_file_scan_open(ol_file_scan *scan, ol_fs *fs, const char *path, int64_t position,
                      int64_t limit, ol_error *error) OL_NODISCARD;
void ol_file_scan_close(ol_file_scan *scan);

/* Like ol_file_scan_open, for an open file, whose first `limit` bytes count.  If the scan `owns`
 * the file, closing the scan closes the file; otherwise the caller keeps it open at least as long
 * as the scan. */
void ol_file_scan_start(ol_file_scan *scan, ol_fs *fs, ol_file *file, bool owns, int64_t position,
                        int64_t limit);

/* Returns the batch at scan->position and moves the position past it.  *batch is valid until the
 * next call; its CRC is not checked.  OL_END: the position is exactly at the limit.  OL_TORN,
 * OL_CORRUPT and OL_UNSUPPORTED are those of ol_batch_parse; scan->position stays.  Fails also with
 * OL_IO and OL_NO_MEMORY. */
int ol_file_scan_next(ol_file_scan *scan, ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Moves past the bad batch at `position` to the next right one: its CRC holds, and its offsets are
 * in [offset_min, offset_max]; scan->position is then that of the batch found.  OL_END: there is
 * none.  OL_IO: the disk cannot read some bytes.  With scan->passes_unreadable the search continues
 * after such bytes instead, in steps that double until something can be read, because every attempt
 * may take seconds.
 *
 * The bytes of a record may hold whole batches, which must not be found.  So the length of the bad
 * batch is believed if it leads to a batch, right or wrong, or to the end of the written bytes.
 * Only if it leads to neither is every byte tried; that search finds no messages of magic 0 and
 * 1. */
int ol_file_scan_resync(ol_file_scan *scan, int64_t position, int64_t offset_min,
                        int64_t offset_max, ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Sets *successor to the base offset in the header that follows *batch, also after the limit.
 * *batch is the last one from ol_file_scan_next; it stays whole but may be moved.  *found is false
 * if the file has too few bytes or they cannot be read. */
int ol_file_scan_follower(ol_file_scan *scan, ol_batch *batch, int64_t *successor, bool *found,
                          ol_error *error) OL_NODISCARD;

/* A cheap test for hot paths: returns whether the offsets of *batch, the last one from
 * ol_file_scan_next, fit what is known without reading more.  A batch that fails needs
 * ol_file_scan_judge. */
static inline bool ol_file_scan_fits(const ol_file_scan *scan, const ol_batch *batch,
                                     const ol_batch_bounds *bounds) {
    if (batch->last_offset >= bounds->limit || batch->base_offset < bounds->segment_base ||
        batch->base_offset < bounds->next_offset) {
        return false;
    }
    if (batch->base_offset == bounds->next_offset) return true;
    const uint8_t *follower = batch->data + batch->size;
    size_t left = (size_t)(scan->buffer + scan->buffer_size - follower);
    return left >= sizeof(int64_t) &&
           ol_load_i64(follower + OL_BATCH_AT_BASE_OFFSET) > batch->last_offset;
}

/* Judges the offsets of the last batch from ol_file_scan_next.  The last offset must be below the
 * limit of the bounds.  For magic 2 there are two more rules: the base offset is not below that of
 * the segment, and no whole batch that follows shows that it is wrong, even one after the limit of
 * the scan.  The CRC is checked only if the offsets look wrong.  In `bounds`, next_offset may be
 * less than the end of the batch before, and segment_base is 0 if it is not known.  Returns
 * OL_CORRUPT with the reason, otherwise OL_OK, also if the bytes that would show the fault cannot
 * be read.  *batch stays whole but may be moved. */
int ol_file_scan_judge(ol_file_scan *scan, ol_batch *batch, const ol_batch_bounds *bounds,
                       ol_error *error) OL_NODISCARD;

/* Sets *used to the position after the last byte of [position, limit) that is not zero, or to
 * `position` when all are zeros. */
int ol_file_scan_used(ol_file_scan *scan, int64_t position, int64_t *used,
                      ol_error *error) OL_NODISCARD;

#endif
