/* base/parallel: runs one job in pieces on a few threads, which end with the job.
 *
 * The job works on memory that does not change meanwhile, such as a snapshot that is validated.
 * Locks: none; the pieces share only `context`.
 */
#ifndef OL_BASE_PARALLEL_H
#define OL_BASE_PARALLEL_H

#include "base/base.h"

enum { OL_PARALLEL_WORKERS_MAX = 16 };

/* Calls `piece` once for each index below `count`; `worker` is below `workers`, and pieces of one
 * worker do not overlap in time.  The calling thread is worker 0.  If a thread cannot be started,
 * the others do its work. */
void ol_parallel_run(unsigned workers, size_t count,
                     void (*piece)(void *context, unsigned worker, size_t index), void *context);

#endif
