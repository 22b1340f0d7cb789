/* log/directory_pass: lists the names in a partition directory, and plans what happens to the
 * unfinished swaps of segments in it.  A crash or a running cleaner leaves such swaps.  The plan
 * says how each is finished or undone, and which segments the directory has after that
 * (docs/format/recovery.md §9.1).
 *
 * The functions need no open log, take no lock and change nothing. */
#ifndef OL_LOG_DIRECTORY_PASS_H
#define OL_LOG_DIRECTORY_PASS_H

#include "fs/fs.h"
#include "log/swap_plan.h"

/* Lists the names in a directory.  The list is allocated with malloc; ol_directory_free_names frees
 * it. */
int ol_directory_list(ol_fs *fs, const char *directory, char ***names, size_t *count,
                      ol_error *error) OL_NODISCARD;
void ol_directory_free_names(char **names, size_t count);

/* Plans how the unfinished swaps in a directory are to be finished or undone.  To do so, it reads
 * every `.log.swap` file to its end.  The caller frees *plan.  Fails with
 * - OL_NO_SUCH_FILE if the directory, or a `.swap` file in it, was removed in the meantime;
 * - OL_INVALID if a path is too long;
 * - OL_NO_MEMORY;
 * - the status of `fs`, such as OL_IO, if a directory or a file cannot be read. */
int ol_directory_plan(ol_fs *fs, const char *directory, ol_swap_plan *plan,
                      ol_error *error) OL_NODISCARD;

#endif
