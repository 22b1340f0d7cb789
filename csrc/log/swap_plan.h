/* log/swap_plan: plans how an open finishes or undoes the swaps that a crash left unfinished in a
 * partition directory (docs/format/recovery.md §9.1).  The plan is made from the names in the
 * directory, without changing a file.  It contains the actions, and the names that the directory
 * has after them.
 *
 * A writable open performs the actions in their order.  If it is interrupted, the next open makes a
 * new plan and finishes the work.  A read-only open performs no action.  It reads only the files
 * that would remain, each under its present name.
 *
 * The plan also removes what offsetlog itself has left: spare segments, and the unfinished
 * replacement of a truncated segment. */
#ifndef OL_LOG_SWAP_PLAN_H
#define OL_LOG_SWAP_PLAN_H

#include "base/base.h"
#include "base/status.h"

#define OL_SPARE_PREFIX "offsetlog.spare-"
#define OL_TRUNCATED_FILE "offsetlog.truncated"

typedef struct ol_swap_action {
    char *name;
    char *target;               /* NULL: remove `name` */
} ol_swap_action;

typedef struct ol_swap_name {
    char *name;                 /* the name of the file after the plan has been carried out */
    char *real;                 /* its current name */
} ol_swap_name;

typedef struct ol_swap_plan {
    ol_swap_action *actions;
    size_t action_count;
    ol_swap_name *names;        /* ascending by name */
    size_t name_count;
    int64_t swaps_finished;     /* .log.swap files put in place */
    int64_t segments_removed;   /* .log files that a swap has replaced, and .log.swap and
                                   .log.cleaned files of interrupted swaps */
} ol_swap_plan;

/* Finds the log offset at which the `.log.swap` file `name` ends.  `base_offset` is the number in
 * its name. */
typedef int (*ol_swap_next_offset)(void *context, const char *name, int64_t base_offset,
                                   int64_t *next_offset, ol_error *error);

/* Fills *plan, which the caller must free, and changes nothing else.  `names` may be in any
 * order. */
int ol_swap_plan_make(char *const *names, size_t count, ol_swap_next_offset next_offset,
                      void *context, ol_swap_plan *plan, ol_error *error) OL_NODISCARD;
void ol_swap_plan_free(ol_swap_plan *plan);

#endif
