/* log/batch_walk: the batches of an open log in their order, one by one, as a load would count them.
 *
 * What looks back into a log that goes on meanwhile walks with this: it reads through ol_log_reader, so that segments may be
 * cleaned, rolled or removed under it.  Bytes that cannot be read, and batches whose CRC or offsets cannot be right, are passed over
 * and counted, by the rules of a load (partition/load.c): whatever a load leaves out is left out here.
 *
 * One thread at a time; many walks may go over one log.
 */
#ifndef OL_LOG_BATCH_WALK_H
#define OL_LOG_BATCH_WALK_H

#include "log/log.h"

typedef struct ol_batch_walk {
    ol_log *log;
    ol_log_reader *reader;
    ol_log_piece piece;
    size_t position;            /* of the next batch, in the piece */
    size_t last_position;       /* of the batch that was given last, in the piece */
    int64_t next_offset;        /* behind the last batch that was given */
    int64_t previous_offset;    /* behind the one before it */
    int64_t until;
    int64_t segment_limit;      /* base of the segment behind `segment_base`; INT64_MAX for the last */
    int64_t segment_base;       /* whose `segment_limit` it is; -1 none yet */
    int64_t passed_over;        /* how often bytes that cannot be read were met */
    bool checks_crc;
    bool begun;                 /* a batch was given */
    bool ended;
} ol_batch_walk;

/* Walks from the batch that holds `from`, or the first behind it, to the last one that begins below `until` (of a compressed message set of
 * magic 0 or 1 only the end is known: it is given when the batch before it ends below `until`).  Without `checks_crc` a walk over headers,
 * whose caller checks the batches that matter.  Nothing to close after a failure. */
int ol_batch_walk_open(ol_batch_walk *walk, ol_log *log, int64_t from, int64_t until, bool checks_crc, ol_error *error) OL_NODISCARD;

/* The next batch, which borrows until the next call; OL_END behind the last.  Fails as ol_log_reader_next, but not for damage. */
int ol_batch_walk_next(ol_batch_walk *walk, ol_batch *batch, ol_error *error) OL_NODISCARD;

/* The caller found the batch that was given last to be bad: it is passed over like one that the walk found. */
int ol_batch_walk_refuse(ol_batch_walk *walk, ol_error *error) OL_NODISCARD;

void ol_batch_walk_close(ol_batch_walk *walk);

#endif
