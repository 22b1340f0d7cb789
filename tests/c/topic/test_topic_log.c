/* A topic's log: offsets, what idempotent producers send again, times, and what an open restores. */
#include "topic_fixture.h"

typedef struct scene {
    char directory[OL_PATH_MAX];
    ol_topic_log *topic;
    int64_t segment_bytes;
    bool is_clean;              /* it was closed, and a marker says so */
} scene;

static void open_at(scene *s, int32_t leader_epoch) {
    ol_error error;
    ol_log_recovery recovery;
    ol_log_options options = fixture_options(s->directory);
    if (s->segment_bytes != 0) options.config.segment_bytes = s->segment_bytes;
    options.replicated = true;
    options.clean = s->is_clean;
    s->is_clean = false;
    OL_CHECK_OK(ol_topic_log_open(&options, leader_epoch, &s->topic, &recovery, &error), &error);
}

static void begin(scene *s) {
    memset(s, 0, sizeof *s);
    fixture_directory(s->directory);
    open_at(s, 0);
}

static void close_log(scene *s) {
    int64_t end;
    ol_error error;
    OL_CHECK_OK(ol_topic_log_close(s->topic, &end, &error), &error);
    s->is_clean = true;
}

static void finish(scene *s) {
    close_log(s);
    fixture_remove(s->directory);
}

static ol_appended produce_at(scene *s, const sent_batch *sent, int64_t log_append_time) {
    uint8_t bytes[SENT_BYTES_MAX];
    ol_appended appended;
    ol_error error;
    ol_produce_rules rules = sent_rules();
    rules.log_append_time = log_append_time;
    int64_t end = ol_log_end(ol_topic_log_log(s->topic));
    int status = ol_topic_log_produce(s->topic, sent_encode(sent, bytes), &rules, &appended, &error);
    OL_CHECK_INT(status, appended.produced.refusal == OL_PRODUCE_ACCEPTED ? OL_OK : OL_CORRUPT);
    bool is_new = status == OL_OK && !appended.is_duplicate;
    OL_CHECK_INT(ol_log_end(ol_topic_log_log(s->topic)), end + (is_new ? sent->count : 0));
    return appended;
}

static ol_appended produce(scene *s, const sent_batch *sent) { return produce_at(s, sent, -1); }

static ol_appended produce_idempotent(scene *s, int16_t epoch, int32_t sequence, int count) {
    sent_batch sent = sent_idempotent(7, epoch, sequence, count);
    return produce(s, &sent);
}

OL_TEST(offsets_follow_each_other) {
    scene s;
    begin(&s);
    int64_t next = 0;
    for (int i = 0; i < 3000; i++) {
        sent_batch sent = sent_plain(1 + i % 5);
        ol_appended appended = produce(&s, &sent);
        OL_CHECK_INT(appended.base_offset, next);
        next += sent.count;
        OL_CHECK_INT(appended.next_offset, next);
    }
    close_log(&s);
    open_at(&s, 0);
    sent_batch sent = sent_plain(1);
    OL_CHECK_INT(produce(&s, &sent).base_offset, next);
    finish(&s);
}

