/* Records in flight that leave the overlay: compressed batches, batches that W passes, and reservations. */
#include "in_flight_fixture.h"
#include "stored_codec.h"

/* --------------------------------------------------------------------------- compressed batches */

static scene begin_compressed(stored_codec *stored, ol_decompressor *port) {
    scene s = begin();
    *port = stored_port(stored);
    s.decompressor = port;
    return s;
}

/* Ends the batch. */
static void seal_compressed(scene *s) {
    seal(s, PLAIN, 0);
    memory_log_compress(s->log);
}

static int64_t write_compressed(scene *s, int32_t partition, int64_t offset) {
    add_value(s, partition, offset);
    seal_compressed(s);
    return record(s);
}

OL_TEST(a_compressed_batch_is_read_by_the_decompressor_and_its_memory_given_back) {
    stored_codec stored;
    ol_decompressor port;
    scene s = begin_compressed(&stored, &port);
    int64_t first = write_compressed(&s, 0, 10);
    OL_CHECK_INT(place(&s, 0), first);
    apply(&s, 1);
    OL_CHECK_INT(place(&s, 0), NONE);
    OL_CHECK_INT(latest(&s, 0), 10);
    add_broken_value(&s, 0, 11);
    seal_compressed(&s);
    record(&s);
    OL_CHECK_INT(place(&s, 0), NONE);
    OL_CHECK_INT(stored.held, 0);
    end(&s);
}

OL_TEST(a_compressed_batch_without_a_decompressor_is_passed_over) {
    scene s = begin();
    write_compressed(&s, 0, 10);
    OL_CHECK_INT(place(&s, 0), NONE);
    int64_t second = write_value(&s, PLAIN, 0, 11);
    apply(&s, 1);
    OL_CHECK_INT(place(&s, 0), second);
    end(&s);
}

static int stop(void *context OL_UNUSED, ol_codec codec OL_UNUSED, int magic OL_UNUSED, ol_slice input OL_UNUSED,
                size_t limit OL_UNUSED, ol_slice *output OL_UNUSED, ol_error *error) {
    return ol_fail(error, OL_IO, "interrupted");
}

/* To pass it over would make the latest written value another one than the log's. */
OL_TEST(an_interrupted_decompression_is_an_error) {
    stored_codec stored;
    ol_decompressor port;
    scene s = begin_compressed(&stored, &port);
    ol_decompressor stopped = port;
    stopped.decompress = stop;
    s.decompressor = &stopped;
    add_value(&s, 0, 10);
    seal_compressed(&s);
    ol_error error;
    OL_CHECK_INT(try_record(&s, &error), OL_IO);
    OL_CHECK_INT(place(&s, 0), NONE);
    s.decompressor = &port;
    record(&s);
    ol_batch batch = last_batch(&s);
    ol_in_flight_applied(&s.overlay, &batch, &stopped);
    OL_CHECK_INT(place(&s, 0), 0);          /* it leaves with the overlay */
    end(&s);
}

/* ------------------------------------------------------------------------------------- W passes */

OL_TEST(an_applied_record_leaves_the_overlay) {
    scene s = begin();
    write_value(&s, PLAIN, 0, 10);
    write_tombstone(&s, PLAIN, 0);
    write_value(&s, PLAIN, 1, 11);
    apply(&s, 2);
    OL_CHECK_INT(place(&s, 0), NONE);
    apply(&s, 1);
    OL_CHECK_INT(place(&s, 1), NONE);
    OL_CHECK_INT(ol_table_count(s.overlay.written.table) + ol_table_count(s.overlay.absent), 0);
    OL_CHECK(latest(&s, 0) == NONE && latest(&s, 1) == 11);
    end(&s);
}

