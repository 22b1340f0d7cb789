/* log/segment: one .log file of a partition with its indexes, shared by the list of segments,
 * readers and the flush.
 *
 * A segment object lives as long as it is referenced.  Its bytes stay readable as long as it is
 * used by a reader, a view, the flush, or the log itself while it writes to it.  A file in use is
 * never shortened below the bytes that a user may read (ol_log_truncate replaces it instead).
 *
 * All reading is done with pread.  A page of a mapping can be evicted; reading it again ends the
 * process if the sector is bad or another process has truncated the file.  So only the file that is
 * appended to is mapped, only the writer reads through that mapping, and it reads only bytes that
 * it has just stored.  On a file system that does not keep the pages of a file in place, no file is
 * mapped: `data` is then memory in which a batch is assembled before it is written (is_written).
 *
 * A process has a few thousand descriptors at most, and a log may have more segments.  So a segment
 * keeps its file open only while it is written to, or if it leaves the log while in use, because
 * the file then loses its name.  Otherwise each reader opens the file by its name.
 *
 * `size` is the true size, that of the whole batches.  Beyond it the active file is extended with
 * zeros up to `extended`.  The pages up to `populated`, which is not above `extended`, were faulted
 * in.  Nothing is stored beyond them, because a store to a page that the disk cannot provide ends
 * the process.
 *
 * Locks: `lock` covers the file, the counts and the two indexes.  Only the writer appends.
 */
#ifndef OL_LOG_SEGMENT_H
#define OL_LOG_SEGMENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"
#include "fs/fs.h"
#include "log/files/offset_index.h"
#include "log/log.h"
#include "base/status.h"
#include "log/files/transaction_index.h"

typedef struct ol_segment {
    ol_fs *fs;
    char *directory;
    char *path;                         /* of the .log file */
    int64_t base_offset;
    _Atomic int64_t size;
    _Atomic int64_t extended;
    _Atomic int64_t populated;
    atomic_bool detached;  /* the segment is no longer in the log: a reader must find its position
                              again */

    pthread_mutex_t lock;
    uint32_t references;
    uint32_t users;
    ol_file *file;                      /* open until the last use ends, or NULL */
    bool kept;  /* `file` was opened for the users that the segment had when it left the log */
    uint8_t *data;                      /* where the writer stores batches, mapped_size bytes; NULL
                                           if nothing is appended */
    size_t mapped_size;
    bool is_written;                    /* `data` is not a mapping of the file */

    /* Open only while the segment is written to, and until it is flushed after a roll. */
    bool indexes_open;
    ol_index offset_index;
    ol_index time_index;
    ol_transaction_index transaction_index;

    bool flush_needed;                  /* rolled and not flushed since; under list.lock of the
                                           log */
    bool rolled_note;  /* a note of the segment's roll exists (log/roll.c); under list.lock of the
                          log */
    bool note_stayed;  /* the note could not be removed; under list.lock of the log */
    bool held;                          /* the log uses the segment until its files have their final
                                           names (log/segment_swap.c); under list.lock of the log */
    int64_t next_base;  /* base offset of the segment that followed this one at the roll */

    /* Only the writer uses these. */
    int64_t first_timestamp;            /* of the first batch, -1 none */
    int64_t max_timestamp;              /* so far, -1 none */
    int64_t max_timestamp_offset;       /* last offset of the batch with max_timestamp */
    int64_t given_back;                 /* is_written: the pages of `data` below it were freed */
    int64_t bytes_since_index;
    int64_t created_ms;
    uint32_t checksum;                  /* of all its batches (log/segment_checksum.h) */
    bool has_checksum;                  /* false: some batches were never read */
    bool is_index_cut;                  /* a truncation may have removed entries of its indexes; a
                                           power loss may bring them back, so ol_log_take_mark
                                           leaves the mark empty */
} ol_segment;

/* Creates an object with one reference and no user; the file is not touched. */
int ol_segment_create(ol_fs *fs, const char *directory, const char *path, int64_t base_offset,
                      int64_t size, ol_segment **segment, ol_error *error) OL_NODISCARD;
void ol_segment_reference(ol_segment *segment);
void ol_segment_release(ol_segment *segment);

/* Keeps the bytes readable; each use ends with ol_segment_unuse.  False: the segment is no longer
 * in the log; look for its successor. */
bool ol_segment_use(ol_segment *segment) OL_NODISCARD;
void ol_segment_unuse(ol_segment *segment);

/* Returns the file of a segment that the caller uses, for reading.  If *shared is set, the file
 * belongs to the segment and stays open at least until that use ends; otherwise the caller closes
 * it.  Fails with OL_IO, or with OL_NO_SUCH_FILE when the segment has left the log and too many
 * files were kept already. */
int ol_segment_open_file(ol_segment *segment, ol_file **file, bool *shared,
                         ol_error *error) OL_NODISCARD;

/* Called when the segment leaves the log: it accepts no new user and keeps its file for those that
 * it has.  Call it before the file is renamed, replaced or removed. */
void ol_segment_detach(ol_segment *segment);

/* Files that are kept open for the users of segments that left their logs, in this process. */
enum { OL_KEPT_FILES_MAX = 256 };

/* Opens a segment, or takes over its open `file`, to write up to `mapped_size` bytes to it.  The
 * segment has no user yet; the call counts as one use. */
int ol_segment_use_writable(ol_segment *segment, ol_file *file, size_t mapped_size,
                            ol_append append, ol_error *error) OL_NODISCARD;

