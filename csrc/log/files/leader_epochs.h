/* log/files/leader_epochs: which leader epoch wrote which offsets of a partition
 * (docs/format/directory.md §1.5, docs/format/leader-epochs.md §12).
 *
 * This is a list of pairs (epoch, start offset), in which the epochs and the offsets both ascend
 * strictly.  It is stored in the file leader-epoch-checkpoint.  The functions change only the list
 * in memory and report whether it has changed; the caller stores it.  The list has no lock of its
 * own: the log protects it with epochs.lock (log/log_impl.h).
 */
#ifndef OL_LOG_FILES_LEADER_EPOCHS_H
#define OL_LOG_FILES_LEADER_EPOCHS_H

#include "base/base.h"
#include "log/files/checkpoint.h"
#include "fs/fs.h"
#include "base/status.h"

/* Zeroed memory is an empty list. */
typedef struct ol_leader_epochs {
    ol_leader_epoch *entries;
    size_t count;
    size_t capacity;
} ol_leader_epochs;

void ol_leader_epochs_free(ol_leader_epochs *epochs);

/* Reserves memory for `additional` entries, so that as many calls of ol_leader_epochs_assign cannot
 * fail. */
int ol_leader_epochs_reserve(ol_leader_epochs *epochs, size_t additional,
                             ol_error *error) OL_NODISCARD;

/* Records that offsets from `start_offset` on are written in `epoch`.  If the newest entry has this
 * epoch and does not start later, nothing changes.  Otherwise the new entry is added, and every
 * entry is dropped whose epoch is not below `epoch` or whose start is not below `start_offset`.
 * Sets *changed to whether the list has changed; `changed` may be NULL.  Fails with OL_INVALID if
 * an argument is negative, or with OL_NO_MEMORY. */
int ol_leader_epochs_assign(ol_leader_epochs *epochs, int32_t epoch, int64_t start_offset,
                            bool *changed, ol_error *error) OL_NODISCARD;

/* Called when the log has been truncated to `end_offset`.  Drops the entries that start there or
 * later.  Returns whether the list has changed. */
bool ol_leader_epochs_truncate_from_end(ol_leader_epochs *epochs, int64_t end_offset);

/* Called when the log start has moved to `start_offset`.  Drops the entries that start below it,
 * except the last of these: its start becomes `start_offset`, unless another entry starts exactly
 * there.  Returns whether the list has changed. */
bool ol_leader_epochs_truncate_from_start(ol_leader_epochs *epochs, int64_t start_offset);

/* Finds where an epoch ends in this log.  Sets (*found_epoch, *end_offset) to one of these:
 * - (-1, -1) if `epoch` is -1 or above the newest epoch, or if the list is empty;
 * - (`epoch`, start of the oldest epoch) if `epoch` is below all epochs in the list;
 * - otherwise, with the greatest epoch E that is in the list and not above `epoch`: (E, start of
 *   the epoch after E), or (E, log_end) if E is the newest epoch. */
void ol_leader_epochs_end_offset(const ol_leader_epochs *epochs, int32_t epoch, int64_t log_end,
                                 int32_t *found_epoch, int64_t *end_offset);

/* ol_leader_epochs_newest returns the newest epoch, or -1 if the list is empty.
 * ol_leader_epochs_at returns the epoch of the record at `offset`, or -1 if it is not known. */
int32_t ol_leader_epochs_newest(const ol_leader_epochs *epochs);
int32_t ol_leader_epochs_at(const ol_leader_epochs *epochs, int64_t offset);

/* Replaces the list by the one in the file.  Fails with OL_NO_SUCH_FILE if the file does not exist,
 * and with OL_CORRUPT if it cannot be parsed.  After a failure the list is unchanged. */
int ol_leader_epochs_load(ol_leader_epochs *epochs, ol_fs *fs, const char *path,
                          ol_error *error) OL_NODISCARD;
int ol_leader_epochs_store(const ol_leader_epochs *epochs, ol_fs *fs, const char *path,
                           ol_error *error) OL_NODISCARD;

#endif