OL_TEST(what_is_sent_again_is_answered_as_the_first_time) {
    scene s;
    begin(&s);
    int64_t bases[7];
    for (int i = 0; i < 7; i++) bases[i] = produce_idempotent(&s, 0, 10 * i, 10).base_offset;
    for (int i = 0; i < 7; i++) {
        ol_appended again = produce_idempotent(&s, 0, 10 * i, 10);
        if (i < 2) {
            OL_CHECK_INT(again.produced.refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
            continue;
        }
        OL_CHECK(again.is_duplicate);
        OL_CHECK_INT(again.base_offset, bases[i]);
        OL_CHECK_INT(again.next_offset, bases[i] + 10);
        OL_CHECK_INT(again.log_append_time, 1700000000009);
    }
    finish(&s);
}

/* docs/format/topics.md §17.2 */
OL_TEST(what_is_sent_again_has_the_append_time_of_the_first_time) {
    scene s;
    begin(&s);
    sent_batch sent = sent_idempotent(7, 0, 0, 3);
    OL_CHECK_INT(produce_at(&s, &sent, 1800000000000).log_append_time, 1800000000000);
    for (int i = 0; i < 2; i++) {
        ol_appended again = produce_at(&s, &sent, 1800000000500);
        OL_CHECK(again.is_duplicate);
        OL_CHECK_INT(again.log_append_time, 1800000000000);
        close_log(&s);
        open_at(&s, 0);
    }
    finish(&s);
}

OL_TEST(sequences_that_do_not_follow_are_refused) {
    scene s;
    begin(&s);
    OL_CHECK_INT(produce_idempotent(&s, 3, 55, 5).produced.refusal, OL_PRODUCE_ACCEPTED);    /* nothing is known of it */
    OL_CHECK_INT(produce_idempotent(&s, 3, 61, 1).produced.refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    OL_CHECK_INT(produce_idempotent(&s, 3, 59, 1).produced.refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    OL_CHECK_INT(produce_idempotent(&s, 3, 55, 4).produced.refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    OL_CHECK_INT(produce_idempotent(&s, 2, 60, 1).produced.refusal, OL_PRODUCE_INVALID_PRODUCER_EPOCH);
    OL_CHECK_INT(produce_idempotent(&s, 4, 60, 1).produced.refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    OL_CHECK_INT(produce_idempotent(&s, 3, 60, 1).produced.refusal, OL_PRODUCE_ACCEPTED);
    OL_CHECK_INT(produce_idempotent(&s, 4, 0, 1).produced.refusal, OL_PRODUCE_ACCEPTED);
    OL_CHECK_INT(produce_idempotent(&s, 3, 61, 1).produced.refusal, OL_PRODUCE_INVALID_PRODUCER_EPOCH);
    OL_CHECK_INT(produce_idempotent(&s, 4, 1, 1).produced.refusal, OL_PRODUCE_ACCEPTED);
    finish(&s);
}

OL_TEST(sequences_begin_again_after_the_greatest) {
    scene s;
    begin(&s);
    OL_CHECK_INT(produce_idempotent(&s, 0, INT32_MAX - 4, 3).produced.refusal, OL_PRODUCE_ACCEPTED);
    OL_CHECK_INT(produce_idempotent(&s, 0, INT32_MAX - 1, 4).base_offset, 3);
    OL_CHECK_INT(produce_idempotent(&s, 0, 2, 1).base_offset, 7);
    OL_CHECK(produce_idempotent(&s, 0, INT32_MAX - 1, 4).is_duplicate);
    close_log(&s);
    open_at(&s, 0);
    OL_CHECK(produce_idempotent(&s, 0, 2, 1).is_duplicate);
    OL_CHECK_INT(produce_idempotent(&s, 0, 3, 1).base_offset, 8);
    finish(&s);
}

OL_TEST(the_last_batch_of_a_producer_is_known_after_an_open) {
    scene s;
    begin(&s);
    produce_idempotent(&s, 1, 0, 4);
    produce_idempotent(&s, 1, 4, 6);
    for (int way = 0; way < 2; way++) {
        if (way == 0) {
            close_log(&s);
        } else {
            ol_topic_log_abandon(s.topic);      /* as after a crash */
        }
        open_at(&s, 0);
        ol_appended again = produce_idempotent(&s, 1, 4, 6);
        OL_CHECK(again.is_duplicate);
        OL_CHECK_INT(again.base_offset, 4);
        OL_CHECK_INT(produce_idempotent(&s, 1, 0, 4).produced.refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
        OL_CHECK_INT(produce_idempotent(&s, 0, 10, 1).produced.refusal, OL_PRODUCE_INVALID_PRODUCER_EPOCH);
    }
    finish(&s);
}

OL_TEST(many_producers_are_kept_apart) {
    scene s;
    begin(&s);
    for (int round = 0; round < 3; round++) {
        for (int64_t id = 0; id < 500; id++) {
            sent_batch sent = sent_idempotent(id, 0, round, 1);
            OL_CHECK_INT(produce(&s, &sent).base_offset, round * 500 + id);
        }
    }
    for (int64_t id = 0; id < 500; id++) {
        sent_batch sent = sent_idempotent(id, 0, 1, 1);
        OL_CHECK_INT(produce(&s, &sent).base_offset, 500 + id);
    }
    finish(&s);
}

OL_TEST(ids_that_clients_made_up_are_not_the_highest) {
    scene s;
    int64_t ids[] = {5, OL_GIVEN_PRODUCER_ID_MAX + 1, INT64_MAX, 9, OL_GIVEN_PRODUCER_ID_MAX};
    int64_t highest[] = {5, 5, 5, 9, OL_GIVEN_PRODUCER_ID_MAX};
    begin(&s);
    OL_CHECK_INT(ol_topic_log_highest_producer_id(s.topic), -1);
    for (int i = 0; i < 5; i++) {
        sent_batch sent = sent_idempotent(ids[i], 0, 0, 1);
        OL_CHECK_INT(produce(&s, &sent).base_offset, i);
        OL_CHECK(produce(&s, &sent).is_duplicate);
        for (int way = 0; way < 3; way++) {
            OL_CHECK_INT(ol_topic_log_highest_producer_id(s.topic), highest[i]);
            if (way == 0) close_log(&s);
            if (way == 1) ol_topic_log_abandon(s.topic);    /* as after a crash */
            if (way < 2) open_at(&s, 0);
        }
    }
    finish(&s);
}

OL_TEST(batches_carry_the_epoch_of_their_leader) {
    scene s;
    int32_t found;
    int64_t end;
    begin(&s);
    sent_batch sent = sent_plain(3);
    produce(&s, &sent);
    close_log(&s);
    open_at(&s, 4);
    produce(&s, &sent);
    ol_log *log = ol_topic_log_log(s.topic);
    OL_CHECK_INT(ol_log_epoch_at(log, 2), 0);
    OL_CHECK_INT(ol_log_epoch_at(log, 3), 4);
    ol_log_end_for_epoch(log, 2, &found, &end);
    OL_CHECK_INT(found, 0);
    OL_CHECK_INT(end, 3);
    close_log(&s);
    open_at(&s, 2);         /* older than what the log has */
    OL_CHECK_INT(ol_log_leader_epoch(ol_topic_log_log(s.topic)), 4);
    ol_topic_log_abandon(s.topic);
    open_at(&s, 0);         /* as after a crash */
    OL_CHECK_INT(ol_log_leader_epoch(ol_topic_log_log(s.topic)), 5);
    finish(&s);
}

/* ------------------------------------------------------------ times */

static ol_timed_record find(scene *s, int64_t time, int64_t until) {
    ol_timed_record found;
    ol_error error;
    OL_CHECK_OK(ol_topic_log_find_time(ol_topic_log_log(s->topic), NULL, time, until, &found, &error), &error);
    return found;
}

static ol_timed_record find_newest(scene *s, int64_t until) {
    ol_timed_record found;
    ol_error error;
    OL_CHECK_OK(ol_topic_log_find_newest(ol_topic_log_log(s->topic), NULL, until, &found, &error), &error);
    return found;
}

/* Times that go up and down, compared with the times themselves; over many segments. */
OL_TEST(times_find_the_first_record_that_is_not_older) {
    enum { RECORDS = 3000 };
    static int64_t times[RECORDS], ends[RECORDS + 1];
    int batches = 0;
    scene s;
    uint64_t random = ol_test_seed * 2654435761u;
    memset(&s, 0, sizeof s);
    fixture_directory(s.directory);
    s.segment_bytes = 8 << 10;
    open_at(&s, 0);
    for (int at = 0; at < RECORDS;) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        sent_batch sent = sent_plain(1 + (int)(random >> 33) % 4);
        if (sent.count > RECORDS - at) sent.count = RECORDS - at;
        sent.first_timestamp = 1700000000000 + at * 10 + (int64_t)((random >> 40) % 500);
        produce(&s, &sent);
        for (int i = 0; i < sent.count; i++) times[at++] = sent.first_timestamp + i;
        ends[++batches] = at;
    }
    for (int round = 0; round < 300; round++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int64_t time = 1700000000000 - 100 + (int64_t)((random >> 30) % (RECORDS * 10 + 700));
        int64_t until = ends[(random >> 45) % (uint64_t)(batches + 1)];
        int64_t expected = -1, greatest = -1;
        for (int64_t i = 0; i < until; i++) {
            if (expected < 0 && times[i] >= time) expected = i;
            if (greatest < 0 || times[i] > times[greatest]) greatest = i;
        }
        ol_timed_record found = find(&s, time, until);
        OL_CHECK_INT(found.offset, expected);
        OL_CHECK_INT(found.timestamp, expected < 0 ? -1 : times[expected]);
        OL_CHECK_INT(found.leader_epoch, expected < 0 ? -1 : 0);
        if (round % 10 == 0) OL_CHECK_INT(find_newest(&s, until).offset, greatest);
    }
    finish(&s);
}

OL_TEST(an_empty_log_has_no_times) {
    scene s;
    begin(&s);
    OL_CHECK_INT(find(&s, 0, 0).offset, -1);
    OL_CHECK_INT(find_newest(&s, 0).offset, -1);
    finish(&s);
}

OL_TEST_MAIN()
