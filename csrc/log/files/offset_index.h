/* log/files/offset_index: the sparse offset index (.index) and time index (.timeindex) of one
 * segment (docs/format/directory.md §1.3, §1.4, docs/format/brokers.md §15.2).
 *
 * An index only makes a scan of the .log shorter.  If entries are missing, a lookup is slower, but
 * still right.  Therefore, if an entry cannot be written, it is dropped and counted, and the next
 * flush or trim reports the failure.  An append stores an entry in a block in memory, which is
 * written when it is full.  Unlike Kafka, offsetlog does not map the file and does not extend it in
 * advance, so a crash leaves no zeros after the entries.  The index is full at the same entry as
 * Kafka's would be.
 *
 * The segment decides when both indexes get an entry (docs/format/directory.md §1.3): when more
 * bytes than the interval were appended since the last entry, not counting the new batch.
 *
 * An entry may name different offsets of a batch.  Brokers up to 1.1.1 wrote the first offset,
 * later ones write the last, and a cleaner writes the last offset of several batches together.  A
 * lookup is right for all of them: the batch that contains the target is at or after the found
 * position, and the reader scans forward from there.  A position comes from a file and may be
 * wrong, so the reader compares it with the size of the log.  If no batch begins at the position,
 * or if the batch there is beyond the target, the reader starts over at 0.
 *
 * The caller's lock must keep calls on one index apart, except that lookups may run at the same
 * time as other lookups.
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
 * limits the size to which the index grows.  After the last used entry the file may have zeros, if
 * a broker extended it and then crashed.  An incomplete entry at the end is left out.  The entries
 * are not checked; call ol_index_check to check them. */
int ol_index_open(ol_index *index, ol_fs *fs, const char *path, ol_index_kind kind,
                  int64_t base_offset, size_t size_max, ol_index_mode mode,
                  ol_error *error) OL_NODISCARD;

/* Closes the file without writing anything.  Entries that are only in memory are lost; call
 * ol_index_trim or ol_index_flush before to write them. */
void ol_index_close(ol_index *index);

/* Reads the whole file and checks it.  Zeros after the last entry are not a fault.  Fails with
 * OL_CORRUPT and the reason if
 * - the size of the file is not a multiple of the size of an entry;
 * - an entry comes after zeros;
 * - an offset is below the base offset, or not below `next_offset`;
 * - in an offset index, a position is negative or not below `log_size`, or the offsets or the
 *   positions do not ascend strictly;
 * - in a time index, a timestamp is negative, the timestamps do not ascend strictly, or an offset
 *   is less than the one before it. */
int ol_index_check(const ol_index *index, int64_t log_size, int64_t next_offset,
                   ol_error *error) OL_NODISCARD;

/* Checks a file that is not open, as ol_index_check does.  Also fails with OL_CORRUPT if the file
 * has more than `size_max` bytes, and with OL_NO_SUCH_FILE, OL_IO or OL_NO_MEMORY. */
int ol_index_check_file(ol_index_kind kind, ol_fs *fs, const char *path, int64_t size_max,
                        int64_t base_offset, int64_t log_size, int64_t next_offset,
                        ol_error *error) OL_NODISCARD;

/* Checks the bytes of a file, as ol_index_check does. */
int ol_index_check_bytes(ol_index_kind kind, ol_slice bytes, int64_t base_offset, int64_t log_size,
                         int64_t next_offset, ol_error *error) OL_NODISCARD;

/* Returns whether the index has no space for another entry, so that the segment must be rolled.
 * The time index keeps its last place for the entry at the roll. */
bool ol_index_is_full(const ol_index *index);

/* Writes the entries in memory and truncates the file after the last entry.  If entries were
 * dropped before, the index accepts new entries again.  Does not flush. */
int ol_index_trim(ol_index *index, ol_error *error) OL_NODISCARD;

/* Writes the entries in memory, so that they survive the end of the process.  Does not flush. */
int ol_index_write(ol_index *index, ol_error *error) OL_NODISCARD;

/* Writes the entries in memory and makes them durable. */
int ol_index_flush(ol_index *index, ol_error *error) OL_NODISCARD;

/* Drops every entry, for a rebuild. */
int ol_index_reset(ol_index *index, ol_error *error) OL_NODISCARD;

/* Drops the entries that name `offset` or a higher offset.  An entry of an offset index whose
 * position is not below `log_size` is dropped, too, because it may name the first offset of a batch
 * that was removed as a whole. */
int ol_index_truncate(ol_index *index, int64_t offset, int64_t log_size,
                      ol_error *error) OL_NODISCARD;

/* Adds an entry for the batch at `position`, whose last offset is `offset`.  Fails with OL_INVALID
 * if the offset is not above that of the last entry or is more than 2^31 - 1 above the base offset,
 * or if the position does not fit 31 bits.  Fails with OL_LIMIT if the index is full. */
int ol_offset_index_append(ol_index *index, int64_t offset, int64_t position,
                           ol_error *error) OL_NODISCARD;

/* Finds the entry with the greatest offset that is not above `target`.  If there is none, sets
 * *offset to the base offset and *position to 0. */
int ol_offset_index_lookup(const ol_index *index, int64_t target, int64_t *offset,
                           int64_t *position, ol_error *error) OL_NODISCARD;

/* Adds an entry.  `timestamp` is the greatest timestamp in the segment so far, and `offset` is the
 * last offset of the first batch that has it.  Does nothing if the timestamp is not above that of
 * the last entry.  If `at_roll` is true, the entry may use the place that is kept for the roll.
 * Fails with OL_INVALID if the offset is below that of the last entry, and with OL_LIMIT if the
 * index is full. */
int ol_time_index_append(ol_index *index, int64_t timestamp, int64_t offset, bool at_roll,
                         ol_error *error) OL_NODISCARD;

/* Finds the entry with the greatest timestamp that is not above `target`.  No record up to the
 * batch of this entry has a timestamp above *timestamp.  If there is no such entry, sets *timestamp
 * to -1 and *offset to the base offset. */
int ol_time_index_lookup(const ol_index *index, int64_t target, int64_t *timestamp, int64_t *offset,
                         ol_error *error) OL_NODISCARD;

#endif
