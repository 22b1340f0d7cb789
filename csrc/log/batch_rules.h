/* log/batch_rules: the rules for the offsets of a batch, and the rules that tell damage from a torn
 * tail.
 *
 * No CRC covers the base offset of a batch, because a broker assigns it after the batch was built.
 * Code that reads a log therefore compares the offsets of a batch with three things: the batch
 * before it, the end of the segment, and the batch after it.  Not every reader can apply all rules:
 *
 * - A load and a walk (log/batch_walk.h) apply all of them.
 * - Recovery does not yet know where a segment ends or which segment follows it.  It compares the
 *   segments with each other afterwards.
 * - The cleaner reads only closed segments, which a load has accepted before.  If a batch is out of
 *   bounds, it quarantines the segment at once.
 * - An append of batches that a follower has fetched does not know the segment of a batch.  It uses
 *   ol_batch_check_follows.
 * - A scan of records and a replay may read files that a writer or a cleaner is changing.  They use
 *   ol_file_scan_judge for .log files, and ol_batch_check_follows for batches from elsewhere.
 *
 * The functions are pure.  They own nothing and take no lock. */
#ifndef OL_LOG_BATCH_RULES_H
#define OL_LOG_BATCH_RULES_H

#include "base/bytes.h"
#include "format/batch.h"

/* ------------------------------------------------------------ the offsets of one batch */

/* The offsets that the next batch of a segment may have. */
typedef struct ol_batch_bounds {
    int64_t next_offset;        /* the offset after the last batch that was read; before the first
                                   batch, the offset where reading began */
    int64_t offset_max;         /* the greatest offset that is below `limit` and fits the segment */
    int64_t limit;  /* the base offset of the next segment, or the log end; INT64_MAX: not known */
    int64_t segment_base;
    bool has_previous;          /* false: the next batch is the first one and may begin below the
                                   offset where reading began */
} ol_batch_bounds;

typedef enum ol_offsets_verdict {
    OL_OFFSETS_FIT,
    OL_OFFSETS_REACH_LIMIT,     /* the last offset is at or above the limit */
    OL_OFFSETS_PASS_SUCCESSOR,  /* the next batch shows that the base offset of this one is too high
                                   (ol_batch_passes_successor) */
    OL_OFFSETS_GO_BACK,  /* the base offset is not above the last offset of the batch before */
    OL_OFFSETS_OUT_OF_RANGE,    /* the last offset minus the base offset of the segment does not fit
                                   the 31 bits that an index has for it */
} ol_offsets_verdict;

/* Returns the greatest offset that a segment can hold.  Its distance from the base offset of the
 * segment must fit an int32, and it must be below INT64_MAX so that there is a next offset. */
static inline int64_t ol_segment_offset_max(int64_t segment_base) {
    return segment_base >= INT64_MAX - INT32_MAX ? INT64_MAX - 1 : segment_base + INT32_MAX;
}

/* Called when a walk enters a segment, or when the limit of the segment changes.  `next_offset` and
 * `has_previous` keep their values. */
static inline void ol_batch_bounds_enter(ol_batch_bounds *bounds, int64_t segment_base,
                                         int64_t limit) {
    int64_t offset_max = ol_segment_offset_max(segment_base);
    bounds->segment_base = segment_base;
    bounds->limit = limit;
    bounds->offset_max = limit <= offset_max ? limit - 1 : offset_max;
}

static inline void ol_batch_bounds_advance(ol_batch_bounds *bounds, const ol_batch *batch) {
    bounds->next_offset = batch->last_offset + 1;
    bounds->has_previous = true;
}

/* A cheap test for code that runs for every batch.  If it returns true, the batch breaks no rule
 * except perhaps the one that compares it with the next batch.  If it returns false, the caller
 * must call ol_batch_judge_offsets. */
static inline bool ol_batch_is_in_bounds(const ol_batch_bounds *bounds, const ol_batch *batch) {
    return batch->base_offset >= bounds->next_offset && batch->last_offset <= bounds->offset_max;
}

