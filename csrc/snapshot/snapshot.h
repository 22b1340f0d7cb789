/* snapshot/snapshot: the state of a log at an offset S, and the file that holds it, so that a
 * restart replays only the batches at and above S (docs/maintenance.md).
 *
 * The file is a cache: it is discarded if anything about it is in doubt.  The functions here work
 * on a log and a state.  The functions of partition/snapshot_take.h take snapshots of a partition
 * and publish them.
 *
 * The file.  The file consists of sections, each with a size and a checksum.  The sections are the
 * facts about the log that the snapshot belongs to, the numbers of the table (table/dump.h), the
 * pending values, the group records, and the arenas of the table as they are in memory.  A
 * directory in the file lists the positions of the sections.  Python writes the file as an Arrow
 * IPC file with one row and one column for each section.  The engine reads it without Arrow, from
 * its end.  The last parts of the file are, in this order: the last column, which is the directory;
 * the end-of-stream mark; the footer; the length of the footer.  The engine reads the file into
 * memory and never changes it in place; a new file replaces it.
 *
 * Taking a snapshot.  A second state is built beside the live one.  It starts from the last
 * snapshot or from an empty state, and a replay of the log brings it to S.  Commits continue during
 * the replay, but the second state takes additional memory.  There are two ways that need no
 * replay: a snapshot can borrow a state that no longer changes, and it can copy a state that still
 * changes (table/copy.h).
 *
 * The bytes of the file are not trusted.  Everything is checked before it is used (table/dump.h),
 * so even a forged file can do no harm.
 *
 * Ownership: the caller that makes a snapshot owns it.  A snapshot is plain memory without locks,
 * and one thread at a time uses it.  A borrowed state must outlive the snapshot.  Unless its
 * comment says otherwise, a function that fails returns no snapshot, and nothing needs to be freed.
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
 * does not begin with a digit and does not end like the name of a file of Kafka. */
#define OL_SNAPSHOT_FILE "offsetlog-snapshot.arrow"

