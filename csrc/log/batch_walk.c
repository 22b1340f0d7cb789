/* A walk over batches: it takes pieces from the reader, applies the rules, and skips damage. */
#include "log/batch_walk.h"

#include <string.h>

enum { PIECE_BYTES = 256 << 10 };       /* stays in the cache between checking and decoding */

static void start(ol_batch_walk *walk, ol_log *log, int64_t from, int64_t until) {
    memset(walk, 0, sizeof *walk);
    walk->log = log;
    walk->from = walk->bounds.next_offset = walk->previous_offset = from;
    walk->until = until;
    walk->segment_base = -1;
}

int ol_batch_walk_open(ol_batch_walk *walk, ol_log *log, int64_t from, int64_t until,
                       bool checks_crc, ol_error *error) {
    start(walk, log, from, until);
    walk->checks_crc = checks_crc;
    /* A truncation may have removed this position meanwhile. */
    int64_t end = ol_log_end(log);
    return ol_log_reader_open(log, from < end ? from : end, &walk->reader, error);
}

int ol_batch_walk_open_reported(ol_batch_walk *walk, ol_log *log, int64_t from,
                                const ol_batch_walk_reporter *reporter, ol_error *error) {
    start(walk, log, from, INT64_MAX);
    walk->checks_crc = true;
    walk->reporter = reporter;
    return ol_log_reader_open(log, from, &walk->reader, error);
}

void ol_batch_walk_close(ol_batch_walk *walk) {
    if (walk->reader != NULL) ol_log_reader_close(walk->reader);
    walk->reader = NULL;
}

/* ------------------------------------------------------------ pieces */

static int release(ol_batch_walk *walk, ol_error *error) {
    return walk->reporter != NULL ? walk->reporter->release(walk->reporter->context, error) : OL_OK;
}

static void leave_piece(ol_batch_walk *walk) {
    walk->bytes += (int64_t)walk->piece.size;
    walk->piece.size = walk->position = 0;
}

static int64_t find_segment_limit(const ol_log *log, int64_t segment_base) {
    ol_log_segment_info info;
    for (size_t i = 0; ol_log_segment_at(log, i, &info); i++) {
        if (info.base_offset > segment_base) return info.base_offset;
    }
    return INT64_MAX;
}

/* The offsets of a segment end where the next one begins.  Those of the last segment end at the log
 * end, which moves.  A walk without a reporter uses `until` instead, because a truncation may lower
 * the log end. */
static void set_bounds(ol_batch_walk *walk) {
    int64_t segment_base = walk->piece.segment_base;
    if (walk->segment_base != segment_base) {
        walk->segment_limit = find_segment_limit(walk->log, segment_base);
        walk->segment_base = segment_base;
    }
    bool has_end = walk->segment_limit == INT64_MAX && walk->reporter != NULL &&
                   ol_log_is_writable(walk->log);
    ol_batch_bounds_enter(&walk->bounds, segment_base,
                          has_end ? ol_log_end(walk->log) : walk->segment_limit);
}

/* ------------------------------------------------------------ damage */

/* Continues after bytes that cannot be read.  In a log that another process writes, the walk ends
 * at the unfinished tail, or where recovery found that the log ends: a batch must not be applied
 * while one before it is missing. */
static int pass_over(ol_batch_walk *walk, const ol_error *damage, ol_error *error) {
    bool is_end = false, is_tail = false;
    bool writable = ol_log_is_writable(walk->log);
    int status = ol_log_reader_skip(walk->reader, damage->position, &is_end, error);
    if (status != OL_OK) return status;
    leave_piece(walk);
    if (walk->passed_over++ == 0) walk->damage = *damage;
    if (!writable && damage->status != OL_IO) {
        is_tail = ol_bad_bytes_are_tail(walk->bounds.next_offset, ol_log_flushed(walk->log),
                                        ol_log_end(walk->log), !is_end);
    }
    /* A writer's own log may grow after the bad bytes; only a walk with a fixed end need not check
     * again. */
    if (is_tail || (is_end && (!writable || walk->reporter == NULL))) walk->ended = true;
    if (!is_tail && walk->reporter != NULL) {
        int64_t below = is_end ? ol_log_end(walk->log) : ol_log_reader_offset(walk->reader);
        walk->reporter->damaged(walk->reporter->context, damage, below);
    }
    return OL_OK;
}

/* Handles a bad batch at the current position; in a file that another process writes, the bytes may
 * be right by now. */
static int meet_damage(ol_batch_walk *walk, ol_error *error) {
    ol_error damage = *error;
    int64_t file_position = walk->piece.position + (int64_t)walk->position;
    (void)ol_error_at(&damage, walk->piece.path, file_position);
    if (damage.offset < 0) damage.offset = walk->bounds.next_offset;
    int status = release(walk, error);
    if (status != OL_OK) return status;
    if (!ol_log_is_writable(walk->log)) {
        size_t walked = walk->position;
        status = ol_log_reader_retry(walk->reader, file_position, &walk->piece, error);
        if (status == OL_OK) {
            walk->bytes += (int64_t)walked;
            walk->position = 0;
        }
        if (status != OL_END) return status;
    }
    return pass_over(walk, &damage, error);
}

