/* log/directory_pass: lists the names in a partition directory.  Plans which segments the directory
 * has once the swaps that a crash or a running cleaner left in it are finished or undone
 * (docs/format/recovery.md §9.1).
 *
 * Needs no open log, takes no lock and changes nothing.
 */
#ifndef OL_LOG_DIRECTORY_PASS_H
#define OL_LOG_DIRECTORY_PASS_H

#include "fs/fs.h"
#include "log/swap_plan.h"

/* Lists the names in a directory, malloc'ed; ol_directory_free_names frees them. */
int ol_directory_list(ol_fs *fs, const char *directory, char ***names, size_t *count,
                      ol_error *error) OL_NODISCARD;
void ol_directory_free_names(char **names, size_t count);

/* Plans how the swaps in a directory, as it is now, are finished or undone; `.log.swap` files are
 * read to their ends.  The caller frees *plan.  Fails with OL_NO_SUCH_FILE if the directory, or a
 * `.swap` file in it, was removed meanwhile; with OL_INVALID if a path is too long; with
 * OL_NO_MEMORY; or with the status of `fs`, such as OL_IO, when it cannot list, open or read. */
int ol_directory_plan(ol_fs *fs, const char *directory, ol_swap_plan *plan,
                      ol_error *error) OL_NODISCARD;

#endif
