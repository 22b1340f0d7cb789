/* Segments written aside and swapped into the log (ol_segment_rewrite, ol_log_swap). */
#include <errno.h>

#include "cleaned_scene.h"

static bool keep_every_third(void *context OL_UNUSED, const model_batch *batch) {
    return batch->producer_id >= 0 || batch->base % 3 == 0;
}

static bool keep_below(void *context, const model_batch *batch) { return batch->base < *(int64_t *)context; }

OL_TEST(a_segment_that_is_copied_whole_has_the_same_bytes) {
    static const char *const suffixes[] = {".log", ".index", ".timeindex"};
    scene s;
    scene_open(&s);
    fill(&s, 4);
    int64_t bases[MODEL_SEGMENTS_MAX];
    segment_bases(s.log, bases);
    uint8_t *before[3];
    size_t sizes[3];
    ol_error error;
    char path[3][OL_PATH_MAX];
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "%020" PRId64 "%s", bases[1], suffixes[i]);
        fixture_join(path[i], s.partition, name);
        before[i] = fixture_read(path[i], &sizes[i]);
        OL_CHECK(sizes[i] > 0);
    }
    OL_CHECK_OK(ol_fs_posix()->set_modified(ol_fs_posix(), path[0], 1234567890123, &error), &error);
    clean(&s, 1, 1, keep_all, NULL);
    for (int i = 0; i < 3; i++) {
        size_t size;
        uint8_t *after = fixture_read(path[i], &size);
        OL_CHECK_INT(size, sizes[i]);
        OL_CHECK(memcmp(before[i], after, size) == 0);
        free(before[i]);
        free(after);
        int64_t modified_ms = 0;
        OL_CHECK_OK(ol_fs_posix()->modified(ol_fs_posix(), path[i], &modified_ms, &error), &error);
        OL_CHECK_INT(modified_ms, 1234567890123);
    }
    reopen(&s, true);
    reopen(&s, false);
    scene_close(&s);
}

OL_TEST(several_segments_become_one) {
    scene s;
    scene_open(&s);
    append_transactional(&s, 7);
    ol_error error;
    OL_CHECK_OK(model_append_marker(s.m, s.log, 7, OL_CONTROL_COMMIT, &error), &error);
    fill(&s, 7);
    int64_t bases[MODEL_SEGMENTS_MAX];
    segment_bases(s.log, bases);
    int64_t size_before = ol_log_size_bytes(s.log);
    OL_CHECK_INT(fixture_count(s.partition, "0000"), 7 * 3 + 6);
    clean(&s, 1, 4, keep_every_third, NULL);
    int64_t after[MODEL_SEGMENTS_MAX];
    OL_CHECK_INT(segment_bases(s.log, after), 4);
    OL_CHECK_INT(after[1], bases[1]);
    OL_CHECK_INT(after[2], bases[5]);
    OL_CHECK(ol_log_size_bytes(s.log) < size_before);
    OL_CHECK_INT(ol_log_start(s.log), 0);
    /* The snapshots of three bases went with them. */
    OL_CHECK_INT(fixture_count(s.partition, "0000"), 4 * 3 + 3);
    reopen(&s, false);
    clean(&s, 0, 3, keep_every_third, NULL);
    OL_CHECK_INT(segments(&s), 2);
    reopen(&s, true);
    clean(&s, 0, 1, keep_none, NULL);
    reopen(&s, false);
    fill(&s, 4);
    clean(&s, 0, 3, keep_all, NULL);
    scene_close(&s);
}

