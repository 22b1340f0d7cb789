/* Everything at once: threads that commit, delete, begin and end transactions, write groups larger than a batch, wait, fetch, walk the log
 * and ask about it, beside one that rolls, cleans, expires and takes snapshots, and beside the threads of a store.  The
 * writes of each thread are there, while it runs and after an open, and the log says the same as the state.  It is made
 * for ThreadSanitizer (`make test-tsan`); it runs for a second, with OFFSETLOG_DEPTH=long two minutes. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "cleaner/cleaner.h"
#include "log/offset_for_time.h"
#include "partition/preallocator.h"
#include "partition/snapshot_take.h"
#include "partition_fixture.h"
#include "retention/run.h"

enum {
    PARTITIONS = 2,
    WRITERS = 2,                /* of each kind and partition */
    KEYS = 12,
    LARGE = 80,                 /* positions that do not fit a batch */
    THREADS_MAX = 64,
};

typedef struct stage {
    ol_partition *partitions[PARTITIONS];
    ol_preallocator *preallocator;
    ol_flusher *flusher;
    _Atomic bool stop;
    _Atomic int64_t commits, transactions, reads, cleans;
} stage;

/* One thread, and what it wrote. */
typedef struct actor {
    stage *on;
    ol_partition *partition;
    void (*act)(struct actor *self);
    char group[16];
    uint64_t random;
    int number;
    int64_t next;
    int64_t written[LARGE];     /* -1: deleted, or never written */
    pthread_t thread;
} actor;

static uint64_t draw(actor *self, uint64_t bound) {
    self->random = self->random * 6364136223846793005u + 1442695040888963407u;
    return (self->random >> 33) % bound;
}

static void check(int status, const ol_error *error) {
    if (status == OL_OK) return;
    fprintf(stderr, "%s: %s (%s)\n", ol_status_name(status), error->reason, error->path);
    exit(1);
}

/* ------------------------------------------------------------------------------------------------ writers */

/* Short commits try not to wait, as those that hold Python's lock do. */
static void commit(actor *self, const ol_item *items, size_t count) {
    ol_commit_result result;
    ol_error error;
    int status = OL_WOULD_BLOCK;
    if (count <= 4) status = ol_partition_try_commit(self->partition, items, count, &result, &error);
    if (status == OL_WOULD_BLOCK) {
        status = ol_partition_commit(self->partition, items, count, -1, -1, &result, &error);
        ol_preallocator_kick(self->on->preallocator);
    }
    check(status, &error);
    if (draw(self, 200) == 0) {
        check(ol_partition_wait(self->partition, result.end_offset, result.term, OL_WAIT_FLUSHED, -1, &error), &error);
        OL_CHECK(ol_partition_is_flushed(self->partition, result.end_offset, result.term));
    }
    atomic_fetch_add(&self->on->commits, 1);
}

/* Positions 0 and 1 of a group always go together and only up; the others come and go. */
static void commit_and_delete(actor *self) {
    ol_item items[2];
    int32_t first = draw(self, 3) == 0 ? 0 : 2 + (int32_t)draw(self, KEYS - 2);
    size_t count = first == 0 ? 2 : 1;
    self->next++;
    for (size_t i = 0; i < count; i++) {
        items[i] = position_item(self->group, "t", first + (int32_t)i, self->next);
        if (first >= 2 && draw(self, 4) == 0) items[i].kind = OL_ITEM_POSITION_TOMBSTONE;
        if (first >= 2 && items[i].kind == OL_ITEM_POSITION && self->written[first] >= 0 && draw(self, 4) == 0) {
            items[i].condition = OL_CONDITION_EQUALS;
            items[i].expected = self->written[first];
        }
        self->written[first + (int32_t)i] = items[i].kind == OL_ITEM_POSITION ? self->next : -1;
    }
    commit(self, items, count);
}

static void commit_large(actor *self) {
    ol_item items[LARGE];
    self->next++;
    for (int i = 0; i < LARGE; i++) {
        items[i] = position_item(self->group, "large", i, self->next);
        self->written[i] = self->next;
    }
    commit(self, items, LARGE);
}

static void run_transaction(actor *self) {
    ol_error error;
    ol_commit_result result;
    int64_t producer_id = 1000 + self->number;
    int64_t before[KEYS];
    memcpy(before, self->written, sizeof before);
    for (uint64_t i = 1 + draw(self, 3); i > 0; i--) {
        int32_t key = (int32_t)draw(self, KEYS);
        ol_item item = position_item(self->group, "t", key, ++self->next);
        check(ol_partition_commit(self->partition, &item, 1, producer_id, 0, &result, &error), &error);
        self->written[key] = self->next;
    }
    bool aborts = draw(self, 2) == 0;
    check(ol_partition_end_transaction(self->partition, producer_id, 0, aborts ? OL_CONTROL_ABORT : OL_CONTROL_COMMIT, 0, &result,
                                       &error),
          &error);
    if (aborts) memcpy(self->written, before, sizeof before);
    atomic_fetch_add(&self->on->transactions, 1);
}

