/* history/timeline: the records of a partition's log about positions, in log order, and the offsets
 * that the log has lost.
 *
 * A walk gives a sink the offset commits, their tombstones and the ends of transactions.  It
 * decodes no keys of other records, nor of groups that the filter excludes: the first bytes of a
 * key are enough to skip them.  A sink never gets half a batch: the structure of a batch is checked
 * before its first record.  A walk skips the batches that a load skips (log/batch_walk.h).
 *
 * Missing offsets show that the log was cleaned: a log that was never cleaned has every offset.
 * Below the first missing offset the log has everything that was ever written.
 *
 * Threads: any number of threads may walk over one partition, also while it is written and cleaned.
 * No lock is held.  Calls fail as ol_batch_walk_open and ol_batch_walk_next do. */
#ifndef OL_HISTORY_TIMELINE_H
#define OL_HISTORY_TIMELINE_H

#include "base/int64_map.h"
#include "format/offset_record.h"
#include "partition/partition.h"

/* The positions that a walk reports.  Zeroed memory is a filter that reports all. */
typedef struct ol_timeline_filter {
    ol_slice group;             /* data NULL: any */
    ol_slice topic;             /* data NULL: any topic and any partition */
    int32_t partition;
    /* only positions whose ol_timeline_place is a key of this map; NULL: any */
    const ol_int64_map *places;
    bool only_tombstones;
} ol_timeline_filter;

/* Either call may be NULL.  When one fails, the walk ends with its status. */
typedef struct ol_timeline_sink {
    int (*record)(void *context, const ol_batch *batch, const ol_record *record, const ol_key *key,
                  ol_error *error);
    int (*marker)(void *context, const ol_batch *batch, const ol_record *record, ol_control type,
                  ol_error *error);
    void *context;
} ol_timeline_sink;

typedef struct ol_timeline_facts {
    int64_t first_missing;      /* the first offset that the log does not have; INT64_MAX: none */
    int64_t missing_end;        /* the offset after the last missing one; 0: none */
    int64_t max_timestamp;      /* the greatest of the batches that begin below `until`; -1: none */
    /* of the last of these batches; -1: none; INT64_MIN: there is no batch */
    int64_t last_timestamp;
    int64_t passed_over;        /* bad batches */
    int64_t refused;  /* records asked for whose keys cannot be decoded; skipped, as in a load */
} ol_timeline_facts;

/* Returns a number for (group, topic, partition).  Two positions almost never share one. */
uint64_t ol_timeline_place(const ol_key *key);

/* Walks the records of [from, until).  If `from` is at or below the log's start, the walk begins at
 * that start, and the offsets from 0 up to the log's start count as missing.  Without a sink only
 * headers are read, and the CRCs are not verified.  *facts is updated during the walk, so that the
 * sink can read it, and is valid after a failure, too. */
int ol_timeline_walk(ol_partition *partition, int64_t from, int64_t until,
                     const ol_timeline_filter *filter, const ol_timeline_sink *sink,
                     ol_timeline_facts *facts, ol_error *error) OL_NODISCARD;

/* A batch of the log: offsets [first, next). */
typedef struct ol_timeline_batch {
    int64_t first;
    int64_t next;               /* -1: no batch was found */
    int64_t timestamp;          /* the greatest of its records; -1: none */
} ol_timeline_batch;

/* Finds the first batch that ends at or above `from`.  Damaged batches do not count.  If a
 * compressed set of magic 0 or 1 cannot be inflated, only its last offset is known; `first` is that
 * offset. */
int ol_timeline_next_batch(ol_partition *partition, int64_t from, ol_timeline_batch *found,
                           ol_error *error) OL_NODISCARD;

#endif