/* Takes over `file`, whose `size` bytes are those of a closed segment under a temporary name; the
 * segment has no user yet, and the call counts as one use. */
void ol_segment_use_aside(ol_segment *segment, ol_file *file, int64_t size);

/* Extends the file with zeros up to `to` and faults its pages in; `written`: the zeros are written
 * (OL_GROW_WRITTEN).  When only the faulting fails, the file stays extended, and the next call
 * tries again. */
int ol_segment_extend(ol_segment *segment, int64_t to, bool written, ol_error *error) OL_NODISCARD;

/* Fails with OL_IO if the file is shorter than `length`, a length that it once had.  Any thread
 * while the file is open. */
int ol_segment_check_length(ol_segment *segment, int64_t length, ol_error *error) OL_NODISCARD;

/* Like ol_segment_check_length, up to the end of the extension: without those bytes, a store into
 * the mapping would end the process.  Does nothing for a segment with is_written.  Only the writer
 * calls it. */
int ol_segment_check_mapping(ol_segment *segment, ol_error *error) OL_NODISCARD;

/* Only the writer calls it.  Writes the batch of `size` bytes at `position` of `data` to the file,
 * unless the mapping has done so.  On failure the bytes are zeroed again in `data` and in the file;
 * OL_FAILED if that is not possible. */
int ol_segment_write(ol_segment *segment, int64_t position, size_t size,
                     ol_error *error) OL_NODISCARD;

/* Makes the bytes [from, to) of the file durable, and the metadata needed to read them.  A mapped
 * segment is flushed through its mapping, as a range (ol_fs.flush_range): a flush of the file would
 * take the pages from the mapping one by one, and interrupt the writer each time. */
int ol_segment_flush_range(ol_segment *segment, int64_t from, int64_t to,
                           ol_error *error) OL_NODISCARD;
/* Begins what ol_segment_flush_range does, and does not wait for its end
 * (ol_fs.begin_flush_range). */
int ol_segment_begin_flush_range(ol_segment *segment, int64_t from, int64_t to,
                                 ol_error *error) OL_NODISCARD;

/* Writes "<directory>/<20 digits><suffix>". */
int ol_segment_path(char *path, size_t capacity, const char *directory, int64_t offset,
                    const char *suffix, ol_error *error) OL_NODISCARD;

int ol_segment_open_indexes(ol_segment *segment, size_t index_bytes_max,
                            ol_error *error) OL_NODISCARD;
/* Like ol_segment_open_indexes, but with an empty transaction index, which replaces its file when
 * it is stored (ol_transaction_index_store). */
int ol_segment_open_indexes_emptied(ol_segment *segment, size_t index_bytes_max,
                                 ol_error *error) OL_NODISCARD;
/* Like ol_segment_open_indexes, for index files with `ending` (".cleaned") appended to their
 * names. */
int ol_segment_open_indexes_aside(ol_segment *segment, size_t index_bytes_max, const char *ending,
                                  ol_error *error) OL_NODISCARD;
void ol_segment_close_indexes(ol_segment *segment);     /* writes nothing */

/* Adds an entry to both indexes for the batch at `position`; the part of ol_segment_record_batch
 * that is rarely needed. */
void ol_segment_append_entries(ol_segment *segment, int64_t position, int64_t last_offset,
                               bool *full);

/* Adds the index entries (docs/format/directory.md §1.3) for the batch of `size` bytes at
 * `position`, which was just appended or replayed.  Cannot fail: a missing index entry makes a
 * lookup slower, nothing more.  *full (may be NULL): the indexes have no space for another
 * entry. */
static inline void ol_segment_record_batch(ol_segment *segment, int64_t position, size_t size,
                                           int64_t last_offset, int64_t max_timestamp,
                                           int64_t index_interval_bytes, bool *full) {
    if (position == 0) segment->first_timestamp = max_timestamp;
    if (max_timestamp > segment->max_timestamp) {
        segment->max_timestamp = max_timestamp;
        segment->max_timestamp_offset = last_offset;
    }
    if (OL_UNLIKELY(segment->bytes_since_index > index_interval_bytes)) {
        ol_segment_append_entries(segment, position, last_offset, full);
        segment->bytes_since_index = 0;
    }
    segment->bytes_since_index += (int64_t)size;
}

/* Adds the last entry of the time index, for which a slot is kept, and trims both indexes: at a
 * roll, at the close, and at the end of a rebuild. */
int ol_segment_finish_indexes(ol_segment *segment, ol_error *error) OL_NODISCARD;

/* Flushes the .log file, and the index files where they are open. */
int ol_segment_flush(ol_segment *segment, ol_error *error) OL_NODISCARD;

/* For a segment that is appended to: makes the aborted transactions durable and, if possible, lets
 * the entries of the other indexes outlive the process.  An open begins its checks at these entries
 * (log/settled.c).  *is_named: the directory must be flushed as well.  Any thread while the indexes
 * are open. */
int ol_segment_flush_entries(ol_segment *segment, bool *is_named, ol_error *error) OL_NODISCARD;

/* Removes the .log file and its indexes (not its snapshot); missing files are fine. */
int ol_segment_remove_files(ol_fs *fs, const char *directory, int64_t base_offset,
                            ol_error *error) OL_NODISCARD;

/* Returns a file position at or before the batch that holds `offset`, from the index; 0 if the
 * index does not help. */
int64_t ol_segment_lookup(ol_segment *segment, int64_t offset);

/* Frees the object in a forked child: closes the files, leaves the mappings, takes no lock. */
void ol_segment_abandon(ol_segment *segment);

#endif
