/* retention/group_view: what a group's own records tell of it: what retention knows where there is no coordinator to ask.
 *
 * The records do not tell who is alive: a group that has members is held (ol_expiry), whatever state they are in.
 */
#ifndef OL_RETENTION_GROUP_VIEW_H
#define OL_RETENTION_GROUP_VIEW_H

#include "retention/expiry_rule.h"
#include "state/group_records.h"

/* Returns whether the group has records of its own; without any it is a simple one.  The kind is that of the newest record.  The holder of what keeps
 * the records as they are calls. */
bool ol_group_view_read(const ol_group_records *records, ol_slice group, ol_group_view *view);

#endif
