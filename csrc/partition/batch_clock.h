/* partition/batch_clock: the time that the store writes into its batches.  It is taken from a wall
 * clock that may be wrong.
 *
 * Jumps.  A batch with a time far in the future does harm: the log cannot be searched by time for a
 * moment after this batch (docs/history.md).  If batch times never went back, all later batches
 * would be just as wrong.  Therefore the wall clock is compared with a steady clock, which cannot
 * be set.  If the wall clock jumps, its readings are used only after it has stayed at the new time
 * for OL_CLOCK_DOUBT_MS.  Until then, the time of batches advances with the steady clock.
 *
 * Small corrections.  If the wall clock is set back by OL_CLOCK_JUMP_MS or less, the times of
 * batches do not go back.  If the newest batch is ahead of the clock by more than that, the clock
 * was wrong when that batch was written, and the next batches get the present time.
 *
 * Positions.  A committed position has a time of its own, which decides when it expires.  If this
 * time were too early, the position would be deleted too soon.  A position therefore gets the wall
 * clock's time or the time of its batch, whichever is later, even if the wall clock has jumped.
 *
 * There is no lock of its own; the writer lock of the partition protects the clock. */
#ifndef OL_PARTITION_BATCH_CLOCK_H
#define OL_PARTITION_BATCH_CLOCK_H

#include "base/base.h"

/* A change of the wall clock by this much or less is not a jump. */
#define OL_CLOCK_JUMP_MS ((int64_t)60000)
/* How long the wall clock must stay at the new time after a jump before its readings are used. */
#define OL_CLOCK_DOUBT_MS ((int64_t)60000)
/* While the wall clock advances normally, the steady clock is read at most once in this time. */
#define OL_CLOCK_COMPARE_MS ((int64_t)1000)

typedef struct ol_batch_clock {
    int64_t (*wall_ms)(void *context);      /* since 1970; NULL: the system's */
    /* NULL: the clock of the system.  If wall_ms is given and steady_ms is not, all readings of
     * wall_ms are used. */
    int64_t (*steady_ms)(void *context);
    void *context;
    /* The last reading of the wall clock that was compared with the steady clock and used.
     * INT64_MAX means that the next reading must be compared. */
    int64_t compared;
    int64_t lead;               /* how far the wall clock was ahead of the steady clock at the last
                                   reading that was used */
    int64_t doubted_lead;       /* how far the wall clock was ahead of the steady clock just after
                                   the jump that is in doubt */
    int64_t doubted_since;      /* the steady time when the jump in doubt was first seen; -1: there
                                   is no such jump */
    bool is_set;                /* the wall clock was read and used at least once */
    int64_t last;               /* of the newest batch */
    int64_t newest;             /* the greatest time of all batches that were loaded or written */
} ol_batch_clock;

typedef struct ol_batch_time {
    int64_t batch;
    int64_t position;
} ol_batch_time;

/* Sets up the clock of an empty log. */
void ol_batch_clock_init(ol_batch_clock *clock, int64_t (*wall_ms)(void *context),
                         int64_t (*steady_ms)(void *context), void *context);

/* Returns the present time, which comes from the wall clock unless its last jump is in doubt. */
int64_t ol_batch_clock_now(ol_batch_clock *clock);

/* Returns the time for a batch that is written now. */
ol_batch_time ol_batch_clock_next(ol_batch_clock *clock);

/* Records that a batch was written or loaded. */
static inline void ol_batch_clock_record(ol_batch_clock *clock, int64_t timestamp) {
    clock->last = timestamp;
    if (timestamp > clock->newest) clock->newest = timestamp;
}

#endif
