/* snapshot/snapshot: the state of a log at an offset S, and the file that holds it, so that a
 * restart replays only the batches at and above S (docs/maintenance.md).
 *
 * The file is a cache: it is discarded if anything about it is in doubt.  The functions here take a
 * log and a state; partition/snapshot_take.h takes snapshots of a partition and publishes them.
 *
 * The file.  It has sections, each with a size and a checksum: facts (about the log that the
 * snapshot belongs to), numbers, pending values, group records, and the arenas of the table as they
 * are in memory.  A directory gives their positions.  The file is an Arrow IPC file of one row with
 * a column for each section, written by Python.  The engine reads it without Arrow, from its end:
 * the directory is the last column, so it is just before the end-of-stream mark and the footer, and
 * the file ends with the footer's length.  The file is read into memory and never changed in place;
 * a new file replaces it.
 *
 * Taking a snapshot.  A second state is built beside the live one, from the last snapshot (or from
 * nothing) and the log up to S.  The log is read as by any reader, so commits continue; meanwhile a
 * second table takes memory.  Without a replay, a state that no longer changes can be borrowed
 * instead, and one that still changes can be copied (table/copy.h).
 *
 * Bytes of the file are hostile: everything is checked before it is used (table/dump.h), so no file
 * can do harm.
 *
 * Ownership: a snapshot belongs to its maker and is plain memory without locks; one thread at a
 * time.  A borrowed state must outlive the snapshot.  After a failure nothing is returned and
 * nothing needs to be freed, unless a call says otherwise.
 */
#ifndef OL_SNAPSHOT_SNAPSHOT_H
#define OL_SNAPSHOT_SNAPSHOT_H

#include <stdatomic.h>

#include "log/log.h"
#include "state/own_transactions.h"
#include "state/state.h"
#include "table/dump.h"

typedef struct ol_snapshot ol_snapshot;

/* The file's name in the directory of the log.  Kafka does not touch the file, because its name
 * neither begins with a digit nor ends like that of a file of Kafka's. */
#define OL_SNAPSHOT_FILE "offsetlog-snapshot.arrow"

enum {
    OL_SNAPSHOT_VERSION = 4,
    OL_SNAPSHOT_OWN_SECTIONS = 4,
    OL_SNAPSHOT_SECTIONS = OL_SNAPSHOT_OWN_SECTIONS + OL_TABLE_SECTIONS,
    /* each block has a checksum; that of a section covers them */
    OL_SNAPSHOT_BLOCK_SIZE = 4 << 20,
};

typedef struct ol_snapshot_section {
    const char *name;
    const uint8_t *data;
    size_t size;                /* bytes */
    int64_t position;           /* of data[0] in the file; set by the writer of the file */
    uint32_t crc;
} ol_snapshot_section;

/* Returns the name of a section, by index. */
const char *ol_snapshot_section_name(int index);

/* Encodes the directory of sections that were sealed and whose positions were set. */
enum { OL_SNAPSHOT_DIRECTORY_SIZE = 8 + OL_SNAPSHOT_SECTIONS * 24 + 16 };
void ol_snapshot_put_directory(const ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
                               uint8_t bytes[OL_SNAPSHOT_DIRECTORY_SIZE]);

/* The log that a snapshot belongs to, and the facts that only the owner of the log knows. */
typedef struct ol_snapshot_source {
    ol_log *log;
    const ol_decompressor *decompressor;
    int32_t number;             /* of the log partition; -1: unknown */
    uint64_t term;              /* changes with each truncation of the log */
} ol_snapshot_source;

/* ----------------------------------------------------------------------------------- taking one */

/* Begins a snapshot with an empty state at the log start.  Fails with OL_NO_MEMORY. */
int ol_snapshot_begin(const ol_snapshot_source *source, ol_snapshot **snapshot,
                      ol_error *error) OL_NODISCARD;

/* Replays the log from where the snapshot ends to the last batch that ends at or below `up_to`.
 * Everything below `up_to` must be flushed and committed (below W).  Fails with OL_CORRUPT if the
 * log has damage, or if the snapshot came from a file and the log has a gap after it; with
 * OL_WOULD_BLOCK if the log was cleaned or truncated meanwhile (try again later); with OL_CLOSED if
 * *stop was set; with OL_NO_MEMORY or OL_IO.  After a failure the snapshot can only be
 * destroyed. */
int ol_snapshot_advance(ol_snapshot *snapshot, const ol_snapshot_source *source, int64_t up_to,
                        const atomic_bool *stop, ol_error *error) OL_NODISCARD;

/* Makes a snapshot that borrows a state at `offset`, the log end.  Nothing may change the state
 * until the snapshot is destroyed.  `own` holds the open own transactions of the state
 * (state/own_transactions).  `max_timestamp` is the greatest of the batches below `offset`.  Fails
 * with OL_NO_MEMORY or OL_IO. */
int ol_snapshot_borrow(const ol_snapshot_source *source, const ol_state *state,
                       const ol_own_transactions *own, int64_t offset, int64_t max_timestamp,
                       ol_snapshot **snapshot, ol_error *error) OL_NODISCARD;

