/* retention/run_impl: the state of one run, and the functions that its files share.
 *
 *   run       walks over the groups
 *   group     finds the state and topics of one group, and which of its positions are due
 *   write     writes the tombstones of a group
 *   report    adds a group to the rows of a dry run
 *
 * Functions return OL_NO_MEMORY, or fail as ol_partition_lock_state and ol_partition_commit do. */
#ifndef OL_RETENTION_RUN_IMPL_H
#define OL_RETENTION_RUN_IMPL_H

#include "retention/run.h"
#include "partition/partition.h"

/* The approximate number of positions that are inspected before the table lock is released.  The
 * inspection of so many takes at most a millisecond. */
#define OL_RETENTION_HOLD_POSITIONS 16384u

/* A list of strings, which are stored one after the other in the memory of the list. */
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

/* The group that is inspected. */
typedef struct ol_retention_group {
    ol_slice name;
    ol_retention retention;
    bool is_big;                /* it has more than OL_RETENTION_HOLD_POSITIONS positions */
    bool is_frozen;  /* a coordinator has supplied `view` and `unread` */
    ol_group_view view;
    ol_slice *unread;           /* topics that no member subscribes to, sorted */
    size_t unread_count;
    ol_name_list topics;
} ol_retention_group;

typedef struct ol_retention_run {
    ol_partition *partition;
    const ol_retention_options *options;
    ol_retention_report *report;
    ol_expiring_rows *rows;     /* of a dry run; NULL: the run writes tombstones */
    int32_t partition_number;
    ol_name_list names;         /* groups that were found while the table lock was held once */
    bool last_is_big;           /* the last one of `names` */
    ol_retention_group group;
} ol_retention_run;

/* Fills group->topics; takes the table lock. */
int ol_retention_list_topics(ol_retention_run *run, ol_error *error);

/* ol_retention_freeze asks the coordinator for the group's state, while no lock is held.  In a run
 * without a coordinator it does nothing.  The caller calls ol_retention_thaw after each freeze,
 * also after one that failed. */
int ol_retention_freeze(ol_retention_run *run, ol_error *error);
void ol_retention_thaw(ol_retention_run *run);

/* Returns the group's state.  After ol_retention_freeze has asked a coordinator, this is the
 * coordinator's answer; otherwise it is derived from the group's records.  The caller holds the
 * writer lock or the table lock. */
ol_group_view ol_retention_view(const ol_retention_group *group, const ol_state *state);

/* Returns the time at which a position of the group expires.  If the group got a new topic after
 * ol_retention_freeze asked the coordinator, the topic is treated as one to which a member
 * subscribes. */
ol_expiry ol_retention_when(const ol_retention_group *group, const ol_group_view *view,
                            const ol_table_row *row);

static inline bool ol_retention_is_due(const ol_retention_run *run, const ol_retention_group *group,
                                       const ol_group_view *view, const ol_table_row *row) {
    ol_expiry expiry = ol_retention_when(group, view, row);
    return ol_expiry_is_due(&expiry, run->options->now_ms);
}

/* Returns whether a position of the group is due, or the group's own records are due.  The caller
 * holds the table lock.  Pending values are ignored here, because the decision under the writer
 * lock takes them into account. */
bool ol_retention_glance(const ol_retention_run *run, const ol_retention_group *group,
                         const ol_state *state);

/* Like ol_retention_glance, for a group that is_big or is_frozen.  It takes and releases the table
 * lock for each topic. */
int ol_retention_glance_by_topic(ol_retention_run *run, bool *due, ol_error *error);

int ol_retention_write(ol_retention_run *run, ol_error *error);

/* Lets waiting commits take the writer lock.  Without this call, the thread that has just released
 * the lock would take it again and again, because the lock goes to the first thread that asks. */
void ol_retention_give_way(void);

int ol_retention_report_group(ol_retention_run *run, ol_error *error);

#endif
