/* cleaner/cleaner: drops superseded records from the closed segments of a partition, or of a topic
 * (docs/format/cleaner.md §8, docs/maintenance.md).
 *
 * One run cleans the segments that lie wholly below a log offset E.  E is chosen so that nothing
 * below it can be undone.  It is the lowest of four offsets, rounded down to the start of a
 * segment:
 *
 *   the flushed bound, up to which the log is known to be on disk;
 *   W, the high watermark;
 *   the start of the oldest open transaction;
 *   the option `end_max`.
 *
 * Each record belongs to a slot.  The slot of an offset record is (group, topic, partition),
 * whatever the version of its key.  The slot of any other record is the bytes of its key.  A record
 * is live if no later record below E has the same slot.  The cleaner replaces groups of
 * neighbouring segments in ascending order, each group by one swap (log/segment_rewrite.h).  At
 * every moment of a run, a replay of the log therefore gives the same state and the same digests.
 *
 * A run reads the log in two passes.  Pass A reads the dirty part, which is [first_dirty, E), and
 * keeps the last offset of every key in a map of fixed size (cleaner/key_map.h).  Pass B rewrites
 * all segments below E.  If the map cannot hold all keys, passes A and B are repeated for the rest
 * until E is reached.  With `use_table`, once the map is full, the cleaner first looks up offset
 * keys in the partition's table.  The map then holds only the keys that the table does not have.
 *
 * Damage does not end a run.  A batch that has a wrong checksum or structure, or that cannot be
 * read or inflated, quarantines its segment: the segment stays as it is and is reported.  The run
 * cleans everything else.  No tombstone and no transaction marker at or above the base offset of a
 * quarantined segment is dropped.  If a batch cannot be compressed again, it stays whole, and the
 * run drops no tombstone at or above its base offset.
 *
 * A wrong `first_dirty` cannot lose data.  A run drops a tombstone only after it has seen that
 * nothing is left that it deletes, and a marker only after nothing is left that it ends.  If
 * `first_dirty` is too high, superseded records stay until their key is written again.  The same
 * happens to the records that a hold has kept (ol_clean_hold), after it is lifted.  If
 * `first_dirty` is -1, all of the log is dirty.
 *
 * A replica's log can be cleaned whether the replica leads, follows or is unloaded, because below W
 * its log holds the same records as the leader's log, and these never change.  If the replica's
 * table was dropped or never loaded, the cleaner works without the table.  A change of leadership
 * does not disturb a run.  A truncation or a load ends it.
 *
 * The log of a topic is cleaned in the same way (ol_cleaner_run_topic), with three differences.
 * Its keys are arbitrary bytes.  All records of an aborted transaction are dropped.  There is
 * neither a table nor a hold.
 *
 * Locks: a run takes the partition's writer lock while it determines E.  While it replaces a
 * segment, it prevents loads of the partition.  With `use_table` it takes the table lock for at
 * most 128 keys at a time.  The caller must hold none of these locks.  A partition can have one run
 * at a time.  Commits, reads, rolls and flushes continue during the run.  The partition must
 * outlive the run. */
#ifndef OL_CLEANER_CLEANER_H
#define OL_CLEANER_CLEANER_H

#include <stdatomic.h>

#include "cleaner/rebuild_batch.h"
#include "partition/partition.h"
#include "topic/topic_log.h"

/* A hold keeps the recent history of some groups (their min_history).  Every record of these groups
 * at or above `end` stays, even if it is superseded, and such a record supersedes no other.  If
 * several holds match a group, the lowest `end` counts. */
typedef struct ol_clean_hold {
    ol_slice group;             /* a group's name, or a prefix of names */
    bool is_prefix;
    int64_t end;                /* log offset */
} ol_clean_hold;

/* Any thread may read these fields during a run.  Each is atomic, but they do not change
 * together. */
typedef struct ol_clean_progress {
    _Atomic int64_t bytes_read;
    _Atomic int64_t bytes_written;
    _Atomic int64_t bytes_total;  /* the bytes that all passes together will read; grows when
                                     another pass is needed */
    _Atomic int64_t records_read;
    _Atomic int64_t passes;             /* number of passes that have begun */
    _Atomic int64_t segments_after;     /* number of new segments so far */
} ol_clean_progress;

/* Receives the batches that would remain after a clean, in log order.  Each is a whole batch with a
 * correct checksum.  The log itself is not changed. */
typedef struct ol_clean_sink {
    /* Takes one batch, which is valid only during the call.  A status other than OL_OK ends the
     * run, and the run returns this status.  The callback must not return a status about damage;
     * OL_CLOSED is suitable. */
    int (*take)(void *context, const ol_batch *batch, ol_error *error);
    void *context;
    /* True: the sink also gets the batches of the active segment that are below W and below the
     * first open transaction. */
    bool takes_active;
} ol_clean_sink;

