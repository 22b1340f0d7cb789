/* log/files/leader_epochs: which leader epoch wrote which offsets of a partition
 * (docs/format/directory.md §1.5, docs/format/leader-epochs.md §12).
 *
 * A list of (epoch, start offset), ascending strictly in both, kept in the file
 * leader-epoch-checkpoint.  Changes are made in memory; the caller stores the list when one is
 * reported.  No lock of its own: the log guards its list with epochs.lock (log/log_impl.h).
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
 * epoch and does not start later, nothing changes.  Otherwise every entry whose epoch or start is
 * not below the new one is dropped, and the new entry is added.  OL_INVALID for a negative
 * argument.  *changed (may be NULL): whether the list changed. */
int ol_leader_epochs_assign(ol_leader_epochs *epochs, int32_t epoch, int64_t start_offset,
                            bool *changed, ol_error *error) OL_NODISCARD;

/* The log now ends at `end_offset`: drops the entries that start there or later.  Returns whether
 * the list changed. */
bool ol_leader_epochs_truncate_from_end(ol_leader_epochs *epochs, int64_t end_offset);

/* The log now starts at `start_offset`: drops the entries that start below it.  The last of these
 * stays and now starts at `start_offset`, unless the next entry starts exactly there. */
bool ol_leader_epochs_truncate_from_start(ol_leader_epochs *epochs, int64_t start_offset);

/* Finds where the largest known epoch <= `epoch` ends, and sets the two results to
 *   (that epoch, start of the next epoch), or (that epoch, log_end) if it is the newest;
 *   (`epoch`, start of the oldest epoch) if `epoch` is older than all known ones;
 *   (-1, -1) if `epoch` is -1 or above the newest one, or if the list is empty. */
void ol_leader_epochs_end_offset(const ol_leader_epochs *epochs, int32_t epoch, int64_t log_end,
                                 int32_t *found_epoch, int64_t *end_offset);

/* The first function returns the newest epoch, -1 when the list is empty; the second one the epoch
 * that wrote `offset`, -1 when unknown. */
int32_t ol_leader_epochs_newest(const ol_leader_epochs *epochs);
int32_t ol_leader_epochs_at(const ol_leader_epochs *epochs, int64_t offset);

/* Replaces the list by that of the file.  OL_NO_SUCH_FILE when the file is missing, OL_CORRUPT when
 * it does not parse; the list is then unchanged. */
int ol_leader_epochs_load(ol_leader_epochs *epochs, ol_fs *fs, const char *path,
                          ol_error *error) OL_NODISCARD;
int ol_leader_epochs_store(const ol_leader_epochs *epochs, ol_fs *fs, const char *path,
                           ol_error *error) OL_NODISCARD;

#endif
