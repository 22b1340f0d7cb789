/* log/files/checkpoint: Kafka's text checkpoints (docs/format/directory.md §1.5).
 *
 * A checkpoint has a version line, a count line, and one line per entry.  There are two kinds: the
 * offset checkpoints of a log dir, whose entries are "topic partition offset", and the
 * leader-epoch-checkpoint of a partition, whose entries are "epoch startOffset".  An empty file,
 * and a file with only the version line, is a checkpoint without entries.  If a file deviates from
 * Kafka's form in any other way, the whole file is refused with OL_CORRUPT, and the reason names
 * the line.  A caller must treat a bad checkpoint as missing, and must not guess its contents.
 *
 * The structures own their memory and have no lock.
 */
#ifndef OL_LOG_FILES_CHECKPOINT_H
#define OL_LOG_FILES_CHECKPOINT_H

#include "base/base.h"
#include "fs/fs.h"
#include "base/status.h"

#define OL_CHECKPOINT_SIZE_MAX ((size_t)64 << 20)
#define OL_TOPIC_SIZE_MAX 255       /* bytes; Kafka allows 249, very old brokers 255 */

typedef struct ol_checkpoint_entry {
    char *topic;                /* terminated, owned */
    int64_t offset;
    int32_t partition;
} ol_checkpoint_entry;

/* Zeroed memory is an empty checkpoint. */
typedef struct ol_offset_checkpoint {
    ol_checkpoint_entry *entries;   /* in the order of the file; a key appears once */
    size_t count;
    size_t capacity;
} ol_offset_checkpoint;

void ol_offset_checkpoint_free(ol_offset_checkpoint *checkpoint);

/* Returns the entry, or NULL.  Takes linear time, because the files have only a few dozen lines. */
const ol_checkpoint_entry *ol_offset_checkpoint_find(const ol_offset_checkpoint *checkpoint,
                                                     const char *topic, int32_t partition);
/* Adds an entry, or replaces the entry of the same topic and partition.  Fails with OL_INVALID if
 * the topic is empty, too long or contains white space, or if the partition is negative. */
int ol_offset_checkpoint_set(ol_offset_checkpoint *checkpoint, const char *topic, int32_t partition,
                             int64_t offset, ol_error *error) OL_NODISCARD;
void ol_offset_checkpoint_remove(ol_offset_checkpoint *checkpoint, const char *topic,
                                 int32_t partition);

/* Fills an empty *checkpoint; on failure it stays empty. */
int ol_offset_checkpoint_parse(ol_offset_checkpoint *checkpoint, ol_slice text,
                               ol_error *error) OL_NODISCARD;
/* Makes the text of the file.  The caller frees *text. */
int ol_offset_checkpoint_format(const ol_offset_checkpoint *checkpoint, char **text, size_t *size,
                                ol_error *error) OL_NODISCARD;
/* Loads the file at `path`.  Fails with OL_NO_SUCH_FILE if it does not exist. */
int ol_offset_checkpoint_load(ol_offset_checkpoint *checkpoint, ol_fs *fs, const char *path,
                              ol_error *error) OL_NODISCARD;
/* Stores the checkpoint with ol_fs_replace_file: a crash leaves the old file or the new one. */
int ol_offset_checkpoint_store(const ol_offset_checkpoint *checkpoint, ol_fs *fs, const char *path,
                               ol_error *error) OL_NODISCARD;

typedef struct ol_leader_epoch {
    int64_t start_offset;
    int32_t epoch;
} ol_leader_epoch;

/* Parses the text of a leader-epoch-checkpoint.  The caller frees *entries, which is NULL if there
 * are none.  Fails with OL_CORRUPT unless the epochs and the start offsets both ascend strictly. */
int ol_epoch_checkpoint_parse(ol_slice text, ol_leader_epoch **entries, size_t *count,
                              ol_error *error) OL_NODISCARD;
int ol_epoch_checkpoint_format(const ol_leader_epoch *entries, size_t count, char **text,
                               size_t *size, ol_error *error) OL_NODISCARD;

#endif