OL_TEST(a_segment_may_end_up_empty) {
    scene s;
    scene_open(&s);
    append_transactional(&s, 7);
    ol_error error;
    OL_CHECK_OK(model_append_marker(s.m, s.log, 7, OL_CONTROL_ABORT, &error), &error);
    fill(&s, 3);
    OL_CHECK(fixture_exists(s.partition, "00000000000000000000.txnindex"));
    int64_t none = 0;
    clean(&s, 0, 1, keep_below, &none);
    OL_CHECK_INT(segments(&s), 3);
    OL_CHECK_INT(fixture_size(s.partition, "00000000000000000000.log"), 0);
    OL_CHECK_INT(fixture_size(s.partition, "00000000000000000000.index"), 0);
    OL_CHECK_INT(fixture_size(s.partition, "00000000000000000000.timeindex"), 0);
    OL_CHECK_INT(fixture_size(s.partition, "00000000000000000000.txnindex"), 0);
    OL_CHECK_INT(ol_log_start(s.log), 0);
    reopen(&s, true);
    reopen(&s, false);
    fill(&s, 6);
    clean(&s, 0, 5, keep_below, &none);
    OL_CHECK_INT(segments(&s), 2);
    OL_CHECK_INT(fixture_size(s.partition, "00000000000000000000.log"), 0);
    reopen(&s, true);
    append(&s, 10);
    flush(&s);
    reopen(&s, false);
    scene_close(&s);
}

static bool keep_plain(void *context OL_UNUSED, const model_batch *batch) { return batch->producer_id < 0; }

OL_TEST(an_old_index_of_transactions_does_not_stay_beside_a_segment_without_any) {
    scene s;
    ol_error error;
    scene_open(&s);
    append_transactional(&s, 7);
    OL_CHECK_OK(model_append_marker(s.m, s.log, 7, OL_CONTROL_ABORT, &error), &error);
    fill(&s, 4);
    OL_CHECK(fixture_exists(s.partition, "00000000000000000000.txnindex"));
    clean(&s, 0, 3, keep_plain, NULL);
    OL_CHECK(!fixture_exists(s.partition, "00000000000000000000.txnindex"));
    reopen(&s, true);
    scene_close(&s);
}

OL_TEST(a_segment_whose_last_sources_hold_nothing_any_more_swallows_them) {
    scene s;
    scene_open(&s);
    fill(&s, 6);
    int64_t bases[MODEL_SEGMENTS_MAX];
    segment_bases(s.log, bases);
    int64_t limit = bases[1] + 3;
    clean(&s, 0, 5, keep_below, &limit);
    OL_CHECK_INT(segments(&s), 2);
    reopen(&s, false);
    scene_close(&s);
}

OL_TEST(what_may_not_be_swapped_is_refused_and_leaves_nothing) {
    scene s;
    ol_error error;
    ol_segment_rewrite *cleaned = NULL;
    ol_segment_rewrite *second = NULL;
    scene_open(&s);
    fill(&s, 5);
    int64_t bases[MODEL_SEGMENTS_MAX];
    size_t count = segment_bases(s.log, bases);
    uint64_t cuts = ol_log_cuts(s.log);
    const model_batch *batch = &s.m->batches[0];
    /* Not closed; not neighbours; not ours; more than there are. */
    const struct {
        int64_t bases[3];
        size_t count;
        int64_t base_offset;
    } wrong[] = {
        {{bases[count - 1]}, 1, bases[count - 1]}, {{bases[0], bases[2]}, 2, bases[0]}, {{bases[1]}, 1, bases[0]},
        {{bases[0], bases[1] + 1}, 2, bases[0]},   {{bases[0] + 1}, 1, bases[0] + 1},   {{0}, 0, bases[0]},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        OL_CHECK_OK(ol_segment_rewrite_start(s.log, wrong[i].base_offset, cuts, &cleaned, &error), &error);
        OL_CHECK_INT(ol_segment_rewrite_start(s.log, wrong[i].base_offset, cuts, &second, &error), OL_INVALID);
        OL_CHECK_INT(ol_segment_rewrite_swap(cleaned, wrong[i].bases, wrong[i].count, &error), OL_INVALID);
        check_no_leftovers(s.partition);
        model_check(s.m, s.log);
    }
    /* Batches that cannot follow each other, and one that reaches into the next segment. */
    OL_CHECK_OK(ol_segment_rewrite_start(s.log, 0, cuts, &cleaned, &error), &error);
    OL_CHECK_INT(ol_segment_rewrite_append(cleaned, batch->bytes, batch->size, -1, 3, 0, &error), OL_INVALID);
    OL_CHECK_INT(ol_segment_rewrite_append(cleaned, batch->bytes, batch->size, 0, (int64_t)INT32_MAX + 1, 0, &error), OL_TOO_LARGE);
    OL_CHECK_OK(ol_segment_rewrite_append(cleaned, batch->bytes, batch->size, 0, bases[1], 0, &error), &error);
    OL_CHECK_INT(ol_segment_rewrite_append(cleaned, batch->bytes, batch->size, bases[1], bases[1], 0, &error), OL_INVALID);
    OL_CHECK_INT(ol_segment_rewrite_size(cleaned), batch->size);
    OL_CHECK_INT(ol_segment_rewrite_swap(cleaned, bases, 1, &error), OL_INVALID);
    check_no_leftovers(s.partition);
    /* Rolled, and no flush has covered it; a discard. */
    append(&s, 10);
    OL_CHECK_OK(ol_log_roll_active(s.log, &error), &error);
    OL_CHECK_INT(model_clean(s.m, s.log, count - 1, 1, keep_none, NULL, &error), OL_WOULD_BLOCK);
    OL_CHECK_INT(model_clean(s.m, s.log, count - 2, 2, keep_none, NULL, &error), OL_WOULD_BLOCK);
    check_no_leftovers(s.partition);
    flush(&s);
    OL_CHECK_OK(ol_segment_rewrite_start(s.log, 0, cuts, &cleaned, &error), &error);
    ol_segment_rewrite_discard(cleaned);
    ol_segment_rewrite_discard(NULL);
    check_no_leftovers(s.partition);
    model_check(s.m, s.log);
    clean(&s, count - 2, 2, keep_none, NULL);
    scene_close(&s);
}

