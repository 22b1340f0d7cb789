/* Flushes partitions in the background, many at a time. */
#include "partition/flusher.h"

#include <signal.h>
#include <stdlib.h>

#include "partition/partition_impl.h"

struct ol_flusher {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    pthread_cond_t left;            /* a thread has finished with a partition */
    ol_partition *first;            /* the queue, which the partitions link themselves */
    ol_partition *last;
    ol_partition *next_ahead;       /* the first in the queue whose writes are not begun */
    size_t ahead;                   /* those before it */
    size_t queued;
    size_t idle;                    /* threads that wait for work */
    size_t thread_count;
    pthread_t threads[OL_FLUSHER_THREADS];
    bool stopping;
};

/* Under lock. */
static ol_partition *take_first(ol_flusher *flusher) {
    ol_partition *partition = flusher->first;
    flusher->first = partition->flush.next;
    if (flusher->first == NULL) flusher->last = NULL;
    if (flusher->ahead > 0) flusher->ahead--;
    else flusher->next_ahead = flusher->first;
    flusher->queued--;
    partition->flush.next = NULL;
    return partition;
}

/* Under lock: takes the next partitions of the queue whose writes are not begun. */
static size_t take_ahead(ol_flusher *flusher, ol_partition *partitions[OL_FLUSHER_AHEAD]) {
    size_t count = 0;
    while (flusher->next_ahead != NULL && flusher->ahead < OL_FLUSHER_AHEAD) {
        flusher->next_ahead->flush.writing++;
        partitions[count++] = flusher->next_ahead;
        flusher->next_ahead = flusher->next_ahead->flush.next;
        flusher->ahead++;
    }
    return count;
}

/* Under lock, which it releases meanwhile. */
static void begin_writes(ol_flusher *flusher) {
    ol_partition *partitions[OL_FLUSHER_AHEAD];
    size_t count = take_ahead(flusher, partitions);
    if (count == 0) return;
    pthread_mutex_unlock(&flusher->lock);
    for (size_t i = 0; i < count; i++) ol_log_begin_flush(partitions[i]->log);
    pthread_mutex_lock(&flusher->lock);
    for (size_t i = 0; i < count; i++) partitions[i]->flush.writing--;
    pthread_cond_broadcast(&flusher->left);
}

static void flush(ol_partition *partition, int64_t end, bool unasked) {
    ol_error ignored;
    int64_t flushed;
    int status = OL_OK;
    if (unasked) status = ol_log_flush_unasked(partition->log, &flushed, &ignored);
    if (status == OL_OK) {
        status = ol_partition_wait(partition, end, OL_TERM_NOW, OL_WAIT_FLUSHED, -1, &ignored);
    }
    (void)status;
}

static void *run(void *argument) {
    ol_flusher *flusher = argument;
    pthread_mutex_lock(&flusher->lock);
    while (!flusher->stopping) {
        if (flusher->first == NULL) {
            flusher->idle++;
            pthread_cond_wait(&flusher->filled, &flusher->lock);
            flusher->idle--;
            continue;
        }
        ol_partition *partition = take_first(flusher);
        begin_writes(flusher);
        int64_t end;
        do {
            end = partition->flush.end;
            bool unasked = partition->flush.unasked;
            partition->flush.unasked = false;
            pthread_mutex_unlock(&flusher->lock);
            /* The partition reports a failure to every thread that waits for it. */
            flush(partition, end, unasked);
            pthread_mutex_lock(&flusher->lock);
        } while (partition->flush.end > end && !flusher->stopping);
        partition->flush.begun = false;
        pthread_cond_broadcast(&flusher->left);
    }
    pthread_mutex_unlock(&flusher->lock);
    return NULL;
}

int ol_flusher_create(ol_flusher **created, ol_error *error) {
    ol_flusher *flusher = calloc(1, sizeof *flusher);
    if (flusher == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for the threads that flush");
    }
    pthread_mutex_init(&flusher->lock, NULL);
    pthread_cond_init(&flusher->filled, NULL);
    pthread_cond_init(&flusher->left, NULL);
    *created = flusher;
    return OL_OK;
}

