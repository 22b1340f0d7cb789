/* log/batch_walk: reads the batches of an open log in order, and leaves out the same damage as a
 * load.
 *
 * A walk is made for readers of a log that is in use.  It reads through ol_log_reader, so that
 * segments may be cleaned, rolled or removed during the walk.  It skips and counts damage: bytes
 * that are not a batch, and batches whose CRC or offsets are wrong (log/batch_rules.h).  A load
 * uses a walk, too, so a load and every other walk leave out the same bytes.
 *
 * A walk may have a reporter, which is called when damage is skipped.  The reporter makes a
 * difference for bytes that the disk cannot read, and for bytes that are missing because another
 * process truncated the file.  A walk without a reporter fails there with OL_IO, because the next
 * attempt may find the bytes.  A walk with a reporter reports them as damage and continues.  A load
 * has a reporter.  After it has met such bytes, the partition serves everything that could be read,
 * and is read-only.
 *
 * One thread at a time may use a walk.  A log may have many walks at the same time.  A walk holds
 * no lock between calls. */
#ifndef OL_LOG_BATCH_WALK_H
#define OL_LOG_BATCH_WALK_H

#include "log/batch_rules.h"
#include "log/log.h"

/* The functions of a reporter.  ol_batch_walk_next calls them. */
typedef struct ol_batch_walk_reporter {
    /* Called before the bytes of the batches that were returned so far are released.  If it fails,
     * ol_batch_walk_next returns its status. */
    int (*release)(void *context, ol_error *error);
    /* Called after the walk has skipped damage, or bytes that cannot be read (OL_IO).  `below` is
     * the offset where the next batch begins, or the log end if there is no next batch.  The
     * function is not called for the unfinished tail of a log that another process writes. */
    void (*damaged)(void *context, const ol_error *damage, int64_t below);
    void *context;
} ol_batch_walk_reporter;

typedef struct ol_batch_walk {
    ol_log *log;
    ol_log_reader *reader;      /* NULL: to be opened at bounds.next_offset */
    const ol_batch_walk_reporter *reporter;     /* NULL: damage is only counted */
    ol_log_piece piece;
    size_t position;            /* position of the next batch in the piece */
    ol_batch_bounds bounds;     /* of the next batch */
    int64_t previous_offset;    /* the value of bounds.next_offset before the last batch was
                                   returned */
    int64_t from;
    int64_t until;
    int64_t segment_base;       /* base offset of the segment to which `segment_limit` belongs; -1:
                                   no segment has been entered */
    int64_t segment_limit;      /* base offset of the next segment; INT64_MAX if there is none */
    int64_t bytes;              /* total size of the pieces (ol_log_piece) that the walk has read
                                   to their ends */
    int64_t passed_over;        /* number of times that damage was skipped */
    ol_error damage;            /* the first damage that was skipped */
    bool checks_crc;
    bool ended;                 /* the walk returns no more batches, even if the log grows */
} ol_batch_walk;

/* Opens a walk without a reporter.  Its first batch is the one that contains the offset `from`, or
 * the first batch after `from`.  Its last batch is the last one whose base offset is below `until`.
 * There is one exception: the header of a compressed message set of magic 0 or 1 has only the last
 * offset of the set, so a set is returned if the batch before it ends below `until`.
 *
 * If `checks_crc` is false, the walk reads only the headers, and the caller must check the CRC of
 * the batches that it uses.  After a failure the caller need not close the walk. */
int ol_batch_walk_open(ol_batch_walk *walk, ol_log *log, int64_t from, int64_t until,
                       bool checks_crc, ol_error *error) OL_NODISCARD;

/* Opens a walk with a reporter over everything from the offset `from` on, which must be in the log.
 * The walk verifies the CRCs.  At the log end ol_batch_walk_next returns OL_END, and a later call
 * continues with the batches that were appended in the meantime.  `reporter` must stay valid as
 * long as the walk.
 *
 * The log must not be cleaned or truncated during such a walk.  The walk is therefore stricter than
 * one without a reporter.  A batch whose offsets were read before is damage.  If this process
 * writes the log, a batch that extends above the log end is damage, too. */
int ol_batch_walk_open_reported(ol_batch_walk *walk, ol_log *log, int64_t from,
                                const ol_batch_walk_reporter *reporter,
                                ol_error *error) OL_NODISCARD;

/* Handles the cases of ol_batch_walk_next that the inline function does not handle. */
int ol_batch_walk_next_slowly(ol_batch_walk *walk, ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Returns the next batch, or OL_END after the last one.  The batch is valid until the next call.
 * If the walk has a reporter, the batch is valid until the walk calls `release`.  Damage that the
 * walk skips is not a failure; otherwise fails as ol_log_reader_next does. */
OL_NODISCARD static inline int ol_batch_walk_next(ol_batch_walk *walk, ol_batch *batch,
                                                  ol_error *error) {
    const uint8_t *data = walk->piece.data + walk->position;
    size_t left = walk->piece.size - walk->position;
    bool plain = left > 0 && ol_batch_parse(data, left, batch, error) == OL_OK &&
                 (!walk->checks_crc || ol_batch_check_crc(batch, error) == OL_OK) &&
                 ol_batch_is_in_bounds(&walk->bounds, batch) && batch->base_offset < walk->until &&
                 !ol_batch_passes_successor(&walk->bounds, batch, data + left);
    if (OL_UNLIKELY(!plain)) return ol_batch_walk_next_slowly(walk, batch, error);
    walk->position += batch->size;
    walk->previous_offset = walk->bounds.next_offset;
    ol_batch_bounds_advance(&walk->bounds, batch);
    return OL_OK;
}

/* Rejects the batch that ol_batch_walk_next returned last, because the caller has found that it is
 * bad.  Must be called before the next call of ol_batch_walk_next.  The walk then skips this batch
 * as if it had found the damage itself.  After a failure the walk can only be closed. */
int ol_batch_walk_refuse(ol_batch_walk *walk, const ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Releases all bytes that the walk holds.  The next call of ol_batch_walk_next searches for the
 * batch that was returned last, by its offset, and returns it again.  If that call fails, the walk
 * can only be closed. */
void ol_batch_walk_put_back(ol_batch_walk *walk);

/* Returns the offset after the last batch that was returned, or `from` if no batch was returned
 * yet. */
static inline int64_t ol_batch_walk_next_offset(const ol_batch_walk *walk) {
    return walk->bounds.next_offset;
}

/* Returns whether the next call reads a new piece of the log. */
static inline bool ol_batch_walk_is_between_pieces(const ol_batch_walk *walk) {
    return walk->position >= walk->piece.size;
}

/* Closes a walk.  It may be closed twice; a zeroed walk is allowed. */
void ol_batch_walk_close(ol_batch_walk *walk);

#endif
