/* The cleaner's record of transactions: the open ones, and the end of each; against models. */
#include "cleaner/transactions.h"

#include "cleaner_fixture.h"

enum { PRODUCERS = 40, EVENTS = 3000 };

OL_TEST(open_transactions_come_and_go) {
    ol_clean_open open = {0}, copy = {0};
    int64_t model[PRODUCERS];
    ol_error error;
    memset(model, 0xff, sizeof model);
    OL_CHECK(ol_clean_open_find(&open, 7) == NULL);
    OL_CHECK_INT(ol_clean_open_lowest(&open, 99), 99);
    for (int i = 0; i < 20000; i++) {
        int64_t producer = (int64_t)ol_test_below(PRODUCERS);
        int64_t id = producer * 1024;
        ol_clean_open_entry *entry = ol_clean_open_find(&open, id);
        OL_CHECK_INT(entry != NULL, model[producer] >= 0);
        if (entry != NULL) OL_CHECK_INT(entry->first_offset, model[producer]);
        if (entry != NULL && ol_test_below(2)) {
            ol_clean_open_remove(&open, entry);
            model[producer] = -1;
        } else {
            OL_CHECK_OK(ol_clean_open_add(&open, id, i, &error), &error);
            if (model[producer] < 0) model[producer] = i;
        }
        int64_t lowest = INT64_MAX;
        size_t count = 0;
        for (int j = 0; j < PRODUCERS; j++) {
            if (model[j] < 0) continue;
            count++;
            if (model[j] < lowest) lowest = model[j];
        }
        OL_CHECK_INT(open.count, count);
        OL_CHECK_INT(ol_clean_open_lowest(&open, INT64_MAX), lowest);
        if (i % 100 == 0) {
            OL_CHECK_OK(ol_clean_open_copy(&copy, &open, &error), &error);
            OL_CHECK_INT(copy.count, count);
            OL_CHECK_INT(ol_clean_open_lowest(&copy, INT64_MAX), lowest);
        }
    }
    ol_clean_open_clear(&open);
    OL_CHECK_INT(open.count, 0);
    OL_CHECK_OK(ol_clean_open_copy(&copy, &open, &error), &error);
    OL_CHECK_INT(copy.count, 0);
    ol_clean_open_free(&open);
    ol_clean_open_free(&copy);
}

typedef struct event {
    int64_t offset;
    int producer;
    int kind;                   /* 0 data, 1 COMMIT, 2 ABORT, 3 damage */
} event;

/* By looking ahead, one event after the other. */
static ol_clean_fate fate_of(const event *events, int at) {
    bool damaged = false;
    for (int i = at + 1; i < EVENTS; i++) {
        damaged |= events[i].kind == 3;
        if (events[i].producer != events[at].producer || events[i].kind == 0 || events[i].kind == 3) continue;
        /* Damage before this batch, but within its transaction, counts as well. */
        for (int j = at; j >= 0 && !damaged; j--) {
            if (events[j].kind == 3) {
                for (int k = j; k >= 0; k--) {
                    if (events[k].producer != events[at].producer || events[k].kind == 3) continue;
                    damaged = events[k].kind == 0;
                    break;
                }
                if (damaged) break;
            }
            if (events[j].producer == events[at].producer && (events[j].kind == 1 || events[j].kind == 2)) break;
        }
        if (damaged) return OL_CLEAN_UNCERTAIN;
        return events[i].kind == 2 ? OL_CLEAN_ABORTED : OL_CLEAN_COMMITTED;
    }
    return OL_CLEAN_UNCERTAIN;
}