OL_TEST(the_last_segment_of_all_is_written_aside_up_to_the_greatest_offset) {
    scene s;
    ol_error error;
    ol_segment_rewrite *cleaned = NULL;
    scene_open(&s);
    fill(&s, 2);
    const model_batch *batch = &s.m->batches[0];
    size_t size = batch->size;
    int64_t base = INT64_MAX - 5;
    OL_CHECK_OK(ol_segment_rewrite_start(s.log, base, ol_log_cuts(s.log), &cleaned, &error), &error);
    OL_CHECK_INT(ol_segment_rewrite_append(cleaned, batch->bytes, size, base, INT64_MAX, 0, &error), OL_TOO_LARGE);
    OL_CHECK_OK(ol_segment_rewrite_append(cleaned, batch->bytes, size, base, INT64_MAX - 1, 0, &error), &error);
    OL_CHECK_INT(ol_segment_rewrite_size(cleaned), size);
    ol_segment_rewrite_discard(cleaned);
    check_no_leftovers(s.partition);
    scene_close(&s);
}

OL_TEST(a_truncation_between_refuses_the_swap) {
    scene s;
    ol_error error;
    ol_segment_rewrite *cleaned = NULL;
    scene_open(&s);
    fill(&s, 5);
    int64_t bases[MODEL_SEGMENTS_MAX];
    segment_bases(s.log, bases);
    OL_CHECK_OK(model_write_cleaned(s.m, s.log, 0, 2, keep_every_third, NULL, &cleaned, &error), &error);
    OL_CHECK_OK(ol_log_truncate(s.log, bases[1] + 5, &error), &error);
    model_settle(s.m, false);
    model_cut(s.m, bases[1] + 5);
    /* The same bases, and other batches. */
    while (segments(&s) < 5) append(&s, 300);
    flush(&s);
    OL_CHECK_INT(ol_segment_rewrite_swap(cleaned, bases, 2, &error), OL_WOULD_BLOCK);
    check_no_leftovers(s.partition);
    model_check(s.m, s.log);
    /* And into what was cleaned. */
    clean(&s, 0, 4, keep_every_third, NULL);
    int64_t offset = s.m->batches[s.m->count / 2].next;
    OL_CHECK_OK(ol_log_truncate(s.log, offset, &error), &error);
    model_cut(s.m, offset);
    OL_CHECK_INT(ol_log_end(s.log), offset);
    model_check(s.m, s.log);
    fill(&s, 4);
    clean(&s, 0, 3, keep_every_third, NULL);
    reopen(&s, false);
    scene_close(&s);
}

