/* log/segment: one .log file of a partition and its indexes.  The list of segments, the readers and
 * the flush share it.
 *
 * A segment object exists as long as somebody holds a reference to it.  A *use* is more than a
 * reference: while a segment has a user, its bytes can be read.  Its users are readers, views, the
 * flush, and the log itself while it writes to the segment.  A file with users is never shortened
 * below the bytes that they may read (ol_log_truncate replaces the file instead).
 *
 * Reading.  All reading is done with pread, not through a mapping.  The kernel may evict a page of
 * a mapping.  When the page is then accessed again, the process is killed if the sector is bad or
 * if another process has truncated the file.  Therefore only the file to which batches are appended
 * is mapped.  Only the writer reads through this mapping, and only bytes that it has just stored.
 * On a file system that does not keep the pages of a file in place, no file is mapped.  `data` is
 * then memory in which a batch is built before it is written (is_written).
 *
 * Open files.  A process has at most a few thousand descriptors, and a log may have more segments.
 * A segment therefore keeps its file open only in two cases.  One is that batches are appended to
 * it.  The other is that it has left the log, but still has users: its file then has no name any
 * more.  In all other cases each reader opens the file by its name.
 *
 * Sizes.  `size` is the true size, which is that of the whole batches.  The active file is longer:
 * it is extended with zeros up to `extended`.  Its pages up to `populated`, which is not above
 * `extended`, have been faulted in.  The writer stores nothing above `populated`, because the
 * process is killed if it stores to a page that the disk cannot provide.
 *
 * Locks: `lock` protects the file, the counts and the two indexes.  Only the writer appends. */
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
    atomic_bool detached;  /* the segment is no longer in the log, so a reader must find its
                              position again */

    pthread_mutex_t lock;
    uint32_t references;
    uint32_t users;
    ol_file *file;                      /* the open file, which is closed when the last use ends;
                                           NULL if it is not open */
    bool kept;  /* the segment has left the log, and `file` was opened for the users that it still
                   has */
    uint8_t *data;                      /* the memory in which the writer stores batches, with
                                           mapped_size bytes; NULL if nothing is appended */
    size_t mapped_size;
    bool is_written;                    /* `data` is not a mapping of the file; batches are written
                                           to the file with pwrite */

    /* The indexes are open while the segment is written to and, after a roll, until it is
     * flushed. */
    bool indexes_open;
    ol_index offset_index;
    ol_index time_index;
    ol_transaction_index transaction_index;

    bool flush_needed;                  /* the segment was rolled and has not been flushed since;
                                           protected by list.lock of the log */
    bool rolled_note;  /* a note of the segment's roll exists (log/roll.c); protected by list.lock
                          of the log */
    bool note_stayed;  /* the note of the roll could not be removed; protected by list.lock of the
                          log */
    /* the log itself is a user of the segment until the files have their final names
     * (log/segment_swap.c); protected by list.lock of the log */
    bool held;
    int64_t next_base;  /* base offset of the segment that followed this one at the roll */

    /* Only the writer uses these. */
    int64_t first_timestamp;            /* of the first batch, -1 none */
    int64_t max_timestamp;              /* so far, -1 none */
    int64_t max_timestamp_offset;       /* last offset of the batch with max_timestamp */
    int64_t given_back;                 /* if is_written: the position in `data` below which the
                                           memory was given back */
    int64_t bytes_since_index;
    int64_t created_ms;
    uint32_t checksum;                  /* of all its batches (log/segment_checksum.h) */
    bool has_checksum;                  /* false: some batches were never read */
    /* A truncation may have removed entries of its indexes, and a power loss may bring them back.
     * While this is set, ol_log_take_mark returns an empty mark. */
    bool is_index_cut;
} ol_segment;

/* Creates an object with one reference and no user.  Does not touch the file. */
int ol_segment_create(ol_fs *fs, const char *directory, const char *path, int64_t base_offset,
                      int64_t size, ol_segment **segment, ol_error *error) OL_NODISCARD;
void ol_segment_reference(ol_segment *segment);
void ol_segment_release(ol_segment *segment);

/* Begins a use of the segment, during which its bytes can be read.  Each use must end with
 * ol_segment_unuse.  Returns false if the segment is no longer in the log.  In that case no use has
 * begun, and the caller must look for the segment that replaced this one. */
bool ol_segment_use(ol_segment *segment) OL_NODISCARD;
void ol_segment_unuse(ol_segment *segment);

/* Returns a file from which a user of the segment can read.  If *shared is set to true, the file
 * belongs to the segment and stays open at least until the use ends.  Otherwise the caller must
 * close the file.  Fails with OL_IO.  Fails with OL_NO_SUCH_FILE if the segment has left the log
 * and its file was not kept open, because too many files were kept open already. */
int ol_segment_open_file(ol_segment *segment, ol_file **file, bool *shared,
                         ol_error *error) OL_NODISCARD;

/* Called when the segment leaves the log, before its file is renamed, replaced or removed.  From
 * then on the segment accepts no new user.  It keeps its file open for the users that it has. */
void ol_segment_detach(ol_segment *segment);

/* The greatest number of files that this process keeps open for users of segments that have left
 * their logs. */
enum { OL_KEPT_FILES_MAX = 256 };

/* Opens a segment so that up to `mapped_size` bytes can be written to it.  If `file` is not NULL,
 * takes it over as the open file.  The segment must not have a user.  The call counts as one
 * use. */
