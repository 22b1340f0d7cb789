/* history/timeline: what the log of a partition says about positions, record by record, and what it no longer says.
 *
 * A walk goes over the log in its order and tells a sink the offset commits, their tombstones and the ends of transactions; of all other
 * records, and of positions that the filter leaves out, only the key's first bytes are looked at.  Half a batch is never told: its structure is
 * checked before its first record.  What a load passes over is passed over here (ol_batch_walk).
 *
 * Offsets that are missing tell that the log was cleaned: a log that was not has every one.  Below the first that is missing everything
 * that was ever written is there.
 *
 * Threads: any number of walks over one partition, also while it is written to and cleaned.  No lock is held.
 */
#ifndef OL_HISTORY_TIMELINE_H
#define OL_HISTORY_TIMELINE_H

#include "base/int64_map.h"
#include "format/offset_record.h"
#include "partition/partition.h"

/* What is looked for.  Zeroed: everything. */
typedef struct ol_timeline_filter {
    ol_slice group;             /* data NULL: every one */
    ol_slice topic;             /* data NULL: every one, and every partition */
    int32_t partition;
    const ol_int64_map *places;   /* NULL, or only where ol_timeline_place is a key of it */
    bool only_tombstones;
} ol_timeline_filter;

/* Either may be NULL.  A failure ends the walk with it. */
typedef struct ol_timeline_sink {
    int (*record)(void *context, const ol_batch *batch, const ol_record *record, const ol_key *key, ol_error *error);
    int (*marker)(void *context, const ol_batch *batch, const ol_record *record, ol_control type, ol_error *error);
    void *context;
} ol_timeline_sink;

typedef struct ol_timeline_facts {
    int64_t first_missing;      /* the first offset at or above the log's very beginning that is not there, INT64_MAX none */
    int64_t missing_end;        /* behind the last one, 0 none */
    int64_t max_timestamp;      /* of all batches that begin below `until`, -1 none */
    int64_t passed_over;        /* bad batches */
    int64_t refused;            /* records of the filter that cannot be decoded, which a load passes over too */
} ol_timeline_facts;

/* Where a position is: equal places have equal numbers, and others nearly never. */
uint64_t ol_timeline_place(const ol_key *key);

/* Walks the records of [from, until).  `from` below the log's start is that start; what then is missing counts from offset 0 on.
 * Without a sink only headers are read, and the CRCs are not checked.  *facts is filled in as the walk goes, also for the sink to see, and whatever
 * ends it. */
int ol_timeline_walk(ol_partition *partition, int64_t from, int64_t until, const ol_timeline_filter *filter,
                     const ol_timeline_sink *sink, ol_timeline_facts *facts, ol_error *error) OL_NODISCARD;

/* The timestamp of the first batch that ends at or above `from` and begins below `until`, -1 where there is none. */
int ol_timeline_next_timestamp(ol_partition *partition, int64_t from, int64_t until, int64_t *timestamp, ol_error *error)
    OL_NODISCARD;

#endif
