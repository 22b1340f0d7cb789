/* log/offset_for_time: finds the place of a time in the log (docs/maintenance.md).
 *
 * A moment is the longest prefix of the log whose record timestamps are all <= it.  Timestamps need
 * not grow: clocks differ between brokers, and go back.  A batch is never split, so the prefix ends
 * where the first batch with a greater timestamp begins.
 */
#ifndef OL_LOG_OFFSET_FOR_TIME_H
#define OL_LOG_OFFSET_FOR_TIME_H

#include "log/log.h"

/* Sets *offset to the end of that prefix: the end of its last batch, or the log's start if it is
 * empty; `until` if every record below `until` is old enough.  A time index saves reading: closed
 * segments whose every record is old enough, and the part of a segment before its last such entry.
 * A time index that is missing or damaged costs time only.  Damaged batches do not count.
 * OL_NO_MEMORY, OL_IO, and as ol_log_reader_next.  May be called from any thread at any time. */
int ol_log_offset_for_time(ol_log *log, int64_t timestamp_ms, int64_t until, int64_t *offset,
                           ol_error *error) OL_NODISCARD;

#endif
