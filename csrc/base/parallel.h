/* base/parallel: one job cut into pieces, done by a few threads that live as long as it takes.
 *
 * It is for work on memory at rest, such as the validation of a snapshot.  Locks: none; the pieces
 * share only `context`.
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
