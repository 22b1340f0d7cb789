/* cleaner/cleaner_impl: what the files of the cleaner share; nobody else includes it.
 *
 * Files: cleaner/cleaner (finding E, passes, the report), ol_clean_source (walking segments, quarantine, pace), ol_clean_scan (pass A), ol_clean_learn (fates of
 * transactions), ol_clean_decide (what stays), ol_clean_groups (pass B: which segments become one), cleaner/copy, cleaner/markers and cleaner/write (one such group),
 * cleaner/table_lookup (the partition's table as an accelerator), ol_clean_superseded (what pass A tells pass B), cleaner/rebuild_batch, cleaner/record_slot,
 * ol_clean_transactions.
 *
 * Besides the codes of base/status.h, functions of a run return OL_END where the run ends early without a failure: stopped, or truncated.  A *damage* is a status
 * that says something of the bytes that were read: it quarantines a segment and is not returned from a run. */
#ifndef OL_CLEANER_CLEANER_IMPL_H
#define OL_CLEANER_CLEANER_IMPL_H

#include "cleaner/record_slot.h"
#include "cleaner/transactions.h"
#include "log/segment_rewrite.h"
#include "cleaner/superseded.h"
#include "partition/partition.h"

enum {
    OL_CLEAN_ROWS = 128,                /* decided at a time, so that the misses of the map overlap; what they touch fits the nearest cache */
    OL_CLEAN_PIECE_BYTES = 256 << 10,
};

/* What a walk met, by which another one of the same bytes is known: the length of a batch that changed meanwhile leads past others, to the beginning of one. */
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
    bool is_open;                       /* goes on at next_base, where nothing may be cleaned (only with a sink) */
    bool is_tallied;                    /* pass A walked all of it */
    ol_clean_tally tally;
    bool legacy_known;                  /* of magic 0 and 1: whether their tombstones may go, by the file's age */
    bool legacy_may_go;
} ol_clean_segment;

typedef struct ol_clean_run ol_clean_run;
struct ol_clean_run {
    ol_partition *partition;
    ol_log *log;
    const ol_log_options *log_options;
    ol_clean_options own_options;       /* those of the caller, with `holds` */
    const ol_clean_options *options;    /* own_options */
    ol_clean_hold *holds;               /* their ends are lowered as needed */
    const ol_decompressor *decompressor;
    ol_clean_report *report;

    /* Found once. */
    int64_t limit;                      /* E before it is rounded down to a segment */
    int64_t target;                     /* E */
    int64_t log_start;
    uint64_t cuts;
    ol_log_producer_state *producers;
    size_t producer_count;
    ol_key_hasher hasher;

    /* Of a pass. */
    ol_clean_segment *segments;
    size_t segment_count;
    size_t segment_capacity;
    int64_t first_dirty;
    int64_t pass_end;                   /* the map knows all keys of [first_dirty, pass_end) */
    bool legacy_horizon_known;
    int64_t legacy_horizon_ms;          /* tombstones of magic 0 and 1 in files that are not younger may go; INT64_MIN none */
    ol_key_map map;
    ol_clean_superseded superseded;
    bool ask_table;                     /* the keys did not fit: the table answers first */
    ol_clean_fates fates;
    int64_t fates_from;                 /* fates of [fates_from, target) are known; -1: of none yet */
    int64_t fates_limit;                /* as far as memory for them reached; else target */
    int64_t learnt_to;                  /* while they are learnt */
    int64_t end_max;                    /* the next run has to begin here or below: transactions of this one were not decided */
    bool floor_raised;

    /* Of a walk of pass B. */
    ol_clean_open open;                 /* transactions of which data was met since their last marker */
    int64_t marker_block;               /* no marker at or above it is dropped: the lowest base of a quarantined segment */
    int64_t tombstone_block;            /* likewise tombstones: also where something superseded had to stay */
    ol_clean_output output;
    uint64_t *kept;                     /* bits of a batch that does not fit the rows */
    size_t kept_capacity;               /* words */

    int64_t *quarantined;               /* bases */
    size_t quarantined_count;
    size_t quarantined_capacity;

    int64_t told_bytes;                 /* to the sink */
    int64_t taken_bytes;                /* of the batches from which those were made */

    int64_t pace_start_ns;
    int64_t pace_bytes;
    bool ended;                         /* OL_END was returned: report->stopped or report->truncated says why */