OL_TEST(readers_go_on_over_a_swap) {
    scene s;
    ol_error error;
    scene_open(&s);
    fill(&s, 6);
    int64_t bases[MODEL_SEGMENTS_MAX];
    segment_bases(s.log, bases);
    enum { READERS = 40 };
    ol_log_reader *readers[READERS];
    ol_log_piece pieces[READERS];
    uint8_t *copies[READERS];
    int64_t offsets[READERS];
    for (int i = 0; i < READERS; i++) {
        /* Some stand exactly at the end of a segment, some have not begun. */
        int64_t from = i < 5 ? bases[i + 1] - 1 : (int64_t)ol_test_below((uint64_t)bases[5]);
        OL_CHECK_OK(ol_log_reader_open(s.log, from, &readers[i], &error), &error);
        offsets[i] = from;
        copies[i] = NULL;
        if (i % 4 == 3) continue;
        OL_CHECK_OK(ol_log_reader_next(readers[i], 700, &pieces[i], &error), &error);
        copies[i] = malloc(pieces[i].size);
        memcpy(copies[i], pieces[i].data, pieces[i].size);
    }
    clean(&s, 0, 2, keep_every_third, NULL);
    clean(&s, 1, 3, keep_every_third, NULL);
    for (int i = 0; i < READERS; i++) {
        if (copies[i] != NULL) {
            OL_CHECK(memcmp(copies[i], pieces[i].data, pieces[i].size) == 0);
            for (size_t at = 0; at < pieces[i].size;) {
                ol_batch batch;
                OL_CHECK_OK(ol_batch_parse(copies[i] + at, pieces[i].size - at, &batch, &error), &error);
                offsets[i] = batch.last_offset + 1;
                at += batch.size;
            }
            free(copies[i]);
        }
        /* Everything that is left at or above the place of the reader, and nothing else. */
        size_t next = 0;
        while (next < s.m->count && s.m->batches[next].next <= offsets[i]) next++;
        int status;
        ol_log_piece piece;
        while ((status = ol_log_reader_next(readers[i], 3000, &piece, &error)) == OL_OK) {
            for (size_t at = 0; at < piece.size; at += s.m->batches[next++].size) {
                OL_CHECK(next < s.m->count && memcmp(piece.data + at, s.m->batches[next].bytes, s.m->batches[next].size) == 0);
            }
        }
        OL_CHECK_INT(status, OL_END);
        OL_CHECK_INT(next, s.m->count);
        ol_log_reader_close(readers[i]);
    }
    scene_close(&s);
}

OL_TEST(who_reads_the_directory_meanwhile_goes_on) {
    scene s;
    ol_error error;
    scene_open(&s);
    fill(&s, 6);
    ol_log_options options = s.options;
    options.writable = false;
    options.create = false;
    ol_log *other = fixture_open(&options, NULL);
    ol_log_reader *reader = NULL;
    ol_log_piece piece;
    OL_CHECK_OK(ol_log_reader_open(other, 0, &reader, &error), &error);
    OL_CHECK_OK(ol_log_reader_next(reader, 700, &piece, &error), &error);
    int64_t read_to = piece.base_offset;
    clean(&s, 0, 4, keep_every_third, NULL);
    size_t seen = 0;
    int64_t last = -1;
    int status;
    while ((status = ol_log_reader_next(reader, 3000, &piece, &error)) == OL_OK) {
        for (size_t at = 0; at < piece.size;) {
            ol_batch batch;
            OL_CHECK_OK(ol_batch_parse(piece.data + at, piece.size - at, &batch, &error), &error);
            OL_CHECK(batch.base_offset > last);
            last = batch.last_offset;
            at += batch.size;
            for (size_t i = 0; i < s.m->count; i++) seen += s.m->batches[i].base == batch.base_offset;
        }
    }
    OL_CHECK_INT(status, OL_END);
    OL_CHECK_INT(last, ol_log_end(s.log) - 1);
    size_t expected = 0;
    for (size_t i = 0; i < s.m->count; i++) expected += s.m->batches[i].base > read_to + 6;
    OL_CHECK(seen >= expected);
    ol_log_reader_close(reader);
    ol_log_abandon(other);
    scene_close(&s);
}