/* ------------------------------------------------------------------------------------------------ readers */

static int64_t get(const ol_state *state, const char *group, const char *topic, int32_t number) {
    ol_pair_name name = ol_table_name(state->table, text(group), ol_table_group_hash(state->table, text(group)), text(topic));
    ol_position_value value;
    return ol_table_get(state->table, &name, number, &value) ? value.offset : -1;
}

/* Two positions of one commit are there together, and so are all of a large one; none goes back. */
static void fetch(actor *self) {
    const ol_state *state;
    ol_error error;
    int status = draw(self, 2) ? ol_partition_try_lock_state(self->partition, &state, &error)
                               : ol_partition_lock_state(self->partition, &state, &error);
    if (status == OL_WOULD_BLOCK || status == OL_LOADING) return;
    check(status, &error);
    char group[16];
    snprintf(group, sizeof group, "c%d", self->number);
    int64_t value = get(state, group, "t", 0);
    OL_CHECK_INT(get(state, group, "t", 1), value);
    OL_CHECK(value >= self->written[0]);
    self->written[0] = value;
    snprintf(group, sizeof group, "l%d", self->number);
    value = get(state, group, "large", 0);
    for (int i = 1; i < LARGE; i += 7) OL_CHECK_INT(get(state, group, "large", i), value);
    ol_partition_unlock_state(self->partition);
    atomic_fetch_add(&self->on->reads, 1);
}

static void walk(actor *self) {
    ol_log *log = ol_partition_log(self->partition);
    ol_log_reader *reader;
    ol_log_piece piece;
    ol_error error;
    int64_t next = (int64_t)draw(self, (uint64_t)ol_log_end(log) + 1);
    check(ol_log_reader_open(log, next, &reader, &error), &error);
    int status = OL_OK;
    for (int i = 0; i < 50 && (status = ol_log_reader_next(reader, 5000, &piece, &error)) == OL_OK; i++) {
        for (size_t at = 0; at < piece.size;) {
            ol_batch batch;
            check(ol_batch_parse(piece.data + at, piece.size - at, &batch, &error), &error);
            check(ol_batch_check_crc(&batch, &error), &error);
            at += batch.size;
        }
    }
    OL_CHECK(status == OL_OK || status == OL_END);
    ol_log_reader_close(reader);
}

static int count_aborted(void *context OL_UNUSED, const ol_aborted_transaction *transaction) {
    OL_CHECK(transaction->first_offset < transaction->last_offset);
    return OL_OK;
}

/* All that can be asked of a partition at any time. */
static void ask(actor *self) {
    ol_partition *partition = self->partition;
    ol_log *log = ol_partition_log(partition);
    ol_positions positions;
    ol_log_transaction transaction;
    ol_log_segment_info segment;
    ol_load_progress progress;
    ol_problem problem;
    ol_error error;
    ol_partition_positions(partition, &positions);
    OL_CHECK(positions.written >= positions.watermark && positions.watermark >= positions.applied);
    OL_CHECK(positions.written >= positions.flushed);
    ol_role role = ol_partition_role(partition);
    OL_CHECK(role == OL_ROLE_ACTIVE || role == OL_ROLE_LOADING);
    ol_partition_progress(partition, &progress);
    OL_CHECK(progress.problems == 0 && !ol_partition_problem_at(partition, 0, &problem) && !ol_partition_is_read_only(partition));
    for (size_t i = 0; ol_partition_transaction_at(partition, i, &transaction); i++) OL_CHECK(transaction.first_offset >= 0);
    for (size_t i = 0; ol_log_segment_at(log, i, &segment); i++) OL_CHECK(segment.size >= 0);
    int64_t offset;
    check(ol_log_collect_aborted(log, 0, INT64_MAX, count_aborted, NULL, &error), &error);
    check(ol_log_offset_for_time(log, ol_partition_newest_timestamp(partition), positions.written, &offset, &error), &error);
    OL_CHECK(ol_log_size_bytes(log) >= 0 && ol_log_leader_epoch(log) >= -1 && ol_partition_scratch_bytes(partition) < 1 << 24);
    (void)ol_partition_is_behind(partition, positions.flushed);
    (void)ol_partition_snapshot_tail_bytes(partition);
}

/* ------------------------------------------------------------------------------------------------ maintenance */

