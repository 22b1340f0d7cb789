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

/* Parses the text of the file.  Fails with OL_CORRUPT and the reason if the text is anything other
 * than a version and a topic id with white space around them, or if the topic id is zero.  Fails
 * with OL_UNSUPPORTED if the version is not 0. */
int ol_partition_metadata_parse(ol_slice text, ol_uuid *topic_id, ol_error *error) OL_NODISCARD;

/* Loads the file `path`.  Fails with OL_NO_SUCH_FILE if it does not exist. */
int ol_partition_metadata_load(ol_fs *fs, const char *path, ol_uuid *topic_id,
                               ol_error *error) OL_NODISCARD;
/* Stores the file durably.  Must be called before the first append to the log.  Fails with
 * OL_INVALID if the topic id is zero. */
int ol_partition_metadata_store(ol_fs *fs, const char *path, const ol_uuid *topic_id,
                                ol_error *error) OL_NODISCARD;

#endif
