/* log/segment_rewrite: writes a cleaned segment next to the closed segments that it was made from,
 * and then puts it in their place (docs/format/cleaner.md §8.4, §8.6).
 *
 * The segment is first written as `<base>.log.cleaned`, with its indexes.  Then
 * ol_segment_rewrite_swap puts it in place of the old segments.  Commits, rolls, flushes and reads
 * continue at the same time.  A reader that is in a replaced segment continues to read the old
 * bytes until it reaches the next segment.  After a crash at any moment, the log has either the old
 * segments or the new one, and never a mixture.  This holds whether offsetlog or Kafka recovers it.
 *
 * One thread uses an ol_segment_rewrite.  A log can have only one at a time.  It must be swapped or
 * discarded before the log is closed or abandoned. */
#ifndef OL_LOG_SEGMENT_REWRITE_H
#define OL_LOG_SEGMENT_REWRITE_H

#include "log/log.h"
#include "log/files/transaction_index.h"

typedef struct ol_segment_rewrite ol_segment_rewrite;

/* Begins an empty segment at `base_offset`, which must be the base offset of the first segment that
 * will be replaced.  `cuts` is the value that ol_log_cuts() had before the caller read the first
 * byte on which the new contents depend.  If the log has been truncated since then, the swap is
 * refused, because segments with the same base offsets may now hold other batches.  Fails with
 * OL_INVALID (the log already has an ol_segment_rewrite), OL_READ_ONLY, OL_FAILED (also if
 * leftovers of an earlier swap could not be removed), OL_IO, OL_DISK_FULL or OL_NO_MEMORY. */
int ol_segment_rewrite_start(ol_log *log, int64_t base_offset, uint64_t cuts,
                             ol_segment_rewrite **cleaned, ol_error *error) OL_NODISCARD;

/* Appends one whole batch of any magic without changing it.  Fails with OL_INVALID if the base
 * offset of the batch is below that of the segment, or not above the last offset of the batch
 * before.  Fails with OL_TOO_LARGE if the last offset or the size does not fit the segment.  After
 * any other failure the rewrite can only be discarded. */
int ol_segment_rewrite_append(ol_segment_rewrite *cleaned, const uint8_t *data, size_t size,
                              int64_t base_offset, int64_t last_offset, int64_t max_timestamp,
                              ol_error *error) OL_NODISCARD;

/* Appends an entry to the .txnindex.  The entries must ascend by the offsets of their ABORT
 * markers, and these markers must be in this segment. */
int ol_segment_rewrite_append_aborted(ol_segment_rewrite *cleaned,
                                      const ol_aborted_transaction *transaction,
                                      ol_error *error) OL_NODISCARD;

int64_t ol_segment_rewrite_size(const ol_segment_rewrite *cleaned);     /* bytes appended so far */

/* Replaces `count` segments, at least one, by the new one.  `bases` has their base offsets.  The
 * new segment may be empty.  The old segments must be adjacent and closed, and a flush
 * (ol_log_flush) must have covered them after their roll.  The first must have the same base offset
 * as the new segment.  The new file gets the modification time of the last segment that it
 * replaces.  The rewrite is freed even if the call fails.
 *
 * Fails with
 * - OL_WOULD_BLOCK if the log was truncated since `cuts`, or if the segments are not flushed yet;
 *   *error says which;
 * - OL_INVALID if the segments are not adjacent in the log or not closed, or if a batch of the new
 *   segment has offsets of the segment after them;
 * - OL_NO_MEMORY, OL_IO or OL_DISK_FULL.
 * After these failures nothing has changed, and the new files have been removed.  There is one
 * exception: if the disk fails when the swap can no longer be undone, the call returns the error of
 * the disk, and the log has failed (ol_log_has_failed).  The next open of the log then finishes the
 * swap. */
int ol_segment_rewrite_swap(ol_segment_rewrite *cleaned, const int64_t *bases, size_t count,
                            ol_error *error) OL_NODISCARD;

/* Removes the files of a rewrite and frees it.  `cleaned` may be NULL. */
void ol_segment_rewrite_discard(ol_segment_rewrite *cleaned);

#endif
