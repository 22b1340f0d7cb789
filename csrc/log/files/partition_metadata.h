/* log/files/partition_metadata: the file partition.metadata, which ties a partition directory to
 * its topic id (docs/format/directory.md §1.7, docs/format/traps.md trap 37). */
#ifndef OL_LOG_FILES_PARTITION_METADATA_H
#define OL_LOG_FILES_PARTITION_METADATA_H

#include "base/base.h"
#include "fs/fs.h"
#include "log/files/names.h"
#include "base/status.h"

#define OL_PARTITION_METADATA_NAME "partition.metadata"

enum { OL_PARTITION_METADATA_SIZE = 43 };       /* two lines, no newline after the second */

/* Writes the file's bytes, not terminated. */
void ol_partition_metadata_format(const ol_uuid *topic_id, char text[OL_PARTITION_METADATA_SIZE]);

/* Parses the file's text.  OL_CORRUPT with the reason unless it holds a version, a topic id and
 * nothing else except white space; an id of zeros is corrupt, too.  OL_UNSUPPORTED for another
 * version. */
int ol_partition_metadata_parse(ol_slice text, ol_uuid *topic_id, ol_error *error) OL_NODISCARD;

/* Loads the file `path`.  OL_NO_SUCH_FILE when it is missing. */
int ol_partition_metadata_load(ol_fs *fs, const char *path, ol_uuid *topic_id,
                               ol_error *error) OL_NODISCARD;
/* Stores the file durably; call it before the first append.  OL_INVALID for an id of zeros. */
int ol_partition_metadata_store(ol_fs *fs, const char *path, const ol_uuid *topic_id,
                                ol_error *error) OL_NODISCARD;

#endif
