/* Prepares the active segments of all logs in one background thread. */
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
    ol_partition *current;          /* under list_lock: prepares its log now, without the lock */
    ol_flusher *flusher;            /* may be NULL */
    pthread_cond_t left;            /* with list_lock: `current` is another one */
    pthread_mutex_t wake_lock;      /* held for moments only: a kick never waits for a file */
    pthread_cond_t wake;
    bool kicked;                    /* under wake_lock */
    bool stopping;                  /* under wake_lock */
};

static bool prepare_all(ol_preallocator *preallocator) {
    bool worked = false;
    pthread_mutex_lock(&preallocator->list_lock);
    /* From the end, since the list changes meanwhile: a partition that is removed is replaced by
     * the last one, which has had its turn. */
    for (size_t i = preallocator->count; i-- > 0;) {
        if (i >= preallocator->count) continue;
        ol_partition *partition = preallocator->partitions[i];
        preallocator->current = partition;
        /* A log may wait for the disk; a thread that adds another partition must not. */
        pthread_mutex_unlock(&preallocator->list_lock);
        ol_log *log = ol_partition_log(partition);
        worked |= ol_log_prepare(log);
        if (preallocator->flusher != NULL && ol_log_wants_flush(log)) {
            ol_flusher_begin_unasked(preallocator->flusher, partition);
        }
        pthread_mutex_lock(&preallocator->list_lock);
        preallocator->current = NULL;
        pthread_cond_broadcast(&preallocator->left);
    }
    pthread_mutex_unlock(&preallocator->list_lock);
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

/* Waits for the next poll, which follows at once after one that found work.  Returns false when the
 * thread must stop. */
static bool wait_for_work(ol_preallocator *preallocator, bool worked, bool asleep, bool *kicked) {
    struct timespec when = next_poll();
    pthread_mutex_lock(&preallocator->wake_lock);
    int status = 0;
    while (!worked && !preallocator->kicked && !preallocator->stopping && status != ETIMEDOUT) {
        if (asleep) {
            pthread_cond_wait(&preallocator->wake, &preallocator->wake_lock);
        } else {
            status = pthread_cond_timedwait(&preallocator->wake, &preallocator->wake_lock, &when);
        }
    }
    *kicked = preallocator->kicked;
    preallocator->kicked = false;
    bool goes_on = !preallocator->stopping;
    pthread_mutex_unlock(&preallocator->wake_lock);
    return goes_on;
}

static void *run(void *argument) {
    ol_preallocator *preallocator = argument;
    int idle = 0;
    bool worked, kicked = false;
    do {
        worked = prepare_all(preallocator);
        idle = worked || kicked ? 0 : idle + 1;
    } while (wait_for_work(preallocator, worked, idle >= OL_PREALLOCATOR_IDLE_POLLS, &kicked));
    return NULL;
}

static void free_preallocator(ol_preallocator *preallocator) {
    pthread_mutex_destroy(&preallocator->list_lock);
    pthread_mutex_destroy(&preallocator->wake_lock);
    pthread_cond_destroy(&preallocator->left);
    pthread_cond_destroy(&preallocator->wake);
    free(preallocator->partitions);
    free(preallocator);
}

int ol_preallocator_start(ol_preallocator **started, ol_flusher *flusher, ol_error *error) {
    ol_preallocator *preallocator = calloc(1, sizeof *preallocator);
    if (preallocator == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for the background thread");
    }
    preallocator->flusher = flusher;
    pthread_mutex_init(&preallocator->list_lock, NULL);
    pthread_mutex_init(&preallocator->wake_lock, NULL);
    pthread_cond_init(&preallocator->left, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&preallocator->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    /* Signals belong to the program: its own threads take them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&preallocator->thread, NULL, run, preallocator);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0) {
        free_preallocator(preallocator);
        return ol_fail_errno(error, failure, "pthread_create", NULL);
    }
    *started = preallocator;
    return OL_OK;
}

int ol_preallocator_add(ol_preallocator *preallocator, ol_partition *partition, ol_error *error) {
    int status = OL_OK;
    pthread_mutex_lock(&preallocator->list_lock);
    if (preallocator->count == preallocator->capacity) {
        size_t capacity = preallocator->capacity * 2 + 8;
        ol_partition **partitions =
            realloc(preallocator->partitions, capacity * sizeof *partitions);
        if (partitions == NULL) {
            status = ol_fail(error, OL_NO_MEMORY, "no memory for the background thread");
        } else {
            preallocator->partitions = partitions;
            preallocator->capacity = capacity;
        }
    }
    if (status == OL_OK) preallocator->partitions[preallocator->count++] = partition;
    pthread_mutex_unlock(&preallocator->list_lock);
    if (status == OL_OK) ol_preallocator_kick(preallocator);
    return status;
}

void ol_preallocator_remove(ol_preallocator *preallocator, ol_partition *partition) {
    pthread_mutex_lock(&preallocator->list_lock);
    for (size_t i = 0; i < preallocator->count; i++) {
        if (preallocator->partitions[i] != partition) continue;
        preallocator->partitions[i] = preallocator->partitions[--preallocator->count];
        break;
    }
    while (preallocator->current == partition) {
        pthread_cond_wait(&preallocator->left, &preallocator->list_lock);
    }
    pthread_mutex_unlock(&preallocator->list_lock);
}

void ol_preallocator_kick(ol_preallocator *preallocator) {
    pthread_mutex_lock(&preallocator->wake_lock);
    preallocator->kicked = true;
    pthread_cond_signal(&preallocator->wake);
    pthread_mutex_unlock(&preallocator->wake_lock);
}

void ol_preallocator_stop(ol_preallocator *preallocator) {
    pthread_mutex_lock(&preallocator->wake_lock);
    preallocator->stopping = true;
    pthread_cond_signal(&preallocator->wake);
    pthread_mutex_unlock(&preallocator->wake_lock);
    pthread_join(preallocator->thread, NULL);
    free_preallocator(preallocator);
}

void ol_preallocator_abandon(ol_preallocator *preallocator) { (void)preallocator; }
