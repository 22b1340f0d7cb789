/* cleaner/cleaner_impl: the parts of a run of the cleaner, and the functions that its files share.
 *
 *   cleaner         determines E, runs the passes, fills the report
 *   partition_owner, topic_owner   the calls that a run makes on the owner of the log
 *   source          lists, reads and quarantines segments, and keeps to the rate limit
 *   build_key_map   pass A: puts the last offset of every key into the map
 *   key_map         the map that pass A fills, and its bits about superseded records
 *   transactions    finds which transactions were aborted, and which are open
 *   retain          decides which records stay, and asks the partition's table
 *   copy            pass B: divides the segments into groups, and makes one segment of each group
 *   write           pass B: writes batches and markers, and swaps a finished segment in
 *   rebuild_batch   rebuilds a batch from which records are dropped
 *   survey          counts what a run that writes nothing decides
 *
 * A run consists of the parts below.  One file owns each part: only the functions of that file
 * change the part, unless a comment at a field says otherwise.  Most functions take only the parts
 * that they need; only the functions that drive a pass take the whole run.  One thread works on a
 * run, so no part has a lock.
 *
 * Besides the codes of base/status.h, the functions of a run return OL_END when the run ends early
 * without a failure: the caller stopped it, the log was truncated or rolled, or the partition began
 * to load.  A status *is about damage* if it concerns the bytes that were read
 * (ol_clean_is_damage).  Damage quarantines a segment; ol_cleaner_run does not return such a
 * status. */
#ifndef OL_CLEANER_CLEANER_IMPL_H
#define OL_CLEANER_CLEANER_IMPL_H

#include "cleaner/retain.h"
#include "cleaner/transactions.h"
#include "log/batch_rules.h"
#include "log/segment_rewrite.h"
#include "topic/topic_log.h"

enum { OL_CLEAN_PIECE_BYTES = 256 << 10 };

/* --------------------------------------------------------------------------- the parts of a run */

typedef struct ol_clean_scope ol_clean_scope;
typedef struct ol_clean_surveyor ol_clean_surveyor;     /* cleaner/survey.c */

/* The calls that a run makes on the owner of the log: a partition (cleaner/partition_owner.c), or
 * the log of a topic (cleaner/topic_owner.c). */
typedef struct ol_clean_owner {
    /* Sets the fields `cuts`, `limit` and `producers` of the scope, and sets *log_end to the end of
     * the log.  All of them describe the same moment. */
    int (*find_limit)(ol_clean_scope *scope, int64_t *log_end, ol_error *error);
    /* Makes everything below `log_end` durable.  Returns OL_NOT_COORDINATOR if the log was
     * truncated in the meantime. */
    int (*flush)(const ol_clean_scope *scope, int64_t log_end, ol_error *error);
    /* The run calls hold_swap before it replaces a segment, and release_swap after it.  Between the
     * two calls the log cannot be loaded. hold_swap returns OL_LOADING if the log is being loaded
     * already. */
    int (*hold_swap)(const ol_clean_scope *scope, ol_error *error);
    void (*release_swap)(const ol_clean_scope *scope);
} ol_clean_owner;

/* The facts that a run finds once, before the first pass, and that then stay constant.  Owner:
 * cleaner/cleaner.c. */
struct ol_clean_scope {
    const ol_clean_owner *owner;
    ol_partition *partition;            /* NULL for a topic */
    ol_topic_log *topic;                /* NULL for a partition */
    bool keys_are_bytes;                /* true for a topic, whose keys are arbitrary bytes */
    ol_clean_surveyor *surveyor;        /* NULL: nothing is surveyed */
    ol_log *log;
    const ol_log_options *log_options;
    ol_clean_options options;  /* a copy of the caller's options, but with the run's own copy of the
                                  holds */
    int64_t limit;  /* the value of E before it is rounded down to the start of a segment */
    int64_t target;                     /* E */
    uint64_t cuts;                      /* ol_log_cuts at the beginning */
    ol_log_producer_state *producers;
    size_t producer_count;
    ol_key_hasher hasher;
};

/* The progress and pace of the run.  Owner: cleaner/source.c.  The functions of every file update
 * the report. */
typedef struct ol_clean_course {
    const ol_clean_scope *scope;
    ol_clean_report *report;            /* the report of the caller */
    int64_t start_ns;  /* monotonic time since when `bytes` has been counted; 0: counting has not
                          begun */
    int64_t bytes;
    bool has_ended;  /* A function of the run returned OL_END; the report says why. */
} ol_clean_course;

