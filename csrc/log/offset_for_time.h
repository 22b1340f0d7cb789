/* log/offset_for_time: finds the log offset of a time (docs/maintenance.md).
 *
 * The log at a time is its longest prefix whose record timestamps are all <= that time.  Timestamps
 * need not grow: clocks differ between brokers and may be set back.  A batch is never split, so the
 * prefix ends where the first batch with a greater timestamp begins.
 */
#ifndef OL_LOG_OFFSET_FOR_TIME_H
#define OL_LOG_OFFSET_FOR_TIME_H

#include "log/log.h"

/* Sets *offset to the end of the log at the time `timestamp_ms`: the end of the last batch whose
 * records, and all records before, are not later.  That is the log's start if the first batch is
 * later, and `until` if every record below `until` is old enough.  Time indexes save reading closed
 * segments in which every record is old enough, and the part of a segment before its last entry
 * that is old enough.  A missing or damaged time index costs only time.  Damaged batches do not
 * count.  Fails with OL_NO_MEMORY or OL_IO, or as ol_log_reader_next does.  May be called from any
 * thread at any time. */
int ol_log_offset_for_time(ol_log *log, int64_t timestamp_ms, int64_t until, int64_t *offset,
                           ol_error *error) OL_NODISCARD;

#endif
