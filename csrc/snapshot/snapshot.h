/* snapshot/snapshot: the state of a partition at a log offset S, in a file beside its log, so that a restart replays only what stands at and above S
 * (docs/maintenance.md).  It is a cache: whatever makes it doubtful discards it.
 *
 * What is in the file.  Sections, each with its size and checksum: facts (what it is a snapshot of), numbers, pending values, group records, and the arenas of
 * the table as they lie in memory; and a directory that says where they lie.  The file is an Arrow IPC file of one row with a column for each of them, written
 * by the floor above; it is read here without Arrow, by its end: the directory is the last column, so that it stands before the end-of-stream mark and the
 * footer, whose length stands at the end of the file.  It is read into memory of the process, and never changed in place: a new one takes its name.
 *
 * Taking one.  A second state is made beside the partition's: that of the last snapshot, or none, and the log up to S.  It reads the log as any reader does,
 * so that commits go on; it costs the memory of a second table for that time.  A partition that is about to be closed lends its own state.
 *
 * Bytes of the file are hostile: everything is checked before it is used (table/dump.h), and no file does harm.
 *
 * Ownership: a snapshot is its maker's, plain memory, no locks; one thread at a time.  It does not outlive the partition it borrows a state of.
 */
#ifndef OL_SNAPSHOT_SNAPSHOT_H
#define OL_SNAPSHOT_SNAPSHOT_H

#include <stdatomic.h>

#include "partition/partition.h"
#include "table/dump.h"

/* In the partition's directory.  Kafka does not touch it: it neither begins with a digit nor ends as a file of Kafka's does. */
#define OL_SNAPSHOT_FILE "offsetlog-snapshot.arrow"

enum {
    OL_SNAPSHOT_VERSION = 3,
    OL_SNAPSHOT_OWN_SECTIONS = 4,
    OL_SNAPSHOT_SECTIONS = OL_SNAPSHOT_OWN_SECTIONS + OL_TABLE_SECTIONS,
    OL_SNAPSHOT_BLOCK_SIZE = 4 << 20,       /* of a checksum; a section's is that of the checksums of its blocks */
};

typedef struct ol_snapshot_section {
    const char *name;
    const uint8_t *data;
    size_t size;                /* bytes */
    int64_t position;           /* of data[0] in the file: told by who writes it */
    uint32_t crc;
} ol_snapshot_section;

/* The names of the sections, by index. */
const char *ol_snapshot_section_name(int index);

/* The directory of sections that were sealed and given their places. */
enum { OL_SNAPSHOT_DIRECTORY_SIZE = 8 + OL_SNAPSHOT_SECTIONS * 24 + 16 };
void ol_snapshot_put_directory(const ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS], uint8_t bytes[OL_SNAPSHOT_DIRECTORY_SIZE]);

/* ------------------------------------------------------------------------------------------------ taking one */

/* An empty state, at the log start of a loaded partition: nothing was replayed. */
int ol_snapshot_begin(ol_partition *partition, ol_snapshot **snapshot, ol_error *error) OL_NODISCARD;

/* Replays the log from where the snapshot ends to the last batch that ends at or below `up_to`, which is at most what is flushed and at most W.
 * OL_CORRUPT: the log has damage, or from what came from a file a gap, so that it cannot go on from there.  OL_WOULD_BLOCK: the log was cleaned or
 * truncated meanwhile, try again later.  OL_CLOSED: *stop was set.  OL_NO_MEMORY, OL_IO.  After any of them it can only be destroyed. */
int ol_snapshot_advance(ol_snapshot *snapshot, ol_partition *partition, int64_t up_to, const atomic_bool *stop, ol_error *error) OL_NODISCARD;

/* The partition's own state, at the log end, which is flushed: for a lone partition that is being closed.  Until the snapshot is destroyed, nothing else may
 * be called with the partition.  OL_INVALID when it is not active, has problems, or is not flushed. */
int ol_snapshot_borrow(ol_partition *partition, ol_snapshot **snapshot, ol_error *error) OL_NODISCARD;

/* Writes down what is to be written, and fills the sections, which borrow from the snapshot, with so many threads for the checksums. */
int ol_snapshot_seal(ol_snapshot *snapshot, unsigned threads, ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS], ol_error *error) OL_NODISCARD;

/* Puts the file that was written and flushed as `temporary` in the place of the partition's snapshot, and flushes the directory.  OL_WOULD_BLOCK: the log was
 * truncated since the snapshot was begun; the temporary file is removed. */
int ol_snapshot_publish(const ol_snapshot *snapshot, ol_partition *partition, const char *temporary, ol_error *error) OL_NODISCARD;

/* Removes the partition's snapshot, durably; that there is none is fine. */
int ol_snapshot_remove(ol_partition *partition, ol_error *error) OL_NODISCARD;

/* The offset of the snapshot that the partition was loaded from, or that took its place since; -1 for none. */
int64_t ol_snapshot_file_offset(const ol_partition *partition);

/* Bytes of log that a load would read now, about: what stands behind that snapshot, or all of it. */
int64_t ol_snapshot_tail_bytes(const ol_partition *partition);

/* ------------------------------------------------------------------------------------------------ using one */

/* A state from a file.  So many threads help.  OL_NO_SUCH_FILE; OL_CORRUPT or
 * OL_UNSUPPORTED say why it cannot be used; OL_IO, OL_NO_MEMORY. */
int ol_snapshot_open(ol_fs *fs, const char *path, unsigned threads, ol_snapshot **snapshot, ol_error *error) OL_NODISCARD;

/* Whether it is of this partition's log as it is now, which is sound: number of the log partition, topic id, leader epochs, log start; that S is not below
 * `cleaned_to`, the offset up to which somebody cleaned the log (-1: unknown); and that the last batches below S stand in the log as they were
 * appended.  Those below `cleaned_to` may be as a cleaner leaves them; where the last one is, the newest positions have to stand in the log.
 * OL_INVALID with the reason.  What stands at and above S is for the load to see. */
int ol_snapshot_check(const ol_snapshot *snapshot, ol_partition *partition, int64_t cleaned_to, ol_error *error) OL_NODISCARD;

/* ol_partition_load, from a checked snapshot's state on; the snapshot is used up in any case.  The first thing at or above S that is no proof against something
 * missing (a gap, a batch that was cleaned, no batch up to the log end) drops the state, and everything is loaded from the log: see ol_partition_snapshot_discarded. */
int ol_partition_load_from(ol_partition *partition, ol_snapshot *snapshot, ol_error *error) OL_NODISCARD;

/* ------------------------------------------------------------------------------------------------ facts */

typedef struct ol_snapshot_facts {
    int64_t offset;             /* S: everything below is in it, nothing else */
    int64_t log_start;
    int64_t max_timestamp;      /* of the batches below S; -1 none */
    uint64_t positions;
    uint64_t pending;
    uint64_t group_records;
} ol_snapshot_facts;
void ol_snapshot_report(const ol_snapshot *snapshot, ol_snapshot_facts *facts);

/* Its state, and the digest of it: for proofs. */
const ol_state *ol_snapshot_state(const ol_snapshot *snapshot);
void ol_snapshot_digest(const ol_snapshot *snapshot, bool physical, ol_digest *digest);

void ol_snapshot_destroy(ol_snapshot *snapshot);        /* NULL is fine */

#endif
