/* The latest written value of a leader: records in flight before those that are applied. */
#include "base/arena.h"
#include "in_flight_fixture.h"

/* An allocation that no machine can serve fails under a sanitizer as it does without one. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

/* -------------------------------------------------------------------------------- plain records */

OL_TEST(an_overlay_that_recorded_nothing_finds_nothing) {
    scene s = begin();
    OL_CHECK(!s.overlay.active);
    OL_CHECK_INT(place(&s, 0), NONE);
    ol_in_flight_reset(&s.overlay, s.state.table);
    OL_CHECK_INT(place(&s, 0), NONE);
    write_value(&s, PLAIN, 0, 1);
    OL_CHECK(s.overlay.active);
    end(&s);
}

/* A lone store never records: its batches are applied with an overlay that is empty. */
OL_TEST(a_batch_that_was_never_recorded_can_be_applied) {
    scene s = begin();
    add_value(&s, 0, 7);
    seal(&s, PLAIN, 0);
    apply(&s, 1);
    OL_CHECK(!s.overlay.active);
    OL_CHECK_INT(latest(&s, 0), 7);
    end(&s);
}

static void check_same_value(const ol_position_value *found, const ol_offset_value *given) {
    OL_CHECK_INT(found->offset, given->offset);
    OL_CHECK_INT(found->commit_timestamp, given->commit_timestamp);
    OL_CHECK_INT(found->expire_timestamp, given->expire_timestamp);
    OL_CHECK_INT(found->leader_epoch, given->leader_epoch);
    OL_CHECK_INT(found->metadata.size, given->metadata.size);
    OL_CHECK(memcmp(found->metadata.data, given->metadata.data, given->metadata.size) == 0);
    OL_CHECK_INT(found->topic_id != NULL, given->topic_id != NULL);
    if (given->topic_id != NULL) OL_CHECK(memcmp(found->topic_id, given->topic_id, OL_TOPIC_ID_SIZE) == 0);
}

static void check_found(const scene *s, int32_t partition, const ol_offset_value *given, int64_t given_log_offset) {
    ol_position_value value;
    bool present;
    int64_t log_offset;
    OL_CHECK(find(s, "t", partition, &present, &value, &log_offset) && present);
    check_same_value(&value, given);
    OL_CHECK_INT(log_offset, given_log_offset);
    OL_CHECK_INT(value.log_offset, given_log_offset);
}

