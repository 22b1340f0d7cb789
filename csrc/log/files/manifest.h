/* log/files/manifest: the manifest `offsetlog.manifest` of a partition, which proves that nothing
 * is missing (docs/durability.md, "Complete or not").
 *
 * The manifest is a text file that is replaced as a whole.  It says what the log had on disk when
 * the manifest was written: every closed segment with its size and checksum, and the size of the
 * active one.  The listed segments do not change until the next manifest is written.  If a log has
 * less than its manifest lists, it has therefore lost something, unless another program changed it.
 * The manifest also says which gaps between offsets are legal.  An example:
 *
 *     offsetlog manifest 1
 *     sequence 17
 *     topic 4ClGgBhSQPWWHcPK0jTz-w     topic id, or -
 *     epoch 4                          newest leader epoch of the log, -1 none
 *     cleaned 130                      a cleaner may have left gaps below this offset
 *     range 0 ours                     the batches from this offset on, up to the next range;
 *                                      "ours": offsetlog wrote them as a leader, without gaps;
 *                                      "other": they come from elsewhere and may have gaps
 *     segment 0 65 8125 1c00a3ff       a closed segment: base offset, base offset of the next
 *                                      segment, size, checksum or -
 *     swap 0 65 4019 77ab00d1 65       a swap that has begun: base offset, end, size and checksum
 *                                      of the new segment; base offset of the last one it replaces
 *     tail 262 270 1000                the active segment: base offset, log end, size; the size may
 *                                      count one batch after that end; both may have grown since
 *     doubt 65 130 gap                 offsets that may be missing: from, end or -, cause
 *     check 9f0c2b7d66a1e0f4           XXH3 of the lines before
 *
 * The parser trusts no byte.  It checks that the lines have a bounded length and are in this order,
 * that base offsets ascend, and that the last line is the hash of all lines before it.  The
 * structures own their memory and have no lock.
 */
#ifndef OL_LOG_FILES_MANIFEST_H
#define OL_LOG_FILES_MANIFEST_H

#include "base/base.h"
#include "base/status.h"
#include "fs/fs.h"
#include "log/files/names.h"

#define OL_MANIFEST_FILE "offsetlog.manifest"
/* Room for half a million segments. */
#define OL_MANIFEST_SIZE_MAX ((size_t)32 << 20)

typedef struct ol_manifest_segment {
    int64_t base_offset;
    int64_t end_offset;         /* base offset of the next segment; for the last segment,
                                   the log end */
    int64_t size;               /* bytes */
    uint32_t checksum;          /* log/segment_checksum.h */
    bool has_checksum;
} ol_manifest_segment;

/* Offsets from `offset` on, up to the next range. */
typedef struct ol_manifest_range {
    int64_t offset;
    bool is_ours;               /* offsetlog wrote the range as a leader: each batch begins
                                   where the one before it ended */
} ol_manifest_range;

/* The cause of a doubt.  A doubt is a range of offsets of which an open could not decide whether
 * something is missing.  It stays in the manifest until the owner accepts it. */
typedef enum ol_doubt_cause {
    OL_DOUBT_MANIFEST,          /* the manifest was missing or damaged */
    OL_DOUBT_SIDECAR,           /* the sidecar was missing or damaged */
    OL_DOUBT_GAP,               /* offsets are missing where another program wrote */
    OL_DOUBT_END,               /* the log ends below a checkpoint that another program wrote */
    OL_DOUBT_CAUSES,
} ol_doubt_cause;

typedef struct ol_manifest_doubt {
    int64_t from;
    int64_t below;              /* INT64_MAX: unknown */
    ol_doubt_cause cause;
} ol_manifest_doubt;
enum { OL_MANIFEST_DOUBTS_MAX = 16 };

/* Zeroed memory is an empty manifest. */
typedef struct ol_manifest {
    int64_t sequence;           /* of the manifests of this partition, from 1 */
    bool has_topic_id;
    ol_uuid topic_id;
    int32_t epoch;
    int64_t cleaned;
    ol_manifest_range *ranges;  /* ascending, at least one */
    size_t range_count;
    ol_manifest_segment *segments;      /* closed ones, ascending */
    size_t segment_count;
    bool has_swap;
    ol_manifest_segment swap;
    int64_t swap_last;          /* base of the last segment that the swap replaces */
    ol_manifest_segment tail;
    ol_manifest_doubt doubts[OL_MANIFEST_DOUBTS_MAX];
    size_t doubt_count;
} ol_manifest;

void ol_manifest_free(ol_manifest *manifest);

/* Fills an empty *manifest.  Fails with OL_CORRUPT and the line in the reason, with OL_UNSUPPORTED
 * for another version, or with OL_NO_MEMORY; the manifest then stays empty. */
int ol_manifest_parse(ol_manifest *manifest, ol_slice text, ol_error *error) OL_NODISCARD;
/* Makes the text of the file.  The caller frees *text. */
int ol_manifest_format(const ol_manifest *manifest, char **text, size_t *size,
                       ol_error *error) OL_NODISCARD;

/* Loads a manifest.  Fails with OL_NO_SUCH_FILE if the file does not exist, with OL_IO, or as
 * ol_manifest_parse does.  The error has the path. */
int ol_manifest_load(ol_manifest *manifest, ol_fs *fs, const char *path,
                     ol_error *error) OL_NODISCARD;
/* Stores with ol_fs_replace_file: a crash leaves the old file or the new one. */
int ol_manifest_store(const ol_manifest *manifest, ol_fs *fs, const char *path,
                      ol_error *error) OL_NODISCARD;

/* Returns whether another program wrote a range, or may have written it. */
bool ol_manifest_has_other(const ol_manifest *manifest);

/* Frees the list of segments and leaves it empty. */
void ol_manifest_drop_segments(ol_manifest *manifest);

/* Begins a range of the given kind at the log end `offset`, whatever the manifest said about these
 * offsets before.  Fails with OL_NO_MEMORY. */
int ol_manifest_add_range(ol_manifest *manifest, int64_t offset, bool is_ours,
                          ol_error *error) OL_NODISCARD;

/* Adds a doubt.  If the list of doubts is full, the last one is widened to include it. */
void ol_manifest_add_doubt(ol_manifest *manifest, const ol_manifest_doubt *doubt);

/* Returns whether the log may have a gap from `from` to `to`, where the next batch begins.  It may
 * if a cleaner removed these offsets, or if another program, which can leave gaps, wrote there. */
bool ol_manifest_is_gap_legal(const ol_manifest *manifest, int64_t from, int64_t to);

#endif
