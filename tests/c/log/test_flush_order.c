/* Every flush, in its place between the changes of names (docs/durability.md, "How the premises stay true").
 *
 * Two kinds of flush pass the crash tests when they are left out: one that matters only where names reach the disk in
 * another order than they were changed in, and one that a later flush repeats.  This test lists them. */
#include "cleaned_scene.h"
#include "recorded_fs.h"

#define STORE_MANIFEST \
    "create offsetlog.manifest.tmp\n" \
    "cut offsetlog.manifest.tmp\n" \
    "flush offsetlog.manifest.tmp\n" \
    "rename offsetlog.manifest.tmp to offsetlog.manifest\n" \
    "flush directory p-0\n"

static void open_recorded_as(scene *s, ol_append append) {
    char parent[OL_PATH_MAX];
    fixture_directory(s->directory);
    fixture_join(parent, s->directory, "logs");
    OL_CHECK(mkdir(parent, 0777) == 0);
    fixture_join(s->partition, parent, "p-0");
    s->options = fixture_options(s->partition);
    s->options.fs = recorded_fs();
    s->options.config.segment_bytes = 8 << 10;
    s->options.config.index_interval_bytes = 512;
    s->options.config.append = append;
    recorded_begin();
    s->log = fixture_open(&s->options, NULL);
    s->m = calloc(1, sizeof *s->m);
}

static void open_recorded(scene *s) { open_recorded_as(s, OL_APPEND_MAPPED); }

OL_TEST(a_new_log_has_its_names_on_disk) {
    scene s;
    open_recorded(&s);
    recorded_check("make directory p-0\n"
                   "flush directory p-0\n"
                   "flush directory logs\n"
                   "create 0.log\n"
                   "cut 0.log\n"
                   "create 0.index\n"
                   "create 0.timeindex\n"
                   "flush directory p-0\n"
                   "create offsetlog.flushed\n"
                   "flush offsetlog.flushed\n"
                   STORE_MANIFEST);
    scene_close(&s);
}

OL_TEST(the_first_flush_takes_the_whole_file_and_the_next_what_was_appended) {
    scene s;
    open_recorded(&s);
    append(&s, 300);
    recorded_begin();
    flush(&s);
    recorded_check("flush 0.log from its start\n"
                   "flush directory p-0\n");
    append(&s, 300);
    recorded_begin();
    flush(&s);
    recorded_check("flush the end of 0.log\n");
    scene_close(&s);
}

OL_TEST(a_file_that_is_written_to_is_flushed_as_a_whole) {
    scene s;
    open_recorded_as(&s, OL_APPEND_WRITTEN);
    append(&s, 300);
    flush(&s);
    append(&s, 300);
    recorded_begin();
    flush(&s);
    recorded_check("flush 0.log\n");
    scene_close(&s);
}

OL_TEST(a_close_flushes_every_file_that_it_changes_and_the_directory) {
    scene s;
    open_recorded(&s);
    append(&s, 300);
    flush(&s);
    append(&s, 300);
    recorded_begin();
    fixture_close(s.log);
    recorded_check("cut 0.log\n"
                   "create 3.snapshot\n"
                   "cut 3.snapshot\n"
                   "flush 3.snapshot\n"
                   "flush 0.log from its start\n"
                   "flush 0.index\n"
                   "flush 0.timeindex\n"
                   "flush the end of 0.log\n"
                   "flush directory p-0\n"
                   STORE_MANIFEST);
    s.log = fixture_open(&s.options, NULL);
    scene_close(&s);
}

OL_TEST(a_flush_takes_rolled_segments_first_and_their_notes_go_last) {
    scene s;
    open_recorded(&s);
    while (segments(&s) < 3) append(&s, 1000);
    recorded_begin();
    flush(&s);
    recorded_check("flush 0.log from its start\n"
                   "flush 0.index\n"
                   "flush 0.timeindex\n"
                   "flush 13.log from its start\n"
                   "flush 13.index\n"
                   "flush 13.timeindex\n"
                   "flush 27.log from its start\n"
                   "flush directory p-0\n"
                   STORE_MANIFEST
                   "remove offsetlog.rolled-0-7518-13\n"
                   "remove offsetlog.rolled-13-7518-27\n");
    scene_close(&s);
}

OL_TEST(a_flush_takes_the_transaction_index_of_a_rolled_segment) {
    scene s;
    ol_error error;
    open_recorded(&s);
    append_transactional(&s, 7);
    OL_CHECK_OK(model_append_marker(s.m, s.log, 7, OL_CONTROL_ABORT, &error), &error);
    while (segments(&s) < 2) append(&s, 1000);
    recorded_begin();
    flush(&s);
    recorded_check("flush 0.log from its start\n"
                   "flush 0.index\n"
                   "flush 0.timeindex\n"
                   "flush 0.txnindex\n"
                   "flush 17.log from its start\n"
                   "flush directory p-0\n"
                   STORE_MANIFEST
                   "remove offsetlog.rolled-0-7718-17\n");
    scene_close(&s);
}

