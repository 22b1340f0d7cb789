/* Takes the time of batches from the wall clock.  After a jump of the wall clock, the time advances
 * with the steady clock until the wall clock has stayed at its new time for OL_CLOCK_DOUBT_MS. */
#include "partition/batch_clock.h"

#include <time.h>

static int64_t system_ms(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void ol_batch_clock_init(ol_batch_clock *clock, int64_t (*wall_ms)(void *context),
                         int64_t (*steady_ms)(void *context), void *context) {
    *clock = (ol_batch_clock){
        .wall_ms = wall_ms,
        .steady_ms = steady_ms,
        .context = context,
        .compared = INT64_MAX,
        .doubted_since = -1,
    };
}

static int64_t read_wall(const ol_batch_clock *clock) {
    return clock->wall_ms != NULL ? clock->wall_ms(clock->context) : system_ms(CLOCK_REALTIME);
}

/* Reads a steady clock that keeps running while the machine sleeps, as the wall clock does. */
static int64_t read_steady(const ol_batch_clock *clock) {
    return clock->steady_ms != NULL ? clock->steady_ms(clock->context) : system_ms(CLOCK_BOOTTIME);
}

/* Times in a log may be any numbers. */
static uint64_t distance(int64_t a, int64_t b) {
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

static bool is_near(int64_t a, int64_t b) { return distance(a, b) <= OL_CLOCK_JUMP_MS; }

static int64_t believe(ol_batch_clock *clock, int64_t wall, int64_t lead) {
    clock->is_set = true;
    clock->lead = lead;
    clock->compared = wall;
    clock->doubted_since = -1;
    return wall;
}

static OL_NOINLINE int64_t compare(ol_batch_clock *clock, int64_t wall) {
    if (clock->wall_ms != NULL && clock->steady_ms == NULL) return wall;
    int64_t steady = read_steady(clock);
    int64_t lead = (int64_t)((uint64_t)wall - (uint64_t)steady);
    if (!clock->is_set || is_near(lead, clock->lead)) return believe(clock, wall, lead);
    bool is_known = clock->doubted_since >= 0 && is_near(lead, clock->doubted_lead);
    if (is_known && steady - clock->doubted_since >= OL_CLOCK_DOUBT_MS) {
        return believe(clock, wall, lead);
    }
    if (!is_known) {
        clock->doubted_lead = lead;
        clock->doubted_since = steady;
    }
    clock->compared = INT64_MAX;
    return steady + clock->lead;
}

static int64_t believed(ol_batch_clock *clock, int64_t wall) {
    bool goes_on = (uint64_t)wall - (uint64_t)clock->compared < (uint64_t)OL_CLOCK_COMPARE_MS;
    return OL_LIKELY(goes_on) ? wall : compare(clock, wall);
}

int64_t ol_batch_clock_now(ol_batch_clock *clock) { return believed(clock, read_wall(clock)); }

ol_batch_time ol_batch_clock_next(ol_batch_clock *clock) {
    int64_t wall = read_wall(clock);
    int64_t batch = believed(clock, wall);
    if (batch < clock->last && is_near(batch, clock->last)) batch = clock->last;
    return (ol_batch_time){.batch = batch, .position = wall > batch ? wall : batch};
}
