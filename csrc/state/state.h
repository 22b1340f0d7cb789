/* state/state: the state that results from the log of one partition, and the functions that apply
 * the log to it.
 *
 * A state consists of the table of positions, the values of open transactions and the group records
 * (docs/architecture.md §2.1, docs/format/loading.md §6.3-6.4).  Three functions change it, in the
 * order of the log: ol_state_apply applies one change, ol_state_apply_run applies a run of plain
 * positions, and ol_state_end_transaction applies a marker.  Live commits, loads, followers and
 * replays of a cleaned log all use these three functions, so their results cannot differ.
 *
 * Ownership: the state owns its three parts.  The functions take no locks; the owner of the state
 * makes one change at a time and keeps readers out during each change.
 */
#ifndef OL_STATE_STATE_H
#define OL_STATE_STATE_H

#include "format/batch.h"
#include "format/key_shard.h"
#include "state/group_records.h"
#include "format/offset_record.h"
#include "state/pending.h"
#include "table/table.h"

/* The effects that a run of a log has on the state before the run; see state/run. */
typedef struct ol_run_effects ol_run_effects;

typedef struct ol_state {
    ol_table *table;
    ol_pending *pending;
    ol_group_records *group_records;
    int32_t value_version_max;      /* highest version of an applied offset value; -1: none */
    uint64_t unknown_records;       /* records of unknown kind, skipped */
    ol_run_effects *effects;        /* of a run (state/run); NULL in every other state */
} ol_state;

int ol_state_create(ol_state *state, ol_error *error) OL_NODISCARD;
void ol_state_destroy(ol_state *state);     /* a zeroed state is fine */

typedef enum ol_change_kind {
    OL_CHANGE_NONE,                 /* an unknown kind of record */
    OL_CHANGE_POSITION,             /* an offset commit */
    OL_CHANGE_POSITION_TOMBSTONE,
    OL_CHANGE_GROUP_RECORD,         /* any other known kind, by key */
    OL_CHANGE_GROUP_RECORD_TOMBSTONE,
} ol_change_kind;

/* One decoded record.  Its slices point into the bytes of the record. */
typedef struct ol_change {
    ol_change_kind kind;
    int64_t producer_id;            /* of its batch; -1 unless transactional */
    ol_pair_name name;              /* positions */
    int32_t partition;
    int16_t value_version;
    ol_position_value value;
    ol_group_record group_record;
    /* memory that a live commit has reserved before its append; NULL: ol_state_apply allocates
     * memory */
    const ol_reservation *reservation;
    ol_group_reservation *group_reservation;    /* the same, if a group record is put */
    /* if there is no reservation, the result of ol_table_settled or ol_table_prefetch_pair;
     * otherwise 0 */
    uint32_t pair_hint;
} ol_change;

/* Decodes a record of a batch.  `previous` is the preceding change of the same walk, or NULL.  If
 * it has the same group and topic, their hashes are copied from it.  Fails with OL_CORRUPT or
 * OL_UNSUPPORTED if a Kafka broker would refuse to load the partition because of the record;
 * error->offset is then the offset of the record. */
int ol_change_decode(const ol_state *state, const ol_batch *batch, const ol_record *record,
                     const ol_change *previous, ol_change *change, ol_error *error) OL_NODISCARD;

/* Applies one change.  If the change has a reservation, the call cannot fail.  Otherwise it may
 * fail with OL_NO_MEMORY; the state is then unchanged.  A value of a transactional batch becomes a
 * pending value; if the change has a reservation, the caller must have called ol_pending_reserve.
 * A tombstone takes effect at once, even in a transaction. */
int ol_state_apply(ol_state *state, const ol_change *change, ol_error *error) OL_NODISCARD;

/* Like ol_state_apply, for a run of plain positions of one pair of group and topic, in their order.
 * Plain positions are values outside transactions.  `value_version` is the highest version of these
 * values.  `hint` is the number of the pair, or 0 if the number is unknown.  The call cannot fail
 * if ol_table_run_settled returned true.  Otherwise it may fail with OL_NO_MEMORY or OL_LIMIT; the
 * rows before the failed one were then applied. */
int ol_state_apply_run(ol_state *state, uint32_t hint, const ol_pair_name *name,
                       const ol_position_row *rows, size_t count, int32_t value_version,
                       ol_error *error) OL_NODISCARD;

/* Applies an end-transaction marker.  A COMMIT marker installs the pending values of the producer
 * by the rule of docs/format/loading.md §6.4.  An ABORT marker drops them.  Any other marker does
 * nothing.  The call cannot fail. */
void ol_state_end_transaction(ol_state *state, int64_t producer_id, ol_control type);

/* Applies a whole batch from its bytes.  The records of a data batch are applied as by
 * ol_change_decode and ol_state_apply, and the marker of a control batch as by
 * ol_state_end_transaction.  If `refused` is not NULL, it is called for each record that cannot be
 * decoded, and the walk continues.  If it is NULL, the first such record ends the walk. */
typedef struct ol_refusal {
    void (*report)(void *context, const ol_batch *batch, const ol_error *error);
    void *context;
} ol_refusal;
int ol_state_apply_batch(ol_state *state, const ol_batch *batch,
                         const ol_decompressor *decompressor, const ol_refusal *refused,
                         ol_error *error) OL_NODISCARD;

/* Like ol_state_apply_batch, but applies only the records that are below a log offset and whose
 * keys belong to a shard (format/key_shard.h).  Markers are applied for every shard.  A key that
 * cannot be decoded is reported only for shard 0. */
typedef struct ol_state_share {
    ol_key_shard shard;
    int64_t until;
} ol_state_share;
int ol_state_apply_share(ol_state *state, const ol_batch *batch, const ol_state_share *share,
                         const ol_decompressor *decompressor, const ol_refusal *refused,
                         ol_error *error) OL_NODISCARD;

/* Returns true if a failure to read or apply a batch is not caused by damage, but by an interrupted
 * decompressor or a lack of memory.  The caller must then not skip the batch, because the state
 * would no longer match the log. */
static inline bool ol_state_is_no_damage(int status) {
    return status == OL_NO_MEMORY || status == OL_IO;
}

/* Returns the number of bytes that the state has allocated.  The time that this takes depends only
 * on the number of producers with open transactions. */
uint64_t ol_state_memory_usage(const ol_state *state);

/* The three sums of which the digest consists (docs/digest.md). */
typedef struct ol_digest {
    ol_hash128 positions;
    ol_hash128 group_records;
    ol_hash128 pending;
} ol_digest;
void ol_state_digest(const ol_state *state, bool physical, ol_digest *digest);

#endif
