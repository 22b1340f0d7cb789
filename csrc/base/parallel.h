/* base/parallel: runs the pieces of one job on a few threads.  The threads end when the job ends.
 *
 * The job works on memory that nobody changes while it runs, such as a snapshot that is being
 * validated.  The functions take no locks, and the pieces share only `context`.
 */
#ifndef OL_BASE_PARALLEL_H
#define OL_BASE_PARALLEL_H

#include "base/base.h"

enum { OL_PARALLEL_WORKERS_MAX = 16 };

/* Calls `piece` once for each index from 0 to count - 1, on up to `workers` threads.  The argument
 * `worker` of a call is the number of the thread that makes it, from 0 to workers - 1.  A thread
 * runs one piece at a time.  The thread that calls ol_parallel_run is worker 0.  If a thread cannot
 * be started, the other threads do its work. */
void ol_parallel_run(unsigned workers, size_t count,
                     void (*piece)(void *context, unsigned worker, size_t index), void *context);

#endif