/* Under lock.  If no thread can be started, the first caller that waits does the flush. */
static void start_thread(ol_flusher *flusher) {
    /* Signals belong to the program, so only its own threads receive them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&flusher->threads[flusher->thread_count], NULL, run, flusher) == 0) {
        flusher->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Under lock. */
static void queue(ol_flusher *flusher, ol_partition *partition) {
    if (partition->flush.begun) return;
    partition->flush.begun = true;
    if (flusher->next_ahead == NULL) flusher->next_ahead = partition;
    if (flusher->last != NULL) flusher->last->flush.next = partition;
    else flusher->first = partition;
    flusher->last = partition;
    flusher->queued++;
    if (flusher->queued > flusher->idle && flusher->thread_count < OL_FLUSHER_THREADS) {
        start_thread(flusher);
    }
}

/* Under lock, which it releases, because a thread that wakes needs the lock at once. */
static void wake_and_unlock(ol_flusher *flusher) {
    size_t woken = flusher->queued < flusher->idle ? flusher->queued : flusher->idle;
    pthread_mutex_unlock(&flusher->lock);
    for (size_t i = 0; i < woken; i++) pthread_cond_signal(&flusher->filled);
}

void ol_flusher_begin(ol_flusher *flusher, ol_partition *const *partitions, size_t count) {
    pthread_mutex_lock(&flusher->lock);
    for (size_t i = 0; i < count; i++) {
        int64_t end = ol_log_end(partitions[i]->log);
        if (ol_log_flushed(partitions[i]->log) >= end) continue;
        partitions[i]->flush.end = end;
        queue(flusher, partitions[i]);
    }
    wake_and_unlock(flusher);
}

void ol_flusher_begin_unasked(ol_flusher *flusher, ol_partition *partition) {
    int64_t end = ol_log_end(partition->log);
    pthread_mutex_lock(&flusher->lock);
    partition->flush.unasked = true;
    if (end > partition->flush.end) partition->flush.end = end;
    queue(flusher, partition);
    wake_and_unlock(flusher);
}

/* Under lock: takes a partition out of the queue, if it is there. */
static void take_out(ol_flusher *flusher, ol_partition *partition) {
    ol_partition *before = NULL, *found = flusher->first;
    size_t place = 0;
    for (; found != NULL && found != partition; place++) {
        before = found;
        found = found->flush.next;
    }
    if (found == NULL) return;
    ol_partition *next = partition->flush.next;
    if (before == NULL) flusher->first = next;
    else before->flush.next = next;
    if (flusher->last == partition) flusher->last = before;
    if (flusher->next_ahead == partition) flusher->next_ahead = next;
    if (place < flusher->ahead) flusher->ahead--;
    flusher->queued--;
    partition->flush.next = NULL;
    partition->flush.begun = false;
}

void ol_flusher_remove(ol_flusher *flusher, ol_partition *partition) {
    pthread_mutex_lock(&flusher->lock);
    take_out(flusher, partition);
    while (partition->flush.begun || partition->flush.writing > 0) {
        pthread_cond_wait(&flusher->left, &flusher->lock);
    }
    pthread_mutex_unlock(&flusher->lock);
}

void ol_flusher_stop(ol_flusher *flusher) {
    pthread_mutex_lock(&flusher->lock);
    flusher->stopping = true;
    while (flusher->first != NULL) take_first(flusher)->flush.begun = false;
    pthread_cond_broadcast(&flusher->filled);
    pthread_mutex_unlock(&flusher->lock);
    for (size_t i = 0; i < flusher->thread_count; i++) pthread_join(flusher->threads[i], NULL);
    pthread_mutex_destroy(&flusher->lock);
    pthread_cond_destroy(&flusher->filled);
    pthread_cond_destroy(&flusher->left);
    free(flusher);
}

void ol_flusher_abandon(ol_flusher *flusher) { (void)flusher; }