/* Identifies the batches that a walk has read in a segment.  If the length field of a batch is
 * damaged after a walk, the next walk finds other batches and gets another tally. */
typedef struct ol_clean_tally {
    int64_t batches;
    uint64_t base_offsets;              /* the sum of the base offsets of the batches */
} ol_clean_tally;

/* A closed segment below E. */
typedef struct ol_clean_segment {
    int64_t base_offset;
    int64_t next_base;
    int64_t size;
    bool quarantined;
    /* True: this is the active segment, and the log continues at next_base.  Occurs only if the run
     * has a sink. */
    bool is_open;
    bool is_tallied;  /* true: pass A has read the whole segment; pass A sets this field and
                         `tally` */
    ol_clean_tally tally;
    bool legacy_known;                  /* whether legacy_may_go is set */
    bool legacy_may_go;  /* Tombstones of magic 0 and 1 in this segment may be dropped, because the
                            segment's file is old enough. */
} ol_clean_segment;

/* The quarantined segments, and the offsets from which markers and tombstones must stay because of
 * them. */
typedef struct ol_clean_damaged {
    int64_t *bases;
    size_t count;
    size_t capacity;
    int64_t marker_block;               /* the lowest base offset of a quarantined segment; markers
                                           at or above it are not dropped */
    /* Tombstones at or above this offset are not dropped.  It is never above marker_block. */
    int64_t tombstone_block;
} ol_clean_damaged;

/* The segments below E.  The list is made again before each pass.  Owner: cleaner/source.c, except
 * that pass A sets the tallies. */
typedef struct ol_clean_segments {
    ol_clean_segment *items;
    size_t count;
    size_t capacity;
    int64_t end;                        /* where the last segment ends */
    /* Where the dirty part begins.  In the first pass this is the checkpoint, and in later passes
     * the end of the pass before.  Set by cleaner/cleaner.c. */
    int64_t first_dirty;
    ol_clean_damaged damaged;
    bool legacy_horizon_known;
    /* A file last modified at or before this time is old enough to lose tombstones of magic 0 and
     * 1.  INT64_MIN: no file is old enough. */
    int64_t legacy_horizon_ms;
} ol_clean_segments;

/* The fates of the transactions that have records in [from, target).  Owner:
 * cleaner/transactions.c. */
typedef struct ol_clean_transactions {
    ol_clean_fates fates;
    int64_t from;                       /* -1: no fate is known yet */
    /* The fates are known for records below this offset.  It is below `target` if there are too
     * many transactions for one pass. */
    int64_t limit;
    /* The start of the first transaction that is still open at the end of the walk.  The next run
     * begins there or earlier. */
    int64_t first_undecided;
    /* The run's copy of the holds.  A hold that ends within a transaction is changed to end at the
     * start of that transaction. */
    ol_clean_hold *holds;
    size_t hold_count;
    int64_t holds_lowered_to;  /* For each hold with an `end` below this offset, it was checked
                                  whether the `end` is within a transaction. */
} ol_clean_transactions;

/* The keys of [first_dirty, end), collected by pass A for pass B.  Owner:
 * cleaner/build_key_map.c. */
typedef struct ol_clean_pass {
    int64_t end;                        /* pass B changes nothing at or above this offset */
    ol_key_map map;
    ol_clean_superseded superseded;
    bool ask_table;                     /* true: the table is asked before the map, because the map
                                           could not hold all keys */
} ol_clean_pass;

/* The state that pass B carries from batch to batch, and memory that it reuses.  Owners:
 * cleaner/copy.c and cleaner/write.c. */
typedef struct ol_clean_walk {
    ol_clean_open open;  /* the transactions of which pass B has read data, but no marker yet */
    ol_clean_output output;
    /* One bit for each record of a batch; a set bit means that the record stays.  Used only for a
     * batch that is compressed, or that has more records than `rows` can hold. */
    uint64_t *kept;
    size_t kept_capacity;               /* words */
    ol_batch batches[OL_CLEAN_ROWS];    /* the batches whose records are in the rows */
    uint16_t batch_rows[OL_CLEAN_ROWS]; /* how many rows each batch has */
    size_t batch_count;
    int64_t bytes_taken;                /* read, as batches */
    int64_t bytes_sunk;                 /* given to the sink */
    bool floor_raised;
} ol_clean_walk;

