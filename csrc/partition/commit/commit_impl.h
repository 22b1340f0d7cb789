/* partition/commit/commit_impl: one running commit, shared by the files of the commit path
 * (docs/architecture.md §4).
 *
 * Files:
 *   commit      the entry points: locks, roles, the variant that never waits; the order of the
 *               steps of one batch (write_one_batch)
 *   fast_path   known positions and nothing else
 *   plan        names, sizes, conditions, headers: changes nothing
 *   write       these steps, except the place in the log: encode, reserve memory, publish, apply
 *   oversize    items that do not fit one batch
 *
 * Everything here is called under the partition's writer lock.
 */
#ifndef OL_PARTITION_COMMIT_COMMIT_IMPL_H
#define OL_PARTITION_COMMIT_COMMIT_IMPL_H

#include "format/batch_write.h"
#include "partition/partition_impl.h"

enum { OL_COMMIT_TRY_BYTES_MAX = 4096 };    /* above it the caller releases the GIL */

/* One item that is being put into a batch. */
typedef struct ol_planned {
    const ol_item *item;
    ol_pair_name name;              /* of a group record only the group, as its key names it */
    union {                         /* once `reserved` */
        ol_reservation reservation;                 /* positions */
        ol_group_reservation *group_reservation;    /* group records that are put */
    };
    size_t key_size;
    int64_t value_size;             /* -1 null */
    uint32_t settled_pair;          /* no reservation is needed (ol_table_settled); else 0 */
    int64_t log_offset;             /* of a record that is applied later */
    int16_t value_version;
    bool reserved;
} ol_planned;

/* Rows of one pair that are being put into a batch (ol_commit_fast_path). */
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
    size_t count;               /* planned items: those that will be written */
    int64_t producer_id;
    int16_t producer_epoch;
    int64_t timestamp;          /* of its batches */
    int64_t position_time;      /* of positions whose commit timestamp the caller did not give */
    bool has_tombstones;        /* or group records: neither may be split over batches */
    bool own_transaction;       /* values are applied after the COMMIT marker */
    bool may_settle;            /* until the apply only this commit's own puts change the table */
    bool never_waits;           /* OL_WOULD_BLOCK instead of waiting for lock, disk or memory */
    bool table_locked;          /* from before the reservation until after the apply */
    uint8_t headers[OL_COMMIT_HEADERS_MAX];  /* of the first record of a batch */
    size_t headers_size;
    int32_t header_count;
    ol_commit_result *result;
} ol_commit;

/* Writes the commit by the fast path if it can, and sets *done.  Otherwise it changes nothing, and
 * the caller calls ol_commit_plan.  ol_commit_plan_time must have been called. */
int ol_commit_fast_path(ol_commit *work, const ol_item *items, size_t count, bool *done,
                        ol_error *error);

/* Like ol_commit_fast_path, for rows. */
int ol_commit_fast_path_rows(ol_commit *work, const ol_row_run *runs, size_t run_count,
                             ol_position_row *rows, size_t row_count, bool *done, ol_error *error);

/* Fills work->planned from the items and checks every condition.  ol_commit_plan_time, which sets
 * the times, comes first. */
int ol_commit_plan(ol_commit *work, const ol_item *items, size_t count, ol_error *error);
void ol_commit_plan_time(ol_commit *work);

/* Fills in the headers of the next batch's first record; takes the log's flushed record. */
void ol_commit_plan_headers(ol_commit *work);

/* Returns the highest version of offset values that every reader of the log is known to read.  A
 * broker before 2.1 loads no partition that has a value of a version above 1, one before 4.1 none
 * that has a value of version 4.  In a log that this program alone wrote: 4 if it has such a value,
 * else 3.  In another: the highest of the values in the state and of those that this leader wrote
 * and that wait to be applied; without any, 3 if the state is that of the whole log, and 1, which
 * all read, if older values may not have been applied yet.  The option `value_v4` can set it to 4,
 * or limit it to 3.  Under writer. */
int16_t ol_commit_known_value_version(const ol_partition *partition);

/* Returns the value of an item as it is written. */
ol_offset_value ol_commit_encoded_value(const ol_commit *work, const ol_item *item);

/* Return the size of a planned record at `index` of its batch, and that of a batch of planned[from,
 * to). */
size_t ol_commit_record_size(const ol_commit *work, const ol_planned *planned, size_t index);
size_t ol_commit_batch_size(const ol_commit *work, size_t from, size_t to);

/* Reserves the place of a batch of `count` records in the log. */
int ol_commit_reserve_place(const ol_commit *work, size_t size, size_t count, uint8_t **start,
                            int64_t *base_offset, ol_error *error) OL_NODISCARD;

/* Reserve and release all memory that applying the planned items will need; none while the
 * partition loads. */
int ol_commit_reserve_all(ol_commit *work, ol_error *error) OL_NODISCARD;
void ol_commit_release(ol_commit *work, size_t from);

/* Fetches the cells of a small commit, so that they arrive while it is encoded. */
void ol_commit_prefetch(const ol_commit *work);

/* Encodes planned[from, to) into the `size` bytes that the log reserved.  The bytes become a batch
 * only when they are sealed; a caller that gives them up zeroes them. */
void ol_commit_encode(const ol_commit *work, size_t from, size_t to, uint8_t *start, size_t size);

ol_batch_fields ol_commit_batch_fields(const ol_commit *work, int64_t base_offset, size_t count);

/* Take and release the partition's table lock, unless work->table_locked. */
void ol_commit_lock_table(ol_commit *work);
void ol_commit_unlock_table(ol_commit *work);

/* Seals, publishes and applies the encoded items.  When the log refuses the batch, nothing has
 * changed; a failure after that makes the partition fail. */
int ol_commit_publish(ol_commit *work, size_t from, size_t to, uint8_t *start, size_t size,
                      int64_t base_offset, ol_error *error);

/* Applies the items that an own transaction deferred until its marker. */
int ol_commit_apply_deferred(ol_commit *work, size_t from, size_t to, ol_error *error);

/* Writes items that do not fit one batch; fills work->result. */
int ol_commit_write_parts(ol_commit *work, ol_error *error);

#endif
