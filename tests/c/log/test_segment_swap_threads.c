/* Swaps of cleaned segments beside other threads. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cleaned_scene.h"

/* ------------------------------------------------------------------------------------------------ beside other threads */

typedef struct crowd {
    scene *s;
    _Atomic bool stop;
    _Atomic int64_t appended;
    _Atomic int64_t read;
    pthread_mutex_t model_lock;
} crowd;

static void *append_steadily(void *context) {
    crowd *c = context;
    ol_error error;
    while (!atomic_load(&c->stop)) {
        fixture_batch batch = fixture_plain(200, 1);
        OL_CHECK_OK(fixture_try_append(c->s->log, &batch, &error), &error);
        atomic_fetch_add(&c->appended, 1);
        (void)ol_log_prepare(c->s->log);
    }
    return NULL;
}

static void *flush_steadily(void *context) {
    crowd *c = context;
    ol_error error;
    int64_t flushed = 0;
    while (!atomic_load(&c->stop)) OL_CHECK_OK(ol_log_flush(c->s->log, &flushed, &error), &error);
    return NULL;
}

/* Batches of one offset each; those with a base that 8 divides always stay. */
static void *read_steadily(void *context) {
    crowd *c = context;
    ol_error error;
    uint64_t random = 17;
    while (!atomic_load(&c->stop)) {
        ol_log_reader *reader = NULL;
        ol_log_piece piece;
        random = random * 6364136223846793005u + 1442695040888963407u;
        int64_t from = (int64_t)((random >> 33) % (uint64_t)(ol_log_end(c->s->log) + 1));
        int64_t next = (from + 7) / 8 * 8;
        int status;
        OL_CHECK_OK(ol_log_reader_open(c->s->log, from, &reader, &error), &error);
        for (int pieces = 0; pieces < 200 && (status = ol_log_reader_next(reader, 900, &piece, &error)) == OL_OK; pieces++) {
            for (size_t at = 0; at < piece.size;) {
                ol_batch batch;
                OL_CHECK_OK(ol_batch_parse(piece.data + at, piece.size - at, &batch, &error), &error);
                OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
                OL_CHECK(batch.base_offset <= next);
                if (batch.base_offset == next) next += 8;
                at += batch.size;
            }
            atomic_fetch_add(&c->read, (int64_t)piece.size);
        }
        ol_log_reader_close(reader);
    }
    return NULL;
}

/* Copies [bases[0], up_to) through a reader, as the cleaner does. */
static void clean_through_a_reader(crowd *c, const int64_t *bases, size_t count, int64_t up_to) {
    ol_error error;
    ol_segment_rewrite *cleaned = NULL;
    ol_log_reader *reader = NULL;
    ol_log_piece piece;
    ol_log *log = c->s->log;
    OL_CHECK_OK(ol_segment_rewrite_start(log, bases[0], ol_log_cuts(log), &cleaned, &error), &error);
    OL_CHECK_OK(ol_log_reader_open(log, bases[0], &reader, &error), &error);
    bool more = true;
    int64_t next = (bases[0] + 7) / 8 * 8;
    while (more) {
        OL_CHECK_OK(ol_log_reader_next(reader, 5000, &piece, &error), &error);
        for (size_t at = 0; at < piece.size && more;) {
            ol_batch batch;
            OL_CHECK_OK(ol_batch_parse(piece.data + at, piece.size - at, &batch, &error), &error);
            at += batch.size;
            more = batch.base_offset < up_to;
            OL_CHECK(batch.base_offset <= next);
            if (batch.base_offset == next) next += 8;
            if (!more || batch.base_offset % 8 != 0) continue;
            OL_CHECK_OK(ol_segment_rewrite_append(cleaned, batch.data, batch.size, batch.base_offset, batch.last_offset,
                                          batch.max_timestamp, &error), &error);
        }
    }
    ol_log_reader_close(reader);
    int status = ol_segment_rewrite_swap(cleaned, bases, count, &error);
    OL_CHECK(status == OL_OK || status == OL_WOULD_BLOCK);
}

/* Every swap copies all batches that stay, so the time for many swaps of one log grows quadratically. */
static void swap_in_a_crowd(int swaps) {
    scene s;
    ol_error error;
    scene_open(&s);
    crowd c = {.s = &s};
    pthread_t threads[5];
    pthread_create(&threads[0], NULL, append_steadily, &c);
    pthread_create(&threads[1], NULL, flush_steadily, &c);
    for (int i = 2; i < 5; i++) pthread_create(&threads[i], NULL, read_steadily, &c);
    for (int i = 0; i < swaps; i++) {
        ol_log_segment_info info;
        int64_t bases[64];
        size_t count = 0;
        while (count < 64 && ol_log_segment_at(s.log, count, &info) && !info.active) bases[count++] = info.base_offset;
        if (count < 4) {
            i--;
            usleep(200);
            continue;
        }
        size_t first = (size_t)i % 2;
        clean_through_a_reader(&c, bases + first, count - 1 - first, bases[count - 1]);
    }
    atomic_store(&c.stop, true);
    for (int i = 0; i < 5; i++) pthread_join(threads[i], NULL);
    OL_CHECK(atomic_load(&c.appended) > 100 && atomic_load(&c.read) > 0);
    check_no_leftovers(s.partition);
    int64_t end = ol_log_end(s.log);
    OL_CHECK_INT(end, c.appended);
    int64_t flushed = 0;
    OL_CHECK_OK(ol_log_flush(s.log, &flushed, &error), &error);
    ol_log_abandon(s.log);
    s.options.recovery_point = -1;
    ol_log_recovery recovery;
    s.log = fixture_open(&s.options, &recovery);
    OL_CHECK(!recovery.corrupt);
    OL_CHECK_INT(ol_log_end(s.log), end);
    size_t size = 0;
    uint8_t *bytes = fixture_read_log(s.log, 0, 1 << 16, &size);
    int64_t next = 0;
    for (size_t at = 0; at < size;) {
        ol_batch batch;
        OL_CHECK_OK(ol_batch_parse(bytes + at, size - at, &batch, &error), &error);
        OL_CHECK(batch.base_offset <= next);
        if (batch.base_offset == next) next += 8;
        at += batch.size;
    }
    OL_CHECK(next >= end);
    free(bytes);
    scene_close(&s);
}

OL_TEST(commits_flushes_and_readers_go_on_while_segments_are_swapped) {
    for (int64_t round = 0; round < ol_test_depth(1, 20); round++) swap_in_a_crowd(150);
}

OL_TEST_MAIN()
