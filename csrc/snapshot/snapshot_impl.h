/* snapshot/snapshot_impl: the structure of a snapshot and the calls that the files in snapshot/
 * share.
 *
 *   snapshot   makes and destroys snapshots, and checks which log they belong to
 *   witness    finds the witnesses in a log, and compares a log with them
 *   encode     converts facts, pending values and group records to bytes and back
 *   open       reads a snapshot from a file, and lists its sections
 *   blocks     reads the sections from a file, and computes their checksums
 */
#ifndef OL_SNAPSHOT_SNAPSHOT_IMPL_H
#define OL_SNAPSHOT_SNAPSHOT_IMPL_H

#include "snapshot/snapshot.h"

/* A witness is one of the last batches below S.  If a log has the witnesses of a snapshot, the
 * snapshot belongs to that log (snapshot/witness.c). */
typedef struct ol_snapshot_witness {
    int64_t base_offset;
    int64_t last_offset;
    int64_t producer_id;
    int32_t leader_epoch;
    int32_t record_count;
    uint32_t crc;
    int16_t producer_epoch;
    int8_t magic;
} ol_snapshot_witness;

enum { OL_SNAPSHOT_WITNESSES = 8 };

struct ol_snapshot {
    ol_state state;
    bool borrowed;              /* the state belongs to the caller */
    bool copied;                /* the snapshot holds only the table of the state; the blobs hold
                                   the rest */
    bool from_file;             /* if true, a gap in the log after `offset` is an error */
    int64_t offset;
    int64_t log_start;
    int64_t max_timestamp;
    int32_t number;  /* of the log partition, from its directory's name; -1: unknown */
    bool has_topic_id;
    uint8_t topic_id[OL_TOPIC_ID_SIZE];
    ol_own_transactions own;
    ol_snapshot_witness witnesses[OL_SNAPSHOT_WITNESSES];   /* a ring */
    uint64_t batches_seen;      /* how many batches have become witnesses */
    ol_log_mark mark;           /* of the log at `offset`, if there is one */
    ol_leader_epoch *epochs;    /* that begin below `offset` */
    size_t epoch_count;
    uint64_t term;              /* the source's term when the snapshot was begun or last advanced */
    uint64_t pending_count;
    uint64_t group_record_count;    /* of a copied snapshot */
    uint8_t *blobs[OL_SNAPSHOT_OWN_SECTIONS];
    size_t blob_sizes[OL_SNAPSHOT_OWN_SECTIONS];
};

enum { OL_SNAPSHOT_OWN_MAX = 4096 };   /* the most own transactions in a file */

enum { OL_SNAPSHOT_FACTS, OL_SNAPSHOT_NUMBERS, OL_SNAPSHOT_PENDING, OL_SNAPSHOT_GROUP_RECORDS };

int ol_snapshot_create(ol_snapshot **snapshot, ol_error *error) OL_NODISCARD;

/* Records an applied batch as the newest witness. */
void ol_snapshot_record_witness(ol_snapshot *snapshot, const ol_batch *batch);

/* Return the number of witnesses, and the witness with a given index in log order. */
size_t ol_snapshot_witness_count(const ol_snapshot *snapshot);
const ol_snapshot_witness *ol_snapshot_witness_at(const ol_snapshot *snapshot, size_t index);

/* Reads the witnesses (the last batches below S) from the log, for a snapshot whose state was not
 * made by a replay of the log. */
int ol_snapshot_find_witnesses(ol_snapshot *snapshot, ol_log *log, ol_error *error) OL_NODISCARD;

/* Checks that the log has the witnesses of the snapshot.  A witness below `cleaned_to` may differ
 * from its batch in the log in the ways in which a cleaner may change a batch.  Fails with
 * OL_INVALID and the reason. */
int ol_snapshot_prove(const ol_snapshot *snapshot, const ol_snapshot_source *source,
                      int64_t cleaned_to, ol_error *error) OL_NODISCARD;

/* ol_snapshot_put_blobs encodes the facts, the numbers of the table, the pending values and the
 * group records into the blobs.  For a copied snapshot it encodes only the facts.
 * ol_snapshot_put_state encodes all but the facts, from any state. */
int ol_snapshot_put_blobs(ol_snapshot *snapshot, ol_error *error) OL_NODISCARD;
int ol_snapshot_put_state(ol_snapshot *snapshot, const ol_state *state,
                          ol_error *error) OL_NODISCARD;

/* Decode the blobs.  The caller decodes the facts first.  The pending values are decoded in two
 * calls.  ol_snapshot_take_held returns the reservations that the table must hold for the values.
 * After the caller has restored the table, ol_snapshot_take_pending restores the values. */
int ol_snapshot_take_facts(ol_snapshot *snapshot, ol_slice bytes, ol_error *error) OL_NODISCARD;
int ol_snapshot_take_held(ol_slice bytes, ol_reservation **held, size_t *count,
                          ol_error *error) OL_NODISCARD;
int ol_snapshot_take_pending(ol_snapshot *snapshot, ol_slice bytes, ol_error *error) OL_NODISCARD;
int ol_snapshot_take_group_records(ol_snapshot *snapshot, ol_slice bytes,
                                   ol_error *error) OL_NODISCARD;

/* Compute the checksums of the sections from their data, with at most `threads` threads.
 * ol_snapshot_read first reads the data of each section from its position in a file.  It fails with
 * OL_CORRUPT if the file is truncated. */
int ol_snapshot_checksum(ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS], unsigned threads,
                         ol_error *error) OL_NODISCARD;
int ol_snapshot_read(ol_fs *fs, ol_file *file, ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
                     unsigned threads, ol_error *error) OL_NODISCARD;

/* Returns how many of `threads` threads should be used for sections of this total size: at least
 * one, and at most OL_PARALLEL_WORKERS_MAX. */
unsigned ol_snapshot_threads(const ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
                             unsigned threads);

#endif
