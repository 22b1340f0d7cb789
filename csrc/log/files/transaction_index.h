/* log/files/transaction_index: the aborted transactions of one segment, its .txnindex
 * (docs/format/directory.md §1.7).
 *
 * There are few entries, so all are in memory, and each append is written to the file at once.  The
 * file exists while there is an entry, or while space is kept for one.  The caller's lock must keep
 * calls on one index apart, except that calls of ol_transaction_index_collect may run at the same
 * time as each other.
 */
#ifndef OL_LOG_FILES_TRANSACTION_INDEX_H
#define OL_LOG_FILES_TRANSACTION_INDEX_H

#include "base/base.h"
#include "fs/fs.h"
#include "base/status.h"

enum { OL_TRANSACTION_INDEX_ENTRY_SIZE = 34 };

/* Larger files are refused with OL_LIMIT.  This is 3.9 million aborted transactions, more than a
 * segment of at most 2 GiB can have. */
#define OL_TRANSACTION_INDEX_SIZE_MAX ((size_t)128 << 20)

typedef struct ol_aborted_transaction {
    int64_t producer_id;
    int64_t first_offset;       /* of its first batch */
    int64_t last_offset;        /* of the ABORT marker */
    int64_t last_stable_offset; /* as of the ABORT marker: the first offset of the oldest
                                   transaction that is still open; if there is none, the offset
                                   after the marker */
} ol_aborted_transaction;

typedef struct ol_transaction_index {
    ol_fs *fs;
    ol_file *file;              /* NULL until there is a file */
    char *path;
    int64_t base_offset;
    ol_aborted_transaction *entries;
    size_t count;
    size_t capacity;
    size_t kept;                /* number of entries for which disk space is kept, including those
                                   in use */
    bool is_kept_back;          /* nothing is written to the file until ol_transaction_index_store
                                   (see ol_transaction_index_begin) */
    bool is_dirty;              /* the file was changed since the last flush */
    bool is_new;  /* the name of the file may not be durable, because the directory was not flushed
                     after the file was created */
    bool writable;
} ol_transaction_index;

/* Reads the entries from the bytes of a file.  `entries` has space for size / 34 entries; if it is
 * NULL, the bytes are only checked.  Fails with OL_CORRUPT and error->position if
 * - the size is not a multiple of 34;
 * - a version is not 0;
 * - a first offset is above the last offset of the same entry;
 * - a last offset is below `base_offset` or not above that of the entry before.
 * The segment must then be recovered (docs/format/recovery.md §9.1). */
int ol_transaction_index_parse(ol_slice bytes, int64_t base_offset, ol_aborted_transaction *entries,
                               ol_error *error) OL_NODISCARD;

void ol_transaction_index_encode(uint8_t *target, const ol_aborted_transaction *entry);

/* Opens an index.  A file that does not exist is an empty index.  Fails with OL_CORRUPT if the file
 * cannot be parsed.  After a failure the caller need not close the index. */
int ol_transaction_index_open(ol_transaction_index *index, ol_fs *fs, const char *path,
                              int64_t base_offset, bool writable, ol_error *error) OL_NODISCARD;
void ol_transaction_index_close(ol_transaction_index *index);

/* ol_transaction_index_begin begins an empty index that will replace a file, whatever that file
 * contains.  Its entries are only in memory until ol_transaction_index_store replaces the file
 * atomically and durably.  If the process stops before that, the file is as it was.  Both functions
 * fail with OL_NO_MEMORY, and ol_transaction_index_store also with OL_IO or OL_DISK_FULL. */
int ol_transaction_index_begin(ol_transaction_index *index, ol_fs *fs, const char *path,
                               int64_t base_offset, ol_error *error) OL_NODISCARD;
int ol_transaction_index_store(ol_transaction_index *index, ol_error *error) OL_NODISCARD;

/* Appends an entry and writes it to the file.  Fails with OL_INVALID if the last offset of the
 * entry is below the base offset or not above that of the entry before.  After any failure the
 * index is as it was. */
int ol_transaction_index_append(ol_transaction_index *index, const ol_aborted_transaction *entry,
                                ol_error *error) OL_NODISCARD;

/* Ensures that appending `more` entries cannot fail for lack of memory.  On a file system that can
 * allocate space in advance, appending them cannot fail because of a full disk either.  The file is
 * created if it does not exist, and its length does not change.  A failure changes nothing, except
 * that it may leave an empty file. */
int ol_transaction_index_keep_space(ol_transaction_index *index, size_t more,
                                    ol_error *error) OL_NODISCARD;
/* Frees the space that is kept.  If the index has no entry, removes its file. */
int ol_transaction_index_trim(ol_transaction_index *index, ol_error *error) OL_NODISCARD;

/* ol_transaction_index_truncate drops the entries whose last offset is `offset` or above.
 * ol_transaction_index_reset drops all entries. */
int ol_transaction_index_truncate(ol_transaction_index *index, int64_t offset,
                                  ol_error *error) OL_NODISCARD;
int ol_transaction_index_reset(ol_transaction_index *index, ol_error *error) OL_NODISCARD;
int ol_transaction_index_flush(ol_transaction_index *index, ol_error *error) OL_NODISCARD;

/* Calls `visit` for each aborted transaction that overlaps [from, up_to).  If `visit` returns a
 * status other than OL_OK, the call ends and returns it.  Sets *complete if the last stable offset
 * of an entry is `up_to` or above; the indexes of later segments then need not be read. */
int ol_transaction_index_collect(const ol_transaction_index *index, int64_t from, int64_t up_to,
                                 int (*visit)(void *context, const ol_aborted_transaction *entry),
                                 void *context, bool *complete);

#endif