int ol_segment_use_writable(ol_segment *segment, ol_file *file, size_t mapped_size,
                            ol_append append, ol_error *error) OL_NODISCARD;

/* Takes over `file`, which contains the `size` bytes of a closed segment and still has a temporary
 * name.  The segment must not have a user.  The call counts as one use. */
void ol_segment_use_aside(ol_segment *segment, ol_file *file, int64_t size);

/* Extends the file with zeros up to `to`, and faults its pages in.  If `written` is true, the zeros
 * are written to the file (OL_GROW_WRITTEN); otherwise its blocks are only allocated.  If the pages
 * cannot be faulted in, the file stays extended, and the next call tries to fault them in again. */
int ol_segment_extend(ol_segment *segment, int64_t to, bool written, ol_error *error) OL_NODISCARD;

/* Checks that another process has not truncated the file below `length`, a length that it had
 * before.  If it has, fails with OL_IO.  Any thread may call it while the file is open. */
int ol_segment_check_length(ol_segment *segment, int64_t length, ol_error *error) OL_NODISCARD;

/* Checks the length of the file as ol_segment_check_length does, up to `extended`.  If the file
 * were shorter, a store into the mapping would kill the process.  Does nothing for a segment with
 * is_written.  Only the writer calls it. */
int ol_segment_check_mapping(ol_segment *segment, ol_error *error) OL_NODISCARD;

/* Writes the batch of `size` bytes at `position` in `data` to the file.  Does nothing if `data` is
 * a mapping of the file.  If the write fails, the bytes are set to zero again in `data` and in the
 * file; if this fails, too, the call returns OL_FAILED.  Only the writer calls it. */
int ol_segment_write(ol_segment *segment, int64_t position, size_t size,
                     ol_error *error) OL_NODISCARD;

/* Makes the bytes [from, to) of the file durable, together with the metadata needed to read them.
 * A mapped segment is flushed as a range of its mapping (ol_fs.flush_range), because a flush of the
 * file would interrupt the writer at each page. */
int ol_segment_flush_range(ol_segment *segment, int64_t from, int64_t to,
                           ol_error *error) OL_NODISCARD;
/* Starts the same flush as ol_segment_flush_range, but does not wait for its end
 * (ol_fs.begin_flush_range). */
int ol_segment_begin_flush_range(ol_segment *segment, int64_t from, int64_t to,
                                 ol_error *error) OL_NODISCARD;

/* Writes "<directory>/<20 digits><suffix>". */
int ol_segment_path(char *path, size_t capacity, const char *directory, int64_t offset,
                    const char *suffix, ol_error *error) OL_NODISCARD;

int ol_segment_open_indexes(ol_segment *segment, size_t index_bytes_max,
                            ol_error *error) OL_NODISCARD;
/* Opens the indexes as ol_segment_open_indexes does, but with an empty transaction index.  Its old
 * file is replaced when the transaction index is stored (ol_transaction_index_store). */
int ol_segment_open_indexes_emptied(ol_segment *segment, size_t index_bytes_max,
                                 ol_error *error) OL_NODISCARD;
/* Opens the indexes as ol_segment_open_indexes does, but from files whose names have `ending`
 * (".cleaned") appended. */
int ol_segment_open_indexes_aside(ol_segment *segment, size_t index_bytes_max, const char *ending,
                                  ol_error *error) OL_NODISCARD;
void ol_segment_close_indexes(ol_segment *segment);     /* writes nothing */

/* Adds an entry for the batch at `position` to both indexes.  This is the part of
 * ol_segment_record_batch that is rarely needed. */
void ol_segment_append_entries(ol_segment *segment, int64_t position, int64_t last_offset,
                               bool *full);

/* Adds the index entries (docs/format/directory.md §1.3) for the batch of `size` bytes at
 * `position`, which was just appended or replayed.  The call cannot fail, because a missing index
 * entry only makes a lookup slower.  Sets *full if the indexes have no space for another entry.
 * `full` may be NULL. */
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

/* Adds the last entry of the time index, for which a place is always kept, and truncates the files
 * of both indexes to their entries.  Called at a roll, at the close, and at the end of a
 * rebuild. */
int ol_segment_finish_indexes(ol_segment *segment, ol_error *error) OL_NODISCARD;

/* Flushes the .log file, and also the index files if they are open. */
int ol_segment_flush(ol_segment *segment, ol_error *error) OL_NODISCARD;

/* Called for a segment to which batches are appended.  Makes its aborted transactions durable.
 * Also writes the entries of the other two indexes to their files, so that the entries survive the
 * end of the process: an open begins its checks at them (log/settled.c).  Entries that cannot be
 * written stay in memory, which is not a failure.  Sets *is_named to whether the directory must be
 * flushed as well.  Any thread may call it while the indexes are open. */
int ol_segment_flush_entries(ol_segment *segment, bool *is_named, ol_error *error) OL_NODISCARD;

/* Removes the .log file and its indexes, but not its producer snapshot.  Files that do not exist
 * are ignored. */
int ol_segment_remove_files(ol_fs *fs, const char *directory, int64_t base_offset,
                            ol_error *error) OL_NODISCARD;

/* Looks `offset` up in the index.  Returns a file position at or before the batch that contains
 * `offset`, or 0 if the index has no suitable entry. */
int64_t ol_segment_lookup(ol_segment *segment, int64_t offset);

/* Frees the object in a forked child.  It closes the files, leaves the mappings as they are, and
 * takes no lock. */
void ol_segment_abandon(ol_segment *segment);

#endif
