/* partition/batch_clock: the time that our batches carry, taken from a wall clock that may be
 * wrong.
 *
 * If a batch has a time far in the future, no moment after it can be found by time
 * (docs/history.md).  And if later batches had to be at least as late, one wrong reading would last
 * for ever.  So the wall clock is compared with a steady one, which cannot be set.  A reading that
 * jumped is believed only after the wall clock has stayed there for OL_CLOCK_DOUBT_MS.  Until then
 * the steady clock advances the time.
 *
 * If the wall clock is set back by OL_CLOCK_JUMP_MS or less, the times of batches do not go back.
 * If the newest batch is further ahead of the clock than that, the clock was wrong when that batch
 * was written, and the next batches return to the present time.
 *
 * A position's own time decides when it expires; a time that is too early would lose the position.
 * So positions carry the later of the wall clock's time and their batch's, believed or not.
 *
 * No lock: the partition's writer lock covers it.
 */
#ifndef OL_PARTITION_BATCH_CLOCK_H
#define OL_PARTITION_BATCH_CLOCK_H

#include "base/base.h"

/* A clock that is set by less has not jumped. */
#define OL_CLOCK_JUMP_MS ((int64_t)60000)
/* How long a jump must last to be believed. */
#define OL_CLOCK_DOUBT_MS ((int64_t)60000)
/* While the wall clock advances normally, the steady clock is read at most once in this time. */
#define OL_CLOCK_COMPARE_MS ((int64_t)1000)

typedef struct ol_batch_clock {
    int64_t (*wall_ms)(void *context);      /* since 1970; NULL: the system's */
    int64_t (*steady_ms)(void *context);    /* NULL: the system's clock; if only wall_ms is given,
                                               all of its readings are believed */
    void *context;
    int64_t compared;           /* the reading that was last compared and believed; INT64_MAX: the
                                   next one is compared */
    int64_t lead;               /* how far the wall clock is ahead of the steady one, as believed */
    int64_t doubted_lead;       /* how far the wall clock is ahead after the jump that is doubted */
    int64_t doubted_since;      /* steady time at which the jump was first seen; -1: nothing is
                                   doubted */
    bool is_set;                /* the clock was read at least once */
    int64_t last;               /* of the newest batch */
    int64_t newest;             /* the greatest time of any batch loaded or written */
} ol_batch_clock;

typedef struct ol_batch_time {
    int64_t batch;
    int64_t position;
} ol_batch_time;

/* Sets up the clock of an empty log. */
void ol_batch_clock_init(ol_batch_clock *clock, int64_t (*wall_ms)(void *context),
                         int64_t (*steady_ms)(void *context), void *context);

/* Returns the present time, as far as the wall clock is believed. */
int64_t ol_batch_clock_now(ol_batch_clock *clock);

/* Returns the time for a batch that is written now. */
ol_batch_time ol_batch_clock_next(ol_batch_clock *clock);

/* Records that a batch was written or loaded. */
static inline void ol_batch_clock_record(ol_batch_clock *clock, int64_t timestamp) {
    clock->last = timestamp;
    if (timestamp > clock->newest) clock->newest = timestamp;
}

#endif