/* Returns whether the next batch shows that the base offset of `batch` is too high.  Two conditions
 * must hold: there is a gap between `batch` and the batch before it, and the base offset of the
 * next batch is within this gap or within the offsets of `batch`.  `end` is the end of the bytes
 * that can be read.  The result is false for messages of magic 0 and 1, whose base offset may be
 * that of the last message of a set. */
static inline bool ol_batch_passes_successor(const ol_batch_bounds *bounds, const ol_batch *batch,
                                             const uint8_t *end) {
    if (OL_LIKELY(batch->base_offset <= bounds->next_offset) || batch->magic != 2) return false;
    const uint8_t *follower = batch->data + batch->size;
    if ((size_t)(end - follower) < sizeof(int64_t)) return false;
    int64_t successor = ol_load_i64(follower + OL_BATCH_AT_BASE_OFFSET);
    return successor >= bounds->next_offset && successor <= batch->last_offset;
}

/* Returns which rule the offsets of a batch break, if any.  The CRC of the batch must be correct.
 * `end` is the end of the bytes that can be read.  If the batch is not to be compared with the next
 * one, `end` is the end of the batch itself. */
ol_offsets_verdict ol_batch_judge_offsets(const ol_batch_bounds *bounds, const ol_batch *batch,
                                          const uint8_t *end);

/* Turns a verdict into a status: OL_OK for OL_OFFSETS_FIT, otherwise OL_CORRUPT with the reason. */
int ol_batch_refuse_offsets(const ol_batch_bounds *bounds, const ol_batch *batch,
                            ol_offsets_verdict verdict, ol_error *error) OL_NODISCARD;

/* Checks a batch whose segment is not known, for example one that a follower has fetched.
 * `next_offset` is the offset after the preceding batch.  Returns OL_OK if this batch may come
 * next.  Otherwise returns OL_CORRUPT with the reason. */
int ol_batch_check_follows(const ol_batch *batch, int64_t next_offset,
                           ol_error *error) OL_NODISCARD;

/* ------------------------------------------------------------ damage or tail */

/* The log offsets that the records in bad bytes may have had. */
typedef struct ol_bad_offsets {
    int64_t end;                /* the offset after the last good batch before the bad bytes */
    int64_t before;  /* where the gap before that good batch begins; `end` if there was no gap */
    /* The first offset that the bad bytes may have held.  If it is below `end`, the base offset of
     * either the bad batch or the good batch before it is wrong. */
    int64_t offset;
} ol_bad_offsets;

/* Called after a good batch.  If there is no gap before this batch, its base offset is beyond
 * doubt. */
static inline void ol_bad_offsets_advance(ol_bad_offsets *place, const ol_batch *batch) {
    place->before = batch->base_offset > place->end ? place->end : batch->last_offset + 1;
    place->end = batch->last_offset + 1;
}

/* Called when the next batch is bad.  `base_offset` is the base offset in its header if its CRC is
 * correct, and -1 otherwise.  If two batches are in the wrong order, either of them may have a
 * wrong base offset.  The base offset of the first can be wrong only if the second would fit into a
 * gap before the first. */
void ol_bad_offsets_set(ol_bad_offsets *place, int64_t base_offset);

/* Returns whether the bad batch and the good batch before it contradict each other.  One of them
 * then has a wrong base offset, and it is not known which. */
static inline bool ol_bad_offsets_are_disputed(const ol_bad_offsets *place) {
    return place->offset < place->end;
}

/* Returns whether the bad bytes may have held records below `bound`, the end of the flushed bytes.
 * If so, the bad bytes are damage.  Otherwise they are a torn tail. */
bool ol_bad_offsets_are_flushed(const ol_bad_offsets *place, int64_t bound);

/* Returns whether unreadable bytes at `offset` are the unfinished tail of a log that another
 * process writes.  Otherwise they are damage.  Bytes are a tail only if they were never flushed.
 * In addition, either no good batch may follow them, or recovery must have found that the log ends
 * at or below `offset`. */
static inline bool ol_bad_bytes_are_tail(int64_t offset, int64_t flushed, int64_t log_end,
                                         bool is_followed) {
    return offset >= flushed && (offset >= log_end || !is_followed);
}

#endif
