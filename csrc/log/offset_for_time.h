/* log/offset_for_time: finds the log offset of a time (docs/maintenance.md).
 *
 * The log at a given time is its longest prefix in which all record timestamps are at or before
 * that time.  The timestamps in a log need not ascend, because the clocks of brokers differ and may
 * be set back.  A batch is never split: the prefix ends where the first batch with a later
 * timestamp begins. */
#ifndef OL_LOG_OFFSET_FOR_TIME_H
#define OL_LOG_OFFSET_FOR_TIME_H

#include "log/log.h"

/* Finds where the log ended at the time `timestamp_ms`.  Below, a batch is "later" if it has a
 * record with a timestamp after that time.  Sets *offset to the end of the last batch before the
 * first later batch.  If the first batch of the log is later, *offset is the log start.  If no
 * batch below `until` is later, *offset is `until`.
 *
 * The function uses the time indexes to skip segments, and parts of segments, without a later
 * batch.  A missing or damaged time index only costs time.  Damaged batches do not count.  Fails
 * with OL_NO_MEMORY or OL_IO, or as ol_log_reader_next does.  May be called from any thread at any
 * time. */
int ol_log_offset_for_time(ol_log *log, int64_t timestamp_ms, int64_t until, int64_t *offset,
                           ol_error *error) OL_NODISCARD;

#endif
