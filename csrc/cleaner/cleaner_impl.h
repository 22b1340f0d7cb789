/* cleaner/cleaner_impl: the parts of a run of the cleaner, and the functions that its files share.
 *
 *   cleaner         finds E, runs the passes, fills the report
 *   partition_owner, topic_owner   what a run asks of the owner of the log
 *   source          lists the segments, reads them batch by batch, quarantines them, keeps the pace
 *   build_key_map   pass A: the last offset of every key
 *   key_map         the map that pass A fills, and its bits about superseded records
 *   transactions    which transactions were aborted, and which are open
 *   retain          which records stay; the use of the partition's table
 *   copy            pass B: segments become groups, and each group one segment
 *   write           pass B: writes batches and markers, and swaps a finished segment in
 *   rebuild_batch   the bytes of a batch from which records are dropped
 *   survey          counts what a run that writes nothing decides
 *
 * A run is made of the parts below.  One file owns each part: only its functions change it, except
 * where a field says otherwise.  A function that needs a few parts takes those; only the functions
 * that drive a pass take the whole run.  One thread works on a run, so no part has a lock.
 *
 * Besides the codes of base/status.h, functions of a run return OL_END when the run ends early
 * without a failure: it was stopped, or the log was truncated.  A *damage* is a status about the
 * bytes that were read (ol_clean_is_damage): it quarantines a segment, and ol_cleaner_run does not
 * return it. */
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
    /* Sets the scope's cuts, limit and producers, and *log_end, all as of one moment. */
    int (*find_limit)(ol_clean_scope *scope, int64_t *log_end, ol_error *error);
    /* Makes everything below `log_end` durable.  OL_NOT_COORDINATOR: the log was truncated
     * meanwhile. */
    int (*flush)(const ol_clean_scope *scope, int64_t log_end, ol_error *error);
    /* hold_swap is called before a segment is replaced, and release_swap after it.  hold_swap
     * returns OL_LOADING if the log is being loaded. */
    int (*hold_swap)(const ol_clean_scope *scope, ol_error *error);
    void (*release_swap)(const ol_clean_scope *scope);
} ol_clean_owner;

/* The facts that a run finds once, before the first pass, and that then stay constant.  Owner:
 * cleaner/cleaner.c. */
struct ol_clean_scope {
    const ol_clean_owner *owner;
    ol_partition *partition;            /* NULL for a topic */
    ol_topic_log *topic;                /* NULL for a partition */
    bool keys_are_bytes;                /* true for a topic: keys are opaque */
    ol_clean_surveyor *surveyor;        /* NULL: nothing is surveyed */
    ol_log *log;
    const ol_log_options *log_options;
    ol_clean_options options;  /* a copy of the caller's, except that the run has its own holds */
    int64_t limit;                      /* E before E is rounded down to the start of a segment */
    int64_t target;                     /* E */
    uint64_t cuts;                      /* ol_log_cuts at the beginning */
    ol_log_producer_state *producers;
    size_t producer_count;
    ol_key_hasher hasher;
};

/* The progress and pace of the run.  Owner: cleaner/source.c; every file adds to the report. */
typedef struct ol_clean_course {
    const ol_clean_scope *scope;
    ol_clean_report *report;            /* the caller's */
    int64_t start_ns;  /* monotonic time at which counting of `bytes` began; 0: not yet */
    int64_t bytes;
    bool has_ended;                     /* OL_END was returned; the report says why */
} ol_clean_course;

/* Identifies the batches that a walk met.  If the length of a batch changes afterwards, the next
 * walk meets other batches and gets another tally, even if it also ends at a batch boundary. */
typedef struct ol_clean_tally {
    int64_t batches;
    uint64_t base_offsets;              /* their sum */
} ol_clean_tally;

/* A closed segment below E. */
typedef struct ol_clean_segment {
    int64_t base_offset;
    int64_t next_base;
    int64_t size;
    bool quarantined;
    bool is_open;                       /* it is the active segment, which the log continues at
                                           next_base (only with a sink) */
    bool is_tallied;  /* pass A walked all of the segment; set by pass A, as is `tally` */
    ol_clean_tally tally;
    bool legacy_known;                  /* whether legacy_may_go is set */
    bool legacy_may_go;  /* the file is old enough to lose tombstones of magic 0 and 1 */
} ol_clean_segment;