typedef struct ol_clean_run {
    ol_clean_scope scope;
    ol_clean_course course;
    ol_clean_segments segments;
    ol_clean_transactions transactions;
    ol_clean_pass pass;
    ol_clean_walk walk;
    ol_clean_rows rows;                 /* the window of both passes */
} ol_clean_run;

/* ----------------------------------------------------------------------------- cleaner/source.c */

/* Returns whether a status is about the bytes that were read, not about the machine. */
static inline bool ol_clean_is_damage(int status) {
    return status == OL_CORRUPT || status == OL_TORN || status == OL_UNSUPPORTED ||
           status == OL_LIMIT;
}

/* Adds bytes that were read or written to the counts, and waits long enough to keep to
 * `bytes_per_second`.  Returns OL_END if the caller has set the `stop` flag. */
int ol_clean_pace(ol_clean_course *course, int64_t bytes_read, int64_t bytes_written) OL_NODISCARD;

/* Returns whether the log was truncated since the run began.  If so, the run must end, and the
 * calling function returns OL_END. */
bool ol_clean_was_cut(ol_clean_course *course);

/* A walk over the batches of one segment.  It checks that offsets ascend, and verifies the
 * checksums, except in ol_clean_source_next_unchecked. */
typedef struct ol_clean_source {
    ol_clean_course *course;
    const ol_clean_segment *segment;
    ol_log_reader *reader;              /* the reader, for a log that is open read-only */
    ol_file *file;                      /* the segment's file, for a log that this process writes */
    uint8_t *buffer;
    size_t capacity;
    size_t wanted;  /* size of the batch that did not fit into the last piece, if the size is
                       known */
    ol_log_piece piece;
    size_t position;                    /* position of the next batch in the piece */
    ol_batch_bounds bounds;             /* of the next batch */
    ol_clean_tally tally;
    int64_t read_to;                    /* file position where the next piece begins */
    char path[OL_PATH_MAX];
} ol_clean_source;

/* Opens a walk over the segment.  The walk begins at or before the batch that contains the offset
 * `from`.  If no batch contains `from`, the walk begins at or before the first batch after it. */
int ol_clean_source_open(ol_clean_source *source, ol_clean_course *course,
                         const ol_clean_segment *segment, int64_t from, ol_error *error)
    OL_NODISCARD;
void ol_clean_source_close(ol_clean_source *source);    /* a zeroed one is fine */

/* Reads the next piece; sets *done at the end of the segment.  An error about damage names its
 * position. */
int ol_clean_source_next_piece(ol_clean_source *source, bool *done, ol_error *error) OL_NODISCARD;

/* Reads the next batch of the piece, or sets *done if the piece has no further batch.  An error
 * about damage names the position of the damage. ol_clean_source_next_unchecked does the same
 * without verifying the checksum; the caller must call ol_clean_source_check before it uses the
 * content of the batch. */
int ol_clean_source_next_batch(ol_clean_source *source, ol_batch *batch, bool *done,
                               ol_error *error) OL_NODISCARD;
int ol_clean_source_next_unchecked(ol_clean_source *source, ol_batch *batch, bool *done,
                                   ol_error *error) OL_NODISCARD;
int ol_clean_source_check(const ol_clean_source *source, const ol_batch *batch, ol_error *error)
    OL_NODISCARD;

/* Skips all batches that come next in the piece and that pass A has already verified and found
 * superseded.  Returns the number of these batches and sets *bytes to their total size. */
int64_t ol_clean_source_skip_gone(ol_clean_source *source, const ol_clean_superseded *superseded,
                                  int64_t *bytes);

/* Called at the end of a segment in which pass B skipped batches.  Returns OL_CORRUPT if the
 * segment does not contain the same batches as in pass A. */
int ol_clean_source_check_tally(const ol_clean_source *source, ol_error *error) OL_NODISCARD;

/* Adds the position of a batch to an error about one of the batch's records.  Returns the status of
 * the error. */
int ol_clean_source_blame(const ol_clean_source *source, const ol_batch *batch, ol_error *error);

/* Lists the closed segments below `limit`, and replaces the former list.  If the sink has set
 * `takes_active`, the list also includes the part of the active segment that is below `limit`. */
int ol_clean_list_segments(ol_clean_course *course, ol_clean_segments *segments, int64_t limit,
                           ol_error *error) OL_NODISCARD;

/* Quarantines a segment: the run leaves it unchanged and reports `damage`.  `damage` and `error`
 * may be the same pointer.  Returns OL_END if the log was truncated; the segment then only looks
 * damaged.  Fails with OL_NO_MEMORY. */