OL_TEST(fates_are_those_of_the_next_marker) {
    static event events[EVENTS];
    for (int round = 0; round < 20; round++) {
        ol_clean_fates fates;
        ol_error error;
        ol_clean_fates_init(&fates);
        int64_t offset = 0;
        for (int i = 0; i < EVENTS; i++) {
            uint64_t draw = ol_test_below(100);
            int kind = draw < 60 ? 0 : draw < 80 ? 1 : draw < 99 - (unsigned)(round % 2) ? 2 : 3;
            if (kind == 3 && round % 4 != 1) kind = 0;
            events[i] = (event){offset, (int)ol_test_below(PRODUCERS), kind};
            offset += 1 + (int64_t)ol_test_below(5);
            if (kind == 3) {
                ol_clean_fates_add_damage(&fates);
                continue;
            }
            uint8_t bytes[OL_BATCH_MARKER_SIZE];
            ol_batch batch;
            if (kind == 0) {
                ol_batch_fields fields;
                ol_batch_fields_init(&fields, events[i].offset, 5);
                fields.producer_id = 100 + events[i].producer;
                fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
                ol_batch_seal(bytes, bytes + OL_BATCH_OVERHEAD, &fields);
                OL_CHECK_OK(ol_batch_parse(bytes, OL_BATCH_OVERHEAD, &batch, &error), &error);
            } else {
                ol_batch_put_marker(bytes, events[i].offset, 0, 5, 100 + events[i].producer, 0,
                                    kind == 1 ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT, 1);
                OL_CHECK_OK(ol_batch_parse(bytes, sizeof bytes, &batch, &error), &error);
            }
            OL_CHECK_OK(ol_clean_fates_add(&fates, &batch, true, &error), &error);
        }
        OL_CHECK_OK(ol_clean_fates_seal(&fates, &error), &error);
        int64_t first_uncertain = INT64_MAX;
        for (int i = 0; i < EVENTS; i++) {
            if (events[i].kind != 0) continue;
            ol_clean_fate wanted = fate_of(events, i);
            OL_CHECK_INT(ol_clean_fates_find(&fates, 100 + events[i].producer, events[i].offset), wanted);
            if (wanted == OL_CLEAN_UNCERTAIN && events[i].offset < first_uncertain) first_uncertain = events[i].offset;
        }
        OL_CHECK_INT(fates.first_uncertain, first_uncertain);
        OL_CHECK_INT(ol_clean_fates_find(&fates, 5, 100), OL_CLEAN_COMMITTED);
        ol_clean_fates_free(&fates);
    }
}

/* More of them than a small map gives memory for: the pass ends where all that began before have ended. */
OL_TEST(many_aborted_transactions_take_several_passes) {
    world w;
    open_world(&w, 65536);
    append_position(&w, -1, "g", 0, 1);
    for (int i = 0; i < 4000; i++) {
        append_position(&w, 900 + i % 3, "g", i % 50, i);
        if (i % 5 != 0) append_marker(&w, 900 + i % 3, i % 7 == 0 ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
    }
    for (int i = 0; i < 3; i++) append_marker(&w, 900 + i, OL_CONTROL_ABORT);
    append_position(&w, -1, "g", 99, 1);
    roll_world(&w);
    ol_clean_options options = clean_options(&w);
    options.map_bytes = OL_CLEAN_MAP_BYTES_MIN;
    ol_clean_report report = clean_with(&w, &options);
    OL_CHECK(report.complete && report.passes > 1);
    check_log(&w, INT64_MAX);
    counting count = count_log(&w);
    OL_CHECK(count.records <= 51);
    report = clean_with(&w, &options);
    check_log(&w, INT64_MAX);
    OL_CHECK_INT(report.records.superseded + report.records.aborted_dropped, 0);
    close_world(&w);
}

/* One that is open over all of them gives no such place: memory has to do. */
OL_TEST(one_long_transaction_does_not_stop_the_pass) {
    world w;
    open_world(&w, 65536);
    append_position(&w, 899, "g", 0, 1);
    for (int i = 0; i < 2500; i++) {
        append_position(&w, 900, "g", i % 50, i);
        append_marker(&w, 900, OL_CONTROL_ABORT);
    }
    append_marker(&w, 899, OL_CONTROL_COMMIT);
    append_position(&w, -1, "g", 99, 1);
    roll_world(&w);
    ol_clean_options options = clean_options(&w);
    options.map_bytes = OL_CLEAN_MAP_BYTES_MIN;
    ol_clean_report report = clean_with(&w, &options);
    OL_CHECK(report.complete);
    OL_CHECK_INT(report.records.aborted_dropped, 2500);
    check_log(&w, INT64_MAX);
    close_world(&w);
}

OL_TEST_MAIN()
