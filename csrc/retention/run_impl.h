/* retention/run_impl: one run of retention, shared by its source files and nobody else.
 *
 *   retention/run            the walk over groups
 *   retention/group      one group: its state and its topics, and which of its positions are due
 *   ol_expire_write      its tombstones
 *   ol_expire_report     the dry run
 */
#ifndef OL_RETENTION_RUN_IMPL_H
#define OL_RETENTION_RUN_IMPL_H

#include "retention/run.h"
#include "partition/partition.h"

/* Positions that are looked at under one hold of the table's lock, roughly: a millisecond at most. */
#define OL_EXPIRE_HOLD_POSITIONS 16384u

/* Strings behind one another, in memory of their own. */
typedef struct ol_name_list {
    uint8_t *bytes;
    size_t size;
    size_t bytes_capacity;
    size_t *ends;
    size_t count;
    size_t capacity;
} ol_name_list;

int ol_name_list_add(ol_name_list *list, ol_slice name, ol_error *error) OL_NODISCARD;
ol_slice ol_name_list_get(const ol_name_list *list, size_t index);     /* until the next add */
void ol_name_list_free(ol_name_list *list);

/* A group while it is looked at. */
typedef struct ol_expiring_group {
    ol_slice name;
    ol_retention retention;
    bool is_big;                /* more positions than one hold of the lock is for */
    bool is_frozen;             /* what follows was asked of a coordinator, before any lock was taken */
    ol_group_view view;
    ol_slice *unread;           /* sorted: topics that no member reads */
    size_t unread_count;
    ol_name_list topics;
} ol_expiring_group;

typedef struct ol_expire_run {
    ol_partition *partition;
    const ol_expire_options *options;
    ol_expire_report *report;
    ol_expiring_rows *rows;     /* NULL: it writes */
    int32_t partition_number;
    ol_name_list names;         /* groups gathered under one hold of the table's lock */
    bool last_is_big;           /* of the names */
    ol_expiring_group group;
} ol_expire_run;

/* Fills group->topics, under the table's lock. */
int ol_expire_list_topics(ol_expire_run *run, ol_error *error);

/* Asks the coordinator for the group's state, without locks; a run without one leaves it to ol_expire_view.  Thaw ends what freeze began, also when it
 * failed. */
int ol_expire_freeze(ol_expire_run *run, ol_error *error);
void ol_expire_thaw(ol_expire_run *run);

/* The group's state; from its records unless it is frozen.  Under the writer's or the table's lock. */
ol_group_view ol_expire_view(const ol_expiring_group *group, const ol_state *state);

/* When a position of the group expires.  Of a frozen group a topic that came since it was asked for is taken for one that is read. */
ol_expiry ol_expire_when(const ol_expiring_group *group, const ol_group_view *view, const ol_table_row *row);

static inline bool ol_expire_is_due(const ol_expire_run *run, const ol_expiring_group *group, const ol_group_view *view,
                                    const ol_table_row *row) {
    ol_expiry expiry = ol_expire_when(group, view, row);
    return ol_expiry_is_due(&expiry, run->options->now_ms);
}

/* Whether something is due in the group, or its own records are, as far as its state in memory tells; under the table's lock.  A pending transaction is
 * not looked at. */
bool ol_expire_glance(const ol_expire_run *run, const ol_expiring_group *group, const ol_state *state);

/* The same topic by topic, for a big group or a frozen one; takes and lets go of the table's lock. */
int ol_expire_glance_by_topic(ol_expire_run *run, bool *due, ol_error *error);

int ol_expire_write(ol_expire_run *run, ol_error *error);

/* Lets those commit who wait for the writer lock.  It goes to whoever asks first, and who has just let it go would be first again and again. */
void ol_expire_give_way(void);

int ol_expire_report_group(ol_expire_run *run, ol_error *error);

#endif
