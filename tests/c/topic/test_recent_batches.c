/* The last five batches of each producer: what is recognised, what is refused, what is forgotten; and beside a plain model. */
#include "topic_fixture.h"
#include "topic/recent_batches.h"

enum { EXPIRATION_MS = 1000 };

typedef struct scene {
    char directory[OL_PATH_MAX];
    ol_log *log;
    ol_recent_batches recent;
    bool is_clean;              /* the log was closed, and a marker says so */
} scene;

static void open_log(scene *s) {
    ol_log_options options = fixture_options(s->directory);
    options.config.producer_expiration_ms = EXPIRATION_MS;
    options.replicated = true;
    options.clean = s->is_clean;
    s->log = fixture_open(&options, NULL);
}

static void begin(scene *s) {
    memset(s, 0, sizeof *s);
    fixture_now = 1700000000000;
    fixture_directory(s->directory);
    open_log(s);
}

static void close_log(scene *s) {
    ol_error error;
    OL_CHECK_OK(ol_log_close(s->log, &error), &error);
    s->is_clean = true;
}

static void finish(scene *s) {
    close_log(s);
    ol_recent_batches_free(&s->recent);
    fixture_remove(s->directory);
}

/* An open forgets the producers that have expired; the batches that were compared stay. */
static void expire(scene *s) {
    close_log(s);
    open_log(s);
}

static int64_t append(scene *s, const ol_produced_batch *produced) {
    ol_error error;
    ol_batch_fields fields;
    const ol_batch *batch = &produced->batch;
    uint8_t *start;
    int64_t base_offset;
    OL_CHECK_OK(ol_log_reserve(s->log, batch->size, (int32_t)batch->last_offset, produced->max_timestamp, &start,
                               &base_offset, &error), &error);
    ol_produced_batch_put(start, produced, base_offset, 0, -1);
    ol_batch_fields_init(&fields, base_offset, batch->base_timestamp);
    fields.max_timestamp = produced->max_timestamp;
    fields.producer_id = batch->producer_id;
    fields.producer_epoch = batch->producer_epoch;
    fields.base_sequence = batch->base_sequence;
    fields.leader_epoch = 0;
    fields.last_offset_delta = (int32_t)batch->last_offset;
    fields.record_count = batch->record_count;
    OL_CHECK_OK(ol_log_publish(s->log, &fields, batch->size, &error), &error);
    return base_offset;
}

typedef struct outcome {
    ol_produce_refusal refusal;
    int64_t base_offset;        /* -1: refused */
    bool is_duplicate;
} outcome;

static outcome from_producer(scene *s, int64_t producer_id, int16_t epoch, int32_t sequence, int count) {
    uint8_t bytes[SENT_BYTES_MAX];
    ol_produced_batch produced;
    const ol_recent_batch *known;
    ol_error error = {.status = OL_OK};
    ol_produce_rules rules = sent_rules();
    sent_batch sent = sent_idempotent(producer_id, epoch, sequence, count);
    sent.first_timestamp = fixture_now;
    OL_CHECK_OK(ol_produced_batch_check(sent_encode(&sent, bytes), &rules, &produced, &error), &error);
    int status = ol_recent_batches_check(&s->recent, s->log, &produced, &known, &error);
    OL_CHECK_INT(status, produced.refusal == OL_PRODUCE_ACCEPTED ? OL_OK : OL_CORRUPT);
    if (status != OL_OK) {
        OL_CHECK(known == NULL && error.reason[0] != '\0');
        return (outcome){produced.refusal, -1, false};
    }
    if (known != NULL) {
        OL_CHECK_INT(known->last_offset, known->base_offset + count - 1);
        OL_CHECK_INT(known->base_sequence, sequence);
        return (outcome){OL_PRODUCE_ACCEPTED, known->base_offset, true};
    }
    int64_t base_offset = append(s, &produced);
    ol_recent_batches_add(&s->recent, &produced, base_offset, produced.max_timestamp);
    return (outcome){OL_PRODUCE_ACCEPTED, base_offset, false};
}

static outcome send(scene *s, int16_t epoch, int32_t sequence, int count) {
    return from_producer(s, 7, epoch, sequence, count);
}