/* All groups are looked at, and none is old enough. */
static void expire_nothing(actor *self) {
    ol_error error;
    ol_retention_rules *rules;
    ol_retention_report report;
    check(ol_retention_rules_create(NULL, 0, 1000000000, &rules, &error), &error);
    ol_retention_options options = {.rules = rules, .now_ms = fixture_now};
    check(ol_retention_expire(self->partition, &options, &report, &error), &error);
    OL_CHECK_INT(report.positions_expired, 0);
    ol_retention_rules_destroy(rules);
}

static void take_snapshot(ol_partition *partition, int64_t up_to) {
    ol_error error;
    ol_snapshot *snapshot;
    check(ol_partition_snapshot_begin(partition, &snapshot, &error), &error);
    int status = ol_partition_snapshot_advance(partition, snapshot, up_to, NULL, &error);
    OL_CHECK(status == OL_OK || status == OL_WOULD_BLOCK);
    ol_snapshot_destroy(snapshot);
}

static void maintain(actor *self) {
    ol_error error;
    ol_clean_options options;
    ol_clean_report report;
    ol_clean_options_init(&options);
    options.now_ms = 2 * fixture_now;
    options.delete_retention_ms = 1;
    options.map_bytes = 1 << 16;
    options.use_table = draw(self, 2);
    check(ol_partition_roll(self->partition, &error), &error);
    ol_positions positions;
    ol_partition_positions(self->partition, &positions);
    check(ol_partition_wait(self->partition, positions.written, OL_TERM_NOW, OL_WAIT_FLUSHED, -1, &error), &error);
    check(ol_cleaner_run(self->partition, &options, &report, &error), &error);
    expire_nothing(self);
    /* It reads the whole log. */
    if (self->next++ % 8 == 0) take_snapshot(self->partition, positions.written);
    atomic_fetch_add(&self->on->cleans, 1);
}

/* ------------------------------------------------------------------------------------------------ a run */

/* Those that only look give way, so that locks are held by writers most of the time. */
static void *act_until_stopped(void *context) {
    actor *self = context;
    bool looks = self->group[0] == '-';
    while (!atomic_load(&self->on->stop)) {
        self->act(self);
        if (looks) usleep(500);
    }
    return NULL;
}

static void cast(actor *actors, size_t *count, stage *on, int partition, char kind, int number, void (*act)(actor *self)) {
    OL_CHECK(*count < THREADS_MAX);
    actor *self = &actors[(*count)++];
    *self = (actor){.on = on, .partition = on->partitions[partition], .act = act, .number = number,
                    .random = ol_test_seed * 1000003 + *count};
    snprintf(self->group, sizeof self->group, "%c%d", kind, number);
    for (int i = 0; i < LARGE; i++) self->written[i] = -1;
}

static size_t cast_all(actor *actors, stage *on) {
    size_t count = 0;
    for (int partition = 0; partition < PARTITIONS; partition++) {
        for (int number = 0; number < WRITERS; number++) {
            cast(actors, &count, on, partition, 'c', number, commit_and_delete);
            cast(actors, &count, on, partition, 'x', number, run_transaction);
            cast(actors, &count, on, partition, 'l', number, commit_large);
            cast(actors, &count, on, partition, '-', number, fetch);
        }
        cast(actors, &count, on, partition, '-', 0, walk);
        cast(actors, &count, on, partition, '-', 0, ask);
        cast(actors, &count, on, partition, '-', 0, maintain);
    }
    return count;
}

static ol_partition_options stage_options(int number) {
    static char directories[PARTITIONS][300];
    snprintf(directories[number], sizeof directories[number], "%.200s-%d", fixture_directory, number);
    ol_partition_options options = fixture_options(directories[number]);
    options.clock_ms = NULL;
    options.batch_bytes_max = 2048;
    options.log.config.segment_bytes = 64 << 10;
    options.log.config.index_interval_bytes = 512;
    options.log.config.extend_bytes_min = 4096;
    options.log.config.extend_bytes_max = 16 << 10;
    return options;
}

static void open_stage(stage *on, bool load) {
    ol_error error;
    check(ol_flusher_create(&on->flusher, &error), &error);
    check(ol_preallocator_start(&on->preallocator, on->flusher, 10, &error), &error);
    for (int i = 0; i < PARTITIONS; i++) {
        ol_partition_options options = stage_options(i);
        on->partitions[i] = open_partition(&options, load);
        check(ol_preallocator_add(on->preallocator, on->partitions[i], &error), &error);
    }
}

static void close_stage(stage *on) {
    ol_preallocator_stop(on->preallocator);
    ol_flusher_stop(on->flusher);
    for (int i = 0; i < PARTITIONS; i++) close_partition(on->partitions[i]);
}

