/* partition/commit/commit_impl: one running commit, shared by the files of the commit path
 * (docs/architecture.md §4).
 *
 * Files:
 *   commit      has the entry points: takes locks, checks the role, has the variant that never
 *               waits, and calls the steps of one batch in their order (write_one_batch)
 *   fast_path   commits positions whose keys the table already has, without a plan
 *   plan        checks names, sizes and conditions, and makes headers; changes nothing
 *   write       has the steps of one batch: reserve memory, encode, publish, apply
 *   oversize    commits items that do not fit one batch
 *
 * The caller of every function here holds the partition's writer lock.
 */
#ifndef OL_PARTITION_COMMIT_COMMIT_IMPL_H
#define OL_PARTITION_COMMIT_COMMIT_IMPL_H

#include "format/batch_write.h"
#include "partition/partition_impl.h"

enum { OL_COMMIT_TRY_BYTES_MAX = 4096 };    /* above it the caller releases the GIL */

/* One item that is being put into a batch. */
typedef struct ol_planned {
    const ol_item *item;
    ol_pair_name name;              /* (group, topic); for a group record, only the group */
    union {                         /* valid if `reserved` */
        ol_reservation reservation;                 /* positions */
        ol_group_reservation *group_reservation;    /* group records that are put */
    };
    size_t key_size;
    int64_t value_size;             /* -1 null */
    uint32_t settled_pair;          /* the pair, if no reservation is needed (ol_table_settled);
                                       otherwise 0 */
    int64_t log_offset;             /* of a record that is applied only after a COMMIT marker */
    int16_t value_version;
    bool reserved;
} ol_planned;

/* Rows of one pair (group, topic) that are being put into a batch (ol_commit_fast_path). */
typedef struct ol_commit_run {
    ol_pair_name name;
    uint32_t pair;
    size_t first_row;
    size_t key_size;
} ol_commit_run;

/* One call of ol_partition_commit. */
typedef struct ol_commit {
    ol_partition *partition;
    ol_planned *planned;
    size_t count;               /* number of planned items, which are those that will be written */
    int64_t producer_id;
    int16_t producer_epoch;
    int64_t timestamp;          /* of its batches */
    int64_t position_time;      /* of positions whose commit timestamp the caller did not give */
    bool has_tombstones;        /* there are tombstones or group records, which must not be split
                                   over several batches */
    bool own_transaction;       /* this is a transaction of the store's own, whose values are
                                   applied after its COMMIT marker */
    bool may_settle;            /* until the values are applied, nothing else changes the table */
    bool never_waits;           /* return OL_WOULD_BLOCK instead of waiting for a lock, the disk or
                                   memory */
    bool table_locked;          /* the caller holds the table lock from before the reservation until
                                   after the apply */
    uint8_t headers[OL_COMMIT_HEADERS_MAX];  /* of the first record of a batch */
    size_t headers_size;
    int32_t header_count;
    ol_commit_result *result;
} ol_commit;

/* Writes the commit by the fast path if this is possible, and sets *done to true.  Otherwise sets
 * *done to false and changes nothing; the caller must then call ol_commit_plan.
 * ol_commit_plan_time must have been called before. */
int ol_commit_fast_path(ol_commit *work, const ol_item *items, size_t count, bool *done,
                        ol_error *error);

/* Does the same as ol_commit_fast_path for rows. */
int ol_commit_fast_path_rows(ol_commit *work, const ol_row_run *runs, size_t run_count,
                             ol_position_row *rows, size_t row_count, bool *done, ol_error *error);

/* ol_commit_plan fills work->planned from the items and checks every condition.
 * ol_commit_plan_time sets the times, and must be called first. */
int ol_commit_plan(ol_commit *work, const ol_item *items, size_t count, ol_error *error);
void ol_commit_plan_time(ol_commit *work);

/* Fills in the headers of the first record of the next batch, with the flushed bound of the log
 * (ol_log_take_flushed_record). */
void ol_commit_plan_headers(ol_commit *work);

/* Returns the highest version of offset values that may be written, because every broker that reads
 * the log is known to read it.  A broker before 2.1 refuses to load a partition that has a value of
 * a version above 1.  A broker before 4.1 refuses one that has a value of version 4.
 *
 * The result depends on the versions of the values that the log already has.  These are the values
 * in the state, and the values that this leader has written and not yet applied.
 * - If only offsetlog wrote the log, the result is 4 if the log has a value of version 4, and
 *   otherwise 3.
 * - If another program wrote a part of the log, the result is the highest version that the log has,
 *   but at least 1.
 *   If the log has no value, the result is 3.  If no value is known, but older values may not have
 *   been applied yet, the result is 1, which all brokers read.
 * The option `value_v4` can set the result to 4, or limit it to 3. */
int16_t ol_commit_known_value_version(const ol_partition *partition);

/* Returns the value of an item as it is written. */
ol_offset_value ol_commit_encoded_value(const ol_commit *work, const ol_item *item);

/* ol_commit_record_size returns the size of a planned record at `index` of its batch.
 * ol_commit_batch_size returns the size of the batch of planned[from, to). */
size_t ol_commit_record_size(const ol_commit *work, const ol_planned *planned, size_t index);
size_t ol_commit_batch_size(const ol_commit *work, size_t from, size_t to);

/* Reserves the bytes of a batch of `count` records in the log (ol_log_reserve). */
int ol_commit_reserve_place(const ol_commit *work, size_t size, size_t count, uint8_t **start,
                            int64_t *base_offset, ol_error *error) OL_NODISCARD;

/* ol_commit_reserve_all reserves all memory that will be needed to apply the planned items.  While
 * the partition loads, it reserves none.  ol_commit_release releases what was reserved for the
 * items from index `from` on. */
int ol_commit_reserve_all(ol_commit *work, ol_error *error) OL_NODISCARD;
void ol_commit_release(ol_commit *work, size_t from);

/* Prefetches the cells of a small commit from memory, so that they arrive while it is encoded. */
void ol_commit_prefetch(const ol_commit *work);

/* Encodes planned[from, to) into the `size` bytes that the log has reserved.  The bytes become a
 * batch only when ol_commit_publish seals them.  A caller that gives them up must set them to
 * zero. */
void ol_commit_encode(const ol_commit *work, size_t from, size_t to, uint8_t *start, size_t size);

ol_batch_fields ol_commit_batch_fields(const ol_commit *work, int64_t base_offset, size_t count);

/* Take and release the partition's table lock.  If work->table_locked is true, both functions do
 * nothing. */
void ol_commit_lock_table(ol_commit *work);
void ol_commit_unlock_table(ol_commit *work);

/* Seals, publishes and applies the encoded items.  If the log refuses the batch, nothing has
 * changed.  If a later step fails, the partition has failed. */
int ol_commit_publish(ol_commit *work, size_t from, size_t to, uint8_t *start, size_t size,
                      int64_t base_offset, ol_error *error);

/* Applies the items of a transaction of the store's own, after its COMMIT marker was written. */
int ol_commit_apply_deferred(ol_commit *work, size_t from, size_t to, ol_error *error);

/* Writes items that do not fit one batch, and fills work->result. */
int ol_commit_write_parts(ol_commit *work, ol_error *error);

#endif