/* Copying a state that keeps changing:
 *
 *   1. ol_snapshot_begin;
 *   2. the caller copies the table into ol_snapshot_copied_table;
 *   3. ol_snapshot_keep_rest takes everything else once that copy is finished, while nothing
 *      changes;
 *   4. ol_snapshot_find_log, without any lock, reads what the snapshot says about its log.
 *
 * `own` is as for ol_snapshot_borrow.  The calls fail with OL_NO_MEMORY, the last one also with
 * OL_IO, or with OL_WOULD_BLOCK if the log changed meanwhile.  Such a snapshot can be sealed and
 * reported; it has no digest, and cannot be advanced or swapped. */
ol_table *ol_snapshot_copied_table(ol_snapshot *snapshot);
int ol_snapshot_keep_rest(ol_snapshot *snapshot, const ol_snapshot_source *source,
                          const ol_state *state, const ol_own_transactions *own, int64_t offset,
                          int64_t max_timestamp, ol_error *error) OL_NODISCARD;
int ol_snapshot_find_log(ol_snapshot *snapshot, const ol_snapshot_source *source,
                         ol_error *error) OL_NODISCARD;
bool ol_snapshot_is_copied(const ol_snapshot *snapshot);

/* Encodes the snapshot and fills the sections, which borrow from it, with at most `threads` threads
 * for the checksums.  Fails with OL_NO_MEMORY, or with OL_LIMIT if more than OL_SNAPSHOT_OWN_MAX
 * own transactions are open. */
int ol_snapshot_seal(ol_snapshot *snapshot, unsigned threads,
                     ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
                     ol_error *error) OL_NODISCARD;

/* Returns the term that the source had when the snapshot was begun, last advanced or borrowed; 0
 * for a snapshot from a file. */
uint64_t ol_snapshot_term(const ol_snapshot *snapshot);

/* ------------------------------------------------------------------------------------ using one */

/* Reads a snapshot from a file, with at most `threads` threads.  Fails with OL_CORRUPT or
 * OL_UNSUPPORTED if the file cannot be used; the error says why.  Fails also with OL_NO_SUCH_FILE,
 * OL_IO or OL_NO_MEMORY. */
int ol_snapshot_open(ol_fs *fs, const char *path, unsigned threads, ol_snapshot **snapshot,
                     ol_error *error) OL_NODISCARD;

/* Reads from the snapshot in a file the facts about its log (log/mark.h), with which an open need
 * not read the log below S.  Nothing else is checked, so the snapshot may still turn out to be
 * unusable.  The caller frees *mark; its offset is 0 if the snapshot has none.  Fails as
 * ol_snapshot_open. */
int ol_snapshot_file_mark(ol_fs *fs, const char *path, ol_log_mark *mark,
                          ol_error *error) OL_NODISCARD;

/* Checks that the snapshot belongs to this log as it is now; the log must be undamaged.  The number
 * of the log partition, the topic id, the leader epochs and the log start must agree.  S must not
 * be below `cleaned_to`, the offset up to which another program cleaned the log (-1: unknown).  The
 * last batches below S must be in the log as they were appended.  Batches below `cleaned_to` may
 * look as a cleaner leaves them; if the last batch is one of these, the newest positions must be in
 * the log.  Fails with OL_INVALID and the reason.  The load checks what is at and above S
 * (ol_snapshot_gap). */
int ol_snapshot_check(const ol_snapshot *snapshot, const ol_snapshot_source *source,
                      int64_t cleaned_to, ol_error *error) OL_NODISCARD;

/* Returns NULL if a batch proves that nothing is missing before or in it, so that a snapshot's
 * state may continue with it; otherwise the reason why not.  `next_offset` is where the batch
 * before it ended. */
const char *ol_snapshot_gap(const ol_batch *batch, int64_t next_offset);

/* Exchanges the state of a snapshot from a file, and its open own transactions, with the caller's.
 * Asserts that the snapshot came from a file and borrows nothing.  The caller holds the locks of
 * its state. */
void ol_snapshot_swap_state(ol_snapshot *snapshot, ol_state *state, ol_own_transactions *own);

/* ---------------------------------------------------------------------------------------- facts */

typedef struct ol_snapshot_facts {
    int64_t offset;             /* S: the snapshot holds everything below it, nothing else */
    int64_t log_start;
    int64_t max_timestamp;      /* the greatest of the batches below S; -1: none */
    uint64_t positions;
    uint64_t pending;
    uint64_t group_records;
} ol_snapshot_facts;
void ol_snapshot_report(const ol_snapshot *snapshot, ol_snapshot_facts *facts);

/* Return the snapshot's state and its digest, to compare them with another state. */
const ol_state *ol_snapshot_state(const ol_snapshot *snapshot);
void ol_snapshot_digest(const ol_snapshot *snapshot, bool physical, ol_digest *digest);

void ol_snapshot_destroy(ol_snapshot *snapshot);        /* NULL is fine */

#endif