    ol_clean_row rows[OL_CLEAN_ROWS];
    ol_clean_name names[OL_CLEAN_ROWS]; /* of rows that are positions; only with ask_table */
    ol_batch batches[OL_CLEAN_ROWS];    /* whose rows these are */
    uint16_t batch_rows[OL_CLEAN_ROWS]; /* how many of each */
};

/* Where the name of a row goes: nobody asks for it but the table. */
static inline ol_clean_name *ol_clean_name_place(ol_clean_run *run, size_t row) { return &run->names[run->ask_table ? row : 0]; }

/* ------------------------------------------------------------------------------------------------ cleaner/source.c */

/* Whether a status says something of the bytes, not of the machine. */
static inline bool ol_clean_is_damage(int status) {
    return status == OL_CORRUPT || status == OL_TORN || status == OL_UNSUPPORTED || status == OL_LIMIT;
}

/* Counts bytes that were moved; waits where there is a limit.  OL_END when the run shall stop. */
int ol_clean_pace(ol_clean_run *run, int64_t bytes_read, int64_t bytes_written) OL_NODISCARD;

/* A walk over the batches of one segment: checksum right, offsets ascending. */
typedef struct ol_clean_source {
    ol_clean_run *run;
    const ol_clean_segment *segment;
    ol_log_reader *reader;              /* of a log that is read-only */
    ol_file *file;                      /* of one that is ours */
    uint8_t *buffer;
    size_t capacity;
    size_t wanted;                      /* size of the batch that the piece ended in */
    ol_log_piece piece;
    size_t position;                    /* in the piece */
    int64_t next_offset;
    ol_clean_tally tally;
    int64_t read_to;                    /* in the file */
    char path[OL_PATH_MAX];
} ol_clean_source;

/* Opens at or before the batch that holds `from`, or the first behind it. */
int ol_clean_source_open(ol_clean_source *source, ol_clean_run *run, const ol_clean_segment *segment, int64_t from,
                         ol_error *error) OL_NODISCARD;
void ol_clean_source_close(ol_clean_source *source);    /* a zeroed one is fine */
/* OL_OK with the next piece; *done at the end.  A damage's error says where. */
int ol_clean_source_next_piece(ol_clean_source *source, bool *done, ol_error *error) OL_NODISCARD;
/* OL_OK with the next batch of the piece; *done behind the last one.  A damage's error says where.  ol_clean_source_next_unchecked leaves out the checksum,
 * which ol_clean_source_check does then, of a batch that is needed. */
int ol_clean_source_next_batch(ol_clean_source *source, ol_batch *batch, bool *done, ol_error *error) OL_NODISCARD;
int ol_clean_source_next_unchecked(ol_clean_source *source, ol_batch *batch, bool *done, ol_error *error) OL_NODISCARD;
/* Goes behind the next batches that pass A has decided; returns how many, *bytes of them.  They were checked in that pass, and are not again. */
int64_t ol_clean_source_skip_gone(ol_clean_source *source, int64_t *bytes);
int ol_clean_source_check(const ol_clean_source *source, const ol_batch *batch, ol_error *error) OL_NODISCARD;
/* At the end of a segment of which pass B believed pass A: OL_CORRUPT where the batches are not the same. */
int ol_clean_source_check_tally(const ol_clean_source *source, ol_error *error) OL_NODISCARD;
/* Says in an error of a record of this batch where it stands; returns its status. */
int ol_clean_source_blame(const ol_clean_source *source, const ol_batch *batch, ol_error *error);

/* Lists the closed segments below the limit anew; sets target from them when `first`. */
int ol_clean_list_segments(ol_clean_run *run, bool first, ol_error *error) OL_NODISCARD;
/* The segment is left as it is from now on; `damage` is reported.  OL_NO_MEMORY; OL_END where it only looks so because the log was cut. */
int ol_clean_quarantine_segment(ol_clean_run *run, ol_clean_segment *segment, const ol_error *damage, ol_error *error) OL_NODISCARD;
/* Whether tombstones of magic 0 and 1 in this segment may go (docs/format/cleaner.md §8.3). */
bool ol_clean_legacy_may_go(ol_clean_run *run, ol_clean_segment *segment);

/* ------------------------------------------------------------------------------------------------ the passes */

/* Learns the fates of the transactions of [from, target).  A damage quarantines its segment and sets *again: what was read of it before must be
 * forgotten. */
