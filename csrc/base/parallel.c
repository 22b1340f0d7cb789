/* base/parallel.c: threads that take the next piece from a shared counter. */
#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct job {
    void (*piece)(void *context, unsigned worker, size_t index);
    void *context;
    size_t count;
    _Atomic size_t next;
} job;

typedef struct worker_start {
    job *job;
    unsigned worker;
    pthread_t thread;
} worker_start;

static void work(job *shared, unsigned worker) {
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&shared->next, 1, memory_order_relaxed);
        if (index >= shared->count) return;
        shared->piece(shared->context, worker, index);
    }
}

static void *run_worker(void *context) {
    const worker_start *start = context;
    work(start->job, start->worker);
    return NULL;
}

void ol_parallel_run(unsigned workers, size_t count,
                     void (*piece)(void *context, unsigned worker, size_t index), void *context) {
    job shared = {.piece = piece, .context = context, .count = count};
    worker_start starts[OL_PARALLEL_WORKERS_MAX];
    OL_ASSERT(workers >= 1 && workers <= OL_PARALLEL_WORKERS_MAX);
    unsigned started = 1;
    while (started < workers && started < count) {
        starts[started] = (worker_start){.job = &shared, .worker = started};
        if (pthread_create(&starts[started].thread, NULL, run_worker, &starts[started]) != 0) break;
        started++;
    }
    work(&shared, 0);
    for (unsigned i = 1; i < started; i++) pthread_join(starts[i].thread, NULL);
}
