/* log/batch_rules: the rules for the offsets of a batch, and the choice between damage and tail.
 *
 * No CRC covers the base offset, so that a broker can assign it to a finished batch.  Every walk
 * over a log therefore compares the offsets of a batch with those of the batch before, with the end
 * of the segment, and with the batch that follows.  A load and a walk apply all rules.  Recovery
 * has no segment limit and no successor yet: it compares segments afterwards.  The cleaner reads
 * closed segments that a load has accepted, so a batch that is not in bounds quarantines its
 * segment at once.  An append to a follower knows no segment (ol_batch_check_follows).  A scan of
 * records and a replay may read files that a writer or a cleaner is changing (ol_file_scan_judge).
 *
 * Pure functions: nothing is owned, no lock is taken.
 */
#ifndef OL_LOG_BATCH_RULES_H
#define OL_LOG_BATCH_RULES_H

#include "base/bytes.h"
#include "format/batch.h"

/* ------------------------------------------------------------ the offsets of one batch */

/* The offsets that the next batch of a segment may have. */
typedef struct ol_batch_bounds {
    int64_t next_offset;        /* where the batch before it ended, or where reading began */
    int64_t offset_max;         /* the greatest offset that `limit` and the segment allow */
    int64_t limit;              /* base of the next segment, or the log end; INT64_MAX: not known */
    int64_t segment_base;
    bool has_previous;          /* false: the first batch, which may begin below the offset where
                                   reading begins */
} ol_batch_bounds;

typedef enum ol_offsets_verdict {
    OL_OFFSETS_FIT,
    OL_OFFSETS_REACH_LIMIT,     /* the last offset is at or above the limit */
    OL_OFFSETS_PASS_SUCCESSOR,  /* this batch, not the one that follows, has the wrong base
                                   offset */
    OL_OFFSETS_GO_BACK,         /* the base offset is below the end of the batch before */
    OL_OFFSETS_OUT_OF_RANGE,    /* the last offset, relative to the base, does not fit the 31 bits
                                   that an index has for it */
} ol_offsets_verdict;

/* Returns the greatest offset that a segment can hold: its distance from the base fits an int32,
 * and there is a next offset. */
static inline int64_t ol_segment_offset_max(int64_t segment_base) {
    return segment_base >= INT64_MAX - INT32_MAX ? INT64_MAX - 1 : segment_base + INT32_MAX;
}

/* Called when a walk enters a segment, or when the segment's limit moves.  next_offset and
 * has_previous stay as they are. */
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

/* A cheap test for hot paths: returns whether a batch keeps every rule, except that it is not
 * compared with the batch that follows.  A batch that fails needs ol_batch_judge_offsets. */
static inline bool ol_batch_is_in_bounds(const ol_batch_bounds *bounds, const ol_batch *batch) {
    return batch->base_offset >= bounds->next_offset && batch->last_offset <= bounds->offset_max;
}

/* Returns whether the next batch shows that the base offset of `batch` is wrong.  It does if it
 * begins below the end of `batch`, but not below the end of the batch before.  That is possible
 * only if there is a gap before `batch`, which the next batch would fill.  `end` is the end of the
 * bytes that can be read.  Messages of magic 0 and 1 prove nothing: their base offset may be that
 * of the last message of a set. */
static inline bool ol_batch_passes_successor(const ol_batch_bounds *bounds, const ol_batch *batch,
                                             const uint8_t *end) {
    if (OL_LIKELY(batch->base_offset <= bounds->next_offset) || batch->magic != 2) return false;
    const uint8_t *follower = batch->data + batch->size;
    if ((size_t)(end - follower) < sizeof(int64_t)) return false;
    int64_t successor = ol_load_i64(follower + OL_BATCH_AT_BASE_OFFSET);
    return successor >= bounds->next_offset && successor <= batch->last_offset;
}

/* Judges the offsets of a batch with a right CRC.  `end`: the end of the bytes that can be read;
 * pass the end of the batch to ignore the one that follows. */
ol_offsets_verdict ol_batch_judge_offsets(const ol_batch_bounds *bounds, const ol_batch *batch,
                                          const uint8_t *end);

/* Returns OL_OK when the offsets fit, else OL_CORRUPT with the reason. */
int ol_batch_refuse_offsets(const ol_batch_bounds *bounds, const ol_batch *batch,
                            ol_offsets_verdict verdict, ol_error *error) OL_NODISCARD;

/* For batches whose segment is not known: a follower's batches, a scan of records, a replay.  OL_OK
 * when the batch may follow one that ended at `next_offset`, else OL_CORRUPT with the reason. */
int ol_batch_check_follows(const ol_batch *batch, int64_t next_offset,
                           ol_error *error) OL_NODISCARD;

/* ------------------------------------------------------------ damage or tail */

/* The log offsets that bad bytes may have held. */
typedef struct ol_bad_offsets {
    int64_t end;                /* where the batch before them ended */
    int64_t before;  /* where the gap before the last right batch began, if there was one; else
                        `end` */
    /* the bad bytes held this offset or greater ones; if it is below `end`, either they or the
     * batch before have a wrong base offset */
    int64_t offset;
} ol_bad_offsets;

/* Called after a right batch.  If there is no gap before it, its base offset is not in doubt. */
static inline void ol_bad_offsets_advance(ol_bad_offsets *place, const ol_batch *batch) {
    place->before = batch->base_offset > place->end ? place->end : batch->last_offset + 1;
    place->end = batch->last_offset + 1;
}

/* Called when the next batch is bad.  `base_offset` is what it claims if its CRC is right, else -1.
 * If two batches are in the wrong order, either may have the wrong base offset.  The first can have
 * it only if the second would fit into a gap before the first. */
void ol_bad_offsets_set(ol_bad_offsets *place, int64_t base_offset);

/* Returns whether one of two batches has the wrong base offset and it is unknown which one. */
static inline bool ol_bad_offsets_are_disputed(const ol_bad_offsets *place) {
    return place->offset < place->end;
}

/* Returns whether the bad bytes may be below `bound`, the end of the flushed bytes.  Then they are
 * damage, otherwise a torn tail. */
bool ol_bad_offsets_are_flushed(const ol_bad_offsets *place, int64_t bound);

/* Returns whether unreadable bytes at `offset` are the tail of a log that another process writes,
 * and not damage.  They are a tail if they were never flushed, and if either no right batch follows
 * or recovery found the log to end there. */
static inline bool ol_bad_bytes_are_tail(int64_t offset, int64_t flushed, int64_t log_end,
                                         bool is_followed) {
    return offset >= flushed && (offset >= log_end || !is_followed);
}

#endif
