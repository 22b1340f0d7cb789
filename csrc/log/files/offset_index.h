/* log/files/offset_index: the sparse offset index (.index) and time index (.timeindex) of one
 * segment (docs/format/directory.md §1.3, §1.4, docs/format/brokers.md §15.2).
 *
 * An index only makes a scan of the .log shorter.  Missing entries make a lookup slower, never
 * wrong.  Therefore an append whose bytes cannot be written is dropped and counted, and the next
 * flush or trim reports the failure.  An append costs a store into a block in memory, which is
 * written when it is full.  Unlike Kafka's, the file is not mapped and not extended in advance, so
 * a crash leaves no zeros after the entries; but it counts as full at the same entry as Kafka's.
 *
 * The segment decides when an entry is due (docs/format/directory.md §1.3): when the bytes appended
 * since the last entry, not counting the new batch, exceed the interval.  Both indexes get an entry
 * then.
 *
 * Lookups are right whichever offset of a batch an entry names: brokers up to 1.1.1 wrote the
 * first, later ones write the last, and a cleaner writes the last offset of a run of batches.  In
 * each case the batch that holds the target is not before the found position, and the reader scans
 * forward from there.  Positions come from a file and may be wrong: the reader bounds them by the
 * log's size.  If no batch begins at a position, or if the batch there is beyond the target, the
 * reader starts over at 0.
 *
 * Calls on one index exclude each other by the caller's lock, except that lookups may run
 * concurrently.
 */
#ifndef OL_LOG_FILES_OFFSET_INDEX_H
#define OL_LOG_FILES_OFFSET_INDEX_H

#include "base/base.h"
#include "fs/fs.h"
#include "base/status.h"

enum {
    OL_OFFSET_INDEX_ENTRY_SIZE = 8,
    OL_TIME_INDEX_ENTRY_SIZE = 12,
    OL_INDEX_BLOCK_ENTRIES = 512,
};

typedef enum ol_index_kind { OL_INDEX_OFFSET = 0, OL_INDEX_TIME = 1 } ol_index_kind;

typedef enum ol_index_mode {
    OL_INDEX_READ = 0,          /* must exist, never written to */
    OL_INDEX_APPEND = 1,        /* created when missing */
} ol_index_mode;

typedef struct ol_index {
    ol_fs *fs;
    ol_file *file;
    char *path;
    uint8_t *pending;           /* the entries [stored, count); NULL in OL_INDEX_READ */
    int64_t base_offset;
    int64_t last_offset;        /* of the last entry, base_offset when there is none */
    int64_t last_timestamp;     /* time index: of the last entry, -1 when there is none */
    size_t entry_size;
    size_t count;               /* entries in use */
    size_t stored;              /* how many entries are in the file */
    size_t capacity;
    size_t dropped;             /* appends that were lost to a failed write */
    ol_index_kind kind;
    ol_index_mode mode;
} ol_index;

/* Opens the index of the segment with `base_offset`.  `size_max` is Kafka's segment.index.bytes and
 * bounds what is appended.  After the last used entry the file may hold zeros (a broker that
 * crashed had extended it); an incomplete entry at the end is left out.  The entries are not
 * checked here; call ol_index_check if that matters. */
int ol_index_open(ol_index *index, ol_fs *fs, const char *path, ol_index_kind kind,
                  int64_t base_offset, size_t size_max, ol_index_mode mode,
                  ol_error *error) OL_NODISCARD;

/* Closes the file without writing anything; call ol_index_trim or ol_index_flush before. */
void ol_index_close(ol_index *index);

/* Reads the whole file and returns OL_OK, or OL_CORRUPT with the reason: the size is not a multiple
 * of the entry's size; offsets (of the time index: timestamps) do not grow; a position or an offset
 * is negative, runs backwards, or is not below `log_size` or `next_offset`.  A tail of zeros is not
 * a fault. */
int ol_index_check(const ol_index *index, int64_t log_size, int64_t next_offset,
                   ol_error *error) OL_NODISCARD;

/* Like ol_index_check, for a file that is not open; more than `size_max` bytes are OL_CORRUPT, too.
 * OL_NO_SUCH_FILE, OL_IO, OL_NO_MEMORY. */
int ol_index_check_file(ol_index_kind kind, ol_fs *fs, const char *path, int64_t size_max,
                        int64_t base_offset, int64_t log_size, int64_t next_offset,
                        ol_error *error) OL_NODISCARD;

/* Like ol_index_check, for the bytes of a file. */
int ol_index_check_bytes(ol_index_kind kind, ol_slice bytes, int64_t base_offset, int64_t log_size,
                         int64_t next_offset, ol_error *error) OL_NODISCARD;

/* Returns whether the segment must be rolled before another entry: the time index keeps its last
 * slot for the entry at the roll. */
bool ol_index_is_full(const ol_index *index);

/* Writes the entries in memory, truncates the file to the used length, and resumes after dropped
 * appends.  Does not flush. */
int ol_index_trim(ol_index *index, ol_error *error) OL_NODISCARD;

/* Writes the entries in memory, so that they outlive the process.  Does not flush. */
int ol_index_write(ol_index *index, ol_error *error) OL_NODISCARD;

/* Writes the entries in memory and makes them durable. */
int ol_index_flush(ol_index *index, ol_error *error) OL_NODISCARD;

/* Drops every entry, for a rebuild. */
int ol_index_reset(ol_index *index, ol_error *error) OL_NODISCARD;

/* Drops the entries that name `offset` or above.  An entry of an offset index that points at or
 * past `log_size` is dropped, too, because it may name the first offset of a batch that is removed
 * as a whole. */
int ol_index_truncate(ol_index *index, int64_t offset, int64_t log_size,
                      ol_error *error) OL_NODISCARD;

/* Adds an entry: the batch at `position` ends with `offset`.  OL_INVALID: the offset does not grow
 * or is more than 2^31 - 1 above the base, or the position does not fit 31 bits.  OL_LIMIT: the
 * index is full. */
int ol_offset_index_append(ol_index *index, int64_t offset, int64_t position,
                           ol_error *error) OL_NODISCARD;

/* Finds the greatest entry at or below `target`; (base offset, 0) when there is none. */
int ol_offset_index_lookup(const ol_index *index, int64_t target, int64_t *offset,
                           int64_t *position, ol_error *error) OL_NODISCARD;

/* Adds an entry: the segment's greatest timestamp so far is `timestamp`, first found in the batch
 * that ends with `offset`.  Does nothing when the timestamp is not above the last entry's.
 * `at_roll` uses the slot that is kept for the roll.  OL_INVALID if the offset decreases, OL_LIMIT
 * when the index is full. */
int ol_time_index_append(ol_index *index, int64_t timestamp, int64_t offset, bool at_roll,
                         ol_error *error) OL_NODISCARD;

/* Finds the greatest entry at or below `target`: every record up to that entry's batch has a
 * timestamp <= *timestamp.  (-1, base offset) when there is none. */
int ol_time_index_lookup(const ol_index *index, int64_t target, int64_t *timestamp, int64_t *offset,
                         ol_error *error) OL_NODISCARD;

#endif