OL_TEST(a_later_record_in_flight_outlives_the_apply_of_an_earlier_one) {
    scene s = begin();
    write_value(&s, PLAIN, 0, 10);
    write_value(&s, PLAIN, 1, 11);
    int64_t value = write_value(&s, PLAIN, 0, 20), tombstone = write_tombstone(&s, PLAIN, 1);
    apply(&s, 2);
    OL_CHECK_INT(place(&s, 0), value);
    OL_CHECK_INT(place(&s, 1), tombstone);
    OL_CHECK(latest(&s, 0) == 20 && latest(&s, 1) == NONE);
    end(&s);
}

OL_TEST(records_of_one_key_in_one_batch_leave_together) {
    scene s = begin();
    add_value(&s, 0, 10);
    add_tombstone(&s, 0);
    add_value(&s, 0, 11);
    int64_t last = write_batch(&s, PLAIN);
    OL_CHECK_INT(place(&s, 0), last);
    apply(&s, 1);
    OL_CHECK_INT(place(&s, 0), NONE);
    OL_CHECK_INT(latest(&s, 0), 11);
    end(&s);
}

/* The table has it only when W has passed the marker. */
OL_TEST(a_committed_value_outlives_the_apply_of_its_own_record) {
    scene s = begin();
    int64_t first = write_value(&s, 7, 0, 10);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    apply(&s, 1);
    OL_CHECK_INT(place(&s, 0), first);
    OL_CHECK_INT(latest(&s, 0), 10);
    apply(&s, 1);
    OL_CHECK_INT(latest(&s, 0), 10);
    write_tombstone(&s, PLAIN, 0);
    apply(&s, 1);
    OL_CHECK_INT(place(&s, 0), NONE);
    OL_CHECK_INT(latest(&s, 0), NONE);
    end(&s);
}

OL_TEST(a_value_outlives_the_apply_of_an_open_transaction_that_has_its_position) {
    scene s = begin();
    write_value(&s, 7, 0, 10);
    int64_t second = write_value(&s, PLAIN, 0, 11);
    apply(&s, 1);
    OL_CHECK_INT(place(&s, 0), second);
    OL_CHECK_INT(latest(&s, 0), 11);
    end(&s);
}

OL_TEST(a_batch_that_is_not_whole_removes_nothing_when_w_passes_it) {
    scene s = begin();
    write_value(&s, 7, 0, 10);
    add_broken_value(&s, 0, 20);
    write_batch(&s, PLAIN);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(latest(&s, 0), 10);
    apply(&s, 2);
    OL_CHECK_INT(latest(&s, 0), 10);
    end(&s);
}

/* --------------------------------------------------------------------------------- reservations */

static int64_t value_memory(const scene *s) {
    ol_table_memory memory;
    ol_table_memory_usage(s->state.table, &memory);
    return (int64_t)memory.string_bytes;
}

/* Reserves memory for a value of a topic that the table has only as long as the reservation is held. */
static void hold(scene *s, const char *topic, int64_t log_offset) {
    ol_pair_name name = name_in(s->state.table, topic);
    ol_position_value value = {.offset = 1, .expire_timestamp = -1, .metadata = text("")};
    ol_reservation reservation;
    ol_error error;
    OL_CHECK_OK(ol_table_reserve(s->state.table, &name, 0, &value, &reservation, &error), &error);
    ol_in_flight_hold(&s->overlay, log_offset, &reservation);
}

static void reserve(scene *s, size_t count) {
    ol_error error;
    OL_CHECK_OK(ol_in_flight_reserve(&s->overlay, count, &error), &error);
}

static bool is_held(const scene *s, const char *topic) {
    const ol_table *table = s->state.table;
    ol_table_cursor cursor = {0};
    ol_slice found;
    bool is_found = false;
    while (!is_found && ol_table_next_topic(table, text("g"), ol_table_group_hash(table, text("g")), &cursor, &found)) {
        is_found = found.size == strlen(topic) && memcmp(found.data, topic, found.size) == 0;
    }
    return is_found;
}