enum {
    OL_SNAPSHOT_VERSION = 4,
    OL_SNAPSHOT_OWN_SECTIONS = 4,
    OL_SNAPSHOT_SECTIONS = OL_SNAPSHOT_OWN_SECTIONS + OL_TABLE_SECTIONS,
    /* each block of a section has a checksum, and the checksum of the section is computed from
     * those of its blocks */
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

/* Encodes the directory of the sections.  The sections were sealed, and the caller has set their
 * positions. */
enum { OL_SNAPSHOT_DIRECTORY_SIZE = 8 + OL_SNAPSHOT_SECTIONS * 24 + 16 };
void ol_snapshot_put_directory(const ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
                               uint8_t bytes[OL_SNAPSHOT_DIRECTORY_SIZE]);

/* The log that a snapshot belongs to, and facts about it that only the owner of the log knows. */
typedef struct ol_snapshot_source {
    ol_log *log;
    const ol_decompressor *decompressor;
    int32_t number;             /* of the log partition; -1: unknown */
    uint64_t term;              /* changes with each truncation of the log */
} ol_snapshot_source;

/* ----------------------------------------------------------------------------------- taking one */

/* Creates a snapshot with an empty state, at the log start.  Fails with OL_NO_MEMORY. */
int ol_snapshot_begin(const ol_snapshot_source *source, ol_snapshot **snapshot,
                      ol_error *error) OL_NODISCARD;

/* Replays the log from the offset of the snapshot to the last batch that ends at or below `up_to`,
 * which must be flushed and at most W.  Fails with OL_CORRUPT if the log is damaged, or if the
 * snapshot came from a file and the log has a gap after the offset of the snapshot.  Fails with
 * OL_WOULD_BLOCK if the log was cleaned or truncated during the call; the caller may try again
 * later.  Fails with OL_CLOSED if *stop was set, and also with OL_NO_MEMORY or OL_IO.  After a
 * failure the caller can only destroy the snapshot. */
int ol_snapshot_advance(ol_snapshot *snapshot, const ol_snapshot_source *source, int64_t up_to,
                        const atomic_bool *stop, ol_error *error) OL_NODISCARD;

/* Makes a snapshot that borrows a state at `offset`, the log end.  Nothing may change the state
 * until the snapshot is destroyed.  `own` names the transactions that the partition itself began
 * and that are open in the state (state/own_transactions).  `max_timestamp` is the greatest
 * timestamp of the batches below `offset`.  Fails with OL_NO_MEMORY or OL_IO. */
int ol_snapshot_borrow(const ol_snapshot_source *source, const ol_state *state,
                       const ol_own_transactions *own, int64_t offset, int64_t max_timestamp,
                       ol_snapshot **snapshot, ol_error *error) OL_NODISCARD;

/* A snapshot can copy a state that keeps changing, in four steps:
 *
 *   1. The caller calls ol_snapshot_begin.
 *   2. The caller copies the table into ol_snapshot_copied_table.
 *   3. The caller stops all changes and calls ol_snapshot_keep_rest, which copies the rest.
 *   4. Without any lock, the caller calls ol_snapshot_find_log, which reads the facts about the
 *      log.
 *
 * `own` is as for ol_snapshot_borrow.  The functions fail with OL_NO_MEMORY.  ol_snapshot_find_log
 * also fails with OL_IO, or with OL_WOULD_BLOCK if the log changed during the call.  A copied
 * snapshot can be sealed and reported, but it has no digest and cannot be advanced or swapped. */
ol_table *ol_snapshot_copied_table(ol_snapshot *snapshot);
int ol_snapshot_keep_rest(ol_snapshot *snapshot, const ol_snapshot_source *source,
                          const ol_state *state, const ol_own_transactions *own, int64_t offset,
                          int64_t max_timestamp, ol_error *error) OL_NODISCARD;
int ol_snapshot_find_log(ol_snapshot *snapshot, const ol_snapshot_source *source,
                         ol_error *error) OL_NODISCARD;
bool ol_snapshot_is_copied(const ol_snapshot *snapshot);

/* Encodes the snapshot and fills `sections`.  The data of the sections points into the snapshot.
 * At most `threads` threads compute the checksums.  Fails with OL_NO_MEMORY, or with OL_LIMIT if
 * more than OL_SNAPSHOT_OWN_MAX transactions that the partition itself began are open. */
int ol_snapshot_seal(ol_snapshot *snapshot, unsigned threads,
                     ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
                     ol_error *error) OL_NODISCARD;

/* Returns the term of the source at the time when the snapshot was begun, last advanced or
 * borrowed.  Returns 0 for a snapshot from a file. */
uint64_t ol_snapshot_term(const ol_snapshot *snapshot);

/* ------------------------------------------------------------------------------------ using one */

/* Reads a snapshot from a file, with at most `threads` threads.  Fails with OL_CORRUPT or
 * OL_UNSUPPORTED if the file cannot be used; the error gives the reason.  Can also fail with
 * OL_NO_SUCH_FILE, OL_IO or OL_NO_MEMORY. */
int ol_snapshot_open(ol_fs *fs, const char *path, unsigned threads, ol_snapshot **snapshot,
                     ol_error *error) OL_NODISCARD;

/* Reads the mark of the log (log/mark.h) from the snapshot in a file.  With the mark, an open need
 * not read the log below S.  The call checks nothing else, so the snapshot may still turn out to be
 * unusable.  If the snapshot has no mark, mark->offset is 0.  The caller frees *mark.  Fails as
 * ol_snapshot_open does. */
int ol_snapshot_file_mark(ol_fs *fs, const char *path, ol_log_mark *mark,
                          ol_error *error) OL_NODISCARD;

/* Checks that the snapshot belongs to the log in its present state.  The log must not be damaged.
 * The number of the log partition, the topic id, the leader epochs and the log start must be those
 * of the snapshot.  `cleaned_to` is the offset up to which another program has cleaned the log, or
 * -1 if that is unknown; S must not be below it.  The last batches below S must be in the log as
 * they were appended.  Only below `cleaned_to` may they differ in the ways in which a cleaner
 * changes or removes batches.  If a cleaner has changed or removed the very last of these batches,
 * the newest positions of the state must be in the log, too.  Fails with OL_INVALID and the reason.
 * The part of the log from S on is checked by the load (ol_snapshot_gap). */
int ol_snapshot_check(const ol_snapshot *snapshot, const ol_snapshot_source *source,
                      int64_t cleaned_to, ol_error *error) OL_NODISCARD;

/* Checks whether a batch may be applied to a snapshot's state.  The batch must show that no records
 * are missing, neither in the batch nor between it and the preceding batch.  `next_offset` is the
 * offset after the preceding batch.  Returns NULL if the batch may be applied, otherwise the reason
 * why not. */
const char *ol_snapshot_gap(const ol_batch *batch, int64_t next_offset);

/* Exchanges the state of the snapshot for *state, and its open own transactions for *own.  The
 * snapshot must come from a file and must not borrow its state.  The caller holds the locks of
 * *state. */
void ol_snapshot_swap_state(ol_snapshot *snapshot, ol_state *state, ol_own_transactions *own);

/* ---------------------------------------------------------------------------------------- facts */

typedef struct ol_snapshot_facts {
    int64_t offset;             /* S: the snapshot is the state of all records below it */
    int64_t log_start;
    int64_t max_timestamp;      /* of all batches below S; -1: none */
    uint64_t positions;
    uint64_t pending;
    uint64_t group_records;
} ol_snapshot_facts;
void ol_snapshot_report(const ol_snapshot *snapshot, ol_snapshot_facts *facts);

/* Return the snapshot's state and the digest of that state, for a comparison with another state. */
const ol_state *ol_snapshot_state(const ol_snapshot *snapshot);
void ol_snapshot_digest(const ol_snapshot *snapshot, bool physical, ol_digest *digest);

void ol_snapshot_destroy(ol_snapshot *snapshot);        /* NULL is fine */

#endif
