/* retention/group_view: derives the state of a group from the group's own records, for retention
 * without a coordinator.
 *
 * The records do not say which members are alive, so nothing expires in a group that has members,
 * whatever state the members are in. */
#ifndef OL_RETENTION_GROUP_VIEW_H
#define OL_RETENTION_GROUP_VIEW_H

#include "retention/expiry_rule.h"
#include "state/group_records.h"

/* Fills *view.  The newest record of the group decides the kind of the group.  Returns whether the
 * group has records of its own; a group without such records is a simple group.  The caller holds
 * the partition's writer lock or table lock. */
bool ol_group_view_read(const ol_group_records *records, ol_slice group, ol_group_view *view);

#endif
