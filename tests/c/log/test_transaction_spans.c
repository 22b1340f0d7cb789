/* The transactions that were open at an offset, against a list of them all. */
#include <dirent.h>

#include "log/transaction_spans.h"
#include "partition_fixture.h"

enum { STEPS = 1200, PRODUCERS = 5, SPANS_MAX = STEPS };

typedef struct span {
    int64_t first;
    int64_t end;        /* after the marker; INT64_MAX while it is open */
} span;

static span spans[SPANS_MAX];
static size_t span_count;

static void run_steps(ol_partition *partition) {
    size_t open[PRODUCERS];     /* index of the span, plus 1 */
    memset(open, 0, sizeof open);
    span_count = 0;
    for (int i = 0; i < STEPS; i++) {
        size_t producer = ol_test_below(PRODUCERS);
        int64_t end = ol_log_end(ol_partition_log(partition));
        uint64_t what = ol_test_below(10);
        if (what < 4) {
            commit_one(partition, "g", "t", (int32_t)ol_test_below(9), i);
        } else if (what < 8 || open[producer] == 0) {
            commit_pending(partition, (int64_t)producer, "g", "t", (int32_t)ol_test_below(9), i);
            if (open[producer] != 0) continue;
            spans[span_count] = (span){end, INT64_MAX};
            open[producer] = ++span_count;
        } else {
            end_transaction(partition, (int64_t)producer, ol_test_below(2) ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
            spans[open[producer] - 1].end = end + 1;
            open[producer] = 0;
        }
    }
}

static void check_spans(ol_partition *partition) {
    ol_log *log = ol_partition_log(partition);
    ol_error error;
    int64_t log_end = ol_log_end(log);
    for (int i = 0; i < 200; i++) {
        int64_t offset = (int64_t)ol_test_below((uint64_t)log_end + 1);
        int64_t until = i % 4 == 0 ? (int64_t)ol_test_below((uint64_t)log_end + 1) : log_end;
        int64_t first, end, oldest = offset, last = offset;
        for (size_t k = 0; k < span_count; k++) {
            if (spans[k].first >= offset || spans[k].end <= offset) continue;
            if (spans[k].first < oldest) oldest = spans[k].first;
            if (spans[k].end <= until && spans[k].end > last) last = spans[k].end;
        }
        OL_CHECK_OK(ol_log_open_since(log, offset, &first, &error), &error);
        OL_CHECK_INT(first, oldest);
        OL_CHECK_OK(ol_log_ended_by(log, offset, until, &end, &error), &error);
        OL_CHECK_INT(end, last);
    }
}

static void change_snapshots(const char *directory, bool remove_them) {
    DIR *opened = opendir(directory);
    OL_CHECK(opened != NULL);
    int changed = 0;
    for (struct dirent *entry = readdir(opened); entry != NULL; entry = readdir(opened)) {
        char path[OL_PATH_MAX];
        if (strstr(entry->d_name, ".snapshot") == NULL) continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        OL_CHECK(remove_them ? unlink(path) == 0 : truncate(path, 7) == 0);
        changed++;
    }
    closedir(opened);
    OL_CHECK(changed > 1);
}

OL_TEST(spans_are_found_with_and_without_snapshots) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.log.config.segment_bytes = 8 << 10;
    options.batch_bytes_max = 4 << 10;
    ol_partition *partition = open_partition(&options, true);
    run_steps(partition);
    check_spans(partition);
    close_partition(partition);
    options.log.writable = options.log.create = false;
    options.log.clean = true;
    for (int turn = 0; turn < 3; turn++) {
        if (turn > 0) change_snapshots(options.log.directory, turn == 2);
        partition = open_partition(&options, true);
        check_spans(partition);
        ol_partition_abandon(partition);
    }
    remove_fixture();
}

OL_TEST(an_empty_log_has_none) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    span_count = 0;
    check_spans(partition);
    close_partition(partition);
    remove_fixture();
}

OL_TEST_MAIN()
