/* cleaner/cleaner: drops superseded records from the closed segments of a partition, or of a topic
 * (docs/format/cleaner.md §8, docs/maintenance.md).
 *
 * One run cleans the segments that lie wholly below a log offset E.  Nothing below E can be undone.
 * E is the lowest of four offsets, rounded down to the start of a segment: the flushed bound (the
 * end of what is surely on disk), W (the high watermark), the start of the oldest open transaction,
 * and `end_max`.  A record is live when no later record of its slot is below E.  The slot of an
 * offset record is (group, topic, partition), whatever the version of its key; the slot of any
 * other record is the bytes of its key.  Groups of segments are replaced in ascending order, each
 * by one swap (log/segment_rewrite.h).  So a replay of the log gives the same state and the same
 * digests at every moment of a run.
 *
 * A run reads twice.  Pass A walks the dirty part [first_dirty, E) and keeps the last offset of
 * every key in a map of fixed size (cleaner/key_map.h); pass B rewrites all segments below E.  If
 * the map cannot hold all keys, further passes A and B clean the rest, until E is reached.  With
 * `use_table`, once the map is full, keys that the partition's table has are looked up in the
 * table, and the map holds only the others.
 *
 * Damage does not end a run.  A batch that has a wrong checksum or structure, or that cannot be
 * read or inflated, quarantines its segment: the segment stays as it is and is reported.  The run
 * cleans everything else.  No tombstone and no transaction marker at or above the base offset of a
 * quarantined segment is dropped.  A batch that cannot be compressed again stays whole, and no
 * tombstone from its base offset on is dropped in that run.
 *
 * Safety does not depend on `first_dirty`.  A run drops a tombstone or marker only after it has
 * seen that nothing is left to delete or to end.  A `first_dirty` that is too high (or a hold that
 * was lifted) leaves superseded records until their key is written again; with -1 all of the log is
 * dirty.
 *
 * A replica's log is cleaned whether the replica leads, follows or is unloaded: below W it holds
 * the same records as the leader's log, and these never change.  A replica whose table was dropped
 * or never loaded is cleaned without the table.  A change of leadership does not disturb a run; a
 * truncation or a load ends it.
 *
 * The log of a topic is cleaned likewise (ol_cleaner_run_topic).  Its keys are arbitrary bytes, all
 * records of an aborted transaction are dropped, and there is neither a table nor a hold.
 *
 * Locks: a run takes the partition's writer lock to find E, and keeps loads out while it replaces a
 * segment.  With `use_table` it takes the table lock for at most 128 keys at a time.  The caller
 * holds none of these locks.  A partition has one run at a time; commits, reads, rolls and flushes
 * continue during it.  The partition outlives the run. */
#ifndef OL_CLEANER_CLEANER_H
#define OL_CLEANER_CLEANER_H

#include <stdatomic.h>

#include "cleaner/rebuild_batch.h"
#include "partition/partition.h"
#include "topic/topic_log.h"

/* Records of these groups at or above `end` stay, superseded or not, and supersede nothing
 * (min_history of a group).  If several holds match a group, the lowest end counts. */
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
    _Atomic int64_t bytes_total;  /* bytes that all passes together read; grows when another pass is
                                     needed */
    _Atomic int64_t records_read;
    _Atomic int64_t passes;             /* begun */
    _Atomic int64_t segments_after;     /* swapped in so far */
} ol_clean_progress;

/* Receives the batches that a clean would leave, in log order, each whole and with a right
 * checksum.  The log itself is not changed. */
typedef struct ol_clean_sink {
    /* Takes one batch, which is valid only during the call.  A status other than OL_OK ends the
     * run, and the run returns this status.  A status about damage is not allowed; OL_CLOSED is
     * suitable. */
    int (*take)(void *context, const ol_batch *batch, ol_error *error);
    void *context;
    bool takes_active;                  /* also takes the batches of the active segment, up to W or
                                           the first open transaction */
} ol_clean_sink;

typedef struct ol_clean_options {
    int64_t first_dirty;                /* cleaner checkpoint; -1: none, all of the log is dirty */
    int64_t end_max;  /* nothing at or above this log offset is cleaned; INT64_MAX: no such limit */
    const ol_clean_hold *holds;
    size_t hold_count;
    int64_t now_ms;
    int64_t delete_retention_ms;        /* how long tombstones and markers stay once nothing is left
                                           for them to delete or to end */
    size_t map_bytes;  /* memory for the keys of one pass; bits about superseded records take 1/8
                          more */
    int64_t bytes_per_second;           /* limit of the bytes read and written together; 0: none */
    const _Atomic bool *stop;  /* set by the caller to stop the run; may be NULL; checked after each
                                  piece of 256 KiB (or one larger batch) and during waits */
    bool use_table;
    const ol_compressor *compressor;    /* may be NULL */
    ol_clean_progress *progress;        /* may be NULL */
    const ol_clean_sink *sink;  /* NULL: segments are replaced; else one pass that writes nothing */
    /* May be NULL.  Called before a run replaces its first segment.  From then on the log cannot
     * give states below `floor`, which is E.  A caller that must know the floor after a crash
     * stores it in this call.  A status other than OL_OK ends the run, which returns it. */
    int (*raise_floor)(void *context, int64_t floor, ol_error *error);
    void *raise_floor_context;
} ol_clean_options;

