/* log/segment_rewrite: a new segment, written beside closed ones, that then replaces them
 * (docs/format/cleaner.md §8.4, §8.6).
 *
 * The segment is written as `<base>.log.cleaned` with its indexes; ol_segment_rewrite_swap then
 * puts it in place.  Commits, rolls, flushes and reads continue meanwhile, and a reader in a
 * replaced segment continues with its bytes until it moves on.  A crash at any moment leaves the
 * old segments or the new one, never a mixture, whether `offsetlog` or Kafka recovers from it.
 *
 * One thread uses an ol_segment_rewrite; a log has one at a time.  It ends with a swap or a
 * discard, before the log is closed or abandoned. */
#ifndef OL_LOG_SEGMENT_REWRITE_H
#define OL_LOG_SEGMENT_REWRITE_H

#include "log/log.h"
#include "log/files/transaction_index.h"

typedef struct ol_segment_rewrite ol_segment_rewrite;

/* Begins an empty segment at `base_offset`, the base of the first segment that it will replace.
 * `cuts` is the value of ol_log_cuts() before the caller read the first byte that decides the
 * contents.  If the log was truncated after that, the swap is refused, because segments with the
 * same bases may then hold other batches.  Fails with OL_INVALID (the log has an ol_segment_rewrite
 * already), OL_READ_ONLY, OL_FAILED (also if leftovers of an earlier swap could not be removed),
 * OL_IO, OL_DISK_FULL, OL_NO_MEMORY. */
int ol_segment_rewrite_start(ol_log *log, int64_t base_offset, uint64_t cuts,
                             ol_segment_rewrite **cleaned, ol_error *error) OL_NODISCARD;

/* Appends one whole batch of any magic, as it is.  OL_INVALID: the base offset is below the
 * segment's base, or not above the last offset of the batch before.  OL_TOO_LARGE: the last offset
 * or the size does not fit a segment.  After any other failure the rewrite can only be
 * discarded. */
int ol_segment_rewrite_append(ol_segment_rewrite *cleaned, const uint8_t *data, size_t size,
                              int64_t base_offset, int64_t last_offset, int64_t max_timestamp,
                              ol_error *error) OL_NODISCARD;

/* Appends an entry to the .txnindex.  Entries ascend by the offset of their ABORT marker, which is
 * in this segment. */
int ol_segment_rewrite_append_aborted(ol_segment_rewrite *cleaned,
                                      const ol_aborted_transaction *transaction,
                                      ol_error *error) OL_NODISCARD;

int64_t ol_segment_rewrite_size(const ol_segment_rewrite *cleaned);     /* bytes appended so far */

/* Replaces the segments with these `count` >= 1 bases by the new one, which may be empty.  They
 * must be adjacent, closed and flushed (ol_log_flush after the roll), and the first must have the
 * base of the new segment.  The new file gets the modification time of the last segment replaced.
 * Frees the rewrite in any case.
 *
 * OL_WOULD_BLOCK (the error says which): the log was truncated since `cuts`, or the segments are
 * not flushed yet.  OL_INVALID: the segments are not adjacent in the log or not closed, or a batch
 * of the new segment reaches into the segment after them.  After these two, and after OL_NO_MEMORY,
 * OL_IO and OL_DISK_FULL, nothing has changed and the files are removed.  If the disk fails after
 * the point of no return, the error is returned and the log has failed (ol_log_has_failed); opening
 * it again finishes the swap. */
int ol_segment_rewrite_swap(ol_segment_rewrite *cleaned, const int64_t *bases, size_t count,
                            ol_error *error) OL_NODISCARD;

/* Removes the files of a rewrite and frees it; NULL is allowed. */
void ol_segment_rewrite_discard(ol_segment_rewrite *cleaned);

#endif