static void check_is_new(outcome found, int64_t base_offset) {
    OL_CHECK_INT(found.refusal, OL_PRODUCE_ACCEPTED);
    OL_CHECK(!found.is_duplicate);
    OL_CHECK_INT(found.base_offset, base_offset);
}

static void check_is_duplicate(outcome found, int64_t base_offset) {
    OL_CHECK_INT(found.refusal, OL_PRODUCE_ACCEPTED);
    OL_CHECK(found.is_duplicate);
    OL_CHECK_INT(found.base_offset, base_offset);
}

/* ------------------------------------------------------------ five batches */

OL_TEST(each_of_five_batches_is_recognised_and_the_sixth_oldest_is_not) {
    scene s;
    begin(&s);
    for (int sent = 1; sent <= 12; sent++) {
        check_is_new(send(&s, 0, 10 * (sent - 1), 10), 10 * (sent - 1));
        for (int i = 0; i < sent; i++) {
            outcome again = send(&s, 0, 10 * i, 10);
            if (sent - i <= OL_RECENT_BATCHES) {
                check_is_duplicate(again, 10 * i);
            } else {
                OL_CHECK_INT(again.refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
            }
        }
    }
    finish(&s);
}

OL_TEST(a_duplicate_has_the_first_and_the_last_sequence_of_one_batch) {
    scene s;
    begin(&s);
    for (int i = 0; i < 5; i++) check_is_new(send(&s, 0, 10 * i, 10), 10 * i);
    OL_CHECK_INT(send(&s, 0, 10, 9).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    OL_CHECK_INT(send(&s, 0, 11, 9).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    OL_CHECK_INT(send(&s, 0, 10, 20).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    OL_CHECK_INT(send(&s, 0, 49, 1).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    OL_CHECK_INT(send(&s, 0, 51, 1).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    check_is_new(send(&s, 0, 50, 1), 50);
    finish(&s);
}

OL_TEST(the_log_knows_the_last_batch_alone) {
    scene s;
    begin(&s);
    for (int i = 0; i < 5; i++) check_is_new(send(&s, 0, 10 * i, 10), 10 * i);
    ol_recent_batches_free(&s.recent);      /* as after an open */
    check_is_duplicate(send(&s, 0, 40, 10), 40);
    OL_CHECK_INT(send(&s, 0, 30, 10).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    check_is_new(send(&s, 0, 50, 10), 50);
    check_is_duplicate(send(&s, 0, 40, 10), 40);
    finish(&s);
}

/* ------------------------------------------------------------ sequences and epochs */

OL_TEST(sequences_go_on_at_0_after_the_greatest) {
    scene s;
    begin(&s);
    check_is_new(send(&s, 0, INT32_MAX - 9, 5), 0);
    check_is_new(send(&s, 0, INT32_MAX - 4, 8), 5);     /* 2^31 - 5 .. 2^31 - 1, 0, 1, 2 */
    OL_CHECK_INT(send(&s, 0, 2, 1).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    check_is_new(send(&s, 0, 3, 1), 13);
    check_is_duplicate(send(&s, 0, INT32_MAX - 9, 5), 0);
    check_is_duplicate(send(&s, 0, INT32_MAX - 4, 8), 5);
    ol_recent_batches_free(&s.recent);
    check_is_duplicate(send(&s, 0, 3, 1), 13);
    finish(&s);
}

OL_TEST(a_batch_may_end_at_the_greatest_sequence) {
    scene s;
    begin(&s);
    check_is_new(send(&s, 0, INT32_MAX - 1, 2), 0);
    check_is_new(send(&s, 0, 0, 1), 2);
    check_is_duplicate(send(&s, 0, INT32_MAX - 1, 2), 0);
    check_is_duplicate(send(&s, 0, 0, 1), 2);
    finish(&s);
    begin(&s);
    check_is_new(send(&s, 0, INT32_MAX - 1, 4), 0);
    ol_recent_batches_free(&s.recent);                  /* its first sequence is computed from its last */
    check_is_duplicate(send(&s, 0, INT32_MAX - 1, 4), 0);
    finish(&s);
}

OL_TEST(an_epoch_begins_at_0_and_ends_those_before_it) {
    scene s;
    begin(&s);
    check_is_new(send(&s, 3, 55, 5), 0);                /* nothing is known of the producer */
    OL_CHECK_INT(send(&s, 4, 60, 1).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    check_is_duplicate(send(&s, 3, 55, 5), 0);          /* the refused batch has changed nothing */
    check_is_new(send(&s, 4, 0, 5), 5);
    OL_CHECK_INT(send(&s, 3, 55, 5).refusal, OL_PRODUCE_INVALID_PRODUCER_EPOCH);
    OL_CHECK_INT(send(&s, 3, 60, 1).refusal, OL_PRODUCE_INVALID_PRODUCER_EPOCH);
    OL_CHECK_INT(send(&s, 4, 55, 5).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    check_is_new(send(&s, 4, 5, 5), 10);
    check_is_new(send(&s, INT16_MAX, 0, 5), 15);
    check_is_duplicate(send(&s, INT16_MAX, 0, 5), 15);
    finish(&s);
}

/* ------------------------------------------------------------ many producers, and expired ones */

OL_TEST(an_expired_producer_may_begin_anywhere) {
    scene s;
    begin(&s);
    check_is_new(send(&s, 5, 0, 5), 0);
    check_is_new(from_producer(&s, 8, 0, 0, 5), 5);     /* the greatest id, which a log does not forget */
    fixture_now += EXPIRATION_MS - 10;
    expire(&s);
    check_is_duplicate(send(&s, 5, 0, 5), 0);
    fixture_now += 20;
    expire(&s);
    check_is_new(send(&s, 2, 77, 5), 10);               /* an older epoch, and no sequence that is due */
    OL_CHECK_INT(send(&s, 2, 0, 5).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    check_is_duplicate(send(&s, 2, 77, 5), 10);
    check_is_duplicate(from_producer(&s, 8, 0, 0, 5), 5);
    finish(&s);
}

OL_TEST(the_table_grows_and_keeps_producers_apart) {
    enum { PRODUCERS = 1000 };
    scene s;
    begin(&s);
    for (int32_t round = 0; round < 6; round++) {
        for (int64_t id = 0; id < PRODUCERS; id++) {
            check_is_new(from_producer(&s, id * 7919, 0, round, 1), round * PRODUCERS + id);
        }
    }
    OL_CHECK_INT(s.recent.count, PRODUCERS);
    OL_CHECK(s.recent.capacity >= PRODUCERS && s.recent.capacity <= 2 * PRODUCERS);
    for (int64_t id = 0; id < PRODUCERS; id++) {
        for (int32_t round = 1; round < 6; round++) {
            check_is_duplicate(from_producer(&s, id * 7919, 0, round, 1), round * PRODUCERS + id);
        }
        OL_CHECK_INT(from_producer(&s, id * 7919, 0, 0, 1).refusal, OL_PRODUCE_OUT_OF_ORDER_SEQUENCE);
    }
    finish(&s);
}

OL_TEST(expired_producers_make_room_and_the_others_stay) {
    enum { ROUNDS = 40, PRODUCERS = 100, KEPT = 1000000 };
    scene s;
    begin(&s);
    int64_t kept = 0, end = 0;
    for (int32_t round = 0; round < ROUNDS; round++) {
        for (int64_t id = 0; id < PRODUCERS; id++) {
            check_is_new(from_producer(&s, round * PRODUCERS + id, 0, 5, 1), end++);
        }
        if (round > 0) check_is_duplicate(from_producer(&s, KEPT, 0, round - 1, 1), kept);
        kept = end;
        check_is_new(from_producer(&s, KEPT, 0, round, 1), end++);
        fixture_now += EXPIRATION_MS + 10;
        expire(&s);
    }
    /* Without room made it would hold all 4000. */
    OL_CHECK(s.recent.capacity <= 4 * PRODUCERS);
    OL_CHECK(s.recent.count <= s.recent.capacity);
    finish(&s);
}

/* ------------------------------------------------------------ the model */

/* docs/format/topics.md §17.2, with all that a producer ever sent. */
typedef struct model_batch {
    int64_t base_offset;
    int32_t sequence;
    int count;
    int16_t epoch;
} model_batch;

enum { MODEL_PRODUCERS = 20, MODEL_BATCHES = 400 };

typedef struct model_producer {
    model_batch batches[MODEL_BATCHES];
    int count;
} model_producer;

static int32_t sequence_plus(int32_t sequence, int64_t distance) {
    return (int32_t)((sequence + distance + ((int64_t)1 << 31)) % ((int64_t)1 << 31));
}

static outcome model_outcome(const model_producer *producer, const model_batch *batch) {
    if (producer->count == 0) return (outcome){OL_PRODUCE_ACCEPTED, -1, false};
    const model_batch *last = &producer->batches[producer->count - 1];
    for (int i = producer->count - 1; i >= 0 && i >= producer->count - 5; i--) {
        const model_batch *known = &producer->batches[i];
        if (known->epoch != batch->epoch || known->epoch != last->epoch) break;
        if (known->sequence == batch->sequence && known->count == batch->count) {
            return (outcome){OL_PRODUCE_ACCEPTED, known->base_offset, true};
        }
    }
    if (batch->epoch < last->epoch) return (outcome){OL_PRODUCE_INVALID_PRODUCER_EPOCH, -1, false};
    int32_t due = batch->epoch > last->epoch ? 0 : sequence_plus(last->sequence, last->count);
    if (batch->sequence == due) return (outcome){OL_PRODUCE_ACCEPTED, -1, false};
    return (outcome){OL_PRODUCE_OUT_OF_ORDER_SEQUENCE, -1, false};
}

/* One that is due, one that was sent, or anything near. */
static model_batch drawn(const model_producer *producer) {
    model_batch batch = {.sequence = INT32_MAX - (int32_t)ol_test_below(30), .count = 1 + (int)ol_test_below(6)};
    if (producer->count == 0) return batch;
    int back = 1 + (int)ol_test_below(7);
    if (back > producer->count) back = producer->count;
    model_batch last = producer->batches[producer->count - 1];
    switch (ol_test_below(8)) {
        case 0:
        case 1: return producer->batches[producer->count - back];
        case 2: last.sequence = sequence_plus(last.sequence, (int64_t)ol_test_below(20) - 10); return last;
        case 3: last.epoch = (int16_t)(last.epoch + (int)ol_test_below(3) - 1);
                if (last.epoch < 0) last.epoch = 0;
                last.sequence = ol_test_below(2) == 0 ? 0 : last.sequence;
                return last;
        default: batch.sequence = sequence_plus(last.sequence, last.count);
                 batch.epoch = last.epoch;
                 return batch;
    }
}

OL_TEST(anything_that_producers_send_is_answered_as_the_model_says) {
    static model_producer producers[MODEL_PRODUCERS];
    scene s;
    begin(&s);
    memset(producers, 0, sizeof producers);
    int64_t end = 0;
    int seen[4] = {0};
    for (int step = 0; step < 6000; step++) {
        int64_t id = (int64_t)ol_test_below(MODEL_PRODUCERS);
        model_producer *producer = &producers[id];
        if (producer->count == MODEL_BATCHES) continue;
        model_batch batch = drawn(producer);
        outcome expected = model_outcome(producer, &batch);
        bool is_new = expected.refusal == OL_PRODUCE_ACCEPTED && !expected.is_duplicate;
        if (is_new) expected.base_offset = end;
        outcome found = from_producer(&s, id, batch.epoch, batch.sequence, batch.count);
        OL_CHECK_INT(found.refusal, expected.refusal);
        OL_CHECK_INT(found.is_duplicate, expected.is_duplicate);
        OL_CHECK_INT(found.base_offset, expected.base_offset);
        seen[is_new ? 0 : expected.is_duplicate ? 1 : expected.refusal == OL_PRODUCE_OUT_OF_ORDER_SEQUENCE ? 2 : 3]++;
        if (!is_new) continue;
        batch.base_offset = end;
        end += batch.count;
        producer->batches[producer->count++] = batch;
    }
    for (int i = 0; i < 4; i++) OL_CHECK(seen[i] > 50);
    finish(&s);
}

OL_TEST_MAIN()
