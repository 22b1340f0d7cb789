/* history/timeline: reads the records about positions from a partition's log, in log order, and
 * finds the log offsets that are missing from the log.
 *
 * A walk passes the offset commits, their tombstones and the markers that end transactions to a
 * sink.  It skips all other records, and the records of groups that the filter excludes, by the
 * first bytes of their keys, without decoding the keys.  A sink never receives only a part of a
 * batch, because the walk checks the structure of the whole batch before it passes the first
 * record.  A walk skips the batches that a load skips (log/batch_walk.h).
 *
 * A log that was never cleaned has a record at every offset, so missing offsets show that the log
 * was cleaned.  Below the first missing offset the log has everything that was ever written.
 *
 * Threads: any number of threads may walk over one partition, also while other threads write to it
 * or clean it.  A walk holds no lock.  The functions fail as ol_batch_walk_open and
 * ol_batch_walk_next do. */
#ifndef OL_HISTORY_TIMELINE_H
#define OL_HISTORY_TIMELINE_H

#include "base/int64_map.h"
#include "format/offset_record.h"
#include "partition/partition.h"

/* The positions that a walk reports.  With a filter of zeroed memory, a walk reports all
 * positions. */
typedef struct ol_timeline_filter {
    ol_slice group;             /* data NULL: any */
    ol_slice topic;             /* data NULL: any topic; `partition` is then ignored */
    int32_t partition;
    /* a walk reports only positions whose ol_timeline_place is a key of this map; NULL: any */
    const ol_int64_map *places;
    bool only_tombstones;
} ol_timeline_filter;

/* Either function may be NULL.  If one of them fails, the walk ends and returns its status. */
typedef struct ol_timeline_sink {
    int (*record)(void *context, const ol_batch *batch, const ol_record *record, const ol_key *key,
                  ol_error *error);
    int (*marker)(void *context, const ol_batch *batch, const ol_record *record, ol_control type,
                  ol_error *error);
    void *context;
} ol_timeline_sink;

typedef struct ol_timeline_facts {
    int64_t first_missing;      /* the first offset that the log does not have; INT64_MAX: none */
    int64_t missing_end;        /* the offset after the last missing offset; 0: none is missing */
    int64_t max_timestamp;      /* of all batches that begin below `until`; -1: none */
    /* timestamp of the last of these batches; -1: it has none; INT64_MIN: there is no batch */
    int64_t last_timestamp;
    int64_t passed_over;        /* bad batches */
    /* selected records that the walk skipped, as a load does, because their keys are malformed */
    int64_t refused;
} ol_timeline_facts;

/* Returns a number for (group, topic, partition).  Two positions almost never share one. */
uint64_t ol_timeline_place(const ol_key *key);

/* Walks over the records at log offsets [from, until).  If `from` is at or below the log's start,
 * the walk begins at the log's start, and the offsets below it count as missing.  If `sink` is
 * NULL, the walk verifies no CRCs and reads only the headers of the batches of magic 2.  *facts is
 * updated during the walk, so that the sink can read it.  It is valid after a failure, too. */
int ol_timeline_walk(ol_partition *partition, int64_t from, int64_t until,
                     const ol_timeline_filter *filter, const ol_timeline_sink *sink,
                     ol_timeline_facts *facts, ol_error *error) OL_NODISCARD;

/* A batch of the log: offsets [first, next). */
typedef struct ol_timeline_batch {
    int64_t first;
    int64_t next;               /* -1: no batch was found */
    int64_t timestamp;          /* the greatest timestamp of its records; -1: none */
} ol_timeline_batch;

/* Finds the first batch that ends at or above `from`.  Damaged batches are skipped.  If a
 * compressed message set of magic 0 or 1 cannot be decompressed, only its last offset is known, and
 * `first` is that offset. */
int ol_timeline_next_batch(ol_partition *partition, int64_t from, ol_timeline_batch *found,
                           ol_error *error) OL_NODISCARD;

#endif