int ol_clean_learn(ol_clean_run *run, int64_t from, bool *again, ol_error *error) OL_NODISCARD;

/* Pass A: fills the map; sets pass_end. */
int ol_clean_scan(ol_clean_run *run, ol_error *error) OL_NODISCARD;

/* Pass B. */
int ol_clean_groups(ol_clean_run *run, ol_error *error) OL_NODISCARD;

/* Copies segments[first, first + count) into one, without what goes, and swaps it in.  *bad: the index of the one that a damage was found in. */
int ol_clean_copy_group(ol_clean_run *run, size_t first, size_t count, size_t *bad, ol_error *error) OL_NODISCARD;

/* ------------------------------------------------------------------------------------------------ a group */

/* What is true of all rows of a batch: flags to be set on values (aborted, uncertain) and on tombstones (may go). */
typedef struct ol_clean_verdict {
    uint32_t value_flags;
    uint32_t tombstone_flags;
} ol_clean_verdict;

typedef struct ol_clean_copier {
    ol_clean_run *run;
    size_t first;               /* of run->segments */
    size_t count;
    ol_clean_segment *segment;  /* the current one */
    ol_clean_source source;
    ol_segment_rewrite *cleaned;        /* NULL: nothing differs yet */
    int64_t next_offset;        /* behind the batch before the current one, or the base of the group */
    int64_t unpaced;            /* bytes written that the pace was not told of */
    size_t row_count;           /* waiting in run->rows */
    size_t batch_count;         /* whose rows they are */
    ol_clean_verdict verdict;   /* of the batch that is being added */
    bool index_read;
    ol_aborted_transaction *index;          /* what the .txnindex files say of markers in the group */
    size_t index_count;
    size_t index_capacity;
    ol_aborted_transaction *aborted;        /* of the markers that stay */
    size_t aborted_count;
    size_t aborted_capacity;
} ol_clean_copier;

/* cleaner/copy.c: decides all rows that wait, and writes their batches. */
int ol_clean_flush_rows(ol_clean_copier *copy, ol_error *error) OL_NODISCARD;

/* cleaner/markers.c */
int ol_clean_add_control(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) OL_NODISCARD;

/* cleaner/write.c.  Everything from `position` of the current segment on is written, and what stands before it is copied. */
int ol_clean_start_writing(ol_clean_copier *copy, int64_t position, ol_error *error) OL_NODISCARD;
int ol_clean_put_batch(ol_clean_copier *copy, const ol_batch *batch, ol_clean_result result, ol_error *error) OL_NODISCARD;
/* Completes `choice`, of which the kept records are known, rebuilds and puts.  `begins_horizon`: the time of a tombstone or a marker begins. */
int ol_clean_finish_batch(ol_clean_copier *copy, const ol_batch *batch, int64_t record_count, ol_clean_choice *choice,
                          bool begins_horizon, ol_clean_result *result, ol_error *error) OL_NODISCARD;
/* Puts the segment in place of the group.  OL_END where the log was cut. */
int ol_clean_swap_in(ol_clean_copier *copy, ol_error *error) OL_NODISCARD;

/* ------------------------------------------------------------------------------------------------ cleaner/retain.c */

ol_clean_verdict ol_clean_judge_batch(ol_clean_run *run, ol_clean_segment *segment, const ol_batch *batch);

static inline void ol_clean_mark_row(ol_clean_row *row, ol_clean_verdict verdict) {
    if (row->flags & OL_CLEAN_TOMBSTONE) {
        row->flags |= verdict.tombstone_flags;
    } else if (row->flags & OL_CLEAN_POSITION) {
        row->flags |= verdict.value_flags;
    }
}

/* Decides run->rows[0, count): bits of those that stay, and of the tombstones among them whose time has to begin. */
void ol_clean_decide(ol_clean_run *run, size_t count, uint64_t kept[OL_CLEAN_ROWS / 64], uint64_t tombstones[OL_CLEAN_ROWS / 64]);

/* ------------------------------------------------------------------------------------------------ cleaner/table_lookup.c */

/* For rows that are positions: whether the table knows better than the map.  answers[i]: the offset of the record that is the last below pass_end, or -1 where the
 * map has to be asked. */
void ol_clean_ask_table(ol_clean_run *run, size_t count, int64_t answers[OL_CLEAN_ROWS]);
bool ol_clean_can_ask_table(ol_clean_run *run);

#endif
