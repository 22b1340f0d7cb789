/* topic/topic_log: the log of one partition of an ordinary topic, which producers append to
 * and consumers read (docs/format/topics.md §17).
 *
 * A topic log owns its log (log/log.h) and the recent batches of producers, which the log does not
 * keep.  Batches are stored and returned in the form in which they were sent.  They are
 * decompressed only to check that the records of a compacted topic have keys, and to find a record
 * by its time.
 *
 * Locks: a topic log has one lock, the writer lock.  Appends, rolls and the close take it.  They
 * hold it while they work in memory and, at the end of a segment, while they create the files of
 * the next segment.  Reads and flushes do not take the lock.  Between the open and the close, any
 * thread may make any call.
 */
#ifndef OL_TOPIC_TOPIC_LOG_H
#define OL_TOPIC_TOPIC_LOG_H

#include "log/log.h"
#include "topic/produced_batch.h"
#include "topic/recent_batches.h"

typedef struct ol_topic_log ol_topic_log;

#define OL_GIVEN_PRODUCER_ID_MAX (((int64_t)1 << 62) - 1)

/* Opens the log as ol_log_open does, and begins the leader epoch `leader_epoch`.  If the log
 * already has this epoch or a later one, no epoch is begun.  After a crash, an epoch is begun that
 * is later than all epochs in the log.  Fails as ol_log_open and ol_log_assign_epoch do. */
int ol_topic_log_open(const ol_log_options *options, int32_t leader_epoch, ol_topic_log **opened,
                      ol_log_recovery *recovery, ol_error *error) OL_NODISCARD;

/* Closes the log as ol_log_close does, and sets *end to the log end.  If the call returns OL_OK,
 * everything below *end is on disk.  No other call may be running. */
int ol_topic_log_close(ol_topic_log *topic, int64_t *end, ol_error *error) OL_NODISCARD;
void ol_topic_log_abandon(ol_topic_log *topic);

/* Exchanges the log's set of recent batches for *recent.  A caller that closes and reopens a log
 * can keep the set: it exchanges the set for an empty one before the close, and exchanges it back
 * after the open.  This is allowed only if nothing was appended in between. */
void ol_topic_log_swap_recent(ol_topic_log *topic, ol_recent_batches *recent);

/* Returns the log.  The caller may use it for all functions that are not marked [writer] in
 * log/log.h. */
ol_log *ol_topic_log_log(const ol_topic_log *topic);

typedef struct ol_appended {
    int64_t base_offset;
    /* the offset after the batch; the batch is on disk once the log is flushed up to this offset */
    int64_t next_offset;
    /* for a duplicate: the greatest timestamp of the batch in the log; otherwise: the time that
     * replaced the timestamps of the records, or -1 if the topic keeps the timestamps */
    int64_t log_append_time;
    bool is_duplicate;          /* the batch was already in the log */
    ol_produced_batch produced; /* with the refusal; points into the bytes */
} ol_appended;

/* Appends the batch that a producer sent.  After a failure the log is unchanged.  If the batch is
 * refused, the call fails with OL_CORRUPT and sets appended->produced.refusal.  The other failures
 * are OL_DISK_FULL, OL_IO, OL_NO_MEMORY, OL_READ_ONLY, OL_FAILED, and OL_TOO_LARGE if the batch
 * does not fit a segment. */
int ol_topic_log_produce(ol_topic_log *topic, ol_slice bytes, const ol_produce_rules *rules,
                         ol_appended *appended, ol_error *error) OL_NODISCARD;

/* Returns the first offset of the oldest open transaction, or the log end if no transaction is
 * open. */
int64_t ol_topic_log_first_unstable(ol_topic_log *topic);
/* Returns the greatest producer id that was ever in the log, or -1 if there was none.  Ids above
 * OL_GIVEN_PRODUCER_ID_MAX are ignored: clients chose them, and the ids that a broker gives out
 * next must not continue from them. */
int64_t ol_topic_log_highest_producer_id(ol_topic_log *topic);

/* The facts about the log that a cleaner needs.  All of them belong to the same moment. */
typedef struct ol_topic_stable {
    int64_t log_end;
    int64_t first_unstable;     /* the log end if no transaction is open */
    ol_log_producer_state *producers;   /* in ascending order of ids; the caller frees them */
    size_t producer_count;
} ol_topic_stable;
int ol_topic_log_stable(ol_topic_log *topic, ol_topic_stable *stable,
                        ol_error *error) OL_NODISCARD;

/* Sets *options to the log's present options.  The options point into the topic log and are valid
 * as long as the topic log is. */
void ol_topic_log_options(ol_topic_log *topic, ol_log_options *options);

/* The rules that decide which part of its log a topic keeps (docs/format/topics.md §17.6). */
typedef struct ol_retention_rules {
    int64_t now_ms;
    /* a segment is removed if its newest record is more than this many ms old; -1: no limit */
    int64_t retention_ms;
    /* the oldest segment is removed as long as the other segments together have at least this many
     * bytes; -1: no limit */
    int64_t retention_bytes;
    /* consumers may read up to this offset; nothing at or above it is removed */
    int64_t below;
} ol_retention_rules;

/* Sets *start to the offset at which the log should begin according to the rules.  If nothing is to
 * be removed, this is the present log start.  If every segment is to be removed, the call begins a
 * new segment for later batches.  It flushes everything below *start.  Fails as ol_log_roll_active,
 * ol_log_segment_files_at and ol_log_flush do. */
int ol_topic_log_retained_from(ol_topic_log *topic, const ol_retention_rules *rules, int64_t *start,
                               ol_error *error) OL_NODISCARD;

/* Changes the configuration of the log as ol_log_change_config does. */
int ol_topic_log_change_config(ol_topic_log *topic, const ol_log_config *config,
                               ol_error *error) OL_NODISCARD;

/* A record that was found by its time.  If no record was found, its offset is -1. */
typedef struct ol_timed_record {
    int64_t offset;
    int64_t timestamp;
    int32_t leader_epoch;
} ol_timed_record;

/* Finds the first record below the offset `until` whose timestamp is at or after `from_time` (in
 * ms).  `until` must be the end of a batch.  Compressed batches are decompressed with
 * `decompressor`; if it is NULL, the call fails with OL_UNSUPPORTED at a compressed batch.  Can
 * also fail with OL_CORRUPT, OL_IO or OL_NO_MEMORY. */
int ol_topic_log_find_time(ol_log *log, const ol_decompressor *decompressor, int64_t from_time,
                           int64_t until, ol_timed_record *found, ol_error *error) OL_NODISCARD;

/* Finds the record with the greatest timestamp among the records below the offset `until`.  If
 * several records have that timestamp, finds the first of them.  In all other respects the call is
 * like ol_topic_log_find_time. */
int ol_topic_log_find_newest(ol_log *log, const ol_decompressor *decompressor, int64_t until,
                             ol_timed_record *found, ol_error *error) OL_NODISCARD;

#endif
