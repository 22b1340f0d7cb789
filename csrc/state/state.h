/* state/state: the meaning of one partition's log, and the functions that apply it.
 *
 * A state is the table of positions, the values of open transactions and the group records
 * (docs/architecture.md §2.1, docs/format/loading.md §6.3-6.4).  It changes in log order, by
 * ol_state_apply for one change, ol_state_apply_run for a run of plain positions and
 * ol_state_end_transaction for a marker.  Live commits, loading, a follower and a replay of a
 * cleaned log all use these three, so their results cannot differ.
 *
 * Ownership: the state owns its three parts.  Locks: none in here; the owner serialises changes and
 * keeps readers out during each.
 */
#ifndef OL_STATE_STATE_H
#define OL_STATE_STATE_H

#include "format/batch.h"
#include "format/key_shard.h"
#include "state/group_records.h"
#include "format/offset_record.h"
#include "state/pending.h"
#include "table/table.h"

/* The effects of a run of a log on the state before it; see state/run. */
typedef struct ol_run_effects ol_run_effects;

typedef struct ol_state {
    ol_table *table;
    ol_pending *pending;
    ol_group_records *group_records;
    int32_t value_version_max;      /* highest version of an applied offset value; -1: none */
    uint64_t unknown_records;       /* records of unknown kind, skipped */
    ol_run_effects *effects;        /* NULL unless this is the state of a run */
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

/* One record, decoded.  Slices borrow from the record's bytes. */
typedef struct ol_change {
    ol_change_kind kind;
    int64_t producer_id;            /* of its batch; -1 unless transactional */
    ol_pair_name name;              /* positions */
    int32_t partition;
    int16_t value_version;
    ol_position_value value;
    ol_group_record group_record;
    /* memory that a live commit reserved before its append; NULL: ol_state_apply reserves it */
    const ol_reservation *reservation;
    ol_group_reservation *group_reservation;    /* the same for a group record that is put */
    /* without a reservation: the result of ol_table_settled or ol_table_prefetch_pair; else 0 */
    uint32_t pair_hint;
} ol_change;

/* Decodes a record of a batch.  `previous` is the change before it in the same walk, or NULL: if
 * group and topic are the same, their hashes are taken from it.  Fails with OL_CORRUPT or
 * OL_UNSUPPORTED where a Kafka broker would refuse to load the partition; error->offset is the
 * record's offset. */
int ol_change_decode(const ol_state *state, const ol_batch *batch, const ol_record *record,
                     const ol_change *previous, ol_change *change, ol_error *error) OL_NODISCARD;

/* Applies one change.  With a reservation it cannot fail; without one it may return OL_NO_MEMORY
 * with nothing changed.  A value of a transactional batch becomes pending (with a reservation,
 * ol_pending_reserve must have been called); a tombstone takes effect at once, also in a
 * transaction. */
int ol_state_apply(ol_state *state, const ol_change *change, ol_error *error) OL_NODISCARD;

/* Like ol_state_apply, for a run of plain positions of one pair, in their order: values outside
 * transactions, with `value_version` as the highest version among them.  `hint` is the pair's
 * number if known, or 0.  Cannot fail if ol_table_run_settled returned true; otherwise, after
 * OL_NO_MEMORY or OL_LIMIT, the rows before the failed one are applied. */
int ol_state_apply_run(ol_state *state, uint32_t hint, const ol_pair_name *name,
                       const ol_position_row *rows, size_t count, int32_t value_version,
                       ol_error *error) OL_NODISCARD;

/* Applies an end-transaction marker: COMMIT installs by the rule of docs/format/loading.md §6.4,
 * ABORT drops, others do nothing.  Cannot fail. */
void ol_state_end_transaction(ol_state *state, int64_t producer_id, ol_control type);

/* Applies a whole batch from its bytes: data records through decode and apply, control batches
 * through end_transaction.  `refused` (may be NULL) is called for each record that cannot be
 * decoded, and the walk continues; without it the first such record ends the walk. */
typedef struct ol_refusal {
    void (*report)(void *context, const ol_batch *batch, const ol_error *error);
    void *context;
} ol_refusal;
int ol_state_apply_batch(ol_state *state, const ol_batch *batch,
                         const ol_decompressor *decompressor, const ol_refusal *refused,
                         ol_error *error) OL_NODISCARD;

/* Like ol_state_apply_batch, but only for the records of a shard (format/key_shard.h) that are
 * below a log offset; ends of transactions count for every shard.  Only shard 0 reports keys that
 * cannot be decoded. */
typedef struct ol_state_share {
    ol_key_shard shard;
    int64_t until;
} ol_state_share;
int ol_state_apply_share(ol_state *state, const ol_batch *batch, const ol_state_share *share,
                         const ol_decompressor *decompressor, const ol_refusal *refused,
                         ol_error *error) OL_NODISCARD;

/* Returns whether a failure to read or apply a batch is not damage: an interrupted decompressor, or
 * no memory.  If the batch were skipped, the state would no longer match the log. */
static inline bool ol_state_is_no_damage(int status) {
    return status == OL_NO_MEMORY || status == OL_IO;
}

/* Returns the allocated bytes, in time that depends only on the number of producers with open
 * transactions. */
uint64_t ol_state_memory_usage(const ol_state *state);

/* The three sums of the digest: positions, group records, pending values (docs/digest.md). */
typedef struct ol_digest {
    ol_hash128 positions;
    ol_hash128 group_records;
    ol_hash128 pending;
} ol_digest;
void ol_state_digest(const ol_state *state, bool physical, ol_digest *digest);

#endif
