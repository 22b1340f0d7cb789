/* log/view: the segments of a log at one moment, kept readable, whatever is rolled, cleaned or
 * truncated afterwards.
 *
 * A replay of a log that is cleaned meanwhile must not mix segments from before a swap with
 * segments from after it: the older ones may hold a value whose tombstone, or ABORT marker, is
 * missing from the newer ones.  A view is one state of the log's list.  A replay of the view up to
 * an offset gives the state below that offset, if the offset had been applied when the view was
 * opened, or was applied later.  Nothing in the view was cleaned because of records above the
 * offset.  A view holds the bytes that were below the log end when it was opened, and those
 * appended to its last segment since then.
 *
 * A view keeps no file descriptors, because a log may have more segments than a process has
 * descriptors.  A scan opens the file by its name, and a segment that leaves the log keeps its file
 * for the views that hold it.  At most OL_KEPT_FILES_MAX files are kept (log/segment.h); a scan of
 * any other segment that has left the log fails.
 *
 * Threads: one thread uses a view; other views, commits, swaps and truncations continue meanwhile.
 * A view is closed before its log is. */
#ifndef OL_LOG_VIEW_H
#define OL_LOG_VIEW_H

#include "log/log.h"
#include "log/file_scan.h"

typedef struct ol_log_view ol_log_view;

typedef struct ol_log_view_segment {
    int64_t base_offset;
    int64_t size;               /* whole batches, now: the last segment may still grow */
    const char *path;           /* the file's name when the view was opened; another file may have
                                   this name by now */
} ol_log_view_segment;

/* Opens a view of a log that is open for writing.  OL_READ_ONLY for any other, because another
 * process may truncate the files of a read-only log.  Fails with OL_FAILED after a truncation that
 * failed, OL_NO_MEMORY. */
int ol_log_view_open(ol_log *log, ol_log_view **view, ol_error *error) OL_NODISCARD;

/* Returns the segment at `index`, from 0 on, in ascending order; false after the last. */
bool ol_log_view_at(const ol_log_view *view, size_t index, ol_log_view_segment *segment);

/* Scans all bytes of the segment at `index`, which must be there, from a position on; the view
 * stays open at least as long.  Fails with OL_IO, or with OL_NO_SUCH_FILE when the segment left the
 * log and its file was not kept; then there is nothing to close. */
int ol_log_view_scan(const ol_log_view *view, size_t index, int64_t position, ol_file_scan *scan,
                     ol_error *error) OL_NODISCARD;

/* Returns false if the log was truncated, or one of the view's segments was replaced by a cleaned
 * one since the view was opened. */
bool ol_log_view_is_current(const ol_log_view *view);

void ol_log_view_close(ol_log_view *view);      /* NULL is fine */

#endif