/* The quarantine, and the bounds that follow from it. */
typedef struct ol_clean_damaged {
    int64_t *bases;
    size_t count;
    size_t capacity;
    int64_t marker_block;               /* the lowest base offset of a quarantined segment: no
                                           marker at or above it is dropped */
    int64_t tombstone_block;  /* no tombstone at or above this offset is dropped; at most
                                 marker_block */
} ol_clean_damaged;

/* The segments below E.  Listed again before each pass.  Owner: cleaner/source.c; pass A sets
 * tallies. */
typedef struct ol_clean_segments {
    ol_clean_segment *items;
    size_t count;
    size_t capacity;
    int64_t end;                        /* where the last one ends */
    int64_t first_dirty;  /* where the dirty part begins: the checkpoint, then the end of the
                             previous pass; set by cleaner/cleaner.c */
    ol_clean_damaged damaged;
    bool legacy_horizon_known;
    int64_t legacy_horizon_ms;  /* a file last modified by this time is old enough; INT64_MIN: no
                                   file is */
} ol_clean_segments;

/* The fates of the transactions of [from, target).  Owner: cleaner/transactions.c. */
typedef struct ol_clean_transactions {
    ol_clean_fates fates;
    int64_t from;                       /* -1: no fate is known yet */
    int64_t limit;  /* the fates are known below this offset; less than `target` if there are too
                       many for one pass */
    int64_t first_undecided;            /* start of the first transaction that is open at the end of
                                           the walk; the next run begins there or below */
    ol_clean_hold *holds;               /* the run's copy of the holds; an end within a transaction
                                           is lowered to its start */
    size_t hold_count;
    int64_t holds_lowered_to;           /* holds that end below this offset were lowered */
} ol_clean_transactions;

/* The keys of [first_dirty, end), collected by pass A for pass B.  Owner:
 * cleaner/build_key_map.c. */
typedef struct ol_clean_pass {
    int64_t end;                        /* above it pass B changes nothing */
    ol_key_map map;
    ol_clean_superseded superseded;
    bool ask_table;                     /* the keys did not fit the map: the table is asked first */
} ol_clean_pass;

/* The state that pass B carries from batch to batch, and memory that it reuses.  Owner:
 * cleaner/copy.c; cleaner/write.c. */