OL_TEST(an_idle_active_segment_is_rolled_and_flushed) {
    scene s;
    ol_error error;
    scene_open(&s);
    OL_CHECK_OK(ol_log_roll_active(s.log, &error), &error);
    OL_CHECK_INT(segments(&s), 1);
    for (int i = 0; i < 5; i++) append(&s, 100);
    flush(&s);
    int64_t end = ol_log_end(s.log);
    OL_CHECK_OK(ol_log_roll_active(s.log, &error), &error);
    OL_CHECK_OK(ol_log_roll_active(s.log, &error), &error);
    OL_CHECK_INT(segments(&s), 2);
    OL_CHECK_INT(ol_log_end(s.log), end);
    OL_CHECK_INT(ol_log_flushed(s.log), end);
    OL_CHECK_INT(fixture_count(s.partition, "offsetlog.rolled-"), 1);
    flush(&s);
    OL_CHECK_INT(fixture_count(s.partition, "offsetlog.rolled-"), 0);
    clean(&s, 0, 1, keep_every_third, NULL);
    reopen(&s, true);
    OL_CHECK_INT(segments(&s), 2);
    reopen(&s, false);
    append(&s, 10);
    OL_CHECK_INT(s.m->batches[s.m->count - 1].base, end);
    /* The state in which a close finds a roll that nothing followed. */
    OL_CHECK_OK(ol_log_roll_active(s.log, &error), &error);
    reopen(&s, true);
    OL_CHECK_INT(fixture_count(s.partition, "offsetlog.rolled-"), 0);
    scene_close(&s);
}

typedef struct aborted_seen {
    ol_aborted_transaction entries[16];
    size_t count;
} aborted_seen;

static int see_aborted(void *context, const ol_aborted_transaction *transaction) {
    aborted_seen *seen = context;
    OL_CHECK(seen->count < 16);
    seen->entries[seen->count++] = *transaction;
    return OL_OK;
}

OL_TEST(aborted_transactions_are_reported_from_closed_and_active_segments) {
    scene s;
    ol_error error;
    scene_open(&s);
    int64_t firsts[3];
    int64_t lasts[3];
    for (int i = 0; i < 3; i++) {
        firsts[i] = ol_log_end(s.log);
        append_transactional(&s, 10 + i);
        fill(&s, (size_t)(2 * i + 2));
        lasts[i] = ol_log_end(s.log);
        OL_CHECK_OK(model_append_marker(s.m, s.log, 10 + i, OL_CONTROL_ABORT, &error), &error);
    }
    append_transactional(&s, 20);
    OL_CHECK_OK(model_append_marker(s.m, s.log, 20, OL_CONTROL_COMMIT, &error), &error);
    flush(&s);
    for (int round = 0; round < 2; round++) {
        aborted_seen seen = {0};
        OL_CHECK_OK(ol_log_collect_aborted(s.log, 0, INT64_MAX, see_aborted, &seen, &error), &error);
        OL_CHECK_INT(seen.count, 3);
        for (int i = 0; i < 3; i++) {
            OL_CHECK_INT(seen.entries[i].producer_id, 10 + i);
            OL_CHECK_INT(seen.entries[i].first_offset, firsts[i]);
            OL_CHECK_INT(seen.entries[i].last_offset, lasts[i]);
        }
        seen.count = 0;
        OL_CHECK_OK(ol_log_collect_aborted(s.log, lasts[0] + 1, firsts[2], see_aborted, &seen, &error), &error);
        OL_CHECK_INT(seen.count, 1);
        OL_CHECK_INT(seen.entries[0].producer_id, 11);
        clean(&s, 0, segments(&s) - 1, keep_none, NULL);
    }
    ol_log_producer_state *states = NULL;
    size_t count = 0;
    OL_CHECK_OK(ol_log_producers_copy(s.log, &states, &count, &error), &error);
    OL_CHECK_INT(count, 4);
    OL_CHECK_INT(states[2].producer_id, 12);
    OL_CHECK_INT(states[2].last_offset, firsts[2]);
    OL_CHECK_INT(states[2].epoch, 0);
    OL_CHECK_INT(states[3].producer_id, 20);
    free(states);
    scene_close(&s);
}

static int failing_truncate(ol_file *file OL_UNUSED, int64_t size OL_UNUSED, ol_error *error) {
    return ol_fail_errno(error, EIO, "ftruncate", "");
}

