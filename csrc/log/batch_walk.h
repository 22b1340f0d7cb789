/* log/batch_walk: walks the batches of an open log in their order, and leaves out the same damage
 * as a load.
 *
 * A walk is for readers of a log that is in use.  It reads through ol_log_reader, so segments may
 * be cleaned, rolled or removed meanwhile.  It skips and counts bytes that are not a batch, and
 * batches whose CRC or offsets cannot be right (log/batch_rules.h).  A load is a walk with a
 * reporter, so all walks leave out the same bytes.
 *
 * Bytes that the disk cannot read, or that are missing because another process truncated the file,
 * are treated differently, because the next attempt may find them.  A walk without a reporter fails
 * with OL_IO.  A walk with a reporter reports them as damage and continues: a load serves the rest,
 * and the partition is read-only.
 *
 * A walk belongs to one thread at a time; a log may have many walks at once.  No lock is held
 * between calls.
 */
#ifndef OL_LOG_BATCH_WALK_H
#define OL_LOG_BATCH_WALK_H

#include "log/batch_rules.h"
#include "log/log.h"

/* A walk calls these functions from within ol_batch_walk_next. */
typedef struct ol_batch_walk_reporter {
    /* Called when the bytes of the batches returned so far are about to be released.  A failure is
     * returned from ol_batch_walk_next. */
    int (*release)(void *context, ol_error *error);
    /* Called when damage, or bytes that cannot be read (OL_IO), were skipped; the next batch begins
     * at `below`, or the log ends there.  Not called for the unfinished tail of a log that another
     * process writes. */
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
    int64_t previous_offset;    /* bounds.next_offset before the last batch that was returned */
    int64_t from;
    int64_t until;
    int64_t segment_base;       /* base offset of the segment whose `segment_limit` is known; -1:
                                   none yet */
    int64_t segment_limit;      /* base offset of the next segment; INT64_MAX if there is none */
    int64_t bytes;              /* size of the pieces that the walk has left */
    int64_t passed_over;        /* how often damage was met, */
    ol_error damage;            /* and the first of it */
    bool checks_crc;
    bool ended;                 /* nothing more is returned, even if the log grows */
} ol_batch_walk;

/* Walks from the batch that holds `from`, or the first one after it, to the last one that begins
 * below `until`.  For a compressed message set of magic 0 or 1, only the end is known: it is
 * returned if the batch before it ends below `until`.  Without `checks_crc` only headers are read,
 * and the caller checks the batches that matter.  After a failure there is nothing to close. */
int ol_batch_walk_open(ol_batch_walk *walk, ol_log *log, int64_t from, int64_t until,
                       bool checks_crc, ol_error *error) OL_NODISCARD;

/* Walks everything from `from` on and verifies the CRCs; `from` must be in the log.
 * ol_batch_walk_next returns OL_END at the current log end; a later call continues with the batches
 * appended since.  During such a walk the log is not cleaned or truncated, so the walk is stricter
 * than one from ol_batch_walk_open.  A batch that repeats offsets is damage.  So is a batch that
 * reaches above the log end, if this process writes the log.  `reporter` must live as long as the
 * walk. */
int ol_batch_walk_open_reported(ol_batch_walk *walk, ol_log *log, int64_t from,
                                const ol_batch_walk_reporter *reporter,
                                ol_error *error) OL_NODISCARD;

/* Handles every case of ol_batch_walk_next except the plain one. */
int ol_batch_walk_next_slowly(ol_batch_walk *walk, ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Returns the next batch, or OL_END after the last one.  The batch is valid until the next call or,
 * with a reporter, until `release` is called.  Fails as ol_log_reader_next does, except for bytes
 * that are skipped. */
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

/* Called before the next ol_batch_walk_next, when the caller finds that the batch returned last is
 * bad.  The walk skips the batch like a bad one that it found itself.  After a failure the walk can
 * only be closed. */
int ol_batch_walk_refuse(ol_batch_walk *walk, const ol_batch *batch, ol_error *error) OL_NODISCARD;

/* Releases all bytes.  The next ol_batch_walk_next finds the last batch by its offset and returns
 * it again.  If that is not possible, it fails, and the walk can only be closed. */
void ol_batch_walk_put_back(ol_batch_walk *walk);

/* Returns the end of the last batch that was returned; before the first, `from`. */
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
