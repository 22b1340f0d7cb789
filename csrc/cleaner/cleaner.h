/* cleaner/cleaner: what was superseded goes out of a partition's closed segments (docs/format/cleaner.md §8, docs/maintenance.md).
 *
 * One run works on the segments that lie wholly below an end E that nothing can take back: what is flushed, below W, below every open
 * transaction and below `end_max`, rounded down to the start of a segment.  A record is live when no later one of its slot is below E: for offset
 * records the slot is (group, topic, partition) whatever the version of the key, for all others the bytes of the key.  Replaying
 * what a run leaves gives the state that it found, by every digest, at every moment of the run: segments are replaced one group after the other, in
 * ascending order, each by one swap (log/segment_rewrite.h).
 *
 * A run reads twice.  Pass A walks the dirty part [first_dirty, E) and keeps the last offset of every key in a map of fixed size (cleaner/key_map.h);
 * pass B rewrites all segments below E.  Where not all keys fit the map, that is done again for the rest, with one pass A and one pass B more, until
 * E is reached.  With `use_table` the partition's table answers for the keys it can once they do not fit, and the map holds the others.
 *
 * It never dies of what it reads.  A batch with a wrong checksum or structure quarantines its segment: that one stays as it is and is reported,
 * everything else goes on, but no tombstone and no transaction marker above its base is dropped while it is there.  So it is with a batch that cannot be
 * inflated.  A batch that cannot be compressed again stays whole, and no tombstone above it is dropped in that run.
 *
 * What it needs to be true of `first_dirty`: nothing, for safety.  A tombstone or marker goes only in a run that has seen that nothing is left for it to
 * delete or to end.  A `first_dirty` that is too high (or a hold that was lifted) leaves superseded records behind until their key is written
 * again; -1 makes all of the log dirty.
 *
 * Locks: the partition's writer lock for the moment in which E is found, and with `use_table` the table lock for some hundred keys at a time.  One run
 * at a time on a partition; commits, reads, rolls and flushes go on.  The partition outlives the run. */
#ifndef OL_CLEANER_CLEANER_H
#define OL_CLEANER_CLEANER_H

#include <stdatomic.h>

#include "cleaner/rebuild_batch.h"
#include "partition/partition.h"

/* Records of these groups at or above `end` are left alone, whether superseded or not, and supersede nothing (min_history of a group).  Of
 * several that match a group the lowest end counts. */
typedef struct ol_clean_hold {
    ol_slice group;             /* all of a group's name, or how it begins */
    bool is_prefix;
    int64_t end;                /* log offset */
} ol_clean_hold;

/* Readable at any time while a run goes on, each field by itself. */
typedef struct ol_clean_progress {
    _Atomic int64_t bytes_read;
    _Atomic int64_t bytes_written;
    _Atomic int64_t bytes_total;        /* that will be read, as far as is known: grows when another pass is needed */
    _Atomic int64_t records_read;
    _Atomic int64_t passes;             /* begun */
    _Atomic int64_t segments_after;     /* put in place so far */
} ol_clean_progress;

/* Where the batches of a clean go that changes nothing of the log: what it would leave, in the order of the log, each whole and with a right checksum. */
typedef struct ol_clean_sink {
    /* Anything but OL_OK ends the run with that status, which must not be one that says something of bytes (OL_CLOSED will do).  `batch` borrows. */
    int (*take)(void *context, const ol_batch *batch, ol_error *error);
    void *context;
    bool takes_active;                  /* the active segment too, up to where a transaction is open, as if it had just been closed */
} ol_clean_sink;

typedef struct ol_clean_options {
    int64_t first_dirty;                /* cleaner checkpoint, -1 none: all of the log is dirty */
    int64_t end_max;                    /* nothing at or above it is cleaned; INT64_MAX none */
    const ol_clean_hold *holds;
    size_t hold_count;
    int64_t now_ms;
    int64_t delete_retention_ms;        /* how long tombstones and markers stay after the run that first found them alone */
    size_t map_bytes;                   /* for the keys of one pass, at least OL_CLEAN_MAP_BYTES_MIN; up to an eighth of it beside them */
    int64_t bytes_per_second;           /* read and written together; 0 no limit */
    const _Atomic bool *stop;           /* may be NULL; looked at once per piece of at most 1 MiB, and while throttled */
    bool use_table;
    const ol_compressor *compressor;    /* may be NULL */
    ol_clean_progress *progress;        /* may be NULL */
    const ol_clean_sink *sink;          /* may be NULL; else nothing is replaced, flushed or written, the log may be read-only, and one pass is run */
    /* Called before the first segment of a run is replaced: from then on states below `floor`, which is E, cannot be told any more.  Where that must be
     * known after a crash it is written down here.  Anything but OL_OK ends the run with that status. */
    int (*raise_floor)(void *context, int64_t floor, ol_error *error);
    void *raise_floor_context;
} ol_clean_options;

#define OL_CLEAN_MAP_BYTES_MIN ((size_t)4 << 10)
#define OL_CLEAN_MAP_BYTES_DEFAULT ((size_t)64 << 20)
#define OL_CLEAN_QUARANTINE_KEPT 16

/* Everything dirty, nothing held, Kafka's delete retention, the default map, no limit; now_ms is 0. */
void ol_clean_options_init(ol_clean_options *options);

typedef struct ol_clean_quarantine {
    int64_t segment_base;
    ol_error error;                     /* path, position, offset and reason of the first bad batch */
} ol_clean_quarantine;

/* Of the records that passes B read, control records left out; a record that several passes met counts for each. */
typedef struct ol_clean_counts {
    int64_t read;
    int64_t kept;
    int64_t superseded;                 /* dropped, tombstones that were superseded included */
    int64_t tombstones_dropped;         /* of which nothing was left to delete, after their time */
    int64_t aborted_dropped;
    int64_t keyless_dropped;
} ol_clean_counts;

typedef struct ol_clean_report {
    int64_t end;                        /* the new cleaner checkpoint, from which the next run has to begin: where the last complete pass ended, or before a
                                         * transaction that was open there; first_dirty (or -1) where no pass is complete */
    int64_t floor;                      /* states below it may be gone; at or above `end` (see raise_floor); -1 none */
    int64_t target;                     /* E */
    int64_t told_end;                   /* with a sink: everything below it that stays was told, but for what is in quarantined segments; what stands above is
                                         * as it is in the log */
    int64_t log_end;                    /* when the run began */
    bool complete;                      /* E was reached; as long as the next run's E is the same, it has nothing to do but what time brings */
    bool stopped;                       /* by the flag */
    bool truncated;                     /* the log was cut meanwhile; what is left to do is another run's */
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
    int64_t batches_not_compressed;     /* kept whole, with what was superseded in them */
    int64_t keys;                       /* in the map of the last pass */
    int64_t passes;
    int64_t quarantined;                /* segments */
    ol_clean_quarantine quarantine[OL_CLEAN_QUARANTINE_KEPT];   /* the first of them */
} ol_clean_report;

/* OL_OK also when it was stopped or segments were quarantined; the report says so.  The partition must have been loaded, its log must be writable; one that is
 * read-only because a record is damaged can be cleaned.
 * Fails with OL_LOADING, OL_FAILED, OL_READ_ONLY (the log), OL_IO, OL_DISK_FULL, OL_NO_MEMORY, what raise_floor said; *report tells all the same what was
 * done before, and every segment is as it was or replaced. */
int ol_cleaner_run(ol_partition *partition, const ol_clean_options *options, ol_clean_report *report, ol_error *error) OL_NODISCARD;

#endif