OL_TEST(a_truncation_flushes_the_sidecar_then_the_names_then_the_cut) {
    scene s;
    ol_error error;
    open_recorded(&s);
    fill(&s, 3);
    recorded_begin();
    int64_t end = s.m->batches[2].next;
    OL_CHECK_OK(ol_log_truncate(s.log, end, &error), &error);
    recorded_check("flush offsetlog.flushed\n"
                   "create offsetlog.cut-6\n"
                   STORE_MANIFEST
                   "remove 84.log\n"
                   "remove 84.index\n"
                   "remove 84.timeindex\n"
                   "remove 42.log\n"
                   "remove 42.index\n"
                   "remove 42.timeindex\n"
                   "flush directory p-0\n"
                   "cut 0.log\n"
                   "flush 0.log\n"
                   "cut 0.index\n"
                   "cut 0.timeindex\n"
                   "remove 42.snapshot\n"
                   "remove 84.snapshot\n"
                   "remove offsetlog.cut-6\n"
                   "flush directory p-0\n");
    model_cut(s.m, end);
    scene_close(&s);
}

OL_TEST(a_truncation_below_a_reader_replaces_the_file_by_a_flushed_copy) {
    scene s;
    ol_error error;
    ol_log_reader *reader = NULL;
    ol_log_piece piece;
    open_recorded(&s);
    for (int i = 0; i < 4; i++) append(&s, 300);
    flush(&s);
    OL_CHECK_OK(ol_log_reader_open(s.log, 0, &reader, &error), &error);
    OL_CHECK_OK(ol_log_reader_next(reader, 1 << 16, &piece, &error), &error);
    recorded_begin();
    int64_t end = s.m->batches[1].next;
    OL_CHECK_OK(ol_log_truncate(s.log, end, &error), &error);
    recorded_check("flush offsetlog.flushed\n"
                   "create offsetlog.cut-3\n"
                   STORE_MANIFEST
                   "flush directory p-0\n"
                   "create offsetlog.truncated\n"
                   "cut offsetlog.truncated\n"
                   "flush offsetlog.truncated\n"
                   "rename offsetlog.truncated to 0.log\n"
                   "cut 0.index\n"
                   "cut 0.timeindex\n"
                   "remove offsetlog.cut-3\n"
                   "flush directory p-0\n");
    ol_log_reader_close(reader);
    model_cut(s.m, end);
    scene_close(&s);
}

OL_TEST(a_swap_has_its_names_on_disk_before_an_old_file_goes) {
    scene s;
    open_recorded(&s);
    fill(&s, 3);
    recorded_begin();
    clean(&s, 0, 2, keep_all, NULL);
    recorded_check("create 0.log.cleaned\n"
                   "create 0.index.cleaned\n"
                   "create 0.timeindex.cleaned\n"
                   "flush 0.log.cleaned\n"
                   "flush 0.index.cleaned\n"
                   "flush 0.timeindex.cleaned\n"
                   "flush offsetlog.flushed\n"
                   STORE_MANIFEST
                   "rename 0.index.cleaned to 0.index.swap\n"
                   "rename 0.timeindex.cleaned to 0.timeindex.swap\n"
                   "rename 0.log.cleaned to 0.log.swap\n"
                   "flush directory p-0\n"
                   "remove 42.log\n"
                   "remove 42.index\n"
                   "remove 42.timeindex\n"
                   "rename 0.log.swap to 0.log\n"
                   "rename 0.timeindex.swap to 0.timeindex\n"
                   "rename 0.index.swap to 0.index\n"
                   "flush directory p-0\n"
                   "remove 42.snapshot\n");
    scene_close(&s);
}

OL_TEST(a_swap_flushes_the_transaction_index_that_it_writes) {
    scene s;
    ol_error error;
    open_recorded(&s);
    append_transactional(&s, 7);
    OL_CHECK_OK(model_append_marker(s.m, s.log, 7, OL_CONTROL_ABORT, &error), &error);
    fill(&s, 3);
    recorded_begin();
    clean(&s, 0, 1, keep_all, NULL);
    recorded_check("create 0.log.cleaned\n"
                   "create 0.index.cleaned\n"
                   "create 0.timeindex.cleaned\n"
                   "create 0.txnindex.cleaned\n"
                   "flush 0.log.cleaned\n"
                   "flush 0.index.cleaned\n"
                   "flush 0.timeindex.cleaned\n"
                   "flush 0.txnindex.cleaned\n"
                   "flush offsetlog.flushed\n"
                   STORE_MANIFEST
                   "rename 0.index.cleaned to 0.index.swap\n"
                   "rename 0.timeindex.cleaned to 0.timeindex.swap\n"
                   "rename 0.txnindex.cleaned to 0.txnindex.swap\n"
                   "rename 0.log.cleaned to 0.log.swap\n"
                   "flush directory p-0\n"
                   "rename 0.log.swap to 0.log\n"
                   "rename 0.txnindex.swap to 0.txnindex\n"
                   "rename 0.timeindex.swap to 0.timeindex\n"
                   "rename 0.index.swap to 0.index\n"
                   "flush directory p-0\n");
    scene_close(&s);
}

