/* The bits by which one pass of the cleaner tells the next what it need not look at: against a model, within their memory, and what guards them. */
#include <stdio.h>

#include "cleaner_findings.h"
#include "cleaner/key_map.h"

enum { OFFSETS = 5000, FROM = 1000 };

static void check_all(const ol_clean_superseded *bits, const bool *plain, const bool *gone, int64_t end) {
    for (int64_t offset = 0; offset < OFFSETS; offset++) {
        bool covered = offset >= FROM && offset < end;
        OL_CHECK_INT(ol_clean_superseded_is_gone(bits, offset), covered && plain[offset] && gone[offset]);
    }
    OL_CHECK(!ol_clean_superseded_is_gone(bits, INT64_MAX));
}

/* Keys drawn at random; a gap here and there. */
static void put_some(ol_clean_superseded *bits, bool *plain, bool *gone) {
    int64_t latest[100];
    for (int i = 0; i < 100; i++) latest[i] = -1;
    memset(plain, 0, OFFSETS);
    memset(gone, 0, OFFSETS);
    for (int64_t offset = FROM; offset < OFFSETS; offset += 1 + (ol_test_below(9) == 0)) {
        int64_t *previous = &latest[ol_test_below(100)];
        plain[offset] = ol_test_below(4) != 0;
        if (*previous >= 0) gone[*previous] = true;
        ol_clean_superseded_put(bits, offset, plain[offset], *previous);
        *previous = offset;
    }
}

OL_TEST(a_plain_record_is_gone_once_a_later_one_was_put) {
    static const size_t memories[] = {1 << 20, 600, 16, 15, 0};
    static const int64_t covered[] = {OFFSETS, FROM + 600 / 16 * 64, FROM + 64, FROM, FROM};
    static bool plain[OFFSETS], gone[OFFSETS];
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
        ol_clean_superseded bits = {0};
        /* Used again it has forgotten all. */
        for (int round = 0; round < 3; round++) {
            ol_clean_superseded_start(&bits, FROM, OFFSETS, memories[i]);
            memset(gone, 0, sizeof gone);
            check_all(&bits, plain, gone, covered[i]);
            put_some(&bits, plain, gone);
            check_all(&bits, plain, gone, covered[i]);
        }
        ol_clean_superseded_free(&bits);
    }
}

OL_TEST(a_record_below_what_is_there_supersedes_nothing) {
    ol_clean_superseded bits = {0};
    ol_clean_superseded_start(&bits, 0, 64, 1024);
    ol_clean_superseded_put(&bits, 9, true, -1);
    ol_clean_superseded_put(&bits, 5, true, 9);
    OL_CHECK(!ol_clean_superseded_is_gone(&bits, 9) && !ol_clean_superseded_is_gone(&bits, 5));
    ol_clean_superseded_start(&bits, 0, 0, 1024);
    OL_CHECK(!ol_clean_superseded_is_gone(&bits, 0));
    ol_clean_superseded_free(&bits);
}

OL_TEST(what_stands_before_the_first_record_that_is_gone_stays) {
    world w;
    open_world(&w, 16384);
    int64_t live[2];
    live[0] = append_position(&w, -1, "g", 1000, 1);
    live[1] = append_position(&w, -1, "g", 1001, 2);
    int64_t gone = append_position(&w, -1, "g", 0, 3);
    roll_world(&w);
    int64_t last = append_position(&w, -1, "g", 0, 4);
    roll_world(&w);
    ol_clean_options options = clean_options(&w);
    ol_clean_report report = clean_with(&w, &options);
    OL_CHECK_INT(report.records.superseded, 1);
    OL_CHECK_INT(report.records.kept, 3);
    OL_CHECK(has_batch(&w, live[0], NULL) && has_batch(&w, live[1], NULL) && has_batch(&w, last, NULL) && !has_batch(&w, gone, NULL));
    close_world(&w);
}

/* Between the passes: the first batch of the second segment says that it is as long as itself and the next one. */
static int let_length_rot(void *context, int64_t floor OL_UNUSED, ol_error *error OL_UNUSED) {
    const world *w = context;
    ol_log_segment_info info;
    uint8_t first[4], second[4];
    OL_CHECK(ol_log_segment_at(w->partition->log, 1, &info));
    FILE *file = fopen(info.path, "r+b");
    OL_CHECK(file != NULL && fseek(file, OL_BATCH_AT_LENGTH, SEEK_SET) == 0 && fread(first, 1, 4, file) == 4);
    int32_t size = ol_load_i32(first) + OL_BATCH_LOG_OVERHEAD;
    OL_CHECK(fseek(file, size + OL_BATCH_AT_LENGTH, SEEK_SET) == 0 && fread(second, 1, 4, file) == 4);
    ol_store_i32(first, size + ol_load_i32(second));
    OL_CHECK(fseek(file, OL_BATCH_AT_LENGTH, SEEK_SET) == 0 && fwrite(first, 1, 4, file) == 4);
    OL_CHECK_INT(fclose(file), 0);
    return OL_OK;
}

OL_TEST(a_length_that_rots_between_the_passes_takes_no_other_batch_along) {
    world w;
    open_world(&w, 16384);
    for (int i = 0; i < 100; i++) append_position(&w, -1, "g", i % 50, i);
    roll_world(&w);
    int64_t rotten = append_position(&w, -1, "g", 0, 777);
    append_position(&w, -1, "g", 1000, 4711);       /* live: what would be lost */
    for (int i = 0; i < 98; i++) append_position(&w, -1, "g", 100 + i, i);
    append_position(&w, -1, "g", 0, 778);
    roll_world(&w);
    ol_clean_options options = clean_options(&w);
    options.raise_floor = let_length_rot;
    options.raise_floor_context = &w;
    ol_clean_report report = clean_with(&w, &options);
    OL_CHECK_INT(report.quarantined, 1);
    OL_CHECK_INT(report.quarantine[0].segment_base, rotten);
    OL_CHECK(strstr(report.quarantine[0].error.reason, "other batches") != NULL);
    OL_CHECK_INT(report.segments_after, 2);
    close_world(&w);
}

OL_TEST_MAIN()