typedef struct ol_clean_walk {
    ol_clean_open open;                 /* transactions with data since their last marker */
    ol_clean_output output;
    /* one bit for each record of a batch, set if it stays; only for a batch that is compressed or
     * has too many records for the rows */
    uint64_t *kept;
    size_t kept_capacity;               /* words */
    ol_batch batches[OL_CLEAN_ROWS];    /* the batches whose records fill the rows */
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

/* Counts bytes that were read or written, and waits as long as `bytes_per_second` demands.  OL_END:
 * the caller has set the `stop` flag. */
int ol_clean_pace(ol_clean_course *course, int64_t bytes_read, int64_t bytes_written) OL_NODISCARD;

/* Returns whether the log was truncated since the run began.  The run then ends: the caller returns
 * OL_END. */
bool ol_clean_was_cut(ol_clean_course *course);

/* A walk over the batches of one segment.  It checks that offsets ascend, and verifies the
 * checksums, except in ol_clean_source_next_unchecked. */
typedef struct ol_clean_source {
    ol_clean_course *course;
    const ol_clean_segment *segment;
    ol_log_reader *reader;              /* for a log that is read-only */
    ol_file *file;                      /* for a log of ours */
    uint8_t *buffer;
    size_t capacity;
    size_t wanted;  /* size of the batch that the last piece cut off, if it is known */
    ol_log_piece piece;
    size_t position;                    /* in the piece */
    ol_batch_bounds bounds;             /* of the next batch */
    ol_clean_tally tally;
    int64_t read_to;                    /* in the file */
    char path[OL_PATH_MAX];
} ol_clean_source;

/* Opens a walk that begins at or before the batch that holds `from`, or at the first batch after
 * it. */
int ol_clean_source_open(ol_clean_source *source, ol_clean_course *course,
                         const ol_clean_segment *segment, int64_t from, ol_error *error)
    OL_NODISCARD;
void ol_clean_source_close(ol_clean_source *source);    /* a zeroed one is fine */

/* Reads the next piece; sets *done at the end of the segment.  An error about damage names its
 * position. */
int ol_clean_source_next_piece(ol_clean_source *source, bool *done, ol_error *error) OL_NODISCARD;

/* Reads the next batch of the piece; sets *done after the last one.  An error about damage names
 * its position.  ol_clean_source_next_unchecked does not verify the checksum; for a batch that is
 * needed, call ol_clean_source_check. */
int ol_clean_source_next_batch(ol_clean_source *source, ol_batch *batch, bool *done,
                               ol_error *error) OL_NODISCARD;
int ol_clean_source_next_unchecked(ol_clean_source *source, ol_batch *batch, bool *done,
                                   ol_error *error) OL_NODISCARD;
int ol_clean_source_check(const ol_clean_source *source, const ol_batch *batch, ol_error *error)
    OL_NODISCARD;

/* Skips the next batches that pass A found superseded and whose bytes it checked.  Returns their
 * number and sets *bytes to their size. */
int64_t ol_clean_source_skip_gone(ol_clean_source *source, const ol_clean_superseded *superseded,
                                  int64_t *bytes);

/* Called at the end of a segment in which pass B skipped batches.  OL_CORRUPT: the batches of the
 * segment are not those that pass A met. */
int ol_clean_source_check_tally(const ol_clean_source *source, ol_error *error) OL_NODISCARD;

/* Adds the position of a batch to an error about one of its records; returns the error's status. */
int ol_clean_source_blame(const ol_clean_source *source, const ol_batch *batch, ol_error *error);

/* Lists the closed segments below `limit`, in place of the former list.  With `takes_active` of the
 * sink, also the active segment. */
int ol_clean_list_segments(ol_clean_course *course, ol_clean_segments *segments, int64_t limit,
                           ol_error *error) OL_NODISCARD;

/* Quarantines a segment: from now on it stays as it is, and `damage`, which may be the same memory
 * as *error, is reported.  Fails with OL_NO_MEMORY.  OL_END: the segment only looks damaged,
 * because the log was truncated. */
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

/* Learns the fates of the transactions of [from, target).  Damage quarantines the segment in which
 * it is found, and sets *again: the pass must then discard everything that it has read and start
 * again. */
int ol_clean_learn_transactions(ol_clean_transactions *transactions, ol_clean_course *course,
                                ol_clean_segments *segments, int64_t from, bool *again,
                                ol_error *error) OL_NODISCARD;

/* ----------------------------------------------------------------------------- cleaner/retain.c */

/* Returns the flags that all rows of a batch share.  They depend on the fate of the batch's
 * transaction, on its age, and on whether a damaged segment is in quarantine. */
ol_clean_verdict ol_clean_judge_batch(const ol_clean_scope *scope,
                                      const ol_clean_transactions *transactions,
                                      ol_clean_segments *segments, ol_clean_segment *segment,
                                      const ol_batch *batch);

/* Returns the `limit` to pass to ol_clean_ask_table. */
static inline int64_t ol_clean_answers_end(const ol_clean_pass *pass, int64_t first_uncertain) {
    return pass->end < first_uncertain ? pass->end : first_uncertain;
}

/* Decides all rows, sets their outcomes and counts them.  Sets the bits of the rows that stay in
 * `kept`, and those of tombstones whose retention time begins now also in `tombstones`. */
void ol_clean_retain(ol_partition *partition, const ol_clean_pass *pass, int64_t first_uncertain,
                     ol_clean_rows *rows, ol_clean_counts *counts,
                     uint64_t kept[OL_CLEAN_ROWS / 64], uint64_t tombstones[OL_CLEAN_ROWS / 64]);

/* Reads a record into the next row, which counts once the caller raises rows->count. */
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

/* Runs the cleaner on the log of `scope`, in which the caller has set the owner, the owner's
 * handle, the log and log_options. */
int ol_clean_log(const ol_clean_scope *scope, const ol_clean_options *options,
                 ol_clean_report *report, ol_error *error) OL_NODISCARD;

/* Like ol_clean_log, on a partition; `surveyor` may be NULL. */
int ol_clean_partition(ol_partition *partition, const ol_clean_options *options,
                       ol_clean_surveyor *surveyor, ol_clean_report *report, ol_error *error)
    OL_NODISCARD;

static inline void ol_clean_lower_limit(ol_clean_scope *scope, int64_t offset) {
    if (offset < scope->limit) scope->limit = offset;
}

/* ----------------------------------------------------------------------------------- the passes */

/* Pass A: fills the map of the pass, and sets its end. */
int ol_clean_build_key_map(ol_clean_run *run, ol_error *error) OL_NODISCARD;

/* Pass B: rewrites the segments below the end of the pass. */
int ol_clean_copy_segments(ol_clean_run *run, ol_error *error) OL_NODISCARD;

/* ----------------------------------------------------------------------------- cleaner/survey.c */

/* Called when pass B has added a record of `batch` to the rows, as rows->row[row]. */
void ol_clean_survey_see(ol_clean_surveyor *surveyor, size_t row, const ol_batch *batch,
                         const ol_record *record);

/* Called after all rows were seen and decided: adds them to the survey. */
int ol_clean_survey_rows(ol_clean_surveyor *surveyor, ol_partition *partition,
                         const ol_clean_rows *rows, ol_error *error) OL_NODISCARD;

/* Counts a batch: the next `record_count` rows are its records, and the clean leaves bytes_after of
 * its bytes.  `is_whole`: all of its records stay, whatever was decided. */
void ol_clean_survey_batch(ol_clean_surveyor *surveyor, const ol_batch *batch, int64_t segment_base,
                           size_t record_count, int64_t bytes_after, bool is_whole);

/* Like ol_clean_survey_batch, for a control batch. */
void ol_clean_survey_markers(ol_clean_surveyor *surveyor, const ol_batch *batch,
                             int64_t segment_base, int32_t count, bool are_dropped,
                             int64_t bytes_after);

/* Called after the passes: surveys the segments that the passes left alone, which are those above E
 * and the quarantined ones. */
int ol_clean_survey_rest(ol_clean_run *run, ol_error *error) OL_NODISCARD;

/* ---------------------------------------------------------------------------- a group of pass B */

/* The .txnindex of the segment that is being written. */
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
    ol_clean_segment *segment;          /* the current one */
    ol_clean_source source;
    ol_segment_rewrite *cleaned;        /* NULL: nothing differs yet */
    int64_t next_offset;                /* the end of the batch before the current one */
    int64_t unpaced;                    /* bytes written that ol_clean_pace has not counted */
    ol_clean_verdict verdict;           /* the verdict for the batch that is being added */
    ol_clean_markers markers;
} ol_clean_copier;

