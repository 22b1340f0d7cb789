/* One job in pieces: each piece runs once, and no two pieces of one worker at a time. */
#include <stdatomic.h>

#include "base/parallel.h"
#include "ol_test.h"

enum { PIECES_MAX = 1000 };

typedef struct job {
    unsigned workers;
    atomic_int runs[PIECES_MAX];
    atomic_int inside[OL_PARALLEL_WORKERS_MAX];
    atomic_int overlaps;
} job;

static void count_piece(void *context, unsigned worker, size_t index) {
    job *counted = context;
    if (worker >= counted->workers || atomic_fetch_add(&counted->inside[worker], 1) != 0) {
        atomic_fetch_add(&counted->overlaps, 1);
        return;
    }
    atomic_fetch_add(&counted->runs[index], 1);
    atomic_fetch_sub(&counted->inside[worker], 1);
}

OL_TEST(each_piece_runs_once_whatever_the_number_of_workers) {
    static const size_t counts[] = {0, 1, 2, 17, PIECES_MAX};
    for (unsigned workers = 1; workers <= OL_PARALLEL_WORKERS_MAX; workers += 3) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            static job counted;
            counted = (job){.workers = workers};
            ol_parallel_run(workers, counts[i], count_piece, &counted);
            OL_CHECK_INT(atomic_load(&counted.overlaps), 0);
            for (size_t index = 0; index < PIECES_MAX; index++) {
                OL_CHECK_INT(atomic_load(&counted.runs[index]), index < counts[i]);
            }
        }
    }
}

OL_TEST_MAIN()
