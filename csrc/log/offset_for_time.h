/* log/offset_for_time: finds the log offset of a time (docs/maintenance.md).
 *
 * The log at a time is its longest prefix whose record timestamps are all <= that time.  Timestamps
 * need not grow: clocks differ between brokers and may be set back.  A batch is never split, so the
 * prefix ends where the first batch with a greater timestamp begins.
 */
#ifndef OL_LOG_OFFSET_FOR_TIME_H
#define OL_LOG_OFFSET_FOR_TIME_H

#include "log/log.h"

/* Sets *offset to the end of that prefix, which is the end of its last batch.  If the prefix is
 * empty, that is the log's start; if every record below `until` is old enough, it is `until`.  Time
 * indexes save reading closed segments in which every record is old enough, and the part of a
 * segment before its last entry that is old enough.  A missing or damaged time index costs only
 * time.  Damaged batches do not count.  OL_NO_MEMORY, OL_IO, and as ol_log_reader_next.  May be
 * called from any thread at any time. */
int ol_log_offset_for_time(ol_log *log, int64_t timestamp_ms, int64_t until, int64_t *offset,
                           ol_error *error) OL_NODISCARD;

#endif