int ol_clean_quarantine_segment(ol_clean_course *course, ol_clean_segments *segments,
                                ol_clean_segment *segment, const ol_error *damage, ol_error *error)
    OL_NODISCARD;

/* From now on, no tombstone at or above `offset` is dropped. */
static inline void ol_clean_block_tombstones(ol_clean_segments *segments, int64_t offset) {
    if (offset < segments->damaged.tombstone_block) segments->damaged.tombstone_block = offset;
}

/* Returns whether tombstones of magic 0 and 1 in this segment may be dropped
 * (docs/format/cleaner.md §8.3). */
bool ol_clean_legacy_may_go(const ol_clean_scope *scope, ol_clean_segments *segments,
                            ol_clean_segment *segment);

/* ----------------------------------------------------------------------- cleaner/transactions.c */

/* Finds the fates of the transactions that have records in [from, target).  If a segment is found
 * to be damaged, the function quarantines it and sets *again.  The pass must then discard
 * everything that it has read and start from the beginning. */
int ol_clean_learn_transactions(ol_clean_transactions *transactions, ol_clean_course *course,
                                ol_clean_segments *segments, int64_t from, bool *again,
                                ol_error *error) OL_NODISCARD;

/* ----------------------------------------------------------------------------- cleaner/retain.c */

/* Returns the flags that all rows of a batch share.  They depend on the fate of the batch's
 * transaction, on whether the retention time of the batch's tombstones has passed, and on whether
 * the batch lies below `tombstone_block`. */
ol_clean_verdict ol_clean_judge_batch(const ol_clean_scope *scope,
                                      const ol_clean_transactions *transactions,
                                      ol_clean_segments *segments, ol_clean_segment *segment,
                                      const ol_batch *batch);

/* Returns the value for the parameter `limit` of ol_clean_ask_table. */
static inline int64_t ol_clean_answers_end(const ol_clean_pass *pass, int64_t first_uncertain) {
    return pass->end < first_uncertain ? pass->end : first_uncertain;
}

/* Decides which rows stay, sets the outcome of each row and updates the counts.  Sets the bit of
 * every row that stays in `kept`.  Also sets the bit of every tombstone whose retention time begins
 * now in `tombstones`. */
void ol_clean_retain(ol_partition *partition, const ol_clean_pass *pass, int64_t first_uncertain,
                     ol_clean_rows *rows, ol_clean_counts *counts,
                     uint64_t kept[OL_CLEAN_ROWS / 64], uint64_t tombstones[OL_CLEAN_ROWS / 64]);

/* Reads a record into the row after the last one.  The caller adds the row by incrementing
 * rows->count. */
static inline ol_clean_row *ol_clean_next_row(ol_clean_rows *rows, const ol_clean_scope *scope,
                                              const ol_clean_pass *pass, const ol_record *record,
                                              int64_t last_offset, ol_clean_verdict verdict) {
    ol_clean_row *row = &rows->row[rows->count];
    /* Only ol_clean_ask_table and a survey read names. */
    bool is_named = pass->ask_table || scope->surveyor != NULL;
    ol_clean_name *name = &rows->name[is_named ? rows->count : 0];
    if (OL_UNLIKELY(scope->keys_are_bytes)) {
        ol_clean_read_bytes_row(&scope->hasher, record, verdict, row);
        return row;
    }
    ol_clean_read_row(&scope->hasher, &scope->options, record, last_offset, row, name);
    ol_clean_mark_row(row, verdict);
    return row;
}

/* ------------------------------------------------------------- cleaner/cleaner.c and the owners */

/* Runs the cleaner on the log of `scope`.  The caller has set four fields of the scope: the owner,
 * the partition or topic, the log, and log_options. */
int ol_clean_log(const ol_clean_scope *scope, const ol_clean_options *options,
                 ol_clean_report *report, ol_error *error) OL_NODISCARD;

/* Runs the cleaner on the log of a partition.  `surveyor` may be NULL. */
int ol_clean_partition(ol_partition *partition, const ol_clean_options *options,
                       ol_clean_surveyor *surveyor, ol_clean_report *report, ol_error *error)
    OL_NODISCARD;

static inline void ol_clean_lower_limit(ol_clean_scope *scope, int64_t offset) {
    if (offset < scope->limit) scope->limit = offset;
}

/* ----------------------------------------------------------------------------------- the passes */

/* Pass A: fills the key map, and sets the end of the pass. */
int ol_clean_build_key_map(ol_clean_run *run, ol_error *error) OL_NODISCARD;

