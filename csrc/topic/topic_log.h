/* topic/topic_log: the log of one partition of an ordinary topic, which producers append to
 * and consumers read (docs/format/topics.md §17).
 *
 * A topic log owns its log (log/log.h) and the recent batches of producers, which the log does not
 * keep.  Records are stored and read as they came.  They are decompressed only to check that the
 * records of a compacted topic have keys, and to find a record by its time.
 *
 * Locks: a single writer's lock, taken by appends, rolls and the close; it is held for work in
 * memory and, when a segment ends, while the files of the next one are made.  Reading and flushing
 * do not take this lock.  Every call may be made from any thread between open and close.
 */
#ifndef OL_TOPIC_TOPIC_LOG_H
#define OL_TOPIC_TOPIC_LOG_H

#include "log/log.h"
#include "topic/produced_batch.h"
#include "topic/recent_batches.h"

typedef struct ol_topic_log ol_topic_log;

#define OL_GIVEN_PRODUCER_ID_MAX (((int64_t)1 << 62) - 1)

/* Opens the log, as ol_log_open does, and begins the leader epoch `leader_epoch`, unless the log
 * has it or a later one.  After a crash it begins an epoch that is later than all in the log.
 * Fails as ol_log_open and ol_log_assign_epoch do. */
int ol_topic_log_open(const ol_log_options *options, int32_t leader_epoch, ol_topic_log **opened,
                      ol_log_recovery *recovery, ol_error *error) OL_NODISCARD;

/* Closes the log as ol_log_close does and sets *end to the log end; after OL_OK everything below it
 * is on disk.  No other call may run. */
int ol_topic_log_close(ol_topic_log *topic, int64_t *end, ol_error *error) OL_NODISCARD;
void ol_topic_log_abandon(ol_topic_log *topic);

/* Exchanges the log's set of its producers' last batches for `recent`.  To keep the set when a log
 * is closed and opened again, exchange it for an empty set before the close, and put it back after
 * the open, provided that nothing was appended in between. */
void ol_topic_log_swap_recent(ol_topic_log *topic, ol_recent_batches *recent);

/* Returns the log, for calls that are not marked [writer] in log/log.h. */
ol_log *ol_topic_log_log(const ol_topic_log *topic);

typedef struct ol_appended {
    int64_t base_offset;
    /* the offset after the batch; once the log is flushed up to it, the batch is on disk */
    int64_t next_offset;
    int64_t log_append_time;    /* if the topic replaces timestamps, or for a duplicate; else -1 */
    bool is_duplicate;          /* it was in the log already */
    ol_produced_batch produced; /* with the refusal; borrows from the bytes */
} ol_appended;

/* Appends the batch that a producer sent.  A failure changes nothing.  Fails with OL_CORRUPT and a
 * refusal, or without a refusal with OL_DISK_FULL, OL_IO, OL_NO_MEMORY, OL_TOO_LARGE (for a
 * segment), OL_READ_ONLY or OL_FAILED. */
int ol_topic_log_produce(ol_topic_log *topic, ol_slice bytes, const ol_produce_rules *rules,
                         ol_appended *appended, ol_error *error) OL_NODISCARD;

/* Returns the first offset of the oldest open transaction; the log end if none is open. */
int64_t ol_topic_log_first_unstable(ol_topic_log *topic);
/* Returns the greatest producer id that was ever in the log; -1: none.  Ids above
 * OL_GIVEN_PRODUCER_ID_MAX are ignored: clients invented them, and the next id that is given out
 * must not follow them. */
int64_t ol_topic_log_highest_producer_id(ol_topic_log *topic);

/* The facts that a cleaner needs about the log, all as of one moment. */
typedef struct ol_topic_stable {
    int64_t log_end;
    int64_t first_unstable;     /* the log end if no transaction is open */
    ol_log_producer_state *producers;   /* ascending by id; the caller frees them */
    size_t producer_count;
} ol_topic_stable;
int ol_topic_log_stable(ol_topic_log *topic, ol_topic_stable *stable,
                        ol_error *error) OL_NODISCARD;

/* Fills in the log's options as they are now.  The options borrow from the topic log and are valid
 * as long as it is. */
void ol_topic_log_options(ol_topic_log *topic, ol_log_options *options);

/* The rules for the part of a log that a topic keeps (docs/format/topics.md §17.6). */
typedef struct ol_retention_rules {
    int64_t now_ms;
    int64_t retention_ms;       /* a segment is removed when its newest record is older; -1: it
                                   stays */
    int64_t retention_bytes;    /* the oldest segment is removed while the others together have at
                                   least this many bytes; -1: all stay */
    int64_t below;              /* nothing at or above this offset is removed; consumers may read up
                                   to here */
} ol_retention_rules;

/* Sets *start to the offset at which the log should begin according to the rules; it is the log
 * start if nothing is to be removed.  If every segment is to be removed, a new one is begun for
 * later batches.  Everything below *start is flushed.  Fails as ol_log_roll_active,
 * ol_log_segment_files_at and ol_log_flush. */
int ol_topic_log_retained_from(ol_topic_log *topic, const ol_retention_rules *rules, int64_t *start,
                               ol_error *error) OL_NODISCARD;

/* As ol_log_change_config. */
int ol_topic_log_change_config(ol_topic_log *topic, const ol_log_config *config,
                               ol_error *error) OL_NODISCARD;

/* A record that was found by its time; offset -1: there is none. */
typedef struct ol_timed_record {
    int64_t offset;
    int64_t timestamp;
    int32_t leader_epoch;
} ol_timed_record;

/* Finds the first record below `until` whose time is at or after `from_time` (ms).  A batch must
 * end at `until`.  Compressed batches are decompressed with the log's decompressor; without one the
 * call fails with OL_UNSUPPORTED.  Fails also with OL_CORRUPT, OL_IO, OL_NO_MEMORY. */
int ol_topic_log_find_time(ol_log *log, const ol_decompressor *decompressor, int64_t from_time,
                           int64_t until, ol_timed_record *found, ol_error *error) OL_NODISCARD;

/* Finds the record with the greatest timestamp below `until`, the first one if several have it;
 * otherwise like ol_topic_log_find_time. */
int ol_topic_log_find_newest(ol_log *log, const ol_decompressor *decompressor, int64_t until,
                             ol_timed_record *found, ol_error *error) OL_NODISCARD;

#endif
