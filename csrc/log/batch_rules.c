/* Judges the offsets of a batch.  The tests that nearly every batch passes are inline in the
 * header. */
#include "log/batch_rules.h"

ol_offsets_verdict ol_batch_judge_offsets(const ol_batch_bounds *bounds, const ol_batch *batch,
                                          const uint8_t *end) {
    bool is_limited = bounds->limit != INT64_MAX;
    if (is_limited && batch->last_offset >= bounds->limit) return OL_OFFSETS_REACH_LIMIT;
    if (ol_batch_passes_successor(bounds, batch, end)) return OL_OFFSETS_PASS_SUCCESSOR;
    if (batch->base_offset < bounds->next_offset && bounds->has_previous) return OL_OFFSETS_GO_BACK;
    if (batch->last_offset > ol_segment_offset_max(bounds->segment_base)) {
        return OL_OFFSETS_OUT_OF_RANGE;
    }
    return OL_OFFSETS_FIT;
}

int ol_batch_refuse_offsets(const ol_batch_bounds *bounds, const ol_batch *batch,
                            ol_offsets_verdict verdict, ol_error *error) {
    long long base_offset = batch->base_offset, last_offset = batch->last_offset;
    switch (verdict) {
    case OL_OFFSETS_FIT:
        break;
    case OL_OFFSETS_REACH_LIMIT:
        return ol_fail(error, OL_CORRUPT,
                       "last offset %lld is not below %lld, where the segment ends", last_offset,
                       (long long)bounds->limit);
    case OL_OFFSETS_PASS_SUCCESSOR:
        return ol_fail(error, OL_CORRUPT,
                       "base offset %lld is too high: the next batch begins before this one ends",
                       base_offset);
    case OL_OFFSETS_GO_BACK:
        return ol_fail(error, OL_CORRUPT,
                       "base offset %lld is below %lld, where the batch before it ended",
                       base_offset, (long long)bounds->next_offset);
    case OL_OFFSETS_OUT_OF_RANGE:
        return ol_fail(error, OL_CORRUPT,
                       "last offset %lld is too high for a segment with base offset %lld",
                       last_offset, (long long)bounds->segment_base);
    }
    return OL_OK;
}

int ol_batch_check_follows(const ol_batch *batch, int64_t next_offset, ol_error *error) {
    if (OL_UNLIKELY(batch->base_offset < next_offset)) {
        ol_batch_bounds bounds = {.next_offset = next_offset};
        return ol_batch_refuse_offsets(&bounds, batch, OL_OFFSETS_GO_BACK, error);
    }
    if (OL_UNLIKELY(batch->last_offset == INT64_MAX)) {
        return ol_fail(error, OL_CORRUPT,
                       "last offset %lld is the largest possible: no batch can follow",
                       (long long)batch->last_offset);
    }
    return OL_OK;
}

void ol_bad_offsets_set(ol_bad_offsets *place, int64_t base_offset) {
    bool fits_gap = base_offset >= place->before && base_offset < place->end;
    place->offset = fits_gap ? base_offset : place->end;
}

bool ol_bad_offsets_are_flushed(const ol_bad_offsets *place, int64_t bound) {
    bool either = ol_bad_offsets_are_disputed(place) && place->before < place->offset;
    return bound > (either ? place->before : place->offset);
}