OL_TEST(a_truncation_that_failed_ends_the_search_for_aborted_transactions) {
    scene s;
    ol_error error;
    aborted_seen seen = {0};
    ol_fs fs = *ol_fs_posix();
    scene_open(&s);
    fixture_close(s.log);
    s.options.fs = &fs;
    s.log = fixture_open(&s.options, NULL);
    append_transactional(&s, 10);
    OL_CHECK_OK(model_append_marker(s.m, s.log, 10, OL_CONTROL_ABORT, &error), &error);
    fill(&s, 3);
    fs.truncate = failing_truncate;
    OL_CHECK_INT(ol_log_truncate(s.log, 1, &error), OL_IO);
    alarm(60);
    OL_CHECK_INT(ol_log_collect_aborted(s.log, 0, INT64_MAX, see_aborted, &seen, &error), OL_FAILED);
    alarm(0);
    OL_CHECK_INT(seen.count, 0);
    OL_CHECK_INT(ol_log_close(s.log, &error), OL_FAILED);
    fs.truncate = ol_fs_posix()->truncate;
    s.log = fixture_open(&s.options, NULL);
    scene_close(&s);
}

OL_TEST(what_the_files_of_a_segment_say) {
    scene s;
    ol_error error;
    ol_log_segment_files files;
    scene_open(&s);
    fill(&s, 3);
    int64_t bases[MODEL_SEGMENTS_MAX];
    segment_bases(s.log, bases);
    char path[OL_PATH_MAX];
    char name[64];
    snprintf(name, sizeof name, "%020" PRId64 ".log", bases[1]);
    fixture_join(path, s.partition, name);
    OL_CHECK_OK(ol_fs_posix()->set_modified(ol_fs_posix(), path, 5000123, &error), &error);
    size_t first = 0;
    while (s.m->batches[first].base != bases[1]) first++;
    size_t last = first;
    while (s.m->batches[last + 1].base != bases[2]) last++;
    OL_CHECK_OK(ol_log_segment_files_at(s.log, bases[1], &files, &error), &error);
    OL_CHECK_INT(files.modified_ms, 5000123);
    OL_CHECK_INT(files.first_timestamp, s.m->batches[first].timestamp);
    OL_CHECK_INT(files.largest_timestamp, s.m->batches[last].timestamp);
    snprintf(name, sizeof name, "%020" PRId64 ".index", bases[1]);
    OL_CHECK_INT(files.index_size, fixture_size(s.partition, name));
    snprintf(name, sizeof name, "%020" PRId64 ".timeindex", bases[1]);
    OL_CHECK_INT(files.time_index_size, fixture_size(s.partition, name));
    OL_CHECK(files.time_index_size > 12);
    OL_CHECK_OK(ol_log_segment_files_at(s.log, bases[2], &files, &error), &error);
    OL_CHECK_INT(ol_log_segment_files_at(s.log, bases[1] + 1, &files, &error), OL_OUT_OF_RANGE);
    int64_t none = 0;
    clean(&s, 0, 2, keep_below, &none);
    OL_CHECK_OK(ol_log_segment_files_at(s.log, 0, &files, &error), &error);
    OL_CHECK_INT(files.modified_ms, 5000123);
    OL_CHECK_INT(files.largest_timestamp, 5000123);
    OL_CHECK_INT(files.first_timestamp, -1);
    OL_CHECK_INT(files.index_size, 0);
    scene_close(&s);
}

/* ------------------------------------------------------------------------------------------------ a directory that does not obey */

static int renames_until_failure = -1;
static bool removals_fail;

static int failing_rename(ol_fs *fs, const char *source, const char *target, ol_error *error) {
    if (renames_until_failure >= 0 && renames_until_failure-- == 0) return ol_fail_errno(error, EIO, "rename", source);
    return ol_fs_posix()->rename(fs, source, target, error);
}

static int failing_remove(ol_fs *fs, const char *path, ol_error *error) {
    if (removals_fail) return ol_fail_errno(error, EIO, "unlink", path);
    return ol_fs_posix()->remove(fs, path, error);
}

