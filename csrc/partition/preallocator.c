#include "partition/preallocator.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

struct ol_preallocator {
    pthread_t thread;
    pthread_mutex_t list_lock;
    ol_partition **partitions;      /* under list_lock */
    size_t count;
    size_t capacity;
    ol_partition *current;          /* under list_lock: its log is prepared this moment, without the lock */
    ol_flusher *flusher;            /* may be NULL */
    pthread_cond_t left;            /* with list_lock: `current` is another one */
    pthread_mutex_t wake_lock;      /* innermost; held for moments only, so that a kick never waits for a file */
    pthread_cond_t wake;
    bool kicked;                    /* under wake_lock */
    bool stopping;                  /* under wake_lock */
};

static bool prepare_all(ol_preallocator *preparer) {
    bool worked = false;
    pthread_mutex_lock(&preparer->list_lock);
    /* From the end, since the list changes meanwhile: the last one takes the place of one that is removed, and has had its turn. */
    for (size_t i = preparer->count; i-- > 0;) {
        if (i >= preparer->count) continue;
        ol_partition *partition = preparer->partitions[i];
        preparer->current = partition;
        /* A log may wait for the disk, and whoever adds another partition must not. */
        pthread_mutex_unlock(&preparer->list_lock);
        ol_log *log = ol_partition_log(partition);
        worked |= ol_log_prepare(log);
        if (preparer->flusher != NULL && ol_log_wants_flush(log)) ol_flusher_begin_unasked(preparer->flusher, partition);
        pthread_mutex_lock(&preparer->list_lock);
        preparer->current = NULL;
        pthread_cond_broadcast(&preparer->left);
    }
    pthread_mutex_unlock(&preparer->list_lock);
    return worked;
}

static struct timespec next_poll(void) {
    struct timespec when;
    clock_gettime(CLOCK_MONOTONIC, &when);
    when.tv_nsec += OL_PREALLOCATOR_POLL_MS * 1000000L;
    if (when.tv_nsec >= 1000000000L) {
        when.tv_sec++;
        when.tv_nsec -= 1000000000L;
    }
    return when;
}

/* Waits for the next look, which follows at once where the last one found work.  Returns false when the thread shall end. */
static bool wait_for_work(ol_preallocator *preparer, bool worked, bool asleep, bool *kicked) {
    struct timespec when = next_poll();
    pthread_mutex_lock(&preparer->wake_lock);
    int status = 0;
    while (!worked && !preparer->kicked && !preparer->stopping && status != ETIMEDOUT) {
        if (asleep) {
            pthread_cond_wait(&preparer->wake, &preparer->wake_lock);
        } else {
            status = pthread_cond_timedwait(&preparer->wake, &preparer->wake_lock, &when);
        }
    }
    *kicked = preparer->kicked;
    preparer->kicked = false;
    bool goes_on = !preparer->stopping;
    pthread_mutex_unlock(&preparer->wake_lock);
    return goes_on;
}

static void *run(void *argument) {
    ol_preallocator *preparer = argument;
    int idle = 0;
    bool worked, kicked = false;
    do {
        worked = prepare_all(preparer);
        idle = worked || kicked ? 0 : idle + 1;
    } while (wait_for_work(preparer, worked, idle >= OL_PREALLOCATOR_IDLE_POLLS, &kicked));
    return NULL;
}

static void free_preparer(ol_preallocator *preparer) {
    pthread_mutex_destroy(&preparer->list_lock);
    pthread_mutex_destroy(&preparer->wake_lock);
    pthread_cond_destroy(&preparer->left);
    pthread_cond_destroy(&preparer->wake);
    free(preparer->partitions);
    free(preparer);
}

int ol_preallocator_start(ol_preallocator **started, ol_flusher *flusher, ol_error *error) {
    ol_preallocator *preparer = calloc(1, sizeof *preparer);
    if (preparer == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for the background thread");
    preparer->flusher = flusher;
    pthread_mutex_init(&preparer->list_lock, NULL);
    pthread_mutex_init(&preparer->wake_lock, NULL);
    pthread_cond_init(&preparer->left, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&preparer->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    /* Signals are the program's: its own threads take them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&preparer->thread, NULL, run, preparer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0) {
        free_preparer(preparer);
        return ol_fail_errno(error, failure, "pthread_create", NULL);
    }
    *started = preparer;
    return OL_OK;
}

int ol_preallocator_add(ol_preallocator *preparer, ol_partition *partition, ol_error *error) {
    int status = OL_OK;
    pthread_mutex_lock(&preparer->list_lock);
    if (preparer->count == preparer->capacity) {
        size_t capacity = preparer->capacity * 2 + 8;
        ol_partition **partitions = realloc(preparer->partitions, capacity * sizeof *partitions);
        if (partitions == NULL) {
            status = ol_fail(error, OL_NO_MEMORY, "no memory for the background thread");
        } else {
            preparer->partitions = partitions;
            preparer->capacity = capacity;
        }
    }
    if (status == OL_OK) preparer->partitions[preparer->count++] = partition;
    pthread_mutex_unlock(&preparer->list_lock);
    if (status == OL_OK) ol_preallocator_kick(preparer);
    return status;
}

void ol_preallocator_remove(ol_preallocator *preparer, ol_partition *partition) {
    pthread_mutex_lock(&preparer->list_lock);
    for (size_t i = 0; i < preparer->count; i++) {
        if (preparer->partitions[i] != partition) continue;
        preparer->partitions[i] = preparer->partitions[--preparer->count];
        break;
    }
    while (preparer->current == partition) pthread_cond_wait(&preparer->left, &preparer->list_lock);
    pthread_mutex_unlock(&preparer->list_lock);
}

void ol_preallocator_kick(ol_preallocator *preparer) {
    pthread_mutex_lock(&preparer->wake_lock);
    preparer->kicked = true;
    pthread_cond_signal(&preparer->wake);
    pthread_mutex_unlock(&preparer->wake_lock);
}

void ol_preallocator_stop(ol_preallocator *preparer) {
    pthread_mutex_lock(&preparer->wake_lock);
    preparer->stopping = true;
    pthread_cond_signal(&preparer->wake);
    pthread_mutex_unlock(&preparer->wake_lock);
    pthread_join(preparer->thread, NULL);
    free_preparer(preparer);
}

void ol_preallocator_abandon(ol_preallocator *preparer) { (void)preparer; }
