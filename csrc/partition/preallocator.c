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
    int64_t flush_interval_ms;      /* 0: nothing is flushed by time */
    int64_t flush_due_ms;           /* by the thread's clock; the thread's alone */
    pthread_cond_t left;            /* with list_lock: `current` is another one */
    pthread_mutex_t wake_lock;      /* held only briefly: a kick never waits for a file */
    pthread_cond_t wake;
    bool kicked;                    /* under wake_lock */
    bool stopping;                  /* under wake_lock */
};

static int64_t monotonic_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns whether it is time to flush what is not flushed. */
static bool is_flush_due(ol_preallocator *preallocator) {
    if (preallocator->flush_interval_ms == 0) return false;
    int64_t now = monotonic_ms();
    if (now < preallocator->flush_due_ms) return false;
    preallocator->flush_due_ms = now + preallocator->flush_interval_ms;
    return true;
}

static void flush_unasked(ol_preallocator *preallocator, ol_partition *partition, bool is_due) {
    ol_log *log = ol_partition_log(partition);
    if (preallocator->flusher == NULL) return;
    bool has_unflushed = is_due && ol_log_flushed(log) < ol_log_end(log) && !ol_log_has_failed(log);
    if (has_unflushed || ol_log_wants_flush(log)) {
        ol_flusher_begin_unasked(preallocator->flusher, partition);
    }
}

static bool prepare_all(ol_preallocator *preallocator) {
    bool worked = false;
    bool is_due = is_flush_due(preallocator);
    pthread_mutex_lock(&preallocator->list_lock);
    /* Visits the list from its end, because it changes meanwhile: a removed partition is replaced
     * by the last one, which has had its turn. */
    for (size_t i = preallocator->count; i-- > 0;) {
        if (i >= preallocator->count) continue;
        ol_partition *partition = preallocator->partitions[i];
        preallocator->current = partition;
        /* A log may wait for the disk; a thread that adds another partition must not. */
        pthread_mutex_unlock(&preallocator->list_lock);
        flush_unasked(preallocator, partition, is_due);
        worked |= ol_log_prepare(ol_partition_log(partition));
        pthread_mutex_lock(&preallocator->list_lock);
        preallocator->current = NULL;
        pthread_cond_broadcast(&preallocator->left);
    }
    pthread_mutex_unlock(&preallocator->list_lock);
    return worked;
}

/* Returns when the thread wakes up by itself.  If `asleep`, it wakes up only for a flush. */
static struct timespec next_poll(const ol_preallocator *preallocator, bool asleep) {
    int64_t at_ms = asleep ? preallocator->flush_due_ms : monotonic_ms() + OL_PREALLOCATOR_POLL_MS;
    return (struct timespec){.tv_sec = (time_t)(at_ms / 1000),
                             .tv_nsec = (long)(at_ms % 1000) * 1000000L};
}

/* Waits for the next poll; after a poll that found work, the next follows at once.  Returns false
 * when the thread must stop. */
static bool wait_for_work(ol_preallocator *preallocator, bool worked, bool asleep, bool *kicked) {
    struct timespec when = next_poll(preallocator, asleep);
    bool for_ever = asleep && preallocator->flush_interval_ms == 0;
    pthread_mutex_lock(&preallocator->wake_lock);
    int status = 0;
    while (!worked && !preallocator->kicked && !preallocator->stopping && status != ETIMEDOUT) {
        if (for_ever) {
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

int ol_preallocator_start(ol_preallocator **started, ol_flusher *flusher, int64_t flush_interval_ms,
                          ol_error *error) {
    ol_preallocator *preallocator = calloc(1, sizeof *preallocator);
    if (preallocator == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for the background thread");
    }
    preallocator->flusher = flusher;
    preallocator->flush_interval_ms = flush_interval_ms;
    preallocator->flush_due_ms = monotonic_ms() + flush_interval_ms;
    pthread_mutex_init(&preallocator->list_lock, NULL);
    pthread_mutex_init(&preallocator->wake_lock, NULL);
    pthread_cond_init(&preallocator->left, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&preallocator->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    /* Signals belong to the program, so only its own threads receive them. */
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