/* Pass B: rewrites the segments below the end of the pass. */
int ol_clean_copy_segments(ol_clean_run *run, ol_error *error) OL_NODISCARD;

/* ----------------------------------------------------------------------------- cleaner/survey.c */

/* Called when pass B has read a record of `batch` into rows->row[row].  Stores the facts about the
 * record that the survey needs later. */
void ol_clean_survey_see(ol_clean_surveyor *surveyor, size_t row, const ol_batch *batch,
                         const ol_record *record);

/* Called after the outcomes of all rows have been decided.  Adds the rows to the survey. */
int ol_clean_survey_rows(ol_clean_surveyor *surveyor, ol_partition *partition,
                         const ol_clean_rows *rows, ol_error *error) OL_NODISCARD;

/* Adds a batch to the survey.  The next `record_count` rows are its records, and `bytes_after` is
 * its size after the clean (0: the batch is dropped).  If `is_whole` is true, all records of the
 * batch stay, whatever the outcomes of the rows are. */
void ol_clean_survey_batch(ol_clean_surveyor *surveyor, const ol_batch *batch, int64_t segment_base,
                           size_t record_count, int64_t bytes_after, bool is_whole);

/* Like ol_clean_survey_batch, for a control batch. */
void ol_clean_survey_markers(ol_clean_surveyor *surveyor, const ol_batch *batch,
                             int64_t segment_base, int32_t count, bool are_dropped,
                             int64_t bytes_after);

/* Called after the passes.  Adds the segments that the passes did not read to the survey: those
 * above E, and the quarantined ones. */
int ol_clean_survey_rest(ol_clean_run *run, ol_error *error) OL_NODISCARD;

/* ---------------------------------------------------------------------------- a group of pass B */

/* The entries for the .txnindex of the segment that is being written. */
typedef struct ol_clean_markers {
    bool index_read;
    ol_aborted_transaction *index;      /* the entries of the .txnindex files of the group */
    size_t index_count;
    size_t index_capacity;
    ol_aborted_transaction *aborted;    /* the entries of the markers that stay */
    size_t aborted_count;
    size_t aborted_capacity;
} ol_clean_markers;

typedef struct ol_clean_copier {
    ol_clean_run *run;
    size_t first;                       /* index of the group's first segment */
    size_t count;
    ol_clean_segment *segment;          /* the segment that is being copied */
    ol_clean_source source;
    ol_segment_rewrite *cleaned;        /* NULL: nothing differs yet */
    int64_t next_offset;                /* the end of the batch before the current one */
    int64_t unpaced;                    /* bytes written that ol_clean_pace has not counted */
    ol_clean_verdict verdict;           /* the verdict for the batch that is being added */
    ol_clean_markers markers;
} ol_clean_copier;

/* cleaner/copy.c: decides which of the rows collected so far stay, and writes their batches. */
int ol_clean_flush_rows(ol_clean_copier *copy, ol_error *error) OL_NODISCARD;

/* cleaner/write.c: begins the segment that replaces the current group of segments, and copies
 * everything before `position` of the current segment into it.  The batches from `position` on must
 * be put with ol_clean_put_batch. */
int ol_clean_start_writing(ol_clean_copier *copy, int64_t position, ol_error *error) OL_NODISCARD;
int ol_clean_put_batch(ol_clean_copier *copy, const ol_batch *batch, ol_clean_result result,
                       ol_error *error) OL_NODISCARD;

/* Rebuilds a batch and puts it.  The caller has set the records to keep in `choice`; the function
 * sets the other fields.  `begins_horizon` is true if the retention time of a tombstone or of the
 * marker begins now. */
int ol_clean_finish_batch(ol_clean_copier *copy, const ol_batch *batch, int64_t record_count,
                          ol_clean_choice *choice, bool begins_horizon, ol_clean_result *result,
                          ol_error *error) OL_NODISCARD;

/* Decides whether a control batch stays, and writes it if it does. */
int ol_clean_add_control(ol_clean_copier *copy, const ol_batch *batch, ol_error *error)
    OL_NODISCARD;

/* Replaces the segments of the group by the new segment.  Returns OL_END if the log was truncated,
 * if it was rolled since the run flushed it, or if it is being loaded. */
int ol_clean_swap_in(ol_clean_copier *copy, ol_error *error) OL_NODISCARD;

void ol_clean_markers_free(ol_clean_markers *markers);

#endif
