/* The log of a topic as the owner of a log that is cleaned (cleaner/topic_owner.c): a read-only one is refused, a run ends below an
 * open transaction, and the last batch of a producer stays. */
#include "cleaner/cleaner.h"
#include "topic_scene.h"

static topic_scene scene;
static ol_clean_report report;

static void open_scene(void) {
    ol_error error;
    scene_begin(&scene);
    OL_CHECK_OK(scene_open(&scene, &error), &error);
}

static void produce(sent_batch sent) {
    uint8_t bytes[SENT_BYTES_MAX];
    ol_error error;
    ol_appended appended;
    ol_produce_rules rules = sent_rules();
    OL_CHECK_OK(ol_topic_log_produce(scene.topic, sent_encode(&sent, bytes), &rules, &appended, &error), &error);
}

/* As the directory of a broker may have them: no producer of ours sends them. */
static void append_transactional(int64_t producer_id) {
    uint8_t bytes[SENT_BYTES_MAX];
    ol_error error;
    sent_batch sent = sent_idempotent(producer_id, 0, 0, 1);
    sent.attributes = OL_ATTRIBUTE_TRANSACTIONAL;
    sent.base_offset = ol_log_end(log_of(&scene));
    ol_slice encoded = sent_encode(&sent, bytes);
    OL_CHECK_OK(ol_log_append(log_of(&scene), encoded.data, encoded.size, &error), &error);
}

static void roll(void) {
    ol_error error;
    OL_CHECK_OK(ol_log_roll_active(log_of(&scene), &error), &error);
}

static int clean(ol_error *error) {
    ol_clean_options options;
    ol_clean_options_init(&options);
    options.now_ms = NOW;
    options.use_table = true;       /* there is none, and it does not count */
    return ol_cleaner_run_topic(scene.topic, &options, &report, error);
}

OL_TEST(a_log_that_is_open_read_only_is_refused) {
    ol_error error;
    open_scene();
    produce(sent_plain(3));
    roll();
    scene.options.writable = scene.options.create = false;
    OL_CHECK_OK(reopen(&scene, true, &error), &error);
    OL_CHECK_INT(clean(&error), OL_READ_ONLY);
    OL_CHECK_INT(report.passes, 0);
    ol_topic_log_abandon(scene.topic);
    fixture_remove(scene.directory);
}

OL_TEST(a_run_ends_below_an_open_transaction) {
    ol_error error;
    open_scene();
    for (int i = 0; i < 5; i++) produce(sent_plain(1));
    roll();
    append_transactional(7);
    for (int i = 0; i < 5; i++) produce(sent_plain(1));
    roll();
    OL_CHECK_OK(clean(&error), &error);
    OL_CHECK_INT(report.end, 5);
    OL_CHECK_INT(report.records.superseded, 4);
    scene_end(&scene);
}

OL_TEST(the_last_batch_of_a_producer_stays_without_records) {
    ol_error error;
    open_scene();
    produce(sent_idempotent(7, 0, 0, 2));
    produce(sent_idempotent(7, 0, 2, 2));
    produce(sent_plain(1));
    roll();
    OL_CHECK_OK(clean(&error), &error);
    OL_CHECK_INT(report.end, 5);
    OL_CHECK_INT(report.records.superseded, 4);
    OL_CHECK_INT(report.records.kept, 1);
    uint8_t bytes[SENT_BYTES_MAX];
    size_t size = 0;
    ol_batch batch;
    OL_CHECK_OK(ol_log_read(log_of(&scene), 0, 5, bytes, sizeof bytes, &size, &error), &error);
    OL_CHECK_OK(ol_batch_parse(bytes, size, &batch, &error), &error);
    OL_CHECK_INT(batch.base_offset, 2);
    OL_CHECK_INT(batch.producer_id, 7);
    OL_CHECK_INT(batch.record_count, 0);
    /* Known as a duplicate also when only the log is left of it. */
    OL_CHECK_OK(reopen(&scene, true, &error), &error);
    ol_appended appended;
    sent_batch again = sent_idempotent(7, 0, 2, 2);
    ol_produce_rules rules = sent_rules();
    OL_CHECK_OK(ol_topic_log_produce(scene.topic, sent_encode(&again, bytes), &rules, &appended, &error), &error);
    OL_CHECK(appended.is_duplicate);
    scene_end(&scene);
}

OL_TEST_MAIN()
