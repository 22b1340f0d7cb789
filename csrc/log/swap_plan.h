/* log/swap_plan: plans the directory pass of docs/format/recovery.md §9.1 without touching a file.
 * The plan is made from the names in the directory; it has the actions, and the names that remain
 * after them.
 *
 * A writable open carries the actions out, in order; it may be stopped after any of them and the
 * next pass finishes the work.  A read-only open only reads the names that would be left, and the
 * current name of each of these files.
 *
 * The plan also removes our own leftovers: spare segments and the unfinished replacement of a
 * truncated one. */
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
    char *name;                 /* the file's name once the plan is carried out */
    char *real;                 /* its current name */
} ol_swap_name;

typedef struct ol_swap_plan {
    ol_swap_action *actions;
    size_t action_count;
    ol_swap_name *names;        /* ascending by name */
    size_t name_count;
    int64_t swaps_finished;     /* .log.swap files put in place */
    int64_t segments_removed;   /* .log files that a swap replaced, and interrupted .log.swap and
                                   .log.cleaned files */
} ol_swap_plan;

/* Finds the log offset at which the `.log.swap` file `name` ends; the number in its name is
 * `base_offset`. */
typedef int (*ol_swap_next_offset)(void *context, const char *name, int64_t base_offset,
                                   int64_t *next_offset, ol_error *error);

/* Changes nothing but *plan, which the caller frees; `names` may be in any order. */
int ol_swap_plan_make(char *const *names, size_t count, ol_swap_next_offset next_offset,
                      void *context, ol_swap_plan *plan, ol_error *error) OL_NODISCARD;
void ol_swap_plan_free(ol_swap_plan *plan);

#endif