OL_TEST(what_a_failed_swap_leaves_is_removed_before_the_next_one) {
    for (int renames = 0; renames < 7; renames++) {
        scene s;
        ol_error error;
        ol_segment_rewrite *cleaned = NULL;
        ol_fs fs = *ol_fs_posix();
        fs.rename = failing_rename;
        fs.remove = failing_remove;
        scene_open(&s);
        fixture_close(s.log);
        s.options.fs = &fs;
        s.log = fixture_open(&s.options, NULL);
        fill(&s, 6);
        int64_t limit = 5;
        renames_until_failure = renames;
        removals_fail = true;
        OL_CHECK_INT(model_clean(s.m, s.log, 0, 4, keep_below, &limit, &error), OL_IO);
        OL_CHECK(!ol_log_has_failed(s.log));
        OL_CHECK(fixture_exists(s.partition, "00000000000000000000.log.cleaned"));
        OL_CHECK_INT(ol_segment_rewrite_start(s.log, 0, ol_log_cuts(s.log), &cleaned, &error), OL_IO);
        model_check(s.m, s.log);
        removals_fail = false;
        if (renames % 2 == 0) {
            clean(&s, 1, 3, keep_below, &limit);
        } else {
            reopen(&s, renames % 4 == 1);
            check_no_leftovers(s.partition);
        }
        clean(&s, 0, segments(&s) - 1, keep_every_third, NULL);
        reopen(&s, false);
        scene_close(&s);
    }
}

static bool is_swap_file(const char *path) { return strstr(path, ".swap") != NULL || strstr(path, ".cleaned") != NULL; }

/* The last rename of a swap takes place, and fails. */
static int lying_rename(ol_fs *fs, const char *source, const char *target, ol_error *error) {
    int status = ol_fs_posix()->rename(fs, source, target, error);
    if (status != OL_OK || !removals_fail || strstr(source, ".log.cleaned") == NULL) return status;
    return ol_fail_errno(error, EIO, "rename", source);
}

static int keeping_remove(ol_fs *fs, const char *path, ol_error *error) {
    if (removals_fail && is_swap_file(path)) return ol_fail_errno(error, EIO, "unlink", path);
    return ol_fs_posix()->remove(fs, path, error);
}

OL_TEST(a_swap_that_was_given_up_is_not_finished_over_what_was_cut) {
    for (int cleared = 0; cleared < 2; cleared++) {
        scene s;
        ol_error error;
        ol_fs fs = *ol_fs_posix();
        fs.rename = lying_rename;
        fs.remove = keeping_remove;
        scene_open(&s);
        fixture_close(s.log);
        s.options.fs = &fs;
        s.log = fixture_open(&s.options, NULL);
        fill(&s, 6);
        removals_fail = true;
        OL_CHECK_INT(model_clean(s.m, s.log, 0, 1, keep_every_third, NULL, &error), OL_IO);
        OL_CHECK(fixture_exists(s.partition, "00000000000000000000.log.swap"));
        OL_CHECK_INT(ol_log_truncate(s.log, 4, &error), OL_IO);
        OL_CHECK(!ol_log_has_failed(s.log) && is_swap_file(error.path));
        model_check(s.m, s.log);
        removals_fail = false;
        if (cleared) {
            OL_CHECK_OK(ol_log_truncate(s.log, 4, &error), &error);
            model_cut(s.m, 4);
            check_no_leftovers(s.partition);
            model_check(s.m, s.log);
            reopen(&s, false);
        }
        scene_close(&s);
    }
}

OL_TEST(a_note_of_a_roll_that_stayed_does_not_outlive_its_segment) {
    scene s;
    ol_fs fs = *ol_fs_posix();
    fs.remove = failing_remove;
    scene_open(&s);
    fixture_close(s.log);
    s.options.fs = &fs;
    s.log = fixture_open(&s.options, NULL);
    while (segments(&s) < 4) append(&s, 300);
    removals_fail = true;
    flush(&s);
    removals_fail = false;
    OL_CHECK_INT(fixture_count(s.partition, "offsetlog.rolled-"), 3);
    clean(&s, 1, 2, keep_every_third, NULL);
    OL_CHECK_INT(fixture_count(s.partition, "offsetlog.rolled-"), 1);
    reopen(&s, false);
    OL_CHECK_INT(fixture_count(s.partition, "offsetlog.rolled-"), 0);
    scene_close(&s);
}

OL_TEST_MAIN()
