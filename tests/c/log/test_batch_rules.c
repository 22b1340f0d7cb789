/* The rules for offsets: each verdict, at its boundaries, and the choice between damage and
 * tail. */
#include "base/bytes.h"
#include "format/batch.h"
#include "log/batch_rules.h"
#include "ol_test.h"

enum { SIZE = OL_BATCH_OVERHEAD };

/* Two batches side by side: the one that is judged and the one that follows. */
typedef struct neighbours {
    uint8_t bytes[2 * SIZE];
    ol_batch batch;
} neighbours;

static const uint8_t *end_of(const neighbours *pair, size_t follower_bytes) {
    return pair->bytes + SIZE + follower_bytes;
}

static void put(neighbours *pair, int64_t base, int64_t last, int64_t successor) {
    memset(pair, 0, sizeof *pair);
    pair->batch = (ol_batch){.data = pair->bytes,
                             .size = SIZE,
                             .base_offset = base,
                             .last_offset = last,
                             .magic = 2};
    ol_store_i64(pair->bytes + SIZE, successor);
}

static ol_batch_bounds bounds_of(int64_t segment_base, int64_t next_offset, int64_t limit) {
    ol_batch_bounds bounds = {.next_offset = next_offset, .has_previous = true};
    ol_batch_bounds_enter(&bounds, segment_base, limit);
    return bounds;
}

/* The verdict, and that the inline tests agree with it. */
static ol_offsets_verdict verdict_of(const ol_batch_bounds *bounds, const neighbours *pair,
                                     size_t follower_bytes) {
    const uint8_t *end = end_of(pair, follower_bytes);
    ol_offsets_verdict verdict = ol_batch_judge_offsets(bounds, &pair->batch, end);
    bool fast = ol_batch_is_in_bounds(bounds, &pair->batch) &&
                !ol_batch_passes_successor(bounds, &pair->batch, end);
    if (bounds->has_previous) OL_CHECK_INT(fast, verdict == OL_OFFSETS_FIT);
    ol_error error;
    int status = ol_batch_refuse_offsets(bounds, &pair->batch, verdict, &error);
    OL_CHECK_INT(status, verdict == OL_OFFSETS_FIT ? OL_OK : OL_CORRUPT);
    return verdict;
}

static ol_offsets_verdict alone(const ol_batch_bounds *bounds, int64_t base, int64_t last) {
    neighbours pair;
    put(&pair, base, last, 0);
    return verdict_of(bounds, &pair, 0);
}

OL_TEST(a_batch_begins_where_the_one_before_it_ended_or_above) {
    ol_batch_bounds bounds = bounds_of(100, 110, INT64_MAX);
    OL_CHECK_INT(alone(&bounds, 110, 110), OL_OFFSETS_FIT);
    OL_CHECK_INT(alone(&bounds, 111, 120), OL_OFFSETS_FIT);
    OL_CHECK_INT(alone(&bounds, 109, 120), OL_OFFSETS_GO_BACK);
    OL_CHECK_INT(alone(&bounds, 0, 5), OL_OFFSETS_GO_BACK);
    bounds.has_previous = false;
    OL_CHECK_INT(alone(&bounds, 109, 120), OL_OFFSETS_FIT);
    OL_CHECK_INT(alone(&bounds, 0, 5), OL_OFFSETS_FIT);
}

OL_TEST(a_batch_ends_below_the_limit) {
    ol_batch_bounds bounds = bounds_of(100, 110, 120);
    OL_CHECK_INT(bounds.offset_max, 119);
    OL_CHECK_INT(alone(&bounds, 110, 119), OL_OFFSETS_FIT);
    OL_CHECK_INT(alone(&bounds, 110, 120), OL_OFFSETS_REACH_LIMIT);
    OL_CHECK_INT(alone(&bounds, 120, 130), OL_OFFSETS_REACH_LIMIT);
    OL_CHECK_INT(alone(&bounds, 100, 120), OL_OFFSETS_REACH_LIMIT);
    ol_batch_bounds_enter(&bounds, 100, 121);
    OL_CHECK_INT(alone(&bounds, 110, 120), OL_OFFSETS_FIT);
    bounds.has_previous = false;
    OL_CHECK_INT(alone(&bounds, 100, 121), OL_OFFSETS_REACH_LIMIT);
}

OL_TEST(an_offset_fits_31_bits_from_the_base_of_its_segment) {
    ol_batch_bounds bounds = bounds_of(100, 100, INT64_MAX);
    int64_t greatest = 100 + (int64_t)INT32_MAX;
    OL_CHECK_INT(bounds.offset_max, greatest);
    OL_CHECK_INT(alone(&bounds, greatest, greatest), OL_OFFSETS_FIT);
    OL_CHECK_INT(alone(&bounds, greatest, greatest + 1), OL_OFFSETS_OUT_OF_RANGE);
    ol_batch_bounds_enter(&bounds, 100, greatest + 1);
    OL_CHECK_INT(bounds.offset_max, greatest);
    OL_CHECK_INT(alone(&bounds, 100, greatest + 1), OL_OFFSETS_REACH_LIMIT);
    ol_batch_bounds_enter(&bounds, 100, greatest + 2);
    OL_CHECK_INT(bounds.offset_max, greatest);
    OL_CHECK_INT(alone(&bounds, 100, greatest + 1), OL_OFFSETS_OUT_OF_RANGE);
}