int ol_batch_walk_refuse(ol_batch_walk *walk, const ol_batch *batch, ol_error *error) {
    ol_error damage;
    walk->bounds.next_offset = walk->previous_offset;
    (void)ol_fail(&damage, OL_CORRUPT, "the caller refused the batch");
    damage.offset = walk->bounds.next_offset;
    (void)ol_error_at(&damage, walk->piece.path,
                      walk->piece.position + (batch->data - walk->piece.data));
    return pass_over(walk, &damage, error);
}

/* ------------------------------------------------------------ the walk */

static int next_piece(ol_batch_walk *walk, ol_error *error) {
    int status = OL_OK;
    bool had_piece = walk->piece.size > 0;
    leave_piece(walk);
    if (had_piece) status = release(walk, error);
    if (status == OL_OK && walk->reader == NULL) {
        status = ol_log_reader_open(walk->log, walk->bounds.next_offset, &walk->reader, error);
    }
    if (status != OL_OK) return status;
    status = ol_log_reader_next(walk->reader, PIECE_BYTES, &walk->piece, error);
    if (status == OL_OK) {
        set_bounds(walk);
        return OL_OK;
    }
    walk->piece.size = 0;
    bool is_unreadable = status == OL_IO && error->position >= 0;
    if (status != OL_CORRUPT && !(is_unreadable && walk->reporter != NULL)) return status;
    ol_error damage = *error;
    if (damage.offset < 0) damage.offset = walk->bounds.next_offset;
    return pass_over(walk, &damage, error);
}

static bool is_whole_batch(const uint8_t *data, const uint8_t *end) {
    ol_batch batch;
    ol_error ignored;
    return ol_batch_parse(data, (size_t)(end - data), &batch, &ignored) == OL_OK &&
           ol_batch_check_crc(&batch, &ignored) == OL_OK;
}

/* Kept out of line.  The log end may have moved since the piece was read, and the first batch may
 * begin below the walk's offset. */
static OL_NOINLINE int judge(ol_batch_walk *walk, const ol_batch *batch, const uint8_t *end,
                             ol_error *error) {
    set_bounds(walk);
    /* The tail that a crash left after the end of a log does not count as a following batch.  A
     * whole batch does: it shows that the present batch states a wrong end of the log. */
    const uint8_t *next = batch->data + batch->size;
    bool is_last = ol_batch_next_offset(batch) == ol_log_end(walk->log);
    if (is_last && !is_whole_batch(next, end)) end = next;
    return ol_batch_refuse_offsets(&walk->bounds, batch,
                                   ol_batch_judge_offsets(&walk->bounds, batch, end), error);
}

/* Returns whether the batch may be one that the walk has returned before, which is then not damage.
 * If the segment was cleaned meanwhile, the walk finds its place again by offset, and the next
 * piece may begin with such batches. */
static inline bool may_repeat(const ol_batch_walk *walk, const ol_batch *batch) {
    return walk->reporter == NULL && batch->last_offset < walk->bounds.next_offset;
}

/* Checks the next batch of the piece. */
static inline int check(ol_batch_walk *walk, ol_batch *batch, ol_error *error) {
    size_t left = walk->piece.size - walk->position;
    int status = ol_batch_parse(walk->piece.data + walk->position, left, batch, error);
    if (OL_LIKELY(status == OL_OK) && walk->checks_crc) status = ol_batch_check_crc(batch, error);
    if (OL_UNLIKELY(status != OL_OK)) return status;
    const uint8_t *end = walk->piece.data + walk->piece.size;
    bool fits = ol_batch_is_in_bounds(&walk->bounds, batch) &&
                !ol_batch_passes_successor(&walk->bounds, batch, end);
    return OL_LIKELY(fits) || may_repeat(walk, batch) ? OL_OK : judge(walk, batch, end, error);
}

/* Returns whether a batch that begins at or above `until` ends the walk.  For a compressed message
 * set only the last offset is known, so it does not if the batch before it ends below `until`. */
static bool is_beyond(const ol_batch_walk *walk, const ol_batch *batch) {
    bool is_set = batch->magic < 2 && ol_batch_codec(batch) != OL_CODEC_NONE;
    return !is_set || walk->bounds.next_offset >= walk->until;
}

int ol_batch_walk_next_slowly(ol_batch_walk *walk, ol_batch *batch, ol_error *error) {
    for (;;) {
        int status = OL_OK;
        if (OL_UNLIKELY(ol_batch_walk_is_between_pieces(walk))) {
            if (walk->ended || walk->bounds.next_offset >= walk->until) break;
            status = next_piece(walk, error);
            if (status != OL_OK) return status;
            continue;
        }
        status = check(walk, batch, error);
        if (OL_UNLIKELY(status != OL_OK)) {
            if (walk->bounds.next_offset >= walk->until) break;
            status = meet_damage(walk, error);
            if (status != OL_OK) return status;
            continue;
        }
        if (OL_UNLIKELY(batch->base_offset >= walk->until) && is_beyond(walk, batch)) break;
        walk->position += batch->size;
        if (OL_UNLIKELY(batch->last_offset < walk->bounds.next_offset)) continue;
        walk->previous_offset = walk->bounds.next_offset;
        ol_batch_bounds_advance(&walk->bounds, batch);
        return OL_OK;
    }
    walk->position = walk->piece.size;
    walk->ended = true;
    return OL_END;
}

void ol_batch_walk_put_back(ol_batch_walk *walk) {
    walk->bounds.next_offset = walk->previous_offset;
    walk->bounds.has_previous = walk->previous_offset > walk->from;
    leave_piece(walk);
    ol_batch_walk_close(walk);
}
