/* log/mark: facts about a log at one of its offsets, collected while nothing is appended.  A caller
 * keeps a mark together with a state that contains everything below that offset.  An open that
 * continues from this state need not read the log below the mark (log/settled.c).
 *
 * A mark is plain memory without a lock.  `producers` is allocated with malloc and belongs to the
 * mark. */
#ifndef OL_LOG_MARK_H
#define OL_LOG_MARK_H

#include "base/base.h"
#include "base/status.h"

typedef struct ol_log ol_log;

typedef struct ol_log_mark {
    int64_t offset;             /* the log end when the mark was taken; 0: there is no mark */
    int64_t segment_base;       /* of the active segment */
    int64_t position;           /* its size */
    int64_t first_timestamp;    /* of the active segment, like the next two (see ol_segment) */
    int64_t max_timestamp;
    int64_t max_timestamp_offset;
    uint32_t checksum;          /* log/segment_checksum.h */
    uint32_t aborted_count;     /* entries of its transaction index */
    uint32_t aborted_crc;  /* CRC-32C of the entries of the transaction index, in the form that they
                              have in the file */
    uint32_t producers_size;
    uint8_t *producers;         /* the state of the producers, in the form of a producer snapshot
                                   (log/files/producers.h) */
} ol_log_mark;

enum { OL_LOG_MARK_PRODUCERS_SIZE_MAX = 1 << 20 };

/* [writer] Takes a mark at the log end.  The mark is empty (its offset is 0) if one of these is so:
 * - The log has too many producers.
 * - The active segment has too many aborted transactions.
 * - The active segment has batches that were never read.
 * - The active segment was truncated since the log was opened.
 * Fails with OL_NO_MEMORY. */
int ol_log_take_mark(ol_log *log, ol_log_mark *mark, ol_error *error) OL_NODISCARD;
void ol_log_mark_free(ol_log_mark *mark);

#endif