#define OL_CLEAN_MAP_BYTES_MIN ((size_t)4 << 10)
#define OL_CLEAN_MAP_BYTES_DEFAULT ((size_t)64 << 20)
#define OL_CLEAN_QUARANTINE_KEPT 16

/* Sets the defaults: all of the log is dirty, no holds, Kafka's delete retention, a map of
 * OL_CLEAN_MAP_BYTES_DEFAULT, no rate limit; now_ms is 0. */
void ol_clean_options_init(ol_clean_options *options);

typedef struct ol_clean_quarantine {
    int64_t segment_base;
    ol_error error;                     /* of the first bad batch: path, position, offset, reason */
} ol_clean_quarantine;

/* The records that the passes B read, control records excluded.  A record counts once for each pass
 * that read it. */
typedef struct ol_clean_counts {
    int64_t read;
    int64_t kept;
    int64_t superseded;                 /* dropped, superseded tombstones included */
    int64_t tombstones_dropped;         /* tombstones dropped after their retention time, with
                                           nothing left to delete */
    int64_t aborted_dropped;
    int64_t keyless_dropped;
} ol_clean_counts;

typedef struct ol_clean_report {
    /* The new cleaner checkpoint, where the next run begins: the end of the last complete pass, or
     * the start of a transaction that is open there.  If no pass was completed: first_dirty, or
     * -1. */
    int64_t end;
    int64_t floor;  /* states at log offsets below it may be lost (see raise_floor); -1: none */
    int64_t target;                     /* E */
    /* With a sink: the sink received everything below told_end that stays, except quarantined
     * segments.  Above told_end the log stays as it is. */
    int64_t told_end;
    int64_t log_end;                    /* when the run began */
    bool complete;  /* E was reached; more can be cleaned only when E rises or time passes */
    bool stopped;                       /* by the flag */
    bool truncated;  /* the log was truncated during the run; another run cleans the rest */
    bool load_began;                    /* a load began during the run; no segment is replaced
                                           during a load */
    int64_t bytes_read;
    int64_t bytes_written;
    int64_t bytes_before;               /* of the segments below E */
    int64_t bytes_after;
    int64_t segments_before;
    int64_t segments_after;
    int64_t batches;                    /* read by passes B */
    ol_clean_counts records;
    int64_t markers_dropped;
    int64_t batches_rebuilt;
    int64_t batches_not_compressed;     /* kept whole, with their superseded records */
    int64_t keys;                       /* number of keys in the map of the last pass */
    int64_t passes;
    int64_t quarantined;                /* segments */
    ol_clean_quarantine quarantine[OL_CLEAN_QUARANTINE_KEPT];   /* the first of them */
} ol_clean_report;

/* Runs the cleaner once.  Returns OL_OK also when the run was stopped or quarantined segments; the
 * report says so.  The partition must be loaded, unless it is a replica's, and its log must be
 * writable, unless there is a sink.  A partition that is read-only because of a damaged record can
 * be cleaned.  Fails with OL_INVALID (the options), OL_LOADING, OL_FAILED, OL_READ_ONLY (the log),
 * OL_IO, OL_DISK_FULL, OL_NO_MEMORY, or the status of raise_floor or of the sink.  Even after a
 * failure, *report describes the work that was done, and every segment is either unchanged or
 * replaced. */
int ol_cleaner_run(ol_partition *partition, const ol_clean_options *options,
                   ol_clean_report *report, ol_error *error) OL_NODISCARD;

/* Like ol_cleaner_run, for the log of a topic; `use_table` and the holds are ignored.  The caller
 * must not call ol_log_delete_below during the run, and the topic must outlive the run.  Fails with
 * OL_INVALID, OL_FAILED, OL_READ_ONLY, OL_IO, OL_DISK_FULL, OL_NO_MEMORY, or the status of
 * raise_floor. */
int ol_cleaner_run_topic(ol_topic_log *topic, const ol_clean_options *options,
                         ol_clean_report *report, ol_error *error) OL_NODISCARD;

#endif
