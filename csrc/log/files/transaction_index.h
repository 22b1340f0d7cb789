/* log/files/transaction_index: the aborted transactions of one segment, its .txnindex
 * (docs/format/directory.md §1.7).
 *
 * The entries are few, so they are held in memory; each append is written to the file at once.  The
 * file exists while there is an entry, or while space is kept for one.  Calls on one index exclude
 * each other by the caller's lock, except that lookups may run concurrently.
 */
#ifndef OL_LOG_FILES_TRANSACTION_INDEX_H
#define OL_LOG_FILES_TRANSACTION_INDEX_H

#include "base/base.h"
#include "fs/fs.h"
#include "base/status.h"

enum { OL_TRANSACTION_INDEX_ENTRY_SIZE = 34 };

/* Files above this are refused with OL_LIMIT: 3.9 million aborts in one segment do not come from a
 * log of at most 2 GiB. */
#define OL_TRANSACTION_INDEX_SIZE_MAX ((size_t)128 << 20)

typedef struct ol_aborted_transaction {
    int64_t producer_id;
    int64_t first_offset;       /* of its first batch */
    int64_t last_offset;        /* of the ABORT marker */
    int64_t last_stable_offset; /* after the marker: the first offset of the oldest transaction
                                   still open, else the marker's offset + 1 */
} ol_aborted_transaction;

typedef struct ol_transaction_index {
    ol_fs *fs;
    ol_file *file;              /* NULL until there is a file */
    char *path;
    int64_t base_offset;
    ol_aborted_transaction *entries;
    size_t count;
    size_t capacity;
    size_t kept;                /* entries, those in use included, for which disk space is kept */
    bool is_kept_back;          /* ol_transaction_index_begin: nothing is written yet */
    bool is_dirty;              /* the file was changed since the last flush */
    bool is_new;  /* its name may not be on disk, since a flush of the file does not cover it */
    bool writable;
} ol_transaction_index;

/* Reads the entries from bytes.  OL_CORRUPT (position set) if the size is not a multiple of 34, a
 * version is not 0, a first offset is above its last, a last offset is below `base_offset` or does
 * not grow; the segment must then be recovered (docs/format/recovery.md §9.1).  `entries` may be
 * NULL, only to check; otherwise size / 34 entries fit it. */
int ol_transaction_index_parse(ol_slice bytes, int64_t base_offset, ol_aborted_transaction *entries,
                               ol_error *error) OL_NODISCARD;

void ol_transaction_index_encode(uint8_t *target, const ol_aborted_transaction *entry);

/* A missing file is an empty index.  A file that does not parse is OL_CORRUPT and leaves nothing to
 * close. */
int ol_transaction_index_open(ol_transaction_index *index, ol_fs *fs, const char *path,
                              int64_t base_offset, bool writable, ol_error *error) OL_NODISCARD;
void ol_transaction_index_close(ol_transaction_index *index);

/* Begins an empty index that will replace a file, whatever that file holds.  Entries are kept in
 * memory until ol_transaction_index_store replaces the file by all of them at once, durably.  So an
 * open that is stopped halfway leaves the file as it was.  Both fail with OL_NO_MEMORY, the second
 * also with OL_IO or OL_DISK_FULL. */
int ol_transaction_index_begin(ol_transaction_index *index, ol_fs *fs, const char *path,
                               int64_t base_offset, ol_error *error) OL_NODISCARD;
int ol_transaction_index_store(ol_transaction_index *index, ol_error *error) OL_NODISCARD;

/* Appends and writes.  OL_INVALID unless last_offset grows and is not below the base; on any
 * failure the index is as it was. */
int ol_transaction_index_append(ol_transaction_index *index, const ol_aborted_transaction *entry,
                                ol_error *error) OL_NODISCARD;

/* Ensures that `more` entries can be appended without meeting a full disk (as far as the file
 * system can keep space) or a lack of memory.  The file is created, and keeps its length.  A
 * failure changes nothing, except that an empty file may be left. */
int ol_transaction_index_keep_space(ol_transaction_index *index, size_t more,
                                    ol_error *error) OL_NODISCARD;
/* Gives back the space that is kept, and removes a file without entries. */
int ol_transaction_index_trim(ol_transaction_index *index, ol_error *error) OL_NODISCARD;

/* Drops the entries whose last offset is `offset` or above; ol_transaction_index_reset drops
 * all. */
int ol_transaction_index_truncate(ol_transaction_index *index, int64_t offset,
                                  ol_error *error) OL_NODISCARD;
int ol_transaction_index_reset(ol_transaction_index *index, ol_error *error) OL_NODISCARD;
int ol_transaction_index_flush(ol_transaction_index *index, ol_error *error) OL_NODISCARD;

/* Calls `visit` with each aborted transaction that overlaps [from, up_to), and stops with its
 * status if that is not OL_OK.  *complete is set when an entry's last stable offset is up_to or
 * above, so that no later segment must be read. */
int ol_transaction_index_collect(const ol_transaction_index *index, int64_t from, int64_t up_to,
                                 int (*visit)(void *context, const ol_aborted_transaction *entry),
                                 void *context, bool *complete);

#endif
