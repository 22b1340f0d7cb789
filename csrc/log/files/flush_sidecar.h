/* log/files/flush_sidecar: the sidecar `offsetlog.flushed`, which remembers how far a partition was
 * flushed (docs/durability.md).
 *
 * The sidecar is a small file that is written after each successful flush of the log.  The sidecar
 * itself is flushed only when it is created, before a truncation, and before segments below its
 * bound are replaced or removed.  After kill -9 its bound is therefore exact.  After a power loss
 * it may be too low, but never too high.  The file has two slots, which are written in turn, so
 * that a torn write of one slot leaves the other one whole.
 *
 * A slot has 64 bytes, with big-endian integers:
 *
 *     position  type    content
 *     0         u32     magic "OLFB"
 *     4         u16     version, 1
 *     6         u16     zero
 *     8         i64     sequence number
 *     16        i64     flushed offset
 *     24        i64     base offset of the segment
 *     32        i64     file position in that segment
 *     40        i32     leader epoch
 *     44        bytes   16 zeros
 *     60        u32     CRC-32C of the bytes before it */
#ifndef OL_LOG_FILES_FLUSH_SIDECAR_H
#define OL_LOG_FILES_FLUSH_SIDECAR_H

#include "base/base.h"
#include "format/batch.h"
#include "fs/fs.h"
#include "base/status.h"

enum { OL_FLUSH_SIDECAR_SLOT_SIZE = 64, OL_FLUSH_SIDECAR_FILE_SIZE = 128 };

typedef struct ol_flush_sidecar_bound {
    int64_t offset;             /* everything below it was flushed */
    int64_t segment_base;       /* everything below `position` of this segment was flushed, too */
    int64_t position;
    int32_t leader_epoch;       /* the leader epoch of the record at offset - 1; -1: unknown */
} ol_flush_sidecar_bound;

/* The content of a file. */
typedef struct ol_flush_sidecar_found {
    ol_flush_sidecar_bound bound;
    bool is_half;               /* the other slot is not intact, so a newer bound may be lost */
} ol_flush_sidecar_found;

typedef struct ol_flush_sidecar {
    ol_fs *fs;
    ol_file *file;              /* NULL: not open */
    int64_t sequence;           /* of the newest slot */
} ol_flush_sidecar;

/* Loads a sidecar.  Fails with OL_NO_SUCH_FILE, or with OL_CORRUPT when neither slot is intact. */
int ol_flush_sidecar_load(ol_fs *fs, const char *path, ol_flush_sidecar_found *found,
                          ol_error *error) OL_NODISCARD;

/* Opens or creates the file for storing. */
int ol_flush_sidecar_open(ol_flush_sidecar *flushed, ol_fs *fs, const char *path,
                          ol_error *error) OL_NODISCARD;
void ol_flush_sidecar_close(ol_flush_sidecar *flushed);

/* Writes `bound` to the slot with the older content.  Fails with OL_IO or OL_DISK_FULL; the other
 * slot is then still whole. */
int ol_flush_sidecar_store(ol_flush_sidecar *flushed, const ol_flush_sidecar_bound *bound,
                           ol_error *error) OL_NODISCARD;

/* Writes `bound` to both slots and flushes the file, so that no higher bound can come back after a
 * power loss.  Called for a new file, before a truncation, and before the segment that the sidecar
 * names is replaced or removed. */
int ol_flush_sidecar_lower(ol_flush_sidecar *flushed, const ol_flush_sidecar_bound *bound,
                           ol_error *error) OL_NODISCARD;

/* Returns the flushed bound in the `ol.flushed` header on the first record of a batch; -1 if the
 * batch has none. */
int64_t ol_flush_sidecar_record(const ol_batch *batch);

#endif
