/* The overlay over the applied state, beside one state that applied everything: a random log, with elections. */
#include "in_flight_fixture.h"

enum { PARTITIONS = 6, PRODUCERS = 3 };

/* Everything that is written is applied to `ahead` at once: its values are the latest written ones. */
static void check_against(const scene *s, const ol_state *ahead) {
    ol_pair_name name = name_in(ahead->table, "t");
    for (int32_t p = 0; p < PARTITIONS; p++) {
        ol_position_value expected, value;
        bool is_there = ol_table_get(ahead->table, &name, p, &expected);
        OL_CHECK_INT(latest_value(s, p, &value), is_there);
        if (is_there) OL_CHECK(value.offset == expected.offset && value.log_offset == expected.log_offset);
        if (has_pending(ahead, p)) OL_CHECK(has_pending(&s->state, p) || has_pending(&s->overlay.written, p));
        int64_t at = place(s, p);
        bool is_committed = is_there && expected.offset % 2 != 0;
        if (at != NONE && !is_committed) OL_CHECK(at >= s->applied_offset);
    }
    for (int type = 2; type <= 3; type++) {
        ol_group_record expected;
        bool is_in_flight = ol_group_records_get(ahead->group_records, group_key(type), &expected) &&
                            expected.log_offset >= s->applied_offset;
        OL_CHECK_INT(group_record_place(s, type), is_in_flight ? expected.log_offset : NONE);
    }
}

/* Values of transactions are odd, those of plain batches even. */
static void add_anything(scene *s, int64_t producer_id) {
    int32_t partition = (int32_t)ol_test_below(PARTITIONS);
    switch (ol_test_below(8)) {
        case 0: add_tombstone(s, partition); break;
        case 1: add_group_record(s, 2 + (int)ol_test_below(2), ol_test_below(2) ? "value" : NULL); break;
        default: add_value(s, partition, 2 * (s->log->next_offset + s->log->records) + (producer_id >= 0));
    }
}

static void write_anything(scene *s, int64_t *producers) {
    int64_t *producer_id = &producers[ol_test_below(PRODUCERS)];
    uint64_t dice = ol_test_below(7);
    if (dice < 2) {
        write_marker(s, *producer_id, dice == 0 ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
        return;
    }
    for (uint64_t count = 1 + ol_test_below(4); count > 0; count--) add_anything(s, dice < 4 ? *producer_id : PLAIN);
    write_batch(s, dice < 4 ? *producer_id : PLAIN);
}

/* W passes some batches; sometimes all, and sometimes the leader is elected again. */
static void advance(scene *s) {
    int unapplied = (int)(s->log->count - s->applied);
    bool is_large = s->log->filled > MEMORY_LOG_BYTES / 2;
    apply(s, is_large ? unapplied : (int)ol_test_below((uint64_t)unapplied + 1));
    if (is_large || ol_test_below(10) == 0) elect(s);
}

OL_TEST(the_overlay_over_the_applied_state_equals_a_state_that_applied_everything) {
    scene s = begin();
    ol_state ahead;
    ol_error error;
    OL_CHECK_OK(ol_state_create(&ahead, &error), &error);
    int64_t producers[PRODUCERS] = {0, 1, 2};
    for (int64_t steps = ol_test_depth(20000, 300000); steps > 0; steps--) {
        write_anything(&s, producers);
        ol_batch batch = last_batch(&s);
        OL_CHECK_OK(ol_state_apply_batch(&ahead, &batch, NULL, NULL, &error), &error);
        check_against(&s, &ahead);
        if (ol_test_below(3) != 0) continue;
        advance(&s);
        check_against(&s, &ahead);
    }
    ol_state_destroy(&ahead);
    end(&s);
}

OL_TEST_MAIN()
