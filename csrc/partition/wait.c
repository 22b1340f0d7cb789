/* Waits for a flush or for the high watermark W.  One flush serves all threads that wait. */
#include <errno.h>
#include <time.h>

#include "partition/partition_impl.h"

void ol_partition_wake(ol_partition *partition, bool deposed) {
    pthread_mutex_lock(&partition->wait.lock);
    if (deposed) partition->term++;
    pthread_cond_broadcast(&partition->wait.changed);
    pthread_mutex_unlock(&partition->wait.lock);
}

static struct timespec deadline_after(int64_t timeout_ms) {
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += (time_t)(timeout_ms / 1000);
    deadline.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    return deadline;
}

static bool is_reached(const ol_partition *partition, int64_t end_offset, ol_wait_for what) {
    if (what == OL_WAIT_FLUSHED) return ol_log_flushed(partition->log) >= end_offset;
    return atomic_load_explicit(&partition->watermark, memory_order_acquire) >= end_offset;
}

/* Returns OL_OK when `end_offset` is reached, OL_WOULD_BLOCK when it is not reached yet, or else
 * the reason why it never will be.  Positions are read before the term: a truncation ends the term
 * before other records can be below `end_offset`. */
static int check_reached(const ol_partition *partition, int64_t end_offset, uint64_t term,
                         ol_wait_for what, ol_error *error) {
    bool reached = is_reached(partition, end_offset, what);
    if (partition->term != term) {
        return ol_partition_refuse(partition, OL_NOT_COORDINATOR, error,
                                   "leadership changed before the write was known to be durable");
    }
    if (reached) return OL_OK;
    if (partition->role == OL_ROLE_FAILED || ol_log_has_failed(partition->log)) {
        return ol_partition_refuse(partition, OL_FAILED, error,
                                   "the partition failed before the write was known to be "
                                   "durable; the partition must be opened again");
    }
    if (ol_log_end(partition->log) < end_offset) {
        return ol_partition_refuse(partition, OL_NOT_COORDINATOR, error,
                                   "the log ends below the log offset for which the call waits");
    }
    if (what == OL_WAIT_WATERMARK && partition->role == OL_ROLE_FOLLOWER) {
        return ol_partition_refuse(partition, OL_NOT_COORDINATOR, error,
                                   "this process does not lead the partition");
    }
    return OL_WOULD_BLOCK;
}

int ol_partition_try_wait(const ol_partition *partition, int64_t end_offset, uint64_t term,
                          ol_wait_for what, ol_error *error) {
    return check_reached(partition, end_offset, term, what, error);
}

bool ol_partition_is_flushed(const ol_partition *partition, int64_t end_offset, uint64_t term) {
    return is_reached(partition, end_offset, OL_WAIT_FLUSHED) && partition->term == term;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A flush begun ahead covers half of the waiting commits.  If a flush takes longer than committing
 * all of them, a single flush for all is faster.  Committing half of them took the time that has
 * passed since the last flush. */
bool ol_partition_is_behind(const ol_partition *partition, int64_t end_offset) {
    int64_t flushed = ol_log_flushed(partition->log);
    int64_t unflushed = ol_log_end(partition->log) - flushed;
    if (unflushed <= 0 || unflushed < flushed - end_offset || partition->wait.flushing ||
        partition->flush.begun) {
        return false;
    }
    return 2 * (now_ns() - partition->wait.last_flush_end_ns) > partition->wait.last_flush_ns;
}

/* One of the waiting threads flushes for all of them; it releases wait.lock meanwhile, so that the
 * next commits can join the wait. */
static int flush_for_all(ol_partition *partition, ol_error *error) {
    int64_t flushed;
    partition->wait.flushing = true;
    pthread_mutex_unlock(&partition->wait.lock);
    int64_t started_ns = now_ns();
    int status = ol_log_flush(partition->log, &flushed, error);
    partition->wait.last_flush_end_ns = now_ns();
    partition->wait.last_flush_ns = partition->wait.last_flush_end_ns - started_ns;
    /* Only the log decides whether it has failed; a read-only log that cannot be flushed can still
     * be read. */
    if (ol_log_has_failed(partition->log)) partition->role = OL_ROLE_FAILED;
    pthread_mutex_lock(&partition->wait.lock);
    partition->wait.flushing = false;
    pthread_cond_broadcast(&partition->wait.changed);
    return status;
}

int ol_partition_wait(ol_partition *partition, int64_t end_offset, uint64_t term, ol_wait_for what,
                      int64_t timeout_ms, ol_error *error) {
    if (term == OL_TERM_NOW) term = partition->term;
    int status = check_reached(partition, end_offset, term, what, error);
    if (status != OL_WOULD_BLOCK) return status;
    struct timespec deadline = {0, 0};
    if (timeout_ms >= 0) deadline = deadline_after(timeout_ms);
    pthread_mutex_lock(&partition->wait.lock);
    while ((status = check_reached(partition, end_offset, term, what, error)) == OL_WOULD_BLOCK) {
        if (what == OL_WAIT_FLUSHED && !partition->wait.flushing) {
            status = flush_for_all(partition, error);
            /* The next check reports a failed log.  Any other failure concerns only this caller;
             * the others try by themselves. */
            if (status != OL_OK && !ol_log_has_failed(partition->log)) break;
        } else if (timeout_ms < 0) {
            pthread_cond_wait(&partition->wait.changed, &partition->wait.lock);
        } else if (pthread_cond_timedwait(&partition->wait.changed, &partition->wait.lock,
                                          &deadline) == ETIMEDOUT) {
            status = check_reached(partition, end_offset, term, what, error);
            if (status != OL_WOULD_BLOCK) break;
            status =
                ol_partition_refuse(partition, OL_TIMED_OUT, error,
                                    "the records were not durable within %lld ms; they may still "
                                    "become durable",
                                    (long long)timeout_ms);
            break;
        }
    }
    pthread_mutex_unlock(&partition->wait.lock);
    return status;
}