static void check_written(const actor *self, ol_partition *partition) {
    const char *topic = self->group[0] == 'l' ? "large" : "t";
    if (self->group[0] == '-') return;
    for (int i = 0; i < (self->group[0] == 'l' ? LARGE : KEYS); i++) {
        int64_t found = fetch_one(partition, self->group, topic, i);
        if (found == self->written[i]) continue;
        fprintf(stderr, "%s %s-%d is %" PRId64 ", not %" PRId64 "\n", self->group, topic, i, found, self->written[i]);
        exit(1);
    }
}

OL_TEST(everything_at_once) {
    static actor actors[THREADS_MAX];
    stage on = {0};
    (void)fresh_directory();
    open_stage(&on, true);
    size_t count = cast_all(actors, &on);
    for (size_t i = 0; i < count; i++) OL_CHECK(pthread_create(&actors[i].thread, NULL, act_until_stopped, &actors[i]) == 0);
    struct timespec duration = {.tv_sec = (time_t)ol_test_depth(1, 120)};
    nanosleep(&duration, NULL);
    atomic_store(&on.stop, true);
    for (size_t i = 0; i < count; i++) pthread_join(actors[i].thread, NULL);
    printf("  %" PRId64 " commits, %" PRId64 " transactions, %" PRId64 " reads, %" PRId64 " cleans (seed %" PRIu64 ")\n", on.commits,
           on.transactions, on.reads, on.cleans, ol_test_seed);
    OL_CHECK(on.commits > 0 && on.transactions > 0 && on.reads > 0 && on.cleans > 0);
    ol_digest digests[PARTITIONS];
    for (size_t i = 0; i < count; i++) check_written(&actors[i], actors[i].partition);
    for (int i = 0; i < PARTITIONS; i++) digests[i] = digest_of(on.partitions[i]);
    close_stage(&on);
    open_stage(&on, true);
    for (int i = 0; i < PARTITIONS; i++) check_same_digest(digests[i], digest_of(on.partitions[i]));
    close_stage(&on);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ beside a load */

/* A partition that is loaded takes plain commits only. */
static void commit_plainly(actor *self) {
    ol_commit_result result;
    ol_error error;
    ol_item item = position_item(self->group, "t", (int32_t)draw(self, KEYS), ++self->next);
    check(try_one(self->partition, item, -1, &result, &error), &error);
    self->written[item.partition] = self->next;
    atomic_fetch_add(&self->on->commits, 1);
}

static void *load(void *partition) {
    ol_error error;
    check(ol_partition_load(partition, &error), &error);
    return NULL;
}

OL_TEST(commits_and_questions_beside_a_load) {
    for (int64_t round = 0; round < ol_test_depth(2, 20); round++) {
        static actor actors[THREADS_MAX];
        pthread_t loaders[PARTITIONS];
        stage on = {0};
        (void)fresh_directory();
        open_stage(&on, true);
        for (int i = 0; i < PARTITIONS; i++) {
            for (int k = 0; k < 5000; k++) commit_one(on.partitions[i], "before", "t", k % 50, k);
        }
        close_stage(&on);
        open_stage(&on, false);
        size_t count = 0;
        for (int i = 0; i < PARTITIONS; i++) {
            for (int number = 0; number < WRITERS; number++) cast(actors, &count, &on, i, 'c', number, commit_plainly);
            cast(actors, &count, &on, i, '-', 0, ask);
            cast(actors, &count, &on, i, '-', 0, walk);
        }
        for (int i = 0; i < PARTITIONS; i++) OL_CHECK(pthread_create(&loaders[i], NULL, load, on.partitions[i]) == 0);
        /* A commit before the load has begun would be refused. */
        for (int i = 0; i < PARTITIONS; i++) {
            while (ol_partition_role(on.partitions[i]) == OL_ROLE_UNLOADED) usleep(100);
        }
        for (size_t i = 0; i < count; i++) OL_CHECK(pthread_create(&actors[i].thread, NULL, act_until_stopped, &actors[i]) == 0);
        for (int i = 0; i < PARTITIONS; i++) pthread_join(loaders[i], NULL);
        usleep(20000);
        atomic_store(&on.stop, true);
        for (size_t i = 0; i < count; i++) pthread_join(actors[i].thread, NULL);
        for (size_t i = 0; i < count; i++) check_written(&actors[i], actors[i].partition);
        ol_digest digests[PARTITIONS];
        for (int i = 0; i < PARTITIONS; i++) {
            digests[i] = digest_of(on.partitions[i]);
            OL_CHECK_INT(fetch_one(on.partitions[i], "before", "t", 49), 4999);
        }
        close_stage(&on);
        open_stage(&on, true);
        for (int i = 0; i < PARTITIONS; i++) check_same_digest(digests[i], digest_of(on.partitions[i]));
        close_stage(&on);
        remove_fixture();
    }
}

OL_TEST_MAIN()