OL_TEST(a_reservation_is_held_until_its_batch_is_applied) {
    scene s = begin();
    reserve(&s, 4);
    hold(&s, "a", 0);
    hold(&s, "b", 1);
    hold(&s, "c", 2);
    hold(&s, "d", 4);
    add_value(&s, 0, 10);
    add_value(&s, 1, 11);
    write_batch(&s, PLAIN);                     /* 0 and 1 */
    write_value(&s, PLAIN, 2, 12);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    write_value(&s, PLAIN, 3, 13);
    OL_CHECK(is_held(&s, "a") && is_held(&s, "b") && is_held(&s, "c") && is_held(&s, "d"));
    apply(&s, 1);
    OL_CHECK(!is_held(&s, "a") && !is_held(&s, "b") && is_held(&s, "c") && is_held(&s, "d"));
    apply(&s, 2);
    OL_CHECK(!is_held(&s, "c") && is_held(&s, "d"));
    apply(&s, 1);
    OL_CHECK(!is_held(&s, "d"));
    end(&s);
}

OL_TEST(a_control_batch_ends_the_reservations_below_it) {
    scene s = begin();
    reserve(&s, 1);
    hold(&s, "a", 0);
    write_marker(&s, 7, OL_CONTROL_ABORT);
    apply(&s, 1);
    OL_CHECK(!is_held(&s, "a"));
    end(&s);
}

OL_TEST(a_reset_releases_what_is_still_held_and_empties_the_overlay) {
    scene s = begin();
    int64_t before = value_memory(&s);
    reserve(&s, 2);
    hold(&s, "a", 0);
    hold(&s, "b", 1);
    write_value(&s, 7, 0, 10);
    write_tombstone(&s, PLAIN, 1);
    write_group_record(&s, 2, "a");
    apply(&s, 1);
    OL_CHECK(!is_held(&s, "a") && is_held(&s, "b"));
    ol_in_flight_reset(&s.overlay, s.state.table);
    OL_CHECK(!is_held(&s, "b") && !s.overlay.active && place(&s, 1) == NONE);
    write_marker(&s, 7, OL_CONTROL_ABORT);
    apply(&s, 3);
    OL_CHECK_INT(group_record_place(&s, 2), NONE);
    OL_CHECK_INT(value_memory(&s), before);
    end(&s);
}

/* Five batches lag, so that what is still held moves to the room of what was released. */
OL_TEST(the_room_of_ended_reservations_is_used_again) {
    enum { BATCHES = 300, LAG = 5 };
    scene s = begin();
    char topic[16];
    size_t capacity = 0;
    for (int i = 0; i < BATCHES; i++) {
        reserve(&s, 3);
        if (i == 0) capacity = s.overlay.held_capacity;
        for (int k = 0; k < 3; k++) {
            snprintf(topic, sizeof topic, "topic %d", 3 * i + k);
            hold(&s, topic, s.log->next_offset + k);
            add_value(&s, k, i);
        }
        write_batch(&s, PLAIN);
        if (i < LAG) continue;
        snprintf(topic, sizeof topic, "topic %d", 3 * (i - LAG) + 2);
        OL_CHECK(is_held(&s, topic));
        apply(&s, 1);
        OL_CHECK(!is_held(&s, topic));
        snprintf(topic, sizeof topic, "topic %d", 3 * (i - LAG) + 3);
        OL_CHECK(is_held(&s, topic));
    }
    OL_CHECK_INT(s.overlay.held_capacity, capacity);
    end(&s);
}

OL_TEST(as_many_reservations_as_were_announced_can_be_held) {
    enum { MANY = 1000 };
    scene s = begin();
    for (int i = 0; i < 3 * MANY; i++) {
        if (i % MANY == 0) reserve(&s, MANY);
        hold(&s, i == 0 ? "first" : "later", i);
    }
    write_value(&s, PLAIN, 0, 1);
    apply(&s, 1);
    OL_CHECK(!is_held(&s, "first") && is_held(&s, "later"));
    end(&s);
}

OL_TEST_MAIN()