typedef struct ol_clean_options {
    int64_t first_dirty;                /* cleaner checkpoint; -1: none, all of the log is dirty */
    int64_t end_max;  /* the cleaner changes nothing at or above this log offset; INT64_MAX: no such
                         limit */
    const ol_clean_hold *holds;
    size_t hold_count;
    int64_t now_ms;
    int64_t delete_retention_ms;        /* How long a tombstone or a marker stays once nothing is
                                           left for it to delete or to end. */
    /* Memory for the key map of one pass.  The bits that mark superseded records take up to 1/8 of
     * this in addition. */
    size_t map_bytes;
    int64_t bytes_per_second;           /* limit of the bytes read and written together; 0: none */
    /* The caller sets it to stop the run.  May be NULL.  The run checks it after each piece of 256
     * KiB (or one larger batch) and while it waits. */
    const _Atomic bool *stop;
    bool use_table;
    const ol_compressor *compressor;    /* may be NULL */
    ol_clean_progress *progress;        /* may be NULL */
    /* NULL: the run replaces segments.  Otherwise the run makes one pass, gives the sink the
     * batches that a clean would leave, and writes nothing. */
    const ol_clean_sink *sink;
    /* May be NULL.  Called once, before a run replaces its first segment.  `floor` is E.  Once a
     * segment has been replaced, the log may be unable to give the states at log offsets below
     * `floor`.  A caller that must know this floor after a crash stores it during this call.  If
     * the call returns a status other than OL_OK, the run ends and returns that status. */
    int (*raise_floor)(void *context, int64_t floor, ol_error *error);
    void *raise_floor_context;
} ol_clean_options;

#define OL_CLEAN_MAP_BYTES_MIN ((size_t)4 << 10)
#define OL_CLEAN_MAP_BYTES_DEFAULT ((size_t)64 << 20)
#define OL_CLEAN_QUARANTINE_KEPT 16

/* Sets the defaults: all of the log is dirty, there are no holds, delete_retention_ms is Kafka's
 * default, map_bytes is OL_CLEAN_MAP_BYTES_DEFAULT, and there is no rate limit.  It sets now_ms to
 * 0. */
void ol_clean_options_init(ol_clean_options *options);

typedef struct ol_clean_quarantine {
    int64_t segment_base;
    ol_error error;  /* the error about the first bad batch: path, position, offset, reason */
} ol_clean_quarantine;

/* Counts of the records that all passes B read, without control records.  A record that several
 * passes read is counted in each of them. */
typedef struct ol_clean_counts {
    int64_t read;
    int64_t kept;
    int64_t superseded;  /* number of superseded records that were dropped, including tombstones */
    int64_t tombstones_dropped;         /* tombstones dropped because their retention time is over
                                           and nothing is left for them to delete */
    int64_t aborted_dropped;
    int64_t keyless_dropped;
} ol_clean_counts;

typedef struct ol_clean_report {
    /* The new cleaner checkpoint: the log offset where the next run begins.  This is the end of the
     * last complete pass, or the start of the first transaction that is still open there if that is
     * lower.  If no pass was completed, it is first_dirty, or -1 if there is no valid
     * first_dirty. */
    int64_t end;
    int64_t floor;  /* The states at log offsets below this one may be lost (see raise_floor).
                       -1: no state is lost. */
    int64_t target;                     /* E */
    /* If the run had a sink: the end of what the sink received.  Below sink_end, the sink received
     * every batch that stays, except those of quarantined segments.  From sink_end on, the log
     * stays as it is. */
    int64_t sink_end;
    int64_t log_end;                    /* the log end when the run began */
    bool complete;  /* E was reached; more can be cleaned only when E rises or time passes */
    bool stopped;                       /* the caller stopped the run with the `stop` flag */
    bool truncated;  /* the log was truncated during the run; another run cleans the rest */
    /* The run ended because the partition began to load.  No segment is replaced during a load. */
    bool load_began;
    int64_t bytes_read;
    int64_t bytes_written;
    int64_t bytes_before;               /* size of the segments below E before the run */
    int64_t bytes_after;
    int64_t segments_before;
    int64_t segments_after;
    int64_t batches;                    /* number of batches that passes B read */
    ol_clean_counts records;
    int64_t markers_dropped;
    int64_t batches_rebuilt;
    int64_t batches_not_compressed;  /* batches that stayed whole, with their superseded records */
    int64_t keys;                       /* number of keys in the map of the last pass */
    int64_t passes;
    int64_t quarantined;                /* number of quarantined segments */
    ol_clean_quarantine quarantine[OL_CLEAN_QUARANTINE_KEPT];   /* the first of them */
} ol_clean_report;

/* Runs the cleaner once.  It also returns OL_OK if the run was stopped or if segments were
 * quarantined; the fields `stopped` and `quarantined` of the report show this.  The partition must
 * be loaded, unless it is a replica.  Its log must be open for writing, unless there is a sink.  A
 * partition that is read-only because of a damaged record can be cleaned.  Fails with OL_INVALID
 * (the options are invalid), OL_LOADING, OL_FAILED, OL_READ_ONLY (the log is open read-only),
 * OL_IO, OL_DISK_FULL, OL_NO_MEMORY, or the status that raise_floor or the sink returned.  Even
 * after a failure, *report describes the work that was done, and every segment is either unchanged
 * or replaced. */
int ol_cleaner_run(ol_partition *partition, const ol_clean_options *options,
                   ol_clean_report *report, ol_error *error) OL_NODISCARD;

/* Runs the cleaner once on the log of a topic, as ol_cleaner_run does on a partition.  It ignores
 * `use_table` and the holds.  The caller must not call ol_log_delete_below during the run, and the
 * topic must outlive the run.  Fails with OL_INVALID, OL_FAILED, OL_READ_ONLY, OL_IO, OL_DISK_FULL,
 * OL_NO_MEMORY, or the status that raise_floor or the sink returned. */
int ol_cleaner_run_topic(ol_topic_log *topic, const ol_clean_options *options,
                         ol_clean_report *report, ol_error *error) OL_NODISCARD;

#endif