/* cleaner/copy.c: decides all rows collected so far, and writes their batches. */
int ol_clean_flush_rows(ol_clean_copier *copy, ol_error *error) OL_NODISCARD;

/* cleaner/write.c: begins the group's new segment, and copies everything before `position` of the
 * current segment into it.  Batches from there on are put one by one. */
int ol_clean_start_writing(ol_clean_copier *copy, int64_t position, ol_error *error) OL_NODISCARD;
int ol_clean_put_batch(ol_clean_copier *copy, const ol_batch *batch, ol_clean_result result,
                       ol_error *error) OL_NODISCARD;

/* Completes `choice`, in which the records to keep are set, then rebuilds and puts the batch.
 * `begins_horizon`: the retention time of a tombstone or a marker begins now. */
int ol_clean_finish_batch(ol_clean_copier *copy, const ol_batch *batch, int64_t record_count,
                          ol_clean_choice *choice, bool begins_horizon, ol_clean_result *result,
                          ol_error *error) OL_NODISCARD;

/* Decides whether a control batch stays, and writes it if it does. */
int ol_clean_add_control(ol_clean_copier *copy, const ol_batch *batch, ol_error *error)
    OL_NODISCARD;

/* Replaces the group by the new segment.  OL_END: the log was truncated, was rolled since the
 * flush, or is being loaded. */
int ol_clean_swap_in(ol_clean_copier *copy, ol_error *error) OL_NODISCARD;

void ol_clean_markers_free(ol_clean_markers *markers);

#endif