OL_TEST(an_open_that_rebuilds_a_transaction_index_flushes_it) {
    scene s;
    ol_error error;
    open_recorded(&s);
    append_transactional(&s, 7);
    OL_CHECK_OK(model_append_marker(s.m, s.log, 7, OL_CONTROL_ABORT, &error), &error);
    ol_log_abandon(s.log);
    recorded_begin();
    s.log = fixture_open(&s.options, NULL);
    recorded_check("cut 0.log\n"
                   "flush 0.log\n"
                   "flush directory p-0\n"
                   "flush 0.index\n"
                   "flush 0.timeindex\n"
                   "create 0.txnindex.tmp\n"
                   "cut 0.txnindex.tmp\n"
                   "flush 0.txnindex.tmp\n"
                   "rename 0.txnindex.tmp to 0.txnindex\n"
                   "flush directory p-0\n"
                   "flush 0.log\n"
                   "flush directory p-0\n");
    scene_close(&s);
}

OL_TEST(an_open_after_a_kill_flushes_what_the_page_cache_may_hold_alone) {
    scene s;
    open_recorded(&s);
    append(&s, 300);
    flush(&s);
    while (segments(&s) < 2) append(&s, 1000);
    recorded_begin();
    reopen(&s, false);
    /* First the zeros that end the active segment are cut; then the whole tail is written again. */
    recorded_check("cut 15.log\n"
                   "flush 15.log\n"
                   "flush directory p-0\n"
                   "cut 0.index\n"
                   "cut 0.timeindex\n"
                   "flush 0.index\n"
                   "flush 0.timeindex\n"
                   "flush 15.index\n"
                   "flush 15.timeindex\n"
                   "flush 0.log\n"
                   "flush 15.log\n"
                   "flush directory p-0\n"
                   "remove offsetlog.rolled-0-7892-15\n"
                   "remove 15.snapshot\n"
                   STORE_MANIFEST);
    scene_close(&s);
}

OL_TEST(an_open_of_a_torn_log_flushes_the_copies_before_the_cut) {
    scene s;
    ol_log_recovery recovery;
    open_recorded(&s);
    append(&s, 300);
    flush(&s);
    while (segments(&s) < 2) append(&s, 1000);
    ol_log_abandon(s.log);
    int64_t position = (int64_t)(s.m->batches[0].size + s.m->batches[1].size);
    flip_byte(s.partition, "00000000000000000000.log", position + 80);
    recorded_begin();
    s.log = fixture_open(&s.options, &recovery);
    OL_CHECK(!recovery.corrupt && recovery.torn_bytes > 0);
    recorded_check("create broken-00000000000000000000.log.1448\n"
                   "flush broken-00000000000000000000.log.1448\n"
                   "flush directory p-0\n"
                   "create broken-00000000000000000015.log.0\n"
                   "flush broken-00000000000000000015.log.0\n"
                   "flush directory p-0\n"
                   "remove 15.log\n"
                   "remove 15.index\n"
                   "remove 15.timeindex\n"
                   "flush directory p-0\n"
                   "cut 0.log\n"
                   "flush 0.log\n"
                   "flush directory p-0\n"
                   "cut 0.index\n"
                   "cut 0.timeindex\n"
                   "flush 0.index\n"
                   "flush 0.timeindex\n"
                   "flush 0.log\n"
                   "flush directory p-0\n"
                   "remove offsetlog.rolled-0-7892-15\n"
                   "remove 15.snapshot\n");
    model_cut(s.m, s.m->batches[1].next);
    model_check(s.m, s.log);
    scene_close(&s);
}

OL_TEST(a_directory_pass_flushes_the_names_that_it_changes) {
    scene s;
    open_recorded(&s);
    fill(&s, 2);
    fixture_close(s.log);
    char left[OL_PATH_MAX];
    fixture_join(left, s.partition, "00000000000000000000.log.cleaned");
    fixture_write(left, "", 0);
    s.options.clean = true;
    recorded_begin();
    s.log = fixture_open(&s.options, NULL);
    recorded_check("remove 0.log.cleaned\n"
                   "flush directory p-0\n");
    scene_close(&s);
}

OL_TEST_MAIN()
