/* log/file_scan: walks the batches of one .log file, read with pread into its own buffer.
 *
 * Recovery, the rebuilding of indexes and the replay of producer state use a scan to read the log.
 * A scan also works on a file that another process may shorten at the same time.  It does not trust
 * the bytes: it returns a batch only if all bytes of the batch are present and all sizes in its
 * header are possible.
 *
 * If the disk cannot read some bytes, the scan still returns every batch that ends before them.
 * The call that needs the unreadable bytes fails with OL_IO, and error->position is the position of
 * the first of them. */
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
    bool passes_unreadable;  /* if true, a search goes on after bytes that the disk cannot read */
    int64_t position;           /* of the next batch */
    int64_t limit;              /* bytes of the file that count */
    uint8_t *buffer;
    size_t capacity;
    int64_t buffer_position;    /* file position of buffer[0] */
    size_t buffer_size;
    /* The number of bytes that searches may still read in vain (OL_FILE_SCAN_BUDGET).  A caller
     * that opens several scans passes the rest of the budget from one scan to the next. */
    int64_t budget;
    /* The end of the bytes that a bad batch claims by its length field, as a file position.  A
     * batch that a search finds below it lies within these bytes. -1: there is no such bad
     * batch. */
    int64_t claimed_end;
} ol_file_scan;

/* The initial budget of a scan.  A search computes a CRC wherever the bytes look like a batch.  If
 * the length fields are hostile, the number of bytes in these CRCs could grow with the square of
 * the size of the file.  Therefore each CRC that turns out wrong is deducted from the budget.  When
 * the budget is used up, the search stops, and the rest of the file counts as lost. */
#define OL_FILE_SCAN_BUDGET ((int64_t)1 << 32)

/* Opens a scan of the file `path`, which must exist.  If `limit` is -1, the scan covers the whole
 * file as it is now.  After a failure the caller need not close the scan. */
int ol_file_scan_open(ol_file_scan *scan, ol_fs *fs, const char *path, int64_t position,
                      int64_t limit, ol_error *error) OL_NODISCARD;
void ol_file_scan_close(ol_file_scan *scan);

/* Starts a scan of an open file.  The scan covers the first `limit` bytes.  If `owns` is true,
 * closing the scan closes the file.  Otherwise the caller must keep the file open at least as long
 * as the scan. */
void ol_file_scan_start(ol_file_scan *scan, ol_fs *fs, ol_file *file, bool owns, int64_t position,
                        int64_t limit);

/* Returns the batch at scan->position, and moves scan->position to the end of the batch.  The CRC
 * of the batch is not checked.  *batch is valid until the next call.  Returns OL_END if
 * scan->position is at the limit.  Fails as ol_batch_parse does, with OL_TORN, OL_CORRUPT or
 * OL_UNSUPPORTED, or with OL_IO or OL_NO_MEMORY.  A call that fails does not change
 * scan->position. */
int ol_file_scan_next(ol_file_scan *scan, ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Searches for the next good batch after the bad batch at `position`.  A good batch has a correct
 * CRC, and all of its offsets are in [offset_min, offset_max].  Sets scan->position to the position
 * of the batch that was found.  Returns OL_END if there is no such batch.
 *
 * If the disk cannot read some bytes, the search fails with OL_IO.  If scan->passes_unreadable is
 * set, it goes on after these bytes instead.  It skips them in steps, of which each is twice as
 * long as the one before, because every attempt to read such bytes may take seconds.
 *
 * A record may contain bytes that look like a whole batch, and the search must not find these.  It
 * therefore trusts the length field of the bad batch if this length leads to another batch, good or
 * bad, or to the end of the written bytes.  If the length leads to neither, the search tries every
 * byte.  It then finds no messages of magic 0 and 1. */
int ol_file_scan_resync(ol_file_scan *scan, int64_t position, int64_t offset_min,
                        int64_t offset_max, ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Sets *successor to the base offset in the header that follows *batch, even if this header is
 * after the limit.  *batch must be the batch that ol_file_scan_next returned last.  The batch stays
 * valid, but the call may move it in memory and change *batch.  *found is set to false if no whole
 * base offset follows in the file, or if it cannot be read. */
int ol_file_scan_follower(ol_file_scan *scan, ol_batch *batch, int64_t *successor, bool *found,
                          ol_error *error) OL_NODISCARD;

/* A cheap test for code that runs for every batch, which reads no further bytes.  *batch must be
 * the batch that ol_file_scan_next returned last.  If the test returns true, the offsets of the
 * batch fit the bounds.  If it returns false, the caller must call ol_file_scan_judge. */
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

/* Checks the offsets of the batch that ol_file_scan_next returned last.  Returns OL_CORRUPT with
 * the reason if one of these rules is broken:
 * - The last offset must be below the limit of the bounds.
 * - For magic 2, the base offset must not be below the base offset of the segment.
 * - For magic 2, if a whole batch follows, even after the limit of the scan, it must not show that
 *   the base offset is too high (ol_batch_passes_successor).
 * Otherwise returns OL_OK, also if the bytes that would show the fault cannot be read.  The CRC is
 * checked only if the offsets look wrong.
 *
 * In `bounds`, next_offset may be less than the end of the batch before, and segment_base is 0 if
 * it is not known.  The batch stays valid, but the call may move it in memory and change *batch. */
int ol_file_scan_judge(ol_file_scan *scan, ol_batch *batch, const ol_batch_bounds *bounds,
                       ol_error *error) OL_NODISCARD;

/* Sets *used to the position after the last byte of [position, limit) that is not zero.  If all
 * bytes are zero, *used is `position`. */
int ol_file_scan_used(ol_file_scan *scan, int64_t position, int64_t *used,
                      ol_error *error) OL_NODISCARD;

#endif
