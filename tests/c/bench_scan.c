/* Time of a row of the view of commits, of a log in memory: many records at a time beside one at a time.
 *
 *     make -C tests/c bench_scan      batches of 1 to 300 commits, 1, 8 and 17 columns, with and without a filter
 *     bench_scan ROUNDS               so many rounds in alternation (40)
 *
 * Nanoseconds a record are the least of the thread's CPU time over all rounds.
 */
#include <time.h>

#include "memory_scan.h"

static const ol_column columns[] = {
    OL_COLUMN_GROUP, OL_COLUMN_TOPIC, OL_COLUMN_PARTITION, OL_COLUMN_OFFSET, OL_COLUMN_LEADER_EPOCH, OL_COLUMN_METADATA,
    OL_COLUMN_COMMIT_TIMESTAMP, OL_COLUMN_LOG_OFFSET, OL_COLUMN_EXPIRE_TIMESTAMP, OL_COLUMN_TOPIC_ID, OL_COLUMN_KIND,
    OL_COLUMN_TIMESTAMP, OL_COLUMN_OUTCOME, OL_COLUMN_MARKER_OFFSET, OL_COLUMN_PRODUCER_ID, OL_COLUMN_PRODUCER_EPOCH,
    OL_COLUMN_LOG_PARTITION};

static const int32_t batch_records[] = {1, 2, 3, 4, 5, 10, 64, 300};
static const size_t column_counts[] = {1, 8, 17};

enum { ROWS = 4096, BATCH_SIZES = sizeof batch_records / sizeof *batch_records };

static int64_t thread_ns(void) {
    struct timespec now;
    OL_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Returns how many commits the log holds: as many as have room. */
static int64_t write_log(int32_t records) {
    memory_log_clear(&the_log);
    while (the_log.count + 1 < MEMORY_LOG_BATCHES && the_log.filled + (size_t)records * 100 + 200 < MEMORY_LOG_BYTES) {
        memory_log_commits(&the_log, -1, records);
    }
    return the_log.next_offset;
}

/* The block is made before: the pages of a new one would be most of the time. */
static int64_t time_of(ol_record_block *rows, bool one_at_a_time, const char *group) {
    memory_scan s;
    int status;
    begin_scan(&s, OL_VIEW_COMMITS, false, NULL);
    ol_record_block_free(&s.rows);
    s.work.one_at_a_time = one_at_a_time;
    if (group != NULL) s.work.group = ol_slice_of(group, strlen(group));
    s.rows = *rows;
    int64_t begin = thread_ns();
    do {
        ol_record_block_clear(&s.rows);
        status = fill(&s);
    } while (status == OL_OK);
    int64_t took = thread_ns() - begin;
    OL_CHECK_INT(status, OL_END);
    *rows = s.rows;
    memset(&s.rows, 0, sizeof s.rows);
    end_scan(&s);
    return took;
}

static void measure(int32_t records, size_t column_count, const char *group, int rounds) {
    int64_t least[2] = {INT64_MAX, INT64_MAX}, count = write_log(records);
    ol_record_block rows;
    ol_error error;
    OL_CHECK_OK(ol_record_block_create(&rows, columns, column_count, ROWS, &error), &error);
    for (int i = 0; i < 2 * rounds; i++) {
        int64_t took = time_of(&rows, i % 2 == 1, group);
        if (took < least[i % 2]) least[i % 2] = took;
    }
    printf("%3" PRId32 " a batch, %2zu columns, group %-6s: many at a time %6.1f ns, one at a time %6.1f ns\n", records,
           column_count, group == NULL ? "any" : group, (double)least[0] / (double)count,
           (double)least[1] / (double)count);
    ol_record_block_free(&rows);
}

int main(int argument_count, char **arguments) {
    static const char *const groups[] = {NULL, "group", "absent"};
    int rounds = argument_count > 1 ? atoi(arguments[1]) : 40;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (size_t c = 0; c < sizeof column_counts / sizeof *column_counts; c++) {
            for (size_t i = 0; i < BATCH_SIZES; i++) measure(batch_records[i], column_counts[c], groups[g], rounds);
        }
    }
    return 0;
}
