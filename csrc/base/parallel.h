/* base/parallel: one job cut into pieces, done by a few threads that live for as long as it takes.
 *
 * For work on memory that is at rest: checking a snapshot, say.  No locks; the pieces share nothing but what `context` lets them.
 */
#ifndef OL_BASE_PARALLEL_H
#define OL_BASE_PARALLEL_H

#include "base/base.h"

enum { OL_PARALLEL_WORKERS_MAX = 16 };

/* Calls `piece` once for each index below `count`; `worker` is below `workers`, and pieces of one worker do not overlap in time.  The calling
 * thread is worker 0.  Where a thread cannot be started, those that could do its work. */
void ol_parallel_run(unsigned workers, size_t count, void (*piece)(void *context, unsigned worker, size_t index), void *context);

#endif
