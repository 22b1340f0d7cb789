/* log/view: the segments that a log has at one moment.  They can be read as long as the view is
 * open, even if they are rolled, cleaned or truncated in the meantime.
 *
 * If a log is cleaned while it is replayed, the replay must not mix segments from before a swap
 * with segments from after it: an old segment may contain a value whose tombstone, or whose ABORT
 * marker, is missing from a new one.  A view prevents this, because it contains the segments of one
 * moment.  It contains the bytes that were below the log end when it was opened, and also the bytes
 * that have been appended to its last segment since then.
 *
 * Let A be the log offset below which everything had been applied when the view was opened.  A
 * replay of the view up to A, or up to a higher offset that has been applied since, gives the state
 * at that offset.  No record is missing from the view because a record above A superseded it.
 *
 * A view keeps no file open, because a log may have more segments than a process has descriptors.
 * A scan opens the file by its name.  If a segment leaves the log, its file is kept open for the
 * views that contain it.  At most OL_KEPT_FILES_MAX files are kept (log/segment.h).  The scan of a
 * segment that has left the log and whose file was not kept fails.
 *
 * Threads: only one thread uses a view.  Other views, commits, swaps and truncations continue at
 * the same time.  A view must be closed before its log. */
#ifndef OL_LOG_VIEW_H
#define OL_LOG_VIEW_H

#include "log/log.h"
#include "log/file_scan.h"

typedef struct ol_log_view ol_log_view;

typedef struct ol_log_view_segment {
    int64_t base_offset;
    int64_t size;               /* present size in whole batches; the last segment may still grow */
    const char *path;           /* the name that the file had when the view was opened; another file
                                   may have this name by now */
} ol_log_view_segment;

/* Opens a view of a log that is open for writing.  Fails with OL_READ_ONLY for any other log,
 * because another process may truncate its files.  Fails with OL_FAILED after a failed truncation,
 * and with OL_NO_MEMORY. */
int ol_log_view_open(ol_log *log, ol_log_view **view, ol_error *error) OL_NODISCARD;

/* Finds the segment at `index`, which counts the segments of the view from 0 in ascending order.
 * Returns false if no segment has this index. */
bool ol_log_view_at(const ol_log_view *view, size_t index, ol_log_view_segment *segment);

/* Starts a scan of all bytes of the segment at `index` from `position` on.  The segment must exist
 * in the view, and the view must stay open at least as long as the scan.  Fails with OL_IO, or with
 * OL_NO_SUCH_FILE if the segment has left the log and its file was not kept.  After a failure the
 * caller need not close the scan. */
int ol_log_view_scan(const ol_log_view *view, size_t index, int64_t position, ol_file_scan *scan,
                     ol_error *error) OL_NODISCARD;

/* Returns whether the view still shows the log.  The result is false if, since the view was opened,
 * the log was truncated or a segment of the view was replaced or removed. */
bool ol_log_view_is_current(const ol_log_view *view);

void ol_log_view_close(ol_log_view *view);      /* NULL is fine */

#endif