static const uint8_t topic_id[OL_TOPIC_ID_SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* Two values that together have every field: only version 1 has an expiry, only version 4 a topic id. */
static ol_offset_value value_that_expires(void) {
    return (ol_offset_value){.offset = 42, .commit_timestamp = 1000, .expire_timestamp = 2000, .leader_epoch = -1,
                             .metadata = text("held until 2000")};
}

static ol_offset_value value_with_topic_id(void) {
    return (ol_offset_value){.offset = 43, .commit_timestamp = 1001, .expire_timestamp = -1, .leader_epoch = 9,
                             .metadata = text("of a topic with an id"), .topic_id = topic_id};
}

static void add_full_values(scene *s, int32_t first_partition) {
    ol_offset_value one = value_that_expires(), other = value_with_topic_id();
    add_position(s, "t", first_partition, &one, 1);
    add_position(s, "t", first_partition + 1, &other, 4);
}

static void check_full_values(const scene *s, int32_t first_partition, int64_t first_log_offset) {
    ol_offset_value one = value_that_expires(), other = value_with_topic_id();
    check_found(s, first_partition, &one, first_log_offset);
    check_found(s, first_partition + 1, &other, first_log_offset + 1);
}

OL_TEST(a_written_value_is_found_with_all_its_fields) {
    scene s = begin();
    add_full_values(&s, 0);
    write_batch(&s, PLAIN);
    check_full_values(&s, 0, 0);
    end(&s);
}

OL_TEST(a_position_in_flight_is_that_of_its_topic_and_partition) {
    scene s = begin();
    write_value(&s, PLAIN, 3, 1);
    ol_position_value value;
    bool present;
    int64_t log_offset;
    OL_CHECK(find(&s, "t", 3, &present, &value, &log_offset));
    OL_CHECK(!find(&s, "t", 4, &present, &value, &log_offset));
    OL_CHECK(!find(&s, "u", 3, &present, &value, &log_offset));
    ol_table *table = s.state.table;
    ol_pair_name other = ol_table_name(table, text("h"), ol_table_group_hash(table, text("h")), text("t"));
    OL_CHECK(!ol_in_flight_find(&s.overlay, &other, 3, &present, &value, &log_offset));
    end(&s);
}

OL_TEST(a_later_value_in_flight_replaces_an_earlier_one) {
    scene s = begin();
    write_value(&s, PLAIN, 0, 10);
    int64_t second = write_value(&s, PLAIN, 0, 5);
    OL_CHECK_INT(latest(&s, 0), 5);
    OL_CHECK_INT(place(&s, 0), second);
    end(&s);
}

OL_TEST(a_tombstone_in_flight_counts_as_absent) {
    scene s = begin();
    write_value(&s, PLAIN, 0, 10);
    write_value(&s, PLAIN, 1, 11);
    apply(&s, 1);
    int64_t first = write_tombstone(&s, PLAIN, 0), second = write_tombstone(&s, PLAIN, 1);
    OL_CHECK_INT(latest(&s, 0), NONE);      /* although the table has it */
    OL_CHECK_INT(latest(&s, 1), NONE);
    OL_CHECK_INT(place(&s, 0), first);
    OL_CHECK_INT(place(&s, 1), second);
    end(&s);
}

OL_TEST(a_value_after_a_tombstone_is_the_latest) {
    scene s = begin();
    write_tombstone(&s, PLAIN, 0);
    int64_t second = write_value(&s, PLAIN, 0, 10);
    OL_CHECK_INT(latest(&s, 0), 10);
    OL_CHECK_INT(place(&s, 0), second);
    int64_t third = write_tombstone(&s, PLAIN, 0);
    OL_CHECK_INT(latest(&s, 0), NONE);
    OL_CHECK_INT(place(&s, 0), third);
    end(&s);
}

/* --------------------------------------------------------------------------------- transactions */

OL_TEST(a_pending_value_in_flight_is_not_the_latest) {
    scene s = begin();
    write_value(&s, PLAIN, 0, 10);
    apply(&s, 1);
    write_value(&s, 7, 0, 20);
    OL_CHECK_INT(place(&s, 0), NONE);
    OL_CHECK_INT(latest(&s, 0), 10);
    OL_CHECK(has_pending(&s.overlay.written, 0));
    end(&s);
}

/* Those of the applied state, those in flight, and a position with one of each. */
static void commit_over_w(bool is_elected) {
    scene s = begin();
    int64_t first = write_value(&s, 7, 0, 10);
    write_value(&s, 7, 2, 12);
    int64_t third = write_value(&s, 7, 1, 11), fourth = write_value(&s, 7, 2, 13);
    apply(&s, 2);
    if (is_elected) elect(&s);      /* the overlay has nothing of the applied ones any more */
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(latest(&s, 0), 10);
    OL_CHECK_INT(latest(&s, 1), 11);
    OL_CHECK_INT(latest(&s, 2), 13);
    OL_CHECK_INT(place(&s, 0), first);      /* the record's own place, not the marker's */
    OL_CHECK_INT(place(&s, 1), third);
    OL_CHECK_INT(place(&s, 2), fourth);
    end(&s);
}

OL_TEST(a_commit_in_flight_makes_its_producers_values_the_latest) {
    commit_over_w(false);
    commit_over_w(true);
}

OL_TEST(producer_0_has_transactions_like_any_other) {
    scene s = begin();
    write_value(&s, 0, 0, 10);
    OL_CHECK_INT(place(&s, 0), NONE);
    write_marker(&s, 0, OL_CONTROL_COMMIT);
    apply(&s, 1);
    OL_CHECK_INT(latest(&s, 0), 10);
    end(&s);
}

OL_TEST(a_committed_value_is_found_with_all_its_fields) {
    scene s = begin();
    add_full_values(&s, 0);
    write_batch(&s, 7);
    apply(&s, 1);
    elect(&s);
    add_full_values(&s, 2);
    write_batch(&s, 7);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    check_full_values(&s, 0, 0);
    check_full_values(&s, 2, 2);
    end(&s);
}

static void commit_over_applied_values(bool is_elected) {
    scene s = begin();
    write_value(&s, PLAIN, 0, 1);
    write_value(&s, PLAIN, 1, 1);
    write_value(&s, 7, 0, 10);
    write_value(&s, 7, 1, 11);
    apply(&s, 3);
    if (is_elected) elect(&s);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(latest(&s, 0), 10);
    OL_CHECK_INT(latest(&s, 1), 11);
    end(&s);
}

OL_TEST(a_commit_in_flight_replaces_an_older_applied_value) {
    commit_over_applied_values(false);
    commit_over_applied_values(true);
}

OL_TEST(a_commit_in_flight_replaces_older_records_in_flight) {
    scene s = begin();
    write_value(&s, PLAIN, 0, 1);
    write_tombstone(&s, PLAIN, 1);
    add_value(&s, 0, 10);
    add_value(&s, 1, 11);
    write_batch(&s, 7);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(latest(&s, 0), 10);
    OL_CHECK_INT(latest(&s, 1), 11);
    end(&s);
}

/* The pending values, a value and a tombstone after them, and the marker; `applied` batches are applied before it. */
static void commit_below_later_records(int applied, bool is_elected) {
    scene s = begin();
    add_value(&s, 0, 10);
    add_value(&s, 1, 11);
    write_batch(&s, 7);
    write_value(&s, PLAIN, 0, 20);
    write_tombstone(&s, PLAIN, 1);
    apply(&s, applied);
    if (is_elected) elect(&s);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(latest(&s, 0), 20);
    OL_CHECK_INT(latest(&s, 1), NONE);
    if (applied == 3) OL_CHECK(place(&s, 0) == NONE && place(&s, 1) == NONE);
    apply(&s, 4 - applied);
    OL_CHECK_INT(latest(&s, 0), 20);
    OL_CHECK_INT(latest(&s, 1), NONE);
    end(&s);
}

OL_TEST(a_commit_in_flight_leaves_what_was_written_after_its_values) {
    for (int applied = 0; applied <= 3; applied++) {
        commit_below_later_records(applied, false);
        commit_below_later_records(applied, true);
    }
}

/* Each topic has another id when the transaction ends than when its value was written, and the room of the first id's
 * string went to a topic of the same size: to count, the value needs new room.  With or without an id, no string of one
 * round is as large as one of another. */
static void commit_after_other_ids(int topics) {
    static const uint8_t later_id[OL_TOPIC_ID_SIZE] = {1};
    scene s = begin();
    ol_offset_value value = value_with_topic_id(), later = value;
    later.topic_id = later_id;
    for (int i = 1; i <= topics; i++) {
        char topic[512], neighbour[512];
        snprintf(topic, sizeof topic, "%0*d", 24 * i, i);
        snprintf(neighbour, sizeof neighbour, "%0*d", 24 * i, i + 100);
        add_position(&s, topic, 0, &value, 4);
        write_batch(&s, 7);
        add_position(&s, topic, 1, &later, 4);
        add_position(&s, neighbour, 0, &value, 4);
        add_position(&s, topic, 1, NULL, 0);
        write_batch(&s, PLAIN);
    }
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(ol_table_count(s.overlay.written.table), 2 * topics);
    OL_CHECK_INT(ol_table_count(s.overlay.absent), topics);
    end(&s);
}

/* With some of these numbers they do, and the sanitizer sees a read of a string where it was before. */
OL_TEST(a_commit_in_flight_may_move_the_strings_of_the_overlay) {
    for (int topics = 1; topics <= 20; topics++) commit_after_other_ids(topics);
}

OL_TEST(an_abort_in_flight_leaves_what_was_there) {
    scene s = begin();
    write_value(&s, PLAIN, 0, 1);
    write_value(&s, 7, 0, 10);
    apply(&s, 2);
    write_value(&s, 7, 0, 11);
    write_value(&s, 7, 1, 12);
    write_marker(&s, 7, OL_CONTROL_ABORT);
    OL_CHECK_INT(latest(&s, 0), 1);
    OL_CHECK_INT(latest(&s, 1), NONE);
    OL_CHECK(!has_pending(&s.overlay.written, 0) && !has_pending(&s.overlay.written, 1));
    end(&s);
}

OL_TEST(a_commit_in_flight_does_not_bring_back_values_of_an_aborted_transaction) {
    scene s = begin();
    write_value(&s, 7, 0, 10);
    write_marker(&s, 7, OL_CONTROL_ABORT);
    write_value(&s, 7, 1, 11);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(latest(&s, 0), NONE);
    OL_CHECK_INT(latest(&s, 1), 11);
    end(&s);
}

OL_TEST(an_abort_in_flight_ends_pending_values_of_the_applied_state) {
    scene s = begin();
    write_value(&s, 7, 0, 10);
    apply(&s, 1);
    write_marker(&s, 7, OL_CONTROL_ABORT);
    write_value(&s, 7, 1, 11);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(latest(&s, 1), 11);
    OL_CHECK_INT(latest(&s, 0), NONE);
    apply(&s, 3);
    OL_CHECK_INT(latest(&s, 0), NONE);
    OL_CHECK_INT(latest(&s, 1), 11);
    end(&s);
}

OL_TEST(a_control_record_of_another_type_ends_nothing) {
    scene s = begin();
    write_value(&s, 7, 0, 10);
    memory_log_put(s.log, ol_slice_of("\0\0\0\2", 4), ol_slice_of("\0\0\0\0\0\0", 6));
    write_with(&s, 7, OL_ATTRIBUTE_CONTROL);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(latest(&s, 0), 10);
    end(&s);
}

OL_TEST(a_marker_in_flight_ends_only_the_transaction_of_its_producer) {
    static const ol_control types[] = {OL_CONTROL_COMMIT, OL_CONTROL_ABORT};
    for (int i = 0; i < 2; i++) {
        scene s = begin();
        write_value(&s, 8, 0, 10);
        apply(&s, 1);
        write_value(&s, 8, 1, 11);
        write_value(&s, 7, 2, 12);
        write_marker(&s, 7, types[i]);
        OL_CHECK(place(&s, 0) == NONE && place(&s, 1) == NONE);
        OL_CHECK(has_pending(&s.overlay.written, 1) && !has_pending(&s.overlay.written, 2));
        write_marker(&s, 8, OL_CONTROL_COMMIT);
        OL_CHECK_INT(latest(&s, 0), 10);
        OL_CHECK_INT(latest(&s, 1), 11);
        end(&s);
    }
}

OL_TEST(a_marker_without_a_transaction_changes_nothing) {
    scene s = begin();
    int64_t first = write_value(&s, PLAIN, 0, 10);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    write_marker(&s, 7, OL_CONTROL_ABORT);
    OL_CHECK_INT(place(&s, 0), first);
    OL_CHECK_INT(latest(&s, 0), 10);
    end(&s);
}

OL_TEST(a_tombstone_in_a_transaction_counts_at_once) {
    scene s = begin();
    write_value(&s, PLAIN, 0, 10);
    write_value(&s, 8, 0, 20);
    int64_t third = write_tombstone(&s, 7, 0);
    OL_CHECK_INT(latest(&s, 0), NONE);
    OL_CHECK_INT(place(&s, 0), third);
    OL_CHECK(!has_pending(&s.overlay.written, 0));
    write_marker(&s, 7, OL_CONTROL_ABORT);
    write_marker(&s, 8, OL_CONTROL_COMMIT);
    OL_CHECK_INT(latest(&s, 0), NONE);
    apply(&s, 3);
    OL_CHECK_INT(place(&s, 0), NONE);
    end(&s);
}

/* ------------------------------------------------------------ group records and unknown records */

OL_TEST(a_group_record_in_flight_is_kept_until_it_is_applied) {
    scene s = begin();
    int64_t first = write_group_record(&s, 2, "a"), second = write_group_record(&s, 3, "b");
    OL_CHECK_INT(group_record_place(&s, 2), first);
    apply(&s, 1);
    OL_CHECK_INT(group_record_place(&s, 2), NONE);
    OL_CHECK_INT(group_record_place(&s, 3), second);
    apply(&s, 1);
    OL_CHECK_INT(ol_group_records_count(s.overlay.written.group_records), 0);
    end(&s);
}

OL_TEST(a_later_group_record_in_flight_outlives_the_apply_of_an_earlier_one) {
    scene s = begin();
    write_group_record(&s, 2, "a");
    write_group_record(&s, 2, NULL);
    OL_CHECK_INT(group_record_place(&s, 2), NONE);
    int64_t third = write_group_record(&s, 2, "b");
    apply(&s, 2);
    OL_CHECK_INT(group_record_place(&s, 2), third);
    apply(&s, 1);
    OL_CHECK_INT(group_record_place(&s, 2), NONE);
    end(&s);
}

OL_TEST(a_group_record_in_a_transaction_counts_at_once) {
    scene s = begin();
    add_group_record(&s, 2, "a");
    int64_t first = write_batch(&s, 7);
    write_marker(&s, 7, OL_CONTROL_ABORT);
    OL_CHECK_INT(group_record_place(&s, 2), first);
    apply(&s, 1);
    OL_CHECK_INT(group_record_place(&s, 2), NONE);
    end(&s);
}

OL_TEST(a_record_of_unknown_kind_is_passed_over) {
    scene s = begin();
    memory_log_put(s.log, ol_slice_of("\0\x63", 2), text("value"));
    add_value(&s, 0, 10);
    int64_t last = write_batch(&s, PLAIN);
    OL_CHECK_INT(place(&s, 0), last);
    OL_CHECK_INT(ol_group_records_count(s.overlay.written.group_records), 0);
    apply(&s, 1);
    OL_CHECK_INT(place(&s, 0), NONE);
    end(&s);
}

/* ------------------------------------------------------------------- records that apply refuses */

OL_TEST(a_record_that_apply_refuses_is_passed_over_alone) {
    static const uint8_t value[] = {0, 9};      /* of a version that no broker knows */
    uint8_t key[64];
    scene s = begin();
    add_value(&s, 0, 10);
    uint8_t *key_end = ol_offset_key_put(key, OL_KEY_OFFSET_COMMIT, text("g"), text("t"), 1);
    memory_log_put(s.log, ol_slice_of(key, (size_t)(key_end - key)), ol_slice_of(value, sizeof value));
    add_value(&s, 2, 12);
    write_batch(&s, PLAIN);
    OL_CHECK_INT(latest(&s, 0), 10);
    OL_CHECK_INT(place(&s, 1), NONE);
    OL_CHECK_INT(latest(&s, 2), 12);
    apply(&s, 1);
    OL_CHECK(place(&s, 0) == NONE && place(&s, 2) == NONE);
    OL_CHECK(latest(&s, 0) == 10 && latest(&s, 1) == NONE && latest(&s, 2) == 12);
    end(&s);
}

OL_TEST(a_batch_that_is_not_whole_is_passed_over) {
    scene s = begin();
    add_broken_value(&s, 0, 10);
    write_batch(&s, PLAIN);
    OL_CHECK_INT(place(&s, 0), NONE);
    end(&s);
}

/* Nor does a marker after it. */
OL_TEST(a_control_record_that_cannot_be_decoded_ends_nothing) {
    scene s = begin();
    write_value(&s, 7, 0, 10);
    memory_log_put(s.log, ol_slice_of("\0\0", 2), ol_slice_null());
    memory_log_put(s.log, ol_slice_of("\0\0\0\1", 4), ol_slice_of("\0\0\0\0\0\0", 6));
    write_with(&s, 7, OL_ATTRIBUTE_CONTROL);
    OL_CHECK(has_pending(&s.overlay.written, 0));
    OL_CHECK_INT(latest(&s, 0), NONE);
    apply(&s, 2);
    OL_CHECK_INT(latest(&s, 0), NONE);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(latest(&s, 0), 10);
    end(&s);
}

/* ------------------------------------------------------------------------------------ no memory */

/* The overlay claims more ended transactions than memory has room for, so that one more finds none. */
OL_TEST(a_marker_that_finds_no_memory_ends_nothing) {
    ol_error error;
    scene s = begin();
    write_value(&s, 7, 0, 10);
    s.overlay.ended.count = (size_t)1 << 58;
    memory_log_marker(s.log, 7, OL_CONTROL_COMMIT);
    OL_CHECK_INT(try_record(&s, &error), OL_NO_MEMORY);
    OL_CHECK_INT(latest(&s, 0), NONE);
    OL_CHECK(has_pending(&s.overlay.written, 0));
    s.overlay.ended.count = 0;
    record(&s);
    OL_CHECK_INT(latest(&s, 0), 10);
    end(&s);
}

/* Each growth of an arena fails in turn. */
OL_TEST(recording_without_memory_fails_and_the_overlay_can_be_emptied) {
    scene s = begin();
    write_value(&s, 7, 0, 10);
    apply(&s, 1);
    add_full_values(&s, 1);
    add_tombstone(&s, 3);
    add_group_record(&s, 2, "a");
    write_batch(&s, PLAIN);
    write_value(&s, 7, 4, 14);
    write_marker(&s, 7, OL_CONTROL_COMMIT);
    int64_t allowed = 0;
    for (int status = OL_NO_MEMORY; status != OL_OK; allowed++) {
        ol_in_flight overlay;
        ol_error error;
        ol_in_flight_init(&overlay);
        ol_arena_fail_after(allowed);
        status = record_again(&s, &overlay, &error);
        ol_arena_fail_after(-1);
        OL_CHECK(status == OL_OK || status == OL_NO_MEMORY);
        ol_in_flight_reset(&overlay, s.state.table);
    }
    OL_CHECK(allowed > 10);
    end(&s);
}

OL_TEST_MAIN()