OL_TEST(the_greatest_number_is_no_offset) {
    const int64_t bases[] = {INT64_MAX - INT32_MAX - 1, INT64_MAX - INT32_MAX,
                             INT64_MAX - INT32_MAX + 1, INT64_MAX - 1};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        ol_batch_bounds bounds = bounds_of(bases[i], bases[i], INT64_MAX);
        OL_CHECK_INT(ol_segment_offset_max(bases[i]), INT64_MAX - 1);
        OL_CHECK_INT(alone(&bounds, INT64_MAX - 1, INT64_MAX - 1), OL_OFFSETS_FIT);
        OL_CHECK_INT(alone(&bounds, INT64_MAX - 1, INT64_MAX), OL_OFFSETS_OUT_OF_RANGE);
    }
    ol_batch_bounds low = bounds_of(0, 0, INT64_MAX);
    OL_CHECK_INT(alone(&low, INT64_MAX, INT64_MAX), OL_OFFSETS_OUT_OF_RANGE);
    ol_batch_bounds limited = bounds_of(INT64_MAX - 9, INT64_MAX - 9, INT64_MAX - 4);
    OL_CHECK_INT(limited.offset_max, INT64_MAX - 5);
}

OL_TEST(after_a_gap_the_successor_says_which_of_two_is_wrong) {
    ol_batch_bounds bounds = bounds_of(100, 110, INT64_MAX);
    const struct { int64_t base, last, successor; ol_offsets_verdict verdict; } cases[] = {
        {115, 120, 109, OL_OFFSETS_FIT},                /* the follower goes back: its own offset
                                                           is wrong */
        {115, 120, 110, OL_OFFSETS_PASS_SUCCESSOR},
        {115, 120, 115, OL_OFFSETS_PASS_SUCCESSOR},
        {115, 120, 120, OL_OFFSETS_PASS_SUCCESSOR},
        {115, 120, 121, OL_OFFSETS_FIT},
        {111, 111, 111, OL_OFFSETS_PASS_SUCCESSOR},
        {110, 120, 115, OL_OFFSETS_FIT},                /* no gap that the follower would fill */
        {109, 120, 115, OL_OFFSETS_GO_BACK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        neighbours pair;
        put(&pair, cases[i].base, cases[i].last, cases[i].successor);
        OL_CHECK_INT(verdict_of(&bounds, &pair, SIZE), cases[i].verdict);
    }
}

OL_TEST(a_successor_counts_when_its_base_offset_can_be_read) {
    ol_batch_bounds bounds = bounds_of(100, 110, INT64_MAX);
    neighbours pair;
    put(&pair, 115, 120, 112);
    for (size_t cut = 0; cut <= SIZE; cut++) {
        OL_CHECK_INT(verdict_of(&bounds, &pair, cut),
                     cut < 8 ? OL_OFFSETS_FIT : OL_OFFSETS_PASS_SUCCESSOR);
    }
    pair.batch.magic = 1;
    OL_CHECK_INT(verdict_of(&bounds, &pair, SIZE), OL_OFFSETS_FIT);
    bounds.has_previous = false;
    pair.batch.magic = 2;
    OL_CHECK_INT(verdict_of(&bounds, &pair, SIZE), OL_OFFSETS_PASS_SUCCESSOR);
}

OL_TEST(the_first_rule_that_is_broken_is_the_verdict) {
    ol_batch_bounds bounds = bounds_of(100, 110, 120);
    neighbours pair;
    put(&pair, 115, 130, 112);
    OL_CHECK_INT(verdict_of(&bounds, &pair, SIZE), OL_OFFSETS_REACH_LIMIT);
    ol_batch_bounds_enter(&bounds, 100, INT64_MAX);
    put(&pair, 115, 200 + (int64_t)INT32_MAX, 112);
    OL_CHECK_INT(verdict_of(&bounds, &pair, SIZE), OL_OFFSETS_PASS_SUCCESSOR);
    put(&pair, 105, 200 + (int64_t)INT32_MAX, 112);
    OL_CHECK_INT(verdict_of(&bounds, &pair, SIZE), OL_OFFSETS_GO_BACK);
}

OL_TEST(a_refusal_names_the_offsets) {
    ol_error error;
    neighbours pair;
    ol_batch_bounds bounds = bounds_of(100, 110, 120);
    put(&pair, 105, 125, 0);
    const struct { ol_offsets_verdict verdict; const char *reason; } cases[] = {
        {OL_OFFSETS_REACH_LIMIT, "last offset 125 is not below 120, where the segment ends"},
        {OL_OFFSETS_PASS_SUCCESSOR,
         "base offset 105 is too high: the next batch begins before this one ends"},
        {OL_OFFSETS_GO_BACK, "base offset 105 is below 110, where the batch before it ended"},
        {OL_OFFSETS_OUT_OF_RANGE, "last offset 125 is too high for a segment with base offset 100"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OL_CHECK_INT(ol_batch_refuse_offsets(&bounds, &pair.batch, cases[i].verdict, &error),
                     OL_CORRUPT);
        OL_CHECK(strcmp(error.reason, cases[i].reason) == 0);
    }
}

OL_TEST(a_batch_moves_the_bounds) {
    neighbours pair;
    put(&pair, 115, 120, 0);
    ol_batch_bounds bounds = {.next_offset = 110};
    ol_batch_bounds_enter(&bounds, 100, 200);
    ol_batch_bounds_advance(&bounds, &pair.batch);
    OL_CHECK_INT(bounds.next_offset, 121);
    OL_CHECK(bounds.has_previous);
    OL_CHECK_INT(bounds.offset_max, 199);
}

/* ---------------------------------------------------------------------------- damage or tail */

static ol_bad_offsets place_after(int64_t end, int64_t base, int64_t last) {
    neighbours pair;
    ol_bad_offsets place = {.end = end, .before = end, .offset = end};
    put(&pair, base, last, 0);
    ol_bad_offsets_advance(&place, &pair.batch);
    return place;
}

OL_TEST(only_after_a_gap_a_batch_may_be_the_wrong_one_of_two) {
    ol_bad_offsets place = place_after(100, 100, 109);
    OL_CHECK_INT(place.end, 110);
    OL_CHECK_INT(place.before, 110);
    place = place_after(100, 101, 109);
    OL_CHECK_INT(place.end, 110);
    OL_CHECK_INT(place.before, 100);
}

OL_TEST(bad_bytes_lie_where_the_batch_before_ended_unless_they_would_fill_its_gap) {
    ol_bad_offsets place = place_after(100, 105, 109);
    const struct { int64_t base, offset; bool disputed;
    } cases[] = {
        {-1, 110, false}, {99, 110, false},  {100, 100, true},
        {109, 109, true}, {110, 110, false}, {500, 110, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ol_bad_offsets_set(&place, cases[i].base);
        OL_CHECK_INT(place.offset, cases[i].offset);
        OL_CHECK_INT(ol_bad_offsets_are_disputed(&place), cases[i].disputed);
    }
    place = place_after(100, 100, 109);
    ol_bad_offsets_set(&place, 104);
    OL_CHECK_INT(place.offset, 110);
}

static int follows(int64_t base, int64_t last, int64_t next_offset) {
    neighbours pair;
    put(&pair, base, last, 0);
    ol_error error;
    return ol_batch_check_follows(&pair.batch, next_offset, &error);
}

OL_TEST(the_segment_does_not_matter_where_it_is_not_known) {
    OL_CHECK_INT(follows(110, 110, 110), OL_OK);
    OL_CHECK_INT(follows(110 + 2 * (int64_t)INT32_MAX, 111 + 2 * (int64_t)INT32_MAX, 110), OL_OK);
    OL_CHECK_INT(follows(109, 120, 110), OL_CORRUPT);
    OL_CHECK_INT(follows(INT64_MAX - 9, INT64_MAX - 1, 110), OL_OK);
    OL_CHECK_INT(follows(INT64_MAX - 9, INT64_MAX, 110), OL_CORRUPT);
}

OL_TEST(bytes_below_the_flushed_bound_are_damage) {
    ol_bad_offsets place = {.end = 110, .before = 110, .offset = 110};
    OL_CHECK(!ol_bad_offsets_are_flushed(&place, -1));
    OL_CHECK(!ol_bad_offsets_are_flushed(&place, 110));
    OL_CHECK(ol_bad_offsets_are_flushed(&place, 111));
    OL_CHECK(ol_bad_offsets_are_flushed(&place, INT64_MAX));
    /* The one that is wrong may lie as low as where the gap begins. */
    place = (ol_bad_offsets){.end = 110, .before = 100, .offset = 105};
    OL_CHECK(!ol_bad_offsets_are_flushed(&place, 100));
    OL_CHECK(ol_bad_offsets_are_flushed(&place, 101));
    /* A segment that begins too low lies below all that came before. */
    place = (ol_bad_offsets){.end = 110, .before = 110, .offset = 90};
    OL_CHECK(!ol_bad_offsets_are_flushed(&place, 90));
    OL_CHECK(ol_bad_offsets_are_flushed(&place, 91));
}

OL_TEST(a_tail_lies_above_the_flushed_bound_and_ends_the_log) {
    const struct { int64_t offset, flushed, end; bool followed, tail; } cases[] = {
        /* flushed bytes are damage wherever they lie */
        {9, 10, 9, false, false}, {9, 10, 20, false, false},
        /* only a right batch that follows makes it damage */
        {10, 10, 20, false, true}, {10, 10, 20, true, false},
        {19, 10, 20, true, false}, {20, 10, 20, true, true}, {21, 10, 20, true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OL_CHECK_INT(ol_bad_bytes_are_tail(cases[i].offset, cases[i].flushed, cases[i].end,
                                           cases[i].followed),
                     cases[i].tail);
    }
}

OL_TEST_MAIN()
